"""One server: started under the guard, loaded where that is asked for, and ended; and again with a change."""

from __future__ import annotations

import json
import os
import shlex
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.files import NotStoredError, store
from vllm_runbooks.core.records import Answer, Edit
from vllm_runbooks.host import gpu_memory
from vllm_runbooks.probe.starts import Change, Guarded, Measured
from vllm_runbooks.reading import arguments, deployment
from vllm_runbooks.reading.arguments.conditions import UNKNOWN
from vllm_runbooks.runbooks import recording, steps
from vllm_runbooks.serve import guard as serve
from vllm_runbooks.serve import load as loads
from vllm_runbooks.serve import places, retries
from vllm_runbooks.serve.load import Load
from vllm_runbooks.serve.subject import Subject

READY_S = 1800.0
AROUND_S = 1800.0
"""Time of a step besides the start itself: waits for cards, the load, the end."""
_SIGNALLED = 128
"""Exit statuses from which on a signal has ended what ran."""
COMMANDS = "commands.jsonl"
"""The commands of a step with their exit status, a line each."""
Say = Callable[[str], None]


class Cards(NamedTuple):
    """Whose GPU memory is read."""

    source: gpu_memory.Source | None
    why_none: str


def start(
    command: str,
    *,
    step: str = "start",
    setting: str | None = None,
    gpus: str = "",
    vllm: str = "",
    memory: str = "",
    load: Load | None = None,
    folder: str = "",
    ready_within_s: float = READY_S,
    say: Say = print,
) -> Guarded:
    """Start the command's server under the guard, see whether it becomes ready, and end it.

    Args:
        command: As one would type it, or a script that holds it.
        step: Name of the step.
        setting: Variables and options that this start has besides, as in `A=1 --enforce-eager`; None: no such.
        gpus: The cards for the plan; empty are those of this host.
        vllm: Its release; empty is the one that its Python has.
        memory: A recorded series of GPU memory in place of the driver's readings.
        load: Sent to the server when it is ready.
        folder: Where log, report and case go; empty is the run's own folder, or one among those of all starts.
        ready_within_s: Time to be ready in.
        say: Says a line of the guard.

    Raises:
        InputError: the command starts no server, or the setting is none of its release.
    """
    asked = Asked(step, gpus, folder, ready_within_s, memory, load)
    one, change = subject(command, vllm), None
    if setting is not None:
        edits = edits_of(one, setting)
        one, change = one.edited(edits), Change("", setting.strip(), "", edits)
    return done(one, asked, change, say)


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
    one = subject(command, vllm)
    change = retries.again(answer) or retries.first_possible(answer, answer.remedies, one, say)
    if change is None:
        say("no way out that was checked can be made in this command")
        return None
    one = one.edited(change.edits) if change.edits else one
    return done(one, Asked(step, gpus, folder, READY_S, memory), change, say)


class Asked(NamedTuple):
    """How a start is made; its fields are the arguments of `start`."""

    step: str
    gpus: str
    folder: str
    ready_within_s: float
    memory: str = ""
    load: Load | None = None


def done(one: Subject, asked: Asked, change: Change | None, say: Say) -> Guarded:
    """The step of a start: what it left, or the start made now.

    Raises:
        InputError: as `start`.
    """
    if asked.load is not None:
        check_load(one)
    return steps.do(
        asked.step,
        lambda: started(one, asked, change, say),
        Guarded,
        asked=(one.argv, one.vllm, asked.gpus, asked.memory, asked.load, change),
        is_done=is_whole,
        timeout_s=asked.ready_within_s + AROUND_S,
    )


def is_whole(found: Guarded) -> bool:
    """Whether a start came to its end: it was made, and no signal ended it."""
    return bool(found.attempts) and found.status < _SIGNALLED


def check_load(one: Subject) -> None:
    """See that a load can be sent to the command's server.

    Raises:
        InputError: why not.
    """
    if not one.is_target_known or one.target.uds is not None:
        raise InputError(f"{one.shown}: no port is known that it answers at, so no load can be sent; give its --port")


def started(one: Subject, asked: Asked, change: Change | None, say: Say) -> Guarded:
    """Start it, have it proved, end it, and keep its commands and its case.

    Raises:
        InputError: as `start`.
    """
    place, cards, load = place_of(asked.step, asked.folder), cards_of(asked.memory), asked.load

    def proof(is_gone: Callable[[], bool]) -> Measured | None:
        return None if load is None else loads.measure(load, one, one.target, place, is_cancelled=is_gone)

    found = serve.serve(
        serve.Request(
            subject=one,
            source=cards.source,
            why_none=cards.why_none,
            gpus=asked.gpus or None,
            limits=serve.Limits(ready_s=asked.ready_within_s),
            folder=place,
            change=change,
            proof=proof,
        ),
        show=lambda _: None,
        say=say,
    )
    record(found, say)
    keep_commands(Path(found.folder or ""), [found], [each.measured for each in found.attempts], say)
    return found


def record(found: Guarded, say: Say) -> None:
    """Make a case of the start, beside its log; of one that was not made, or printed nothing, there is none."""
    if not found.attempts:
        return
    try:
        recording.record_last_try(found, Path(found.folder or "") / "case", say=say)
    except RunbooksError as error:
        say(f"no case was made: {error}")


def place_of(step: str, folder: str) -> Path:
    """A new folder for a step: below the one that is named, the run's own, or among those of all starts.

    What an earlier start has left there is moved aside, by its own time.

    Raises:
        InputError: that cannot be done there.
    """
    base = Path(folder) if folder else steps.folder()
    if base is None:
        return places.new(uuid.uuid4().hex)
    place = base / step
    try:
        made = datetime.fromtimestamp(place.stat().st_mtime, tz=UTC)
        place.rename(place.with_name(f"{step}-until-{made:%Y%m%dT%H%M%S.%fZ}"))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise InputError(f"{place}: cannot be moved aside: {error.strerror}; name another folder") from None
    return place


@cache
def cards_of(memory: str) -> Cards:
    """The recorded series that is named, else this host's driver; a series goes on from one start to the next.

    Raises:
        InputError: there is no such series.
    """
    return Cards(*gpu_memory.source_of(memory.strip()))


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
    # As a shell would; what it makes of quotes, pipes and the like is for a script.
    words = [os.path.expandvars(os.path.expanduser(word)) for word in words]  # noqa: PTH111 - "~" may be unknown
    return words if len(words) != 1 else ["bash", words[0]]


def edits_of(one: Subject, setting: str) -> tuple[Edit, ...]:
    """What a setting changes of a command: variables in front, then options, as the release reads them.

    Raises:
        InputError: it is no setting, or the release refuses it.
    """
    if not setting.strip():
        raise InputError("setting: is empty; name what the start is to have besides, as in --max-num-seqs 64")
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


def keep_commands(folder: Path, started: Sequence[Guarded], more: Sequence[Measured | None], say: Say) -> None:
    """Write down the commands that were run, with their exit status; secrets are replaced in them already."""
    rows = [
        {"command": each.command, "ended": each.ending, "status": each.status, "seconds": round(each.seconds, 1)}
        for one in started
        for each in one.attempts
    ]
    rows += [
        {"command": each.command, "ended": each.why_none or "ended with exit status 0", "status": each.status}
        for each in more
        if each is not None and each.command
    ]
    if not rows:
        return
    try:
        store(folder / COMMANDS, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
    except NotStoredError as error:
        say(f"{error}; the commands are not written down")
