"""A text moved from one release to another: rewritten, with the defaults that changed between them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from dataclasses import replace

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.options import ReleaseData
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.lint import moves
from vllm_runbooks.lint.judged import Asked, Judged, Knowledge, parsed_by
from vllm_runbooks.lint.mending import mended
from vllm_runbooks.lint.records import ChangedDefault, Migrated
from vllm_runbooks.lint.secrecy import Secrets
from vllm_runbooks.lint.told import issues, launches
from vllm_runbooks.reading.arguments import Parsed
from vllm_runbooks.reading.deployment import editing
from vllm_runbooks.reading.documents.starts import Found

_MAX_MOVED = 40
"""Starts that are rewritten when a file is moved to another release: the file is read again for each, to be sure."""
_MAX_REPLACED, _LONGEST_MOVED = 20, 200_000
"""Changes that are tried to replace variables, each by reading a text of at most so many characters again."""


def migrate(text: str, knowledge: Knowledge, asked: Asked, *, from_: str) -> tuple[Migrated, str]:
    """Move a text from one release to the one that is asked about: what is found, and the text rewritten.

    What is wrong on the new release is mended where a fix is certain, a variable that an option replaced becomes that
    option, and a setting that was left to a default which has changed is set to the former value where an option can
    say it. Secrets are left in the text: show it to nobody.

    Raises:
        InputError: as `lint`.
    """
    before = options.load(from_)
    judged = Judged(text, knowledge, asked)
    moved = _replaced(mended(judged))
    changes: dict[str, ChangedDefault] = {}
    edits: list[Replacement] = []
    for number, (start, parsed) in enumerate(moved.parsed):
        data = moved.data(start)
        was = judged.parsed[number : number + 1] if len(judged.parsed) == len(moved.parsed) else ()
        given = {dest for one, _ in was for dest in parsed_by(one, before).flags}
        found = list(_changed_defaults(moved, start, parsed, before, given))
        wanted = [each.edit for each in found if each.edit is not None]
        made: tuple[Replacement, ...] = ()
        if wanted and start.is_certain and number < _MAX_MOVED and not moved.has_unknown_file(start):
            made = editing.edits(moved.page, start, wanted, data)
        edits += [*made, *(moves.retagged(start, judged.release.version) if number < _MAX_MOVED else ())]
        for each in found:
            name = each.told.option
            explicit = (each.edit is not None and bool(made)) or (name in changes and changes[name].explicit)
            changes[name] = replace(each.told, explicit=explicit)
    rewritten = moved.page.changed(sorted(set(edits)))
    secrets = Secrets(*judged.readings, *moved.readings, *Judged(rewritten, knowledge, asked).readings)
    shown = secrets.hidden(rewritten)
    diff = "".join(
        difflib.unified_diff(
            secrets.hidden(text).splitlines(keepends=True),
            shown.splitlines(keepends=True),
            from_,
            judged.data().asked,
        )
    )
    told = Migrated(
        judged.release,
        tuple(issues(judged, secrets)),
        tuple(launches(judged, secrets)),
        shown,
        tuple(changes[name] for name in sorted(changes)),
        diff,
        knowledge.lang,
    )
    return told, rewritten


def _replaced(judged: Judged) -> Judged:
    """The text with variables as the options that replaced them, where nothing is wrong then that was not before."""
    left = _MAX_REPLACED if len(judged.text) <= _LONGEST_MOVED else 0
    refused: set[tuple[Replacement, ...]] = set()
    while left:
        starts = [(start, parsed, judged.data(start)) for start, parsed in judged.parsed]
        offered = moves.candidates(judged.page, starts, judged.knowledge.tables)
        made = next((one for one in offered if one and one not in refused), None)
        if made is None:
            break
        left -= 1
        tried = Judged(judged.page.changed(made), judged.knowledge, judged.asked)
        if tried.faults <= judged.faults:
            judged, refused = tried, set()
        else:
            refused.add(made)
    return judged


def _changed_defaults(
    judged: Judged, start: Found, parsed: Parsed, before: ReleaseData, given: Collection[str]
) -> Iterator[moves.Moved]:
    cards = {card.gpu for card in judged.cards or ()}
    return moves.changed_defaults(
        start,
        parsed,
        (before, judged.data(start)),
        judged.knowledge.specs.defaults,
        given=given,
        is_idle=lambda option: judged.row_of_idle(option, judged.data(start)) is not None,
        card=judged.cards[0] if judged.cards and len(cards) == 1 else None,
    )
