"""From executed runbooks, catalog and data of releases to a static documentation site.

The authored pages of `docs/`, a page for every symptom, rule and executed runbook, and pages on options, GPUs, models,
the library and its commands are written to a temporary folder, which Sphinx turns into HTML; a warning is an error.
Sphinx executes nothing. Its input is harmless: catalog texts are escaped (`myst`), notebook outputs are reduced to
text, images and a small part of HTML (`runbook_pages`). The site loads nothing from elsewhere, says so in a policy
(`sealed`), and works from a folder as well as from a server.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_runbooks.authoring import option_schemas
from vllm_runbooks.catalog import compiled, folders, options
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.authored import rule_files
from vllm_runbooks.catalog.records import Rule, Symptom
from vllm_runbooks.core import extras
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.files import replace_folder
from vllm_runbooks.core.records import Runbook, Verdict
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.runbooks.notebook import load_runbook
from vllm_runbooks.site import (
    agent_files,
    browser_pages,
    header,
    option_pages,
    reference_pages,
    rule_pages,
    run_pages,
    runbook_pages,
    sealed,
    search_index,
    spec_pages,
    start_page,
    symptom_pages,
)
from vllm_runbooks.site.runbook_pages import RunbookPage
from vllm_runbooks.site.search_index import SearchEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import click

    from vllm_runbooks.history.records import HistoryEntry

MARKER = ".vllm-runbooks-site"
"""Marker file of a built site: only a folder with it is replaced by the next build."""

_SYMPTOM_ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_RUNBOOK_ID = re.compile(r"(?!index$)[A-Za-z0-9][A-Za-z0-9._-]*")
_BAD_EXAMPLE = re.compile(r"^(`{3,})(\w+) bad$", re.MULTILINE)
"""A code block that an authored page marks as wrong; the mark is hidden where the pages are
stored."""
_AS_DIRECTIVE = r"\1{code-block} \2\n:class: bad-example\n"


def build(
    out: Path,
    *,
    executed: Path | None = None,
    commands: click.Group | None = None,
    runs: Sequence[HistoryEntry] | None = None,
    say: Callable[[str], object] = print,
) -> Path:
    """Build the site into the folder `out` and return its `index.html`.

    The user's own catalog folders (`VLLM_RUNBOOKS_CATALOG`) are part of the site.

    Args:
        out: Folder of the site; that of an earlier build is replaced.
        executed: Folder that `check --out` wrote; None to execute every runbook on its default
            case.
        commands: The command line, for its reference.
        runs: Entries of the history to publish, the newest first; None to omit the page.
        say: Receives a line on the current step, and on missing parts of the site.

    Raises:
        InputError: The `site` extra is missing, or a folder cannot be used; nothing was built.
        RunbooksError: A runbook has no verdict, or Sphinx rejects a page; the previous site is
            intact.
    """
    extras.require("the site")
    out = out.resolve()
    _check_out(out)
    docs = docs_dir()
    symptoms = _symptoms()
    rules = _rules()
    runbooks = _runbooks()
    with tempfile.TemporaryDirectory(prefix="vllm-runbooks-site-") as name:
        work = Path(name)
        if executed is None and runbooks:
            say(f"executing {len(runbooks)} runbooks; --executed DIR uses the output of `check --out DIR`")
        folder = executed or _execute(runbooks, work / "executed")
        pages = [runbook_pages.paired(runbook, folder) for runbook in runbooks]
        pyodide, lacking = browser_pages.found(docs)
        if lacking:
            say(f"skipping the in-browser pages: {lacking}")
        source = work / "source"
        doors = start_page.DOORS if pyodide is not None else ()
        say(f"writing pages of {len(symptoms)} symptoms, {len(rules)} rules and {len(pages)} runbooks")
        write_sources(
            source, docs=docs, symptoms=symptoms, rules=rules, pages=pages, commands=commands, runs=runs, doors=doors
        )
        # One level below: MyST-NB writes its own folder next to the output.
        built = work / "site" / "html"
        say("building HTML")
        _run_sphinx(source, built, work / "doctrees")
        say("adding content security policies and the in-browser pages")
        sealed.seal(built)
        browser_pages.write(docs, built, pyodide, lacking)
        agent_files.write(built, symptoms, rules, docs, commands)
        _write_schemas(built / "schemas")
        (built / MARKER).touch()
        _publish(built, out)
    return out / "index.html"


def docs_dir() -> Path:
    """The folder of authored pages, next to the catalog."""
    root = folders.data_dir() / "docs"
    if not (root / "conf.py").is_file():
        raise InputError(
            f"{root}: contains no documentation (conf.py); build the site from a checkout or an installed wheel"
        )
    return root


def write_sources(
    target: Path,
    *,
    docs: Path,
    symptoms: Sequence[Symptom],
    rules: Sequence[Rule],
    pages: Sequence[RunbookPage],
    commands: click.Group | None = None,
    runs: Sequence[HistoryEntry] | None = None,
    doors: Collection[str] = (),
) -> None:
    """Write everything that Sphinx reads: authored pages, generated pages, runbooks, indexes."""
    target.mkdir(parents=True)
    shutil.copyfile(docs / "conf.py", target / "conf.py")
    for path in sorted((*docs.glob("*.md"), *docs.glob("decisions/*.md"))):
        authored = path.read_text(encoding="utf-8")
        copy = target / path.relative_to(docs)
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(_BAD_EXAMPLE.sub(_AS_DIRECTIVE, authored), encoding="utf-8")
    shutil.copytree(docs / "_static", target / "_static")
    layout = (docs / "_templates" / header.LAYOUT).read_text(encoding="utf-8")
    specs, entrances = catalog.specs(), catalog.entrances()
    entries = search_entries(symptoms, rules, [page.runbook for page in pages], docs, commands)
    files = {
        f"_templates/{header.LAYOUT}": layout.replace(header.PLACE, header.template_header()),
        f"_static/{search_index.INDEX}": search_index.script(entries),
        "_generated/start.md": start_page.start(
            entrances,
            symptoms,
            runbooks={page.runbook.id for page in pages},
            built=doors,
            has_runs=runs is not None,
        ),
        **option_pages.sources({rule.id: rule.values for rule in rules}, symptoms),
        **_rule_files(rules),
        **_symptom_files(symptoms, pages),
        **_runbook_files(symptoms, pages, *([] if runs is None else [f"/{run_pages.NAME}"])),
        **_run_files(symptoms, pages, runs),
        **spec_pages.sources(specs),
        **reference_pages.api_sources(),
        **reference_pages.command_sources(commands),
    }
    for name, text in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def search_entries(
    symptoms: Sequence[Symptom],
    rules: Sequence[Rule],
    runbooks: Sequence[Runbook],
    docs: Path,
    commands: click.Group | None,
) -> list[SearchEntry]:
    """Everything that the search finds."""
    authored = {path.name: path.read_text(encoding="utf-8") for path in sorted(docs.glob("*.md"))}
    return [
        *search_index.symptom_entries(symptoms, catalog.entrances()),
        *search_index.rule_entries(rules),
        *search_index.option_entries(),
        *search_index.spec_entries(catalog.specs()),
        *search_index.runbook_entries(runbooks),
        *search_index.command_entries(commands),
        *search_index.page_entries(authored),
    ]


def _rule_files(rules: Sequence[Rule]) -> dict[str, str]:
    ids = [rule.id for rule in rules]
    links = option_pages.links()
    tell = rule_pages.tell_by_linting
    files = {f"rules/{r.id}.md": rule_pages.rule_page(r, linked=ids, links=links, tell=tell) for r in rules}
    return {"rules/index.md": rule_pages.rule_index(rules), **files}


def _symptom_files(symptoms: Sequence[Symptom], pages: Sequence[RunbookPage]) -> dict[str, str]:
    books = [page.runbook for page in pages]
    ids = {symptom.id for symptom in symptoms}
    files = {
        f"symptoms/{s.id}.md": symptom_pages.symptom_page(
            s, runbooks=books, linked=ids, card=symptom_pages.diagnose_example(s)
        )
        for s in symptoms
    }
    return {"symptoms/index.md": symptom_pages.symptom_index(symptoms, catalog.entrances()), **files}


def _runbook_files(symptoms: Sequence[Symptom], pages: Sequence[RunbookPage], *more: str) -> dict[str, str]:
    by_id = {symptom.id: symptom for symptom in symptoms}
    files = {
        f"runbooks/{p.runbook.id}.ipynb": json.dumps(runbook_pages.runbook_page(p, by_id), indent=1) for p in pages
    }
    table = runbook_pages.runbook_table(pages, "runbooks/")
    return {"runbooks/index.md": runbook_pages.runbook_index(pages, *more), "_generated/runbooks.md": table, **files}


def _run_files(
    symptoms: Sequence[Symptom], pages: Sequence[RunbookPage], runs: Sequence[HistoryEntry] | None
) -> dict[str, str]:
    if runs is None:
        return {}
    results = run_pages.published(
        runs,
        runbooks={page.runbook.id for page in pages},
        cases={path.name for path in folders.cases_dir().iterdir()},
        symptoms={symptom.id for symptom in symptoms},
    )
    return {f"{run_pages.NAME}.md": run_pages.run_page(results)}


def _check_out(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; set a folder with --out")
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise InputError(f"{out}: contains files that are not from a site; set a new or an empty folder with --out")


def _symptoms() -> list[Symptom]:
    """Every symptom of the catalog; a site with missing pages is not built."""
    shelf = catalog.load_catalog(folders.own_catalogs())
    if shelf.problems:
        raise InputError(f"{shelf.problems[0]}; run `vllm-runbooks catalog check` and fix the catalog first")
    for name in shelf.symptoms:
        if not _SYMPTOM_ID.fullmatch(name):
            raise InputError(f"{name!r}: is not a symptom id; use <group>.<word>, as in port.in_use")
    return list(shelf.symptoms.values())


def _rules() -> list[Rule]:
    """Every rule of the catalog."""
    rules = compiled.load_rules(rule_files.compile_rules)
    if rules.problems:
        raise InputError(f"{rules.problems[0]}; run `vllm-runbooks catalog check` and fix the catalog first")
    return list(rules.by_id.values())


def _runbooks() -> list[Runbook]:
    found = {path.stem: path for path in folders.runbooks_dir().glob("*.ipynb")}
    runbooks = [load_runbook(found[name]) for name in runbook_pages.ordered(found)]
    for runbook in runbooks:
        if not _RUNBOOK_ID.fullmatch(runbook.id):
            raise InputError(
                f"{runbook.path}: its name is not a valid page name; use letters, digits, dots and hyphens"
            )
    return runbooks


def _execute(runbooks: Sequence[Runbook], folder: Path) -> Path:
    """Execute every runbook on its default case."""
    from vllm_runbooks.runbooks.suite import RunbookRequest, run_all

    requests = [RunbookRequest(runbook.id, Path(runbook.path)) for runbook in runbooks]
    for result in run_all(requests, out=folder, jobs=os.cpu_count() or 1) if requests else []:
        if result.verdict in (Verdict.ERROR, Verdict.INTERRUPTED):
            raise RunbooksError(f"{result.runbook}: reached no verdict ({result.reason}); the site was not built")
    return folder


def _run_sphinx(source: Path, built: Path, doctrees: Path) -> None:
    """Run Sphinx in its own process, as it changes global state; every warning is an error."""
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
        lines = [line.replace(f"{source}{os.sep}", "") for line in done.stderr.splitlines() if line.strip()]
        first = next(
            (line for line in lines if "WARNING" in line or "ERROR" in line), (lines or ["Sphinx said nothing"])[-1]
        )
        raise RunbooksError(f"the site was not built: {redact_text(first)}; fix that page")


def _write_schemas(folder: Path) -> None:
    """Write the schemas by which editors check vLLM's options, for all known releases."""
    folder.mkdir()
    for name, text in option_schemas.files(options.known_releases()):
        (folder / name).write_text(text, encoding="utf-8")


def _publish(built: Path, out: Path) -> None:
    """Replace the old site by the new one; a reader finds one or the other."""
    try:
        replace_folder(built, out)
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}); use another folder with --out") from None
