"""HTTP requests to any server, with a time limit, bounded memory and hidden keys."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import quote

from vllm_runbooks.core.redaction.redact import redact_text

MAX_BODY = 1 << 20
_MAX_SAID = 200
_MAX_READ = 4096
_MAX_LINE = 1 << 20
_DONE = b"data: [DONE]"
_HIDDEN = "[secret-key]"
"""The form of replaced secrets, which redaction leaves alone."""
_Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]


@dataclass(frozen=True)
class Target:
    """Address of a server, and features of its launch."""

    host: str = "127.0.0.1"
    port: int = 8000
    is_tls: bool = False
    uds: str | None = None
    key: str | None = None
    has_template: bool = False
    """Whether the launch sets a chat template: a server that rejects chat is not ready then."""
    has_tools: bool = False
    is_verified: bool = False
    """Whether the certificate must be valid; that of a server that we launched has another name."""
    prefix: str = ""
    """Path prefix, such as "/llm"."""

    @property
    def place(self) -> str:
        """The address as shown."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.uds or f"{'https' if self.is_tls else 'http'}://{host}:{self.port}{self.prefix}"


class Unanswered(Exception):  # noqa: N818 - what happened, not a fault of ours
    """A request without an answer; the text is why."""

    def __init__(self, says: str, reason: str) -> None:
        super().__init__(says)
        self.reason = reason


@dataclass(frozen=True)
class HttpReply:
    status: int
    body: bytes
    key: str | None = None
    """The key, to be hidden."""
    is_cut: bool = False
    """Whether the body is incomplete."""

    @property
    def data(self) -> Any:
        """The body's JSON; None if it is not JSON."""
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(self.body)
        return None

    @property
    def words(self) -> str:
        """The error's message, else the beginning of the body, for people."""
        data = self.data
        error = data.get("error", data) if isinstance(data, dict) else None
        message = error.get("message") or error.get("detail") if isinstance(error, dict) else error
        if not message and self.body.lstrip()[:1] == b"<":
            message = "an HTML page"
        return harmless(str(message) if message else self.body.decode("utf-8", "replace"), self.key)

    def holds(self, *words: str) -> bool:
        """Whether the message contains one of the words."""
        text = self.words.casefold()
        return any(word in text for word in words)


def harmless(text: str, key: str | None = None, most: int = _MAX_SAID) -> str:
    """A server's text in one short line, without the key and other secrets."""
    if key:
        # Before everything else, and on the whole text: cutting or joining could leave a part of
        # it.
        for form in _forms(key):
            text = text.replace(form, _HIDDEN)
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:_MAX_READ]).split())
    if key:
        line = line.replace(key, _HIDDEN)
    line = redact_text(line)
    return line if len(line) <= most else f"{line[:most]}…"


@lru_cache(maxsize=8)
def _forms(key: str) -> tuple[str, ...]:
    """A key as a server may repeat it: plain, in JSON, in a URL, in base64 without padding."""
    raw = key.encode("utf-8", "surrogateescape")
    coded = (encode(raw).decode().rstrip("=") for encode in (base64.b64encode, base64.urlsafe_b64encode))
    return tuple(dict.fromkeys((key, json.dumps(key)[1:-1], quote(raw), quote(raw, safe=""), *coded)))


def is_open(target: Target, *, patience_s: float = 1.0) -> bool:
    try:
        connected(target, time.monotonic() + patience_s).close()
    except (OSError, UnicodeError, OverflowError):
        return False
    return True


class HttpClient:
    def __init__(self, target: Target, patience_s: float) -> None:
        """Requests with a time limit each, from the connection to the last byte."""
        self.target = target
        self.patience_s = patience_s
        self._open: set[socket.socket] = set()
        self._is_over = False

    def abandon(self) -> None:
        """Cancel requests of other threads, and all later ones."""
        self._is_over = True
        for plain in tuple(self._open):
            with contextlib.suppress(OSError):
                plain.shutdown(socket.SHUT_RDWR)

    def get(self, path: str, *, most: int = MAX_BODY) -> HttpReply:
        return self._ask("GET", path, None, most)

    def post(self, path: str, data: Mapping[str, Any]) -> HttpReply:
        return self._ask("POST", path, json.dumps(data).encode(), MAX_BODY)

    def stream(self, path: str, data: Mapping[str, Any], *, most: int) -> HttpReply:
        """Send JSON and read the first lines of the stream, or the data before the timeout."""
        with self._answer("POST", path, json.dumps(data).encode()) as answer:
            lines, size, is_cut = [], 0, False
            try:
                while line := answer.readline(MAX_BODY):
                    lines.append(line)
                    size += len(line)
                    is_cut = len(lines) >= most or size >= MAX_BODY
                    if is_cut or line.strip() == _DONE:
                        break
            except TimeoutError:
                if not lines:
                    raise
                is_cut = True
            return HttpReply(answer.status, b"".join(lines), self.target.key, is_cut)

    def harmless(self, text: str) -> str:
        return harmless(text, self.target.key)

    def _ask(self, method: str, path: str, body: bytes | None, most: int) -> HttpReply:
        with self._answer(method, path, body) as answer:
            parts, size = [], 0
            while size < most and (part := answer.read1(min(1 << 16, most - size))):
                parts.append(part)
                size += len(part)
            return HttpReply(answer.status, b"".join(parts), self.target.key)

    def events(self, path: str, data: Mapping[str, Any], until: float | None = None) -> Iterator[tuple[float, bytes]]:
        """Send JSON and yield the stream's events with their arrival time, until `[DONE]`, its end or `until`."""
        with self._answer("POST", path, json.dumps(data).encode(), until=until) as answer:
            if answer.status != 200:
                reply = HttpReply(answer.status, answer.read1(MAX_BODY), self.target.key)
                raise Unanswered(
                    f"{path}: {answer.status}: {reply.words}", "refused" if answer.status < 500 else "failed"
                )
            while line := answer.readline(_MAX_LINE):
                if line.startswith(b"data:"):
                    event = line[5:].strip()
                    yield time.monotonic(), event
                    if event == b"[DONE]":
                        return

    @contextlib.contextmanager
    def _answer(
        self, method: str, path: str, body: bytes | None, until: float | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        headers = {"Content-Type": "application/json"} if body else {}
        if self.target.key:
            headers["Authorization"] = f"Bearer {self.target.key}"
        ends = min(time.monotonic() + self.patience_s, until or float("inf"))
        host = "localhost" if self.target.uds is not None else self.target.host
        connection = http.client.HTTPConnection(host, self.target.port, timeout=self.patience_s)
        plain = None
        try:
            plain = connected(self.target, ends)
            self._open.add(plain)
            if self._is_over:
                raise Unanswered(f"{path}: abandoned", "no-answer")
            timed: Any = _Timed(plain, ends)
            connection.sock = timed
            connection.request(method, f"{self.target.prefix}{path}", body, headers)
            yield connection.getresponse()
        except TimeoutError:
            raise Unanswered(f"{path}: no answer within {self.patience_s:g} s", "no-answer") from None
        except (OSError, http.client.HTTPException) as error:
            # After a connection, something listens there, whatever it did next.
            reason = reason_of(error) if plain is None else "no-http"
            raise Unanswered(f"{path}: {why(error)}", reason) from None
        except ValueError:
            # For example a key with a line end; the error itself would quote it.
            message = f"{path}: the request cannot be sent; check that the key is one line of ASCII characters"
            raise Unanswered(message, "key-refused" if self.target.key else "no-http") from None
        finally:
            connection.close()
            if plain is not None:
                self._open.discard(plain)
                plain.close()


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _Timed(io.RawIOBase):
    """A connection with a total timeout, however slow the transfer."""

    def __init__(self, plain: socket.socket, until: float) -> None:
        self.plain, self.until = plain, until

    def sendall(self, data: bytes) -> None:
        self.plain.settimeout(_left(self.until))
        self.plain.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def close(self) -> None:
        """Stay open: http.client closes a connection after its last header, before the body is read."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.plain.settimeout(_left(self.until))
        return self.plain.recv_into(buffer)


def connected(target: Target, until: float) -> socket.socket:
    """Connect to the server, with TLS if it uses that; name lookup, all addresses and handshake end by `until`."""
    if target.uds is not None:
        plain = socket.socket(socket.AF_UNIX)
        return _joined(plain, target.uds, until)
    plain = _first(_addresses(target, until), until)
    if not target.is_tls:
        return plain
    context = ssl.create_default_context()
    if not target.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        plain.settimeout(_left(until))
        return context.wrap_socket(plain, server_hostname=target.host)
    except TimeoutError:
        plain.close()
        raise ssl.SSLError("no answer to the handshake") from None
    except (OSError, ValueError):
        plain.close()
        raise


def _joined(plain: socket.socket, address: Any, until: float) -> socket.socket:
    try:
        plain.settimeout(_left(until))
        plain.connect(address)
    except OSError:
        plain.close()
        raise
    return plain


def _first(addresses: Sequence[_Address], until: float) -> socket.socket:
    """Connect to the first address that accepts; each gets its share of the remaining time."""
    failure: OSError = OSError("the host name has no address")
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        try:
            share = _left(until) / (len(addresses) - number)
            return _joined(socket.socket(family, kind, protocol), address, time.monotonic() + share)
        except OSError as error:
            failure = error
    raise failure


def _addresses(target: Target, until: float) -> Sequence[_Address]:
    """Look up the server's name in a thread, as the system's lookup cannot be cancelled."""
    results: SimpleQueue[Sequence[_Address] | OSError | UnicodeError] = SimpleQueue()

    def look_up() -> None:
        try:
            results.put(socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            results.put(error)

    with contextlib.suppress(OSError):
        # Digits are looked up nowhere.
        return socket.getaddrinfo(
            target.host, target.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    threading.Thread(target=look_up, daemon=True).start()
    try:
        result = results.get(timeout=_left(until))
    except Empty:
        raise TimeoutError from None
    if isinstance(result, Exception):
        raise result
    return result


def why(error: BaseException) -> str:
    """Why a request failed, for people."""
    if isinstance(error, ConnectionRefusedError):
        return "nothing is listening there"
    if isinstance(error, ssl.SSLCertVerificationError):
        return harmless(f"certificate verification failed: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return harmless(f"no TLS connection ({getattr(error, 'reason', None) or 'no answer to the handshake'})")
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the server closed the connection without an answer"
    if isinstance(error, http.client.HTTPException):
        return f"the response is not HTTP ({type(error).__name__})"
    return harmless(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def reason_of(error: BaseException) -> str:
    """Reason of a failed request, as a word of `catalog.serving.REASONS`."""
    if isinstance(error, ssl.SSLError):
        return "tls"
    if isinstance(error, TimeoutError):
        return "no-answer"
    return "no-http" if isinstance(error, (http.client.HTTPException, ConnectionResetError)) else "unreachable"
