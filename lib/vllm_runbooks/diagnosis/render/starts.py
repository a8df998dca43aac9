"""Launches compared: figures, settings, times, memory and throughput, as tables with charts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from typing import Any

from vllm_runbooks.core import comparison
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.records import Answer, ServerRun
from vllm_runbooks.core.views import start_pictures
from vllm_runbooks.core.views.drawing import bars
from vllm_runbooks.core.views.elements import GREEN, GREY, RED, badge, grid, html_table
from vllm_runbooks.core.views.runbook_steps import StepText
from vllm_runbooks.core.views.summary import counted
from vllm_runbooks.diagnosis.render import steps
from vllm_runbooks.diagnosis.render.figures import FACT_NAMES, figure, gpu_total, printed_gib

_SIDE_BY_SIDE = (
    "quantization", "gpu_memory_utilization", "max_model_len", "weights_gib", "kv_cache_gib", "kv_cache_tokens",
    "max_concurrency", "cuda_graph_gib", "cuda_graph_estimated_gib", "activation_gib", "non_torch_gib", "gpu_total_gib",
    "load_seconds", "startup_seconds", "generation_tokens_per_s_max",
)  # fmt: skip
_NO_START = "The log has no vLLM launch."


def timeline(starts: Sequence[ServerRun], *, start: int = 0) -> RenderedView:
    """The phases of one launch (numbered from 1; 0: the last) with their durations, as a table with bars."""
    phases = starts[start - 1].timeline if starts else ()
    if not phases:
        text = "The log has no startup phases."
        return RenderedView.nothing(text)
    seconds = [p.printed_seconds if p.printed_seconds is not None else p.clock_seconds for p in phases]
    longest = max((s for s in seconds if s is not None), default=0.0) or 1.0
    rows, plain = [], []
    for phase, spent in zip(phases, seconds, strict=True):
        duration = "unknown" if spent is None else f"{spent:.1f} s"
        bar = bars([(phase.name, (spent or 0.0) / longest)], width=180, height=12) if spent else ""
        name = start_pictures.PHASE_NAMES.get(phase.name, phase.name)
        rows.append([escape(name), str(phase.first.line), escape(phase.started or ""), escape(duration), bar])
        plain.append(f"  {name:<22} {duration:>10}  line {phase.first.line}")
    html = html_table(["phase", "line", "began", "took", ""], rows, numeric=[1, 3])
    return RenderedView("\n".join(plain), html)


def side_by_side(starts: Sequence[ServerRun]) -> RenderedView:
    """The figures of every launch, one column each."""
    if not starts:
        return RenderedView.nothing(_NO_START)
    head = ["figure", *(start_pictures.label(start, number) for number, start in enumerate(starts, 1))]
    rows = [
        [FACT_NAMES[name], *(figure_text or "" for figure_text in shown_facts)]
        for name in _SIDE_BY_SIDE
        if any(shown_facts := [figure(name, start.facts) for start in starts])
    ]
    outcomes = ["outcome", *(start.outcome.value for start in starts)]
    return grid(head, [outcomes, *rows], "Empty cell: not printed by this launch.")


def settings(starts: Sequence[ServerRun]) -> RenderedView:
    """The settings in which launches differ, one column each, as printed."""
    rows = [
        [name, *("" if value is None else _setting(value) for value in values)]
        for name, values in comparison.differing(starts).items()
        if name != "model_tag"  # the same as the model
    ]
    if not rows:
        text = "The launches have the same printed settings." if len(starts) > 1 else "Nothing to compare."
        return RenderedView.nothing(text)
    head = ["setting", *(start_pictures.label(start, number) for number, start in enumerate(starts, 1))]
    return grid(head, rows, "Empty cell: not set (the release's default), or not printed.")


def _setting(value: Any) -> str:
    """A setting's value; a long one is cut in the middle, as paths often have the same end."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= 28 else f"{text[:12]}…{text[-15:]}"


def timelines(starts: Sequence[ServerRun]) -> RenderedView:
    """The phases of every launch on one scale, as a chart and in seconds."""
    picture = start_pictures.timelines(starts)
    if not picture:
        text = "The log has no startup phases with times."
        return RenderedView.nothing(text)
    spent = [{phase.name: start_pictures.spent(phase) for phase in start.timeline} for start in starts]
    rows = [
        [label, *("" if (s := by.get(name)) is None else f"{s:.0f} s" for by in spent)]
        for name, label in start_pictures.PHASE_NAMES.items()
        if any(name in by for by in spent)
    ]
    table = grid(
        ["phase", *(start_pictures.label(start, number) for number, start in enumerate(starts, 1))],
        rows,
        is_numeric=True,
    )
    return RenderedView(table.plain, picture + table.html)


def memories(starts: Sequence[ServerRun], evidence: Evidence | None = None, *, gpu_gib: float = 0.0) -> RenderedView:
    """GPU memory of every launch, as a chart and in GiB.

    The GPU's size is the one in the log, else `gpu_gib`, else that of the recorded case.
    """
    totals = [gpu_total(start.facts, evidence, gpu_gib) for start in starts]
    picture = start_pictures.memories(starts, totals)
    if not picture:
        text = "The log has no vLLM memory figures (weights, KV cache)."
        return RenderedView.nothing(text)
    rows = []
    for number, (start, total) in enumerate(zip(starts, totals, strict=True), 1):
        facts = start.facts
        share = facts.gpu_memory_utilization
        budget = share * total if share is not None and total else None
        rest = None
        if budget is not None and facts.weights_gib is not None and facts.kv_cache_gib is not None:
            rest = budget - facts.weights_gib - facts.kv_cache_gib
        figures = (facts.weights_gib, facts.kv_cache_gib, facts.cuda_graph_gib, budget, rest, total)
        rows.append([start_pictures.label(start, number), *("" if v is None else f"{v:.2f}" for v in figures)])
    head = ["GiB", "weights", "KV cache", "CUDA graphs", "budget", "other", "GPU"]
    note = (
        "The budget (a mark in the picture) is gpu_memory_utilization times the GPU's memory. What weights and "
        "KV cache do not use goes to activations, other libraries and, in some releases, CUDA graphs."
    )
    if not any(totals):
        note = "The GPU's memory is not in this log, so the budget is unknown."
    table = grid(head, rows, note, is_numeric=True)
    return RenderedView(table.plain, picture + table.html)


def throughputs(starts: Sequence[ServerRun]) -> RenderedView:
    """Generated tokens per second of every launch over time, as a chart and in figures."""
    picture = start_pictures.throughputs(starts)
    if not picture:
        text = "The log has no periodic throughput lines."
        return RenderedView.nothing(text)
    rows = []
    for number, start in enumerate(starts, 1):
        rates = [sample.generation_tokens_per_s for sample in start.throughput]
        kept = [r for r, is_steady in zip(rates, comparison.steady(start.throughput), strict=True) if is_steady]
        span = f"{min(kept):g} to {max(kept):g}" if kept else "unknown"
        best = f"{max(rates):g}" if rates else ""
        rows.append([start_pictures.label(start, number), str(len(rates)), str(len(kept)), span if rates else "", best])
    head = ["tokens/s", "periodic lines", "busy lines", "range", "best line"]
    note = (
        "Each line is the average since the previous line. A filled point was busy the whole time; "
        "a hollow one may include idle time, so the rate under load may have been higher."
    )
    table = grid(head, rows, note, is_numeric=True)
    return RenderedView(table.plain, picture + table.html)


def served(starts: Sequence[ServerRun], *, start: int = 0) -> RenderedView:
    """A server's statistics over time, of one launch (numbered from 1; 0: the last)."""
    picture = start_pictures.served(starts[start - 1]) if starts else ""
    if not picture:
        return RenderedView.nothing("The log has no statistics over time.")
    run = starts[start - 1]
    parts = list(filter(None, [counted(run.facts)]))
    if samples := run.throughput:
        parts.insert(0, f"{samples[0].time} to {samples[-1].time}: lines {samples[0].line} to {samples[-1].line}")
    text = ", ".join(parts) + "." * bool(parts)
    return RenderedView(text, f"<p>{escape(text)}</p>{picture}")


def comparable(starts: Sequence[ServerRun]) -> RenderedView:
    """Comparable figures of these launches, and the reasons why others are not."""
    comparisons = comparison.comparable(starts)
    if not comparisons:
        text = "Only one launch: nothing to compare." if starts else _NO_START
        return RenderedView.nothing(text)
    words = {True: "yes", False: "no", None: "unknown"}
    tones = {True: GREEN, False: RED, None: GREY}
    rows = [[escape(c.figure), badge(words[c.may], tones[c.may]), escape(c.why)] for c in comparisons]
    plain = "\n".join(f"  {c.figure:<28} {words[c.may]:<8} {c.why}" for c in comparisons)
    return RenderedView(plain, html_table(["figure", "comparable", "why"], rows))


def profiling(answer: Answer, evidence: Evidence | None = None, *, gpu_gib: float = 0.0) -> StepText | None:
    """Increase of free memory during profiling, and its meaning; for another cause, the failure."""
    before, after = _free_memory(answer)
    if before is None or after is None or after <= before:
        return steps.failure(answer)
    fact = f"{before:.2f} GiB was free before vLLM loaded the model, {after:.2f} GiB after profiling: "
    so = (
        f"Another process released at least {after - before:.2f} GiB in between. The check compares only these two "
        "readings, so `gpu_memory_utilization` has no part in it."
    )
    total = gpu_total(answer.facts, evidence, gpu_gib)
    if total and before < total:
        highest = math.floor(before / total * 1000) / 1000
        free = f"{before:.2f} of {total:.2f} GiB"
        so += f" With {free} free, vLLM rejects a value above {highest:.3f} before it loads the model."
    return StepText(f"{fact}free memory rose by {after - before:.2f} GiB.", so)


def _free_memory(answer: Answer) -> tuple[float | None, float | None]:
    captures = dict(answer.root_cause.captures) if answer.root_cause else {}
    return printed_gib(captures, "initial"), printed_gib(captures, "current")


def free_memory(
    answer: Answer,
    evidence: Evidence | None = None,
    *,
    gpu_gib: float = 0.0,
    utilizations: Sequence[float] = (0.9, 0.75, 0.675),
) -> RenderedView:
    """Free memory before and after profiling, as in the assertion, and what budgets would need."""
    before, after = _free_memory(answer)
    if before is None or after is None:
        text = "The log has no free memory before and after profiling."
        return RenderedView.nothing(text)
    total = gpu_total(answer.facts, evidence, gpu_gib)
    budgets = {f"utilization {share:g}": share * total for share in utilizations} if total else {}
    rows = [["free before profiling", f"{before:.2f}"], ["free after profiling", f"{after:.2f}"]]
    rows.append(["freed during profiling", f"{after - before:+.2f}"])
    rows += [[f"budget at {name}", f"{gib:.2f}"] for name, gib in budgets.items()]
    rows += [["GPU", f"{total:.2f}"]] if total else []
    note = "" if total else "The GPU's memory is not in this log, so the budget is unknown."
    table = grid(["", "GiB"], rows, note, is_numeric=True)
    return RenderedView(table.plain, start_pictures.free_memory(before, after, total, budgets) + table.html)
