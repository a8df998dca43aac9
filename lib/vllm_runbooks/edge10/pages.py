"""A job for an edge chip, for a notebook: settings, scripts, what lies between its steps, and what is made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from vllm_runbooks.edge10 import findings_render as edge10_findings
from vllm_runbooks.edge10.artefacts import render as edge10_checks
from vllm_runbooks.edge10.artefacts.records import CheckedFolder
from vllm_runbooks.edge10.jobs import render as edge10_jobs
from vllm_runbooks.edge10.jobs.records import EdgeJob, MadeFile, MadeIssue, ReadJob
from vllm_runbooks.edge10.scripts import render as edge10_scripts
from vllm_runbooks.edge10.scripts.records import LintedScripts
from vllm_runbooks.lint import render as issues

_MOST = 30
"""Mends and remarks that are shown."""
_TONES = {True: GREEN, False: RED, None: AMBER}


# ---- the job


def job(found: ReadJob, facts: Toolchain, model: ModelSupport | None) -> RenderedView:
    """The settings of a job, each with where it comes from; else what is wrong with its description."""
    by = f"{facts.id}: {facts.source}"
    if found.job is None:
        lines = [redact_text(edge10_jobs.problem_line("job.yaml", each)) for each in found.problems]
        said = Headline("not read", "the description contradicts itself, or the toolchain")
        told = "".join(tag("p", prose(line), "max-width:80ch;margin:2px 0") for line in lines)
        return RenderedView(joined([str(said), *lines, by]), verdict(said, RED) + told + remark(by))
    rows = [[name, visible(redact_text(value)), source] for name, value, source in _settings(found.job)]
    head = ("setting", "value", "where from")
    listed = [f"Of {each.name}: {each.reason}." for each in [model] if each is not None]
    below = "".join(remark(visible(each)) for each in (*listed, *found.doubts, by))
    return RenderedView(
        joined([grid(head, rows).plain.rstrip("\n"), *listed, *found.doubts, by]),
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
            taken = job.defaults.get(name) or job.defaults.get(name.partition(".")[0], "")
            yield name, value, taken.partition(": ")[2] or "the job"


def _dies(order: Sequence[int]) -> str:
    return ", ".join(map(str, order)) or "none"


# ---- the scripts


def scripts(found: Mapping[str, LintedScripts]) -> RenderedView:
    """What is wrong in scripts, file by file, and what each does."""
    whole = edge10_scripts.merged(found)
    count = issues.counted(whole.issues)
    is_wrong = bool(issues.wrong(whole.issues))
    known = sum(bool(each.steps) for each in found.values())
    said = Headline("not ok" if is_wrong else "ok", f"{count or 'nothing wrong'} in {_files(len(found))}")
    pages = [verdict(said, _TONES[not is_wrong] if known else AMBER)]
    for name, each in found.items():
        does = ", ".join(dict.fromkeys(step.step for step in each.steps)) or edge10_scripts.UNKNOWN
        pages.append(heading(f"{visible(name)}: {does}"))
        pages.append(issues.rows_of(each.issues) or remark("nothing wrong"))
    by = f"Servers and evaluations are judged by vLLM {whole.vllm.version}, which {whole.toolchain} evaluates with."
    return RenderedView(joined([str(said), plain(edge10_scripts.view(found)), by]), "".join(pages) + remark(by))


def _files(count: int) -> str:
    return "1 script" if count == 1 else f"{count} scripts"


# ---- what lies between the steps


def folder(found: CheckedFolder) -> RenderedView:
    """What a folder between two steps is, and what is wrong with it."""
    word, why, _ = edge10_checks.STANDINGS[found.ok]
    pages = [verdict(Headline(word, why), _TONES[found.ok])]
    pages += [remark(visible(each)) for each in edge10_checks.about(found)]
    pages.append(edge10_findings.table(found.findings))
    for name, said in (
        ("Not established", found.unchecked),
        ("Not judged", found.notes),
    ):
        if said:
            lines = [*map(visible, said[:_MOST]), *beyond(said, _MOST)]
            pages.append(heading(name) + "".join(map(remark, lines)))
    return RenderedView(plain(edge10_checks.view(found)), "".join(pages))


# ---- what is made


def made(files: Sequence[MadeFile], texts: Mapping[str, str], wrong: Sequence[MadeIssue]) -> RenderedView:
    """The files of a job with what each does, and each in full, folded; and what the linters say of them."""
    rows = [[each.name, each.step or "-", each.description] for each in files]
    head = ("file", "step", "what it does")
    judged = edge10_jobs.judged(wrong) or ["The linters find nothing wrong in them."]
    pages = [html_table(head, cells(rows)), *(remark(visible(each)) for each in judged)]
    for each in files:
        summary = f'<summary style="cursor:pointer">{escape(each.name)}</summary>'
        pages.append(tag("details", summary + preformatted(texts[each.name]), "margin-top:6px"))
    return RenderedView(joined([grid(head, rows).plain.rstrip("\n"), *judged]), "".join(pages))
