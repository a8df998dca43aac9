"""A table tried in one test, where a row takes microseconds and `parametrize` would cost more: `@over`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

_SHOWN = 200
"""Characters of a row without an id that a message shows."""


def over(
    names: str | Sequence[str],
    table: Iterable[object],
    ids: Iterable[str] | Callable[[Any], object] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test once for each row of a table, as `pytest.mark.parametrize` would, in a single test.

    All rows are tried; the first error is raised, with the ids of all rows that failed. What a fixture provides is
    shared by the rows. Their values stay readable as the attribute `rows` of the test.

    Args:
        names: the test's parameters that a row fills, as a list or with commas between them.
        table: values, or tuples of values where there are several names, or `pytest.param` without marks.
        ids: what names the rows in a message, in their order; or a function of a row's values, one by one.
    """
    words = [word.strip() for word in names.split(",")] if isinstance(names, str) else list(names)
    rows = [_values(row, len(words)) for row in table]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def tried(**fixtures: Any) -> None:
            assert rows, "the table is empty"
            errors: list[tuple[str, Exception]] = []
            for (_, values), label in zip(rows, _labels(rows, ids), strict=True):
                try:
                    test(**dict(zip(words, values, strict=True)), **fixtures)
                except Exception as error:  # noqa: BLE001 - whatever a row raises, the others are tried
                    errors.append((label, error))
            if errors:
                first = errors[0][1]
                first.add_note(f"{len(errors)} of {len(rows)} rows fail: {', '.join(label for label, _ in errors)}")
                raise first

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in words]
        tried.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        tried.rows = [values for _, values in rows]  # type: ignore[attr-defined]
        return tried

    return decorate


def _values(row: object, width: int) -> tuple[str, tuple[object, ...]]:
    """A row's own id, and its values.

    Raises:
        ValueError: The row has marks, or not as many values as there are names.
    """
    label = ""
    values: tuple[object, ...] = (row,)
    if isinstance(row, type(pytest.param())):
        if row.marks:
            raise ValueError(f"a row of a single test has no marks of its own: {row}")
        label, values = str(row.id or ""), tuple(row.values)
    elif width > 1:
        values = tuple(row)  # type: ignore[arg-type]
    if len(values) != width:
        raise ValueError(f"{len(values)} values for {width} names: {values!r:.{_SHOWN}}")
    return label, values


def _labels(
    rows: Sequence[tuple[str, tuple[object, ...]]], ids: Iterable[str] | Callable[[Any], object] | None
) -> list[str]:
    """What names each row: its own id, or what was asked for, or its values."""
    if ids is None:
        return [own or f"{values!r:.{_SHOWN}}" for own, values in rows]
    if callable(ids):
        return [own or "-".join(str(ids(value)) for value in values) for own, values in rows]
    return list(ids)


def few(table: Iterable[object], count: int) -> list[Any]:
    """Rows for `parametrize` of which the first few run where the test does, and the others with `-m full`."""
    rows = [row if isinstance(row, tuple) else (row,) for row in table]
    return [pytest.param(*row, marks=() if at < count else pytest.mark.full) for at, row in enumerate(rows)]
