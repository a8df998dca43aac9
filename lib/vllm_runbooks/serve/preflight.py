"""Checks before a launch: command, plan, port, model files and GPU memory."""

from __future__ import annotations

import math
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.room import of_share
from vllm_runbooks.catalog.specs import CPU_SPACE
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.core.views.summary import count_of
from vllm_runbooks.host import gpu_memory, model_cache, ports
from vllm_runbooks.host.gpu_memory import Source
from vllm_runbooks.host.loading import cpu_memory
from vllm_runbooks.host.records import GpuFacts
from vllm_runbooks.lint import checking
from vllm_runbooks.lint import render as lint_render
from vllm_runbooks.plan import checkpoints, planned, planner
from vllm_runbooks.plan.render import words as render_plan_words
from vllm_runbooks.probe.starts import Check, LaunchResult
from vllm_runbooks.serve.subject import ServedLaunch

NAMES = ("command", "model", "plan", "port", "lock", "memory")
MIB_PER_GIB = 1024
_NO_CARD = ("", "-1", "NoDevFiles", "none", "void")
"""Values of CUDA_VISIBLE_DEVICES that hide all GPUs."""


class Steady(NamedTuple):
    """Criteria for stable GPU memory."""

    samples: int = 5
    every_s: float = 1.0
    within_mib: float = 64.0
    """Tolerated change over the samples."""
    wait_s: float = 600.0


class LaunchHost(NamedTuple):
    source: Source | None
    """Source of GPU memory; None if no GPU can be read."""
    why_none: str
    numbers: tuple[int, ...]
    spec: str | None
    """GPUs for the plan, as in 2xA100-80GB; None if unknown."""


def host_of(subject: ServedLaunch, source: Source | None, why_none: str, spec: str | None) -> LaunchHost:
    """GPUs of the launch: as many as it needs of those that CUDA_VISIBLE_DEVICES allows."""
    if source is None:
        return LaunchHost(None, why_none, (), spec)
    chosen = visible_cards(subject, source)[: subject.cards]
    return LaunchHost(source, "", tuple(card.index for card in chosen), _spec(chosen) if spec is None else spec)


def visible_cards(subject: ServedLaunch, source: Source) -> list[GpuFacts]:
    """GPUs that the launch may use, in its order, up to the first unknown one."""
    gpus = source.read().cards
    if subject.visible is None:
        return [card for card in gpus if card.error is None]
    visible: list[GpuFacts] = []
    for word in map(str.strip, subject.visible.split(",")):
        named = (gpu for gpu in gpus if word == str(gpu.index) or (word and gpu.uuid and gpu.uuid.startswith(word)))
        gpu = next(named, None)
        if gpu is None or gpu in visible:
            break
        visible.append(gpu)
    return visible


def _spec(cards: Sequence[GpuFacts]) -> str | None:
    names = []
    for card in cards:
        try:
            names.append(catalog.specs().gpu(card.name or "").name)
        except InputError:
            return None
    return ",".join(names) or None


def checks(
    subject: ServedLaunch,
    host: LaunchHost,
    *,
    steady: Steady,
    left_out: Sequence[str],
    say: Callable[[str], None],
    lock: Callable[[], Check],
    is_cancelled: Callable[[], bool],
) -> Iterator[Check]:
    """Run the checks in order; `lock` reserves the GPUs from there on."""
    made: dict[str, Callable[[], Check]] = {
        "command": lambda: _command(subject, host, say),
        "model": lambda: _model(subject),
        "plan": lambda: _plan(subject, host),
        "port": lambda: _port(subject),
        "lock": lock,
        "memory": lambda: memory(subject, host, steady, say, is_cancelled),
    }
    for name in NAMES:
        if name in left_out:
            yield Check(name, LaunchResult.LEFT_OUT, "--skip")
            continue
        began = time.monotonic()
        check = made[name]()
        yield Check(check.name, check.result, check.message, time.monotonic() - began)


def _command(subject: ServedLaunch, host: LaunchHost, say: Callable[[str], None]) -> Check:
    is_script = subject.script is not None
    text = subject.page.text if is_script else shlex.join(subject.argv)
    name = str(subject.script) if is_script else ""
    linted = checking.lint_text(text, name=name, vllm=subject.vllm, gpus=host.spec)
    by = {severity: [item for item in linted.issues if item.severity is severity] for severity in IssueSeverity}
    for issue in (*by[IssueSeverity.ERROR], *by[IssueSeverity.WARNING]):
        say(f"command: {issue.severity.value}: {issue.message}")
    release = f"vLLM {linted.vllm.version} (installed)" if subject.is_installed else lint_render.release(linted)
    if by[IssueSeverity.ERROR]:
        return Check("command", LaunchResult.FAILED, f"{by[IssueSeverity.ERROR][0].message} Checked for {release}.")
    warnings = len(by[IssueSeverity.WARNING])
    summary = count_of(warnings, "warning") if warnings else "no problems"
    return Check("command", LaunchResult.PASSED, f"{summary}; checked against {release}")


def _model(subject: ServedLaunch) -> Check:
    name = subject.model
    if name is None:
        return Check("model", LaunchResult.UNKNOWN, "the command has no readable model name")
    if subject.is_container:
        return Check("model", LaunchResult.UNKNOWN, "its files are in the container, or mounted into it")
    folder = Path(name)
    if folder.is_dir():
        if problems := _missing(folder, subject):
            return Check("model", LaunchResult.FAILED, "; ".join(problems[:3]))
        whole = f"{folder}: configuration, tokenizer and weights are complete"
        return Check("model", LaunchResult.PASSED, whole)
    if folder.is_file():
        return Check("model", LaunchResult.UNKNOWN, f"{name}: is a single file, which is not checked")
    if folder.is_absolute() or name.startswith((".", "~")):
        return Check("model", LaunchResult.FAILED, f"{name}: is not a folder; correct the path")
    snapshot = _snapshot(name, subject)
    if snapshot is not None:
        problems = _missing(snapshot, subject)
        if problems and not _is_offline(subject):
            why = f"incomplete in the cache, vLLM will download the rest: {problems[0]}"
            return Check("model", LaunchResult.UNKNOWN, why)
        if problems:
            return Check("model", LaunchResult.FAILED, "; ".join(problems[:3]))
        return Check("model", LaunchResult.PASSED, f"{name} is complete in the cache")
    if _is_offline(subject):
        return Check("model", LaunchResult.FAILED, f"{name} is not in the cache, and offline mode is set")
    return Check("model", LaunchResult.UNKNOWN, f"{name} is not in the cache; vLLM will download it")


def _missing(folder: Path, subject: ServedLaunch) -> list[str]:
    return checkpoints.problems(
        folder,
        needs_weights=subject.flags.get("load_format") != "dummy",
        needs_tokenizer=not subject.flags.get("tokenizer") and not subject.flags.get("skip_tokenizer_init"),
    )


def _is_offline(subject: ServedLaunch) -> bool:
    return any(model_cache.is_set(name, subject.variables) for name in model_cache.OFFLINE)


def _snapshot(name: str, subject: ServedLaunch) -> Path | None:
    folder, revision = subject.flags.get("download_dir"), subject.flags.get("revision")
    root = Path(str(folder)) if folder else model_cache.hub_cache(subject.variables)
    model = model_cache.snapshot(name, str(revision) if revision else None, root)
    return None if model is None else model.folder


def _plan(subject: ServedLaunch, host: LaunchHost) -> Check:
    if host.spec is None:
        why = host.why_none or "a GPU of this host is not in the catalog; name the GPUs with --gpus"
        return Check("plan", LaunchResult.UNKNOWN, why)
    if subject.model is None:
        return Check("plan", LaunchResult.UNKNOWN, "the command has no readable model name")
    skipped = ("model", "model_tag", "api_key", "config")
    options = {name: value for name, value in subject.flags.items() if name not in skipped}
    try:
        plan = planned.plan(planner.request(subject.model, host.spec, vllm=subject.vllm, options=options))
    except InputError as error:
        return Check("plan", LaunchResult.UNKNOWN, str(error))
    result = {True: LaunchResult.PASSED, False: LaunchResult.FAILED, None: LaunchResult.UNKNOWN}[plan.fits]
    return Check("plan", result, str(render_plan_words.headline(plan)))


def _port(subject: ServedLaunch) -> Check:
    target, host = subject.target, subject.flags.get("host")
    if not subject.is_target_known:
        return Check("port", LaunchResult.UNKNOWN, "the port is set in a file or a variable that was not read")
    if target.uds is not None:
        return Check("port", LaunchResult.LEFT_OUT, f"the server listens on {target.uds}")
    conflict = ports.taken(host if isinstance(host, str) and not subject.is_container else None, target.port)
    if conflict is None:
        return Check("port", LaunchResult.PASSED, f"{target.port} is free")
    if not conflict.is_in_use:
        return Check("port", LaunchResult.FAILED, f"{host}: {conflict.why}; use an address of this host")
    holders = ports.holders(target.port)
    who = " and ".join(holders) or "a process of another user (run `ss -ltnp` as root)"
    return Check("port", LaunchResult.FAILED, f"port {target.port} is in use by {who}; stop it, or use another --port")


def memory(
    subject: ServedLaunch,
    host: LaunchHost,
    steady: Steady,
    say: Callable[[str], None],
    is_cancelled: Callable[[], bool],
) -> Check:
    """Wait until GPU memory is stable, and check that the requested share is free."""
    if host.source is None:
        lacking = _lacking_on_cpu(subject)
        return Check("memory", LaunchResult.FAILED if lacking else LaunchResult.UNKNOWN, lacking or host.why_none)
    visible = subject.visible
    cards = host.source.read().of(host.numbers)
    lost = next((card for card in cards if card.error is not None), None)
    if lost is not None:
        message = f"GPU {lost.index} cannot be reached through the driver ({lost.error})"
        return Check("memory", LaunchResult.FAILED, f"{message}; remove it from CUDA_VISIBLE_DEVICES")
    if any(card.is_mig for card in cards):
        return Check(
            "memory", LaunchResult.UNKNOWN, "the GPU is in MIG mode, and the memory of an instance is not read"
        )
    if not host.numbers and (visible.strip() in _NO_CARD or "MIG" in visible if visible is not None else True):
        return Check("memory", LaunchResult.UNKNOWN, "the launch uses no full GPU of this host")
    if not host.numbers:
        return Check("memory", LaunchResult.FAILED, "CUDA_VISIBLE_DEVICES selects no GPU of this host; correct it")
    began = time.monotonic()
    readings = [host.source.read()]
    is_told = False
    while True:
        recent = readings[-steady.samples :]
        moved = gpu_memory.unrest_mib(recent, host.numbers)
        if len(recent) == steady.samples and moved is not None and moved <= steady.within_mib:
            break
        if len(recent) == steady.samples and moved is None:
            return Check("memory", LaunchResult.UNKNOWN, f"used memory is unknown ({host.source.says})")
        since = time.monotonic() - began
        if len(readings) >= steady.samples and since > steady.wait_s:
            message = f"not stable for {since:.0f} s: {_who(readings, host, moved)}"
            return Check("memory", LaunchResult.FAILED, f"{message}; wait for them, or see --wait and --within")
        if len(readings) >= steady.samples and not is_told:
            say(f"waiting for stable GPU memory: {_who(readings, host, moved)}")
            is_told = True
        if is_cancelled():
            return Check("memory", LaunchResult.FAILED, "stopped waiting: the launch was canceled")
        time.sleep(steady.every_s)
        readings.append(host.source.read())
    cards = readings[-1].of(host.numbers)
    if lacking := _lacking(subject, cards):
        return Check("memory", LaunchResult.FAILED, lacking)
    span = (steady.samples - 1) * steady.every_s
    free = ", ".join(
        f"GPU {card.index}: {card.unused_mib / MIB_PER_GIB:.2f} GiB free"
        for card in cards
        if card.unused_mib is not None
    )
    return Check("memory", LaunchResult.PASSED, f"stable for {span:g} s; {free} ({host.source.says})")


def _lacking_on_cpu(subject: ServedLaunch) -> str:
    """Why the host's memory is too small for the KV cache of vLLM on a CPU; empty if it is large enough."""
    space = subject.variables.get(CPU_SPACE, "").strip()
    gib = int(space) * max(subject.cards, 1) if re.fullmatch(r"\d{1,9}", space, re.ASCII) else 0
    total = cpu_memory("cpu") or math.inf
    if gib <= total:
        return ""
    return f"{CPU_SPACE}={space} reserves {gib:,} GiB of KV cache, but this host has {total:,.1f} GiB; lower it"


def _who(readings: Sequence[gpu_memory.MemoryReading], host: LaunchHost, moved: float | None) -> str:
    cards = readings[-1].of(host.numbers)
    holders = [
        process.says
        for card in cards
        for process in card.processes or ()
        if process.is_host_pid or process.pid != os.getpid()
    ]
    names = ", ".join(f"GPU {card.index}" for card in cards)
    message = f"used memory of {names} changed by {moved:.0f} MiB" if moved is not None else "used memory is unknown"
    return f"{message}; other processes on these GPUs: {', '.join(holders[:4])}" if holders else message


def _lacking(subject: ServedLaunch, cards: Sequence[GpuFacts]) -> str:
    """Why the requested share of memory is not free; empty if it is, or if that is unknown."""
    share = subject.value("gpu_memory_utilization")
    if subject.flags.get("kv_cache_memory_bytes") or not isinstance(share, (int, float)):
        return ""
    for card in cards:
        if card.usable_mib is None or card.used_mib is None:
            continue
        room = of_share(card.usable_mib, card.used_mib, share)
        if not room.is_enough:
            holders = ", ".join(process.says for process in (card.processes or ())[:4]) or "others"
            way = f", or set --gpu-memory-utilization to at most {room.most:g}" if room.most else ""
            return (
                f"GPU {card.index}: vLLM needs {share:g} of {room.total / MIB_PER_GIB:.2f} GiB "
                f"({room.wanted / MIB_PER_GIB:.2f} GiB), and {room.free / MIB_PER_GIB:.2f} GiB is free; stop the "
                f"processes that use the rest ({holders}){way}"
            )
    return ""
