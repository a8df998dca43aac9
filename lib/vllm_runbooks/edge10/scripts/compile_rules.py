"""Check scripts that compile: the order of their settings, dies, lengths, names of folders, threads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

from vllm_runbooks.catalog.languages import Phrase, listed
from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.edge10 import models
from vllm_runbooks.edge10.folder_names import pattern_of
from vllm_runbooks.edge10.scripts import commands
from vllm_runbooks.edge10.scripts.compiled import MODE, REMAP, CompileSettings, folder_text
from vllm_runbooks.edge10.scripts.readings import COMPILE, FilePart, ScriptSet, is_build, is_engine
from vllm_runbooks.edge10.scripts.values import HOLE, MISSING, ScriptEvent, ScriptOption, ScriptValue
from vllm_runbooks.lint.hits import Hit

Tables = Mapping[str, Mapping[str, Any]]
_LATE, _PARSED, _PATCH = "edge10.setting-too-late", "edge10.setting-after-parsing", "edge10.patch-too-late"
_LENGTH, _TWICE, _DIFFER = "edge10.remap-length", "edge10.remap-set-twice", "edge10.dies-differ"
_THREADS = "COMPILE_THREAD"
_ALIKE = 0.8
"""Similarity (difflib) from which a name is a misspelling."""
_MAX_EVENTS = 50
"""Events of a kind that a setting is compared with."""
_MAX_NAME = 100
_GPU_WORD = re.compile(r"(?:^|[_-])(?:gpu|cuda)(?:[_-]|$)", re.IGNORECASE)


def find(part: FilePart, scripts: ScriptSet, tables: Tables) -> Iterator[Hit]:
    if part.program is None or not part.has(*COMPILE):
        return
    table = tables.get(_LATE, {})
    settings = CompileSettings(part, part.program, scripts.facts)
    yield from _find_order(settings, table)
    yield from _find_misspelt(settings, table.get("variables", ()))
    yield from _find_remap_options(settings)
    yield from _find_remaps(settings)
    if len(settings.calls) <= 1:  # several calls may have separate settings
        for find_rule in (_find_set_twice, _find_lengths, _find_sizes, _find_names):
            yield from find_rule(settings)
    yield from _find_threads(settings)


# Order


def _find_order(settings: CompileSettings, table: Mapping[str, Any]) -> Iterator[Hit]:
    part = settings.part
    functions, variables = set(table.get("functions", ())), set(table.get("variables", ()))
    done: dict[str, list[ScriptEvent]] = {}
    set_before: list[tuple[str, ScriptEvent]] = []
    seen: set[ast.AST] = set()
    for event in settings.program.events:
        key = _setting_name(event, functions, variables)
        if event.node not in seen:
            behind = None if key is None else _preceding(event, key, done, set_before)
            made = _first(done, "made", event) if _is_patch(event, "ModelConfig", "ParallelConfig") else None
            if key is not None and behind is not None:
                rule = _PARSED if behind.kind == "parse" else _LATE
                yield part.hit(
                    rule, event.node, {"setting": key, "behind": _described(behind), "line": _line(settings, behind)}
                )
            elif made is not None:
                patch = ".".join(event.name.split(".")[-2:])
                yield part.hit(_PATCH, event.node, {"patch": patch, "line": _line(settings, made)})
        seen.add(event.node)
        kind = (
            "made" if is_engine(event) or is_build(event)
            else "patched" if _is_patch(event, "ParallelConfig")
            else "loaded" if event.kind == "import" and event.name.startswith(tuple(table.get("imports", ("\n",))))
            else event.kind
        )  # fmt: skip
        events = done.setdefault(kind, [])
        if len(events) < _MAX_EVENTS:
            events.append(event)
        if key is not None and len(set_before) < _MAX_EVENTS:
            set_before.append((key, event))


def _first(done: Mapping[str, list[ScriptEvent]], kind: str, event: ScriptEvent) -> ScriptEvent | None:
    """First event of a kind that can happen together with another one."""
    return next((earlier for earlier in done.get(kind, ()) if not earlier.excludes(event)), None)


def _preceding(
    event: ScriptEvent, key: str, done: Mapping[str, list[ScriptEvent]], set_before: Sequence[tuple[str, ScriptEvent]]
) -> ScriptEvent | None:
    """First event that lacks a required preceding setting."""
    is_variable, is_device = event.kind == "environ", key == "jit_device"
    is_set = any(name == key and not earlier.excludes(event) for name, earlier in set_before)
    behind = _first(done, "made", event)
    if behind is None and not is_variable:
        behind = _first(done, "patched", event)
    if behind is None and is_device and not is_set:
        behind = _first(done, "loaded", event)
    if behind is None and (is_device or is_variable) and not is_set and _is_literal(event):
        behind = _first(done, "parse", event)
    return behind


def _is_literal(event: ScriptEvent) -> bool:
    """Whether the value is a literal, which the command line cannot change."""
    node = event.node
    value = node.args[-1] if isinstance(node, ast.Call) and node.args else getattr(node, "value", None)
    return isinstance(value, ast.Constant)


def _setting_name(event: ScriptEvent, functions: set[str], variables: set[str]) -> str | None:
    if event.kind == "environ":
        return event.name if event.name in variables else None
    function = event.name.rpartition(".")[2]
    if event.kind != "call" or function not in functions:
        return None
    mode = event.args[0].data if event.args and event.args[0].kind == "plain" else None
    return mode if isinstance(mode, str) and function.endswith("mode") else function


def _is_patch(event: ScriptEvent, *classes: str) -> bool:
    words = event.name.split(".")
    return event.kind == "assign" and words[0] == "vllm" and len(words) > 2 and words[-2] in classes


def _described(event: ScriptEvent) -> str:
    if event.kind == "parse":
        return Phrase("the command line is parsed")
    if event.kind == "import":
        return Phrase("{name} is imported", name=event.name)
    if event.kind == "assign":
        return Phrase("{name} is replaced", name=".".join(event.name.split(".")[-2:]))
    if is_engine(event):
        return Phrase("{name}(…) has created the engine", name=event.name.rpartition(".")[2])
    return Phrase("the model is built")


def _line(settings: CompileSettings, event: ScriptEvent) -> str:
    return str(settings.part.file.count("\n", 0, settings.program.text.places(event.node)[0]) + 1)


# Names of settings


def _find_misspelt(settings: CompileSettings, variables: Sequence[str]) -> Iterator[Hit]:
    for event in settings.program.events:
        mode = event.args[0] if event.args else None
        if event.kind == "environ":
            name, names, node = event.name, variables, event.node
        elif event.name.rpartition(".")[2] == MODE and mode is not None and isinstance(mode.data, str):
            name, names, node = mode.data, list(settings.facts.settings), mode.node or event.node
        else:
            continue
        by_case = {setting.lower(): setting for setting in names}
        near = get_close_matches(name.lower(), by_case, 1, _ALIKE) if len(name) <= _MAX_NAME else []
        if near and name not in names:
            right = by_case[near[0]]
            edits = settings.part.replace_constant(node, f'"{right}"')
            yield settings.part.hit("edge10.setting-misspelt", node, {"name": name, "near": right}, edits)


# Dies


def _find_remaps(settings: CompileSettings) -> Iterator[Hit]:
    needed = settings.facts.limits.remap_entries
    for mode, values in settings.remaps.items():
        for event, value in values:
            items = settings.program.items(value)
            if items is None:
                continue
            node = value.node or event.node
            if len(items) != needed:
                message = {"name": mode, "count": str(len(items)), "needed": str(needed)}
                yield settings.part.hit(_LENGTH, node, message)
            dies = [settings.number(item) for item in items]
            wrong = _wrong_dies(dies, settings.dies.value if settings.dies else None, needed)
            if wrong:
                yield settings.part.hit("edge10.remap-dies", node, {"name": mode, "wrong": wrong})


def _find_remap_options(settings: CompileSettings) -> Iterator[Hit]:
    needed = settings.facts.limits.remap_entries
    for option in settings.program.options:
        items = settings.program.items(option.default)
        if "remap" not in option.name.lower() or items is None or option.default is None:
            continue
        if len(items) > needed or (len(items) < needed and not _is_filled(settings, option, needed)):
            message = {"name": option.flags[0], "count": str(len(items)), "needed": str(needed)}
            yield settings.part.hit(_LENGTH, option.default.node or option.node, message)
        words = settings.number(option.keywords.get("nargs"))
        if words is not None and words != needed and len(items) == needed:
            node = option.keyword_node("nargs")
            message = {"name": option.flags[0], "words": str(words), "needed": str(needed)}
            yield settings.part.hit(_LENGTH, node, message, settings.part.replace_constant(node, str(needed)))


def _is_filled(settings: CompileSettings, option: ScriptOption, needed: int) -> bool:
    """Whether the script fills up the entries of an option."""
    default = _trimmed(settings.numbers(option.default) or [])
    orders = [settings.numbers(value) for remap in settings.remaps.values() for _, value in remap]
    return any(order is None or (len(order) == needed and _trimmed(order) == default) for order in orders)


def _wrong_dies(order: Sequence[int | None], dies: int | None, needed: int) -> str:
    """Problem of an order of the dies; empty if it is valid."""
    limit = needed if dies is None else dies
    outside = sorted({die for die in order if die is not None and not 0 <= die < limit})
    if outside and limit > 0:
        names = ", ".join(map(str, outside))
        return Phrase("it names {outside}, and the dies are 0 to {last}", outside=names, last=str(limit - 1))
    if dies is None or dies > len(order) or None in order or not any(order):
        return ""  # only zeros may mean no order
    repeated = sorted({str(die) for die in order[:dies] if order[:dies].count(die) > 1})
    beyond = [str(die) for die in order[dies:] if die]
    if not repeated and not beyond:
        return ""
    return (
        Phrase(
            "{repeated} appears more than once in its first {dies} entries, one per die",
            dies=str(dies),
            repeated=listed(repeated),
        )
        if repeated
        else Phrase(
            "{beyond} instead of 0 after its first {dies} entries, one per die",
            dies=str(dies),
            beyond=beyond[0],
        )
    )


def _trimmed(order: list[int]) -> list[int]:
    last = max((index for index, die in enumerate(order) if die), default=-1)
    return order[: last + 1]


def _find_set_twice(settings: CompileSettings) -> Iterator[Hit]:
    for mode, values in settings.remaps.items():
        for (before, first), (event, value) in pairwise(values):
            earlier, other = settings.numbers(first), settings.numbers(value)
            if earlier is None or other is None or earlier == other or before.excludes(event):
                continue
            message = {"name": mode, "before": _shown(earlier), "second": _shown(other)}
            yield settings.part.hit(_TWICE, value.node or event.node, message)
        event, value = values[-1]
        order = settings.numbers(value)
        for option in settings.options_of(mode) if order is not None else ():
            default = settings.numbers(option.default)
            if default is None or _trimmed(default) == _trimmed(order or []):
                continue
            message = {"name": mode, "first": _shown(default), "second": _shown(order or []), "option": option.flags[0]}
            yield settings.part.hit(_TWICE, value.node or event.node, message)


def _shown(order: list[int]) -> str:
    start = _trimmed(order) or [0]
    return f"[{', '.join(map(str, start))}{', …' if len(start) < len(order) else ''}]"


# Sizes


def _find_lengths(settings: CompileSettings) -> Iterator[Hit]:
    for event, value in settings.lengths:
        lengths = settings.numbers(value)
        if lengths is None:
            continue
        context = settings.context
        if 1 not in lengths:
            wrong = Phrase("the length 1, used to generate each further token, is missing")
        elif set(lengths) == {1}:
            wrong = Phrase("1 is the only length: the prompt would be processed token by token")
        elif context is not None and max(lengths) > context.value:
            wrong = Phrase(
                "{length} is longer than the {tokens} tokens of {name}",
                length=str(max(lengths)),
                tokens=str(context.value),
                name=context.name,
            )
        else:
            continue
        node = value.node if isinstance(value.node, (ast.List, ast.Tuple)) else event.node
        message = {"lengths": ", ".join(map(str, lengths)) or Phrase("none"), "wrong": wrong}
        yield settings.part.hit("edge10.sequence-lengths", node, message)


def _find_sizes(settings: CompileSettings) -> Iterator[Hit]:
    limit = settings.facts.limits.remap_entries
    for event in (*settings.builds, *settings.engines):
        name = "dev_count" if is_build(event) else "tensor_parallel_size"
        value, node = event.argument(name), event.argument_node(name)
        dies = settings.number(value)
        if value is None or dies is None:
            continue
        variable = node.value.id if isinstance(node, ast.keyword) and isinstance(node.value, ast.Name) else ""
        others = [number for number in settings.counted_dies if number.name != variable]
        message = {"name": name, "dies": str(dies)}
        if others and all(other.value != dies for other in others):
            message |= {"other": others[0].name, "count": str(others[0].value)}
            yield settings.part.hit(_DIFFER, node, message)
        elif not 1 <= dies <= limit:
            yield settings.part.hit(_DIFFER, node, message | {"limit": str(limit)})


# Names of folders


def _find_names(settings: CompileSettings) -> Iterator[Hit]:
    for value in settings.folders:
        text = folder_text(settings.program, value)
        if text is None:
            continue
        name = "/".join(folder for folder in text.replace(HOLE, "…").split("/")[-2:] if folder)
        named = named_settings(text, settings.facts)
        wrong = [*_check_model(settings, named), *_check_numbers(settings, named), *_check_remap(settings, named)]
        if wrong:
            message = {"name": name, "wrong": listed(wrong, "{first}; {second}")}
            yield settings.part.hit("edge10.name-differs", value.node, message)
        if any(_GPU_WORD.search(folder) and "AOT" in folder for folder in text.split("/")):
            devices = {
                "cpu": Phrase("the script compiles on the CPU"),
                "either": Phrase("the script uses the host's device"),
            }
            message = {"name": name, "device": devices.get(settings.device() or "", "")}
            yield settings.part.hit("edge10.name-gpu", value.node, message)


def named_settings(path: str, facts: Toolchain) -> dict[str, str]:
    """Settings in the names of a path's folders, by the toolchain's templates."""
    named: dict[str, str] = {}
    for folder in path.split("/"):
        for name in ("compiled_vlm", "compiled_llm", "dies"):
            match = pattern_of(facts.names[name], HOLE).fullmatch(folder[:400])
            if match is not None:
                named = {**{key: text for key, text in match.groupdict().items() if text and HOLE not in text}, **named}
                break
    return named


def _check_model(settings: CompileSettings, named: Mapping[str, str]) -> Iterator[Phrase]:
    model = models.listed(named.get("model", ""), settings.facts)
    compiled = [models.listed(name, settings.facts) if name else None for name in settings.models]
    if model is not None and compiled and None not in compiled and model not in compiled:
        names = ", ".join(dict.fromkeys(other.name for other in compiled if other))
        yield Phrase("{name}, but {names} is compiled", name=model.name, names=names)


def _check_numbers(settings: CompileSettings, named: Mapping[str, str]) -> Iterator[Phrase]:
    if "dies" in named and settings.dies is not None and int(named["dies"]) != settings.dies.value:
        yield Phrase("{named} dies, but {set} are set", named=named["dies"], set=str(settings.dies.value))
    context = settings.context
    if "context" in named and context is not None and int(named["context"]) != context.value:
        set_to = str(context.value)
        yield Phrase("{named} tokens, but {name} is {set}", named=named["context"], name=context.name, set=set_to)
    for _, value in settings.lengths if "prefill" in named else ():
        lengths = settings.numbers(value)
        if lengths is not None and not {*map(int, named["prefill"].split("-"))} <= {*lengths}:
            set_to = ", ".join(map(str, lengths))
            yield Phrase("the length {named}, but {set} are set", named=named["prefill"], set=set_to)


def _check_remap(settings: CompileSettings, named: Mapping[str, str]) -> Iterator[Phrase]:
    modes = sorted((name for name in settings.facts.settings if name.endswith(REMAP)), reverse=True)
    orders = [settings.numbers(settings.remaps[name][-1][1]) for name in modes if name in settings.remaps]
    remaps = [order for order in orders if order is not None]
    text = named.get("remap")
    if text is None or len(remaps) != len(modes):
        return
    dies = settings.dies.value if settings.dies else 0
    # Trailing zeros are omitted, or there are as many entries as dies.
    first, second = ({"".join(map(str, part)) for part in (_trimmed(order), order[:dies] or [])} for order in remaps)
    if text not in {vision + language for vision in first for language in second}:
        names = listed([_shown(order) for order in remaps])
        yield Phrase("the die order {named}, but {set} are set", named=text, set=names)


# Threads


def _find_threads(settings: CompileSettings) -> Iterator[Hit]:
    program, right = settings.program, settings.facts.limits.threads_with_gpu
    on_gpu = [event for event in program.events if _uses_gpu(event)]
    variables = [event for event in program.events if event.kind == "environ" and event.args]
    if any(
        isinstance(value := program.python(event.args[0]), str) and commands.hides_gpus(event.name, value)
        for event in variables
    ):
        return
    for event in variables:
        threads = program.python(event.args[0])
        is_beside = any(not event.excludes(other) for other in on_gpu)
        if event.name != _THREADS or not is_beside or threads is MISSING or str(threads) == right:
            continue
        where = Phrase("On the GPU, which this script uses,")
        if settings.device() == "either":
            where = Phrase("On a GPU, which this script uses if there is one,")
        edits = settings.part.replace_constant(event.args[0].node, f'"{right}"') if isinstance(threads, str) else ()
        message = {"value": str(threads), "right": right, "where": where}
        yield settings.part.hit("edge10.compile-threads", event.node, message, edits)


def _uses_gpu(event: ScriptEvent) -> bool:
    """Whether an event moves something to a GPU, or traces there."""
    name = event.name.rpartition(".")[2]
    is_device = name == MODE and bool(event.args) and event.args[0].data == "jit_device"
    if event.kind != "call" or not (is_device or name in ("to", "cuda")):
        return False
    last = event.args[-1] if event.args else ScriptValue("plain", name)
    return any(str(value.data).startswith("cuda") for value in (last.data if last.kind == "either" else (last,)))
