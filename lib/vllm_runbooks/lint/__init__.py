"""Judge every start of vLLM in a file on a release: what is wrong, where, why, and the change that mends it."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vllm_runbooks import documents, options
from vllm_runbooks.arguments import Parsed
from vllm_runbooks.arguments.conditions import UNKNOWN
from vllm_runbooks.deployment import editing
from vllm_runbooks.documents.starts import Found
from vllm_runbooks.excerpt import Places, Replacement, applied
from vllm_runbooks.lint import calls, config_files, moves
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.lint.judged import Ask, Asked, Judged, Knowledge, Opinion, parsed_by, severity
from vllm_runbooks.lint.secrecy import Secrets
from vllm_runbooks.options import ReleaseData
from vllm_runbooks.printed import masked
from vllm_runbooks.records import (
    Case,
    ChangedDefault,
    Fix,
    Issue,
    IssueSeverity,
    Judgement,
    Launch,
    Linted,
    Migrated,
    Rule,
    Verdict,
)

__all__ = [
    "MAX_ISSUES", "Ask", "Asked", "Knowledge", "Opinion", "config_names", "hidden", "judge", "lint", "mended",
    "message", "migrate", "secrets_of",
]  # fmt: skip
MAX_ISSUES = 500
"""Issues of one file; what follows is not told: nobody reads it."""
_MAX_ROUNDS = 8
"""Times that a file is mended: a command that was cut shows its other faults once it is whole."""
_MAX_TEXT = 400
_MAX_MOVED = 40
"""Starts that are rewritten when a file is moved to another release: the file is read again for each, to be sure."""
_MAX_REPLACED, _LONGEST_MOVED = 20, 200_000
"""Changes that are tried to replace variables, each by reading a text of at most so many characters again."""
_MAX_BITS = 1024
_TOO_MUCH = "file.too-much"
_HOLE = re.compile(r"\{(\w+)\}")


def config_names(text: str, name: str = "") -> list[str]:
    """The configuration files that a text's commands name beside it; nothing is opened here."""
    return config_files.names(documents.read(text, name)) if "--config" in text else []


def lint(text: str, knowledge: Knowledge, asked: Asked, *, fix: bool = False, ask: Ask | None = None) -> Linted:
    """Judge a script, manifest, Python program or page of text; with `fix`, `fixed` is the whole text mended.

    Raises:
        InputError: the release or a GPU is not known, or the installed vLLM does not answer.
    """
    judged = Judged(text, knowledge, asked, ask)
    mended = _mended(judged) if fix else judged
    secrets = Secrets(*judged.readings, *(mended.readings if fix else ()))
    fixed = secrets.hidden(mended.text) if fix else None
    return Linted(judged.release, tuple(_issues(judged, secrets)), tuple(_launches(judged, secrets)), fixed)


def judge(found: Linted, case: Case | None) -> Judgement:
    """The verdict on commands: against what a case expects, else on whether anything is wrong."""
    wrong = [issue for issue in found.issues if issue.severity is not IssueSeverity.INFO]
    if case is not None and case.expect.issues is not None:
        expected = {(each.rule, each.line) for each in case.expect.issues}
        got = {(issue.rule, issue.line) for issue in wrong}
        differences = [f"line {line}: {rule}: expected, not found" for rule, line in sorted(expected - got)]
        differences += [f"line {line}: {rule}: found, not expected" for rule, line in sorted(got - expected)]
        reason = "; ".join(differences) or f"as expected: {len(expected)} issues"
        verdict = Verdict.FAIL if differences else Verdict.PASS
    elif wrong:
        verdict, reason = Verdict.FAIL, f"line {wrong[0].line}: {wrong[0].message} ({wrong[0].rule})"
    elif not found.deployments:
        verdict, reason = Verdict.FAIL, "no start of vLLM was found, so nothing was checked"
    else:
        verdict, reason = Verdict.PASS, f"nothing wrong on vLLM {found.vllm.version}"
    return Judgement(verdict, reason, case.id if case else None, None, None, ())


def mended(text: str, knowledge: Knowledge, asked: Asked) -> str:
    """The text with every fix made, and those that show only then. Secrets are left as they are: show it to nobody.

    Raises:
        InputError: as `lint`.
    """
    return _mended(Judged(text, knowledge, asked)).text


def _mended(judged: Judged) -> Judged:
    """The text with every fix made, judged as far as that was needed."""
    for _ in range(_MAX_ROUNDS):
        changed = applied(judged.text, _apart(judged.hits))
        if changed == judged.text:
            break
        judged = Judged(changed, judged.knowledge, judged.asked)
    return judged


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
    moved = _replaced(_mended(judged))
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
    rewritten = applied(moved.text, sorted(set(edits)))
    secrets = Secrets(*judged.readings, *moved.readings, *Judged(rewritten, knowledge, asked).readings)
    shown = secrets.hidden(rewritten)
    diff = "".join(
        difflib.unified_diff(
            secrets.hidden(text).splitlines(keepends=True),
            shown.splitlines(keepends=True),
            f"{from_}",
            f"{judged.data().asked}",
        )
    )
    told = Migrated(
        judged.release,
        tuple(_issues(judged, secrets)),
        tuple(_launches(judged, secrets)),
        shown,
        tuple(changes[name] for name in sorted(changes)),
        diff,
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
        tried = Judged(applied(judged.text, made), judged.knowledge, judged.asked)
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


def hidden(text: str, knowledge: Knowledge, asked: Asked) -> str:
    """The text as it may be shown: its secrets replaced, also those that only reading its commands tells."""
    return secrets_of(text, knowledge, asked).part(0, len(text))


def secrets_of(text: str, knowledge: Knowledge, asked: Asked) -> Secrets:
    """The secrets of a text, for showing parts of it."""
    return Secrets(*Judged(text, knowledge, asked).readings)


def _apart(hits: Iterable[Hit]) -> Iterator[Replacement]:
    """The edits of hits that do not touch one another; what is left is found again when these are made."""
    taken: list[tuple[int, int]] = []
    for hit in hits:
        if not hit.edits:
            continue
        start, end = _span(hit.edits)
        at = bisect_left(taken, (start, end))
        before, behind = taken[max(at - 1, 0) : at], taken[at : at + 1]
        if all(start > done for _, done in before) and all(end < begun for begun, _ in behind):
            taken.insert(at, (start, end))
            yield from hit.edits


def _span(edits: Sequence[Replacement]) -> tuple[int, int]:
    return min(edit.start for edit in edits), max(edit.end for edit in edits)


def _issues(judged: Judged, secrets: Secrets) -> Iterator[Issue]:
    places = Places(judged.text)
    for hit in _most_serious(judged):
        rule = judged.knowledge.rules[hit.rule]
        line, column = places(hit.start)
        yield Issue(
            rule=rule.id,
            severity=severity(rule, hit),
            line=line,
            column=column,
            text=secrets.part(hit.start, min(hit.end, hit.start + _MAX_TEXT))[:_MAX_TEXT],
            message=_told(rule, hit, secrets),
            fix=_fix(judged.text, hit.edits, places, secrets) if hit.edits else None,
        )


def _told(rule: Rule, hit: Hit, secrets: Secrets) -> str:
    """The message of a hit, in the words of where it stands."""
    said = message(rule, {name: secrets.hidden(said) for name, said in hit.says.items()})
    return hit.where + (calls.spoken(said) if hit.is_call else said)


def _most_serious(judged: Judged) -> list[Hit]:
    """The hits that are told, in the order of the text: of very many the most serious ones, and that there are more."""
    if len(judged.hits) <= MAX_ISSUES:
        return judged.hits
    order = list(IssueSeverity)
    rules = judged.knowledge.rules
    kept = sorted(judged.hits, key=lambda hit: order.index(severity(rules[hit.rule], hit)))[:MAX_ISSUES]
    more = Hit(_TOO_MUCH, 0, 0, {"what": f"{len(judged.hits) - MAX_ISSUES} more issues"})
    told = [more] if _TOO_MUCH in rules else []
    return [*told, *sorted(kept, key=lambda hit: (hit.start, hit.end, hit.rule))]


def message(rule: Rule, says: Mapping[str, str]) -> str:
    """The rule's sentences with what was found; one that needs what is not known is left out."""
    return " ".join(
        _HOLE.sub(lambda hole: says[hole[1]], sentence)
        for sentence in rule.message
        if all(says.get(name) for name in _HOLE.findall(sentence))
    )


def _fix(text: str, edits: Sequence[Replacement], places: Places, secrets: Secrets) -> Fix | None:
    """The edits as one replacement; None where a secret stands in between, which a placeholder would destroy."""
    start, end = _span(edits)
    inside = [Replacement(edit.start - start, edit.end - start, edit.new_text) for edit in edits]
    new_text = applied(text[start:end], inside)
    return Fix(*places(start), *places(end), new_text) if secrets.hidden(new_text) == new_text else None


def _launches(judged: Judged, secrets: Secrets) -> Iterator[Launch]:
    for start, parsed in judged.parsed:
        flags = {
            dest: _shown(masked(_known(value), dest), secrets)
            for dest, value in parsed.flags.items()
            if value is not UNKNOWN and dest != "model"
        }
        env = {
            name: None if setting.value.value is None else _shown(masked(setting.value.value, name), secrets)
            for name, setting in start.environment.items()
        }
        yield Launch(None if parsed.model is None else _shown(masked(parsed.model), secrets), flags, env)


def _shown(value: Any, secrets: Secrets) -> Any:
    """A value with the secrets of the text replaced in all its texts."""
    if isinstance(value, Mapping):
        return {name: _shown(inner, secrets) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shown(inner, secrets) for inner in value]
    return secrets.hidden(value) if isinstance(value, str) else value


def _known(value: Any) -> Any:
    """A value with None for what in it cannot be known, and numbers of a size that JSON's readers take."""
    if isinstance(value, Mapping):
        return {str(key): _known(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_known(inner) for inner in value]
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return None
    return value if value is None or isinstance(value, (str, int, float)) else None
