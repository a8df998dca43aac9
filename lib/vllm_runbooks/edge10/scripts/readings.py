"""Files as they are read for the toolchain: what their pieces do, the servers that they start, the steps."""

from __future__ import annotations

import ast
import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from vllm_runbooks.catalog.options import CALLS, SERVERS
from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.edge10.scripts import commands, evaluations, pieces, pure
from vllm_runbooks.edge10.scripts.commands import Command
from vllm_runbooks.edge10.scripts.evaluations import Asked
from vllm_runbooks.edge10.scripts.events import Event
from vllm_runbooks.edge10.scripts.pieces import Piece
from vllm_runbooks.edge10.scripts.program import Program
from vllm_runbooks.edge10.scripts.values import Value
from vllm_runbooks.lint.judged import Judged
from vllm_runbooks.reading.documents.python_text import NotPythonError, PythonText
from vllm_runbooks.reading.documents.starts import Found
from vllm_runbooks.reading.shell import Assignment

BUILD = "build_and_compile_llm"
_ENGINES = frozenset(("LLM", "LLMEngine", "AsyncLLMEngine", "AsyncLLM"))
_MAKERS = frozenset(("from_engine_args", "from_vllm_config"))
_INSTALL = {
    "pip": "install", "pip3": "install", "conda": "install", "mamba": "install",
    "uv": "add", "poetry": "add", "pdm": "add",
}  # fmt: skip
"""By installer the word behind which it is told what to install."""
_HOST = commands.REGISTRY | {*_INSTALL, "apt", "apt-get", "nvidia-ctk", "nvidia-smi"}
_MAPPED = re.compile(r"(?:[\d.]{7,15}:)?(\d{1,5}):(\d{1,5})(?:/tcp)?")
_DEFAULT_PORT = 8000
_SHORT = re.compile(
    r"(?<![\w:.}-])(?:\d{1,3}(?:\.\d{1,3}){3}:)?(?P<host>\d{1,5}):(?P<inner>\d{1,5})(?![\w:.-])", re.ASCII
)
"""A port of a compose file in its short form, whole."""
_ENTRY = re.compile(r"(?m)^[ \t]{0,80}-[ \t]|[{}]")
_PUBLISHED = re.compile(r"\bpublished:[ \t]{0,20}[\"']?(\d{1,5})(?![\w-])", re.ASCII)
_TARGET = re.compile(r"\btarget:[ \t]{0,20}[\"']?(\d{1,5})(?![\w-])", re.ASCII)
_DETACHED = re.compile(r"--detach(?:=true)?|-[a-zA-Z]{0,4}d[a-zA-Z]{0,4}")
_RUN = frozenset(("shell", "docker", "compose"))
"""Ways of starting a server that leave no doubt whether it runs."""
_OF_HOST = frozenset(("shell", "argv", "docker", "python", "compose"))
"""Ways of starting a server whose port is the host's, or is mapped to it as the command says."""


@dataclass(frozen=True)
class Part:
    """A piece with what it does."""

    piece: Piece
    file: str
    """The text of the whole file."""
    text: PythonText | None = None
    program: Program | None = None
    trouble: NotPythonError | None = None
    """Why it is no program, where it should be one."""
    commands: tuple[Command, ...] = ()
    assigned: tuple[Assignment, ...] = ()
    """What a script of the shell assigns."""
    asked: tuple[Asked, ...] = ()
    """The evaluations that it asks for."""
    steps: tuple[tuple[str, int], ...] = ()
    """What it does, each with the offset in the file where that shows."""

    def has(self, *steps: str) -> bool:
        """Whether it does one of these."""
        return any(step in steps for step, _ in self.steps)

    @property
    def span(self) -> tuple[int, int]:
        """Where it stands in the file."""
        at = self.piece.text.at
        return at[0], at[len(self.piece.text.text)]

    def made(self) -> list[Event]:
        """The events that make vLLM's engine, or build without one."""
        return (
            [] if self.program is None else [each for each in self.program.events if is_engine(each) or is_build(each)]
        )


def is_engine(event: Event) -> bool:
    """Whether an event makes vLLM's engine."""
    words = event.name.split(".")
    if event.kind != "call" or words[0] != "vllm":
        return False
    return words[-1] in _ENGINES or (words[-1] in _MAKERS and words[-2] in _ENGINES)


def is_build(event: Event) -> bool:
    """Whether an event builds and compiles a language model."""
    return event.kind == "call" and event.name.rpartition(".")[2] == BUILD


@dataclass(frozen=True)
class Server:
    """A server that a file starts."""

    names: frozenset[str] | None
    """Under which it answers; None: they are not known."""
    port: int | None
    """On the host; None: it is not known."""
    model: str | None
    max_model_len: int | None
    start: int
    """Offset in the file."""
    file: str = ""
    """Its name."""
    is_alone: bool = False
    """Whether it certainly runs where the file is used: neither on a condition, nor as an example of a page."""
    is_detached: bool = False
    """Whether it is a container that goes on running while the script does."""
    is_behind: bool = False
    """Whether it runs in the background of the script."""
    port_at: tuple[int, int] = (0, 0)
    """Where its port is told; the start where that is nowhere."""


@dataclass(frozen=True)
class ReadFile:
    """A file as it is read."""

    name: str
    text: str
    parts: tuple[Part, ...]
    judged: Judged
    """By the ordinary linter, on the release that the toolchain evaluates with."""

    @cached_property
    def compiled(self) -> list[Excerpt]:
        """The programs that run in the compile container, whose vLLM is another one."""
        return _compiled(self.parts)

    def is_compiled(self, offset: int) -> bool:
        """Whether a place is within such a program; between a notebook's cells of it others may stand."""
        return any(holds(program, offset) for program in self.compiled)

    @cached_property
    def servers(self) -> tuple[Server, ...]:
        """The servers that it starts."""
        return tuple(self._servers())

    def _servers(self) -> Iterator[Server]:
        for start, parsed in self.judged.parsed:
            if start.entry in CALLS or start.entry not in SERVERS:
                continue
            flags = parsed.flags
            names = flags.get("served_model_name") or parsed.model
            known = [names] if isinstance(names, str) else names
            is_told = isinstance(known, list) and all(isinstance(each, str) for each in known)
            port = flags.get("port", _DEFAULT_PORT)
            is_certain = not start.is_elided and not self.judged.has_unknown_file(start)
            port = port if isinstance(port, int) and is_certain and start.kind in _OF_HOST else None
            length = flags.get("max_model_len")
            first = start.prefix[0].start if start.prefix else start.start
            yield Server(
                frozenset(known) if is_told and is_certain and known else None,
                self._published(port, start),
                parsed.model,
                length if isinstance(length, int) else None,
                first,
                self.name,
                start.kind in _RUN and not self._is_example(start),
                any(_DETACHED.fullmatch(word.value or "") for word in start.container),
                start.invocation is not None and start.invocation.is_background,
                _port_at(start) or (first, start.end),
            )

    def _published(self, port: int | None, start: Found) -> int | None:
        """The port of the host that a server's own is given."""
        if start.kind == "docker":
            return _on_host(port, [word.value or "" for word in start.container])
        return _of_compose(port, start, self.text) if start.kind == "compose" else port

    def _is_example(self, start: Found) -> bool:
        """Whether a start runs on a condition alone, or stands in a page or in a cell."""
        if start.invocation is not None and (start.invocation.is_conditional or not start.invocation.is_reached):
            return True
        if "profiles" in start.keys:
            return True
        held = [part for part in self.parts if part.span[0] <= start.start < part.span[1]]
        return not held or any(part.piece.is_part for part in held)


def _port_at(start: Found) -> tuple[int, int] | None:
    """Where a start's port is told; None: nowhere."""
    return next(
        ((each.start, each.end) for each in start.words if (each.value or "").partition("=")[0] == "--port"), None
    )


def _of_compose(port: int | None, start: Found, text: str) -> int | None:
    """The port of the host that compose gives a container's."""
    if "network_mode" in start.keys:
        return port if "host" in text[slice(*start.keys["network_mode"])].partition(":")[2] else None
    published = text[slice(*start.keys["ports"])] if "ports" in start.keys else ""
    told = [(match["host"], match["inner"]) for match in _SHORT.finditer(published)]
    told += [
        (host[1], inner[1])
        for each in _ENTRY.split(published)
        if (host := _PUBLISHED.search(each)) and (inner := _TARGET.search(each))
    ]
    return next((int(host) for host, inner in told if int(inner) == port), None)


def _compiled(parts: Iterable[Part]) -> list[Excerpt]:
    return [part.piece.text for part in parts if part.piece.kind == "python" and part.has(*COMPILE)]


def compiled(text: str, name: str, facts: Toolchain, known: Mapping[str, str]) -> list[Excerpt]:
    """The programs of a file that run in the compile container.

    Args:
        text: Of the file.
        name: Of the file; it helps to tell its format.
        facts: Of the toolchain.
        known: As for `read`.
    """
    return _compiled(
        _program(piece, facts, known, frozenset()) for piece in pieces.cut(text, name) if piece.kind == "python"
    )


def holds(text: Excerpt, offset: int) -> bool:
    """Whether a character of a text stands at an offset of its file."""
    index = bisect_left(text.at, offset, 0, len(text.text))
    return index < len(text.text) and text.at[index] == offset


def _on_host(port: int | None, words: Sequence[str]) -> int | None:
    """The port of the host that a container's port is given."""
    if "host" in words or any(word in ("--network=host", "--net=host") for word in words):
        return port
    mapped = [match for word in words if (match := _MAPPED.fullmatch(word.partition("=")[2] or word))]
    return next((int(match[1]) for match in mapped if int(match[2]) == port), None)


COMPILE = ("compile-llm", "compile-vlm")


@dataclass(frozen=True)
class Job:
    """All files that are given together."""

    files: tuple[ReadFile, ...]
    facts: Toolchain

    @cached_property
    def servers(self) -> tuple[Server, ...]:
        return tuple(server for file in self.files for server in file.servers)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for file in self.files for part in file.parts)

    @cached_property
    def quantised(self) -> frozenset[str]:
        """Folders that quantised models are written to."""
        return frozenset(path for part in self.parts for path in outputs(part))

    @cached_property
    def conversions(self) -> tuple[tuple[str | None, str | None], ...]:
        """From which folder to which one a checkpoint is converted; None: not known."""
        return tuple(
            (_path(src.value) if src else None, _path(dst.value) if dst else None)
            for part in self.parts
            for command in part.commands
            if command.index(*self.facts.steps["convert"].programs) is not None
            for src, dst in ((command.option("--src"), command.option("--dst")),)
        )

    @cached_property
    def has_gpu(self) -> bool:
        """Whether a command gives the compile container a GPU."""
        image = self.facts.steps["compile"].image or ""
        return any(
            held.gpus is not None and held.image is not None and image in (held.image.value or held.image.raw)
            for part in self.parts
            for command in part.commands
            if (held := commands.container(command)) is not None
        )


def outputs(part: Part) -> Iterator[str]:
    """The folders that a part writes quantised models to, as far as they are known."""
    for event in saved(part):
        path = path_of(part, event.given("save_path", 1) or event.given("save_directory"))
        if path is not None:
            yield path


def saved(part: Part) -> list[Event]:
    """The events that save a quantised model."""
    if part.program is None:
        return []
    return [each for each in part.program.events if each.kind == "call" and each.name.endswith(".save_quantized_model")]


def path_of(part: Part, value: Value | None) -> str | None:
    """The path that a value is; None: it is not known."""
    if part.program is None or value is None:
        return None
    text = part.program.python(value)
    return _path(text) if isinstance(text, str) and pure.HOLE not in text else None


def _path(text: str | None) -> str | None:
    return posixpath.normpath(text) if text else None


def read(name: str, text: str, judged: Judged, facts: Toolchain, known: Mapping[str, str]) -> ReadFile:
    """A file with what its pieces do.

    Args:
        name: Of the file.
        text: Of the file.
        judged: The same text, as the ordinary linter reads it.
        facts: Of the toolchain.
        known: Dotted names of what some names stand for where a program forgets to import them.
    """
    parts: list[Part] = []
    outer: frozenset[str] = frozenset()
    for piece in pieces.cut(text, name):
        part = _part(piece, facts, known, outer, judged)
        part = replace(part, file=text, steps=_once([*part.steps, *_serving(part, judged)]))
        parts.append(part)
        if part.program is not None and piece.is_part:
            outer |= part.program.bound
    return ReadFile(name, text, tuple(parts), judged)


def _part(piece: Piece, facts: Toolchain, known: Mapping[str, str], outer: frozenset[str], judged: Judged) -> Part:
    if piece.kind == "python":
        return _program(piece, facts, known, outer)
    if piece.kind == "shell":
        return _script(piece, facts, judged)
    if piece.kind == "yaml" and evaluations.is_settings(piece.text.text):
        asked = tuple(evaluations.of_settings(piece.text))
        return Part(piece, "", asked=asked, steps=(("evaluate", piece.text.at[0]),))
    return Part(piece, "")


def _program(piece: Piece, facts: Toolchain, known: Mapping[str, str], outer: frozenset[str]) -> Part:
    try:
        text = PythonText(piece.text)
    except NotPythonError as error:
        return Part(piece, "", trouble=error)
    is_fragment = piece.is_part and not any(name.split(".")[0] in _modules(facts) for name in _imported(text))
    program = Program(text, known, piece.around | (outer if is_fragment else frozenset()))
    program.run()
    found = commands.of_program(program, text)
    asked = list(evaluations.of_program(program, text))
    asked += [one for command in found if (one := evaluations.of_command(command)) is not None]
    steps = [*_steps(program, text, facts), *_steps_of(found, facts)]
    return Part(piece, "", text, program, None, tuple(found), (), tuple(asked), _once(steps))


def _imported(text: PythonText) -> Iterator[str]:
    for node in ast.walk(text.tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _modules(facts: Toolchain) -> set[str]:
    return {module for step in facts.steps.values() for module in step.modules}


def _steps(program: Program, text: PythonText, facts: Toolchain) -> Iterator[tuple[str, int]]:
    """What a program does, by what it imports and calls."""
    roots: dict[str, int] = {}
    for event in program.events:
        roots.setdefault(event.name.split(".")[0], text.places(event.node)[0])
    compiles = min((roots[name] for name in facts.steps["compile"].modules if name in roots), default=None)
    builds = [each for each in program.events if is_build(each)]
    engines = [each for each in program.events if is_engine(each)]
    for name in facts.steps["quantise"].modules:
        if name in roots:
            yield "quantise", roots[name]
    if builds:
        yield "compile-llm", text.places(builds[0].node)[0]
    elif compiles is not None and (engines or "vllm" in roots):
        yield "compile-vlm", compiles
    elif compiles is not None:
        yield "compile-llm", compiles
    elif engines:
        yield "serve", text.places(engines[0].node)[0]
    for name in facts.steps["evaluate"].modules:
        if name in roots:
            yield "evaluate", roots[name]


def _script(piece: Piece, facts: Toolchain, judged: Judged) -> Part:
    found, given = commands.of_script(piece.text, judged.text, is_page=piece.is_part)
    asked = [one for command in found if (one := evaluations.of_command(command)) is not None]
    steps = list(_steps_of(found, facts))
    return Part(piece, "", None, None, None, tuple(found), tuple(given), tuple(asked), _once(steps))


def _serving(part: Part, judged: Judged) -> Iterator[tuple[str, int]]:
    """The servers that a part starts, whatever it is written in."""
    start, end = part.span
    for each, _ in judged.parsed:
        if each.entry not in CALLS and start <= each.start < end:
            yield "serve", each.start


def _steps_of(found: Sequence[Command], facts: Toolchain) -> Iterator[tuple[str, int]]:
    for command in found:
        if command.index(*facts.steps["convert"].programs) is not None:
            yield "convert", command.start
        if evaluations.of_command(command) is not None:
            yield "evaluate", command.start
        if command.index(*_HOST) is not None:
            yield "host", command.start


def _once(steps: Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Each step where it shows first, in the order of the text."""
    first: dict[str, int] = {}
    for step, offset in steps:
        first[step] = min(offset, first.get(step, offset))
    return tuple(sorted(first.items(), key=lambda each: each[1]))


def installs(command: Command) -> int | None:
    """Index of the first word behind `pip install`, or what other installers say; None: nothing is installed."""
    for installer, word in _INSTALL.items():
        at = command.index(installer)
        install = None if at is None else command.index(word, start=at + 1)
        if install is not None:
            return install + 1
    return None
