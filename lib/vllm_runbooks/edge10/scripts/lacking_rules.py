"""What a compile script lacks, or has otherwise, of what makes its run a compile.

Something is missing only where nothing could have done it that is not followed: a module of the script's own, names
that are worked out, a function that may be called from elsewhere.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from vllm_runbooks.catalog.toolchains import ScriptPart
from vllm_runbooks.edge10.scripts import pure
from vllm_runbooks.edge10.scripts.compile_rules import hit
from vllm_runbooks.edge10.scripts.compiled import MODE, Compiled
from vllm_runbooks.edge10.scripts.events import Event
from vllm_runbooks.edge10.scripts.readings import COMPILE, Job, Part
from vllm_runbooks.edge10.scripts.values import Made, Value
from vllm_runbooks.lint.hits import Hit

_MISSING, _LEFT_OUT, _OTHER = "edge10.setting-missing", "edge10.setting-left-out", "edge10.setting-other"
_PACKAGES = frozenset((
    "PIL", "absl", "accelerate", "attr", "attrs", "av", "cattrs", "click", "colorlog", "configargparse", "cv2",
    "datasets", "decord", "dotenv", "einops", "fire", "huggingface_hub", "hydra", "imageio", "jsonargparse", "loguru",
    "modelscope", "numpy", "omegaconf", "onnx", "packaging", "pandas", "psutil", "pydantic", "qwen_vl_utils",
    "requests", "rich", "ruamel", "safetensors", "scipy", "simple_parsing", "tomli", "torch", "torchaudio",
    "torchvision", "tqdm", "transformers", "typer", "typing_extensions", "tyro", "vllm", "yaml",
))  # fmt: skip
"""What others wrote without a thought of the toolchain: importing it sets nothing of the toolchain's."""
_OPENING = frozenset(("exec", "eval", "__import__", "globals", "locals", "vars"))
_LOADERS = frozenset(("importlib", "runpy", "pkgutil", "imp"))
_NAMING = frozenset(("getattr", "setattr"))
_GUARD, _VISION = "edge10.no-main-guard", "edge10.remap-of-vision"
_OWN = "LM_die_remap"
"""The order of the dies of the part that every model has."""
_ANEW = "spawn"
"""How a process is started that reads its program again."""
_ALONE = 1
"""One die: vLLM counts one device, and its own checks hold."""


def find(part: Part, job: Job) -> Iterator[Hit]:
    """What a part that compiles lacks, and what it has otherwise than the toolchain's guide."""
    if part.program is None or part.text is None or not part.program.is_whole:
        return
    kind = next((kind for kind in ("llm", "vlm") if part.has(f"compile-{kind}")), None)
    one = Compiled(part, part.program, job.facts)
    made = [each for each in (one.builds if kind == "llm" else one.engines) if each.arms[0] == (0, 0)]
    if kind is None or not part.has(*COMPILE) or not made:
        return
    script = _Script(one, job, made[0])
    lacking: dict[bool, list[ScriptPart]] = {True: [], False: []}
    for wanted in job.facts.script:
        if wanted.kind != kind:
            continue
        found = script.found(wanted)
        other = [(event, value) for event, value in found if not _is_as(wanted, one.program.python(value))]
        if found and len(other) == len(found):
            event, value = other[-1]
            says = {"name": wanted.name, "value": str(one.program.python(value)), "right": str(wanted.value)}
            yield hit(part, _OTHER, event.place(wanted.name), says)
        elif not found and script.lacks(wanted):
            lacking[wanted.is_needed].append(wanted)
    if script.starts_anew():
        yield hit(part, _GUARD, made[0].node, {})
    if kind == "llm":
        yield from _of_vision(one, script)
    for is_needed, rule in ((True, _MISSING), (False, _LEFT_OUT)):
        if lacking[is_needed]:
            what = ", ".join(_shown(each) for each in lacking[is_needed])
            yield hit(part, rule, made[0].node, {"what": what})


def _of_vision(one: Compiled, script: _Script) -> Iterator[Hit]:
    """An order of the dies for a part of the model that a language model does not have, in place of its own."""
    own = next((name for name in one.facts.settings if name == _OWN), None)
    if own is None or own in one.remaps or not script.lacks(ScriptPart("llm", "mode", own)):
        return
    for name, settings in one.remaps.items():
        event, value = settings[-1]
        if any(one.numbers(value) or ()):
            yield hit(one.part, _VISION, event.node, {"name": name, "own": own})


def _is_as(wanted: ScriptPart, value: object) -> bool:
    """Whether a value is the one that is wanted, or may be."""
    return wanted.value is None or not isinstance(value, (str, int, bool)) or str(value) == wanted.value


def _shown(wanted: ScriptPart) -> str:
    """What is lacking, as a message has it."""
    if wanted.form == "call":
        return f"{wanted.name}(…)"
    return f"{wanted.name} = {wanted.value}" if wanted.value else wanted.name


class _Script:
    """What a script does before it compiles, and what it may do."""

    def __init__(self, one: Compiled, job: Job, made: Event) -> None:
        self._one, self._job, self._made = one, job, made
        self._forms: Mapping[str, Callable[[str], list[tuple[Event, Value | None]]]] = {
            "call": self._called, "mode": self._modes, "patch": self._patched, "argument": self._given,
            "variable": self._variables,
        }  # fmt: skip

    def found(self, wanted: ScriptPart) -> list[tuple[Event, Value | None]]:
        """Where the script does something, on any way that compiles."""
        return [(event, value) for event, value in self._forms[wanted.form](wanted.name) if self._happens(event)]

    def _happens(self, event: Event) -> bool:
        return not event.is_beside(self._made)

    def _called(self, name: str) -> list[tuple[Event, Value | None]]:
        return [
            (each, each.args[-1] if each.args else next(iter(each.keywords.values()), None))
            for each in self._one.program.events
            if each.kind == "call" and each.name.rpartition(".")[2] == name
        ]

    def _modes(self, name: str) -> list[tuple[Event, Value | None]]:
        return [(event, value) for event, value in self._one.modes(name)]

    def _patched(self, name: str) -> list[tuple[Event, Value | None]]:
        return [
            (each, None)
            for each in self._one.program.events
            if each.kind == "assign" and each.name.startswith("vllm.") and each.name.endswith(f".{name}")
        ]

    def _given(self, name: str) -> list[tuple[Event, Value | None]]:
        """An argument of the engine, also where it is made of arguments that are put together before."""
        first = self._made.args[0] if self._made.args else None
        made: Made | None = first.data if first is not None and first.kind == "made" else None
        keywords = self._made.keywords if made is None else {**made.keywords, **self._made.keywords}
        return [(self._made, keywords[name])] if name in keywords else []

    def _variables(self, name: str) -> list[tuple[Event, Value | None]]:
        return [
            (each, each.args[0] if each.args else None)
            for each in self._one.program.events
            if each.kind == "environ" and each.name == name
        ]

    def lacks(self, wanted: ScriptPart) -> bool:
        """Whether certainly nothing does it: neither here, nor where this reading does not reach."""
        word = wanted.name.rpartition(".")[2]
        if not self._is_closed or (wanted.form == "patch" and self._dies in (None, _ALONE)):
            return False
        if wanted.form == "variable":
            return not any(word in file.text for file in self._job.files)
        if wanted.form == "mode" and any(_is_any_mode(each) for each, _ in self._called(MODE)):
            return False
        if self._one.part.piece.is_part and word in self._one.part.file:
            return False
        if wanted.form == "argument" and (self._made.is_open or self._made.name.rpartition(".")[2] != "LLM"):
            return False
        return word not in self._words

    def starts_anew(self) -> bool:
        """Whether processes are started by reading the script again, and it makes the engine wherever it is read."""
        started = [
            (event, value)
            for wanted in self._job.facts.script
            if wanted.form == "variable" and wanted.value == _ANEW and self._made in self._one.engines
            for event, value in self.found(wanted)
        ]
        is_set = any(self._one.program.python(value) == _ANEW for _, value in started)
        is_script = self._one.part.piece.kind == "python" and not self._one.part.piece.is_part
        is_notebook = self._one.part.file.lstrip().startswith("{")
        return is_set and is_script and not is_notebook and "__name__" not in self._words

    @property
    def _dies(self) -> int | None:
        return self._one.dies.value if self._one.dies is not None else None

    @cached_property
    def _nodes(self) -> Sequence[ast.AST]:
        return list(ast.walk(self._one.program.text.tree))

    @cached_property
    def _is_closed(self) -> bool:
        """Whether all that the script does stands in it, and can be read."""
        if self._one.part.piece.around:
            return False
        known = _PACKAGES | sys.stdlib_module_names | set(self._job.facts.steps["compile"].modules)
        for node in self._nodes:
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""] if not node.level else [""]
                if any(each.name == "*" for each in node.names):
                    return False
            elif isinstance(node, ast.Call):
                if _is_open(node):
                    return False
                continue
            else:
                continue
            roots = {name.split(".")[0] for name in names}
            if roots - known or roots & _LOADERS:
                return False
        return True

    @cached_property
    def _words(self) -> frozenset[str]:
        """Names and texts of all that may be run, whether or not it was followed."""
        idle = {id(each) for function in self._idle for each in ast.walk(function)}
        found: set[str] = set()
        for node in self._nodes:
            if id(node) not in idle:
                found.update(_words_of(node))
        return frozenset(found)

    @cached_property
    def _idle(self) -> list[ast.AST]:
        """Functions that nothing in the script names, so that nothing calls them."""
        functions = [each for each in self._nodes if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
        named = [word for node in self._nodes for word in _words_of(node)]
        return [
            each
            for each in functions
            if not each.decorator_list and not each.name.startswith("__") and each.name not in named
        ]


def _is_any_mode(event: Event) -> bool:
    """Whether a call sets a mode whose name is not known."""
    first = event.given("mode", 0)
    return first is None or first.kind != "plain" or pure.HOLE in str(first.data)


def _is_open(call: ast.Call) -> bool:
    """Whether a call may run, or name, anything."""
    if not isinstance(call.func, ast.Name):
        return False
    if call.func.id in _NAMING:
        return len(call.args) < 2 or not isinstance(call.args[1], ast.Constant)
    return call.func.id in _OPENING


def _words_of(node: ast.AST) -> Iterator[str]:
    """The names that a node says."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
