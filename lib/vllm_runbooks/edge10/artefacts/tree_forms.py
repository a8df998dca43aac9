"""Files of a compiled tree by the facts' templates: which path is which file of which die and length."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from vllm_runbooks.catalog.toolchains import TreeFile
from vllm_runbooks.edge10.artefacts.records import ListedFile

_HOLES = {"{die}": r"(?P<die>0|[1-9]\d{0,2})", "{length}": r"(?P<length>0|[1-9]\d{0,6})", "*": r"(?P<free>[^/]{0,255})"}
_PARTS = re.compile(r"(\{die\}|\{length\}|\*)")


class Slot(NamedTuple):
    """A file that a tree may have."""

    number: int
    """Of its template."""
    die: int | None
    length: int | None


@dataclass(frozen=True, slots=True)
class Placed:
    """A file of a tree, with what its path says."""

    path: str
    slot: Slot
    free: str
    """What the compiler names itself, without the signs around it."""
    size: int | None


class Form:
    """One template of paths."""

    def __init__(self, template: str) -> None:
        self.template = template
        self.folder = template.rpartition("/")[0]
        self.has_die, self.has_length, self.is_free = "{die}" in template, "{length}" in template, "*" in template
        pieces = (_HOLES.get(part) or re.escape(part) for part in _PARTS.split(template))
        self._reader = re.compile("".join(pieces), re.ASCII)

    def read(self, path: str) -> tuple[int | None, int | None, str] | None:
        """The die, the length and the free word of a path; None: it is not of this template."""
        found = self._reader.fullmatch(path)
        if found is None:
            return None
        held = found.groupdict()
        die, length = held.get("die"), held.get("length")
        return (
            None if die is None else int(die),
            None if length is None else int(length),
            (held.get("free") or "").strip("_"),
        )

    def path(self, die: int | str | None, length: int | str | None) -> str:
        """The path of a file; what the compiler names stays a star."""
        return self.template.replace("{die}", str(die)).replace("{length}", str(length))


class Tree:
    """The files of one tree, each by what it is."""

    def __init__(self, files: Iterable[ListedFile], templates: Sequence[TreeFile]) -> None:
        """Sort the files.

        Args:
            files: Below the folder of the dies.
            templates: Of the tree's kind of model.
        """
        self.templates = templates
        self.forms = tuple(Form(each.path) for each in templates)
        self.raw_forms = tuple(Form(each.renamed_from) if each.renamed_from else None for each in templates)
        self.all = {each.path: each for each in files if each.kind != "folder"}
        self.here: dict[Slot, list[Placed]] = {}
        self.raw: dict[Slot, list[Placed]] = {}
        """Files by the name that the compiler gave them, under the slot that they are renamed to."""
        self.others: list[ListedFile] = []
        named = [number for number, form in enumerate(self.forms) if not form.is_free]
        renamed = [
            number for number, each in enumerate(templates) if self.raw_forms[number] is not None and not each.is_copied
        ]
        free = [number for number, form in enumerate(self.forms) if form.is_free]
        for each in self.all.values():
            if each.kind != "file" or not (
                self._put(each, named, self.forms, self.here)
                or self._put(each, renamed, self.raw_forms, self.raw)
                or self._put(each, free, self.forms, self.here)
            ):
                self.others.append(each)

    def _put(
        self, each: ListedFile, numbers: Iterable[int], forms: Sequence[Form | None], into: dict[Slot, list[Placed]]
    ) -> bool:
        for number in numbers:
            form = forms[number]
            found = form.read(each.path) if form is not None else None
            if found is None:
                continue
            final = self.forms[number].path(found[0], found[1])
            if forms is self.raw_forms and final.lower() == each.path.lower():
                continue  # in letters of another size it is what it was renamed to, not what the compiler called it
            die, length, free = found
            slot = Slot(number, die, length)
            into.setdefault(slot, []).append(Placed(each.path, slot, free, each.bytes))
            return True
        return False

    def path(self, slot: Slot) -> str:
        """Where a file belongs; with what the compiler names filled in where its neighbours tell it."""
        form = self.forms[slot.number]
        path = form.path(slot.die, slot.length)
        if form.is_free:
            stems = self.stems.get(form.folder, frozenset())
            if len(stems) == 1:
                (stem,) = stems
                path = path.replace("*", stem, 1)
        return path

    @cached_property
    def placed(self) -> tuple[Placed, ...]:
        """All files that are known for what they are."""
        return tuple(one for held in (self.here, self.raw) for found in held.values() for one in found)

    @cached_property
    def stems(self) -> dict[str, frozenset[str]]:
        """By folder the words that the compiler named its files by."""
        found: dict[str, set[str]] = {}
        for one in self.placed:
            is_raw = one in self.raw.get(one.slot, ())
            form = self.raw_forms[one.slot.number] if is_raw else self.forms[one.slot.number]
            if form is not None and form.is_free and one.free:
                found.setdefault(form.folder, set()).add(one.free)
        return {folder: frozenset(words) for folder, words in found.items()}

    @cached_property
    def per_die(self) -> tuple[int, ...]:
        """Numbers of the templates of which each die has a file that is needed."""
        return tuple(
            number for number, each in enumerate(self.templates) if each.is_needed and self.forms[number].has_die
        )

    def dies(self) -> int | None:
        """How many dies the files are of: up to the last with more than half of what some die has; None: not told."""
        counts: dict[int, int] = {}
        for slot in (*self.here, *self.raw):
            if slot.die is not None and self.forms[slot.number].has_die and slot.number in self.per_die:
                counts[slot.die] = counts.get(slot.die, 0) + 1
        if not counts:
            return None
        most = max(counts.values())
        return max(die for die, number in counts.items() if 2 * number > most) + 1

    def tops(self) -> Iterator[str]:
        """Folders right below that of the dies, each once."""
        yield from dict.fromkeys(form.folder.partition("/")[0] for form in self.forms if form.folder)
