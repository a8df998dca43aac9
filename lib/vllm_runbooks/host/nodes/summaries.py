"""Summary of several nodes: problems of a server over them, and variables of each node."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from vllm_runbooks.core.display import visible
from vllm_runbooks.core.views.elements import cut
from vllm_runbooks.core.views.styled import Tone
from vllm_runbooks.core.views.summary import Step, SuggestedFix, Summary, count_of
from vllm_runbooks.host import finding_views
from vllm_runbooks.host.nodes import compared
from vllm_runbooks.host.nodes.records import BACKENDS, CheckedCluster, Cluster, Collective, RankState, Reachability
from vllm_runbooks.host.nodes.render import SELF, matrix
from vllm_runbooks.host.summaries import gpus_of

_MOST_NODES, _MOST_EXPORTS, _MAX_NAME = 8, 4, 40


def summarize(cluster: CheckedCluster, *, names: Sequence[str] = (), again: str = "") -> Summary:
    """Summarize nodes.

    Args:
        cluster: The checked nodes.
        names: Names of the recorded nodes; empty for live ones.
        again: The command that shows everything; empty if there is none.
    """
    problems = finding_views.problems(cluster.findings)
    state, tone = finding_views.problem_state(problems)
    if cluster.ok is None:
        state, tone = "UNKNOWN", Tone.WARN
    return Summary(
        state,
        tone,
        tuple(_about(cluster)),
        "" if problems else " ".join(_sentences(cluster)),
        finding_views.finding_statements(problems),
        _environments(cluster),
        "Set on each node before vLLM or Ray starts",
        steps=tuple(_steps(cluster, names)),
        more=finding_views.more_of(cluster.findings, ["all facts"], again),
    )


def _about(cluster: Cluster) -> Iterator[str]:
    """Nodes, their GPUs, and their source."""
    nodes = [cut(node.name, _MAX_NAME) for node in cluster.nodes]
    names = compared.listed(nodes) if len(nodes) <= _MOST_NODES else ""
    yield f"{count_of(len(nodes), 'node')}{f': {names}' if names else ''}"
    if cluster.unread:
        yield f"{count_of(len(cluster.unread), 'node')} could not be queried"
    if gpus := gpus_of([gpu for node in cluster.nodes for gpu in node.inventory.gpus]):
        yield gpus
    elif cluster.nodes and all(compared.GPUS.of(node) == compared.NO_GPUS for node in cluster.nodes):
        yield "no GPU"
    if how := {"ray": "queried through Ray", "ssh": "queried over SSH"}.get(cluster.method or ""):
        yield how
    if cluster.constructed:
        yield "synthetic example"


def _sentences(cluster: CheckedCluster) -> Iterator[str]:
    """Measurements without a problem."""
    ways = [cell for _, *cells in matrix(cluster) for cell in cells if cell != SELF]
    if ways and all(cell == Reachability.OPEN for cell in ways):
        ports = count_of(len({attempt.port for attempt in cluster.connections or ()}), "port")
        yield f"The nodes reach each other on {ports}."
    done = [run for run in cluster.collectives or () if all(rank.state is RankState.DONE for rank in run.ranks)]
    if done:
        yield f"All-reduce of {done[0].size_mib:g} MiB: {', '.join(map(_took, done))}."
    facts = count_of(len({fact.fact for fact in cluster.unmeasured}), "fact")
    yield "No problems found." if cluster.ok else f"No problems found, but {facts} could not be measured."


def _took(run: Collective) -> str:
    seconds = [rank.seconds for rank in run.ranks if rank.seconds is not None]
    return f"{BACKENDS.get(run.backend, run.backend)}{f' {max(seconds):.3g} s' if seconds else ''}"


def _environments(cluster: CheckedCluster) -> SuggestedFix | None:
    """Variables to set on each node; None if the routes are unknown."""
    if not cluster.environments:
        return None
    lines = []
    for node in cluster.environments[:_MOST_EXPORTS]:
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in node.variables.items())
        lines += [visible(cut(f"# {node.node}", _MAX_NAME)).replace("\n", " "), f"export {variables}"]
    omitted = len(cluster.environments) - _MOST_EXPORTS
    lines += [f"# and on {count_of(omitted, 'more node')}"] if omitted > 0 else []
    return SuggestedFix("", is_command=False, command="\n".join(lines))


def _steps(cluster: CheckedCluster, names: Sequence[str]) -> Iterator[Step]:
    if cluster.nodes and all(node.model is None for node in cluster.nodes):
        yield Step("Note", "The model was not compared; use --model PATH.")
    if not cluster.connections and not cluster.unread:
        yield Step("Next", "Measure the connections between the nodes", "vllm-runbooks cluster check --ray ADDRESS")
    elif cluster.ok and names:
        nodes = " ".join(f"--nodes {shlex.quote(name)}" for name in names[:_MOST_NODES])
        yield Step("Next", "Write the launch files", f"vllm-runbooks cluster files MODEL {nodes} --out start")
    elif cluster.ok:
        option = "--ray ADDRESS" if cluster.method == "ray" else "--hosts FILE"
        yield Step("Next", "Launch on these nodes", f"vllm-runbooks serve {option} MODEL")
