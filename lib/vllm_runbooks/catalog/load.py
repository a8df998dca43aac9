"""Load the catalog, each part when it is asked for.

What is read is an index. Where the authored files may be newer (a checkout, a user's own folder) a compiler makes it
anew, and it is kept under a name made of the files' content; only then is YAML read.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_runbooks.catalog import languages
from vllm_runbooks.catalog.compiled import Rules, load, load_entrances, load_rules, load_serving, load_toolchains
from vllm_runbooks.catalog.folders import own_catalogs
from vllm_runbooks.catalog.records import Entrance
from vllm_runbooks.catalog.serving import Serving
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.core.errors import InputError

if TYPE_CHECKING:
    from vllm_runbooks.catalog.specs import Specs


def _compile(root: Path) -> tuple[dict[str, Any], list[str]]:
    from vllm_runbooks.catalog.authored import compiling

    return compiling.compile_index(root)


@cache
def load_catalog(own: tuple[str, ...] | None = None) -> Catalog:
    """The catalog with the user's own folders on top (default: those that `VLLM_RUNBOOKS_CATALOG` lists)."""
    return load(_compile, own=own_catalogs() if own is None else own)


def language(lang: str | None = None) -> str | None:
    """The language to tell in: the one given, else that of `VLLM_RUNBOOKS_LANG`; None: English.

    Raises:
        InputError: there is none of that name.
    """
    if lang is None:
        return languages.chosen(os.environ.get(languages.LANG), languages.LANG)
    return languages.chosen(lang)


def in_language(shelf: Catalog, lang: str | None) -> Catalog:
    """The catalog in the language that is asked for."""
    found = language(lang)
    return shelf if found is None or found == shelf.lang else shelf.told_in(found)


def toolchain(version: str | None = None) -> Toolchain:
    """The facts of a toolchain for edge chips: of a version as in `1.1.7`, else of the newest that is known.

    Raises:
        InputError: that version is not known.
    """
    known = load_toolchains(_compile_toolchains)
    if version is None:
        return known[-1]
    wanted = version.strip().removeprefix("v")
    for each in known:
        if wanted in (each.version, each.id):
            return each
    raise InputError(
        f"{version}: this version of the toolchain is not known; known: {', '.join(each.version for each in known)}"
    )


@cache
def rules() -> Rules:
    """The rules that commands are judged by."""
    return load_rules(_compile_rules)


@cache
def serving() -> Serving:
    """The metrics, figures and conditions of running servers."""
    return load_serving(_compile_serving)


@cache
def entrances() -> tuple[Entrance, ...]:
    """What people see, in their words, and where it leads: to runbooks, symptoms and commands."""
    return load_entrances(_compile_entrances)


@cache
def specs() -> Specs:
    """The GPUs and models alone."""
    from vllm_runbooks.catalog import specs as _specs

    return _specs.load(_compile_specs)


def _compile_rules(root: Path) -> tuple[dict[str, Any], list[str]]:
    from vllm_runbooks.catalog.authored import rule_files

    return rule_files.compile_rules(root)


def _compile_serving(root: Path) -> tuple[dict[str, Any], list[str]]:
    from vllm_runbooks.catalog.authored import serving_file

    return serving_file.compile_serving(root)


def _compile_toolchains(root: Path) -> tuple[dict[str, Any], list[str]]:
    from vllm_runbooks.catalog.authored import toolchain_files

    return toolchain_files.compile_toolchains(root)


def _compile_entrances(root: Path) -> tuple[dict[str, Any], list[str]]:
    from vllm_runbooks.catalog.authored import entrances_file

    return entrances_file.compile_entrances(root)


def _compile_specs(root: Path) -> tuple[dict[str, Any], list[str]]:
    from vllm_runbooks.catalog.authored import spec_files

    return spec_files.compile_specs(root)
