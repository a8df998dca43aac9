"""Plans of evidence: a recorded question, and the starts of a log. What cannot be planned is said in its place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog import options as releases
from vllm_runbooks.catalog.specs import Card, Gpu, Total
from vllm_runbooks.core.display import Shown
from vllm_runbooks.core.errors import InputError, check_texts
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.records import Judgement, Start, Verdict
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
from vllm_runbooks.plan.budget import Budget, Device
from vllm_runbooks.plan.inverse import WayOut
from vllm_runbooks.plan.records import Layouts, Plan
from vllm_runbooks.plan.requests import Request
from vllm_runbooks.reading.deployment.confirmation import Confirmation

_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_UNNAMED = "the log's card"
_ALIKE = 0.05
"""Share by which the memory that a log prints may differ from that of the card that is named."""


# ---- a question


def words(asked: Request, best: Plan | str = "") -> dict[str, Any]:
    """A question as it is named, for whoever asks a like one, in the layout of `best` where there is one."""
    cards = [f"{card.gpu.name}@{card.node}" if card.node else card.gpu.name for card in asked.cards]
    gpus = ",".join(f"{cards.count(name)}x{name}" for name in dict.fromkeys(cards))
    given = {name: value for name, value in asked.options.items() if name not in _SIZES}
    layout = None if isinstance(best, str) else best.layout
    sizes = {"tp": layout.tp, "pp": layout.pp, "dp": layout.dp} if layout else {}
    return {"model": asked.model.name, "gpus": gpus, "vllm": asked.release.version, "options": given, **sizes}


def question(
    evidence: Evidence,
    *,
    model: str = "",
    gpus: str = "",
    vllm: str = "",
    max_model_len: int = 0,
    options: str = "",
) -> Request:
    """A recorded question, with what is given here instead of its own.

    Of another model the release is the newest that is known, and no option of the recorded question holds.

    Args:
        evidence: A recorded question.
        model: Of the catalog, or a folder with its config.json.
        gpus: As in `8xRTX3090`.
        vllm: Release.
        max_model_len: Context; 0: not given.
        options: Further options as a JSON object.

    Raises:
        InputError: There is neither a question nor a model, or something of it is not known or refused.
    """
    check_texts(model=model, gpus=gpus, vllm=vllm, options=options)
    case = evidence.case
    recorded = planner.question(case.plan) if case is not None and case.plan is not None else None
    given = _words({**_object(options), **({"max_model_len": max_model_len} if max_model_len else {})})
    if recorded is None:
        if not model.strip() or not gpus.strip():
            raise InputError("this evidence is no recorded question; give model and gpus")
        return planner.request(model.strip(), gpus.strip(), vllm=vllm.strip() or None, arguments=given)
    is_same = model.strip() in ("", recorded.model.name)
    if is_same and not (gpus.strip() or vllm.strip() or given):
        return recorded
    made = planner.request(
        model.strip() or recorded.model.name,
        gpus.strip() or _spelled(recorded.cards),
        vllm=vllm.strip() or (recorded.release.version if is_same else None),
        arguments=given,
    )
    return replace(made, options={**recorded.options, **made.options}) if is_same else made


def _spelled(cards: Sequence[Card]) -> str:
    return ",".join(f"{card.gpu.name}@{card.node}" if card.node else card.gpu.name for card in cards)


def judge(asked: Request, found: Layouts | str, evidence: Evidence) -> Judgement:
    """The verdict: against the recorded question and its claims where it is that question, else on whether it fits."""
    if isinstance(found, str):
        return Judgement(Verdict.FAIL, f"not planned: {found}", None, None, None, ())
    case = evidence.case
    if case is None or case.plan is None or not _is_recorded(asked, planner.question(case.plan)):
        return plan_expected.judge_plan(found, None)
    return plan_expected.judge_plan(found, case, diagnosing.judge_claims(evidence))


def _is_recorded(asked: Request, recorded: Request) -> bool:
    def told(one: Request) -> tuple[object, ...]:
        return one.model.name, one.cards, one.release.version, dict(one.options), one.replicas

    return told(asked) == told(recorded)


def _object(text: str) -> Mapping[str, Any]:
    """Options from JSON.

    Raises:
        InputError: It is no JSON object.
    """
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError('options: is no JSON object; write it as in {"limit_mm_per_prompt": {"video": 0}}')
    return found


def as_words(options: str) -> list[str]:
    """Options of a JSON object as words of a command, for the release's parser to judge.

    Raises:
        InputError: It is no JSON object.
    """
    return _words(_object(options))


def _words(options: Mapping[str, Any]) -> list[str]:
    """Options as words of a command, for the release's parser to judge."""
    words: list[str] = []
    for name, value in options.items():
        dashed = name.strip("-").replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{dashed}" if value else f"--no-{dashed}")
        else:
            words += [f"--{dashed}", json.dumps(value) if isinstance(value, (dict, list)) else str(value)]
    return words


def on_cards(asked: Request, count: int) -> Request:
    """The same question on so many cards like its first, in whatever layout."""
    options = {name: value for name, value in asked.options.items() if name not in _SIZES}
    return replace(asked, cards=(asked.cards[0],) * count, options=options)


def best(found: Layouts | str) -> Plan | str:
    """The layout to deploy; else why there is none."""
    if isinstance(found, str):
        return found
    try:
        return planner.chosen(found)
    except InputError as error:
        return str(error)


def deployed(
    asked: Request, found: Layouts | str, *, first_port: int = 8000, retries_posts: bool = False
) -> Mapping[str, str]:
    """The files of the best layout by name; none where none fits."""
    one = best(found)
    if isinstance(one, str):
        return {}
    return planner.deployed(asked, one, first_port=first_port, retries_posts=retries_posts)


def confirmations(asked: Request, found: Layouts | str, *, first_port: int = 8000) -> Mapping[str, Confirmation]:
    """How to see that the best layout took effect, by instance; none where none fits."""
    one = best(found)
    return {} if isinstance(one, str) else plan_files.confirmations(asked, one, first_port=first_port)


def write(
    asked: Request,
    found: Layouts | str,
    folder: str,
    *,
    apply: bool,
    first_port: int = 8000,
    retries_posts: bool = False,
) -> Shown:
    """Write the files of the best layout into a folder, where that is asked for; none is overwritten.

    Raises:
        InputError: No folder is given, or a file is there already.
    """
    if not isinstance(apply, bool):
        raise InputError(f"apply: {apply!r} is neither True nor False; nothing is written")
    check_texts(folder=folder)
    one = best(found)
    if isinstance(one, str):
        return Shown.said(f"Nothing is written: {one}.")
    if not apply:
        return Shown.said("Nothing is written, since apply is False.")
    if not folder.strip():
        raise InputError("folder is empty; name the folder that the files are to be written into")
    written = planner.deploy(asked, one, Path(folder), first_port=first_port, retries_posts=retries_posts)
    return Shown.said(f"Written: {', '.join(map(str, written))}.")


# ---- the starts of a log


def starts(evidence: Evidence, *, gpus: str = "") -> tuple[Plan | str, ...]:
    """What is planned for each start of a log, from its own settings alone; else why nothing is.

    Args:
        evidence: The log, or a recorded case of one.
        gpus: The cards of the starts; those of the recorded case by default.
    """
    found: list[Plan | str] = []
    for start in diagnosing.read(evidence):
        asked = _of(start, evidence, gpus, None)
        found.append(asked if isinstance(asked, str) else _planned(asked))
    return tuple(found)


def start(evidence: Evidence, *, number: int = 0, gpus: str = "") -> Request | str:
    """One start of a log as a question, by its number from 1, 0 for the last; else what is missing.

    Raises:
        InputError: There is no start of that number.
    """
    answer = diagnosing.diagnose(evidence, start=number)
    every = diagnosing.read(evidence)
    if not every:
        return "the text holds no start of vLLM"
    captures = answer.root_cause.captures if answer.root_cause else {}
    total = captures.get("total_gib")
    return _of(every[number - 1 if number else -1], evidence, gpus, float(total) if total else None)


def given(start: Start) -> tuple[str | None, Mapping[str, Any]]:
    """The model of a start, where its log names it, and what was given to it beside that and its layout."""
    found, _ = actual.options_of(start.arguments, start.facts)
    name = start.facts.model or found.get("model") or found.get("model_tag")
    own = {option: value for option, value in found.items() if option not in (*_SIZES, "model", "model_tag")}
    return (name if isinstance(name, str) else None), own


def planned(asked: Request | str) -> Plan | str:
    """The start as it was; else what is missing."""
    return asked if isinstance(asked, str) else _planned(asked)


def budget(asked: Request | str) -> Budget | str:
    """The same in bytes, with the encoder's profile; else what is missing."""
    if isinstance(asked, str):
        return asked
    settings = plan_requests.settings(asked)
    need = settings.ranks.cards
    if need > len(asked.cards):
        return f"the start takes {need} cards, {len(asked.cards)} are given"
    return plan_requests.budget_of(asked, settings, [Device.of(card) for card in asked.cards[:need]])


def ways_out(asked: Request | str) -> tuple[WayOut, ...] | str:
    """The smallest changes with which the start fits, those that cost least first; else what is missing."""
    if isinstance(asked, str):
        return asked
    return inverse.ways_out(
        asked.model,
        lambda more: plan_requests.settings(asked, more),
        [Device.of(card) for card in asked.cards],
        asked.options,
        environment={name: value for name, value in asked.environment.items() if value is not None},
        calibrate=asked.calibrate,
    )


def layouts(asked: Request | str, count: int | None = None) -> Layouts | str:
    """Every layout of the cards, or of so many like the first; else what is missing."""
    if isinstance(asked, str):
        return asked
    try:
        asked = asked if count is None else on_cards(asked, count)
        return planning.layouts(asked) if _is_unnamed(asked) else planner.layouts(asked)
    except InputError as error:
        return str(error)


def _planned(asked: Request) -> Plan | str:
    try:
        return planning.plan(asked) if _is_unnamed(asked) else planner.plan(asked)
    except InputError as error:
        return str(error)


def _is_unnamed(asked: Request) -> bool:
    """Whether no more of the card is known than its memory: the linter, which wants its name, is not asked."""
    return any(card.gpu.name == _UNNAMED for card in asked.cards)


def _of(start: Start, evidence: Evidence, gpus: str, total_gib: float | None) -> Request | str:
    """A start as a question; else what of it is not known."""
    version = start.release.version or evidence.vllm
    if version is None:
        return "the release is not known; name it with vllm"
    arguments = start.arguments or _commanded(evidence, version)
    given, _ = actual.options_of(arguments, start.facts)
    name = start.facts.model or given.get("model") or given.get("model_tag")
    if not isinstance(name, str):
        return "the log does not name the model; give the script that started it with command"
    try:
        cards = _cards(evidence, gpus, start.facts.gpu_total_gib or total_gib or _given(evidence))
        release = CommandRelease(version, "log", releases.load(version).version)
        return Request(planner.model(name), cards, release, given)
    except InputError as error:
        return redact_text(str(error))


def _commanded(evidence: Evidence, version: str) -> Mapping[str, Any]:
    """What the script that was given starts, where it starts one."""
    if evidence.command is None:
        return {}
    found = checking.lint_text(evidence.command, vllm=version).deployments
    return {"model": found[0].model, **found[0].flags} if len(found) == 1 else {}


def _cards(evidence: Evidence, gpus: str, printed_gib: float | None) -> tuple[Card, ...]:
    """The cards that are named, else those of the recorded case, else one of which no more is known than is printed.

    Raises:
        InputError: None is known, or the log is of another.
    """
    named = gpus.strip() or _recorded(evidence)
    if not named:
        if printed_gib is None:
            raise InputError("the card is not known: the log does not print its memory; name it with gpus")
        return (Card(Gpu(_UNNAMED, printed_gib, (), total=_total(printed_gib))),)
    cards = host_loading.cards(named)
    first = cards[0].gpu
    if printed_gib is None or first.total is None:
        return cards
    if abs(first.total.expected / printed_gib - 1) > _ALIKE:
        raise InputError(
            f"the log's card has {printed_gib:.2f} GiB, {first.name} has {first.total.expected:.2f}; name the right one"
        )
    return tuple(replace(card, gpu=replace(card.gpu, total=_total(printed_gib))) for card in cards)


def _recorded(evidence: Evidence) -> str:
    """The card of a recorded case: as is told with it, else that of the first plan of what its document says."""
    case = evidence.case
    if case is None:
        return ""
    told = next((one.gpus for one in calibration.shipped().cards if one.case == case.id), None)
    asked = [*([case.plan] if case.plan else []), *(case.claims.plans.values() if case.claims else ())]
    return told or (catalog.specs().gpus(asked[0].gpus)[0].gpu.name if asked else "")


def _given(evidence: Evidence) -> float | None:
    """The memory of the card that what is said of a recorded case rests on."""
    judged = evidence.case.claims if evidence.case else None
    found = next((one.value for one in judged.given if one.name == "gpu_total_gib"), None) if judged else None
    return float(found) if isinstance(found, (int, float)) else None


def _total(gib: float) -> Total:
    return Total(gib, gib, gib, "stated with the log")
