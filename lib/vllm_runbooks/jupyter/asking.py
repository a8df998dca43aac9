"""When an answer is worked out: once for all asked in a moment, beside the kernel's own work, never silently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.core.views.elements import cut

_WAIT_S = 0.02
"""What happens within this time is answered once: a drag sends more than anybody can read."""
_PATIENCE_S = 0.4
"""Seconds of work after which it is said that something is worked at."""
_WORKING = "Reading …"
A = TypeVar("A")
T = TypeVar("T")


def unforeseen(error: Exception) -> str:
    """What is said where an answer broke off, in one line: no user sees the log of a kernel."""
    told = cut(redact_text(f"{type(error).__name__}: {error}"))
    return f"this could not be answered ({told}); change what is asked, or report it with what was asked"


class Later:
    """Does something soon, and once for all calls until then; at once where no loop runs."""

    def __init__(self, work: Callable[[], None], failed: Callable[[str], None], seconds: float = _WAIT_S) -> None:
        """Do nothing yet; `failed` is told in one line why the work broke off."""
        self._work, self._failed = work, failed
        self._seconds = seconds
        self._is_due = False

    def __call__(self, *_: object) -> None:
        """Have it done."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.now()
            return
        if not self._is_due:
            self._is_due = True
            loop.call_later(self._seconds, self.now)

    def now(self) -> None:
        """Do it before this returns."""
        self._is_due = False
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - whatever it is, an old answer must not stand beside a new question
            self._failed(unforeseen(error))


class Asker(Generic[A, T]):
    """Has what was asked last answered in a thread, so that the kernel stays at hand; at once where no loop runs."""

    def __init__(
        self,
        ask: Callable[[], A],
        answer: Callable[[A], T],
        show: Callable[[T], None],
        *,
        wait: Callable[[str], None],
        failed: Callable[[str], None],
    ) -> None:
        """Ask for nothing yet.

        Args:
            ask: What is asked now.
            answer: Its answer, in a thread.
            show: Shows the answer.
            wait: Is told when an answer takes its time, and with no words when it is there.
            failed: Is told in one line why there is no answer.
        """
        self._ask, self._answer, self._show, self._wait, self._failed = ask, answer, show, wait, failed
        self._now = Later(lambda: show(answer(ask())), failed)
        self._later = Later(self._begin, failed)
        self._task: asyncio.Task[None] | None = None
        self._is_due = False

    def __call__(self, *_: object) -> None:
        """Ask soon."""
        self._later()

    def now(self) -> None:
        """Ask and show before this returns."""
        self._now.now()

    def _begin(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.now()
            return
        self._is_due = True
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._is_due:
                self._is_due = False
                answer = asyncio.ensure_future(asyncio.to_thread(self._answer, self._ask()))
                if not (await asyncio.wait({answer}, timeout=_PATIENCE_S))[0]:
                    self._wait(_WORKING)
                told = await answer
                # What was asked meanwhile is what is wanted now.
                if not self._is_due:
                    self._show(told)
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(unforeseen(error))
        finally:
            self._wait("")
