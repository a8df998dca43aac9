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


def test_launches_that_decided_nothing_are_compared_as_well(figures: Figures) -> None:
    """They were written down before they were planned; without a limit, so that no term is fitted to them."""
    every = measured.starts("unseen_starts.yaml")
    starts = [start for start in every if start.is_planned]
    figures.note(
        f"plan: KV cache planned, without the Hub ({len(every)} unseen launches)", len(starts) / len(every), form=".1%"
    )
    weights = [off for start in starts for off in measured.offs(start, "weights_gib", start.weights)]
    caches = [off for start in starts for off in measured.offs(start, "kv_gib", start.cache)]

    figures.note(
        f"plan: weights within 1% of the log ({len(weights)} unseen launches)", _within(weights, 0.01), form=".1%"
    )
    figures.note(
        f"plan: KV cache within 5% of the log ({len(caches)} unseen launches)", _within(caches, 0.05), form=".1%"
    )
    share = sum(off.holds for off in caches) / len(caches)
    figures.note(f"plan: KV cache inside its band ({len(caches)} unseen launches)", share, form=".1%")
    assert weights
    assert caches
