"""Separate draft models: their tensors, their layers, and the rules of each release.

vLLM builds a draft model after the target, only on the ranks of the last pipeline stage, and counts
it as memory of loading (0.8.5 v1/worker/gpu_model_runner.py:1339, 0.33.0 :5009,
v1/worker/gpu/model_runner.py:421).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

from vllm_runbooks.catalog.eras import AT_NO_TIME, Era, Key
from vllm_runbooks.catalog.release_rules import SinceRelease, rules_in
from vllm_runbooks.catalog.specs import Specs
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.plan.families import Family
from vllm_runbooks.plan.shape import Attention, Layer, Rope, Shape, shape
from vllm_runbooks.plan.tensors import ModelTensor, layer_tensors, linear, norm
from vllm_runbooks.plan.weights import Loaded, Ranks, TensorInventory, Variant, inventory, load, size_on_rank


@dataclass(frozen=True, eq=False)
class DraftModel:
    """A draft model, parsed once."""

    name: str
    config: Mapping[str, Any] = field(repr=False)
    """The part of its `config.json` that vLLM reads."""
    shape: Shape
    source: str | None = None
    tensors: frozenset[str] | None = None
    """Tensor names in the checkpoint's files; None if the files are not available."""

    @cached_property
    def stock(self) -> TensorInventory:
        """Tensors of the draft model, if it is a complete model."""
        return inventory(self.shape)

    def has(self, module: str) -> bool | None:
        """Whether the checkpoint has a module; None if unknown."""
        return None if self.tensors is None else any(module in name for name in self.tensors)


class Drafting(NamedTuple):
    """Speculative decoding settings of a launch."""

    method: str
    """"draft_model" (a whole model), "eagle", "eagle3" or "medusa"."""
    tokens: int
    length: int = 0
    """The longest context of the model that is drafted for."""


def draft(
    name: str,
    config: Mapping[str, Any],
    *,
    is_partial: bool = False,
    source: str | None = None,
    tensors: frozenset[str] | None = None,
) -> DraftModel:
    """Build a draft model from its configuration; with `is_partial`, missing fields are unknown."""
    plain = _plain(config)
    return DraftModel(name, plain, shape(plain, is_partial=is_partial), source, tensors)


def draft_in_catalog(name: str, catalog: Specs) -> DraftModel | None:
    """Draft model from the catalog; None if it has none of that name."""
    entry = catalog.model(name)
    if entry is None or entry.id is None:
        return None
    file = catalog.file(entry.id)
    return draft(name, file.config, is_partial=file.is_partial, source=file.source)


_CARRIED = ("draft_vocab_size", "target_hidden_size", "norm_before_fc", "fc_norm")
"""Fields of the head that a file in the speculators format stores next to its layer (0.33.0
transformers_utils/configs/speculators/algos.py:16)."""


def _plain(config: Mapping[str, Any]) -> Mapping[str, Any]:
    layer, kind = config.get("transformer_layer_config"), config.get("speculators_model_type")
    if kind not in ("eagle3", "peagle") or not isinstance(layer, Mapping):
        return config
    carried = {name: config[name] for name in _CARRIED if config.get(name) is not None}
    architecture = f"Eagle3{str(layer.get('model_type', 'llama')).capitalize()}ForCausalLM"
    return {"model_type": "llama", **layer, **carried, "architectures": [architecture]}


# ---- what differs by release


@dataclass(frozen=True)
class DraftRules:
    """Rules of a release for draft models."""

    methods: frozenset[str] = frozenset()
    """Methods that its V1 engine supports."""
    embedding: str = "brought"
    """Use of the target's embedding: "brought": EAGLE keeps its own, EAGLE-3 if its files have one;
    "shaped": shared if both have the same size; "weighed": shared if the files have none or the
    same values."""
    head: str = "own"
    """When the target's head is used for EAGLE-3's: "own": never; else as of `embedding`."""
    layers: int | None = 1
    """Number of EAGLE-3 layers built, whatever the configuration says; None for all."""
    takes_target_form: bool = False
    omits_projection: bool = False
    """Without states from between the target's layers EAGLE-3 has no projection of them."""
    counts_states: bool = False
    """Whether the configuration sets the number of auxiliary hidden states; otherwise it is
    three."""
    norms_states: bool = False
    """Whether auxiliary hidden states are normalized if the configuration says so; with
    `counts_states` each has its own norm."""
    has_bias: bool = False
    always_maps: bool = True
    """Draft tokens are mapped to the target's even where both vocabularies are one."""
    cuts_heads: bool = True
    """Whether every Medusa head has the truncated vocabulary; otherwise only the original head."""
    stretches: bool = False
    """Positions of a head are raised to the target's."""
    limits_length: bool = False
    """The newer runner serves no request that is longer than the drafting model's."""


_HEADS = frozenset({"eagle", "eagle3"})


@cache
def _rules(release: Key) -> DraftRules:
    return rules_in("draft_rules", DraftRules, release)


_REFUSED: Mapping[str, Era] = {
    "draft_model": Era((0, 10), (0, 15)),
    "mlp_speculator": Era((0, 10)),
    "medusa": Era((0, 33)),
}
"""Methods that no engine has from one release to before another: 0.10.2 config/__init__.py:2180, 0.14.1
config/speculative.py:388; 0.10.2 v1/worker/gpu_model_runner.py:262; 0.33.0 config/speculative.py:74."""


def refusal(method: str, release: Key) -> bool:
    """Whether the release rejects this method."""
    return _REFUSED.get(method, AT_NO_TIME).holds(release)


def own_layers(kind: str | None, architecture: str | None) -> Key | None:
    """First release that drafts with the model's own layers (MTP); None if no release does."""
    models = load_table("mtp_models", SinceRelease)
    return min((models[name].since for name in (kind or "", architecture or "") if name in models), default=None)


# ---- what cannot be known


_READ = frozenset({
    "LlamaForCausalLM", "EagleLlamaForCausalLM",
})  # fmt: skip
"""Architectures of `models/llama_eagle.py` (0.33.0 model_executor/models/registry.py:661; "Eagle"
is added to the name if missing: transformers_utils/configs/eagle.py:50)."""
_READ_THREE = frozenset({
    "LlamaForCausalLM", "Eagle3LlamaForCausalLM", "LlamaForCausalLMEagle3", "PeagleLlamaForCausalLM",
    "PEagleDraftModel", "Eagle3Qwen2_5vlForCausalLM", "Eagle3Qwen3vlForCausalLM", "Eagle3MiniMaxM2ForCausalLM",
})  # fmt: skip
"""Architectures of `models/llama_eagle3.py` (0.33.0 model_executor/models/registry.py:698-704)."""
_OF_NO_MATTER = frozenset({"max_position_embeddings", "rope_theta", "tie_word_embeddings"})
"""Fields that neither weights nor caches of a head depend on, or tables of cosines and sines alone."""


def unknown(draft: DraftModel, how: Drafting, release: Key, ranks: Ranks, *, target_form: bool) -> tuple[str, ...]:
    """Missing facts about a draft model; `target_form` is True if the target is quantized."""
    by, method = _rules(release), how.method
    if method not in by.methods:
        return (f"vLLM's layout of draft models for {method}",)
    if method == "medusa":
        return () if _medusa(draft, how.tokens) is not None else ("the sizes of its heads",)
    if method == "draft_model":
        if ranks.pipeline > 1:
            return ("how a full draft model is split over pipeline stages",)
        return draft.stock.missing
    shape = draft.shape
    missing = [name for name in shape.missing if name not in _OF_NO_MATTER]
    architecture = shape.architecture or "no architecture"
    if architecture not in (_READ if method == "eagle" else _READ_THREE) or shape.text_type != "llama":
        missing.append(f"vLLM's layout of {architecture} as a draft head of {method}")
    if draft.shape.quantization is not None or (target_form and by.takes_target_form):
        missing.append("the layout of a quantized head")
    if any(kind != "full_attention" for kind in draft.config.get("layer_types") or ()):
        missing.append("what its sliding-window layers keep")
    return tuple(dict.fromkeys(missing))


class _Medusa(NamedTuple):
    heads: int
    layers: int
    hidden: int
    vocabulary: int
    shortened: int
    has_original: bool
    has_bias: bool


_MEDUSA = {"hidden_size": 4096, "vocab_size": 32001, "num_hidden_layers": 1}
"""Defaults for missing fields (0.32.0 transformers_utils/configs/medusa.py:14)."""


def _medusa(draft: DraftModel, tokens: int) -> _Medusa | None:
    """Sizes of the Medusa heads; vLLM builds one per speculative token (0.8.5 config.py:2410)."""
    config = dict(draft.config)
    for name in list(config):
        if "num" in name and "layers" in name:
            config["num_hidden_layers"] = config.pop(name)
    sizes = [config.get(name, default) for name, default in _MEDUSA.items()]
    if not all(isinstance(size, int) and size > 0 for size in (*sizes, tokens)):
        return None
    hidden, vocabulary, blocks = sizes
    cut = config.get("truncated_vocab_size")
    return _Medusa(
        tokens,
        blocks,
        hidden,
        vocabulary,
        vocabulary if not isinstance(cut, int) else cut,
        bool(config.get("original_lm_head")),
        bool(config.get("medusa_fc_bias")),
    )


# ---- layers


def layers(draft: DraftModel, method: str, release: Key) -> tuple[Layer, ...]:
    """Layers with keys and values, in order."""
    if method == "medusa":
        return ()
    shape = draft.shape
    every = tuple(shape.kinds[index] for index in shape.pattern)
    return every[: _rules(release).layers] if method == "eagle3" else every


def longest(draft: DraftModel, positions: int | None, method: str, release: Key, length: int | None) -> int | None:
    """Longest request in tokens that the draft model allows; None if it does not limit the context.

    `positions` is the draft model's longest context, `length` the length that the launch sets for
    it.
    """
    is_shared = method != "draft_model" and all(rope.kind in _RESIZED for rope in _tables(draft.shape))
    if not _rules(release).limits_length or is_shared or method == "medusa":
        return None
    return length or positions


_RESIZED = frozenset({"default", "linear", "llama3", "ntk", "proportional"})
"""Rotary embeddings whose frequencies do not depend on the longest context (0.33.0
config/speculative.py:88)."""


def _tables(shape: Shape) -> tuple[Rope, ...]:
    mixers = (kind.mixer for kind in shape.kinds)
    return tuple(mixer.rope for mixer in mixers if isinstance(mixer, Attention) and mixer.rope is not None)


# ---- tensors


class _Stock(NamedTuple):
    """Tensors of a head, and those that it may share with the target."""

    sure: TensorInventory
    embedding: ModelTensor | None
    """May be shared with the target: most heads are trained on its embedding."""
    head: ModelTensor | None
    """May be shared with the target, but usually has its own size."""


def _is_shared(rule: str, *, is_brought: bool | None, is_alike: bool) -> bool | None:
    """Whether the target's tensor replaces a head's own; None if unknown."""
    if rule == "shaped":
        return is_alike
    if rule == "own" or (is_brought is True and (rule == "brought" or not is_alike)):
        return False
    return True if is_brought is False else None if is_alike or rule == "brought" else False


def _eagle(draft: DraftModel, method: str, target: Shape, ranks: Ranks, release: Key) -> _Stock:
    """EAGLE's head: a projection of the target's states, decoder layers, and for EAGLE-3 a norm and a head.

    0.8.5 to 0.33.0 model_executor/models/llama_eagle.py, llama_eagle3.py.
    """
    by, shape, config = _rules(release), draft.shape, draft.config
    hidden, vocabulary = shape.hidden_size, shape.vocabulary_size
    is_three = method == "eagle3"
    variants = tuple(
        Variant((index,), tuple((tensor, None) for tensor in _layer(layer, hidden, index, by, is_three=is_three)), ())
        for index, layer in enumerate(layers(draft, method, release))
    )
    embedding = ModelTensor("embedding", "embed_tokens", vocabulary, hidden, "vocabulary")
    is_wide = (vocabulary, hidden) == (target.vocabulary_size, target.hidden_size)
    rule = "own" if ranks.pipeline > 1 or (by.embedding == "brought" and not is_three) else by.embedding
    shares_embedding = _is_shared(rule, is_brought=draft.has("embed_tokens"), is_alike=is_wide)
    size = config.get("draft_vocab_size") or vocabulary
    head = ModelTensor("head", "lm_head", size, hidden, "vocabulary")
    shares_head: bool | None = True
    rest: list[ModelTensor] = []
    if is_three:
        is_alike = (size, hidden) == (target.vocabulary_size, target.hidden_size)
        shares_head = _is_shared(by.head, is_brought=draft.has("lm_head"), is_alike=is_alike)
        rest += _states(config, hidden, by)
        if by.always_maps or size != target.vocabulary_size:
            rest.append(ModelTensor("head", "draft_id_to_target_id", size, width=8))
    else:
        rest.append(linear("draft", "fc", hidden, 2 * hidden))
    sure = TensorInventory(
        replace(shape, pattern=shape.pattern[: len(variants)]),
        variants,
        ((embedding, None),) if shares_embedding is False else (),
        ((head, None),) if shares_head is False else (),
        norm("norm", hidden) if is_three else None,
        (),
        tuple((tensor, None) for tensor in rest),
    )
    return _Stock(sure, embedding if shares_embedding is None else None, head if shares_head is None else None)


def _layer(layer: Layer, hidden: int, index: int, by: DraftRules, *, is_three: bool) -> Iterator[ModelTensor]:
    layer = replace(layer, norms=3 if is_three else 1 if index == 0 else 2)
    for tensor in layer_tensors(layer, hidden, Family()):
        if is_three and tensor.fused == "qkv":
            columns = 2 * hidden if index == 0 else hidden
            yield replace(tensor, columns=columns, bias=tensor.bias and by.has_bias)
        else:
            yield tensor


def _states(config: Mapping[str, Any], hidden: int, by: DraftRules) -> Iterator[ModelTensor]:
    """Projection of the target's auxiliary hidden states to the size of the head."""
    eagle = config.get("eagle_config")
    inner: Mapping[str, Any] = eagle if isinstance(eagle, Mapping) else {}
    if by.omits_projection and not inner.get("use_aux_hidden_state", True):
        return
    size = config.get("target_hidden_size") or hidden
    count = 3
    if by.counts_states:
        count = config.get("num_aux_hidden_states") or len(inner.get("eagle_aux_hidden_state_layer_ids") or ()) or 3
        if config.get("fc_norm"):
            yield norm("fc_norm", size, count=count)
    if by.norms_states and inner.get("norm_before_fc", config.get("norm_before_fc")):
        yield norm("input_norm", size * count)
    yield linear("draft", "fc", hidden, size * count)


def _heads(draft: DraftModel, sizes: _Medusa, release: Key) -> _Stock:
    """Medusa: blocks of linear layers, and a head of the vocabulary for each (0.32.0 models/medusa.py:52)."""
    hidden, by = sizes.hidden, _rules(release)
    blocks = ModelTensor("draft", "blocks", hidden, hidden, count=sizes.heads * sizes.layers, bias=sizes.has_bias)
    rows = sizes.shortened if sizes.has_original or by.cuts_heads else sizes.vocabulary
    head = ModelTensor("head", "lm_head", rows, hidden, "vocabulary")
    made = ((head, None),) * (1 if sizes.has_original else sizes.heads)
    bare = replace(draft.shape, kinds=(), pattern=(), quantization=None, encoders=())
    return _Stock(TensorInventory(bare, (), (), made, None, (), ((blocks, None),)), None, None)


def load_draft(
    draft: DraftModel,
    how: Drafting,
    target: Shape,
    ranks: Ranks,
    *,
    release: Key,
    dtype: str | None,
    capability: tuple[int, int] | None = None,
    tokens: int | None = None,
) -> Loaded | None:
    """Memory of a draft model on each GPU of the last stage; None if `unknown` names missing facts.

    The last four arguments are those of `load`.
    """
    method, alone = how.method, replace(ranks, pipeline=1, partition=None)
    if unknown(draft, how, release, ranks, target_form=target.quantization is not None):
        return None
    sizes = _medusa(draft, how.tokens) if method == "medusa" else None
    if sizes is not None:
        stock = _heads(draft, sizes, release)
    elif method == "draft_model":
        stock = _Stock(draft.stock, None, None)
    else:
        stock = _eagle(draft, method, target, ranks, release)
    is_raised = method in _HEADS and _rules(release).stretches
    made = load(
        _with_tables(stock.sure, _tables(draft.shape), target, how.length if is_raised else 0),
        alone,
        release=release,
        dtype=dtype,
        capability=capability,
        tokens=tokens,
        with_mtp=method != "draft_model",
    )
    if made is None:
        return None
    loaded = made[0]
    reasons = loaded.reasons
    components = dict(loaded.components)
    low, expected, high = loaded.low, loaded.expected, loaded.high
    for tensor, is_likely in ((stock.embedding, False), (stock.head, True)):
        if tensor is None:
            continue
        size = size_on_rank(tensor, alone, dtype)
        high += size
        if is_likely:
            expected += size
            components[tensor.component] = components.get(tensor.component, 0) + size
        reasons = (
            *reasons,
            f"whether {tensor.name} of the draft model is shared with the target is visible only in its files",
        )
    return Loaded(components, low, expected, high, reasons)


def _with_tables(stock: TensorInventory, tables: tuple[Rope, ...], target: Shape, length: int) -> TensorInventory:
    """Tensors with the rotary tables that the target does not have already.

    `length` is the context to which a head's positions are raised; 0 if they are not.
    """
    raised = tuple(
        replace(rope, positions=max(rope.positions, length), longest=max(rope.longest, length))
        if rope.kind in _RESIZED
        else rope
        for rope in tables
    )
    missing = tuple(rope for rope in raised if rope not in _tables(target))
    if not stock.variants:
        return stock
    first, *others = (replace(variant, ropes=()) for variant in stock.variants)
    return replace(stock, variants=(replace(first, ropes=missing), *others))
