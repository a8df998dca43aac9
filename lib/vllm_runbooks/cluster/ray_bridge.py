"""Program that joins a Ray cluster and forwards requests to an actor on each of its nodes.

    python -P -m vllm_runbooks.cluster.ray_bridge ADDRESS

It reads and writes lines of JSON like `agent`: first `join`, then `ask`, last `leave`. It exits at
the end of its input, and Ray then stops its actors.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import IO, Any

from vllm_runbooks.cluster.agent import Agent
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.redaction.redact import redact_text

_DIAL_S = 4.0
_ACTOR_S = 25.0
_AT_ONCE = 8


class Bridge:
    """A cluster that was joined."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._actors = dict[str, Any]()

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one line."""
        try:
            if request.get("do") == "join":
                return {"is": self._join()}
            if request.get("do") == "leave":
                return {"is": self._leave()}
            return self._ask(str(request["node"]), request["request"], float(request["timeout_s"]))
        except RunbooksError as error:
            return {"error": str(error)}
        except Exception as error:  # noqa: BLE001 - Ray raises whatever its servers answer
            return {"error": first_line(error)}

    def _join(self) -> dict[str, Any]:
        nodes = join_cluster(self._address)
        self._start(nodes)
        head = next((node["name"] for node in nodes if node["is_head"] and not node["why"]), None)
        return {"nodes": [{k: node[k] for k in ("name", "address", "why")} for node in nodes], "head": head}

    def _start(self, nodes: list[dict[str, Any]]) -> None:
        import ray

        kind: Any = ray.remote(Agent)
        hellos = {}
        for node in nodes:
            if not node["why"]:
                options = kind.options(num_cpus=0, scheduling_strategy=pinned(node["id"]), max_concurrency=_AT_ONCE)
                actor = self._actors[node["name"]] = options.remote(node["name"])
                hellos[node["name"]] = actor.answer.remote({"do": "hello"})
        ends_at = time.monotonic() + _ACTOR_S
        for node in nodes:
            if node["name"] in hellos:
                try:
                    ray.get(hellos[node["name"]], timeout=max(ends_at - time.monotonic(), 0.1))
                except Exception as error:  # noqa: BLE001 - as above
                    node["why"] = f"the agent could not be started: {first_line(error)}"
                    self._actors.pop(node["name"])

    def _ask(self, node: str, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        import ray

        try:
            answer: dict[str, Any] = ray.get(self._actors[node].answer.remote(dict(request)), timeout=timeout_s)
        except ray.exceptions.GetTimeoutError:
            raise InputError(f"no answer within {timeout_s:g} s") from None
        return answer

    def _leave(self) -> dict[str, Any]:
        import ray

        closing = [actor.close.remote() for actor in self._actors.values()]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=12)
        ray.shutdown()
        return {}


def join_cluster(address: str) -> list[dict[str, Any]]:
    """Join the cluster with this process; its nodes, with `why` for one that is dead; raises InputError."""
    # Ray imports jsonschema, which imports a grammar that takes longer to build than all of Ray
    # (rfc3987-syntax 1.1.0) if JupyterLab has installed it; this process never needs it.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    try:
        import ray
    except ImportError:
        raise InputError(f"{sys.executable}: has no Ray; install the cluster's version") from None
    _dial(address)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    ray.init(
        address=address,
        namespace=f"vllm-runbooks-{os.getpid()}-{time.time_ns()}",
        logging_level=logging.ERROR,
        log_to_driver=False,
    )
    listed: list[dict[str, Any]] = ray.nodes()
    names = [_name(entry) for entry in listed if entry["Alive"]]
    nodes = []
    for entry in listed:
        name, at = _name(entry), str(entry["NodeManagerAddress"])
        if names.count(name) > 1:
            name = f"{at}-{entry['NodeID'][:6]}" if len({*names}) == 1 else at
        why = "" if entry["Alive"] else "Ray lists it as dead: it was lost or left, and has not rejoined"
        is_head = "node:__internal_head__" in entry["Resources"]
        cpus = entry["Resources"].get("CPU", 0.0)
        node = {"name": name, "address": at, "id": entry["NodeID"], "why": why, "is_head": is_head, "cpus": cpus}
        nodes.append(node)
    # A node that rejoined is listed twice; ignore its dead entry.
    alive = {entry["name"] for entry in nodes if not entry["why"]}
    return [entry for entry in nodes if not entry["why"] or entry["name"] not in alive]


def _name(node: Mapping[str, Any]) -> str:
    return re.sub(r"[^A-Za-z0-9_.:-]", "_", str(node["NodeName"]))[:80]


def _dial(address: str) -> None:
    """Check that something listens there: Ray would wait much longer without a message."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _DIAL_S).close()
    except TimeoutError:
        raise InputError(
            f"no answer from {address} within {_DIAL_S:g} s: blocked by a firewall, or the host is down"
        ) from None
    except (OSError, OverflowError) as error:
        raise InputError(f"no Ray cluster at {address}: {getattr(error, 'strerror', None) or error}") from None


def first_line(error: Exception) -> str:
    """The most telling line of Ray's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = next((line for line in reversed(lines) if "Error" in line or "mismatch" in line), None)
    text = telling or (lines[0] if lines else "")
    return redact_text(f"{type(error).__name__}: {text}")[:600]


def open_answers() -> IO[str]:
    """Standard output of a program that joins Ray, to which Ray prints, too.

    Signals stop the program immediately.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: os._exit(143))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def pinned(node: str) -> Any:
    """Ray scheduling strategy for the node of this id only."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def main(arguments: list[str]) -> None:
    """The program."""
    bridge = Bridge(arguments[0])
    lock = threading.Lock()
    with open_answers() as answers:

        def reply(request: dict[str, Any]) -> None:
            line = json.dumps({"id": request.get("id"), **bridge.answer(request)})
            with lock:
                answers.write(line + "\n")
                answers.flush()

        while line := sys.stdin.readline():
            request = json.loads(line)
            if request.get("do") == "ask":
                threading.Thread(target=reply, args=(request,), daemon=True).start()
            else:
                reply(request)  # Ray must be initialized and shut down in this thread
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
