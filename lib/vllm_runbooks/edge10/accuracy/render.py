"""Float against quantised as text, JSON or a notebook's `Shown`: the verdict, and each difference with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from vllm_runbooks.core.display import Shown, visible
from vllm_runbooks.core.views.drawing import NARROW, caption, narrow, rule
from vllm_runbooks.core.views.elements import (
    AMBER,
    GREEN,
    RED,
    Headline,
    badge,
    beyond,
    cut,
    heading,
    html_table,
    prose,
    remark,
    tag,
    verdict,
)
from vllm_runbooks.core.views.styled import (
    BLANK,
    Block,
    Loose,
    Table,
    Tone,
    Words,
    bulleted,
    headed,
    parted,
    plain,
    styled,
)
from vllm_runbooks.edge10.accuracy.records import Accuracy, AccuracyInterval, JudgedAccuracy, JudgedScore

_MOST = 24
"""Rows that a table and a picture have; the rest is in the JSON document."""
_MAX_NAME = 44


class _Standing(NamedTuple):
    """How a verdict looks."""

    ground: str
    tone: Tone
    stroke: str
    """In a picture, on a light page and on a dark one."""


_STANDINGS = {
    Accuracy.LOST: _Standing(RED, Tone.BAD, "#d05a4e"),
    Accuracy.KEPT: _Standing(GREEN, Tone.GOOD, "#2f9c8f"),
    Accuracy.UNKNOWN: _Standing(AMBER, Tone.WARN, "#8a94a0"),
}
_HEAD = ("data set", "questions", "float", "quantised", "difference", "interval", "verdict")
_NUMERIC = frozenset({1, 2, 3, 4})
_NARROW_HEAD = ("data set", "difference", "verdict")
"""Of a page, where a telephone has no room for more; the rest stands below each row."""
_PARAGRAPH = "margin:4px 0;max-width:80ch"


def view(found: JudgedAccuracy) -> list[Block]:
    """The comparison, for a terminal."""
    standing = _STANDINGS[found.verdict]
    first: list[Block] = [Loose(styled(found.verdict.value, standing.tone) + f": {visible(found.why)}")]
    first += [Loose(line) for line in _about(found)]
    rows, left_out = _shown(found.scores)
    cells = [(*_cells(row), styled(row.verdict.value, _STANDINGS[row.verdict].tone)) for row in rows]
    parts: list[list[Block]] = [first, [Table([styled(name, Tone.FAINT) for name in _HEAD], cells, _NUMERIC)]]
    if left_out:
        parts[-1].append(Loose(styled(left_out, Tone.FAINT)))
    told = [visible(said) for said in _told(rows)]
    if told:
        parts.append(headed("WHAT IT RESTS ON", [bulleted(said) for said in told]))
    if found.doubts:
        parts.append(headed("DOUBTS", [bulleted(visible(f"{each.text} {each.do}")) for each in found.doubts]))
    if found.not_compared:
        parts.append(headed("NOT COMPARED", [bulleted(visible(said)) for said in _not_compared(found)]))
    return [*parted(parts), BLANK]


def shown(found: JudgedAccuracy) -> Shown:
    """The comparison for a notebook: the verdict, a picture of the differences, and the table."""
    standing = _STANDINGS[found.verdict]
    rows, left_out = _shown(found.scores)
    html = verdict(Headline(found.verdict.value, visible(found.why)), standing.ground)
    html += "".join(map(remark, _about(found)))
    html += picture(found)
    cells = [
        [
            tag("div", escape(visible(_name(row))), "overflow-wrap:anywhere"),
            escape(_difference(row)),
            badge(row.verdict.value, _STANDINGS[row.verdict].ground),
        ]
        for row in rows
    ]
    html += html_table(_NARROW_HEAD, cells, numeric=(1,), below=[visible(_below(row)) for row in rows], widest="none")
    html += remark(left_out) if left_out else ""
    for name, told in (
        ("What it rests on", list(_told(rows))),
        ("Doubts", [f"{each.text} {each.do}" for each in found.doubts]),
        ("Not compared", _not_compared(found)),
    ):
        if told:
            html += heading(name) + "".join(tag("div", prose(visible(said)), _PARAGRAPH) for said in told)
    return Shown(plain(view(found)), html)


def picture(found: JudgedAccuracy) -> str:
    """Each difference with its interval, beside no difference and the threshold; empty where none is known."""
    rows = [row for row in _shown(found.scores)[0] if row.difference is not None and row.interval is not None]
    if not rows:
        return ""
    ends = [end for row in rows for end in _ends(row)]
    reach = max(*map(abs, ends), found.threshold * 1.6, 0.005)
    left, right = 12.0, NARROW - 12.0
    middle, scale = (left + right) / 2, (right - left) / 2 / reach
    bottom = 34.0 + 46 * len(rows)
    limit = middle - found.threshold * scale
    parts = [
        caption(middle - 6, 13, "quantised is worse", size=12, anchor="end", faint=True),
        caption(middle + 6, 13, "better", size=12, faint=True),
        rule(middle, 20, middle, bottom, colour="currentColor", thick=1.2),
        _dashed(limit, 20, bottom),
        caption(max(limit, 60), bottom + 14, f"threshold -{found.threshold:g}", size=11, anchor="middle", faint=True),
    ]
    for number, row in enumerate(rows):
        parts += _drawn(row, 38.0 + 46 * number, middle, scale)
    said = [
        f"{_name(row)}: {_difference(row)}, {_interval(row.widest or row.interval)}, {row.verdict.value}"
        for row in rows
    ]
    return narrow(parts, bottom + 20, ". ".join(["Quantised less float, with its interval", *map(visible, said)]))


def _drawn(row: JudgedScore, y: float, middle: float, scale: float) -> Iterator[str]:
    """A row of the picture: its name and difference, and below them the interval with a mark at the difference."""
    stroke = _STANDINGS[row.verdict].stroke
    low, high = (middle + end * scale for end in _ends(row))
    at = middle + _gain(row) * scale
    yield caption(0, y, cut(visible(_name(row)), 34), size=12)
    yield caption(NARROW - 1, y, f"{_difference(row)} {row.verdict.value}", size=12, anchor="end")
    yield rule(low, y + 15, high, y + 15, colour=stroke, thick=3)
    for end in (low, high):
        yield rule(end, y + 9, end, y + 21, colour=stroke, thick=2)
    yield f'<path d="M{at:.1f} {y + 8:.1f}l6 7l-6 7l-6 -7z" fill="{stroke}" />'


def _dashed(x: float, top: float, bottom: float) -> str:
    """A line of short strokes; attributes for dashes are none that every page lets through."""
    steps = range(int(top), int(bottom), 8)
    return "".join(rule(x, y, x, min(y + 4, bottom), colour="#c9862b", thick=1.6) for y in steps)


def _ends(row: JudgedScore) -> tuple[float, float]:
    """The ends of a row's interval, the worse first and below 0."""
    within = row.widest or row.interval
    low, high = (0.0, 0.0) if within is None else (within.low, within.high)
    return (low, high) if row.higher_is_better is not False else (-high, -low)


def _gain(row: JudgedScore) -> float:
    """The difference, a loss below 0 whatever the metric."""
    difference = row.difference or 0.0
    return difference if row.higher_is_better is not False else -difference


def _about(found: JudgedAccuracy) -> Iterator[str]:
    for name, model, kind in (
        ("float", found.float_model, found.float_kind),
        ("quantised", found.quantised_model, found.quantised_kind),
    ):
        yield visible(f"{name}: {cut(model, 80) or 'a model that is not named'} ({kind})")
    share = f"{found.confidence * 100:.4g} %"
    yield f"a loss of more than {found.threshold:g} is too much; intervals hold with {share}, those of subsets together"


def _shown(scores: Sequence[JudgedScore]) -> tuple[list[JudgedScore], str]:
    """Rows that are shown, and what is said of the rest: first what decides, then what was lost."""
    if len(scores) <= _MOST:
        return list(scores), ""
    ranked = sorted(range(len(scores)), key=lambda at: (not scores[at].is_deciding, _rank(scores[at]), at))
    kept = sorted(ranked[:_MOST])
    lost = sum(scores[at].verdict is Accuracy.LOST for at in ranked[_MOST:])
    among = f"{lost:,} of them lost" if lost else "none of which is lost for certain"
    return [scores[at] for at in kept], f"{len(scores) - _MOST:,} more rows, {among}: see --format json"


def _rank(row: JudgedScore) -> float:
    """The sooner shown, the more was lost."""
    if row.verdict is Accuracy.LOST:
        return -2.0
    return 1.0 if row.difference is None else _gain(row)


def _cells(row: JudgedScore) -> tuple[Words, ...]:
    return (
        visible(_name(row)),
        "unknown" if row.questions is None else f"{row.questions:,}",
        _score(row.float_score),
        _score(row.quantised_score),
        _difference(row),
        _interval(row.interval),
    )


def _questions(number: int) -> str:
    return "1 question" if number == 1 else f"{number:,} questions"


def _below(row: JudgedScore) -> str:
    questions = "number of questions unknown" if row.questions is None else _questions(row.questions)
    scores = f"float {_score(row.float_score)}, quantised {_score(row.quantised_score)}"
    return f"{scores}; {questions}; interval {_interval(row.interval)}"


def _difference(row: JudgedScore) -> str:
    return "unknown" if row.difference is None else f"{row.difference:+.4f}"


def _name(row: JudgedScore) -> str:
    parts = [row.dataset or "all data sets", row.subset or "", "" if row.subset else row.metric]
    return cut(", ".join(part for part in parts if part), _MAX_NAME)


def _score(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def _interval(within: AccuracyInterval | None) -> str:
    return "unknown" if within is None else f"{within.low:+.4f} to {within.high:+.4f}"


def _told(rows: Sequence[JudgedScore]) -> Iterator[str]:
    """What the verdict rests on: what decides, all data sets together, and subsets that were lost."""
    for row in rows:
        is_lost_subset = row.subset is not None and row.verdict is Accuracy.LOST
        if not (row.is_deciding or row.dataset is None or is_lost_subset):
            continue
        said = f"{_name(row)}: {row.why}"
        if row.counts is not None:
            counts, chance = row.counts, row.p_value if row.p_value is not None else 1.0
            value = f"= {chance:.2g}" if chance >= 1e-6 else "< 0.000001"
            said += (
                f"; of {_questions(row.questions or 0)} {counts.float_alone:,} only the float model answered rightly, "
                f"{counts.quantised_alone:,} only the quantised one (McNemar's exact test: p {value})"
            )
        if row.widest is not None and row.interval is not None and _moved(row.widest, row.interval):
            said += f"; with rounding and missing questions {_interval(row.widest)}"
        yield f"{said}{f' [{row.method}]' if row.method else ''}"


def _moved(one: AccuracyInterval, other: AccuracyInterval) -> bool:
    return max(abs(one.low - other.low), abs(one.high - other.high)) > 5e-5


def _not_compared(found: JudgedAccuracy) -> list[str]:
    return [*found.not_compared[:_MOST], *beyond(found.not_compared, _MOST)]
