"""What a step takes of disk and memory, by the model's own size: each term at least, with its source.

What a model's tensors take is reckoned by `plan`, or read from the headers of its files. What the toolchain's own
programs take beside them is told nowhere, so that it is named and not counted.
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
from vllm_runbooks.plan.budget import Subject
from vllm_runbooks.plan.shape import Format, Quantization

_GIB = 1 << 30
_MIB_PER_GIB = 1024
_WIDTH = 2
"""Bytes of a value in 16 bits, in which the guide's scripts load and serve."""
_WIDTHS = {"float16": 2, "bfloat16": 2, "float32": 4}
_GROUP = 128
_AWQ = Quantization("awq", ((("Linear",), Format(bits=4, group=_GROUP, has_zeros=True)),))
"""The language part in 4 bits; embedding, head, norms and a vision part stay as they are."""
_AWQ_SOURCE = (
    f"reckoned from its tensors: linear layers of the language part in 4 bits, a scale and a zero for {_GROUP} of "
    "them, as quantised models of the catalog are reckoned"
)
_BY_TENSORS = "reckoned from its tensors"


class Sizes:
    """What a model takes, in GiB; None is not known."""

    def __init__(self, model: Subject, of: Toolchain) -> None:
        """Reckon it once."""
        self.name = model.name
        self.is_folder = model.checkpoint_bytes is not None
        self.is_quantised = model.shape.quantization is not None
        self.missing = model.stock.missing
        stored = model.checkpoint_bytes
        self.stored = _gib(weights.checkpoint_bytes(model.stock) if stored is None else stored)
        self.stored_source = f"headers of the weight files in {model.name}" if self.is_folder else _BY_TENSORS
        self.loaded = None if self.is_quantised else self._in_16_bits(model)
        quantised = weights.inventory(replace(model.shape, quantization=_AWQ, dtype="float16"))
        self.quantised = self.stored if self.is_quantised else _gib(weights.checkpoint_bytes(quantised))
        self.quantised_source = self.stored_source if self.is_quantised else _AWQ_SOURCE
        tokens = of.calibration.samples * of.calibration.tokens
        self.calibration = tokens * model.shape.hidden_size * _WIDTH / _GIB if model.shape.hidden_size else None
        self.calibration_source = (
            f"{of.calibration.samples} samples of {of.calibration.tokens} tokens ({of.id}) times the hidden size, in "
            "16 bits: what goes into one layer"
        )

    def _in_16_bits(self, model: Subject) -> float | None:
        """By the files where their dtype is known, which holds of families that are not known as well."""
        width = _WIDTHS.get(model.shape.dtype or "")
        if self.is_folder and width is not None and self.stored is not None:
            return self.stored * _WIDTH / width
        values = model.stock.parameters()
        return None if values is None else values * _WIDTH / _GIB


def _gib(size: int | None) -> float | None:
    return None if size is None else size / _GIB


def needs(host: EdgeHost, step: str, model: Subject, of: Toolchain, specs: Specs) -> tuple[HostNeed, ...]:
    """What a step takes of disk, memory and the cards' memory, beside what is there."""
    sizes = Sizes(model, of)
    disk, memory, cards = _TERMS[step](sizes, bool(_cards(host.inventory)))
    found = []
    if disk is not None:
        folder = host.folder
        where = "the data folder" if folder is None else f"the disk of {folder.looked_at or folder.path}"
        found.append(_need("disk", disk, None if folder is None else folder.free_gib, where))
    if memory is not None:
        found.append(_need("memory", memory, _free(host.inventory.host), "this host"))
    if cards is not None:
        found.append(_need("GPU memory", cards, _of_cards(host.inventory, specs), "all cards together"))
    return tuple(found)


_Counted = tuple[Sequence[NeedTerm], str]
"""What is counted, and what comes on top."""


def _quantising(sizes: Sizes, has_cards: bool) -> tuple[_Counted | None, _Counted | None, _Counted | None]:  # noqa: FBT001 - as its siblings
    if sizes.is_quantised:
        return None, None, None
    fetched = () if sizes.is_folder else (NeedTerm(f"{sizes.name}, to be fetched", sizes.stored, sizes.stored_source),)
    disk = (
        *fetched,
        NeedTerm("the quantised model", sizes.quantised, sizes.quantised_source),
        NeedTerm("the converted model", sizes.quantised, f"{_AWQ_SOURCE}; converting writes it once more"),
    )
    memory = (
        NeedTerm(f"{sizes.name} in 16 bits", sizes.loaded, f"{_BY_TENSORS}; the guide's scripts load it whole"),
        NeedTerm("calibration", sizes.calibration, sizes.calibration_source),
    )
    on_cards = "; with cards a part of the model goes there" if has_cards else ""
    return (disk, "the calibration data set"), (memory, f"what the quantiser keeps beside them{on_cards}"), None


def _evaluating(sizes: Sizes, has_cards: bool) -> tuple[_Counted | None, _Counted | None, _Counted | None]:  # noqa: FBT001
    both: tuple[NeedTerm, ...] = (
        NeedTerm(f"weights of {sizes.name}", sizes.loaded, f"{_BY_TENSORS}, in 16 bits"),
        NeedTerm("weights of the quantised model", sizes.quantised, sizes.quantised_source),
    )
    if sizes.is_quantised:
        both = (NeedTerm(f"weights of {sizes.name}", sizes.quantised, sizes.quantised_source),)
    served = (both, "the KV caches and what vLLM takes beside the weights: vllm-runbooks plan reckons both")
    return None, None if has_cards else served, served if has_cards else None


def _compiling(sizes: Sizes, has_cards: bool) -> tuple[_Counted | None, _Counted | None, _Counted | None]:  # noqa: FBT001
    of = sizes.name if sizes.is_quantised else "the quantised model"
    disk = (NeedTerm("the compiled model: its weights, once", sizes.quantised, sizes.quantised_source),)
    memory = (NeedTerm(f"weights of {of}", sizes.quantised, sizes.quantised_source),)
    on_cards = ", and what it puts on the cards" if has_cards else ""
    return (
        (disk, "constants and programs of each length and die, and what the compiler leaves"),
        (memory, f"what the compiler takes beside them{on_cards}"),
        None,
    )


_TERMS = {"quantise": _quantising, "evaluate": _evaluating, "compile": _compiling}


def _need(what: str, counted: _Counted, there: float | None, where: str) -> HostNeed:
    terms, uncounted = counted
    known = [term.gib for term in terms if term.gib is not None]
    least = sum(known) if len(known) == len(terms) else None
    # Even without the terms that are not known it may be too little.
    is_short = there is not None and sum(known) > there
    is_enough = False if is_short else None if least is None or there is None else True
    return HostNeed(what, tuple(terms), least, there, where, is_enough, uncounted)


def _cards(found: Inventory) -> tuple[int, ...]:
    return tuple(gpu.index for gpu in found.gpus if not unfit(gpu))


def _of_cards(found: Inventory, specs: Specs) -> float | None:
    """Memory that processes can have of all cards that take a start, less what others hold; None: one is not told."""
    free = []
    for gpu in found.gpus:
        if unfit(gpu):
            continue
        usable = usable_mib(gpu, specs)
        if usable is None or gpu.used_mib is None:
            return None
        free.append(max(usable - gpu.used_mib, 0.0))
    return sum(free) / _MIB_PER_GIB


def _free(host: HostFacts) -> float | None:
    """Memory that a process can have, by the system and by the control group around it."""
    if host.memory_available_mib is None:
        return None
    limit = host.memory_limit_mib
    room = [host.memory_available_mib]
    if limit is not None and limit >= 0:
        room.append(max(limit - (host.memory_used_mib or 0.0), 0.0))
    return min(room) / _MIB_PER_GIB
