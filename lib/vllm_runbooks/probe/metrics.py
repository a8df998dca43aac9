"""The text that a server exports for Prometheus, to points: line by line, and what is no sample is passed over."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from vllm_runbooks.catalog.serving import Serving
from vllm_runbooks.probe.records import Point

INFO = "vllm:cache_config_info"
"""A gauge whose labels are settings of the engine (vllm 0.32.0 v1/metrics/loggers.py:1120)."""
SETTINGS = frozenset({
    "block_size", "cache_dtype", "cpu_offload_gb", "enable_prefix_caching", "gpu_memory_utilization",
    "kv_cache_max_concurrency", "kv_cache_memory_bytes", "kv_cache_size_tokens", "num_cpu_blocks", "num_gpu_blocks",
    "num_gpu_blocks_override", "prefix_caching_hash_algo", "sliding_window", "swap_space",
})  # fmt: skip
"""Labels of it that are kept (vllm 0.8.5 to 0.32.0 config.py and config/cache.py: fields of CacheConfig)."""
_SAMPLE = re.compile(
    r"([A-Za-z_:][A-Za-z0-9_:]{0,200})(?:\{([^\n]{0,20000})\})?[ \t]{1,20}([-+0-9A-Za-z.]{1,40})(?:\s|\Z)", re.ASCII
)
_ESCAPED = re.compile(r"\\(.)")
_MAX_LABEL, _MAX_LABELS = 200, 200
_MAX_POINTS = 20_000
_KEPT = ("engine", "model_name", "le")
"""Labels that tell points of one series apart, beside those that facts choose by."""

Clean = Callable[[str], str]


def points(
    text: str, serving: Serving, clean: Clean, *, drop: Callable[[str], None] = lambda _: None
) -> tuple[tuple[Point, ...], Mapping[str, str]]:
    """The points of the series that are known, and the settings that the first engine tells.

    Points that differ in other labels alone are added up. Counts and shares are not negative, and no share exceeds 1.

    Args:
        text: As /metrics answers.
        serving: The series.
        clean: Makes a label's value harmless.
        drop: Told the name of a series whose value is none that it can have, and is left out.
    """
    exported = {name.name: series for series in serving.series.values() for name in series.names}
    wanted = {f"{name}_bucket" if series.type == "histogram" else name for name, series in exported.items()}
    kept = {*_KEPT, *(label for fact in serving.facts.values() for label in fact.labels)}
    shares = {fact.series for fact in serving.facts.values() if fact.kind == "gauge" and fact.unit == "share"}
    most = {each.name: 1.0 for series in shares for each in serving.series[series].names}
    known: dict[str, str] = {}

    def cleaned(value: str) -> str:
        if value not in known:
            known[value] = clean(value)[:_MAX_LABEL]
        return known[value]

    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    settings: dict[str, str] = {}
    read = 0
    for line in text.split("\n"):
        name = line[: _end_of_name(line)]
        if name not in wanted and (name != INFO or settings):
            continue
        match = _SAMPLE.match(line)
        value = None if match is None else _number(match[3])
        if match is None:
            continue
        if value is None or not 0 <= value <= most.get(name, math.inf):
            drop(name)
            continue
        read += 1
        if read > _MAX_POINTS:
            break
        labels = labels_of(match[2] or "")
        if name == INFO:
            settings = {label: cleaned(said) for label, said in labels.items() if label in SETTINGS}
            continue
        key = (name, tuple(sorted((label, cleaned(said)) for label, said in labels.items() if label in kept)))
        found[key] = found.get(key, 0.0) + value
    return tuple(Point(name, dict(labels), value) for (name, labels), value in found.items()), settings


def labels_of(text: str) -> dict[str, str]:
    """What stands between the braces, as names and values; from where it is damaged on nothing is read."""
    found: dict[str, str] = {}
    at = 0
    while (middle := text.find('="', at)) >= 0 and len(found) < _MAX_LABELS:
        end = text.find('"', middle + 2)
        while end >= 0 and _is_escaped(text, end):
            end = text.find('"', end + 1)
        if end < 0:
            break
        value = _ESCAPED.sub(lambda m: "\n" if m[1] == "n" else m[1], text[middle + 2 : end])
        found[text[at:middle].strip(", \t")[:_MAX_LABEL]] = value
        at = end + 1
    return found


def _is_escaped(text: str, at: int) -> bool:
    before = at
    while text[before - 1] == "\\":
        before -= 1
    return (at - before) % 2 == 1


def _end_of_name(line: str) -> int:
    ends = [at for at in (line.find("{", 0, 220), line.find(" ", 0, 220)) if at >= 0]
    return min(ends, default=0)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
