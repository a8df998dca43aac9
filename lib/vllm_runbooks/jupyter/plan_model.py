"""What the panel Plan shows for its settings, and within which bounds they can be dragged."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog import options
from vllm_runbooks.core.display import Shown
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.records import Plan
from vllm_runbooks.plan.render import plans
from vllm_runbooks.plan.render import words as plan_words

_KEPT = 256
"""Answers that are kept: whoever drags goes back and forth."""
_LONGEST = 1 << 20
"""Tokens up to which contexts are offered where the model does not say how long a request may be."""
_SEQUENCES = tuple(2**power for power in range(11))
_COUNTS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Asked:
    """A start; None: as the release settles it."""

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
    """Further options as a JSON object, by argparse destination."""


@dataclass(frozen=True)
class Told:
    """What the panel shows."""

    error: str = ""
    """Why nothing can be planned, or what the release refuses, in one line."""
    overview: Shown | None = None
    terms: Shown | None = None
    command: str = ""
    """Linted and planned; empty where none starts."""
    note: str = ""
    """Why there is no command, or what is not established about it, in one line."""


@dataclass(frozen=True)
class Bounds:
    """What the sliders offer for a model, cards and a release; what is settled without them, None where not known."""

    contexts: tuple[int, ...] = (4096,)
    context: int | None = None
    """What the release settles by itself."""
    sequences: tuple[int, ...] = _SEQUENCES
    sizes: tuple[int, ...] = (1,)
    whole: int = 1
    """The largest of the sizes that is a power of two: a split that models take."""
    utilization: float | None = None
    """What the release settles by itself."""
    settled_sequences: int | None = None
    """The same."""


class Planner:
    """Plans what it is asked, and keeps the last answers; not those about a folder, whose files may change."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Asked, Told] = OrderedDict()

    def told(self, asked: Asked) -> Told:
        """The plan of a start."""
        if planner.is_folder(asked.model.strip()):
            return _told(asked)
        if asked in self._kept:
            self._kept.move_to_end(asked)
            return self._kept[asked]
        made = self._kept[asked] = _told(asked)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return made


def _told(asked: Asked) -> Told:
    try:
        found = _plan(asked)
    except RunbooksError as error:
        return Told(error=str(error))
    made = found.deployment
    is_good = made is not None and found.fits is not False and found.legal is not False
    note = "" if is_good else "No command: this start does not come up. Change what the limits name."
    if is_good and found.fits is None:
        note = f"Not established, so try it before you rely on it: {plan_words.headline(found)}."
    return Told(
        overview=plans.overview(found),
        terms=plans.terms(found),
        command=made.command if made is not None and is_good else "",
        note=note,
    )


def _plan(asked: Asked) -> Plan:
    given = {
        "gpu_memory_utilization": asked.utilization,
        "max_model_len": asked.context,
        "max_num_seqs": asked.sequences,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    return planner.plan_model(
        asked.model.strip(),
        asked.gpus.strip(),
        vllm=asked.vllm.strip() or None,
        tp=asked.tp,
        pp=asked.pp,
        dp=asked.dp,
        options={**settings, **_further(asked.options), **settings},
    )


def _further(text: str) -> Mapping[str, Any]:
    """Options from JSON.

    Raises:
        InputError: It is no JSON object.
    """
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError('further options: are no JSON object; write them as in {"limit_mm_per_prompt": {"video": 0}}')
    return found


def bounds(asked: Asked) -> Bounds:
    """What the sliders offer; what cannot be known is offered as usual."""
    try:
        cards = len(host_loading.cards(asked.gpus.strip()))
        found = _plan(Asked(asked.model, asked.gpus, asked.vllm, options=asked.options))
    except RunbooksError:
        return Bounds()
    longest = plan_words.option(found, "max_model_len")
    context = longest if isinstance(longest, int) and longest > 0 else None
    contexts = [size for power in range(9, 24) if (size := 2**power) < (context or _LONGEST + 1)]
    sizes = [size for size in range(1, cards + 1) if cards % size == 0 or size & (size - 1) == 0]
    sequences = plan_words.option(found, "max_num_seqs")
    return Bounds(
        (*contexts, *([context] if context else [])),
        context,
        _SEQUENCES,
        tuple(sizes),
        max(s for s in sizes if s & (s - 1) == 0),
        plan_words.utilization(found),
        sequences if isinstance(sequences, int) else None,
    )


def models() -> Sequence[str]:
    """Names of the models that the catalog knows."""
    return list(catalog.specs().texts)


def cards() -> Sequence[str]:
    """Cards by name and number, as a request names them."""
    return [f"{count}x{gpu.name}" for gpu in catalog.specs().table.gpus for count in _COUNTS if " " not in gpu.name]


def releases(given: str = "") -> Sequence[str]:
    """The releases that are known, the newest first; another that is given before them."""
    known = list(reversed(options.known_releases()))
    return known if not given or given in known else [given, *known]
