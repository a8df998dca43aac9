"""Reachability between nodes: listening ports, connections, latency and bandwidth.

A listener only answers peers with its token, which proves the identity of the host: two hosts may
have the same address, such as that of a container bridge. The data is a few bytes, and zeros for
the bandwidth.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import selectors
import socket
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from vllm_runbooks.host.nodes.records import Reachability
from vllm_runbooks.host.ports import family

_HELLO = b"vllm-runbooks "
_TOKEN = 32
_ROUNDS = 5
"""Round trips, whose median is the latency."""
_PING, _STREAM, _YES = b"p", b"s", b"y"
_CHUNK = bytes(1 << 18)
_PATIENCE_S = 2.0
"""Timeout for an answer of the listener after a connection."""
_HELD_S = 10.0
"""Timeout for the greeting of a peer: it tries others meanwhile, and some of them do not answer."""
_MOST = 1 << 30
"""Maximum bytes for one bandwidth measurement."""
_UNROUTED = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.ENETDOWN, errno.EHOSTDOWN)
_STATES = {
    errno.ECONNREFUSED: Reachability.REFUSED,
    errno.ETIMEDOUT: Reachability.DROPPED,
    **dict.fromkeys(_UNROUTED, Reachability.UNREACHABLE),
}


@dataclass(frozen=True)
class Waiting:
    """A port that listens, or could not."""

    use: str
    port: int
    is_ours: bool
    """Whether our own process listens there; otherwise another one does, or none could."""
    why: str = ""


class Listeners:
    """Ports of this node that listen for a limited time."""

    def __init__(self, token: str, ports: Sequence[tuple[str, int]], for_s: float) -> None:
        """Listen at these ports (use and number, 0 for any) of all addresses for `for_s` seconds."""
        self._token = token.encode()
        self._ends_at = time.monotonic() + for_s
        self._selector = selectors.DefaultSelector()
        self._sockets: list[socket.socket] = []
        self._is_closed = threading.Event()
        self.waiting = tuple(self._wait_at(use, port) for use, port in ports)
        threading.Thread(target=self._accept, daemon=True).start()

    def _wait_at(self, use: str, port: int) -> Waiting:
        is_dual = socket.has_dualstack_ipv6()
        listener = socket.socket(socket.AF_INET6 if is_dual else socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if is_dual:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind(("", port))
            listener.listen(64)
        except (OSError, OverflowError) as error:
            listener.close()
            is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            return Waiting(use, port, is_ours=False, why="taken" if is_taken else str(error))
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._sockets.append(listener)
        return Waiting(use, int(listener.getsockname()[1]), is_ours=True)

    def _accept(self) -> None:
        while not self._is_closed.is_set() and time.monotonic() < self._ends_at:
            for key, _ in self._selector.select(0.2):
                with contextlib.suppress(OSError):
                    connection, _ = cast("socket.socket", key.fileobj).accept()
                    threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
        self._selector.close()
        for listener in self._sockets:
            listener.close()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(_HELD_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            greeting = _exactly(connection, len(_HELLO) + _TOKEN + 1)
            if not hmac.compare_digest(greeting[:-1], _HELLO + self._token):
                return
            connection.sendall(_YES)
            if greeting[-1:] == _STREAM:
                connection.sendall(_counted(connection).to_bytes(8, "big"))
            else:
                for _ in range(_ROUNDS):
                    connection.sendall(_exactly(connection, 1))

    def close(self) -> None:
        """Wait no longer."""
        self._is_closed.set()


def _counted(connection: socket.socket) -> int:
    buffer, count = bytearray(1 << 18), 0
    while count < _MOST and (got := connection.recv_into(buffer)):
        count += got
    return count


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise ConnectionAbortedError(errno.ECONNABORTED, "closed without an answer")
        data += more
    return data


def reach(targets: Sequence[Mapping[str, Any]], wait_s: float) -> list[dict[str, Any]]:
    """Connect to these listeners concurrently: each with `address`, `port` and `token`.

    `token` is None for a listener of another program.

    Returns:
        Each with `state`, `source` (the source address), `latency_ms` and `why`.
    """
    attempts = [_Attempt(str(target["address"]), int(target["port"]), target.get("token")) for target in targets]
    with selectors.DefaultSelector() as selector:
        for attempt in attempts:
            attempt.begin(selector)
        ends_at = time.monotonic() + wait_s
        while selector.get_map() and (left := ends_at - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                selector.unregister(key.fileobj)
                key.data.connected()
        for attempt in attempts:
            attempt.finish(wait_s)
    return [attempt.found for attempt in attempts]


class _Attempt:
    def __init__(self, address: str, port: int, token: str | None) -> None:
        self._at, self._token = (address, port), token
        self._socket: socket.socket | None = None
        self.found: dict[str, Any] = {"state": None, "source": source_of(address), "latency_ms": None, "why": ""}

    def begin(self, selector: selectors.BaseSelector) -> None:
        try:
            self._socket = socket.socket(family(self._at[0]), socket.SOCK_STREAM)
        except OSError as error:  # too many files
            self._ended(Reachability.UNKNOWN, error.strerror or str(error))
            return
        self._socket.setblocking(False)
        try:
            failed = self._socket.connect_ex(self._at)
        except (OSError, OverflowError) as error:
            self._ended(Reachability.UNKNOWN, str(error))
            return
        if failed in (0, errno.EINPROGRESS, errno.EAGAIN):
            selector.register(self._socket, selectors.EVENT_WRITE, self)
        else:
            self._failed(failed)

    def connected(self) -> None:
        """Note a connection that failed; the others are greeted at the end."""
        assert self._socket is not None  # noqa: S101 - it was registered
        failed = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            self._failed(failed)

    def finish(self, waited_s: float) -> None:
        """Greet a connected listener; connections without an answer were dropped."""
        if self.found["state"] is not None or self._socket is None:
            return
        with self._socket as connection:
            try:
                connection.getpeername()
            except OSError:
                self._ended(Reachability.DROPPED, f"no answer within {waited_s:g} s")
                return
            why = ""
            if self._token is not None:
                connection.settimeout(_PATIENCE_S)
                try:
                    _greet(connection, self._token, _PING)
                except OSError as error:
                    # Another program accepted the connection, or a proxy could not forward it.
                    self._ended(Reachability.UNREACHABLE, f"another host answers at this address ({_said(error)})")
                    return
                try:
                    self.found["latency_ms"] = _latency_ms(connection)
                except OSError as error:
                    why = f"the connection broke: {_said(error)}"
            self._ended(Reachability.OPEN, why)

    def _failed(self, number: int) -> None:
        self._ended(_STATES.get(number, Reachability.UNKNOWN), os.strerror(number))

    def _ended(self, state: Reachability, why: str) -> None:
        self.found |= {"state": state.value, "why": why}
        if self._socket is not None:
            self._socket.close()


def _said(error: OSError) -> str:
    return "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)


def _greet(connection: socket.socket, token: str, mode: bytes) -> None:
    """Send the recipient's token and the mode."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(_HELLO + token.encode() + mode)
    _exactly(connection, 1)


def _latency_ms(connection: socket.socket) -> float:
    took = []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        connection.sendall(_PING)
        _exactly(connection, 1)
        took.append(time.perf_counter() - begun)
    return statistics.median(took) * 1000


def stream(address: str, port: int, token: str, seconds: float) -> float:
    """Measure the bandwidth to a listener in Mbit/s: a lower bound, over one connection; raises OSError."""
    with socket.create_connection((address, port), _PATIENCE_S) as connection:
        _greet(connection, token, _STREAM)
        connection.settimeout(seconds + _PATIENCE_S)
        begun = time.perf_counter()
        sent = 0
        while time.perf_counter() - begun < seconds and sent < _MOST - len(_CHUNK):
            sent += connection.send(_CHUNK)
        connection.shutdown(socket.SHUT_WR)
        counted = int.from_bytes(_exactly(connection, 8), "big")
        return counted * 8 / 1e6 / (time.perf_counter() - begun)


def source_of(address: str) -> str | None:
    """This node's address on the way to another; None if there is no route."""
    with contextlib.suppress(OSError, OverflowError), socket.socket(family(address), socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))  # a datagram socket sends nothing for it
        return str(probe.getsockname()[0])
    return None
