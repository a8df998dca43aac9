"""Launch one server under supervision, send a load, end it, and launch it again with a change."""

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
from vllm_runbooks.probe.starts import Guarded, LaunchChange, LoadResult
from vllm_runbooks.reading import arguments, deployment
from vllm_runbooks.reading.arguments.conditions import UNKNOWN
from vllm_runbooks.runbooks import recording, steps
from vllm_runbooks.serve import guard as serve
from vllm_runbooks.serve import load as loads
from vllm_runbooks.serve import places, retries
from vllm_runbooks.serve.load import Load
from vllm_runbooks.serve.subject import ServedLaunch

READY_S = 1800.0
AROUND_S = 1800.0
"""Time of a step for all but the startup: waiting for GPUs, the load, the end."""
_SIGNALLED = 128
COMMANDS = "commands.jsonl"
Say = Callable[[str], None]


class GpuReadings(NamedTuple):
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
    """Launch the command's server under supervision, check whether it becomes ready, and stop it.

    Args:
        command: A command as typed, or a script.
        step: Name of the step.
        setting: Further variables and options, as in `A=1 --enforce-eager`.
        gpus: GPUs for the plan; by default this host's.
        vllm: Release; by default the one installed in the command's Python.
        memory: A recorded series of GPU memory instead of the driver's readings.
        load: Load for the ready server.
        folder: Folder for log, report and case; by default the run's, or one of all launches.
        ready_within_s: Timeout to become ready.
        say: Reports a line of the supervisor.
    """
    options = LaunchOptions(step, gpus, folder, ready_within_s, memory, load)
    launch, change = subject(command, vllm), None
    if setting is not None:
        edits = edits_of(launch, setting)
        launch, change = launch.edited(edits), LaunchChange("", setting.strip(), "", edits)
    return done(launch, options, change, say)


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
    """Launch the command with the first checked remedy; None if there is none.

    If the cause is outside the launch, the same command is launched again.
    """
    launch = subject(command, vllm)
    change = retries.again(answer) or retries.first_possible(answer, answer.remedies, launch, say)
    if change is None:
        say("no checked fix can be applied to this command")
        return None
    launch = launch.edited(change.edits) if change.edits else launch
    return done(launch, LaunchOptions(step, gpus, folder, READY_S, memory), change, say)


class LaunchOptions(NamedTuple):
    step: str
    gpus: str
    folder: str
    ready_within_s: float
    memory: str = ""
    load: Load | None = None


def done(launch: ServedLaunch, options: LaunchOptions, change: LaunchChange | None, say: Say) -> Guarded:
    """Run the step of a launch, or return its stored result."""
    if options.load is not None:
        check_load(launch)
    return steps.do(
        options.step,
        lambda: started(launch, options, change, say),
        Guarded,
        asked=(launch.argv, launch.vllm, options.gpus, options.memory, options.load, change),
        is_done=is_whole,
        timeout_s=options.ready_within_s + AROUND_S,
    )


def is_whole(launch: Guarded) -> bool:
    return bool(launch.attempts) and launch.status < _SIGNALLED


def check_load(launch: ServedLaunch) -> None:
    """Check that a load can be sent to the command's server."""
    if not launch.is_target_known or launch.target.uds is not None:
        raise InputError(f"{launch.shown}: unknown port, so no load can be sent; set --port")


def started(launch: ServedLaunch, options: LaunchOptions, change: LaunchChange | None, say: Say) -> Guarded:
    """Launch, measure and end the server; store its commands and its case."""
    place, cards, load = place_of(options.step, options.folder), cards_of(options.memory), options.load

    def proof(is_gone: Callable[[], bool]) -> LoadResult | None:
        return None if load is None else loads.measure(load, launch, launch.target, place, is_cancelled=is_gone)

    supervised = request(launch, cards, options.gpus, options.ready_within_s, place)
    result = serve.serve(replace(supervised, change=change, proof=proof), show=lambda _: None, say=say)
    record(result, say)
    keep_commands(Path(result.folder or ""), [result], [attempt.measured for attempt in result.attempts], say)
    return result


def request(
    launch: ServedLaunch, cards: GpuReadings, gpus: str, ready_within_s: float, folder: Path
) -> serve.LaunchRequest:
    limits = serve.Limits(ready_s=ready_within_s)
    return serve.LaunchRequest(launch, cards.source, cards.why_none, gpus or None, limits=limits, folder=folder)


def record(launch: Guarded, say: Say) -> None:
    if not launch.attempts:
        return
    try:
        recording.record_last_try(launch, Path(launch.folder or "") / "case", say=say)
    except RunbooksError as error:
        say(f"no case was written: {error}")


def place_of(step: str, folder: str) -> Path:
    """A new folder for a step; an earlier one is moved aside."""
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
        raise InputError(f"{place}: cannot be moved aside: {error.strerror}; use another folder") from None
    return place


@cache
def cards_of(memory: str) -> GpuReadings:
    """The recorded series, else this host's driver; a series continues from launch to launch."""
    return GpuReadings(*gpu_memory.source_of(memory.strip()))


def subject(command: str, vllm: str) -> ServedLaunch:
    return serve.subject(_words(command), vllm=vllm or None)


def _words(command: str) -> list[str]:
    """Words of the command; a script's name alone is run by bash."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"serve: {error}; write the command as in a shell") from None
    if not words:
        raise InputError("serve: is empty; with live, set it to the command that launches the server")
    # Like a shell; commands with quotes, pipes and the like need a script.
    words = [os.path.expandvars(os.path.expanduser(word)) for word in words]  # noqa: PTH111 - "~" may be unknown
    return words if len(words) != 1 else ["bash", words[0]]


def edits_of(launch: ServedLaunch, setting: str) -> tuple[Edit, ...]:
    """Edits for a setting: variables, then options, as the release parses them."""
    if not setting.strip():
        raise InputError("setting: is empty; set options to add to the launch, as in --max-num-seqs 64")
    try:
        words = shlex.split(setting)
    except ValueError as error:
        raise InputError(f"setting: {error}; write options as in a shell") from None
    command_words = [word.value for word in launch.found.words]
    variables = []
    while words and not words[0].startswith("-") and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        variables.append(Edit("env", name, value))
    entry = deployment.parser_entry(launch.found.entry, command_words, launch.data)
    read = arguments.parse([*command_words, *words], launch.data, entry)
    refused = next((problem for problem in read.problems if problem.is_refusal), None)
    if refused is not None:
        option_text = f"{refused.option or refused.kind}: {refused.kind.replace('-', ' ')}"
        raise InputError(f"setting: vLLM {launch.data.version} rejects it: {option_text}")
    flags = {name: value for name, value in read.flags.items() if value is not UNKNOWN}
    changed = [Edit("set", name, value) for name, value in flags.items() if launch.flags.get(name) != value]
    if not changed and not variables:
        raise InputError(f"setting: {setting.strip()} does not change the command")
    return (*variables, *changed)


def evidence(*started: Guarded | None) -> Evidence:
    """Logs of the last attempts with the first command; for a missing launch, its checks."""
    first, *others = [_evidence(item) for item in started if item is not None]
    documents = [*first.documents]
    for number, other in enumerate(others, 2):
        documents += [replace(item, name=f"{number}/{item.name}") for item in other.documents]
    return replace(first, documents=tuple(documents))


def _evidence(started: Guarded) -> Evidence:
    text = "".join(f"[vllm-runbooks] {check.name}: {check.result.word}: {check.message}\n" for check in started.checks)
    if started.attempts:
        try:
            return serve.evidence(started)
        except InputError as error:
            text += f"[vllm-runbooks] {started.attempts[-1].ending}; {error}\n"
    return Evidence((Document("guard.log", text),), vllm=started.vllm)


def keep_commands(folder: Path, started: Sequence[Guarded], more: Sequence[LoadResult | None], say: Say) -> None:
    """Write down the commands with their exit status."""
    rows = [
        {"command": item.command, "ended": item.ending, "status": item.status, "seconds": round(item.seconds, 1)}
        for launch in started
        for item in launch.attempts
    ]
    rows += [
        {"command": item.command, "ended": item.reason or "ended with exit status 0", "status": item.status}
        for item in more
        if item is not None and item.command
    ]
    if not rows:
        return
    try:
        store(folder / COMMANDS, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
    except NotStoredError as error:
        say(f"{error}; the commands are not recorded")
