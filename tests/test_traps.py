"""The mistakes that the source documents make, by number: each is caught, or named here as not caught yet."""

from __future__ import annotations

import re
from functools import cache

import pytest

from conftest import SHARED
from vllm_runbooks import authoring, catalog, session

BY_SYMPTOM = {
    "2.2": ("qwen-a100-relogged-by-wrapper", "engine.v0_claimed"),
    "3.4": ("gpt-oss-gemma-a100-four-starts", "dist.host_ip_ignored"),
    "3.5": ("gpt-oss-gemma-a100-four-starts", "triton.moe_untuned"),
    "4.3": ("qwen-2x24gb-mp-glued", "dist.one_host"),
}
"""A symptom that says so, and the recorded case in which it does."""
BY_CLAIM = frozenset({"2.2", "2.3", "2.5", "3.1", "3.2", "3.3"})
"""A claim of the document that is judged on the case's own figures."""
NEED_COMMANDS = frozenset(
    {
        "1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.11", "1.12", "1.14", "1.15", "1.16", "1.18",
        "2.1", "2.4", "3.6", "3.7", "3.8", "4.1", "4.2", "4.8", "5.1", "5.9",
    }
)  # fmt: skip
"""What is wrong in a command: not before commands are read and checked."""
NEED_A_PLAN = frozenset({"1.8", "1.9", "1.10", "1.13", "4.5", "4.6", "4.7"})
"""What is wrong in a table of memory: not before there is a planner."""
NEED_A_LIST_OF_GPUS = frozenset({"1.17", "4.4"})
"""What only the other GPUs or nodes show."""
NEED_EDGE10 = frozenset({"5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "5.8", "5.10", "5.11", "5.12", "5.13"})
"""What is wrong in scripts for Edge10 chips."""


@cache
def findings(case: str) -> set[str]:
    """Every symptom found in any start of a case."""
    evidence = session.load(case)
    count = len(session.read(evidence))
    return {f.symptom for n in range(1, count + 1) for f in session.diagnose(evidence, start=n).findings}


@pytest.mark.parametrize("trap", sorted(BY_SYMPTOM))
def test_a_symptom_says_what_the_document_missed(trap: str) -> None:
    """In the recorded log of that document."""
    case, symptom = BY_SYMPTOM[trap]

    assert symptom in findings(case)


def test_claims_judge_the_rest_that_a_log_can_show() -> None:
    """Each by its number in the claims beside the cases."""
    paths = sorted(catalog.cases_dir().glob("*/claims.yaml"))

    assert {claim.trap for path in paths for claim in authoring.read_claims(path).claims if claim.trap} == BY_CLAIM


def test_every_trap_is_caught_or_named_as_not_caught_yet() -> None:
    """None is forgotten, and none that is caught is still listed as open."""
    if not (SHARED / "seeds").is_dir():
        pytest.skip("the source documents are not at hand")
    told = (SHARED / "seeds" / "README.md").read_text("utf-8")
    numbers = set(re.findall(r"(?:^  - |[.;] )([1-5]\.\d{1,2})[: ]", told, re.MULTILINE))
    open_ones = NEED_COMMANDS | NEED_A_PLAN | NEED_A_LIST_OF_GPUS | NEED_EDGE10

    assert numbers == BY_SYMPTOM.keys() | BY_CLAIM | open_ones
    assert not open_ones & (BY_SYMPTOM.keys() | BY_CLAIM)
