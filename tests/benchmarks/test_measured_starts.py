"""Launches with printed memory, compared with their plans, as figures."""

from __future__ import annotations

import statistics

import pytest

import measured
from figures import Figures

pytestmark = pytest.mark.benchmark


def _within(offs: list[measured.Off], share: float) -> float:
    return sum(abs(off.error) <= share for off in offs) / len(offs)


def test_plans_are_close_to_printed_figures(figures: Figures) -> None:
    """Nine in ten weights are within 1% and caches in their band, 80% of the caches within 5%, tokens within 2%."""
    weights, caches, counts = measured.weights(), measured.caches(), measured.counts()

    figures.note(
        f"plan: weights within 1% of the log ({len(weights)} launches)",
        _within(weights, 0.01),
        at_least=0.9,
        form=".1%",
    )
    figures.note("plan: median error of the weights", statistics.median(abs(off.error) for off in weights), form=".2%")
    figures.note(
        f"plan: KV cache within 5% of the log ({len(caches)} launches)",
        _within(caches, 0.05),
        at_least=0.80,
        form=".1%",
    )
    figures.note("plan: median error of the KV cache", statistics.median(abs(off.error) for off in caches), form=".2%")
    what = f"plan: tokens, blocks or requests within 2%, for the printed KV cache ({len(counts)} figures)"
    figures.note(what, _within(counts, 0.02), at_least=0.98, form=".1%")
    apart = measured.left_out()
    what = f"plan: KV cache inside its band, each source left out ({len(apart)} launches)"
    figures.note(what, sum(off.holds for off in apart) / len(apart), at_least=0.9, form=".1%")
