"""Patterns of the names of folders, from the templates of the facts."""

from __future__ import annotations

import re
from functools import cache

HOLE = re.compile(r"\{(\w{1,40})\}", re.ASCII)
LISTED = "-"
"""Separates the lengths of a prompt's pieces."""
_FORMS = {
    "model": r"[^/]{1,200}",
    "prefill": rf"\d{{1,7}}(?:{LISTED}\d{{1,7}}){{0,7}}",
    "context": r"\d{1,9}",
    "width": r"\d{1,6}",
    "height": r"\d{1,6}",
    "dies": r"\d{1,3}",
    "modality": r"[a-z]{1,20}",
    "remap": r"\d{0,60}",
}
"""Patterns of a template's fields; digits and free words are never adjacent in a template."""
_REST = r"(?P<rest>_[A-Za-z][A-Za-z0-9-]{0,40})?"


@cache
def pattern_of(template: str, hole: str = "") -> re.Pattern[str]:
    """Pattern of a template's names; `hole` may replace any value."""
    parts, seen, at = [], set(), 0
    for field in HOLE.finditer(template):
        parts.append(re.escape(template[at : field.start()]))
        form = f"{_FORMS[field[1]]}|{hole}" if hole else _FORMS[field[1]]
        parts.append(f"(?P={field[1]})" if field[1] in seen else f"(?P<{field[1]}>{form})")
        seen.add(field[1])
        at = field.end()
    return re.compile("".join([*parts, re.escape(template[at:]), _REST]), re.ASCII)
