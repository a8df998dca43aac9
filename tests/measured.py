"""Starts that printed their memory (`measured_starts.yaml`), planned: by how much the planner is off.

    python tests/measured.py          prints the tables
    python tests/measured.py --docs   writes them into docs/planning.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from vllm_runbooks import specs
from vllm_runbooks.authoring import spec_files
from vllm_runbooks.planning.budget import Budget, Device, Subject, budget, subject
from vllm_runbooks.planning.kv_cache import KvPool
from vllm_runbooks.planning.settings import Settings, settle
from vllm_runbooks.planning.terms import GIB, Band

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "planning.md"
_BEGIN, _END = "<!-- tables: written by tests/measured.py --docs -->", "<!-- end of tables -->"
_STEPS = (0.005, 0.01, 0.02, 0.05)


@cache
def catalog() -> specs.Specs:
    """Models and cards."""
    return specs.load(spec_files.compile_specs)


@cache
def model(name: str) -> Subject:
    """A model of the catalog."""
    file = catalog().file(name)
    return subject(file.id, file.config, is_partial=file.is_partial, source=file.source)


def device(name: str, *, total_gib: float | None = None, fabric: str | None = None, node: str | None = None) -> Device:
    """A card of the catalog, with the memory that was printed where it is given."""
    gpu = catalog().gpu(name)
    total = None
    if total_gib is not None:
        total = Band(*(int(total_gib * GIB),) * 3)
    elif gpu.total is not None:
        total = Band(*(int(side * GIB) for side in (gpu.total.low, gpu.total.expected, gpu.total.high)))
    return Device(gpu.name, total, "", node, gpu.version, fabric or gpu.interconnect, gpu.memory_bandwidth_gb_s)


def settled(
    of: Subject,
    release: str,
    options: Mapping[str, Any],
    card: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    context: str = "serve",
) -> Settings:
    """A start's settings, on a card of the catalog or on one that is not known."""
    told: dict[str, Any] = {}
    if card is not None:
        gpu = catalog().gpu(card)
        told = {"gpu_name": (gpu.aliases or (gpu.name,))[0], "memory_gib": gpu.memory_gib, "capability": gpu.version}
    return settle(
        of.shape, options, release, environment=environment, config=of.config, context=context, **told
    )


@dataclass(frozen=True)
class Start:
    """One start, as `measured_starts.yaml` has it."""

    id: str
    model: str
    release: str
    options: Mapping[str, Any]
    printed: Mapping[str, float]
    source: str
    card: str | None = None
    total_gib: float | None = None
    fabric: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    context: str = "serve"
    called: str | None = None
    note: str | None = None
    skip: Sequence[str] = ()

    @cached_property
    def subject(self) -> Subject:
        """Its model."""
        file = catalog().file(self.model)
        return subject(file.id, {**file.config, **self.config}, is_partial=file.is_partial, source=file.source)

    @cached_property
    def budget(self) -> Budget:
        """What the planner says of it, from what was given alone."""
        settings = settled(
            self.subject, self.release, self.options, self.card, environment=self.environment, context=self.context
        )
        cards = settings.ranks.tensor * settings.ranks.pipeline
        one = (
            Device("a card that is not named", None)
            if self.card is None
            else device(self.card, total_gib=self.total_gib, fabric=self.fabric)
        )
        return budget(self.subject, settings, [one] * cards)

    @property
    def weights(self) -> Band | None:
        """On the fullest card."""
        bands = [term.band for rank in self.budget.ranks for term in rank.terms if term.name == "weights"]
        known = [band for band in bands if band is not None]
        return max(known, key=lambda band: band.expected) if len(known) == len(bands) else None

    @property
    def pool(self) -> KvPool | None:
        """Its cache."""
        return self.budget.pool

    @property
    def blocks(self) -> int | None:
        """Blocks that the printed memory holds, or that are printed where it is not."""
        if self.pool is None:
            return None
        if "kv_gib" in self.printed:
            return self.pool.blocks([int(self.printed["kv_gib"] * GIB)] * len(self.pool.stages))
        if "blocks" in self.printed:
            return int(self.printed["blocks"])
        if "tokens" not in self.printed:
            return None
        many = 10**6
        return round(self.printed["tokens"] / self.pool.tokens(many) * many)


@cache
def starts() -> tuple[Start, ...]:
    """All of them."""
    told = YAML(typ="safe", pure=True).load((HERE / "measured_starts.yaml").read_text(encoding="utf-8"))
    texts = told["texts"]

    def made(row: Mapping[str, Any]) -> Start:
        named = {key: texts.get(row[key], row[key]) for key in ("source", "note") if key in row}
        return Start(**{("called" if key == "as" else key): value for key, value in {**row, **named}.items()})

    return tuple(map(made, told["starts"]))
