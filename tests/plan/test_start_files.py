"""A plan over several nodes becomes files for each, with Ray only if it is needed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from vllm_runbooks import cli
from vllm_runbooks.catalog import host_commands, options
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.views import styled
from vllm_runbooks.host.nodes import loading as node_loading
from vllm_runbooks.host.nodes.records import Cluster, NodeConnection, NodeEnvironment, NodeFacts, Reachability
from vllm_runbooks.host.records import Inventory
from vllm_runbooks.lint import checking
from vllm_runbooks.lint.render import wrong
from vllm_runbooks.plan import containers, executors, fleet, planner, start_files
from vllm_runbooks.plan.fleet import Host, ParallelSizes
from vllm_runbooks.plan.network import NodeLink, traffic
from vllm_runbooks.plan.records import StartFiles
from vllm_runbooks.plan.render import start_files as shown
from vllm_runbooks.plan.weights import Ranks
from vllm_runbooks.reading import documents

MODEL = "Qwen/Qwen3-8B"
CARDS = "A100-80GB-SXM@node1,A100-80GB-SXM@node2"
ENVIRONMENTS = tuple(
    NodeEnvironment(
        f"node{number}",
        {
            "VLLM_HOST_IP": f"10.0.0.{number}",
            "NCCL_SOCKET_IFNAME": interface,
            "GLOO_SOCKET_IFNAME": interface,
        },
        "measured",
    )
    for number, interface in ((1, "eth0"), (2, "ens5"))
)
jsonschema = pytest.importorskip("jsonschema")
SHELLCHECK = Path(sys.executable).with_name("shellcheck")


def cluster(*reaches: NodeConnection, releases: tuple[str | None, ...] = (None, None)) -> Cluster:
    nodes = tuple(
        NodeFacts(f"node{at}", inventory=Inventory(packages={"vllm": version} if version else None))
        for at, version in enumerate(releases, 1)
    )
    return Cluster(nodes=nodes, connections=reaches or None)


def written(gpus: str | None = CARDS, vllm: str = "0.32.0", image: str | None = None, **more: Any) -> tuple[Any, ...]:
    """The request and the files written for it."""
    more = {"tp": 2} | more
    known = more.pop("environments", ENVIRONMENTS)
    asked = planner.on_nodes(MODEL, cluster(), known, gpus=gpus, vllm=vllm, is_calibrated=False, **more)
    made, told = start_files.files(asked, planner.plan(asked), image=image)
    return asked, made, told


def issues(text: str, name: str, version: str) -> list[tuple[str, str]]:
    return [
        (issue.rule, issue.message)
        for issue in wrong(checking.lint_text(text, name=name, vllm=version, gpus=CARDS).issues)
    ]


# Which executor


@pytest.mark.parametrize(
    ("version", "world", "here", "nodes", "name", "said"),
    [
        ("0.19.0", 1, 1, 1, "uni", "single rank"),
        ("0.7.2", 2, 2, 1, "mp", "this host has all 2 GPUs"),
        ("0.11.0", 2, 1, 1, "ray", "fails if Ray is not installed"),
        ("0.11.2", 2, 1, 1, None, "rejected without --nnodes"),
        ("0.33.0", 2, 1, 2, "mp", "--nnodes 2"),
        ("0.7.2", 2, 1, 1, "ray", "the next known release"),
    ],
)
def test_a_release_chooses_its_executor_by_the_visible_gpus(  # noqa: PLR0917 - a row of the table
    version: str, world: int, here: int, nodes: int, name: str | None, said: str
) -> None:
    """As in its config/parallel.py: before 0.11.2 Ray if GPUs are too few, later an error."""
    found = executors.chosen(options.load(version), world, here, nodes=nodes)

    assert found.name == name
    assert said in found.said
    assert bool(found.source) is (version != "0.7.2")


@pytest.mark.parametrize(
    ("version", "cards", "copies", "by", "said"),
    [
        ("0.32.0", [4], 1, "", "Ray is not needed"),
        ("0.32.0", [4, 4], 1, "nnodes", "Ray is not needed"),
        ("0.10.2", [4, 4], 1, "ray", "has no --nnodes"),
        ("0.32.0", [1, 3], 1, "ray", "the hosts have 1, 3 GPUs"),
        ("0.32.0", [4, 4], 2, "ray", "data parallelism"),
    ],
)
def test_ray_is_unnecessary_if_a_release_joins_hosts_itself(
    version: str, cards: list[int], copies: int, by: str, said: str
) -> None:
    """It is needed without --nnodes, and for unequal numbers of GPUs."""
    found = executors.joining(options.load(version), cards, copies=copies)

    assert found.by == by
    assert said in found.said


# Written files


def test_each_node_has_its_own_environment_and_the_heads_address() -> None:
    """No name must resolve: nodes meet at the head's address, and each announces its own."""
    _, made, told = written(master_port=29701)
    first, second = made["start-node1.sh"], made["start-node2.sh"]

    assert "VLLM_HOST_IP=10.0.0.1 \\\nNCCL_SOCKET_IFNAME=eth0 \\\nGLOO_SOCKET_IFNAME=eth0 \\\n" in first
    assert "VLLM_HOST_IP=10.0.0.2 \\\nNCCL_SOCKET_IFNAME=ens5 \\\nGLOO_SOCKET_IFNAME=ens5 \\\n" in second
    assert "--host 10.0.0.1 \\\n" in first
    for text in (first, second):
        assert "--master-addr 10.0.0.1 \\\n  --master-port 29701 \\\n" in text
        assert "must resolve" not in text
    assert (told.joined_by, told.executor, told.layout) == ("nnodes", "mp", None)
    assert told.single_node_result.startswith("2 ranks, but 1 GPU on this host: rejected")
    assert [node.environment for node in told.nodes] == [dict(one.variables) for one in ENVIRONMENTS]
    assert set(told.files) == set(made) == {name for node in told.nodes for name in node.files} | {"steps.txt"}


@pytest.mark.parametrize(
    ("version", "by", "image"),
    [
        ("0.32.0", None, None),
        ("0.16.0", "ray", None),
        ("0.10.2", None, None),
        ("0.32.0", "ray", "example/vllm-ray:1"),
        ("0.19.0", "nnodes", "example/vllm:1"),
    ],
)
def test_every_file_passes_the_linter_and_shellcheck(
    version: str, by: str | None, image: str | None, tmp_path: Path
) -> None:
    """Bare, in containers and as units, by --nnodes and by Ray; every other command is of the table."""
    _, made, _ = written(vllm=version, by=by, image=image)
    for name, text in made.items():
        if name.endswith((".sh", ".yaml", ".service")):
            assert issues(text, name.replace("/", "-"), version) == [], name
        if name.endswith(".sh"):
            path = tmp_path / name
            path.write_text(text)
            done = subprocess.run([SHELLCHECK, path], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stdout) == (0, ""), name
        started = [line for line in text.splitlines() if line.startswith("ray start")]
        assert all(host_commands.row_of(line) is not None for line in started)


def test_containers_share_the_hosts_network_and_list_their_gpus() -> None:
    """As the scripts of vLLM run them, but with a pinned image, a fixed name, and secrets by name alone."""
    _, made, _ = written()
    text = made["docker-node2.sh"]
    (start,) = documents.read(text, "a.sh").starts

    assert "docker run --rm \\\n  --gpus '\"device=0\"' \\\n  --ipc=host \\\n  --network=host \\\n" in text
    assert "  --name=vllm-8000 \\\n" in text
    assert "  -p " not in text
    assert "vllm/vllm-openai:v0.32.0" in text
    assert "CUDA_VISIBLE_DEVICES" not in text
    assert [word.value for word in start.words][-2:] == ["1", "--headless"]
    assert "  -e VLLM_API_KEY \\\n" in made["docker-node1.sh"]


def test_settings_of_one_host_are_not_copied_by_rays_driver() -> None:
    """The driver copies NCCL_ variables to workers, so `ray start` sets the interfaces."""
    _, made, told = written(vllm="0.16.0", by="ray")
    serving = made["start-node1.sh"]

    assert "VLLM_HOST_IP=10.0.0.1 \\\n" in serving
    assert "RAY_ADDRESS=10.0.0.1:6379 \\\n" in serving
    assert "SOCKET_IFNAME" not in serving
    assert "NCCL_SOCKET_IFNAME=eth0 \\\n" in made["ray-node1.sh"]
    assert "NCCL_SOCKET_IFNAME=ens5 \\\n" in made["ray-node2.sh"]
    assert "ray start --head --node-ip-address=10.0.0.1 --port=6379 --num-gpus=1\n" in made["ray-node1.sh"]
    assert "ray start --address=10.0.0.1:6379 --node-ip-address=10.0.0.2 --num-gpus=1\n" in made["ray-node2.sh"]
    assert "Environment=NCCL_SOCKET_IFNAME=ens5\n" in made["systemd-node2/vllm-ray.service"]
    assert "Requires=vllm-ray.service\n" in made["systemd-node1/vllm-8000.service"]
    assert told.reason.startswith("--by ray is not needed")
    assert told.executor == "ray"
    alike = [replace(one, variables={**one.variables, "NCCL_SOCKET_IFNAME": "eth0"}) for one in ENVIRONMENTS]
    assert "NCCL_SOCKET_IFNAME=eth0 \\\n" in written(vllm="0.16.0", by="ray", environments=alike)[1]["start-node1.sh"]


def test_ray_and_its_server_are_in_one_container() -> None:
    """The head's container starts Ray and the server, the others only Ray."""
    _, made, _ = written(vllm="0.16.0", by="ray")
    first, second = (YAML(typ="safe").load(made[f"ray-compose-node{at}.yaml"])["services"]["vllm-ray"] for at in (1, 2))

    (inside,) = first["command"]
    assert first["entrypoint"] == ["/bin/bash", "-c"]
    assert inside.startswith("VLLM_HOST_IP=10.0.0.1 NCCL_SOCKET_IFNAME=eth0 GLOO_SOCKET_IFNAME=eth0 ray start --head ")
    assert " && exec vllm serve Qwen/Qwen3-8B --host 10.0.0.1 " in inside
    assert "NCCL_SOCKET_IFNAME" not in first["environment"]
    assert "RAY_ADDRESS" not in first["environment"]
    assert first["healthcheck"]["test"][0] == "CMD"
    assert second["command"][0].endswith("--node-ip-address=10.0.0.2 --num-gpus=1 --block")
    assert "healthcheck" not in second
    for at in (1, 2):
        text = made[f"ray-docker-node{at}.sh"]
        assert "--entrypoint /bin/bash" in text
        assert "--network=host" in text
    (start,) = documents.read(made["ray-docker-node1.sh"], "a.sh").starts
    assert start.words[0].value == MODEL


def test_two_servers_on_the_same_ray_share_its_container() -> None:
    """Both end when one does; the second one's container starts no cluster."""
    hosts = (Host(("0", "1"), "a", "10.0.0.1"), Host(("0", "1"), "b", "10.0.0.2"))
    three = ParallelSizes(tp=1, pp=3)
    wide = (Host(("0", "1"), "a"), Host(("0", "1"), "b"), Host(("0", "1"), "c"))
    parts = fleet.instances(MODEL, options.load("0.16.0"), wide, replicas=2, split=three)
    text = containers.ray_docker(parts, "b")

    assert [part.node for part in parts] == ["a", "b"]
    assert "ray start --address=a:6379 --num-gpus=2 && exec vllm serve" in text
    pair = fleet.instances(MODEL, options.load("0.10.2"), hosts, replicas=1, split=ParallelSizes(pp=4))
    both = (*pair, replace(pair[0], instance=1, port=8001))
    assert re.search(r"&& \{ vllm serve .* & vllm serve .* & wait -n; \}'", containers.ray_docker(both, "a"))


def test_no_container_is_written_for_ray_if_the_image_lacks_it() -> None:
    """The package does not require Ray since 0.18.1; images that contain it still work."""
    _, made, told = written(by="ray")

    assert not any(name.startswith(("ray-docker", "ray-compose", "docker", "compose")) for name in made)
    assert "the published image of vLLM 0.32.0 has no Ray" in told.notes[0]
    _, made, told = written(by="ray", image="example/vllm-ray:1")
    assert "example/vllm-ray:1" in made["ray-docker-node1.sh"]
    assert not any("image" in note for note in told.notes)
    assert executors.brings_ray(options.load("0.17.1"))
    assert not executors.brings_ray(options.load("0.18.1"))


def test_a_container_next_to_a_hosts_ray_is_rejected() -> None:
    """It would start another Ray."""
    _, made, _ = written()
    parts = fleet.instances(
        MODEL, options.load("0.10.2"), [Host(("0",), "a"), Host(("0",), "b")], split=ParallelSizes(tp=2)
    )

    assert made
    with pytest.raises(InputError, match="In containers, Ray must run in the server's container"):
        containers.docker(parts)


def test_one_server_per_node_is_behind_the_proxy() -> None:
    """Each at its own address; nothing joins them."""
    asked = planner.on_nodes(MODEL, cluster(), ENVIRONMENTS, gpus=CARDS, vllm="0.32.0", is_calibrated=False)
    two = next(one for one in planner.layouts(asked).layouts if one.layout and one.layout.replicas == 2)
    made, told = start_files.files(asked, two)

    assert "server 10.0.0.1:8000" in made["nginx.conf"]
    assert "server 10.0.0.2:8001" in made["nginx.conf"]
    assert (told.joined_by, told.executor) == ("", "uni")
    assert any("nginx.conf" in step for step in told.steps)
    assert told.single_node_result == ""


def test_requested_stages_have_layers_by_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Even stages do not fit; `plan` says so, and `cluster files` writes uneven ones."""
    words = ["Qwen/Qwen3-32B", "--pp", "2", "--max-model-len", "8192", "--format", "json"]
    cards = "RTX3090@node-1,H800@node-2"
    assert cli.run(["plan", *words, "--gpus", cards, "--vllm", "0.16.0"]) == 1
    even = json.loads(capsys.readouterr().out)
    out = tmp_path / "start"
    cli.run(
        [
            "cluster",
            "files",
            *words,
            "--nodes",
            "cluster-3090-h800",
            "--vllm",
            "0.16.0",
            "--by",
            "ray",
            "--out",
            str(out),
        ]
    )
    told = json.loads(capsys.readouterr().out)
    said = re.search(r"VLLM_PP_LAYER_PARTITION=(\d+),(\d+) sets the layers", " ".join(told["notes"]))

    assert even["fits"] is False
    assert any("gives the larger GPUs more layers" in limit for limit in even["limits"])
    assert told["fits"] is not False
    assert said is not None
    assert int(said[1]) + int(said[2]) == 64
    assert int(said[1]) < int(said[2])
    assert f"VLLM_PP_LAYER_PARTITION={said[1]},{said[2]} " in (out / "start-node-1.sh").read_text("utf-8")
    given = ["--env", "VLLM_PP_LAYER_PARTITION=10,54", "--out", str(tmp_path / "given")]
    cli.run(["cluster", "files", *words, "--nodes", "cluster-3090-h800", "--vllm", "0.16.0", "--by", "ray", *given])
    assert "PARTITION=10,54 sets the" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("cluster-port-dropped", "Fatal: node-b does not reach node-a at 10.77.0.1, port 29500"),
        ("cluster-model-missing", "Fatal: /models/Qwen3-8B does not exist on node-b"),
        ("cluster-host-ip-missing", None),
        ("cluster-loopback-name", None),
    ],
)
def test_problems_of_the_nodes_are_reported_next_to_their_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, said: str | None
) -> None:
    """The exit status is 1; settings that the files make are not problems."""
    status = cli.run(["cluster", "files", MODEL, "--nodes", case, "--tp", "2", "--out", str(tmp_path / "start")])

    assert status == int(said is not None)
    assert capsys.readouterr().out.startswith(("WRITTEN ", "1 PROBLEM ")[said is not None])
    assert (said or "Run start") in (tmp_path / "start" / "steps.txt").read_text("utf-8")


def test_a_slow_network_is_reported_for_a_tensor_parallel_group() -> None:
    """Not for stages, and not for a plan on one node."""
    slow = tuple(
        replace(one, bandwidth_mbit_s=900.0) if one.bandwidth_mbit_s else one
        for one in node_loading.read_nodes(["cluster-healthy-pair"]).connections or ()
    )
    nodes = replace(node_loading.read_nodes(["cluster-healthy-pair"]), connections=slow)

    def met(**sizes: Any) -> list[str]:
        asked = planner.on_nodes(MODEL, nodes, (), is_calibrated=False, **sizes)
        return [each.id for each in planner.standing(asked, planner.plan(asked), nodes, ENVIRONMENTS)]

    assert "nodes.network_slow" in met(tp=2)
    assert "nodes.network_slow" not in met(pp=2)


@pytest.mark.parametrize("said", ["--address=node-a=bad", "--interface=node-a=eth0/x"])
def test_an_invalid_address_or_interface_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: str
) -> None:
    """Before any file is written."""
    words = ["cluster", "files", MODEL, "--nodes", "cluster-healthy-pair", "--tp", "2", said]

    assert cli.run([*words, "--out", str(tmp_path / "start")]) == 2
    assert said.rpartition("=")[2] in capsys.readouterr().err
    assert not (tmp_path / "start").exists()


def test_uneven_stages_of_the_example_nodes_are_written() -> None:
    """The H800 has more layers than the RTX 3090, on both nodes; TP over both does not fit."""
    environments = ENVIRONMENTS
    asked = planner.on_nodes(
        "Qwen/Qwen3-32B", cluster(), environments, gpus="RTX3090@node1,H800@node2", vllm="0.32.0", is_calibrated=False
    )
    found = planner.layouts(asked)
    made, told = start_files.files(asked, planner.chosen(found))
    tensor = next(one for one in found.layouts if one.layout and one.layout.tp == 2)

    assert told.layout is not None
    assert (told.layout.pp, told.fits) == (2, True)
    parts = [re.search(r"VLLM_PP_LAYER_PARTITION=(\d+),(\d+)", made[f"start-node{at}.sh"]) for at in (1, 2)]
    assert parts[0] is not None
    assert parts[1] is not None
    assert parts[0].groups() == parts[1].groups()
    assert int(parts[0][1]) * 2 < int(parts[0][2])
    assert tensor.fits is False
    assert any("limited by the smallest GPU" in reason for reason in tensor.reasons)


def test_the_larger_gpu_alone_is_a_layout() -> None:
    """A model that fits the H800 is planned without the 3090, which is reported as idle."""
    asked = planner.on_nodes(
        "Qwen/Qwen3-32B",
        cluster(),
        ENVIRONMENTS,
        gpus="RTX3090@node1,H800@node2",
        vllm="0.32.0",
        is_calibrated=False,
        arguments=["--max-model-len", "8192"],
    )
    alone = [one for one in planner.layouts(asked).layouts if one.layout and one.layout.replicas == one.layout.pp == 1]
    (best,) = [one for one in alone if one.fits]

    assert [card.gpu for card in best.per_gpu] == ["H800"]
    assert any("only on H800" in reason for reason in best.reasons)
    assert not any("does not suffice" in one for way in planner.layouts(asked).layouts for one in way.reasons)
    assert "1 of 2 GPUs stay idle" in best.reasons
    assert best.deployment is not None
    assert "VLLM_HOST_IP=10.0.0.2" in best.deployment.command


def test_the_head_is_the_servers_node() -> None:
    """Not necessarily the first one; the others keep their order."""
    recorded = node_loading.read_nodes(["cluster-healthy-pair"])
    asked = planner.on_nodes(MODEL, replace(recorded, head="node-b"), (), tp=2, is_calibrated=False)
    made, told = start_files.files(asked, planner.plan(asked))

    assert [node.node for node in told.nodes] == ["node-b", "node-a"]
    assert "--master-addr node-b" in made["start-node-a.sh"]
    assert "--node-rank 1" in made["start-node-a.sh"]


# The network


def test_the_network_limits_the_speed_over_it() -> None:
    """1 Gbit/s and 0.2 ms: two sums a layer of Qwen3-8B's 4,096 values, against one handing on between stages."""
    shape = planner.model(MODEL).shape
    link = {frozenset(("a", "b")): NodeLink(1000.0, 0.2)}
    tensor = traffic(shape, Ranks(tensor=2), ["a", "b"], link, 2)
    stages = traffic(shape, Ranks(pipeline=2), ["a", "b"], link, 2)
    one = 0.0001 + 4096 * 2 * 8 / 1e9

    assert tensor is not None
    assert stages is not None
    assert tensor.token_s == pytest.approx(36 * 2 * one)
    assert tensor.prompt_tokens_per_s == pytest.approx(1e9 / 8 / (36 * 2 * 4096 * 2))
    assert stages.token_s == pytest.approx(one + 0.0001)
    assert stages.prompt_tokens_per_s == pytest.approx(1e9 / 8 / (4096 * 2))
    assert "a and b: 1,000 Mbit/s, 0.2 ms round trip" in stages.remark


@pytest.mark.parametrize(
    ("nodes", "link"), [(["a", "a"], {}), (["a", "b"], {}), (["a", "b"], {frozenset(("a", "c")): NodeLink(1.0, 1.0)})]
)
def test_an_unmeasured_network_limits_nothing(nodes: list[str], link: Any) -> None:
    """Neither does traffic within a host."""
    assert traffic(planner.model(MODEL).shape, Ranks(tensor=2), nodes, link, 2) is None


def test_a_partial_measurement_is_reported_as_such() -> None:
    """Without a bandwidth there is no prompt rate, and only latency counts."""
    found = traffic(
        planner.model(MODEL).shape, Ranks(pipeline=2), ["a", "b"], {frozenset(("a", "b")): NodeLink(None, 0.2)}, 2
    )

    assert found is not None
    assert found.prompt_tokens_per_s is None
    assert found.token_s == pytest.approx(0.0002)
    assert "prompts" not in found.remark


def _reach(source: str, target: str, address: str, **more: Any) -> NodeConnection:
    return NodeConnection(source, target, address, 29501, "torch", more.pop("state", Reachability.OPEN), **more)


def test_the_slower_direction_at_the_used_address_counts() -> None:
    """Figures of other interfaces and unreached addresses do not."""
    nodes = cluster(
        _reach("node1", "node2", "10.0.0.2", latency_ms=0.2, bandwidth_mbit_s=900.0),
        _reach("node2", "node1", "10.0.0.1", latency_ms=0.4, bandwidth_mbit_s=950.0),
        _reach("node1", "node2", "192.168.0.2", latency_ms=9.0, bandwidth_mbit_s=9.0),
        _reach("node2", "node1", "10.0.0.1", state=Reachability.DROPPED, latency_ms=8.0),
    )
    places = start_files.places(ENVIRONMENTS)

    assert start_files.network(nodes, places) == {frozenset(("node1", "node2")): NodeLink(900.0, 0.4)}
    assert start_files.network(cluster(), places) == {}


def test_a_measured_network_limits_the_reported_speed() -> None:
    """Its time is added to the GPUs', and the layouts say so."""
    nodes = cluster(
        _reach("node1", "node2", "10.0.0.2", latency_ms=1.0, bandwidth_mbit_s=940.0),
        _reach("node2", "node1", "10.0.0.1", latency_ms=1.0, bandwidth_mbit_s=940.0),
    )

    def tensor(known: Cluster) -> Any:
        asked = planner.on_nodes(MODEL, known, ENVIRONMENTS, gpus=CARDS, vllm="0.32.0", is_calibrated=False)
        return next(one for one in planner.layouts(asked).layouts if one.layout and one.layout.tp == 2)

    slow, unknown = tensor(nodes), tensor(cluster())
    assert slow.speed.tokens_per_s < 1 / (72 * 0.0005) < unknown.speed.tokens_per_s
    assert "ms of network latency" in slow.speed.basis
    assert any("as measured over TCP" in reason for reason in slow.reasons)
    assert not any("as measured" in reason for reason in unknown.reasons)


# The request


def test_the_release_is_that_of_the_nodes() -> None:
    """Different ones are rejected by name."""
    assert start_files.release(cluster(releases=("0.19.0", None))) == "0.19.0"
    assert start_files.release(cluster()) is None
    with pytest.raises(InputError, match=r"different vLLM releases \(node1 0.19.0, node2 0.32.0\)"):
        start_files.release(cluster(releases=("0.19.0", "0.32.0")))


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        ("A100-80GB-SXM@node1,A100-80GB-SXM@node9", "node9: not one of the nodes"),
        ("2xA100-80GB-SXM", "a GPU without @NODE"),
    ],
)
def test_gpus_must_be_on_the_nodes(gpus: str, message: str) -> None:
    """Otherwise nothing could be launched there."""
    with pytest.raises(InputError, match=message):
        written(gpus=gpus)


def test_nodes_without_a_gpu_are_reported() -> None:
    """The message names the input to use instead."""
    with pytest.raises(InputError, match="no node lists a GPU; use --gpus"):
        written(gpus=None)


def test_layouts_that_need_ray_are_not_written_for_nnodes() -> None:
    """A node with one GPU and one with two."""
    with pytest.raises(InputError, match=r"--by nnodes: .* the hosts have 1, 2 GPUs"):
        written(gpus="A100-80GB-SXM@node1,2xA100-80GB-SXM@node2", by="nnodes", tp=None, pp=3)


@pytest.mark.parametrize(
    "variables",
    [
        {"VLLM_HOST_IP": "10.0.0.1; reboot"},
        {"VLLM_HOST_IP": "$(id)"},
        {"VLLM_HOST_IP": "-x"},
        {"A B": "1"},
        {"X;id": "1"},
    ],
)
def test_an_invalid_address_or_name_is_written_to_no_file(variables: dict[str, str]) -> None:
    """The error is one line."""
    with pytest.raises(InputError, match=r"\A[^\n]+ is not a[^\n]* name"):
        written(environments=[NodeEnvironment("node1", variables, "")])


def test_values_of_nodes_are_only_values(tmp_path: Path) -> None:
    """An interface's name from a snapshot is quoted everywhere, so no shell interprets it."""
    evil = 'eth0\'; touch evil; $(touch evil) "`touch evil`" %n'
    known = [NodeEnvironment(one.node, {**one.variables, "NCCL_SOCKET_IFNAME": evil}, "") for one in ENVIRONMENTS]
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s" "$NCCL_SOCKET_IFNAME"\n')
    for name in ("ray", "docker"):
        shutil.copy(program, program.with_name(name))
    for path in program.parent.iterdir():
        path.chmod(0o755)
    for by in (None, "ray"):
        made = written(vllm="0.16.0", by=by, environments=known)[1]
        for name in [name for name in made if name.endswith(".sh")]:
            (tmp_path / name).write_text(made[name])
            environment = {"PATH": f"{program.parent}:{os.environ['PATH']}", "VLLM_API_KEY": "k", "HOME": "/root"}
            done = subprocess.run(["bash", name], cwd=tmp_path, env=environment, capture_output=True, check=False)
            assert done.returncode == 0, (name, done.stderr)
    assert not (tmp_path / "evil").exists()
    assert (tmp_path / "vllm-8000-node2.log").read_text() == evil
    assert f"Environment={json.dumps(f'NCCL_SOCKET_IFNAME={evil}').replace('%', '%%')}" in "".join(made.values())


def test_unknown_facts_about_a_node_are_reported() -> None:
    """Without its address, names have to resolve, and no variable is invented."""
    _, made, told = written(environments=())

    assert "VLLM_HOST_IP=" not in "".join(made.values())
    assert any("Unknown address and interface of node1, node2" in one for one in told.notes)
    assert any("node1 must resolve" in one for one in told.notes)


@pytest.mark.parametrize(("port", "message"), [(0, "29501|from 0"), (65536, "from 65536 are not available")])
def test_an_invalid_port_is_rejected(port: int, message: str) -> None:
    """The ports between hosts are checked too."""
    with pytest.raises(InputError, match=message):
        fleet.instances(MODEL, options.load("0.32.0"), [Host(("0",))], master_port=port)


# The command


WORDS = ("cluster", "files", MODEL, "--nodes", "cluster-healthy-pair")


def test_the_command_writes_the_files_for_two_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From recorded and measured nodes; the document matches its schema, no file is overwritten."""
    status = cli.run([*WORDS, "--tp", "2", "--out", str(tmp_path), "--format", "json"])
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    schema = json.loads((Path(__file__).parents[2] / "catalog" / "schema" / "cluster-files.json").read_text())

    assert (status, told["fits"], told["vllm"]["version"]) == (0, True, "0.32.0")
    jsonschema.Draft202012Validator(schema).validate(told)
    assert sorted(told["files"]) == sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert [node["environment"]["VLLM_HOST_IP"] for node in told["nodes"]] == ["10.77.0.1", "10.77.0.2"]
    assert cli.run([*WORDS, "--tp", "2", "--out", str(tmp_path)]) == 2
    assert "already exists" in capsys.readouterr().err


def test_the_command_prints_the_next_steps_and_accepts_addresses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given addresses replace measured ones."""
    given = ("--address", "node-a=10.9.9.9", "--interface", "node-a=bond0", "--env", "VLLM_LOGGING_LEVEL=DEBUG")

    assert cli.run([*WORDS, "--pp", "2", *given, "--out", str(tmp_path / "one")]) == 1
    summary = capsys.readouterr().out
    assert summary.startswith(f"2 PROBLEMS   {MODEL} · ")
    assert "bond0 on node-a, which has no such interface" in " ".join(summary.split())
    assert f"all steps: {tmp_path / 'one' / 'steps.txt'}" in " ".join(summary.split())
    assert cli.run([*WORDS, "--pp", "2", *given, "--out", str(tmp_path), "--explain"]) == 1
    said = capsys.readouterr().out
    assert "node-a at 10.9.9.9" in said
    assert "bond0 on node-a, which has no such interface" in " ".join(said.split())
    assert "NCCL_SOCKET_IFNAME=bond0" in said
    assert "WHAT TO DO" in said
    text = (tmp_path / "start-node-b.sh").read_text()
    assert "--master-addr 10.9.9.9" in text
    assert "VLLM_LOGGING_LEVEL=DEBUG" in text


def test_a_model_that_does_not_fit_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan is shown instead, in either form."""
    large = ("cluster", "files", "Qwen/Qwen2.5-72B", "--nodes", "cluster-healthy-pair", "--tp", "1")
    for form in ("text", "json"):
        assert cli.run([*large, "--out", str(tmp_path / "x"), "--format", form]) == 1
        said = capsys.readouterr()
        assert "no files written" in said.err
        assert said.out
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--address", "node-z=10.0.0.1"), "--address node-z: not one of the nodes (node-a, node-b)."),
        (("--interface", "eth0"), "--interface eth0: write NODE=NAME."),
        (("--address", "node-a=a b"), "--address node-a=a b: not an IP address"),
        (("--env", "X"), "--env X: write NAME=VALUE."),
        (("--by", "mpi"), "'mpi' is not one of"),
        (("--master-port", "70000"), "70000"),
        (("--nodes", "nothing-there"), "nothing-there"),
    ],
)
def test_errors_are_one_line(
    words: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, no standard output, no files."""
    assert cli.run([*WORDS, "--tp", "2", "--out", str(tmp_path / "x"), *words]) == 2
    printed = capsys.readouterr()

    assert says in printed.err
    assert printed.err.count("\n") == 1
    assert (printed.out, (tmp_path / "x").exists()) == ("", False)


def test_files_are_shown_by_node() -> None:
    """With the result of a launch on one node."""
    _, _, told = written(environments=())
    text = styled.plain(shown.view(told))

    assert isinstance(told, StartFiles)
    assert "With only the parallel sizes, on one node:" in " ".join(text.split())
    assert "NOTE" in text
