"""Fake of vLLM's settings."""

from __future__ import annotations

from dataclasses import dataclass


class ModelConfig:
    """Rejects settings that no device can run."""

    def verify_with_parallel_config(self, parallel: ParallelConfig) -> None:
        raise ValueError(f"there are no {parallel.tensor_parallel_size} devices")


@dataclass
class ParallelConfig:
    """Number of processes."""

    tensor_parallel_size: int
    world_size: int = 0

    def __post_init__(self) -> None:
        self.world_size = self.tensor_parallel_size
