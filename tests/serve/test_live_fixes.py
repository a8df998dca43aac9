"""Fixes applied for real: failures of vLLM on a CPU, each with the first fix of its diagnosis."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fixes
import set_up
from fixes import FixedFailure

LIVE = set_up.place()  # read here: tests have their own cache folder

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not set_up.is_ready(LIVE), reason="vLLM is not set up: python tests/live/set_up.py does it"),
]


def marked(row: FixedFailure) -> object:
    marks = [getattr(pytest.mark, row.ring)]
    if row.unproven is not None:
        marks.append(pytest.mark.xfail(reason=row.unproven))
    return pytest.param(row, id=row.id, marks=marks)


@pytest.mark.parametrize("row", [marked(row) for row in fixes.rows()])
def test_the_server_answers_with_the_first_fix(row: FixedFailure, tmp_path: Path) -> None:
    """The request that failed succeeds, with the expected fix or with the one that its row names instead."""
    proof = fixes.prove(row, tmp_path, live=LIVE)

    assert proof.fails
    assert proof.works, (proof, (tmp_path / "before.log").read_text("utf-8")[-3000:])
    assert proof.is_expected is (row.another is None), proof
    assert row.another is None or re.search(row.another, proof.title or ""), proof
