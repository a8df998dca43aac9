"""Launch files of a plan for the nodes of a cluster, with each node's environment and instructions.

The files are those of `plan.files` and the same in containers. Node names and addresses are written
only if they are valid host names or addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from vllm_runbooks.catalog.specs import HostGpu, Specs
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.host import inspection as inventories
from vllm_runbooks.host.nodes.records import Cluster, NodeConnection, NodeEnvironment, NodeFinding, Reachability
from vllm_runbooks.host.records import VLLM_PACKAGES
from vllm_runbooks.plan import containers, executors, fleet
from vllm_runbooks.plan import files as plan_files
from vllm_runbooks.plan import requests as plan_requests
from vllm_runbooks.plan.network import Network, NodeLink
from vllm_runbooks.plan.records import NodeStart, Plan, StartFiles
from vllm_runbooks.plan.settings import PARTITION

_ADDRESS = "VLLM_HOST_IP"
_VERIFY = "verify.txt"
_PROXY = "nginx.conf"


def places(environments: Iterable[NodeEnvironment]) -> dict[str, plan_requests.NodePlace]:
    """Variables and address of each node, as its servers need them."""
    by_node = {}
    for environment in environments:
        variables = dict(environment.variables)
        by_node[environment.node] = plan_requests.NodePlace(variables.get(_ADDRESS), tuple(variables.items()))
    return by_node


def network(nodes: Cluster, addresses: Mapping[str, plan_requests.NodePlace]) -> Network:
    """Measurements between each two nodes, in the slower direction, for the addresses in use."""
    links: dict[frozenset[str], list[NodeConnection]] = {}
    for reach in nodes.connections or ():
        place = addresses.get(reach.target)
        if reach.state is Reachability.OPEN and (place is None or place.address in (None, reach.address)):
            links.setdefault(frozenset((reach.source, reach.target)), []).append(reach)
    links_by_pair = {}
    for pair, reaches in links.items():
        rates = [reach.bandwidth_mbit_s for reach in reaches if reach.bandwidth_mbit_s]
        waits = [reach.latency_ms for reach in reaches if reach.latency_ms is not None]
        if rates or waits:
            links_by_pair[pair] = NodeLink(min(rates, default=None), max(waits, default=None))
    return links_by_pair


def cards(nodes: Cluster, specs: Specs) -> tuple[HostGpu, ...]:
    """GPUs of all nodes, node by node, the head first.

    Raises:
        InputError: No node has a GPU, or the GPUs of a node are unknown.
    """
    gpus = [
        card
        for node in sorted(nodes.nodes, key=lambda node: node.name != nodes.head)
        if node.inventory.gpus
        for card in inventories.cards(node.inventory, specs, node.name, node.name)
    ]
    if not gpus:
        raise InputError("no node lists a GPU; use --gpus, as in --gpus RTX3090@node1,H800@node2")
    return tuple(gpus)


def release(nodes: Cluster) -> str | None:
    """Release of vLLM on the nodes; None if no node reports one.

    Raises:
        InputError: The nodes have different releases.
    """
    versions = {
        node.name: next((packages[name] for name in VLLM_PACKAGES if name in packages), None)
        for node in nodes.nodes
        if (packages := node.inventory.packages) is not None
    }
    distinct = {version for version in versions.values() if version}
    if len(distinct) > 1:
        listed = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        raise InputError(f"the nodes have different vLLM releases ({listed}); install the same one, or use --vllm")
    return next(iter(distinct), None)


def files(
    request: plan_requests.PlanningRequest,
    plan: Plan,
    *,
    first_port: int = fleet.FIRST_PORT,
    image: str | None = None,
    retries_posts: bool = False,
    met: Sequence[NodeFinding] = (),
) -> tuple[dict[str, str], StartFiles]:
    """A plan as files by name, with their description; the caller lints them.

    `image` replaces the published container image of the release; `met` is the findings of a launch
    over the nodes that the files cannot fix.

    Raises:
        InputError: The release has no option for it, or the method that joins the hosts is
            invalid.
    """
    parts = plan_files.servers(request, plan, first_port=first_port)
    made = plan_files.deployed(request, plan, first_port=first_port, retries_posts=retries_posts)
    joined = [part for part in parts if part.joined]
    _check_joined(request, joined)
    why_none = containers.why_no_ray(request.data, image) if joined else ""
    in_ray = [str(host.node) for host in fleet.ray_hosts(parts)]
    nodes = list(dict.fromkeys([*(str(part.node) for part in parts), *in_ray]))
    has_several = len(nodes) > 1
    doubts = plan_files.doubts(plan)
    for node in nodes:
        mine = [part for part in parts if str(part.node) == node and not part.joined]
        behind = f"-{node}" if has_several else ""
        if mine:
            made[f"docker{behind}.sh"] = containers.docker(mine, doubts, image)
            if image is not None:
                made[f"compose{behind}.yaml"] = fleet.compose(
                    [replace(part, deployment=replace(part.deployment, image=image)) for part in mine], doubts
                )
        if node in in_ray and not why_none:
            made[f"ray-docker-{node}.sh"] = containers.ray_docker(joined, node, image, doubts)
            made[f"ray-compose-{node}.yaml"] = containers.ray_compose(joined, node, image, doubts)
    made = {name: made[name] for name in sorted(made)}
    notes = [
        f"{finding.severity.capitalize()}: {finding.text}. Effect: {finding.effect}. Fix: {finding.do}."
        for finding in met
    ]
    summary = _told(request, plan, parts, nodes, made, notes=[*notes, *([why_none] if why_none else [])])
    return {**made, "steps.txt": _steps_text(summary)}, replace(summary, files=(*summary.files, "steps.txt"))


def _check_joined(request: plan_requests.PlanningRequest, joined: Sequence[fleet.InstancePart]) -> None:
    if joined and request.by_ray is False:
        cards = [len(host.devices) for host in joined[0].joined]
        raise InputError(f"--by nnodes: {executors.joining(request.data, cards).said}; use --by ray, or another layout")


def _told(
    request: plan_requests.PlanningRequest,
    plan: Plan,
    parts: Sequence[fleet.InstancePart],
    nodes: Sequence[str],
    made: Mapping[str, str],
    *,
    notes: Sequence[str],
) -> StartFiles:
    first = [part for part in parts if not part.instance]
    hosts = list(first[0].joined) or [part.host for part in first if part.host is not None]
    cards = [len(host.devices) for host in hosts]
    joining = executors.joining(request.data, cards, copies=plan.layout.dp if plan.layout else 1)
    by = "ray" if first[0].joined else joining.by
    why = joining.said if by == joining.by else f"--by ray is not needed: {joining.said}"
    world = sum(cards)
    alone = executors.chosen(request.data, world, cards[0])
    written = executors.chosen(request.data, world, cards[0], nodes=len(cards) if by == "nnodes" else 1)
    backend = request.options.get("distributed_executor_backend")
    executor = "ray" if by == "ray" else str(backend) if backend else written.name
    itself = "" if alone.name == executor else f"{alone.said} ({alone.source})" if alone.source else alone.said
    starts = []
    for node in nodes:
        place = request.places.get(node, plan_requests.NodePlace())
        node_files = tuple(name for name in made if _is_of(name, node, nodes))
        starts.append(NodeStart(node, place.address, dict(place.environment), node_files))
    unplaced = [node for node in nodes if not request.places.get(node, plan_requests.NodePlace()).environment]
    if unplaced and len(nodes) > 1:
        unknown = (
            f"Unknown address and interface of {', '.join(unplaced)}: the files there set "
            f"no {_ADDRESS}. Run the node check, or use --address and --interface."
        )
        notes = [*notes, unknown]
    stages = (plan.deployment.env if plan.deployment is not None else {}).get(PARTITION)
    if stages:
        notes = [*notes, f"{PARTITION}={stages} sets the layers of each stage; it must be the same on every node."]
    in_steps = (fleet.NOT_IN_A_CONTAINER, fleet.together(nodes))
    unwritten = [sentence for part in parts for sentence in part.unwritten if sentence not in in_steps]
    return StartFiles(
        model=plan.model,
        vllm=plan.vllm,
        layout=plan.layout,
        fits=plan.fits,
        joined_by=by,
        reason=why,
        executor=executor,
        single_node_result=itself,
        nodes=tuple(starts),
        files=tuple(made),
        steps=tuple(_steps(parts, made, by)),
        notes=tuple(dict.fromkeys((*notes, *plan_files.doubts(plan), *unwritten))),
    )


def _is_of(name: str, node: str, nodes: Sequence[str]) -> bool:
    """Whether a file belongs on a node; one that is for all belongs on the first."""
    stem = name.rpartition("/")[0] or name.rpartition(".")[0]
    owner = next(
        (name_of_node for name_of_node in sorted(nodes, key=len, reverse=True) if stem.endswith(f"-{name_of_node}")),
        None,
    )
    return owner == node if owner is not None else node == nodes[0]


def _steps(parts: Sequence[fleet.InstancePart], made: Mapping[str, str], by: str) -> list[str]:
    nodes = list(dict.fromkeys(str(part.node) for part in parts))
    hosts = [str(host.node) for host in fleet.ray_hosts(parts)]
    has_several = len({*nodes, *hosts}) > 1
    steps = ["Copy each node's files to it; choose one way for all nodes: scripts, containers, or units."]
    if by:
        steps.append(
            "Make sure that only these nodes can reach each other's ports: traffic of vLLM and Ray between nodes is "
            "neither "
            "encrypted nor authenticated, and anyone who can reach the ports can run code there."
        )
    if by == "ray":
        steps.append(f"Run {', then '.join(f'ray-{node}.sh on {node}' for node in hosts)}: each joins the Ray cluster.")
        steps.append(f"Run `ray status` on {hosts[0]}: it lists {len(hosts)} nodes and all of their GPUs.")
        steps.append(f"Run {', '.join(f'start-{node}.sh on {node}' for node in nodes)}.")
    else:
        scripts = ", ".join(f"start-{node}.sh on {node}" if has_several else "start.sh" for node in nodes)
        together = " at about the same time; each waits for the others" if by == "nnodes" else ""
        steps.append(f"Run {scripts}{together}.")
    steps.append(
        f"{_VERIFY} lists for each node the lines of a healthy log, and checks that its GPUs have allocated memory."
    )
    if _PROXY in made:
        steps.append(f"Run nginx with {_PROXY} where clients connect: it balances their requests over the servers.")
    end = " `ray stop` on each node stops Ray, including other Ray clusters on it." if by == "ray" else ""
    if by:
        end += " If a part ends while the server is idle, the others notice it only at the next request."
    steps.append(f"To stop, end the scripts on all nodes; each stops its own servers.{end}")
    return steps


def _steps_text(summary: StartFiles) -> str:
    lines = [
        f"{summary.model}, vLLM {summary.vllm.version}",
        "",
        *(f"{number}. {step}" for number, step in enumerate(summary.steps, 1)),
    ]
    lines += ["", f"Launch across hosts: {summary.reason}."]
    if summary.single_node_result:
        lines += [f"With only the parallel sizes, on one node: {summary.single_node_result}."]
    for node in summary.nodes:
        lines += ["", f"{node.node}{f' at {node.address}' if node.address else ''}: {', '.join(node.files)}"]
        lines += [f"  {name}={value}" for name, value in node.environment.items()]
    return "\n".join([*lines, *([""] if summary.notes else []), *summary.notes]) + "\n"
