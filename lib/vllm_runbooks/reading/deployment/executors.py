"""Which executor a release takes for a start, and what makes several hosts one server: its own options, or Ray.

The rules were read in config/parallel.py (before 0.10 config.py) of eleven releases from 0.8.5 to 0.32.0, all of them
for GPUs of NVIDIA; the requirements in the published packages. A row holds from its release on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vllm_runbooks.catalog.options import ReleaseData, version_key


class Executor(NamedTuple):
    """What a start comes to that names no executor."""

    name: str | None
    """"uni" (within the engine's process), "mp" (processes of this host) or "ray"; None: the start is refused."""
    said: str
    """Why, in words."""
    source: str
    """File and line of the rule's first release; empty: the release's own was not read."""


class Joining(NamedTuple):
    """How the hosts of one server become one."""

    by: str
    """"" on one host; "nnodes" by the release's own options; "ray" where only Ray does it."""
    said: str
    source: str = ""

    @property
    def is_ray_needless(self) -> bool:
        """Whether the start does without Ray."""
        return self.by != "ray"


class _Rule(NamedTuple):
    since: str
    short: str | None
    """What a start takes that has fewer cards on its host than ranks; None: it is refused."""
    source: str


_RULES = (
    _Rule("0.8.5", "ray", "vllm 0.8.5 config.py:1752"),
    _Rule("0.11.2", None, "vllm 0.11.2 config/parallel.py:560"),
)
_WITHOUT_RAY = "0.18.1"
"""From it on neither the package nor its image brings Ray: ray[cgraph] is a requirement of 0.17.1, and none of it."""
_OWN = frozenset({"nnodes", "node_rank", "master_addr", "headless"})
"""Options by which a release joins hosts itself."""


def chosen(release: ReleaseData, world: int, here: int, *, nodes: int = 1) -> Executor:
    """The executor that a start takes by itself.

    Args:
        release: Whose rule counts.
        world: Ranks of one copy of the model.
        here: Cards that the start sees on its host.
        nodes: What `--nnodes` gives; 1: nothing.
    """
    rule = next((one for one in reversed(_RULES) if not _is_before(release, one.since)), None)
    source = rule.source if rule is not None else ""
    if world <= 1:
        return Executor("uni", "one rank runs within the engine's process", source)
    if nodes > 1:
        return Executor("mp", f"--nnodes {nodes} gives each host its part of the {world} ranks", source)
    if world <= here:
        return Executor("mp", f"this host has the {world} cards, so processes of vLLM itself do", source)
    short = f"{world} ranks, and {here} card{'s' * (here != 1)} on this host"
    if rule is None:
        return Executor("ray", f"{short}: as the next release known does; the rule of this one was not read", "")
    if rule.short is None:
        return Executor(
            None,
            f"{short}: refused unless --nnodes, or --distributed-executor-backend ray, is given",
            source,
        )
    return Executor(rule.short, f"{short}: Ray is taken, and refused where it is not installed", source)


def joining(release: ReleaseData, cards: Sequence[int], *, copies: int = 1) -> Joining:
    """How one server over so many cards of each host is joined.

    Args:
        release: Whose options there are.
        cards: Of each host, those that the server takes.
        copies: Of the model within the server (data parallelism).
    """
    if len(cards) < 2:
        return Joining("", "it stays on one host: Ray is needless")
    if not release.by_dest.keys() >= _OWN:
        return Joining("ray", f"vLLM {release.asked} has no --nnodes: Ray has to join the hosts")
    if copies > 1:
        return Joining(
            "ray", "with data parallelism inside the server no --nnodes is written here: Ray joins the hosts"
        )
    if len(set(cards)) > 1:
        said = f"--nnodes gives every host as many ranks, and the hosts have {', '.join(map(str, cards))} cards of it"
        return Joining("ray", f"{said}: Ray has to join them", "vllm 0.32.0 v1/executor/multiproc_executor.py:282")
    said = f"vLLM {release.asked} joins {len(cards)} hosts itself, by --nnodes and its executor mp: Ray is needless"
    return Joining("nnodes", said, "vllm 0.11.2 config/parallel.py:560")


def brings_ray(release: ReleaseData) -> bool:
    """Whether the package, and so the published image, has Ray in it."""
    return _is_before(release, _WITHOUT_RAY)


def _is_before(release: ReleaseData, version: str) -> bool:
    return (version_key(release.version) or ()) < (version_key(version) or ())
