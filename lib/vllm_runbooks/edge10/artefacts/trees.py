"""A compiled tree against what a compile writes: what is missing, misnamed, left over, empty, or of another compile.

What is missing and what is too much are worked out once; then causes take their share of both, the coarse ones first,
so that a die that was not copied is one finding and not twenty.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_high

from vllm_runbooks.catalog.toolchains import PHASES, Toolchain, ToolchainFinding
from vllm_runbooks.edge10.artefacts import meanings
from vllm_runbooks.edge10.artefacts.records import ListedFile, Mend
from vllm_runbooks.edge10.artefacts.tree_forms import Placed, Slot, Tree

_HALF = 0.5
"""Of what other dies have, below which a file is taken for cut off: dividing heads over dies leaves less apart."""
_ALIKE = 0.75
"""How alike names are (see difflib) for one to be taken for the other."""
_MOST = 200
"""Findings of a tree that are told one by one."""
_BROKEN = re.compile(
    r"(.{1,250}?)(?:\.tmp|\.part|\.partial|\.incomplete|\.temp|\.swp|\.bak|\.old|~|\.lock)(?:\.?\w{0,16})?", re.ASCII
)
_DUMPS = re.compile(r"(?:vg)?core(?:\.\w{1,40}){0,6}|.{0,200}\.core(?:dump)?", re.ASCII | re.IGNORECASE)
_RECORDS = re.compile(r"nohup\.out|.{1,200}\.(?:log|err|trace)", re.ASCII | re.IGNORECASE)
"""What whoever compiled may have kept: that a run was recorded does not tell that it broke off."""
_NETWORK = (".onnx", ".onnx.data", "_graph.json", "_preset_kwargs.pt")
"""Ends of what a compile makes on its way and leaves in the folders where it belongs."""
_REMAPS = re.compile(r"(?:(vm|vit|visual|vision)|(lm|llm|language))?_?die_?remap", re.IGNORECASE)
_MAX_NODES = 20_000
_MEMBER = re.compile(r"\d{1,9}_(\d{2,9})_\[")
"""How the compiler names the position encoding: its inputs' sizes, the second being the longest sequence."""


@dataclass
class Wanted:
    """What a tree should be of."""

    dies: int
    lengths: tuple[int, ...]
    context: int | None = None
    digits: str | None = None
    """The order of the dies as the folder's name has it; None: it is not told."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """By path below the folder of the dies."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    unread: Iterable[str] = ()
    """Folders below that of the dies that could not be listed."""
    above: Sequence[ListedFile] = ()
    """Files beside the folder of the dies."""


@dataclass
class Told:
    """What is found of a tree."""

    findings: list[ToolchainFinding] = field(default_factory=list)
    mends: list[Mend] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


class Lengths:
    """The lengths that a tree's files are of."""

    def __init__(self, tree: Tree, facts: Toolchain, dies: int) -> None:
        """Work out which lengths were compiled.

        Args:
            tree: The files.
            facts: Which phases a length serves.
            dies: Of the tree.
        """
        self.tree, self.facts, self.count = tree, facts, dies
        needed = [n for n, each in enumerate(tree.templates) if each.is_needed and tree.forms[n].has_length]
        self.inside = [n for n in needed if "{length}" in tree.forms[n].folder]
        self.beside = [n for n in needed if n not in self.inside]
        self.folder = next((tree.forms[n].folder for n in self.inside), "")
        seen = sorted({slot.length for slot in tree.here if slot.length is not None})
        self.inner = {length: self._have(self.inside, length) for length in seen}
        self.outer = {length: self._have(self.beside, length) for length in seen}
        self.there = tuple(length for length in seen if self._is_meant(length))

    def _have(self, numbers: Sequence[int], length: int) -> int:
        return sum(slot.length == length and slot.number in numbers for slot in self.tree.here)

    def _is_meant(self, length: int) -> bool:
        """Whether a length was compiled, if not completely: what is left of another compile is less."""
        beside = len(self.beside) * self.count
        if beside and self.outer[length] >= beside:
            return True
        wanted = len(list(self.slots(length))) + (0 if self.phases(length) else self.count)
        return 2 * (self.outer[length] + self.inner[length]) > wanted

    def phases(self, length: int) -> tuple[str, ...]:
        """Phases that a length serves: by the facts, else by the files that are there."""
        known = next((each.phases for each in self.facts.lengths if each.tokens == length), None)
        return known if known is not None else self.seen_phases(length)

    def seen_phases(self, length: int) -> tuple[str, ...]:
        """Phases of which there is some file of a length."""
        numbers = {slot.number for slot in self.tree.here if slot.length == length}
        return tuple(p for p in PHASES if any(self.tree.templates[number].phase == p for number in numbers))

    def is_known(self, length: int) -> bool:
        """Whether the facts say which phases a length serves."""
        return any(each.tokens == length for each in self.facts.lengths)

    def slots(self, length: int) -> Iterator[Slot]:
        """Files that a length needs."""
        phases = self.phases(length)
        for number in (*self.beside, *self.inside):
            each = self.tree.templates[number]
            if (each.phase is None or each.phase in phases) and (not each.lengths or length in each.lengths):
                dies: Iterable[int | None] = range(self.count) if self.tree.forms[number].has_die else (None,)
                yield from (Slot(number, die, length) for die in dies)

    def renumbered(self) -> tuple[int, int] | None:
        """A length that has all but its folder, and one that is a folder alone: most likely they are one."""
        bare = [length for length in self.there if self.outer[length] and not self.inner[length]]
        odd = [length for length in self.there if self.inner[length] and not self.outer[length]]
        return (bare[0], odd[0]) if len(bare) == 1 and len(odd) == 1 and self.beside else None

    def path(self, length: int) -> str:
        """The folder of a length."""
        return self.folder.replace("{length}", str(length))


def check(tree: Tree, wanted: Wanted, lengths: Lengths, base: str, facts: Toolchain) -> Told:
    """What is wrong with a tree.

    Args:
        tree: Its files.
        wanted: What it should be of.
        lengths: The lengths that its files are of.
        base: Path of the folder of the dies, with a slash behind it; empty: it is the one that was looked at.
        facts: Of the toolchain.
    """
    return _Check(tree, wanted, lengths, base, facts).told()


class _Check:
    def __init__(self, tree: Tree, wanted: Wanted, lengths: Lengths, base: str, facts: Toolchain) -> None:
        self.tree, self.wanted, self.lengths, self.base, self.facts = tree, wanted, lengths, base, facts
        self.out = Told()
        self.missing = dict.fromkeys(self._needed())
        self.extra: dict[str, Placed] = {}
        self.explained: dict[str, set[str]] = {}
        """By folder the compiler's names that a finding has told of."""
        self.others = {each.path: each for each in tree.others if each.kind == "file"}
        self.above = {each.path: each for each in wanted.above if each.kind == "file"}

    def _say(self, of: str, path: str | None, text: str, *, do: str = "", at_base: bool = True) -> None:
        where = path if path is None or not at_base else f"{self.base}{path}".rstrip("/") or None
        self.out.findings.append(meanings.finding(of, where, text, do=do, source=self.facts.source))

    def _needed(self) -> Iterator[Slot]:
        for number, each in enumerate(self.tree.templates):
            form = self.tree.forms[number]
            if not each.is_needed or form.has_length:
                continue
            dies: Iterable[int | None] = range(self.wanted.dies) if form.has_die else (None,)
            yield from (Slot(number, die, None) for die in dies)
        for length in self.wanted.lengths:
            yield from self.lengths.slots(length)

    def told(self) -> Told:
        """All that is found, the coarse first."""
        here = {slot for slot in self.tree.here if slot in self.missing}
        everything = tuple(self.missing)
        self.missing = {slot: None for slot in self.missing if slot not in here}
        self._sort_extra()
        self._unread()
        self._mends()
        self._renumbered()
        self._folders(everything)
        self._lengths()
        self._dies(everything)
        self._broken()
        self._misnamed()
        self._renames()
        self._all_dies(everything)
        for slot in self.missing:
            is_float = self.tree.templates[slot.number].is_float
            do = "copy it from the float model, which `--repair --float FOLDER` does" if is_float else ""
            self._say("edge10.tree_file_missing", self.tree.path(slot), f"is missing: {self._says(slot)}", do=do)
        self._idle()
        self._too_much()
        self._mixed()
        self._sizes()
        self._texts()
        if len(self.out.findings) > _MOST:
            self.out.remarks.append(f"{len(self.out.findings) - _MOST:,} more findings are not told")
            del self.out.findings[_MOST:]
        return self.out

    def _says(self, slot: Slot) -> str:
        return self.tree.templates[slot.number].says or "a compile writes it"

    def _drop(self, slots: Iterable[Slot]) -> None:
        for slot in slots:
            self.missing.pop(slot, None)

    # ---- what is too much

    def _sort_extra(self) -> None:
        """Files that are known for what they are, and are of no die or length that is wanted."""
        for one in self.tree.placed:
            die, length = one.slot.die, one.slot.length
            phase = self.tree.templates[one.slot.number].phase
            is_beyond = die is not None and die >= self.wanted.dies
            is_other = length is not None and length not in self.wanted.lengths
            is_odd = (
                phase is not None and length in self.wanted.lengths and phase not in self.lengths.phases(length or 0)
            )
            if is_beyond or is_other or is_odd:
                self.extra[one.path] = one

    def _unread(self) -> None:
        """What lies in a folder that was not listed is neither there nor missing."""
        folders = tuple(f"{path.rstrip('/')}/" for path in self.wanted.unread)
        if folders:
            self._drop([slot for slot in self.missing if self.tree.path(slot).startswith(folders)])

    # ---- what is missing, from the coarse to the fine

    def _renumbered(self) -> None:
        """A length whose programs and constants have other numbers."""
        found = self.lengths.renumbered()
        if found is None:
            return
        bare, odd = found
        wanted = bare if bare in self.wanted.lengths else odd
        if wanted not in self.wanted.lengths:
            return
        other = odd if wanted == bare else bare
        self._drop([slot for slot in self.missing if slot.length in found])
        there = [path for path, one in self.extra.items() if one.slot.length == other]
        for path in there:
            del self.extra[path]
        where = self.lengths.path(odd) if wanted == bare else there[0] if len(there) == 1 else _common(there)
        self._say(
            "edge10.tree_length_differs", where,
            f"there are constants of length {bare} without programs, and programs of length {odd} without constants",
        )  # fmt: skip

    def _folders(self, everything: Sequence[Slot]) -> None:
        """Folders of which nothing is there."""
        for top in self.tree.tops():
            wanted = [slot for slot in everything if self.tree.forms[slot.number].folder.partition("/")[0] == top]
            gone = [slot for slot in wanted if slot in self.missing]
            if gone and len(gone) == len(wanted) and not any(path.startswith(f"{top}/") for path in self.tree.all):
                self._drop(gone)
                self._drop(
                    slot
                    for slot in list(self.missing)
                    if self.tree.templates[slot.number].is_copied
                    and self.tree.templates[slot.number].renamed_from.startswith(f"{top}/")
                    and not self._was_copied(top)
                )
                self._say("edge10.tree_folder_missing", top, f"nothing is in it, where {_belong(len(gone))}")

    def _was_copied(self, top: str) -> bool:
        """Whether a file that is copied from a folder is there."""
        return any(
            self.tree.templates[slot.number].is_copied
            and self.tree.templates[slot.number].renamed_from.startswith(f"{top}/")
            for slot in self.tree.here
        )

    def _dies(self, everything: Sequence[Slot]) -> None:
        """Dies of which nothing is there: in the whole tree, else in one of its folders."""
        if self.wanted.dies < 2:
            return
        beyond = sorted(
            {
                one.slot.die
                for one in self.extra.values()
                if one.slot.die is not None and one.slot.die >= self.wanted.dies
            }
        )
        folders = {""}
        for slot in everything:
            parts = self.tree.path(slot).split("/")[:-1]
            folders.update("/".join(parts[:end]) for end in range(1, len(parts) + 1))
        for die in range(self.wanted.dies):
            own = [slot for slot in everything if slot.die == die]
            for folder in sorted(folders, key=lambda path: (path.count("/") + bool(path), path)):
                inside = [slot for slot in own if not folder or self.tree.path(slot).startswith(f"{folder}/")]
                gone = [slot for slot in inside if slot in self.missing]
                has_raw = any(self.tree.raw.get(slot) for slot in gone)
                if len(inside) < 2 or len(gone) < len(inside) or has_raw:
                    continue
                odd = [number for number in beyond if self._has_most(number, folder, len(inside))]
                self._drop(gone)
                if len(odd) == 1:
                    beyond.remove(odd[0])
                    self.extra = {path: one for path, one in self.extra.items() if one.slot.die != odd[0]}
                    self._say(
                        "edge10.tree_die_differs", folder, f"there are files of die {odd[0]}, and none of die {die}"
                    )
                else:
                    self._say(
                        "edge10.tree_die_missing",
                        folder,
                        f"no file of die {die} is there, where {_belong(len(inside))}",
                    )

    def _has_most(self, die: int, folder: str, wanted: int) -> bool:
        found = [one for one in self.extra.values() if one.slot.die == die and one.path.startswith(folder)]
        return 2 * len(found) > wanted

    def _lengths(self) -> None:
        """Lengths of which no program is there."""
        for length in self.wanted.lengths:
            inside = [slot for slot in self.lengths.slots(length) if slot.number in self.lengths.inside]
            gone = [slot for slot in inside if slot in self.missing]
            folder = self.lengths.path(length)
            if gone and len(gone) == len(inside) and not any(path.startswith(f"{folder}/") for path in self.tree.all):
                beside = [slot for slot in self.missing if slot.length == length]
                self._drop(beside)
                self._say(
                    "edge10.tree_length_missing",
                    folder,
                    f"nothing of length {length} is there, where {_belong(len(gone))}",
                )

    # ---- what the last part of the compile script renames

    def _mends(self) -> None:
        """What can be renamed or copied, and what could be in more than one way."""
        for slot in self.missing:
            file = self.tree.templates[slot.number]
            target = f"{self.base}{self.tree.path(slot)}"
            if file.is_float:
                name = target.rpartition("/")[2]
                self.out.mends.append(Mend("copy", name, target, is_float=True, why=file.says))
            found = self._sources(slot)
            if len(found) == 1 and self._is_odd(found[0]):
                self.out.left.append(
                    f"{target}: {found[0].path} is named like no other file there, and may be of another compile"
                )
            elif len(found) == 1:
                does = "copy" if file.is_copied else "rename"
                self.out.mends.append(Mend(does, f"{self.base}{found[0].path}", target, is_float=False, why=file.says))
            elif found:
                named = ", ".join(one.path for one in found[:4])
                self.out.left.append(
                    f"{target}: may come from {len(found):,} files ({named}): which is meant is not told"
                )

    def _sources(self, slot: Slot) -> list[Placed]:
        """Files that a missing one is made from; of several dies the first, as they hold the same network."""
        file = self.tree.templates[slot.number]
        if not file.is_copied:
            return self.tree.raw.get(slot, [])
        form = self.tree.raw_forms[slot.number]
        if form is None:
            return []
        fitting = [
            one for one in self.tree.placed if one.path != self.tree.path(slot) and form.read(one.path) is not None
        ]
        dies = [one.slot.die for one in fitting if one.slot.die is not None]
        return [one for one in fitting if not dies or one.slot.die == min(dies)]

    def _explain(self, found: Mapping[Slot, Sequence[Placed]]) -> None:
        """Note compilers' names that only files have which are told as not renamed."""
        told_of = {one.path for sources in found.values() for one in sources}
        for sources in found.values():
            for one in sources:
                folder = one.path.rpartition("/")[0]
                if all(
                    each.path in told_of
                    for each in self.tree.placed
                    if each.free == one.free and each.path.rpartition("/")[0] == folder
                ):
                    self.explained.setdefault(folder, set()).add(one.free)

    def _is_odd(self, one: Placed) -> bool:
        """Whether the compiler's name of a file is another than that of all others in its folder."""
        folder = one.path.rpartition("/")[0]
        others = [
            each.free
            for each in self.tree.placed
            if each.free and each.path != one.path and each.path.rpartition("/")[0] == folder
        ]
        return bool(others) and one.free not in others

    def _renames(self) -> None:
        """Files that have the name that the compiler gave them; together where nothing was renamed at all."""
        found = {slot: sources for slot in self.missing if (sources := self._sources(slot))}
        if not found:
            return
        renamed = [number for number, each in enumerate(self.tree.templates) if each.renamed_from and each.is_needed]
        is_all = {slot.number for slot in found} == set(renamed) and not any(
            slot.number in renamed for slot in self.tree.here
        )
        self._drop(found)
        self._explain(found)
        if is_all and len(renamed) > 1:
            late = [slot for slot in self.missing if self.tree.templates[slot.number].is_float]
            self._drop(late)
            also = f", and {', '.join(self.tree.path(slot) for slot in late)} not copied" if late else ""
            self._say(
                "edge10.tree_not_renamed",
                "",
                f"nothing is renamed ({len(found):,} files){also}: the last part of the compile script did not run",
            )
            return
        by_folder: dict[str, list[Slot]] = {}
        for slot, sources in found.items():
            by_folder.setdefault(sources[0].path.rpartition("/")[0], []).append(slot)
        for folder, slots in by_folder.items():
            first = found[slots[0]][0].path
            if len(slots) == 1:
                self._say(
                    "edge10.tree_not_renamed",
                    first,
                    f"has the name that the compiler gave it, and {self.tree.path(slots[0])} is missing",
                )
            else:
                names = ", ".join(self.tree.path(slot) for slot in slots[:4])
                more = f" and {len(slots) - 4} more" if len(slots) > 4 else ""
                self._say(
                    "edge10.tree_not_renamed",
                    folder,
                    f"{len(slots)} files have the names that the compiler gave them, as "
                    f"{first.rpartition('/')[2]}, and are missing: {names}{more}",
                )

    # ---- names

    def _broken(self) -> None:
        """Missing files beside which lies what a broken copy left of them."""
        for path in list(self.others):
            found = _BROKEN.fullmatch(path)
            slot = self._missing_at(found[1].rstrip(".")) if found else None
            if slot is None and found:
                slot = self._missing_at(
                    f"{path.rpartition('/')[0]}/{found[1].rpartition('/')[2].lstrip('.')}".lstrip("/")
                )
            if slot is not None:
                self._drop([slot])
                del self.others[path]
                self._say(
                    "edge10.tree_file_missing",
                    self.tree.path(slot),
                    f"is missing, and {path.rpartition('/')[2]} lies there: whoever wrote it did not come to its end",
                )

    def _missing_at(self, path: str) -> Slot | None:
        return next((slot for slot in self.missing if self.tree.path(slot) == path), None)

    def _misnamed(self) -> None:
        """Missing files, and others that are most likely they."""
        spare = dict.fromkeys((*self.others, *self.extra))
        for slot in list(self.missing):
            path = self.tree.path(slot)
            folder, _, name = path.rpartition("/")
            near = [
                one
                for one in spare
                if one.rpartition("/")[0] == folder and self._is_like(one.rpartition("/")[2], name, slot)
            ]
            near = self._nearest(near, name) if len(near) > 1 else near
            if len(near) == 1:
                what = self._other_of(near[0])
                self._taken(near[0], spare, slot)
                self._say("edge10.tree_misnamed", near[0], f"{what}, and {path} is missing")
                continue
            places = [one for one in spare if one.rpartition("/")[2] == name]
            beside = [one for one in self.above if one.rpartition("/")[2] == name]
            if len(places) + len(beside) == 1:
                self._drop([slot])
                if places:
                    self._taken(places[0], spare, slot)
                    self._say("edge10.tree_misplaced", places[0], f"belongs at {path}, where it is missing")
                else:
                    self.above.pop(beside[0])
                    self._unmend(slot)
                    self._say(
                        "edge10.tree_misplaced",
                        beside[0],
                        f"belongs at {self.base}{path}, where it is missing",
                        at_base=False,
                    )

    def _other_of(self, path: str) -> str:
        """What is wrong with the name of a file that is not wanted."""
        one = self.extra.get(path)
        if one is None:
            return "is no name that a compile writes"
        if one.slot.die is not None and one.slot.die >= self.wanted.dies:
            return f"is of die {one.slot.die}, where the last is die {self.wanted.dies - 1}"
        if one.slot.length not in self.wanted.lengths:
            return f"is of length {one.slot.length}, which is not wanted"
        return (
            f"is a file to {self.tree.templates[one.slot.number].phase}, which length {one.slot.length} does not serve"
        )

    def _taken(self, path: str, spare: dict[str, None], slot: Slot) -> None:
        self._drop([slot])
        self._unmend(slot)
        spare.pop(path)
        self.others.pop(path, None)
        self.extra.pop(path, None)

    def _unmend(self, slot: Slot) -> None:
        """Leave a file to the reader that is there under another name."""
        target = f"{self.base}{self.tree.path(slot)}"
        self.out.mends = [each for each in self.out.mends if each.target != target]

    def _is_like(self, name: str, wanted: str, slot: Slot) -> bool:
        if name.lower() == wanted.lower():
            return True
        if name.rpartition(".")[2].lower() != wanted.rpartition(".")[2].lower():
            return False
        for one in self._named(name):
            if (one.slot.die, one.slot.length) == (slot.die, slot.length):
                return True  # of a phase that this length does not serve, in place of the one that it does
            if one.slot.number == slot.number and slot.die in (one.slot.die, None):
                return True  # of a length that is not wanted
            if one.slot.number == slot.number and one.slot.length == slot.length:
                return True  # of a die that there is not
            if one.slot.die is not None and one.slot.die != slot.die and one.slot.die < self.wanted.dies:
                return False
        numbers, own = re.findall(r"\d+", name), re.findall(r"\d+", wanted)
        if own and numbers and numbers[-1] != own[-1] and numbers[0] != own[0]:
            return False
        if slot.die is not None and len(own) == 1 and numbers == own and self._is_alone(slot):
            return True
        return difflib.SequenceMatcher(None, name[:200].lower(), wanted[:200].lower()).ratio() >= _ALIKE

    def _is_alone(self, slot: Slot) -> bool:
        """Whether no other file of a die is missing from a folder."""
        folder = self.tree.forms[slot.number].folder
        same = [one for one in self.missing if one.die == slot.die and one.length == slot.length]
        return sum(self.tree.forms[one.number].folder == folder for one in same) == 1

    def _named(self, name: str) -> list[Placed]:
        return [one for path, one in self.extra.items() if path.rpartition("/")[2] == name]

    @staticmethod
    def _nearest(paths: Sequence[str], name: str) -> list[str]:
        def nearness(path: str) -> float:
            return difflib.SequenceMatcher(None, path.rpartition("/")[2][:200], name[:200]).ratio()

        ranked = sorted(paths, key=nearness, reverse=True)
        return ranked[:1] if nearness(ranked[0]) > nearness(ranked[1]) else ranked

    def _all_dies(self, everything: Sequence[Slot]) -> None:
        """Files that no die has."""
        if self.wanted.dies < 2:
            return
        groups: dict[tuple[int, int | None], list[Slot]] = {}
        for slot in everything:
            if slot.die is not None:
                groups.setdefault((slot.number, slot.length), []).append(slot)
        for (number, length), slots in groups.items():
            if all(slot in self.missing for slot in slots):
                self._drop(slots)
                path = self.tree.forms[number].path("*", length)
                self._say("edge10.tree_file_missing", path, f"no die has it: {self._says(slots[0])}")

    def _idle(self) -> None:
        """Lengths of which the facts tell no phase, and no program is there."""
        for length in self.wanted.lengths:
            if self.lengths.is_known(length) or not self.lengths.inner.get(length):
                continue
            phases = self.lengths.seen_phases(length)
            if not phases:
                self._say(
                    "edge10.tree_length_idle",
                    self.lengths.path(length),
                    f"there is no program of length {length}, neither to decode nor to prefill",
                )
            else:
                shown = " and ".join(phases)
                self.out.remarks.append(f"which phases length {length} serves is not told; its files are to {shown}")

    # ---- what nothing wants

    def _too_much(self) -> None:
        self._beyond(
            "die",
            "edge10.tree_die_beyond",
            lambda one: one.slot.die if one.slot.die is not None and one.slot.die >= self.wanted.dies else None,
        )
        self._beyond(
            "length",
            "edge10.tree_length_beyond",
            lambda one: one.slot.length if one.slot.length not in self.wanted.lengths else None,
        )
        for path in self.extra:
            self._say("edge10.tree_leftover", path, self._other_of(path))
        self._twice()
        for path, each in self.others.items():
            self._other(path, each)
        for path in [
            path for path in self.above if "/" not in path and (_BROKEN.fullmatch(path) or _DUMPS.fullmatch(path))
        ]:
            self._say("edge10.tree_leftover", path, self._kind_of(path), at_base=False)

    def _beyond(self, what: str, of: str, number: Callable[[Placed], int | None]) -> None:
        groups: dict[int, list[str]] = {}
        for path, one in list(self.extra.items()):
            found = number(one)
            if found is not None:
                groups.setdefault(found, []).append(path)
                del self.extra[path]
        wanted = (
            f"there are {self.wanted.dies}"
            if what == "die"
            else f"wanted are {', '.join(map(str, self.wanted.lengths)) or 'none'}"
        )
        for found, paths in groups.items():
            where = paths[0] if len(paths) == 1 else _common(paths)
            said = (
                f"is of {what} {found}"
                if len(paths) == 1
                else f"{len(paths):,} files are of {what} {found}, as {paths[0]}"
            )
            self._say(of, where, f"{said}; {wanted}")

    def _twice(self) -> None:
        """Files by the compiler's names beside those that they are renamed to."""
        found = {slot: ones for slot, ones in self.tree.raw.items() if slot in self.tree.here}
        self._explain(found)
        groups: dict[str, list[Placed]] = {}
        for ones in found.values():
            for one in ones:
                folder = one.path.rpartition("/")[0]
                rest = self.tree.stems.get(folder, frozenset()) - self.explained.get(folder, set())
                if len(rest) < 2 or one.free in self.explained.get(folder, ()):  # else two compiles left them
                    groups.setdefault(folder, []).append(one)
        for folder, ones in groups.items():
            first, final = ones[0], self.tree.path(ones[0].slot)
            if len(ones) == 1:
                self._say("edge10.tree_twice", first.path, f"is there beside {final}, which it is renamed to")
            else:
                names = f"{first.path.rpartition('/')[2]} beside {final.rpartition('/')[2]}"
                said = f"{len(ones)} files are there beside those that they are renamed to, as {names}"
                self._say("edge10.tree_twice", folder, said)

    def _other(self, path: str, each: ListedFile) -> None:
        if self._kind_of(path):
            self._say("edge10.tree_leftover", path, self._kind_of(path))
        elif _RECORDS.fullmatch(path.rpartition("/")[2]):
            self._say("edge10.tree_unknown_file", path, "is a record of a run, and no file that a compile writes")
        elif each.bytes == 0:
            self._say("edge10.tree_leftover", path, "is empty, and no file that a compile writes so")
        else:
            self._say("edge10.tree_unknown_file", path, "is no file that a compile is known to write")

    @staticmethod
    def _kind_of(path: str) -> str:
        name = path.rpartition("/")[2]
        if _BROKEN.fullmatch(name):
            return "is what is left where writing broke off, or a former file"
        if _DUMPS.fullmatch(name):
            return "is the memory of a program that died"
        if name.endswith(_NETWORK):
            return "is what a compile makes on its way, in a place where it leaves none"
        return ""

    def _mixed(self) -> None:
        for folder, all_stems in self.tree.stems.items():
            stems = all_stems - self.explained.get(folder, set())
            if len(stems) > 1:
                shown = sorted(stems)[:3]
                self._say(
                    "edge10.tree_mixed",
                    folder,
                    f"holds files of {len(stems)} compiles, by their names: {' and '.join(_cut(one) for one in shown)}",
                )
            for stem in stems:
                found = _MEMBER.match(stem)
                told = self.wanted.context
                if found and len(stems) == 1 and told and folder in self._copied_from() and int(found[1]) != told:
                    said = f"its files are named by {int(found[1]):,} tokens, where the context is told as {told:,}"
                    self._say("edge10.tree_context_differs", folder, said)

    def _copied_from(self) -> set[str]:
        return {
            each.renamed_from.partition("/")[0] for each in self.tree.templates if each.is_copied and each.renamed_from
        }

    # ---- sizes and contents

    def _sizes(self) -> None:
        known = [one for one in self.tree.placed if not self.tree.templates[one.slot.number].may_be_empty]
        sized = [one for one in known if one.size is not None]
        if not sized:
            self.out.remarks.append("sizes are not told, so that empty files and files that are cut off are not found")
            return
        empty = [one for one in sized if one.size == 0]
        if len(empty) == len(sized):
            self._say("edge10.tree_files_empty", None, f"all {len(empty):,} files are empty")
            return
        for one in empty:
            self._say("edge10.tree_file_empty", one.path, "is empty")
        groups: dict[tuple[int, int | None], list[Placed]] = {}
        for slot, ones in self.tree.here.items():
            if slot.die is not None and slot.die < self.wanted.dies and self.tree.templates[slot.number].is_needed:
                groups.setdefault((slot.number, slot.length), []).extend(one for one in ones if one.size)
        for ones in groups.values():
            if len(ones) < 2:
                continue
            usual = median_high(one.size or 0 for one in ones)
            for one in ones:
                if (one.size or 0) < _HALF * usual:
                    self._say(
                        "edge10.tree_sizes_apart", one.path, f"has {one.size:,} bytes, on other dies it has {usual:,}"
                    )

    def _texts(self) -> None:
        for path, why in self.wanted.damaged.items():
            if path not in self.tree.all or self.tree.all[path].bytes == 0:
                continue
            self._say("edge10.tree_json_damaged", path, why)
        if self.wanted.digits is None:
            return
        for path, text in self.wanted.texts.items():
            for part, dies in _remaps(text):
                said = _digits(dies)
                if not _is_order(self.wanted.digits, said, part):
                    of = f" ({part} part)" if part else ""
                    order = f"was compiled with the dies in the order {said or '0'}{of}"
                    self._say(
                        "edge10.tree_remap", path, f"{order}, and the folder's name says {self.wanted.digits or '0'}"
                    )
                    break


def _belong(count: int) -> str:
    return "one file belongs" if count == 1 else f"{count:,} files belong"


def _common(paths: Sequence[str]) -> str:
    parts = [path.split("/")[:-1] for path in paths]
    same = []
    for each in zip(*parts, strict=False):
        if len(set(each)) > 1:
            break
        same.append(each[0])
    return "/".join(same)


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:24]}…{text[-12:]}"


def _digits(dies: Sequence[int]) -> str:
    last = max((index for index, die in enumerate(dies) if die), default=-1)
    return "".join(map(str, dies[: last + 1]))


def _is_order(name: str, said: str, part: str) -> bool:
    """Whether the digits of a name may hold an order: that of the vision part first, that of the language part last."""
    if part == "vision":
        return name.startswith(said)
    return name.endswith(said) if part == "language" else said in name


def _remaps(text: str) -> Iterator[tuple[str, Sequence[int]]]:
    """Orders of dies that a JSON text names, with the part that they are of where that is told."""
    if "remap" not in text.lower():
        return
    try:
        open_ = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    seen = 0
    while open_ and seen < _MAX_NODES:
        node = open_.pop()
        seen += 1
        if isinstance(node, list):
            open_ += node[:_MAX_NODES]
        elif isinstance(node, dict):
            for key, value in node.items():
                found = _REMAPS.fullmatch(key)
                is_order = (
                    isinstance(value, list)
                    and value
                    and all(isinstance(one, int) and not isinstance(one, bool) for one in value)
                )
                if found and is_order:
                    yield "vision" if found[1] else "language" if found[2] else "", value
                else:
                    open_.append(value)
