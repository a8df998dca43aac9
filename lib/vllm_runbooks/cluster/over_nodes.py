"""A server running over several nodes: its parts launched, read, watched and stopped together.

The part that serves is stopped first, while the others still compute for its requests. When any
part ends, or a node is lost, all reachable parts are stopped.
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple, Self

from vllm_runbooks.cluster.carriers import Carrier
from vllm_runbooks.cluster.groups import MOST
from vllm_runbooks.cluster.wires import UnansweredError
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import record
from vllm_runbooks.host.progress import Sight
from vllm_runbooks.host.running import StoppableRun, ending_of, handled_by
from vllm_runbooks.serve import places

_START_S = 30.0
_ANSWER_S = 10.0
_MISSES = 2
_EVERY_S = 0.3
_SIGHTS_S = 1.0
_HEAD_S = 6.0
"""Time for the part that serves to end before the others are stopped."""
_ENDING_S = 20.0
"""Time for all parts to end before they are given up."""


@dataclass(frozen=True)
class NodeCommand:
    """Command on one node."""

    node: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    """Variables in addition to those of the node's agent."""


class _EndedCommand(NamedTuple):
    node: str
    status: int | None = None
    refused: str = ""
    lost: str = ""
    """Reason why the node no longer answers: its processes are unknown."""


class OverNodes(StoppableRun):
    """A server over nodes; leaving the block ends all of it.

    SIGINT, SIGTERM and SIGHUP end it in order, a second one immediately, in the main thread.
    """

    def __init__(self, carrier: Carrier, parts: Sequence[NodeCommand], folder: Path, number: int) -> None:
        """Prepare a try: the first part serves, the others' logs go into `folder`."""
        super().__init__()
        self._carrier, self._parts = carrier, list(parts)
        self._head = parts[0].node
        self._logs = {part.node: folder / places.node_log_name(number, part.node) for part in parts[1:]}
        self._files = dict[str, int]()
        self._groups = dict[str, str]()
        self._open = set[str]()
        self._lost = set[str]()
        self._refused = ""
        self._is_decided = False
        """Whether `status` is that of the part that ended first, which stopped the others."""
        self._came: SimpleQueue[tuple[str, bytes] | _EndedCommand] = SimpleQueue()
        self._orders: SimpleQueue[int | None] = SimpleQueue()
        self._sights = dict[str, dict[int, Sight]]()
        self._is_left = threading.Event()
        self._is_head_over = threading.Event()
        self._give_up_at = float("inf")
        self._threads = list[threading.Thread]()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undone:
            undone.callback(self._end)
            for node, path in self._logs.items():
                self._files[node] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._start()
            self._blocks.enter_context(handled_by(self._hand_on))
            undone.pop_all()
        return self

    def _start(self) -> None:
        requests = {
            part.node: {
                "do": "start",
                "command": list(part.command),
                # Without this a process that gives itself a title overwrites its environment, and with it our mark.
                "environment": {**part.environment, "SPT_NOENV": "1"},
            }
            for part in self._parts
        }
        answers = self._carrier.ask_all(requests, _START_S)
        self._groups = {
            node: str(answer["group"]) for node, answer in answers.items() if not isinstance(answer, UnansweredError)
        }
        self._open = set(self._groups)
        for node, answer in answers.items():
            if isinstance(answer, UnansweredError):
                raise InputError(f"{node}: its part cannot be launched: {answer}; check the node")
        self._threads = [threading.Thread(target=self._follow, args=(node,), daemon=True) for node in self._groups]
        self._threads.append(threading.Thread(target=self._heed, daemon=True))
        for thread in self._threads:
            thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end()
        finally:
            self._blocks.close()
        if self._refused:
            raise InputError(
                f"{self._refused}; check the program on that node, or set its Python with --python"
            ) from error

    def sights(self) -> Mapping[int, Sight]:
        """Last reported processes of all nodes; the key includes the node's number."""
        return {
            (number << 32) + pid: sight
            for number, part in enumerate(self._parts)
            for pid, sight in self._sights.get(part.node, {}).items()
        }

    def chunks(self, *, tick_s: float) -> Iterator[bytes]:
        """Output of the part that serves; the others' output goes into their logs."""
        while (self._open or not self._came.empty()) and time.monotonic() < self._give_up_at:
            try:
                came = self._came.get(timeout=tick_s)
            except Empty:
                yield b""
                continue
            if isinstance(came, _EndedCommand):
                self._take_end(came)
            elif came[0] == self._head:
                yield came[1]
            else:
                with contextlib.suppress(OSError):  # a full disk must not cost a server that runs
                    os.write(self._files[came[0]], came[1])

    def _send(self, number: int) -> None:
        self._orders.put(number)

    def _take_end(self, ended: _EndedCommand) -> None:
        is_first = self._open == set(self._groups)
        self._open.discard(ended.node)
        self._sights.pop(ended.node, None)
        if ended.refused:
            self._refused = self._refused or f"{ended.node}: {self._parts[0].command[0]} cannot be run: {ended.refused}"
        if is_first and self.stopped_by is None:
            self._is_decided = True
            self.status = ended.status
            where = "the API server" if ended.node == self._head else "a worker node"
            self._said = (
                f"was stopped: {_unknown(ended.node, ended.lost)}"
                if ended.lost
                else f"{ending_of(ended.status)} on {ended.node}, {where}; the others were stopped"
            )
            self._orders.put(signal.SIGTERM)
            return
        if ended.lost:
            self._said = f"{self.ending}; {_unknown(ended.node, ended.lost)}"
        if ended.node == self._head and not self._is_decided:
            self.status = ended.status

    def _follow(self, node: str) -> None:
        begin, misses, seen_at = 0, 0, 0.0
        while not self._is_left.is_set():
            is_due = time.monotonic() - seen_at >= _SIGHTS_S
            request = {"do": "read", "group": self._groups[node], "begin": begin, "processes": is_due}
            try:
                answer = self._carrier.ask(node, request, _ANSWER_S)
            except UnansweredError as error:
                misses += 1
                if misses >= _MISSES:
                    self._lost.add(node)
                    self._over(_EndedCommand(node, lost=str(error)))
                    return
                self._is_left.wait(_EVERY_S)
                continue
            misses, data = 0, base64.b64decode(answer["data"])
            if answer["begin"] > begin:
                self._came.put(
                    (node, f"\n[vllm-runbooks] {answer['begin'] - begin} bytes were not read in time\n".encode())
                )
            begin = answer["end"]
            if data:
                self._came.put((node, data))
            if is_due and answer["is_running"]:
                seen_at = time.monotonic()
                self._sights[node] = _seen(answer.get("processes", ()), node)
            if not answer["is_running"] and not data:
                self._over(_EndedCommand(node, answer["status"], answer["refused"]))
                return
            if len(data) < MOST:
                self._is_left.wait(_EVERY_S)

    def _over(self, ended: _EndedCommand) -> None:
        if ended.node == self._head:
            self._is_head_over.set()
        self._came.put(ended)

    def _heed(self) -> None:
        """Stop it on request: first the part that serves, then the others.

        A second request stops all together.
        """
        number = self._orders.get()
        if number is None:
            return
        self._give_up_at = time.monotonic() + _ENDING_S
        self._ask([self._head], {"do": "signal", "number": int(number)})
        others = [part.node for part in self._parts[1:]]
        has_second = False
        ends_at = time.monotonic() + _HEAD_S
        while not (self._is_head_over.is_set() or self._is_left.is_set() or has_second) and time.monotonic() < ends_at:
            with contextlib.suppress(Empty):
                has_second = self._orders.get(timeout=0.05) is not None
        if not has_second:
            self._ask(others, {"do": "signal", "number": int(signal.SIGTERM)})
        while not (has_second or self._is_left.is_set()):
            with contextlib.suppress(Empty):
                has_second = self._orders.get(timeout=0.2) is not None
        if has_second:
            self._ask([self._head, *others], {"do": "end", "at_once": True})

    def _ask(self, nodes: Sequence[str], request: Mapping[str, Any]) -> Mapping[str, Any]:
        reachable = [node for node in nodes if node in self._groups and node not in self._lost]
        requests = {node: {**request, "group": self._groups[node]} for node in reachable}
        return self._carrier.ask_all(requests, _ANSWER_S)

    def _end(self) -> None:
        self._is_left.set()
        self._orders.put(None)
        for node, answer in self._ask([*self._groups], {"do": "end", "forget": True}).items():
            if isinstance(answer, UnansweredError) and node in self._open:
                self._said = f"{self.ending}; {_unknown(node, str(answer))}"
        for thread in self._threads:
            thread.join(2 * _ANSWER_S)
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()


def _unknown(node: str, why: str) -> str:
    return f"{node} stopped responding ({why}); its processes may still be running"


def _seen(documents: Sequence[Any], node: str) -> dict[int, Sight]:
    sights = [record(Sight, item) for item in documents]
    return {sight.pid: replace(sight, name=f"{sight.name} on {node}") for sight in sights}
