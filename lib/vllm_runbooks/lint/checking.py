"""Lint, fix, migrate and convert scripts with the catalog and the files next to them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog import options
from vllm_runbooks.core.errors import InputError, check_texts
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.expected import compare
from vllm_runbooks.core.extensions import OTHER_PROGRAMS, extension
from vllm_runbooks.core.records import IssueSeverity, RunbookVerdict, ServerRun, Verdict
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.lint import knowledge
from vllm_runbooks.lint import linting as _lint
from vllm_runbooks.lint.records import Linted, Migrated
from vllm_runbooks.lint.selection import EVERYTHING, Selection
from vllm_runbooks.reading import deployment, documents, sources, startup_log
from vllm_runbooks.reading.deployment import forms
from vllm_runbooks.reading.documents import formats


def lint_text(
    text: str,
    *,
    name: str = "",
    vllm: str | None = None,
    gpus: str | None = None,
    fix: bool = False,
    python: str | None = None,
    is_config_checked: bool = False,
    folder: Path | None = None,
    lang: str | None = None,
    selection: Selection = EVERYTHING,
) -> Linted:
    """Lint a script, manifest, Python program or page; comments in it may ignore rules.

    `python` is a Python with vLLM, whose parser validates the commands too (with
    `is_config_checked` also its configuration). Config files of the commands are read in `folder`;
    `lang` defaults to `VLLM_RUNBOOKS_LANG`.
    """
    ask = None
    if python is not None:
        from vllm_runbooks.lint import second_opinion

        ask = partial(second_opinion.ask, python, is_config_checked=is_config_checked)
    return _lint.lint(
        text, knowledge.knowledge(lang), asked(text, name, vllm, gpus, folder, selection=selection), fix=fix, ask=ask
    )


def lint_texts(asked_texts: Mapping[str, tuple[str, Mapping[str, Any]]]) -> dict[str, Linted]:
    """Lint texts by name, each with the arguments of `lint_text`; many of them in parallel."""
    processes = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, _MAX_PROCESSES)
    total = sum(len(text) for text, _ in asked_texts.values())
    is_asked = any(arguments.get("python") is not None for _, arguments in asked_texts.values())
    if processes < _FEW or total < _MUCH_TEXT or len(asked_texts) < _MANY_FILES or is_asked:
        return {name: _linted(item) for name, item in asked_texts.items()}
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    knowledge.knowledge()  # loaded once, before the processes begin
    by_size = sorted(asked_texts.items(), key=lambda pair: -len(pair[1][0]))
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        linted = pool.map(_linted, [item for _, item in by_size], chunksize=4)
        checked = dict(zip([name for name, _ in by_size], linted, strict=True))
    return {name: checked[name] for name in asked_texts}


_FEW, _MAX_PROCESSES = 2, 16
_MANY_FILES, _MUCH_TEXT = 16, 200_000
"""Files and characters from which several processes are faster."""


def _linted(item: tuple[str, Mapping[str, Any]]) -> Linted:
    text, arguments = item
    return lint_text(text, **arguments)


def asked(
    text: str,
    name: str,
    vllm: str | None,
    gpus: str | None,
    folder: Path | None,
    *,
    selection: Selection = EVERYTHING,
) -> _lint.LintRequest:
    """Build the request, with the config files next to the text; of a log only its launches are checked."""
    memory = host_loading.cpu_memory(gpus) if gpus else None
    cards = host_loading.cards(gpus) if gpus and memory is None else None
    if starts := log_starts(text, name):
        selection = replace(selection, ignore=(*selection.ignore, *_SYNTAX))
        vllm = vllm or starts[-1].release.version
    names = _lint.config_names(text, name) if folder is not None else ()
    texts = ((config, sources.read_beside(folder, config)) for config in names if folder is not None)
    files = {config: read for config, read in texts if read is not None}
    return _lint.LintRequest(name, vllm or None, cards, files, _apart, selection, reads_comments=True, cpu_gib=memory)


_SYNTAX = (
    "file.not-json", "file.not-python", "file.not-yaml", "shell.dangling-continuation", "shell.missing-continuation",
    "shell.unclosed-bracket", "shell.unclosed-quote", "shell.unexpected-token",
)  # fmt: skip
"""Rules for the syntax of a whole file, which a log has not."""
_LOGGED = re.compile(
    r'Traceback \(most recent call last\):|\bFile "[^"\n]{1,300}", line \d{1,6}, in |^\S{0,80}(?:Error|Exception): |'
    r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b:? {1,4}\d\d-\d\d",
    re.ASCII | re.MULTILINE,
)
"""A line that only logs have; the whole log is read only with one."""


def log_starts(text: str, name: str) -> list[ServerRun]:
    """Launches in a text that is a log; none for a name with the suffix of another format."""
    is_other = formats.is_named(name) and not name.lower().endswith(".log")
    if is_other or not _LOGGED.search(text):
        return []
    return startup_log.read(sources.paste(text), catalog.load_catalog())


def _apart(text: str, name: str) -> _lint.OtherPrograms | None:
    if "import" not in text:
        return None
    find = extension(OTHER_PROGRAMS)
    programs: _lint.OtherPrograms | None = find(text, name, knowledge.knowledge(), catalog.toolchain())
    return programs


def fixed_text(
    text: str,
    *,
    name: str = "",
    vllm: str | None = None,
    gpus: str | None = None,
    folder: Path | None = None,
    selection: Selection = EVERYTHING,
) -> str:
    """Apply every fix and keep the secrets: for the user's own file."""
    return _lint.fixed_text(text, knowledge.knowledge(), asked(text, name, vllm, gpus, folder, selection=selection))


def hidden(text: str, options: Mapping[str, Any]) -> str:
    """The text with its secrets replaced; options as for `fixed_text`."""
    return _lint.hidden(text, knowledge.knowledge(), asked(text, **options))


def migrate_text(
    text: str, *, from_: str, to: str, name: str = "", gpus: str | None = None, folder: Path | None = None
) -> tuple[Migrated, str]:
    """Migrate a script to another release; the second value is the rewritten script with its secrets."""
    return _lint.migrate(text, knowledge.knowledge(), asked(text, name, to, gpus, folder), from_=from_)


class Converted(NamedTuple):
    text: str
    linted: Linted
    starts: int
    """Number of launches in the file."""
    needs: tuple[str, ...]
    """Variables that must be set."""
    left_out: tuple[str, ...]
    """Options that the other form cannot express."""
    is_loopback: bool
    """Whether the server listens on loopback only, which in a container is the container's."""


def convert_text(
    text: str, *, to: str, name: str = "", vllm: str | None = None, start: int | None = None, gpus: str | None = None
) -> Converted:
    """Convert one launch of a text (by default the first) to another form; secrets become references."""
    servers = [launch for launch in documents.read(text, name).starts if launch.entry in options.SERVERS]
    starts = [server for server in servers if not server.keywords]
    if not starts:
        raise InputError(
            f"{name or 'the text'}: no vLLM server launch found; use a script, manifest or page that launches one"
        )
    number = start or 1
    if number > len(starts):
        count = f"{len(starts)} launch{'es' * (len(starts) > 1)}"
        raise InputError(
            f"{name or 'the text'}: contains {count}, so number {number} does not exist; use a lower --start"
        )
    launch = starts[number - 1]
    release = options.load(vllm or launch.release or options.known_releases()[-1])
    written, converted = forms.converted(launch, to, release)
    linted = lint_text(written, name=forms.FILES[to], vllm=release.asked, gpus=gpus)
    flags = linted.deployments[0].flags if linted.deployments else {}
    needs, lost = deployment.references(converted), forms.left_out(launch, to)
    return Converted(written, linted, len(starts), needs, lost, flags.get("host") in ("127.0.0.1", "localhost", "::1"))


def lint_commands(evidence: Evidence, *, gpus: str = "", lang: str | None = None) -> Linted:
    """Lint the loaded or pasted script, and correct it; `lang` as for `lint_text`.

    Raises:
        InputError: The release, a GPU or the language is unknown, or the evidence is more than
            one text.
    """
    check_texts(gpus=gpus, lang=lang)
    script = _script(evidence)
    return lint_text(script.text, name=script.name, vllm=evidence.vllm, gpus=gpus, fix=True, lang=lang)


def migrate_commands(evidence: Evidence, *, to: str, gpus: str = "") -> Migrated:
    """Move the script that was loaded or pasted to another release.

    Raises:
        InputError: as `lint_commands`.
    """
    check_texts(target=to, gpus=gpus)
    script = _script(evidence)
    from_ = lint_commands(evidence, gpus=gpus).vllm.version
    return migrate_text(script.text, name=script.name, from_=from_, to=to, gpus=gpus)[0]


def shown(evidence: Evidence) -> str:
    """The loaded or pasted script with its secrets replaced."""
    script = _script(evidence)
    return _lint.hidden(script.text, knowledge.knowledge(), _lint.LintRequest(script.name, evidence.vllm))


def _script(evidence: Evidence) -> Document:
    if len(evidence.documents) != 1:
        raise InputError(f"{len(evidence.documents)} texts given; use one script")
    return evidence.documents[0]


def command_verdict(linted: Linted, evidence: Evidence) -> RunbookVerdict:
    """The verdict on commands: against the expectation of the evidence's case, else fail on any error or warning."""
    case, wrong = evidence.case, [issue for issue in linted.issues if issue.severity is not IssueSeverity.INFO]
    if case is not None and case.expect.issues is not None:
        expected = {(issue.rule, issue.line) for issue in case.expect.issues}
        got = {(issue.rule, issue.line) for issue in wrong}
        differences = [f"line {line}: {rule}: expected, not found" for rule, line in sorted(expected - got)]
        differences += [f"line {line}: {rule}: found, not expected" for rule, line in sorted(got - expected)]
        verdict, reason = compare(differences, f"{len(expected)} issues")
    elif wrong:
        verdict, reason = Verdict.FAIL, f"line {wrong[0].line}: {wrong[0].message} ({wrong[0].rule})"
    elif not linted.deployments:
        verdict, reason = Verdict.FAIL, "no vLLM launch found; nothing was checked"
    else:
        verdict, reason = Verdict.PASS, f"no problems on vLLM {linted.vllm.version}"
    count = {severity.value: sum(issue.severity is severity for issue in wrong) for severity in IssueSeverity}
    figures = {"vllm": linted.vllm.version, "errors": count["error"], "warnings": count["warning"]}
    return RunbookVerdict(verdict, reason, case.id if case else None, None, None, (), figures)
