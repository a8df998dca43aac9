"""Try symptoms on their own examples and near misses, and next to all others of a catalog folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from vllm_runbooks.catalog import compiled, folders
from vllm_runbooks.catalog.authored import entrances_file
from vllm_runbooks.catalog.authored.located import Problem, named, read_yaml
from vllm_runbooks.catalog.authored.symptom_files import read_symptom
from vllm_runbooks.catalog.authored.tables import read_line_formats
from vllm_runbooks.catalog.records import Symptom
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.errors import CatalogError
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import Role, SymptomHit
from vllm_runbooks.diagnosis.causes import diagnose
from vllm_runbooks.reading import startup_log


def check_symptom(path: Path, where: str | None = None) -> Symptom:
    """Read one symptom and try it on its own examples; raises CatalogError with every problem."""
    symptom = read_symptom(path, where)
    lines = read_line_formats(folders.catalog_dir() / "lines.yaml")
    problems = _example_problems(symptom, Catalog({symptom.id: symptom}, tuple(lines)))
    if problems:
        raise CatalogError("\n".join(named(read_yaml(path, where), where or path.name, problems)))
    return symptom


def _example_problems(symptom: Symptom, shelf: Catalog, shown_patterns: set[str] | None = None) -> list[Problem]:
    """Problems of examples and near misses; wordings that examples show are added to `shown_patterns`."""
    problems: list[Problem] = []
    for index, example in enumerate(symptom.examples):
        hits, _ = _tried(symptom, example.text, shelf)
        if shown_patterns is not None:
            shown_patterns |= {symptom.signatures[hit.signature].pattern for hit in hits if hit.signature >= 0}
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
        (("near_misses", index, "text"), f"matches the symptom, but is not one: {miss.why}")
        for index, miss in enumerate(symptom.near_misses)
        if _tried(symptom, miss.text, shelf)[1]
    ]
    return problems


def _tried(symptom: Symptom, text: str, shelf: Catalog) -> tuple[list[SymptomHit], bool]:
    starts = startup_log.read(Evidence((Document("example", text),)), shelf)
    hits = [hit for start in starts for hit in start.hits if hit.symptom == symptom.id]
    symptoms = {finding.symptom for start in starts for finding in diagnose(start, shelf).findings}
    is_claimed = any(hit.signature >= 0 for hit in hits) and (symptom.role is not Role.CAUSE or symptom.id in symptoms)
    return hits, is_claimed


def cross_check(root: Path) -> list[str]:
    """Problems of files that are good by themselves: doubles, missing runbooks, examples that do not fire."""
    problems: list[str] = []
    seen: dict[tuple[str, bool], str] = {}
    runbooks = root.parent / "runbooks"
    good: dict[Path, Symptom] = {}
    for path in sorted((root / "symptoms").glob("*.yaml")):
        with suppress(CatalogError):
            good[path] = read_symptom(path)
    lines = read_line_formats(folders.catalog_dir() / "lines.yaml")
    shelf = Catalog({symptom.id: symptom for symptom in good.values()}, tuple(lines))
    names = {path.stem for folder in (folders.catalog_dir(), root) for path in (folder / "symptoms").glob("*.yaml")}
    shown_patterns: set[str] = set()
    tried = {path: _example_problems(symptom, shelf, shown_patterns) for path, symptom in good.items()}
    for path, symptom in good.items():
        where = str(path.relative_to(root))
        faults = tried[path] + [
            (("signatures", index, "pattern"), "no example has this wording; add one as the software prints it")
            for index, signature in enumerate(symptom.signatures)
            if signature.pattern not in shown_patterns
        ]
        for pattern in ((symptom.title.casefold(), False), *_bare_patterns(symptom)):
            if seen.setdefault(pattern, where) != where:
                faults.append((("signatures",), f"the same title or pattern as in {seen[pattern]}; merge the two"))
        for index, name in enumerate(symptom.instead_of):
            if name not in names:
                faults.append((("instead_of", index), f"{name!r} is not a symptom; use another, or remove it"))
        if symptom.runbook and runbooks.is_dir() and not (runbooks / f"{symptom.runbook}.ipynb").is_file():
            faults.append((("runbook",), f"{symptom.runbook!r} is not in runbooks/; add it or remove the field"))
        problems += named(read_yaml(path, where), where, dict.fromkeys(faults)) if faults else []
    entrances = compiled.entrances_source(root)
    return problems + (entrances_file.line_problems(entrances, good.values()) if entrances.is_file() else [])


def _bare_patterns(symptom: Symptom) -> Iterator[tuple[str, bool]]:
    if any(condition.required for condition in symptom.conditions):
        return
    for signature in symptom.signatures:
        if not (signature.frames or signature.phases):
            yield signature.pattern, signature.exception
