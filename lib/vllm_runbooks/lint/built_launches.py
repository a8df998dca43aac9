"""What can be said about a launch that another program builds: its vLLM and its own options are not in the file."""

from __future__ import annotations

from vllm_runbooks.lint.hits import Hit
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


def is_certain(hit: Hit, launch: WrittenLaunch) -> bool:
    """Whether a hit holds whatever the program adds to the launch."""
    if not launch.builder:
        return True
    return hit.rule not in _OF_COMMANDS and not (launch.has_own_options and hit.rule in _OF_NAMES)
