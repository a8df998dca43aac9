"""Find and rank the parallel layouts of a model: number of replicas, and the split of each.

`ways` checks memory and the fabric between the GPUs, and ranks by `LayoutChoice.rank`. Costs of the
fabric are described in text, because they are not measured; the speed is an upper bound from
bandwidth.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from vllm_runbooks.catalog import options as releases
from vllm_runbooks.catalog import support
from vllm_runbooks.catalog.eras import Key
from vllm_runbooks.core.views.summary import concurrency_text
from vllm_runbooks.plan import executors
from vllm_runbooks.plan.budget import Budget, Calibrate, PlannedModel, budget
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.encoders import tower_of
from vllm_runbooks.plan.kv_cache import Kind, KvLayer
from vllm_runbooks.plan.network import Network, Traffic, traffic
from vllm_runbooks.plan.records import Speed
from vllm_runbooks.plan.settings import PARTITION, LaunchSettings, mismatch
from vllm_runbooks.plan.shape import Attention, Dense, Encoder, Experts, Format, Latent, Recurrent, Shape
from vllm_runbooks.plan.weights import VOCABULARY_PADDING, Ranks, load, round_up

Make = Callable[[Ranks, Device], LaunchSettings]
"""Settings of a launch with this split on GPUs of which this is the first."""

_FITS = {True: 0, None: 1, False: 2}
IDLE = "GPUs stay idle"
ROOM = "it fits "
"""Prefix of the reason that compares the concurrent requests of a layout with the first; `IDLE` is
the suffix of the reason with the number of unused GPUs."""
_WITHOUT_STAGES = frozenset(
    {
        "BertModel", "NomicBertModel", "XLMRobertaModel", "MllamaForConditionalGeneration",
        "WhisperForConditionalGeneration", "Zamba2ForCausalLM",
    }
)  # fmt: skip
"""Architectures whose class is not `SupportsPP` in any release (models/*.py of 31 releases, 0.6.6
to 0.33.0; config.py verify_with_parallel_config then rejects stages)."""
# ---- what there is to choose from


class CopySplit(NamedTuple):
    """A number of copies, each with its own server, and how one of them is split."""

    replicas: int
    tensor: int
    pipeline: int
    data: int
    prefill: int = 1

    @property
    def each(self) -> int:
        """GPUs of a copy."""
        return self.tensor * self.pipeline * self.data * self.prefill

    @property
    def cards(self) -> int:
        """GPUs of all."""
        return self.replicas * self.each


def candidates(cards: int, prefill: int = 1, largest: int | None = None) -> tuple[CopySplit, ...]:
    """Every split of at most `cards` GPUs with as many replicas as fit; full use comes first.

    A replica has at most `largest` GPUs, by default all. If it can have more than `_LARGEST`, the sizes are powers of
    two and divisors of the number of GPUs.
    """
    groups = cards // prefill
    most = groups if largest is None else min(groups, max(1, largest // prefill))
    sizes = [size for size in range(1, most + 1) if most <= _LARGEST or not size & (size - 1) or groups % size == 0]
    splits = [
        CopySplit(groups // (tensor * pipeline * data), tensor, pipeline, data, prefill)
        for tensor in sizes
        for pipeline in sizes[: bisect_right(sizes, most // tensor)]
        for data in sizes[: bisect_right(sizes, most // (tensor * pipeline))]
    ]
    return tuple(sorted(splits, key=lambda split: (-split.cards, split.each, split.pipeline, split.data)))


# ---- what a release rejects


def illegal(
    model: PlannedModel, ranks: Ranks, key: Key, devices: Sequence[Device] = (), *, encoder_off: bool = False
) -> tuple[str, ...]:
    """Reasons why a release rejects this split of a model, a sentence each.

    Unknown facts are not reasons. Without `devices` the number of GPUs is not checked; with
    `encoder_off` no encoder is loaded.
    """
    need = ranks.cards
    short = (f"needs {need} GPUs, {len(devices)} available",) if devices and len(devices) < need else ()
    return (*short, *_refusals(model, ranks, ".".join(map(str, key)), encoder_off))


@lru_cache(maxsize=4096)
def _refusals(model: PlannedModel, ranks: Ranks, version: str, encoder_off: bool) -> tuple[str, ...]:  # noqa: FBT001 - a key
    shape = model.shape
    refusals = [*_sizes(ranks, version), *_stages(shape, ranks)]
    if ranks.tensor > 1:
        refusals += _heads(shape, ranks.tensor)
        padded = round_up(shape.vocabulary_size, VOCABULARY_PADDING)
        if padded % ranks.tensor:
            refusals.append(f"the vocabulary's {padded:,} padded rows cannot be split over {ranks.tensor} ranks")
        if not encoder_off and not ranks.encoder_data:
            refusals += _encoder_heads(shape.encoders or (), ranks.tensor)
    refusals += _widths(shape, ranks, version)
    return tuple(dict.fromkeys(refusals))


@lru_cache(maxsize=256)
def _has_option(version: str, dest: str) -> bool:
    return dest in releases.load(version).by_dest


def _sizes(ranks: Ranks, version: str) -> Iterator[str]:
    if ranks.data > 1 and not _has_option(version, "data_parallel_size"):
        yield f"vLLM {version} has no --data-parallel-size"
    if ranks.splits_experts and not _has_option(version, "enable_expert_parallel"):
        yield f"vLLM {version} has no --enable-expert-parallel"


def _stages(shape: Shape, ranks: Ranks) -> Iterator[str]:
    if ranks.pipeline > 1 and shape.architecture in _WITHOUT_STAGES:
        yield f"{shape.architecture} does not support pipeline parallelism"
    if ranks.pipeline > shape.layers > 0:
        yield f"{ranks.pipeline} pipeline stages are more than the model's {shape.layers} layers"
    fault = mismatch(ranks, shape.layers)
    if fault is not None:
        yield fault
    if ranks.splits_experts and shape.kinds and not _experts(shape):
        yield "--enable-expert-parallel is rejected for a model without experts"


def _experts(shape: Shape) -> tuple[Experts, ...]:
    return tuple(layer.feed_forward for layer in shape.kinds if isinstance(layer.feed_forward, Experts))


def _heads(shape: Shape, size: int) -> Iterator[str]:
    """Heads of all kinds are divided: layers/linear.py QKVParallelLinear (0.7.2 :713, 0.33.0 :1065)."""
    for mixer in dict.fromkeys(mixer for layer in shape.kinds for mixer in layer.mixers):
        if isinstance(mixer, (Attention, Latent)) and mixer.heads % size:
            yield f"{mixer.heads} attention heads cannot be split over {size} ranks"
        if isinstance(mixer, Attention) and max(mixer.kv_heads, size) % min(mixer.kv_heads, size):
            yield f"{mixer.kv_heads} key-value heads can be neither split over {size} ranks nor repeated evenly"
        if isinstance(mixer, Recurrent):
            yield from _state_heads(mixer, size)


def _state_heads(mixer: Recurrent, size: int) -> Iterator[str]:
    """States are divided by head or width: layers/mamba/mamba_mixer2.py (0.16.0 :274), mamba_utils.py (0.16.0 :116)."""
    counted = {
        "mamba1": {"inner width": mixer.inner},
        "mamba2": {"heads": mixer.heads},
        "gdn": {"key heads": mixer.key_heads, "value heads": mixer.value_heads},
        "short_conv": {"width": mixer.inner},
    }
    for name, count in counted.get(mixer.kind, {"heads": mixer.heads}).items():
        if count % size:
            yield f"{count} {name} of the recurrent layers cannot be split over {size} ranks"
    # The norm of lightning attention: layers/mamba/linear/bailing_linear_attn.py (0.33.0 :448).
    has_groups = mixer.kind == "linear" or (mixer.kind == "mamba2" and mixer.groups > 1)
    if has_groups and mixer.groups % size:
        yield f"{mixer.groups} groups of the recurrent layers cannot be split over {size} ranks"


def _encoder_heads(encoders: Iterable[Encoder], size: int) -> Iterator[str]:
    for encoder in encoders:
        heads = encoder.sizes.get(tower_of(encoder).heads)
        if isinstance(heads, int) and heads % size:
            yield (
                f"{heads} heads of the encoder cannot be split over {size} ranks "
                "(--mm-encoder-tp-mode data keeps it whole, where the release and the model have it)"
            )


def _widths(shape: Shape, ranks: Ranks, version: str) -> Iterator[str]:
    """Check that the ranks divide feed-forward layers, and weights that share a scale.

    Experts are sharded over the ranks of all replicas in one server (fused_moe/config.py, 0.16.0
    :932) unless each rank has whole experts; every release asserts that (fused_moe/layer.py: 0.7.2
    :272, 0.22.1 :266; config.py: 0.33.0 :1352).
    """
    facts = support.load(version).facts
    for layer in shape.kinds:
        for network in (layer.feed_forward, layer.beside):
            if isinstance(network, Dense):
                yield from _cut(shape, network.size, ranks.tensor, bool(facts.get("cut_blocks_refused")), facts)
            elif isinstance(network, Experts):
                is_whole = ranks.splits_experts and ranks.data > 1
                if network.shared_size and not is_whole and not _is_left_out(shape, "shared"):
                    refuses = bool(facts.get("cut_blocks_refused"))
                    yield from _cut(
                        shape, network.shared_size, ranks.tensor, refuses, {}, of="the shared experts' width"
                    )
                if not ranks.splits_experts:
                    size = ranks.tensor * ranks.data
                    refuses = bool(facts.get("cut_blocks_of_experts_refused"))
                    yield from _cut(shape, network.size, size, refuses, {}, of="the experts' width")


def _cut(
    shape: Shape,
    width: int,
    size: int,
    blocks_refused: bool,  # noqa: FBT001 - a fact of the release
    facts: Mapping[str, Any],
    *,
    of: str = "the feed-forward width",
) -> Iterator[str]:
    if size < 2:
        return
    if width % size:
        yield f"{of} {width} cannot be split over {size} ranks"
        return
    form = _form(shape)
    method = shape.quantization.method if shape.quantization else ""
    group = 0
    if form is not None and method in ("awq", "gptq") and facts.get("cut_groups_refused"):
        group = form.group
    elif form is not None and method == "fp8" and blocks_refused:
        group = form.block[0]
    if group and width // size % group:
        yield f"{of} {width} over {size} ranks leaves {width // size}, which cuts {method}'s groups of {group} weights"


def _is_left_out(shape: Shape, word: str) -> bool:
    quantization = shape.quantization
    return quantization is not None and any(word in name for name in quantization.ignored)


def _form(shape: Shape) -> Format | None:
    formats = shape.quantization.formats if shape.quantization is not None else ()
    others = (form for names, form in formats if "Experts" not in names)
    return next(others, formats[0][1] if formats else None)


# ---- placement on GPUs


_Item = TypeVar("_Item")


def _grouped(
    items: Sequence[_Item], size: int, likeness: Sequence[Callable[[_Item], object]]
) -> list[tuple[_Item, ...]]:
    """Items in groups of a size, similar ones together if possible, in their order."""
    order = {id(item): place for place, item in enumerate(items)}
    left, groups = list(items), []
    for alike in likeness:
        buckets: dict[object, list[_Item]] = {}
        for item in left:
            buckets.setdefault(alike(item), []).append(item)
        left = []
        for bucket in buckets.values():
            whole = len(bucket) // size * size
            groups += [tuple(bucket[start : start + size]) for start in range(0, whole, size)]
            left += bucket[whole:]
        left.sort(key=lambda item: order[id(item)])
    return sorted(groups, key=lambda group: order[id(group[0])])


class _Slot(NamedTuple):
    place: int
    device: Device


def _kind(device: Device) -> tuple[object, ...]:
    return device.node, device.name, device.total


def placed(devices: Sequence[Device], split: CopySplit) -> tuple[tuple[int, ...], ...]:
    """GPUs of each replica, rank by rank, as indices into `devices`.

    The ranks of one tensor-parallel group are of one kind and on one host if there are enough such
    GPUs. The same applies to the groups of one replica.
    """
    if devices.count(devices[0]) == len(devices):
        return tuple(
            tuple(range(replica * split.each, (replica + 1) * split.each)) for replica in range(split.replicas)
        )
    slots = [_Slot(place, device) for place, device in enumerate(devices)]
    by_card: list[Callable[[_Slot], object]] = [
        lambda slot: _kind(slot.device),
        lambda slot: slot.device.node,
        lambda _: None,
    ]
    groups = _grouped(slots, split.tensor * split.prefill, by_card)
    by_group: list[Callable[[tuple[_Slot, ...]], object]] = [
        lambda group: tuple(dict.fromkeys(_kind(slot.device) for slot in group)),
        lambda group: tuple(dict.fromkeys(slot.device.node for slot in group)),
        lambda _: None,
    ]
    copies = _grouped(groups, split.pipeline * split.data, by_group)
    return tuple(tuple(slot.place for group in copy for slot in group) for copy in copies[: split.replicas])


# ---- the fabric


class _Fabric(NamedTuple):
    """Links between the GPUs of a replica."""

    slow: int
    """0: nothing that slows every token; 1: an all-reduce of more than two GPUs over PCIe; 2: one across hosts."""
    remarks: tuple[str, ...]


def _listed(words: Iterable[object]) -> str:
    return ", ".join(str(word) for word in dict.fromkeys(words))


def _fabric(model: PlannedModel, ranks: Ranks, devices: Sequence[Device], version: str) -> _Fabric:
    remarks: list[str] = []
    slow = 0
    shares = [("tensor parallel ranks", ranks.tensor, "every layer needs an all-reduce")] if ranks.tensor > 1 else []
    if ranks.data > 1 and _experts(model.shape):
        remarks.append("each rank has its own attention and KV cache; all ranks share the experts")
        shares.append(("expert parallel ranks", ranks.tensor * ranks.data, "every layer needs an all-to-all"))
    elif ranks.data > 1:
        remarks.append(
            f"{ranks.data} copies run behind one port; without experts they are the same as separate servers"
        )
    for what, size, exchanged in shares:
        slower, notes = _joined(what, size, exchanged, devices)
        slow = max(slow, slower)
        remarks += notes
    nodes = list(dict.fromkeys(device.node for device in devices))
    if ranks.pipeline > 1:
        if len(nodes) > 1:
            remarks.append(
                "pipeline stages exchange only hidden states between hosts, which is the usual choice over Ethernet"
            )
        else:
            enough = "" if devices[0].is_cpu else ", so PCIe is fast enough"
            remarks.append(
                f"pipeline stages exchange only hidden states{enough}; each request occupies one stage at a time"
            )
    if len(nodes) > 1:
        cards = [sum(device.node == node for device in devices) for node in nodes]
        joined = executors.joining(releases.load(version), cards, copies=ranks.data)
        how = "--nnodes, or Ray" if _has_option(version, "nnodes") else "a Ray cluster (this release has no --nnodes)"
        remarks.append(f"a server on {len(nodes)} hosts ({_listed(nodes)}) needs {how}")
        if joined.source:
            remarks.append(joined.said)
    if ranks.cards == 1:
        remarks.append("there is no traffic between GPUs")
    return _Fabric(slow, tuple(dict.fromkeys(remarks)))


def _joined(what: str, size: int, traffic: str, devices: Sequence[Device]) -> tuple[int, list[str]]:
    """Slowness of the traffic of groups of GPUs (as `_Fabric.slow`), and sentences on it."""
    slow = 0
    remarks: dict[str, None] = {}
    for start in range(0, len(devices), size):
        group = devices[start : start + size]
        joins = {device.interconnect for device in group}
        if len({device.node for device in group}) > 1:
            slow = 2
            remarks[f"{what} are on different hosts, and {traffic} over the network"] = None
        elif size > 2 and "pcie" in joins:
            slow = max(slow, 1)
            remarks[f"{traffic} over PCIe, which is slow for more than two GPUs"] = None
        elif size > 2 and "nvlink-bridge" in joins:
            slow = max(slow, 1)
            remarks[f"NVLink bridges connect pairs only: {traffic} over PCIe, which is slow for {size} GPUs"] = None
        elif "pcie" in joins:
            remarks[f"{traffic} over PCIe between two GPUs"] = None
        elif "nvlink-bridge" in joins:
            remarks[f"{traffic} between two GPUs, over NVLink if a bridge is installed, otherwise over PCIe"] = None
        elif group[0].is_cpu:
            remarks[traffic] = None
        elif None in joins:
            remarks[f"{traffic}; the interconnect is unknown, and PCIe is slow for more than two GPUs"] = None
        if len({(device.name, device.total) for device in group}) > 1:
            remarks[f"{_listed(device.name for device in group)} are in one group, limited by the smallest GPU"] = None
    return slow, list(remarks)


# ---- speed


_NOT_READ = frozenset({"embedding", "vision", "audio", "mtp", "rotary", "allocator", "buffers"})
"""Components of the weights of which a decoded token reads nothing, or one row."""


def _kv_read(stage: Mapping[KvLayer, int], context: int, topk: int | None) -> int:
    total = 0
    for layer, count in stage.items():
        if layer.kind is Kind.STATE:
            total += layer.state_bytes * count
            continue
        tokens = min(context, layer.window or context, layer.chunk or context)
        if topk is not None and layer.kind is Kind.LATENT:
            tokens = min(tokens, topk)
        total += layer.content_bytes // layer.block_tokens * tokens * count
    return total


def speed(model: PlannedModel, made: Budget, context: int, between: Traffic | None = None) -> Speed | None:
    """Bound from reading each active weight and the cache of a context once per token.

    `between` is the measured traffic between the hosts of a replica. None if unknown.
    """
    settings, ranks = made.settings, made.settings.ranks
    width = ranks.tensor * ranks.prefill
    devices = [rank.device for rank in made.ranks[: width * ranks.pipeline]]
    if made.pool is None or settings.speculation.tokens or any(not device.bandwidth_gb_s for device in devices):
        return None
    loaded = load(
        model.stock,
        ranks,
        release=settings.key,
        dtype=settings.dtype,
        quantization=settings.quantization,
        capability=devices[0].capability,
        tokens=settings.scheduler.batched_tokens,
        encoder_off=True,
        with_head=not settings.is_pooling,
    )
    if loaded is None:
        return None
    experts = _experts(model.shape)
    active = max((network.per_token / network.count for network in experts), default=1.0)
    seconds = 0.0
    for stage, weights in enumerate(loaded):
        read = sum(
            size * (active if name == "experts" else 1.0)
            for name, size in weights.components.items()
            if name not in _NOT_READ
        )
        if stage == ranks.pipeline - 1 and not model.stock.head and not settings.is_pooling:
            read += weights.components.get("embedding", 0)
        read += _kv_read(made.pool.stages[stage], context, model.shape.index_topk)
        cards = devices[stage * width : (stage + 1) * width]
        seconds += max(read / ((device.bandwidth_gb_s or 0.0) * 1e9) for device in cards)
    if not seconds:
        return None
    seconds += between.token_s if between is not None else 0.0
    parts = ["the weights" if not experts else "the weights (only the active experts)"]
    parts.append(f"the KV cache of {context:,} tokens")
    left_out = "traffic between GPUs, " if len(devices) > 1 and between is None else ""
    basis = (
        f"{' and '.join(parts)} are read once per token at "
        f"{_listed(f'{device.bandwidth_gb_s:g}' for device in devices)} GB/s"
        f"{', one stage after the other' if ranks.pipeline > 1 else ''}"
        f"{f', and {between.token_s * 1e3:.2g} ms of network latency' if between is not None else ''}; compute, "
        f"kernel launches, {left_out}and sampling are not included"
    )
    return Speed(1 / seconds, basis)


# ---- the ways


_FULL = 0.7
"""Share of a GPU's memory for weights, above which a layout of unknown fit is more likely to fail; a choice."""


@dataclass(frozen=True, eq=False)
class LayoutChoice:
    """One way to use the GPUs."""

    replicas: int
    """Copies of the model, each with its own server."""
    ranks: Ranks
    devices: tuple[Device, ...]
    """GPUs of one replica, rank by rank: of the smallest replica if they differ."""
    places: tuple[tuple[int, ...], ...]
    """GPUs of every replica, as indices into the given ones."""
    why_not: tuple[str, ...] = ()
    budget: Budget | None = None
    """Budget of that replica; None if the layout is invalid."""
    reasons: tuple[str, ...] = ()
    """Arguments for and against the layout, a sentence each."""
    speed: Speed | None = None
    concurrency_total: float | None = None
    """Expected number of requests of the given context in the caches of all replicas; None if
    unknown."""
    useful: float = 0.0
    """`concurrency_total`, limited to `max_num_seqs` per server."""
    serves: bool | None = None
    slow: int = 0
    """The fabric under it; see `_Fabric`."""
    idle: int = 0
    context: int = 0
    """Tokens of the requests that are counted; 0 if unknown."""
    is_twin: bool = False
    """Whether the layout uses data parallelism without an advantage over separate servers."""

    @property
    def legal(self) -> bool:
        """Whether the release accepts the layout, as far as is known."""
        return not self.why_not

    @property
    def fits(self) -> bool | None:
        """Whether every replica has enough memory."""
        return self.budget.fits if self.budget is not None else False

    @property
    def fullness(self) -> float:
        """Share of a GPU by which the weights exceed `_FULL`, if it is unknown whether the layout fits; else 0."""
        if self.budget is None or self.fits is not None:
            return 0.0
        weights = [
            term.band.expected / rank.device.physical
            for rank in self.budget.ranks
            for term in rank.terms
            if term.name == "weights" and term.band is not None and rank.device.physical
        ]
        return round(max([share - _FULL for share in weights if share > _FULL], default=0.0), 1)

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables that the launch needs in addition to its options."""
        parts = self.ranks.partition
        return {} if parts is None else {PARTITION: ",".join(map(str, parts))}

    @cached_property
    def rank(self) -> tuple[float, ...]:
        """Sort key of the layouts, best first.

        The criteria in order: valid; certain to fit, may fit, does not fit; serves the context;
        uses all GPUs; simplest way to the same result; no traffic that slows every token; more memory
        beside the weights if it is unknown what fits; fewer pipeline stages, which a request passes
        one after another; more concurrent requests, limited by `max_num_seqs`; smaller groups.
        """
        return (
            0 if self.legal else 1,
            _FITS[self.fits],
            _FITS[self.serves],
            self.idle,
            self.is_twin,
            self.slow,
            self.fullness,
            self.ranks.pipeline,
            -round(self.useful, 2),
            self.ranks.tensor,
            self.ranks.data,
            -self.replicas,
        )

    @property
    def name(self) -> str:
        """Description of the layout."""
        ranks = self.ranks
        sizes = (("TP", ranks.tensor), ("PP", ranks.pipeline), ("PCP", ranks.prefill), ("DP", ranks.data))
        split = " ".join(f"{name} {size}" for name, size in sizes if size > 1) or "1 GPU"
        return f"{self.replicas} x {split}"


@dataclass(frozen=True, eq=False)
class _LayoutPlanner:
    model: PlannedModel
    make: Make
    devices: tuple[Device, ...]
    context: int | None
    like: Ranks
    environment: Mapping[str, str] | None
    calibrate: Calibrate | None
    network: Network

    @cached_property
    def kinds(self) -> list[int]:
        """For each GPU, the index of the first that is equal."""
        firsts: dict[Device, int] = {}
        return [firsts.setdefault(device, place) for place, device in enumerate(self.devices)]

    def way(self, split: CopySplit, among: Sequence[int] = ()) -> LayoutChoice:
        """Check one split, on the GPUs at the indices `among` if given."""
        ranks = replace(self.like, tensor=split.tensor, pipeline=split.pipeline, data=split.data)
        places = placed([self.devices[place] for place in among] or self.devices, split)
        if among:
            places = tuple(tuple(among[place] for place in copy) for copy in places)
        kind_of = self.kinds.__getitem__  # thousands of GPUs for each of dozens of splits
        counts: dict[tuple[Device, ...], int] = {
            tuple(self.devices[kind] for kind in kinds): count
            for kinds, count in Counter(tuple(map(kind_of, copy)) for copy in places).items()
        }
        first = next(iter(counts))
        settings = self.make(ranks, first[0])
        idle = len(self.devices) - split.cards
        refused = illegal(self.model, ranks, settings.key, encoder_off=settings.media.loads_no_encoder)
        if refused:
            return LayoutChoice(split.replicas, ranks, first, places, refused, idle=idle)
        stage = partial(staged, self.model, self.make, environment=self.environment, calibrate=self.calibrate)
        budgets = {copy: stage(ranks, copy) for copy in counts}
        worst = max(budgets, key=lambda copy: _poverty(budgets[copy]))
        made = budgets[worst]
        context = self.context or made.settings.scheduler.max_model_len
        fabrics = [_fabric(self.model, ranks, copy, settings.version) for copy in budgets]
        served = {copy: self._served(copy_budget, context) for copy, copy_budget in budgets.items()}
        total = [size * ranks.data * counts[copy] for copy, (size, _) in served.items() if size is not None]
        between = {copy: self._between(copy_budget, copy) for copy, copy_budget in budgets.items()}
        names = _listed(self.devices[place].name for place in among)
        alone = (f"only on {names}: a separate server",) if among else ()
        remarks = (remark for fabric in fabrics for remark in fabric.remarks)
        costs = (sent.remark for sent in between.values() if sent is not None)
        reasons = dict.fromkeys((*alone, *remarks, *costs))
        return LayoutChoice(
            split.replicas,
            made.settings.ranks,
            worst,
            places,
            (),
            made,
            tuple(self._also(made, budgets, reasons, idle)),
            speed(self.model, made, context, between[worst]) if context else None,
            sum(total) if len(total) == len(served) else None,
            sum(useful * counts[copy] for copy, (_, useful) in served.items()) * ranks.data,
            _serves(made, context),
            max(fabric.slow for fabric in fabrics),
            idle,
            context,
            is_twin=split.data > 1 and not _experts(self.model.shape),
        )

    def _between(self, made: Budget, copy: Sequence[Device]) -> Traffic | None:
        size = 4 if made.settings.dtype == "float32" else 2
        nodes = [device.node for device in copy]
        return traffic(self.model.shape, made.settings.ranks, nodes, self.network, size) if self.network else None

    def _served(self, made: Budget, context: int) -> tuple[float | None, float]:
        if made.pool is None or made.blocks is None or not context:
            return None, 0.0
        if made.fits is False:
            return 0.0, 0.0
        size = made.pool.concurrency(made.blocks.expected, context)
        return size, min(size, float(made.settings.scheduler.sequences or size))

    def _also(
        self, made: Budget, budgets: Mapping[tuple[Device, ...], Budget], reasons: Iterable[str], idle: int
    ) -> Iterator[str]:
        if made.fits is not True:
            yield from made.limits[:1]
        yield from reasons
        parts = made.settings.ranks.partition
        if parts is not None and self.like.partition is None:
            yield uneven(parts)
        if len({tuple(replace(device, node=None) for device in copy) for copy in budgets}) > 1:
            yield "the copies are on different GPUs; the figures are of the slowest copy"
        yield from _repeated(self.model.shape, made.settings.ranks.tensor)
        if idle:
            yield f"{idle} of {len(self.devices)} {IDLE}"


def staged(
    model: PlannedModel,
    make: Make,
    ranks: Ranks,
    copy: Sequence[Device],
    *,
    environment: Mapping[str, str] | None = None,
    calibrate: Calibrate | None = None,
) -> Budget:
    """Budget of one replica; unequal GPUs get the best split unless `ranks` sets it."""
    settings = make(ranks, copy[0])
    if ranks.partition is not None:
        settings = replace(settings, ranks=replace(settings.ranks, partition=ranks.partition))
    best = budget(model, settings, copy, environment=environment, calibrate=calibrate)
    room = _room(ranks, copy)
    if ranks.partition is not None or len(set(room)) < 2 or 0 in room:
        return best
    layers = model.shape.layers
    tried = {best.settings.ranks.partition}
    parts = _shared(layers, room)
    for _ in range(layers):
        if parts in tried or min(parts) < 1:
            break
        tried.add(parts)
        ranks = replace(settings.ranks, partition=parts)
        other = budget(model, replace(settings, ranks=ranks), copy, environment=environment, calibrate=calibrate)
        if _poverty(other) >= _poverty(best):
            break
        best = other
        parts = _moved(parts, other)
    return best


def uneven(parts: Sequence[int]) -> str:
    """Message for stages with unequal numbers of layers."""
    return f"{PARTITION}={','.join(map(str, parts))} gives the larger GPUs more layers: even stages fit fewer requests"


def _repeated(shape: Shape, size: int) -> Iterator[str]:
    if size < 2:
        return
    mixers = [layer.mixer for layer in shape.kinds]
    least = min((mixer.kv_heads for mixer in mixers if isinstance(mixer, Attention)), default=size)
    if size > least:
        yield f"{least} key-value heads on {size} ranks: each is kept {size // least} times"
    if any(isinstance(mixer, Latent) for mixer in mixers):
        yield f"every one of the {size} ranks keeps the whole latent cache"


def _serves(made: Budget, context: int) -> bool | None:
    if made.longest is None or not context:
        return None
    if context > made.settings.scheduler.max_model_len:
        return False
    low, expected, _ = made.longest
    return True if low >= context else None if expected >= context else False


def _poverty(made: Budget) -> tuple[int, int]:
    """Sort key of replicas: the one with the least memory has the highest."""
    blocks = made.blocks.expected if made.blocks is not None else 0
    if made.fits is False and made.available is not None:
        return _FITS[made.fits], -min(made.available[1])
    return _FITS[made.fits], -blocks


def _room(ranks: Ranks, copy: Sequence[Device]) -> tuple[int, ...]:
    """Bytes of the smallest GPU of each stage; 0 if unknown."""
    sizes = []
    for stage in range(ranks.pipeline):
        cards = [device for place, device in enumerate(copy) if ranks.stage(place) == stage]
        sizes.append(min(device.total.expected if device.total else 0 for device in cards))
    return tuple(sizes)


def _shared(layers: int, room: Sequence[int]) -> tuple[int, ...]:
    """Divide layers in proportion to memory by largest remainder."""
    exact = [layers * size / sum(room) for size in room]
    counts = [int(share) for share in exact]
    owed = sorted(range(len(room)), key=lambda stage: counts[stage] - exact[stage])
    for stage in owed[: layers - sum(counts)]:
        counts[stage] += 1
    return tuple(counts)


def _moved(parts: tuple[int, ...], made: Budget) -> tuple[int, ...]:
    if made.available is None:
        return parts
    left = made.available[1]
    least, most = left.index(min(left)), left.index(max(left))
    return tuple(
        count + (1 if stage == most else 0) - (1 if stage == least else 0) for stage, count in enumerate(parts)
    )


# ---- all of them, the best first

_LARGEST = 64
"""GPUs of the largest replica that is planned while a smaller one fits: a fleet runs more replicas."""
_MOST = 512
"""GPUs of the largest replica that is planned at all."""
_LISTED = 40
"""Layouts that are returned: of odd numbers of GPUs, hundreds fit with some GPUs idle."""


def ways(
    model: PlannedModel,
    make: Make,
    devices: Sequence[Device],
    *,
    context: int | None = None,
    like: Ranks | None = None,
    environment: Mapping[str, str] | None = None,
    calibrate: Calibrate | None = None,
    network: Network | None = None,
) -> tuple[LayoutChoice, ...]:
    """The layouts, the best first and at most `_LISTED`; those that the release rejects come last.

    Layouts with idle GPUs are included only if they are more certain to fit than all layouts
    without; also one that shows the smallest number of GPUs, and for unequal GPUs the best that
    uses one kind. `context` is the length of a request in tokens, by default `max_model_len`;
    `like` has the sizes that are not searched. Replicas of more than `_LARGEST` GPUs are
    included only if no smaller one may fit, and none has more than `_MOST`.
    """
    alike: dict[Device, Device] = {}
    devices = [alike.setdefault(device, device) for device in devices]  # compared by identity, which is fast
    judge = _LayoutPlanner(model, make, tuple(devices), context, like or Ranks(), environment, calibrate, network or {})
    splits = candidates(len(devices), judge.like.prefill, _LARGEST)
    judged = [judge.way(split) for split in splits if split.cards == len(devices)]
    if len(devices) > _LARGEST and not any(way.fits is not False for way in judged):
        large = [split for split in candidates(len(devices), judge.like.prefill, _MOST) if split.each > _LARGEST]
        judged += [judge.way(split) for split in large if split.cards == len(devices)]
    least_sure = min((_FITS[way.fits] for way in judged), default=_FITS[False])
    if least_sure:
        # Copies of a dense model inside one server are the same as more replicas.
        is_dense = not _experts(model.shape)
        others = (
            judge.way(split) for split in splits if split.cards < len(devices) and not (is_dense and split.data > 1)
        )
        judged += [way for way in others if way.legal and _FITS[way.fits] < least_sure]
    fitting = [way for way in judged if way.legal and way.fits and way.serves is not False]
    if fitting:
        least = min(fitting, key=lambda way: (len(way.devices), way.rank))
        if least.replicas > 1:
            ranks = least.ranks
            judged.append(judge.way(CopySplit(1, ranks.tensor, ranks.pipeline, ranks.data, ranks.prefill)))
    judged += _of_one_kind(judge, judged)
    return _explained(sorted(judged, key=lambda way: way.rank)[:_LISTED])


def _of_one_kind(judge: _LayoutPlanner, judged: Sequence[LayoutChoice]) -> Iterator[LayoutChoice]:
    kinds: dict[object, list[int]] = {}
    for place, device in enumerate(judge.devices):
        kinds.setdefault((device.name, device.total), []).append(place)
    if len(kinds) < 2:
        return
    seen = {(way.name, frozenset(place for copy in way.places for place in copy)) for way in judged}
    for places in kinds.values():
        ways = (judge.way(split, places) for split in candidates(len(places), judge.like.prefill))
        fitting = [way for way in ways if way.legal and way.fits and len(places) + way.idle == len(judge.devices)]
        best = min(fitting, key=lambda way: way.rank, default=None)
        if best is not None and (best.name, frozenset(places)) not in seen:
            yield best


def _explained(ranked: Sequence[LayoutChoice]) -> tuple[LayoutChoice, ...]:
    if not ranked or not ranked[0].legal:
        return tuple(ranked)
    best = ranked[0]
    alone = [way for way in ranked if len(way.devices) == 1]
    single = next((way for way in alone if not way.idle), None)
    if single is not None and single.fits is False and any(way.fits for way in alone):
        single = None  # one GPU is enough: one larger than theirs
    merits = (*_merits(best, single), *_latency(best, ranked[1:]))
    explained = [replace(best, reasons=(*merits, *best.reasons))]
    for way in ranked[1:]:
        more = tuple(_against(way, best)) if way.legal and way.fits is not False else ()
        explained.append(replace(way, reasons=(*more, *way.reasons)) if more else way)
    return tuple(explained)


def _merits(best: LayoutChoice, single: LayoutChoice | None) -> Iterator[str]:
    if best.fits is False:
        return
    if best.concurrency_total is not None:
        requests = f"{concurrency_text(best.concurrency_total)} requests of {best.context:,} tokens"
        yield f"the KV cache fits {requests} in total"
    if single is None or single is best:
        return
    if single.fits is False:
        yield "one GPU is not enough" + (f" ({single.budget.limits[0]})" if single.budget else "")
    elif single.fits is None:
        yield "one GPU alone may not be enough" + (f": {single.budget.limits[0]}" if single.budget else "")
    elif single.concurrency_total and best.concurrency_total and best.concurrency_total > single.concurrency_total:
        count = best.replicas * best.ranks.data
        times = "once" if count == 1 else f"{count} times"
        yield (
            f"{best.concurrency_total / single.concurrency_total:.1f} times the KV cache of {single.replicas} single "
            f"GPUs, because the weights are stored {times} instead of {single.replicas} times"
        )


def _latency(best: LayoutChoice, others: Iterable[LayoutChoice]) -> Iterator[str]:
    """Why the best layout precedes one with more requests and more pipeline stages."""
    if not best.fits or best.concurrency_total is None:
        return
    for way in others:
        has_more = (way.concurrency_total or 0.0) >= best.concurrency_total
        if way.legal and way.fits and has_more and way.ranks.pipeline > best.ranks.pipeline:
            name = way.name.removeprefix("1 x ")
            yield f"latency is lower than with {name}, where each request occupies one stage at a time"
            return


def _against(way: LayoutChoice, best: LayoutChoice) -> Iterator[str]:
    mine, theirs = way.concurrency_total, best.concurrency_total
    if mine is None or theirs is None or not theirs:
        return
    if mine > theirs * 1.05:
        price = []
        if way.slow > best.slow:
            price.append("every token waits for a slow interconnect")
        if way.ranks.pipeline > best.ranks.pipeline:
            price.append("each request passes through more stages in sequence")
        if way.idle > best.idle:
            price.append(IDLE)
        if mine > way.useful > 0 and not price:
            price.append(f"max_num_seqs allows {way.useful:,.0f} of them to run concurrently")
        if price:
            yield f"{ROOM}{mine / theirs:.1f} times the requests of {best.name}, but {' and '.join(price)}"
    elif mine < theirs / 1.05:
        yield f"{ROOM}only {mine / theirs:.2f} times the requests of {best.name}"
