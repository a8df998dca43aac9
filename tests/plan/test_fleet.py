"""A layout becomes servers in linted files, with the lines that the release prints."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rows import in_one_test
from vllm_runbooks.catalog import folders, options
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.lint import checking
from vllm_runbooks.lint.render import wrong
from vllm_runbooks.plan import confirmation, fleet, planner
from vllm_runbooks.plan.fleet import Host, InstancePart, ParallelSizes
from vllm_runbooks.reading import documents

RELEASES = ("0.7.2", "0.8.5", "0.11.0", "0.16.0", "0.19.0", "0.32.0")
EIGHT = (Host(tuple("01234567")),)
FOUR_AND_FOUR = (Host(tuple("0123"), "gpu-a"), Host(tuple("0123"), "gpu-b"))
MODEL = "Qwen/Qwen2.5-32B-Instruct"
FLAGS = {"max_model_len": 16384, "gpu_memory_utilization": 0.92, "limit_mm_per_prompt": {"image": 0}, "seed": None}
LAYOUTS = {
    "8 x 1": (EIGHT, 8, ParallelSizes()),
    "4 x tp2": (EIGHT, 4, ParallelSizes(tp=2)),
    "1 x tp4 pp2": (EIGHT, 1, ParallelSizes(tp=4, pp=2)),
    "2 x tp2 dp2": (EIGHT, 2, ParallelSizes(tp=2, dp=2)),
    "two hosts, 4 x tp2": (FOUR_AND_FOUR, 4, ParallelSizes(tp=2)),
    "two hosts, 1 x tp4 pp2": (FOUR_AND_FOUR, 1, ParallelSizes(tp=4, pp=2)),
}
LOGS = folders.cases_dir()


CASES = [(version, layout) for version in RELEASES for layout in LAYOUTS if "dp" not in layout or version != "0.7.2"]
"""All options except those that the release lacks."""


def laid_out(version: str, layout: str) -> tuple[InstancePart, ...]:
    hosts, replicas, split = LAYOUTS[layout]
    return fleet.instances(MODEL, options.load(version), hosts, replicas=replicas, split=split, flags=FLAGS)


def on_hosts(parts: tuple[InstancePart, ...]) -> list[list[InstancePart]]:
    return [[part for part in parts if part.node == node] for node in dict.fromkeys(part.node for part in parts)]


def issues(text: str, name: str, version: str) -> list[tuple[str, str]]:
    return [(issue.rule, issue.message) for issue in wrong(checking.lint_text(text, name=name, vllm=version).issues)]


def words(part: InstancePart) -> str:
    return " ".join(word or "?" for word in part.deployment.words)


@in_one_test(("version", "layout"), CASES)
def test_every_file_passes_the_linter(version: str, layout: str) -> None:
    """Script, compose file and units of each host: no issue, and the right number of servers."""
    parts = laid_out(version, layout)
    for own in on_hosts(parts):
        files = {"serve.sh": fleet.shell(own)}
        if not any(part.joined for part in own):
            files["compose.yaml"] = fleet.compose(own)
        for name, text in files.items():
            assert issues(text, name, version) == [], name
            assert len(documents.read(text, name).starts) == len(own)
        for name, text in fleet.systemd(own).items():
            assert issues(text, name, version) == [], name


@pytest.mark.parametrize("form", ["shell", "compose"])
def test_each_instance_has_its_own_gpus_and_port(form: str) -> None:
    """Model and sizes are the same when read back."""
    own = list(laid_out("0.19.0", "4 x tp2"))
    text = fleet.shell(own) if form == "shell" else fleet.compose(own)
    starts = documents.read(text, "a.sh" if form == "shell" else "compose.yaml").starts
    seen = [(start.gpus.devices if start.gpus else None, [word.value for word in start.words]) for start in starts]

    assert [devices for devices, _ in seen] == [("0", "1"), ("2", "3"), ("4", "5"), ("6", "7")]
    for number, (_, given) in enumerate(seen):
        assert given[:7] == [MODEL, "--host", "127.0.0.1", "--port", str(8000 + number), "--tensor-parallel-size", "2"]


def test_replicas_within_one_server_are_one_instance() -> None:
    """With all their GPUs; default sizes are not written."""
    parts = laid_out("0.19.0", "2 x tp2 dp2")

    assert [part.deployment.gpus for part in parts] == [tuple("0123"), tuple("4567")]
    assert all("--tensor-parallel-size 2 --data-parallel-size 2 " in words(part) for part in parts)
    assert not any("pipeline" in words(part) for part in parts)


def test_arguments_that_the_layout_sets_are_replaced() -> None:
    """The planned launch may have other sizes, another port and another address."""
    flags = {"tensor_parallel_size": 8, "port": 9, "host": "10.0.0.1", "model": "a", "seed": 3}
    (part,) = fleet.instances(
        MODEL, options.load("0.19.0"), EIGHT, split=ParallelSizes(tp=2), flags=flags, first_port=7000
    )

    assert words(part) == f"{MODEL} --host 127.0.0.1 --port 7000 --tensor-parallel-size 2 --seed 3"


@pytest.mark.parametrize(
    ("version", "limit"), [("0.7.2", "--limit-mm-per-prompt image=0"), ("0.8.5", '--limit-mm-per-prompt {"image": 0}')]
)
def test_values_have_the_syntax_of_the_release(version: str, limit: str) -> None:
    """Older releases read pairs instead of JSON."""
    assert limit in words(laid_out(version, "8 x 1")[0])


def test_an_option_that_the_release_lacks_is_rejected() -> None:
    """It is neither dropped silently nor written."""
    with pytest.raises(InputError, match=r"vLLM 0\.7\.2 has no --data-parallel-size"):
        laid_out("0.7.2", "2 x tp2 dp2")
    with pytest.raises(InputError, match="has no --max-modle-len"):
        fleet.instances(MODEL, options.load("0.19.0"), EIGHT, flags={"max_modle_len": 1})


def test_an_instance_over_two_hosts_is_a_command_on_each() -> None:
    """Only the first one has a port; further requirements are printed."""
    first, second = laid_out("0.16.0", "two hosts, 1 x tp4 pp2")
    joined = "--tensor-parallel-size 4 --pipeline-parallel-size 2 --nnodes 2 --master-addr gpu-a"

    assert f"--host gpu-a --port 8000 {joined} --node-rank 0 " in words(first)
    assert f"{joined} --node-rank 1 --headless " in words(second)
    assert "--port" not in words(second)
    assert (first.node, first.serves, second.node, second.serves) == ("gpu-a", True, "gpu-b", False)
    assert any("NCCL_SOCKET_IFNAME" in one for one in first.unwritten)


def test_if_ray_joins_the_hosts_no_gpu_is_selected() -> None:
    """Ray assigns the GPUs it was started with on each host."""
    (part,) = laid_out("0.8.5", "two hosts, 1 x tp4 pp2")

    assert "--distributed-executor-backend ray" in words(part)
    assert part.deployment.gpus is None
    assert "CUDA_VISIBLE_DEVICES" not in dict(part.deployment.environment)
    assert "one Ray cluster" in part.unwritten[0]
    assert "the same releases of vLLM, Ray and Python" in part.unwritten[1]
    assert all(f"# {one}\n" in fleet.shell([part]) for one in part.unwritten)


def test_ray_does_not_deduplicate_lines() -> None:
    """By default it folds lines that differ in numbers (ray/_private/ray_constants.py)."""
    (joined,) = laid_out("0.8.5", "two hosts, 1 x tp4 pp2")
    release, flags = options.load("0.19.0"), {"distributed_executor_backend": "ray"}
    (asked,) = fleet.instances(MODEL, release, EIGHT, split=ParallelSizes(tp=8), flags=flags)

    assert "RAY_DEDUP_LOGS=0 \\\n" in fleet.shell([joined])
    assert "Environment=RAY_DEDUP_LOGS=0\n" in fleet.systemd([joined])["vllm-8000.service"]
    assert 'RAY_DEDUP_LOGS: "0"' in fleet.compose([asked])
    assert not any("RAY" in fleet.shell(own) for own in on_hosts(laid_out("0.19.0", "two hosts, 1 x tp4 pp2")))


def test_no_container_is_written_if_ray_joins_the_hosts() -> None:
    """Its server would start another Ray; script and unit say so."""
    own = laid_out("0.8.5", "two hosts, 1 x tp4 pp2")

    with pytest.raises(InputError, match="In containers, Ray must run in the server's container"):
        fleet.compose(own)
    assert "# In containers, Ray must run in the server's container" in fleet.shell(own)
    assert "# In containers, Ray must run in the server's container" in fleet.systemd(own)["vllm-8000.service"]


def test_servers_reachable_from_other_hosts_require_a_key() -> None:
    """It is set at launch and written to no file."""
    own = on_hosts(laid_out("0.19.0", "two hosts, 4 x tp2"))[1]

    assert [part.port for part in own] == [8002, 8003]
    assert 'export VLLM_API_KEY="${VLLM_API_KEY:?}"' in fleet.shell(own)
    assert 'VLLM_API_KEY: "${VLLM_API_KEY:?}"' in fleet.compose(own)
    assert all("EnvironmentFile=" in text for text in fleet.systemd(own).values())


@pytest.mark.parametrize("key", ["sk-abcdef1234567890", ["sk-abcdef1234567890"]])
def test_a_key_has_one_name_wherever_it_is_needed(key: str | list[str]) -> None:
    """The variable that vLLM reads it from (0.16.0 envs.py), and none where nothing is served."""
    hosts, replicas, split = LAYOUTS["two hosts, 1 x tp4 pp2"]
    made = fleet.instances(MODEL, options.load("0.16.0"), hosts, replicas=replicas, split=split, flags={"api_key": key})
    first, second = ([fleet.shell([part]), fleet.compose([part]), *fleet.systemd([part]).values()] for part in made)

    assert all("VLLM_API_KEY" in text and "ARG_" not in text and "--api-key" not in text for text in first)
    assert not any("API_KEY" in text or "--api-key" in text for text in second)
    assert "sk-abcdef" not in "".join([*first, *second])


def test_several_keys_stay_arguments() -> None:
    """They take precedence over the variable (0.16.0 api_server.py); each is a variable."""
    hosts, keys = FOUR_AND_FOUR, ["sk-abcdef1234567890", "sk-bcdefg1234567890"]
    part = fleet.instances(MODEL, options.load("0.16.0"), hosts, flags={"api_key": keys})[0]
    text = fleet.shell([part])

    assert "# Set before: VLLM_API_KEY, ARG_API_KEY.\n" in text
    assert '--api-key "${VLLM_API_KEY:?}" "${ARG_API_KEY:?}"' in text
    assert "export VLLM_API_KEY" not in text


def test_a_unit_does_not_launch_without_its_key() -> None:
    """It names its file's variables, waits for the network, and its shell test works in systemd."""
    (text, *_) = fleet.systemd(on_hosts(laid_out("0.19.0", "two hosts, 4 x tp2"))[1]).values()
    guard = re.search(r"^ExecStartPre=/bin/sh -c '(.*)'$", text, re.MULTILINE)

    assert guard is not None
    assert "# It sets: VLLM_API_KEY; a line NAME=value each, readable by root alone.\nEnvironmentFile=" in text
    assert "Wants=network-online.target\nAfter=network-online.target\n" in text
    for environment, status in (({}, 1), ({"VLLM_API_KEY": ""}, 1), ({"VLLM_API_KEY": "a b"}, 0)):
        done = subprocess.run(["/bin/sh", "-c", guard[1].replace("$$", "$")], env=environment, check=False)
        assert done.returncode == status
    alone = fleet.systemd(laid_out("0.19.0", "8 x 1"))["vllm-8000.service"]
    assert "ExecStartPre" not in alone
    assert "Wants=network-online.target\n" in alone


def test_a_part_without_a_server_is_labelled() -> None:
    """In the head of its script and compose file."""
    first, second = on_hosts(laid_out("0.16.0", "two hosts, 1 x tp4 pp2"))

    assert "# 1 instance of vLLM on gpu-a, port 8000.\n" in fleet.shell(first)
    for text in (fleet.shell(second), fleet.compose(second)):
        assert (
            "# vLLM on gpu-b: GPUs for the server on port 8000 of another host, without a server on this host.\n"
            in text
        )


def test_uncertainties_are_in_every_file() -> None:
    """As comments of one line each."""
    own = laid_out("0.19.0", "4 x tp2")
    for text in (
        fleet.shell(own, ["not\nsure"]),
        fleet.compose(own, ["not\nsure"]),
        *fleet.systemd(own, ["not\nsure"]).values(),
    ):
        assert "# not sure\n" in text


def test_a_compose_file_checks_the_health_of_each_service() -> None:
    """On its own port, with a program of the image; host IPC and network, and listed GPUs."""
    services = YAML(typ="safe").load(fleet.compose(list(laid_out("0.19.0", "4 x tp2"))))["services"]

    assert list(services) == ["vllm-8000", "vllm-8001", "vllm-8002", "vllm-8003"]
    for number, service in enumerate(services.values()):
        (device,) = service["deploy"]["resources"]["reservations"]["devices"]
        assert device["device_ids"] == [str(2 * number), str(2 * number + 1)]
        assert (service["ipc"], service["network_mode"]) == ("host", "host")
        assert "ports" not in service
        assert service["healthcheck"]["test"][1] == "python3"
        assert f"http://127.0.0.1:{8000 + number}/health" in service["healthcheck"]["test"][3]


@pytest.mark.parametrize(
    ("hosts", "replicas", "split", "message"),
    [
        (EIGHT, 5, ParallelSizes(tp=2), "5 x 2 GPUs needed, 8 available"),
        ((Host(("0", "0")),), 1, ParallelSizes(), "listed twice"),
        ((Host(("0; reboot",)),), 1, ParallelSizes(), "is not a GPU"),
        ((Host(("0",), "a\nb"),), 1, ParallelSizes(), "is not a host name"),
        ((Host(("0",)), Host(("0",), "b")), 1, ParallelSizes(), "needs a name"),
        (EIGHT, 0, ParallelSizes(), "at least 1"),
    ],
)
def test_an_impossible_layout_is_rejected(
    hosts: tuple[Host, ...], replicas: int, split: ParallelSizes, message: str
) -> None:
    """Too few GPUs, a repeated GPU, an invalid name."""
    with pytest.raises(InputError, match=message):
        fleet.instances(MODEL, options.load("0.19.0"), hosts, replicas=replicas, split=split)


def test_containers_share_the_hosts_cache_of_weights() -> None:
    """As in vLLM's documentation (docs/deployment/docker.md); other folders are as named."""

    def volumes(model: str = MODEL, flags: Mapping[str, Any] = {}, **more: Any) -> object:
        made = fleet.instances(model, options.load("0.19.0"), EIGHT, flags=flags, **more)
        return YAML(typ="safe").load(fleet.compose(made))["services"]["vllm-8000"]["volumes"]

    cache = "~/.cache/huggingface:/root/.cache/huggingface"
    assert volumes() == [cache]
    assert volumes("/models/own") == [cache, "/models/own:/models/own"]
    assert volumes(flags={"download_dir": "/data/hub"}) == [cache, "/data/hub:/data/hub"]
    assert volumes(environment={"HF_HOME": "/data/hf"}) == ["/data/hf:/data/hf"]


def test_units_of_a_host_have_different_names() -> None:
    """By model and port; a part without a server names its instance."""
    units = fleet.systemd(list(laid_out("0.19.0", "4 x tp2")))
    (other,) = fleet.systemd(on_hosts(laid_out("0.19.0", "two hosts, 1 x tp4 pp2"))[1]).values()

    described = [line for text in units.values() for line in text.splitlines() if line.startswith("Description=")]
    assert described == [f"Description=vLLM: {MODEL}, port {port}" for port in range(8000, 8004)]
    assert f"Description=vLLM: {MODEL}, GPUs for the server on port 8000\n" in other


def test_a_file_is_for_one_host() -> None:
    """Instances of another host would run on the wrong GPUs."""
    with pytest.raises(InputError, match="one host"):
        fleet.shell(laid_out("0.19.0", "two hosts, 4 x tp2"))


def test_a_script_starts_and_stops_all_servers(tmp_path: Path) -> None:
    """With a program in place of vLLM, each sees its own GPUs, and all end with the script."""
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\ntrap 'echo ended; exit 0' TERM\necho \"$CUDA_VISIBLE_DEVICES $6\"\nwhile :; do sleep 0.05; done\n"
    )
    program.chmod(0o755)
    script = tmp_path / "serve.sh"
    script.write_text(fleet.shell(laid_out("0.19.0", "4 x tp2")))
    are_up = '[ "$(cat vllm-*.log 2>/dev/null | wc -l)" -ge 4 ]'
    stop = f"bash serve.sh & pid=$!; until {are_up}; do sleep 0.05; done; kill $pid; wait $pid"
    environment = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    subprocess.run(["bash", "-c", stop], cwd=tmp_path, env=environment, timeout=30, check=False)
    written = [path.read_text() for path in sorted(tmp_path.glob("vllm-*.log"))]

    assert written == [f"{2 * number},{2 * number + 1} {8000 + number}\nended\n" for number in range(4)]


def test_a_script_stopped_early_stops_its_servers(tmp_path: Path) -> None:
    """A signal during the launches stops the running servers and starts no more."""
    text = fleet.shell(list(laid_out("0.19.0", "4 x tp2")))
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ntrap 'echo ended; exit 0' TERM\necho up\nwhile :; do sleep 0.05; done\n")
    program.chmod(0o755)
    # The script receives the signal between the first server and the second.
    first, log, rest = text.partition(">vllm-8000.log 2>&1 &\n")
    pause = "until grep -q up vllm-8000.log; do sleep 0.05; done\nkill $$\n"
    (tmp_path / "serve.sh").write_text(first + log + pause + rest)
    environment = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "serve.sh"], cwd=tmp_path, env=environment, timeout=30, check=False)

    assert done.returncode == 143
    assert [path.read_text() for path in sorted(tmp_path.glob("vllm-*.log"))] == ["up\nended\n"]


def test_a_script_ends_with_the_status_of_the_server_that_ended(tmp_path: Path) -> None:
    """And ends the others; the log of an earlier launch is kept."""
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\ntrap 'echo ended; exit 0' TERM\necho up\n"
        "others() { grep -sl up vllm-800[013].log | wc -l; }\n"
        'if [ "$6" = 8002 ]; then until [ "$(others)" = 3 ]; do sleep 0.05; done; exit 3; fi\n'
        "while :; do sleep 0.05; done\n"
    )
    program.chmod(0o755)
    (tmp_path / "serve.sh").write_text(fleet.shell(laid_out("0.19.0", "4 x tp2")))
    (tmp_path / "vllm-8001.log").write_text("the last start failed\n")
    environment = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "serve.sh"], cwd=tmp_path, env=environment, timeout=30, check=False)
    logs = {path.name: path.read_text() for path in tmp_path.glob("vllm-*.log")}
    (kept,) = tmp_path.glob("vllm-*.log.*")

    assert done.returncode == 3
    assert logs.pop("vllm-8002.log") == "up\n"
    assert set(logs.values()) == {"up\nended\n"}
    assert (kept.name.startswith("vllm-8001.log."), kept.read_text()) == (True, "the last start failed\n")


def test_hosts_that_share_a_folder_have_separate_logs() -> None:
    """Both parts of an instance have its port in their name."""
    first, second = (fleet.shell(own) for own in on_hosts(laid_out("0.16.0", "two hosts, 1 x tp4 pp2")))

    assert ">vllm-8000-gpu-a.log 2>&1" in first
    assert ">vllm-8000-gpu-b.log 2>&1" in second


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """Without a word."""
    alone, reached = (fleet.systemd(on_hosts(laid_out("0.19.0", of))[-1]) for of in ("4 x tp2", "two hosts, 4 x tp2"))
    for name, text in (*alone.items(), *reached.items()):
        path = tmp_path / name
        path.write_text(text)
        said = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
        assert [line for line in said.stderr.splitlines() if name in line] == []


# Lines that a release prints about a split


def confirmed(
    version: str, split: ParallelSizes, *, hosts: int = 1, has_experts: bool | None = None
) -> confirmation.Confirmation:
    release = options.load(version)
    part = fleet.instances(MODEL, release, EIGHT, split=split)[0]
    return confirmation.confirmation(part, split, release, hosts=hosts, has_experts=has_experts)


@pytest.mark.parametrize(
    ("path", "version", "split", "is_on_gpu"),
    [
        ("tiny-cpu-tp2-served/startup.log", "0.32.0", ParallelSizes(tp=2), False),
        ("qwen-2x24gb-mp-glued/startup.log", "0.7.2", ParallelSizes(tp=2), True),
        ("../../tests/logs/data-parallel-served.log", "0.32.0", ParallelSizes(dp=2), False),
        ("gpt-oss-gemma-a100-four-starts/startup.log", "0.19.0", ParallelSizes(), True),
    ],
)
def test_a_real_log_has_the_expected_lines(path: str, version: str, split: ParallelSizes, is_on_gpu: bool) -> None:  # noqa: FBT001
    """Each as often as predicted; a CPU worker does not print the memory of its weights."""
    log = re.sub(r"\s+", "", (LOGS / path).read_text("utf-8"))
    found = confirmed(version, split, has_experts=False)

    assert found.unknown == (() if version != "0.7.2" else ("vLLM 0.7.2 does not print the rank of a process.",))
    for line in found.lines:
        if "weights" in line.what and not is_on_gpu:
            continue
        count = log.count(re.sub(r"\s+", "", line.text))
        starts = 4 if "four-starts" in path else 1
        assert count >= 1 if line.times is None else count == line.times * starts, line


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.8.5", "rank 5 in world size 8 is assigned as DP rank 0, PP rank 1, TP rank 1"),
        ("0.11.0", "rank 5 in world size 8 is assigned as DP rank 0, PP rank 1, TP rank 1,"),
        ("0.16.0", "rank 5 in world size 8 is assigned as DP rank 0, PP rank 1, PCP rank 0, TP rank 1,"),
    ],
)
def test_every_rank_prints_its_place(version: str, expected: str) -> None:
    """In the words of the release: vllm/distributed/parallel_state.py, lines 1005, 1209 and 1446."""
    places = [line for line in confirmed(version, ParallelSizes(tp=4, pp=2)).lines if line.what.startswith("placement")]

    assert [line.text for line in places][5] == expected
    assert len(places) == 8
    assert {line.times for line in places} == {1}


def seen_on(version: str, *, expected: confirmation.Expected | None = None) -> list[confirmation.Confirmation]:
    """How each part of an instance over two hosts is checked."""
    parts, split, release = (
        laid_out(version, "two hosts, 1 x tp4 pp2"),
        ParallelSizes(tp=4, pp=2),
        options.load(version),
    )
    return [
        confirmation.confirmation(part, split, release, hosts=2, place=place, has_experts=False, expected=expected)
        for place, part in enumerate(parts)
    ]


def test_newer_releases_print_the_place_of_each_hosts_first_rank() -> None:
    """`info_once` prints only there since 0.19.0 (vllm/logger.py), in each host's log."""
    places = [
        [line.text.partition(" in ")[0] for line in one.lines if "place" in line.what] for one in seen_on("0.19.0")
    ]

    assert places == [["rank 0"], ["rank 4"]]


def test_each_hosts_log_has_the_lines_of_its_ranks() -> None:
    """Only the first has the engine's: headless hosts run workers (0.16.0 serve/command.py:182)."""
    weights = (confirmation.Sides(1.0, 1.0, 1.0),) * 4 + (confirmation.Sides(2.0, 2.0, 2.0),) * 4
    first, second = seen_on("0.16.0", expected=replace(EXPECTED, weights=weights))
    texts = [[line.text for line in one.lines] for one in (first, second)]
    loaded = [line.expected for one in (first, second) for line in one.lines if line.text == "Model loading took"]

    assert [text.partition(" in ")[0] for text in texts[0] if " in world size 8 " in text] == [
        f"rank {n}" for n in range(4)
    ]
    assert [text.partition(" in ")[0] for text in texts[1] if " in world size 8 " in text] == [
        f"rank {n}" for n in range(4, 8)
    ]
    assert loaded == ["1.00 GiB", "2.00 GiB"]
    assert [("GPU KV cache size" in each, "Available KV cache memory" in each) for each in texts] == [
        (True, True),
        (False, True),
    ]
    assert [one.log for one in (first, second)] == ["vllm-8000-gpu-a.log", "vllm-8000-gpu-b.log"]
    assert [[look.words[0] for look in one.looks] for one in (first, second)] == [
        ["nvidia-smi", "curl"],
        ["nvidia-smi"],
    ]
    assert [one.looks[0].what for one in (first, second)] == [
        f"memory in use on each GPU of the instance, run on gpu-{name}" for name in "ab"
    ]


def test_of_unequal_hosts_only_the_very_first_rank_is_certain() -> None:
    """Ray orders them by itself; 0.19.0 prints the place of the first rank of each host alone."""
    hosts, release, split = (Host(tuple("0123"), "a"), Host(("0",), "b")), options.load("0.19.0"), ParallelSizes(tp=5)
    (part,) = fleet.instances(MODEL, release, hosts, split=split)
    places = [
        line.text for line in confirmation.confirmation(part, split, release, hosts=2).lines if "place" in line.what
    ]

    assert [text.partition(" in ")[0] for text in places] == ["rank 0"]


def test_if_every_rank_prints_all_ranks_of_the_host_count() -> None:
    """In 0.11.0 each rank prints its weights; hosts of Ray print into one log."""
    one = seen_on("0.11.0")
    (loading,) = [line for line in one[0].lines if line.text == "Model loading took"]

    assert (len(one), loading.times) == (1, 8)
    assert [look.what.rpartition(" ")[2] for look in one[0].looks] == ["gpu-a", "gpu-b", "answers"]
    assert [line.what for line in one[0].lines if "place" in line.what][-1] == "placement of rank 7"


@pytest.mark.parametrize(
    ("version", "has_experts", "world"),
    [("0.11.0", None, 4), ("0.13.0", False, 4), ("0.16.0", True, 4), ("0.16.0", False, 2), ("0.16.0", None, None)],
)
def test_replicas_count_together_only_if_they_synchronize(
    *,
    version: str,
    has_experts: bool | None,
    world: int | None,
) -> None:
    """Without experts they do not since 0.14.1 (vllm/v1/engine/core.py); unknown stays unknown."""
    found = confirmed(version, ParallelSizes(tp=2, dp=2), has_experts=has_experts)
    worlds = {match[1] for line in found.lines if (match := re.search(r"world size (\d+)", line.text))}

    assert worlds == ({str(world)} if world else set())
    assert bool(found.unknown) == (world is None)


@pytest.mark.parametrize(
    ("split", "has_experts", "what"),
    [
        (ParallelSizes(), None, "GiB of the weights: the full model"),
        (ParallelSizes(dp=2), False, "GiB of the weights of one rank: the full model"),
        (ParallelSizes(dp=2), True, "GiB of the weights of one rank"),
        (ParallelSizes(tp=2), False, "GiB of weights of one rank: part of the model, not all of it"),
    ],
)
def test_the_part_of_a_rank_is_described(split: ParallelSizes, has_experts: bool | None, what: str) -> None:  # noqa: FBT001
    """A single GPU has the whole model, and so has each replica of a model without experts."""
    assert what in [line.what for line in confirmed("0.19.0", split, has_experts=has_experts).lines]


def test_ranks_of_a_prefill_context_group_have_separate_places() -> None:
    """TP counts fastest, then prefill ranks, then stages (0.16.0 distributed/parallel_state.py:1340)."""
    release = options.load("0.16.0")
    split = ParallelSizes(tp=2, pp=2, pcp=2)
    part = fleet.instances(MODEL, release, EIGHT, split=split)[0]
    lines = confirmation.confirmation(part, split, release).lines

    assert "--prefill-context-parallel-size 2" in words(part)
    assert "rank 6 in world size 8 is assigned as DP rank 0, PP rank 1, PCP rank 1, TP rank 0," in [
        line.text for line in lines
    ]


EXPECTED = confirmation.Expected(
    weights=(confirmation.Sides(1.0, 1.1, 1.2),) * 2 + (confirmation.Sides(2.0, 2.0, 2.0), None),
    available=(confirmation.Sides(9.0, 10.0, 11.0),) * 4,
    tokens=confirmation.Sides(900, 1000, 1100),
    concurrency=confirmation.Sides(0.9, 1.0, 1.1),
    context=131_072,
)


@pytest.mark.parametrize(
    ("version", "is_older", "texts"),
    [
        # 0.6.6 executor/gpu_executor.py:80; 0.8.5 v1/core/kv_cache_utils.py:634; 0.9.2 v1/worker/gpu_worker.py:232.
        ("0.6.6", True, ["Maximum concurrency for 131072 tokens"]),
        ("0.8.5", True, ["Maximum concurrency for 131072 tokens"]),
        ("0.8.5", False, ["GPU KV cache size", "Maximum concurrency for 131,072 tokens"]),
        (
            "0.33.0", False,
            ["Available KV cache memory", "GPU KV cache size", "Maximum concurrency for 131,072 tokens"],
        ),
    ],
)  # fmt: skip
def test_planned_figures_are_next_to_the_printed_lines(*, version: str, is_older: bool, texts: list[str]) -> None:
    """Each has its range; equal ranks are combined, and unknown figures are marked."""
    release, split = options.load(version), ParallelSizes(pp=4)
    part = fleet.instances(MODEL, release, EIGHT, split=split)[0]
    told = replace(EXPECTED, is_older_engine=is_older)
    lines = confirmation.confirmation(part, split, release, has_experts=False, expected=told).lines
    weights = next(line for line in lines if "weights" in line.what)
    shown = {line.text: line.expected for line in lines if line.expected and line != weights}

    assert weights.expected == "ranks 0 to 1: 1.10 GiB (1.00 to 1.20); rank 2: 2.00 GiB; rank 3: unknown"
    assert list(shown) == texts
    assert shown[texts[-1]] == "1.00x (0.90 to 1.10)"
    assert shown.get("GPU KV cache size", "1,000 tokens (900 to 1,100)") == "1,000 tokens (900 to 1,100)"


def test_verification_changes_nothing() -> None:
    """Its commands read the instance's GPUs and port, and their effect is described."""
    looks = confirmed("0.19.0", ParallelSizes(tp=2)).looks

    assert json.dumps([look.words for look in looks]) == json.dumps(
        [
            ["nvidia-smi", "--id=0,1", "--query-gpu=index,uuid,memory.used,memory.total", "--format=csv"],
            ["curl", "-fsS", "-m", "10", "http://127.0.0.1:8000/health"],
        ]
    )
    assert {look.effect for look in looks} == {"none (read-only)"}


# Files for a plan


def planned(model: str, gpus: str, version: str, **more: Any) -> dict[str, str]:
    asked = planner.request(model, gpus, vllm=version, is_calibrated=False, **more)
    return dict(planner.deployed(asked, planner.plan(asked)))


TWO_AND_TWO = "2xA100-80GB@node1,2xA100-80GB@node2"


def test_hosts_joined_by_ray_have_no_compose_file() -> None:
    """The files pass the linter, and the notes explain the missing one."""
    made = planned("Qwen/Qwen2.5-72B", TWO_AND_TWO, "0.8.5", tp=2, pp=2)

    assert sorted(made) == [
        *("ray-node1.sh", "ray-node2.sh", "start-node1.sh", "systemd-node1/vllm-8000.service"),
        *("systemd-node1/vllm-ray.service", "systemd-node2/vllm-ray.service", "verify.txt"),
    ]
    assert "In containers, Ray must run in the server's container: otherwise" in made["verify.txt"]
    assert "Requires=vllm-ray.service\n" in made["systemd-node1/vllm-8000.service"]
    assert "--num-gpus=2 --block\n" in made["systemd-node2/vllm-ray.service"]
    assert "the same releases of vLLM, Ray and Python" in made["verify.txt"]
    assert "Model loading took (4 times)" in made["verify.txt"]


def test_the_notes_list_the_expected_lines_by_host() -> None:
    """Each log has its file, host and ranks; GPUs are checked on their host."""
    told = planned("Qwen/Qwen2.5-72B", TWO_AND_TWO, "0.16.0", tp=2, pp=2)["verify.txt"]
    _, first, second = re.split(r"^vllm-8000 on ", told, flags=re.MULTILINE)

    assert first.startswith("node1: its log (vllm-8000-node1.log) must contain\n")
    assert second.startswith("node2: its log (vllm-8000-node2.log) must contain\n")
    assert re.findall(r"placement of rank (\d)", first) == ["0", "1"]
    assert re.findall(r"placement of rank (\d)", second) == ["2", "3"]
    assert ("run on node1: nvidia-smi" in first, "run on node2: nvidia-smi" in second) == (True, True)
    assert ("curl" in first, "curl" in second) == (True, False)


def test_the_line_about_requests_uses_the_found_context() -> None:
    """With `--find context` the notes have the context that the launch prints."""
    asked = planner.request(
        "Qwen/Qwen3-32B", "A100-80GB", vllm="0.25.1", is_calibrated=False, options={"gpu_memory_utilization": 0.85}
    )
    plan = planner.find(asked, "context")

    assert plan.found is not None
    found = f"{plan.found.value:,}"
    assert f"Maximum concurrency for {found} tokens" in planner.deployed(asked, plan)["verify.txt"]


def test_each_host_has_the_cache_of_its_own_gpu() -> None:
    """Each prints that of its first rank, which for unequal GPUs is not the smallest."""
    made = planned(
        "Qwen/Qwen3-32B",
        "RTX3090@node1,H800@node2",
        "0.19.0",
        pp=2,
        arguments=["--max-model-len", "8192"],
        environment={"VLLM_PP_LAYER_PARTITION": "14,50"},
    )
    found = re.findall(
        r"this host's first rank: Available KV cache memory; planned: ([\d.]+) GiB \(", made["verify.txt"]
    )

    assert len(found) == 2
    assert float(found[0]) < 7
    assert float(found[1]) > 20


def test_an_uncertain_plan_is_marked_in_every_file() -> None:
    """With the missing fact: how 0.6.6 stores DeepSeek's latent; a plan that fits has no mark."""
    said = "This plan may not fit: unknown KV cache layout: "
    unsure = planned("deepseek-ai/DeepSeek-R1", "8xH200-141GB", "0.6.6", tp=8)
    sure = planned("Qwen/Qwen3-8B", "A100-80GB", "0.19.0", tp=1)

    assert sorted(unsure) == ["compose.yaml", "start.sh", "systemd/vllm-8000.service", "verify.txt"]
    assert [name for name, text in unsure.items() if said not in text] == []
    assert not any("may not fit" in text for text in sure.values())


def test_a_plan_that_does_not_fit_is_marked_in_every_file() -> None:
    """Its launch may still be requested."""
    made = planned("Qwen/Qwen3-8B", "T4", "0.19.0", tp=1, options={"dtype": "half"})

    assert [name for name, text in made.items() if "This plan does not fit: the weights do not fit" not in text] == []


def test_an_unknown_term_is_named_once() -> None:
    """Not again for the cache that depends on it, or for an equal limit."""
    asked = planner.request("Qwen/Qwen3-8B", "A100-80GB", vllm="0.19.0", is_calibrated=False, tp=1)
    plan = planner.plan(asked)
    unknown = [
        replace(term, low_gib=None, expected_gib=None, high_gib=None, source="no start tells it")
        if term.name in {"activation", "kv_cache"}
        else term
        for term in plan.per_gpu[0].terms
    ]
    rank = replace(plan.per_gpu[0], terms=tuple(unknown))
    one = replace(plan, fits=None, per_gpu=(rank,), limits=("activation: no start tells it",))

    told = planner.deployed(asked, one)["verify.txt"]
    assert told.startswith("This plan may not fit: activation: no start tells it\n")
