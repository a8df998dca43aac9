"""Cells of an executed runbook to show on a page: without empty steps, sections renumbered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vllm_runbooks.core.display import NOTHING_MIME

_HEADING = re.compile(r"(#{1,6}) +(?:(\d{1,2})\. +)?(.*)")

Cell = Mapping[str, Any]


def shown_cells(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """Cells without empty outputs, and without sections that have nothing else.

    A section begins with a Markdown cell whose first line is a heading, and ends before the next of
    its level or above. Numbers of headings ("## 2. Memory") are renewed.
    """
    cleaned = [_without_nothing(cell) for cell in cells]
    levels = [_level(cell) for cell in cleaned]
    shown, at, number = [], 0, 0
    while at < len(cleaned):
        end = _end_of_section(levels, at)
        if levels[at] > 1 and _is_empty(cleaned[at:end]):
            at = end
            continue
        cell = cleaned[at]
        heading = _HEADING.match(_source(cell)) if levels[at] else None
        if heading and heading[2]:
            number += 1
            numbered = f"{heading[1]} {number}. {heading[3]}"
            cell = {**cell, "source": numbered + _source(cell)[heading.end() :]}
        shown.append(cell)
        at += 1
    return shown


def _without_nothing(cell: Cell) -> dict[str, Any]:
    outputs = cell.get("outputs")
    if cell.get("cell_type") != "code" or not isinstance(outputs, list):
        return dict(cell)
    return {**cell, "outputs": [output for output in outputs if not _says_nothing(output)]}


def _says_nothing(output: Any) -> bool:
    data = output.get("data") if isinstance(output, dict) else None
    return isinstance(data, dict) and NOTHING_MIME in data


def _source(cell: Cell) -> str:
    source = cell.get("source")
    return "".join(map(str, source)) if isinstance(source, list) else str(source or "")


def _level(cell: Cell) -> int:
    """The level of the heading that a cell begins with; 0 without one."""
    heading = _HEADING.match(_source(cell)) if cell.get("cell_type") == "markdown" else None
    return len(heading[1]) if heading else 0


def _end_of_section(levels: Sequence[int], start: int) -> int:
    return next((n for n in range(start + 1, len(levels)) if 0 < levels[n] <= levels[start]), len(levels))


def _is_empty(section: Sequence[Cell]) -> bool:
    code = [cell for cell in section if cell.get("cell_type") == "code"]
    return bool(code) and not any(cell.get("outputs") for cell in code)
