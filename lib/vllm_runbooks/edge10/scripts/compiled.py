"""Settings of a compile script: dies, lengths, context, orders of the dies, output folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from vllm_runbooks.catalog.languages import Phrase
from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.edge10.scripts.operations import is_known_text
from vllm_runbooks.edge10.scripts.program import ScriptProgram
from vllm_runbooks.edge10.scripts.readings import FilePart, compile_calls, is_build, is_engine
from vllm_runbooks.edge10.scripts.values import HOLE, ScriptEvent, ScriptOption, ScriptValue

MODE = "set_device_mode"
REMAP = "die_remap"
_MAX_CALLS = 200
_DIES = re.compile(
    r"(?:num|n|count)_?dies?|dies|dies?_?(?:num|count|number)|(?:num|n)_?dev(?:ice)?s?|dev(?:ice)?_?count", re.ASCII
)
"""Names of a number of dies."""
_MODEL_PARTS = {
    "vm": frozenset(("vm", "vit", "visual", "vision")),
    "lm": frozenset(("lm", "llm", "language", "text")),
}
"""Words in an option's name for a part of the model."""


class NamedNumber(NamedTuple):
    """Number in a script, and its name in messages."""

    value: int
    name: str


@dataclass(frozen=True)
class CompileSettings:
    """Settings of a compile script."""

    part: FilePart
    program: ScriptProgram
    facts: Toolchain

    @cached_property
    def calls(self) -> list[ScriptEvent]:
        return compile_calls(self.program)[:_MAX_CALLS]

    def number(self, value: ScriptValue | None) -> int | None:
        data = self.program.python(value)
        return data if isinstance(data, int) and not isinstance(data, bool) else None

    def numbers(self, value: ScriptValue | None) -> list[int] | None:
        data = self.program.python(value)
        is_known = isinstance(data, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in data)
        return data if is_known else None

    @cached_property
    def builds(self) -> list[ScriptEvent]:
        return list(filter(is_build, self.calls))

    @cached_property
    def engines(self) -> list[ScriptEvent]:
        return list(filter(is_engine, self.calls))

    def modes(self, name: str) -> list[tuple[ScriptEvent, ScriptValue]]:
        return [
            (event, event.args[1])
            for event in self.program.events
            if event.kind == "call" and event.name.rpartition(".")[2] == MODE and len(event.args) > 1
            and event.args[0].data == name
        ]  # fmt: skip

    @cached_property
    def remaps(self) -> dict[str, list[tuple[ScriptEvent, ScriptValue]]]:
        """Orders of the dies, by the mode's name."""
        names = [name for name in self.facts.settings if name.endswith(REMAP)]
        return {name: self.modes(name) for name in names if self.modes(name)}

    @cached_property
    def dies(self) -> NamedNumber | None:
        """Number of dies that the model is compiled for; None if unknown, or if several are compiled."""
        if len(self.calls) > 1:
            return None
        for name, calls in (("dev_count", self.builds), ("tensor_parallel_size", self.engines)):
            for event in calls:
                value = event.argument(name)
                number = self.number(value)
                if value is not None:
                    return None if number is None else NamedNumber(number, name)
        names = {"model_path", "max_kv_cache_size", "seq_len_list", "artifacts_path", "embedding_as_input"}
        if self.builds and not any(event.is_open or event.keywords.keys() - names for event in self.builds):
            return NamedNumber(self.facts.limits.dev_count, Phrase("the default of {name}", name="dev_count"))
        return None

    @cached_property
    def context(self) -> NamedNumber | None:
        for name, calls in (("max_kv_cache_size", self.builds), ("max_model_len", self.engines)):
            for event in calls:
                number = self.number(event.argument(name))
                if number is not None:
                    return NamedNumber(number, name)
        return None

    @cached_property
    def models(self) -> list[str | None]:
        values = [event.argument("model_path", 0) for event in self.builds]
        values += [event.argument("model", 0) for event in self.engines]
        paths = [self.program.python(value) for value in values]
        return [path if isinstance(path, str) and is_known_text(path) else None for path in paths]

    @cached_property
    def lengths(self) -> list[tuple[ScriptEvent, ScriptValue]]:
        """Lists of lengths of compiled programs."""
        built = [(event, value) for event in self.builds if (value := event.argument("seq_len_list")) is not None]
        return [*built, *self.modes("prefill_lens")]

    @cached_property
    def folders(self) -> list[ScriptValue]:
        """Output folders of the compiled model."""
        built = [value for event in self.builds if (value := event.argument("artifacts_path", 1)) is not None]
        return [*built, *(value for _, value in self.modes("AOT_DIR"))]

    @cached_property
    def counted_dies(self) -> list[NamedNumber]:
        names = [(name, name, value) for name, value in self.program.names.items()]
        options = [(option.name, option.flags[0], option.default) for option in self.program.options]
        return [
            NamedNumber(number, label)
            for name, label, value in (*names, *options)
            if (number := self.number(value)) is not None and _DIES.fullmatch(name.lower())
        ]

    def device(self) -> str | None:
        """Device that traces: "cuda", "cpu", or "either" if the host decides; None if unknown."""
        values = [value for _, value in self.modes("jit_device")]
        sides = [side for value in values for side in (value.data if value.kind == "either" else (value,))]
        devices = {str(side.data).partition(":")[0] if side.kind == "plain" else None for side in sides}
        return None if None in devices else "either" if len(devices) > 1 else next(iter(devices), None)

    def options_of(self, mode: str) -> list[ScriptOption]:
        """Options whose name says that they order the dies of a mode."""
        part = mode.partition("_")[0].lower()
        options = []
        for option in self.program.options:
            words = set(re.split(r"[_-]", option.name.lower()))
            parts = [name for name, synonyms in _MODEL_PARTS.items() if words & synonyms]
            if "remap" in words and (parts == [part] or (not parts and len(self.remaps) == 1)):
                options.append(option)
        return options


def folder_text(program: ScriptProgram, value: ScriptValue) -> str | None:
    """Name of a folder, with holes for unknown parts; None if all of it is unknown."""
    text = program.python(value)
    return text if isinstance(text, str) and text.strip(HOLE) else None
