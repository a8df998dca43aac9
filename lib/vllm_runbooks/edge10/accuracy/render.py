"""A comparison of float and quantised model as text and HTML: the verdict, and each difference with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.views import elements
from vllm_runbooks.core.views.elements import beyond, cut, tag
from vllm_runbooks.core.views.styled import (
    BLANK,
    SentenceLines,
    Table,
    TextBlock,
    Tone,
    Words,
    bulleted,
    headed,
    parted,
    plain,
    styled,
)
from vllm_runbooks.core.views.summary import count_of
from vllm_runbooks.edge10.accuracy.records import Accuracy, AccuracyComparison, AccuracyInterval, ScoreComparison

_MAX_ROWS = 24
"""Rows of the table; the JSON document has all."""
_MAX_NAME = 44


class _VerdictStyle(NamedTuple):
    ground: str
    tone: Tone


_STYLES = {
    Accuracy.LOST: _VerdictStyle(elements.RED, Tone.BAD),
    Accuracy.KEPT: _VerdictStyle(elements.GREEN, Tone.GOOD),
    Accuracy.UNKNOWN: _VerdictStyle(elements.AMBER, Tone.WARN),
}
_HEAD = ("data set", "questions", "float", "quantised", "difference", "interval", "verdict")
_NARROW_HEAD = ("data set", "difference", "verdict")
"""On a page; the rest is below each row."""


def view(comparison: AccuracyComparison) -> list[TextBlock]:
    """The comparison for a terminal."""
    lead = styled(comparison.verdict.value, _STYLES[comparison.verdict].tone) + f": {visible(comparison.reason)}"
    rows, omitted = _select(comparison.scores)
    cells = [(*_cells(row), styled(row.verdict.value, _STYLES[row.verdict].tone)) for row in rows]
    table: list[TextBlock] = [Table([styled(name, Tone.FAINT) for name in _HEAD], cells, frozenset({1, 2, 3, 4}))]
    table += [SentenceLines(styled(omitted, Tone.FAINT))] if omitted else []
    sections: list[list[TextBlock]] = [[SentenceLines(lead), *map(SentenceLines, _about(comparison))], table]
    for name, texts in _notes(comparison, rows):
        sections.append(headed(name.upper(), [bulleted(visible(text)) for text in texts]))
    return [*parted(sections), BLANK]


def shown(comparison: AccuracyComparison) -> RenderedView:
    """The comparison for a notebook."""
    headline = elements.Headline(comparison.verdict.value, visible(comparison.reason))
    rows, omitted = _select(comparison.scores)
    cells = [
        [
            tag("div", escape(visible(_name(row))), "overflow-wrap:anywhere"),
            escape(_difference(row)),
            elements.badge(row.verdict.value, _STYLES[row.verdict].ground),
        ]
        for row in rows
    ]
    below = [visible(_details(row)) for row in rows]
    html = [
        elements.verdict(headline, _STYLES[comparison.verdict].ground),
        *map(elements.remark, _about(comparison)),
        elements.html_table(_NARROW_HEAD, cells, numeric=(1,), below=below, widest="none"),
        elements.remark(omitted) if omitted else "",
    ]
    for name, texts in _notes(comparison, rows):
        html.append(elements.heading(name))
        html += [tag("div", elements.prose(visible(text)), "margin:4px 0;max-width:80ch") for text in texts]
    return RenderedView(plain(view(comparison)), "".join(html))


def _notes(comparison: AccuracyComparison, rows: Sequence[ScoreComparison]) -> Iterator[tuple[str, list[str]]]:
    doubts = [f"{doubt.text} {doubt.do}" for doubt in comparison.doubts]
    not_compared = [*comparison.not_compared[:_MAX_ROWS], *beyond(comparison.not_compared, _MAX_ROWS)]
    for name, texts in (("Basis", list(_grounds(rows))), ("Doubts", doubts), ("Not compared", not_compared)):
        if texts:
            yield name, texts


def _about(comparison: AccuracyComparison) -> Iterator[str]:
    for name, model, kind in (
        ("float", comparison.float_model, comparison.float_kind),
        ("quantised", comparison.quantised_model, comparison.quantised_kind),
    ):
        yield visible(f"{name}: {cut(model, 80) or 'unnamed model'} ({kind})")
    limit, share = f"{comparison.threshold:g}", f"{comparison.confidence * 100:.4g}%"
    yield f"acceptable loss: {limit}; intervals have {share} confidence, for all subsets together"


def _select(scores: Sequence[ScoreComparison]) -> tuple[list[ScoreComparison], str]:
    """Rows to show, first the decisive and the lost ones, and a text on the others."""
    ranked = sorted(scores, key=lambda row: (not row.is_deciding, row.verdict is not Accuracy.LOST))
    if len(scores) <= _MAX_ROWS:
        return list(scores), ""
    lost = sum(row.verdict is Accuracy.LOST for row in ranked[_MAX_ROWS:])
    among = f"{lost:,} of them with a loss" if lost else "none with a certain loss"
    return ranked[:_MAX_ROWS], f"{len(scores) - _MAX_ROWS:,} more rows, {among}: see --format json"


def _cells(row: ScoreComparison) -> tuple[Words, ...]:
    return (
        visible(_name(row)),
        "unknown" if row.questions is None else f"{row.questions:,}",
        _score(row.float_score),
        _score(row.quantised_score),
        _difference(row),
        _interval(row.interval),
    )


def _details(row: ScoreComparison) -> str:
    questions = "number of questions unknown" if row.questions is None else count_of(row.questions, "question")
    scores = f"float {_score(row.float_score)}, quantised {_score(row.quantised_score)}"
    return f"{scores}; {questions}; interval {_interval(row.interval)}"


def _difference(row: ScoreComparison) -> str:
    return "unknown" if row.difference is None else f"{row.difference:+.4f}"


def _name(row: ScoreComparison) -> str:
    parts = [row.dataset or "", row.subset or row.metric]
    return cut(", ".join(filter(None, parts)), _MAX_NAME)


def _score(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def _interval(interval: AccuracyInterval | None) -> str:
    return "unknown" if interval is None else f"{interval.low:+.4f} to {interval.high:+.4f}"


def _grounds(rows: Sequence[ScoreComparison]) -> Iterator[str]:
    """Sentences on the rows that decide, and on subsets that were lost."""
    for row in rows:
        if not row.is_deciding and (row.subset is None or row.verdict is not Accuracy.LOST):
            continue
        text = f"{_name(row)}: {row.reason}"
        if row.counts is not None:
            counts = row.counts
            text += (
                f"; of {count_of(row.questions or 0, 'question')} {counts.float_alone:,} were answered "
                "correctly only by the float model, "
                f"{counts.quantised_alone:,} only by the quantised one"
            )
        interval, widest = row.interval, row.widest
        if widest and interval and max(abs(widest.low - interval.low), abs(widest.high - interval.high)) > 5e-5:
            text += f"; with rounding and missing questions {_interval(widest)}"
        yield f"{text}{f' [{row.method}]' if row.method else ''}"
