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
    """How the hosts of a server are joined."""

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
        return ExecutorChoice("uni", "one rank runs within the engine's process", source)
    if nodes > 1:
        return ExecutorChoice("mp", f"--nnodes {nodes} gives each host its part of the {world} ranks", source)
    if world <= gpus:
        return ExecutorChoice("mp", f"this host has the {world} cards, so processes of vLLM itself do", source)
    short = f"{world} ranks, and {gpus} card{'s' * (gpus != 1)} on this host"
    if rule is None:
        return ExecutorChoice("ray", f"{short}: as the next release known does; the rule of this one was not read", "")
    if rule.short is None:
        short += ": refused unless --nnodes, or --distributed-executor-backend ray, is given"
        return ExecutorChoice(None, short, source)
    return ExecutorChoice(rule.short, f"{short}: Ray is taken, and refused where it is not installed", source)


def joining(release: ReleaseData, cards: Sequence[int], *, copies: int = 1) -> Joining:
    """How a server over `cards` GPUs per host is joined; `copies` is its data parallel size."""
    if len(cards) < 2:
        return Joining("", "it stays on one host: Ray is needless")
    if not release.by_dest.keys() >= _JOINING_OPTIONS:
        return Joining("ray", f"vLLM {release.asked} has no --nnodes: Ray has to join the hosts")
    if copies > 1:
        return Joining(
            "ray", "with data parallelism inside the server no --nnodes is written here: Ray joins the hosts"
        )
    if len(set(cards)) > 1:
        reason = f"--nnodes gives every host as many ranks, and the hosts have {', '.join(map(str, cards))} cards of it"
        return Joining("ray", f"{reason}: Ray has to join them", "vllm 0.32.0 v1/executor/multiproc_executor.py:282")
    reason = f"vLLM {release.asked} joins {len(cards)} hosts itself, by --nnodes and its executor mp: Ray is needless"
    return Joining("nnodes", reason, "vllm 0.11.2 config/parallel.py:560")


def brings_ray(release: ReleaseData) -> bool:
    """Whether the package, and so the published image, includes Ray."""
    return is_before(release, _WITHOUT_RAY)


def is_before(release: ReleaseData, version: str) -> bool:
    return (version_key(release.version) or ()) < (version_key(version) or ())
