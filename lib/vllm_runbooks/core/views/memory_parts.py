"""Parts of a GPU's memory: the same name, hue and hatch in every chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from vllm_runbooks.core.views.drawing import HAIR, NARROW, caption, rect

LIGHT_INK, _DARK_INK = "#fff", "#111"
PARTS = {
    "weights": ("weights", "#2f6099", "", LIGHT_INK),
    "activation": ("activation peak", "#e8b04a", "/", _DARK_INK),
    "encoder": ("encoder profile", "#7d55bd", "\\", LIGHT_INK),
    "non_torch": ("non-torch memory", "#b5bcc4", "x", _DARK_INK),
    "communication": ("communication", "#56616d", "|", LIGHT_INK),
    "cuda_graphs": ("CUDA graphs", "#c46a98", "-", _DARK_INK),
    "kv_cache": ("KV cache", "#6fc4b6", "", _DARK_INK),
}
"""Name, fill, hatch and ink: neighbours differ in lightness, and the light ones in hatch, so that grey is enough."""
_SUMS = {
    "used": ("needed without the KV cache", "#2f6099", "", LIGHT_INK),
    "unused": ("not used", HAIR, "", _DARK_INK),
    "overhead": ("activations and overhead", "#e8b04a", "/", _DARK_INK),
    "beyond": ("beyond the limit", "#cf222e", "/", LIGHT_INK),
    "allocated by PyTorch": ("allocated by PyTorch", "#2f6099", "", LIGHT_INK),
    "reserved by PyTorch, unallocated": ("reserved by PyTorch, unallocated", "#9db4d6", "/", _DARK_INK),
    "this process": ("this process", "#2f6099", "", LIGHT_INK),
    "this process, outside PyTorch": ("this process, outside PyTorch", "#b5bcc4", "x", _DARK_INK),
    "other processes": ("other processes", "#7a3b2e", "\\", LIGHT_INK),
    "rest": ("everything else, and free", "#8884", "", _DARK_INK),
    "not stated": ("not stated", "#8a939c", "|", _DARK_INK),
}
"""Sum of several parts, if a message or a summary does not separate them."""
_LOOKS = PARTS | _SUMS
_SMALL = 12
_BAR_WIDTH, _BAR_HEIGHT = 520, 26


def part_name(part: str) -> str:
    """Display name of a part."""
    return _LOOKS[part][0]


def ink(part: str) -> str:
    """Text colour on a part."""
    return _LOOKS[part][3]


def segment(part: str, x: float, y: float, wide: float, high: float, *, title: str = "") -> str:
    """A rectangle of a part, with its hatch if it has one."""
    _, fill, hatch, _ = _LOOKS[part]
    return rect(x, y, wide, high, fill, title=title) + (_hatch(part, x, y, wide, high) if hatch and wide > 0 else "")


def swatch(part: str) -> str:
    """Legend of a part next to its table row."""
    return f'<svg width="14" height="14" viewBox="0 0 14 14">{segment(part, 0.5, 0.5, 13, 13)}</svg>'


def stacked(amounts: Sequence[tuple[str, float]], total: float) -> str:
    """A bar of parts and their GiB within a GPU's total; the rest is background."""
    x, shapes = 0.0, [rect(0, 0, _BAR_WIDTH, _BAR_HEIGHT, HAIR)]
    for part, gib in amounts:
        wide = max(0.0, min(gib / total, 1.0)) * _BAR_WIDTH
        shapes.append(segment(part, x, 0, wide, _BAR_HEIGHT, title=part_name(part)))
        x += wide
    box = f'width="{_BAR_WIDTH}" height="{_BAR_HEIGHT}" viewBox="0 0 {_BAR_WIDTH} {_BAR_HEIGHT}"'
    label = ", ".join(f"{part_name(part)} {gib / total:.0%}" for part, gib in amounts)
    return f'<svg {box} role="img"><title>{escape(label)}</title>{"".join(shapes)}</svg>'


def legend(parts: Sequence[str], y: float, *, width: float = NARROW) -> tuple[str, float]:
    """Legend of parts, in lines as wide as a chart, and the height at which it ends."""
    shapes, x = [], 0.0
    for part in parts:
        wide = 20 + 7.0 * len(part_name(part)) + 12
        if x and x + wide > width + 12:
            x, y = 0.0, y + 20
        shapes += [segment(part, x, y - 11, 13, 13), caption(x + 18, y, part_name(part), size=_SMALL)]
        x += wide
    return "".join(shapes), y + 4


def _hatch(part: str, x: float, y: float, wide: float, high: float) -> str:
    """Lines across a rectangle. Patterns would need references, which pages do not let through."""
    _, _, kind, colour = _LOOKS[part]
    gap, lines = 6.0, []
    if kind == "|":
        lines = [(at, 0.0, at, high) for at in _steps(gap / 2, wide, gap)]
    elif kind == "-":
        lines = [(0.0, at, wide, at) for at in _steps(gap / 2, high, gap)]
    else:
        for at in _steps(gap / 2, wide + high, gap):
            low, top = max(0.0, at - high), min(at, wide)
            lines.append((low, at - low, top, at - top))
        mirrored = [(wide - x1, y1, wide - x2, y2) for x1, y1, x2, y2 in lines]
        lines = {"/": lines, "\\": mirrored, "x": [*lines, *mirrored]}[kind]
    track = "".join(f"M{x + x1:.1f} {y + y1:.1f}L{x + x2:.1f} {y + y2:.1f}" for x1, y1, x2, y2 in lines)
    return f'<path d="{track}" fill="none" stroke="{colour}" stroke-width="1.2" opacity="0.5" />' if track else ""


def _steps(first: float, end: float, gap: float) -> list[float]:
    return [first + gap * number for number in range(max(0, math.ceil((end - first) / gap)))]
