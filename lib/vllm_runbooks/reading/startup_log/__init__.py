"""Log lines to one record per start of vLLM: what each line means is asked of the catalog, and added to its start."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import NamedTuple

from vllm_runbooks.catalog.records import PHASES, LineFormat, Signature
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.printed import is_closed, number, pairs
from vllm_runbooks.core.records import Hit, Phase, Quote, Raised, Reading, Start, Throughput
from vllm_runbooks.core.redaction.redact import redact_record, redact_text, watch
from vllm_runbooks.core.scan import Found
from vllm_runbooks.reading.startup_log import launch, log_lines, ray_status
from vllm_runbooks.reading.startup_log.draft import Draft
from vllm_runbooks.reading.startup_log.launch import Shown
from vllm_runbooks.reading.startup_log.log_lines import LogLine
from vllm_runbooks.reading.startup_log.tracebacks import Message, Tracebacks

_UNITS = {"gib": "GiB", "tokens": "tokens", "blocks": "blocks", "seconds": "s", "s": "tokens/s", "percent": "%"}
_ALSO_FIGURES = {"max_concurrency": "x", "gpu_memory_utilization": "", "max_model_len": "tokens"}
_MAX_WARNINGS = 60
_MAX_WRAPPED, _MAX_WRAPPED_LINE = 100, 1000
"""Lines over which arguments may be wrapped, and characters of one."""
_MAX_SETTINGS = 1000
"""Settings of one start."""
_MAX_STARTS = 500
"""Of more starts the last are kept."""


def read(evidence: Evidence, catalog: Catalog) -> list[Start]:
    """Read every start in the documents, in order; a text without any sign of vLLM gives none."""
    starts: list[Start] = []
    for index, document in enumerate(evidence.documents):
        reader = _Reader(index, catalog)
        for lines in log_lines.read_lines(document.name, watch(document.pieces())):
            reader.take(lines)
        starts += reader.finish(evidence.vllm)
    return redact_record(starts)


def follow(evidence: Evidence, catalog: Catalog) -> Iterator[list[Start]]:
    """Read a document that is still being written: what was read so far, whenever it pauses, and at its end."""
    [document] = evidence.documents
    reader, is_new = _Reader(0, catalog), False
    for lines in log_lines.read_lines(document.name, watch(document.pieces())):
        reader.take(lines)
        if not lines and is_new:
            yield redact_record(copy.deepcopy(reader, {id(catalog): catalog}).finish(evidence.vllm))
        is_new = bool(lines)
    yield redact_record(reader.finish(evidence.vllm))


class _Meant(NamedTuple):
    """A signature or companion of a symptom that was found in a text."""

    symptom: str
    signature_index: int
    """Below 0 of a companion."""
    signature: Signature
    found: Found


class _Reader:
    """Takes the lines of one file, one after the other."""

    def __init__(self, file: int, catalog: Catalog) -> None:
        self.file = file
        self.catalog = catalog
        self.drafts: list[Draft] = []
        self.draft: Draft | None = None
        self.shown: Shown | None = None
        self.shown_is_open = False
        self.wrapped: list[str] = []
        """Lines of arguments whose closing bracket is still to come."""
        self.left_out = 0
        """Starts that are not kept."""

    def take(self, lines: Sequence[LogLine]) -> None:
        """Take the lines that come next."""
        among = self.catalog.patterns.candidates("\n".join([line.text for line in lines]))
        for line in lines:
            self._take(line, among)

    def _take(self, line: LogLine, among: Sequence[int]) -> None:
        if self._takes_wrapped(line) or self._takes_launch(line):
            return
        is_code = self.draft is not None and self.draft.tracebacks.is_code(line)
        formats, symptoms = ([], []) if is_code or not among else self._counted(line, among)
        draft = self._draft_for(line, formats)
        draft.last_line = line.number
        draft.meet(line)
        if draft.status.read is not None or line.text.startswith(ray_status.BEGINS):
            draft.status.take(self.file, line)
        is_raised, complete = draft.tracebacks.follow(line)
        if complete:
            self._take_message(draft, complete)
        for known, found in formats:
            self._take_format(draft, line, known, found)
        if symptoms and not is_raised:
            for meant in symptoms:
                self._take_hit(draft, line, meant)
        if line.level in ("DEBUG", "INFO", "WARNING"):
            if not formats:
                draft.note_calm(line.process.pid or 0, line.number)
            if line.level == "WARNING":
                self._note_warning(draft, line)

    def finish(self, given: str | None) -> list[Start]:
        """Settle what is open and return the starts; stretches without any sign of vLLM are left out."""
        self._close()
        draft = self.draft
        if self.wrapped and draft:
            draft.arguments = pairs("".join(self.wrapped))
        if self.shown and draft and not (draft.shown or draft.arguments or draft.config):
            draft.shown = self.shown  # the command is told after the log
        starts = [
            draft.record(given)
            for draft in self.drafts
            if draft.is_vllm
            or draft.has_failure
            or len(draft.tracebacks)
            or draft.status.read is not None
            or any(p.pid for p in draft.processes)
        ]
        return [replace(starts[0], left_out=self.left_out), *starts[1:]] if starts and self.left_out else starts

    def _counted(self, line: LogLine, among: Sequence[int]) -> tuple[list[tuple[LineFormat, Found]], list[_Meant]]:
        """What a line means: of one that holds what users wrote, nothing but that the server wrote it."""
        formats, symptoms = self._meanings(line.text, among)
        if not formats:
            return formats, symptoms
        formats = [
            (known, found)
            for known, found in formats
            if not (known.bare and line.has_header)
            and not (known.event == "waiting" and line.level == "DEBUG")
            and not (known.whole and (line.text[: found.start] + line.text[found.end :]).strip())
        ]
        quoted = [(known, found) for known, found in formats if known.quoted]
        return (quoted, []) if quoted else (formats, symptoms)

    def _meanings(
        self, text: str, among: Sequence[int] | None = None
    ) -> tuple[list[tuple[LineFormat, Found]], list[_Meant]]:
        """The line formats and the symptoms whose patterns a text holds."""
        formats: list[tuple[LineFormat, Found]] = []
        symptoms: list[_Meant] = []
        for found in self.catalog.patterns.find(text, among):
            for kind, name, index in self.catalog.meanings(found.pattern):
                if kind == "line":
                    formats.append((self.catalog.lines[index], found))
                elif kind == "signature":
                    symptoms.append(_Meant(name, index, self.catalog.symptoms[name].signatures[index], found))
                else:
                    symptoms.append(_Meant(name, -1 - index, self.catalog.symptoms[name].companions[index], found))
        return formats, symptoms

    def _takes_wrapped(self, line: LogLine) -> bool:
        """Take a further line of arguments that were wrapped in a paste."""
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
        """Keep a command or call that the text shows, with its further lines, for the start that follows it."""
        if line.level is not None or line.process.pid is not None:
            self.shown_is_open = False
            return False
        if self.shown_is_open and self.shown and self.shown.takes(line.text):
            return True
        begun = launch.begun(line.number, line.text) if line.process.rank is None else None
        if begun and line.region and launch.at_prompt(line.text) is None:
            begun = None  # a page shows more commands than the one that was run
        if begun and self.draft and self.draft.tracebacks.is_code(line):
            begun = None
        self.shown_is_open = begun is not None
        if begun:
            self.shown = begun
        return begun is not None

    def _draft_for(self, line: LogLine, formats: list[tuple[LineFormat, Found]]) -> Draft:
        """The start that a line belongs to: the current one, or a new one."""
        draft = self.draft
        is_usual = draft is not None and draft.has_logged and not (formats or self.shown)
        if draft and is_usual and line.region == draft.region and line.process in draft.processes:
            return draft  # nothing by which a new start shows
        if draft is None or self._begins_anew(draft, line, [known for known, _ in formats]):
            self._close()
            if draft and not draft.is_log:  # figures that prose quotes in front of the log
                self.drafts.pop()
                self.shown = self.shown or draft.shown
            draft = self.draft = Draft(self.file, line.number, Tracebacks(self.file))
            self.drafts.append(draft)
            if len(self.drafts) > _MAX_STARTS:
                del self.drafts[0]
                self.left_out += 1
        draft.has_logged = draft.has_logged or line.has_header or line.process.pid is not None
        if self.shown and not draft.is_vllm:
            if draft.shown is None and line.number - self.shown.line <= self.shown.lines + 3:
                draft.first_line = min(draft.first_line, self.shown.line)
            draft.shown, self.shown = self.shown, None
        draft.region = line.region
        return draft

    def _begins_anew(self, draft: Draft, line: LogLine, formats: list[LineFormat]) -> bool:
        process = line.process
        is_new = process not in draft.processes
        if draft.is_vllm and not draft.is_log and process.name == "APIServer":
            return True
        if process.name == "APIServer" and is_new and draft.is_vllm:
            return any(p.name == "APIServer" for p in draft.processes)
        if self.shown and draft.is_vllm:
            return True
        if (
            line.region != draft.region
            and draft.has_ended
            and process.pid not in {p.pid for p in draft.processes if p.pid}
        ):
            return True
        for known in formats:
            if known.event == "begin" and (draft.has_advanced or known.id in draft.seen):
                return draft.has_advanced or draft.has_ended or process.pid is None or is_new
            if known.phase == "configure" and known.id in draft.seen and draft.tracebacks.has_ended_one:
                return process.pid is None and not draft.has("ready")
            if known.event == "engine" and is_new:
                return draft.has("failed", "engine_ready") and not draft.has("begin") and bool(draft.config)
        return False

    def _take_message(self, draft: Draft, message: Message) -> None:
        """Match the symptoms on an exception's whole message."""
        own = len(message.line.text)
        for meant in self._meanings(message.text)[1]:
            if meant.found.start <= own or _is_validation(message):
                self._take_hit(draft, message.line, meant, message)

    def _take_hit(self, draft: Draft, line: LogLine, meant: _Meant, message: Message | None = None) -> None:
        signature, found = meant.signature, meant.found
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
        captures = {name: redact_text(value) for name, value in {**captured, **found.groups}.items()}
        traceback = message.traceback if message else None
        # What stands further down in an exception's words is quoted with the line that they begin in.
        start = found.start if found.start < len(line.text) else 0
        quote = log_lines.quote(self.file, line, start, found.end)
        draft.note_hit(
            Hit(
                meant.symptom, meant.signature_index, quote, captures,
                line.process, draft.phase, traceback, message.link if message else 0, depth, line.level,
                line.time or draft.last_time,
            )
        )  # fmt: skip

    def _take_format(self, draft: Draft, line: LogLine, known: LineFormat, found: Found) -> None:
        draft.is_vllm = draft.is_vllm or not known.quoted or known.event is not None
        draft.seen.add(known.id)
        figures: dict[str, float] = {}
        for name, printed in found.groups.items():
            unit = _unit(name)
            value = None if unit is None else number(printed)
            if value is not None:
                figures[name] = value
            elif unit is None and name not in draft.words:
                draft.words[name] = redact_text(printed)
        if "generation_tokens_per_s" in figures:
            _take_throughput(draft, line, figures, found.groups)
            return
        if "version" in found.groups:
            draft.version = draft.version or found.groups["version"].rstrip(".,")
        if "global_rank" in found.groups:
            draft.note_rank(line.process, int(found.groups["global_rank"]))
        if known.event == "joining":
            draft.note_joining(line, int(found.groups["global_rank"]), int(found.groups["local_rank"]))
        elif known.event == "met" and draft.met is None:
            draft.met = line.time
        if known.arguments and not draft.arguments:
            printed = line.text[found.end - 1 :]
            draft.arguments = pairs(printed)
            self.wrapped = [] if is_closed(printed) else [printed]
        if known.config and len(draft.config) < _MAX_SETTINGS:
            for name, value in pairs("{" + line.text[found.end :]).items():
                draft.config.setdefault(name, value)
        if known.event == "served":
            draft.served = line
        elif figures or known.phase or known.event:
            self._take_proof(draft, line, known, figures, log_lines.quote(self.file, line, found.start, found.end))

    def _take_proof(
        self, draft: Draft, line: LogLine, known: LineFormat, figures: Mapping[str, float], quote: Quote
    ) -> None:
        """What a quoted line adds: its figures, its phase, its event."""
        draft.note_readings(
            Reading(name, value, _unit(name) or "", None, line.process, quote) for name, value in figures.items()
        )
        if known.phase:
            _take_phase(draft, line, known, figures, quote)
        if known.event == "waiting":
            draft.note_waiting(line)
        if known.event and not (known.event == "wrapper_ready" and not draft.has("kv")):
            draft.note(known.event, quote)
            if known.event == "ready" and draft.ready_moment is None:
                draft.ready_moment = draft.last_moment
        if "kv_cache_tokens" in figures or "kv_cache_blocks" in figures:
            draft.note("kv", quote)

    def _note_warning(self, draft: Draft, line: LogLine) -> None:
        text = line.text.strip()
        if text in draft.warnings:
            draft.warnings[text][1] += 1
        elif text and len(draft.warnings) < _MAX_WARNINGS:
            draft.warnings[text] = [log_lines.quote(self.file, line), 1]

    def _close(self) -> None:
        if self.draft:
            for message in self.draft.tracebacks.close():
                self._take_message(self.draft, message)


def _is_validation(message: Message) -> bool:
    """Whether an exception's own words stand behind its first line, as pydantic writes them."""
    return "validation error" in message.line.text


def _take_throughput(draft: Draft, line: LogLine, figures: Mapping[str, float], words: Mapping[str, str]) -> None:
    draft.note_throughput(
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
        draft.served = line


def _take_phase(draft: Draft, line: LogLine, known: LineFormat, figures: Mapping[str, float], quote: Quote) -> None:
    order = PHASES.index(known.phase or "")
    draft.note_progress(line)
    if not draft.phases or order > PHASES.index(draft.phases[-1].name):
        draft.phases.append(Phase(PHASES[order], quote, draft.last_time, None, None))
    printed = figures.get(known.duration or "")
    if printed is None:
        return
    for index, phase in enumerate(draft.phases):
        if phase.name == known.phase and (phase.printed_seconds or 0.0) < printed:
            draft.phases[index] = Phase(phase.name, phase.first, phase.started, None, printed)


def _deepest(chain: list[Raised], signature: Signature) -> tuple[int, dict[str, str]] | None:
    """Depth and captures of the innermost frame that a signature asks for."""
    frames = [frame for raised in reversed(chain[1:]) for frame in raised.frames]
    frames += chain[0].frames if chain else ()
    for depth in range(len(frames) - 1, -1, -1):
        captured = _captured(signature.frames, frames[depth].path, frames[depth].function)
        if captured is not None:
            return depth, captured
    return None


@lru_cache(maxsize=1 << 16)
def _captured(wanted: tuple[str, ...], path: str, function: str) -> dict[str, str] | None:
    """What a frame is to a signature that asks for certain ones; None where it is not one of them.

    The same functions stand in traceback after traceback, and a thousand signatures ask.
    """
    path = path.replace("\\", "/")
    named = {"": function, ":": f"{path.rpartition('/')[2]}:{function}", "/": f"{path}:{function}"}
    for pattern, sign in map(_frame_pattern, wanted):
        match = pattern.fullmatch(named[sign])
        if match:
            return {name: value for name, value in match.groupdict().items() if value is not None}
    return None


@cache
def _frame_pattern(wanted: str) -> tuple[re.Pattern[str], str]:
    """A frame that is asked for, and the sign by which it names its file (":") or its path ("/") with its function."""
    return re.compile(wanted), "/" if "/" in wanted else ":" if ":" in wanted.replace("(?:", "") else ""


def _unit(name: str) -> str | None:
    """The unit that a figure's name ends in; None for a word."""
    if name in _ALSO_FIGURES:
        return _ALSO_FIGURES[name]
    return _UNITS.get(name.rsplit("_", 1)[-1]) if "_" in name else None
