"""Rows of the first sheet of an `.xlsx` workbook, with the standard library, within bounds.

A workbook is untrusted: nothing is unpacked to disk, the size of a part is checked before it is parsed, and a document
type, which could name files or expand without end, is rejected.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from vllm_runbooks.core.errors import InputError

_MAX_PART = 128 * 2**20
"""Bytes of an unpacked part."""
_MAX_CELLS = 5_000_000
"""Cells, with the empty ones before the last cell of a row."""
_SHEET, _STRINGS = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"


class _UnreadableError(Exception):
    """A bound is exceeded."""


def rows(raw: bytes, where: str) -> Iterator[list[str]]:
    """The rows of the first sheet, each as wide as its last cell; raises InputError."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            has_strings = _STRINGS in archive.namelist()
            strings = [_text(node) for node in _elements(archive, _STRINGS, "si")] if has_strings else []
            sheet = list(_sheet_rows(archive, strings))
    except (zipfile.BadZipFile, zlib.error, ET.ParseError, KeyError, EOFError, OSError, RuntimeError, ValueError):
        raise InputError(f"{where}: cannot be read as a workbook; save its table as .tsv and use that") from None
    except _UnreadableError as error:
        raise InputError(f"{where}: {error}; save its table as .tsv and use that") from None
    for row in sheet:
        yield [row.get(column, "") for column in range(max(row, default=-1) + 1)]


def _elements(archive: zipfile.ZipFile, part: str, name: str) -> Iterator[ET.Element]:
    with archive.open(part) as file:
        text = file.read(_MAX_PART + 1)
    if len(text) > _MAX_PART:
        raise _UnreadableError(f"is larger than {_MAX_PART // 2**20} MiB unpacked")
    if b"\0" in text or "<!DOCTYPE" in text.decode("utf-8"):  # UTF-16 would hide it
        raise _UnreadableError("has a document type declaration")
    cells = elements = 0
    for event, node in ET.iterparse(io.BytesIO(text), ("start", "end")):  # noqa: S314 - without a document type
        tag = _tag(node)
        if event == "start":
            elements += 1
            cells += tag == "c"
            # The tree keeps every element, and a cell has up to four.
            _check_cells(max(cells, elements // 4))
        elif event == "end" and tag == name:
            yield node
            node.clear()


def _sheet_rows(archive: zipfile.ZipFile, strings: list[str]) -> Iterator[dict[int, str]]:
    """Cells of each row by column."""
    area = 0
    for node in _elements(archive, _SHEET, "row"):
        row: dict[int, str] = {}
        for cell in node:
            column = _column(cell.get("r", ""))
            text = _text(cell)
            if cell.get("t") == "s":
                text = strings[int(text)] if text.isdigit() and int(text) < len(strings) else ""
            row[len(row) if column is None else column] = text
        area += max(row, default=-1) + 1
        _check_cells(area)
        yield row


def _check_cells(count: int) -> None:
    if count > _MAX_CELLS:
        raise _UnreadableError(f"has more than {_MAX_CELLS:,} cells")


def _tag(node: ET.Element) -> str:
    return node.tag.rpartition("}")[2]


def _text(node: ET.Element) -> str:
    return "".join(child.text or "" for child in node.iter() if _tag(child) in ("v", "t"))


def _column(reference: str) -> int | None:
    """Number of a cell's column, from 0, by its name as in `AB12`."""
    number = 0
    for letter in reference[:8]:
        if not "A" <= letter <= "Z":
            break
        number = number * 26 + ord(letter) - 64
    return number - 1 if 0 < number <= 16384 else None
