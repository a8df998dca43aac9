"""Compare the scripts of a page with the trees that it prints of their results."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_runbooks.catalog.languages import Phrase, listed
from vllm_runbooks.edge10.scripts.compiled import CompileSettings, folder_text
from vllm_runbooks.edge10.scripts.operations import is_known_text
from vllm_runbooks.edge10.scripts.readings import COMPILE, FilePart, ReadFile, ScriptSet
from vllm_runbooks.lint.hits import Hit

_RULE = "edge10.listing-differs"
_ENTRY = re.compile(r"[ \t\u00a0│|]{0,200}[├└]──[ \t\u00a0]{0,8}(?P<name>[^\s\ufffd]{1,200})")
_DIES = re.compile(r"(\d{1,4})die/?")
_LENGTH = re.compile(r"seqlen_(\d{1,7})/?")
_TOP = re.compile(r"(?P<name>[\w./+-]{1,300}?)/?(?:[ \t]*[$#%>][ \t]*tree\b.{0,40})?[ \t\r]{0,40}\Z")
_MAX_LINES = 2_000


def find(file: ReadFile, scripts: ScriptSet) -> Iterator[Hit]:
    """Printed trees that differ from the results of the script before them."""
    last: CompileSettings | None = None
    for part in file.parts:
        if part.program is not None and part.has(*COMPILE):
            last = CompileSettings(part, part.program, scripts.facts)
        elif part.piece.kind == "listing" and last is not None:
            yield from _compare(part, last)
            last = None


def _compare(listing: FilePart, settings: CompileSettings) -> Iterator[Hit]:
    source = listing.piece.text
    values = [settings.numbers(value) for _, value in settings.lengths]
    compiled = {length for lengths in values for length in lengths or ()}
    is_known = bool(values) and None not in values
    joined = ", ".join(map(str, sorted(compiled)))
    printed: dict[int, tuple[int, int]] = {}
    begin, has_entries = 0, False
    for line in source.text.split("\n")[:_MAX_LINES]:
        entry = _ENTRY.match(line) or (None if has_entries else _TOP.fullmatch(line))
        if entry is not None:
            name = entry["name"]
            span = source.at[begin + entry.start("name")], source.at[begin + entry.end("name") - 1] + 1
            is_top = entry.re is _TOP
            has_entries |= not is_top
            if is_top and name.strip("./"):
                yield from _compare_name(settings, name, span)
            dies, length = _DIES.fullmatch(name), _LENGTH.fullmatch(name)
            if dies and settings.dies is not None and int(dies[1]) != settings.dies.value:
                difference = Phrase("1 die") if dies[1] == "1" else Phrase("{count} dies", count=dies[1])
                setting = Phrase("{who} ({why})", who=str(settings.dies.value), why=settings.dies.name)
                yield Hit(_RULE, *span, {"shown": difference, "set": setting})
            if length:
                printed.setdefault(int(length[1]), span)
                if is_known and int(length[1]) not in compiled:
                    difference = Phrase("a program of the length {length}", length=length[1])
                    yield Hit(_RULE, *span, {"shown": difference, "set": joined})
        begin += len(line) + 1
    missing = sorted(compiled - printed.keys())
    if is_known and printed and missing and printed.keys() <= compiled:
        difference = Phrase("no program of the length {length}", length=listed([str(length) for length in missing]))
        yield Hit(_RULE, *next(iter(printed.values())), {"shown": difference, "set": joined})


def _compare_name(settings: CompileSettings, name: str, span: tuple[int, int]) -> Iterator[Hit]:
    for value in settings.folders:
        text = folder_text(settings.program, value)
        folders = [folder for folder in text.split("/") if "AOT" in folder] if text is not None else []
        last = name.rstrip("/").rpartition("/")[2]
        if is_known_text(text) and folders and "AOT" in last and last not in folders:
            yield Hit(_RULE, *span, {"shown": Phrase("the folder {name}", name=last), "set": folders[-1]})
