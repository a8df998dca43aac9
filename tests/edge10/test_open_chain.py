"""A model quantized with open tools, served next to the float one and evaluated."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

import open_parts as of_tests
import set_up
import tiny_models
import vllm_runbooks as rb
from pace import scaled
from test_serve import RACE, UP, Stage
from vllm_runbooks import render
from vllm_runbooks.catalog import folders
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import document, record
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.edge10.accuracy.records import Accuracy
from vllm_runbooks.edge10.chain import chains, open_parts
from vllm_runbooks.edge10.chain.records import LINKS, OpenChain
from vllm_runbooks.probe.starts import LaunchResult

LIVE, PARTS = set_up.place(), of_tests.place()  # read here: tests have their own cache folder
SERVING = [*UP, {"serve": {}}, {"hold": True}]
KEY = "sk-4fT9qLz81mXcVbNa"


class Host(Stage):
    """A host with fakes for vLLM and for the open tools' Python, a model, questions and texts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, monkeypatch)
        self.setenv("STAND_IN", json.dumps(SERVING))
        self.python = folder / "of parts" / "bin" / "python"
        self.python.parent.mkdir(parents=True)
        stand_in = Path(__file__).parents[1].joinpath("stand_in_parts.py")
        self.python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(stand_in))} "$@"\n')
        self.python.chmod(0o755)
        self.model = tiny_models.write(folder / "a model")
        self.questions, self.texts = folder / "the questions", folder / "texts.txt"
        self.questions.mkdir()
        self.ask(["which", "x", "y", "A"] for _ in range(40))
        self.texts.write_text("a text\nanother one\n")

    def ask(self, rows: Any, head: str = "question,A,B,answer") -> None:
        """Write the questions."""
        lines = [head, *(",".join(row) for row in rows)]
        (self.questions / "own_val.csv").write_text("".join(f"{line}\n" for line in lines))

    def words(self, *more: str) -> list[str]:
        """The command of the float server."""
        return ["vllm", "serve", str(self.model), "--host", "127.0.0.1", "--port", str(self.port), *more]

    def chain(self, *more: str, does: Mapping[str, Any] | None = None, **given: Any) -> OpenChain:
        """The chain with this behavior of the fake tools."""
        self.setenv("STAND_IN_PARTS", json.dumps(does or {}))
        where = {"python": str(self.python.parent.parent), "vllm": "0.32.0", "folder": str(self.folder / "run")}
        return chains.chain(
            shlex.join(self.words(*more)),
            given.pop("questions", str(self.questions)),
            given.pop("calibration", str(self.texts)),
            **{**where, "say": self.said.append, **given},
        )


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host with this behavior."""
    return Host(tmp_path, monkeypatch)


def results(found: OpenChain) -> dict[str, str]:
    return {each.name: each.result.value for each in found.links}


def nothing_left(folder: Path) -> None:
    """No process of the chain lives."""
    left = [each.pid for each in psutil.process_iter() if str(folder) in " ".join(_words_of(each))]
    assert left == []


def _words_of(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline()) if process.pid != os.getpid() else []
    except psutil.Error:
        return []


# ---- checks before anything is launched


@pytest.mark.parametrize(
    ("does", "needs"),
    [
        ({"lacks": ["llmcompressor", "evalscope"]}, ("llmcompressor", "evalscope")),
        ({"lacks": ["evalscope"]}, ("evalscope",)),
    ],
)
def test_a_missing_tool_is_named_with_its_installation(
    host: Host, does: dict[str, Any], needs: tuple[str, ...]
) -> None:
    """In one line; the run is skipped, not failed, and nothing is installed or launched."""
    found = host.chain(does=does)
    judged = rb.live.chain_verdict(found)

    assert found.needs == needs
    assert results(found) == {"parts": "left out"}
    assert f"ENV/bin/pip install {' '.join(needs)}`" in found.no_accuracy_reason
    assert "\n" not in found.no_accuracy_reason
    assert (judged.verdict, judged.reason) == (Verdict.SKIPPED, found.no_accuracy_reason)
    assert not (host.folder / "run").exists()


@pytest.mark.slow
def test_llm_compressor_is_not_needed_for_a_model_that_is_quantised(host: Host) -> None:
    """It may have been quantised by another tool, on another host."""
    out = tiny_models.write(host.folder / "by another tool", quantization_config={"quant_method": "awq"})
    found = host.chain(does={"lacks": ["llmcompressor"], "evaluate": {"exit": 1}}, quantised=str(out), calibration="")

    assert found.needs == ()
    assert found.quantised is not None
    assert (found.quantised.method, found.quantised.folder) == ("awq", str(out))


def test_the_open_tools_are_found_by_the_variable(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option takes precedence; a place without a Python is named."""
    monkeypatch.setenv(open_parts.VARIABLE, str(host.folder / "nowhere"))
    with pytest.raises(InputError, match=r"RUNBOOKS_OPEN_PARTS: .*nowhere: no such Python"):
        host.chain(python="")
    (host.folder / "nowhere").mkdir()
    with pytest.raises(InputError, match=r"RUNBOOKS_OPEN_PARTS: .*nowhere: is not a Python environment"):
        host.chain(python="")
    monkeypatch.setenv(open_parts.VARIABLE, str(host.python))
    assert host.chain(does={"lacks": ["evalscope"]}, python="").parts is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoilt", "given", "words"),
    [
        ("", {"method": "int3"}, "method: 'int3' is not supported by the open-source tools; use awq or gptq"),
        ("", {"samples": 0}, "samples is 0; use a whole number from 1"),
        ("", {"calibration": ""}, "calibration: is empty; use a file with one text per line"),
        (
            "",
            {"calibration": "/none/x"},
            "calibration: /none/x: No such file or directory; use a file",
        ),
        ("", {"questions": "/none"}, "questions: /none: is not a folder"),
        ("", {"evaluate_within_s": -1}, "evaluate_within_s is -1; use a number above 0"),
        ("", {"memory_gib": float("nan")}, "memory_gib is nan; use a number above 0"),
        ("", {"at_once": True}, "at_once is True; use a whole number"),
        ("", {"ready_within_s": None}, "ready_within_s is None; use a number above 0"),
        ("", {"folder": __file__}, "cannot be moved aside: Not a directory; use another folder"),
        ("", {"quantised": "/none"}, "/none: is not a folder; correct the path"),
        ("model/config.json", {}, "config.json: not found"),
        ("model", {}, "is not a folder; the chain needs the folder of a model on this host"),
        ("questions/own_val.csv", {}, "contains no file NAME_val.csv"),
    ],
)
def test_unusable_input_is_reported_in_one_line(host: Host, spoilt: str, given: dict[str, Any], words: str) -> None:
    """Before hours are spent."""
    if spoilt == "model":
        host.model.rename(host.model.with_name("elsewhere"))
    elif spoilt.startswith("model/"):
        (host.model / spoilt.removeprefix("model/")).unlink()
    elif spoilt:
        (host.questions / spoilt.removeprefix("questions/")).unlink()
    with pytest.raises(InputError, match=words) as told:
        host.chain(**given)
    assert "\n" not in str(told.value)
    assert not (host.folder / "run").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--quantization", "awq"), "so remove --quantization"),
        (("--uds", "run/x"), "set --port"),
        (("--ssl-keyfile", "k"), "without TLS"),
        (("--host", "192.0.2.1"), "192.0.2.1:.*use --host and --port of this host"),
    ],
)
def test_a_command_that_cannot_be_evaluated_is_reported(host: Host, more: tuple[str, ...], words: str) -> None:
    """With the option to change."""
    with pytest.raises(InputError, match=words):
        host.chain(*more)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"quantization_config": {"quant_method": "awq"}}, "is already quantised"),
        ({"architectures": ["Qwen2_5_VLForConditionalGeneration"]}, "is not a plain language model"),
    ],
)
def test_an_unsupported_model_is_reported(host: Host, changes: dict[str, Any], words: str) -> None:
    """An already quantized one, and a multimodal one."""
    tiny_models.write(host.model, **changes)
    with pytest.raises(InputError, match=words):
        host.chain()


@pytest.mark.parametrize(
    ("rows", "head", "words"),
    [
        (
            [["which", "x", "y", "C"]],
            "question,A,B,answer",
            "own_val.csv:2: has no question, or its answer is not one of",
        ),
        ([["", "x", "y", "A"]], "question,A,B,answer", "own_val.csv:2: has no question"),
        ([["which", "x", "y", "A"]], "question,A,C,answer", "own_val.csv:1: the columns are question, A, C, answer"),
        ([["which", "x"]], "question,answer", "own_val.csv:1: the columns are"),
        ([], "question,A,B,answer", "contains no question below its first line"),
    ],
)
def test_invalid_questions_are_reported_by_line(host: Host, rows: list[list[str]], head: str, words: str) -> None:
    """EvalScope would fail on them while both servers run."""
    host.ask(rows, head)
    with pytest.raises(InputError, match=words):
        host.chain()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", b"\n \n", "contains no text"),
        ("a.txt", b"\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_unusable_calibration_texts_are_reported(host: Host, name: str, text: bytes, words: str) -> None:
    """Before anything is launched."""
    (host.folder / name).write_bytes(text)
    with pytest.raises(InputError, match=words):
        host.chain(calibration=str(host.folder / name))


# ---- failing links, with a record of finished ones


def test_a_failed_quantization_has_its_reason(host: Host) -> None:
    """The last line with an error; nothing is served, and written files are named."""
    found = host.chain(does={"quantise": {"exit": 1, "says": "RuntimeError: No space left on device"}})
    link = found.links[-1]

    assert results(found) == {"parts": "passed", "quantise": "failed"}
    assert link.message == "it ended with exit status 1: RuntimeError: No space left on device"
    assert [Path(each).name for each in link.files] == ["quantise.log", "model"]
    assert all(Path(each).exists() for each in link.files)
    assert found.no_accuracy_reason == f"quantise: {link.message}"
    assert rb.live.chain_verdict(found).verdict is Verdict.FAIL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("does", "given", "words"),
    [
        ({"sleep": 60}, {"quantise_within_s": 1}, "it timed out after 1 s; increase its timeout"),
        ({"grow": 200}, {"memory_gib": 0.1}, "GiB of memory, more than its limit of 0.1"),
    ],
)
def test_a_quantization_has_limits(host: Host, does: dict[str, Any], given: dict[str, Any], words: str) -> None:
    """Time and memory; it is ended with all its processes."""
    began = time.monotonic()
    found = host.chain(does={"quantise": does}, **given)

    assert words in found.no_accuracy_reason
    assert time.monotonic() - began < scaled(10)
    assert found.links[-1].program is not None
    assert found.links[-1].program.status is None
    nothing_left(host.folder)


def test_a_quantised_model_that_is_not_whole_is_not_served(host: Host) -> None:
    """Though its program ended well."""
    found = host.chain(does={"quantise": {"leaves": []}})

    assert results(found)["quantise"] == "failed"
    assert "config.json: not found" in found.no_accuracy_reason
    assert found.servers == ()


def test_a_full_disk_is_reported_before(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partially written model is useless."""
    import shutil

    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1 << 10})())
    found = host.chain()

    assert results(found)["quantise"] == "failed"
    assert "0 MiB is free, but the float model needs" in found.no_accuracy_reason


def test_a_disk_full_while_copying_is_reported(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quantized model stays, and the record has its place."""
    import shutil

    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(source), None, str(target))

    monkeypatch.setattr(shutil, "copyfile", full)
    (host.model / "tokenizer.json").write_text("{}")
    found = host.chain()

    assert results(found)["quantise"] == "failed"
    assert "could not be copied from the float model: No space left on device" in found.no_accuracy_reason
    assert [Path(each).name for each in found.links[-1].files] == ["quantise.log", "model"]
    assert Path(found.folder or "").stat().st_mode & 0o077 == 0  # logs may contain private text


def test_a_server_that_cannot_be_launched_is_a_failed_link(host: Host) -> None:
    """Hours after the request it is not an input error: the record has the quantized model."""

    def say(line: str) -> None:
        if line.startswith("quantise: passed"):
            (host.folder / "run" / "chain" / "serve-float").mkdir()
            (host.folder / "run" / "chain" / "serve-float" / "somebody's").touch()

    found = host.chain(say=say)

    assert results(found) == {"parts": "passed", "quantise": "passed", "serve": "failed"}
    assert "serve-float: is not empty" in found.no_accuracy_reason
    assert found.quantised is not None


# ---- both served, both evaluated


@pytest.mark.slow
def test_both_servers_are_evaluated_and_compared(host: Host) -> None:
    """In turn, on free ports; all processes end, and each link has its duration."""
    with socket.create_server(("127.0.0.1", host.port)):
        found = host.chain(does={"right": {"float": 38, "quantised": 20}})

    assert tuple(dict.fromkeys(each.name for each in found.links)) == LINKS
    assert {each.result for each in found.links} == {LaunchResult.PASSED}
    assert found.accuracy is not None
    assert [
        (each.questions, each.float_score, each.quantised_score) for each in found.accuracy.scores if each.is_deciding
    ] == [(40, 0.95, 0.5)]
    assert rb.live.chain_verdict(found).verdict is Verdict.FAIL
    assert document(record(OpenChain, document(found))) == document(found)  # as a run that is resumed reads it
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((folders.catalog_dir() / "schema" / "open-chain.json").read_text("utf-8"))
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(json.loads(render.to_json(found)))) == []
    assert "evaluate-quantised" in render.chains.shown(found).plain
    commands = [each.attempts[-1].command for each in found.servers]
    assert str(found.quantised.folder if found.quantised else "?") in commands[1]
    assert not any(f"--port {host.port} " in f"{each} " for each in commands)
    assert [path.name for path in sorted(Path(found.folder or "").glob("serve-*/case/case.yaml"))] == ["case.yaml"] * 2
    nothing_left(host.folder)


@pytest.mark.slow
def test_both_are_served_on_the_commands_own_port(host: Host) -> None:
    """With all cores; 8 questions are enough."""
    host.ask(["which", "x", "y", "A"] for _ in range(8))
    found = host.chain(does={"right": {"float": 7, "quantised": 7}})

    assert [each.status for each in found.servers] == [0, 0]
    assert all(f"--port {host.port}" in each.attempts[-1].command for each in found.servers)
    assert found.accuracy is not None
    assert [each.interval is not None for each in found.accuracy.scores if each.is_deciding] == [True]


@pytest.mark.slow
def test_a_failed_evaluation_has_its_reason(host: Host) -> None:
    """The last line with an error; both servers end, and the second is not evaluated."""
    found = host.chain(does={"evaluate": {"exit": 1, "says": "openai.BadRequestError: Error code: 400"}})

    assert (
        found.no_accuracy_reason
        == "evaluate-float: EvalScope: it ended with exit status 1: openai.BadRequestError: Error code: 400"
    )
    assert "evaluate-quantised" not in results(found)
    assert found.accuracy is None
    nothing_left(host.folder)


@pytest.mark.slow
def test_a_server_that_dies_during_the_evaluation_is_diagnosed(host: Host) -> None:
    """The answer has the diagnosis; EvalScope, which would wait, is ended."""
    dying = [*UP, {"serve": {}}, {"sleep": 3}, {"print": str(RACE)}, {"exit": 1}]
    host.setenv("STAND_IN", json.dumps([dying, SERVING]))
    began = time.monotonic()
    found = host.chain(does={"evaluate": {"sleep": 60}})

    assert results(found) == {"parts": "passed", "quantise": "passed", "serve": "failed", "evaluate-float": "failed"}
    assert "float: was ready, but then ended with exit status 1: " in found.no_accuracy_reason
    assert found.servers[0].attempts[-1].answer is not None
    assert found.servers[0].attempts[-1].answer.root_cause is not None
    assert time.monotonic() - began < scaled(30)
    nothing_left(host.folder)


@pytest.mark.slow
def test_no_key_is_kept(host: Host) -> None:
    """EvalScope gets it in a variable; neither record nor files contain it."""
    host.ask(["which", "x", "y", "A"] for _ in range(8))
    found = host.chain("--api-key", KEY)

    assert found.accuracy is not None
    assert KEY not in json.dumps(document(found))
    assert "api key: " in (Path(found.folder or "") / "evaluate-float.log").read_text()
    for path in (host.folder / "run").rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


STOPS = [
    ("quantise: calibrates", "quantise"),
    pytest.param("ready after", "evaluate", marks=pytest.mark.slow),
    pytest.param("evaluate float: 40%", "evaluate", marks=pytest.mark.slow),
]
"""The message when a signal arrives, and the program that runs then."""


@pytest.mark.parametrize(("words", "slow"), STOPS)
def test_an_interrupt_ends_everything(host: Host, words: str, slow: str) -> None:
    """In any link: no process is left, and written files stay named."""

    def say(line: str) -> None:
        host.said.append(line)
        if words in line:
            signal.raise_signal(signal.SIGINT)

    began = time.monotonic()
    found = host.chain(does={slow: {"sleep": 60}}, say=say)

    assert found.stopped_by == "SIGINT"
    assert found.no_accuracy_reason == "stopped by SIGINT"
    assert rb.live.chain_verdict(found).verdict is Verdict.INTERRUPTED
    assert time.monotonic() - began < scaled(40)
    written = [Path(each) for link in found.links for each in link.files]
    assert written
    assert all(each.exists() for each in written)
    nothing_left(host.folder)


# ---- the real parts: llm-compressor, vLLM and EvalScope on a CPU


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny trained model, 128 questions and texts, in a folder with a blank in its name."""
    folder = tmp_path_factory.mktemp("learnt") / "a model"
    program = Path(__file__).parents[1] / "live" / "tiny_learner.py"
    words = [str(PARTS / "venv" / "bin" / "python"), str(program), str(folder)]
    subprocess.run(
        words,
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE"},
        stdout=subprocess.DEVNULL,
    )
    return folder


def command(learnt: Path) -> str:
    """The command that serves the trained model."""
    variables = {"PYTHONPATH": LIVE / "overlay", "VLLM_CPU_KVCACHE_SPACE": 1, "HF_HUB_OFFLINE": 1, "DO_NOT_TRACK": 1}
    serve = [LIVE / "venv" / "bin" / "vllm", "serve", learnt / "model", "--served-model-name", "tiny"]
    options = ["--enforce-eager", "--max-model-len", "512", "--host", "127.0.0.1"]
    return shlex.join(
        [f"{name}={value}" for name, value in variables.items()] + [f"{word}" for word in (*serve, *options)]
    )


def sound(found: OpenChain, method: str, questions: int) -> None:
    """The whole chain ran, and its verdict uses paired answers."""
    assert [each.result for each in found.links if each.result is not LaunchResult.PASSED] == [], (
        found.no_accuracy_reason
    )
    assert found.quantised is not None
    assert (found.quantised.method, found.quantised.lacks) == (method, ())
    assert {"tokenizer.json", "tokenizer_config.json"} <= set(found.quantised.copied)
    assert [each.status for each in found.servers] == [0, 0]
    assert found.accuracy is not None
    (score,) = (each for each in found.accuracy.scores if each.is_deciding)
    assert (score.questions, score.paired) == (questions, True)
    assert score.interval is not None
    assert score.difference is not None
    assert score.interval.low <= score.difference <= score.interval.high
    assert score.float_score is not None
    assert score.float_score > 0.6  # by chance it were a quarter
    for each in found.links:
        took = each.program
        print(
            f"{each.name}: {'not measured' if each.seconds is None else f'{each.seconds:.1f} s'}"
            + (f", {took.cpu_s:.1f} CPU s, {took.memory_gib:.2f} GiB" if took else "")
        )
    print(f"{found.accuracy.verdict}: {found.accuracy.reason}")


@pytest.mark.full
@pytest.mark.live
@pytest.mark.slow
@pytest.mark.skipif(not of_tests.is_ready(PARTS), reason="open parts: python tests/live/open_parts.py sets them up")
def test_the_runbook_runs_the_whole_chain(learnt: Path, tmp_path: Path) -> None:
    """AWQ on a CPU, 128 questions: a verdict with an interval, and nothing left running."""
    given = {"evidence": "", "chain": command(learnt), "questions": learnt / "questions"}
    words = [sys.executable, "-m", "vllm_runbooks", "run", "edge10-toolchain", "--out", str(tmp_path / "a run")]
    for name, value in {**given, "calibration": learnt / "calibration.txt"}.items():
        words += ["-p", name, f"{value}"]
    done = subprocess.run(
        words,
        env={**os.environ, open_parts.VARIABLE: str(PARTS)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    kept = tmp_path / "a run" / "edge10-toolchain.steps" / "run-chain.json"
    assert kept.is_file(), done.stdout + done.stderr
    found = record(OpenChain, json.loads(kept.read_text("utf-8"))["result"])

    sound(found, "awq", 128)
    assert found.accuracy is not None
    assert done.returncode == int(found.accuracy.verdict is not Accuracy.KEPT), done.stdout
    assert found.accuracy.reason in done.stdout or found.accuracy.verdict is Accuracy.KEPT
    nothing_left(tmp_path)


@pytest.mark.live
@pytest.mark.full
@pytest.mark.skipif(not of_tests.is_ready(PARTS), reason="open parts: python tests/live/open_parts.py sets them up")
def test_eight_questions_after_real_gptq(learnt: Path, tmp_path: Path) -> None:
    """One server after the other; even so few questions have an interval."""
    lines = (learnt / "questions" / "boxes_val.csv").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "boxes_val.csv").write_text("".join(lines[:9]), "utf-8")
    found = rb.live.chain(
        command(learnt),
        str(tmp_path / "few"),
        str(learnt / "calibration.txt"),
        method="gptq",
        samples=64,
        tokens=128,
        python=str(PARTS),
        folder=str(tmp_path / "a run"),
    )

    sound(found, "gptq", 8)
    nothing_left(tmp_path)
