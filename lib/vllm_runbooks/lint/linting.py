"""Lint every launch in a file for a release, or migrate it to another one."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.options import ReleaseData
from vllm_runbooks.core.display import unified_diff
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.lint import builds, config_files, fixing, moves
from vllm_runbooks.lint.hits import Edits
from vllm_runbooks.lint.linted_text import Ask, Knowledge, LintedText, LintRequest, OtherPrograms, parsed_by
from vllm_runbooks.lint.mentions import mentioned
from vllm_runbooks.lint.records import ChangedDefault, Linted, Migrated
from vllm_runbooks.lint.secrecy import Secrets
from vllm_runbooks.lint.told import MAX_ISSUES, issues, launches
from vllm_runbooks.reading import documents
from vllm_runbooks.reading.arguments import Parsed
from vllm_runbooks.reading.deployment import editing
from vllm_runbooks.reading.documents.starts import WrittenLaunch

__all__ = [
    "Ask",
    "Knowledge",
    "LintRequest",
    "OtherPrograms",
    "config_names",
    "fixed_text",
    "hidden",
    "lint",
    "migrate",
]

_MAX_MOVED = 40
_MAX_REPLACED, _LONGEST_MOVED = 20, 200_000
"""Edits that are tried, and the longest text that is read again for each."""


def config_names(text: str, name: str = "") -> list[str]:
    """Names of the config files next to the text; opens nothing."""
    return config_files.names(documents.read(text, name)) if "--config" in text else []


def lint(text: str, knowledge: Knowledge, request: LintRequest, *, fix: bool = False, ask: Ask | None = None) -> Linted:
    """Lint a script, manifest, Python program or page; with `fix`, `fixed` is the whole corrected text."""
    judged = LintedText(text, knowledge, request, ask)
    result = fixing.with_fixes(judged) if fix else judged
    secrets = Secrets(*judged.readings, *(result.readings if fix else ()))
    fixed = secrets.hidden(result.text) if fix else None
    found_issues = tuple(issues(judged, secrets))
    left_out = max(0, len(judged.hits) - MAX_ISSUES)
    found_launches = tuple(launches(judged, secrets))
    mention = None if found_launches or found_issues else mentioned(text, secrets)
    return Linted(
        judged.release,
        found_issues,
        found_launches,
        fixed,
        knowledge.lang,
        left_out,
        mention,
        judged.other_releases,
    )


def fixed_text(text: str, knowledge: Knowledge, request: LintRequest) -> str:
    """Apply every fix, repeatedly. Secrets stay: never show the text."""
    return fixing.with_fixes(LintedText(text, knowledge, request)).text


def hidden(text: str, knowledge: Knowledge, request: LintRequest) -> str:
    """Return the text with its secrets replaced, including those that only parsing finds."""
    return Secrets(*LintedText(text, knowledge, request).readings).part(0, len(text))


def migrate(text: str, knowledge: Knowledge, request: LintRequest, *, from_: str) -> tuple[Migrated, str]:
    """Migrate a text from one release to the requested one; returns the report and the text with its secrets."""
    before = options.load(from_)
    request = replace(request, is_migration=True)
    judged = LintedText(text, knowledge, request)
    moved = _replaced(fixing.with_fixes(judged))
    changes: dict[str, ChangedDefault] = {}
    edits: list[Replacement] = []
    for number, (launch, parsed) in enumerate(moved.parsed):
        if moved.is_unmoved(launch):
            continue
        data = moved.data(launch)
        old_starts = judged.parsed[number : number + 1] if len(judged.parsed) == len(moved.parsed) else ()
        options_before = {dest for old_start, _ in old_starts for dest in parsed_by(old_start, before).flags}
        defaults = list(_changed_defaults(moved, launch, parsed, before, options_before))
        keeping = [default.edit for default in defaults if default.edit is not None]
        made: Edits = ()
        if keeping and launch.is_certain and number < _MAX_MOVED and not moved.has_unknown_file(launch):
            made = editing.edits(moved.page, launch, keeping, data)
        edits += [*made, *(moves.retagged(launch, judged.release.version) if number < _MAX_MOVED else ())]
        for default in defaults:
            name = default.told.option
            explicit = (default.edit is not None and bool(made)) or (name in changes and changes[name].explicit)
            changes[name] = replace(default.told, explicit=explicit)
    if moved.pin is not None:
        edits += builds.repinned(moved.page, judged.release.version)
    rewritten = moved.page.changed(sorted(set(edits)))
    secrets = Secrets(*judged.readings, *moved.readings, *LintedText(rewritten, knowledge, request).readings)
    safe_text = secrets.hidden(rewritten)
    diff = unified_diff(secrets.hidden(text), safe_text, from_, judged.data().asked)
    result = Migrated(
        judged.release,
        tuple(issues(judged, secrets)),
        tuple(launches(judged, secrets)),
        safe_text,
        tuple(changes[name] for name in sorted(changes)),
        diff,
        knowledge.lang,
    )
    return result, rewritten


def _replaced(judged: LintedText) -> LintedText:
    """Replace variables by options as long as nothing new is wrong."""
    left = _MAX_REPLACED if len(judged.text) <= _LONGEST_MOVED else 0
    refused: set[Edits] = set()
    while left:
        starts = [
            (launch, parsed, judged.data(launch)) for launch, parsed in judged.parsed if not judged.is_unmoved(launch)
        ]
        offered = moves.candidates(judged.page, starts, judged.knowledge.tables)
        made = next((edits for edits in offered if edits and edits not in refused), None)
        if made is None:
            break
        left -= 1
        tried = LintedText(judged.page.changed(made), judged.knowledge, judged.asked)
        if tried.faults <= judged.faults:
            judged, refused = tried, set()
        else:
            refused.add(made)
    return judged


def _changed_defaults(
    judged: LintedText, launch: WrittenLaunch, parsed: Parsed, before: ReleaseData, options_before: Collection[str]
) -> Iterator[moves.Moved]:
    cards = {card.gpu for card in judged.cards or ()}
    return moves.changed_defaults(
        launch,
        parsed,
        (before, judged.data(launch)),
        judged.knowledge.specs.defaults,
        given=options_before,
        is_idle=lambda option: judged.row_of_idle(option, judged.data(launch)) is not None,
        card=judged.cards[0] if judged.cards and len(cards) == 1 else None,
    )
