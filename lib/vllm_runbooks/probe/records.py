"""Records of a running server. Units are in names as in `core.records`, None means unknown, `at_s` is monotonic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_runbooks.core.records import CauseRef, Outcome, Release, Remedy, Severity, Verdict
from vllm_runbooks.probe.starts import HealthCheck

FEWEST = 3
"""Minimum of samples: two may agree by chance."""
FEWEST_P95, FEWEST_P99 = 20, 100
"""Minimum of answers for each percentile."""
MOST = 0.75
"""Share of samples that counts as most of them."""


# ---- observations


@dataclass(frozen=True)
class ServedModel:
    """A model as /v1/models lists it."""

    id: str
    max_model_len: int | None = None
    owned_by: str | None = None


@dataclass(frozen=True)
class MetricPoint:
    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Sample:
    """Sample of /metrics at one timestamp; only the first and last have histograms."""

    at_s: float
    points: tuple[MetricPoint, ...]


@dataclass(frozen=True)
class Quantiles:
    """Times of requests, in milliseconds; None if not measured, or too few for a percentile."""

    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True)
class LoadMeasurement:
    """A closed-loop load: each worker sends its next request when its last one has ended."""

    seconds: float
    concurrency: int
    prompt_tokens: int
    """Requested; the server's count is in `prompt_tokens_per_s`."""
    answer_tokens: int
    requests: int
    answered: int
    unfinished: int
    """Still running at the end."""
    errors: Mapping[str, int]
    """The ten most frequent, by kind."""
    answer_tokens_per_s: float | None
    requests_per_s: float | None
    time_to_first_token: Quantiles
    inter_token_latency: Quantiles
    """Time per further token, mean of each answer."""
    end_to_end_latency: Quantiles
    """Time to the end of the answer."""
    is_cut_short: bool = False


@dataclass(frozen=True)
class LogSummary:
    """Summary of the server's log."""

    files: tuple[str, ...]
    outcome: Outcome
    root_cause: CauseRef | None
    title: str | None


@dataclass(frozen=True)
class GpuUsage:
    """A GPU of the probe's host."""

    index: int
    name: str | None
    total_mib: float | None
    used_mib: float | None
    busy_percent: float | None


@dataclass(frozen=True)
class Observation:
    """Observations of a server by a probe: the file `probe.json` of a case."""

    kind: str
    """"probe"."""
    timestamp: str
    """Start time, as 2026-01-31T12:00:00Z."""
    address: str
    """Address without secrets."""
    seconds: float
    model: str | None
    """The requested model, else the first that is served."""
    health_checks: tuple[HealthCheck, ...]
    vllm: str | None
    """Release by /version, else by the log."""
    models: tuple[ServedModel, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """Labels of `vllm:cache_config_info` of the first engine."""
    samples: tuple[Sample, ...] = ()
    load: LoadMeasurement | None = None
    log: LogSummary | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """From the log, redacted."""
    command: str | None = None
    """Redacted launch command."""
    gpus: tuple[GpuUsage, ...] = ()
    notes: tuple[str, ...] = ()
    """Missing observations, with the reasons."""


# ---- results


@dataclass(frozen=True)
class Proof:
    """The health check or the figure that shows a condition."""

    health_check: str | None
    fact: str | None
    message: str
    """With numbers, as in "waiting: 12 to 12 in 5 samples, more than 0"."""


@dataclass(frozen=True)
class ServingFinding:
    """A condition that is true."""

    id: str
    title: str
    severity: Severity
    proofs: tuple[Proof, ...]
    explanation: str
    do_first: str
    confirm: str
    refute: str
    source: str
    why_limits: str
    changes: tuple[Remedy, ...] = ()
    left_out: tuple[str, ...] = ()
    """Remedies that are not offered, and why."""


@dataclass(frozen=True)
class EngineFacts:
    """The figures of one engine of a model."""

    model: str
    engine: str
    facts: Mapping[str, float | None]


@dataclass(frozen=True)
class Health:
    """State of a running server: output of `probe --format json`."""

    kind: str
    verdict: Verdict
    reason: str
    outcome: Outcome
    """"running" if a request was answered, "failed" if none was, "unknown" if none was seen."""
    cause: ServingFinding | None
    """The first fatal or degraded finding."""
    findings: tuple[ServingFinding, ...]
    vllm: Release
    facts: Mapping[str, float | None]
    """Over all engines, by name of `serving.yaml`; gauges of the last sample."""
    engines: tuple[EngineFacts, ...]
    """Empty for a single engine."""
    observation: Observation
    notes: tuple[str, ...] = ()
