"""Nodes, logs and plans as shown by the runbook of several nodes."""

from __future__ import annotations

import ast
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import vllm_runbooks as rb
from vllm_runbooks.catalog import folders
from vllm_runbooks.cluster import evidence as nodes_evidence
from vllm_runbooks.core.errors import CatalogError, InputError
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.host.nodes import loading as node_loading
from vllm_runbooks.host.nodes.records import CheckedCluster
from vllm_runbooks.plan.records import Plan, StartFiles
from vllm_runbooks.plan.requests import PlanningRequest
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks import case_files

ROOT = Path(__file__).resolve().parents[2]
NODES, LOG, PAIR = "cluster-3090-h800", "qwen-2x24gb-mp-glued", "cluster-healthy-pair"


@cache
def told(name: str) -> nodes_evidence.NodesEvidence:
    return nodes_evidence.read(name)


@cache
def planned(name: str) -> tuple[PlanningRequest, Any]:
    asked = nodes_evidence.question(told(name))
    assert isinstance(asked, PlanningRequest)
    return asked, rb.plan_evidence.layouts(asked)


def files_of(name: str) -> tuple[nodes_evidence.Files, Plan]:
    asked, found = planned(name)
    one = nodes_evidence.over_all(asked, found)
    assert isinstance(one, Plan)
    return nodes_evidence.files(asked, one), one


# Input


@pytest.mark.parametrize("name", [NODES, LOG])
def test_a_document_is_complete_from_either_input(name: str) -> None:
    """Its nodes bring the log, and the log its nodes: both cases show the same."""
    found = told(name)

    assert isinstance(found.nodes, CheckedCluster)
    assert [node.name for node in found.nodes.nodes] == ["node-1", "node-2"]
    assert found.answer
    assert "dist.one_host" in [each.symptom for each in found.answer.findings]
    judged = nodes_evidence.verdict(found)
    assert (judged.verdict, judged.case) == (Verdict.PASS, name)
    assert "nodes.host_ip_shared" in judged.reason
    views = nodes_evidence.log_views(found)
    assert views["Claims of the recorded document, checked"].plain.count("\nWRONG ") == 3
    (step,) = [text for text in nodes_evidence.log_facts(found) if text is not None]
    assert step.fact == "All ranks run on a single host."
    assert "If you need several nodes" in step.do


def test_a_file_is_identified_by_its_content(tmp_path: Path) -> None:
    """Snapshots, folders and logs are distinguished; a case names no other by itself."""
    snapshot = folders.cases_dir() / PAIR / "cluster.json"
    (tmp_path / "nodes").mkdir()
    shutil.copy(snapshot, tmp_path / "nodes" / "both.json")
    log = tmp_path / "node1.log"
    shutil.copy(folders.cases_dir() / LOG / "startup.log", log)

    for name in (str(snapshot), str(tmp_path / "nodes")):
        found = nodes_evidence.read(name)
        assert isinstance(found.nodes, CheckedCluster)
        assert found.answer is None
        assert (nodes_evidence.log_facts(found), nodes_evidence.log_views(found)) == ([], {})
    wrapped = tmp_path / "container.log"
    lines = [{"log": f"{line}\n", "stream": "stdout"} for line in log.read_text("utf-8").splitlines()]
    wrapped.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    assert isinstance(nodes_evidence.read(str(wrapped)).nodes, str)
    alone = nodes_evidence.read(str(log))
    assert isinstance(alone.nodes, str)
    assert alone.answer
    both = nodes_evidence.read(str(snapshot), logs=f"{log}, {log}")
    assert both.answer
    assert len(both.answer.files) == 2


def test_input_without_nodes_is_described_in_every_view(tmp_path: Path) -> None:
    """A log alone has neither findings about nodes nor a plan, but a reason."""
    log = tmp_path / "node1.log"
    shutil.copy(folders.cases_dir() / LOG / "startup.log", log)
    found = nodes_evidence.read(str(log))
    asked = nodes_evidence.question(found)
    one = nodes_evidence.over_all(asked, rb.plan_evidence.layouts(asked))
    made = nodes_evidence.files(asked, one)
    views = [getattr(rb.render.clusters, name)(found.nodes) for name in ("nodes", "reach", "findings", "environments")]
    views += [rb.render.plan_sections.asked(asked), rb.render.start_files.steps(made.overview)]
    views += [nodes_evidence.write(asked, one, str(tmp_path / "x"), apply=True)]

    assert [view.plain for view in views if "a log without nodes" not in " ".join(view.plain.split())] == []
    assert [view for view in views if not view.is_nothing] == []
    assert rb.render.start_files.executor(made.overview) is None
    assert rb.render.clusters.comparison(found.nodes) is rb.render.clusters.ways(found.nodes) is None
    assert nodes_evidence.confirmations(asked, one) == {}
    assert (made.made, made.of_ray) == ({}, {})
    assert not (tmp_path / "x").exists()


def test_a_broken_snapshot_is_not_a_log(tmp_path: Path) -> None:
    """It is rejected as a snapshot, in one line."""
    (tmp_path / "nodes.json").write_text('{"kind": "cluster", "nodes": [', encoding="utf-8")

    with pytest.raises(InputError, match=r"nodes\.json"):
        nodes_evidence.read(str(tmp_path / "nodes.json"))


def test_logs_of_two_nodes_are_diagnosed_together() -> None:
    """Both outcomes, the common first cause and the fix; for one alone, the missing log."""
    found = nodes_evidence.read("two-nodes-no-host-ip")
    one = nodes_evidence.read(str(folders.cases_dir() / "two-nodes-no-host-ip" / "node0.log"))

    views = nodes_evidence.log_views(found)
    assert [name for name in ("node0.log", "node1.log") if name not in views["All logs"].plain] == []
    assert "announces an unreachable address" in str(nodes_evidence.log_facts(found)[0])
    assert "Set VLLM_HOST_IP on every node" in views["All fixes"].plain
    assert "The log of node 1 is missing" in " ".join(nodes_evidence.log_views(one)["All fixes"].plain.split())


def test_the_summary_begins_with_the_problem() -> None:
    """A failed launch before the nodes; a launch on one host is not a success on several."""
    failed, both = nodes_evidence.read("two-nodes-no-host-ip"), told(NODES)

    assert nodes_evidence.summary(failed).plain.startswith("UNKNOWN  node0.log, node1.log")
    lines = nodes_evidence.summary(both).plain.splitlines()
    assert lines[0].startswith("3 PROBLEMS   2 nodes: node-1 and node-2")
    ready = next(number for number, line in enumerate(lines) if line.startswith("READY"))
    assert "! All ranks run on a single host" in "\n".join(lines[ready:])
    assert "No problems found" not in "\n".join(lines[ready:])
    assert nodes_evidence.summary(nodes_evidence.read(PAIR)).plain.startswith("OK ")


@pytest.mark.parametrize(
    ("given", "said"),
    [({"evidence": 3}, "evidence"), ({"evidence": NODES, "logs": 3}, "logs"), ({"evidence": "no-such"}, "no-such")],
)
def test_unreadable_input_is_one_line(given: dict[str, Any], said: str) -> None:
    """Numbers of a scheduler, and names that lead nowhere."""
    with pytest.raises(InputError, match=said) as refused:
        nodes_evidence.read(**given)

    assert "\n" not in str(refused.value)


# Plans


def test_the_question_is_the_logs_on_the_gpus_of_the_nodes() -> None:
    """Model, release and explicit settings, without defaults and layout."""
    asked, _ = planned(NODES)

    assert asked.model.name == "Qwen/Qwen2.5-1.5B-Instruct"
    assert asked.release.version == "0.7.2"
    assert dict(asked.options) == {"gpu_memory_utilization": 0.5, "max_model_len": 128}
    assert [(card.gpu.name, card.node) for card in asked.cards] == [("RTX3090", "node-1"), ("H800", "node-2")]


def test_another_model_drops_the_options_of_the_log() -> None:
    """A context or utilization for one model does not apply to another."""
    asked = nodes_evidence.question(
        told(NODES), model="Qwen/Qwen3-8B", vllm="0.32.0", options='{"max_model_len": 4096}'
    )

    assert isinstance(asked, PlanningRequest)
    assert dict(asked.options) == {"max_model_len": 4096}


def test_without_a_log_the_model_is_the_one_on_the_nodes() -> None:
    """By the name of its folder, if it is in the catalog."""
    asked, _ = planned(PAIR)

    assert asked.model.name == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"options": "[1]"}, "is not a JSON object"),
        ({"options": '{"no_such_option": 1}'}, "no-such-option"),
        ({"model": "nobody/nothing"}, "nobody/nothing"),
        ({"vllm": "soon"}, "soon"),
    ],
)
def test_invalid_input_is_rejected(given: dict[str, str], said: str) -> None:
    """Errors of the reader are rejected; gaps of a record replace the plan."""
    with pytest.raises(InputError, match=said):
        nodes_evidence.question(told(NODES), **given)


def test_the_server_has_a_stage_per_node_by_default() -> None:
    """Layers are divided by GPU memory; another layout is planned or rejected with a reason."""
    asked, found = planned(NODES)
    one, wide = nodes_evidence.over_all(asked, found), nodes_evidence.over_all(asked, found, tp=2, pp=1)

    assert isinstance(one, Plan)
    assert one.layout
    assert (one.layout.replicas, one.layout.tp, one.layout.pp) == (1, 1, 2)
    assert one.deployment
    assert "VLLM_PP_LAYER_PARTITION=6,22" in one.deployment.command
    assert isinstance(wide, Plan)
    assert wide.layout
    assert wide.layout.tp == 2
    assert nodes_evidence.over_all(asked, found, tp=3, pp=5) == "TP 3 PP 5 is not a ranked layout of 2 GPUs"


def test_ray_joins_hosts_only_where_the_release_does_not() -> None:
    """An old release gets Ray's scripts, one for each node; a newer one --nnodes, and none."""
    (old, _), (new, _) = files_of(NODES), files_of(PAIR)

    assert isinstance(old.overview, StartFiles)
    assert list(old.of_ray) == ["ray-node-1.sh", "ray-node-2.sh"]
    ray, nnodes = (rb.render.start_files.executor(files.overview) for files in (old, new))
    assert ray
    assert ray.fact == "Ray joins the nodes; the executor is `ray`."
    assert isinstance(new.overview, StartFiles)
    assert new.of_ray == {}
    assert nnodes
    assert nnodes.fact == "`--nnodes` joins the nodes, without Ray; the executor is `mp`."
    assert "Ray is not needed" in nnodes.so
    assert "VLLM_HOST_IP=10.77.0.2 " in new.made["start-node-b.sh"]


def test_an_impossible_plan_over_the_nodes_has_a_reason() -> None:
    """An unknown model or invalid sizes are a fact; without nodes there is no step."""
    asked, found = planned(PAIR)
    cluster, log = told(PAIR), nodes_evidence.read("two-nodes-no-host-ip")
    wrong = nodes_evidence.over_all(asked, found, tp=3, pp=5)
    made, one = files_of(PAIR)

    unknown = nodes_evidence.layout_facts(cluster, "set `model`", "set `model`")
    assert unknown is not None
    assert unknown.fact == "Not planned: set `model`."
    best = nodes_evidence.layout_facts(cluster, asked, found)
    assert best is not None
    assert "ranks first of" in best.fact
    (refused,) = nodes_evidence.launch_facts(asked, wrong, nodes_evidence.files(asked, wrong))
    assert refused is not None
    assert refused.fact.startswith("TP 3 PP 5 is not a ranked layout")
    fits, executor = nodes_evidence.launch_facts(asked, one, made)
    assert fits is not None
    assert fits.fact.startswith("Calculated: fits: ")
    assert executor == rb.render.start_files.executor(made.overview)
    request = nodes_evidence.question(log)
    assert nodes_evidence.layout_facts(log, request, "x") is None
    assert nodes_evidence.launch_facts(request, "x", nodes_evidence.files(request, "x")) == []


def test_every_node_has_expected_log_lines() -> None:
    """If each host has its own log, each has its own lines."""
    asked, _ = planned(PAIR)
    _, one = files_of(PAIR)
    shown = rb.render.plan_sections.confirmations(nodes_evidence.confirmations(asked, one)).plain

    assert [name for name in ("on node-a", "on node-b", "rank 1 in world size 2") if name not in shown] == []


def test_files_are_written_only_on_request(tmp_path: Path) -> None:
    """Nothing without apply, everything with it, and nothing twice."""
    asked, _ = planned(PAIR)
    made, one = files_of(PAIR)
    folder = tmp_path / "start"

    assert "apply is False" in nodes_evidence.write(asked, one, str(folder), apply=False).plain
    assert not folder.exists()
    assert "start-node-a.sh" in nodes_evidence.write(asked, one, str(folder), apply=True).plain
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == set(made.made)
    with pytest.raises(InputError, match="already exists"):
        nodes_evidence.write(asked, one, str(folder), apply=True)
    with pytest.raises(InputError, match="folder is empty"):
        nodes_evidence.write(asked, one, " ", apply=True)


# The verdict


def test_a_launch_on_one_host_fails_if_several_were_intended(tmp_path: Path) -> None:
    """Its log says nothing about the second node, so it passes only if the case expects it."""
    log = tmp_path / "startup.log"
    shutil.copy(folders.cases_dir() / LOG / "startup.log", log)
    own = nodes_evidence.verdict(nodes_evidence.read(str(log)))

    assert own.verdict is Verdict.FAIL
    assert "dist.one_host" in own.reason
    assert nodes_evidence.verdict(told(LOG)).verdict is Verdict.PASS


def test_your_own_nodes_are_checked_for_problems(tmp_path: Path) -> None:
    """A healthy pair passes, one with an unmeasured network does not."""
    data = json.loads((folders.cases_dir() / PAIR / "cluster.json").read_text("utf-8"))
    whole, less = tmp_path / "whole.json", tmp_path / "less.json"
    whole.write_text(json.dumps(data), "utf-8")
    less.write_text(json.dumps({**data, "connections": None}), "utf-8")

    assert nodes_evidence.verdict(nodes_evidence.read(str(whole))).verdict is Verdict.PASS
    unknown = nodes_evidence.verdict(nodes_evidence.read(str(less)))
    assert unknown.verdict is Verdict.FAIL
    assert "not measured" in unknown.reason


def test_a_case_names_an_existing_companion(tmp_path: Path) -> None:
    """The companion is next to it."""
    for name in (NODES, LOG):
        shutil.copytree(folders.cases_dir() / name, tmp_path / name)
    path = tmp_path / NODES / "case.yaml"
    assert case_files.read_case(path).told_with == LOG
    path.write_text(path.read_text("utf-8").replace(f"told_with: {LOG}", "told_with: ../elsewhere"), "utf-8")

    with pytest.raises(CatalogError, match=r"told_with: '\.\./elsewhere' is not a case in the same folder"):
        case_files.read_case(path)


# Hosts are contacted only on request


def test_no_host_is_contacted_without_live() -> None:
    """All parts of the runbook that contact hosts need `live`."""
    cells = json.loads((ROOT / "runbooks" / "multi-node-ray.ipynb").read_text("utf-8"))["cells"]
    code = [ast.parse("".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"]
    asking = [ast.unparse(node) for tree in code for node in ast.walk(tree) if ast.unparse(node) == "rb.live"]
    guarded = [
        ast.unparse(node.body)
        for tree in code
        for node in ast.walk(tree)
        if isinstance(node, ast.IfExp) and ast.unparse(node.test) == "live" and "rb.live" in ast.unparse(node.body)
    ]

    assert len(asking) == len(guarded) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "use either --ray"),
        ({"ray": "10.0.0.1:6379", "hosts": "a,b"}, "use either"),
        ({"ray": "10.0.0.1:6379", "expect": -1}, "--expect -1"),
        ({"hosts": "a,b", "python": "=x"}, "write PATH, or NODE=PATH"),
        ({"hosts": "a,b", "ports": "web=1"}, "write USE=N, with ray, torch, vllm"),
        ({"hosts": "a,b", "ports": 8000}, "ports: 8000 is not a string"),
        ({"ray": "not an address"}, "not an address"),
        ({"hosts": "a b,c"}, "'b' is not a host setting"),
    ],
)
def test_a_request_without_nodes_is_one_line(given: dict[str, Any], said: str) -> None:
    """Before any host is contacted."""
    with pytest.raises(InputError, match=said) as refused:
        rb.live.nodes(**given)

    assert "\n" not in str(refused.value)


def test_unreachable_hosts_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a real check: hosts without a listener are reported, and the verdict is a fail."""
    monkeypatch.setenv("SSH_AUTH_SOCK", "")
    said: list[str] = []
    found = rb.live.nodes(hosts="127.0.0.1:9,127.0.0.2:9", say=said.append)

    assert {each.name for each in found.unread} == {"127.0.0.1", "127.0.0.2"}
    assert [each.id for each in found.findings] == ["nodes.unread"] * 2
    read = nodes_evidence.read(NODES, asked=found)
    assert read.answer is None
    assert nodes_evidence.verdict(read).verdict is Verdict.FAIL
    assert node_loading.nodes_verdict(found, sources.load(PAIR)).verdict is Verdict.FAIL
