"""Errors of the planner for launches with printed memory (`measured_starts.yaml`).

python tests/measured.py           prints the tables
python tests/measured.py --docs    writes them into docs/planning.md
python tests/measured.py --bands   writes catalog/tables/band_widths.yaml and measured_gpus.yaml
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import accumulate
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

from ruamel.yaml import YAML

from pages import write_between
from vllm_runbooks.catalog import specs
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.catalog.eras import Key
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan import costs
from vllm_runbooks.plan.budget import Budget, PlannedModel, budget, subject, subject_by_name
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.kv_cache import KvPool
from vllm_runbooks.plan.settings import LaunchSettings, settle
from vllm_runbooks.plan.terms import GIB, Band

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "planning.md"
_BEGIN, _END = "<!-- tables: written by tests/measured.py --docs -->", "<!-- end of tables -->"
_STEPS = (0.005, 0.01, 0.02, 0.05)


@cache
def catalog() -> specs.Specs:
    """Models and GPUs."""
    return specs.load(spec_files.compile_specs)


@cache
def model(name: str) -> PlannedModel:
    """A model of the catalog."""
    file = catalog().file(name)
    return subject(file.id, file.config, is_partial=file.is_partial, source=file.source)


def device(name: str, *, total_gib: float | None = None, fabric: str | None = None, node: str | None = None) -> Device:
    """A GPU of the catalog, with the printed memory if given."""
    gpu = catalog().gpu(name)
    total = None
    if total_gib is not None:
        total = Band(*(int(total_gib * GIB),) * 3)
    elif gpu.total is not None:
        total = Band(*(int(side * GIB) for side in (gpu.total.low, gpu.total.expected, gpu.total.high)))
    fabric = fabric or gpu.interconnect
    return Device(gpu.name, total, "", node, gpu.version, fabric, gpu.memory_bandwidth_gb_s, gpu.vendor)


def settled(
    of: PlannedModel,
    release: str,
    options: Mapping[str, Any],
    card: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    context: str = "serve",
) -> LaunchSettings:
    """A launch's settings, on a GPU of the catalog or on an unknown one."""
    told: dict[str, Any] = {}
    if card is not None:
        gpu = catalog().gpu(card)
        told = {"gpu_name": (gpu.aliases or (gpu.name,))[0], "memory_gib": gpu.memory_gib, "capability": gpu.version}
        told["vendor"] = gpu.vendor
    return settle(of.shape, options, release, environment=environment, config=of.config, context=context, **told)


@dataclass(frozen=True)
class Start:
    """One launch of `measured_starts.yaml`."""

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

    @property
    def origin(self) -> str:
        """What it has in common with its siblings: the repository, case or report."""
        return self.id if self.source.startswith("the line of worker.py") else self.source.partition(",")[0]

    @property
    def kind(self) -> str:
        """Its row of `band_widths`."""
        made = self.budget
        return costs.launch_kind(made.settings, made.ranks[0].device.capability, has_encoder=made.encoder is not None)

    @cached_property
    def subject(self) -> PlannedModel:
        """Its model."""
        named = subject_by_name(self.model, catalog())
        if named is None:
            raise InputError(f"{self.model}: unknown model")
        if not self.config:
            return named
        config = {**named.config, **self.config}
        return subject(named.name, config, is_partial=named.is_partial, source=named.source)

    @property
    def is_planned(self) -> bool:
        """Whether its model and GPU are known, and the memory that its KV cache gets."""
        try:
            return self.cache is not None
        except InputError:
            return False

    @cached_property
    def budget(self) -> Budget:
        """The planned budget, from given facts only."""
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
        """On the GPU with the most."""
        bands = [term.band for rank in self.budget.ranks for term in rank.terms if term.name == "weights"]
        known = [band for band in bands if band is not None]
        return max(known, key=lambda band: band.expected) if len(known) == len(bands) else None

    @property
    def cache(self) -> Band | None:
        """The remaining memory for the cache on the smallest GPU."""
        found = self.budget.available
        return None if found is None else Band(*(min(side) for side in found))

    @property
    def cards(self) -> int:
        """Of the replica."""
        return len(self.budget.ranks)

    @property
    def is_recorded(self) -> bool:
        """Whether its log is a case of the catalog."""
        return self.source.startswith("catalog/cases/")

    @property
    def is_amd(self) -> bool:
        """Whether its GPU is AMD's."""
        return "AMD card" in (self.note or "")

    @property
    def counted(self) -> str:
        """The printed figure that the blocks are counted from."""
        return next((figure for figure in ("kv_gib", "blocks", "tokens") if figure in self.printed), "")

    @property
    def pool(self) -> KvPool | None:
        """Its cache."""
        return self.budget.pool

    @property
    def blocks(self) -> int | None:
        """Blocks of the printed memory, or printed ones if it is missing."""
        if self.pool is None or not self.counted:
            return None
        if self.counted == "kv_gib":
            return self.pool.blocks([int(self.printed["kv_gib"] * GIB)] * len(self.pool.stages))
        if self.counted == "blocks":
            return int(self.printed["blocks"])
        many = 10**6
        return round(self.printed["tokens"] / self.pool.tokens(many) * many)


@cache
def starts(file: str = "measured_starts.yaml") -> tuple[Start, ...]:
    """All of them; those of `unseen_starts.yaml` decided nothing in the planner."""
    told = YAML(typ="safe", pure=True).load((HERE / file).read_text(encoding="utf-8"))
    texts = told["texts"]

    def made(row: Mapping[str, Any]) -> Start:
        named = {key: texts.get(row[key], row[key]) for key in ("source", "note") if key in row}
        return Start(**{("called" if key == "as" else key): value for key, value in {**row, **named}.items()})

    return tuple(map(made, told["starts"]))


# ---- by how much the planner is off


class Off(NamedTuple):
    """A printed figure and the planned one."""

    start: Start
    figure: str
    printed: float
    planned: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """As a share of the printed figure."""
        return self.planned / self.printed - 1

    @property
    def total(self) -> float:
        """GiB of the GPU."""
        device = self.start.budget.ranks[0].device
        return device.total.expected / GIB if device.total is not None else 0.0

    def short(self, shift: float) -> float:
        """Share of the GPU's memory that the low end, lower by `shift`, exceeds the printed figure."""
        return max(0.0, self.low - shift - self.printed) / self.total

    def widened(self, row: costs.BandWidth) -> Off:
        """The same with the memory of a kind of launch."""
        low = self.low - row.shift_gib - row.margin * self.total
        return self._replace(planned=self.planned - row.shift_gib, low=low)

    @property
    def holds(self) -> bool:
        """Whether the printed figure is between low and high, including its rounding."""
        decimals = len(f"{self.printed:g}".partition(".")[2])
        half = 0.5 * 10.0**-decimals
        return self.low - half <= self.printed <= self.high + half


def offs(start: Start, figure: str, band: Band | None) -> Iterator[Off]:
    """The printed figure of a launch, if it has one that counts, and the planned one."""
    if figure in start.printed and figure not in start.skip and band is not None:
        low, expected, high = (side / GIB for side in band)
        yield Off(start, figure, start.printed[figure], expected, low, high)


def weights(*, is_amd: bool = False) -> list[Off]:
    """The printed "Model loading took", planned from the configuration; on AMD's GPUs or on all others."""
    chosen = [start for start in starts() if start.is_amd == is_amd]
    return [off for start in chosen for off in offs(start, "weights_gib", start.weights)]


def caches() -> list[Off]:
    """Cache memory from the configuration and the GPU's total, printed or of the catalog."""
    return [off for start in starts() for off in offs(start, "kv_gib", start.cache)]


def counts() -> list[Off]:
    """Tokens, blocks and requests of the printed memory, or requests of the printed tokens."""
    found = []
    for start in starts():
        if start.pool is None or start.blocks is None:
            continue
        told = {
            "tokens": start.pool.tokens(start.blocks),
            "concurrency": start.pool.concurrency(start.blocks),
            "blocks": start.blocks,
        }
        for figure, planned in told.items():
            if figure in start.printed and figure != start.counted:
                found.append(Off(start, figure, start.printed[figure], planned, planned, planned))
    return found


# ---- the width of bands


_COVERAGE = 0.9
_FEW, _MANY = 3, 10


@cache
def raw_caches() -> tuple[Off, ...]:
    """The KV caches as the terms alone have them, without `band_widths`."""
    plain = costs.BandWidth(source="")
    with patch.object(costs, "band_width", return_value=plain):
        return tuple(off for start in map(_with_total, starts()) for off in offs(start, "kv_gib", start.cache))


def _with_total(start: Start) -> Start:
    """A copy of a launch; on a GPU that shares the host's memory, with one total, as a host knows it."""
    gpu = None if start.card is None else catalog().gpu(start.card)
    if start.total_gib is not None or gpu is None or gpu.total is None or not specs.shares_memory(gpu.version):
        return replace(start)
    return replace(start, total_gib=gpu.total.expected)


def widths(offs: Iterable[Off]) -> dict[str, costs.BandWidth]:
    """The rows of `band_widths` from these launches.

    The margin covers nine in ten launches, with the same weight for each source. Fewer than ten sources cannot show
    that, so it is increased: by a third for three sources, by a ninth for nine. A kind with fewer than three sources is
    as uncertain as the least certain other kind.
    """
    by_kind: dict[str, dict[str, list[Off]]] = {kind: {} for kind in costs.LAUNCH_KINDS}
    for off in offs:
        by_kind[off.start.kind].setdefault(off.start.origin, []).append(off)
    rows = {kind: _width(kind, list(sources.values())) for kind, sources in by_kind.items()}
    most = max(row.margin for kind, row in rows.items() if len(by_kind[kind]) >= _FEW)
    return {
        kind: row if len(by_kind[kind]) >= _FEW else replace(row, margin=max(row.margin, most))
        for kind, row in rows.items()
    }


def _width(kind: str, sources: Sequence[Sequence[Off]]) -> costs.BandWidth:
    count, launches = len(sources), sum(map(len, sources))
    if not count:
        return costs.BandWidth(source="not measured")
    shift = 0.0
    if kind == "shared-memory":
        # It is the operating system's memory, which no rule of a release derives.
        shift = round(max(0.0, median(median(off.planned - off.printed for off in each) for each in sources)), 2)
    errors = sorted((off.short(shift), 1 / len(each) / count) for each in sources for off in each)
    reached = list(accumulate(weight for _, weight in errors))
    margin = errors[bisect_left(reached, _COVERAGE)][0] * (1 + 1 / count if count < _MANY else 1)
    text = f"{launches} launches of {count} sources" if launches > 1 else "one launch"
    return costs.BandWidth(shift_gib=shift, margin=ceil(margin * 1000) / 1000, source=text)


def left_out() -> list[Off]:
    """Each cache with the band that the launches of all other sources give."""
    rows = {
        origin: widths(off for off in raw_caches() if off.start.origin != origin)
        for origin in {off.start.origin for off in raw_caches()}
    }
    return [off.widened(rows[off.start.origin][off.start.kind]) for off in raw_caches()]


def write_bands() -> None:
    """Write the tables `band_widths` and `measured_gpus`."""
    rows = {
        kind: f"  shift_gib: {row.shift_gib:g}\n  margin: {row.margin:g}\n  source: {row.source}\n"
        for kind, row in widths(raw_caches()).items()
    }
    gpus = {name: f"  launches: {count}\n" for name, count in measured_gpus().items()}
    for table, texts in (("band_widths", rows), ("measured_gpus", gpus)):
        path = HERE.parent / "catalog" / "tables" / f"{table}.yaml"
        head = "# Written by python tests/measured.py --bands from the launches in tests/measured_starts.yaml.\n\n"
        path.write_text(head + "".join(f"{key}:\n{text}" for key, text in texts.items()), encoding="utf-8")


def measured_gpus() -> Mapping[str, int]:
    """Number of launches on each GPU of the catalog, by name."""
    names = [catalog().gpu(start.card).name for start in starts() if start.card is not None]
    return {name: names.count(name) for name in sorted(set(names))}


# ---- tables


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *lines))


def _percent(share: float) -> str:
    return f"{100 * share + 0.0:+.2f}%".replace("-0.00", "+0.00")


def _row(name: str, offs: Sequence[Off]) -> list[str]:
    far = max(offs, key=lambda off: abs(off.error))
    within = [str(sum(abs(off.error) <= step for off in offs)) for step in _STEPS]
    middle = median(abs(off.error) for off in offs)
    return [name, str(len(offs)), *within, f"{100 * middle:.2f}%", f"{_percent(far.error)} ({far.start.id})"]


def _summary() -> str:
    rows = [
        _row("weights per GPU, GiB", weights()),
        _row("weights per GPU on AMD, GiB", weights(is_amd=True)),
        _row("KV cache per GPU, GiB", caches()),
    ]
    names = {
        "tokens": "tokens for the printed memory",
        "blocks": "blocks for the printed memory",
        "concurrency": "requests for the printed memory",
    }
    rows += [_row(name, [off for off in counts() if off.figure == figure]) for figure, name in names.items()]
    return _table(["", "launches", *(f"within {100 * step:g}%" for step in _STEPS), "median", "worst"], rows)


class _Era(NamedTuple):
    name: str
    is_v0: bool
    since: Key
    until: Key

    def cell(self, offs: Sequence[Off]) -> str:
        """How many figures are of it, and the furthest off."""
        told = [(off.error, off.start.budget.settings) for off in offs]
        errors = [error for error, each in told if each.is_v0 == self.is_v0 and self.since <= each.key < self.until]
        return f"{len(errors)}, {_percent(max(errors, key=abs))}" if errors else "none"


_ERAS = (
    _Era("V0 engine, up to 0.8", True, (), (1,)),
    _Era("V1 engine, 0.8 to 0.16", False, (), (0, 17)),
    _Era("0.17 to 0.20", False, (0, 17), (0, 21)),
    _Era("0.21 and later", False, (0, 21), (1,)),
)


def _eras() -> str:
    kinds = {"weights": weights(), "cache": caches(), "tokens, blocks, requests": counts()}
    return _table(["vLLM", *kinds], [[era.name, *map(era.cell, kinds.values())] for era in _ERAS])


def _unknown() -> str:
    """Models of the catalog with an unknown term."""
    whole = [name for name in catalog().texts if not catalog().file(name).is_partial]
    card = device("H100-80GB")
    why: dict[str, set[str]] = {}
    for name in whole:
        told = settled(model(name), "0.33.0", {}, "H100-80GB")
        found = budget(model(name), told, [card])
        if any(term.band is None for term in found.ranks[0].terms) or found.is_open:
            architecture = model(name).shape.architecture or "an architecture that is not named"
            why.setdefault(f"`{architecture}`", set()).add(name)
    many = sum(map(len, why.values()))
    return (
        f"`plan` calculates every term of memory for {len(whole) - many} of the {len(whole)} models with a complete"
        " configuration in the catalog (vLLM 0.33.0). The others have one of these architectures:"
        f" {', '.join(sorted(why))}."
    )


def _called(start: Start) -> str:
    return start.model if start.called is None else f"{start.called}, as {start.model}"


def _caches() -> str:
    lines = [
        [
            off.start.id,
            off.start.release,
            "1" if off.start.cards == 1 else f"{off.start.cards} x",
            f"{off.printed:.2f}",
            f"{off.planned:.2f}",
            f"{off.low:.2f} to {off.high:.2f}",
            _percent(off.error),
        ]
        for off in caches()
    ]
    return _table(["start", "vLLM", "cards", "printed", "planned", "from low to high", "off"], lines)


def _sources() -> str:
    lines = [
        [
            start.id,
            _called(start),
            start.release,
            start.card or "not known",
            "-" if start.total_gib is None else f"{start.total_gib:.2f}",
            start.note or "",
            f"<{start.source}>" if start.source.startswith("https:") else start.source,
        ]
        for start in starts()
    ]
    return _table(["start", "model", "vLLM", "card", "GiB printed", "what is assumed", "source"], lines)


def summary() -> str:
    """The generated part of the page."""
    inside, apart = (sum(off.holds for off in each) for each in (caches(), left_out()))
    bands = (
        f"Of {len(caches())} KV cache sizes that vLLM printed, {inside} are between the plan's low and high estimates."
        f" With ranges derived only from launches of other sources, {apart} are ({apart / len(caches()):.0%})."
    )
    eras = "Number of figures compared, and the largest error:"
    return f"{_summary()}\n\n{bands}\n\n{eras}\n\n{_eras()}\n\n{_unknown()}"


def main() -> None:
    """Print all tables, or write the summary into the page."""
    if sys.argv[1:] == ["--bands"]:
        write_bands()
    elif sys.argv[1:] == ["--docs"]:
        write_between(PAGE, _BEGIN, _END, summary())
    else:
        sys.stdout.write(f"{summary()}\n\n{_caches()}\n\n{_sources()}\n")


if __name__ == "__main__":
    main()
