"""The steps of a runbook on a log: each states a fact, what follows and what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

import vllm_runbooks as rb
from vllm_runbooks.core.records import Answer, Finding
from vllm_runbooks.diagnosis.render import answers, steps


def _diagnosed(case: str) -> Answer:
    return rb.diagnose(rb.load(case))


def _with_captures(**captures: str) -> Answer:
    """The recorded out-of-memory failure with other figures in its message."""
    answer = _diagnosed("autoglm-3090-video-oom")
    assert answer.root_cause is not None
    return replace(answer, root_cause=replace(answer.root_cause, captures=captures))


def test_the_failure_has_its_line_and_the_first_action() -> None:
    """The deciding line, and the symptom's cause and first action."""
    answer = _diagnosed("autoglm-3090-video-oom")
    cause = answer.root_cause
    assert cause is not None
    text = steps.failure(answer)

    assert text is not None
    assert text.fact.startswith(cause.title)
    assert "line 109" in text.fact
    assert (text.so, text.do) == (cause.explanation, cause.do_first)


def test_a_running_server_has_no_failure_steps() -> None:
    """Nothing failed, nothing is to be fixed or verified."""
    answer = _diagnosed("tiny-cpu-served")
    assert [step(answer) for step in (steps.failure, steps.memory, steps.verification)] == [None] * 3


@pytest.mark.parametrize(
    ("captures", "words"),
    [
        ({"total_gib": "24", "tried_gib": "2", "free_gib": "1", "in_use_gib": "10", "allocated_gib": "9"},
         "Without the other processes"),
        ({"total_gib": "24", "tried_gib": "1", "free_gib": "0.5", "in_use_gib": "23.5", "allocated_gib": "20",
          "reserved_gib": "3"}, "fragmented"),
        ({"total_gib": "24", "tried_gib": "2", "free_gib": "1", "in_use_gib": "23", "allocated_gib": "22"},
         "more memory than this GPU has"),
    ],
    ids=["other-processes", "fragmentation", "too-large"],
)  # fmt: skip
def test_the_owner_of_the_memory_decides_the_step(captures: dict[str, str], words: str) -> None:
    """Other processes, fragments and a model that is too large need different fixes."""
    text = steps.memory(_with_captures(**captures))
    assert text is not None
    assert words in text.so


def test_a_message_without_figures_has_no_memory_step() -> None:
    """Figures that the log does not print are not shown."""
    assert steps.memory(_with_captures()) is None


def test_the_first_fix_has_its_command_and_cost() -> None:
    """The command is the changed launch, to copy."""
    answer = _diagnosed("autoglm-3090-video-oom")
    text = steps.fixes(answer)
    assert text is not None
    assert text.command == answer.remedies[0].command
    assert ". Cost: requests with a video are rejected" in text.do
    assert steps.fixes(replace(answer, remedies=())) is None


def test_a_log_of_another_runbook_names_it() -> None:
    """A runbook links to the one for this cause, unless it is that one."""
    answer = _diagnosed("autoglm-3090-video-oom")
    other, same = (answers.summary(answer, runbook=name).html for name in ("multi-node-ray", "single-gpu-oom"))
    assert '<a href="single-gpu-oom.ipynb">' in other
    assert "<a " not in same


def test_the_verification_confirms_or_rules_out() -> None:
    """The cause is proven so, or ruled out by the named observation."""
    answer = _diagnosed("qwen-a100-shared-gpu-race")
    cause = answer.root_cause
    assert isinstance(cause, Finding)
    text = steps.verification(answer)
    assert text is not None
    assert cause.refute in text.so
    assert text.do == cause.confirm
