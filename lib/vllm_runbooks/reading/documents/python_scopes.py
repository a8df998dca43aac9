"""Names of Python code, told apart by the function or class that assigns them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

_MARK = "@"
"""Is in no name: `cmd@2` is the variable `cmd` of the second function or class."""


@dataclass
class _Scope:
    number: int
    outer: _Scope | None = None
    is_class: bool = False
    of_object: str = ""
    """Parameter of a method that is the object; its attributes are those of the class."""
    bound: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)
    """Names that belong to another scope, or that are imported."""


def separate(tree: ast.AST) -> None:
    """Mark each local name with its scope, in place; those of the module stay as they are."""
    found = list[tuple[ast.Name | ast.arg, _Scope]]()
    count = 0
    stack: list[tuple[ast.AST, _Scope]] = [(tree, _Scope(0))]
    while stack:
        node, scope = stack.pop()
        inner = scope
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            count += 1
            inner = _Scope(count, scope, isinstance(node, ast.ClassDef))
            if scope.is_class and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = [*node.args.posonlyargs, *node.args.args][:1]
                is_static = any(
                    isinstance(item, ast.Name) and item.id == "staticmethod" for item in node.decorator_list
                )
                inner.of_object = first[0].arg if first and not is_static else ""
        elif isinstance(node, ast.arg):
            scope.bound.add(node.arg)
            found.append((node, scope))
        elif isinstance(node, ast.Name):
            found.append((node, scope))
            if not isinstance(node.ctx, ast.Load):
                scope.bound.add(node.id)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            scope.elsewhere.update(node.names)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            scope.elsewhere.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
        for name, value in ast.iter_fields(node):
            parts = value if isinstance(value, list) else [value]
            within = inner if name in ("body", "args") else scope
            if name in ("defaults", "kw_defaults"):  # of parameters: worked out where the function is defined
                within = scope.outer or scope
            stack += [(part, within) for part in parts if isinstance(part, ast.AST)]
    for node, scope in found:
        _mark(node, scope)


def _mark(node: ast.Name | ast.arg, scope: _Scope) -> None:
    name = node.arg if isinstance(node, ast.arg) else node.id
    place = scope
    while place.outer is not None:
        is_visible = place is scope or not place.is_class
        if is_visible and name in place.bound and name not in place.elsewhere:
            owner = place.outer if name == place.of_object else place
            marked = f"{name}{_MARK}{owner.number}"
            if isinstance(node, ast.arg):
                node.arg = marked
            else:
                node.id = marked
            return
        place = place.outer


def plain(name: str) -> str:
    """A name as it is written."""
    return name.partition(_MARK)[0]
