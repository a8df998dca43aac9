"""Agents on this host; `test_cluster_net` has hosts on their own networks."""

from __future__ import annotations

import base64
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from pace import scaled
from vllm_runbooks.cluster import (
    all_reduce,
    carriers,
    collective,
    groups,
    hosts,
    matrix,
    measuring,
    named,
    node_facts,
    reaching,
)
from vllm_runbooks.cluster.agent import Agent
from vllm_runbooks.cluster.wires import UnansweredError
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.host.nodes.records import Cluster, Interface, NodeConnection, NodeFacts, Reachability


def agent(name: str, *before: str) -> list[str]:
    """The command of an agent on this host, after a prefix such as variables."""
    return [*before, sys.executable, "-P", "-m", "vllm_runbooks.cluster.agent", name]


@pytest.fixture(scope="module")
def here() -> Iterator[carriers.Processes]:
    """An agent in a separate process."""
    with carriers.Processes({"here": agent("here")}) as carrier:
        yield carrier


def is_alive(pid: int) -> bool:
    """Whether a process runs and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(*pids: int, within_s: float = 8.0) -> bool:
    """Whether processes end in time."""
    ends_at = time.monotonic() + scaled(within_s)
    while any(map(is_alive, pids)):
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.02)
    return True


# ---- an agent


@pytest.mark.slow
def test_a_node_reports_its_facts(here: carriers.Processes, tmp_path: Path) -> None:
    """Its host, its addresses, and the model's files; an agent needs less than 100 MB."""
    (tmp_path / "config.json").write_text("{}")
    with (tmp_path / "model.safetensors").open("wb") as weights:
        weights.truncate(40 << 20)
    told = here.ask("here", {"do": "facts", "model": str(tmp_path), "salt": "s"}, 60)

    assert told["hostname"] == socket.gethostname()
    assert any("127.0.0.1" in each["addresses"] for each in told["interfaces"])
    assert told["inventory"]["host"]["kernel"] == os.uname().release
    files = {each["name"]: each for each in told["model"]["files"]}
    assert files["config.json"]["sha256"].startswith("44136fa3")
    assert files["model.safetensors"]["size"] == 40 << 20
    assert files["model.safetensors"]["sha256"] is None
    assert len(files["model.safetensors"]["sampled_sha256"]) == 64
    pid = here.ask("here", {"do": "hello"}, 5)["pid"]
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
    assert int(rollup.partition("\nPss:")[2].split()[0]) < 100 << 10


def test_a_sampled_file_differs_where_an_end_or_the_size_does(tmp_path: Path) -> None:
    """Not where nothing does."""
    marks = []
    for name, size, at in (
        ("a", 40 << 20, None),
        ("b", 40 << 20, None),
        ("c", 40 << 20, (40 << 20) - 1),
        ("d", (40 << 20) + 1, None),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        with (folder / "model.safetensors").open("wb") as file:
            file.truncate(size)
            if at is not None:
                file.seek(at)
                file.write(b"x")
        marks.append(node_facts.model_facts(str(folder)).files[1].sampled_sha256)

    assert marks[0] == marks[1]
    assert len({*marks}) == 3


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("/nope/model", "not found"),
        ("org/name", "is not in this node's Hub cache"),
        ("", "has no config.json"),
    ],
)
def test_a_missing_model_is_reported(model: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason."""
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    found = node_facts.model_facts(model or str(tmp_path))

    assert not found.exists
    assert why in found.reason


def test_a_model_of_the_hub_is_found_in_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the revision that the cache names."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--org--name" / "snapshots" / "0123abcd"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (tmp_path / "models--org--name" / "refs").mkdir()
    (tmp_path / "models--org--name" / "refs" / "main").write_text("0123abcd")

    assert node_facts.model_facts("org/name").exists


def test_variables_are_reported_without_their_secrets(tmp_path: Path) -> None:
    """Equal tokens have equal marks, in variables and files; a proxy's password is replaced."""
    (tmp_path / "token").write_text("tok-0123456789abcdef\n")
    one = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "tok-0123456789abcdef",
        "https_proxy": "http://u:hunter2secret@p:3128",
    }
    other = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token"),
        "HOME": "/root",
        "NCCL_IB_DISABLE": "1",
        "VLLM_RUNBOOKS_LOCKS": "/x",
    }
    found, also = (node_facts.environment(each, "salt") for each in (one, other))

    assert found["RAY_AUTH_TOKEN"] == also["RAY_AUTH_TOKEN"]
    assert found["RAY_AUTH_TOKEN"] != node_facts.environment(one, "pepper")["RAY_AUTH_TOKEN"]
    assert "0123456789abcdef" not in str(found) + str(also)
    assert "hunter2secret" not in str(found)
    assert also["NCCL_IB_DISABLE"] == "1"
    assert "HOME" not in also
    assert "VLLM_RUNBOOKS_LOCKS" not in also  # of this tool: ranks need not agree on it


def test_an_unresolved_name_has_no_address() -> None:
    """This differs from an unknown address."""
    assert node_facts.resolved("localhost") is not None
    assert node_facts.resolved("no such host") == ()


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"do": "dance"},
        {"do": "read", "group": "9"},
        {"do": "reach"},
        {"do": "start", "command": 3},
        {"do": "listen", "token": "t", "ports": [["any", "x"]], "for_s": 1},
    ],
)
def test_an_invalid_request_has_an_answer(asked: dict[str, Any]) -> None:
    """One line, and no traceback."""
    answer = Agent("here").answer(asked)

    assert "\n" not in answer["error"]


# ---- reaching


@pytest.mark.slow
def test_connections_are_verified_and_measured(here: carriers.Processes) -> None:
    """With a token; a closed port is refused, and a peer without the token is another process."""
    token = secrets.token_hex(16)
    waiting = here.ask("here", {"do": "listen", "token": token, "ports": [["any", 0]], "for_s": 20}, 5)
    port = waiting[0]["port"]
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        nobody = socket.create_server(("127.0.0.1", 0))
        closed = nobody.getsockname()[1]
        nobody.close()
        found = reaching.reach(
            [
                {"address": "127.0.0.1", "port": port, "token": token},
                {"address": "127.0.0.1", "port": port, "token": secrets.token_hex(16)},
                {"address": "127.0.0.1", "port": closed, "token": token},
                {"address": "127.0.0.1", "port": stranger.getsockname()[1], "token": None},
            ],
            2,
        )
    assert [each["state"] for each in found] == ["open", "unreachable", "refused", "open"]
    assert 0 < found[0]["latency_ms"] < 1000
    assert found[0]["source"] == "127.0.0.1"
    assert "another host answers" in found[1]["why"]
    assert reaching.stream("127.0.0.1", port, token, 0.1) > 10
    here.ask("here", {"do": "silence"}, 5)
    time.sleep(0.5)
    assert reaching.reach([{"address": "127.0.0.1", "port": port, "token": token}], 2)[0]["state"] == "refused"


def test_a_silent_address_is_dropped() -> None:
    """After the timeout: a server that accepts no connections, like behind a firewall."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        held = [socket.socket() for _ in range(4)]
        for one in held:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        begun = time.monotonic()
        found = reaching.reach([{"address": "127.0.0.1", "port": full.getsockname()[1], "token": None}], 0.5)
        for one in held:
            one.close()

    assert found[0]["state"] == "dropped"
    assert time.monotonic() - begun < scaled(2)


def test_an_occupied_port_is_reported() -> None:
    """The connection is still tried, to whatever process listens."""
    with socket.create_server(("", 0), family=socket.AF_INET) as other:
        listeners = reaching.Listeners("t" * 32, [("torch", other.getsockname()[1])], 1)
        listeners.close()

    assert [(each.is_ours, each.why) for each in listeners.waiting] == [(False, "taken")]


# ---- commands


def text(told: dict[str, Any]) -> str:
    """The text read from a group."""
    return base64.b64decode(told["data"]).decode()


def until(carrier: carriers.Carrier, group: str, word: str) -> dict[str, Any]:
    """The output of a group, up to this text."""
    ends_at = time.monotonic() + scaled(10)
    while True:
        told: dict[str, Any] = carrier.ask("here", {"do": "read", "group": group}, 5)
        if word in text(told) or not told["is_running"]:
            return told
        assert time.monotonic() < ends_at, told
        time.sleep(0.02)


@pytest.mark.slow
def test_a_command_is_started_read_signalled_and_ended(here: carriers.Processes) -> None:
    """With its child processes, also in another session."""
    script = "trap 'echo heard; exit 7' USR1; setsid sleep 300 & echo pid $!; while :; do sleep 0.05; done"
    group = here.ask("here", {"do": "start", "command": ["sh", "-c", script], "environment": {"A": "1"}}, 5)["group"]
    child = int(text(until(here, group, "pid")).split()[1])
    assert is_alive(child)
    here.ask("here", {"do": "signal", "group": group, "number": int(signal.SIGUSR1)}, 5)
    told = until(here, group, "heard")
    while told["is_running"]:
        told = here.ask("here", {"do": "read", "group": group}, 5)

    assert told["status"] == 7
    assert gone(child)
    here.ask("here", {"do": "end", "group": group, "forget": True}, 10)
    with pytest.raises(UnansweredError, match="unknown; it has ended"):
        here.ask("here", {"do": "read", "group": group}, 5)


def test_a_command_is_ended_at_its_timeout(here: carriers.Processes) -> None:
    """One that cannot run has a reason."""
    late = here.ask("here", {"do": "start", "command": ["sleep", "300"], "limit_s": 0.3}, 5)["group"]
    wrong = here.ask("here", {"do": "start", "command": ["/nope/vllm"]}, 5)["group"]
    told = until(here, late, "never")
    assert not told["is_running"]
    assert "No such file" in until(here, wrong, "never")["refused"]


def test_a_killed_agent_leaves_nothing() -> None:
    """Neither after SIGKILL, nor when its client has ended."""
    with carriers.Processes({"here": agent("here")}) as carrier:
        pids = []
        group = carrier.ask("here", {"do": "start", "command": ["sh", "-c", "echo $$; exec sleep 300"]}, 5)["group"]
        pids.append(int(text(until(carrier, group, "\n"))))
        pid = carrier.ask("here", {"do": "hello"}, 5)["pid"]
        os.kill(pid, signal.SIGKILL)
        assert gone(pid, *pids)
        with pytest.raises(UnansweredError):
            carrier.ask("here", {"do": "hello"}, 5)


@pytest.mark.slow
def test_unread_output_is_dropped() -> None:
    """A long-running command uses some MiB of its node, and never blocks."""
    line = b"%063d\n"
    count = 24 << 14  # 24 MiB of lines
    program = f"import sys\nfor n in range({count}): sys.stdout.write('%063d\\n' % n)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as printing:
        assert printing.stdout is not None
        output = groups.CommandOutput(printing.stdout)
        assert printing.wait(30) == 0
        output.finish(5)
        begin, read = output.read(0)

        assert begin == (24 << 20) - (8 << 20)
        assert read.startswith(line % (begin // 64))
        assert len(read) == groups.MOST
        assert output.read(begin) == (begin, read)  # its answer was lost
        assert output.read(begin + len(read))[0] == begin + len(read)
        assert output.read(begin) == output.read(begin + len(read))
        assert output.read(1 << 40) == (24 << 20, b"")


@pytest.mark.slow
@pytest.mark.parametrize("says", [False, True], ids=["silent", "asked"])
def test_an_agent_without_a_connection_ends(monkeypatch: pytest.MonkeyPatch, *, says: bool) -> None:
    """With its child processes: a cut network leaves its input open."""
    monkeypatch.setattr(carriers, "_BEAT_S", 600.0)  # a slow machine sends too late
    unheard_s = scaled(2.5)
    program = f"from vllm_runbooks.cluster import agent\nagent.UNHEARD_S = {unheard_s}\nagent.main(['here'])"
    with carriers.Processes({"here": [sys.executable, "-P", "-c", program]}) as carrier:
        started = carrier.ask("here", {"do": "start", "command": ["sh", "-c", "echo $$; exec sleep 300"]}, 5)
        pids = [carrier.ask("here", {"do": "hello"}, 5)["pid"], int(text(until(carrier, started["group"], "\n")))]
        ends_at = time.monotonic() + 1.6 * unheard_s
        while says and time.monotonic() < ends_at:
            carrier.ask("here", {"do": "clock"}, 5)
            time.sleep(0.1)

        assert all(map(is_alive, pids))
        assert gone(*pids, within_s=unheard_s + 8)


# ---- carriers


@pytest.mark.skipif(find_spec("ray") is None, reason="the extra `cluster` is not installed")
def test_ray_is_joined_without_slow_imports() -> None:
    """JupyterLab's URI grammar takes several times as long to import as Ray."""
    program = (
        "import sys\nfrom vllm_runbooks.cluster import ray_bridge\n"
        "try: ray_bridge.join_cluster('127.0.0.1:1')\nexcept Exception as error: print(error)\n"
        "print([name for name in sys.modules if name.startswith('rfc3987_syntax.')], 'ray' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, encoding="utf-8")

    assert done.stdout.splitlines() == ["no Ray cluster at 127.0.0.1:1: Connection refused", "[] True"]


@pytest.mark.slow
def test_options_assign_pythons_and_ports_to_nodes() -> None:
    """As in command, notebook and panel; an unknown node is reported, and the others continue."""
    told = named.read_pythons(["/opt/vllm/bin/python", "other=/usr/bin/python3", "gone=/x"])
    with carriers.Processes({"head": agent("head"), "other": agent("other")}) as carrier:
        by_node = named.pythons_by_node(carrier, told)

    assert by_node == {"head": "/opt/vllm/bin/python", "other": "/usr/bin/python3"}
    assert [each.name for each in carrier.unread] == ["gone"]
    assert named.read_ports(["ray=6380"]) == {"ray": 6380, "torch": 29501, "vllm": 8000}


def test_invalid_answers_are_ignored() -> None:
    """From a broken node: lists, numbers, a repeated answer."""
    program = """
import json, sys
for line in sys.stdin:
    number = json.loads(line)["id"]
    for told in ([], 3, {"id": []}, {"id": {}}, {"id": 99}, None):
        print(json.dumps(told))
    print("{" * 5000)
    for _ in range(2):
        print(json.dumps({"id": number, "is": number}), flush=True)
"""
    with carriers.Processes({"strange": [sys.executable, "-c", program]}) as carrier:
        assert [carrier.ask("strange", {"do": "clock"}, 5) for _ in range(3)] == [2, 3, 4]


@pytest.mark.slow
def test_an_unreachable_node_is_named_and_the_others_continue() -> None:
    """A missing agent, one that ends with a reason, one that never answers."""
    with carriers.Processes(
        {
            "good": agent("good"),
            "missing": ["/nope/ssh"],
            "failing": ["sh", "-c", "echo 'Permission denied (publickey).' >&2; exit 255"],
            "silent": ["sleep", "60"],
            "nologin": ["sh", "-c", "echo 'not available'; echo 'Could not chdir to home directory /x' >&2; exit 1"],
        },
        hello_s=3,
    ) as carrier:
        assert carrier.nodes() == ("good",)
        said = {each.name: each.reason for each in carrier.unread}
        answers = carrier.ask_all({"good": {"do": "clock"}}, 5)

    # Behind ssh, a process that ignores its input keeps running, and only this ends it.
    assert said.pop("silent").startswith("no answer within 3 s; processes launched there may still be running")
    assert said == {
        "missing": "/nope/ssh cannot be run: No such file or directory",
        "failing": "Permission denied (publickey).",
        "nologin": "its agent ended: not available",
    }
    now = answers["good"]
    assert not isinstance(now, UnansweredError)
    assert abs(now["now_s"] - time.time()) < 10


LISTS = [
    ("", "no hosts"),
    ("a b", "is not a host setting"),
    ("a name=-x", "not a valid name"),
    ("-oProxyCommand=x", "is not a host"),
    ("a;reboot", "is not a host"),
    ("a agent=$(x)", "contains a shell character"),
    ("a agent=python", "not an absolute program path"),
    ("a A=`x`", "contains a shell character"),
    ("a HF_TOKEN=hf_0123456789", "HF_TOKEN would be visible"),
    ("a:70000", "not a port"),
    ("a\na", "twice"),
]


@pytest.mark.parametrize(("listed", "why"), LISTS, ids=[repr(row[0]) for row in LISTS])
def test_an_unreadable_list_is_rejected(listed: str, why: str) -> None:
    """In one line that names the place."""
    with pytest.raises(InputError, match=why) as refused:
        hosts.read_hosts(listed, "hosts.txt")

    assert str(refused.value).startswith("hosts.txt:")


def test_a_list_gives_the_connection_of_each_host() -> None:
    """The ssh command is the table's, with the user's options."""
    found = hosts.read_hosts(
        "# head\nann@10.0.0.1:2222 name=head agent=/o/python VLLM_HOST_IP=10.0.0.1\n[fd00::2]\n", "h"
    )
    first, second = (carriers._ssh(host, "conf") for host in found)

    assert first[-8:] == [
        "ann@10.0.0.1",
        "env",
        "VLLM_HOST_IP=10.0.0.1",
        "/o/python",
        "-P",
        "-m",
        "vllm_runbooks.cluster.agent",
        "head",
    ]
    assert "BatchMode=yes" in first
    assert first[first.index("-p") + 1] == "2222"
    assert "fd00::2" in second
    assert [host.name for host in hosts.parse_hosts("10.0.0.1, 10.0.0.2")] == ["10.0.0.1", "10.0.0.2"]
    assert [host.agent for host in hosts.parse_hosts("10.0.0.1 agent=/o/python,b")] == ["/o/python", "/usr/bin/python3"]
    assert hosts.read_hosts("\ufeff10.0.0.1\n", "h")[0].name == "10.0.0.1"


def test_a_rejected_list_is_named_as_given(tmp_path: Path) -> None:
    """By its path, with the line."""
    (tmp_path / "hosts").write_text("a\n-b\n", "utf-8")
    with pytest.raises(InputError, match="is not a host") as refused:
        hosts.parse_hosts(str(tmp_path / "hosts"))

    assert str(refused.value).startswith(f"{tmp_path / 'hosts'}:2: ")


# ---- measuring


def cluster(*reaches: NodeConnection) -> Cluster:
    """Two nodes with two interfaces each."""
    nodes = tuple(
        NodeFacts(name, interfaces=(Interface("mgmt0", (f"192.168.0.{n}",)), Interface("v0", (f"10.0.0.{n}",))))
        for n, name in enumerate(("a", "b"), 1)
    )
    return Cluster(head="a", nodes=nodes, connections=reaches)


def test_ranks_meet_where_the_head_is_reached() -> None:
    """Not at its first address."""
    ways = [
        NodeConnection("b", "a", "192.168.0.1", 1, "any", Reachability.UNREACHABLE),
        NodeConnection("b", "a", "10.0.0.1", 1, "any", Reachability.OPEN, latency_ms=1.0),
    ]
    assert collective.meeting_address(cluster(*ways)) == "10.0.0.1"


class Stalled(carriers.Processes):
    """Nodes between which no stream of data passes."""

    def ask(self, node: str, request: Mapping[str, Any], timeout_s: float) -> Any:
        """Print the answer."""
        del node, request, timeout_s
        raise UnansweredError("timed out")


def test_a_connection_without_a_bandwidth_has_a_reason() -> None:
    """It stays open, without a bandwidth, and with the reason."""
    way = NodeConnection("a", "b", "10.0.0.2", 1, "any", Reachability.OPEN, latency_ms=0.1)
    (found,) = matrix._with_bandwidth(Stalled({}), ["a", "b"], [way], {"a": "", "b": ""})

    assert found == replace(way, reason="data transfer failed: timed out")


@pytest.mark.slow
def test_two_agents_of_one_host_are_measured() -> None:
    """Both directions and clocks; a common address is another host's; missing torch is noted."""
    with carriers.Processes({"a": agent("a"), "b": agent("b")}) as carrier:
        said: list[str] = []
        found = measuring.measure(carrier, ports={"torch": 29501}, say=said.append)

    assert said[0] == "collecting facts from 2 nodes"
    assert [node.name for node in found.nodes] == ["a", "b"]
    for node in found.nodes:
        assert node.clock_offset_s == pytest.approx(0, abs=0.5)
        assert node.clock_error_s is not None
    assert {(each.source, each.target) for each in found.connections or ()} <= {("a", "b"), ("b", "a")}
    for run_ in found.collectives or ():
        assert {rank.state for rank in run_.ranks} == {"not started"}
        assert "has no torch" in run_.ranks[0].message


def told(*lines: str, is_running: bool = True) -> dict[str, Any]:
    """The result of a rank's node."""
    data = base64.b64encode("".join(lines).encode()).decode()
    return {"data": data, "end": 1, "is_running": is_running, "refused": ""}


def test_each_rank_has_its_result() -> None:
    """Parsed from mixed output; an absent rank gives no information about those waiting for it."""
    done, hung, failed, lost, unable = ranks = [collective._Rank(str(n), n, {"group": "1"}) for n in range(5)]
    for rank in ranks[:4]:
        rank.take(told('NCCL INFO\n{"state": "imp', is_running=True))
        rank.take(told('orted"}\n'))
    done.take(told('{"state": "joined", "seconds": 0.1}\n{"state": "done", "seconds": 0.5, "message": ""}\n'))
    hung.take(told('{"state": "joined", "seconds": 0.1}\n'))
    failed.take(told("terminate called\n"))
    failed.take(told(is_running=False))
    lost.take(UnansweredError("no answer within 10 s"))
    unable.take(told('{"state": "unable", "message": "No module named torch"}'))
    unable.take(told(is_running=False))
    found = [rank.outcome(6.0) for rank in ranks]

    assert [each.state for each in found] == ["done", "hung", "failed", "failed", "not started"]
    assert [each.message.partition(";")[0] for each in found] == [
        "",
        "still waiting when it was stopped, after all ranks had joined",
        "terminate called",
        "no answer within 10 s",
        "No module named torch",
    ]
    assert collective._outcomes(found[:4]) == tuple(found[:4])
    assert [each.state for each in collective._outcomes(found)] == ["done", *["not started"] * 4]
    assert collective._outcomes(found)[1].message == "rank 4 on 4 was not there"


def test_a_rank_that_cannot_import_torch_reports_it(tmp_path: Path) -> None:
    """In a separate line, for any Python."""
    done = subprocess.run(
        [sys.executable, "-S", all_reduce.__file__, '{"backend": "gloo"}'],
        capture_output=True,
        check=False,
        encoding="utf-8",
        cwd=tmp_path,
    )
    assert '"state": "unable"' in done.stdout
    assert "torch" in done.stdout


# ---- the command


REFUSED = [
    (["--ray", "10.0.0.1:6379", "--hosts", "a"], "use either"),
    (["--ray", "-x"], "is not a Ray cluster address"),
    (["--ray", "nonsense"], "HOST:PORT, as in 10.0.0.1:6379, or auto"),
    (["--ray", "10.0.0.1"], "is not a Ray cluster address"),
    (["--ray", "10.0.0.1:port"], "is not a Ray cluster address"),
    (["--ray", "10.0.0.1:70000"], "is not a Ray cluster address"),
    (["--hosts", "a;b"], "is not a host"),
    (["--hosts", "/nope/hosts"], "no such file"),
    (["--expect", "2"], "requires --ray or --hosts"),
    (["--hosts", "a", "--expect", "2"], "requires --ray"),
    (["--ray", "10.0.0.1:6379", "--port", "web=1"], "write USE=N"),
    (["--ray", "10.0.0.1:6379", "--python", "=x"], "write PATH, or NODE=PATH"),
    (["--ray", "10.0.0.1:6379", "x.json"], "either recorded nodes, or --ray or --hosts"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "why"), REFUSED, ids=[" ".join(row[0]) for row in REFUSED])
def test_an_invalid_request_is_rejected(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, one line, no output."""
    status, out, err = run(capsys, "cluster", "check", *words)

    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert why in err
