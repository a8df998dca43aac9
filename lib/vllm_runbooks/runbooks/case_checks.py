"""What is wrong with a recorded case beside its form: what it expects, its claims, and the snapshots in it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog.authored import serving_file
from vllm_runbooks.catalog.authored.located import Location, Problem
from vllm_runbooks.core.errors import CatalogError, InputError
from vllm_runbooks.core.evidence import NODES, OBSERVATION, SNAPSHOT, Case, CaseFile, CaseKind, Claims, Expectation
from vllm_runbooks.diagnosis.claims import figures
from vllm_runbooks.diagnosis.claims.expressions import faults
from vllm_runbooks.host import inspection as inventories
from vllm_runbooks.host import nodes as clusters
from vllm_runbooks.plan import figures as plan_figures_of
from vllm_runbooks.probe.observations import read_observation
from vllm_runbooks.reading import cases, claims, evidence


def read_case(path: Path, where: str | None = None) -> Case:
    """Read a case as `reading.cases` does, and check all of it; raises CatalogError with every problem, one a line."""
    return cases.read_case(path, where, checks=cases.Checks(_case_problems, _claims_problems))


def read_claims(path: Path, where: str | None = None) -> Claims:
    """Read claims as `reading.claims` does, and check all of them; raises CatalogError likewise."""
    return claims.read_claims(path, where, check=_claims_problems)


def _case_problems(case: CaseFile, folder: Path) -> Iterator[Problem]:
    if case.kind is CaseKind.SERVER:
        yield from _probe_problems(case, folder)
    for name in case.expect.per_gpu:
        if name not in plan_figures_of.PLAN_FIGURES:
            yield ("expect", "per_gpu", name), "is no figure of a plan; see docs/claims.md"
    yield from _snapshot_problems(case, folder)
    yield from _nodes_problems(case, folder)


def _claims_problems(judged: Claims) -> Iterator[Problem]:
    known = figures.figures(judged)
    for index, claim in enumerate(judged.claims):
        expressions: list[tuple[Location, str]] = [
            (("figures", name), expression) for name, expression in claim.figures.items()
        ]
        expressions += [
            ((name,), said) for name in ("right_if", "only_if") if (said := getattr(claim, name)) is not None
        ]
        for location, expression in expressions:
            for fault in faults(expression, known):
                yield ("claims", index, *location), fault


def folder_problems(folder: Path) -> list[str]:
    """What is wrong with a case's folder, a line each."""
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


def _nodes_problems(case: CaseFile, folder: Path) -> Iterator[Problem]:
    """What is wrong with recorded nodes."""
    expect = case.expect
    if case.kind is not CaseKind.NODES:
        return
    if expect != Expectation(findings=expect.findings):
        yield ("expect",), "compares what nodes do not tell; name findings alone"
    for index, name in enumerate(expect.findings or ()):
        if name not in clusters.IDS | inventories.IDS:
            yield ("expect", "findings", index), f"{name!r} is no finding about nodes; see docs/several-nodes.md"
    try:
        clusters.read([(NODES, (folder / NODES).read_text("utf-8"))])
    except (OSError, UnicodeDecodeError):
        return  # named among the files, or read as any other
    except InputError as error:
        yield ("files", 0), str(error)


def _probe_problems(case: CaseFile, folder: Path) -> Iterator[Problem]:
    """What is wrong with a recorded observation of a running server."""
    expect = case.expect
    known = _serving_ids(folders.catalog_dir() / "serving.yaml")
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


def load_case(folder: Path) -> Case:
    """Read and check a case's folder, its files included.

    Raises:
        InputError: the case is broken.
    """
    case = evidence.load_case(folder, read_case=lambda path: read_case(path, str(path))).case
    if case is None:
        raise InputError(f"{folder}: holds no case.yaml")
    return case
