"""Every fix that a text's hits carry, made; and made again, as long as that brings more to light."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.lint.judged import Judged, Knowledge
from vllm_runbooks.reading.documents import Page


class Found(Protocol):
    """A text with all that is wrong in it, whoever looked for it."""

    @property
    def text(self) -> str:
        """The whole of it."""

    @property
    def page(self) -> Page:
        """The text as it is read."""

    @property
    def hits(self) -> list[Hit]:
        """Every broken rule, in the order of the text."""

    @property
    def knowledge(self) -> Knowledge:
        """What it is judged by."""


T = TypeVar("T", bound=Found)
_MAX_ROUNDS = 8
"""Times that a file is mended: a command that was cut shows its other faults once it is whole."""


def mended(judged: Judged) -> Judged:
    """The text with every fix made, judged as far as that was needed."""
    return mended_by(judged, lambda text: Judged(text, judged.knowledge, judged.asked))


def mended_by(judged: T, again: Callable[[str], T]) -> T:
    """As `mended`, for a text that `again` judges once it has changed."""
    for _ in range(_MAX_ROUNDS):
        changed = judged.page.changed(_apart(judged.hits))
        if changed == judged.text:
            break
        judged = again(changed)
    return judged


def _apart(hits: Iterable[Hit]) -> Iterator[Replacement]:
    """The edits of hits that do not touch one another; what is left is found again when these are made."""
    taken: list[tuple[int, int]] = []
    for hit in hits:
        if not hit.edits:
            continue
        start, end = span(hit.edits)
        at = bisect_left(taken, (start, end))
        before, behind = taken[max(at - 1, 0) : at], taken[at : at + 1]
        if all(start > done for _, done in before) and all(end < begun for begun, _ in behind):
            taken.insert(at, (start, end))
            yield from hit.edits


def span(edits: Sequence[Replacement]) -> tuple[int, int]:
    """Where the first of several edits begins and the last one ends."""
    return min(edit.start for edit in edits), max(edit.end for edit in edits)
