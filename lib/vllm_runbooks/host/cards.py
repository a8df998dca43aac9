"""GPUs of a snapshot for the planner: the catalog's GPU if known, with the measured memory."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from vllm_runbooks.catalog.specs import Gpu, HostGpu, Specs, Total
from vllm_runbooks.core.display import visible
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.host.records import GpuFacts, Inventory

MIB_PER_GIB = 1024
AT_WORK = 50.0
"""Utilization in percent from which a GPU is busy: its link is at full speed, and its memory may
change."""
_ALIKE = 0.02
"""Relative difference up to which measured and printed memory of a GPU are the same."""
_MAX_NAME = 80
_SHOWN = 3


def cards(snapshot: Inventory, specs: Specs, where: str, node: str | None = None) -> tuple[HostGpu, ...]:
    """List the GPUs of a snapshot by number, but divided (MIG) and lost ones; raises InputError if one is unknown."""
    whole = [gpu for gpu in snapshot.gpus if not gpu.is_mig and gpu.error is None]
    if not whole:
        why = f" ({redact_text(visible(snapshot.no_gpus_reason))})" if snapshot.no_gpus_reason else ""
        unfit_ones = "; ".join(f"GPU {gpu.index} {unfit(gpu)}" for gpu in snapshot.gpus[:_SHOWN])
        none = f"no usable GPU: {unfit_ones}" if snapshot.gpus else f"no GPUs{why}"
        raise InputError(f"{where}: {none}; name the GPUs, as in 8xRTX3090")
    used_gib = {gpu.index: None if gpu.used_mib is None else gpu.used_mib / MIB_PER_GIB for gpu in whole}
    whole.sort(key=lambda gpu: gpu.index)
    return tuple(HostGpu(_card(gpu, specs, where), node, gpu.index, used_gib[gpu.index]) for gpu in whole)


def known(gpu: GpuFacts, specs: Specs) -> Gpu | None:
    """GPU of the catalog by name; None if there is none, or several."""
    return specs.known(gpu.name or "")


def unfit(gpu: GpuFacts) -> str:
    """Reason why no launch should use a GPU, regardless of its memory; empty if there is none."""
    if gpu.error is not None:
        return f"cannot be reached through the driver ({_line(gpu.error)})"
    if gpu.is_mig:
        return "is divided into instances (MIG)"
    if gpu.compute_mode == "prohibited":
        return "allows no compute processes (prohibited mode)"
    if gpu.compute_mode == "exclusive process" and gpu.processes:
        return "is in exclusive mode and in use"
    return "has a failed row remap" if gpu.is_remap_failed else ""


def gib(mib: float) -> str:
    """Memory, for people."""
    return f"{mib / MIB_PER_GIB:.1f} GiB"


def usable_mib(gpu: GpuFacts, specs: Specs) -> float | None:
    """Memory of a GPU for processes, as read or else by the catalog; None if unknown."""
    if gpu.total_mib is not None:
        return gpu.total_mib - (gpu.reserved_mib or 0)
    card = known(gpu, specs)
    return card.total.expected * MIB_PER_GIB if card is not None and card.total is not None else None


def _card(gpu: GpuFacts, specs: Specs, where: str) -> Gpu:
    card = known(gpu, specs)
    if card is None and gpu.total_mib is None:
        name = _line(gpu.name) or "it has no name"
        raise InputError(f"{where}: GPU {gpu.index}: no memory size and unknown name ({name}); add total_mib")
    total = _total(gpu, card, specs)
    if card is None:
        card = Gpu(_line(gpu.name) or f"GPU {gpu.index}", round((gpu.total_mib or 0) / MIB_PER_GIB), (), total=total)
    return replace(card, total=total, capability=gpu.capability or card.capability)


def _line(text: str | None) -> str:
    """A short text in one line, without terminal control characters."""
    return visible(" ".join(redact_text(text or "").split()))[:_MAX_NAME]


def _total(gpu: GpuFacts, card: Gpu | None, specs: Specs) -> Total | None:
    """Memory available to a launch: the total less the driver's part, bounded by printed lines.

    If the reserved memory is unknown, the printed lines of a known GPU are more exact than the
    total; for an unknown GPU the ratio of other GPUs' lines is used.
    """
    printed = card.total if card is not None else None
    if gpu.total_mib is None:
        return printed
    size = gpu.total_mib / MIB_PER_GIB
    if gpu.reserved_mib is not None:
        left = size - gpu.reserved_mib / MIB_PER_GIB
        source = f"read from the driver: {gpu.total_mib:,.0f} MiB, of which {gpu.reserved_mib:,.0f} is reserved"
        if printed is not None and abs(printed.expected / left - 1) <= _ALIKE:
            return Total(min(printed.low, left), left, max(printed.high, left), f"{source}; {printed.source}")
        return Total(left, left, left, source)
    if printed is not None and printed.low <= size and printed.expected >= size * (1 - 2 * _ALIKE):
        return replace(printed, high=min(printed.high, size))
    shares = _shares(specs)
    source = (
        f"read from the driver: {gpu.total_mib:,.0f} MiB, of which {shares[0]:.1%} to {shares[-1]:.1%} is usable "
        "on other GPUs"
    )
    return Total(size * shares[0], size * median(shares), size, source)


def _shares(specs: Specs) -> list[float]:
    """Ratios of the memory that launches found to nvidia-smi's value, over all GPUs with both."""
    return sorted(
        line.gib / (memory.mib / MIB_PER_GIB)
        for gpu in specs.table.gpus
        for line in gpu.reported
        for memory in gpu.nvidia_smi[:1]
    ) or [1.0]
