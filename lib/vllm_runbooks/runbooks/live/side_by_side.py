"""Concurrent supervised launches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue

from vllm_runbooks.probe.starts import Check, Guarded, LaunchResult
from vllm_runbooks.runbooks.live.starting import Say
from vllm_runbooks.serve import guard as serve

_TICK_S = 0.2
_ENDING_S = 30.0


class Servers:
    """Supervised launches in threads, ready and ended together."""

    def __init__(self, requests: Mapping[str, serve.LaunchRequest]) -> None:
        self._names, self._requests = list(requests), list(requests.values())
        self._said: SimpleQueue[str] = SimpleQueue()
        self._done = threading.Event()
        self._is_cancelled = False
        self._ready = [False] * len(self._requests)
        self._found: list[Guarded | None] = [None] * len(self._requests)
        self._wrong: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._serve, args=(number, request), daemon=True)
            for number, request in enumerate(self._requests)
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self, number: int, request: serve.LaunchRequest) -> None:
        def proof(is_gone: Callable[[], bool]) -> None:
            self._ready[number] = True
            while not self._done.wait(_TICK_S) and not is_gone():
                pass

        def say(line: str) -> None:
            self._said.put(f"{self._names[number]}: {line}")

        try:
            self._found[number] = serve.serve(
                replace(request, proof=proof, is_cancelled=lambda: self._is_cancelled), show=lambda _: None, say=say
            )
        except BaseException as error:  # noqa: BLE001 - raised again where the others have been ended
            self._wrong.append(error)

    @property
    def is_gone(self) -> bool:
        return not all(thread.is_alive() for thread in self._threads)

    def wait(self, say: Say, *, is_stopped: Callable[[], bool] = lambda: False) -> bool:
        """Wait until all are ready; return False as soon as one has ended or `is_stopped`."""
        while not self.is_gone and not is_stopped():
            self.tell(say)
            if all(self._ready):
                return True
            time.sleep(_TICK_S)
        return False

    def end(self, say: Say) -> list[Guarded]:
        """Stop all; raises the exception of one of them."""
        self._is_cancelled = not all(self._ready)
        self._done.set()
        for thread in self._threads:
            thread.join(_ENDING_S)
        self._is_cancelled = True  # of one that is not through by now
        self.tell(say)
        if self._wrong:
            raise self._wrong[0]
        launches = [
            launch or self._not_ended(request) for launch, request in zip(self._found, self._requests, strict=True)
        ]
        # The CPU time of this process includes all supervisors in it, and other work.
        return [replace(launch, cpu_s=None) for launch in launches]

    @staticmethod
    def _not_ended(request: serve.LaunchRequest) -> Guarded:
        reason = f"it had not exited after {_ENDING_S:g} s"
        check = Check("command", LaunchResult.FAILED, reason)
        return Guarded("", request.subject.vllm, (check,), (), 1, str(request.folder), notes=(reason,))

    def tell(self, say: Say) -> None:
        with suppress(Empty):
            while True:
                say(self._said.get_nowait())
