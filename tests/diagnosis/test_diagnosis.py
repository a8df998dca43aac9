"""The first cause over all processes wins, with the level it deserves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks.catalog.records import Condition, Example, NearMiss, Signature, Symptom, Verified
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.catalog.templates import fill, filled_or_plain, value_of
from vllm_runbooks.core.records import (
    Facts,
    Level,
    LookIn,
    Outcome,
    Process,
    Quote,
    RaisedException,
    Release,
    Role,
    ServerRun,
    Severity,
    SymptomHit,
    Traceback,
)
from vllm_runbooks.diagnosis.causes import diagnose, holds

ENGINE = Process("EngineCore", 10)
SERVER = Process("APIServer", 1)


def symptom(id_: str, **more: Any) -> Symptom:
    fields: dict[str, Any] = {
        "id": id_,
        "title": f"title of {id_}",
        "severity": Severity.FATAL,
        "signatures": (
            Signature("some words"),
            Signature("placed", frames=("here",)),
            Signature("late", phases=("load",)),
        ),
        "examples": (Example("some words", "none"),),
        "near_misses": (NearMiss("others", "none"),),
        "cause": "cause",
        "explanation": ("It asked for {tried}.", "It is so."),
        "do_first": "Look. It has {tried}.",
        "confirm": "So.",
        "refute": "Not so.",
        "verified": Verified("2026-11-20"),
    }
    return Symptom(**fields | more)


def quote(line: int, text: str = "RuntimeError: some words", column: int = 1) -> Quote:
    return Quote(0, line, column, text)


def hit(name: str, line: int, **more: Any) -> SymptomHit:
    fields: dict[str, Any] = {
        "symptom": name,
        "signature": 0,
        "quote": quote(line),
        "captures": {},
        "process": ENGINE,
        "phase": None,
        "traceback": line,
        "level": "ERROR",
    }
    return SymptomHit(**fields | more)


def traceback(line: int, process: Process = ENGINE, *, ignored: bool = False) -> Traceback:
    return Traceback(
        process, (RaisedException("RuntimeError", "words", quote(line), (), None),), logged=True, ignored=ignored
    )


def start(*hits: SymptomHit, outcome: Outcome = Outcome.FAILED, **more: Any) -> ServerRun:
    fields: dict[str, Any] = {
        "file": 0,
        "first_line": 1,
        "last_line": 99,
        "outcome": outcome,
        "outcome_quote": None,
        "release": Release(),
        "command": None,
        "arguments": {},
        "processes": (),
        "timeline": (),
        "readings": (),
        "throughput": (),
        "minutes": (),
        "warnings": (),
        "tracebacks": (),
        "hits": hits,
        "facts": Facts(),
        "ranks": (),
    }
    return ServerRun(**fields | more)


def shelf(*symptoms: Symptom) -> Catalog:
    return Catalog({s.id: s for s in symptoms}, ())


CAUSE, OTHER = symptom("oom.weights"), symptom("port.in_use")
WRAPPER = symptom("engine.dead_wrapper", role=Role.WRAPPER, look_in=LookIn("the error", "the other log"))
PEER = symptom("dist.peer_lost", role=Role.CONSEQUENCE, look_in=LookIn("the error", "the other rank's log"))
NOISE = symptom("engine.exit_noise", role=Role.BENIGN, severity=Severity.HINT)


def test_the_first_cause_precedes_wrappers_lost_peers_and_noise() -> None:
    """For any order in the text."""
    found = diagnose(
        start(
            hit("engine.dead_wrapper", 1), hit("dist.peer_lost", 2), hit("engine.exit_noise", 3), hit("oom.weights", 9)
        ),
        shelf(CAUSE, WRAPPER, PEER, NOISE),
    )

    assert found.root_cause is not None
    assert found.root_cause.symptom == "oom.weights"
    assert found.root_cause.level is Level.CONFIRMED
    assert found.hidden == {"benign": 1, "consequence": 1, "wrapper": 1}


def test_the_earlier_of_two_causes_is_the_answer() -> None:
    """The later one is usually a consequence, and is listed as possible."""
    found = diagnose(start(hit("port.in_use", 5), hit("oom.weights", 4)), shelf(CAUSE, OTHER))

    assert [(f.symptom, f.level) for f in found.findings] == [
        ("oom.weights", Level.CONFIRMED),
        ("port.in_use", Level.POSSIBLE),
    ]


def test_an_error_that_the_process_survived_does_not_win() -> None:
    """A process that makes progress afterwards did not die of it."""
    found = diagnose(
        start(hit("oom.weights", 4, process=SERVER), hit("port.in_use", 8), progress={1: 6}), shelf(CAUSE, OTHER)
    )

    assert found.root_cause is not None
    assert found.root_cause.symptom == "port.in_use"
    assert found.findings[1].level is Level.POSSIBLE


@pytest.mark.parametrize("lines", [(3, 7), (7, 3)])
def test_a_notice_is_the_answer_without_a_cause(lines: tuple[int, int]) -> None:
    """It says what to look for, is never confirmed, and ranks below a consequence."""
    found = diagnose(start(hit(PEER.id, lines[0]), hit(WRAPPER.id, lines[1])), shelf(WRAPPER, PEER))

    assert found.root_cause is not None
    assert (found.root_cause.symptom, found.root_cause.level) == (PEER.id, Level.PROBABLE)
    assert found.root_cause.look_in == PEER.look_in


def test_a_symptom_may_replace_others_on_its_line() -> None:
    """A more specific one replaces those it names; on other lines both stay."""
    precise = replace(OTHER, instead_of=(CAUSE.id,))
    hits = (hit(CAUSE.id, 4, depth=7), hit(OTHER.id, 4), hit(CAUSE.id, 9))
    found = diagnose(start(*hits), shelf(CAUSE, precise))

    assert [(f.symptom, f.evidence[0].line) for f in found.findings] == [(OTHER.id, 4), (CAUSE.id, 9)]


def test_a_more_specific_symptom_is_preferred_at_an_equal_place() -> None:
    """a.b.c refines a.b; where a.b alone knows the place, it stays."""
    finer = replace(CAUSE, id=f"{CAUSE.id}.finer")

    def named(*depths: int) -> list[str]:
        hits = (hit(CAUSE.id, 4, depth=depths[0]), hit(finer.id, 4, depth=depths[1]))
        return [f.symptom for f in diagnose(start(*hits), shelf(CAUSE, finer)).findings]

    assert named(3, 3) == named(-2, 3) == [finer.id]
    assert named(3, -2) == [CAUSE.id]


def test_a_notice_is_only_possible_with_an_unexplained_exception() -> None:
    """The unknown exception is shown, as it may be the cause."""
    found = diagnose(start(hit("engine.dead_wrapper", 9), tracebacks=(traceback(2),)), shelf(WRAPPER))

    assert found.root_cause is not None
    assert found.root_cause.level is Level.POSSIBLE
    assert found.first_error == quote(2)


def test_a_cause_after_an_unexplained_exception_is_unconfirmed() -> None:
    """A later, ignored or survived exception does not matter."""
    before = (traceback(2),)
    after = (traceback(20), traceback(1, ignored=True), traceback(3, SERVER), Traceback(ENGINE, (), logged=True))

    first = diagnose(start(hit("oom.weights", 9, traceback=7), tracebacks=before), shelf(CAUSE))
    second = diagnose(start(hit("oom.weights", 9, traceback=7), tracebacks=after, progress={1: 5}), shelf(CAUSE))

    assert (first.findings[0].level, first.first_error) == (Level.PROBABLE, quote(2))
    assert (second.findings[0].level, second.first_error) == (Level.CONFIRMED, None)


@pytest.mark.parametrize(
    ("change", "outcome", "level"),
    [
        ({}, Outcome.FAILED, Level.CONFIRMED),
        ({}, Outcome.HUNG, Level.CONFIRMED),
        ({}, Outcome.UNKNOWN, Level.PROBABLE),
        ({}, Outcome.RUNNING, Level.POSSIBLE),
        ({"traceback": None, "level": None}, Outcome.FAILED, Level.PROBABLE),
        ({"traceback": None, "level": "CRITICAL"}, Outcome.FAILED, Level.CONFIRMED),
        ({"level": "INFO"}, Outcome.FAILED, Level.POSSIBLE),
        ({"signature": 1, "depth": 3}, Outcome.FAILED, Level.CONFIRMED),
        ({"signature": 2, "depth": -1}, Outcome.FAILED, Level.PROBABLE),
    ],
)
def test_levels(change: dict[str, Any], outcome: Outcome, level: Level) -> None:
    """Confirmed needs an exception or error line, at a known place, of a launch that ended."""
    found = diagnose(start(hit("oom.weights", 4, **change), outcome=outcome), shelf(CAUSE))

    assert found.findings[0].level is level


@pytest.mark.parametrize(("unknown", "level"), [(False, Level.PROBABLE), (True, Level.POSSIBLE)])
def test_a_cause_that_sends_the_reader_elsewhere_is_never_confirmed(*, unknown: bool, level: Level) -> None:
    """With a condition unknown it is only possible."""
    conditions = (Condition("the step", capture="step"),) if unknown else ()
    elsewhere = replace(CAUSE, look_in=LookIn("a", "b"), conditions=conditions)

    assert diagnose(start(hit("oom.weights", 4)), shelf(elsewhere)).findings[0].level is level


def test_a_healthy_launch_has_a_cause_only_for_an_unserved_request() -> None:
    """Fatal findings are then degraded and only possible."""
    overflow = symptom("api.context_overflow", severity=Severity.DEGRADED)
    hits = (hit("oom.weights", 4), hit("api.context_overflow", 5))
    healthy = diagnose(start(*hits, outcome=Outcome.RUNNING), shelf(CAUSE, overflow))
    quiet = diagnose(start(hits[0], outcome=Outcome.READY), shelf(CAUSE))

    assert healthy.root_cause is not None
    assert healthy.root_cause.symptom == "api.context_overflow"
    assert healthy.root_cause.level is Level.CONFIRMED
    assert quiet.root_cause is None
    assert [(f.severity, f.level) for f in quiet.findings] == [(Severity.DEGRADED, Level.POSSIBLE)]


def test_client_text_is_not_a_failure_of_a_healthy_server() -> None:
    """Request logs quote anything, at level INFO."""
    found = diagnose(start(hit("oom.weights", 4, level="INFO"), outcome=Outcome.RUNNING), shelf(CAUSE))

    assert found.findings == ()


def test_a_degraded_finding_is_the_cause_of_a_failure_without_a_fatal_one() -> None:
    """The contract's second choice."""
    degraded, hint = (
        symptom("oom.runtime", severity=Severity.DEGRADED),
        symptom("dist.one_host", severity=Severity.HINT),
    )
    found = diagnose(start(hit("dist.one_host", 1), hit("oom.runtime", 2)), shelf(degraded, hint))

    assert found.root_cause is not None
    assert found.root_cause.symptom == "oom.runtime"
    assert diagnose(start(hit("dist.one_host", 1)), shelf(hint)).root_cause is None


def test_the_innermost_place_decides_also_for_repetitions_without_frames() -> None:
    """A parent prints the same figures again, without the traceback: that is the same failure."""
    weights, run = symptom("oom.weights"), symptom("oom.profile_run")
    figures = {"tried_mib": "20.00", "free_mib": "3.00"}
    found = diagnose(
        start(
            hit("oom.profile_run", 2, captures=figures),
            hit("oom.profile_run", 5, captures=figures, depth=2),
            hit("oom.weights", 5, captures=figures, depth=6, signature=1),
            hit("oom.weights", 5, captures={"modality": "video"}, signature=-1),
        ),
        shelf(weights, run),
    )

    assert [f.symptom for f in found.findings] == ["oom.weights"]
    assert found.findings[0].captures == {**figures, "modality": "video"}


def test_figures_of_two_ranks_are_never_mixed() -> None:
    """Neither the same figure in another unit nor one missing in the first rank."""
    found = diagnose(
        start(
            hit("oom.weights", 4, captures={"tried_mib": "20.00", "total_gib": "23.5"}),
            hit("oom.weights", 8, captures={"tried_gib": "1.00", "free_gib": "9.0"}),
            hit("oom.weights", 9, captures={"process": "Worker_TP1"}),
        ),
        shelf(CAUSE),
    )

    assert found.findings[0].captures == {"tried_mib": "20.00", "total_gib": "23.5", "process": "Worker_TP1"}
    assert found.findings[0].explanation == "It asked for 20.00 MiB. It is so."


def test_a_sentence_with_a_missing_figure_is_left_out() -> None:
    """No sentence has a gap."""
    found = diagnose(start(hit("oom.weights", 4)), shelf(CAUSE)).findings[0]

    assert (found.explanation, found.do_first) == ("It is so.", "Look.")


@in_one_test(
    ("condition", "holds"),
    [
        (Condition("c", argument="tensor_parallel_size", equals=1), True),
        (Condition("c", argument="tensor_parallel_size", at_least=2), False),
        (Condition("c", argument="dtype", equals="auto"), None),
        (Condition("c", argument="model", at_most=3), None),
        (Condition("c", argument="limit_mm_per_prompt", lacks="video"), True),
        (Condition("c", argument="limit_mm_per_prompt", lacks="image"), False),
        (Condition("c", argument="limit_mm_per_prompt", lacks="{tried}"), None),
        (Condition("c", argument="model", lacks="video"), None),
        (Condition("c", argument="dtype", lacks="video"), True),
        (Condition("c", fact="weights_gib", at_most=15, at_least=10), True),
        (Condition("c", fact="kv_cache_gib", at_least=0), None),
        (Condition("c", capture="gpu"), True),
        (Condition("c", outcome=("failed",)), True),
        (Condition("c", outcome=("ready",)), False),
        (Condition("c", is_first=True), True),
        (Condition("c", phase=("load",)), True),
        (Condition("c", phase=("serve",)), False),
        (Condition("c", capture="need_gib/have_gib", at_most=2), False),
        (Condition("c", capture="need_gib/no_gib", at_most=2), False),
        (Condition("c", capture="need_gib/nothing", at_most=2), None),
        (Condition("c"), None),
    ],
)
def test_conditions(condition: Condition, *, holds: bool | None) -> None:
    """Each is true, false, or unknown."""
    arguments = {"tensor_parallel_size": 1, "model": "m", "limit_mm_per_prompt": {"image": 0}}
    captures = {"gpu": "0", "need_gib": "16.0", "have_gib": "4.0", "no_gib": "0.0"}
    weights = hit("oom.weights", 4, captures=captures, phase="load")
    given = start(weights, arguments=arguments, facts=Facts(weights_gib=14.9))
    found = diagnose(given, shelf(replace(CAUSE, conditions=(condition,)))).findings[0].conditions

    assert {True: found.matched, False: found.mismatched, None: found.unknown}[holds] == ("c",)


def test_a_condition_on_arguments_is_unknown_where_none_are_shown() -> None:
    """And one whose own words need an unknown figure is not shown at all."""
    conditions = (Condition("c", argument="model", equals="m"), Condition("c {tried}", outcome=("failed",)))
    found = diagnose(start(hit("oom.weights", 4)), shelf(replace(CAUSE, conditions=conditions))).findings[0].conditions

    assert (found.matched, found.unknown) == ((), ("c",))


def test_contrary_evidence_makes_a_cause_only_possible() -> None:
    """A cause without contrary evidence ranks before it."""
    doubtful = replace(CAUSE, conditions=(Condition("c", outcome=("ready",)),))
    found = diagnose(start(hit("oom.weights", 1), hit("port.in_use", 9)), shelf(doubtful, OTHER))

    assert [(f.symptom, f.level) for f in found.findings] == [
        ("port.in_use", Level.CONFIRMED),
        ("oom.weights", Level.POSSIBLE),
    ]


def test_a_hint_with_contrary_evidence_is_possible() -> None:
    """Other hints are confirmed, anywhere in the text."""
    hint = symptom("dist.one_host", severity=Severity.HINT)
    against = replace(hint, conditions=(Condition("c", outcome=("ready",)),))

    assert diagnose(start(hit("dist.one_host", 1, level="INFO")), shelf(hint)).findings[0].level is Level.CONFIRMED
    assert diagnose(start(hit("dist.one_host", 1)), shelf(against)).findings[0].level is Level.POSSIBLE


@pytest.mark.parametrize(
    ("hits", "tracebacks", "is_found"),
    [
        ((), (), True),
        ((), (traceback(2),), False),
        ((), (traceback(20), traceback(2, ignored=True)), True),
        ((hit("engine.dead_wrapper", 3),), (), False),
        ((hit("engine.exit_noise", 3),), (), True),
        ((hit("engine.dead_wrapper", 30),), (), True),
    ],
)
def test_a_signal_counts_only_before_any_other_failure(
    hits: tuple[SymptomHit, ...], tracebacks: tuple[Traceback, ...], *, is_found: bool
) -> None:
    """VLLM sends signals to its own processes when something failed."""
    signal = symptom("other.user_interrupt", conditions=(Condition("first", is_first=True, required=True),))
    given = start(hit("other.user_interrupt", 9, traceback=None), *hits, tracebacks=tracebacks)
    found = diagnose(given, shelf(signal, WRAPPER, NOISE))

    assert ("other.user_interrupt" in [f.symptom for f in found.findings]) is is_found


def test_evidence_is_the_deciding_line_its_companions_and_then_repetitions() -> None:
    """At most six, each line once."""
    hits = [hit("oom.weights", line) for line in (9, 9, 10, 11, 12, 13, 14)]
    found = diagnose(start(*hits, hit("oom.weights", 2, signature=-1)), shelf(CAUSE)).findings[0]

    assert [q.line for q in found.evidence] == [9, 2, 10, 11, 12, 13]


def test_a_companion_alone_is_not_a_finding() -> None:
    """It adds to a symptom that was found."""
    assert diagnose(start(hit("oom.weights", 2, signature=-1)), shelf(CAUSE)).findings == ()


@pytest.mark.parametrize(
    ("captures", "facts", "said"),
    [
        ({"need": "as printed"}, Facts(), "as printed"),
        ({"need_gib": "16.00"}, Facts(), "16.00 GiB"),
        ({"need_gib": "41.19354248046875"}, Facts(), "41.19 GiB"),
        ({"need_bytes": "24000000000"}, Facts(), "22.35 GiB"),
        ({"need_bytes": "512"}, Facts(), "512 bytes"),
        ({}, Facts(), None),
    ],
)
def test_values_have_their_unit(captures: dict[str, str], facts: Facts, said: str | None) -> None:
    """Two decimals at most, bytes in GiB when they are many."""
    assert value_of("need", captures, facts) == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("weights_gib", "13.72 GiB"),
        ("kv_cache_tokens", "798,624 tokens"),
        ("model", "m"),
        ("gpu_memory_utilization", "0.9"),
        ("kv_cache_gib", None),
        ("no_fact", None),
    ],
)
def test_facts_have_their_unit(name: str, said: str | None) -> None:
    """An unknown one has no words."""
    facts = Facts(weights_gib=13.72, kv_cache_tokens=798624, model="m", gpu_memory_utilization=0.90)

    assert value_of(name, {}, facts) == said
    assert fill(f"it is {{{name}}}", {}, facts) == (None if said is None else f"it is {said}")


@pytest.mark.parametrize(
    ("phase", "is_found", "unknown"), [("serve", True, ()), ("profile", False, ()), (None, True, ("c",))]
)
def test_a_phase_can_be_required(phase: str | None, *, is_found: bool, unknown: tuple[str, ...]) -> None:
    """The phase of the deciding line; without one it is unknown and excludes nothing."""
    late = replace(CAUSE, conditions=(Condition("c", phase=("warm_up", "serve"), required=True),))
    found = diagnose(start(hit("oom.weights", 4, phase=phase)), shelf(late)).findings

    assert bool(found) is is_found
    assert [f.conditions.unknown for f in found] == [unknown] * is_found


def test_a_required_capture_must_be_there() -> None:
    """A symptom that rests on it is not found without."""
    resting = replace(CAUSE, conditions=(Condition("c", capture="gpu", required=True),))

    assert diagnose(start(hit("oom.weights", 4)), shelf(resting)).findings == ()
    assert diagnose(start(hit("oom.weights", 4, captures={"gpu": "0"})), shelf(resting)).findings


def test_a_hint_with_an_unknown_condition_is_only_possible() -> None:
    """It is still listed."""
    unsure = symptom("dist.one_host", severity=Severity.HINT, conditions=(Condition("c", fact="weights_gib"),))

    assert diagnose(start(hit("dist.one_host", 1)), shelf(unsure)).findings[0].level is Level.POSSIBLE


def test_a_wrapper_that_repeats_a_worker_does_not_place_the_error() -> None:
    """The worker's frames give the place; without the worker's log there is none."""
    encoder, run, unplaced = symptom("oom.multimodal_encoder"), symptom("oom.profile_run"), symptom("oom.unplaced")
    figures = {"tried_mib": "20.00", "free_mib": "3.00"}
    parent = [
        hit("engine.dead_wrapper", 9),
        hit("oom.profile_run", 9, captures=figures, depth=8, signature=1),
        hit("oom.profile_run", 9, captures=figures, depth=-1, signature=2),
        hit("oom.unplaced", 9, captures=figures),
    ]
    worker = [
        hit("oom.multimodal_encoder", 4, captures=figures, depth=5, signature=1),
        hit("oom.unplaced", 4, captures=figures),
    ]
    catalog = shelf(encoder, run, unplaced, WRAPPER)

    assert [f.symptom for f in diagnose(start(*worker, *parent), catalog).findings] == ["oom.multimodal_encoder"]
    assert [f.symptom for f in diagnose(start(*parent), catalog).findings] == ["oom.unplaced"]


def test_a_notice_counts_even_if_its_process_shut_down_cleanly() -> None:
    """Shutdown messages do not prove that the server continued."""
    given = start(hit("engine.dead_wrapper", 4, process=SERVER), progress={1: 6})
    found = diagnose(given, shelf(WRAPPER))

    assert found.root_cause is not None
    assert (found.root_cause.symptom, found.root_cause.level) == ("engine.dead_wrapper", Level.POSSIBLE)
    assert diagnose(replace(given, outcome=Outcome.UNKNOWN), shelf(WRAPPER)).root_cause is None


def test_a_logged_error_is_uncertain_if_another_process_ended() -> None:
    """A server may log any error of a request; the engine's unexplained exception follows it."""
    logged = hit("oom.weights", 4, process=SERVER, traceback=None)
    alone = diagnose(start(logged), shelf(CAUSE))
    before_another = diagnose(start(logged, tracebacks=(traceback(9),)), shelf(CAUSE))

    assert alone.root_cause is not None
    assert before_another.root_cause is not None
    assert alone.root_cause.level is Level.CONFIRMED
    assert before_another.root_cause.level is Level.PROBABLE


def levels(given: ServerRun, *symptoms: Symptom) -> list[tuple[str, Level]]:
    return [(found.symptom, found.level) for found in diagnose(given, shelf(*symptoms)).findings]


@pytest.mark.parametrize(
    ("progress", "line", "level"),
    [
        ({}, 4, Level.CONFIRMED),
        ({10: 4}, 4, Level.CONFIRMED),
        ({10: 5}, 4, Level.POSSIBLE),
        ({11: 9}, 4, Level.CONFIRMED),
    ],
)
def test_a_process_that_continues_has_survived_its_error(progress: dict[int, int], line: int, level: Level) -> None:
    """Only its own progress after the line counts."""
    assert levels(start(hit(CAUSE.id, line), progress=progress), CAUSE) == [(CAUSE.id, level)]


def test_lines_without_a_process_are_one_process() -> None:
    """Its progress is noted under number 0."""
    nobody = Process(None)
    logged = hit(CAUSE.id, 4, process=nobody)

    assert levels(start(logged, progress={0: 9}), CAUSE) == [(CAUSE.id, Level.POSSIBLE)]
    assert diagnose(start(tracebacks=(traceback(2, nobody),), progress={0: 9}), shelf()).first_error is None
    assert diagnose(start(tracebacks=(traceback(2, nobody),), progress={1: 9}), shelf()).first_error == quote(2)


@pytest.mark.parametrize(
    ("one", "other", "winner"),
    [
        # Of two causes: the one not survived, not from a client, first, innermost.
        ({"line": 9}, {"line": 3, "process": SERVER}, "one"),
        ({"line": 9}, {"line": 3, "level": "INFO"}, "one"),
        ({"line": 9}, {"line": 3, "level": "DEBUG"}, "one"),
        ({"line": 9}, {"line": 3, "level": "WARNING"}, "other"),
        ({"line": 3}, {"line": 3, "depth": 2}, "other"),
        ({"line": 3, "depth": 2}, {"line": 3, "depth": -1}, "one"),
        ({"line": 3}, {"line": 3}, "one"),
    ],
)
def test_causes_are_ranked(one: dict[str, Any], other: dict[str, Any], winner: str) -> None:
    """And of equals the one with the more precise name, then by name."""
    names = {"one": "a.one", "other": "b.other"}
    given = start(
        *(hit(names[who], **{"traceback": None, **more}) for who, more in (("one", one), ("other", other))),
        progress={1: 5},
    )

    assert levels(given, symptom("a.one"), symptom("b.other"))[0][0] == names[winner]
    assert levels(start(hit("a", 3), hit("b.c", 3)), symptom("a"), symptom("b.c"))[0][0] == "b.c"


def test_a_wrapper_ranks_below_a_consequence() -> None:
    """Only if the launch ended or its process stopped; a healthy launch has no notice."""
    hits = (hit(WRAPPER.id, 3), hit(PEER.id, 5))

    assert [found for found, _ in levels(start(*hits), WRAPPER, PEER)] == [PEER.id]
    assert levels(start(*hits, outcome=Outcome.READY), WRAPPER, PEER) == []
    assert levels(start(*hits, outcome=Outcome.UNKNOWN, progress={10: 4}), WRAPPER, PEER) == [(PEER.id, Level.PROBABLE)]
    assert levels(start(hits[0], outcome=Outcome.UNKNOWN, progress={10: 4}), WRAPPER) == []
    assert diagnose(start(*hits, *hits, hit(CAUSE.id, 1)), shelf(CAUSE, WRAPPER, PEER)).hidden == {
        "consequence": 2,
        "wrapper": 2,
    }


def test_text_quoted_by_a_cause_is_not_a_second_error() -> None:
    """A degraded finding on the line of a fatal one's companion is left out."""
    degraded = symptom("kv.small", severity=Severity.DEGRADED)
    companion = hit(CAUSE.id, 7, signature=-1)

    assert [name for name, _ in levels(start(hit(CAUSE.id, 4), companion, hit("kv.small", 7)), CAUSE, degraded)] == [
        CAUSE.id
    ]
    assert [name for name, _ in levels(start(hit(CAUSE.id, 4), companion, hit("kv.small", 8)), CAUSE, degraded)] == [
        CAUSE.id,
        "kv.small",
    ]


def test_findings_are_sorted_by_severity() -> None:
    """Fatal, degraded, hints, for any order in the text."""
    kinds = [symptom(f"x.{name}", severity=name) for name in (Severity.HINT, Severity.DEGRADED, Severity.FATAL)]
    found = diagnose(start(*(hit(kind.id, number) for number, kind in enumerate(kinds, 1))), shelf(*kinds))

    assert [finding.severity for finding in found.findings] == [Severity.FATAL, Severity.DEGRADED, Severity.HINT]
    assert found.root_cause is found.findings[0]


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({}, Level.CONFIRMED),
        # What makes a degraded finding uncertain; an unknown condition does so only for a hint.
        ({"level": "INFO"}, Level.POSSIBLE), ({"level": None, "traceback": None}, Level.CONFIRMED),
    ],
)  # fmt: skip
def test_levels_of_a_degraded_finding(change: dict[str, Any], level: Level) -> None:
    """Confirmed unless something contradicts it."""
    unknown, against = Condition("c", fact="kv_cache_gib"), Condition("c", outcome=("ready",))
    for conditions, expected in (((), level), ((unknown,), level), ((against,), Level.POSSIBLE)):
        degraded = symptom("kv.small", severity=Severity.DEGRADED, conditions=conditions)
        assert levels(start(hit("kv.small", 4, **change)), degraded) == [("kv.small", expected)]


def test_symptoms_of_other_groups_stay() -> None:
    """On one line both are listed; within a group the better place, message or figures decide."""
    deep, other = symptom("oom.deep"), symptom("port.other")
    given = (hit(CAUSE.id, 4), hit("oom.deep", 4, depth=3, signature=1), hit("port.other", 4))

    assert {name for name, _ in levels(start(*given), CAUSE, deep, other)} == {"oom.deep", "port.other"}
    # Elsewhere it is another message, unless two figures or more are the same; one alone proves nothing.
    for captures, told in (
        ({"tried_mib": "1.0"}, {CAUSE.id, "oom.deep"}),
        ({"tried_mib": "1.0", "free_mib": "2.0"}, {"oom.deep"}),
        ({"tried_mib": "1.0", "gpu": "x"}, {CAUSE.id, "oom.deep"}),
    ):
        pair = (hit(CAUSE.id, 2, captures=captures), hit("oom.deep", 6, depth=3, signature=1, captures=captures))
        assert {name for name, _ in levels(start(*pair), CAUSE, deep)} == told


def test_one_exception_is_one_message_wherever_it_is_quoted() -> None:
    """By its traceback and its place in the chain; of a logged line by the line and the column."""
    deep = symptom("oom.deep")

    def told(one: SymptomHit, two: SymptomHit) -> set[str]:
        return {name for name, _ in levels(start(one, two), CAUSE, deep)}

    both = {CAUSE.id, "oom.deep"}
    assert told(hit(CAUSE.id, 2, traceback=1), hit("oom.deep", 5, traceback=1, depth=3)) == {"oom.deep"}
    assert told(hit(CAUSE.id, 2, traceback=1), hit("oom.deep", 5, traceback=1, depth=3, link=1)) == both
    assert told(hit(CAUSE.id, 2, traceback=1), hit("oom.deep", 5, traceback=2, depth=3)) == both
    assert told(hit(CAUSE.id, 2, traceback=None), hit("oom.deep", 2, traceback=None, depth=3)) == {"oom.deep"}
    assert told(hit(CAUSE.id, 2, traceback=None), hit("oom.deep", 3, traceback=None, depth=3)) == both
    second = replace(hit("oom.deep", 2, traceback=None, depth=3), quote=quote(2, column=9))
    assert told(hit(CAUSE.id, 2, traceback=None), second) == both


def test_of_a_signal_only_an_earlier_failure_counts() -> None:
    """One on the same line, a companion, and the symptom's own exceptions do not."""
    signal = symptom("other.user_interrupt", conditions=(Condition("first", is_first=True, required=True),))

    def is_found(*hits: SymptomHit, **more: Any) -> bool:
        given = start(hit(signal.id, 9, traceback=0), *hits, **more)
        return signal.id in [found.symptom for found in diagnose(given, shelf(signal, CAUSE)).findings]

    assert is_found(tracebacks=(traceback(3),))
    assert not is_found(tracebacks=(traceback(3), traceback(4)))
    assert is_found(tracebacks=(traceback(3), traceback(9)))
    assert is_found(hit(CAUSE.id, 9, traceback=None))
    assert not is_found(hit(CAUSE.id, 8, traceback=None))
    assert is_found(hit(CAUSE.id, 8, signature=-1, traceback=None))
    assert is_found(hit(signal.id, 2, traceback=None))


@in_one_test(
    ("condition", "captures", "expected"),
    [
        (Condition("c", capture="n", at_least=2), {"n": "2"}, True),
         (Condition("c", capture="n", at_least=2), {"n": "1.9"}, False),
        (Condition("c", capture="n", at_most=2), {"n": "2"}, True),
         (Condition("c", capture="n", at_most=2), {"n": "2.1"}, False),
        (Condition("c", capture="n", at_least=0), {"n": "-1"}, False),
         (Condition("c", capture="n", at_most=0), {"n": "1"}, False),
        (Condition("c", capture="n", at_least=1, at_most=2), {"n": "3"}, False),
         (Condition("c", capture="n", at_least=2), {"n": "x"}, None),
        (Condition("c", capture="n", equals=2), {"n": "2"}, True),
         (Condition("c", capture="n", equals=2), {"n": "2.0"}, False),
        (Condition("c", capture="n"), {}, None), (Condition("c", capture="a/b", at_least=2), {"a": "4", "b": "2"},
         True),
        (Condition("c", capture="a/b", at_most=2), {"a": "4"}, None),
         (Condition("c", capture="a/b", at_most=2), {"a": "x", "b": "1"}, None),
        (Condition("c", capture="a/b", at_least=9), {"a": "1", "b": "0"}, True),
    ],
)  # fmt: skip
def test_bounds_of_a_condition(condition: Condition, captures: dict[str, str], expected: bool | None) -> None:  # noqa: FBT001
    """Both limits are included; a value that is not a number is unknown."""
    assert holds(condition, captures, Facts(), {}) is expected


@in_one_test(
    ("name", "captures", "facts", "expected"),
    [
        ("n", {"n_mib": "3.00"}, {}, "3.00 MiB"), ("n", {"n_kib": "3"}, {}, "3 KiB"),
         ("n", {"n_seconds": "3"}, {}, "3 s"),
        ("n", {"n_tokens": "3"}, {}, "3 tokens"), ("n", {"n_gib": "1", "n_mib": "2"}, {}, "1 GiB"),
        # Nine digits of bytes are counted, ten are GiB.
        ("n", {"n_bytes": "999999999"}, {}, "999999999 bytes"), ("n", {"n_bytes": "1073741824"}, {}, "1.00 GiB"),
        ("n", {"n_gib": "1.234"}, {}, "1.23 GiB"), ("n", {"n_gib": "-1.236"}, {}, "-1.24 GiB"),
         ("n", {"n_gib": "1.2"}, {}, "1.2 GiB"),
        ("n", {"n_gib": "1" * 16 + ".123"}, {}, "1" * 16 + ".123 GiB"),
         ("n", {"n_bytes": "12345678901 "}, {}, "12345678901  bytes"),
        ("weights_gib", {}, {"weights_gib": 14.0}, "14 GiB"), ("weights_gib", {}, {"weights_gib": 100.0}, "100 GiB"),
        ("load_seconds", {}, {"load_seconds": 2.5}, "2.5 s"),
         ("max_model_len", {}, {"max_model_len": 131072}, "131,072"),
        ("weights_gib", {"weights_gib": "as said"}, {"weights_gib": 1.0}, "as said"),
    ],
)  # fmt: skip
def test_a_figure_in_words(name: str, captures: dict[str, str], facts: dict[str, Any], expected: str) -> None:
    """With its unit, two decimals at the most, and no needless ones of a fact."""
    assert value_of(name, captures, Facts(**facts)) == expected


def test_sentences_that_lack_a_value_are_left_out() -> None:
    """Each by itself; a colon or a semicolon parts them too, before a capital, a quotation or code."""
    text = 'One {n}. Two; Three {m}: "four" {n}! `five`? Six. and {n}'

    assert filled_or_plain(text, {"n": "1"}, Facts()) == 'One 1. Two; "four" 1! `five`? Six. and 1'
    assert filled_or_plain(text, {}, Facts()) == "Two; `five`?"
    assert filled_or_plain(" ", {}, Facts()) == ""
