"""Chain of open-source components: quantise a model, serve both versions, compare their scores.

parts ── quantise ── serve float ── evaluate float ── serve quantised ── evaluate quantised ── compare

Invalid input is rejected before the chain starts. After that, each link records its result instead
of raising, and the files stay where the record says.
"""

from __future__ import annotations

import math
import signal
import time
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

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
from vllm_runbooks.edge10.chain.records import ChainLink, OpenChain, OpenParts, Quantised
from vllm_runbooks.host import ports
from vllm_runbooks.host.running import handled_by
from vllm_runbooks.probe.starts import Guarded, LaunchResult
from vllm_runbooks.runbooks import steps
from vllm_runbooks.runbooks.live import starting
from vllm_runbooks.runbooks.live.side_by_side import Servers
from vllm_runbooks.runbooks.live.starting import READY_S, Say
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
    threshold: float = THRESHOLD,
    answer_tokens: int = 16,
    at_once: int = 4,
    step: str = "chain",
    python: str = "",
    vllm: str = "",
    memory_gib: float | None = None,
    folder: str = "",
    quantise_within_s: float = HOUR_S,
    ready_within_s: float = READY_S,
    evaluate_within_s: float = HOUR_S,
    say: Say = print,
) -> OpenChain:
    """Quantise the command's model, serve and evaluate both versions, and compare the scores.

    Args:
        command: Command that serves the float model, as typed; it also serves the quantised
            one.
        questions: Folder with files `NAME_val.csv`: the columns question, A, B, … and answer.
        calibration: Calibration texts, one per line, or `.jsonl` with `text` or `messages`; not
            the questions themselves, which would understate the loss.
        method: "awq" or "gptq"; four-bit weights, in groups of 128.
        samples: Maximum number of calibration texts.
        tokens: Maximum number of tokens per text.
        quantised: Folder of an already quantised model, from any tool.
        threshold: The largest accepted loss, as a share of the questions.
        answer_tokens: Maximum number of tokens per answer.
        at_once: Maximum concurrency.
        step: Name of the step.
        python: The Python with llm-compressor and EvalScope, or its environment's folder; empty
            for the variable RUNBOOKS_OPEN_PARTS, else for the Python of the command's vLLM.
        vllm: Release of vLLM; empty for that of the command's Python.
        memory_gib: Memory for quantising, and for each evaluation; None for nearly all free
            memory.
        folder: Folder of the results; empty for the run's own, or for one among those of all
            launches.
        quantise_within_s: Timeout for quantising.
        ready_within_s: Timeout for a server to become ready.
        evaluate_within_s: Timeout for each evaluation.
        say: Prints a line on the progress.

    Raises:
        InputError: An argument is invalid; nothing was started.
    """
    subject = starting.subject(command, vllm)
    limits = _ChainLimits(quantise_within_s, ready_within_s, evaluate_within_s, memory_gib)
    limits.check()
    accuracy.check(threshold, CONFIDENCE)
    evaluating.check_count("answer_tokens", answer_tokens, 1 << 17)
    evaluating.check_count("at_once", at_once, 1 << 10)
    requests = RequestLimits(answer_tokens, at_once)
    quantised_model = Path(quantised).expanduser().absolute() if quantised.strip() else None
    if quantised_model is not None and (lacks := quantising.lacking(quantised_model)):
        raise InputError(lacks[0])
    run = _ChainRun(
        subject=subject,
        model=_float_model(subject),
        source=quantised_model or quantising.plan(method, calibration, samples, tokens),
        questions=evaluating.questions_in(Path(questions).expanduser()),
        requests=requests,
        threshold=threshold,
        gpu_memory=starting.cards_of(""),
        limits=limits,
        parts=open_parts.find(python, subject.python, subject.environment),
        step=step,
        folder=folder,
        say=lambda line: say(redact_text(line)),
    )
    request = (run.source, run.questions, requests, threshold, run.parts)
    return steps.do(
        step,
        run.run,
        OpenChain,
        asked=(subject.argv, subject.vllm, *request),
        is_done=lambda result: result.accuracy is not None,
        timeout_s=limits.total_s,
    )


def _float_model(subject: ServedLaunch) -> Path:
    if subject.is_container:
        raise InputError(
            f"{subject.shown}: a container's model cannot be changed; use the command that runs in the container"
        )
    starting.check_load(subject)
    if subject.target.is_tls:
        raise InputError(f"{subject.shown}: EvalScope connects without TLS; remove --ssl-*")
    obstacle = ports.taken(subject.target.host, subject.target.port)
    if obstacle is not None and not obstacle.is_in_use:
        place = subject.target.place
        raise InputError(f"{subject.shown}: {place}: {obstacle.why}; use --host and --port of this host")
    if subject.flags.get("quantization"):
        raise InputError(
            f"{subject.shown}: serves the float model, so remove --quantization; for the quantised "
            "model, vLLM reads it from "
            "its configuration"
        )
    if subject.model is None:
        raise InputError(f"{subject.shown}: has no model; use a model folder")
    model = Path(subject.model).expanduser().absolute()
    quantising.check_model(model)
    return model


@dataclass(frozen=True)
class _ChainLimits:
    """Time and memory of the links."""

    quantise_within_s: float
    ready_within_s: float
    evaluate_within_s: float
    memory_gib: float | None
    """Memory for quantising, and for each evaluation; None for nearly all memory that is free
    then."""

    def check(self) -> None:
        """Validate the limits; raises InputError."""
        for limit in fields(self):
            number = getattr(self, limit.name)
            is_default = number is None and limit.name == "memory_gib"
            if not is_default and (type(number) not in (int, float) or not 0 < number < math.inf):
                raise InputError(f"{limit.name} is {number!r}; use a number above 0")

    @property
    def total_s(self) -> float:
        """The longest time of all links."""
        return self.quantise_within_s + 2 * (self.ready_within_s + self.evaluate_within_s) + starting.AROUND_S

    def of(self, seconds: float) -> RunLimits:
        """Limits of a program that starts at this time."""
        return RunLimits(seconds, limited.free_memory_gib() if self.memory_gib is None else self.memory_gib)


@dataclass
class _ChainRun:
    """A chain in progress."""

    subject: ServedLaunch
    model: Path
    source: QuantisingPlan | Path
    """Settings for quantising the model, or the folder of a quantised one."""
    questions: Questions
    requests: RequestLimits
    threshold: float
    gpu_memory: starting.GpuReadings
    limits: _ChainLimits
    parts: OpenParts
    step: str
    folder: str
    say: Say
    links: list[ChainLink] = field(default_factory=list)
    servers: list[Guarded] = field(default_factory=list)
    quantised: Quantised | None = None
    stopped_by: str | None = None
    accuracy: AccuracyComparison | None = None

    def run(self) -> OpenChain:
        """Run all links, or as many as possible; a signal ends it with its record."""

        def stop(number: int, _frame: object) -> None:
            self.stopped_by = self.stopped_by or signal.Signals(number).name

        quantises = [open_parts.QUANTISES] if isinstance(self.source, QuantisingPlan) else []
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
        starting.keep_commands(place, self.servers, [], self.say)
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
        source = self.source
        if isinstance(source, Path):
            self.quantised = quantising.described(self.model, source)
            text = f"{source}: already quantised"
            self._add(ChainLink("quantise", LaunchResult.PASSED, text, files=(str(source),)))
            return
        limits = self.limits.of(self.limits.quantise_within_s)
        context = self._context(self.subject)
        link, self.quantised = quantising.quantise(
            self.parts, source, self.model, place=place, limits=limits, context=context
        )
        self._add(link)

    def _serve(self, place: Path) -> None:
        """Serve one after the other, and evaluate each while it runs."""
        host, port = self.subject.target.host, self.subject.target.port
        model = self.quantised.folder if self.quantised is not None else ""
        for name, edits in ((_FLOAT, []), (_QUANTISED, [Edit("set", "model", model)])):
            if ports.taken(host, port) is not None:
                edits.append(Edit("set", "port", ports.free(host)))
            if self._is_going_well:
                self._serve_model(name, self.subject.edited(edits) if edits else self.subject, place)

    def _serve_model(self, name: str, subject: ServedLaunch, place: Path) -> None:
        began = time.monotonic()
        folder = place / f"serve-{name}"
        server = Servers({name: starting.request(subject, self.gpu_memory, "", self.limits.ready_within_s, folder)})
        evaluation: ChainLink | None = None
        ready_s: float | None = None
        try:
            try:
                if server.wait(self.say, is_stopped=self._is_stopped) and not self._is_stopped():
                    ready_s = time.monotonic() - began
                    evaluation = self._evaluate(name, subject, server, place)
            finally:
                (launch,) = server.end(self.say)
        except InputError as error:
            self._add(ChainLink("serve", LaunchResult.FAILED, f"{error}"))
            return
        self.servers.append(launch)
        starting.record(launch, self.say)
        self._add(_serve_link(name, launch, ready_s, self.stopped_by))
        if evaluation is not None:
            self._add(evaluation)

    def _evaluate(self, name: str, subject: ServedLaunch, server: Servers, place: Path) -> ChainLink:
        def is_cancelled() -> bool:
            server.tell(self.say)
            return server.is_gone or self._is_stopped()

        return evaluating.evaluate(
            self.parts,
            subject,
            name,
            self.questions,
            self.requests,
            place=place,
            limits=self.limits.of(self.limits.evaluate_within_s),
            context=replace(self._context(subject), is_cancelled=is_cancelled),
            is_gone=lambda: server.is_gone,
        )

    def _judge(self, place: Path) -> None:
        began = time.monotonic()
        try:
            first, second = (results.read(evaluating.folder_of(place, name)) for name in (_FLOAT, _QUANTISED))
            self.accuracy = accuracy.compare(first, second, threshold=self.threshold)
        except InputError as error:
            self._add(ChainLink("compare", LaunchResult.FAILED, f"{error}"))
            return
        text = f"{self.accuracy.verdict.value}: {self.accuracy.reason}"
        self._add(ChainLink("compare", LaunchResult.PASSED, text, time.monotonic() - began))

    def _record(self, place: Path | None, *, needs: tuple[str, ...] = ()) -> OpenChain:
        wrong = next(
            (f"{link.name}: {link.message}" for link in self.links if link.result is not LaunchResult.PASSED), ""
        )
        record = OpenChain(
            model=str(self.model),
            links=tuple(self.links),
            parts=self.parts,
            quantised=self.quantised,
            servers=tuple(self.servers),
            accuracy=self.accuracy,
            no_accuracy_reason=wrong if self.stopped_by is None else f"stopped by {self.stopped_by}",
            needs=needs,
            stopped_by=self.stopped_by,
        )
        return replace(redact_record(record), folder=None if place is None else str(place))


def _serve_link(name: str, launch: Guarded, ready_s: float | None, stopped_by: str | None) -> ChainLink:
    folders = () if launch.folder is None else (launch.folder,)
    if problem := _launch_problem(launch):
        return ChainLink("serve", LaunchResult.FAILED, f"{name}: {problem}", ready_s, files=folders)
    if ready_s is None:
        text = f"{name} not ready: {stopped_by or 'ended first'}"
        return ChainLink("serve", LaunchResult.FAILED, text, files=folders)
    return ChainLink("serve", LaunchResult.PASSED, f"{name} ready", ready_s, files=folders)


def _launch_problem(launch: Guarded) -> str:
    attempt = launch.last
    if attempt is None:
        return launch.failed_check or "not started"
    cause = attempt.answer.root_cause if attempt.answer is not None else None
    title = f": {cause.title}" if cause is not None else ""
    if attempt.ready_s is None:
        return f"never ready, {attempt.ending}{title}"
    return "" if attempt.is_proved else f"was ready, but then {attempt.ending}{title}"
