"""What a guarded start came to, as the history keeps it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import Outcome, Verdict
from vllm_runbooks.diagnosis import expected as diagnosis_expected
from vllm_runbooks.history.kept import closed
from vllm_runbooks.probe.starts import Check, Guarded, Result

if TYPE_CHECKING:
    from vllm_runbooks.history.store import History
    from vllm_runbooks.serve.subject import Subject

_SIGNALLED = 128
"""From here on an exit status tells the signal that ended it."""


def judged(found: Guarded) -> tuple[Verdict, str]:
    """How a guarded start ended, and why in one line: a server that served until it was told to end has passed."""
    last = found.attempts[-1] if found.attempts else None
    is_stopped = found.status > _SIGNALLED
    if last is None:
        failed = next((check for check in found.checks if check.result is Result.FAILED), None)
        why = f"not started: {failed.name}: {failed.says}" if failed is not None else "nothing was started"
        return (Verdict.INTERRUPTED if is_stopped else Verdict.FAIL), why
    cause = last.answer.root_cause if last.answer is not None else None
    said = f"{last.ending}{f'; {cause.title} ({cause.symptom})' if cause is not None else ''}"
    if last.ready_s is None:
        is_cut_off = is_stopped and last.answer is not None and last.answer.outcome is not Outcome.FAILED
        return (Verdict.INTERRUPTED if is_cut_off else Verdict.FAIL), f"never ready; it {said}"
    is_well = last.outcome.is_healthy and cause is None
    return (Verdict.PASS if is_well else Verdict.FAIL), f"ready after {last.ready_s:.1f} s; it {said}"


def results(found: Guarded) -> dict[str, Any]:
    """What it came to: its tries, and of the last one the diagnosis, the times and the facts."""
    last = found.attempts[-1] if found.attempts else None
    answer = last.answer if last is not None else None
    cause = answer.root_cause if answer is not None else None
    return {
        "status": found.status,
        "outcome": last.outcome.value if last is not None else None,
        "root_cause": None if cause is None else {"symptom": cause.symptom, "class": cause.class_},
        "findings": [each.symptom for each in answer.findings] if answer is not None else [],
        "facts": diagnosis_expected.facts(answer) if answer is not None else {},
        "ready_s": last.ready_s if last is not None else None,
        "phases": {f"{each.name}_s": each.seconds for each in last.phases} if last is not None else {},
        "checks": {_at_node(each): each.result.value for each in found.checks},
        "changes": [each.change.title for each in found.attempts if each.change is not None],
        "attempts": [
            {"outcome": each.outcome.value, "ready_s": each.ready_s, "seconds": each.seconds, "ending": each.ending}
            for each in found.attempts
        ],
        "folder": found.folder,
    }


def _at_node(check: Check) -> str:
    return f"{check.name} at {check.node}" if check.node else check.name


_BEARING = ("VLLM_", "CUDA_", "NCCL_", "NVIDIA_", "TORCH", "PYTORCH_", "HF_", "RAY_", "OMP_", "MASTER_", "GLOO_")
"""How the names of variables begin that bear on a start of vLLM."""


@contextlib.contextmanager
def start(kept: History, subject: Subject, asked: Mapping[str, Any]) -> Iterator[Callable[[Guarded], None]]:
    """Tell the history of a guarded start; call what is yielded with what came of it."""
    from vllm_runbooks.core.redaction import redact
    from vllm_runbooks.history import store as history

    # From here on what is kept has none of the command's own secrets, whatever they are called.
    for _ in redact.watch([subject.known]):
        pass
    began = time.monotonic()
    id_ = kept.begin(
        "serve",
        subject.model or subject.shown,
        inputs={**_start_inputs(subject), **asked},
        environment=history.surroundings(with_cards=True) | {"vllm": subject.vllm if subject.is_installed else None},
        vllm=subject.vllm,
    )
    is_told = False

    def tell(found: Guarded) -> None:
        nonlocal is_told
        is_told = True
        verdict, reason = judged(found)
        seconds = time.monotonic() - began
        kept.end(id_, verdict, reason, seconds=seconds, results=results(found), vllm=found.vllm)

    with closed(kept, id_, began, lambda: is_told, "the guard was ended"):
        yield tell


def _start_inputs(subject: Subject) -> dict[str, Any]:
    """What a start is given: its command, every option that it sets or whose default matters, variables that bear."""
    from vllm_runbooks.catalog import load as catalog
    from vllm_runbooks.catalog.specs import Matter

    reviews = catalog.specs().defaults
    options = dict(document(subject.flags))
    for dest, review in reviews.options.items():
        is_counted = not review.only_with or any(one in subject.flags for one in review.only_with)
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
