"""Read recorded cases and their claims; problems are reported by file, line and field."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog.authored import serving_file
from vllm_runbooks.catalog.authored.located import Problem, named, read_yaml
from vllm_runbooks.catalog.authored.remedy_texts import FACTS
from vllm_runbooks.catalog.authored.tables import words
from vllm_runbooks.catalog.authored.yaml_files import parsed
from vllm_runbooks.core.errors import CatalogError, InputError
from vllm_runbooks.core.evidence import Case, CaseFile, CaseKind, Claims, Expectation
from vllm_runbooks.core.files import NODES, OBSERVATION, SNAPSHOT
from vllm_runbooks.host import inspection as inventories
from vllm_runbooks.host import nodes as clusters
from vllm_runbooks.plan.figures import PLAN_FIGURES
from vllm_runbooks.probe.observations import read_observation
from vllm_runbooks.reading import evidence
from vllm_runbooks.runbooks.claims_file import read_claims

ADAPTER: TypeAdapter[Any] = TypeAdapter(CaseFile)


def read_case(path: Path, where: str | None = None) -> Case:
    """Read a case's `case.yaml` and its claims.

    Raises CatalogError with every problem, one per line.
    """
    where = where or f"{path.parent.name}/{path.name}"
    data = read_yaml(path, where)
    authored, problems = parsed(ADAPTER, data)
    beside = path.with_name("claims.yaml")
    judged = read_claims(beside, str(Path(where).with_name(beside.name))) if beside.is_file() else None
    if authored is not None:
        problems += _case_problems(authored, path.parent)
        problems += _expected_claim_problems(authored, judged)
    if problems or authored is None:
        raise CatalogError("\n".join(named(data, where, problems)))
    return Case(**vars(authored), claims=judged)


def load_case(folder: Path) -> Case:
    """Read and check a case's folder with its files."""
    case = evidence.load_case(folder, read_case=lambda path: read_case(path, str(path))).case
    if case is None:
        raise InputError(f"{folder}: no case.yaml")
    return case


def folder_problems(folder: Path) -> list[str]:
    where = f"cases/{folder.name}/case.yaml"
    try:
        case = read_case(folder / "case.yaml", where)
        evidence.load_case(folder, read_case=read_case)
    except CatalogError as error:
        return str(error).splitlines()
    except InputError as error:
        return [f"{where}:1: files: {error}"]
    if case.id != folder.name:
        return [f"{where}:1: id: is {case.id!r}, but the folder's name is {folder.name!r}"]
    return []


def _expected_claim_problems(case: CaseFile, judged: Claims | None) -> Iterator[Problem]:
    claims = [claim.id for claim in judged.claims] if judged else []
    for index, name in enumerate(case.expect.claims or ()):
        if name not in claims:
            yield ("expect", "claims", index), f"{name!r} is not a claim in claims.yaml"
    if missing := [name for name in claims if name not in (case.expect.claims or ())]:
        yield (
            ("expect", "claims"),
            f"lacks {', '.join(missing)} of claims.yaml; all claims must be compared",
        )


def _case_problems(case: CaseFile, folder: Path) -> Iterator[Problem]:
    expect = case.expect
    if case.kind is CaseKind.SERVER:
        yield from _probe_problems(case, folder)
    if expect == type(expect)():
        yield ("expect",), "compares nothing; set an outcome or a class"
    if expect.class_ is not None and expect.class_ != "ok" and expect.class_ not in words("classes"):
        yield ("expect", "class"), f"{expect.class_!r} is not in classes.yaml; use a class from it, or ok"
    if expect.captures and expect.class_ in (None, "ok"):
        yield ("expect", "captures"), "require a root cause; set its class as well"
    for fact in expect.facts:
        if fact not in FACTS:
            yield ("expect", "facts", fact), "is not a fact; see docs/reading.md"
    for index, name in enumerate(case.files):
        if Path(name).name != name or not (folder / name).is_file():
            yield ("files", index), f"{name!r} is not a file in the case's folder"
    if case.command is not None and (Path(case.command).name != case.command or not (folder / case.command).is_file()):
        yield ("command",), f"{case.command!r} is not a file in the case's folder"
    beside = case.told_with
    if beside is not None and (Path(beside).name != beside or not (folder.parent / beside / "case.yaml").is_file()):
        yield ("told_with",), f"{beside!r} is not a case in the same folder"
    yield from _plan_problems(case)
    yield from _host_problems(case, folder)


def _host_problems(case: CaseFile, folder: Path) -> Iterator[Problem]:
    expect, is_snapshot = case.expect, case.kind is CaseKind.SNAPSHOT
    if not is_snapshot and expect.recommended is not None:
        yield ("expect", "recommended"), f"requires a host snapshot; list only {SNAPSHOT} in files"
    if not is_snapshot and case.kind is not CaseKind.NODES:
        return
    others = (
        "a host snapshot does not have; use findings and recommended"
        if is_snapshot
        else "nodes do not have; use findings"
    )
    if expect != Expectation(findings=expect.findings, recommended=expect.recommended if is_snapshot else None):
        yield ("expect",), f"compares only what {others}"
    ids = inventories.IDS if is_snapshot else clusters.IDS | inventories.IDS
    place = "a host; see docs/inventory.md" if is_snapshot else "nodes; see docs/several-nodes.md"
    for index, name in enumerate(expect.findings or ()):
        if name not in ids:
            yield ("expect", "findings", index), f"{name!r} is not a finding about {place}"
    if is_snapshot and case.runbooks:
        yield ("runbooks",), "must be empty: a host snapshot needs no runbook"
    try:
        if is_snapshot:
            inventories.read((folder / SNAPSHOT).read_text("utf-8"), SNAPSHOT)
        else:
            clusters.read([(NODES, (folder / NODES).read_text("utf-8"))])
    except (OSError, UnicodeDecodeError):
        return  # named among the files, or read as any other
    except InputError as error:
        yield ("files", 0), str(error)


def _probe_problems(case: CaseFile, folder: Path) -> Iterator[Problem]:
    expect = case.expect
    conditions = _serving_ids(folders.catalog_dir() / "serving.yaml")
    if expect.class_ not in (None, "ok"):
        yield ("expect", "class"), "must be ok or absent if a server was observed; set the condition as symptom"
    for at, name in (
        (("symptom",), expect.symptom),
        *((("findings", n), f) for n, f in enumerate(expect.findings or ())),
    ):
        if name is not None and name not in conditions:
            yield ("expect", *at), f"{name!r} is not a condition of serving.yaml"
    path = folder / OBSERVATION
    try:
        read_observation(path.read_text("utf-8"), OBSERVATION)
    except (OSError, InputError) as error:
        yield ("files",), str(error)


@cache
def _serving_ids(path: Path) -> frozenset[str]:
    return frozenset(serving_file.read_serving(path).by_id) if path.is_file() else frozenset()


def _plan_problems(case: CaseFile) -> Iterator[Problem]:
    question, expect = case.plan, case.expect
    is_compared = expect.fits is not None or expect.best is not None or expect.per_gpu
    has_sizes = question is not None and {question.tp, question.pp, question.dp} != {None}
    for is_wrong, field, problem in (
        (question is None and not case.files, ("files",), "is empty; list the recorded files"),
        (question is not None and case.files, ("files",), "must be empty if `plan` is set"),
        (question is None and is_compared, ("expect",), "compares a plan, but `plan` is not set"),
        (has_sizes and expect.best is not None, ("expect", "best"), "needs a question without tp, pp and dp"),
    ):
        if is_wrong:
            yield field, problem
    for name in expect.per_gpu:
        if name not in PLAN_FIGURES:
            yield ("expect", "per_gpu", name), "is not a figure of a plan; see docs/claims.md"
