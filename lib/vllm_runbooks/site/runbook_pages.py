"""Executed runbooks as pages: a runbook's own cells with the cleaned outputs of its executed copy."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm_runbooks.catalog.records import Symptom
from vllm_runbooks.core.display import NOTHING_MIME
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.markup import clean_html
from vllm_runbooks.core.records import Runbook, Verdict
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.runbooks.notebook import read_verdict
from vllm_runbooks.runbooks.shown_cells import shown_cells
from vllm_runbooks.site.myst import badge, code, contents, folded, listed, prose, sentence, table

GROUPS = {
    "A launch failed": ("start-here", "single-gpu-oom", "shared-gpu-profiling", "multi-node-ray"),
    "Before a launch": ("check-a-command", "split-over-8x3090", "gpt-oss-gemma-a100"),
    "A server runs": ("is-it-healthy",),
    "Other tasks": ("edge10-toolchain",),
}
"""Ids by heading of the list, in its order; others are last."""
_LEAD = "Use this runbook "
"""Begins the introduction of a runbook; its row in a list needs no verb."""
_IMAGES = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff"}


@dataclass(frozen=True)
class RunbookPage:
    """A runbook with its executed copy, ready for publication."""

    runbook: Runbook
    notebook: dict[str, Any]
    verdict: Verdict
    case: str | None
    """Recorded case of the execution."""


def paired(runbook: Runbook, executed: Path) -> RunbookPage:
    """Pair a runbook with its executed copy, that of its default case if there are several."""
    default = next((p.default for p in runbook.parameters if p.name == "evidence"), "")
    others = sorted(executed.glob(f"{runbook.id}--*.ipynb"))
    candidates = [executed / f"{runbook.id}--{default}.ipynb", executed / f"{runbook.id}.ipynb", *others]
    for path in candidates:
        with suppress(OSError, ValueError):
            notebook = json.loads(path.read_text(encoding="utf-8"))
            verdict = read_verdict(notebook)
            if verdict:
                source = json.loads(Path(runbook.path).read_text(encoding="utf-8-sig"))
                return RunbookPage(runbook, safe_notebook(source, notebook, path.name), verdict.verdict, verdict.case)
    raise InputError(
        f"{executed}: contains no run of {runbook.id} with a verdict; run `vllm-runbooks check --out {executed}`"
    )


def ordered(ids: Iterable[str]) -> list[str]:
    """Ids of runbooks in the order of the list."""
    places = [name for group in GROUPS.values() for name in group]
    return sorted(ids, key=lambda name: (places.index(name) if name in places else len(places), name))


def runbook_table(pages: Sequence[RunbookPage], prefix: str = "") -> str:
    """The table of runbooks, for a page from which `prefix` leads to their folder."""
    rows = []
    for page in pages:
        title = f"[{prose(page.runbook.title)}]({prefix}{page.runbook.id}.ipynb)"
        name = code(page.runbook.id)
        failed = "" if page.verdict is Verdict.PASS else f"\n\nExample run: {_verdict(page)}"
        rows.append((f"{title}\n\n{name}", f"{prose(sentence(page.runbook.summary.removeprefix(_LEAD)))}{failed}"))
    return (table(["Runbook", "Purpose"], rows, "34 66", "catalog") if rows else "No runbooks.") + "\n"


def runbook_index(pages: Sequence[RunbookPage], *more: str) -> str:
    """The list of runbooks, with the table of contents for the sidebar; `more` pages are at its end."""
    names = [*(page.runbook.id for page in pages), *more]
    toctree = contents(names) if names else ""
    intro = (
        "Notebooks that you run on your own log, command or server. Each page shows one executed on a recorded case. "
        "Run one with `vllm-runbooks run NAME`, or in [JupyterLab](../jupyterlab.md)."
    )
    headings = {name: heading for heading, group in GROUPS.items() for name in group}
    members: dict[str, list[RunbookPage]] = {heading: [] for heading in GROUPS}
    for page in pages:
        members[headings.get(page.runbook.id, [*GROUPS][-1])].append(page)
    tables = [f"## {heading}\n\n{runbook_table(group)}" for heading, group in members.items() if group]
    return "\n\n".join(["# Runbooks", intro, *tables, toctree]) + "\n"


def runbook_page(page: RunbookPage, symptoms: Mapping[str, Symptom]) -> dict[str, Any]:
    """The notebook of a runbook's page: title, run and its result, then the introduction; symptoms at the end."""
    title, *cells = [_folded(cell) for cell in shown_cells(page.notebook["cells"])]
    heading, _, introduction = title["source"].partition("\n")
    on = f" on the recorded case {code(page.case)}" if page.case else ""
    command = code(f"vllm-runbooks run {page.runbook.id}")
    chip = "" if page.verdict is Verdict.PASS else f"{_verdict(page)} "
    run = f"{chip}Example run{on}. Run it on yours: {command}"
    lead = next((index for index, cell in enumerate(cells) if cell["cell_type"] == "markdown"), len(cells))
    cells = [
        {**title, "source": heading},
        _markdown("how-it-ran", run),
        *(_tagged(cell, "remove-input") for cell in cells[:lead]),
        *([_markdown("introduction", introduction.strip())] if introduction.strip() else []),
        *cells[lead:],
    ]
    treated = [symptoms[name] for name in page.runbook.symptoms if name in symptoms]
    if treated:
        entries = listed(f"[{prose(s.title)}](../symptoms/{s.id}.md)" for s in treated)
        cells.append(_markdown("its-symptoms", folded(f"Symptoms in the catalog ({len(treated)})", entries)))
    return {**page.notebook, "cells": cells}


def _folded(cell: dict[str, Any]) -> dict[str, Any]:
    """A cell with folded code, so that the page shows its output."""
    return _tagged(cell, "hide-input") if cell["cell_type"] == "code" else cell


def _tagged(cell: dict[str, Any], tag: str) -> dict[str, Any]:
    return {**cell, "metadata": {**cell["metadata"], "tags": [*cell["metadata"]["tags"], tag]}}


def _verdict(page: RunbookPage) -> str:
    """The verdict of the example run as a badge: a log that failed as expected passes."""
    word = page.verdict.value
    return badge({"pass": "as expected", "fail": "not as expected"}.get(word, word), word)


def _markdown(name: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": f"site-{name}", "metadata": {}, "source": text}


# ---- notebooks: cells of the shipped runbook, sanitized outputs of the executed copy


def safe_notebook(source: Mapping[str, Any], executed: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The runbook's own cells with the outputs of its executed copy, without active content.

    Raises:
        InputError: The copy was made from another version of the runbook.
    """
    ran = {cell.get("id"): cell for cell in executed["cells"] if cell["cell_type"] == "code"}
    cells = []
    for cell in source["cells"]:
        text = "".join(cell["source"])
        tags = [tag for tag in cell.get("metadata", {}).get("tags", []) if isinstance(tag, str)]
        clean: dict[str, Any] = {"cell_type": cell["cell_type"], "metadata": {"tags": tags}, "source": text}
        if "id" in cell:
            clean["id"] = cell["id"]
        if cell["cell_type"] == "code":
            copy = ran.get(cell.get("id"))
            if copy is None or redact_text(_joined(copy.get("source"))) != redact_text(text):
                name = cell.get("id", "?")
                raise InputError(f"{where}: cell {name} differs from the runbook's cell; run it again with `check`")
            outputs = (_safe_output(output) for output in copy.get("outputs") or [] if isinstance(output, dict))
            clean |= {"execution_count": None, "outputs": [output for output in outputs if output is not None]}
        cells.append(clean)
    metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}


def _safe_output(output: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = output.get("output_type")
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return {"output_type": "stream", "name": name, "text": _text(output.get("text"))}
    if kind == "error":
        traceback = output.get("traceback")
        lines = [_text(line) for line in traceback] if isinstance(traceback, list) else []
        texts = {"ename": _text(output.get("ename")), "evalue": _text(output.get("evalue"))}
        return {"output_type": "error", **texts, "traceback": lines}
    data = output.get("data")
    safe = _safe_data(data) if isinstance(data, dict) else {}
    return {"output_type": "display_data", "metadata": {}, "data": safe} if safe else None


def _safe_data(data: Mapping[str, Any]) -> dict[str, str]:
    if NOTHING_MIME in data:
        return {NOTHING_MIME: ""}
    safe: dict[str, str] = {}
    if "text/html" in data and (html := clean_html(_text(data["text/html"]))).strip():
        safe["text/html"] = html
    for kind, magic in _IMAGES.items():
        if kind in data and (image := _safe_image(_joined(data[kind]), magic)):
            safe[kind] = image
    plain = data.get("text/markdown", data.get("text/plain"))
    if plain is not None:
        # Markdown outputs are kept as text: rendered, they could contain any HTML.
        safe["text/plain"] = _text(plain)
    return safe


def _safe_image(encoded: str, magic: bytes) -> str | None:
    try:
        raw = base64.b64decode("".join(encoded.split()), validate=True)
    except ValueError:
        return None
    return base64.b64encode(raw).decode("ascii") if raw.startswith(magic) else None


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _text(value: Any) -> str:
    """A notebook's text without secrets and control characters; terminal colors stay."""
    joined = redact_text(_joined(value))
    return "".join(
        c if c.isprintable() or c in "\n\t\x1b" else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in joined
    )
