"""Measured figures of benchmarks: rows of a table, compared with promised limits."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Row(NamedTuple):
    """A figure."""

    what: str
    value: str
    promise: str
    spread: str


@dataclass(frozen=True)
class Figures:
    """The figures of a run."""

    rows: list[Row] = field(default_factory=list)

    def note(
        self,
        what: str,
        measured: float | Sequence[float],
        *,
        at_most: float | None = None,
        at_least: float | None = None,
        form: str = ".2f",
    ) -> None:
        """Store a figure, the median of several rounds, in the format `form` of `format(value, form)`.

        Raises:
            AssertionError: It exceeds its limit.
        """
        rounds = [measured] if isinstance(measured, (int, float)) else list(measured)
        value = statistics.median(rounds)
        bounds = [("at most", at_most), ("at least", at_least)]
        promise = ", ".join(f"{word} {format(bound, form)}" for word, bound in bounds if bound is not None)
        holds = (at_most is None or value <= at_most) and (at_least is None or value >= at_least)
        spread = f"{format(min(rounds), form)} to {format(max(rounds), form)} in {len(rounds)}" if rounds[1:] else ""
        told = format(value, form)
        self.rows.append(Row(what, told if holds else f"{told} **missed**", promise, spread))
        assert holds, f"{what}: {told}, promised {promise}"

    def table(self) -> str:
        """The figures as a Markdown table; figures of one name share a row."""
        head = "| measured | value | limit | range |\n|---|---|---|---|\n"
        named: dict[str, list[Row]] = {}
        for row in self.rows:
            named.setdefault(row.what, []).append(row)
        rows = (rows[0]._replace(value=_range([row.value for row in rows])) for rows in named.values())
        return head + "\n".join("| " + " | ".join(cell or "-" for cell in row) + " |" for row in rows)


def _range(values: Sequence[str]) -> str:
    """Smallest and largest value, with their number; a missed promise stays visible."""
    ordered = sorted(set(values), key=lambda value: float(re.findall(r"[\d.]+|$", value)[0] or 0))
    missed = [value for value in ordered if "missed" in value]
    spread = " to ".join(dict.fromkeys((ordered[0], *missed, ordered[-1])))
    return f"{spread} ({len(values)})" if values[1:] else spread
