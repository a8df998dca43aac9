"""Parse log lines into one record per launch; the catalog defines the meaning of each line."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import NamedTuple

from vllm_runbooks.catalog.records import PHASES, LineFormat, Signature
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.printed import Period, is_closed, moment, number, pairs
from vllm_runbooks.core.records import Phase, PrintedFigure, Quote, RaisedException, ServerRun, SymptomHit, Throughput
from vllm_runbooks.core.redaction.redact import redact_record, redact_text
from vllm_runbooks.core.scan import PatternMatch
from vllm_runbooks.reading.startup_log import launch, log_lines, ray_status, routine
from vllm_runbooks.reading.startup_log.draft import LaunchDraft
from vllm_runbooks.reading.startup_log.launch import ShownLaunch
from vllm_runbooks.reading.startup_log.log_lines import LogLine, SkippedLines
from vllm_runbooks.reading.startup_log.tracebacks import Message, Tracebacks

_UNITS = {"gib": "GiB", "tokens": "tokens", "blocks": "blocks", "seconds": "s", "s": "tokens/s", "percent": "%"}
_ALSO_FIGURES = {
    "max_concurrency": "x",
    "gpu_memory_utilization": "",
    "utilization_without_graphs": "",
    "max_model_len": "tokens",
}
_MAX_WARNINGS = 60
_MAX_WRAPPED, _MAX_WRAPPED_LINE = 100, 1000
"""Most lines of wrapped arguments, and their longest."""
_MAX_SETTINGS = 1000
_MAX_STARTS = 500


def read(evidence: Evidence, catalog: Catalog) -> list[ServerRun]:
    """Read every launch in the documents; empty if there is no sign of vLLM."""
    starts: list[ServerRun] = []
    outside: list[str] = []
    for index, document in enumerate(evidence.documents):
        reader = _LogReader(index, catalog, evidence.period)
        digest = routine.RoutineLines(catalog.lines, log_lines.IN_HEADERS, catalog.patterns)
        for lines in log_lines.read_lines(document.name, reader.noting(document.pieces()), digest):
            reader.take(lines)
        if evidence.period:
            outside += reader.outside(document.name)
        starts += reader.finish(evidence.vllm)
    if outside and len(outside) == len(evidence.documents):
        raise InputError("; ".join(outside))
    return redact_record(starts)


def follow(evidence: Evidence, catalog: Catalog) -> Iterator[list[ServerRun]]:
    """Read a document that is still being written: yield the launches so far at each pause and at its end."""
    [document] = evidence.documents
    reader, is_new = _LogReader(0, catalog), False
    for lines in log_lines.read_lines(document.name, reader.noting(document.pieces())):
        reader.take(lines)
        if not lines and is_new:
            yield redact_record(copy.deepcopy(reader, {id(catalog): catalog}).finish(evidence.vllm))
        is_new = bool(lines)
    yield redact_record(reader.finish(evidence.vllm))


class _SymptomMatch(NamedTuple):
    symptom: str
    signature_index: int
    """Negative for a companion."""
    signature: Signature
    match: PatternMatch


_Matches = tuple[list[tuple[LineFormat, PatternMatch]], list[_SymptomMatch]]


class _LogReader:
    def __init__(self, file: int, catalog: Catalog, period: Period | None = None) -> None:
        self.file = file
        self.period = period
        self.dates: dict[int, str] = {}
        """By position as `place`: the last date before the period and in it, the first after it."""
        self.place = 0
        """Position of the last printed time: before the period (-1), in it (0) or after it (1)."""
        self.catalog = catalog
        self.drafts: list[LaunchDraft] = []
        self.draft: LaunchDraft | None = None
        self.shown_launch: ShownLaunch | None = None
        self.shown_is_open = False
        self.wrapped: list[str] = []
        """Lines of arguments without their closing bracket."""
        self.left_out = 0
        self.named: str | None = None
        """Release that the text names."""

    def noting(self, pieces: Iterable[str]) -> Iterator[str]:
        """Pass the text on, and note the release that its first piece names."""
        for index, piece in enumerate(pieces):
            if not index:
                self.named = log_lines.named_release(piece)
            yield piece

    def take(self, lines: Sequence[LogLine]) -> None:
        if isinstance(lines, SkippedLines):
            within = lines.statistics
            if self.period:
                within = [line for line in within if self._place(routine.time_of(line)) == 0]
            if self.draft is not None:
                self.draft.note_statistics(within)
            return
        among = self.catalog.patterns.candidates("\n".join([line.text for line in lines]))
        for line in lines:
            self._take(line, among)

    def _take(self, line: LogLine, among: Sequence[int]) -> None:
        place = self._place(line.time)
        if place > 0 or self._takes_wrapped(line) or self._takes_launch(line):
            return
        is_code = self.draft is not None and self.draft.tracebacks.is_code(line)
        formats, symptoms = ([], []) if is_code or not among else self._counted(line, among)
        draft = self._draft_for(line, formats)
        draft.last_line = line.number
        draft.meet(line)
        if place and draft.has("ready"):
            return
        if draft.status.read is not None or line.text.startswith(ray_status.BEGINS):
            draft.status.take(self.file, line)
        is_raised, complete = draft.tracebacks.follow(line)
        if complete:
            self._take_message(draft, complete)
        for line_format, match in formats:
            self._take_format(draft, line, line_format, match)
        if symptoms and not is_raised:
            for hit in symptoms:
                self._take_hit(draft, line, hit)
        if line.level in ("DEBUG", "INFO", "WARNING"):
            if not formats:
                draft.note_calm(line.process.pid or 0, line.number)
            if line.level == "WARNING":
                self._note_warning(draft, line)
        elif line.level is not None:
            draft.count_error(line)

    def _place(self, time: str | None) -> int:
        """Position of a line as in `Period.place`; a line without a time has that of the previous one."""
        if self.period and (at := moment(time)) and at.form == "date":
            self.place = self.period.place(at)
            if self.place < 1 or 1 not in self.dates:
                self.dates[self.place] = time or ""
        return self.place

    def outside(self, name: str) -> list[str]:
        """Why no line is in the period; empty if some may be.

        Raises:
            InputError: No line has a date.
        """
        match sorted(self.dates):
            case []:
                raise InputError(f"{name}: no line has a date; --since and --until need one")
            case [-1]:
                return [f"{name}: --since is after its last dated line ({self.dates[-1]})"]
            case [1]:
                return [f"{name}: --until is before its first dated line ({self.dates[1]})"]
        return []

    def finish(self, release: str | None) -> list[ServerRun]:
        """Return the launches, without stretches that show no sign of vLLM."""
        self._close()
        draft = self.draft
        if self.wrapped and draft:
            draft.arguments = pairs("".join(self.wrapped))
        if self.shown_launch and draft and not (draft.shown_launch or draft.arguments or draft.config):
            draft.shown_launch = self.shown_launch  # the command is below the log
        starts = [
            draft.record(release, self.named)
            for draft in self.drafts
            if draft.is_vllm
            or draft.has_failure
            or len(draft.tracebacks)
            or draft.status.read is not None
            or any(p.pid for p in draft.processes)
        ]
        return [replace(starts[0], left_out=self.left_out), *starts[1:]] if starts and self.left_out else starts

    def _counted(self, line: LogLine, among: Sequence[int]) -> _Matches:
        """Match a line; if it quotes user input, only the format of the quoting line counts."""
        formats, symptoms = self._meanings(line.text, among)
        if not formats:
            return formats, symptoms
        formats = [
            (line_format, match)
            for line_format, match in formats
            if not (line_format.bare and line.has_header)
            and not (line_format.event == "waiting" and line.level == "DEBUG")
            and not (line_format.whole and (line.text[: match.start] + line.text[match.end :]).strip())
        ]
        quoted = [(line_format, match) for line_format, match in formats if line_format.quoted]
        return (quoted, []) if quoted else (formats, symptoms)

    def _meanings(self, text: str, among: Sequence[int] | None = None) -> _Matches:
        formats: list[tuple[LineFormat, PatternMatch]] = []
        symptoms: list[_SymptomMatch] = []
        for match in self.catalog.patterns.find(text, among):
            for kind, name, index in self.catalog.meanings(match.pattern):
                if kind == "line":
                    formats.append((self.catalog.lines[index], match))
                    continue
                symptom, is_companion = self.catalog.symptoms[name], kind != "signature"
                signature = (symptom.companions if is_companion else symptom.signatures)[index]
                symptoms.append(_SymptomMatch(name, -1 - index if is_companion else index, signature, match))
        return formats, symptoms

    def _takes_wrapped(self, line: LogLine) -> bool:
        if not self.wrapped or self.draft is None:
            return False
        goes_on = not (line.has_header or line.process.pid is not None or len(self.wrapped) >= _MAX_WRAPPED)
        if goes_on:
            self.wrapped.append((" " if self.wrapped[-1].endswith(",") else "") + line.text.strip()[:_MAX_WRAPPED_LINE])
        text = "".join(self.wrapped) if not goes_on or set(line.text) & set(")}") else ""
        if text and (not goes_on or is_closed(text)):
            self.draft.arguments = pairs(text)
            self.wrapped = []
        return goes_on

    def _takes_launch(self, line: LogLine) -> bool:
        """Keep a command or call in the text for the next launch."""
        if line.level is not None or line.process.pid is not None:
            self.shown_is_open = False
            return False
        if self.shown_is_open and self.shown_launch and self.shown_launch.takes(line.text):
            return True
        begun = launch.begun(line.number, line.text) if line.process.rank is None else None
        if begun and line.region and launch.at_prompt(line.text) is None:
            begun = None  # a page shows more commands than the one that was run
        if begun and self.draft and self.draft.tracebacks.is_code(line):
            begun = None
        self.shown_is_open = begun is not None
        if begun:
            self.shown_launch = begun
        return begun is not None

    def _draft_for(self, line: LogLine, formats: list[tuple[LineFormat, PatternMatch]]) -> LaunchDraft:
        """Current launch, or a new one if the line begins it."""
        draft = self.draft
        is_usual = draft is not None and draft.has_logged and not (formats or self.shown_launch)
        if draft and is_usual and line.region == draft.region and line.process in draft.processes:
            return draft  # no sign of a new launch
        if draft is None or self._begins_anew(draft, line, [line_format for line_format, _ in formats]):
            self._close()
            before, draft = draft, LaunchDraft(self.file, line.number, Tracebacks(self.file))
            if before and not before.is_log:  # figures in prose before the log
                self.drafts.pop()
                self.shown_launch = self.shown_launch or before.shown_launch
                draft.version = before.version
            self.draft = draft
            self.drafts.append(draft)
            if len(self.drafts) > _MAX_STARTS:
                del self.drafts[0]
                self.left_out += 1
        draft.has_logged = draft.has_logged or line.has_header or line.process.pid is not None
        if self.shown_launch and not draft.is_vllm:
            if draft.shown_launch is None and line.number - self.shown_launch.line <= self.shown_launch.lines + 3:
                draft.first_line = min(draft.first_line, self.shown_launch.line)
            draft.shown_launch, self.shown_launch = self.shown_launch, None
        draft.region = line.region
        return draft

    def _begins_anew(self, draft: LaunchDraft, line: LogLine, formats: list[LineFormat]) -> bool:
        process = line.process
        is_new = process not in draft.processes
        if draft.is_vllm and not draft.is_log and process.name == "APIServer":
            return True
        if process.name == "APIServer" and is_new and draft.is_vllm:
            return any(p.name == "APIServer" for p in draft.processes)
        if self.shown_launch and draft.is_vllm:
            return True
        if (
            line.region != draft.region
            and draft.has_ended
            and process.pid not in {p.pid for p in draft.processes if p.pid}
        ):
            return True
        for line_format in formats:
            if line_format.event == "begin" and (draft.has_advanced or line_format.id in draft.seen):
                return draft.has_advanced or draft.has_ended or process.pid is None or is_new
            if line_format.phase == "configure" and line_format.id in draft.seen and draft.tracebacks.has_ended_one:
                return process.pid is None and not draft.has("ready")
            if line_format.event == "engine" and is_new:
                return draft.has("failed", "engine_ready") and not draft.has("begin") and bool(draft.config)
        return False

    def _take_message(self, draft: LaunchDraft, message: Message) -> None:
        width = len(message.line.text)
        for hit in self._meanings(message.text)[1]:
            # The message of pydantic's errors begins on the next line.
            if hit.match.start <= width or "validation error" in message.line.text:
                self._take_hit(draft, message.line, hit, message)

    def _take_hit(self, draft: LaunchDraft, line: LogLine, hit: _SymptomMatch, message: Message | None = None) -> None:
        signature, match = hit.signature, hit.match
        if signature.exception and message is None:
            return
        if signature.phases and draft.phase not in signature.phases:
            return
        depth, captured = -1 if signature.phases else -2, dict[str, str]()
        if signature.frames:
            place = _deepest(draft.tracebacks.chain(message.traceback), signature) if message else None
            if place is None:
                return
            depth, captured = place
        captures = {name: redact_text(value) for name, value in {**captured, **match.groups}.items()}
        traceback = message.traceback if message else None
        # Text further down in an exception's message is quoted with the line of its beginning.
        start = match.start if match.start < len(line.text) else 0
        quote = log_lines.quote(self.file, line, start, match.end)
        draft.note_hit(
            SymptomHit(
                hit.symptom, hit.signature_index, quote, captures,
                line.process, draft.phase, traceback, message.link if message else 0, depth, line.level,
                line.time or draft.last_time,
            )
        )  # fmt: skip

    def _take_format(self, draft: LaunchDraft, line: LogLine, line_format: LineFormat, match: PatternMatch) -> None:
        draft.is_vllm = draft.is_vllm or not line_format.quoted or line_format.event is not None
        draft.seen.add(line_format.id)
        if line_format.counts and draft.is_running:
            draft.count(line_format.counts, line.time)
        figures: dict[str, float] = {}
        for name, printed in match.groups.items():
            unit = _unit(name)
            value = None if unit is None else number(printed)
            if value is not None:
                figures[name] = value
            elif unit is None and name not in draft.words:
                draft.words[name] = redact_text(printed)
        if "generation_tokens_per_s" in figures:
            _take_throughput(draft, line, figures, match.groups)
            return
        if "version" in match.groups:
            draft.version = draft.version or match.groups["version"].rstrip(".,")
        if "global_rank" in match.groups:
            draft.note_rank(line.process, int(match.groups["global_rank"]))
        if line_format.event == "joining":
            draft.note_joining(line, int(match.groups["global_rank"]), int(match.groups["local_rank"]))
        elif line_format.event == "met" and draft.met is None:
            draft.met = line.time
        if line_format.arguments and not draft.arguments:
            printed = line.text[match.end - 1 :]
            draft.arguments = pairs(printed)
            self.wrapped = [] if is_closed(printed) else [printed]
        if line_format.config and len(draft.config) < _MAX_SETTINGS:
            for name, value in pairs("{" + line.text[match.end :]).items():
                draft.config.setdefault(name, value)
        if line_format.event == "served":
            draft.served = line
        elif figures or line_format.phase or line_format.event:
            quote = log_lines.quote(self.file, line, match.start, match.end)
            self._take_proof(draft, line, line_format, figures, quote)

    def _take_proof(
        self, draft: LaunchDraft, line: LogLine, line_format: LineFormat, figures: Mapping[str, float], quote: Quote
    ) -> None:
        draft.note_readings(
            PrintedFigure(name, value, _unit(name) or "", None, line.process, quote) for name, value in figures.items()
        )
        if line_format.phase:
            _take_phase(draft, line, line_format, figures, quote)
        if line_format.event == "waiting":
            draft.note_waiting(line)
        if line_format.event and not (line_format.event == "wrapper_ready" and not draft.has("kv")):
            draft.note(line_format.event, quote)
            if line_format.event == "ready" and draft.ready_moment is None:
                draft.ready_moment = moment(draft.last_time)
        if "kv_cache_tokens" in figures or "kv_cache_blocks" in figures:
            draft.note("kv", quote)

    def _note_warning(self, draft: LaunchDraft, line: LogLine) -> None:
        text = line.text.strip()
        if text in draft.warnings:
            draft.warnings[text][1] += 1
        elif text and len(draft.warnings) < _MAX_WARNINGS:
            draft.warnings[text] = [log_lines.quote(self.file, line), 1]

    def _close(self) -> None:
        if self.draft:
            for message in self.draft.tracebacks.close():
                self._take_message(self.draft, message)


def _take_throughput(draft: LaunchDraft, line: LogLine, figures: Mapping[str, float], words: Mapping[str, str]) -> None:
    draft.note_throughput(
        Throughput(
            line.number,
            figures.get("prompt_tokens_per_s", 0.0),
            figures["generation_tokens_per_s"],
            int(words["running"]) if "running" in words else None,
            int(words["waiting"]) if "waiting" in words else None,
            figures.get("kv_cache_usage_percent"),
            line.time,
            int(words["preemptions"]) if "preemptions" in words else None,
        )
    )
    if figures["generation_tokens_per_s"] > 0:
        draft.served = line


def _take_phase(
    draft: LaunchDraft, line: LogLine, line_format: LineFormat, figures: Mapping[str, float], quote: Quote
) -> None:
    order = PHASES.index(line_format.phase or "")
    draft.note_progress(line)
    if not draft.phases or order > PHASES.index(draft.phases[-1].name):
        draft.phases.append(Phase(PHASES[order], quote, draft.last_time, None, None))
    printed = figures.get(line_format.duration or "")
    if printed is None:
        return
    for index, phase in enumerate(draft.phases):
        if phase.name == line_format.phase and (phase.printed_seconds or 0.0) < printed:
            draft.phases[index] = Phase(phase.name, phase.first, phase.started, None, printed)


def _deepest(chain: list[RaisedException], signature: Signature) -> tuple[int, dict[str, str]] | None:
    """Depth and captures of the innermost frame that a signature matches."""
    frames = [frame for raised in reversed(chain[1:]) for frame in raised.frames]
    frames += chain[0].frames if chain else ()
    outermost = max(len(frames) - 1, 0) if signature.innermost else 0
    for depth in range(len(frames) - 1, outermost - 1, -1):
        captured = _captured(signature.frames, frames[depth].path, frames[depth].function)
        if captured is not None:
            return depth, captured
    return None


@lru_cache(maxsize=1 << 16)
def _captured(patterns: tuple[str, ...], path: str, function: str) -> dict[str, str] | None:
    """Captures of a frame that matches one of the patterns, else None; cached, as the same functions recur."""
    path = path.replace("\\", "/")
    named = {"": function, ":": f"{path.rpartition('/')[2]}:{function}", "/": f"{path}:{function}"}
    for pattern, sign in map(_frame_pattern, patterns):
        match = pattern.fullmatch(named[sign])
        if match:
            return {name: value for name, value in match.groupdict().items() if value is not None}
    return None


@cache
def _frame_pattern(pattern: str) -> tuple[re.Pattern[str], str]:
    """Compile a frame pattern; the sign is ":" if it includes the file, "/" for the path."""
    return re.compile(pattern), "/" if "/" in pattern else ":" if ":" in pattern.replace("(?:", "") else ""


def _unit(name: str) -> str | None:
    """Unit of a figure by its name; None for a string."""
    if name in _ALSO_FIGURES:
        return _ALSO_FIGURES[name]
    return _UNITS.get(name.rsplit("_", 1)[-1]) if "_" in name else None
