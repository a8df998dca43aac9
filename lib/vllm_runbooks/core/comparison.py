"""Compare several server runs: which settings differ, and which figures are comparable."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from vllm_runbooks.core.records import FigureComparison, ServerRun, Throughput

FRONT_SETTINGS = frozenset({
    "api_key", "chat_template", "chat_template_content_format", "enable_auto_tool_choice", "host", "model_tag", "port",
    "reasoning_parser", "served_model_name", "tool_call_parser", "uvicorn_log_level",
})  # fmt: skip
"""Settings of the API server: they affect neither memory nor speed."""


def differing(starts: Sequence[ServerRun]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for start in starts for name in start.arguments)
    rows = {name: [start.arguments.get(name) for start in starts] for name in names}
    return {name: values for name, values in sorted(rows.items()) if any(value != values[0] for value in values)}


def closest(starts: Sequence[ServerRun]) -> tuple[tuple[int, int], list[str]]:
    """The numbers of the two runs, of at least two, that differ in the fewest engine settings, and these settings."""
    apart = {
        (first, second): [n for n in differing([starts[first - 1], starts[second - 1]]) if n not in FRONT_SETTINGS]
        for first, second in combinations(range(1, len(starts) + 1), 2)
    }
    return min(apart.items(), key=lambda item: len(item[1]))


def steady(samples: Sequence[Throughput]) -> list[bool]:
    """Whether each periodic line is an average over a time that was busy from its beginning to its end."""
    busy = [sample.running is not None and sample.running > 0 for sample in samples]
    return [is_busy and was_busy for is_busy, was_busy in zip(busy, [False, *busy], strict=False)]


def comparable(starts: Sequence[ServerRun]) -> list[FigureComparison]:
    if len(starts) < 2:
        return []
    return [
        FigureComparison(
            "weights and KV cache in GiB", may=True, why="memory used on the GPU, measured alike in every launch"
        ),
        _tokens(starts),
        _concurrency(starts),
        _load(starts),
        _speed(starts),
    ]


def _tokens(starts: Sequence[ServerRun]) -> FigureComparison:
    name = "KV cache in tokens"
    meanings = {start.facts.kv_cache_tokens_meaning for start in starts}
    models = {start.facts.model for start in starts}
    slots = next((n for n, s in enumerate(starts, 1) if s.facts.kv_cache_tokens_meaning == "slots"), None)
    if slots is not None and (len(meanings) > 1 or len(models) > 1):
        facts = starts[slots - 1].facts
        tokens, context = facts.kv_cache_tokens or 0, facts.max_concurrency_tokens or facts.max_model_len or 1
        return FigureComparison(
            name,
            may=False,
            why=f"they are slots of one layer group: in launch {slots}, {tokens:,} / {context:,} = "
            f"{tokens / context:.2f}, but vLLM prints {facts.max_concurrency:g} requests",
        )
    if None in meanings:
        return FigureComparison(name, may=None, why="a launch does not print tokens, context and concurrency together")
    return FigureComparison(name, may=True, why="they mean the same in every launch")


def _concurrency(starts: Sequence[ServerRun]) -> FigureComparison:
    contexts = {start.facts.max_concurrency_tokens or start.facts.max_model_len for start in starts}
    if None in contexts or any(start.facts.max_concurrency is None for start in starts):
        return FigureComparison("concurrency", may=None, why="a launch does not print it, or not for which context")
    lengths = [f"{length:,}" for length in sorted(length for length in contexts if length)]
    if len(lengths) > 1:
        return FigureComparison("concurrency", may=False, why=f"stated for requests of {' and '.join(lengths)} tokens")
    return FigureComparison("concurrency", may=True, why=f"stated for requests of {lengths[0]} tokens in every launch")


def _load(starts: Sequence[ServerRun]) -> FigureComparison:
    parts = []
    for number, start in enumerate(starts, 1):
        download = max((r.value for r in start.readings if r.name == "download_seconds"), default=None)
        if download and start.facts.load_seconds:
            parts.append(f"in launch {number}, {download:.0f} of {start.facts.load_seconds:.0f} s")
    if parts:
        return FigureComparison("time to load", may=False, why=f"part of it is the download: {'; '.join(parts)}")
    if any(start.facts.load_seconds is None for start in starts):
        return FigureComparison("time to load", may=None, why="a launch does not print it")
    return FigureComparison(
        "time to load", may=True, why="no launch downloaded the weights while loading; caches may differ"
    )


def _speed(starts: Sequence[ServerRun]) -> FigureComparison:
    name = "generation in tokens/s"
    if any(start.facts.generation_tokens_per_s_max is None or not start.arguments for start in starts):
        return FigureComparison(name, may=None, why="a launch prints no throughput, or not its settings")
    unsteady = [str(n) for n, s in enumerate(starts, 1) if not any(steady(s.throughput))]
    (first, second), nearest = closest(starts)
    why = []
    if len(nearest) > 1:
        why.append(
            f"no two launches differ in only one setting; launches {first} and {second} differ in {', '.join(nearest)}"
        )
    if unsteady:
        why.append(f"no line of launch {' and '.join(unsteady)} covers an interval without idle time")
    pair = f"launches {first} and {second}"
    may = f"{pair} differ only in {', '.join(nearest)}" if nearest else f"{pair} have the same settings"
    return FigureComparison(name, may=not why, why="; ".join(why) or may)
