"""Recommend a GPU for the next launch by its free memory, changes, utilization and processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vllm_runbooks.catalog.room import MemoryClaim, of_share, usual_share
from vllm_runbooks.catalog.specs import Specs
from vllm_runbooks.host.cards import AT_WORK, MIB_PER_GIB, gib, unfit, usable_mib
from vllm_runbooks.host.records import GpuUse, Inventory, RankedGpu, Recommendation

STEADY_MIB = 64.0
"""Tolerance for the memory in use of an idle GPU."""
_UNTOLD = "utilization unknown"
_ONE_LOOK = "one reading shows no trend; use --watch"


def uses_of(inventory: Inventory, specs: Specs) -> tuple[GpuUse, ...]:
    """One look at a host, as a series of one."""
    return tuple(
        GpuUse(
            gpu.index,
            gpu.name,
            usable_mib(gpu, specs),
            (gpu.used_mib,),
            (gpu.busy_percent,),
            None if gpu.processes is None else tuple(process.says for process in gpu.processes),
            unfit(gpu),
        )
        for gpu in inventory.gpus
    )


def recommend(uses: Sequence[GpuUse], *, seconds: float, need_gib: float | None) -> Recommendation:
    """Recommend a GPU, with the reason for it and against each other one.

    A GPU is suitable if its utilization is known, its memory is steady over the samples, and enough
    is free: `need_gib`, or the default share. The best has no other processes and the lowest
    utilization, then the most free memory. A GPU with unknown memory or utilization in any sample
    is never recommended.
    """
    judged = sorted((_judged(use, need_gib) for use in uses), key=_order)
    best = judged[0] if judged and judged[0].is_suitable else None
    looks = max((len(use.used_mib) for use in uses), default=0)
    ranked = tuple(replace(gpu, reason=_against(gpu, best)) if best is not None else gpu for gpu in judged)
    if best is not None:
        reason = f"GPU {best.index}: {ranked[0].reason}"
    elif any(gpu.is_suitable is None for gpu in judged):
        unsure = sorted(gpu.index for gpu in judged if gpu.is_suitable is None)
        reason = f"no GPU is certain to be suitable: use or memory of GPU {', '.join(map(str, unsure))} is unknown"
        reason += ", and no other GPU is" * (len(judged) > len(unsure))
    else:
        reason = "no suitable GPU: all are in use or have too little free memory"
    index = best.index if best is not None else None
    return Recommendation(index, reason, ranked, looks, seconds, need_gib, _ONE_LOOK if looks == 1 else "")


def _order(gpu: RankedGpu) -> tuple[float, ...]:
    suitable = {True: 0, None: 1, False: 2}[gpu.is_suitable]
    return (
        suitable,
        gpu.free_mib is None,
        (gpu.busy_percent or 0) >= AT_WORK,
        gpu.memory_change_mib or 0,
        gpu.busy_percent if gpu.busy_percent is not None else 100,
        -(gpu.free_mib if gpu.free_mib is not None else -1),
        gpu.index,
    )


def _judged(use: GpuUse, need_gib: float | None) -> RankedGpu:
    used = [value for value in use.used_mib if value is not None]
    busy = max((value for value in use.busy_percent if value is not None), default=None)
    is_told = len(used) == len(use.used_mib) > 0 and use.total_mib is not None
    free = use.total_mib - used[-1] if is_told and use.total_mib is not None else None
    moved = max(used) - min(used) if len(used) == len(use.used_mib) > 1 else None
    made = RankedGpu(use.index, use.name, free, moved, busy, None, "")
    against = [use.unfit] if use.unfit else []
    unknown: list[str] = []
    if used and use.total_mib is not None:
        room = _room(use.total_mib, max(used), need_gib)
        if room is None:
            unknown.append("default memory of a server unknown")
        elif not room.is_enough:
            whose = "needed" if need_gib is not None else "needed by default"
            against.append(f"{gib(room.free)} free, {gib(room.wanted)} {whose}")
    if not is_told:
        unknown.append("memory use unknown" if len(used) < len(use.used_mib) or not used else "memory size unknown")
    if moved is not None and moved > STEADY_MIB:
        way = "freed" if used[-1] < used[0] else "allocated" if used[-1] > used[0] else "allocated and freed"
        against.append(f"other processes {way} memory while watching: {moved:,.0f} MiB")
    if busy is not None and busy >= AT_WORK:
        others = f", by {', '.join(use.processes[:3])}" if use.processes else ""
        against.append(f"{busy:.0f}% utilization by other processes{others}")
    is_use_told = None not in use.busy_percent
    if not is_use_told and (unknown or busy is None):
        unknown.append(_UNTOLD)
    if against:
        return replace(made, is_suitable=False, reason="; ".join([*against, *unknown]))
    if unknown and unknown != [_UNTOLD]:
        return replace(made, reason="; ".join(unknown))
    reasons = [f"{gib(free or 0)} free of {gib(use.total_mib or 0)}"]
    reasons.append(f"utilization {busy:.0f}%" if is_use_told else _UNTOLD)
    if moved is not None:
        reasons.insert(1, f"its memory is steady, it changed by {moved:,.0f} MiB")
    if use.processes:
        reasons.append(f"shared with {', '.join(use.processes[:3])}")
    elif use.processes is not None:
        reasons.append("no other processes")
    else:
        reasons.append("processes unknown")
    if not is_use_told:
        return replace(made, reason=f"as far as known: {'; '.join(reasons)}")
    return replace(made, is_suitable=True, reason="; ".join(reasons))


def _room(total: float, used: float, need_gib: float | None) -> MemoryClaim | None:
    """Required memory, by default that of a server, compared with the free memory."""
    if need_gib is not None:
        return MemoryClaim(total, used, need_gib * MIB_PER_GIB)
    share = usual_share()
    return None if share is None else of_share(total, used, share)


def _against(gpu: RankedGpu, best: RankedGpu) -> str:
    """Reason why a suitable GPU was not chosen; for any other its own reason."""
    if not gpu.is_suitable or gpu.index == best.index or best.free_mib is None or gpu.free_mib is None:
        return gpu.reason
    if (gpu.busy_percent or 0) > (best.busy_percent or 0):
        return f"suitable, but utilization {gpu.busy_percent:.0f}% (GPU {best.index}: {best.busy_percent or 0:.0f}%)"
    if gpu.free_mib < best.free_mib:
        return f"suitable, but has {gib(gpu.free_mib)} free, GPU {best.index} {gib(best.free_mib)}"
    if (gpu.memory_change_mib or 0) > (best.memory_change_mib or 0):
        theirs = f"GPU {best.index}'s by {best.memory_change_mib or 0:,.0f} MiB"
        return f"suitable, but its memory changed by {gpu.memory_change_mib:,.0f} MiB, {theirs}"
    return f"as suitable as GPU {best.index}"
