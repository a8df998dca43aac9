"""Authored YAML to records, index and JSON Schemas: every problem named by file, line and field."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from vllm_runbooks import catalog, evidence, host_commands, inventories, languages, scan, specs, startup_log
from vllm_runbooks.answer import STEPS
from vllm_runbooks.authored import Location, Problem, named, plain, read_yaml, todos
from vllm_runbooks.authoring import entrances_file, rule_files, serving_file, spec_files, translations
from vllm_runbooks.authoring.rule_files import compile_rules, read_rule
from vllm_runbooks.authoring.yaml_files import date_problems, parsed, read_record, unknown_commands
from vllm_runbooks.catalog import Catalog
from vllm_runbooks.claims import figures
from vllm_runbooks.claims.expressions import Figures, faults
from vllm_runbooks.diagnosis import PLACEHOLDER, diagnose, fill, filled_or_plain
from vllm_runbooks.errors import CatalogError, InputError
from vllm_runbooks.history_records import Compared as Differences
from vllm_runbooks.history_records import Entry, Listed, Trend
from vllm_runbooks.host_records import Inspected
from vllm_runbooks.live_records import Guarded
from vllm_runbooks.pack_records import Manifest
from vllm_runbooks.plan_records import Layouts, Plan
from vllm_runbooks.probe_records import Health, Observation
from vllm_runbooks.records import (
    OBSERVATION,
    SNAPSHOT,
    UNPRINTED,
    WHERE_TOLD,
    Answer,
    Case,
    CaseFile,
    CaseKind,
    Claim,
    Claims,
    Compared,
    Condition,
    Document,
    Edit,
    Evidence,
    Expectation,
    Facts,
    Hit,
    LineFormat,
    Linted,
    Migrated,
    Outcome,
    Policy,
    RemedyText,
    Role,
    Rule,
    Severity,
    Signature,
    Symptom,
    document,
)
from vllm_runbooks.redact import redact_record
from vllm_runbooks.schedule_records import Job, Jobs, Turns

ORIGINS = ("vllm", "torch", "cuda", "nccl", "ray", "python", "uvicorn", "shell", "kernel", "wrapper")
"""Who may print a line."""
_UNITS = (
    "gib",
    "mib",
    "kib",
    "bytes",
    "tokens",
    "blocks",
    "seconds",
    "s",
    "percent",
    "characters",
    "items",
    "requests",
)
_FACTS = frozenset(field.name for field in fields(Facts))
_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "symptom": TypeAdapter(Symptom),
    "lines": TypeAdapter(list[LineFormat]),
    "case": TypeAdapter(CaseFile),
    "claims": TypeAdapter(Claims),
    "rule": rule_files.ADAPTER,
    "policy": TypeAdapter(Policy),
    "job": TypeAdapter(Job),
    "serving": serving_file.ADAPTER,
    "entrances": entrances_file.ADAPTER,
}
_PRINTED: dict[str, type] = {
    "diagnose": Answer,
    "pack": Manifest,
    "lint": Linted,
    "migrate": Migrated,
    "plan": Plan,
    "layouts": Layouts,
    "compared": Compared,
    "serve": Guarded,
    "schedule-list": Jobs,
    "schedule-show": Job,
    "schedule-wake": Turns,
    "probe": Health,
    "observation": Observation,
    "history": Listed,
    "entry": Entry,
    "trend": Trend,
    "diff": Differences,
    "inventory": Inspected,
}
"""Records that commands print as JSON."""


def _fields_with(mark: Mapping[str, Any]) -> dict[str, set[str]]:
    """The fields of printed records that have a mark, by the record's name."""
    kinds = (kind for kind in _PRINTED.values() if is_dataclass(kind))
    return {kind.__name__: {f.name for f in fields(kind) if f.metadata == mark} for kind in kinds}


_UNPRINTED = _fields_with(UNPRINTED)
"""Fields that no document has."""
_WHERE_TOLD = _fields_with(WHERE_TOLD)
"""Fields that a document has only where there is something to tell."""
_OBSERVATION: TypeAdapter[Any] = TypeAdapter(Observation)
_SIGNATURES = ("signatures", "companions")
_TESTED = ("argument", "fact", "capture", "outcome", "phase", "is_first")
"""What a condition can test, one of them each."""
_TESTED_LATE = ("argument", "fact", "capture")
"""What is still known when remedies are chosen."""
_NO_LITERAL = "needs a word"
"""How the one fault begins that a function's name may have: no log is searched for it."""
_FOUND_BY = {"lines": ("signatures", "examples", "near_misses", "explanation"), "comparison": ("explanation",)}
"""How a symptom is found, and what it then needs."""
_GROUP = re.compile(r"\(\?P<(\w+)>")
_COMPARED = "differences"
"""What a comparison tells."""


def read_words(path: Path, where: str | None = None) -> dict[str, str]:
    """Read a vocabulary, each word with its meaning; raises CatalogError with every problem, one a line."""
    where = where or path.name
    data = read_yaml(path, where)
    if not isinstance(data, dict):
        raise CatalogError(f"{where}:1: (file): must map each word to its meaning")
    problems: list[Problem] = [
        ((word,), "needs its meaning, in words") for word, said in data.items() if not isinstance(said, str)
    ]
    if problems:
        raise CatalogError("\n".join(named(data, where, problems)))
    return {str(word): str(said) for word, said in data.items()}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _words(path: Path, _content: str) -> dict[str, str]:
    return read_words(path)


def words(name: str, root: Path | None = None) -> dict[str, str]:
    """A vocabulary by name, `classes` or `captures`: the shipped one, with that of the user's own folder on top."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys((catalog.catalog_dir(), root or catalog.catalog_dir())):
        path = folder / f"{name}.yaml"
        if path.is_file():
            found.update(_words(path, _digest(path)))
    return found


def _faults(pattern: str) -> list[str]:
    """Why a pattern may not be used; what `re` only warns of counts as well."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        try:
            return scan.faults(pattern)
        except FutureWarning as warning:
            return [f"is ambiguous: {warning}; escape the sign"]


def read_patterns(path: Path, where: str | None = None) -> dict[str, list[str]]:
    """Read shared patterns, each name with its wordings; raises CatalogError with every problem, one a line."""
    where = where or path.name
    data = read_yaml(path, where)
    if not isinstance(data, dict):
        raise CatalogError(f"{where}:1: (file): must map each name to a list of patterns")
    shared: dict[str, list[str]] = {}
    problems: list[Problem] = []
    for name, wordings in data.items():
        listed = plain(wordings, "patterns") if isinstance(wordings, list) else None
        if not listed or not all(isinstance(wording, str) for wording in listed):
            problems.append(((name,), "must be a list of patterns"))
            continue
        shared[str(name)] = listed
        problems += [
            ((name, index), f"the pattern {fault}")
            for index, wording in enumerate(listed)
            for fault in _faults(wording)
        ]
    if problems:
        raise CatalogError("\n".join(named(data, where, problems)))
    return shared


@cache
def _patterns(path: Path, _content: str) -> dict[str, list[str]]:
    return read_patterns(path)


def _shared_patterns(root: Path) -> dict[str, list[str]]:
    """Patterns by name, each with its wordings: the shipped ones, and those of a folder of the user's own."""
    shared: dict[str, list[str]] = {}
    for path in dict.fromkeys((catalog.catalog_dir() / "patterns.yaml", root / "patterns.yaml")):
        if path.is_file():
            shared.update(_patterns(path, _digest(path)))
    return shared


def _expanded(signatures: tuple[Signature, ...], shared: Mapping[str, list[str]]) -> tuple[Signature, ...]:
    """Signatures with every `@name` replaced by the wordings of that name."""
    return tuple(
        replace(signature, pattern=wording)
        for signature in signatures
        for wording in (shared[signature.pattern[1:]] if signature.pattern.startswith("@") else [signature.pattern])
    )


def read_symptom(path: Path, where: str | None = None) -> Symptom:
    """Read one symptom; raises CatalogError with every problem of the file, one a line."""
    where = where or path.name
    data = read_yaml(path, where)
    symptom, problems = parsed(_ADAPTERS["symptom"], data)
    problems += todos(data)
    if symptom is not None:
        root = path.absolute().parent.parent
        shared = _shared_patterns(root)
        unknown = [
            ((name, index, "pattern"), f"{signature.pattern!r} is not in patterns.yaml")
            for name in _SIGNATURES
            for index, signature in enumerate(getattr(symptom, name))
            if signature.pattern.startswith("@") and signature.pattern[1:] not in shared
        ]
        problems += unknown
        problems += _signature_problems(symptom)
        if not unknown:
            symptom = replace(symptom, **{name: _expanded(getattr(symptom, name), shared) for name in _SIGNATURES})
            problems += _symptom_problems(symptom, path.stem, root)
        symptom = translations.unfolded(symptom)
        problems += translations.problems(symptom)
    if problems or symptom is None:
        raise CatalogError("\n".join(named(data, where, problems)))
    result: Symptom = symptom
    return result


def _signature_problems(symptom: Symptom) -> Iterator[Problem]:
    for name in _SIGNATURES:
        for index, signature in enumerate(getattr(symptom, name)):
            here = (name, index)
            if not signature.pattern.startswith("@"):
                for fault in _faults(signature.pattern):
                    yield (*here, "pattern"), f"the pattern {fault}"
            if signature.origin not in ORIGINS:
                yield (*here, "origin"), f"is {signature.origin!r}; write one of {', '.join(ORIGINS)}"
            for phase in signature.phases:
                if phase not in startup_log.PHASES:
                    yield (*here, "phases"), f"{phase!r} is no phase; write one of {', '.join(startup_log.PHASES)}"
            for frame in signature.frames:
                for fault in _faults(frame):
                    if not fault.startswith(_NO_LITERAL):
                        yield (*here, "frames"), f"{frame!r} {fault}"


def _symptom_problems(symptom: Symptom, stem: str, root: Path) -> Iterator[Problem]:
    if symptom.id != stem:
        yield ("id",), f"is {symptom.id!r}; the file's name says {stem!r}"
    yield from _class_problems(symptom, words("classes", root))
    if symptom.found_by not in _FOUND_BY:
        yield ("found_by",), f"is {symptom.found_by!r}; write {' or '.join(_FOUND_BY)}"
    for name in _FOUND_BY.get(symptom.found_by, ()):
        if not getattr(symptom, name):
            yield (name,), "is empty; a symptom needs at least one"
    captures = _captures(symptom)
    known = words("captures", root)
    for capture in sorted(captures):
        if capture.rsplit("_", 1)[-1] not in _UNITS and capture not in known:
            yield (
                ("signatures",),
                f"the group {capture!r} has no unit in its name (_gib, _tokens …) and is not in captures.yaml",
            )
    for index, example in enumerate(symptom.examples):
        for capture in example.captures:
            if capture not in captures:
                yield ("examples", index, "captures", capture), "is not a group of any signature"
    for index, condition in enumerate(symptom.conditions):
        for field, said in _condition_problems(condition):
            yield ("conditions", index, field), said
    if not filled_or_plain(symptom.do_first, {}, Facts()) or "Otherwise" in symptom.do_first:
        yield ("do_first",), "must hold without any figure, and each sentence by itself; see docs/authoring.md"
    if symptom.explanation and not any(fill(sentence, {}, Facts()) for sentence in symptom.explanation):
        yield ("explanation",), "needs a sentence without a figure: of a bare message nothing else would be said"
    for location, text in _texts(symptom):
        for name in PLACEHOLDER.findall(text):
            if not _is_known(name, captures):
                yield location, f"{{{name}}} is neither a capture of this symptom nor a fact"
        for said in _command_problems(text):
            yield location, said
    for index, remedy in enumerate(symptom.remedies):
        for place, said in _remedy_problems(remedy, captures):
            yield ("remedies", index, *place), said
    yield from date_problems(symptom.verified.date)


def _command_problems(text: str) -> Iterator[str]:
    """Printed commands that are none of the table, or hold what a log prints: that is text of whoever wrote the log."""
    yield from unknown_commands(text)
    for printed in host_commands.printed(text):
        if re.search(r"\{\w+\}", printed) and printed.split()[0] in host_commands.programs():
            yield f"`{printed}` puts what the log says into a command; name in words what belongs there"


def _remedy_problems(remedy: RemedyText, captures: set[str], whose: str = "this symptom") -> Iterator[Problem]:
    """Problems of a way out; `captures` are what it may name, and `whose` says in words whose they are."""
    for name in remedy.needs:
        if not _is_known(name, captures):
            yield ("needs",), f"{name!r} is neither a capture of {whose} nor a fact"
    for number, condition in enumerate(remedy.unless):
        for field, said in _condition_problems(condition, _TESTED_LATE):
            yield ("unless", number, field), said
        for name in filter(None, (condition.capture or "").split("/")):
            if name not in captures:
                yield ("unless", number, "capture"), f"{name!r} is no capture of {whose}"
    for edit, said in ((e, s) for e in remedy.edits for s in _edit_problems(e, captures)):
        yield ("edits", remedy.edits.index(edit)), said


def _class_problems(symptom: Symptom, classes: Mapping[str, str]) -> Iterator[Problem]:
    if not re.fullmatch(r"[a-z]\w{1,30}(?:\.[a-z]\w{1,40}){1,3}", symptom.id, re.ASCII):
        yield ("id",), "must be <group>.<word> or finer, in small letters, as in port.in_use"
    elif symptom.severity is not Severity.HINT and symptom.class_ not in classes:
        yield ("id",), f"{symptom.class_!r} is not a class of classes.yaml; use one that is, or add it there"
    elif symptom.id.split(".")[0] not in {word.split(".")[0] for word in classes}:
        groups = sorted({word.split(".")[0] for word in classes})
        yield ("id",), f"{symptom.id.split('.')[0]!r} is no group; use one of {', '.join(groups)}"


def _captures(symptom: Symptom) -> set[str]:
    patterns = [s.pattern for name in _SIGNATURES for s in getattr(symptom, name)]
    frames = [frame for name in _SIGNATURES for s in getattr(symptom, name) for frame in s.frames]
    told = {_COMPARED} if symptom.found_by == "comparison" else set()
    return told | set(_GROUP.findall(" ".join([*patterns, *frames])))


def _is_known(name: str, captures: set[str]) -> bool:
    """Whether a placeholder names a capture, with or without its unit, or a fact."""
    return name in _FACTS or name in captures or any(f"{name}_{unit}" in captures for unit in _UNITS)


def _texts(symptom: Symptom) -> Iterator[tuple[Location, str]]:
    yield from (((name,), getattr(symptom, name)) for name in ("do_first", "confirm", "refute"))
    yield from ((("explanation", i), sentence) for i, sentence in enumerate(symptom.explanation))
    yield from ((("conditions", i, "says"), c.says) for i, c in enumerate(symptom.conditions))
    for index, remedy in enumerate(symptom.remedies):
        yield ("remedies", index, "title"), remedy.title
        yield ("remedies", index, "cost"), remedy.cost


def _condition_problems(condition: Condition, allowed: tuple[str, ...] = _TESTED) -> Iterator[tuple[str, str]]:
    tested = [name for name in _TESTED if getattr(condition, name)]
    if len(tested) != 1 or tested[0] not in allowed:
        yield "says", f"tests {', '.join(tested) or 'nothing'}; name one of {', '.join(allowed)}"
    if condition.fact and condition.fact not in _FACTS:
        yield "fact", f"{condition.fact!r} is no fact; see docs/reading.md"
    for phase in condition.phase:
        if phase not in startup_log.PHASES:
            yield "phase", f"{phase!r} is no phase; write one of {', '.join(startup_log.PHASES)}"
    for outcome in condition.outcome:
        if outcome not in list(Outcome):
            yield "outcome", f"{outcome!r} is no outcome; write one of {', '.join(Outcome)}"


def _edit_problems(edit: Edit, captures: set[str]) -> Iterator[str]:
    if edit.op not in ("set", "remove", "env"):
        yield f"op is {edit.op!r}; write set, remove or env"
    if edit.op == "set" and edit.value is None:
        yield "sets no value; give it one"
    value = edit.value
    if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in STEPS:
        ((step, amount),) = value.items()
        if step == "share":
            if not re.fullmatch(r"\w+/\w+", str(amount)) or not {*str(amount).split("/")} <= captures:
                yield f"share is {amount!r}; write two captures, as in free_gib/total_gib"
        elif isinstance(amount, bool) or not isinstance(amount, (int, float)):
            yield f"{step} is {amount!r}; write a number"
    for name in PLACEHOLDER.findall(json.dumps(value)):
        if not _is_known(name, captures):
            yield f"{{{name}}} is neither a capture of this symptom nor a fact"


def read_policy(path: Path, where: str | None = None) -> Policy:
    """Read one policy; raises CatalogError with every problem of the file, one a line."""
    policy: Policy = read_record(
        path, where or path.name, _ADAPTERS["policy"], lambda read: _policy_problems(read, path)
    )
    return policy


def _policy_problems(policy: Policy, path: Path) -> Iterator[Problem]:
    if policy.id != path.stem:
        yield ("id",), f"is {policy.id!r}; the file's name says {path.stem!r}"
    if not re.fullmatch(r"[a-z][a-z0-9]*(?:-[a-z0-9]+){0,8}", policy.id, re.ASCII):
        yield ("id",), "must be words with dashes, in small letters, as in lower-utilization"
    if not policy.steps:
        yield ("steps",), "is empty; a policy needs at least one"
    root = path.absolute().parent.parent
    folders = dict.fromkeys((catalog.catalog_dir(), root))
    symptoms = [file for folder in folders for file in (folder / "symptoms").glob("*.yaml")]
    known = {*words("classes", root), *(file.stem for file in symptoms)}
    for field in ("helps", "refused_for"):
        for index, name in enumerate(getattr(policy, field)):
            if name not in known:
                here = name if field == "refused_for" else index
                yield (field, here), f"{name!r} is neither a symptom nor a class; name one that is"
    for name in policy.refused_for.keys() & set(policy.helps):
        yield ("refused_for", name), "stands among those that it helps against, too; leave it out there or here"
    patterns = [file for folder in folders if (file := folder / "patterns.yaml").is_file()]
    captures = {name for file in (*patterns, *symptoms) for name in _GROUP.findall(file.read_text(encoding="utf-8"))}
    for index, step in enumerate(policy.steps):
        if not step.edits:
            yield ("steps", index), "changes nothing; give it its edits"
        for location, said in _remedy_problems(step, captures, "any symptom"):
            yield ("steps", index, *location), said


def example_problems(symptom: Symptom, shelf: Catalog, shown: set[str] | None = None) -> list[Problem]:
    """Examples that the symptom does not find, or finds with other captures, and near misses that it claims.

    The wordings that an example shows are added to `shown`.
    """
    problems: list[Problem] = []
    for index, example in enumerate(symptom.examples):
        hits, _ = _tried(symptom, example.text, shelf)
        if shown is not None:
            shown |= {symptom.signatures[hit.signature].pattern for hit in hits if hit.signature >= 0}
        if not any(hit.signature >= 0 for hit in hits):
            problems.append((("examples", index, "text"), "is not found by any signature"))
            continue
        seen = {name: value for hit in hits for name, value in hit.captures.items()}
        problems += [
            (("examples", index, "captures", name), f"is {seen.get(name)!r} in the text, not {value!r}")
            for name, value in example.captures.items()
            if seen.get(name) != value
        ]
    problems += [
        (("near_misses", index, "text"), f"is claimed by the symptom, although it is another thing: {miss.why}")
        for index, miss in enumerate(symptom.near_misses)
        if _tried(symptom, miss.text, shelf)[1]
    ]
    return problems


def _tried(symptom: Symptom, text: str, shelf: Catalog) -> tuple[list[Hit], bool]:
    """The symptom's own matches in a text, and whether they count once all that the text says is weighed."""
    starts = startup_log.read(Evidence((Document("example", text),)), shelf)
    hits = [hit for start in starts for hit in start.hits if hit.symptom == symptom.id]
    found = {finding.symptom for start in starts for finding in diagnose(start, shelf).findings}
    is_claimed = any(hit.signature >= 0 for hit in hits) and (symptom.role is not Role.CAUSE or symptom.id in found)
    return hits, is_claimed


def check_symptom(path: Path, where: str | None = None) -> Symptom:
    """Read one symptom and try it on its own examples; raises CatalogError with every problem."""
    symptom = read_symptom(path, where)
    lines = read_line_formats(catalog.catalog_dir() / "lines.yaml")
    problems = example_problems(symptom, Catalog({symptom.id: symptom}, tuple(lines)))
    if problems:
        raise CatalogError("\n".join(named(read_yaml(path, where), where or path.name, problems)))
    return symptom


def read_line_formats(path: Path, where: str | None = None) -> list[LineFormat]:
    """Read the table of printed lines; raises CatalogError with every problem, one a line."""
    where = where or path.name
    data = read_yaml(path, where)
    formats, problems = parsed(_ADAPTERS["lines"], data)
    for index, line_format in enumerate(formats or ()):
        for number, pattern in enumerate(line_format.patterns):
            problems += [((index, "patterns", number), f"the pattern {fault}") for fault in _faults(pattern)]
        if line_format.phase is not None and line_format.phase not in startup_log.PHASES:
            problems.append(((index, "phase"), f"is no phase; write one of {', '.join(startup_log.PHASES)}"))
    if problems or formats is None:
        raise CatalogError("\n".join(named(data, where, problems)))
    result: list[LineFormat] = formats
    return result


def read_case(path: Path, where: str | None = None) -> Case:
    """Read a case's `case.yaml` and the claims beside it; raises CatalogError with every problem, one a line."""
    where = where or f"{path.parent.name}/{path.name}"
    data = read_yaml(path, where)
    authored, problems = parsed(_ADAPTERS["case"], data)
    beside = path.with_name("claims.yaml")
    judged = read_claims(beside, str(Path(where).with_name(beside.name))) if beside.is_file() else None
    if authored is not None:
        problems += _case_problems(authored, path.parent)
        problems += _expected_claim_problems(authored, judged)
    if problems or authored is None:
        raise CatalogError("\n".join(named(data, where, problems)))
    return Case(**vars(authored), claims=judged)


def _expected_claim_problems(case: CaseFile, judged: Claims | None) -> Iterator[Problem]:
    there = [claim.id for claim in judged.claims] if judged else []
    for index, name in enumerate(case.expect.claims or ()):
        if name not in there:
            yield ("expect", "claims", index), f"{name!r} is no claim of claims.yaml beside case.yaml"
    if missing := [name for name in there if name not in (case.expect.claims or ())]:
        yield (
            ("expect", "claims"),
            f"lacks {', '.join(missing)} of claims.yaml; a claim that is not compared proves nothing",
        )


def read_claims(path: Path, where: str | None = None) -> Claims:
    """Read a case's `claims.yaml`; raises CatalogError with every problem, one a line."""
    where = where or f"{path.parent.name}/{path.name}"
    judged: Claims = read_record(path, where, _ADAPTERS["claims"], lambda read: _claims_problems(read, path.parent))
    return judged


def _claims_problems(judged: Claims, folder: Path) -> Iterator[Problem]:
    files = [file.read_text(encoding="utf-8", errors="replace") for file in folder.iterdir() if file.suffix != ".yaml"]
    names = [claim.id for claim in judged.claims]
    if not names:
        yield ("claims",), "is empty; name what the document says, or remove the file"
    for index, given in enumerate(judged.given):
        if not given.name.isidentifier():
            yield ("given", index, "name"), f"{given.name!r} is no name; write one such as gpu_total_gib"
    tables: dict[str, Mapping[str, Any]] = {"plans": judged.plans, "cards": judged.cards, "lines": judged.lines}
    asked = [(table, name) for table, rows in tables.items() for name in rows]
    for table, name in asked:
        if not re.fullmatch(r"(?!start\d+\Z)[a-z]\w{0,30}", name, re.ASCII):
            yield (table, name), f"{name!r} is no name; write one such as two_cards, and none as start2"
        elif sum(other == name for _, other in asked) > 1:
            yield (table, name), f"{name!r} is taken; each name stands once in plans, cards and lines"
    known = figures.figures(judged)
    for index, claim in enumerate(judged.claims):
        if names.index(claim.id) != index or not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+){0,8}", claim.id, re.ASCII):
            yield ("claims", index, "id"), f"{claim.id!r} is taken or no id; write small letters and dashes, once"
        for location, said in _claim_problems(claim, files, known):
            yield ("claims", index, *location), said


def _claim_problems(claim: Claim, files: list[str], known: Figures) -> Iterator[Problem]:
    expressions: list[tuple[Location, str]] = [
        (("figures", name), expression) for name, expression in claim.figures.items()
    ]
    expressions += [((name,), said) for name in ("right_if", "only_if") if (said := getattr(claim, name)) is not None]
    for location, expression in expressions:
        for fault in faults(expression, known):
            yield location, fault
    if not claim.because:
        yield ("because",), "is empty; say with its numbers what was compared"
    if claim.credit and (len(claim.credit.starts) != 2 or min(claim.credit.starts) < 1):
        yield ("credit", "starts"), "must be two starts, counted from 1"
    for index, words in enumerate(claim.quotes):
        if not any(words in text for text in files):
            yield ("quotes", index), f"{words[:60]!r} is in no file of the case"


def read_observation(text: str, where: str) -> Observation:
    """Read what was observed of a running server; secrets in it are replaced.

    Raises:
        InputError: the text is no such record.
    """
    how = "give what `vllm-runbooks probe --record` or `probe --format json` wrote"
    try:
        data = json.loads(text, parse_constant=_no_number)
        data = data.get("observation", data)
        if data.get("kind") != "probe":
            raise InputError(f"{where}: is no observation of a server; {how}")
        inner = json.dumps({name: value for name, value in data.items() if name != "schema"})
        found: Observation = _OBSERVATION.validate_json(inner, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))[:100]
        raise InputError(f"{where}: {field}: {first['msg'][:100]}; {how}") from None
    except (ValueError, AttributeError, RecursionError):
        raise InputError(f"{where}: is no JSON document of a probe; {how}") from None
    times = [sample.at_s for sample in found.samples]
    if times != sorted(times):
        raise InputError(f"{where}: samples: are not in the order of their time; {how}")
    return redact_record(found)


def _no_number(name: str) -> float:
    raise ValueError(name)


def _case_problems(case: CaseFile, folder: Path) -> Iterator[Problem]:
    expect = case.expect
    if case.kind is CaseKind.SERVER:
        yield from _probe_problems(case, folder)
    if expect == type(expect)():
        yield ("expect",), "compares nothing; name an outcome or a class"
    if expect.class_ is not None and expect.class_ != "ok" and expect.class_ not in words("classes"):
        yield ("expect", "class"), f"{expect.class_!r} is not a class of classes.yaml; use one that is, or ok"
    if expect.captures and expect.class_ in (None, "ok"):
        yield ("expect", "captures"), "belong to a root cause; name its class as well"
    for fact in expect.facts:
        if fact not in _FACTS:
            yield ("expect", "facts", fact), "is no fact; see docs/reading.md"
    for index, name in enumerate(case.files):
        if Path(name).name != name or not (folder / name).is_file():
            yield ("files", index), f"{name!r} is not a file beside case.yaml"
    if case.command is not None and (Path(case.command).name != case.command or not (folder / case.command).is_file()):
        yield ("command",), f"{case.command!r} is not a file beside case.yaml"
    yield from _plan_problems(case)
    yield from _snapshot_problems(case, folder)


def _snapshot_problems(case: CaseFile, folder: Path) -> Iterator[Problem]:
    """What is wrong with a host's snapshot, or with a case that is none."""
    expect = case.expect
    if case.kind is not CaseKind.SNAPSHOT:
        if expect.recommended is not None:
            yield ("expect", "recommended"), f"is of a host's snapshot; name {SNAPSHOT} alone in files"
        return
    if expect != Expectation(findings=expect.findings, recommended=expect.recommended):
        yield ("expect",), "compares what a host's snapshot does not tell; name findings and recommended alone"
    for index, name in enumerate(expect.findings or ()):
        if name not in inventories.IDS:
            yield ("expect", "findings", index), f"{name!r} is no finding about a host; see docs/inventory.md"
    if case.runbooks:
        yield ("runbooks",), "must be empty: a host's snapshot is judged by itself"
    try:
        text = (folder / SNAPSHOT).read_text("utf-8")
        inventories.read(text, SNAPSHOT)
    except (OSError, UnicodeDecodeError):
        return  # named among the files, or read as any other
    except InputError as error:
        yield ("files", 0), str(error)


def _probe_problems(case: CaseFile, folder: Path) -> Iterator[Problem]:
    """What is wrong with a recorded observation of a running server."""
    expect = case.expect
    known = _serving_ids(catalog.catalog_dir() / "serving.yaml")
    if expect.class_ not in (None, "ok"):
        yield ("expect", "class"), "is ok or left out, where a server was observed; name the condition as symptom"
    for at, name in (
        (("symptom",), expect.symptom),
        *((("findings", n), f) for n, f in enumerate(expect.findings or ())),
    ):
        if name is not None and name not in known:
            yield ("expect", *at), f"{name!r} is no condition of serving.yaml"
    path = folder / OBSERVATION
    try:
        read_observation(path.read_text("utf-8"), OBSERVATION)
    except (OSError, InputError) as error:
        yield ("files",), str(error)


@cache
def _serving_ids(path: Path) -> frozenset[str]:
    return frozenset(serving_file.read_serving(path).by_id) if path.is_file() else frozenset()


def _plan_problems(case: CaseFile) -> Iterator[Problem]:
    """What is wrong with a recorded question, or with a case that is none."""
    asked, expect = case.plan, case.expect
    if asked is None and not case.files:
        yield ("files",), "is empty; name the recorded files"
    if asked is not None and case.files:
        yield ("files",), "must be empty where a plan is asked for"
    if asked is None and (expect.fits is not None or expect.best is not None or expect.per_gpu):
        yield ("expect",), "compares a plan, and none is asked for; write plan as well"
    if asked is not None and expect.best is not None and {asked.tp, asked.pp, asked.dp} != {None}:
        yield ("expect", "best"), "needs a question without tp, pp and dp"
    for name in expect.per_gpu:
        if name not in figures.PLAN_FIGURES:
            yield ("expect", "per_gpu", name), "is no figure of a plan; see docs/claims.md"


_TABLES: dict[str, Callable[[Path, str], object]] = {
    "lines.yaml": read_line_formats,
    "patterns.yaml": read_patterns,
    "classes.yaml": read_words,
    "captures.yaml": read_words,
    "serving.yaml": serving_file.read_serving,
    "entrances.yaml": entrances_file.read_entrances,
}
"""Tables of a catalog folder, and what reads each."""


def check_file(path: Path) -> None:
    """Check one authored file as what its name says it is; raises InputError with every problem, one a line."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file, or use --dir for a catalog folder")
    readers = {**_TABLES, "case.yaml": read_case, "claims.yaml": read_claims}
    kinds = {"rules": read_rule, "policies": read_policy}
    reader = readers.get(path.name, kinds.get(path.absolute().parent.name))
    if reader is None and (kind := spec_files.kind_of(path)):
        spec_files.read_spec(path, str(path), kind)
    else:
        found = (reader or check_symptom)(path, str(path))
        if isinstance(found, (Symptom, Rule)) and (old := list(translations.stale(found))):
            raise CatalogError("\n".join(named(read_yaml(path, str(path)), str(path), old)))


def compile_index(root: Path) -> tuple[dict[str, Any], list[str]]:
    """Compile a catalog folder; returns the index of what is good, and the problems, one line each."""
    problems: list[str] = []
    symptoms, policies, formats = [], [], []
    for path in catalog.sources(root):
        where = str(path.relative_to(root))
        try:
            if path.parent.name == "symptoms":
                symptoms.append(document(read_symptom(path, where)))
            elif path.parent.name == "policies":
                policies.append(document(read_policy(path, where)))
            elif path.is_file():
                formats = [document(f) for f in read_line_formats(path, where)]
        except CatalogError as error:
            problems += str(error).splitlines()
    index = {"key": catalog.key(root), "symptoms": symptoms, "policies": policies, "lines": formats}
    return index, problems


def _bare_patterns(symptom: Symptom) -> Iterator[tuple[str, bool]]:
    """What two symptoms may not share: words at no place in particular, be it of an exception or of any line.

    One that asks for more than the words, as a condition, may share them.
    """
    if any(condition.required for condition in symptom.conditions):
        return
    for signature in symptom.signatures:
        if not (signature.frames or signature.phases):
            yield signature.pattern, signature.exception


def cross_check(root: Path) -> list[str]:
    """Problems of files that are good by themselves: doubles, missing runbooks, examples that do not fire."""
    problems: list[str] = []
    seen: dict[tuple[str, bool], str] = {}
    runbooks = root.parent / "runbooks"
    good: dict[Path, Symptom] = {}
    for path in sorted((root / "symptoms").glob("*.yaml")):
        with suppress(CatalogError):
            good[path] = read_symptom(path)
    lines = read_line_formats(catalog.catalog_dir() / "lines.yaml")
    shelf = Catalog({symptom.id: symptom for symptom in good.values()}, tuple(lines))
    known = {path.stem for folder in (catalog.catalog_dir(), root) for path in (folder / "symptoms").glob("*.yaml")}
    shown: set[str] = set()
    tried = {path: example_problems(symptom, shelf, shown) for path, symptom in good.items()}
    for path, symptom in good.items():
        where = str(path.relative_to(root))
        found = tried[path] + [
            (("signatures", index, "pattern"), "no example shows this wording; add one as the software prints it")
            for index, signature in enumerate(symptom.signatures)
            if signature.pattern not in shown
        ]
        for said in ((symptom.title.casefold(), False), *_bare_patterns(symptom)):
            if seen.setdefault(said, where) != where:
                found.append((("signatures",), f"the same title or pattern as in {seen[said]}; merge the two"))
        for index, name in enumerate(symptom.instead_of):
            if name not in known:
                found.append((("instead_of", index), f"{name!r} is no symptom; name one that is, or leave it out"))
        if symptom.runbook and runbooks.is_dir() and not (runbooks / f"{symptom.runbook}.ipynb").is_file():
            found.append((("runbook",), f"{symptom.runbook!r} is not in runbooks/; write it or leave the field out"))
        problems += named(read_yaml(path, where), where, dict.fromkeys(found)) if found else []
    entrances = catalog.entrances_source(root)
    return problems + (entrances_file.line_problems(entrances, good.values()) if entrances.is_file() else [])


def check_folder(root: Path) -> tuple[int, list[str]]:
    """Check a whole catalog folder, its cases included; how many files were read, and the problems, one line each."""
    tables = [path for name in _TABLES if (path := root / name).is_file()]
    cases = sorted((root / "cases").glob("*/")) if (root / "cases").is_dir() else []
    authored = [
        path for kind in ("symptoms", "policies", "rules") for path in (root / kind).glob("*.yaml") if path.is_file()
    ]
    specifications = [path for path in specs.sources(root) if path.is_file()]
    checked = len(tables) + len(authored) + len(specifications) + len(cases)
    if not checked:
        raise InputError(f"{root}: holds no symptoms/*.yaml and no cases; name a catalog folder")
    problems: list[str] = []
    for path in tables:
        try:
            _TABLES[path.name](path, path.name)
        except CatalogError as error:
            problems += str(error).splitlines()
    if not problems:
        problems = [*compile_index(root)[1], *compile_rules(root)[1], *cross_check(root)]
    for path, found in translatable(root):
        if old := list(translations.stale(found)):
            where = str(path.relative_to(root))
            problems += named(read_yaml(path, where), where, old)
    problems += spec_files.compile_specs(root)[1]
    for case in cases:
        problems += _case_folder_problems(case)
    return checked, list(dict.fromkeys(problems))


def _read_translatable(path: Path) -> Symptom | Rule:
    """The symptom or the rule of a file.

    Raises:
        InputError: it is neither, or broken.
    """
    is_rule = path.absolute().parent.name == "rules"
    try:
        return read_rule(path, str(path)) if is_rule else read_symptom(path, str(path))
    except CatalogError as error:
        raise InputError("; ".join(str(error).splitlines())) from None


def stamped(path: Path) -> str:
    """The text of a symptom's or rule's file that says: its translations fit its English texts of now.

    Raises:
        InputError: it is neither, or broken, or has no translation.
    """
    record = _read_translatable(path)
    if not record.translations:
        raise InputError(f"{path}: has no translation; write one under translations, as docs/languages.md says")
    return translations.stamped(path, record)


class Translated(NamedTuple):
    """How far a catalog is translated."""

    lines: tuple[str, ...]
    """What is out of date, or missing where that was asked for: file, language, fields."""
    counts: tuple[str, ...]
    """A line for each language."""
    is_stale: bool


def translated(files: Sequence[Path], root: Path, *, is_missing: bool = False) -> Translated:
    """How far files, or those of a catalog folder, are translated; `is_missing` names what is not.

    Raises:
        InputError: a file is no symptom and no rule, or is broken.
    """
    records = [(path, _read_translatable(path)) for path in files] or [
        (path.relative_to(root), record) for path, record in translatable(root)
    ]
    lines, counts, is_stale = [], [], False
    for lang, language in languages.LANGUAGES.items():
        done = 0
        for path, record in records:
            old, lacking = languages.stale(record, lang), languages.missing(record, lang)
            done += lang in record.translations
            is_stale |= bool(old)
            if old:
                lines.append(f"{path}: {lang}: the English text has changed: {', '.join(old)}")
            if is_missing and lacking:
                is_all = lang not in record.translations
                lines.append(f"{path}: {lang}: not translated: {'all' if is_all else ', '.join(lacking)}")
        counts.append(f"{lang} ({language.name}): {done} of {len(records)} symptoms and rules")
    return Translated(tuple(lines), tuple(counts), is_stale)


def translatable(root: Path) -> Iterator[tuple[Path, Symptom | Rule]]:
    """Yield the symptoms and rules of a catalog folder that are good, with their files."""
    kinds: tuple[tuple[str, Callable[[Path, str], Symptom | Rule]], ...] = (
        ("symptoms", read_symptom),
        ("rules", read_rule),
    )
    for kind, read in kinds:
        for path in sorted((root / kind).glob("*.yaml")):
            with suppress(CatalogError):
                yield path, read(path, str(path.relative_to(root)))


def _case_folder_problems(folder: Path) -> list[str]:
    where = f"cases/{folder.name}/case.yaml"
    try:
        case = read_case(folder / "case.yaml", where)
        evidence.load_case(folder, read_case=read_case)
    except CatalogError as error:
        return str(error).splitlines()
    except InputError as error:
        return [f"{where}:1: files: {error}"]
    if case.id != folder.name:
        return [f"{where}:1: id: is {case.id!r}; the folder's name says {folder.name!r}"]
    return []


def schemas() -> dict[str, dict[str, Any]]:
    """JSON Schemas for the authored files and for the documents that commands print, by file name."""
    found = {f"{name}.json": _schema(adapter) for name, adapter in _ADAPTERS.items()}
    for name, kind in _PRINTED.items():
        printed = _schema(TypeAdapter(kind), is_printed=True)
        printed["properties"] = {"schema": {"const": 1, "title": "Schema"}, **printed["properties"]}
        printed["required"] = ["schema", *printed["required"]]
        found[f"{name}.json"] = printed
    return found


def _unused(schema: Mapping[str, Any]) -> set[str]:
    """Definitions that nothing in a schema refers to."""
    text = json.dumps(schema)
    return {name for name in schema.get("$defs", ()) if f'"#/$defs/{name}"' not in text}


def _schema(adapter: TypeAdapter[Any], *, is_printed: bool = False) -> dict[str, Any]:
    """The JSON Schema of a record; a printed document has every field and no others."""

    def adapted(node: Any, key: str | None = None) -> Any:
        if isinstance(node, list):
            return [value.rstrip("_") if key == "required" else adapted(value) for value in node]
        if not isinstance(node, dict):
            return node
        if key == "properties":
            return {name.rstrip("_"): _or_pieces(name, adapted(value, name)) for name, value in node.items()}
        found = {name: adapted(value, name) for name, value in node.items()}
        if is_printed and isinstance(node.get("properties"), dict):
            title = node.get("title", "")
            for name in _UNPRINTED.get(title, ()):
                del found["properties"][name]
            always = [name for name in found["properties"] if name not in _WHERE_TOLD.get(title, ())]
            found.update(additionalProperties=False, required=always)
        return found

    def _or_pieces(name: str, node: Any) -> Any:
        """Patterns may be written as a list of pieces, which are joined."""
        pieces = {"type": "array", "items": {"type": "string"}}
        if is_printed or name not in ("pattern", "patterns"):
            return node
        if name == "pattern":
            return {"anyOf": [node, pieces]}
        return {**node, "items": {"anyOf": [node["items"], pieces]}}

    result: dict[str, Any] = adapted(adapter.json_schema(mode="serialization" if is_printed else "validation"))
    while unused := _unused(result):
        result["$defs"] = {name: node for name, node in result["$defs"].items() if name not in unused}
    return result
