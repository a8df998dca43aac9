"""A table tried in one test fails where `parametrize` would, and says which of its rows."""

from __future__ import annotations

import inspect

import pytest

from rows import over


def test_all_rows_are_tried_and_those_that_fail_are_named() -> None:
    """The first error is raised; its note counts the others and has their ids."""
    tried = []

    @over("number, text", [(1, "a"), (2, "b"), pytest.param(3, "c", id="third")])
    def test(number: int, text: str, *, more: str) -> None:
        tried.append((number, text, more))
        assert number == 2, text

    with pytest.raises(AssertionError, match=r"\Aa\n") as caught:
        test(more="fixture")

    assert tried == [(1, "a", "fixture"), (2, "b", "fixture"), (3, "c", "fixture")]
    assert caught.value.__notes__ == ["2 of 3 rows fail: (1, 'a'), third"]
    assert list(inspect.signature(test).parameters) == ["more"]
    assert test.rows == [(1, "a"), (2, "b"), (3, "c")]  # type: ignore[attr-defined]


def test_ids_name_rows_as_parametrize_has_them() -> None:
    """A list in the rows' order, or a function of their values."""
    for ids in (["x", "y"], {"a": "x", "b": "y"}.__getitem__):

        @over("text", ["a", "b"], ids=ids)
        def test(text: str) -> None:
            assert text == "a"

        with pytest.raises(AssertionError) as caught:
            test()
        assert caught.value.__notes__ == ["1 of 2 rows fail: y"]


def test_tables_that_try_nothing_or_lose_a_mark_are_refused() -> None:
    """An empty table is no success, and a mark of one row would have no effect."""

    @over("text", [])
    def test(text: str) -> None:
        raise AssertionError(text)

    with pytest.raises(AssertionError, match="the table is empty"):
        test()
    with pytest.raises(ValueError, match="no marks of its own"):
        over("text", [pytest.param("a", marks=pytest.mark.slow)])
    with pytest.raises(ValueError, match="1 values for 2 names"):
        over("a, b", [("only",)])
