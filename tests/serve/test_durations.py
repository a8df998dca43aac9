"""How long phases took in the recorded starts: the catalog's table says what its cases say, and no more."""

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
def test_the_table_is_what_the_cases_say() -> None:
    """Each figure follows from a log of the catalog, as it is read today; `python tests/durations.py` writes it."""
    assert PATH.read_text("utf-8") == durations.table()


def test_every_figure_is_of_a_case_that_is_there(table: Mapping[str, Mapping[str, float]]) -> None:
    """Seconds that a clock can show, of a case by its name; phases in the order in which starts pass them."""
    there = {folder.name for folder in folders.cases_dir().iterdir()}

    assert list(table) == [phase for phase in PHASES if phase in table]
    assert {case for cases in table.values() for case in cases} <= there
    assert all(math.isfinite(seconds) and seconds >= 0 for cases in table.values() for seconds in cases.values())


def test_serving_has_no_usual_duration(table: Mapping[str, Mapping[str, float]]) -> None:
    """How long a server served before it was ended says nothing about the next one."""
    assert PHASES[-1] not in table
