"""Run one command and leave none of its processes; a process between a caller and its command.

    caller ── supervisor ── command ── processes of the command

Standard output is the command's. On standard input a byte is a signal to forward, the end is the
caller's end. Standard error ends with the outcome as JSON. Orphans become the supervisor's children
(Linux), so that it finds them.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from vllm_runbooks.host.processes import adopt_orphans, descendants, end_descendants

GRACE_S = 3.0
"""Time for the command to end after a request; remaining processes are killed within two more
seconds."""
_LINGER_S = 1.0
_TICK_S = 0.05


def supervise(command: Sequence[str]) -> dict[str, Any]:
    """Run the command to its end, or the caller's; returns its outcome or why it did not run."""
    adopt_orphans()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name) and (name == "SIGINT" or signal.getsignal(getattr(signal, name)) != signal.SIG_IGN):
            # A handler, not SIG_IGN: the command would inherit that, and could not be interrupted.
            signal.signal(getattr(signal, name), lambda *_: None)
    try:
        child = subprocess.Popen(  # noqa: S603 - the user's own command
            command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True
        )
    except OSError as error:
        return {"refused": error.strerror or str(error)}
    _wait(child)
    end_descendants(os.getpid())
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_LINGER_S)
    return {"returncode": child.returncode}


def _wait(child: subprocess.Popen[bytes]) -> None:
    """Wait until no process runs any more, or the grace period is over."""
    end_at = float("inf")
    is_asked, is_over, is_listening = False, False, True
    while time.monotonic() < end_at:
        if child.poll() is None:
            pass
        elif not descendants(os.getpid()):
            return
        elif not is_over:
            is_over, end_at = True, min(end_at, time.monotonic() + _LINGER_S)
        if not select.select([0] if is_listening else [], [], [], _TICK_S)[0]:
            continue
        orders = os.read(0, 16)
        is_listening = bool(orders)
        for number in orders or (signal.SIGTERM,):
            end_at = time.monotonic() if is_asked else min(end_at, time.monotonic() + GRACE_S)
            is_asked = True
            _hand_on(child, number)


def _hand_on(child: subprocess.Popen[bytes], number: int) -> None:
    """Send the signal like its sender: Ctrl-C to all processes of a terminal, SIGTERM to one."""
    if child.poll() is not None:
        return
    if number == signal.SIGTERM:
        child.send_signal(number)
    else:
        # Not waited for yet, so its process id and that of its group are still valid.
        os.killpg(child.pid, number)


if __name__ == "__main__":
    sys.stderr.write(json.dumps(supervise(sys.argv[1:])))
