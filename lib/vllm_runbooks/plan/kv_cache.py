"""Capacity of the KV cache by the rules of a release: groups, blocks, tokens, requests.

vLLM divides the memory for the cache into blocks. Layers that keep the same tokens share a block
table: they form a group, and a request uses blocks of each group. `pool` groups layers given by
their sizes, `rules` is the release-specific behavior. Results are exact: equal memory gives equal
blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property
from operator import add

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.release_rules import rules_in
from vllm_runbooks.core.errors import RunbooksError


class Kind(StrEnum):
    """Part of a request that a layer keeps."""

    FULL = "full"
    """Keys and values of all tokens."""
    SLIDING = "sliding"
    """Keys and values of the tokens in a sliding window."""
    CHUNKED = "chunked"
    """Keys and values of the chunk of the newest token."""
    LATENT = "latent"
    """One compressed vector for each token (MLA), or a key of its indexer."""
    LATENT_WINDOW = "latent_window"
    """Latents of the tokens in a sliding window, or of tokens that are not compressed yet (DeepSeek V4)."""
    CROSS = "cross"
    """Keys and values of the encoder's output."""
    STATE = "state"
    """A state of constant size (state-space, linear attention, short convolution)."""


class KvRefusedError(RunbooksError):
    """The release rejects these layers."""


class KvUnknownError(RunbooksError):
    """The release's behavior for these layers is unknown."""


@dataclass(frozen=True)
class KvLayer:
    """The cache of one layer on one rank."""

    kind: Kind
    block_tokens: int
    """Tokens per block; for a state the interval after which another one is kept."""
    heads: int = 0
    key_size: int = 0
    """Values of a key, of one head and token; of a latent the whole vector."""
    value_size: int | None = None
    """Values per head and token of a value vector if it differs from the key."""
    value_bytes: int = 2
    token_bytes: int | None = None
    """Bytes per token on this rank if a quantized cache uses its own packing."""
    compression: int = 1
    """Tokens that share one latent."""
    window: int | None = None
    chunk: int | None = None
    state_bytes: int = 0
    speculative_blocks: int = 0
    """States for speculative tokens."""
    checkpoint_blocks: int = 0
    """States kept during prefill, for later requests."""
    padded_bytes: int | None = None
    """Bytes of the padded page, if larger than its contents."""
    can_pad: bool = False
    """The attention backend finds blocks by their stride, so that a page may end in a gap."""

    @cached_property
    def content_bytes(self) -> int:
        """Bytes of the contents of a block."""
        if self.kind is Kind.STATE:
            return self.state_bytes
        token = self.token_bytes
        if token is None:
            values = self.key_size if self.value_size is None else self.value_size
            both = self.key_size if self.kind in _LATENTS else self.key_size + values
            token = self.heads * both * self.value_bytes
        return self.block_tokens // self.compression * token

    @cached_property
    def page_bytes(self) -> int:
        """Bytes of a block, padding included."""
        return self.content_bytes if self.padded_bytes is None else self.padded_bytes


@dataclass(frozen=True)
class Demand:
    """Requested capacity of the cache, in tokens unless a field says otherwise."""

    max_model_len: int
    batched_tokens: int
    concurrent_batches: int = 1
    """Concurrent batches (asynchronous scheduling, pipeline stages)."""
    encoder_tokens: int = 0
    """Longest output of the encoder that a decoder attends to."""
    state_mode: str = "none"
    """`mamba_cache_mode`: "none", "align" or "all"."""
    mixes_groups: bool = True
    decode_shards: int = 1
    prefill_shards: int = 1
    retained_tokens: int = 0
    """Tokens kept behind a window for several speculative modules."""
    blocks_override: int | None = None


# ---- what differs by release


@dataclass(frozen=True)
class StateUse:
    """Blocks of a state layer per request."""

    fixed: int
    by_length: bool
    """One more for every block of tokens."""
    with_speculative: bool
    with_checkpoints: bool = False


@dataclass(frozen=True)
class KvRules:
    """KV cache rules of a release; field docstrings describe True."""

    kinds: frozenset[Kind]
    """Kinds with their own form; attention of another kind keeps all its tokens."""
    own_value_size: frozenset[Kind] = frozenset()
    """Kinds whose values may differ in size from the keys."""
    ignores_values: bool = False
    """Layers that keep all tokens have the form of the first one, even if their values have other
    sizes."""
    compares_pages: bool = False
    """Layers of one kind with the same bytes per block have the same form, whatever their heads."""
    counts_blocks: bool = False
    """Concurrency is computed from the whole blocks of a request, not from its tokens."""
    can_mix: bool = False
    """The cache manager handles groups of several kinds, unless it is switched off."""
    promoted_keep_window: bool = False
    """A windowed layer that keeps all its tokens (promoted) still has its window in its form."""
    promoted_keep_values: bool = False
    """Promoted layers keep the size of their values."""
    promoted_take_block: bool = False
    """Promoted layers use the block of the full attention layers."""
    groups_model: bool = False
    """Groups are formed over the whole model, each with layers from every stage; otherwise per
    rank."""
    joins_sizes: bool = False
    """Layers with the same number of blocks are one group although their pages differ."""
    joins_equal_states: bool = False
    """States of different size are not grouped this way."""
    unifies_pages: bool = False
    """Smaller pages get more tokens until all are equal."""
    pads_states: bool = False
    """States are padded to the largest page."""
    pads: str = ""
    """Attention that cannot reach the largest page is padded to it: "" no, "stride" where its backend can, "any"."""
    falls_back: bool = False
    """Windows next to latents whose pages cannot be unified keep all their tokens."""
    joins_alike: bool = False
    """Layers that differ only in a window that is not used are one kind."""
    packs: str = ""
    """Block of latents of several sizes and of windows of latents: "" unsupported; "tuples" as many pages of each size
    as a group has of any; "slots" of each size as a group has of it; "widest" the pages of the largest group; "even"
    these, where the layers that keep all tokens don't decide the size of the other groups."""
    widening: float = 1.0
    """Groups are as large as the most frequent kind if it has fewer layers than this factor times
    the rarest."""
    counts_in_flight: bool = False
    """A window keeps the tokens of all concurrent batches, not one."""
    keeps_retained: bool = False
    """A window also keeps `Demand.retained_tokens`."""
    shards: str = ""
    """Ranks that share a context: "" none, "decode", "both" (decode and prefill)."""
    sharded_tokens: str = ""
    """Like `shards`, for the printed number of tokens."""
    states: Mapping[str, StateUse] | None = None
    """Use of blocks by `Demand.state_mode`; None if the release has no state cache."""
    needs: str = "tokens"
    """What must fit at launch for one request of the longest length: "tokens" (blocks for all of
    them), "layers" (each separately, before grouping), "first" (the blocks of the first group),
    "groups"."""
    projects: bool = False
    """A rank's requirement counts only its own layers, otherwise those of all stages."""
    checks_override: bool = False
    """The launch check uses `Demand.blocks_override`."""
    sets_aside: bool = False
    """The launch check excludes one block."""
    prints_requests: bool = False
    """The printed tokens are the requests that fit times their length, else the tokens of a share
    of the blocks."""


_ATTENTION = frozenset({Kind.FULL, Kind.LATENT})
_LATENTS = frozenset({Kind.LATENT, Kind.LATENT_WINDOW})

_V0 = KvRules(kinds=_ATTENTION)
"""V0, worker/worker.py and worker/cache_engine.py: one block table, every layer keeps all
tokens."""


@cache
def rules(version: str, *, is_v0: bool = False) -> KvRules:
    """Rules of a release; a release that is not in the catalog has those of the previous one.

    Raises:
        InputError: The text is not a version.
    """
    if is_v0:
        return _V0
    key = options.version_key(version) or options.version_key(options.nearest(version).version) or ()
    return rules_in("kv_cache_rules", KvRules, key)


# ---- groups


@dataclass(frozen=True)
class CacheGroup:
    """Layers that share a block table."""

    forms: tuple[tuple[KvLayer, int], ...]
    """Their forms and how many of each the whole model has; several: pages of different size side by side."""
    stage_bytes: tuple[int, ...]
    """Bytes of a block of this group on each stage."""
    model_bytes: int
    """Bytes of a block on a rank with all layers."""

    @property
    def layers(self) -> int:
        """Layers of all stages."""
        return sum(count for _, count in self.forms)

    @property
    def form(self) -> KvLayer:
        """Form whose number of blocks the others share."""
        return self.forms[0][0]


@dataclass(frozen=True)
class KvPool:
    """KV cache groups of a model, and their capacity for given memory."""

    demand: Demand
    rules: KvRules
    groups: tuple[CacheGroup, ...]
    stages: tuple[Mapping[KvLayer, int], ...]
    """Layers of each stage as given."""
    packed_bytes: tuple[int, ...] = ()
    """Bytes per block on each stage, if they are not those of the largest group."""
    checked_bytes: tuple[int, ...] = ()
    """Bytes per block on each stage that the launch check assumes, if they differ."""
    assumptions: tuple[str, ...] = ()
    """What the layers' caches depend on and no option or GPU decides, as text."""

    @cached_property
    def bytes_per_block(self) -> tuple[int, ...]:
        """Bytes per block on each stage, summed over its layers."""
        return self.packed_bytes or tuple(map(max, zip(*(group.stage_bytes for group in self.groups), strict=True)))

    def request_blocks(self, length: int) -> int:
        """Blocks of one request of `length` tokens, summed over all groups."""
        return sum(self._blocks(group.form, length) for group in self.groups)

    def blocks(self, available: Sequence[int]) -> int:
        """Blocks on every rank for these bytes on the smallest rank of each stage."""
        if self.demand.blocks_override is not None:
            return self.demand.blocks_override
        return max(0, min(have // need for have, need in zip(available, self.bytes_per_block, strict=True)))

    def concurrency(self, blocks: int, length: int | None = None) -> float:
        """Requests of `length` tokens, by default the longest, that fit, as the log prints it."""
        length = length or self.demand.max_model_len
        if not self.rules.counts_blocks:
            return blocks * self.groups[0].form.block_tokens / length
        if self.packed_bytes:
            # A rank prints the pages of all groups as pages of the first one; the smallest number of all ranks applies.
            needs = [[self._blocks(group.form, length) * size for size in group.stage_bytes] for group in self.groups]
            first = self.groups[0].stage_bytes
            return blocks / max(
                _ceil(sum(need), size) for need, size in zip(zip(*needs, strict=True), first, strict=True)
            )
        return blocks / self.request_blocks(length)

    def tokens(self, blocks: int) -> int:
        """Tokens in these blocks, as the log prints them: the meaning depends on the release."""
        if self.rules.prints_requests:
            return int(self.concurrency(blocks) * self.demand.max_model_len)
        least = min(group.form.block_tokens for group in self.groups)
        return blocks // len(self.groups) * least * self._shards(self.rules.sharded_tokens)

    def needed_bytes(self, length: int | None = None) -> tuple[int, ...]:
        """Bytes that each stage must have for one request, by default of the longest length, as an error prints it."""
        length = length or self.demand.max_model_len
        if self.rules.needs == "layers":
            return tuple(
                sum(self._blocks(layer, length) * layer.page_bytes * count for layer, count in stage.items())
                for stage in self.stages
            )
        if self.rules.needs == "tokens":
            blocks = _ceil(length, self.groups[0].form.block_tokens)
        elif self.rules.needs == "first":
            blocks = self._blocks(self.groups[0].form, length)
        else:
            blocks = self.request_blocks(length)
        if self.rules.projects or self.rules.needs == "tokens":
            return tuple(blocks * size for size in self.checked_bytes or self.bytes_per_block)
        return (blocks * max(group.model_bytes for group in self.groups),) * len(self.stages)

    def fits(self, available: Sequence[int], length: int | None = None) -> bool:
        """Whether vLLM's launch check accepts one request, by default of the longest length."""
        aside = 1 if self.rules.sets_aside else 0
        if self.rules.checks_override and self.demand.blocks_override is not None:
            available = [self.demand.blocks_override * size for size in self.bytes_per_block]
        return all(
            0 < need <= have - aside * size
            for have, size, need in zip(available, self.bytes_per_block, self.needed_bytes(length), strict=True)
        )

    def longest_context(self, available: Sequence[int], limit: int | None = None) -> int:
        """The longest request that fits, at most `limit` tokens (by default the longest length); 0: none."""
        low, high = 0, limit or self.demand.max_model_len
        if self.fits(available, high):
            return high
        high -= 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.fits(available, middle):
                low = middle
            else:
                high = middle - 1
        return low

    def _shards(self, which: str) -> int:
        demand = self.demand
        return {"": 1, "decode": demand.decode_shards, "both": demand.decode_shards * demand.prefill_shards}[which]

    def _blocks(self, layer: KvLayer, length: int) -> int:
        kind, block, demand = layer.kind, layer.block_tokens, self.demand
        if kind is Kind.FULL or kind is Kind.LATENT:
            shards = self._shards(self.rules.shards)
            return _ceil(_ceil(length, shards), block)
        if kind is Kind.STATE:
            use = (self.rules.states or {})[demand.state_mode]
            return (
                use.fixed
                + (_ceil(length, block) if use.by_length else 0)
                + (layer.speculative_blocks if use.with_speculative else 0)
                + (layer.checkpoint_blocks if use.with_checkpoints else 0)
            )
        if kind is Kind.CROSS:
            return _ceil(demand.encoder_tokens, block)
        coming = demand.batched_tokens * (demand.concurrent_batches if self.rules.counts_in_flight else 1)
        if kind is Kind.CHUNKED:
            return _ceil(min((layer.chunk or 0) + coming, length), block)
        retained = demand.retained_tokens if self.rules.keeps_retained else 0
        # A window rarely begins at the start of a block: add one block.
        return _ceil(min((layer.window or 0) - 1 + retained + coming, length), block) + 1


_Counts = dict[KvLayer, tuple[int, ...]]
"""Forms in order of their first layer, each with the number of layers on each stage."""


def pool(stages: Iterable[Mapping[KvLayer, int]], demand: Demand, by: KvRules) -> KvPool:
    """Group the layers of a model by the rules of a release.

    `stages` maps, for each pipeline stage, the forms of one rank's layers, in order of their first
    layer, to their number. Layers that share another layer's cache are excluded.

    Raises:
        KvRefusedError: The release rejects the layers.
        KvUnknownError: The release's behavior for the layers is unknown.
    """
    simplified = tuple(
        _remade({layer: (count,) for layer, count in stage.items()}, lambda layer: _known(layer, by))
        for stage in stages
    )
    if not simplified or not all(simplified):
        raise KvUnknownError("a pipeline stage without KV cache layers: the release's behavior is unknown")
    plain = tuple({layer: counts[0] for layer, counts in stage.items()} for stage in simplified)
    if any(layer.kind is Kind.LATENT_WINDOW for stage in plain for layer in stage):
        return _packed(plain, _counted(*simplified), demand, by)
    if by.groups_model or len(simplified) == 1:
        groups = _groups(_counted(*simplified), demand, by)
    else:
        # Match groups of the same form in any order.
        made = [sorted(_groups(stage, demand, by), key=lambda group: repr(group.form)) for stage in simplified]
        groups = _same_on_all(made)
    return KvPool(demand, by, tuple(groups), plain)


def _ceil(number: int, by: int) -> int:
    return -(-number // by)


def _known(layer: KvLayer, by: KvRules) -> KvLayer:
    kind = layer.kind
    if kind not in by.kinds:
        if kind not in (Kind.SLIDING, Kind.CHUNKED):
            raise KvUnknownError(f"unknown KV cache layout for layers of kind {kind.value!r}")
        layer = replace(layer, kind=Kind.FULL, window=None, chunk=None)
    if layer.value_size is not None and (layer.value_size == layer.key_size or layer.kind not in by.own_value_size):
        layer = replace(layer, value_size=None)
    if by.compares_pages and layer.kind is not Kind.STATE:
        token = layer.content_bytes // layer.block_tokens
        layer = replace(layer, heads=1, key_size=0, value_size=None, value_bytes=1, token_bytes=token, can_pad=False)
    return layer


def _counted(*stages: _Counts) -> _Counts:
    totals: dict[KvLayer, list[int]] = {}
    for at, stage in enumerate(stages):
        for layer, counts in stage.items():
            totals.setdefault(layer, [0] * len(stages))[at] += counts[0]
    return {layer: tuple(counts) for layer, counts in totals.items()}


def _remade(counts: _Counts, remake: Callable[[KvLayer], KvLayer]) -> _Counts:
    totals: _Counts = {}
    for layer, count in counts.items():
        made = remake(layer)
        total = totals.get(made)
        totals[made] = count if total is None else tuple(map(add, total, count))
    return totals


def _groups(counts: _Counts, demand: Demand, by: KvRules) -> list[CacheGroup]:
    if not (by.can_mix and demand.mixes_groups):
        counts = _promoted(counts, by)
    if len(counts) == 1 or _are_alike(list(counts), by) or _need_the_same(list(counts), by):
        return [_joined(counts, by)]
    if not by.can_mix:
        raise KvRefusedError("layers of several kinds; this release supports one kind")
    try:
        counts = _with_equal_pages(counts, by)
    except KvRefusedError:
        kinds = {layer.kind for layer in counts}
        if not by.falls_back or Kind.CHUNKED in kinds or not {Kind.LATENT, Kind.SLIDING} <= kinds:
            raise
        return [_joined(_promoted(counts, by), by)]
    return _split(_buckets(counts, by), by)


def _are_alike(layers: Sequence[KvLayer], by: KvRules) -> bool:
    """Whether layers are of one form but for windows that are not used."""
    first = layers[0]
    if len(layers) == 1:
        return True
    if first.kind is not Kind.FULL:
        return False
    plain = [
        replace(layer, window=None, chunk=None, value_size=None if by.ignores_values else layer.value_size)
        for layer in layers
    ]
    windows = {layer.window for layer in layers} - {None}
    chunks = {layer.chunk for layer in layers} - {None}
    if len(set(plain)) > 1 or (windows and chunks):
        return False
    if len(windows) > 1 or len(chunks) > 1:
        raise KvRefusedError("windows of several sizes mixed with full-attention layers")
    return True


def _need_the_same(layers: Sequence[KvLayer], by: KvRules) -> bool:
    first = layers[0]
    kinds = {layer.kind for layer in layers}
    if not by.joins_sizes or len({layer.block_tokens for layer in layers}) > 1:
        return False
    if kinds <= _ATTENTION:
        return True
    if len(kinds) > 1:
        return False
    if first.kind is Kind.STATE:
        kept = {(layer.speculative_blocks, layer.checkpoint_blocks) for layer in layers}
        return len(kept) == 1 and not (by.joins_equal_states and len({layer.page_bytes for layer in layers}) > 1)
    return all(layer.window == first.window and layer.chunk == first.chunk for layer in layers)


def _promoted(counts: _Counts, by: KvRules) -> _Counts:
    """Convert layers with windows to layers that keep all tokens, if the model has such layers."""
    if by.can_mix and (_are_alike(list(counts), by) or _need_the_same(list(counts), by)):
        return counts
    full = [layer for layer in counts if layer.kind in _ATTENTION]
    blocks = {layer.block_tokens for layer in full}

    def remake(layer: KvLayer) -> KvLayer:
        if layer.kind not in (Kind.SLIDING, Kind.CHUNKED):
            return layer
        return replace(
            layer,
            kind=Kind.FULL,
            window=layer.window if by.promoted_keep_window else None,
            value_size=layer.value_size if by.promoted_keep_values else None,
            block_tokens=min(blocks) if by.promoted_take_block and len(blocks) == 1 else layer.block_tokens,
        )

    promoted = _remade(counts, remake) if full else counts
    if not (_are_alike(list(promoted), by) or _need_the_same(list(promoted), by)):
        raise KvRefusedError("without the hybrid KV cache manager all layers must be of one kind")
    return promoted


def _joined(counts: _Counts, by: KvRules) -> CacheGroup:
    """All layers as one group."""
    first = next(iter(counts))
    stages = range(len(counts[first]))
    is_alike = _are_alike(list(counts), by)
    pages = [(first.page_bytes if is_alike else layer.page_bytes, count) for layer, count in counts.items()]
    whole = sum(page * sum(count) for page, count in pages)
    if by.projects or is_alike:
        stage_bytes = tuple(sum(page * count[at] for page, count in pages) for at in stages)
    else:
        # For such a group, a rank counts the pages of all stages as its own.
        stage_bytes = (whole,) * len(stages)
    forms = tuple((layer, sum(count)) for layer, count in counts.items())
    if is_alike and len(forms) > 1:
        window = next((layer.window for layer in counts if layer.window), None)
        chunk = next((layer.chunk for layer in counts if layer.chunk), None)
        forms = ((replace(first, window=window, chunk=chunk), sum(count for _, count in forms)),)
    return CacheGroup(forms, stage_bytes, whole)


def _with_equal_pages(counts: _Counts, by: KvRules) -> _Counts:
    largest = max(layer.page_bytes for layer in counts)
    if all(layer.page_bytes == largest for layer in counts):
        return counts
    if not by.unifies_pages:
        raise KvRefusedError("blocks of several sizes; this release supports one size")

    def remake(layer: KvLayer) -> KvLayer:
        if layer.page_bytes == largest:
            return layer
        if layer.kind is Kind.STATE and by.pads_states:
            return replace(layer, padded_bytes=largest)
        if layer.kind is not Kind.STATE and layer.padded_bytes is None and largest % layer.page_bytes == 0:
            return replace(layer, block_tokens=layer.block_tokens * (largest // layer.page_bytes))
        can_pad = layer.kind not in (Kind.STATE, Kind.LATENT) if by.pads == "any" else layer.can_pad
        if by.pads and can_pad:
            return replace(layer, padded_bytes=largest)
        raise KvRefusedError(f"blocks of {layer.page_bytes:,} and {largest:,} bytes, which this release cannot unify")

    return _remade(counts, remake)


_Bucket = list[tuple[KvLayer, tuple[int, ...]]]
"""Layers of one kind, in the order in which they are dealt out to groups."""


def _buckets(counts: _Counts, by: KvRules) -> list[_Bucket]:
    buckets: list[_Bucket] = []
    for layer, count in counts.items():
        for bucket in buckets if by.joins_alike else ():
            try:
                is_alike = _are_alike([*(member for member, _ in bucket), layer], by)
            except KvRefusedError:
                is_alike = False
            if is_alike:
                bucket.append((layer, count))
                break
        else:
            buckets.append([(layer, count)])
    return buckets


def _split(buckets: Sequence[_Bucket], by: KvRules) -> list[CacheGroup]:
    sizes = [sum(sum(count) for _, count in bucket) for bucket in buckets]
    size = max(sizes) if max(sizes) < min(sizes) * by.widening else min(sizes)
    groups = []
    for bucket, layers in zip(buckets, sizes, strict=True):
        parts = _ceil(layers, size)
        for part in range(parts):
            dealt = _dealt(bucket, part, parts) if by.groups_model else (min(size, layers - part * size),)
            page = bucket[0][0].page_bytes
            form = ((bucket[0][0], sum(dealt)),)
            groups.append(CacheGroup(form, tuple(page * count for count in dealt), page * sum(dealt)))
    return groups


def _dealt(bucket: _Bucket, part: int, parts: int) -> tuple[int, ...]:
    """Layers on each stage if every `parts`-th layer is taken, beginning with number `part`."""
    counts_by_stage = [0] * len(bucket[0][1])
    begin = 0
    for _, counts in bucket:
        for stage, count in enumerate(counts):
            end = begin + count
            counts_by_stage[stage] += (end - part + parts - 1) // parts - (begin - part + parts - 1) // parts
            begin = end
    return tuple(counts_by_stage)


_PADDED = ("tuples", "slots")
"""Windows are padded to the next larger page of the latents that keep all tokens."""


def _packed(stages: tuple[Mapping[KvLayer, int], ...], counts: _Counts, demand: Demand, by: KvRules) -> KvPool:
    """Groups of latents of several sizes next to windows of latents.

    Latents that keep all tokens are one group. Windows with the same blocks are split into groups with about as many
    layers of each size.
    """
    if not (by.can_mix and demand.mixes_groups and by.packs):
        raise KvUnknownError("windows of latents next to latents: the release's behavior is unknown")
    buckets: dict[tuple[object, ...], _Counts] = {}
    for layer, count in sorted(counts.items(), key=lambda item: item[0].kind is not Kind.LATENT):
        buckets.setdefault((layer.kind, layer.block_tokens, layer.window), {})[layer] = count
    kept, *windows = buckets.values()
    if [kind for kind, *_ in buckets].count(Kind.LATENT) != 1 or {kind for kind, *_ in buckets} - _LATENTS:
        raise KvUnknownError("windows of latents next to other layers: the release's behavior is unknown")
    if by.packs in _PADDED:
        windows = [_remade(bucket, lambda layer: _padded_to_latent(layer, kept)) for bucket in windows]
    if len(set(map(sum, kept.values()))) == 1 or any(len(set(map(sum, each.values()))) > 1 for each in windows):
        raise KvUnknownError("as many latents of each size, or not as many windows: the release's behavior is unknown")
    size = _common_size(kept, windows, by)
    dealt = [kept]
    for bucket in windows:
        parts = _ceil(sum(next(iter(bucket.values()))), size)
        dealt += [
            {layer: _dealt([(layer, count)], part, parts) for layer, count in bucket.items()} for part in range(parts)
        ]
    packed, checked = _packed_bytes(dealt, len(stages), by)
    return KvPool(demand, by, tuple(map(_side_by_side, dealt)), stages, packed, checked)


def _padded_to_latent(layer: KvLayer, kept: _Counts) -> KvLayer:
    larger = [latent.page_bytes for latent in kept if latent.page_bytes >= layer.page_bytes]
    if not larger:
        raise KvRefusedError(f"a window with blocks of {layer.page_bytes:,} bytes, more than any latent's")
    return replace(layer, padded_bytes=min(larger))


def _common_size(kept: _Counts, windows: Sequence[_Counts], by: KvRules) -> int:
    """Layers of each size in a group: the number that pads least, the largest of several."""
    counts = [sum(next(iter(bucket.values()))) for bucket in windows]
    if by.packs == "even":
        least = max((count for count, bucket in zip(counts, windows, strict=True) if len(bucket) > 1), default=0)
        if not least:
            raise KvUnknownError("windows of latents of one size each: the release's behavior is unknown")
    else:
        least = max(map(sum, kept.values()))
        counts.append(least)
    padding = {size: sum(-count % size for count in counts) for size in range(least, max(*counts, least) + 1)}
    return max(size for size, pad in padding.items() if pad == min(padding.values()))


def _side_by_side(layers: _Counts) -> CacheGroup:
    stages = range(len(next(iter(layers.values()))))
    stage_bytes = tuple(sum(layer.page_bytes * count[stage] for layer, count in layers.items()) for stage in stages)
    return CacheGroup(tuple((layer, sum(count)) for layer, count in layers.items()), stage_bytes, sum(stage_bytes))


def _packed_bytes(dealt: Sequence[_Counts], stages: int, by: KvRules) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Bytes per block on each stage, if not those of the largest group, and those that the launch check assumes."""
    if by.packs == "even":
        return (), ()
    # For each stage and size of a page, the most layers that a group has.
    most: list[dict[int, int]] = [{} for _ in range(stages)]
    for layers in dealt:
        for layer, counts in layers.items():
            for stage, count in enumerate(counts):
                most[stage][layer.page_bytes] = max(count, most[stage].get(layer.page_bytes, 0))
    pages = [{layer.page_bytes for layer, counts in dealt[0].items() if counts[stage]} for stage in range(stages)]
    tuples = tuple(sum(page) * max(counts.values()) for page, counts in zip(pages, most, strict=True))
    slots = tuple(sum(page * count for page, count in counts.items()) for counts in most)
    return {"tuples": tuples, "slots": slots, "widest": ()}[by.packs], tuples


def _same_on_all(stages: Sequence[Sequence[CacheGroup]]) -> list[CacheGroup]:
    groups_of_all = []
    if len({len(groups) for groups in stages}) > 1:
        raise KvRefusedError("pipeline stages have different KV cache groups")
    for same in zip(*stages, strict=True):
        if any(group.form != same[0].form for group in same):
            raise KvRefusedError("pipeline stages have different KV cache groups")
        whole = sum(group.model_bytes for group in same)
        forms = ((same[0].form, sum(group.layers for group in same)),)
        groups_of_all.append(CacheGroup(forms, tuple(group.model_bytes for group in same), whole))
    return groups_of_all
