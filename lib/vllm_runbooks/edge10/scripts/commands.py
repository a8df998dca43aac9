"""Commands that a script or a program gives to a shell: logins, installations, a conversion, an evaluation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.edge10.scripts.program import ScriptProgram
from vllm_runbooks.edge10.scripts.values import MISSING, ScriptEvent
from vllm_runbooks.reading import shell
from vllm_runbooks.reading.documents import placeholders
from vllm_runbooks.reading.documents.placed_words import cut
from vllm_runbooks.reading.shell import Word

REGISTRY_CLIENTS = ("docker", "podman", "nerdctl", "helm", "crane", "skopeo", "oras", "buildah", "regctl")
"""Programs that log in to a registry."""
_SHELL_CALLS = frozenset((
    "os.system", "os.popen", "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output",
    "subprocess.Popen", "subprocess.getoutput", "subprocess.getstatusoutput",
))  # fmt: skip
_OF_INTEREST = re.compile(r"checkpoint_convert|docker|podman|nerdctl|\bpip\b|evalscope")
_VISIBLE = frozenset(("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"))
_NO_GPU = frozenset(("", "-1", "none", "void", "NoDevFiles"))
_MAX_WITHIN = 3
_MAX_COMMANDS = 2_000
_PIPE = re.compile(
    r"\s{0,40}(?:\\\r?\n\s{0,40})?\|\s{0,40}(?:\\\r?\n\s{0,40})?(?:sudo\s{1,8}(?:-\w{1,8}\s{1,8}){0,4})?"
)


@dataclass(frozen=True)
class ScriptCommand:
    """Command of a shell."""

    words: tuple[Word, ...]
    start: int
    """Offsets in the file."""
    end: int
    password: Word | None = None
    """Password that it shows."""
    is_piped: bool = False
    """Whether another command pipes the password to it."""

    @cached_property
    def values(self) -> tuple[str, ...]:
        """Words as far as they are known; "" for others."""
        return tuple(word.value or "" for word in self.words)

    def index(self, *names: str, start: int = 0) -> int | None:
        """Index of the first word that is one of these names, without its folder."""
        for index, value in enumerate(self.values[start:], start):
            if value.rpartition("/")[2] in names:
                return index
        return None

    def option(self, *names: str, start: int = 0) -> Word | None:
        """Last value of an option that has one of these names."""
        value = None
        for index, word in enumerate(self.words[start:], start):
            name, equals, _ = (word.value or "").partition("=")
            if name in names and equals:
                value = cut(word, len(name) + 1)
            elif word.value in names and index + 1 < len(self.words):
                value = self.words[index + 1]
        return value


def commands_of_script(
    source: Excerpt, text: str, *, is_page: bool
) -> tuple[list[ScriptCommand], list[shell.Assignment]]:
    """Commands and assignments of a shell script, and commands in its words; a page has `<name>` as a placeholder."""
    commands: list[ScriptCommand] = []
    assignments = _read(source, commands, is_page=is_page, depth=0)
    return _with_passwords(commands, text), assignments


def _read(source: Excerpt, commands: list[ScriptCommand], *, is_page: bool, depth: int) -> list[shell.Assignment]:
    text = placeholders.marked(source.text, is_page=is_page)
    script = shell.read(Excerpt(text, source.at))
    for invocation in script.invocations:
        if len(commands) >= _MAX_COMMANDS:
            break
        words = tuple(placeholders.filled(word) for word in invocation.words)
        commands.append(ScriptCommand(words, invocation.start, invocation.end))
        for word in words[1:]:
            inner = word.excerpt
            is_script = inner is not None and len(inner.text.split()) > 1 and _OF_INTEREST.search(inner.text)
            if inner is not None and is_script and depth < _MAX_WITHIN:
                _read(inner, commands, is_page=is_page, depth=depth + 1)
    assigned = (assignment for invocation in script.invocations for assignment in invocation.assignments)
    return [*script.assignments, *assigned]


def commands_of_program(program: ScriptProgram) -> list[ScriptCommand]:
    return [
        command
        for event in program.events
        if event.kind == "call" and event.name in _SHELL_CALLS and event.args
        for command in _commands_of_call(event, program)
    ]


def _commands_of_call(event: ScriptEvent, program: ScriptProgram) -> Iterator[ScriptCommand]:
    start, end = program.text.places(event.node)
    line = program.python(event.args[0])
    if isinstance(line, str):
        commands: list[ScriptCommand] = []
        _read(Excerpt.whole(line), commands, is_page=False, depth=1)
        for command in _with_passwords(commands, line):
            words = tuple(replace(word, start=start, end=end, at=None) for word in command.words)
            password = None if command.password is None else replace(command.password, start=start, end=end, at=None)
            yield replace(command, words=words, start=start, end=end, password=password)
        return
    words_of_call = []
    for item in program.items(event.args[0]) or ():
        data = program.python(item)
        places = program.text.places(item.node) if isinstance(item.node, ast.expr) else (start, end)
        is_text = data is not MISSING and isinstance(data, (str, int))
        words_of_call.append(Word(str(data) if is_text else None, *places, str(data) if is_text else ""))
    if words_of_call:
        yield from _with_passwords([ScriptCommand(tuple(words_of_call), start, end)], "")


def hides_gpus(name: str, value: str) -> bool:
    """Whether an environment variable with a value hides every GPU from a program."""
    return name in _VISIBLE and value.strip() in _NO_GPU


def _with_passwords(commands: Sequence[ScriptCommand], text: str) -> list[ScriptCommand]:
    """Commands of a text; those that log in with the visible password."""
    marked = []
    before = None
    for command in commands:
        at = command.index(*REGISTRY_CLIENTS)
        login = None if at is None else command.index("login", start=at + 1)
        password = None if login is None else _password(command, login)
        is_piped = (
            login is not None and password is None and before is not None and "--password-stdin" in command.values
            and before.index("echo", "printf") == 0 and len(before.words) > 1 and bool(before.words[-1].value)
            and _PIPE.fullmatch(text, before.end, command.start) is not None
        )  # fmt: skip
        if is_piped and before is not None:
            password = before.words[-1]
        marked.append(replace(command, password=password, is_piped=is_piped))
        before = command
    return marked


def _password(command: ScriptCommand, login: int) -> Word | None:
    for word in command.words[login + 1 :]:
        value = word.value or ""
        if value.startswith("-p") and not value.startswith("--") and len(value) > 2:
            return cut(word, 3 if value[2] == "=" else 2)
    return command.option("-p", "--password", start=login)
