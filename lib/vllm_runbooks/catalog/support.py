"""Features of a release of vLLM: parsers, quantisations, cache types, attention backends, models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from vllm_runbooks.catalog import folders, options
from vllm_runbooks.catalog.languages import listed
from vllm_runbooks.core.errors import InputError

_MLA = "MLA"
_SPARSE = "MLA_SPARSE"
_OTHER_DEVICES = ("ROCM", "XPU", "CPU", "TPU", "HPU", "PALLAS", "IPEX", "ZENTORCH", "OPENVINO")
"""Parts of backend names that do not run on NVIDIA GPUs."""
_NAMED = {
    "tool_call_parser": "tool_parsers", "reasoning_parser": "reasoning_parsers", "quantization": "quantizations",
    "attention_backend": "backends", "kv_cache_dtype": "cache_types",
}  # fmt: skip
"""Tables with the names of an option; other options' names are in "registered"."""


@dataclass(frozen=True)
class Backend:
    """An attention backend."""

    capabilities: frozenset[tuple[int, int]] | None
    """Supported compute capabilities among those tested; None if the sources do not decide it."""
    cache_types: frozenset[str] | None
    """Supported KV cache types; None if unknown."""
    decides: tuple[str, ...] = ()
    """Prefixes of the cache types that it supports on some GPUs only."""
    fp8_from: tuple[int, int] | None = None
    """Compute capability below which it rejects the FP8 types that it decides."""

    def takes(self, cache_type: str, capability: tuple[int, int]) -> bool | None:
        """Whether it supports a KV-cache type on a GPU; None if its sources do not decide it."""
        if self.capabilities is not None and capability not in self.capabilities:
            return False
        if any(cache_type.startswith(beginning) for beginning in self.decides):
            refused = cache_type.startswith("fp8") and self.fp8_from is not None and capability < self.fp8_from
            return False if refused else None
        return None if self.cache_types is None or self.capabilities is None else cache_type in self.cache_types


@dataclass(frozen=True)
class Support:
    """Features of a release. An empty table means that the release does not have the feature."""

    version: str
    """The release that the data is of."""
    tool_parsers: frozenset[str]
    reasoning_parsers: frozenset[str]
    quantizations: Mapping[str, int | None]
    """Least compute capability by method, such as 75; None if the sources do not decide it."""
    cache_types: frozenset[str]
    backends: Mapping[str, Backend | None]
    modalities: Mapping[str, Mapping[str, bool] | None]
    """Inputs other than text by architecture: always (True) or by checkpoint (False)."""
    processor_reads: Mapping[str, frozenset[str]]
    """By architecture the processor arguments that vLLM's own code reads."""
    facts: Mapping[str, Any]
    activations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Compute dtypes by quantisation method, for methods whose sources list them."""

    def cache_takers(self, cache_type: str, capability: tuple[int, int]) -> tuple[str, ...] | None:
        """Backends for NVIDIA GPUs, without MLA, that support a KV-cache type there; None if unknown."""
        judged = {
            name: backend.takes(cache_type, capability)
            for name, backend in self.backends.items()
            if backend is not None and _MLA not in name and not any(word in name for word in _OTHER_DEVICES)
        }
        return tuple(sorted(name for name, takes in judged.items() if takes)) if judged else None

    def activation_types(self, method: str) -> frozenset[str] | None:
        """Compute dtypes of all methods that may load a method's checkpoints; None if the sources do not list them."""
        kind = _checkpoint(method)
        is_begin = kind == "modelopt"  # its algorithm chooses the method
        names = [
            name for name in self.quantizations if _checkpoint(name) == kind or (is_begin and name.startswith(kind))
        ]
        listed = [self.activations.get(name) for name in names]
        return frozenset().union(*filter(None, listed)) if listed and all(listed) else None

    @property
    def sparse_capabilities(self) -> frozenset[tuple[int, int]]:
        """Compute capabilities of NVIDIA GPUs that a backend for sparse attention takes; empty if unknown."""
        known = (
            backend.capabilities
            for name, backend in self.backends.items()
            if _SPARSE in name and backend is not None and not any(word in name for word in _OTHER_DEVICES)
        )
        return frozenset().union(*(each for each in known if each is not None))

    def is_refused_on_rocm(
        self, *, method: str | None = None, backend: str | None = None, is_final: bool = False
    ) -> bool:
        """Whether a launch on AMD GPUs rejects a quantization method or an attention backend that it knows.

        vLLM replaces a kernel's name by that of its checkpoints, such as `gptq_marlin` by `auto_gptq`, and ModelOpt's
        by that of its algorithm, such as `modelopt` by `modelopt_fp4`: unless it `is_final`, only a release that
        accepts none of them is known to reject it.
        """
        accepted = self.facts.get("rocm_quantizations")
        if method is not None and method in self.quantizations and accepted is not None:
            if method == "modelopt" and not is_final:
                return not any(name.startswith(method) for name in accepted)
            return _checkpoint(method) not in map(_checkpoint, accepted)
        return backend in self.facts.get("rocm_refused_backends", ())


def _checkpoint(method: str) -> str:
    """The kind of checkpoint that a quantization method loads, whatever its kernel."""
    return method.removesuffix("_marlin").removeprefix("auto_")


def _at(runs: list[list[Any]], position: int) -> list[Any] | None:
    """Value of a fact in a release: None if it has none, else [] or [value]."""
    return next((run[2:] for run in runs if run[0] <= position <= run[1]), None)


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def _backend(value: Any) -> Backend | None:
    if not isinstance(value, Mapping):
        return None
    capabilities, types, least = (value.get(name) for name in ("capabilities", "cache_types", "fp8_from"))
    return Backend(
        None if capabilities is None else frozenset(_capability(text) for text in capabilities),
        None if types is None else frozenset(types),
        tuple(value.get("decides", ())),
        None if least is None else _capability(least),
    )


@cache
def _document() -> dict[str, Any]:
    path = folders.catalog_dir() / "releases" / "support.json"
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(f"{path}: cannot be read; reinstall the package") from None
    return data


def releases_of(architecture: str) -> tuple[str, ...]:
    """Releases in the catalog that support a model architecture, oldest first."""
    document = _document()
    return tuple(
        release
        for position, release in enumerate(document["releases"])
        if _at(document["modalities"].get(architecture, []), position) is not None
    )


def names(option: str, version: str) -> frozenset[str]:
    """Names that a release looks up for an option or a key, such as `kv_transfer_config.kv_connector`; maybe none."""
    document = _document()
    position = document["releases"].index(options.nearest(version).version)
    return frozenset(name for name, runs in _runs(option).items() if _at(runs, position) is not None)


def releases_with(option: str, name: str) -> str:
    """Releases in the catalog that know a name of an option, such as `0.9.2 to 0.12.0`; empty if none does."""
    releases = _document()["releases"]
    ranges: list[list[int]] = []
    for first, last, *_ in _runs(option).get(name, ()):
        if ranges and ranges[-1][1] == first - 1:
            ranges[-1][1] = last
        else:
            ranges.append([first, last])
    texts = [" to ".join(dict.fromkeys((releases[first], releases[last]))) for first, last in ranges]
    return listed(texts) if texts else ""


@cache
def _runs(option: str) -> Mapping[str, list[list[Any]]]:
    document = _document()
    if option in _NAMED:
        table: dict[str, list[list[Any]]] = document[_NAMED[option]]
        return table
    keys = (key.partition(" ") for key in document["registered"])
    return {name: document["registered"][f"{option} {name}"] for owner, _, name in keys if owner == option}


def respelt(architecture: str) -> str | None:
    """The supported architecture that differs from this name by its case only."""
    names: dict[str, Any] = _document()["modalities"]
    alike = [name for name in names if name.lower() == architecture.lower()]
    if not alike or architecture in alike:
        return None
    return max(alike, key=lambda name: sum(a == b for a, b in zip(name, architecture, strict=False)))


@cache
def load(version: str) -> Support:
    """Features of a release, or of the nearest known one; raises InputError if it is no version."""
    document = _document()
    nearest = options.nearest(version).version
    if nearest not in document["releases"]:
        raise InputError(f"{nearest}: support.json has no data of this release; reinstall the package")
    position = document["releases"].index(nearest)

    def table(name: str) -> dict[str, Any]:
        at = {key: _at(runs, position) for key, runs in document[name].items()}
        return {key: value[0] if value else None for key, value in at.items() if value is not None}

    return Support(
        version=nearest,
        tool_parsers=frozenset(table("tool_parsers")),
        reasoning_parsers=frozenset(table("reasoning_parsers")),
        quantizations=table("quantizations"),
        cache_types=frozenset(table("cache_types")),
        backends={name: _backend(value) for name, value in table("backends").items()},
        modalities=table("modalities"),
        processor_reads={name: frozenset(names or ()) for name, names in table("processor_reads").items()},
        facts=table("facts"),
        activations={name: tuple(types or ()) for name, types in table("activations").items()},
    )
