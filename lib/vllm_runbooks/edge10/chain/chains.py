"""The chain on open parts: quantise a model, serve it beside the float one, evaluate both, judge what was lost.

    parts ── quantise ── serve float and quantised ── evaluate float ── evaluate quantised ── judge

What cannot be is known before anything is started. From then on each link says what came of it: nothing is raised, and
what was written stays where the record says.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Edit
from vllm_runbooks.core.redaction.redact import redact_record, redact_text
from vllm_runbooks.edge10.accuracy import comparing as accuracy
from vllm_runbooks.edge10.accuracy import results
from vllm_runbooks.edge10.accuracy.comparing import CONFIDENCE, THRESHOLD
from vllm_runbooks.edge10.accuracy.records import JudgedAccuracy
from vllm_runbooks.edge10.chain import evaluating, limited, open_parts, quantising
from vllm_runbooks.edge10.chain.evaluating import Asking, Questions
from vllm_runbooks.edge10.chain.limited import Bounds
from vllm_runbooks.edge10.chain.quantising import Wanted
from vllm_runbooks.edge10.chain.records import Evaluated, Link, OpenChain, OpenParts, Quantised
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.host import ports
from vllm_runbooks.host.running import handled_by
from vllm_runbooks.probe.starts import Guarded, Result
from vllm_runbooks.runbooks import steps
from vllm_runbooks.runbooks.live import fleets, starting
from vllm_runbooks.runbooks.live.side_by_side import Servers
from vllm_runbooks.runbooks.live.starting import READY_S, Say
from vllm_runbooks.serve import guard as serve
from vllm_runbooks.serve import places
from vllm_runbooks.serve.subject import Subject

HOUR_S = 3600.0
_FLOAT, _QUANTISED = "float", "quantised"


def chain(
    command: str,
    questions: str,
    calibration: str = "",
    *,
    method: str = "awq",
    samples: int = 128,
    tokens: int = 512,
    quantised: str = "",
    side_by_side: bool = True,
    threshold: float = THRESHOLD,
    confidence: float = CONFIDENCE,
    answer_tokens: int = 16,
    at_once: int = 4,
    step: str = "chain",
    python: str = "",
    gpus: str = "",
    vllm: str = "",
    memory: str = "",
    memory_gib: float | None = None,
    folder: str = "",
    quantise_within_s: float = HOUR_S,
    ready_within_s: float = READY_S,
    evaluate_within_s: float = HOUR_S,
    say: Say = print,
) -> OpenChain:
    """Quantise the command's model, serve both, have EvalScope ask both the same questions, and judge what was lost.

    Args:
        command: That serves the float model, as one would type it; the quantised one is served by the same command.
        questions: Folder with files `NAME_val.csv`: the columns question, A, B, … and answer.
        calibration: File of texts to quantise with, one a line, or `.jsonl` with `text` or `messages`; not the
            questions themselves, which would make the loss look smaller.
        method: "awq" or "gptq"; four bits for weights, in groups of 128.
        samples: Texts that are taken of it, at most.
        tokens: Of each of them, at most.
        quantised: Folder of a model that is quantised already, as by another tool; none is made then.
        side_by_side: Whether both serve at once, each on cards or cores of its own; else one after the other, for a
            host that has not room for two.
        threshold: Share of the questions that may be lost.
        confidence: Of the interval.
        answer_tokens: Tokens of an answer, at most.
        at_once: Questions in flight.
        step: Name of the step.
        python: The Python with llm-compressor and EvalScope, or its environment's folder; empty: that of the variable
            RUNBOOKS_OPEN_PARTS, else that of the command's vLLM.
        gpus: The cards of one server, for its plan; empty are those of this host.
        vllm: Its release; empty is the one that its Python has.
        memory: A recorded series of GPU memory in place of the driver's readings.
        memory_gib: That quantising, and each evaluation, may take; None: nearly all that is free then.
        folder: Where all of it goes; empty is the run's own folder, or one among those of all starts.
        quantise_within_s: Time for quantising.
        ready_within_s: Time for a server to be ready in.
        evaluate_within_s: Time for each evaluation.
        say: Says a line of how far it is.

    Raises:
        InputError: something that was given cannot be used; nothing has been started then.
    """
    one = starting.subject(command, vllm)
    cards = starting.cards_of(memory)
    if gpus.strip():
        host_loading.cards(gpus)  # the guards, which read them again, start when hours have gone into quantising
    limits = _Limits(quantise_within_s, ready_within_s, evaluate_within_s, memory_gib)
    limits.check()
    accuracy.check(threshold, confidence)
    asking = Asking(answer_tokens, at_once)
    asking.check()
    plan = _Plan(
        one=one,
        model=_model(one),
        source=_given(quantised) if quantised.strip() else _wanted(method, calibration, samples, tokens),
        questions=evaluating.questions_in(Path(questions).expanduser()),
        asking=asking,
        places=_placed(one, cards, side_by_side=side_by_side),
        side_by_side=side_by_side,
        threshold=threshold,
        confidence=confidence,
        cards=cards,
        gpus=gpus,
        limits=limits,
    )
    parts = open_parts.find(python, one.python, one.environment)
    asked = (plan.source, plan.questions, asking, side_by_side, threshold, confidence, gpus, parts)
    return steps.do(
        step,
        lambda: _Chain(plan, parts, step, folder, lambda line: say(redact_text(line))).run(),
        OpenChain,
        asked=(one.argv, one.vllm, *asked),
        is_done=lambda found: found.accuracy is not None,
        timeout_s=limits.whole_s,
    )


def _given(quantised: str) -> Path:
    """The folder of a model that is quantised already.

    Raises:
        InputError: it holds none that is whole.
    """
    folder = Path(quantised).expanduser().absolute()
    if lacks := quantising.lacking(folder):
        raise InputError(lacks[0])
    return folder


def _wanted(method: str, calibration: str, samples: int, tokens: int) -> Wanted:
    """How the model is to be quantised.

    Raises:
        InputError: it cannot be in this way.
    """
    if not calibration.strip():
        raise InputError(
            "calibration: is empty; name a file of texts, one a line, or give `quantised` where the model is quantised"
        )
    wanted = Wanted(method, Path(calibration).expanduser().absolute(), samples, tokens)
    wanted.check()
    return wanted


def _model(one: Subject) -> Path:
    """The folder of the float model that a command serves.

    Raises:
        InputError: it has none, or its server cannot be evaluated.
    """
    if one.is_container:
        raise InputError(f"{one.shown}: a container's model is not changed; give the command that runs in one")
    starting.check_load(one)
    if one.target.is_tls:
        raise InputError(f"{one.shown}: EvalScope speaks to it without TLS; leave --ssl-* away for this")
    refused = ports.taken(one.target.host, one.target.port)
    if refused is not None and not refused.is_in_use:
        raise InputError(f"{one.shown}: {one.target.place}: {refused.why}; give --host and --port of this host")
    if one.flags.get("quantization"):
        raise InputError(
            f"{one.shown}: is to serve the float model, so leave --quantization away; of the quantised one its "
            "configuration tells vLLM"
        )
    if one.model is None:
        raise InputError(f"{one.shown}: names no model; give the folder of one")
    model = Path(one.model).expanduser().absolute()
    quantising.check_model(model)
    return model


def _placed(one: Subject, cards: starting.Cards, *, side_by_side: bool) -> tuple[tuple[Edit, ...], ...]:
    """What gives each server its part of the host.

    Raises:
        InputError: there is too little of it.
    """
    if not side_by_side:
        return ((), ())
    try:
        first, second = fleets.placed(one, cards, 2)
    except InputError as error:
        raise InputError(f"{error}; or have one serve after the other (side_by_side=False)") from None
    return first, second


@dataclass(frozen=True)
class _Limits:
    """What each link may take."""

    quantise_within_s: float
    ready_within_s: float
    evaluate_within_s: float
    memory_gib: float | None
    """Of quantising, and of each evaluation; None: nearly all that is free then."""

    def check(self) -> None:
        """Refuse limits within which nothing can be done.

        Raises:
            InputError: one is no number above 0.
        """
        for each in fields(self):
            number = getattr(self, each.name)
            is_open = number is None and each.name == "memory_gib"
            if not is_open and (type(number) not in (int, float) or not 0 < number < math.inf):
                raise InputError(f"{each.name} is {number!r}; give a number above 0")

    @property
    def whole_s(self) -> float:
        """The longest that all of it may take, one server after the other."""
        return self.quantise_within_s + 2 * (self.ready_within_s + self.evaluate_within_s) + starting.AROUND_S

    def of(self, seconds: float) -> Bounds:
        """The bounds of a program that begins now."""
        return Bounds(seconds, limited.room_gib() if self.memory_gib is None else self.memory_gib)


@dataclass(frozen=True)
class _Plan:
    """What is to be done."""

    one: Subject
    model: Path
    source: Wanted | Path
    """How the model is to be quantised; or the folder of one that is."""
    questions: Questions
    asking: Asking
    places: tuple[tuple[Edit, ...], ...]
    side_by_side: bool
    threshold: float
    confidence: float
    cards: starting.Cards
    gpus: str
    limits: _Limits


@dataclass
class _Chain:
    """Does it, and keeps what came of it."""

    plan: _Plan
    parts: OpenParts
    step: str
    folder: str
    say: Say
    links: list[Link] = field(default_factory=list)
    servers: dict[str, Guarded] = field(default_factory=dict)
    quantised: Quantised | None = None
    stopped_by: str | None = None
    evaluated: list[Evaluated] = field(default_factory=list)
    accuracy: JudgedAccuracy | None = None

    def run(self) -> OpenChain:
        """Do it all, or as much as can be; a signal ends it with its record."""

        def stop(number: int, _frame: object) -> None:
            self.stopped_by = self.stopped_by or signal.Signals(number).name

        quantises = [open_parts.QUANTISES] if isinstance(self.plan.source, Wanted) else []
        needs = open_parts.missing(self.parts, [*quantises, open_parts.EVALUATES])
        if needs:
            self._add(Link("parts", Result.LEFT_OUT, open_parts.how(self.parts, needs)))
            return self._told(None, needs=needs)
        place = starting.place_of(self.step, self.folder)
        places.make(place)
        versions = [f"{name} {version}" for name, version in self.parts.versions.items() if version is not None]
        self._add(Link("parts", Result.PASSED, f"{', '.join(versions)} in {self.parts.python}"))
        with handled_by(stop):
            self._quantise(place)
            if self._is_whole:
                self._serve(place)
            if self._is_whole:
                self._judge(place)
        starting.keep_commands(place, list(self.servers.values()), [], self.say)
        return self._told(place)

    @property
    def _is_whole(self) -> bool:
        """Whether all has gone well so far."""
        return self.stopped_by is None and all(each.result is Result.PASSED for each in self.links)

    def _is_stopped(self) -> bool:
        return self.stopped_by is not None

    def _add(self, link: Link) -> None:
        self.links.append(link)
        if link.program is not None and link.program.stopped_by is not None:
            self.stopped_by = self.stopped_by or link.program.stopped_by
        took = "" if link.seconds is None else f" ({link.seconds:.0f} s)"
        self.say(f"{link.name}: {link.result.value}: {link.says}{took}")

    def _quantise(self, place: Path) -> None:
        plan = self.plan
        if isinstance(plan.source, Path):
            self.quantised = quantising.described(plan.model, plan.source)
            says, folder = f"{plan.source}: was quantised before", str(plan.source)
            self._add(Link("quantise", Result.PASSED, says, files=(folder,)))
            return
        link, self.quantised = quantising.quantise(
            self.parts,
            plan.source,
            plan.model,
            place,
            plan.limits.of(plan.limits.quantise_within_s),
            environment=plan.one.environment,
            known=plan.one.known,
            say=self.say,
            is_over=self._is_stopped,
        )
        self._add(link)

    def _serve(self, place: Path) -> None:
        """Serve both, at once or one after the other, and have each evaluated while it is there."""
        catalog.load_catalog()  # once, before two guards at the same time want it
        plan, both = self.plan, (_FLOAT, _QUANTISED)
        subjects = dict(zip(both, self._subjects(), strict=True))
        for names in (both,) if plan.side_by_side else ((_FLOAT,), (_QUANTISED,)):
            if not self._is_whole:
                return
            self._together({name: subjects[name] for name in names}, place)

    def _subjects(self) -> tuple[Subject, Subject]:
        """The commands of both servers, each on a port of its own that is free."""
        plan = self.plan
        host, port = plan.one.target.host, plan.one.target.port
        first = port if ports.taken(host, port) is None else ports.free(host)
        second = ports.free(host)
        while second == first:
            second = ports.free(host)
        out = self.quantised.folder if self.quantised is not None else ""
        moved = [Edit("set", "port", first)] if first != port else []
        edits = [[*moved, *plan.places[0]], [Edit("set", "model", out), Edit("set", "port", second), *plan.places[1]]]
        one, other = (plan.one.edited(each) if each else plan.one for each in edits)
        return one, other

    def _together(self, subjects: Mapping[str, Subject], place: Path) -> None:
        plan, began = self.plan, time.monotonic()
        requests = {
            name: serve.Request(
                subject=one,
                source=plan.cards.source,
                why_none=plan.cards.why_none,
                gpus=plan.gpus or None,
                limits=serve.Limits(ready_s=plan.limits.ready_within_s),
                folder=place / f"serve-{name}",
            )
            for name, one in subjects.items()
        }
        servers = Servers(requests)
        evaluated: list[Link] = []
        ready_s: float | None = None
        try:
            try:
                if servers.wait(self.say, is_stopped=self._is_stopped) and not self._is_stopped():
                    ready_s = time.monotonic() - began
                    evaluated = self._evaluated(subjects, servers, place)
            finally:
                found = servers.end(self.say)
        except InputError as error:
            self._add(Link("serve", Result.FAILED, f"{error}"))
            return
        for name, one in zip(subjects, found, strict=True):
            self.servers[name] = one
            starting.record(one, self.say)
        self._add(self._served(found, list(subjects), ready_s))
        for link in evaluated:
            self._add(link)

    def _evaluated(self, subjects: Mapping[str, Subject], servers: Servers, place: Path) -> list[Link]:
        """Ask each of the servers in turn, as long as all goes well."""
        links: list[Link] = []

        def is_over() -> bool:
            servers.tell(self.say)
            return servers.is_gone or self._is_stopped()

        for name, one in subjects.items():
            links.append(
                evaluating.evaluate(
                    self.parts,
                    one,
                    name,
                    questions=self.plan.questions,
                    asking=self.plan.asking,
                    place=place,
                    bounds=self.plan.limits.of(self.plan.limits.evaluate_within_s),
                    say=self.say,
                    is_gone=lambda: servers.is_gone,
                    is_over=is_over,
                )
            )
            if links[-1].result is not Result.PASSED or self.stopped_by is not None:
                break
        return links

    def _served(self, found: Sequence[Guarded], names: Sequence[str], ready_s: float | None) -> Link:
        """What came of the servers."""
        folders = tuple(each.folder for each in found if each.folder is not None)
        bad = [f"{name}: {why}" for name, each in zip(names, found, strict=True) if (why := _why_gone(each))]
        if not bad and ready_s is not None:
            return Link("serve", Result.PASSED, f"{' and '.join(names)} ready", ready_s, files=folders)
        says = "; ".join(bad) or f"{' and '.join(names)} not ready: {self.stopped_by or 'ended before'}"
        return Link("serve", Result.FAILED, says, ready_s, files=folders)

    def _judge(self, place: Path) -> None:
        """Read both reports, and judge what was lost."""
        began, read = time.monotonic(), []
        try:
            for name in (_FLOAT, _QUANTISED):
                folder = evaluating.folder_of(place, name)
                read.append(results.read(folder))
                self.evaluated.append(evaluating.evaluated(read[-1], name, self.plan.one, folder))
            self.accuracy = accuracy.judge(*read, threshold=self.plan.threshold, confidence=self.plan.confidence)
        except InputError as error:
            self._add(Link("judge", Result.FAILED, f"{error}"))
            return
        says = f"{self.accuracy.verdict.value}: {self.accuracy.why}"
        self._add(Link("judge", Result.PASSED, says, time.monotonic() - began))

    def _told(self, place: Path | None, *, needs: tuple[str, ...] = ()) -> OpenChain:
        """The record."""
        why = ""
        wrong = next((each for each in self.links if each.result is not Result.PASSED), None)
        if wrong is not None:
            why = f"{wrong.name}: {wrong.says}"
        if self.stopped_by is not None:
            why = f"stopped by {self.stopped_by}"
        servers = tuple(self.servers[name] for name in (_FLOAT, _QUANTISED) if name in self.servers)
        found = OpenChain(
            model=str(self.plan.model),
            links=tuple(self.links),
            parts=self.parts,
            quantised=self.quantised,
            servers=servers,
            evaluated=tuple(self.evaluated),
            accuracy=self.accuracy,
            why_none=why,
            needs=needs,
            stopped_by=self.stopped_by,
        )
        return replace(redact_record(found), folder=None if place is None else str(place))


def _why_gone(found: Guarded) -> str:
    """Why a server was not ready, or did not stay until it was ended; empty: neither."""
    last = found.attempts[-1] if found.attempts else None
    if last is None:
        failed = next((each for each in found.checks if each.result is Result.FAILED), None)
        return f"not started: {failed.name}: {failed.says}" if failed is not None else "not started"
    cause = last.answer.root_cause if last.answer is not None else None
    told = f": {cause.title}" if cause is not None else ""
    if last.ready_s is None:
        return f"never ready, {last.ending}{told}"
    return "" if last.is_proved else f"was ready and did not stay, it {last.ending}{told}"
