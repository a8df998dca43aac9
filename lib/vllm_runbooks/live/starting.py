"""What runbooks do on this host: start a server, prove a way out; each leaves its log, its report and a case."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from vllm_runbooks import serve, steps, verdicts
from vllm_runbooks.errors import InputError
from vllm_runbooks.host import gpu_memory
from vllm_runbooks.live_records import Guarded, Result
from vllm_runbooks.records import Answer, Document, Evidence, Judgement, Outcome, Remedy, Verdict

_READY_S = 1800.0
Say = Callable[[str], None]


def start(
    command: str,
    *,
    step: str = "start",
    gpus: str = "",
    vllm: str = "",
    folder: str = "",
    ready_within_s: float = _READY_S,
    tries: int = 1,
    say: Say = print,
) -> Guarded:
    """Start the command's server under the guard, see whether it becomes ready, and end it.

    Args:
        command: As one would type it, or a script that holds it.
        step: Name of the step.
        gpus: The cards for the plan; empty are those of this host.
        vllm: Its release; empty is the one that its Python has.
        folder: Where log, report and case go; empty is the run's own folder, or one among those of all starts.
        ready_within_s: Time to be ready in.
        tries: Starts at most.
        say: Says a line of the guard.

    Raises:
        InputError: the command starts no server.
    """

    def action() -> Guarded:
        words = _words(command)
        place = Path(folder) / step if folder else _own(step)
        if place is not None and place.exists():
            place = place.with_name(f"{place.name}-{time.time_ns()}")
        request = serve.Request(
            subject=serve.subject(words, vllm=vllm or None),
            source=_source(),
            why_none="no NVIDIA driver answers on this host",
            gpus=gpus or None,
            limits=serve.Limits(ready_s=ready_within_s),
            tries=tries,
            folder=place,
            proof=lambda: None,
        )
        found = serve.serve(request, show=lambda _: None, say=say)
        if found.attempts:
            serve.record(found, Path(found.folder or "") / "case", say=say)
        return found

    return steps.do(step, action, Guarded, timeout_s=tries * (ready_within_s + 1800))


def _own(step: str) -> Path | None:
    place = steps.folder()
    return None if place is None else place / step


def _source() -> gpu_memory.Source | None:
    try:
        return gpu_memory.Nvml()
    except InputError:
        return None


def evidence(started: Guarded) -> Evidence:
    """The log of a start's last try with its command; of one that was not made what the checks said."""
    if started.attempts:
        return serve.evidence(started)
    said = "".join(f"[vllm-runbooks] {each.name}: {each.result.value}: {each.says}\n" for each in started.checks)
    return Evidence((Document("guard.log", said),), vllm=started.vllm)


def way_out(answer: Answer) -> Remedy | None:
    """The first way out with a command that the linter passed and the planner did not refuse."""
    return next((each for each in answer.remedies if each.command and each.checks.lint == "passed"), None)


def apply(
    answer: Answer,
    command: str,
    *,
    step: str = "apply",
    gpus: str = "",
    vllm: str = "",
    folder: str = "",
    say: Say = print,
) -> Guarded | None:
    """Start the command with the first way out of its failure under the guard; None where none was checked.

    The change is made in the command itself: what a diagnosis shows of it has its secrets replaced.

    Raises:
        InputError: as `start`, or the change cannot be made in the command.
    """
    way = way_out(answer)
    if way is None:
        return None
    changed = serve.subject(_words(command), vllm=vllm or None).edited(way.edits)
    return start(shlex.join(changed.argv), step=step, gpus=gpus, vllm=vllm, folder=folder, say=say)


def _words(command: str) -> list[str]:
    """The words of a command; of a script's name alone the shell that runs it.

    Raises:
        InputError: it is no command.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"serve: {error}; write the command as one would type it") from None
    if not words:
        raise InputError("serve: is empty; with live it is the command that starts the server")
    return words if len(words) != 1 else ["bash", words[0]]


def judge(answer: Answer, started: Guarded, proved: Guarded | None = None) -> Judgement:
    """The verdict on a live run: a server that was ready at once passes, and one that a way out made ready."""
    found = verdicts.judge(answer, None, ())
    refused = next((each for each in started.checks if each.result is Result.FAILED), None)
    if not started.attempts and refused is not None:
        return replace(found, verdict=Verdict.FAIL, reason=f"not started: {refused.name}: {refused.says}")
    if started.attempts and started.attempts[-1].ready_s is not None:
        return replace(found, verdict=Verdict.PASS, reason="the server was ready", outcome=Outcome.READY)
    if proved is None:
        return found
    if proved.attempts and proved.attempts[-1].ready_s is not None:
        cause = answer.root_cause.title if answer.root_cause else "the failure"
        reason = f"{cause}: gone after the change, the server was ready in {proved.attempts[-1].ready_s:.0f} s"
        return replace(found, verdict=Verdict.PASS, reason=reason)
    return replace(found, verdict=Verdict.FAIL, reason=f"the way out did not make the server ready; {found.reason}")
