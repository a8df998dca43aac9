"""Compare a compiled model with the files that a compile writes: missing, misnamed, left over, empty or damaged files.

Missing and unexpected files are collected first. Then each check takes its share of both, the coarse ones first, so
that a die that was not copied is one finding and not twenty.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_high

from vllm_runbooks.catalog.tables import RuleFinding
from vllm_runbooks.catalog.toolchains import PHASES, Toolchain
from vllm_runbooks.edge10.artefacts.findings import artefact_finding
from vllm_runbooks.edge10.artefacts.records import ListedFile, RepairStep
from vllm_runbooks.edge10.artefacts.tree_forms import CompiledTree, PlacedFile, Slot

_MIN_SIZE_SHARE = 0.5
"""Share of the size on other dies below which a file counts as cut off: heads divide less unevenly."""
_MIN_SIMILARITY = 0.75
"""Similarity of names (difflib) above which one is a misspelling of the other."""
_MAX_FINDINGS = 200
_PARTIAL = re.compile(
    r".{1,250}?(?:\.tmp|\.part|\.partial|\.incomplete|\.temp|\.swp|\.bak|\.old|~|\.lock)(?:\.?\w{0,16})?", re.ASCII
)
_CORE_DUMP = re.compile(r"(?:vg)?core(?:\.\w{1,40}){0,6}|.{0,200}\.core(?:dump)?", re.ASCII | re.IGNORECASE)
_RUN_LOG = re.compile(r"nohup\.out|.{1,200}\.(?:log|err|trace)", re.ASCII | re.IGNORECASE)
"""What a user may keep next to a compile: no sign that it failed."""
_NETWORK_SUFFIXES = (".onnx", ".onnx.data", "_graph.json", "_preset_kwargs.pt")


@dataclass(frozen=True)
class ExpectedTree:
    """What a compiled model should consist of, and what is known of its files."""

    dies: int
    lengths: tuple[int, ...]
    damaged: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with JSON files, by path below the folder of the dies."""
    unread: Iterable[str] = ()
    """Folders that could not be listed."""
    siblings: Sequence[ListedFile] = ()
    """Files next to the folder of the dies."""


@dataclass
class TreeReport:
    """Result of a check."""

    findings: list[RuleFinding] = field(default_factory=list)
    mends: list[RepairStep] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


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


def check_tree(
    tree: CompiledTree, expected: ExpectedTree, lengths: CompiledLengths, base: str, facts: Toolchain
) -> TreeReport:
    """Check a compiled model."""
    return _TreeCheck(tree, expected, lengths, base, facts).run()


class _TreeCheck:
    def __init__(
        self, tree: CompiledTree, expected: ExpectedTree, lengths: CompiledLengths, base: str, facts: Toolchain
    ) -> None:
        self.tree, self.expected, self.lengths, self.base, self.facts = tree, expected, lengths, base, facts
        self.report = TreeReport()
        self.needed = tuple(dict.fromkeys(self._needed()))
        unread = tuple(f"{path.rstrip('/')}/" for path in expected.unread)
        self.missing = {
            slot: None
            for slot in self.needed
            if slot not in tree.final and not (unread and tree.path(slot).startswith(unread))
        }
        self.extra = {file.path: file for file in tree.placed if self._is_extra(file)}
        """Known files of a die, length or phase that is not expected."""
        self.others = dict.fromkeys(tree.others)
        self.siblings = [file.path for file in expected.siblings if file.kind == "file"]

    def _add(self, finding_id: str, path: str | None, text: str, *, do: str = "", at_base: bool = True) -> None:
        full = path if path is None or not at_base else f"{self.base}{path}".rstrip("/") or None
        self.report.findings.append(artefact_finding(finding_id, full, text, do=do, source=self.facts.source))

    def _needed(self) -> Iterator[Slot]:
        for number, template in enumerate(self.tree.templates):
            form = self.tree.forms[number]
            if template.is_needed and not form.has_length:
                dies: Iterable[int | None] = range(self.expected.dies) if form.has_die else (None,)
                yield from (Slot(number, die, None) for die in dies)
        for length in self.expected.lengths:
            yield from self.lengths.slots(length)

    def _is_extra(self, file: PlacedFile) -> bool:
        slot, phase = file.slot, self.tree.templates[file.slot.number].phase
        is_other_die = slot.die is not None and slot.die >= self.expected.dies
        is_other_length = slot.length is not None and slot.length not in self.expected.lengths
        is_other_phase = phase is not None and phase not in self.lengths.phases(slot.length or 0)
        return is_other_die or is_other_length or is_other_phase

    def run(self) -> TreeReport:
        self._plan_repairs()
        self._check_folders()
        self._check_lengths()
        self._check_dies()
        self._check_names()
        self._check_renames()
        self._check_all_dies()
        for slot in self.missing:
            do = ""
            if self.tree.templates[slot.number].is_float:
                do = "copy it from the float model, which `--repair --float FOLDER` does"
            self._add("edge10.tree_file_missing", self.tree.path(slot), f"is missing: {self._purpose(slot)}", do=do)
        self._check_unexpected()
        self._check_mixed()
        self._check_sizes()
        for path, problem in self.expected.damaged.items():
            if path in self.tree.files and self.tree.files[path].bytes != 0:
                self._add("edge10.tree_json_damaged", path, problem)
        if len(self.report.findings) > _MAX_FINDINGS:
            self.report.remarks.append(f"{len(self.report.findings) - _MAX_FINDINGS:,} more findings are not told")
            del self.report.findings[_MAX_FINDINGS:]
        return self.report

    def _purpose(self, slot: Slot) -> str:
        return self.tree.templates[slot.number].says or "a compile writes it"

    def _drop(self, slots: Iterable[Slot]) -> None:
        for slot in list(slots):
            self.missing.pop(slot, None)

    # ---- missing files

    def _check_folders(self) -> None:
        for top in dict.fromkeys(form.folder.partition("/")[0] for form in self.tree.forms if form.folder):
            needed = [slot for slot in self.needed if self.tree.forms[slot.number].folder.partition("/")[0] == top]
            if not needed or any(slot not in self.missing for slot in needed):
                continue
            if any(path.startswith(f"{top}/") for path in self.tree.files):
                continue
            self._drop(needed)
            copies = [
                n for n, t in enumerate(self.tree.templates) if t.is_copied and t.renamed_from.startswith(f"{top}/")
            ]
            if not any(slot.number in copies for slot in self.tree.final):
                self._drop(slot for slot in self.missing if slot.number in copies)
            self._add("edge10.tree_folder_missing", top, f"nothing is in it, where {_belong(len(needed))}")

    def _check_lengths(self) -> None:
        for length in self.expected.lengths:
            needed = [slot for slot in self.lengths.slots(length) if slot.number in self.lengths.programs]
            folder = self.lengths.path(length)
            is_gone = needed and all(slot in self.missing for slot in needed)
            if is_gone and not any(path.startswith(f"{folder}/") for path in self.tree.files):
                self._drop(slot for slot in self.missing if slot.length == length)
                text = f"nothing of length {length} is there, where {_belong(len(needed))}"
                self._add("edge10.tree_length_missing", folder, text)

    def _check_dies(self) -> None:
        """Find dies without any file: in the whole model, else in one of its folders."""
        if self.expected.dies < 2:
            return
        folders = {""}
        for slot in self.needed:
            parts = self.tree.path(slot).split("/")[:-1]
            folders.update("/".join(parts[:end]) for end in range(1, len(parts) + 1))
        for die in range(self.expected.dies):
            of_die = [slot for slot in self.needed if slot.die == die]
            for folder in sorted(folders, key=lambda path: (path.count("/") + bool(path), path)):
                needed = [slot for slot in of_die if not folder or self.tree.path(slot).startswith(f"{folder}/")]
                is_gone = all(slot in self.missing and not self.tree.raw.get(slot) for slot in needed)
                if len(needed) > 1 and is_gone:
                    self._drop(needed)
                    text = f"no file of die {die} is there, where {_belong(len(needed))}"
                    self._add("edge10.tree_die_missing", folder, text)

    def _check_all_dies(self) -> None:
        groups: dict[tuple[int, int | None], list[Slot]] = {}
        for slot in self.needed:
            if slot.die is not None and self.expected.dies > 1:
                groups.setdefault((slot.number, slot.length), []).append(slot)
        for (number, length), slots in groups.items():
            if all(slot in self.missing for slot in slots):
                self._drop(slots)
                path = self.tree.forms[number].path("*", length)
                self._add("edge10.tree_file_missing", path, f"no die has it: {self._purpose(slots[0])}")

    # ---- what the last part of the compile script renames

    def _plan_repairs(self) -> None:
        """List the copies and renames that are certain; the others are left to the user."""
        for slot in self.missing:
            template = self.tree.templates[slot.number]
            target = f"{self.base}{self.tree.path(slot)}"
            if template.is_float:
                name = target.rpartition("/")[2]
                self.report.mends.append(RepairStep("copy", name, target, is_float=True, why=template.says))
            sources = self._sources(slot)
            if len(sources) > 1:
                names = ", ".join(file.path for file in sources[:4])
                text = f"may come from {len(sources):,} files ({names}): which is meant is not told"
                self.report.left.append(f"{target}: {text}")
            elif sources and len(self.tree.stems.get(sources[0].path.rpartition("/")[0], ())) > 1:
                text = "is named like no other file there, and may be of another compile"
                self.report.left.append(f"{target}: {sources[0].path} {text}")
            elif sources:
                does, source = "copy" if template.is_copied else "rename", f"{self.base}{sources[0].path}"
                self.report.mends.append(RepairStep(does, source, target, is_float=False, why=template.says))

    def _sources(self, slot: Slot) -> list[PlacedFile]:
        """Files that a missing one is made from; a file that all dies have is taken from the first."""
        if not self.tree.templates[slot.number].is_copied:
            return self.tree.raw.get(slot, [])
        form = self.tree.raw_forms[slot.number]
        files = [file for file in self.tree.placed if form.read(file.path) and file.path != self.tree.path(slot)]
        first = min((file.slot.die for file in files if file.slot.die is not None), default=None)
        return [file for file in files if file.slot.die == first]

    def _check_renames(self) -> None:
        """Find files under the compiler's own names; if nothing was renamed at all, as one finding."""
        sources = {slot: files for slot in self.missing if (files := self._sources(slot))}
        if not sources:
            return
        renamed = {n for n, template in enumerate(self.tree.templates) if template.renamed_from and template.is_needed}
        is_any_renamed = any(slot.number in renamed for slot in self.tree.final)
        self._drop(sources)
        if len(renamed) > 1 and not is_any_renamed and {slot.number for slot in sources} == renamed:
            copies = [slot for slot in self.missing if self.tree.templates[slot.number].is_float]
            self._drop(copies)
            also = f", and {', '.join(map(self.tree.path, copies))} not copied" if copies else ""
            text = f"nothing is renamed ({len(sources):,} files){also}: the last part of the compile script did not run"
            self._add("edge10.tree_not_renamed", "", text)
            return
        by_folder: dict[str, list[Slot]] = {}
        for slot, files in sources.items():
            by_folder.setdefault(files[0].path.rpartition("/")[0], []).append(slot)
        for folder, slots in by_folder.items():
            first = sources[slots[0]][0].path
            if len(slots) == 1:
                text = f"has the name that the compiler gave it, and {self.tree.path(slots[0])} is missing"
                self._add("edge10.tree_not_renamed", first, text)
            else:
                names = ", ".join(map(self.tree.path, slots[:4])) + (f" and {len(slots) - 4} more" if slots[4:] else "")
                text = (
                    f"{len(slots)} files have the names that the compiler gave them, as "
                    f"{first.rpartition('/')[2]}, and are missing: {names}"
                )
                self._add("edge10.tree_not_renamed", folder, text)

    # ---- names

    def _check_names(self) -> None:
        for slot in list(self.missing):
            path = self.tree.path(slot)
            folder, _, name = path.rpartition("/")
            similar = [
                other for other in self.others if other.rpartition("/")[0] == folder and _is_similar(other, name)
            ]
            moved = [other for other in (*self.others, *self.extra) if other.rpartition("/")[2] == name]
            siblings = [other for other in self.siblings if other.rpartition("/")[2] == name]
            if similar:
                best = max(similar, key=lambda other: _similarity(other.rpartition("/")[2], name))
                text = f"is no name that a compile writes, and {path} is missing"
                self._add("edge10.tree_misnamed", best, text)
                self._take(best, slot)
            elif moved and len(moved) + len(siblings) == 1:
                self._add("edge10.tree_misplaced", moved[0], f"belongs at {path}, where it is missing")
                self._take(moved[0], slot)
            elif len(siblings) == 1:
                text = f"belongs at {self.base}{path}, where it is missing"
                self._add("edge10.tree_misplaced", siblings[0], text, at_base=False)
                self._take(siblings[0], slot)

    def _take(self, path: str, slot: Slot) -> None:
        """Mark an unexpected file as a missing one, which then needs no repair."""
        self._drop([slot])
        target = f"{self.base}{self.tree.path(slot)}"
        self.report.mends = [mend for mend in self.report.mends if mend.target != target]
        self.others.pop(path, None)
        self.extra.pop(path, None)
        self.siblings = [other for other in self.siblings if other != path]

    # ---- unexpected files

    def _check_unexpected(self) -> None:
        dies, lengths = self.expected.dies, self.expected.lengths
        self._check_beyond(
            "die", f"there are {dies}", lambda slot: slot.die if slot.die is not None and slot.die >= dies else None
        )
        self._check_beyond(
            "length",
            f"wanted are {', '.join(map(str, lengths)) or 'none'}",
            lambda slot: slot.length if slot.length not in lengths else None,
        )
        for path, file in self.extra.items():
            phase = self.tree.templates[file.slot.number].phase
            text = f"is a file to {phase}, which length {file.slot.length} does not serve"
            self._add("edge10.tree_leftover", path, text)
        self._check_twice()
        for path in self.others:
            name = path.rpartition("/")[2]
            if leftover := _describe_leftover(name):
                self._add("edge10.tree_leftover", path, leftover)
            elif _RUN_LOG.fullmatch(name):
                self._add("edge10.tree_unknown_file", path, "is a record of a run, and no file that a compile writes")
            elif self.tree.files[path].bytes == 0:
                self._add("edge10.tree_leftover", path, "is empty, and no file that a compile writes so")
            else:
                self._add("edge10.tree_unknown_file", path, "is no file that a compile is known to write")

    def _check_beyond(self, what: str, expected: str, number_of: Callable[[Slot], int | None]) -> None:
        groups: dict[int, list[str]] = {}
        for path, file in self.extra.items():
            if (number := number_of(file.slot)) is not None:
                groups.setdefault(number, []).append(path)
        for number, paths in groups.items():
            for path in paths:
                del self.extra[path]
            if len(paths) == 1:
                where, text = paths[0], f"is of {what} {number}"
            else:
                where, text = _common_folder(paths), f"{len(paths):,} files are of {what} {number}, as {paths[0]}"
            self._add(f"edge10.tree_{what}_beyond", where, f"{text}; {expected}")

    def _check_twice(self) -> None:
        """Find files under the compiler's own names next to the renamed ones."""
        groups: dict[str, list[PlacedFile]] = {}
        for slot, files in self.tree.raw.items():
            folder = files[0].path.rpartition("/")[0]
            if slot in self.tree.final and len(self.tree.stems.get(folder, ())) < 2:
                groups.setdefault(folder, []).extend(files)
        for folder, files in groups.items():
            path, final = files[0].path, self.tree.path(files[0].slot)
            if len(files) == 1:
                self._add("edge10.tree_twice", path, f"is there beside {final}, which it is renamed to")
            else:
                names = f"{path.rpartition('/')[2]} beside {final.rpartition('/')[2]}"
                text = f"{len(files)} files are there beside those that they are renamed to, as {names}"
                self._add("edge10.tree_twice", folder, text)

    def _check_mixed(self) -> None:
        for folder, stems in self.tree.stems.items():
            if len(stems) > 1:
                names = " and ".join(map(_shorten, sorted(stems)[:3]))
                text = f"holds files of {len(stems)} compiles, by their names: {names}"
                self._add("edge10.tree_mixed", folder, text)

    # ---- sizes

    def _check_sizes(self) -> None:
        files = [file for file in self.tree.placed if not self.tree.templates[file.slot.number].may_be_empty]
        sized = [file for file in files if file.size is not None]
        empty = [file for file in sized if file.size == 0]
        if not sized:
            text = "sizes are not told, so that empty files and files that are cut off are not found"
            self.report.remarks.append(text)
            return
        if len(empty) == len(sized):
            self._add("edge10.tree_files_empty", None, f"all {len(empty):,} files are empty")
            return
        for file in empty:
            self._add("edge10.tree_file_empty", file.path, "is empty")
        groups: dict[tuple[int, int | None], list[PlacedFile]] = {}
        for slot, placed in self.tree.final.items():
            if slot.die is not None and slot.die < self.expected.dies and self.tree.templates[slot.number].is_needed:
                groups.setdefault((slot.number, slot.length), []).extend(file for file in placed if file.size)
        for group in groups.values():
            usual = median_high(file.size or 0 for file in group) if len(group) > 1 else 0
            for file in group:
                if (file.size or 0) < _MIN_SIZE_SHARE * usual:
                    text = f"has {file.size:,} bytes, on other dies it has {usual:,}"
                    self._add("edge10.tree_sizes_apart", file.path, text)


def _is_similar(path: str, expected: str) -> bool:
    name = path.rpartition("/")[2].lower()
    if name == expected.lower():
        return True
    is_same_type = name.rpartition(".")[2] == expected.rpartition(".")[2].lower()
    is_same_number = re.findall(r"\d+", name) == re.findall(r"\d+", expected)
    return is_same_type and is_same_number and _similarity(name, expected.lower()) >= _MIN_SIMILARITY


def _similarity(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, name[:200], other[:200]).ratio()


def _describe_leftover(name: str) -> str:
    """What an unexpected file is a leftover of; empty if it is none."""
    if _PARTIAL.fullmatch(name):
        return "is what is left where writing broke off, or a former file"
    if _CORE_DUMP.fullmatch(name):
        return "is the memory of a program that died"
    if name.endswith(_NETWORK_SUFFIXES):
        return "is what a compile makes on its way, in a place where it leaves none"
    return ""


def _belong(count: int) -> str:
    return "one file belongs" if count == 1 else f"{count:,} files belong"


def _common_folder(paths: Sequence[str]) -> str:
    common = []
    for parts in zip(*(path.split("/")[:-1] for path in paths), strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return "/".join(common)


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:24]}…{text[-12:]}"
