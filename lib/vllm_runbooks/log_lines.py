"""Text of any shape to log lines: which process wrote each, when, from which source line, and what it says.

Understood are vLLM's own prefixes of all releases, uvicorn's, loguru's and the logging module's usual formats (wrappers
that re-log), colours, progress bars rewritten by carriage returns, lines that a paste has glued together, and pages
(Markdown, HTML) of which only the log is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

from vllm_runbooks.records import Process

MAX_LINE = 65536
"""Characters of one line that are read as one; the rest is read as further lines at the same number."""

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")
_PID = r"\((?P<name>[A-Za-z_][\w:.-]{0,60}) pid=(?P<pid>\d{1,10})(?:, ?ip=(?P<ip>[\dA-Fa-f.:]{1,45}))?\)"
_LEVEL = r"DEBUG|INFO|WARNING|ERROR|CRITICAL"
_STAMP = r"\d\d-\d\d ?\d\d:\d\d:\d\d(?:[.,]\d{1,6})?"
_VLLM = rf"(?P<level>{_LEVEL}) {{0,4}}(?P<time>{_STAMP}) {{0,2}}\[?(?P<source>[\w./\\-]{{1,120}}:\d{{1,6}})\] ?"
_DATE = r"(?:\d{4}[-/]\d\d[-/]\d\d[T ]?)?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"

_PREFIXES = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        _PID + r" ?",
        r"\[rank(?P<rank>\d{1,5})\]:? ?",
        _VLLM,
        rf"(?P<level>{_LEVEL}): {{0,9}}(?=\S)",
        rf"(?P<time>{_DATE}) {{0,3}}[|] {{0,3}}(?P<level>{_LEVEL}|SUCCESS|TRACE) {{0,8}}[|] ?(?:[\w.<>:]{{1,80}}:\d{{1,6}} - )?",
        rf"\[?(?P<time>{_DATE})\]? ?[-:]? ?(?:[\w.]{{1,60}} - )?\[?(?P<level>{_LEVEL})\]?(?: ?[-:|] ?| )",
        rf"\[(?P<level>{_LEVEL})\] {{0,3}}(?P<time>{_DATE})?[ :-]{{0,3}}",
        r"\^C",
    )
)
_WHOLE_HEADER = frozenset({2, 3, 4, 5, 6})
"""Prefixes that carry a log level: after one of them the message begins."""

_GLUED = re.compile(
    rf"(?:{_PID.replace('?P<name>', '?:').replace('?P<pid>', '?:').replace('?P<ip>', '?:')} ?(?:(?:{_LEVEL}) ?{_STAMP})?"
    rf"|(?:{_LEVEL}) {{0,4}}{_STAMP} {{0,2}}\[?[\w./\\-]{{1,120}}:\d{{1,6}}\]"
    r"|INFO:\s{0,9}(?:Started|Waiting|Application|Uvicorn|Shutting|Finished))",
    re.ASCII,
)
_EXCEPTION = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exit|Failure|Died|Exceeded|Dead))"
    r"(?::(?P<message> .*)?)?\Z",
    re.ASCII | re.DOTALL,
)
_TRACEBACK = re.compile(r"\s{0,8}(?:[+|] {0,4}){0,8}(?:Exception Group )?Traceback \(most recent call last\):")
_FRAME = re.compile(r'(?:[|] {0,4}){0,8}\s{0,12}File "(?P<path>[^"\n]{1,1000})", line (?P<line>\d{1,8}), in (?P<function>\S.{0,200})')
_PROGRESS = re.compile(r"[\w /\[\](),:=.-]{0,120}?:? {0,3}\d{1,3}% ?(?:Completed ?)?\|")
_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_PAGE_MARK = re.compile(r"\s{0,3}(?:```|~~~|#{1,6} [^\d#]|<(?:details|summary|p|div|html|h[1-6])\b|\|.{0,200}\|\s*\Z)", re.IGNORECASE)
_PAGE_SUFFIXES = frozenset({".md", ".markdown", ".mdx", ".rst", ".html", ".htm", ".adoc"})
_PROMPT = re.compile(r"(?:\([\w.-]{1,60}\) ?)?(?:[\w.-]{1,64}@[\w.-]{1,64}[^#$%>\n]{0,120}|\+{1,3}|>{1,3}|)\s{0,3}[#$%>+] ?(?=\S)")
_LAUNCH = re.compile(
    r"(?:^|[\s;&|(/'\"])(?:vllm serve\b|[\w./-]{0,120}python[\d.]{0,5} -m vllm\.entrypoints\.[\w.]{1,60}|vllm\.entrypoints\.openai\.api_server\b)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log, without its prefixes."""

    number: int
    """Line in the file, from 1."""
    text: str
    """The message, without colours, its own indentation kept."""
    process: Process
    level: str | None = None
    time: str | None = None
    source: str | None = None
    """`file.py:line` that wrote it, as printed."""
    raw: str = field(default="", repr=False)
    raw_column: int = 1
    """Column of `raw` in the file."""
    text_start: int = 0
    """Where `text` begins in `raw` without its colours."""
    region: int = 0
    """Counts the stretches of log in a page; 0 throughout in a log."""

    @property
    def has_header(self) -> bool:
        """Whether a logger wrote it."""
        return self.level is not None

    def column(self, offset: int = 0) -> int:
        """Column in the file of the character at `offset` of `text`, counted from 1, colours included."""
        wanted = self.text_start + offset
        if "\x1b" not in self.raw:
            return self.raw_column + wanted
        position, clean = 0, 0
        for match in _ESCAPE.finditer(self.raw):
            if clean + match.start() - position > wanted:
                break
            clean += match.start() - position
            position = match.end()
        return self.raw_column + position + wanted - clean


def clean(text: str) -> str:
    """The text without terminal escapes and control characters."""
    return _CONTROL.sub("", _ESCAPE.sub("", text))


def is_exception(text: str) -> re.Match[str] | None:
    """Match of an exception's own line, `Type: message`, with groups `type` and `message`."""
    return _EXCEPTION.match(text)


def is_traceback(text: str) -> bool:
    """Whether a line opens a traceback."""
    return _TRACEBACK.match(text) is not None


def frame(text: str) -> re.Match[str] | None:
    """Match of a traceback's frame, with groups `path`, `line` and `function`."""
    return _FRAME.match(text)


def shown_command(text: str) -> str | None:
    """The vLLM command that a line shows after a shell's prompt, or None."""
    prompt = _PROMPT.match(text)
    if prompt and _LAUNCH.search(text):
        return text[prompt.end() :].strip()
    return None


def is_page(name: str, text: str) -> bool:
    """Whether a text is a page around a log (Markdown, HTML) rather than a log."""
    if PurePath(name).suffix.lower() in _PAGE_SUFFIXES:
        return True
    marks = 0
    for line in text[:200_000].splitlines()[:2000]:
        if _PAGE_MARK.match(line):
            marks += 2 if _FENCE.match(line) else 1
        if marks >= 4:
            return True
    return False


def _chunks(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (line number, column, text): cut at line ends, carriage returns and MAX_LINE."""
    position, number, end = 0, 1, len(text)
    while position < end:
        newline = text.find("\n", position)
        stop = newline if newline >= 0 else end
        line = text[position:stop]
        column = 1
        for part in line.rstrip("\r").split("\r") if "\r" in line else (line,):
            for cut in range(0, len(part) or 1, MAX_LINE):
                yield number, column + cut, part[cut : cut + MAX_LINE]
            column += len(part) + 1
        position, number = stop + 1, number + 1


def _pieces(number: int, column: int, chunk: str) -> Iterator[tuple[int, int, str]]:
    """Yield a chunk cut where a further log header stands inside it."""
    cuts = [0]
    for match in _GLUED.finditer(chunk):
        start = match.start()
        before = chunk[cuts[-1] : start]
        if start and clean(before).strip() and not _only_prefix(before):
            cuts.append(start)
    if len(cuts) == 1:
        yield number, column, chunk
        return
    for start, stop in zip(cuts, [*cuts[1:], len(chunk)], strict=True):
        yield number, column + start, chunk[start:stop]


def _only_prefix(text: str) -> bool:
    return not _strip(clean(text))[0].strip()


def _strip(text: str) -> tuple[str, dict[str, str]]:
    """The text behind its prefixes, and what they say."""
    said: dict[str, str] = {}
    position = 0
    for _ in range(6):
        for index, prefix in enumerate(_PREFIXES):
            match = prefix.match(text, position)
            if not match:
                continue
            if index in _WHOLE_HEADER and "level" in said:
                continue
            position = match.end()
            said.update({key: value for key, value in match.groupdict().items() if value})
            break
        else:
            break
    return text[position:], said


def _line(number: int, column: int, chunk: str, region: int, known: dict[tuple[str | None, ...], Process]) -> LogLine:
    text = clean(chunk)
    message, said = _strip(text)
    key = (said.get("name"), said.get("pid"), said.get("ip"), said.get("rank"))
    process = known.get(key)
    if process is None:
        rank = said.get("rank")
        pid = said.get("pid")
        process = Process(key[0], int(pid) if pid else None, key[2], int(rank) if rank else None)
        known[key] = process
    return LogLine(
        number, message.rstrip(), process, said.get("level"), said.get("time"), said.get("source"),
        chunk, column, len(text) - len(message), region,
    )  # fmt: skip


def _is_anchor(line: LogLine) -> bool:
    """Whether a line of a page can only come from a log."""
    return (
        (line.has_header and (line.time is not None or line.process.pid is not None or line.text.endswith(".")))
        or line.process.pid is not None
        or line.process.rank is not None
        or is_traceback(line.text)
        or frame(line.text) is not None
        or (is_exception(line.text) is not None and ": " in line.text)
        or _PROGRESS.match(line.text) is not None
        or shown_command(line.text) is not None
    )


_PAGE_GAP = 3
"""Lines without a log's marks that a stretch of log in a page may hold (a traceback's code, a wrapped message)."""


def _only_log(lines: list[LogLine]) -> Iterator[LogLine]:
    """Of a page's lines those that belong to a log, numbered by stretch."""
    region, gap, in_stretch = 0, [], False
    for line in lines:
        if _FENCE.match(line.raw):
            yield from (_moved(kept, region) for kept in gap[:1] if _continues(kept))
            in_stretch, gap = False, []
            continue
        if _is_anchor(line):
            if not in_stretch:
                region, in_stretch, gap = region + 1, True, []
            for kept in (*gap, line):
                yield _moved(kept, region)
            gap = []
        elif in_stretch:
            gap.append(line)
            if len(gap) > _PAGE_GAP:
                yield from (_moved(kept, region) for kept in gap[:1] if _continues(kept))
                in_stretch, gap = False, []
    yield from (_moved(kept, region) for kept in gap[:1] if in_stretch and _continues(kept))


def _continues(line: LogLine) -> bool:
    return bool(line.text.strip()) and not _PAGE_MARK.match(line.raw)


def _moved(line: LogLine, region: int) -> LogLine:
    return LogLine(
        line.number, line.text, line.process, line.level, line.time, line.source,
        line.raw, line.raw_column, line.text_start, region,
    )  # fmt: skip


def read_lines(name: str, text: str) -> Iterator[LogLine]:
    """Yield the log lines of a text; of a page only those that belong to a log."""
    known: dict[tuple[str | None, ...], Process] = {}
    lines = (
        _line(number, column, piece, 0, known)
        for chunk in _chunks(text)
        for number, column, piece in _pieces(*chunk)
    )
    if is_page(name, text):
        yield from _only_log(list(lines))
    else:
        yield from lines
