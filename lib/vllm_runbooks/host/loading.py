"""Load the snapshot of a host by name or of this host, and its GPUs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_runbooks.catalog.load import specs
from vllm_runbooks.catalog.specs import HostGpu, cpu_size, numa_node
from vllm_runbooks.core.errors import InputError, WrongFileError, check_texts
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.files import SNAPSHOT
from vllm_runbooks.host import memory_limit
from vllm_runbooks.reading.sources import beginning, cases_folder, load_files

if TYPE_CHECKING:
    from vllm_runbooks.host.records import Inspected, Inventory


_WRITE_A_SNAPSHOT = "use a snapshot written by vllm-runbooks inventory -o FILE"


def cards(spec: str) -> tuple[HostGpu, ...]:
    """The GPUs of a specification, of a snapshot's file or case, or for `local` of this host; for `cpu` its memory.

    Raises:
        InputError: a GPU is unknown, a file is no snapshot, or no driver answers on this host.
    """
    if spec.strip() and cpu_size(spec) == 0:
        return (this_cpu(),)
    return specs().gpus(spec, _read_cards, is_snapshot)


def cpu_memory(spec: str) -> float | None:
    """Memory in GiB of a host without GPUs; None for other specifications.

    Of `cpu-64GB` it is 64, of `cpu` this host's, or what a control group allows.

    Raises:
        InputError: the specification begins as one of a CPU and continues otherwise.
    """
    size = cpu_size(spec)
    if size is None:
        return None
    if size:
        return float(size)
    here = this_cpu()
    return here.limit_gib or here.gpu.total.expected if here.gpu.total is not None else None


def this_cpu(membership: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> HostGpu:
    """The memory of this host, with the limits of the control groups of this process that are smaller."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    limits = (memory_limit.limit(membership, root)[0], memory_limit.root_limit(root))
    within, at_root = (most / 2**30 if most is not None and 0 <= most / 2**30 < gib else None for most in limits)
    return HostGpu(numa_node(max(1, round(gib)), gib), limit_gib=within, root_limit_gib=at_root)


def check(spec: str) -> None:
    """Raise InputError unless it is a specification of GPUs or of a host without."""
    if cpu_memory(spec) is None:
        cards(spec)


def is_snapshot(name: str) -> bool:
    """Whether a name is that of a recorded case with a snapshot."""
    # A name that is too long for a file is not a case.
    return bool(name) and os.path.isfile(cases_folder(None) / name / SNAPSHOT)  # noqa: PTH113


def _read_cards(name: str, node: str | None) -> tuple[HostGpu, ...]:
    from vllm_runbooks.catalog.specs import LOCAL
    from vllm_runbooks.host import inspection as inventories

    if name.casefold() != LOCAL:
        return inventories.cards(read_snapshot(name), specs(), name, node)
    from vllm_runbooks.host import inventory

    return inventories.cards(inventory.gpus_alone(), specs(), LOCAL, node)


def read_snapshot(name: str) -> Inventory:
    """Read the snapshot of a host from a file, a recorded case, or for `-` standard input.

    Raises:
        InputError: it cannot be read, or is no snapshot.
    """
    from vllm_runbooks.host import inspection as inventories

    try:
        documents = load_files([name]).documents
    except WrongFileError as error:
        raise InputError(f"{error.wrong}; {_WRITE_A_SNAPSHOT}") from None
    if len(documents) != 1:
        raise InputError(f"{name}: contains {len(documents)} files; {_WRITE_A_SNAPSHOT}")
    return inventories.read(beginning(documents[0]), "standard input" if name == "-" else name)


def inventory(snapshot: str | Evidence = "", *, need_gib: float | None = None) -> Inspected:
    """A host with the meaning of its facts for vLLM, and the GPU for the next launch.

    `snapshot` is a file, a recorded case, loaded evidence, or empty for this host. `need_gib` is
    the memory that the launch needs, by default vLLM's default share.

    Raises:
        InputError: It is not a snapshot.
    """
    from vllm_runbooks.host import inspection as inventories

    if isinstance(snapshot, Evidence):
        (document,) = snapshot.documents
        return inventories.inspect(inventories.read(beginning(document), document.name), specs(), need_gib=need_gib)
    check_texts(snapshot=snapshot)
    if snapshot.strip():
        return inventories.inspect(read_snapshot(snapshot), specs(), need_gib=need_gib)
    from vllm_runbooks.host import inventory as here

    return inventories.inspect(here.collect(), specs(), need_gib=need_gib)
