"""Print as JSON what the vLLM of this Python accepts: parsers, JSON types, environment variables.

This script runs in another Python and needs only vLLM and the standard library. It catches the
parsers as the release's own programs build them, and describes every value by its behaviour.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import functools
import importlib
import inspect
import json
import math
import os
import platform
import runpy
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_PROBES = ("", "None", "none", "auto", "0", "1", "-1", "1.5", "1k", "1K", "true", "abc", "a=1", "{}", '{"a": 1}', "[1]")
"""Inputs for a conversion without a known name."""
_ACTION_PROBES = (*_PROBES, "a=b=c")
_UNIT_PROBES = tuple(f"1{unit}" for unit in "kKmMgGtT")
_ENVIRONMENT_PROBES = ("", "0", "1", "2", "-1", "1.5", "true", "True", "false", "False", "yes", "abc", "/abc", "a,b")
_JSON_PROBES: tuple[Any, ...] = (
    None, True, 0, 1, 2, 3, 4, 5, -1, 1.5, "", "0", "1", "5", "-1", "true", "none", "abc", [], ["abc"], [1], {},
)  # fmt: skip
_VOLATILE = {"repr": "computed"}
"""A default that differs for each evaluation, or is unavailable."""
_WRAPS: dict[str, Callable[[str], Any]] = {
    "value": lambda name: name,
    "list": lambda name: [name],
    "dict": lambda name: {"a": name},
}
"""Position of an enumeration's names in a value of its type."""
_INNER = {
    **dict.fromkeys(("default", "model-field", "dataclass-field", "custom-error"), "schema"),
    "json-or-python": "json_schema",
    "lax-or-strict": "lax_schema",
}
"""Key of the relevant inner schema, by kind of schema."""
_MAX_DEPTH = 40
_MAX_WORDS = 300


class _Caught(BaseException):
    """Carries a value, a parser or its words, out of the program that was about to use it."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def _caught(program: Callable[[], object], argv: list[str]) -> argparse.ArgumentParser:
    original, old_argv = argparse.ArgumentParser.parse_known_args, sys.argv

    def catch(self: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
        if type(self).__module__.split(".")[0] == "vllm":
            raise _Caught(self)
        return original(self, *args, **kwargs)

    argparse.ArgumentParser.parse_known_args = catch  # type: ignore[method-assign]
    sys.argv = argv
    try:
        program()
    except _Caught as caught:
        parser: argparse.ArgumentParser = caught.value
        return parser
    finally:
        argparse.ArgumentParser.parse_known_args = original  # type: ignore[method-assign]
        sys.argv = old_argv
    raise LookupError("the program parsed no command line")


def _command_line() -> Callable[[], object]:
    for name in ("vllm.entrypoints.cli.main", "vllm.scripts"):
        with suppress(ModuleNotFoundError):
            main: Callable[[], object] = importlib.import_module(name).main
            return main
    raise LookupError("no command line found")


def _api_server() -> None:
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")


def _prepare(*, as_gpu: bool) -> None:
    """Patch Torch and Transformers if they prevent the import and no parser needs them."""
    with suppress(Exception):  # it may register a model that Transformers has since got itself
        auto = importlib.import_module("transformers.models.auto.configuration_auto")
        register = auto._LazyConfigMapping.register  # noqa: SLF001
        auto._LazyConfigMapping.register = lambda self, key, value, exist_ok=False: register(self, key, value, True)  # noqa: ARG005, SLF001
    with suppress(Exception):  # it may load kernels that a package for other hardware lacks
        platforms: Any = importlib.import_module("vllm.platforms")
        current = platforms.current_platform
        type(current).import_kernels = classmethod(lambda cls: None)  # noqa: ARG005
        if as_gpu:
            cuda = importlib.import_module("vllm.platforms.interface").PlatformEnum.CUDA
            attributes = {"_enum": cuda, "device_type": "cuda", "device_name": "cuda"}
            platforms.current_platform = platforms._current_platform = type("Gpu", (type(current),), attributes)()  # noqa: SLF001


def _serve_parser() -> argparse.ArgumentParser:
    parser = _caught(_command_line(), ["vllm", "serve", "model"])
    for action in parser._actions:  # noqa: SLF001 - argparse has no public access
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            serve: argparse.ArgumentParser = action.choices["serve"]
            return serve
    raise LookupError("the command line has no serve")


def _plain(value: Any, depth: int = 0) -> Any:
    """JSON form of a value; other types become {"repr": …} or {"object": its class}."""
    if value is None or (isinstance(value, bool | int | str) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"repr": repr(value)}
    if isinstance(value, enum.Enum):
        return _plain(value.value, depth + 1)
    if depth < _MAX_DEPTH and isinstance(value, (list, tuple, set, frozenset)):
        items = [_plain(item, depth + 1) for item in value]
        return sorted(items, key=repr) if isinstance(value, (set, frozenset)) else items
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        return {str(_plain(key)): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, type):
        return {"repr": f"{value.__module__}.{value.__qualname__}"}
    if dataclasses.is_dataclass(value) or hasattr(value, "__pydantic_fields__"):
        return {"object": type(value).__name__}
    text = repr(value)
    return {"repr": type(value).__name__ if " at 0x" in text else text[:200]}


class Types:
    """Describes conversions; collects the objects with the possible keys of a JSON value."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.conversions: dict[str, Any] = {}
        self._references: dict[str, Any] = {}
        self._inside_check = False
        self._key_name = "value"
        """Key whose type is being described; a check may need it."""

    def of(self, convert: Any) -> Any:
        if convert is None:
            return "str"
        if convert is json.loads:
            return "json"
        if isinstance(convert, type) and convert in (str, int, float, bool):
            return convert.__name__
        if isinstance(convert, functools.partial):
            return self._opaque(convert)
        name = getattr(convert, "__qualname__", "")
        closure = _held(convert)
        named_conversions = {"human_readable_int": "human_int", "human_readable_int_or_auto": "human_int_or_auto"}
        if name in named_conversions:
            self.conversions[named_conversions[name]] = {text: _outcome(convert, text) for text in _UNIT_PROBES}
            return named_conversions[name]
        if name in ("nullable_str", "optional_str"):
            return {"optional": "str"}
        if name == "union_dict_and_str":
            return {"json_or_str": self._pattern(convert)}
        if name.endswith(("_optional_type", "_parse_type")):
            inner = self.of(closure["return_type"])
            if inner == "json" and _calls(convert, "nullable_kvs"):
                inner = {"json_or_pairs": self._pattern(convert)}
            return {"optional": inner} if name.endswith("_optional_type") else inner
        if name.endswith("parse_dataclass"):
            held_class = inspect.signature(convert).parameters["cls"].default
            description: dict[str, Any] = {"dataclass": self.known(held_class)}
            if _calls(convert, "_expand_json_human_readable_numbers"):
                description["expands"] = "human_numbers"
            if "from_cli" in (_source(convert) or "") and hasattr(held_class, "from_cli"):
                description["via"] = self._via(held_class.from_cli)
            return description
        if name == "nullable_kvs":
            return "int_pairs"
        owner = getattr(sys.modules.get(getattr(convert, "__module__", "")), name.partition(".")[0], None)
        if isinstance(owner, type) and name in (f"{owner.__name__}.from_cli", f"{owner.__name__}.from_json"):
            via = self._via(convert)
            if via["reads"] == "json_keywords":
                via["validated"] = hasattr(owner, "__pydantic_validator__")
            return {"dataclass": self.known(owner), "via": via}
        return self._opaque(convert)

    @staticmethod
    def _pattern(convert: Any) -> str | None:
        for node in ast.walk(_tree(convert)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "match":
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    return str(first.value)
        return None

    @staticmethod
    def _via(convert: Any) -> dict[str, Any]:
        description: dict[str, Any] = {"reads": "other"}
        for node in ast.walk(_tree(convert)):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in ("validate_json", "model_validate_json", "parse_raw"):
                    description["reads"] = "json"
                elif called == "literal_eval":
                    description["reads"] = "literal"
                elif called == "loads":
                    description["reads"] = "json_keywords"
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
                with suppress(ValueError):
                    description["words"] = list(ast.literal_eval(node.comparators[0]))
        return description

    def _opaque(self, convert: Any) -> dict[str, Any]:
        name = getattr(convert, "__qualname__", None) or repr(convert)[:80]
        name = name.replace("<locals>.", "")
        outcomes = {text: _outcome(convert, text) for text in _PROBES}
        number = 1
        while self.conversions.setdefault(name, outcomes) != outcomes:  # lambdas of one function share a name
            number += 1
            name = f"{name.split('#')[0]}#{number}"
        return {"opaque": name}

    def known(self, cls: Any) -> str:
        """Name under which the keys of a class are stored."""
        name: str = cls.__name__
        if name not in self.objects:
            self.objects[name] = {}
            try:
                from pydantic import TypeAdapter

                self._reduce(TypeAdapter(cls).core_schema, 0)
            except Exception as error:  # noqa: BLE001 - any class a release has may refuse
                self.objects[name] = {"error": f"{type(error).__name__}: {error}"[:200]}
        return name

    def _reduce(self, schema: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            return "any"
        kind = schema["type"]
        inner = functools.partial(self._reduce, depth=depth + 1)
        if kind in ("any", "bool", "none", "date", "datetime", "time", "timedelta", "uuid", "url", "bytes", "json"):
            return "null" if kind == "none" else kind
        if kind in ("int", "float", "str"):
            names = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "strict")
            limits = {key: _plain(schema[key]) for key in names if key in schema}
            return {kind: limits} if limits else kind
        if kind in ("literal", "enum"):
            values = schema["expected"] if kind == "literal" else [member.value for member in schema["members"]]
            description: dict[str, Any] = {"enum": [_plain(value) for value in values]}
            if kind == "enum" and schema.get("missing"):
                description["missing"] = getattr(schema["missing"], "__qualname__", "yes")
            return description
        if kind in ("list", "set", "frozenset", "generator"):
            limits = {key: schema[key] for key in ("min_length", "max_length") if key in schema}
            return {"list" if kind == "list" else "set": inner(schema.get("items_schema", {"type": "any"})), **limits}
        if kind == "tuple":
            description = {"tuple": [inner(item) for item in schema["items_schema"]]}
            if schema.get("variadic_item_index") is not None:
                description["variadic"] = schema["variadic_item_index"]
            return description
        if kind == "dict":
            anything = {"type": "any"}
            return {"dict": [inner(schema.get("keys_schema", anything)), inner(schema.get("values_schema", anything))]}
        if kind == "nullable":
            return {"optional": inner(schema["schema"])}
        if kind in ("union", "tagged-union"):
            choices = schema["choices"]
            choices = choices.values() if isinstance(choices, dict) else choices
            return {"union": [inner(choice[0] if isinstance(choice, tuple) else choice) for choice in choices]}
        if kind == "definitions":
            self._references.update({item["ref"]: item for item in schema["definitions"] if "ref" in item})
            return inner(schema["schema"])
        if kind == "definition-ref":
            return inner(self._references.get(schema["schema_ref"], {"type": "any"}))
        if kind in ("dataclass", "model", "typed-dict"):
            return {"object": self._keys(schema, depth)}
        if kind in ("function-before", "function-after", "function-wrap", "function-plain"):
            return self._checked(schema, inner)
        if kind in _INNER:
            return inner(schema[_INNER[kind]])
        if kind == "chain":
            return {"chain": [inner(step) for step in schema["steps"]]}
        if kind == "is-instance":
            return {"never": f"instance of {getattr(schema['cls'], '__qualname__', schema['cls'])}"}
        if kind == "callable":
            return {"never": "callable"}
        return {"opaque": kind}

    def _checked(self, schema: Any, inner: Callable[[Any], Any]) -> dict[str, Any]:
        name = getattr(schema["function"]["function"], "__qualname__", "function").replace("<locals>.", "")
        is_outermost, self._inside_check = not self._inside_check, True
        checked = inner(schema["schema"]) if "schema" in schema else "any"
        description: dict[str, Any] = {"checked": checked, "by": f"{schema['type'][9:]} {name}"}
        if is_outermost:
            self._inside_check = False
            description.update(self._tried(schema))
            if "words" in description:
                description["checked"] = _without_words(description["checked"], description["words"])
            elif _members(schema) and description.get("accepts") is not None:
                description["checked"] = "any"  # the accepted words are unknown
        return description

    def _tried(self, schema: Any) -> dict[str, Any]:
        from pydantic_core import SchemaValidator, core_schema

        name = self._key_name
        field = core_schema.typed_dict_schema({name: core_schema.typed_dict_field(schema)})
        definitions = list(self._references.values())
        whole = core_schema.definitions_schema(field, definitions) if definitions else field
        try:
            validator = SchemaValidator(whole)
        except Exception:  # noqa: BLE001 - a schema that cannot stand alone is left undescribed
            return {}

        def accepts(value: Any) -> bool:
            try:
                validator.validate_json(json.dumps({name: value}))
            except Exception:  # noqa: BLE001 - an error of any kind is a refusal
                return False
            return True

        names = list(dict.fromkeys([*_members(schema), *_mentioned(schema["function"]["function"])]))
        description: dict[str, Any] = {
            "accepts": [value for value in _JSON_PROBES if accepts(value)],
            "refuses": [value for value in _JSON_PROBES if not accepts(value)],
        }
        if accepts({}):
            description["any_keys"] = accepts({"no such key": 1})
        for place, wrap in _WRAPS.items():
            words = [name for name in names if accepts(wrap(name))]
            if words:
                description["words"], description["words_in"] = words, place
                description["any_case"] = all(accepts(wrap(word.swapcase())) for word in words)
                description["any_dash"] = all(accepts(wrap(word.replace("_", "-"))) for word in words)
                break
        return description

    def _keys(self, schema: Any, depth: int) -> str:
        cls = schema.get("cls")
        name: str = cls.__name__ if cls is not None else schema.get("cls_name", "TypedDict")
        if self.objects.get(name):
            return name
        description: dict[str, Any] = {"keys": {}}
        self.objects[name] = description
        config = schema.get("config") or {}
        body = schema.get("schema", schema)
        while body["type"].startswith("function-"):
            body = body["schema"]
        description["extra"] = (
            schema.get("extra_behavior")
            or body.get("extra_behavior")
            or config.get("extra_fields_behavior")
            or "ignore"
        )
        fields = body["fields"]
        pairs = fields.items() if isinstance(fields, dict) else ((field["name"], field) for field in fields)
        # Distinguish a key's own check from that of the object's value.
        kept, self._inside_check = (self._inside_check, self._key_name), False
        for key, field in pairs:
            self._key_name = key
            description["keys"][key] = self._key(
                field, depth, is_typed_dict=schema["type"] == "typed-dict", total=schema.get("total", True)
            )
        self._inside_check, self._key_name = kept
        return name

    def _key(self, field: Any, depth: int, *, is_typed_dict: bool, total: bool) -> dict[str, Any]:
        value, description = field["schema"], {}
        layers = value
        while layers["type"].startswith("function-") and "schema" in layers:
            layers = layers["schema"]
        if layers["type"] == "default":
            make = layers.get("default_factory") or functools.partial(layers.get, "default")
            default = _outcome(make)
            description["default"] = default["value"] if "value" in default and _outcome(make) == default else _VOLATILE
        elif field.get("required", total) if is_typed_dict else True:
            description["required"] = True
        description["type"] = self._reduce(value, depth + 1)
        if field.get("init") is False:
            description["init"] = False
        if field.get("validation_alias"):
            description["alias"] = _plain(field["validation_alias"])
        return description


def _without_words(kind: Any, words: list[str]) -> Any:
    """Remove the texts that a preceding check rejects from a type's enumerations."""
    if isinstance(kind, dict):
        return {
            key: [v for v in value if not isinstance(v, str) or v in words]
            if key == "enum"
            else _without_words(value, words)
            for key, value in kind.items()
        }
    return [_without_words(part, words) for part in kind] if isinstance(kind, list) else kind


def _members(schema: Any) -> list[str]:
    names: list[str] = []
    if isinstance(schema, dict):
        if schema.get("type") == "enum":
            names += [member.name for member in schema["members"]]
            names += [member.value for member in schema["members"] if isinstance(member.value, str)]
        elif schema.get("type") == "literal":
            names += [value for value in schema["expected"] if isinstance(value, str)]
        else:
            inner = (schema.get(key) for key in ("schema", "choices", "items_schema", "values_schema"))
            names += [name for part in inner for name in _members(part)]
    elif isinstance(schema, list):
        names += [name for part in schema for name in _members(part)]
    return list(dict.fromkeys(names))


def _mentioned(check: Any, depth: int = 2) -> list[str]:
    function = inspect.unwrap(getattr(check, "__func__", check))
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    if code is None or not str(names.get("__name__", "")).startswith("vllm") or not depth:
        return []
    words: list[str] = []
    for value in (names[name] for name in code.co_names if name in names):
        if isinstance(value, type) and issubclass(value, enum.Enum):
            words += value.__members__
        elif isinstance(value, (Mapping, list, tuple, set, frozenset)):
            words += sorted(item for item in value if isinstance(item, str))
        elif inspect.isfunction(value):
            words += _mentioned(value, depth - 1)
    return words[:_MAX_WORDS]


def _source(function: Any) -> str | None:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return None


def _tree(function: Any) -> ast.AST:
    try:
        return ast.parse(_source(function) or "")
    except SyntaxError:
        return ast.parse("")


def _calls(function: Any, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(_tree(function)))


def _made_of_keywords(function: Any) -> list[type]:
    """Dataclasses that a function makes of a mapping: `NAME(**mapping)`."""
    calls = [node for node in ast.walk(_tree(function)) if isinstance(node, ast.Call)]
    names = [
        call.func.id
        for call in calls
        if isinstance(call.func, ast.Name) and any(keyword.arg is None for keyword in call.keywords)
    ]
    classes = [getattr(function, "__globals__", {}).get(name) for name in names]
    return [cls for cls in classes if isinstance(cls, type) and dataclasses.is_dataclass(cls)]


def _held(function: Any) -> dict[str, Any]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or not cells:
        return {}
    values = {}
    for name, cell in zip(code.co_freevars, cells, strict=True):
        with suppress(ValueError):
            values[name] = cell.cell_contents
    return values


def _outcome(convert: Any, *arguments: Any) -> Any:
    try:
        return {"value": _plain(convert(*arguments))}
    except Exception as error:  # noqa: BLE001 - its type is the result
        return {"error": type(error).__name__}


def _flag_values(action: argparse.Action, parser: argparse.ArgumentParser, strings: list[str]) -> dict[str, Any]:
    values = {}
    for text in strings:
        space = argparse.Namespace()
        try:
            action(parser, space, [], text)
        except (Exception, SystemExit):  # noqa: BLE001 - --version and --help leave
            return {}
        values[text] = _plain(getattr(space, action.dest, None))
    return values


def _effect(action: argparse.Action, parser: argparse.ArgumentParser, text: str) -> Any:

    class _RejectedError(Exception):
        pass

    def error(message: str) -> None:
        raise _RejectedError(message)

    space, kept = argparse.Namespace(), parser.error
    parser.error = error  # type: ignore[assignment, method-assign]
    try:
        value = parser._get_values(action, [text])  # noqa: SLF001
        action(parser, space, value, next(iter(action.option_strings), None))
        return {"value": _plain(getattr(space, action.dest, None))}
    except _RejectedError:
        return {"error": "rejected"}
    except (Exception, SystemExit) as failure:  # noqa: BLE001 - its type is the result
        return {"error": type(failure).__name__}
    finally:
        parser.error = kept  # type: ignore[method-assign]


def _options(parser: argparse.ArgumentParser, types: Types) -> list[dict[str, Any]]:
    titles = {id(a): group.title for group in parser._action_groups for a in group._group_actions}  # noqa: SLF001
    deprecated = {id(a) for a in getattr(parser, "_deprecated", ())} | {
        id(a) for a in getattr(type(parser), "_deprecated", ())
    }
    strings: dict[int, list[str]] = {}
    for text, action in parser._option_string_actions.items():  # noqa: SLF001
        strings.setdefault(id(action), []).append(text)
    options = []
    for action in parser._actions:  # noqa: SLF001
        spellings = strings.get(id(action), [])
        option: dict[str, Any] = {
            "option_strings": spellings,
            "dest": action.dest,
            "action": type(action).__name__,
            "nargs": action.nargs,
            "const": _plain(action.const),
            "default": None if action.default == argparse.SUPPRESS else _plain(action.default),
            "type": types.of(action.type) if action.nargs != 0 else None,
            "choices": None if action.choices is None else [_plain(choice) for choice in action.choices],
            "required": action.required,
            "deprecated": bool(id(action) in deprecated or getattr(action, "deprecated", False)),
            "group": titles.get(id(action)),
            "metavar": _plain(action.metavar),
        }
        if action.nargs == 0:
            option["flag_values"] = _flag_values(action, parser, spellings)
        elif type(action).__module__ != "argparse":
            option["action_probes"] = {text: _effect(action, parser, text) for text in _ACTION_PROBES}
            for made in _made_of_keywords(type(action).__call__):
                types.known(made)
        options.append(option)
    return options


_CONFIG = """port: 1
flag: true
not-flag: false
items: [a, b]
inner: {x: 1}
under_score: 2
"""
_REWRITES: dict[str, list[str]] = {
    "underscores": ["--a_b.c_d=x_y"],
    "dotted": ["--a.b", "1", "--a.c=x"],
    "dotted_human": ["--a.b=1k"],
    "level_joined": ["-O3"],
    "level_dotted": ["-O.x=1"],
    "help_equals": ["--help=x"],
    "serve_model": ["serve", "--a", "1", "--model", "m", "--b"],
    "serve_model_equals": ["serve", "--a", "1", "--model=m", "--b"],
    "serve_name_without_model": ["serve", "--served-model-name", "n"],
    "config_serve": ["serve", "m", "--a", "1", "--config", "CONFIG", "--b"],
    "config_serve_model_inside": ["serve", "--config", "MODEL"],
    "config_alone_later": ["--a", "1", "--config", "CONFIG"],
}


def _rewrites(parser_class: type[argparse.ArgumentParser]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    original = argparse.ArgumentParser.parse_args

    def passed(self: Any, args: Any = None, namespace: Any = None) -> Any:  # noqa: ARG001 - argparse's signature
        raise _Caught(list(args))

    argparse.ArgumentParser.parse_args = passed  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            paths = {}
            for name, text in (("CONFIG", _CONFIG), ("MODEL", "model: m\n")):
                path = Path(folder) / f"{name}.yaml"
                path.write_text(text, encoding="utf-8")
                paths[name] = str(path)
            for name, words in _REWRITES.items():
                parser = parser_class(prog="vllm")
                parser.add_argument("--not-flag", action=argparse.BooleanOptionalAction)
                try:
                    parser.parse_args([paths.get(word, word) for word in words])
                    seen[name] = {"error": "nothing passed"}
                except _Caught as caught:
                    seen[name] = [word.replace(paths["CONFIG"], "CONFIG") for word in caught.value]
                except (Exception, SystemExit) as error:  # noqa: BLE001
                    seen[name] = {"error": type(error).__name__}
    finally:
        argparse.ArgumentParser.parse_args = original  # type: ignore[method-assign]
    return seen


def _environment() -> dict[str, Any]:
    envs = importlib.import_module("vllm.envs")
    variables: dict[str, Any] = {}
    for name, read in envs.environment_variables.items():
        kept = os.environ.pop(name, None)
        entry: dict[str, Any] = {}
        unset = _outcome(read)
        if "value" in unset:
            entry["default"] = unset["value"] if _outcome(read) == unset else _VOLATILE
        closure = _held(read)
        choices = closure.get("choices")
        if choices is not None:
            with suppress(Exception):
                entry["choices"] = [_plain(choice) for choice in (choices() if callable(choices) else choices)]
            entry["case_sensitive"] = bool(closure.get("case_sensitive", True))
        entry["probes"] = {}
        for text in _ENVIRONMENT_PROBES:
            os.environ[name] = text
            entry["probes"][text] = _outcome(read)
        del os.environ[name]
        if kept is not None:
            os.environ[name] = kept
        variables[name] = entry
    return variables


def _python() -> dict[str, Any]:
    arg_utils = importlib.import_module("vllm.engine.arg_utils")
    llm = importlib.import_module("vllm.entrypoints.llm").LLM
    parameters: dict[str, Any] = {
        "LLM": [name for name in inspect.signature(llm.__init__).parameters if name != "self"]
    }
    for name in ("EngineArgs", "AsyncEngineArgs"):
        parameters[name] = {}
        for field in dataclasses.fields(getattr(arg_utils, name)):
            default: Any = {"repr": "required"}
            if field.default is not dataclasses.MISSING:
                default = _plain(field.default)
            elif field.default_factory is not dataclasses.MISSING:
                default = _outcome(field.default_factory).get("value", _VOLATILE)
            parameters[name][field.name] = {"default": default}
    return parameters


def dump(*, as_gpu: bool = False) -> dict[str, Any]:
    """Dump as one JSON value, `as_gpu` as if on a CUDA GPU; a part that this release lacks becomes {"error": …}."""
    _prepare(as_gpu=as_gpu)
    types = Types()
    data: dict[str, Any] = {
        "origin": "parser",
        "python": platform.python_version(),
        "device": "unknown",
        "entries": {},
    }
    parsers: Iterable[tuple[str, Callable[[], argparse.ArgumentParser]]] = (
        ("serve", _serve_parser),
        ("api_server", lambda: _caught(_api_server, ["api_server"])),
    )
    for name, find in parsers:
        try:
            parser = find()
            data["entries"][name] = {"options": _options(parser, types), "rewrites": _rewrites(type(parser))}
        except (Exception, SystemExit) as error:  # noqa: BLE001
            data["entries"][name] = {"error": f"{type(error).__name__}: {error}"[:400]}
    for key, collect in (("environment", _environment), ("python_api", _python)):
        try:
            data[key] = collect()
        except Exception as error:  # noqa: BLE001
            data[key] = {"error": f"{type(error).__name__}: {error}"[:400]}
    data["objects"], data["conversions"] = types.objects, types.conversions
    with suppress(Exception):
        data["device"] = importlib.import_module("vllm.platforms").current_platform.device_type
    return data


def main() -> None:
    channel = os.dup(1)
    os.dup2(2, 1)
    text = json.dumps(dump(as_gpu="--as-gpu" in sys.argv[1:]), sort_keys=True)
    with os.fdopen(channel, "w", encoding="utf-8") as out:
        out.write(text + "\n")
        out.flush()
    # vLLM may have started threads that never end.
    os._exit(0)


if __name__ == "__main__":
    main()
