"""Show a job for an edge chip in a notebook: settings, scripts, folders between the steps, made files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from vllm_runbooks.catalog.toolchains import AskedModel, Toolchain
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
from vllm_runbooks.edge10 import findings_render as edge10_findings
from vllm_runbooks.edge10.artefacts import render as edge10_checks
from vllm_runbooks.edge10.artefacts.records import CheckedFolder
from vllm_runbooks.edge10.jobs import render as edge10_jobs
from vllm_runbooks.edge10.jobs.records import EdgeJob, MadeFile, MadeIssue, ReadJob
from vllm_runbooks.edge10.scripts import render as edge10_scripts
from vllm_runbooks.edge10.scripts.records import LintedScripts
from vllm_runbooks.lint import render as issues

_MOST = 30
"""Repairs and remarks that are shown."""
_TONES = {True: GREEN, False: RED, None: AMBER}


# ---- the job


def job(read_job: ReadJob, facts: Toolchain, model: AskedModel | None) -> RenderedView:
    """Show the settings of a job with their sources, or what is wrong with its description."""
    by = f"{facts.id}: {facts.source}"
    if read_job.job is None:
        lines = [redact_text(edge10_jobs.problem_line("job.yaml", answer)) for answer in read_job.problems]
        headline = Headline("not read", "the description contradicts itself, or the toolchain")
        paragraphs = "".join(tag("p", prose(line), "max-width:80ch;margin:2px 0") for line in lines)
        return RenderedView(joined([str(headline), *lines, by]), verdict(headline, RED) + paragraphs + remark(by))
    rows = [[name, visible(redact_text(value)), source] for name, value, source in _settings(read_job.job)]
    head = ("setting", "value", "where from")
    listed = [f"Of {answer.name}: {answer.why}." for answer in [model] if answer is not None]
    below = "".join(remark(visible(answer)) for answer in (*listed, *read_job.doubts, by))
    return RenderedView(
        joined([grid(head, rows).plain.rstrip("\n"), *listed, *read_job.doubts, by]),
        html_table(head, cells(rows)) + below,
    )


def _settings(job: EdgeJob) -> Iterator[tuple[str, str, str]]:
    evaluation, fed = job.evaluation, job.calibration
    values = {
        "model": job.model,
        "quantised": job.quantised,
        "dies": str(job.dies),
        "remap.vision": _dies(job.vision_remap[: job.dies]),
        "remap.language": _dies(job.language_remap[: job.dies]),
        "prefill": ", ".join(map(str, job.prefill)),
        "context": f"{job.context_tokens} tokens",
        "kv_cache": None if job.kv_cache_tokens is None else f"{job.kv_cache_tokens} tokens",
        "modality": job.modality,
        "picture": None if job.picture is None else f"{job.picture[0]}x{job.picture[1]} pixels",
        "gpu": "yes" if job.gpu else "no",
        "calibration.samples": None if fed is None else f"{fed.samples} of {fed.tokens} tokens, {fed.method}",
        "calibration.dataset": None if fed is None else f"{fed.dataset}, {fed.split}, {fed.column}",
        "evaluation.datasets": ", ".join(evaluation.datasets),
        "evaluation.limit": "all questions"
        if evaluation.limit is None
        else f"{evaluation.limit} question{'s' * (evaluation.limit != 1)}",
        "evaluation.ports": f"{evaluation.float_port} float, {evaluation.quantised_port} quantised",
        "threshold": None if job.threshold is None else f"{job.threshold:g}",
    }
    for name, value in values.items():
        if value is not None:
            default = job.taken.get(name) or job.taken.get(name.partition(".")[0], "")
            yield name, value, default.partition(": ")[2] or "the job"


def _dies(order: Sequence[int]) -> str:
    return ", ".join(map(str, order)) or "none"


# ---- the scripts


def scripts(linted: Mapping[str, LintedScripts]) -> RenderedView:
    """Show what is wrong in scripts, file by file, and what each does."""
    whole = edge10_scripts.merged(linted)
    count = issues.counted(whole.issues)
    is_wrong = bool(issues.wrong(whole.issues))
    recognised = sum(bool(script.steps) for script in linted.values())
    headline = Headline("not ok" if is_wrong else "ok", f"{count or 'nothing wrong'} in {_files(len(linted))}")
    pages = [verdict(headline, _TONES[not is_wrong] if recognised else AMBER)]
    for name, script in linted.items():
        does = ", ".join(dict.fromkeys(step.step for step in script.steps)) or edge10_scripts.UNKNOWN
        pages.append(heading(f"{visible(name)}: {does}"))
        pages.append(issues.rows_of(script.issues) or remark("nothing wrong"))
    by = f"Servers and evaluations are judged by vLLM {whole.vllm.version}, which {whole.toolchain} evaluates with."
    return RenderedView(joined([str(headline), plain(edge10_scripts.view(linted)), by]), "".join(pages) + remark(by))


def _files(count: int) -> str:
    return "1 script" if count == 1 else f"{count} scripts"


# ---- what lies between the steps


def folder(checked: CheckedFolder) -> RenderedView:
    """Show a folder between two steps, and what is wrong with it."""
    word, why, _ = edge10_checks.STANDINGS[checked.ok]
    pages = [verdict(Headline(word, why), _TONES[checked.ok])]
    pages += [remark(visible(item)) for item in edge10_checks.about(checked)]
    pages.append(edge10_findings.table(checked.findings))
    if checked.mends:
        does = Counter(item.does for item in checked.mends)
        counted = ", ".join(f"{count} {name}" for name, count in does.items())
        pages.append(heading(f"What --repair would do: {counted}"))
        rows = [[item.does, item.source, item.target] for item in checked.mends[:_MOST]]
        pages.append(html_table(("", "from", "to"), cells([[visible(cell) for cell in row] for row in rows])))
        pages += map(remark, beyond(checked.mends, _MOST))
    for name, texts in (
        ("Left to you", checked.left),
        ("Not established", checked.unchecked),
        ("Not judged", checked.remarks),
    ):
        if texts:
            lines = [*map(visible, texts[:_MOST]), *beyond(texts, _MOST)]
            pages.append(heading(name) + "".join(map(remark, lines)))
    return RenderedView(plain(edge10_checks.view(checked)), "".join(pages))


# ---- what is made


def made(files: Sequence[MadeFile], texts: Mapping[str, str], wrong: Sequence[MadeIssue]) -> RenderedView:
    """Show the files of a job, each in full and folded, and what the linters report about them."""
    rows = [[item.name, item.step or "-", item.says] for item in files]
    head = ("file", "step", "what it does")
    judged = edge10_jobs.judged(wrong) or ["The linters find nothing wrong in them."]
    pages = [html_table(head, cells(rows)), *(remark(visible(item)) for item in judged)]
    for item in files:
        summary = f'<summary style="cursor:pointer">{escape(item.name)}</summary>'
        pages.append(tag("details", summary + preformatted(texts[item.name]), "margin-top:6px"))
    return RenderedView(joined([grid(head, rows).plain.rstrip("\n"), *judged]), "".join(pages))
