"""Usual times of a launch's phases, from recorded launches and the user's own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vllm_runbooks.catalog import folders
from vllm_runbooks.serve import places

FILE = "durations.json"
"""Catalog file: by phase, case to seconds, from the clocks of recorded cases."""
_MOST_REPORTS = 20


class Usual(NamedTuple):
    most_s: float
    says: str


def usual(command: str, starts: Path) -> dict[str, Usual]:
    """Usual time of each phase: of the last launch with this command, else of the recorded ones."""
    last_launch = next(_own(command, starts), {})
    by_phase = {}
    for phase, cases in recorded().items():
        least, most = min(cases.values()), max(cases.values())
        count = f"{len(cases)} recorded launch{'es' * (len(cases) != 1)}"
        span = f"{least:g} to {most:g} s" if least != most else f"{least:g} s"
        by_phase[phase] = Usual(most, f"{span} in {count}")
    for phase, seconds in last_launch.items():
        by_phase[phase] = Usual(seconds, f"{seconds:.1f} s, as in the last launch with this command")
    return by_phase


@cache
def recorded() -> Mapping[str, Mapping[str, float]]:
    with contextlib.suppress(OSError, ValueError):
        seconds: dict[str, dict[str, float]] = json.loads((folders.catalog_dir() / FILE).read_text("utf-8"))
        return seconds
    return {}


def _own(command: str, starts: Path) -> Iterator[dict[str, float]]:
    for path in sorted(starts.glob(f"*/{places.REPORT}"), reverse=True)[:_MOST_REPORTS]:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            for tried in reversed(json.loads(path.read_text("utf-8"))["attempts"]):
                if tried["command"] == command and tried["ready_s"] is not None:
                    yield {phase["name"]: phase["seconds"] for phase in tried["phases"] if phase["seconds"] is not None}
