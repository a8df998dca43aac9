"""Read claims about a case; problems are reported by file, line and field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vllm_runbooks.catalog.authored.located import Location, Problem
from vllm_runbooks.catalog.authored.yaml_files import read_record
from vllm_runbooks.core.evidence import Claim, Claims
from vllm_runbooks.diagnosis.claims import figures
from vllm_runbooks.diagnosis.claims.expressions import Figures, faults

ADAPTER: TypeAdapter[Any] = TypeAdapter(Claims)


def read_claims(path: Path, where: str | None = None) -> Claims:
    """Read a case's `claims.yaml`; raises CatalogError with every problem, one a line."""
    where = where or f"{path.parent.name}/{path.name}"
    judged: Claims = read_record(path, where, ADAPTER, lambda read: _claims_problems(read, path.parent))
    return judged


def _claims_problems(judged: Claims, folder: Path) -> Iterator[Problem]:
    files = [file.read_text(encoding="utf-8", errors="replace") for file in folder.iterdir() if file.suffix != ".yaml"]
    names = [claim.id for claim in judged.claims]
    if not names:
        yield ("claims",), "is empty; add the document's claims, or remove the file"
    for index, fact in enumerate(judged.given):
        if not fact.name.isidentifier():
            yield ("given", index, "name"), f"{fact.name!r} is not a valid name; use one such as gpu_total_gib"
    tables: dict[str, Mapping[str, Any]] = {"plans": judged.plans, "cards": judged.cards, "lines": judged.lines}
    rows_named = [(table, name) for table, rows in tables.items() for name in rows]
    for table, name in rows_named:
        if not re.fullmatch(r"(?!start\d+\Z)[a-z]\w{0,30}", name, re.ASCII):
            yield (table, name), f"{name!r} is not a valid name; use one such as two_cards, not one such as start2"
        elif sum(other == name for _, other in rows_named) > 1:
            yield (table, name), f"{name!r} is already used; names must be unique in `plans`, `cards` and `lines`"
    figure_names = figures.figures(judged)
    for index, claim in enumerate(judged.claims):
        if names.index(claim.id) != index or not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+){0,8}", claim.id, re.ASCII):
            yield ("claims", index, "id"), f"{claim.id!r} is not a unique id; use lowercase letters and hyphens"
        for location, problem in _claim_problems(claim, files, figure_names):
            yield ("claims", index, *location), problem


def _claim_problems(claim: Claim, files: list[str], figure_names: Figures) -> Iterator[Problem]:
    expressions: list[tuple[Location, str]] = [
        (("figures", name), expression) for name, expression in claim.figures.items()
    ]
    expressions += [
        ((name,), expression_text)
        for name in ("right_if", "only_if")
        if (expression_text := getattr(claim, name)) is not None
    ]
    for location, expression in expressions:
        for fault in faults(expression, figure_names):
            yield location, fault
    if not claim.because:
        yield ("because",), "is empty; describe the comparison with its numbers"
    if claim.credit and (len(claim.credit.starts) != 2 or min(claim.credit.starts) < 1):
        yield ("credit", "starts"), "must be two launches, counted from 1"
    for index, words in enumerate(claim.quotes):
        if not any(words in text for text in files):
            yield ("quotes", index), f"{words[:60]!r} is in no file of the case"
