"""Tests of the width of memory bands, from launches with printed memory."""

from __future__ import annotations

import pytest

import measured
from vllm_runbooks.plan import costs
from vllm_runbooks.plan.budget import Budget, budget
from vllm_runbooks.plan.terms import GIB, Band


def _planned(gpu: str, gpus: int = 1, **options: object) -> Budget:
    model = measured.model("meta-llama/Llama-3.1-8B-Instruct")
    options |= {"max_model_len": 8192, "tensor_parallel_size": gpus}
    return budget(model, measured.settled(model, "0.19.0", options, gpu), [measured.device(gpu)] * gpus)


def _non_torch(made: Budget) -> tuple[Band, str]:
    term = next(term for term in made.ranks[0].terms if term.name == "non_torch")
    assert term.band is not None
    return term.band, term.source


def test_table_is_what_the_measured_launches_give() -> None:
    """`python tests/measured.py --bands` would write the same widths."""
    for kind in costs.LAUNCH_KINDS:
        offs = [off for off in measured.raw_caches() if off.start.kind == kind]
        assert costs.band_width(kind) == measured.width(offs, kind), kind


def test_band_holds_for_nine_in_ten_launches_of_other_sources() -> None:
    """The width that the other sources give holds for at least 90 % of the launches."""
    offs = measured.left_out()
    assert sum(off.holds for off in offs) >= 0.9 * len(offs)


def test_few_sources_widen_a_band() -> None:
    """One source doubles its error, an unmeasured kind doubles the band, and a width is never less than the terms'."""
    one = next(off for off in measured.raw_caches() if off.start.id == "S1")
    far = one._replace(printed=one.planned - 3 * (one.planned - one.low))
    assert measured.width([far], "draft").factor == pytest.approx(6, abs=0.02)
    assert measured.width([], "draft").factor == 2
    assert measured.width([one], "draft").factor == 1


def test_memory_shared_with_the_host_needs_more_and_is_less_certain() -> None:
    """A GB10 has more non-torch memory and a wider band than another Blackwell GPU; the source says why."""
    (plain, source), (shared, told) = (_non_torch(_planned(gpu)) for gpu in ("RTX PRO 6000", "GB10"))
    assert shared.expected > plain.expected + GIB
    assert shared.high - shared.expected > 2 * (plain.high - plain.expected)
    assert "shared-memory" in told
    assert "shared-memory" not in source


def test_band_is_wider_where_no_launch_was_measured() -> None:
    """Eight GPUs and a draft model add to the band of the same launch; its expected value stays."""
    drafted = _planned("H100-80GB", speculative_config={"method": "ngram", "num_speculative_tokens": 3})
    for made, kind in ((_planned("H100-80GB", 8), "many-gpus"), (drafted, "draft")):
        band, source = _non_torch(made)
        settings = made.settings
        assert kind in source
        term = costs.non_torch(settings).band
        assert term is not None
        assert band.expected == term.expected
        assert band.high > term.high
