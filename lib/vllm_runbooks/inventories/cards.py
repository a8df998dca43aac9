"""The cards of a snapshot as a plan takes them: the catalog's card where it is known, with the memory that was read."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from vllm_runbooks.display import visible
from vllm_runbooks.errors import InputError
from vllm_runbooks.host_records import GpuFacts, Inventory
from vllm_runbooks.redact import redact_text
from vllm_runbooks.specs import Card, Gpu, Specs, Total

_MIB_PER_GIB = 1024
_ALIKE = 0.02
"""Share by which what was read may differ from what lines of the card show for both to be the same thing."""
_MAX_NAME = 80


def cards(found: Inventory, specs: Specs, where: str, node: str | None = None) -> tuple[Card, ...]:
    """The cards of a snapshot, by their numbers.

    A card that is divided into instances (MIG) is none: a start sees a part of it.

    Raises:
        InputError: there is none, or of one neither its memory nor a name that the catalog knows.
    """
    whole = [gpu for gpu in found.gpus if not gpu.is_parted]
    if not whole:
        why = f" ({redact_text(visible(found.why_none))})" if found.why_none else ""
        none = "all its GPUs are divided into instances (MIG)" if found.gpus else f"lists no GPU{why}"
        raise InputError(f"{where}: {none}; name the cards, as in 8xRTX3090")
    return tuple(
        Card(
            _card(gpu, specs, where),
            node,
            gpu.index,
            None if gpu.used_mib is None else gpu.used_mib / _MIB_PER_GIB,
        )
        for gpu in sorted(whole, key=lambda gpu: gpu.index)
    )


def known(gpu: GpuFacts, specs: Specs) -> Gpu | None:
    """The catalog's card of that name; None: there is none, or several."""
    try:
        return specs.gpu(gpu.name or "")
    except InputError:
        return None


def usable_mib(gpu: GpuFacts, specs: Specs) -> float | None:
    """Memory that processes can have of a card: as read, else as the catalog knows; None: not known."""
    if gpu.total_mib is not None:
        return gpu.total_mib - (gpu.reserved_mib or 0)
    card = known(gpu, specs)
    return card.total.expected * _MIB_PER_GIB if card is not None and card.total is not None else None


def _card(gpu: GpuFacts, specs: Specs, where: str) -> Gpu:
    card = known(gpu, specs)
    if card is None and gpu.total_mib is None:
        said = _name(gpu) or "it has no name"
        raise InputError(
            f"{where}: GPU {gpu.index}: neither its memory nor a name that the catalog knows ({said}); add total_mib"
        )
    total = _total(gpu, card, specs)
    if card is None:
        card = Gpu(_name(gpu) or f"GPU {gpu.index}", round((gpu.total_mib or 0) / _MIB_PER_GIB), (), total=total)
    return replace(card, total=total, capability=gpu.capability or card.capability)


def _name(gpu: GpuFacts) -> str:
    """Its name in one line, without what steers a terminal."""
    return visible(" ".join(redact_text(gpu.name or "").split()))[:_MAX_NAME]


def _total(gpu: GpuFacts, card: Gpu | None, specs: Specs) -> Total | None:
    """What a start will find: what was read less what the driver keeps, with the scatter of the card's printed lines.

    A start finds what NVML calls the total less the reserved, or a little less. Where the reserved was not told, the
    lines of a known card say more than the total; of an unknown one it is the share that lines of other cards show.
    """
    told = card.total if card is not None else None
    if gpu.total_mib is None:
        return told
    size = gpu.total_mib / _MIB_PER_GIB
    if gpu.reserved_mib is not None:
        left = size - gpu.reserved_mib / _MIB_PER_GIB
        source = f"read from the driver: {gpu.total_mib:,.0f} MiB, of which it keeps {gpu.reserved_mib:,.0f}"
        if told is not None and abs(told.expected / left - 1) <= _ALIKE:
            return Total(min(told.low, left), left, max(told.high, left), f"{source}; {told.source}")
        return Total(left, left, left, source)
    if told is not None and told.low <= size and told.expected >= size * (1 - 2 * _ALIKE):
        return replace(told, high=min(told.high, size))
    shares = _shares(specs)
    source = (
        f"read from the driver: {gpu.total_mib:,.0f} MiB, of which lines of other cards leave "
        f"{shares[0]:.1%} to {shares[-1]:.1%}"
    )
    return Total(size * shares[0], size * median(shares), size, source)


def _shares(specs: Specs) -> list[float]:
    """Of what nvidia-smi prints, the share that starts found, over all cards that show both."""
    return sorted(
        line.gib / (shown.mib / _MIB_PER_GIB)
        for gpu in specs.table.gpus
        for line in gpu.reported
        for shown in gpu.nvidia_smi[:1]
    ) or [1.0]
