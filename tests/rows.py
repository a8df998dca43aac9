"""Run a table of cases in one test, or only its first cases outside the full ring."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

_MAX_LABEL_CHARS = 120
_Row = tuple[str, tuple[object, ...]]
"""The id of a row, empty if it has none, and its values."""
_Ids = Iterable[str] | Callable[[Any], object] | None


def in_one_test(
    names: str | Sequence[str], table: Iterable[object], ids: _Ids = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like `pytest.mark.parametrize`, but all rows run in a single test.

    For rows that take microseconds, where a test for each would cost more than the rows. The first error is raised
    after all rows have run; its note lists the rows that failed. Fixtures are shared by the rows. The values of the
    rows are the attribute `rows` of the test.

    Args:
        names: the test's parameters that a row fills, as a list or with commas between them.
        table: values, or tuples of values if there are several names, or `pytest.param` without marks.
        ids: labels of the rows, in their order; or a function of each value of a row.
    """
    arg_names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [_row(values, len(arg_names)) for values in table]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run_rows(**fixtures: Any) -> None:
            assert rows, "the table is empty"
            errors: dict[int, BaseException] = {}
            skips: list[BaseException] = []
            for index, (_, values) in enumerate(rows):
                try:
                    test(**dict(zip(arg_names, values, strict=True)), **fixtures)
                except pytest.skip.Exception as skip:
                    skips.append(skip)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the other rows run whatever it is
                    errors[index] = error
            if errors:
                labels = _labels(rows, ids)
                first = next(iter(errors.values()))
                failed = ", ".join(labels[index] for index in errors)
                first.add_note(f"{len(errors)} of {len(rows)} rows fail: {failed}")
                raise first
            if len(skips) == len(rows):
                raise skips[0]

        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in arg_names]
        run_rows.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        run_rows.rows = [values for _, values in rows]  # type: ignore[attr-defined]
        return run_rows

    return decorate


def run_checks(module: Mapping[str, Any], parameter: str, value: object) -> None:
    """Call all functions of a test module with only this parameter; the error lists failures."""
    functions = [each for each in module.values() if inspect.isfunction(each) and each.__module__ == module["__name__"]]
    checks = [each for each in functions if list(inspect.signature(each).parameters) == [parameter]]

    @in_one_test("check", checks, ids=lambda check: check.__name__)
    def run(check: Callable[[object], None]) -> None:
        check(value)

    run()


def rest_full(table: Iterable[object], count: int) -> list[Any]:
    """Rows for `parametrize`, of which all but the first few are marked `full`."""
    return [
        row
        if index < count
        else pytest.param(*_values(row), marks=pytest.mark.full, id=row.id if _is_param(row) else None)  # type: ignore[attr-defined]
        for index, row in enumerate(table)
    ]


def _is_param(row: object) -> bool:
    return isinstance(row, type(pytest.param()))


def _values(row: object) -> tuple[object, ...]:
    if _is_param(row):
        return tuple(row.values)  # type: ignore[attr-defined]
    return row if isinstance(row, tuple) else (row,)


def _row(row: object, width: int) -> _Row:
    """The id and values of a row.

    Raises:
        ValueError: The row has marks, or another number of values than names.
    """
    if not _is_param(row):
        values = tuple(row) if width > 1 else (row,)  # type: ignore[arg-type]
        row_id = ""
    elif row.marks:  # type: ignore[attr-defined]
        raise ValueError(f"rows of @in_one_test cannot have marks: {row}; use pytest.mark.parametrize")
    else:
        values, row_id = _values(row), str(row.id or "")  # type: ignore[attr-defined]
    if len(values) != width:
        raise ValueError(f"{len(values)} values for {width} names: {values!r:.{_MAX_LABEL_CHARS}}")
    return row_id, values


def _labels(rows: Sequence[_Row], ids: _Ids) -> list[str]:
    """Label of each row: its number from 0, and its id or values."""
    if ids is None:
        names = [row_id or f"{values!r:.{_MAX_LABEL_CHARS}}" for row_id, values in rows]
    elif callable(ids):
        names = [row_id or "-".join(str(ids(value)) for value in values) for row_id, values in rows]
    else:
        names = list(ids)
    return [f"[{index}] {name}" for index, name in enumerate(names)]
