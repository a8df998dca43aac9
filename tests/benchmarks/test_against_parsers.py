"""Our verdict on a command equals the release's parser: recorded, or of an installed vLLM."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from operator import mul
from pathlib import Path

import pytest

from command_generator import RECORDED, Command, Judged, all_names, ask, commands, recorded
from figures import Figures
from rows import in_one_test
from vllm_runbooks.catalog import options
from vllm_runbooks.reading.arguments import parse

_SAMPLE = 12
"""Every n-th recorded command is checked by default."""
_WANTED = 0.995
"""Part of the verdicts that must be equal."""
_PYTHON = os.environ.get("VLLM_RUNBOOKS_TEST_PYTHON")


def _release(path: Path) -> str:
    return path.name.removesuffix(".jsonl.xz")


_FILES = sorted(RECORDED.glob("*.jsonl.xz"), key=lambda path: options.version_key(_release(path)) or (0, 0, 0, 0))


def _differences(version: str, judged: Iterable[Judged]) -> tuple[int, Counter[str], Counter[str]]:
    """Number of commands, and by kind those rejected only by us or only by the parser."""
    data = options.load(version)
    count, false, missed = 0, Counter[str](), Counter[str]()
    for each in judged:
        count += 1
        is_refused = parse(each.words, data, each.entry).is_refused
        if is_refused != (each.stage is not None):
            (false if is_refused else missed)[each.kind] += 1
    return count, false, missed


def test_at_least_twelve_releases_are_recorded() -> None:
    """Verdicts of at least twelve releases are there, a thousand each."""
    assert len(_FILES) >= 12


@in_one_test("path", _FILES, ids=_release)
def test_no_sampled_command_is_rejected_only_by_us(path: Path) -> None:
    """We accept what the real parser accepts."""
    sample = list(recorded(path))[::_SAMPLE]
    _, false, missed = _differences(_release(path), sample)
    assert (false, missed.total() <= 2) == (Counter(), True)


@pytest.mark.benchmark
def test_recorded_verdicts_are_ours(figures: Figures) -> None:
    """At most one in two hundred commands of a release differs, and no valid one is rejected."""
    shares, counts, refused = [], [], Counter[str]()
    for path in _FILES:
        count, false, missed = _differences(_release(path), recorded(path))
        shares.append(1 - (false.total() + missed.total()) / count)
        counts.append(count)
        refused += false
    named = f"({sum(counts)} commands, {len(_FILES)} releases)"
    figures.note(
        f"lint: agreement with vLLM's parser {named}",
        sum(map(mul, shares, counts)) / sum(counts),
        at_least=_WANTED,
        form=".2%",
    )
    figures.note(f"lint: agreement in the worst release {named}", min(shares), at_least=_WANTED, form=".2%")
    figures.note(f"lint: valid commands rejected {named}", refused["valid"], at_most=0, form=".0f")


@pytest.mark.slow
def test_an_installed_release_agrees() -> None:
    """On new commands, the vLLM of VLLM_RUNBOOKS_TEST_PYTHON agrees with us."""
    if not _PYTHON:
        pytest.skip("VLLM_RUNBOOKS_TEST_PYTHON names no Python with vLLM")
    version, _ = ask(_PYTHON, [Command("serve", ["m"], "valid")])
    drawn = commands(options.load(version), all_names(), seed=int.from_bytes(os.urandom(4)), count=1000)
    _, judged = ask(_PYTHON, drawn)
    count, false, missed = _differences(version, judged)
    agreed = 1 - (false.total() + missed.total()) / count
    assert (agreed >= _WANTED, false["valid"]) == (True, 0), (agreed, false, missed)
