"""Steps: results are reused, failures are retried, and a resumed run has the same result."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import tiny_models
from command_line import run
from test_serve import RACE, SERVED, UP, Stage
from vllm_runbooks import live
from vllm_runbooks.catalog import folders
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.records import Answer
from vllm_runbooks.probe.starts import Guarded
from vllm_runbooks.runbooks import steps
from vllm_runbooks.runbooks.notebook import load_runbook

TOO_LONG = folders.cases_dir() / "tiny-cpu-context-too-long" / "startup.log"


@dataclass(frozen=True)
class Made:
    """The result of a test's step."""

    number: int
    words: tuple[str, ...] = ()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run's folder."""
    monkeypatch.setenv(steps.FOLDER, str(tmp_path / "run.steps"))
    return tmp_path / "run.steps"


def test_the_result_of_a_step_is_reused(folder: Path) -> None:
    """As the same record, stored only as JSON next to the notebook."""
    done: list[int] = []

    def action() -> Made:
        done.append(1)
        return Made(7, ("a", "b"))

    first = steps.do("one", action, Made)
    second = steps.do("one", action, Made)

    assert first == second == Made(7, ("a", "b"))
    assert done == [1]
    kept = json.loads((folder / "one.json").read_text())
    assert (kept["step"], kept["status"], kept["tries"]) == ("one", "done", 1)
    assert steps.kept(folder) == ["one"]


def test_reused_steps_belong_to_one_run(folder: Path) -> None:
    """Each is named once, and forgotten when the next run begins."""
    for name in ("one", "two"):
        steps.do(name, lambda: Made(1), Made)
    assert steps.kept(folder) == []

    for name in ("two", "one", "two"):
        steps.do(name, lambda: Made(2), Made)
    assert steps.kept(folder) == ["two", "one"]

    steps.clear(folder, all_of_them=False)
    assert steps.kept(folder) == []


def test_a_step_that_is_named_is_done_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are read."""
    steps.do("one", lambda: Made(1), Made)
    steps.do("two", lambda: Made(2), Made)
    monkeypatch.setenv(steps.AGAIN, "two")

    assert steps.do("one", lambda: Made(10), Made) == Made(1)
    assert steps.do("two", lambda: Made(20), Made) == Made(20)
    assert folder.is_dir()


@pytest.mark.slow
def test_a_step_is_tried_again_in_its_time(folder: Path) -> None:
    """Up to the limit; a timeout is an error like others, and the last one is raised and kept."""
    tries: list[float] = []

    def hangs() -> Made:
        tries.append(time.monotonic())
        if len(tries) < 3:
            time.sleep(30)
        return Made(len(tries))

    assert steps.do("slow", hangs, Made, timeout_s=0.2, tries=3, pause_s=0) == Made(3)
    with pytest.raises(steps.StepTimeoutError, match=r"step other: timed out after 0\.1 s"):
        steps.do("other", lambda: time.sleep(30), Made, timeout_s=0.1, tries=2, pause_s=0)  # type: ignore[arg-type,return-value]

    kept = json.loads((folder / "other.json").read_text())
    assert (kept["status"], kept["tries"]) == ("failed", 2)
    assert "0.1 s" in kept["error"]


def test_a_failed_step_is_repeated(folder: Path) -> None:
    """In the resumed run; a damaged file is reported."""

    def fails() -> Made:
        raise RunbooksError("not now")

    with pytest.raises(RunbooksError, match="not now"):
        steps.do("one", fails, Made)
    assert steps.do("one", lambda: Made(3), Made) == Made(3)
    (folder / "one.json").write_text("{")
    with pytest.raises(InputError, match="remove it to run the step again"):
        steps.do("one", lambda: Made(4), Made)


@pytest.mark.usefixtures("folder")
def test_a_result_of_another_request_is_repeated() -> None:
    """A run resumed with another command ignores the first one's results and unusable ones."""
    assert steps.do("one", lambda: Made(1), Made, asked=("vllm serve a", 1)) == Made(1)
    assert steps.do("one", lambda: Made(2), Made, asked=("vllm serve a", 1)) == Made(1)
    assert steps.do("one", lambda: Made(3), Made, asked=("vllm serve b", 1)) == Made(3)
    assert steps.do("two", lambda: Made(1), Made, is_done=lambda made: made.number > 1) == Made(1)
    assert steps.do("two", lambda: Made(5), Made, is_done=lambda made: made.number > 1) == Made(5)
    assert steps.do("two", lambda: Made(6), Made, is_done=lambda made: made.number > 1) == Made(5)


def test_tries_and_time_are_set_from_outside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each step of the run."""
    monkeypatch.setenv(steps.TRIES, "3")
    monkeypatch.setenv(steps.TIMEOUT_S, "0.2")
    tries: list[int] = []

    def hangs() -> Made:
        tries.append(1)
        if len(tries) < 3:
            time.sleep(30)
        return Made(len(tries))

    assert steps.do("one", hangs, Made, timeout_s=600, pause_s=0) == Made(3)
    monkeypatch.setenv(steps.TRIES, "no")
    with pytest.raises(InputError, match="RUNBOOKS_STEP_TRIES: 'no' is not a number above 0"):
        steps.do("two", hangs, Made)
    assert folder.is_dir()


@pytest.mark.parametrize("name", ["", "a/b", "../a", "A", "a b", "a.json"])
def test_a_name_that_is_not_a_file_name_is_rejected(folder: Path, name: str) -> None:
    """Nothing is written."""
    with pytest.raises(InputError, match="is not a step name"):
        steps.do(name, lambda: Made(1), Made)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("runbook", "names"),
    [
        ("single-gpu-oom", ("start", "apply")),
        ("shared-gpu-profiling", ("start", "apply")),
        ("gpt-oss-gemma-a100", ("first", "second", "apply")),
        ("split-over-8x3090", ("alone", "copies", "split")),
        ("multi-node-ray", ()),
    ],
)
def test_the_steps_of_a_runbook_are_named_by_their_calls(runbook: str, names: tuple[str, ...]) -> None:
    """So `--step` runs the named one, wherever it is called."""
    assert load_runbook(folders.runbooks_dir() / f"{runbook}.ipynb").steps == names


@pytest.mark.parametrize("source", ["rb.live.check(serve)", "not python (", "live = start()"])
def test_a_cell_without_a_named_step_is_a_step_itself(tmp_path: Path, source: str) -> None:
    """By its id."""
    notebook = json.loads((folders.runbooks_dir() / "single-gpu-oom.ipynb").read_text("utf-8"))
    (cell,) = [cell for cell in notebook["cells"] if cell["id"] == "verification-step"]
    cell["source"] = source
    path = tmp_path / "single-gpu-oom.ipynb"
    path.write_text(json.dumps(notebook), "utf-8")

    assert load_runbook(path).steps == ("start", "verification-step")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A host with a fake `vllm`."""
    return Stage(tmp_path, monkeypatch)


def scripted(stage: Stage, *more: object) -> str:
    """A command whose first launch fails because of its context, with steps for the next ones."""
    stage.setenv("STAND_IN", json.dumps([[{"print": str(TOO_LONG)}, {"exit": 1}], *more]))
    return shlex.join([*stage.command("--max-model-len", "4000000")])


def arguments(out: Path, command: str) -> list[str]:
    """Arguments of a live run that applies the fix."""
    given = {"live": "true", "apply": "true", "serve": command, "vllm": "0.32.0"}
    return ["run", "single-gpu-oom", "--out", str(out), *(word for n, v in given.items() for word in ("-p", n, v))]


def _assert_proved(out: Path) -> None:
    for step, ended in (("start", 1), ("apply", 0)):
        place = out / "single-gpu-oom.steps" / step
        report = json.loads((place / "report.json").read_text())
        assert report["status"] == ended
        assert (place / "server.log").is_file()
        assert (place / "case" / "case.yaml").is_file()
    assert "--max-model-len" in report["attempts"][0]["command"]


@pytest.mark.full
def test_a_fix_is_applied_and_verified(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """Before, change, after, no symptom; each launch leaves command, status, log and case."""
    model = stage.folder / "tiny"
    _make(model)
    up = [*UP, {"serve": {}}, {"hold": True}]
    command = scripted(stage, up).replace("tiny", str(model), 1)
    out = stage.folder / "out"
    status, said, _ = run(capsys, *arguments(out, command))

    assert status == 0, said
    assert "PASS" in said
    _assert_proved(out)


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_one(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """The first launch is not repeated, also with `--step`; the whole verification runs."""
    model = stage.folder / "tiny"
    _make(model)
    up = [*UP, {"serve": {}}, {"hold": True}]
    command = scripted(stage, up).replace("tiny", str(model), 1)
    whole, parted = stage.folder / "whole", stage.folder / "parted"
    status, said, _ = run(capsys, *arguments(whole, command))
    assert (status, "PASS" in said) == (0, True), said
    _assert_proved(whole)
    (stage.folder / "count").unlink()
    first = run(capsys, *arguments(parted, command), "--step", "start")
    second = run(capsys, *arguments(parted, command), "--resume")
    judged = _judged(parted)
    alone = run(capsys, *arguments(parted, command), "--step", "apply")
    unknown = run(capsys, *arguments(parted, command), "--step", "aply")

    assert "step start is done" in first[1]
    assert (first[0], second[0], alone[0]) == (0, 0, 0)
    assert judged == _judged(whole)
    assert unknown[0] == 2
    assert "did you mean apply?" in unknown[2]
    assert (stage.folder / "count").read_text() == "3"


def _judged(out: Path) -> object:
    (found,) = json.loads((out / "results.json").read_text())["runs"]
    return {name: found[name] for name in ("verdict", "outcome", "root_cause")}


def _make(model: Path) -> None:
    tiny_models.write(model, max_position_embeddings=8_000_000)


def test_a_prevented_launch_has_a_verdict(stage: Stage) -> None:
    """With the check that forbids it."""
    stage.setenv("STAND_IN", json.dumps([{"print": str(SERVED)}, {"print": str(RACE)}]))
    started = live.start(shlex.join(stage.command("--swap-space", "4")), vllm="0.32.0", say=stage.said.append)
    found = live.verdict(_answer(started), started)

    assert started.attempts == ()
    assert found.verdict == "fail"
    assert "not launched: command: " in found.reason
    assert "--swap-space" in found.reason


def _answer(started: Guarded) -> Answer:
    from vllm_runbooks.diagnosis import diagnosing

    return diagnosing.diagnose(live.evidence(started))
