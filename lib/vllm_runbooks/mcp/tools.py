"""The tools: each returns the summary that the command prints, and its JSON document."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from vllm_runbooks.catalog.specs import LOCAL, is_by_name
from vllm_runbooks.core.display import to_json, visible
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.redaction import redact
from vllm_runbooks.core.views.styled import BLANK, TextBlock, plain
from vllm_runbooks.core.views.summary import Summary, summary_view
from vllm_runbooks.mcp.roots import Roots

_MORE = "call {} with details=true"
_INPUTS = {"command": "command", "gpus": "gpus", "vllm": "vllm"}
"""Inputs that the user can add to a diagnosis, as this tool names them."""
_MOST_TEXT = {False: 6_000, True: 24_000}
_MOST_JSON = {False: 8_000, True: 48_000}
"""Maximum characters of a reply without and with details."""
_SUMMARY_KEYS = {
    "diagnose": ("files", "outcome", "vllm", "root_cause", "internal_error", "remedies"),
    "lint": ("vllm", "issues", "fixed"),
    "migrate": ("vllm", "issues", "changed_defaults", "fixed", "diff"),
    "plan": (
        *("model", "vllm", "gpus", "fits", "verdict", "summary", "remedies", "run", "notes"),
        *("layout", "kv_cache", "limits", "found", "deployment", "layouts"),
    ),
    "probe": ("verdict", "reason", "vllm", "cause"),
}
"""Keys of the documents that a reply without details has."""


class Reply(NamedTuple):
    """Text for a person, and the JSON document of the command."""

    text: str
    document: dict[str, Any]


def diagnose(
    roots: Roots,
    *,
    path: str,
    text: str,
    command: str,
    command_path: str,
    gpus: str,
    vllm: str,
    start: int,
    details: bool,
) -> Reply:
    """Diagnose a log as `vllm-runbooks diagnose` does."""
    from vllm_runbooks.diagnosis import diagnosing
    from vllm_runbooks.diagnosis.render import answers
    from vllm_runbooks.lint import ways_out
    from vllm_runbooks.reading import sources

    name = _name(roots, path, text)
    evidence = sources.load(name, pasted=text, vllm=vllm or None)
    if command or command_path:
        where = _name(roots, command_path, command)
        script = command or sources.read_text(where)
        ways_out.check_starts(script, where or "command")
        evidence = replace(evidence, command=script)
    answer = diagnosing.diagnose(evidence, start=start or None, gpus=_gpus(gpus))
    several = () if start else diagnosing.different_launches(evidence, answer, gpus=_gpus(gpus))
    blocks: list[TextBlock] = []
    for diagnosed in several or [answer]:
        blocks += answers.view(
            diagnosed,
            is_explained=details,
            gpus=gpus,
            has_command=evidence.command is not None,
            start=start or None,
            again="" if details else _MORE.format("diagnose"),
            inputs=_INPUTS,
        )
        blocks.append(BLANK)
    return _reply("diagnose", blocks, answer, details=details)


def lint(roots: Roots, *, path: str, text: str, vllm: str, gpus: str, details: bool) -> Reply:
    """Check a script, manifest or program as `vllm-runbooks lint --fix` does; the diff is part of the text."""
    from vllm_runbooks.lint import baseline, checking, knowledge, render, selection

    name, script, folder = _script(roots, path, text)
    rules = knowledge.knowledge().rules
    settings = selection.find_settings(folder, rules, {}, roots.contains) if folder else selection.LintSettings()
    options: dict[str, Any] = {
        "name": name,
        "vllm": vllm or settings.vllm,
        "gpus": _gpus(gpus) or _gpus_of_project(roots, settings.gpus),
        "folder": folder,
        "selection": settings.selection,
    }
    linted = checking.lint_text(script, **options, fix=True)
    if not (linted.deployments or linted.issues) and checking.log_starts(script, name):
        raise InputError("this is a log, not a script; use diagnose")
    if settings.baseline is not None:
        baseline_file = roots.existing(settings.baseline)
        known = baseline.read(baseline_file).get(baseline.relative(name, baseline_file), Counter())
        linted = replace(linted, issues=baseline.without_known(linted.issues, known))
    is_filtered = not details or settings.profile is not None
    shown = replace(linted, issues=settings.reported(linted.issues, rules)) if is_filtered else linted
    label = redact.redact_name(Path(name).name) or "the text"
    hidden = checking.hidden(script, options)
    fixed = linted.fixed or hidden
    diff, _ = render.diff_view(hidden, fixed, label, private=(hidden, fixed))
    return _reply("lint", [*render.view({label: shown}), *diff], shown, details=details)


def migrate(
    roots: Roots, *, path: str, text: str, from_release: str, to_release: str, gpus: str, details: bool
) -> Reply:
    """Move a script to another release as `vllm-runbooks migrate` does; nothing is written."""
    from vllm_runbooks.lint import checking, render

    name, script, folder = _script(roots, path, text)
    migrated, _ = checking.migrate_text(
        script, name=name, from_=from_release, to=to_release, gpus=_gpus(gpus), folder=folder
    )
    label = redact.redact_name(Path(name).name) or "the text"
    return _reply(
        "migrate", [*render.view({label: migrated}), *render.changes_view(migrated)], migrated, details=details
    )


def plan(
    roots: Roots, *, model: str, gpus: str, options: Sequence[str], vllm: str, find: str, online: bool, details: bool
) -> Reply:
    """Plan a model on GPUs as `vllm-runbooks plan` does."""
    from vllm_runbooks.plan import planner
    from vllm_runbooks.plan.hub import HubAccess
    from vllm_runbooks.plan.records import Find
    from vllm_runbooks.plan.render import plans, summaries

    if find and find not in tuple(Find):
        raise InputError(f"find: {find[:40]!r} is unknown; use {', '.join(Find)}")
    if not model.strip() or not gpus.strip():
        raise InputError("model and gpus are required, as in Qwen/Qwen3-8B and 2xRTX3090")

    def check_name(name: str) -> None:
        folder = Path(name).expanduser()
        if planner.is_folder(str(folder)):
            roots.existing(str(folder.absolute()))

    request = planner.request(
        str(roots.existing(model)) if re.match(r"[./~]", model) else model,
        _gpus(gpus) or "",
        vllm=vllm or None,
        arguments=tuple(options),
        access=HubAccess.NETWORK if online else HubAccess.CACHE,
        check_name=check_name,
    )
    if find:
        answer: Any = planner.find(request, find)
    else:
        answer = planner.plan(request) if planner.has_sizes(request) else planner.layouts(request)
    is_searched = find != Find.GPUS and (not find or answer.fits is False)
    remedies = planner.remedies(request, answer) if is_searched else ()
    origin = request.model.source if request.model.is_downloaded or request.model.is_assumed else ""
    again = "" if details else _MORE.format("plan")
    summary = summaries.summarize(
        answer, remedies, options=[*options], again=again, origin=origin or "", unread=request.model.unread
    )
    first = summaries.layout_of_first_change(answer, remedies)
    blocks = [*summary_view(summary), *([BLANK, *plans.details(answer, first)] if details else [])]
    return _reply("plan", blocks, summaries.with_text(answer, remedies, summary), details=details)


def probe(*, url: str, model: str, gpus: str, details: bool) -> Reply:
    """Probe a running server as `vllm-runbooks probe` does; nothing is stored."""
    from vllm_runbooks.catalog.load import serving
    from vllm_runbooks.probe import checking, render, summaries
    from vllm_runbooks.runbooks.live import probing

    if not re.match(r"https?://", url, re.IGNORECASE):
        raise InputError("url: not an http(s) address; use one such as http://127.0.0.1:8000")
    health = checking.health(probing.probe(url, model=model, is_key_local=True), gpus=_gpus(gpus) or "")
    summary: Summary = summaries.summarize(health, serving(), again=_MORE.format("probe"))
    blocks = render.view(health, serving()) if details else summary_view(summary)
    return _reply("probe", blocks, health, details=details)


def _name(roots: Roots, path: str, text: str) -> str:
    """The name of the file of an input; empty for a text.

    Raises:
        InputError: Both or none is given, or the file is not granted.
    """
    if bool(path.strip()) == bool(text.strip()):
        raise InputError("pass either a path or a text")
    return str(roots.existing(path)) if path.strip() else ""


def _script(roots: Roots, path: str, text: str) -> tuple[str, str, Path | None]:
    """Name and text of a script, and the folder whose config files it may name."""
    from vllm_runbooks.reading import sources

    name = _name(roots, path, text)
    script = text or sources.read_rewritable(name)
    if len(script) > sources.MAX_SCRIPT:
        raise InputError(f"the text is longer than {sources.MAX_SCRIPT} characters; pass the part that launches vLLM")
    folder = Path(name) if Path(name).is_dir() else Path(name).parent
    return name, script, folder if name else None


def _gpus(spec: str) -> str | None:
    """GPUs by name, or of this host; a file is not read."""
    if spec.strip() and spec.strip().casefold() != LOCAL and not is_by_name(spec):
        raise InputError(f"gpus: {spec[:80]!r} is a file; use names as in 8xRTX3090, or {LOCAL}")
    return spec.strip() or None


def _gpus_of_project(roots: Roots, spec: str | None) -> str | None:
    """GPUs of a project's settings: by name, of this host, or a snapshot in the roots."""
    is_file = spec is not None and spec.casefold() != LOCAL and not is_by_name(spec)
    return str(roots.existing(spec)) if is_file and spec else spec


def _reply(tool: str, blocks: Iterable[TextBlock], record: Any, *, details: bool) -> Reply:
    document = json.loads(to_json(record, indent=None))
    kept = document if details else _summary_document(document, ("schema", *_SUMMARY_KEYS[tool]))
    return Reply(bounded(plain(blocks), details=details), _shown(_bounded_document(kept, _MOST_JSON[details])))


def _shown(value: Any) -> Any:
    """A JSON value whose texts have no characters that control, reorder or hide text."""
    if isinstance(value, str):
        return "\t".join(map(visible, value.split("\t")))
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return {_shown(key): _shown(item) for key, item in value.items()} if isinstance(value, dict) else value


def _summary_document(document: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """The members of a document with these keys, and those of its layouts."""
    kept = {key: document[key] for key in keys if key in document}
    if "layouts" in kept:
        apart = [key for key in keys if key not in ("model", "vllm", "gpus")]  # the same for all
        kept["layouts"] = [_summary_document(layout, apart) for layout in kept["layouts"]]
    return kept


def bounded(text: str, *, details: bool) -> str:
    """A text whose rest is left out at the end of a line, with a note on its length."""
    most, text = _MOST_TEXT[details], text.rstrip()
    if len(text) <= most:
        return text
    head = text[:most].rpartition("\n")[0] or text[:most]
    return f"{head}\n… {len(text) - len(head):,} more characters are left out."


def _bounded_document(document: Mapping[str, Any], most: int) -> dict[str, Any]:
    """A document whose largest lists are shorter, and largest values left out; their keys are in `omitted`."""
    kept = dict(document)
    sizes = {key: _size(value) for key, value in kept.items()}
    omitted: set[str] = set()
    while sum(sizes.values()) > most:
        key = max(sizes, key=lambda name: sizes[name])
        omitted.add(key)
        if isinstance(kept[key], list) and len(kept[key]) > 1:
            kept[key] = kept[key][: len(kept[key]) // 2]
            sizes[key] = _size(kept[key])
        else:
            del kept[key], sizes[key]
    return {**kept, "omitted": sorted(omitted)} if omitted else kept


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False))
