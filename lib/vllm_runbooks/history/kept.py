"""The history in a command: open it, and close an entry however the command ends."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from vllm_runbooks.core.console import output
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.records import Verdict

if TYPE_CHECKING:
    from vllm_runbooks.history.store import History

NO_HISTORY = click.option("--no-history", is_flag=True, help="Leave no entry in the history.")
_MOST_TOLD = 5
"""Most interrupted entries that are listed separately."""


@contextlib.contextmanager
def opened(*, no_history: bool) -> Iterator[History]:
    """The history, after reporting interrupted commands; an empty one if none is wanted."""
    from vllm_runbooks.history import store as history

    if no_history:
        yield history.nothing()
        return
    with history.opened(say=output.say) as store:
        gone = store.interrupted()
        for entry in gone[:_MOST_TOLD]:
            output.say(f"{entry.says}, begun {entry.began}, was interrupted")
        if more := gone[_MOST_TOLD:]:
            output.say(f"{len(more)} more of the history were interrupted; `vllm-runbooks history` lists them")
        yield store


@contextlib.contextmanager
def closed(kept: History, id_: str, began: float, is_told: Callable[[], bool], says: str) -> Iterator[None]:
    """Close an entry of an unfinished command: a rejected request leaves none, an interrupted one is kept."""
    try:
        yield
    except InputError:
        if not is_told():
            kept.withdraw(id_)
        raise
    except RunbooksError as error:
        if not is_told():
            kept.end(id_, Verdict.ERROR, str(error), seconds=time.monotonic() - began, results={})
        raise
    except BaseException:
        if not is_told():
            kept.end(id_, Verdict.INTERRUPTED, says, seconds=time.monotonic() - began, results={})
        raise
