"""The conditions of running servers, as in `catalog/serving.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_runbooks.catalog.indexes import Index, whole
from vllm_runbooks.catalog.records import RemedyText
from vllm_runbooks.core.record_forms import Authored, record
from vllm_runbooks.core.records import Severity


@dataclass(frozen=True)
class MetricName(Authored):
    """A name of a series in /metrics."""

    name: str
    """Exported name: counters with `_total`, histograms without `_bucket`."""
    first: str
    """Oldest release that was read and has it."""
    source: str
    """Source line in that release: `vllm 0.32.0 v1/metrics/loggers.py:528`."""
    last: str | None = None
    """Newest release with it; None if the newest in the catalog has it."""


@dataclass(frozen=True)
class Series(Authored):
    """A metric of vLLM, under whatever name a release exports it."""

    type: str
    """"gauge", "counter" or "histogram"."""
    says: str
    names: tuple[MetricName, ...]
    """Newest first; the first one that a server exports is used."""


@dataclass(frozen=True)
class ServingFact(Authored):
    """A figure that follows from samples of a series.

    In PromQL, S standing for the series' names joined by `or` and W for the window:

        gauge      JOIN(S{labels})
        rate       sum(rate(S{labels}[W]))
        share      sum(increase(S{labels}[W])) / sum(increase(OF[W]))
        quantile   histogram_quantile(QUANTILE, sum by (le) (rate(S_bucket[W])))
    """

    kind: str
    """"gauge", "rate", "share" or "quantile"."""
    series: str
    says: str
    """Label of its row."""
    unit: str
    """"requests", "share" (of 1), "1/s", "tokens/s" or "s"."""
    join: str = "sum"
    """Aggregation over engines and models of a server: "sum", or "max" for a share per engine."""
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Included samples: values by label."""
    of: str | None = None
    """Series that a share is of."""
    quantile: float | None = None


@dataclass(frozen=True)
class ServingTest(Authored):
    """A test of a fact, of a health check, or of a setting that the server reports."""

    fact: str | None = None
    over: str = "window"
    """"every": a gauge in every sample; "most": in `MOST` of them; "any": in one of them; "window": a rate, share or
    quantile over all of them."""
    op: str = ">"
    """">", ">=", "<" or "<="."""
    limit: float | None = None
    """Threshold for the fact."""
    than: str | None = None
    """Another gauge of the same sample to compare with."""
    times: float = 1.0
    """Factor on that gauge."""
    health_check: tuple[str, ...] = ()
    """Health checks, one of which failed."""
    reason: tuple[str, ...] = ()
    """Accepted reasons, from `REASONS`."""
    setting: str | None = None
    """Label of `vllm:cache_config_info`."""
    equals: str | None = None
    """Exported value."""


@dataclass(frozen=True)
class ServingCondition(Authored):
    """A problem of a running server, present if every test is true."""

    id: str
    """`serving.` and words; never reused for another condition."""
    title: str
    """The problem, with `{fact}` filled in; never the action."""
    severity: Severity
    when: tuple[ServingTest, ...]
    why_limits: str
    """Reason for these limits, with the source; empty if a health check decides."""
    explanation: str
    """Explanation; a sentence that needs an unknown figure is left out."""
    do_first: str
    confirm: str
    """How to verify it."""
    refute: str
    """Observation that would rule it out."""
    source: str
    """Place in vLLM's source that does what the explanation says."""
    changes: tuple[RemedyText, ...] = ()
    """Fixes with their cost; edits are checked against the server's release before they are
    shown."""
    instead_of: tuple[str, ...] = ()
    """Less specific conditions that are not reported together with this one."""
    is_of_clients: bool = False
    """Whether it is about client requests: not reported for the probe's own traffic."""
    hold_s: float = 300.0
    """For an alert: seconds for which it must be true before it fires."""


@dataclass(frozen=True)
class Serving(Authored):
    """`catalog/serving.yaml`: metrics of vLLM, figures derived from them, and conditions on both.

    A condition whose tests only use facts (`is_measured`) can be exported as an alert: each test is
    a PromQL comparison, joined by `and`.
    """

    series: dict[str, Series]
    facts: dict[str, ServingFact]
    conditions: tuple[ServingCondition, ...]
    """Most severe and certain first: the first fatal or degraded one that is true is the cause."""

    @property
    def by_id(self) -> Mapping[str, ServingCondition]:
        return {condition.id: condition for condition in self.conditions}


def is_measured(condition: ServingCondition) -> bool:
    """Whether metrics alone decide it."""
    return all(test.fact is not None for test in condition.when)


REASONS: Mapping[str, str] = {
    "unreachable": "nothing listens, or the host name is unknown",
    "no-answer": "connected, but no answer within the timeout",
    "no-http": "the response is not HTTP, or breaks off",
    "tls": "the certificate or the TLS handshake failed",
    "not-vllm": "an HTTP server, but not vLLM",
    "unhealthy": "it reports 503",
    "key-missing": "it requires an API key, and none was sent",
    "key-refused": "the API key was rejected",
    "no-models": "it serves no model",
    "wrong-model": "it does not serve the requested model name",
    "engine-dead": "the API server is alive, its engine is dead",
    "no-template": "no chat template",
    "endless": "a stream does not end at the requested length",
    "tools-off": "tool calls are not enabled",
    "refused": "a request is rejected for another reason",
    "failed": "a request fails in the server",
}
"""Reasons for a failed health check, by keyword."""

LOAD = "load"

HEALTH_CHECKS = ("port", "health", "server", "models", "model", "token", "stream", "chat", "tools", LOAD)
"""The ladder of a diagnosis, from the lowest."""

TYPES = ("gauge", "counter", "histogram")

KINDS: Mapping[str, str] = {"gauge": "gauge", "rate": "counter", "share": "counter", "quantile": "histogram"}
"""Kinds of facts, and the type of their series."""

OVER: Mapping[str, tuple[str, ...]] = {
    "gauge": ("every", "most", "any"),
    "rate": ("window",),
    "share": ("window",),
    "quantile": ("window",),
}
"""Scopes of a test by kind of fact."""

OPERATORS = (">", ">=", "<", "<=")

TOLD: Mapping[str, str] = {
    "asked": "the requested model name",
    "served": "the served names",
    "in_flight": "most running and waiting requests in a sample",
    "half_running": "half of the most running requests in a sample",
    "kv_has_room": "known if no sample has 90% of the KV cache in use",
    "on_gpu": "known if the release is not a CPU build",
    "cache_not_fp8": "known if the server reports that the KV cache uses the model's dtype",
    "gpu_memory_utilization": "as the server reports it",
    "num_gpu_blocks_override": "as the server reports it, if set",
}
"""Names available in texts in addition to facts, and required by changes, with the meaning of
each."""

SERVING = Index(
    "serving",
    lambda root: [root / "serving.yaml"],
    "vllm_runbooks.catalog.authored.serving_file:compile_serving",
    lambda index: record(Serving, whole(index, "serving")),
)
"""Metrics of a running server, the figures derived from them, and the conditions."""
