"""Lower bounds on the time of traffic between hosts, from measurements of the network.

A lower bound on time gives an upper bound on speed. A message takes half a round trip plus the
transfer time of its bytes. Only the bytes that every algorithm must send are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from vllm_runbooks.plan.shape import Layer, Shape
from vllm_runbooks.plan.weights import Ranks


@dataclass(frozen=True)
class NodeLink:
    """The network between two hosts, in the worse of both directions; None if not measured."""

    bandwidth_mbit_s: float | None = None
    round_trip_ms: float | None = None

    def seconds(self, size: int) -> float:
        """A message's time at least; size in bytes."""
        waiting = (self.round_trip_ms or 0.0) / 2e3
        return waiting + (size * 8 / (self.bandwidth_mbit_s * 1e6) if self.bandwidth_mbit_s else 0.0)


Network = Mapping[frozenset[str], NodeLink]
"""Link between two hosts, by their names."""


@dataclass(frozen=True)
class Traffic:
    """Traffic between hosts for one layout on GPUs of several hosts."""

    token_s: float
    """Seconds that each decoded token of one request waits for the network, at least."""
    prompt_tokens_per_s: float | None
    """Maximum prompt tokens per second over the network; None if its bandwidth was not measured."""
    remark: str


def traffic(
    shape: Shape, ranks: Ranks, nodes: Sequence[str | None], network: Network, value_bytes: int
) -> Traffic | None:
    """Traffic of one replica between hosts; None without traffic or if a link was not measured.

    `nodes` has the host of each rank. `value_bytes` is the size of a value of the hidden state.
    """
    width = ranks.tensor * ranks.prefill
    stages = [nodes[start : start + width] for start in range(0, len(nodes), width)][: ranks.pipeline]
    size = shape.hidden_size * value_bytes
    sums = [_between(stage) if ranks.tensor > 1 else [] for stage in stages]
    passed = [pair for stage, other in pairwise(stages) for pair in _between((stage[-1], other[0]))]
    back = _between((stages[-1][0], stages[0][0])) if passed else []
    used = [*(pair for pairs in sums for pair in pairs), *passed, *back]
    if not used or any(pair not in network for pair in used):
        return None
    layers = list(_layers_of(shape, ranks))
    count = [sum(_sums(shape.layer(index)) for index in range(first, last)) for first, last in layers]
    token_s = sum(
        number * max(network[pair].seconds(size) for pair in pairs)
        for number, pairs in zip(count, sums, strict=True)
        if pairs
    )
    token_s += sum(network[pair].seconds(size) for pair in passed)
    token_s += sum(network[pair].seconds(0) for pair in back)
    sent = [(pair, number * size) for number, pairs in zip(count, sums, strict=True) for pair in pairs]
    sent += [(pair, size) for pair in passed]
    rates = [
        link.bandwidth_mbit_s * 1e6 / 8 / bytes_each
        for pair, bytes_each in sent
        if (link := network[pair]).bandwidth_mbit_s and bytes_each
    ]
    rate = min(rates) if len(rates) == len(sent) and rates else None
    return Traffic(token_s, rate, _said(token_s, rate, dict.fromkeys(used), network))


def _said(token_s: float, rate: float | None, used: Mapping[frozenset[str], None], network: Network) -> str:
    links = []
    for pair in used:
        link = network[pair]
        figures = [f"{link.bandwidth_mbit_s:,.0f} Mbit/s"] if link.bandwidth_mbit_s else []
        figures += [f"{link.round_trip_ms:.2g} ms round trip"] if link.round_trip_ms is not None else []
        links.append(f"{' and '.join(sorted(pair))}: {', '.join(figures) or 'not measured'}")
    parts = [
        f"as measured over TCP ({'; '.join(links)}), the network adds at least {token_s * 1e3:.2g} ms to every token"
    ]
    if rate is not None:
        parts.append(f"limits prefill to {rate:,.0f} tokens/s")
    return " and ".join(parts)


def _between(nodes: Sequence[str | None]) -> list[frozenset[str]]:
    return [frozenset(pair) for pair in combinations(dict.fromkeys(node or "" for node in nodes), 2)]


def _layers_of(shape: Shape, ranks: Ranks) -> Iterator[tuple[int, int]]:
    at = 0
    for stage in range(ranks.pipeline):
        even = shape.layers // ranks.pipeline
        count = ranks.partition[stage] if ranks.partition is not None else even
        yield at, at + count
        at += count


def _sums(layer: Layer) -> int:
    """All-reduces of a layer at least: attention's, and the network's where both do not share one norm and one sum."""
    parts = sum(1 for part in (layer.mixer, layer.feed_forward) if part is not None)
    return min(parts, 2 if layer.norms > 1 else 1)
