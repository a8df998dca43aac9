"""Findings become one answer: computed remedies, several logs, restarts, verdicts."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks import render
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.records import Condition, RemedyText
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Case, Document, Evidence, Expectation
from vllm_runbooks.core.records import Answer, Checks, Edit, Facts, Finding, Level, Outcome, Remedy, Verdict
from vllm_runbooks.diagnosis import diagnosing, memory, remedies, several_logs
from vllm_runbooks.diagnosis import expected as diagnosis_expected
from vllm_runbooks.diagnosis.answer import answer
from vllm_runbooks.lint import knowledge, linted_text
from vllm_runbooks.reading import arguments, documents, sources

PORT = "OSError: [Errno 98] Address already in use"
NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."
WRAPPED = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
READY = "INFO:     Started server process [7]\nINFO:     Application startup complete.\n"
ARGUMENTS = "INFO 11-20 08:00:00 [utils.py:233] non-default args: {'model': 'm', 'gpu_memory_utilization': 0.9}"


def shelf() -> Catalog:
    return catalog.load_catalog(())


def diagnose(*texts: str, **more: Any) -> Answer:
    documents = tuple(Document(f"rank{i}.log", text) for i, text in enumerate(texts))
    return answer(Evidence(documents, **more), shelf(), knowledge.knowledge)


def cause(found: Answer) -> Finding:
    assert found.root_cause is not None
    return found.root_cause


def offered(remedy: RemedyText, arguments: dict[str, Any], captures: dict[str, str] | None = None) -> Any:
    """The edits of a remedy for these arguments; None if it is not offered."""
    base = cause(diagnose(PORT))
    symptoms = {**shelf().symptoms}
    symptoms["port.in_use"] = dataclasses.replace(symptoms["port.in_use"], remedies=(remedy,))
    found = remedies.of_cause(
        dataclasses.replace(base, captures=captures or {}), Catalog(symptoms, ()), Facts(max_model_len=4096), arguments
    )
    return [(e.name, e.value) for e in found[0].edits] if found else None


def change(value: Any, name: str = "x", **more: Any) -> RemedyText:
    return RemedyText("title", "cost", (Edit("set", name, value),), **more)


@in_one_test(
    ("value", "present", "wanted"),
    [
        ({"lower_by": 0.05}, 0.9, 0.85),
        ({"lower_by": 0.05}, None, []),
        ({"lower_by": 0.05}, 0.06, None),
        ({"lower_to": 64}, None, 64),
        ({"lower_to": 64}, 256, 64),
        ({"lower_to": 64}, 64, 32),
        ({"lower_to": 64}, 1, None),
        ({"raise_to": 2}, None, 2),
        ({"raise_to": 2}, 1, 2),
        ({"raise_to": 2}, 4, 8),
        ({"at_least": 0.95}, None, 0.95),
        ({"at_least": 0.95}, 0.9, 0.95),
        ({"at_least": 0.95}, 0.97, None),
        ({"share": "free_gib/total_gib"}, 0.9, 0.8),
        ({"share": "free_gib/used_gib"}, 0.9, []),
        ({"share": "small_gib/total_gib"}, 0.9, None),
        ("{estimated_tokens}", 131072, 104844),
        ("{nothing_tokens}", 131072, []),
        ("fp8", "auto", "fp8"),
        ("fp8", "fp8", None),
        (True, True, None),
        (True, None, True),
        ({"lower_to": 64}, True, 64),
        ({"{modality}": 0}, {"image": 10}, {"image": 10, "video": 0}),
        ({"{modality}": 0}, '{"image": 10}', {"image": 10, "video": 0}),
        ({"{modality}": 0}, None, {"video": 0}),
        ({"{modality}": 0}, {"video": 0}, None),
        ({"{modality}": 0}, "no json", []),
        ({"{modality}": 0}, "[1]", []),
    ],
)
def test_a_value_follows_from_the_present_one(value: Any, present: Any, wanted: Any) -> None:
    """None: not offered, since nothing would change; []: offered, but no value is invented."""
    captures = {
        "free_gib": "3.22", "total_gib": "4.0", "small_gib": "0.1", "used_gib": "0", "estimated_tokens": "104,844",
        "modality": "video",
    }  # fmt: skip
    found = offered(change(value), {} if present is None else {"x": present}, captures)

    assert found == (wanted if wanted is None or wanted == [] else [("x", wanted)])


def test_a_remedy_needs_its_inputs() -> None:
    """Without it, it is not offered; a title with an unknown value neither."""
    assert offered(change(1, needs=("modality",)), {}) is None
    assert offered(RemedyText("do not send {modality}", "cost"), {}) is None
    assert offered(RemedyText("t", "c", (Edit("remove", "swap_space"), Edit("env", "A", "b"))), {}) == [
        ("swap_space", None),
        ("A", "b"),
    ]


def test_a_fact_replaces_an_argument() -> None:
    """For example, the context is also printed without the argument."""
    assert offered(change({"lower_to": 8192}, "max_model_len"), {}) == [("max_model_len", 2048)]


def test_without_a_cause_there_is_no_remedy() -> None:
    """The answer says that the cause is unknown."""
    found = diagnose("words\n")

    assert (found.outcome, found.root_cause, found.remedies, found.starts) == (Outcome.UNKNOWN, None, (), ())
    assert found.vllm.source == "unknown"
    assert diagnose("words\n", vllm="0.11.0").vllm.source == "given"


def test_the_first_log_with_a_cause_explains_the_others() -> None:
    """For any order of files; ranks that only lost a peer are counted."""
    lost = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:4123"
    found = diagnose(WRAPPED, lost, NO_BLOCKS)

    assert (cause(found).symptom, cause(found).evidence[0].file) == ("kv.no_blocks", 2)
    assert [f.symptom for f in found.findings] == ["kv.no_blocks"]
    assert found.hidden["consequence"] >= 2
    assert len(found.starts) == 3
    assert found.first_error is None


def test_without_a_cause_the_first_notice_answers() -> None:
    """And the first unexplained error of any of them is shown."""
    unknown = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: something else\n'
    found = diagnose(WRAPPED, unknown + WRAPPED)

    assert cause(found).symptom == "engine.dead_wrapper"
    assert found.first_error is None or found.first_error.file == 1


def test_two_healthy_logs_are_healthy() -> None:
    """One failing among them decides."""
    assert (diagnose(READY, READY).outcome, diagnose(READY, READY).root_cause) == (Outcome.READY, None)
    assert diagnose(READY, NO_BLOCKS).outcome is Outcome.FAILED


def test_a_rejected_request_is_the_cause_only_without_a_failure() -> None:
    """It is in one of several logs of a healthy deployment, but not next to a failure."""
    refused = (
        "ERROR 11-20 08:00:00 [serving.py:1] This model's maximum context length is 512 tokens. "
        "However, your request has 600 input tokens.\n"
    )

    assert cause(diagnose(READY + refused)).class_ == "api.context_overflow"
    assert cause(diagnose(READY, READY + refused)).class_ == "api.context_overflow"
    assert cause(diagnose(READY + refused, NO_BLOCKS)).class_ == "kv.no_blocks"
    assert cause(diagnose(READY + refused, WRAPPED)).class_ == "engine.dead_wrapper"


def titles(*texts: str) -> str:
    return " | ".join(remedy.title for remedy in diagnose(*texts).remedies)


def too_long(need: str, have: str) -> str:
    return (
        "ERROR 11-20 08:00:00 [core.py:1] ValueError: To serve at least one request with the model's "
        f"max seq len (131072), ({need} GiB KV cache is needed, which is larger than "
        f"the available KV cache memory ({have} GiB).\n"
    )


def test_no_fix_contradicts_the_figures_of_the_log() -> None:
    """Halving is not offered if less than half is available."""
    near, far = titles(too_long("3.6", "2.0")), titles(too_long("4.0", "2.0"))
    tokens = (
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens "
        "that can be stored in KV cache"
    )

    for title in ("Store the KV cache in FP8", "Shard the model across 2 GPUs"):
        assert title in near
        assert title not in far
        assert title in titles(f"{tokens} (20480).")
        assert title not in titles(f"{tokens} (2048).")
    assert "Shard the model across 4 GPUs" in far
    assert titles(f"{tokens} (20480).").startswith("Lower max_model_len to 20224 ")


def test_a_share_is_not_offered_if_the_size_was_set() -> None:
    """A log of a CPU server says so."""
    said = "INFO 11-20 08:00:00 [cpu_worker.py:260] Explicitly set (1.0/11.71) GiB for KV cache on node 0.\n"
    size = (
        "ERROR 11-20 08:00:00 [core.py:1] ValueError: Available memory on node 0 (10.04/11.71 GiB) on kv cache "
        "allocation is less than requested memory for kv (500.0 GiB). Decrease --kv-cache-memory-bytes, or "
        "VLLM_CPU_KVCACHE_SPACE."
    )

    assert "Raise gpu_memory_utilization" not in titles(said + too_long("2.0", "1.0"))
    assert "Raise the KV cache size from 1.0 GiB to 2.1 GiB" in titles(said + too_long("2.0", "1.0"))
    assert titles(size).startswith("Lower kv-cache-memory-bytes, the configured KV cache size")


def test_a_share_is_not_computed_from_another_processs_memory() -> None:
    """That wording's budget is not a share of the whole memory."""
    line = "ValueError: Free memory on device cuda:0 (5.01/23.56 GiB) on startup is less than {} (0.9, 11.2 GiB)."
    own = diagnose(line.format("desired GPU memory utilization"))
    other = diagnose(line.format("the engine's budget after excluding external process's weights"))

    assert [e.value for r in own.remedies for e in r.edits] == [0.2]
    assert [e.value for r in other.remedies for e in r.edits] == []
    assert "step by step" in other.remedies[1].title


UNEXPLAINED = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: something else\n'


def test_a_finding_in_a_healthy_log_does_not_explain_another_log() -> None:
    """The failed log's error stays visible, for any order of files."""
    refused = (
        "ERROR 11-20 08:00:00 [serving.py:1] This model's maximum context length is 512 tokens. "
        "However, your request has 600 input tokens.\n"
    )
    for texts in ((READY + refused, UNEXPLAINED), (UNEXPLAINED, READY + refused)):
        found = diagnose(*texts)
        assert (found.outcome, found.root_cause) == (Outcome.FAILED, None)
        assert found.first_error is not None
        assert found.first_error.text == "ValueError: something else"
        assert "api.context_overflow" in [f.symptom for f in found.findings]


@pytest.mark.parametrize(
    ("outcomes", "together"),
    [
        (("running", "unknown"), "running"),
        (("unknown", "ready"), "ready"),
        (("ready", "running"), "running"),
        (("running", "hung"), "hung"),
        (("hung", "failed", "ready"), "failed"),
        (("unknown", "unknown"), "unknown"),
        ((), "unknown"),
    ],
)
def test_several_logs_have_the_most_informative_outcome(outcomes: tuple[str, ...], together: str) -> None:
    """A headless node's log merely ends; the server's log decides."""
    starts = [
        dataclasses.replace(diagnosing.read(sources.load("tiny-cpu-served"))[-1], outcome=Outcome(o)) for o in outcomes
    ]

    assert several_logs._outcome(starts) is Outcome(together)


def test_a_notice_next_to_an_unexplained_error_points_to_it() -> None:
    """The whole output is available, so no one is asked for it."""
    for found in (diagnose(UNEXPLAINED + WRAPPED), diagnose(WRAPPED, UNEXPLAINED)):
        assert cause(found).symptom == "engine.dead_wrapper"
        assert cause(found).do_first.startswith("Start with the first unexplained error")
        assert found.findings[0] == cause(found)
    assert "Collect the complete output" in cause(diagnose(WRAPPED)).do_first


def test_facts_of_several_logs_complete_each_other() -> None:
    """The smallest KV cache limits all ranks; missing facts come from other logs."""
    one = "INFO 11-20 08:00:00 [kv_cache_utils.py:1087] GPU KV cache size: 1,000 tokens\n"
    two = one + "INFO 11-20 08:00:00 [gpu_worker.py:298] Available KV cache memory: 3.50 GiB\n"
    facts = diagnose(one, two).facts

    assert (facts.kv_cache_tokens, facts.kv_cache_gib) == (1000, 3.5)
    three = (
        one.replace("1,000", "900") + "INFO 11-20 08:00:00 [gpu_model_runner.py:1] Model loading took 3.5 GiB and 9 s\n"
    )
    assert diagnose(one, three, "words").facts.kv_cache_tokens == 900
    assert diagnose(READY, one).facts.weights_gib is None


def test_a_truncated_launch_has_the_cause_of_the_previous_attempt() -> None:
    """A supervisor restarts it, and the log ends in the middle."""
    banner = "INFO 11-20 08:00:00 [api_server.py:1] vLLM API server version 0.11.0\n" + ARGUMENTS + "\n"
    engine = "INFO 11-20 08:00:05 [core.py:93] Initializing a V1 LLM engine (v0.11.0) with config: model='m'\n"
    cut = 'Traceback (most recent call last):\n  File "/x/core.py", line 3, in f\n    raise ValueError(\n'
    full = f'Traceback (most recent call last):\n  File "/x/core.py", line 3, in f\n{NO_BLOCKS}\n'
    again = diagnose(banner + engine + full + banner + engine + cut)
    other = diagnose(banner + engine + full + banner.replace("0.9", "0.8") + engine + cut)

    assert len(again.starts) == 2
    assert (cause(again).symptom, cause(again).level) == ("kv.no_blocks", Level.PROBABLE)
    assert "the log of the last launch is cut off" in cause(again).conditions.unknown[0]
    assert (len(other.starts), other.root_cause) == (2, None)


def test_the_findings_of_all_logs_are_listed_once() -> None:
    """The cause first, then by severity; omitted counts are added."""
    found = diagnose(f"{NO_BLOCKS}\n{WRAPPED}\n", f"{PORT}\n{WRAPPED}\n", f"{PORT}\n")

    assert [f.symptom for f in found.findings] == ["kv.no_blocks", "port.in_use"]
    assert found.hidden == {"wrapper": 2}


def test_a_missing_launch_is_rejected() -> None:
    """The message has the number of launches."""
    assert answer(Evidence((Document("a.log", PORT),)), shelf(), knowledge.knowledge, start=1).outcome is Outcome.FAILED
    with pytest.raises(InputError, match="start 2: the log has one launch; choose one of them"):
        answer(Evidence((Document("a.log", PORT),)), shelf(), knowledge.knowledge, start=2)


def case(**expect: Any) -> Case:
    return Case("mine", "title", "source", ["a.log"], Expectation(**expect))


@pytest.mark.parametrize(
    ("text", "verdict", "reason"),
    [
        (PORT, Verdict.FAIL, "failed: Port is already in use by another process (port.in_use, "),
        (READY, Verdict.PASS, "ready: no problems"),
        ("words", Verdict.FAIL, "unknown: unknown cause"),
    ],
)
def test_the_verdict_on_any_text(text: str, verdict: Verdict, reason: str) -> None:
    """Pass is nothing wrong."""
    found = diagnosis_expected.verdict(diagnose(text), None)

    assert (found.verdict, found.reason[: len(reason)]) == (verdict, reason)


@pytest.mark.parametrize(
    ("expect", "difference"),
    [
        ({"outcome": Outcome.FAILED, "class_": "port.in_use", "symptom": "port.in_use"}, None),
        ({"captures": {"port": "8000"}, "facts": {}, "starts": [Outcome.FAILED], "findings": ["port.in_use"]}, None),
        ({"outcome": Outcome.READY}, "outcome: expected ready, got failed"),
        ({"class_": "ok"}, "class: expected ok, got port.in_use"),
        ({"symptom": "port.taken"}, "symptom: expected port.taken, got port.in_use"),
        ({"captures": {"port": "1"}}, "capture port: expected 1, got 8000"),
        ({"facts": {"weights_gib": 1.0}}, "fact weights_gib: expected 1.0, got None"),
        ({"starts": []}, "starts: expected [], got ['failed']"),
        ({"findings": ["dist.one_host"]}, "finding dist.one_host: expected, not found"),
    ],
)
def test_a_case_passes_if_the_answer_is_the_expected_one(expect: dict[str, Any], difference: str | None) -> None:
    """Only fields in the case are compared."""
    line = "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use"
    found = diagnosis_expected.verdict(diagnose(f"{PORT}\n{line}\n"), case(**expect))

    assert found.verdict is (Verdict.FAIL if difference else Verdict.PASS)
    assert found.reason == (difference or "as expected: failed, port.in_use")
    assert found.case == "mine"


def test_a_healthy_case_passes_without_a_cause() -> None:
    """The reason says so."""
    assert diagnosis_expected.verdict(diagnose(READY), case(class_="ok")).reason == "as expected: ready, no root cause"
    assert (
        diagnosis_expected.verdict(diagnose(READY), case(captures={"a": "b"})).reason
        == "capture a: expected b, got None"
    )


@in_one_test(
    ("step", "amount", "present", "value"),
    [
        # Lower by an amount as long as more than as much again is left.
        ("lower_by", 0.05, 0.9, 0.85), ("lower_by", 0.05, 0.11, 0.06), ("lower_by", 0.05, 0.1, None),
         ("lower_by", 0.05, None, None),
        ("lower_by", 0.05, "0.9", None), ("lower_by", 0.05, True, None), ("lower_by", 0.00005, 0.9, 0.9),
        # Lower to an amount, then to half of the available one.
        ("lower_to", 64, 256, 64), ("lower_to", 64, None, 64), ("lower_to", 64, 64, 32), ("lower_to", 64, 3, 1),
         ("lower_to", 64, 1, None),
        # Raise to an amount, then to twice the available one.
        ("raise_to", 64, 32, 64), ("raise_to", 64, None, 64), ("raise_to", 64, 64, 128), ("raise_to", 64, 65.5, 131),
        ("at_least", 64, 32, 64), ("at_least", 64, None, 64), ("at_least", 64, 64, None), ("at_least", 64, 65, None),
        # A quotient of two figures, rounded down; neither next to nothing nor all.
        ("share", "a/b", None, 0.66), ("share", "c/b", None, None), ("share", "b/a", None, None),
         ("share", "b/b", None, None),
        ("share", "d/e", None, 0.06), ("share", "f/e", None, None), ("share", "a/z", None, None),
         ("share", "a/x", None, None),
        ("share", "a/0", None, None),
    ],
)  # fmt: skip
def test_a_step_from_the_current_value(step: str, amount: Any, present: Any, value: Any) -> None:
    """The new value for this launch; none if there is no better or no known one."""
    captures = {"a": "2", "b": "3", "c": "0.1", "d": "6.9", "e": "100", "f": "5.9", "x": "many", "0": "0"}
    arguments = {} if present is None else {"n": present}
    text = RemedyText("t", "c", (Edit("set", "n", {step: amount}),))
    made = remedies._remedy(text, captures, Facts(), arguments)
    edits = () if made is None else made.edits

    assert [edit.value for edit in edits] == ([] if value is None or value == present else [value])


@in_one_test(
    ("authored", "arguments", "expected"),
    [
        (Edit("set", "n", 7), {}, [Edit("set", "n", 7)]), (Edit("set", "n", 7), {"n": 7}, None),
         (Edit("set", "n", 7), {"n": 8}, [Edit("set", "n", 7)]),
        (Edit("remove", "n"), {}, [Edit("remove", "n")]), (Edit("set", "n", "{size}"), {}, [Edit("set", "n", 4096)]),
        (Edit("set", "n", "{size}"), {"n": 4096}, None), (Edit("set", "n", "{name}"), {}, [Edit("set", "n", "x")]),
         (Edit("set", "n", "{none}"), {}, []),
        # A key of an object: next to existing ones, in the form of the log.
        (Edit("set", "n", {"{name}": 1}), {}, [Edit("set", "n", {"x": 1})]),
         (Edit("set", "n", {"a": 1}), {"n": {"b": 2}}, [Edit("set", "n", {"b": 2, "a": 1})]),
        (Edit("set", "n", {"a": 1}), {"n": '{"b": 2}'}, [Edit("set", "n", {"b": 2, "a": 1})]),
         (Edit("set", "n", {"a": 1}), {"n": {"a": 1}}, None),
        (Edit("set", "n", {"a": 1}), {"n": "b=2"}, []), (Edit("set", "n", {"a": 1}), {"n": [2]}, []),
        (Edit("set", "n", {"lower_to": 1, "a": 2}), {}, [Edit("set", "n", {"lower_to": 1, "a": 2})]),
        # A fact replaces an argument that the log does not print.
        (Edit("set", "max_model_len", {"lower_to": 64}), {}, [Edit("set", "max_model_len", 64)]),
    ],
)  # fmt: skip
def test_an_edit_with_the_values_of_a_launch(
    authored: Edit, arguments: dict[str, Any], expected: list[Edit] | None
) -> None:
    """None if no edit changes anything; an edit with an unknown value is left out."""
    captures = {"size": "4,096", "name": "x"}
    made = remedies._remedy(RemedyText("t", "c", (authored,)), captures, Facts(max_model_len=100), arguments)

    assert (None if made is None else list(made.edits)) == expected


def test_a_remedy_has_only_known_values() -> None:
    """Title, cost and requirements are known, and nothing contradicts it."""

    def made(**more: Any) -> Any:
        text = RemedyText(**{"title": "t {a}", "cost": "c", "edits": (Edit("set", "n", 1),), **more})
        return remedies._remedy(text, {"a": "1"}, Facts(), {"n": 0})

    assert (made().title, made().cost, made().edits) == ("t 1", "c", (Edit("set", "n", 1),))
    assert made(edits=()).edits == ()
    assert [made(title="t {b}"), made(cost="c {b}"), made(needs=("a", "b"))] == [None, None, None]
    assert made(needs=("a",)) is not None
    assert made(unless=(Condition("c", argument="n", equals=0),)) is None
    assert made(unless=(Condition("c", argument="n", equals=1),)) is not None
    assert made(unless=(Condition("c", argument="other", equals=1),)) is not None
    assert made(edits=(Edit("set", "n", 0), Edit("set", "m", 1))).edits == (Edit("set", "m", 1),)


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        ("8xRTX3090", "This launch uses 1 of 8 GPUs; 7 are free."),
        ("RTX3090", None),
        (None, None),
    ],
)
def test_unused_gpus_are_a_hint(gpus: str | None, said: str | None) -> None:
    """If they and the GPUs of the command are known, never from a guess."""
    evidence = sources.load("autoglm-3090-video-oom")
    found = diagnosing.diagnose(evidence, gpus=gpus).findings
    told = [finding.explanation for finding in found if finding.symptom == "dist.gpus_unused"]

    assert len(told) == (said is not None)
    assert all(said in each for each in told if said)


def test_the_number_of_gpus_of_a_log_is_not_guessed() -> None:
    """The log prints no parallel size, and there is no command."""
    evidence = dataclasses.replace(sources.load("autoglm-3090-video-oom"), command=None)
    symptoms = {finding.symptom for finding in diagnosing.diagnose(evidence, gpus="8xRTX3090").findings}

    assert "dist.gpus_unused" not in symptoms


def test_of_many_files_the_first_are_named() -> None:
    """A folder of Ray's logs has dozens."""
    few, many = ([READY] * count for count in (5, 60))

    assert render.answers.starts(diagnose(*few)).plain.startswith("rank0.log, rank1.log, rank2.log, rank3.log, rank4")
    assert "rank3.log and 56 more  ·" in render.answers.starts(diagnose(*many)).plain


class RecordedMemory(memory.PlannedMemory):
    """Remembers the last one of a diagnosis."""

    last: RecordedMemory

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        RecordedMemory.last = self


def test_memory_now_and_with_a_fix_is_corrected_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that changes nothing leaves both the same; nothing is planned twice."""
    monkeypatch.setattr("vllm_runbooks.diagnosis.answer.PlannedMemory", RecordedMemory)
    diagnosing.diagnose(sources.load("qwen-2x24gb-mp-glued"))
    planned = RecordedMemory.last
    same = Edit("set", "max_model_len", planned.options[0]["max_model_len"])
    for edit in (same, Edit("set", "max_num_seqs", 2), same):
        change = planned.change(Remedy("t", "c", (edit,), None, Checks("unknown", "unknown", "unknown")))
        assert change is not None
        assert (change[0] == change[1]) == (edit is same)
    assert len(planned._budgets) == 2


def test_a_fix_is_read_and_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command and each shown fix once, for any number of modules that use them."""
    checked: list[str] = []
    check = linted_text.LintedText.__init__

    def count(self: linted_text.LintedText, text: str, *rest: Any) -> None:
        checked.append(text)
        check(self, text, *rest)

    monkeypatch.setattr(linted_text.LintedText, "__init__", count)
    evidence = sources.load("autoglm-3090-video-oom")
    documents.read_kind.cache_clear()
    arguments.parse_words.cache_clear()

    remedies = diagnosing.diagnose(evidence, gpus="8xRTX3090").remedies
    commands = sum(remedy.command is not None for remedy in remedies)

    assert commands == 4
    assert documents.read_kind.cache_info().misses <= 1 + 2 * commands
    assert arguments.parse_words.cache_info().misses <= 2 + 2 * commands
    assert len(checked) == len({*checked}) <= 1 + 2 * commands


def test_no_backend_is_offered_when_all_were_refused() -> None:
    """The message lists the reason of each backend, so another one does not help; the block size is only printed."""
    refused = (
        "(Worker_TP0 pid=1) ERROR 07-25 11:23:40 [multiproc_executor.py:901] ValueError: No valid attention backend "
        "found for cuda with AttentionSelectorConfig(head_size=64, dtype=torch.bfloat16, kv_cache_dtype=fp8_ds_mla, "
        "block_size=64, use_mla=False, has_sink=False, use_sparse=False). Reasons: {FLASH_ATTN: [kv_cache_dtype not "
        "supported], FLASHINFER: [kv_cache_dtype not supported]}.\n"
    )
    typed = "INFO 07-25 11:23:01 [utils.py:233] non-default args: {'model': 'a/b', 'block_size': 64, 'kv_cache_dtype': "

    titles = [remedy.title for remedy in diagnose(f"{typed}'fp8_ds_mla'}}\n{refused}").remedies]

    assert titles == [
        "Keep the KV cache in the model's dtype for FLASH_ATTN, FLASHINFER",
        "Upgrade to a release with an attention backend for this configuration",
    ]
