"""The core's mutants are tried by tests that are there."""

from __future__ import annotations

import mutants


def test_every_module_of_the_core_has_tests() -> None:
    """Files that name it, or in the folder of its package."""
    for path in mutants.core():
        module = path.relative_to(mutants.ROOT / mutants.PACKAGE).as_posix()
        assert mutants.tests_of(module) or path.name == "__init__.py", module


def test_a_place_is_in_a_statement() -> None:
    """Its lines are the innermost statement's; a compound statement ends before its body."""
    lines = (
        "def total(rows):",
        "    if (rows and",
        "            len(rows) > 1):",
        "        return (",
        " sum(rows) + 1)",
    )
    source = "\n".join(lines)
    assert mutants.lines_of(source, mutants.Place("m.py", (3, 22), (3, 23))) == (2, 4)
    assert mutants.lines_of(source, mutants.Place("m.py", (5, 13), (5, 14))) == (4, 6)


def test_the_core_uses_no_process() -> None:
    """It reads, plans and diagnoses; modules that launch, connect or run commands are excluded."""
    names = {path.relative_to(mutants.ROOT / mutants.PACKAGE).as_posix() for path in mutants.core()}

    assert {"reading/shell/words.py", "plan/budget.py", "diagnosis/causes.py", "lint/linted_text.py"} <= names
    assert not {"host/processes.py", "probe/asking.py", "serve/guard.py", "lint/commands/lint.py"} & names
