"""Rules on the nodes themselves: software, environment, model, GPUs, clocks and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median

from vllm_runbooks.catalog.tables import RuleFinding, load_table
from vllm_runbooks.core.records import Severity
from vllm_runbooks.host.cards import known
from vllm_runbooks.host.meanings import LEAST_MEMLOCK_MIB, OPEN_FILES, SMALL_SHM_MIB
from vllm_runbooks.host.nodes import compared
from vllm_runbooks.host.nodes.compared import Fact, listed
from vllm_runbooks.host.nodes.records import UnreadRemedy
from vllm_runbooks.host.nodes.view import ClusterRuleContext, NodeWords, RuleHit, difference_hits, grouped_hits
from vllm_runbooks.host.records import SHARED, HostFacts

_CLOCK_S = 1.0
_TOKEN = "RAY_AUTH_TOKEN"  # noqa: S105 - a name
_MAX_FILES = 4
_COVERED = ("host.shm_small", "host.memlock", "host.open_files", "gpu.unequal")
"""Findings about a host for which there is a rule on several nodes."""
_ON_THE_NODE = "it fails or suffers of this as a server of one host would, on that node alone; the others wait for it"


def unread(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Nodes without an answer."""
    remedies = load_table("unread_nodes", UnreadRemedy).values()
    for node in context.cluster.unread:
        do = next((remedy.do for remedy in remedies if any(word in node.reason for word in remedy.words)), "")
        yield RuleHit((node.name,), f"{node.name} could not be queried: {' '.join(node.reason.split())[:300]}", do=do)


def differs(fact: Fact) -> Callable[[ClusterRuleContext], Iterator[RuleHit]]:
    """A fact that must be the same on all nodes."""

    def condition(context: ClusterRuleContext) -> Iterator[RuleHit]:
        yield from difference_hits(f"{fact.what} versions differ", compared.values(fact, context.nodes), fact.what)

    return condition


def python(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Python versions: a difference is fatal with Ray, which rejects it.

    Other launches may work.
    """
    has_ray = any(compared.RAY.of(node) not in (None, compared.ABSENT) for node in context.nodes)
    for hit in differs(compared.PYTHON)(context):
        yield replace(hit, severity=None if has_ray else Severity.DEGRADED)


def environment(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Variables that the ranks have to agree on."""
    for name, values in context.variables.items():
        if compared.is_binding(name) and name != _TOKEN:
            yield from difference_hits(f"{name} differs", values, name)


def token(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Tokens of Ray, by their marks."""
    yield from difference_hits("Ray tokens differ", context.variables.get(_TOKEN, {}), _TOKEN)


def single_node_findings(context: ClusterRuleContext) -> Iterator[RuleFinding]:
    """Findings about a single host that prevent a launch there."""
    by_text: dict[RuleFinding, list[str]] = {}
    for node, findings in context.host_findings.items():
        for finding in findings:
            if finding.severity is not Severity.HINT and finding.id not in _COVERED:
                gpus = f"GPU {', '.join(map(str, finding.gpus))}: " if finding.gpus else ""
                same = replace(finding, text=f"{gpus}{finding.text}", effect=_ON_THE_NODE, gpus=())
                by_text.setdefault(same, []).append(node)
    for finding, nodes in by_text.items():
        yield replace(finding, text=f"on {listed(nodes)}: {finding.text}", nodes=tuple(nodes))


# ---- GPUs


def gpus_unequal(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """GPU models, by the catalog if known; a GPU without a name is ignored."""
    models = {
        node.name: frozenset(
            model.name if (model := known(gpu, context.specs)) else gpu.name for gpu in node.inventory.gpus if gpu.name
        )
        for node in context.nodes
    }
    if len({names for names in models.values() if names}) > 1:
        counts = compared.values(compared.GPUS, context.nodes)
        values = {node: value for node, value in counts.items() if models[node]}
        yield RuleHit(tuple(values), f"the GPUs differ: {compared.phrase(values)}", facts=(compared.GPUS.what,))


def gpus_missing(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Nodes without a GPU among others that have some."""
    values = compared.values(compared.GPUS, context.nodes)
    without = tuple(node for node, value in values.items() if value == compared.NO_GPUS)
    if without and len(without) < sum(value is not None for value in values.values()):
        why = context.matrix.nodes[without[0]].inventory.no_gpus_reason
        text = f"no GPU on {listed(without)} ({why}), but on other nodes"
        yield RuleHit(without, text, facts=(compared.GPUS.what,))


def gpu_counts(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Numbers of GPUs, of the nodes that have any."""
    counts = {node.name: str(len(node.inventory.gpus)) for node in context.nodes if node.inventory.gpus}
    yield from difference_hits("GPU counts differ", counts)


# ---- the model


def model_missing(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Nodes without the model's path."""
    sentences = []
    for node in context.nodes:
        if node.model is not None and not node.model.exists:
            why = f" ({' '.join(node.model.reason.split())[:200]})" if node.model.reason else ""
            sentences.append((node.name, NodeWords(f"{node.model.path} does not exist on", why)))
    yield from grouped_hits(sentences, compared.MODEL.what)


def model_path(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Paths of the model."""
    paths = {node.name: node.model.path for node in context.nodes if node.model is not None}
    yield from difference_hits("model paths differ", paths, compared.MODEL.what)


def model_differs(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Model files that differ from those of most nodes."""
    by_faults = compared.grouped((tuple(faults), node) for node, faults in context.files.items())
    for texts, nodes in by_faults.items():
        more = f"; and {len(texts) - _MAX_FILES} more files" if len(texts) > _MAX_FILES else ""
        first = "; ".join(texts[:_MAX_FILES])
        text = f"the model's files on {listed(nodes)} differ from those on the other nodes: {first}{more}"
        yield RuleHit(tuple(nodes), text, facts=(compared.MODEL.what,))


# ---- clocks and limits


def clock(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Clocks compared with the median of the nodes; of two nodes with that of the head."""
    by_name = {node.name: (offset, node) for node in context.nodes if (offset := node.clock_offset_s) is not None}
    if len(by_name) < 2:
        return
    right, head = by_name.get(context.cluster.head or "", next(iter(by_name.values())))
    has_most = len(by_name) > 2
    if has_most:
        right = median(offset for offset, _ in by_name.values())
    for name, (offset, node) in by_name.items():
        off = offset - right
        if abs(off) - (node.clock_error_s or 0) - (head.clock_error_s or 0) > _CLOCK_S:
            which = "ahead of" if off > 0 else "behind"
            than = "most others'" if has_most else f"that of {head.name}"
            yield RuleHit((name,), f"the clock of {name} is {abs(off):,.1f} s {which} {than}")


def low(
    limit: Callable[[HostFacts], float | None], least: float, form: str, text: str, fact: Fact
) -> Callable[[ClusterRuleContext], Iterator[RuleHit]]:
    """A known host limit that is too low.

    `form` is its format in the text; a negative limit means no limit.
    """

    def condition(context: ClusterRuleContext) -> Iterator[RuleHit]:
        limits = {node.name: limit(node.inventory.host) for node in context.nodes}
        lacking = {node: form.format(of) for node, of in limits.items() if of is not None and 0 <= of < least}
        if lacking:
            yield RuleHit(tuple(lacking), text.format(compared.phrase(lacking)), facts=(fact.what,))

    return condition


shm = low(lambda host: host.shm_mib, SMALL_SHM_MIB, "{:,.0f} MiB", f"{SHARED} has {{}}", compared.SHM)
memlock = low(
    lambda host: host.memlock_mib if host.rdma_devices else None,
    LEAST_MEMLOCK_MIB,
    "{:g} MiB",
    "a process may lock {}, and there are RDMA devices",
    compared.MEMLOCK,
)
open_files = low(
    lambda host: host.open_files_max, OPEN_FILES, "{:,.0f}", "files that a process may open: {}", compared.OPEN_FILES
)
