"""Copies of one server behind nginx, and one server split over GPUs."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from vllm_runbooks.catalog import host_commands
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import store
from vllm_runbooks.core.records import Edit
from vllm_runbooks.host import ports
from vllm_runbooks.host.running import SupervisedCommand
from vllm_runbooks.plan import proxy
from vllm_runbooks.probe.asking import Target, is_open
from vllm_runbooks.probe.health_checks import answered as requests_answered
from vllm_runbooks.probe.starts import Fleet, Guarded, LaunchChange, LoadResult
from vllm_runbooks.runbooks import steps
from vllm_runbooks.runbooks.live import starting
from vllm_runbooks.runbooks.live.side_by_side import Servers
from vllm_runbooks.runbooks.live.starting import READY_S, Say
from vllm_runbooks.serve import guard as serve
from vllm_runbooks.serve import load as loads
from vllm_runbooks.serve import preflight
from vllm_runbooks.serve.load import Load
from vllm_runbooks.serve.subject import ServedLaunch

_TICK_S = 0.2
_PROXY_S = 10.0
_MOST = 64


def fleet(
    command: str,
    *,
    copies: int = 2,
    step: str = "copies",
    gpus: str = "",
    vllm: str = "",
    load: Load | None = None,
    folder: str = "",
    ready_within_s: float = READY_S,
    say: Say = print,
) -> Fleet:
    """Launch copies of the command's server, send a load through nginx, and stop them.

    Each copy has its own port and the next GPUs, or a share of the cores; the other arguments are
    those of `start`.
    """
    launch, cards = starting.subject(command, vllm), starting.cards_of("")
    load, ones = load or Load(), _copies(launch, cards, copies)

    def action() -> Fleet:
        place = starting.place_of(step, folder)
        requests = [
            starting.request(copy, cards, gpus, ready_within_s, place / f"server-{number}")
            for number, copy in enumerate(ones, 1)
        ]
        return _together(requests, load, place, say)

    return steps.do(
        step,
        action,
        Fleet,
        asked=([copy.argv for copy in ones], launch.vllm, gpus, load),
        is_done=lambda result: all(map(starting.is_whole, result.servers)),
        timeout_s=ready_within_s + starting.AROUND_S,
    )


def split(
    command: str,
    *,
    parts: int = 2,
    step: str = "split",
    gpus: str = "",
    vllm: str = "",
    load: Load | None = None,
    folder: str = "",
    ready_within_s: float = READY_S,
    say: Say = print,
) -> Guarded:
    """Launch the command's server with tensor parallelism over `parts` GPUs or parts of the cores.

    The other arguments are those of `start`.
    """
    _check_count(parts, "parts")
    launch = starting.subject(command, vllm)
    change = LaunchChange("", f"--tensor-parallel-size {parts}", "", _over(launch, starting.cards_of(""), parts))
    options = starting.LaunchOptions(step, gpus, folder, ready_within_s, load=load or Load())
    return starting.done(launch.edited(change.edits), options, change, say)


def check(
    command: str, *, setting: str | None = None, parts: int | None = None, vllm: str = "", load: Load | None = None
) -> None:
    """Run the checks before a launch, for the arguments of `start` and `split`."""
    launch = starting.subject(command, vllm)
    if load is not None:
        starting.check_load(launch)
    if setting is not None:
        launch.edited(starting.edits_of(launch, setting))
    if parts is not None:
        cards = starting.cards_of("")
        _copies(launch, cards, parts)
        launch.edited(_over(launch, cards, parts))


def _check_count(count: int, name: str) -> None:
    if type(count) is not int or not 2 <= count <= _MOST:
        raise InputError(f"{name} is {count!r}; use a whole number from 2 to {_MOST}")


def _over(launch: ServedLaunch, cards: starting.GpuReadings, parts: int) -> tuple[Edit, ...]:
    size = Edit("set", "tensor_parallel_size", parts)
    return (size, *placed(launch.edited([size]), cards, 1)[0])


def _copies(launch: ServedLaunch, cards: starting.GpuReadings, copies: int) -> list[ServedLaunch]:
    _check_count(copies, "copies")
    starting.check_load(launch)
    if launch.target.is_tls:
        raise InputError(f"{launch.shown}: the proxy connects to its servers without TLS; remove --ssl-*")
    if launch.is_container:
        raise InputError(
            f"{launch.shown}: container ports cannot be changed; use the command that runs in the container"
        )
    _nginx()
    return [
        launch.edited([Edit("set", "port", launch.target.port + number), *share])
        for number, share in enumerate(placed(launch, cards, copies))
    ]


def _nginx() -> str:
    path = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if path is None:
        raise InputError("nginx is not installed on this host; install it, replicas need a proxy")
    return path


def placed(launch: ServedLaunch, cards: starting.GpuReadings, copies: int) -> list[tuple[Edit, ...]]:
    """Variables that give each copy its GPUs, or its cores if there are none."""
    per_copy = launch.cards
    if cards.source is not None and (gpus := preflight.visible_cards(launch, cards.source)):
        if len(gpus) < copies * per_copy:
            raise InputError(f"{copies} x {per_copy} GPUs needed, but this host has {len(gpus)} available")
        numbers = [f"{card.index}" for card in gpus]
        # The indices are the driver's; by default CUDA counts the fastest first.
        order = Edit("env", "CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        return [
            (order, Edit("env", "CUDA_VISIBLE_DEVICES", ",".join(numbers[at : at + per_copy])))
            for at in range(0, copies * per_copy, per_copy)
        ]
    cores = sorted(os.sched_getaffinity(0))
    size = len(cores) // (copies * per_copy)
    if not size:
        raise InputError(f"{copies} x {per_copy} ranks need one core each, but only {len(cores)} are available")
    parts = [",".join(map(str, cores[at * size : (at + 1) * size])) for at in range(copies * per_copy)]
    return [
        (Edit("env", "VLLM_CPU_OMP_THREADS_BIND", "|".join(parts[at : at + per_copy])),)
        for at in range(0, len(parts), per_copy)
    ]


def _together(requests: Sequence[serve.LaunchRequest], load: Load, place: Path, say: Say) -> Fleet:
    measured: LoadResult | None = None
    answered: list[int | None] = []
    front = ""
    servers = Servers({f"server {number}": server for number, server in enumerate(requests, 1)})
    try:
        if servers.wait(say):
            subjects = [server.subject for server in requests]
            with _proxy([server.target for server in subjects], place / "proxy", say) as front:
                target = replace(subjects[0].target, port=int(front.rpartition(":")[2]), is_tls=False)
                before = [requests_answered(server.target, catalog.serving()) for server in subjects]
                measured = loads.measure(load, subjects[0], target, place)
                after = [requests_answered(server.target, catalog.serving()) for server in subjects]
                answered = [
                    None if first is None or last is None else last - first
                    for first, last in zip(before, after, strict=True)
                ]
    finally:
        launches = servers.end(say)
    for launch in launches:
        starting.record(launch, say)
    starting.keep_commands(place, launches, [measured], say)
    return Fleet(tuple(launches), front, tuple(answered), measured, str(place))


@contextmanager
def _proxy(targets: Sequence[Target], folder: Path, say: Say) -> Iterator[str]:
    folder.mkdir(parents=True)
    listen = proxy.ProxyServer("127.0.0.1", ports.free("127.0.0.1"))
    servers = [proxy.ProxyServer(server.host, server.port) for server in targets]
    store(folder / "servers.conf", proxy.nginx(servers, listen=listen, is_whole=False))
    store(folder / "nginx.conf", _frame(folder))
    _, *words = host_commands.argv("nginx-run", path=str(folder / "nginx.conf"))
    with SupervisedCommand([_nginx(), *words], folder=folder) as running, _drained(running, folder / "nginx.log"):
        until = time.monotonic() + _PROXY_S
        target = Target(listen.host, listen.port)
        try:
            while not is_open(target):
                if time.monotonic() >= until:
                    raise InputError(f"nginx does not listen on {listen}; see {folder / 'nginx.log'}")
                time.sleep(_TICK_S)
            say(f"nginx listens on {target.place}, in front of {', '.join(server.place for server in targets)}")
            yield target.place
        finally:
            running.stop(signal.SIGTERM, "was stopped after the load")


def _frame(folder: Path) -> str:
    """The nginx.conf around the servers' file; everything is written into the folder."""
    name = str(folder)
    if any(c in name for c in "\"'\\$;{}#\n\r\t"):
        raise InputError(f"{name}: nginx does not support this folder name; use only letters and digits")
    user = ""
    if os.geteuid() == 0:
        import pwd  # not on every system

        user = f"user {pwd.getpwuid(0).pw_name};\n"  # otherwise its workers cannot enter the folder
    temporary = "".join(
        f'    {kind}_temp_path "{name}/{kind}";\n' for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        f'{user}daemon off;\nworker_processes 1;\npid "{name}/nginx.pid";\nerror_log stderr;\nevents {{\n}}\n'
        f'http {{\n    access_log "{name}/access.log";\n{temporary}    include "{name}/servers.conf";\n}}\n'
    )


@contextmanager
def _drained(running: SupervisedCommand, log: Path) -> Iterator[None]:

    def drain() -> None:
        with log.open("wb") as file:
            for chunk in running.chunks():
                file.write(chunk)

    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(_PROXY_S)
