"""Apply all fixes, repeatedly, as long as they reveal more."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.lint.linted_text import Knowledge, LintedText
from vllm_runbooks.reading.documents import LaunchFile


class FixableText(Protocol):
    @property
    def text(self) -> str: ...
    @property
    def page(self) -> LaunchFile: ...
    @property
    def hits(self) -> list[Hit]: ...
    @property
    def knowledge(self) -> Knowledge: ...


T = TypeVar("T", bound=FixableText)
_MAX_ROUNDS = 8
"""A command that was cut shows its other faults only after a fix."""


def with_fixes(judged: LintedText) -> LintedText:
    return with_fixes_by(judged, lambda text: LintedText(text, judged.knowledge, judged.asked))


def with_fixes_by(judged: T, again: Callable[[str], T]) -> T:
    """Like `with_fixes`; `again` lints the changed text."""
    for _ in range(_MAX_ROUNDS):
        changed = judged.page.changed(_apart(judged.hits))
        if changed == judged.text:
            break
        judged = again(changed)
    return judged


def _apart(hits: Iterable[Hit]) -> Iterator[Replacement]:
    """Yield the edits that don't touch one another; the next round finds the rest."""
    spans: list[tuple[int, int]] = []
    for hit in hits:
        if not hit.edits:
            continue
        start, end = span(hit.edits)
        at = bisect_left(spans, (start, end))
        before, behind = spans[max(at - 1, 0) : at], spans[at : at + 1]
        if all(start > done for _, done in before) and all(end < begun for begun, _ in behind):
            spans.insert(at, (start, end))
            yield from hit.edits


def span(edits: Sequence[Replacement]) -> tuple[int, int]:
    return min(edit.start for edit in edits), max(edit.end for edit in edits)
