"""Check JSON in options by the types of a release.

A type is a name ("int", "str", "any", …) or a pair such as {"optional": TYPE}, {"list": TYPE}, {"object": NAME}, with
the rules of pydantic's lax mode. What the data can't decide (a check in Python, an opaque type) is never a fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vllm_runbooks.catalog.options import LIMITS
from vllm_runbooks.core.json_errors import same_words
from vllm_runbooks.reading.arguments.conditions import UNKNOWN, Values, holds, names

_MAX_DEPTH = 60
_MAX_FAULTS = 20
_TRUE = ("1", "on", "t", "true", "y", "yes")
_FALSE = ("0", "off", "f", "false", "n", "no")
_INTEGER = re.compile(r"[+-]?\d+(?:_\d+)*(?:\.0+)?", re.ASCII)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_NAMES = {
    "int": "an integer", "float": "a number", "bool": "true or false", "str": "a string", "null": "null",
    "list": "a list", "set": "a list", "tuple": "a list", "dict": "an object", "object": "an object",
}  # fmt: skip


class Fault(NamedTuple):
    """A part of a JSON value that the release rejects."""

    kind: str
    """bad-json, unknown-key, wrong-key-type or conflict."""
    path: tuple[str | int, ...]
    """Keys and list indices; empty for the whole value."""
    says: Mapping[str, str]
    """Details: key, value, expected, near (a known key), choices; for bad JSON reason and at (offset)."""


@dataclass
class _JsonChecker:
    objects: Mapping[str, Any]
    faults: list[Fault] = field(default_factory=list)

    def check(self, value: Any, kind: Any, path: tuple[str | int, ...] = ()) -> bool:
        """Whether the value has the type, as far as known; collects the faults."""
        if value is UNKNOWN or len(path) > _MAX_DEPTH or len(self.faults) >= _MAX_FAULTS:
            return True
        name, inner = form(kind)
        if name == "optional":
            return value is None or self.check(value, inner, path)
        if name == "union":
            return self._union(value, inner, path)
        if name == "chain":
            return self.check(value, inner[0], path) if inner else True
        if name == "checked":
            return self._checked(value, kind, path)
        if name in ("list", "set", "tuple", "dict", "object"):
            return self._container(value, name, inner, path, kind)
        if name == "enum":
            return self._enum(value, inner, path, kind)
        if name == "never":
            return self._wrong(value, path, "not a JSON value")
        return self._scalar(value, name, inner or {}, path)

    def _wrong(self, value: Any, path: tuple[str | int, ...], expected: str, **more: str) -> bool:
        says = {"key": dotted(path), "value": shown(value), "expected": expected, **more}
        self.faults.append(Fault("wrong-key-type", path, says))
        return False

    def _union(self, value: Any, kinds: Sequence[Any], path: tuple[str | int, ...]) -> bool:
        tries = []
        for kind in kinds:
            attempt = _JsonChecker(self.objects)
            if attempt.check(value, kind, path) and not attempt.faults:
                return True
            tries.append(attempt.faults)
        # Report the faults of the closest member: its faults are the deepest.
        deepest = max(tries, key=lambda faults: max((len(fault.path) for fault in faults), default=0), default=[])
        if deepest and max(len(fault.path) for fault in deepest) > len(path):
            self.faults += deepest
            return False
        return self._wrong(value, path, " or ".join(dict.fromkeys(described(kind) for kind in kinds)))

    def _checked(self, value: Any, kind: Mapping[str, Any], path: tuple[str | int, ...]) -> bool:
        tried = _tried(value, kind)
        if tried is None and isinstance(value, dict) and kind.get("any_keys") is False:
            return self.check(value, kind["checked"], path)
        if tried is None:
            # A check that runs before the type may turn the value into one that fits it, or replace the type.
            is_last = str(kind.get("by", "")).startswith("after")
            if is_last and not _is_right(value, kind["checked"], self.objects):
                return self.check(value, kind["checked"], path)
            beneath = _beneath(kind)
            has_type = beneath != "any" or not isinstance(value, int | float)
            is_right = has_type and _is_right(value, beneath, self.objects)
            tried = is_right or not _is_like_refused(value, kind)
        words = kind.get("words", ())
        more = {"choices": " ".join(words)} if words else {}
        expected = f"one of {' '.join(words)}" if words else described(kind["checked"])
        return tried or self._wrong(value, path, expected, **more)

    def _container(self, value: Any, name: str, inner: Any, path: tuple[str | int, ...], kind: Any) -> bool:
        if name == "object":
            return self._object(value, inner, path)
        if name == "dict":
            if not isinstance(value, dict):
                return self._wrong(value, path, _NAMES[name])
            # A list, so that every fault is reported.
            return all([self.check(item, inner[1], (*path, key)) for key, item in value.items()])
        if not isinstance(value, list):
            return self._wrong(value, path, _NAMES[name])
        if name == "tuple":
            if "variadic" in kind:
                return True
            if len(value) != len(inner):
                return self._wrong(value, path, f"a list of {len(inner)}")
            pairs = enumerate(zip(value, inner, strict=True))
            return all([self.check(item, item_kind, (*path, index)) for index, (item, item_kind) in pairs])
        if len(value) < kind.get("min_length", 0) or len(value) > kind.get("max_length", len(value)):
            return self._wrong(value, path, "a list of another length")
        return all([self.check(item, inner, (*path, index)) for index, item in enumerate(value)])

    def _object(self, value: Any, name: str, path: tuple[str | int, ...]) -> bool:
        keys = self.objects.get(name, {}).get("keys")
        if keys is None:
            return True
        if not isinstance(value, dict):
            return self._wrong(value, path, _NAMES["object"])
        entries = {entry.get("alias") or key: entry for key, entry in keys.items() if entry.get("init", True)}
        right = True
        for key, item in value.items():
            entry = entries.get(key)
            if entry is not None:
                right &= self.check(item, entry["type"], (*path, key))
            elif self.objects[name].get("extra") == "forbid":
                says = {"key": dotted((*path, key)), "keys": " ".join(sorted(entries))}
                self.faults.append(Fault("unknown-key", (*path, key), says))
                right = False
        for key, entry in entries.items():
            if entry.get("required") and key not in value:
                right = self._wrong(value, path, f"an object with {key}", missing=key)
        return self._conditions(value, name, entries, path) if right else False

    def _conditions(
        self, value: Mapping[str, Any], name: str, entries: Mapping[str, Any], path: tuple[str | int, ...]
    ) -> bool:

        def current(key: str) -> Any:
            entry = entries.get(key)
            if entry is None:
                return UNKNOWN
            if key not in value:
                default = entry.get("default", UNKNOWN)
                return UNKNOWN if isinstance(default, dict) and default else default
            return _converted(value[key], entry["type"])

        for condition in self.objects[name].get("conditions", ()):
            met = holds(condition["when"], Values(current, value.__contains__))
            if met is UNKNOWN or not met:
                continue
            keys = [key for key in dict.fromkeys(names(condition["when"])) if key in value]
            says = {"key": dotted((*path, *keys[:1])), "keys": " ".join(keys), "message": condition["says"].rstrip(".")}
            self.faults.append(Fault("conflict", (*path, *keys[:1]), says))
            return False
        return True

    def _enum(self, value: Any, values: Sequence[Any], path: tuple[str | int, ...], kind: Any) -> bool:
        is_member = any(value == member and isinstance(value, bool) == isinstance(member, bool) for member in values)
        # An integer enumeration accepts what converts to one of its values, which are unknown here.
        converts = isinstance(value, bool | int | float | str) and any(isinstance(member, int) for member in values)
        if "missing" in kind or is_member or (converts and _integer(value) in values):
            return True
        choices = " ".join("null" if member is None else str(member) for member in values)
        return self._wrong(value, path, f"one of {choices}", choices=choices)

    def _scalar(self, value: Any, name: str, limits: Mapping[str, Any], path: tuple[str | int, ...]) -> bool:
        if name == "null":
            return value is None or self._wrong(value, path, _NAMES[name])
        if name == "str":
            size = len(value) if isinstance(value, str) else -1
            is_right = limits.get("min_length", 0) <= size <= limits.get("max_length", size)
            return is_right or self._wrong(value, path, _NAMES[name])
        if name == "bool":
            text = value.lower() if isinstance(value, str) else ""
            right = isinstance(value, bool) or value in (0, 1) or text in _TRUE or text in _FALSE
            return right or self._wrong(value, path, _NAMES[name])
        if name in ("int", "float"):
            number = _integer(value) if name == "int" else _number(value)
            if number is None:
                return self._wrong(value, path, _NAMES[name])
            known = {limit: least for limit, least in limits.items() if limit in LIMITS}
            if all(LIMITS[limit].holds(number, least) for limit, least in known.items()):
                return True
            words = " and ".join(f"{LIMITS[limit].sign} {least}" for limit, least in known.items())
            return self._wrong(value, path, f"{_NAMES[name]} {words}")
        return True


_FORMS = ("optional", "union", "chain", "checked", "list", "set", "tuple", "dict", "object", "enum", "never", "opaque")


def form(kind: Any) -> tuple[str, Any]:
    """Name and parameter of a type: ("list", "int"), ("str", None)."""
    if isinstance(kind, str):
        return kind, None
    for name in (*_FORMS, "int", "float", "str"):
        if name in kind:
            return name, kind[name]
    return "any", None


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)


def _is_right(value: Any, kind: Any, objects: Mapping[str, Any]) -> bool:
    attempt = _JsonChecker(objects)
    return attempt.check(value, kind) and not attempt.faults


def _tried(value: Any, kind: Mapping[str, Any]) -> bool | None:
    if any(_same(value, sample) for sample in kind.get("accepts", ())):
        return True
    if any(_same(value, sample) for sample in kind.get("refuses", ())):
        return False
    where = kind.get("words_in", "value")
    words = [item for item in _items(value, where) if isinstance(item, str)] if "words" in kind else []
    return True if words and all(_is_word(word, kind) for word in words) else None


def _beneath(kind: Mapping[str, Any]) -> Any:
    inner = kind["checked"]
    while isinstance(inner, dict) and "checked" in inner and "accepts" not in inner:
        inner = inner["checked"]
    return inner if "accepts" in kind else kind["checked"]


def _is_like_refused(value: Any, kind: Mapping[str, Any]) -> bool:
    refuses = kind.get("refuses", ())
    if isinstance(value, list):
        return bool(value) and any(_same(["abc"], item) for item in refuses) and all(isinstance(i, str) for i in value)
    sample: Any = {str: "abc", int: _TRIED, float: 1.5, dict: {}}.get(type(value), UNKNOWN)
    return sample is not UNKNOWN and any(_same(sample, item) for item in refuses)


_TRIED = 5


def _items(value: Any, where: str) -> list[Any]:
    if where == "list":
        return value if isinstance(value, list) else []
    if where == "dict":
        return list(value.values()) if isinstance(value, dict) else []
    return [value]


def _is_word(text: str, kind: Mapping[str, Any]) -> bool:
    words = kind["words"]
    if kind.get("any_case"):
        text, words = text.lower(), [word.lower() for word in words]
    return text in words or (bool(kind.get("any_dash")) and text.replace("-", "_") in words)


def _converted(value: Any, kind: Any) -> Any:
    """Convert a value of the right type; UNKNOWN if a check may replace it."""
    name, inner = form(kind)
    if name == "optional":
        return None if value is None else _converted(value, inner)
    if name == "checked":
        return _converted(value, inner) if str(kind.get("by", "")).startswith("after") else UNKNOWN
    if name == "union":
        return value if any(_same(_converted(value, member), value) for member in inner) else UNKNOWN
    if name in ("list", "set"):
        items = [_converted(item, inner) for item in value] if isinstance(value, list) else [UNKNOWN]
        return UNKNOWN if any(item is UNKNOWN for item in items) else items
    if name == "enum":
        return value if any(_same(value, member) for member in inner) else UNKNOWN
    if name == "bool":
        return value in (True, 1) or (isinstance(value, str) and value.lower() in _TRUE)
    number = {"int": _integer, "float": _number}.get(name)
    if number is not None:
        result = number(value)
        return UNKNOWN if result is None else result
    right = {"str": str, "dict": dict, "any": object}.get(name)
    return value if right is not None and isinstance(value, right) else UNKNOWN


def _integer(value: Any) -> int | None:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int(value) if abs(value) < _MAX_WHOLE and value == value // 1 else None
    text = value.strip() if isinstance(value, str) else ""
    return int(text.split(".")[0]) if len(text) <= _MAX_DIGITS and _INTEGER.fullmatch(text) else None


_MAX_WHOLE = 2.0**63
"""Limit below which a float represents an exact integer."""
_MAX_DIGITS = 4300


def _number(value: Any) -> float | None:
    if isinstance(value, int | float):
        return value
    if isinstance(value, str) and value.strip().isascii():
        try:
            return float(value)
        except ValueError:
            return None
    return None


def described(kind: Any) -> str:
    """Description of a type: "an integer", "one of a b"."""
    name, inner = form(kind)
    if name in ("optional", "checked"):
        return described(inner)
    if name == "union":
        return " or ".join(dict.fromkeys(described(member) for member in inner))
    if name == "enum":
        return f"one of {' '.join(map(str, inner))}"
    return _NAMES.get(name, "a value")


def dotted(path: Iterable[str | int]) -> str:
    return ".".join(map(str, path))


def shown(value: Any) -> str:
    """A value as JSON, shortened."""
    text = json.dumps(value, default=repr, ensure_ascii=False) if not isinstance(value, str) else value
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_SHOWN = 80


def judged(value: Any, kind: Any, objects: Mapping[str, Any]) -> list[Fault]:
    """Check a JSON value; empty if it is right or can't be checked."""
    checker = _JsonChecker(objects)
    checker.check(value, kind)
    return checker.faults[:_MAX_FAULTS]


def read(text: str) -> tuple[Any, Fault | None]:
    """Parse a JSON text; the value is None if there is a fault."""
    try:
        return json.loads(text), None
    except json.JSONDecodeError as error:
        message = same_words(error)
        return None, Fault("bad-json", (), {"reason": message.msg, "at": str(message.pos), **_why(text, message.pos)})
    except RecursionError:
        return None, Fault("bad-json", (), {"reason": "too deeply nested", "at": "0"})
    except ValueError:
        return None, Fault("bad-json", (), {"reason": "a number with too many digits", "at": "0"})


def _why(text: str, at: int) -> dict[str, str]:
    character, before = text[at : at + 1], text[:at].rstrip()[-1:]
    if not text.strip():
        return {"hint": "empty"}
    if "'" in text and '"' not in text:
        return {"hint": "single-quotes"}
    if re.match(r"True|False|None", text[at:]):
        return {"hint": "python-literal"}
    if character in ("}", "]") and before == ",":
        return {"hint": "trailing-comma"}
    if before == "," and character == "":
        return {"hint": "cut"}
    if not re.search(r'["\d\[\]]', text) and text.lstrip()[:1] == "{":
        return {"hint": "quotes-lost"}
    if character == "":
        return {"hint": "cut"}
    return {"hint": "quotes-lost"} if text.lstrip()[:1] == "{" and '"' not in text else {}


def place(text: str, path: Sequence[str | int]) -> int | None:
    """Offset of the value (or key) at a path in a JSON text; None if not found."""
    steps = [str(step) for step in path]
    where: list[str | int | None] = []
    """Key (None if next) or index in each open collection."""
    for token in _TOKEN.finditer(text):
        sign, at = token[0], token.start()
        if sign in {"}", "]"}:
            del where[-1:]
        elif sign == ",":
            last = where.pop() if where else None
            where.append(last + 1 if isinstance(last, int) else None)
        elif sign != ":":
            is_key = where[-1:] == [None]
            if is_key:
                with suppress(ValueError):
                    where[-1] = str(json.loads(sign))
            if len(where) == len(steps) and [*map(str, where)] == steps:
                return at
            if not is_key and sign in {"{", "["}:
                where.append(None if sign == "{" else 0)
    return None
