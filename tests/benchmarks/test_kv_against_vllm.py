"""Blocks, tokens and concurrency equal vLLM's own planning code, recorded or installed."""

from __future__ import annotations

import os

import pytest

from figures import Figures
from kv_specifications import Answer, Specification, ask, drawn, ours, recorded, same
from rows import in_one_test

_PYTHON = os.environ.get("VLLM_RUNBOOKS_TEST_PYTHON")
_SPECIFICATIONS, _ANSWERS = recorded()


def _differences(
    version: str, specifications: list[Specification], real: list[Answer]
) -> list[tuple[str, Answer, Answer]]:
    """Specifications with a different answer: name, ours, the release's."""
    found = []
    for specification, answer in zip(specifications, real, strict=True):
        if "unknown" in answer:
            continue
        mine = ours(specification, version)
        if not same(mine, answer, specification):
            found.append((specification["kind"], mine, answer))
    return found


def test_two_hundred_specifications_are_recorded_for_twelve_releases() -> None:
    """At least 200 mixes and models, with the results of at least twelve releases."""
    assert (len(_SPECIFICATIONS) >= 200, len(_ANSWERS) >= 12) == (True, True)


@in_one_test("version", sorted(_ANSWERS))
def test_enough_answers_are_plans(version: str) -> None:
    """At least three in ten, so that equal answers are equal numbers."""
    plans = sum("blocks" in answer for answer in _ANSWERS[version])
    assert plans >= 0.3 * len(_SPECIFICATIONS)


@in_one_test("version", sorted(_ANSWERS))
def test_recorded_plans_are_ours(version: str) -> None:
    """Groups, blocks, tokens, concurrency, shortages and errors are exactly the release's."""
    assert _differences(version, _SPECIFICATIONS, _ANSWERS[version]) == []


@pytest.mark.benchmark
def test_every_release_is_met(figures: Figures) -> None:
    """Over all releases together, as a figure."""
    differing = sum(len(_differences(version, _SPECIFICATIONS, real)) for version, real in _ANSWERS.items())
    named = f"({len(_SPECIFICATIONS)} in each of {len(_ANSWERS)} releases)"
    figures.note(f"plan: KV caches that differ from vLLM's own code {named}", differing, at_most=0, form=".0f")


@pytest.mark.slow
def test_an_installed_release_plans_as_we_do() -> None:
    """On new specifications, the vLLM of VLLM_RUNBOOKS_TEST_PYTHON agrees with us."""
    if not _PYTHON:
        pytest.skip("VLLM_RUNBOOKS_TEST_PYTHON names no Python with vLLM")
    specifications = drawn(int.from_bytes(os.urandom(4)))
    version, answers = ask(_PYTHON, specifications)
    assert _differences(version, specifications, answers) == []
