"""Files of a compiled model: die, length and purpose of each path, by the toolchain's templates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from vllm_runbooks.catalog.toolchains import TreeFile
from vllm_runbooks.edge10.artefacts.records import ListedFile

_HOLES = {"{die}": r"(?P<die>0|[1-9]\d{0,2})", "{length}": r"(?P<length>0|[1-9]\d{0,6})", "*": r"(?P<stem>[^/]{0,255})"}
_PARTS = re.compile(r"(\{die\}|\{length\}|\*)")


class Slot(NamedTuple):
    """A file that a compiled model may have."""

    number: int
    """Index of its template."""
    die: int | None
    length: int | None


class Form:
    """A template of paths."""

    def __init__(self, template: str) -> None:
        self.template = template
        self.folder = template.rpartition("/")[0]
        self.has_die, self.has_length, self.has_stem = "{die}" in template, "{length}" in template, "*" in template
        self._pattern = re.compile(
            "".join(_HOLES.get(part) or re.escape(part) for part in _PARTS.split(template)), re.ASCII
        )

    def read(self, path: str) -> tuple[int | None, int | None, str] | None:
        """Die, length and stem of a path; None if it does not fit the template."""
        match = self._pattern.fullmatch(path)
        if match is None:
            return None
        groups = match.groupdict()
        die, length = groups.get("die"), groups.get("length")
        return int(die) if die else None, int(length) if length else None, (groups.get("stem") or "").strip("_")

    def path(self, die: int | str | None, length: int | str | None) -> str:
        """Path of a file; the stem stays `*`."""
        return self.template.replace("{die}", str(die)).replace("{length}", str(length))


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file that fits a template."""

    path: str
    slot: Slot
    stem: str
    """The compiler's own name for a network, without the signs around it."""
    size: int | None


class CompiledTree:
    """The files of a compiled model, sorted by template."""

    def __init__(self, files: Iterable[ListedFile], templates: Sequence[TreeFile]) -> None:
        """Sort the files."""
        self.templates = templates
        self.forms = tuple(Form(template.path) for template in templates)
        raw_forms = tuple(Form(template.renamed_from) for template in templates)
        self.raw_forms = raw_forms
        self.files = {file.path: file for file in files if file.kind != "folder"}
        self.final: dict[Slot, list[PlacedFile]] = {}
        self.raw: dict[Slot, list[PlacedFile]] = {}
        """Files under the compiler's own names, by the slot that they are renamed to."""
        self.others: list[str] = []
        """Files that fit no template."""
        numbers = range(len(templates))
        # A template without a stem is the most specific one.
        steps = (
            ([number for number in numbers if not self.forms[number].has_stem], self.forms, self.final),
            ([n for n in numbers if templates[n].renamed_from and not templates[n].is_copied], raw_forms, self.raw),
            ([number for number in numbers if self.forms[number].has_stem], self.forms, self.final),
        )
        for file in self.files.values():
            if file.kind == "file" and not any(self._place(file, *step) for step in steps):
                self.others.append(file.path)

    def _place(
        self, file: ListedFile, numbers: Sequence[int], forms: Sequence[Form], slots: dict[Slot, list[PlacedFile]]
    ) -> bool:
        for number in numbers:
            parts = forms[number].read(file.path)
            if parts is None:
                continue
            die, length, stem = parts
            if slots is self.raw and self.forms[number].path(die, length).lower() == file.path.lower():
                continue  # the final name in other letter case
            slot = Slot(number, die, length)
            slots.setdefault(slot, []).append(PlacedFile(file.path, slot, stem, file.bytes))
            return True
        return False

    def path(self, slot: Slot) -> str:
        """Path of a file, with the stem of the other files in its folder."""
        form = self.forms[slot.number]
        path = form.path(slot.die, slot.length)
        stems = self.stems.get(form.folder, set())
        return path.replace("*", next(iter(stems)), 1) if form.has_stem and len(stems) == 1 else path

    @cached_property
    def placed(self) -> tuple[PlacedFile, ...]:
        """All files that fit a template."""
        return tuple(file for slots in (self.final, self.raw) for files in slots.values() for file in files)

    @cached_property
    def stems(self) -> dict[str, set[str]]:
        """Stems by folder; more than one: several compiles left files there."""
        stems: dict[str, set[str]] = {}
        for file in self.placed:
            if file.stem:
                stems.setdefault(file.path.rpartition("/")[0], set()).add(file.stem)
        return stems

    def count_dies(self) -> int | None:
        """Number of dies: up to the last one with more than half of the files that any die has; None if unknown."""
        counts: dict[int, int] = {}
        for slot in (*self.final, *self.raw):
            if slot.die is not None and self.templates[slot.number].is_needed:
                counts[slot.die] = counts.get(slot.die, 0) + 1
        most = max(counts.values(), default=0)
        return max((die for die, count in counts.items() if 2 * count > most), default=-1) + 1 or None
