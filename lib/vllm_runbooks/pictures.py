"""Records to SVG: of starts the phases, memory and throughput, of plans the budget, the capacity and the layouts.

Pure functions of records. Text takes the colour of the page around it, and the fills are of middle lightness, so that a
picture reads on a light page and on a dark one. All text is escaped. Elements and attributes are those that the site
lets through (see `site`): no classes, no scripts, no references.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import groupby

from vllm_runbooks.comparison import steady
from vllm_runbooks.plan_records import Plan, PlannedRank, PlannedTerm
from vllm_runbooks.records import ComparedTerm, Phase, Start

WIDTH = 720
_GUTTER = 150
"""Room for the names in front of the bars."""
_END = 62
"""Room for what is written behind a bar."""
_ROW, _BAR = 42, 22
PHASE_NAMES = {
    "configure": "configure", "engine": "start the engine", "load": "load the weights",
    "encoder": "profile the encoder", "compile": "compile", "profile": "profile memory",
    "kv_cache": "size the KV cache", "capture": "capture CUDA graphs", "warm_up": "warm up", "serve": "open the server",
}  # fmt: skip
_PHASE_FILLS = {
    "configure": "#8a94a0", "engine": "#5f6b78", "load": "#3f7fc1", "encoder": "#8a63c9", "compile": "#c9862b",
    "profile": "#2f9c8f", "kv_cache": "#3f9c4f", "capture": "#c25f8f", "warm_up": "#a88a5a", "serve": "#5fa0d8",
}  # fmt: skip
WEIGHTS, CACHE, GRAPHS, REST = "#3f7fc1", "#2f9c8f", "#c9862b", "#8884"
FREE, HELD, RISEN = "#2f9c8f", "#8884", "#d05a4e"
_LINES = ("#3f7fc1", "#c9862b", "#8a63c9", "#2f9c8f", "#d05a4e", "#8a94a0")
_HAIR = "#8886"
# Far more than a screen holds; what lies beyond is left to the tables.
MAX_ROWS = 24
_MAX_POINTS = 600


def _text(x: float, y: float, said: str, *, size: int = 13, anchor: str = "start", faint: bool = False) -> str:
    opacity = ' opacity="0.72"' if faint else ""
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="currentColor"{opacity}'
    return f"<text {place}>{escape(said)}</text>"


def _rect(x: float, y: float, wide: float, high: float, fill: str, *, title: str = "") -> str:
    said = f"<title>{escape(title)}</title>" if title else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(wide, 0.0):.1f}" height="{high:.1f}" fill="{fill}">{said}</rect>'


def _rule(x1: float, y1: float, x2: float, y2: float, *, colour: str = _HAIR, thick: float = 1) -> str:
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {place} stroke="{colour}" stroke-width="{thick:g}" />'


def _drawing(parts: Iterable[str], height: float, title: str) -> str:
    box = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    return f'<svg {box} role="img" style="max-width:100%"><title>{escape(title)}</title>{"".join(parts)}</svg>'


def _legend(entries: Mapping[str, str], y: float) -> tuple[str, float]:
    """Coloured squares with names in as many lines as they need, and the height used."""
    parts, x = [], 0.0
    for name, fill in entries.items():
        wide = 24 + 7.0 * len(name) + 16
        if x and x + wide > WIDTH:
            x, y = 0.0, y + 20
        parts += [_rect(x, y - 10, 11, 11, fill), _text(x + 17, y, name, size=12)]
        x += wide
    return "".join(parts), y + 8


def _step(longest: float, ticks: int = 6) -> float:
    """A round distance between ticks, so that about so many fit."""
    raw = max(longest, 1e-9) / ticks
    magnitude = 10 ** math.floor(math.log10(raw))
    return float(next(factor for factor in (1, 2, 5, 10) if raw <= factor * magnitude) * magnitude)


def _axis(longest: float, unit: str, *, left: float, right: float, top: float, bottom: float) -> str:
    step = _step(longest)
    parts = []
    for number in range(int(longest / step + 1e-9) + 1):
        x = left + (right - left) * number * step / longest
        said = f"{number * step:g}" + (f" {unit}" if number == 0 else "")
        parts += [_rule(x, top, x, bottom), _text(x, bottom + 16, said, size=11, anchor="middle", faint=True)]
    return "".join(parts)


def label(start: Start, number: int) -> str:
    """What a start is called in a picture: its number and its model's own name."""
    model = re.split(r"[/\\]", (start.facts.model or "").rstrip("/\\"))[-1]
    name = f"{number} {model}".strip()
    return name if len(name) <= 21 else f"{name[:20]}…"


def _row_names(start: Start, number: int, y: float, below: str) -> str:
    """The start's name beside its bar, and in a smaller line what tells it from others of the same model."""
    said = [_text(0, y + (_BAR / 2 - 1 if below else _BAR / 2 + 4), label(start, number))]
    if below:
        said.append(_text(0, y + _BAR / 2 + 13, below, size=11, faint=True))
    return "".join(said)


def distinction(start: Start) -> str:
    """The settings by which readers tell starts apart, as far as they are printed: quantisation, eager mode, budget."""
    facts = start.facts
    words = [facts.quantization or "", "eager" if start.arguments.get("enforce_eager") is True else ""]
    if facts.gpu_memory_utilization is not None:
        words.append(f"util {facts.gpu_memory_utilization:g}")
    said = " · ".join(word for word in words if word)
    return said if len(said) <= 24 else f"{said[:23]}…"


def spent(phase: Phase) -> float | None:
    """Seconds of a phase by the log's clock, so that the phases of a start add up; else what was printed."""
    return phase.clock_seconds if phase.clock_seconds is not None else phase.printed_seconds


def timelines(starts: Sequence[Start]) -> str:
    """One bar a start, its phases one after the other on a common scale of seconds; empty where no time is known."""
    rows = [(n, s) for n, s in enumerate(starts, 1) if sum(spent(p) or 0.0 for p in s.timeline) > 0][:MAX_ROWS]
    if not rows:
        return ""
    longest = max(sum(spent(phase) or 0.0 for phase in start.timeline) for _, start in rows)
    left, right = float(_GUTTER), float(WIDTH - _END)
    shown = [name for name in PHASE_NAMES if any(p.name == name and spent(p) for _, s in rows for p in s.timeline)]
    legend, top = _legend({PHASE_NAMES[name]: _PHASE_FILLS[name] for name in shown}, 12)
    bottom = top + 10 + _ROW * len(rows)
    parts = [legend, _axis(longest, "s", left=left, right=right, top=top + 4, bottom=bottom)]
    for row, (number, start) in enumerate(rows):
        x, y = left, top + 14 + row * _ROW
        for phase in start.timeline:
            seconds = spent(phase) or 0.0
            wide = (right - left) * seconds / longest
            title = f"{PHASE_NAMES.get(phase.name, phase.name)}: {seconds:.0f} s"
            # A hair of the page between two phases keeps them apart.
            parts.append(
                _rect(x, y, wide - 0.8 if wide > 2 else wide, _BAR, _PHASE_FILLS.get(phase.name, REST), title=title)
            )
            x += wide
        total = sum(spent(phase) or 0.0 for phase in start.timeline)
        parts += [_row_names(start, number, y, distinction(start)), _text(x + 6, y + _BAR / 2 + 4, f"{total:.0f} s")]
    return _drawing(parts, bottom + 22, "Phases of each start, in seconds")


def memories(starts: Sequence[Start], totals: Sequence[float | None]) -> str:
    """One bar a start: weights, KV cache, CUDA graphs, and what is left of the GPU where its size is known.

    A mark shows the budget: utilisation times the GPU's memory. Empty where no start prints its memory.
    """
    rows = [
        (number, start, total)
        for number, (start, total) in enumerate(zip(starts, totals, strict=True), 1)
        if start.facts.weights_gib is not None or start.facts.kv_cache_gib is not None
    ][:MAX_ROWS]
    if not rows:
        return ""
    longest = max(total or sum(v for _, v, _ in memory_parts(start)) for _, start, total in rows)
    left, right = float(_GUTTER), float(WIDTH - _END)
    entries = {name: fill for name, _, fill in (part for _, s, _ in rows for part in memory_parts(s))}
    if any(total for _, _, total in rows):
        entries["everything else, and free"] = REST
    legend, top = _legend(entries, 12)
    bottom = top + 10 + _ROW * len(rows)
    parts = [legend, _axis(longest, "GiB", left=left, right=right, top=top + 4, bottom=bottom)]
    scale = (right - left) / longest
    for row, (number, start, total) in enumerate(rows):
        x, y = left, top + 14 + row * _ROW
        if total:
            parts.append(_rect(left, y, total * scale, _BAR, REST, title=f"GPU: {total:.2f} GiB"))
        for name, gib, fill in memory_parts(start):
            wide = min(gib * scale, right - x)
            parts.append(_rect(x, y, wide - 0.8 if wide > 2 else wide, _BAR, fill, title=f"{name}: {gib:.2f} GiB"))
            if wide > 44:
                inside = f'x="{x + wide / 2:.1f}" y="{y + _BAR / 2 + 4:.1f}" font-size="12" text-anchor="middle"'
                parts.append(f'<text {inside} fill="#fff">{gib:.4g}</text>')
            x += wide
        budget = start.facts.gpu_memory_utilization
        if total and budget:
            at = left + min(budget, 1.0) * total * scale
            parts.append(_rule(at, y - 5, at, y + _BAR + 5, colour="currentColor", thick=2))
        taken = sum(gib for _, gib, _ in memory_parts(start))
        after = max(x, left + (total or 0.0) * scale)
        parts += [
            _row_names(start, number, y, distinction(start)),
            _text(after + 6, y + _BAR / 2 + 4, f"{taken:.1f}", size=13),
        ]
    return _drawing(parts, bottom + 22, "GPU memory of each start, in GiB; the mark is the budget")


def memory_parts(start: Start) -> list[tuple[str, float, str]]:
    """Name, GiB and fill of what a start printed about its memory."""
    facts = start.facts
    parts = (
        ("weights", facts.weights_gib, WEIGHTS),
        ("KV cache", facts.kv_cache_gib, CACHE),
        ("CUDA graphs", facts.cuda_graph_gib, GRAPHS),
    )
    return [(name, gib, fill) for name, gib, fill in parts if gib]


def throughputs(starts: Sequence[Start]) -> str:
    """Generated tokens per second over each start's periodic lines; hollow where the interval was not busy throughout.

    Empty where no start prints any.
    """
    rows = [(n, s, s.throughput[:_MAX_POINTS]) for n, s in enumerate(starts, 1) if s.throughput][: len(_LINES)]
    top_rate = max((sample.generation_tokens_per_s for _, _, samples in rows for sample in samples), default=0.0)
    if top_rate <= 0:
        return ""
    longest = max(len(samples) for _, _, samples in rows)
    left, right, height = 40.0, float(WIDTH - 12), 220.0
    entries = {" · ".join(filter(None, [label(s, n), distinction(s)])): _LINES[i] for i, (n, s, _) in enumerate(rows)}
    legend, top = _legend(entries, 12)
    top += 26
    bottom = top + height
    parts = [legend, _text(0, top - 10, "tokens/s", size=11, faint=True)]
    step = _step(top_rate, 4)
    for number in range(int(top_rate / step + 1e-9) + 1):
        y = bottom - height * number * step / top_rate
        parts += [_rule(left, y, right, y), _text(left - 7, y + 4, f"{number * step:g}", size=11, anchor="end")]

    def place(index: int, rate: float) -> tuple[float, float]:
        # Room for one more keeps the first and the last point off the edges.
        return left + (right - left) * (index + 0.5) / longest, bottom - height * rate / top_rate

    for colour, (number, start, samples) in zip(_LINES, rows, strict=False):
        points = [place(index, sample.generation_tokens_per_s) for index, sample in enumerate(samples)]
        track = " ".join(f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(points))
        parts.append(f'<path d="{track}" fill="none" stroke="{colour}" stroke-width="2" />')
        for (x, y), sample, is_steady in zip(points, samples, steady(samples), strict=True):
            title = f"{label(start, number)}, line {sample.line}: {sample.generation_tokens_per_s:g} tokens/s"
            parts.append(_dot(x, y, colour, title, is_filled=is_steady))
    said = "periodic lines, in the order printed"
    parts += [_rule(left, bottom, right, bottom), _text(right, bottom + 18, said, size=11, anchor="end", faint=True)]
    return _drawing(parts, bottom + 26, "Generated tokens per second, by periodic line")


def _dot(x: float, y: float, colour: str, title: str, *, is_filled: bool) -> str:
    round_ = f"M{x - 4:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0"
    fill = colour if is_filled else "none"
    shape = f'<path d="{round_}" fill="{fill}" stroke="{colour}" stroke-width="2">'
    return f"{shape}<title>{escape(title)}</title></path>"


def free_memory(before: float, after: float, total: float | None, budgets: Mapping[str, float]) -> str:
    """Free memory of a GPU before and after profiling, in GiB; with its size known, also what budgets ask for."""
    asked = {name: gib for name, gib in budgets.items() if total and gib <= total}
    longest = max(total or 0.0, before, after, *asked.values(), 1e-3)
    left, right = float(_GUTTER), float(WIDTH - _END - (0 if total else 24))
    scale = (right - left) / longest
    rise = after - before
    entries = {"free": FREE, "freed while profiling": RISEN} if rise > 0 else {"free": FREE}
    if total:
        entries["in use by others, or by this start"] = HELD
    legend, top = _legend(entries, 12)
    top += 10 + 15 * len(asked)
    bottom = top + 2 * _ROW + 4
    parts = [legend, _axis(longest, "GiB", left=left, right=right, top=top, bottom=bottom)]
    for row, (name, gib) in enumerate((("before profiling", before), ("after profiling", after))):
        y = top + 12 + row * _ROW
        if total:
            parts.append(_rect(left, y, total * scale, _BAR, HELD, title=f"GPU: {total:.2f} GiB"))
        parts += [
            _rect(left, y, gib * scale, _BAR, FREE, title=f"free: {gib:.2f} GiB"),
            _text(0, y + _BAR / 2 + 4, name),
            f'<text x="{left + 8:.1f}" y="{y + _BAR / 2 + 4:.1f}" font-size="12" fill="#fff">{gib:.2f} free</text>',
        ]
        if row and rise > 0:
            # At true scale half a GiB of eighty is a hair; two pixels more let it be seen.
            at, wide = left + before * scale, max(rise * scale, 4.0)
            parts.append(_rect(at, y - 3, wide, _BAR + 6, RISEN, title=f"freed while profiling: {rise:.2f} GiB"))
            parts.append(_text(at + wide + 6, y + _BAR / 2 + 4, f"+{rise:.2f} GiB"))
    for number, (name, gib) in enumerate(sorted(asked.items(), key=lambda item: item[1])):
        x = left + gib * scale
        high = top - 15 * number
        parts += [_rule(x, high - 9, x, bottom, colour="currentColor", thick=1.5)]
        parts.append(_text(x - 5, high, f"{name}: {gib:.1f}", size=11, anchor="end"))
    return _drawing(parts, bottom + 22, "Free GPU memory before and after profiling, in GiB")


# Plans. Their pictures are narrow: on a telephone the text keeps most of its size.

NARROW = 440
_LIGHT_INK, _DARK_INK = "#fff", "#111"
_TERMS = {
    "weights": ("weights", "#2f6099", "", _LIGHT_INK),
    "activation": ("activation peak", "#e8b04a", "/", _DARK_INK),
    "encoder": ("encoder profile", "#7d55bd", "\\", _LIGHT_INK),
    "non_torch": ("outside PyTorch", "#b5bcc4", "x", _DARK_INK),
    "communication": ("communication", "#56616d", "|", _LIGHT_INK),
    "cuda_graphs": ("CUDA graphs", "#c46a98", "-", _DARK_INK),
    "kv_cache": ("KV cache", "#6fc4b6", "", _DARK_INK),
}
"""Name, fill, hatch and ink: neighbours differ in lightness, and the light ones in hatch, so that grey is enough."""
DRAWN_TERMS = tuple(_TERMS)
"""Terms that have a tone and a hatch of their own."""
TERM_NAMES = {name: look[0] for name, look in _TERMS.items()} | {
    "adapters": "LoRA adapters",
    "cuda_graphs_estimated": "graphs, estimated",
    "beside_weights": "beside weights",
    "kv_cache_tokens": "KV cache tokens",
}
_THICK = 28
"""Height of a card's bar."""
_SMALL = 12
_LETTER = 6.4
"""Width of a letter of that size, on the wide side."""
_HIGHLIGHT = "#3f7fc1"
_MARKERS = (
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", "m-4 -4h8v8h-8z", "m0 -5l5 9h-10z", "m0 -5.5l5 5.5l-5 5.5l-5 -5.5z",
    "m0 5l5 -9h-10z", "m-5 -1.5h3.5v-3.5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5z",
)  # fmt: skip
_MAX_LAYOUTS = 12


def _narrow(parts: Iterable[str], height: float, title: str) -> str:
    # No height of its own: it follows the width where that is cut to a narrow page.
    box = f'width="{NARROW}" viewBox="0 0 {NARROW} {height:.0f}"'
    return f'<svg {box} role="img" style="max-width:100%"><title>{escape(title)}</title>{"".join(parts)}</svg>'


def term_swatch(name: str) -> str:
    """The look of a term beside its row in a table."""
    return f'<svg width="14" height="14" viewBox="0 0 14 14">{_segment(name, 0.5, 0.5, 13, 13)}</svg>'


def _segment(name: str, x: float, y: float, wide: float, high: float, *, title: str = "") -> str:
    _, fill, hatch, _ = _TERMS[name]
    return _rect(x, y, wide, high, fill, title=title) + (_hatch(name, x, y, wide, high) if hatch else "")


def _hatch(name: str, x: float, y: float, wide: float, high: float) -> str:
    """Lines across a rectangle. Patterns would need references, which pages do not let through."""
    _, _, kind, ink = _TERMS[name]
    gap, lines = 6.0, []
    if kind == "|":
        lines = [(at, 0.0, at, high) for at in _steps(gap / 2, wide, gap)]
    elif kind == "-":
        lines = [(0.0, at, wide, at) for at in _steps(gap / 2, high, gap)]
    else:
        for at in _steps(gap / 2, wide + high, gap):
            low, top = max(0.0, at - high), min(at, wide)
            lines.append((low, at - low, top, at - top))
        mirrored = [(wide - x1, y1, wide - x2, y2) for x1, y1, x2, y2 in lines]
        lines = {"/": lines, "\\": mirrored, "x": [*lines, *mirrored]}[kind]
    track = "".join(f"M{x + x1:.1f} {y + y1:.1f}L{x + x2:.1f} {y + y2:.1f}" for x1, y1, x2, y2 in lines)
    return f'<path d="{track}" fill="none" stroke="{ink}" stroke-width="1.2" opacity="0.5" />' if track else ""


def _steps(first: float, end: float, gap: float) -> list[float]:
    return [first + gap * number for number in range(max(0, math.ceil((end - first) / gap)))]


def _lines_of(said: Sequence[str], y: float, *, room: int = int(NARROW / _LETTER)) -> tuple[str, float]:
    """Short pieces of text, as many in a line as fit, and the height at which the last line stands."""
    lines = [""]
    for piece in said:
        longer = f"{lines[-1]} · {piece}" if lines[-1] else piece
        if len(longer) > room and lines[-1]:
            lines.append(piece)
        else:
            lines[-1] = longer
    cut = [line if len(line) <= room else f"{line[: room - 1]}…" for line in lines]
    shown = (_text(0, y + 16 * n, line, size=_SMALL) for n, line in enumerate(cut))
    return "".join(shown), y + 16 * (len(cut) - 1)


def cards(ranks: Sequence[PlannedRank]) -> list[list[PlannedRank]]:
    """Ranks that follow each other and are planned alike, together."""

    def alike(rank: PlannedRank) -> tuple[object, ...]:
        return rank.gpu, rank.node, rank.total_gib, rank.available_gib, rank.fits, rank.terms

    return [list(group) for _, group in groupby(ranks, alike)]


def cards_name(group: Sequence[PlannedRank]) -> str:
    """What cards that are planned alike are called."""
    first, last = group[0], group[-1]
    which = f"card {first.rank}" if first is last else f"cards {first.rank} to {last.rank}, each"
    return " · ".join(filter(None, [which, first.gpu, first.node]))


def stacked(rank: PlannedRank, limit: float | None) -> tuple[list[PlannedTerm], PlannedTerm | None, list[PlannedTerm]]:
    """Terms that the budget holds beside the KV cache, the KV cache, and terms that come on top of the budget.

    Releases that do not subtract the CUDA graphs allocate them beyond the limit: with them the parts would add up to
    more than it.
    """
    order = list(_TERMS)
    terms = sorted(
        (t for t in rank.terms if t.name in _TERMS and t.name != "kv_cache"), key=lambda t: order.index(t.name)
    )
    cache = next((t for t in rank.terms if t.name == "kv_cache"), None)
    taken = sum(t.expected_gib or 0.0 for t in terms)
    is_over = (
        limit is not None and (rank.available_gib or 0.0) > 0 and (rank.available_gib or 0.0) + taken > limit + 0.01
    )
    beyond = [t for t in terms if is_over and t.name == "cuda_graphs"]
    return [t for t in terms if t not in beyond], cache, beyond


def budgets(ranks: Sequence[PlannedRank], utilization: float | None) -> str:
    """One bar for each card, or for cards that are planned alike: its terms, its memory, and the budget's limit.

    Empty where no term is known.
    """
    groups = cards(ranks)[:MAX_ROWS]
    known = [t for group in groups for t in group[0].terms if t.expected_gib and t.name in _TERMS]
    if not known:
        return ""
    reach = max(max(group[0].total_gib or 0.0, _reach(group[0], utilization)) for group in groups)
    scale = (NARROW - 2) / reach
    shown = [name for name in _TERMS if any(t.name == name for t in known)]
    legend, top = _terms_legend(shown, 12)
    parts, said = [legend], []
    for group in groups:
        drawn, top, sentence = _budget(group, utilization, scale, top + 28)
        parts.append(drawn)
        said.append(sentence)
    parts.append(_scale_below(reach, scale, top + 14))
    said = ["Planned memory in GiB", *said]
    return _narrow(parts, top + 36, ". ".join(said))


def _reach(rank: PlannedRank, utilization: float | None) -> float:
    before, cache, beyond = stacked(rank, _limit(rank, utilization))
    stack = sum(t.expected_gib or 0.0 for t in [*before, *([cache] if cache else []), *beyond])
    return max(stack, sum(t.high_gib or t.expected_gib or 0.0 for t in before))


def _limit(rank: PlannedRank, utilization: float | None) -> float | None:
    return rank.total_gib * utilization if rank.total_gib and utilization else None


def _terms_legend(names: Sequence[str], y: float) -> tuple[str, float]:
    parts, x = [], 0.0
    for name in names:
        wide = 20 + 7.0 * len(TERM_NAMES[name]) + 12
        if x and x + wide > NARROW + 12:
            x, y = 0.0, y + 20
        parts += [_segment(name, x, y - 11, 13, 13), _text(x + 18, y, TERM_NAMES[name], size=_SMALL)]
        x += wide
    return "".join(parts), y + 4


def _budget(group: Sequence[PlannedRank], utilization: float | None, scale: float, y: float) -> tuple[str, float, str]:
    """One bar with its names and figures, the height of its last line, and the same as a sentence."""
    rank, limit = group[0], _limit(group[0], utilization)
    before, cache, beyond = stacked(rank, limit)
    total = f"{rank.total_gib:.2f} GiB" if rank.total_gib else "memory unknown"
    parts = [_text(0, y, cards_name(group)[:46]), _text(NARROW - 1, y, total, anchor="end", size=_SMALL)]
    bar, x = y + 9, 1.0
    figures: list[str] = []
    for term in [*before, *([cache] if cache else []), *beyond]:
        name, amount = TERM_NAMES[term.name], term.expected_gib
        if amount is None:
            figures.append(f"{name}: unknown")
            continue
        if amount <= 0:
            continue
        wide = amount * scale
        title = f"{name}: {_span(term)} GiB"
        parts.append(_segment(term.name, x, bar, wide - 0.8 if wide > 2 else wide, _THICK, title=title))
        if term.name in ("weights", "kv_cache") and wide > _LETTER * len(f"{amount:.1f}") + 12:
            whole = f"{name} {amount:.1f}"
            inside = whole if wide > _LETTER * len(whole) + 14 else f"{amount:.1f}"
            place = f'x="{x + wide / 2:.1f}" y="{bar + _THICK / 2 + 4.5:.1f}" font-size="13" text-anchor="middle"'
            parts.append(f'<text {place} fill="{_TERMS[term.name][3]}">{escape(inside)}</text>')
        else:
            figures.append(f"{'on top: ' if term in beyond else ''}{name} {amount:.2f}")
        x += wide
    if rank.total_gib:
        parts.append(_outline(1, bar - 1, rank.total_gib * scale, _THICK + 2))
    if limit is not None:
        at = 1 + min(limit * scale, NARROW - 2)
        parts.append(_rule(at, bar - 5, at, bar + _THICK + 5, colour="currentColor", thick=2))
        figures.append(f"limit {limit:.2f} (utilisation {utilization:g})")
    low, high = _whisker(before)
    below = bar + _THICK + 18
    if low is not None and high is not None and high > low:
        parts.append(_ends(1 + low * scale, 1 + high * scale, bar + _THICK + 8))
        figures.append(f"before the KV cache {low:.1f} to {high:.1f}")
        below += 8
    taken = sum(term.expected_gib or 0.0 for term in before)
    if limit is not None and taken > limit:
        figures.append(f"{taken - limit:.2f} too much")
    written, last = _lines_of(figures, below)
    sentence = f"{cards_name(group)}, {total}: " + ", ".join(
        f"{TERM_NAMES[t.name]} {_span(t)}" for t in [*before, *([cache] if cache else []), *beyond]
    )
    return "".join([*parts, written]), last, sentence


def _span(term: PlannedTerm) -> str:
    if term.expected_gib is None:
        return "unknown"
    is_exact = term.low_gib == term.expected_gib == term.high_gib or term.low_gib is None or term.high_gib is None
    return f"{term.expected_gib:.2f}" + ("" if is_exact else f" ({term.low_gib:.2f} to {term.high_gib:.2f})")


def _whisker(terms: Sequence[PlannedTerm]) -> tuple[float | None, float | None]:
    """The least and the most that stands before the KV cache; None where a term is not known."""
    lows = [t.low_gib for t in terms if t.low_gib is not None]
    highs = [t.high_gib for t in terms if t.high_gib is not None]
    if len(lows) < len(terms) or len(highs) < len(terms):
        return None, None
    return sum(lows), sum(highs)


def _ends(x1: float, x2: float, y: float) -> str:
    """A whisker, at least as wide as can be seen."""
    middle, half = (x1 + x2) / 2, max((x2 - x1) / 2, 2.5)
    x1, x2 = max(middle - half, 0.0), min(middle + half, float(NARROW))
    track = f"M{x1:.1f} {y - 4:.1f}v8M{x1:.1f} {y:.1f}H{x2:.1f}M{x2:.1f} {y - 4:.1f}v8"
    return f'<path d="{track}" fill="none" stroke="currentColor" stroke-width="1.6" />'


def _outline(x: float, y: float, wide: float, high: float) -> str:
    box = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}"'
    return f'<rect {box} fill="none" stroke="currentColor" stroke-width="1.2" opacity="0.75" />'


def _scale_below(reach: float, scale: float, y: float) -> str:
    step, parts = _step(reach, 5), [_rule(1, y, NARROW - 1, y)]
    for number in range(int(reach / step + 1e-9) + 1):
        x = 1 + number * step * scale
        anchor = "start" if number == 0 else "end" if x > NARROW - 12 else "middle"
        said = f"{number * step:g}" + (" GiB" if number == 0 else "")
        parts += [_rule(x, y, x, y + 4), _text(min(x, NARROW - 0.1), y + 17, said, size=11, anchor=anchor, faint=True)]
    return "".join(parts)


def layout_name(plan: Plan) -> str:
    """What a layout is called."""
    layout = plan.layout
    if layout is None:
        return "as asked"
    sizes = (("DP", layout.dp), ("TP", layout.tp), ("PP", layout.pp))
    each = " · ".join(f"{kind} {size}" for kind, size in sizes if size > 1) or "1 card"
    return f"{layout.replicas} x {each}" if layout.replicas > 1 else each


def requests_at_once(plan: Plan) -> float | None:
    """Requests of the whole context, of all replicas together where there are several."""
    return plan.kv_cache.max_concurrency if plan.total_concurrency is None else plan.total_concurrency


def layouts(plans: Sequence[Plan]) -> str:
    """Legal layouts below each other: KV cache of a card, longest context and requests at once, each on its own scale.

    The best of a column is solid. Empty where no layout is legal.
    """
    rows = [plan for plan in plans if plan.legal is not False][:_MAX_LAYOUTS]
    if not rows:
        return ""
    columns: list[tuple[str, list[float | None], str]] = [
        ("KV cache, GiB a card", [plan.kv_cache.gib for plan in rows], ",.1f"),
        ("longest context", [_number(plan.kv_cache.longest_context) for plan in rows], ",.0f"),
        ("requests at once", [requests_at_once(plan) for plan in rows], ",.1f"),
    ]
    pitch, bar, first = NARROW / 3, 78.0, 34
    parts, said = [], []
    for number, (head, _, _) in enumerate(columns):
        parts.append(_text(number * pitch, 12, head, size=_SMALL, faint=True))
    for row, plan in enumerate(rows):
        y = first + row * 46
        parts.append(_text(0, y, layout_name(plan)))
        if plan.fits is False:
            parts.append(_text(0, y + 20, "does not fit", size=_SMALL, faint=True))
            said.append(f"{layout_name(plan)}: does not fit")
            continue
        told = []
        for number, (head, values, style) in enumerate(columns):
            value, x = values[row], number * pitch
            shown = "unknown" if value is None else format(value, style)
            told.append(f"{head} {shown}")
            best = max(
                (v for v, p in zip(values, rows, strict=True) if v is not None and p.fits is not False), default=0
            )
            wide = bar * value / best if value and best else 0.0
            strength = "" if value == best else ' opacity="0.5"'
            place = f'x="{x:.1f}" y="{y + 7:.1f}" width="{wide:.1f}" height="16"'
            parts.append(f'<rect {place} fill="{_HIGHLIGHT}"{strength}><title>{escape(told[-1])}</title></rect>')
            parts.append(_text(x + wide + (5 if wide else 0), y + 20, shown, size=_SMALL))
        said.append(f"{layout_name(plan)}: {', '.join(told)}")
    return _narrow(parts, first + len(rows) * 46 - 14, ". ".join(["Layouts side by side", *said]))


def _number(value: int | None) -> float | None:
    return None if value is None else float(value)


def capacities(settings: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    """Requests at once over their context, a line for each setting: points of tokens and requests.

    Both axes are logarithmic, so that halving the context looks the same everywhere. Empty where there is no point.
    """
    lines = {
        name: sorted((tokens, requests) for tokens, requests in points if tokens > 0 and requests > 0)
        for name, points in list(settings.items())[: len(_LINES)]
    }
    lines = {name: points for name, points in lines.items() if points}
    if not lines:
        return ""
    contexts = [tokens for points in lines.values() for tokens, _ in points]
    counts = [requests for points in lines.values() for _, requests in points]
    left, right, top, bottom = 34.0, NARROW - 130.0, 34.0, 264.0
    first, last = math.log2(min(contexts)), math.log2(max(contexts))
    least, most = math.log10(min([*counts, 1.0])), math.log10(max([*counts, 1.0]))

    def place(tokens: float, requests: float) -> tuple[float, float]:
        across = (math.log2(tokens) - first) / (last - first) if last > first else 0.5
        up = (math.log10(requests) - least) / (most - least) if most > least else 0.5
        return left + 8 + (right - left - 12) * across, bottom - 6 - (bottom - top - 12) * up

    parts = [_text(0, 14, "requests at once", size=_SMALL, faint=True)]
    for count in _counts(10**least, 10**most):
        y = place(min(contexts), count)[1]
        is_one = count == 1
        parts.append(_rule(left, y, right, y, colour="currentColor" if is_one else _HAIR, thick=1.4 if is_one else 1))
        parts.append(_text(left - 6, y + 4, f"{count:,g}", size=11, anchor="end"))
    for tokens in _contexts(first, last):
        x = place(tokens, 1)[0]
        parts += [_rule(x, bottom, x, bottom + 4), _text(x, bottom + 17, _short(tokens), size=11, anchor="middle")]
    parts.append(_rule(left, bottom, right, bottom))
    parts.append(_text(right, bottom + 34, "context of each, tokens", size=_SMALL, anchor="end", faint=True))
    labels = []
    for number, (name, points) in enumerate(lines.items()):
        spots = [place(*point) for point in points]
        track = " ".join(f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(spots))
        parts.append(f'<path d="{track}" fill="none" stroke="{_LINES[number]}" stroke-width="2" />')
        for (x, y), (tokens, requests) in zip(spots, points, strict=True):
            parts.append(_marker(number, x, y, f"{name}: {requests:,.4g} requests of {tokens:,} tokens"))
        labels.append((number, name, spots[-1]))
    parts.append(_end_labels(labels, right + 14, top))
    said = ". ".join(
        f"{name}: " + ", ".join(f"{requests:.4g} of {tokens:,} tokens" for tokens, requests in points)
        for name, points in lines.items()
    )
    return _narrow(parts, bottom + 42, f"Requests at once over their context. {said}")


def _counts(least: float, most: float) -> list[float]:
    """Round counts to mark: fewer for each power of ten where there are many."""
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    factors = (1, 2, 5) if len(powers) <= 3 else (1,)
    marks = [float(f"{factor}e{power}") for power in powers for factor in factors]
    return [mark for mark in marks if least * 0.999 <= mark <= most * 1.001]


def _contexts(first: float, last: float) -> list[int]:
    powers = range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1)
    every = max(1, math.ceil(len(powers) / 7))
    return [2**power for power in powers if (powers[-1] - power) % every == 0]


def _short(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens >= 1024 else str(tokens)


def _marker(number: int, x: float, y: float, title: str) -> str:
    """A shape of its own for each line, so that colour is not needed to tell them apart."""
    shape = f'd="M{x:.1f} {y:.1f}{_MARKERS[number]}" fill="{_LINES[number]}"'
    return f"<path {shape}><title>{escape(title)}</title></path>"


def _end_labels(labels: Sequence[tuple[int, str, tuple[float, float]]], x: float, top: float) -> str:
    """Names beside the ends of their lines, moved apart where they would touch."""
    parts, free = [], top
    for number, name, (end_x, end_y) in sorted(labels, key=lambda entry: entry[2][1]):
        words = textwrap.wrap(name, 16) or [""]
        shown = words if len(words) <= 2 else [words[0], f"{words[1][:15]}…"]
        y = max(end_y, free + 6)
        free = y + 15 * len(shown)
        track = f"M{end_x + 5:.1f} {end_y:.1f}L{x - 2:.1f} {y:.1f}"
        parts.append(f'<path d="{track}" fill="none" stroke="{_HAIR}" stroke-width="1" />')
        parts.append(_marker(number, x + 5, y, name))
        parts += [_text(x + 14, y + 4 + 14 * line, said, size=_SMALL) for line, said in enumerate(shown)]
    return "".join(parts)


def differences(terms: Sequence[ComparedTerm]) -> str:
    """How far each term of a start lies from its plan, in GiB: the plan's band as a bar, what was printed as a mark.

    Empty where no term has both.
    """
    rows = [
        (term.name, term.actual_gib - term.planned_gib, *_around(term, term.planned_gib))
        for term in terms
        if term.planned_gib is not None and term.actual_gib is not None
    ]
    if not rows:
        return ""
    reach = max(max(abs(off), abs(low), abs(high)) for _, off, low, high in rows) or 0.01
    left, right = 112.0, NARROW - 52.0
    middle, scale = (left + right) / 2, (right - left) / 2 / reach
    bottom = 30.0 + 30 * len(rows)
    parts = [
        _text(middle - 6, 13, "less than planned", size=_SMALL, anchor="end", faint=True),
        _text(middle + 6, 13, "more", size=_SMALL, faint=True),
        _rule(middle, 4, middle, bottom, colour="currentColor", thick=1.2),
    ]
    said = []
    for row, (name, off, low, high) in enumerate(rows):
        y = 24.0 + 30 * row
        is_within = low - 5e-3 <= off <= high + 5e-3
        told = f"{TERM_NAMES.get(name, name)} {off:+.2f}"
        said.append(f"{told}, {'within' if is_within else 'outside'} the plan's band of {low:+.2f} to {high:+.2f}")
        parts.append(_rect(middle + low * scale, y, max((high - low) * scale, 2.0), 18, REST, title=said[-1]))
        x = middle + off * scale
        mark = f'd="M{x:.1f} {y + 2:.1f}l6 7l-6 7l-6 -7z"'
        fill = FREE if is_within else RISEN
        parts.append(f'<path {mark} fill="{fill if is_within else "none"}" stroke="{fill}" stroke-width="2" />')
        parts.append(_text(0, y + 13.5, TERM_NAMES.get(name, name)))
        parts.append(_text(NARROW - 1, y + 13.5, f"{off:+.2f}", size=_SMALL, anchor="end"))
    return _narrow(parts, bottom, ". ".join(["Printed less planned, in GiB", *said]))


def _around(term: ComparedTerm, planned: float) -> tuple[float, float]:
    """The plan's band, from what was planned."""
    low = planned if term.low_gib is None else term.low_gib
    high = planned if term.high_gib is None else term.high_gib
    return low - planned, high - planned
