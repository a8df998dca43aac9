"""What a benchmark measured: kept as a row of the table of figures, and held against what is promised."""

from __future__ import annotations

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
        """Keep a figure, the median of several rounds; `form` says how it is written, as in `format(value, form)`.

        Raises:
            AssertionError: It breaks its promise.
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
        """The figures as a table in Markdown."""
        head = "| measured | value | promised | rounds |\n|---|---|---|---|\n"
        return head + "\n".join("| " + " | ".join(cell or "-" for cell in row) + " |" for row in self.rows)
