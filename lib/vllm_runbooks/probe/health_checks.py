"""The ladder from an open port to a tool call, one small request a rung.

`/health` alone says that the API process lives: it answers 200 where the first request kills the engine.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from vllm_runbooks.catalog.serving import Serving
from vllm_runbooks.probe import metrics
from vllm_runbooks.probe.asking import Asking, Said, Target, Unanswered, connected, reason_of, why
from vllm_runbooks.probe.records import ServedModel
from vllm_runbooks.probe.starts import Result, Rung

NAMES = ("port", "health", "models", "token", "stream", "chat", "tools")
"""The rungs that a server which we start must climb, from the lowest."""
MAX_METRICS = 16 << 20
"""Bytes of /metrics that are read."""
_FINISHED = "finished"
"""Series of serving.yaml that counts requests which ended."""
_PROMPT = "Hello"
_MAX_MODELS = 1000
_MOST_LINES, _MOST_PIECES = 400, 8
"""Lines of a stream that are read, and events of one with two tokens: each has its own, and further ones usage."""
_TOOL = {
    "type": "function",
    "function": {
        "name": "now",
        "description": "The time of day",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
    },
}
_DEAD = ("enginecore encountered", "enginedead", "engine is dead", "background loop", "engine process failed")
"""Words of answers whose engine has ended (vllm 0.32.0 v1/engine/exceptions.py:16, 0.8.5 engine/async_llm_engine)."""
_NO_TEMPLATE = ("chat template", "chat_template")
_NO_TOOLS = ("tool choice requires", "enable-auto-tool-choice", "tool-call-parser", "tool_call_parser")
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}[0-9A-Za-z.+_-]{0,60}", re.ASCII)


def climb(target: Target, *, patience_s: float = 60.0) -> Iterator[Rung]:
    """Try the rungs of `NAMES` from the lowest; a needed one that fails is the last.

    Args:
        target: Where the server is.
        patience_s: Time for each whole answer; the first request of a server may compile.
    """
    yield from Ladder(target, patience_s).climb(NAMES)


def answered(target: Target, serving: Serving, *, patience_s: float = 5.0) -> int | None:
    """Requests that a server has answered, by its own metrics under the names of `serving`; None: it does not tell."""
    try:
        said = Ladder(target, patience_s).metrics()
    except Unanswered:
        return None
    names = {name.name for name in serving.series[_FINISHED].names}
    counts = [point.value for point in metrics.points(said, serving, str)[0] if point.name in names]
    return round(sum(counts)) if counts else None


class Ladder:
    """The requests, and what later ones take from earlier ones."""

    def __init__(
        self, target: Target, patience_s: float, *, asked: str | None = None, is_diagnosis: bool = False
    ) -> None:
        """A ladder at a server.

        Args:
            target: Where it is.
            patience_s: Time for each whole answer.
            asked: Name of the model that requests are sent to; None: the first that is served.
            is_diagnosis: A server that answers /health with an error is asked on, since what it answers next says why;
                and a tool call is tried whatever the server was told.
        """
        self.target = target
        self.is_diagnosis = is_diagnosis
        self.asked = asked
        self.model = asked or ""
        self.models: tuple[ServedModel, ...] = ()
        self.version: str | None = None
        self.status = 0
        """Of the last answer; 0 where there is none."""
        self.other = ""
        """What the model makes, where that is no text."""
        self._asking = Asking(target, patience_s)
        self._exports = False
        """Whether its metrics are vLLM's."""

    def climb(self, names: Sequence[str]) -> Iterator[Rung]:
        """Try rungs from the lowest; a needed one that fails is the last."""
        for name in names:
            began, self.status = time.monotonic(), 0
            try:
                rung = self.step(name)
            except Unanswered as failure:
                rung = Rung(name, Result.FAILED, str(failure), reason=failure.reason)
            if rung.result is not Result.LEFT_OUT:
                is_alive = rung.result is Result.FAILED and 400 <= self.status < 500
                rung = replace(rung, seconds=time.monotonic() - began, is_alive=is_alive)
            yield rung
            goes_on = self.is_diagnosis and name == "health" and self.status > 0
            if rung.result is Result.FAILED and rung.is_needed and not goes_on:
                return

    def step(self, name: str) -> Rung:
        """Try one rung.

        Raises:
            Unanswered: nothing came back.
        """
        if name in ("stream", "chat", "tools") and self.other:
            return Rung(name, Result.LEFT_OUT, f"the model makes {self.other}, no text", is_needed=False)
        tried: Rung = getattr(self, f"_{name}")()
        return tried

    def metrics(self) -> str:
        """What it tells of itself for Prometheus.

        Raises:
            Unanswered: nothing came back.
        """
        said = self._asking.get("/metrics", most=MAX_METRICS)
        return said.body.decode("utf-8", "replace") if said.status == 200 else ""

    def _port(self) -> Rung:
        try:
            connected(self.target, time.monotonic() + self._asking.patience_s).close()
        except (OSError, UnicodeError, OverflowError) as error:
            reason = "unreachable" if isinstance(error, TimeoutError) else reason_of(error)
            return Rung("port", Result.FAILED, f"{self.target.place}: {why(error)}", reason=reason)
        return Rung("port", Result.PASSED, f"{self.target.place} accepts connections")

    def _health(self) -> Rung:
        said = self._get("/health")
        if said.status == 200:
            return Rung("health", Result.PASSED, "200")
        reason = "unhealthy" if said.status == 503 else self._reason(said)
        return Rung("health", Result.FAILED, _refused("/health", said), reason=reason)

    def _server(self) -> Rung:
        """Whether it is a vLLM: by its release, its metrics, or whose its models are."""
        told = []
        version = self._get("/version")
        release = version.data.get("version") if version.status == 200 and isinstance(version.data, dict) else None
        if isinstance(release, str) and _VERSION.fullmatch(release):
            self.version = release
            told.append(f"/version says {release}")
        if "\nvllm:" in f"\n{self.metrics()}":
            self._exports = True
            told.append("/metrics are vLLM's")
        models = self._get("/v1/models")
        if '"vllm"' in models.body.decode("utf-8", "replace") and self._listed(models):
            told.append("its models are owned by vllm")
        if self._exports or len(told) > 1 or (told and models.status in (200, 401, 403)):
            return Rung("server", Result.PASSED, "; ".join(told))
        if models.status in (401, 403):
            return self._keyless("server", models)
        said = ", ".join(f"{path}: {each.status}" for path, each in (("/version", version), ("/v1/models", models)))
        return Rung("server", Result.FAILED, f"no sign of a vLLM: {said}, and no metrics of it", reason="not-vllm")

    def _models(self) -> Rung:
        said = self._get("/v1/models")
        if said.status in (401, 403):
            return self._keyless("models", said)
        self.models = self._listed(said)
        if not self.models:
            is_empty = said.status == 200
            what = "/v1/models: names no model; is it a vLLM?" if is_empty else _refused("/v1/models", said)
            return Rung("models", Result.FAILED, what, reason="no-models" if is_empty else self._reason(said))
        self.model = self.asked or self.models[0].id
        return Rung("models", Result.PASSED, self._asking.harmless(", ".join(each.id for each in self.models)))

    def _model(self) -> Rung:
        """Whether the name that was asked for is served, as a request finds."""
        if self.asked is None:
            return Rung("model", Result.LEFT_OUT, "no name was asked for", is_needed=False)
        if any(each.id == self.asked for each in self.models):
            return Rung("model", Result.PASSED, f"{self._asking.harmless(self.asked)} is served")
        said = self._post("/v1/completions", {"model": self.asked, "prompt": _PROMPT, "max_tokens": 1})
        if said.status == 200:
            return Rung("model", Result.PASSED, "it is not listed, and a request that names it is answered")
        names = self._asking.harmless(", ".join(each.id for each in self.models))
        what = f"{_refused('/v1/completions', said)}; served: {names}"
        return Rung("model", Result.FAILED, what, reason="wrong-model" if said.status == 404 else self._reason(said))

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
        return self._failed("token", "/v1/completions", said)

    def _stream(self) -> Rung:
        asked = {"model": self.model, "prompt": _PROMPT, "max_tokens": 2, "temperature": 0, "stream": True}
        said = self._kept(self._asking.stream("/v1/completions", asked, most=_MOST_LINES))
        if said.status != 200:
            return self._failed("stream", "a streamed /v1/completions", said)
        events = [line[5:].strip() for line in said.body.splitlines() if line.startswith(b"data:")]
        pieces = [replace(said, body=event) for event in events if event != b"[DONE]"]
        broken = next((p for p in pieces if isinstance(p.data, dict) and p.data.get("error")), None)
        if broken is not None:
            reason = "engine-dead" if broken.holds(*_DEAD) else "failed"
            return Rung("stream", Result.FAILED, f"the stream broke off: {broken.words}", reason=reason)
        if said.is_cut and len(pieces) > _MOST_PIECES:
            what = f"the stream does not end: {len(pieces)} events so far, where two tokens were asked for"
            return Rung("stream", Result.FAILED, what, reason="endless")
        if said.is_cut and (not events or events[-1] != b"[DONE]"):
            what = f"no end of the stream within {self._asking.patience_s:g} s, after {len(pieces)} events"
            return Rung("stream", Result.FAILED, what, reason="no-answer")
        if not pieces or events[-1] != b"[DONE]":
            what = f"the stream ended after {len(pieces)} events without [DONE]"
            return Rung("stream", Result.FAILED, what, reason="failed")
        return Rung("stream", Result.PASSED, f"{len(pieces)} events, then [DONE]")

    def _chat(self) -> Rung:
        said = self._post("/v1/chat/completions", self._chatting())
        if said.status == 200 and _choice(said.data) is not None:
            return Rung("chat", Result.PASSED, "the chat template was applied")
        is_needed = self.target.has_template or self.target.has_tools or said.status >= 500
        reason = "no-template" if said.status == 400 and said.holds(*_NO_TEMPLATE) else self._reason(said)
        return Rung("chat", Result.FAILED, _refused("/v1/chat/completions", said), is_needed=is_needed, reason=reason)

    def _tools(self) -> Rung:
        if not (self.target.has_tools or self.is_diagnosis):
            return Rung("tools", Result.LEFT_OUT, "no tool parser was asked for", is_needed=False)
        said = self._post("/v1/chat/completions", {**self._chatting(), "tools": [_TOOL], "tool_choice": "auto"})
        if said.status == 200 and _choice(said.data) is not None:
            return Rung("tools", Result.PASSED, "a request with a tool was answered")
        reason = "tools-off" if said.status == 400 and said.holds(*_NO_TOOLS) else self._reason(said)
        what = _refused("/v1/chat/completions with a tool", said)
        is_needed = self.target.has_tools or reason != "tools-off"
        return Rung("tools", Result.FAILED, what, is_needed=is_needed, reason=reason)

    def _chatting(self) -> dict[str, Any]:
        messages = [{"role": "user", "content": _PROMPT}]
        return {"model": self.model, "messages": messages, "max_tokens": 1, "temperature": 0}

    def _failed(self, name: str, path: str, said: Said) -> Rung:
        if said.status in (401, 403):
            return self._keyless(name, said)
        return Rung(name, Result.FAILED, _refused(path, said), reason=self._reason(said))

    def _keyless(self, name: str, said: Said) -> Rung:
        is_given = bool(self.target.key)
        what = "the key is refused" if is_given else "it asks for a key, and none is known"
        reason = "key-refused" if is_given else "key-missing"
        return Rung(name, Result.FAILED, f"/v1/models: {said.status}: {what}", reason=reason)

    @staticmethod
    def _reason(said: Said) -> str:
        if said.holds(*_DEAD):
            return "engine-dead"
        return "failed" if said.status >= 500 else "refused"

    def _listed(self, said: Said) -> tuple[ServedModel, ...]:
        data = said.data if said.status == 200 else None
        listed = data.get("data") if isinstance(data, dict) else None
        if not isinstance(listed, list):
            return ()
        return tuple(self._served(each) for each in listed[:_MAX_MODELS] if isinstance(each, dict) and each.get("id"))

    def _served(self, told: dict[str, Any]) -> ServedModel:
        length, owner = told.get("max_model_len"), told.get("owned_by")
        return ServedModel(
            str(told["id"]),
            length if type(length) is int and 0 < length < 1 << 40 else None,
            self._asking.harmless(owner) if isinstance(owner, str) else None,
        )

    def _get(self, path: str) -> Said:
        return self._kept(self._asking.get(path))

    def _post(self, path: str, data: dict[str, Any]) -> Said:
        return self._kept(self._asking.post(path, data))

    def _kept(self, said: Said) -> Said:
        self.status = said.status
        return said


def _refused(path: str, said: Said) -> str:
    if 300 <= said.status < 400:
        return f"{path}: {said.status}: it leads elsewhere, and is not followed; give the address that it leads to"
    return f"{path}: {said.status}{f': {said.words}' if said.words else ''}"


def _choice(data: Any) -> Any:
    choices = data.get("choices") if isinstance(data, dict) else None
    return choices[0] if isinstance(choices, list) and choices else None
