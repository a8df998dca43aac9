"""An excerpt keeps the places of its characters, and an edited text their original places."""

from __future__ import annotations

import pytest

from vllm_runbooks.core.excerpt import EditedText, Excerpt, LineIndex, Replacement, applied

FILE = "one\n  two\n  three\n"


def test_parts_of_a_file_know_their_places() -> None:
    """Each character its offset, and the end one more."""
    whole = Excerpt.whole(FILE)
    part = whole.part(6, 9)

    assert (whole.text, list(whole.at)) == (FILE, list(range(len(FILE) + 1)))
    assert (part.text, list(part.at)) == ("two", [6, 7, 8, 9])
    assert (part.part(1, 2).text, list(part.part(1, 2).at)) == ("w", [7, 8])


def test_pieces_are_joined_without_the_text_between() -> None:
    """The end is the last one's; without pieces it is the beginning."""
    joined = Excerpt.whole(FILE).joined([(6, 10), (12, 17)])

    assert (joined.text, list(joined.at)) == ("two\nthree", [6, 7, 8, 9, 12, 13, 14, 15, 16, 17])
    assert (Excerpt.whole(FILE).part(4, 9).joined([]).text, list(Excerpt.whole(FILE).part(4, 9).joined([]).at)) == (
        "",
        [4],
    )


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", [(1, 1)]), ("a", [(1, 1), (1, 2)]), ("a\nb", [(1, 1), (1, 2), (2, 1), (2, 2)]),
        ("\n\n", [(1, 1), (2, 1), (3, 1)]), ("a\fb\u2028c", [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6)]),
        ("a\r\nb", [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]),
    ],
)  # fmt: skip
def test_lines_and_columns_count_from_one(text: str, places: list[tuple[int, int]]) -> None:
    """A line ends with a line feed alone, as for an editor."""
    assert [tuple(LineIndex(text)(offset)) for offset in range(len(text) + 1)] == places


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ([], "abcdef"), ([(0, 1, "X")], "Xbcdef"), ([(5, 6, "X")], "abcdeX"), ([(2, 2, "X")], "abXcdef"),
         ([(1, 3, "")], "adef"),
        ([(4, 5, "Y"), (0, 2, "X")], "XcdYf"), ([(0, 2, "X"), (2, 3, "Y")], "XYdef"),
         ([(0, 3, "X"), (2, 4, "Y")], "Xdef"),
        ([(2, 4, "Y"), (2, 3, "X")], "abXdef"), ([(6, 6, "X")], "abcdefX"), ([(2, 2, "X"), (2, 2, "Y")], "abXYcdef"),
    ],
)  # fmt: skip
def test_replacements_are_made_in_the_text_s_order(edits: list[tuple[int, int, str]], text: str) -> None:
    """Of two that overlap the first one counts; two that only touch are both made."""
    assert applied("abcdef", [Replacement(*edit) for edit in edits]) == text


def test_places_of_an_edited_text_map_to_the_original() -> None:
    """Inserted text maps to its insertion point."""
    changed = EditedText("abcdef", [Replacement(1, 3, "XYZ"), Replacement(5, 5, "W")])

    assert changed.text == "aXYZdeWf"
    assert [changed.back(offset) for offset in range(9)] == [0, 1, 1, 1, 3, 4, 5, 5, 6]


@pytest.mark.parametrize(
    ("start", "end", "keeps"),
    [
        (0, 1, True),
        (0, 2, False),
        (1, 2, False),
        (3, 5, False),
        (4, 6, True),
        (4, 5, True),
        (4, 7, False),
        (7, 8, True),
        (6, 7, False),
    ],
)
def test_unchanged_text_keeps_its_places(start: int, end: int, *, keeps: bool) -> None:
    """Inserted text, and text around it, does not."""
    changed = EditedText("abcdef", [Replacement(1, 3, "XYZ"), Replacement(5, 5, "W")])

    assert changed.keeps(start, end) is keeps
    assert EditedText("ab", []).keeps(0, 2) is True
