"""Read the files of a job: the actions of their pieces, the servers, the steps of the toolchain."""

from __future__ import annotations

import ast
import posixpath
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from vllm_runbooks.catalog.options import CALLS, SERVERS
from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.core.excerpt import Excerpt, Replacement
from vllm_runbooks.edge10.scripts import commands, evaluations
from vllm_runbooks.edge10.scripts.commands import ScriptCommand
from vllm_runbooks.edge10.scripts.evaluations import EvaluationRequest
from vllm_runbooks.edge10.scripts.operations import is_known_text
from vllm_runbooks.edge10.scripts.pieces import FilePiece, cut_file
from vllm_runbooks.edge10.scripts.program import ScriptProgram
from vllm_runbooks.edge10.scripts.values import ScriptEvent, ScriptValue
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.lint.linted_text import LintedText
from vllm_runbooks.reading.documents.python_text import NotPythonError, PythonText
from vllm_runbooks.reading.shell import Assignment

BUILD = "build_and_compile_llm"
COMPILE = ("compile-llm", "compile-vlm")
_ENGINES = frozenset(("LLM", "LLMEngine", "AsyncLLMEngine", "AsyncLLM"))
_ENGINE_MAKERS = frozenset(("from_engine_args", "from_vllm_config"))
_INSTALLERS = ("pip", "pip3", "conda", "mamba")
_HOST_PROGRAMS = (*commands.REGISTRY_CLIENTS, *_INSTALLERS, "apt", "apt-get", "nvidia-ctk", "nvidia-smi")
_DEFAULT_PORT = 8000


@dataclass(frozen=True)
class FilePart:
    """Piece of a file, with its actions."""

    piece: FilePiece
    file: str
    """Text of the whole file."""
    program: ScriptProgram | None = None
    error: NotPythonError | None = None
    """Why it is not valid Python."""
    commands: tuple[ScriptCommand, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    """Assignments of a shell script."""
    requests: tuple[EvaluationRequest, ...] = ()
    steps: tuple[tuple[str, int], ...] = ()
    """Steps of the toolchain, each with its offset in the file."""

    def has(self, *steps: str) -> bool:
        return any(step in steps for step, _ in self.steps)

    @property
    def span(self) -> tuple[int, int]:
        at = self.piece.text.at
        return at[0], at[len(self.piece.text.text)]

    def hit(self, rule: str, node: ast.AST | None, values: Mapping[str, str], edits: Sequence[Replacement] = ()) -> Hit:
        if self.program is None or node is None or not hasattr(node, "end_lineno"):
            return Hit(rule, self.span[0], self.span[0], values)
        return Hit(rule, *self.program.text.places(node), values, tuple(edits))

    def replace_constant(self, node: ast.AST | None, text: str) -> tuple[Replacement, ...]:
        """Edit that replaces a literal; none if the node is something else."""
        node = node.value if isinstance(node, ast.keyword) else node
        if self.program is None or not isinstance(node, ast.Constant):
            return ()
        return (Replacement(*self.program.text.places(node), text),)


def is_engine(event: ScriptEvent) -> bool:
    words = event.name.split(".")
    if event.kind != "call" or words[0] != "vllm":
        return False
    return words[-1] in _ENGINES or (words[-1] in _ENGINE_MAKERS and words[-2] in _ENGINES)


def is_build(event: ScriptEvent) -> bool:
    return event.kind == "call" and event.name.rpartition(".")[2] == BUILD


def compile_calls(program: ScriptProgram | None) -> list[ScriptEvent]:
    """Events that build a model or make an engine."""
    return [event for event in program.events if is_engine(event) or is_build(event)] if program is not None else []


@dataclass(frozen=True)
class ScriptServer:
    """Server that a file launches."""

    names: frozenset[str] | None
    """Served names; None if unknown."""
    port: int | None
    """Port on the host; None if unknown."""
    model: str | None
    start: int
    """Offset in the file."""


@dataclass(frozen=True)
class ReadFile:
    """File with its parts."""

    name: str
    text: str
    parts: tuple[FilePart, ...]
    judged: LintedText
    """The file as the ordinary linter reads it."""

    @cached_property
    def compile_programs(self) -> list[Excerpt]:
        return _compile_programs(self.parts)

    def is_compiled(self, offset: int) -> bool:
        return any(contains_offset(program, offset) for program in self.compile_programs)

    @cached_property
    def servers(self) -> tuple[ScriptServer, ...]:
        return tuple(self._servers())

    def _servers(self) -> Iterator[ScriptServer]:
        for launch, parsed in self.judged.parsed:
            if launch.entry in CALLS or launch.entry not in SERVERS:
                continue
            flags = parsed.flags
            names = flags.get("served_model_name") or parsed.model
            names = [names] if isinstance(names, str) else names
            is_known = not launch.is_elided and not self.judged.has_unknown_file(launch)
            are_names = isinstance(names, list) and bool(names) and all(isinstance(name, str) for name in names)
            # The published port of a container is not read.
            port = flags.get("port", _DEFAULT_PORT) if is_known and launch.kind in ("shell", "argv", "python") else None
            start = launch.prefix[0].start if launch.prefix else launch.start
            yield ScriptServer(
                frozenset(names) if isinstance(names, list) and are_names and is_known else None,
                port if isinstance(port, int) else None,
                parsed.model,
                start,
            )


def contains_offset(text: Excerpt, offset: int) -> bool:
    index = bisect_left(text.at, offset, 0, len(text.text))
    return index < len(text.text) and text.at[index] == offset


def _compile_programs(parts: Iterable[FilePart]) -> list[Excerpt]:
    return [part.piece.text for part in parts if part.piece.kind == "python" and part.has(*COMPILE)]


def find_compile_programs(text: str, name: str, facts: Toolchain, imports: Mapping[str, str]) -> list[Excerpt]:
    """Programs of a file that run in the compile container; `name` helps to find out its format."""
    return _compile_programs(
        _read_program(piece, text, facts, imports, frozenset())
        for piece in cut_file(text, name)
        if piece.kind == "python"
    )


@dataclass(frozen=True)
class ScriptSet:
    """Files that are checked together."""

    files: tuple[ReadFile, ...]
    facts: Toolchain

    @cached_property
    def servers(self) -> tuple[ScriptServer, ...]:
        return tuple(server for file in self.files for server in file.servers)

    @cached_property
    def parts(self) -> tuple[FilePart, ...]:
        return tuple(part for file in self.files for part in file.parts)

    @cached_property
    def quantised(self) -> frozenset[str]:
        paths = (path_of(part, value) for part in self.parts for _, value in saved_models(part))
        return frozenset(path for path in paths if path is not None)

    @cached_property
    def converted(self) -> tuple[str | None, ...]:
        """Folders that checkpoints are converted to; None for one that is unknown."""
        programs = self.facts.steps["convert"].programs
        options = (
            command.option("--dst")
            for part in self.parts
            for command in part.commands
            if command.index(*programs) is not None
        )
        return tuple(_normalized(option.value) if option is not None else None for option in options)


def saved_models(part: FilePart) -> list[tuple[ScriptEvent, ScriptValue | None]]:
    """Events that save a quantised model, each with the folder."""
    events = part.program.events if part.program is not None else []
    return [
        (event, event.argument("save_path", 1) or event.argument("save_directory"))
        for event in events
        if event.kind == "call" and event.name.endswith(".save_quantized_model")
    ]


def path_of(part: FilePart, value: ScriptValue | None) -> str | None:
    text = part.program.python(value) if part.program is not None else None
    return _normalized(text) if isinstance(text, str) and is_known_text(text) else None


def _normalized(text: str | None) -> str | None:
    return posixpath.normpath(text) if text else None


def read_file(name: str, text: str, judged: LintedText, facts: Toolchain, imports: Mapping[str, str]) -> ReadFile:
    """Read a file; `imports` has the dotted names of frequently forgotten imports."""
    parts: list[FilePart] = []
    bound: frozenset[str] = frozenset()
    for piece in cut_file(text, name):
        if piece.kind == "python":
            part = _read_program(piece, text, facts, imports, bound)
        else:
            part = _read_piece(piece, text, facts, judged)
        start, end = part.span
        served = [
            ("serve", launch.start)
            for launch, _ in judged.parsed
            if launch.entry not in CALLS and start <= launch.start < end
        ]
        parts.append(replace(part, steps=_first_of_each([*part.steps, *served])))
        if part.program is not None and piece.is_part:
            bound |= part.program.bound
    return ReadFile(name, text, tuple(parts), judged)


def _read_piece(piece: FilePiece, text: str, facts: Toolchain, judged: LintedText) -> FilePart:
    if piece.kind == "shell":
        shell_commands, assignments = commands.commands_of_script(piece.text, judged.text, is_page=piece.is_part)
        steps = tuple(_steps_of_commands(shell_commands, facts))
        return FilePart(
            piece,
            text,
            commands=tuple(shell_commands),
            assignments=tuple(assignments),
            requests=_requests(shell_commands),
            steps=steps,
        )
    if piece.kind == "yaml" and evaluations.is_settings(piece.text.text):
        requests = tuple(evaluations.requests_of_settings(piece.text))
        return FilePart(piece, text, requests=requests, steps=(("evaluate", piece.text.at[0]),))
    return FilePart(piece, text)


def _requests(shell_commands: Sequence[ScriptCommand]) -> tuple[EvaluationRequest, ...]:
    requests = (evaluations.request_of_command(command) for command in shell_commands)
    return tuple(request for request in requests if request is not None)


def _read_program(
    piece: FilePiece, file: str, facts: Toolchain, imports: Mapping[str, str], bound: frozenset[str]
) -> FilePart:
    try:
        text = PythonText(piece.text)
    except NotPythonError as error:
        return FilePart(piece, file, error=error)
    is_fragment = piece.is_part and not any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in text.tree.body)
    program = ScriptProgram(text, imports, piece.around | (bound if is_fragment else frozenset()))
    shell_commands = commands.commands_of_program(program)
    return FilePart(
        piece,
        file,
        program,
        commands=tuple(shell_commands),
        requests=(*evaluations.requests_of_program(program), *_requests(shell_commands)),
        steps=_first_of_each([*_steps_of_program(program, facts), *_steps_of_commands(shell_commands, facts)]),
    )


def _steps_of_program(program: ScriptProgram, facts: Toolchain) -> Iterator[tuple[str, int]]:
    places = program.text.places
    roots: dict[str, int] = {}
    for event in program.events:
        roots.setdefault(event.name.split(".")[0], places(event.node)[0])
    compiles = min((roots[name] for name in facts.steps["compile"].modules if name in roots), default=None)
    build = next(filter(is_build, program.events), None)
    engine = next(filter(is_engine, program.events), None)
    if build is not None:
        yield "compile-llm", places(build.node)[0]
    elif compiles is not None:
        yield "compile-vlm" if engine is not None or "vllm" in roots else "compile-llm", compiles
    elif engine is not None:
        yield "serve", places(engine.node)[0]
    for step in ("quantise", "evaluate"):
        for name in facts.steps[step].modules:
            if name in roots:
                yield step, roots[name]


def _steps_of_commands(shell_commands: Sequence[ScriptCommand], facts: Toolchain) -> Iterator[tuple[str, int]]:
    for command in shell_commands:
        if command.index(*facts.steps["convert"].programs) is not None:
            yield "convert", command.start
        if evaluations.request_of_command(command) is not None:
            yield "evaluate", command.start
        if command.index(*_HOST_PROGRAMS) is not None:
            yield "host", command.start


def _first_of_each(steps: Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    first: dict[str, int] = {}
    for step, offset in steps:
        first[step] = min(offset, first.get(step, offset))
    return tuple(sorted(first.items(), key=lambda item: item[1]))


def find_requirements(command: ScriptCommand) -> int | None:
    """Index of the first word after `pip install` or similar; None if nothing is installed."""
    at = command.index(*_INSTALLERS)
    install = None if at is None else command.index("install", start=at + 1)
    return None if install is None else install + 1
