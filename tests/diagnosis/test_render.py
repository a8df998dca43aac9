"""Text, JSON and HTML agree, and log text is never markup or a control character."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from html.parser import HTMLParser
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks import render
from vllm_runbooks.core.records import (
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
    ServerRun,
    ServerRunSummary,
    Severity,
    Throughput,
)
from vllm_runbooks.core.views import drawing, elements
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.render import answers, figures
from vllm_runbooks.reading import sources

HOSTILE = (
    "</code></td><script>alert(1)</script><img src=x onerror=alert(1)> **bold** [a](javascript:alert(1)) `x` $x^2$ "
    "\"'><svg/onload=alert(1)> &lt;b&gt; \x1b[31mred\x1b[0m \x00\x07\x9b31m \u202eevil\u202c \ufeff "
    "{{constructor}} <!-- \r\t"
)
ALLOWED = {
    *("b", "br", "code", "details", "div", "p", "pre", "rect", "path", "span", "summary", "svg", "table", "tbody"),
    *("td", "th", "thead", "title", "tr"),
}


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
        "checks": Checks("passed", "unknown: no planner", "unknown: not run"),
    }
    return Remedy(**values | more)


def made(**more: Any) -> Answer:
    values: dict[str, Any] = {
        "files": ("a.log",),
        "outcome": Outcome.FAILED,
        "vllm": Release("0.11.0", "printed"),
        "root_cause": finding(),
        "findings": (finding(),),
        "starts": (ServerRunSummary(0, 1, 9, Outcome.FAILED, finding()),),
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
    """An answer with hostile text in every field."""
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
        starts=(ServerRunSummary(0, 1, 9, Outcome.FAILED, bad), ServerRunSummary(1, 1, 9, Outcome.FAILED, None)),
        remedies=(remedy(title=HOSTILE, cost=HOSTILE, edits=(Edit("set", HOSTILE, {HOSTILE: HOSTILE}),)),),
        hidden={HOSTILE: 1},
        facts=Facts(**texts),  # type: ignore[arg-type] # texts where texts belong
        first_error=Quote(0, 2, 1, HOSTILE),
        notes=(HOSTILE,),
    )


@in_one_test("view", VIEWS, ids=lambda view: view.__name__)
@in_one_test("with_cause", [True, False])
def test_nothing_of_a_log_is_markup(view: Any, *, with_cause: bool) -> None:
    """Only our own tags and attributes are there, no handler, no comment, no control character."""
    answer = hostile() if with_cause else replace(hostile(), root_cause=None)
    shown = view(answer)
    page = Tags(shown.html)

    assert page.tags <= ALLOWED
    assert page.attributes <= {
        "style",
        "width",
        "height",
        "viewbox",
        "role",
        "x",
        "y",
        "fill",
        "data-copy",
        "d",
        "stroke",
        "stroke-width",
        "opacity",
    }
    assert page.comments == []
    assert not [c for c in shown.html + shown.plain if ord(c) < 32 and c != "\n"]
    assert not {*"\x7f\x9b\u202e\u202c\ufeff"} & {*shown.html, *shown.plain}
    bundle = shown._repr_mimebundle_()
    assert (bundle["text/plain"], bundle["text/html"]) == (str(shown), shown.html)


def test_control_characters_do_not_reach_the_terminal() -> None:
    """They are shown as escapes; the words stay readable."""
    text = answers.text(hostile())

    assert not [c for c in text if ord(c) < 32 and c != "\n"]
    assert not {*"\x7f\x9b\u202e\u202c\ufeff"} & {*text}
    assert "\\x1b[31mred" in text
    assert "<script>alert(1)</script>" in text


def test_the_timeline_escapes_text() -> None:
    """Its phases come from the catalog, its times from the log."""
    base = diagnosing.read(sources.load("tiny-cpu-served"))[-1]
    phase = Phase(HOSTILE, Quote(0, 3, 1, HOSTILE), HOSTILE, 3.0)
    shown = render.starts.timeline([replace(base, timeline=(phase, replace(phase, clock_seconds=None)))])

    assert Tags(shown.html).tags <= ALLOWED
    assert "unknown" in shown.plain


def test_json_is_one_document_with_rounded_figures() -> None:
    """Beginning with its schema, in UTF-8."""
    text = render.to_json(made(facts=Facts(weights_gib=1 / 3), files=("ä.log",)))

    assert text.startswith('{\n  "schema": 2,')
    assert json.loads(text)["facts"]["weights_gib"] == 0.3333
    assert "ä.log" in text


def test_the_whole_text() -> None:
    """In reading order: state, cause, what to do, the rest."""
    answer = made(
        findings=(finding(), finding(symptom="dist.one_host", title="A hint", severity=Severity.HINT, evidence=())),
        facts=Facts(weights_gib=13.72, kv_cache_tokens=798624, kv_cache_tokens_meaning="slots", max_concurrency=11.99),
    )

    expected = (
        "FAILED   a.log · vLLM 0.11.0 · GPU with 23.56 GiB\n"
        "\n"
        "✗ The weights do not fit                                                  ●●● confirmed  oom.weights\n"
        "  line 7 | CUDA out of memory\n"
        "\n"
        "  Fix   NCCL_DEBUG=WARN --max-num-seqs 64 (remove --swap-space)\n"
        "        Cost: throughput.{marks:>75}\n"
        "\n"
        "ROOT CAUSE  The weights do not fit\n"
        "  oom.weights · confirmed\n"
        "  lines 7 and 9: CUDA out of memory\n"
        "  line 8: else\n"
        "\n"
        "  Why\n"
        "    The GPU was full.\n"
        "\n"
        "  Do first\n"
        "    Compare.\n"
        "\n"
        "  How to verify\n"
        "    It is.\n"
        "\n"
        "  Ruled out if\n"
        "    It is not.\n"
        "\n"
        "  Conditions\n"
        "    met: one GPU\n"
        "    not met: not this\n"
        "    unknown from this log: nor that\n"
        "\n"
        "FIXES, best first\n"
        "  1. Serve fewer\n"
        "       NCCL_DEBUG=WARN --max-num-seqs 64 (remove --swap-space)\n"
        "     Cost: throughput\n"
        "  Passed lint. Not checked by plan (no planner) and vLLM's parser (not run).\n"
        "\n"
        "ALSO FOUND\n"
        "  hint: A hint\n"
        "    The GPU was full.\n"
        "\n"
        "FACTS\n"
        "  weights          13.72 GiB\n"
        "  KV cache size    798,624 tokens (slots of one layer group, not tokens of full-length requests: not "
        "comparable across models or releases)\n"
        "  max concurrency  11.99x\n"
        "\n"
        "Not shown: 1 notice that another process ended, 2 known harmless lines and 3 other.\n"
    )
    assert answers.text(answer) == expected.format(marks="lint ✓  not checked by plan, vLLM's parser")


def test_an_explained_quotation_shows_the_end_of_its_message() -> None:
    """The summary truncates the line; the details name the innermost reason."""
    message = f"MaxRetryError: url: /{'a' * 150} (Caused by SSLError('EOF occurred'))"
    answer = made(root_cause=finding(evidence=(Quote(0, 7, 1, message),)))
    summary, _, details = answers.text(answer).partition("ROOT CAUSE")
    assert "…" in summary
    assert f"line 7: {message}\n" in details


def test_a_notice_is_not_called_the_cause() -> None:
    """The first unexplained error precedes it."""
    answer = made(root_cause=finding(look_in=LookIn("the error", "the other log")), first_error=Quote(0, 2, 1, "E: x"))
    text = answers.text(answer)

    assert "ROOT CAUSE" not in text
    first = "FIRST UNEXPLAINED ERROR: read this first\n  line 2: E: x\n\nFAILURE NOTICE"
    assert first in text
    assert first in answers.cause(answer).plain
    assert "E: x" in answers.cause(answer).html
    assert not [form for form in (text, answers.cause(answer).html) if "Where to look" in form or "CLOSEST" in form]


def test_without_a_known_error_the_advice_is_shown() -> None:
    """The notice is then the nearest thing."""
    answer = made(root_cause=finding(look_in=LookIn("the error", "the other log")))

    assert "CLOSEST MATCH" in answers.text(answer)
    assert "  Where to look\n    Check the other log for the error.\n" in answers.text(answer)
    assert "Where to look" in answers.cause(answer).html
    assert "Where to look" not in answers.cause(made()).html


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"starts": ()}, "does not look like the log of a vLLM"),
        ({"outcome": Outcome.UNKNOWN}, "Diagnose the complete log of all processes."),
        ({"first_error": Quote(0, 1, 1, "E")}, "The first error is not in the catalog yet"),
        ({}, "Diagnose the logs of all processes and nodes"),
        ({"outcome": Outcome.READY}, None),
    ],
)
def test_answers_without_a_cause(more: dict[str, Any], said: str | None) -> None:
    """Each kind has its advice; a healthy launch needs none."""
    answer = made(root_cause=None, findings=(), remedies=(), hidden={}, **more)

    assert ("\n? " in answers.text(answer)) is (said is not None)
    assert (said or "healthy") in " ".join(answers.cause(answer).plain.split())
    if said:
        assert said in " ".join(answers.text(answer).split())
    assert answers.checks(answer).plain.startswith("Nothing to verify")
    if said is None:
        assert answers.remedies(answer).plain == "No change is needed."
        assert answers.checks(answer).plain.startswith("Nothing to verify: the launch is healthy.")
    else:
        lead = "line 1: E" if answer.first_error else said
        for view in (answers.remedies, answers.checks):
            assert lead in view(answer).plain
            assert lead in view(answer).html
        assert answers.remedies(answer).plain.startswith("No known fix. ")
    if answer.first_error:
        assert answers.cause(answer).plain.startswith("FIRST UNEXPLAINED ERROR: read this first\n  line 1")
    assert "No other findings. No lines left out." in answers.others(answer).plain


def test_empty_sections_are_not_shown() -> None:
    """No heading without something below it."""
    bare = finding(conditions=Conditions(), explanation="")
    answer = made(root_cause=bare, findings=(bare,))

    assert "Conditions" not in answers.text(answer)
    assert "Why" not in answers.text(answer)
    assert answers.checks(answer).plain == "verify by: It is.\nruled out if: It is not."
    assert answers.remedies(made(root_cause=None)).plain.startswith("FIXES")


def test_a_cause_without_remedies_has_its_first_action() -> None:
    """And how to verify it."""
    answer = made(remedies=())

    assert answers.remedies(answer).plain == "Do first. Compare."
    assert "FIXES" not in answers.text(answer)
    assert "ruled out if: It is not." in answers.checks(answer).plain


def test_several_launches_and_files_are_distinguished() -> None:
    """By number, lines and file."""
    starts = (ServerRunSummary(0, 1, 9, Outcome.FAILED, finding()), ServerRunSummary(1, 1, 5, Outcome.READY, None))
    answer = made(files=("a.log", "b.log"), starts=starts, vllm=Release())
    again = replace(answer, starts=(*starts, replace(starts[1], first_line=6)))
    alone = made(starts=(starts[0], starts[0]))

    assert "2 LOGS OF ONE LAUNCH\n  a.log  lines 1-9  failed  The weights do not fit\n" in answers.text(answer)
    assert "STARTS" not in answers.text(answer)
    assert "3 LAUNCHES (showing the last of each file; --start N selects another)\n  1  a.log" in answers.text(again)
    assert "2 LAUNCHES (showing the last; --start N selects another)\n  1  lines 1-9  failed" in answers.text(alone)
    assert "a.log:7 and a.log:9: CUDA out of memory" in answers.text(answer)
    assert "vLLM release unknown" in answers.starts(answer).plain
    assert "b.log" in answers.starts(answer).html
    assert "STARTS" not in answers.starts(made()).plain


def test_facts_have_their_units() -> None:
    """All figures, or one sentence if there is none."""
    facts = Facts(
        max_concurrency=5033.62, max_concurrency_tokens=128, kv_cache_blocks=40269, max_model_len=131072,
        generation_tokens_per_s_max=165.0, kv_cache_tokens=16576, kv_cache_tokens_meaning="full-length",
    )  # fmt: skip
    plain = answers.facts(made(facts=facts)).plain

    assert "max concurrency: 5033.62x for 128 tokens per request" in plain
    assert "KV cache blocks: 40,269 blocks" in plain
    assert "max_model_len: 131,072 tokens" in plain
    assert "peak generation throughput: 165 tokens/s" in plain
    assert "KV cache size: 16,576 tokens (max concurrency x max_model_len)" in plain
    assert "log has no vLLM figures" in answers.facts(made()).plain


@pytest.mark.parametrize(
    ("captures", "parts"),
    [
        ({"total_gib": "24.0", "tried_gib": "2.0", "free_gib": "1.0", "in_use_gib": "20.0", "allocated_gib": "18.0",
          "reserved_mib": "1024.0"},
         ["allocated by PyTorch 18.00", "reserved by PyTorch, unallocated 1.00", "this process, outside PyTorch 1.00",
          "other processes 3.00", "free 1.00", "requested 2.00", "total 24.00"]),
        ({"total_gib": "24.0", "tried_kib": "1048576", "free_bytes": "1073741824"},
         ["not stated 23.00", "free 1.00", "requested 1.00", "total 24.00"]),
        ({"total_gib": "24.0", "tried_gib": "2.0", "in_use_gib": "24.0"},
         ["this process 24.00", "requested 2.00", "total 24.00"]),
        ({"total_gib": "24.0"}, None),
        ({"total_gib": "many", "tried_gib": "2.0"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_the_memory_at_the_failure_sums_up(captures: dict[str, str], parts: list[str] | None) -> None:
    """Only figures in the message, as parts of the total."""
    shown = answers.memory(made(root_cause=finding(captures=captures)))

    if parts is None:
        assert shown.plain.startswith("The log has no memory figures")
    else:
        assert [" ".join(line.split()).removesuffix(" GiB") for line in shown.plain.splitlines()] == parts
        assert "<svg" in shown.html
    assert answers.memory(made(root_cause=None)).plain.startswith("The log has no memory figures")


def test_the_timeline_shows_each_phase() -> None:
    """Of the last or the requested launch; a log without phases has a message."""
    starts: list[ServerRun] = diagnosing.read(sources.load("tiny-cpu-two-starts"))

    assert "load the weights" in render.starts.timeline(starts).plain
    assert render.starts.timeline(starts, start=1).plain != render.starts.timeline(starts).plain
    assert render.starts.timeline([]).plain == "The log has no startup phases."


def test_bars_stay_inside_their_frame() -> None:
    """For any number and size of shares."""
    svg = drawing.bars(
        [(str(i), share) for i, share in enumerate((0.5, -1.0, 7.0, 0.1, 0.1, 0.1, 0.1, 0.1))], width=100
    )

    assert svg.count("<rect") == 9
    assert 'width="-' not in svg


def test_code_in_a_sentence_of_the_catalog_is_formatted() -> None:
    """Text between backticks becomes code, and markup in it is escaped."""
    sentence = "Lower `max_num_seqs`, not `<b>this</b>`."

    shown = answers.cause(made(root_cause=finding(explanation=sentence))).html

    assert "<code>max_num_seqs</code>, not <code>&lt;b&gt;this&lt;/b&gt;</code>." in shown


def test_several_ranks_are_a_table() -> None:
    """A row per rank, with empty cells for unknown figures; one rank has no table."""
    ranks = (
        RankFacts(0, None, None, weights_gib=1.4495, kv_cache_gib=8.6),
        RankFacts(1, "VllmWorkerProcess", 2994, weights_gib=1.4495),
    )

    shown = answers.text(made(ranks=ranks, facts=Facts(kv_cache_gib=8.6)))

    assert "RANKS, in GiB\n  rank  weights  KV cache\n     0     1.45      8.60\n     1     1.45          \n" in shown
    assert "By rank" in answers.facts(made(ranks=ranks, facts=Facts(kv_cache_gib=8.6))).html
    assert "RANKS" not in answers.text(made(ranks=ranks[:1]))


def cells_of(page: str) -> list[str]:
    """The cells of a page's tables, as HTML."""
    return re.findall(r"<t[dh](?: [^>]*)?>(.*?)</t[dh]>", page, re.DOTALL)


def said_in(page: str) -> str:
    """The text of a page without its elements, in one line."""
    return " ".join(Tags(page.replace("</div>", " </div>").replace("</p>", " </p>")).text.split())


@pytest.mark.parametrize(
    ("last", "more", "said"),
    [
        ((), {}, "no sign of vLLM yet"),
        (("load",), {"outcome": Outcome.UNKNOWN, "root_cause": None}, "line 9: load the weights; no problems so far"),
        ((None,), {"outcome": Outcome.UNKNOWN, "root_cause": None}, "line 9: begun; no problems so far"),
        (("other",), {"outcome": Outcome.UNKNOWN, "root_cause": None}, "line 9: begun; no problems so far"),
        (("load",), {"root_cause": None}, "line 9: failed; cause unknown so far"),
        (("load",), {"outcome": Outcome.HUNG, "root_cause": None}, "line 9: hung; cause unknown so far"),
        (("load",), {"outcome": Outcome.READY, "root_cause": None}, "line 9: ready; no problems so far"),
        (("load",), {}, "line 9: failed; The weights do not fit (oom.weights, confirmed)"),
        (("load",), {"outcome": Outcome.UNKNOWN},
         "line 9: load the weights; The weights do not fit (oom.weights, confirmed)"),
    ],
)  # fmt: skip
def test_a_launch_in_progress_has_one_line(last: tuple[str | None, ...], more: dict[str, Any], said: str) -> None:
    """The place of the last launch, and its problem so far."""
    earlier = ServerRunSummary(0, 1, 4, Outcome.FAILED, None, "serve")
    starts = tuple(ServerRunSummary(0, 5, 9, Outcome.UNKNOWN, None, phase) for phase in last)

    assert answers.interim(made(starts=(earlier, *starts) if starts else (), **more)) == said


def test_omissions_are_counted_by_kind() -> None:
    """With singulars, without zeros; an unknown kind has its own name."""
    one = dict.fromkeys(("benign", "earlier_start", "consequence", "wrapper", "odd"), 1)
    left = "Not shown: "

    assert answers.text(made(hidden=one)).endswith(
        f"{left}1 known harmless line, 1 earlier launch, 1 line of a rank that waits for or lost another rank, "
        "1 notice that another process ended and 1 odd.\n"
    )
    assert answers.others(made(hidden={**dict.fromkeys(one, 2), "benign": 0})).plain == (
        f"No other findings. {left}0 known harmless lines, 2 earlier launches, "
        "2 lines of ranks that wait for or lost other ranks, 2 notices that other processes ended and 2 odd."
    )
    assert "left out" not in answers.text(made(hidden={}))


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        (("passed", "passed", "passed"), "Passed lint, plan and vLLM's parser."),
        (("unknown: a", "unknown: b", "c"), "Not checked by lint (a), plan (b) and vLLM's parser (c)."),
        (
            ("passed", "unknown: b", "passed"),
            "Passed lint and vLLM's parser. Not checked by plan (b).",
        ),
        (("unknown: a", "unknown: a", "unknown: c"), "Not checked (a)."),
    ],
)
def test_checkers_are_named(checks: tuple[str, str, str], said: str) -> None:
    """Who checked, and who did not and why; once if equal for all fixes, else by number."""
    first = remedy(checks=Checks(*checks))
    other = remedy(checks=Checks("passed", "unknown: z", "unknown: z"))
    tail = "Passed lint. Not checked by plan (z) and vLLM's parser (z)."

    alike = " ".join(answers.remedies(made(remedies=(first, first))).plain.split())
    assert alike.endswith(f"Cost: throughput {said}")
    apart = answers.remedies(made(remedies=(first, other, first)))
    assert " ".join(apart.plain.split()).endswith(f"Cost: throughput Fixes 1, 3: {said} Fix 2: {tail}")
    edits = "NCCL_DEBUG=WARN --max-num-seqs 64 (remove --swap-space)"
    assert said_in(apart.html).endswith(f"Cost: throughput {edits}Fixes 1, 3: {said} Fix 2: {tail}")


def test_a_fix_has_its_changes_and_its_command() -> None:
    """The changes as flags to paste, the command folded for copying, notes at the end."""
    edits = (Edit("set", "sizes", [1, "ü"]), Edit("set", "eager", True), Edit("set", "name", "x y"))
    answer = made(remedies=(remedy(edits=edits, command="vllm \\\n  serve"), remedy(edits=())), notes=("One.", "Two."))
    ways = (
        "FIXES, best first\n  1. Serve fewer\n"
        "       --sizes 1 'ü' --eager --name 'x y'\n     Cost: throughput\n\n       vllm \\\n         serve\n\n"
        "  2. Serve fewer\n     Cost: throughput\n"
        "  Passed lint. Not checked by plan (no planner) and vLLM's parser (not run)."
    )  # fmt: skip

    assert answers.remedies(answer).plain == f"Do first. Compare.\n\n{ways}\n\nNOTES\n  One.\n  Two."
    assert f"{ways}\n\nNOTES\n  One.\n  Two.\n\nNot shown: " in answers.text(answer)
    page = answers.remedies(answer).html
    codes = [re.sub("<[^>]*>", "", code) for code in re.findall("<code[^>]*>(.*?)</code>", page, re.DOTALL)]
    assert codes == ["--sizes 1 &#x27;ü&#x27; --eager --name &#x27;x y&#x27;", "vllm \\\n  serve"]
    assert said_in(page).startswith("Do first. Compare. 1. Serve fewer Cost: throughput --sizes")
    assert said_in(page).endswith("Note. One. Note. Two.")
    one = answers.remedies(replace(answer, notes=("One.",), remedies=(), root_cause=None))
    assert one.plain.endswith("If they are complete, the symptom is not in the catalog.\n\nNOTE\n  One.")
    assert said_in(one.html).endswith("not in the catalog. Note. One.")
    nameless = answers.remedies(replace(answer, root_cause=None, notes=()))
    assert nameless.plain.startswith("FIXES")
    assert "Do first" not in nameless.html
    assert "Note" not in nameless.html


def test_the_cause_is_a_separate_page() -> None:
    """How sure it is in its colour, title, symptom, the evidence with its places, and why."""
    tones = {Level.CONFIRMED: elements.RED, Level.PROBABLE: elements.AMBER, Level.POSSIBLE: elements.BLUE}
    for level, tone in tones.items():
        page = answers.cause(made(root_cause=finding(level=level))).html
        assert f"background:{tone};" in page
        assert said_in(page) == (
            f"{level.value} The weights do not fit oom.weights lines 7 and 9CUDA out of memory line 8else "
            "The GPU was full."
        )
    unexplained = made(root_cause=None, first_error=Quote(0, 2, 1, "E: <x>"))
    shown = answers.cause(unexplained)
    lead = "No cause found in this log. The first error is not in the catalog yet. Search for its message."
    assert shown.plain == f"FIRST UNEXPLAINED ERROR: read this first\n  line 2: E: <x>\n\n{lead}"
    assert said_in(shown.html) == f"{lead} First unexplained error: line 2E: <x>"
    healthy = answers.cause(made(root_cause=None, outcome=Outcome.READY))
    assert healthy.plain == "The launch is healthy (ready): no root cause."
    assert said_in(healthy.html) == healthy.plain


def test_confirmation_of_the_cause_is_a_table() -> None:
    """Each condition with its mark, then how to verify and what rules it out."""
    shown = answers.checks(made())

    assert shown.plain == (
        "met: one GPU\nnot met: not this\nunknown from this log: nor that\nverify by: It is.\nruled out if: It is not."
    )
    assert cells_of(shown.html) == [
        "", "", "✓ met", "one GPU", "✗ not met", "not this", "? unknown from this log", "nor that",
        "verify by", "It is.", "ruled out if", "It is not.",
    ]  # fmt: skip


def test_launches_are_a_table_with_their_outcomes() -> None:
    """Number, file, lines and cause; the release below, also if it was not printed."""
    causes = (finding(), None, None, None, None)
    outcomes = (Outcome.FAILED, Outcome.READY, Outcome.RUNNING, Outcome.HUNG, Outcome.UNKNOWN)
    starts = tuple(
        ServerRunSummary(0, n, n + 8, outcome, why)
        for n, (outcome, why) in enumerate(zip(outcomes, causes, strict=True), 1)
    )
    shown = answers.starts(made(starts=starts))

    assert [re.sub("<[^>]*>", "", cell) for cell in cells_of(shown.html)[:15]] == [
        "start", "file", "lines", "outcome", "root cause", "1", "a.log", "1-9", "failed", "The weights do not fit",
        "2", "a.log", "2-10", "ready", "",
    ]  # fmt: skip
    assert re.findall("background:([^;]*);", shown.html) == [
        elements.RED, elements.GREEN, elements.GREEN, elements.RED, elements.AMBER,
    ]  # fmt: skip
    assert said_in(shown.html).endswith("vLLM release: 0.11.0 (printed)")
    assert shown.plain.startswith("a.log  ·  vLLM 0.11.0 (printed)  ·  FAILED\n5 LAUNCHES (showing the last;")
    unprinted = answers.starts(made(starts=starts, vllm=Release()))
    assert said_in(unprinted.html).endswith("vLLM release: unknown: not in the log")
    alone = answers.starts(made(vllm=Release()))
    assert (alone.plain, alone.is_nothing) == ("a.log  ·  vLLM release unknown  ·  FAILED", True)


def test_other_findings_are_a_table_in_color() -> None:
    """Fatal, degraded and hints without the cause; omissions are below."""
    hints = [finding(symptom=severity.value, severity=severity, title=severity.value) for severity in Severity]
    answer = made(findings=(finding(), *hints), hidden={"benign": 1})
    shown = answers.others(answer)

    assert shown.plain == (
        "  fatal: fatal (line 7)\n    The GPU was full.\n  degraded: degraded (line 7)\n    The GPU was full.\n"
        "  hint: hint (line 7)\n    The GPU was full.\nNot shown: 1 known harmless line."
    )
    assert re.findall("background:([^;]*);", shown.html) == [elements.RED, elements.AMBER, elements.BLUE]
    assert cells_of(shown.html)[:2] == ["", "finding"]
    assert cells_of(shown.html)[3] == "<b>fatal</b><br>The GPU was full."
    assert said_in(shown.html).endswith("Not shown: 1 known harmless line.")
    assert f"ALSO FOUND\n{shown.plain.rpartition(chr(10))[0]}\n\n" in answers.text(answer)


def test_facts_are_a_table_and_ranks_another() -> None:
    """A rank that is not named is unknown, and a figure that no rank printed has no column."""
    ranks = (
        RankFacts(None, None, None, weights_gib=1.0),
        RankFacts(3, None, None, weights_gib=2.125, kv_cache_gib=8.6),
    )
    shown = answers.facts(made(facts=Facts(weights_gib=1.0), ranks=ranks))

    assert shown.plain == "weights: 1 GiB\nrank  weights  KV cache\nunknown  1.00  \n3  2.12  8.60"
    assert cells_of(shown.html) == [
        "figure", "printed", "weights", "1 GiB", "rank", "weights", "KV cache", "unknown", "1.00", "", "3", "2.12",
        "8.60",
    ]  # fmt: skip
    assert "By rank" not in answers.facts(made(facts=Facts(weights_gib=1.0), ranks=ranks[:1])).html


@pytest.mark.parametrize(
    ("free", "in_use", "rest"),
    [("4.0", "20.0", []), ("3.996", "20.0", []), ("3.994", "20.0", ["other processes"]), (None, "19.0", ["not stated"]),
     ("4.0", None, ["not stated"]), ("9.0", "20.0", [])],
)  # fmt: skip
def test_the_remaining_memory_is_named_if_visible(free: str | None, in_use: str | None, rest: list[str]) -> None:
    """From half a hundredth of a GiB; other processes only with a known remainder."""
    captures = {"total_gib": "24.0", "tried_gib": "2.0", "free_gib": free, "in_use_gib": in_use}
    given = {name: value for name, value in captures.items() if value is not None}
    shown = answers.memory(made(root_cause=finding(captures=given))).plain

    assert [name for name in ("other processes", "not stated") if name in shown] == rest


def test_memory_at_the_failure_has_the_colors_of_its_table() -> None:
    """520 pixels for the whole GPU; free memory is the background, the request is not a part."""
    captures = {
        "total_gib": "26.0",
        "tried_gib": "2.0",
        "free_gib": "1.0",
        "in_use_gib": "20.0",
        "allocated_gib": "18.0",
    }
    shown = answers.memory(made(root_cause=finding(captures=captures)))

    drawn = re.findall(r'x="([^"]*)" y="0.0" width="([^"]*)" height="26.0" fill="([^"]*)"><title>([^<]*)<', shown.html)
    assert [(x, wide, name) for x, wide, _, name in drawn] == [
        ("0.0", "360.0", "allocated by PyTorch"),
        ("360.0", "40.0", "this process, outside PyTorch"),
        ("400.0", "100.0", "other processes"),
    ]
    for _, _, fill, name in drawn:
        assert f'fill="{fill}"' in next(cell for cell in cells_of(shown.html) if cell.endswith(name))
    assert [re.sub("<svg.*</svg> ", "", cell) for cell in cells_of(shown.html)] == [
        "", "GiB", "allocated by PyTorch", "18.00", "this process, outside PyTorch", "2.00", "other processes", "5.00",
        "free", "1.00", "<b>requested</b>", "<b>2.00</b>", "total", "26.00",
    ]  # fmt: skip
    assert shown.plain.startswith("  allocated by PyTorch                18.00 GiB\n")


def test_the_timeline_prefers_printed_durations() -> None:
    """Tenths of seconds, the place, and a bar of up to 180 pixels; else unknown."""
    start = diagnosing.read(sources.load("tiny-cpu-served"))[0]
    quote = Quote(0, 4, 1, "x")
    start = replace(start, timeline=(
        Phase("load", quote, "01-02 03:04:05", 9.0, 2.5), Phase("odd", replace(quote, line=7), None, 5.0),
        Phase("serve", replace(quote, line=12), None, None), Phase("compile", quote, None, 0.0),
    ))  # fmt: skip
    shown = render.starts.timeline([start])

    assert shown.plain == (
        "  load the weights            2.5 s  line 4\n  odd                         5.0 s  line 7\n"
        "  open the server           unknown  line 12\n  compile                     0.0 s  line 4"
    )
    assert [re.sub("<svg.*</svg>", "bar", cell) for cell in cells_of(shown.html)] == [
        "phase", "line", "began", "took", "", "load the weights", "4", "01-02 03:04:05", "2.5 s", "bar",
        "odd", "7", "", "5.0 s", "bar", "open the server", "12", "", "unknown", "", "compile", "4", "", "0.0 s", "",
    ]  # fmt: skip
    widths = re.findall('width="([^"]*)" height="12" fill="#0969da"', shown.html)
    assert widths == ["90.0", "180.0"]
    assert render.starts.timeline([replace(start, timeline=())]).plain == "The log has no startup phases."
    assert render.starts.timeline([start, replace(start, timeline=())], start=1).plain == shown.plain


def bare(**more: Any) -> ServerRun:
    start = diagnosing.read(sources.load("tiny-cpu-served"))[0]
    return replace(start, **{"facts": Facts(), "arguments": {}, "timeline": (), "throughput": (), **more})


def test_tables_of_launches_leave_unprinted_figures_empty() -> None:
    """Phases in whole seconds, memory with its budget, rates of fully busy lines."""
    phases = (Phase("load", Quote(0, 1, 1, "x"), None, 2.6, 9.0), Phase("serve", Quote(0, 1, 1, "x"), None, None))
    one, two = bare(timeline=phases), bare(timeline=phases[:1])
    assert [line.rstrip() for line in render.starts.timelines([one, two]).plain.splitlines()] == [
        "phase               1    2", "load the weights  3 s  3 s", "open the server",
    ]  # fmt: skip

    facts = Facts(weights_gib=4.0, kv_cache_gib=5.0, cuda_graph_gib=0.5, gpu_memory_utilization=0.5)
    rows = [bare(facts=facts), bare(facts=replace(facts, kv_cache_gib=None)), bare(facts=Facts(weights_gib=4.0))]
    shown = render.starts.memories(rows, gpu_gib=20.0)
    assert [line.split() for line in shown.plain.splitlines()[1:4]] == [
        ["1", "4.00", "5.00", "0.50", "10.00", "1.00", "20.00"], ["2", "4.00", "0.50", "10.00", "20.00"],
        ["3", "4.00", "20.00"],
    ]  # fmt: skip
    assert shown.plain.splitlines()[0].split() == [
        "GiB", "weights", "KV", "cache", "CUDA", "graphs", "budget", "other", "GPU",
    ]  # fmt: skip
    assert "The budget (a mark in the picture)" in shown.plain

    rates = tuple(Throughput(n, 0.0, rate, 1, 0, None) for n, rate in enumerate((9.0, 4.5, 8.0), 1))
    shown = render.starts.throughputs([bare(throughput=rates), bare(), bare(throughput=rates[:1])])
    assert [line.split() for line in shown.plain.splitlines()[1:4]] == [
        ["1", "3", "2", "4.5", "to", "8", "9"], ["2", "0", "0"], ["3", "1", "0", "unknown", "9"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "shown"),
    [("a" * 28, "a" * 28), ("a" * 13 + "b" * 16, "a" * 12 + "…" + "b" * 15), ([1, "ü"], '[1, "ü"]'), ("a \n b", "a b"),
     (True, "true")],
)  # fmt: skip
def test_settings_have_both_values(value: object, shown: str) -> None:
    """As JSON unless they are strings, cut to 28 letters."""
    table = render.starts.settings([bare(arguments={"x": value, "model_tag": "a"}), bare()]).plain.splitlines()

    assert [line.split(maxsplit=1) for line in table[1:-1]] == [["x", shown]]


def test_comparisons_have_a_reason() -> None:
    """One launch, or none, cannot be compared."""
    assert render.starts.comparable([bare()]).plain == "Only one launch: nothing to compare."
    assert render.starts.comparable([]).plain == "The log has no vLLM launch."
    shown = render.starts.comparable([bare(), bare()])
    first = shown.plain.splitlines()[0]
    assert first == "  weights and KV cache in GiB  yes      memory used on the GPU, measured alike in every launch"
    assert cells_of(shown.html)[:3] == ["figure", "comparable", "why"]
    assert f"background:{elements.GREEN};" in cells_of(shown.html)[4]
    none = render.starts.side_by_side([bare(facts=Facts(weights_gib=4.0)), bare()]).plain.splitlines()
    assert none[0].split() == ["figure", "1", "2"]
    assert none[2].split() == ["weights", "4", "GiB"]
    assert none[-1] == "Empty cell: not printed by this launch."


@pytest.mark.parametrize(
    ("captures", "gib"),
    [
        ({"free_gib": "1,024.5"}, 1024.5), ({"free_mib": "1536"}, 1.5), ({"free_kib": "1048576"}, 1.0),
        ({"free_bytes": "2147483648"}, 2.0), ({"free_gib": "x", "free_mib": "1"}, None), ({"freed_gib": "1"}, None),
        ({"free_gib": "2", "free_mib": "1024"}, 2.0),
    ],
)  # fmt: skip
def test_printed_memory_is_parsed_with_its_unit(captures: dict[str, str], gib: float | None) -> None:
    """GiB first; an invalid number is unknown."""
    assert figures.printed_gib(captures, "free") == gib


def test_the_gpus_memory_is_the_logs_or_the_given_one() -> None:
    """The printed value first; zero and negative ones are unknown."""
    assert figures.gpu_total(Facts(gpu_total_gib=23.5), None, 48.0) == 23.5
    assert figures.gpu_total(Facts(), None, 48.0) == 48.0
    assert [figures.gpu_total(Facts(), None, gib) for gib in (0.0, -1.0)] == [None, None]


def test_tables_and_lines_have_their_layout() -> None:
    """Right-aligned numbers, notes below their row, cut lines, no breaks at hyphens."""
    page = elements.html_table(["<a>", "n"], [["x", "1"], ["y", "2"], ["z", "3"]], numeric=[1], below=["<b>", ""])

    assert re.findall("text-align:(left|right)[^>]*>([^<]*)<", page) == [
        ("left", "&lt;a&gt;"), ("right", "n"), ("left", "x"), ("right", "1"), ("left", "&lt;b&gt;"), ("left", "y"),
        ("right", "2"), ("left", "z"), ("right", "3"),
    ]  # fmt: skip
    assert page.count("font-weight:600") == 2
    assert '<td colspan="2"' in page
    assert page.endswith("</tbody></table>")
    assert "max-width:52em" in page
    assert elements.cut("a  b\n" + "x" * 156) == "a b " + "x" * 156
    assert elements.cut("x" * 161) == "x" * 159 + "…"
    assert elements.cut("abcd", 3) == "ab…"
    shown = elements.grid(["a", "bb"], [["ccc", "1"], ["d", "22222"]], "Below.", is_numeric=True)
    assert shown.plain == "a       bb\nccc      1\nd    22222\nBelow."
    assert "max-width:none" in shown.html
    assert elements.grid(["a", "bb"], [["ccc", "1"]]).plain == "a    bb\nccc  1"
    assert elements.wrap(f"{'x' * 70} one-two-three", "    ") == f"    {'x' * 70}\n    one-two-three"
    assert elements.wrap(f"{'x' * 70} one-two", "  ", "- ") == f"- {'x' * 70} one-two"
    assert elements.prose("`a<`, `" + "b" * 201 + "`") == "<code>a&lt;</code>, `" + "b" * 201 + "`"
    assert elements.verdict(elements.Headline("fits", "<b>: c"), "#123").count("<b>&lt;b&gt;: c</b>") == 1


def test_the_document_is_indented_by_two_and_keeps_its_letters() -> None:
    """A reader's eyes are enough."""
    said = render.to_json(made(files=("ü.log",)))

    assert re.match(r'\{\n  "', said)
    assert '\n    "ü.log"\n' in said
