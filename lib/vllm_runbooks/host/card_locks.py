"""Locks of GPUs, shared by all users of a host, so that two launches never profile concurrently.

A lock is the operating system's lock on an open file: it is released when its process ends. The
files stay.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.host.here import here

FOLDER = "VLLM_RUNBOOKS_LOCKS"
"""Variable that names another folder for the locks."""
NODE = "node"
"""Prefix of the lock key of a whole host, for multi-node launches."""
_TICK_S = 0.2


def folder() -> Path:
    """Folder of the locks; the same for every user."""
    path = os.environ.get(FOLDER)
    return Path(path) if path else Path("/tmp/vllm-runbooks-locks")  # noqa: S108 - not $TMPDIR, which is one user's


@contextlib.contextmanager
def held(
    cards: Sequence[str],
    *,
    wait_s: float,
    told: Callable[[str, str], None],
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Hold the locks of some GPUs, taken in the order of their keys to prevent deadlocks.

    `told` is called with a GPU and its holder if there is one; raises InputError if it is held for
    `wait_s`.
    """
    began = time.monotonic()
    with contextlib.ExitStack() as open_files:
        for card in sorted(set(cards)):
            descriptor = _opened(card)
            open_files.callback(os.close, descriptor)
            is_told = False
            while not _is_taken(descriptor):
                holder = _holder(descriptor)
                if not is_told:
                    told(card, holder)
                    is_told = True
                if time.monotonic() - began > wait_s:
                    raise InputError(
                        f"{_named(card)}: {holder} has been starting on it for {wait_s:g} s; wait until it is ready, "
                        "or stop it"
                    )
                if is_cancelled():
                    raise InputError(f"{_named(card)}: stopped waiting: the launch was canceled")
                time.sleep(_TICK_S)
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()} {here().namespace}".encode(), 0)
        yield


def holders(cards: Sequence[str]) -> dict[str, str]:
    """Find who holds the locks of some GPUs, by GPU, without waiting or locking."""
    by_card = {}
    for card in sorted(set(cards)):
        descriptor = _opened(card)
        try:
            if not _is_taken(descriptor):
                by_card[card] = _holder(descriptor)
        finally:
            os.close(descriptor)
    return by_card


def _named(key: str) -> str:
    return "this host" if key.startswith(NODE) else f"GPU {key}"


def _is_taken(descriptor: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _holder(descriptor: int) -> str:
    words = os.pread(descriptor, 60, 0).decode("ascii", "replace").split()
    if len(words) != 2 or not words[0].isdecimal():
        return "another launch"
    # In another namespace, as in a container, the number is a different process here.
    return f"process {words[0]}" if words[1] == str(here().namespace) else f"process {words[0]} of another container"


def _opened(card: str) -> int:
    """Open the GPU's lock file, creating it if necessary; a link in its place is rejected."""
    place = folder()
    path = place / f"{re.sub(r'[^A-Za-z0-9-]', '_', card)[:80]}.lock"
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        if not place.exists():
            place.mkdir(parents=True, exist_ok=True)
            place.chmod(0o1777)
        try:
            # Without O_CREAT first: in a world-writable folder, that is rejected for another user's
            # file.
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            descriptor = os.open(path, flags | os.O_CREAT, 0o666)
            os.fchmod(descriptor, 0o666)
    except OSError as error:
        raise InputError(f"{path}: cannot be used as a lock ({error.strerror}); set a folder in {FOLDER}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{path}: is not a regular file; remove it, or set a folder in {FOLDER}")
    return descriptor
