"""The lock file, from which the wheel's dependencies are installed with verified hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
LOCKED = {
    canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", LOCK, re.MULTILINE)
}


def test_the_lock_file_fits_the_dependencies_and_the_tested_versions() -> None:
    """Each dependency is locked in a version that `pyproject.toml` allows, and that the tests run with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [Requirement(text) for text in project["dependencies"]]
    constraints = (ROOT / "tests" / "constraints.txt").read_text(encoding="utf-8")
    tested = {canonicalize_name(name): v for name, v in re.findall(r"^([\w.-]+)==(\S+)", constraints, re.MULTILINE)}

    assert [str(r) for r in needed if not r.specifier.contains(LOCKED.get(canonicalize_name(r.name), "0"))] == []
    assert {name: version for name, version in LOCKED.items() if tested.get(name, version) != version} == {}


def test_every_locked_package_has_hashes_and_no_index_is_named() -> None:
    """`pip --require-hashes` accepts the file, whatever index is configured."""
    requirements = re.split(r"\n(?=\S)", LOCK.strip())

    assert len(requirements) == len(LOCKED)
    assert [text for text in requirements if not re.search(r"\n {4}--hash=sha256:[0-9a-f]{64}", text)] == []
    assert re.findall(r"https?:|file:|index|find-links", LOCK) == []
