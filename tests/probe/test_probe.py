"""A running server is diagnosed: by requests to servers good and bad, and by recorded observations of real ones."""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import random
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib import parse

import pytest

import hostile_server as hostile
import vllm_runbooks as rb
from command_line import run
from hostile_server import Vllm, serving
from pace import scaled
from rows import in_one_test
from vllm_runbooks.authoring import json_schemas
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.authored import serving_file
from vllm_runbooks.catalog.serving import HEALTH_CHECKS, LOAD, Serving, is_measured
from vllm_runbooks.core.errors import CatalogError, InputError
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.host import inventory
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.lint import knowledge
from vllm_runbooks.probe import asking, checking, metrics, observations, vitals
from vllm_runbooks.probe import command as probe_command
from vllm_runbooks.probe import history_entry as probed
from vllm_runbooks.probe import load as loads
from vllm_runbooks.probe import probing as probe
from vllm_runbooks.probe.address import target_of
from vllm_runbooks.probe.health_checks import answered as requests_answered
from vllm_runbooks.probe.records import FEWEST, Health, MetricPoint, Observation, Sample
from vllm_runbooks.probe.starts import HealthCheck, LaunchResult
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks import case_files, recording
from vllm_runbooks.runbooks.live import probing

jsonschema = pytest.importorskip("jsonschema")
KEY = "sk-proj-0123456789abcdefghijklmnop"
SNAPSHOT = str(folders.cases_dir() / "host-8xa100-shared" / "inventory.json")
CASES = sorted(path.name for path in (folders.catalog_dir() / "cases").glob("probe-*"))


@cache
def schema() -> Any:
    """The JSON Schema of the printed document."""
    return jsonschema.Draft202012Validator(json_schemas.schemas()["probe.json"])


@pytest.fixture
def conditions() -> Serving:
    return catalog.serving()


def seen(port: int, **more: Any) -> Observation:
    """The observation of the server at a port."""
    target = replace(asking.Target(port=port), **more.pop("target", {}))
    return probe.observe(probe.ProbeRequest(target, **{"seconds": 0.04, "patience_s": 2.0, **more}), catalog.serving())


# Addresses


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://localhost", "http://localhost:80"),
        ("HTTPS://llm.example.org/", "https://llm.example.org:443"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://gpu-1.lan:9/llm/v1/", "http://gpu-1.lan:9/llm"),
        ("unix:///run/vllm.sock", "/run/vllm.sock"),
        ("localhost:8000", "http://localhost:8000"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("10.0.0.7:8000/llm/v1", "http://10.0.0.7:8000/llm"),
    ],
)
def test_an_address_is_read(text: str, place: str) -> None:
    """Host, port, path and socket; a trailing /v1 belongs to the requests."""
    assert target_of(text).place == place


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://", "not a server address"),
        ("http://:8000", "not a server address"),
        ("ftp://host", "not a server address"),
        ("http://host:port", "not a server address"),
        ("http://host:0", "not a port"),
        ("http://host:70000", "not a port"),
        ("http://ho st", "spaces"),
        ("http://host\n.example", "control characters"),
        ("http://1.2.3.4.5", "not an IPv4 address"),
        ("http://[::g]:1", "not an IPv6 address"),
        ("http://host/../../etc?", "query"),
        ("http://host/a b", "spaces"),
        ("http://-host", "not a host name"),
        ("http://host..lan", "not a host name"),
        ("unix://run/vllm.sock", "absolute socket path"),
        ("http://host/<script>", "not a valid path"),
        ("http://" + "a" * 3000, "too long"),
        (f"http://user:{KEY}@host:8000", "user or password"),
        (f"http://host:8000/v1?api_key={KEY}", "query"),
        (f"http://host:8000/v1#{KEY}", "query"),
    ],
)
def test_a_malformed_address_is_rejected_in_one_line(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, no output, and no secret in the message."""
    status, out, err = run(capsys, "probe", text)

    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert KEY not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--load", "30 parsecs"],
        ["--load", "0s"],
        ["--load", "2h"],
        ["--at-once", "4"],
        ["--load", "1s", "--at-once", "0"],
        ["--load", "1s", "--answer-tokens", "many"],
        ["--seconds", "nan"],
        ["--patience", "-1"],
        ["--key-env", "NOT_SET_ANYWHERE"],
        ["--key-env", KEY],
        ["--gpu-memory", "/nowhere.jsonl"],
        ["--gpus", "8xNothing"],
        ["--command", "/nowhere.sh"],
        ["--log", "/nowhere.log"],
    ],
)
def test_a_malformed_request_is_rejected_in_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, before or after the first request to the server."""
    status, out, err = run(capsys, "probe", "http://127.0.0.1:9", *arguments)

    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert KEY not in err


@pytest.mark.parametrize("option", ["--key-env", "--model", "--log", "--command", "--gpus", "--gpu-memory"])
def test_an_option_with_an_unset_value_is_rejected(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Ignoring it could probe another server or model than intended."""
    status, out, err = run(capsys, "probe", "http://127.0.0.1:9", option, "")

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"{option} is empty" in err


@pytest.mark.parametrize(
    ("key", "said"), [(f"{KEY}\nX-More: 1", "one line"), (f"{KEY}\u20ac", "one line"), ("", "is empty")]
)
def test_an_invalid_key_is_rejected_before_any_request(
    key: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message does not blame the server, and hides the key."""
    monkeypatch.setenv("A_KEY", key)
    server = Vllm()
    with serving(server) as port:
        status, out, err = run(capsys, "probe", f"http://127.0.0.1:{port}", "--key-env", "A_KEY")

    assert (status, out, err.count("\n"), server.requests) == (2, "", 1, [])
    assert said in err
    assert KEY not in err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seconds", -5), ("seconds", float("nan")), ("seconds", float("inf")), ("seconds", 0), ("patience_s", -1),
        ("load_seconds", -1), ("load_seconds", float("inf")), ("at_once", 0), ("at_once", 1 << 20), ("seconds", "2"),
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_rejected_in_notebooks_too(name: str, value: Any) -> None:
    """With the command's limits, before any request."""
    server = Vllm()
    with serving(server) as port, pytest.raises(InputError, match=r"; (give|use) "):
        rb.live.probe(f"http://127.0.0.1:{port}", **{"seconds": 0.1, name: value})

    assert server.requests == []


def test_a_silent_port_is_given_up_early_and_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOST:PORT needs no scheme; a pipe gets a line about the wait, and the first limit ends it."""
    monkeypatch.setattr(probe, "FIRST_S", 0.5)
    monkeypatch.setattr(probe_command, "_PIPED_AFTER_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        status, out, err = run(capsys, "probe", address, "--no-history")

    assert status == 1
    assert time.monotonic() - began < 20
    assert "/health: no answer within 0.5 s" in out
    assert err == f"vllm-runbooks: sending some requests to {address}, reading its metrics for 2 s …\n"


def test_what_is_no_address_is_a_file_or_a_case(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An unknown name is refused with both in mind; what belongs to a live server is refused with a recorded one."""
    status, _, err = run(capsys, "probe", "localhost")
    assert status == 2
    assert "a server address is http://HOST:PORT, https://HOST or HOST:PORT" in err
    for text in ("", "{}", '{"kind": "probe"}', '{"kind": "probe", "samples": NaN}', "[" * 100_000, "no JSON"):
        (tmp_path / "one.json").write_text(text)
        status, out, err = run(capsys, "probe", str(tmp_path / "one.json"))
        assert (status, out, err.count("\n")) == (2, "", 1), text
    status, _, err = run(capsys, "probe", "tiny-cpu-served")
    assert status == 2
    status, _, err = run(capsys, "probe", "probe-healthy", "--load", "3s")
    assert (status, "--load applies to a running server" in err) == (2, True)


def test_invalid_gpus_are_rejected_before_any_request(capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise the figures of a load would be lost."""
    server = Vllm()
    with serving(server) as port:
        status, out, err = run(capsys, "probe", f"http://127.0.0.1:{port}", "--load", "5s", "--gpus", "8xFOO")

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "FOO" in err
    assert server.requests == []


def test_the_verdict_is_printed_even_if_the_case_cannot_be_stored(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As on a full disk: with the given name, and the verdict's exit status."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    status, out, err = run(capsys, "probe", "probe-healthy", "--record", "mine")

    assert status == 0
    assert out.startswith("HEALTHY ")
    assert "no case was written: could not store mine/probe.json (No space left on device" in err
    assert list(tmp_path.iterdir()) == []


# Servers


def test_a_missing_server_is_reported_with_its_port(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 1, and the failed health check."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    status, out, _ = run(capsys, "probe", f"http://127.0.0.1:{port}", "--format", "json")
    found = json.loads(out)

    assert status == 1
    assert found["cause"]["id"] == "serving.unreachable"
    assert found["cause"]["proofs"][0]["health_check"] == "port"
    assert list(schema().iter_errors(found)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (hostile.endless_body, "serving.not_vllm"),
        (hostile.slow_head, "serving.silent"),
        (hostile.slow_body, "serving.silent"),
        (hostile.going_on, "serving.silent"),
        (hostile.silent, "serving.silent"),
        (hostile.bad_chunks, "serving.not_vllm"),
        (hostile.no_http, "serving.not_vllm"),
        (hostile.elsewhere, "serving.not_vllm"),
        (hostile.packed, "serving.not_vllm"),
        (hostile.deep, "serving.not_vllm"),
    ],
)
def test_a_hostile_server_costs_at_most_the_timeout(answer: hostile.Answering, cause: str) -> None:
    """For any answer the probe ends, stores little, and names the failed health check."""
    began = time.monotonic()
    with serving(answer) as port:
        found = checking.health(seen(port, patience_s=0.25))

    assert found.cause is not None
    assert found.cause.id == cause
    assert time.monotonic() - began < scaled(6)
    assert len(json.dumps(document(found))) < 100_000
    assert "hunter2" not in json.dumps(document(found))


@pytest.mark.parametrize(
    ("otherwise", "more", "cause", "rung"),
    [
        ({}, {}, None, None),
        ({"models": (401, '{"error": "Unauthorized"}')}, {}, "serving.key_missing", "models"),
        ({"models": (401, "")}, {"target": {"key": KEY}}, "serving.key_refused", "models"),
        ({"models": (200, '{"data": []}')}, {}, "serving.no_models", "models"),
        ({"models": (500, "oops")}, {}, "serving.no_models", "models"),
        (
            {"completions": (404, '{"error": {"message": "does not exist"}}')},
            {"model": "x"},
            "serving.wrong_model",
            "model",
        ),
        (
            {"health": (503, ""), "completions": (500, "EngineCore encountered an issue.")},
            {},
            "serving.engine_dead",
            "token",
        ),
        ({"health": (503, "")}, {}, "serving.unhealthy", "health"),
        ({"completions": (500, "CUDA error")}, {}, "serving.request_failed", "token"),
        ({"completions": (200, "{}")}, {}, "serving.request_failed", "token"),
    ],
)
def test_a_failed_health_check_has_its_condition(
    otherwise: dict[str, Any], more: dict[str, Any], cause: str | None, rung: str | None
) -> None:
    """The condition, and the health check that proves it."""
    with serving(Vllm(**otherwise)) as port:
        found = checking.health(seen(port, **more))

    assert (found.cause.id if found.cause else None) == cause
    assert (found.cause.proofs[0].health_check if found.cause else None) == rung
    assert found.verdict is (Verdict.FAIL if cause else Verdict.PASS)


class _Streaming(Vllm):
    """A stream that continues or stops without an end."""

    def __init__(self, pieces: int, pause_s: float) -> None:
        super().__init__()
        self._pieces, self._pause_s = pieces, pause_s

    def __call__(self, connection: socket.socket, asked: str, raw: bytes) -> None:
        if b'"stream": true' not in raw:
            super().__call__(connection, asked, raw)
            return
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for _ in range(self._pieces):
            connection.sendall(b'data: {"choices": [{"text": "x"}]}\n\n')
            time.sleep(self._pause_s)
        time.sleep(2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pieces", "pause_s", "cause", "said"),
    [
        (100_000, 0.0, "serving.stream_endless", "does not end"),
        (100, 0.01, "serving.stream_endless", "does not end"),
        (2, 0.0, "serving.engine_silent", "after 2 events"),
        (0, 0.0, "serving.engine_silent", "no answer within"),
    ],
)
def test_an_endless_stream_and_a_stopped_one_are_distinguished(
    pieces: int, pause_s: float, cause: str, said: str
) -> None:
    """The endless one has enough answers; the stopped one is incomplete."""
    with serving(_Streaming(pieces, pause_s)) as port:
        found = checking.health(seen(port, patience_s=0.5))

    assert found.cause is not None
    assert found.cause.id == cause
    assert said in found.cause.proofs[0].message


class _Chatless(Vllm):
    def __init__(self, status: int, text: str, *, is_tool: bool) -> None:
        super().__init__()
        self._chat, self._is_tool = (status, text.encode()), is_tool

    def _answer(self, path: str, raw: bytes) -> tuple[int, bytes]:
        if path.endswith("/chat/completions") and (b'"tools"' in raw or not self._is_tool):
            return self._chat
        return super()._answer(path, raw)


@pytest.mark.parametrize("name", [name for name in HEALTH_CHECKS if name != LOAD])
def test_every_failure_of_a_required_health_check_fails_the_server(name: str) -> None:
    """For any reason, it is a finding."""
    reasons = {"unreachable", "tls", *_WAYS[name]} | ({"key-refused", "engine-dead"} if name != "port" else set())
    for reason in reasons:
        found = checking.health(observed(health_checks=(HealthCheck(name, LaunchResult.FAILED, "x", reason=reason),)))

        assert found.verdict is Verdict.FAIL, reason
        assert found.cause is not None, reason
        assert found.cause.proofs[0].health_check == name, reason


_ANY = ("no-answer", "no-http", "refused", "failed")
_WAYS = {
    "port": (),
    "health": (*_ANY, "unhealthy"),
    "server": ("no-answer", "no-http", "not-vllm"),
    "models": (*_ANY, "no-models"),
    "model": (*_ANY, "wrong-model"),
    **dict.fromkeys(("token", "tools"), _ANY),
    "stream": (*_ANY, "endless"),
    "chat": (*_ANY, "no-template"),
}
"""Reasons of individual health checks, in addition to the common ones."""


@pytest.mark.parametrize(
    ("status", "text", "is_tool", "name"),
    [
        (400, "default chat template is no longer allowed", False, "serving.no_template"),
        (400, "no messages, please", False, "serving.chat_failed"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice', True, "serving.tools_off"),
        (500, "the parser broke", True, "serving.tools_refused"),
    ],
)
def test_a_failed_chat_has_its_reason(status: int, text: str, is_tool: bool, name: str) -> None:  # noqa: FBT001
    """A missing template, missing tools, or another reason."""
    with serving(_Chatless(status, text, is_tool=is_tool)) as port:
        found = checking.health(seen(port))

    assert [finding.id for finding in found.findings] == [name]


def test_a_wrong_model_name_is_reported_with_the_served_ones() -> None:
    """The change that adds the name is checked for the server's release."""
    with serving(Vllm(completions=(404, '{"error": {"message": "The model `x` does not exist."}}'))) as port:
        found = checking.health(seen(port, model="x"))

    assert found.cause is not None
    assert "tiny" in found.cause.explanation
    assert [edit.name for edit in found.cause.changes[0].edits] == ["served_model_name"]


def test_a_key_is_never_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Even if a server repeats it in errors, names, metrics or its version."""
    monkeypatch.setenv("A_KEY", KEY)
    coded = base64.b64encode(KEY.encode()).decode()
    echoed = json.dumps({"data": [{"id": f"m-{KEY}", "owned_by": KEY}, {"id": coded, "owned_by": f"a {coded} b"}]})
    label = f'vllm:num_requests_running{{engine="{KEY}",model_name="a {KEY} b"}} 1.0\n'
    info = f'vllm:cache_config_info{{{KEY.replace("-", "_")}="x",cache_dtype="{KEY}"}} 1.0\n'
    server = Vllm(label + info, models=(200, echoed), completions=(500, f'{{"error": {{"message": "bad {KEY}"}}}}'))
    with serving(server) as port:
        case = tmp_path / "a-case"
        address = f"http://127.0.0.1:{port}"
        status, out, err = run(
            capsys, "probe", address, "--key-env", "A_KEY", "--seconds", "0.1", "--record", str(case)
        )
        _, told, _ = run(capsys, "probe", address, "--key-env", "A_KEY", "--seconds", "0.1", "--format", "json")

    assert any(f"Bearer {KEY}".encode() in raw for raw in server.requests), "it was sent"
    assert status == 1
    for text in (out, err, told, *(path.read_text() for path in case.iterdir())):
        assert KEY not in text
        assert KEY.replace("-", "_") not in text
        assert coded not in text


@pytest.mark.parametrize("key", ["x/Y=1", 'a"b/c', "schlüssel+8", KEY])
def test_a_key_is_hidden_in_every_encoding(key: str) -> None:
    """JSON, URL and base64, even if it is too short to be distinguished from a word."""
    raw = key.encode()
    for form in (
        key, json.dumps(key), parse.quote(key), parse.quote(key, safe=""), base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
    ):  # fmt: skip
        shown = asking.harmless(f"bad [{form}]", key)

        assert shown.startswith("bad [")
        assert form.strip('"=') not in shown


def test_a_hidden_key_leaves_no_bracket() -> None:
    """It is replaced once, also after its name."""
    assert asking.harmless(f"bad Authorization: Bearer {KEY}", KEY) == "bad Authorization: Bearer [secret-key]"


def test_a_default_key_is_sent_only_to_trusted_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """This host, and servers with a valid certificate; keys of other services are not used."""
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-of-another-service-0123456789")
    sent = {
        address: probing._with_key(target_of(address, is_verified=is_verified), "")
        for address, is_verified in [
            ("http://127.0.0.1:1", True), ("http://localhost:1", True), ("unix:///run/s", True),
            ("https://llm.example.org", True), ("https://gpu-1.lan", False), ("http://gpu-1.lan:8000", True),
            ("http://192.0.2.1:1", True),
        ]
    }  # fmt: skip
    keyless = ["https://gpu-1.lan", "http://gpu-1.lan:8000", "http://192.0.2.1:1"]

    assert [address for address, (target, _) in sent.items() if target.key is None] == keyless
    assert {target.key for target, _ in sent.values()} == {KEY, None}
    for address, (_, said) in sent.items():
        assert ("--key-env VLLM_API_KEY sends it" in said) is (address in keyless)
    verified = target_of("https://llm.example.org")
    bare, withheld = probing._with_key(verified, "", is_key_local=True)
    assert bare.key is None
    assert withheld.endswith("is not this host; run `vllm-runbooks probe` with --key-env VLLM_API_KEY")
    assert probing._with_key(target_of("http://localhost:1"), "", is_key_local=True)[0].key == KEY
    named = probing._with_key(target_of("http://gpu-1.lan:8000"), "VLLM_API_KEY")
    assert (named[0].key, named[1]) == (KEY, "")
    monkeypatch.delenv("VLLM_API_KEY")
    assert probing._with_key(target_of("http://127.0.0.1:1"), "") == (target_of("http://127.0.0.1:1"), "")


def test_a_remote_server_that_requires_a_key_is_reported_with_the_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server under another host's name is probed without the key."""
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    monkeypatch.setattr(socket, "getaddrinfo", _here)
    server = Vllm(models=(401, '{"error": "Unauthorized"}'))
    with serving(server) as port:
        status, out, _ = run(capsys, "probe", f"http://gpu-1.lan:{port}", "--seconds", "0.1")

    assert status == 1
    assert "Note  VLLM_API_KEY is set but was not sent" in out
    assert server.requests
    assert not any(b"uthorization" in raw for raw in server.requests)


_LOOK_UP = socket.getaddrinfo


def _here(host: str, port: int, **given: int) -> Any:
    """Names lead to this host."""
    is_number = given.get("flags", 0) & socket.AI_NUMERICHOST
    return _LOOK_UP(host if is_number else "127.0.0.1", port, **given)


def test_an_unresolved_name_costs_the_timeout_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's lookup may take a minute, and nothing ends it."""

    def slow(host: str, port: int, **given: int) -> Any:
        if not given.get("flags", 0) & socket.AI_NUMERICHOST:
            time.sleep(1.5)
        return _LOOK_UP(host, port, **given)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    began = time.monotonic()
    found = checking.health(
        probe.observe(probe.ProbeRequest(target_of("http://gpu-1.lan:1"), patience_s=0.1), catalog.serving())
    )

    assert time.monotonic() - began < scaled(1)
    assert found.cause is not None
    assert found.cause.id == "serving.unreachable"


def test_all_addresses_of_a_name_share_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent address leaves time for the next, and many cost no more than one."""
    with contextlib.ExitStack() as kept, serving(Vllm()) as port:
        # A full queue: the next connection waits forever.
        full = kept.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            other = kept.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(full.getsockname())
        dead, alive = ([_LOOK_UP("127.0.0.1", at, type=socket.SOCK_STREAM)[0]] for at in (full.getsockname()[1], port))
        for addresses, is_there in ((dead * 8, False), ([*dead, *alive], True)):
            monkeypatch.setattr(asking, "_addresses", lambda *_, found=addresses: found)
            began = time.monotonic()

            assert asking.is_open(asking.Target(host="gpu-1.lan"), patience_s=0.3) is is_there
            assert time.monotonic() - began < scaled(0.6)


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        ("--enable-auto-tool-choice --chat-template x.jinja", (True, True)),
        ("--chat-template=x.jinja", (False, True)),
        ("--chat_template=x.jinja --enable_auto_tool_choice", (True, True)),
        ("--enable-auto-tool", (True, False)),
        ("--served-model-name --chat-template-content-format string", (False, False)),
        ("", (False, False)),
    ],
)
def test_options_of_a_command_follow_its_release(words: str, needs: tuple[bool, bool]) -> None:
    """In any spelling: a failing chat is then not a hint."""
    target = probing._as_started(asking.Target(), f"vllm serve tiny {words}\n")

    assert (target.has_tools, target.has_template) == needs


def test_answered_requests_are_counted_for_all_reasons() -> None:
    """By the metric's name in the catalog, for any label."""
    lines = "".join(
        f'vllm:request_success_total{{engine="0",finished_reason="{why}",model_name="a}} b"}} {count}\n'
        for why, count in (("stop", "3.0"), ("length", "4"), ("abort", "0.0"))
    )
    for exported, count in ((f"{lines}vllm:request_success_created 9\n", 7), ("vllm:num_requests_running 1\n", None)):
        with serving(Vllm(exported)) as port:
            assert requests_answered(asking.Target(port=port), catalog.serving()) == count


def test_gpus_may_come_from_a_snapshot(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As in every command, or from this host's driver."""
    monkeypatch.setattr(inventory, "gpus_alone", lambda: host_loading.read_snapshot(SNAPSHOT))
    for gpus in (SNAPSHOT, "local"):
        status, out, err = run(capsys, "probe", "probe-healthy", "--gpus", gpus)

        assert (status, err) == (0, "")
        assert out.startswith("HEALTHY ")


def test_requests_include_the_prefix() -> None:
    """As behind a proxy."""
    server = Vllm()
    with serving(server) as port:
        found = probe.observe(
            probe.ProbeRequest(target_of(f"http://127.0.0.1:{port}/llm/v1"), seconds=0.04, patience_s=2),
            catalog.serving(),
        )

    assert all(rung.result is not LaunchResult.FAILED for rung in found.health_checks)
    assert all(raw.split(b" ", 2)[1].startswith(b"/llm/") for raw in server.requests)


def test_a_server_on_a_unix_socket_can_be_probed(tmp_path: Path) -> None:
    """As `--uds` makes one."""
    server, path = Vllm(), tmp_path / "s"
    with serving(server, path) as _:
        found = probe.observe(
            probe.ProbeRequest(target_of(f"unix://{path}"), seconds=0.04, patience_s=2), catalog.serving()
        )

    assert found.vllm == "0.32.0"
    assert all(rung.result is not LaunchResult.FAILED for rung in found.health_checks)


def test_a_failed_handshake_is_reported() -> None:
    """A server speaks plain HTTP at an https address."""
    with serving(Vllm()) as port:
        found = checking.health(
            probe.observe(probe.ProbeRequest(target_of(f"https://127.0.0.1:{port}"), patience_s=0.3), catalog.serving())
        )

    assert found.cause is not None
    assert found.cause.id == "serving.tls_refused"


def test_log_command_and_gpus_are_part_of_the_observation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log is diagnosed, changes edit the command, and its secrets are hidden."""
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    (tmp_path / "launch.sh").write_text(f"vllm serve tiny --max-num-seqs 4 --api-key {KEY}\n")
    card = {"index": 0, "name": "NVIDIA A100", "total_mib": 81920, "used_mib": 40960}
    (tmp_path / "cards.jsonl").write_text(json.dumps({"at_s": 0, "gpus": [card]}))
    lines = "".join(f'{name}{{engine="0",model_name="tiny"}} {count}\n' for name, count in ((RUN, 4), (WAIT, 12)))
    server = Vllm(f'{lines}{USE}{{engine="0",model_name="tiny"}} 0.1\n')
    with serving(server) as port:
        status, out, _ = run(
            capsys, "probe", f"http://127.0.0.1:{port}", "--seconds", "0.1", "--command", str(tmp_path / "launch.sh"),
            "--gpu-memory", str(tmp_path / "cards.jsonl"), "--log", "tiny-cpu-served", "--explain",
        )  # fmt: skip

    assert status == 1
    assert "--max-num-seqs 16" in out
    assert "Passed lint" in out
    assert "its log (startup.log): " in out
    assert "GPU 0 (NVIDIA A100): 40.0 of 80.0 GiB in use" in out
    assert KEY not in out
    assert any(f"Bearer {KEY}".encode() in raw for raw in server.requests), "the variable is taken without being named"


def test_a_log_with_arguments_replaces_a_command() -> None:
    """Without a script, the change is made in its arguments and checked."""
    with serving(Vllm(f'{RUN}{{engine="0"}} 4\n{WAIT}{{engine="0"}} 12\n{USE}{{engine="0"}} 0.1\n')) as port:
        seen_now = rb.live.probe(f"http://127.0.0.1:{port}", log="tiny-cpu-served", seconds=0.1)
    change = rb.health(seen_now).findings[0].changes[0]

    assert seen_now.arguments
    assert change.command is not None
    assert "--max-num-seqs 16" in change.command
    assert change.checks.lint == "passed"


def test_a_missing_address_is_rejected() -> None:
    """A live runbook without a server does not fall back to a recorded one."""
    with pytest.raises(InputError, match="use one such as"):
        rb.live.probe(" ")


# Load


def test_a_load_is_closed_loop_and_ends_on_time() -> None:
    """Never more concurrent requests than requested, and the counts add up."""
    server = Vllm()
    server.seconds = 0.02
    with serving(server) as port:
        began = time.monotonic()
        found = seen(port, load=loads.ProbeLoad(0.4, at_once=3, prompt_tokens=5, answer_tokens=3)).load
        took = time.monotonic() - began

    assert found is not None
    assert server.most <= 4
    assert found.answered > 10
    assert found.requests == found.answered + found.unfinished + sum(found.errors.values())
    assert found.errors == {}
    assert found.time_to_first_token.p50_ms is not None
    assert found.time_to_first_token.p50_ms >= 20
    assert found.answer_tokens_per_s == pytest.approx(3 * found.answered / found.seconds, rel=0.2)
    assert took < scaled(3)


def test_no_two_prompts_of_two_loads_have_a_common_beginning() -> None:
    """Otherwise the second load would measure the first one's prefix cache."""
    server = Vllm()
    for _ in range(2):
        with serving(server) as port:
            seen(port, load=loads.ProbeLoad(0.2, at_once=3, prompt_tokens=40, answer_tokens=3))
    sent = [json.loads(raw.partition(b"\r\n\r\n")[2]) for raw in server.requests if b'"ignore_eos"' in raw]
    begun = [" ".join(each["prompt"].split()[:8]) for each in sent]

    assert len(begun) > 20
    assert len(set(begun)) == len(begun)
    assert {len(each["prompt"].split()) for each in sent} == {40}


def test_a_load_with_prefix_cache_hits_has_a_note() -> None:
    """Its times do not measure prefills; a few hits do not matter."""
    load = loads.Loading(asking.Target(), "m", loads.ProbeLoad(), patience_s=1).measured()
    for hits, is_told in ((60, True), (40, False)):
        values = two(**{ASKED: (0, 1000), HIT: (0, hits)})
        said = rb.render.health.load(checking.health(observed(*values, load=load))).plain

        assert ("of the tokens hit the prefix cache" in said) is is_told


def test_a_load_on_a_hostile_server_ends_on_time() -> None:
    """Endless streams, missing answers and errors are counted by kind."""
    for answer in (hostile.endless_body, hostile.silent, hostile.no_http):
        with serving(answer) as port:
            began = time.monotonic()
            with loads.Loading(asking.Target(port=port), "m", loads.ProbeLoad(0.1, at_once=2), patience_s=5) as loading:
                time.sleep(loading.left_s)
            found = loading.measured()

        assert time.monotonic() - began < scaled(2)
        assert found.answered == 0
        assert found.answer_tokens_per_s is None
        assert found.requests <= 10


class _Short(Vllm):
    """A server with a very short context that properly rejects longer requests."""

    def _answer(self, path: str, raw: bytes) -> tuple[int, bytes]:
        if b'"max_tokens": 64' in raw:
            return 400, b'{"error": {"message": "the prompt is longer than the model takes"}}'
        return super()._answer(path, raw)


def test_a_rejected_load_is_not_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    """Single tokens are returned, but no request of the load: its health check reports it."""
    with serving(_Short()) as port:
        status, out, _ = run(capsys, "probe", f"http://127.0.0.1:{port}", "--load", "0.5s", "--no-history")

    assert status == 1
    assert "Most load test requests fail" in out
    assert "0 of" in out
    assert "400" in out


def test_an_interrupted_load_ends_immediately() -> None:
    """As with Ctrl-C: the figures until then are reported."""
    with serving(hostile.silent) as port:
        began = time.monotonic()
        loading = loads.Loading(asking.Target(port=port), "m", loads.ProbeLoad(60, at_once=8), patience_s=60)
        with pytest.raises(KeyboardInterrupt), loading:
            _interrupt_later()

    assert time.monotonic() - began < scaled(2)
    assert loading.measured().is_cut_short
    assert not any(thread.is_alive() for thread in loading._threads)


def _interrupt_later() -> None:
    time.sleep(0.1)
    raise KeyboardInterrupt


@pytest.mark.parametrize("values", [{"seconds": 0}, {"seconds": float("nan")}, {"at_once": 0}, {"prompt_tokens": -1}])
def test_an_invalid_load_is_rejected(values: dict[str, Any]) -> None:
    """By its number."""
    with pytest.raises(InputError, match="load: "):
        loads.ProbeLoad(**values)


def test_percentiles_lie_between_the_nearest_ranks() -> None:
    """Of 1 to 101 s the median is 51, the 95th percentile 96, the 99th 100; few have none."""
    found = loads.quantiles([float(number) for number in range(101, 0, -1)])
    few = loads.quantiles([5.0, 1.0, 4.0, 2.0, 3.0])
    more = loads.quantiles([1.0] * 20)

    assert [found.p50_ms, found.p95_ms, found.p99_ms] == pytest.approx([51_000.0, 96_000.0, 100_000.0])
    assert (few.p50_ms, few.p95_ms, few.p99_ms) == (3000.0, None, None)
    assert (more.p95_ms, more.p99_ms) == (1000.0, None)
    assert loads.quantiles([]).p50_ms is None


def test_percentiles_of_few_answers_have_a_note() -> None:
    """Also where they were recorded as if they were known."""
    load = loads.Loading(asking.Target(), "m", loads.ProbeLoad(), patience_s=1).measured()
    times = loads.quantiles([1.0] * 100)
    for answered, said in ((0, 0), (19, 6), (20, 3), (100, 0)):
        measured = replace(
            load, answered=answered, time_to_first_token=times, inter_token_latency=times, end_to_end_latency=times
        )
        shown = rb.render.health.load(checking.health(observed(load=measured))).plain

        assert shown.count("too few") == said, answered


def test_times_of_histograms_are_described_as_interpolated() -> None:
    """Servers report counts by bucket."""
    for values, is_said in ((waited("0.5", "1.0"), True), ({RUN: (1, 1)}, False)):
        found = checking.health(observed(*two(**values)))

        assert ("interpolated" in rb.render.health.figures(found, catalog.serving()).plain) is is_said


# Metrics


def test_metrics_are_read_line_by_line(conditions: Serving) -> None:
    """Known series with their labels, escapes and numbers; others, damaged lines and NaN are passed over."""
    text = (
        "# HELP vllm:num_requests_running x\n"
        'vllm:num_requests_running{engine="0",model_name="a \\"b\\" \\\\ c"} 2.0\n'
        'vllm:num_requests_running{engine="1",model_name="x",pid="7"} 3 1700000000\n'
        'vllm:num_requests_running{engine="1",model_name="x",pid="8"} 4\n'
        'vllm:num_requests_waiting{engine="0"} NaN\n'
        "vllm:num_requests_waiting{broken 5\n"
        "vllm:something_else 9\n"
        'vllm:cache_config_info{block_size="16",engine="0",of_somebody="x"} 1.0\n'
        'vllm:cache_config_info{block_size="32",engine="1"} 1.0\n'
        'http_requests_total{handler="/a",status="2xx"} 1e3\n'
        'http_requests_total{handler="/b",status="2xx"} 5\n'
    )
    found, settings = metrics.points(text, conditions, str)

    assert [(p.name, dict(p.labels), p.value) for p in found] == [
        ("vllm:num_requests_running", {"engine": "0", "model_name": 'a "b" \\ c'}, 2.0),
        ("vllm:num_requests_running", {"engine": "1", "model_name": "x"}, 7.0),
        ("http_requests_total", {"status": "2xx"}, 1005.0),
    ]
    assert settings == {"block_size": "16"}


def test_an_impossible_value_of_a_series_is_left_out() -> None:
    """Valid ones stay, and it is reported once."""
    lines = f'{USE}{{engine="0"}} -5\n{USE}{{engine="1"}} 1.5\n{RUN}{{engine="0"}} 2\n{MADE}{{engine="0"}} -1\n'
    with serving(Vllm(f'{lines}{WAIT}{{engine="0"}} +Inf\n')) as port:
        found = checking.health(seen(port))

    assert found.facts["running"] == 2
    assert [found.facts[name] for name in ("kv_use", "waiting", "generation_tokens_per_s")] == [None] * 3
    assert sorted(note.partition(": an impossible value")[0] for note in found.notes) == sorted([USE, WAIT, MADE])


def test_any_metrics_are_read_quickly_and_without_errors(conditions: Serving) -> None:
    """Any text, and time in proportion to its length."""
    draw = random.Random(20261121)  # noqa: S311 - drawn to be repeated
    pieces = [
        "vllm:num_requests_running",
        "{",
        "}",
        '="',
        '"',
        "\\",
        "\n",
        " ",
        ",",
        "1e9",
        "le",
        "engine",
        "\x00",
        "ß",
    ]
    for _ in range(300):
        metrics.points("".join(draw.choice(pieces) for _ in range(draw.randrange(200))), conditions, str)
    name = "vllm:num_requests_running{"
    for evil in ('a="\\' * 5000, "a" * 20_000, '\\"' * 10_000, '="' * 10_000, "}" * 20_000, " " * 20_000):
        began = time.process_time()
        metrics.points(f"{name}{evil}}} 1\n" * 20, conditions, str)
        assert time.process_time() - began < 1, evil[:20]


def observed(*samples: Mapping[str, float], seconds: float = 10.0, **more: Any) -> Observation:
    """An observation whose samples hold points, `name{label=value}`, evenly over some seconds."""
    made = []
    for number, points in enumerate(samples):
        at = seconds * number / max(len(samples) - 1, 1)
        made.append(Sample(at, tuple(_point(name, value) for name, value in points.items())))
    given = {
        "kind": "probe",
        "timestamp": "",
        "address": "x",
        "seconds": seconds,
        "model": "m",
        "health_checks": (),
        "vllm": "0.32.0",
    }
    return Observation(**{**given, "samples": tuple(made), **more})


def _point(text: str, value: float) -> MetricPoint:
    name, _, labels = text.rstrip("}").partition("{")
    pairs = dict(pair.split("=") for pair in labels.split(",") if pair)
    return MetricPoint(name, {"engine": "0", "model_name": "m", **pairs}, value)


def figures(*samples: Mapping[str, float], seconds: float = 10.0) -> dict[str, float | None]:
    return vitals.Figures(observed(*samples, seconds=seconds).samples, catalog.serving()).of()


def test_quantiles_match_prometheus() -> None:
    """10 observations up to 1 s, 30 up to 2 s, none between, 10 beyond 4 s."""
    buckets = {1.0: 10.0, 2.0: 40.0, 4.0: 40.0, float("inf"): 50.0}

    assert vitals.quantile(0.5, buckets) == pytest.approx(1 + 15 / 30)
    assert vitals.quantile(0.1, buckets) == pytest.approx(0.5)
    assert vitals.quantile(0.8, buckets) == pytest.approx(2.0)
    assert vitals.quantile(0.95, buckets) == 4.0
    assert vitals.quantile(0.5, {1.0: 0.0, float("inf"): 0.0}) is None
    assert vitals.quantile(0.5, {}) is None
    assert vitals.quantile(0.5, {-1.0: 5.0, float("inf"): 5.0}) == -1.0


def test_figures_are_calculated_from_two_samples() -> None:
    """Rates per second, shares of the increase, quantiles of new observations."""
    first = {
        "vllm:generation_tokens_total": 100.0,
        "vllm:request_success_total{finished_reason=error}": 0.0,
        "vllm:request_success_total{finished_reason=stop}": 10.0,
        "vllm:time_to_first_token_seconds_bucket{le=0.1}": 5.0,
        "vllm:time_to_first_token_seconds_bucket{le=+Inf}": 5.0,
    }
    last = {
        "vllm:generation_tokens_total": 600.0,
        "vllm:request_success_total{finished_reason=error}": 1.0,
        "vllm:request_success_total{finished_reason=stop}": 29.0,
        "vllm:time_to_first_token_seconds_bucket{le=0.1}": 15.0,
        "vllm:time_to_first_token_seconds_bucket{le=+Inf}": 15.0,
    }
    found = figures(first, last)

    assert found["generation_tokens_per_s"] == 50.0
    assert found["requests_per_s"] == 2.0
    assert found["error_share"] == pytest.approx(0.05)
    assert found["first_token_p50_s"] == pytest.approx(0.05)
    assert found["waiting"] is None
    assert figures(first)["generation_tokens_per_s"] is None, "one sample tells no rate"
    assert figures(last, first)["generation_tokens_per_s"] == 10.0, "a server that was started anew begins at 0"


def test_several_engines_are_combined_and_listed() -> None:
    """Requests are summed; the cache usage is that of the fullest engine."""
    sample = {
        "vllm:num_requests_running{engine=0}": 2.0,
        "vllm:num_requests_running{engine=1}": 3.0,
        "vllm:kv_cache_usage_perc{engine=0}": 0.2,
        "vllm:kv_cache_usage_perc{engine=1}": 0.9,
    }
    told = vitals.Figures(observed(sample, sample).samples, catalog.serving())
    apart = {each.engine: each.facts for each in told.engines()}

    assert (told.of()["running"], told.of()["kv_use"]) == (5.0, 0.9)
    assert (apart["0"]["running"], apart["1"]["running"]) == (2.0, 3.0)
    assert apart["0"]["kv_use"] == 0.2


def test_names_of_older_releases_are_known() -> None:
    """The figures of 0.8.5 under its own names."""
    first = {"vllm:gpu_cache_usage_perc": 0.5, "vllm:gpu_prefix_cache_queries_total": 0.0}
    first["vllm:gpu_prefix_cache_hits_total"] = 0.0
    last = {**first, "vllm:gpu_prefix_cache_queries_total": 100.0, "vllm:gpu_prefix_cache_hits_total": 25.0}
    last |= {"vllm:time_per_output_token_seconds_bucket{le=0.1}": 2.0}
    last |= {"vllm:time_per_output_token_seconds_bucket{le=+Inf}": 2.0}
    found = figures(first, last)

    assert (found["kv_use"], found["prefix_hit_share"]) == (0.5, 0.25)
    assert found["each_token_p50_s"] == pytest.approx(0.05)


# Conditions

RUN, WAIT, USE = "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"
PREEMPTED, MADE, ENDED = "vllm:num_preemptions_total", "vllm:generation_tokens_total", "vllm:request_success_total"
FIRST = "vllm:time_to_first_token_seconds_bucket"
FAILED, GIVEN_UP, STOPPED = (f"{ENDED}{{finished_reason={why}}}" for why in ("error", "abort", "stop"))
HTTP = "http_requests_total{{status={}}}"
ASKED, HIT = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"


def waited(below: str, above: str) -> dict[str, tuple[float, float]]:
    """Four first tokens that took more than one bound and no more than the next."""
    return {f"{FIRST}{{le={le}}}": (0, count) for le, count in ((below, 0), (above, 4), ("+Inf", 4))}


def two(**values: tuple[float, float]) -> list[dict[str, float]]:
    """As many samples as a condition needs: the first value, then the second."""
    return [{name: pair[min(n, 1)] for name, pair in values.items()} for n in range(FEWEST)]


@in_one_test(
    ("values", "names"),
    [
        ({RUN: (4, 4), WAIT: (9, 8)}, ["serving.queue_overload"]),
        ({RUN: (4, 4), WAIT: (9, 4)}, ["serving.queue"]),
        ({RUN: (4, 4), WAIT: (9, 0)}, []),
        ({RUN: (0, 0), WAIT: (3, 3), MADE: (7, 7)}, ["serving.stuck"]),
        ({RUN: (0, 0), WAIT: (3, 3), MADE: (7, 8)}, []),
        ({PREEMPTED: (4, 5), USE: (1.0, 0.95)}, ["serving.kv_pressure"]),
        ({PREEMPTED: (4, 4), USE: (0.95, 0.91)}, ["serving.kv_nearly_full"]),
        ({PREEMPTED: (4, 4), USE: (0.95, 0.89)}, []),
        ({FAILED: (0, 2), STOPPED: (0, 98)}, ["serving.generation_errors"]),
        ({FAILED: (0, 1), STOPPED: (0, 99)}, []),
        ({GIVEN_UP: (0, 6), STOPPED: (0, 94)}, ["serving.aborted"]),
        ({HTTP.format("5xx"): (0, 2), HTTP.format("2xx"): (0, 98)}, ["serving.errors"]),
        ({HTTP.format("4xx"): (0, 9), HTTP.format("2xx"): (0, 91)}, []),
        ({WAIT: (0, 0), **waited("1.0", "5.0")}, ["serving.slow_first_token"]),
        ({WAIT: (0, 2), **waited("1.0", "5.0")}, []),
        ({WAIT: (0, 0), **waited("10.0", "20.0")}, ["serving.very_slow_first_token"]),
        ({ASKED: (0, 2000), HIT: (0, 19)}, ["serving.prefix_cache_unused"]),
        ({ASKED: (0, 2000), HIT: (0, 20)}, []),
        ({ASKED: (0, 900), HIT: (0, 0)}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_a_condition_applies_at_its_limit(values: dict[str, tuple[float, float]], names: list[str]) -> None:
    """Each with its negative example at the limit in the catalog."""
    found = checking.health(observed(*two(**values)))

    assert [finding.id for finding in found.findings] == names
    for finding in found.findings:
        assert all(proof.fact for proof in finding.proofs)


@pytest.mark.parametrize(
    ("running", "waiting", "names"),
    [
        ((1, 0, 1, 1), (5, 5, 5, 5), ["serving.queue_overload"]),
        ((0, 1, 1, 1), (5, 5, 5, 5), ["serving.queue_overload"]),
        ((4, 4, 4, 4), (0, 9, 9, 9), ["serving.queue_overload"]),
        ((4, 4, 4, 4), (9, 4, 4, 0), ["serving.queue"]),
        ((4, 4, 4, 4), (0, 9, 9, 0), []),
        ((1, 1, 2, 0), (0, 1, 0, 0), []),
    ],
)
def test_a_queue_must_be_in_most_samples(running: Any, waiting: Any, names: list[str]) -> None:
    """Gauges are set when a step ends, so a server with one slot may show no queue."""
    samples = [{RUN: ran, WAIT: waited} for ran, waited in zip(running, waiting, strict=True)]

    assert [finding.id for finding in checking.health(observed(*samples)).findings] == names


class _Between(Vllm):
    """Its metrics are sometimes from the moment between two requests."""

    told = 0

    def _answer(self, path: str, raw: bytes) -> tuple[int, bytes]:
        if path.endswith("/metrics"):
            self.told += 1
            self.metrics = f'{RUN}{{engine="0"}} {int(self.told % 4 != 3)}\n{WAIT}{{engine="0"}} 5\n'
        return super()._answer(path, raw)


@pytest.mark.slow
def test_a_server_with_one_running_request_may_be_overloaded() -> None:
    """Even if one of its samples shows none."""
    with serving(_Between()) as port:
        found = checking.health(seen(port, load=loads.ProbeLoad(0.6, at_once=2, prompt_tokens=5, answer_tokens=3)))

    assert found.cause is not None
    assert found.cause.id == "serving.queue_overload"


def test_every_condition_of_figures_is_tried_here() -> None:
    """A new one needs its row, and its near miss."""
    tried = {name for _, names in _rows() for name in names}

    assert {each.id for each in catalog.serving().conditions if is_measured(each)} == tried


def _rows() -> list[Any]:
    test: Any = test_a_condition_applies_at_its_limit
    return list(test.rows)


def test_our_own_load_is_not_assessed_as_client_traffic() -> None:
    """The probe's prompts have no common prefix, and it cancels some requests."""
    values = two(**{"vllm:prefix_cache_queries_total": (0, 2000), "vllm:prefix_cache_hits_total": (0, 0)})
    load = loads.Loading(asking.Target(), "m", loads.ProbeLoad(), patience_s=1).measured()

    assert checking.health(observed(*values, load=load)).findings == ()


def test_too_few_samples_prove_no_gauge() -> None:
    """A condition on every sample is open with one or two."""
    for count in range(1, FEWEST):
        assert checking.health(observed(*[{RUN: 1.0, WAIT: 9.0}] * count)).findings == ()
    assert checking.health(observed(*[{RUN: 1.0, WAIT: 9.0}] * FEWEST)).findings


OVERLOADED = two(**{RUN: (4, 4), WAIT: (12, 12), USE: (0.1, 0.1)})


def test_a_change_edits_the_command_and_is_checked() -> None:
    """It is linted for the server's release, with a note on missing plans."""
    command = "vllm serve Qwen/Qwen3-8B --max-num-seqs 4\n"
    found = checking.health(observed(*OVERLOADED, command=command))
    change = found.findings[0].changes[0]

    assert change.command is not None
    assert "--max-num-seqs 16" in change.command
    assert change.checks.lint == "passed"
    assert change.checks.plan.startswith("unknown: ")


def test_a_change_without_a_command_is_marked_as_unchecked() -> None:
    """With the missing option."""
    change = checking.health(observed(*OVERLOADED)).findings[0].changes[0]

    assert change.command is None
    assert "--command" in change.checks.lint
    assert "--command" in change.checks.plan


def test_an_option_that_the_release_lacks_is_not_offered() -> None:
    """0.8.5 has no such option: the change is left out, and why."""
    serving = catalog.serving()
    kept = [c for c in serving.conditions if c.id == "serving.queue_overload"]
    texts = tuple(
        replace(text, edits=tuple(replace(edit, name="kv_cache_memory_bytes") for edit in text.edits))
        for text in kept[0].changes
    )
    changed = replace(serving, conditions=(replace(kept[0], changes=texts),))
    old = observed(*OVERLOADED, vllm="0.8.5")
    finding = vitals.check(old, changed, knowledge.knowledge).findings[0]

    assert [change.title for change in finding.changes if change.edits] == []
    assert "vLLM 0.8.5 has no kv_cache_memory_bytes" in finding.left_out[0]


# The data


FAULTS = [
    ("series: waiting, says", "series: wating, says", "is not a series"),
    ("kind: rate, series: preemptions", "kind: gauge, series: preemptions", "is not a gauge"),
    ("fact: kv_use, over: every", "fact: kv_use, over: window", "does not go with a gauge"),
    ("op: '>', limit: 0.05", "op: '!=', limit: 0.05", "'!=' is not one of"),
    ("reason: [no-template]", "reason: [no-plate]", "'no-plate' is not one of"),
    (
        "health_check: [models], reason: [no-models",
        "health_check: [modles], reason: [no-models",
        "'modles' is not one of",
    ),
    ("{waiting} requests are waiting, none is running", "{witing} requests wait, none runs", "{witing} is not a fact"),
    ("name: max_num_seqs, value: '{half_running}'", "name: max_num_seq, value: '{half_running}'", "in no release"),
    ("id: serving.queue\n", "id: serving.errors\n", "is not a unique id"),
    ("instead_of: [serving.engine_silent]", "instead_of: [serving.nothing]", "is not another condition"),
    ("why_limits: Same as for `serving.errors`.", "why_limits: ''", "is required if a limit is"),
    ("'vllm:num_preemptions_total'", "'vllm:num_preemptions'", "only counters end with _total"),
    ("source: vllm 0.32.0 v1/engine/exceptions.py:12", "source: somewhere v1", "is not written as"),
    ("quantile: 0.5, says: 'time to first", "quantile: 5, says: 'time to first", "not between 0 and 1"),
    ("of: prefix_queries, says", "says", "is required for a share"),
    ("limit: 100}", "limit: 100, than: running}", "needs a limit, or another fact"),
]
"""The edit of the file, and the resulting error."""


def test_all_errors_of_the_data_are_listed_with_their_lines(tmp_path: Path) -> None:
    """File, line, field and error of each."""
    text = (folders.catalog_dir() / "serving.yaml").read_text("utf-8")
    for old, new, _ in FAULTS:
        assert old in text, old
        text = text.replace(old, new, 1)
    (tmp_path / "serving.yaml").write_text(text)
    (tmp_path / "releases").symlink_to(folders.catalog_dir() / "releases")
    with pytest.raises(CatalogError) as error:
        serving_file.read_serving(tmp_path / "serving.yaml")
    lines = str(error.value).splitlines()

    assert all(re.match(r"serving\.yaml:\d+: [\w.]+: ", line) for line in lines), lines
    for _, new, said in FAULTS:
        assert any(said in line for line in lines), (new, lines)


# Recorded servers


def test_the_eight_states_are_recorded() -> None:
    """As tests/live/states.yaml names them."""
    assert len(CASES) == 8


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_server_has_its_expected_conditions(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As text and as JSON that matches its schema and can be diagnosed again."""
    evidence = rb.load(name)
    found = rb.health(evidence)
    status, out, err = run(capsys, "probe", name, "--format", "json")
    told = json.loads(out)

    assert rb.health_verdict(found, evidence).verdict is Verdict.PASS
    assert (status, err) == (int(found.cause is not None), "")
    assert out.startswith('{\n  "schema": 2,')
    assert list(schema().iter_errors(told)) == []
    assert observations.read_observation(out, "x") == found.observation
    text = rb.render.health.text(found, catalog.serving())
    assert text.startswith(("PASS  ", "FAIL  "))
    assert f" · vLLM {found.vllm.version or 'unknown'} · " in text
    assert rb.render.health.summary(found, catalog.serving()).html.startswith("<div")
    for view in (rb.render.health.checks, rb.render.health.findings, rb.render.health.load):
        assert view(found).plain
        assert view(found).html
    assert "<svg" in rb.render.health.figures(found, catalog.serving()).html or not found.observation.samples


def test_the_steps_of_a_degraded_server_are_proof_fix_and_verification() -> None:
    """Problems with proof, fixes with cost, effects on clients, confirmation of the cause."""
    found, steps = rb.health(rb.load("probe-kv-pressure")), rb.render.health_steps
    problems, fixes = steps.problems(found), steps.fixes(found)

    assert [text.fact.partition(":")[0] for text in problems] == [
        "The KV cache is too small",
        "More requests arrive than the server can process",
    ]
    assert "preemptions: 1.94 per second" in problems[0].fact
    assert problems[0].do
    assert fixes[0].do == "Let vLLM size the KV cache (`remove --num-gpu-blocks-override`). Cost: more GPU memory."
    assert fixes[1].do.startswith("Or: Run fewer concurrent requests (`--max-num-seqs 1`). Cost: requests wait in the")
    checks = steps.health_checks(found)
    assert checks.fact.startswith("7 of 8 health checks passed. `tools` failed: /v1/chat/completions")
    assert checks.so == "The server is ready; only requests of this kind fail."
    load = steps.load(found, catalog.serving())
    assert "100.0% KV cache usage" in load.fact
    assert "28 of 36 were answered; the first token came after 1.29 s (median)." in load.fact
    assert "`vllm-runbooks diff`" in steps.following(found).do


@pytest.mark.parametrize(
    ("name", "check", "command"),
    [
        ("probe-engine-killed", "3 of 5 health checks passed. `token` failed", "vllm-runbooks diagnose SERVER.log"),
        ("probe-wrong-key", "3 of 4 health checks passed. `models` failed: /v1/models: 401", ""),
        ("probe-not-vllm", "1 of 3 health checks passed. `server` failed: not a vLLM server", ""),
    ],
)
def test_the_health_check_that_proves_the_cause_is_named(name: str, check: str, command: str) -> None:
    """Not an earlier failing one; the log is requested only if the server is down."""
    found, steps = rb.health(rb.load(name)), rb.render.health_steps

    assert steps.health_checks(found).fact.startswith(check)
    assert steps.health_checks(found).so == "The server is not ready."
    assert steps.following(found).command == command


def test_a_healthy_server_has_no_problem_and_a_scheduled_check() -> None:
    """Steps without content are empty, and the next one schedules this probe."""
    found, steps = rb.health(rb.load("probe-healthy")), rb.render.health_steps

    assert [text.fact for text in steps.problems(found)] == ["No problems, only a hint: Tool calling is not enabled."]
    assert steps.problems(replace(found, findings=())) == steps.fixes(found) == []
    assert steps.following(found).command.startswith("vllm-runbooks schedule add health")
    unseen = replace(found, facts={}, observation=replace(found.observation, health_checks=(), load=None))
    assert steps.health_checks(unseen) is None
    assert steps.load(unseen, catalog.serving()) is None


def test_a_card_has_the_times_of_a_healthy_server_only() -> None:
    """With problems they are evidence: the card has the cause and its fix."""
    degraded, healthy = (rb.health(rb.load(case)) for case in ("probe-kv-pressure", "probe-healthy"))
    loaded = replace(healthy, observation=replace(healthy.observation, load=degraded.observation.load))

    assert "time to first token" not in str(rb.render.health.summary(degraded, rb.serving()))
    assert "time to first token" in str(rb.render.health.summary(loaded, rb.serving()))


def test_a_different_finding_fails() -> None:
    """A case passes if the answer equals its expectation."""
    evidence = rb.load("probe-kv-pressure")
    verdict = rb.health_verdict(rb.health(rb.load("probe-healthy")), evidence)

    assert verdict.verdict is Verdict.FAIL
    assert "finding serving.kv_pressure: expected, not found" in verdict.reason
    assert verdict.root_cause is None


def test_an_unexpected_additional_finding_fails() -> None:
    """As for a host: a new hint on a healthy server fails its case."""
    evidence = rb.load("probe-healthy")
    found = checking.health(evidence)
    more = replace(checking.health(observed(*two(**{RUN: (4, 4), WAIT: (9, 4)}))).findings[0])
    verdict = rb.health_verdict(replace(found, findings=(*found.findings, more)), evidence)

    assert verdict.verdict is Verdict.FAIL
    assert verdict.reason == "finding serving.queue: found, not expected"


def test_a_server_with_nothing_wrong_is_recorded_as_one(tmp_path: Path) -> None:
    """An empty expectation differs from a missing one."""
    found = checking.health(observed(health_checks=(HealthCheck("token", LaunchResult.PASSED, ""),)))
    recording.record_health(tmp_path / "mine", found)
    evidence = sources.load(str(tmp_path / "mine"))
    hint = checking.health(observed(*two(**{RUN: (4, 4), WAIT: (9, 4)}))).findings

    assert checking.health_verdict(found, evidence).verdict is Verdict.PASS
    assert checking.health_verdict(replace(found, findings=hint), evidence).verdict is Verdict.FAIL


def test_a_root_cause_has_one_form_everywhere() -> None:
    """In results, history and `diff`; a condition is its own class."""
    found = checking.health(observed(*OVERLOADED))
    wanted = {"symptom": "serving.queue_overload", "class": "serving.queue_overload"}

    assert document(checking.health_verdict(found).root_cause) == wanted
    assert probed.results(found)["root_cause"] == wanted


def test_an_observation_is_recorded_as_a_case(tmp_path: Path) -> None:
    """Atomically, and without overwriting another."""
    found = checking.health(observed(*OVERLOADED))
    case = recording.record_health(tmp_path / "mine", found)
    evidence = sources.load(str(tmp_path / "mine"))

    assert case.expect.findings == ["serving.queue_overload"]
    assert checking.health_verdict(checking.health(evidence), evidence).verdict is Verdict.PASS
    with pytest.raises(InputError, match="already exists"):
        recording.record_health(tmp_path / "mine", found)
    with pytest.raises(InputError, match="vllm-runbooks probe"):
        diagnosing.diagnose(evidence)


def test_a_case_that_expects_an_unknown_condition_is_rejected(tmp_path: Path) -> None:
    """With file, line and field."""
    recording.record_health(tmp_path / "mine", checking.health(observed(*OVERLOADED)))
    path = tmp_path / "mine" / "case.yaml"
    path.write_text(path.read_text().replace("- serving.queue_overload", "- serving.queue_overlord"))
    with pytest.raises(CatalogError, match=r"case\.yaml:\d+: expect\.findings\.0: .*is not a condition"):
        case_files.read_case(path)


def test_text_of_a_server_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """Names, errors and labels of a hostile server are neither markup nor terminal controls."""
    evil = "<script>alert(1)</script>\x1b[2J"
    models = json.dumps({"data": [{"id": evil}, {"id": "b"}]})
    label = json.dumps(evil)
    server = Vllm(f'vllm:num_requests_running{{engine={label}}} 1\nvllm:num_requests_running{{engine="b"}} 1\n',
                  models=(200, models), completions=(500, evil))  # fmt: skip
    with serving(server) as port:
        _, out, _ = run(capsys, "probe", f"http://127.0.0.1:{port}", "--seconds", "0.1")
        found: Health = checking.health(seen(port))

    assert "\x1b" not in out
    for view in (rb.render.health.checks, rb.render.health.findings):
        assert "<script" not in view(found).html
    steps = rb.render.health_steps
    texts = [*steps.problems(found), *steps.fixes(found), steps.health_checks(found), steps.following(found)]
    assert "<script" not in rb.render.health.summary(found, catalog.serving()).html + rb.step(texts, {}).html
    assert "<script" not in rb.render.health.figures(found, catalog.serving()).html


def test_an_html_page_is_not_quoted() -> None:
    """The first two hundred characters of an HTML error have no information."""
    with serving(Vllm("", models=(404, "<!DOCTYPE html><html><head><style>p {}</style>"))) as port:
        rungs = {rung.name: rung.message for rung in seen(port).health_checks}

    assert rungs["models"] == "/v1/models: 404: an HTML page"


def test_a_probe_is_in_the_history_and_two_can_be_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Findings, figures and request; a comparison lists the changes."""
    busy = f'{RUN}{{engine="0"}} 4\n{WAIT}{{engine="0"}} 12\n{USE}{{engine="0"}} 0.1\n'
    calm = f'{RUN}{{engine="0"}} 1\n{WAIT}{{engine="0"}} 0\n{USE}{{engine="0"}} 0.1\n'
    ids, printed = [], []
    for exported in (busy, calm):
        with serving(Vllm(exported)) as port:
            printed.append(run(capsys, "probe", f"http://127.0.0.1:{port}", "--seconds", "0.2", "--format", "json")[1])
        (listed,) = json.loads(run(capsys, "history", "list", "--limit", "1", "--format", "json")[1])["entries"]
        ids.append(listed["id"])
        assert (listed["kind"], listed["subject"]) == ("probe", f"http://127.0.0.1:{port}")
    (tmp_path / "busy.json").write_text(printed[0])
    status, said, _ = run(capsys, "diff", *ids)
    by_file = run(capsys, "diff", str(tmp_path / "busy.json"), ids[1])

    assert listed["inputs"]["seconds"] == 0.2
    assert listed["results"]["facts"]["waiting"] == 0
    assert status == by_file[0] == 1
    for out in (said, by_file[1]):
        assert "resolved finding: serving.queue_overload" in out
        assert "facts.waiting: 12 -> 0" in out


def test_two_recorded_probes_are_compared_with_their_launches(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As folders or files; an unknown launch is reported as unknown."""
    for name, words in (("b1", "--max-num-seqs 1"), ("b2", "--max-num-seqs 8"), ("b3", None)):
        command = None if words is None else f"vllm serve tiny {words}\n"
        recording.record_health(tmp_path / name, checking.health(observed(*OVERLOADED, command=command)))
    roots = [str(tmp_path / name) for name in ("b1", "b2", "b3")]
    files = [f"{root}/probe.json" for root in roots]

    for a, b, _ in (roots, files):
        status, out, err = run(capsys, "diff", a, b)
        assert (status, err) == (0, "")
        assert "options.max_num_seqs: 1 -> 8" in out
        assert "not known" not in out
    for a, b, said in ((files[0], files[2], "the second server"), (files[2], files[2], "both servers")):
        out = run(capsys, "diff", a, b)[1]
        assert f"the options of {said} are unknown" in out.lower()
        assert "options." not in out


def test_a_probe_without_history_stores_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither does a recorded server, which is not an event on this host."""
    run(capsys, "probe", "http://127.0.0.1:9", "--no-history")
    run(capsys, "probe", "probe-healthy")

    assert json.loads(run(capsys, "history", "list", "--format", "json")[1])["entries"] == []


def test_figures_of_busy_servers_are_not_a_difference(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """They are shown, but only verdict, findings and health checks count."""
    load = loads.Loading(asking.Target(), "m", loads.ProbeLoad(), patience_s=1).measured()
    passed = (HealthCheck("token", LaunchResult.PASSED, ""),)
    names: list[Path] = []
    for number, rungs in ((5, passed), (7, passed), (7, ())):
        sample = {RUN: float(number), WAIT: 0.0, USE: number / 10}
        one = replace(load, requests=number, answered=number, answer_tokens_per_s=2.0 * number)
        found = checking.health(observed(sample, sample, sample, load=one, health_checks=rungs))
        names.append(tmp_path / f"{len(names)}.json")
        names[-1].write_text(rb.render.to_json(found))
    status, out, _ = run(capsys, "diff", str(names[0]), str(names[1]))

    assert status == 0
    for said in ("load.answered: 5 -> 7", "load.answer_tokens_per_s: 10 -> 14", "facts.kv_use: 0.5 -> 0.7"):
        assert said in out
    assert run(capsys, "diff", str(names[1]), str(names[2]))[0] == 1


def test_figures_of_a_run_about_a_server_are_facts_and_make_no_difference(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """They are in the results of a check, and from there in the history and its trends."""
    load = loads.Loading(asking.Target(), "m", loads.ProbeLoad(), patience_s=1).measured()
    names = []
    for number in (1, 2):
        measured = replace(load, answer_tokens_per_s=float(number), time_to_first_token=loads.quantiles([number]))
        found = checking.health(observed(*two(**{RUN: (number, number), MADE: (0, 50)}), load=measured))
        told = checking.health_verdict(found).facts
        entry = {"id": f"{number}" * 12, "kind": "run", "subject": "is-it-healthy", "began": "", "verdict": "pass"}
        names.append(tmp_path / f"{number}.json")
        names[-1].write_text(json.dumps({**entry, "results": {"outcome": "running", "facts": told}}))
    status, out, _ = run(capsys, "diff", *map(str, names))

    assert (told["vllm"], told["running"], told["generation_tokens_per_s"]) == ("0.32.0", 2.0, 5.0)
    assert (told["load_answer_tokens_per_s"], told["load_first_token_p50_ms"]) == (2.0, 2000.0)
    assert "waiting" not in told, "unknown is left out"
    assert status == 0
    assert "facts.running: 1 -> 2 " in out
