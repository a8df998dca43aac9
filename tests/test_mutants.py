"""Every room of the core has tests of its own for its mutants."""

from __future__ import annotations

import mutants


def test_every_room_of_the_core_names_its_tests() -> None:
    """The table has the rooms that the import contract has, and each of its tests exists."""
    paths = [path.relative_to(mutants.ROOT / mutants.PACKAGE).as_posix() for path in mutants.core()]

    assert {name.partition("/")[0] for name in mutants.TESTS} == {
        path.removesuffix(".py").partition("/")[0] for path in paths
    }
    assert all(mutants.tests_of(path, mutants.ROOT) for path in paths)
    for name in {name for names in mutants.TESTS.values() for name in names}:
        assert mutants.file_of(name, mutants.ROOT), name
