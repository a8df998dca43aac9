"""Fake of Pillow's images: a file with its size."""
# ruff: noqa: N999 - Pillow's names

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass
class Picture:
    """An image with only a size."""

    size: tuple[int, int] = (256, 256)

    def resize(self, size: tuple[int, int]) -> Picture:
        return Picture(size)

    def convert(self, mode: str) -> Picture:
        assert mode == "RGB"
        return self

    def save(self, path: str) -> None:
        Path(path).write_text("x".join(map(str, self.size)), encoding="utf-8")


def linear_gradient(_mode: str) -> Picture:
    return Picture()


def open(path: str) -> Picture:  # noqa: A001 - Pillow's name
    width, height = Path(path).read_text(encoding="utf-8").split("x")
    return Picture((int(width), int(height)))
