"""Confirm the layout of a launch by the lines that its release prints."""

from __future__ import annotations

import shlex
from pathlib import Path

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan.confirmation import confirmation
from vllm_runbooks.plan.fleet import InstancePart
from vllm_runbooks.probe.starts import Fleet, Guarded, LaunchResult, Printed
from vllm_runbooks.reading.deployment import Deployment
from vllm_runbooks.runbooks.live import starting
from vllm_runbooks.serve import guard as serve
from vllm_runbooks.serve import places


def of_split(copied: Fleet | None, whole: Guarded | None) -> dict[str, tuple[Printed, ...]]:
    logs = {f"copy {number}": server for number, server in enumerate(copied.servers if copied else (), 1)}
    lines_by_log = {name: confirmed(server) for name, server in (*logs.items(), ("the split server", whole))}
    return {name: lines for name, lines in lines_by_log.items() if lines}


def confirmed(started: Guarded | None) -> tuple[Printed, ...]:
    """Lines that confirm its layout, with how often the last try's log contains them."""
    if started is None or not started.attempts:
        return ()
    last = started.attempts[-1]
    launch = serve.subject(shlex.split(last.command), vllm=started.vllm)
    part = InstancePart(0, None, launch.target.port, Deployment("serve", ()), serves=True)
    lines = confirmation(part, launch.split, launch.data).lines
    counts = dict.fromkeys((line.text for line in lines), 0)
    path = Path(started.folder or "") / places.log_name(last.number)
    try:
        with path.open(encoding="utf-8", errors="replace") as log:
            for row in log:
                for text in counts:
                    counts[text] += text in row
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); launch it again") from None
    # A CPU build has it in its version, also on a host with GPUs.
    has_cards = starting.cards_of("").source is not None and not (started.vllm or "").endswith("+cpu")
    printed = []
    for line in lines:
        times = counts[line.text]
        is_there = times > 0 if line.times is None else times == line.times
        result = LaunchResult.PASSED if is_there else LaunchResult.FAILED
        if line.needs_gpu and not has_cards and not times:
            result = LaunchResult.LEFT_OUT
        printed.append(Printed(line.what, line.text, line.source, line.times, times, result))
    return tuple(printed)
