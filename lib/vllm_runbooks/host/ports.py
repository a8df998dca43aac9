"""Whether a port can be had on this host, and who has it."""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import NamedTuple


class Taken(NamedTuple):
    """Why an address cannot be listened to."""

    is_in_use: bool
    """Whether somebody listens there; otherwise the system refuses the address."""
    why: str


def taken(host: str | None, port: int) -> Taken | None:
    """Why the address cannot be listened to; None: it can.

    It is bound as vLLM binds it, for a moment and without listening.
    """
    with socket.socket(_family(host), socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host or "", port))
        except socket.gaierror:
            return Taken(is_in_use=False, why="the name cannot be resolved")
        except (OverflowError, UnicodeError):
            return Taken(is_in_use=False, why="it is no address with a port from 1 to 65535")
        except OSError as error:
            return Taken(error.errno == errno.EADDRINUSE, error.strerror or str(error))
    return None


def free(host: str) -> int:
    """A port of this address that nobody has now."""
    with socket.socket(_family(host), socket.SOCK_STREAM) as tried:
        tried.bind((host, 0))
        return int(tried.getsockname()[1])


def _family(host: str | None) -> socket.AddressFamily:
    return socket.AF_INET6 if host and ":" in host else socket.AF_INET


def holders(port: int) -> list[str]:
    """Processes that listen on a port, as "python3 (process 4711, of alice)"; those that this user may not see lack."""
    import psutil

    found = dict[int, None]()
    with contextlib.suppress(psutil.Error, OSError):
        for one in psutil.net_connections(kind="tcp"):
            if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid:
                found[one.pid] = None
    said = []
    for pid in found:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            said.append(f"{process.name()} (process {pid}, of {process.username()})")
    return said
