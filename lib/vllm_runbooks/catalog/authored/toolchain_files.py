"""Read, check and compile the authored facts of toolchains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vllm_runbooks.catalog.authored.located import Problem
from vllm_runbooks.catalog.authored.yaml_files import compile_records, date_problems, not_one_of, read_record
from vllm_runbooks.catalog.toolchains import KINDS, PHASES, STEPS, TOOLCHAINS, Toolchain, TreeFile

ADAPTER = TypeAdapter(Toolchain)
_ID = re.compile(r"[a-z][a-z0-9]{0,30}-\d{1,4}(?:\.\d{1,4}){1,3}", re.ASCII)
_HOLE = re.compile(r"\{(\w{0,40})\}", re.ASCII)
_OF_PATHS = frozenset(("die", "length"))
_OF_NAMES = frozenset(("model", "prefill", "context", "width", "height", "dies", "modality", "remap"))
_NAMED = frozenset((*(f"{what}_{kind}" for what in ("quantised", "compiled") for kind in KINDS), "converted", "dies"))
"""Names that every version defines."""
_GPU = ("needed", "advised", None)


def read_toolchain(path: Path, where: str | None = None) -> Toolchain:
    return read_record(path, where or path.name, ADAPTER, lambda record: _problems(record, path.stem))


def _problems(toolchain: Toolchain, stem: str) -> Iterator[Problem]:
    if toolchain.id != stem or not _ID.fullmatch(toolchain.id) or not toolchain.id.endswith(f"-{toolchain.version}"):
        yield ("id",), f"{toolchain.id!r} is not the file's name, a small word and the version"
    for _, problem in date_problems(toolchain.released):
        yield ("released",), problem
    for name, step in toolchain.steps.items():
        if name not in STEPS:
            yield ("steps", name), f"is not one of {', '.join(STEPS)}"
        if step.gpu not in _GPU:
            yield ("steps", name, "gpu"), f"{step.gpu!r} is neither needed nor advised"
        if step.vllm is not None and not step.has_vllm:
            yield ("steps", name, "has_vllm"), "is not set, but a vLLM release is"
    names = [name.lower() for model in toolchain.models for name in (model.name, *model.aliases)]
    for index, model in enumerate(toolchain.models):
        yield from not_one_of(("models", index, "kind"), model.kind, KINDS)
        if names.count(model.name.lower()) > 1:
            yield ("models", index, "name"), f"{model.name!r} is listed twice"
    for name in sorted(_NAMED - toolchain.names.keys()):
        yield ("names",), f"has no {name}"
    for name in sorted(set(KINDS) - toolchain.limits.prefill.keys()):
        yield ("limits", "prefill"), f"has no {name}"
    for name in sorted(set(KINDS) - toolchain.evaluation.datasets.keys()):
        yield ("evaluation", "datasets"), f"has no {name}"
    for name, template in toolchain.names.items():
        for hole in _HOLE.findall(template):
            if hole not in _OF_NAMES:
                yield ("names", name), f"{{{hole}}} is not a setting of a job"
    lengths = {length.tokens for length in toolchain.lengths}
    for kind, files in toolchain.trees.items():
        if kind not in KINDS:
            yield ("trees", kind), f"is not one of {', '.join(KINDS)}"
        for index, file in enumerate(files):
            for field, problem in _file_problems(file, lengths):
                yield ("trees", kind, index, field), problem
    for index, fault in enumerate(toolchain.faults):
        if fault.step not in toolchain.steps:
            yield ("faults", index, "step"), f"{fault.step!r} is not a step of this file"


def _file_problems(file: TreeFile, lengths: set[int]) -> Iterator[tuple[str, str]]:
    yield from not_one_of("phase", file.phase, PHASES)
    for field in ("path", "renamed_from"):
        text = getattr(file, field)
        if text.startswith("/") or ".." in text.split("/"):
            yield field, "is outside the folder of the dies"
        for hole in _HOLE.findall(text):
            if hole not in _OF_PATHS:
                yield field, f"{{{hole}}} is neither a die nor a length"
    for length in file.lengths:
        if length not in lengths:
            yield "lengths", f"{length} is not a length of this file"
    if file.phase is not None and "{length}" not in file.path:
        yield "phase", "belongs to a file of one length"


def compile_toolchains(root: Path) -> tuple[dict[str, Any], list[str]]:
    return compile_records(TOOLCHAINS, root, read_toolchain)
