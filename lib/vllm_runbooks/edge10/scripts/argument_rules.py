"""What is wrong with the arguments of the toolchain's functions, and with the types of what is set."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import get_close_matches

from vllm_runbooks.catalog.languages import Phrase
from vllm_runbooks.catalog.toolchains import ScriptFunction
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.edge10.scripts.compile_rules import hit
from vllm_runbooks.edge10.scripts.compiled import MODE
from vllm_runbooks.edge10.scripts.events import Event
from vllm_runbooks.edge10.scripts.readings import COMPILE, Job, Part
from vllm_runbooks.edge10.scripts.values import Value
from vllm_runbooks.lint.hits import Hit

_UNKNOWN, _MISSING, _TYPE = "edge10.argument-unknown", "edge10.argument-missing", "edge10.value-type"
_ALIKE = 0.8
"""How alike names are (see difflib) for the one to be the other, misspelt."""
_MAX_NAME = 100
_MAX_SHOWN = 40
_STEPS = {"compile": COMPILE, "quantise": ("quantise",)}
_WORDS = {str: "a text", bool: "a truth value", int: "a whole number", float: "a number with a fraction"}
_TAKEN: dict[str, tuple[type, ...]] = {
    "a whole number": (int,), "a truth value": (bool, int), "a text": (str,), "a list of whole numbers": (),
}  # fmt: skip
"""By type of a setting what Python's own values of it are."""
_LIST = "a list of whole numbers"
_MODELS = frozenset(("from_pretrained", "quantize_model"))
"""What gives a model or a tokenizer."""


def find(part: Part, job: Job) -> Iterator[Hit]:
    """What is wrong with the arguments in one part."""
    if part.program is None or part.text is None:
        return
    for event in part.program.events:
        if event.kind != "call":
            continue
        words = event.name.split(".")
        for function in job.facts.functions:
            is_meant = function.name == words[-1] and function.module == words[0] and len(words) > 1
            if is_meant and part.has(*_STEPS.get(function.step, (function.step,))):
                yield from _arguments(part, event, function)
        first = event.given("mode", 0)
        if words[-1] == MODE and first is not None and first.kind == "plain" and len(event.args) > 1:
            wanted = job.facts.setting_types.get(str(first.data))
            if wanted is not None and part.has(*COMPILE):
                yield from _type(part, event.args[1], wanted, str(first.data), event.args[1].node or event.node)


def _arguments(part: Part, event: Event, function: ScriptFunction) -> Iterator[Hit]:
    known = {each.name: each for each in function.arguments}
    for name, value in event.keywords.items():
        if name not in known:
            yield from _unknown(part, event, function, name)
        elif (wanted := known[name].type) is not None:
            yield from _type(part, value, wanted, name, event.place(name))
    first = function.arguments[0]
    placed = function.arguments if function.is_ordered else function.arguments[:1]
    for index, (argument, value) in enumerate(zip(placed, event.args, strict=False)):
        if argument.type is not None:
            yield from _type(part, value, argument.type, argument.name, event.place(argument.name, index))
    for argument in function.arguments:
        is_given = argument.name in event.keywords or (event.args and argument is first)
        if argument.is_needed and not is_given and not event.is_open and len(event.args) < 2:
            yield hit(part, _MISSING, event.node, {"function": function.name, "name": argument.name})


def _unknown(part: Part, event: Event, function: ScriptFunction, name: str) -> Iterator[Hit]:
    """An argument that the guide does not have: told where it has all of them, or where one is meant."""
    known = [each.name for each in function.arguments if each.name not in event.keywords]
    near = get_close_matches(name, known, 1, _ALIKE) if len(name) <= _MAX_NAME else []
    if not near and not function.is_whole:
        return
    place = event.place(name)
    says = {
        "function": function.name,
        "name": name[:_MAX_NAME],
        "near": near[0] if near else "",
        "known": ", ".join(each.name for each in function.arguments) if function.is_whole else "",
    }
    edits: tuple[Replacement, ...] = ()
    if near and part.text is not None and isinstance(place, ast.keyword):
        start = part.text.places(place)[0]
        edits = (Replacement(start, start + len(name), near[0]),) if part.file.startswith(name, start) else ()
    yield hit(part, _UNKNOWN, place, says, edits)


def _type(part: Part, value: Value, wanted: str, name: str, place: ast.AST) -> Iterator[Hit]:
    """A value of another type than the one that is told."""
    found = _other(part, value, wanted)
    if found:
        says = {"name": name, "wanted": Phrase(wanted), "found": found}
        yield hit(part, _TYPE, place, says, _number(part, value, wanted, place))


def _other(part: Part, value: Value, wanted: str) -> str:
    """What a value is in place of what is wanted, in words; empty: what is wanted, or what is not known."""
    if value.kind == "plain" and value.data is not None and type(value.data) in _WORDS:
        return "" if type(value.data) in _TAKEN[wanted] else _told(value.data)
    made = value.data.name.rpartition(".")[2] if value.kind == "made" and not value.data.of else ""
    if made in _MODELS and wanted != _LIST:
        return Phrase("what {function} gives", function=made)
    items = part.program.items(value) if part.program is not None else None
    if items is None:
        return ""
    if wanted != _LIST:
        return Phrase("a list")
    others = [
        each for each in items if each.kind == "plain" and type(each.data) in _WORDS and type(each.data) is not int
    ]
    return Phrase("a list with {value}", value=_told(others[0].data)) if others else ""


def _told(data: object) -> str:
    """What a value is, with the value."""
    return Phrase("{what}, {value}", what=Phrase(_WORDS[type(data)]), value=_shown(data))


def _shown(data: object) -> str:
    text = repr(data) if isinstance(data, str) else str(data)
    return text.replace("\0", "…") if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _number(part: Part, value: Value, wanted: str, place: ast.AST) -> tuple[Replacement, ...]:
    """The number that a text holds, in place of the text, where that is written in the call: nothing else reads it."""
    node = place.value if isinstance(place, ast.keyword) else None
    if part.text is None or wanted != "a whole number" or not isinstance(node, ast.Constant):
        return ()
    text = node.value
    if not isinstance(text, str) or text != value.data or not text.isascii() or not text.isdigit():
        return ()
    return (Replacement(*part.text.places(node), str(int(text))),)
