"""Servers with vLLM inside, which pass options on to it: `catalog/tables/engine_programs.yaml`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.record_forms import Authored
from vllm_runbooks.reading.documents import images
from vllm_runbooks.reading.shell import Word


@dataclass(frozen=True)
class EngineProgram(Authored):
    """A program whose arguments are options of vLLM, usually besides its own."""

    source: str
    """Where its parser is public: repository and file, or page."""
    entry: str
    """Program of vLLM whose options it accepts: serve or api_server."""
    modules: tuple[str, ...] = ()
    """Python modules that run it (`python -m`)."""
    commands: tuple[str, ...] = ()
    """First words of its command."""
    images: tuple[str, ...] = ()
    """Names of the container images that run it by default, without registry and tag."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Option of vLLM for an option of the program."""
    valued: tuple[str, ...] = ()
    """Options of the program itself with a value."""
    flags: tuple[str, ...] = ()
    """Options of the program itself without a value."""
    rejects_unknown: bool = False
    """Whether it has no options besides those of vLLM."""
    ignores_unknown: bool = False
    """Whether all its options are above, and it ignores any other argument."""

    @property
    def is_vllm(self) -> bool:
        """Whether it is part of vLLM."""
        return self.source.startswith("vllm-project/vllm ")


@cache
def by_id() -> Mapping[str, EngineProgram]:
    """The programs of the catalog."""
    return load_table("engine_programs", EngineProgram)


@cache
def _modules() -> Mapping[str, str]:
    return {module: name for name, program in by_id().items() for module in program.modules}


@cache
def _commands() -> Mapping[str, Sequence[tuple[tuple[str, ...], str]]]:
    commands: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for name, program in by_id().items():
        for words in map(str.split, program.commands):
            commands.setdefault(words[0], []).append((tuple(words), name))
    return commands


@cache
def _pattern() -> re.Pattern[str]:
    modules = "|".join(map(re.escape, _modules()))
    commands = "|".join(r"[ \t]+".join(map(re.escape, words)) for rows in _commands().values() for words, _ in rows)
    return re.compile(rf"-m[ \t\\\n]{{0,20}}(?:{modules})(?![\w.])|(?<![\w.-])(?:{commands})(?![\w-])")


def may_run(text: str) -> bool:
    """Whether a text may contain a command of such a program."""
    return _pattern().search(text) is not None


def of_module(module: str) -> str | None:
    """Id of the program of a Python module."""
    return _modules().get(module)


def of_command(words: Sequence[str]) -> str | None:
    """Id of the program that a command begins with."""
    for begin, name in _commands().get(words[0], ()):
        if tuple(words[: len(begin)]) == begin:
            return name
    return None


def size_of(name: str) -> int:
    """Number of words of a program's command."""
    return len(by_id()[name].commands[0].split())


def of_image(image: str | None) -> str | None:
    """Id of the program that a container image runs by default."""
    name = images.parse(image).name
    return next((program for program, row in by_id().items() if name in row.images), None)


def of_vllm(program: EngineProgram, words: Sequence[Word]) -> list[Word]:
    """The words of a command that are vLLM's: renamed options, and none that the program reads itself."""
    made: list[Word] = []
    is_skipped = False
    for word in words:
        name, equals, _ = (word.value or "").partition("=")
        if is_skipped and not (word.value or "").startswith("--"):
            is_skipped = False
            continue
        is_skipped = False
        if name in program.valued:
            is_skipped = not equals
        elif name in program.renamed:
            new = program.renamed[name]
            made.append(replace(word, value=f"{new}{(word.value or '')[len(name) :]}", at=None))
        elif name not in program.flags:
            made.append(word)
    return made
