"""Follow the tracebacks of every process through interleaved lines, with chains and frames."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from vllm_runbooks.core.records import Frame, Process, RaisedException, Traceback
from vllm_runbooks.reading.startup_log import log_lines
from vllm_runbooks.reading.startup_log.log_lines import LogLine

MAX_TRACEBACKS = 200
"""Beyond this number, the first and the last half are kept: the last may have ended the launch."""
_MAX_THREADS = 4096
_MAX_CHAIN = 20
_MAX_FRAMES = 200
_DETAIL_LINES = 8
_MAX_DETAIL = 4096
_LINKS = {
    "The above exception was the direct cause of the following exception:": "cause",
    "During handling of the above exception, another exception occurred:": "context",
}
_IGNORED = (
    "Exception ignored in", "Exception in ASGI application", "Task exception was never retrieved",
    "Future exception was never retrieved", "Exception in callback", "Exception in thread",
)  # fmt: skip
"""Introduces a traceback that ends no process."""
_CALM = ("DEBUG", "INFO", "WARNING")
_TELLING = ("Traceback (", 'File "', "xception", ", in ")
"""Every line that begins, links or excuses a traceback contains one of these."""
_IGNORED_WITHIN = 3
"""Lines after such an introduction in which the traceback begins."""
_REFUSED = re.compile(r"(?:vllm(?: [\w-]{2,20}){0,2}|api_server\.py): error: (?=\S)", re.ASCII)
"""argparse's error, which ends a process without a traceback."""
_UNFINISHED = re.compile(
    r"(?:[:,;(\[{]|\b(?:and|are|as|at|be|by|for|from|has|in|is|not|of|on|or|than|that|the|this|to|with))\Z", re.ASCII
)
"""End of a line that a paste has wrapped: the sentence goes on."""
_REASONS = ("Reason: ", "Reasons: ")
"""Begins the last part of a message of vLLM."""
_WRAPPED_LINES = 2
"""Lines that continue a wrapped sentence, at most; a list of settings or reasons has more."""
_LISTS = re.compile(r"\b\w{1,60}Config\(|\bReasons?: ?[\[{]", re.ASCII)
_QUOTED = re.compile(r"(?<!\w)(['\"`])(?:(?!\1).){0,80}\1(?!\w)", re.ASCII)
_UNRELATED = re.compile(
    r"\A\s{0,3}(?:\([\w.-]{1,60}\) ?)?"
    r"(?:\[?[\w.-]{1,64}@[^#$%>\n]{0,120}[#$%>]|[^\s#$]{0,120}[#$]|[>%+]{1,3})(?:\s|\Z)"
    r"|\b[A-Z]\w{0,60}(?:Error|Exception)\b",
    re.ASCII,
)
"""A shell's prompt, or an exception's name: no rest of a sentence."""
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
_ASIDE = "For further information visit "
"""Follows a message without information."""
_RAISED = re.compile(r"(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Za-z_]\w{0,80})(?::.*)?\Z", re.ASCII | re.DOTALL)
_SAID_IN_CODE = re.compile(
    r"\s{1,80}raise (?P<type>[A-Za-z_][\w.]{2,80})\(\s{0,8}[frb]{0,2}[\"'](?P<words>[^\"'\n]{4,400})", re.ASCII
)
_SHELL_CODE = re.compile(r"\s{0,16}(?:-{1,8}> {0,8})?\d{1,8}(?: |\Z)|\s{0,80}\Z|File \S{1,400}, line \d")
_GROUP = re.compile(r"\s{0,16}(?:[|] {0,2}){1,8}")


def _without_group(text: str) -> str:
    """Text without the frame of an exception group."""
    return _GROUP.sub("", text, count=1) if "|" in text else text


class Message(NamedTuple):
    """An exception's line with the lines that continue its message."""

    line: LogLine
    text: str
    traceback: int
    link: int


@dataclass
class _OpenTraceback:
    logged: bool
    ignored: bool
    level: str | None
    frames: list[Frame] = field(default_factory=list)
    chain: list[RaisedException] = field(default_factory=list)
    link: str | None = None
    index: int | None = None
    expects_exception: bool = True
    after_frame: bool = False
    """Whether the frame's source code follows."""
    code: LogLine | None = None


@dataclass
class _Thread:
    open: _OpenTraceback | None = None
    message: Message | None = None
    lines_left: int = 0
    shown_text: str = ""
    is_shown: bool = False
    """Whether further lines may belong to the shown message."""
    shows_all: bool = False
    """Whether they need no indentation."""
    wrapped_left: int = 0
    """Number of lines that may still continue a wrapped sentence."""
    frames_follow: bool = False
    """Whether the frames follow the message, as in a notebook's error summary."""
    ignores_next: int = 0
    """Lines within which a traceback ends no process."""

    @property
    def is_idle(self) -> bool:
        return self.message is None and not self.ignores_next and not (self.open and self.open.expects_exception)


class Tracebacks:
    def __init__(self, file: int) -> None:
        self._file = file
        self._threads: dict[Process, _Thread] = {}
        self._kept: dict[int, tuple[Process, _OpenTraceback]] = {}
        self._count = 0
        self._cut: tuple[_Thread, int] | None = None
        """Process whose exception may continue in the next row, and the number of the last row."""

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def has_ended_one(self) -> bool:
        """Whether the interpreter printed the last traceback, which ends a process."""
        last = next(reversed(self._kept.values()), None)
        return last is not None and not (last[1].logged or last[1].ignored)

    def chain(self, index: int) -> list[RaisedException]:
        """Exceptions of a traceback so far; empty if it was dropped."""
        return self._kept[index][1].chain if index in self._kept else []

    def positions(self) -> dict[int, int]:
        """Index among the records by number."""
        return {number: position for position, number in enumerate(self._kept)}

    def records(self) -> tuple[Traceback, ...]:
        return tuple(
            Traceback(process, tuple(o.chain), o.logged, o.ignored, is_mild=o.level in _CALM)
            for process, o in self._kept.values()
        )

    def is_code(self, line: LogLine) -> bool:
        """Whether a line is a frame or source code in a traceback: quoted code is no evidence."""
        thread = self._threads.get(line.process)
        opened = thread.open if thread else None
        text = _without_group(line.text)
        if log_lines.frame(text):
            return True
        if opened is None or not opened.expects_exception or opened.logged != line.has_header:
            return False
        return _is_set_in(text) or (opened.after_frame and not _is_own_line(text))

    def follow(self, line: LogLine) -> tuple[bool, Message | None]:
        """Follow a line; return whether it is an exception's line, and the message that it completes, if any."""
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
            text = _without_group(text)
        frame = log_lines.frame(text)
        link = _LINKS.get(text.strip())
        if log_lines.is_traceback(text):
            if opened is None or opened.link is None or len(opened.chain) >= _MAX_CHAIN:
                opened = thread.open = _OpenTraceback(line.has_header, thread.ignores_next > 0, line.level)
            opened.frames, opened.expects_exception, opened.after_frame = [], True, False
            thread.ignores_next = 0
        elif frame:
            if opened is None or not opened.expects_exception:
                opened = thread.open = _OpenTraceback(line.has_header, False, line.level)
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
        self._cut = None
        text = line.text.strip()
        begins = _begins(text) or log_lines.is_exception(text) is not None
        if line.has_prefix or line.number != number + 1 or not text or begins or not thread.message:
            return False
        thread.message = thread.message._replace(text=f"{thread.message.text} {text[:_MAX_DETAIL]}")
        thread.lines_left -= 1
        self._cut = (thread, line.number) if thread.lines_left else None
        return True

    def close(self) -> Iterator[Message]:
        """Yield the unfinished messages; code at the end of a text may contain one."""
        for thread in self._threads.values():
            cut = thread.open
            code = cut.code if cut and cut.expects_exception and cut.frames else None
            words_match = _SAID_IN_CODE.match(code.text) if code else None
            if code and words_match:
                start = code.text_start + words_match.start("words") - len(words_match["type"]) - 2
                words = f"{words_match['type']}: {words_match['words']}"
                self._raise(thread, code._replace(text=words, text_start=start), words)
            if thread.message:
                yield thread.message
                thread.message = None

    def _is_raised(self, thread: _Thread, line: LogLine, text: str) -> bool:
        """Whether a line is an exception's: the end of the open traceback, or a lone one."""
        opened = thread.open
        ends = opened and opened.expects_exception and opened.frames and opened.logged == line.has_header
        if ends and (_is_own_line(text) or (text[:1] == " " and not _is_set_in(text))):
            return True
        if line.has_header and line.level not in ("ERROR", "CRITICAL"):
            return False
        is_refusal = not line.has_header and _REFUSED.match(text) is not None
        if not is_refusal and (log_lines.is_exception(text) is None or ": " not in text):
            return False
        thread.open = _OpenTraceback(line.has_header, thread.ignores_next > 0, line.level)
        return True

    def _raise(self, thread: _Thread, line: LogLine, text: str) -> None:
        opened = thread.open
        assert opened is not None  # noqa: S101 - `_is_raised` opened it
        if text[:1] == " ":
            line, text = line._replace(text=line.text[1:], text_start=line.text_start + 1), text[1:]
        quote = log_lines.quote(self._file, line)
        kind, message = self._kind_and_message(line, text)
        link = opened.link if opened.chain else None
        opened.chain.append(RaisedException(kind, message, quote, tuple(opened.frames), link))
        opened.frames, opened.link, opened.expects_exception, opened.after_frame = [], None, False, False
        if opened.index is None:
            opened.index = self._count
            self._count += 1
            self._kept[opened.index] = line.process, opened
            if len(self._kept) > MAX_TRACEBACKS:
                del self._kept[next(islice(self._kept, MAX_TRACEBACKS // 2, None))]
        thread.message = Message(line, line.text, opened.index, len(opened.chain) - 1)
        thread.lines_left, thread.shown_text, thread.is_shown = _DETAIL_LINES, text.strip(), True
        thread.shows_all, thread.frames_follow, thread.wrapped_left = False, False, _WRAPPED_LINES
        self._cut = (thread, line.number) if line.has_prefix else None

    def _kind_and_message(self, line: LogLine, text: str) -> tuple[str, str]:
        """Type and message of an exception; argparse exits by SystemExit."""
        refusal = _REFUSED.match(text)
        kind, _, message = ("SystemExit", "", text[refusal.end() :]) if refusal else text.strip().partition(": ")
        return kind.rstrip(":"), log_lines.quote(self._file, line._replace(text=message), most=_MAX_DETAIL).text

    def _continue(self, thread: _Thread, message: Message, line: LogLine) -> bool:
        text = line.text.strip()
        is_apart = line.has_header != message.line.has_header or line.source != message.line.source
        if thread.lines_left == 0 or not text or is_apart or _begins(text):
            return False
        is_another = log_lines.is_exception(text) is not None
        if is_another and not thread.shown_text.endswith(" raised:"):
            return False
        self._show(thread, message, line)
        if is_another:
            return False
        thread.lines_left -= 1
        thread.message = message._replace(text=f"{message.text} {text[:_MAX_DETAIL]}")
        return True

    def _adds_frame(self, thread: _Thread, message: Message, line: LogLine) -> bool:
        """Append a frame, or its code, that follows its exception."""
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
        """Append an indented line to the message, any line after a colon, and the rest of a wrapped sentence."""
        thread.shows_all |= thread.shown_text.endswith(":")
        goes_on = thread.shows_all or line.text.startswith((" ", "\t", *_REASONS))
        if not goes_on and thread.wrapped_left and not _UNRELATED.search(line.text, 0, _MAX_DETAIL):
            goes_on = _is_unfinished(thread.shown_text)
            thread.wrapped_left -= _LISTS.search(thread.shown_text) is None
        thread.is_shown = thread.is_shown and goes_on
        text, chain = line.text.strip(), self.chain(message.traceback)
        if not thread.is_shown or not chain or text.startswith(_ASIDE):
            return
        thread.shown_text = f"{thread.shown_text} {text}"[:_MAX_DETAIL]
        whole = message.line._replace(text=thread.shown_text)
        words = self._kind_and_message(whole, thread.shown_text)[1]
        chain[message.link] = replace(chain[message.link], message=words, quote=log_lines.quote(self._file, whole))


def _frame(match: re.Match[str]) -> Frame:
    """Build a frame; IPython qualifies methods, and old releases omit the line."""
    groups = match.groupdict()
    return Frame(groups["path"], int(groups["line"] or 0), groups["function"].strip().rpartition(".")[2])


def _begins(text: str) -> bool:
    return text in _LINKS or log_lines.is_traceback(text) or log_lines.frame(text) is not None


def _is_unfinished(text: str) -> bool:
    """Whether a sentence goes on after its last line: an open bracket, or a word that needs another."""
    text = _QUOTED.sub("''", text)
    return _UNFINISHED.search(text) is not None or any(text.count(a) > text.count(b) for a, b in _BRACKETS)


def _is_set_in(text: str) -> bool:
    """Whether a line is indented like code; a paste may indent an exception by one blank."""
    return text[:1] in (" ", "\t") and (text[1:2] in (" ", "\t") or log_lines.is_exception(text[1:]) is None)


def _is_own_line(text: str) -> bool:
    match = _RAISED.match(text)
    return match is not None and not keyword.iskeyword(match["type"])
