"""Render `results.json` as `index.html`, with a page for each executed notebook.

The pages need no network, and their script only filters and copies; their text is escaped, and HTML and Markdown of
notebooks are cleaned.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import store
from vllm_runbooks.core.views.summary import count_of
from vllm_runbooks.runbooks.changes import (
    RunChange,
    RunKey,
    compare,
    compared_since,
    is_comparable,
    previous_runs,
)
from vllm_runbooks.runbooks.notebook_page import executes_nothing, render_notebook
from vllm_runbooks.runbooks.report_page import CHECK_STYLES, check_badge, page, safe
from vllm_runbooks.runbooks.verdict_fields import NO_RUNBOOK, CheckState, VerdictFields, verdict_fields

_NOTEBOOK_BYTES = 8 * 1024 * 1024
"""Larger notebooks get no page, only a link."""
_OUTCOMES = {"unknown": "unknown whether it became ready"}
_ALWAYS = (RunChange.NEW_FAILURE, RunChange.FIXED, RunChange.UNCHANGED)
_CHANGE_STYLES = {
    RunChange.NEW_FAILURE: "fail",
    RunChange.STILL_FAILING: "fail",
    RunChange.NOT_FINISHED: "interrupted",
    RunChange.FIXED: "pass",
    RunChange.OTHER_DIAGNOSIS: "error",
    RunChange.NEW_CASE: "skipped",
    RunChange.UNCHANGED: "skipped",
}


@dataclass(frozen=True)
class EvidencePage:
    """The page of a notebook."""

    name: str
    is_diagnosis_only: bool


@dataclass(frozen=True)
class _ReportRow:
    run: Mapping[str, Any]
    fields: VerdictFields
    change: RunChange
    page: str | None
    """The notebook's page, if there is one."""


def write_report(out_dir: Path) -> Path:
    """Write `index.html` and the pages of evidence for a folder's results."""
    source = out_dir / "results.json"
    try:
        results = json.loads(source.read_text(encoding="utf-8"))
        runs = [run for run in results["runs"] if isinstance(run, dict)]
    except FileNotFoundError:
        raise InputError(f"{source}: no such file; use the folder that `check` wrote") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{source}: is not a list of runs; run `check` again") from None
    links = {
        f"{run.get('runbook')}.ipynb": _page_name(name) for run in runs if (name := _readable_notebook(out_dir, run))
    }
    pages = {}
    for run in runs:
        notebook = _readable_notebook(out_dir, run)
        if notebook and (evidence := _write_page(out_dir / notebook, run, links)):
            pages[notebook] = evidence
    index = out_dir / "index.html"
    store(index, render_report(results, pages=pages, previous=previous_runs(out_dir)))
    return index


def render_report(
    results: Mapping[str, Any],
    *,
    pages: Mapping[str, EvidencePage] | None = None,
    previous: Mapping[RunKey, Mapping[str, Any]] | None = None,
) -> str:
    """Render `results.json` with links to the pages of notebooks, compared with the previous runs."""
    before = previous or {}
    rows = sorted(
        (_report_row(run, pages or {}, before) for run in _mappings(results["runs"])),
        key=lambda entry: [*CheckState].index(entry.fields.check),
    )
    runs = [entry.run for entry in rows]
    table = _table(rows, is_compared=bool(compared_since(runs, before))) if rows else ""
    began, tool = results.get("began"), results.get("tool")
    when = f"{f', started {_time(began)}' if began else ''}{f', {safe(tool)}' if tool else ''}"
    body = (
        f"<header><p class=kicker>vLLM runbooks</p><h1>{_headline(rows)}</h1>{_proportions(rows)}"
        f"{_changes(rows, before) if rows else '<p>No runs were requested.</p>'}"
        f"<p class=quiet>{count_of(len(runs), 'run')}, "
        f"{_duration(sum(map(_seconds, runs)))} of work{when}. "
        "A check compares the diagnosis with the one that the recorded case expects. "
        'Also as <a href="results.json">results.json</a> and <a href="junit.xml">JUnit XML</a>.</p></header>'
        f"<main>{_filters(rows) if len(rows) > 1 else ''}{table}{_nodes(results, rows)}{_differences(results)}</main>"
    )
    return page(f"{_headline(rows)} · vLLM runbooks", body)


def _report_row(
    run: Mapping[str, Any], pages: Mapping[str, EvidencePage], previous: Mapping[RunKey, Mapping[str, Any]]
) -> _ReportRow:
    evidence = pages.get(_notebook_name(run) or "")
    fields = verdict_fields(run, is_diagnosis_only=evidence is not None and evidence.is_diagnosis_only)
    return _ReportRow(run, fields, compare(run, previous), evidence.name if evidence else None)


def _write_page(path: Path, run: Mapping[str, Any], links: Mapping[str, str]) -> EvidencePage | None:
    """Write a notebook's page next to it; None if it is not a notebook."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        html = render_notebook(notebook, run, links)
        evidence = EvidencePage(_page_name(path.name), executes_nothing(notebook))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    store(path.with_name(evidence.name), html)
    return evidence


def _nodes(results: Mapping[str, Any], entries: Sequence[_ReportRow]) -> str:
    rows = ""
    for node in _mappings(results.get("nodes")):
        executed = [entry for entry in entries if entry.run.get("node") == node.get("name")]
        did = ", ".join(f"{count} {check}" for check, count in _counts(executed)) or "nothing executed"
        work = sum(_seconds(entry.run) for entry in executed)
        state = "lost" if node.get("is_lost") else "used" if node.get("is_used") else "not used"
        reason = f"<p class=reason>{safe(node['reason'])}</p>" if node.get("reason") else ""
        rows += (
            f"<tr><td>{state}<td class=what><strong>{safe(node.get('name') or '')}</strong> "
            f"<span class=case>{safe(node.get('address') or '')}</span>{reason}"
            f'<td data-label="Runs">{did}<td class=n data-label="Work">{_duration(work)}</tr>'
        )
    head = "<h2>By node</h2><table class=runs><thead><tr><th>State<th>Node<th>Runs<th class=n>Work</tr></thead>"
    return f"{head}<tbody>{rows}</tbody></table>" if rows else ""


def _differences(results: Mapping[str, Any]) -> str:
    if not _mappings(results.get("nodes")):
        return ""
    rows = ""
    for difference in sorted(
        _mappings(results.get("differences")), key=lambda difference: not difference.get("is_significant")
    ):
        values = difference.get("values")
        by_node = values.items() if isinstance(values, dict) else ()
        listed = "".join(
            f"<li><strong>{safe(node)}</strong> {'unknown' if value is None else safe(value)}"
            for node, value in by_node
        )
        weight = "verdicts depend on it" if difference.get("is_significant") else ""
        rows += (
            f"<tr><td class=what>{safe(difference.get('fact') or '')}<p class=reason>{weight}</p>"
            f'<td data-label="On the nodes"><ul>{listed}</ul></tr>'
        )
    if not rows:
        return "<h2>Differences between nodes</h2><p>No differences found.</p>"
    head = "<h2>Differences between nodes</h2><table class=runs><thead><tr><th>What<th>On the nodes</tr></thead>"
    return f"{head}<tbody>{rows}</tbody></table>"


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _row(entry: _ReportRow, *, slowest: float) -> str:
    run, fields = entry.run, entry.fields
    is_alone = run.get("runbook") == NO_RUNBOOK
    name = "Diagnosis only" if is_alone else run.get("runbook") or ""
    case = f" <span class=case>{safe(run['case'])}</span>" if run.get("case") else ""
    case += f" <span class=case>on node {safe(run['node'])}</span>" if run.get("node") else ""
    if lost := run.get("lost_on"):
        case += f" <span class=case>(started before on {safe(', '.join(map(str, lost)))})</span>"
    detail = f"<p class=reason>{safe(fields.detail)}</p>" if fields.detail else ""
    share = 100 * _seconds(run) / slowest if slowest else 0
    return (
        f'<tr data-check="{safe(fields.check)}"><td>{check_badge(fields.check)}'
        f"<td class=what><strong>{safe(name)}</strong>{case}{detail}"
        f'<td data-label="Diagnosis">{_diagnosis(run, fields)}{_findings(run, fields)}'
        f'<td class=n data-label="Duration">{_duration(_seconds(run))}'
        f'<span class=bar><i style="width:{share:.0f}%"></i></span>'
        f'<td data-label="Evidence">{_evidence(run, entry.page)}</tr>'
    )


def _diagnosis(run: Mapping[str, Any], fields: VerdictFields) -> str:
    title = f"<span>{safe(fields.diagnosis) or 'none'}</span>"
    if not fields.symptom:
        return title
    outcome = run.get("outcome")
    basis = (safe(fields.certainty), safe(_OUTCOMES.get(str(outcome), outcome or "")))
    return f"{title}<p class=reason>{' · '.join(filter(None, basis))}<br><code>{safe(fields.symptom)}</code></p>"


def _findings(run: Mapping[str, Any], fields: VerdictFields) -> str:
    """Findings other than the root cause, folded."""
    findings = [finding for finding in _mappings(run.get("findings")) if finding.get("symptom") != fields.symptom]
    items = "".join(
        f"<li>{safe(finding.get('title'))} <small>{safe(finding.get('severity'))}, {safe(finding.get('level'))}</small>"
        for finding in findings
    )
    name = count_of(len(findings), "more finding")
    return f"<details><summary>{name}</summary><ul>{items}</ul></details>" if findings else ""


def _evidence(run: Mapping[str, Any], page_name: str | None) -> str:
    notebook = _notebook_name(run)
    if not notebook:
        return ""
    read = f'<a href="{safe(page_name)}">Read</a> ' if page_name else ""
    return f'{read}<a href="{safe(notebook)}" download>Notebook</a>'


def _readable_notebook(folder: Path, run: Mapping[str, Any]) -> str | None:
    """The run's notebook, if it can be converted to a page."""
    name = _notebook_name(run)
    try:
        return name if name and (folder / name).stat().st_size <= _NOTEBOOK_BYTES else None
    except OSError:
        return None


def _notebook_name(run: Mapping[str, Any]) -> str | None:
    """The notebook's name, unless it leads elsewhere."""
    name = run.get("notebook")
    return name if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.ipynb", name) else None


def _page_name(notebook: str) -> str:
    return f"{notebook.removesuffix('.ipynb')}.html" if notebook != "index.ipynb" else "index-notebook.html"


def _headline(rows: Sequence[_ReportRow]) -> str:
    counts = [f"{count} {check}" for check, count in _counts(rows)]
    first, _, rest = ", ".join(counts).partition(" ")
    return f"{first} {'check' if first == '1' else 'checks'} {rest}" if counts else "No runs"


def _proportions(rows: Sequence[_ReportRow]) -> str:
    segments = "".join(f'<i class="{CHECK_STYLES[check]}" style="flex:{count}"></i>' for check, count in _counts(rows))
    return f'<div class=proportions aria-hidden="true">{segments}</div>'


def _counts(rows: Iterable[_ReportRow]) -> list[tuple[CheckState, int]]:
    counts = Counter(entry.fields.check for entry in rows)
    return [(check, counts[check]) for check in CheckState if counts[check]]


def _changes(rows: Sequence[_ReportRow], previous: Mapping[RunKey, Mapping[str, Any]]) -> str:
    """Changes since the last run, each number a link to its rows."""
    if not any(is_comparable(entry.run) for entry in rows):
        return ""
    began = compared_since([entry.run for entry in rows], previous)
    if not began:
        return "<p class=quiet>No earlier run in this folder to compare with.</p>"
    counts = Counter(entry.change for entry in rows)
    items = "".join(
        f'<li class="{_CHANGE_STYLES[change] if counts[change] else "none"}">{_counted(change, counts[change])}'
        for change in RunChange
        if counts[change] or change in _ALWAYS
    )
    since = (
        f"the last run, {_time(began[-1])}" if len(began) == 1 else f"each case’s last run, up to {_time(began[-1])}"
    )
    return f"<section class=changes><h2>Since {since}</h2><ul>{items}</ul></section>"


def _counted(change: RunChange, count: int) -> str:
    text = f"<strong>{count}</strong> {change.removesuffix('s') if count == 1 else change}"
    return f'<a href="#{_anchor(change)}">{text}</a>' if count else f"<span>{text}</span>"


def _anchor(change: RunChange) -> str:
    return change.replace(" ", "-")


def _filters(rows: Sequence[_ReportRow]) -> str:
    """Buttons and a field for the script, which shows them."""
    choices = [("", "All", len(rows)), *((check, check.capitalize(), count) for check, count in _counts(rows))]
    buttons = "".join(
        f'<button type=button data-check="{check}" aria-pressed={"false" if check else "true"}>'
        f"{name} <span>{count}</span></button>"
        for check, name, count in choices
    )
    return (
        f'<div class=filters hidden role=group aria-label="Filter runs">{buttons}'
        '<input type=search placeholder="Runbook, case, diagnosis …" aria-label="Filter by text">'
        "<span class=quiet role=status></span></div>"
    )


def _table(rows: Sequence[_ReportRow], *, is_compared: bool) -> str:
    slowest = max((_seconds(entry.run) for entry in rows), default=0.0)
    head = (
        "<table class=runs><thead><tr><th>Check<th>Runbook and case<th>Diagnosis<th class=n>Duration<th>Evidence</tr>"
        "</thead>"
    )
    if not is_compared:
        return f"{head}<tbody>{''.join(_row(entry, slowest=slowest) for entry in rows)}</tbody></table>"
    groups = ""
    for change in RunChange:
        group = [entry for entry in rows if entry.change is change]
        if group:
            title = f"<tr class=group><th colspan=5 scope=rowgroup>{change.capitalize()} <span>{len(group)}</span></tr>"
            body = "".join(_row(entry, slowest=slowest) for entry in group)
            groups += f'<tbody id="{_anchor(change)}">{title}{body}</tbody>'
    return f"{head}{groups}</table>"


def _time(text: object) -> str:
    """A timestamp to read, in its own time zone."""
    try:
        timestamp = datetime.fromisoformat(str(text))
    except ValueError:
        return safe(text)
    zone = timestamp.tzname() or ""
    return f"<time>{safe(f'{timestamp:%Y-%m-%d %H:%M} {zone}'.strip())}</time>"


def _seconds(run: Mapping[str, Any]) -> float:
    seconds = run.get("seconds")
    return float(seconds) if isinstance(seconds, (int, float)) and seconds >= 0 else 0.0


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"
