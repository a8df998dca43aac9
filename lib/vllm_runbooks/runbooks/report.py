"""Turn `results.json` into `index.html` with a page of evidence for each executed notebook.

The pages need no network, no script and no Jupyter. Everything in them is text that was escaped here: a notebook is a
file, so its HTML outputs are shown by their plain text, and only images in PNG or JPEG are taken as they are.
"""

from __future__ import annotations

import json
import re
from html import escape
from typing import TYPE_CHECKING, Any

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import store
from vllm_runbooks.core.markup import clean_html
from vllm_runbooks.core.records import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_ATTENTION = [Verdict.FAIL, Verdict.ERROR, Verdict.INTERRUPTED, Verdict.SKIPPED, Verdict.PASS]
"""Order of the page: what an engineer has to look at comes first."""
_HEADLINE = {
    Verdict.PASS: "passed",
    Verdict.FAIL: "failed",
    Verdict.ERROR: "could not be judged",
    Verdict.SKIPPED: "skipped",
    Verdict.INTERRUPTED: "interrupted",
}
_NOTEBOOK_BYTES = 8 * 1024 * 1024
"""Larger notebooks get no page: a browser would not show them well; the file itself is linked."""
_OUTPUT_CHARACTERS = 200_000
_ERROR_MARKER = "papermill-error-cell-tag"
"""Tag of the cells that papermill adds to point at an error: HTML that this page has no use for."""
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")


def write_report(out_dir: Path) -> Path:
    """Write `index.html` and the pages of evidence from what lies in the folder; return the path of the first."""
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
    """Render the page from the content of `results.json`; `pages` are the pages of evidence that exist beside it."""
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
    body = (
        f"<header><p class=kicker>vLLM runbooks</p><h1>{_headline(runs)}</h1>{_proportions(runs)}"
        f"<p class=quiet>{len(runs)} {'run' if len(runs) == 1 else 'runs'}, {total} of work{_when(results)}. "
        'Also as <a href="results.json">results.json</a> and <a href="junit.xml">JUnit XML</a>.</p></header>'
        f"<main>{table}{_nodes(results, runs)}{_differences(results)}</main>"
    )
    return _page(f"{_headline(runs)} · vLLM runbooks", body)


def _nodes(results: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
    """What each node did; nothing where all was done on one host."""
    rows = ""
    for node in _mappings(results.get("nodes")):
        its = [run for run in runs if run.get("node") == node.get("name")]
        did = ", ".join(f"{count} {verdict}" for verdict, count in _counts(its)) or "nothing executed"
        state = "lost" if node.get("is_lost") else "used" if node.get("is_used") else "not used"
        reason = f"<p class=reason>{_text(node['why'])}</p>" if node.get("why") else ""
        rows += (
            f"<tr><td>{state}<td class=what><strong>{_text(node.get('name') or '')}</strong> "
            f"<span class=case>{_text(node.get('address') or '')}</span>{reason}"
            f'<td data-label="Runs">{did}<td class=n data-label="Work">{_duration(sum(map(_seconds, its)))}</tr>'
        )
    head = "<h2>By node</h2><table><thead><tr><th>State<th>Node<th>Runs<th class=n>Work</tr></thead>"
    return f"{head}<tbody>{rows}</tbody></table>" if rows else ""


def _differences(results: Mapping[str, Any]) -> str:
    """What is not the same on all nodes, those first on which verdicts depend."""
    if not _mappings(results.get("nodes")):
        return ""
    rows = ""
    for each in sorted(_mappings(results.get("differences")), key=lambda each: not each.get("matters")):
        values = each.get("values")
        told = values.items() if isinstance(values, dict) else ()
        listed = "".join(
            f"<li><strong>{_text(node)}</strong> {'unknown' if value is None else _text(value)}" for node, value in told
        )
        weight = "verdicts depend on it" if each.get("matters") else ""
        rows += (
            f"<tr><td class=what>{_text(each.get('what') or '')}<p class=reason>{weight}</p>"
            f'<td data-label="On the nodes"><ul>{listed}</ul></tr>'
        )
    if not rows:
        return "<h2>Differences between nodes</h2><p>None was found.</p>"
    head = "<h2>Differences between nodes</h2><table><thead><tr><th>What<th>On the nodes</tr></thead>"
    return f"{head}<tbody>{rows}</tbody></table>"


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _when(results: Mapping[str, Any]) -> str:
    """When the suite began (UTC) and what ran it, as far as the results say."""
    began, tool = results.get("began"), results.get("tool")
    return "".join([f", begun {_text(began)}" if began else "", f", {_text(tool)}" if tool else ""])


def render_notebook(notebook: Mapping[str, Any], *, title: str, verdict: str = "", reason: str = "") -> str:
    """Render an executed notebook as a page that is safe whatever the notebook holds."""
    head = f"{_badge(verdict)} " if verdict else ""
    body = (
        f'<header><p class=kicker><a href="index.html">All runs</a></p><h1>{_text(title)}</h1>'
        f"<p>{head}{_text(reason)}</p></header><main class=notebook>{''.join(_cells(notebook))}</main>"
    )
    return _page(title, body)


def _evidence_page(path: Path, run: Mapping[str, Any]) -> str | None:
    """Render the notebook of a run, or None where there is none that can be shown."""
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
    """Name the root cause by the title its finding has, and by its class."""
    cause = run.get("root_cause")
    if not isinstance(cause, dict):
        return "&ndash;"
    symptom, class_ = str(cause.get("symptom")), str(cause.get("class"))
    titles = [finding.get("title") for finding in _finding_list(run) if finding.get("symptom") == symptom]
    return f"<span>{_text(titles[0] if titles else symptom)} <code>{_text(class_)}</code></span>"


def _findings(run: Mapping[str, Any]) -> str:
    findings = _finding_list(run)
    if not findings:
        return "0"
    items = "".join(
        f"<li>{_text(finding.get('title'))} "
        f"<small>{_text(finding.get('severity'))}, {_text(finding.get('level'))}</small>"
        for finding in findings
    )
    return f"<details><summary>{len(findings)}</summary><ul>{items}</ul></details>"


def _finding_list(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    findings = run.get("findings")
    return [finding for finding in findings if isinstance(finding, dict)] if isinstance(findings, list) else []


def _evidence(run: Mapping[str, Any], pages: set[str]) -> str:
    notebook = _notebook_name(run)
    if not notebook:
        return "&ndash;"
    page = _page_name(notebook)
    read = f'<a href="{_text(page)}">Read</a> ' if page in pages else ""
    return f'{read}<a href="{_text(notebook)}" download>Notebook</a>'


def _notebook_name(run: Mapping[str, Any]) -> str | None:
    """Name of the run's notebook beside the report; anything that leads elsewhere is no name."""
    name = run.get("notebook")
    return name if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.ipynb", name) else None


def _page_name(notebook: str) -> str:
    return f"{notebook.removesuffix('.ipynb')}.html" if notebook != "index.ipynb" else "index-notebook.html"


def _headline(runs: Sequence[Mapping[str, Any]]) -> str:
    parts = [f"{count} {_HEADLINE[verdict]}" for verdict, count in _counts(runs)]
    return ", ".join(parts) or "Nothing to show"


def _proportions(runs: Sequence[Mapping[str, Any]]) -> str:
    """One bar, divided among the verdicts; decoration, the headline above says the same."""
    segments = "".join(f'<i class="{verdict}" style="flex:{count}"></i>' for verdict, count in _counts(runs))
    return f'<div class=proportions aria-hidden="true">{segments}</div>'


def _counts(runs: Sequence[Mapping[str, Any]]) -> list[tuple[Verdict, int]]:
    verdicts = [str(run.get("verdict")) for run in runs]
    order = [Verdict.PASS, *[verdict for verdict in _ATTENTION if verdict is not Verdict.PASS]]
    return [(verdict, verdicts.count(verdict)) for verdict in order if verdict in verdicts]


def _rank(run: Mapping[str, Any]) -> int:
    verdict = run.get("verdict")
    return [str(known) for known in _ATTENTION].index(verdict) if verdict in list(_ATTENTION) else -1


def _badge(verdict: str) -> str:
    known = verdict if verdict in list(Verdict) else "error"
    return f'<span class="badge {known}">{_text(verdict)}</span>'


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
        and (shown := clean_html(_CONTROL.sub("", _ANSI.sub("", _joined(data["text/html"]))))).strip()
    ):
        return f"<div class=shown {_SCROLLED.format('Output')}>{shown}</div>"
    return _folded(_joined(data.get("text/plain")), "out")


_SCROLLED = 'tabindex="0" role="group" aria-label="{}"'
"""Of what may be wider or longer than its frame: the keyboard reaches and scrolls it."""


def _folded(text: str, style: str) -> str:
    """Text in a frame; a long one is cut with a word about it."""
    text = text.strip("\n")
    if not text.strip():
        return ""
    cut = len(text) - _OUTPUT_CHARACTERS
    more = f"\n… {cut} more characters are in the notebook" if cut > 0 else ""
    named = _SCROLLED.format("Code" if style == "in" else "Output")
    return f'<pre class="{style}" {named}>{_text(text[:_OUTPUT_CHARACTERS])}{more}</pre>'


def _prose(markdown: str) -> str:
    """Show Markdown as readable text: headings, code and paragraphs; nothing in it becomes a link or a tag."""
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
    shown = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", _text(text))
    shown = re.sub(r"\*([^*\s][^*]*)\*", r"<em>\1</em>", shown)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", shown)


def _joined(value: object) -> str:
    if isinstance(value, list):
        return "".join(str(part) for part in value)
    return value if isinstance(value, str) else ""


def _text(value: object) -> str:
    """Escape for HTML; colour codes and control characters, which some browsers act on, are left out."""
    return escape(_CONTROL.sub("", _ANSI.sub("", str(value)))).replace("\ufffe", "").replace("\uffff", "")


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        # Even if something got through the escaping: no script, no request.
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


_STYLE = """
:root{color-scheme:light dark;--page:#fafaf8;--card:#fff;--ink:#1c2024;--quiet:#5c6670;--line:#e4e5e1;--link:#0b5cad;
--pass:#14682c;--fail:#b0242a;--error:#835000;--skipped:#525b65;--interrupted:#6240ab;--tint:12%}
@media(prefers-color-scheme:dark){:root{--page:#14171a;--card:#1b1f23;--ink:#e6e8ea;--quiet:#98a2ac;--line:#2c3238;
--link:#79b8ff;--pass:#57c271;--fail:#ff7b7f;--error:#e0a84c;--skipped:#98a2ac;--interrupted:#b79bf2;--tint:18%}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:76rem;padding:2.5rem 1.25rem 4rem;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:1.75rem;line-height:1.25;letter-spacing:-.01em;font-weight:650;margin:.1rem 0 1rem;text-wrap:balance;
overflow-wrap:anywhere}
a{color:var(--link);text-underline-offset:2px}
a:not(:hover){text-decoration-color:color-mix(in srgb,currentColor 35%,transparent)}
:focus-visible{outline:2px solid var(--link);outline-offset:2px;border-radius:3px}
code,pre{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.kicker{margin:0;color:var(--quiet);font-size:.85rem;font-weight:550}
.quiet{color:var(--quiet);margin:.75rem 0 0}
.proportions{display:flex;gap:3px;height:8px;max-width:34rem}
.proportions i{border-radius:4px;min-width:8px;background:var(--c)}
.pass{--c:var(--pass)}.fail{--c:var(--fail)}.error{--c:var(--error)}.skipped{--c:var(--skipped)}
.interrupted{--c:var(--interrupted)}
.badge{display:inline-block;padding:.1rem .6rem;border-radius:1rem;font-size:.85rem;font-weight:600;color:var(--c);
background:color-mix(in srgb,var(--c) var(--tint),transparent);white-space:nowrap}
table{width:100%;margin-top:2rem;border-collapse:separate;border-spacing:0;background:var(--card);
border:1px solid var(--line);border-radius:10px}
th,td{padding:.7rem .9rem;text-align:left;vertical-align:top;border-top:1px solid var(--line)}
thead th{border-top:0;color:var(--quiet);font-size:.85rem;font-weight:550;white-space:nowrap}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.what{overflow-wrap:anywhere;min-width:14rem}.case{color:var(--quiet)}
.reason{margin:.15rem 0 0;color:var(--quiet);max-width:60ch}
td code{color:var(--quiet);overflow-wrap:anywhere}
td:last-child{white-space:nowrap}td:last-child a+a{margin-left:.6rem}
.bar{display:block;width:5rem;height:3px;margin:.35rem 0 0 auto;border-radius:2px;background:var(--line)}
.bar i{display:block;height:100%;min-width:2px;border-radius:2px;background:var(--quiet)}
details ul{margin:.4rem 0 0;padding:0;list-style:none;text-align:left;white-space:normal;min-width:12rem}
details li{margin:.25rem 0}small{color:var(--quiet)}summary{cursor:pointer}
.notebook{max-width:60rem}.notebook section{margin:1.4rem 0}.prose p{white-space:pre-wrap;margin:.5rem 0}
h2{font-size:1.15rem;margin:1.6rem 0 .4rem}
pre{margin:.4rem 0 0;padding:.7rem .9rem;border-radius:8px;overflow:auto;max-height:32rem;white-space:pre-wrap;
overflow-wrap:anywhere;background:var(--card);border:1px solid var(--line)}
pre.in{color:var(--quiet);background:none}pre.failed{border-left:3px solid var(--fail)}
.shown{margin:.6rem 0;overflow-x:auto;overflow-wrap:normal}
.shown table{margin:.4rem 0;width:auto;background:none;border:0}
.shown th,.shown td{padding:.3rem .7rem;font-size:.9rem;white-space:normal}
.shown pre{max-height:none}.shown svg{max-width:none}
img{display:block;max-width:100%;margin-top:.5rem;background:#fff;border-radius:8px}
@media(max-width:760px){body{padding:1.5rem .9rem 3rem}h1{font-size:1.4rem}
table,tbody,tr,td{display:block}thead{display:none}tr{padding:.8rem .9rem;border-top:1px solid var(--line)}
tbody tr:first-child{border-top:0}td{border:0;padding:.15rem 0;text-align:left}td.n{text-align:left}
.what{min-width:0;margin:.3rem 0 .4rem}td[data-label]{display:grid;grid-template-columns:6.5rem 1fr;gap:.5rem}
td[data-label]::before{content:attr(data-label);color:var(--quiet)}td[data-label="Duration"] .bar{display:none}
.shown table{display:table}.shown thead{display:table-header-group}.shown tbody{display:table-row-group}
.shown tr{display:table-row}.shown td,.shown th{display:table-cell}.shown td{padding:.3rem .7rem .3rem 0}
td[data-label="Evidence"]{display:block}td[data-label="Evidence"]::before{content:none}}
@media print{body{background:none;color:#000}table{border:0}}
""".strip()
