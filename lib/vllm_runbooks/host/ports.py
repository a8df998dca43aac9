"""Whether a port of this host is available, and which process uses it."""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import NamedTuple


class PortConflict(NamedTuple):
    """Why an address cannot be listened to."""

    is_in_use: bool
    """Whether a process listens there; otherwise the system rejects the address."""
    why: str


def taken(host: str | None, port: int) -> PortConflict | None:
    """Why the address cannot be bound, as vLLM binds it; None if it can."""
    with socket.socket(family(host), socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host or "", port))
        except socket.gaierror:
            return PortConflict(is_in_use=False, why="the name does not resolve")
        except (OverflowError, UnicodeError):
            return PortConflict(is_in_use=False, why="not an address with a port from 1 to 65535")
        except OSError as error:
            return PortConflict(error.errno == errno.EADDRINUSE, error.strerror or str(error))
    return None


def free(host: str) -> int:
    """A port of this address that is free now."""
    with socket.socket(family(host), socket.SOCK_STREAM) as tried:
        tried.bind((host, 0))
        return int(tried.getsockname()[1])


def family(host: str | None) -> socket.AddressFamily:
    """IPv6 for an address with colons, else IPv4."""
    return socket.AF_INET6 if host and ":" in host else socket.AF_INET


def holders(port: int) -> list[str]:
    """Visible processes that listen on a port, as "python3 (process 4711, of alice)"."""
    import psutil

    connections = []
    with contextlib.suppress(psutil.Error, OSError):
        connections = psutil.net_connections(kind="tcp")
    listening = [item for item in connections if item.status == psutil.CONN_LISTEN]
    names = []
    for pid in filter(None, dict.fromkeys(item.pid for item in listening if item.laddr and item.laddr.port == port)):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            names.append(f"{process.name()} (process {pid}, of {process.username()})")
    return names
