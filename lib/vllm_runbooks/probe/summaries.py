"""Summary of a running server: its state, the problem with its proof, the first fix, the load."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.catalog.serving import Serving
from vllm_runbooks.core.records import Outcome, Severity
from vllm_runbooks.core.views.elements import cut
from vllm_runbooks.core.views.styled import Tone
from vllm_runbooks.core.views.summary import Statement, Step, SuggestedFix, Summary, SummaryTable, count_of, rest_step
from vllm_runbooks.diagnosis.render.summaries import remedy_fix
from vllm_runbooks.probe.records import FEWEST_P95, FEWEST_P99, Health, LoadMeasurement, ServingFinding
from vllm_runbooks.probe.starts import LaunchResult
from vllm_runbooks.probe.vitals import shown

_STATES = {
    "serving.not_vllm": "NOT VLLM", "serving.key_missing": "REJECTED", "serving.key_refused": "REJECTED",
    "serving.wrong_model": "REJECTED",
}  # fmt: skip
"""Fatal causes of a server that is up; any other is down."""
_IN_USE = ("running", "waiting", "kv_use")
_MOST_STATEMENTS, _MOST_NOTES, _MAX_NAME = 3, 2, 60


def summarize(health: Health, serving: Serving, *, again: str = "") -> Summary:
    """Summarize a server.

    Args:
        health: The checked server.
        serving: The catalog's facts of servers.
        again: The command that shows everything; empty if there is none.
    """
    problems = [finding for finding in health.findings if finding.severity is not Severity.HINT]
    seen = health.observation
    return Summary(
        *state_of(health),
        tuple(_about(health)),
        "" if problems else " ".join(_healthy(health, serving)),
        tuple(_statement(finding, is_first=number == 0) for number, finding in enumerate(problems[:_MOST_STATEMENTS])),
        _fix(health.cause) if health.cause is not None else None,
        table=_load_table(seen.load) if seen.load is not None else None,
        steps=tuple(_steps(health)),
        more=_more(health, len(problems), again),
    )


def state_of(health: Health) -> tuple[str, Tone]:
    """The state in a word: HEALTHY, DEGRADED, DOWN, REJECTED, NOT VLLM or UNKNOWN."""
    if health.cause is None:
        return ("UNKNOWN", Tone.WARN) if health.outcome is Outcome.UNKNOWN else ("HEALTHY", Tone.GOOD)
    if health.cause.severity is Severity.FATAL:
        return _STATES.get(health.cause.id, "DOWN"), Tone.BAD
    return "DEGRADED", Tone.WARN


def _about(health: Health) -> Iterator[str]:
    yield cut(health.observation.address, 2 * _MAX_NAME)
    if health.observation.model:
        yield cut(health.observation.model, _MAX_NAME)
    if health.vllm.version:
        yield f"vLLM {cut(health.vllm.version, _MAX_NAME)}"


def _healthy(health: Health, serving: Serving) -> Iterator[str]:
    """Answered requests, and load by the server's metrics."""
    passed = [check for check in health.observation.health_checks if check.result is LaunchResult.PASSED]
    took = next((check.seconds for check in passed if check.name == "token"), None)
    if took is not None:
        yield f"One token after {shown(took, 's')}."
    if figures := figures_in_use(health, serving):
        yield f"{', '.join(figures)}."
    yield "No problems found." if health.outcome is not Outcome.UNKNOWN else "No request was answered or rejected."


def figures_in_use(health: Health, serving: Serving) -> list[str]:
    """Requests that run and wait, and the KV cache in use, as far as known."""
    facts = {name: health.facts.get(name) for name in _IN_USE if name in serving.facts}
    return [f"{shown(value, serving.facts[name].unit)} {serving.facts[name].says}" for name, value in facts.items()
            if value is not None]  # fmt: skip


def _statement(finding: ServingFinding, *, is_first: bool) -> Statement:
    is_fatal = finding.severity is Severity.FATAL
    proof = finding.proofs[0] if finding.proofs else None
    return Statement(
        "✗" if is_fatal else "!",
        finding.title,
        Tone.BAD if is_fatal else Tone.WARN,
        id=finding.id,
        place="" if proof is None else proof.health_check or "metrics",
        quote="" if proof is None else " ".join(proof.message.split()).removeprefix(f"{proof.health_check}: "),
        is_whole=is_first,
    )


def _fix(cause: ServingFinding) -> SuggestedFix:
    """The first change of the command; without one, the first action."""
    change = next((change for change in cause.changes if change.edits), None)
    if change is None:
        return SuggestedFix(cause.do_first, is_command=False)
    return remedy_fix(change, Wording(), has_command=change.command is not None)


def _steps(health: Health) -> Iterator[Step]:
    cause = health.cause
    if cause is not None and any(change.edits for change in cause.changes):
        yield Step("Next", cause.do_first, is_first=True)
    log = health.observation.log
    if log is not None and log.title:
        yield Step("Log", f"{log.outcome.value}: {log.title} ({', '.join(log.files)})")
    elif cause is not None and cause.severity is Severity.FATAL and log is None and cause.id not in _STATES:
        yield Step("Next", "Diagnose the server's log", "vllm-runbooks diagnose SERVER.log")
    for note in health.notes[:_MOST_NOTES]:
        yield Step("Note", note)


def _load_table(load: LoadMeasurement) -> SummaryTable:
    """The percentiles for which there were enough answers, and the throughput."""
    fewest = {"p50": 1, "p95": FEWEST_P95, "p99": FEWEST_P99}
    names = [name for name, least in fewest.items() if load.answered >= least]
    rows = [
        (name, *(_took(getattr(times, f"{percentile}_ms")) for percentile in names))
        for name, times in (
            ("time to first token", load.time_to_first_token),
            ("time per output token", load.inter_token_latency),
            ("request latency", load.end_to_end_latency),
        )
    ]
    parts = [
        f"{load.concurrency} concurrent requests, {load.seconds:.0f} s: {load.answered} of {load.requests} completed"
    ]
    parts += [f"{count} x {kind}" for kind, count in load.errors.items()]
    if load.answer_tokens_per_s is not None:
        parts.append(shown(load.answer_tokens_per_s, "output tokens/s"))
    return SummaryTable(("load", *names), tuple(rows), frozenset(range(1, len(names) + 1)), "; ".join(parts))


def _took(milliseconds: float | None) -> str:
    return "unknown" if milliseconds is None else shown(milliseconds / 1000, "s")


def _more(health: Health, problems: int, again: str) -> Step | None:
    hints = len(health.findings) - problems
    changes = len(health.cause.changes) - 1 if health.cause is not None else 0
    counts = ((changes, "more fix"), (problems - _MOST_STATEMENTS, "more problem"), (hints, "hint"))
    parts = [count_of(count, noun) for count, noun in counts if count > 0]
    return rest_step([*parts, "all checks", "all figures"], again)
