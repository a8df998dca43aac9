"""The package's API: public names, fast import, dependencies in one direction."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vllm_runbooks


def test_all_lists_the_public_names_and_each_can_be_imported() -> None:
    """Sorted, unique, and equal to `dir`."""
    assert vllm_runbooks.__all__ == sorted(set(vllm_runbooks.__all__))
    assert dir(vllm_runbooks) == vllm_runbooks.__all__
    for name in vllm_runbooks.__all__:
        assert getattr(vllm_runbooks, name) is not None


def test_another_name_is_rejected() -> None:
    """As by any module."""
    with pytest.raises(AttributeError, match="module 'vllm_runbooks' has no attribute 'nothing'"):
        _ = vllm_runbooks.nothing


def test_importing_the_package_imports_no_submodule() -> None:
    """Startup takes milliseconds."""
    code = "import sys, vllm_runbooks; print([m for m in sys.modules if m.startswith('vllm_runbooks.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_the_core_needs_no_compiled_dependency() -> None:
    """It runs in a browser too: the core is imported and used with all of them out of reach."""
    code = """
import sys
for name in ("pydantic", "re2", "ruamel", "ruamel.yaml", "click", "rich", "psutil", "nbformat", "zmq"):
    sys.modules[name] = None
from vllm_runbooks import render; from vllm_runbooks.diagnosis import answer
from vllm_runbooks.catalog.load import Catalog
from vllm_runbooks.core.evidence import Document, Evidence
print(render.answers.text(answer.answer(Evidence((Document("x", "words"),)), Catalog({}, ()), dict)).splitlines()[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.stdout == "UNKNOWN  x\n", done.stderr


def test_the_layers_hold() -> None:
    """The contracts of pyproject.toml."""
    tool = Path(sys.executable).with_name("lint-imports")
    if not tool.is_file() and shutil.which("lint-imports") is None:
        pytest.skip("import-linter is not installed")
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [str(tool), "--config", "pyproject.toml", "--no-cache"], cwd=root, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout
