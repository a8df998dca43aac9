"""Which launches of a page run concurrently, rather than as alternatives or in sequence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vllm_runbooks.reading.documents import LaunchFile
from vllm_runbooks.reading.documents.starts import WrittenLaunch

_ENDS = re.compile(r"(?:^|[\s;&|(])(?:wait|fuser|\w{0,40}(?:stop|kill|cleanup)\w{0,40})(?=[\s;&|)]|\Z)", re.ASCII)
"""A command that stops a program or waits for it."""
_LOOP = re.compile(r"(?:^|[\s;])(do|done)(?=[\s;&|)]|\Z)", re.ASCII)
_BODY = 4096
"""Characters after a launch in which the loop around it may end."""
_ELSEWHERE = ("docker", "flux", "ip", "jsrun", "kubectl", "lxc", "mpirun", "nerdctl", "podman", "srun", "ssh")
"""Programs that run a command on another host, in a container or on their own GPUs."""


def together(page: LaunchFile, starts: Sequence[WrittenLaunch]) -> Iterator[list[int]]:
    """Yield groups of launches, by index, that run concurrently."""
    group: list[int] = []
    for index, launch in enumerate(starts):
        if _runs_beside_others(page, launch):
            if group and _is_ended(page.text, starts[group[-1]], launch):
                yield group
                group = []
            group.append(index)
    yield group


def _runs_beside_others(page: LaunchFile, launch: WrittenLaunch) -> bool:
    if page.kind == "yaml":  # a pod's GPUs are numbered for it alone
        return launch.kind == "compose" and "profiles" not in launch.keys
    run = launch.invocation
    if page.kind != "shell" or run is None or not run.is_background or run.is_conditional:
        return False
    return not any(word.value in _ELSEWHERE for word in (*run.words[:1], *launch.prefix))


def _is_ended(text: str, earlier: WrittenLaunch, later: WrittenLaunch) -> bool:
    """Whether the script ends or awaits a launch before the later one, or before the loop's next round."""
    if later.start > earlier.end:
        return _ENDS.search(text, earlier.end, later.start) is not None
    end, depth = earlier.end + _BODY, 1
    for word in _LOOP.finditer(text, earlier.end, end):
        depth += 1 if word[1] == "do" else -1
        if not depth:
            end = word.start()
            break
    return _ENDS.search(text, earlier.end, end) is not None
