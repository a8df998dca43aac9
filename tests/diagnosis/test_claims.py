"""A document's claims are evaluated: right, wrong, or unknown if the record lacks a fact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rows import in_one_test
from vllm_runbooks import render
from vllm_runbooks.authoring import checks as authoring
from vllm_runbooks.catalog import folders, sites
from vllm_runbooks.core import comparison
from vllm_runbooks.core.errors import CatalogError, InputError
from vllm_runbooks.core.evidence import (
    BestLayout,
    Case,
    Claim,
    ClaimInput,
    Claims,
    Credit,
    Document,
    Evidence,
    Expectation,
    GpuReference,
    LineReference,
    PlanQuestion,
)
from vllm_runbooks.core.records import (
    CheckedClaim,
    Facts,
    Outcome,
    PrintedFigure,
    Process,
    Quote,
    Release,
    ServerRun,
    Throughput,
    Truth,
    Verdict,
)
from vllm_runbooks.diagnosis import claims, diagnosing
from vllm_runbooks.diagnosis import expected as diagnosis_expected
from vllm_runbooks.diagnosis.claims import expressions
from vllm_runbooks.plan import expected as plan_expected
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.records import Layouts, Plan
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks import case_files, claims_file

CASES = sorted(path.parent.name for path in (folders.catalog_dir() / "cases").glob("*/claims.yaml"))


def lookup(**known: Any) -> Callable[[str, int | str | None], Any]:
    return lambda name, number: known.get(name if number is None else f"{name}{number}")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0.5 * total + 1", 41.0),
        ("-total / 8 - 1", -11.0),
        ("0 < total <= 80 and total != 3", True),
        ("0 < total <= 70 or word == 'fp8'", True),
        ("not eager", False),
        ("abs(start2.total - total) >= 10", True),
        ("known(nothing) or known(total / 2)", True),
        ("known(start7.total)", False),
        ("total > 90 and nothing > 1", False),
    ],
)
def test_expressions_are_evaluated(expression: str, value: Any) -> None:
    """Arithmetic, chained comparisons, short-circuit logic, and names of the launches."""
    names = lookup(total=80.0, total2=60.0, word="fp8", eager=True)

    assert expressions.faults(expression) == []
    assert expressions.compute(expression, names) == value


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("nothing + 1", "nothing is not in this log"),
        ("start3.total", "total of start3 is not in this log"),
        ("total / 0", "total / 0 cannot be computed from this log"),
        ("word < total", "word < total cannot be computed from this log"),
        ("word < 'a' + total", "cannot be computed"),
        ("abs(word)", "cannot be computed"),
        ("1e308 * 1e308 // 2", "cannot be computed"),
    ],
)
def test_an_unknown_value_is_reported(expression: str, said: str) -> None:
    """A missing name is named; words and numbers are not mixed."""
    with pytest.raises(LookupError, match=r"not in this log|cannot be computed") as caught:
        expressions.compute(expression, lookup(total=80.0, word="fp8"))

    assert said in str(caught.value)


@in_one_test(
    "expression",
    [
        "__import__('os').system('true')", "total.real", "startx.total", "[1][0]", "(lambda: 1)()", "2 ** 9999",
        "f'{x}'", "known()", "abs(1, 2)", "abs(x=1)", "print(1)", "total if total else 1", "b'x'", "x := 1", "...",
        "1j", "total is 1", "~total", "total @ total", "total in 'x'", "start1.a.b",
    ],
)  # fmt: skip
def test_only_arithmetic_is_evaluated(expression: str) -> None:
    """No calls, powers or foreign attributes: an authored file cannot run code."""
    (fault,) = expressions.faults(expression)

    assert fault.startswith(("contains", "is not an expression"))
    with pytest.raises(LookupError):
        expressions.compute(expression, lookup(total=1))


def test_an_expression_has_a_maximum_length() -> None:
    """Longer ones must be split."""
    assert expressions.faults("1 + " * 200 + "1") == [
        "is longer than 300 characters; compute a part of it under figures"
    ]


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=120) | st.text("()+-*/.<>= andornotstart123'\"xy", max_size=120))
def test_any_text_is_evaluated_without_a_crash(text: str) -> None:
    """It is an expression, or it is named as none."""
    if not expressions.faults(text):
        try:
            expressions.compute(text, lookup(x=1.0, y="z"))
        except LookupError:
            return


def start(**more: Any) -> ServerRun:
    values: dict[str, Any] = dict.fromkeys(
        ("processes", "timeline", "readings", "throughput", "minutes", "warnings", "tracebacks", "hits", "ranks"), ()
    )
    values |= {
        "file": 0, "first_line": 1, "last_line": 9, "outcome": Outcome.RUNNING, "outcome_quote": None,
        "release": Release(), "command": None,
        "arguments": {}, "facts": Facts(),
    }  # fmt: skip
    return ServerRun(**values | more)


def reading(name: str, value: float) -> PrintedFigure:
    return PrintedFigure(name, value, "s", None, Process(None), Quote(0, 1, 1, "x"))


def claim(**more: Any) -> Claim:
    values: dict[str, Any] = {
        "id": "mine", "says": "It fits.", "verdict": Truth.RIGHT, "right_if": "weights_gib < 20",
        "because": ["It takes {weights_gib}.", "It had {nothing_gib}."],
    }  # fmt: skip
    return Claim(**values | more)


def judged(*starts: ServerRun, **more: Any) -> CheckedClaim:
    known, text = more.pop("known", []), more.pop("text", "a log")
    evidence = Evidence((Document("a.log", text),))
    found = diagnosing.diagnose(sources.paste("words"))
    (result,) = claims.check(Claims("d", [claim(**more)], known), found, starts, evidence)
    return result


def test_a_verdict_follows_the_record() -> None:
    """One claim is right for one launch, wrong for another, and unknown without the figure."""
    small, large = start(facts=Facts(weights_gib=13.72)), start(facts=Facts(weights_gib=48.5))

    assert [judged(s).verdict for s in (small, large, start())] == [Truth.RIGHT, Truth.WRONG, Truth.UNKNOWN]
    assert judged(start()).undecided == "weights_gib is not in this log"
    assert judged().verdict is Truth.UNKNOWN
    assert judged(small).because == "It takes 13.72 GiB."
    assert judged(small, large, right_if="start1.weights_gib < start2.weights_gib").verdict is Truth.RIGHT


def test_names_are_looked_up_in_order() -> None:
    """Figures, inputs, facts, settings, printed values; the largest of several."""
    one = start(
        facts=Facts(max_model_len=128),
        arguments={"max_model_len": 1, "enforce_eager": True},
        readings=(reading("download_seconds", 3.0), reading("download_seconds", 58.5)),
    )
    more = {
        "right_if": "share == 1 and enforce_eager and download_seconds > 58",
        "figures": {"share": "max_model_len / given_tokens", "lost_gib": "nothing"},
        "because": ["{share} and {given_tokens}"],
    }

    result = judged(one, known=[ClaimInput("given_tokens", 128, "us")], **more)
    assert (result.verdict, result.figures, result.because) == (Truth.RIGHT, {"share": "1"}, "1 and 128")


def test_a_capture_of_the_root_cause_is_a_number() -> None:
    """As printed, with its commas; a word stays a word."""
    evidence = sources.load("autoglm-3090-video-oom")
    said = claim(right_if="tried_mib == 698 and modality == 'video'", because=["{tried}"])
    (result,) = claims.check(Claims("d", [said]), diagnosing.diagnose(evidence), diagnosing.read(evidence), evidence)

    assert (result.verdict, result.because) == (Truth.RIGHT, "698.00 MiB")


def test_a_precondition_decides_whether_a_verdict_is_possible() -> None:
    """Without it the verdict is unknown."""
    blocks, nothing = start(facts=Facts(kv_cache_blocks=9)), start()
    more = {"only_if": "known(kv_cache_blocks)", "right_if": "1 == 1"}

    assert judged(blocks, **more).verdict is Truth.RIGHT
    assert judged(nothing, **more).undecided == "the log does not contain the deciding figures"


def test_one_choice_that_makes_it_right_is_enough() -> None:
    """Every value that the document offers is tried."""
    more = {"at": {"gpu_memory_utilization": [0.9, 0.5]}}

    assert judged(start(), right_if="gpu_memory_utilization < 0.6", **more).verdict is Truth.RIGHT
    assert judged(start(), right_if="gpu_memory_utilization < 0.4", **more).verdict is Truth.WRONG
    assert judged(start(), right_if="gpu_memory_utilization < lost", **more).verdict is Truth.UNKNOWN


def test_an_effect_is_attributed_only_if_nothing_else_differs() -> None:
    """Two different settings prove nothing about one; options of the API server do not count."""
    plain = start(arguments={"port": 1, "dtype": "a", "x": 1})
    fp8 = start(arguments={"port": 2, "dtype": "a", "quantization": "fp8"})
    more: dict[str, Any] = {"right_if": "1 == 1", "credit": Credit("quantization", [1, 2])}

    result = judged(plain, fp8, **more)
    assert (result.verdict, result.undecided) == (Truth.UNKNOWN, "launches 1 and 2 differ in x as well")
    more["credit"] = Credit("quantization", [1, 2], ["x"])
    assert judged(plain, fp8, **more).verdict is Truth.RIGHT
    assert judged(plain, start(), **more).undecided == "launches 1 and 2 are not in this log"
    assert judged(plain, **more).undecided == "launches 1 and 2 are not in this log"


def test_lines_are_quoted_by_their_words() -> None:
    """The first line with them, without secrets; missing words are skipped."""
    text = "one\nHF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345 weights \x1b[31m13.72\nweights again"
    result = judged(start(), text=text, quotes=["weights", "nowhere"])

    assert [(q.line, q.text) for q in result.quotes] == [(2, "weights 13.72")]


@pytest.mark.parametrize("name", CASES)
def test_the_claims_of_a_case_have_their_recorded_verdicts(name: str) -> None:
    """Each has its verdict, a reason, and a quote or the other source."""
    evidence = sources.load(name)
    results = diagnosing.check_claims(evidence)

    assert [(c.id, c.verdict) for c in results] == [(c.id, c.expected) for c in results]
    assert [c.id for c in results if not c.because] == []
    assert [c.id for c in results if not c.quotes and not c.basis] == []
    if evidence.documents:
        assert diagnosing.verdict(diagnosing.diagnose(evidence), evidence).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("name", "claim_id", "trap", "verdict", "number"),
    [
        ("qwen-a100-relogged-by-wrapper", "the-run-that-worked-was-v0", "2.2", Truth.WRONG, "1,721,888"),
        ("qwen-a100-shared-gpu-race", "lower-utilization-cures", "2.3", Truth.WRONG, "0.45"),
        ("qwen-a100-shared-gpu-race", "the-ladder-fits", "2.5", Truth.WRONG, "53.49"),
        ("gpt-oss-gemma-a100-four-starts", "the-published-command-made-the-log", "3.1", Truth.WRONG, None),
        ("gpt-oss-gemma-a100-four-starts", "fp8-made-it-faster", "3.2", Truth.UNKNOWN, "4.29"),
        ("gpt-oss-gemma-a100-four-starts", "cache-tokens-measure-requests", "3.3", Truth.WRONG, "0.72"),
        ("plan-autoglm-8x3090", "a-whole-encoder-on-each-card-is-free", "1.13", Truth.WRONG, None),
        ("plan-autoglm-8x3090", "two-a100-of-48-gb", "1.9", Truth.WRONG, "no"),
        ("plan-autoglm-8x3090", "the-log-shows-the-split", "1.10", Truth.WRONG, "no"),
        ("plan-autoglm-8x3090", "fp8-cache-halves-the-memory", "1.11", Truth.WRONG, "8.6"),
        ("qwen-2x24gb-mp-glued", "the-weaker-card-decides", "4.5", Truth.RIGHT, None),
        ("qwen-2x24gb-mp-glued", "tensor-parallel-over-two-nodes", "4.6", Truth.WRONG, "56"),
        ("qwen-2x24gb-mp-glued", "cards-are-a-multiple-of-the-split", "4.7", Truth.WRONG, "2"),
    ],
)
def test_known_mistakes_of_the_documents_are_caught(
    name: str, claim_id: str, trap: str, verdict: Truth, number: str | None
) -> None:
    """Each by its number in the list of traps, with the figure that shows it."""
    evidence = sources.load(name)
    authored = evidence.case.claims if evidence.case else None
    result = next(c for c in diagnosing.check_claims(evidence) if c.id == claim_id)

    assert authored is not None
    assert next(c.trap for c in authored.claims if c.id == claim_id) == trap
    assert result.verdict is verdict
    assert number is None or number in result.figures.values()


def test_claims_are_evaluated_on_the_record() -> None:
    """With other figures in the log the verdicts are reversed."""
    evidence = sources.load("qwen-a100-shared-gpu-race")
    calm = evidence.documents[0].text.replace("41.640380859375", "38.5").replace("41.19354248046875", "78.0")
    changed = replace(evidence, documents=(Document("startup.log", calm),))
    verdicts = {c.id: c.verdict for c in diagnosing.check_claims(changed)}

    assert verdicts == {
        "memory-was-released-while-profiling": Truth.WRONG,
        "lower-utilization-cures": Truth.RIGHT,
        "the-ladder-fits": Truth.RIGHT,
    }
    four = sources.load("gpt-oss-gemma-a100-four-starts")
    lost = four.documents[0].text.replace("GPU KV cache size", "cache")
    results = diagnosing.check_claims(replace(four, documents=(Document("startup.log", lost),)))
    assert next(c for c in results if c.id == "cache-tokens-measure-requests").verdict is Truth.UNKNOWN


def test_a_case_fails_if_a_claim_has_another_verdict() -> None:
    """The failure names claim, expectation and result, and claims without a verdict."""
    case = Case("mine", "t", "s", ["a.log"], Expectation(claims=["a", "b", "c"]))
    result = judged(start(facts=Facts(weights_gib=48.5)))
    found = diagnosing.diagnose(sources.paste("words"))
    verdict = diagnosis_expected.verdict(
        found, case, [replace(result, id="a"), replace(result, id="c", expected=Truth.WRONG)]
    )

    assert verdict.verdict is Verdict.FAIL
    assert verdict.reason == "claim a: expected right, got wrong; claim b: expected, not checked"


def test_your_own_log_has_no_claims() -> None:
    """They belong to the recorded case, and the runbook says so."""
    assert diagnosing.check_claims(sources.paste("words")) == ()
    assert render.claims.table(()).plain.startswith("No claims to check")


def test_claims_show_verdict_number_reason_and_line() -> None:
    """In text and HTML alike; nothing of a log is markup."""
    hostile = CheckedClaim(
        "mine", "It <b>fits</b>", Truth.RIGHT, Truth.UNKNOWN, {"needed_gib": "53.49", "times": "4.3", "a_b": "<i>"},
        "As `x` says.", "<u> is not in this log", (Quote(0, 7, 1, "<script>alert(1)</script>"),),
        ("planned: mine on <b>",),
    )  # fmt: skip
    shown = render.claims.table([hostile])

    assert shown.plain.splitlines() == [
        "UNKNOWN  It <b>fits</b>",
        "    needed 53.49 GiB · times 4.3 · a b <i>",
        "    Not decided: <u> is not in this log.",
        "    As `x` says.",
        "    Expected: right.",
        "    Planned: mine on <b>",
        "    line 7: <script>alert(1)</script>",
    ]
    assert [mark for mark in ("<script", "<u>", "<i>") if mark in shown.html] == []
    assert "It &lt;b&gt;fits&lt;/b&gt;" in shown.html


CASE = """\
id: mine
title: A start of mine
source: ours
files: [startup.log]
expect:
  outcome: failed
  claims: [it-fits]
"""
CLAIMS = """\
document: notes of ours
given:
  - {name: gpu_total_gib, value: 23.56, source: the card}
claims:
  - id: it-fits
    says: It fits.
    figures: {free_gib: gpu_total_gib - weights_gib}
    right_if: free_gib > 1
    verdict: right
    because: ['{free} are left.']
    quotes: [Model loading took]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "mine"
    path.mkdir()
    (path / "startup.log").write_text("INFO Model loading took 13.72 GiB memory and 2.0 seconds\n")
    (path / "case.yaml").write_text(CASE)
    (path / "claims.yaml").write_text(CLAIMS)
    return path


def test_claims_are_read_with_their_case(folder: Path) -> None:
    """They are next to it, and their file can be checked separately."""
    case = case_files.read_case(folder / "case.yaml")
    authoring.check_file(folder / "claims.yaml")

    assert case.claims is not None
    assert [(c.id, c.verdict) for c in case.claims.claims] == [("it-fits", Truth.RIGHT)]
    (folder / "claims.yaml").unlink()
    (folder / "case.yaml").write_text(CASE.replace("  claims: [it-fits]\n", ""))
    assert case_files.read_case(folder / "case.yaml").claims is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("right_if: free_gib > 1", "right_if: free_gib >", "8: claims.0.right_if: is not an expression"),
        ("right_if: free_gib > 1", "right_if: open('x')", "8: claims.0.right_if: contains \"open('x')\""),
        ("gpu_total_gib - weights_gib", "2 ** 3", "7: claims.0.figures.free_gib: contains '2 ** 3'"),
        ("    because:", "    only_if: x y\n    because:", "10: claims.0.only_if: is not an expression"),
        ("because: ['{free} are left.']", "because: []", "10: claims.0.because: is empty"),
        ("[Model loading took]", "[It never said that]", "11: claims.0.quotes.0: 'It never said that' is in no file"),
        ("verdict: right", "verdict: maybe", "9: claims.0.verdict: input should be 'right', 'wrong' or 'unknown'"),
        ("id: it-fits", "id: It fits", "5: claims.0.id: 'It fits' is not a unique id"),
        ("name: gpu_total_gib", "name: gpu total", "3: given.0.name: 'gpu total' is not a valid name"),
        (
            "    verdict:",
            "    credit: {setting: x, starts: [1]}\n    verdict:",
            "9: claims.0.credit.starts: must be two",
        ),
        ("    says: It fits.\n", "    says: TODO\n", "6: claims.0.says: still says TODO"),
        ("document: notes of ours\n", "", "1: document: is missing"),
        (
            "given:",
            "plans: {start2: {model: m, gpus: g, vllm: v}}\ngiven:",
            "2: plans.start2: 'start2' is not a valid name",
        ),
        ("given:", "cards: {a: {card: x}}\nlines: {a: {vllm: v, text: t}}\ngiven:", "2: cards.a: 'a' is already used"),
        ("given:", "plans: {a: {model: m, gpus: g, vllm: v, tq: 1}}\ngiven:", "2: plans.a.tq: is not a known field"),
        ("right_if: free_gib > 1", "right_if: two.fits", "8: claims.0.right_if: contains 'two.fits'"),
    ],
)
def test_broken_claims_are_named(folder: Path, old: str, new: str, said: str) -> None:
    """By folder, line and field, also when the case is read."""
    (folder / "claims.yaml").write_text(CLAIMS.replace(old, new))

    for name, read in (("claims.yaml", claims_file.read_claims), ("case.yaml", case_files.read_case)):
        with pytest.raises(CatalogError) as caught:
            read(folder / name)
        assert f"mine/claims.yaml:{said}" in str(caught.value)


@pytest.mark.parametrize(
    ("case", "text", "said"),
    [
        ("claims: [it-flies]", CLAIMS, "expect.claims.0: 'it-flies' is not a claim in claims.yaml"),
        ("claims: [it-flies]", CLAIMS, "expect.claims: lacks it-fits of claims.yaml"),
        ("class: ok", CLAIMS, "expect.claims: lacks it-fits of claims.yaml"),
        ("claims: [it-fits]", None, "expect.claims.0: 'it-fits' is not a claim in claims.yaml"),
        ("claims: [it-fits]", "document: x\nclaims: []\n", "claims: is empty; add the document's claims"),
    ],
)
def test_a_case_compares_exactly_its_claims(folder: Path, case: str, text: str | None, said: str) -> None:
    """Every claim of the file, and none that is not there."""
    (folder / "case.yaml").write_text(CASE.replace("claims: [it-fits]", case))
    if text is None:
        (folder / "claims.yaml").unlink()
    else:
        (folder / "claims.yaml").write_text(text)

    with pytest.raises(CatalogError, match="mine/") as caught:
        case_files.read_case(folder / "case.yaml")
    assert said in str(caught.value)


def test_a_misspelt_figure_is_reported(folder: Path) -> None:
    """With the existing ones, before any plan."""
    text = CLAIMS.replace("given:", "cards: {mine: {card: RTX3090}}\ngiven:")
    (folder / "claims.yaml").write_text(text.replace("right_if: free_gib > 1", "right_if: mine.memory > 1"))

    with pytest.raises(CatalogError) as caught:
        claims_file.read_claims(folder / "claims.yaml")
    assert "mine has no memory; it has capability, exists, has_fp8, memory_gib, why" in str(caught.value)


MODEL = "Qwen/Qwen2.5-1.5B-Instruct"
QUESTION = PlanQuestion(MODEL, "2xRTX3090", "0.16.0", tp=2, options={"max_model_len": 4096})


def asked(claim_: Claim, **tables: Any) -> CheckedClaim:
    """A claim without a log, evaluated with the shipped catalog."""
    case = Case("mine", "t", "s", [], Expectation(), claims=Claims("d", [claim_], **tables))
    (result,) = diagnosing.check_claims(Evidence((), case))
    return result


def test_a_plan_supplies_its_figures() -> None:
    """GPUs, parts and cache; half of 1,543,714,304 parameters in two bytes are 1.44 GiB."""
    said = claim(
        figures={"each_gib": "two.weights_gib", "all_gib": "one.weights_gib", "cards": "two.cards"},
        right_if="two.fits and two.tp == 2 and abs(each_gib - 1.44) < 0.02 and all_gib > 1.9 * each_gib",
        because=["{each} of {all} on {cards} GPUs."],
    )
    result = asked(said, plans={"two": QUESTION, "one": replace(QUESTION, tp=1)})

    assert (result.verdict, result.undecided) == (Truth.RIGHT, "")
    assert result.because.endswith("on 2 GPUs.")
    assert result.basis == (
        f"planned: {MODEL} on 2xRTX3090, tensor parallel 2, vLLM 0.16.0, max_model_len 4096",
        f"planned: {MODEL} on 2xRTX3090, tensor parallel 1, vLLM 0.16.0, max_model_len 4096",
    )


def test_an_option_of_a_plan_is_shown_as_written() -> None:
    """A name in Chinese stays one."""
    question = replace(QUESTION, options={"served_model_name": "千问"})

    result = asked(claim(right_if="two.fits"), plans={"two": question})

    assert result.basis == (f'planned: {MODEL} on 2xRTX3090, tensor parallel 2, vLLM 0.16.0, served_model_name "千问"',)


def test_without_sizes_the_best_layout_is_used() -> None:
    """As on the command line: a small model is replicated on both GPUs."""
    said = claim(right_if="best.fits and best.replicas == 2 and best.tp == 1 and best.total_concurrency > 2")

    assert asked(said, plans={"best": replace(QUESTION, tp=None)}).verdict is Truth.RIGHT


def test_a_threshold_inside_the_range_is_unknown() -> None:
    """A threshold between them decides nothing; one outside of them does."""
    evidence = planner.question(QUESTION)
    assert evidence.cards[0].gpu.name == "RTX3090"
    bands = planner.planned(QUESTION)
    assert isinstance(bands, Plan)
    low, high = bands.kv_cache.tokens_low, bands.kv_cache.tokens_high
    assert low is not None
    assert high is not None
    assert low < high
    plans = {"two": QUESTION}
    between = asked(claim(right_if=f"two.kv_cache_tokens > {(low + high) // 2}"), plans=plans)

    assert (between.verdict, between.undecided) == (
        Truth.UNKNOWN,
        "the difference is within the plan's uncertainty",
    )
    assert asked(claim(right_if=f"two.kv_cache_tokens > {low - 1}"), plans=plans).verdict is Truth.RIGHT
    assert asked(claim(right_if=f"two.kv_cache_tokens > {high}"), plans=plans).verdict is Truth.WRONG


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "none/such"}, "two cannot be planned: none/such: unknown model"),
        ({"gpus": "2xA100-48GB"}, "two cannot be planned: A100-48GB: no such GPU: A100 comes with 40 or 80 GB"),
        ({"gpus": "RTX3090"}, "two cannot be planned: the launch needs 2 GPUs"),
        ({"vllm": "x"}, "two cannot be planned: "),
    ],
)
def test_an_impossible_plan_is_unknown_with_a_reason(change: dict[str, Any], said: str) -> None:
    """In the planner's words, and never as a verdict."""
    result = asked(claim(right_if="two.fits"), plans={"two": replace(QUESTION, **change)})

    assert result.verdict is Truth.UNKNOWN
    assert result.undecided.startswith(said)


def test_without_a_planner_the_verdict_is_open() -> None:
    """Only claims that need a plan are unknown."""
    (result,) = claims.check(Claims("d", [claim(right_if="two.fits")], plans={"two": QUESTION}), None, (), Evidence(()))

    assert (result.verdict, result.undecided) == (Truth.UNKNOWN, "two cannot be planned: no planner is available")


def test_gpus_are_looked_up_in_the_catalog() -> None:
    """With memory and compute capability."""
    cards = {
        "there": GpuReference("RTX3090"),
        "never": GpuReference("A100-48GB"),
        "newer": GpuReference("H100-SXM-80GB"),
    }
    said = claim(
        figures={"why": "never.why"},
        right_if="there.exists and not never.exists and there.memory_gib == 24 and there.capability == 8.6 "
        "and not there.has_fp8 and newer.has_fp8",
        because=["{why}"],
    )
    result = asked(said, cards=cards)

    assert result.verdict is Truth.RIGHT
    assert result.because == "A100-48GB: no such GPU: A100 comes with 40 or 80 GB"
    assert asked(claim(right_if="never.memory_gib > 1"), cards=cards).verdict is Truth.UNKNOWN


SHOWN_BY_0_16 = "rank 1 in world size 4 is assigned as DP rank 0, PP rank 0"


def test_lines_are_looked_up_in_a_release() -> None:
    """With any numbers; a line without a recorded search is unknown, not missing."""
    told = claims_file.read_claims(folders.cases_dir() / "plan-autoglm-8x3090" / "claims.yaml").lines
    lines = {
        **told,
        "other": LineReference("0.16.0", SHOWN_BY_0_16),
        "new": LineReference("0.16.0", "never searched for 1"),
    }

    assert asked(claim(right_if="ranks.printed and other.printed"), lines=lines).verdict is Truth.RIGHT
    assert asked(claim(right_if="sizes.printed or loading.printed"), lines=lines).verdict is Truth.WRONG
    assert asked(claim(right_if="new.printed"), lines=lines).undecided == "printed of new is unknown"


def test_every_shipped_line_has_a_recorded_search() -> None:
    """In the sources of its release, so that every verdict rests on one."""
    lines = [
        line
        for path in folders.cases_dir().glob("*/claims.yaml")
        for line in claims_file.read_claims(path).lines.values()
    ]
    wordings = sites.read_wordings(sites.data_folder() / sites.WORDINGS)

    assert lines
    assert [line for line in lines if wordings.has(sites.wording(line.text), line.vllm) is None] == []


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("# GPU blocks: 1234 per GPU", r"\# GPU blocks: [\d.,]{1,20} per GPU"),
        ("KV cache size: 1,721,888 tokens, 52.55x", r"KV cache size: [\d.,]{1,20} tokens, [\d.,]{1,20}x"),
        ("Loading model … on 4 GPUs", r"Loading model .{0,80} on [\d.,]{1,20} GPUs"),
    ],
)
def test_a_line_becomes_a_pattern(line: str, pattern: str) -> None:
    """Placeholders match anything, other words match exactly."""
    assert sites.wording(line) == pattern


PLAN_CASE = f"""\
id: mine
title: A question of mine
source: ours
files: []
plan: {{model: {MODEL}, gpus: 2xRTX3090, vllm: 0.16.0, options: {{max_model_len: 4096}}}}
expect:
  fits: true
  best: {{replicas: 2}}
  per_gpu: {{weights_gib: 2.88}}
"""


def question(folder: Path, text: str = PLAN_CASE) -> Evidence:
    folder.mkdir()
    (folder / "case.yaml").write_text(text)
    return sources.load(str(folder))


def test_a_recorded_question_has_the_expected_answer(tmp_path: Path) -> None:
    """Fit, best layout and figures; 1,543,714,304 parameters in two bytes are 2.88 GiB."""
    evidence = question(tmp_path / "mine")
    assert evidence.case is not None
    assert evidence.case.plan is not None
    found = planner.planned(evidence.case.plan)
    verdict = plan_expected.plan_verdict(found, evidence.case, diagnosing.check_claims(evidence))

    assert isinstance(found, Layouts)
    assert (verdict.verdict, verdict.reason, verdict.case) == (Verdict.PASS, "as expected: it fits", "mine")
    assert {"fits": True, "replicas": 2, "tp": 1}.items() <= verdict.facts.items()
    assert None not in verdict.facts.values()
    assert plan_expected.plan_verdict(found, None).verdict is Verdict.PASS
    with pytest.raises(InputError, match="is a recorded question without a log; use vllm-runbooks plan"):
        diagnosing.diagnose(evidence)


def test_another_answer_fails_with_both_answers(tmp_path: Path) -> None:
    """The verdict names each difference."""
    text = PLAN_CASE.replace("fits: true", "fits: false").replace("{replicas: 2}", "{tp: 2}").replace("2.88", "1.4")
    case = question(tmp_path / "mine", text).case
    assert case is not None
    assert case.plan is not None
    assert case.expect.best == BestLayout(tp=2)
    verdict = plan_expected.plan_verdict(planner.planned(case.plan), case)

    assert verdict.verdict is Verdict.FAIL
    assert verdict.reason == (
        "expected: it does not fit, got: it fits; best layout: expected 1 x (tensor 2, pipeline 1, data 1), "
        "got 2 x (tensor 1, pipeline 1, data 1); weights_gib: expected 1.4, got 2.88"
    )


def test_your_own_plan_passes_if_it_fits() -> None:
    """Otherwise the limiting fact is named."""
    small = planner.planned(replace(QUESTION, gpus="2xRTX3090", options={"max_model_len": 10_000_000}))
    large = planner.planned(
        PlanQuestion("zai-org/AutoGLM-Phone-9B", "RTX3060-12GB", "0.16.0", tp=1, options={"max_model_len": 4096})
    )

    assert plan_expected.plan_verdict(planner.planned(QUESTION), None).reason == "it fits"
    assert plan_expected.plan_verdict(small, None).verdict is Verdict.FAIL
    assert plan_expected.plan_verdict(large, None).reason.startswith("it does not fit; ")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("files: []", "files: [a.log]", "must be empty if `plan` is set"),
        ("gpus: 2xRTX3090, ", "gpus: 2xRTX3090, tp: 2, ", "expect.best: needs a question without tp, pp and dp"),
        ("weights_gib: 2.88", "weights: 2.88", "expect.per_gpu.weights: is not a figure of a plan"),
        (PLAN_CASE.splitlines()[4], "vllm: 0.16.0", "expect: compares a plan, but `plan` is not set"),
        ("gpus: 2xRTX3090, ", "", "plan.gpus: is missing"),
    ],
)
def test_a_broken_question_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    """By field, when the case is read."""
    (tmp_path / "a.log").write_text("x\n")
    (tmp_path / "case.yaml").write_text(PLAN_CASE.replace(old, new))

    with pytest.raises(CatalogError) as caught:
        case_files.read_case(tmp_path / "case.yaml")
    assert said in str(caught.value)


def sample(rate: float, running: int | None, line: int = 1) -> Throughput:
    return Throughput(line, 0.0, rate, running, 0, None)


def test_a_steady_line_was_busy_from_its_beginning_to_its_end() -> None:
    """The first busy line, and one in which the last request ended, cover idle time."""
    assert comparison.steady([sample(1, 1), sample(9, 1), sample(5, 0), sample(4, 1), sample(9, None)]) == [
        False, True, False, False, False,
    ]  # fmt: skip


def full(number: int, **facts: Any) -> ServerRun:
    values: dict[str, Any] = {
        "kv_cache_tokens": 1000, "kv_cache_tokens_meaning": "full-length", "max_concurrency": 10.0, "load_seconds": 9.0,
        "max_concurrency_tokens": 100, "model": "m", "generation_tokens_per_s_max": 9.0,
    }  # fmt: skip
    return start(
        facts=Facts(**values | facts),
        arguments={"model": "m", "seed": number},
        throughput=(sample(1, 1), sample(9, 1)),
    )


def spoken(*starts: ServerRun) -> dict[str, tuple[bool | None, str]]:
    return {c.figure: (c.may, c.why) for c in comparison.comparable(starts)}


def test_similar_launches_may_be_compared() -> None:
    """One different setting, equal context, equal token meaning, no download."""
    found = spoken(full(1), full(2))

    assert [may for may, _ in found.values()] == [True] * 5
    assert found["generation in tokens/s"][1] == "launches 1 and 2 differ only in seed"
    assert comparison.comparable([full(1)]) == []
    assert spoken(full(1), full(1))["generation in tokens/s"][1] == "launches 1 and 2 have the same settings"


def test_an_invalid_comparison_has_a_reason_with_numbers() -> None:
    """Slots of another model, another context, a download, two settings, no busy interval."""
    slots = full(1, kv_cache_tokens_meaning="slots", kv_cache_tokens=93936, max_concurrency=6.96, model="n",
                 max_concurrency_tokens=131072)  # fmt: skip
    slots = replace(slots, arguments={"model": "n", "seed": 2}, throughput=(sample(1, 1),),
                    readings=(reading("download_seconds", 8.4),))  # fmt: skip
    found = spoken(full(1), slots)

    assert found["KV cache in tokens"] == (
        False,
        "they are slots of one layer group: in launch 2, 93,936 / 131,072 = 0.72, but vLLM prints 6.96 requests",
    )
    assert found["concurrency"] == (False, "stated for requests of 100 and 131,072 tokens")
    assert found["time to load"] == (False, "part of it is the download: in launch 2, 8 of 9 s")
    assert found["generation in tokens/s"][1] == (
        "no two launches differ in only one setting; launches 1 and 2 differ in model, seed; "
        "no line of launch 2 covers an interval without idle time"
    )


def test_a_missing_figure_leaves_the_comparison_open() -> None:
    """Unknown is not no."""
    bare = start()
    found = spoken(full(1), bare)

    assert [may for may, _ in found.values()] == [True, None, None, None, None]
    shown = render.starts.comparable([full(1), bare])
    assert "unknown" in shown.plain
    assert render.starts.comparable([bare]).plain == "Only one launch: nothing to compare."
    assert render.starts.comparable([]).plain == "The log has no vLLM launch."


def test_slots_are_compared_only_between_launches_of_one_model() -> None:
    """And only with equal meaning; the first launch with slots is the reference."""
    slots = {
        "kv_cache_tokens_meaning": "slots",
        "kv_cache_tokens": 20_000,
        "max_concurrency_tokens": 8000,
        "max_concurrency": 5.0,
    }
    one, other = full(1, **slots, model="a"), full(2, **slots, model="a")

    assert spoken(one, other)["KV cache in tokens"] == (True, "they mean the same in every launch")
    assert spoken(full(1, kv_cache_tokens_meaning="full-length", model="a"), other)["KV cache in tokens"] == (
        False,
        "they are slots of one layer group: in launch 2, 20,000 / 8,000 = 2.50, but vLLM prints 5 requests",
    )
    without = full(1, **{**slots, "max_concurrency_tokens": None}, max_model_len=4000, model="b")
    assert "in launch 1, 20,000 / 4,000 = 5.00" in spoken(without, other)["KV cache in tokens"][1]
    assert (
        spoken(full(1, kv_cache_tokens_meaning=None), full(2, kv_cache_tokens_meaning=None))["KV cache in tokens"][0]
        is None
    )
    assert spoken(full(1, kv_cache_tokens_meaning=None), other)["KV cache in tokens"][0] is False


def test_concurrency_is_compared_at_equal_lengths() -> None:
    """Lengths are listed in order; a missing one leaves the comparison open."""

    def told(*lengths: tuple[int | None, int | None]) -> tuple[bool | None, str]:
        return spoken(
            *(
                full(number, max_concurrency_tokens=one, max_model_len=two)
                for number, (one, two) in enumerate(lengths, 1)
            )
        )["concurrency"]

    assert told((4096, 9), (4096, None)) == (True, "stated for requests of 4,096 tokens in every launch")
    assert told((8192, None), (None, 4096)) == (False, "stated for requests of 4,096 and 8,192 tokens")
    assert told((8192, None), (None, None))[0] is None
    assert spoken(full(1), full(2, max_concurrency=None))["concurrency"][0] is None
