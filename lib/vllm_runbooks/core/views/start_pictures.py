"""Charts of server runs: their phases, memory and throughput."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

from vllm_runbooks.core.comparison import steady
from vllm_runbooks.core.printed import moment, seconds_between
from vllm_runbooks.core.records import COUNTED, Phase, ServerRun
from vllm_runbooks.core.views import drawing
from vllm_runbooks.core.views.drawing import BAR, ROW, caption, picture, rect, rule, swatches
from vllm_runbooks.core.views.memory_parts import PARTS, ink, legend, part_name, segment

PHASE_NAMES = {
    "configure": "configure", "engine": "start the engine", "load": "load the weights",
    "encoder": "profile the encoder", "compile": "compile", "profile": "profile memory",
    "kv_cache": "size the KV cache", "capture": "capture CUDA graphs", "warm_up": "warm up", "serve": "open the server",
}  # fmt: skip
_PHASE_FILLS = {
    "configure": "#8a94a0", "engine": "#5f6b78", "load": "#3f7fc1", "encoder": "#8a63c9", "compile": "#c9862b",
    "profile": "#2f9c8f", "kv_cache": "#3f9c4f", "capture": "#c25f8f", "warm_up": "#a88a5a", "serve": "#5fa0d8",
}  # fmt: skip
REST = "#8884"
FREE, HELD, RISEN = "#2f9c8f", "#8884", "#d05a4e"
_MAX_POINTS = 600


def label(start: ServerRun, number: int) -> str:
    model = re.split(r"[/\\]", (start.facts.model or "").rstrip("/\\"))[-1]
    name = f"{number} {model}".strip()
    return name if len(name) <= 21 else f"{name[:20]}…"


def _row_names(start: ServerRun, number: int, y: float, below: str) -> str:
    captions = [caption(0, y + (BAR / 2 - 1 if below else BAR / 2 + 4), label(start, number))]
    if below:
        captions.append(caption(0, y + BAR / 2 + 13, below, size=11, faint=True))
    return "".join(captions)


def distinction(start: ServerRun) -> str:
    """Settings that distinguish runs, if printed: quantisation, eager mode, memory utilization."""
    facts = start.facts
    words = [facts.quantization or "", "eager" if start.arguments.get("enforce_eager") is True else ""]
    if facts.gpu_memory_utilization is not None:
        words.append(f"util {facts.gpu_memory_utilization:g}")
    text = " · ".join(word for word in words if word)
    return text if len(text) <= 24 else f"{text[:23]}…"


def spent(phase: Phase) -> float | None:
    """Seconds of a phase by the log's clock, so that phases add up; else as printed."""
    return phase.clock_seconds if phase.clock_seconds is not None else phase.printed_seconds


_LEFT, _RIGHT = float(drawing.GUTTER), float(drawing.WIDTH - drawing.END)


def _frame(names: tuple[str, float], longest: float, unit: str, rows: int) -> tuple[list[str], float, float]:
    shapes, top = names
    bottom = top + 10 + ROW * rows
    return [shapes, drawing.axis(longest, unit, left=_LEFT, right=_RIGHT, top=top + 4, bottom=bottom)], top + 14, bottom


def _bar(x: float, y: float, wide: float, fill: str, title: str) -> str:
    # A thin gap separates adjacent parts.
    return rect(x, y, wide - 0.8 if wide > 2 else wide, BAR, fill, title=title)


def timelines(starts: Sequence[ServerRun]) -> str:
    """One bar for each run, its phases on a common scale of seconds; empty if no time is known."""
    totals = [sum(spent(phase) or 0.0 for phase in start.timeline) for start in starts]
    rows = [row for row in zip(range(1, len(starts) + 1), starts, totals, strict=True) if row[2] > 0][
        : drawing.MAX_ROWS
    ]
    if not rows:
        return ""
    longest = max(total for _, _, total in rows)
    phases = [name for name in PHASE_NAMES if any(p.name == name and spent(p) for _, s, _ in rows for p in s.timeline)]
    entries = {PHASE_NAMES[name]: _PHASE_FILLS[name] for name in phases}
    parts, top, bottom = _frame(swatches(entries, 12), longest, "s", len(rows))
    for row, (number, start, total) in enumerate(rows):
        x, y = _LEFT, top + row * ROW
        for phase in start.timeline:
            seconds = spent(phase) or 0.0
            wide = (_RIGHT - _LEFT) * seconds / longest
            title = f"{PHASE_NAMES.get(phase.name, phase.name)}: {seconds:.0f} s"
            parts.append(_bar(x, y, wide, _PHASE_FILLS.get(phase.name, REST), title))
            x += wide
        parts += [_row_names(start, number, y, distinction(start)), caption(x + 6, y + BAR / 2 + 4, f"{total:.0f} s")]
    return picture(parts, bottom + 22, "Phases of each start, in seconds")


def memories(starts: Sequence[ServerRun], totals: Sequence[float | None]) -> str:
    """One bar per run with the parts of its GPU's memory; a mark shows the budget.

    Empty without printed memory.
    """
    rows = [
        (number, start, total)
        for number, (start, total) in enumerate(zip(starts, totals, strict=True), 1)
        if start.facts.weights_gib is not None or start.facts.kv_cache_gib is not None
    ][: drawing.MAX_ROWS]
    if not rows:
        return ""
    longest = max(total or sum(gib for _, gib in memory_parts(start)) for _, start, total in rows)
    names = [name for name in PARTS if any(name == part for _, s, _ in rows for part, _ in memory_parts(s))]
    if any(total for _, _, total in rows):
        names.append("rest")
    shapes, below = legend(names, 12, width=drawing.WIDTH)
    parts, top, bottom = _frame((shapes, below + 4), longest, "GiB", len(rows))
    scale = (_RIGHT - _LEFT) / longest
    for row, (number, start, total) in enumerate(rows):
        x, y = _LEFT, top + row * ROW
        if total:
            parts.append(segment("rest", _LEFT, y, total * scale, BAR, title=f"GPU: {total:.2f} GiB"))
        for name, gib in memory_parts(start):
            wide = min(gib * scale, _RIGHT - x)
            title = f"{part_name(name)}: {gib:.2f} GiB"
            parts.append(segment(name, x, y, wide - 0.8 if wide > 2 else wide, BAR, title=title))
            if wide > 44:
                inside = f'x="{x + wide / 2:.1f}" y="{y + BAR / 2 + 4:.1f}" font-size="12" text-anchor="middle"'
                parts.append(f'<text {inside} fill="{ink(name)}">{gib:.4g}</text>')
            x += wide
        budget = start.facts.gpu_memory_utilization
        if total and budget:
            at = _LEFT + min(budget, 1.0) * total * scale
            parts.append(rule(at, y - 5, at, y + BAR + 5, colour="currentColor", thick=2))
        used = sum(gib for _, gib in memory_parts(start))
        after = max(x, _LEFT + (total or 0.0) * scale)
        parts += [
            _row_names(start, number, y, distinction(start)),
            caption(after + 6, y + BAR / 2 + 4, f"{used:.1f}", size=13),
        ]
    return picture(parts, bottom + 22, "GPU memory of each start, in GiB; the mark is the budget")


def memory_parts(start: ServerRun) -> list[tuple[str, float]]:
    """Printed parts of a launch's memory in GiB, without zeros."""
    facts = start.facts
    parts = (("weights", facts.weights_gib), ("kv_cache", facts.kv_cache_gib), ("cuda_graphs", facts.cuda_graph_gib))
    return [(name, gib) for name, gib in parts if gib]


def throughputs(starts: Sequence[ServerRun]) -> str:
    """Generated tokens/s by periodic line; hollow points for intervals that were not busy throughout; empty if none."""
    rows = [
        (n, s, s.throughput[:: -(-len(s.throughput) // _MAX_POINTS)]) for n, s in enumerate(starts, 1) if s.throughput
    ][: len(drawing.LINES)]
    top_rate = max((sample.generation_tokens_per_s for _, _, samples in rows for sample in samples), default=0.0)
    if top_rate <= 0:
        return ""
    longest = max(len(samples) for _, _, samples in rows)
    left, right, height = 40.0, float(drawing.WIDTH - 12), 220.0
    entries = {
        " · ".join(filter(None, [label(s, n), distinction(s)])): drawing.LINES[i] for i, (n, s, _) in enumerate(rows)
    }
    names, top = swatches(entries, 12)
    top += 26
    bottom = top + height
    parts = [names, caption(0, top - 10, "tokens/s", size=11, faint=True)]
    step = drawing.tick_step(top_rate, 4)
    for number in range(int(top_rate / step + 1e-9) + 1):
        y = bottom - height * number * step / top_rate
        parts += [rule(left, y, right, y), caption(left - 7, y + 4, f"{number * step:g}", size=11, anchor="end")]

    def place(index: int, rate: float) -> tuple[float, float]:
        # One extra slot keeps the first and the last point off the edges.
        return left + (right - left) * (index + 0.5) / longest, bottom - height * rate / top_rate

    for colour, (number, start, samples) in zip(drawing.LINES, rows, strict=False):
        points = [place(index, sample.generation_tokens_per_s) for index, sample in enumerate(samples)]
        track = " ".join(f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(points))
        parts.append(f'<path d="{track}" fill="none" stroke="{colour}" stroke-width="2" />')
        for (x, y), sample, is_steady in zip(points, samples, steady(samples), strict=True):
            title = f"{label(start, number)}, line {sample.line}: {sample.generation_tokens_per_s:g} tokens/s"
            parts.append(_dot(x, y, colour, title, is_filled=is_steady))
    legend_text = "periodic lines, in the order printed"
    parts += [
        rule(left, bottom, right, bottom),
        caption(right, bottom + 18, legend_text, size=11, anchor="end", faint=True),
    ]
    return picture(parts, bottom + 26, "Generated tokens per second, by periodic line")


def served(start: ServerRun) -> str:
    """Rates, requests, KV cache usage and incidents of a server over time; each needs at least three times."""
    return _averages(start) + _incidents(start)


def _averages(start: ServerRun) -> str:
    first = next((at for sample in start.throughput if (at := moment(sample.time))), None)
    timed = [
        (seconds, sample)
        for sample in start.throughput
        if (seconds := seconds_between(first, moment(sample.time))) is not None
    ]
    if len(timed) < _FEWEST:
        return ""
    size = -(-len(timed) // _MAX_MEANS)
    groups = [timed[index : index + size] for index in range(0, len(timed), size)]
    times = [group[0][0] for group in groups]
    ends = (timed[0][1].time or "", timed[-1][1].time or "")

    def means(name: str) -> list[float | None]:
        values = [[v for _, sample in group if (v := getattr(sample, name)) is not None] for group in groups]
        return [sum(some) / len(some) if some else None for some in values]

    rates = {"prompt tokens/s": "prompt_tokens_per_s", "generated tokens/s": "generation_tokens_per_s"}
    load = {
        "running requests": "running", "waiting requests": "waiting", "KV cache usage in %": "kv_cache_usage_percent",
    }  # fmt: skip
    charts = {"Tokens per second over time": rates, "Requests and KV cache usage over time": load}
    return "".join(
        drawing.curves({name: means(field) for name, field in fields.items()}, times, ends, title)
        for title, fields in charts.items()
    )


def _incidents(start: ServerRun) -> str:
    """What went wrong per minute, from the first statistics (what precedes them counts as their minute)."""
    statistics = [f"{sample.time.rpartition(':')[0]}:00" for sample in start.throughput if sample.time]
    minutes = [f"{minute.time}:00" for minute in start.minutes]
    times = [*(statistics[:1] or minutes[:1]), *minutes, *statistics[-1:]]
    elapsed = [seconds_between(moment(times[0]), moment(time)) or 0.0 for time in times] if minutes else [0.0]
    span = max(elapsed)
    width = max(60.0, span / _MAX_MEANS)
    begins = [index * width for index in range(int(span / width) + 1)]
    if len(begins) < _FEWEST:
        return ""
    rates = {f"{text}/min": [0.0] * len(begins) for text in COUNTED.values()}
    for minute, at in zip(start.minutes, elapsed[1:], strict=False):
        for field, text in COUNTED.items():
            rates[f"{text}/min"][int(at / width)] += getattr(minute, field) * 60 / width
    shown = {name: some for name, some in rates.items() if any(some)}
    ends = times[0], times[elapsed.index(span)]
    return drawing.curves(shown, begins, ends, "Preemptions and errors per minute")


_FEWEST, _MAX_MEANS = 3, 240
"""Minimum and maximum number of points; consecutive samples beyond the maximum are averaged."""


def _dot(x: float, y: float, colour: str, title: str, *, is_filled: bool) -> str:
    round_ = f"M{x - 4:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0"
    fill = colour if is_filled else "none"
    shape = f'<path d="{round_}" fill="{fill}" stroke="{colour}" stroke-width="2">'
    return f"{shape}<title>{escape(title)}</title></path>"


def free_memory(before: float, after: float, total: float | None, budgets: Mapping[str, float]) -> str:
    """Free memory of a GPU before and after profiling, in GiB, with budgets if its size is known."""
    marks = {name: gib for name, gib in budgets.items() if total and gib <= total}
    longest = max(total or 0.0, before, after, *marks.values(), 1e-3)
    left, right = float(drawing.GUTTER), float(drawing.WIDTH - drawing.END - (0 if total else 24))
    scale = (right - left) / longest
    rise = after - before
    entries = {"free": FREE, "freed while profiling": RISEN} if rise > 0 else {"free": FREE}
    if total:
        entries["in use by other processes or this launch"] = HELD
    names, top = swatches(entries, 12)
    top += 10 + 15 * len(marks)
    bottom = top + 2 * ROW + 4
    parts = [names, drawing.axis(longest, "GiB", left=left, right=right, top=top, bottom=bottom)]
    for row, (name, gib) in enumerate((("before profiling", before), ("after profiling", after))):
        y = top + 12 + row * ROW
        if total:
            parts.append(rect(left, y, total * scale, BAR, HELD, title=f"GPU: {total:.2f} GiB"))
        parts += [
            rect(left, y, gib * scale, BAR, FREE, title=f"free: {gib:.2f} GiB"),
            caption(0, y + BAR / 2 + 4, name),
            f'<text x="{left + 8:.1f}" y="{y + BAR / 2 + 4:.1f}" font-size="12" fill="#fff">{gib:.2f} free</text>',
        ]
        if row and rise > 0:
            # At true scale half a GiB of eighty is a hair; two pixels more let it be seen.
            at, wide = left + before * scale, max(rise * scale, 4.0)
            parts.append(rect(at, y - 3, wide, BAR + 6, RISEN, title=f"freed while profiling: {rise:.2f} GiB"))
            parts.append(caption(at + wide + 6, y + BAR / 2 + 4, f"+{rise:.2f} GiB"))
    for number, (name, gib) in enumerate(sorted(marks.items(), key=lambda item: item[1])):
        x = left + gib * scale
        high = top - 15 * number
        parts += [rule(x, high - 9, x, bottom, colour="currentColor", thick=1.5)]
        parts.append(caption(x - 5, high, f"{name}: {gib:.1f}", size=11, anchor="end"))
    return picture(parts, bottom + 22, "Free GPU memory before and after profiling, in GiB")
