"""Fork runs and their kernels from a worker that has imported what they need, instead of starting Python (Linux).

    worker ── run (papermill) ── kernel

The worker has one thread and executes no notebook itself, so a kernel has no state of another run.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from vllm_runbooks.host.processes import die_with, relabel

AVAILABLE = sys.platform == "linux"
UNUSED = ("debugpy", "isoduration", "rfc3986_validator", "rfc3987_syntax")
"""Modules that runs don't need: the kernel's debugger, and jsonschema's checks of addresses and durations.

If JupyterLab is installed, `rfc3987_syntax` builds a parser on import, which takes a second.
"""
_USED_BY_KERNELS = (
    "ipykernel.kernelapp",
    "ipykernel.debugger",
    "sqlite3",
    "tornado.platform.asyncio",
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.logger",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
)


class Kernel:
    """A fork that becomes a kernel on `start`, with the methods of `subprocess.Popen` that jupyter_client calls."""

    stdin = stdout = stderr = None

    def __init__(self) -> None:
        orders, self._orders = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            _become_kernel(orders)
        os.close(orders)

    def start(self, command: list[str], *, env: dict[str, str], cwd: str | None = None, **_options: Any) -> None:
        # ipykernel reads JPY_PARENT_PID on import, which is too early here.
        argv = [*command[1:], f"--IPKernelApp.parent_handle={os.getpid()}"]
        with os.fdopen(self._orders, "w", encoding="ascii") as pipe:
            json.dump({"argv": argv, "env": {**env, "JPY_PARENT_PID": str(os.getpid())}, "cwd": cwd}, pipe)

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    wait = poll  # jupyter_client waits after `poll` has returned a status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


kernels: list[Kernel] = []
"""The kernel of a run until it starts."""


def prepare() -> None:
    """Import what runs and kernels need, and exclude it from garbage collection so that forks share its memory."""
    from jupyter_client.provisioning import KernelProvisionerFactory

    for name in _USED_BY_KERNELS:
        importlib.import_module(name)
    KernelProvisionerFactory.instance()  # reads the entry points of all packages
    gc.freeze()


def answer_of(run: Callable[[], dict[str, Any]], end_all: Callable[[], NoReturn]) -> str:
    """Execute a run in a fork and return its line; if the fork dies first, die the same way.

    The fork calls `end_all` if the caller closes stdin.
    """
    readable, writable = os.pipe()
    worker, pid = os.getpid(), os.fork()
    if not pid:
        die_with(worker)
        kernels.append(Kernel())
        threading.Thread(target=_watch_stdin, args=(end_all,), daemon=True).start()
        with os.fdopen(writable, "w", encoding="utf-8") as pipe:
            pipe.write(json.dumps(run()) + "\n")
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable, encoding="utf-8") as pipe:
        line = pipe.read()
    _, status = os.waitpid(pid, 0)
    if line.endswith("\n"):
        return line
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _watch_stdin(end_all: Callable[[], NoReturn]) -> None:
    poll = select.poll()
    poll.register(0, 0)
    poll.poll()  # returns when the other end is closed
    end_all()


def _become_kernel(orders: int) -> NoReturn:
    os.setsid()
    with os.fdopen(os.dup2(orders, 0), encoding="ascii", closefd=False) as pipe:
        for descriptor in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                if int(descriptor.name) > 2:
                    os.close(int(descriptor.name))
        text = pipe.read()
    if not text:
        os._exit(1)
    order = json.loads(text)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(order["cwd"] or ".")
    os.environ.clear()
    os.environ.update(order["env"])
    relabel()
    from ipykernel.kernelapp import IPKernelApp

    sys.argv = order["argv"]
    kernel = IPKernelApp.instance()
    kernel.initialize(sys.argv[1:])
    for name in UNUSED:
        if sys.modules.get(name, kernel) is None:
            del sys.modules[name]
    kernel.start()
    sys.exit()
