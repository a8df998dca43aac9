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
    """`python tests/measured.py --bands` would write the same rows."""
    assert {kind: costs.band_width(kind) for kind in costs.LAUNCH_KINDS} == measured.widths(measured.raw_caches())
    assert {name: costs.measured_launches(name) for name in measured.measured_gpus()} == measured.measured_gpus()
    assert costs.measured_launches("A6000") == 0


def test_band_holds_for_nine_in_ten_launches_of_other_sources() -> None:
    """The margin that the other sources give holds for at least 90 % of the launches."""
    offs = measured.left_out()
    assert sum(off.holds for off in offs) >= 0.9 * len(offs)


def test_few_sources_widen_a_band() -> None:
    """Three sources increase their largest error by a third; an unmeasured kind is as uncertain as the worst one."""
    some = [off for off in measured.raw_caches() if off.start.kind == "several-gpus" and off.holds]
    first, *others = list({off.start.origin: off for off in some}.values())[:3]
    far = first._replace(printed=first.low - 0.03 * first.total)
    rows = measured.widths([far, *others])
    assert rows["several-gpus"].margin == pytest.approx(0.04, abs=0.0015)
    assert rows["draft"].margin == rows["several-gpus"].margin
    assert rows["draft"].source == "not measured"


def test_memory_shared_with_the_host_needs_more_and_is_less_certain() -> None:
    """A GB10 has more non-torch memory and a wider band than another Blackwell GPU; the source says why."""
    (plain, source), (shared, told) = (_non_torch(_planned(gpu)) for gpu in ("RTX PRO 6000", "GB10"))
    assert shared.expected > plain.expected + GIB
    assert shared.high - shared.low > plain.high - plain.low + GIB
    assert "shared-memory" in told
    assert "shared-memory" not in source


def test_the_margin_of_a_kind_widens_its_band(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft model's margin adds to the high end of the same launch; its expected value stays."""
    row = costs.BandWidth(shift_gib=0, margin=0.02, source="2 launches")
    monkeypatch.setattr(costs, "band_width", {"draft": row}.__getitem__)
    made = _planned("H100-80GB", speculative_config={"method": "ngram", "num_speculative_tokens": 3})
    band, source = _non_torch(made)
    term = costs.non_torch(made.settings).band
    assert "draft" in source
    assert term is not None
    assert band.expected == term.expected
    assert band.high == term.high + int(0.02 * (measured.device("H100-80GB").total or term).expected)
