"""Evidence to the whole answer: starts read and diagnosed, remedies with their checks, and the verdict on a case."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from vllm_runbooks import claims, startup_log
from vllm_runbooks.catalog import Catalog
from vllm_runbooks.diagnosis import Diagnosis, diagnose, fill, holds, value_of
from vllm_runbooks.errors import InputError
from vllm_runbooks.printed import number
from vllm_runbooks.records import (
    Answer,
    Case,
    CauseRef,
    Checks,
    Compared,
    Conditions,
    Edit,
    Evidence,
    Facts,
    Finding,
    FindingRef,
    JudgedClaim,
    Judgement,
    Level,
    Outcome,
    Policy,
    Release,
    Remedy,
    RemedyText,
    Role,
    Severity,
    Start,
    StartSummary,
    Verdict,
    document,
)
from vllm_runbooks.redact import redact_name, redact_text

if TYPE_CHECKING:
    from vllm_runbooks.commands import Base, Difference
    from vllm_runbooks.lint import Knowledge
    from vllm_runbooks.planning.actual import Place
    from vllm_runbooks.planning.budget import Budget, Calibrate, Device, Subject
    from vllm_runbooks.specs import Card, Specs

_UNCHECKED = Checks(
    lint="unknown: no command is changed",
    plan="unknown: no command is changed",
    parser="unknown: no vLLM was asked",
)
_SETTINGS = (
    "gpu_memory_utilization", "max_model_len", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
    "executor_backend", "model", "architecture", "quantization",
)  # fmt: skip
"""Facts that the arguments decide: they are the same whenever the same start is tried."""
_TELLING_FIRST = (Outcome.FAILED, Outcome.HUNG, Outcome.RUNNING, Outcome.READY, Outcome.UNKNOWN)
"""What several logs of one start prove together: a log that just ends proves nothing against the others."""
_FROM_THE_FIRST_ERROR = (
    "Start from the first error that no symptom explains, quoted with this notice: the notice only follows from it."
)


def answer(
    evidence: Evidence,
    catalog: Catalog,
    knowledge: Callable[[], Knowledge],
    *,
    start: int | None = None,
    policy: Policy | None = None,
    cards: Sequence[Card] = (),
    specs: Callable[[], Specs] | None = None,
) -> Answer:
    """Diagnose the evidence; `start` chooses one of several starts by its number, from 1 (default: the last).

    Several files are logs of one start (its nodes, its ranks): the last start of each is judged together. `knowledge`
    gives what commands are judged by, and is asked for it only where there is a command; `specs` its part of models and
    cards, where memory is printed. The steps of `policy` stand behind the remedies, or a note says why they do not.
    `cards` are those of the start, where they are known.

    Raises:
        InputError: there is no start of that number.
    """
    asked = _Asked(evidence, catalog, knowledge, policy, tuple(cards), specs)
    return _answer(asked, *read_starts(evidence, catalog, start))


def follow(
    evidence: Evidence,
    catalog: Catalog,
    knowledge: Callable[[], Knowledge],
    *,
    cards: Sequence[Card] = (),
    specs: Callable[[], Specs] | None = None,
) -> Iterator[Answer]:
    """Diagnose a log that is still being written, whenever it pauses, and at its end."""
    for starts in startup_log.follow(evidence, catalog):
        yield _answer(_Asked(evidence, catalog, knowledge, None, tuple(cards), specs), starts, starts[-1:])


class _Asked(NamedTuple):
    """What an answer is asked of."""

    evidence: Evidence
    catalog: Catalog
    knowledge: Callable[[], Knowledge]
    policy: Policy | None = None
    cards: tuple[Card, ...] = ()
    specs: Callable[[], Specs] | None = None


def _answer(asked: _Asked, starts: list[Start], chosen: list[Start]) -> Answer:
    evidence, catalog = asked.evidence, asked.catalog
    diagnosed = {id(s): diagnose(s, catalog) for s in starts}
    outcome = _outcome(chosen)
    merged = _pointed(_merged(outcome, [(s.outcome, _or_as_before(s, starts, diagnosed)) for s in chosen]), catalog)
    facts = _facts([_with_settings(s, starts) for s in chosen])
    left_out = sum(s.left_out for s in starts)
    vllm = next((s.release for s in chosen if s.release.version), _given(evidence))
    ways = _checked_remedies(asked, _Told(chosen, merged.root_cause, facts, _arguments(chosen), vllm.version))
    return Answer(
        files=tuple(redact_name(d.name) for d in evidence.documents),
        outcome=outcome,
        vllm=vllm,
        root_cause=merged.root_cause,
        findings=(*merged.findings, *ways.findings),
        starts=tuple(
            StartSummary(
                s.file,
                s.first_line,
                s.last_line,
                s.outcome,
                diagnosed[id(s)].root_cause,
                s.timeline[-1].name if s.timeline else None,
            )
            for s in starts
        ),
        remedies=(*ways.remedies, *ways.steps),
        plan=ways.plan,
        hidden={**merged.hidden, **({"earlier_start": left_out} if left_out else {})},
        facts=facts,
        ranks=tuple(rank for s in chosen for rank in s.ranks),
        first_error=merged.first_error,
        notes=ways.notes,
    )


class _Told(NamedTuple):
    """What the logs of the start say that the answer is about."""

    starts: Sequence[Start]
    cause: Finding | None
    facts: Facts
    arguments: Mapping[str, Any]
    vllm: str | None


class _Ways(NamedTuple):
    """What there is to do, and what is to be said of it."""

    remedies: tuple[Remedy, ...]
    steps: tuple[Remedy, ...] = ()
    """Those of the policy that was asked for."""
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    plan: Compared | None = None


def _checked_remedies(asked: _Asked, told: _Told) -> _Ways:
    """The remedies as checked edits of the command, and the finding that this is not the command of the log."""
    command = asked.evidence.command
    if command is None:
        ways = _ways(asked, told.cause, told.facts, told.arguments)
        if not any(remedy.edits for remedy in (*ways.remedies, *ways.steps)):
            return ways._replace(plan=_Memory(asked, told).compared)
    from vllm_runbooks.commands import Base  # noqa: PLC0415 - of no use where there is no command

    base = Base(command, told.arguments, told.vllm, asked.knowledge)
    if command is not None:
        ways = _ways(asked, told.cause, told.facts, {**base.flags, **told.arguments})
    memory = _Memory(asked, told, base)
    steps = base.offered(ways.steps)
    titles = {step.title for step in steps}
    refused = (
        f"Left out, since the release refuses its command: {s.title}." for s in ways.steps if s.title not in titles
    )
    differing = _differing(base.differences(), asked.catalog)
    chosen = [base.choice] if base.choice is not None else []
    said = (*chosen, *ways.notes, *refused)
    remedies, left_out = memory.fitting(ways.remedies, is_completed=True)
    steps, steps_left_out = memory.fitting(steps)
    return _Ways(base.offered(remedies), steps, (*said, *left_out, *steps_left_out), differing, memory.compared)


_OF_MEMORY = frozenset({
    "block_size", "compilation_config", "cpu_offload_gb", "cudagraph_capture_sizes", "data_parallel_size", "dtype",
    "enable_expert_parallel", "enable_lora", "enforce_eager", "gpu_memory_utilization", "kv_cache_dtype",
    "kv_cache_memory_bytes", "language_model_only", "limit_mm_per_prompt", "max_loras", "max_lora_rank",
    "max_model_len", "max_num_batched_tokens", "max_num_seqs", "max_seq_len_to_capture", "mm_encoder_tp_mode",
    "mm_processor_kwargs", "num_gpu_blocks_override", "pipeline_parallel_size", "quantization", "skip_mm_profiling",
    "speculative_config", "tensor_parallel_size",
})  # fmt: skip
"""Options that a plan reckons with."""
_DEVICE = re.compile(r"device_name=([A-Za-z0-9_-]{1,80})", re.ASCII)
"""A card's name in the name of a file of tuned kernels (model_executor/layers/fused_moe/fused_moe.py, 0.19.0 :1090)."""
_FREE_BELOW = "mem.free_below_utilization"
"""Symptoms that tell how much of the card was free when the start asked for its share."""
_AFTER_THE_CACHE = frozenset({"capture", "warm_up", "serve"})
_MEMORY_FACTS = ("weights_gib", "kv_cache_gib", "activation_gib", "non_torch_gib", "kv_cache_tokens")


class _Memory:
    """The start's memory as it is planned: what it printed beside it, and whether a changed start fits."""

    def __init__(self, asked: _Asked, told: _Told, base: Base | None = None) -> None:
        self.asked, self.facts, self.starts = asked, told.facts, told.starts
        self.vllm = told.vllm or (base.vllm if base is not None else None)
        self.captures: Mapping[str, str] = told.cause.captures if told.cause is not None else {}
        self.symptom = told.cause.symptom if told.cause is not None else ""
        given = base.flags if base is not None and not told.arguments else {}
        self.arguments: Mapping[str, Any] = told.arguments or given
        environment = base.found.environment if base is not None and base.found is not None else {}
        known = {name: one.value.value for name, one in environment.items()}
        self.environment = {name: value for name, value in known.items() if value is not None}

    @cached_property
    def _specs(self) -> Specs:
        return self.asked.specs() if self.asked.specs is not None else self.asked.knowledge().specs

    @cached_property
    def model(self) -> Subject | str:
        """The model; else what is missing."""
        from vllm_runbooks.planning.budget import subject  # noqa: PLC0415 - of no use where nothing is planned

        name = self.facts.model or self.arguments.get("model") or self.arguments.get("model_tag")
        if not isinstance(name, str) or not name:
            return "the model: the log does not name it; give the command with --command"
        known = self._specs.model(name)
        if known is None or known.id is None:
            return f"the configuration of {redact_name(name)}: it is no model of the catalog"
        file = self._specs.file(known.id)
        return subject(file.id, file.config, is_partial=file.is_partial, source=file.source)

    @cached_property
    def options(self) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """What the start asks for, and what of it cannot be read."""
        from vllm_runbooks.planning import actual  # noqa: PLC0415

        return actual.options_of(self.arguments, self.facts, (r for start in self.starts for r in start.readings))

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Its cards; where they are not given one, of which no more is known than the log prints."""
        from vllm_runbooks.planning import actual  # noqa: PLC0415

        printed = self.facts.gpu_total_gib
        if printed is None:
            printed = number(self.captures.get("total_gib", ""))
        found = [actual.device_of(card, printed) for card in self.asked.cards or (self._named,)]
        return tuple(device or actual.UNKNOWN for device in found)

    @cached_property
    def _named(self) -> Card | None:
        """The card that is given first; else the one that a warning of the start names, as those of mixtures do."""
        from vllm_runbooks.specs import Card  # noqa: PLC0415

        if self.asked.cards:
            return self.asked.cards[0]
        quotes = (warned.quote.text for start in self.starts for warned in start.warnings)
        name = next((match[1] for text in quotes if (match := _DEVICE.search(text))), None)
        try:
            return None if name is None else Card(self._specs.gpu(name))
        except InputError:
            return None

    @cached_property
    def place(self) -> Place:
        """Release, cards and variables of the start."""
        from vllm_runbooks.planning import actual  # noqa: PLC0415

        gpu = self._named.gpu if self._named is not None else None
        return actual.Place(self.vllm or "", self.devices, gpu, self.environment)

    @cached_property
    def planned(self) -> tuple[Subject, Budget] | str:
        """The model and the plan of the start as it was made; else what is missing."""
        if self.vllm is None:
            return "the release: name it with --vllm"
        if isinstance(self.model, str):
            return self.model
        from vllm_runbooks.planning import actual  # noqa: PLC0415

        try:
            model = actual.overridden(self.model, self.options[0])
            return model, self.place.budget(model, self.options[0])
        except _UNREADABLE:
            return "the start's options: one of them has a form that no plan takes"

    @cached_property
    def compared(self) -> Compared | None:
        """What the start printed beside its plan; None: it printed nothing of its memory."""
        if all(getattr(self.facts, name) is None for name in _MEMORY_FACTS):
            return None
        if isinstance(self.planned, str):
            return Compared((), None, (self.planned,))
        from vllm_runbooks.planning import actual  # noqa: PLC0415

        model, budget = self.planned
        whole = replace(
            self.starts[0],
            facts=self.facts,
            ranks=tuple(rank for start in self.starts for rank in start.ranks),
            readings=tuple(reading for start in self.starts for reading in start.readings),
        )
        found = actual.compare(
            whole,
            model,
            budget,
            gpu=self._named.gpu.name if self._named is not None else None,
            source=self._source,
            is_told=bool(self.arguments),
        )
        return replace(found, missing=(*found.missing, *self.options[1]))

    @property
    def _source(self) -> str:
        """What the start's figures are named by."""
        case = self.asked.evidence.case
        names = ", ".join(dict.fromkeys(redact_name(self.asked.evidence.documents[s.file].name) for s in self.starts))
        return f"{f'case {case.id}' if case else names}, start in line {self.starts[0].first_line}"

    @cached_property
    def _calibrate(self) -> Calibrate:
        """What corrects a changed start: what recorded ones printed, and first of all what this one did."""
        from vllm_runbooks.planning import calibration  # noqa: PLC0415

        own = self.compared.residuals if self.compared is not None else ()
        name = self.devices[0].name
        return calibration.calibrator(calibration.shipped().rows, tuple(replace(row, gpu=name) for row in own))

    def fitting(
        self, remedies: Sequence[Remedy], *, is_completed: bool = False
    ) -> tuple[tuple[Remedy, ...], tuple[str, ...]]:
        """The remedies that fit by the plan, or of which it does not know; and why others are left out.

        With `is_completed` one that does not help alone gets what it lacks.
        """
        found, notes = [], []
        for remedy in remedies:
            fits, said = self._judged(remedy)
            longer = self._completed(remedy) if is_completed and fits is False else None
            if longer is not None:
                found.append(longer)
            elif fits is False:
                notes.append(f"Left out, since by the plan the start would fail all the same: {remedy.title}: {said}.")
            elif fits:
                found.append(_passed(remedy, said))
            else:
                found.append(replace(remedy, checks=replace(remedy.checks, plan=f"unknown: {said}")))
        return tuple(found), tuple(notes)

    def _edited(self, remedy: Remedy) -> Mapping[str, Any]:
        options = dict(self.options[0])
        for edit in remedy.edits:
            if edit.op == "set":
                options[edit.name] = edit.value
            elif edit.op == "remove":
                options.pop(edit.name, None)
        return options

    def _judged(self, remedy: Remedy) -> tuple[bool | None, str]:
        """Whether the changed start fits, with its margin, or why it does not, or why that is not known."""
        if not remedy.edits:
            return None, "no command is changed"
        if not any(edit.name in _OF_MEMORY for edit in remedy.edits):
            return None, "the change is none that a plan reckons with"
        if isinstance(self.planned, str):
            return None, f"not known: {self.planned}"
        if not self.arguments:
            return None, "the log does not show the arguments; give the command with --command"
        model, before = self.planned
        if self._is_refuted:
            return None, "the plan says that this start fails before it gets as far as it got"
        try:
            made = self.place.budget(model, self._edited(remedy), self._calibrate)
        except _UNREADABLE:
            return None, "the change has a form that no plan takes"
        return self._verdict(made, before)

    @cached_property
    def _is_refuted(self) -> bool:
        """Whether the start made its cache, and by the plan has no room for it."""
        phases = {phase.name for start in self.starts for phase in start.timeline}
        if isinstance(self.planned, str) or phases.isdisjoint(_AFTER_THE_CACHE):
            return False
        return self.place.budget(self.planned[0], self.options[0], self._calibrate).fits is False

    def _verdict(self, made: Budget, before: Budget) -> tuple[bool | None, str]:
        from vllm_runbooks.planning import actual, inverse  # noqa: PLC0415

        if made.settings.missing:
            return None, f"not known: {made.settings.missing[0]}"
        count, there = len(made.ranks), len(self.asked.cards)
        if there and count > there:
            return False, f"it takes {count} cards, and the start has {there}"
        free = number(self.captures.get("free_gib", "")) if self.symptom.startswith(_FREE_BELOW) else None
        requested = made.ranks[0].requested
        if free is not None and requested is not None and actual.in_gib(requested.low) > free:
            return False, f"it asks for {actual.in_gib(requested.low):.2f} GiB of which {free:g} were free"
        if made.fits is not True:
            return made.fits, made.limits[0].rstrip(".")
        if not there and count > len(before.ranks):
            return None, f"it would fit on {count} cards alike; name those that are there with --gpus"
        margin = inverse.margin(made)
        return True, "" if margin is None else _left(actual.in_gib(margin.expected), actual.in_gib(margin.low))

    def _completed(self, remedy: Remedy) -> Remedy | None:
        """A remedy that does not suffice, with the smallest further change that it needs; None: there is none."""
        from vllm_runbooks.planning import actual, inverse  # noqa: PLC0415

        if isinstance(self.planned, str):
            return None
        model, place, options = self.planned[0], self.place, self._edited(remedy)
        try:
            if len(place.cards(place.settings(model, options))) > len(place.devices):
                return None
            ways = inverse.ways_out(
                model,
                lambda more: place.settings(model, {**options, **more}),
                place.devices,
                options,
                environment=place.environment,
                calibrate=self._calibrate,
            )
            way = next((way for way in ways if way.fits), None)
            if way is None or place.budget(model, {**self.options[0], **way.changes}, self._calibrate).fits:
                return None  # where the further change helps without it, this one is of no use
        except _UNREADABLE:
            return None
        told = " and ".join(f"{name} {json.dumps(value)}" for name, value in way.changes.items())
        longer = replace(
            remedy,
            title=f"{remedy.title}, with {told}",
            cost=f"{remedy.cost}; {way.cost}",
            edits=(*remedy.edits, *(Edit("set", name, value) for name, value in way.changes.items())),
        )
        margin = way.margin
        said = "" if margin is None else _left(actual.in_gib(margin.expected), actual.in_gib(margin.low))
        return _passed(longer, said)


def _passed(remedy: Remedy, said: str) -> Remedy:
    return replace(
        remedy,
        cost=f"{remedy.cost}; {said}" if said else remedy.cost,
        checks=replace(remedy.checks, plan="passed"),
    )


def _left(expected: float, low: float) -> str:
    return f"by the plan it leaves {expected:.2f} GiB ({low:.2f} at least) beside one request of the whole context"


_UNREADABLE = (ArithmeticError, AttributeError, InputError, LookupError, TypeError, ValueError)
"""What an argument of a form that nobody foresaw may lead to: a plan must never cost a diagnosis."""


def _ways(asked: _Asked, cause: Finding | None, facts: Facts, arguments: Mapping[str, Any]) -> _Ways:
    """The remedies of the cause, and the steps of the policy that was asked for."""
    remedies = _remedies(cause, asked.catalog, facts, arguments)
    if asked.policy is None:
        return _Ways(remedies)
    steps, notes = _steps(asked.policy, cause, facts, arguments)
    return _Ways(remedies, steps, notes)


def _steps(
    policy: Policy, cause: Finding | None, facts: Facts, arguments: Mapping[str, Any]
) -> tuple[tuple[Remedy, ...], tuple[str, ...]]:
    """The steps of a policy, and why it or some of them are not offered for this cause."""
    if cause is None:
        return (), (f"The policy {policy.id} is not offered: no cause is known that it could help against.",)
    names = (cause.symptom, cause.class_)
    refused = next((why for name in names if (why := policy.refused_for.get(name))), None)
    if refused is not None:
        return (), (f"The policy {policy.id} is not offered for {cause.symptom}. {refused}",)
    steps, notes = [], []
    for place, text in enumerate(policy.steps, 1):
        name = f"Policy {policy.id}, step {place} of {len(policy.steps)}"
        step = _remedy(text, cause.captures, facts, arguments)
        if step is not None:
            steps.append(replace(step, title=f"{name}: {step.title}"))
            continue
        held = [c.says for c in text.unless if holds(c, cause.captures, facts, arguments)]
        notes.append(f"{name}, is left out: {held[0] if held else 'it would change nothing here'}.")
    if steps and policy.helps and not set(names) & set(policy.helps):
        notes.append(f"The policy {policy.id} is not known to help against {cause.symptom}.")
    return tuple(steps), tuple(notes)


_DIFFERS = "cli.command_differs"


def _differing(differences: Sequence[Difference], catalog: Catalog) -> tuple[Finding, ...]:
    """The finding that a command is not the one that the log is of."""
    symptom = catalog.symptoms.get(_DIFFERS)
    if not differences or symptom is None:
        return ()
    told = "; ".join(f"{each.name}: {each.given} in the command, {each.ran} in the log" for each in differences)
    captures = {"differences": redact_text(told)}
    return (
        Finding(
            symptom=symptom.id,
            class_=symptom.class_,
            title=symptom.title,
            severity=symptom.severity,
            level=Level.CONFIRMED,
            evidence=(),
            captures=captures,
            conditions=Conditions(),
            explanation=" ".join(filter(None, (fill(said, captures, Facts()) for said in symptom.explanation))),
            do_first=symptom.do_first,
            confirm=symptom.confirm,
            refute=symptom.refute,
        ),
    )


def read_starts(evidence: Evidence, catalog: Catalog, start: int | None = None) -> tuple[list[Start], list[Start]]:
    """Every start of the evidence, and those that the answer is about."""
    starts = startup_log.read(evidence, catalog)
    if start is not None:
        if not 1 <= start <= len(starts):
            raise InputError(f"--start {start}: the text holds {len(starts)} starts; choose one of them")
        return starts, [starts[start - 1]]
    last = {s.file: s for s in starts}
    return starts, list(last.values())


def _or_as_before(start: Start, starts: list[Start], diagnosed: Mapping[int, Diagnosis]) -> Diagnosis:
    """The start's diagnosis; of one that is cut off before its error, the cause of the same start tried before it.

    A supervisor that starts a failing server over and over leaves such logs.
    """
    own = diagnosed[id(start)]
    if own.root_cause or own.first_error or start.outcome.is_healthy:
        return own
    before = _before(start, starts)
    earlier = diagnosed[id(before)].root_cause if before else None
    if earlier is None:
        return own
    said = "the last start is cut off before its error; the start before it, with the same arguments, failed of this"
    conditions = replace(earlier.conditions, unknown=(said, *earlier.conditions.unknown))
    level = Level.PROBABLE if earlier.level is Level.CONFIRMED else Level.POSSIBLE
    cause = replace(earlier, level=level, conditions=conditions)
    return replace(own, root_cause=cause, findings=(cause, *own.findings))


def _before(start: Start, starts: list[Start]) -> Start | None:
    """The start of the same arguments that was tried before one in the same file, if there was one."""
    before = [s for s in starts if s.file == start.file and s.last_line < start.first_line]
    return before[-1] if start.arguments and before and before[-1].arguments == start.arguments else None


def _with_settings(start: Start, starts: list[Start]) -> Start:
    """The start with the settings that it does not tell itself and the same start before it told."""
    before = _before(start, starts)
    if before is None or start.outcome.is_healthy:
        return start
    told = {name: getattr(before.facts, name) for name in _SETTINGS if getattr(start.facts, name) is None}
    return replace(start, facts=replace(start.facts, **told))


def _given(evidence: Evidence) -> Release:
    return Release(evidence.vllm, "given") if evidence.vllm else Release()


def _outcome(starts: list[Start]) -> Outcome:
    return min((s.outcome for s in starts), key=_TELLING_FIRST.index, default=Outcome.UNKNOWN)


def _pointed(found: Diagnosis, catalog: Catalog) -> Diagnosis:
    """The diagnosis; a notice beside an unexplained error sends the reader to that error, not to other logs."""
    root = found.root_cause
    if root is None or found.first_error is None or catalog.symptoms[root.symptom].role is Role.CAUSE:
        return found
    cause = replace(root, do_first=_FROM_THE_FIRST_ERROR)
    return replace(found, root_cause=cause, findings=tuple(cause if f == root else f for f in found.findings))


def _merged(outcome: Outcome, logs: list[tuple[Outcome, Diagnosis]]) -> Diagnosis:
    """The findings of several logs of one start: a cause in one log explains what the others only lost.

    What a log of a healthy process holds is no cause of the failure that another log shows, nor the other way round.
    """
    diagnoses = [diagnosis for _, diagnosis in logs]
    if len(diagnoses) == 1:
        return diagnoses[0]
    order = list(Severity)
    causes = sorted(
        (d.root_cause for ended, d in logs if d.root_cause and ended.is_healthy == outcome.is_healthy),
        key=lambda f: order.index(f.severity),
    )
    causes = [c for c in causes if c.severity is causes[0].severity]
    own = [c for c in causes if c.look_in is None]
    root = next(iter(own or causes), None)
    hidden: dict[str, int] = {}
    findings: list[Finding] = [root] if root else []
    for found in diagnoses:
        for kind, count in found.hidden.items():
            hidden[kind] = hidden.get(kind, 0) + count
        for finding in found.findings:
            if own and finding.look_in is not None:
                hidden["consequence"] = hidden.get("consequence", 0) + 1
            elif finding is not root and finding.symptom not in {f.symptom for f in findings}:
                findings.append(finding)
    rest = sorted(findings[1:] if root else findings, key=lambda f: order.index(f.severity))
    is_explained = outcome.is_healthy or any(c.severity is Severity.FATAL for c in own)
    unexplained = None if is_explained else next((d.first_error for d in diagnoses if d.first_error), None)
    return Diagnosis(root, tuple([root, *rest] if root else rest), hidden, unexplained)


_LARGEST = frozenset({"weights_gib", "activation_gib", "non_torch_gib", "cuda_graph_gib", "load_seconds"})
_SMALLEST = frozenset({"kv_cache_gib", "kv_cache_tokens", "kv_cache_blocks", "max_concurrency", "gpu_total_gib"})
"""Figures of which the smallest rank bounds all; of the others the first log that knows one gives it."""


def _facts(starts: list[Start]) -> Facts:
    """Facts of one start, from one or several logs of it."""
    if len(starts) == 1:
        return starts[0].facts
    merged: dict[str, Any] = {}
    for name in (f.name for f in fields(Facts)):
        values = [value for s in starts if (value := getattr(s.facts, name)) is not None]
        if values:
            merged[name] = max(values) if name in _LARGEST else min(values) if name in _SMALLEST else values[0]
    return Facts(**merged)


def _arguments(starts: list[Start]) -> Mapping[str, Any]:
    return next((s.arguments for s in starts if s.arguments), {})


def _remedies(
    cause: Finding | None, catalog: Catalog, facts: Facts, arguments: Mapping[str, Any]
) -> tuple[Remedy, ...]:
    if cause is None:
        return ()
    texts = catalog.symptoms[cause.symptom].remedies
    made = (_remedy(text, cause.captures, facts, arguments) for text in texts)
    return tuple(remedy for remedy in made if remedy is not None)


def _remedy(text: RemedyText, captures: Mapping[str, str], facts: Facts, arguments: Mapping[str, Any]) -> Remedy | None:
    """The remedy with this start's values; None where it is known not to help, or needs what is not known."""
    if any(value_of(name, captures, facts) is None for name in text.needs):
        return None
    if any(holds(condition, captures, facts, arguments) for condition in text.unless):
        return None
    edits = [_edit(authored, captures, facts, arguments) for authored in text.edits]
    if edits and all(edit is _POINTLESS for edit in edits):
        return None
    title, cost = fill(text.title, captures, facts), fill(text.cost, captures, facts)
    if title is None or cost is None:
        return None
    made = tuple(edit for edit in edits if edit is not None and edit is not _POINTLESS)
    return Remedy(title, cost, made, None, _UNCHECKED)


_POINTLESS = Edit("remove", "")
"""Stands for an edit that would change nothing here, or not for the better."""


def _edit(authored: Edit, captures: Mapping[str, str], facts: Facts, arguments: Mapping[str, Any]) -> Edit | None:
    """The edit with its value for this start; None where its value depends on a setting that is not known."""
    present = arguments.get(authored.name, getattr(facts, authored.name, None))
    if authored.op != "set":
        return authored
    value: Any = authored.value
    if isinstance(value, str):
        filled = fill(value, captures, facts)
        value = int(filled.replace(",", "")) if filled and filled.replace(",", "").isdigit() else filled
    elif isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in STEPS:
        ((step, amount),) = value.items()
        number = float(present) if isinstance(present, (int, float)) and not isinstance(present, bool) else None
        value = STEPS[step](amount, number, captures)
    elif isinstance(value, Mapping):
        present = _mapping(present)
        own = {fill(str(k), captures, facts) or str(k): v for k, v in value.items()}
        value = None if present is None else {**present, **own}
    if value is None:
        return None
    return _POINTLESS if value is _NO_STEP or value == present else Edit("set", authored.name, value)


def _mapping(present: Any) -> Mapping[str, Any] | None:
    """A present setting that is a JSON object, however the log writes it; None where it is something else."""
    if isinstance(present, str):
        try:
            present = json.loads(present)
        except ValueError:
            return None
    if present is None:
        return {}
    return present if isinstance(present, Mapping) else None


_NO_STEP = object()
"""There is no better value than the present one."""

Step = Callable[[Any, "float | None", Mapping[str, str]], Any]


def _lower_by(amount: float, present: float | None, _: Mapping[str, str]) -> Any:
    if present is None:
        return None
    return round(present - amount, 4) if present > 2 * amount else _NO_STEP


def _lower_to(amount: float, present: float | None, _: Mapping[str, str]) -> Any:
    if present is None or present > amount:
        return amount
    return int(present // 2) or _NO_STEP


def _raise_to(amount: float, present: float | None, _: Mapping[str, str]) -> Any:
    return amount if present is None or present < amount else int(present * 2)


def _at_least(amount: float, present: float | None, _: Mapping[str, str]) -> Any:
    return amount if present is None or present < amount else _NO_STEP


def _share(quotient: str, _: float | None, captures: Mapping[str, str]) -> Any:
    """Two captures divided, rounded down to hundredths."""
    part, _slash, whole = quotient.partition("/")
    try:
        share = math.floor(100 * float(captures[part]) / float(captures[whole])) / 100
    except (KeyError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return share if 0.05 < share < 1 else _NO_STEP


STEPS: Mapping[str, Step] = {
    "lower_by": _lower_by,
    "lower_to": _lower_to,
    "raise_to": _raise_to,
    "at_least": _at_least,
    "share": _share,
}
"""How an authored value follows from the present one: {lower_by: 0.05}, {lower_to: 64}, {share: free_gib/total_gib}."""


def judge(found: Answer, case: Case | None, judged: Sequence[JudgedClaim] = ()) -> Judgement:
    """The verdict: against a case's expectation, its claims included, else on whether anything is wrong."""
    differences = [*_differences(found, case), *claims.other_verdicts(case, judged)] if case else []
    cause = found.root_cause
    if case:
        verdict = Verdict.FAIL if differences else Verdict.PASS
        said = f"{cause.class_}" if cause else "no root cause"
        reason = "; ".join(differences) or f"as expected: {found.outcome.value}, {said}"
    elif cause:
        verdict, reason = Verdict.FAIL, f"{found.outcome.value}: {cause.title} ({cause.symptom}, {cause.level.value})"
    elif found.outcome.is_healthy:
        verdict, reason = Verdict.PASS, f"{found.outcome.value}: nothing wrong"
    else:
        verdict, reason = Verdict.FAIL, f"{found.outcome.value}: no cause could be established"
    return Judgement(
        verdict=verdict,
        reason=reason,
        case=case.id if case else None,
        outcome=found.outcome,
        root_cause=CauseRef(cause.symptom, cause.class_) if cause else None,
        findings=tuple(FindingRef(f.symptom, f.class_, f.title, f.severity, f.level) for f in found.findings),
    )


def _differences(found: Answer, case: Case) -> list[str]:
    expect, cause = case.expect, found.root_cause
    said = cause.class_ if cause else "ok"
    checks: list[tuple[str, Any, Any]] = [
        ("outcome", expect.outcome, found.outcome),
        ("class", expect.class_, said),
        ("symptom", expect.symptom, cause.symptom if cause else None),
        ("starts", expect.starts, [s.outcome for s in found.starts] if expect.starts is not None else None),
    ]
    checks += [(f"capture {k}", v, cause.captures.get(k) if cause else None) for k, v in expect.captures.items()]
    checks += [(f"fact {k}", v, getattr(found.facts, k, None)) for k, v in expect.facts.items()]
    present = {f.symptom for f in found.findings}
    differences = [
        f"{name}: expected {document(wanted)}, got {document(got)}"
        for name, wanted, got in checks
        if wanted is not None and document(wanted) != document(got)
    ]
    differences += [f"finding {name}: expected, not found" for name in expect.findings or () if name not in present]
    return differences
