"""Record a probe in the history."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from vllm_runbooks.catalog import options
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.history.kept import entry
from vllm_runbooks.lint.ways_out import starts_of
from vllm_runbooks.probe import expected as probe_expected
from vllm_runbooks.probe.records import Health, Observation
from vllm_runbooks.reading import arguments, deployment, documents

if TYPE_CHECKING:
    from vllm_runbooks.history.store import History
    from vllm_runbooks.reading.documents.starts import WrittenLaunch


def inputs(health: Health) -> dict[str, Any]:
    seen = health.observation
    return {
        "model": seen.model,
        "served": {model.id: model.max_model_len for model in seen.models},
        "settings": dict(seen.settings),
        "arguments": dict(seen.arguments),
        "command": seen.command,
        **_options(seen),
    }


def _options(seen: Observation) -> dict[str, Any]:
    starts = starts_of(documents.read(seen.command)) if seen.command else ()
    if len(starts) != 1:
        return {}
    try:
        flags = launch_options(starts[0], seen.vllm)
    except InputError:
        return {}
    return {"given": sorted(flags), "options": dict(document(flags))}


def launch_options(launch: WrittenLaunch, vllm: str | None = None) -> Mapping[str, Any]:
    """Options of a launch by argparse destination, as its release reads them, else `vllm`, else the newest one."""
    release = options.load(launch.release or vllm or options.known_releases()[-1])
    words = [word.value for word in launch.words]
    return arguments.parse(words, release, deployment.parser_entry(launch.entry, words, release)).flags


def results(health: Health) -> dict[str, Any]:
    seen = health.observation
    return {
        "outcome": health.outcome.value,
        "root_cause": document(probe_expected.cause_of(health)),
        "findings": [item.id for item in health.findings],
        "health_checks": {item.name: item.result.value for item in seen.health_checks},
        "facts": {name: value for name, value in health.facts.items() if value is not None},
        "load": None if seen.load is None else document(seen.load),
        "log": None if seen.log is None else document(seen.log),
    }


@contextlib.contextmanager
def look(kept: History, address: str, request: Mapping[str, Any]) -> Iterator[Callable[[Health], None]]:
    """Begin an entry of the history; yields a function that ends it with a result."""
    id_ = kept.begin("probe", address, inputs=request)
    with entry(kept, id_, "the probe was stopped") as end:
        yield lambda health: end(
            health.verdict,
            health.reason,
            inputs={**request, **inputs(health)},
            results=results(health),
            vllm=health.vllm.version,
        )
