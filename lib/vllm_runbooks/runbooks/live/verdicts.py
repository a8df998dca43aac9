"""The verdict on launches: ready, answering, and split as requested."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from vllm_runbooks.core.records import Answer, Outcome, RunbookVerdict, Verdict
from vllm_runbooks.diagnosis import expected as diagnosis_expected
from vllm_runbooks.probe.starts import Fleet, Guarded, LaunchResult, LoadResult, Printed


def verdict(answer: Answer, started: Guarded, proved: Guarded | None = None) -> RunbookVerdict:
    """The verdict on a live run: the server was ready, or a remedy made it ready."""
    diagnosed = diagnosis_expected.verdict(answer, None, ())
    if started.failed_check is not None:
        return replace(diagnosed, verdict=Verdict.FAIL, reason=started.failed_check)
    if is_ready(started):
        unproved = "" if started.attempts[-1].health_checks else ", according to its log; its address is unknown"
        return replace(diagnosed, verdict=Verdict.PASS, reason=f"the server was ready{unproved}", outcome=Outcome.READY)
    if proved is None:
        return diagnosed
    if is_ready(proved):
        cause = answer.root_cause.title if answer.root_cause else "the failure"
        reason = f"{cause}: fixed by the change, the server was ready in {proved.attempts[-1].ready_s:.0f} s"
        return replace(diagnosed, verdict=Verdict.PASS, reason=reason)
    reason = f"the fix did not make the server ready; {diagnosed.reason}"
    return replace(diagnosed, verdict=Verdict.FAIL, reason=reason)


def pair_verdict(
    answer: Answer, first: Guarded, second: Guarded | None, proved: Guarded | None = None
) -> RunbookVerdict:
    """The verdict on two compared launches: both must be ready and answer the whole load."""
    if not is_ready(first) or second is None:
        return verdict(answer, first, proved)
    diagnosed = replace(diagnosis_expected.verdict(answer, None, ()), outcome=Outcome.READY)
    wrong = next(chain(_wrong("the first", first), _wrong("the second", second)), None)
    if wrong is not None:
        return replace(diagnosed, verdict=Verdict.FAIL, reason=wrong, outcome=answer.outcome)
    loads = [item.attempts[-1].measured for item in (first, second)]
    rates = [f"{load.tokens_per_s:.0f}" if load and load.tokens_per_s else "unknown" for load in loads]
    reason = f"both were ready and answered the load: {', then '.join(rates)} tokens/s"
    return replace(diagnosed, verdict=Verdict.PASS, reason=reason)


def split_verdict(
    alone: Guarded, copies: Fleet, split: Guarded, lines: Sequence[Sequence[Printed]] = ()
) -> RunbookVerdict:
    """Verdict on a split: copies with a shared load, one server over as many GPUs, log lines."""
    wrong = next(_wrong_in_split(copies, split, lines), None)
    if wrong is not None:
        return RunbookVerdict(Verdict.FAIL, wrong, None, None, None, ())
    of_one = "" if is_ready(alone) else f"; a single server: {_cause(alone)}"
    measured = copies.measured
    answered = f"{measured.answered} of {measured.requests} requests" if measured is not None else "no load"
    reason = f"{len(copies.servers)} replicas behind one address answered {answered}; the split took effect{of_one}"
    return RunbookVerdict(Verdict.PASS, reason, None, Outcome.READY, None, ())


def is_ready(started: Guarded | None) -> bool:
    return started is not None and started.last is not None and started.last.ready_s is not None


def _cause(started: Guarded) -> str:
    last = started.last
    if last is not None and last.answer is not None and last.answer.root_cause is not None:
        return last.answer.root_cause.title
    return started.failed_check or f"never ready, {last.ending if last else 'not launched'}"


def _wrong(name: str, started: Guarded, *, has_load: bool = True) -> Iterator[str]:
    if not is_ready(started):
        yield f"{name} was not ready: {_cause(started)}"
        return
    last = started.attempts[-1]
    if not last.is_proved:
        yield f"{name} was ready, but then {last.ending}"
    elif has_load:
        yield from _wrong_load(f"{name}: the load", last.measured)


def _wrong_in_split(copies: Fleet, split: Guarded, lines: Sequence[Sequence[Printed]]) -> Iterator[str]:
    for number, server in enumerate(copies.servers, 1):
        yield from _wrong(f"copy {number}", server, has_load=False)
    yield from _wrong_load("the load through the proxy", copies.measured)
    idle = (number for number, count in enumerate(copies.answered, 1) if count == 0)
    yield from (f"replica {number} answered no requests" for number in idle)
    yield from _wrong("the split server", split)
    missing = (line for every in lines for line in every if line.result is LaunchResult.FAILED)
    yield from (f"not in the log: {line.text}" for line in missing)


def _wrong_load(name: str, measured: LoadResult | None) -> Iterator[str]:
    if measured is None:
        yield f"{name} was not sent"
    elif measured.reason:
        yield f"{name} was not measured: {measured.reason}"
    elif measured.answered != measured.requests:
        yield f"{name}: {measured.answered} of {measured.requests} requests were answered"
