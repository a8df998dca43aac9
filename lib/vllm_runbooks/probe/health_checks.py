"""Health checks from an open port to a tool call: `/health` alone returns 200 while the engine is dead."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from vllm_runbooks.catalog.serving import Serving
from vllm_runbooks.probe import metrics
from vllm_runbooks.probe.asking import HttpClient, HttpReply, Target, Unanswered, connected, reason_of, why
from vllm_runbooks.probe.records import ServedModel
from vllm_runbooks.probe.starts import HealthCheck, LaunchResult

NAMES = ("port", "health", "models", "token", "stream", "chat", "tools")
"""Checks that a launched server must pass, in order."""
MAX_METRICS = 16 << 20
_FINISHED = "finished"
_PROMPT = "Hello"
_OWN_METRICS = "/metrics has vLLM metrics"
_MAX_MODELS = 1000
_MOST_LINES, _MOST_PIECES = 400, 8
"""Lines of a stream that are read, and events that a stream of two tokens may have, with usage."""
_TOOL = {
    "type": "function",
    "function": {
        "name": "now",
        "description": "The time of day",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
    },
}
_DEAD = ("enginecore encountered", "enginedead", "engine is dead", "background loop", "engine process failed")
"""Messages of a dead engine (vllm 0.32.0 v1/engine/exceptions.py:16, 0.8.5 engine/async_llm_engine)."""
_NO_TEMPLATE = ("chat template", "chat_template")
_NO_TOOLS = ("tool choice requires", "enable-auto-tool-choice", "tool-call-parser", "tool_call_parser")
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}[0-9A-Za-z.+_-]{0,60}", re.ASCII)


def climb(target: Target, *, patience_s: float = 60.0) -> Iterator[HealthCheck]:
    """Run the checks of `NAMES` in order; the first needed one that fails is the last."""
    yield from HealthChecker(target, patience_s).climb(NAMES)


def answered(target: Target, serving: Serving, *, patience_s: float = 5.0) -> int | None:
    """Requests that a server has answered, by its own metrics; None if it reports none."""
    try:
        text = HealthChecker(target, patience_s).metrics()
    except Unanswered:
        return None
    names = {name.name for name in serving.series[_FINISHED].names}
    counts = [point.value for point in metrics.points(text, serving, str)[0] if point.name in names]
    return round(sum(counts)) if counts else None


class HealthChecker:
    """Health checks that share a client and earlier answers."""

    def __init__(
        self,
        target: Target,
        patience_s: float,
        *,
        first_s: float | None = None,
        model_name: str | None = None,
        is_diagnosis: bool = False,
    ) -> None:
        """`patience_s` limits each request, `first_s` those that a live server answers immediately."""
        self.target = target
        self.is_diagnosis = is_diagnosis
        self.asked = model_name
        self.model = model_name or ""
        self.models: tuple[ServedModel, ...] = ()
        self.version: str | None = None
        self.status = 0
        """HTTP status of the last reply; 0 if there is none."""
        self.other = ""
        """Output of a model without text output."""
        self._patience_s, self._first_s = patience_s, patience_s if first_s is None else first_s
        self._asking = HttpClient(target, patience_s)

    def climb(self, names: Sequence[str]) -> Iterator[HealthCheck]:
        for name in names:
            began, self.status = time.monotonic(), 0
            self._asking.patience_s = self._first_s if name in ("port", "health") else self._patience_s
            try:
                check = self.step(name)
            except Unanswered as failure:
                check = _failure(name, str(failure), failure.reason)
            if check.result is not LaunchResult.LEFT_OUT:
                is_alive = check.result is LaunchResult.FAILED and 400 <= self.status < 500
                check = replace(check, seconds=time.monotonic() - began, is_alive=is_alive)
            yield check
            goes_on = self.is_diagnosis and name == "health" and self.status > 0
            if check.result is LaunchResult.FAILED and check.is_needed and not goes_on:
                return

    def step(self, name: str) -> HealthCheck:
        if name in ("stream", "chat", "tools") and self.other:
            return HealthCheck(
                name, LaunchResult.LEFT_OUT, f"the model outputs {self.other}, not text", is_needed=False
            )
        check: HealthCheck = getattr(self, f"_{name}")()
        return check

    def metrics(self) -> str:
        """The text of /metrics; empty if there is none."""
        reply = self._asking.get("/metrics", most=MAX_METRICS)
        return reply.body.decode("utf-8", "replace") if reply.status == 200 else ""

    def _port(self) -> HealthCheck:
        try:
            connected(self.target, time.monotonic() + self._asking.patience_s).close()
        except (OSError, UnicodeError, OverflowError) as error:
            reason = "unreachable" if isinstance(error, TimeoutError) else reason_of(error)
            return _failure("port", f"{self.target.place}: {why(error)}", reason)
        return HealthCheck("port", LaunchResult.PASSED, f"{self.target.place} accepts connections")

    def _health(self) -> HealthCheck:
        reply = self._get("/health")
        if reply.status == 200:
            return HealthCheck("health", LaunchResult.PASSED, "200")
        reason = "unhealthy" if reply.status == 503 else self._reason(reply)
        return _failure("health", _refused("/health", reply), reason)

    def _server(self) -> HealthCheck:
        """Whether it is vLLM: by its version, its metrics, or the owner of its models."""
        signs = []
        version = self._get("/version")
        release = version.data.get("version") if version.status == 200 and isinstance(version.data, dict) else None
        if isinstance(release, str) and _VERSION.fullmatch(release):
            self.version = release
            signs.append(f"/version: {release}")
        if "\nvllm:" in f"\n{self.metrics()}":
            signs.append(_OWN_METRICS)
        models = self._get("/v1/models")
        if '"vllm"' in models.body.decode("utf-8", "replace") and self._listed(models):
            signs.append("models owned by vllm")
        if _OWN_METRICS in signs or len(signs) > 1 or (signs and models.status in (200, 401, 403)):
            return HealthCheck("server", LaunchResult.PASSED, "; ".join(signs))
        if models.status in (401, 403):
            return self._keyless("server", models)
        statuses = f"/version: {version.status}, /v1/models: {models.status}"
        return _failure("server", f"not a vLLM server: {statuses}, and no vLLM metrics", "not-vllm")

    def _models(self) -> HealthCheck:
        reply = self._get("/v1/models")
        if reply.status in (401, 403):
            return self._keyless("models", reply)
        self.models = self._listed(reply)
        if not self.models:
            is_empty = reply.status == 200
            what = (
                "/v1/models: lists no model; check that it is a vLLM server"
                if is_empty
                else _refused("/v1/models", reply)
            )
            return _failure("models", what, "no-models" if is_empty else self._reason(reply))
        self.model = self.asked or self.models[0].id
        return HealthCheck(
            "models", LaunchResult.PASSED, self._asking.harmless(", ".join(model.id for model in self.models))
        )

    def _model(self) -> HealthCheck:
        if self.asked is None:
            return HealthCheck("model", LaunchResult.LEFT_OUT, "no model name was requested", is_needed=False)
        if any(model.id == self.asked for model in self.models):
            return HealthCheck("model", LaunchResult.PASSED, f"{self._asking.harmless(self.asked)} is served")
        reply = self._post("/v1/completions", {"model": self.asked, "prompt": _PROMPT, "max_tokens": 1})
        if reply.status == 200:
            return HealthCheck("model", LaunchResult.PASSED, "not listed, but a request with this name is answered")
        names = self._asking.harmless(", ".join(model.id for model in self.models))
        what = f"{_refused('/v1/completions', reply)}; served: {names}"
        return _failure("model", what, "wrong-model" if reply.status == 404 else self._reason(reply))

    def _token(self) -> HealthCheck:
        request = {"model": self.model, "prompt": _PROMPT, "max_tokens": 1, "temperature": 0}
        reply = self._post("/v1/completions", request)
        if reply.status == 200 and _choice(reply.data) is not None:
            return HealthCheck("token", LaunchResult.PASSED, "received one token")
        if reply.status in (400, 404, 405, 501) and (
            reply.status != 400 or reply.holds("does not support", "not supported")
        ):
            for path, key, what in (
                ("/v1/embeddings", "input", "embeddings"),
                ("/pooling", "input", "pooled vectors"),
                ("/classify", "input", "classes"),
            ):
                other = self._post(path, {"model": self.model, key: _PROMPT})
                if other.status == 200 and isinstance(other.data, dict) and other.data.get("data"):
                    self.other = what
                    return HealthCheck("token", LaunchResult.PASSED, f"the model outputs {what}; {path} answered")
        return self._failed("token", "/v1/completions", reply)

    def _stream(self) -> HealthCheck:
        request = {"model": self.model, "prompt": _PROMPT, "max_tokens": 2, "temperature": 0, "stream": True}
        reply = self._kept(self._asking.stream("/v1/completions", request, most=_MOST_LINES))
        if reply.status != 200:
            return self._failed("stream", "a streamed /v1/completions", reply)
        events = [line[5:].strip() for line in reply.body.splitlines() if line.startswith(b"data:")]
        pieces = [replace(reply, body=event) for event in events if event != b"[DONE]"]
        broken = next((p for p in pieces if isinstance(p.data, dict) and p.data.get("error")), None)
        if broken is not None:
            reason = "engine-dead" if broken.holds(*_DEAD) else "failed"
            return _failure("stream", f"the stream broke off: {broken.words}", reason)
        if reply.is_cut and len(pieces) > _MOST_PIECES:
            what = f"the stream does not end: {len(pieces)} events so far, but two tokens were requested"
            return _failure("stream", what, "endless")
        if reply.is_cut and (not events or events[-1] != b"[DONE]"):
            what = f"the stream did not end within {self._asking.patience_s:g} s, after {len(pieces)} events"
            return _failure("stream", what, "no-answer")
        if not pieces or events[-1] != b"[DONE]":
            return _failure("stream", f"the stream ended after {len(pieces)} events without [DONE]", "failed")
        return HealthCheck("stream", LaunchResult.PASSED, f"{len(pieces)} events, then [DONE]")

    def _chat(self) -> HealthCheck:
        reply = self._post("/v1/chat/completions", self._chatting())
        if reply.status == 200 and _choice(reply.data) is not None:
            return HealthCheck("chat", LaunchResult.PASSED, "the chat template was applied")
        is_needed = self.target.has_template or self.target.has_tools or reply.status >= 500
        reason = "no-template" if reply.status == 400 and reply.holds(*_NO_TEMPLATE) else self._reason(reply)
        return _failure("chat", _refused("/v1/chat/completions", reply), reason, is_needed=is_needed)

    def _tools(self) -> HealthCheck:
        if not (self.target.has_tools or self.is_diagnosis):
            return HealthCheck("tools", LaunchResult.LEFT_OUT, "no tool parser is set", is_needed=False)
        reply = self._post("/v1/chat/completions", {**self._chatting(), "tools": [_TOOL], "tool_choice": "auto"})
        if reply.status == 200 and _choice(reply.data) is not None:
            return HealthCheck("tools", LaunchResult.PASSED, "a request with a tool was answered")
        reason = "tools-off" if reply.status == 400 and reply.holds(*_NO_TOOLS) else self._reason(reply)
        what = _refused("/v1/chat/completions with a tool", reply)
        is_needed = self.target.has_tools or reason != "tools-off"
        return _failure("tools", what, reason, is_needed=is_needed)

    def _chatting(self) -> dict[str, Any]:
        messages = [{"role": "user", "content": _PROMPT}]
        return {"model": self.model, "messages": messages, "max_tokens": 1, "temperature": 0}

    def _failed(self, name: str, path: str, reply: HttpReply) -> HealthCheck:
        if reply.status in (401, 403):
            return self._keyless(name, reply)
        return _failure(name, _refused(path, reply), self._reason(reply))

    def _keyless(self, name: str, reply: HttpReply) -> HealthCheck:
        is_given = bool(self.target.key)
        what = "the API key was rejected" if is_given else "an API key is required, but none was given"
        return _failure(name, f"/v1/models: {reply.status}: {what}", "key-refused" if is_given else "key-missing")

    @staticmethod
    def _reason(reply: HttpReply) -> str:
        if reply.holds(*_DEAD):
            return "engine-dead"
        return "failed" if reply.status >= 500 else "refused"

    def _listed(self, reply: HttpReply) -> tuple[ServedModel, ...]:
        data = reply.data if reply.status == 200 else None
        listed = data.get("data") if isinstance(data, dict) else None
        if not isinstance(listed, list):
            return ()
        return tuple(self._served(item) for item in listed[:_MAX_MODELS] if isinstance(item, dict) and item.get("id"))

    def _served(self, item: dict[str, Any]) -> ServedModel:
        length, owner = item.get("max_model_len"), item.get("owned_by")
        return ServedModel(
            str(item["id"]),
            length if type(length) is int and 0 < length < 1 << 40 else None,
            self._asking.harmless(owner) if isinstance(owner, str) else None,
        )

    def _get(self, path: str) -> HttpReply:
        return self._kept(self._asking.get(path))

    def _post(self, path: str, data: dict[str, Any]) -> HttpReply:
        return self._kept(self._asking.post(path, data))

    def _kept(self, reply: HttpReply) -> HttpReply:
        self.status = reply.status
        return reply


def _failure(name: str, says: str, reason: str, *, is_needed: bool = True) -> HealthCheck:
    return HealthCheck(name, LaunchResult.FAILED, says, is_needed=is_needed, reason=reason)


def _refused(path: str, reply: HttpReply) -> str:
    if 300 <= reply.status < 400:
        return f"{path}: {reply.status}: it redirects, which is not followed; use the target address"
    return f"{path}: {reply.status}{f': {reply.words}' if reply.words else ''}"


def _choice(data: Any) -> Any:
    choices = data.get("choices") if isinstance(data, dict) else None
    return choices[0] if isinstance(choices, list) and choices else None
