"""Rules on the facts of a host: their meaning for vLLM, and unknown facts.

Severities, remedies and sources are in `catalog/tables/host_findings.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.room import TAKEN_GIB, of_share, usual_share
from vllm_runbooks.catalog.specs import Capability, Gpu, Specs
from vllm_runbooks.catalog.start_rules import start_rules
from vllm_runbooks.catalog.tables import FindingText, RuleFinding, load_table
from vllm_runbooks.core.records import Severity
from vllm_runbooks.host.cards import AT_WORK, MIB_PER_GIB, gib, known, unfit, usable_mib
from vllm_runbooks.host.records import SHARED, GpuFacts, GpuPair, Inventory, UnknownFact

SMALL_SHM_MIB = 1024.0
LEAST_MEMLOCK_MIB = 64.0
OPEN_FILES = 65535
"""Limit of open files that vLLM sets (0.32.0 utils/system_utils.py:241)."""
_SLOW_WIDTH = 4
_FIGURE = re.compile(r"\d{1,12}(?:\.\d{1,4})?(?= (?:GiB|%|W|is the most))", re.ASCII)
"""A figure that may differ between GPUs of one finding."""


class HostRuleContext:
    """A snapshot of a host with the catalog's data on it."""

    def __init__(self, inventory: Inventory, specs: Specs) -> None:
        self.inventory, self.specs, self.host = inventory, specs, inventory.host
        self.gpus = [gpu for gpu in inventory.gpus if gpu.error is None]
        self.newest = options.known_releases()[-1]
        self.rules, self.rule_sources = start_rules(tuple(map(int, self.newest.split("."))))
        self.share = usual_share()
        self._capabilities = {gpu.index: _capability(gpu, known(gpu, specs)) for gpu in inventory.gpus}

    def capability(self, gpu: GpuFacts) -> Capability | None:
        """Compute capability as read, else of the GPU in the catalog."""
        return self._capabilities[gpu.index]

    def is_gpu_known(self, gpu: GpuFacts, needs: Sequence[str]) -> bool:
        """Whether all fields that a rule needs are known of a GPU; in `a|b` one of them is enough."""
        return all(
            any((self.capability(gpu) if name == "capability" else getattr(gpu, name)) is not None for name in names)
            for names in (need.split("|") for need in needs)
        )

    def is_host_known(self, need: str) -> bool:
        """Whether a field of a rule is known; `pairs.` and `gpus.` are fields of any of them."""
        group, _, name = need.rpartition(".")
        if group:
            return len(self.gpus) < 2 or any(getattr(part, name) is not None for part in getattr(self.inventory, group))
        if name in ("cuda", "packages"):
            return not self.inventory.gpus or getattr(self.inventory, name) is not None
        return getattr(self.host, name) is not None


def _capability(gpu: GpuFacts, model: Gpu | None) -> Capability | None:
    text = gpu.capability or (model.capability if model is not None else None)
    major, _, minor = (text or "").partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


# ---- conditions on one GPU: a text, or None where the rule does not apply


def _link_narrow(gpu: GpuFacts, context: HostRuleContext) -> str | None:
    width, most = gpu.pcie_width or 0, gpu.pcie_width_max or 0
    is_shared = len(context.inventory.gpus) > 1
    if not 0 < width < most and not (0 < width <= _SLOW_WIDTH and is_shared):
        return None
    possible = f" of x{most}" if width < most else ""
    slow = "; tensor parallelism over it is slow" if is_shared else ""
    return f"PCIe link width is x{width}{possible}{slow}, and weights load more slowly"


def _link_slow(gpu: GpuFacts, _: HostRuleContext) -> str | None:
    now, most = gpu.pcie_generation or 0, gpu.pcie_generation_max or 0
    if not 0 < now < most:
        return None
    if (gpu.busy_percent or 0) >= AT_WORK:
        return f"PCIe link runs at gen {now} of {most} under load"
    return f"PCIe link runs at gen {now} of {most}; idle GPUs lower it, check again under load"


def _parted(gpu: GpuFacts, _: HostRuleContext) -> str | None:
    if not gpu.is_mig:
        return None
    count = f"into {len(gpu.mig_instances)} instances" if gpu.mig_instances else "into instances"
    return f"split {count} (MIG): a launch sees only one instance and its memory; instances cannot be combined"


def _memory_retired(gpu: GpuFacts, _: HostRuleContext) -> str | None:
    count = (gpu.remapped_rows or 0) or (gpu.retired_pages or 0)
    what = "memory rows were remapped" if gpu.remapped_rows else "memory pages were retired"
    return f"{count} {what} after uncorrectable errors" if count else None


def _exclusive(gpu: GpuFacts, _: HostRuleContext) -> str | None:
    if gpu.compute_mode != "exclusive process":
        return None
    holder = ", and one is using it" if gpu.processes else ""
    return f"exclusive compute mode: one process may use this GPU{holder}; others are rejected"


def _slowed(gpu: GpuFacts, _: HostRuleContext) -> str | None:
    causes = [cause for cause in gpu.throttled_by or () if cause != "power cap"]
    return f"clocks are throttled: {', '.join(causes)}" if causes else None


def _power_limited(gpu: GpuFacts, _: HostRuleContext) -> str | None:
    limit, usual = gpu.power_limit_w or 0, gpu.power_limit_default_w or 0
    is_low = 0 < limit < usual * 0.99
    return f"power is limited to {limit:.0f} W of {usual:.0f} W: compute is slower" if is_low else None


def _memory_taken(gpu: GpuFacts, context: HostRuleContext) -> str | None:
    used = gpu.used_mib or 0
    if used <= TAKEN_GIB * MIB_PER_GIB:
        return None
    room = usable_mib(gpu, context.specs)
    of = f" of {gib(room)}" if room is not None else ""
    holders = [process.says for process in gpu.processes or ()]
    who = f" by {', '.join(holders[:3])}{' and others' * (len(holders) > 3)}" if holders else " by other processes"
    return f"{gib(used)}{of} in use{who}; if that grows, a launch fails or gets less KV cache"


def _no_room(gpu: GpuFacts, context: HostRuleContext) -> str | None:
    total = usable_mib(gpu, context.specs)
    if total is None or context.share is None or not gpu.used_mib:
        return None
    room = of_share(total, gpu.used_mib, context.share)
    if room.is_enough:
        return None
    way = f"; {room.most:g} fits" if room.most else ""
    needs = f"vLLM requests {context.share:g} of its memory by default ({gib(room.wanted)})"
    return f"{needs}, but only {gib(room.free)} is free{way}"


def _busy(gpu: GpuFacts, _: HostRuleContext) -> str | None:
    busy = gpu.busy_percent or 0
    if busy < AT_WORK:
        return None
    return f"other processes use {busy:.0f}% of the compute, so they and a new server slow each other down"


def _orphan(gpu: GpuFacts, _: HostRuleContext) -> str | None:
    orphan = next((process for process in gpu.processes or () if process.orphan), None)
    if orphan is None:
        return None
    return f"process {orphan.pid} looks left over from an earlier vLLM launch: {orphan.orphan}"


def _too_old(gpu: GpuFacts, context: HostRuleContext) -> str | None:
    has, least = context.capability(gpu), context.rules.least_capability
    if has is None or has >= least:
        return None
    return (
        f"compute capability {has[0]}.{has[1]}: the builds of vLLM {context.newest} have no kernels for GPUs below "
        f"{least[0]}.{least[1]} ({context.rule_sources['least_capability']})"
    )


def _lacks(name: str, text: str) -> Callable[[GpuFacts, HostRuleContext], str | None]:
    def condition(gpu: GpuFacts, context: HostRuleContext) -> str | None:
        has = context.capability(gpu)
        if has is None:
            return None
        capability = f"{has[0]}.{has[1]}"
        formats = Gpu("", 0, (), capability=capability).formats or ()
        return None if name in formats else text.format(capability=capability)

    return condition


_LOST = "gpu.lost"
_GPU_CONDITIONS: Mapping[str, Callable[[GpuFacts, HostRuleContext], str | None]] = {
    _LOST: lambda gpu, _: None if gpu.error is None else f"it {unfit(gpu)}",
    "gpu.too_old": _too_old,
    "gpu.prohibited": lambda gpu, _: (
        "compute mode is prohibited: no process can use this GPU" if gpu.compute_mode == "prohibited" else None
    ),
    "gpu.remap_failed": lambda gpu, _: "memory row remapping failed" if gpu.is_remap_failed else None,
    "gpu.remap_pending": lambda gpu, _: (
        "memory row remapping is pending: reset the GPU" if gpu.is_remap_pending else None
    ),
    "gpu.memory_errors": lambda gpu, _: (
        f"{gpu.ecc_uncorrected} uncorrectable memory errors (ECC)" if gpu.ecc_uncorrected else None
    ),
    "gpu.memory_retired": _memory_retired,
    "gpu.xid": lambda gpu, _: (
        f"the kernel log reports Xid {', '.join(map(str, dict.fromkeys(gpu.xids)))}" if gpu.xids else None
    ),
    "gpu.parted": _parted,
    "gpu.exclusive": _exclusive,
    "gpu.slowed": _slowed,
    "gpu.no_room": _no_room,
    "gpu.memory_taken": _memory_taken,
    "gpu.busy": _busy,
    "gpu.orphan": _orphan,
    "gpu.link_narrow": _link_narrow,
    "gpu.link_slow": _link_slow,
    "gpu.power_limited": _power_limited,
    "gpu.persistence_off": lambda gpu, _: (
        "persistence mode is off: the first launch after idling is slower" if gpu.is_persistent is False else None
    ),
    "gpu.no_bfloat16": _lacks("bf16", "compute capability {capability} does not support bfloat16, used by most models"),
    "gpu.no_fp8": _lacks(
        "fp8",
        "compute capability {capability} has no FP8 compute: FP8 weights are stored in FP8 and computed in 16 bits",
    ),
}


# ---- conditions on the host, or on several GPUs: their numbers and a text


_Hits = Iterator[tuple[tuple[int, ...], str]]


def _unequal(context: HostRuleContext) -> _Hits:
    kinds = {
        gpu.index: (gpu.name, None if gpu.total_mib is None else round(gpu.total_mib / 512)) for gpu in context.gpus
    }
    if len(set(kinds.values())) > 1:
        names = ", ".join(dict.fromkeys(f"{name or 'unnamed'}" for name, _ in kinds.values()))
        yield tuple(kinds), f"mixed GPUs ({names}): the smallest GPU of a tensor parallel group limits all"


def _gpus_of(pairs: Sequence[GpuPair]) -> tuple[int, ...]:
    return tuple(sorted({number for pair in pairs for number in (pair.first, pair.second)}))


def _no_peer(context: HostRuleContext) -> _Hits:
    without = [pair for pair in context.inventory.pairs if pair.read not in ("ok", None)]
    if without:
        why = ", ".join(dict.fromkeys(f"{pair.read}" for pair in without))
        text = (
            f"{len(without)} GPU pairs have no peer access ({why}): vLLM's custom all-reduce is "
            "off between them, and NCCL uses host shared memory"
        )
        yield _gpus_of(without), text


def _no_nvlink(context: HostRuleContext) -> _Hits:
    without = tuple(gpu.index for gpu in context.gpus if gpu.nvlinks == 0)
    if len(without) > 1:
        more = "; for more than two GPUs vLLM's custom all-reduce is off" if len(without) > 2 else ""
        yield without, f"no NVLink between the GPUs: tensor parallelism uses PCIe in every layer{more}"


def _far_apart(context: HostRuleContext) -> _Hits:
    far = [pair for pair in context.inventory.pairs if pair.path == "system" and pair.nvlink != "ok"]
    if far:
        yield _gpus_of(far), f"{len(far)} GPU pairs span CPU sockets: traffic crosses the socket interconnect"


def _shm_small(context: HostRuleContext) -> _Hits:
    size = context.host.shm_mib
    if size is not None and size < SMALL_SHM_MIB and len(context.gpus) > 1:
        yield (), f"{SHARED} has {size:,.0f} MiB: ranks of a multi-GPU launch exchange data there and can fill it"


def _memlock(context: HostRuleContext) -> _Hits:
    limit, devices = context.host.memlock_mib, context.host.rdma_devices
    if devices and limit is not None and 0 <= limit < LEAST_MEMLOCK_MIB:
        yield (
            (),
            f"the locked memory limit is {limit:g} MiB: NCCL cannot register memory with the {devices} RDMA devices",
        )


def _open_files(context: HostRuleContext) -> _Hits:
    most = context.host.open_files_max
    if most is not None and 0 <= most < OPEN_FILES:
        yield (), f"the open file limit is {most:,}: vLLM requests {OPEN_FILES:,}, and many clients can exhaust it"


def _memory_limit(context: HostRuleContext) -> _Hits:
    limit = context.host.memory_limit_mib
    sizes = [room for gpu in context.inventory.gpus if (room := usable_mib(gpu, context.specs)) is not None]
    if limit is None or limit < 0 or not sizes:
        return
    left = limit - (context.host.memory_used_mib or 0)
    if left < max(sizes) / 4:
        text = (
            f"the cgroup has {gib(left)} of memory left: the kernel may kill vLLM while it loads weights for "
            f"a {gib(max(sizes))} GPU"
        )
        yield (), text


def _driver_too_old(context: HostRuleContext) -> _Hits:
    built, has = _cuda_of_torch(context.inventory.packages or {}), context.inventory.cuda
    major = (has or "").partition(".")[0]
    if built is not None and major.isdecimal() and int(major) < int(built.partition(".")[0]):
        yield (), f"torch is built for CUDA {built}, but the driver supports at most CUDA {has}: torch finds no GPU"


def _cuda_of_torch(packages: Mapping[str, str]) -> str | None:
    _, plus, local = packages.get("torch", "").partition("+cu")
    if plus and local[:3].isdecimal() and len(local) >= 3:
        return f"{local[:2]}.{local[2:3]}"
    for suffix in ("", "-cu13", "-cu12", "-cu11"):
        numbers = packages.get(f"nvidia-cuda-runtime{suffix}", "").split(".")
        if len(numbers) > 1 and all(number.isdecimal() for number in numbers[:2]):
            return ".".join(numbers[:2])
    return None


def _foreign_cards(context: HostRuleContext) -> _Hits:
    count = context.host.foreign_gpus
    if count:
        yield (), f"{count} AMD GPUs are not supported; only NVIDIA GPUs are listed"


_HOST_CONDITIONS: Mapping[str, Callable[[HostRuleContext], _Hits]] = {
    "host.driver_too_old": _driver_too_old,
    "gpu.unequal": _unequal,
    "gpu.no_peer": _no_peer,
    "gpu.no_nvlink": _no_nvlink,
    "gpu.far_apart": _far_apart,
    "host.shm_small": _shm_small,
    "host.memlock": _memlock,
    "host.open_files": _open_files,
    "host.memory_limit": _memory_limit,
    "host.foreign_cards": _foreign_cards,
}
IDS = frozenset({*_GPU_CONDITIONS, *_HOST_CONDITIONS})


def findings(inventory: Inventory, specs: Specs) -> tuple[tuple[RuleFinding, ...], tuple[UnknownFact, ...]]:
    """Find the meaning of a snapshot for vLLM, most serious first, and the unknown facts."""
    context, table = HostRuleContext(inventory, specs), load_table("host_findings", FindingText)
    by_wording: dict[tuple[str, str], dict[int, str]] = {}
    unknown: dict[str, dict[int, None]] = {}
    for rule, condition in _GPU_CONDITIONS.items():
        # A GPU without access has no other known facts, and needs none.
        for gpu in inventory.gpus if rule == _LOST else context.gpus:
            if not context.is_gpu_known(gpu, table[rule].needs):
                unknown.setdefault(table[rule].fact, {})[gpu.index] = None
            elif (text := condition(gpu, context)) is not None:
                by_wording.setdefault((rule, _FIGURE.sub("", text)), {})[gpu.index] = text
    hits = [(rule, tuple(texts), _joined(list(texts.values()))) for (rule, _), texts in by_wording.items()]
    for rule, several in _HOST_CONDITIONS.items():
        if all(map(context.is_host_known, table[rule].needs)):
            hits += [(rule, gpus, text) for gpus, text in several(context)]
        else:
            unknown.setdefault(table[rule].fact, {})
    host_findings = [
        RuleFinding(rule, row.severity, text, row.do, row.source, gpus=gpus)
        for rule, gpus, text in hits
        for row in (table[rule],)
    ]
    host_findings.sort(key=lambda finding: list(Severity).index(finding.severity))
    return tuple(host_findings), tuple(UnknownFact(fact, tuple(gpus)) for fact, gpus in unknown.items())


def _joined(texts: Sequence[str]) -> str:
    """Join texts that differ in figures alone: a figure that differs is listed for each GPU, in order."""
    by_place = zip(*map(_FIGURE.findall, texts), strict=True)
    figures = iter([place[0] if len({*place}) == 1 else ", ".join(place) for place in by_place])
    return _FIGURE.sub(lambda _: next(figures), texts[0])
