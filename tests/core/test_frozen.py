"""Records are values: what was made once is never changed behind the back of who holds it."""

from __future__ import annotations

import dataclasses
import importlib
import inspect

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
    "reading.documents.launchers.Options",
    "reading.documents.magics.Lines",
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
    """Every dataclass refuses to be changed, but those that are named here."""
    changing = set()
    for path in sorted((mutants.ROOT / mutants.PACKAGE).glob("*/**/*.py")):
        name = ".".join(path.relative_to(mutants.ROOT / "lib").with_suffix("").parts).removesuffix(".__init__")
        module = importlib.import_module(name)
        for kind in vars(module).values():
            is_ours = inspect.isclass(kind) and dataclasses.is_dataclass(kind) and kind.__module__ == name
            if is_ours and not vars(kind)["__dataclass_params__"].frozen:
                changing.add(f"{name}.{kind.__qualname__}".removeprefix("vllm_runbooks."))

    assert changing == BUILT_UP
