"""Steps of a runbook on any log, each with its evidence, both headless and in a panel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vllm_runbooks.catalog.load import entrances
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.records import Answer
from vllm_runbooks.core.views.runbook_steps import StepText, step
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.render import annotated, answers, starts, steps
from vllm_runbooks.diagnosis.render import entrances as entrance_views


@dataclass(frozen=True)
class DiagnosedLog:
    """A log with its answer."""

    evidence: Evidence
    answer: Answer
    gpus: str = ""
    start: int = 0
    """Number of the launch, from 1; 0: the last."""


def diagnosed(evidence: Evidence, *, gpus: str = "", start: int = 0, lang: str | None = None) -> DiagnosedLog:
    """Diagnose a log; raises InputError as `diagnosing.diagnose`."""
    answer = diagnosing.diagnose(evidence, start=start or None, gpus=gpus or None, lang=lang)
    return DiagnosedLog(evidence, answer, gpus, start)


def timeline(log: DiagnosedLog) -> RenderedView:
    """Progress of the launch."""
    return starts.timeline(diagnosing.read(log.evidence), start=log.start)


def failure(log: DiagnosedLog) -> RenderedView:
    """The failure, with the annotated log."""
    launches = diagnosing.read(log.evidence)
    evidence = {
        "The log, marked": annotated.log(log.answer, log.evidence.documents),
        "How far the launch got": starts.timeline(launches, start=log.start),
        "The server over time": starts.served(launches, start=log.start),
        "All launches in this log": answers.starts(log.answer),
        "Figures that vLLM printed": answers.facts(log.answer),
        "Other findings": answers.others(log.answer),
    }
    return step(_in_english(log, steps.failure), evidence)


def fixes(log: DiagnosedLog) -> RenderedView:
    """The first fix, with all of them."""
    return step(_in_english(log, steps.fixes), {"All fixes": answers.remedies(log.answer)})


def verification(log: DiagnosedLog) -> RenderedView:
    """How to verify the cause."""
    evidence = {"What confirms and what refutes the cause": answers.checks(log.answer)}
    return step(_in_english(log, steps.verification), evidence)


def runbook(log: DiagnosedLog) -> RenderedView:
    """The runbook or command to continue with, and all observations with their runbooks."""
    entries = entrances()
    return step(
        entrance_views.leading(entries, log.answer), {"All symptoms and their runbooks": entrance_views.every(entries)}
    )


def _in_english(log: DiagnosedLog, text: Callable[[Answer], StepText | None]) -> StepText | None:
    """Text of a step, in English; None for an answer in another language.

    Its evidence says the same.
    """
    return text(log.answer) if log.answer.lang is None else None
