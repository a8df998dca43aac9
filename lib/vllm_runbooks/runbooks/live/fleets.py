"""Copies of one server, started together, each on its own part of the host, behind a real proxy that shares a load."""

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

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core import host_commands
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import store
from vllm_runbooks.core.records import Edit
from vllm_runbooks.host import ports
from vllm_runbooks.host.running import Running
from vllm_runbooks.plan import proxy
from vllm_runbooks.probe import probing as probe
from vllm_runbooks.probe.starts import Change, Fleet, Guarded, Measured
from vllm_runbooks.runbooks import steps
from vllm_runbooks.runbooks.live import starting
from vllm_runbooks.runbooks.live.side_by_side import Servers
from vllm_runbooks.runbooks.live.starting import READY_S, Say
from vllm_runbooks.serve import guard as serve
from vllm_runbooks.serve import load as loads
from vllm_runbooks.serve import preflight
from vllm_runbooks.serve.load import Load
from vllm_runbooks.serve.subject import Subject

_TICK_S = 0.2
_PROXY_S = 10.0
"""Time for the proxy to listen."""
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
    """Start so many copies of the command's server, share a load among them through nginx, and end them.

    Each copy has a port of its own, from the command's on, and the next cards; without cards its share of the cores.

    Args:
        command: As one would type it.
        copies: How many, from 2 on.
        step: Name of the step.
        gpus: The cards of one copy, for its plan; empty are those of this host.
        vllm: Its release; empty is the one that its Python has.
        load: What is sent through the proxy.
        folder: Where each one's log, report and case go; empty is the run's own folder, or one among those of all
            starts.
        ready_within_s: Time to be ready in.
        say: Says a line of a guard or of this.

    Raises:
        InputError: the command starts no server, the host has too few cards or cores, or there is no nginx.
    """
    one, cards = starting.subject(command, vllm), starting.cards_of("")
    load, ones = load or Load(), _copies(one, cards, copies)

    def action() -> Fleet:
        place = starting.place_of(step, folder)
        requests = [
            serve.Request(
                subject=each,
                source=cards.source,
                why_none=cards.why_none,
                gpus=gpus or None,
                limits=serve.Limits(ready_s=ready_within_s),
                folder=place / f"server-{number}",
            )
            for number, each in enumerate(ones, 1)
        ]
        return _together(requests, load, place, say)

    return steps.do(
        step,
        action,
        Fleet,
        asked=([each.argv for each in ones], one.vllm, gpus, load),
        is_done=lambda found: all(map(starting.is_whole, found.servers)),
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
    """Start the command's server split over so many cards by tensor parallelism; without cards over parts of the cores.

    Args:
        command: As one would type it.
        parts: How many, from 2 on.
        step: Name of the step.
        gpus: The cards, for the plan; empty are those of this host.
        vllm: Its release; empty is the one that its Python has.
        load: What is sent to it when it is ready.
        folder: Where log, report and case go; empty is the run's own folder, or one among those of all starts.
        ready_within_s: Time to be ready in.
        say: Says a line of the guard.

    Raises:
        InputError: the command starts no server, or the host has too few cards or cores.
    """
    _check_count(parts, "parts")
    one = starting.subject(command, vllm)
    change = Change("", f"--tensor-parallel-size {parts}", "", _over(one, starting.cards_of(""), parts))
    asked = starting.Asked(step, gpus, folder, ready_within_s, load=load or Load())
    return starting.done(one.edited(change.edits), asked, change, say)


def check(one: Subject, parts: int) -> None:
    """See that so many copies of a command's server, and one split over so many cards, can be started.

    Raises:
        InputError: why not.
    """
    cards = starting.cards_of("")
    _copies(one, cards, parts)
    one.edited(_over(one, cards, parts))


def _check_count(count: int, name: str) -> None:
    """Refuse a number that makes nothing of several.

    Raises:
        InputError: it is none from 2 on.
    """
    if type(count) is not int or not 2 <= count <= _MOST:
        raise InputError(f"{name} is {count!r}; give a whole number from 2 to {_MOST}")


def _over(one: Subject, cards: starting.Cards, parts: int) -> tuple[Edit, ...]:
    """What splits the command's server over so many cards.

    Raises:
        InputError: there are too few of them.
    """
    size = Edit("set", "tensor_parallel_size", parts)
    return (size, *placed(one.edited([size]), cards, 1)[0])


def _copies(one: Subject, cards: starting.Cards, copies: int) -> list[Subject]:
    """The command so many times, each with a port and a share of the host of its own.

    Raises:
        InputError: there is too little of the host, or copies cannot stand behind a proxy.
    """
    _check_count(copies, "copies")
    starting.check_load(one)
    if one.target.is_tls:
        raise InputError(f"{one.shown}: the proxy speaks to its servers without TLS; leave --ssl-* away for this")
    if one.is_container:
        raise InputError(f"{one.shown}: the ports of containers are not changed; give the command that runs in one")
    _nginx()
    return [
        one.edited([Edit("set", "port", one.target.port + number), *share])
        for number, share in enumerate(placed(one, cards, copies))
    ]


def _nginx() -> str:
    """Where nginx is; on some systems not on the path of those who may run it all the same.

    Raises:
        InputError: nowhere.
    """
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise InputError("nginx is not installed on this host, and copies need a proxy; install it")
    return found


def placed(one: Subject, cards: starting.Cards, copies: int) -> list[tuple[Edit, ...]]:
    """The variables that give each copy its cards; without cards its cores, a part for each of its ranks.

    Raises:
        InputError: there are too few of them.
    """
    each = one.cards
    if cards.source is not None and (there := preflight.visible_cards(one, cards.source)):
        if len(there) < copies * each:
            raise InputError(f"{copies} x {each} cards are needed, and this host has {len(there)} to give")
        numbers = [f"{card.index}" for card in there]
        # Their numbers are the driver's; without this CUDA counts the fastest first.
        order = Edit("env", "CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        return [
            (order, Edit("env", "CUDA_VISIBLE_DEVICES", ",".join(numbers[at : at + each])))
            for at in range(0, copies * each, each)
        ]
    cores = sorted(os.sched_getaffinity(0))
    size = len(cores) // (copies * each)
    if not size:
        raise InputError(f"{copies} x {each} ranks are to run on {len(cores)} cores; each needs one")
    parts = [",".join(map(str, cores[at * size : (at + 1) * size])) for at in range(copies * each)]
    return [
        (Edit("env", "VLLM_CPU_OMP_THREADS_BIND", "|".join(parts[at : at + each])),)
        for at in range(0, len(parts), each)
    ]


def _together(requests: Sequence[serve.Request], load: Load, place: Path, say: Say) -> Fleet:
    """Start all, and when the last one is ready send the load through a proxy."""
    measured: Measured | None = None
    answered: list[int | None] = []
    front = ""
    servers = Servers({f"server {number}": each for number, each in enumerate(requests, 1)})
    try:
        if servers.wait(say):
            subjects = [each.subject for each in requests]
            with _proxy([each.target for each in subjects], place / "proxy", say) as front:
                target = replace(subjects[0].target, port=int(front.rpartition(":")[2]), is_tls=False)
                before = [probe.answered(each.target, catalog.serving()) for each in subjects]
                measured = loads.measure(load, subjects[0], target, place)
                after = [probe.answered(each.target, catalog.serving()) for each in subjects]
                answered = [
                    None if first is None or last is None else last - first
                    for first, last in zip(before, after, strict=True)
                ]
    finally:
        found = servers.end(say)
    for one in found:
        starting.record(one, say)
    starting.keep_commands(place, found, [measured], say)
    return Fleet(tuple(found), front, tuple(answered), measured, str(place))


@contextmanager
def _proxy(targets: Sequence[probe.Target], folder: Path, say: Say) -> Iterator[str]:
    """A real nginx in front of the servers, with the file that a deployment has; yields where it answers.

    Raises:
        InputError: there is no nginx, or it does not take its file.
    """
    folder.mkdir(parents=True)
    listen = proxy.Server("127.0.0.1", ports.free("127.0.0.1"))
    servers = [proxy.Server(each.host, each.port) for each in targets]
    store(folder / "servers.conf", proxy.nginx(servers, listen=listen, is_whole=False))
    store(folder / "nginx.conf", _frame(folder))
    _, *words = host_commands.argv("nginx-run", path=str(folder / "nginx.conf"))
    with Running([_nginx(), *words], folder=folder) as running, _drained(running, folder / "nginx.log"):
        until = time.monotonic() + _PROXY_S
        target = probe.Target(listen.host, listen.port)
        try:
            while not probe.is_open(target):
                if time.monotonic() >= until:
                    raise InputError(f"nginx does not listen at {listen}; see {folder / 'nginx.log'}")
                time.sleep(_TICK_S)
            say(f"nginx answers at {target.place}, in front of {', '.join(each.place for each in targets)}")
            yield target.place
        finally:
            running.stop(signal.SIGTERM, "was ended after the load")


def _frame(folder: Path) -> str:
    """The file around that of the servers: all that nginx writes goes into the folder.

    Raises:
        InputError: the folder's name cannot stand in it.
    """
    name = str(folder)
    if any(c in name for c in "\"'\\$;{}#\n\r\t"):
        raise InputError(f"{name}: nginx cannot be given a folder of this name; choose one of plain letters")
    user = ""
    if os.geteuid() == 0:
        import pwd  # not on every system

        user = f"user {pwd.getpwuid(0).pw_name};\n"  # its workers could not enter the folder otherwise
    temporary = "".join(
        f'    {kind}_temp_path "{name}/{kind}";\n' for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        f'{user}daemon off;\nworker_processes 1;\npid "{name}/nginx.pid";\nerror_log stderr;\nevents {{\n}}\n'
        f'http {{\n    access_log "{name}/access.log";\n{temporary}    include "{name}/servers.conf";\n}}\n'
    )


@contextmanager
def _drained(running: Running, log: Path) -> Iterator[None]:
    """Keep what a command prints while something else is done."""

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
