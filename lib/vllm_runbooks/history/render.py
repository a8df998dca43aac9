"""The history as text and charts: entries, trends, differences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.core.views import text_width
from vllm_runbooks.core.views.drawing import LINES, NARROW, caption, narrow, rule, tick_step
from vllm_runbooks.core.views.elements import BLUE, badge, cut, heading, html_table, remark, tag
from vllm_runbooks.core.views.styled import GROUNDS, VERDICTS, Styled, Table, TextBlock, Tone, Words, plain, styled
from vllm_runbooks.core.views.summary import WIDEST, Step, Summary, count_of, sentence_of
from vllm_runbooks.history.records import Differing, EntryDifferences, HistoryEntry, Trend, TrendPoint

_UNKNOWN = "unknown"
_DEEPEST = 8


_LEAST = 20
"""Least columns of a subject."""
_LISTED = ("id", "started (UTC)", "kind", "verdict", "took", "subject")


def listed(entries: Sequence[HistoryEntry]) -> str:
    """`listed_view` without colors."""
    return plain(listed_view(entries))


def listed_view(entries: Sequence[HistoryEntry]) -> list[TextBlock]:
    """A line for each entry, with the reason unless it passed, as wide as a summary."""
    cells = [_cells(item) for item in entries]
    columns = zip(_LISTED, *cells, strict=True)
    room = WIDEST - sum(max(map(text_width.width, column)) + 2 for column in list(columns)[:-1])
    rows: list[Sequence[Words]] = [
        [*row[:3], _styled_verdict(item), row[4], text_width.cut(visible(row[5]), max(room, _LEAST))]
        for item, row in zip(entries, cells, strict=True)
    ]
    return [Table(_head(*_LISTED), rows)]


def summary_of(entries: Sequence[HistoryEntry]) -> Summary:
    """Number of runs and of failed ones; the next step is the newest failed run."""
    bad = [item for item in entries if _is_bad(item.verdict)]
    if not bad:
        return Summary("OK", Tone.GOOD, (_runs(item.verdict for item in entries),))
    text = f"{len(bad):,} of {count_of(len(entries), 'run')} failed"
    if any(item.verdict is not Verdict.FAIL for item in bad):
        text += f" ({_counts(item.verdict for item in bad)})"
    return Summary("FAILED", Tone.BAD, (text,), steps=(Step("Next", "", f"vllm-runbooks show {bad[0].id}"),))


def _is_bad(verdict: Verdict | None) -> bool:
    return verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.INTERRUPTED)


def _runs(verdicts: Iterable[Verdict | None]) -> str:
    known = list(verdicts)
    return f"{count_of(len(known), 'run')}: {_counts(known)}"


def _counts(verdicts: Iterable[Verdict | None]) -> str:
    return ", ".join(f"{count} {word}" for word, count in Counter(map(_verdict, verdicts)).items())


def table(entries: Sequence[HistoryEntry]) -> RenderedView:
    """`listed` for a notebook."""
    if not entries:
        text = "No matching entries in the history."
        return RenderedView.nothing(text)
    rows = []
    for item in entries:
        id_, began, kind, verdict, took, about = map(escape, _cells(item))
        word = badge(verdict, GROUNDS[VERDICTS[item.verdict]] if item.verdict else BLUE)
        rows.append([word, f"<b>{about}</b><br>{began} · {kind}{f' · {took}' if took else ''} · {tag('code', id_)}"])
    return RenderedView(listed(entries), html_table(("verdict", "entry (UTC)"), rows))


def _cells(item: HistoryEntry) -> tuple[str, ...]:
    return item.id, item.began, item.kind, _verdict(item.verdict), _seconds(item.seconds), cut(_about(item), 100)


def _head(*names: str) -> list[Styled]:
    return [styled(name, Tone.FAINT) for name in names]


def _styled_verdict(item: HistoryEntry | TrendPoint) -> Styled:
    return styled(_verdict(item.verdict), None if item.verdict is None else VERDICTS[item.verdict])


def _about(entry: HistoryEntry) -> str:
    is_well = entry.verdict in (None, Verdict.PASS, Verdict.SKIPPED)
    return entry.subject if is_well or not entry.reason else f"{entry.subject}: {entry.reason}"


def _verdict(verdict: Verdict | None) -> str:
    return "running" if verdict is None else verdict.value


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f} s"


def entry(whole: HistoryEntry, parts: Sequence[HistoryEntry] = ()) -> str:
    """An entry, and a line for each of its parts."""
    rows = [
        ("id", whole.id),
        ("started", f"{whole.began} (UTC)"),
        ("took", _seconds(whole.seconds) or _UNKNOWN),
        ("verdict", f"{_verdict(whole.verdict)}{f': {whole.reason}' if whole.reason else ''}"),
        *([("part of", whole.part_of)] if whole.part_of else []),
        *([("job", whole.job)] if whole.job else []),
        ("host", whole.host or _UNKNOWN),
        ("vLLM", whole.vllm or _UNKNOWN),
    ]
    lines = [whole.says[:1].upper() + whole.says[1:], "", *(f"{name + ':':<9}{value}" for name, value in rows)]
    for title, values in (("Inputs", whole.inputs), ("Results", whole.results), ("Environment", whole.environment)):
        if values:
            lines += ["", title, *_nested(values)]
    if parts:
        lines += ["", "Runs", *listed(list(reversed(parts))).splitlines()]
    return visible("\n".join(lines) + "\n")


def _nested(values: Mapping[str, Any], depth: int = 1) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value and depth < _DEEPEST:
            yield f"{'  ' * depth}{_one_line(name)}:"
            yield from _nested(value, depth + 1)
        else:
            yield f"{'  ' * depth}{_one_line(name)}: {_value(value)}"


def trend(subject_trend: Trend, facts: Sequence[str]) -> str:
    """`trend_view` without colors."""
    return plain(trend_view(subject_trend, facts))


def trend_view(subject_trend: Trend, facts: Sequence[str]) -> list[TextBlock]:
    """A line for each entry with the requested facts."""
    rows: list[tuple[Words, ...]] = [
        (
            point.id,
            point.began,
            _styled_verdict(point),
            _seconds(point.seconds),
            *(_number(point.facts.get(name)) for name in facts),
        )
        for point in subject_trend.points
    ]
    return [Table(_head("id", "started (UTC)", "verdict", "took", *facts), rows)]


def summary_of_trend(subject_trend: Trend, facts: Sequence[str], others: Sequence[str] = ()) -> Summary:
    """The last verdict, and the first and last value of each requested fact; `others` are facts that moved as well."""
    points = subject_trend.points
    last = points[-1]
    moved = []
    for name in facts:
        values = [value for point in points if (value := point.facts.get(name)) is not None]
        if values and values[0] != values[-1]:
            moved.append(f"{name} {_number(values[0])} to {_number(values[-1])}")
    tone = VERDICTS[last.verdict] if last.verdict is not None else Tone.HINT
    counts = _runs(point.verdict for point in points)
    steps = (Step("Note", f"For other changed numbers, add --fact {', --fact '.join(others)}."),) if others else ()
    return Summary(_verdict(last.verdict).upper(), tone, (subject_trend.subject, counts, *moved), steps=steps)


def summary_of_difference(comparison: EntryDifferences) -> Summary:
    """Whether the results differ, and the number of other differences."""
    significant = sum(differing.is_significant for differing in comparison.results)
    parts = [
        _differing(len(values), noun)
        for noun, values in (("input", comparison.inputs), ("environment value", comparison.environment))
    ]
    if not significant:
        return Summary("SAME", Tone.GOOD, ("the results are the same except for times", *parts))
    return Summary("DIFFERS", Tone.WARN, (_differing(significant, "result"), *parts))


def _differing(number: int, noun: str) -> str:
    return f"{count_of(number, noun) if number else f'no {noun}s'} differ{'s' * (number == 1)}"


_MEMORY = "_gib"
_MAX_POINTS, _MAX_CURVES = 400, len(LINES)
_NAMES = 96
"""Width of the names next to the curves."""


def curves(subject_trend: Trend) -> RenderedView:
    """Durations and memory by entry, as charts with the figures below."""
    points = subject_trend.points[-_MAX_POINTS:]
    names = [name for name in dict.fromkeys(n for p in points for n in p.facts) if name.endswith(_MEMORY)]
    took = {"took": [point.seconds for point in points]}
    if any(point.facts.get("ready_s") is not None for point in points):
        took["ready after"] = [point.facts.get("ready_s") for point in points]
    memory = {name.removesuffix(_MEMORY): [p.facts.get(name) for p in points] for name in names[:_MAX_CURVES]}
    began = [point.began for point in points]
    pictures = [_curves(took, began, "s", "Duration"), _curves(memory, began, "GiB", "Memory")]
    moved = list(dict.fromkeys(n for p in points for n in p.facts))[:4]
    return RenderedView(trend(subject_trend, moved), "".join(pictures) or tag("p", "No numeric results."))


def _curves(tracks: Mapping[str, Sequence[float | None]], began: Sequence[str], unit: str, title: str) -> str:
    """A line with points for each track, over the entries in their order; empty without numbers."""
    known_tracks = {name: values for name, values in tracks.items() if any(value is not None for value in values)}
    if not known_tracks:
        return ""
    top_value = max(value for values in known_tracks.values() for value in values if value is not None) or 1.0
    left, right, height, top = 44.0, float(NARROW - _NAMES), 130.0, 34.0
    bottom, count = top + height, len(began)
    parts = [caption(0, 14, f"{title}, {unit}", size=12)]
    step = tick_step(top_value, 4)
    for number in range(int(top_value / step + 1e-9) + 1):
        y = bottom - height * number * step / top_value
        parts += [rule(left, y, right, y), caption(left - 7, y + 4, f"{number * step:g}", size=11, anchor="end")]
    for number, (colour, (name, values)) in enumerate(zip(LINES, known_tracks.items(), strict=False)):
        at = [
            (left + (right - left) * (place + 0.5) / count, bottom - height * value / top_value, place, value)
            for place, value in enumerate(values)
            if value is not None
        ]
        track = " ".join(f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y, _, _) in enumerate(at))
        parts.append(f'<path d="{track}" fill="none" stroke="{colour}" stroke-width="{2 + number % 2}" />')
        for x, y, place, value in at:
            label = f"{name} {began[place]}: {value:,.4g} {unit}"
            shape = f'<path d="M{x - 3.5:.1f} {y:.1f}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0" fill="{colour}">'
            parts.append(f"{shape}<title>{escape(label)}</title></path>")
    parts += _names_at_ends(known_tracks, right, bottom, height / top_value)
    parts.append(caption(left, bottom + 18, _day(began[0]), size=11, faint=True))
    if count > 1:
        parts.append(caption(right, bottom + 18, _day(began[-1]), size=11, anchor="end", faint=True))
    return narrow(parts, bottom + 26, f"{title}, in {unit}")


def _day(began: str) -> str:
    """A timestamp to the minute, shortened."""
    return began[:16].replace("T", " ")


def _names_at_ends(tracks: Mapping[str, Sequence[float | None]], x: float, bottom: float, scale: float) -> list[str]:
    """Each track's name next to its last point, without overlaps, so that colors are not needed."""
    ends = {name: next(v for v in reversed(values) if v is not None) for name, values in tracks.items()}
    labels, free = [], bottom + 99.0
    for name, value in sorted(ends.items(), key=lambda end: end[1]):
        free = min(bottom - value * scale + 4, free - 13)
        labels.append(caption(x + 4, free, cut(name, 14), size=11))
    return labels


_NONE = "no differences"


def _sections(comparison: EntryDifferences) -> tuple[tuple[str, tuple[Differing, ...]], ...]:
    return ("Inputs", comparison.inputs), ("Environment", comparison.environment), ("Results", comparison.results)


def difference(comparison: EntryDifferences) -> RenderedView:
    """`compared` for a notebook."""
    parts = [tag("p", f"<b>a</b> {escape(comparison.a)}<br><b>b</b> {escape(comparison.b)}")]
    for title, some in _sections(comparison):
        rows = [[tag("code", escape(d.name)), escape(_value(d.a)), escape(_value(d.b)), escape(_by(d))] for d in some]
        body = html_table(("", "a", "b", "by"), rows, below=[d.note for d in some]) if rows else remark(_NONE)
        parts += [heading(title), body]
    parts += [remark(f"Note: {sentence_of(note)}") for note in comparison.notes]
    return RenderedView(compared(comparison), "".join(parts))


def _by(differing: Differing) -> str:
    if differing.change is None:
        return ""
    return f"{differing.change:+,.4g}" + ("" if differing.percent is None else f", {differing.percent:+.1f}%")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4f}".rstrip("0").rstrip(".")


def compared(comparison: EntryDifferences) -> str:
    """Different inputs, then environments, then results."""
    lines = [f"a: {comparison.a}", f"b: {comparison.b}"]
    for title, some in _sections(comparison):
        lines += ["", title, *(line for differing in some for line in _described(differing))]
        if not some:
            lines.append(f"  {_NONE}")
    lines += ["", *(f"Note: {sentence_of(note)}" for note in comparison.notes)] if comparison.notes else []
    return visible("\n".join(_one_line(line) if line else line for line in lines) + "\n")


def _described(differing: Differing) -> Iterator[str]:
    place, separator, finding = differing.name.rpartition("findings.")
    if separator:
        yield f"  {place}{'new' if differing.a is None else 'resolved'} finding: {finding}"
        return
    by = f" ({_by(differing)})" if differing.change is not None else ""
    yield f"  {differing.name}: {_value(differing.a)} -> {_value(differing.b)}{by}"
    if differing.note:
        yield f"    {differing.note}"


def _value(value: Any) -> str:
    if value is None:
        return _UNKNOWN
    if isinstance(value, float):
        return f"{value:.6g}"
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 300)


def _one_line(text: str) -> str:
    return text.replace("\n", " ")
