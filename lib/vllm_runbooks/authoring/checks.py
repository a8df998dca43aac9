"""Check authored files, and whole catalog folders: every problem is named by file, line and field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from vllm_runbooks.authoring.symptom_trials import check_symptom, cross_check
from vllm_runbooks.authoring.translated_files import translatable
from vllm_runbooks.catalog import specs
from vllm_runbooks.catalog.authored import (
    entrances_file,
    serving_file,
    spec_files,
    table_files,
    toolchain_files,
    translations,
)
from vllm_runbooks.catalog.authored.compiling import compile_index
from vllm_runbooks.catalog.authored.located import named, read_yaml
from vllm_runbooks.catalog.authored.policy_files import read_policy
from vllm_runbooks.catalog.authored.rule_files import compile_rules, read_rule
from vllm_runbooks.catalog.authored.tables import read_line_formats, read_patterns, read_words
from vllm_runbooks.catalog.records import Rule, Symptom
from vllm_runbooks.core.errors import CatalogError, InputError
from vllm_runbooks.runbooks import case_files
from vllm_runbooks.runbooks.case_files import read_case
from vllm_runbooks.runbooks.claims_file import read_claims

_TABLES: dict[str, Callable[[Path, str], object]] = {
    "lines.yaml": read_line_formats,
    "patterns.yaml": read_patterns,
    "classes.yaml": read_words,
    "captures.yaml": read_words,
    "serving.yaml": serving_file.read_serving,
    "entrances.yaml": entrances_file.read_entrances,
}


_KINDS: dict[str, Callable[[Path, str], object]] = {
    "symptoms": check_symptom,
    "policies": read_policy,
    "rules": read_rule,
    "toolchains": toolchain_files.read_toolchain,
    "tables": table_files.read_table,
}


def check_file(path: Path) -> None:
    """Check one authored file by the kind that its name implies.

    Raises InputError with every problem, one per line.
    """
    if path.is_dir():
        raise InputError(f"{path}: is a folder; use a file, or --dir for a catalog folder")
    readers = {**_TABLES, "case.yaml": read_case, "claims.yaml": read_claims}
    reader = readers.get(path.name, _KINDS.get(path.absolute().parent.name))
    if reader is None and (kind := spec_files.kind_of(path)):
        spec_files.read_spec(path, str(path), kind)
        return
    record = (reader or check_symptom)(path, str(path))
    if isinstance(record, (Symptom, Rule)) and (stale := list(translations.stale(record))):
        raise CatalogError("\n".join(named(read_yaml(path, str(path)), str(path), stale)))


def check_folder(root: Path) -> tuple[int, list[str]]:
    """Check a whole catalog folder, its cases included; how many files were read, and the problems, one line each."""
    tables = [path for name in _TABLES if (path := root / name).is_file()]
    data_tables = sorted((root / "tables").glob("*.yaml"))
    cases = sorted((root / "cases").glob("*/")) if (root / "cases").is_dir() else []
    authored = [path for kind in _KINDS for path in (root / kind).glob("*.yaml") if path.is_file()]
    specifications = [path for path in specs.sources(root) if path.is_file()]
    checked = len(tables) + len(authored) + len(specifications) + len(cases)
    if not checked:
        raise InputError(f"{root}: has no symptoms/*.yaml and no cases; use a catalog folder")
    problems: list[str] = []
    for path in [*tables, *data_tables]:
        try:
            (_TABLES.get(path.name) or table_files.read_table)(path, str(path.relative_to(root)))
        except CatalogError as error:
            problems += str(error).splitlines()
    if not problems:
        problems = [*compile_index(root)[1], *compile_rules(root)[1], *cross_check(root)]
    for path, record in translatable(root):
        if stale := list(translations.stale(record)):
            where = str(path.relative_to(root))
            problems += named(read_yaml(path, where), where, stale)
    problems += spec_files.compile_specs(root)[1]
    problems += toolchain_files.compile_toolchains(root)[1]
    for case in cases:
        problems += case_files.folder_problems(case)
    return checked, list(dict.fromkeys(problems))
