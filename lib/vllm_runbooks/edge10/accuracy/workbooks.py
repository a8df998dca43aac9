"""The first sheet of an `.xlsx` workbook as rows of text, with the standard library, within bounds.

A workbook may come from anybody: nothing is unpacked, every part is bounded before it is read, and a document type, by
which XML can name other files or grow without end, is refused.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from xml.parsers import expat

from vllm_runbooks.core.errors import InputError

_MAX_PART = 128 * 2**20
"""Bytes of a part, unpacked."""
_MAX_CELLS = 5_000_000
"""Cells, those counted that are left out of the file: a row with its last cell alone is read as wide as it is."""
_SHEET, _STRINGS = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"


class _Refused(Exception):  # noqa: N818 - a way out of the parser
    """The workbook is not read further."""


class _Sheet:
    """What expat tells of a sheet or of the table of strings, one element after the other."""

    def __init__(self, strings: list[str] | None) -> None:
        """Begin with nothing.

        Args:
            strings: Those of the workbook; None: it is them that are read.
        """
        self.strings = strings
        self.rows: list[dict[int, str]] = []
        self.texts: list[str] = []
        self._text: list[str] | None = None
        self._row: dict[int, str] = {}
        self._cell: tuple[int, str] = (0, "")
        self._whole: list[str] = []
        self._cells = 0
        self._area = 0

    def refuse(self, *_: object) -> None:
        raise _Refused("has a document type of its own")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        if name == "row":
            self._row = {}
        elif name == "c":
            self._cells += 1
            self._bound(self._cells)
            at = _column(attributes.get("r", ""))
            self._cell = (len(self._row) if at is None else at, attributes.get("t", ""))
            self._whole = []
        elif name == "si":
            self._whole = []
        if name in ("v", "t"):
            self._text = []

    def data(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def end(self, name: str) -> None:
        name = name.rpartition(":")[2]
        if name in ("v", "t") and self._text is not None:
            self._whole.append("".join(self._text))
            self._text = None
        elif name == "si":
            self.texts.append("".join(self._whole))
        elif name == "c":
            at, kind = self._cell
            said = "".join(self._whole)
            if kind == "s" and self.strings is not None:
                said = self.strings[int(said)] if said.isdigit() and int(said) < len(self.strings) else ""
            self._row[at] = said
        elif name == "row":
            self._area += _width(self._row)
            self._bound(self._area)
            self.rows.append(self._row)

    @staticmethod
    def _bound(cells: int) -> None:
        if cells > _MAX_CELLS:
            raise _Refused(f"has more than {_MAX_CELLS:,} cells")


def _width(row: dict[int, str]) -> int:
    return max(row, default=-1) + 1


def _column(reference: str) -> int | None:
    """The number of a cell's column, from 0, by its name as in `AB12`."""
    number = 0
    for letter in reference[:8]:
        if not ("A" <= letter <= "Z"):
            break
        number = number * 26 + ord(letter) - 64
    return number - 1 if 0 < number <= 16384 else None


def rows(raw: bytes, where: str) -> Iterator[list[str]]:
    """The rows of the first sheet, each as wide as its last cell.

    Raises:
        InputError: it is no workbook, or not one that is read.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            strings = _read(archive, _STRINGS, None).texts if _STRINGS in archive.namelist() else []
            sheet = _read(archive, _SHEET, strings)
    except (zipfile.BadZipFile, expat.ExpatError, KeyError, NotImplementedError, EOFError, OSError, ValueError):
        raise InputError(f"{where}: cannot be read as a workbook; save its table as .tsv and give that") from None
    except _Refused as error:
        raise InputError(f"{where}: {error}; save its table as .tsv and give that") from None
    for row in sheet.rows:
        yield [row.get(at, "") for at in range(_width(row))]


def _read(archive: zipfile.ZipFile, name: str, strings: list[str] | None) -> _Sheet:
    with archive.open(name) as file:
        text = file.read(_MAX_PART + 1)
    if len(text) > _MAX_PART:
        raise _Refused(f"is larger than {_MAX_PART // 2**20} MiB unpacked")
    told = _Sheet(strings)
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = told.refuse
    parser.StartElementHandler, parser.EndElementHandler = told.start, told.end
    parser.CharacterDataHandler = told.data
    parser.buffer_text = True
    parser.Parse(text, True)
    return told
