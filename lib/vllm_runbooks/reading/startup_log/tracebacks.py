"""Follow the tracebacks of every process through interleaved lines, each with its chain and its frames."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from vllm_runbooks.core.records import Frame, Process, Raised, Traceback
from vllm_runbooks.reading.startup_log import log_lines
from vllm_runbooks.reading.startup_log.log_lines import LogLine

MAX_TRACEBACKS = 200
"""Of more tracebacks of one start the first and the last half are kept: the last one may be what ended it."""
_MAX_THREADS = 4096
"""Processes whose tracebacks are followed at a time."""
_MAX_CHAIN = 20
_MAX_FRAMES = 200
_DETAIL_LINES = 8
"""Lines behind an exception's own line that may continue its message."""
_MAX_DETAIL = 4096
_LINKS = {
    "The above exception was the direct cause of the following exception:": "cause",
    "During handling of the above exception, another exception occurred:": "context",
}
_IGNORED = (
    "Exception ignored in", "Exception in ASGI application", "Task exception was never retrieved",
    "Future exception was never retrieved", "Exception in callback", "Exception in thread",
)  # fmt: skip
"""What introduces a traceback that ends no process."""
_CALM = ("DEBUG", "INFO", "WARNING")
"""Levels at which no process ends."""
_TELLING = ("Traceback (", 'File "', "xception", ", in ")
"""One of these words is in each line that begins or links a traceback, or says that one is to be ignored."""
_IGNORED_WITHIN = 3
"""Lines of its process behind such an introduction within which the traceback begins."""
_REFUSED = re.compile(r"(?:vllm(?: [\w-]{2,20}){0,2}|api_server\.py): error: (?=\S)", re.ASCII)
"""What argparse prints in place of a traceback when it ends a process."""
_ASIDE = "For further information visit "
"""What follows a message and says nothing about the fault."""
_RAISED = re.compile(r"(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Za-z_]\w{0,80})(?::.*)?\Z", re.ASCII | re.DOTALL)
_SAID_IN_CODE = re.compile(
    r"\s{1,80}raise (?P<type>[A-Za-z_][\w.]{2,80})\(\s{0,8}[frb]{0,2}[\"'](?P<words>[^\"'\n]{4,400})", re.ASCII
)
"""Source code that raises an exception with words in it."""
_SHELL_CODE = re.compile(r"\s{0,16}(?:-{1,8}> {0,8})?\d{1,8}(?: |\Z)|\s{0,80}\Z|File \S{1,400}, line \d")
"""Code around a frame as IPython shows it."""
_GROUP = re.compile(r"\s{0,16}(?:[|] {0,2}){1,8}")
"""What stands in front of the lines of an exception group."""


class Message(NamedTuple):
    """An exception's own line with the lines that continue its message."""

    line: LogLine
    text: str
    traceback: int
    """Number of its traceback."""
    link: int
    """Index into that traceback's chain."""


@dataclass
class _Open:
    logged: bool
    ignored: bool
    level: str | None
    """Log level of its first line."""
    frames: list[Frame] = field(default_factory=list)
    chain: list[Raised] = field(default_factory=list)
    link: str | None = None
    index: int | None = None
    """Index among the tracebacks once an exception's line was read."""
    expects_exception: bool = True
    after_frame: bool = False
    """Whether the next line is the frame's source code."""
    code: LogLine | None = None
    """The last line of source code."""


@dataclass
class _Thread:
    """What one process has printed and not finished."""

    open: _Open | None = None
    message: Message | None = None
    lines_left: int = 0
    shown: str = ""
    """The message as it is shown."""
    is_shown: bool = False
    """Whether further lines may belong to what is shown."""
    shows_all: bool = False
    """Whether they need not be indented."""
    frames_follow: bool = False
    """Whether the frames of the message stand behind it, as a notebook's summary of an error has them."""
    ignores_next: int = 0
    """Lines within which a traceback that begins ends no process."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way that a line could continue."""
        return self.message is None and not self.ignores_next and not (self.open and self.open.expects_exception)


class Tracebacks:
    """The tracebacks of one start, as far as its lines were read."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._threads: dict[Process, _Thread] = {}
        self._kept: dict[int, tuple[Process, _Open]] = {}
        """By number."""
        self._count = 0
        self._cut: tuple[_Thread, int] | None = None
        """The process whose exception's line may go on in the next row, and the number of the last one."""

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def has_ended_one(self) -> bool:
        """Whether the last traceback is one that the interpreter prints when it ends a process."""
        last = next(reversed(self._kept.values()), None)
        return last is not None and not (last[1].logged or last[1].ignored)

    def chain(self, index: int) -> list[Raised]:
        """The chain of a traceback so far; empty when it was not kept."""
        return self._kept[index][1].chain if index in self._kept else []

    def positions(self) -> dict[int, int]:
        """Where each traceback that was kept stands among the records, by its number."""
        return {number: position for position, number in enumerate(self._kept)}

    def is_mild(self, index: int) -> bool:
        """Whether a logger printed the traceback at a position below ERROR: its process expected it."""
        return list(self._kept.values())[index][1].level in _CALM

    def records(self) -> tuple[Traceback, ...]:
        """Every traceback in the order of the first exception's line."""
        return tuple(Traceback(process, tuple(o.chain), o.logged, o.ignored) for process, o in self._kept.values())

    def is_code(self, line: LogLine) -> bool:
        """Whether a line is a frame or source code inside a traceback: quoted code says nothing about this run."""
        thread = self._threads.get(line.process)
        opened = thread.open if thread else None
        is_within = opened is not None and opened.expects_exception and opened.logged == line.has_header
        if not is_within and log_lines.frame(_GROUP.sub("", line.text, count=1)) is None:
            return False
        text = _GROUP.sub("", line.text, count=1)
        if log_lines.frame(text):
            return True
        if opened is None or not is_within:
            return False
        return _is_set_in(text) or (opened.after_frame and not _is_own_line(text))

    def follow(self, line: LogLine) -> tuple[bool, Message | None]:
        """Take a line.

        Returns:
            Whether it is an exception's own line, whose meaning comes with its whole message; and the message, if any,
            that this line has shown to be complete.
        """
        thread = self._threads.get(line.process)
        if self._cut is not None and self._takes_rest(*self._cut, line):
            return False, None
        if line.level in _CALM and (thread is None or thread.is_idle) and not any([w in line.text for w in _TELLING]):
            return False, None
        if thread is None:
            if len(self._threads) >= _MAX_THREADS:
                del self._threads[next(iter(self._threads))]
            thread = self._threads[line.process] = _Thread()
        complete = None
        if thread.message and self._adds_frame(thread, thread.message, line):
            return False, None
        if thread.message and not self._continue(thread, thread.message, line):
            complete, thread.message = thread.message, None
        text = line.text
        opened = thread.open
        if opened and opened.expects_exception and not line.has_header:
            text = _GROUP.sub("", text, count=1)
        frame = log_lines.frame(text)
        link = _LINKS.get(text.strip())
        if log_lines.is_traceback(text):
            if opened is None or opened.link is None or len(opened.chain) >= _MAX_CHAIN:
                opened = thread.open = _Open(line.has_header, thread.ignores_next > 0, line.level)
            opened.frames, opened.expects_exception, opened.after_frame = [], True, False
            thread.ignores_next = 0
        elif frame:
            if opened is None or not opened.expects_exception:
                opened = thread.open = _Open(line.has_header, False, line.level)
            if len(opened.frames) >= _MAX_FRAMES:
                opened.frames.pop(_MAX_FRAMES // 2)
            opened.frames.append(_frame(frame))
            opened.after_frame = True
        elif link:
            if opened:
                opened.link = link
        elif self._is_raised(thread, line, text):
            self._raise(thread, line, text)
            return True, complete
        elif opened and opened.logged == line.has_header:
            opened.after_frame = False
            opened.code = line
        thread.ignores_next = _IGNORED_WITHIN if text.startswith(_IGNORED) else max(thread.ignores_next - 1, 0)
        return False, complete

    def _takes_rest(self, thread: _Thread, number: int, line: LogLine) -> bool:
        """Take a row without any prefix behind an exception that has one: a terminal or a paste has wrapped it."""
        self._cut = None
        text = line.text.strip()
        begins = log_lines.is_traceback(text) or log_lines.frame(text) or log_lines.is_exception(text) or text in _LINKS
        if line.has_prefix or line.number != number + 1 or not text or begins or not thread.message:
            return False
        thread.message = thread.message._replace(text=f"{thread.message.text} {text[:_MAX_DETAIL]}")
        thread.lines_left -= 1
        self._cut = (thread, line.number) if thread.lines_left else None
        return True

    def close(self) -> Iterator[Message]:
        """Yield the messages that nothing follows; the code that a text ends in may hold the words of one."""
        for thread in self._threads.values():
            cut = thread.open
            code = cut.code if cut and cut.expects_exception and cut.frames else None
            said = _SAID_IN_CODE.match(code.text) if code else None
            if code and said:
                start = code.text_start + said.start("words") - len(said["type"]) - 2
                words = f"{said['type']}: {said['words']}"
                self._raise(thread, code._replace(text=words, text_start=start), words)
            if thread.message:
                yield thread.message
                thread.message = None

    def _is_raised(self, thread: _Thread, line: LogLine, text: str) -> bool:
        """Whether a line is an exception's own: the end of the open traceback, or one that stands alone."""
        opened = thread.open
        ends = opened and opened.expects_exception and opened.frames and opened.logged == line.has_header
        if ends and (_is_own_line(text) or (text[:1] == " " and not _is_set_in(text))):
            return True
        if line.has_header and line.level not in ("ERROR", "CRITICAL"):
            return False
        is_refusal = not line.has_header and _REFUSED.match(text) is not None
        if not is_refusal and (log_lines.is_exception(text) is None or ": " not in text):
            return False
        thread.open = _Open(line.has_header, thread.ignores_next > 0, line.level)
        return True

    def _raise(self, thread: _Thread, line: LogLine, text: str) -> None:
        opened = thread.open
        assert opened is not None  # noqa: S101 - `_is_raised` opened it
        if text[:1] == " ":
            line, text = line._replace(text=line.text[1:], text_start=line.text_start + 1), text[1:]
        quote = log_lines.quote(self._file, line)
        kind, message = self._told(line, text)
        opened.chain.append(Raised(kind, message, quote, tuple(opened.frames), opened.link if opened.chain else None))
        opened.frames, opened.link, opened.expects_exception, opened.after_frame = [], None, False, False
        if opened.index is None:
            opened.index = self._count
            self._count += 1
            self._kept[opened.index] = line.process, opened
            if len(self._kept) > MAX_TRACEBACKS:
                del self._kept[next(islice(self._kept, MAX_TRACEBACKS // 2, None))]
        thread.message = Message(line, line.text, opened.index, len(opened.chain) - 1)
        thread.lines_left, thread.shown, thread.is_shown = _DETAIL_LINES, text.strip(), True
        thread.shows_all, thread.frames_follow = False, False
        self._cut = (thread, line.number) if line.has_prefix else None

    def _told(self, line: LogLine, text: str) -> tuple[str, str]:
        """Type and message of an exception's text; argparse leaves by SystemExit."""
        refusal = _REFUSED.match(text)
        kind, _, message = ("SystemExit", "", text[refusal.end() :]) if refusal else text.strip().partition(": ")
        return kind.rstrip(":"), log_lines.quote(self._file, line._replace(text=message)).text

    def _continue(self, thread: _Thread, message: Message, line: LogLine) -> bool:
        text = line.text.strip()
        if (
            thread.lines_left == 0
            or not text
            or line.has_header != message.line.has_header
            or line.source != message.line.source
            or text in _LINKS
            or log_lines.is_traceback(text)
            or log_lines.frame(text)
        ):
            return False
        is_another = log_lines.is_exception(text) is not None
        if is_another and not thread.shown.endswith(" raised:"):
            return False
        self._show(thread, message, line)
        if is_another:
            return False
        thread.lines_left -= 1
        thread.message = message._replace(text=f"{message.text} {text[:_MAX_DETAIL]}")
        return True

    def _adds_frame(self, thread: _Thread, message: Message, line: LogLine) -> bool:
        """Take a frame, or the code in one, that stands behind the exception which it led to."""
        chain = self.chain(message.traceback)
        if line.has_header or not chain or (chain[message.link].frames and not thread.frames_follow):
            return False
        match = None if 'File "' in line.text else log_lines.frame(line.text)
        if match is None:
            return thread.frames_follow and _SHELL_CODE.match(line.text) is not None
        raised = chain[message.link]
        if len(raised.frames) < _MAX_FRAMES:
            chain[message.link] = replace(raised, frames=(*raised.frames, _frame(match)))
        thread.frames_follow = True
        return True

    def _show(self, thread: _Thread, message: Message, line: LogLine) -> None:
        """Show a further line with its exception: indented lines, and any behind a message that ends in a colon."""
        thread.shows_all |= thread.shown.endswith(":")
        thread.is_shown = thread.is_shown and (thread.shows_all or line.text[:1] in (" ", "\t"))
        text, chain = line.text.strip(), self.chain(message.traceback)
        if not thread.is_shown or not chain or text.startswith(_ASIDE):
            return
        thread.shown = f"{thread.shown} {text}"[:_MAX_DETAIL]
        whole = message.line._replace(text=thread.shown)
        told = self._told(whole, thread.shown)[1]
        chain[message.link] = replace(chain[message.link], message=told, quote=log_lines.quote(self._file, whole))


def _frame(match: re.Match[str]) -> Frame:
    """A frame as it is printed; IPython names a method with its class, and in old releases no line."""
    said = match.groupdict()
    return Frame(said["path"], int(said["line"] or 0), said["function"].strip().rpartition(".")[2])


def _is_set_in(text: str) -> bool:
    """Whether a line is indented as code is; a paste may leave a blank in front of an exception."""
    return text[:1] in (" ", "\t") and (text[1:2] in (" ", "\t") or log_lines.is_exception(text[1:]) is None)


def _is_own_line(text: str) -> bool:
    match = _RAISED.match(text)
    return match is not None and not keyword.iskeyword(match["type"])
