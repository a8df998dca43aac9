"""Features that need an optional dependency, and the error for a missing one."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import NamedTuple

from vllm_runbooks.core.errors import InputError


class _Extra(NamedTuple):
    name: str
    """Name of the extra, as in `vllm-runbooks[name]`."""
    modules: tuple[str, ...]
    """Imported modules, in the order of the check."""
    then: str = ""


_NOTEBOOKS = (
    "papermill", "nbclient", "nbformat", "jupyter_client", "ipykernel", "IPython", "nh3", "markdown_it", "rich",
)  # fmt: skip

_PARTS: Mapping[str, _Extra] = MappingProxyType({
    "runbooks": _Extra("notebooks", _NOTEBOOKS),
    "time zones": _Extra("notebooks", ("tzdata",)),
    "the panels": _Extra("lab", ("ipywidgets", "anywidget"), ", and restart the kernel"),
    "`vllm-runbooks lab`": _Extra("lab", ("jupyterlab", "ipywidgets", "anywidget", *_NOTEBOOKS)),
    "`check --ray`": _Extra("cluster", ("ray", *_NOTEBOOKS)),
    "models on the Hub": _Extra("hub", ("huggingface_hub",)),
    "`vllm-runbooks mcp`": _Extra("mcp", ("mcp",)),
    "the site": _Extra("site", ("sphinx", "myst_nb", "pydata_sphinx_theme", *_NOTEBOOKS)),
})  # fmt: skip


def missing(part: str) -> str:
    """The first module that a part lacks; empty: it lacks none."""
    return next((name for name in _PARTS[part].modules if find_spec(name) is None), "")


def require(part: str) -> None:
    """Raise InputError, with the command that installs it, if a dependency of a feature is missing."""
    if module := missing(part):
        extra = _PARTS[part]
        raise InputError(
            f"{module} is not installed, but is required for {part}; "
            f"run: pip install 'vllm-runbooks[{extra.name}]'{extra.then}"
        )
