"""Content of the GPUs panel for a host: a single look, or several while it is watched."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.display import RenderedView, one_line
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.files import SNAPSHOT
from vllm_runbooks.core.views.elements import cut
from vllm_runbooks.host import inventory
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.host import render as inventories
from vllm_runbooks.host.gpu_memory import Nvml, Source
from vllm_runbooks.host.records import Inspected

_LOOKS = 30
"""Number of kept samples, to detect changes of a GPU's memory."""


@dataclass(frozen=True)
class GpuReport:
    """Content of the panel."""

    error: str = ""
    cards: RenderedView | None = None
    chosen: RenderedView | None = None
    findings: RenderedView | None = None


def report_on(snapshot: str, *, need_gib: float | None = None) -> GpuReport:
    """A host from a snapshot or recorded case; for an empty name one look at this host, limits included."""
    try:
        return _shown(host_loading.inventory(snapshot.strip(), need_gib=need_gib))
    except RunbooksError as error:
        return GpuReport(error=str(error))


class GpuWatch:
    """Watches this host's GPUs."""

    def __init__(self, source: Source | None = None, *, need_gib: float | None = None) -> None:
        """Begin to watch.

        Args:
            source: Source of readings; None for this host's driver.
            need_gib: Memory that the launch needs, in GiB.

        Raises:
            InputError: No driver is available.
        """
        self._source: Source = Nvml() if source is None else source
        self._need_gib = need_gib
        self._readings = deque([self._source.read()], maxlen=_LOOKS)

    def look(self) -> GpuReport:
        """The GPUs now, and how their memory changed over the last looks."""
        self._readings.append(self._source.read())
        try:
            inspected = inventory.seen(list(self._readings), "the driver", catalog.specs(), self._need_gib)
        except InputError as error:
            return GpuReport(error=str(error))
        return _shown(inspected)

    def close(self) -> None:
        """Close the driver."""
        if isinstance(self._source, Nvml):
            self._source.close()


def _shown(inspected: Inspected) -> GpuReport:
    findings = inventories.findings(inspected)
    if inspected.recommendation is None:
        reason = one_line(cut(inspected.no_gpus_reason or "no GPU is listed", 400))
        return GpuReport(f"No GPU found: {reason}; use a snapshot of another host to see its GPUs.", findings=findings)
    return GpuReport("", inventories.host(inspected), inventories.chosen(inspected), findings)


def recorded() -> list[str]:
    """Ids of the recorded hosts."""
    return sorted(path.parent.name for path in folders.cases_dir().glob(f"*/{SNAPSHOT}"))
