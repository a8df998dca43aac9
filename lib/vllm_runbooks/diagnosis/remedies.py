"""A symptom's remedies and a policy's steps, filled in for one launch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.catalog.records import Policy, RemedyText
from vllm_runbooks.catalog.steps import NO_STEP, STEPS
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.catalog.templates import fill, value_of
from vllm_runbooks.core.records import UNKNOWN_RELEASE, Edit, Facts, Finding, Quote, Release, Remedy, ServerRun
from vllm_runbooks.diagnosis.causes import holds
from vllm_runbooks.diagnosis.internal_errors import SYMPTOM as INTERNAL_ERROR
from vllm_runbooks.diagnosis.internal_errors import features, quoted_exception
from vllm_runbooks.diagnosis.named_fixes import UNCHECKED, context, named


def of_cause(
    cause: Finding | None,
    catalog: Catalog,
    facts: Facts,
    arguments: Mapping[str, Any],
    *,
    release: Release = UNKNOWN_RELEASE,
    starts: Sequence[ServerRun] = (),
) -> tuple[Remedy, ...]:
    """The remedies of a cause that can help this launch, not checked yet; those that its message names first."""
    if cause is None:
        return ()
    texts = _texts(cause, catalog)
    captures = context(starts, cause, facts, release, arguments)
    by_message = named(cause, captures["message"], texts, facts, release, lang=catalog.lang)
    return unique((*by_message, *made(texts, captures, facts, arguments, release)))


def of_error(
    quote: Quote,
    starts: Sequence[ServerRun],
    catalog: Catalog,
    facts: Facts,
    arguments: Mapping[str, Any],
    *,
    release: Release,
) -> tuple[Remedy, ...]:
    """The remedies for an exception that no symptom explains: what it names, and optional features in its frames."""
    found, internal = quoted_exception(starts, quote), catalog.symptoms.get(INTERNAL_ERROR)
    if found is None:
        return ()
    raised = found[0].chain[found[1]]
    texts = [
        text
        for text in (internal.remedies if internal else ())
        if text.needs and text.edits and all(edit.op != "set" for edit in text.edits)
    ]
    by_message = named(None, raised.message, (), facts, release, lang=catalog.lang)
    return unique((*by_message, *made(texts, dict.fromkeys(features(raised), "yes"), facts, arguments, release)))


def _texts(cause: Finding, catalog: Catalog) -> tuple[RemedyText, ...]:
    """Remedies of a symptom, or of its class if it has none."""
    own = catalog.symptoms[cause.symptom].remedies
    return own if own or cause.class_ not in catalog.symptoms else catalog.symptoms[cause.class_].remedies


def agreeing(cause: Finding, remedies: Sequence[Remedy], catalog: Catalog, facts: Facts) -> Finding:
    """The cause with its first remedy as the first action, unless the symptom's own first remedy is offered first."""
    texts = _texts(cause, catalog)
    always = next((text for text in texts if not text.when and not text.needs), None)
    first = next((remedy.title for remedy in remedies), None)
    if first is None or (always is not None and first == fill(always.title, cause.captures, facts)):
        return cause
    return replace(cause, do_first=Wording(catalog.lang)("{title}.", title=first))


def made(
    texts: Iterable[RemedyText],
    captures: Mapping[str, str],
    facts: Facts,
    arguments: Mapping[str, Any],
    release: Release = UNKNOWN_RELEASE,
) -> tuple[Remedy, ...]:
    """The remedies that can help, filled in; not checked yet."""
    remedies = (_remedy(text, captures, facts, arguments, release) for text in texts)
    return unique(remedy for remedy in remedies if remedy is not None)


def unique(remedies: Iterable[Remedy]) -> tuple[Remedy, ...]:
    """The remedies without repetitions of a title: a symptom may put the same one first under a condition."""
    by_title: dict[str, Remedy] = {}
    for remedy in remedies:
        by_title.setdefault(remedy.title, remedy)
    return tuple(by_title.values())


def of_policy(
    policy: Policy,
    cause: Finding | None,
    facts: Facts,
    arguments: Mapping[str, Any],
    release: Release = UNKNOWN_RELEASE,
) -> tuple[tuple[Remedy, ...], tuple[str, ...]]:
    """The steps of a policy, and why it or some of them do not apply to this cause."""
    if cause is None:
        return (), (f"The policy {policy.id} is not applied: the cause is unknown.",)
    names = (cause.symptom, cause.class_)
    refused = next((why for name in names if (why := policy.refused_for.get(name))), None)
    if refused is not None:
        return (), (f"The policy {policy.id} is not applied to {cause.symptom}. {refused}",)
    steps, notes = [], []
    for place, text in enumerate(policy.steps, 1):
        name = f"Policy {policy.id}, step {place} of {len(policy.steps)}"
        step = _remedy(text, cause.captures, facts, arguments, release)
        if step is not None:
            steps.append(replace(step, title=f"{name}: {step.title}"))
            continue
        reasons = [c.says for c in text.unless if holds(c, cause.captures, facts, arguments, release)]
        notes.append(f"{name}, skipped: {reasons[0] if reasons else 'it would change nothing'}.")
    if steps and policy.helps and not set(names) & set(policy.helps):
        notes.append(f"The policy {policy.id} may not help against {cause.symptom}.")
    return tuple(steps), tuple(notes)


def _remedy(
    text: RemedyText,
    captures: Mapping[str, str],
    facts: Facts,
    arguments: Mapping[str, Any],
    release: Release = UNKNOWN_RELEASE,
) -> Remedy | None:
    """Remedy with its values; None if it is known not to help, or needs an unknown value."""
    if any(value_of(name, captures, facts) is None for name in text.needs):
        return None
    if not all(holds(condition, captures, facts, arguments, release) for condition in text.when):
        return None
    if any(holds(condition, captures, facts, arguments, release) for condition in text.unless):
        return None
    edits = [
        edit if "{" in authored.name else _edit(edit, captures, facts, arguments)
        for authored in text.edits
        for edit in _named_in_log(authored, captures, facts)
    ]
    if edits and all(edit is _POINTLESS for edit in edits):
        return None
    title, cost = fill(text.title, captures, facts), fill(text.cost, captures, facts)
    if title is None or cost is None:
        return None
    made = tuple(edit for edit in edits if edit is not None and edit is not _POINTLESS)
    return Remedy(title, cost, made, None, UNCHECKED)


_DECIMAL = re.compile(r"\d{1,9}\.\d{1,9}", re.ASCII)
_POINTLESS = Edit("remove", "")
"""Marks an edit that would change nothing or make it worse."""


_OPTION = re.compile(r"--?([A-Za-z][\w-]{1,60})|^([A-Za-z]\w{1,60})$", re.ASCII)


def _named_in_log(authored: Edit, captures: Mapping[str, str], facts: Facts) -> tuple[Edit, ...]:
    """The edit, once for each option in the capture that names them."""
    if "{" not in authored.name:
        return (authored,)
    if authored.op == "env":
        return (replace(authored, name=fill(authored.name, captures, facts) or ""),)
    value = _filled(authored.value, captures, facts) if isinstance(authored.value, str) else authored.value
    names = _OPTION.findall((fill(authored.name, captures, facts) or "").partition("/")[0])
    found = ((dashed or plain).replace("-", "_").lower() for dashed, plain in names)
    return tuple(replace(authored, name=name, value=value) for name in found)


def _filled(value: str, captures: Mapping[str, str], facts: Facts) -> Any:
    """A value with its captures, as a number or object if it is one."""
    filled = fill(value, captures, facts)
    printed = filled.replace(",", "") if filled else ""
    if filled and filled.startswith("{"):
        return _mapping(filled)
    return int(printed) if printed.isdigit() else float(printed) if _DECIMAL.fullmatch(printed) else filled


def _edit(authored: Edit, captures: Mapping[str, str], facts: Facts, arguments: Mapping[str, Any]) -> Edit | None:
    """The edit, filled in; None if its value depends on an unknown setting."""
    present = arguments.get(authored.name, getattr(facts, authored.name, None))
    is_absent = not present and type(present) is not int  # a typed 0 is a value
    if authored.op == "remove" and arguments and is_absent and f"{authored.name}_given" not in captures:
        return _POINTLESS
    if authored.op != "set":
        return authored
    value: Any = authored.value
    if isinstance(value, str):
        value = _filled(value, captures, facts)
    elif isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in STEPS:
        ((step, amount),) = value.items()
        number = float(present) if isinstance(present, (int, float)) and not isinstance(present, bool) else None
        value = STEPS[step](amount, number, captures)
    elif isinstance(value, Mapping):
        present = _mapping(present)
        keys = {fill(str(k), captures, facts) or str(k): v for k, v in value.items()}
        value = None if present is None else {**present, **keys}
    if value is None:
        return None
    return _POINTLESS if value is NO_STEP or value == present else Edit("set", authored.name, value)


def _mapping(present: Any) -> Mapping[str, Any] | None:
    """A setting that is a JSON object, in whatever form the log prints it; None if it is something else."""
    if isinstance(present, str):
        try:
            present = json.loads(present)
        except ValueError:
            return None
    if present is None:
        return {}
    return present if isinstance(present, Mapping) else None
