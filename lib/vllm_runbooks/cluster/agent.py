"""Agent on every node: reports facts, listens, connects to other nodes, and runs commands.

    python -P -m vllm_runbooks.cluster.agent NAME

It reads one JSON object per line, `{"id": …, "do": …}` with the request's fields, and writes
`{"id": …, "is": …}` or `{"id": …, "error": …}` for each, as they are ready. It exits, with all its
processes, at the end of its input or after a minute without a line. A Ray actor uses the same
`Agent`.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from vllm_runbooks.cluster import node_facts, reaching
from vllm_runbooks.cluster.groups import CommandGroups
from vllm_runbooks.cluster.node_checks import NodeChecks
from vllm_runbooks.core.errors import RunbooksError
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.redaction.redact import redact_text

MAX_LINE = 4 << 20
"""Characters of one question or answer."""
_PROGRAM = Path(__file__).with_name("all_reduce.py")
UNHEARD_S = 60.0
"""Timeout without input after which an agent exits: its caller is unreachable or stopped."""
_MOST_AT_ONCE = 8
_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGKILL})

Answer = dict[str, Any]


class Agent:
    """Answers of one node, possibly several concurrently."""

    def __init__(self, name: str) -> None:
        """Set the name of the node."""
        self.name = name
        self._groups = CommandGroups()
        self._listeners: reaching.Listeners | None = None
        self._checks = NodeChecks()
        self._answers: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
            "hello": self._hello,
            "clock": lambda _: {"now_s": time.time()},
            "facts": self._facts,
            "listen": self._listen,
            "silence": self._silence,
            "reach": lambda request: reaching.reach(request["targets"], request["wait_s"]),
            "stream": self._stream,
            "all_reduce": self._all_reduce,
            "check": self._checks.check,
            "unlock": self._checks.unlock,
            "start": self._start,
            "read": self._read,
            "signal": self._signal,
            "end": self._end,
        }

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """The answer to one question: `is`, or `error` with one line."""
        try:
            return {"is": self._answers[request["do"]](request)}
        except RunbooksError as error:
            return {"error": redact_text(str(error))}
        except OSError as error:
            return {"error": redact_text(error.strerror or str(error))}
        except Exception as error:  # noqa: BLE001 - who asks waits for an answer, whatever went wrong
            reason = redact_text(" ".join(str(error).split()))[:200]
            return {"error": f"the request failed ({type(error).__name__}: {reason})"}

    def close(self) -> None:
        """Stop everything that was started, without further waiting."""
        self._silence({})
        self._groups.close()
        self._checks.unlock({})

    def _hello(self, _asked: Mapping[str, Any]) -> Answer:
        return {"name": self.name, "pid": os.getpid(), "python": sys.executable}

    def _facts(self, request: Mapping[str, Any]) -> Any:
        """Facts of the node: `model`, `python` and `salt` are passed to `node_facts.collect`."""
        model, python, salt = request.get("model"), request.get("python"), str(request.get("salt", ""))
        return document(node_facts.collect(self.name, model=model, python=python, salt=salt))

    def _listen(self, request: Mapping[str, Any]) -> Any:
        """Listen at `ports`, pairs of use and number, for `for_s` seconds.

        Only peers with the `token` are accepted.
        """
        self._silence({})
        self._listeners = reaching.Listeners(
            str(request["token"]), [(str(use), int(port)) for use, port in request["ports"]], float(request["for_s"])
        )
        return [document(port) for port in self._listeners.waiting]

    def _silence(self, _asked: Mapping[str, Any]) -> Answer:
        if self._listeners is not None:
            self._listeners.close()
            self._listeners = None
        return {}

    def _stream(self, request: Mapping[str, Any]) -> Answer:
        """Measure the bandwidth to `address` and `port` with its `token`, over `seconds`."""
        mbit_s = reaching.stream(
            str(request["address"]), int(request["port"]), str(request["token"]), float(request["seconds"])
        )
        return {"mbit_s": mbit_s}

    def _all_reduce(self, request: Mapping[str, Any]) -> Answer:
        """Start a rank of an all-reduce.

        The request has `spec` for the program, `python`, `environment` and `limit_s`.
        """
        python = node_facts.python_with_torch(request.get("python"))
        command = [python, str(_PROGRAM), json.dumps(request["spec"])]
        return self._start({**request, "command": command})

    def _start(self, request: Mapping[str, Any]) -> Answer:
        """Start a `command` with `environment` added to the node's own.

        It is killed after `limit_s`, if given.
        """
        limit_s = request.get("limit_s")
        number, group = self._groups.start(
            [str(word) for word in request["command"]],
            {str(name): value for name, value in (request.get("environment") or {}).items()},
            None if limit_s is None else float(limit_s),
        )
        return {"group": number, "pid": group.pid}

    def _read(self, request: Mapping[str, Any]) -> Answer:
        """Read at most 1 MiB of a `group`'s output from `begin` on, with its `processes`.

        The position is later than `begin` if too much was printed.
        """
        group = self._groups[str(request["group"])]
        is_running = group.is_running
        begin, raw = group.read(int(request.get("begin", 0)))
        return {
            "begin": begin,
            "data": base64.b64encode(raw).decode("ascii"),
            "end": begin + len(raw),
            "is_running": is_running,
            "status": None if is_running else group.status,
            "refused": "" if is_running else group.refused,
            **({"processes": group.sights()} if request.get("processes") else {}),
        }

    def _signal(self, request: Mapping[str, Any]) -> Answer:
        if request["number"] not in _SIGNALS:
            return {"sent": False}
        self._groups[str(request["group"])].signal(int(request["number"]))
        return {"sent": True}

    def _end(self, request: Mapping[str, Any]) -> Answer:
        """End all of a `group`, `at_once` or with three seconds to go; it is forgotten with `forget`."""
        group = self._groups[str(request["group"])]
        group.end(at_once=bool(request.get("at_once")))
        outcome = {"status": group.status}
        if request.get("forget"):
            self._groups.forget(str(request["group"]))
        return outcome


def _serve(agent: Agent, answers: Any) -> None:
    lock = threading.Lock()

    def reply(request: Mapping[str, Any]) -> None:
        line = json.dumps({"id": request.get("id"), **agent.answer(request)})
        if len(line) > MAX_LINE:
            line = json.dumps({"id": request.get("id"), "error": "the response is too long"})
        with lock:
            answers.write(line + "\n")
            answers.flush()

    heard = threading.Event()

    def listen() -> None:
        while heard.wait(UNHEARD_S):
            heard.clear()
        agent.close()
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        try:
            while line := sys.stdin.readline(MAX_LINE):
                heard.set()
                try:
                    request = json.loads(line)
                except (ValueError, RecursionError):
                    request = {}
                pool.submit(reply, request if isinstance(request, dict) else {})
        finally:
            agent.close()
            pool.shutdown(wait=False, cancel_futures=True)


def main(arguments: list[str]) -> None:
    """The program."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(143))  # leave the block, which stops all processes
    # Ctrl-C in a terminal is for the caller.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Libraries must not print between the answers.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        _serve(Agent(arguments[0] if arguments else os.uname().nodename), answers)
    os._exit(0)  # do not wait for pending requests, for example to a resolver


if __name__ == "__main__":
    main(sys.argv[1:])
