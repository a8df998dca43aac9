"""Launches compared: their summary, and the steps of the runbook that compares them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vllm_runbooks.core import comparison
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.records import Answer, FigureComparison, ServerRun
from vllm_runbooks.core.views import start_pictures
from vllm_runbooks.core.views.runbook_steps import StepText
from vllm_runbooks.core.views.styled import Tone
from vllm_runbooks.core.views.summary import SummaryTable, count_of, sentence_of
from vllm_runbooks.core.views.summary_html import rendered
from vllm_runbooks.diagnosis.render import answers
from vllm_runbooks.diagnosis.render import words as answer_words
from vllm_runbooks.diagnosis.render.figures import gpu_total
from vllm_runbooks.diagnosis.render.summaries import summarize

_MAY = {True: "Comparable", False: "Not comparable", None: "Unknown whether comparable"}
_MOST_NAMED = 6
"""Settings that a sentence names."""


def summary(
    starts: Sequence[ServerRun], answer: Answer, evidence: Evidence | None = None, *, gpu_gib: float = 0.0
) -> RenderedView:
    """Launches in one card, with their comparable figures; a single launch as its answer.

    Args:
        starts: The launches.
        answer: The diagnosis of the last one.
        evidence: The log that they are from.
        gpu_gib: Memory of the GPU in GiB, if the log does not print it.
    """
    if len(starts) < 2:
        return answers.summary(answer, runbook="gpt-oss-gemma-a100")
    base = summarize(answer)
    failed = [number for number, start in enumerate(starts, 1) if not start.outcome.is_healthy]
    totals = {total for start in starts if (total := gpu_total(start.facts, evidence, gpu_gib)) is not None}
    releases = dict.fromkeys(start.release.version for start in starts if start.release.version)
    about = (
        answer_words.named(answer),
        *(f"vLLM {version}" for version in releases),
        *(f"GPU with {total:.2f} GiB" for total in sorted(totals)),
    )
    outcome = f"Not ready: launch {_listed(map(str, failed))}." if failed else "All launches came up."
    record = replace(
        base,
        state=f"{len(starts)} LAUNCHES",
        tone=Tone.BAD if failed else Tone.GOOD,
        about=about,
        sentence=" ".join([outcome, *_verdicts(comparison.comparable(starts))]),
        statements=() if answer.outcome.is_healthy else base.statements,
        fix=None if answer.outcome.is_healthy else base.fix,
        table=_table(starts),
    )
    return rendered(record)


def _table(starts: Sequence[ServerRun]) -> SummaryTable:
    columns: list[tuple[str, list[str]]] = [
        ("launch", [start_pictures.label(start, number) for number, start in enumerate(starts, 1)]),
        ("settings", [start_pictures.distinction(start) for start in starts]),
        ("state", [start.outcome.value for start in starts]),
        ("weights GiB", [_number(start.facts.weights_gib, ".2f") for start in starts]),
        ("KV cache GiB", [_number(start.facts.kv_cache_gib, ".2f") for start in starts]),
        ("ready after s", [_number(start.facts.startup_seconds, ".0f") for start in starts]),
        ("tokens/s", [_number(start.facts.generation_tokens_per_s_max, ".1f") for start in starts]),
    ]
    varied = [column for column in columns if len({*column[1]}) > 1]
    rows = tuple(zip(*(values for _, values in varied), strict=True))
    numeric = frozenset(at for at, (name, _) in enumerate(varied) if name not in ("launch", "settings", "state"))
    return SummaryTable(tuple(name for name, _ in varied), rows, numeric)


def _number(value: float | None, style: str) -> str:
    return "\u2013" if value is None else format(value, style)


def _verdicts(figures: Sequence[FigureComparison]) -> Iterator[str]:
    for may, words in _MAY.items():
        if names := [figure.figure for figure in figures if figure.may is may]:
            yield f"{words}: {_listed(names)}."


def _listed(names: Iterator[str] | Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def differences(starts: Sequence[ServerRun]) -> StepText | None:
    """The engine settings in which launches differ, and whether two differ in only one; None for a single launch."""
    if len(starts) < 2:
        return None
    names = [name for name in comparison.differing(starts) if name not in comparison.FRONT_SETTINGS]
    (first, second), apart = comparison.closest(starts)
    pair = f"Launches {first} and {second}"
    if not apart:
        so = f"{pair} have the same engine settings: a difference between them is noise, or a warm cache."
    elif len(apart) == 1:
        so = f"{pair} differ only in `{apart[0]}`: a difference between them is its effect."
    else:
        nearest = "" if len(starts) == 2 else f" {pair} come closest: they differ in {_settings(apart)}."
        so = f"No two launches differ in only one setting, so no difference has a single known cause.{nearest}"
    do = "Launch twice with one setting changed and the weights downloaded; send both servers the same load."
    count = count_of(len(names), "engine setting")
    fact = f"The launches differ in {count}{f': {_settings(names)}' if names else ''}."
    return StepText(fact, so, do if len(apart) != 1 else "")


def _settings(names: Sequence[str]) -> str:
    listed = [f"`{name}`" for name in names[:_MOST_NAMED]]
    return _listed([*listed, *([f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else [])])


def budget(starts: Sequence[ServerRun], evidence: Evidence | None = None, *, gpu_gib: float = 0.0) -> StepText | None:
    """Budget share of weights and KV cache in each launch; None if no launch prints it."""
    parts = []
    for number, start in enumerate(starts, 1):
        facts, total = start.facts, gpu_total(start.facts, evidence, gpu_gib)
        if None in (facts.weights_gib, facts.kv_cache_gib, facts.gpu_memory_utilization, total):
            continue
        used = (facts.weights_gib or 0) + (facts.kv_cache_gib or 0)
        share = facts.gpu_memory_utilization or 0
        parts.append(f"launch {number}: {used:.1f} of {share * (total or 0):.1f} GiB (`{share:g}` of the GPU)")
    if not parts:
        return None
    so = (
        "vLLM fills its budget whatever the model: smaller weights leave more memory for the KV cache, and only "
        "`gpu_memory_utilization` changes how much of the GPU is used."
    )
    return StepText(f"Weights and KV cache fill the budget. {sentence_of('; '.join(parts))}", so)


def startup(starts: Sequence[ServerRun]) -> StepText | None:
    """The fastest and the slowest startup with its longest phase; None if no launch prints its times."""
    seconds = {n: s.facts.startup_seconds for n, s in enumerate(starts, 1) if s.facts.startup_seconds is not None}
    if not seconds:
        return None
    fastest, slowest = (choose(seconds, key=lambda number: seconds[number] or 0) for choose in (min, max))
    phases = {phase.name: start_pictures.spent(phase) or 0 for phase in starts[slowest - 1].timeline}
    longest = max(phases, key=lambda name: phases[name], default="")
    name = start_pictures.PHASE_NAMES.get(longest, longest)
    detail = f" Its longest phase: {name}, {phases[longest]:.0f} s." if longest else ""
    others = f"; launch {fastest} took {seconds[fastest]:.0f} s" if fastest != slowest else ""
    fact = f"Launch {slowest} took {seconds[slowest]:.0f} s until ready{others}.{detail}"
    return StepText(fact, _why(starts, "time to load"))


def throughput(starts: Sequence[ServerRun]) -> StepText | None:
    """The highest throughput that each launch printed, and whether it compares; None if none printed one."""
    rates = [(n, s.facts.generation_tokens_per_s_max) for n, s in enumerate(starts, 1)]
    parts = [f"{rate:g} (launch {number})" for number, rate in rates if rate is not None]
    if not parts:
        return None
    return StepText(f"Highest printed rates in tokens/s: {', '.join(parts)}.", _why(starts, "generation in tokens/s"))


def _why(starts: Sequence[ServerRun], figure: str) -> str:
    entry = next((entry for entry in comparison.comparable(starts) if entry.figure == figure), None)
    return "" if entry is None else f"{_MAY[entry.may]}: {sentence_of(entry.why, names=(entry.why.split(' ')[0],))}"
