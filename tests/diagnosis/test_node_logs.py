"""Logs of one launch on several nodes, and `ray status`, are diagnosed together."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from vllm_runbooks import render
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import Answer, Finding, Outcome
from vllm_runbooks.diagnosis import diagnosing

CASES = Path(__file__).resolve().parents[2] / "catalog" / "cases"
JOINS = (
    "(Worker pid={pid}) INFO 11-21 20:38:0{rank} [parallel_state.py:1906] world_size={size} rank={rank} local_rank=0 "
    "distributed_init_method=tcp://{point} backend=gloo\n"
)
LOST = (
    "(Worker pid=7) ERROR 11-21 20:40:00 [multiproc_executor.py:953] RuntimeError: [/x/gloo/transport/tcp/pair.cc:553] "
    "Connection closed by peer [10.20.0.2]:18059.\n"
)
MET = (
    "(Worker pid={pid}) INFO 11-21 {time} [parallel_state.py:2350] rank {rank} in world size 2 is assigned as "
    "DP rank 0, PP rank 0, PCP rank 0, TP rank {rank}, EP rank N/A\n"
)
FAILED = "(Worker pid={pid}) ERROR 11-21 {time} [multiproc_executor.py:953] {words}\n"
NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."
DISK = "OSError: [Errno 28] No space left on device"


def recorded(case: str, file: str) -> str:
    return (CASES / case / file).read_text("utf-8")


def diagnose(*texts: str, lang: str | None = None) -> Answer:
    documents = tuple(Document(f"{index}.log", text) for index, text in enumerate(texts))
    return diagnosing.diagnose(Evidence(documents), lang=lang)


def cause(found: Answer) -> Finding:
    assert found.root_cause is not None
    return found.root_cause


def joins(rank: int, *, size: int = 2, point: str = "10.20.0.1:29601", pid: int = 7) -> str:
    return JOINS.format(rank=rank, size=size, point=point, pid=pid)


def later(text: str, seconds: int) -> str:
    """The log as a node would have printed it whose clock is ahead."""

    def moved(match: re.Match[str]) -> str:
        hours, minutes, rest = map(int, match["time"].split(":"))
        total = hours * 3600 + minutes * 60 + rest + seconds
        return f"{match['day']} {total // 3600:02}:{total % 3600 // 60:02}:{total % 60:02}"

    return re.sub(r"(?P<day>11-21) (?P<time>\d\d:\d\d:\d\d)", moved, text)


def test_each_log_is_named_by_its_node() -> None:
    """The head prints no rank; the other node prints its number."""
    found = diagnose(recorded("two-nodes-served", "node0.log"), recorded("two-nodes-served", "node1.log"))

    assert found.nodes is not None
    assert (found.nodes.count, found.nodes.missing, found.nodes.ranks_missing) == (2, (), ())
    assert [(log.node_rank, log.ranks, log.outcome, log.waits) for log in found.nodes.logs] == [
        (0, (0,), Outcome.RUNNING, False),
        (1, (1,), Outcome.UNKNOWN, False),
    ]
    assert [log.clock_offset_s for log in found.nodes.logs] == [0.0, 0.0]
    assert found.notes == ()
    assert "  1.log  node 1  lines" in render.answers.text(found)


@pytest.mark.parametrize("seconds", [61, -3600])
def test_a_clock_that_is_off_is_seen(seconds: int) -> None:
    """Both print that the ranks have met at one moment; a node in another time zone is off by hours."""
    found = diagnose(
        recorded("two-nodes-rank-killed", "node0.log"), later(recorded("two-nodes-rank-killed", "node1.log"), seconds)
    )

    assert found.nodes is not None
    assert [log.clock_offset_s for log in found.nodes.logs] == [0.0, float(seconds)]
    assert cause(found).symptom == "dist.peer_lost.vanished"
    assert found.notes == (
        f"The clock of node 1 differs by {seconds:+} s from the first log's; the event order is corrected.",
    )


def test_a_second_between_two_clocks_has_no_note() -> None:
    """Ranks print at slightly different times, so this proves no clock difference."""
    found = diagnose(
        recorded("two-nodes-rank-killed", "node0.log"), later(recorded("two-nodes-rank-killed", "node1.log"), 1)
    )

    assert found.nodes is not None
    assert [log.clock_offset_s for log in found.nodes.logs] == [0.0, 1.0]
    assert found.notes == ()


def test_a_missing_log_is_requested() -> None:
    """Of both nodes; not if all is well."""
    head, other = (recorded("two-nodes-rank-killed", f"node{rank}.log") for rank in (0, 1))
    without_other, without_head = diagnose(head), diagnose(other)

    assert without_other.nodes is not None
    assert without_other.nodes.missing == (1,)
    assert "The log of node 1 is missing" in without_other.notes[0]
    assert cause(without_other).symptom == "dist.peer_lost"
    assert without_head.nodes is not None
    assert without_head.nodes.missing == (0,)
    assert "The log of node 0 is missing" in without_head.notes[0]
    assert diagnose(recorded("two-nodes-served", "node0.log")).notes == ()
    alone = diagnose(recorded("tiny-cpu-tp2-served", "startup.log"))
    assert alone.nodes is None
    assert "nodes" not in json.loads(render.to_json(alone))
    assert json.loads(render.to_json(without_other))["nodes"]["missing"] == [1]


def test_the_log_of_a_silent_rank_is_requested() -> None:
    """If no log prints its node."""
    leader = (
        "(EngineCore pid=3) INFO 11-21 20:38:00 [multiproc_executor.py:153] DP group leader: node_rank=0, "
        "node_rank_within_dp=0, master_addr=10.20.0.1, mq_connect_ip=10.20.0.1 (local), world_size=4, "
        "local_world_size=2\n"
    )
    found = diagnose(leader + joins(0, size=4) + joins(1, size=4, pid=8))

    assert found.nodes is not None
    assert found.nodes.ranks_missing == (2, 3)
    assert found.notes == ("The log of rank 2, 3 is missing and may contain the cause.",)


def test_the_first_failure_by_a_clock_that_is_ahead() -> None:
    """Its clock is ahead, so the other node's later consequence seems earlier."""
    found = diagnose(*(recorded("two-nodes-clock-ahead", f"node{rank}.log") for rank in (0, 1)))

    assert found.nodes is not None
    assert found.nodes.logs[1].clock_offset_s == 61.0
    assert cause(found).evidence[0].file == 1


@pytest.mark.parametrize("swapped", [False, True])
def test_the_first_failure_counts_in_any_order_of_logs(*, swapped: bool) -> None:
    """Clock differences are corrected: here the second node is a minute ahead."""
    one = MET.format(pid=7, rank=0, time="20:30:00") + FAILED.format(pid=7, time="20:31:00", words=NO_BLOCKS)
    two = MET.format(pid=8, rank=1, time="20:31:00") + FAILED.format(pid=8, time="20:31:20", words=DISK)
    logs = (two, one) if swapped else (one, two)

    assert cause(diagnose(*logs)).symptom == "storage.disk_full"


def test_without_a_common_event_logs_keep_their_order() -> None:
    """Clocks of two hosts prove nothing against each other."""
    one = joins(0) + FAILED.format(pid=7, time="20:41:00", words=NO_BLOCKS)
    two = joins(1, pid=8) + FAILED.format(pid=8, time="20:40:20", words=DISK)

    assert cause(diagnose(one, two)).symptom == "kv.no_blocks"
    assert cause(diagnose(two, one)).symptom == "storage.disk_full"


def test_a_log_that_stops_while_its_rank_waits() -> None:
    """It has no error. A log that continues, or without other ranks, is not reported."""
    waits = diagnose(joins(0))

    assert (waits.outcome, cause(waits).symptom) == (Outcome.UNKNOWN, "dist.peer_lost.waiting")
    assert diagnose(joins(0) + MET.format(pid=7, rank=0, time="20:39:00")).root_cause is None
    assert diagnose(joins(0, size=1)).root_cause is None


def test_all_ranks_wait_for_each_other() -> None:
    """Only both logs prove that no rank is missing; a third rank could be."""
    assert cause(diagnose(joins(0), joins(1))).symptom == "dist.peer_lost.no_meeting"
    assert cause(diagnose(joins(0, size=3), joins(1, size=3))).symptom == "dist.peer_lost.waiting"


def test_a_rank_in_two_logs_is_one_if_it_printed_the_same() -> None:
    """Ray copies worker lines to the driver; two nodes with one number print at different times."""
    worker = joins(0, pid=7)
    again = worker.replace("20:38:00", "20:38:04")

    assert cause(diagnose(worker, "(EngineCore pid=3) INFO 11-21 20:39:00 [core.py:1] words\n" + worker)).symptom == (
        "dist.peer_lost.waiting"
    )
    assert cause(diagnose(worker, again)).symptom == "dist.peer_lost.same_rank"


def test_ranks_that_wait_at_different_places() -> None:
    """That is certain, and both places are named."""
    found = cause(diagnose(joins(0), joins(1, point="10.20.0.1:29602")))

    assert (found.symptom, found.level.value) == ("dist.peer_lost.apart", "confirmed")
    assert "ranks 0 at 10.20.0.1:29601; ranks 1 at 10.20.0.1:29602" in found.explanation


def test_a_silent_process_has_vanished_only_without_another_explanation() -> None:
    """A log with its own error has the cause; a missing log may have it."""
    head = recorded("two-nodes-rank-killed", "node0.log")
    other = recorded("two-nodes-rank-killed", "node1.log")

    assert cause(diagnose(head, other)).symptom == "dist.peer_lost.vanished"
    failed = other + FAILED.format(pid=22822, time="20:31:59", words=NO_BLOCKS)
    assert cause(diagnose(head, failed)).symptom == "kv.no_blocks"
    assert cause(diagnose(head, "nothing of vLLM\n")).symptom == "dist.peer_lost"


STATUS = recorded("ray-gpus-short", "ray-status.txt")


@pytest.mark.parametrize(
    ("usage", "demand", "told"),
    [
        ("0.0/2.0 CPU", "{'CPU': 0.001, 'GPU': 1.0} * 2 (PACK): 1+ pending placement groups", ("GPU", "2", "0", "0")),
        ("3.0/4.0 GPU", "{'GPU': 1.0} * 2 (PACK): 1+ pending placement groups", ("GPU", "2", "4", "1")),
        ("0.0/1.0 GPU", "{'node:10.0.0.9': 0.001, 'GPU': 1.0} * 1, {'GPU': 1.0} * 3 (PACK): 1+ pending",
         ("GPU", "4", "1", "1")),
        ("0.0/2.0 GPU (0.5 used of 1.5 reserved in placement groups)", "{'GPU': 2.0}: 1+ pending tasks/actors",
         ("GPU", "2", "2", "1")),
        ("1.0/2.0 CPU", "{'memory': 107374182400.0}: 1+ pending tasks/actors", ("memory", "100", "42.86", "42.86")),
    ],
)  # fmt: skip
def test_the_resource_that_ray_lacks_is_named(usage: str, demand: str, told: tuple[str, ...]) -> None:
    """Requested, total and free amount; headings of older releases are read too."""
    text = re.sub(r" 0\.0/2\.0 CPU", f" {usage}", STATUS)
    text = re.sub(r" \{'CPU'.*", f" {demand}", text)
    for heading in ("Pending Demands:", "Total Demands:", "Demands:"):
        found = cause(diagnose(text.replace("Pending Demands:", heading)))

        assert found.symptom == "ray.placement_group_pending.short"
        assert tuple(found.captures[name] for name in ("resource", "need", "have", "free")) == told
        assert found.captures["nodes"] == "2"


def test_a_bundle_bound_to_a_possibly_missing_node() -> None:
    """All listed resources are enough; `ray status` lists no node's own resource."""
    bound = "{'GPU': 1.0, 'node:10.0.0.9': 0.001} * 1, {'GPU': 1.0} * 1 (PACK): 1+ pending placement groups"
    found = cause(diagnose(re.sub(r" \{'CPU'.*", f" {bound}", STATUS.replace(" 0.0/2.0 CPU", " 0.0/2.0 GPU"))))

    assert (found.symptom, found.level.value) == ("ray.node_ip.bound", "probable")
    assert found.captures == {"node_ip": "10.0.0.9"}


def test_a_status_without_waiting_tasks_has_no_cause() -> None:
    """It is summarized; a demand that the cluster can meet is not a shortage."""
    quiet = re.sub(r" \{'CPU'.*", " (no resource demands)", STATUS)
    served = re.sub(r" \{'CPU'.*", " {'CPU': 1.0} * 2 (PACK): 1+ pending placement groups", STATUS)

    assert diagnose(quiet).root_cause is None
    assert diagnose(quiet).notes == ("`ray status`: nodes alive: 2; GPUs in use: 0/0; pending demands: 0.",)
    assert diagnose(served).root_cause is None
    assert diagnose("words\n" + STATUS + "\n" + quiet).root_cause is None
    assert "存活的节点：2" in diagnose(quiet, lang="zh").notes[0]


def test_a_launch_on_one_host_of_a_ray_cluster_is_reported() -> None:
    """With the executor mp; a launch that lists its nodes uses them without Ray."""
    said = "The executor of this launch is mp: it uses only the server's own host, not the Ray cluster."
    quiet = re.sub(r" \{'CPU'.*", " (no resource demands)", STATUS)
    alone = diagnose(recorded("qwen-2x24gb-mp-glued", "startup.log"), quiet)

    assert alone.root_cause is None
    assert said in alone.notes
    assert "dist.one_host" in [finding.symptom for finding in alone.findings]
    assert said not in diagnose(recorded("two-nodes-served", "node0.log"), quiet).notes


IDLE = """\
======== Autoscaler status: 2025-02-23 22:38:04.501687 ========
Node status
---------------------------------------------------------------
Active:
 1 node_e28141d1456fec8fd4a62dee4c7d9b260425e259b4d1aae177334e9a01
 1 node_af0088dd67581f97aae78a7da5cfa8d4c532374616e4e0f54ba28089
Pending:
 (no pending nodes)
Recent failures:
 (no failures)

Resources
---------------------------------------------------------------
Usage:
 0.0/168.0 CPU
 0.0/5.0 GPU
 0B/1.02TiB memory
 0B/1.46GiB object_store_memory

Demands:
 (no resource demands)
"""
"""Two nodes with five GPUs, 42 minutes after the last line of the log."""


def test_a_cluster_with_all_gpus_idle_is_reported() -> None:
    """With its GPUs, the launch's GPUs and the delay; not if one is in use."""
    log, status = recorded("qwen-2x24gb-mp-glued", "startup.log"), IDLE
    (idle,) = (f for f in diagnose(log, status).findings if f.symptom == "ray.cluster_idle")

    assert idle.captures == {"have": "5", "need": "2", "nodes": "2", "age_minutes": "42"}
    assert "`ray status` ran 42 minutes after the last line of the log." in (idle.explanation or "")
    used = status.replace(" 0.0/5.0 GPU", " 2.0/5.0 GPU")
    assert "ray.cluster_idle" not in [f.symptom for f in diagnose(log, used).findings]
    assert "ray.cluster_idle" not in [f.symptom for f in diagnose(status).findings]


def test_nodes_of_different_releases_are_named() -> None:
    """Their messages need not fit each other."""
    other = recorded("two-nodes-loopback", "node1.log").replace("v0.32.0", "v0.31.0")
    found = diagnose(recorded("two-nodes-loopback", "node0.log"), other)

    assert "The nodes run different vLLM releases: node 0: 0.32.0; node 1: 0.31.0." in found.notes


def test_a_malformed_status_is_harmless() -> None:
    """Invalid numbers, deep nesting, and headings alone."""
    begin = "======== Autoscaler status: now ========\n"
    hostile = begin + "Total Usage:\n 1.2.3/4 GPU\n 1/2..2 CPU\nTotal Demands:\n {'GPU': 1e9e9} * 2: 1 pending x\n"
    long = begin + "Usage:\n 0.0/1.0 GPU\nDemands:\n" + " {'GPU': 1.0} * 2 (PACK): 1+ pending placement groups\n" * 5000

    assert diagnose(hostile).root_cause is None
    assert diagnose(begin + "Demands:\n {'GPU': 2.0}: 1+ pending tasks/actors\n").root_cause is None
    assert len(cause(diagnose(long)).evidence) == 1
    assert diagnose(begin).root_cause is None


def test_no_log_makes_a_long_list_of_ranks() -> None:
    """A log may name any number of nodes."""
    arguments = "INFO 11-21 20:00:00 [utils.py:233] non-default args: {'model': 'm', 'nnodes': 999999999}\n"
    found = diagnose(arguments + joins(0))

    assert found.nodes is not None
    assert len(found.nodes.missing) < 5000
    assert len(found.notes[0]) < 500


HEADLESS = (
    "(MainProcess pid=20) INFO 11-21 20:37:00 [serve.py:210] Launching vLLM (v0.32.0) headless multiproc executor, "
    "with head node address 10.20.0.1:29601 for torch.distributed process group.\n"
)


def test_a_headless_node_requests_the_heads_log() -> None:
    """It prints no number, but is certainly not the first; no option is suggested."""
    words = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB."
    full = FAILED.format(pid=7, time="20:40:00", words=words)
    found = diagnose(HEADLESS + joins(1) + full)

    assert found.nodes is not None
    assert found.nodes.missing == (0,)
    assert "The log of node 0 is missing" in found.notes[0]
    assert "tensor_parallel_size" not in {edit.name for way in found.remedies for edit in way.edits}
    assert diagnose(joins(0), HEADLESS + joins(1)).nodes is not None
    assert not any(
        "log of node" in note
        for note in diagnose(MET.format(pid=7, rank=0, time="20:39:00") + joins(0), HEADLESS + joins(1)).notes
    )


def test_a_clock_of_an_unnumbered_node_is_named_by_its_file() -> None:
    """The log's name identifies it."""
    one = MET.format(pid=7, rank=0, time="20:30:00") + FAILED.format(pid=7, time="20:31:00", words=NO_BLOCKS)
    two = HEADLESS + MET.format(pid=8, rank=1, time="20:31:00")

    assert any(note.startswith("The clock of 1.log differs by +60 s") for note in diagnose(one, two).notes)


def test_peer_gpus_are_not_mentioned_with_one_gpu_per_host() -> None:
    """There is no traffic between GPUs of one host."""
    watchdog = (
        "[rank0]:[E1121 20:50:00.1 ProcessGroupNCCL.cpp:685] [Rank 0] Watchdog caught collective operation timeout\n"
    )
    leader = (
        "(EngineCore pid=3) INFO 11-21 20:38:00 [multiproc_executor.py:153] DP group leader: node_rank=0, "
        "node_rank_within_dp=0, master_addr=10.20.0.1, mq_connect_ip=10.20.0.1 (local), world_size={}, "
        "local_world_size={}\n"
    )

    def ways(text: str) -> set[str]:
        return {edit.name for way in diagnose(text).remedies for edit in way.edits}

    assert "NCCL_P2P_DISABLE" not in ways(leader.format(2, 1) + joins(0) + watchdog)
    assert "NCCL_P2P_DISABLE" in ways(leader.format(4, 2) + joins(0, size=4) + watchdog)


def test_a_line_that_is_quoted_is_not_counted_as_left_out() -> None:
    """Of ranks that wait for each other, each is the evidence itself."""
    assert diagnose(joins(0), joins(1)).left_out == ()
