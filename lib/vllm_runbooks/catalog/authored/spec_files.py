"""Read, check and compile the authored GPUs, models, fits and reviewed defaults."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median, median_high
from typing import Any

from pydantic import TypeAdapter

from vllm_runbooks.catalog import options, specs
from vllm_runbooks.catalog.authored.located import Problem
from vllm_runbooks.catalog.authored.yaml_files import not_one_of, read_record
from vllm_runbooks.catalog.specs import Architecture, DefaultReviews, Fits, Gpu, GpuTable, Matter, ModelFile, Total
from vllm_runbooks.core.errors import CatalogError
from vllm_runbooks.core.record_forms import document

ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "gpus": TypeAdapter(GpuTable),
    "architectures": TypeAdapter(dict[str, Architecture]),
    "fits": TypeAdapter(Fits),
    "defaults": TypeAdapter(DefaultReviews),
    "model": TypeAdapter(ModelFile),
}
VENDORS = ("nvidia", "amd")
INTERCONNECTS = ("nvlink", "nvlink-bridge", "pcie")
ENOUGH_LINES = 3
"""Number of printed lines of a GPU from which their least and most bound its memory."""
_PLACE = r"vllm \d[\d.]*(?:post\d+)? [\w/.-]+\.py:\d+"
_SOURCE = re.compile(rf"{_PLACE}(?: and {_PLACE})?", re.ASCII)
"""One or two files of releases with their lines."""


def _gpu_problems(table: GpuTable) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    sizes = {gpu.name: gpu.memory_gib for gpu in table.gpus}
    for index, gpu in enumerate(table.gpus):
        at = ("gpus", index)
        for key in gpu.sources:
            if key not in table.sources:
                yield (*at, "sources"), f"{key!r} is not in the table of sources"
        if not gpu.sources:
            yield (*at, "sources"), "is empty; a figure needs a source"
        if not 1 <= gpu.memory_gib <= 1024:
            yield (*at, "memory_gib"), f"{gpu.memory_gib} is not a GPU size in GiB"
        if gpu.capability is not None and not re.fullmatch(r"\d{1,2}\.\d", gpu.capability, re.ASCII):
            yield (*at, "capability"), f"{gpu.capability!r} is not written as 8.6"
        yield from not_one_of((*at, "interconnect"), gpu.interconnect, INTERCONNECTS)
        yield from not_one_of((*at, "vendor"), gpu.vendor, VENDORS)
        if gpu.total is not None:
            yield (*at, "total"), "is computed from the table; remove it"
        if gpu.form_of is not None and sizes.get(gpu.form_of) != gpu.memory_gib:
            yield (*at, "form_of"), f"{gpu.form_of!r} is not a GPU with {gpu.memory_gib:g} GiB"
        if gpu.memory_bandwidth_gb_s is not None and not 10 <= gpu.memory_bandwidth_gb_s <= 100_000:
            yield (*at, "memory_bandwidth_gb_s"), f"{gpu.memory_bandwidth_gb_s} is not a GPU bandwidth in GB/s"
        for place, line in enumerate(gpu.reported):
            if not 0.8 * gpu.memory_gib <= line.gib <= gpu.memory_gib:
                yield (*at, "reported", place), f"{line.gib} GiB does not fit a GPU of {gpu.memory_gib}"
        for place, smi_line in enumerate(gpu.nvidia_smi):
            if not 0.8 * gpu.memory_gib <= smi_line.mib / 1024 <= 1.1 * gpu.memory_gib:
                yield (
                    (*at, "nvidia_smi", place),
                    f"{smi_line.mib} MiB does not fit a GPU of {gpu.memory_gib} GiB",
                )
        for name in dict.fromkeys(map(specs.name_key, (gpu.name, *gpu.aliases))):
            if seen.setdefault(name, gpu.name) != gpu.name:
                yield (*at, "name"), f"{name!r} is a name of {seen[name]} as well"


def _totals(table: GpuTable) -> GpuTable:
    """Add to the table the memory that vLLM will find on each GPU.

    Printed lines of the GPU have priority; with fewer than three, the band is at least as wide as
    the widest scatter of any GPU's lines. Without lines, it follows from nvidia-smi's size, else
    from the nominal size, times the ratio on GPUs with both; it is at most the whole size, which
    drivers under Windows report. Ratios of NVIDIA GPUs are not used for other vendors, and
    lines of GPUs that share the host's memory are not used for other GPUs.
    """
    forms: dict[str, list[Gpu]] = {}
    for gpu in table.gpus:
        forms.setdefault(gpu.form_of or gpu.name, []).append(gpu)
    lines = {name: sorted(line.gib for gpu in same for line in gpu.reported) for name, same in forms.items()}
    smi_sizes = {name: [line.mib / 1024 for gpu in same for line in gpu.nvidia_smi] for name, same in forms.items()}
    boxes = {name: same[0].memory_gib for name, same in forms.items()}
    own = {name: seen for name, seen in lines.items() if not specs.shares_memory(forms[name][0].version)}
    scatter = max((abs(line / median(seen) - 1) for seen in own.values() for line in seen), default=0)
    of_shown = sorted(
        line / median(smi_sizes[name]) for name, seen in lines.items() if smi_sizes[name] for line in seen
    )
    of_boxes = sorted(
        line / boxes[name] for name, seen in own.items() if forms[name][0].vendor == "nvidia" for line in seen
    )

    def total(gpu: Gpu) -> Total | None:
        name = gpu.form_of or gpu.name
        if seen := lines[name]:
            middle, margin = median_high(seen), 0 if len(seen) >= ENOUGH_LINES else scatter
            span = f"{seen[0]:g} GiB" if seen[0] == seen[-1] else f"{seen[0]:g} to {seen[-1]:g} GiB"
            source = f"printed lines of {name} ({len(seen)}): {span}"
            if margin:
                source += f", and the widest spread of one GPU's lines, {scatter:.1%}"
            high = min(max(seen[-1], middle * (1 + margin)), gpu.memory_gib)
            return Total(min(seen[0], middle * (1 - margin)), middle, high, source)
        for size, parts, of in (
            (median(smi_sizes[name]) if smi_sizes[name] else None, of_shown, "reported by nvidia-smi"),
            (gpu.memory_gib, of_boxes, "on the data sheet"),
        ):
            if size is not None and parts and gpu.vendor == "nvidia":
                share = f"{parts[0]:.1%} to {parts[-1]:.1%}"
                source = f"measured on other GPUs: {share} of the size {of}, here {size:g} GiB; at most all of it"
                return Total(size * parts[0], size * median(parts), size, source)
        return None

    return replace(table, gpus=tuple(replace(gpu, total=total(gpu)) for gpu in table.gpus))


def _like(file: ModelFile, path: Path) -> Path:
    """File of the model whose configuration a model has."""
    return path.parents[1] / f"{file.like}.yaml"


def _over(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A configuration with other values for some of its fields, also in its parts."""
    both = {key for key, value in changes.items() if isinstance(value, dict) and isinstance(base.get(key), dict)}
    return {**base, **changes, **{key: _over(base[key], changes[key]) for key in both}}


def _model_problems(file: ModelFile, path: Path) -> Iterator[Problem]:
    expected = f"{path.parent.name}/{path.stem}"
    if file.id != expected:
        yield ("id",), f"is {file.id!r}; the file's place says {expected!r}"
    if not file.source:
        yield ("source",), "is empty; add a source"
    if file.like:
        if not _like(file, path).is_file() or "\nlike:" in _like(file, path).read_text(encoding="utf-8"):
            yield ("like",), f"{file.like!r} is not a model of the catalog with its own configuration"
    elif specs.model_from_config(file.config).architecture is None:
        yield ("config", "architectures"), "names no class"


def _default_problems(table: DefaultReviews, release_names: options.Names) -> Iterator[Problem]:
    """Problems of the reviews; names are looked up if the catalog has data of releases."""
    kinds = (
        ("options", table.options, release_names.arguments),
        ("environment", table.environment, release_names.variables),
    )
    for kind, reviews, names in kinds:
        for name, review in reviews.items():
            at = (kind, name)
            if names and name not in names:
                yield at, f"{name!r} is in no release"
            written = [review.former.option] if review.former is not None and review.former.option else []
            for field, others in (("only_with", review.only_with), ("former", written)):
                for other in others:
                    if release_names.arguments and other not in release_names.arguments:
                        yield (*at, field), f"{other!r} is in no release"
            if not _SOURCE.fullmatch(review.source):
                yield (*at, "source"), "is not written as `vllm 0.18.1 config/load.py:57`"
            if review.matters is Matter.UNKNOWN:
                yield (*at, "matters"), "marks it as unchecked; remove the row"
            if not review.why:
                yield (*at, "why"), "is empty; describe the change"


def read_spec(path: Path, where: str, kind: str) -> Any:
    """Read a file of specifications as a kind of ADAPTERS; CatalogError names every problem, one a line."""

    def problems_of(value: Any) -> Iterable[Problem]:
        if isinstance(value, GpuTable):
            return _gpu_problems(value)
        if isinstance(value, DefaultReviews):
            return _default_problems(value, options.names(path.parent / "releases"))
        if isinstance(value, ModelFile):
            return _model_problems(value, path)
        return ()

    read = read_record(path, where, ADAPTERS[kind], problems_of)
    if isinstance(read, ModelFile) and read.like:
        other = read_spec(_like(read, path), where, kind)
        config = _over(other.config, read.config)
        return replace(read, config=config, is_partial=read.is_partial or other.is_partial)
    return read


def kind_of(path: Path) -> str | None:
    """Kind of specification of a file, by its folder and name; None if it is not one."""
    if path.absolute().parents[1].name == "models":
        return "model"
    return path.stem if path.stem in ADAPTERS and path.absolute().parent.name != "symptoms" else None


def compile_specs(root: Path) -> tuple[dict[str, Any], list[str]]:
    """Compile a catalog folder's specifications; returns the index of valid ones and problems."""
    problems: list[str] = []
    index: dict[str, Any] = {
        "gpus": {"sources": {}, "gpus": []},
        "architectures": {},
        "fits": {"tool_parsers": {}, "reasoning_parsers": {}, "chat_templates": {}},
        "defaults": {"options": {}, "environment": {}},
        "models": {},
    }
    for path in filter(Path.is_file, specs.sources(root)):
        where = str(path.relative_to(root))
        try:
            read = read_spec(path, where, path.stem if path.parent == root else "model")
            if isinstance(read, ModelFile):
                index["models"][read.id] = json.dumps(asdict(read), ensure_ascii=False, separators=(",", ":"))
            else:
                index[path.stem] = document(_totals(read) if isinstance(read, GpuTable) else read)
        except CatalogError as error:
            problems += str(error).splitlines()
    return {"key": specs.key(root), **index}, problems
