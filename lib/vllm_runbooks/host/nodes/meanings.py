"""What facts of nodes and differences between them mean for a server over all: a table of rules with their sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from vllm_runbooks.core.records import Severity
from vllm_runbooks.host.nodes import compared, network_rules, node_rules
from vllm_runbooks.host.nodes.records import NodeFinding, Reachability
from vllm_runbooks.host.nodes.view import Said, View
from vllm_runbooks.host.nodes.ways import GLOO

_TROUBLE = "https://docs.vllm.ai/en/latest/usage/troubleshooting/"
_PARALLEL = "https://docs.vllm.ai/en/latest/serving/parallelism_scaling/"
_NCCL_ENV = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_TORCH = "https://docs.pytorch.org/docs/stable/distributed.html"
_GET_IP = "vllm 0.32.0 utils/network_utils.py:52"
_RAY_VERSIONS = "ray 2.60.0 _private/utils.py:1366"
_RAY_PORTS = "https://docs.ray.io/en/latest/ray-core/configure.html"
_MEASURED = "measured with torch 2.13.0 (Gloo) and vLLM 0.32.0 between two network namespaces"
_WAIT = "the rank that waits prints nothing more behind `world_size=… rank=0 …`, and hangs"


@dataclass(frozen=True)
class Rule:
    """What is looked at, and what it means."""

    id: str
    severity: Severity
    says: Callable[[View], Iterator[Said]]
    effect: str
    """Why a start fails of it, and how that looks."""
    do: str
    source: str
    symptom: str = ""
    """Id of the symptom by which a log shows it."""


COLLECTIVE = "nodes.collective_failed"
_EXPORT = (
    "set each node's own variables, which cluster check lists once it has measured the ways between the nodes (--ray "
    "ADDRESS or --hosts FILE)"
)
_OPEN_PORTS = (
    "let the nodes reach each other on all ports, or on those named; Ray and torch choose further ones by themselves"
)
_SAME_IMAGE = "run the same container image on all nodes, or install the same release"
RULES: Sequence[Rule] = (
    Rule("nodes.unread", Severity.FATAL, node_rules.unread,
        "a server over all nodes waits for its ranks, and a Ray cluster without it has fewer GPUs: the start stays "
        "pending",
        "see to the node by the reason that is given, then check again", _TROUBLE, "ray.placement_group_pending"),
    # addresses
    Rule("nodes.host_ip_wrong", Severity.FATAL, network_rules.ip_wrong,
        "ranks bind and announce an address that leads to no process: `Cannot assign requested address` on that "
        "node, or a silent wait on the others", _EXPORT, _GET_IP, "ray.node_ip"),
    Rule("nodes.host_ip_shared", Severity.FATAL, network_rules.ip_shared,
        "with Ray the start ends with `Every node should have a unique IP address`; with --nnodes ranks of one node "
        "are looked for on the other, and wait", _EXPORT, "vllm 0.32.0 v1/executor/ray_executor.py:312", "ray.node_ip"),
    Rule("nodes.host_ip_apart", Severity.FATAL, network_rules.ip_apart,
        "ranks announce an address at which nobody reaches them: both sides hang after `mq_connect_ip=`, without an "
        "error",
        _EXPORT, _MEASURED, "dist.wrong_interface"),
    Rule("nodes.host_ip_missing", Severity.DEGRADED, network_rules.ip_missing,
        "vLLM takes the address of the default route, and 0.0.0.0 where there is none: then both ranks hang after "
        "`mq_connect_ip=0.0.0.0`, without an error", _EXPORT, f"{_GET_IP}; {_MEASURED}",
        "dist.wrong_interface.announced"),
    # interfaces
    Rule("nodes.interface_missing", Severity.FATAL, network_rules.interface_missing,
        "Gloo ends with `Unable to find address for: …`, NCCL with `Bootstrap : no socket interface found`",
        _EXPORT, f"{_MEASURED}; {_NCCL_ENV}", "dist.wrong_interface"),
    Rule("nodes.interface_loopback", Severity.FATAL, network_rules.interface_loopback,
        f"one rank dies with `Gloo connectFullMesh failed … Connection refused, remote=[127.0.0.1]`; {_WAIT}",
        _EXPORT, _MEASURED, "dist.wrong_interface"),
    Rule("nodes.interface_apart", Severity.FATAL, network_rules.interface_apart,
        "a rank that others have to dial is not reached: it dies with `Network is unreachable` or a timeout, while "
        f"{_WAIT}; of two ranks one wrong side may still work, as long as the other is dialled",
        _EXPORT, _MEASURED, "dist.wrong_interface"),
    Rule("nodes.interfaces_disagree", Severity.DEGRADED, network_rules.interfaces_disagree,
        "NCCL and Gloo look for the other ranks on different networks, of which one may lead nowhere: the start "
        "hangs in the one that does not", _EXPORT, f"{_NCCL_ENV}; {_TORCH}", "dist.wrong_interface"),
    Rule("nodes.interface_unset", Severity.DEGRADED, network_rules.interface_unset,
        "each library chooses by itself: NCCL the first interface that suits it, Gloo the one of the node's own "
        "name; where that is another network, the ranks hang", _EXPORT, f"{_NCCL_ENV}; {_TORCH}",
        "dist.wrong_interface"),
    Rule("nodes.interface_names_differ", Severity.HINT, network_rules.interface_names,
        "vLLM's Ray executor copies the variables of the head that begin with NCCL_ to all ranks, where the "
        "interface has another name", "with Ray name NCCL_SOCKET_IFNAME in "
        "~/.config/vllm/ray_non_carry_over_env_vars.json on the head; with --nnodes each node keeps its own", "vllm "
        "0.32.0 ray/ray_env.py:36"),
    Rule("nodes.name_loopback", Severity.FATAL, network_rules.name_apart,
        f"Gloo binds to what the node's own name stands for, so to itself: the other rank dies with `Connection "
        f"refused, remote=[127.0.0.1]`; {_WAIT}",
        f"have the name stand for the node's own address in /etc/hosts, or set {GLOO}", _MEASURED,
        "dist.wrong_interface"),
    # the matrix
    Rule("nodes.one_way", Severity.FATAL, network_rules.blocked(*network_rules.CLOSED, one_way=True),
        "one side connects and the other cannot: a rank joins and the collective behind it hangs, or Ray takes the "
        'node for dead after a minute ("missing too many heartbeats")', _OPEN_PORTS, _RAY_PORTS,
        "dist.peer_lost.never_joined"),
    Rule("nodes.port_dropped", Severity.FATAL, network_rules.blocked(Reachability.DROPPED),
        "a start waits without a word: Ray repeats `Failed to connect to GCS`, torch's store `Timed out after … "
        "waiting for clients`, Gloo `Connect timeout` after 50 s", _OPEN_PORTS, f"{_RAY_PORTS}; {_MEASURED}",
        "dist.peer_lost.no_meeting"),
    Rule("nodes.port_refused", Severity.FATAL, network_rules.blocked(Reachability.REFUSED),
        "Ray repeats `Failed to connect to GCS`, torch's client tries until its time is over (\"client socket has "
        'timed out"), and the head waits for it', _OPEN_PORTS, f"{_RAY_PORTS}; {_MEASURED}",
        "dist.peer_lost.never_joined"),
    Rule("nodes.no_way", Severity.FATAL, network_rules.blocked(Reachability.UNREACHABLE),
        "a rank dies with `Network is unreachable`, and the one that waits for it hangs",
        "join the nodes by a network, or add the route that is missing", _MEASURED, "dist.wrong_interface"),
    Rule(COLLECTIVE, Severity.FATAL, network_rules.collective,
        "the same happens to a server's ranks while they are set up: one side prints an error, the other stops "
        "without one",
        f"mend what is found above; where nothing is, {_EXPORT}", _MEASURED, "dist.peer_lost.never_joined"),
    Rule("nodes.mtu_differs", Severity.DEGRADED, network_rules.mtu,
        "small messages pass and large ones vanish: ranks join, and the first collective hangs",
        "set the same MTU on the interfaces of all nodes, or let the network tell smaller ones (ICMP)", _NCCL_ENV),
    Rule("nodes.stream_lost", Severity.DEGRADED, network_rules.stream_lost,
        "small messages pass and large ones vanish, or a firewall stops what it has let begin: ranks join, and the "
        "first collective hangs",
        "set a smaller MTU on the interfaces of both nodes, and let the ICMP messages pass by which a network tells "
        "its largest packet; then check again", _NCCL_ENV),
    Rule("nodes.network_slow", Severity.HINT, network_rules.slow,
        "tensor parallelism waits for the network in every layer; below 10,000 Mbit/s mostly for the network",
        "prefer pipeline parallelism between the nodes, or one instance on each", _PARALLEL),
    Rule("nodes.proxy", Severity.HINT, network_rules.proxy,
        "requests over HTTP between the nodes, and health checks, go to the proxy, which answers in place of the "
        "server",
        "name the nodes' addresses in no_proxy", "https://docs.python.org/3/library/urllib.request.html"),
    # software
    Rule("nodes.ray_differs", Severity.FATAL, node_rules.same(compared.RAY),
        "a node with another Ray is refused within seconds: `Version mismatch: The cluster was started with: Ray: …`",
        _SAME_IMAGE, _RAY_VERSIONS, "ray.version_mismatch"),
    Rule("nodes.ray_token_differs", Severity.FATAL, node_rules.token,
        "a node with another token, or without one, is not let in: `AuthenticationError: … InvalidAuthToken` after "
        "half a minute",
        "give every node the token of the head, in RAY_AUTH_TOKEN or in the file that RAY_AUTH_TOKEN_PATH names",
        "ray 2.60.0 exceptions.py:599", "ray.version_mismatch.token"),
    Rule("nodes.python_differs", Severity.FATAL, node_rules.python,
        "Ray refuses a node whose Python differs, be it in the last number: `Version mismatch: … Python: …`",
        _SAME_IMAGE, _RAY_VERSIONS, "ray.version_mismatch"),
    Rule("nodes.vllm_differs", Severity.FATAL, node_rules.same(compared.VLLM),
        "ranks of different releases do not understand each other's messages: they fail in the first one, or hang",
        _SAME_IMAGE, _PARALLEL),
    Rule("nodes.torch_differs", Severity.DEGRADED, node_rules.same(compared.TORCH),
        "the ranks' collectives come from different builds: they may fail to join, or compute other results",
        _SAME_IMAGE, _PARALLEL),
    Rule("nodes.nccl_differs", Severity.DEGRADED, node_rules.same(compared.NCCL),
        "ranks with different NCCL may be refused while they join, or hang", _SAME_IMAGE, _PARALLEL, "dist.nccl_init"),
    Rule("nodes.transformers_differs", Severity.HINT, node_rules.same(compared.TRANSFORMERS),
        "nodes may read the model's configuration differently", _SAME_IMAGE, _PARALLEL),
    Rule("nodes.driver_differs", Severity.HINT, node_rules.same(compared.DRIVER),
        "a failure that only one node has may come from it", "install the same driver where that is possible",
        "https://docs.nvidia.com/deploy/cuda-compatibility/"),
    Rule("nodes.environment_differs", Severity.DEGRADED, node_rules.environment,
        "ranks that disagree on it choose different ways to exchange data, and wait for each other",
        "set it alike on all nodes", f"{_NCCL_ENV}; vllm 0.32.0 ray/ray_env.py:36"),
    # the model
    Rule("nodes.model_missing", Severity.FATAL, node_rules.model_missing,
        "the rank on that node ends while it loads, or fetches the model from the hub first; the others wait for it",
        "copy the model to the same path on every node, or mount it there", _PARALLEL, "model.missing_file"),
    Rule("nodes.model_path_differs", Severity.FATAL, node_rules.model_path,
        "a server has one path for all ranks: where it is not there, a rank ends while it loads",
        "put the model under the same path on every node, as by a mount or a link", _PARALLEL, "model.missing_file"),
    Rule("nodes.model_differs", Severity.FATAL, node_rules.model_differs,
        "ranks load parts that do not belong together: sizes do not fit, or the answers are nonsense without an error",
        "copy the files anew from one node to the others, then check again", _PARALLEL, "model.weights_mismatch"),
    # cards
    Rule("nodes.gpus_missing", Severity.FATAL, node_rules.gpus_missing,
        "Ray finds fewer GPUs than the start asks for, and its placement group stays pending",
        "see what vllm-runbooks inventory says on that node, or plan for the others alone", _PARALLEL,
        "ray.placement_group_pending"),
    Rule("nodes.gpus_unequal", Severity.DEGRADED, node_rules.gpus_unequal,
        "tensor parallelism over them has the memory of the smallest and the speed of the slowest, and can use what "
        "all of them can alone: their kernels, their number formats",
        "compare with vllm-runbooks plan: pipeline parallelism with uneven layers (VLLM_PP_LAYER_PARTITION), or one "
        "instance on each node", "vllm 0.32.0 v1/core/kv_cache_utils.py:2665"),
    Rule("nodes.gpu_counts_differ", Severity.HINT, node_rules.gpu_counts,
        "a tensor-parallel group of more cards than the smallest node has crosses the network",
        "choose a tensor-parallel size that every node can hold, and pipeline stages between them", _PARALLEL),
    # clocks and limits
    Rule("nodes.clock_off", Severity.DEGRADED, node_rules.clock,
        "logs of the nodes cannot be laid side by side, and what is signed for a time is refused: tokens, certificates",
        "have the clocks follow one source (NTP) on all nodes",
        "https://docs.ray.io/en/latest/cluster/vms/getting-started.html"),
    Rule("nodes.shm_small", Severity.DEGRADED, node_rules.shm,
        "Ray's object store and the ranks of a node exchange data there: `No space left on device`, a bus error, or "
        "`Insufficient space in /dev/shm`", "start the container with --ipc=host, or a larger --shm-size",
        "vllm 0.32.0 distributed/device_communicators/shm_broadcast.py:231; "
        "https://docs.vllm.ai/en/latest/deployment/docker/",
        "dist.nccl_shm"),
    Rule("nodes.memlock", Severity.DEGRADED, node_rules.memlock,
        "NCCL cannot register memory with the devices, and fails while it joins",
        "start the container with --ulimit memlock=-1, or raise the limit of the service", _NCCL_ENV, "dist.nccl_init"),
    Rule("nodes.open_files", Severity.HINT, node_rules.open_files,
        "Ray and vLLM keep a connection open to every rank and client, and run out of files",
        "raise the hard limit of open files for the service or the container", "vllm 0.32.0 utils/system_utils.py:241"),
)  # fmt: skip
IDS = frozenset(rule.id for rule in RULES)
"""Ids of all findings that are about several nodes."""


def findings(view: View) -> tuple[tuple[NodeFinding, ...], frozenset[str]]:
    """What is found, the most serious first, and the names of the facts that it is about."""
    made: list[NodeFinding] = []
    about: set[str] = set()
    for rule in RULES:
        for said in rule.says(view):
            about.update(said.facts)
            severity = said.severity or rule.severity
            made.append(
                NodeFinding(
                    rule.id, severity, said.nodes, said.text, rule.effect, said.do or rule.do, rule.source, rule.symptom
                )
            )
    made += node_rules.of_single_nodes(view)
    made.sort(key=lambda one: list(Severity).index(one.severity))
    return tuple(made), frozenset(about)
