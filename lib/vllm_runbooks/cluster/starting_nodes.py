"""Supervised launch over several nodes: collect facts, plan, check each node, launch one server."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.cluster import measuring
from vllm_runbooks.cluster.carriers import Carrier
from vllm_runbooks.cluster.over_nodes import NodeCommand, OverNodes
from vllm_runbooks.cluster.wires import UnansweredError
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import record
from vllm_runbooks.core.records import Edit, IssueSeverity, Severity
from vllm_runbooks.host import nodes as clusters
from vllm_runbooks.host.nodes.records import CheckedCluster, Cluster, NodeEnvironment, NodeFinding
from vllm_runbooks.lint import checking
from vllm_runbooks.plan import files as plan_files
from vllm_runbooks.plan import fleet, planner
from vllm_runbooks.plan import requests as plan_requests
from vllm_runbooks.plan.records import Plan
from vllm_runbooks.plan.render import words as render_plan_words
from vllm_runbooks.probe.starts import Check, LaunchResult
from vllm_runbooks.serve import preflight
from vllm_runbooks.serve.guard import LaunchRequest, Run
from vllm_runbooks.serve.subject import ServedLaunch

NAMES = ("nodes", *preflight.NAMES)
_OF_START = ("VLLM_HOST_IP", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
"""Variables that a launch sets on each node that does not set them itself."""
_OF_RAY = frozenset({"nodes.ray_differs", "nodes.ray_token_differs"})
"""Findings about Ray, which is not used here: vLLM itself joins the nodes."""
_CHECKED_S = 60.0


class _Round(NamedTuple):
    names: tuple[str, ...]
    is_in_order: bool = False
    says: str = ""
    """Activity that may take time."""


_ROUNDS = (
    _Round(("model", "port")),
    _Round(("lock",), is_in_order=True, says="waiting for other launches on these nodes"),
    _Round(("memory",), says="waiting for stable GPU memory"),
)


@dataclass(frozen=True)
class ClusterLaunch:
    """A launch over several nodes."""

    model: str
    request: LaunchRequest
    """The launch as if on one host: the source of checks, timeouts, GPUs by node (None for those
    that the nodes list) and end."""
    arguments: tuple[str, ...] = ()
    """Options of `vllm serve`, without those derived from the nodes."""
    vllm: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    pythons: Mapping[str, str] = field(default_factory=dict)
    """By node, the Python that vLLM runs with there; of a node without one its `vllm` is looked for on the path."""
    port: int = 8000
    master_port: int | None = None
    gpu_memory: str = ""
    """A recorded series in place of the driver's readings."""


@dataclass(frozen=True)
class CheckedLaunchNodes:
    """Nodes with their facts, and the consequences for the launch."""

    nodes: CheckedCluster
    environments: Mapping[str, Mapping[str, str]]
    check: Check


def measure_nodes(carrier: Carrier, launch: ClusterLaunch, say: Callable[[str], None]) -> CheckedLaunchNodes:
    """Collect facts from the nodes and measure; the check fails if a launch would fail.

    Raises InputError.
    """
    is_wanted = "nodes" not in launch.request.left_out

    def is_planned(nodes: Cluster) -> None:
        checked = clusters.check(nodes, catalog.specs(), model=launch.model)
        # A plan is useless if the nodes prevent the launch.
        if not is_wanted or check_findings(checked).result is not LaunchResult.FAILED:
            _plan_launch(launch, nodes, {})

    cluster = measuring.measure(
        carrier,
        model=launch.model,
        pythons=launch.pythons,
        ports=measuring.PORTS | {"torch": launch.master_port or measuring.PORTS["torch"], "vllm": launch.port},
        is_collective_run=is_wanted,
        on_facts=is_planned,
        say=say,
    )
    environments = _environments(cluster, measuring.advised(cluster), launch.environment)
    checked = clusters.check(_as_started(cluster, environments), catalog.specs(), model=launch.model)
    return CheckedLaunchNodes(
        checked,
        environments,
        check_findings(checked) if is_wanted else Check("nodes", LaunchResult.LEFT_OUT, "skipped"),
    )


def _environments(
    cluster: Cluster, advised: Mapping[str, Mapping[str, str]], variables: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    by_node = {}
    for node in cluster.nodes:
        own_variables = {**(node.environment or {}), **variables}.items()
        of_start = {name: value for name, value in own_variables if name in _OF_START}
        by_node[node.name] = {**advised.get(node.name, {}), **of_start}
    return by_node


def _as_started(cluster: Cluster, environments: Mapping[str, Mapping[str, str]]) -> Cluster:
    like = [
        run
        for run in cluster.collectives or ()
        if all(launch.items() <= {**run.environments.get(node, {})}.items() for node, launch in environments.items())
    ]
    return replace(clusters.with_variables(cluster, environments), collectives=tuple(like) or cluster.collectives)


def check_findings(checked: CheckedCluster) -> Check:
    """Whether a launch over these nodes would fail, in one line with the action."""
    fatal = [item for item in checked.findings if item.severity is Severity.FATAL and item.id not in _OF_RAY]
    if fatal:
        return Check("nodes", LaunchResult.FAILED, "; ".join(_line(item) for item in fatal[:3]))
    if len(checked.nodes) < 2:
        answers = next((f"only {node.name} answers" for node in checked.nodes), "no node answers")
        return Check("nodes", LaunchResult.FAILED, f"{answers}; a multi-node launch needs at least two")
    worse = [_line(item) for item in checked.findings if item.severity is Severity.DEGRADED and item.id not in _OF_RAY]
    if worse or checked.unmeasured:
        unknown = [f"not measured: {item.fact}" for item in checked.unmeasured]
        return Check("nodes", LaunchResult.UNKNOWN, "; ".join([*worse, *unknown][:3]))
    names = ", ".join(node.name for node in checked.nodes)
    return Check("nodes", LaunchResult.PASSED, f"{names} reach each other in both directions, and an all-reduce passed")


def _line(finding: NodeFinding) -> str:
    return f"{', '.join(finding.nodes)}: {finding.text} ({finding.id}); {finding.do}"


def required(name: str, variables: Mapping[str, str]) -> str:
    """A variable that the user has to set; raises InputError."""
    if name not in variables:
        raise InputError(
            f"{name} is not set, but is required for a server that others can reach; set it and launch again"
        )
    return variables[name]


def _plan_launch(
    launch: ClusterLaunch, nodes: Cluster, environments: Mapping[str, Mapping[str, str]]
) -> tuple[plan_requests.PlanningRequest, Plan, Sequence[fleet.InstancePart]]:
    """Plan one server over several of these nodes; raises InputError."""
    request = planner.on_nodes(
        launch.model,
        nodes,
        [NodeEnvironment(node, variables, "") for node, variables in environments.items() if variables],
        gpus=launch.request.gpus,
        vllm=launch.vllm,
        by="nnodes",
        master_port=launch.master_port,
        arguments=launch.arguments,
        environment=dict(launch.environment),
    )
    plan = planner.chosen(planner.plan(request) if planner.has_sizes(request) else planner.layouts(request))
    parts = plan_files.servers(request, plan, first_port=launch.port)
    if len({part.instance for part in parts}) > 1 or len(parts) == 1:
        raise InputError(
            f"{launch.model}: the plan is {len(parts)} servers on one node each, not one server "
            "across several nodes; set "
            "sizes, as in --tensor-parallel-size 2, or launch on each node with `serve`"
        )
    if any(part.joined for part in parts):
        raise InputError(f"{launch.model}: one server on these GPUs requires Ray; use `cluster files`")
    return request, plan, parts


class PlannedClusterLaunch:
    """A planned launch over nodes: `serve.guard.LaunchRequest.elsewhere`."""

    def __init__(self, carrier: Carrier, launch: ClusterLaunch, looked: CheckedLaunchNodes) -> None:
        """Plan it; raises InputError."""
        self._carrier, self._asked, self._looked = carrier, launch, looked
        request, self._plan, planned = _plan_launch(launch, looked.nodes, looked.environments)
        self._gpus = ",".join(f"{card.gpu.name}@{card.node}" for card in request.cards)
        self.parts = [self._part(part) for part in planned]
        head = self.parts[0]
        self.subject = ServedLaunch(head.command, {**os.environ, **head.environment}, request.data.version)
        self.subject.found  # noqa: B018 - asked for its error

    @property
    def request(self) -> LaunchRequest:
        """Request for the supervisor: the part that serves, and the other parts."""
        return replace(self._asked.request, subject=self.subject, gpus=self._gpus, elsewhere=self)

    def _part(self, part: fleet.InstancePart) -> NodeCommand:
        environment = {
            name: required(name, os.environ) if value is None else value for name, value in part.deployment.environment
        }
        python = self._asked.pythons.get(str(part.node)) or self._carrier.python(str(part.node))
        program, *first = part.deployment.command
        words = [str(Path(python).with_name(program)) if python else program, *first, *map(str, part.deployment.words)]
        return NodeCommand(str(part.node), tuple(words), environment)

    def checks(self, say: Callable[[str], None]) -> Iterator[Check]:
        """Checks of the nodes, the command and the plan, and each node's own checks of its part."""
        yield self._looked.check
        for name, made in (("command", self._command), ("plan", self._fits)):
            yield Check(name, LaunchResult.LEFT_OUT, "skipped") if name in self._asked.request.left_out else made()
        yield from self._own_checks(say, _ROUNDS)

    def _command(self) -> Check:
        linted = checking.lint_text(self.subject.page.text, vllm=self.subject.vllm)
        wrong = [issue.message for issue in linted.issues if issue.severity is IssueSeverity.ERROR]
        says = wrong[0] if wrong else f"no problems for vLLM {linted.vllm.version}"
        return Check("command", LaunchResult.FAILED if wrong else LaunchResult.PASSED, says)

    def _fits(self) -> Check:
        result = {True: LaunchResult.PASSED, False: LaunchResult.FAILED, None: LaunchResult.UNKNOWN}[self._plan.fits]
        return Check("plan", result, str(render_plan_words.headline(self._plan)))

    def _own_checks(self, say: Callable[[str], None], rounds: Sequence[_Round]) -> Iterator[Check]:
        """Checks by the nodes themselves, concurrently.

        Locks are taken node by node in the order of names, so that two launches cannot deadlock.
        """
        for round_ in rounds:
            if not (names := [name for name in round_.names if name not in self._asked.request.left_out]):
                continue
            nodes = sorted(part.node for part in self.parts)
            if round_.says:
                say(f"{', '.join(nodes)}: {round_.says}, at most {self._asked.request.steady.wait_s:g} s")
            for several in [[node] for node in nodes] if round_.is_in_order else [nodes]:
                for node, answer in self._told(several, names).items():
                    if isinstance(answer, UnansweredError):
                        yield Check(names[0], LaunchResult.FAILED, f"{node}: {answer}", node=node)
                        continue
                    try:
                        checks = [record(Check, item) for item in answer]
                    except (KeyError, TypeError, ValueError):
                        checks = [Check(names[0], LaunchResult.FAILED, measuring.OTHER_VERSION)]
                    for check in checks:
                        yield replace(check, message=f"{node}: {check.message}", node=node)

    def _told(self, nodes: Sequence[str], names: Sequence[str]) -> Mapping[str, Any]:
        """Results of the checks of these names on some nodes; a signal stops waits there, too."""
        launch, steady = self._asked, self._asked.request.steady
        requests = {
            part.node: {
                "do": "check",
                "command": list(part.command),
                "environment": dict(part.environment),
                "vllm": self.subject.vllm,
                # A part that only computes has no port.
                "names": [name for name in names if name != "port" or part is self.parts[0]],
                "steady": list(steady),
                "is_check": launch.request.is_check,
                "gpu_memory": launch.gpu_memory,
            }
            for part in self.parts
            if part.node in nodes
        }
        answers: dict[str, Any] = {}
        thread = threading.Thread(
            target=lambda: answers.update(self._carrier.ask_all(requests, steady.wait_s + _CHECKED_S)), daemon=True
        )
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.2)
        except BaseException:
            self.unlock()
            raise
        return answers

    def again(self, say: Callable[[str], None]) -> Iterator[Check]:
        """Checks before a retry; the locks are still held."""
        yield from self._own_checks(say, _ROUNDS[-1:])

    def edited(self, edits: Sequence[Edit]) -> PlannedClusterLaunch:
        """The same launch with edits in the command of every part."""
        changed = copy(self)
        changed.parts = []
        for part in self.parts:
            words, environment = ServedLaunch(part.command, part.environment, self.subject.vllm).edited(edits).run
            changed.parts.append(NodeCommand(part.node, tuple(words), environment))
        changed.subject = self.subject.edited(edits)
        return changed

    def launch(self, folder: Path, number: int) -> AbstractContextManager[Run]:
        """Launch all parts."""
        return OverNodes(self._carrier, self.parts, folder, number)

    def unlock(self) -> None:
        """Release the locks of all nodes."""
        self._carrier.ask_all({part.node: {"do": "unlock"} for part in self.parts}, 10)
