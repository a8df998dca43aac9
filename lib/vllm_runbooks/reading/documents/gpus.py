"""GPUs assigned to a launch by its container or by variables, and the visible ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.documents.starts import Gpus, Setting

_NARROWING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Variables that let a program see some of the GPUs that there are for it."""
_GIVING = ("NVIDIA_VISIBLE_DEVICES",)
"""Variable that assigns GPUs to a container whose command does not."""
VARIABLES = (*_NARROWING, *_GIVING)
_DIRECTIVE = re.compile(r"^#SBATCH(?P<options>[ \t](?:[^\n#]|(?<![ \t])#)*)", re.MULTILINE)
_DIRECTED = re.compile(
    r"[ \t](?P<name>--[a-z-]{2,30}|-[A-Za-z])(?:=|[ \t]{1,8}|(?=\d))(?P<value>[\w:.,-]{1,80})", re.ASCII
)
_SPREAD = frozenset(("-n", "--ntasks", "--ntasks-per-node"))
"""Options that may put a job on several hosts if the number of hosts is not given."""
_PER_NODE = ("--gres", "--gpus-per-node")
_OF_JOB = (*_PER_NODE, "--gpus", "-G")
OF_STEP = frozenset((*_OF_JOB, "--gpus-per-task", "--gres-flags", "--het-group"))
"""Options of `srun` that give a part of a job other GPUs."""
_NUMBER = re.compile(r"\d{1,4}", re.ASCII)


def seen(environment: Mapping[str, Setting], container: Gpus | None = None) -> Gpus | None:
    """GPUs visible to a launch, with the host's indices.

    A variable restricts the GPUs of the container.
    """
    named = _named(environment, _NARROWING)
    if container is None or named is None:
        return named or container or _named(environment, _GIVING)
    devices = named.devices or ()
    if container.count is None or not all(_NUMBER.fullmatch(device) for device in devices):
        return named
    if any(int(device) >= container.count for device in devices):
        return container  # the variable names a GPU that does not exist: no information
    # If only the number of GPUs is given, their indices on the host are unknown.
    kept = tuple(container.devices[int(device)] for device in devices) if container.devices is not None else None
    return replace(named, devices=kept)


def _named(environment: Mapping[str, Setting], variables: tuple[str, ...]) -> Gpus | None:
    """GPUs that the first of some variables names which is set."""
    for name in variables:
        setting = environment.get(name)
        value = setting.value.value if setting else None
        if setting and value and value not in {"all", "void", "none"}:
            devices = tuple(part.strip() for part in value.split(",") if part.strip())
            return Gpus(devices, len(devices), setting.start, setting.end)
    return None


def of_option(value: str, start: int, end: int) -> Gpus | None:
    """GPUs of `--gpus` and of podman's `--device`."""
    text = value.strip().strip("\"'")
    if text.startswith("nvidia.com/gpu="):
        text = text.removeprefix("nvidia.com/gpu=")
        return Gpus(None, None, start, end) if text == "all" else Gpus((text,), 1, start, end)
    if text.startswith("/"):
        return None
    match = re.search(r"device=([\w,:.=-]{1,400})", text)
    if match:
        devices = tuple(part for part in match[1].split(",") if part and "=" not in part)
        return Gpus(devices, len(devices), start, end)
    match = re.match(r"(?:count=)?(\d{1,4})\b", text)
    if match:
        return Gpus(None, int(match[1]), start, end)
    is_all = not {"all", "count=all", "count=-1"}.isdisjoint(text.split(","))
    return Gpus(None, None, start, end) if is_all else None


def added(before: Gpus | None, more: Gpus | None) -> Gpus | None:
    """GPUs of two options `--device` of podman, which names one device each."""
    if before is None or more is None:
        return more or before
    if before.devices is None or more.devices is None:
        return Gpus(None, None, more.start, more.end)
    devices = tuple(dict.fromkeys((*before.devices, *more.devices)))
    return Gpus(devices, len(devices), more.start, more.end)


def of_job(script: Excerpt) -> Gpus | None:
    """GPUs of a Slurm job on all its hosts, by the directives of its script; None if unknown."""
    lines = (line.span("options") for line in _DIRECTIVE.finditer(script.text))
    directives = {match["name"]: match for span in lines for match in _DIRECTED.finditer(script.text, *span)}
    given = [directives[name] for name in _OF_JOB if name in directives]
    hosts = {directives[name]["value"] for name in ("--nodes", "-N") if name in directives}
    if not hosts and {directives[name]["value"] for name in _SPREAD & directives.keys()} <= {"1"}:
        hosts = {"1"}
    if len(given) != 1 or len(hosts) != 1 or not all(map(_NUMBER.fullmatch, hosts)) or "hetjob" in script.text:
        return None
    name, value = given[0].group("name", "value")
    devices = [part for part in value.split(",") if name != "--gres" or part.partition(":")[0] == "gpu"]
    counts = [part.rpartition(":")[2] for part in devices]
    if not devices or not all(_NUMBER.fullmatch(count) for count in counts):
        return None
    count = sum(map(int, counts)) * (int(hosts.pop()) if name in _PER_NODE else 1)
    return Gpus(None, count, script.at[given[0].start("name")], script.at[given[0].end("value")])
