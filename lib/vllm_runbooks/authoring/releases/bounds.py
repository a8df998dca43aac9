"""Read bounds of engine arguments that the parser does not check from a release's sources.

Nothing is executed. An argument is followed if it is passed on unchanged,
`Config(field=self.argument)`; checks under other conditions, or of values that may have changed,
are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from vllm_runbooks.authoring.releases.serve_checks import CheckReader, joined, parsed, validators
from vllm_runbooks.catalog.options import LIMITS
from vllm_runbooks.reading.arguments.conditions import names

_ARGUMENTS = ("EngineArgs", "AsyncEngineArgs")
_MAKING = ("__init__", "__post_init__", "create_engine_config")
"""Methods that are called whenever an object or its configuration is created."""
_MAX_METHODS = 8


def argument_bounds(package: Path) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Bounds of arguments in a release's package `vllm`, and the location of each, by name.

    A limit is named by its argument and has ge, gt, le or lt, and `if` if it applies under a
    condition. Anything else is named by its arguments and has `when`, a condition under which vLLM
    rejects the launch, and `says`.
    """
    tree = parsed(package / "engine" / "arg_utils.py")
    handed = _handed(tree)
    class_bounds: list[_Bound] = []
    engine_args = next(
        (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == _ARGUMENTS[0]), None
    )
    if engine_args is not None:
        itself = {name: _Handed(name, ()) for name, _ in _fields(engine_args)}
        class_bounds += _of_class(_ConfigClass(engine_args, tree, package, "engine/arg_utils.py"), itself)
    for path in (package / "config.py", *sorted(package.glob("config/*.py"))):
        module = parsed(path)
        place = path.relative_to(package).as_posix()
        for node in module.body:
            if isinstance(node, ast.ClassDef) and node.name in handed:
                class_bounds += _of_class(_ConfigClass(node, module, package, place), handed[node.name])
    bounds: dict[str, dict[str, Any]] = {}
    places: dict[str, str] = {}
    for bound in class_bounds:
        # Several bounds of the same arguments are numbered.
        name = _free(bound.name, bounds)
        bounds[name], places[name] = bound.record, bound.at
    return bounds, places


def _free(name: str, names_in_use: Mapping[str, Any]) -> str:
    return next(
        candidate
        for candidate in chain((name,), (f"{name} {number}" for number in count(2)))
        if candidate not in names_in_use
    )


class _Bound(NamedTuple):
    name: str
    record: dict[str, Any]
    at: str


@dataclass(frozen=True)
class _ConfigClass:
    node: ast.ClassDef
    tree: ast.Module
    package: Path
    place: str

    def methods(self) -> Mapping[str, ast.FunctionDef]:
        return {node.name: node for node in self.node.body if isinstance(node, ast.FunctionDef)}


@dataclass(frozen=True)
class _Handed:
    argument: str
    guards: tuple[Any, ...]


def _handed(tree: ast.Module) -> dict[str, dict[str, _Handed]]:
    by_class: dict[str, dict[str, _Handed]] = {}
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef) and owner.name in _ARGUMENTS:
            for function in owner.body:
                if isinstance(function, ast.FunctionDef):
                    for call, guards in _calls(function, CheckReader(tree, Path(), "self", 0), ()):
                        _take(call, guards, by_class)
    return by_class


def _fields(owner: ast.ClassDef) -> Iterator[tuple[str, ast.AnnAssign]]:
    for node in owner.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node


def _take(call: ast.Call, guards: tuple[Any, ...], by_class: dict[str, dict[str, _Handed]]) -> None:
    if not isinstance(call.func, ast.Name):
        return
    for keyword in call.keywords:
        value = keyword.value
        if not keyword.arg or not isinstance(value, ast.Attribute) or not isinstance(value.value, ast.Name):
            continue
        if value.value.id == "self" and not value.attr.startswith("_"):
            by_class.setdefault(call.func.id, {}).setdefault(keyword.arg, _Handed(value.attr, guards))


def _calls(node: ast.AST, reader: CheckReader, guards: tuple[Any, ...]) -> Iterator[tuple[ast.Call, tuple[Any, ...]]]:
    """Calls inside a function with the argument conditions that guard them; None for other ones."""
    if isinstance(node, (ast.If, ast.IfExp)):
        test = reader.readable(node.test)
        if test is None:
            return
        for parts, guard in ((node.body, test), (node.orelse, ["not", test])):
            for part in parts if isinstance(parts, list) else [parts]:
                yield from _calls(part, reader, (*guards, guard))
        return
    if isinstance(node, ast.Call):
        yield node, guards
    for inner in ast.iter_child_nodes(node):
        yield from _calls(inner, reader, guards)


def _of_class(owner: _ConfigClass, handed: Mapping[str, _Handed]) -> Iterator[_Bound]:
    for field, limits, line in _limits(owner.node):
        if field in handed:
            source = handed[field]
            guard = {"if": joined(list(source.guards))} if source.guards else {}
            yield _Bound(source.argument, {**limits, **guard}, f"{owner.place}:{line}")
    for check in _checks(owner):
        fields = list(dict.fromkeys(names(check["when"])))
        if fields and all(name in handed for name in fields):
            when = _renamed(check["when"], handed)
            guards = [guard for name in fields for guard in handed[name].guards]
            check_data = {"when": joined([*_unique(guards), when]), "says": check["says"]}
            name = "+".join(sorted({handed[name].argument for name in fields}))
            yield _Bound(name, check_data, f"{owner.place}:{check['line']}")


def _unique(conditions: list[Any]) -> list[Any]:
    return [condition for at, condition in enumerate(conditions) if condition not in conditions[:at]]


def _limits(owner: ast.ClassDef) -> Iterator[tuple[str, dict[str, float], int]]:
    for field, node in _fields(owner):
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Field":
                numbers = {word.arg: _number(word.value) for word in call.keywords if word.arg in LIMITS}
                limits = {name: limit for name, limit in numbers.items() if name and limit is not None}
                if limits:
                    yield field, limits, node.lineno


def _number(node: ast.expr) -> float | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _renamed(condition: Any, handed: Mapping[str, _Handed]) -> Any:
    if not isinstance(condition, list) or not condition:
        return condition
    if condition[0] in ("arg", "given"):
        return [condition[0], handed[condition[1]].argument]
    return condition if condition[0] == "const" else [condition[0], *(_renamed(part, handed) for part in condition[1:])]


def _checks(owner: _ConfigClass) -> Iterator[dict[str, Any]]:
    methods = owner.methods()
    for function in methods.values():
        for decorator in validators(function, "field_validator"):
            if len(function.args.args) > 1:
                for name in decorator.args:
                    if isinstance(name, ast.Constant):
                        reader = _ConfigReader(owner)
                        reader.local[function.args.args[1].arg] = ["arg", name.value]
                        yield from reader.checks(function)
    reader = _ConfigReader(owner)
    for made in _MAKING:
        if made in methods:
            yield from reader.method(methods[made])
    for function in methods.values():
        if any(validators(function, "model_validator")):
            yield from reader.method(function)


class _ConfigReader(CheckReader):
    def __init__(self, owner: _ConfigClass) -> None:
        super().__init__(owner.tree, owner.package, "self", 0)
        self.methods = owner.methods()
        self.kept: dict[str, Any] = {}
        """Conditions of attributes that the class sets to plain values."""
        self.nested = 0
        self.followed: list[str] = []

    def check_record(self, statement: ast.stmt, guards: list[Any], error: str, says: str) -> dict[str, Any]:
        return super().check_record(statement, guards, error, says) | {"line": statement.lineno}

    def method(self, function: ast.FunctionDef, call: ast.Call | None = None) -> Iterator[dict[str, Any]]:
        """Checks of a method of the class.

        Without a call its parameters are the object's arguments.
        """
        if function.name in self.followed or len(self.followed) >= _MAX_METHODS:
            return
        parameters = [parameter.arg for parameter in (*function.args.args[1:], *function.args.kwonlyargs)]
        local: dict[str, Any] = {name: ["arg", name] for name in parameters}
        if call is not None:
            arguments = [*zip(parameters, call.args, strict=False), *((word.arg, word.value) for word in call.keywords)]
            local = {name: self.readable(value) for name, value in arguments if name}
        outer, self.local = self.local, local
        self.followed.append(function.name)
        yield from self.checks(function)
        self.followed.pop()
        self.local = outer

    def _block(self, body: list[ast.stmt], guards: list[Any]) -> Iterator[dict[str, Any]]:
        for at, statement in enumerate(body):
            if _is_leave(statement):
                return
            if isinstance(statement, (ast.With, ast.Try, ast.While, ast.Match)):
                # Any code in there may have changed the names in it.
                for inner in ast.walk(statement):
                    self._forget(inner)
                continue
            method = self._own_call(statement)
            if method is not None and not guards and not self.nested:
                yield from self.method(*method)
                continue
            for inner in ast.walk(statement):
                self._forget_by_call(inner)
            if isinstance(statement, ast.If):
                # Process the following statements together, because a branch that exits guards the
                # rest.
                yield from super()._block(body[at : at + 1], guards)
                guards = self._behind(statement, guards)
                if guards is None:
                    return
                continue
            yield from super()._block([statement], guards)

    def _behind(self, statement: ast.If, guards: list[Any]) -> Any:
        """Guards of the code after a branch; None if they are unknown."""
        if not _leaves(statement):
            return guards
        condition = self.readable(statement.test)
        inner = [part for part in (*statement.body, *statement.orelse) if isinstance(part, ast.If)]
        if condition is None or any(map(_leaves, inner)):
            return None
        return [*guards, ["not", condition] if any(map(_is_leave, statement.body)) else condition]

    def _if(self, statement: ast.If, guards: list[Any]) -> Any:
        missing = _is_none(statement.test)
        if missing is not None and not _leaves(statement):
            # Only given arguments are checked: defaults set in their place do not matter.
            for inner in ast.walk(statement):
                if isinstance(inner, ast.Name) or (isinstance(inner, ast.Attribute) and inner.attr != missing):
                    self._forget(inner)
            return guards
        self.nested += 1
        guards_after = yield from super()._if(statement, guards)
        self.nested -= 1
        return guards_after

    def _own_call(self, statement: ast.stmt) -> tuple[ast.FunctionDef, ast.Call] | None:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return None
        method = self.methods.get(call.func.attr) if self._is_subject(call.func.value) else None
        return (method, call) if method is not None else None

    def _forget_by_call(self, node: ast.AST) -> None:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and self._is_subject(node.func.value):
            for inner in ast.walk(self.methods.get(node.func.attr, ast.Pass())):
                if isinstance(inner, ast.Attribute):
                    self._forget(inner)

    def _assign(self, statement: ast.Assign | ast.AnnAssign) -> None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if isinstance(target, ast.Attribute) and self._is_subject(target.value) and not self.nested:
                value = self.readable(statement.value) if statement.value is not None else None
                if value is not None:
                    self.changed.discard(target.attr)
                    self.kept[target.attr] = value
                    return
        super()._assign(statement)

    def _forget(self, node: ast.AST) -> None:
        super()._forget(node)
        for name in self.changed & self.kept.keys():
            del self.kept[name]

    def _attribute(self, node: ast.Attribute) -> Any:
        if self._is_subject(node.value) and node.attr in self.kept:
            return self.kept[node.attr]
        return super()._attribute(node)


def _is_leave(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Return, ast.Continue, ast.Break))


def _leaves(statement: ast.If) -> bool:
    return any(_is_leave(inner) for inner in ast.walk(statement) if isinstance(inner, ast.stmt))


def _is_none(test: ast.expr) -> str | None:
    words = ast.unparse(test).split()
    is_none = isinstance(test, ast.Compare) and words[1:] == ["is", "None"]
    return words[0].removeprefix("self.") if is_none and words[0].count(".") == 1 and words[0][:5] == "self." else None
