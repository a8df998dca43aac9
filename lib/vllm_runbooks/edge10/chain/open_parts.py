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
"""Variable that names the Python with the open parts, or the folder of its environment."""
QUANTISES, EVALUATES = "llmcompressor", "evalscope"
_ASKED = (QUANTISES, EVALUATES, "compressed-tensors", "transformers", "torch")
_ASK = """\
import importlib.metadata as m, json, sys
def version(name):
    try:
        return m.version(name)
    except m.PackageNotFoundError:
        return None
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""
_ASKING_S = 30.0
_BELOW = ("bin/python", "venv/bin/python", ".venv/bin/python")


def find(given: str, other: str | None, environment: Mapping[str, str]) -> OpenParts:
    """The Python with the open parts: the one that is named, by an option or the variable, else another one.

    Args:
        given: A Python, or the folder of its environment; empty: the variable.
        other: That of the vLLM which serves; None: it is not known.
        environment: Variables that it runs with.

    Raises:
        InputError: there is no such Python, or it does not answer.
    """
    named = given.strip() or os.environ.get(VARIABLE, "").strip()
    name = "python" if given.strip() else VARIABLE
    if named:
        python = _python(named, name)
    elif other is not None:
        name, python = "the Python of vLLM", other
    else:
        raise InputError(
            "it is not known which Python has llm-compressor and EvalScope; name it with `python` or in the variable "
            f"{VARIABLE}"
        )
    try:
        said = subprocess.run(  # noqa: S603 - the Python that was named, and a program of ours
            [python, "-c", _ASK, *_ASKED],
            env=dict(environment),
            capture_output=True,
            timeout=_ASKING_S,
            check=True,
            text=True,
        ).stdout
        told = json.loads(said.splitlines()[-1])
        versions = {each: told[each] if isinstance(told[each], str) else None for each in _ASKED}
    except (OSError, subprocess.SubprocessError, ValueError, IndexError, KeyError, TypeError):
        raise InputError(f"{name}: {python} does not say what is installed in it; name a Python that works") from None
    return OpenParts(python, versions)


def _python(named: str, name: str) -> str:
    """The Python that is named, by itself or by its environment's folder.

    Raises:
        InputError: there is none.
    """
    place = Path(named).expanduser()
    if place.is_dir():
        found = next((place / each for each in _BELOW if (place / each).is_file()), None)
        if found is None:
            raise InputError(f"{name}: {named}: no environment of Python lies there; name one, or its bin/python")
        return str(found.absolute())
    if not os.access(place, os.X_OK) or not place.is_file():
        raise InputError(f"{name}: {named}: no such Python; name one, or the folder of its environment")
    # Not resolved: the link is what tells a Python its environment.
    return str(place.absolute())


def missing(parts: OpenParts, wanted: Sequence[str]) -> tuple[str, ...]:
    """What is not installed of what is wanted."""
    return tuple(each for each in wanted if parts.versions.get(each) is None)


def how(parts: OpenParts, lacking: Sequence[str]) -> str:
    """One line: what is missing, and how to get it."""
    what = " and ".join(lacking)
    return (
        f"{what} {'is' if len(lacking) == 1 else 'are'} not installed in {parts.python}; in an environment of its own, "
        f"`python -m venv ENV && ENV/bin/pip install {' '.join(lacking)}`, then name it with `python` or in the "
        f"variable {VARIABLE}"
    )
