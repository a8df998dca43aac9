"""`vllm-runbooks cluster files`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.core.console import given, output, terminal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vllm_runbooks.catalog.tables import RuleFinding
    from vllm_runbooks.core.views.summary import Summary
    from vllm_runbooks.host.nodes.records import NodeEnvironment
    from vllm_runbooks.plan.records import StartFiles


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
    epilog=given.examples(
        "cluster files Qwen/Qwen3-8B --nodes cluster-healthy-pair --out start",
        "cluster files Qwen/Qwen3-32B --nodes cluster-3090-h800 --vllm 0.19.0 --max-model-len 8192 --pp 2 --out start",
        "cluster files Qwen/Qwen3-8B --nodes a.json --nodes b.json --tp 2 "
        "--address a=10.0.0.1 --interface a=eth0 --address b=10.0.0.2 --interface b=eth0 --out start",
    ),
)
@click.argument("model", metavar="MODEL", type=complete.MODEL)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ENGINE OPTIONS…]")
@given.value("--nodes SNAPSHOT", "Recorded nodes; repeatable.", complete.NODES, multiple=True, required=True)
@given.value("--out DIR", "Output folder.", given.FOLDER, required=True)
@given.value("--gpus SPEC", "GPUs by node, instead of the recorded ones.", complete.CARDS)
@given.value("--vllm VERSION", "vLLM release (default: the nodes' release).", complete.RELEASE)
@given.value("--tp N", "Tensor parallel size. If you set any of --tp, --pp, --dp, the others are 1.", int)
@given.value("--pp N", "Pipeline parallel size.", int)
@given.value("--dp N", "Data parallel size.", int)
@given.choice("--by", "How to connect hosts (default: nnodes where possible).", ["nnodes", "ray"])
@given.value("--address addresses NODE=IP", "Address of a node; repeatable.", multiple=True)
@given.value("--interface interfaces NODE=NAME", "Network interface of that address; repeatable.", multiple=True)
@given.value("--master-port N", "Port where the hosts of a server meet.", click.IntRange(1, 65535))
@given.value("--port N", "Port of the first server (default: 8000).", click.IntRange(1, 65535))
@given.value("--image NAME", "Container image, instead of vLLM's own.")
@given.value("--env environment NAME=VALUE", "Environment variable of the launch; repeatable.", multiple=True)
@given.EXPLAIN
@given.FORMAT
def files(
    *,
    model: str,
    arguments: tuple[str, ...],
    nodes: tuple[str, ...],
    out: Path,
    addresses: tuple[str, ...],
    interfaces: tuple[str, ...],
    port: int | None,
    image: str | None,
    environment: tuple[str, ...],
    explain: bool,
    form: str,
    **layout: Any,
) -> int:
    """Write the files that launch a model on several nodes.

    Each node gets scripts, container commands, compose files and systemd units.
    MODEL is planned for the nodes' GPUs; without --tp, --pp or --dp the best layout is used. Pipeline stages get layers
    in proportion to the memory of unequal GPUs. Each node gets its own VLLM_HOST_IP and interface. Problems that
    would affect a launch on these nodes are reported. Nothing is launched.

    Exit status: 0 if the files are written; 1 if the model does not or may not fit, or the nodes have a problem; 2 for
    invalid input.
    """
    from vllm_runbooks.catalog import load as catalog
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.records import Severity
    from vllm_runbooks.core.views.summary import summary_view
    from vllm_runbooks.host import nodes as clusters
    from vllm_runbooks.host.nodes import loading as node_loading
    from vllm_runbooks.plan import fleet, planner
    from vllm_runbooks.plan.render import plans as render_plans
    from vllm_runbooks.plan.render import start_files as render_start_files

    read = node_loading.read_nodes(nodes)
    names = [node.name for node in read.nodes]
    checked = clusters.check(read, catalog.specs())
    environments = _environments(
        checked.environments, _by_node(addresses, "--address", names), _by_node(interfaces, "--interface", names)
    )
    request = planner.on_nodes(
        model,
        read,
        environments,
        arguments=arguments,
        environment=dict(_pair(item, "--env", "NAME=VALUE") for item in environment),
        **layout,
    )
    if planner.has_sizes(request):
        request = planner.staged(request)
    best = planner.plan(request) if planner.has_sizes(request) else planner.layouts(request)
    if best.fits is False:
        output.say(f"no files written to {out}: it does not fit")
        if form == "json":
            output.write_json(to_json(best))
        else:
            terminal.show(render_plans.view(best))
        return 1
    met = planner.standing(request, best, read, environments)
    written = planner.node_files(request, best, out, first_port=port or fleet.FIRST_PORT, image=image, met=met)
    if form == "json" or explain:
        for name in written.files:
            output.say(f"wrote {out / name}")
    if form == "json":
        output.write_json(to_json(written))
    elif explain:
        terminal.show(render_start_files.view(written))
    else:
        terminal.show(summary_view(_summary(written, met, out)))
    return int(written.fits is not True or any(item.severity is not Severity.HINT for item in met))


def _summary(written: StartFiles, met: Sequence[RuleFinding], out: Path) -> Summary:
    """Files written per node, problems of a launch with them, and the first steps."""
    from vllm_runbooks.core.views.styled import Tone
    from vllm_runbooks.core.views.summary import Step, Summary, count_of
    from vllm_runbooks.host import finding_views

    problems = finding_views.problems(met)
    state, tone = finding_views.problem_state(problems) if problems else ("WRITTEN", Tone.GOOD)
    sizes = [] if (layout := written.layout) is None else [f"{layout.replicas} x TP {layout.tp} PP {layout.pp}"]
    nodes = count_of(len(written.nodes), "node")
    files = f"{count_of(len(written.files), 'file')} for {nodes} in {out}"
    steps = [Step(f"{number}.", text) for number, text in enumerate(written.steps[:_MOST_STEPS], 1)]
    return Summary(
        state,
        tone if written.fits else Tone.WARN,
        (written.model, f"vLLM {written.vllm.version}", *sizes, files),
        "" if written.fits else "Whether it fits is uncertain.",
        finding_views.finding_statements(problems),
        steps=(*steps, Step("Next", f"Follow all steps in {out / 'steps.txt'}.")),
    )


_MOST_STEPS = 2


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    name, is_set, value = text.partition("=")
    if not is_set or not name or not value:
        raise click.UsageError(f"{option} {text}: write {form}.")
    return name, value


def _by_node(pairs: Iterable[str], option: str, nodes: list[str]) -> dict[str, str]:
    by_node = dict(_pair(pair, option, f"NODE={'IP' if option == '--address' else 'NAME'}") for pair in pairs)
    strange = next((name for name in by_node if name not in nodes), None)
    if strange is not None:
        raise click.UsageError(f"{option} {strange}: not one of the nodes ({', '.join(nodes)}).")
    is_one, what = (
        (_is_address, "not an IP address") if option == "--address" else (_is_interface, "not an interface name")
    )
    wrong = next((f"{name}={value[:80]}" for name, value in by_node.items() if not is_one(value)), None)
    if wrong is not None:
        raise click.UsageError(f"{option} {wrong}: {what}.")
    return by_node


def _is_address(text: str) -> bool:
    import ipaddress

    with suppress(ValueError):
        return bool(ipaddress.ip_address(text))
    return False


def _is_interface(text: str) -> bool:
    """Whether the system lets an interface be called so (dev_valid_name)."""
    return len(text) < 16 and text not in (".", "..") and not any(sign in "/:" or sign.isspace() for sign in text)


def _environments(
    measured: Iterable[NodeEnvironment], addresses: dict[str, str], interfaces: dict[str, str]
) -> list[NodeEnvironment]:
    from vllm_runbooks.host.nodes.records import NodeEnvironment

    variables_by_node = {environment.node: dict(environment.variables) for environment in measured}
    for node, address in addresses.items():
        variables_by_node.setdefault(node, {})["VLLM_HOST_IP"] = address
    for node, interface in interfaces.items():
        variables_by_node.setdefault(node, {}).update(NCCL_SOCKET_IFNAME=interface, GLOO_SOCKET_IFNAME=interface)
    return [NodeEnvironment(node, variables, "") for node, variables in variables_by_node.items()]
