"""Facts of a running server, its conditions, and the verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.serving import Serving, ServingCondition, ServingFact, ServingTest
from vllm_runbooks.catalog.templates import fill, filled_or_plain
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Facts, Outcome, Release, Severity, Verdict
from vllm_runbooks.diagnosis import answer
from vllm_runbooks.probe.records import (
    FEWEST,
    MOST,
    EngineFacts,
    Health,
    MetricPoint,
    Observation,
    Proof,
    Sample,
    ServingFinding,
)
from vllm_runbooks.probe.starts import LaunchResult

if TYPE_CHECKING:
    from vllm_runbooks.catalog.specs import HostGpu
    from vllm_runbooks.lint.linting import Knowledge

_COMPARED: Mapping[str, Callable[[float, float], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}
_SAID = {">": "more than", ">=": "at least", "<": "less than", "<=": "at most"}
_ROOM = 0.9
"""KV cache use below which more requests fit."""
_NOT_SET = ("", "None", "auto")
_MAX_NAMES = 20


def check(
    seen: Observation,
    serving: Serving,
    knowledge: Callable[[], Knowledge],
    *,
    cards: Sequence[HostGpu] = (),
) -> Health:
    """Check an observation for the conditions of `serving.yaml`."""
    figures = Figures(seen.samples, serving)
    values = _told(seen, figures)
    conditions = [item for item in serving.conditions if seen.load is None or not item.is_of_clients]
    matches = [(condition, proofs) for condition in conditions if (proofs := _proofs(condition, seen, figures))]
    instead = {name for condition, _ in matches for name in condition.instead_of}
    findings = [
        _finding(condition, proofs, seen, values, (knowledge, cards))
        for condition, proofs in matches
        if condition.id not in instead
    ]
    findings.sort(key=lambda finding: _RANKS[finding.severity])
    cause = next((item for item in findings if item.severity is not Severity.HINT), None)
    return Health(
        kind="probe",
        verdict=Verdict.FAIL if cause else Verdict.PASS,
        reason=_reason(cause, seen, findings),
        outcome=_outcome(seen),
        cause=cause,
        findings=tuple(findings),
        vllm=_release(seen.vllm),
        facts=figures.of(),
        engines=tuple(figures.engines()),
        observation=seen,
        notes=seen.notes,
    )


_RANKS = {Severity.FATAL: 0, Severity.DEGRADED: 1, Severity.HINT: 2}


def _reason(cause: ServingFinding | None, seen: Observation, findings: Sequence[ServingFinding]) -> str:
    if cause is not None:
        return f"{cause.title} ({cause.id})"
    passed = [check.name for check in seen.health_checks if check.result is LaunchResult.PASSED]
    hints = f"; {len(findings)} hints" if len(findings) > 1 else "; 1 hint" if findings else ""
    return f"no problems found; passed checks: {', '.join(passed) or 'none'}{hints}"


def _outcome(seen: Observation) -> Outcome:
    by_name = {check.name: check.result for check in seen.health_checks}
    if by_name.get("token") is LaunchResult.PASSED and by_name.get("stream") is not LaunchResult.FAILED:
        return Outcome.RUNNING
    return Outcome.FAILED if LaunchResult.FAILED in by_name.values() else Outcome.UNKNOWN


def _release(version: str | None) -> Release:
    if version is None:
        return Release()
    try:
        return Release(version, "printed", data=options.load(version).version)
    except InputError:
        return Release(version, "printed")


# Figures


@dataclass(frozen=True)
class Figures:
    """Facts from samples of a server's metrics."""

    samples: tuple[Sample, ...]
    serving: Serving

    def of(self, engine: tuple[str, str] | None = None) -> dict[str, float | None]:
        return {name: self.value(fact, engine) for name, fact in self.serving.facts.items()}

    def engines(self) -> Iterator[EngineFacts]:
        engines = sorted(
            {_engine(point) for sample in self.samples for point in sample.points if "engine" in point.labels}
        )
        if len(engines) > 1:
            for model, engine in engines[:_MAX_ENGINES]:
                yield EngineFacts(model, engine, self.of((model, engine)))

    def value(self, fact: ServingFact, engine: tuple[str, str] | None = None) -> float | None:
        """A fact over all samples; None if unknown."""
        if fact.kind == "gauge":
            return self.gauge(fact, len(self.samples) - 1, engine) if self.samples else None
        increases = self._increases(fact.series, fact.labels, engine)
        if fact.kind == "quantile":
            return quantile(fact.quantile or 0.5, _by_bound(increases)) if increases is not None else None
        if increases is None:
            return None
        if fact.kind == "rate":
            return sum(increases.values()) / self.seconds if self.seconds else None
        whole = self._increases(fact.of or fact.series, {}, engine)
        total = sum(whole.values()) if whole else 0.0
        return min(1.0, sum(increases.values()) / total) if total > 0 else None

    def gauge(self, fact: ServingFact, number: int, engine: tuple[str, str] | None = None) -> float | None:
        points = self._points(number, fact.series, fact.labels, engine)
        values = [point.value for point in points]
        return None if not values else max(values) if fact.join == "max" else sum(values)

    def peak(self, *names: str) -> float | None:
        """The largest sum of these gauges in a sample that has them all."""
        gauges = [self.serving.facts[name] for name in names if name in self.serving.facts]
        sums = []
        for number in range(len(self.samples)):
            values = [value for fact in gauges if (value := self.gauge(fact, number)) is not None]
            sums += [sum(values)] if len(values) == len(names) else []
        return max(sums, default=None)

    @cached_property
    def seconds(self) -> float:
        return self.samples[-1].at_s - self.samples[0].at_s if len(self.samples) > 1 else 0.0

    def _points(
        self, number: int, series: str, labels: Mapping[str, Sequence[str]], engine: tuple[str, str] | None
    ) -> list[MetricPoint]:
        """Points of a series in a sample, by the first of its names that occurs."""
        series_data = self.serving.series[series]
        by_name = self._by_name[number]
        suffix = "_bucket" if series_data.type == "histogram" else ""
        points = next((by_name[n] for name in series_data.names if (n := f"{name.name}{suffix}") in by_name), [])
        return [
            point
            for point in points
            if (engine is None or _engine(point) == engine)
            and all(point.labels.get(label) in values for label, values in labels.items())
        ]

    @cached_property
    def _by_name(self) -> list[dict[str, list[MetricPoint]]]:
        every = []
        for sample in self.samples:
            by_name: dict[str, list[MetricPoint]] = defaultdict(list)
            for point in sample.points:
                by_name[point.name].append(point)
            every.append(dict(by_name))
        return every

    def _increases(
        self, series: str, labels: Mapping[str, Sequence[str]], engine: tuple[str, str] | None
    ) -> dict[tuple[tuple[str, str], ...], float] | None:
        """Growth of each counter over the samples, from 0 if it is new or was reset; None if not exported."""
        if not self.seconds or not self._points(-1, series, {}, engine):
            return None
        first = {_key(point): point.value for point in self._points(0, series, labels, engine)}
        last = {_key(point): point.value for point in self._points(-1, series, labels, engine)}
        grown = {key: value - first.get(key, 0.0) for key, value in last.items()}
        return {key: last[key] if by < 0 else by for key, by in grown.items()}


_MAX_ENGINES = 64


def _engine(point: MetricPoint) -> tuple[str, str]:
    return point.labels.get("model_name", ""), point.labels.get("engine", "")


def _key(point: MetricPoint) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(point.labels.items()))


def _by_bound(increases: Mapping[tuple[tuple[str, str], ...], float]) -> dict[float, float]:
    counts: dict[float, float] = defaultdict(float)
    for key, value in increases.items():
        try:
            counts[float(dict(key).get("le", "nan"))] += value
        except ValueError:
            continue
    return {bound: count for bound, count in counts.items() if bound == bound}  # noqa: PLR0124 - no bound is nan


def quantile(share: float, buckets: Mapping[float, float]) -> float | None:
    """Quantile of a histogram by cumulative counts per bound, like Prometheus' function."""
    bounds = sorted(buckets)
    counts: list[float] = []
    for bound in bounds:
        counts.append(max(buckets[bound], counts[-1] if counts else 0.0))
    if len(bounds) < 2 or counts[-1] <= 0:
        return None
    rank = share * counts[-1]
    place = next(index for index, count in enumerate(counts) if count >= rank)
    if bounds[place] == float("inf"):
        return bounds[place - 1]
    if place == 0 and bounds[0] <= 0:
        return bounds[0]
    low = bounds[place - 1] if place else 0.0
    before = counts[place - 1] if place else 0.0
    inside = counts[place] - before
    return low + (bounds[place] - low) * (rank - before) / inside if inside else bounds[place]


# Conditions


def _proofs(condition: ServingCondition, seen: Observation, figures: Figures) -> tuple[Proof, ...]:
    proofs = [_proof(test, seen, figures) for test in condition.when]
    return tuple(proof for proof in proofs if proof) if all(proofs) else ()


def _proof(test: ServingTest, seen: Observation, figures: Figures) -> Proof | None:
    if test.health_check:
        failed = (
            check
            for check in seen.health_checks
            if check.result is LaunchResult.FAILED and check.name in test.health_check and check.reason in test.reason
        )
        check = next(failed, None)
        return None if check is None else Proof(check.name, None, f"{check.name}: {check.message}")
    if test.setting is not None:
        value = seen.settings.get(test.setting)
        return Proof(None, None, f"{test.setting} is {value}") if value == test.equals and value is not None else None
    return _measured(test, figures)


def _measured(test: ServingTest, figures: Figures) -> Proof | None:
    fact = figures.serving.facts[test.fact or ""]
    compare, comparison = _COMPARED[test.op], _SAID[test.op]
    if test.over == "window":
        value = figures.value(fact)
        if value is None or test.limit is None or not compare(value, test.limit):
            return None
        seen_value = f"{shown(value, fact.unit)} over {figures.seconds:.1f} s"
        limit = f"{comparison} {shown(test.limit, fact.unit)}"
        return Proof(None, test.fact, f"{fact.says}: {seen_value} (threshold: {limit})")
    values = [figures.gauge(fact, number) for number in range(len(figures.samples))]
    limits: list[float | None] = [test.limit] * len(values)
    if test.than is not None:
        other = figures.serving.facts[test.than]
        gauges = (figures.gauge(other, number) for number in range(len(values)))
        limits = [None if value is None else value * test.times for value in gauges]
    holds = [v is not None and limit is not None and compare(v, limit) for v, limit in zip(values, limits, strict=True)]
    least = {"every": len(holds), "most": MOST * len(holds)}.get(test.over, 1)
    if sum(holds) < least or (test.over != "any" and len(holds) < FEWEST):
        return None
    numbers = [value for value in values if value is not None]
    span = " to ".join(dict.fromkeys(shown(value, fact.unit) for value in (min(numbers), max(numbers))))
    limit = shown(test.limit, fact.unit)
    if test.limit is None:
        other_fact = figures.serving.facts[test.than or ""].says
        limit = other_fact if test.times == 1 else f"{test.times:g} x {other_fact}"
    seen_values = f"{span} in {sum(holds)} of {len(holds)} samples"
    return Proof(None, test.fact, f"{fact.says}: {seen_values} (threshold: {comparison} {limit})")


def shown(value: float | None, unit: str) -> str:
    if value is None:
        return "unknown"
    if unit == "share":
        return f"{value:.1%}"
    if unit == "s":
        return f"{1000 * value:.1f} ms" if value < 1 else f"{value:.2f} s"
    number = f"{value:,.0f}" if value == round(value) or value >= 100 else f"{value:,.2f}"
    return number if unit == "requests" else f"{number} per second" if unit == "1/s" else f"{number} {unit}"


def _told(seen: Observation, figures: Figures) -> dict[str, str]:
    """Values for the catalog's texts: facts, and the names of `catalog.serving.TOLD`."""
    facts = figures.serving.facts
    texts = {name: shown(value, facts[name].unit) for name, value in figures.of().items() if value is not None}
    if (running := figures.peak("running") or 0.0) >= 2:
        texts["half_running"] = f"{int(running) // 2}"
    if (in_flight := figures.peak("running", "waiting") or 0.0) >= 1:
        texts["in_flight"] = f"{int(in_flight)}"
    if (use := figures.peak("kv_use")) is not None and use < _ROOM:
        texts["kv_has_room"] = f"{use:.1%}"
    if seen.model is not None:
        texts["asked"] = seen.model
    if seen.models:
        texts["served"] = ", ".join(model.id for model in seen.models[:_MAX_NAMES])
    if seen.gpus:
        texts["on_gpu"] = seen.gpus[0].name or "a GPU"
    if seen.settings.get("cache_dtype") == "auto":
        texts["cache_not_fp8"] = "auto"
    for name in ("gpu_memory_utilization", "num_gpu_blocks_override"):
        if seen.settings.get(name, "") not in _NOT_SET:
            texts[name] = seen.settings[name]
    return texts


def _settings(seen: Observation) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name, text in seen.settings.items():
        if text in _NOT_SET:
            continue
        try:
            settings[name] = float(text) if "." in text else int(text)
        except ValueError:
            settings[name] = text
    return settings


def _finding(
    condition: ServingCondition,
    proofs: tuple[Proof, ...],
    seen: Observation,
    values: Mapping[str, str],
    lint_context: tuple[Callable[[], Knowledge], Sequence[HostGpu]],
) -> ServingFinding:
    changes, left_out = answer.offered(
        condition.changes,
        values,
        _settings(seen),
        command=seen.command,
        arguments=seen.arguments,
        vllm=seen.vllm,
        knowledge=lint_context[0],
        cards=lint_context[1],
    )
    names = ("explanation", "do_first", "confirm", "refute")
    texts = {name: filled_or_plain(getattr(condition, name), values, Facts()) for name in names}
    return ServingFinding(
        id=condition.id,
        title=fill(condition.title, values, Facts()) or condition.title,
        severity=condition.severity,
        proofs=proofs,
        **texts,
        source=condition.source,
        why_limits=condition.why_limits,
        changes=changes,
        left_out=left_out,
    )
