"""Record a supervised launch in the history."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import Outcome, Verdict
from vllm_runbooks.diagnosis import expected as diagnosis_expected
from vllm_runbooks.history.kept import entry
from vllm_runbooks.probe.starts import Guarded

if TYPE_CHECKING:
    from vllm_runbooks.history.store import History
    from vllm_runbooks.serve.subject import ServedLaunch

_SIGNALLED = 128


def judged(launch: Guarded) -> tuple[Verdict, str]:
    """Verdict on a launch and its reason: a server that ran until a signal has passed."""
    last, is_stopped = launch.last, launch.status > _SIGNALLED
    if last is None:
        why = launch.failed_check or "nothing was launched"
        return (Verdict.INTERRUPTED if is_stopped else Verdict.FAIL), why
    cause = last.answer.root_cause if last.answer is not None else None
    ending = f"{last.ending}{f'; {cause.title} ({cause.symptom})' if cause is not None else ''}"
    if last.ready_s is None:
        is_cut_off = is_stopped and last.answer is not None and last.answer.outcome is not Outcome.FAILED
        return (Verdict.INTERRUPTED if is_cut_off else Verdict.FAIL), f"never ready; it {ending}"
    is_well = last.outcome.is_healthy and cause is None
    return (Verdict.PASS if is_well else Verdict.FAIL), f"ready after {last.ready_s:.1f} s; it {ending}"


def results(launch: Guarded) -> dict[str, Any]:
    last = launch.last
    answer = last.answer if last is not None else None
    cause = answer.root_cause if answer is not None else None
    return {
        "status": launch.status,
        "outcome": last.outcome.value if last is not None else None,
        "root_cause": None if cause is None else {"symptom": cause.symptom, "class": cause.class_},
        "findings": [item.symptom for item in answer.findings] if answer is not None else [],
        "facts": diagnosis_expected.facts(answer) if answer is not None else {},
        "ready_s": last.ready_s if last is not None else None,
        "phases": {f"{item.name}_s": item.seconds for item in last.phases} if last is not None else {},
        "checks": {
            f"{item.name} at {item.node}" if item.node else item.name: item.result.value for item in launch.checks
        },
        "changes": [item.change.title for item in launch.attempts if item.change is not None],
        "attempts": [
            {"outcome": item.outcome.value, "ready_s": item.ready_s, "seconds": item.seconds, "ending": item.ending}
            for item in launch.attempts
        ],
        "folder": launch.folder,
    }


_BEARING = ("VLLM_", "CUDA_", "NCCL_", "NVIDIA_", "TORCH", "PYTORCH_", "HF_", "RAY_", "OMP_", "MASTER_", "GLOO_")


@contextlib.contextmanager
def start(kept: History, subject: ServedLaunch, request: Mapping[str, Any]) -> Iterator[Callable[[Guarded], None]]:
    """Begin an entry of the history; yields a function that ends it with the launch."""
    from vllm_runbooks.core.redaction import redact
    from vllm_runbooks.history import store as history

    # From here on, the entry has none of the command's own secrets, whatever their names.
    for _ in redact.watch([subject.known]):
        pass
    id_ = kept.begin(
        "serve",
        subject.model or subject.shown,
        inputs={**_start_inputs(subject), **request},
        environment=history.surroundings(with_cards=True) | {"vllm": subject.vllm if subject.is_installed else None},
        vllm=subject.vllm,
    )
    with entry(kept, id_, "the supervisor was stopped") as end:
        yield lambda launch: end(*judged(launch), results=results(launch), vllm=launch.vllm)


def _start_inputs(subject: ServedLaunch) -> dict[str, Any]:
    from vllm_runbooks.catalog import load as catalog
    from vllm_runbooks.catalog.specs import Matter

    reviews = catalog.specs().defaults
    options = dict(document(subject.flags))
    for dest, review in reviews.options.items():
        is_counted = not review.only_with or any(dest_with in subject.flags for dest_with in review.only_with)
        if review.matters is not Matter.NOTHING and is_counted and dest not in options and dest in subject.data.by_dest:
            options[dest] = subject.value(dest)
    variables = {name: value for name, value in subject.variables.items() if name.startswith(_BEARING)}
    variables = {name: value for name, value in variables.items() if not name.startswith("VLLM_RUNBOOKS_")}
    for name, review in reviews.environment.items():
        if review.matters is not Matter.NOTHING and name not in variables and name in subject.data.environment:
            variables[name] = document(subject.data.environment[name].default)
    return {
        "command": subject.shown,
        "given": sorted(subject.flags),
        "options": options,
        "variables": dict(sorted(variables.items())),
        "release_data": subject.data.version,
    }
