"""Findings in compiled models and checkpoints, with the meaning that `catalog/tables` gives their ids."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_runbooks.catalog.tables import FindingText, RuleFinding, load_table


def meaning(finding_id: str) -> FindingText:
    """Severity, effect and fix of a finding."""
    rows: Mapping[str, FindingText] = load_table("edge10_artefact_findings", FindingText)
    return rows[finding_id]


def artefact_finding(finding_id: str, path: str | None, text: str, *, do: str = "", source: str) -> RuleFinding:
    """Build a finding.

    Args:
        finding_id: Its row in the table.
        path: File or folder that it is about; None if it is about the whole folder.
        text: What is wrong, with the values.
        do: The fix, if it differs from the table's.
        source: Source of the toolchain's facts.
    """
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
