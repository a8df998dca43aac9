"""`in_one_test` fails where `parametrize` would, and lists the failing rows."""

from __future__ import annotations

import inspect

import pytest

from rows import in_one_test, rest_full


def test_all_rows_are_tried_and_those_that_fail_are_named() -> None:
    """The first error is raised; its note counts the others and has their ids."""
    tried = []

    @in_one_test("number, text", [(1, "a"), (2, "b"), pytest.param(3, "c", id="third")])
    def test(number: int, text: str, *, more: str) -> None:
        tried.append((number, text, more))
        assert number == 2, text

    with pytest.raises(AssertionError, match=r"\Aa\n") as caught:
        test(more="fixture")

    assert tried == [(1, "a", "fixture"), (2, "b", "fixture"), (3, "c", "fixture")]
    assert caught.value.__notes__ == ["2 of 3 rows fail: [0] (1, 'a'), [2] third"]
    assert list(inspect.signature(test).parameters) == ["more"]
    assert test.rows == [(1, "a"), (2, "b"), (3, "c")]  # type: ignore[attr-defined]


def test_ids_name_rows_as_parametrize_has_them() -> None:
    """A list in the rows' order, or a function of their values."""
    for ids in (["x", "y"], {"a": "x", "b": "y"}.__getitem__):

        @in_one_test("text", ["a", "b"], ids=ids)
        def test(text: str) -> None:
            assert text == "a"

        with pytest.raises(AssertionError) as caught:
            test()
        assert caught.value.__notes__ == ["1 of 2 rows fail: [1] y"]


def test_empty_tables_and_marked_rows_are_rejected() -> None:
    """An empty table cannot pass, and a mark on one row would have no effect."""

    @in_one_test("text", [])
    def test(text: str) -> None:
        raise AssertionError(text)

    with pytest.raises(AssertionError, match="the table is empty"):
        test()
    with pytest.raises(ValueError, match="cannot have marks"):
        in_one_test("text", [pytest.param("a", marks=pytest.mark.slow)])
    with pytest.raises(ValueError, match="1 values for 2 names"):
        in_one_test("a, b", [("only",)])


def test_skipped_and_failed_rows_are_distinguished() -> None:
    """Failures precede skips, `pytest.fail` names its row, and only skips mean a skip."""

    @in_one_test("word", ["fail", "skip", "pass"])
    def test(word: str) -> None:
        if word != "pass":
            getattr(pytest, word)("reason")

    with pytest.raises(pytest.fail.Exception) as caught:
        test()
    assert caught.value.__notes__ == ["1 of 3 rows fail: [0] ('fail',)"]

    @in_one_test("word", ["skip", "skip"])
    def skipped(word: str) -> None:
        pytest.skip(word)

    with pytest.raises(pytest.skip.Exception):
        skipped()


def test_all_but_the_first_rows_are_full() -> None:
    """Values, tuples and `pytest.param` are unchanged."""
    rows = rest_full([("a", 1), pytest.param("b", 2, id="second"), ("c", 3)], 1)

    assert rows[0] == ("a", 1)
    assert [(row.values, row.id, [mark.name for mark in row.marks]) for row in rows[1:]] == [
        (("b", 2), "second", ["full"]),
        (("c", 3), None, ["full"]),
    ]
