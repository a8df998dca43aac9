"""Execute a suite's runs on the nodes of a Ray cluster: the executor of `check --ray`.

Ray stays in its own process (`task_bridge`), so that a join that never ends, for instance, cannot block this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import IO, Any, Self, cast

from vllm_runbooks.catalog.folders import own_catalogs
from vllm_runbooks.catalog.languages import LANG
from vllm_runbooks.cluster import hosts
from vllm_runbooks.cluster.wires import end_process, kill_group
from vllm_runbooks.core.errors import RunbooksError
from vllm_runbooks.host.nodes.records import NodePart
from vllm_runbooks.runbooks.bench import module
from vllm_runbooks.runbooks.suite import DECISIVE, RunbookRequest, Suite, refusal

_JOIN_S = 180.0
_END_S = 5.0


class RayExecutor:
    """Nodes of a running Ray cluster.

    Leaving the block leaves the cluster, which stops its runs.
    """

    def __init__(self, address: str, *, say: Callable[[str], None], jobs: int | None = None) -> None:
        """Prepare to join a cluster at an address such as `10.0.0.1:6379` or `auto`; raises InputError.

        `jobs` is the number of concurrent runs; None for as many as the cluster has CPUs.
        """
        hosts.check_ray(address)
        self._address, self._say, self._jobs = address, say, jobs
        self._process: subprocess.Popen[str]
        self._thread: threading.Thread | None = None
        self._is_stopped = False
        self.nodes: tuple[NodePart, ...] = ()
        self._ids: dict[str, str] = {}

    def __enter__(self) -> Self:
        """Join the cluster; raises RunbooksError."""
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [*module("cluster.task_bridge"), self._address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            encoding="utf-8",
        )
        timer = threading.Timer(_JOIN_S, kill_group, [self._process])
        timer.start()
        with ExitStack() as undone:
            undone.callback(self.__exit__)
            try:
                report = self._read()
            finally:
                timer.cancel()
            if report is None or "error" in report:
                why = report["error"] if report else f"could not connect within {_JOIN_S:.0f} s"
                raise RunbooksError(f"--ray {self._address}: {why}")
            undone.pop_all()
        host_facts = report["here"]
        self._ids = {entry["name"]: entry["id"] for entry in report["nodes"]}
        self.nodes = tuple(_part(entry, host_facts) for entry in report["nodes"])
        for node in self.nodes:
            if node.reason:
                self._say(f"node {node.name}: {node.reason}")
        return self

    def __exit__(self, *_: object) -> None:
        end_process(self._process, _END_S)
        self.join()
        cast("IO[str]", self._process.stdout).close()

    @property
    def is_whole(self) -> bool:
        """Whether no node was missing, and none was lost."""
        return not any(node.is_lost or node.facts is None for node in self.nodes)

    @property
    def facts(self) -> Mapping[str, Mapping[str, Any]]:
        """Facts by node."""
        return {node.name: node.facts for node in self.nodes if node.facts is not None}

    def requests(self, requests: Sequence[RunbookRequest], *, every_node: bool) -> list[RunbookRequest]:
        """Runs to execute: each once, or on every node, including nodes with other verdicts."""
        if not every_node:
            return list(requests)
        self.nodes = tuple(replace(node, is_used=node.facts is not None) for node in self.nodes)
        return [
            replace(request, node=node.name, refused=request.refused or self._refused(node))
            for node in self.nodes
            for request in requests
        ]

    @staticmethod
    def _refused(node: NodePart) -> str | None:
        if node.facts is None:
            return f"node {node.name}: {node.reason}"
        return None if (node.cpus or 0) >= 1 else f"node {node.name}: Ray has no CPU there"

    def begin(self, suite: Suite) -> int:
        """Hand all runs to the cluster."""
        suite.nodes = self.nodes
        able = [node for node in self.nodes if node.is_used and (node.cpus or 0) >= 1]
        runs = []
        while suite.waiting:
            index, request = suite.waiting.popleft()
            answer = refusal(request)
            if answer is None and request.node is None and not able:
                answer = {"reason": "not executed: no usable node in the cluster"}
            if answer is not None:
                suite.started(index)
                suite.judged(index, answer, seconds=0.0, node=request.node)
                continue
            runs.append({"index": index, "order": suite.order(index), "node": self._ids.get(request.node or "")})
        if not runs:
            suite.through()
            return 1
        all_fit = all(node.is_used or node.is_lost for node in self.nodes)
        question = {
            "tag": suite.tag,
            "runs": runs,
            "limit": self._jobs,
            "fit": None if all_fit else [self._ids[node.name] for node in able],
            "catalogs": list(own_catalogs()),
            "environment": {LANG: os.environ[LANG]} if LANG in os.environ else {},
        }
        self._thread = threading.Thread(target=self._follow, args=(suite, question), name="ray", daemon=True)
        self._thread.start()
        return 1

    def _follow(self, suite: Suite, request: Mapping[str, Any]) -> None:
        """Forward the cluster's reports until all runs are done or the cluster is lost."""
        open_runs = {run["index"]: False for run in request["runs"]}
        try:
            with suppress(OSError, ValueError):
                pipe = cast("IO[str]", self._process.stdin)
                pipe.write(json.dumps(request) + "\n")
                pipe.flush()
            while (report := self._read()) is not None and "through" not in report:
                if "begun" in report:
                    open_runs[report["begun"]] = True
                    suite.started(report["begun"])
                elif "lost" in report:
                    self._lost(suite, report["lost"], report["why"])
                else:
                    index = report.pop("done")
                    if not open_runs.pop(index):
                        suite.started(index)
                    suite.judged(index, **report)
            if open_runs and not self._is_stopped:
                self._say("lost the connection to the Ray cluster; unfinished runs are errors")
            for index, is_begun in open_runs.items():
                if not is_begun and not self._is_stopped:
                    suite.started(index)
                suite.judged(index, {"reason": "lost the connection to the Ray cluster"}, seconds=0.0)
        finally:
            suite.through()

    def _lost(self, suite: Suite, name: str, why: str) -> None:
        self._say(f"node {name}: {why}; its runs are restarted on other nodes")
        self.nodes = tuple(
            replace(node, is_lost=True, reason=why) if node.name == name else node for node in self.nodes
        )
        suite.nodes = self.nodes

    def _read(self) -> dict[str, Any] | None:
        try:
            line = cast("IO[str]", self._process.stdout).readline()
            return dict(json.loads(line)) if line.endswith("\n") else None
        except (OSError, ValueError):
            return None

    def stop(self) -> None:
        """Leave the cluster, which stops its runs."""
        self._is_stopped = True
        end_process(self._process, _END_S)

    def join(self) -> None:
        """Wait for the last report."""
        if self._thread is not None:
            self._thread.join()


def _part(node: Mapping[str, Any], host_facts: Mapping[str, Any]) -> NodePart:
    facts = node["facts"]
    why, is_used = node["why"], facts is not None
    other = [what for what in DECISIVE if facts is not None and facts.get(what) != host_facts.get(what)]
    if other:
        is_used = False
        why = f"skipped: different {_and(other)} than on this host"
    return NodePart(
        node["name"],
        node["address"],
        is_used=is_used,
        is_lost=node["is_lost"],
        reason=why,
        cpus=node["cpus"],
        facts=facts,
    )


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
