"""The core's mutants are tried by tests that are there."""

from __future__ import annotations

import mutants


def test_every_module_of_the_core_has_tests() -> None:
    """In the folder of its package, and each of the others that are named exists."""
    for path in mutants.core():
        files = mutants.tests_of(path.relative_to(mutants.ROOT / mutants.PACKAGE).as_posix(), mutants.ROOT)
        assert files or path.name == "__init__.py", path
        assert all((mutants.ROOT / file).is_file() for file in files), path


def test_the_core_reaches_no_process() -> None:
    """It is what reads, plans and diagnoses; what starts, asks and commands is left out."""
    names = {path.relative_to(mutants.ROOT / mutants.PACKAGE).as_posix() for path in mutants.core()}

    assert {"reading/shell/words.py", "plan/budget.py", "diagnosis/causes.py", "lint/judged.py"} <= names
    assert not {"host/processes.py", "probe/asking.py", "serve/guard.py", "lint/commands/lint.py"} & names
