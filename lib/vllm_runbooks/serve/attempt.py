"""Run one launch: show its output, watch it, check its health and end it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from vllm_runbooks.core.records import ServerRun
from vllm_runbooks.host import progress
from vllm_runbooks.host.running import RedactedOutput, Show, SupervisedCommand
from vllm_runbooks.probe import health_checks
from vllm_runbooks.probe.asking import Target, is_open
from vllm_runbooks.probe.starts import HealthCheck, LaunchEvent, LaunchResult, LoadResult, first_failure
from vllm_runbooks.serve.durations import Usual
from vllm_runbooks.serve.elsewhere import Run
from vllm_runbooks.serve.log import Log
from vllm_runbooks.serve.subject import ServedLaunch
from vllm_runbooks.serve.watch import HangWatch

_SAME_FAILURES = 5
"""Equal failures of a check until the server counts as broken; four times as many during
startup."""
Say = Callable[[str], None]
Look = Callable[[Run, Mapping[int, progress.Sight], float], list[LaunchEvent]]
Proof = Callable[[Callable[[], bool]], LoadResult | None]
"""Action on a ready server, in a thread, after which the server is stopped; receives a test whether
the server has ended."""
_PROOF_ENDS_S = 15.0


@dataclass(frozen=True)
class Limits:
    ready_s: float | None = None
    hung_s: float | None = 600.0
    patience_s: float = 60.0
    probe_every_s: float | None = None
    look_s: float = 1.0
    """Interval of looks at the processes during startup; doubled after it, and between health checks."""


@dataclass
class LaunchOutcome:
    ready_s: float | None = None
    seconds: float = 0.0
    ending: str = ""
    status: int | None = None
    stopped_by: int | None = None
    """Signal from the user."""
    gave_up: str = ""
    """Why we ended it."""
    checks: tuple[HealthCheck, ...] = ()
    events: list[LaunchEvent] = field(default_factory=list)
    phases: list[tuple[str, float]] = field(default_factory=list)
    """Phases with the time of their first line."""
    proved: bool = False
    """Whether the proof finished with the server alive."""
    measured: LoadResult | None = None


@dataclass
class LaunchRunner:
    subject: ServedLaunch
    path: Path
    """File for its output."""
    show: Show
    say: Say
    limits: Limits
    on_ready: Sequence[Callable[[], None]] = ()
    looks: Sequence[Look] = ()
    usual: Mapping[str, Usual] = field(default_factory=dict)
    is_computing: Callable[[], bool | None] = lambda: None
    proof: Proof | None = None
    is_cancelled: Callable[[], bool] = lambda: False
    launch: Callable[[], AbstractContextManager[Run]] | None = None
    """Launches it on other hosts; it is stopped if a rank is lost."""

    def __post_init__(self) -> None:
        self.ran = LaunchOutcome()
        self._proving: threading.Thread | None = None
        self._is_gone = threading.Event()
        self._climbing: _HealthRun | None = None
        self._climb_at = 0.0
        self._next_probe: float | None = None
        self._is_up = False
        """Whether the log reports that the server is up."""
        self._failed: tuple[str, str] | None = None
        self._same = 0

    def run(self) -> LaunchOutcome:
        launched = (self.launch or self._here)()
        self.began = time.monotonic()
        self.watch = HangWatch(self.began, usual=self.usual, is_computing=self.is_computing)
        with launched as running:
            log = Log(self.path, RedactedOutput(self.show, known=self.subject.known), self._take_start)
            look_at = self.began
            try:
                for chunk in running.chunks(tick_s=min(0.25, self.limits.look_s)):
                    if chunk:
                        log.take(chunk)
                    if self.watch.is_ready:
                        log.read_no_more()
                    now = time.monotonic()
                    if now >= look_at:
                        is_calm = self.watch.is_ready and self._proving is None
                        look_at = now + self.limits.look_s * (2 if is_calm else 1)
                        self.watch.line_at = log.line_at
                        self._look(running, now)
            finally:
                log.close()
            self._is_gone.set()
            if self._proving is not None:
                self._proving.join(_PROOF_ENDS_S)
            if self._climbing is not None and not self.watch.is_ready:
                self._climbing.join(2.0)
                self.ran.checks = max(self.ran.checks, tuple(self._climbing.checks), key=len)
        self.ran.seconds = time.monotonic() - self.began
        self.ran.ending, self.ran.status = running.ending, running.status
        self.ran.stopped_by = running.signalled
        return self.ran

    def _here(self) -> AbstractContextManager[Run]:
        words, environment = self.subject.run
        # Without this a process that gives itself a title overwrites its environment, and with it our mark.
        return SupervisedCommand(words, environment={**environment, "SPT_NOENV": "1"})

    def _take_start(self, start: ServerRun) -> None:
        self._is_up = start.outcome.is_healthy
        for phase in start.timeline[len(self.ran.phases) :]:
            at = time.monotonic() - self.began
            if self.ran.phases:
                name, since = self.ran.phases[-1]
                self.say(f"{name}: took {at - since:.1f} s")
            self.ran.phases.append((phase.name, at))
            self.watch.phase = phase.name
            usual = self.usual.get(phase.name)
            self.say(f"{phase.name}: started after {at:.1f} s{f'; usually {usual.says}' if usual else ''}")

    def _look(self, running: Run, now: float) -> None:
        sights = {} if self.subject.is_container else running.sights()
        seen = self.watch.look(sights, now)
        if running.stopped_by is not None:
            seen = [event for event in seen if event.kind != "gone"]
        for event in (*seen, *(extra for look in self.looks for extra in look(running, sights, now))):
            self.ran.events.append(event)
            self.say(event.message if not event.phase else f"{event.phase}: {event.message}")
        if running.stopped_by is not None:
            return
        if self.is_cancelled():
            self._give_up(running, "canceled")
            return
        gone = next((event for event in seen if event.kind == "gone"), None)
        if gone is not None and self.launch is not None:
            self._give_up(running, gone.message)
            return
        if self._proving is not None and not self._proving.is_alive():
            self.ran.proved = True
            running.stop(signal.SIGTERM, "was stopped: ready, as requested")
            return
        self._climb(running, now)
        hung = self.watch.hung_since
        if hung is not None and self.limits.hung_s is not None and now - hung >= self.limits.hung_s:
            self._give_up(running, f"it hung for {now - hung:.0f} s")
        elif not self.watch.is_ready and self.limits.ready_s is not None and now - self.began >= self.limits.ready_s:
            self._give_up(running, f"it was not ready within {self.limits.ready_s:g} s")

    def _give_up(self, running: Run, why: str) -> None:
        self.ran.gave_up = why
        self.say(f"giving up: {why}")
        running.stop(signal.SIGTERM, f"was stopped: {why}")

    def _take_failure(self, running: Run, failed: HealthCheck, now: float) -> None:
        """Retry: a server during startup answers 503 or closes the connection; but not forever."""
        self._climb_at = now + 2 * self.limits.look_s
        failure = (failed.name, failed.message)
        self._same = self._same + 1 if failure == self._failed else 1
        if failure != self._failed:
            self.say(f"not ready: {failed.name}: {failed.message}")
        self._failed = failure
        most = _SAME_FAILURES * (4 if failed.name in ("port", "health") else 1)
        is_left = failed.is_alive and self.proof is None
        if self._same == most and is_left:
            self.say("it answers, so it is left running; its API is not verified")
        if self._same >= most and not is_left and running.stopped_by is None:
            self._give_up(running, f"it listens but does not serve: {failed.name}: {failed.message}")

    def _become_ready(self, now: float) -> None:
        self.watch.is_ready = True
        self.ran.ready_s = now - self.began
        if self.limits.probe_every_s:
            self._next_probe = now + self.limits.probe_every_s
        for check in self.ran.checks:
            if check.result is not LaunchResult.LEFT_OUT:
                self.say(f"checked {check.name}: {check.result.word}: {check.message}")
        by_log = "according to its log; its address is unknown"
        where = self.subject.target.place if self.subject.is_target_known else by_log
        self.say(f"ready after {self.ran.ready_s:.1f} s: {where}")
        for action in self.on_ready:
            action()
        if self.proof is not None:
            self._proving = threading.Thread(target=self._prove, daemon=True)
            self._proving.start()

    def _prove(self) -> None:
        if self.proof is not None:
            self.ran.measured = self.proof(self._is_gone.is_set)

    def _climb(self, running: Run, now: float) -> None:
        climb = self._climbing
        if not self.subject.is_target_known:
            if self._is_up and not self.watch.is_ready:
                self._become_ready(now)
            return
        if climb is None:
            due = self._next_probe if self.watch.is_ready else self._climb_at
            if due is not None and now >= due and (self.watch.is_ready or is_open(self.subject.target)):
                self._climbing = _HealthRun(self.subject.target, self.limits.patience_s)
        if climb is None or climb.is_alive():
            return
        self._climbing = None
        checks = climb.checks
        failed = first_failure(checks)
        if self.watch.is_ready:
            self._next_probe = now + (self.limits.probe_every_s or 0)
            if failed is not None:
                reason = f"{failed.name}: {failed.message}"
                self.ran.events.append(LaunchEvent(now - self.began, "unanswered", reason, "serve"))
                self.say(reason)
            return
        self.ran.checks = tuple(checks)
        if failed is not None:
            self._take_failure(running, failed, now)
            return
        self._become_ready(now)


class _HealthRun(threading.Thread):
    def __init__(self, target: Target, patience_s: float) -> None:
        super().__init__(daemon=True)
        self.checks: list[HealthCheck] = []
        self._server, self._patience_s = target, patience_s
        self.start()

    def run(self) -> None:
        try:
            for check in health_checks.climb(self._server, patience_s=self._patience_s):
                self.checks.append(check)
        except Exception as error:  # noqa: BLE001 - an unforeseen answer proves nothing
            name = health_checks.NAMES[min(len(self.checks), len(health_checks.NAMES) - 1)]
            self.checks.append(HealthCheck(name, LaunchResult.FAILED, f"invalid response ({type(error).__name__})"))
