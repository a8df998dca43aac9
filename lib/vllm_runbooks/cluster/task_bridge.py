"""Program that joins a Ray cluster and executes the runs of a suite on its nodes, each run a task of Ray.

    python -P -m vllm_runbooks.cluster.task_bridge ADDRESS

It writes lines of JSON: the nodes, or an error; then what happens to the runs that it reads from one line. Ray places
the tasks, and begins those of a lost node again. It ends with its input, and Ray ends the tasks then.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from vllm_runbooks.cluster import node_tasks, ray_bridge
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.files import NotStoredError, store
from vllm_runbooks.runbooks.worker import too_long

Say = Callable[[Mapping[str, Any]], None]

_FACTS_S = 90.0
"""Timeout for the facts of a node, which start a process and may query a driver for its GPUs."""
_RETRIES = 2
"""Number of restarts of a run whose node, or Ray's process there, was lost."""
_TICK_S = 0.5
_OVERRUN_S = 60.0
"""Time after a run's timeout when its result is given up: its own node stops it before."""
_SUSPECTED_S = 75.0
"""Time for Ray to detect a lost node, after several requests without an answer."""
_STUCK_S = 60.0
"""Timeout of waiting runs without a usable node."""
_NONE_LEFT = "not executed: no usable node left"


class Spread:
    """A joined cluster with its runs."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._nodes: dict[str, dict[str, Any]] = {}
        """By Ray's id."""

    def join(self, address: str) -> None:
        """Join, and report the nodes with their facts."""
        nodes = ray_bridge.join_cluster(address)
        refs = {node["id"]: self._on(node["id"], node_tasks.facts, cpus=0) for node in nodes if not node["why"]}
        ends_at = time.monotonic() + _FACTS_S
        for node in nodes:
            node |= {"facts": None, "is_lost": bool(node["why"])}
            if node["id"] in refs:
                node["facts"], node["why"] = _result(refs[node["id"]], max(ends_at - time.monotonic(), 0.1), _FACTS_S)
        self._nodes = {node["id"]: node for node in nodes}
        self._say({"nodes": nodes, "here": node_tasks.facts()})

    def run(self, request: Mapping[str, Any]) -> None:
        """Execute `runs`, `limit` at a time on nodes with an id in `fit` or their own.

        Report each result.
        """
        import ray

        kind: Any = ray.remote(node_tasks.Board)
        pinned = ray_bridge.pinned(ray.get_runtime_context().get_node_id())
        board = kind.options(num_cpus=0, scheduling_strategy=pinned).remote()
        contents = _Contents(request["catalogs"])
        waiting = deque(request["runs"])
        running = dict[Any, dict[str, Any]]()
        began, begun_at = dict[int, list[str]](), dict[int, float]()
        moved_at = time.monotonic()
        while waiting or running:
            while waiting and len(running) < (request["limit"] or sys.maxsize):
                run = waiting.popleft()
                try:
                    refs, places = contents.of(run["order"])
                except RunbooksError as error:
                    self._say({"begun": run["index"]})
                    self._say({"done": run["index"], "answer": {"reason": str(error), "refused": True}, "seconds": 0.0})
                    continue
                luggage = node_tasks.Luggage(places, request["environment"])
                arguments = (request["tag"], run["index"], run["order"], luggage, board, *refs)
                running[self._begin(run, request["fit"], arguments)] = run
            done, _ = ray.wait(list(running), timeout=_TICK_S) if running else ([], [])
            for index, node in ray.get(board.news.remote(), timeout=_STUCK_S):
                if index not in began:
                    self._say({"begun": index})
                began.setdefault(index, []).append(node)
                begun_at[index] = moved_at = time.monotonic()
            self._look()
            for ref in done:
                run = running.pop(ref)
                self._end(run, ref, began.get(run["index"], []))
                moved_at = time.monotonic()
            for ref, run in list(running.items()):
                limit_s = run["order"]["timeout_s"]
                if time.monotonic() - begun_at.get(run["index"], time.monotonic()) > limit_s + _OVERRUN_S:
                    running.pop(ref)
                    self._drop(ref, run, too_long(limit_s), began.get(run["index"], []))
            if time.monotonic() - moved_at > _STUCK_S:
                self._give_up(running, waiting, began)
        self._ask_suspects({node for nodes in began.values() for node in nodes[:-1]})

    def _ask_suspects(self, suspects: Iterable[str]) -> None:
        """Find lost nodes among those without an answer.

        Ray detects them later than it restarts runs.
        """
        by_id = {id_: self._on(id_, node_tasks.nothing, cpus=0) for id_ in suspects if not self._nodes[id_]["is_lost"]}
        ends_at = time.monotonic() + _SUSPECTED_S
        for id_, ref in by_id.items():
            _, why = _result(ref, max(ends_at - time.monotonic(), 0.1))
            if why and not self._nodes[id_]["is_lost"]:
                self._lose(self._nodes[id_])

    def _begin(self, run: Mapping[str, Any], fit: Sequence[str] | None, arguments: tuple[Any, ...]) -> Any:
        if run.get("node"):
            return self._on(run["node"], node_tasks.execute, *arguments, cpus=1, retries=_RETRIES)
        import ray

        only = {} if fit is None else {"label_selector": {"ray.io/node-id": f"in({','.join(fit)})"}}
        task = ray.remote(node_tasks.execute)
        return task.options(num_cpus=1, max_retries=_RETRIES, scheduling_strategy="SPREAD", **only).remote(*arguments)

    @staticmethod
    def _on(node: str, function: Callable[..., Any], *arguments: Any, cpus: float, retries: int = 0) -> Any:
        import ray

        task = ray.remote(function)
        pinned = ray_bridge.pinned(node)
        return task.options(num_cpus=cpus, max_retries=retries, scheduling_strategy=pinned).remote(*arguments)

    def _end(self, run: Mapping[str, Any], ref: Any, began: Sequence[str]) -> None:
        """Report the result of a run, once its files are in the requested folder."""
        result, why = _result(ref, _STUCK_S)
        if result is None:
            at = [self._name(began[-1])] if began else []
            self._done(run, {"reason": f"not executed: {why}"}, began, node=at[0] if at else None)
            return
        answer = result["answer"]
        try:
            for name, content in result["wrote"].items():
                target = _inside(Path(run["order"]["output"]).parent, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                store(target, content)
        except (OSError, NotStoredError) as error:
            answer = {"reason": str(error)}
        others = began[: began.index(result["node"])] if result["node"] in began else began
        self._done(run, answer, others, node=self._name(result["node"]), seconds=result["seconds"])

    def _done(
        self,
        run: Mapping[str, Any],
        answer: Mapping[str, Any],
        others: Iterable[str],
        *,
        node: str | None,
        seconds: float = 0.0,
    ) -> None:
        lost_on = list(dict.fromkeys(self._name(id_) for id_ in others))
        self._say({"done": run["index"], "answer": answer, "seconds": seconds, "node": node, "lost_on": lost_on})

    def _name(self, node: str) -> str:
        return self._nodes[node]["name"] if node in self._nodes else node[:12]

    def _look(self) -> None:
        import ray

        for entry in ray.nodes():
            node = self._nodes.get(entry["NodeID"])
            if node is not None and not entry["Alive"] and not node["is_lost"]:
                self._lose(node)

    def _lose(self, node: dict[str, Any]) -> None:
        node["is_lost"] = True
        self._say({"lost": node["name"], "why": "lost during execution"})

    def _give_up(self, running: dict[Any, dict[str, Any]], waiting: deque[Any], began: Mapping[int, list[str]]) -> None:
        able = {id_ for id_, node in self._nodes.items() if not node["is_lost"] and node["cpus"] >= 1}
        for ref, run in list(running.items()):
            usable = {run["node"]} if run.get("node") else able
            if not able.intersection(usable) and not able.intersection(began.get(run["index"], [])):
                running.pop(ref)
                self._drop(ref, run, _NONE_LEFT, began.get(run["index"], []))
        while waiting and not able:
            self._done(waiting.popleft(), {"reason": _NONE_LEFT}, [], node=None)

    def _drop(self, ref: Any, run: Mapping[str, Any], why: str, began: Sequence[str]) -> None:
        """Expect nothing of a run any more."""
        import ray

        with suppress(Exception):
            ray.cancel(ref, force=True)
        self._done(run, {"reason": why}, began, node=None)


class _Contents:
    def __init__(self, catalogs: Sequence[str]) -> None:
        self._catalogs = catalogs
        self._known: dict[str, Any] = {}

    def of(self, order: Mapping[str, Any]) -> tuple[list[Any], dict[str, int]]:
        named = {name: order[name] for name in ("input", "alone") if name in order}
        evidence = (order.get("parameters") or {}).get("evidence")
        if isinstance(evidence, str) and Path(evidence).is_absolute() and Path(evidence).exists():
            named["evidence"] = evidence
        named |= {f"catalog-{number}": path for number, path in enumerate(self._catalogs)}
        return [self._put(path) for path in named.values()], {name: number for number, name in enumerate(named)}

    def _put(self, path: str) -> Any:
        import ray

        if path not in self._known:
            self._known[path] = ray.put(node_tasks.pack(Path(path)))
        return self._known[path]


def _result(ref: Any, timeout_s: float, limit_s: float = 0.0) -> tuple[Any, str]:
    """Result of a task; else None and the reason. `limit_s` is its total time limit."""
    import ray

    try:
        return ray.get(ref, timeout=timeout_s), ""
    except ray.exceptions.GetTimeoutError:
        return None, f"no answer within {limit_s or timeout_s:.0f} s"
    except Exception as error:  # noqa: BLE001 - Ray raises whatever its servers answer
        if "ModuleNotFoundError" in str(error):
            return None, "vllm-runbooks is not installed in its Python; install it"
        kind = type(error).__name__
        return None, _GONE.get(kind) or ray_bridge.first_line(error)


_GONE = {
    "NodeDiedError": "its node was lost",
    "TaskUnschedulableError": "its node was lost",
    "WorkerCrashedError": "the Ray worker crashed on each attempt",
    "OutOfMemoryError": "its node ran out of memory, and Ray killed it",
}


def _inside(folder: Path, name: str) -> Path:
    """A path below a folder; names from a node cannot escape it."""
    target = folder / name
    if not target.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{name[:80]!r}: a node wrote outside its folder; its output was discarded")
    return target


def main(arguments: list[str]) -> None:
    """The program."""
    with ray_bridge.open_answers() as answers:

        def say(report: Mapping[str, Any]) -> None:
            answers.write(json.dumps(report) + "\n")
            answers.flush()

        spread = Spread(say)
        try:
            spread.join(arguments[0])
        except Exception as error:  # noqa: BLE001 - as above
            reason = str(error) if isinstance(error, RunbooksError) else ray_bridge.first_line(error)
            say({"error": reason})
            os._exit(0)
        if line := sys.stdin.readline():
            listening = threading.Thread(target=_wait_for_end, daemon=True)
            listening.start()
            spread.run(json.loads(line))
            say({"through": True})
            listening.join()
    os._exit(0)


def _wait_for_end() -> None:
    while sys.stdin.readline():
        pass
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
