"""What is wrong in what a host's shell is given: passwords that are shown, threads that do not go with a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_runbooks.catalog.languages import Phrase
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.edge10.scripts import commands
from vllm_runbooks.edge10.scripts.commands import Command, Login
from vllm_runbooks.edge10.scripts.readings import Job, Part, ReadFile
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.reading.shell import Word

_UNKNOWN = "\0"
"""What stands in a program's text for a value that is not known."""
_THREAD, _RULE = "COMPILE_THREAD", "edge10.compile-threads"
_CHOICE = re.compile(
    r"\b(?:el)?if\b[^\n]{0,200}(?:nvidia-smi|/dev/nvidia)|(?:nvidia-smi|/dev/nvidia)[^\n]{0,200}(?:&&|\|\|)"
)
"""A command that is run by whether the host has a GPU."""
_HOW = {
    "option": Phrase("as an option"),
    "pipe": Phrase("by a pipe, from a command that has it"),
    "here": Phrase("on standard input, from the script itself"),
    "credentials": Phrase("within another word"),
}


def find(part: Part, job: Job) -> Iterator[Hit]:
    """What is wrong in one part."""
    for command, login in logins(part):
        says = {"how": _HOW[login.how], "program": _program(command)}
        yield Hit("edge10.password-in-command", command.start, max(command.end, login.word.end), says)
    if part.piece.kind == "shell":
        yield from _threads(part, job)


def logins(part: Part) -> Iterator[tuple[Command, Login]]:
    """The passwords that a part's commands show."""
    for command in part.commands:
        for login in command.logins:
            yield command, login


def secrets(file: ReadFile) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
    """The passwords that a file shows, each with where it stands."""
    for part in file.parts:
        for _, login in logins(part):
            value = login.word.value
            if not value or not value.strip(_UNKNOWN):
                continue
            yield value, _places(file.text, login.word, value)
            for one in part.assigned:  # of a variable it is the value that is secret
                if one.value.value == value:
                    yield value, ((one.value.start, one.value.end),)


def _places(text: str, word: Word, value: str) -> tuple[tuple[int, int], ...]:
    """Where a password stands: in a program's call the value's places; the whole call where it is coded."""
    if word.at is None:
        whole = re.compile(rf"(?<!\w){re.escape(value)}(?!\w)")
        found = [match.span() for match in whole.finditer(text, word.start, word.end)]
        if found:
            return tuple(found)
    return ((word.start, word.end),)


def _program(command: Command) -> str:
    at = command.index(*commands.REGISTRY)
    return command.values[at].rpartition("/")[2] if at is not None else Phrase("the command")


def _threads(part: Part, job: Job) -> Iterator[Hit]:
    """More than one thread for a container that is given a GPU."""
    right = job.facts.limits.threads_with_gpu
    told: set[int] = set()
    for command in part.commands:
        held = commands.container(command)
        for setting in held.settings if held is not None and held.gpus is not None else ():
            if setting.name == _THREAD:
                yield from _told(setting.value, setting.start, setting.end, right, told)
    if job.has_gpu and not _asks_itself(part):
        for one in part.assigned:
            if one.name == _THREAD and one.exported:
                yield from _told(one.value, one.start, one.end, right, told)


def _asks_itself(part: Part) -> bool:
    """Whether a script hides the GPUs, or asks the host: what another file starts tells nothing then."""
    exported = [one for one in part.assigned if one.exported]
    is_hidden = any(commands.hides_gpus(one.name, one.value.value) for one in exported)
    return is_hidden or _CHOICE.search(part.piece.text.text) is not None


def _told(value: Word, start: int, end: int, right: str, told: set[int]) -> Iterator[Hit]:
    if value.value is None or value.value == right or start in told:
        return
    told.add(start)
    is_bare = value.at is not None and len(value.at) == len(value.value) and value.value
    edits = (Replacement(value.at[0], value.at[-1] + 1, right),) if is_bare and value.at is not None else ()
    where = Phrase("With a GPU, which the container is given here,")
    yield Hit(_RULE, start, end, {"value": value.value, "right": right, "where": where}, edits)
