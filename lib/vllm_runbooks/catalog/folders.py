"""Folders of the data: the catalog, its cases, the runbooks, and the user's own catalogs."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from vllm_runbooks.core.errors import InputError

DATA = "VLLM_RUNBOOKS_DATA"
"""Variable that names the folder of the data."""

CATALOGS = "VLLM_RUNBOOKS_CATALOG"
"""Variable that lists the user's own catalog folders, in the kernels of runbooks as well."""


def data_dir() -> Path:
    """The folder of `catalog/` and `runbooks/`."""
    if named := os.environ.get(DATA):
        root = Path(named)
        if not (root / "catalog").is_dir():
            raise InputError(f"{root}: no catalog folder; use the folder that contains catalog/ and runbooks/")
        return root.absolute()
    return _own_data(__file__)


@cache
def _own_data(module: str) -> Path:
    """Data folder of the checkout that contains a module, else of the installed package."""
    package = Path(module).resolve().parents[1]
    checkout = package.parent.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / "catalog" / "lines.yaml").is_file():
        return checkout
    return package / "_data"


def catalog_dir() -> Path:
    return data_dir() / "catalog"


def _chosen(override: str | None, default: Path, what: str) -> Path:
    if override is None:
        return default
    path = Path(override)
    if not override.strip() or not path.is_dir():
        raise InputError(f"{override or '(nothing)'}: is not a folder of {what}; use an existing one")
    return path.absolute()


def runbooks_dir(override: str | None = None) -> Path:
    return _chosen(override, data_dir() / "runbooks", "runbooks")


def cases_dir(override: str | None = None) -> Path:
    return _chosen(override, catalog_dir() / "cases", "cases")


def own_catalogs() -> tuple[str, ...]:
    """The user's own catalog folders, as `VLLM_RUNBOOKS_CATALOG` lists them."""
    return tuple(part for part in os.environ.get(CATALOGS, "").split(os.pathsep) if part)
