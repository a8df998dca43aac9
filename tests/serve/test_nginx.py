"""The proxy's configuration in a real nginx, before real servers that stream and die."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from pace import scaled
from ports import free_port
from vllm_runbooks.plan import proxy
from vllm_runbooks.plan.proxy import ProxyServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx (Debian: nginx-light)"),
]
BACKEND = """
import sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

name, port, bodies = sys.argv[1], int(sys.argv[2]), sys.argv[3]

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def send(self, chunks, pause, status=200):
        self.send_response(status)
        self.send_header("X-Server", name)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(chunks):
            if number: time.sleep(pause)
            self.wfile.write(b"4\\r\\nabc\\n\\r\\n"); self.wfile.flush()
        self.wfile.write(b"0\\r\\n\\r\\n"); self.wfile.flush()
    def do_GET(self):
        self.send(1, 0, 503 if self.path == "/health" and name == "sick" else 200)
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open(bodies, "a") as file: file.write(f"{name} {body[:40].decode()} {len(body)}\\n")
        if self.path == "/stream": return self.send(6, 0.3)
        time.sleep(0.15)
        self.send(1, 0)

class Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True
    def handle_error(self, *_): pass  # a connection that the proxy resets is what is tested

Server(("127.0.0.1", port), Handler).serve_forever()
"""
CLIENTS = 8
SECONDS = 3.0


class Answer(NamedTuple):
    """The answer to a client."""

    body: str
    status: int | None
    """None: the connection ended without an answer."""
    server: str | None
    is_whole: bool
    seconds: tuple[float, ...]
    """The seconds at which each piece arrived."""


class Fleet(NamedTuple):
    """A proxy and its servers."""

    port: int
    servers: tuple[subprocess.Popen[bytes], ...]
    received: Path
    """A line for each POST: server, body's beginning, bytes."""

    def ask(self, method: str, path: str, body: str = "", *, is_chunked: bool = False) -> Answer:
        """Send one request through the proxy."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        begun, times, status, server = time.monotonic(), [], None, None
        try:
            sent = (part.encode() for part in (body[:10], body[10:])) if is_chunked else body.encode()
            connection.request(method, path, sent, encode_chunked=is_chunked)
            answer = connection.getresponse()
            status, server = answer.status, answer.getheader("X-Server")
            while answer.read1(65536):
                times.append(time.monotonic() - begun)
            is_whole = True
        except (OSError, http.client.HTTPException):
            is_whole = False
        finally:
            connection.close()
        return Answer(body, status, server, is_whole, tuple(times))

    def runs(self) -> Counter[str]:
        """How often each body was received by a server."""
        lines = self.received.read_text("utf-8").splitlines() if self.received.exists() else []
        return Counter(line.split(" ")[1] for line in lines)


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + scaled(20)
    while time.monotonic() < end:
        assert process.poll() is None, "it ended at once"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    pytest.fail(f"nothing listens on port {port}")


@contextmanager
def running(words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended by id, with its children."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=20)


def checked(path: Path, folder: Path) -> list[str]:
    """The words that run nginx with a file, all its own files in a folder, after `nginx -t` has passed it."""
    own = f"pid {folder}/nginx.pid; error_log {folder}/error.log info;"
    test = subprocess.run(["nginx", "-t", "-c", path, "-g", own], capture_output=True, text=True, check=False)
    assert test.returncode == 0, test.stderr
    assert "[warn]" not in test.stderr
    return ["nginx", "-c", str(path), "-g", f"daemon off; {own}"]


@contextmanager
def fleet(folder: Path, *, names: Sequence[str] = ("one", "two"), retries_posts: bool = False) -> Iterator[Fleet]:
    """Servers behind the generated configuration."""
    front, *ports = (free_port() for _ in range(1 + len(names)))
    received, config = folder / "received", folder / "nginx.conf"
    text = proxy.nginx(
        [ProxyServer("127.0.0.1", port) for port in ports],
        listen=ProxyServer("127.0.0.1", front),
        retries_posts=retries_posts,
    )
    config.write_text(text, "utf-8")
    with ExitStack() as stack:
        servers = []
        for name, port in zip(names, ports, strict=True):
            words = [sys.executable, "-c", BACKEND, name, str(port), str(received)]
            servers.append(stack.enter_context(running(words)))
            wait_for(port, servers[-1])
        wait_for(front, stack.enter_context(running(checked(config, folder))))
        yield Fleet(front, tuple(servers), received)


def closed_loop(made: Fleet, path: str, *, kill_after: float) -> list[Answer]:
    """Answers to closed-loop clients with distinct bodies; one server may be killed."""
    answers: list[list[Answer]] = [[] for _ in range(CLIENTS)]
    end = time.monotonic() + SECONDS

    def client(number: int) -> None:
        while time.monotonic() < end:
            answers[number].append(made.ask("POST", path, f"{number}-{len(answers[number])}"))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    time.sleep(kill_after)
    os.kill(made.servers[0].pid, signal.SIGKILL)
    for thread in threads:
        thread.join(timeout=60)
    return [answer for own in answers for answer in own]


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("retries_posts", [True, False])
@pytest.mark.parametrize("hosts", [("127.0.0.1",), ("127.0.0.1", "localhost", "::1")])
def test_nginx_accepts_the_file(*, is_whole: bool, retries_posts: bool, hosts: tuple[str, ...], tmp_path: Path) -> None:
    """As a separate file, and inside another one's `http`, without a warning."""
    servers = [ProxyServer(host, 8000 + at) for at, host in enumerate(hosts)]
    text = proxy.nginx(servers, listen=ProxyServer("127.0.0.1", 18080), retries_posts=retries_posts, is_whole=is_whole)
    path = tmp_path / "nginx.conf"
    path.write_text(text if is_whole else f"events {{}}\nhttp {{\n{text}}}\n", "utf-8")

    checked(path, tmp_path)


def test_requests_are_balanced(tmp_path: Path) -> None:
    """Sixteen concurrent clients: no server gets more than 10 % above its half."""
    with fleet(tmp_path) as made:
        answers: list[Answer] = []
        threads = [
            threading.Thread(target=lambda: answers.extend(made.ask("POST", "/", "x") for _ in range(5)))
            for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)

    shares = Counter(answer.server for answer in answers)
    assert len(answers) == 80
    assert all(answer.status == 200 for answer in answers)
    assert min(shares["one"], shares["two"]) >= 32, shares


def test_an_answer_is_streamed(tmp_path: Path) -> None:
    """Six pieces in 1.5 seconds: each arrives separately, the first long before the last."""
    with fleet(tmp_path) as made:
        answer = made.ask("POST", "/stream", "x")

    assert len(answer.seconds) == 6
    assert answer.seconds[0] < scaled(0.7)
    assert answer.seconds[-1] - answer.seconds[0] > 1.2


def test_large_and_chunked_requests_arrive_whole(tmp_path: Path) -> None:
    """Images make requests of many MiB, and some clients send no length."""
    with fleet(tmp_path) as made:
        large = made.ask("POST", "/", "large" + "x" * 20_000_000)
        pieces = made.ask("POST", "/", "pieces" + "x" * 3000, is_chunked=True)
        lengths = {line.split(" ")[2] for line in made.received.read_text("utf-8").splitlines()}

    assert (large.status, pieces.status) == (200, 200)
    assert lengths == {"20000005", "3006"}


def test_health_is_that_of_any_server(tmp_path: Path) -> None:
    """A server with a dead engine is skipped; metrics of one server are not those of all."""
    with fleet(tmp_path, names=("sick", "well")) as made:
        answers = [made.ask("GET", "/health") for _ in range(6)]
        metrics = made.ask("GET", "/metrics")

    assert [(answer.status, answer.server) for answer in answers] == [(200, "well")] * 6
    assert metrics.status == 404


def test_no_request_is_lost_with_retries(tmp_path: Path) -> None:
    """A server is killed under load: all clients are answered, and only its requests run twice."""
    with fleet(tmp_path, retries_posts=True) as made:
        answers = closed_loop(made, "/", kill_after=1.0)
        runs = made.runs()

    twice = sum(runs[answer.body] == 2 for answer in answers)
    print(f"{len(answers)} requests, 0 lost, {twice} ran twice")
    assert [answer for answer in answers if answer.status != 200 or not answer.is_whole] == []
    assert 0 < twice <= CLIENTS
    assert max(runs.values()) == 2


def test_requests_of_a_dead_server_are_lost_without_retries(tmp_path: Path) -> None:
    """Each with status 502, no more than the clients had sent at that moment; none ran twice, all later ones ran."""
    with fleet(tmp_path) as made:
        answers = closed_loop(made, "/", kill_after=1.0)
        runs = made.runs()

    lost = [answer for answer in answers if answer.status != 200]
    print(f"{len(answers)} requests, {len(lost)} lost")
    assert [answer.status for answer in lost] == [502] * len(lost)
    assert 0 < len(lost) <= CLIENTS
    assert max(runs.values()) == 1
    assert all(runs[answer.body] <= 1 for answer in lost)


@pytest.mark.parametrize("retries_posts", [True, False])
def test_a_begun_answer_is_cut_off_and_never_retried(*, retries_posts: bool, tmp_path: Path) -> None:
    """With and without retries: the client sees the truncation, and no server the request again."""
    with fleet(tmp_path, retries_posts=retries_posts) as made:
        answers = closed_loop(made, "/stream", kill_after=0.9)
        runs = made.runs()

    begun = [answer for answer in answers if answer.server]
    cut = [answer for answer in begun if not answer.is_whole]
    assert 0 < len(cut) <= CLIENTS
    assert all((answer.server, runs[answer.body]) == ("one", 1) for answer in cut)
    assert all(answer.status == 200 for answer in begun)
    # On a busy machine a client may be waiting for its answer when the server dies.
    assert all(answer.status == 502 and not retries_posts for answer in answers if not answer.server)
