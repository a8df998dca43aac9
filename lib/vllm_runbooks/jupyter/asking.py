"""Delayed answers: one for all requests of a short time, in a thread, with every error shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.core.views.elements import cut

_WAIT_S = 0.02
"""Requests within this time get one answer: a drag sends more than a person can read."""
_PATIENCE_S = 0.4
"""Seconds after which the panel shows that it is working."""
_WORKING = "Reading …"
A = TypeVar("A")
T = TypeVar("T")


def unforeseen(error: Exception) -> str:
    """One line for an unexpected error: no user sees a kernel's log."""
    message = cut(redact_text(f"{type(error).__name__}: {error}"))
    return f"internal error ({message}); change the input, or report it with the input"


class Later:
    """Calls a function soon, once for all requests until then.

    Immediately without an event loop.
    """

    def __init__(self, work: Callable[[], None], failed: Callable[[str], None], seconds: float = _WAIT_S) -> None:
        """Schedule nothing yet; `failed` receives one line if the function raises."""
        self._work, self._failed = work, failed
        self._seconds = seconds
        self._is_due = False

    def __call__(self, *_: object) -> None:
        """Schedule the call."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.now()
            return
        if not self._is_due:
            self._is_due = True
            loop.call_later(self._seconds, self.now)

    def now(self) -> None:
        """Call it before this returns."""
        self._is_due = False
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - an old answer must not stay next to a new request
            self._failed(unforeseen(error))


class Asker(Generic[A, T]):
    """Answers the latest request in a thread, so that the kernel stays responsive; directly if no event loop runs."""

    def __init__(
        self,
        ask: Callable[[], A],
        answer: Callable[[A], T],
        show: Callable[[T], None],
        *,
        wait: Callable[[str], None],
        failed: Callable[[str], None],
    ) -> None:
        """Prepare requests without starting one.

        Args:
            ask: Returns the current request.
            answer: Answers it, in a thread.
            show: Shows the answer.
            wait: Receives a message while an answer takes long, and an empty one afterwards.
            failed: Receives one line if there is no answer.
        """
        self._ask, self._answer, self._show, self._wait, self._failed = ask, answer, show, wait, failed
        self._now = Later(lambda: show(answer(ask())), failed)
        self._later = Later(self._begin, failed)
        self._task: asyncio.Task[None] | None = None
        self._is_due = False

    def __call__(self, *_: object) -> None:
        """Answer soon."""
        self._later()

    def now(self) -> None:
        """Answer and show before this returns."""
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
                result = await answer
                # A newer request replaces this one.
                if not self._is_due:
                    self._show(result)
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(unforeseen(error))
        finally:
            self._wait("")
