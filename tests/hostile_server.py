"""HTTP servers for tests, with valid or broken answers, each in a thread."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Answering = Callable[[socket.socket, str, bytes], None]
"""Answers a request, given the connection, "GET /path", and the whole request."""


@contextlib.contextmanager
def serving(answer: Answering, path: Path | None = None) -> Iterator[int]:
    """A server on a free port or a unix socket, with one request per connection."""
    listening = socket.create_server(("127.0.0.1", 0)) if path is None else socket.socket(socket.AF_UNIX)
    if path is not None:
        listening.bind(str(path))
        listening.listen()
    is_over = threading.Event()

    def work(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.settimeout(10)
            raw = b""
            while b"\r\n\r\n" not in raw and (part := connection.recv(65536)):
                raw += part
            head = raw.partition(b"\r\n\r\n")[0].decode("latin-1")
            length = next(
                (int(x.partition(":")[2]) for x in head.split("\r\n") if x.lower().startswith("content-l")), 0
            )
            while len(raw.partition(b"\r\n\r\n")[2]) < length and (part := connection.recv(65536)):
                raw += part
            if head:
                answer(connection, " ".join(head.split(" ", 2)[:2]), raw)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while not is_over.is_set():
                connection, _ = listening.accept()
                threading.Thread(target=work, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield 0 if path is not None else int(listening.getsockname()[1])
    finally:
        is_over.set()
        listening.close()


def said(status: int, body: bytes, *headers: str) -> bytes:
    """A whole HTTP response."""
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def endless_body(connection: socket.socket, _: str, __: bytes) -> None:
    """One endless response, as fast as it is read."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    while True:
        connection.sendall(b"data: {}\n\n" * 4000)


def slow_head(connection: socket.socket, _: str, __: bytes) -> None:
    """A header that never ends, a letter at a time."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


def slow_body(connection: socket.socket, _: str, __: bytes) -> None:
    """A body that never ends, a letter at a time."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


def going_on(connection: socket.socket, _: str, __: bytes) -> None:
    """100 Continue, without end."""
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def bad_chunks(connection: socket.socket, _: str, __: bytes) -> None:
    """Chunks with an invalid length."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzzz\r\nab\r\n")


def no_http(connection: socket.socket, _: str, __: bytes) -> None:
    """Another protocol."""
    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")


def silent(_: socket.socket, __: str, ___: bytes) -> None:
    """Nothing at all."""
    time.sleep(5)


def elsewhere(connection: socket.socket, _: str, __: bytes) -> None:
    """A redirect, to somewhere with a password in it."""
    connection.sendall(said(307, b"", "Location: http://user:hunter2@127.0.0.1:1/x"))


def packed(connection: socket.socket, _: str, __: bytes) -> None:
    """A small response that unpacks to a huge one, which was not requested."""
    import gzip

    connection.sendall(said(200, gzip.compress(b"[" * (8 << 20)), "Content-Encoding: gzip"))


def deep(connection: socket.socket, _: str, __: bytes) -> None:
    """JSON that is nested a hundred thousand times."""
    connection.sendall(said(200, b"[" * 100_000))


class Vllm:
    """Answers like vLLM, except where a test replaces an answer."""

    def __init__(self, metrics: str = "", **otherwise: tuple[int, str]) -> None:
        self.otherwise = otherwise
        self.metrics = metrics or 'vllm:num_requests_running{engine="0",model_name="tiny"} 0.0\n'
        self.most = self.now = self.count = 0
        self.seconds = 0.0
        self.requests: list[bytes] = []
        self._lock = threading.Lock()

    def __call__(self, connection: socket.socket, asked: str, raw: bytes) -> None:
        """Answer, and count the concurrent requests."""
        with self._lock:
            self.now, self.count = self.now + 1, self.count + 1
            self.most = max(self.most, self.now)
            self.requests.append(raw)
        time.sleep(self.seconds)
        told = said(*self._answer(asked.split(" ")[1], raw))
        with self._lock:
            # Before sending: the client may send its next request immediately.
            self.now -= 1
        connection.sendall(told)

    def _answer(self, path: str, raw: bytes) -> tuple[int, bytes]:
        name = path.strip("/").split("/")[-1]
        if name in self.otherwise:
            status, text = self.otherwise[name]
            return status, text.encode()
        answers: dict[str, Any] = {
            "health": "",
            "version": '{"version": "0.32.0"}',
            "metrics": self.metrics,
            "models": '{"data": [{"id": "tiny", "owned_by": "vllm", "max_model_len": 2048}]}',
        }
        if name in answers:
            return 200, str(answers[name]).encode()
        if b'"stream": true' in raw:
            pieces = 'data: {"choices": [{"text": "x"}]}\n\n' * 3
            usage = 'data: {"choices": [], "usage": {"completion_tokens": 3}}\n\n'
            return 200, f"{pieces}{usage}data: [DONE]\n\n".encode()
        return 200, b'{"choices": [{"text": "x", "message": {"content": "x"}}]}'
