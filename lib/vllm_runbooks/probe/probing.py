"""Observe a running server: health checks, metrics over some seconds, and a load if requested."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vllm_runbooks.catalog.serving import HEALTH_CHECKS, LOAD, Serving
from vllm_runbooks.core import moments
from vllm_runbooks.probe import metrics
from vllm_runbooks.probe.asking import HttpClient, Target, Unanswered
from vllm_runbooks.probe.health_checks import MAX_METRICS, HealthChecker
from vllm_runbooks.probe.load import Loading, ProbeLoad
from vllm_runbooks.probe.records import FEWEST, LoadMeasurement, MetricPoint, Observation, Sample
from vllm_runbooks.probe.starts import HealthCheck, LaunchResult, first_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST = 121
FIRST_S = 10.0
_METRICS_S = 5.0
"""Time limit of one metrics request, as a busy server answers late."""


@dataclass(frozen=True)
class ProbeRequest:
    target: Target
    model: str | None = None
    """Model for the requests; by default the first that is served."""
    seconds: float = 2.0
    """Duration of the metrics sampling without a load."""
    load: ProbeLoad | None = None
    patience_s: float = 60.0
    first_s: float | None = None
    """Time limit of the port and of /health, which a live server answers immediately; by default at most 10 s."""


def observe(request: ProbeRequest, serving: Serving, *, say: Callable[[str], None] = lambda _: None) -> Observation:
    """Run the health checks, sample the metrics and send the load."""
    began, at = time.monotonic(), moments.now()
    first_s = min(request.patience_s, FIRST_S) if request.first_s is None else request.first_s
    ladder = HealthChecker(
        request.target, request.patience_s, first_s=first_s, model_name=request.model, is_diagnosis=True
    )
    checks = tuple(_climbed(ladder))
    failed = first_failure(checks)
    sampling = _Sampling(request, serving, began)
    measured: LoadMeasurement | None = None
    notes = []
    is_there = (
        failed is None or (failed.name not in ("port", "server") and failed.reason != "no-answer") or ladder.version
    )
    if request.load is not None and failed is None and not ladder.other:
        say(f"sending {request.load.at_once} concurrent requests for {request.load.seconds:g} s")
        measured = sampling.under(Loading(request.target, ladder.model, request.load, patience_s=request.patience_s))
        checks = (*checks, _borne(measured))
    else:
        if request.load is not None:
            notes.append(
                "no load was sent: " + (f"{failed.name} failed" if failed else "the model does not output text")
            )
        if is_there:
            sampling.quiet()
    return Observation(
        kind="probe",
        timestamp=at,
        address=request.target.place,
        seconds=time.monotonic() - began,
        model=sampling.clean(ladder.model) or None,
        health_checks=checks,
        vllm=ladder.version,
        models=tuple(replace(model, id=sampling.clean(model.id)) for model in ladder.models),
        settings=sampling.settings,
        samples=sampling.kept,
        load=measured,
        notes=(*notes, *sampling.notes),
    )


def _climbed(ladder: HealthChecker) -> Iterator[HealthCheck]:
    for check in ladder.climb(HEALTH_CHECKS[: HEALTH_CHECKS.index(LOAD)]):
        yield check
        if check.name == "chat" and check.result is not LaunchResult.PASSED:
            return


def _borne(load: LoadMeasurement) -> HealthCheck:
    failed = sum(load.errors.values())
    if failed <= load.answered:
        return HealthCheck(LOAD, LaunchResult.PASSED, f"{load.answered} of {load.requests} requests answered")
    errors = "; ".join(f"{count} x {kind}" for kind, count in load.errors.items())
    return HealthCheck(
        LOAD, LaunchResult.FAILED, f"{load.answered} of {load.requests} requests answered: {errors}", reason="refused"
    )


class _Sampling:
    def __init__(self, request: ProbeRequest, serving: Serving, began: float) -> None:
        self._asking = HttpClient(request.target, min(request.patience_s, _METRICS_S))
        self._request, self._serving, self._began = request, serving, began
        self._samples: list[Sample] = []
        self.settings: dict[str, str] = {}
        self.notes: list[str] = []

    def clean(self, text: str) -> str:
        return self._asking.harmless(text)

    @property
    def kept(self) -> tuple[Sample, ...]:
        """The samples, with histograms only in the first and the last."""

        def is_small(point: MetricPoint) -> bool:
            return not point.name.endswith("_bucket")

        last = len(self._samples) - 1
        return tuple(
            sample if number in (0, last) else replace(sample, points=tuple(filter(is_small, sample.points)))
            for number, sample in enumerate(self._samples)
        )

    def _read(self) -> bool:
        try:
            reply = self._asking.get("/metrics", most=MAX_METRICS)
        except Unanswered as failure:
            self.notes.append(f"the metrics could not be read: {failure}")
            return False
        if reply.status != 200:
            self.notes.append(f"/metrics: {reply.status}: no server metrics")
            return False
        at = time.monotonic() - self._began
        text = reply.body.decode("utf-8", "replace")
        points, settings = metrics.points(text, self._serving, self.clean, drop=self._drop)
        self.settings = self.settings or dict(settings)
        if not points:
            self.notes.append("/metrics has no vLLM metrics")
            return False
        self._samples.append(Sample(at, points))
        return True

    def _drop(self, name: str) -> None:
        note = f"{name}: an impossible value was ignored"
        if note not in self.notes:
            self.notes.append(note)

    def quiet(self) -> None:
        count = min(max(FEWEST, int(self._request.seconds) + 1), _MOST)
        for number in range(count):
            if number:
                time.sleep(self._request.seconds / (count - 1))
            if not self._read():
                return

    def under(self, loading: Loading) -> LoadMeasurement:
        """Sample the metrics once a second under a load; an interrupt ends the load."""
        every = max(1.0, loading.load.seconds / (_MOST - 1))
        every = min(every, loading.load.seconds / (FEWEST + 1))
        try:
            with loading:
                # The first sample is taken when the workers are active, and the last before they
                # stop, so that the load is constant in between. vLLM sets its gauges when a step
                # ends, and a first step may take its time.
                loading.until_first_token()
                time.sleep(min(every, loading.left_s))
                while loading.left_s > 0:
                    took = time.monotonic()
                    if not self._read():
                        time.sleep(loading.left_s)
                    elif not loading.left_s and len(self._samples) > FEWEST:
                        self._samples.pop()  # answered when the load was over, which it may show already
                    time.sleep(min(max(0.0, every - (time.monotonic() - took)), loading.left_s))
        except KeyboardInterrupt:
            self.notes.append("the load was interrupted; its results up to then are reported")
        measured = loading.measured()
        if not measured.answered:
            self.notes.append("no request was answered during the load; use a longer load or shorter answers")
        return measured
