"""Records of the core are values: what was made once is never changed behind the back of who holds it."""

from __future__ import annotations

import dataclasses
import importlib
import inspect

import mutants

BUILT_UP = {
    "arguments.json_keys._Judge", "arguments.words.Rewritten", "documents.launchers.Options",
    "documents.magics.Lines", "documents.starts.Reading", "documents.yaml_places._Open", "scan._Search",
    "shell.run._Ends", "shell.values.Result", "shell.values.State", "sites._Tally", "startup_log.draft.Draft",
    "startup_log.launch.Shown", "startup_log.ray_status.RayStatus", "startup_log.ray_status._Read",
    "startup_log.tracebacks._Open", "startup_log.tracebacks._Thread", "toolchain.trees.Told", "toolchain.trees.Wanted",
    "toolchain.weights_files.Checkpoint", "toolchain.weights_files.Told",
}  # fmt: skip
"""Dataclasses that are filled step by step by their own module."""


def test_records_are_values() -> None:
    """Every dataclass of the core refuses to be changed, but those that are named here."""
    changing = set()
    for path in mutants.core():
        name = ".".join(path.relative_to(mutants.ROOT / "lib").with_suffix("").parts).removesuffix(".__init__")
        module = importlib.import_module(name)
        for kind in vars(module).values():
            is_ours = inspect.isclass(kind) and dataclasses.is_dataclass(kind) and kind.__module__ == name
            if is_ours and not vars(kind)["__dataclass_params__"].frozen:
                changing.add(f"{name}.{kind.__qualname__}".removeprefix("vllm_runbooks."))

    assert changing == BUILT_UP
