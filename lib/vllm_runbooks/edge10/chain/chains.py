"""The chain on open parts: quantise a model, serve it next to the float one, evaluate both, compare the scores.

    parts ── quantise ── serve float and quantised ── evaluate float ── evaluate quantised ── judge

Invalid input is rejected before anything is started. After that each link records its result, nothing is raised, and
the files stay where the record says.
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
from vllm_runbooks.edge10.accuracy.records import AccuracyComparison
from vllm_runbooks.edge10.chain import evaluating, limited, open_parts, quantising
from vllm_runbooks.edge10.chain.evaluating import Questions, RequestLimits
from vllm_runbooks.edge10.chain.limited import RunContext, RunLimits
from vllm_runbooks.edge10.chain.quantising import QuantisingPlan
from vllm_runbooks.edge10.chain.records import ChainLink, Evaluated, OpenChain, OpenParts, Quantised
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.host import ports
from vllm_runbooks.host.running import handled_by
from vllm_runbooks.probe.starts import Guarded, LaunchResult
from vllm_runbooks.runbooks import steps
from vllm_runbooks.runbooks.live import fleets, starting
from vllm_runbooks.runbooks.live.side_by_side import Servers
from vllm_runbooks.runbooks.live.starting import READY_S, Say
from vllm_runbooks.serve import guard as serve
from vllm_runbooks.serve import places
from vllm_runbooks.serve.subject import ServedLaunch

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
    subject = starting.subject(command, vllm)
    gpu_memory = starting.cards_of(memory)
    if gpus.strip():
        host_loading.cards(gpus)  # reject them now, not after hours of quantising
    limits = _ChainLimits(quantise_within_s, ready_within_s, evaluate_within_s, memory_gib)
    limits.check()
    accuracy.check(threshold, confidence)
    requests = RequestLimits(answer_tokens, at_once)
    requests.check()
    plan = _ChainPlan(
        subject=subject,
        model=_float_model(subject),
        source=_quantised_model(quantised) if quantised.strip() else _plan(method, calibration, samples, tokens),
        questions=evaluating.questions_in(Path(questions).expanduser()),
        requests=requests,
        places=_placement(subject, gpu_memory, side_by_side=side_by_side),
        side_by_side=side_by_side,
        threshold=threshold,
        confidence=confidence,
        gpu_memory=gpu_memory,
        gpus=gpus,
        limits=limits,
    )
    parts = open_parts.find(python, subject.python, subject.environment)
    request = (plan.source, plan.questions, requests, side_by_side, threshold, confidence, gpus, parts)
    return steps.do(
        step,
        lambda: _ChainRun(plan, parts, step, folder, lambda line: say(redact_text(line))).run(),
        OpenChain,
        asked=(subject.argv, subject.vllm, *request),
        is_done=lambda result: result.accuracy is not None,
        timeout_s=limits.total_s,
    )


def _quantised_model(quantised: str) -> Path:
    folder = Path(quantised).expanduser().absolute()
    if lacks := quantising.lacking(folder):
        raise InputError(lacks[0])
    return folder


def _plan(method: str, calibration: str, samples: int, tokens: int) -> QuantisingPlan:
    if not calibration.strip():
        raise InputError(
            "calibration: is empty; name a file of texts, one a line, or give `quantised` where the model is quantised"
        )
    plan = QuantisingPlan(method, Path(calibration).expanduser().absolute(), samples, tokens)
    plan.check()
    return plan


def _float_model(subject: ServedLaunch) -> Path:
    if subject.is_container:
        raise InputError(f"{subject.shown}: a container's model is not changed; give the command that runs in one")
    starting.check_load(subject)
    if subject.target.is_tls:
        raise InputError(f"{subject.shown}: EvalScope speaks to it without TLS; leave --ssl-* away for this")
    obstacle = ports.taken(subject.target.host, subject.target.port)
    if obstacle is not None and not obstacle.is_in_use:
        place = subject.target.place
        raise InputError(f"{subject.shown}: {place}: {obstacle.why}; give --host and --port of this host")
    if subject.flags.get("quantization"):
        raise InputError(
            f"{subject.shown}: is to serve the float model, so leave --quantization away; of the quantised one its "
            "configuration tells vLLM"
        )
    if subject.model is None:
        raise InputError(f"{subject.shown}: names no model; give the folder of one")
    model = Path(subject.model).expanduser().absolute()
    quantising.check_model(model)
    return model


def _placement(
    subject: ServedLaunch, gpu_memory: starting.GpuReadings, *, side_by_side: bool
) -> tuple[tuple[Edit, ...], tuple[Edit, ...]]:
    """Edits that give each server its part of the host."""
    if not side_by_side:
        return (), ()
    try:
        first, second = fleets.placed(subject, gpu_memory, 2)
    except InputError as error:
        raise InputError(f"{error}; or have one serve after the other (side_by_side=False)") from None
    return first, second


@dataclass(frozen=True)
class _ChainLimits:
    """Time and memory of the links."""

    quantise_within_s: float
    ready_within_s: float
    evaluate_within_s: float
    memory_gib: float | None
    """Of quantising, and of each evaluation; None for nearly all that is free then."""

    def check(self) -> None:
        """Validate the limits.

        Raises:
            InputError: One is no number above 0.
        """
        for limit in fields(self):
            number = getattr(self, limit.name)
            is_default = number is None and limit.name == "memory_gib"
            if not is_default and (type(number) not in (int, float) or not 0 < number < math.inf):
                raise InputError(f"{limit.name} is {number!r}; give a number above 0")

    @property
    def total_s(self) -> float:
        """The longest time of all links, with one server after the other."""
        return self.quantise_within_s + 2 * (self.ready_within_s + self.evaluate_within_s) + starting.AROUND_S

    def of(self, seconds: float) -> RunLimits:
        """The limits of a program that starts now."""
        return RunLimits(seconds, limited.free_memory_gib() if self.memory_gib is None else self.memory_gib)


@dataclass(frozen=True)
class _ChainPlan:
    """A validated request."""

    subject: ServedLaunch
    model: Path
    source: QuantisingPlan | Path
    """How to quantise the model; or the folder of one that is quantised."""
    questions: Questions
    requests: RequestLimits
    places: tuple[tuple[Edit, ...], tuple[Edit, ...]]
    side_by_side: bool
    threshold: float
    confidence: float
    gpu_memory: starting.GpuReadings
    gpus: str
    limits: _ChainLimits


@dataclass
class _ChainRun:
    """A chain in progress."""

    plan: _ChainPlan
    parts: OpenParts
    step: str
    folder: str
    say: Say
    links: list[ChainLink] = field(default_factory=list)
    servers: dict[str, Guarded] = field(default_factory=dict)
    quantised: Quantised | None = None
    stopped_by: str | None = None
    evaluated: list[Evaluated] = field(default_factory=list)
    accuracy: AccuracyComparison | None = None

    def run(self) -> OpenChain:
        """Run all links, or as many as possible; a signal ends it with its record."""

        def stop(number: int, _frame: object) -> None:
            self.stopped_by = self.stopped_by or signal.Signals(number).name

        quantises = [open_parts.QUANTISES] if isinstance(self.plan.source, QuantisingPlan) else []
        needs = open_parts.missing(self.parts, [*quantises, open_parts.EVALUATES])
        if needs:
            self._add(ChainLink("parts", LaunchResult.LEFT_OUT, open_parts.how(self.parts, needs)))
            return self._record(None, needs=needs)
        place = starting.place_of(self.step, self.folder)
        places.make(place)
        versions = [f"{name} {version}" for name, version in self.parts.versions.items() if version is not None]
        self._add(ChainLink("parts", LaunchResult.PASSED, f"{', '.join(versions)} in {self.parts.python}"))
        with handled_by(stop):
            for action in (self._quantise, self._serve, self._judge):
                if self._is_going_well:
                    action(place)
        starting.keep_commands(place, list(self.servers.values()), [], self.say)
        return self._record(place)

    @property
    def _is_going_well(self) -> bool:
        return self.stopped_by is None and all(link.result is LaunchResult.PASSED for link in self.links)

    def _is_stopped(self) -> bool:
        return self.stopped_by is not None

    def _context(self, subject: ServedLaunch) -> RunContext:
        return RunContext(subject.environment, subject.known, self.say, self._is_stopped)

    def _add(self, link: ChainLink) -> None:
        self.links.append(link)
        if link.program is not None and link.program.stopped_by is not None:
            self.stopped_by = self.stopped_by or link.program.stopped_by
        seconds = "" if link.seconds is None else f" ({link.seconds:.0f} s)"
        self.say(f"{link.name}: {link.result.value}: {link.message}{seconds}")

    def _quantise(self, place: Path) -> None:
        plan, source = self.plan, self.plan.source
        if isinstance(source, Path):
            self.quantised = quantising.described(plan.model, source)
            text = f"{source}: was quantised before"
            self._add(ChainLink("quantise", LaunchResult.PASSED, text, files=(str(source),)))
            return
        limits = plan.limits.of(plan.limits.quantise_within_s)
        context = self._context(plan.subject)
        link, self.quantised = quantising.quantise(
            self.parts, source, plan.model, place=place, limits=limits, context=context
        )
        self._add(link)

    def _serve(self, place: Path) -> None:
        """Serve both, together or one after the other, and evaluate each while it runs."""
        catalog.load_catalog()  # once, before two threads need it
        first, second = self._subjects()
        groups = [{_FLOAT: first}, {_QUANTISED: second}]
        for group in [groups[0] | groups[1]] if self.plan.side_by_side else groups:
            if self._is_going_well:
                self._serve_group(group, place)

    def _subjects(self) -> tuple[ServedLaunch, ServedLaunch]:
        subject, places = self.plan.subject, self.plan.places
        host, port = subject.target.host, subject.target.port
        first = port if ports.taken(host, port) is None else ports.free(host)
        second = ports.free(host)
        while second == first:
            second = ports.free(host)
        model = self.quantised.folder if self.quantised is not None else ""
        edits = [*([Edit("set", "port", first)] if first != port else []), *places[0]]
        other = subject.edited([Edit("set", "model", model), Edit("set", "port", second), *places[1]])
        return subject.edited(edits) if edits else subject, other

    def _serve_group(self, subjects: Mapping[str, ServedLaunch], place: Path) -> None:
        plan, began = self.plan, time.monotonic()
        servers = Servers(
            {
                name: serve.LaunchRequest(
                    subject=subject,
                    source=plan.gpu_memory.source,
                    why_none=plan.gpu_memory.why_none,
                    gpus=plan.gpus or None,
                    limits=serve.Limits(ready_s=plan.limits.ready_within_s),
                    folder=place / f"serve-{name}",
                )
                for name, subject in subjects.items()
            }
        )
        links: list[ChainLink] = []
        ready_s: float | None = None
        try:
            try:
                if servers.wait(self.say, is_stopped=self._is_stopped) and not self._is_stopped():
                    ready_s = time.monotonic() - began
                    links = self._evaluate(subjects, servers, place)
            finally:
                launches = servers.end(self.say)
        except InputError as error:
            self._add(ChainLink("serve", LaunchResult.FAILED, f"{error}"))
            return
        for name, launch in zip(subjects, launches, strict=True):
            self.servers[name] = launch
            starting.record(launch, self.say)
        for link in (_serve_link(launches, list(subjects), ready_s, self.stopped_by), *links):
            self._add(link)

    def _evaluate(self, subjects: Mapping[str, ServedLaunch], servers: Servers, place: Path) -> list[ChainLink]:
        links: list[ChainLink] = []

        def is_cancelled() -> bool:
            servers.tell(self.say)
            return servers.is_gone or self._is_stopped()

        for name, subject in subjects.items():
            link = evaluating.evaluate(
                self.parts,
                subject,
                name,
                self.plan.questions,
                self.plan.requests,
                place=place,
                limits=self.plan.limits.of(self.plan.limits.evaluate_within_s),
                context=replace(self._context(subject), is_cancelled=is_cancelled),
                is_gone=lambda: servers.is_gone,
            )
            links.append(link)
            if link.result is not LaunchResult.PASSED or self.stopped_by is not None:
                break
        return links

    def _judge(self, place: Path) -> None:
        began, read = time.monotonic(), []
        try:
            for name in (_FLOAT, _QUANTISED):
                folder = evaluating.folder_of(place, name)
                read.append(results.read(folder))
                self.evaluated.append(evaluating.evaluated(read[-1], name, self.plan.subject, folder))
            self.accuracy = accuracy.judge(*read, threshold=self.plan.threshold, confidence=self.plan.confidence)
        except InputError as error:
            self._add(ChainLink("judge", LaunchResult.FAILED, f"{error}"))
            return
        text = f"{self.accuracy.verdict.value}: {self.accuracy.reason}"
        self._add(ChainLink("judge", LaunchResult.PASSED, text, time.monotonic() - began))

    def _record(self, place: Path | None, *, needs: tuple[str, ...] = ()) -> OpenChain:
        wrong = next(
            (f"{link.name}: {link.message}" for link in self.links if link.result is not LaunchResult.PASSED), ""
        )
        record = OpenChain(
            model=str(self.plan.model),
            links=tuple(self.links),
            parts=self.parts,
            quantised=self.quantised,
            servers=tuple(self.servers[name] for name in (_FLOAT, _QUANTISED) if name in self.servers),
            evaluated=tuple(self.evaluated),
            accuracy=self.accuracy,
            no_accuracy_reason=wrong if self.stopped_by is None else f"stopped by {self.stopped_by}",
            needs=needs,
            stopped_by=self.stopped_by,
        )
        return replace(redact_record(record), folder=None if place is None else str(place))


def _serve_link(
    launches: Sequence[Guarded], names: Sequence[str], ready_s: float | None, stopped_by: str | None
) -> ChainLink:
    folders = tuple(launch.folder for launch in launches if launch.folder is not None)
    pairs = zip(names, launches, strict=True)
    problems = [f"{name}: {problem}" for name, launch in pairs if (problem := _launch_problem(launch))]
    if not problems and ready_s is not None:
        return ChainLink("serve", LaunchResult.PASSED, f"{' and '.join(names)} ready", ready_s, files=folders)
    text = "; ".join(problems) or f"{' and '.join(names)} not ready: {stopped_by or 'ended before'}"
    return ChainLink("serve", LaunchResult.FAILED, text, ready_s, files=folders)


def _launch_problem(launch: Guarded) -> str:
    attempt = launch.attempts[-1] if launch.attempts else None
    if attempt is None:
        failed = next((check for check in launch.checks if check.result is LaunchResult.FAILED), None)
        return f"not started: {failed.name}: {failed.message}" if failed is not None else "not started"
    cause = attempt.answer.root_cause if attempt.answer is not None else None
    title = f": {cause.title}" if cause is not None else ""
    if attempt.ready_s is None:
        return f"never ready, {attempt.ending}{title}"
    return "" if attempt.is_proved else f"was ready and did not stay, it {attempt.ending}{title}"
