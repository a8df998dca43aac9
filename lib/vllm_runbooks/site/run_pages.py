"""The last results of this host's history as a page of the site, with what may be published and nothing else.

A history holds paths, addresses, hosts and commands of whoever keeps it. So nothing is taken over by default: of each
entry only what is listed in `Result` is shown, and the names of subjects only where the project itself gave them; that
of a schedule is the user's own, and the page says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from vllm_runbooks.core.records import Verdict
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.history.records import CHECK, PROBE, RUN, SERVE, Entry
from vllm_runbooks.site.myst import aside, badge, code, prose, table

NAME = "runs"
"""Of the page."""
MAX_ROWS = 200
_OWN = "evidence of its host"
_KINDS = {CHECK: "Check", RUN: "Run", SERVE: "Guarded start", PROBE: "Probe of a server"}
_SHOWN = 8
"""Verdicts of one subject that are shown, the newest first."""
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
class Result:
    """What may be published of one entry."""

    subject: int
    """Number of what was judged: results of one subject have the same, though its name may not be told."""
    what: str
    """Markdown: what was done, in names of the project's own."""
    verdict: Verdict
    began: str
    seconds: float | None
    vllm: str | None
    symptom: str | None
    """Id of a symptom of the catalog."""
    job: str


def published(
    entries: Iterable[Entry], *, runbooks: Collection[str], cases: Collection[str], symptoms: Collection[str]
) -> list[Result]:
    """What may be published of these entries, in their order; what has not ended, or is of no such kind, is out."""
    subjects: dict[tuple[str, str, str | None], int] = {}
    return [
        Result(
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


def _about(entry: Entry, runbooks: Collection[str], cases: Collection[str]) -> str:
    """The subject, where it is the project's own: a runbook, and the recorded case that it ran on."""
    runbook, _, on = entry.subject.partition(" on ")
    if runbook not in runbooks:
        return ""
    return f" of [{code(runbook)}](runbooks/{runbook}.ipynb)" + (
        f" on {code(on) if on in cases else _OWN}" if on else ""
    )


def _symptom(entry: Entry, symptoms: Collection[str]) -> str | None:
    cause = entry.results.get("root_cause")
    name = cause.get("symptom") if isinstance(cause, dict) else None
    return name if isinstance(name, str) and name in symptoms else None


def run_page(results: Sequence[Result]) -> str:
    """The page: for each subject and schedule the last result, and the verdicts before it."""
    subjects: dict[int, list[Result]] = {}
    for result in results:
        subjects.setdefault(result.subject, []).append(result)
    shown = list(subjects.values())[:MAX_ROWS]
    alike = Counter((found[0].what, found[0].job) for found in shown)
    met: Counter[tuple[str, str]] = Counter()
    rows = []
    for found in shown:
        told = (found[0].what, found[0].job)
        met[told] += 1
        rows.append(_row(found, f" ({met[told]} of {alike[told]} whose names are not told)" if alike[told] > 1 else ""))
    head = ["What", "Last result", "When", "Before"]
    parts = [
        "# Last results",
        _SAID.strip(),
        table(head, rows, "34 28 22 16") if rows else "Nothing has been kept yet.",
    ]
    return "\n\n".join(parts) + "\n"


def _row(found: Sequence[Result], which: str) -> tuple[str, str, str, str]:
    last = found[0]
    what = [f"{last.what}{which}", *([aside(f"schedule {prose(last.job)}")] if last.job else [])]
    told = [badge(last.verdict.value)]
    if last.symptom:
        told.append(f"[{code(last.symptom)}](symptoms/{last.symptom}.md)")
    if last.vllm:
        told.append(aside(f"vLLM {prose(last.vllm)}"))
    took = "" if last.seconds is None else f"\n\n{aside(prose(f'{last.seconds:.1f} s'))}"
    before = " ".join(badge(result.verdict.value) for result in found[1 : _SHOWN + 1])
    return (
        "\n\n".join(what),
        "\n\n".join(told),
        f"{prose(last.began.replace('T', ' ').removesuffix('Z'))}{took}",
        before,
    )
