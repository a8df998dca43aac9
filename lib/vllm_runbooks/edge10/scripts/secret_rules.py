"""Find passwords and other secrets in scripts."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from vllm_runbooks.catalog.languages import Phrase
from vllm_runbooks.core.redaction import places as secret_places
from vllm_runbooks.core.redaction.places import Secret
from vllm_runbooks.edge10.scripts.commands import REGISTRY_CLIENTS
from vllm_runbooks.edge10.scripts.readings import FilePart, ReadFile
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.reading.shell import Word

_IN_COMMAND = "edge10.password-in-command"
_MAX_LOGIN, _MAX_TEXT = 1_000, 1_000_000
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
    """Visible passwords of logins in a file, each with its location."""
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


def find_logins(file: ReadFile) -> Iterator[Hit]:
    """Logins in a file of any kind without a visible password in a command."""
    text = file.text
    reported = {command.password.value for part in file.parts for command in part.commands if command.password}
    for secret, login in _login_secrets(text):
        value = secret_places.value_of(text[secret.start : secret.end])
        if value in reported:
            continue
        reported.add(value)
        is_option = _OPTION.search(text, max(secret.start - 40, 0), secret.start) is not None
        how = Phrase("as an option") if is_option else Phrase("within another word")
        if "--password-stdin" in text[login.start() : login.end() + 300]:
            how = Phrase("on standard input, from the script itself")
        message = {"how": how, "program": login["program"]}
        yield Hit(_IN_COMMAND, login.start(), max(login.end(), secret.end), message)


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
    """Whether a secret is a login's: on the same or a continued line, or in its here-document."""
    first, last = min(login.start(), secret.begin), max(login.end(), secret.start)
    if last - first > _MAX_LOGIN:
        return False
    between = text[first:last]
    lines = between.replace("\\\r\n", " ").replace("\\\n", " ").count("\n")
    return lines == 0 or (lines == 1 and "<<" in between)
