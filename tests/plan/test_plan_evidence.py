"""Recorded questions and launches of logs are planned, or a reason replaces the plan."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import vllm_runbooks as rb
from vllm_runbooks import render
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.core.views import elements
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.plan.records import Layouts, Plan
from vllm_runbooks.plan.requests import PlanningRequest
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks import plan_evidence

QUESTION = "plan-autoglm-8x3090"
FOUR_STARTS = "gpt-oss-gemma-a100-four-starts"
VIDEO = "autoglm-3090-video-oom"


@cache
def recorded() -> tuple[Evidence, PlanningRequest, Layouts]:
    """The question of the field notes on eight RTX 3090, and its layouts."""
    case = sources.load(QUESTION)
    asked = plan_evidence.question(case)
    found = plan_evidence.layouts(asked)
    assert isinstance(found, Layouts)
    return case, asked, found


@cache
def failed() -> tuple[Evidence, PlanningRequest]:
    """The launch that ran out of memory over a video, as a question."""
    case = sources.load(VIDEO)
    asked = plan_evidence.start(case)
    assert isinstance(asked, PlanningRequest)
    return case, asked


def planned(asked: PlanningRequest | str) -> Plan:
    found = plan_evidence.planned(asked)
    assert isinstance(found, Plan), found
    return found


# ---- questions


def test_given_values_replace_those_of_the_question() -> None:
    """Only given values change; another model drops the question's options and release."""
    case, asked, _ = recorded()
    shorter = plan_evidence.question(case, max_model_len=8192, options='{"max_num_seqs": 16, "enforce_eager": true}')
    other = plan_evidence.question(case, model="Qwen/Qwen2.5-7B-Instruct", gpus="2xRTX3090", vllm="0.11.0")

    assert (asked.model.name, len(asked.cards), asked.release.version) == ("zai-org/AutoGLM-Phone-9B", 8, "0.16.0")
    assert shorter.options == {
        "max_model_len": 8192,
        "limit_mm_per_prompt": {"image": 10, "video": 0},
        "max_num_seqs": 16,
        "enforce_eager": True,
    }
    assert shorter.cards == asked.cards
    assert (other.model.name, len(other.cards), other.release.version, other.options) == (
        "Qwen/Qwen2.5-7B-Instruct",
        2,
        "0.11.0",
        {},
    )


def test_options_of_other_types_reach_the_parser() -> None:
    """A switch that is off, an object, a number: each in the form that the release's parser takes."""
    case, _, _ = recorded()
    told = '{"enable-prefix-caching": false, "limit_mm_per_prompt": {"image": 2}, "gpu_memory_utilization": 0.8}'

    assert plan_evidence.question(case, options=told).options == {
        "max_model_len": 25480,
        "enable_prefix_caching": False,
        "limit_mm_per_prompt": {"image": 2},
        "gpu_memory_utilization": 0.8,
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"options": "[1]"}, "options: is not a JSON object"),
        ({"options": "{"}, "options: is not a JSON object"),
        ({"options": '{"no_such_option": 1}'}, "no-such-option"),
        ({"model": "nobody/nothing-1B"}, "nobody/nothing-1B: unknown model"),
        ({"gpus": "8xNOCARD"}, "NOCARD"),
        ({"vllm": "twelve"}, "twelve"),
    ],
)
def test_an_invalid_question_is_rejected(given: dict[str, Any], said: str) -> None:
    """The one-line error names what to write."""
    case, _, _ = recorded()

    with pytest.raises(InputError, match=re.escape(said)):
        plan_evidence.question(case, **given)


def test_without_a_recorded_question_model_and_gpus_are_required() -> None:
    """If both are given, the evidence is not needed; otherwise the error says so."""
    log = sources.load("tiny-cpu-served")

    with pytest.raises(InputError, match="set model and gpus"):
        plan_evidence.question(log, model="Qwen/Qwen2.5-7B-Instruct")
    assert len(plan_evidence.question(log, model="Qwen/Qwen2.5-7B-Instruct", gpus="3xH100-80GB").cards) == 3


# ---- results of a question


def test_the_recorded_question_has_the_expected_answer() -> None:
    """One GPU is too small, four servers of two GPUs fit; only this question has expectations."""
    case, asked, found = recorded()
    fewer = replace(asked, cards=asked.cards[:2])
    of_two = plan_evidence.layouts(fewer)

    assert planned(plan_evidence.on_cards(asked, 1)).fits is False
    best = plan_evidence.best(found)
    assert isinstance(best, Plan)
    assert best.layout is not None
    assert (best.layout.replicas, best.layout.tp) == (4, 2)
    assert plan_evidence.verdict(asked, found, case).reason.startswith("as expected")
    assert plan_evidence.verdict(asked, found, case).case == QUESTION
    assert plan_evidence.verdict(fewer, of_two, case).case is None
    assert plan_evidence.verdict(fewer, of_two, case).verdict is Verdict.PASS
    assert plan_evidence.verdict(asked, "no card", case).verdict is Verdict.FAIL


def test_the_best_layout_becomes_files(tmp_path: Path) -> None:
    """Script, services and proxy are shown, and written only on request without overwriting."""
    _, asked, found = recorded()
    files = plan_evidence.deployed(asked, found)
    folder = tmp_path / "out"

    assert {"start.sh", "compose.yaml", "nginx.conf", "systemd/vllm-8003.service"} <= set(files)
    assert "No files written" in str(plan_evidence.write(asked, found, str(folder), apply=False))
    assert not folder.exists()
    assert "start.sh" in str(plan_evidence.write(asked, found, str(folder), apply=True))
    assert (folder / "nginx.conf").read_text(encoding="utf-8") == files["nginx.conf"]
    with pytest.raises(InputError, match="already exists"):
        plan_evidence.write(asked, found, str(folder), apply=True)
    with pytest.raises(InputError, match="folder is empty"):
        plan_evidence.write(asked, found, " ", apply=True)


def test_without_a_fitting_layout_nothing_is_written(tmp_path: Path) -> None:
    """A 31B model on two small GPUs: no files, nothing to verify, and the reason elsewhere."""
    case, _, _ = recorded()
    asked = plan_evidence.question(case, model="google/gemma-4-31B-it", gpus="2xRTX3090")
    found = plan_evidence.layouts(asked)

    assert plan_evidence.best(found) == "no layout fits: nothing to deploy"
    assert plan_evidence.deployed(asked, found) == {}
    assert plan_evidence.confirmations(asked, found) == {}
    assert "no layout fits" in str(plan_evidence.write(asked, found, str(tmp_path), apply=True))
    assert list(tmp_path.iterdir()) == []
    assert plan_evidence.verdict(asked, found, case).verdict is Verdict.FAIL
    assert str(render.plan_sections.memory(plan_evidence.best(found))).startswith("not planned: no layout fits")
    assert str(render.plan_sections.confirmations({})).startswith("not planned: no layout fits")
    assert "one server" in str(render.plan_sections.files({}, "nginx.conf"))


def test_a_model_that_fits_at_a_shorter_context_is_amber_everywhere() -> None:
    """The evidence of a runbook has the state of its card, and the memory of the change that it runs."""
    case, _, _ = recorded()
    asked = plan_evidence.question(case, model="meta-llama/Llama-3.3-70B-Instruct", gpus="4xL40S")
    found = plan_evidence.layouts(asked)
    changes = plan_evidence.remedies(asked, found)
    (context,) = re.findall(r"^FITS AT ([\d,]+)", str(render.plan_sections.summary(found, changes)))

    for shown in (
        render.plan_sections.ranking(found, changes),
        render.plan_sections.memory(plan_evidence.best(found), changes),
    ):
        assert shown.plain.startswith(f"fits at {context} with ")
        assert f"background:{elements.AMBER}" in shown.html
        assert f"background:{elements.RED}" not in shown.html


# ---- launches of logs


def test_the_launches_of_the_field_notes_match_their_plans() -> None:
    """Weights, cache, tokens and requests of all four are within 2% of the plans."""
    case = sources.load(FOUR_STARTS)
    said = str(render.plan_sections.compared(diagnosing.read(case), plan_evidence.starts(case)))
    off = [abs(float(share)) for share in re.findall(r"([+-]?[\d.]+)%$", said, re.MULTILINE)]

    assert said.startswith("planned: 16 printed figures")
    assert len(off) == 16
    assert max(off) < 2.0
    for printed in ("13.72", "36.56", "798,624", "11.99", "106,800", "15.18", "1.23"):
        assert printed in said


def test_the_failed_allocation_is_reproduced() -> None:
    """The log has 698.00 MiB for a video and 22.08 GiB before; the plan has both within 1%.

    The page shows the verdict in green if the plan has the step, else in amber.
    """
    case, asked = failed()
    answer = rb.diagnose(case)
    cause = answer.root_cause
    assert cause is not None
    made = plan_evidence.budget(asked)
    shown = render.plan_sections.encoder(made, answer)
    said = str(shown)

    assert said.startswith("reproduced: 698.00 MiB, SiluAndMul's output in a layer of the encoder")
    assert re.search(r"tokens of the encoder's cache +18605 +18605", said)
    assert re.search(r"allocation that failed, MiB +698\.00 +698\.00", said)
    before = re.search(r"allocated before it, GiB +([\d.]+) +22\.08", said)
    assert before is not None
    assert float(before[1]) == pytest.approx(22.08, rel=0.01)
    assert re.search(r"SiluAndMul's output +698\.00 +[\d.]+  failed", said)
    other_cause = replace(cause, captures={**cause.captures, "tried_mib": "12.00"})
    other = render.plan_sections.encoder(made, replace(answer, root_cause=other_cause))
    assert str(other).startswith("planned: 1 video; the log names no step of it")
    assert ["#1a7f37" in each.html for each in (shown, other)] == [True, False]
    assert ["#9a6700" in each.html for each in (shown, other)] == [False, True]


def test_a_fitting_change_is_named() -> None:
    """On one GPU without videos and with more memory, or on two GPUs as one server."""
    _, asked = failed()
    ways = plan_evidence.ways_out(asked)
    two = plan_evidence.layouts(asked, 2)

    assert not isinstance(ways, str)
    assert {"limit_mm_per_prompt", "gpu_memory_utilization"} in [set(way.changes) for way in ways]
    assert '"video": 0' in str(render.plan_sections.ways_out(ways))
    assert isinstance(two, Layouts)
    best = plan_evidence.best(two)
    assert isinstance(best, Plan)
    assert best.layout is not None
    assert (best.layout.replicas, best.layout.tp) == (1, 2)


def test_a_log_without_its_gpu_is_planned_from_the_printed_memory() -> None:
    """Only the memory is assumed for an unnamed GPU; a wrong name is rejected."""
    case, _ = failed()
    bare = replace(case, case=None)

    asked = plan_evidence.start(bare)
    assert isinstance(asked, PlanningRequest)
    assert planned(asked).gpus[0].name == "the log's GPU"
    assert planned(asked).gpus[0].total_gib == 23.56
    assert isinstance(plan_evidence.layouts(asked, 2), Layouts)
    wrong = plan_evidence.start(bare, gpus="A100-80GB")
    assert wrong == "the log's GPU has 23.56 GiB, A100-80GB has 79.25; name the right one"


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (Evidence(()), "the log has no vLLM launch"),
        ("no-command", "the log does not name the model"),
        ("no-card", "unknown GPU"),
    ],
)
def test_a_missing_fact_replaces_the_plan(evidence: Evidence | str, said: str) -> None:
    """In the same words in every view, and without failing a step of a runbook."""
    if evidence == "no-command":
        evidence = replace(sources.load(VIDEO), command=None)
    elif evidence == "no-card":
        evidence = replace(sources.load(FOUR_STARTS), case=None)
    assert isinstance(evidence, Evidence)
    asked = plan_evidence.start(evidence)

    assert isinstance(asked, str)
    assert said in asked
    views = [
        render.plan_sections.memory(plan_evidence.planned(asked)),
        render.plan_sections.encoder(plan_evidence.budget(asked), rb.diagnose(sources.load(VIDEO))),
        render.plan_sections.ways_out(plan_evidence.ways_out(asked)),
        render.plan_sections.ranking(plan_evidence.layouts(asked, 2)),
    ]
    assert [" ".join(str(view).split()).startswith(f"not planned: {asked[:40]}") for view in views] == [True] * 4


def test_one_of_several_launches_can_be_chosen() -> None:
    """By its number, from 1; the last by default."""
    case = sources.load(FOUR_STARTS)

    assert planned(plan_evidence.start(case, number=1)).model == "openai/gpt-oss-20b"
    assert planned(plan_evidence.start(case)).model == "google/gemma-4-31B-it"
    with pytest.raises(InputError):
        plan_evidence.start(case, number=9)


# ---- the steps of the runbook


def test_the_summary_of_layouts_equals_the_command_lines() -> None:
    """Without the option that writes files, which is a separate step."""
    _, asked, found = recorded()
    text = str(render.plan_sections.summary(found, plan_evidence.remedies(asked, found)))

    assert text.startswith("FITS     AutoGLM-Phone-9B · 8\u00d7 RTX3090 · vLLM 0.16.0 · context 25,480\n")
    assert "80 concurrent requests of" in " ".join(text.split())
    assert "--tensor-parallel-size 2" in text
    assert "--deploy" not in text
    assert str(render.plan_sections.summary("no model")).startswith("NOT PLANNED")
    assert plan_evidence.remedies(asked, "no model") == ()


def test_changes_are_in_the_summary_of_a_plan_that_does_not_fit() -> None:
    """One GPU is too small for a single request; the summary proposes the change."""
    _, asked, _ = recorded()
    one = plan_evidence.on_cards(asked, 1)
    found = plan_evidence.layouts(one)

    text = str(render.plan_sections.summary(found, plan_evidence.remedies(one, found)))
    assert text.startswith("DOES NOT FIT")
    assert "--max-model-len" in text


def test_one_gpu_has_facts_and_consequences() -> None:
    """Memory beyond the weights, memory of a request, and whether to split."""
    _, asked, _ = recorded()
    step = render.plan_sections.on_one_gpu(plan_evidence.planned(plan_evidence.on_cards(asked, 1)))
    short = replace(plan_evidence.on_cards(asked, 1), options={"max_model_len": 2048})
    fits = render.plan_sections.on_one_gpu(plan_evidence.planned(short))

    assert step is not None
    assert step.fact == (
        "The weights need 19.2 GiB, one RTX3090 has 23.7 GiB; 0.49 GiB is left for the KV cache, and one request of "
        "25,480 tokens needs 0.97 GiB."
    )
    assert step.so == "One GPU is not enough: the model has to be split across several."
    assert fits is not None
    assert fits.so == "One GPU is enough: more GPUs can run replicas, which send each other nothing."
    assert render.plan_sections.on_one_gpu("no model") is None


def test_the_choice_names_the_next_layout_with_its_price() -> None:
    """The recommended one has its concurrency, the next one its gain and cost."""
    _, asked, found = recorded()
    step = render.plan_sections.choice(found)
    nothing = render.plan_sections.choice(plan_evidence.layouts(plan_evidence.on_cards(asked, 1)))

    assert step is not None
    assert step.fact == "4 \u00d7 TP 2 ranks first of 20 valid layouts, with 80 concurrent requests of 25,480 tokens."
    assert step.so == (
        "Next is 2 \u00d7 TP 2 PP 2: it fits 1.4 times the requests of 4 \u00d7 TP 2, but each request passes "
        "through more stages in sequence."
    )
    assert nothing is not None
    assert nothing.fact.startswith(
        "None of 1 valid layout fits 25,480 tokens. Closest: One request of 25,480 tokens needs 0.97 GiB"
    )
    assert render.plan_sections.choice("no model") is None


def test_the_deployment_describes_its_servers() -> None:
    """Servers, ports and proxy, and the command that runs them."""
    _, asked, found = recorded()
    step = render.plan_sections.deployment(plan_evidence.deployed(asked, found), "my servers")
    alone = render.plan_sections.deployment({"systemd/vllm-8000.service": ""}, "deployment")

    assert step is not None
    assert step.fact == (
        "4 servers on ports 8000 to 8003; nginx sends each request to the server with the fewest in flight."
    )
    assert step.command == "bash 'my servers/start.sh'"
    assert alone is not None
    assert alone.fact == "1 server on port 8000."
    assert render.plan_sections.deployment({}, "deployment") is None


def test_the_lines_to_expect_have_their_planned_figures() -> None:
    """And the command that shows each GPU's memory."""
    _, asked, found = recorded()
    step = render.plan_sections.expected_lines(plan_evidence.confirmations(asked, found))

    assert step is not None
    assert step.fact.startswith("Each server has to print `Model loading took` 9.70 GiB (9.63 to 9.73); ")
    assert step.command.startswith("nvidia-smi --id=0,1 --query-gpu=")
    assert render.plan_sections.expected_lines({}) is None


def test_the_recommended_layout_is_marked_in_the_ranking() -> None:
    """With a word, not by color alone; a column in which all layouts are alike is left out."""
    _, _, found = recorded()
    fitting = replace(found, layouts=tuple(plan for plan in found.layouts if plan.fits))

    html = render.plan_sections.ranking(fitting).html
    assert re.search(r"<b>4 \u00d7 TP 2</b> <span [^>]*>recommended</span>", html)
    assert html.count(">recommended</span>") == 1
    assert ">fits</th>" not in html
    assert ">fits</th>" in render.plan_sections.ranking(found).html
