"""A small closed-loop load: workers that stream one answer after the other."""

from __future__ import annotations

import json
import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.probe.asking import HttpClient, Target, Unanswered
from vllm_runbooks.probe.records import FEWEST_P95, FEWEST_P99, LoadMeasurement, Quantiles

MAX_AT_ONCE = 1024
_WORDS = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "red", "blue", "green", "black",
    "white", "old", "new", "big", "long", "day", "sun", "moon", "rain", "wind", "fire", "tree", "road", "ship", "king",
)  # fmt: skip
"""One token each for most tokenizers."""
_PAUSE_S = 0.2
"""Pause after a failed request, so that a server that rejects everything is not flooded."""
_ENDING_S = 5.0
_MAX_KEPT = 1_000_000


@dataclass(frozen=True)
class ProbeLoad:
    seconds: float = 30.0
    at_once: int = 4
    prompt_tokens: int = 128
    answer_tokens: int = 64

    def __post_init__(self) -> None:
        if not 0.1 <= self.seconds <= 3600:
            raise InputError(f"load: {self.seconds:g} s is not a valid duration; use 0.1 s to 1 h")
        for name, most in (("at_once", MAX_AT_ONCE), ("prompt_tokens", 1_000_000), ("answer_tokens", 1_000_000)):
            if not 1 <= getattr(self, name) <= most:
                raise InputError(f"load: {name} is {getattr(self, name)}; use a whole number from 1 to {most}")


@dataclass
class _LoadSamples:
    """Results of the workers; each list is appended to under the interpreter's lock only."""

    sent: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    per_token: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Loading:
    def __init__(self, target: Target, model: str, load: ProbeLoad, *, patience_s: float) -> None:
        """A load that starts on entry; each request has a timeout of `patience_s`."""
        self.load = load
        self._asking, self._model = HttpClient(target, patience_s), model
        self._seen, self._stop = _LoadSamples(), threading.Event()
        self._has_token = threading.Event()
        self._began = self._ended = 0.0
        self._cut_short = False
        # New for each load, so that the server's prefix cache has no entries of an earlier one,
        # which would be measured instead.
        self._seed = secrets.randbits(128)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._until = self._began + self.load.seconds
        self._threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(self.load.at_once)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._cut_short = kind is not None
        self._ended = time.monotonic()
        self._stop.set()
        self._asking.abandon()
        until = time.monotonic() + _ENDING_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    @property
    def left_s(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def until_first_token(self) -> None:
        """Wait for the first token, at most for half of the load's time."""
        self._has_token.wait(max(0.0, self.left_s - self.load.seconds / 2))

    def _work(self, number: int) -> None:
        draw = random.Random(f"{self._seed}/{number}")  # noqa: S311 - prompts that differ are no secrets
        seen = self._seen
        while not self._stop.is_set() and time.monotonic() < self._until and len(seen.sent) < _MAX_KEPT:
            prompt = " ".join(draw.choice(_WORDS) for _ in range(self.load.prompt_tokens))
            began = time.monotonic()
            seen.sent.append(began)
            error = self._request(prompt, began)
            if error and time.monotonic() < self._until and not self._stop.is_set():
                seen.errors.append(error)
                self._stop.wait(_PAUSE_S)

    def _request(self, prompt: str, began: float) -> str:
        """Send one request and record its times; return the kind of its error, or nothing."""
        first = last = 0.0
        pieces, token_count = 0, None
        body = {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": self.load.answer_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        try:
            for at, event in self._asking.events("/v1/completions", body, until=self._until):
                if event == b"[DONE]":
                    self._note(began, first, at, last, token_count if token_count is not None else pieces)
                    return ""
                data = _parsed(event)
                if data.get("error"):
                    return "the stream broke off"
                token_count = _counted(data, token_count)
                if data.get("choices"):
                    first = first or at
                    self._has_token.set()
                    last, pieces = at, pieces + 1
        except Unanswered as failure:
            self._seen.tokens.append(pieces)
            return str(failure).removeprefix("/v1/completions: ")
        return "the stream ended without [DONE]"

    def _note(self, began: float, first: float, ended: float, last: float, tokens: int) -> None:
        seen = self._seen
        if first:
            seen.first.append(first - began)
            if tokens > 1:
                seen.per_token.append((last - first) / (tokens - 1))
        seen.tokens.append(tokens)
        seen.whole.append(ended - began)

    def measured(self) -> LoadMeasurement:
        """The measurements after the load; requests cut off by its end are no errors."""
        seen, load = self._seen, self.load
        seconds = self._ended - self._began
        answered = len(seen.whole)
        is_known = answered > 0 and seconds > 0
        return LoadMeasurement(
            seconds=seconds,
            concurrency=load.at_once,
            prompt_tokens=load.prompt_tokens,
            answer_tokens=load.answer_tokens,
            requests=len(seen.sent),
            answered=answered,
            unfinished=len(seen.sent) - answered - len(seen.errors),
            errors=dict(Counter(seen.errors).most_common(10)),
            answer_tokens_per_s=sum(seen.tokens) / seconds if is_known else None,
            requests_per_s=answered / seconds if is_known else None,
            time_to_first_token=quantiles(seen.first),
            inter_token_latency=quantiles(seen.per_token),
            end_to_end_latency=quantiles(seen.whole),
            is_cut_short=self._cut_short,
        )


def _parsed(event: bytes) -> dict[str, Any]:
    try:
        data = json.loads(event)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _counted(data: dict[str, Any], otherwise: int | None) -> int | None:
    usage = data.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return count if type(count) is int and 0 <= count <= 1 << 30 else otherwise


def quantiles(seconds: Sequence[float]) -> Quantiles:
    """Median, 95th and 99th percentile in milliseconds, interpolated; None for too few values."""
    ordered = sorted(seconds)
    shares = ((0.5, 1), (0.95, FEWEST_P95), (0.99, FEWEST_P99))
    return Quantiles(*(_at(ordered, share) if len(ordered) >= fewest else None for share, fewest in shares))


def _at(ordered: Sequence[float], share: float) -> float | None:
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return 1000 * (ordered[below] + (place - below) * (ordered[above] - ordered[below]))
