"""The history as text and JSON: what was done, how it went over time, and how two entries differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vllm_runbooks.display import visible
from vllm_runbooks.history_records import Compared, Differing, Entry, Point, Trend
from vllm_runbooks.records import Verdict
from vllm_runbooks.render.elements import cut
from vllm_runbooks.render.styled import VERDICTS, Block, Styled, Table, Tone, Words, plain, styled

_UNKNOWN = "unknown"
_DEEPEST = 8


def listed(found: Sequence[Entry]) -> str:
    """As `listed_view`, without colours."""
    return plain(listed_view(found))


def listed_view(found: Sequence[Entry]) -> list[Block]:
    """A line for each entry, with the reason of those that are not well."""
    rows = [
        (each.id, each.began, each.kind, _styled_verdict(each), _seconds(each.seconds), cut(_about(each), 100))
        for each in found
    ]
    return [Table(_head("id", "begun (UTC)", "kind", "verdict", "took", "subject"), rows)]


def _head(*names: str) -> list[Styled]:
    return [styled(name, Tone.FAINT) for name in names]


def _styled_verdict(each: Entry | Point) -> Styled:
    return styled(_verdict(each.verdict), None if each.verdict is None else VERDICTS[each.verdict])


def _about(entry: Entry) -> str:
    is_well = entry.verdict in (None, Verdict.PASS, Verdict.SKIPPED)
    return entry.subject if is_well or not entry.reason else f"{entry.subject}: {entry.reason}"


def _verdict(told: Verdict | None) -> str:
    return "running" if told is None else told.value


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f} s"


def entry(found: Entry, parts: Sequence[Entry] = ()) -> str:
    """Everything of an entry, and a line for each of its parts."""
    rows = [
        ("id", found.id),
        ("begun", f"{found.began} (UTC)"),
        ("took", _seconds(found.seconds) or _UNKNOWN),
        ("verdict", f"{_verdict(found.verdict)}{f': {found.reason}' if found.reason else ''}"),
        *([("part of", found.part_of)] if found.part_of else []),
        *([("job", found.job)] if found.job else []),
        ("host", found.host or _UNKNOWN),
        ("vLLM", found.vllm or _UNKNOWN),
    ]
    lines = [found.says[:1].upper() + found.says[1:], "", *(f"{name + ':':<9}{value}" for name, value in rows)]
    for title, values in (("Inputs", found.inputs), ("Results", found.results), ("Environment", found.environment)):
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


def trend(found: Trend, facts: Sequence[str]) -> str:
    """As `trend_view`, without colours."""
    return plain(trend_view(found, facts))


def trend_view(found: Trend, facts: Sequence[str]) -> list[Block]:
    """A line for each entry with the facts that were asked for."""
    rows: list[tuple[Words, ...]] = [
        (
            each.id,
            each.began,
            _styled_verdict(each),
            _seconds(each.seconds),
            *(_number(each.facts.get(name)) for name in facts),
        )
        for each in found.points
    ]
    return [Table(_head("id", "begun (UTC)", "verdict", "took", *facts), rows)]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4f}".rstrip("0").rstrip(".")


def compared(found: Compared) -> str:
    """What was asked for and differs, then where, then what came of it."""
    lines = [f"a: {found.a}", f"b: {found.b}"]
    for title, some, none in (
        ("Inputs", found.inputs, "the same"),
        ("Environment", found.environment, "the same"),
        ("Results", found.results, "no difference"),
    ):
        lines += ["", title, *(line for each in some for line in _told(each))]
        if not some:
            lines.append(f"  {none}")
    lines += ["", *(f"note: {note}" for note in found.notes)] if found.notes else []
    return visible("\n".join(_one_line(line) if line else line for line in lines) + "\n")


def _told(each: Differing) -> Iterator[str]:
    place, separator, finding = each.name.rpartition("findings.")
    if separator:
        yield f"  {place}finding {'gained' if each.a is None else 'lost'}: {finding}"
        return
    by = ""
    if each.by is not None:
        share = "" if each.percent is None else f", {each.percent:+.1f} %"
        by = f" ({each.by:+,.4g}{share})"
    yield f"  {each.name}: {_value(each.a)} -> {_value(each.b)}{by}"
    if each.note:
        yield f"    {each.note}"


def _value(value: Any) -> str:
    if value is None:
        return _UNKNOWN
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 300)


def _one_line(text: str) -> str:
    return text.replace("\n", " ")
