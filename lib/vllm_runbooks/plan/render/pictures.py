"""Charts of plans: budget per GPU, layouts, and printed against planned memory.

They are narrow, so that text stays readable on a phone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby

from vllm_runbooks.core.records import ComparedTerm
from vllm_runbooks.core.views import start_pictures
from vllm_runbooks.core.views.drawing import MAX_ROWS, NARROW, caption, narrow, rect, rule, tick_step
from vllm_runbooks.core.views.memory_parts import PARTS, ink, legend, part_name, segment
from vllm_runbooks.core.views.summary import concurrency_text
from vllm_runbooks.plan.records import Plan, PlannedRank, PlannedTerm

TERM_NAMES = {name: part_name(name) for name in PARTS} | {
    "adapters": "LoRA adapters",
    "draft": "draft model",
    "cuda_graphs_estimated": "CUDA graphs (est.)",
    "beside_weights": "in addition to weights",
    "beside_weights_and_graphs": "in addition to weights",
    "kv_cache_tokens": "KV cache tokens",
}
_THICK = 28
_STRIP = 8
"""Height of the strip that marks what is beyond the limit."""
_SMALL = 12
_LETTER = 6.4
"""Width of a letter of that size, on the wide side."""
_HIGHLIGHT = "#3f7fc1"
_MAX_LAYOUTS = 12


def term_name(name: str) -> str:
    """Display name of a term; its own name if it has no other."""
    return TERM_NAMES.get(name, name)


def _lines_of(pieces: Sequence[str], y: float) -> tuple[str, float]:
    """Wrap short pieces of text into lines; returns the SVG and the height of the last line."""
    lines, most = [""], int(NARROW / _LETTER)
    for piece in pieces:
        longer = f"{lines[-1]} · {piece}" if lines[-1] else piece
        if len(longer) > most and lines[-1]:
            lines.append(piece)
        else:
            lines[-1] = longer
    cut = [line if len(line) <= most else f"{line[: most - 1]}…" for line in lines]
    captions = (caption(0, y + 16 * n, line, size=_SMALL) for n, line in enumerate(cut))
    return "".join(captions), y + 16 * (len(cut) - 1)


def cards(ranks: Sequence[PlannedRank]) -> list[list[PlannedRank]]:
    """Group adjacent ranks with the same plan."""

    def alike(rank: PlannedRank) -> tuple[object, ...]:
        return rank.gpu, rank.node, rank.total_gib, rank.available_gib, rank.fits, rank.terms

    return [list(group) for _, group in groupby(ranks, alike)]


def cards_name(group: Sequence[PlannedRank]) -> str:
    """Display name of GPUs with the same plan."""
    first, last = group[0], group[-1]
    which = f"GPU {first.rank}" if first is last else f"GPUs {first.rank}-{last.rank}, each"
    return " · ".join(filter(None, [which, first.gpu, first.node]))


def stacked(rank: PlannedRank, limit: float | None) -> tuple[list[PlannedTerm], PlannedTerm | None, list[PlannedTerm]]:
    """Terms within the budget, the KV cache, and terms beyond the budget.

    Releases that do not subtract the CUDA graphs allocate them beyond the limit, so that the sum of
    the terms exceeds it.
    """
    order = list(PARTS)
    terms = sorted(
        (t for t in rank.terms if t.name in PARTS and t.name != "kv_cache"), key=lambda t: order.index(t.name)
    )
    cache = next((t for t in rank.terms if t.name == "kv_cache"), None)
    expected = sum(t.expected_gib or 0.0 for t in terms)
    is_over = (
        limit is not None and (rank.available_gib or 0.0) > 0 and (rank.available_gib or 0.0) + expected > limit + 0.01
    )
    beyond = [t for t in terms if is_over and t.name == "cuda_graphs"]
    return [t for t in terms if t not in beyond], cache, beyond


def budgets(ranks: Sequence[PlannedRank], utilization: float | None) -> str:
    """One bar per group of GPUs with the same plan: terms, memory, and the budget's limit.

    Empty if no term is known.
    """
    groups = cards(ranks)[:MAX_ROWS]
    drawn_terms = [t for group in groups for t in group[0].terms if t.expected_gib and t.name in PARTS]
    if not drawn_terms:
        return ""
    reach = max(max(group[0].total_gib or 0.0, _reach(group[0], utilization)) for group in groups)
    scale = (NARROW - 2) / reach
    names = [name for name in PARTS if any(t.name == name for t in drawn_terms)]
    lacking = ["beyond"] if any(_lacking(group[0], _limit(group[0], utilization)) for group in groups) else []
    names_of_parts, top = legend([*names, *lacking], 12)
    parts, sentences = [names_of_parts], []
    for group in groups:
        drawn, top, sentence = _budget(group, utilization, scale, top + 28)
        parts.append(drawn)
        sentences.append(sentence)
    parts.append(_scale_below(reach, scale, top + 14))
    sentences = ["Planned memory in GiB", *sentences]
    return narrow(parts, top + 36, ". ".join(sentences))


def _reach(rank: PlannedRank, utilization: float | None) -> float:
    before, cache, beyond = stacked(rank, _limit(rank, utilization))
    stack = sum(t.expected_gib or 0.0 for t in [*before, *([cache] if cache else []), *beyond])
    return max(stack, sum(t.high_gib or t.expected_gib or 0.0 for t in before))


def _limit(rank: PlannedRank, utilization: float | None) -> float | None:
    return rank.total_gib * utilization if rank.total_gib and utilization else None


def _lacking(rank: PlannedRank, limit: float | None) -> float:
    """GiB beyond the limit before the KV cache has any."""
    before, *_ = stacked(rank, limit)
    return 0.0 if limit is None else max(0.0, sum(term.expected_gib or 0.0 for term in before) - limit)


def _budget(group: Sequence[PlannedRank], utilization: float | None, scale: float, y: float) -> tuple[str, float, str]:
    rank, limit = group[0], _limit(group[0], utilization)
    before, cache, beyond = stacked(rank, limit)
    total = f"{rank.total_gib:.2f} GiB" if rank.total_gib else "memory unknown"
    # Above the end of the GPU, or further right if the name is there.
    end = max(1 + rank.total_gib * scale, 0.6 * NARROW) if rank.total_gib else NARROW - 1
    parts = [caption(0, y, cards_name(group)[:46]), caption(end, y, total, anchor="end", size=_SMALL)]
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
        parts.append(segment(term.name, x, bar, wide - 0.8 if wide > 2 else wide, _THICK, title=title))
        if term.name in ("weights", "kv_cache") and wide > _LETTER * len(f"{amount:.1f}") + 12:
            whole = f"{name} {amount:.1f}"
            inside = whole if wide > _LETTER * len(whole) + 14 else f"{amount:.1f}"
            place = f'x="{x + wide / 2:.1f}" y="{bar + _THICK / 2 + 4.5:.1f}" font-size="13" text-anchor="middle"'
            parts.append(f'<text {place} fill="{ink(term.name)}">{escape(inside)}</text>')
        else:
            figures.append(f"{'on top: ' if term in beyond else ''}{name} {amount:.2f}")
        x += wide
    if rank.total_gib:
        parts.append(_outline(1, bar - 1, rank.total_gib * scale, _THICK + 2))
    if limit is not None:
        at = 1 + min(limit * scale, NARROW - 2)
        if lacking := _lacking(rank, limit):
            title = f"beyond the limit: {lacking:.2f} GiB"
            parts.append(segment("beyond", at, bar + _THICK - _STRIP, lacking * scale, _STRIP, title=title))
        parts.append(rule(at, bar - 5, at, bar + _THICK + 5, colour="currentColor", thick=2))
        figures.append(f"limit {limit:.2f} (utilization {utilization:g})")
    low, high = _whisker(before)
    below = bar + _THICK + 18
    if low is not None and high is not None and high > low:
        parts.append(_ends(1 + low * scale, 1 + high * scale, bar + _THICK + 8))
        figures.append(f"before the KV cache {low:.1f} to {high:.1f}")
        below += 8
    if lacking := _lacking(rank, limit):
        figures.append(f"{lacking:.2f} too much")
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
    lows = [t.low_gib for t in terms if t.low_gib is not None]
    highs = [t.high_gib for t in terms if t.high_gib is not None]
    if len(lows) < len(terms) or len(highs) < len(terms):
        return None, None
    return sum(lows), sum(highs)


def _ends(x1: float, x2: float, y: float) -> str:
    middle, half = (x1 + x2) / 2, max((x2 - x1) / 2, 2.5)
    x1, x2 = max(middle - half, 0.0), min(middle + half, float(NARROW))
    track = f"M{x1:.1f} {y - 4:.1f}v8M{x1:.1f} {y:.1f}H{x2:.1f}M{x2:.1f} {y - 4:.1f}v8"
    return f'<path d="{track}" fill="none" stroke="currentColor" stroke-width="1.6" />'


def _outline(x: float, y: float, wide: float, high: float) -> str:
    box = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}"'
    return f'<rect {box} fill="none" stroke="currentColor" stroke-width="1.2" opacity="0.75" />'


def _scale_below(reach: float, scale: float, y: float) -> str:
    step, parts = tick_step(reach, 5), [rule(1, y, NARROW - 1, y)]
    for number in range(int(reach / step + 1e-9) + 1):
        x = 1 + number * step * scale
        anchor = "start" if number == 0 else "end" if x > NARROW - 12 else "middle"
        label = f"{number * step:g}" + (" GiB" if number == 0 else "")
        parts += [
            rule(x, y, x, y + 4),
            caption(min(x, NARROW - 0.1), y + 17, label, size=11, anchor=anchor, faint=True),
        ]
    return "".join(parts)


def layout_name(plan: Plan) -> str:
    """Display name of a layout."""
    layout = plan.layout
    if layout is None:
        return "as requested"
    sizes = (("DP", layout.dp), ("TP", layout.tp), ("PP", layout.pp))
    name = " · ".join(f"{kind} {size}" for kind, size in sizes if size > 1) or "1 GPU"
    return f"{layout.replicas} x {name}" if layout.replicas > 1 else name


def is_copied(plan: Plan) -> bool:
    """Whether a layout runs several copies of the model, so that its figures add up."""
    return plan.layout is not None and plan.layout.replicas * plan.layout.dp > 1


def requests_at_once(plan: Plan) -> float | None:
    """Concurrent requests of the full context, over all replicas."""
    return plan.total_concurrency if is_copied(plan) else plan.kv_cache.max_concurrency


_FIGURE = NARROW / 3 - 78
"""Pixels for the figure after a bar."""


def layouts(plans: Sequence[Plan]) -> str:
    """Valid layouts below each other: KV cache per GPU, longest context and concurrency, each on its own scale.

    The first one, which is recommended, is solid; a column with one value for all is left out. Empty if none fits.
    """
    rows = [plan for plan in plans if plan.legal is not False][:_MAX_LAYOUTS]
    fitting = [plan for plan in rows if plan.fits is not False]
    if not fitting:
        return ""
    every: list[tuple[str, Callable[[Plan], float | None], Callable[[float], str]]] = [
        ("KV cache, GiB per GPU", lambda plan: plan.kv_cache.gib, "{:,.1f}".format),
        ("longest context", lambda plan: plan.kv_cache.longest_context, "{:,.0f}".format),
        ("concurrent requests", requests_at_once, concurrency_text),
    ]
    columns = [column for column in every if len({column[1](plan) for plan in fitting}) > 1] or every
    pitch, first = NARROW / len(columns), 34
    bar = pitch - _FIGURE
    parts, sentences = [], []
    for number, (head, _, _) in enumerate(columns):
        parts.append(caption(number * pitch, 12, head, size=_SMALL, faint=True))
    for row, plan in enumerate(rows):
        y = first + row * 46
        name = f"{layout_name(plan)}, recommended" if row == 0 and plan.fits is not False else layout_name(plan)
        parts.append(caption(0, y, name))
        if plan.fits is False:
            parts.append(caption(0, y + 20, "does not fit", size=_SMALL, faint=True))
            sentences.append(f"{name}: does not fit")
            continue
        figures = []
        for number, (head, value_of, text) in enumerate(columns):
            value, x = value_of(plan), number * pitch
            figure = "unknown" if value is None else text(value)
            figures.append(f"{head} {figure}")
            most = max((v for v in map(value_of, fitting) if v is not None), default=0)
            wide = bar * value / most if value and most else 0.0
            strength = "" if row == 0 else ' opacity="0.5"'
            place = f'x="{x:.1f}" y="{y + 7:.1f}" width="{wide:.1f}" height="16"'
            parts.append(f'<rect {place} fill="{_HIGHLIGHT}"{strength}><title>{escape(figures[-1])}</title></rect>')
            parts.append(caption(x + wide + (5 if wide else 0), y + 20, figure, size=_SMALL))
        sentences.append(f"{name}: {', '.join(figures)}")
    return narrow(parts, first + len(rows) * 46 - 14, ". ".join(["Layouts side by side", *sentences]))


def differences(terms: Sequence[ComparedTerm]) -> str:
    """Planned band of each term as a bar and the printed value as a mark, by difference in GiB.

    Empty if no term has both.
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
        caption(middle - 6, 13, "less than planned", size=_SMALL, anchor="end", faint=True),
        caption(middle + 6, 13, "more", size=_SMALL, faint=True),
        rule(middle, 4, middle, bottom, colour="currentColor", thick=1.2),
    ]
    sentences = []
    for row, (name, off, low, high) in enumerate(rows):
        y = 24.0 + 30 * row
        is_within = low - 5e-3 <= off <= high + 5e-3
        difference = f"{term_name(name)} {off:+.2f}"
        sentences.append(
            f"{difference}, {'within' if is_within else 'outside'} the plan's band of {low:+.2f} to {high:+.2f}"
        )
        parts.append(
            rect(middle + low * scale, y, max((high - low) * scale, 2.0), 18, start_pictures.REST, title=sentences[-1])
        )
        x = middle + off * scale
        mark = f'd="M{x:.1f} {y + 2:.1f}l6 7l-6 7l-6 -7z"'
        fill = start_pictures.FREE if is_within else start_pictures.RISEN
        parts.append(f'<path {mark} fill="{fill if is_within else "none"}" stroke="{fill}" stroke-width="2" />')
        parts.append(caption(0, y + 13.5, term_name(name)))
        parts.append(caption(NARROW - 1, y + 13.5, f"{off:+.2f}", size=_SMALL, anchor="end"))
    return narrow(parts, bottom, ". ".join(["Printed less planned, in GiB", *sentences]))


def _around(term: ComparedTerm, planned: float) -> tuple[float, float]:
    low = planned if term.low_gib is None else term.low_gib
    high = planned if term.high_gib is None else term.high_gib
    return low - planned, high - planned
