"""The history in a command: open it, and close an entry however the command ends."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from vllm_runbooks.core.console import output
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.records import Verdict

if TYPE_CHECKING:
    from vllm_runbooks.history.store import History

NO_HISTORY = click.option("--no-history", is_flag=True, help="Do not record this in the history.")
_MOST_TOLD = 5
"""Most interrupted entries that are listed separately."""


@contextlib.contextmanager
def opened(*, no_history: bool) -> Iterator[History]:
    """The history, after reporting interrupted commands; an empty one with `no_history`."""
    from vllm_runbooks.history import store as history

    if no_history:
        yield history.nothing()
        return
    with history.opened(say=output.say) as store:
        gone = store.interrupted()
        for command in gone[:_MOST_TOLD]:
            output.say(f"{command.says}, started {command.began}, was interrupted")
        if more := gone[_MOST_TOLD:]:
            output.say(f"{len(more)} more entries were interrupted; `vllm-runbooks history` lists them")
        yield store


@contextlib.contextmanager
def entry(history: History, id_: str, why_interrupted: str) -> Iterator[Callable[..., None]]:
    """Yield a function that ends an entry.

    An open entry is removed if the request was invalid, else closed.
    """
    began, is_ended = time.monotonic(), False

    def end(verdict: Verdict, reason: str, **content: Any) -> None:
        nonlocal is_ended
        is_ended = True
        history.end(id_, verdict, reason, seconds=time.monotonic() - began, **content)

    try:
        yield end
    except BaseException as error:
        if not is_ended and isinstance(error, InputError):
            history.withdraw(id_)
        elif not is_ended and isinstance(error, RunbooksError):
            end(Verdict.ERROR, str(error), results={})
        elif not is_ended:
            end(Verdict.INTERRUPTED, why_interrupted, results={})
        raise
