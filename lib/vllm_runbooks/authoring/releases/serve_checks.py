"""Read from a release's sources its checks beyond types; nothing is executed.

Each becomes a condition on values for `reading.arguments.conditions.holds`; a check of anything
else is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_COMPARED: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_COUNTED: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mod: "%"}
_CALLED = ("bool", "len", "set", "any", "all", "sorted")
_METHODS = ("startswith", "endswith", "lower", "upper", "strip", "values", "keys")
_KINDS = ("str", "int", "float", "bool", "dict", "list")
_MAX_CALLS = 4


class UnreadableError(Exception):
    """Raised for a condition on anything other than values."""


def serve_checks(sources: Path) -> list[dict[str, Any]]:
    """Checks of the release in a folder (`…/vllm`) after parsing: `when`, `error` and `says`."""
    for path in sorted(sources.glob("entrypoints/**/cli_args.py")):
        tree = parsed(path)
        function = _function(tree, "validate_parsed_serve_args")
        if function is not None:
            return list(CheckReader(tree, sources, "args", _MAX_CALLS).checks(function))
    return []


def object_checks(sources: Path) -> dict[str, list[dict[str, Any]]]:
    paths = [
        sources / "config.py",
        *sorted(sources.glob("config/*.py")),
        *sorted(sources.glob("entrypoints/**/cli_args.py")),
    ]
    by_class: dict[str, list[dict[str, Any]]] = {}
    for path in paths:
        tree = parsed(path)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                checks = list(_of_class(node, tree, sources))
                if checks:
                    by_class[node.name] = checks
    return by_class


def _of_class(owner: ast.ClassDef, tree: ast.Module, sources: Path) -> Iterator[dict[str, Any]]:
    for function in owner.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        if function.name in ("__post_init__", "model_post_init") or any(validators(function, "model_validator")):
            yield from CheckReader(tree, sources, "self", 0).checks(function)
        for decorator in validators(function, "field_validator"):
            for name in decorator.args if len(function.args.args) > 1 else ():
                if isinstance(name, ast.Constant):
                    reader = CheckReader(tree, sources, "self", 0)
                    reader.local[function.args.args[1].arg] = ["arg", name.value]
                    # A default is not validated.
                    yield from reader.checks(function, [["given", name.value]])


def validators(function: ast.FunctionDef, kind: str) -> Iterator[ast.Call]:
    """Yield pydantic's decorators of a method that checks converted values."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == kind:
            modes = [word.value for word in decorator.keywords if word.arg == "mode"]
            if all(isinstance(mode, ast.Constant) and mode.value == "after" for mode in modes):
                yield decorator


def parsed(path: Path) -> ast.Module:
    """The tree of a module; an empty one if it is missing or cannot be parsed."""
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def _function(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    return next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name), None)


class CheckReader:
    """Reads the checks of one function; `subject` is the name whose attributes are the values."""

    def __init__(self, tree: ast.Module, sources: Path, subject: str, depth: int) -> None:
        self.tree, self.sources, self.subject, self.depth = tree, sources, subject, depth
        self.local: dict[str, Any] = {}
        """Conditions of local names; None for anything else."""
        self.changed: set[str] = set()
        """Values that the function itself may have changed."""

    def checks(self, function: ast.FunctionDef, guards: list[Any] | None = None) -> Iterator[dict[str, Any]]:
        """Checks of a function, each guarded by the conditions of its call."""
        yield from self._block(function.body, list(guards or ()))

    def _block(self, body: list[ast.stmt], guards: list[Any]) -> Iterator[dict[str, Any]]:
        for statement in body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                self._assign(statement)
            elif isinstance(statement, ast.AugAssign):
                self._forget(statement.target)
            elif isinstance(statement, ast.Raise):
                yield from self._raised(statement, guards)
            elif isinstance(statement, ast.Assert):
                yield from self._assert(statement, guards)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                yield from self._called(statement.value, guards)
            elif isinstance(statement, ast.For):
                yield from self._loop(statement, guards)
            elif isinstance(statement, ast.If):
                guard = yield from self._if(statement, guards)
                if guard is None:
                    return
                guards = guard

    def _raised(self, statement: ast.Raise, guards: list[Any]) -> Iterator[dict[str, Any]]:
        raised = statement.exc
        if isinstance(raised, ast.Call) and isinstance(raised.func, ast.Name) and guards:
            says = "".join(_texts(raised.args[0])) if raised.args else ""
            yield self.check_record(statement, guards, raised.func.id, " ".join(says.removeprefix("Error: ").split()))

    def check_record(self, statement: ast.stmt, guards: list[Any], error: str, says: str) -> dict[str, Any]:
        del statement
        return {"when": joined(guards), "error": error, "says": says}

    def _if(self, statement: ast.If, guards: list[Any]) -> Any:
        condition = self.readable(statement.test)
        if condition is None:
            for inner in ast.walk(statement):
                self._forget(inner)
            # An unknown condition drops its block; the rest is kept unless the block exits.
            return None if _leaves(statement.body) or _leaves(statement.orelse) else guards
        if set(_asked(condition)) == {"subparser"} and _returns(statement.body):
            # It distinguishes `vllm serve` from other commands; here the command is `vllm serve`.
            return guards
        before = dict(self.local)
        yield from self._block(statement.body, [*guards, condition])
        after, self.local = self.local, dict(before)
        yield from self._block(statement.orelse, [*guards, ["not", condition]])
        for name in {*after, *self.local}:
            if after.get(name) != self.local.get(name):
                self.local[name] = None
        return [*guards, ["not", condition]] if _leaves(statement.body) else guards

    def _loop(self, statement: ast.For, guards: list[Any]) -> Iterator[dict[str, Any]]:
        """`for item in values: if condition: raise`."""
        values = self.readable(statement.iter)
        if values is None or not isinstance(statement.target, ast.Name) or _leaves(statement.body):
            for inner in ast.walk(statement):
                self._forget(inner)
            return
        name = statement.target.id
        kept = self.local.get(name)
        self.local[name] = ["item", name]
        for check in self._block(statement.body, []):
            yield {**check, "when": joined([*guards, ["some", values, name, check["when"]]])}
        self.local[name] = kept

    def _assign(self, statement: ast.Assign | ast.AnnAssign) -> None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if isinstance(target, ast.Name) and statement.value is not None:
                self.local[target.id] = self.readable(statement.value)
            else:
                self._forget(target)

    def _forget(self, node: ast.AST) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
        for target in targets:
            is_stored = isinstance(getattr(target, "ctx", None), ast.Store)
            if isinstance(target, ast.Attribute) and is_stored and self._is_subject(target.value):
                self.changed.add(target.attr)
            elif isinstance(target, ast.Name) and is_stored:
                self.local[target.id] = None

    def _assert(self, statement: ast.Assert, guards: list[Any]) -> Iterator[dict[str, Any]]:
        condition = self.readable(statement.test)
        if condition is None:
            return
        says = " ".join("".join(_texts(statement.msg)).split()) if statement.msg else "an assertion fails"
        yield self.check_record(statement, [*guards, ["not", condition]], "AssertionError", says)

    def _called(self, call: ast.Call, guards: list[Any]) -> Iterator[dict[str, Any]]:
        if not isinstance(call.func, ast.Name) or not self.depth or len(call.args) != 1:
            return
        tree = self.tree
        function = _function(tree, call.func.id)
        module = _imports(self.tree).get(call.func.id)
        if function is None and module is not None:
            path = self.sources.parent / Path(*module.split(".")).with_suffix(".py")
            tree = parsed(path)
            function = _function(tree, call.func.id)
        if function is None or not function.args.args:
            return
        reader = CheckReader(tree, self.sources, self.subject, self.depth - 1)
        if not self._is_subject(call.args[0]):
            value = self.readable(call.args[0])
            if value is None:
                return
            reader.local[function.args.args[0].arg] = value
        yield from reader.checks(function, guards)

    def _is_subject(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == self.subject

    def readable(self, node: ast.AST) -> Any:
        """An expression as a condition; None if it is not one."""
        try:
            return self.read(node)
        except UnreadableError:
            return None

    def read(self, node: ast.AST) -> Any:
        """An expression as a condition; raises UnreadableError if it is not one."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool | None):
            return ["const", node.value]
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            items = [item.value for item in node.elts if isinstance(item, ast.Constant)]
            if len(items) == len(node.elts):
                return ["const", items]
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.BoolOp):
            return ["and" if isinstance(node.op, ast.And) else "or", *(self.read(value) for value in node.values)]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ["not", self.read(node.operand)]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            value = node.operand.value
            return ["const", -value if isinstance(value, int | float) else None]
        if isinstance(node, ast.Compare):
            return self._compared(node)
        if isinstance(node, ast.BinOp) and type(node.op) in _COUNTED:
            return [_COUNTED[type(node.op)], self.read(node.left), self.read(node.right)]
        if isinstance(node, ast.Name) and self.local.get(node.id) is not None:
            return self.local[node.id]
        if isinstance(node, ast.NamedExpr):
            self.local[node.target.id] = self.read(node.value)
            return self.local[node.target.id]
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return self._listed(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return ["[]", self.read(node.value), node.slice.value]
        raise UnreadableError

    def _attribute(self, node: ast.Attribute) -> Any:
        if self._is_subject(node.value):
            if node.attr in self.changed:
                raise UnreadableError
            return ["arg", node.attr]
        if isinstance(node.value, ast.Name):
            if node.value.id == "envs":
                return ["env", node.attr]
            return ["const", _member(self.tree, node.value.id, node.attr)]
        raise UnreadableError

    def _compared(self, node: ast.Compare) -> Any:
        sides = [self.read(side) for side in (node.left, *node.comparators)]
        pairs = [
            [_COMPARED[type(operator)], left, right]
            for operator, left, right in zip(node.ops, sides[:-1], sides[1:], strict=True)
        ]
        return pairs[0] if len(pairs) == 1 else ["and", *pairs]

    def _call(self, node: ast.Call) -> Any:
        arguments = node.args
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in _METHODS and not self._is_subject(function.value):
            return [function.attr, self.read(function.value), *map(self.read, arguments)]
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ("getattr", "hasattr") and self._is_subject(arguments[0]) and isinstance(arguments[1], ast.Constant):
            # Attributes that only `vllm serve` has are tested to distinguish it from other
            # commands.
            value = ["arg", arguments[1].value]
            return value if name == "getattr" else ["is not", value, ["const", None]]
        if name == "get_args" and isinstance(arguments[0], ast.Name):
            return ["const", self.literal(arguments[0].id)]
        kind = arguments[1].id if name == "isinstance" and isinstance(arguments[1], ast.Name) else ""
        if kind in _KINDS:
            return ["isinstance", self.read(arguments[0]), kind]
        if name in _CALLED and len(arguments) == 1:
            return [name, self.read(arguments[0])]
        raise UnreadableError

    def literal(self, name: str) -> list[Any]:
        module = _imports(self.tree).get(name)
        if module is None:
            return _literal(self.tree, name)
        base = self.sources.parent / Path(*module.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                tree = parsed(path)
                inner = _imports(tree).get(name)
                return CheckReader(tree, self.sources, self.subject, 0).literal(name) if inner else _literal(tree, name)
        raise UnreadableError

    def _listed(self, node: ast.ListComp | ast.GeneratorExp) -> Any:
        generator = node.generators[0]
        if len(node.generators) > 1:
            raise UnreadableError
        kept = dict(self.local)
        try:
            if isinstance(generator.iter, ast.Tuple) and isinstance(generator.target, ast.Tuple):
                return ["or", *self._unrolled(generator, generator.iter, generator.target)]
            if not isinstance(generator.target, ast.Name):
                raise UnreadableError
            values, name = self.read(generator.iter), generator.target.id
            self.local[name] = ["item", name]
            tests = [self.read(test) for test in generator.ifs]
            return ["filter", values, name, joined(tests) if tests else ["const", True], self.read(node.elt)]
        finally:
            self.local = kept

    def _unrolled(self, generator: ast.comprehension, rows: ast.Tuple, target: ast.Tuple) -> Iterator[Any]:
        names = [name.id for name in target.elts if isinstance(name, ast.Name)]
        for row in rows.elts:
            if not isinstance(row, ast.Tuple):
                raise UnreadableError
            self.local.update({name: self.read(cell) for name, cell in zip(names, row.elts, strict=True)})
            yield joined([self.read(test) for test in generator.ifs])


def joined(conditions: list[Any]) -> Any:
    return conditions[0] if len(conditions) == 1 else ["and", *conditions]


def _imports(tree: ast.AST) -> dict[str, str]:
    return {
        alias.asname or alias.name: str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vllm.")
        for alias in node.names
    }


def _literal(tree: ast.Module, name: str) -> list[Any]:
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            values = [
                constant.value
                for part in ast.walk(node)
                if isinstance(part, ast.Subscript) and getattr(part.value, "id", "") == "Literal"
                for constant in ast.walk(part.slice)
                if isinstance(constant, ast.Constant)
            ]
            named = [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and part.id.startswith("KV")]
            values += [value for part in named if part != name for value in _literal(tree, part)]
            if values:
                return values
    raise UnreadableError


def _member(tree: ast.Module, owner: str, name: str) -> Any:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == owner:
            values = {
                getattr(line.targets[0], "id", ""): line.value for line in node.body if isinstance(line, ast.Assign)
            }
            value = values.get(name)
            if isinstance(value, ast.Constant):
                return value.value
    raise UnreadableError


def _asked(condition: Any) -> Iterator[str]:
    if isinstance(condition, list) and condition:
        if condition[0] == "arg":
            yield condition[1]
        elif condition[0] != "const":
            for part in condition[1:]:
                yield from _asked(part)


def _returns(body: list[ast.stmt]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.Return)


def _leaves(body: list[ast.stmt]) -> bool:
    return any(isinstance(statement, ast.Return | ast.Continue | ast.Break) for statement in body)


def _texts(node: ast.AST | None) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.JoinedStr):
        for value in node.values:
            yield from _texts(value)
    elif isinstance(node, ast.BinOp):
        yield from _texts(node.left)
        yield from _texts(node.right)
    else:
        yield "…"
