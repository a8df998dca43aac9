"""Inverse queries: longest context, highest concurrency, fewest GPUs, lowest utilization; remedies.

Every answer is found by planning the budget, so it is valid for the launch it names. Each answer
has three values: conservative (fits by all bands), expected, and best case (may still fit).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor
from typing import Any, NamedTuple

from vllm_runbooks.catalog import support
from vllm_runbooks.catalog.specs import CPU_SPACE
from vllm_runbooks.plan import costs
from vllm_runbooks.plan.budget import Budget, Calibrate, PlannedModel, budget
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.layouts import Make as MakeSplit
from vllm_runbooks.plan.layouts import candidates, illegal
from vllm_runbooks.plan.refusals import refusals
from vllm_runbooks.plan.settings import LONG_CONTEXT, LaunchSettings
from vllm_runbooks.plan.terms import GIB, NOTHING, Band
from vllm_runbooks.plan.weights import Ranks

Make = Callable[[Mapping[str, Any]], LaunchSettings]
"""Settings of the launch with options added or changed, by argparse destination; None removes
one."""

_LOW, _EXPECTED, _HIGH = range(3)
_STEP = 0.01
_MIN_UTILIZATION = 0.02
_ANY_LENGTH = 2**20
"""Upper limit in tokens of the context search if the model's own limit is unknown."""
ROUND_LENGTH = 256
"""A shortened context is a multiple of this."""
UNKNOWN_CONTEXT = "the model's own longest context is unknown: this is the limit by memory"


@dataclass(frozen=True)
class SearchResult:
    """A number in its conservative, expected and best case; None if unknown or nonexistent."""

    low: float | None
    """Conservative value: the launch is certain to succeed with it."""
    expected: float | None
    high: float | None
    """By the best case: with more than this it cannot succeed."""
    reasons: tuple[str, ...] = ()
    budget: Budget | None = None
    sure: Budget | None = None
    """Budget of the launch with the conservative answer, for a search of GPUs."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A launch with variable options, on the GPUs of one replica."""

    model: PlannedModel
    make: Make
    devices: Sequence[Device]
    environment: Mapping[str, str] | None = None
    calibrate: Calibrate | None = None

    @cached_property
    def known(self) -> dict[tuple[tuple[str, str], ...], Budget]:
        """Budgets by changed options."""
        return {}

    def of(self, changes: Mapping[str, Any]) -> Budget:
        """The budget with options changed."""
        key = tuple(sorted((name, repr(value)) for name, value in changes.items()))
        if key not in self.known:
            self.known[key] = self.judged(self.make(changes))
        return self.known[key]

    def judged(self, settings: LaunchSettings) -> Budget:
        """The budget of settings."""
        ranks = settings.ranks
        devices = self.devices[: ranks.cards]
        return budget(self.model, settings, devices, environment=self.environment, calibrate=self.calibrate)

    def succeeds(self, made: Budget, side: int) -> bool:
        """Whether a launch succeeds in the given case."""
        if made.fits is not False:
            return bool(made.fits) or (side != _LOW and not made.is_open)
        if side != _HIGH or made.available is None or made.pool is None:
            return False
        return made.pool.fits(made.available[_HIGH]) and not self._is_refused_otherwise(made)

    def _is_refused_otherwise(self, made: Budget) -> bool:
        if made.available is not None and made.pool is not None and made.pool.fits(made.available[_EXPECTED]):
            return True
        # With a fixed cache size, only loading, profiling and the rest of the GPU are checked.
        most = max(1, min(made.available[_HIGH])) if made.available is not None else 1
        cache = replace(made.settings.cache, size=most)
        return self.judged(replace(made.settings, cache=cache)).fits is False


# ---- context


def longest_context(start: Trial) -> SearchResult:
    """Longest `max_model_len` that fits, at most the model's own limit.

    The batch, the graphs and the encoder's profile may follow from the length, so each length is
    budgeted anew.
    """
    whole = start.of({"max_model_len": None})
    known = whole.settings.scheduler.max_model_len
    limit = known or _ANY_LENGTH
    if not known:
        whole = start.of({"max_model_len": limit})
    if whole.is_open:
        return SearchResult(None, None, None, whole.limits)
    lengths = [_longest(start, limit, side) for side in range(3)]
    low, expected, high = (length or None for length in lengths)
    made = start.of({"max_model_len": expected}) if expected else whole
    if expected is None:
        return SearchResult(low, expected, high, whole.limits, made)
    beyond = () if expected < limit else (f"the model supports at most {limit:,} tokens",)
    if not known:
        beyond = (UNKNOWN_CONTEXT,)
    why = start.of({"max_model_len": expected + 1}).limits[:1] if expected < limit else ()
    careful = () if low == expected else (_careful(low, "tokens"),)
    return SearchResult(low, expected, high, (*beyond, *why, *careful), made)


def _careful(low: float | None, unit: str) -> str:
    if low is None:
        return "conservative estimate: none fits"
    return f"conservative estimate: {low:,.6g} {unit}" if low < 10 else f"conservative estimate: {low:,.0f} {unit}"


def _longest(start: Trial, limit: int, side: int) -> int:
    """Longest context in one case; 0 if none fits.

    Lengths are halved from the longest down, because a longer one may reduce the batch. Between the
    first that succeeds and the one before it, the batch of either determines the limit.
    """
    probes = sorted({limit, *(LONG_CONTEXT + over for over in (0, 1)), *(2**power for power in range(4, 24))})
    above = limit + 1
    for probe in reversed([length for length in probes if length <= limit]):
        if start.succeeds(start.of({"max_model_len": probe}), side):
            return _between(start, probe, above, side)
        above = probe
    return 0


def _between(start: Trial, low: int, above: int, side: int) -> int:
    made = start.of({"max_model_len": low})
    if made.pool is not None and made.available is not None and above > low + 1:
        reach = made.pool.longest_context(made.available[side], above - 1)
        for guess in (reach, reach + 1):
            if low < guess < above:
                if start.succeeds(start.of({"max_model_len": guess}), side):
                    low = guess
                else:
                    above = guess
    while above - low > 1:
        middle = (low + above) // 2
        if start.succeeds(start.of({"max_model_len": middle}), side):
            low = middle
        else:
            above = middle
    return low


# ---- requests


def highest_concurrency(start: Trial, context: int | None = None) -> SearchResult:
    """Concurrent requests of `context` tokens, with `max_model_len` set to it; by default of the launch's context.

    With `--max-model-len auto`, each case has the longest context that fits by it.
    """
    made = start.of({} if context is None else {"max_model_len": context})
    if made.blocks is None or made.pool is None:
        reasons = made.limits if made.is_open else ("the model has no KV cache: only max_num_seqs limits it",)
        return SearchResult(None, None, None, reasons, made)
    pool = made.pool
    is_fitted = made.settings.scheduler.is_length_fitted
    lengths = made.longest if is_fitted and made.longest is not None else (context, context, context)
    low, expected, high = (
        pool.concurrency(blocks, length) if start.succeeds(made, side) else 0.0
        for side, (blocks, length) in enumerate(zip(made.blocks, lengths, strict=True))
    )
    notes = list(made.limits)
    limit = made.settings.scheduler.sequences
    if limit and expected > limit:
        notes.append(f"max_num_seqs allows {limit:,} of them to run concurrently")
    return SearchResult(low, expected, high, tuple(notes), made)


# ---- utilization


def lowest_utilization(start: Trial) -> SearchResult:
    """Lowest `gpu_memory_utilization` that fits, in hundredths; the conservative one is higher."""
    most = start.of({"gpu_memory_utilization": _safe(start)})
    if most.is_open:
        return SearchResult(None, None, None, most.limits, most)
    low, expected, high = (_least_share(start, side, _MIN_UTILIZATION) for side in range(3))
    if expected is None:
        return SearchResult(low, expected, high, most.limits, most)
    below = start.of({"gpu_memory_utilization": round(expected - _STEP, 2)}).limits[:1]
    careful = () if low == expected else (_careful(low, ""),)
    made = start.of({"gpu_memory_utilization": expected})
    return SearchResult(low, expected, high, tuple(reason.strip() for reason in (*below, *careful)), made)


def _safe(start: Trial) -> float:
    shares = []
    for device in start.devices:
        if device.total is not None:
            context = (costs.context(device.total.expected).band or NOTHING).expected
            shares.append((device.total.expected - context) / device.total.expected)
    return floor(min(shares, default=0.95) / _STEP) * _STEP


def _least_share(start: Trial, side: int, least: float) -> float | None:
    """The lowest share, in hundredths, that succeeds by a side: room for the cache grows with it."""
    low, high = round(least / _STEP), round(_safe(start) / _STEP)

    def works(hundredths: int) -> bool:
        return start.succeeds(start.of({"gpu_memory_utilization": hundredths / 100}), side)

    # The highest value may exceed the free memory or leave too little for graphs: try lower ones.
    top = next((share for share in range(high, max(low, high - 10), -1) if works(share)), None)
    if top is None:
        return None
    high = top
    while low < high:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle + 1
    return high / 100


# ---- GPUs


def _always(settings: LaunchSettings) -> Make:
    return lambda _: settings


HOST_CARDS = 8
"""Assumed number of GPUs per host: nearly all GPU servers have eight."""
MOST_CARDS = 8 * HOST_CARDS
"""GPUs of the largest replica that is searched."""
MORE_GPUS = f"more than {MOST_CARDS} GPUs"


def on_hosts(count: int) -> tuple[str | None, ...]:
    """Host of each GPU; unnamed if one host is enough."""
    return tuple(None if count <= HOST_CARDS else f"host{place // HOST_CARDS}" for place in range(count))


def fewest_cards(
    model: PlannedModel,
    make: MakeSplit,
    device: Device,
    *,
    most: int = MOST_CARDS,
    like: Ranks | None = None,
    environment: Mapping[str, str] | None = None,
    calibrate: Calibrate | None = None,
) -> SearchResult:
    """The fewest GPUs of one kind for a replica, in any supported split; whole hosts beyond one.

    `like` has the sizes that are not searched; more than `most` GPUs are not tried.
    """
    fitting: dict[int, tuple[int, Budget]] = {}
    reasons: dict[str, None] = {}
    is_unknown = False
    made: Budget | None = None
    like = like or Ranks()
    if refused := refusals(model.shape, make(like, device), [device]):
        return SearchResult(None, None, None, refused)
    for count in (*range(1, min(most, HOST_CARDS) + 1), *range(2 * HOST_CARDS, most + 1, HOST_CARDS)):
        devices = [replace(device, node=node) for node in on_hosts(count)]
        whole = (split for split in candidates(count, like.prefill) if split.each == count and split.data == 1)
        # Prefer pipeline stages for the network between hosts.
        for split in sorted(whole, key=lambda split: split.tensor * split.prefill > HOST_CARDS):
            if split.pipeline > model.shape.layers:
                continue
            ranks = replace(like, tensor=split.tensor, pipeline=split.pipeline, data=1)
            settings = make(ranks, device)
            if refused := illegal(model, settings.ranks, settings.key, encoder_off=settings.media.language_only):
                reasons[f"{_split_name(settings.ranks)}: {refused[0]}"] = None
                continue
            start = Trial(model, _always(settings), devices, environment, calibrate)
            made = start.of({})
            is_unknown = is_unknown or made.is_open
            for side in range(3):
                if side not in fitting and start.succeeds(made, side):
                    fitting[side] = count, made
        if len(fitting) == 3 or is_unknown:
            break
        if count == 1 and made is not None:
            reasons.update(dict.fromkeys(notes for notes in made.limits[:1]))
    if is_unknown and made is not None:
        return SearchResult(None, None, None, made.limits, made)
    low, expected, high = (fitting[side][0] if side in fitting else None for side in range(3))
    if expected is None:
        return SearchResult(low, expected, high, (f"more than {most} GPUs", *_few(reasons)))
    chosen, sure = fitting[_EXPECTED][1], fitting[_LOW][1] if _LOW in fitting else None
    notes = [_placed_name((sure or chosen).settings.ranks)]
    if low is None:
        notes.append(_careful(None, "cards"))
    elif low != expected:
        notes.append(f"expected to be enough, not certain: {expected} GPUs, {_placed_name(chosen.settings.ranks)}")
    return SearchResult(low, expected, high, (*notes, *_few(reasons)), chosen, sure)


_MOST_REASONS = 3


def _few(reasons: Iterable[str]) -> tuple[str, ...]:
    sentences = tuple(reasons)
    more = len(sentences) - _MOST_REASONS
    return sentences if more <= 0 else (*sentences[:_MOST_REASONS], f"{more} more reasons against other layouts")


def _split_name(ranks: Ranks) -> str:
    return f"TP {ranks.tensor} PP {ranks.pipeline}" + (f" PCP {ranks.prefill}" if ranks.prefill > 1 else "")


def _placed_name(ranks: Ranks) -> str:
    if ranks.cards == 1:
        return "one GPU is enough"
    hosts = ranks.cards // HOST_CARDS
    return _split_name(ranks) + (
        f", on {hosts} hosts of {HOST_CARDS} GPUs (beyond one host only whole hosts are tried)" if hosts > 1 else ""
    )


@dataclass(frozen=True)
class Smallest:
    """The smallest GPU, by the three sides as in `SearchResult`."""

    low: Device | None
    expected: Device | None
    high: Device | None
    reasons: tuple[str, ...] = ()


def smallest_card(
    model: PlannedModel,
    make: MakeSplit,
    devices: Sequence[Device],
    *,
    environment: Mapping[str, str] | None = None,
    calibrate: Calibrate | None = None,
) -> Smallest:
    """First of several GPUs, the smallest first, that fits the model alone."""
    fitting: dict[int, Device] = {}
    last: Budget | None = None
    unknown: list[str] = []
    for device in devices:
        settings = make(Ranks(), device)
        start = Trial(model, _always(settings), [device], environment, calibrate)
        made = start.of({})
        if made.is_open:
            unknown.append(device.name)
            continue
        for side in range(3):
            if side not in fitting and start.succeeds(made, side):
                fitting[side] = device
        if _EXPECTED not in fitting:
            last = made
        if len(fitting) == 3:
            break
    low, expected, high = (fitting.get(side) for side in range(3))
    reasons = []
    if last and last.limits:
        name = last.ranks[0].device.name
        reasons.append(f"{name} is too small ({last.limits[0].replace(f' on {name}', '')})")
    if unknown:
        reasons.append(f"unknown: {', '.join(unknown)}")
    return Smallest(low, expected, high, tuple(reasons))


# ---- remedies


@dataclass(frozen=True)
class WayOut:
    """Changed options with which a launch that does not fit does."""

    changes: Mapping[str, Any]
    """By argparse destination; upper-case names are environment variables."""
    fits: bool | None
    """True if it fits by all bands; None if it fits by the expected values."""
    margin: Band | None
    """Bytes on the smallest GPU beyond one request of the longest length; the low value is
    conservative."""
    costs: tuple[str, ...]
    """Cost of each change for the user."""
    price: int
    budget: Budget


def margin(made: Budget) -> Band | None:
    """Free bytes on the smallest GPU after one request of the longest length; None if unknown."""
    if made.pool is None or made.available is None:
        return None
    aside = made.pool.bytes_per_block if made.pool.rules.sets_aside else (0,) * len(made.pool.bytes_per_block)
    needs = [need + more for need, more in zip(made.pool.needed_bytes(), aside, strict=True)]
    low, expected, high = (min(have - need for have, need in zip(side, needs, strict=True)) for side in made.available)
    return Band(low, expected, high)


_CHANGED = ("utilization", "video", "batch", "requests", "eager", "cache", "context", "image", "cards")
_PRICES = {name: price for price, name in enumerate(_CHANGED)}
"""Order of remedies: first those without any effect on clients."""


class _Change(NamedTuple):
    changes: Mapping[str, Any]
    cost: str
    price: int


@dataclass(frozen=True, eq=False)
class _Out:
    start: Trial
    options: Mapping[str, Any]

    @cached_property
    def now(self) -> Budget:
        return self.start.of({})

    def with_change(self, change: _Change) -> _Out:
        make = self.start.make
        start = replace(self.start, make=lambda more: make({**change.changes, **more}))
        return _Out(start, {**self.options, **change.changes})

    def found(self) -> Iterator[WayOut]:
        makers = (self._utilization, self._size, self._batch, self._requests, self._context)
        for change in self.fixed():
            if (way := self._tried(change)) is not None:
                yield way
        for maker in makers:
            if (way := maker()) is not None:
                yield way

    def _tried(self, change: _Change) -> WayOut | None:
        made = self.start.of(change.changes)
        if not self.start.succeeds(made, _EXPECTED):
            return None
        return WayOut(change.changes, made.fits, margin(made), (change.cost,), change.price, made)

    def _first(self, changes: Iterable[_Change]) -> WayOut | None:
        perhaps = None
        for change in changes:
            way = self._tried(change)
            if way is not None and way.fits:
                return way
            perhaps = perhaps or way
        return perhaps

    # -- changes of one form

    def fixed(self) -> tuple[_Change, ...]:
        makers = (self._modality, self._eager, self._cache, self._cards, self._on_cpu)
        return tuple(change for maker in makers if (change := maker()) is not None)

    def _modality(self) -> _Change | None:
        profiled = self.now.encoder
        if profiled is None or profiled.is_essential:
            return None
        # Users without videos lose nothing; without images the model is a different one.
        price = _PRICES["video"] if profiled.modality == "video" else _PRICES["image"]
        limits_option = self.options.get("limit_mm_per_prompt")
        limits = {**(limits_option if isinstance(limits_option, Mapping) else {}), profiled.modality: 0}
        return _Change({"limit_mm_per_prompt": limits}, f"{profiled.modality}s are rejected", price)

    def _eager(self) -> _Change | None:
        takes = any(
            term.name.startswith("cuda_graphs") and (term.band or NOTHING).high > 0
            for rank in self.now.ranks
            for term in (*rank.terms, rank.captured)
        )
        if self.now.settings.graphs.is_eager or not takes:
            return None
        return _Change({"enforce_eager": True}, "slower decoding without CUDA graphs", _PRICES["eager"])

    def _cache(self) -> _Change | None:
        if self.now.settings.cache.dtype != "auto" or not _takes_fp8(self.now.settings.version, self.start.devices):
            return None
        cost = "slightly less accurate: 8-bit KV cache"
        return _Change({"kv_cache_dtype": "fp8"}, cost, _PRICES["cache"])

    def _cards(self) -> _Change | None:
        ranks = self.now.settings.ranks
        size = ranks.tensor * 2
        split = replace(ranks, tensor=size)
        need = split.cards
        if len(self.start.devices) < need or illegal(self.start.model, split, self.now.settings.key):
            return None
        cost = f"{need} GPUs instead of {need // 2}, with traffic between them in every layer"
        return _Change({"tensor_parallel_size": size}, cost, _PRICES["cards"])

    def _on_cpu(self) -> _Change | None:
        """On a host without GPUs the KV cache, or the share, that leaves enough for the system and fits its limit."""
        settings, rank = self.now.settings, self.now.ranks[0]
        device, size = rank.device, settings.cache.size
        if not device.is_cpu or device.total is None or rank.requested is None:
            return None
        cost, price = "fewer concurrent requests", _PRICES["requests"]
        free = device.within(device.total).expected - costs.HOST_USE.expected
        if size is None and rank.requested.expected <= device.within(device.total).expected:
            share = floor(free / device.total.expected / _STEP) * _STEP
            change = {"gpu_memory_utilization": round(share, 2)}
            return _Change(change, cost, price) if 0 < share < settings.utilization else None
        gib = (free - sum((term.band or NOTHING).expected for term in rank.terms)) // GIB
        return _Change(self._sized(gib), cost, price) if gib > 0 and (size is None or gib * GIB < size) else None

    def _sized(self, gib: int) -> Mapping[str, Any]:
        """The change that gives the KV cache this size."""
        is_set = "kv_cache_memory_bytes" in self.options and CPU_SPACE not in (self.start.environment or {})
        is_variable = self.now.ranks[0].device.is_cpu and not is_set
        return {CPU_SPACE: str(gib)} if is_variable else {"kv_cache_memory_bytes": gib * GIB}

    # ---- changes with a searched value

    def _utilization(self) -> WayOut | None:
        settings = self.now.settings
        if settings.cache.size is not None:
            return None
        least = settings.utilization + _STEP
        shares = (_least_share(self.start, side, least) for side in (_LOW, _EXPECTED))
        cost = "less memory for other programs on the GPU"
        return self._first(
            _Change({"gpu_memory_utilization": share}, cost, _PRICES["utilization"])
            for share in shares
            if share is not None
        )

    def _size(self) -> WayOut | None:
        """A given size of the KV cache, in whole GiB: enough for one request, else the largest that fits."""
        size, pool = self.now.settings.cache.size, self.now.pool
        if size is None or pool is None:
            return None

        def change(gib: int, cost: str, price: str) -> _Change:
            return _Change(self._sized(gib), cost, _PRICES[price])

        low, high = ceil(max(pool.needed_bytes()) / GIB), size // GIB
        if high < low:
            cost = "less memory for other programs on the GPU"
            return self._first(change(gib, cost, "utilization") for gib in (low, low + 1))
        if self.now.ranks[0].device.is_cpu:
            return None
        cost = "fewer concurrent requests"
        while low < high:
            middle = (low + high + 1) // 2
            fits = self.start.of(change(middle, cost, "requests").changes).fits
            low, high = (middle, high) if fits else (low, middle - 1)
        return self._tried(change(low, cost, "requests"))

    def _batch(self) -> WayOut | None:
        settings = self.now.settings
        if not settings.scheduler.is_chunked:
            return None
        cost = "long prompts take more prefill steps"
        return self._first(
            _Change({"max_num_batched_tokens": size}, cost, _PRICES["batch"])
            for size in (8192, 4096, 2048, 1024, 512)
            if max(settings.scheduler.sequences, 1) <= size < settings.scheduler.batched_tokens
        )

    def _requests(self) -> WayOut | None:
        most = self.now.settings.scheduler.sequences
        return self._first(
            _Change({"max_num_seqs": size}, f"at most {size} requests run concurrently", _PRICES["requests"])
            for size in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1)
            if size < most
        )

    def _context(self) -> WayOut | None:
        settings = self.now.settings
        if not settings.scheduler.max_model_len or settings.scheduler.is_length_fitted:
            return None
        lengths = (_longest(self.start, settings.scheduler.max_model_len - 1, side) for side in (_LOW, _EXPECTED))
        rounded = (length // ROUND_LENGTH * ROUND_LENGTH or length for length in lengths if length)
        return self._first(
            _Change({"max_model_len": length}, "longer requests are rejected", _PRICES["context"]) for length in rounded
        )


_FP8_HARDWARE = (8, 9)
"""From this compute capability on a GPU computes in FP8."""


def _takes_fp8(version: str, devices: Sequence[Device]) -> bool:
    supported = support.load(version)
    return "fp8" in supported.cache_types and all(
        device.capability is not None
        and (device.capability >= _FP8_HARDWARE or bool(supported.cache_takers("fp8", device.capability)))
        for device in devices
    )


def ways_out(
    model: PlannedModel,
    make: Make,
    devices: Sequence[Device],
    options: Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    calibrate: Calibrate | None = None,
) -> tuple[WayOut, ...]:
    """The smallest single changes of options with which a failing launch fits, cheapest first.

    If no single change is enough, or only one that costs context, images or GPUs, pairs are added.
    For each option the smallest change is returned; a certain one precedes one that only fits by
    the expected values. A launch that fits has no changes. It runs on the first of the `devices`.
    """
    start = Trial(model, make, devices, environment, calibrate)
    now = start.of({})
    if now.fits or now.available is None or now.pool is None:
        return ()
    out = _Out(start, options)
    remedies = list(out.found())
    if all(way.price >= _PRICES["context"] for way in remedies):
        alone = [way.changes for way in remedies]
        remedies += [way for way in _pairs(out) if not any(_is_part(changes, way.changes) for changes in alone)]
    return tuple(sorted(remedies, key=lambda way: (way.fits is not True, way.price)))


def _is_part(some: Mapping[str, Any], more: Mapping[str, Any]) -> bool:
    return all(name in more and more[name] == value for name, value in some.items())


def _pairs(out: _Out) -> Iterator[WayOut]:
    seen: set[str] = set()
    for change in out.fixed():
        for way in out.with_change(change).found():
            changes = {**change.changes, **way.changes}
            if (name := repr(sorted(changes.items()))) not in seen:
                seen.add(name)
                costs = (change.cost, *way.costs)
                yield replace(way, changes=changes, costs=costs, price=way.price + change.price)
