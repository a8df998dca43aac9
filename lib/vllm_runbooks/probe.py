"""Ask a running server for its proof: the ladder from an open port to a tool call, one small request a rung.

`/health` alone says that the API process lives: it answers 200 where the first request kills the engine.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vllm_runbooks.live_records import Result, Rung
from vllm_runbooks.redact import redact_text

MAX_BODY = 1 << 20
"""Bytes of an answer that are read."""
_MAX_SAID = 200
NAMES = ("port", "health", "models", "token", "stream", "chat", "tools")
"""The rungs, from the lowest."""
_PROMPT = "Hello"
_TOOL = {
    "type": "function",
    "function": {
        "name": "now",
        "description": "The time of day",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
    },
}


@dataclass(frozen=True)
class Target:
    """Where a server answers, and what it was told to offer."""

    host: str = "127.0.0.1"
    port: int = 8000
    is_tls: bool = False
    uds: str | None = None
    """Socket in the file system, in place of host and port."""
    key: str | None = None
    """Never shown."""
    has_template: bool = False
    """Whether a chat template was asked for: a server that refuses to chat is not ready then."""
    has_tools: bool = False
    """Whether tools were asked for."""

    @property
    def place(self) -> str:
        """Where it is, as shown."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.uds or f"{'https' if self.is_tls else 'http'}://{host}:{self.port}"


class _Unanswered(Exception):  # noqa: N818 - what happened, not a fault of ours
    """There was no answer to a request; its text is why."""


@dataclass(frozen=True)
class _Said:
    """An answer."""

    status: int
    body: bytes

    @property
    def data(self) -> Any:
        """The JSON of it, None where it is none."""
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(self.body)
        return None

    @property
    def words(self) -> str:
        """What it says, for people: its error's message, else its beginning."""
        data = self.data
        error = data.get("error", data) if isinstance(data, dict) else None
        said = error.get("message") or error.get("detail") if isinstance(error, dict) else error
        return _harmless(str(said) if said else self.body.decode("utf-8", "replace"))

    def holds(self, *words: str) -> bool:
        """Whether it says one of some words, whatever their case."""
        text = self.words.casefold()
        return any(word in text for word in words)


def _harmless(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:4096]).split())
    line = redact_text(line)
    return line if len(line) <= _MAX_SAID else f"{line[:_MAX_SAID]}…"


def climb(target: Target, *, patience_s: float = 60.0) -> Iterator[Rung]:
    """Try the rungs from the lowest; a needed one that fails is the last.

    Args:
        target: Where the server is.
        patience_s: Time for each whole answer; the first request of a server may compile.
    """
    ladder = _Ladder(target, patience_s)
    for name in NAMES:
        began, ladder.status = time.monotonic(), 0
        try:
            rung = ladder.step(name)
        except _Unanswered as why:
            rung = Rung(name, Result.FAILED, str(why))
        if rung.result is not Result.LEFT_OUT:
            is_alive = rung.result is Result.FAILED and 400 <= ladder.status < 500
            rung = replace(rung, seconds=time.monotonic() - began, is_alive=is_alive)
        yield rung
        if rung.result is Result.FAILED and rung.is_needed:
            return


def answered(target: Target, *, patience_s: float = 5.0) -> int | None:
    """Requests that a server has answered, by its own metrics; None: it does not tell."""
    try:
        said = _Ladder(target, patience_s).metrics()
    except _Unanswered:
        return None
    counts = re.findall(r"^vllm:request_success_total\{[^}\n]{0,500}\} ([\d.e+]{1,30})$", said, re.MULTILINE | re.ASCII)
    with contextlib.suppress(ValueError):
        return round(sum(map(float, counts))) if counts else None
    return None


def is_open(target: Target, *, patience_s: float = 1.0) -> bool:
    """Whether something accepts connections there."""
    try:
        _connected(target, patience_s).close()
    except (OSError, UnicodeError, OverflowError):
        return False
    return True


class _Ladder:
    """The requests, and what later ones take from earlier ones."""

    def __init__(self, target: Target, patience_s: float) -> None:
        self.target = target
        self.patience_s = patience_s
        self.model = ""
        self.status = 0
        """Of the last answer; 0 where there is none."""
        self.other = ""
        """What the model makes, where that is no text."""

    def step(self, name: str) -> Rung:
        """Try one rung.

        Raises:
            _Unanswered: nothing came back.
        """
        if name in ("stream", "chat", "tools") and self.other:
            return Rung(name, Result.LEFT_OUT, f"the model makes {self.other}, no text", is_needed=False)
        tried: Rung = getattr(self, f"_{name}")()
        return tried

    def metrics(self) -> str:
        """What it tells of itself for Prometheus.

        Raises:
            _Unanswered: nothing came back.
        """
        said = self._get("/metrics")
        return said.body.decode("utf-8", "replace") if said.status == 200 else ""

    def _port(self) -> Rung:
        try:
            _connected(self.target, self.patience_s).close()
        except (OSError, UnicodeError, OverflowError) as error:
            return Rung("port", Result.FAILED, f"{self.target.place}: {_why(error)}")
        return Rung("port", Result.PASSED, f"{self.target.place} accepts connections")

    def _health(self) -> Rung:
        said = self._get("/health")
        if said.status == 200:
            return Rung("health", Result.PASSED, "200")
        return Rung("health", Result.FAILED, _refused("/health", said))

    def _models(self) -> Rung:
        said = self._get("/v1/models")
        if said.status in (401, 403):
            key = "the key is refused" if self.target.key else "it asks for a key, and none is known"
            return Rung("models", Result.FAILED, f"/v1/models: {said.status}: {key}")
        names = _model_names(said.data) if said.status == 200 else []
        if not names:
            what = _refused("/v1/models", said) if said.status != 200 else "/v1/models: names no model; is it a vLLM?"
            return Rung("models", Result.FAILED, what)
        self.model = names[0]
        return Rung("models", Result.PASSED, _harmless(", ".join(names)))

    def _token(self) -> Rung:
        asked = {"model": self.model, "prompt": _PROMPT, "max_tokens": 1, "temperature": 0}
        said = self._post("/v1/completions", asked)
        if said.status == 200 and _choice(said.data) is not None:
            return Rung("token", Result.PASSED, "one token came back")
        if said.status in (400, 404, 405, 501) and (
            said.status != 400 or said.holds("does not support", "not supported")
        ):
            for path, key, what in (
                ("/v1/embeddings", "input", "embeddings"),
                ("/pooling", "input", "pooled vectors"),
                ("/classify", "input", "classes"),
            ):
                other = self._post(path, {"model": self.model, key: _PROMPT})
                if other.status == 200 and isinstance(other.data, dict) and other.data.get("data"):
                    self.other = what
                    return Rung("token", Result.PASSED, f"the model makes {what}; {path} answered")
        return Rung("token", Result.FAILED, _refused("/v1/completions", said))

    def _stream(self) -> Rung:
        asked = {"model": self.model, "prompt": _PROMPT, "max_tokens": 2, "temperature": 0, "stream": True}
        said = self._post("/v1/completions", asked)
        if said.status != 200:
            return Rung("stream", Result.FAILED, _refused("a streamed /v1/completions", said))
        events = [line[5:].strip() for line in said.body.splitlines() if line.startswith(b"data:")]
        pieces = [_Said(200, event) for event in events if event != b"[DONE]"]
        broken = next((p for p in pieces if isinstance(p.data, dict) and p.data.get("error")), None)
        if broken is not None:
            return Rung("stream", Result.FAILED, f"the stream broke off: {broken.words}")
        if not pieces or events[-1] != b"[DONE]":
            return Rung("stream", Result.FAILED, f"the stream ended after {len(pieces)} events without [DONE]")
        return Rung("stream", Result.PASSED, f"{len(pieces)} events, then [DONE]")

    def _chat(self) -> Rung:
        said = self._post("/v1/chat/completions", self._chatting())
        if said.status == 200 and _choice(said.data) is not None:
            return Rung("chat", Result.PASSED, "the chat template was applied")
        is_needed = self.target.has_template or self.target.has_tools or said.status >= 500
        return Rung("chat", Result.FAILED, _refused("/v1/chat/completions", said), is_needed=is_needed)

    def _tools(self) -> Rung:
        if not self.target.has_tools:
            return Rung("tools", Result.LEFT_OUT, "no tool parser was asked for", is_needed=False)
        said = self._post("/v1/chat/completions", {**self._chatting(), "tools": [_TOOL], "tool_choice": "auto"})
        if said.status == 200 and _choice(said.data) is not None:
            return Rung("tools", Result.PASSED, "a request with a tool was answered")
        return Rung("tools", Result.FAILED, _refused("/v1/chat/completions with a tool", said))

    def _chatting(self) -> dict[str, Any]:
        messages = [{"role": "user", "content": _PROMPT}]
        return {"model": self.model, "messages": messages, "max_tokens": 1, "temperature": 0}

    def _get(self, path: str) -> _Said:
        return self._ask("GET", path, None)

    def _post(self, path: str, data: Mapping[str, Any]) -> _Said:
        return self._ask("POST", path, json.dumps(data).encode())

    def _ask(self, method: str, path: str, body: bytes | None) -> _Said:
        headers = {"Content-Type": "application/json"} if body else {}
        if self.target.key:
            headers["Authorization"] = f"Bearer {self.target.key}"
        until = time.monotonic() + self.patience_s
        connection = http.client.HTTPConnection(self.target.host, self.target.port, timeout=self.patience_s)
        try:
            connection.sock = _connected(self.target, self.patience_s)
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            parts, size = [], 0
            while size < MAX_BODY and (part := answer.read1(1 << 16)):
                parts.append(part)
                size += len(part)
                if time.monotonic() > until:
                    raise _Unanswered(f"{path}: its answer was not whole after {self.patience_s:g} s")
        except TimeoutError:
            raise _Unanswered(f"{path}: no answer within {self.patience_s:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise _Unanswered(f"{path}: {_why(error)}") from None
        except ValueError:
            # A key with a line end, say; the error itself would quote it.
            raise _Unanswered(f"{path}: the request cannot be written; is the key one line of plain letters?") from None
        finally:
            connection.close()
        self.status = answer.status
        return _Said(answer.status, b"".join(parts))


def _connected(target: Target, patience_s: float) -> socket.socket:
    if target.uds is not None:
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(patience_s)
        try:
            plain.connect(target.uds)
        except OSError:
            plain.close()
            raise
        return plain
    plain = socket.create_connection((target.host, target.port), patience_s)
    if not target.is_tls:
        return plain
    # The server is one that we started, on this host: its certificate is made for another name.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        return context.wrap_socket(plain)
    except OSError:
        plain.close()
        raise


def _why(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the server closed the connection without an answer"
    if isinstance(error, http.client.HTTPException):
        return f"no HTTP comes back ({type(error).__name__})"
    return _harmless(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _refused(path: str, said: _Said) -> str:
    return f"{path}: {said.status}{f': {said.words}' if said.words else ''}"


def _model_names(data: Any) -> list[str]:
    listed = data.get("data") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        return []
    return [str(each["id"]) for each in listed if isinstance(each, dict) and each.get("id")]


def _choice(data: Any) -> Any:
    choices = data.get("choices") if isinstance(data, dict) else None
    return choices[0] if isinstance(choices, list) and choices else None
