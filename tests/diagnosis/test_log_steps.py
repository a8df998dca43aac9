"""The steps of the runbook on any log, each about this log and with its evidence."""

from __future__ import annotations

import vllm_runbooks as rb
from vllm_runbooks.diagnosis.render.log_steps import DiagnosedLog, diagnosed


def log(name: str, lang: str | None = None) -> DiagnosedLog:
    """A recorded case, diagnosed."""
    return diagnosed(rb.load(name), lang=lang)


def test_the_steps_of_a_failed_launch_have_facts_and_evidence() -> None:
    """What failed, the fix, how to verify it, and the next runbook."""
    case, steps = log("autoglm-3090-video-oom"), rb.render.log_steps

    assert "▼ cause" in steps.failure(case).plain
    assert steps.fixes(case).plain.startswith("Do    ")
    assert steps.verification(case).plain.startswith("Fact  The cause is confirmed")
    runbook = steps.runbook(case)
    assert "Open the runbook `single-gpu-oom` with the same log." in runbook.plain
    assert '<a href="single-gpu-oom.ipynb">' in runbook.html


def test_a_healthy_log_needs_no_runbook() -> None:
    """And has no fix and nothing to verify."""
    case, steps = log("tiny-cpu-served"), rb.render.log_steps

    assert "Nothing in this log needs a runbook." in steps.runbook(case).plain
    assert steps.verification(case).is_nothing


def test_a_cause_leads_to_the_most_specific_observation() -> None:
    """With its command if there is no runbook."""
    text = rb.render.entrances.leading(rb.entrances(), log("tiny-cpu-port-in-use").answer)

    assert text.fact == "This is “The port or address is already in use”."
    assert text.command.startswith("vllm-runbooks leftovers")


def test_steps_in_another_language_have_evidence_in_it_alone() -> None:
    """Their sentences are in English, so they are left out."""
    case = log("autoglm-3090-video-oom", lang="zh")

    assert "Fact" not in rb.render.log_steps.fixes(case).plain
    assert "多模态" in rb.render.log_steps.failure(case).plain
