"""One server: started under the guard, loaded where that is asked for, and ended; and again with a change."""

from __future__ import annotations

import json
import shlex
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from vllm_runbooks import arguments, deployment, serve, steps
from vllm_runbooks.arguments.conditions import UNKNOWN
from vllm_runbooks.errors import InputError
from vllm_runbooks.files import store
from vllm_runbooks.host import gpu_memory
from vllm_runbooks.live_records import Change, Guarded, Measured
from vllm_runbooks.records import Answer, Document, Edit, Evidence, Remedy
from vllm_runbooks.serve import load as loads
from vllm_runbooks.serve import places, retries
from vllm_runbooks.serve.load import Load
from vllm_runbooks.serve.subject import Subject

READY_S = 1800.0
COMMANDS = "commands.jsonl"
"""The commands of a step with their exit status, a line each."""
Say = Callable[[str], None]


class Host(NamedTuple):
    """Whose GPU memory is read."""

    source: gpu_memory.Source | None
    why_none: str


def start(
    command: str,
    *,
    step: str = "start",
    setting: str = "",
    gpus: str = "",
    vllm: str = "",
    memory: str = "",
    load: Load | None = None,
    folder: str = "",
    ready_within_s: float = READY_S,
    tries: int = 1,
    say: Say = print,
) -> Guarded:
    """Start the command's server under the guard, see whether it becomes ready, and end it.

    Args:
        command: As one would type it, or a script that holds it.
        step: Name of the step.
        setting: Variables and options that this start has besides, as in `A=1 --enforce-eager`.
        gpus: The cards for the plan; empty are those of this host.
        vllm: Its release; empty is the one that its Python has.
        memory: A recorded series of GPU memory in place of the driver's readings.
        load: Sent to the server when it is ready.
        folder: Where log, report and case go; empty is the run's own folder, or one among those of all starts.
        ready_within_s: Time to be ready in.
        tries: Starts at most.
        say: Says a line of the guard.

    Raises:
        InputError: the command starts no server, or the setting is none of its release.
    """

    def action() -> Guarded:
        change = None
        one = subject(command, vllm)
        if setting.strip():
            edits = _edits(one, setting)
            one = one.edited(edits)
            change = Change("it is what is compared", setting.strip(), "what the figures show", edits)
        return started(one, Asked(step, gpus, folder, ready_within_s, memory, load, tries), change, say)

    return steps.do(step, action, Guarded, timeout_s=tries * (ready_within_s + 1800))


def apply(
    answer: Answer,
    command: str,
    *,
    step: str = "apply",
    gpus: str = "",
    vllm: str = "",
    memory: str = "",
    folder: str = "",
    say: Say = print,
) -> Guarded | None:
    """Start the command with the first way out of its failure under the guard; None where none was checked.

    The change is made in the command itself: what a diagnosis shows of it has its secrets replaced. Where the cause
    lies outside of the start nothing is changed: it waits for what it needs, and is started again.

    Raises:
        InputError: as `start`, or the change cannot be made in the command.
    """
    cause, way, change = answer.root_cause, way_out(answer), retries.again(answer)
    if change is None and way is not None and cause is not None:
        change = Change(f"{cause.symptom}: {cause.title}", way.title, way.cost, way.edits)
    if change is None:
        return None

    def action() -> Guarded:
        one = subject(command, vllm)
        one = one.edited(change.edits) if change.edits else one
        return started(one, Asked(step, gpus, folder, READY_S, memory), change, say)

    return steps.do(step, action, Guarded, timeout_s=READY_S + 1800)


def way_out(answer: Answer) -> Remedy | None:
    """The first way out with a command that the linter passed and the planner did not refuse."""
    return next((each for each in answer.remedies if each.command and each.checks.lint == "passed"), None)


class Asked(NamedTuple):
    """How a start is made; its fields are the arguments of `start`."""

    step: str
    gpus: str
    folder: str
    ready_within_s: float
    memory: str = ""
    load: Load | None = None
    tries: int = 1


def started(one: Subject, asked: Asked, change: Change | None, say: Say) -> Guarded:
    """Start it, have it proved, end it, and keep its commands and its case.

    Raises:
        InputError: as `start`.
    """
    place, source, load = place_of(asked.step, asked.folder), host(asked.memory), asked.load

    def proof() -> Measured | None:
        return None if load is None else loads.measure(load, one, one.target, place)

    found = serve.serve(
        serve.Request(
            subject=one,
            source=source.source,
            why_none=source.why_none,
            gpus=asked.gpus or None,
            limits=serve.Limits(ready_s=asked.ready_within_s),
            tries=asked.tries,
            folder=place,
            change=change,
            proof=proof,
        ),
        show=lambda _: None,
        say=say,
    )
    record(found, say)
    keep_commands(Path(found.folder or ""), [found], [each.measured for each in found.attempts])
    return found


def record(found: Guarded, say: Say) -> None:
    """Make a case of the start, beside its log; of one that was not made, or printed nothing, there is none."""
    if not found.attempts:
        return
    try:
        serve.record(found, Path(found.folder or "") / "case", say=say)
    except InputError as error:
        say(f"no case was made: {error}")


def place_of(step: str, folder: str) -> Path:
    """A new folder for a step: below the one that is named, the run's own, or among those of all starts."""
    base = Path(folder) if folder else steps.folder()
    if base is None:
        return places.new(uuid.uuid4().hex)
    place = base / step
    return place.with_name(f"{step}-{time.time_ns()}") if place.exists() else place


def host(memory: str) -> Host:
    """The recorded series that is named, else this host's driver.

    Raises:
        InputError: there is no such series.
    """
    if memory.strip():
        return Host(gpu_memory.Recorded(Path(memory.strip())), "")
    try:
        return Host(gpu_memory.Nvml(), "")
    except InputError as error:
        return Host(None, str(error))


def subject(command: str, vllm: str) -> Subject:
    """A command that starts a server.

    Raises:
        InputError: it is none, or starts none.
    """
    return serve.subject(_words(command), vllm=vllm or None)


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


def _edits(one: Subject, setting: str) -> tuple[Edit, ...]:
    """What a setting changes of a command: variables in front, then options, as the release reads them.

    Raises:
        InputError: it is no setting, or the release refuses it.
    """
    try:
        words = shlex.split(setting)
    except ValueError as error:
        raise InputError(f"setting: {error}; write options as one would type them") from None
    own = [word.value for word in one.found.words]
    variables = []
    while words and not words[0].startswith("-") and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        variables.append(Edit("env", name, value))
    entry = deployment.parser_entry(one.found.entry, own, one.data)
    read = arguments.parse([*own, *words], one.data, entry)
    refused = next((each for each in read.problems if each.is_refusal), None)
    if refused is not None:
        said = f"{refused.option or refused.kind}: {refused.kind.replace('-', ' ')}"
        raise InputError(f"setting: vLLM {one.data.version} refuses it: {said}")
    before = one.flags
    known = {name: value for name, value in read.flags.items() if value is not UNKNOWN}
    changed = [Edit("set", name, value) for name, value in known.items() if before.get(name) != value]
    if not changed and not variables:
        raise InputError(f"setting: {setting.strip()} changes nothing of the command")
    return (*variables, *changed)


def evidence(*started: Guarded | None) -> Evidence:
    """The logs of the starts' last tries, with the first one's command; of one not made what the checks said."""
    found = [_evidence(each) for each in started if each is not None]
    first, *others = found
    documents = [*first.documents]
    for number, other in enumerate(others, 2):
        documents += [replace(each, name=f"{number}/{each.name}") for each in other.documents]
    return replace(first, documents=tuple(documents))


def _evidence(started: Guarded) -> Evidence:
    said = "".join(f"[vllm-runbooks] {each.name}: {each.result.value}: {each.says}\n" for each in started.checks)
    if started.attempts:
        try:
            return serve.evidence(started)
        except InputError as error:
            said += f"[vllm-runbooks] {started.attempts[-1].ending}; {error}\n"
    return Evidence((Document("guard.log", said),), vllm=started.vllm)


def keep_commands(folder: Path, started: Sequence[Guarded], more: Sequence[Measured | None] = ()) -> None:
    """Write down the commands that were run, with their exit status; secrets are replaced in them already."""
    rows = [
        {"command": each.command, "ended": each.ending, "status": one.status, "seconds": round(each.seconds, 1)}
        for one in started
        for each in one.attempts
    ]
    rows += [
        {"command": each.command, "ended": each.why_none or "ended with exit status 0", "status": each.status}
        for each in more
        if each is not None and each.command
    ]
    if rows:
        store(folder / COMMANDS, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
