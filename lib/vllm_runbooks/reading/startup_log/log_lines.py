"""Split any text into log lines with process, time, source line and message.

Reads in pieces and keeps only a block of lines in memory.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, groupby, islice
from pathlib import PurePath
from typing import Any, NamedTuple

from vllm_runbooks.core.records import Process, Quote
from vllm_runbooks.core.redaction.redact import redact_text, watch
from vllm_runbooks.reading.startup_log import launch
from vllm_runbooks.reading.startup_log.routine import RoutineLines, Skipped, Statistic

MAX_LINE = 65536
"""Longest line; the rest counts as further lines with the same number."""
BLOCK = 128
_HEAD = 200_000
"""Characters that decide whether a text is a page, a reply or a log."""
_MAX_PROCESSES = 4096
MAX_QUOTE = 400
_REDACTED = 4096
"""Characters after a quote's start, in addition to 256 before it, that are searched for secrets."""

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_PID = (
    r"\((?:(?P<name>[A-Za-z_][\w:.-]{0,60}) )?(?:rank=(?P<rank>\d{1,5}) )?pid=(?P<pid>\d{1,10})"
    r"(?:, ?ip=(?P<ip>[\dA-Fa-f.:]{1,45}))?\)"
)
_VLLM_PROCESS = r"(?:EngineCore|A(?:PI|pi)Server|(?:Vllm|Ray)?Worker)\w{0,40}"
"""Processes of vLLM, which a line may name without the pid."""
_LEVEL = r"DEBUG|INFO|WARNING|ERROR|CRITICAL"
_STAMP = r"\d\d-\d\d ?\d\d:\d\d:\d\d(?:[.,]\d{1,6})?"
_SOURCE = r"\[?[\w./\\-]{1,120}:\d{1,6}\]"
_ELIDED = r"(?:\.{2,4}|…)"
_ELIDED_SOURCE = rf"\[(?:[\w./\\-]{{1,120}}\.py(?::(?:\d{{1,6}}|\w{{1,6}}|{_ELIDED}))?|{_ELIDED})\]"
"""Source of a line without its number, or only its brackets, as people paste it."""
_DATE = r"(?:\d{4}[-/]\d\d[-/]\d\d[T ]?)?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"


_CLOCK = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"


class _Prefix(NamedTuple):
    starts: str
    pattern: re.Pattern[str]
    is_header: bool
    """Whether it ends a logger's header."""


def _prefix(starts: str, pattern: str, *, is_header: bool = False) -> _Prefix:
    return _Prefix(starts, re.compile(pattern, re.ASCII), is_header)


_DIGITS = "0123456789"
_CARRIERS = (
    # Line prefixes of a container runtime, a scheduler or a journal.
    _prefix(_DIGITS, rf"{_ISO} (?:stdout|stderr) [FP] "),
    _prefix(_DIGITS, rf"{_ISO} [\w.-]{{1,64}} [\w./@-]{{1,64}}\[\d{{1,10}}\]: ?"),
    _prefix(_DIGITS, rf"(?:{_ISO}|{_CLOCK}) (?! {{0,2}}[|-])(?!\[?(?:{_LEVEL})\b(?! {{0,4}}{_STAMP}))"),
    _prefix(_DIGITS, r"\d{1,5}: {1,2}(?=[A-Z(\[])"),
    _prefix("[", r"\[pod/[\w./-]{1,200}\] "),
    _prefix("[", r"\[\d{1,5},\d{1,5}\]<std(?:out|err)>: ?"),
    _prefix("[", r"\[ {0,6}\d{1,9}\.\d{3,9}\] [\w.-]{1,64} [\w./@-]{1,64}\[\d{1,10}\]: ?"),
    _prefix(
        "ADFJMNOSTW",
        r"(?:[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z+\d:-]{1,6}"
        r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,6})?)"
        r" [\w.-]{1,64} [\w./@-]{1,64}\[\d{1,10}\]: ?",
    ),
)
_COMPOSE = re.compile(
    r"(?!\d)(?: {1,8}\| (?=\[?\d{4}-)|(?:[\w.-]{1,60}[_-]\d{1,4} {1,40}|[\w.-]{1,60} {2,40})\| ?)", re.ASCII
)
_PREFIXES = (
    _prefix("(", _PID + r" ?"),
    _prefix("[", r"\[(?:rank|default)(?P<rank>\d{1,5})\]:? ?"),
    _prefix(
        "DIWEC",
        rf"(?P<level>{_LEVEL}) {{0,4}}(?:(?P<time>{_STAMP}) {{0,2}}|(?:\d\d-\d\d )?(?=\[\w{{1,60}}\.py:))"
        r"\[?(?P<source>[\w./\\-]{1,120}:\d{1,6})\] ?",
        is_header=True,
    ),
    _prefix("DIWEC", rf"(?P<level>{_LEVEL}): {{0,9}}(?=\S)", is_header=True),
    _prefix("(", rf"\((?P<name>{_VLLM_PROCESS})(?: (?:pid=)?(?:[xX*#?]{{1,10}}|<\w{{1,10}}>|{_ELIDED}))?\) ?"),
    _prefix("DIWEC", rf"(?P<level>{_LEVEL}) {{1,4}}(?:[^\[\n]{{1,30}} )?{_ELIDED_SOURCE} ?", is_header=True),
    _prefix("DIWEC", rf"(?P<level>{_LEVEL}) {{1,4}}(?:(?P<time>{_STAMP})|{_ELIDED})(?: |\Z)", is_header=True),
    _prefix(
        "E", r"(?P<level>ERROR) (?= {2}|Traceback \(most|[A-Za-z_][\w.]{0,100}(?:Error|Exception):)", is_header=True
    ),
    _prefix(_DIGITS + "[", rf"(?:{_STAMP} )?\[(?P<source>[\w./\\-]{{1,120}}\.py:\d{{1,6}})\] ?"),
    _prefix(  # Ray Serve: component, its id, and the id of a request
        "DIWEC",
        rf"(?P<level>{_LEVEL}) (?P<time>{_CLOCK}) [\w.:-]{{1,100}} [\w.-]{{1,64}}(?: [\w-]{{8,64}})? -- ",
        is_header=True,
    ),
    _prefix(
        _DIGITS,
        rf"(?P<time>{_DATE}) {{0,3}}[|] {{0,3}}(?P<level>{_LEVEL}|SUCCESS|TRACE) {{0,8}}[|] ?"
        r"(?:[\w.<>:]{1,80}:\d{1,6} - |[\w.]{1,40} {0,3}[|] ?)?",
        is_header=True,
    ),
    _prefix(
        _DIGITS + "[",
        rf"\[?(?P<time>{_DATE})\]? ?[-:]? ?(?:[\w.]{{1,60}} - )?\[?(?P<level>{_LEVEL})\]?(?: ?[-:|] {{0,5}}| )",
        is_header=True,
    ),
    _prefix("[", rf"\[(?P<level>{_LEVEL})\] {{0,3}}(?P<time>{_DATE})?[ :-]{{0,3}}", is_header=True),
    _prefix("^", r"\^C"),
    _prefix("[", r"\[\d{0,3}(?:;\d{1,3}){0,4}m"),  # a colour without its escape character
)
_USUAL = re.compile(
    r"(?:\((?P<name>[A-Za-z_][\w:.-]{0,60}) pid=(?P<pid>\d{1,10})\) )?"
    rf"(?:(?P<level>{_LEVEL}) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d) \[(?P<source>[\w./-]{{1,120}}:\d{{1,6}})\] "
    r"|(?P<plain>INFO|WARNING|ERROR): {5})(?![(\[^])",
    re.ASCII,
)
"""Prefixes of nearly every line of a recent vLLM, as a shortcut to `_PREFIXES`."""
_CARRIED_LINE = re.compile(rf"{_ISO} (?P<stream>stdout|stderr) (?P<tag>[FP]) ", re.ASCII)
_CUT_LINE = re.compile(rf"{_ISO} (?:stdout|stderr) P ", re.ASCII)
"""Prefix of Kubernetes, and of the parts of lines longer than 16 KiB."""
_RECORD_KEYS = ("log", "message", "msg", "MESSAGE", "textPayload", "line")
"""Keys of the line in a JSON record (Docker, journald, Cloud Logging, Loki, structured logs)."""
_RECORD = re.compile(r"\s{0,8}\{\s{0,8}\"[\w@.]{1,60}\"\s{0,4}:", re.ASCII)

_GLUED = re.compile(
    r"(?:\((?:[A-Za-z_][\w:.-]{0,60} )?(?:rank=\d{1,5} )?pid=\d{1,10}(?:, ?ip=[\dA-Fa-f.:]{1,45})?\)"
    rf" ?(?:(?:{_LEVEL}) ?{_STAMP})?|(?:{_LEVEL}) {{0,4}}{_STAMP} {{0,2}}{_SOURCE}"
    r"|INFO:\s{0,9}(?:Started|Waiting|Application|Uvicorn|Shutting|Finished))",
    re.ASCII,
)
IN_HEADERS = ("pid=", "INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL")
_EXCEPTION = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}"
    r"(?:Error(?:_\w{1,40})?|Exception|Interrupt|Exit|Failure|Died|Exceeded|Dead|OutOfResources)"
    r"|(?:[A-Za-z_]\w{0,80}\.){0,6}(?:errors?|exceptions?)\.[A-Z]\w{0,80})"
    r"(?::(?P<message> .*)?)?\Z",
    re.ASCII | re.DOTALL,
)
is_exception = _EXCEPTION.match
"""Match an exception's line, `Type: message`, with groups `type` and `message`."""
_TRACEBACK = re.compile(
    r"\s{0,8}(?:[+|] {0,4}){0,8}(?:Exception Group )?Traceback \(most recent call last\):"
    r"|[A-Za-z_][\w.]{0,80} {2,80}Traceback \(most recent call last\)"
)
_FRAME = re.compile(
    r'(?:[|] {0,4}){0,8}\s{0,12}File "(?P<path>[^"\n]{1,1000})", line (?P<line>\d{1,8}), in (?P<function>\S.{0,200})'
)
_SHELL_FRAME = re.compile(
    r"(?:File )?\[?(?P<path>(?:[~/.<]|[A-Za-z]:\\)[^\s:]{0,500}(?::(?!\d)[^\s:]{0,500}){0,2})"
    r"(?::(?P<line>\d{1,8})(?:\]\(\S{0,800}\))?, in | in )(?P<function>[\w.<>]{1,200})\("
)
"""IPython's frames: `File ~/a.py:12, in f(x)`, `File [~/a.py:12](…), in f(x)`, earlier `~/a.py in f(x)`."""
_PROGRESS = re.compile(r"[\w /\[\](),:=.-]{0,120}?:? {0,3}\d{1,3}% ?(?:Completed ?)?\|")
_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_PAGE_MARK = re.compile(
    r"\s{0,3}(?:```|~~~|#{1,6} [^\d#]|<(?:details|summary|p|div|html|h[1-6])\b"
    r"|\|(?: {0,2}:?-{3,80}:? {0,2}\|){1,30}\s{0,8}\Z)",
    re.IGNORECASE,
)
_BEGINS_LOG = (
    rf"(?:\((?:[A-Za-z_][\w:.-]{{0,60}} )?(?:rank=\d{{1,5}} )?pid=\d|(?:{_LEVEL}) {{0,4}}{_STAMP}"
    r"|(?:\[rank\d{1,5}\]: ?)?Traceback \(most recent call last\):)"
)
_REPLY = re.compile(r" {0,3}(?:> ?){1,2}(?!>)")
_REPLIED = re.compile(rf"^ {{0,3}}(?:> ?){{1,2}}{_BEGINS_LOG}", re.ASCII | re.MULTILINE)
_LABEL = re.compile(r" {0,4}\d{1,5}: ?", re.ASCII)
"""Number of the task that wrote a line, as `srun --label` prints it."""
_LABELLED = re.compile(rf"^ {{0,4}}\d{{1,5}}: {_BEGINS_LOG}", re.ASCII | re.MULTILINE)
_MIN_LABELLED = 2
_COLLECTED = re.compile(_BEGINS_LOG, re.ASCII)
_MIN_COLLECTED, _MAX_COLLECTED, _COLLECTED_SHARE = 2, 300, 0.9
"""Log lines that prove a collector's prefix, lines that are searched for it, and the share of them that have it."""
_FIGURES = re.compile(r"\d+|(?:\\[ \t])+", re.ASCII)
_FIGURE_SHAPES = (r"[ \t]{1,20}", r"\d{1,20}")
_LONGEST_PREFIX, _MAX_SHAPES = 160, 8
_CODE_BLOCK = re.compile(r" {4}|\t")
_INDENTED_LOG = re.compile(rf"^(?P<indent>[ \t]{{0,16}}){_BEGINS_LOG}", re.ASCII | re.MULTILINE)
_TABLE_ROW = re.compile(r"\s{0,3}\|.{0,2000}\|\s{0,8}\Z")
_PAGE_SUFFIXES = frozenset({".md", ".markdown", ".mdx", ".rst", ".html", ".htm", ".adoc"})


_NOBODY = Process(None)


class LogLine(NamedTuple):
    """A line without its prefixes."""

    number: int
    text: str
    """The message without colors, with its indentation."""
    process: Process
    level: str | None = None
    time: str | None = None
    source: str | None = None
    """`file.py:line` as printed."""
    raw: str = ""
    raw_column: int = 1
    text_start: int = 0
    """Offset of `text` in `raw` without colors."""
    region: int = 0
    """Number of the stretch of log in a page; 0 in a log."""
    width: int = 0
    """Width at which a terminal wrapped it; 0 if it did not."""

    @property
    def has_header(self) -> bool:
        """Whether a logger wrote it."""
        return self.level is not None

    @property
    def has_prefix(self) -> bool:
        """Whether the line names its writer."""
        return self.has_header or self.process != _NOBODY

    def place(self, offset: int = 0) -> tuple[int, int]:
        """Line and column in the file of an offset in `text`, from 1, colors included."""
        column = self.column(offset)
        if not self.width:
            return self.number, column
        return self.number + (column - 1) // self.width, (column - 1) % self.width + 1

    def column(self, offset: int = 0) -> int:
        """Column of an offset in `text`, in the unwrapped line."""
        target = self.text_start + offset
        position, kept = 0, 0
        for match in _UNSEEN.finditer(self.raw):
            if kept + match.start() - position > target:
                break
            kept += match.start() - position
            position = match.end()
        return self.raw_column + position + target - kept


class SkippedLines(list[LogLine]):
    """An empty block in place of routine lines, with their statistics."""

    def __init__(self, statistics: Sequence[Statistic]) -> None:
        super().__init__()
        self.statistics = statistics


def quote(file: int, line: LogLine, start: int = 0, end: int = 0, *, most: int = MAX_QUOTE) -> Quote:
    """Quote up to `most` characters of a line with secrets replaced.

    The quote starts at the beginning, or at `start` if `end` would be cut off.
    """
    text = line.text
    first = len(text) - len(text.lstrip()) if end <= MAX_QUOTE else start
    before = max(first - 256, 0)
    text_shown = redact_text(text[before : first + _REDACTED])[len(redact_text(text[before:first])) :]
    return Quote(file, *line.place(start), text_shown.rstrip()[:most])


_NAMED_RELEASE = re.compile(
    r"\bvllm(?:[/-]openai(?:-[a-z]{1,12})?|[ _]version| release)?(?:==|[ :=@-]{1,2})v?"
    r"(\d{1,3}\.\d{1,3}\.\d{1,3}(?:\.post\d)?)(?=[\s,;:)\]'\"`]|[.+-](?!dev|rc|\d)|\Z)",
    re.ASCII | re.IGNORECASE,
)
"""`vllm==0.9.1`, `vLLM version: 0.9.1`, `VLLM_VERSION=0.9.1`, `vllm-0.9.1+cu118-cp38`, `vllm-openai:v0.9.1`."""


def named_release(text: str) -> str | None:
    """The release of vLLM that a text names; None if it names none or several."""
    names = set(_NAMED_RELEASE.findall(text, 0, _HEAD))
    return names.pop() if len(names) == 1 else None


_UNSEEN = re.compile(f"{_ESCAPE.pattern}|{_CONTROL.pattern}")


def clean(text: str) -> str:
    """Remove terminal escapes and control characters."""
    return text if text.isprintable() else _UNSEEN.sub("", text)


def is_traceback(text: str) -> bool:
    return "Traceback (" in text and _TRACEBACK.match(text) is not None


def frame(text: str) -> re.Match[str] | None:
    """Match a frame of a traceback, with groups `path`, `line` and `function`."""
    if 'File "' in text:
        return _FRAME.match(text)
    return _SHELL_FRAME.match(text) if " in " in text else None


def _marks(text: str, *, page: bool) -> re.Pattern[str] | None:
    """Quotation marks or indentation before a log's lines: a page may indent a log, another text all of its lines."""
    if _REPLIED.search(text):
        return _REPLY
    if len(_LABELLED.findall(text)) >= _MIN_LABELLED:
        return _LABEL
    collected = None if page else _collected(text)
    if collected:
        return collected
    indents = {match["indent"] for match in _INDENTED_LOG.finditer(text)}
    if page and any(indent.startswith(("    ", "\t")) for indent in indents):
        return _CODE_BLOCK
    least = min(map(len, indents), default=0)
    return re.compile(rf"[ \t]{{1,{least}}}") if least else None


def _collected(text: str) -> re.Pattern[str] | None:
    """The prefix that a log collector wrote before nearly every line, with any digits; None if there is none."""
    rows = [clean(row) for row in islice((row for row in text.splitlines() if row.strip()), _MAX_COLLECTED)]
    shapes: Counter[str] = Counter()
    for row in rows:
        begin = _COLLECTED.search(row, 0, _LONGEST_PREFIX + 60)
        prefix = row[: begin.start()] if begin else ""
        if prefix.strip() and len(prefix) <= _LONGEST_PREFIX and _strip(prefix)[0].strip():
            words = prefix.rstrip()  # further blanks after it indent the message
            shape = _FIGURES.sub(lambda match: _FIGURE_SHAPES[match[0][0].isdigit()], re.escape(words))
            shapes[shape + re.escape(prefix[len(words) :])] += 1
    known = [shape for shape, count in shapes.most_common(_MAX_SHAPES) if count >= _MIN_COLLECTED]
    mark = re.compile("|".join(known), re.ASCII) if known else None
    return mark if mark and sum(bool(mark.match(row)) for row in rows) >= _COLLECTED_SHARE * len(rows) else None


def is_page(name: str, text: str) -> bool:
    """Whether a text is a page around a log (Markdown, HTML)."""
    if PurePath(name).suffix.lower() in _PAGE_SUFFIXES:
        return True
    marks = 0
    for line in text[:_HEAD].splitlines()[:2000]:
        if _PAGE_MARK.match(line):
            marks += 2 if _FENCE.match(line) else 1
        if marks >= 4:
            return True
    return False


class _Chunk(NamedTuple):
    number: int
    column: int
    text: str
    width: int = 0


_MIN_WIDTH, _MAX_WIDTH = 40, 500
_MIN_WRAPPED = 4
"""Full rows that continue in the next one, as proof of wrapping."""


_DRAWN = ("+", "|", "#", "-", "*", "==", "= ")
"""Beginning of a row of a table, banner or list."""


def _wrapped_at(head: str) -> int:
    """Width at which a terminal wrapped the lines; 0 if it did not.

    No row is longer, several have this length, and most of these are followed by a clear
    continuation.
    """
    rows = [row.rstrip("\r") for row in head[:_HEAD].splitlines()]
    width = max(map(len, rows), default=0)
    full = [index for index, row in enumerate(rows[:-1]) if len(row) == width and not row.startswith(_DRAWN)]
    if not full or not _MIN_WIDTH <= width <= _MAX_WIDTH:
        return 0
    going_on = [index for index in full if _goes_on(rows[index + 1])]
    are_many = len({rows[index] for index in full}) >= _MIN_WRAPPED <= len(going_on)
    is_proven = are_many or any(len(rows[index + 1]) == width and _strip(rows[index])[1] for index in going_on)
    return width if is_proven and len(going_on) >= 0.75 * len(full) else 0


def _goes_on(row: str) -> bool:
    """Whether a row can continue the one above: no prefix, no frame, nothing drawn."""
    groups = _strip(row)[1]
    return bool(row.strip()) and not (groups or is_traceback(row) or frame(row) or row.startswith(_DRAWN))


def _chunks(pieces: Iterable[str], width: int = 0) -> Iterator[list[_Chunk] | Skipped]:
    """Yield the chunks of a text in blocks as they arrive, split at line ends, carriage returns and MAX_LINE."""
    number, column, rest = 1, 1, ""
    for piece in pieces:
        if isinstance(piece, Skipped):
            number = piece.next_line
            yield piece
            continue
        *lines, rest = (rest + piece).split("\n") if piece else (rest,)
        block: list[_Chunk] = []
        if width:
            lines, rest = _joined(lines, rest, width)
        for line in lines:
            if "\n" in line:
                block.append(_whole(number, column, line, width))
                number, column = number + line.count("\n") + 1, 1
                continue
            if len(line) <= MAX_LINE and "\r" not in line:
                block.append(_Chunk(number, column, line))
            else:
                block += _parts_of(number, column, line)
            number, column = number + 1, 1
            if len(block) >= BLOCK:
                yield block
                block = []
        while len(rest) > 2 * MAX_LINE:
            cut = _cut(rest, rest.rfind("\r", 0, MAX_LINE) + 1)
            block += _parts_of(number, column, rest[:cut])
            column, rest = column + cut, rest[cut:]
            if len(block) >= BLOCK:
                yield block
                block = []
        yield block
    if "\n" in rest:
        yield [_whole(number, column, rest, width)]
    elif rest:
        yield _parts_of(number, column, rest)


def _whole(number: int, column: int, rows: str, width: int) -> _Chunk:
    return _Chunk(number, column, rows.replace("\r\n", "").replace("\n", "").rstrip("\r"), width)


def _joined(lines: list[str], rest: str, width: int) -> tuple[list[str], str]:
    whole: list[str] = []
    is_full = False
    for line in lines:
        if is_full and _goes_on(line) and len(whole[-1]) < MAX_LINE:
            whole[-1] += "\n" + line
        else:
            whole.append(line)
        is_full = len(line.rstrip("\r")) == width
    if is_full:
        rest = f"{whole.pop()}\n{rest}"
    return whole, rest


def _parts_of(number: int, column: int, line: str) -> list[_Chunk]:
    """Split a long line, or one that a terminal rewrote."""
    chunks = []
    before = None
    for part in line.rstrip("\r").split("\r"):
        start = 0
        if part == before:  # written over itself
            column += len(part) + 1
            continue
        before = part
        while len(part) - start > MAX_LINE:
            cut = _cut(part[start : start + MAX_LINE], 0)
            chunks.append(_Chunk(number, column + start, part[start : start + cut]))
            start += cut
        chunks.append(_Chunk(number, column + start, part[start:]))
        column += len(part) + 1
    return chunks


def _cut(text: str, after: int) -> int:
    """Position at which to split a long line: before a log header, else after a blank."""
    if after:
        return after
    glued = [match.start() for match in _GLUED.finditer(text, MAX_LINE // 2, MAX_LINE)]
    return glued[-1] if glued else text.rfind(" ", MAX_LINE - 1024, MAX_LINE) + 1 or MAX_LINE


def _field_text(value: Any) -> str | None:
    """Text of a field; journald writes unprintable characters as a list of bytes."""
    if isinstance(value, list):
        with suppress(TypeError, ValueError):
            return bytes(value).decode("utf-8", "backslashreplace")
    return value if isinstance(value, str) else None


def _unwrapped(chunk: _Chunk) -> Iterator[_Chunk]:
    """Yield the lines in a log store's JSON record, or the chunk itself."""
    try:
        record = json.loads(chunk.text)
    except (ValueError, RecursionError):
        record = None
    kept = (_field_text(record.get(key)) for key in _RECORD_KEYS) if isinstance(record, dict) else ()
    record_text = next((value for value in kept if value is not None), None)
    if record_text is None:
        yield chunk
        return
    for line in record_text.rstrip("\n").split("\n"):
        yield chunk._replace(text=line)


_INDENT = 16
"""Most blanks before a prefix: a page may indent a log."""


def _strip(text: str, mark: re.Pattern[str] | None = None) -> tuple[str, dict[str, str]]:
    groups: dict[str, str] = {}
    marked = mark.match(text) if mark else None
    end = _carried(text, marked.end() if marked else 0)
    indented = text[end : end + _INDENT]
    position = end + len(indented) - len(indented.lstrip(" "))
    for _ in range(6):
        first = text[position : position + 1]
        for prefix in _PREFIXES:
            if not first or first not in prefix.starts or (prefix.is_header and "level" in groups):
                continue
            match = prefix.pattern.match(text, position)
            if match:
                position = end = match.end()
                groups = {**groups, **{key: value for key, value in match.groupdict().items() if value}}
                break
        else:
            break
    return text[end:], groups


def _carried(text: str, position: int) -> int:
    """Offset after the prefix of a container runtime, scheduler or journal."""
    if "|" in text[:104]:
        match = _COMPOSE.match(text, position)
        position = match.end() if match else position
    first = text[position : position + 1]
    for carrier in _CARRIERS:
        if first in carrier.starts and first:
            match = carrier.pattern.match(text, position)
            if match:
                return match.end()
    return position


class _Lines:
    def __init__(self, mark: re.Pattern[str] | None) -> None:
        self._mark = mark
        self._known: dict[tuple[str | None, ...], Process] = {}
        self._partial: dict[str, _Chunk] = {}
        """Unfinished lines of a container runtime by stream."""

    def of(self, chunk: _Chunk) -> Iterable[LogLine]:
        if _CUT_LINE.match(chunk.text) or self._partial:
            whole = self._completed(chunk)
            if whole is None:
                return ()
            chunk = whole
        text = clean(chunk.text)
        usual = _USUAL.match(text, _carried(text, 0)) if self._mark is None else None
        if usual and not _may_hold_header(text, usual.end()):
            name, pid, level, time, source, plain = usual.groups()
            process = self._process(name, pid, None, None)
            start = usual.end()
            return (
                LogLine(
                    chunk.number, text[start:].rstrip(), process, level or plain, time, source,
                    chunk.text, chunk.column, start, 0, chunk.width,
                ),
            )  # fmt: skip
        if text[:1] == "{" and _RECORD.match(text):
            inner = _unwrapped(chunk._replace(text=text))
            return [self._line(piece) for line in inner for piece in self._pieces(line)]
        return [self._line(piece) for piece in self._pieces(chunk)]

    def all(self, blocks: Iterable[list[_Chunk] | Skipped]) -> Iterator[list[LogLine]]:
        for block in blocks:
            if isinstance(block, Skipped):
                yield SkippedLines(block.statistics)
            else:
                yield [line for chunk in block for line in self.of(chunk)]
        if self._partial:
            yield [self._line(piece) for chunk in self._partial.values() for piece in self._pieces(chunk)]

    def _completed(self, chunk: _Chunk) -> _Chunk | None:
        """Whole line that a chunk completes; None if it continues."""
        carried = _CARRIED_LINE.match(chunk.text)
        if carried is None:
            return chunk
        begun = self._partial.pop(carried["stream"], None)
        whole = begun._replace(text=begun.text + chunk.text[carried.end() :]) if begun else chunk
        if carried["tag"] == "F" or len(whole.text) > MAX_LINE:
            return whole
        self._partial[carried["stream"]] = whole
        return None

    def _pieces(self, chunk: _Chunk) -> Iterator[_Chunk]:
        start = 0
        if _may_hold_header(chunk.text, 1):
            for match in _GLUED.finditer(chunk.text, 1):
                if _strip(clean(chunk.text[start : match.start()]), self._mark)[0].strip():
                    yield chunk._replace(column=chunk.column + start, text=chunk.text[start : match.start()])
                    start = match.start()
        yield chunk._replace(column=chunk.column + start, text=chunk.text[start:]) if start else chunk

    def _line(self, chunk: _Chunk) -> LogLine:
        text = clean(chunk.text)
        message, groups = _strip(text, self._mark)
        process = self._process(groups.get("name"), groups.get("pid"), groups.get("ip"), groups.get("rank"))
        return LogLine(
            chunk.number, message.rstrip(), process, groups.get("level"), groups.get("time"), groups.get("source"),
            chunk.text, chunk.column, len(text) - len(message), 0, chunk.width,
        )  # fmt: skip

    def _process(self, name: str | None, pid: str | None, ip: str | None, rank: str | None) -> Process:
        key = (name, pid, ip, rank)
        process = self._known.get(key)
        if process is None:
            if len(self._known) >= _MAX_PROCESSES:
                self._known.clear()
            process = Process(name, int(pid) if pid else None, ip, int(rank) if rank else None)
            self._known[key] = process
        return process


def _may_hold_header(text: str, start: int) -> bool:
    """Whether a log header may follow: a fast check for common parts of all headers."""
    return any([text.find(word, start) >= 0 for word in IN_HEADERS])  # a list: quicker than a generator here


def _is_anchor(line: LogLine) -> bool:
    """Whether a line of a page can only come from a log."""
    if _TABLE_ROW.match(line.raw) or _FENCE.match(line.raw):
        return False
    return (
        (line.has_header and (line.time is not None or line.process.pid is not None or line.text.endswith(".")))
        or line.process.pid is not None
        or line.process.rank is not None
        or is_traceback(line.text)
        or frame(line.text) is not None
        or (is_exception(line.text) is not None and ": " in line.text)
        or _PROGRESS.match(line.text) is not None
        or launch.at_prompt(line.text) is not None
    )


_PAGE_GAP = 3
"""Lines between a page's log lines that belong to the log: a traceback's code, a wrapped message."""


_GLUED_LOG = 4
"""Log headers after prose on one line that make it a log without line ends; fewer are a quote."""


def _only_log(lines: Iterator[LogLine]) -> Iterator[LogLine]:
    """Yield a page's log lines, with the number of their stretch."""
    region, in_stretch = 0, False
    gap: list[LogLine] = []
    for line, is_log in _with_is_log(lines):
        if is_log:
            if not in_stretch:
                region, in_stretch, gap = region + 1, True, []
            yield from (kept._replace(region=region) for kept in (*gap, line))
            gap = []
        elif in_stretch:
            is_fence = bool(_FENCE.match(line.raw) or _FENCE.match(line.text))
            gap += [] if is_fence else [line]
            if is_fence or len(gap) > _PAGE_GAP:
                yield from _end_of(gap, region)
                in_stretch, gap = False, []
    yield from _end_of(gap, region)


def _with_is_log(lines: Iterator[LogLine]) -> Iterator[tuple[LogLine, bool]]:
    """Yield each line of a page, and whether it is log: log lines quoted in prose are prose."""
    for _, group in groupby(lines, key=lambda line: line.number):
        pieces = list(group)
        anchors = [_is_anchor(piece) for piece in pieces]
        quotes = not anchors[0] and sum(anchors) < _GLUED_LOG
        yield from ((piece, is_log and not quotes) for piece, is_log in zip(pieces, anchors, strict=True))


def _end_of(gap: list[LogLine], region: int) -> Iterator[LogLine]:
    for line in gap[:1]:
        if line.text.strip() and not _PAGE_MARK.match(line.raw) and not _PAGE_MARK.match(line.text):
            yield line._replace(region=region)


def read_lines(name: str, pieces: Iterable[str], routine: RoutineLines | None = None) -> Iterator[list[LogLine]]:
    """Yield the log lines of a text in blocks; its first piece decides whether it is a page or a quoting reply.

    With `routine`, the lines of a plain log that need not be read one by one are skipped. The text's
    secrets are then known to `redact_text`.
    """
    pieces = iter(pieces)
    head = next(pieces, "")
    page, width = is_page(name, head), _wrapped_at(head)
    marks = _marks(head[:_HEAD], page=page)
    text: Iterator[str] = chain((head,), pieces)
    if routine and not (page or marks or width):
        text = routine.skim(text)
    lines = _Lines(marks)
    blocks = lines.all(_chunks(watch(text), width))
    log = _only_log(chain.from_iterable(blocks))
    yield from iter(lambda: list(islice(log, BLOCK)), []) if page else blocks
