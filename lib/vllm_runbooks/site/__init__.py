"""Executed runbooks, the catalog and the data of releases to a static documentation site.

The authored pages of `docs/` and a page for every symptom, rule and executed runbook are laid into a temporary folder,
with pages of what releases accept, and Sphinx turns that into HTML; a warning is an error. Sphinx never executes
anything. What it is given is harmless by then: texts of the catalog are escaped (`myst`), outputs of notebooks are
reduced to text, images and a small part of HTML. The site loads nothing from anywhere else and works from a folder as
well as from a server.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_runbooks import catalog, session
from vllm_runbooks.authoring import rule_files
from vllm_runbooks.errors import InputError, RunbooksError
from vllm_runbooks.markup import clean_html
from vllm_runbooks.notebook import load_runbook, read_judgement
from vllm_runbooks.records import Edit, Role, Rule, Runbook, Symptom, Verdict
from vllm_runbooks.redact import redact_text
from vllm_runbooks.site import bilingual, option_pages, rule_pages
from vllm_runbooks.site.myst import (
    assembled,
    badge,
    code,
    contents,
    grouped,
    last_verified,
    listed,
    literal,
    named,
    origin,
    prose,
    reference,
    sentence,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

MARKER = ".vllm-runbooks-site"
"""File in a built site: only a folder that holds it is replaced by the next build."""

_NEEDED = ("sphinx", "myst_nb", "pydata_sphinx_theme")
_SYMPTOM_ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_RUNBOOK_ID = re.compile(r"(?!index$)[A-Za-z0-9][A-Za-z0-9._-]*")
_BAD_EXAMPLE = re.compile(r"^(`{3,})(\w+) bad$", re.MULTILINE)
"""A code block that an authored page marks as wrong; where the pages are stored such a mark is not shown."""
_AS_DIRECTIVE = r"\1{code-block} \2\n:class: bad-example\n"
_ROLE_MEANINGS = {
    Role.WRAPPER: "It only reports that something else failed: it is the answer where the log does not hold the cause.",
    Role.CONSEQUENCE: "It follows from another failure: it is the answer where the log does not hold the cause.",
    Role.BENIGN: "It is harmless, and never an answer: it is known so that it can be left out.",
}
_STEPS = {
    "lower_by": "Lower {} by {}",
    "lower_to": "Lower {} to {}",
    "raise_to": "Raise {} to {}",
    "at_least": "Raise {} to at least {}",
    "share": "Set {} to {}, rounded down",
}
_GROUPS = {
    "attn": "Attention", "cli": "Command line", "cuda": "CUDA and driver", "edge10": "Edge10", "engine": "Engine",
    "flashinfer": "FlashInfer", "mem": "GPU memory", "host": "Host", "install": "Installation", "kv": "KV cache",
    "lora": "LoRA", "model": "Model files", "mm": "Multimodal input", "port": "Network ports", "other": "Other",
    "oom": "Out of memory", "platform": "Platform", "quant": "Quantisation", "ray": "Ray", "api": "Requests",
    "dist": "Several GPUs and hosts", "storage": "Storage", "torch_compile": "torch.compile", "triton": "Triton",
}  # fmt: skip
"""First words of ids as headings, in the order of the index; one that is missing here comes last, as its word."""

_IMAGES = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff"}


@dataclass(frozen=True)
class Page:
    """A runbook with its executed copy, ready for publication."""

    runbook: Runbook
    notebook: dict[str, Any]
    verdict: Verdict
    case: str | None
    """Recorded case that it was executed on."""


def build(out: Path, *, executed: Path | None = None) -> Path:
    """Build the site into the folder `out` and return its `index.html`.

    `executed` is a folder that `check --out` wrote; without one, every runbook is executed on its default case. The
    user's own catalog folders (`VLLM_RUNBOOKS_CATALOG`) are part of the site.

    Raises:
        InputError: the `site` extra is missing, or a folder cannot be used; nothing was built.
        RunbooksError: a runbook reached no verdict, or Sphinx refused a page; the site that was there is intact.
    """
    if not all(find_spec(name) for name in _NEEDED):
        raise InputError("the site's tools are not installed; run `pip install 'vllm-runbooks[site]'`")
    out = out.resolve()
    _check_out(out)
    docs = docs_dir()
    symptoms = _symptoms()
    rules = _rules()
    runbooks = _runbooks()
    with tempfile.TemporaryDirectory(prefix="vllm-runbooks-site-") as name:
        work = Path(name)
        folder = executed or _execute(runbooks, work / "executed")
        pages = [_page(runbook, folder) for runbook in runbooks]
        write_sources(work / "source", docs=docs, symptoms=symptoms, rules=rules, pages=pages)
        # One level below: MyST-NB leaves a folder of its own beside what it builds.
        built = work / "site" / "html"
        _run_sphinx(work / "source", built, work / "doctrees")
        (built / MARKER).touch()
        _publish(built, out)
    return out / "index.html"


def docs_dir() -> Path:
    """The folder of authored pages, beside the catalog."""
    root = catalog.data_dir() / "docs"
    if not (root / "conf.py").is_file():
        raise InputError(
            f"{root}: holds no documentation (conf.py); build the site from a checkout or an installed wheel"
        )
    return root


def write_sources(
    target: Path, *, docs: Path, symptoms: Sequence[Symptom], rules: Sequence[Rule], pages: Sequence[Page]
) -> None:
    """Write everything Sphinx reads: the authored pages, those of the catalog and of releases, runbooks, indexes."""
    target.mkdir(parents=True)
    shutil.copyfile(docs / "conf.py", target / "conf.py")
    for path in sorted(docs.glob("*.md")):
        authored = path.read_text(encoding="utf-8")
        (target / path.name).write_text(_BAD_EXAMPLE.sub(_AS_DIRECTIVE, authored), encoding="utf-8")
    shutil.copytree(docs / "_static", target / "_static")
    known = {symptom.id: symptom for symptom in symptoms}
    ids = [rule.id for rule in rules]
    links = option_pages.links()
    files = {
        **option_pages.sources({rule.id: rule.values for rule in rules}),
        "rules/index.md": rule_pages.rule_index(rules),
        **{
            f"rules/{r.id}.md": rule_pages.rule_page(r, linked=ids, links=links, tell=rule_pages.tell_by_linting)
            for r in rules
        },
        "symptoms/index.md": symptom_index(symptoms),
        "runbooks/index.md": runbook_index(pages),
        "_generated/runbooks.md": runbook_table(pages, "runbooks/"),
        **{f"symptoms/{s.id}.md": symptom_page(s, runbooks=[p.runbook for p in pages], linked=known) for s in symptoms},
        **{f"runbooks/{p.runbook.id}.ipynb": json.dumps(runbook_page(p, known), indent=1) for p in pages},
    }
    for name, text in files.items():
        path = target / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _check_out(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; give a folder with --out")
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise InputError(f"{out}: holds other files than a site; give a new or an empty folder with --out")


def _symptoms() -> list[Symptom]:
    """Every symptom of the catalog; a site with pages missing is not built."""
    shelf = session.load_catalog(session.own_catalogs())
    if shelf.problems:
        raise InputError(f"{shelf.problems[0]}; run `vllm-runbooks catalog check` and mend the catalog first")
    for name in shelf.symptoms:
        if not _SYMPTOM_ID.fullmatch(name):
            raise InputError(f"{name!r}: is no symptom id; write <group>.<word>, as in port.in_use")
    return list(shelf.symptoms.values())


def _rules() -> list[Rule]:
    """Every rule of the catalog."""
    found = catalog.load_rules(rule_files.compile_rules)
    if found.problems:
        raise InputError(f"{found.problems[0]}; run `vllm-runbooks catalog check` and mend the catalog first")
    return list(found.by_id.values())


def _runbooks() -> list[Runbook]:
    found = [load_runbook(path) for path in sorted(catalog.runbooks_dir().glob("*.ipynb"))]
    for runbook in found:
        if not _RUNBOOK_ID.fullmatch(runbook.id):
            raise InputError(f"{runbook.path}: its name cannot be a page's; use letters, digits, dots and dashes")
    return found


def _execute(runbooks: Sequence[Runbook], folder: Path) -> Path:
    """Execute every runbook on its default case."""
    from vllm_runbooks.suite import Request, run_all  # noqa: PLC0415 - not needed for pages executed before

    requests = [Request(runbook.id, Path(runbook.path)) for runbook in runbooks]
    for result in run_all(requests, out=folder, jobs=os.cpu_count() or 1) if requests else []:
        if result.verdict in (Verdict.ERROR, Verdict.INTERRUPTED):
            raise RunbooksError(f"{result.runbook}: reached no verdict ({result.reason}); the site was not built")
    return folder


def _page(runbook: Runbook, executed: Path) -> Page:
    """Pair a runbook with its executed copy, the one of its default case where there are several."""
    default = next((p.default for p in runbook.parameters if p.name == "evidence"), "")
    others = sorted(executed.glob(f"{runbook.id}--*.ipynb"))
    candidates = [executed / f"{runbook.id}--{default}.ipynb", executed / f"{runbook.id}.ipynb", *others]
    for path in candidates:
        with suppress(OSError, ValueError):
            found = json.loads(path.read_text(encoding="utf-8"))
            judgement = read_judgement(found)
            if judgement:
                source = json.loads(Path(runbook.path).read_text(encoding="utf-8-sig"))
                return Page(runbook, safe_notebook(source, found, path.name), judgement.verdict, judgement.case)
    raise InputError(
        f"{executed}: holds no run of {runbook.id} that reached a verdict; run `vllm-runbooks check --out {executed}`"
    )


def _run_sphinx(source: Path, built: Path, doctrees: Path) -> None:
    """Run Sphinx in a process of its own (it changes the one it runs in), every warning an error."""
    options = ["-b", "html", "-q", "-W", "-n", "--keep-going", "-j", "auto", "-d", str(doctrees)]
    command = [sys.executable, "-P", "-m", "sphinx", *options, str(source), str(built)]
    done = subprocess.run(  # noqa: S603 - this Python, on a folder of ours
        command,
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        said = [line.replace(f"{source}{os.sep}", "") for line in done.stderr.splitlines() if line.strip()]
        first = next(
            (line for line in said if "WARNING" in line or "ERROR" in line), (said or ["Sphinx said nothing"])[-1]
        )
        raise RunbooksError(f"the site was not built: {redact_text(first)}; mend that page")


def _publish(built: Path, out: Path) -> None:
    """Put the new site in the old one's place; a reader finds the one or the other."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}-"))
        try:
            shutil.copytree(built, staged / "new")
            if out.exists():
                out.rename(staged / "old")
            try:
                (staged / "new").rename(out)
            except OSError:
                (staged / "old").rename(out)
                raise
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}); give another folder with --out") from None


def symptom_page(symptom: Symptom, *, runbooks: Sequence[Runbook] = (), linked: Collection[str] = ()) -> str:
    """The page of one symptom; `runbooks` have a page, and so do the symptoms whose ids are `linked`."""
    say = bilingual.sayer(symptom, {name for name in linked if name != symptom.id})
    examples = [part for e in symptom.examples for part in (literal(e.text), origin(e.source, e.vllm))]
    near = [part for n in symptom.near_misses for part in (literal(n.text), say(sentence(n.why)))]
    ways = [
        ("\n\n".join([say(r.title), *(_edit(e) for e in r.edits)]), say(sentence(r.cost))) for r in symptom.remedies
    ]
    holds = [say(condition.says) for condition in symptom.conditions]
    books = [r for r in runbooks if r.id == symptom.runbook or symptom.id in r.symptoms]
    look = symptom.look_in
    sections = [
        ("Meaning", [say(symptom.cause)]),
        ("Do first", [say(symptom.do_first)]),
        (
            "Confirm",
            [say(symptom.confirm), *(["The diagnosis looks by itself whether", listed(holds)] if holds else [])],
        ),
        ("Refute", [say(symptom.refute)]),
        ("Ways out", [table(["Way out", "What it costs"], ways, "60 40")] if ways else []),
        ("Where to look", [f"Look for {say(look.what)}, in {say(look.where)}."] if look else []),
        ("Runbook", [listed(f"[{prose(r.title)}](../runbooks/{r.id}.ipynb)" for r in books)] if books else []),
        ("How it shows", examples),
        ("Near misses", ["These lines look alike and are something else.", *near] if near else []),
        ("References", [listed(reference(text) for text in symptom.references)] if symptom.references else []),
    ]
    role = "" if symptom.role is Role.CAUSE else f" {badge(symptom.role.value)}"
    badges = f"{badge(symptom.severity.value)}{role} {code(symptom.id)}"
    return assembled(
        [
            f"({symptom.id})=\n# {prose(symptom.title)}",
            badges,
            bilingual.switch(symptom),
            _ROLE_MEANINGS.get(symptom.role, ""),
        ],
        sections,
        [last_verified(symptom.verified.date, symptom.verified.vllm)],
    )


def _edit(edit: Edit) -> str:
    """A change of a deployment in words; as a command it would have to be checked first."""
    name = f"{'environment variable' if edit.op == 'env' else 'option'} {code(edit.name)}"
    if edit.op == "remove":
        return f"Remove {name}"
    if isinstance(edit.value, dict) and len(edit.value) == 1:
        step, amount = next(iter(edit.value.items()))
        if step in _STEPS:
            return _STEPS[step].format(name, code(amount if isinstance(amount, str) else json.dumps(amount)))
    value = edit.value if isinstance(edit.value, str) else json.dumps(edit.value, ensure_ascii=False)
    return f"Set {name} to {code(named(value)) or 'nothing'}"


def symptom_index(symptoms: Sequence[Symptom]) -> str:
    """The list of all symptoms by group, with the tables of contents that fill the sidebar."""
    count = f"{len(symptoms)} faults" if len(symptoms) != 1 else "One fault"
    said = (
        f"{count} that the catalog knows, by the first word of the id. [What a diagnosis means](../reading.md) "
        "explains the badges; [adding a symptom](../authoring.md) takes ten minutes."
    )
    entries = {s.id: f"{badge(s.severity.value)} [{prose(s.title)}]({s.id}.md)" for s in symptoms}
    return "\n\n".join(["# Symptoms", said, *grouped(entries, _GROUPS)]) + "\n"


def runbook_table(pages: Sequence[Page], prefix: str = "") -> str:
    """The table of runbooks, for a page that lies where `prefix` leads to their folder."""
    rows = []
    for page in pages:
        title = f"[{prose(page.runbook.title)}]({prefix}{page.runbook.id}.ipynb)"
        name = code(page.runbook.id)
        rows.append((f"{title}\n\n{name}", prose(page.runbook.summary), badge(page.verdict.value)))
    return (table(["Runbook", "What it is for", "Last run"], rows, "32 56 12") if rows else "There is none yet.") + "\n"


def runbook_index(pages: Sequence[Page]) -> str:
    """The list of runbooks, with the table of contents that fills the sidebar."""
    toctree = contents(p.runbook.id for p in pages)
    said = "Each page is the runbook as it was executed, with everything it printed."
    return f"# Runbooks\n\n{said}\n\n{runbook_table(pages)}\n{toctree if pages else ''}\n"


def runbook_page(page: Page, symptoms: Mapping[str, Symptom]) -> dict[str, Any]:
    """The notebook of a runbook's page: below its title how it was run, at its end the symptoms that it is for."""
    cells = list(page.notebook["cells"])
    first = next(index for index, cell in enumerate(cells) if cell["cell_type"] == "markdown")
    on = f" on the recorded case {code(page.case)}" if page.case else ""
    command = code(f"vllm-runbooks run {page.runbook.id}")
    run = f"{badge(page.verdict.value)} This page was executed{on}. Run it yourself: {command}"
    cells.insert(first + 1, _markdown("how-it-ran", run))
    known = [symptoms[name] for name in page.runbook.symptoms if name in symptoms]
    if known:
        entries = listed(f"[{prose(s.title)}](../symptoms/{s.id}.md)" for s in known)
        cells.append(_markdown("its-symptoms", f"## Symptoms in the catalog\n\n{entries}"))
    return {**page.notebook, "cells": cells}


def _markdown(name: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": f"site-{name}", "metadata": {}, "source": text}


# Notebooks: the cells are those of the shipped runbook, the outputs those of the executed copy, cleaned.


def safe_notebook(source: Mapping[str, Any], executed: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The runbook's own cells with the outputs of its executed copy, reduced to what cannot run or load anything.

    Raises:
        InputError: the copy was made from another version of the runbook.
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
                raise InputError(f"{where}: cell {name} differs from the runbook's; execute it again with `check`")
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
    safe: dict[str, str] = {}
    if "text/html" in data and (html := clean_html(_text(data["text/html"]))).strip():
        safe["text/html"] = html
    for kind, magic in _IMAGES.items():
        if kind in data and (image := _safe_image(_joined(data[kind]), magic)):
            safe[kind] = image
    plain = data.get("text/markdown", data.get("text/plain"))
    if plain is not None:
        # What a Markdown output says is kept, as text: rendered, it could hold any HTML.
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
    """A notebook's text without secrets and without characters that are no text; colours of a terminal stay."""
    joined = redact_text(_joined(value))
    return "".join(
        c if c.isprintable() or c in "\n\t\x1b" else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in joined
    )
