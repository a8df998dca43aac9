"""Hanging and slow launches are distinguished by their processes, with a set clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vllm_runbooks.host import memory_limit
from vllm_runbooks.host.progress import Sight
from vllm_runbooks.serve.durations import Usual
from vllm_runbooks.serve.neighbours import Killings
from vllm_runbooks.serve.watch import HangWatch

PHASES = ["engine", "load", "compile", "profile", "capture", "warm_up"]


class Host:
    """Processes whose work is set."""

    def __init__(self, **works: float) -> None:
        self.works = works
        self.cpu = dict.fromkeys(works, 0.0)
        self.io = dict.fromkeys(works, 0)
        self.reads = dict.fromkeys(works, 0)
        self.states = dict.fromkeys(works, "sleeping")

    def step(self) -> dict[int, Sight]:
        """A second later."""
        for name, share in self.works.items():
            if self.states[name] != "stopped":
                self.cpu[name] += share
                self.io[name] += self.reads[name]
        return {
            pid: Sight(pid, name, self.states[name], self.cpu[name], self.io[name])
            for pid, name in enumerate(self.works, 100)
        }


def look(watch: HangWatch, host: Host, seconds: int, start: int = 0) -> list[tuple[int, str]]:
    """The reported events with their seconds."""
    return [(at, seen.kind) for at in range(start, start + seconds) for seen in watch.look(host.step(), float(at))]


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_a_working_launch_is_never_a_hang(phase: str) -> None:
    """For any time without a line, in any phase: on the processor, or reading a disk."""
    for works, reads in ((1.0, 0), (0.05, 0), (0.0, 50_000_000)):
        names = {"VLLM::EngineCore": 0.001, "VLLM::Worker_TP0": works, "VLLM::Worker_TP1": works}
        watch, host = HangWatch(0.0, phase=phase), Host(**names)
        host.reads["VLLM::Worker_TP1"] = reads
        host.reads["VLLM::Worker_TP0"] = reads
        assert look(watch, host, 3600) == []


def test_a_busy_gpu_is_not_a_waiting_launch() -> None:
    """Its processes may sleep; an unknown utilization counts as zero."""
    for is_computing, told in ((True, []), (False, [(30, "idle")]), (None, [(30, "idle")])):
        watch = HangWatch(0.0, phase="warm_up", is_computing=lambda answer=is_computing: answer)  # type: ignore[misc]
        assert look(watch, Host(vllm=0.0), 200) == told


def test_an_unusually_long_phase_is_reported() -> None:
    """Once per phase, after five minutes without a line or three times the usual duration."""
    usual = {"load": Usual(20.0, "4 to 20 s"), "profile": Usual(200.0, "9 to 200 s")}
    watch, host = HangWatch(0.0, phase="load", usual=usual, is_computing=lambda: True), Host(vllm=1.0)
    told = look(watch, host, 500)
    watch.phase, watch.line_at = "profile", 500.0
    told += look(watch, host, 900, 500)
    watch.phase, watch.line_at = "capture", 1400.0
    told += look(watch, host, 3600, 1400)

    assert told == [(300, "overdue"), (1100, "overdue")]
    assert watch.hung_since is None


@pytest.mark.parametrize("phase", PHASES)
def test_a_stopped_process_is_reported_after_three_seconds(phase: str) -> None:
    """Once, and again when it continues."""
    watch, host = HangWatch(0.0, phase=phase), Host(vllm=0.0, **{"VLLM::Worker_TP0": 1.0, "VLLM::Worker_TP1": 1.0})
    told = look(watch, host, 10)
    host.states["VLLM::Worker_TP1"] = "stopped"
    told += look(watch, host, 30, 10)
    host.states["VLLM::Worker_TP1"] = "running"
    told += look(watch, host, 10, 40)

    assert told == [(13, "stopped"), (40, "goes-on")]


def test_a_stopped_process_of_a_ready_server_is_reported() -> None:
    """A ready server is idle without requests."""
    watch, host = HangWatch(0.0, is_ready=True), Host(vllm=0.0, **{"VLLM::EngineCore": 0.0, "VLLM::Worker_TP0": 0.0})
    told = look(watch, host, 600)
    host.states["VLLM::Worker_TP0"] = "stopped"
    (seen,) = [each for at in range(600, 610) for each in watch.look(host.step(), float(at))]

    assert told == []
    assert (seen.kind, seen.phase, seen.process, seen.pid) == ("stopped", "serve", "VLLM::Worker_TP0", 102)


def test_a_launch_with_idle_processes_is_waiting() -> None:
    """After half a minute without a line; a new line ends it."""
    watch, host = HangWatch(0.0, phase="engine"), Host(vllm=0.001, **{"VLLM::EngineCore": 0.002})
    told = look(watch, host, 40)
    watch.line_at = 40.0
    told += look(watch, host, 20, 40)

    assert [kind for _, kind in told] == ["idle", "goes-on"]
    assert told[0][0] in (30, 31)


def test_the_rank_that_others_wait_for_is_named() -> None:
    """Other ranks busy-wait, as collectives do."""
    watch, host = HangWatch(0.0, phase="load"), Host(vllm=0.0, **{"VLLM::Worker_TP0": 1.0, "VLLM::Worker_TP1": 0.0})
    told = [seen for at in range(90) for seen in watch.look(host.step(), float(at))]

    assert [(seen.kind, seen.process) for seen in told] == [("lopsided", "VLLM::Worker_TP1")]
    assert watch.hung_since is None  # it may wait for a long compilation of the other


def test_an_ended_process_is_forgotten() -> None:
    """Its end is not a hang; the server's end is reported elsewhere."""
    watch, host = HangWatch(0.0), Host(vllm=1.0, other=0.0)
    host.states["other"] = "stopped"
    first = look(watch, host, 5)
    del host.works["other"]
    rest = look(watch, host, 60, 5)

    assert [kind for _, kind in first + rest] == ["stopped", "goes-on"]


def test_the_kernels_killing_is_counted_in_either_version(tmp_path: Path) -> None:
    """Of control groups, at the group's own path or, in a container, at the root."""
    own = tmp_path / "cgroup"
    (tmp_path / "v2").mkdir()
    (tmp_path / "v2" / "memory.events").write_text("low 0\noom 2\noom_kill 3\n")
    own.write_text("0::/user.slice\n")
    there = memory_limit.kills(own, tmp_path / "v2")
    (tmp_path / "v1" / "memory" / "a").mkdir(parents=True)
    (tmp_path / "v1" / "memory" / "a" / "memory.oom_control").write_text("under_oom 0\noom_kill 1\n")
    own.write_text("4:cpu,memory:/a\n1:name=systemd:/a\n")

    assert there == 3
    assert memory_limit.kills(own, tmp_path / "v1") == 1
    assert memory_limit.kills(own, tmp_path / "nowhere") is None
    (tmp_path / "v1" / "memory" / "memory.oom_control").write_text("oom_kill 7\n")
    own.write_text("4:memory:/gone/deeper\n")
    assert memory_limit.kills(own, tmp_path / "v1") == 7
    (tmp_path / "v2" / "user.slice").mkdir()
    (tmp_path / "v2" / "user.slice" / "memory.events").write_text("oom_kill 5\n")
    own.write_text("0::/user.slice/one.scope\n")
    assert memory_limit.kills(own, tmp_path / "v2") == 5


def test_an_oom_kill_since_the_launch_is_an_event() -> None:
    """Earlier ones are not."""

    def counts() -> Iterator[int | None]:
        yield from (2, 2, 3, 3, None)

    told = counts()
    killings = Killings(0.0, lambda: next(told))

    assert [[seen.kind for seen in killings.look(float(n))] for n in range(4)] == [[], ["oom-kill"], [], []]
