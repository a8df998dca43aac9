"""What can be said about a launch that another program builds: its vLLM and its own options are not in the file."""

from __future__ import annotations

from dataclasses import replace

from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.reading.arguments.spelling import misspelt
from vllm_runbooks.reading.documents.starts import WrittenLaunch

_OF_NAMES = frozenset(
    f"option.{kind}"
    for kind in (
        "unknown",
        "foreign",
        "ambiguous",
        "abbreviation",
        "extra-positional",
        "model-ignored",
        "model-as-option",
    )
)
"""Rules about names that the program may have itself."""
_OF_COMMANDS = frozenset(("option.required",))


def of_built(hit: Hit, launch: WrittenLaunch) -> Hit | None:
    """The hit if it holds whatever the program adds to the launch; a typing error of a name is information."""
    if not launch.builder:
        return hit
    if launch.has_own_options and hit.rule in _OF_NAMES:
        nearest, written = hit.says.get("nearest", ""), hit.says.get("written") or hit.says.get("option", "")
        is_misspelt = hit.rule == "option.unknown" and nearest and misspelt(written.lstrip("-"), [nearest.lstrip("-")])
        return replace(hit, edits=(), is_information=True) if is_misspelt else None
    return None if hit.rule in _OF_COMMANDS else hit
