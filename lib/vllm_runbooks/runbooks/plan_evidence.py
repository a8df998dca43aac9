"""Plans for recorded questions and for the launches of a log, or the missing input."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog import options as releases
from vllm_runbooks.catalog.specs import Gpu, HostGpu, Total
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.errors import InputError, check_texts
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.records import RunbookVerdict, ServerRun, Verdict
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.lint import checking
from vllm_runbooks.lint.records import CommandRelease
from vllm_runbooks.plan import actual, calibration, inverse, planner
from vllm_runbooks.plan import expected as plan_expected
from vllm_runbooks.plan import files as plan_files
from vllm_runbooks.plan import planned as planning
from vllm_runbooks.plan import requests as plan_requests
from vllm_runbooks.plan.budget import Budget
from vllm_runbooks.plan.confirmation import Confirmation
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.inverse import WayOut
from vllm_runbooks.plan.records import Layouts, Plan
from vllm_runbooks.plan.remedies import PlanRemedy
from vllm_runbooks.plan.requests import PlanningRequest

_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_UNNAMED = "the log's GPU"
_ALIKE = 0.05


# ---- a question


def words(request: PlanningRequest, best: Plan | str = "") -> dict[str, Any]:
    """The question as text, with the layout of `best`."""
    cards = _names(request.cards)
    gpus = ",".join(f"{cards.count(name)}x{name}" for name in dict.fromkeys(cards))
    options = {name: value for name, value in request.options.items() if name not in _SIZES}
    layout = None if isinstance(best, str) else best.layout
    sizes = {"tp": layout.tp, "pp": layout.pp, "dp": layout.dp} if layout else {}
    return {"model": request.model.name, "gpus": gpus, "vllm": request.release.version, "options": options, **sizes}


def question(
    evidence: Evidence,
    *,
    model: str = "",
    gpus: str = "",
    vllm: str = "",
    max_model_len: int = 0,
    options: str = "",
) -> PlanningRequest:
    """A recorded question with changes; for another model the newest release is used, without the recorded options.

    `model` is one of the catalog, or a folder with its config.json; `options` are further ones as a JSON object.
    """
    check_texts(model=model, gpus=gpus, vllm=vllm, options=options)
    case = evidence.case
    recorded = planner.question(case.plan) if case is not None and case.plan is not None else None
    arguments = _words({**_object(options), **({"max_model_len": max_model_len} if max_model_len else {})})
    if recorded is None:
        if not model.strip() or not gpus.strip():
            raise InputError("this evidence is not a recorded question; set model and gpus")
        return planner.request(model.strip(), gpus.strip(), vllm=vllm.strip() or None, arguments=arguments)
    is_same = model.strip() in ("", recorded.model.name)
    if is_same and not (gpus.strip() or vllm.strip() or arguments):
        return recorded
    made = planner.request(
        model.strip() or recorded.model.name,
        gpus.strip() or ",".join(_names(recorded.cards)),
        vllm=vllm.strip() or (recorded.release.version if is_same else None),
        arguments=arguments,
    )
    return replace(made, options={**recorded.options, **made.options}) if is_same else made


def _names(cards: Sequence[HostGpu]) -> list[str]:
    return [f"{card.gpu.name}@{card.node}" if card.node else card.gpu.name for card in cards]


def verdict(request: PlanningRequest, layouts: Layouts | str, evidence: Evidence) -> RunbookVerdict:
    """The verdict: compared with the recorded question if it is unchanged, else whether it fits."""
    if isinstance(layouts, str):
        return RunbookVerdict(Verdict.FAIL, f"not planned: {layouts}", None, None, None, ())
    case = evidence.case
    if case is None or case.plan is None or _identity(request) != _identity(planner.question(case.plan)):
        return plan_expected.plan_verdict(layouts, None)
    return plan_expected.plan_verdict(layouts, case, diagnosing.check_claims(evidence))


def _identity(request: PlanningRequest) -> tuple[object, ...]:
    return request.model.name, request.cards, request.release.version, dict(request.options), request.replicas


def _object(text: str) -> Mapping[str, Any]:
    if not text.strip():
        return {}
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise InputError('options: is not a JSON object; write it as in {"limit_mm_per_prompt": {"video": 0}}')
    return data


def as_words(options: str) -> list[str]:
    """Options of a JSON object as words of a command."""
    return _words(_object(options))


def _words(options: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        dashed = name.strip("-").replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{dashed}" if value else f"--no-{dashed}")
        else:
            words += [f"--{dashed}", json.dumps(value) if isinstance(value, (dict, list)) else str(value)]
    return words


def on_cards(request: PlanningRequest, count: int) -> PlanningRequest:
    """The same question for `count` GPUs like the first, in any layout."""
    options = {name: value for name, value in request.options.items() if name not in _SIZES}
    return replace(request, cards=(request.cards[0],) * count, options=options)


def best(layouts: Layouts | str) -> Plan | str:
    """The best layout, or the reason for a missing one."""
    if isinstance(layouts, str):
        return layouts
    try:
        return planner.chosen(layouts)
    except InputError as error:
        return str(error)


def remedies(request: PlanningRequest, layouts: Layouts | str) -> tuple[PlanRemedy, ...]:
    """Cheapest changes with which a plan fits; empty if it fits, or nothing is planned."""
    return () if isinstance(layouts, str) else planner.remedies(request, layouts)


def deployed(
    request: PlanningRequest, layouts: Layouts | str, *, first_port: int = 8000, retries_posts: bool = False
) -> Mapping[str, str]:
    """Files of the best layout by name; empty if none fits."""
    plan = best(layouts)
    if isinstance(plan, str):
        return {}
    return planner.deployed(request, plan, first_port=first_port, retries_posts=retries_posts)


def confirmations(
    request: PlanningRequest, layouts: Layouts | str, *, first_port: int = 8000
) -> Mapping[str, Confirmation]:
    """How to confirm the best layout, by instance; empty if none fits."""
    plan = best(layouts)
    return {} if isinstance(plan, str) else plan_files.confirmations(request, plan, first_port=first_port)


def write(
    request: PlanningRequest,
    layouts: Layouts | str,
    folder: str,
    *,
    apply: bool,
    first_port: int = 8000,
    retries_posts: bool = False,
) -> RenderedView:
    """Write the files of the best layout into a folder if `apply` is set; none is overwritten."""
    if not isinstance(apply, bool):
        raise InputError(f"apply: {apply!r} must be True or False; no files written")
    check_texts(folder=folder)
    plan = best(layouts)
    if isinstance(plan, str):
        return RenderedView.nothing(f"No files written: {plan}.")
    if not apply:
        return RenderedView.nothing("No files written: apply is False.")
    if not folder.strip():
        raise InputError("folder is empty; name the folder that the files are to be written into")
    written = planner.deploy(request, plan, Path(folder), first_port=first_port, retries_posts=retries_posts)
    return RenderedView.said(f"Written: {', '.join(map(str, written))}.")


# ---- the launches of a log


def starts(evidence: Evidence, *, gpus: str = "") -> tuple[Plan | str, ...]:
    """A plan for each launch of a log, from its own settings, or the reason for a missing one."""
    return tuple(planned(_of(start, evidence, gpus, None)) for start in diagnosing.read(evidence))


def start(evidence: Evidence, *, number: int = 0, gpus: str = "") -> PlanningRequest | str:
    """A launch of a log as a question; else the missing input.

    `number` counts from 1; 0 is the last launch.
    """
    answer = diagnosing.diagnose(evidence, start=number)
    every = diagnosing.read(evidence)
    if not every:
        return "the log has no vLLM launch"
    captures = answer.root_cause.captures if answer.root_cause else {}
    total = captures.get("total_gib")
    return _of(every[number - 1 if number else -1], evidence, gpus, float(total) if total else None)


def given(start: ServerRun) -> tuple[str | None, Mapping[str, Any]]:
    """The model of a launch, and its other options."""
    options, _ = actual.options_of(start.arguments, start.facts)
    name = start.facts.model or options.get("model") or options.get("model_tag")
    others = {name: value for name, value in options.items() if name not in (*_SIZES, "model", "model_tag")}
    return (name if isinstance(name, str) else None), others


def planned(request: PlanningRequest | str) -> Plan | str:
    """The plan of a question; else the missing input."""
    if isinstance(request, str):
        return request
    try:
        return planning.plan(request) if _is_unnamed(request) else planner.plan(request)
    except InputError as error:
        return str(error)


def budget(request: PlanningRequest | str) -> Budget | str:
    """The budget in bytes, with the encoder's profile; else the missing input."""
    if isinstance(request, str):
        return request
    settings = plan_requests.settings(request)
    need = settings.ranks.cards
    if need > len(request.cards):
        return f"the launch needs {need} GPUs, {len(request.cards)} given"
    return plan_requests.budget_of(request, settings, [Device.of(card) for card in request.cards[:need]])


def ways_out(request: PlanningRequest | str) -> tuple[WayOut, ...] | str:
    """The smallest changes that fit, the cheapest first; else the missing input."""
    if isinstance(request, str):
        return request
    return inverse.ways_out(
        request.model,
        lambda more: plan_requests.settings(request, more),
        [Device.of(card) for card in request.cards],
        request.options,
        environment={name: value for name, value in request.environment.items() if value is not None},
        calibrate=request.calibrate,
    )


def layouts(request: PlanningRequest | str, count: int | None = None) -> Layouts | str:
    """All layouts for the GPUs, or for `count` like the first; else the missing input."""
    if isinstance(request, str):
        return request
    try:
        request = request if count is None else on_cards(request, count)
        return planning.layouts(request) if _is_unnamed(request) else planner.layouts(request)
    except InputError as error:
        return str(error)


def _is_unnamed(request: PlanningRequest) -> bool:
    """Whether only the GPU's memory is known: lint, which needs its name, is skipped."""
    return any(card.gpu.name == _UNNAMED for card in request.cards)


def _of(start: ServerRun, evidence: Evidence, gpus: str, total_gib: float | None) -> PlanningRequest | str:
    version = start.release.rules or evidence.vllm
    if version is None:
        return "unknown release; set vllm"
    arguments = start.arguments or _commanded(evidence, version)
    options, _ = actual.options_of(arguments, start.facts)
    name = start.facts.model or options.get("model") or options.get("model_tag")
    if not isinstance(name, str):
        return "the log does not name the model; pass the script that started it with command"
    try:
        cards = _cards(evidence, gpus, start.facts.gpu_total_gib or total_gib or _given(evidence))
        release = CommandRelease(version, "log", releases.load(version).version)
        return PlanningRequest(planner.model(name), cards, release, options)
    except InputError as error:
        return redact_text(str(error))


def _commanded(evidence: Evidence, version: str) -> Mapping[str, Any]:
    if evidence.command is None:
        return {}
    launches = checking.lint_text(evidence.command, vllm=version).deployments
    return {"model": launches[0].model, **launches[0].flags} if len(launches) == 1 else {}


def _cards(evidence: Evidence, gpus: str, printed_gib: float | None) -> tuple[HostGpu, ...]:
    """GPUs by name, else of the recorded case, else one of the printed memory."""
    named = gpus.strip() or _recorded(evidence)
    if not named:
        if printed_gib is None:
            raise InputError("unknown GPU: the log does not print its memory; set gpus")
        return (HostGpu(Gpu(_UNNAMED, printed_gib, (), total=_total(printed_gib))),)
    cards = host_loading.cards(named)
    first = cards[0].gpu
    if printed_gib is None or first.total is None:
        return cards
    if abs(first.total.expected / printed_gib - 1) > _ALIKE:
        raise InputError(
            f"the log's GPU has {printed_gib:.2f} GiB, {first.name} has {first.total.expected:.2f}; name the right one"
        )
    return tuple(replace(card, gpu=replace(card.gpu, total=_total(printed_gib))) for card in cards)


def _recorded(evidence: Evidence) -> str:
    case = evidence.case
    if case is None:
        return ""
    gpus = next((gpu.gpus for gpu in calibration.shipped().cards if gpu.case == case.id), None)
    questions = [*([case.plan] if case.plan else []), *(case.claims.plans.values() if case.claims else ())]
    return gpus or (catalog.specs().gpus(questions[0].gpus)[0].gpu.name if questions else "")


def _given(evidence: Evidence) -> float | None:
    judged = evidence.case.claims if evidence.case else None
    value = next((fact.value for fact in judged.given if fact.name == "gpu_total_gib"), None) if judged else None
    return float(value) if isinstance(value, (int, float)) else None


def _total(gib: float) -> Total:
    return Total(gib, gib, gib, "stated with the log")
