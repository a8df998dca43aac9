"""The front door in a browser: texts and settings to the documents that the commands print, and what is shown of them.

A page hands over one request as JSON, with the bytes of its files, and is given one JSON document back. Nothing of a
host is asked here: cards, models and cases are those of the catalog, whose indexes are compiled beforehand.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from vllm_runbooks.catalog import compiled, folders, languages, options
from vllm_runbooks.catalog import specs as _specs
from vllm_runbooks.catalog.languages import LANGUAGES, Wording
from vllm_runbooks.catalog.specs import Specs
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.display import Shown, to_json, visible
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.evidence import Case, CaseKind, Evidence, PlanAsked
from vllm_runbooks.core.record_forms import record
from vllm_runbooks.core.records import Answer
from vllm_runbooks.core.redaction import redact
from vllm_runbooks.diagnosis import answer as _answer
from vllm_runbooks.diagnosis.render import annotated as render_annotated
from vllm_runbooks.diagnosis.render import answers as render_answers
from vllm_runbooks.lint import linting as _lint
from vllm_runbooks.lint import render as render_issues
from vllm_runbooks.lint import ways_out as commands
from vllm_runbooks.lint.linting import Knowledge
from vllm_runbooks.plan import calibration
from vllm_runbooks.plan import reading as plan_reading
from vllm_runbooks.plan.budget import Subject
from vllm_runbooks.plan.drafts import draft_in_catalog
from vllm_runbooks.plan.render import plans as render_plans
from vllm_runbooks.reading import evidence as _evidence
from vllm_runbooks.reading.arguments.typed import option_words

CASE = "case.json"
"""A recorded case's `case.yaml` as a record, which whoever ships the data for a browser lays beside it."""
_ENGINE = (
    ("utilization", "--gpu-memory-utilization"),
    ("context", "--max-model-len"),
    ("sequences", "--max-num-seqs"),
)
"""Fields of the page for plans, and the engine's options that they are."""
_TOO_DEEP = "the text is nested more deeply than this browser's memory holds; give the part that matters"
_TOO_LARGE = "the text needs more memory than this browser gives; give the part that matters"
_OUTCOMES = {True: "it fits", False: "it does not fit", None: "whether it fits is not known"}
_LONGEST_NUMBER = 6
"""Digits of an example's number."""


class File(NamedTuple):
    """A text that was handed over: a dropped file, or what was pasted, which has no name."""

    name: str
    raw: bytes


@dataclass(frozen=True)
class Told:
    """An answer as a page takes it."""

    document: str
    """The very text that the command prints with `--format json`."""
    status: int
    """The command's exit status."""
    outcome: str
    """What came of it, in a few words."""
    sections: tuple[tuple[str, str], ...]
    """Heading and HTML of each part; what is empty is left out."""
    exact: Mapping[str, str] = field(default_factory=dict)
    """Texts to be copied that are not shown as they are: as a page shows them, to what they are."""
    lang: str | None = None
    """What HTML calls the language of the headings; None: English."""
    text: str | None = None
    """For a script that is mended: the whole of it, its secrets as they are, for the user's own file."""


Named = tuple[str, str]
"""An id and a title."""


@dataclass(frozen=True)
class Choices:
    """What a page offers to choose from."""

    releases: tuple[str, ...]
    cards: tuple[str, ...]
    models: tuple[str, ...]
    policies: tuple[Named, ...]
    cases: Mapping[str, tuple[Named, ...]]
    """Recorded cases by what a page does with them; so are the examples, which are a symptom's or a rule's first."""
    examples: Mapping[str, tuple[Named, ...]]


@cache
def _shelf() -> Catalog:
    return compiled.load()


@cache
def _known() -> Specs:
    return _specs.load()


@cache
def _knowledge(lang: str | None = None) -> Knowledge:
    return Knowledge(compiled.load_rules().by_id, _known(), lang)


def ask(request: str, files: Sequence[tuple[str, bytes]] = ()) -> str:
    """Answer one request of a page.

    Args:
        request: JSON object: `do` is "diagnose", "lint", "plan", "case", "example" or "choices"; the rest are the
            arguments of the function of that name.
        files: Names and bytes that were handed over; an empty name is a pasted text's.

    Returns:
        JSON object: the fields of what the function returns; or `refused`, the line that the command would print.
    """
    redact.forget()
    try:
        told = json.loads(request)
        made = _does(told.pop("do", None))([File(name, bytes(raw)) for name, raw in files], **told)
    except RunbooksError as error:
        return json.dumps({"refused": visible(redact.redact_text(str(error)))})
    except RecursionError:
        return json.dumps({"refused": _TOO_DEEP})
    except MemoryError:
        return json.dumps({"refused": _TOO_LARGE})
    return json.dumps(made if isinstance(made, dict) else asdict(made), ensure_ascii=False)


def _does(name: object) -> Callable[..., Any]:
    """The function of that name.

    Raises:
        InputError: there is none.
    """
    if name not in _DO:
        raise InputError(f"do: {str(name)[:80]!r} is nothing that is done here; use one of {', '.join(_DO)}")
    return _DO[str(name)]


def warm() -> None:
    """Load what the first answer needs, so that it is there when a page is told that all is ready."""
    _ = _shelf().patterns
    options.load(options.known_releases()[-1])
    _knowledge()


def choices(_: Sequence[File] = ()) -> Choices:
    """What a page offers to choose from."""
    cases: dict[str, list[Named]] = {does: [] for does in _KINDS.values()}
    for path in sorted(folders.cases_dir().glob(f"*/{CASE}")):
        one = _read_case(path)
        if one.kind in _KINDS:
            cases[_KINDS[one.kind]].append((one.id, one.title))
    return Choices(
        options.known_releases(),
        tuple(gpu.name for gpu in _known().table.gpus),
        tuple(sorted(_known().texts)),
        tuple((each.id, each.title) for each in _shelf().policies.values()),
        {does: tuple(rows) for does, rows in cases.items()},
        {
            "diagnose": tuple((each.id, each.title) for each in _shelf().symptoms.values() if each.examples),
            "lint": tuple((each.id, each.title) for each in _knowledge().rules.values() if each.examples),
        },
    )


def example(_: Sequence[File], *, name: str) -> dict[str, Any]:
    """The first example of a symptom or a rule, or the one whose number from 1 follows its id behind a colon.

    Raises:
        InputError: there is none.
    """
    named, number = name.partition(":")[::2]
    found = _shelf().symptoms.get(named) or _knowledge().rules.get(named)
    place = int(number) if number.isdecimal() and len(number) <= _LONGEST_NUMBER else int(not number)
    if found is None or not 0 < place <= len(found.examples):
        raise InputError(f"{name[:80]}: is no example of the catalog; choose one of the list")
    one = found.examples[place - 1]
    settings = {"vllm": one.vllm, "gpus": getattr(one, "gpus", None)}
    return {"text": one.text, "name": getattr(one, "file", ""), "settings": settings}


def _read_case(path: Path) -> Case:
    return record(Case, json.loads(path.with_name(CASE).read_text(encoding="utf-8")))


def _recorded(name: str, vllm: str | None) -> Evidence:
    """A recorded case.

    Raises:
        InputError: there is none of this name.
    """
    return _evidence.load(name, read_case=_read_case, cases=folders.cases_dir(), vllm=vllm)


def case(_: Sequence[File], *, name: str) -> dict[str, Any]:
    """The text of a recorded case, and what a page fills in for it.

    Raises:
        InputError: there is none of this name.
    """
    if not any(path.parent.name == name for path in folders.cases_dir().glob(f"*/{CASE}")):
        raise InputError(f"{name[:80]}: is no recorded case; choose one of the list")
    found = _recorded(name, None)
    if found.case is not None and found.case.plan is not None:
        asked = found.case.plan
        sizes = {"tp": asked.tp, "pp": asked.pp, "dp": asked.dp}
        fields = {"model": asked.model, "gpus": asked.gpus, "vllm": asked.vllm, "more": _written(asked)}
        return {"settings": {**fields, **sizes}}
    text = "\n".join(one.text for one in found.documents)
    return {"text": text, "command": found.command, "settings": {"vllm": found.vllm}}


def _written(asked: PlanAsked) -> str:
    """The further options of a recorded question as words of a command."""
    by_dest = options.load(asked.vllm).by_dest
    words = [word for dest, value in asked.options.items() for word in option_words(by_dest[dest], value)]
    return shlex.join(words)


def diagnose(
    files: Sequence[File],
    *,
    case: str = "",
    command: str = "",
    vllm: str | None = None,
    gpus: str | None = None,
    start: int | None = None,
    policy: str = "",
    lang: str | None = None,
) -> Told:
    """What `vllm-runbooks diagnose` says of the files, or of a recorded case; `command` is the text they belong to.

    `lang` is the language of the texts, as in `zh`; None is English.

    Raises:
        InputError: as the command.
    """
    tongue = languages.chosen(lang)
    shelf = _shelf() if tongue is None else _shelf().told_in(tongue)
    asked = shelf.policy(policy) if policy.strip() else None
    if vllm:
        options.nearest(vllm)
    if case:
        found = _recorded(case, vllm or None)
    else:
        if not files:
            raise InputError("no log is given; paste one, or choose a file or a recorded case")
        texts = tuple(
            _evidence.handed(one.name, one.raw)
            if one.name
            else _evidence.pasted(one.raw.decode("utf-8", "replace")).documents[0]
            for one in files
        )
        found = Evidence(texts, vllm=vllm or None)
    if command.strip():
        commands.check_starts(command, "the command")
        found = replace(found, command=command)
    cards = _known().gpus(gpus) if gpus else ()
    said = _answer.answer(
        found, shelf, lambda: _knowledge(tongue), start=start, policy=asked, cards=cards, specs=_known
    )
    wrong = said.root_cause is not None or not said.outcome.is_healthy
    outcome = "a cause was found" if said.root_cause else "no cause was found" if wrong else "nothing is wrong"
    return Told(
        to_json(said),
        int(wrong),
        outcome,
        tuple(_of_log(said, found)),
        _exact(remedy.command for remedy in said.remedies),
        lang=_tag(tongue),
    )


def _exact(texts: Iterable[str | None]) -> dict[str, str]:
    """Those among the texts that are shown otherwise than they are; a page leaves out a line's end that begins one."""
    shown = {visible(text).removeprefix("\n"): text for text in texts if text is not None}
    return {one: text for one, text in shown.items() if one != text}


def _tag(lang: str | None) -> str | None:
    return None if lang is None else LANGUAGES[lang].tag


def _of_log(said: Answer, found: Evidence) -> list[tuple[str, str]]:
    """The parts of a diagnosis; those that would only say that there is nothing are left out."""
    say = Wording(said.lang)
    parts: list[tuple[str, Shown]] = [(say("Answer"), render_answers.cause(said))]
    if said.root_cause is not None:
        parts.append((say("For and against"), render_answers.checks(said)))
    parts.append((say("Ways out"), render_answers.remedies(said)))
    if said.root_cause is not None and any(name.startswith("tried") for name in said.root_cause.captures):
        parts.append((say("Memory at the failure"), render_answers.memory(said)))
    # The mark stands before what is in English in any case.
    if said.plan is not None and said.plan.terms:
        parts.append((say.mark + say("Plan against actual"), render_plans.shown(said.plan)))
    parts += [
        (say.mark + say("The log"), render_annotated.log(said, found.documents)),
        (say("The start's own figures"), render_answers.facts(said)),
        (say("Starts in the text"), render_answers.starts(said)),
        (say("Other findings"), render_answers.others(said)),
    ]
    return [(title, shown.html) for title, shown in parts]


def lint(
    files: Sequence[File],
    *,
    vllm: str | None = None,
    gpus: str | None = None,
    case: str = "",
    lang: str | None = None,
) -> Told:
    """What `vllm-runbooks lint --fix` says of the first file, with the others beside it as the files that it names.

    `lang` as for `diagnose`.

    Raises:
        InputError: as the command.
    """
    tongue = languages.chosen(lang)
    knowledge, say = _knowledge(tongue), Wording(tongue)
    if case:
        with _evidence.wanted_script():
            (document,) = _recorded(case, None).documents
        name, raw = case, document.text.encode()
    elif files:
        name, raw = files[0]
    else:
        raise InputError("no script is given; paste one, or choose a file")
    where = name or "the pasted text"
    _evidence.check_rewritable(raw, where)
    text = ""
    if raw or not name:
        with _evidence.wanted_script():
            text = _evidence.script(_evidence.handed(where, raw), where)
    beside = {one.name: one.raw.decode("utf-8", "replace") for one in files[1:]}
    named = {each: beside[each] for each in _lint.config_names(text, name) if each in beside} if beside else {}
    asked = _lint.Asked(name, vllm or None, _known().gpus(gpus) if gpus else None, named)
    said = _lint.lint(text, knowledge, asked, fix=True)
    parts = [(say("Findings"), render_issues.table(said))]
    if said.fixed is not None:
        parts += [
            (say("Corrected text"), render_issues.script(said.fixed)),
            (say("Difference"), render_issues.difference(_lint.hidden(text, knowledge, asked), said)),
        ]
    parts.append((say.mark + say("What is started"), render_issues.starts(said)))
    mended = _lint.mended(text, knowledge, asked)
    status = int(bool(render_issues.wrong(said.issues)))
    sections = tuple((title, shown.html) for title, shown in parts)
    outcome = "something is wrong" if status else "nothing is wrong"
    return Told(to_json(said), status, outcome, sections, _exact([said.fixed]), _tag(tongue), mended)


def plan(
    files: Sequence[File],
    *,
    model: str = "",
    gpus: str = "",
    vllm: str | None = None,
    tp: int | None = None,
    pp: int | None = None,
    dp: int | None = None,
    utilization: str = "",
    context: str = "",
    sequences: str = "",
    more: str = "",
    find: str = "",
) -> Told:
    """What `vllm-runbooks plan` says; a file is the model's config.json, and `more` further options as for vllm serve.

    Raises:
        InputError: as the command.
    """
    if not model.strip() and not files:
        raise InputError("no model is given; choose one, or give its config.json")
    if not gpus.strip():
        raise InputError("no cards are given; write some, as in 8xRTX3090")
    given = {"utilization": utilization, "context": context, "sequences": sequences}
    words = [word for name, option in _ENGINE if given[name].strip() for word in (option, given[name].strip())]
    asked = plan_reading.read(
        plan_reading.Sources(_model(files), lambda name: draft_in_catalog(name, _known()), _known().gpus, _knowledge),
        model.strip() or files[0].name,
        gpus,
        vllm=vllm or None,
        sizes={"tp": tp, "pp": pp, "dp": dp},
        arguments=[*words, *_words(more)],
        calibrate=calibration.load(),
    )
    said = plan_reading.answered(asked, _knowledge(), _known(), what=find or None)
    sections = (("Plan", render_plans.html(said)),)
    return Told(to_json(said), int(said.fits is not True), _OUTCOMES[said.fits], sections)


def _model(files: Sequence[File]) -> Callable[[str], Subject]:
    if not files:
        return lambda name: plan_reading.model_in_catalog(name, _known())
    return lambda name: plan_reading.told_model(name, files[0].raw, source=files[0].name)


def _words(more: str) -> list[str]:
    """Words of further options.

    Raises:
        InputError: a quotation is not closed.
    """
    try:
        return shlex.split(more)
    except ValueError as error:
        raise InputError(f"further options: {error}; write them as for vllm serve") from None


_KINDS = {CaseKind.LOG: "diagnose", CaseKind.SCRIPT: "lint", CaseKind.QUESTION: "plan"}
"""What a page does with a recorded case."""
_DO: Mapping[str, Callable[..., Any]] = {
    "case": case,
    "choices": choices,
    "diagnose": diagnose,
    "example": example,
    "lint": lint,
    "plan": plan,
}
