"""Shapes, texts and scales of SVG charts, readable on light and dark pages.

All text is escaped. Elements and attributes are those that `core.markup` allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

WIDTH, NARROW = 720, 440
GUTTER = 150
END = 62
ROW, BAR = 42, 22
HAIR = "#8886"
MAX_ROWS = 24
"""Maximum number of bars in a chart; further rows are in the tables only."""
LINES = ("#3f7fc1", "#c9862b", "#8a63c9", "#2f9c8f", "#d05a4e", "#8a94a0")


def caption(x: float, y: float, text: str, *, size: int = 13, anchor: str = "start", faint: bool = False) -> str:
    """A line of text; `y` is its base line, `anchor` its point at `x`."""
    opacity = ' opacity="0.72"' if faint else ""
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="currentColor"{opacity}'
    return f"<text {place}>{escape(text)}</text>"


def rect(x: float, y: float, wide: float, high: float, fill: str, *, title: str = "") -> str:
    """A filled rectangle with a tooltip."""
    tooltip = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(wide, 0.0):.1f}" height="{high:.1f}" fill="{fill}">{tooltip}</rect>'
    )


def rule(x1: float, y1: float, x2: float, y2: float, *, colour: str = HAIR, thick: float = 1) -> str:
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {place} stroke="{colour}" stroke-width="{thick:g}" />'


def picture(
    parts: Iterable[str], height: float, title: str, *, is_narrow: bool = False, is_stretched: bool = False
) -> str:
    """A chart; a stretched one keeps its height when it gets narrower, so it must not contain text."""
    width = NARROW if is_narrow else WIDTH
    fixed = "" if is_narrow else f'height="{height:.0f}" '
    box = f'width="{width}" {fixed}viewBox="0 0 {width} {height:.0f}"'
    box += ' preserveAspectRatio="none"' if is_stretched else ""
    return f'<svg {box} role="img" style="max-width:100%"><title>{escape(title)}</title>{"".join(parts)}</svg>'


def swatches(entries: Mapping[str, str], y: float) -> tuple[str, float]:
    parts, x = [], 0.0
    for name, fill in entries.items():
        wide = 24 + 7.0 * len(name) + 16
        if x and x + wide > WIDTH:
            x, y = 0.0, y + 20
        parts += [rect(x, y - 10, 11, 11, fill), caption(x + 17, y, name, size=12)]
        x += wide
    return "".join(parts), y + 8


def tick_step(longest: float, ticks: int = 6) -> float:
    """A round distance between ticks, for about `ticks` of them."""
    raw = max(longest, 1e-9) / ticks
    magnitude = 10 ** math.floor(math.log10(raw))
    return float(next(factor for factor in (1, 2, 5, 10) if raw <= factor * magnitude) * magnitude)


def axis(longest: float, unit: str, *, left: float, right: float, top: float, bottom: float) -> str:
    step = tick_step(longest)
    parts = []
    for number in range(int(longest / step + 1e-9) + 1):
        x = left + (right - left) * number * step / longest
        label = f"{number * step:g}" + (f" {unit}" if number == 0 else "")
        parts += [rule(x, top, x, bottom), caption(x, bottom + 16, label, size=11, anchor="middle", faint=True)]
    return "".join(parts)


_HIGH, _LEFT, _TOP = 150.0, 44.0, 34.0


def curves(
    values: Mapping[str, Sequence[float | None]], seconds: Sequence[float], ends: tuple[str, str], title: str
) -> str:
    """Values over time, each with its name; those of a name in % share the right scale up to 100, the others the left.

    Args:
        values: Values by name at each time; None where one is unknown.
        seconds: The times, ascending.
        ends: Captions of the first and the last time.
        title: What the chart shows.
    """
    shared = (value for name, some in values.items() if "%" not in name for value in some if value is not None)
    most = max(shared, default=0.0) or 1.0
    first, span = seconds[0], (seconds[-1] - seconds[0]) or 1.0
    right, bottom = WIDTH - _LEFT, _TOP + _HIGH
    legend, _ = swatches(dict(zip(values, LINES, strict=False)), 12)
    parts = [legend, rule(_LEFT, bottom, right, bottom), rule(_LEFT, _TOP, _LEFT, bottom)]
    step = tick_step(most, 4)
    for number in range(int(most / step) + 1):
        y = bottom - _HIGH * number * step / most
        parts += [
            rule(_LEFT, y, right, y),
            caption(_LEFT - 6, y + 4, f"{number * step:g}", size=11, anchor="end", faint=True),
        ]
    if any("%" in name for name in values):
        parts += [caption(right + 4, y, text, size=11, faint=True) for y, text in ((_TOP + 4, "100%"), (bottom, "0%"))]
    for (name, some), colour in zip(values.items(), LINES, strict=False):
        scale = 100.0 if "%" in name else most
        points = [
            f"{_LEFT + (right - _LEFT) * (at - first) / span:.1f} {bottom - _HIGH * min(max(v / scale, 0.0), 1.0):.1f}"
            for at, v in zip(seconds, some, strict=True)
            if v is not None
        ]
        if points:
            parts.append(f'<path d="M{"L".join(points)}" fill="none" stroke="{colour}" stroke-width="2" />')
    parts.append(caption(_LEFT, bottom + 16, ends[0], size=11, faint=True))
    parts.append(caption(right, bottom + 16, ends[1], size=11, anchor="end", faint=True))
    return picture(parts, bottom + 24, title)


COLOURS = ("#0969da", "#bf8700", "#8250df", "#3f9e62", "#cf222e", "#8a939c")
"""Colours of the parts of a stacked bar, in their order: dark and light by turns, so that grey is enough."""


def bars(parts: Sequence[tuple[str, float]], *, width: int = 520, height: int = 26) -> str:
    """A stacked bar as SVG; each part is a name and its share of the whole (0 to 1)."""
    x, shapes = 0.0, []
    for (name, share), colour in zip(parts, COLOURS * (len(parts) // len(COLOURS) + 1), strict=False):
        wide = max(0.0, min(share, 1.0)) * width
        title = f"<title>{escape(name)}</title>"
        shapes.append(f'<rect x="{x:.1f}" y="0" width="{wide:.1f}" height="{height}" fill="{colour}">{title}</rect>')
        x += wide
    frame = f'<rect x="0" y="0" width="{width}" height="{height}" fill="#8884" />'
    box = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    label = escape(", ".join(f"{name} {max(0.0, min(share, 1.0)):.0%}" for name, share in parts)) or "nothing"
    return f'<svg {box} role="img"><title>{label}</title>{frame}{"".join(shapes)}</svg>'


def narrow(parts: Iterable[str], height: float, title: str) -> str:
    """A chart that fits a phone; its height follows the available width."""
    return picture(parts, height, title, is_narrow=True)
