"""Ports for servers that tests start later."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from itertools import count

_FIRST, _COUNT = 20_000, 6_000
"""Below the ports that Linux gives to outgoing connections (from 32768), of which one could take a free port."""
_numbers = count(os.getpid() * 61, 7)  # neighbours stay free, as some servers take the next port too


def free_port() -> int:
    """A port on which nothing listens, and which no other call returns soon."""
    while True:
        port = _FIRST + next(_numbers) % _COUNT
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
