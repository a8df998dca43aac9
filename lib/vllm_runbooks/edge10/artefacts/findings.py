"""Findings in compiled models and checkpoints, with the meaning that `catalog/tables` gives their ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_runbooks.catalog.tables import FindingText, RuleFinding, load_table


def meaning(finding_id: str) -> FindingText:
    """Severity, effect and fix of a finding."""
    rows: Mapping[str, FindingText] = load_table("edge10_artefact_findings", FindingText)
    return rows[finding_id]


@dataclass
class FolderNotes:
    """Findings and unknowns of a check in progress."""

    source: str
    """Source in the toolchain's facts."""
    base: str = ""
    """Folder that paths of findings are below, with a trailing slash."""
    findings: list[RuleFinding] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def add(self, finding_id: str, path: str | None, text: str, *, do: str = "") -> None:
        """Add a finding; the path is below the base."""
        row = meaning(finding_id)
        self.findings.append(
            RuleFinding(
                id=finding_id,
                severity=row.severity,
                path=None if path is None else f"{self.base}{path}".rstrip("/") or None,
                text=text,
                effect=row.effect,
                do=do or row.do,
                source=row.source.replace("{guide}", self.source),
                symptom=row.symptom,
            )
        )
