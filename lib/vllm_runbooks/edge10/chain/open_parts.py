"""Find the Python that has the open parts, llm-compressor and EvalScope; nothing is ever installed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.chain.records import OpenParts

VARIABLE = "RUNBOOKS_OPEN_PARTS"
"""Names the Python with the open parts, or the folder of its environment."""
QUANTISES, EVALUATES = "llmcompressor", "evalscope"
_DISTRIBUTIONS = (QUANTISES, EVALUATES, "compressed-tensors", "transformers", "torch")
_LIST_VERSIONS = """\
import importlib.metadata as m, json, sys
def version(name):
    try:
        return m.version(name)
    except m.PackageNotFoundError:
        return None
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""
_LIMIT_S = 30.0
_PYTHONS = ("bin/python", "venv/bin/python", ".venv/bin/python")


def find(python: str, default: str | None, environment: Mapping[str, str]) -> OpenParts:
    """Find the Python with the open-source components.

    Args:
        python: A Python, or the folder of its environment; empty for the variable, else the
            default.
        default: The Python of the serving vLLM; None if unknown.
        environment: Variables to run it with.

    Raises:
        InputError: The Python does not exist or does not answer.
    """
    source, name = ("python", python.strip()) if python.strip() else (VARIABLE, os.environ.get(VARIABLE, "").strip())
    if name:
        path = _find_python(name, source)
    elif default is not None:
        source, path = "the Python of vLLM", default
    else:
        raise InputError(
            f"unknown Python with llm-compressor and EvalScope; set it with `python` or in the variable {VARIABLE}"
        )
    try:
        output = subprocess.run(  # noqa: S603 - the Python that was named, and a program of ours
            [path, "-c", _LIST_VERSIONS, *_DISTRIBUTIONS],
            env=dict(environment),
            capture_output=True,
            timeout=_LIMIT_S,
            check=True,
            text=True,
        ).stdout
        data = json.loads(output.splitlines()[-1])
        versions = {package: data[package] if isinstance(data[package], str) else None for package in _DISTRIBUTIONS}
    except (OSError, subprocess.SubprocessError, ValueError, IndexError, KeyError, TypeError):
        raise InputError(f"{source}: {path} does not list its packages; use a working Python") from None
    return OpenParts(path, versions)


def _find_python(name: str, source: str) -> str:
    place = Path(name).expanduser()
    if place.is_dir():
        candidates = (place / python for python in _PYTHONS)
        place = next((python for python in candidates if python.is_file()), place)
        if place.is_dir():
            raise InputError(f"{source}: {name}: is not a Python environment; use one, or its bin/python")
    elif not os.access(place, os.X_OK) or not place.is_file():
        raise InputError(f"{source}: {name}: no such Python; use one, or the folder of its environment")
    # Not resolved: Python finds its environment by the link.
    return str(place.absolute())


def missing(parts: OpenParts, packages: Sequence[str]) -> tuple[str, ...]:
    """Distributions that are not installed."""
    return tuple(package for package in packages if parts.versions.get(package) is None)


def how(parts: OpenParts, lacking: Sequence[str]) -> str:
    """One line about missing components and their installation."""
    return (
        f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not installed in {parts.python}; in an "
        f"separate environment, `python -m venv ENV && ENV/bin/pip install {' '.join(lacking)}`, then set it with "
        f"`python` or in the variable {VARIABLE}"
    )
