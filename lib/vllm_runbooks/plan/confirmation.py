"""How to verify a layout after the launch: log lines that the release prints, and read-only commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from vllm_runbooks.catalog import host_commands
from vllm_runbooks.catalog.options import ReleaseData
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.record_forms import AUTHORED
from vllm_runbooks.plan.executors import is_before
from vllm_runbooks.plan.fleet import Host, InstancePart, ParallelSizes


@dataclass(frozen=True)
class PrintedLine:
    """A line of a server's log."""

    what: str
    text: str
    """Part of the line, to the letter."""
    times: int | None
    """Number of times that a launch prints the line there; None for at least once."""
    source: str
    """Source of the line: file and line number in the row's first release."""
    expected: str = ""
    """The figures that the plan has for it."""
    needs_gpu: bool = False
    """Whether only the code for GPUs prints it."""


class Sides(NamedTuple):
    """A figure of the plan: low, expected and high."""

    low: float
    expected: float
    high: float


@dataclass(frozen=True)
class Expected:
    """Printed values that the plan expects; None if unknown."""

    weights: tuple[Sides | None, ...] = ()
    """GiB on each rank of one instance."""
    available: tuple[Sides | None, ...] = ()
    """GiB for the KV cache on each rank of one instance; empty if it is not printed."""
    tokens: Sides | None = None
    """Capacity of the KV cache, as the release counts it."""
    concurrency: Sides | None = None
    """Concurrent requests of the longest context."""
    context: int = 0
    """Longest context in tokens; 0 if unknown."""
    is_older_engine: bool = False


@dataclass(frozen=True)
class Look:
    """A command that changes nothing."""

    what: str
    words: tuple[str, ...]
    expected: str
    """Expected message of a correct launch."""
    effect: str = "none (read-only)"
    undo: str = "nothing to undo"


@dataclass(frozen=True)
class Confirmation:
    """Checks of one instance, or of the part of it that one host computes."""

    lines: tuple[PrintedLine, ...]
    looks: tuple[Look, ...]
    unknown: tuple[str, ...] = ()
    """Checks that the log of this release does not allow, with the reason."""
    log: str = ""
    """The file that the part's script writes."""


@dataclass(frozen=True)
class LineFormatRow:
    """Row of the table `printed_lines`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    line: str
    since: str
    """First release that prints it."""
    text: str
    """Part of the line, with holes."""
    by: Literal["rank", "host", "engine", "server"]
    """Every rank, the first one of each host, the engine or the server."""
    source: str


_INDEPENDENT_SINCE = "0.14.1"
"""From then on, copies of a model without experts do not know of each other (v1/engine/core.py:916)."""


def confirmation(
    part: InstancePart,
    split: ParallelSizes,
    release: ReleaseData,
    *,
    hosts: int = 1,
    place: int = 0,
    has_experts: bool | None = None,
    expected: Expected | None = None,
) -> Confirmation:
    """How to verify that an instance runs with its parallel sizes, on the host at index `place`.

    Each host's log has the lines of its own ranks, and the first host's also those of server and
    engine; with Ray the driver prints all. Without `expected` there is no check of the cache.
    """
    figures = expected or Expected()
    unknown: list[str] = []
    is_apart: bool | None = False
    if split.dp > 1 and not is_before(release, _INDEPENDENT_SINCE):
        is_apart = None if has_experts is None else not has_experts
    if is_apart is None:
        unknown.append("Which ranks are printed depends on whether the model has experts, which is unknown.")
    log = _Log(hosts, place, is_own=hosts > 1 and not part.joined)
    is_even = len({len(host.devices) for host in part.joined}) < 2
    lines = [*_ranks(split, release, log, is_apart, is_even=is_even)]
    if part.serves:
        lines = [*_sizes(split, release, is_apart), *lines]
    if split.cards > 1 and _row("rank", release) is None:
        unknown.append(f"vLLM {release.asked} does not print the rank of a process.")
    lines += _weights(split, release, log, figures, is_whole=split.cards == split.dp and has_experts is False)
    lines += _cache(split, release, figures, log, serves=part.serves)
    return Confirmation(tuple(lines), tuple(_looks(part)), tuple(unknown), part.log)


class _Log(NamedTuple):
    hosts: int
    place: int
    is_own: bool
    """Whether the log has only this host's ranks."""

    def ranks(self, world: int) -> range:
        if not self.is_own:
            return range(world)
        per_host = world // self.hosts
        return range(self.place * per_host, (self.place + 1) * per_host)


def _row(line: str, release: ReleaseData) -> LineFormatRow | None:
    """Latest row for the release; None if it is older than all."""
    rows = [row for row in load_table("printed_lines", LineFormatRow).values() if row.line == line]
    return next((row for row in reversed(rows) if not is_before(release, row.since)), None)


def _sizes(split: ParallelSizes, release: ReleaseData, is_apart: bool | None) -> Iterator[PrintedLine]:  # noqa: FBT001
    row = _row("sizes" if is_apart is not None else "sizes-of-unknown-copies", release)
    if row is None:
        return
    text = row.text.format(tp=split.tp, pp=split.pp, dp=1 if is_apart else split.dp)
    what = "the sizes, in the engine's configuration"
    if is_apart:
        what += "; each replica is a separate engine and reports data parallel size 1"
    yield PrintedLine(what, text, None, row.source)
    arguments_row = _row("copies", release)
    if split.dp > 1 and arguments_row is not None:
        text = arguments_row.text.format(dp=split.dp)
        yield PrintedLine("the replicas, in the server's arguments", text, None, arguments_row.source)


def _ranks(
    split: ParallelSizes,
    release: ReleaseData,
    log: _Log,
    is_apart: bool | None,  # noqa: FBT001
    *,
    is_even: bool,
) -> Iterator[PrintedLine]:
    row = _row("rank", release)
    if row is None or is_apart is None:
        return
    copies = 1 if is_apart else split.dp
    per_copy = split.cards // split.dp
    world = per_copy * copies
    # If hosts have unequal ranks or several replicas, the first rank is certain only on the first
    # host.
    step = 1 if row.by == "rank" else world if split.dp > 1 or not is_even else world // log.hosts
    for rank in log.ranks(world)[::step]:
        in_dp, inside = divmod(rank, per_copy)
        in_pp, inside = divmod(inside, split.pcp * split.tp)
        in_pcp, in_tp = divmod(inside, split.tp)
        text = row.text.format(rank=rank, world=world, in_dp=in_dp, in_pp=in_pp, in_pcp=in_pcp, in_tp=in_tp)
        is_counted = split.dp == 1 or (row.by == "rank" and not is_apart)
        times = 1 if is_counted else split.dp if row.by == "rank" else None
        yield PrintedLine(f"placement of rank {rank}", text, times, row.source)


def _weights(
    split: ParallelSizes, release: ReleaseData, log: _Log, figures: Expected, *, is_whole: bool
) -> Iterator[PrintedLine]:
    row = _row("weights", release)
    if row is None:
        return
    ranks = log.ranks(split.cards)
    times = len(ranks) if row.by == "rank" else None
    whose = _whose(row, log)
    what = f"GiB of weights {whose}: part of the model, not all of it"
    if split.cards == 1 or is_whole:
        what = f"GiB of the weights{f' {whose}' if split.cards > 1 else ''}: the full model"
    elif split.tp == split.pp == 1:
        what = f"GiB of the weights {whose}"
    yield PrintedLine(what, row.text, times, row.source, _by_rank(figures.weights, ranks), needs_gpu=True)


def _whose(row: LineFormatRow, log: _Log) -> str:
    if log.is_own:
        return "of each rank of this host" if row.by == "rank" else "of this host's first rank"
    if row.by == "rank":
        return "of each rank"
    return "of the first rank of each host" if log.hosts > 1 else "of one rank"


def _by_rank(figures: Sequence[Sides | None], ranks_here: range) -> str:
    """GiB per rank; equal ranks together."""
    alike: dict[str, list[int]] = {}
    for rank, sides in enumerate(figures):
        if rank not in ranks_here:
            continue
        alike.setdefault("unknown" if sides is None else _in_words(sides, "GiB", 2), []).append(rank)
    if len(alike) < 2:
        return next(iter(alike), "")
    return "; ".join(f"rank{'s' * (len(ranks) > 1)} {_ranges(ranks)}: {band}" for band, ranks in alike.items())


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _in_words(sides: Sides, unit: str, places: int) -> str:
    low, middle, high = (f"{side:,.{places}f}" for side in sides)
    band = "" if low == middle == high else f" ({low} to {high})"
    return f"{middle}{' ' * bool(unit.strip('x'))}{unit}{band}"


def _cache(
    split: ParallelSizes, release: ReleaseData, figures: Expected, log: _Log, *, serves: bool
) -> Iterator[PrintedLine]:
    newer = not figures.is_older_engine
    available = _row("cache-memory", release) if newer else None
    if available is not None and figures.available:
        what = "GiB for the KV cache" + (f" {_whose(available, log)}" if split.cards > 1 else "")
        band = _by_rank(figures.available, log.ranks(split.cards))
        yield PrintedLine(what, available.text, None, available.source, band, needs_gpu=True)
    if not serves:
        return
    tokens = _row("cache-tokens", release) if newer else None
    if tokens is not None and figures.tokens is not None:
        what = "tokens of the KV cache"
        band = _in_words(figures.tokens, "tokens", 0)
        yield PrintedLine(what, tokens.text, None, tokens.source, band, needs_gpu=True)
    row = _row("concurrency" if newer else "concurrency-before-v1", release)
    if row is not None and figures.concurrency is not None and figures.context:
        text = row.text.format(context=figures.context)
        what = "concurrent requests of full context"
        yield PrintedLine(what, text, None, row.source, _in_words(figures.concurrency, "x", 2))


def _looks(part: InstancePart) -> Iterator[Look]:
    gpus = part.deployment.gpus
    hosts = part.joined or ((Host(gpus, part.node),) if isinstance(gpus, tuple) else ())
    for host in hosts:
        yield Look(
            "memory in use on each GPU of the instance" + (f", run on {host.node}" if host.node else ""),
            host_commands.argv("gpus-memory", cards=",".join(host.devices)),
            f"{'all use about the same,' if len(host.devices) > 1 else 'it uses'} close to gpu_memory_utilization",
        )
    if part.serves:
        health = host_commands.argv("health", number="10", url_host=part.asked_at, port=str(part.port))
        yield Look("whether the server answers", health, "exit status 0")
