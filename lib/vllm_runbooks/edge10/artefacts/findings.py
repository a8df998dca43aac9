"""Findings in compiled models and checkpoints, with the meaning that `catalog/tables` gives their ids."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_runbooks.catalog.tables import FindingText, RuleFinding, load_table


def meaning(finding_id: str) -> FindingText:
    """Severity, effect and fix of a finding."""
    rows: Mapping[str, FindingText] = load_table("edge10_artefact_findings", FindingText)
    return rows[finding_id]


def artefact_finding(finding_id: str, path: str | None, text: str, *, do: str = "", source: str) -> RuleFinding:
    """Build a finding."""
    row = meaning(finding_id)
    return RuleFinding(
        id=finding_id,
        severity=row.severity,
        path=path,
        text=text,
        effect=row.effect,
        do=do or row.do,
        source=row.source.replace("{guide}", source),
        symptom=row.symptom,
    )
