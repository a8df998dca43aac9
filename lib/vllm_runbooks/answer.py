"""Evidence to the whole answer: starts read and diagnosed, remedies with their checks, and the verdict on a case."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vllm_runbooks import startup_log
from vllm_runbooks.catalog import Catalog
from vllm_runbooks.diagnosis import Diagnosis, diagnose, fill, holds, value_of
from vllm_runbooks.errors import InputError
from vllm_runbooks.records import (
    Answer,
    Case,
    CauseRef,
    Checks,
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
    from vllm_runbooks.commands import Difference
    from vllm_runbooks.lint import Knowledge

_UNCHECKED = Checks(
    lint="unknown: no command is changed",
    plan="unknown: no planner",
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
) -> Answer:
    """Diagnose the evidence; `start` chooses one of several starts by its number, from 1 (default: the last).

    Several files are logs of one start (its nodes, its ranks): the last start of each is judged together. `knowledge`
    gives what commands are judged by, and is asked for it only where there is a command. The steps of `policy` stand
    behind the remedies, or a note says why they do not.

    Raises:
        InputError: there is no start of that number.
    """
    asked = _Asked(evidence, catalog, knowledge, policy)
    return _answer(asked, *read_starts(evidence, catalog, start))


def follow(evidence: Evidence, catalog: Catalog, knowledge: Callable[[], Knowledge]) -> Iterator[Answer]:
    """Diagnose a log that is still being written, whenever it pauses, and at its end."""
    for starts in startup_log.follow(evidence, catalog):
        yield _answer(_Asked(evidence, catalog, knowledge), starts, starts[-1:])


class _Asked(NamedTuple):
    """What an answer is asked of."""

    evidence: Evidence
    catalog: Catalog
    knowledge: Callable[[], Knowledge]
    policy: Policy | None = None


def _answer(asked: _Asked, starts: list[Start], chosen: list[Start]) -> Answer:
    evidence, catalog = asked.evidence, asked.catalog
    diagnosed = {id(s): diagnose(s, catalog) for s in starts}
    outcome = _outcome(chosen)
    merged = _pointed(_merged(outcome, [(s.outcome, _or_as_before(s, starts, diagnosed)) for s in chosen]), catalog)
    facts = _facts([_with_settings(s, starts) for s in chosen])
    left_out = sum(s.left_out for s in starts)
    vllm = next((s.release for s in chosen if s.release.version), _given(evidence))
    ways = _checked_remedies(asked, merged.root_cause, facts, _arguments(chosen), vllm.version)
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
        plan=None,
        hidden={**merged.hidden, **({"earlier_start": left_out} if left_out else {})},
        facts=facts,
        ranks=tuple(rank for s in chosen for rank in s.ranks),
        first_error=merged.first_error,
        notes=ways.notes,
    )


class _Ways(NamedTuple):
    """What there is to do, and what is to be said of it."""

    remedies: tuple[Remedy, ...]
    steps: tuple[Remedy, ...] = ()
    """Those of the policy that was asked for."""
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def _checked_remedies(
    asked: _Asked, cause: Finding | None, facts: Facts, logged: Mapping[str, Any], vllm: str | None
) -> _Ways:
    """The remedies as checked edits of the command, and the finding that this is not the command of the log."""
    command = asked.evidence.command
    if command is None:
        ways = _ways(asked, cause, facts, logged)
        if not any(remedy.edits for remedy in (*ways.remedies, *ways.steps)):
            return ways
    from vllm_runbooks.commands import Base  # noqa: PLC0415 - of no use where there is no command

    base = Base(command, logged, vllm, asked.knowledge)
    if command is not None:
        ways = _ways(asked, cause, facts, {**base.flags, **logged})
    steps = base.offered(ways.steps)
    titles = {step.title for step in steps}
    refused = (
        f"Left out, since the release refuses its command: {s.title}." for s in ways.steps if s.title not in titles
    )
    differing = _differing(base.differences(), asked.catalog)
    chosen = [base.choice] if base.choice is not None else []
    return _Ways(base.offered(ways.remedies), steps, (*chosen, *ways.notes, *refused), differing)


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
    for number, text in enumerate(policy.steps, 1):
        name = f"Policy {policy.id}, step {number} of {len(policy.steps)}"
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
    differences = [*_differences(found, case), *_other_verdicts(case, judged)] if case else []
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


def _other_verdicts(case: Case, judged: Sequence[JudgedClaim]) -> list[str]:
    verdicts = {claim.id: claim for claim in judged}
    return [
        f"claim {name}: expected {verdicts[name].expected}, got {verdicts[name].verdict}"
        if name in verdicts
        else f"claim {name}: not judged"
        for name in case.expect.claims or ()
        if name not in verdicts or verdicts[name].verdict is not verdicts[name].expected
    ]


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
