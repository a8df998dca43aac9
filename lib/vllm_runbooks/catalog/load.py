"""Load the catalog, each part when it is used."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from vllm_runbooks.catalog import compiled, languages
from vllm_runbooks.catalog.compiled import Rules
from vllm_runbooks.catalog.folders import own_catalogs
from vllm_runbooks.catalog.records import Entrance
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.errors import InputError

if TYPE_CHECKING:
    from vllm_runbooks.catalog.serving import Serving
    from vllm_runbooks.catalog.specs import Specs
    from vllm_runbooks.catalog.toolchains import Toolchain


@cache
def load_catalog(folders: tuple[str, ...] | None = None) -> Catalog:
    """The catalog with the user's own folders on top (default: `VLLM_RUNBOOKS_CATALOG`)."""
    return compiled.load(user_folders=own_catalogs() if folders is None else folders)


def language(lang: str | None = None) -> str | None:
    """The given language, else that of `VLLM_RUNBOOKS_LANG`; None for English.

    Raises InputError if it is unknown.
    """
    if lang is None:
        return languages.chosen(os.environ.get(languages.LANG), languages.LANG)
    return languages.chosen(lang)


def in_language(shelf: Catalog, lang: str | None) -> Catalog:
    """The catalog with its texts in a language."""
    chosen = language(lang)
    return shelf if chosen is None or chosen == shelf.lang else shelf.told_in(chosen)


def toolchain(version: str | None = None) -> Toolchain:
    """Facts of a toolchain version such as `1.1.7`, by default the newest; raises InputError."""
    from vllm_runbooks.catalog.toolchains import TOOLCHAINS

    toolchains = TOOLCHAINS.load()
    if version is None:
        return toolchains[-1]
    name = version.strip().removeprefix("v")
    for candidate in toolchains:
        if name in (candidate.version, candidate.id):
            return candidate
    versions = ", ".join(candidate.version for candidate in toolchains)
    raise InputError(f"{version}: unknown toolchain version; known: {versions}")


@cache
def rules() -> Rules:
    return compiled.RULES.load()


@cache
def serving() -> Serving:
    from vllm_runbooks.catalog.serving import SERVING

    return SERVING.load()


@cache
def entrances() -> tuple[Entrance, ...]:
    """Observations in the words of users, and their targets: runbooks, symptoms and commands."""
    return compiled.ENTRANCES.load()


@cache
def specs() -> Specs:
    """The GPUs and models alone."""
    from vllm_runbooks.catalog import specs as _specs

    return _specs.load()
