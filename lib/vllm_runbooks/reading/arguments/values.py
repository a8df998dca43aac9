"""Convert a text to an option's type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_runbooks.reading.arguments import json_keys
from vllm_runbooks.reading.arguments.conditions import UNKNOWN

_HUMAN = re.compile(r"(\d{1,300})((?:\.\d{1,300})?)([kKmMgGtT])")
_BARE_HUMAN = re.compile(r"\b\d{1,300}(?:\.\d{1,300})?[kKmMgGtT]\b")
_UNITS = {
    **dict(zip("kmgt", (10**3, 10**6, 10**9, 10**12), strict=True)),
    **{c: 2 ** (10 * i) for i, c in enumerate("KMGT", 1)},
}
_MAX_LITERAL = 5000
"""Longest Python literal that is read; longer ones are accepted."""
_DEEP = re.compile(r"[-+~(\[{\s]{60}")
_LOWERED: tuple[Callable[[str], str], ...] = (
    str,
    str.lower,
    str.upper,
    lambda text: text.lower().replace("-", "_"),
    lambda text: "" if text.lower() == "none" else text,
)
"""Conversions of text, as observed for functions without a name."""
_EXPECTED = {
    "int": "an integer",
    "float": "a number",
    "human_int": "an integer, also as 8k, 1.5k or 8K",
    "human_int_or_auto": "an integer, also as 8k or 8K, or auto",
    "json": "JSON",
    "int_pairs": "KEY=INTEGER, separated by commas",
}


class ValueRefusedError(Exception):
    def __init__(self, kind: str, **says: str) -> None:
        super().__init__(kind)
        self.fault = json_keys.Fault(kind, (), says)


@dataclass
class ValueReader:
    """Converts texts and collects `faults`."""

    objects: Mapping[str, Any]
    conversions: Mapping[str, Any]
    faults: list[json_keys.Fault] = field(default_factory=list)

    def read(self, text: str, kind: Any, made: Any = UNKNOWN) -> Any:
        """Convert a text; UNKNOWN if its value is unknown. `made` is JSON combined from keys."""
        try:
            return self._read(text, kind, made)
        except ValueRefusedError as refused:
            self.faults.append(refused.fault)
            return UNKNOWN

    def read_by_action(self, value: Any, text: str, action: str, probes: Mapping[str, Any]) -> Any:
        try:
            if action in _ACTIONS:
                return _ACTIONS[action](self, value, text, probes)
            _refuse_tried(text, probes)
        except ValueRefusedError as refused:
            self.faults.append(refused.fault)
            return UNKNOWN
        return value

    def _read(self, text: str, kind: Any, made: Any) -> Any:
        if isinstance(kind, str):
            return self._by_name(text, kind, made)
        name, inner = _form(kind)
        if name == "optional":
            return None if made is UNKNOWN and text in ("", "None") else self._read(text, inner, made)
        if name == "json_or_str":
            is_json = made is not UNKNOWN or inner is None or re.match(inner, text) is not None
            return self._json(text, made) if is_json else text
        if name == "json_or_pairs":
            # An empty text is not a pair; if it has no meaning, the option is optional.
            is_json = made is not UNKNOWN or re.match(inner, text) is not None
            return self._json(text, made) if is_json else _pairs(text or ",")
        if name == "dataclass":
            return self._dataclass(text, inner, kind, made)
        return self._opaque(text, inner)

    def _by_name(self, text: str, kind: str, made: Any) -> Any:
        if kind == "json":
            return self._json(text, made)
        if kind in _CONVERSIONS:
            unit = text.strip()[-1:]
            if "error" in self.conversions.get(kind, {}).get(f"1{unit}", ()):
                raise ValueRefusedError("wrong-type", expected=f"no unit {unit}", value=text)
            try:
                return _CONVERSIONS[kind](text)
            except ValueError:
                raise ValueRefusedError("wrong-type", expected=_EXPECTED.get(kind, kind), value=text) from None
        return bool(text) if kind == "bool" else text

    def _json(self, text: str, made: Any) -> Any:
        if made is not UNKNOWN:
            return made
        value, fault = json_keys.read(text)
        if fault:
            raise ValueRefusedError(fault.kind, **fault.says)
        return value

    def _dataclass(self, text: str, cls: str, kind: Mapping[str, Any], made: Any) -> Any:
        via = kind.get("via", {})
        if text in via.get("words", ()):
            return text
        if made is UNKNOWN:
            reads = via.get("reads", "json")
            if reads == "other":
                return UNKNOWN
            if kind.get("expands") == "human_numbers":
                text = _expanded(text)
            made = _literal(text) if reads == "literal" else self._json(text, made)
        self.check_object(made, cls, is_plain=via.get("reads") == "json_keywords" and not via.get("validated"))
        return made

    def check_object(self, value: Any, cls: str, *, is_plain: bool) -> None:
        """Check the keys of an object; a plain class accepts values of any type."""
        objects = self.objects
        if is_plain:
            keys = objects.get(cls, {}).get("keys", {})
            objects = {cls: {"keys": {key: {**entry, "type": "any"} for key, entry in keys.items()}, "extra": "forbid"}}
        self.faults += json_keys.judged(value, {"object": cls}, objects)

    def _opaque(self, text: str, name: str) -> Any:
        probes = self.conversions.get(name, {})
        outcome = probes.get(text)
        if outcome is not None:
            _refuse_tried(text, probes)
            return outcome["value"]
        results = [(probe, outcome.get("value")) for probe, outcome in probes.items()]
        for change in _LOWERED:
            if results and all(change(probe) == value for probe, value in results):
                return change(text)
        return UNKNOWN


_PARAMETRIC = ("optional", "json_or_str", "json_or_pairs", "dataclass", "opaque")


def _form(kind: Mapping[str, Any]) -> tuple[str, Any]:
    return next(((name, kind[name]) for name in _PARAMETRIC if name in kind), ("opaque", ""))


def _human_int(text: str) -> int:
    text = text.strip()
    match = _HUMAN.fullmatch(text)
    if match is None:
        return int(text)
    number, fraction, unit = match.groups()
    if unit.islower():
        return int(float(number + fraction) * _UNITS[unit])
    if fraction:
        near, expected = f"{number}{fraction}{unit.lower()}", "no decimals before K, M, G and T"
        raise ValueRefusedError("wrong-type", expected=expected, value=text, near=near)
    return int(number) * int(_UNITS[unit])


def _human_int_or_auto(text: str) -> int:
    return -1 if text.strip().lower() in ("-1", "auto") else _human_int(text)


_CONVERSIONS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "human_int": _human_int,
    "human_int_or_auto": _human_int_or_auto,
}


def human_number(text: str) -> int | None:
    """Parse a number such as 8k or 8K; None if invalid."""
    try:
        return _human_int(text)
    except (ValueError, ValueRefusedError, OverflowError):
        return None


def _pairs(text: str) -> dict[str, int] | None:
    if not text:
        return None
    pairs: dict[str, int] = {}
    for item in text.split(","):
        parts = [part.lower().strip() for part in item.split("=")]
        try:
            key, value = parts[0], int(parts[1])
        except (IndexError, ValueError):
            raise ValueRefusedError("wrong-type", expected=_EXPECTED["int_pairs"], value=text) from None
        if len(parts) > 2 or pairs.setdefault(key, value) != value:
            raise ValueRefusedError("wrong-type", expected=_EXPECTED["int_pairs"], value=text)
    return pairs


_CONVERSIONS["int_pairs"] = _pairs


def _refuse_tried(text: str, outcomes: Mapping[str, Any]) -> None:
    if "error" in outcomes.get(text, ()):
        raise ValueRefusedError("wrong-type", expected="another value", value=text)


def _literal(text: str) -> Any:
    from vllm_runbooks.core import python_trees

    if len(text) > _MAX_LITERAL or _DEEP.search(text):
        return UNKNOWN
    try:
        return python_trees.literal(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        at = getattr(error, "offset", None)
        says = {"reason": "not a Python literal", "at": str((at or 1) - 1)}
        raise ValueRefusedError("bad-json", **says) from None


def _expanded(text: str) -> str:
    """Write 8k and 8K outside of JSON strings as numbers."""
    pieces, done = [], 0
    while done < len(text):
        quote = text.find('"', done)
        end = _closing(text, quote) if quote >= 0 else -1
        outside = text[done:quote] if end >= 0 else text[done:]
        pieces.append(_BARE_HUMAN.sub(lambda match: str(_human_int(match[0])), outside))
        if end < 0:
            break
        pieces.append(text[quote:end])
        done = end
    return "".join(pieces)


def _closing(text: str, quote: int) -> int:
    """Offset after the JSON string that begins at a quote; -1 if it does not end."""
    at = quote + 1
    while True:
        close = text.find('"', at)
        if close < 0:
            return -1
        backslashes = 0
        while close - 1 - backslashes > quote and text[close - 1 - backslashes] == "\\":
            backslashes += 1
        if backslashes % 2 == 0:
            return close + 1
        at = close + 1


def _boolean(_: ValueReader, value: Any, text: str, _probes: Mapping[str, Any]) -> Any:
    if str(value).lower() not in ("true", "false"):
        raise ValueRefusedError("wrong-type", expected="true or false", value=text)
    return str(value).lower() == "true"


def _lora_module(reader: ValueReader, value: Any, text: str, probes: Mapping[str, Any]) -> Any:
    """Parse name=path, or JSON with name and path."""
    if value in (None, ""):
        return UNKNOWN
    if "=" in text and "," not in text:
        if text.count("=") > 1 and "error" in probes.get("a=b=c", ()):
            raise ValueRefusedError("wrong-type", expected="name=path with one =", value=text)
        module_name, _, path = text.partition("=")
        return {"name": module_name, "path": path}
    module, fault = json_keys.read(text)
    if fault:
        raise ValueRefusedError(fault.kind, **fault.says, expected=_LORA_FORMS)
    missing = [key for key in ("name", "path") if not isinstance(module, dict) or key not in module]
    if missing:
        raise ValueRefusedError("wrong-type", expected=_LORA_FORMS, value=text, missing=missing[0])
    if _LORA_CLASS in reader.objects:
        reader.check_object(module, _LORA_CLASS, is_plain=True)
    return module


_LORA_CLASS, _LORA_FORMS = "LoRAModulePath", 'name=path or {"name": …, "path": …}'


def _name_and_path(_: ValueReader, value: Any, text: str, _probes: Mapping[str, Any]) -> Any:
    if value is None or text.count("=") != 1:
        raise ValueRefusedError("wrong-type", expected="name=path", value=text)
    return {"name": text.partition("=")[0], "path": text.partition("=")[2]}


_ACTIONS: dict[str, Callable[[ValueReader, Any, str, Mapping[str, Any]], Any]] = {
    "StoreBoolean": _boolean,
    "LoRAParserAction": _lora_module,
    "PromptAdapterParserAction": _name_and_path,
}


def type_in_words(kind: Any) -> str:
    """Description of an option's type: "an integer", "JSON"."""
    if isinstance(kind, str):
        return _EXPECTED.get(kind, "a text")
    name, inner = _form(kind)
    if name == "optional":
        return type_in_words(inner)
    return {"json_or_str": "JSON or a text", "json_or_pairs": "JSON", "dataclass": "JSON"}.get(name, "a value")
