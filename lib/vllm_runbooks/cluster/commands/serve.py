"""`vllm-runbooks serve` over several nodes."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

import click

from vllm_runbooks.core.console import output
from vllm_runbooks.core.redaction.places import names_secret

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from vllm_runbooks.host.running import Show
    from vllm_runbooks.probe.starts import Guarded
    from vllm_runbooks.serve.guard import LaunchRequest
    from vllm_runbooks.serve.subject import ServedLaunch

PROBE_EVERY_S = 30.0
"""Default time between two requests to a ready server."""
_FOLLOWS = ("--host", "--nnodes", "--node-rank", "-r", "--master-addr", "--headless")


def start(
    words: tuple[str, ...],
    request: Callable[..., LaunchRequest],
    *,
    pythons: tuple[str, ...],
    environment: tuple[str, ...],
    vllm: str | None,
    gpu_memory: str,
    show: Show,
    say: Callable[[str], None],
    told: Callable[[ServedLaunch], AbstractContextManager[Callable[[Guarded], None]]],
    **where: Any,
) -> Guarded:
    """Launch a model over the nodes that answer.

    `words` are the model and options of `vllm serve`; `request` makes a request of its subject and source; `say`
    prints a line of the supervisor; `told` records the launch in the history; `where` are the nodes as for
    `named.open_carrier`. The rest is as on the command line.
    """
    from vllm_runbooks.cluster import named, starting_nodes
    from vllm_runbooks.plan import fleet
    from vllm_runbooks.probe.starts import Guarded, LaunchResult
    from vllm_runbooks.serve import guard as guarded_start
    from vllm_runbooks.serve.subject import ServedLaunch

    model, arguments, ports = _read(words)
    programs = named.read_pythons(pythons)
    variables = dict(_variable(text) for text in environment)
    subject = ServedLaunch(("vllm", "serve", model, *arguments), {**os.environ, **variables}, vllm)
    subject.found  # noqa: B018 - asked for its error, before any node is
    starting_nodes.required(fleet.KEY, subject.variables)
    with (
        named.open_carrier(**where) as carrier,
        told(subject) as tell,
    ):
        launch = starting_nodes.ClusterLaunch(
            model=model,
            arguments=arguments,
            vllm=vllm,
            environment=variables,
            pythons=named.pythons_by_node(carrier, programs),
            port=ports.get("--port", 8000),
            master_port=ports.get("--master-port"),
            gpu_memory=gpu_memory,
            request=request(subject=subject, source=None, why_none="each node reads its own GPUs"),
        )
        looked = starting_nodes.measure_nodes(carrier, launch, output.say)
        if looked.check.result is LaunchResult.FAILED:
            # A plan for such nodes is useless.
            output.say(f"nodes: failed: {looked.check.message}")
            output.say("--skip nodes launches anyway")
            result = Guarded(uuid.uuid4().hex, vllm, (looked.check,), (), status=1)
        else:
            result = guarded_start.serve(
                starting_nodes.PlannedClusterLaunch(carrier, launch, looked).request, show=show, say=say
            )
        tell(result)
        return result


def _read(words: tuple[str, ...]) -> tuple[str, tuple[str, ...], dict[str, int]]:
    """The model, its options, and the ports among them."""
    if words[:2] == ("vllm", "serve"):
        words = words[2:]
    if not words or words[0].startswith("-"):
        raise click.UsageError("For several nodes, use MODEL followed by the options of `vllm serve`.")
    model, *rest = words
    for word in rest:
        name = word.partition("=")[0].replace("_", "-")
        if name in _FOLLOWS:
            raise click.UsageError(f"{name} is set from the nodes; remove it.")
        if name == "--api-key":
            raise click.UsageError("--api-key would be visible in the command; set VLLM_API_KEY instead.")
    ports = {}
    for at, word in enumerate(rest):
        name, sign, value = word.partition("=")
        if (name := name.replace("_", "-")) in ("--port", "--master-port"):
            number = value if sign else rest[at + 1] if at + 1 < len(rest) else ""
            if not number.isdecimal() or not 0 < int(number[:6]) < 1 << 16:
                raise click.UsageError(f"{name} {number[:40]!r}: is not a port; use 1 to 65535.")
            ports[name] = int(number)
    return model, tuple(rest), ports


def _variable(text: str) -> tuple[str, str]:
    """A variable as `--env` names it: without a value it is that of this process."""
    name, sign, value = text.partition("=")
    if sign and names_secret(name):
        raise click.UsageError(
            f"--env: the value of {name[:80]} would be visible in the process list; set it in this "
            "shell and use only its name."
        )
    setting = value if sign else os.environ.get(name)
    if not name or setting is None:
        raise click.UsageError(f"--env {name[:80]}: is not set in this shell; write NAME=VALUE.")
    return name, setting
