"""Text, JSON and HTML say the same, and nothing of a log is ever markup or a control character."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from html.parser import HTMLParser
from typing import Any

import pytest

from vllm_runbooks import render, session
from vllm_runbooks.records import (
    Answer,
    Checks,
    Conditions,
    Edit,
    Facts,
    Finding,
    Level,
    LookIn,
    Outcome,
    Phase,
    Quote,
    RankFacts,
    Release,
    Remedy,
    Severity,
    Start,
    StartSummary,
)
from vllm_runbooks.render import answers, drawing

HOSTILE = (
    "</code></td><script>alert(1)</script><img src=x onerror=alert(1)> **bold** [a](javascript:alert(1)) `x` $x^2$ "
    "\"'><svg/onload=alert(1)> &lt;b&gt; \x1b[31mred\x1b[0m \x00\x07\x9b31m \u202eevil\u202c \ufeff "
    "{{constructor}} <!-- \r\t"
)
ALLOWED = {
    "b", "br", "code", "div", "p", "rect", "span", "svg", "table", "tbody", "td", "th", "thead", "title", "tr",
}  # fmt: skip


class Tags(HTMLParser):
    """Every tag and attribute of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.comments: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        self.text += data


def finding(**more: Any) -> Finding:
    values: dict[str, Any] = {
        "symptom": "oom.weights",
        "class_": "oom.weights",
        "title": "The weights do not fit",
        "severity": Severity.FATAL,
        "level": Level.CONFIRMED,
        "evidence": (
            Quote(0, 7, 3, "CUDA out of memory"),
            Quote(0, 9, 1, "CUDA out of memory"),
            Quote(0, 8, 1, "else"),
        ),
        "captures": {"tried_mib": "512.00", "total_gib": "23.56", "free_mib": "100.00"},
        "conditions": Conditions(("one GPU",), ("not this",), ("nor that",)),
        "explanation": "The GPU was full.",
        "do_first": "Compare.",
        "confirm": "It is.",
        "refute": "It is not.",
    }
    return Finding(**values | more)


def remedy(**more: Any) -> Remedy:
    edits = (Edit("set", "max_num_seqs", 64), Edit("remove", "swap_space"), Edit("env", "NCCL_DEBUG", "WARN"))
    values: dict[str, Any] = {
        "title": "Serve fewer",
        "cost": "throughput",
        "edits": edits,
        "command": None,
        "checks": Checks("passed", "unknown: no planner", "unknown: no vLLM was asked"),
    }
    return Remedy(**values | more)


def made(**more: Any) -> Answer:
    values: dict[str, Any] = {
        "files": ("a.log",),
        "outcome": Outcome.FAILED,
        "vllm": Release("0.11.0", "printed"),
        "root_cause": finding(),
        "findings": (finding(),),
        "starts": (StartSummary(0, 1, 9, Outcome.FAILED, finding()),),
        "remedies": (remedy(),),
        "plan": None,
        "hidden": {"wrapper": 1, "benign": 2, "other": 3},
        "facts": Facts(),
        "ranks": (),
        "first_error": None,
    }
    return Answer(**values | more)


VIEWS = (
    answers.starts, answers.cause, answers.checks, answers.memory, answers.remedies, answers.facts, answers.others,
)  # fmt: skip


def hostile() -> Answer:
    """An answer in which every text is hostile."""
    bad = finding(
        title=HOSTILE,
        symptom=HOSTILE,
        evidence=(Quote(0, 1, 1, HOSTILE),),
        captures={"tried_mib": HOSTILE, "total_gib": HOSTILE, "modality": HOSTILE},
        conditions=Conditions((HOSTILE,), (HOSTILE,), (HOSTILE,)),
        explanation=HOSTILE,
        do_first=HOSTILE,
        confirm=HOSTILE,
        refute=HOSTILE,
        look_in=LookIn(HOSTILE, HOSTILE),
    )
    texts = {f.name: HOSTILE for f in fields(Facts) if f.type == "str | None" and f.name != "kv_cache_tokens_meaning"}
    return made(
        files=(HOSTILE, "b.log"),
        vllm=Release(HOSTILE, "given"),
        root_cause=bad,
        findings=(bad, replace(bad, severity=Severity.HINT)),
        starts=(StartSummary(0, 1, 9, Outcome.FAILED, bad), StartSummary(1, 1, 9, Outcome.FAILED, None)),
        remedies=(remedy(title=HOSTILE, cost=HOSTILE, edits=(Edit("set", HOSTILE, {HOSTILE: HOSTILE}),)),),
        hidden={HOSTILE: 1},
        facts=Facts(**texts),  # type: ignore[arg-type] # texts where texts belong
        first_error=Quote(0, 2, 1, HOSTILE),
        notes=(HOSTILE,),
    )


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
@pytest.mark.parametrize("with_cause", [True, False])
def test_nothing_of_a_log_is_markup(view: Any, *, with_cause: bool) -> None:
    """Only our own tags and attributes are there, no handler, no comment, no control character."""
    answer = hostile() if with_cause else replace(hostile(), root_cause=None)
    shown = view(answer)
    page = Tags(shown.html)

    assert page.tags <= ALLOWED
    assert page.attributes <= {"style", "width", "height", "viewbox", "role", "x", "y", "fill"}
    assert page.comments == []
    assert not [c for c in shown.html + shown.plain if ord(c) < 32 and c != "\n"]
    assert not {*"\x7f\x9b\u202e\u202c\ufeff"} & {*shown.html, *shown.plain}
    assert shown._repr_mimebundle_() == {"text/plain": str(shown), "text/html": shown.html}


def test_the_terminal_gets_no_control_character() -> None:
    """They are shown as escapes; the words stay readable."""
    text = answers.text(hostile())

    assert not [c for c in text if ord(c) < 32 and c != "\n"]
    assert not {*"\x7f\x9b\u202e\u202c\ufeff"} & {*text}
    assert "\\x1b[31mred" in text
    assert "<script>alert(1)</script>" in text


def test_the_time_line_escapes_too() -> None:
    """Its phases come from the catalog, its times from the log."""
    base = session.read(session.load("tiny-cpu-served"))[-1]
    phase = Phase(HOSTILE, Quote(0, 3, 1, HOSTILE), HOSTILE, 3.0)
    shown = render.starts.timeline([replace(base, timeline=(phase, replace(phase, clock_seconds=None)))])

    assert Tags(shown.html).tags <= ALLOWED
    assert "unknown" in shown.plain


def test_json_is_one_document_with_rounded_figures() -> None:
    """Beginning with its schema, in UTF-8."""
    text = answers.to_json(made(facts=Facts(weights_gib=1 / 3), files=("ä.log",)))

    assert text.startswith('{\n  "schema": 1,')
    assert json.loads(text)["facts"]["weights_gib"] == 0.3333
    assert "ä.log" in text


def test_the_whole_text() -> None:
    """In the order in which one reads it at night: state, cause, what to do, the rest."""
    answer = made(
        findings=(finding(), finding(symptom="dist.one_host", title="A hint", severity=Severity.HINT, evidence=())),
        facts=Facts(weights_gib=13.72, kv_cache_tokens=798624, kv_cache_tokens_meaning="slots", max_concurrency=11.99),
    )

    assert answers.text(answer) == (
        "a.log  ·  vLLM 0.11.0 (printed)  ·  FAILED\n"
        "\n"
        "ROOT CAUSE  The weights do not fit\n"
        "  oom.weights · confirmed\n"
        "  line 7 and line 9: CUDA out of memory\n"
        "  line 8: else\n"
        "\n"
        "  Why\n"
        "    The GPU was full.\n"
        "\n"
        "  Do first\n"
        "    Compare.\n"
        "\n"
        "  Confirm\n"
        "    It is.\n"
        "\n"
        "  Refute\n"
        "    It is not.\n"
        "\n"
        "  Conditions\n"
        "    fits: one GPU\n"
        "    speaks against it: not this\n"
        "    not in this log: nor that\n"
        "\n"
        "WAYS OUT, cheapest first\n"
        "  1. Serve fewer\n"
        "       option max_num_seqs = 64\n"
        "       remove option swap_space\n"
        "       environment variable NCCL_DEBUG = WARN\n"
        "     Costs: throughput\n"
        "  Checked by the linter. Not checked by the planner (no planner), vLLM's own\n"
        "  parser (no vLLM was asked).\n"
        "\n"
        "ALSO FOUND\n"
        "  hint: A hint\n"
        "    The GPU was full.\n"
        "\n"
        "FACTS\n"
        "  weights      13.72 GiB\n"
        "  KV cache     798,624 tokens (slots of one layer group, not tokens of full-length requests: not comparable"
        " across models or releases)\n"
        "  concurrency  11.99x\n"
        "\n"
        "Recognised and left out: 1 notice of another process's end, 2 harmless lines, 3 other.\n"
    )


def test_a_finding_that_sends_elsewhere_does_not_call_itself_the_cause() -> None:
    """And the first unexplained error stands before it."""
    answer = made(root_cause=finding(look_in=LookIn("the error", "the other log")), first_error=Quote(0, 2, 1, "E: x"))
    text = answers.text(answer)

    assert "ROOT CAUSE" not in text
    first = "FIRST ERROR that no symptom explains: read this first\n  line 2: E: x\n\nNOTICE OF THE FAILURE"
    assert first in text
    assert first in answers.cause(answer).plain
    assert "E: x" in answers.cause(answer).html
    assert not [form for form in (text, answers.cause(answer).html) if "Look for" in form or "CLOSEST" in form]


def test_what_to_look_for_is_said_where_no_error_is_known() -> None:
    """The notice is then the nearest thing."""
    answer = made(root_cause=finding(look_in=LookIn("the error", "the other log")))

    assert "CLOSEST TO THE CAUSE" in answers.text(answer)
    assert "  Look for\n    the error in the other log\n" in answers.text(answer)
    assert "Look for" in answers.cause(answer).html
    assert "Look for" not in answers.cause(made()).html


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"starts": ()}, "It does not look like the log of a vLLM start."),
        ({"outcome": Outcome.UNKNOWN}, "The text ends before the start does"),
        ({"first_error": Quote(0, 1, 1, "E")}, "The first error is not in the catalog yet"),
        ({}, "Give the log of every process and node"),
        ({"outcome": Outcome.READY}, None),
    ],
)
def test_what_is_said_without_a_cause(more: dict[str, Any], said: str | None) -> None:
    """Each kind of not knowing has its advice; a healthy start needs none."""
    answer = made(root_cause=None, findings=(), remedies=(), hidden={}, **more)

    assert ("No cause was found" in answers.text(answer)) is (said is not None)
    assert (said or "healthy") in " ".join(answers.cause(answer).plain.split())
    if said:
        assert said in " ".join(answers.text(answer).split())
    assert "no root cause" in answers.checks(answer).plain
    if said is None:
        assert answers.remedies(answer).plain == "No change is needed."
        assert answers.checks(answer).plain.startswith("Nothing to confirm: the start is healthy")
    else:
        lead = "line 1: E" if answer.first_error else said
        for view in (answers.remedies, answers.checks):
            assert lead in view(answer).plain
            assert lead in view(answer).html
        assert answers.remedies(answer).plain.startswith("No way out is known. ")
    if answer.first_error:
        assert answers.cause(answer).plain.startswith("FIRST ERROR that no symptom explains: read this first\n  line 1")
    assert "Nothing else was found. Nothing was left out." in answers.others(answer).plain


def test_what_is_empty_is_not_shown() -> None:
    """No heading without something below it."""
    bare = finding(conditions=Conditions(), explanation="")
    answer = made(root_cause=bare, findings=(bare,))

    assert "Conditions" not in answers.text(answer)
    assert "Why" not in answers.text(answer)
    assert answers.checks(answer).plain == "to confirm: It is.\nto refute: It is not."
    assert answers.remedies(made(root_cause=None)).plain.startswith("WAYS OUT")


def test_a_cause_without_remedies_says_what_to_do_first() -> None:
    """And how it can be checked."""
    answer = made(remedies=())

    assert answers.remedies(answer).plain == "Do first. Compare."
    assert "WAYS OUT" not in answers.text(answer)
    assert "to refute: It is not." in answers.checks(answer).plain


def test_several_starts_and_files_are_told_apart() -> None:
    """By number, lines and file."""
    starts = (StartSummary(0, 1, 9, Outcome.FAILED, finding()), StartSummary(1, 1, 5, Outcome.READY, None))
    answer = made(files=("a.log", "b.log"), starts=starts, vllm=Release())
    again = replace(answer, starts=(*starts, replace(starts[1], first_line=6)))
    alone = made(starts=(starts[0], starts[0]))

    assert "2 LOGS OF ONE START\n  a.log  lines 1-9  failed  The weights do not fit\n" in answers.text(answer)
    assert "STARTS" not in answers.text(answer)
    assert "3 STARTS (the last of each file is described; --start N chooses another)\n  1  a.log" in answers.text(again)
    assert "2 STARTS (the last is described; --start N chooses another)\n  1  lines 1-9  failed" in answers.text(alone)
    assert "a.log:7 and a.log:9: CUDA out of memory" in answers.text(answer)
    assert "vLLM release unknown" in answers.starts(answer).plain
    assert "b.log" in answers.starts(answer).html
    assert "STARTS" not in answers.starts(made()).plain


def test_facts_carry_their_units() -> None:
    """All figures, or one sentence where there is none."""
    facts = Facts(
        max_concurrency=5033.62, max_concurrency_tokens=128, kv_cache_blocks=40269, max_model_len=131072,
        generation_tokens_per_s_max=165.0, kv_cache_tokens=16576, kv_cache_tokens_meaning="full-length",
    )  # fmt: skip
    plain = answers.facts(made(facts=facts)).plain

    assert "concurrency: 5033.62x of 128 tokens each" in plain
    assert "KV cache: 40,269 blocks" in plain
    assert "context: 131,072 tokens" in plain
    assert "generation, best: 165 tokens/s" in plain
    assert "KV cache: 16,576 tokens (tokens of full-length requests (concurrency x context))" in plain
    assert "holds none of vLLM's figures" in answers.facts(made()).plain


@pytest.mark.parametrize(
    ("captures", "parts"),
    [
        ({"total_gib": "24.0", "tried_gib": "2.0", "free_gib": "1.0", "in_use_gib": "20.0", "allocated_gib": "18.0",
          "reserved_mib": "1024.0"},
         ["allocated by PyTorch 18.00", "reserved by PyTorch, unallocated 1.00", "this process, outside PyTorch 1.00",
          "other processes 3.00", "free 1.00", "asked for 2.00", "total 24.00"]),
        ({"total_gib": "24.0", "tried_kib": "1048576", "free_bytes": "1073741824"},
         ["not stated 23.00", "free 1.00", "asked for 1.00", "total 24.00"]),
        ({"total_gib": "24.0", "tried_gib": "2.0", "in_use_gib": "24.0"},
         ["this process 24.00", "asked for 2.00", "total 24.00"]),
        ({"total_gib": "24.0"}, None),
        ({"total_gib": "many", "tried_gib": "2.0"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_the_memory_at_the_moment_of_failure_adds_up(captures: dict[str, str], parts: list[str] | None) -> None:
    """Only what the message states, in parts of the whole."""
    shown = answers.memory(made(root_cause=finding(captures=captures)))

    if parts is None:
        assert shown.plain.startswith("The text states no memory figures")
    else:
        assert [" ".join(line.split()).removesuffix(" GiB") for line in shown.plain.splitlines()] == parts
        assert "<svg" in shown.html
    assert answers.memory(made(root_cause=None)).plain.startswith("The text states no memory figures")


def test_the_time_line_shows_each_phase() -> None:
    """Of the last start, or of the one that is asked for; a text without phases says so."""
    starts: list[Start] = session.read(session.load("tiny-cpu-two-starts"))

    assert "load the weights" in render.starts.timeline(starts).plain
    assert render.starts.timeline(starts, start=1).plain != render.starts.timeline(starts).plain
    assert render.starts.timeline([]).plain == "The text shows no phase of the start."


def test_bars_stay_inside_their_frame() -> None:
    """Whatever the shares are, and however many."""
    svg = drawing.bars(
        [(str(i), share) for i, share in enumerate((0.5, -1.0, 7.0, 0.1, 0.1, 0.1, 0.1, 0.1))], width=100
    )

    assert svg.count("<rect") == 9
    assert 'width="-' not in svg


def test_code_in_a_catalogs_sentence_is_shown_as_code() -> None:
    """What stands between backticks becomes code, and markup inside of it stays text."""
    sentence = "Lower `max_num_seqs`, not `<b>this</b>`."

    shown = answers.cause(made(root_cause=finding(explanation=sentence))).html

    assert "<code>max_num_seqs</code>, not <code>&lt;b&gt;this&lt;/b&gt;</code>." in shown


def test_several_ranks_are_shown_side_by_side() -> None:
    """Each rank's figures stand in a row of their own, an unknown figure left empty; one rank needs no table."""
    ranks = (
        RankFacts(0, None, None, weights_gib=1.4495, kv_cache_gib=8.6),
        RankFacts(1, "VllmWorkerProcess", 2994, weights_gib=1.4495),
    )

    shown = answers.text(made(ranks=ranks, facts=Facts(kv_cache_gib=8.6)))

    assert "RANKS, in GiB\n  rank  weights  KV cache\n     0     1.45      8.60\n     1     1.45          \n" in shown
    assert "By rank" in answers.facts(made(ranks=ranks, facts=Facts(kv_cache_gib=8.6))).html
    assert "RANKS" not in answers.text(made(ranks=ranks[:1]))
