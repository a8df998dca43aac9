"""Options about the catalog that several commands share."""

from __future__ import annotations

import os
from pathlib import Path

import click

from vllm_runbooks.catalog import complete, folders
from vllm_runbooks.core.console import given
from vllm_runbooks.core.errors import InputError


def _use(context: click.Context, _parameter: click.Parameter, chosen: tuple[str, ...]) -> None:
    if not chosen:
        return
    from vllm_runbooks.catalog import load as catalog

    split = next((folder for folder in chosen if os.pathsep in folder), None)
    if split is not None:
        raise InputError(f"--catalog {split}: contains {os.pathsep!r}, which separates folders; rename it")
    all_folders = (*folders.own_catalogs(), *chosen)
    catalog.load_catalog(all_folders)
    _set_for(context, folders.CATALOGS, os.pathsep.join(str(Path(folder).absolute()) for folder in all_folders))
    catalog.load_catalog.cache_clear()
    context.call_on_close(catalog.load_catalog.cache_clear)


def _set_for(context: click.Context, name: str, value: str) -> None:
    before = os.environ.get(name)
    os.environ[name] = value

    def restore() -> None:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before

    context.call_on_close(restore)


CATALOG = given.value(
    "--catalog DIR",
    "Additional catalog folder (with symptoms/); repeatable.",
    multiple=True,
    expose_value=False,
    callback=_use,
)


def _speak(context: click.Context, _parameter: click.Parameter, lang: str | None) -> None:
    if lang is None:
        return
    from vllm_runbooks.catalog import languages

    languages.chosen(lang, "--lang")
    _set_for(context, languages.LANG, lang)


LANG = given.value(
    "--lang LANG",
    "Language of the output: en or zh (default: VLLM_RUNBOOKS_LANG, else en).",
    complete.LANGUAGE,
    expose_value=False,
    callback=_speak,
)
