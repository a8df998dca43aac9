"""Parse the metrics that a server exports for Prometheus; malformed lines are skipped."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache

from vllm_runbooks.catalog.serving import Serving
from vllm_runbooks.probe.records import MetricPoint

INFO = "vllm:cache_config_info"
"""A gauge whose labels are engine settings (vllm 0.32.0 v1/metrics/loggers.py:1120)."""
SETTINGS = frozenset({
    "block_size", "cache_dtype", "cpu_offload_gb", "enable_prefix_caching", "gpu_memory_utilization",
    "kv_cache_max_concurrency", "kv_cache_memory_bytes", "kv_cache_size_tokens", "num_cpu_blocks", "num_gpu_blocks",
    "num_gpu_blocks_override", "prefix_caching_hash_algo", "sliding_window", "swap_space",
})  # fmt: skip
"""Labels to keep (vllm 0.8.5 to 0.32.0 config.py and config/cache.py: fields of CacheConfig)."""
_SAMPLE = re.compile(
    r"([A-Za-z_:][A-Za-z0-9_:]{0,200})(?:\{([^\n]{0,20000})\})?[ \t]{1,20}([-+0-9A-Za-z.]{1,40})(?:\s|\Z)", re.ASCII
)
_NAME_END = re.compile(r"[{ ]")
_LABEL = re.compile(r'(?>(.*?)=")((?:[^"\\]|\\.)*+)"', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")
_MAX_LABEL, _MAX_LABELS = 200, 200
_MAX_POINTS = 20_000
_KEPT = ("engine", "model_name", "le")
"""Labels that distinguish points of a series, in addition to those of facts."""

Clean = Callable[[str], str]


def points(
    text: str, serving: Serving, clean: Clean, *, drop: Callable[[str], None] = lambda _: None
) -> tuple[tuple[MetricPoint, ...], Mapping[str, str]]:
    """Points of the known series, and the settings of the first engine; `drop` gets names of impossible values."""
    exported = {name.name: series for series in serving.series.values() for name in series.names}
    exported_names = {f"{name}_bucket" if series.type == "histogram" else name for name, series in exported.items()}
    kept = {*_KEPT, *(label for fact in serving.facts.values() for label in fact.labels)}
    shares = {fact.series for fact in serving.facts.values() if fact.kind == "gauge" and fact.unit == "share"}
    most = {series_name.name: 1.0 for series in shares for series_name in serving.series[series].names}

    @cache
    def cleaned(value: str) -> str:
        return clean(value)[:_MAX_LABEL]

    totals: defaultdict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(float)
    settings: dict[str, str] = {}
    read = 0
    for line in text.split("\n"):
        end = _NAME_END.search(line, 0, 220)
        name = line[: end.start()] if end else ""
        if name not in exported_names and (name != INFO or settings):
            continue
        match = _SAMPLE.match(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and 0 <= value <= most.get(name, math.inf)):
            drop(name)
            continue
        read += 1
        if read > _MAX_POINTS:
            break
        labels = labels_of(match[2] or "")
        if name == INFO:
            settings = {label: cleaned(value_text) for label, value_text in labels.items() if label in SETTINGS}
            continue
        kept_labels = {label: cleaned(value_text) for label, value_text in labels.items() if label in kept}
        totals[name, tuple(sorted(kept_labels.items()))] += value
    return tuple(MetricPoint(name, dict(labels), value) for (name, labels), value in totals.items()), settings


def labels_of(text: str) -> dict[str, str]:
    """Labels between the braces, up to the first malformed one."""
    labels: dict[str, str] = {}
    at = 0
    while len(labels) < _MAX_LABELS and (match := _LABEL.match(text, at)):
        labels[match[1].strip(", \t")[:_MAX_LABEL]] = _ESCAPED.sub(lambda m: "\n" if m[1] == "n" else m[1], match[2])
        at = match.end()
    return labels
