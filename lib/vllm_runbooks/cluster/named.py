"""Nodes by name: a Ray cluster or hosts, with their Pythons and ports; measured and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.cluster import carriers, measuring
from vllm_runbooks.cluster import hosts as host_lists
from vllm_runbooks.cluster.carriers import Carrier
from vllm_runbooks.core.errors import InputError, check_texts
from vllm_runbooks.host import nodes as clusters
from vllm_runbooks.host.nodes.records import CheckedCluster, Unread


def nodes(
    ray: str = "",
    *,
    hosts: str = "",
    expect: int = 0,
    model: str = "",
    python: str = "",
    ports: str = "",
    say: Callable[[str], None] = lambda _: None,
) -> CheckedCluster:
    """Collect facts from a Ray cluster or a list of hosts, measure between them, and check them.

    Nothing is changed on the nodes; ports are open for a few seconds, and an all-reduce runs.

    Args:
        ray: Address of a running Ray cluster, as in 10.0.0.1:6379.
        hosts: Hosts for SSH instead of `ray`: a file with one per line, or HOST,HOST.
        expect: Number of nodes of the Ray cluster; 0 for any.
        model: A folder, or a name on the Hub, to look for on every node.
        python: The Python with vLLM, as PATH, or NODE=PATH for one node, separated by commas.
        ports: Other ports to test, as in ray=6380,vllm=8001.
        say: Reports progress.

    Raises:
        InputError: Neither or both of `ray` and `hosts` are given, or an argument is invalid.
    """
    check_texts(ray=ray, hosts=hosts, model=model, python=python, ports=ports)
    tried, pythons = read_ports(_words(ports)), read_pythons(_words(python))
    with open_carrier(ray=ray.strip() or None, hosts=hosts.strip() or None, expect=expect or None) as carrier:
        return measure_and_check(carrier, model=model.strip(), named=pythons, tried=tried, say=say)


def _words(text: str) -> list[str]:
    return [word for part in text.split(",") if (word := part.strip())]


def open_carrier(
    *, ray: str | None, hosts: str | None, expect: int | None = None, ssh_config: str | None = None
) -> Carrier:
    """Carry questions to a Ray cluster, or else to hosts that ssh reaches; the caller closes it; raises InputError."""
    if expect is not None and not 0 < expect <= clusters.MAX_NODES:
        raise InputError(f"--expect {expect}: is not a number of nodes; use 1 to {clusters.MAX_NODES:,}")
    if (ray is None) == (hosts is None):
        raise InputError("use either --ray (address of a Ray cluster) or --hosts (hosts reached over ssh)")
    if expect is not None and ray is None:
        raise InputError("--expect requires --ray; a host list has a fixed number of nodes")
    if ssh_config is not None and hosts is None:
        raise InputError("--ssh-config requires --hosts")
    if hosts is not None:
        return carriers.Ssh(host_lists.parse_hosts(hosts), config=ssh_config)
    host_lists.check_ray(ray or "")
    return carriers.Ray(ray or "", expected=expect)


def read_pythons(words: Iterable[str]) -> dict[str, str]:
    """Read `PATH` and `NODE=PATH`: the Python of each node, under "" that of all others; raises InputError."""
    by_node = {}
    for word in words:
        node, sign, path = word.rpartition("=")
        if not path or (sign and not node):
            raise InputError(f"--python {word[:80]!r}: write PATH, or NODE=PATH")
        by_node[node] = path
    return by_node


def pythons_by_node(carrier: Carrier, named: Mapping[str, str]) -> dict[str, str]:
    """Python of each node that answers, if named; a named node that is missing counts as unread."""
    nodes = carrier.nodes()
    names = {*nodes, *(unread.name for unread in carrier.unread), ""}
    why = f"--python: unknown node; nodes: {', '.join(nodes) or 'none'}"
    carrier.unread = (*carrier.unread, *(Unread(name, why) for name in named if name not in names))
    return {node: path for node in nodes if (path := named.get(node, named.get(""))) is not None}


def read_ports(words: Iterable[str]) -> dict[str, int]:
    """Read ports as in `ray=6380` on top of the usual ones, by use; raises InputError."""
    by_use = dict(measuring.PORTS)
    for word in words:
        use, _, number = word.partition("=")
        if use not in by_use or not number.isdecimal() or not 0 < int(number[:6]) < 1 << 16:
            uses = ", ".join(by_use)
            raise InputError(f"--port {word[:40]!r}: write USE=N, with {uses} and a number up to 65535")
        by_use[use] = int(number)
    return by_use


def measure_and_check(
    carrier: Carrier,
    *,
    model: str,
    named: Mapping[str, str],
    tried: Mapping[str, int],
    say: Callable[[str], None],
    is_collective_run: bool = True,
    limit_s: float = measuring.LIMIT_S,
) -> CheckedCluster:
    """Measure and check the nodes of a carrier; `named` and `tried` as `read_pythons` and `read_ports` return them."""
    cluster = measuring.measure(
        carrier,
        model=model or None,
        pythons=pythons_by_node(carrier, named),
        ports=tried,
        is_collective_run=is_collective_run,
        limit_s=limit_s,
        say=say,
    )
    return clusters.check(cluster, catalog.specs(), model=model)
