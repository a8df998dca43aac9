"""Compare a compiled model with the files of a compile: missing, leftover, empty or damaged.

Missing files, including those not renamed, are collected first. Then each check takes its share of
them, the broadest check first, so that a die that was not copied is one finding and not twenty.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from vllm_runbooks.catalog.toolchains import PHASES, Toolchain
from vllm_runbooks.core.views.elements import cut
from vllm_runbooks.edge10.artefacts.findings import FolderNotes
from vllm_runbooks.edge10.artefacts.tree_forms import CompiledTree, PlacedFile, Slot

_MAX_FINDINGS = 200
_LEFTOVER = re.compile(
    r".{1,250}?(?:\.tmp|\.part|\.partial|\.incomplete|\.temp|\.lock|~)|(?:vg)?core(?:\.\w{1,40}){0,6}",
    re.ASCII | re.IGNORECASE,
)
"""A file that was not written whole, or the memory of a program that died."""


class CompiledLengths:
    """The sequence lengths that a compiled model's files are for."""

    def __init__(self, tree: CompiledTree, facts: Toolchain, dies: int) -> None:
        self.tree, self.facts, self.dies = tree, facts, dies
        needed = [n for n, template in enumerate(tree.templates) if template.is_needed and tree.forms[n].has_length]
        self.programs = [n for n in needed if "{length}" in tree.forms[n].folder]
        """Templates in the folder of a length."""
        self.constants = [n for n in needed if n not in self.programs]
        self.folder = next((tree.forms[n].folder for n in self.programs), "")
        seen = sorted({slot.length for slot in tree.final if slot.length is not None})
        self.complete = tuple(length for length in seen if self._is_compiled(length))
        """Lengths that were compiled; fewer files are leftovers."""

    def _is_compiled(self, length: int) -> bool:
        constants = self._count(self.constants, length)
        if self.constants and constants >= len(self.constants) * self.dies:
            return True
        expected = len(list(self.slots(length))) + (0 if self.phases(length) else self.dies)
        return 2 * (constants + self._count(self.programs, length)) > expected

    def _count(self, numbers: Sequence[int], length: int) -> int:
        return sum(slot.length == length and slot.number in numbers for slot in self.tree.final)

    def phases(self, length: int) -> tuple[str, ...]:
        """Phases of a length: by the toolchain's facts, else by its files."""
        documented = next((row.phases for row in self.facts.lengths if row.tokens == length), None)
        if documented is not None:
            return documented
        seen = {self.tree.templates[slot.number].phase for slot in self.tree.final if slot.length == length}
        return tuple(phase for phase in PHASES if phase in seen)

    def slots(self, length: int) -> Iterator[Slot]:
        """Files that a length needs."""
        phases = self.phases(length)
        for number in (*self.constants, *self.programs):
            template = self.tree.templates[number]
            if (template.phase is None or template.phase in phases) and (
                not template.lengths or length in template.lengths
            ):
                dies: Iterable[int | None] = range(self.dies) if self.tree.forms[number].has_die else (None,)
                yield from (Slot(number, die, length) for die in dies)

    def path(self, length: int) -> str:
        """The folder of a length."""
        return self.folder.replace("{length}", str(length))


class TreeCheck:
    """Check of a compiled model."""

    def __init__(
        self,
        tree: CompiledTree,
        compiled: CompiledLengths,
        lengths: Sequence[int],
        unread: Iterable[str],
        notes: FolderNotes,
    ) -> None:
        self.tree, self.compiled, self.lengths, self.notes = tree, compiled, lengths, notes
        self.dies, self._add = compiled.dies, notes.add
        self.needed = tuple(dict.fromkeys(self._needed()))
        hidden = tuple(f"{path.rstrip('/')}/" for path in unread)
        self.missing = {
            slot: None for slot in self.needed if slot not in tree.final and not tree.path(slot).startswith(hidden)
        }

    def _needed(self) -> Iterator[Slot]:
        for number, template in enumerate(self.tree.templates):
            form = self.tree.forms[number]
            if template.is_needed and not form.has_length:
                dies: Iterable[int | None] = range(self.dies) if form.has_die else (None,)
                yield from (Slot(number, die, None) for die in dies)
        for length in self.lengths:
            yield from self.compiled.slots(length)

    def run(self, damaged: Mapping[str, str]) -> None:
        """Add the problems to the notes; `damaged` has those of JSON files."""
        first = len(self.notes.findings)
        self._check_parts()
        self._check_dies()
        self._check_renames()
        for slot in self.missing:
            template = self.tree.templates[slot.number]
            reason = f"is missing: {template.says or 'a compile writes it'}"
            self._add("edge10.tree_file_missing", self.tree.path(slot), reason)
        self._check_unexpected()
        self._check_empty()
        for path, problem in damaged.items():
            if path in self.tree.files and self.tree.files[path].bytes != 0:
                self._add("edge10.tree_json_damaged", path, problem)
        if (more := len(self.notes.findings) - first - _MAX_FINDINGS) > 0:
            self.notes.remarks.append(f"{more:,} more findings are not shown")
            del self.notes.findings[-more:]

    def _drop(self, slots: Iterable[Slot]) -> None:
        for slot in list(slots):
            self.missing.pop(slot, None)

    # ---- missing files

    def _check_parts(self) -> None:
        """Find whole folders and lengths that are missing."""
        forms = self.tree.forms
        for top in dict.fromkeys(form.folder.partition("/")[0] for form in forms if form.folder):
            needed = [slot for slot in self.needed if forms[slot.number].folder.partition("/")[0] == top]
            if self._is_gone(top, needed):
                renamed = [slot for slot in self.missing if self.tree.raw_forms[slot.number].folder == top]
                self._drop([*needed, *renamed])
                self._add("edge10.tree_folder_missing", top, f"is empty, but {_belong(len(needed))}")
        for length in self.lengths:
            needed = [slot for slot in self.compiled.slots(length) if slot.number in self.compiled.programs]
            folder = self.compiled.path(length)
            if self._is_gone(folder, needed):
                self._drop(slot for slot in self.missing if slot.length == length)
                text = f"no files of length {length}, but {_belong(len(needed))}"
                self._add("edge10.tree_length_missing", folder, text)

    def _is_gone(self, folder: str, needed: Sequence[Slot]) -> bool:
        is_missing = bool(needed) and all(slot in self.missing for slot in needed)
        return is_missing and not any(path.startswith(f"{folder}/") for path in self.tree.files)

    def _check_dies(self) -> None:
        """Find dies without any file: in the whole model, else in one of its folders."""
        if self.dies < 2:
            return
        folders = {""}
        for slot in self.needed:
            parts = self.tree.path(slot).split("/")[:-1]
            folders.update("/".join(parts[:end]) for end in range(1, len(parts) + 1))
        for die in range(self.dies):
            of_die = [slot for slot in self.needed if slot.die == die]
            for folder in sorted(folders, key=lambda path: (path.count("/") + bool(path), path)):
                needed = [slot for slot in of_die if not folder or self.tree.path(slot).startswith(f"{folder}/")]
                is_gone = all(slot in self.missing and not self.tree.raw.get(slot) for slot in needed)
                if len(needed) > 1 and is_gone:
                    self._drop(needed)
                    text = f"no files of die {die}, but {_belong(len(needed))}"
                    self._add("edge10.tree_die_missing", folder, text)

    def _sources(self, slot: Slot) -> list[PlacedFile]:
        """Sources of a missing file; a file that all dies have is taken from the first."""
        if not self.tree.templates[slot.number].is_copied:
            return self.tree.raw.get(slot, [])
        form = self.tree.raw_forms[slot.number]
        files = [file for file in self.tree.placed if form.read(file.path) and file.path != self.tree.path(slot)]
        first = min((file.slot.die for file in files if file.slot.die is not None), default=None)
        return [file for file in files if file.slot.die == first]

    def _check_renames(self) -> None:
        """Find files under the compiler's own names, which the last part of the compile script renames."""
        by_folder: dict[str, list[tuple[Slot, str]]] = {}
        for slot in self.missing:
            if files := self._sources(slot):
                by_folder.setdefault(files[0].path.rpartition("/")[0], []).append((slot, files[0].path))
        for folder, pairs in by_folder.items():
            self._drop(slot for slot, _ in pairs)
            names = ", ".join(self.tree.path(slot) for slot, _ in pairs[:4])
            more = f" and {len(pairs) - 4} more" if len(pairs) > 4 else ""
            text = f"has the compiler's own names, as {pairs[0][1].rpartition('/')[2]}; missing: {names}{more}"
            self._add("edge10.tree_not_renamed", pairs[0][1] if len(pairs) == 1 else folder, text)

    # ---- unexpected files

    def _check_unexpected(self) -> None:
        dies, lengths = self.dies, self.lengths
        beyond: dict[tuple[str, int], list[str]] = {}
        for file in self.tree.placed:
            die, length = file.slot.die, file.slot.length
            if die is not None and die >= dies:
                beyond.setdefault(("die", die), []).append(file.path)
            elif length is not None and length not in lengths:
                beyond.setdefault(("length", length), []).append(file.path)
        expected = {"die": f"there are {dies}", "length": f"wanted are {', '.join(map(str, lengths)) or 'none'}"}
        for (what, number), paths in beyond.items():
            where, text = paths[0], f"is of {what} {number}"
            if len(paths) > 1:
                where = posixpath.commonpath([posixpath.dirname(path) for path in paths])
                text = f"{len(paths):,} files are of {what} {number}, as {paths[0]}"
            self._add(f"edge10.tree_{what}_beyond", where, f"{text}; {expected[what]}")
        for path in self.tree.others:
            if _LEFTOVER.fullmatch(path.rpartition("/")[2]):
                self._add("edge10.tree_leftover", path, "is incomplete, or is a core dump")
            else:
                self._add("edge10.tree_unknown_file", path, "is not a known output of a compile")
        for folder, stems in self.tree.stems.items():
            if len(stems) > 1:
                names = " and ".join(cut(stem, 40) for stem in sorted(stems)[:3])
                text = f"contains files of {len(stems)} compiles, according to their names: {names}"
                self._add("edge10.tree_mixed", folder, text)

    def _check_empty(self) -> None:
        files = [file for file in self.tree.placed if not self.tree.templates[file.slot.number].may_be_empty]
        sized = [file for file in files if file.size is not None]
        empty = [file for file in sized if file.size == 0]
        if not sized:
            self.notes.remarks.append("unknown file sizes, so empty files are not detected")
        elif len(empty) == len(sized):
            self._add("edge10.tree_files_empty", None, f"all {len(empty):,} files are empty")
        else:
            for file in empty:
                self._add("edge10.tree_file_empty", file.path, "is empty")


def _belong(count: int) -> str:
    return "one file belongs" if count == 1 else f"{count:,} files belong"
