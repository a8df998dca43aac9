"""Several nodes as text, JSON or HTML: differences, their meaning, and variables per node."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from typing import NamedTuple

from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.views import elements
from vllm_runbooks.core.views.elements import AMBER, GREEN, GREY, RED, Headline, badge, cut, prose, remark, tag
from vllm_runbooks.core.views.runbook_steps import StepText
from vllm_runbooks.core.views.styled import (
    BLANK,
    Line,
    SentenceLines,
    TextBlock,
    Tone,
    Words,
    bulleted,
    headed,
    parted,
    plain,
    styled,
)
from vllm_runbooks.core.views.summary import count_of
from vllm_runbooks.host import finding_views
from vllm_runbooks.host.finding_views import faint_table, finding_blocks
from vllm_runbooks.host.nodes import compared
from vllm_runbooks.host.nodes.records import (
    BACKENDS,
    CheckedCluster,
    Cluster,
    Collective,
    Difference,
    NodeConnection,
    NodeFacts,
    RankState,
    Reachability,
    Unmeasured,
)
from vllm_runbooks.host.nodes.ways import GLOO, HOST_IP, NCCL, is_loopback

_MOST = 16
"""Maximum number of nodes in a table; differences are listed for all."""
_MAX_NAME = 40


class _Outcome(NamedTuple):
    head: Headline
    ground: str
    tone: Tone


_OUTCOMES = {
    True: _Outcome(Headline("ok", "No problem prevents a launch on these nodes"), GREEN, Tone.GOOD),
    False: _Outcome(Headline("not ok", "A launch on these nodes would fail or be slow"), RED, Tone.BAD),
    None: _Outcome(
        Headline("unknown", "No problem found, but not everything was measured"),
        AMBER,
        Tone.WARN,
    ),
}
SELF, _ELSE_OPEN = "-", ", others open"
"""Cells of the matrix: a node to itself, and the suffix if other ports are open."""
_DIFFERS = "differs"
_UNKNOWN = "unknown"


def snapshot_json(cluster: Cluster) -> str:
    """The nodes without their meaning, for a file."""
    return finding_views.snapshot_json(cluster, Cluster)


def view(cluster: CheckedCluster) -> list[TextBlock]:
    """The nodes, for a terminal."""
    head, tone = _head(cluster), _OUTCOMES[cluster.ok].tone
    parts: list[list[TextBlock]] = [
        [SentenceLines(styled(head.verdict.upper(), tone) + f"  {head.why}."), *map(SentenceLines, _summary(cluster))]
    ]
    rows = matrix(cluster)
    if rows:
        table = faint_table(["from / to", *_columns(cluster)], rows)
        parts.append(headed("CONNECTIVITY", [table, SentenceLines(styled(_ports(cluster), Tone.FAINT), "")]))
    if cluster.findings:
        parts.append(headed("FINDINGS", finding_blocks(cluster.findings)))
    if cluster.differences:
        parts.append(headed("DIFFERENCES", [faint_table(_DIFFERENCES, [_row(row) for row in cluster.differences])]))
    if cluster.environments:
        lines: list[TextBlock] = []
        for environment in cluster.environments[:_MOST]:
            lines.append(bulleted(styled(f"{_short(environment.node)}: ", Tone.HEADING) + environment.reason))
            lines.append(Line(styled(f"    export {_assignments(environment.variables)}", Tone.COMMAND)))
        parts.append(headed("SETTINGS PER NODE", [*lines, *(Line(f"    {line}") for line in _more(cluster))]))
    if cluster.unmeasured:
        parts.append(headed("NOT MEASURED", [bulleted(line) for line in _unmeasured(cluster)]))
    return [*parted(parts), BLANK]


def _head(cluster: CheckedCluster) -> Headline:
    """Result; nodes without a GPU are not recommended for a GPU cluster."""
    head = _OUTCOMES[cluster.ok].head
    has_none = bool(cluster.nodes) and all(compared.GPUS.of(node) == compared.NO_GPUS for node in cluster.nodes)
    return head._replace(why=f"{head.why}; no node has a GPU") if has_none else head


def _more(cluster: CheckedCluster) -> list[str]:
    rest = len(cluster.environments) - _MOST
    return [f"and those of {rest:,} more nodes: see --format json"] if rest > 0 else []


def _short(name: str) -> str:
    return visible(cut(name, _MAX_NAME))


def _listed(names: Sequence[str]) -> str:
    return compared.listed([_short(name) for name in names])


def _assignments(variables: Mapping[str, str]) -> str:
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())


_ASKED = {"ray": ", queried through Ray", "ssh": ", queried over SSH"}


def _summary(cluster: Cluster) -> Iterator[str]:
    names = _listed([node.name for node in cluster.nodes])
    count = count_of(len(cluster.nodes), "node")
    answers = f"{count}{_ASKED.get(cluster.method or '', '')}: {names}" if names else "no node answers"
    yield cut(f"{answers}{f'; {len(cluster.unread)} could not be queried' if cluster.unread else ''}", 400)
    if cluster.constructed:
        yield cut(f"Synthetic example: {cluster.source or 'from no source'}", 400)
    done = [run for run in cluster.collectives or () if all(rank.state is RankState.DONE for rank in run.ranks)]
    if done:
        took = [f"{BACKENDS.get(run.backend, run.backend)} {_slowest(run)}" for run in done]
        over = count_of(len(done[0].ranks), "rank")
        yield f"All-reduce of {done[0].size_mib:g} MiB over {over}: {', '.join(took)}"
    if cluster.nodes and all(node.model is None for node in cluster.nodes):
        yield "no model was compared: --model names one"


def _slowest(run: Collective) -> str:
    seconds = [rank.seconds for rank in run.ranks if rank.seconds is not None]
    return f"{max(seconds):.3g} s" if seconds else "in unknown time"


# ---- the matrix


def _columns(cluster: CheckedCluster) -> list[str]:
    return [_short(cluster.nodes[number].name) for number in _picked(cluster)]


def _picked(cluster: CheckedCluster) -> Sequence[int]:
    """Indices of the nodes in a table, in order.

    Of too many those with most closed ports or differences.
    """
    if len(cluster.nodes) <= _MOST:
        return range(len(cluster.nodes))
    odd: Counter[str] = Counter()
    for reached in cluster.connections or ():
        if reached.state is not Reachability.OPEN:
            odd.update((reached.source, reached.target))
    for difference in cluster.differences:
        usual = _usual(difference.values)
        odd.update(node for node, value in difference.values.items() if value not in (None, usual))
    ranked = sorted(range(len(cluster.nodes)), key=lambda number: -odd[cluster.nodes[number].name])
    return sorted(ranked[:_MOST])


def matrix(cluster: CheckedCluster) -> list[tuple[str, ...]]:
    """Reachability from each node to each as text, so that colours are not needed."""
    if not cluster.connections:
        return []
    names = [cluster.nodes[number].name for number in _picked(cluster)]
    columns = frozenset(names)
    by_pair = compared.grouped(
        ((attempt.source, attempt.target), attempt)
        for attempt in cluster.connections
        if attempt.source in columns and attempt.target in columns
    )
    addresses = {environment.node: environment.variables.get(HOST_IP) for environment in cluster.environments}

    def way(source: str, target: str) -> str:
        return SELF if source == target else _cell(by_pair.get((source, target), []), addresses.get(target))

    return [(_short(source), *(way(source, target) for target in names)) for source in names]


def _cell(attempts: Sequence[NodeConnection], address: str | None) -> str:
    """Result of the connections to the address in use, else of all connections."""
    attempts = [attempt for attempt in attempts if attempt.address == address] or attempts
    if not attempts:
        return "not tried"
    by_state: dict[Reachability, dict[str, None]] = {}
    for attempt in attempts:
        by_state.setdefault(attempt.state, {})[f"{attempt.port}"] = None
    if len(by_state) == 1:
        return next(iter(by_state)).value
    closed = [f"{state.value}: {', '.join(ports)}" for state, ports in by_state.items() if state != Reachability.OPEN]
    return f"{'; '.join(closed)}{_ELSE_OPEN * (Reachability.OPEN in by_state)}"


def _ports(cluster: CheckedCluster) -> str:
    uses = dict.fromkeys(f"{attempt.port} ({attempt.use})" for attempt in cluster.connections or ())
    many = f"; {_MOST} of {len(cluster.nodes):,} nodes are shown, first those with most that is closed or differs"
    return f"ports: {', '.join(list(uses)[:8])}{many if len(cluster.nodes) > _MOST else ''}"


# ---- differences and their meaning

_DIFFERENCES = ("fact", "values by node", "relevant")


def _row(difference: Difference) -> tuple[Words, ...]:
    matters = styled("yes", Tone.WARN) if difference.is_significant else styled("no finding", Tone.FAINT)
    return visible(cut(difference.fact, 60)), visible(cut(_values(difference.values), 200)), matters


def _values(values: Mapping[str, str | None]) -> str:
    by_value = compared.grouped((_UNKNOWN if value is None else value, node) for node, value in values.items())
    return "; ".join(f"{value}: {_listed(nodes)}" for value, nodes in by_value.items())


def _unmeasured(cluster: CheckedCluster) -> Iterator[str]:
    every = tuple(node.name for node in cluster.nodes)
    for fact in cluster.unmeasured:
        of = "" if fact.nodes == every else f": of {_listed(fact.nodes)}"
        yield f"{fact.fact}{of}{_because(fact)}"


def _because(fact: Unmeasured) -> str:
    return f" ({fact.reason})" if fact.reason else ""


# ---- for a notebook

_OWN: tuple[tuple[str, Callable[[NodeFacts], str | None]], ...] = (
    ("addresses", lambda node: "; ".join(_outward(node)) or None),
    ("address of the host name", lambda node: "; ".join(node.resolves_to or ()) or None),
    *((name, partial(lambda name, node: (node.environment or {}).get(name), name)) for name in (HOST_IP, NCCL, GLOO)),
    ("clock", lambda node: _offset(node.clock_offset_s)),
)
"""Facts that differ between nodes without meaning anything."""


def _outward(node: NodeFacts) -> Iterator[str]:
    for interface in node.interfaces or ():
        if not all(map(is_loopback, interface.addresses)):
            yield f"{interface.name} {', '.join(interface.addresses)}"


def _offset(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:+.3g} s" if abs(seconds) >= 0.001 else "as that of who asked"


def nodes(checked: CheckedCluster | str, *, is_whole: bool = True) -> RenderedView:
    """The nodes, a column each, or why there are none.

    Without `is_whole` only the differences, marked.
    """
    if isinstance(checked, str):
        return RenderedView.nothing(checked)
    head, ground = _head(checked), _OUTCOMES[checked.ok].ground
    picked = _picked(checked)
    every = [*map(_difference_fact, checked.differences), *(_facts(checked) if is_whole else ())]
    rows = [row._replace(values=tuple(row.values[number] for number in picked)) for row in every]
    alike = list(_alike(checked)) if is_whole else []
    html = elements.verdict(head, ground) + "".join(map(remark, _summary(checked)))
    blocks: list[TextBlock] = [SentenceLines(str(head)), *map(SentenceLines, _summary(checked))]
    if rows:
        columns = ["", *_columns(checked)]
        # Names do not break within a word; variables may break after underscores.
        cells = [[escape(visible(row.what)).replace("_", "_<wbr>"), *map(_narrow, _marked(row))] for row in rows]
        html += elements.html_table(columns, cells, widest="none")
        blocks.append(faint_table(columns, [[visible(row.what), *_plainly(row)] for row in rows]))
    if not checked.differences:
        html += remark(_NOTHING_DIFFERS)
        blocks.append(Line(_NOTHING_DIFFERS))
    if alike:
        text = f"{'; '.join(alike)}."
        html += elements.heading(_ALIKE) + tag("p", escape(visible(text)), _PARAGRAPH)
        blocks.append(SentenceLines(f"{_ALIKE}: {text}"))
    return RenderedView(plain(blocks), html)


_NOTHING_DIFFERS = "Nothing that was compared differs."
_ALIKE = "The same on all nodes"
_PARAGRAPH = "max-width:80ch;margin:4px 0"


class _FactRow(NamedTuple):
    what: str
    values: tuple[str | None, ...]
    usual: str | None = None
    differs: bool = False
    matters: bool = False


def _compared(cluster: CheckedCluster) -> Iterator[tuple[str, tuple[str | None, ...]]]:
    differing = {difference.fact for difference in cluster.differences}
    for fact in compared.FACTS:
        if fact.what not in differing:
            yield fact.what, tuple(_value(fact.of(node), cluster) for node in cluster.nodes)


def _value(value: str | None, cluster: Cluster) -> str | None:
    """A value; of constructed nodes an absent package may only be unreported."""
    return None if cluster.constructed and value == compared.ABSENT else value


def _alike(cluster: CheckedCluster) -> Iterator[str]:
    for what, values in _compared(cluster):
        if len(values) > 1 and values[0] is not None and len({*values}) == 1:
            yield f"{what} {cut(values[0], 80)}"


def _facts(cluster: CheckedCluster) -> Iterator[_FactRow]:
    """Facts that are unknown on some nodes, then harmless differences."""
    rows = [(what, values) for what, values in _compared(cluster) if len(values) == 1 or len({*values}) > 1]
    rows += [(what, tuple(of(node) for node in cluster.nodes)) for what, of in _OWN]
    for what, values in rows:
        if any(value is not None for value in values):
            yield _FactRow(what, values)


def _difference_fact(difference: Difference) -> _FactRow:
    values = tuple(difference.values.values())
    return _FactRow(difference.fact, values, _usual(difference.values), differs=True, matters=difference.is_significant)


def _usual(values: Mapping[str, str | None]) -> str | None:
    counts = Counter(value for value in values.values() if value is not None)
    return next((value for value, count in counts.most_common(1) if count * 2 > counts.total()), None)


def _plainly(row: _FactRow) -> Iterator[str]:
    for value in row.values:
        text = _UNKNOWN if value is None else visible(cut(value, 60))
        yield f"{text} ({_DIFFERS})" if row.differs and value is not None and value != row.usual else text


def _narrow(html: str) -> str:
    """A cell that wraps on a phone before the table has to be scrolled."""
    return tag("div", html, "min-width:4.5em;overflow-wrap:anywhere")


def _marked(row: _FactRow) -> Iterator[str]:
    for value in row.values:
        if value is None:
            yield tag("span", _UNKNOWN, "opacity:.75")
            continue
        text = escape(visible(cut(value, 80)))
        if not row.differs or value == row.usual:
            yield text
        else:
            yield f"{text} {badge(_DIFFERS, AMBER if row.matters else GREY)}"


def reach(checked: CheckedCluster | str) -> RenderedView:
    """Reachability between nodes as text, for a notebook."""
    if isinstance(checked, str):
        return RenderedView.nothing(checked)
    rows = matrix(checked)
    if not rows:
        return RenderedView.nothing(_NO_WAYS)
    head = ["from / to", *_columns(checked)]
    cells = [[escape(source), *map(_way, ways)] for source, *ways in rows]
    speeds = _speeds(checked)
    return RenderedView(
        plain([faint_table(head, rows), SentenceLines(_ports(checked), ""), *map(Line, speeds)]),
        elements.html_table(head, cells, widest="none") + "".join(map(remark, (_ports(checked), *speeds))),
    )


def _speeds(cluster: CheckedCluster) -> list[str]:
    waits = [attempt.latency_ms for attempt in cluster.connections or () if attempt.latency_ms is not None]
    rates = [attempt.bandwidth_mbit_s for attempt in cluster.connections or () if attempt.bandwidth_mbit_s is not None]
    limits = [f"at most {max(waits):.3g} ms round trip"] if waits else []
    limits += [f"at least {min(rates):,.0f} Mbit/s"] if rates else []
    return [f"Over all connections: {', '.join(limits)}."] if limits else []


def _way(cell: str) -> str:
    if cell in (SELF, Reachability.OPEN.value):
        return escape(cell)
    closed, rest, _ = cell.partition(_ELSE_OPEN)
    return badge(closed, AMBER if rest else RED) + escape(rest)


def findings(checked: CheckedCluster | str) -> RenderedView:
    """Findings for a server over the nodes, for a notebook."""
    if isinstance(checked, str):
        return RenderedView.nothing(checked)
    unknown = _unmeasured_by_nodes(checked)
    below = [tag("p", escape(visible(line)), _PARAGRAPH) for line in unknown]
    html = "".join([elements.heading(_UNMEASURED), *below]) if unknown else ""
    lines = [f"{_UNMEASURED}. {line}" for line in unknown]
    if not checked.findings:
        sentence = f"{_head(checked).why}."
        if not lines:
            return RenderedView.nothing(sentence)
        return RenderedView("\n".join([sentence, *lines]), prose(sentence) + html)
    where = ((finding, _listed(finding.nodes)) for finding in checked.findings)
    table = finding_views.findings_table(where, "what it means, how it would look, and what to do")
    return RenderedView("\n".join([plain(finding_blocks(checked.findings)), *lines]), table + html)


_UNMEASURED = "Not measured"


def _unmeasured_by_nodes(cluster: CheckedCluster) -> list[str]:
    every = tuple(node.name for node in cluster.nodes)
    by_nodes = compared.grouped((fact.nodes, f"{fact.fact}{_because(fact)}") for fact in cluster.unmeasured)
    return [
        f"Of {'all nodes' if names == every else _listed(names)}: {'; '.join(facts)}."
        for names, facts in by_nodes.items()
    ]


def comparison(checked: CheckedCluster | str) -> StepText | None:
    """Differences between the nodes, and facts that could not be compared; None without nodes."""
    if isinstance(checked, str):
        return None
    rows = [f"{visible(row.fact)} ({visible(cut(_values(row.values), 120))})" for row in checked.differences]
    more = f" and in {count_of(len(rows) - _MOST_ROWS, 'other fact')}" if len(rows) > _MOST_ROWS else ""
    fact = f"The nodes differ in {', '.join(rows[:_MOST_ROWS])}{more}." if rows else _NOTHING_DIFFERS
    problems = [f"`{finding.id}`" for finding in finding_views.problems(checked.findings)]
    count = len({missing.fact for missing in checked.unmeasured})
    so = [f"{count_of(len(problems), 'problem')}: {', '.join(problems)}."] if problems else []
    so += [f"{count_of(count, 'fact')} could not be measured and may differ as well."] if count else []
    return StepText(fact, " ".join(so))


def ways(checked: CheckedCluster | str) -> StepText | None:
    """Nodes that do not reach each other, and the effect on a launch; None without nodes."""
    if isinstance(checked, str):
        return None
    rows = matrix(checked)
    if not rows:
        command = "vllm-runbooks cluster check --hosts FILE --out nodes.json"
        do = "Measure it; ports are opened for seconds, and one all-reduce is run:"
        return StepText(
            _NO_WAYS, "A port that is blocked in one direction makes a launch hang without an error.", do, command
        )
    names = _columns(checked)
    closed = [
        f"{source} to {target}: {cell}"
        for source, *cells in rows
        for target, cell in zip(names, cells, strict=True)
        if cell not in (SELF, Reachability.OPEN.value)
    ]
    if closed:
        so = "vLLM starts on all nodes and then hangs: ranks wait for one that they cannot reach."
        return StepText(f"Not open: {'; '.join(closed[:_MOST_ROWS])}.", so, "Open these ports in both directions.")
    do = "Set the variables below on each node before vLLM or Ray starts." if checked.environments else ""
    return StepText(" ".join(["All nodes reach each other.", *_speeds(checked)]), do=do)


_MOST_ROWS = 4
"""Differences and connections that a sentence names."""
_NO_WAYS = "Which node reaches which was not measured."


def exports(cluster: CheckedCluster) -> list[tuple[str, str]]:
    """Environment of the first nodes as shell lines, by name."""
    return [(_short(node.node), _exports(node.variables)) for node in cluster.environments[:_MOST]]


def environments(checked: CheckedCluster | str) -> RenderedView:
    """Environment variables of each node, for a notebook."""
    if isinstance(checked, str):
        return RenderedView.nothing(checked)
    if not checked.environments:
        return RenderedView.nothing(
            "The network path between the nodes is unknown, so no environment is suggested: "
            "`vllm-runbooks cluster check --ray ADDRESS`, or `--hosts FILE`, measures it."
        )
    first, more = checked.environments[:_MOST], _more(checked)
    lines = [f"{_short(node.node)}: export {_assignments(node.variables)}" for node in first]
    parts = [
        elements.heading(_short(node.node))
        + elements.preformatted(_exports(node.variables))
        + remark(cut(node.reason, 200))
        for node in first
    ]
    return RenderedView("\n".join([*lines, *more]), "".join([*parts, *map(remark, more)]))


def _exports(variables: Mapping[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
