"""Content of the Plan panel for its settings, and the bounds of its sliders."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog import options
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.records import Plan
from vllm_runbooks.plan.render import plans
from vllm_runbooks.plan.render import words as plan_words

_KEPT = 256
"""Number of cached answers: dragging goes back and forth."""
_LONGEST = 1 << 20
"""Longest context in tokens that is offered if the model's own is unknown."""
_SEQUENCES = tuple(2**power for power in range(11))
_COUNTS = (1, 2, 4, 8)


@dataclass(frozen=True)
class PlanRequest:
    """A launch; None for the release's default."""

    model: str
    gpus: str
    vllm: str = ""
    utilization: float | None = None
    context: int | None = None
    sequences: int | None = None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    options: str = ""
    """Other options as a JSON object, by argparse destination."""


@dataclass(frozen=True)
class PlanReport:
    """Content of the panel."""

    error: str = ""
    """Reason for a missing plan, or the release's error, in one line."""
    overview: RenderedView | None = None
    terms: RenderedView | None = None
    command: str = ""
    """A linted and planned command; empty if there is none."""
    note: str = ""
    """Reason for a missing command, or its uncertainty, in one line."""


@dataclass(frozen=True)
class SliderBounds:
    """Bounds of the sliders for a model, GPUs and a release; defaults are None if unknown."""

    contexts: tuple[int, ...] = (4096,)
    context: int | None = None
    """Default of the release."""
    sequences: tuple[int, ...] = _SEQUENCES
    sizes: tuple[int, ...] = (1,)
    whole: int = 1
    """The largest size that is a power of two: a split that models accept."""
    utilization: float | None = None
    """Default of the release."""
    default_sequences: int | None = None
    """Default of the release."""


class Planner:
    """Plans a request, and caches the last answers, except for folders, whose files may change."""

    def __init__(self) -> None:
        self._kept: OrderedDict[PlanRequest, PlanReport] = OrderedDict()

    def told(self, request: PlanRequest) -> PlanReport:
        """Plan a launch."""
        if planner.is_folder(request.model.strip()):
            return _report_on(request)
        if request in self._kept:
            self._kept.move_to_end(request)
            return self._kept[request]
        made = self._kept[request] = _report_on(request)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return made


def _report_on(request: PlanRequest) -> PlanReport:
    try:
        plan = _plan(request)
    except RunbooksError as error:
        return PlanReport(error=str(error))
    made = plan.deployment
    is_good = made is not None and plan.fits is not False and plan.legal is not False
    note = "" if is_good else "No command: this launch would fail. Change the settings named in the limits."
    if is_good and plan.fits is None:
        note = f"Uncertain, so test it before you rely on it: {plan_words.headline(plan)}."
    return PlanReport(
        overview=plans.overview(plan),
        terms=plans.terms(plan),
        command=made.command if made is not None and is_good else "",
        note=note,
    )


def _plan(request: PlanRequest) -> Plan:
    arguments = {
        "gpu_memory_utilization": request.utilization,
        "max_model_len": request.context,
        "max_num_seqs": request.sequences,
    }
    settings = {name: value for name, value in arguments.items() if value is not None}
    return planner.plan_model(
        request.model.strip(),
        request.gpus.strip(),
        vllm=request.vllm.strip() or None,
        tp=request.tp,
        pp=request.pp,
        dp=request.dp,
        options={**settings, **_further(request.options), **settings},
    )


def _further(text: str) -> Mapping[str, Any]:
    """Parse options from JSON.

    Raises:
        InputError: it is not a JSON object.
    """
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise InputError(
            'further options: this is not a JSON object; write for example {"limit_mm_per_prompt": {"video": 0}}'
        )
    return parsed


def bounds(request: PlanRequest) -> SliderBounds:
    """Bounds of the sliders; the usual ones for unknown values."""
    try:
        cards = len(host_loading.cards(request.gpus.strip()))
        plan = _plan(PlanRequest(request.model, request.gpus, request.vllm, options=request.options))
    except RunbooksError:
        return SliderBounds()
    longest = plan_words.option(plan, "max_model_len")
    context = longest if isinstance(longest, int) and longest > 0 else None
    contexts = [size for power in range(9, 24) if (size := 2**power) < (context or _LONGEST + 1)]
    sizes = [size for size in range(1, cards + 1) if cards % size == 0 or size & (size - 1) == 0]
    sequences = plan_words.option(plan, "max_num_seqs")
    return SliderBounds(
        (*contexts, *([context] if context else [])),
        context,
        _SEQUENCES,
        tuple(sizes),
        max(s for s in sizes if s & (s - 1) == 0),
        plan_words.utilization(plan),
        sequences if isinstance(sequences, int) else None,
    )


def models() -> Sequence[str]:
    """Names of the models in the catalog."""
    return list(catalog.specs().texts)


def cards() -> Sequence[str]:
    """GPUs by name and number, as a request names them."""
    return [f"{count}x{gpu.name}" for gpu in catalog.specs().table.gpus for count in _COUNTS if " " not in gpu.name]


def releases(chosen: str = "") -> Sequence[str]:
    """The known releases, the newest first, after another chosen one."""
    names = list(reversed(options.known_releases()))
    return names if not chosen or chosen in names else [chosen, *names]
