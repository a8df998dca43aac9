"""Uncertain amounts of memory: low, expected and high, each with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

GIB = 2**30


class Band(NamedTuple):
    """Bytes: lower bound, expected value, upper bound."""

    low: int
    expected: int
    high: int

    def plus(self, other: Band) -> Band:
        """The band of a sum: the least of both together, the most of both together."""
        return Band(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def less(self, other: Band) -> Band:
        """The band of a difference: the least that is left, the most that is left."""
        return Band(self.low - other.high, self.expected - other.expected, self.high - other.low)

    def exact(self) -> Band:
        """The expected value without a range."""
        return Band(self.expected, self.expected, self.expected)


NOTHING = Band(0, 0, 0)


def tried(size: int) -> int:
    """Bytes that PyTorch requests for a tensor of `size`, as in "Tried to allocate".

    Source: c10/cuda/CUDACachingAllocator.cpp, `get_allocation_size`.
    """
    if size <= 2**20:
        return 2 * 2**20
    return 20 * 2**20 if size < 10 * 2**20 else -(-size // 2**21) * 2**21


@dataclass(frozen=True)
class Term:
    """One part of a GPU's memory."""

    name: str
    """"weights", "activation", "encoder", "cuda_graphs", "non_torch", "communication" or
    "kv_cache"; "adapters" or "draft" if the memory of LoRA or of a draft model is unknown."""
    band: Band | None
    """None if unknown."""
    source: str
    """Source of the amount: the configuration, a release's source lines, or measurements.

    For an unknown amount, the missing input.
    """
