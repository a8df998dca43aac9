"""Comparing settings, replicas behind a proxy, and one server on several GPUs."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tiny_models
import vllm_runbooks as rb
from command_line import run
from pace import scaled
from test_serve import RACE, SERVED, UP, Stage
from vllm_runbooks import live, render
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Edit, Outcome
from vllm_runbooks.probe import asking
from vllm_runbooks.probe.starts import Attempt, Fleet, Guarded, LaunchResult, LoadResult
from vllm_runbooks.runbooks.live import fleets, starting
from vllm_runbooks.serve import guard as serve
from vllm_runbooks.serve import load as loads

SERVING = [*UP, {"serve": {}}, {"hold": True}]
LOAD = live.Load(6, 16, 4, 2)
NEEDS_NGINX = pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx (Debian: nginx-light)")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A host with a fake `vllm`, which also sends loads."""
    found = Stage(tmp_path, monkeypatch)
    found.setenv("STAND_IN", json.dumps(SERVING))
    return found


def measured(stage: Stage, *more: str, told: object = None) -> LoadResult:
    """The figures of a load on a server of the stage."""
    stage.setenv("STAND_IN_BENCH", json.dumps(told or {}))
    subject = serve.subject(stage.command(*more), vllm="0.32.0")
    return loads.measure(LOAD, subject, subject.target, stage.folder)


# ---- the load


@pytest.mark.slow
def test_a_load_is_sent_once_the_server_is_ready(stage: Stage) -> None:
    """Its figures are in the report, its command and exit status in the launch's folder."""
    found = live.start(
        shlex.join(stage.command("--served-model-name", "small")),
        vllm="0.32.0",
        load=LOAD,
        folder=str(stage.folder / "run"),
        say=stage.said.append,
    )
    told = found.attempts[-1].measured

    assert found.status == 0
    assert told is not None
    assert (told.status, told.answered, told.tokens_per_s, told.time_to_first_token_ms) == (0, 6, 12.0, 3.5)
    assert told.inter_token_latency_ms is None  # the fake does not measure it
    assert "--served-model-name small" in told.command
    rows = [json.loads(line) for line in (stage.folder / "run" / "start" / "commands.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows] == [0, 0]
    assert " bench serve " in rows[1]["command"]


def test_a_failed_load_has_its_reason(stage: Stage) -> None:
    """The last line with an error, whatever follows it."""
    found = measured(stage, told={"bench": 3})

    assert found.status == 3
    assert found.reason == "it exited with status 3: ValueError: the tokenizer cannot be read"


@pytest.mark.parametrize("told", [{"completed": "many"}, {"completed": -1}, {"completed": float("nan")}])
def test_an_invalid_figure_is_unknown(stage: Stage, told: object) -> None:
    """Never a guess."""
    (stage.folder / "bench.json").write_text(json.dumps({"duration": 1, **dict(told)}))  # type: ignore[call-overload]

    assert loads._measured("x", LOAD, stage.folder / "bench.json").answered is None


def test_the_key_of_a_server_is_not_an_argument_of_the_load(stage: Stage) -> None:
    """The client reads it from its variable, and it is never shown."""
    key = "sk-4fT9qLz81mXcVbNa"
    found = measured(stage, "--api-key", key, told={"bench": 1, "wants_key": key})

    assert found.reason.startswith("it exited with status 1: ValueError: the tokenizer"), found
    assert key not in found.command
    assert key not in (stage.folder / "bench.log").read_text()


@pytest.mark.slow
def test_a_server_that_dies_under_load_is_a_failure(stage: Stage) -> None:
    """The load is ended with it, so that it does not meet the next server."""
    dying = [*UP, {"serve": {}}, {"sleep": 4}, {"exit": 1}]
    stage.setenv("STAND_IN", json.dumps(dying))
    stage.setenv("STAND_IN_BENCH", json.dumps({"waits": 60}))
    began = time.monotonic()
    command = shlex.join(stage.command())
    found = live.start(command, vllm="0.32.0", load=LOAD, folder=str(stage.folder), say=stage.said.append)

    assert found.attempts[0].ready_s is not None
    assert not found.attempts[0].is_proved
    assert time.monotonic() - began < scaled(25)
    assert live.pair_verdict(rb.diagnose(rb.paste(SERVED.read_text())), found, found).verdict == "fail"


@pytest.mark.parametrize(
    ("more", "given", "words"),
    [
        (("--uds", "run/x"), {"load": LOAD}, "so no load can be sent; set --port"),
        (("--ssl-keyfile", "k"), {"parts": 2}, "connects to its servers without TLS"),
        ((), {"parts": 60}, "are available"),
        ((), {"parts": 1}, "use a whole number from 2 to 64"),
        ((), {"setting": " "}, "setting: is empty; set options to add to the launch"),
        ((), {"setting": "--swap-space 4"}, "rejects it"),
    ],
)
def test_an_impossible_request_is_rejected_before_any_launch(
    stage: Stage, more: tuple[str, ...], given: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line; here as on a host with nginx."""
    monkeypatch.setattr(shutil, "which", lambda name, *_, **__: name)
    with pytest.raises(InputError, match=words):
        live.check(shlex.join(stage.command(*more)), vllm="0.32.0", **given)


def test_a_host_without_nginx_is_reported(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before minutes are spent on servers."""
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(InputError, match="nginx is not installed on this host"):
        live.check(shlex.join(stage.command()), parts=2, vllm="0.32.0")


def test_words_are_opened_as_a_shell_opens_them(stage: Stage) -> None:
    """Home and variables; a variable that is not set stays."""
    stage.setenv("HOME", "/home/x")
    stage.setenv("MODELS", "/models")
    one = starting.subject("vllm serve ~/m --chat-template $MODELS/t --served-model-name '$NONE'", "0.32.0")

    assert one.argv == ("vllm", "serve", "/home/x/m", "--chat-template", "/models/t", "--served-model-name", "$NONE")


@pytest.mark.parametrize("words", [("-tp", "4"), ("-tp=4",), ("--tensor_parallel_size", "4")])
def test_an_option_is_changed_in_any_form(stage: Stage, words: tuple[str, ...]) -> None:
    """Short, joined, or with underscores."""
    one = serve.subject(stage.command(*words), vllm="0.32.0")

    assert one.edited([Edit("set", "tensor_parallel_size", 2)]).flags["tensor_parallel_size"] == 2


@pytest.mark.parametrize("wrong", [{"requests": 0}, {"at_once": -1}, {"prompt_tokens": 1.5}, {"answer_tokens": "8"}])
def test_an_empty_load_is_rejected(wrong: dict[str, object]) -> None:
    """With the invalid option."""
    with pytest.raises(InputError, match=f"load: {next(iter(wrong))} is .*; use a whole number, at least 1"):
        live.Load(**wrong)


# ---- a setting


def edits(stage: Stage, setting: str, *more: str) -> tuple[Edit, ...]:
    """The edits of a setting to the stage's command."""
    return starting.edits_of(serve.subject(stage.command(*more), vllm="0.32.0"), setting)


def test_a_setting_is_parsed_by_the_release(stage: Stage) -> None:
    """Leading variables, then options in any form; settings of the command are not a change."""
    assert edits(stage, "A='x y' --max-num-seqs=4 --enforce-eager", "--enforce-eager") == (
        Edit("env", "A", "x y"),
        Edit("set", "max_num_seqs", 4),
    )
    assert edits(stage, "--max_model_len 1k", "--max-model-len", "512") == (Edit("set", "max_model_len", 1000),)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("--swap-space 4", "vLLM 0.32.0 rejects it: --swap-space: unknown"),
        ("--max-num-seqs many", "rejects it: --max-num-seqs: wrong type"),
        ("--enforce-eager", "does not change the command"),
        ("--max-num-seqs '4", "No closing quotation; write options as in a shell"),
        ("; reboot", "rejects it"),
    ],
)
def test_an_invalid_setting_is_rejected(stage: Stage, setting: str, words: str) -> None:
    """In one line, before any launch."""
    with pytest.raises(InputError, match=words) as told:
        edits(stage, setting, "--enforce-eager")
    assert "\n" not in str(told.value)


@pytest.mark.slow
def test_a_launch_reports_its_additional_setting(stage: Stage) -> None:
    """In its command, and as a change with its reason."""
    found = live.start(
        shlex.join(stage.command()),
        setting="--max-num-seqs 4",
        vllm="0.32.0",
        folder=str(stage.folder),
        say=stage.said.append,
    )

    assert found.attempts[0].command.endswith("--max-num-seqs 4")
    assert found.attempts[0].change is not None
    assert "Changed: --max-num-seqs 4" in render.guarded.compared(found, found).plain


# ---- GPUs and cores


def test_each_replica_has_its_own_gpus(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the command; too few are reported before any launch."""
    series = stage.folder / "cards.jsonl"
    cards = [{"index": n, "uuid": f"GPU-{n}", "total_mib": 24576, "used_mib": 0} for n in range(8)]
    series.write_text(json.dumps({"at_s": 0, "gpus": cards}) + "\n")
    host = starting.cards_of(str(series))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6,2,5,GPU-1")
    one = serve.subject(stage.command("-tp", "2"), vllm="0.32.0")

    assert [[(edit.name, edit.value) for edit in each] for each in fleets.placed(one, host, 2)] == [
        [("CUDA_DEVICE_ORDER", "PCI_BUS_ID"), ("CUDA_VISIBLE_DEVICES", "6,2")],
        [("CUDA_DEVICE_ORDER", "PCI_BUS_ID"), ("CUDA_VISIBLE_DEVICES", "5,1")],
    ]
    with pytest.raises(InputError, match="3 x 2 GPUs needed, but this host has 4 available"):
        fleets.placed(one, host, 3)


def test_without_gpus_each_replica_has_its_own_cores(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part for each rank of each copy."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 4, 5, 8})
    one = serve.subject(stage.command(), vllm="0.32.0")
    whole = serve.subject(stage.command("-tp", "2"), vllm="0.32.0")
    host = starting.GpuReadings(None, "no driver")

    assert [each[0].value for each in fleets.placed(one, host, 2)] == ["2,3", "4,5"]
    assert [each[0].value for each in fleets.placed(whole, host, 1)] == ["2,3|4,5"]
    with pytest.raises(InputError, match="6 x 1 ranks need one core each, but only 5 are available"):
        fleets.placed(one, host, 6)


@pytest.mark.parametrize("count", [0, 1, 65, 2.0, "2", True])
def test_fewer_than_two_replicas_are_rejected(stage: Stage, count: object) -> None:
    """Before any launch."""
    with pytest.raises(InputError, match="use a whole number from 2 to 64"):
        live.fleet(shlex.join(stage.command()), copies=count, say=stage.said.append)
    with pytest.raises(InputError, match="use a whole number from 2 to 64"):
        live.split(shlex.join(stage.command()), parts=count, say=stage.said.append)


def test_replicas_on_one_port_are_rejected(stage: Stage) -> None:
    """Each needs its own port."""
    with pytest.raises(InputError, match="so no load can be sent; set --port"):
        live.fleet("vllm serve tiny --uds run/x", vllm="0.32.0", say=stage.said.append)


# ---- copies


@NEEDS_NGINX
@pytest.mark.slow
def test_replicas_share_a_load_behind_a_real_proxy(stage: Stage) -> None:
    """Every request is answered, each replica answers some, and all ports are closed afterwards."""
    found = live.fleet(
        shlex.join(stage.command()), vllm="0.32.0", load=LOAD, folder=str(stage.folder), say=stage.said.append
    )

    assert [each.status for each in found.servers] == [0, 0]
    assert found.measured is not None
    assert found.measured.answered == 6
    assert sum(count or 0 for count in found.answered) == 6
    assert all(found.answered)
    place = Path(found.folder or "")
    assert [path.name for path in sorted(place.glob("server-*/case/case.yaml"))] == ["case.yaml", "case.yaml"]
    assert len((place / "commands.jsonl").read_text().splitlines()) == 3
    ports = [stage.port, stage.port + 1, int(found.proxy.rpartition(":")[2])]
    assert not [port for port in ports if asking.is_open(asking.Target(port=port))]
    assert "6 of 6 requests answered" in render.guarded.fleet(found).plain


@pytest.mark.slow
@NEEDS_NGINX
def test_replicas_are_stopped_when_one_fails(stage: Stage) -> None:
    """No load is sent; the working ones end, and the failed one is diagnosed."""
    stage.setenv("STAND_IN", json.dumps([[{"print": str(RACE)}, {"exit": 1}], SERVING]))
    found = live.fleet(shlex.join(stage.command()), vllm="0.32.0", folder=str(stage.folder), say=stage.said.append)

    assert found.proxy == ""
    assert found.measured is None
    assert not asking.is_open(asking.Target(port=stage.port))
    assert not asking.is_open(asking.Target(port=stage.port + 1))
    # The other may have been ended before it had tried.
    last = [tried for each in found.servers for tried in each.attempts[-1:]]
    causes = [tried.answer.root_cause for tried in last if tried.answer]
    assert "mem.profiling_assertion" in [cause.class_ for cause in causes if cause]
    judged = live.split_verdict(found.servers[0], found, found.servers[0])
    assert judged.verdict == "fail"
    assert "was not ready" in judged.reason


# ---- lines and verdicts


def start_of(stage: Stage, log: str, *more: str) -> Guarded:
    """A launch whose log has this text."""
    folder = stage.folder / "one"
    folder.mkdir(exist_ok=True)
    (folder / "server.log").write_text(log)
    tried = Attempt(1, shlex.join(stage.command(*more)), None, Outcome.READY, 1.0, 2.0, "was ended")
    return Guarded("0", "0.32.0", (), (tried,), 0, str(folder))


def test_the_lines_of_a_layout_are_searched_in_the_log(stage: Stage) -> None:
    """A missing line is reported; lines of GPU code are not expected on other hosts."""
    log = SERVED.read_text()
    alone = live.confirmed(start_of(stage, log))
    split = live.confirmed(start_of(stage, log, "-tp", "2"))

    assert [line.result for line in alone] == [LaunchResult.PASSED, LaunchResult.PASSED, LaunchResult.LEFT_OUT]
    assert [line.result for line in split] == [LaunchResult.FAILED, LaunchResult.FAILED, LaunchResult.LEFT_OUT]
    assert "MISSING" in render.guarded.printed({"one": split}).plain
    assert live.confirmed(None) == ()


def test_a_split_passes_when_all_of_it_is_proved(stage: Stage) -> None:
    """And fails with the first thing that is not."""
    load = LoadResult("x", 0, 6, 6, 1.0, 12.0)
    good = with_load(start_of(stage, SERVED.read_text()), load)
    copied = Fleet((good, good), "http://127.0.0.1:1", (4, 2), load)
    lines = live.confirmed(good)
    bad = [replace(line, result=LaunchResult.FAILED) for line in lines]
    never = replace(good, attempts=(replace(good.attempts[0], ready_s=None, ending="ended with exit status 1"),))

    assert live.split_verdict(good, copied, good, [lines]).verdict == "pass"
    assert "6 of 6" in render.guarded.compared(good, good).plain
    unmeasured = with_load(good, LoadResult("x", 1, 6, reason="it ended"))
    (row,) = [line for line in render.guarded.compared(unmeasured, good).plain.splitlines() if "requests answ" in line]
    assert row.split() == ["requests", "answered", "unknown", "6", "of", "6"]
    assert "Logs and results: /run/x." in render.guarded.fleet(replace(copied, folder="/run/x")).plain
    assert "Logs and results" not in render.guarded.fleet(copied).plain
    assert "Through the proxy: 6 of 6 requests answered, tokens" in render.guarded.fleet(copied).plain
    assert "no measurements" in render.guarded.fleet(replace(copied, measured=None)).plain
    step = render.guarded.measured(
        {"alone": good, "replicas": replace(copied, measured=replace(load, tokens_per_s=24.0))}
    )
    assert step is not None
    assert step.fact == (
        "Alone: ready after 1.0 s, 6 of 6 requests answered, 12.0 tokens per second; replicas: 2 of 2 servers ready, "
        "6 of 6 requests answered, 24.0 tokens per second."
    )
    assert step.so == "Replicas generated 2.00 times the tokens per second of alone."
    failed = render.guarded.measured({"alone": never, "none": None})
    assert failed is not None
    assert failed.fact.startswith("Alone: never ready")
    assert "it ended" in str(render.guarded.measured({"alone": unmeasured}))
    assert render.guarded.measured({"alone": None}) is None
    assert "a single server: never ready" in live.split_verdict(never, copied, good, [lines]).reason
    assert "not in the log: " in live.split_verdict(good, copied, good, [bad]).reason
    told = [
        (replace(copied, answered=(6, 0)), good, "replica 2 answered no requests"),
        (replace(copied, measured=replace(load, answered=5)), good, "5 of 6 requests were answered"),
        (replace(copied, measured=None), good, "was not sent"),
        (replace(copied, measured=LoadResult("x", 1, 6, reason="it ended")), good, "was not measured: it ended"),
        (copied, never, "the split server was not ready: never ready, ended with exit status 1"),
        (copied, with_load(good, None), "the split server: the load was not sent"),
    ]
    for fleet, whole, words in told:
        judged = live.split_verdict(good, fleet, whole, [lines])
        assert (judged.verdict, words in judged.reason) == ("fail", True), judged.reason


def test_two_launches_pass_if_both_answered_the_load(stage: Stage) -> None:
    """A failed launch has its own verdict."""
    load = LoadResult("x", 0, 6, 6, 1.0, 12.0)
    good = start_of(stage, SERVED.read_text())
    good = with_load(good, load)
    part = with_load(good, replace(load, answered=4))
    dead = replace(good, attempts=(replace(good.attempts[0], is_proved=False, measured=None),))
    answer = rb.diagnose(rb.paste(SERVED.read_text()))

    assert live.pair_verdict(answer, good, good).reason == "both were ready and answered the load: 12, then 12 tokens/s"
    assert live.pair_verdict(answer, good, part).reason == "the second: the load: 4 of 6 requests were answered"
    assert live.pair_verdict(answer, good, None).verdict == "pass"
    assert live.pair_verdict(answer, good, dead).reason == "the second was ready, but then was ended"
    assert live.pair_verdict(answer, good, with_load(good, None)).reason == "the second: the load was not sent"


def with_load(start: Guarded, load: LoadResult | None) -> Guarded:
    """The launch, verified by a load."""
    return replace(start, attempts=(replace(start.attempts[0], is_proved=True, measured=load),))


# ---- the runbooks


@pytest.mark.full
def test_memory_freed_by_a_neighbour_is_reported(stage: Stage) -> None:
    """With timestamp and process, and the failed launch is repeated unchanged."""
    serving = json.dumps([[{"sleep": 14}, {"print": str(RACE)}, {"exit": 1}], SERVING])
    stage.setenv("STAND_IN", serving)
    catalog.load_catalog()  # compiled now: the series continues meanwhile
    catalog.specs()
    series, command = _series(stage), _no_model(stage)
    first = live.start(command, vllm="0.32.0", memory=series, folder=str(stage.folder), say=stage.said.append)
    second = live.apply(
        rb.diagnose(live.evidence(first)), command, vllm="0.32.0", memory=series, folder=str(stage.folder), say=print
    )

    assert [seen.kind for seen in first.attempts[0].events] == ["memory-released"]
    assert "process 4711" in first.attempts[0].events[0].message
    assert live.is_ready(second)
    assert "wait for stable GPU memory" in render.guarded.proof(first, second).plain


@pytest.mark.slow
def test_a_race_is_fixed_by_one_retry(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """The neighbour frees memory while the launch profiles; the second launch is ready."""
    stage.setenv("STAND_IN", json.dumps([[{"sleep": 5}, {"print": str(RACE)}, {"exit": 1}], SERVING]))
    given = {"live": "true", "apply": "true", "serve": _no_model(stage), "vllm": "0.32.0", "memory": _series(stage)}
    out = stage.folder / "out"
    status, said, _ = run(
        capsys, "run", "shared-gpu-profiling", "--out", str(out), *(w for n, v in given.items() for w in ("-p", n, v))
    )
    reports = [
        json.loads((out / "shared-gpu-profiling.steps" / s / "report.json").read_text()) for s in ("start", "apply")
    ]

    assert (status, "PASS" in said) == (0, True), said
    assert reports[0]["attempts"][0]["answer"]["root_cause"]["class"] == "mem.profiling_assertion"
    assert reports[1]["attempts"][0]["change"]["edits"] == []
    assert reports[0]["attempts"][0]["command"] == reports[1]["attempts"][0]["command"]


def _no_model(stage: Stage) -> str:
    """The stage's command with a model that is there."""
    return shlex.join(stage.command("--gpu-memory-utilization", "0.4")).replace(
        "tiny", str(tiny_models.write(stage.folder / "model")), 1
    )


def _series(stage: Stage) -> str:
    """Memory of a GPU on which a neighbour frees 30 GiB after thirteen seconds."""
    series = stage.folder / "cards.jsonl"
    card = {"index": 0, "name": "NVIDIA A100-SXM4-80GB", "total_mib": 81920}
    used = [(n, 40000 if n < 13 else 9000) for n in range(30)]
    rows = [
        {"at_s": n, "gpus": [{**card, "used_mib": mib, "processes": [{"pid": 4711, "used_mib": mib}]}]}
        for n, mib in used
    ]
    series.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(series)
