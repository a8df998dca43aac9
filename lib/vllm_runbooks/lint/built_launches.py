"""What can be said about a launch that another program builds: its vLLM and its own options are not in the file."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.reading.documents import images
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
_OF_RELEASES = frozenset(f"option.{kind}" for kind in ("removed", "not-there-yet", "deprecated", "unexpected-value"))
"""Rules about names that the program's vLLM may have."""
_VARIABLES = frozenset(f"environment.{kind}" for kind in ("removed", "not-there-yet", "unknown"))
_OF_COMMANDS = frozenset(("option.required",))


def is_certain(hit: Hit, launch: WrittenLaunch) -> bool:
    """Whether a hit holds whatever the program adds to the launch."""
    if not launch.builder:
        return True
    if hit.rule in _OF_COMMANDS or (launch.has_own_options and hit.rule in _OF_NAMES):
        return False
    return hit.rule not in _OF_RELEASES or has_known_release(launch)


def has_known_release(launch: WrittenLaunch) -> bool:
    """Whether the file says which vLLM a launch runs, or that it is the newest."""
    image = launch.image.value if launch.image is not None else None
    return not launch.builder or launch.release is not None or images.published_tag(image) is not None


def is_of_other_release(hit: Hit, launches: Iterable[WrittenLaunch]) -> bool:
    """Whether a hit about a variable depends on the release of a launch that is unknown."""
    return hit.rule in _VARIABLES and any(
        setting.start <= hit.start < setting.end
        for launch in launches
        if not has_known_release(launch)
        for setting in launch.environment.values()
    )
