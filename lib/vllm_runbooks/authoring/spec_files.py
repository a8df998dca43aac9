"""Authored GPUs, models, fits and reviewed defaults to the index of specifications: each problem by file and line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vllm_runbooks import options, specs
from vllm_runbooks.authoring.yaml_files import Problem, read_record
from vllm_runbooks.errors import CatalogError
from vllm_runbooks.records import document
from vllm_runbooks.specs import Architecture, DefaultReviews, Fits, GpuTable, Matter, ModelFile

ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "gpus": TypeAdapter(GpuTable),
    "architectures": TypeAdapter(dict[str, Architecture]),
    "fits": TypeAdapter(Fits),
    "defaults": TypeAdapter(DefaultReviews),
    "model": TypeAdapter(ModelFile),
}
"""What each kind of file holds."""
INTERCONNECTS = ("nvlink", "nvlink-bridge", "pcie")
_PLACE = r"vllm \d[\d.]*(?:post\d+)? [\w/.-]+\.py:\d+"
_SOURCE = re.compile(rf"{_PLACE}(?: and {_PLACE})?", re.ASCII)
"""One or two files of releases with their lines."""


def _gpu_problems(table: GpuTable) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for index, gpu in enumerate(table.gpus):
        at = ("gpus", index)
        for key in gpu.sources:
            if key not in table.sources:
                yield (*at, "sources"), f"{key!r} is not in the table of sources"
        if not gpu.sources:
            yield (*at, "sources"), "is empty; a figure needs a source"
        if not 1 <= gpu.memory_gib <= 1024:
            yield (*at, "memory_gib"), f"{gpu.memory_gib} is no size of a card in GiB"
        if gpu.capability is not None and gpu.version is None:
            yield (*at, "capability"), f"{gpu.capability!r} is not written as 8.6"
        if gpu.interconnect not in (None, *INTERCONNECTS):
            yield (*at, "interconnect"), f"{gpu.interconnect!r} is none of {', '.join(INTERCONNECTS)}"
        for place, line in enumerate(gpu.reported):
            if not 0.8 * gpu.memory_gib <= line.gib <= gpu.memory_gib:
                yield (*at, "reported", place), f"{line.gib} GiB does not belong to a card of {gpu.memory_gib}"
        for name in dict.fromkeys(map(specs.name_key, (gpu.name, *gpu.aliases))):
            if seen.setdefault(name, gpu.name) != gpu.name:
                yield (*at, "name"), f"{name!r} is a name of {seen[name]} as well"


def _model_problems(file: ModelFile, expected: str) -> Iterator[Problem]:
    if file.id != expected:
        yield ("id",), f"is {file.id!r}; the file's place says {expected!r}"
    if not file.source:
        yield ("source",), "is empty; a remembered configuration is no source"
    if specs.model_from_config(file.config).architecture is None:
        yield ("config", "architectures"), "names no class"


def _default_problems(table: DefaultReviews, known: options.Names) -> Iterator[Problem]:
    """What is wrong with the reviews; names are looked up where the catalog has the data of releases."""
    kinds = (("options", table.options, known.arguments), ("environment", table.environment, known.variables))
    for kind, reviews, names in kinds:
        for name, review in reviews.items():
            at = (kind, name)
            if names and name not in names:
                yield at, f"{name!r} is in no release"
            written = [review.former.option] if review.former is not None and review.former.option else []
            for field, others in (("only_with", review.only_with), ("former", written)):
                for other in others:
                    if known.arguments and other not in known.arguments:
                        yield (*at, field), f"{other!r} is in no release"
            if not _SOURCE.fullmatch(review.source):
                yield (*at, "source"), "is not written as `vllm 0.18.1 config/load.py:57`"
            if review.matters is Matter.UNKNOWN:
                yield (*at, "matters"), "says that nobody has looked at it; then it has no row"
            if not review.why:
                yield (*at, "why"), "is empty; say what the change does"


def read_spec(path: Path, where: str, kind: str) -> Any:
    """Read a file of specifications as a kind of ADAPTERS; CatalogError names every problem, one a line."""

    def problems_of(value: Any) -> Iterable[Problem]:
        if isinstance(value, GpuTable):
            return _gpu_problems(value)
        if isinstance(value, DefaultReviews):
            return _default_problems(value, options.names(path.parent / "releases"))
        if isinstance(value, ModelFile):
            return _model_problems(value, f"{path.parent.name}/{path.stem}")
        return ()

    return read_record(path, where, ADAPTERS[kind], problems_of)


def kind_of(path: Path) -> str | None:
    """What kind of specification a file is by its place and name; None: none at all."""
    if path.absolute().parents[1].name == "models":
        return "model"
    return path.stem if path.stem in ADAPTERS and path.absolute().parent.name != "symptoms" else None


def compile_specs(root: Path) -> tuple[dict[str, Any], list[str]]:
    """Compile a catalog folder's specifications; returns the index of what is good, and the problems, one line each."""
    problems: list[str] = []
    index: dict[str, Any] = {
        "gpus": {"sources": {}, "gpus": []},
        "architectures": {},
        "fits": {"tool_parsers": {}, "reasoning_parsers": {}, "chat_templates": {}},
        "defaults": {"options": {}, "environment": {}},
        "models": [],
    }
    for path in specs.sources(root):
        where = str(path.relative_to(root))
        try:
            if path.parent == root:
                index[path.stem] = document(read_spec(path, where, path.stem))
            else:
                index["models"].append(document(read_spec(path, where, "model")))
        except CatalogError as error:
            problems += str(error).splitlines()
    return {"key": specs.key(root), **index}, problems
