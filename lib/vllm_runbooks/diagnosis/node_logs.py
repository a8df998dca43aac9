"""Logs of a multi-node launch: missing logs, clock offsets, and causes in several logs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.printed import moment, seconds_between
from vllm_runbooks.core.records import (
    Finding,
    Level,
    NodeLog,
    NodePosition,
    Nodes,
    Outcome,
    Quote,
    RayCluster,
    RayDemand,
    Role,
    ServerRun,
    Severity,
)
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.diagnosis.causes import found_by_comparison

_VANISHED = "dist.peer_lost.vanished"
_NEVER_JOINED = "dist.peer_lost.never_joined"
_BLOCKED = "dist.peer_lost.blocked"
_RELEASES_DIFFER = "dist.peer_lost.releases_differ"
_NO_MEETING = "dist.peer_lost.no_meeting"
_APART = "dist.peer_lost.apart"
_SAME_RANK = "dist.peer_lost.same_rank"
_SIZES_DIFFER = "dist.peer_lost.sizes_differ"
_TIMEOUT = "dist.nccl_timeout"
_SHORT = "ray.placement_group_pending.short"
_IDLE = "ray.cluster_idle"
_BOUND = "ray.node_ip.bound"
_MAX_RANKS = 4096
"""Most ranks to look for; a log may print any number."""
_MAX_SHOWN = 16
"""Most nodes or ranks in a note."""
_CLOCK_TOLERANCE_S = 3.0
"""Tolerance between printed times of two logs: whole seconds, and delayed output."""


def nodes(starts: Sequence[ServerRun]) -> Nodes | None:
    """Nodes of one launch as its logs show them; None if it ran on one, or no log shows several."""
    count = max((s.seat.nodes for s in starts if s.seat.nodes is not None), default=None)
    least = max((s.seat.node_rank + 1 for s in starts if s.seat.node_rank is not None), default=0)
    if max(count or 0, least) < 2 and not any(_is_spread(s.seat) for s in starts):
        return None
    offsets = clock_offsets(starts)
    seated = [s for s in starts if s.cluster is None or s.seat.ranks]
    logs = tuple(
        NodeLog(
            start.file,
            _node_rank(start),
            start.seat.ranks,
            start.outcome,
            bool(start.seat.waiting) and start.outcome is Outcome.UNKNOWN,
            start.last_line,
            start.seat.last_time,
            offsets.get(start.file),
        )
        for start in seated
    )
    node_ranks = {log.node_rank for log in logs}
    missing = tuple(rank for rank in range(min(count or max(least, 1), _MAX_RANKS)) if rank not in node_ranks)
    if None in node_ranks:  # a missing log may be the one without a node rank
        is_of_others = all(s.seat.is_headless for s in seated if _node_rank(s) is None)
        missing = missing[:1] if is_of_others and missing[:1] == (0,) else ()
    return Nodes(count, logs, missing, () if missing else _ranks_missing(starts))


def _ranks_missing(starts: Sequence[ServerRun]) -> tuple[int, ...]:
    """Ranks of a launch that wrote into none of its logs."""
    size = max((s.seat.world_size for s in starts if s.seat.world_size is not None), default=0)
    ranks = {rank for s in starts for rank in s.seat.ranks}
    return tuple(rank for rank in range(min(size, _MAX_RANKS)) if rank not in ranks) if ranks else ()


def _is_spread(seat: NodePosition) -> bool:
    """Whether a log shows that ranks of its launch run on other nodes."""
    local, whole = seat.local_world_size, seat.world_size
    return seat.is_headless or (local is not None and whole is not None and local < whole)


def _node_rank(start: ServerRun) -> int | None:
    """Rank of a log's node; a launch over several nodes that names none is the head."""
    is_head = start.seat.nodes is not None and start.seat.node_rank is None
    return 0 if is_head else start.seat.node_rank


def clock_offsets(starts: Sequence[ServerRun]) -> dict[int, float]:
    """Offset of each file's clock to the first log's, in seconds; without unknown ones.

    All ranks print that they have met at the same time, each by the clock of its node.
    """
    met = {start.file: moment(start.seat.met) for start in starts if start.seat.met}
    first = next(iter(met.values()), None)
    offsets: dict[int, float] = {}
    for file, at in met.items():
        ahead, behind = seconds_between(first, at), seconds_between(at, first)
        if ahead is not None and (behind is None or ahead <= behind):
            offsets[file] = ahead
        elif behind is not None:
            offsets[file] = -behind
    return offsets


def in_order(findings: Sequence[Finding], starts: Sequence[ServerRun]) -> list[Finding]:
    """Findings of several logs in the order of their times if the clocks' offsets are known; else unchanged."""
    offsets = clock_offsets(starts)
    times: list[tuple[float, Finding]] = []
    for finding in findings:
        at = _time_of(finding, starts)
        offset = offsets.get(finding.evidence[0].file) if finding.evidence else None
        if at is None or offset is None:
            return list(findings)
        times.append((at - offset, finding))
    earliest = min((at for at, _ in times), default=0.0)
    # Within the accuracy of the clocks, keep the order of the logs.
    return [finding for at, finding in sorted(times, key=lambda pair: max(pair[0] - earliest - _CLOCK_TOLERANCE_S, 0))]


def _time_of(finding: Finding, starts: Sequence[ServerRun]) -> float | None:
    """Time of the line that decided a finding, in seconds by the clock of its log."""
    for quote in finding.evidence[:1]:
        for hit in (h for s in starts if s.file == quote.file for h in s.hits):
            if hit.quote.line == quote.line and hit.time:
                at = moment(hit.time)
                return at.seconds if at else None
    return None


def compared(starts: Sequence[ServerRun], root: Finding | None, catalog: Catalog) -> Finding | None:
    """Cause that only several logs together show; None if there is none.

    Args:
        starts: The launch, as in each log.
        root: The cause that a single log shows.
        catalog: The symptoms.
    """
    is_caused = (
        root is not None and catalog.symptoms[root.symptom].role is Role.CAUSE and root.severity is Severity.FATAL
    )
    comparisons = (_short, _apart, _same_rank, _sizes_differ, _releases_differ, _blocked, _no_meeting)
    for comparison in (*(tell(starts) for tell in comparisons), _vanished(starts, root)):
        symptom = catalog.symptoms.get(comparison.symptom) if comparison is not None else None
        if comparison is None or symptom is None:
            continue
        if root is None or not is_caused or root.symptom in symptom.instead_of:
            return found_by_comparison(symptom, comparison.captures, comparison.evidence, comparison.level)
    return None


def beside(starts: Sequence[ServerRun], catalog: Catalog) -> tuple[Finding, ...]:
    """Findings from the state of a Ray cluster: GPUs that are all idle, so that the launch runs elsewhere."""
    symptom = catalog.symptoms.get(_IDLE)
    ran = next((s for s in starts if s.cluster is None and s.facts.tensor_parallel_size is not None), None)
    if symptom is None or ran is None:
        return ()
    return tuple(
        found_by_comparison(symptom, _idle(s.cluster, ran), (s.cluster.quote,))
        for s in starts
        if s.cluster is not None and s.cluster.total.get("GPU", 0.0) and not s.cluster.used.get("GPU", 0.0)
    )


def _idle(cluster: RayCluster, ran: ServerRun) -> dict[str, str]:
    facts = ran.facts
    sizes = (facts.tensor_parallel_size, facts.pipeline_parallel_size or 1, facts.data_parallel_size or 1)
    captures = {"have": f"{cluster.total['GPU']:g}", "need": f"{math.prod(size or 1 for size in sizes)}"}
    if cluster.active is not None:
        captures["nodes"] = f"{cluster.active}"
    if (age := _age_s(ran.seat.last_time, cluster.at)) is not None:
        captures["age_minutes"] = f"{age / 60:.0f}"
    return captures


def _age_s(line: str | None, status: str | None) -> float | None:
    """Seconds from the last line of a log to a status; a log may print no year, Ray always does."""
    last, status_time = moment(line), moment(status)
    if last is not None and status_time is not None and last.form == "date" and status_time.form == "year":
        status_time = moment((status or "").partition("-")[2])
    return seconds_between(last, status_time)


class _Compared(NamedTuple):
    """A finding from several logs."""

    symptom: str
    captures: Mapping[str, str]
    evidence: tuple[Quote, ...]
    level: Level = Level.PROBABLE


def _waiting(starts: Sequence[ServerRun]) -> list[ServerRun]:
    return [s for s in starts if s.seat.waiting and s.outcome in (Outcome.UNKNOWN, Outcome.HUNG)]


def _apart(starts: Sequence[ServerRun]) -> _Compared | None:
    """Ranks that wait for each other at different addresses."""
    waiting = _waiting(starts)
    points = {s.seat.meeting_point: s for s in waiting if s.seat.meeting_point}
    if len(points) < 2:
        return None
    text = "; ".join(f"{_name(s)} at {point}" for point, s in points.items())
    return _Compared(_APART, {"differences": text}, tuple(_lasts(points.values())), Level.CONFIRMED)


def _same_rank(starts: Sequence[ServerRun]) -> _Compared | None:
    """Two nodes launched with the same rank: both wait for the other."""
    by_rank: dict[int, ServerRun] = {}
    for start in _waiting(starts):
        for rank, time in start.seat.waiting.items():
            other = by_rank.setdefault(rank, start)
            # A process may be in two logs: its own, and that of the driver to which Ray forwards
            # its lines.
            if other is not start and other.seat.waiting[rank] != time:
                return _Compared(_SAME_RANK, {"own_rank": str(rank)}, tuple(_lasts((other, start))))
    return None


_SIZES = ("nnodes", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_OF_A_NODE = frozenset({"node_rank", "host", "port", "data_parallel_rank", "data_parallel_start_rank"})
"""Options that differ by node."""


def _differences(starts: Sequence[ServerRun]) -> dict[str, str]:
    """Values of the nodes by option, for options that differ."""
    differences = {}
    names = dict.fromkeys(name for start in starts for name in start.arguments if name not in _OF_A_NODE)
    for name in names:
        values = {_name(s): redact_text(str(s.arguments[name]))[:80] for s in starts if name in s.arguments}
        if len(set(values.values())) > 1:
            differences[name] = f"{name} ({'; '.join(f'{node}: {value}' for node, value in values.items())})"
    return differences


def _sizes_differ(starts: Sequence[ServerRun]) -> _Compared | None:
    """Waiting nodes with different sizes."""
    waiting = _waiting(starts)
    differences = _differences(waiting)
    text = "; ".join(differences[name] for name in _SIZES if name in differences)
    return _Compared(_SIZES_DIFFER, {"differences": text}, tuple(_lasts(waiting)), Level.CONFIRMED) if text else None


def _releases(starts: Sequence[ServerRun]) -> dict[str, str]:
    """Printed releases by software, if they differ."""
    printed = {
        "vLLM": {s.file: s.release.version for s in starts if s.release.version and s.release.source == "printed"},
        "NCCL": {
            s.file: hit.captures["nccl_version"] for s in starts for hit in s.hits if "nccl_version" in hit.captures
        },
    }
    return {
        what: "; ".join(f"{_name(s)}: {versions[s.file]}" for s in starts if s.file in versions)
        for what, versions in printed.items()
        if len(set(versions.values())) > 1
    }


def _releases_differ(starts: Sequence[ServerRun]) -> _Compared | None:
    """Nodes with different releases, one of which failed to launch."""
    if not (releases := _releases(starts)):
        return None
    text = "; ".join(f"{what} ({versions})" for what, versions in releases.items())
    return _Compared(_RELEASES_DIFFER, {"differences": text}, tuple(_lasts(starts)))


def _blocked(starts: Sequence[ServerRun]) -> _Compared | None:
    """Rank 0 waits at the meeting point, and a rank that was sent there cannot connect."""
    for start in starts:
        tries = [hit for hit in start.hits if {"connect_error", "waited"} & set(hit.captures)]
        point = start.seat.meeting_point
        if not tries or not point or 0 in start.seat.ranks:
            continue
        address, _, port = point.rpartition(":")
        for head in starts:
            has_waited = bool(head.seat.waiting) or any(hit.symptom == _NEVER_JOINED for hit in head.hits)
            if 0 not in head.seat.ranks or head.seat.meeting_point != point or not has_waited:
                continue
            hit = next((hit for hit in tries if "connect_error" in hit.captures), tries[0])
            error = hit.captures.get("connect_error", "")
            captures = {"address": address, "port": port, "node": _name(start)}
            if error:
                captures[
                    "refused" if "refused" in error else "dropped" if "timed out" in error else "connect_error"
                ] = error
            return _Compared(_BLOCKED, captures, (hit.quote, *_lasts((head,))))
    return None


def _no_meeting(starts: Sequence[ServerRun]) -> _Compared | None:
    """Every rank waits at the same address and none has continued.

    A single log must be of several hosts.
    """
    waiting = _waiting(starts)
    size = next((s.seat.world_size for s in waiting if s.seat.world_size), None)
    ranks = {rank for s in waiting for rank in s.seat.waiting}
    points = {s.seat.meeting_point or "" for s in waiting}
    are_apart = len(waiting) > 1 or any(s.seat.is_mixed for s in waiting)
    if not are_apart or size is None or ranks != set(range(min(size, _MAX_RANKS))) or len(points) != 1:
        return None
    captures = {"ranks": str(size), "address": points.pop()}
    return _Compared(_NO_MEETING, {name: value for name, value in captures.items() if value}, tuple(_lasts(waiting)))


def _vanished(starts: Sequence[ServerRun], root: Finding | None) -> _Compared | None:
    """A rank lost its peer, and the only other log just ends: that process was killed."""
    is_of_a_victim = root is not None and root.symptom in ("dist.peer_lost", _TIMEOUT)
    if root is None or not is_of_a_victim or not root.evidence:
        return None
    nodes_known = nodes(starts)
    if nodes_known is None or nodes_known.missing or nodes_known.ranks_missing:
        return None
    mute = [
        s
        for s in starts
        if s.file != root.evidence[0].file and s.outcome is Outcome.UNKNOWN and not s.tracebacks and s.seat.ranks
    ]
    if len(mute) != 1 or mute[0].seat.waiting:
        return None
    rank = _node_rank(mute[0])
    captures = {**root.captures, **({} if rank is None else {"node": str(rank)})}
    if mute[0].seat.last_time:
        captures["last_time"] = mute[0].seat.last_time
    return _Compared(_VANISHED, captures, (*_lasts(mute), *root.evidence[:1]))


def _name(start: ServerRun) -> str:
    rank = _node_rank(start)
    ranks = ", ".join(map(str, start.seat.ranks)) or "?"
    return f"node {rank}" if rank is not None else f"ranks {ranks}"


def _lasts(starts: Iterable[ServerRun]) -> Iterator[Quote]:
    return (s.seat.last for s in starts if s.seat.last is not None)


def _short(starts: Sequence[ServerRun]) -> _Compared | None:
    """The resource that a Ray demand exceeds; else the node that it is bound to."""
    clusters = [s.cluster for s in starts if s.cluster is not None and s.cluster.total]
    waiting = [(cluster, demand) for cluster in clusters for demand in cluster.demands]
    for tell in (_lacking, _bound):
        for cluster, demand in waiting:
            comparison = tell(cluster, demand)
            if comparison is not None:
                return comparison
    return None


_UNLISTED = ("node:", "accelerator_type:")
"""Resources of a cluster that `ray status` does not list (Ray 2.60.0 autoscaler/_private/util.py:641, :671)."""


def _lacking(cluster: RayCluster, demand: RayDemand) -> _Compared | None:
    """Resources missing for a demand; None if the cluster's totals are enough."""
    for resource, need in demand.amounts.items():
        have = cluster.total.get(resource, 0.0)
        free = max(have - cluster.used.get(resource, 0.0), 0.0)
        if need <= free + 1e-9 or resource.startswith(_UNLISTED):
            continue
        captures = {"resource": resource, "need": f"{need:g}", "have": f"{have:g}", "free": f"{free:g}"}
        if cluster.active is not None:
            captures["nodes"] = str(cluster.active)
        return _Compared(_SHORT, captures, (demand.quote,), Level.CONFIRMED)
    return None


def _bound(_: RayCluster, demand: RayDemand) -> _Compared | None:
    """Address of the node that a demand is bound to."""
    bound = next((name for name in demand.amounts if re.match(r"node:[^_]", name)), None)
    return None if bound is None else _Compared(_BOUND, {"node_ip": bound.removeprefix("node:")}, (demand.quote,))


def noted(
    nodes_known: Nodes | None, starts: Sequence[ServerRun], outcome: Outcome, catalog: Catalog, names: Sequence[str]
) -> tuple[str, ...]:
    """Notes on the logs: what `ray status` shows, which are missing, whose clock is off.

    Args:
        nodes_known: Nodes as the logs show them; None if the launch ran on one.
        starts: The launch, as each log has it.
        outcome: Outcome of the launch.
        catalog: The symptoms, for their language.
        names: Names of the files.
    """
    say = Wording(catalog.lang)
    clusters = [s.cluster for s in starts if s.cluster is not None]
    notes = [
        say(
            "`ray status`: nodes alive: {nodes}; GPUs in use: {gpus}; pending demands: {demands}.",
            nodes="?" if cluster.active is None else cluster.active,
            gpus="/".join(f"{of.get('GPU', 0):g}" for of in (cluster.used, cluster.total)) if cluster.total else "?",
            demands=len(cluster.demands),
        )
        for cluster in clusters
    ]
    lost = [node for cluster in clusters for node in cluster.lost[:_MAX_SHOWN]]
    notes += [say("`ray status`: recently lost: {nodes}.", nodes=say("; ").join(lost))] if lost else []
    alive = max((cluster.active or 0 for cluster in clusters), default=0)
    if alive > 1 and nodes_known is None and any(s.facts.executor_backend == "mp" for s in starts):
        notes.append(say("The executor of this launch is mp: it uses only the server's own host, not the Ray cluster."))
    for what, named in _releases(starts).items():
        notes.append(say("The nodes run different {software} releases: {releases}.", software=what, releases=named))
    has_ranks_apart = sum(bool(s.seat.ranks) for s in starts) > 1
    ranks_missing = (
        nodes_known.ranks_missing if nodes_known is not None else _ranks_missing(starts) if has_ranks_apart else ()
    )
    if ranks_missing and not outcome.is_healthy:
        ranks = say(", ").join(map(str, ranks_missing[:_MAX_SHOWN]))
        notes.append(say("The log of rank {ranks} is missing and may contain the cause.", ranks=ranks))
    if nodes_known is None:
        return tuple(notes)
    if not outcome.is_healthy and (differences := _differences(starts)):
        listed = say("; ").join(list(differences.values())[:_MAX_SHOWN])
        notes.append(say("The nodes have different options: {options}.", options=listed))
    if nodes_known.missing and not outcome.is_healthy:
        missing = say(", ").join(map(str, nodes_known.missing[:_MAX_SHOWN]))
        notes.append(
            say(
                "The launch spans several nodes. The log of node {missing} is missing and may contain the cause.",
                missing=missing,
            )
        )
    off = [log for log in nodes_known.logs if log.clock_offset_s and abs(log.clock_offset_s) > _CLOCK_TOLERANCE_S]
    notes += [
        say(
            "The clock of {node} differs by {seconds} s from the first log's; the event order is corrected.",
            node=names[log.file] if log.node_rank is None else say("node {node}", node=log.node_rank),
            seconds=f"{log.clock_offset_s:+g}",
        )
        for log in off
    ]
    return tuple(notes)
