"""What a compile script compiles: dies, lengths, context, orders of the dies, the folder that it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from vllm_runbooks.catalog.languages import Phrase
from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.edge10.scripts import pure
from vllm_runbooks.edge10.scripts.events import Event, Option
from vllm_runbooks.edge10.scripts.program import Program
from vllm_runbooks.edge10.scripts.readings import BUILD, Part, is_build, is_engine
from vllm_runbooks.edge10.scripts.values import Value, arm

MODE = "set_device_mode"
REMAP = "die_remap"
_MAX_MADE = 200
"""Calls of one script that are looked at, each for itself."""
_DIES = re.compile(
    r"(?:num|n|count)?_?dies?(?:_?(?:num|count|number))?|(?:num|n)_?dev(?:ice)?s?|dev(?:ice)?_?count", re.ASCII
)
"""Names that a number of dies has."""
_SIZES = {
    "width": re.compile(r"(?:.{0,30}_)?(?:width|w)", re.ASCII),
    "height": re.compile(r"(?:.{0,30}_)?(?:height|h)", re.ASCII),
}
"""Names that the sides of a picture have."""
_CONTEXT = re.compile(r"max_?(?:model|context|seq)_?len(?:gth)?|context(?:_len(?:gth)?)?|ctx(?:_len)?", re.ASCII)
_PARTS = {"vm": frozenset(("vm", "vit", "visual", "vision")), "lm": frozenset(("lm", "llm", "language", "text"))}
"""Words in an option's name that say of which part of the model it orders the dies."""


class Number(NamedTuple):
    """A number, and where it is from."""

    value: int
    what: str
    """How a message calls it."""
    source: Value


@dataclass(frozen=True)
class Compiled:
    """The settings of one compile script."""

    part: Part
    program: Program
    facts: Toolchain
    call: Event | None = None
    """The one call that is looked at, with what is set for it; None: all of the script."""

    @cached_property
    def made(self) -> list[Event]:
        """The calls that compile."""
        return self.part.made()[:_MAX_MADE]

    @property
    def is_one_of_several(self) -> bool:
        """Whether other calls compile something else: what the script names may be meant for those."""
        return self.call is not None and len(self.made) > 1

    def each(self) -> list[Compiled]:
        """Each call that compiles, for itself: no other call's arguments, nor what is set for another one, are its."""
        return [replace(self, call=event) for event in self.made] if len(self.made) > 1 else [self]

    def number(self, value: Value | None) -> int | None:
        """A whole number; None: it is none, or not known."""
        data = self.program.python(value)
        return data if isinstance(data, int) and not isinstance(data, bool) else None

    def numbers(self, value: Value | None) -> list[int] | None:
        """A list of whole numbers, all of them known; None: it is none."""
        data = self.program.python(value)
        known = isinstance(data, list) and all(isinstance(each, int) and not isinstance(each, bool) for each in data)
        return data if known else None

    @cached_property
    def _calls(self) -> list[Event]:
        return [self.call] if self.call is not None else self.made

    @cached_property
    def builds(self) -> list[Event]:
        return [each for each in self._calls if is_build(each)]

    @cached_property
    def engines(self) -> list[Event]:
        return [each for each in self._calls if is_engine(each)]

    def modes(self, name: str) -> list[tuple[Event, Value]]:
        """The settings of a mode, with their values."""
        return [(event, event.args[1]) for event in self._modes.get(name, ())]

    @cached_property
    def _modes(self) -> dict[str, list[Event]]:
        """The settings by the mode's name; of one call those that hold for it."""
        earlier: dict[str, list[Event]] = {}
        found: dict[str, list[Event]] = {}
        behind: dict[str, list[Event]] = {}
        # What is set behind the call is meant for it, though too late, unless another call follows.
        is_over = False
        for event in self.program.events:
            if event.kind != "call":
                continue
            if self.call is not None and event is not self.call and event.is_beside(self.call):
                continue
            if event is self.call:
                is_over = True
            elif self.call is not None and (is_build(event) or is_engine(event)):
                if is_over:
                    behind = {}
                    break
                earlier |= {mode: held[-1:] for mode, held in found.items()}
                found = {}
            elif event.name.rpartition(".")[2] == MODE and len(event.args) > 1:
                mode = str(event.args[0].data) if event.args[0].kind == "plain" else ""
                (behind if is_over else found).setdefault(mode, []).append(event)
        found = earlier | found
        return {mode: [*found.get(mode, ()), *behind.get(mode, ())] for mode in found | behind}

    @cached_property
    def remaps(self) -> dict[str, list[tuple[Event, Value]]]:
        """The orders of dies that are set, by the mode's name."""
        names = [name for name in self.facts.settings if name.endswith(REMAP)]
        return {name: self.modes(name) for name in names if self.modes(name)}

    @cached_property
    def dies(self) -> Number | None:
        """How many dies the model is compiled for; None: that is not known."""
        for event, name in (
            *((each, "dev_count") for each in self.builds),
            *((each, "tensor_parallel_size") for each in self.engines),
        ):
            value = event.given(name)
            number = self.number(value)
            if number is not None and value is not None:
                return Number(number, name, value)
            if value is not None:
                return None
        known = {each.name for of in self.facts.functions if of.name == BUILD for each in of.arguments}
        # An argument that is not known may be meant for the number of dies.
        if self.builds and not any(each.is_open or each.keywords.keys() - known for each in self.builds):
            return Number(
                self.facts.limits.dev_count, Phrase("the default of {name}", name="dev_count"), Value("unknown")
            )
        return None

    @cached_property
    def context(self) -> Number | None:
        """How many tokens a conversation may have; None: that is not known."""
        for event, name in (
            *((each, "max_kv_cache_size") for each in self.builds),
            *((each, "max_model_len") for each in self.engines),
        ):
            value = event.given(name)
            number = self.number(value)
            if number is not None and value is not None:
                return Number(number, name, value)
        return None

    @cached_property
    def models(self) -> list[str | None]:
        """The checkpoints that are compiled; None: of one it is not known which."""
        given = [each.given("model_path", 0) for each in self.builds]
        given += [each.given("model") or each.given("model", 0) for each in self.engines]
        texts = [self.program.python(value) for value in given]
        return [each if isinstance(each, str) and pure.HOLE not in each else None for each in texts]

    @cached_property
    def lengths(self) -> list[tuple[Event, Value]]:
        """The lists of lengths that programs are made of."""
        built = [(each, value) for each in self.builds if (value := each.given("seq_len_list")) is not None]
        return [*built, *self.modes("prefill_lens")]

    @cached_property
    def folders(self) -> list[Value]:
        """The folders that the artefacts go to."""
        built = [value for each in self.builds if (value := each.given("artifacts_path", 1)) is not None]
        return [*built, *(value for _, value in self.modes("AOT_DIR"))]

    def named(self, pattern: re.Pattern[str]) -> Iterator[Number]:
        """Numbers of the module, or defaults of options, whose name says what they are; none where calls differ."""
        if self.is_one_of_several:
            return
        held: Mapping[str, Value] = self.program.names
        for name, value in held.items():
            number = self.number(value)
            if number is not None and name not in self._counters and pattern.fullmatch(name.lower()):
                yield Number(number, name, value)
        for option in self.program.options:
            number = None if option.is_converted else self.number(option.default)
            if number is not None and option.default is not None and pattern.fullmatch(option.name.lower()):
                yield Number(number, option.flags[0], option.default)

    @cached_property
    def _counters(self) -> frozenset[str]:
        """Names that loops go through numbers with, which are no settings."""
        loops = (each for each in ast.walk(self.program.text.tree) if isinstance(each, (ast.For, ast.AsyncFor)))
        return frozenset(each.id for loop in loops for each in ast.walk(loop.target) if isinstance(each, ast.Name))

    @cached_property
    def counted_dies(self) -> list[Number]:
        """Numbers of dies that the script names."""
        return list(self.named(_DIES))

    @cached_property
    def contexts(self) -> list[Number]:
        """Lengths of a context that the script names."""
        return list(self.named(_CONTEXT))

    def side(self, name: str) -> int | None:
        """Width or height of the picture; None: not known, or named twice with different values."""
        found = {number.value for number in self.named(_SIZES[name])}
        return found.pop() if len(found) == 1 else None

    def device(self) -> str | None:
        """The device that traces: "cuda", "cpu", "either" (as the host has it); None: it is not set, or not known."""
        found: set[str] = set()
        for event, value in self.modes("jit_device"):
            for side in (True, False) if event.gpu is None else (event.gpu,):
                device = self.program.python(arm(value, has_gpu=side))
                if not isinstance(device, str):
                    return None
                found.add(device.partition(":")[0])
        return "either" if len(found) > 1 else next(iter(found), None)

    def options_of(self, mode: str) -> list[Option]:
        """The options whose name says that they order the dies of a mode."""
        kind = mode.partition("_")[0].lower()
        found = []
        for option in self.program.options:
            words = set(re.split(r"[_-]", option.name.lower()))
            told = [name for name, known in _PARTS.items() if words & known]
            if "remap" in words and (told == [kind] or (not told and len(self.remaps) == 1)):
                found.append(option)
        return found


def digits(order: list[int], dies: int | None) -> set[str]:
    """How an order of dies may stand in a folder's name: without the zeros at its end, or as many as there are dies."""
    last = max((index for index, die in enumerate(order) if die), default=-1)
    found = {"".join(map(str, order[: last + 1]))}
    if dies is not None:
        found.add("".join(map(str, order[:dies])))
    return found


def text_of(program: Program, value: Value) -> str | None:
    """A folder's name; what is not known of it is a hole. None: nothing is known of it."""
    data = program.python(value)
    return data if isinstance(data, str) and data.strip(pure.HOLE) else None
