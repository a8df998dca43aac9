"""The first cause over all processes wins, with the level it deserves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vllm_runbooks.catalog import Catalog
from vllm_runbooks.diagnosis import diagnose, fill, value_of
from vllm_runbooks.records import (
    Condition,
    Example,
    Facts,
    Hit,
    Level,
    LookIn,
    NearMiss,
    Outcome,
    Process,
    Quote,
    Raised,
    Release,
    Role,
    Severity,
    Signature,
    Start,
    Symptom,
    Traceback,
    Verified,
)

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


def hit(name: str, line: int, **more: Any) -> Hit:
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
    return Hit(**fields | more)


def traceback(line: int, process: Process = ENGINE, *, ignored: bool = False) -> Traceback:
    return Traceback(process, (Raised("RuntimeError", "words", quote(line), (), None),), logged=True, ignored=ignored)


def start(*hits: Hit, outcome: Outcome = Outcome.FAILED, **more: Any) -> Start:
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
        "warnings": (),
        "tracebacks": (),
        "hits": hits,
        "facts": Facts(),
        "ranks": (),
    }
    return Start(**fields | more)


def shelf(*symptoms: Symptom) -> Catalog:
    return Catalog({s.id: s for s in symptoms}, ())


CAUSE, OTHER = symptom("oom.weights"), symptom("port.in_use")
WRAPPER = symptom("engine.dead_wrapper", role=Role.WRAPPER, look_in=LookIn("the error", "the other log"))
PEER = symptom("dist.peer_lost", role=Role.CONSEQUENCE, look_in=LookIn("the error", "the other rank's log"))
NOISE = symptom("engine.exit_noise", role=Role.BENIGN, severity=Severity.HINT)


def test_the_first_cause_wins_over_wrappers_lost_peers_and_noise() -> None:
    """Wherever in the text they stand."""
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


def test_of_two_causes_the_earlier_one_wins_and_the_other_is_only_possible() -> None:
    """What fails afterwards is most often a consequence."""
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
def test_a_stand_in_is_the_answer_where_no_cause_is_in_the_text(lines: tuple[int, int]) -> None:
    """It says what to look for and where, and is never confirmed; a consequence tells more than a notice of an end."""
    found = diagnose(start(hit(PEER.id, lines[0]), hit(WRAPPER.id, lines[1])), shelf(WRAPPER, PEER))

    assert found.root_cause is not None
    assert (found.root_cause.symptom, found.root_cause.level) == (PEER.id, Level.PROBABLE)
    assert found.root_cause.look_in == PEER.look_in


def test_a_symptom_may_stand_for_others_on_its_line() -> None:
    """One that says more replaces what it names, whatever knows the place better; elsewhere both stay."""
    precise = replace(OTHER, instead_of=(CAUSE.id,))
    hits = (hit(CAUSE.id, 4, depth=7), hit(OTHER.id, 4), hit(CAUSE.id, 9))
    found = diagnose(start(*hits), shelf(CAUSE, precise))

    assert [(f.symptom, f.evidence[0].line) for f in found.findings] == [(OTHER.id, 4), (CAUSE.id, 9)]


def test_a_finer_symptom_is_preferred_where_it_knows_the_place_as_well() -> None:
    """a.b.c refines a.b; where a.b alone knows the place, it stays."""
    finer = replace(CAUSE, id=f"{CAUSE.id}.finer")

    def named(*depths: int) -> list[str]:
        hits = (hit(CAUSE.id, 4, depth=depths[0]), hit(finer.id, 4, depth=depths[1]))
        return [f.symptom for f in diagnose(start(*hits), shelf(CAUSE, finer)).findings]

    assert named(3, 3) == named(-2, 3) == [finer.id]
    assert named(3, -2) == [CAUSE.id]


def test_a_stand_in_is_only_possible_while_an_exception_is_unexplained() -> None:
    """The exception that no symptom knows is shown: it may be the cause."""
    found = diagnose(start(hit("engine.dead_wrapper", 9), tracebacks=(traceback(2),)), shelf(WRAPPER))

    assert found.root_cause is not None
    assert found.root_cause.level is Level.POSSIBLE
    assert found.first_error == quote(2)


def test_a_cause_after_an_unexplained_exception_is_not_confirmed() -> None:
    """One that stands after it changes nothing; neither does one that was ignored or survived."""
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
    """Confirmed is an exception or an error line, at a known place, of a start that ended."""
    found = diagnose(start(hit("oom.weights", 4, **change), outcome=outcome), shelf(CAUSE))

    assert found.findings[0].level is level


@pytest.mark.parametrize(("unknown", "level"), [(False, Level.PROBABLE), (True, Level.POSSIBLE)])
def test_a_cause_that_sends_the_reader_elsewhere_is_never_confirmed(*, unknown: bool, level: Level) -> None:
    """With a condition unknown it is only possible."""
    conditions = (Condition("the step", capture="step"),) if unknown else ()
    elsewhere = replace(CAUSE, look_in=LookIn("a", "b"), conditions=conditions)

    assert diagnose(start(hit("oom.weights", 4)), shelf(elsewhere)).findings[0].level is level


def test_a_healthy_start_has_no_root_cause_but_a_request_that_cannot_be_served() -> None:
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


def test_what_a_client_wrote_is_no_failure_of_a_healthy_server() -> None:
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
    """Neither the same figure in another unit nor one that the first rank did not print."""
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


def test_a_sentence_without_its_figure_is_left_out() -> None:
    """Nothing is said with a hole in it."""
    found = diagnose(start(hit("oom.weights", 4)), shelf(CAUSE)).findings[0]

    assert (found.explanation, found.do_first) == ("It is so.", "Look.")


@pytest.mark.parametrize(
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
    """Each says yes, no, or that the text does not tell."""
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


def test_what_speaks_against_a_cause_makes_it_possible_only() -> None:
    """And lets another one win that nothing speaks against."""
    doubtful = replace(CAUSE, conditions=(Condition("c", outcome=("ready",)),))
    found = diagnose(start(hit("oom.weights", 1), hit("port.in_use", 9)), shelf(doubtful, OTHER))

    assert [(f.symptom, f.level) for f in found.findings] == [
        ("port.in_use", Level.CONFIRMED),
        ("oom.weights", Level.POSSIBLE),
    ]


def test_a_hint_with_something_against_it_is_possible() -> None:
    """Hints are confirmed otherwise, wherever they stand."""
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
    hits: tuple[Hit, ...], tracebacks: tuple[Traceback, ...], *, is_found: bool
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


def test_a_companion_alone_is_no_finding() -> None:
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
def test_values_are_said_with_their_unit(captures: dict[str, str], facts: Facts, said: str | None) -> None:
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
def test_facts_are_said_with_their_unit(name: str, said: str | None) -> None:
    """An unknown one has no words."""
    facts = Facts(weights_gib=13.72, kv_cache_tokens=798624, model="m", gpu_memory_utilization=0.90)

    assert value_of(name, {}, facts) == said
    assert fill(f"it is {{{name}}}", {}, facts) == (None if said is None else f"it is {said}")


@pytest.mark.parametrize(
    ("phase", "is_found", "unknown"), [("serve", True, ()), ("profile", False, ()), (None, True, ("c",))]
)
def test_a_phase_can_be_required(phase: str | None, *, is_found: bool, unknown: tuple[str, ...]) -> None:
    """The deciding line's own; where the text shows none it is not known, and nothing is refused."""
    late = replace(CAUSE, conditions=(Condition("c", phase=("warm_up", "serve"), required=True),))
    found = diagnose(start(hit("oom.weights", 4, phase=phase)), shelf(late)).findings

    assert bool(found) is is_found
    assert [f.conditions.unknown for f in found] == [unknown] * is_found


def test_a_required_capture_must_be_there() -> None:
    """A symptom that rests on it is not found without."""
    resting = replace(CAUSE, conditions=(Condition("c", capture="gpu", required=True),))

    assert diagnose(start(hit("oom.weights", 4)), shelf(resting)).findings == ()
    assert diagnose(start(hit("oom.weights", 4, captures={"gpu": "0"})), shelf(resting)).findings


def test_a_hint_with_a_condition_unknown_is_only_possible() -> None:
    """It is said all the same: the reader may know."""
    unsure = symptom("dist.one_host", severity=Severity.HINT, conditions=(Condition("c", fact="weights_gib"),))

    assert diagnose(start(hit("dist.one_host", 1)), shelf(unsure)).findings[0].level is Level.POSSIBLE


def test_a_wrapper_that_repeats_a_workers_words_does_not_place_them() -> None:
    """The parent's frames are the parent's: the worker's place wins, and without the worker's log there is none."""
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


def test_a_notice_stands_in_also_where_its_process_shut_down_in_order() -> None:
    """Lines of a server that is ending are no proof that it went on."""
    given = start(hit("engine.dead_wrapper", 4, process=SERVER), progress={1: 6})
    found = diagnose(given, shelf(WRAPPER))

    assert found.root_cause is not None
    assert (found.root_cause.symptom, found.root_cause.level) == ("engine.dead_wrapper", Level.POSSIBLE)
    assert diagnose(replace(given, outcome=Outcome.UNKNOWN), shelf(WRAPPER)).root_cause is None


def test_a_logged_line_is_not_sure_of_an_end_that_another_process_met() -> None:
    """What a server logs of a request may quote any error; the engine's unexplained exception stands behind it."""
    logged = hit("oom.weights", 4, process=SERVER, traceback=None)
    alone = diagnose(start(logged), shelf(CAUSE))
    before_another = diagnose(start(logged, tracebacks=(traceback(9),)), shelf(CAUSE))

    assert alone.root_cause is not None
    assert before_another.root_cause is not None
    assert alone.root_cause.level is Level.CONFIRMED
    assert before_another.root_cause.level is Level.PROBABLE
