"""Find passwords and other secrets in scripts."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from vllm_runbooks.catalog.languages import Phrase
from vllm_runbooks.core.redaction import parts as secret_parts
from vllm_runbooks.core.redaction import places as secret_places
from vllm_runbooks.core.redaction.places import Secret
from vllm_runbooks.edge10.scripts.commands import REGISTRY_CLIENTS
from vllm_runbooks.edge10.scripts.readings import FilePart, ReadFile
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.reading.shell import Word

_IN_COMMAND, _IN_FILE = "edge10.password-in-command", "edge10.secret-in-file"
_COVERED = frozenset((_IN_COMMAND, "safety.secret-in-arguments"))
"""Rules that report the same secret."""
_UNREPORTED = frozenset(("encoded", "repeated"))
_PASSWORD, _OTHER = Phrase("password"), Phrase("key or token")
_WORDS = {
    "password": _PASSWORD,
    "url": _PASSWORD,
    "private_key": Phrase("private key"),
    "cookie": Phrase("cookie"),
    "webhook": Phrase("address of a webhook, which is a secret,"),
}
_NAMED_KINDS = frozenset(("key", "token", "authorization"))
"""Kinds that a name alone tells: a placeholder for a server that needs no key (`EMPTY`, `sk-local`) is no secret."""
_MIN_LENGTH = 12
_PUBLIC = frozenset(("token-abc123",))
"""Example of vLLM's documentation."""
_MAX_NAME, _MAX_LOGIN, _MAX_TEXT = 80, 1_000, 1_000_000
_LOGIN = re.compile(
    r"(?:sudo[ \t]{1,4})?\b(?P<program>" + "|".join(REGISTRY_CLIENTS) + r")\b(?:[^\n\\]|\\\r?\n|\\.){0,300}?"
    r"(?:\blogin\b|--(?:src-|dest-|dest-registry-)?creds)"
)
_OPTION = re.compile(r"(?:-p|--password)[=\"', \t]{0,6}\Z")


def find_passwords(part: FilePart) -> Iterator[Hit]:
    for command in part.commands:
        if command.password is not None:
            at = command.index(*REGISTRY_CLIENTS) or 0
            how = Phrase("by a pipe, from a command that has it") if command.is_piped else Phrase("as an option")
            message = {"how": how, "program": command.values[at].rpartition("/")[2]}
            yield Hit(_IN_COMMAND, command.start, max(command.end, command.password.end), message)


def shown_passwords(file: ReadFile) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
    """Passwords of logins that a file shows, each with where it is."""
    for secret, _ in _login_secrets(file.text):
        yield secret_places.value_of(file.text[secret.start : secret.end]), ((secret.start, secret.end),)
    for part in file.parts:
        for command in part.commands:
            value = command.password.value if command.password is not None else None
            if command.password is None or not value or not value.strip("\0"):
                continue
            yield value, _places(file.text, command.password, value)
            for assignment in part.assignments:  # a variable's value is the secret
                if assignment.value.value == value:
                    yield value, ((assignment.value.start, assignment.value.end),)


def _places(text: str, word: Word, value: str) -> tuple[tuple[int, int], ...]:
    if word.at is None:
        whole = re.compile(rf"(?<!\w){re.escape(value)}(?!\w)")
        matches = [match.span() for match in whole.finditer(text, word.start, word.end)]
        if matches:
            return tuple(matches)
    return ((word.start, word.end),)


def find_secrets(file: ReadFile, others: Sequence[Hit]) -> Iterator[Hit]:
    """Secrets of a file, each where it is first; `others` are the findings of other rules."""
    covered = [(hit.start, hit.end) for hit in others if hit.rule in _COVERED]
    reported = {command.password.value for part in file.parts for command in part.commands if command.password}
    text = file.text
    logins = dict(_login_secrets(text))
    for secret in secret_places.find(text[:_MAX_TEXT]):
        value = secret_places.value_of(text[secret.start : secret.end])
        if value in reported or not _is_reported(secret, value):
            continue
        reported.add(value)
        if any(start < secret.end and secret.start < end for start, end in covered):
            continue
        login = logins.get(secret)
        if login is not None:
            is_option = _OPTION.search(text, max(secret.start - 40, 0), secret.start) is not None
            how = Phrase("as an option") if is_option else Phrase("within another word")
            if "--password-stdin" in text[login.start() : login.end() + 300]:
                how = Phrase("on standard input, from the script itself")
            yield Hit(
                _IN_COMMAND, login.start(), max(login.end(), secret.end), {"how": how, "program": login["program"]}
            )
        else:
            yield Hit(_IN_FILE, _name_start(text, secret), secret.end, {"what": _WORDS.get(secret.kind, _OTHER)})


def _login_secrets(text: str) -> Iterator[tuple[Secret, re.Match[str]]]:
    """Passwords of logins to a registry, each with the command that logs in."""
    logins = list(_LOGIN.finditer(text[:_MAX_TEXT]))
    starts = [login.start() for login in logins]
    for secret in secret_places.find(text[:_MAX_TEXT]) if logins else ():
        near = logins[bisect_left(starts, secret.begin - _MAX_LOGIN) : bisect_left(starts, secret.end + _MAX_LOGIN)]
        login = next((login for login in near if _is_of_login(text, login, secret)), None)
        if login is not None and secret.kind in ("password", "url"):
            yield secret, login


def _is_of_login(text: str, login: re.Match[str], secret: Secret) -> bool:
    """Whether a secret is a login's: on the same line, a continued one, or in the document behind it."""
    first, last = min(login.start(), secret.begin), max(login.end(), secret.start)
    if last - first > _MAX_LOGIN:
        return False
    between = text[first:last]
    lines = between.replace("\\\r\n", " ").replace("\\\n", " ").count("\n")
    return lines == 0 or (lines == 1 and "<<" in between)


def _is_reported(secret: Secret, value: str) -> bool:
    if secret.kind in _UNREPORTED or value in _PUBLIC:
        return False
    return secret.kind not in _NAMED_KINDS or (len(value) >= _MIN_LENGTH and secret_parts.is_telling(value))


def _name_start(text: str, secret: Secret) -> int:
    start = secret.begin
    while start > max(secret.begin - _MAX_NAME, 0) and (text[start - 1].isalnum() or text[start - 1] in "_-"):
        start -= 1
    return start
