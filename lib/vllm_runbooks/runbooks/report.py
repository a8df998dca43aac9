"""Render `results.json` as `index.html`, with a page for each executed notebook.

The pages need no network and no script; their text is escaped, and HTML of notebooks is cleaned.
"""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import store
from vllm_runbooks.core.markup import clean_html
from vllm_runbooks.core.records import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ATTENTION = [Verdict.FAIL, Verdict.ERROR, Verdict.INTERRUPTED, Verdict.SKIPPED, Verdict.PASS]
_HEADLINE = {
    Verdict.PASS: "passed",
    Verdict.FAIL: "failed",
    Verdict.ERROR: "could not be judged",
    Verdict.SKIPPED: "skipped",
    Verdict.INTERRUPTED: "interrupted",
}
_NOTEBOOK_BYTES = 8 * 1024 * 1024
"""Larger notebooks get no page, only a link."""
_OUTPUT_CHARACTERS = 200_000
_ERROR_MARKER = "papermill-error-cell-tag"
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")


def write_report(out_dir: Path) -> Path:
    """Write `index.html` and the pages of evidence for a folder's results."""
    source = out_dir / "results.json"
    try:
        results = json.loads(source.read_text(encoding="utf-8"))
        runs = [run for run in results["runs"] if isinstance(run, dict)]
    except FileNotFoundError:
        raise InputError(f"{source}: no such file; give the folder that `check` wrote") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{source}: is not a list of runs; let `check` write it again") from None
    pages = set()
    for run in runs:
        notebook = _notebook_name(run)
        if notebook and (page := _evidence_page(out_dir / notebook, run)):
            store(out_dir / _page_name(notebook), page)
            pages.add(_page_name(notebook))
    index = out_dir / "index.html"
    store(index, render_report(results, pages=pages))
    return index


def render_report(results: Mapping[str, Any], *, pages: set[str] | None = None) -> str:
    """Render `results.json` with links to existing pages."""
    runs = sorted((run for run in results["runs"] if isinstance(run, dict)), key=_rank)
    slowest = max((_seconds(run) for run in runs), default=0.0)
    rows = "".join(_row(run, slowest=slowest, pages=pages or set()) for run in runs)
    table = (
        "<table><thead><tr><th>Verdict<th>Runbook and case<th>Outcome<th>Root cause<th class=n>Findings"
        f"<th class=n>Duration<th>Evidence</tr></thead><tbody>{rows}</tbody></table>"
        if runs
        else "<p class=quiet>No run was asked for.</p>"
    )
    total = _duration(sum(_seconds(run) for run in runs))
    began, tool = results.get("began"), results.get("tool")
    when = f"{f', begun {_text(began)}' if began else ''}{f', {_text(tool)}' if tool else ''}"
    body = (
        f"<header><p class=kicker>vLLM runbooks</p><h1>{_headline(runs)}</h1>{_proportions(runs)}"
        f"<p class=quiet>{len(runs)} {'run' if len(runs) == 1 else 'runs'}, {total} of work{when}. "
        'Also as <a href="results.json">results.json</a> and <a href="junit.xml">JUnit XML</a>.</p></header>'
        f"<main>{table}{_nodes(results, runs)}{_differences(results)}</main>"
    )
    return _page(f"{_headline(runs)} · vLLM runbooks", body)


def _nodes(results: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
    rows = ""
    for node in _mappings(results.get("nodes")):
        its = [run for run in runs if run.get("node") == node.get("name")]
        did = ", ".join(f"{count} {verdict}" for verdict, count in _counts(its)) or "nothing executed"
        state = "lost" if node.get("is_lost") else "used" if node.get("is_used") else "not used"
        reason = f"<p class=reason>{_text(node['reason'])}</p>" if node.get("reason") else ""
        rows += (
            f"<tr><td>{state}<td class=what><strong>{_text(node.get('name') or '')}</strong> "
            f"<span class=case>{_text(node.get('address') or '')}</span>{reason}"
            f'<td data-label="Runs">{did}<td class=n data-label="Work">{_duration(sum(map(_seconds, its)))}</tr>'
        )
    head = "<h2>By node</h2><table><thead><tr><th>State<th>Node<th>Runs<th class=n>Work</tr></thead>"
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
            f"<li><strong>{_text(node)}</strong> {'unknown' if value is None else _text(value)}"
            for node, value in by_node
        )
        weight = "verdicts depend on it" if difference.get("is_significant") else ""
        rows += (
            f"<tr><td class=what>{_text(difference.get('fact') or '')}<p class=reason>{weight}</p>"
            f'<td data-label="On the nodes"><ul>{listed}</ul></tr>'
        )
    if not rows:
        return "<h2>Differences between nodes</h2><p>None was found.</p>"
    head = "<h2>Differences between nodes</h2><table><thead><tr><th>What<th>On the nodes</tr></thead>"
    return f"{head}<tbody>{rows}</tbody></table>"


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def render_notebook(notebook: Mapping[str, Any], *, title: str, verdict: str = "", reason: str = "") -> str:
    """Render an executed notebook as a safe page."""
    head = f"{_badge(verdict)} " if verdict else ""
    body = (
        f'<header><p class=kicker><a href="index.html">All runs</a></p><h1>{_text(title)}</h1>'
        f"<p>{head}{_text(reason)}</p></header><main class=notebook>{''.join(_cells(notebook))}</main>"
    )
    return _page(title, body)


def _evidence_page(path: Path, run: Mapping[str, Any]) -> str | None:
    try:
        if path.stat().st_size > _NOTEBOOK_BYTES:
            return None
        notebook = json.loads(path.read_text(encoding="utf-8"))
        title = " · ".join(str(run[key]) for key in ("runbook", "case") if run.get(key))
        return render_notebook(
            notebook, title=title, verdict=str(run.get("verdict")), reason=str(run.get("reason") or "")
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _row(run: Mapping[str, Any], *, slowest: float, pages: set[str]) -> str:
    case = f" <span class=case>{_text(run['case'])}</span>" if run.get("case") else ""
    case += f" <span class=case>on node {_text(run['node'])}</span>" if run.get("node") else ""
    if lost := run.get("lost_on"):
        case += f" <span class=case>(begun before on {_text(', '.join(map(str, lost)))})</span>"
    reason = f"<p class=reason>{_text(run['reason'])}</p>" if run.get("reason") else ""
    share = 100 * _seconds(run) / slowest if slowest else 0
    return (
        f"<tr><td>{_badge(str(run.get('verdict')))}"
        f"<td class=what><strong>{_text(run.get('runbook') or '')}</strong>{case}{reason}"
        f'<td data-label="Outcome">{_text(run["outcome"]) if run.get("outcome") else "&ndash;"}'
        f'<td data-label="Root cause">{_cause(run)}'
        f'<td class=n data-label="Findings">{_findings(run)}'
        f'<td class=n data-label="Duration">{_duration(_seconds(run))}'
        f'<span class=bar><i style="width:{share:.0f}%"></i></span>'
        f'<td data-label="Evidence">{_evidence(run, pages)}</tr>'
    )


def _cause(run: Mapping[str, Any]) -> str:
    cause = run.get("root_cause")
    if not isinstance(cause, dict):
        return "&ndash;"
    symptom, class_ = str(cause.get("symptom")), str(cause.get("class"))
    titles = [finding.get("title") for finding in _mappings(run.get("findings")) if finding.get("symptom") == symptom]
    return f"<span>{_text(titles[0] if titles else symptom)} <code>{_text(class_)}</code></span>"


def _findings(run: Mapping[str, Any]) -> str:
    findings = _mappings(run.get("findings"))
    if not findings:
        return "0"
    items = "".join(
        f"<li>{_text(finding.get('title'))} "
        f"<small>{_text(finding.get('severity'))}, {_text(finding.get('level'))}</small>"
        for finding in findings
    )
    return f"<details><summary>{len(findings)}</summary><ul>{items}</ul></details>"


def _evidence(run: Mapping[str, Any], pages: set[str]) -> str:
    notebook = _notebook_name(run)
    if not notebook:
        return "&ndash;"
    page = _page_name(notebook)
    read = f'<a href="{_text(page)}">Read</a> ' if page in pages else ""
    return f'{read}<a href="{_text(notebook)}" download>Notebook</a>'


def _notebook_name(run: Mapping[str, Any]) -> str | None:
    """The notebook's name, unless it leads elsewhere."""
    name = run.get("notebook")
    return name if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.ipynb", name) else None


def _page_name(notebook: str) -> str:
    return f"{notebook.removesuffix('.ipynb')}.html" if notebook != "index.ipynb" else "index-notebook.html"


def _headline(runs: Sequence[Mapping[str, Any]]) -> str:
    parts = [f"{count} {_HEADLINE[verdict]}" for verdict, count in _counts(runs)]
    return ", ".join(parts) or "Nothing to show"


def _proportions(runs: Sequence[Mapping[str, Any]]) -> str:
    segments = "".join(f'<i class="{verdict}" style="flex:{count}"></i>' for verdict, count in _counts(runs))
    return f'<div class=proportions aria-hidden="true">{segments}</div>'


def _counts(runs: Sequence[Mapping[str, Any]]) -> list[tuple[Verdict, int]]:
    verdicts = [str(run.get("verdict")) for run in runs]
    return [(verdict, verdicts.count(verdict)) for verdict in (_ATTENTION[-1], *_ATTENTION[:-1]) if verdict in verdicts]


def _rank(run: Mapping[str, Any]) -> int:
    verdict = run.get("verdict")
    return [str(item) for item in _ATTENTION].index(verdict) if verdict in list(_ATTENTION) else -1


def _badge(verdict: str) -> str:
    style = verdict if verdict in list(Verdict) else "error"
    return f'<span class="badge {style}">{_text(verdict)}</span>'


def _seconds(run: Mapping[str, Any]) -> float:
    seconds = run.get("seconds")
    return float(seconds) if isinstance(seconds, (int, float)) and seconds >= 0 else 0.0


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def _cells(notebook: Mapping[str, Any]) -> Iterator[str]:
    for cell in notebook["cells"]:
        if _ERROR_MARKER in cell.get("metadata", {}).get("tags", []):
            continue
        source = _joined(cell.get("source"))
        if cell.get("cell_type") == "markdown":
            yield f"<section class=prose>{_prose(source)}</section>"
        elif cell.get("cell_type") == "code":
            outputs = "".join(_output(output) for output in cell.get("outputs", []))
            yield f'<section id="{_text(cell.get("id", ""))}">{_folded(source, "in")}{outputs}</section>'


def _output(output: Mapping[str, Any]) -> str:
    kind = output.get("output_type")
    if kind == "stream":
        return _folded(_joined(output.get("text")), "out")
    if kind == "error":
        traceback = "\n".join(str(line) for line in output.get("traceback") or [])
        return _folded(traceback or f"{output.get('ename')}: {output.get('evalue')}", "out failed")
    data = output.get("data") or {}
    for kind in ("image/png", "image/jpeg"):
        encoded = _joined(data.get(kind))
        if encoded and _BASE64.fullmatch(encoded):
            alternative = _text(_joined(data.get("text/plain")))
            return f'<img alt="{alternative}" src="data:{kind};base64,{"".join(encoded.split())}">'
    if (
        "text/html" in data
        and (markup := clean_html(_CONTROL.sub("", _ANSI.sub("", _joined(data["text/html"]))))).strip()
    ):
        return f"<div class=shown {_SCROLLED.format('Output')}>{markup}</div>"
    return _folded(_joined(data.get("text/plain")), "out")


_SCROLLED = 'tabindex="0" role="group" aria-label="{}"'
"""Makes a scrollable element reachable by keyboard."""


def _folded(text: str, style: str) -> str:
    text = text.strip("\n")
    if not text.strip():
        return ""
    cut = len(text) - _OUTPUT_CHARACTERS
    more = f"\n… {cut} more characters are in the notebook" if cut > 0 else ""
    named = _SCROLLED.format("Code" if style == "in" else "Output")
    return f'<pre class="{style}" {named}>{_text(text[:_OUTPUT_CHARACTERS])}{more}</pre>'


def _prose(markdown: str) -> str:
    parts: list[str] = []
    for index, block in enumerate(re.split(r"^```.*$", markdown, flags=re.MULTILINE)):
        if index % 2:
            parts.append(_folded(block, "in"))
            continue
        for paragraph in re.split(r"\n\s*\n", block):
            lines = paragraph.strip("\n")
            if heading := re.match(r"(#{1,6}) +(.*)", lines):
                parts.append(f"<h2>{_inline(heading[2])}</h2>")
                lines = lines[heading.end() :].strip("\n")
            if lines.strip():
                parts.append(f"<p>{_inline(lines)}</p>")
    return "".join(parts)


def _inline(text: str) -> str:
    markup = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", _text(text))
    markup = re.sub(r"\*([^*\s][^*]*)\*", r"<em>\1</em>", markup)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", markup)


def _joined(value: object) -> str:
    if isinstance(value, list):
        return "".join(str(part) for part in value)
    return value if isinstance(value, str) else ""


def _text(value: object) -> str:
    """Escape for HTML; drop color codes and control characters."""
    return escape(_CONTROL.sub("", _ANSI.sub("", str(value)))).replace("\ufffe", "").replace("\uffff", "")


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        # Even if something got through the escaping: no script, no request.
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_style()}</style></head><body>{body}</body></html>\n"
    )


@cache
def _style() -> str:
    return Path(__file__).with_name("report.css").read_text("utf-8").strip()
