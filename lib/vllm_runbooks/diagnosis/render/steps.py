"""Steps of a runbook on a log: the failure, the memory, the fixes, the verification."""

from __future__ import annotations

from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.core.records import Answer
from vllm_runbooks.core.views.runbook_steps import StepText
from vllm_runbooks.core.views.start_pictures import PHASE_NAMES
from vllm_runbooks.core.views.summary import sentence_of
from vllm_runbooks.diagnosis.render import words as answer_words
from vllm_runbooks.diagnosis.render.figures import printed_gib
from vllm_runbooks.diagnosis.render.summaries import option_text

_ENGLISH = Wording(None)
_LEAST_OTHERS_GIB = 0.1
"""Memory of other processes below this is the driver's own."""


def failure(answer: Answer) -> StepText | None:
    """The failure, its cause and the first action; None for a launch that did not fail."""
    if answer.outcome.is_healthy:
        return None
    cause = answer.internal_error or answer.root_cause
    if cause is None:
        if answer.first_error is None:
            return StepText(answer_words.no_cause(answer))
        place = answer_words.place_of(answer.first_error, answer.files, _ENGLISH)
        fact = f"The first unexplained error is in {place}: `{answer.first_error.text.strip()}`"
        return StepText(fact, do="Search the web and vLLM's issues for this message.")
    place = answer_words.place_of(cause.evidence[0], answer.files, _ENGLISH) if cause.evidence else ""
    phase = next((PHASE_NAMES.get(start.phase or "") for start in answer.starts[-1:]), None)
    where = ", ".join(filter(None, (place, f"in the phase “{phase}”" if phase else "")))
    return StepText(f"{cause.title} ({where})." if where else f"{cause.title}.", cause.explanation, cause.do_first)


def memory(answer: Answer) -> StepText | None:
    """Processes that used the GPU's memory when the allocation failed; None if not reported."""
    captures = dict(answer.root_cause.captures) if answer.root_cause else {}
    total, requested = printed_gib(captures, "total"), printed_gib(captures, "tried")
    if not total or requested is None:
        return None
    parts = dict(answer_words.memory_parts(captures, total))
    held = parts.get("allocated by PyTorch", parts.get("this process"))
    others = parts.get("other processes", 0.0)
    unused = parts.get("reserved by PyTorch, unallocated", 0.0)
    details = [f"{parts['free']:.2f} GiB was free"] if "free" in parts else []
    if others >= _LEAST_OTHERS_GIB:
        details.append(f"other processes held {others:.2f} GiB")
    holder = "PyTorch" if "allocated by PyTorch" in parts else "This process"
    begun = f"{holder} held {held:.2f} of {total:.2f} GiB" if held is not None else f"The GPU has {total:.2f} GiB"
    fact = f"{begun} when {requested:.2f} GiB more was requested" + (f"; {', '.join(details)}." if details else ".")
    if others >= requested:
        return StepText(
            fact,
            "Without the other processes the request would have succeeded.",
            "Stop them or use a free GPU; `vllm-runbooks inventory` lists both.",
        )
    if unused >= requested:
        return StepText(fact, f"PyTorch reserved another {unused:.2f} GiB that is free but fragmented.")
    return StepText(fact, "The model with these settings needs more memory than this GPU has.")


def fixes(answer: Answer) -> StepText | None:
    """The first fix with its cost, and its command if the launch is known; None without a fix."""
    if not answer.remedies:
        return None
    first, others = answer.remedies[0], len(answer.remedies) - 1
    change = option_text(first.edits)
    parts = [f"{first.title} (`{change}`)." if change else sentence_of(first.title)]
    if first.cost.strip(".").lower() != "none":
        parts.append(sentence_of(f"Cost: {first.cost}"))
    if others:
        parts.append(f"If that costs too much, use {'the other fix' if others == 1 else 'another of the fixes'} below.")
    return StepText(do=" ".join(parts), command=first.command or "")


def verification(answer: Answer) -> StepText | None:
    """How to verify the cause, and what rules it out; None without a cause."""
    cause = answer.internal_error or answer.root_cause
    if cause is None or answer.outcome.is_healthy:
        return None
    conditions = cause.conditions
    parts = [f"the log shows that {'; '.join(conditions.matched)}" if conditions.matched else ""]
    parts += [f"it does not show whether {'; '.join(conditions.unknown)}" if conditions.unknown else ""]
    fact = f"The cause is {cause.level.value}" + "".join(f"; {part}" for part in parts if part)
    return StepText(sentence_of(fact), f"It is not the cause if: {cause.refute}", cause.confirm)
