"""A job for an edge chip, for a notebook: settings, scripts, folders between its steps, results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from vllm_runbooks.catalog.toolchains import ModelSupport, Toolchain
from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.core.views.elements import (
    AMBER,
    GREEN,
    RED,
    Headline,
    beyond,
    cells,
    grid,
    heading,
    html_table,
    joined,
    preformatted,
    prose,
    remark,
    tag,
    verdict,
)
from vllm_runbooks.core.views.styled import plain
from vllm_runbooks.core.views.summary import count_of
from vllm_runbooks.edge10 import findings_render as edge10_findings
from vllm_runbooks.edge10.artefacts import render as edge10_checks
from vllm_runbooks.edge10.artefacts.records import CheckedFolder
from vllm_runbooks.edge10.jobs import render as edge10_jobs
from vllm_runbooks.edge10.jobs import steps
from vllm_runbooks.edge10.jobs.records import MadeFile, MadeIssue, ReadJob
from vllm_runbooks.edge10.scripts import render as edge10_scripts
from vllm_runbooks.edge10.scripts.records import LintedScripts
from vllm_runbooks.lint import render as issues

_MAX_REMARKS = 30
"""Remarks of a kind that are shown."""
_TONES = {True: GREEN, False: RED, None: AMBER}


def job(description: ReadJob, facts: Toolchain, model: ModelSupport | None) -> RenderedView:
    """Show the settings of a job as YAML with their sources, or its description's problems."""
    source = f"{facts.id}: {facts.source}"
    if description.job is None:
        lines = [redact_text(edge10_jobs.problem_line("job.yaml", problem)) for problem in description.problems]
        headline = Headline("not read", "the description is inconsistent, or does not fit the toolchain")
        problems = "".join(tag("p", prose(line), "max-width:80ch;margin:2px 0") for line in lines)
        return RenderedView(joined([str(headline), *lines, source]), verdict(headline, RED) + problems + remark(source))
    listed = () if model is None else (f"Of {model.name}: {model.reason}.",)
    remarks = (*listed, *description.doubts, source)
    text = redact_text(steps.job_text(description.job, facts))
    below = "".join(remark(visible(line)) for line in remarks)
    return RenderedView(joined([text.rstrip("\n"), *remarks]), preformatted(text) + below)


def scripts(results: Mapping[str, LintedScripts]) -> RenderedView:
    """Show the problems of scripts, file by file, and what each script does."""
    whole = edge10_scripts.merged(results)
    is_wrong = bool(issues.wrong(whole.issues))
    counts = f"{issues.counted(whole.issues) or 'no problems'} in {count_of(len(results), 'script')}"
    headline = Headline("not ok" if is_wrong else "ok", counts)
    pages = [verdict(headline, _TONES[not is_wrong] if whole.steps else AMBER)]
    for name, linted in results.items():
        does = ", ".join(dict.fromkeys(step.step for step in linted.steps)) or edge10_scripts.UNKNOWN
        pages.append(heading(f"{visible(name)}: {does}"))
        pages.append(issues.rows_of(linted.issues) or remark("no problems"))
    release = (
        f"Servers and evaluations are checked against vLLM {whole.vllm.version}, which "
        f"{whole.toolchain} uses for evaluation."
    )
    text = joined([str(headline), plain(edge10_scripts.view(results)), release])
    return RenderedView(text, "".join(pages) + remark(release))


def folder(checked: CheckedFolder) -> RenderedView:
    """Show the kind of a folder between two steps, and its problems."""
    word, why, _ = edge10_checks.STANDINGS[checked.ok]
    pages = [verdict(Headline(word, why), _TONES[checked.ok])]
    pages += [remark(visible(line)) for line in edge10_checks.about(checked)]
    pages.append(edge10_findings.table(checked.findings))
    for title, remarks in (("Unknown", checked.unchecked), ("Not checked", checked.notes)):
        if remarks:
            lines = [*map(visible, remarks[:_MAX_REMARKS]), *beyond(remarks, _MAX_REMARKS)]
            pages.append(heading(title) + "".join(map(remark, lines)))
    return RenderedView(plain(edge10_checks.view(checked)), "".join(pages))


def made(files: Sequence[MadeFile], texts: Mapping[str, str], made_issues: Sequence[MadeIssue]) -> RenderedView:
    """Show the files of a job with their purpose, folded, and the linters' issues."""
    rows = [[file.name, file.step or "-", file.description] for file in files]
    head = ("file", "step", "description")
    lines = edge10_jobs.judged(made_issues) or ["The linters found no problems."]
    pages = [html_table(head, cells(rows)), *(remark(visible(line)) for line in lines)]
    for file in files:
        summary = f'<summary style="cursor:pointer">{escape(file.name)}</summary>'
        pages.append(tag("details", summary + preformatted(texts[file.name]), "margin-top:6px"))
    return RenderedView(joined([grid(head, rows).plain.rstrip("\n"), *lines]), "".join(pages))
