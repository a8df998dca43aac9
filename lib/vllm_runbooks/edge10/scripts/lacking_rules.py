"""Find what a compile script lacks of what makes its run a compile.

Something is missing only where nothing could have done it that is not followed: a module of the script's own, names
that are computed, a function that may be called from elsewhere.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from vllm_runbooks.catalog.toolchains import ScriptPart
from vllm_runbooks.edge10.scripts.compiled import MODE, CompileSettings
from vllm_runbooks.edge10.scripts.operations import is_known_text
from vllm_runbooks.edge10.scripts.readings import FilePart, ScriptSet
from vllm_runbooks.edge10.scripts.values import ScriptEvent, ScriptValue
from vllm_runbooks.lint.hits import Hit

_MISSING, _LEFT_OUT, _OTHER = "edge10.setting-missing", "edge10.setting-left-out", "edge10.setting-other"
_PACKAGES = frozenset((
    "PIL", "accelerate", "click", "cv2", "datasets", "dotenv", "einops", "fire", "huggingface_hub", "loguru",
    "modelscope", "numpy", "onnx", "packaging", "pandas", "psutil", "pydantic", "qwen_vl_utils", "requests", "rich",
    "safetensors", "scipy", "torch", "torchvision", "tqdm", "transformers", "typer", "vllm", "yaml",
))  # fmt: skip
"""Packages that set nothing of the toolchain's when they are imported."""
_OPEN_CALLS = frozenset(("exec", "eval", "__import__", "globals", "locals", "vars"))
_LOADERS = frozenset(("importlib", "runpy", "pkgutil", "imp"))


def find(part: FilePart, scripts: ScriptSet) -> Iterator[Hit]:
    """Settings of the guide's script that a compile script lacks, or that have another value."""
    kind = next((kind for kind in ("llm", "vlm") if part.has(f"compile-{kind}")), None)
    if part.program is None or not part.program.is_complete or kind is None:
        return
    settings = CompileSettings(part, part.program, scripts.facts)
    calls = [event for event in (settings.builds if kind == "llm" else settings.engines) if event.branches[0] == (0, 0)]
    if not calls:
        return
    call = calls[0]
    lacking: dict[bool, list[str]] = {True: [], False: []}
    is_closed = _is_closed(part, scripts)
    for setting in scripts.facts.script:
        if setting.kind != kind:
            continue
        uses = [(event, value) for event, value in _uses(settings, call, setting) if not event.excludes(call)]
        others = [use for use in uses if not _is_as(setting, settings.program.python(use[1]))]
        if uses and len(others) == len(uses):
            event, value = others[-1]
            message = {
                "name": setting.name,
                "value": str(settings.program.python(value)),
                "right": str(setting.value),
            }
            yield part.hit(_OTHER, event.argument_node(setting.name), message)
        elif not uses and is_closed and not _may_have(settings, call, setting, scripts):
            name = f"{setting.name}(…)" if setting.form == "call" else setting.name
            lacking[setting.is_needed].append(
                f"{name} = {setting.value}" if setting.value and name == setting.name else name
            )
    for is_needed, rule in ((True, _MISSING), (False, _LEFT_OUT)):
        if lacking[is_needed]:
            yield part.hit(rule, call.node, {"what": ", ".join(lacking[is_needed])})


def _is_as(setting: ScriptPart, value: object) -> bool:
    return setting.value is None or not isinstance(value, (str, int, bool)) or str(value) == setting.value


def _uses(
    settings: CompileSettings, call: ScriptEvent, setting: ScriptPart
) -> list[tuple[ScriptEvent, ScriptValue | None]]:
    if setting.form == "mode":
        return [(event, value) for event, value in settings.modes(setting.name)]
    if setting.form == "argument":
        made = call.args[0].data if call.args and call.args[0].kind == "result" else None
        keywords = {**(made.keywords if made is not None else {}), **call.keywords}
        return [(call, keywords[setting.name])] if setting.name in keywords else []
    kind = {"call": "call", "patch": "assign", "variable": "environ"}[setting.form]
    return [
        (event, event.args[-1] if event.args and setting.form != "patch" else None)
        for event in settings.program.events
        if event.kind == kind and f".{event.name}".endswith(f".{setting.name}")
    ]


def _may_have(settings: CompileSettings, call: ScriptEvent, setting: ScriptPart, scripts: ScriptSet) -> bool:
    """Whether a script may have a setting where it is not followed."""
    word = setting.name.rpartition(".")[2]
    if setting.form == "patch" and (settings.dies is None or settings.dies.value == 1):
        return True  # of one die vLLM counts one device, and its own checks hold
    if setting.form == "variable":
        return any(word in file.text for file in scripts.files)
    if setting.form == "mode" and any(_has_unknown_mode(event) for event in settings.program.events):
        return True
    if setting.form == "argument" and (call.is_open or call.name.rpartition(".")[2] != "LLM"):
        return True
    is_page = settings.part.piece.is_part and word in settings.part.file
    return is_page or word in _reachable_words(settings.program.text.tree)


def _has_unknown_mode(event: ScriptEvent) -> bool:
    if event.kind != "call" or event.name.rpartition(".")[2] != MODE:
        return False
    mode = event.argument("mode", 0)
    return mode is None or not is_known_text(mode.data)


def _is_closed(part: FilePart, scripts: ScriptSet) -> bool:
    """Whether all that a script does is in it, and can be read."""
    if part.program is None or part.piece.around:
        return False
    packages = (_PACKAGES | sys.stdlib_module_names | {*scripts.facts.steps["compile"].modules}) - _LOADERS
    for node in ast.walk(part.program.text.tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            is_star = any(alias.name == "*" for alias in node.names)
            names = ["" if node.level or is_star else node.module or ""]
        elif isinstance(node, ast.Call) and _is_open(node):
            return False
        if any(name.split(".")[0] not in packages for name in names):
            return False
    return True


def _is_open(call: ast.Call) -> bool:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name in ("getattr", "setattr"):
        return len(call.args) < 2 or not isinstance(call.args[1], ast.Constant)
    return name in _OPEN_CALLS


def _reachable_words(tree: ast.Module) -> set[str]:
    """Names and texts of a script, without functions that nothing names."""
    nodes = list(ast.walk(tree))
    named = {word for node in nodes for word in _words(node)}
    functions = (node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    idle = {
        node
        for function in functions
        if not function.decorator_list and not function.name.startswith("__") and function.name not in named
        for node in ast.walk(function)
    }
    return {word for node in nodes if node not in idle for word in _words(node)}


def _words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
