"""Executor of a launch, and how a release joins several hosts: by its own options, or Ray.

From config/parallel.py (before 0.10 config.py) of eleven releases, 0.8.5 to 0.32.0; a row applies from its release on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vllm_runbooks.catalog.options import ReleaseData, version_key


class ExecutorChoice(NamedTuple):
    """Default executor of a launch."""

    name: str | None
    """"uni" (in the engine's process), "mp" (processes of this host) or "ray"; None if the launch fails."""
    said: str
    """Reason."""
    source: str
    """File and line of the rule's first release; empty if the release's own was not read."""


class Joining(NamedTuple):
    """Method that joins the hosts of a server."""

    by: str
    """"" on one host, "nnodes" by the release's own options, else "ray"."""
    said: str
    source: str = ""


class _ExecutorRule(NamedTuple):
    since: str
    short: str | None
    """Executor if the host has fewer GPUs than ranks; None if the launch fails."""
    source: str


_RULES = (
    _ExecutorRule("0.8.5", "ray", "vllm 0.8.5 config.py:1752"),
    _ExecutorRule("0.11.2", None, "vllm 0.11.2 config/parallel.py:560"),
)
_WITHOUT_RAY = "0.18.1"
"""The package requires ray[cgraph] up to 0.17.1; neither it nor the image includes Ray afterwards."""
_JOINING_OPTIONS = frozenset({"nnodes", "node_rank", "master_addr", "headless"})


def chosen(release: ReleaseData, world: int, gpus: int, *, nodes: int = 1) -> ExecutorChoice:
    """Executor that a launch uses by default, for `world` ranks and `gpus` on this host."""
    rule = next((row for row in reversed(_RULES) if not is_before(release, row.since)), None)
    source = rule.source if rule is not None else ""
    if world <= 1:
        return ExecutorChoice("uni", "the single rank runs in the engine process", source)
    if nodes > 1:
        return ExecutorChoice("mp", f"--nnodes {nodes} splits the {world} ranks over the hosts", source)
    if world <= gpus:
        return ExecutorChoice("mp", f"this host has all {world} GPUs, so vLLM uses multiprocessing", source)
    short = f"{world} ranks, but {gpus} GPU{'s' * (gpus != 1)} on this host"
    if rule is None:
        return ExecutorChoice("ray", f"{short}: assumed from the next known release", "")
    if rule.short is None:
        short += ": rejected without --nnodes or --distributed-executor-backend ray"
        return ExecutorChoice(None, short, source)
    return ExecutorChoice(rule.short, f"{short}: uses Ray, and fails if Ray is not installed", source)


def joining(release: ReleaseData, cards: Sequence[int], *, copies: int = 1) -> Joining:
    """Method that joins a server over `cards` GPUs per host; `copies` is its data parallel size."""
    if len(cards) < 2:
        return Joining("", "it runs on one host: Ray is not needed")
    if not release.by_dest.keys() >= _JOINING_OPTIONS:
        return Joining("ray", f"vLLM {release.asked} has no --nnodes: Ray is required across hosts")
    if copies > 1:
        return Joining(
            "ray", "data parallelism inside the server is written without --nnodes: Ray is used across hosts"
        )
    if len(set(cards)) > 1:
        reason = (
            f"--nnodes needs the same number of ranks per host, but the hosts have {', '.join(map(str, cards))} GPUs"
        )
        return Joining("ray", f"{reason}: Ray is required", "vllm 0.32.0 v1/executor/multiproc_executor.py:282")
    reason = f"vLLM {release.asked} spans {len(cards)} hosts with --nnodes and its mp executor: Ray is not needed"
    return Joining("nnodes", reason, "vllm 0.11.2 config/parallel.py:560")


def brings_ray(release: ReleaseData) -> bool:
    """Whether the package, and so the published image, includes Ray."""
    return is_before(release, _WITHOUT_RAY)


def is_before(release: ReleaseData, version: str) -> bool:
    return (version_key(release.version) or ()) < (version_key(version) or ())
