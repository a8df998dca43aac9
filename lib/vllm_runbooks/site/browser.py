"""The library in a browser: requests from texts and settings, answers as documents and views.

A page sends one request as JSON, with the bytes of its files, and receives one JSON document.
Nothing is read from a host: GPUs, models and cases are those of the catalog, whose indexes are
compiled beforehand.
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
from vllm_runbooks.catalog.toolchains import TOOLCHAINS
from vllm_runbooks.core.display import RenderedView, to_json, visible
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.evidence import Case, CaseKind, Evidence, PlanQuestion
from vllm_runbooks.core.record_forms import record
from vllm_runbooks.core.records import Answer
from vllm_runbooks.core.redaction import redact
from vllm_runbooks.core.views.summary import Step, Summary
from vllm_runbooks.core.views.summary_html import summary_html
from vllm_runbooks.diagnosis import answer as _answer
from vllm_runbooks.diagnosis.render import annotated as render_annotated
from vllm_runbooks.diagnosis.render import answers as render_answers
from vllm_runbooks.edge10 import scripts
from vllm_runbooks.edge10.scripts import CompilePrograms
from vllm_runbooks.lint import linting as _lint
from vllm_runbooks.lint import render as render_issues
from vllm_runbooks.lint import summaries as lint_summaries
from vllm_runbooks.lint import ways_out as commands
from vllm_runbooks.lint.linting import Knowledge
from vllm_runbooks.lint.records import Linted
from vllm_runbooks.lint.selection import LintSettings
from vllm_runbooks.plan import calibration
from vllm_runbooks.plan import reading as plan_reading
from vllm_runbooks.plan import remedies as plan_remedies
from vllm_runbooks.plan.budget import PlannedModel
from vllm_runbooks.plan.drafts import draft_in_catalog
from vllm_runbooks.plan.render import plans as render_plans
from vllm_runbooks.plan.render.summaries import layout_of_first_change, summarize, with_text
from vllm_runbooks.reading import evidence as _evidence
from vllm_runbooks.reading.arguments.typed import option_words

CASE = "case.json"
"""A recorded case's `case.yaml` as a record, next to it in the data for a browser."""
_ENGINE = (
    ("utilization", "--gpu-memory-utilization"),
    ("context", "--max-model-len"),
    ("sequences", "--max-num-seqs"),
)
"""Fields of the plan page by engine option."""
_FIELDS = {"command": "the launch command", "gpus": "the GPUs", "vllm": "the release"}
"""Inputs of a diagnosis as the page calls them."""
_RULE_PAGES = "rules/"
"""Folder of the rules' pages, from the pages in the browser."""
_TOO_DEEP = "the text is nested too deeply for this browser; use the relevant part"
_TOO_LARGE = "the text needs more memory than this browser has; paste only the part that matters"
_OUTCOMES = {True: "it fits", False: "it does not fit", None: "unknown whether it fits"}
_LONGEST_NUMBER = 6
"""Most digits of an example's number."""


class File(NamedTuple):
    """A file or pasted text; a paste has no name."""

    name: str
    raw: bytes


@dataclass(frozen=True)
class BrowserAnswer:
    """An answer for a page."""

    document: str
    """The exact text that the command prints with `--format json`."""
    status: int
    """Exit status of the command."""
    outcome: str
    """The outcome in a few words."""
    sections: tuple[tuple[str, str], ...]
    """Heading and HTML of each part, without empty ones."""
    exact: Mapping[str, str] = field(default_factory=dict)
    """Texts to copy that are displayed differently: displayed text to original."""
    lang: str | None = None
    """HTML language of the headings; None for English."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """Values for the page's address, without secrets: of a log its cause, outcome and release, never its text."""
    text: str | None = None
    """The whole corrected script, with its secrets, for the user's own file."""


Named = tuple[str, str]
"""An id and a title."""


@dataclass(frozen=True)
class Choices:
    """Choices that a page offers."""

    releases: tuple[str, ...]
    cards: tuple[str, ...]
    models: tuple[str, ...]
    policies: tuple[Named, ...]
    cases: Mapping[str, tuple[Named, ...]]
    """Recorded cases by page; and examples, those of symptoms or rules first."""
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
        files: Names and bytes of the files; a pasted text has an empty name.

    Returns:
        JSON object: the fields of the function's result; or `refused`, the line that the command would print.
    """
    redact.forget()
    try:
        fields = json.loads(request)
        made = _does(fields.pop("do", None))([File(name, bytes(raw)) for name, raw in files], **fields)
    except RunbooksError as error:
        return json.dumps({"refused": visible(redact.redact_text(str(error)))})
    except RecursionError:
        return json.dumps({"refused": _TOO_DEEP})
    except MemoryError:
        return json.dumps({"refused": _TOO_LARGE})
    return json.dumps(made if isinstance(made, dict) else asdict(made), ensure_ascii=False)


def _does(name: object) -> Callable[..., Any]:
    """Function of this name.

    Raises:
        InputError: There is none.
    """
    if name not in _DO:
        raise InputError(f"do: {str(name)[:80]!r} is unknown; use one of {', '.join(_DO)}")
    return _DO[str(name)]


def warm() -> None:
    """Load the data of the first answer before a page reports that it is ready."""
    _ = _shelf().patterns
    options.load(options.known_releases()[-1])
    _knowledge()


def choices(_: Sequence[File] = ()) -> Choices:
    """Choices that a page offers."""
    cases: dict[str, list[Named]] = {does: [] for does in _KINDS.values()}
    for path in sorted(folders.cases_dir().glob(f"*/{CASE}")):
        case = _read_case(path)
        if case.kind in _KINDS:
            cases[_KINDS[case.kind]].append((case.id, case.title))
    return Choices(
        options.known_releases(),
        tuple(gpu.name for gpu in _known().table.gpus),
        tuple(sorted(_known().texts)),
        tuple((item.id, item.title) for item in _shelf().policies.values()),
        {does: tuple(rows) for does, rows in cases.items()},
        {
            "diagnose": tuple((item.id, item.title) for item in _shelf().symptoms.values() if item.examples),
            "lint": tuple((item.id, item.title) for item in _knowledge().rules.values() if item.examples),
        },
    )


def example(_: Sequence[File], *, name: str) -> dict[str, Any]:
    """First example of a symptom or a rule, or example N for the id with the suffix `:N`.

    Raises:
        InputError: There is none.
    """
    named, number = name.partition(":")[::2]
    documented = _shelf().symptoms.get(named) or _knowledge().rules.get(named)
    place = int(number) if number.isdecimal() and len(number) <= _LONGEST_NUMBER else int(not number)
    if documented is None or not 0 < place <= len(documented.examples):
        raise InputError(f"{name[:80]}: is not an example in the catalog; choose one from the list")
    sample = documented.examples[place - 1]
    settings = {"vllm": sample.vllm, "gpus": getattr(sample, "gpus", None)}
    return {"text": sample.text, "name": getattr(sample, "file", ""), "settings": settings}


def _read_case(path: Path) -> Case:
    return record(Case, json.loads(path.with_name(CASE).read_text(encoding="utf-8")))


def _recorded(name: str, vllm: str | None) -> Evidence:
    """A recorded case.

    Raises:
        InputError: There is none of this name.
    """
    return _evidence.load(name, read_case=_read_case, cases=folders.cases_dir(), vllm=vllm)


def case(_: Sequence[File], *, name: str) -> dict[str, Any]:
    """Text of a recorded case, and the values for the page's fields.

    Raises:
        InputError: There is none of this name.
    """
    if not any(path.parent.name == name for path in folders.cases_dir().glob(f"*/{CASE}")):
        raise InputError(f"{name[:80]}: is not a recorded case; choose one from the list")
    evidence = _recorded(name, None)
    if evidence.case is not None and evidence.case.plan is not None:
        plan = evidence.case.plan
        sizes = {"tp": plan.tp, "pp": plan.pp, "dp": plan.dp}
        fields = {"model": plan.model, "gpus": plan.gpus, "vllm": plan.vllm, "more": _written(plan)}
        return {"settings": {**fields, **sizes}}
    text = "\n".join(document.text for document in evidence.documents)
    return {"text": text, "command": evidence.command, "settings": {"vllm": evidence.vllm}}


def _written(plan: PlanQuestion) -> str:
    """Other options of a recorded question as command words."""
    by_dest = options.load(plan.vllm).by_dest
    words = [word for dest, value in plan.options.items() for word in option_words(by_dest[dest], value)]
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
) -> BrowserAnswer:
    """`vllm-runbooks diagnose` for the files, or for a recorded case; `command` is the text they belong to.

    `lang` is the language of the texts, as in `zh`; None is English.

    Raises:
        InputError: as the command.
    """
    tongue = languages.chosen(lang)
    shelf = _shelf() if tongue is None else _shelf().told_in(tongue)
    chosen_policy = shelf.policy(policy) if policy.strip() else None
    if vllm:
        options.nearest(vllm)
    if case:
        evidence = _recorded(case, vllm or None)
    else:
        if not files:
            raise InputError("no log; paste one, or choose a file or a recorded case")
        texts = tuple(
            _evidence.handed(file.name, file.raw)
            if file.name
            else _evidence.pasted(file.raw.decode("utf-8", "replace")).documents[0]
            for file in files
        )
        evidence = Evidence(texts, vllm=vllm or None)
    if command.strip():
        commands.check_starts(command, "the command")
        evidence = replace(evidence, command=command)
    cards = _known().gpus(gpus) if gpus else ()
    answer = _answer.answer(
        evidence, shelf, lambda: _knowledge(tongue), start=start, policy=chosen_policy, cards=cards, specs=_known
    )
    wrong = answer.root_cause is not None or not answer.outcome.is_healthy
    outcome = "a cause was found" if answer.root_cause else "no cause was found" if wrong else "nothing is wrong"
    shared = {
        "symptom": answer.root_cause.symptom if answer.root_cause is not None else None,
        "outcome": answer.outcome.value,
        "vllm": answer.vllm.version,
    }
    return BrowserAnswer(
        to_json(answer),
        int(wrong),
        outcome,
        tuple(_of_log(answer, evidence, gpus or "", has_command=bool(command.strip()))),
        _exact(remedy.command for remedy in answer.remedies),
        _tag(tongue),
        {name: value for name, value in shared.items() if value},
    )


def _exact(texts: Iterable[str | None]) -> dict[str, str]:
    """Texts that are displayed differently; a page drops a line end that begins one."""
    originals = {visible(text).removeprefix("\n"): text for text in texts if text is not None}
    return {display: text for display, text in originals.items() if display != text}


def _tag(lang: str | None) -> str | None:
    return None if lang is None else LANGUAGES[lang].tag


def _of_log(answer: Answer, evidence: Evidence, gpus: str, *, has_command: bool) -> list[tuple[str, str]]:
    """Parts of a diagnosis, without those that only report that there is nothing to show."""
    say = Wording(answer.lang)
    inputs = {key: say(label) for key, label in _FIELDS.items() if key != "command" or not has_command}
    parts: list[tuple[str, RenderedView]] = [
        (say("Answer"), render_answers.summary(answer, gpus=gpus, inputs=inputs)),
    ]
    if answer.root_cause is not None:
        parts.append((say("Why"), render_answers.explanation(answer)))
        parts.append((say("For and against"), render_answers.checks(answer)))
    parts.append((say("Fixes"), render_answers.remedies(answer)))
    if answer.root_cause is not None and any(name.startswith("tried") for name in answer.root_cause.captures):
        parts.append((say("Memory at the failure"), render_answers.memory(answer)))
    # English texts have the mark in any case.
    if answer.plan is not None and answer.plan.terms:
        parts.append((say.mark + say("Plan against actual"), render_plans.shown(answer.plan)))
    parts += [
        (say.mark + say("The log"), render_annotated.log(answer, evidence.documents)),
        (say("Figures of the launch"), render_answers.facts(answer)),
        (say("Launches in the log"), render_answers.starts(answer)),
        (say("Other findings"), render_answers.others(answer)),
    ]
    return [(title, part.html) for title, part in parts if not part.is_nothing]


def lint(
    files: Sequence[File],
    *,
    vllm: str | None = None,
    gpus: str | None = None,
    case: str = "",
    lang: str | None = None,
) -> BrowserAnswer:
    """`vllm-runbooks lint --fix` for the first file, with the others as the files that it names.

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
        raise InputError("no script; paste one, or choose a file")
    where = name or "the pasted text"
    _evidence.check_rewritable(raw, where)
    text = ""
    if raw or not name:
        with _evidence.wanted_script():
            text = _evidence.script(_evidence.handed(where, raw), where)
    beside = {file.name: file.raw.decode("utf-8", "replace") for file in files[1:]}
    named = {config: beside[config] for config in _lint.config_names(text, name) if config in beside} if beside else {}
    cards = _known().gpus(gpus) if gpus else None
    request = _lint.LintRequest(name, vllm or None, cards, named, _other_programs, reads_comments=True)
    linted = _lint.lint(text, knowledge, request, fix=True)
    hidden = _lint.hidden(text, knowledge, request)
    corrected = _lint.fixed_text(text, knowledge, request)
    shown = _with_release_field(linted)
    fixed = None if linted.fixed in (None, hidden) else linted.fixed
    rest = None if fixed is None else _lint.lint(corrected, knowledge, request)
    card = lint_summaries.page_summary(shown, name or say("your text"), _RULE_PAGES, rest, hidden)
    parts = [(say("Answer"), card)]
    if fixed is not None and rest is not None and not lint_summaries.is_in_card(linted):
        parts.append((say("Corrected text"), render_issues.corrected(fixed, linted.issues, rest)))
    if others := lint_summaries.beyond_card(shown):
        listed = RenderedView("", render_issues.rows_of(others, linted.lang, _RULE_PAGES))
        parts.append((say("Other findings" if len(others) < len(linted.issues) else "Findings"), listed))
    if fixed is not None:
        parts.append((say("Difference"), render_issues.difference(hidden, linted)))
    parts.append((say.mark + say("What is started"), render_issues.starts(shown)))
    status = int(LintSettings().is_failed(linted.issues))
    sections = tuple((title, part.html) for title, part in parts)
    outcome = "something is wrong" if status else "nothing is wrong"
    exact, shared = _exact([linted.fixed]), {"text": hidden}
    return BrowserAnswer(to_json(linted), status, outcome, sections, exact, _tag(tongue), shared, corrected)


def _with_release_field(linted: Linted) -> Linted:
    """The result with the release as the page describes it: a field sets it, not an option."""
    vllm = linted.vllm
    return replace(linted, vllm=replace(vllm, source="page")) if vllm.source == "newest" else linted


def _other_programs(text: str, name: str) -> CompilePrograms | None:
    """Programs of a text that run with another release: the compile programs of Edge10."""
    return scripts.apart(text, name, _knowledge(), TOOLCHAINS.load()[-1]) if "import" in text else None


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
) -> BrowserAnswer:
    """`vllm-runbooks plan`; a file is the model's config.json, and `more` other options as for vllm serve.

    Raises:
        InputError: as the command.
    """
    if not model.strip() and not files:
        raise InputError("no model; choose one, or paste its config.json")
    if not gpus.strip():
        raise InputError("no GPUs; enter them as in 8xRTX3090")
    ranges = {"utilization": utilization, "context": context, "sequences": sequences}
    words = [word for name, option in _ENGINE if ranges[name].strip() for word in (option, ranges[name].strip())]
    request = plan_reading.read(
        plan_reading.PlanSources(
            _model(files), lambda name: draft_in_catalog(name, _known()), _known().gpus, _knowledge
        ),
        model.strip() or files[0].name,
        gpus,
        vllm=vllm or None,
        sizes={"tp": tp, "pp": pp, "dp": dp},
        arguments=[*words, *_words(more)],
        calibrate=calibration.load(),
    )
    answer = plan_reading.answered(request, _knowledge(), _known(), what=find or None)
    remedies = plan_remedies.remedies(request, answer, _knowledge(), _known()) if answer.fits is not True else ()
    summary = summarize(answer, remedies, options=[*words, *_words(more)])
    shared = {"more": redact.redact_text(more)} if more.strip() else {}
    if not find and not files:
        typed = {"vllm": vllm, **ranges, **shared}
        summary = _with_links(summary, {"model": model.strip(), **typed})
    details = render_plans.details_html(answer, layout_of_first_change(answer, remedies))
    sections = (("Answer", summary_html(summary)), ("Layouts and memory", details))
    outcome = f"it {summary.state.lower()}" if summary.state.startswith("FITS AT") else _OUTCOMES[answer.fits]
    document = to_json(with_text(answer, remedies, summary))
    return BrowserAnswer(document, int(answer.fits is not True), outcome, sections, shared=shared)


def _with_links(summary: Summary, fields: Mapping[str, str | None]) -> Summary:
    """The summary with this page's own fragment in place of the command that finds the fewest GPUs."""

    def linked(step: Step) -> Step:
        words = shlex.split(step.command)
        if "--find" not in words:
            return step
        question = {**fields, "gpus": words[words.index("--gpus") + 1], "find": words[words.index("--find") + 1]}
        return replace(
            step, page="#" + "&".join(f"{name}={_quoted(value)}" for name, value in question.items() if value)
        )

    return replace(summary, steps=tuple(map(linked, summary.steps)))


def _quoted(value: str) -> str:
    """A value for the address; `urllib` would load sockets."""
    return "".join(c if c.isalnum() and c.isascii() else "".join(f"%{byte:02X}" for byte in c.encode()) for c in value)


def _model(files: Sequence[File]) -> Callable[[str, Mapping[str, Any]], PlannedModel]:
    if not files:
        return lambda name, _: plan_reading.model_in_catalog(name, _known())
    return lambda name, _: plan_reading.told_model(name, files[0].raw, source=files[0].name)


def _words(more: str) -> list[str]:
    """Words of other options.

    Raises:
        InputError: A quotation is not closed.
    """
    try:
        return shlex.split(more)
    except ValueError as error:
        raise InputError(f"further options: {error}; write them as options of vllm serve") from None


_KINDS = {CaseKind.LOG: "diagnose", CaseKind.SCRIPT: "lint", CaseKind.QUESTION: "plan"}
"""The page that uses a kind of recorded case."""
_DO: Mapping[str, Callable[..., Any]] = {
    "case": case,
    "choices": choices,
    "diagnose": diagnose,
    "example": example,
    "lint": lint,
    "plan": plan,
}
