"""Names of Python code, told apart by the function or class that assigns them."""

from __future__ import annotations

import ast
from collections import Counter
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
    _unite(tree, [node for node, _ in found if isinstance(node, ast.Name)])


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


def _unite(tree: ast.AST, names: list[ast.Name]) -> None:
    """Give a second name of a list or mapping the first one, in place: `args = cmd; args += [...]` extends `cmd`."""
    assigned: dict[str, list[ast.Assign]] = {}
    in_place = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(target := node.targets[0], ast.Name):
            assigned.setdefault(target.id, []).append(node)
        elif isinstance(node, ast.AugAssign):
            in_place.add(id(node.target))
    stored = Counter(node.id for node in names if not isinstance(node.ctx, ast.Load) and id(node) not in in_place)
    once = {name: of[0] for name, of in assigned.items() if len(of) == stored[name] == 1}
    seconds = {
        name: (assignment, first)
        for name, assignment in once.items()
        if isinstance(assignment.value, ast.Name)
        and (first := assignment.value.id) in once
        and isinstance(once[first].value, (ast.List, ast.Dict))
    }
    for node in names if seconds else ():
        if node.id in seconds:
            node.id = seconds[node.id][1]
    for assignment, _ in seconds.values():
        assignment.targets, assignment.value = [], ast.copy_location(ast.Constant(None), assignment.value)


def plain(name: str) -> str:
    """A name as it is written."""
    return name.partition(_MARK)[0]
