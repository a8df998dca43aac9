"""Several launches in one summary, and the steps of their runbook."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vllm_runbooks import render
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.records import Answer, Facts, Outcome, ServerRun
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks import plan_evidence


@pytest.fixture(scope="module")
def case() -> Evidence:
    return sources.load("gpt-oss-gemma-a100-four-starts")


@pytest.fixture(scope="module")
def four(case: Evidence) -> list[ServerRun]:
    return [*diagnosing.read(case)]


@pytest.fixture(scope="module")
def answer(case: Evidence) -> Answer:
    return diagnosing.diagnose(case)


def test_launches_are_side_by_side_in_the_summary(four: list[ServerRun], answer: Answer, case: Evidence) -> None:
    """A row per launch, then the valid comparisons; a column with equal values is left out."""
    lines = render.launches.summary(four, answer, case).plain.splitlines()

    assert lines[0] == "4 LAUNCHES   startup.log · vLLM 0.19.0 · GPU with 79.25 GiB"
    assert "All launches came up. Comparable: weights and KV cache in GiB. Not comparable:" in " ".join(lines)
    (head,) = [line for line in lines if line.lstrip().startswith("launch ")]
    assert head.split("  ")[-1].strip() == "tokens/s"
    assert "state" not in head
    (first,) = [line for line in lines if "1 gpt-oss-20b" in line]
    assert first.split()[-4:] == ["13.72", "36.56", "121", "164.7"]


def test_a_launch_that_failed_is_named(four: list[ServerRun], answer: Answer) -> None:
    """By its number, with the outcome of every launch; figures that were not printed are a dash."""
    failed = replace(four[1], outcome=Outcome.FAILED, facts=replace(four[1].facts, startup_seconds=None))
    text = render.launches.summary([four[0], failed], replace(answer, outcome=Outcome.FAILED)).plain

    assert "Not ready: launch 2." in text
    assert "failed" in next(line for line in text.splitlines() if "2 gemma" in line)
    assert "\u2013" in next(line for line in text.splitlines() if "2 gemma" in line)
    assert "All launches came up" not in text


def test_a_single_launch_is_its_own_answer(four: list[ServerRun]) -> None:
    """There is nothing to compare."""
    served = diagnosing.diagnose(sources.load("tiny-cpu-served"))

    shown = render.launches.summary(four[:1], served)
    assert shown.plain == render.answers.summary(served, runbook="gpt-oss-gemma-a100").plain
    assert render.launches.differences(four[:1]) is None


def test_differences_name_the_settings_and_the_closest_pair(four: list[ServerRun]) -> None:
    """Two launches teach something about a setting only if nothing else differs."""
    step = render.launches.differences(four)

    assert step is not None
    assert step.fact.startswith("The launches differ in 7 engine settings: `enable_chunked_prefill`, `enforce_eager`")
    assert step.fact.endswith(" and 1 more.")
    assert "Launches 2 and 4 come closest" in step.so
    assert step.do.startswith("Launch twice with one setting changed")
    other = replace(four[0], arguments={**four[0].arguments, "max_model_len": 8192})
    pair, same = render.launches.differences([four[0], other]), render.launches.differences([four[0], four[0]])
    assert pair is not None
    assert pair.so == "Launches 1 and 2 differ only in `max_model_len`: a difference between them is its effect."
    assert pair.do == ""
    assert same is not None
    assert same.fact == "The launches differ in 0 engine settings."
    assert "noise" in same.so


def test_the_budget_of_every_launch(four: list[ServerRun], case: Evidence) -> None:
    """The used part per launch; none if a figure is missing."""
    step = render.launches.budget(four, case)

    assert step is not None
    assert "Launch 1: 50.3 of 51.5 GiB (`0.65` of the GPU); launch 2: 70.0 of 71.3 GiB" in step.fact
    assert render.launches.budget(four) is None


def test_the_slowest_startup_has_its_longest_phase(four: list[ServerRun]) -> None:
    """So has the fastest; a load with a download is not comparable."""
    step = render.launches.startup(four)

    assert step is not None
    assert step.fact == (
        "Launch 4 took 379 s until ready; launch 2 took 60 s. Its longest phase: load the weights, 266 s."
    )
    assert step.so.startswith("Not comparable: part of it is the download")
    bare = replace(four[0], facts=replace(four[0].facts, startup_seconds=5.0), timeline=())
    alone = render.launches.startup([bare])
    assert alone is not None
    assert (alone.fact, alone.so) == ("Launch 1 took 5 s until ready.", "")
    assert render.launches.startup([replace(four[0], facts=Facts())]) is None


def test_throughput_is_the_highest_printed_rate(four: list[ServerRun]) -> None:
    """By launch, with why rates do not compare."""
    step = render.launches.throughput(four)

    assert step is not None
    assert step.fact.startswith("Highest printed rates in tokens/s: 164.7 (launch 1), 18.8 (launch 2)")
    assert step.so.startswith("Not comparable: no two launches differ in only one setting")
    assert render.launches.throughput([replace(four[0], facts=Facts())]) is None


def test_the_plan_is_compared_with_printed_figures(four: list[ServerRun], case: Evidence) -> None:
    """The largest deviation counts; a large one means that something else ran."""
    plans = plan_evidence.starts(case)
    step = render.plan_sections.accuracy(four, plans)
    off = [replace(four[0], facts=replace(four[0].facts, kv_cache_gib=30.0)), *four[1:]]
    wrong = render.plan_sections.accuracy(off, plans)

    assert step is not None
    assert "16 figures are within 0.8% of what was printed; the farthest is max concurrency of launch 4" in step.fact
    assert step.so == ""
    assert wrong is not None
    assert "another process used the GPU" in wrong.so
    assert render.plan_sections.accuracy(four, ["unknown"] * 4) is None
