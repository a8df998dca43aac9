"""Read log lines, start-up functions and messages from a release's sources without running them."""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vllm_runbooks.authoring.releases.serve_checks import parsed
from vllm_runbooks.catalog import sites
from vllm_runbooks.catalog.sites import SITES, WORDINGS, Module, ModuleFunction, digest, order
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.files import store
from vllm_runbooks.core.scan import PatternSet, expand

_LEVELS = frozenset(("debug", "info", "warning", "warn", "error", "exception", "critical", "fatal", "log"))
"""Methods of a logger; with the suffix `_once` they are vLLM's own."""
_LOGGER = re.compile(r"(?:log|logger|logging|lgr|getlogger)\Z", re.IGNORECASE)
_STARTS_UP = re.compile(
    r"(?:config|engine|executor|worker|platforms|usage|plugins|profiler|utils|v1/(?:engine|executor|worker|core|utils)"
    r"|model_executor/model_loader|distributed/device_communicators|entrypoints/(?:cli|launchers|common))/.*"
    r"|(?:entrypoints|entrypoints/openai|distributed|transformers_utils|compilation|v1|multimodal)/\w{1,80}\.py"
    r"|model_executor/(?:models/registry|parameter|utils|custom_op)\.py|\w{1,80}\.py"
)
"""Source files whose functions are kept: those of a launch, without models, kernels and tools."""
_TOOLS = re.compile(r"(?:entrypoints/openai/serving_|_custom_ops|_\w{1,30}_ops\.py|\w{1,80}/.*(?:benchmark|_pb2)).*")
_PERCENT = re.compile(r"%(?:\((?P<name>\w{1,60})\))?[-#0+]{0,3}\d{0,4}(?:\.\d{1,3})?(?P<kind>[sdifgrxXeE])")
_BRACES = re.compile(r"\{(?:(?P<name>[\w.\[\]]{0,60})(?:![rsa])?(?::(?P<format>[^{}]{0,20}))?)\}")
HOLE = "\ue000"
"""Placeholder for a value in a message."""
_SHAPES = tuple(
    shape.replace("_", HOLE) for shape in ("_", "'_'", "torch.Size([_])", "[_]", "<class '_'>", "{_}", "-_")
)
_MOST_SHAPED = 3
"""In a message with more holes, only one at a time is tried in a different shape."""
_USUAL_TYPES = ("ValueError", "RuntimeError")
"""Assumed exception types of a message without one in the sources."""
_MOST_TEMPLATE = 4000
_AT_LEAST = re.compile(r"\{\d{1,4},")
_SIGN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P<\w{1,60}>|\(\?:|\{\d{0,4},?\d{0,4}\}|.", re.DOTALL)


class Template(NamedTuple):
    """A message in the sources."""

    text: str
    """With a mark where something is filled in."""
    raised: str | None


@dataclass
class ReleaseSources:
    modules: dict[str, Module] = field(default_factory=dict)
    templates: list[Template] = field(default_factory=list)


class _Call(NamedTuple):
    name: str
    is_logger: bool
    is_bare: bool
    line: int


def read_sources(package: Path) -> ReleaseSources:
    sources = ReleaseSources()
    seen: dict[str, _ModuleReading] = {}
    for file in sorted(package.rglob("*.py")):
        seen[file.relative_to(package).as_posix()] = _ModuleReading(parsed(file))
    passers = {name for reading in seen.values() for name in reading.passers}
    methods = {name for reading in seen.values() for name in reading.methods}
    for path, reading in seen.items():
        lines = {
            call.line
            for call in reading.calls
            if call.is_logger or call.name in passers or (call.is_bare and call.name in methods)
        }
        functions = reading.functions if _STARTS_UP.fullmatch(path) and not _TOOLS.match(path) else []
        if lines or functions:
            sources.modules[path] = Module(
                tuple(sorted(lines)), tuple(sorted(functions, key=lambda f: (f.first, f.last)))
            )
        sources.templates += reading.templates
    return sources


class _ModuleReading:
    def __init__(self, tree: ast.Module) -> None:
        self.calls: list[_Call] = []
        self.functions: list[ModuleFunction] = []
        self.templates: list[Template] = []
        self.passers: set[str] = set()
        """Functions that log in the name of their caller (`stacklevel`)."""
        self.methods: set[str] = set()
        """Names assigned to a logger's method, to be called later."""
        self._constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        self._walk(tree)

    def _walk(self, tree: ast.Module) -> None:
        # Not recursive: a module may nest deeper than the interpreter's stack.
        todo: list[tuple[ast.AST, str | None, str | None]] = [(tree, None, None)]
        while todo:
            node, function, raised = todo.pop()
            if isinstance(node, ast.expr):
                text = self._text(node)
                if text is not None:
                    self.templates.append(Template(" ".join(text[:_MOST_TEMPLATE].split()), raised))
                    continue
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                function, raised = node.name, None
                self.functions.append(ModuleFunction(node.name, node.lineno, node.end_lineno or node.lineno))
            elif isinstance(node, ast.Raise):
                raised = _called(node.exc)
            elif isinstance(node, ast.Assert):
                raised = "AssertionError"
            elif isinstance(node, ast.Call):
                self._take_call(node, function)
            elif isinstance(node, ast.Assign) and _holds_method(node.value):
                self.methods.update(target.id for target in node.targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # a docstring
            todo += [(child, function, raised) for child in ast.iter_child_nodes(node)]

    def _take_call(self, node: ast.Call, function: str | None) -> None:
        name = _called(node)
        if name is None:
            return
        func = node.func
        is_logger = isinstance(func, ast.Attribute) and name.removesuffix("_once") in _LEVELS and _is_logger(func.value)
        if is_logger and function and any(keyword.arg == "stacklevel" for keyword in node.keywords):
            self.passers.add(function)
        line = func.end_lineno if isinstance(func, ast.Attribute) else node.lineno
        self.calls.append(_Call(name, is_logger, isinstance(func, ast.Name), line or node.lineno))

    def _text(self, node: ast.expr) -> str | None:
        """String that an expression makes, with its holes; None if it makes none."""
        match node:
            case ast.Constant(value=str(text)):
                return _PERCENT.sub(HOLE, text).replace("%%", "%")
            case ast.JoinedStr(values=values):
                return "".join(map(self._piece, values))
            case ast.BinOp(left=ast.Constant() | ast.JoinedStr() | ast.BinOp() as left, op=ast.Mod()):
                return self._text(left)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                both = [self._text(side) for side in (left, right)]
                return None if both == [None, None] else "".join(HOLE if text is None else text for text in both)
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
                return _BRACES.sub(HOLE, text)
            case ast.Name(id=name) if name in self._constants:
                return self._text(ast.Constant(self._constants[name]))
        return None

    def _piece(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return str(node.value)
        value = node.value if isinstance(node, ast.FormattedValue) else None
        return self._constants.get(value.id, HOLE) if isinstance(value, ast.Name) else HOLE


def _called(node: ast.expr | None) -> str | None:
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def _is_logger(node: ast.expr) -> bool:
    name = _called(node)
    return name is not None and _LOGGER.search(name) is not None


def _holds_method(node: ast.expr) -> bool:
    choices = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
    return any(isinstance(part, ast.Attribute) and part.attr in _LEVELS and _is_logger(part.value) for part in choices)


def _texts(text: str) -> Iterator[str]:
    first, *rest = text.split(HOLE)
    if len(rest) <= _MOST_SHAPED:
        shapes: Iterable[Sequence[str]] = itertools.product(_SHAPES, repeat=len(rest))
    else:
        plain = [HOLE] * len(rest)
        shapes = [plain, *([*plain[:at], shape, *plain[at + 1 :]] for at in range(len(rest)) for shape in _SHAPES[1:])]
    for shape in shapes:
        yield first + "".join(map("".join, zip(shape, rest, strict=True)))


@cache
def _admitting(pattern: str) -> re.Pattern[str]:
    """Compile a pattern that accepts a hole wherever it accepts more than one text."""
    signs = []
    depths: list[bool] = []
    for sign in _SIGN.findall(expand(pattern)):
        if sign in ("\\d", "\\w"):
            signs.append(f"[{sign}{HOLE}]")
        elif sign[0] == "[" and len(sign) > 1 and sign[1] != "^" and sign != "[ \\t]":
            signs.append(f"(?:{sign}|{HOLE})")
        elif sign == ")" and depths.pop():
            signs.append(f"|{HOLE})")
        elif _AT_LEAST.match(sign):
            signs.append(_AT_LEAST.sub("{0,", sign))  # a hole is one sign, whatever its length
        else:
            if sign[:2] == "(?":
                depths.append(False)
            elif sign == "|" and depths:
                depths[-1] = True
            signs.append(sign)
    return re.compile("".join(signs), re.ASCII)


class Matcher:
    """Finds the patterns that match a release's messages; each distinct message is tried once."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._known = PatternSet(patterns)
        self._tried: dict[Template, frozenset[str]] = {}

    def found(self, templates: Iterable[Template]) -> set[str]:
        patterns: set[str] = set()
        for template in templates:
            if template not in self._tried:
                self._tried[template] = frozenset(self._try(template))
            patterns |= self._tried[template]
        return patterns

    def _try(self, template: Template) -> Iterator[str]:
        kinds = (template.raised,) if template.raised else _USUAL_TYPES
        text_of_template = " ".join((template.text, *(f"{kind}:" for kind in kinds), *_SHAPES[1:]))
        left = [self._known.patterns[index] for index in self._known.candidates(text_of_template)]
        for text in _texts(template.text) if left else ():
            for line in (text, *(f"{kind}: {text}" for kind in kinds)):
                matching = [pattern for pattern in left if _admitting(pattern).search(line)]
                yield from matching
                left = [pattern for pattern in left if pattern not in matching] if matching else left
            if not left:
                return


def patterns_of(shelf: Catalog) -> dict[str, list[str]]:
    by_id = {entry.id: [s.pattern for s in entry.signatures if s.origin == "vllm"] for entry in shelf.symptoms.values()}
    by_id |= {f"line:{entry.id}": list(entry.patterns) for entry in shelf.lines}
    return {name: patterns for name, patterns in by_id.items() if patterns}


def write(
    packages: Mapping[str, Path], shelf: Catalog, folder: Path, claimed: Mapping[str, Sequence[str]] | None = None
) -> list[Template]:
    """Read releases, each a folder `vllm`, into a folder of the catalog's data; others are kept.

    It looks for the catalog's patterns, and for the claimed ones of documents, by source. Returns
    the messages of the releases.
    """
    kept = sites.read_book(folder / SITES)
    book = {release: kept.modules(release) for release in kept.releases}
    all_patterns = {**patterns_of(shelf), **{name: list(lines) for name, lines in (claimed or {}).items()}}
    patterns = sorted({pattern for asking in all_patterns.values() for pattern in asking})
    worded = sites.read_wordings(folder / WORDINGS)
    has_pattern = {
        release: {pattern: worded.has(pattern, release) for pattern in patterns} for release in worded.releases
    }
    matcher = Matcher(patterns)
    messages: list[Template] = []
    for release in sorted(packages, key=order):
        sources = read_sources(packages[release])
        book[release] = sources.modules
        matching = matcher.found(sources.templates)
        has_pattern[release] = {pattern: pattern in matching for pattern in patterns}
        messages += sources.templates
    folder.mkdir(parents=True, exist_ok=True)
    store(folder / SITES, sites_text(book))
    store(folder / WORDINGS, wordings_text(all_patterns, has_pattern))
    sites.read_book.cache_clear()
    sites.read_wordings.cache_clear()
    return messages


def wordings_text(by_id: Mapping[str, Iterable[str]], has_pattern: Mapping[str, Mapping[str, bool | None]]) -> str:
    """The wordings file: for each pattern a sign per release: 1 a message has it, 0 none has, ? not read."""
    releases = sorted(has_pattern, key=order)
    signs = {True: "1", False: "0", None: "?"}
    rows = {
        name: {
            digest(pattern): "".join(signs[has_pattern[release][pattern]] for release in releases) for pattern in asking
        }
        for name, asking in sorted(by_id.items())
    }
    return json.dumps({"releases": releases, "patterns": rows}, indent=1) + "\n"


def sites_text(book: Mapping[str, Mapping[str, Module]]) -> str:
    """Sites file of releases, given by their modules: a file has entries for its changes only."""
    releases = sorted(book, key=order)
    blocks = []
    for path in sorted({path for modules in book.values() for path in modules}):
        before: Module | None = None
        modules = [book[release][path] for release in releases if path in book[release]]
        names = {name: None for module in modules for name in (function.name for function in module.functions)}
        numbers = {name: number for number, name in enumerate(names)}
        rows = [f" names {' '.join(names)}"] if names else []
        for release in releases:
            now = book[release].get(path)
            if now != before:
                rows.append(f" {release} {_row(now, numbers) if now else '-'}".rstrip())
            before = now
        blocks.append("\n".join([path, *rows]))
    return "\n".join([_HEAD, f"releases {' '.join(releases)}", *blocks, ""])


_HEAD = """\
# Generated from the sources of the releases; not to be edited. Below each source file, for each release in which it is
# not as in the one before: the lines that write log lines, each as its distance to the one before; behind "=" the
# functions, each with the number of its name in the file's list, from 0, its distance to the beginning of the one
# before, and its length less one; "-": gone."""


def _row(module: Module, numbers: Mapping[str, int]) -> str:
    lines = _gaps(module.sites)
    starts = _gaps([function.first for function in module.functions])
    functions = [
        f"{numbers[entry.name]} {gap} {entry.last - entry.first}"
        for entry, gap in zip(module.functions, starts, strict=True)
    ]
    return " ".join([*map(str, lines), "=", *functions] if functions else map(str, lines))


def _gaps(lines: Sequence[int]) -> list[int]:
    return [line - before for before, line in zip((0, *lines), lines, strict=False)]
