"""Commands that a script or a program hands to a shell: logins, installations, a conversion, an evaluation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.edge10.scripts.events import Event
from vllm_runbooks.edge10.scripts.program import Program
from vllm_runbooks.edge10.scripts.values import MISSING
from vllm_runbooks.reading import shell
from vllm_runbooks.reading.documents import launchers, placeholders
from vllm_runbooks.reading.documents.placed_words import cut
from vllm_runbooks.reading.documents.python_text import PythonText
from vllm_runbooks.reading.shell import Word

DOCKER = frozenset(("docker", "podman", "nerdctl"))
REGISTRY = DOCKER | {"helm", "crane", "skopeo", "oras", "buildah", "regctl"}
"""Programs that log in to a registry."""
_SHELL_CALLS = frozenset(
    (
        *("os.system", "os.popen", "subprocess.run", "subprocess.call", "subprocess.check_call"),
        *("subprocess.check_output", "subprocess.Popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
    )
)
_OF_INTEREST = re.compile(r"checkpoint_convert|docker|podman|nerdctl|\bpip\b|evalscope|COMPILE_THREAD")
_VISIBLE = frozenset(("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"))
_NO_GPU = frozenset(("", "-1", "none", "void", "NoDevFiles"))
_MAX_WITHIN = 3
_MAX_COMMANDS = 2_000
_MAX_BEFORE = 8
"""Words between `docker` and `run`."""
_HERE = re.compile(r"<<<[ \t]{0,8}(?P<word>\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'|[^\s;&|]{1,400})")
_PIPE = re.compile(
    r"\s{0,40}(?:\\\r?\n\s{0,40})?\|\s{0,40}(?:\\\r?\n\s{0,40})?(?:sudo\s{1,8}(?:-\w{1,8}\s{1,8}){0,4})?"
)


@dataclass(frozen=True)
class Login:
    """A password that a command shows."""

    word: Word
    how: str
    """"option", "pipe", "here" (a here-string or document) or "credentials"."""


@dataclass(frozen=True)
class Command:
    """A command."""

    words: tuple[Word, ...]
    start: int
    """Offsets in the file."""
    end: int
    environment: Mapping[str, str | None] = field(default_factory=dict)
    documents: tuple[Excerpt, ...] = ()
    logins: tuple[Login, ...] = ()
    """The passwords that it shows."""

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The words as far as they are known; "" for others."""
        return tuple(word.value or "" for word in self.words)

    def index(self, *names: str, start: int = 0) -> int | None:
        """Index of the first word that is one of these names, folders in front of it left out."""
        for index, value in enumerate(self.values[start:], start):
            if value.rpartition("/")[2] in names:
                return index
        return None

    def option(self, *names: str, start: int = 0) -> Word | None:
        """The value of the last of these options that is given, from a word on."""
        found = None
        for index, word in enumerate(self.words[start:], start):
            name, equals, _ = (word.value or "").partition("=")
            if name in names and equals:
                found = cut(word, len(name) + 1)
            elif word.value in names and index + 1 < len(self.words):
                found = self.words[index + 1]
        return found


def of_script(source: Excerpt, file: str, *, is_page: bool) -> tuple[list[Command], list[shell.Assignment]]:
    """The commands of a shell's script, those within words of others included, and what it assigns.

    Args:
        source: The script.
        file: The text of the file that it stands in.
        is_page: Whether that is a page, where `<name>` is to be filled in.
    """
    found: list[Command] = []
    assigned = _read(source, found, is_page=is_page, depth=0)
    return _with_logins(found, file), assigned


def _read(source: Excerpt, found: list[Command], *, is_page: bool, depth: int) -> list[shell.Assignment]:
    text = placeholders.marked(source.text, is_page=is_page, is_within=depth > 0)
    script = shell.read(Excerpt(text, source.at))
    for each in script.invocations:
        if len(found) >= _MAX_COMMANDS:
            break
        words = tuple(placeholders.filled(word) for word in each.words)
        found.append(Command(words, each.start, each.end, each.environment, each.documents))
        for word in words[1:]:
            inner = word.excerpt
            is_script = inner is not None and len(inner.text.split()) > 1 and _OF_INTEREST.search(inner.text)
            if inner is not None and is_script and depth < _MAX_WITHIN:
                _read(inner, found, is_page=is_page, depth=depth + 1)
    return [*script.assignments, *(one for each in script.invocations for one in each.assignments)]


def of_program(program: Program, text: PythonText) -> list[Command]:
    """The commands that a program hands to a shell, or runs."""
    found: list[Command] = []
    for event in program.events:
        if event.kind == "call" and event.name in _SHELL_CALLS and event.args:
            found += _run(event, program, text)
    return found


def _run(event: Event, program: Program, text: PythonText) -> Iterator[Command]:
    start, end = text.places(event.node)
    value = event.args[0]
    known = program.python(value)
    if isinstance(known, str):
        found: list[Command] = []
        _read(Excerpt.whole(known), found, is_page=False, depth=1)
        for command in _with_logins(found, known):
            words = tuple(replace(word, start=start, end=end, at=None) for word in command.words)
            shown = tuple(Login(replace(one.word, start=start, end=end, at=None), one.how) for one in command.logins)
            yield Command(words, start, end, command.environment, logins=shown)
        return
    items = program.items(value)
    given: list[Word] = []
    for item in items or ():
        data = program.python(item)
        places = text.places(item.node) if isinstance(item.node, ast.expr) else (start, end)
        is_text = data is not MISSING and isinstance(data, (str, int))
        given.append(Word(str(data) if is_text else None, *places, str(data) if is_text else ""))
    if given:
        command = Command(tuple(given), start, end)
        shown = tuple(_logins(command, None, ""))
        handed = event.given("input")
        told = program.python(handed)
        if "--password-stdin" in command.values and isinstance(told, str) and handed is not None:
            places = text.places(handed.node) if isinstance(handed.node, ast.expr) else (start, end)
            shown = (*shown, Login(Word(told, *places, told), "here"))
        yield replace(command, logins=shown)


def container(command: Command) -> launchers.Options | None:
    """What a command runs in a container; None: it starts none."""
    at = command.index(*DOCKER)
    run = None if at is None else command.index("run", "create", start=at + 1)
    if at is None or run is None or run - at > _MAX_BEFORE:
        return None
    held = launchers.container_options(command.words[run + 1 :])
    if any(hides_gpus(each.name, each.value.value) for each in held.settings):
        return replace(held, gpus=None)
    return held


def hides_gpus(name: str, value: str | None) -> bool:
    """Whether a variable of the environment, of a value, keeps every GPU from a program."""
    return name in _VISIBLE and value is not None and value.strip() in _NO_GPU


def _with_logins(found: Sequence[Command], text: str) -> list[Command]:
    """The commands of a text, each with the passwords that it shows."""
    told = []
    before = None
    for command in found:
        told.append(replace(command, logins=tuple(_logins(command, before, text))))
        before = command
    return told


def _logins(command: Command, before: Command | None, text: str) -> Iterator[Login]:
    """The passwords that a command shows; the one in front of it may be piped to it."""
    at = command.index(*REGISTRY)
    if at is None:
        return
    for index, word in enumerate(command.words[at + 1 :], at + 1):
        name, equals, _ = (word.value or "").partition("=")
        if name in ("--creds", "--src-creds", "--dest-creds", "--dest-registry-creds"):
            given = cut(word, len(name) + 1) if equals else _next(command, index)
            if given is not None and ":" in (given.value or ""):
                yield Login(cut(given, (given.value or "").index(":") + 1), "credentials")
        elif match := _WITHIN_ADDRESS.match(word.value or ""):
            yield Login(_between(word, *match.span("password")), "credentials")
    login = command.index("login", start=at + 1)
    if login is None:
        return
    yield from _options(command, login)
    if "--password-stdin" not in command.values:
        return
    here = _HERE.search(text, command.start, _line_end(text, command.end))
    if here is not None and not _is_reference(here["word"]):
        start, end = here.span("word")
        yield Login(Word(here["word"].strip("\"'"), start, end, here["word"]), "here")
    for document in command.documents:
        body = document.text.strip()
        if body and not _is_reference(body):
            begin = document.text.index(body)
            end = document.at[begin + len(body) - 1] + 1
            yield Login(Word(body, document.at[begin], end, body), "here")
    if before is not None and _PIPE.fullmatch(text, before.end, command.start) and before.index("echo", "printf") == 0:
        shown = before.words[-1]
        if len(before.words) > 1 and shown.value:
            yield Login(shown, "pipe")


def _line_end(text: str, start: int) -> int:
    """Where the line ends that a command ends on."""
    stop = text.find("\n", start)
    return len(text) if stop < 0 else stop


def _options(command: Command, login: int) -> Iterator[Login]:
    """What `-p` and `--password` give."""
    for index, word in enumerate(command.words[login + 1 :], login + 1):
        value = word.value or ""
        if value in ("-p", "--password"):
            given = _next(command, index)
            if given is not None:
                yield Login(given, "option")
        elif value.startswith("--password="):
            yield Login(cut(word, len("--password=")), "option")
        elif value.startswith("-p") and not value.startswith("--") and len(value) > 2:
            yield Login(cut(word, 3 if value[2] == "=" else 2), "option")


_WITHIN_ADDRESS = re.compile(
    r"(?:[a-z]{2,12}://)?[^\s:/@]{1,200}:(?P<password>[^\s/@]{1,400})@[\w.-]{1,200}(?:[:/]|\Z)"
)


def _between(word: Word, start: int, end: int) -> Word:
    rest = cut(word, start)
    value = (rest.value or "")[: end - start]
    if rest.at is None:
        return Word(value, rest.start, rest.end, rest.raw)
    at: Sequence[int] = tuple(rest.at)[: end - start]
    return Word(value, at[0] if at else rest.start, at[-1] + 1 if at else rest.end, value, "", at)


def _next(command: Command, index: int) -> Word | None:
    return command.words[index + 1] if index + 1 < len(command.words) else None


def _is_reference(text: str) -> bool:
    """Whether a text only names where the secret is."""
    return "$" in text or "`" in text or text.startswith("<")
