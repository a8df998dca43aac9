"""Models of the catalog whose configuration was completed from the number of their parameters."""

from __future__ import annotations

import itertools
import re

import pytest

from vllm_runbooks.catalog import load
from vllm_runbooks.plan.budget import subject

_COUNT = re.compile(
    r"parameters (?:add up to the|are (?P<more>[\d,]+) (?P<sign>more|fewer) than the) (?P<count>[\d,]+) that the entry"
)
DERIVED = {file.id: match for file in load.specs().files if (match := _COUNT.search(file.note))}


@pytest.mark.parametrize("name", DERIVED)
def test_a_derived_configuration_has_the_parameters_of_the_hub(name: str) -> None:
    """A note's count is the sum over the modules; the figure may leave out scales, corrections or layers to draft."""
    match = DERIVED[name]
    more = int((match["more"] or "0").replace(",", "")) * (-1 if match["sign"] == "fewer" else 1)
    stock = subject(name, load.specs().file(name).config).stock
    counts = [
        stock.parameters(with_scales=scales, with_corrections=corrections, with_mtp=mtp)
        for scales, corrections, mtp in itertools.product((True, False), repeat=3)
    ]
    assert int(match["count"].replace(",", "")) + more in counts
