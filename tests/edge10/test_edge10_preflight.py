"""An Edge10 host: facts from docker, files and programs, and their findings.

Fakes replace docker and the container toolkit and print the output of their releases;
`edge10_hosts.yaml` has the findings predicted for each host.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer
from typing import Any

import pytest
from ruamel.yaml import YAML

from pace import scaled
from vllm_runbooks import cli, render
from vllm_runbooks.catalog import host_commands
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.tables import FindingText, load_table
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import record
from vllm_runbooks.core.records import Severity
from vllm_runbooks.edge10.host import asking, docker, docker_texts, preflight, step_rules
from vllm_runbooks.edge10.host import inspection as hosts
from vllm_runbooks.edge10.host import snapshots as host_snapshots
from vllm_runbooks.edge10.host.records import (
    CheckedHost,
    DockerFacts,
    DockerState,
    EdgeHost,
    FolderFacts,
    HostCheckRequest,
    ImageFacts,
    ToolkitFacts,
)
from vllm_runbooks.host import inventory as live_inventory
from vllm_runbooks.host.records import Inventory
from vllm_runbooks.plan import planner

FILE = Path(__file__).parents[1].joinpath("edge10_hosts.yaml")


@cache
def recorded() -> dict[str, Any]:
    """The hosts, by name."""
    with FILE.open(encoding="utf-8") as stream:
        return dict(YAML(typ="safe", pure=True).load(stream)["hosts"])


_DOCKER = """#!/bin/sh
key=$1
[ "$1" = --version ] && key=version
echo "$*" >> {folder}/asked
[ -f {folder}/$key.hangs ] && exec /bin/sleep 60
[ -f {folder}/$key.out ] || {{ echo "not recorded: $*" >&2; exit 125; }}
/bin/cat {folder}/$key.err >&2
/bin/cat {folder}/$key.out
exit $(/bin/cat {folder}/$key.rc)
"""


def program(path: Path, text: str) -> None:
    """A fake program."""
    path.write_text(text)
    path.chmod(0o755)


class Host:
    """A recorded host, set up so that the program meets it at its border."""

    def __init__(self, told: Mapping[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.told = folder, told
        path, home = folder / "bin", folder / "home"
        path.mkdir()
        (home / ".docker").mkdir(parents=True)
        monkeypatch.setenv("PATH", str(path))
        monkeypatch.setenv("HOME", str(home))
        for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "XDG_CONFIG_HOME", "COMPILE_THREAD"):
            monkeypatch.delenv(name, raising=False)
        for name, value in told.get("environment", {}).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(docker, "SYSTEM", folder / "daemon.json")
        monkeypatch.setattr(asking, "LIMIT_S", 0.4 if "hangs" in str(told.get("docker")) else 5.0)
        if "settings" in told:
            (folder / "daemon.json").write_text(told["settings"])
        if "logins" in told:
            (home / ".docker" / "config.json").write_text(told["logins"])
        if "toolkit" in told:
            program(path / "nvidia-ctk", f"#!/bin/sh\n/bin/cat <<'END'\n{told['toolkit']}END\n")
        for key, said in told.get("docker", {}).items():
            one = {"output": said} if isinstance(said, str) else said
            (folder / f"{key}.out").write_text(one.get("output", ""))
            (folder / f"{key}.err").write_text(one.get("errors", ""))
            (folder / f"{key}.rc").write_text(str(one.get("status", 0)))
            if one.get("hangs"):
                (folder / f"{key}.hangs").touch()
        if "docker" in told:
            program(path / "docker", _DOCKER.format(folder=folder))
        inventory = record(Inventory, {"timestamp": "2026-01-31T12:00:00Z", **told.get("inventory", {})})
        monkeypatch.setattr(live_inventory, "collect", lambda **_: inventory)
        room = told.get("folder")
        if room is not None:
            monkeypatch.setattr(preflight, "folder", lambda _: record(FolderFacts, room))

    @property
    def asked(self) -> list[str]:
        """The requests to the docker program."""
        file = self.folder / "asked"
        return file.read_text().splitlines() if file.exists() else []


Meet = Callable[..., Host]


@pytest.fixture
def meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Meet:
    """A recorded host with these differences."""

    def one(name: str, **other: Any) -> Host:
        told = {key: value for key, value in {**recorded()[name], **other}.items() if value is not None}
        return Host(told, tmp_path, monkeypatch)

    return one


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """The command, in this process."""
    status = cli.run(["edge10", "preflight", *words])
    out, err = capsys.readouterr()
    return status, out, err


def ids(found: Mapping[str, Any]) -> list[str]:
    """Of a printed document the findings."""
    return [each["id"] for each in found["findings"]]


@pytest.mark.parametrize("name", list(recorded()))
def test_a_recorded_host_has_its_expected_findings(
    name: str, meet: Meet, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Exactly the expected findings; unknown facts are listed; no secret is shown.

    Nothing is fetched, started or logged in to, and the output of --out gives the same result
    elsewhere as --snapshot.
    """
    host = meet(name)
    words, expected = host.told["ask"], host.told["expect"]
    kept = tmp_path / "host.json"

    status, out, err = run(capsys, *words, "--out", str(kept), "--format", "json")
    found = json.loads(out)

    assert sorted(ids(found)) == sorted(expected["findings"])
    assert found["ok"] is expected["ok"]
    assert status == (0 if expected["ok"] else 1)
    told = [each["fact"] for each in found["unknown"]]
    assert len(told) == len(expected["unknown"])
    assert [wanted for wanted in expected["unknown"] if not any(each.startswith(wanted) for each in told)] == []
    assert [said for said in expected.get("says", ()) if said not in out] == []
    assert [said for said in expected.get("never", ()) if said in out + err + kept.read_text()] == []

    first = [each.split()[0] for each in host.asked]
    assert set(first) <= {"--version", "context", "info", "image"}
    assert [row for each in host.asked if (row := host_commands.row_of(f"docker {_quoted(each)}")) is None] == []
    assert first == expected.get("asked", first)

    (tmp_path / "bin").rename(tmp_path / "gone")
    without = words[: words.index("--python")] if "--python" in words else words
    assert json.loads(run(capsys, *without, "--snapshot", str(kept), "--format", "json")[1]) == found


def _quoted(asked: str) -> str:
    """Words of docker's program as a shell would take them."""
    return asked.replace("{{json .}}", "'{{json .}}'")


def test_every_rule_matches_some_hosts_and_not_others() -> None:
    """So every rule has a case, and none always applies."""
    met = [each for told in recorded().values() for each in told["expect"]["findings"]]

    # of the two below the disk of a real folder decides: they have tests of their own
    ids = load_table("edge10_host_findings", FindingText)
    assert set(ids) - set(met) == {"edge10.host_folder_closed"}
    assert max(met.count(each) for each in ids) < len(recorded()) / 2
    assert {each.removeprefix("edge10.host_") for each in ids} == set(step_rules.CONDITIONS)


def test_a_snapshot_has_only_the_facts_of_its_request(
    meet: Meet, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Another image, registry or folder is unknown, not absent."""
    host = meet("ready-as-in-the-guide")
    out = tmp_path / "host.json"
    run(capsys, *host.told["ask"], "--out", str(out))

    found = json.loads(
        run(
            capsys, "quantise", "--model", "Qwen/Qwen3-4B", "--data", "/other", "--image", "a/b:2",
            "--snapshot", str(out), "--format", "json",
        )[1]
    )  # fmt: skip

    assert (found["ok"], ids(found)) == (None, [])
    assert [each["fact"] for each in found["unknown"]] == ["whether the image a/b:2 exists"]


def test_an_inventory_is_a_host_without_docker_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Docker and the toolkit are unknown, not missing."""
    file = tmp_path / "node.json"
    file.write_text(json.dumps({"schema": 2, "kind": "inventory", "constructed": True, "gpus": []}))

    status, out, _ = run(capsys, "compile", "--snapshot", str(file), "--format", "json")
    found = json.loads(out)

    assert (status, found["ok"]) == (1, None)
    assert [each["fact"] for each in found["unknown"]][:3] == [
        "docker",
        "GPUs and their driver",
        "the container toolkit",
    ]
    assert ids(found) == ["edge10.host_python_unseen"]


def test_secrets_of_a_snapshot_are_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For any author: files are hostile input."""
    file = tmp_path / "host.json"
    told = {"environment": {"HF_TOKEN": "hf_abcdefghijklmnopqrstuvwxyz012345"}, "source": "token=hunter2secret99"}
    docker = {"state": "answers", "reason": "https://alice:hunter3@registry.example.com"}
    file.write_text(json.dumps({"schema": 2, "kind": "edge10-host", **told, "docker": docker}))

    _, out, _ = run(capsys, "compile", "--snapshot", str(file), "--format", "json")

    assert "hf_abcdefghij" not in out
    assert "hunter2secret99" not in out
    assert "hunter3" not in out
    assert "alice:[secret-" in out
    file.write_text("{" + " " * host_snapshots.MAX_TEXT + "}")
    assert "not a recorded host" in run(capsys, "compile", "--snapshot", str(file))[2]


def test_a_folder_of_several_files_is_not_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two hosts are ambiguous; the message explains how to record one."""
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text('{"schema": 2, "kind": "edge10-host"}')

    status, out, err = run(capsys, "compile", "--snapshot", str(tmp_path))

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"{tmp_path}: contains 2 files; write it with" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "invalid JSON"),
        ("{", "invalid JSON (line 1"),
        ("[1]", '"kind" is not "edge10-host"'),
        ('{"schema": 2, "kind": "cluster"}', '"kind" is not "edge10-host"'),
        ('{"schema": 3, "kind": "edge10-host"}', "has schema 3, supported is 2"),
        ('{"schema": true, "kind": "edge10-host"}', "has schema True"),
        ('{"schema": 2, "kind": "edge10-host", "docker": {"state": "drunk"}}', "docker.state: must be one of"),
        ('{"schema": 2, "kind": "edge10-host", "docker": {"images": [{}]}}', "docker.images[0].name: missing"),
        ('{"schema": 2, "kind": "edge10-host", "folder": {"path": "/", "free_gib": -3}}', "folder.free_gib: must be"),
        ('{"schema": 2, "kind": "edge10-host", "folder": {"path": "/", "free_gib": NaN}}', "folder.free_gib: must be"),
        ('{"schema": 2, "kind": "edge10-host", "wheels": 4}', "wheels: unknown field"),
        ('{"schema": 2, "kind": "edge10-host", "environment": [1]}', "environment: must be an object"),
        ("[" * 100_000, "too deep or too long"),
    ],
)
def test_a_damaged_host_snapshot_is_rejected_in_one_line(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its place, and no output."""
    file = tmp_path / "host.json"
    file.write_text(text)

    status, out, err = run(capsys, "compile", "--snapshot", str(file))

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err or not text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--image", "a b"], "--image a b: is not an image name"),
        (["--image", "-v"], "--image -v: is not an image name"),
        (["--image", "https://x/y"], "is not an image name"),
        (["--registry", "ann:hunter2secret@h:5000"], "--registry h:5000: is not a registry; use only HOST:PORT"),
        (["--registry", "http://h:5000"], "is not a registry"),
        (["--registry", "h:70000"], "is not a registry"),
        (["--model", "no/such"], "no/such: unknown model"),
        (["--model", "Qwen/Qwen3-VL-9B"], "Qwen/Qwen3-VL-9B: unknown model"),
        (["--model", " "], "--model: the name is empty"),
        (["--data", ""], "--data: the name is empty"),
        (["--toolchain", "9"], "unknown toolchain version"),
        (["--snapshot", "x", "--python", "y"], "--python applies to this host"),
        (["--snapshot", "/no/such.json"], "/no/such.json"),
        (["--python", "/no/such"], "--python /no/such: cannot be run"),
    ],
)
def test_an_invalid_request_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, without a password that was given with a registry."""
    status, out, err = run(capsys, "quantise", *words)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert "hunter2secret" not in err


def test_a_file_as_data_folder_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So are impossible paths, and those of unknown users."""
    (tmp_path / "file").touch()

    assert "is not a folder" in run(capsys, "quantise", "--data", str(tmp_path / "file"))[2]
    assert run(capsys, "quantise", "--data", str(tmp_path / "file" / "below"))[0] in (1, 2)
    for path in ("/" + "a" * 5000, "~nobody-of-this-name/x"):
        with pytest.raises(InputError, match=r"\A--data [^\n]+; use a folder\Z"):
            preflight.folder(Path(path))


def test_room_is_that_of_the_disk_on_which_the_folder_is_or_would_be(tmp_path: Path) -> None:
    """For a missing folder, that of the nearest existing parent."""
    there, absent = preflight.folder(tmp_path), preflight.folder(tmp_path / "a" / "b")
    disk = os.statvfs(tmp_path)

    assert there.total_gib is not None
    assert there.total_gib == pytest.approx(disk.f_blocks * disk.f_frsize / 2**30)
    assert (there.exists, there.existing_path, there.is_writable) == (True, str(tmp_path), True)
    assert (absent.exists, absent.existing_path, absent.total_gib) == (False, str(tmp_path), there.total_gib)


def judged(asked: HostCheckRequest, **told: Any) -> CheckedHost:
    """A host with these facts."""
    facts = catalog.toolchain()
    model = None if asked.model is None else planner.model(asked.model)
    return hosts.check(EdgeHost(**told), asked, facts, model=model)


@pytest.mark.parametrize("is_writable", [True, False, None])
def test_a_read_only_folder_is_named(is_writable: bool | None) -> None:  # noqa: FBT001
    """Its permission may also be unknown."""
    found = judged(HostCheckRequest("evaluate"), folder=FolderFacts("/data", exists=True, is_writable=is_writable))

    assert [each.path for each in found.findings if each.id == "edge10.host_folder_closed"] == (
        ["/data"] if is_writable is False else []
    )


def of_docker(**told: Any) -> CheckedHost:
    """A host with a running docker service and these facts."""
    facts = {"state": "answers", "server": "27.3.1", "runtimes": ["nvidia"], **told}
    asked = HostCheckRequest("quantise", image="a/b:1", registry=told.pop("asked", "10.9.8.7:5000"))
    facts.pop("asked", None)
    return judged(asked, docker=record(DockerFacts, facts), toolkit=ToolkitFacts(("nvidia-ctk",)))


def test_missing_facts_of_docker_are_unknown() -> None:
    """Registries and image separately."""
    found = of_docker(server=None, runtimes=None)

    assert [each.fact for each in found.unknown][:2] == [
        "whether docker accepts 10.9.8.7:5000 without a certificate",
        "whether the image a/b:1 exists",
    ]  # fmt: skip
    assert [each.id for each in found.findings] == []


def test_a_python_without_vllm_cannot_serve() -> None:
    """One that lists nothing is unknown."""
    inventory = record(Inventory, {"driver": "550.1", "gpus": [{"index": 0}], "packages": {"torch": "2.8.0"}})
    without = judged(HostCheckRequest("evaluate"), inventory=inventory, python="/opt/python")
    untold = judged(HostCheckRequest("evaluate"), inventory=replace(inventory, packages=None), python="/opt/python")

    assert [each.text for each in without.findings] == ["/opt/python has no vLLM, but the guide evaluates with 0.11.0"]
    assert "versions of vllm" in [each.fact for each in untold.unknown]


def test_an_older_pyarrow_is_found() -> None:
    """The guide names one version, and nothing about newer ones."""

    def with_version(version: str | None) -> CheckedHost:
        packages = {} if version is None else {"pyarrow": version}
        inventory = record(Inventory, {"packages": packages, "host": {"is_container": True}})
        return judged(
            HostCheckRequest("compile"), inventory=inventory, python="p", docker=DockerFacts(DockerState.MISSING)
        )

    told = {v: [e.severity for e in with_version(v).findings] for v in ("15.0.2", "16.0.0", "16.0", "21.0.0")}
    assert told == {"15.0.2": [Severity.DEGRADED], "16.0.0": [], "16.0": [], "21.0.0": []}
    assert "versions of pyarrow" in [each.fact for each in with_version(None).unknown]
    assert [e.symptom for e in with_version("15.0.2").findings] == ["edge10.compile_segfault"]


@pytest.mark.parametrize(
    ("value", "has_card", "severity"),
    [("2", True, "fatal"), ("1", True, None), (" 1 ", True, None), ("1", False, None), ("2", False, None)],
)
def test_compiler_threads_suit_the_host(value: str, has_card: bool, severity: str | None) -> None:  # noqa: FBT001
    """One with a GPU; otherwise any number."""
    told = {"driver": "550.1", "gpus": [{"index": 0}]} if has_card else {"no_gpus_reason": "no driver", "gpus": []}
    found = judged(
        HostCheckRequest("compile"), inventory=record(Inventory, told), environment={"COMPILE_THREAD": value}
    )

    by_id = {each.id: each.severity.value for each in found.findings}
    assert by_id.get("edge10.host_threads") == severity
    assert "edge10.host_threads" not in [
        e.id for e in judged(HostCheckRequest("quantise"), environment={"COMPILE_THREAD": "9"}).findings
    ]


def test_threads_of_a_toolchain_are_its_own() -> None:
    """Another release may name other numbers."""
    facts = catalog.toolchain()
    facts = replace(facts, limits=replace(facts.limits, threads_with_gpu="16"))
    inventory = record(Inventory, {"driver": "550.1", "gpus": [{"index": 0}]})

    def is_found(value: str) -> bool:
        host = EdgeHost(inventory=inventory, environment={"COMPILE_THREAD": value})
        found = hosts.check(host, HostCheckRequest("compile"), facts, model=None)
        return any(each.id == "edge10.host_threads" for each in found.findings)

    assert {value: is_found(value) for value in (" 16 ", "1")} == {" 16 ": False, "1": True}


# Facts from docker


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Docker version 20.10.21, build 20.10.21-0ubuntu1~20.04.2", "20.10.21"),
        ("Docker version 29.0.0-rc.1, build 1a2b3c4", "29.0.0-rc.1"),
        ("Docker version 20.10.24+dfsg1, build 297e128", "20.10.24+dfsg1"),
        ("podman version 5.2.2", None),
        ("", None),
        ("docker version " + "9" * 100_000, None),
    ],
)
def test_a_program_is_identified_by_its_version_line(text: str, expected: str | None) -> None:
    """Another program is not docker."""
    assert docker_texts.parse_program(text) == expected


@pytest.mark.parametrize(
    ("address", "is_local"),
    [
        (None, True), ("unix:///var/run/docker.sock", True), ("npipe:////./pipe/docker_engine", True),
        ("tcp://127.0.0.1:2375", True), ("tcp://localhost:2375", True), ("tcp://[::1]:2375", True),
        ("tcp://10.0.0.1:2375", False), ("ssh://ann@h", False), ("tcp://127.0.0.1.example.com:1", False),
        ("http://x", False),
    ],
)  # fmt: skip
def test_remote_and_local_services_are_distinguished(address: str | None, is_local: bool) -> None:  # noqa: FBT001
    """By the address, by default the program's."""
    assert docker_texts.DockerEndpoint("default", address).is_local is is_local


@pytest.mark.parametrize(
    "why",
    [
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
        "failed to connect to the docker API at unix:///var/run/docker.sock; check if the path is correct",
        "error during connect: Get http://%2F%2F.%2Fpipe%2Fdocker_engine/v1.24/info: open //./pipe/docker_engine",
        "dial tcp 127.0.0.1:2375: connect: connection refused",
    ],
)
def test_a_stopped_service_is_recognized_in_every_release(why: str) -> None:
    """On standard error and in the document."""
    assert docker_texts.parse_service("", why).state is DockerState.STOPPED
    assert docker_texts.parse_service(json.dumps({"ServerErrors": [why]})).state is DockerState.STOPPED


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[]", "[{}]", "{}", '{"ServerVersion": 7}', '{"ServerVersion": ["27"]}', "[" * 99_999,
        '{"ServerErrors": {"a": 1}}', '{"a":' * 5000, "9" * 10_000, '{"ServerVersion": NaN}', "\x00\xff",
    ],
)  # fmt: skip
def test_an_invalid_answer_of_docker_is_unknown(text: str) -> None:
    """Never a traceback, never a guessed state."""
    told = docker_texts.parse_service(text)

    assert told.state is DockerState.UNKNOWN
    assert told.server is None
    assert docker_texts.parse_image("x", text).exists is None
    assert docker_texts.parse_endpoint(text).address is None


def test_fields_of_a_wrong_type_are_unknown() -> None:
    """The others are kept."""
    told = docker_texts.parse_service(
        json.dumps(
            {
                "ServerVersion": "27.3.1", "Runtimes": ["runc"],
                "RegistryConfig": {"IndexConfigs": {"a:1": None, "b:1": {"Secure": False}}, "InsecureRegistryCIDRs": 5},
            }
        )
    )  # fmt: skip

    assert (told.server, told.runtimes, told.insecure_registries) == ("27.3.1", None, ("b:1",))
    assert docker_texts.parse_service('{"ServerVersion": "27.3.1"}').insecure_registries is None
    assert docker_texts.parse_image("x", '{"Id": "x", "Size": true}') == ImageFacts("x", True)


@pytest.mark.parametrize(
    ("text", "problem", "registries"),
    [
        ("", "", ()),
        ("{}", "", ()),
        ('{"insecure-registries": ["a:1", "https://b:2"]}', "", ("a:1", "b:2")),
        ('{"insecure-registries": null}', "", ()),
        ('{"insecure-registries": [1]}', 'line 1: "insecure-registries" is not a list of strings', None),
        ('{\n"runtimes": []}', 'line 2: "runtimes" is not an object', None),
        ("{'a': 1}", "invalid JSON: line 1: Expecting property name enclosed in double quotes", None),
        ('{"a": 1}\n{"b": 2}', "invalid JSON: line 2: Extra data", None),
        ("[]", "line 1: not a JSON object", None),
    ],
)
def test_settings_are_read_as_docker_reads_them(text: str, problem: str, registries: tuple[str, ...] | None) -> None:
    """Invalid ones are reported with their line."""
    told = docker_texts.parse_daemon_file("/etc/docker/daemon.json", text)

    assert (told.problem, told.insecure_registries) == (problem, registries)


def test_unreadable_settings_are_unknown(meet: Meet, tmp_path: Path) -> None:
    """So are special and huge files; a missing file is empty."""
    meet("nothing-installed")
    (found,) = docker.facts().files or ()
    assert (found.exists, found.insecure_registries) == (False, None)

    (tmp_path / "daemon.json").mkdir()
    (found,) = docker.facts().files or ()
    assert found.exists is None
    (tmp_path / "daemon.json").rmdir()
    (tmp_path / "daemon.json").write_bytes(b" " * (docker._MAX_FILE + 1))
    assert [each.exists for each in docker.facts().files or ()] == [None]


class Service:
    """A docker API on a socket, limited to the requests of the check."""

    def __init__(self, path: Path, info: str, image: str) -> None:
        self.asked: list[str] = []
        answers = {"info": info, "images": image, "version": '{"ApiVersion": "1.43", "Version": "27.3.1"}'}
        asked = self.asked

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(f"{self.command} {self.path}")
                parts = self.path.strip("/").split("/")
                name = parts[1] if parts[0].startswith("v1.") else parts[0]
                self.send_response(200 if name != "images" or "here" in self.path else 404)
                body = answers.get(name, "OK") if "gone" not in self.path else '{"message": "No such image: gone:1"}'
                self.send_header("API-Version", "1.43")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else body.encode())

            do_HEAD = do_GET  # noqa: N815 - as the server looks for it

            def address_string(self) -> str:
                return "here"

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self.server = UnixStreamServer(str(path), Answers)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.mark.skipif(shutil.which("docker") is None, reason="no docker here")
def test_a_real_docker_program_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is installed: its output for a service's answers is parsed, and it only reads."""
    told = recorded()["ready-as-in-the-guide"]["docker"]
    service = Service(tmp_path / "s", told["info"], told["image"])
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/s")
    monkeypatch.setenv("HOME", str(tmp_path))
    try:
        found = docker.facts("here:1")
        gone = docker.facts("gone:1")
    finally:
        service.server.shutdown()
        service.server.server_close()
    (tmp_path / "s").unlink()
    stopped = docker.facts()

    assert (found.state, found.server) == (DockerState.ANSWERS, "20.10.21")
    assert docker_texts.parse_program(f"Docker version {found.client}, build x") == found.client
    assert (found.endpoint, found.insecure_registries) == (
        f"unix://{tmp_path}/s",
        ("registry.example.com:5000",),
    )
    assert "nvidia" in (found.runtimes or ())
    assert [(each.exists, each.size_gib) for each in found.images] == [(True, 20)]
    assert [each.exists for each in gone.images] == [False]
    assert {each.split()[0] for each in service.asked} <= {"GET", "HEAD"}
    assert stopped.state is DockerState.STOPPED


# Asking programs


def test_a_program_without_an_answer_is_unknown(meet: Meet, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its message, or as silent; later requests are still made."""
    broken = {"status": 126, "errors": "exec format error"}
    meet("gibberish", docker={"version": broken, "context": "", "info": {"status": 3}})
    found = docker.facts()
    assert (found.state, found.client, found.reason) == (DockerState.UNKNOWN, None, "it said nothing of its service")

    monkeypatch.setattr(docker, "ask", lambda _: asking.ProgramAnswer(None, is_late=True))
    assert docker._program().reason == "the docker CLI did not answer within 5 s"
    assert docker._service(DockerFacts()).state is DockerState.SILENT


def test_a_hanging_program_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the timeout, even if a child process keeps the pipe open."""
    monkeypatch.setattr(asking, "LIMIT_S", 0.5)
    program(tmp_path / "p", f"#!/bin/sh\n/bin/sleep 61 &\necho $! > {tmp_path}/pid\necho begun\n/bin/sleep 62\n")
    began = time.monotonic()
    said = asking.ask([str(tmp_path / "p")])

    assert time.monotonic() - began < scaled(3)
    assert (said.status, said.is_late, said.output) == (None, True, "begun\n")
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + scaled(3)
    while time.monotonic() < deadline and is_running(child):
        time.sleep(0.02)
    assert not is_running(child)


def is_running(pid: int) -> bool:
    """Whether a process runs and is not a zombie."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_answer_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless program is ended at its timeout, and its output is cut."""
    monkeypatch.setattr(asking, "LIMIT_S", 0.3)
    monkeypatch.setattr(asking, "MOST", 1000)
    program(tmp_path / "p", "#!/bin/sh\nwhile :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done\n")
    said = asking.ask([str(tmp_path / "p")])

    assert (said.is_late, len(said.output)) == (True, 1000)


def test_a_long_answer_is_cut_and_not_delayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further output is dropped while the program runs to its end."""
    monkeypatch.setattr(asking, "MOST", 1000)
    program(tmp_path / "p", "#!/bin/sh\n/usr/bin/head -c 300000 /dev/zero\nexit 3\n")
    said = asking.ask([str(tmp_path / "p")])

    assert (said.status, said.is_late, len(said.output)) == (3, False, 1000)


def test_children_of_an_ended_program_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that keeps the pipe open is ended at the timeout."""
    monkeypatch.setattr(asking, "LIMIT_S", 0.5)
    program(tmp_path / "p", f"#!/bin/sh\n/bin/sleep 61 &\necho $! > {tmp_path}/pid\necho all\n")
    said = asking.ask([str(tmp_path / "p")])

    assert (said.status, said.is_late, said.output) == (0, False, "all\n")
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + scaled(3)
    while time.monotonic() < deadline and is_running(child):
        time.sleep(0.02)
    assert not is_running(child)


def test_a_program_that_only_closes_its_pipes_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its timeout."""
    monkeypatch.setattr(asking, "LIMIT_S", 0.3)
    program(tmp_path / "p", "#!/bin/sh\necho all\nexec /bin/sleep 61 >&- 2>&-\n")
    said = asking.ask([str(tmp_path / "p")])

    assert (said.status, said.is_late, said.output) == (None, True, "all\n")


@pytest.mark.parametrize("argv", [["/no/such/program"], ["/"], ["a\0b"]])
def test_a_program_that_cannot_start_has_a_reason(argv: list[str]) -> None:
    """With the system's words."""
    said = asking.ask(argv)

    assert (said.status, said.is_late) == (None, False)
    assert said.errors


# Output


def test_a_command_is_undone_with_its_own_values() -> None:
    """A command outside the table has no undo."""
    assert host_commands.undo("docker login a.example.com:5000") == "docker logout a.example.com:5000"
    assert host_commands.undo("usermod -aG docker USER") == "gpasswd -d USER docker"
    assert host_commands.undo("reboot") == ""


def test_every_suggested_command_is_in_the_table(meet: Meet, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that change something have their effect."""
    host = meet("registry-without-its-port")
    _, out, _ = run(capsys, *host.told["ask"], "--explain")
    flat = " ".join(out.split())

    assert "docker pull registry.example.com:5000/tools/quantise:v1.2: downloads an image" in flat
    assert "to undo it: docker image rm registry.example.com:5000/tools/quantise:v1.2" in flat
    for row in load_table("edge10_host_findings", FindingText).values():
        assert list(host_commands.unknown(f"{row.do} {row.effect}")) == []


def test_hostile_text_of_docker_is_escaped(meet: Meet, capsys: pytest.CaptureFixture[str]) -> None:
    """No markup, no terminal control, and no line break that fakes a finding."""
    said = json.dumps({"ServerErrors": ["<script>alert(1)</script>\x1b[2J\u202e Cannot connect to the Docker daemon"]})
    told = {**recorded()["silent"]["docker"], "info": {"status": 1, "output": said}}
    host = meet("silent", docker=told)
    _, out, _ = run(capsys, *host.told["ask"])

    asked = preflight.read_asked("quantise", image="a/b:1")
    shown = render.toolchains.host_shown(preflight.checked(asked))

    assert "\x1b" not in out + shown.plain + shown.html
    assert "\u202e" not in out + shown.plain + shown.html
    assert "<script>" not in shown.html
    assert "&lt;script&gt;" in shown.html


@pytest.mark.parametrize("name", ["ready-as-in-the-guide", "nothing-installed"])
def test_a_notebook_has_the_content_of_the_terminal(name: str, meet: Meet) -> None:
    """Verdict, findings and unknown facts."""
    host = meet(name)
    words = host.told["ask"]
    given = dict(zip((each.lstrip("-") for each in words[1::2]), words[2::2], strict=True))
    found = preflight.checked(preflight.read_asked(words[0], **given))
    shown = render.toolchains.host_shown(found)

    for each in found.findings:
        assert each.id in shown.html
        assert each.id in shown.plain
    flat = " ".join(shown.plain.split())
    for one in found.unknown:
        assert one.fact in flat


def test_the_answer_is_one_document_of_its_schema(meet: Meet, capsys: pytest.CaptureFixture[str]) -> None:
    """It begins with the schema's version."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(__file__).parents[2] / "catalog/schema/edge10-preflight.json").read_text())
    for name in ("socket-denied",):
        host = meet(name)
        _, out, _ = run(capsys, *host.told["ask"], "--format", "json")
        assert out.startswith('{\n  "schema": 2,')
        jsonschema.validate(json.loads(out), schema)


@pytest.mark.slow
def test_this_host_is_really_checked(tmp_path: Path) -> None:
    """By the command: it ends, lists unknown facts, and changes nothing."""
    home = tmp_path / "home"
    home.mkdir()
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "vllm_runbooks", "edge10", "preflight", "compile", "--data", str(tmp_path),
         "--format", "json"],
        capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "HOME": str(home)},
    )  # fmt: skip
    found = json.loads(ran.stdout)

    assert (ran.returncode, ran.stderr) == (1, "")
    assert found["ok"] is not True
    assert "whether the toolchain can compile the model" in [each["fact"] for each in found["unknown"]]
    assert found["folder"]["free_gib"] > 0
    assert not list(home.iterdir())


def test_severity_is_lower_where_nothing_has_to_be_fetched(meet: Meet) -> None:
    """A registry that docker does not take is of no weight then."""
    meet("another-registry")
    found = preflight.checked(preflight.read_asked("quantise", image="a/b:1", registry="registry.example.com:5000"))

    by_id = {each.id: each.severity for each in found.findings}
    assert by_id["edge10.host_registry_unlisted"] is Severity.HINT
    row = load_table("edge10_host_findings", FindingText)["edge10.host_registry_unlisted"]
    assert row.severity is Severity.DEGRADED
