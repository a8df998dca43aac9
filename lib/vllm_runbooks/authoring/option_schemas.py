"""JSON Schemas by which editors check vLLM's options in YAML, from the data of a release.

`vllm-serve` is for the file of `vllm serve --config`, `vllm-engine` for engine arguments by their Python names, and the
others are for documents of `launch_forms` with a `schema_at`. Draft 7, which editors support. A schema rejects no name
that the release accepts. It is stricter than vLLM in switches, which must be `true` or `false`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vllm_runbooks.catalog import options, support
from vllm_runbooks.catalog.options import Option, ReleaseData, inner_type
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.reading.arguments import json_keys
from vllm_runbooks.reading.documents.launch_forms import LaunchForm

Schema = dict[str, Any]

_DRAFT = "http://json-schema.org/draft-07/schema#"
_NOT_IN_FILES = frozenset({"help", "config"})
_LIMITS = {
    "ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum", "multiple_of": "multipleOf",
    "min_length": "minLength", "max_length": "maxLength",
}  # fmt: skip
_TYPES = {"int": "integer", "float": "number", "bool": "boolean", "str": "string", "null": "null"}
_INTEGER = r"[+-]?\d+"
_NUMBER = rf"{_INTEGER}(\.\d*)?([eE]{_INTEGER})?|[+-]?\.\d+|[+-]?(inf|nan)"
_HUMAN = r"\d+(\.\d+)?[kKmMgGtT]?"
_TEXTS: Mapping[str, Schema] = {
    "int": {"type": ["integer", "string"], "pattern": f"^{_INTEGER}$"},
    "float": {"type": ["number", "string"], "pattern": f"^({_NUMBER})$"},
    "human_int": {"type": ["integer", "string"], "pattern": f"^({_INTEGER}|{_HUMAN})$"},
    "human_int_or_auto": {"type": ["integer", "string"], "pattern": f"^(auto|{_INTEGER}|{_HUMAN})$"},
}
"""Values in a file, whose text vLLM converts."""
_SCALAR: Schema = {"type": ["string", "number"]}
_NATIVE: Mapping[str, Schema] = {
    **{name: {"type": kind} for name, kind in _TYPES.items()},
    "human_int": {"type": "integer"},
    "human_int_or_auto": {"type": "integer"},
    "int_pairs": {"type": "object"},
}
"""Values as Python has them."""


def files(releases: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Names and texts of the schemas of releases; the newest known release is also `latest`."""
    newest = options.known_releases()[-1]
    for release in releases:
        data = options.load(release)
        for name, schema in schemas(data).items():
            text = json.dumps(schema, ensure_ascii=False, separators=(",", ":")) + "\n"
            yield f"{name}-{release}.json", text
            if release == newest:
                yield f"{name}-latest.json", text


def schemas(data: ReleaseData) -> dict[str, Schema]:
    """The schemas of a release by name."""
    forms = {name: form for name, form in load_table("launch_forms", LaunchForm).items() if form.schema_at}
    return {
        "vllm-serve": _Values(data, is_text=True).file(),
        "vllm-engine": _Values(data, is_text=False).arguments(),
        **{name.replace("_", "-"): _of_form(form, data) for name, form in forms.items()},
    }


def _of_form(form: LaunchForm, data: ReleaseData) -> Schema:
    """Schema of a document whose other keys are free."""
    release, values = data.version, _Values(data, is_text=False)
    inner: Schema = {}
    for path, option in form.options.items():
        if option in data.by_string and not path.startswith("/"):
            _put(inner, path.split("."), values.option(data.by_string[option]))
    for path in form.args:
        _put(inner, path.split("."), {"type": "array", "items": {"type": "string"}})
    # A Python program passes its settings on as arguments of the engine, any other as words of a command.
    name = "vllm-engine" if form.program else "vllm-serve"
    for path in form.settings:
        _put(inner, [key for key in path.split(".") if key], {"$ref": f"{name}-{release}.json"})
    for key in reversed(form.schema_at):
        inner = {"items": inner} if key == "-" else {"properties": {key: inner}}
    return {"$schema": _DRAFT, "title": f"{form.source}, vLLM {release}", **inner, **values.definitions()}


def _put(schema: Schema, path: list[str], value: Schema) -> None:
    for key in path:
        schema = schema.setdefault("properties", {}).setdefault(key, {})
    schema.update(value)


class _Values:
    """Schemas of values: in a file, where vLLM converts their text (`is_text`), or as Python has them."""

    def __init__(self, data: ReleaseData, *, is_text: bool) -> None:
        self.data, self.is_text = data, is_text
        self.classes: dict[str, Schema] = {}

    def definitions(self) -> Schema:
        return {"definitions": dict(sorted(self.classes.items()))} if self.classes else {}

    def file(self) -> Schema:
        """A file for `vllm serve --config`: every long spelling, with dashes or underscores."""
        features = self.data.features
        properties: dict[str, Schema] = {}
        patterns: dict[str, Schema] = {}
        with_keys: list[str] = []
        for option in self.data.entries["serve"]:
            names = [text[2:] for text in option.strings if text.startswith("--")]
            if option.dest in _NOT_IN_FILES or (option.dest == "model" and not features.get("config_model")):
                continue
            for name in names:
                properties[name] = self.option(option, f"--{name}")
                if "-" in name:
                    patterns[f"^{name.replace('-', '[-_]')}$"] = {"$ref": f"#/properties/{name}"}
            if self.data.keys(option.name) is not None or inner_type(option.type) == "json":
                with_keys += names
        if features.get("dotted"):
            patterns[f"^({'|'.join(name.replace('-', '[-_]') for name in with_keys)})\\."] = {}
        return {
            **self._head("vllm serve --config"),
            "properties": properties,
            "patternProperties": patterns,
            **self.definitions(),
        }

    def arguments(self) -> Schema:
        """Arguments of the engine and of the OpenAI server by their Python names."""
        names: dict[str, Schema] = {name: {} for name in self.data.taken_by("AsyncEngineArgs")}
        served = {option.dest: self.option(option) for option in self.data.entries["serve"] if option.strings}
        properties = {name: schema for name, schema in sorted({**names, **served}.items()) if name[0] != "_"}
        for name in _NOT_IN_FILES:
            properties.pop(name, None)
        return {**self._head("arguments of vLLM's engine"), "properties": properties, **self.definitions()}

    def _head(self, what: str) -> Schema:
        title = f"{what}, vLLM {self.data.version}"
        return {"$schema": _DRAFT, "title": title, "type": "object", "additionalProperties": False}

    def option(self, option: Option, written: str = "") -> Schema:
        """Schema of an option's value, with its default and what its help names."""
        name = written or option.name
        notes = [f"{name} ({option.group})" if option.group else name]
        negated = next((text for text in option.strings if text.startswith("--no-") and text != name), "")
        if self.is_text and negated and not self.data.features.get("config_no"):
            notes.append(f"vLLM {self.data.version} ignores false here; use `{negated[2:]}: true`.")
        schema = {**self._value(option), "description": "\n".join(notes)}
        if _is_plain(option.default) and option.nargs != 0:
            schema["default"] = option.default
        elif isinstance(option.default, bool) and name in option.flag_values:
            schema["default"] = option.default is option.flag_values[name]
        known = option.hints or option.choices or sorted(support.names(option.dest, self.data.version))
        if "enum" not in schema and known:
            schema["examples"] = list(known)
        if option.deprecated:
            schema |= {"deprecated": True, "deprecationMessage": f"Deprecated in vLLM {self.data.version}."}
        return schema

    def _value(self, option: Option) -> Schema:
        if option.nargs == 0:
            return _any_of({"type": "boolean"}, *([] if self.is_text or option.default is not None else [_NULL]))
        kind = inner_type(option.type)
        if option.choices is not None and not isinstance(kind, Mapping):
            choices = [*option.choices, *([None] if option.type != kind else [])]
            texts = [str(value) for value in choices if isinstance(value, int | float)] if self.is_text else []
            value: Schema = {"enum": list(dict.fromkeys([*choices, *texts]))}
        else:
            value = self._option_kind(option.type)
        if option.nargs in ("+", "*") and (not self.is_text or self.data.features.get("config_lists")):
            return _any_of(value, {"type": "array", "items": value})
        if option.nargs == "?":
            return _any_of(value, {"type": "boolean"})
        return value if self.is_text or option.default is not None else _any_of(value, _NULL)

    def _option_kind(self, kind: Any) -> Schema:
        """Schema of one value of an option."""
        is_object = not self.is_text or self.data.features.get("config_objects")
        if isinstance(kind, Mapping) and "optional" in kind:
            return _any_of(self._option_kind(kind["optional"]), _NULL)
        if isinstance(kind, Mapping) and "dataclass" in kind:
            texts = [_SCALAR] if self.is_text else []
            return _any_of(*([self._class(kind["dataclass"])] if is_object else []), *texts)
        if not self.is_text:
            return _NATIVE.get(kind, {}) if isinstance(kind, str) else {}
        if isinstance(kind, str) and kind in _TEXTS:
            return _TEXTS[kind]
        is_json = kind == "json" or (isinstance(kind, Mapping) and bool({"json_or_str", "json_or_pairs"} & {*kind}))
        return _any_of(_SCALAR, {"type": "object"}) if is_json and is_object else _SCALAR

    def _class(self, name: str) -> Schema:
        """Reference to a class whose keys the release's data has; any object if it has none."""
        record = self.data.objects.get(name, {})
        if not record.get("keys"):
            return {"type": "object"}
        if name not in self.classes:
            self.classes[name] = {}  # a class may contain itself
            keys = {
                entry.get("alias") or key: entry for key, entry in record["keys"].items() if entry.get("init", True)
            }
            required = [key for key, entry in keys.items() if entry.get("required")]
            self.classes[name] = {
                "type": "object",
                "properties": {key: self._key(entry) for key, entry in keys.items()},
                **({"required": required} if required else {}),
                **({"additionalProperties": False} if record.get("extra") == "forbid" else {}),
            }
        return {"$ref": f"#/definitions/{name}"}

    def _key(self, entry: Mapping[str, Any]) -> Schema:
        schema = self._kind(entry["type"])
        default = entry.get("default")
        # In draft 7 nothing counts beside a reference.
        return {**schema, "default": default} if _is_plain(default) and "$ref" not in schema else schema

    def _kind(self, kind: Any) -> Schema:
        """Schema of a key's type, see `json_keys`; {} if the data cannot decide."""
        name, inner = json_keys.form(kind)
        if name in ("optional", "union"):
            return _any_of(*map(self._kind, inner if name == "union" else (inner, "null")))
        if name in ("list", "set"):
            return {"type": "array", "items": self._kind(inner)}
        if name == "dict":
            return {"type": "object", "additionalProperties": self._kind(inner[1])}
        if name == "object":
            return self._class(inner)
        if name == "chain" and inner:
            return self._kind(inner[0])
        if name == "enum" and "missing" not in kind:
            return {"enum": [*inner, *(str(value) for value in inner if isinstance(value, int))]}
        if name == "checked" and kind.get("words"):
            return {"examples": list(kind["words"]), **_closed(kind)}
        if name in ("bool", "str"):
            return {"type": _TYPES[name], **_limited(inner)}
        if name in ("int", "float"):
            # Text that is a number is converted.
            return {"type": [_TYPES[name], "string"], "pattern": _TEXTS[name]["pattern"], **_limited(inner)}
        return {"type": "array"} if name == "tuple" else _NULL if name == "null" else {}


_NULL: Schema = {"type": "null"}


def _limited(limits: Mapping[str, Any] | None) -> Schema:
    return {_LIMITS[name]: value for name, value in (limits or {}).items() if name in _LIMITS}


def _closed(kind: Mapping[str, Any]) -> Schema:
    """Pattern of the texts that a check accepts, if it rejects any other."""
    if kind.get("words_in", "value") != "value" or "abc" not in kind.get("refuses", ()):
        return {}
    texts = [*kind["words"], *(text for text in kind["accepts"] if isinstance(text, str))]
    forms = {
        "".join(
            f"[{letter.lower()}{letter.upper()}]" if kind.get("any_case") and letter.isalpha()
            else "[-_]" if kind.get("any_dash") and letter == "_"
            else re.sub(r"[^\w-]", r"\\\g<0>", letter)
            for letter in text
        )
        for text in texts
    }  # fmt: skip
    return {"pattern": f"^({'|'.join(sorted(forms))})$"}


def _is_plain(default: Any) -> bool:
    """Whether a default is a value, rather than none or the description of one."""
    return default is not None and not isinstance(default, Mapping)


def _any_of(*choices: Schema) -> Schema:
    """Union of schemas, in the shortest form."""
    if {} in choices:
        return {}
    parts = [part for choice in choices for part in (choice["anyOf"] if [*choice] == ["anyOf"] else [choice])]
    if len(parts) == 1 and "$ref" not in parts[0]:
        return parts[0]
    if all([*part] == ["type"] for part in parts) or (parts[1:] == [_NULL] and [*parts[0]] == ["type", "pattern"]):
        types = [kind for part in parts for kind in ([part["type"]] if isinstance(part["type"], str) else part["type"])]
        return {**parts[0], "type": list(dict.fromkeys(types))}
    return {"anyOf": parts}
