"""Functions that a package needs from one above it, imported when used, so that imports go one way."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

CASE_READER = "vllm_runbooks.runbooks.case_files:read_case"
"""Reads and checks a case.yaml; `reading` loads recorded cases with it."""
OTHER_PROGRAMS = "vllm_runbooks.edge10.scripts:apart"
"""Finds Edge10's programs in a text, which `lint` leaves out."""
JOB_VERDICT = "vllm_runbooks.edge10.evidence:recorded_verdict"
"""Checks a recorded Edge10 job for `runbooks`."""


def extension(name: str) -> Any:
    """The function of one of the constants above."""
    return resolve_name(name)
