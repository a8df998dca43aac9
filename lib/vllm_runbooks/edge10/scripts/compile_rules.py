"""What is wrong in scripts that compile: the order of their settings, dies, lengths, names of folders, threads."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

from vllm_runbooks.catalog.languages import Phrase, listed
from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.edge10 import models
from vllm_runbooks.edge10.scripts import commands, pure
from vllm_runbooks.edge10.scripts.compiled import MODE, REMAP, Compiled, digits, text_of
from vllm_runbooks.edge10.scripts.events import Event, Option
from vllm_runbooks.edge10.scripts.program import Program
from vllm_runbooks.edge10.scripts.readings import COMPILE, Job, Part, is_build, is_engine
from vllm_runbooks.edge10.scripts.values import MISSING, Value, arm
from vllm_runbooks.lint.hits import Hit

Tables = Mapping[str, Mapping[str, Any]]
_LATE, _PARSED, _PATCH = "edge10.setting-too-late", "edge10.setting-after-parsing", "edge10.patch-too-late"
_THREAD = "COMPILE_THREAD"
_ALIKE = 0.8
"""How alike a name and a setting's are (see difflib) for the one to be the other, misspelt."""
_MOST_KEPT = 50
"""Times of one kind that are kept: a setting that is late is late behind the first."""
_MAX_NAME = 100
_GPU_WORD = re.compile(r"(?:^|[_-])(?:gpu|cuda)(?:[_-]|$)", re.IGNORECASE)
_HOLES = {
    "model": r".{0,120}",
    "modality": rf"(?:[a-z]{{1,12}}|{pure.HOLE})",
    "remap": rf"(?:\d{{0,64}}|{pure.HOLE})",
}
_NUMBER = rf"(?:\d{{1,7}}|{pure.HOLE})"


def find(part: Part, job: Job, tables: Tables) -> Iterator[Hit]:
    """What is wrong in a part that compiles."""
    if part.program is None or part.text is None or not part.has(*COMPILE):
        return
    one = Compiled(part, part.program, job.facts)
    yield from order(one, tables)
    yield from _misspelt(one, tables.get(_LATE, {}).get("variables", ()))
    yield from _remap_options(one)
    told: set[tuple[str, int, int]] = set()
    for call in one.each():
        for found in (*_remaps(call), *_twice(call), *_lengths(call), *_sizes(call), *_names(call)):
            place = (found.rule, found.start, found.end)
            if place not in told:
                told.add(place)
                yield found
    yield from _threads(one, job)


def hit(part: Part, rule: str, node: ast.AST | None, says: Mapping[str, str], edits: Sequence[Replacement] = ()) -> Hit:
    """A hit at a node of a part's program."""
    if part.text is None or node is None or not hasattr(node, "end_lineno"):
        start, end = part.span
        return Hit(rule, start, start, says)
    start, end = part.text.places(node)
    return Hit(rule, start, end, says, tuple(edits))


# Order


def order(one: Compiled, tables: Tables) -> Iterator[Hit]:
    """Settings of the process that come after what they must precede."""
    table = tables.get(_LATE, {})
    functions, variables = set(table.get("functions", ())), set(table.get("variables", ()))
    done = _Done(tuple(table.get("imports", ())))
    told: set[int] = set()
    for event in one.program.events:
        key = _key(event, functions, variables)
        if key is not None and id(event.node) not in told:
            found = _late(event, key, done)
            if found is not None:
                told.add(id(event.node))
                rule, behind = found
                says = {"setting": key, "behind": _called(behind), "line": _line(one.part, behind)}
                yield hit(one.part, rule, event.node, says)
        is_patch = _is_patch(event, "ModelConfig", "ParallelConfig") and id(event.node) not in told
        made = done.first("made", event) if is_patch else None
        if made is not None:
            told.add(id(event.node))
            says = {"patch": ".".join(event.name.split(".")[-2:]), "line": _line(one.part, made)}
            yield hit(one.part, _PATCH, event.node, says)
        done.add(event, key)


class _Done:
    """What a program has done by some time that a setting must not come behind, and what it has set."""

    def __init__(self, loading: tuple[str, ...]) -> None:
        self._loading = loading
        self._kinds: dict[str, list[tuple[int, Event]]] = {}
        self._keys: dict[tuple[str, str], list[tuple[int, Event]]] = {}
        self._nodes: dict[int, int] = {}
        self._count = 0

    def add(self, event: Event, key: str | None) -> None:
        """Take in what is done next."""
        self._count += 1
        self._nodes.setdefault(id(event.node), self._count)
        kind = (
            "made" if is_engine(event) or is_build(event)
            else "patched" if _is_patch(event, "ParallelConfig")
            else "parsed" if event.kind == "parse"
            else "loaded" if self._loading and event.kind == "import" and event.name.startswith(self._loading)
            else ""
        )  # fmt: skip
        for name, held in (
            (kind, self._kinds.setdefault(kind, [])),
            (key, self._keys.setdefault((event.kind, key or ""), [])),
        ):
            if name and len(held) < _MOST_KEPT:
                held.append((self._count, event))

    def first(self, kind: str, event: Event) -> Event | None:
        """The first time that something was done, where that and an event can both happen.

        What an event's own statement did before, as in a loop over several models, was in time: only what was done in
        front of that counts.
        """
        last = self._nodes.get(id(event.node), self._count + 1)
        return next(
            (each for count, each in self._kinds.get(kind, ()) if count < last and not each.is_beside(event)), None
        )

    def is_set(self, event: Event, key: str, before: Event | None = None) -> bool:
        """Whether the same was set already, in front of something."""
        last = self._count + 1 if before is None else self._nodes[id(before.node)]
        held = self._keys.get((event.kind, key), ())
        return any(count < last and not each.is_beside(event) for count, each in held)


def _key(event: Event, functions: set[str], variables: set[str]) -> str | None:
    """What an event sets for the whole process; None: nothing."""
    if event.kind == "environ":
        return event.name if event.name in variables else None
    last = event.name.rpartition(".")[2]
    if event.kind != "call" or last not in functions:
        return None
    mode = event.args[0] if event.args else None
    is_named = mode is not None and mode.kind == "plain" and isinstance(mode.data, str)
    return str(mode.data) if is_named and mode is not None and last.endswith("mode") else last


def _late(event: Event, key: str, done: _Done) -> tuple[str, Event] | None:
    """What a setting comes after and should not, with the rule that says so."""
    is_variable, is_device = event.kind == "environ", key == "jit_device"
    made = done.first("made", event)
    patched = None if is_variable else done.first("patched", event)
    loaded = done.first("loaded", event) if is_device else None
    if loaded is not None and done.is_set(event, key, loaded):
        loaded = None
    behind = made or patched or loaded
    if behind is not None:
        return _LATE, behind
    if (is_device or is_variable) and not any(value.options for value in event.args) and not done.is_set(event, key):
        parsed = done.first("parsed", event)
        return None if parsed is None else (_PARSED, parsed)
    return None


def _is_patch(event: Event, *classes: str) -> bool:
    words = event.name.split(".")
    return event.kind == "assign" and words[0] == "vllm" and len(words) > 2 and words[-2] in classes


def _called(event: Event) -> str:
    """How a message calls what an event does."""
    if event.kind == "parse":
        return Phrase("the command line is parsed")
    if event.kind == "import":
        return Phrase("{name} is imported", name=event.name)
    if event.kind == "assign":
        return Phrase("{name} is replaced", name=".".join(event.name.split(".")[-2:]))
    if is_engine(event):
        return Phrase("{name}(…) has made the engine", name=event.name.rpartition(".")[2])
    return Phrase("the model is built")


def _line(part: Part, event: Event) -> str:
    """The line of the file that an event stands in."""
    return "" if part.text is None else str(part.file.count("\n", 0, part.text.places(event.node)[0]) + 1)


# Names of settings


def _misspelt(one: Compiled, variables: Sequence[str]) -> Iterator[Hit]:
    """Settings under a name that is nearly one of the toolchain's."""
    for event in one.program.events:
        first = event.args[0] if event.args else None
        if event.kind == "environ":
            name, near, place = event.name, _nearest(event.name, variables), event.node
        elif event.kind == "call" and event.name.rpartition(".")[2] == MODE and first is not None:
            if first.kind != "plain" or not isinstance(first.data, str) or first.options:
                continue
            name, near, place = first.data, _nearest(first.data, list(one.facts.settings)), first.node or event.node
        else:
            continue
        if near is None:
            continue
        edits: tuple[Replacement, ...] = ()
        if one.part.text is not None and isinstance(place, ast.Constant) and place.value == name:
            edits = (Replacement(*one.part.text.places(place), f'"{near}"'),)
        yield hit(one.part, "edge10.setting-misspelt", place, {"name": name, "near": near}, edits)


def _nearest(name: str, known: Sequence[str]) -> str | None:
    """The name that another one was meant to be; None: it is one itself, or like none."""
    if name in known or len(name) > _MAX_NAME:
        return None
    by_case = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_case, 1, _ALIKE)
    return by_case[near[0]] if near else None


# Dies


def _remaps(one: Compiled) -> Iterator[Hit]:
    needed = one.facts.limits.remap_entries
    for mode, settings in one.remaps.items():
        for event, value in settings:
            items = one.program.items(value)
            if items is None:
                continue
            place = value.node or event.node
            if len(items) != needed:
                says = {"name": mode, "count": str(len(items)), "needed": str(needed)}
                yield hit(one.part, "edge10.remap-length", place, says, _resized(one, value, needed))
            wrong = _wrong_dies([one.number(item) for item in items], one.dies.value if one.dies else None, needed)
            if wrong:
                yield hit(one.part, "edge10.remap-dies", place, {"name": mode, "wrong": wrong})


def _remap_options(one: Compiled) -> Iterator[Hit]:
    needed = one.facts.limits.remap_entries
    for option in one.program.options:
        if "remap" in option.name.lower() and not _is_filled(one, option, needed):
            yield from _option_length(one, option, needed)


def _is_filled(one: Compiled, option: Option, needed: int) -> bool:
    """Whether the script makes as many entries as are needed of what an option has, or may do so."""
    default = one.program.items(option.default)
    settings = [value for each in one.remaps.values() for _, value in each if option.name in value.options]
    made = [one.program.items(value) for value in settings]
    is_made = bool(made) and all(items is None or len(items) == needed for items in made)
    return is_made and default is not None and len(default) != needed


def words_of(one: Compiled, option: Option) -> int | None:
    """How many words an option takes that orders the dies, all of its default's mistakes mended; None: any number."""
    needed = one.facts.limits.remap_entries
    items = one.program.items(option.default)
    settings = [value for each in one.remaps.values() for _, value in each if option.name in value.options]
    is_order = "remap" in option.name.lower() or any(len(one.program.items(each) or ()) == needed for each in settings)
    if not is_order or items is None or option.default is None or _is_filled(one, option, needed):
        return None
    return needed if len(items) == needed or _resized(one, option.default, needed) else None


def _option_length(one: Compiled, option: Option, needed: int) -> Iterator[Hit]:
    """An option of another length than is needed: its default's, or that which the command line gives it."""
    items = one.program.items(option.default)
    says = {"name": option.flags[0], "needed": str(needed)}
    if items is not None and option.default is not None and len(items) != needed:
        place = option.default.node or option.node
        edits = _resized(one, option.default, needed)
        yield hit(one.part, "edge10.remap-length", place, says | {"count": str(len(items))}, edits)
    words = one.number(option.keywords.get("nargs"))
    if words is not None and words != needed and items is not None and len(items) == needed:
        place = option.places.get("nargs", option.node)
        edits = ()
        if one.part.text is not None and isinstance(place, ast.keyword) and isinstance(place.value, ast.Constant):
            edits = (Replacement(*one.part.text.places(place.value), str(needed)),)
        yield hit(one.part, "edge10.remap-length", place, says | {"words": str(words)}, edits)


def _wrong_dies(order: Sequence[int | None], dies: int | None, needed: int) -> str:
    """What is wrong with an order of dies, in words; empty: nothing that is known."""
    known = [die for die in order if die is not None]
    limit = needed if dies is None else dies
    outside = sorted({die for die in known if not 0 <= die < limit})
    if outside and limit > 0:
        named = ", ".join(map(str, outside))
        if limit == 1:
            return Phrase("it names {outside}, and there is die 0 alone", outside=named)
        return Phrase("it names {outside}, and the dies are 0 to {last}", outside=named, last=str(limit - 1))
    if dies is None or dies > len(order) or len(known) != len(order) or not any(known):
        return ""  # nothing but zeros may stand for no order at all
    first = order[:dies]
    repeated = sorted({str(die) for die in first if first.count(die) > 1})
    if repeated:
        return Phrase(
            "among its first {dies} entries, one for each die, {repeated} stands more than once",
            dies=str(dies),
            repeated=listed(repeated),
        )
    beyond = [die for die in known[dies:] if die]
    if not beyond:
        return ""
    return Phrase(
        "behind its first {dies} entries, one for each die, stands {beyond} in place of 0",
        dies=str(dies),
        beyond=str(beyond[0]),
    )


def _resized(one: Compiled, value: Value, needed: int) -> tuple[Replacement, ...]:
    """The literal list with as many entries as are needed, where only zeros at its end change."""
    node = value.node
    text = one.part.text
    if text is None or not isinstance(node, (ast.List, ast.Tuple)) or not node.elts or value.options:
        return ()
    items = [each.value if isinstance(each, ast.Constant) else None for each in node.elts]
    if not all(isinstance(each, int) for each in items):
        return ()
    if len(items) > needed:
        if any(items[needed:]):
            return ()
        return (Replacement(text.places(node.elts[needed - 1])[1], text.places(node.elts[-1])[1], ""),)
    end = text.places(node.elts[-1])[1]
    return (Replacement(end, end, ", 0" * (needed - len(items))),)


def _trimmed(order: list[int]) -> list[int]:
    last = max((index for index, die in enumerate(order) if die), default=-1)
    return order[: last + 1]


def _twice(one: Compiled) -> Iterator[Hit]:
    """The same order of dies given twice, differently."""
    for mode, settings in one.remaps.items():
        for (before, first), (event, value) in pairwise(settings):
            known, other = one.numbers(first), one.numbers(value)
            if None in (known, other) or known == other or before.is_beside(event):
                continue
            says = {"name": mode, "before": _shown(known or []), "second": _shown(other or [])}
            yield hit(one.part, "edge10.remap-set-twice", value.node or event.node, says)
        event, value = settings[-1]
        for option in () if one.is_one_of_several else one.options_of(mode):
            default, own = one.numbers(option.default), one.numbers(value)
            if default is None or own is None or option.name in value.options or _trimmed(default) == _trimmed(own):
                continue
            says = {"name": mode, "first": _shown(default), "second": _shown(own), "option": option.flags[0]}
            yield hit(one.part, "edge10.remap-set-twice", value.node or event.node, says)


def _shown(order: list[int]) -> str:
    kept = _trimmed(order) or [0]
    return f"[{', '.join(map(str, kept))}{', …' if len(kept) < len(order) else ''}]"


# Sizes


def _lengths(one: Compiled) -> Iterator[Hit]:
    for event, value in one.lengths:
        lengths = one.numbers(value)
        if lengths is None:
            continue
        says = {"lengths": ", ".join(map(str, lengths)) or Phrase("none")}
        if 1 not in lengths:
            says["wrong"] = Phrase("the length 1, by which every further token is made, is missing")
        elif set(lengths) == {1}:
            says["wrong"] = Phrase("no length for the prompt is there beside 1: it would be taken in token by token")
        elif one.context is not None and max(lengths) > one.context.value:
            says["wrong"] = Phrase(
                "{length} is longer than the {tokens} tokens of {name}",
                length=str(max(lengths)),
                tokens=str(one.context.value),
                name=one.context.what,
            )
        elif any(length < 1 for length in lengths):
            says["wrong"] = Phrase("a length below 1 is none")
        if "wrong" in says:
            yield hit(one.part, "edge10.sequence-lengths", _own_place(event, value), says)


def _own_place(event: Event, value: Value) -> ast.AST:
    """Where a list is written; where it is put together, the setting."""
    return value.node if isinstance(value.node, (ast.List, ast.Tuple)) else event.node


def _sizes(one: Compiled) -> Iterator[Hit]:
    """Numbers of dies that differ, and a cache that is smaller than the context."""
    limit = one.facts.limits.remap_entries
    for event in (*one.builds, *one.engines):
        name = "dev_count" if is_build(event) else "tensor_parallel_size"
        value = event.given(name)
        dies = one.number(value)
        if value is None or dies is None:
            continue
        others = [each for each in one.counted_dies if each.what != _name_of(event, name)]
        says = {"name": name, "dies": str(dies)}
        if others and all(each.value != dies for each in others) and not value.options:
            says |= {"other": others[0].what, "count": str(others[0].value)}
            yield hit(one.part, "edge10.dies-differ", event.place(name), says)
        elif not 1 <= dies <= limit:
            yield hit(one.part, "edge10.dies-differ", event.place(name), says | {"limit": str(limit)})
    for event in one.builds:
        size = one.number(event.given("max_kv_cache_size"))
        longer = [each for each in one.contexts if size is not None and each.value > size]
        if longer:
            says = {"size": str(size), "name": longer[0].what, "length": str(longer[0].value)}
            yield hit(one.part, "edge10.cache-size", event.place("max_kv_cache_size"), says)


def _name_of(event: Event, keyword: str) -> str:
    """The variable that an argument is; empty: it is something else."""
    place = event.places.get(keyword)
    return place.value.id if isinstance(place, ast.keyword) and isinstance(place.value, ast.Name) else ""


# Names of folders


def _names(one: Compiled) -> Iterator[Hit]:
    for value in one.folders:
        text = text_of(one.program, value)
        if text is None:
            continue
        node = value.node
        told = named_settings(text, one.facts)
        wrong = _untrue(one, told)
        if wrong:
            says = {"name": _last_names(text), "wrong": listed(wrong, "{first}; {second}")}
            yield hit(one.part, "edge10.name-differs", node, says)
        if any(_GPU_WORD.search(folder) and "AOT" in folder for folder in text.split("/")):
            device = {
                "cpu": Phrase("the script compiles on the CPU"),
                "either": Phrase("the script takes what the host has"),
            }
            says = {"name": _last_names(text), "device": device.get(one.device() or "", "")}
            yield hit(one.part, "edge10.name-gpu", node, says)


def _last_names(text: str) -> str:
    """The end of a path, as a message shows it."""
    return "/".join(folder for folder in text.replace(pure.HOLE, "…").split("/")[-2:] if folder)


def named_settings(path: str, facts: Toolchain) -> dict[str, str]:
    """The settings that a path's folders name, as the toolchain's templates have them."""
    found: dict[str, str] = {}
    for folder in path.split("/"):
        for name in ("compiled_vlm", "compiled_llm", "dies"):
            match = _template(facts.names[name]).fullmatch(folder[:400])
            if match is None:
                continue
            told = {key: text for key, text in match.groupdict().items() if text and pure.HOLE not in text}
            if name == "compiled_llm":
                told["cache"] = told.pop("context", "")
            found = {**{key: text for key, text in told.items() if text}, **found}
            break
    return found


def _template(text: str) -> re.Pattern[str]:
    """A template of names as a pattern; behind it further words may stand."""
    pieces = re.split(r"\{(\w+)\}", text)
    made = [
        f"(?P<{piece}>{_HOLES.get(piece, _NUMBER)})" if index % 2 else re.escape(piece)
        for index, piece in enumerate(pieces)
    ]
    return re.compile("".join(made) + r"(?:_[A-Za-z]\w{0,60})?")


def _untrue(one: Compiled, told: Mapping[str, str]) -> list[Phrase]:
    """What a name says that is not set, in words."""
    found: list[Phrase] = []
    for key, check in _CHECKS.items():
        if key in told:
            found += check(one, told[key])
    return found


def _of_model(one: Compiled, told: str) -> Iterator[Phrase]:
    """Another model of the list than any that is compiled, where all of these are in it."""
    named = models.listed(told, one.facts)
    compiled = [models.listed(name, one.facts) if name else None for name in one.models]
    if named is None or None in compiled or not compiled or named in compiled:
        return
    names = ", ".join(dict.fromkeys(each.name for each in compiled if each))
    yield Phrase("{told}, and {names} is compiled", told=named.name, names=names)


def _of_dies(one: Compiled, told: str) -> Iterator[Phrase]:
    if one.dies is not None and int(told) != one.dies.value:
        yield Phrase("{told} dies, and {set} are set", told=told, set=str(one.dies.value))


def _of_context(one: Compiled, told: str) -> Iterator[Phrase]:
    if one.context is not None and int(told) != one.context.value:
        tokens = str(one.context.value)
        yield Phrase("{told} tokens, and {name} is {set}", told=told, name=one.context.what, set=tokens)


def _of_prefill(one: Compiled, told: str) -> Iterator[Phrase]:
    for _, value in one.lengths:
        lengths = one.numbers(value)
        if lengths is not None and int(told) not in lengths:
            yield Phrase("the length {told}, and {set} are set", told=told, set=", ".join(map(str, lengths)))


def _of_side(name: str, called: Phrase) -> Callable[[Compiled, str], Iterator[Phrase]]:
    def check(one: Compiled, told: str) -> Iterator[Phrase]:
        side = one.side(name)
        if side is not None and int(told) != side:
            yield Phrase("{side} of {told}, and {set} is set", side=called, told=told, set=str(side))

    return check


def _of_remap(one: Compiled, told: str) -> Iterator[Phrase]:
    """The orders of the dies of both parts behind one another."""
    orders = [settings[-1][1] for name, settings in sorted(one.remaps.items(), reverse=True) if name.endswith(REMAP)]
    known = [one.numbers(value) for value in orders]
    if len(known) != len([name for name in one.facts.settings if name.endswith(REMAP)]) or None in known:
        return
    dies = one.dies.value if one.dies else None
    first, second = (digits(order, dies) for order in known if order is not None)
    if told not in {a + b for a in first for b in second}:
        shown = listed([_shown(order or []) for order in known])
        yield Phrase("the order {told} of the dies, and {set} are set", told=told, set=shown)


def _of_modality(one: Compiled, told: str) -> Iterator[Phrase]:
    for option in () if one.is_one_of_several else one.program.options:
        default = one.program.python(option.default)
        if option.name == "modality" and isinstance(default, str) and default != told:
            flag = option.flags[0]
            yield Phrase("{told}, and {option} is {default} by default", told=told, option=flag, default=default)


_CHECKS: Mapping[str, Callable[[Compiled, str], Iterator[Phrase]]] = {
    "model": _of_model,
    "dies": _of_dies,
    "context": _of_context,
    "cache": _of_context,
    "prefill": _of_prefill,
    "width": _of_side("width", Phrase("a width")),
    "height": _of_side("height", Phrase("a height")),
    "modality": _of_modality,
    "remap": _of_remap,
}


# Threads


def _threads(one: Compiled, job: Job) -> Iterator[Hit]:
    """More than one thread where there is a GPU."""
    right = job.facts.limits.threads_with_gpu
    device = one.device()
    hidden = [each for each in one.program.events if _hides_gpus(one, each)]
    for event in one.program.events:
        if event.kind != "environ" or event.name != _THREAD or event.gpu is False or not event.args:
            continue
        if any(each is not event and not each.is_beside(event) for each in hidden):
            continue
        told = one.program.python(arm(event.args[0], has_gpu=True))
        if told is MISSING or str(told) == right:
            continue
        has_gpu = device in ("cuda", "either") or event.gpu is True or uses_gpu(one.program)
        if has_gpu or (device is None and job.has_gpu):
            where = Phrase("With a GPU, which is used here,")
            if device == "either":
                where = Phrase("With a GPU, which the script takes where there is one,")
            says = {"value": str(told), "right": right, "where": where}
            yield hit(one.part, "edge10.compile-threads", event.node, says, _rewritten(one, event, right))


def _hides_gpus(one: Compiled, event: Event) -> bool:
    """Whether a program keeps every GPU from itself."""
    told = one.program.python(event.args[0]) if event.kind == "environ" and event.args else None
    return isinstance(told, str) and commands.hides_gpus(event.name, told)


def uses_gpu(program: Program) -> bool:
    """Whether a program moves something to a GPU, whatever the host has."""
    for event in program.events:
        if event.kind == "call" and event.gpu is None and event.name.rpartition(".")[2] in ("to", "cuda"):
            first = event.args[0] if event.args else None
            is_named = first is not None and first.kind == "plain" and str(first.data).startswith("cuda")
            if is_named or (event.name.endswith(".cuda") and first is None):
                return True
    return False


def _rewritten(one: Compiled, event: Event, right: str) -> tuple[Replacement, ...]:
    """The literal value of a variable, replaced; nothing where it is worked out."""
    value = event.args[0]
    node = value.node
    if one.part.text is None or not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return ()
    start, end = one.part.text.places(node)
    return (Replacement(start, end, f'"{right}"'),)
