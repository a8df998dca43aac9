"""What is wrong with the last part of a compile script, which gives files the names that the chip's software reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from vllm_runbooks.catalog.languages import Phrase, listed
from vllm_runbooks.edge10.scripts import pure
from vllm_runbooks.edge10.scripts.compile_rules import hit
from vllm_runbooks.edge10.scripts.compiled import Compiled
from vllm_runbooks.edge10.scripts.events import Event
from vllm_runbooks.edge10.scripts.readings import COMPILE, Job, Part
from vllm_runbooks.lint.hits import Hit

_RULE = "edge10.renamed-dies"
_TWO = frozenset(f"{module}.{name}" for module, names in (
    ("os", ("rename", "replace", "renames", "link", "symlink")), ("shutil", ("move", "copy", "copy2", "copyfile")),
) for name in names)  # fmt: skip
"""Functions that give a file a name, their second argument."""
_ONE = frozenset((".rename", ".replace", ".with_name"))
"""Methods of paths that do: their one argument."""
_DIE = "{die}"


def find(part: Part, job: Job) -> Iterator[Hit]:
    """Files of some dies alone being renamed."""
    if part.program is None or part.text is None or not part.has(*COMPILE) or not part.program.is_whole:
        return
    one = Compiled(part, part.program, job.facts)
    counts = {one.number(event.given("tensor_parallel_size")) for event in one.engines}
    if one.dies is None or not counts or None in counts:
        return
    dies = max(each for each in counts if each is not None)
    named = list(_named(one))
    for template in _templates(one):
        events = [(event, found) for event, name in named if (found := _die(template, name)) is not None]
        known = {int(found) for _, found in events if found.isascii() and found.isdigit()}
        missing = sorted(set(range(dies)) - known)
        if not missing or not known or len({found for _, found in events}) > len(known):
            continue
        says = {
            "name": template.replace(_DIE, "…"),
            "renamed": _shown(sorted(known)),
            "what": one.dies.what,
            "dies": str(dies),
            "left": _shown(missing),
        }
        yield hit(part, _RULE, _counted(one, template, known) or events[0][0].node, says)


def _templates(one: Compiled) -> Iterator[str]:
    """Names with the number of a die that the script gives to what the compiler wrote."""
    for file in one.facts.trees.get("vlm", ()):
        name = file.path.rpartition("/")[2]
        if file.renamed_from and name.count(_DIE) == 1:
            yield name


def _named(one: Compiled) -> Iterator[tuple[Event, str]]:
    """The names that files are given beside an engine being made, as far as they are known."""
    for event in one.program.events:
        if event.kind != "call" or all(event.is_beside(engine) for engine in one.engines):
            continue
        value = None
        if event.name in _TWO:
            value = event.given("dst", 1)
        elif event.name in _ONE and len(event.args) == 1 and not event.keywords:
            value = event.args[0]
        else:
            continue
        text = one.program.python(value)
        # What is not known may be any of the names.
        yield event, text.rstrip("/").rpartition("/")[2] if isinstance(text, str) else pure.HOLE


def _die(template: str, name: str) -> str | None:
    """What stands in a name in place of the die; None: the name is another one."""
    before, _, behind = template.partition(_DIE)
    match = re.fullmatch(rf"{re.escape(before)}(\d{{1,4}}|{pure.HOLE}){re.escape(behind)}", name)
    if match is not None:
        return match[1]
    if pure.HOLE not in name:
        return None
    first, last = name.partition(pure.HOLE)[0], name.rpartition(pure.HOLE)[2]
    may_be = before.startswith(first[: len(before)]) and (behind.endswith(last) or last.endswith(behind))
    return pure.HOLE if may_be else None


def _counted(one: Compiled, template: str, known: set[int]) -> ast.AST | None:
    """Where the script counts the dies: the range of a loop that has the beginning of the name in it."""
    if one.part.text is None:
        return None
    before = template.partition(_DIE)[0]
    for node in ast.walk(one.part.text.tree):
        loops = node.generators if isinstance(node, (ast.DictComp, ast.ListComp, ast.SetComp, ast.GeneratorExp)) else ()
        over = [loop.iter for loop in loops] or ([node.iter] if isinstance(node, ast.For) else [])
        counted = [each for each in over if _is_count(each, max(known) + 1)]
        texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant)) if counted else ()
        if any(isinstance(text, str) and before in text for text in texts):
            return counted[0]
    return None


def _is_count(node: ast.expr, count: int) -> bool:
    """Whether an expression is `range` with a number that is written there."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "range":
        return False
    return any(isinstance(each, ast.Constant) and each.value == count for each in node.args)


def _shown(dies: list[int]) -> str:
    """Numbers of dies in words."""
    if len(dies) > 2 and dies == list(range(dies[0], dies[-1] + 1)):
        return Phrase("the dies {first} to {last}", first=str(dies[0]), last=str(dies[-1]))
    if len(dies) == 1:
        return Phrase("die {die}", die=str(dies[0]))
    return Phrase("the dies {dies}", dies=listed([str(each) for each in dies]))
