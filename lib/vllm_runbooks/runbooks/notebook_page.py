"""An executed notebook as a page: verdict and summary first, then prose and evidence, with code folded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.markup import clean_html, markdown_html
from vllm_runbooks.core.views.elements import cut
from vllm_runbooks.runbooks.notebook import VERDICT_MIME, declared_parameters
from vllm_runbooks.runbooks.report_page import check_badge, page, printable, safe
from vllm_runbooks.runbooks.shown_cells import shown_cells
from vllm_runbooks.runbooks.verdict_fields import CheckState, VerdictFields, verdict_fields

_OUTPUT_CHARACTERS = 200_000
_ERROR_MARKER = "papermill-error-cell-tag"
_PARAMETER_TAGS = {"parameters", "injected-parameters"}
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
_TITLE = re.compile(r"\A# +(\S.*)$", re.MULTILINE)
_SCROLLED = 'tabindex="0" role="group" aria-label="{}"'
"""Makes a scrollable element reachable by keyboard."""
_SHOW_CODE = "<p class=show-code><label><input type=checkbox> Show the code</label></p>"
"""Works without a script: the style sheet hides the code unless the box is checked."""


def render_notebook(notebook: Mapping[str, Any], run: Mapping[str, Any], links: Mapping[str, str] | None = None) -> str:
    """Render an executed notebook as a safe page.

    Args:
        notebook: As read from the file.
        run: Its entry of `results.json`.
        links: Pages of this report by the names that links of runbooks use.
    """
    name = " · ".join(str(run[key]) for key in ("runbook", "case", "node") if run.get(key))
    cells = [cell for cell in notebook["cells"] if _ERROR_MARKER not in _tags(cell)]
    title, cells = _apart_from_title(shown_cells(cells))
    sections = [(cell, _section(cell, links or {})) for cell in cells if not _PARAMETER_TAGS & {*_tags(cell)}]
    start, end = _summary(sections)
    result = max(end, _result(sections))
    about = "".join(section for _, section in sections[:start])
    summary = "".join(section for _, section in sections[start:end])
    fields = verdict_fields(run, is_diagnosis_only=executes_nothing(notebook))
    body = (
        f'<header><p class=kicker><a href="index.html">All runs</a> <span>{safe(name)}</span></p>'
        f"<h1>{safe(title or name)}</h1>{_fields(fields, summary)}</header><main class=notebook>"
        f"{summary}{_folded('About this runbook', about)}{_parameters(notebook)}{_SHOW_CODE}"
        f"{''.join(section for _, section in sections[end:result])}"
        f"{_folded('Result', ''.join(section for _, section in sections[result:]))}</main>"
    )
    return page(title or name, body)


def executes_nothing(notebook: Mapping[str, Any]) -> bool:
    """Whether a runbook that can launch servers on this host (`live`) was executed without that."""
    live = [value for name, value, *_ in _values(notebook) if name == "live"]
    return live == [False]


def _fields(fields: VerdictFields, summary: str) -> str:
    """Render the check, and the diagnosis unless the summary contains it."""
    dots = f" <span class=certainty>{safe(fields.certainty)}</span>" if fields.certainty else ""
    symptom = f" <code>{safe(fields.symptom)}</code>" if fields.symptom else ""
    text = fields.detail or (
        "the recorded case expects this diagnosis" if fields.check is CheckState.AS_EXPECTED else ""
    )
    detail = f" <span class=detail>{safe(text)}</span>" if text else ""
    name = safe(fields.diagnosis) or "none"
    diagnosis = "" if name in summary else f"<div><dt>Diagnosis<dd><span>{name}</span>{dots}{symptom}</div>"
    return f"<dl class=fields>{diagnosis}<div><dt>Check<dd>{check_badge(fields.check)}{detail}</div></dl>"


def _tags(cell: Mapping[str, Any]) -> Sequence[str]:
    tags = cell.get("metadata", {}).get("tags", [])
    return [tag for tag in tags if isinstance(tag, str)]


def _apart_from_title(cells: Sequence[Mapping[str, Any]]) -> tuple[str, list[Mapping[str, Any]]]:
    """The notebook's title, and its cells without it."""
    for index, cell in enumerate(cells):
        source = joined(cell.get("source"))
        if cell.get("cell_type") == "markdown" and (heading := _TITLE.match(source)):
            rest = {**cell, "source": source[heading.end() :]}
            return heading[1].strip(), [*cells[:index], rest, *cells[index + 1 :]]
    return "", list(cells)


def _summary(sections: Sequence[tuple[Mapping[str, Any], str]]) -> tuple[int, int]:
    """Range of the first cell with an output and its heading; (0, 0) if there is none."""
    first = next((n for n, (cell, _) in enumerate(sections) if cell.get("outputs")), None)
    if first is None:
        return 0, 0
    return _with_heading(sections, first), first + 1


def _result(sections: Sequence[tuple[Mapping[str, Any], str]]) -> int:
    """Start of the last cell, if it shows the verdict, with the heading above it: the page begins with the verdict."""
    last = len(sections) - 1
    outputs = sections[last][0].get("outputs", []) if sections else []
    shows_verdict = any(VERDICT_MIME in (output.get("data") or {}) for output in outputs)
    return _with_heading(sections, last) if shows_verdict else last + 1


def _with_heading(sections: Sequence[tuple[Mapping[str, Any], str]], index: int) -> int:
    above = joined(sections[index - 1][0].get("source")) if index else ""
    return index - 1 if above.startswith("##") else index


def _folded(name: str, html: str) -> str:
    return f"<details class=folded><summary>{name}</summary>{html}</details>" if html else ""


def _values(notebook: Mapping[str, Any]) -> Iterator[tuple[str, object, object, str]]:
    """Each declared parameter: name, value in this run, default and help."""
    metadata = notebook.get("metadata")
    papermill = metadata.get("papermill") if isinstance(metadata, dict) else None
    parameters = papermill.get("parameters") if isinstance(papermill, dict) else None
    injected = parameters if isinstance(parameters, dict) else {}
    try:
        declared = declared_parameters(notebook, Path("notebook"))
    except (InputError, KeyError):
        return
    for parameter in declared:
        yield parameter.name, injected.get(parameter.name, parameter.default), parameter.default, parameter.help


def _parameters(notebook: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><th scope=row><code>{safe(name)}</code><td><code>{safe(cut(repr(value)))}</code>"
        f"{'' if value == default else ' <span class=set>set</span>'}<td>{safe(text)}</tr>"
        for name, value, default, text in _values(notebook)
    )
    head = "<thead><tr><th>Name<th>Value<th>Meaning</tr></thead>"
    return _folded("Parameters", f"<table class=parameters>{head}<tbody>{rows}</tbody></table>" if rows else "")


def _section(cell: Mapping[str, Any], links: Mapping[str, str]) -> str:
    source = joined(cell.get("source"))
    if cell.get("cell_type") == "markdown":
        prose = markdown_html(printable(source[:_OUTPUT_CHARACTERS]), links).strip()
        return f"<section class=prose>{prose}</section>" if prose else ""
    if cell.get("cell_type") != "code":
        return ""
    outputs = "".join(_output(output) for output in cell.get("outputs", []))
    code = _preformatted(source, "in")
    hidden = f"<div class=code>{code}</div>" if code else ""
    return f'<section id="{safe(cell.get("id", ""))}">{outputs}{hidden}</section>' if outputs or hidden else ""


def _output(output: Mapping[str, Any]) -> str:
    kind = output.get("output_type")
    if kind == "stream":
        return _preformatted(joined(output.get("text")), "out")
    if kind == "error":
        traceback = "\n".join(str(line) for line in output.get("traceback") or [])
        return _preformatted(traceback or f"{output.get('ename')}: {output.get('evalue')}", "out failed")
    data = output.get("data") or {}
    for kind in ("image/png", "image/jpeg"):
        encoded = joined(data.get(kind))
        if encoded and _BASE64.fullmatch(encoded):
            alternative = safe(joined(data.get("text/plain")))
            return f'<img alt="{alternative}" src="data:{kind};base64,{"".join(encoded.split())}">'
    if "text/html" in data and (html := clean_html(printable(joined(data["text/html"])))).strip():
        return f"<div class=shown {_SCROLLED.format('Output')}>{html}</div>"
    return _preformatted(joined(data.get("text/plain")), "out")


def _preformatted(text: str, style: str) -> str:
    text = text.strip("\n")
    if not text.strip():
        return ""
    over = len(text) - _OUTPUT_CHARACTERS
    more = f"\n… {over} more characters are in the notebook" if over > 0 else ""
    label = _SCROLLED.format("Code" if style == "in" else "Output")
    return f'<pre class="{style}" {label}>{safe(text[:_OUTPUT_CHARACTERS])}{more}</pre>'


def joined(value: object) -> str:
    """Text of a notebook, which is one string or its lines."""
    if isinstance(value, list):
        return "".join(str(part) for part in value)
    return value if isinstance(value, str) else ""
