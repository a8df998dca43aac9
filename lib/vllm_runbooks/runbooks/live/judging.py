"""The verdict on what was started: ready, answering, and split as it was asked for, or why not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from vllm_runbooks.core.records import Answer, Judgement, Outcome, Verdict
from vllm_runbooks.diagnosis import expected as diagnosis_expected
from vllm_runbooks.probe.starts import Fleet, Guarded, Measured, Printed, Result


def judge(answer: Answer, started: Guarded, proved: Guarded | None = None) -> Judgement:
    """The verdict on a live run: a server that was ready at once passes, and one that a way out made ready."""
    found = diagnosis_expected.judge(answer, None, ())
    refused = _refused(started)
    if refused is not None:
        return replace(found, verdict=Verdict.FAIL, reason=refused)
    if is_ready(started):
        return replace(
            found, verdict=Verdict.PASS, reason=f"the server was ready{_unproved(started)}", outcome=Outcome.READY
        )
    if proved is None:
        return found
    if is_ready(proved):
        cause = answer.root_cause.title if answer.root_cause else "the failure"
        reason = f"{cause}: gone after the change, the server was ready in {proved.attempts[-1].ready_s:.0f} s"
        return replace(found, verdict=Verdict.PASS, reason=reason)
    return replace(found, verdict=Verdict.FAIL, reason=f"the way out did not make the server ready; {found.reason}")


def judge_pair(answer: Answer, first: Guarded, second: Guarded | None, proved: Guarded | None = None) -> Judgement:
    """The verdict on two starts that are compared: both have to be ready, and to have answered the whole load."""
    if not is_ready(first) or second is None:
        return judge(answer, first, proved)
    found = replace(diagnosis_expected.judge(answer, None, ()), outcome=Outcome.READY)
    wrong = next(chain(_wrong("the first", first), _wrong("the second", second)), None)
    if wrong is not None:
        return replace(found, verdict=Verdict.FAIL, reason=wrong, outcome=answer.outcome)
    rates = [each.attempts[-1].measured for each in (first, second)]
    said = ", then ".join(f"{each.tokens_per_s:.0f}" if each and each.tokens_per_s else "unknown" for each in rates)
    return replace(found, verdict=Verdict.PASS, reason=f"both were ready and answered the load: {said} tokens/s")


def judge_split(one: Guarded, copies: Fleet, split: Guarded, lines: Sequence[Sequence[Printed]] = ()) -> Judgement:
    """The verdict on a split: copies that share a load, and one server over as many parts, with the lines that show it.

    Args:
        one: A server alone, whatever became of it.
        copies: Of it, behind a proxy.
        split: One server over as many cards.
        lines: Those that show each one's layout.
    """
    wrong = next(_wrong_in_split(copies, split, lines), None)
    if wrong is not None:
        return Judgement(Verdict.FAIL, wrong, None, None, None, ())
    alone = f"; one alone: {_cause(one)}" if not is_ready(one) else ""
    measured = copies.measured
    answered = f"{measured.answered} of {measured.requests} requests" if measured is not None else "no load"
    reason = f"{len(copies.servers)} copies behind one address answered {answered}; the split took effect{alone}"
    return Judgement(Verdict.PASS, reason, None, Outcome.READY, None, ())


def is_ready(started: Guarded | None) -> bool:
    """Whether the last try of a start became ready; one that was not asked for did not."""
    return started is not None and bool(started.attempts) and started.attempts[-1].ready_s is not None


def _refused(started: Guarded) -> str | None:
    """The check that forbade the start, where one did."""
    failed = next((each for each in started.checks if each.result is Result.FAILED), None)
    return None if started.attempts or failed is None else f"not started: {failed.name}: {failed.says}"


def _cause(started: Guarded) -> str:
    """Why a start was not ready."""
    answer = started.attempts[-1].answer if started.attempts else None
    if answer is not None and answer.root_cause is not None:
        return answer.root_cause.title
    return _refused(started) or f"never ready, {started.attempts[-1].ending if started.attempts else 'not started'}"


def _unproved(started: Guarded) -> str:
    """What of a ready server nobody has asked it, as the end of a sentence."""
    return "" if started.attempts[-1].rungs else ", by its log alone: where it answers is not known"


def _wrong(name: str, started: Guarded, *, has_load: bool = True) -> Iterator[str]:
    """What is wrong with a start that should have been ready, and have answered a load if one was sent to it."""
    if not is_ready(started):
        yield f"{name} was not ready: {_cause(started)}"
        return
    last = started.attempts[-1]
    if not last.is_proved:
        yield f"{name} was ready and did not stay: it {last.ending}"
    elif has_load:
        yield from _wrong_load(f"{name}: the load", last.measured)


def _wrong_in_split(copies: Fleet, split: Guarded, lines: Sequence[Sequence[Printed]]) -> Iterator[str]:
    """What of a split is not as it was asked for, in the order in which it was tried."""
    for number, each in enumerate(copies.servers, 1):
        yield from _wrong(f"copy {number}", each, has_load=False)
    yield from _wrong_load("the load through the proxy", copies.measured)
    idle = (number for number, count in enumerate(copies.answered, 1) if count == 0)
    yield from (f"copy {number} answered none of the requests" for number in idle)
    yield from _wrong("the split server", split)
    missing = (line for every in lines for line in every if line.result is Result.FAILED)
    yield from (f"not in the log: {line.text}" for line in missing)


def _wrong_load(name: str, measured: Measured | None) -> Iterator[str]:
    if measured is None:
        yield f"{name} was not sent"
    elif measured.why_none:
        yield f"{name} was not measured: {measured.why_none}"
    elif measured.answered != measured.requests:
        yield f"{name}: {measured.answered} of {measured.requests} requests were answered"
