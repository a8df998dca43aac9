"""A layout as servers: one complete deployment per instance, and files for each host."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import filterfalse, islice
from typing import Any

from vllm_runbooks.catalog import host_commands
from vllm_runbooks.catalog.options import Option, ReleaseData, inner_type
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Edit
from vllm_runbooks.plan import executors
from vllm_runbooks.reading.deployment import (
    Deployment,
    EditRefusedError,
    references,
    systemd_quoted,
    to_compose,
    to_shell,
    to_systemd,
    yaml_quoted,
)
from vllm_runbooks.reading.documents import gpus

FIRST_PORT = 8000
_LAST_PORT = 65535
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
_DEVICE = re.compile(r"\d{1,4}\Z|(?:GPU|MIG)-[0-9a-fA-F-]{8,80}\Z", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}\Z", re.ASCII)
_PLACED = frozenset({
    "model", "model_tag", "host", "port", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
    "prefill_context_parallel_size", "nnodes", "node_rank", "master_addr", "master_port", "headless",
})  # fmt: skip
"""Arguments that the layout decides."""
KEY = "VLLM_API_KEY"
"""The only key of a server without --api-key (0.33.0 middleware/register.py:33)."""
_ALL_LINES = ("RAY_DEDUP_LOGS", "0")
"""Without it Ray's driver folds lines that differ only in numbers (_private/ray_constants.py)."""
_HOSTNAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?\Z", re.ASCII)


@dataclass(frozen=True)
class Host:
    devices: tuple[str, ...]
    """Indices as in nvidia-smi, or UUIDs."""
    node: str | None = None
    """Name for the other hosts; None for a single host."""
    address: str | None = None
    """Address for the other hosts; None to use the name."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables specific to this host, such as VLLM_HOST_IP."""

    @property
    def reached(self) -> str:
        """Address that the other hosts use."""
        return self.address or str(self.node)


@dataclass(frozen=True)
class ParallelSizes:
    tp: int = 1
    pp: int = 1
    dp: int = 1
    pcp: int = 1

    @property
    def cards(self) -> int:
        return self.tp * self.pp * self.dp * self.pcp

    @property
    def flags(self) -> dict[str, int]:
        """Arguments for the sizes above 1."""
        sizes = {
            "tensor_parallel_size": self.tp,
            "pipeline_parallel_size": self.pp,
            "data_parallel_size": self.dp,
            "prefill_context_parallel_size": self.pcp,
        }
        return {dest: size for dest, size in sizes.items() if size > 1}


@dataclass(frozen=True)
class InstancePart:
    """One host's part of an instance."""

    instance: int
    node: str | None
    port: int
    """Port of the instance, on its first host."""
    deployment: Deployment
    """With CUDA_VISIBLE_DEVICES, for a launch without a container."""
    serves: bool
    """Whether it gets requests; the other hosts only compute."""
    unwritten: tuple[str, ...] = ()
    joined: tuple[Host, ...] = ()
    """Hosts of the Ray cluster that it needs, with their GPUs."""
    host: Host | None = None

    @property
    def name(self) -> str:
        return self.deployment.name

    @property
    def log(self) -> str:
        """Log file of its script; hosts may share the folder."""
        return f"{self.name}-{self.node}.log" if self.node else f"{self.name}.log"

    @property
    def asked_at(self) -> str:
        """Host of the server in a URL on this machine."""
        words = self.deployment.words
        host = words[words.index("--host") + 1] if "--host" in words else None
        if host is None or host in _EVERYWHERE:
            return "127.0.0.1"
        return f"[{host}]" if ":" in host else host


def instances(
    model: str,
    release: ReleaseData,
    hosts: Sequence[Host],
    *,
    replicas: int = 1,
    split: ParallelSizes = ParallelSizes(),
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str | None] | None = None,
    first_port: int = FIRST_PORT,
    master_port: int | None = None,
    by_ray: bool = False,
    most: int | None = None,
) -> tuple[InstancePart, ...]:
    """Lay out the servers of a layout over hosts, in order; an instance stays on one host if it fits.

    At most the first `most` of them, by default all.

    On a single host a server listens on loopback, behind a proxy; on several by the host's name, with a key. `flags`
    are further arguments by dest; `master_port` and `first_port` count up per instance.
    """
    _check(hosts, replicas, split, first_port)
    if master_port is not None:
        _check_ports("ports between hosts", replicas, master_port)
    is_local = len(hosts) == 1
    variables = {**({} if is_local else {KEY: None}), **(environment or {})}
    _check_variables(variables)
    common = {dest: value for dest, value in (flags or {}).items() if dest not in _PLACED}
    keys = {"api_key": common.pop("api_key")} if common.get("api_key") else {}
    variables = {name: value for name, value in variables.items() if name != KEY or not keys}
    if keys and (isinstance(keys["api_key"], str) or len(keys["api_key"]) == 1):
        keys, variables = {}, {KEY: None, **variables}
    uses_ray = "ray" in (common.get("distributed_executor_backend"), common.get("data_parallel_backend"))
    parts: list[InstancePart] = []
    head: Host | None = None
    for number, hosts_used in enumerate(islice(_assigned(hosts, replicas, split), most)):
        port = first_port + number
        spread, unwritten = _spread(hosts_used, split, release, number, master_port, by_ray=by_ray)
        for at, host in enumerate(hosts_used):
            if at and not spread:
                break
            listens = "127.0.0.1" if is_local else host.reached
            listen = {"host": listens, "port": port} if not at else {}
            placed = {**listen, **split.flags, **(spread[at] if spread else {}), **common, **({} if at else keys)}
            # A host that only computes gets no requests, so it needs no API key.
            handed = {name: value for name, value in variables.items() if name != KEY or not at}
            is_joined = len(hosts_used) > 1 and not spread
            if is_joined:
                head = head or host
                placed["distributed_executor_backend"] = "ray"
            if is_joined or uses_ray:
                handed = {**dict([_ALL_LINES]), **handed}
            handed = {
                **(_driver_environment(hosts_used, head or host) if is_joined else dict(host.environment)),
                **handed,
            }
            # Ray assigns the GPUs that each host of its cluster was started with.
            devices = None if is_joined else host.devices
            deployment = _deployment(model, release, placed, handed, devices=devices, name=f"vllm-{port}")
            sentences = unwritten
            if not (is_local or host.address):
                reach = "must resolve, on every host including itself, to the address that the other hosts use."
                sentences = (*unwritten, f"{host.node} {reach}")
            cluster = tuple(hosts_used) if is_joined else ()
            parts.append(InstancePart(number, host.node, port, deployment, at == 0, sentences, cluster, host))
    return tuple(parts)


RAY_ADDRESS = "RAY_ADDRESS"
_OF_WORKERS = "VLLM_HOST_IP"
"""The only host variable that vLLM does not pass to its workers (0.32.0 ray_utils.py:33)."""


def _driver_environment(hosts: Sequence[Host], head: Host) -> dict[str, str]:
    """Variables of a server that Ray joins hosts for; its NCCL_ variables replace those of all workers."""
    pairs = [dict(host.environment) for host in hosts]
    first = {name: value for name, value in pairs[0].items() if all(others.get(name) == value for others in pairs)}
    if _OF_WORKERS in pairs[0]:
        first[_OF_WORKERS] = pairs[0][_OF_WORKERS]
    if head.address is None:
        return first
    # Without the address, Ray starts its own cluster if it finds none.
    return {RAY_ADDRESS: f"{_bracketed(head.address)}:{_RAY_PORT}", **first}


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def check_host(name: str | None) -> None:
    if name is not None and not _HOSTNAME.match(name):
        raise InputError(f"{name[:80]!r} is not a host name")


def _check(hosts: Sequence[Host], replicas: int, split: ParallelSizes, first_port: int) -> None:
    if min(replicas, split.tp, split.pp, split.dp, split.pcp) < 1:
        raise InputError("replicas and parallel sizes must be at least 1")
    _check_ports("ports", replicas, first_port)
    for host in hosts:
        wrong = next(filterfalse(_DEVICE.match, host.devices), None)
        if wrong is not None:
            raise InputError(f"{wrong[:80]!r} is not a GPU; use its index or UUID as printed by nvidia-smi")
        if len(set(host.devices)) < len(host.devices):
            raise InputError(f"a GPU of {host.node or 'the host'} is listed twice")
        check_host(host.node)
        check_host(host.address)
        _check_variables(dict(host.environment))
    nodes = [host.node for host in hosts]
    if len(nodes) > 1 and (None in nodes or len(set(nodes)) < len(nodes)):
        raise InputError("each of several hosts needs a name")


def _check_variables(names: Iterable[str]) -> None:
    wrong = next((name for name in names if not _VARIABLE.match(name)), None)
    if wrong is not None:
        raise InputError(f"{wrong[:80]!r} is not an environment variable name")


def _check_ports(what: str, count: int, first: int) -> None:
    if not 0 < first <= first + count - 1 <= _LAST_PORT:
        raise InputError(f"{count} {what} from {first} are not available; the last port is {_LAST_PORT}")


def _assigned(hosts: Sequence[Host], replicas: int, split: ParallelSizes) -> Iterator[list[Host]]:
    used = [0] * len(hosts)
    for _ in range(replicas):
        need = split.cards
        free = [len(host.devices) - taken for host, taken in zip(hosts, used, strict=True)]
        host_index = next((at for at, count in enumerate(free) if count >= need), None)
        order = range(len(hosts)) if host_index is None else [host_index]
        if sum(free[at] for at in order) < need:
            total = sum(len(host.devices) for host in hosts)
            raise InputError(f"{replicas} x {split.cards} GPUs needed, {total} available")
        hosts_used: list[Host] = []
        for at in order:
            count = min(need, free[at])
            if count:
                devices = tuple(hosts[at].devices[used[at] : used[at] + count])
                hosts_used.append(replace(hosts[at], devices=devices))
            used[at] += count
            need -= count
        yield hosts_used


def _spread(
    hosts: Sequence[Host],
    split: ParallelSizes,
    release: ReleaseData,
    number: int,
    master_port: int | None,
    *,
    by_ray: bool,
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Arguments per host of an instance, and notes; no arguments if Ray joins the hosts."""
    if len(hosts) == 1:
        return [], ()
    names = ", ".join(str(host.node) for host in hosts)
    how = executors.joining(release, [len(host.devices) for host in hosts], copies=split.dp)
    if how.by == "nnodes" and not by_ray:
        many: dict[str, Any] = {"nnodes": len(hosts), "master_addr": hosts[0].reached}
        if number or master_port is not None:
            default = release.by_dest["master_port"].default
            many["master_port"] = (master_port or (default if isinstance(default, int) else 29501)) + number
        sentences = [together([str(host.node) for host in hosts])]
        if not all(host.environment for host in hosts):
            sentences.append("If hosts have several networks, set VLLM_HOST_IP and NCCL_SOCKET_IFNAME on each.")
        heads: list[dict[str, Any]] = [{**many, "node_rank": at} for at in range(len(hosts))]
        return [heads[0], *({**head, "headless": True} for head in heads[1:])], tuple(sentences)
    why = "" if split.dp == 1 else " with data parallelism"
    scripts = ", ".join(f"{_RAY_SCRIPT.format(host.node)} on {host.node}" for host in hosts)
    joined = (
        f"This instance{why} uses GPUs of {names}. Join these hosts in one Ray cluster before you start it: "
        f"{scripts}, in this order. `ray stop` on each host ends it."
    )
    return [], (joined, "All hosts need the same releases of vLLM, Ray and Python.", NOT_IN_A_CONTAINER)


def together(nodes: Sequence[str]) -> str:
    """Note to launch the parts of an instance together."""
    listed = ", ".join(nodes)
    return f"Start the parts of this instance on {listed} at about the same time; each waits for the others."


NOT_IN_A_CONTAINER = (
    "In containers, Ray must run in the server's container: otherwise the server does not find "
    "it and starts a new Ray without the other hosts' GPUs."
)


CHOOSES_GPUS = ("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES")
"""Variables of a launch for the order and the numbers of its GPUs."""


def _deployment(
    model: str,
    release: ReleaseData,
    flags: Mapping[str, Any],
    environment: Mapping[str, str | None],
    *,
    devices: tuple[str, ...] | None,
    name: str,
) -> Deployment:
    # In this order CUDA has the same indices as nvidia-smi.
    seen = {} if devices is None else dict(zip(CHOOSES_GPUS, ("PCI_BUS_ID", ",".join(devices)), strict=True))
    made = Deployment(
        entry="serve",
        words=(),
        environment=tuple({**environment, **seen}.items()),
        gpus=devices,
        name=name,
        release=release.asked,
    )
    for dest, value in [("model", model), *flags.items()]:
        try:
            made = made.edited([Edit("set", dest, _as_read(value, release.by_dest.get(dest)))], release)
        except EditRefusedError:
            raise InputError(f"vLLM {release.asked} has no --{dest.replace('_', '-')}") from None
    return made


def _as_read(value: Any, option: Option | None) -> Any:
    """Write a mapping as KEY=INTEGER pairs for releases that parse those."""
    if option is not None and isinstance(value, Mapping) and inner_type(option.type) == "int_pairs":
        return ",".join(f"{key}={number}" for key, number in value.items())
    return value


def shell(parts: Sequence[InstancePart], notes: Sequence[str] = ()) -> str:
    """Render a script that launches the instances of one host and exits with all of them."""
    needed = dict.fromkeys(name for part in parts for name in references(_bare(part)))
    body = [line for part in parts for line in ("", *comments(part.unwritten), *_started(part))]
    return script(parts, notes, list(needed), body)


def script(parts: Sequence[InstancePart], notes: Sequence[str], needed: Sequence[str], body: Sequence[str]) -> str:
    """Render a script around lines that launch background programs.

    It first checks the required variables.
    """
    check_one_host(parts)
    lines = [
        "#!/usr/bin/env bash",
        f"# {title(parts)}.",
        *comments(notes),
        "# Each server has its own log. When one ends, or this script is stopped, all end.",
        "set -u",
        # Set before the first launch, so that a signal between two launches also ends the first.
        "trap 'kill $(jobs -p) 2>/dev/null; wait; exit 143' INT TERM",
        "# The log of an earlier launch is kept, with its time after its name.",
        'keep() { [ ! -e "$1" ] || mv "$1" "$1.$(date -r "$1" +%Y%m%d-%H%M%S)"; }',
    ]
    if needed:
        lines.append(f"# Set before: {', '.join(needed)}.")
    return "\n".join([*lines, *body, "", *_ENDING]) + "\n"


_ENDING = (
    "# The status is that of the server that ended first; bash has `wait -n` since 4.3.",
    "wait -n",
    "status=$?",
    "# shellcheck disable=SC2046 # each job is a separate word",
    "kill $(jobs -p) 2>/dev/null",
    "wait",
    'exit "$status"',
)


def comments(sentences: Sequence[str]) -> list[str]:
    return [f"# {' '.join(sentence.split())}" for sentence in sentences]


def _bare(part: InstancePart) -> Deployment:
    return replace(part.deployment, environment=tuple((name, None) for name in part.deployment.handed))


def _started(part: InstancePart) -> list[str]:
    """Launch one instance in the background, with its own variables before the command."""
    bare = _bare(part)
    handed = dict(bare.environment)
    pairs = part.deployment.environment
    settings = [f"{name}={shlex.quote(value)} \\" for name, value in pairs if value is not None and name not in handed]
    *exports, command = to_shell(bare).rstrip("\n").split("\n", len(handed))
    log = shlex.quote(part.log)
    return [*exports, f"keep {log}", *settings, f"{command} >{log} 2>&1 &"]


_RAY_SCRIPT = "ray-{}.sh"
_RAY_PORT = 6379
"""Default port of a Ray head (`ray start --help`)."""


def _joining(parts: Sequence[InstancePart]) -> dict[str, str]:
    hosts, commands = ray_hosts(parts), {}
    for at, host in enumerate(hosts):
        variables = "".join(f"{name}={shlex.quote(value)} \\\n" for name, value in ray_environment(host))
        commands[str(host.node)] = f"{variables}{ray_start(hosts, at)}\n"
    return commands


def ray_hosts(parts: Sequence[InstancePart]) -> list[Host]:
    """Hosts of the Ray cluster with their GPUs, the head first."""
    merged: dict[str, Host] = {}
    for part in parts:
        for host in part.joined:
            before = merged.get(str(host.node), replace(host, devices=()))
            devices = dict.fromkeys((*before.devices, *host.devices))
            merged[str(host.node)] = replace(before, devices=tuple(devices))
    return list(merged.values())


def ray_environment(host: Host) -> list[tuple[str, str]]:
    devices = ",".join(host.devices)
    return [*host.environment, *zip(CHOOSES_GPUS, ("PCI_BUS_ID", devices), strict=True)]


def ray_start(hosts: Sequence[Host], at: int, *, is_waited_for: bool = False) -> str:
    """Command that joins a host to the Ray cluster; the first host is the head."""
    host, head, values = hosts[at], hosts[0], {"port": f"{_RAY_PORT}", "number": f"{len(hosts[at].devices)}"}
    name = "ray-head" if not at else "ray-join"
    if at:
        values["url_host"] = _bracketed(head.reached)
    if host.address is not None:
        name, values["address"] = f"{name}-at", host.address
    return host_commands.line(f"{name}-block" if is_waited_for else name, **values)


def ray(parts: Sequence[InstancePart]) -> dict[str, str]:
    """Render a script per host that joins the Ray cluster, by file name."""
    heading = "# {} joins the Ray cluster with its GPUs. `ray stop` ends it."
    return {
        _RAY_SCRIPT.format(node): f"#!/usr/bin/env bash\n{heading.format(node)}\nset -u\n{command}"
        for node, command in _joining(parts).items()
    }


def shown(parts: Sequence[InstancePart]) -> str:
    """Shell commands of one instance, per host."""
    if len(parts) == 1 and not parts[0].joined:
        return to_shell(parts[0].deployment)
    commands = [*_joining(parts).items(), *((str(part.node), to_shell(part.deployment)) for part in parts)]
    return "\n".join(f"# On {node}:\n{command}" for node, command in commands)


def compose(parts: Sequence[InstancePart], notes: Sequence[str] = ()) -> str:
    """Render a compose file with a service for each instance of one host, on the host's network."""
    check_one_host(parts)
    if any(part.joined for part in parts):
        raise InputError(NOT_IN_A_CONTAINER)
    lines = [f"# {title(parts)}.", *comments([*notes, *(sentence for part in parts for sentence in part.unwritten)])]
    lines.append("services:")
    for part in parts:
        kept = tuple(pair for pair in part.deployment.environment if pair[0] not in OF_CARDS)
        text = to_compose(replace(part.deployment, environment=kept))
        port = str(part.port if part.serves else FIRST_PORT)
        published = f'    ports:\n      - "{port}:{port}"\n'
        mounts = "".join(f"      - {yaml_quoted(pair)}\n" for pair in folders(part))
        shared = "    network_mode: host\n" + (f"    volumes:\n{mounts}" if mounts else "")
        lines += text.removeprefix("services:\n").replace(published, shared, 1).rstrip().split("\n")
        lines += ["    restart: on-failure", *(health(part) if part.serves else ())]
    return "\n".join(lines) + "\n"


OF_CARDS = frozenset({*gpus.VARIABLES, "CUDA_DEVICE_ORDER"})
"""GPU variables; a container numbers its GPUs anew, so it does not need them."""


_CACHE = "~/.cache/huggingface"
_CACHE_INSIDE = "/root/.cache/huggingface"
"""Cache of the image's user (docs/deployment/docker.md)."""
_CACHE_MOVED = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME")


def folders(part: InstancePart) -> list[str]:
    """Mounts: the host's cache of weights, and the model's folder."""
    words, environment = part.deployment.words, dict(part.deployment.environment)
    named = [environment.get(name) for name in _CACHE_MOVED]
    named += [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--download-dir"]
    named += [word for word in words[:1] if word and word.startswith("/")]
    inside = [folder for folder in dict.fromkeys(named) if folder and folder.startswith("/")]
    is_moved = any(name in environment for name in _CACHE_MOVED)
    return [*([] if is_moved else [f"{_CACHE}:{_CACHE_INSIDE}"]), *(f"{folder}:{folder}" for folder in inside)]


def health(part: InstancePart) -> list[str]:
    command = host_commands.argv("health-by-python", url_host=part.asked_at, port=str(part.port))
    test = ", ".join(yaml_quoted(word) for word in ("CMD", *command))
    lines = [
        "    healthcheck:",
        f"      test: [{test}]",
        "      interval: 15s",
        "      timeout: 15s",
        "      retries: 4",
    ]
    note = "      # Loading, compiling and capturing: a failure counts only afterwards."
    return [*lines, note, "      start_period: 30m"]


def systemd(parts: Sequence[InstancePart], notes: Sequence[str] = ()) -> dict[str, str]:
    """Render a unit for each instance of one host, by file name."""
    check_one_host(parts)
    notes_of = {part.name: "".join(f"{line}\n" for line in comments([*notes, *part.unwritten])) for part in parts}
    return {f"{part.name}.service": notes_of[part.name] + _unit(part) for part in parts}


_SECRETS = "EnvironmentFile=/etc/vllm.env\n"


RAY_UNIT = "vllm-ray.service"


def ray_units(parts: Sequence[InstancePart]) -> dict[str, str]:
    """Render the unit that joins a host to the Ray cluster, by host."""
    hosts = ray_hosts(parts)
    units = {}
    for at, host in enumerate(hosts):
        variables = [f"{name}={value}" for name, value in ray_environment(host)]
        lines = ["[Unit]", f"Description=Ray on {host.node}, for vLLM", "Wants=network-online.target"]
        lines += ["After=network-online.target", "", "[Service]"]
        lines += [f"Environment={systemd_quoted(variable, is_command=False)}" for variable in variables]
        lines += [f"ExecStart=/usr/bin/env {ray_start(hosts, at, is_waited_for=True)}"]
        lines += ["# A host that starts before its head tries again.", "Restart=on-failure", "RestartSec=5", ""]
        units[str(host.node)] = "\n".join([*lines, "[Install]", "WantedBy=multi-user.target"]) + "\n"
    return units


def _unit(part: InstancePart) -> str:
    """Require the variables: a server without its key would answer everyone."""
    text = to_systemd(part.deployment).replace("Description=vLLM\n", f"Description={_described(part)}\n", 1)
    after = "After=network-online.target\n"
    text = text.replace(after, f"Wants=network-online.target\n{after}", 1)
    if part.joined:
        text = text.replace("\n\n[Service]\n", f"\nRequires={RAY_UNIT}\nAfter={RAY_UNIT}\n\n[Service]\n", 1)
    needed = references(part.deployment)
    # systemd makes $$ a $, so that the shell looks into its environment and no process shows the value.
    are_set = " && ".join(f'[ -n "$${name}" ]' for name in needed)
    comment = f"# It sets: {', '.join(needed)}; a line NAME=value each, readable by root alone.\n"
    return text.replace(_SECRETS, f"{comment}{_SECRETS}ExecStartPre=/bin/sh -c '{are_set}'\n", 1)


def _described(part: InstancePart) -> str:
    """Describe a unit; systemd reads % as a specifier."""
    model = str(part.deployment.words[0]).replace("%", "%%")
    return f"vLLM: {model}, " + (f"port {part.port}" if part.serves else f"GPUs for the server on port {part.port}")


def check_one_host(parts: Sequence[InstancePart]) -> None:
    if not parts or len({part.node for part in parts}) > 1:
        raise InputError("a file contains the instances of one host; use the instances of one host")


def title(parts: Sequence[InstancePart]) -> str:
    node = f" on {parts[0].node}" if parts[0].node else ""
    serving, computing = ([str(part.port) for part in parts if part.serves is serves] for serves in (True, False))
    phrases = []
    if serving:
        phrases.append(f"{len(serving)} instance{'s' * (len(serving) > 1)} of vLLM{node}, {_ports(serving)}")
    if computing:
        servers = f"the server{'s' * (len(computing) > 1)} on {_ports(computing)} of another host"
        phrases.append(f"{'' if serving else f'vLLM{node}: '}GPUs for {servers}, without a server on this host")
    return "; ".join(phrases)


def _ports(ports: Sequence[str]) -> str:
    return f"port{'s' * (len(ports) > 1)} {', '.join(ports)}"
