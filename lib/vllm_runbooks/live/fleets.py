"""Copies of one server, started together, each on its own part of the host, behind a real proxy that shares a load."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue

from vllm_runbooks import host_commands, probe, proxy, serve, steps
from vllm_runbooks.errors import InputError
from vllm_runbooks.files import store
from vllm_runbooks.live import starting
from vllm_runbooks.live.starting import READY_S, Say
from vllm_runbooks.live_records import Change, Fleet, Guarded, Measured
from vllm_runbooks.records import Edit
from vllm_runbooks.running import Running
from vllm_runbooks.serve import load as loads
from vllm_runbooks.serve import preflight
from vllm_runbooks.serve.load import Load
from vllm_runbooks.serve.subject import Subject

_TICK_S = 0.2
_PROXY_S = 10.0
"""Time for the proxy to listen."""
_ENDING_S = 30.0
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
    _check(copies, "copies")

    def action() -> Fleet:
        one, host = starting.subject(command, vllm), starting.host("")
        ones = [one.edited(edits) for edits in _placements(one, host, copies)]
        place = starting.place_of(step, folder)
        requests = [
            serve.Request(
                subject=each,
                source=host.source,
                why_none=host.why_none,
                gpus=gpus or None,
                limits=serve.Limits(ready_s=ready_within_s),
                folder=place / f"server-{number}",
            )
            for number, each in enumerate(ones, 1)
        ]
        return _together(requests, load or Load(), place, say)

    return steps.do(step, action, Fleet, timeout_s=ready_within_s + 1800)


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
    _check(parts, "parts")

    def action() -> Guarded:
        size = Edit("set", "tensor_parallel_size", parts)
        one = starting.subject(command, vllm)
        share = placed(one.edited([size]), starting.host(""), 1)
        change = Change("it is what is tried", f"--tensor-parallel-size {parts}", f"{parts} cards", (size, *share))
        return starting.started(
            one.edited(change.edits),
            starting.Asked(step, gpus, folder, ready_within_s, load=load or Load()),
            change,
            say,
        )

    return steps.do(step, action, Guarded, timeout_s=ready_within_s + 1800)


def _check(count: int, name: str) -> None:
    """Refuse a number that makes nothing of several.

    Raises:
        InputError: it is none from 2 on.
    """
    if type(count) is not int or not 2 <= count <= _MOST:
        raise InputError(f"{name} is {count!r}; give a whole number from 2 to {_MOST}")


def _placements(one: Subject, host: starting.Host, copies: int) -> Iterator[tuple[Edit, ...]]:
    """What each copy has of its own: its port, and its cards or cores.

    Raises:
        InputError: there are too few of them, or it is not known where the command's server answers.
    """
    if not one.is_target_known or one.target.uds is not None:
        raise InputError(f"{one.shown}: where it answers is not known; give its --port, so that each copy has its own")
    shares = placed(one, host, copies)
    for number, share in enumerate(shares):
        yield (Edit("set", "port", one.target.port + number), share)


def placed(one: Subject, host: starting.Host, copies: int) -> list[Edit]:
    """The variable that gives each copy its cards; without cards its cores, a part for each of its ranks.

    Raises:
        InputError: there are too few of them.
    """
    if host.source is not None:
        there = [f"{card.index}" for card in preflight.visible_cards(one, host.source)]
        need = copies * one.cards
        if len(there) < need:
            raise InputError(f"{copies} x {one.cards} cards are needed, and this host has {len(there)} to give")
        return [
            Edit("env", "CUDA_VISIBLE_DEVICES", ",".join(there[at : at + one.cards]))
            for at in range(0, need, one.cards)
        ]
    cores = sorted(os.sched_getaffinity(0))
    each = len(cores) // (copies * one.cards)
    if not each:
        raise InputError(f"{copies} x {one.cards} ranks are to run on {len(cores)} cores; each needs one")
    parts = [",".join(map(str, cores[at * each : (at + 1) * each])) for at in range(copies * one.cards)]
    return [
        Edit("env", "VLLM_CPU_OMP_THREADS_BIND", "|".join(parts[at : at + one.cards]))
        for at in range(0, len(parts), one.cards)
    ]


def _together(requests: Sequence[serve.Request], load: Load, place: Path, say: Say) -> Fleet:
    """Start all, and when the last one is ready send the load through a proxy."""
    measured: Measured | None = None
    answered: list[int | None] = []
    front = ""
    servers = _Servers(requests)
    try:
        if servers.wait(say):
            subjects = [each.subject for each in requests]
            with _proxy([each.target for each in subjects], place / "proxy", say) as front:
                target = replace(subjects[0].target, port=int(front.rpartition(":")[2]), is_tls=False)
                before = [probe.answered(each.target) for each in subjects]
                measured = loads.measure(load, subjects[0], target, place)
                after = [probe.answered(each.target) for each in subjects]
                answered = [
                    None if first is None or last is None else last - first
                    for first, last in zip(before, after, strict=True)
                ]
    finally:
        found = servers.end(say)
    for one in found:
        starting.record(one, say)
    starting.keep_commands(place, found, [measured])
    return Fleet(tuple(found), front, tuple(answered), measured, str(place))


class _Servers:
    """Guarded starts, each in a thread of its own: they are ready together, and end together."""

    def __init__(self, requests: Sequence[serve.Request]) -> None:
        self._said: SimpleQueue[str] = SimpleQueue()
        self._done = threading.Event()
        self._is_cancelled = False
        self._ready = [False] * len(requests)
        self._found: list[Guarded | None] = [None] * len(requests)
        self._wrong: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._serve, args=(number, request), daemon=True)
            for number, request in enumerate(requests)
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self, number: int, request: serve.Request) -> None:
        def proof() -> None:
            self._ready[number] = True
            self._done.wait()

        def say(line: str) -> None:
            self._said.put(f"server {number + 1}: {line}")

        try:
            self._found[number] = serve.serve(
                replace(request, proof=proof, is_cancelled=lambda: self._is_cancelled), show=lambda _: None, say=say
            )
        except BaseException as error:  # noqa: BLE001 - raised again where the others have been ended
            self._wrong.append(error)

    def wait(self, say: Say) -> bool:
        """Whether all became ready; it ends as soon as one has ended instead."""
        while all(thread.is_alive() for thread in self._threads):
            self._tell(say)
            if all(self._ready):
                return True
            time.sleep(_TICK_S)
        return False

    def end(self, say: Say) -> list[Guarded]:
        """End those that run.

        Raises:
            InputError: as one of the starts did.
        """
        self._is_cancelled = not all(self._ready)
        self._done.set()
        for thread in self._threads:
            thread.join(_ENDING_S)
        self._tell(say)
        if self._wrong:
            raise self._wrong[0]
        return [each for each in self._found if each is not None]

    def _tell(self, say: Say) -> None:
        while True:
            try:
                say(self._said.get_nowait())
            except Empty:
                return


@contextmanager
def _proxy(targets: Sequence[probe.Target], folder: Path, say: Say) -> Iterator[str]:
    """A real nginx in front of the servers, with the file that a deployment has; yields where it answers.

    Raises:
        InputError: there is no nginx, or it does not take its file.
    """
    folder.mkdir(parents=True)
    listen = proxy.Server("127.0.0.1", _free_port())
    servers = [proxy.Server(each.host, each.port) for each in targets]
    store(folder / "servers.conf", proxy.nginx(servers, listen=listen, is_whole=False))
    store(folder / "nginx.conf", _frame(folder))
    words = host_commands.argv("nginx-run", path=str(folder / "nginx.conf"))
    with Running(words, folder=folder) as running, _drained(running, folder / "nginx.log"):
        until = time.monotonic() + _PROXY_S
        target = probe.Target(listen.host, listen.port)
        while not probe.is_open(target):
            if time.monotonic() >= until:
                raise InputError(f"nginx does not listen at {listen}; see {folder / 'nginx.log'}")
            time.sleep(_TICK_S)
        say(f"nginx answers at {target.place}, in front of {', '.join(each.place for each in targets)}")
        yield target.place
        running.stop(15, "was ended after the load")


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
        import pwd  # noqa: PLC0415 - no such thing on other systems

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
        thread.join(0.0 if running.stopped_by is None else _TICK_S * 10)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
