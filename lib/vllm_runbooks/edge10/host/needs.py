"""Disk and memory that a step takes by the model's size: each term is a lower bound with its source.

The model's tensors are estimated by `plan`, or read from the headers of its files. What the toolchain's own programs
take is undocumented: it is named and not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vllm_runbooks.catalog.specs import Specs
from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.edge10.host.records import EdgeHost, HostNeed, NeedTerm
from vllm_runbooks.host.inspection import unfit, usable_mib
from vllm_runbooks.host.records import HostFacts, Inventory
from vllm_runbooks.plan import weights
from vllm_runbooks.plan.budget import PlannedModel
from vllm_runbooks.plan.shape import Format, Quantization

_GIB = 1 << 30
_MIB_PER_GIB = 1024
_HALF_BYTES = 2
"""Bytes of a 16-bit value, in which the guide's scripts load and serve."""
_DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
_GROUP = 128
_AWQ = Quantization("awq", ((("Linear",), Format(bits=4, group=_GROUP, has_zeros=True)),))
"""The language part in 4 bits; embedding, head, norms and a vision part stay as they are."""
_BY_TENSORS = "reckoned from its tensors"
_AWQ_SOURCE = (
    f"{_BY_TENSORS}: linear layers of the language part in 4 bits, a scale and a zero for {_GROUP} of "
    "them, as quantised models of the catalog are reckoned"
)


class ModelSizes:
    """Sizes of a model in GiB; None if unknown."""

    def __init__(self, model: PlannedModel, facts: Toolchain) -> None:
        self.name = model.name
        self.is_folder = model.checkpoint_bytes is not None
        self.is_quantised = model.shape.quantization is not None
        stored = model.checkpoint_bytes if self.is_folder else weights.checkpoint_bytes(model.stock)
        self.stored = _gib(stored)
        self.stored_source = f"headers of the weight files in {model.name}" if self.is_folder else _BY_TENSORS
        self.loaded = None if self.is_quantised else self._in_16_bits(model)
        quantised = weights.inventory(replace(model.shape, quantization=_AWQ, dtype="float16"))
        self.quantised = self.stored if self.is_quantised else _gib(weights.checkpoint_bytes(quantised))
        self.quantised_source = self.stored_source if self.is_quantised else _AWQ_SOURCE
        samples, tokens = facts.calibration.samples, facts.calibration.tokens
        hidden = model.shape.hidden_size
        self.calibration = samples * tokens * hidden * _HALF_BYTES / _GIB if hidden else None
        self.calibration_source = (
            f"{samples} samples of {tokens} tokens ({facts.id}) times the hidden size, in 16 bits: what goes into one "
            "layer"
        )

    def _in_16_bits(self, model: PlannedModel) -> float | None:
        """By the files if their dtype is known: that works for unknown model families as well."""
        width = _DTYPE_BYTES.get(model.shape.dtype or "")
        if self.is_folder and width is not None and self.stored is not None:
            return self.stored * _HALF_BYTES / width
        values = model.stock.parameters()
        return None if values is None else values * _HALF_BYTES / _GIB


def _gib(size: int | None) -> float | None:
    return None if size is None else size / _GIB


def needs(host: EdgeHost, step: str, model: PlannedModel, facts: Toolchain, specs: Specs) -> tuple[HostNeed, ...]:
    """Disk, memory and GPU memory that a step takes, and what is free."""
    sizes, inventory, folder = ModelSizes(model, facts), host.inventory, host.folder
    has_gpus = any(not unfit(gpu) for gpu in inventory.gpus)
    where = "the data folder" if folder is None else f"the disk of {folder.looked_at or folder.path}"
    free = None if folder is None else folder.free_gib
    memory = _free_memory_gib(inventory.host)
    if step == "evaluate":
        terms = [
            NeedTerm(f"weights of {sizes.name}", sizes.loaded, f"{_BY_TENSORS}, in 16 bits"),
            NeedTerm("weights of the quantised model", sizes.quantised, sizes.quantised_source),
        ]
        if sizes.is_quantised:
            terms = [NeedTerm(f"weights of {sizes.name}", sizes.quantised, sizes.quantised_source)]
        more = "the KV caches and what vLLM takes beside the weights: vllm-runbooks plan reckons both"
        if has_gpus:
            gpu_memory = _free_gpu_memory_gib(inventory, specs)
            return (_need("GPU memory", terms, more, gpu_memory, "all cards together"),)
        return (_need("memory", terms, more, memory, "this host"),)
    if step == "compile":
        weights_of = sizes.name if sizes.is_quantised else "the quantised model"
        disk_terms = [NeedTerm("the compiled model: its weights, once", sizes.quantised, sizes.quantised_source)]
        disk_more = "constants and programs of each length and die, and what the compiler leaves"
        memory_terms = [NeedTerm(f"weights of {weights_of}", sizes.quantised, sizes.quantised_source)]
        memory_more = "what the compiler takes beside them" + (", and what it puts on the cards" if has_gpus else "")
    elif sizes.is_quantised:
        return ()
    else:
        download = NeedTerm(f"{sizes.name}, to be fetched", sizes.stored, sizes.stored_source)
        converted = f"{_AWQ_SOURCE}; converting writes it once more"
        disk_terms = [
            *([] if sizes.is_folder else [download]),
            NeedTerm("the quantised model", sizes.quantised, sizes.quantised_source),
            NeedTerm("the converted model", sizes.quantised, converted),
        ]
        disk_more = "the calibration data set"
        loaded = f"{_BY_TENSORS}; the guide's scripts load it whole"
        memory_terms = [
            NeedTerm(f"{sizes.name} in 16 bits", sizes.loaded, loaded),
            NeedTerm("calibration", sizes.calibration, sizes.calibration_source),
        ]
        on_gpus = "; with cards a part of the model goes there" if has_gpus else ""
        memory_more = f"what the quantiser keeps beside them{on_gpus}"
    return (
        _need("disk", disk_terms, disk_more, free, where),
        _need("memory", memory_terms, memory_more, memory, "this host"),
    )


def _need(what: str, terms: Sequence[NeedTerm], uncounted: str, free: float | None, where: str) -> HostNeed:
    sizes = [term.gib for term in terms if term.gib is not None]
    least = sum(sizes) if len(sizes) == len(terms) else None
    # Even without the unknown terms it may be too little.
    is_short = free is not None and sum(sizes) > free
    is_enough = False if is_short else None if least is None or free is None else True
    return HostNeed(what, tuple(terms), least, free, where, is_enough, uncounted)


def _free_gpu_memory_gib(inventory: Inventory, specs: Specs) -> float | None:
    """Free memory of all usable GPUs; None if one is unknown."""
    free = []
    for gpu in inventory.gpus:
        if unfit(gpu):
            continue
        usable = usable_mib(gpu, specs)
        if usable is None or gpu.used_mib is None:
            return None
        free.append(max(usable - gpu.used_mib, 0.0))
    return sum(free) / _MIB_PER_GIB


def _free_memory_gib(host: HostFacts) -> float | None:
    free, limit = host.memory_available_mib, host.memory_limit_mib
    if free is not None and limit is not None and limit >= 0:
        free = min(free, max(limit - (host.memory_used_mib or 0.0), 0.0))
    return None if free is None else free / _MIB_PER_GIB
