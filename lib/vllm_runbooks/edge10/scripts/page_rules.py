"""What is wrong between the scripts of a page and the print-outs that it shows of what they leave."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_runbooks.catalog.languages import Phrase, listed
from vllm_runbooks.edge10.scripts import pure
from vllm_runbooks.edge10.scripts.compiled import Compiled, text_of
from vllm_runbooks.edge10.scripts.readings import COMPILE, Job, Part, ReadFile
from vllm_runbooks.lint.hits import Hit

_RULE = "edge10.listing-differs"
_ENTRY = re.compile(r"[ \t\u00a0│|]{0,200}[├└]──[ \t\u00a0]{0,8}(?P<name>[^\s\ufffd]{1,200})")
_DIES = re.compile(r"(\d{1,4})die/?")
_LENGTH = re.compile(r"seqlen_(\d{1,7})/?")
_TOP = re.compile(r"(?P<name>[\w./+-]{1,300}?)/?(?:[ \t]*[$#%>][ \t]*tree\b.{0,40})?[ \t\r]{0,40}\Z")
_MAX_LINES = 2_000


def find(file: ReadFile, job: Job) -> Iterator[Hit]:
    """Print-outs of trees that show something else than the script in front of them compiles."""
    last: Part | None = None
    for part in file.parts:
        if part.piece.kind == "python" and part.has(*COMPILE):
            last = part
        elif part.piece.kind == "listing" and last is not None and last.program is not None:
            yield from _compared(part, Compiled(last, last.program, job.facts))
            last = None


def _compared(listing: Part, one: Compiled) -> Iterator[Hit]:
    source = listing.piece.text
    set_lengths = {length for _, value in one.lengths for length in one.numbers(value) or ()}
    is_known = bool(one.lengths) and all(one.numbers(value) is not None for _, value in one.lengths)
    shown: set[int] = set()
    begin = 0
    places: list[tuple[int, int]] = []
    for line in source.text.split("\n")[:_MAX_LINES]:
        entry = _ENTRY.match(line)
        name = entry["name"] if entry else ""
        place = (
            (source.at[begin + entry.start("name")], source.at[begin + entry.end("name") - 1] + 1) if entry else (0, 0)
        )
        if entry is None and not places and (top := _TOP.fullmatch(line)) and top["name"].strip("./"):
            at = source.at[begin + top.start("name")], source.at[begin + top.end("name") - 1] + 1
            yield from _name(one, top["name"], at)
        dies = _DIES.fullmatch(name)
        if dies and one.dies is not None and int(dies[1]) != one.dies.value:
            says = {
                "shown": Phrase("1 die") if dies[1] == "1" else Phrase("{count} dies", count=dies[1]),
                "set": Phrase("{who} ({why})", who=str(one.dies.value), why=one.dies.what),
            }
            yield Hit(_RULE, *place, says)
        length = _LENGTH.fullmatch(name)
        if length:
            places.append(place)
            shown.add(int(length[1]))
            if is_known and int(length[1]) not in set_lengths:
                said = ", ".join(map(str, sorted(set_lengths)))
                yield Hit(
                    _RULE, *place, {"shown": Phrase("a program of the length {length}", length=length[1]), "set": said}
                )
        begin += len(line) + 1
    missing = sorted(set_lengths - shown) if is_known and places else []
    if missing and shown <= set_lengths:
        said = ", ".join(map(str, sorted(set_lengths)))
        lacking = Phrase("no program of the length {length}", length=listed([str(each) for each in missing]))
        yield Hit(_RULE, *places[0], {"shown": lacking, "set": said})


def _name(one: Compiled, name: str, place: tuple[int, int]) -> Iterator[Hit]:
    """The folder's name, beside the one that the script writes to."""
    for value in one.folders:
        text = text_of(one.program, value)
        if text is None or pure.HOLE in text:
            continue
        folders = [folder for folder in text.split("/") if "AOT" in folder]
        own = name.rstrip("/").rpartition("/")[2]
        if folders and "AOT" in own and own not in folders:
            yield Hit(_RULE, *place, {"shown": Phrase("the folder {name}", name=own), "set": folders[-1]})
