"""Durations of phases in recorded launches: the catalog's table equals its cases."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import pytest

import durations
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog.records import PHASES
from vllm_runbooks.serve.durations import FILE

PATH = folders.catalog_dir() / FILE


@pytest.fixture(scope="module")
def table() -> Mapping[str, Mapping[str, float]]:
    found: Mapping[str, Mapping[str, float]] = json.loads(PATH.read_text("utf-8"))
    return found


@pytest.mark.slow
def test_the_table_matches_the_cases() -> None:
    """Each figure follows from a log of the catalog; `python tests/durations.py` writes it."""
    assert PATH.read_text("utf-8") == durations.table()


def test_every_figure_has_an_existing_case(table: Mapping[str, Mapping[str, float]]) -> None:
    """Plausible seconds of a named case; phases in the order of a launch."""
    there = {folder.name for folder in folders.cases_dir().iterdir()}

    assert list(table) == [phase for phase in PHASES if phase in table]
    assert {case for cases in table.values() for case in cases} <= there
    assert all(math.isfinite(seconds) and seconds >= 0 for cases in table.values() for seconds in cases.values())


def test_serving_has_no_usual_duration(table: Mapping[str, Mapping[str, float]]) -> None:
    """The duration of serving says nothing about the next server."""
    assert PHASES[-1] not in table
