"""What the facts of a host mean for vLLM: a table of rules, each with its source; a fact that nobody told is named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.room import TAKEN_GIB, of_share, usual_share
from vllm_runbooks.catalog.specs import Capability, Gpu, Specs
from vllm_runbooks.catalog.start_rules import start_rules
from vllm_runbooks.core.records import Severity
from vllm_runbooks.host.cards import AT_WORK, MIB_PER_GIB, gib, known, unfit, usable_mib
from vllm_runbooks.host.records import SHARED, GpuFacts, GpuPair, HostFinding, Inventory, UnknownFact

SMALL_SHM_MIB = 1024.0
LEAST_MEMLOCK_MIB = 64.0
OPEN_FILES = 65535
"""To which vLLM raises the limit of open files itself (0.32.0 utils/system_utils.py:241)."""
_SLOW_WIDTH = 4
_LEVELS = (Severity.FATAL, Severity.DEGRADED, Severity.HINT)
_NVML = "https://docs.nvidia.com/deploy/nvml-api/"
_RETURNED = f"{_NVML}group__nvmlDeviceEnumvs.html (nvmlReturn_t)"
_MIG = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/deployment-considerations.html"
_XID = "https://docs.nvidia.com/deploy/xid-errors/"
_ALLREDUCE = "vllm 0.32.0 distributed/device_communicators/custom_all_reduce.py:273 and :288"
_FREE = "vllm 0.32.0 v1/worker/utils.py:766"
_TROUBLE = "https://docs.vllm.ai/en/latest/usage/troubleshooting/"
_FIGURE = re.compile(r"\d{1,12}(?:\.\d{1,4})?(?= (?:GiB|%|W|is the most))", re.ASCII)
"""A figure of which several cards may have their own in one sentence."""
_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"


class _View:
    """A snapshot with what is known beside it."""

    def __init__(self, found: Inventory, specs: Specs) -> None:
        self.found, self.specs, self.host = found, specs, found.host
        self.there = [gpu for gpu in found.gpus if gpu.error is None]
        self.cards: Mapping[int, Gpu | None] = {gpu.index: known(gpu, specs) for gpu in found.gpus}
        newest = options.known_releases()[-1]
        self.newest = newest
        self.rules, self.written = start_rules(tuple(map(int, newest.split("."))))
        self.share = usual_share()
        self._capabilities = {gpu.index: _capability(gpu, self.cards[gpu.index]) for gpu in found.gpus}

    def capability(self, gpu: GpuFacts) -> Capability | None:
        """As read, else as the catalog knows the card."""
        return self._capabilities[gpu.index]

    def is_told(self, gpu: GpuFacts, name: str) -> bool:
        """Whether a field of a card is known."""
        return (self.capability(gpu) if name == "capability" else getattr(gpu, name)) is not None

    def room_mib(self, gpu: GpuFacts) -> float | None:
        """Memory that processes can have of a card."""
        return usable_mib(gpu, self.specs)


def _capability(gpu: GpuFacts, card: Gpu | None) -> Capability | None:
    told = gpu.capability or (card.capability if card is not None else None)
    major, _, minor = (told or "").partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


# ---- of one card: a text where the fact means something, None where it does not


def _link_narrow(gpu: GpuFacts, view: _View) -> str | None:
    width, most = gpu.pcie_width or 0, gpu.pcie_width_max or 0
    if not 0 < width < most and not (0 < width <= _SLOW_WIDTH and len(view.found.gpus) > 1):
        return None
    beside = f" where x{most} is possible" if width < most else ""
    slow = "; tensor parallelism over it will be slow" if len(view.found.gpus) > 1 else ""
    return f"the PCIe link has x{width}{beside}{slow}, and weights load more slowly"


def _link_slow(gpu: GpuFacts, _: _View) -> str | None:
    now, most = gpu.pcie_generation or 0, gpu.pcie_generation_max or 0
    if not 0 < now < most:
        return None
    if (gpu.busy_percent or 0) >= AT_WORK:
        return f"the PCIe link runs at generation {now} under load, where {most} is possible"
    return f"the PCIe link runs at generation {now} of {most}: an idle card lowers it; look again under load"


def _parted(gpu: GpuFacts, _: _View) -> str | None:
    if not gpu.is_parted:
        return None
    count = f"into {len(gpu.parts)} instances" if gpu.parts else "into instances"
    return f"it is divided {count} (MIG): a start sees one of them, and its memory alone; instances cannot be joined"


def _memory_errors(gpu: GpuFacts, _: _View) -> str | None:
    return f"{gpu.ecc_uncorrected} memory errors could not be corrected (ECC)" if gpu.ecc_uncorrected else None


def _retired(gpu: GpuFacts, _: _View) -> str | None:
    count = (gpu.remapped_rows or 0) or (gpu.retired_pages or 0)
    what = "rows of its memory were replaced" if gpu.remapped_rows else "pages of its memory were retired"
    return f"{count} {what} after errors that could not be corrected" if count else None


def _exclusive(gpu: GpuFacts, _: _View) -> str | None:
    if gpu.compute_mode != "exclusive process":
        return None
    holder = ", and one holds it already" if gpu.processes else ""
    return f"its compute mode lets one process use it{holder}: any further one is refused"


def _slowed(gpu: GpuFacts, _: _View) -> str | None:
    causes = [each for each in gpu.slowed_by or () if each != "power cap"]
    return f"its clock is kept down: {', '.join(causes)}" if causes else None


def _power(gpu: GpuFacts, _: _View) -> str | None:
    limit, usual = gpu.power_limit_w or 0, gpu.power_limit_default_w or 0
    is_low = 0 < limit < usual * 0.99
    return f"its power is limited to {limit:.0f} W of {usual:.0f} W: computing is slower" if is_low else None


def _taken(gpu: GpuFacts, view: _View) -> str | None:
    used = gpu.used_mib or 0
    if used <= TAKEN_GIB * MIB_PER_GIB:
        return None
    room = view.room_mib(gpu)
    of = f" of {gib(room)}" if room is not None else ""
    holders = [each.says for each in gpu.processes or ()]
    who = f" by {', '.join(holders[:3])}{' and others' * (len(holders) > 3)}" if holders else " by others"
    return f"{gib(used)}{of} are in use{who}: what they give back or take meanwhile makes a start fail or serve less"


def _no_room(gpu: GpuFacts, view: _View) -> str | None:
    total = view.room_mib(gpu)
    if total is None or view.share is None or not gpu.used_mib:
        return None
    room = of_share(total, gpu.used_mib, view.share)
    if room.is_enough:
        return None
    way = f"; {room.most:g} is the most it can have" if room.most else ""
    asks = f"a server asks for {view.share:g} of its memory by default ({gib(room.wanted)})"
    return f"{asks}, and {gib(room.free)} are free{way}"


def _at_work(gpu: GpuFacts, _: _View) -> str | None:
    busy = gpu.busy_percent or 0
    return (
        f"it computes at {busy:.0f} % for others: both get slower, and its memory may move" if busy >= AT_WORK else None
    )


def _orphans(gpu: GpuFacts, _: _View) -> str | None:
    left = [each for each in gpu.processes or () if each.orphan]
    return f"process {left[0].pid} looks left by an earlier start of vLLM: {left[0].orphan}" if left else None


def _too_old(gpu: GpuFacts, view: _View) -> str | None:
    has, least = view.capability(gpu), view.rules.least_capability
    if has is None or has >= least:
        return None
    return (
        f"compute capability {has[0]}.{has[1]}: the builds of vLLM {view.newest} have no kernels for cards below "
        f"{least[0]}.{least[1]} ({view.written['least_capability']})"
    )


def _lacks(name: str, text: str) -> Callable[[GpuFacts, _View], str | None]:
    def say(gpu: GpuFacts, view: _View) -> str | None:
        has = view.capability(gpu)
        if has is None:
            return None
        formats = Gpu("", 0, (), capability=f"{has[0]}.{has[1]}").formats or ()
        return None if name in formats else text.format(capability=f"{has[0]}.{has[1]}")

    return say


@dataclass(frozen=True)
class _OfCard:
    """A rule about one card."""

    id: str
    severity: Severity
    needs: tuple[str, ...]
    """Fields that must be known for the rule to say anything; in an `a|b` one of them."""
    says: Callable[[GpuFacts, _View], str | None]
    do: str
    source: str
    what: str
    """The fact, in words."""

    @cached_property
    def either(self) -> tuple[tuple[str, ...], ...]:
        """`needs`, each as the fields of which one must be known."""
        return tuple(tuple(each.split("|")) for each in self.needs)


_LOST = "gpu.lost"
_CARD_RULES: Sequence[_OfCard] = (
    _OfCard(_LOST, Severity.FATAL, (),
        lambda gpu, _: f"it {unfit(gpu)}" if gpu.error is not None else None,
        "start nothing on it; one without permission is kept from this user or container; of any other the kernel's "
        "log says more (Xid 79): see to its seat and its power cable, and restart the host", _RETURNED,
        "access by the driver"),
    _OfCard("gpu.too_old", Severity.FATAL, ("capability",), _too_old,
        "take another card, or a release whose builds still know this one",
        "https://docs.vllm.ai/en/latest/getting_started/installation/gpu/", "compute capability"),
    _OfCard("gpu.prohibited", Severity.FATAL, ("compute_mode",),
        lambda gpu, _: "its compute mode lets no process compute" if gpu.compute_mode == "prohibited" else None,
        "ask who runs the host to set the compute mode back to default", _NVML, "compute mode"),
    _OfCard("gpu.remap_failed", Severity.FATAL, ("is_remap_failed",),
        lambda gpu, _: "damaged memory could not be replaced" if gpu.is_remap_failed else None,
        "use no start on it, and have the card replaced",
        "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/", "failed replacement of memory"),
    _OfCard("gpu.remap_pending", Severity.DEGRADED, ("is_remap_pending",),
        lambda gpu, _: "damaged memory waits for a reset to be replaced" if gpu.is_remap_pending else None,
        "have the card reset when nobody uses it",
        "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/", "pending replacement of memory"),
    _OfCard("gpu.memory_errors", Severity.DEGRADED, ("ecc_uncorrected",), _memory_errors,
        "have the card reset, and watch whether the count rises: such an error ends the process that meets it",
        _NVML, "uncorrected memory errors (ECC)"),
    _OfCard("gpu.memory_retired", Severity.HINT, ("remapped_rows|retired_pages",), _retired,
        "nothing now; a rising count announces a card that fails",
        "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/", "replaced memory"),
    _OfCard("gpu.xid", Severity.DEGRADED, ("xids",),
        lambda gpu, _: (
            f"the kernel's log names Xid {', '.join(map(str, dict.fromkeys(gpu.xids)))}" if gpu.xids else None
        ),
        "look up the number: some are of a program, 48, 63, 64, 74, 79, 94 and 95 of the card or its links",
        _XID, "errors in the kernel's log (Xid)"),
    _OfCard("gpu.parted", Severity.DEGRADED, ("is_parted",), _parted,
        "name one instance in CUDA_VISIBLE_DEVICES by its UUID, and plan for its memory; for tensor parallelism take "
        "cards that are whole", _MIG, "division into instances (MIG)"),
    _OfCard("gpu.exclusive", Severity.DEGRADED, ("compute_mode",), _exclusive,
        "start one server on it at most, without a second process beside it; or ask for the default compute mode",
        _NVML, "compute mode"),
    _OfCard("gpu.slowed", Severity.DEGRADED, ("slowed_by",), _slowed,
        "see to the host's cooling and power before blaming vLLM for its speed", _NVML, "reasons for a low clock"),
    _OfCard("gpu.no_room", Severity.DEGRADED, ("used_mib",), _no_room,
        "take another card, end what holds the memory, or start with a lower --gpu-memory-utilization", _FREE,
        "memory in use"),
    _OfCard("gpu.memory_taken", Severity.DEGRADED, ("used_mib",), _taken,
        "watch it before a start: vllm-runbooks inventory --watch recommends a card", _FREE, "memory in use"),
    _OfCard("gpu.busy", Severity.DEGRADED, ("busy_percent",), _at_work,
        "take a card that idles, or expect slower answers", _NVML, "use"),
    _OfCard("gpu.orphan", Severity.DEGRADED, ("processes",), _orphans,
        "look at it with vllm-runbooks leftovers, which removes what is proven to be left", _TROUBLE, "processes"),
    _OfCard("gpu.link_narrow", Severity.DEGRADED, ("pcie_width", "pcie_width_max"), _link_narrow,
        "move the card to a wider slot, or join such cards by pipeline parallelism or as copies instead",
        _ALLREDUCE, "width of the PCIe link"),
    _OfCard("gpu.link_slow", Severity.HINT, ("pcie_generation", "pcie_generation_max"), _link_slow,
        "look again while it computes; a link that stays slow has a bad slot, riser or setting", _NVML,
        "generation of the PCIe link"),
    _OfCard("gpu.power_limited", Severity.HINT, ("power_limit_w", "power_limit_default_w"), _power,
        "expect slower answers than measured elsewhere, or ask for the default limit", _NVML, "power limit"),
    _OfCard("gpu.persistence_off", Severity.HINT, ("is_persistent",),
        lambda gpu, _: (
            "the driver lets go of it when nobody uses it: the first start afterwards is slower"
            if gpu.is_persistent is False else None
        ),
        "ask for the persistence daemon of the driver",
        "https://docs.nvidia.com/deploy/driver-persistence/", "persistence mode"),
    _OfCard("gpu.no_bfloat16", Severity.HINT, ("capability",),
        _lacks("bf16", "compute capability {capability} cannot run bfloat16, which most models are in"),
        "start with --dtype half", "vllm 0.33.0 platforms/cuda.py:258", "compute capability"),
    _OfCard("gpu.no_fp8", Severity.HINT, ("capability",),
        _lacks("fp8", "compute capability {capability} does not multiply fp8: such weights are stored so, and "
               "computed in 16 bits"),
        "expect fp8 weights to save memory and no time", "vllm 0.33.0 platforms/cuda.py:588", "compute capability"),
)  # fmt: skip


# ---- of the host, or of its cards together


def _several(view: _View) -> bool:
    return len(view.there) > 1


def _unequal(view: _View) -> Iterator[tuple[tuple[int, ...], str]]:
    kinds = {gpu.index: (gpu.name, None if gpu.total_mib is None else round(gpu.total_mib / 512)) for gpu in view.there}
    if len(set(kinds.values())) > 1:
        names = ", ".join(dict.fromkeys(f"{name or 'unnamed'}" for name, _ in kinds.values()))
        yield tuple(kinds), f"the cards differ ({names}): the smallest one of a tensor-parallel group decides for all"


def _grouped(pairs: Sequence[GpuPair]) -> tuple[int, ...]:
    return tuple(sorted({number for pair in pairs for number in (pair.one, pair.other)}))


def _no_peer(view: _View) -> Iterator[tuple[tuple[int, ...], str]]:
    without = [pair for pair in view.found.pairs if pair.read not in ("ok", None)]
    if without:
        why = ", ".join(dict.fromkeys(f"{pair.read}" for pair in without))
        yield (
            _grouped(without),
            (
                f"{len(without)} pairs of cards cannot read each other's memory ({why}): vLLM's own all-reduce is off "
                "between them, and NCCL goes through the host's shared memory"
            ),
        )


def _no_nvlink(view: _View) -> Iterator[tuple[tuple[int, ...], str]]:
    without = [gpu.index for gpu in view.there if gpu.nvlinks == 0]
    if len(without) > 1:
        more = "; beyond two cards vLLM's own all-reduce is off" if len(without) > 2 else ""
        yield (
            tuple(without),
            f"no NVLink joins the cards: tensor parallelism waits for PCIe in every layer{more}",
        )


def _far_apart(view: _View) -> Iterator[tuple[tuple[int, ...], str]]:
    far = [pair for pair in view.found.pairs if pair.path == "system" and pair.nvlink != "ok"]
    if far:
        yield _grouped(far), f"{len(far)} pairs of cards hang from different processors: traffic crosses between them"


def _shm_small(view: _View) -> Iterator[tuple[tuple[int, ...], str]]:
    size = view.host.shm_mib
    if size is not None and size < SMALL_SHM_MIB and _several(view):
        yield (), f"{SHARED} has {size:,.0f} MiB: ranks of a start on several cards exchange data there, and it fills"


def _memlock(view: _View) -> Iterator[tuple[tuple[int, ...], str]]:
    limit = view.host.memlock_mib
    if view.host.rdma_devices and limit is not None and 0 <= limit < LEAST_MEMLOCK_MIB:
        devices = f"{view.host.rdma_devices} RDMA devices"
        yield (), f"a process may lock {limit:g} MiB: NCCL cannot register memory with the {devices}"


def _open_files(view: _View) -> Iterator[tuple[tuple[int, ...], str]]:
    most = view.host.open_files_max
    if most is not None and 0 <= most < OPEN_FILES:
        yield (), f"a process may open {most:,} files: vLLM asks for {OPEN_FILES:,}, and many clients use them up"


def _memory_limit(view: _View) -> Iterator[tuple[tuple[int, ...], str]]:
    limit = view.host.memory_limit_mib
    sizes = [room for gpu in view.found.gpus if (room := view.room_mib(gpu)) is not None]
    if limit is None or limit < 0 or not sizes:
        return
    left = limit - (view.host.memory_used_mib or 0)
    if left < max(sizes) / 4:
        yield (
            (),
            (
                f"the control group leaves {gib(left)} of memory: loading weights of a card with {gib(max(sizes))} "
                "may be ended by the kernel"
            ),
        )


def _driver_too_old(view: _View) -> Iterator[tuple[tuple[int, ...], str]]:
    built, has = _cuda_of(view.found.packages or {}), view.found.cuda
    major = (has or "").partition(".")[0]
    if built is not None and major.isdecimal() and int(major) < int(built.partition(".")[0]):
        yield (), f"torch is built for CUDA {built}, and the driver knows CUDA {has} at most: torch finds no card"


def _cuda_of(packages: Mapping[str, str]) -> str | None:
    """The CUDA that torch is built for, by its own version or its libraries'."""
    _, plus, local = packages.get("torch", "").partition("+cu")
    if plus and local[:3].isdecimal() and len(local) >= 3:
        return f"{local[:2]}.{local[2:3]}"
    for name in (
        "nvidia-cuda-runtime",
        "nvidia-cuda-runtime-cu13",
        "nvidia-cuda-runtime-cu12",
        "nvidia-cuda-runtime-cu11",
    ):
        numbers = packages.get(name, "").split(".")
        if len(numbers) > 1 and all(each.isdecimal() for each in numbers[:2]):
            return ".".join(numbers[:2])
    return None


def _foreign(view: _View) -> Iterator[tuple[tuple[int, ...], str]]:
    if view.host.foreign_cards:
        yield (), f"{view.host.foreign_cards} cards of AMD are there and are not read: this tells of NVIDIA's alone"


@dataclass(frozen=True)
class _OfHost:
    """A rule about the host, or its cards together."""

    id: str
    severity: Severity
    is_told: Callable[[_View], bool]
    """Whether the facts are known."""
    says: Callable[[_View], Iterator[tuple[tuple[int, ...], str]]]
    do: str
    source: str
    what: str


def _host(name: str) -> Callable[[_View], bool]:
    return lambda view: getattr(view.host, name) is not None


_HOST_RULES: Sequence[_OfHost] = (
    _OfHost("host.driver_too_old", Severity.FATAL,
        lambda view: not view.found.gpus or None not in (view.found.cuda, view.found.packages), _driver_too_old,
        "install a newer driver, or a torch and vLLM that are built for this one's CUDA",
        "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
        "CUDA of the driver beside that of torch"),
    _OfHost("gpu.unequal", Severity.HINT, lambda _: True, _unequal,
        "group equal cards, or let pipeline parallelism give the larger ones more layers",
        "vllm 0.32.0 v1/core/kv_cache_utils.py:2665", "names"),
    _OfHost("gpu.no_peer", Severity.HINT,
        lambda view: not _several(view) or any(pair.read is not None for pair in view.found.pairs), _no_peer,
        "expect slower tensor parallelism; where a start hangs there, NCCL_P2P_DISABLE=1 keeps NCCL off peer access",
        _ALLREDUCE, "peer access between cards"),
    _OfHost("gpu.no_nvlink", Severity.HINT,
        lambda view: not _several(view) or any(gpu.nvlinks is not None for gpu in view.found.gpus), _no_nvlink,
        "prefer pipeline parallelism or copies to tensor parallelism beyond two cards", _ALLREDUCE, "NVLink"),
    _OfHost("gpu.far_apart", Severity.HINT,
        lambda view: not _several(view) or any(pair.path is not None for pair in view.found.pairs), _far_apart,
        "keep the cards of one tensor-parallel group at one processor", _NCCL, "what joins the cards"),
    _OfHost("host.shm_small", Severity.DEGRADED, _host("shm_mib"), _shm_small,
        "start the container with --ipc=host, or a larger --shm-size",
        "https://docs.vllm.ai/en/latest/deployment/docker/", "size of /dev/shm"),
    _OfHost("host.memlock", Severity.DEGRADED, _host("memlock_mib"), _memlock,
        "start the container with --ulimit memlock=-1, or raise the limit of the service", _NCCL,
        "limit of locked memory"),
    _OfHost("host.open_files", Severity.HINT, _host("open_files_max"), _open_files,
        "raise the hard limit of open files for the service or the container",
        "vllm 0.32.0 utils/system_utils.py:241", "limit of open files"),
    _OfHost("host.memory_limit", Severity.DEGRADED, _host("memory_limit_mib"), _memory_limit,
        "raise the memory limit of the container or service", _TROUBLE, "memory limit of the control group"),
    _OfHost("host.foreign_cards", Severity.HINT, _host("foreign_cards"), _foreign,
        "read such cards with their maker's own tools", _NVML, "cards of other makers"),
)  # fmt: skip


IDS = frozenset({*(rule.id for rule in _CARD_RULES), *(rule.id for rule in _HOST_RULES)})
"""Ids of all findings about a host."""


def findings(found: Inventory, specs: Specs) -> tuple[tuple[HostFinding, ...], tuple[UnknownFact, ...]]:
    """What a snapshot's facts mean for vLLM, the most serious first, and what would mean something and is not known."""
    view = _View(found, specs)
    said: dict[tuple[str, str], tuple[_OfCard, dict[int, str]]] = {}
    open_: dict[str, dict[int, None]] = {}
    for rule in _CARD_RULES:
        # Of a card without access nothing else is told, and nothing else matters.
        for gpu in found.gpus if rule.id == _LOST else view.there:
            if not _is_told(rule, gpu, view):
                open_.setdefault(rule.what, {})[gpu.index] = None
            elif (text := rule.says(gpu, view)) is not None:
                said.setdefault((rule.id, _FIGURE.sub("", text)), (rule, {}))[1][gpu.index] = text
    made = [
        HostFinding(rule.id, rule.severity, tuple(texts), _joined(list(texts.values())), rule.do, rule.source)
        for rule, texts in said.values()
    ]
    for each in _HOST_RULES:
        if not each.is_told(view):
            open_.setdefault(each.what, {})
            continue
        made += [
            HostFinding(each.id, each.severity, numbers, text, each.do, each.source)
            for numbers, text in each.says(view)
        ]
    made.sort(key=lambda one: _LEVELS.index(one.severity))
    return tuple(made), tuple(UnknownFact(what, tuple(numbers)) for what, numbers in open_.items())


def _joined(texts: Sequence[str]) -> str:
    """Texts that differ in figures alone as one: one that is not the same stands there for each card, in order."""
    figures = zip(*map(_FIGURE.findall, texts), strict=True)
    listed = iter([each[0] if len({*each}) == 1 else ", ".join(each) for each in figures])
    return _FIGURE.sub(lambda _: next(listed), texts[0])


def _is_told(rule: _OfCard, gpu: GpuFacts, view: _View) -> bool:
    """Whether all facts are known that a rule looks at."""
    return all(any(view.is_told(gpu, name) for name in either) for either in rule.either)
