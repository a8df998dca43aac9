"""What the guard needs of a start whose processes do not run below it, but on other hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from vllm_runbooks.core.records import Edit
from vllm_runbooks.host.progress import Sight
from vllm_runbooks.probe.starts import Check


class Run(Protocol):
    """A server that runs, as `host.running.Running` is one of this host."""

    id: str
    status: int | None
    stopped_by: int | None
    signalled: int | None

    @property
    def ending(self) -> str:
        """How it ended, in words."""

    def chunks(self, *, tick_s: float) -> Iterator[bytes]:
        """What it prints, and nothing (`b""`) at each tick without it, until all of it has ended."""

    def stop(self, number: int, reason: str) -> None:
        """Hand a signal on to it, and end all of it."""

    def sights(self) -> Mapping[int, Sight]:
        """Every process of it, each by a number of its own."""


class Elsewhere(Protocol):
    """Where a server is started that is none of this host's."""

    def checks(self, say: Callable[[str], None]) -> Iterator[Check]:
        """What is looked at there before; other starts are kept off from then on."""

    def launch(self, folder: Path, number: int) -> AbstractContextManager[Run]:
        """Start it; logs beside the server's own go into the folder, as `places.node_logs` finds them."""

    def again(self, say: Callable[[str], None]) -> Iterator[Check]:
        """What is looked at there before a further try."""

    def edited(self, edits: Sequence[Edit]) -> Elsewhere:
        """The same with changes made in the command."""

    def unlock(self) -> None:
        """Let other starts go on: it is ready."""
