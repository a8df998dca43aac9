"""Supervised launches: checked before, watched during startup, and ended without leftovers."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.display import to_json
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.files import NotStoredError, store
from vllm_runbooks.core.records import Answer, Outcome
from vllm_runbooks.core.redaction import redact
from vllm_runbooks.core.redaction.redact import redact_record, redact_text
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.host import card_locks, leftovers
from vllm_runbooks.host.gpu_memory import Source
from vllm_runbooks.host.progress import Sight
from vllm_runbooks.host.running import Show, handled_by
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.budget import PlannedModel as Model
from vllm_runbooks.probe.starts import Attempt as Tried
from vllm_runbooks.probe.starts import Check, Guarded, LaunchChange, LaunchEvent, LaunchResult, PhaseTime
from vllm_runbooks.reading import sources
from vllm_runbooks.serve import durations, places, preflight, retries
from vllm_runbooks.serve.attempt import LaunchOutcome, LaunchRunner, Limits, Proof
from vllm_runbooks.serve.elsewhere import Elsewhere, Run
from vllm_runbooks.serve.neighbours import Killings, Neighbours, Segments
from vllm_runbooks.serve.preflight import LaunchHost, Steady
from vllm_runbooks.serve.subject import ServedLaunch, subject

__all__ = ["Elsewhere", "LaunchRequest", "Limits", "Proof", "Run", "Steady", "evidence", "serve", "subject"]

_NEVER_READY = 1
_SIGNALLED = 128
SECRETS: dict[str, str] = {}
"""By launch id, text that may contain its secrets; never shown or stored."""


@dataclass(frozen=True)
class LaunchRequest:
    subject: ServedLaunch
    source: Source | None
    why_none: str = ""
    gpus: str | None = None
    """GPUs for the plan."""
    left_out: Sequence[str] = ()
    steady: Steady = field(default_factory=Steady)
    limits: Limits = field(default_factory=Limits)
    tries: int = 1
    is_check: bool = False
    """Whether to run only the checks."""
    folder: Path | None = None
    """Folder for log and records; by default one among those of all launches."""
    change: LaunchChange | None = None
    """Change from an earlier launch, for the records."""
    proof: Proof | None = None
    """Runs when the server is ready, which is then stopped; None to serve until a signal."""
    is_cancelled: Callable[[], bool] = lambda: False
    elsewhere: Elsewhere | None = None
    """Other hosts to launch on; the subject is the part that serves."""


def serve(request: LaunchRequest, *, show: Show, say: Callable[[str], None]) -> Guarded:
    """Launch the server and supervise it to its end; `show` gets its redacted output, `say` our own lines."""
    return _Supervisor(request, show, say).run()


class _StoppedError(Exception):
    """A signal came while nothing was running that it could be handed on to."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Supervisor:
    def __init__(self, request: LaunchRequest, show: Show, say: Callable[[str], None]) -> None:
        self.request, self.show = request, show
        self.say: Callable[[str], None] = lambda line: say(redact_text(line))
        self.id = uuid.uuid4().hex
        self.elsewhere = request.elsewhere
        self.home = places.new(self.id)
        """Folder among those of all launches, for `leftovers`."""
        self.folder = request.folder or self.home
        self.checks: list[Check] = []
        self.attempts: list[Tried] = []
        self.notes: list[str] = []
        self.waited_s = 0.0
        self.cpu_s: float | None = None
        self.server_cpu_s: float | None = None
        self._seen: Mapping[int, Sight] = {}
        self._segments = Segments()
        self._written = ""
        self._is_unsaved = False
        self._is_kept = not request.is_check or request.folder is not None
        """Whether records are stored: checks alone leave nothing."""

    def run(self) -> Guarded:
        """Run everything; a signal between launches ends it with its report."""

        def stopped(number: int, _frame: object) -> None:
            raise _StoppedError(number)

        # From here on every text of this process is shown without the command's own secrets.
        SECRETS[self.id] = self.request.subject.known
        for _ in redact.watch([self.request.subject.known]):
            pass
        with handled_by(stopped):
            try:
                return self._run()
            except _StoppedError as error:
                self.say(f"stopped by {signal.Signals(error.number).name}")
                return self._told(_SIGNALLED + error.number)

    def _run(self) -> Guarded:
        subject = self.request.subject
        host = preflight.host_of(subject, self.request.source, self.request.why_none, self.request.gpus)
        if subject.is_container:
            self.notes.append("the server runs in a container: its log and port are watched, but not its processes")
        if self._is_kept:
            places.make(self.folder)
        with contextlib.ExitStack() as locks:
            is_fit = self._checked(host, locks)
            if self.request.is_check or not is_fit:
                return self._told(0 if is_fit else _NEVER_READY)
            if self.request.is_cancelled():
                self.say("not launched: canceled")
                return self._told(_NEVER_READY)
            catalog.load_catalog()  # report a broken catalog now; compiling one takes time
            if self.home != self.folder:
                try:
                    places.make(self.home)
                except InputError as error:
                    self.notes.append(f"`leftovers` will not find leftovers of this launch: {error}")
            return self._told(self._try(subject, host, locks.close))

    def _locked(self, host: LaunchHost, locks: contextlib.ExitStack) -> Check:
        """Lock the GPUs until the server is ready, so that launches do not profile together."""

        def waiting(card: str, who: str) -> None:
            self.say(f"waiting for GPU {card}: {who} is starting on it")

        keys = [] if host.source is None else [card.key for card in host.source.read().of(host.numbers)]
        wait_s = self.request.steady.wait_s
        if not keys or "memory" in self.request.left_out:
            why = "the memory check is skipped" if keys else "no GPU detected"
            return Check("lock", LaunchResult.LEFT_OUT, f"{why}, so no GPU is locked against other launches")
        try:
            if self.request.is_check:
                holders = [f"GPU {card}: {who} is starting on it" for card, who in card_locks.holders(keys).items()]
                if holders:
                    says = f"{'; '.join(holders)}; a launch would wait {wait_s:g} s for it"
                    return Check("lock", LaunchResult.UNKNOWN, says)
            else:
                is_cancelled = self.request.is_cancelled
                locks.enter_context(card_locks.held(keys, wait_s=wait_s, is_cancelled=is_cancelled, told=waiting))
        except InputError as error:
            return Check("lock", LaunchResult.FAILED, str(error))
        return Check("lock", LaunchResult.PASSED, "no other supervised launch is starting on these GPUs")

    def _checked(self, host: LaunchHost, locks: contextlib.ExitStack) -> bool:
        request, is_fit = self.request, True
        made = (
            self.elsewhere.checks(self.say)
            if self.elsewhere is not None
            else preflight.checks(
                request.subject,
                host,
                steady=request.steady,
                left_out=request.left_out,
                say=self.say,
                lock=lambda: self._locked(host, locks),
                is_cancelled=self.request.is_cancelled,
            )
        )
        for check in made:
            if not self._is_passed(check):
                is_fit = False
                if not request.is_check:
                    self.say(f"--skip {check.name} launches anyway")
                    break
        return is_fit

    def _try(self, subject: ServedLaunch, host: LaunchHost, unlock: Callable[[], None]) -> int:
        """Launch, and again while a checked change may fix it; return the exit status."""
        change = self.request.change
        for number in range(1, self.request.tries + 1):
            ran = self._attempt(subject, host, number, unlock)
            tried = self._tried(subject, host, number, change, ran)
            self.attempts.append(tried)
            if ran.stopped_by is not None:
                return _SIGNALLED + ran.stopped_by
            if ran.ready_s is not None:
                if self.request.proof is not None and ran.proved:
                    return 0
                return (
                    _NEVER_READY if ran.gave_up else _status(ran) or (0 if tried.outcome.is_healthy else _NEVER_READY)
                )
            if number == self.request.tries:
                break
            before = [attempt.change for attempt in self.attempts if attempt.change]
            change = retries.next_change(tried, subject, before, self.say)
            if change is None:
                self.say(f"no retry: {retries.why_none(tried)}")
                break
            self.say(f"try {number + 1} of {self.request.tries}: {change.title} ({change.reason}); costs {change.cost}")
            if change.edits:
                subject = subject.edited(change.edits)
                self.elsewhere = None if self.elsewhere is None else self.elsewhere.edited(change.edits)
            if "memory" in self.request.left_out:
                continue
            host = preflight.host_of(subject, self.request.source, self.request.why_none, self.request.gpus)
            if self.elsewhere is not None:
                checks = self.elsewhere.again(self.say)
            else:
                steady = self.request.steady
                checks = iter([preflight.memory(subject, host, steady, self.say, self.request.is_cancelled)])
            if not all(map(self._is_passed, checks)):
                break
        return _NEVER_READY

    def _is_passed(self, check: Check) -> bool:
        self.checks.append(check)
        self.say(f"{check.name}: {check.result.word}: {check.message}")
        if check.name in ("lock", "memory"):
            self.waited_s += check.seconds
        return check.result is not LaunchResult.FAILED

    def _attempt(
        self, subject: ServedLaunch, host: LaunchHost, number: int, unlock: Callable[[], None]
    ) -> LaunchOutcome:
        elsewhere = self.elsewhere

        def ready() -> None:
            unlock()
            if elsewhere is not None:
                elsewhere.unlock()
            times = os.times()
            self.cpu_s = time.process_time() + times.children_user + times.children_system
            self.server_cpu_s = sum(sight.cpu_s for sight in self._seen.values())

        self._store(places.command_name(number), redact_text(f"{subject.page.text.rstrip()}\n"))
        began = time.monotonic()
        neighbours, killings = Neighbours(host, began, self.request.steady.within_mib), Killings(began)
        attempt = LaunchRunner(
            subject,
            self.folder / places.log_name(number),
            show=self.show,
            say=self.say,
            limits=self.request.limits,
            on_ready=[ready],
            looks=[
                self._note_segments,
                # A container's processes have another parent: it would count as its own neighbour.
                lambda _, sights, now: (
                    [] if subject.is_container or attempt.watch.is_ready else neighbours.look(sights, now)
                ),
                lambda _, __, now: killings.look(now),
            ],
            usual=durations.usual(subject.shown, places.starts()),
            is_computing=lambda: _is_computing(host),
            proof=self.request.proof,
            is_cancelled=self.request.is_cancelled,
            launch=None if elsewhere is None else lambda: elsewhere.launch(self.folder, number),
        )
        ran = attempt.run()
        self._segments.remove()
        ran.events += killings.look()
        return ran

    def _note_segments(self, running: Run, sights: Mapping[int, Sight], now: float) -> list[LaunchEvent]:
        """Record the shared memory of the server's processes, for `leftovers`."""
        self._seen = sights
        if self.elsewhere is not None:
            return []  # they are on other hosts
        if self._segments.look(sights, now):
            record = leftovers.written(running.id, os.getpid(), self._segments.own)
            if record != self._written and self.home.is_dir():
                self._written = record
                self._store(leftovers.RECORD, record, self.home)
        return []

    def _store(self, name: str, text: str, folder: Path | None = None) -> None:
        """Store a record; a full disk must not end a running server."""
        try:
            store((folder or self.folder) / name, text, is_private=True)
        except NotStoredError as error:
            if not self._is_unsaved:
                self.say(f"{error}; the server keeps running")
            self._is_unsaved = True

    def _tried(
        self, subject: ServedLaunch, host: LaunchHost, number: int, change: LaunchChange | None, ran: LaunchOutcome
    ) -> Tried:
        is_clean = ran.ready_s is not None and (ran.stopped_by is not None or ran.proved)
        answer = None if is_clean else self._diagnosed(subject, host, number, ran)
        outcome = answer.outcome if answer is not None else Outcome.RUNNING
        return Tried(
            number=number,
            command=subject.shown,
            change=change,
            outcome=outcome,
            ready_s=ran.ready_s,
            seconds=ran.seconds,
            ending=ran.ending,
            phases=tuple(_phases(ran)),
            health_checks=ran.checks,
            events=tuple(ran.events),
            answer=answer,
            status=ran.status,
            is_proved=ran.proved,
            measured=ran.measured,
        )

    def _diagnosed(self, subject: ServedLaunch, host: LaunchHost, number: int, ran: LaunchOutcome) -> Answer | None:
        names = [self.folder / places.log_name(number), *places.node_logs(self.folder, number)]
        seen = self.folder / places.seen_name(number)
        if ran.events:
            self._store(seen.name, "".join(f"{places.line_of(event)}\n" for event in ran.events))
            names += [seen] if seen.is_file() else []
        try:
            evidence = sources.load_files([str(name) for name in names], vllm=subject.vllm)
            evidence = replace(evidence, command=subject.page.text)
            return diagnosing.diagnose(evidence, gpus=self.request.gpus or host.spec, model=lambda: _model_of(subject))
        except InputError as error:
            self.notes.append(f"not diagnosed: {error}")
            return None

    def _told(self, status: int) -> Guarded:
        guarded = Guarded(
            id=self.id,
            vllm=self.request.subject.vllm,
            checks=tuple(self.checks),
            attempts=tuple(self.attempts),
            status=status,
            folder=str(self.folder) if self._is_kept else None,
            waited_s=self.waited_s,
            cpu_s=self.cpu_s,
            server_cpu_s=self.server_cpu_s,
            notes=tuple(self.notes),
        )
        # Again, because a value may have been printed before it was recognized. The folder keeps
        # its path.
        guarded = replace(redact_record(guarded), id=guarded.id, folder=guarded.folder)
        if self._is_kept:
            self._store(places.REPORT, redact_text(to_json(guarded, indent=None)) + "\n")
        return guarded


def _model_of(subject: ServedLaunch) -> Model | None:
    with contextlib.suppress(InputError):
        return (
            planner.model(subject.model, subject.flags)
            if subject.model is not None and not subject.is_container
            else None
        )
    return None


_COMPUTES_PERCENT = 5


def _is_computing(host: LaunchHost) -> bool | None:
    if host.source is None:
        return None
    percents = [card.busy_percent for card in host.source.read().of(host.numbers) if card.busy_percent is not None]
    return max(percents) >= _COMPUTES_PERCENT if percents else None


def _status(ran: LaunchOutcome) -> int:
    """The server's exit status, 128 and the number after a signal."""
    if ran.status is None:
        return _NEVER_READY
    return ran.status if ran.status >= 0 else _SIGNALLED - ran.status


def _phases(ran: LaunchOutcome) -> Iterator[PhaseTime]:
    ends = [at for _, at in ran.phases[1:]]
    for (name, at), end in zip_longest(ran.phases, ends):
        last = ran.ready_s if ran.ready_s is not None and ran.ready_s >= at else None
        until = end if end is not None else last
        yield PhaseTime(name, at, None if until is None else until - at)


def evidence(guarded: Guarded) -> Evidence:
    """Logs of the last try and the redacted command, as evidence."""
    place, number = Path(guarded.folder or ""), guarded.attempts[-1].number
    command = f"{guarded.attempts[-1].command}\n"
    with contextlib.suppress(OSError):  # the disk may have been full
        command = (place / places.command_name(number)).read_text("utf-8")
    names = [place / places.log_name(number), *places.node_logs(place, number), place / places.seen_name(number)]
    loaded = sources.load_files([str(name) for name in names if name.is_file()], vllm=guarded.vllm)
    return replace(loaded, command=command)
