"""Bytes of LoRA on each GPU: the buffers that vLLM allocates when it wraps the loaded model.

Every layer that supports adapters gets two tensors for `max_loras` adapters of rank
`max_lora_rank`, used or not: A, from the layer's input to the rank, and B, from the rank to its
output. The layers with such tensors, and their split over ranks, are read from vLLM's `lora/` and
from each model's class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from vllm_runbooks.catalog.eras import NEVER, Key
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.record_forms import AUTHORED
from vllm_runbooks.plan.settings import LoraSettings
from vllm_runbooks.plan.shape import Shape
from vllm_runbooks.plan.tensors import ModelTensor
from vllm_runbooks.plan.terms import GIB, NOTHING, Band, Term
from vllm_runbooks.plan.weights import VOCABULARY_PADDING, Ranks, TensorInventory, Variant, on_rank, round_up, stages

_COUNTED: tuple[tuple[Key, str | None], ...] = (((0, 8, 5), "weights"), ((0, 7), None), ((0,), "non_torch"))
"""Term that counts the adapters, by release. 0.6.6 and 0.7.2 measure loading before the model is
wrapped (worker/model_runner.py:1098, :1115), and a launch with 0.8.1 printed only its weights;
0.6.6 counts further PyTorch memory as the rest (utils.py:1819), 0.7.2 does not count it (utils.py
`memory_profiling`). 0.8.5 measures after wrapping (worker/model_runner.py:1140,
v1/worker/gpu_model_runner.py:1333)."""

_FIRST: Key = (0, 6)
_EXPERTS: Key = (0, 11, 1)
"""From here on experts have adapters (lora/layers/fused_moe.py: none in 0.11.0, there in 0.11.2)."""
_EXPERTS_SPLIT: Key = (0, 21)
"""From here on with expert parallelism as well (fused_moe.py: 0.20.2 asserts `not use_ep`, 0.21.0 `_ep_check`)."""
_EXTRA_UNTIL: Key = (0, 12)
"""First release without extra vocabulary for adapters (lora/layers/vocal_parallel_embedding.py:
0.11.2 :56, none in 0.12.0)."""
_HEAD_ROWS = 256
"""Multiple to which releases before 0.12 pad the rows of the head and of its B (config.py
lora_vocab_padding_size, 0.8.5 :2640)."""
_LARGEST_VOCABULARY = ((257_024, (0, 17)), (258_048, NEVER))
"""Largest vocabulary of a head with adapters, and the first release with another limit
(lora/layers/logits_processor.py: 0.16.0 :87, 0.17.1 :87)."""
_TOKEN_BYTES = 48
"""Bytes per token of the tables that map tokens of the batch to adapters: five or six of 8 bytes,
two of 4 (lora/punica_wrapper/punica_base.py, 0.8.5 :133-148;
lora/ops/triton_ops/lora_kernel_metadata.py)."""
_ROUNDED = 400
"""Divisor of the total: rounding of the allocator can add up to this part."""


# ---- which models


@dataclass(frozen=True)
class LoraModel:
    """Layers of an architecture that support LoRA adapters, as named by its class."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    has_lora: bool = True
    since: Key = _FIRST
    """The first release whose class supports adapters."""
    has_known_layers: bool = True
    """Whether the layers that have adapters are known."""
    known_until: Key = NEVER
    """The first release whose class has different layers."""
    ends_since: Key = NEVER
    """The first release in which embedding and head have adapters, too (`embedding_modules`)."""
    ends_until: Key = NEVER
    shares_module_until: Key = ()
    """First release that no longer wraps a tied head, the embedding itself, twice."""
    is_joined: bool = False
    """Queries, keys and values have one A and B together, as the checkpoint stores them; so have gate and up."""

    def has_ends(self, release: Key) -> bool:
        """Whether embedding and head have adapters."""
        return self.ends_since <= release < self.ends_until


def _lora_model(architecture: str | None) -> LoraModel | None:
    return load_table("lora_models", LoraModel).get(architecture or "")


# ---- the request


class LoraDemand(NamedTuple):
    """Options that decide the size of the LoRA buffers."""

    release: Key
    ranks: Ranks
    lora: LoraSettings
    model_width: int
    """Bytes of a value of the model."""
    tokens: int
    """Tokens of a batch."""


def _number(demand: LoraDemand) -> str:
    return ".".join(map(str, demand.release))


def refusals(shape: Shape, demand: LoraDemand) -> Iterator[str]:
    """Reasons why the release rejects the model with adapters, a sentence each."""
    architecture = shape.architecture or ""
    number = _number(demand)
    model = _lora_model(architecture)
    if model is not None and (not model.has_lora or demand.release < model.since):
        yield f"vLLM {number} does not support LoRA for {architecture}"
        return
    tensor = demand.ranks.tensor
    if demand.lora.is_sharded and demand.lora.rank % tensor:
        yield f"--fully-sharded-loras splits the LoRA rank: {demand.lora.rank} is not a multiple of {tensor} GPUs"
    if model is not None and model.has_known_layers and model.has_ends(demand.release):
        most = next(words for words, until in _LARGEST_VOCABULARY if demand.release < until)
        if shape.vocabulary_size > most:
            yield (
                f"vLLM {number} does not support LoRA on the output layer with a vocabulary of "
                f"{shape.vocabulary_size:,} tokens "
                f"(at most {most:,})"
            )
    if demand.ranks.splits_experts and _EXPERTS <= demand.release < _EXPERTS_SPLIT and _has_experts(shape):
        yield f"vLLM {number} does not support LoRA on experts with --enable-expert-parallel"


def _has_experts(shape: Shape) -> bool:
    return any(getattr(layer.feed_forward, "count", 0) for layer in shape.kinds)


# ---- tensors


class _Room:
    """Bytes of A and B on a GPU."""

    def __init__(self, demand: LoraDemand) -> None:
        self.asked = demand
        self.each = demand.lora.slots * demand.lora.value_bytes

    def linear(self, tensor: ModelTensor, *, with_a: bool) -> int:
        """Bytes for one linear layer; without A if it shares that of another layer."""
        demand, tp = self.asked, self.asked.ranks.tensor
        _, outputs, inputs = on_rank(tensor, demand.ranks)
        rank_of_a = demand.lora.rank
        if demand.lora.is_sharded and tp > 1 and tensor.split in ("column", "kv"):
            rank_of_a //= tp
        elif demand.lora.is_sharded and tp > 1 and tensor.split == "row":
            outputs //= tp
        bias = outputs if demand.lora.has_bias else 0
        return self.each * ((rank_of_a * inputs if with_a else 0) + outputs * demand.lora.rank + bias)

    def experts(self, tensor: ModelTensor) -> int:
        """Bytes for one matrix of all experts, which are split or distributed over the GPUs."""
        demand, tp = self.asked, self.asked.ranks.tensor
        count = tensor.count
        if demand.ranks.splits_experts:
            count, tp = -(-count // tp), 1
        is_last = tensor.split == "experts/row"
        inner = -(-(tensor.columns if is_last else tensor.rows) // tp)
        hidden = tensor.rows if is_last else tensor.columns
        # Fully sharded LoRA divides the hidden-state side: A by its rank, B by its output.
        outer = hidden * demand.lora.rank // (tp if demand.lora.is_sharded else 1)
        return self.each * count * (outer + inner * demand.lora.rank)

    def embedding(self, words: int, hidden: int) -> int:
        """Bytes for the embedding, which is not split over ranks."""
        demand = self.asked
        extra = demand.lora.slots * demand.lora.extra_words * hidden * demand.model_width
        return self.each * (words + demand.lora.extra_words + hidden) * demand.lora.rank + extra

    def head(self, words: int, hidden: int) -> int:
        """Bytes for the head, whose B is not split over ranks."""
        demand = self.asked
        rows, table = words + demand.lora.extra_words, 0
        if demand.release < _EXTRA_UNTIL:
            rows = round_up(rows, _HEAD_ROWS)
        if demand.ranks.tensor > 1:
            # Index of each word in the gathered logits, 8 bytes per entry.
            table = 8 * self.rows_of_head(words)
        extra = demand.lora.slots * demand.lora.extra_words * hidden * demand.model_width
        return self.each * (hidden + rows) * demand.lora.rank + extra + table

    def rows_of_head(self, words: int) -> int:
        demand = self.asked
        if demand.release >= _EXTRA_UNTIL:
            return round_up(words, VOCABULARY_PADDING)
        return round_up(round_up(words, _HEAD_ROWS) + demand.lora.extra_words, _HEAD_ROWS)

    def words(self, count: int, hidden: int, *, is_head: bool) -> int:
        """Bytes by which the embedding or the head grows for the adapters' extra vocabulary."""
        demand = self.asked
        if not demand.lora.extra_words:
            return 0
        before = round_up(count, VOCABULARY_PADDING)
        after = (
            self.rows_of_head(count)
            if is_head
            else round_up(before + demand.lora.extra_words * demand.lora.slots, VOCABULARY_PADDING)
        )
        return (after - before) // demand.ranks.tensor * hidden * demand.model_width


def _layer(variant: Variant, model: LoraModel, room: _Room) -> tuple[int, int]:
    """Bytes of one layer, and of the router's, which not every release wraps."""
    size = router = 0
    joined: set[str] = set()
    for tensor, _ in variant.tensors:
        if tensor.component == "experts":
            size += room.experts(tensor) if room.asked.release >= _EXPERTS else 0
        elif tensor.component == "router" and tensor.columns > 1:
            router += room.linear(tensor, with_a=True)
        elif tensor.is_linear:
            shares = model.is_joined and tensor.fused in joined
            size += room.linear(tensor, with_a=not shares)
            if tensor.fused:
                joined.add(tensor.fused)
    return size, router


# ---- terms


def _why_unknown(stock: TensorInventory, demand: LoraDemand) -> str | None:
    shape = stock.shape
    model = _lora_model(shape.architecture)
    number = _number(demand)
    if model is None or not model.has_known_layers or not _FIRST <= demand.release < model.known_until:
        return f"which layers of {shape.architecture} support LoRA in vLLM {number}"
    if not stock.variants:
        return ", ".join(stock.missing) or "layers"
    if not _has_experts(shape):
        return None
    if demand.ranks.data > 1:
        return "how expert adapters are split over data parallel ranks"
    if shape.quantization is not None and demand.release >= _EXPERTS:
        return "whether kernels of quantized experts support LoRA"
    return None


def counted_in(release: Key) -> str | None:
    """Term that counts adapters in this release; None if uncertain."""
    return next(name for since, name in _COUNTED if release >= since)


def room(stock: TensorInventory, demand: LoraDemand) -> tuple[Term, ...]:
    """LoRA buffers on a GPU of each pipeline stage; unknown amounts name the missing input."""
    why = _why_unknown(stock, demand)
    pipeline = demand.ranks.pipeline
    if why is not None:
        return (Term("adapters", None, f"unknown: {why}"),) * pipeline
    shape = stock.shape
    model, sizes = _lora_model(shape.architecture) or LoraModel(), _Room(demand)
    layer_sizes = [(variant.layers, *_layer(variant, model, sizes)) for variant in stock.variants]
    tables = demand.tokens * _TOKEN_BYTES
    source = f"{demand.lora.slots} of rank {demand.lora.rank}, allocated when the model is loaded: vllm lora/layers"
    terms, start = [], 0
    for stage, count in enumerate(stages(shape.layers, demand.ranks, demand.release)):
        size = _ends(shape, model, sizes, is_first=stage == 0, is_last=stage == pipeline - 1)
        router = 0
        for layers, layer_bytes, routed in layer_sizes:
            times = sum(start <= layer < start + count for layer in layers)
            size, router = size + layer_bytes * times, router + routed * times
        start += count
        whole = size + router + tables
        terms.append(Term("adapters", Band(size, whole, whole + whole // _ROUNDED), source))
    if counted_in(demand.release) is None:
        return tuple(_left_out(term, demand) for term in terms)
    return tuple(terms)


def _left_out(term: Term, demand: LoraDemand) -> Term:
    gib = (term.band or NOTHING).expected / GIB
    reason = f"adapters need {gib:.2f} GiB, which vLLM {_number(demand)} may not count"
    return replace(term, band=None, source=f"{reason}: then the KV cache gets that memory too")


def _ends(shape: Shape, model: LoraModel, room: _Room, *, is_first: bool, is_last: bool) -> int:
    """Bytes for the embedding and the head on the stages that have them."""
    if not model.has_ends(room.asked.release):
        return 0
    words, hidden = shape.vocabulary_size, shape.hidden_size
    size = 0
    if is_last and shape.ties_embeddings and _FIRST <= room.asked.release < model.shares_module_until:
        size += room.embedding(words, hidden)
    if is_first or (is_last and shape.ties_embeddings):
        size += room.embedding(words, hidden) + room.words(words, hidden, is_head=False)
    if is_last:
        size += room.head(words, hidden)
        if not shape.ties_embeddings:
            size += room.words(words, hidden, is_head=True)
    return size
