"""Last results of this host's history as a page, without private data.

A history contains paths, addresses, hosts and commands of its user, so nothing is published by
default: only the fields of `SubjectResult`, and names of subjects only if they are the project's
own. A schedule's name is the user's own, and the page says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from vllm_runbooks.core.records import Verdict
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.history.records import CHECK, PROBE, RUN, SERVE, HistoryEntry
from vllm_runbooks.site.myst import aside, badge, code, prose, table

NAME = "runs"
"""File name of the page."""
MAX_ROWS = 200
_OWN = "evidence of its host"
_KINDS = {CHECK: "Check", RUN: "Run", SERVE: "Supervised launch", PROBE: "Probe of a server"}
_SHOWN = 8
"""Most verdicts of one subject, the newest first."""
_VERSION = re.compile(r"\d{1,4}(?:\.\d{1,4}){1,3}(?:[a-z.+-]{1,6}\d{0,6}){0,3}", re.ASCII)
_MAX_JOB = 60
_SAID = """\
What was checked, run, started and probed where this site was built, the newest of each subject first.

Published are the verdict, the time (UTC), how long it took, the release of vLLM, the name of the schedule as it was
given, and the symptom where the catalog has it. Runbooks and recorded cases are named where they are the project's own;
anything else was evidence of that host, and is called so. Hosts, paths, addresses, commands, parameters and quoted
lines are left out.
"""


@dataclass(frozen=True)
class SubjectResult:
    """The public part of an entry."""

    subject: int
    """Number of the subject: results of one subject share it, even if its name is private."""
    what: str
    """Markdown: the action, in names of the project's own."""
    verdict: Verdict
    began: str
    seconds: float | None
    vllm: str | None
    symptom: str | None
    """Id of a symptom of the catalog."""
    job: str


def published(
    entries: Iterable[HistoryEntry], *, runbooks: Collection[str], cases: Collection[str], symptoms: Collection[str]
) -> list[SubjectResult]:
    """The public part of these entries, in their order, without unfinished ones and those of other kinds."""
    subjects: dict[tuple[str, str, str | None], int] = {}
    return [
        SubjectResult(
            subjects.setdefault((entry.kind, entry.subject, entry.job), len(subjects)),
            f"{_KINDS[entry.kind]}{_about(entry, runbooks, cases)}",
            entry.verdict,
            entry.began,
            entry.seconds,
            entry.vllm if entry.vllm and _VERSION.fullmatch(entry.vllm) else None,
            _symptom(entry, symptoms),
            redact_text(entry.job or "")[:_MAX_JOB],
        )
        for entry in entries
        if entry.verdict is not None and entry.kind in _KINDS
    ]


def _about(entry: HistoryEntry, runbooks: Collection[str], cases: Collection[str]) -> str:
    """The subject if it is the project's own: a runbook, and the recorded case that it ran on."""
    runbook, _, on = entry.subject.partition(" on ")
    if runbook not in runbooks:
        return ""
    return f" of [{code(runbook)}](runbooks/{runbook}.ipynb)" + (
        f" on {code(on) if on in cases else _OWN}" if on else ""
    )


def _symptom(entry: HistoryEntry, symptoms: Collection[str]) -> str | None:
    cause = entry.results.get("root_cause")
    name = cause.get("symptom") if isinstance(cause, dict) else None
    return name if isinstance(name, str) and name in symptoms else None


def run_page(results: Sequence[SubjectResult]) -> str:
    """The page: for each subject and schedule the last result, and the verdicts before it."""
    subjects: dict[int, list[SubjectResult]] = {}
    for result in results:
        subjects.setdefault(result.subject, []).append(result)
    listed = list(subjects.values())[:MAX_ROWS]
    alike = Counter((results_of_subject[0].what, results_of_subject[0].job) for results_of_subject in listed)
    met: Counter[tuple[str, str]] = Counter()
    rows = []
    for results_of_subject in listed:
        subject_key = (results_of_subject[0].what, results_of_subject[0].job)
        met[subject_key] += 1
        rows.append(
            _row(
                results_of_subject,
                f" ({met[subject_key]} of {alike[subject_key]} with unknown names)" if alike[subject_key] > 1 else "",
            )
        )
    head = ["What", "Last result", "When", "Before"]
    parts = [
        "# Last results",
        _SAID.strip(),
        table(head, rows, "34 28 22 16") if rows else "No entries yet.",
    ]
    return "\n\n".join(parts) + "\n"


def _row(results: Sequence[SubjectResult], which: str) -> tuple[str, str, str, str]:
    last = results[0]
    what = [f"{last.what}{which}", *([aside(f"schedule {prose(last.job)}")] if last.job else [])]
    cells = [badge(last.verdict.value)]
    if last.symptom:
        cells.append(f"[{code(last.symptom)}](symptoms/{last.symptom}.md)")
    if last.vllm:
        cells.append(aside(f"vLLM {prose(last.vllm)}"))
    took = "" if last.seconds is None else f"\n\n{aside(prose(f'{last.seconds:.1f} s'))}"
    before = " ".join(badge(result.verdict.value) for result in results[1 : _SHOWN + 1])
    return (
        "\n\n".join(what),
        "\n\n".join(cells),
        f"{prose(last.began.replace('T', ' ').removesuffix('Z'))}{took}",
        before,
    )
