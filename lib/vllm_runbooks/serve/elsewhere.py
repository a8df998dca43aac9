"""Interfaces of launches on other hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from vllm_runbooks.core.records import Edit
from vllm_runbooks.host.progress import Sight
from vllm_runbooks.probe.starts import Check


class Run(Protocol):
    """A running server, such as `host.running.SupervisedCommand`."""

    id: str
    status: int | None
    stopped_by: int | None
    signalled: int | None

    @property
    def ending(self) -> str:
        """Description of its end."""

    def chunks(self, *, tick_s: float) -> Iterator[bytes]:
        """Output, and `b""` at each tick without any, until all has ended."""

    def stop(self, number: int, reason: str) -> None:
        """Forward a signal and end everything."""

    def sights(self) -> Mapping[int, Sight]:
        """All processes, each under a unique number."""


class Elsewhere(Protocol):
    """Other hosts to launch on."""

    def checks(self, say: Callable[[str], None]) -> Iterator[Check]:
        """Run the checks before the launch, and lock the GPUs."""

    def launch(self, folder: Path, number: int) -> AbstractContextManager[Run]:
        """Launch; logs of other nodes go into the folder, as `places.node_logs` finds them."""

    def again(self, say: Callable[[str], None]) -> Iterator[Check]:
        """Run the checks before a further try."""

    def edited(self, edits: Sequence[Edit]) -> Elsewhere:
        """Apply changes to the command."""

    def unlock(self) -> None:
        """Unlock the GPUs: the server is ready."""
