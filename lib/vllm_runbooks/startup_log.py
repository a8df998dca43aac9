"""Log lines to one record per start of vLLM: release, arguments, phases, figures, tracebacks, outcome, matched symptoms."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from vllm_runbooks import log_lines
from vllm_runbooks.catalog import Catalog
from vllm_runbooks.log_lines import LogLine
from vllm_runbooks.records import (
    Evidence,
    Facts,
    Frame,
    Hit,
    LineFormat,
    Outcome,
    Phase,
    Process,
    Quote,
    Raised,
    RankFacts,
    Reading,
    Release,
    Signature,
    Start,
    Throughput,
    Traceback,
    Warned,
)
from vllm_runbooks.redact import redact_text
from vllm_runbooks.scan import Found

QUOTE = 400
"""Longest quotation of the input, in characters."""
PHASES = ("configure", "engine", "load", "encoder", "compile", "profile", "kv_cache", "capture", "warm_up", "serve")
"""Phases in the order in which a start passes through them; processes that lag behind do not turn it back."""

_UNITS = {"gib": "GiB", "tokens": "tokens", "blocks": "blocks", "seconds": "s", "s": "tokens/s", "percent": "%"}
_ALSO_FIGURES = {"max_concurrency": "x", "gpu_memory_utilization": "", "max_model_len": "tokens"}
_LINKS = {
    "The above exception was the direct cause of the following exception:": "cause",
    "During handling of the above exception, another exception occurred:": "context",
}
_IGNORED = (
    "Exception ignored in", "Exception in ASGI application", "Task exception was never retrieved",
    "Future exception was never retrieved", "Exception in callback", "Exception in thread",
)  # fmt: skip
_ANY_RAISED = re.compile(r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Za-z_]\w{0,80}(?::.*)?\Z", re.ASCII | re.DOTALL)
_RANK_NAME = re.compile(r"_TP(\d{1,5})", re.ASCII)
_MAX_WARNINGS = 60
_MAX_TRACEBACKS = 200
_MAX_HITS = 2000
_DETAIL_LINES = 4
"""Lines behind an exception's own line that may continue its message."""


def read(evidence: Evidence, catalog: Catalog) -> list[Start]:
    """Read every start in the documents, in order; a text without any sign of vLLM gives none."""
    starts: list[Start] = []
    for index, document in enumerate(evidence.documents):
        reader = _Reader(index, catalog)
        for line in log_lines.read_lines(document.name, document.text):
            reader.take(line)
        starts += reader.finish(evidence.vllm)
    return starts


@dataclass
class _OpenTraceback:
    logged: bool
    ignored: bool
    frames: list[Frame] = field(default_factory=list)
    chain: list[Raised] = field(default_factory=list)
    link: str | None = None
    index: int | None = None
    """Index among the draft's tracebacks once an exception's line was read."""
    expects_exception: bool = True


@dataclass
class _Pending:
    """An exception's own line that waits for the rest of its message."""

    line: LogLine
    text: str
    traceback: int
    link: int
    left: int = _DETAIL_LINES


@dataclass
class _Draft:
    """A start while it is read."""

    file: int
    first_line: int
    last_line: int = 0
    region: int = 0
    command: str | None = None
    version: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    processes: dict[Process, None] = field(default_factory=dict)
    ranks: dict[Process, int] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    throughput: list[Throughput] = field(default_factory=list)
    warnings: dict[str, list[Any]] = field(default_factory=dict)
    tracebacks: list[tuple[Process, _OpenTraceback]] = field(default_factory=list)
    open: dict[Process, _OpenTraceback] = field(default_factory=dict)
    pending: dict[Process, _Pending] = field(default_factory=dict)
    ignore_next: set[Process] = field(default_factory=set)
    hits: list[Hit] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Line formats met."""
    events: list[tuple[str, Quote, Process]] = field(default_factory=list)
    progress: dict[int, int] = field(default_factory=dict)
    last_time: str | None = None
    first_moment: float | None = None
    last_moment: float | None = None
    ready_moment: float | None = None
    """Time of the last dated line before ready: the line that says ready carries none."""
    is_vllm: bool = False

    @property
    def phase(self) -> str | None:
        return self.phases[-1].name if self.phases else None

    def has(self, *events: str) -> bool:
        return any(event in events for event, _, _ in self.events)

    @property
    def has_advanced(self) -> bool:
        """Whether it got beyond its arguments, or ended."""
        return self.has("engine", "failed", "ready", "engine_ready", "stopping") or self.phase not in (None, "configure")

    @property
    def has_ended(self) -> bool:
        return self.has("failed", "ready", "served", "wrapper_ready", "stopping") or bool(self.tracebacks)


class _Reader:
    """Takes the lines of one file, one after the other."""

    def __init__(self, file: int, catalog: Catalog) -> None:
        self.file = file
        self.catalog = catalog
        self.drafts: list[_Draft] = []
        self.draft: _Draft | None = None
        self.command: tuple[int, str] | None = None
        self.command_is_open = False

    def take(self, line: LogLine) -> None:
        if self._takes_command(line):
            return
        text = line.text
        found = [] if self._is_code(line) else list(self.catalog.patterns.find(text))
        formats = [self.catalog.lines[m[2]] for f in found if (m := self.catalog.meaning(f.pattern))[0] == "line"]
        draft = self._draft_for(line, formats)
        draft.last_line = line.number
        if line.process not in draft.processes:
            draft.processes[line.process] = None
        self._note_time(draft, line)
        is_detail = self._follow_traceback(draft, line)
        for match in found:
            kind, name, index = self.catalog.meaning(match.pattern)
            if kind == "line":
                self._take_format(draft, line, self.catalog.lines[index], match)
            elif not is_detail:
                self._take_hit(draft, line, kind, name, index, match)
        self._note_warning(draft, line)

    def _is_code(self, line: LogLine) -> bool:
        """Whether a line is a frame or source code inside a traceback: quoted code says nothing about this run."""
        if log_lines.frame(line.text):
            return True
        opened = self.draft.open.get(line.process) if self.draft else None
        return bool(
            opened and opened.expects_exception and line.text[:1] in (" ", "\t") and opened.logged == line.has_header
        )

    def _takes_command(self, line: LogLine) -> bool:
        """Keep a command shown at a prompt, with its continuation lines, for the start that follows it."""
        if self.command and self.command_is_open and not line.has_header:
            number, command = self.command
            self.command = (number, f"{command[:-1].rstrip()} {line.text.strip()}")
            self.command_is_open = line.text.rstrip().endswith("\\")
            return True
        command = None if line.has_header or line.process.name else log_lines.shown_command(line.text)
        if command is None:
            return False
        self.command = (line.number, command)
        self.command_is_open = command.endswith("\\")
        return True

    def _draft_for(self, line: LogLine, formats: list[LineFormat]) -> _Draft:
        """The start that a line belongs to: the current one, or a new one."""
        draft = self.draft
        if draft is None or self._begins_anew(draft, line, formats):
            self._close()
            draft = self.draft = _Draft(self.file, line.number, region=line.region)
            self.drafts.append(draft)
            if self.command:
                number, draft.command = self.command
                if line.number - number <= draft.command.count(" --") + 3:
                    draft.first_line = number
                self.command = None
        draft.region = line.region
        return draft

    def _begins_anew(self, draft: _Draft, line: LogLine, formats: list[LineFormat]) -> bool:
        process = line.process
        if process.name == "APIServer" and process not in draft.processes and draft.is_vllm:
            return any(p.name == "APIServer" for p in draft.processes)
        if self.command and draft.is_vllm:
            return True
        if line.region != draft.region and draft.has_ended and process.pid not in {p.pid for p in draft.processes if p.pid}:
            return True
        for line_format in formats:
            if line_format.event == "begin" and (draft.has_advanced or line_format.id in draft.seen):
                return draft.has_advanced or process.pid is None or process not in draft.processes
            if line_format.event == "engine" and process not in draft.processes:
                return draft.has("failed", "engine_ready") and not draft.has("begin") and bool(draft.config)
        return False

    def _quote(self, line: LogLine, offset: int = 0, text: str | None = None) -> Quote:
        shown = redact_text(line.text.strip() if text is None else text)
        return Quote(self.file, line.number, line.column(offset), shown[:QUOTE])

    def _note_time(self, draft: _Draft, line: LogLine) -> None:
        moment = _moment(line.time)
        if moment is not None:
            draft.first_moment = moment if draft.first_moment is None else draft.first_moment
            draft.last_time, draft.last_moment = line.time, moment

    def _follow_traceback(self, draft: _Draft, line: LogLine) -> bool:
        """Follow the process's traceback; True when the line is an exception's own, whose hits come with its whole message."""
        process, text = line.process, line.text
        pending = draft.pending.get(process)
        if pending and not self._continue_message(draft, pending, line):
            self._settle(draft, pending)
            del draft.pending[process]
        opened = draft.open.get(process)
        if log_lines.is_traceback(text):
            if opened is None or opened.link is None:
                opened = _OpenTraceback(line.has_header, process in draft.ignore_next)
                draft.open[process] = opened
            opened.frames, opened.expects_exception = [], True
            draft.ignore_next.discard(process)
            return False
        frame = log_lines.frame(text)
        if frame:
            if opened is None:
                opened = draft.open[process] = _OpenTraceback(line.has_header, ignored=False)
            opened.expects_exception = True
            opened.frames.append(Frame(frame["path"], int(frame["line"]), frame["function"].strip()))
            return False
        link = _LINKS.get(text.strip())
        if link and opened:
            opened.link = link
            return False
        if any(text.startswith(mark) for mark in _IGNORED):
            draft.ignore_next.add(process)
        is_own_line = (
            opened is not None
            and opened.expects_exception
            and bool(opened.frames)
            and opened.logged == line.has_header
            and _ANY_RAISED.match(text) is not None
        )
        if not is_own_line and (line.has_header and line.level not in ("ERROR", "CRITICAL")):
            return False
        if not is_own_line and (log_lines.is_exception(text) is None or ": " not in text):
            return False
        if not is_own_line or opened is None:
            opened = draft.open[process] = _OpenTraceback(line.has_header, process in draft.ignore_next)
        self._take_exception(draft, line, opened)
        return True

    def _take_exception(self, draft: _Draft, line: LogLine, opened: _OpenTraceback) -> None:
        kind, _, message = line.text.strip().partition(": ")
        raised = Raised(
            kind.rstrip(":"), redact_text(message)[:QUOTE], self._quote(line), tuple(opened.frames),
            opened.link if opened.chain else None,
        )  # fmt: skip
        opened.chain.append(raised)
        opened.frames, opened.link, opened.expects_exception = [], None, False
        if opened.index is None:
            opened.index = min(len(draft.tracebacks), _MAX_TRACEBACKS)
            if opened.index < _MAX_TRACEBACKS:
                draft.tracebacks.append((line.process, opened))
        draft.pending[line.process] = _Pending(line, line.text, opened.index, len(opened.chain) - 1)

    def _continue_message(self, draft: _Draft, pending: _Pending, line: LogLine) -> bool:
        text = line.text.strip()
        if (
            pending.left == 0
            or not text
            or line.has_header != pending.line.has_header
            or line.source != pending.line.source
            or text in _LINKS
            or log_lines.is_traceback(text)
            or log_lines.frame(text)
            or log_lines.is_exception(text)
        ):
            return False
        pending.left -= 1
        pending.text += f" {text}"
        draft.last_line = line.number
        return True

    def _settle(self, draft: _Draft, pending: _Pending) -> None:
        """Match the symptoms on an exception's whole message."""
        own = len(pending.line.text)
        for match in self.catalog.patterns.find(pending.text):
            kind, name, index = self.catalog.meaning(match.pattern)
            if kind != "line" and match.start <= own:
                self._take_hit(draft, pending.line, kind, name, index, match, pending)

    def _take_hit(
        self,
        draft: _Draft,
        line: LogLine,
        kind: str,
        symptom: str,
        index: int,
        match: Found,
        pending: _Pending | None = None,
    ) -> None:
        definition = self.catalog.symptoms[symptom]
        signature = (definition.signatures if kind == "signature" else definition.companions)[index]
        if signature.exception and pending is None:
            return
        if signature.phases and draft.phase not in signature.phases:
            return
        depth, captured = -1 if signature.phases else -2, dict[str, str]()
        if signature.frames:
            if pending is None or pending.traceback >= len(draft.tracebacks):
                return
            place = _deepest(draft.tracebacks[pending.traceback][1].chain, signature)
            if place is None:
                return
            depth, captured = place
        if len(draft.hits) >= _MAX_HITS:
            return
        captures = {name: redact_text(value) for name, value in {**captured, **match.groups}.items()}
        draft.hits.append(
            Hit(
                symptom, index if kind == "signature" else -1 - index, self._quote(line, match.start), captures,
                line.process, draft.phase, pending.traceback if pending else None, pending.link if pending else 0,
                depth, line.level,
            )
        )  # fmt: skip

    def _take_format(self, draft: _Draft, line: LogLine, known: LineFormat, match: Found) -> None:
        quote = self._quote(line, match.start)
        draft.is_vllm = True
        draft.seen.add(known.id)
        figures = {}
        for name, printed in match.groups.items():
            unit = _unit(name)
            if unit is None:
                draft.words.setdefault(name, printed)
                continue
            value = _number(printed)
            if value is not None:
                figures[name] = value
        if "version" in match.groups:
            draft.version = draft.version or match.groups["version"].rstrip(".,")
        if "global_rank" in match.groups:
            draft.ranks.setdefault(line.process, int(match.groups["global_rank"]))
        if "generation_tokens_per_s" in figures:
            self._take_throughput(draft, line, figures, match.groups)
        else:
            draft.readings += [
                Reading(name, value, _unit(name) or "", None, line.process, quote) for name, value in figures.items()
            ]
        if known.arguments and not draft.arguments:
            draft.arguments = _key_values(line.text[match.end - 1 :])
        if known.config:
            draft.config = {**_key_values("{" + line.text[match.end :]), **draft.config}
        if known.phase:
            self._take_phase(draft, line, known, figures, quote)
        if known.event and not (known.event == "wrapper_ready" and not draft.has("kv")):
            draft.events.append((known.event, quote, line.process))
            if known.event == "ready" and draft.ready_moment is None:
                draft.ready_moment = draft.last_moment
        if "kv_cache_tokens" in figures or "kv_cache_blocks" in figures:
            draft.events.append(("kv", quote, line.process))

    def _take_throughput(
        self, draft: _Draft, line: LogLine, figures: Mapping[str, float], words: Mapping[str, str]
    ) -> None:
        draft.throughput.append(
            Throughput(
                line.number,
                figures.get("prompt_tokens_per_s", 0.0),
                figures["generation_tokens_per_s"],
                int(words["running"]) if "running" in words else None,
                int(words["waiting"]) if "waiting" in words else None,
                figures.get("kv_cache_usage_percent"),
            )
        )
        if figures["generation_tokens_per_s"] > 0:
            draft.events.append(("served", self._quote(line), line.process))

    def _take_phase(
        self, draft: _Draft, line: LogLine, known: LineFormat, figures: Mapping[str, float], quote: Quote
    ) -> None:
        order = PHASES.index(known.phase or "")
        draft.progress[line.process.pid or 0] = line.number
        if not draft.phases or order > PHASES.index(draft.phases[-1].name):
            draft.phases.append(Phase(PHASES[order], quote, draft.last_time, None, None))
        printed = figures.get(known.duration or "")
        if printed is None:
            return
        for index, phase in enumerate(draft.phases):
            if phase.name == known.phase and (phase.printed_seconds or 0.0) < printed:
                draft.phases[index] = Phase(phase.name, phase.first, phase.started, None, printed)

    def _note_warning(self, draft: _Draft, line: LogLine) -> None:
        if line.level != "WARNING" or not line.text.strip():
            return
        text = line.text.strip()
        if text in draft.warnings:
            draft.warnings[text][1] += 1
        elif len(draft.warnings) < _MAX_WARNINGS:
            draft.warnings[text] = [self._quote(line), 1]

    def _close(self) -> None:
        if self.draft:
            for pending in self.draft.pending.values():
                self._settle(self.draft, pending)
            self.draft.pending.clear()

    def finish(self, given: str | None) -> list[Start]:
        """Settle what is open and return the starts; stretches without any sign of vLLM are left out."""
        self._close()
        return [
            _record(draft, given)
            for draft in self.drafts
            if draft.is_vllm or draft.hits or draft.tracebacks or any(p.pid for p in draft.processes)
        ]


def _deepest(chain: list[Raised], signature: Signature) -> tuple[int, dict[str, str]] | None:
    """Depth and captures of the innermost frame that a signature asks for."""
    frames = [frame for raised in reversed(chain[1:]) for frame in raised.frames] + list(chain[0].frames)
    for depth in range(len(frames) - 1, -1, -1):
        frame = frames[depth]
        file = re.split(r"[/\\]", frame.path)[-1]
        for wanted in signature.frames:
            match = re.fullmatch(wanted, f"{file}:{frame.function}" if ":" in wanted.replace("(?:", "") else frame.function)
            if match:
                return depth, {name: value for name, value in match.groupdict().items() if value is not None}
    return None


def _unit(name: str) -> str | None:
    if name in _ALSO_FIGURES:
        return _ALSO_FIGURES[name]
    return _UNITS.get(name.rsplit("_", 1)[-1]) if "_" in name else None


def _number(printed: str) -> float | None:
    try:
        return float(printed.replace(",", ""))
    except ValueError:
        return None


_TIME = re.compile(r"(?:(\d{4})[-/])?(?:(\d\d)[-/](\d\d))?[T ]?(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")


def _moment(printed: str | None) -> float | None:
    """Seconds of a printed time on a common scale; without a year, of a leap year."""
    match = _TIME.match(printed or "")
    if not match:
        return None
    year, month, day, hour, minute, second, fraction = match.groups()
    try:
        moment = datetime(
            int(year or 2000), int(month or 1), int(day or 1), int(hour), int(minute), int(second), tzinfo=UTC
        )
    except ValueError:
        return None
    return moment.timestamp() + float(f"0.{fraction or 0}")


def _seconds_between(earlier: float | None, later: float | None) -> float | None:
    """Seconds from one printed time to another; a step back over half a year is a new year."""
    if earlier is None or later is None:
        return None
    seconds = later - earlier
    if seconds < -180 * 86400:
        seconds += 366 * 86400
    return seconds if seconds >= 0 else None


def _key_values(text: str) -> dict[str, Any]:
    """Read `{'a': 1, …}` or `(a=1, …)` without evaluating it; a value that is no literal stays text."""
    pairs: dict[str, Any] = {}
    for part in _top_level(text):
        match = re.match(r"\s{0,8}(?:'(\w{1,80})'|\"(\w{1,80})\"|(\w{1,80}))\s{0,4}[:=]\s{0,4}(?P<value>.*)\Z", part, re.DOTALL)
        if not match:
            continue
        name = match[1] or match[2] or match[3]
        pairs[name] = _literal(match["value"].strip())
    return pairs


def _literal(text: str) -> Any:
    try:
        value = ast.literal_eval(text) if len(text) <= 4000 else text
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = text
    return _masked(value if isinstance(value, (str, int, float, bool, list, dict, tuple)) or value is None else text)


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, (list, tuple)):
        return [_masked(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _masked(item) for name, item in value.items()}
    return value


def _top_level(text: str) -> Iterator[str]:
    """Yield the comma-separated parts inside the first bracket, up to its end or the text's."""
    depth, start, quote, escaped = 0, 1, "", False
    for position, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{<":
            depth += 1
        elif character in ")]}>" and depth:
            depth -= 1
            if depth == 0:
                yield text[start:position]
                return
        elif character == "," and depth == 1:
            yield text[start:position]
            start = position + 1
    yield text[start:]


_SECRET_ARGUMENTS = frozenset({"api_key", "hf_token", "ssl_keyfile_password"})


def _arguments(draft: _Draft) -> dict[str, Any]:
    """Arguments as the log prints them, else as the command shown says."""
    arguments = {
        name: ("[secret]" if name in _SECRET_ARGUMENTS and value else value) for name, value in draft.arguments.items()
    }
    if not draft.command:
        return arguments
    try:
        words = shlex.split(draft.command, comments=True)
    except ValueError:
        return arguments
    name = None
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            name = name.replace("-", "_")
            if name not in arguments and name not in _SECRET_ARGUMENTS:
                arguments[name] = _literal(value) if value else True
                continue
        elif name and arguments.get(name) is True and name not in draft.arguments:
            arguments[name] = _literal(word)
        name = None
    return arguments


def _outcome(draft: _Draft) -> tuple[Outcome, Quote | None]:
    """The last state that the text proves, and the line that proves it."""
    at: dict[str, Quote] = {}
    first: dict[str, Quote] = {}
    for event, quote, _ in draft.events:
        at[event] = quote
        first.setdefault(event, quote)
    ready = first.get("ready") or first.get("wrapper_ready")
    serves = draft.seen & {"server-begin", "server-version", "banner-version"} or any(
        (p.name or "").startswith(("APIServer", "ApiServer")) for p in draft.processes
    )
    if not serves:
        ready = ready or first.get("engine_ready")
    stopping = first.get("stopping")
    ended = _ending(draft, ready, stopping, at.get("served"))
    if ended is not None:
        return Outcome.FAILED, ended
    if "served" in at:
        return Outcome.RUNNING, at["served"]
    if ready is not None:
        return Outcome.READY, ready
    if stopping is not None:
        return Outcome.FAILED, stopping
    waits = [quote for event, quote, _ in draft.events if event == "waiting"]
    last_progress = max(draft.progress.values(), default=0)
    if len([quote for quote in waits if quote.line > last_progress]) >= 2:
        return Outcome.HUNG, waits[-1]
    return Outcome.UNKNOWN, None


def _ending(draft: _Draft, ready: Quote | None, stopping: Quote | None, served: Quote | None) -> Quote | None:
    """The line that proves the end of the server, if one does.

    After a clean stop was asked for, whatever dies is part of stopping. A traceback that the interpreter printed ends its
    process, unless that process made progress afterwards or the server went on to serve.
    """
    limit = stopping.line if stopping and ready and stopping.line > ready.line else None
    alive = max((quote.line for quote in (ready, served) if quote), default=0)
    candidates = [quote for event, quote, _ in draft.events if event == "failed"]
    for process, opened in draft.tracebacks:
        if opened.ignored or not opened.chain:
            continue
        quote = opened.chain[-1].quote
        went_on = draft.progress.get(process.pid or 0, 0) > quote.line
        if went_on or (opened.logged and ready):
            continue
        candidates.append(quote)
    for quote in sorted(candidates, key=lambda q: q.line):
        if (limit is None or quote.line < limit) and quote.line > alive:
            return quote
    return None


def _largest(readings: Mapping[str, list[float]], name: str) -> float | None:
    return max(readings[name]) if readings.get(name) else None


def _smallest(readings: Mapping[str, list[float]], name: str) -> float | None:
    return min(readings[name]) if readings.get(name) else None


def _integer(*values: Any) -> int | None:
    for value in values:
        if isinstance(value, bool):
            continue
        if isinstance(value, (int, float)):
            return int(value)
        if isinstance(value, str) and value.isdigit():
            return int(value)
    return None


def _word(*values: Any) -> str | None:
    for value in values:
        if isinstance(value, str) and value and value != "None":
            return value
    return None


def _meaning(tokens: float | None, concurrency: float | None, per_request: float | None) -> str | None:
    """What the printed token count means, judged by the start's own figures.

    Some releases print the slots of one layer group, others the concurrency times the length; where every layer keeps
    the whole context both are one number. Source: `kv_cache_utils.py` of 0.11 to 0.19 against 0.20 to 0.32.
    """
    if not tokens or not concurrency or not per_request:
        return None
    full = concurrency * per_request
    tolerance = 0.006 / concurrency + 0.0005
    return "full-length" if abs(tokens - full) <= full * tolerance else "slots"


def _facts(draft: _Draft, readings: tuple[Reading, ...], arguments: Mapping[str, Any]) -> Facts:
    by_name: dict[str, list[float]] = {}
    for reading in readings:
        by_name.setdefault(reading.name, []).append(reading.value)
    config, words = draft.config, draft.words
    blocks = _smallest(by_name, "kv_cache_blocks")
    tokens = _smallest(by_name, "kv_cache_tokens")
    concurrency = _smallest(by_name, "max_concurrency")
    per_request = _smallest(by_name, "max_concurrency_tokens")
    max_model_len = _integer(
        config.get("max_seq_len"), _largest(by_name, "max_model_len"), arguments.get("max_model_len"), per_request
    )
    if tokens is None and blocks:
        block_tokens = _integer(arguments.get("block_size"))
        if concurrency and (per_request or max_model_len):
            block_tokens = round(concurrency * (per_request or max_model_len or 0) / blocks) or block_tokens
        tokens = blocks * block_tokens if block_tokens else None
    rates = [sample.generation_tokens_per_s for sample in draft.throughput]
    return Facts(
        weights_gib=_largest(by_name, "weights_gib") or _largest(by_name, "profiled_weights_gib"),
        kv_cache_gib=_smallest(by_name, "kv_cache_gib"),
        kv_cache_tokens=_integer(tokens),
        kv_cache_tokens_meaning=_meaning(tokens, concurrency, per_request or max_model_len),
        kv_cache_blocks=_integer(blocks),
        max_concurrency=concurrency,
        max_concurrency_tokens=_integer(per_request),
        cuda_graph_gib=_largest(by_name, "cuda_graph_gib"),
        cuda_graph_estimated_gib=_largest(by_name, "cuda_graph_estimated_gib"),
        activation_gib=_largest(by_name, "activation_gib"),
        non_torch_gib=_largest(by_name, "non_torch_gib"),
        gpu_total_gib=_smallest(by_name, "gpu_total_gib"),
        gpu_memory_utilization=_float(arguments.get("gpu_memory_utilization"), _largest(by_name, "gpu_memory_utilization")),
        max_model_len=max_model_len,
        tensor_parallel_size=_integer(config.get("tensor_parallel_size"), arguments.get("tensor_parallel_size")),
        pipeline_parallel_size=_integer(config.get("pipeline_parallel_size"), arguments.get("pipeline_parallel_size")),
        data_parallel_size=_integer(config.get("data_parallel_size"), arguments.get("data_parallel_size")),
        executor_backend=_word(words.get("executor_backend"), arguments.get("distributed_executor_backend")) or _executor(draft),
        model=_word(arguments.get("model"), config.get("model"), arguments.get("model_tag")),
        architecture=_word(words.get("architecture")),
        quantization=_word(config.get("quantization"), arguments.get("quantization")),
        load_seconds=_largest(by_name, "load_seconds"),
        startup_seconds=_seconds_between(draft.first_moment, draft.ready_moment),
        generation_tokens_per_s_max=max(rates) if rates else None,
    )


def _float(*values: Any) -> float | None:
    for value in values:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    return None


def _executor(draft: _Draft) -> str | None:
    names = {process.name or "" for process in draft.processes}
    if any(name.startswith("RayWorker") for name in names):
        return "ray"
    if any(name.startswith(("Worker_TP", "Worker_PP", "VllmWorkerProcess")) for name in names):
        return "mp"
    return None


def _ranked(draft: _Draft) -> dict[Process, int | None]:
    """Rank of each process that printed a figure: as assigned in the log, else by name, else the only one left."""
    holders = list(dict.fromkeys(reading.process for reading in draft.readings if reading.name != "max_model_len"))
    ranks: dict[Process, int | None] = {}
    for process in holders:
        named = _RANK_NAME.search(process.name or "")
        rank = draft.ranks.get(process, process.rank)
        ranks[process] = int(named[1]) if rank is None and named and "PP" not in (process.name or "") else rank
    workers = [process for process in holders if (process.name or "").startswith("VllmWorkerProcess")]
    if workers and len(holders) == 2 and all(rank is None for rank in ranks.values()):
        ranks = {process: int(process in workers) for process in holders}
    if len(holders) == 1 and holders and ranks[holders[0]] is None and not workers:
        ranks[holders[0]] = 0 if _integer(draft.config.get("tensor_parallel_size")) == 1 else None
    return ranks


def _rank_facts(readings: tuple[Reading, ...]) -> tuple[RankFacts, ...]:
    wanted = {f.name for f in fields(RankFacts)} - {"rank", "process", "pid"}
    rows: dict[tuple[int | None, Process], dict[str, float]] = {}
    for reading in readings:
        if reading.name in wanted:
            rows.setdefault((reading.rank, reading.process), {})[reading.name] = reading.value
    ordered = sorted(rows.items(), key=lambda row: (row[0][0] is None, row[0][0] or 0))
    return tuple(RankFacts(rank, process.name, process.pid, **values) for (rank, process), values in ordered)


def _timeline(draft: _Draft) -> tuple[Phase, ...]:
    ends = [*(_moment(phase.started) for phase in draft.phases[1:]), draft.ready_moment]
    return tuple(
        Phase(p.name, p.first, p.started, _seconds_between(_moment(p.started), end), p.printed_seconds)
        for p, end in zip(draft.phases, ends, strict=False)
    )


def _record(draft: _Draft, given: str | None) -> Start:
    arguments = _arguments(draft)
    ranks = _ranked(draft)
    readings = tuple(
        Reading(r.name, r.value, r.unit, ranks.get(r.process), r.process, r.quote) for r in draft.readings
    )
    if draft.version:
        release = Release(draft.version, "printed")
    else:
        release = Release(given, "given" if given else "unknown")
    outcome, quote = _outcome(draft)
    return Start(
        file=draft.file,
        first_line=draft.first_line,
        last_line=max(draft.last_line, draft.first_line),
        outcome=outcome,
        outcome_quote=quote,
        release=release,
        command=redact_text(draft.command) if draft.command else None,
        arguments=arguments,
        processes=tuple(draft.processes),
        timeline=_timeline(draft),
        readings=readings,
        throughput=tuple(draft.throughput),
        warnings=tuple(Warned(quote, count) for quote, count in draft.warnings.values()),
        tracebacks=tuple(
            Traceback(process, tuple(opened.chain), opened.logged, opened.ignored)
            for process, opened in draft.tracebacks
        ),
        hits=tuple(sorted(draft.hits, key=lambda hit: (hit.quote.line, hit.quote.column))),
        facts=_facts(draft, readings, arguments),
        ranks=_rank_facts(readings),
        progress=dict(draft.progress),
    )
