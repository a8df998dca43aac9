"""`vllm-runbooks cluster check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.cluster.commands.files import files
from vllm_runbooks.core.console import given, output, terminal

if TYPE_CHECKING:
    from vllm_runbooks.host.nodes.records import CheckedCluster

_NO_NODES = "No nodes: use --ray ADDRESS, --hosts FILE, or nodes recorded with `cluster check --out FILE`."
_OPTIONS = {
    "expect": "--expect",
    "pythons": "--python",
    "ports": "--port",
    "no_collective": "--no-collective",
    "limit": "--limit",
    "ssh_config": "--ssh-config",
}


@click.group()
def cluster() -> None:
    """Check the nodes of a cluster before you launch a server on them."""


cluster.add_command(files)


@cluster.command(
    epilog=given.examples(
        "cluster check cluster-healthy-pair",
        "cluster check nodes/ --model /models/Qwen3-8B --format json",
        "cluster check node1.json node2.json --out both.json",
        "cluster check --ray 10.0.0.1:6379 --expect 2 --model Qwen/Qwen3-8B",
        "cluster check --hosts hosts.txt --python /opt/vllm/bin/python --out nodes.json",
    )
)
@click.argument("snapshots", nargs=-1, type=complete.NODES, metavar="[SNAPSHOT…]")
@given.value("--ray ADDRESS", "Check the nodes of the Ray cluster at ADDRESS, such as 10.0.0.1:6379, or auto.")
@given.value(
    "--hosts FILE|LIST",
    "Check these hosts over ssh: a file with one host per line, or HOST,HOST; settings such as agent=PATH "
    "follow the host.",
)
@given.value("--expect N", "With --ray: number of nodes.", click.IntRange(1))
@click.option(
    "--model", metavar="PATH", default="", help="The model that every node needs: its path, or its name on the Hub."
)
@given.value(
    "--python pythons [NODE=]PATH",
    "The Python with vLLM, on all nodes or on one (default: the one found first on the node).",
    multiple=True,
)
@given.value(
    "--port ports USE=N", "Port to test: ray=6379, torch=29501 (--master-port) and vllm=8000 by default.", multiple=True
)
@click.option("--no-collective", is_flag=True, help="Skip the all-reduce across the nodes.")
@given.value("--limit TIME", "Timeout of the all-reduce on each node (default: 6s).", given.Span("1s", "10m"))
@given.value("--ssh-config FILE", "With --hosts: an ssh configuration file to use instead of your own.")
@given.value("--out FILE", "Write a snapshot of all nodes to FILE.", given.FILE)
@given.EXPLAIN
@given.FORMAT
def check(*, snapshots: tuple[str, ...], model: str, out: Path | None, explain: bool, form: str, **asked: Any) -> int:
    """Compare nodes, and report what would make a launch on them fail.

    SNAPSHOT is a recorded cluster, the snapshot of a node or host, a folder of them, a recorded case, or - for standard
    input. With --ray or --hosts the nodes are queried directly: every connection is tested in both
    directions, and an all-reduce runs across all nodes. Nothing is changed; ports are open for a few
    seconds. Every node needs this package: in Ray's Python, or in the Python that agent= names for
    a host.

    Exit status: 0 if no problem is found, 1 if there is a problem or a measurement failed, 2 for invalid input.
    """
    from vllm_runbooks.host.nodes import loading as node_loading

    is_live = asked["ray"] is not None or asked["hosts"] is not None
    if snapshots and is_live:
        raise click.UsageError("Use either recorded nodes, or --ray or --hosts.")
    if not is_live:
        alone = next((name for name in _OPTIONS if asked[name]), None)
        if alone is not None:
            raise click.UsageError(f"{_OPTIONS[alone]} requires --ray or --hosts.")
        if not snapshots:
            raise click.UsageError(_NO_NODES)
        return _show(node_loading.nodes(*snapshots, model=model), out, form, names=snapshots, explain=explain)
    return _show(_measured(model, **asked), out, form, explain=explain)


def _measured(
    model: str,
    *,
    pythons: tuple[str, ...],
    ports: tuple[str, ...],
    no_collective: bool,
    limit: float | None,
    **where: Any,
) -> CheckedCluster:
    from vllm_runbooks.cluster import measuring, named

    tried, programs = named.read_ports(ports), named.read_pythons(pythons)
    what = "collecting facts from the nodes, testing connections between them" + (
        "" if no_collective else ", running an all-reduce"
    )
    with terminal.waiting(what), named.open_carrier(**where) as carrier:
        return named.measure_and_check(
            carrier,
            model=model,
            named=programs,
            tried=tried,
            say=output.say,
            is_collective_run=not no_collective,
            limit_s=limit or measuring.LIMIT_S,
        )


def _show(cluster: CheckedCluster, out: Path | None, form: str, *, explain: bool, names: tuple[str, ...] = ()) -> int:
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.files import store
    from vllm_runbooks.core.views.summary import summary_view
    from vllm_runbooks.host.nodes import render as render_clusters
    from vllm_runbooks.host.nodes.summaries import summarize

    if out is not None:
        store(out, render_clusters.snapshot_json(cluster))
        output.say(f"wrote {out}")
    if form == "json":
        output.write_json(to_json(cluster))
    elif explain:
        terminal.show(render_clusters.view(cluster))
    else:
        again = terminal.again("--explain", is_repeatable="-" not in names)
        terminal.show(summary_view(summarize(cluster, names=names, again=again)))
    return int(cluster.ok is not True)
