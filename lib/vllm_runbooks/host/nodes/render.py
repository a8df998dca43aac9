"""Several nodes as text, JSON or a notebook's `Shown`: what differs, what it means, and what each node needs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from typing import NamedTuple

from vllm_runbooks.core.display import Shown, to_json, visible
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.views.elements import (
    AMBER,
    GREEN,
    GREY,
    RED,
    Headline,
    badge,
    cut,
    heading,
    html_table,
    preformatted,
    prose,
    remark,
    tag,
    verdict,
)
from vllm_runbooks.core.views.styled import (
    BLANK,
    GROUNDS,
    SEVERITIES,
    Block,
    Line,
    Loose,
    Prose,
    Table,
    Tone,
    Words,
    bulleted,
    headed,
    parted,
    plain,
    styled,
)
from vllm_runbooks.host.nodes import compared
from vllm_runbooks.host.nodes.records import (
    BACKENDS,
    CheckedCluster,
    Cluster,
    Collective,
    Difference,
    NodeFacts,
    NodeFinding,
    RankState,
    Reach,
    Reachability,
    Unmeasured,
)
from vllm_runbooks.host.nodes.ways import GLOO, HOST_IP, NCCL, is_loopback

_MOST = 16
"""Nodes that a table shows; what differs is named of all."""
_MAX_NAME = 40


class _Standing(NamedTuple):
    """How the answer stands."""

    head: Headline
    ground: str
    tone: Tone


_STANDINGS = {
    True: _Standing(Headline("ok", "Nothing stands in the way of a start over these nodes"), GREEN, Tone.GOOD),
    False: _Standing(Headline("not ok", "A start over these nodes would fail or suffer"), RED, Tone.BAD),
    None: _Standing(
        Headline("unknown", "Nothing was found that stands in the way, and not everything was measured"),
        AMBER,
        Tone.WARN,
    ),
}
_SELF, _ELSE_OPEN = "-", ", others open"
"""In the matrix: a node to itself, and what stands behind the ports that are closed."""
_DIFFERS = "differs"
_UNKNOWN = "unknown"


def snapshot_json(found: Cluster) -> str:
    """The nodes alone, as they are kept in a file."""
    base = {name: value for name, value in document(found).items() if name in Cluster.__dataclass_fields__}
    return to_json(base) + "\n"


def view(found: CheckedCluster) -> list[Block]:
    """The nodes, for a terminal."""
    head, tone = _head(found), _STANDINGS[found.ok].tone
    parts: list[list[Block]] = [[Loose(styled(head.verdict, tone) + f": {head.why}"), *map(Loose, _about(found))]]
    rows = _matrix(found)
    if rows:
        parts.append(headed("WHICH NODE REACHES WHICH", [_table(["from, to", *_columns(found)], rows), _ports(found)]))
    if found.findings:
        parts.append(headed("WHAT IT MEANS", [block for each in found.findings for block in _finding_view(each)]))
    if found.differences:
        parts.append(headed("WHAT DIFFERS", [_table(_DIFFERENCES, [_row(each) for each in found.differences])]))
    if found.environments:
        lines: list[Block] = []
        for each in found.environments[:_MOST]:
            lines.append(bulleted(styled(f"{_short(each.node)}: ", Tone.HEADING) + each.why))
            lines.append(Line(styled(f"    export {_set(each.variables)}", Tone.COMMAND)))
        parts.append(headed("WHAT EACH NODE NEEDS", [*lines, *(Line(f"    {line}") for line in _more(found))]))
    if found.unmeasured:
        parts.append(headed("NOT MEASURED", [bulleted(said) for said in _unmeasured(found)]))
    return [*parted(parts), BLANK]


def _head(found: CheckedCluster) -> Headline:
    """How the answer stands; nobody should take nodes without a card for a cluster that serves on cards."""
    head = _STANDINGS[found.ok].head
    has_none = bool(found.nodes) and all(compared.GPUS.of(node) == compared.NO_GPUS for node in found.nodes)
    return head._replace(why=f"{head.why}; no node has a GPU") if has_none else head


def _table(head: Sequence[str], rows: Sequence[Sequence[Words]]) -> Table:
    return Table([styled(name, Tone.FAINT) for name in head], rows)


def _more(found: CheckedCluster) -> list[str]:
    rest = len(found.environments) - _MOST
    return [f"and those of {rest:,} more nodes: see --format json"] if rest > 0 else []


def _short(name: str) -> str:
    return visible(cut(name, _MAX_NAME))


def _listed(names: Sequence[str]) -> str:
    return compared.listed([_short(name) for name in names])


def _set(variables: Mapping[str, str]) -> str:
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())


_ASKED = {"ray": ", asked through Ray", "ssh": ", asked over ssh"}


def _about(found: Cluster) -> Iterator[str]:
    names = _listed([node.name for node in found.nodes])
    there = (
        f"{_count(len(found.nodes), 'node')}{_ASKED.get(found.by or '', '')}: {names}" if names else "no node answers"
    )
    yield cut(f"{there}{f'; {len(found.unread)} could not be asked' if found.unread else ''}", 400)
    if found.constructed:
        yield cut(f"constructed, not read on hosts: {found.source or 'from no source'}", 400)
    ran = [each for each in found.collectives or () if all(rank.state is RankState.DONE for rank in each.ranks)]
    if ran:
        took = [f"{BACKENDS.get(each.backend, each.backend)} {_slowest(each)}" for each in ran]
        over = _count(len(ran[0].ranks), "rank")
        yield f"an all-reduce of {ran[0].size_mib:g} MiB ran over {over}: {', '.join(took)}"
    if found.nodes and all(node.model is None for node in found.nodes):
        yield "no model was compared: --model names one"


def _slowest(each: Collective) -> str:
    seconds = [rank.seconds for rank in each.ranks if rank.seconds is not None]
    return f"{max(seconds):.3g} s" if seconds else "in a time that nobody told"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


# ---- the matrix


def _columns(found: CheckedCluster) -> list[str]:
    return [_short(found.nodes[number].name) for number in _picked(found)]


def _picked(found: CheckedCluster) -> Sequence[int]:
    """Numbers of the nodes that a table shows: of too many those with most that is closed to or from them, or differs.

    Which of them stands in which column is as the nodes were named.
    """
    if len(found.nodes) <= _MOST:
        return range(len(found.nodes))
    odd: Counter[str] = Counter()
    for each in found.reaches or ():
        if each.state is not Reachability.OPEN:
            odd.update((each.source, each.target))
    for differs in found.differences:
        usual = _usual(differs.values)
        odd.update(node for node, value in differs.values.items() if value not in (None, usual))
    ranked = sorted(range(len(found.nodes)), key=lambda number: -odd[found.nodes[number].name])
    return sorted(ranked[:_MOST])


def _matrix(found: CheckedCluster) -> list[tuple[str, ...]]:
    """From each node to each: in words, as nobody should have to know what a colour means."""
    if not found.reaches:
        return []
    names = [found.nodes[number].name for number in _picked(found)]
    shown = frozenset(names)
    by_pair: dict[tuple[str, str], list[Reach]] = {}
    for each in found.reaches:
        if each.source in shown and each.target in shown:
            by_pair.setdefault((each.source, each.target), []).append(each)
    own = {each.node: each.variables.get("VLLM_HOST_IP") for each in found.environments}

    def way(source: str, target: str) -> str:
        return _SELF if source == target else _cell(by_pair.get((source, target), []), own.get(target))

    return [(_short(source), *(way(source, target) for target in names)) for source in names]


def _cell(tried: Sequence[Reach], address: str | None) -> str:
    """What became of the attempts at the address that would be used, else at all of them."""
    at = [each for each in tried if each.address == address] or list(tried)
    if not at:
        return "not tried"
    by_state: dict[Reachability, list[Reach]] = {}
    for each in at:
        by_state.setdefault(each.state, []).append(each)
    if len(by_state) == 1:
        (state,) = by_state
        return state.value
    closed = [
        f"{state.value}: {', '.join(dict.fromkeys(str(one.port) for one in each))}"
        for state, each in by_state.items()
        if state is not Reachability.OPEN
    ]
    return f"{'; '.join(closed)}{_ELSE_OPEN * (Reachability.OPEN in by_state)}"


def _ports(found: CheckedCluster) -> Block:
    return Loose(styled(_tried(found), Tone.FAINT), "")


def _tried(found: CheckedCluster) -> str:
    uses = {f"{each.port} ({each.use})": None for each in found.reaches or ()}
    many = f"; {_MOST} of {len(found.nodes):,} nodes are shown, first those with most that is closed or differs"
    more = many if len(found.nodes) > _MOST else ""
    return f"ports: {', '.join(list(uses)[:8])}{more}"


# ---- what differs, and what it means

_DIFFERENCES = ("fact", "values, with their nodes", "matters")


def _row(each: Difference) -> tuple[Words, ...]:
    matters = styled("yes", Tone.WARN) if each.matters else styled("no finding", Tone.FAINT)
    return visible(cut(each.what, 60)), visible(cut(_values(each.values), 200)), matters


def _values(values: Mapping[str, str | None]) -> str:
    by_value: dict[str, list[str]] = {}
    for node, value in values.items():
        by_value.setdefault(_UNKNOWN if value is None else value, []).append(node)
    return "; ".join(f"{value}: {_listed(nodes)}" for value, nodes in by_value.items())


def _finding_view(found: NodeFinding) -> list[Block]:
    severity = styled(found.severity.value, SEVERITIES[found.severity])
    return [
        bulleted(severity + styled(f" {found.id}", Tone.FAINT) + f": {visible(found.text)}"),
        Prose(styled("so:", Tone.HEADING) + f" {found.effect}", "    "),
        Prose(styled("do:", Tone.HEADING) + f" {found.do}", "    "),
    ]


def _unmeasured(found: CheckedCluster) -> Iterator[str]:
    whole = tuple(node.name for node in found.nodes)
    for each in found.unmeasured:
        of = "" if each.nodes == whole else f": of {_listed(each.nodes)}"
        yield f"{each.what}{of}{_because(each)}"


def _because(each: Unmeasured) -> str:
    return f" ({each.why})" if each.why else ""


# ---- for a notebook

_OWN: tuple[tuple[str, Callable[[NodeFacts], str | None]], ...] = (
    ("addresses", lambda node: _joined(_outward(node))),
    ("its name stands for", lambda node: _joined(node.resolves_to or ())),
    *((name, partial(lambda name, node: (node.environment or {}).get(name), name)) for name in (HOST_IP, NCCL, GLOO)),
    ("clock", lambda node: _offset(node.clock_offset_s)),
)
"""Facts that every node has for itself: that they differ says nothing."""


def _outward(node: NodeFacts) -> Iterator[str]:
    for each in node.interfaces or ():
        if not all(map(is_loopback, each.addresses)):
            yield f"{each.name} {', '.join(each.addresses)}"


def _joined(parts: Iterable[str]) -> str | None:
    return "; ".join(parts) or None


def _offset(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:+.3g} s" if abs(seconds) >= 0.001 else "as that of who asked"


def _instead(why: str) -> Shown:
    """What stands in the place of nodes."""
    return Shown(why, prose(why))


def nodes(found: CheckedCluster | str, *, is_whole: bool = True) -> Shown:
    """The nodes with what they are, a column each; what differs is marked by a word, what does not is told once.

    Args:
        found: The nodes; else why there are none.
        is_whole: Whether all that is known of them is shown, or only what differs.
    """
    if isinstance(found, str):
        return _instead(found)
    head, ground = _head(found), _STANDINGS[found.ok].ground
    picked = _picked(found)
    every = [*map(_of_difference, found.differences), *(_facts(found) if is_whole else ())]
    rows = [row._replace(values=tuple(row.values[number] for number in picked)) for row in every]
    alike = list(_alike(found)) if is_whole else []
    html = verdict(head, ground) + "".join(map(remark, _about(found)))
    blocks: list[Block] = [Loose(str(head)), *map(Loose, _about(found))]
    if rows:
        columns = ["", *_columns(found)]
        cells = [[_named(row.what), *map(_narrow, _marked(row))] for row in rows]
        html += html_table(columns, cells, widest="none")
        blocks.append(_table(columns, [[visible(row.what), *_plainly(row)] for row in rows]))
    if not found.differences:
        html += remark(_NOTHING_DIFFERS)
        blocks.append(Line(_NOTHING_DIFFERS))
    if alike:
        said = f"{'; '.join(alike)}."
        html += heading(_ALIKE) + tag("p", escape(visible(said)), _PARAGRAPH)
        blocks.append(Loose(f"{_ALIKE}: {said}"))
    return Shown(plain(blocks), html)


_NOTHING_DIFFERS = "Nothing that was compared differs."
_ALIKE = "The same on all nodes"
_PARAGRAPH = "max-width:80ch;margin:4px 0"


class _Fact(NamedTuple):
    """A fact of the nodes."""

    what: str
    values: tuple[str | None, ...]
    usual: str | None = None
    """The value of more than half of all nodes."""
    differs: bool = False
    matters: bool = False


def _compared(found: CheckedCluster) -> Iterator[tuple[str, tuple[str | None, ...]]]:
    """Facts that do not differ, with their values by node, as far as they are known."""
    differing = {each.what for each in found.differences}
    for fact in compared.FACTS:
        if fact.what not in differing:
            yield fact.what, tuple(_known(fact.of(node), found) for node in found.nodes)


def _alike(found: CheckedCluster) -> Iterator[str]:
    """What is known of all nodes, and is the same everywhere."""
    for what, values in _compared(found):
        if len(values) > 1 and values[0] is not None and len({*values}) == 1:
            yield f"{what} {cut(values[0], 80)}"


def _facts(found: CheckedCluster) -> Iterator[_Fact]:
    """What is not known of all nodes, then what each node has for itself."""
    rows = [(what, values) for what, values in _compared(found) if len(values) == 1 or len({*values}) > 1]
    rows += [(what, tuple(of(node) for node in found.nodes)) for what, of in _OWN]
    for what, values in rows:
        if any(value is not None for value in values):
            yield _Fact(what, values)


def _known(value: str | None, found: Cluster) -> str | None:
    """A value; what was only not told is not taken for absent."""
    return None if found.constructed and value == compared.ABSENT else value


def _of_difference(each: Difference) -> _Fact:
    values = tuple(each.values.values())
    return _Fact(each.what, values, _usual(each.values), differs=True, matters=each.matters)


def _usual(values: Mapping[str, str | None]) -> str | None:
    """The value of more than half of the nodes; None: there is none."""
    known = Counter(value for value in values.values() if value is not None)
    return next((value for value, count in known.most_common(1) if count * 2 > known.total()), None)


def _plainly(row: _Fact) -> Iterator[str]:
    for value in row.values:
        shown = _UNKNOWN if value is None else visible(cut(value, 60))
        yield f"{shown} ({_DIFFERS})" if row.differs and value is not None and value != row.usual else shown


def _narrow(html: str) -> str:
    """A cell that gives way on a telephone before the table has to be scrolled."""
    return tag("div", html, "min-width:4.5em;overflow-wrap:anywhere")


def _named(what: str) -> str:
    """The name of a row, never broken inside of a word; one of a variable may be behind its underlines."""
    return escape(visible(what)).replace("_", "_<wbr>")


def _marked(row: _Fact) -> Iterator[str]:
    for value in row.values:
        if value is None:
            yield tag("span", _UNKNOWN, "opacity:.75")
            continue
        shown = escape(visible(cut(value, 80)))
        if not row.differs or value == row.usual:
            yield shown
        else:
            yield f"{shown} {badge(_DIFFERS, AMBER if row.matters else GREY)}"


def reach(found: CheckedCluster | str) -> Shown:
    """Which node reaches which, in words, for a notebook."""
    if isinstance(found, str):
        return _instead(found)
    rows = _matrix(found)
    if not rows:
        said = "Which node reaches which was not measured."
        return Shown(said, prose(said))
    head = ["from, to", *_columns(found)]
    cells = [[escape(source), *map(_way, ways)] for source, *ways in rows]
    faster = _speeds(found)
    below = "".join(remark(line) for line in (_tried(found), *faster))
    return Shown(
        plain([_table(head, rows), _ports(found), *map(Line, faster)]),
        html_table(head, cells, widest="none") + below,
    )


def _speeds(found: CheckedCluster) -> list[str]:
    """The slowest way that was open, which is what a server over all of them waits for."""
    waits = [each.latency_ms for each in found.reaches or () if each.latency_ms is not None]
    rates = [each.bandwidth_mbit_s for each in found.reaches or () if each.bandwidth_mbit_s is not None]
    said = [f"at most {max(waits):.3g} ms there and back"] if waits else []
    said += [f"at least {min(rates):,.0f} Mbit/s"] if rates else []
    return [f"Of all ways that were measured: {', '.join(said)}."] if said else []


def _way(said: str) -> str:
    if said in (_SELF, Reachability.OPEN.value):
        return escape(said)
    closed, rest, _ = said.partition(_ELSE_OPEN)
    return badge(closed, AMBER if rest else RED) + escape(rest)


def findings(found: CheckedCluster | str) -> Shown:
    """What the nodes mean for a server over them, for a notebook."""
    if isinstance(found, str):
        return _instead(found)
    unknown = _unmeasured_together(found)
    below = heading(_UNMEASURED) + "".join(tag("p", escape(visible(each)), _PARAGRAPH) for each in unknown)
    lines = [f"{_UNMEASURED}. {each}" for each in unknown]
    if not found.findings:
        said = f"{_head(found).why}."
        return Shown("\n".join([said, *lines]), prose(said) + (below if unknown else ""))
    rows = [
        [
            badge(each.severity.value, GROUNDS[SEVERITIES[each.severity]]),
            tag("code", escape(each.id)) + escape(f" · {_listed(each.nodes)}")
            + f"<br>{escape(visible(each.text))}<br><b>so</b> {prose(each.effect)}<br><b>do</b> {prose(each.do)}",
        ]
        for each in found.findings
    ]  # fmt: skip
    table = html_table(("", "what it means, how it would look, and what to do"), rows)
    blocks = [block for each in found.findings for block in _finding_view(each)]
    return Shown("\n".join([plain(blocks), *lines]), table + (below if unknown else ""))


_UNMEASURED = "Not measured"


def _unmeasured_together(found: CheckedCluster) -> list[str]:
    """What was not measured, of the same nodes together."""
    whole = tuple(node.name for node in found.nodes)
    by_nodes: dict[tuple[str, ...], list[str]] = {}
    for each in found.unmeasured:
        by_nodes.setdefault(each.nodes, []).append(f"{each.what}{_because(each)}")
    return [
        f"Of {'all nodes' if names == whole else _listed(names)}: {'; '.join(whats)}."
        for names, whats in by_nodes.items()
    ]


def exports(found: CheckedCluster) -> list[tuple[str, str]]:
    """Of the first nodes, how each is called and what it needs in its environment, as lines of a shell."""
    return [(_short(each.node), _exported(each.variables)) for each in found.environments[:_MOST]]


def environments(found: CheckedCluster | str) -> Shown:
    """What each node needs in its environment, for a notebook."""
    if isinstance(found, str):
        return _instead(found)
    if not found.environments:
        said = (
            "The way from node to node is not known, so no environment is offered: "
            "`vllm-runbooks cluster check --ray ADDRESS`, or `--hosts FILE`, measures it."
        )
        return Shown(said, prose(said))
    shown = found.environments[:_MOST]
    lines = [f"{_short(each.node)}: export {_set(each.variables)}" for each in shown]
    parts = [
        heading(_short(each.node)) + preformatted(_exported(each.variables)) + remark(cut(each.why, 200))
        for each in shown
    ]
    more = _more(found)
    return Shown("\n".join([*lines, *more]), "".join([*parts, *map(remark, more)]))


def _exported(variables: Mapping[str, str]) -> str:
    """Variables as lines of a shell."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
