"""Recorded cases to records, with the claims beside them: every problem named by file, line and field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from vllm_runbooks.catalog.authored.located import Problem, named, read_yaml
from vllm_runbooks.catalog.authored.remedy_texts import FACTS
from vllm_runbooks.catalog.authored.tables import words
from vllm_runbooks.catalog.authored.yaml_files import parsed
from vllm_runbooks.core.errors import CatalogError
from vllm_runbooks.core.evidence import Case, CaseFile, Claims
from vllm_runbooks.reading import claims

ADAPTER: TypeAdapter[Any] = TypeAdapter(CaseFile)


class Checks(NamedTuple):
    """What else is wrong with a case, beside its form: what only those can tell who know what it is about."""

    case: Callable[[CaseFile, Path], Iterable[Problem]] = lambda _, __: ()
    """Of the case in a folder."""
    claims: claims.Check = lambda _: ()


def read_case(path: Path, where: str | None = None, *, checks: Checks | None = None) -> Case:
    """Read a case's `case.yaml` and the claims beside it; raises CatalogError with every problem, one a line."""
    checks = checks or Checks()
    where = where or f"{path.parent.name}/{path.name}"
    data = read_yaml(path, where)
    authored, problems = parsed(ADAPTER, data)
    beside = path.with_name("claims.yaml")
    named_beside = str(Path(where).with_name(beside.name))
    judged = claims.read_claims(beside, named_beside, check=checks.claims) if beside.is_file() else None
    if authored is not None:
        problems += [*_case_problems(authored, path.parent), *checks.case(authored, path.parent)]
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


def _case_problems(case: CaseFile, folder: Path) -> Iterator[Problem]:
    expect = case.expect
    if expect == type(expect)():
        yield ("expect",), "compares nothing; name an outcome or a class"
    if expect.class_ is not None and expect.class_ != "ok" and expect.class_ not in words("classes"):
        yield ("expect", "class"), f"{expect.class_!r} is not a class of classes.yaml; use one that is, or ok"
    if expect.captures and expect.class_ in (None, "ok"):
        yield ("expect", "captures"), "belong to a root cause; name its class as well"
    for fact in expect.facts:
        if fact not in FACTS:
            yield ("expect", "facts", fact), "is no fact; see docs/reading.md"
    for index, name in enumerate(case.files):
        if Path(name).name != name or not (folder / name).is_file():
            yield ("files", index), f"{name!r} is not a file beside case.yaml"
    if case.command is not None and (Path(case.command).name != case.command or not (folder / case.command).is_file()):
        yield ("command",), f"{case.command!r} is not a file beside case.yaml"
    beside = case.told_with
    if beside is not None and (Path(beside).name != beside or not (folder.parent / beside / "case.yaml").is_file()):
        yield ("told_with",), f"{beside!r} is no case beside this one"
    yield from _plan_problems(case)


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
