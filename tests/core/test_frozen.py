"""Records are immutable values."""

from __future__ import annotations

import ast

import mutants

BUILT_UP = {
    "authoring.releases.call_sites.ReleaseSources",
    "catalog.sites._Tally",
    "core.scan._Search",
    "edge10.artefacts.weights_files.Checkpoint",
    "edge10.artefacts.findings.FolderNotes",
    "edge10.chain.chains._ChainRun",
    "edge10.chain.limited._Monitor",
    "edge10.scripts.program._CallFrame",
    "edge10.scripts.values.Items",
    "probe.load._LoadSamples",
    "reading.arguments._Parser",
    "reading.arguments.json_keys._JsonChecker",
    "reading.arguments.values.ValueReader",
    "reading.arguments.words.Rewritten",
    "reading.documents.starts.ContainerOptions",
    "reading.documents.magics.Lines",
    "reading.documents.python_scopes._Scope",
    "reading.documents.quoted_code._Assigned",
    "reading.documents.quoted_code._Level",
    "reading.documents.starts.DocumentReading",
    "reading.shell.run._Branches",
    "reading.shell.state.Shell",
    "reading.shell.values.ScriptRun",
    "reading.shell.values.State",
    "reading.startup_log.draft.LaunchDraft",
    "reading.startup_log.launch.ShownLaunch",
    "reading.startup_log.ray_status.RayStatus",
    "reading.startup_log.ray_status._StatusDraft",
    "reading.startup_log.tracebacks._OpenTraceback",
    "reading.startup_log.tracebacks._Thread",
    "runbooks.bench.Bench",
    "serve.attempt.LaunchOutcome",
    "serve.attempt.LaunchRunner",
    "serve.watch.HangWatch",
    "serve.watch._ProcessState",
}
"""Dataclasses that are filled step by step by their own module."""


def test_records_are_values() -> None:
    """Every dataclass is frozen, except those listed here."""
    package = mutants.ROOT / mutants.PACKAGE
    changing = {
        ".".join((*path.relative_to(package).with_suffix("").parts, node.name)).replace(".__init__.", ".")
        for path in sorted(package.glob("*/**/*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
        for decorator in map(ast.unparse, node.decorator_list)
        if decorator.startswith("dataclass") and "frozen=True" not in decorator
    }

    assert changing == BUILT_UP
