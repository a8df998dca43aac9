"""Evidence to an answer and its verdict, with the catalog, the rules and the planner at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_runbooks.catalog import languages
from vllm_runbooks.catalog.load import in_language, load_catalog, specs
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.errors import InputError, check_texts
from vllm_runbooks.core.evidence import CaseKind, Evidence
from vllm_runbooks.core.records import Answer, Compared, JudgedClaim, Judgement, Start
from vllm_runbooks.host.loading import cards
from vllm_runbooks.lint.knowledge import knowledge
from vllm_runbooks.reading import evidence as _evidence
from vllm_runbooks.reading import sources

if TYPE_CHECKING:
    from vllm_runbooks.catalog.specs import Card
    from vllm_runbooks.plan.budget import Subject


def diagnose(
    evidence: Evidence,
    *,
    start: int | None = None,
    catalog: Catalog | None = None,
    policy: str = "",
    gpus: str | None = None,
    model: Callable[[], Subject | None] | None = None,
    lang: str | None = None,
) -> Answer:
    """Read and diagnose the evidence.

    `start` chooses one of several starts by number, from 1; None or 0: that of the evidence, else the last.
    `policy` names a policy of the catalog, whose steps are added to the remedies where they can help. `gpus` names the
    cards of the start, as in `8xRTX3090`, where they are known: plans need them. `model` tells its model where that is
    none of the catalog: whoever has started it may read its folder, which a log of somebody else must not decide.
    `lang` is the language of the texts, as in `zh`; None is that of `VLLM_RUNBOOKS_LANG`, else English.

    Raises:
        InputError: there is no such start, policy, card or language, or the evidence is a question without a log.
    """
    from vllm_runbooks.diagnosis import answer as _answer

    check_texts(policy=policy, gpus=gpus, lang=lang)
    if start is not None and (isinstance(start, bool) or not isinstance(start, int)):
        raise InputError(f"start: {start!r} is no whole number; give one from 1, or 0 for the last start")
    check_log(evidence)
    shelf = in_language(catalog or load_catalog(), lang)
    asked = shelf.policy(policy) if policy.strip() else None
    found, note = (cards(gpus), None) if gpus else _own_cards(evidence)
    answer = _answer.answer(
        evidence, shelf, knowledge, start=start or evidence.start, policy=asked, cards=found, specs=specs, model=model
    )
    return answer if note is None else replace(answer, notes=(languages.Wording(shelf.lang)(note), *answer.notes))


def check_log(evidence: Evidence) -> None:
    """Refuse a recorded case that is of something else than a log.

    Raises:
        InputError: it is.
    """
    if evidence.case and evidence.case.kind in _WITHOUT_A_LOG:
        raise InputError(f"{evidence.case.id}: is {_WITHOUT_A_LOG[evidence.case.kind]}")


UNKNOWN_CARDS = "The pack names cards that this catalog does not know; name them with --gpus."


def _own_cards(evidence: Evidence) -> tuple[tuple[Card, ...], str | None]:
    """The cards that the evidence itself names, and what is to be said of those that are not known here.

    Raises:
        InputError: they are none by name, but a file's or this host's.
    """
    if evidence.snapshot is not None:
        from vllm_runbooks.host import inspection as inventories

        return inventories.cards(inventories.read(evidence.snapshot, "the pack's inventory"), specs(), "the pack"), None
    if not evidence.gpus:
        return (), None
    from vllm_runbooks.catalog.specs import is_by_name

    if not is_by_name(evidence.gpus):  # what somebody else wrote down opens no file of this host
        raise InputError(f"{evidence.pack}: names cards by a file or as this host's, which no pack does; give --gpus")
    try:
        return specs().gpus(evidence.gpus), None
    except InputError:
        return (), UNKNOWN_CARDS


_WITHOUT_A_LOG = {
    CaseKind.QUESTION: "a recorded question and holds no log; vllm-runbooks plan answers it",
    CaseKind.SNAPSHOT: "a host's snapshot and holds no log; vllm-runbooks inventory reads it",
    CaseKind.NODES: "several nodes and holds no log; vllm-runbooks cluster check compares them",
    CaseKind.JOB: "a job for an edge chip; the runbook edge10-toolchain reads it",
    CaseKind.SERVER: "a running server as observed; vllm-runbooks probe judges it",
}


def follow(
    name: str, *, interrupts: Callable[[], int], vllm: str | None = None, catalog: Catalog | None = None
) -> Iterator[Answer]:
    """Diagnose a log while it is written: an answer whenever it pauses, and the last one at its end.

    `name` is a file, which ends with an interrupt, or `-`, standard input; `interrupts` counts the user's interrupts.

    Raises:
        InputError: the file cannot be read, or is no text.
    """
    from vllm_runbooks.diagnosis import answer as _answer

    with _evidence.opened(name) as descriptor:
        document = _evidence.growing(descriptor, Path(name), interrupts)
        shelf = in_language(catalog or load_catalog(), None)
        yield from _answer.follow(Evidence((document,), vllm=vllm), shelf, knowledge, specs=specs)


def read(evidence: Evidence) -> list[Start]:
    """Every start in the evidence, as read: phases, figures, tracebacks."""
    from vllm_runbooks.diagnosis import answer as _answer

    return _answer.read_starts(evidence, load_catalog())[0]


def judge_claims(evidence: Evidence) -> tuple[JudgedClaim, ...]:
    """What a document says about a recorded case, judged on the case's own log; none for any other evidence."""
    from vllm_runbooks.diagnosis import claims as _claims
    from vllm_runbooks.plan.planner import planned

    authored = evidence.case.claims if evidence.case else None
    if authored is None:
        return ()
    found, starts = (diagnose(evidence), read(evidence)) if evidence.documents else (None, [])
    return _claims.judge(authored, found, starts, evidence, planned=planned, card=lambda name: specs().gpu(name))


def judge(found: Answer, evidence: Evidence) -> Judgement:
    """The verdict on an answer: against the evidence's case and its claims, else on whether anything is wrong."""
    from vllm_runbooks.diagnosis import expected as diagnosis_expected

    return diagnosis_expected.judge(found, evidence.case, judge_claims(evidence))


def from_log(log: str, *, gpus: str | None = None, vllm: str | None = None, start: int | None = None) -> Compared:
    """What a start printed beside what is planned for it: the `plan` part of its diagnosis.

    Raises:
        InputError: The log cannot be read, or nothing in it can be compared.
    """
    found = diagnose(sources.load_files([log], vllm=vllm), start=start, gpus=gpus).plan
    if found is None:
        raise InputError(f"{log}: prints no memory of a start that could be compared; give the log of a start")
    return found
