"""What a look at a running server came to, as the history keeps it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from vllm_runbooks.catalog import options
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.history.kept import closed
from vllm_runbooks.lint.ways_out import starts_of
from vllm_runbooks.probe import expected as probe_expected
from vllm_runbooks.probe.records import Health, Observation
from vllm_runbooks.reading import arguments, deployment, documents

if TYPE_CHECKING:
    from vllm_runbooks.history.store import History


def inputs(found: Health) -> dict[str, Any]:
    """What was looked at, and how the server is set up as far as it tells."""
    seen = found.observation
    return {
        "model": seen.model,
        "served": {each.id: each.max_model_len for each in seen.models},
        "settings": dict(seen.settings),
        "arguments": dict(seen.arguments),
        "command": seen.command,
        **_options(seen),
    }


def _options(seen: Observation) -> dict[str, Any]:
    """The options that the command gives, as its release reads them; nothing where it starts none, or several."""
    starts = starts_of(documents.read(seen.command)) if seen.command else ()
    if len(starts) != 1:
        return {}
    words = [word.value for word in starts[0].words]
    try:
        release = options.load(starts[0].release or seen.vllm or options.known_releases()[-1])
    except InputError:
        return {}
    flags = arguments.parse(words, release, deployment.parser_entry(starts[0].entry, words, release)).flags
    return {"given": sorted(flags), "options": dict(document(flags))}


def results(found: Health) -> dict[str, Any]:
    """What it came to: findings, the highest rung, the figures, and what a load showed."""
    seen = found.observation
    return {
        "outcome": found.outcome.value,
        "root_cause": document(probe_expected.cause_of(found)),
        "findings": [each.id for each in found.findings],
        "rungs": {each.name: each.result.value for each in seen.rungs},
        "facts": {name: value for name, value in found.facts.items() if value is not None},
        "load": None if seen.load is None else document(seen.load),
        "log": None if seen.log is None else document(seen.log),
    }


@contextlib.contextmanager
def look(kept: History, address: str, asked: Mapping[str, Any]) -> Iterator[Callable[[Health], None]]:
    """Tell the history of a probe; call what is yielded with what came of it."""
    began = time.monotonic()
    id_ = kept.begin("probe", address, inputs=asked)
    is_told = False

    def tell(found: Health) -> None:
        nonlocal is_told
        is_told = True
        kept.end(
            id_,
            found.verdict,
            found.reason,
            seconds=time.monotonic() - began,
            inputs={**asked, **inputs(found)},
            results=results(found),
            vllm=found.vllm.version,
        )

    with closed(kept, id_, began, lambda: is_told, "the probe was ended"):
        yield tell
