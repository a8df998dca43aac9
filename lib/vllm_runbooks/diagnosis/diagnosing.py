"""Diagnose evidence with the catalog, the rules and the planner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_runbooks.catalog import languages
from vllm_runbooks.catalog.load import in_language, load_catalog, specs
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.errors import InputError, check_texts
from vllm_runbooks.core.evidence import CaseKind, Evidence
from vllm_runbooks.core.records import Answer, CheckedClaim, PlanComparison, RunbookVerdict, ServerRun
from vllm_runbooks.host import model_cache
from vllm_runbooks.host.loading import cards
from vllm_runbooks.lint.knowledge import knowledge
from vllm_runbooks.reading import evidence as _evidence
from vllm_runbooks.reading import sources

if TYPE_CHECKING:
    from vllm_runbooks.catalog.specs import HostGpu
    from vllm_runbooks.plan.budget import PlannedModel


def diagnose(
    evidence: Evidence,
    *,
    start: int | None = None,
    catalog: Catalog | None = None,
    policy: str = "",
    gpus: str | None = None,
    model: Callable[[], PlannedModel | None] | None = None,
    lang: str | None = None,
) -> Answer:
    """Read and diagnose the evidence.

    Args:
        evidence: Logs, optionally with their command.
        start: Number of the launch, from 1; None or 0 for that of the evidence, else the last.
        catalog: Symptoms and policies; by default those of the package, and the user's own.
        policy: Id of a policy whose steps are added to the remedies if they can help.
        gpus: GPUs of the launch, as in `8xRTX3090`; plans need them.
        model: Returns the launch's model if it is not in the catalog. Only the user who
            launched it may read its folder: a log from someone else must not name one.
        lang: Language of the texts, as in `zh`; default: that of `VLLM_RUNBOOKS_LANG`, else
            English.

    Raises:
        InputError: The launch, policy, GPU or language does not exist, or the evidence is a
            question without a log.
    """
    from vllm_runbooks.diagnosis import answer as _answer

    check_texts(policy=policy, gpus=gpus, lang=lang)
    if start is not None and (isinstance(start, bool) or not isinstance(start, int)):
        raise InputError(f"start: {start!r} is not a whole number; use 1 or more, or 0 for the last launch")
    check_log(evidence)
    shelf = in_language(catalog or load_catalog(), lang)
    chosen_policy = shelf.policy(policy) if policy.strip() else None
    gpu_cards, note = (cards(gpus), None) if gpus else _own_cards(evidence)
    answer = _answer.answer(
        evidence,
        shelf,
        knowledge,
        start=start or evidence.start,
        policy=chosen_policy,
        cards=gpu_cards,
        specs=specs,
        model=model,
        cached=_cached_model,
    )
    return answer if note is None else replace(answer, notes=(languages.Wording(shelf.lang)(note), *answer.notes))


def _cached_model(name: str, options: Mapping[str, Any]) -> PlannedModel | None:
    revision, folder = model_cache.placement(options)
    if not model_cache.cached(name, revision, folder):
        return None
    from vllm_runbooks.plan import planner

    return planner.cached_model(name, options)


_MOST_LOGS = 50


def different_launches(
    evidence: Evidence, answer: Answer, *, catalog: Catalog | None = None, policy: str = "", gpus: str | None = None
) -> tuple[Answer, ...]:
    """The answer of each log by itself, if the logs are of different launches; else empty.

    Logs of different models are, and so is the log of a server that is ready next to one of another release.
    """
    documents = evidence.documents
    is_whole = evidence.case is not None or evidence.pack is not None or evidence.command is not None
    if is_whole or answer.nodes is not None or not 1 < len(documents) <= _MOST_LOGS:
        return ()
    parts = [replace(evidence, documents=(document,)) for document in documents]
    own = tuple(diagnose(part, catalog=catalog, policy=policy, gpus=gpus) for part in parts)
    models = {Path(one.facts.model).name.lower() for one in own if one.facts.model}
    releases = {one.vllm.version for one in own if one.vllm.version}
    is_ready = any(one.vllm.version and one.outcome.is_healthy for one in own)
    if len(models) < 2 and (len(releases) < 2 or not is_ready):
        return ()
    return own


def check_log(evidence: Evidence) -> None:
    """Reject a recorded case without a log.

    Raises:
        InputError: The case has no log.
    """
    if evidence.case and evidence.case.kind in _WITHOUT_A_LOG:
        raise InputError(f"{evidence.case.id}: is {_WITHOUT_A_LOG[evidence.case.kind]}")


UNKNOWN_CARDS = "The pack has GPUs that are not in this catalog; use --gpus."


def _own_cards(evidence: Evidence) -> tuple[tuple[HostGpu, ...], str | None]:
    """The GPUs that the evidence names, and a note on unknown ones.

    Raises:
        InputError: They are given as a file or as this host's, not by name.
    """
    if evidence.snapshot is not None:
        from vllm_runbooks.host import inspection as inventories

        return inventories.cards(inventories.read(evidence.snapshot, "the pack's inventory"), specs(), "the pack"), None
    if not evidence.gpus:
        return (), None
    from vllm_runbooks.catalog.specs import is_by_name

    if not is_by_name(evidence.gpus):  # untrusted text must not open files of this host
        raise InputError(f"{evidence.pack}: its GPUs name a file or this host, which a pack cannot; use --gpus")
    try:
        return specs().gpus(evidence.gpus), None
    except InputError:
        return (), UNKNOWN_CARDS


_WITHOUT_A_LOG = {
    CaseKind.QUESTION: "a recorded question without a log; use vllm-runbooks plan",
    CaseKind.SNAPSHOT: "a host snapshot without a log; use vllm-runbooks inventory",
    CaseKind.NODES: "a case of several nodes without a log; use vllm-runbooks cluster check",
    CaseKind.JOB: "a job for an edge chip; use the runbook edge10-toolchain",
    CaseKind.SERVER: "a recorded running server; use vllm-runbooks probe",
}


def follow(
    name: str, *, interrupts: Callable[[], int], vllm: str | None = None, catalog: Catalog | None = None
) -> Iterator[Answer]:
    """Diagnose a growing log: yield an answer whenever it pauses, and at its end.

    Args:
        name: A file, which ends with an interrupt, or `-` for standard input.
        catalog: Symptoms and policies; by default those of the package.
        vllm: The release; by default as printed in the log.
        interrupts: Returns the number of the user's interrupts.

    Raises:
        InputError: The file cannot be read, or is binary.
    """
    from vllm_runbooks.diagnosis import answer as _answer

    with _evidence.opened(name) as descriptor:
        document = _evidence.growing(descriptor, Path(name), interrupts)
        shelf = in_language(catalog or load_catalog(), None)
        yield from _answer.follow(Evidence((document,), vllm=vllm), shelf, knowledge, specs=specs)


def read(evidence: Evidence) -> list[ServerRun]:
    """Every launch in the evidence: phases, figures, tracebacks."""
    from vllm_runbooks.diagnosis import answer as _answer

    return _answer.read_starts(evidence, load_catalog())[0]


def check_claims(evidence: Evidence) -> tuple[CheckedClaim, ...]:
    """Check a document's claims about a recorded case on its own log; empty for other evidence."""
    from vllm_runbooks.diagnosis import claims as _claims
    from vllm_runbooks.plan.planner import planned

    authored = evidence.case.claims if evidence.case else None
    if authored is None:
        return ()
    answer, starts = (diagnose(evidence), read(evidence)) if evidence.documents else (None, [])
    return _claims.check(authored, answer, starts, evidence, planned=planned, card=lambda name: specs().gpu(name))


def verdict(answer: Answer, evidence: Evidence) -> RunbookVerdict:
    """The verdict on an answer: against its case and claims, else on whether anything is wrong."""
    from vllm_runbooks.diagnosis import expected as diagnosis_expected

    return diagnosis_expected.verdict(answer, evidence.case, check_claims(evidence))


def from_log(log: str, *, gpus: str | None = None, vllm: str | None = None, start: int | None = None) -> PlanComparison:
    """Printed and planned memory of a launch: the `plan` part of its diagnosis.

    Raises:
        InputError: the log cannot be read, or has nothing to compare.
    """
    plan = diagnose(sources.load_files([log], vllm=vllm), start=start, gpus=gpus).plan
    if plan is None:
        raise InputError(f"{log}: no memory figures to compare; use the log of a launch")
    return plan
