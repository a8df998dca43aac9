"""Scripts and compose files that run the servers of one host in containers, with Ray inside if needed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from vllm_runbooks.catalog.options import ReleaseData
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan import executors, fleet
from vllm_runbooks.plan.fleet import Host, InstancePart
from vllm_runbooks.reading.deployment import (
    Deployment,
    references,
    to_compose,
    to_docker,
    to_shell,
    yaml_quoted,
)

RAY_NAME = "vllm-ray"
"""Container of Ray and the servers in it."""
_SHELL = "/bin/bash"


def why_no_ray(release: ReleaseData, image: str | None = None) -> str:
    """Why no Ray container can be written; empty if one can."""
    if image is not None or executors.brings_ray(release):
        return ""
    return (
        f"No container file for Ray: the published image of vLLM {release.asked} has no Ray. Use an image "
        "with vLLM and Ray, or install Ray on the hosts."
    )


def docker(parts: Sequence[InstancePart], notes: Sequence[str] = (), image: str | None = None) -> str:
    """Render a script that runs the instances of one host in containers and ends with all of them."""
    if any(part.joined for part in parts):
        raise InputError(fleet.NOT_IN_A_CONTAINER)
    needed = dict.fromkeys(name for part in parts for name in references(part.deployment))
    body = []
    for part in parts:
        deployment = _contained(part.deployment, image)
        command = _on_the_host(to_docker(deployment), part.name, part)
        body += ["", *fleet.comments(part.unwritten), *_run(references(deployment), part.log, command)]
    return fleet.script(parts, notes, list(needed), body)


def _contained(deployment: Deployment, image: str | None) -> Deployment:
    """Drop the GPU variables: a container numbers its GPUs anew."""
    kept = tuple(pair for pair in deployment.environment if pair[0] not in fleet.OF_CARDS)
    return replace(deployment, environment=kept, image=image or deployment.image)


def _on_the_host(command: str, name: str, part: InstancePart) -> str:
    """Give a `docker run` the host's network, a name and mounts."""
    head, port, rest = command.partition("  -p ")
    mounts = "".join(f"  -v {_mount(folder)} \\\n" for folder in fleet.folders(part))
    return f"{head}  --network=host \\\n  --name={name} \\\n{mounts}{rest.partition(chr(10))[2]}" if port else command


def _mount(pair: str) -> str:
    """Quote a mount; the shell expands the home folder."""
    return f'"$HOME"{shlex.quote(pair[1:])}' if pair.startswith("~/") else shlex.quote(pair)


def _run(needed: Sequence[str], log: str, command: str) -> list[str]:
    exports = [f'export {name}="${{{name}:?}}"' for name in needed]
    quoted = shlex.quote(log)
    return [*exports, f"keep {quoted}", f"{command.rstrip()} >{quoted} 2>&1 &"]


# Ray, and the servers that it joins hosts for, in one container of each host


def ray_docker(parts: Sequence[InstancePart], node: str, image: str | None = None, notes: Sequence[str] = ()) -> str:
    """Render a script for one host that runs Ray, and the host's servers, in one container."""
    deployment, mine, host = _ray_deployment(parts, node, image)
    command = _on_the_host(to_docker(deployment), RAY_NAME, parts[0])
    command = command.replace("  --name=", f"  --entrypoint {_SHELL} \\\n  --name=", 1)
    inside = shlex.quote(deployment.words[0] or "")
    command = command.replace(inside, f"-c {inside}", 1)
    needed = references(deployment)
    log = f"{RAY_NAME}-{host.node}.log"
    about = mine or [replace(parts[0], node=node, serves=False)]
    comment = fleet.comments([f"{node} joins the Ray cluster, in a container."])
    return fleet.script(about, notes, needed, ["", *comment, *_run(needed, log, command)])


def ray_compose(parts: Sequence[InstancePart], node: str, image: str | None = None, notes: Sequence[str] = ()) -> str:
    """Render a compose file for one host: one service with Ray and the host's servers."""
    deployment, mine, _ = _ray_deployment(parts, node, image)
    text = to_compose(deployment)
    head, _, rest = text.partition("    ports:\n")
    published = rest.partition("\n")[2]
    mounts = "".join(f"      - {yaml_quoted(pair)}\n" for pair in fleet.folders(parts[0]))
    shared = "    network_mode: host\n" + (f"    volumes:\n{mounts}" if mounts else "")
    head = head.replace("    command:\n", f'    entrypoint: ["{_SHELL}", "-c"]\n    command:\n', 1)
    lines = [*fleet.comments([f"{node} joins the Ray cluster, in a container.", *notes]), head + shared]
    server = next((part for part in mine if part.serves), None)
    health = "".join(f"{line}\n" for line in fleet.health(server)) if server is not None else ""
    return "\n".join(lines) + published + "    restart: on-failure\n" + health


def _ray_deployment(
    parts: Sequence[InstancePart], node: str, image: str | None
) -> tuple[Deployment, list[InstancePart], Host]:
    hosts = fleet.ray_hosts(parts)
    at = next(place for place, host in enumerate(hosts) if str(host.node) == node)
    host = hosts[at]
    mine = [part for part in parts if part.node == node]
    # Variables of this host alone are not for the server: vLLM would pass them to the workers of
    # all hosts.
    variables = "".join(f"{name}={shlex.quote(value)} " for name, value in host.environment)
    started = f"{variables}{fleet.ray_start(hosts, at, is_waited_for=not mine)}"
    commands = [to_shell(replace(part.deployment, environment=())) for part in mine]
    servers = [command.rstrip("\n").replace(" \\\n  ", " ") for command in commands]
    if len(servers) == 1:
        started = f"{started} && exec {servers[0]}"
    elif servers:
        started = f"{started} && {{ {' '.join(f'{server} &' for server in servers)} wait -n; }}"
    # The container's own Ray is found without it.
    environment = dict(pair for part in mine for pair in part.deployment.environment if pair[0] != fleet.RAY_ADDRESS)
    made = replace(
        _contained(parts[0].deployment, image),
        entry="image",
        words=(started,),
        raws=(),
        environment=tuple(environment.items()),
        gpus=host.devices,
        name=RAY_NAME,
    )
    return made, mine, host
