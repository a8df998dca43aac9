"""What the panel Plan shows for its settings, and within which bounds they can be dragged."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from vllm_runbooks import options, planner, session
from vllm_runbooks.display import Shown
from vllm_runbooks.errors import RunbooksError
from vllm_runbooks.plan_records import Plan
from vllm_runbooks.render import plans

_KEPT = 256
"""Answers that are kept: whoever drags goes back and forth."""
_LONGEST = 1 << 20
"""Tokens offered where the model does not say how long a request may be."""
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


@dataclass(frozen=True)
class Told:
    """What the panel shows."""

    error: str = ""
    """Why nothing can be planned, or what the release refuses, in one line."""
    overview: Shown | None = None
    terms: Shown | None = None
    command: str = ""
    """Linted and planned; empty where none starts."""
    why_no_command: str = ""


@dataclass(frozen=True)
class Bounds:
    """What the sliders offer for a model, cards and a release."""

    contexts: tuple[int, ...] = (4096,)
    sequences: tuple[int, ...] = _SEQUENCES
    sizes: tuple[int, ...] = (1,)
    utilization: float = 0.9
    """What the release settles by itself."""


class Planner:
    """Plans what it is asked, and keeps the last answers."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Asked, Told] = OrderedDict()

    def told(self, asked: Asked) -> Told:
        """The plan of a start."""
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
    why = "" if is_good else "No command: this start does not come up. Change what the limits name."
    return Told(
        overview=plans.overview(found),
        terms=plans.terms(found),
        command=made.command if made is not None and is_good else "",
        why_no_command=why,
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
        options=settings,
    )


def bounds(asked: Asked) -> Bounds:
    """What the sliders offer; what cannot be known is offered as usual."""
    try:
        cards = len(session.cards(asked.gpus.strip()))
        found = _plan(Asked(asked.model, asked.gpus, asked.vllm))
    except RunbooksError:
        return Bounds()
    longest = plans.option(found, "max_model_len")
    most = longest if isinstance(longest, int) and longest > 0 else _LONGEST
    contexts = [size for power in range(9, 24) if (size := 2**power) < most]
    sizes = [size for size in range(1, cards + 1) if cards % size == 0 or size & (size - 1) == 0]
    share = plans.utilization(found)
    return Bounds((*contexts, most), _SEQUENCES, tuple(sizes), share if share is not None else 0.9)


def models() -> Sequence[str]:
    """Names of the models that the catalog knows."""
    return list(session.specs().texts)


def cards() -> Sequence[str]:
    """Cards by name and number, as a request names them."""
    return [f"{count}x{gpu.name}" for gpu in session.specs().table.gpus for count in _COUNTS if " " not in gpu.name]


def releases() -> Sequence[str]:
    """The releases that are known, the newest first."""
    return list(reversed(options.known_releases()))
