"""Combine the lines of a launch: release, arguments, timeline, figures by rank, outcome."""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from vllm_runbooks.catalog import options, sites
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.printed import Moment, moment, seconds_between
from vllm_runbooks.core.records import (
    Facts,
    LoggedWarning,
    MinuteCounts,
    NodePosition,
    Outcome,
    Phase,
    PrintedFigure,
    Process,
    ProcessKey,
    Quote,
    RankFacts,
    Release,
    ServerRun,
    SymptomHit,
    Throughput,
    Traceback,
)
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.reading.startup_log import log_lines, routine
from vllm_runbooks.reading.startup_log.launch import ShownLaunch
from vllm_runbooks.reading.startup_log.log_lines import LogLine
from vllm_runbooks.reading.startup_log.ray_status import RayStatus
from vllm_runbooks.reading.startup_log.tracebacks import Tracebacks

_MAX_EVENTS, _MAX_READINGS, _MAX_SAMPLES, _MAX_PROCESSES, _MAX_ALIKE = 500, 20_000, 4096, 4096, 400
"""Limits per launch: a log may be longer than memory."""
_MAX_MINUTES = 20_000
"""Two weeks."""
_MAX_SOURCES = 2000
"""No release has many more source lines."""
_LAST = 3
"""Lines without an error that a process may write after the one that ends it."""
_MIN_WAITED = 60.0
"""Seconds without progress after which a launch hangs, if its lines have times."""
_WORKER_RANK = re.compile(r"_(?P<kind>PP|TP)(?P<rank>\d{1,5})", re.ASCII)


_VLLM_PATH = re.compile(r"[/\\]vllm[/\\]")
_CLIENT_PATH = re.compile(r"-packages[/\\](?:openai|anthropic|litellm|langchain_openai)[/\\]")


class _Joining(NamedTuple):
    line: int
    time: str | None
    rank: int
    local_rank: int


@dataclass
class LaunchDraft:
    """A launch while it is read."""

    file: int
    first_line: int
    tracebacks: Tracebacks
    shown_launch: ShownLaunch | None = None
    """The command or call in the text before it."""
    last_line: int = 0
    region: int = 0
    version: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    processes: dict[Process, None] = field(default_factory=dict)
    ranks: dict[Process, int] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    readings: list[PrintedFigure] = field(default_factory=list)
    throughput: list[Throughput] = field(default_factory=list)
    throughput_step: int = 1
    """Sampling interval of periodic lines."""
    throughput_lines: int = 0
    last_sample: int = -1
    """Number of the last periodic line."""
    fastest: float | None = None
    minutes: dict[str, Counter[str]] = field(default_factory=dict)
    """Counts by minute and field of `MinuteCounts`."""
    counted: Counter[str] = field(default_factory=Counter)
    """The same of all minutes."""
    last_errors: dict[Process, tuple[str | None, str | None, str]] = field(default_factory=dict)
    """Time, source line and first line of the last message of level ERROR."""
    served: LogLine | None = None
    """Last line that proves a served request."""
    warnings: dict[str, list[Any]] = field(default_factory=dict)
    hits_by: dict[tuple[str, int], list[SymptomHit]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    events: dict[str, list[Quote]] = field(default_factory=dict)
    progress: dict[int, int] = field(default_factory=dict)
    calm: dict[int, deque[int]] = field(default_factory=dict)
    """Last lines below ERROR by pid (0 without)."""
    wrote: dict[ProcessKey, int] = field(default_factory=dict)
    joining: dict[ProcessKey, _Joining] = field(default_factory=dict)
    met: str | None = None
    """Time at which the first process had joined."""
    last: LogLine | None = None
    status: RayStatus = field(default_factory=RayStatus)
    waited: dict[int, Moment | None] = field(default_factory=dict)
    """Time by number of the lines that report waiting."""
    sources: set[str] = field(default_factory=set)
    last_time: str | None = None
    first_moment: Moment | None = None
    ready_moment: Moment | None = None
    """Time of the last dated line before ready, if the ready line has none."""
    is_vllm: bool = False
    has_logged: bool = False
    """Whether a logger or a named process wrote a line."""

    @property
    def is_log(self) -> bool:
        """Whether it is more than figures of unknown origin."""
        is_told = self.has_failure or self.served or self.events.keys() - {"kv"}
        return self.has_logged or bool(is_told) or len(self.tracebacks) > 0

    @property
    def has_failure(self) -> bool:
        """Whether a symptom matched, not only a companion."""
        return any(signature >= 0 for _, signature in self.hits_by)

    def note_hit(self, hit: SymptomHit) -> None:
        """Record a hit; of very many equal ones, the first and the last."""
        hits = self.hits_by.setdefault((hit.symptom, hit.signature), [])
        if len(hits) >= _MAX_ALIKE:
            del hits[_MAX_ALIKE // 2]
        hits.append(hit)

    def note_rank(self, process: Process, rank: int) -> None:
        if len(self.ranks) < _MAX_PROCESSES:
            self.ranks.setdefault(process, rank)

    def note_joining(self, line: LogLine, rank: int, local_rank: int) -> None:
        if len(self.joining) < _MAX_PROCESSES:
            self.joining[line.process.place] = _Joining(line.number, line.time, rank, local_rank)

    def note_progress(self, line: LogLine) -> None:
        pid = line.process.pid or 0
        if pid in self.progress or len(self.progress) < _MAX_PROCESSES:
            self.progress[pid] = line.number

    def note_waiting(self, line: LogLine) -> None:
        if len(self.waited) >= _MAX_EVENTS:
            self.waited.popitem()
        self.waited[line.number] = moment(line.time)

    @property
    def hits(self) -> list[SymptomHit]:
        """Hits with the indices of the kept tracebacks."""
        places = self.tracebacks.positions()
        return [
            replace(hit, traceback=None if hit.traceback is None else places.get(hit.traceback))
            for hits in self.hits_by.values()
            for hit in hits
        ]

    @property
    def phase(self) -> str | None:
        return self.phases[-1].name if self.phases else None

    def has(self, *events: str) -> bool:
        return any(event in self.events or (event == "served" and self.served is not None) for event in events)

    def meet(self, line: LogLine) -> None:
        if line.process not in self.processes and len(self.processes) < _MAX_PROCESSES:
            self.processes[line.process] = None
        if line.time is not None and line.time != self.last_time:
            self.last_time = line.time
            self.first_moment = self.first_moment or moment(line.time)
        if line.level is not None:
            self.last = line
        place = line.process.place
        # A library's own message, without a pid, belongs to no known process.
        is_told = line.level is not None or place[0] is not None
        if is_told and (place in self.wrote or len(self.wrote) < _MAX_PROCESSES):
            self.wrote[place] = line.number
        if line.source is not None and line.source not in self.sources and len(self.sources) < _MAX_SOURCES:
            self.sources.add(line.source)

    def note_readings(self, readings: Iterable[PrintedFigure]) -> None:
        if len(self.readings) < _MAX_READINGS:
            self.readings += readings

    def note_throughput(self, sample: Throughput) -> None:
        """Note a periodic line once; of very many, every second, fourth, and so on."""
        if sample.line <= self.last_sample:
            return
        self.last_sample = sample.line
        self.count("preemptions", sample.time, sample.preemptions or 0)
        self.fastest = max(self.fastest or 0.0, sample.generation_tokens_per_s)
        if self.throughput_lines % self.throughput_step == 0:
            self._keep(sample)
        self.throughput_lines += 1

    def note_statistics(self, lines: Sequence[routine.Statistic]) -> None:
        """Note periodic lines in bulk, as `note_throughput` does."""
        lines = [line for line in lines if line[0] > self.last_sample]
        if not lines:
            return
        self.last_sample = lines[-1][0]
        for time, preemptions in routine.preemptions(lines):
            self.count("preemptions", time, preemptions)
        self.fastest = max(self.fastest or 0.0, routine.fastest(lines))
        for number, line in enumerate(lines, self.throughput_lines):
            if number % self.throughput_step == 0:
                self._keep(routine.throughput(*line))
        self.throughput_lines += len(lines)

    def _keep(self, sample: Throughput) -> None:
        if len(self.throughput) >= _MAX_SAMPLES:
            del self.throughput[1::2]
            self.throughput_step *= 2
        self.throughput.append(sample)

    def count(self, what: str, time: str | None, number: int = 1) -> None:
        """Count something in the minute of a printed time, or of the last one."""
        if not number:
            return
        self.counted[what] += number
        if minute := (time or self.last_time or "").rpartition(":")[0]:
            if minute not in self.minutes and len(self.minutes) >= _MAX_MINUTES:
                del self.minutes[next(iter(self.minutes))]
            self.minutes.setdefault(minute, Counter())[what] += number

    def count_error(self, line: LogLine) -> None:
        """Count a message of a running server; its further lines have the same process, time and source line."""
        *place, first = self.last_errors.get(line.process, (None, None, ""))
        if place == [line.time, line.source] and line.text != first:
            return
        if line.process in self.last_errors or len(self.last_errors) < _MAX_PROCESSES:
            self.last_errors[line.process] = line.time, line.source, line.text
        if self.is_running:
            self.count("errors", line.time)

    def note_calm(self, pid: int, line: int) -> None:
        calm = self.calm.get(pid)
        if calm is None:
            if len(self.calm) >= _MAX_PROCESSES:
                return
            calm = self.calm[pid] = deque(maxlen=_LAST + 1)
        calm.append(line)

    def note(self, event: str, quote: Quote) -> None:
        """Note an event; of very many, the first and the last."""
        met = self.events.setdefault(event, [])
        if len(met) >= _MAX_EVENTS:
            met.pop()
        met.append(quote)

    @property
    def has_advanced(self) -> bool:
        """Whether it got beyond its arguments, or ended."""
        is_beyond = self.phase not in (None, "configure")
        return is_beyond or self.has("engine", "failed", "ready", "engine_ready", "stopping")

    @property
    def is_running(self) -> bool:
        """Whether it has served, or was ready to."""
        return self.throughput_lines > 0 or self.has("ready", "served")

    @property
    def has_ended(self) -> bool:
        """Whether a further launch may follow."""
        return self.has("failed", "ready", "served", "wrapper_ready", "stopping") or len(self.tracebacks) > 0

    def record(self, release: str | None, named: str | None = None) -> ServerRun:
        """Return the launch; the caller gave `release`, and the text names `named`."""
        arguments = {**(self.shown_launch.arguments if self.shown_launch else {}), **self.arguments}
        ranks = _ranked(self)
        readings = tuple(
            PrintedFigure(r.name, r.value, r.unit, ranks.get(r.process), r.process, r.quote) for r in self.readings
        )
        tracebacks = self.tracebacks.records()
        if self.served:
            self.events["served"] = [log_lines.quote(self.file, self.served)]
        outcome, quote = _outcome(self, tracebacks)
        return ServerRun(
            file=self.file,
            first_line=self.first_line,
            last_line=max(self.last_line, self.first_line),
            outcome=outcome,
            outcome_quote=quote,
            release=_release(self, tracebacks, release, named),
            command=redact_text(self.shown_launch.command) if self.shown_launch and self.shown_launch.command else None,
            arguments=arguments,
            processes=tuple(self.processes),
            timeline=_timeline(self),
            readings=readings,
            throughput=tuple(self.throughput),
            minutes=tuple(
                MinuteCounts(minute, counts["preemptions"], counts["errors"], counts["failed_requests"])
                for minute, counts in self.minutes.items()
            ),
            warnings=tuple(LoggedWarning(quote, count) for quote, count in self.warnings.values()),
            tracebacks=tracebacks,
            hits=tuple(sorted(self.hits, key=lambda hit: (hit.quote.line, hit.quote.column))),
            facts=_facts(self, readings, arguments, tracebacks),
            ranks=_rank_facts(readings),
            progress=dict(self.progress),
            last_lines=dict(self.wrote),
            seat=_seat(self, arguments),
            cluster=self.status.record(),
        )


def _seat(draft: LaunchDraft, arguments: Mapping[str, Any]) -> NodePosition:
    words = draft.words
    waiting = {entry.rank: entry.time for place, entry in draft.joining.items() if draft.wrote.get(place) == entry.line}
    on_their_hosts = [entry.local_rank for entry in draft.joining.values()]
    return NodePosition(
        nodes=_integer(arguments.get("nnodes")),
        node_rank=_integer(words.get("node_rank"), arguments.get("node_rank")),
        world_size=_integer(words.get("world_size")),
        local_world_size=_integer(words.get("local_world_size")),
        ranks=tuple(sorted(set(draft.ranks.values()))),
        meeting_point=words.get("meeting_point"),
        waiting=dict(sorted(waiting.items())),
        is_mixed=len(set(on_their_hosts)) < len(on_their_hosts) or any(process.ip for process in draft.processes),
        is_headless="headless" in words,
        met=draft.met,
        last_time=draft.last_time,
        last=log_lines.quote(draft.file, draft.last) if draft.last is not None else None,
    )


def _release(draft: LaunchDraft, tracebacks: tuple[Traceback, ...], release: str | None, named: str | None) -> Release:
    frames = (frame for traceback in tracebacks for raised in traceback.chain for frame in raised.frames)
    fit = sites.fit(filter(None, map(sites.site, draft.sources)), frames)
    candidates = fit.candidates or ((fit.release,) if fit.release else ())
    version, source = draft.version, "printed"
    if release and (version or "").partition("+")[0] != release:
        version, source = release, "given"
    elif version:
        pass
    elif named and (not fit.is_known or named in candidates):
        version, source = named, "named"
    elif fit.release:
        version, source = fit.release, "call-sites"
    else:
        version, source = fit.closest, "closest" if fit.closest else "call-sites" if candidates else "unknown"
    others = () if candidates == (version,) or (source != "call-sites" and version in candidates) else candidates
    return Release(version, source, others, _data_for(version, candidates))


def _data_for(version: str | None, candidates: tuple[str, ...]) -> str | None:
    """The first of them that has data: an untagged build has that of the release it is based on."""
    for candidate in (version, *candidates[-1:]):
        with suppress(InputError):
            if candidate:
                return options.nearest(candidate).version
    return None


def _timeline(draft: LaunchDraft) -> tuple[Phase, ...]:
    moments = [moment(phase.started) for phase in draft.phases]
    ends = [*moments[1:], draft.ready_moment]
    return tuple(
        Phase(p.name, p.first, p.started, seconds_between(begin, end), p.printed_seconds)
        for p, begin, end in zip(draft.phases, moments, ends, strict=False)
    )


def _outcome(draft: LaunchDraft, tracebacks: tuple[Traceback, ...]) -> tuple[Outcome, Quote | None]:
    first = {event: quotes[0] for event, quotes in draft.events.items()}
    last = {event: quotes[-1] for event, quotes in draft.events.items()}
    ready = first.get("ready") or first.get("wrapper_ready")
    if ready is None:  # a server opens its port when its engine is ready; a script has none
        ready = first.get("opening" if _is_server(draft) else "engine_ready")
    stopping = first.get("stopping")
    ended = _ending(draft, tracebacks, ready)
    if ended is not None:
        return Outcome.FAILED, ended
    signs = (quote.line for quote in (last.get("served"), stopping, ready, last.get("goes_on")) if quote)
    moved = max((*draft.progress.values(), *signs), default=0)
    if "hung" in last and last["hung"].line > moved:  # reported by a watcher of the processes
        return Outcome.HUNG, last["hung"]
    waits = [quote for quote in draft.events.get("waiting", []) if quote.line > moved]
    waited = [draft.waited.get(waits[index].line) for index in (0, -1)] if len(waits) >= 2 else []
    seconds = seconds_between(*waited) if waited else 0.0
    if seconds is None or seconds >= _MIN_WAITED:
        return Outcome.HUNG, waits[-1]
    if "served" in last:
        return Outcome.RUNNING, last["served"]
    if ready is not None:
        return Outcome.READY, ready
    return (Outcome.FAILED, stopping) if stopping else (Outcome.UNKNOWN, None)


def _is_server(draft: LaunchDraft) -> bool:
    """Whether an API server follows the engine, so that a ready engine is not enough."""
    is_named = any((process.name or "").startswith(("APIServer", "ApiServer")) for process in draft.processes)
    return is_named or bool(draft.seen & {"server-begin", "opening", "server-version", "banner-version"})


def _ending(draft: LaunchDraft, tracebacks: tuple[Traceback, ...], ready: Quote | None) -> Quote | None:
    """Line that proves the end of the server, if any: after a clean stop every error is part of stopping."""
    stopping, served = draft.events.get("stopping"), draft.events.get("served")
    limit = stopping[0].line if stopping and ready and stopping[0].line > ready.line else math.inf
    since = ready.line if ready else 0
    ends = [quote for quote in draft.events.get("failed", []) if quote.line > since]
    alive = max(since, served[-1].line if served else 0)
    for traceback in tracebacks:
        quote, pid = traceback.chain[-1].quote, traceback.process.pid or 0
        went_on = draft.progress.get(pid, 0) > quote.line or quote.line < alive
        if traceback.logged:
            calm = draft.calm.get(pid, ())
            went_on |= bool(ready) or traceback.is_mild or sum(line > quote.line for line in calm) > _LAST
        if not (traceback.ignored or went_on or _is_of_a_client(draft, traceback)):
            ends.append(quote)
    return min((quote for quote in ends if quote.line < limit), key=lambda quote: quote.line, default=None)


def _is_of_a_client(draft: LaunchDraft, traceback: Traceback) -> bool:
    """Whether an exception is of a program that uses vLLM: of an API client, or of a script whose engine is ready."""
    frames = [frame for raised in traceback.chain for frame in raised.frames]
    if not frames or traceback.logged or any(_VLLM_PATH.search(frame.path) for frame in frames):
        return False
    is_offline = draft.has("engine_ready", "served") and not (draft.has("ready", "opening") or _is_server(draft))
    is_main = traceback.process.pid is None and traceback.process.rank is None
    return (is_offline and is_main) or (draft.is_vllm and any(_CLIENT_PATH.search(frame.path) for frame in frames))


def _meaning(tokens: float | None, concurrency: float | None, per_request: float | None) -> str | None:
    """Meaning of the printed token count (`kv_cache_utils.py`).

    It is slots of a layer group, or concurrency times length.
    """
    if not tokens or not concurrency or not per_request:
        return None
    full = concurrency * per_request
    tolerance = 0.006 / concurrency + 0.0005
    return "full-length" if abs(tokens - full) <= full * tolerance else "slots"


_BUILD = re.compile(r"\+(cpu|rocm|xpu|tpu|neuron)", re.ASCII)
"""Platform in a release's suffix, as in `0.11.0+rocm641`."""
_DEVICE = re.compile(r"\b(cpu|xpu|tpu|hpu|neuron)\b", re.ASCII)
"""Platform in `device_config`; PyTorch calls a ROCm device "cuda" too."""
_PLATFORM_FILE = re.compile(
    r"vllm/(?:\w{1,20}/){1,4}(?:(cpu|tpu|xpu|hpu|neuron)_(?:worker|model_runner|executor)|"
    r"(?<=platforms/)(cpu|rocm|tpu|xpu|hpu|neuron))\.py\Z",
    re.ASCII,
)
"""File that runs on this platform only."""
_PLATFORM_SOURCE = re.compile(r"\b(cpu|tpu|xpu|hpu|neuron)_(?:worker|model_runner|executor)\.py:", re.ASCII)
"""The same file as a line's source, `cpu_worker.py:255`."""
_OF_AMD = frozenset({"hip", "HIP"})
_OF_HIP = re.compile(r"\b(HIP) (?:out of memory|error|driver error)", re.ASCII)


def _platform(draft: LaunchDraft, tracebacks: tuple[Traceback, ...]) -> str | None:
    """Platform that vLLM reports, else the one of its build, its device or its files; None if unknown."""
    printed = draft.words.get("platform")
    if printed is not None:
        return "rocm" if printed in _OF_AMD else printed.lower()
    frames = (frame for traceback in tracebacks for raised in traceback.chain for frame in raised.frames)
    messages = (raised.message for traceback in tracebacks for raised in traceback.chain)
    searched: tuple[tuple[re.Pattern[str], Any], ...] = (
        (_BUILD, draft.version),
        (_DEVICE, draft.config.get("device_config")),
        *((_PLATFORM_FILE, frame.path) for frame in frames),
        *((_PLATFORM_SOURCE, source) for source in sorted(draft.sources)),
        *((_OF_HIP, message) for message in messages),
    )
    matches = (pattern.search(text) for pattern, text in searched if isinstance(text, str))
    found = next((next(filter(None, match.groups())) for match in matches if match), None)
    return "rocm" if found in _OF_AMD else found


def _facts(
    draft: LaunchDraft,
    readings: tuple[PrintedFigure, ...],
    arguments: Mapping[str, Any],
    tracebacks: tuple[Traceback, ...],
) -> Facts:
    by_name: dict[str, list[float]] = {}
    for reading in readings:
        by_name.setdefault(reading.name, []).append(reading.value)

    def largest(name: str) -> float | None:
        return max(by_name[name], default=None) if name in by_name else None

    def smallest(name: str) -> float | None:
        return min(by_name[name], default=None) if name in by_name else None

    config, words = draft.config, draft.words
    blocks, tokens = smallest("kv_cache_blocks"), smallest("kv_cache_tokens")
    concurrency, per_request = smallest("max_concurrency"), smallest("max_concurrency_tokens")
    printed_length = largest("max_model_len")
    max_model_len = _integer(config.get("max_seq_len"), printed_length, arguments.get("max_model_len"), per_request)
    if tokens is None and blocks:
        block_tokens = _integer(arguments.get("block_size"))
        if concurrency and (per_request or max_model_len):
            block_tokens = round(concurrency * (per_request or max_model_len or 0) / blocks) or block_tokens
        tokens = blocks * block_tokens if block_tokens else None
    return Facts(
        weights_gib=_float(largest("weights_gib"), largest("profiled_weights_gib")),
        kv_cache_gib=smallest("kv_cache_gib"),
        kv_cache_tokens=_integer(tokens),
        kv_cache_tokens_meaning=_meaning(tokens, concurrency, per_request or max_model_len),
        kv_cache_blocks=_integer(blocks),
        max_concurrency=concurrency,
        max_concurrency_tokens=_integer(per_request),
        cuda_graph_gib=largest("cuda_graph_gib"),
        cuda_graph_estimated_gib=largest("cuda_graph_estimated_gib"),
        activation_gib=largest("activation_gib"),
        non_torch_gib=largest("non_torch_gib"),
        gpu_total_gib=smallest("gpu_total_gib"),
        gpu_memory_utilization=_float(arguments.get("gpu_memory_utilization"), largest("gpu_memory_utilization")),
        max_model_len=max_model_len,
        tensor_parallel_size=_integer(
            config.get("tensor_parallel_size"),
            arguments.get("tensor_parallel_size"),
            1 if words.get("world_size") == "1" else None,
        ),
        pipeline_parallel_size=_integer(config.get("pipeline_parallel_size"), arguments.get("pipeline_parallel_size")),
        data_parallel_size=_integer(config.get("data_parallel_size"), arguments.get("data_parallel_size")),
        executor_backend=_word(
            words.get("executor_backend"), arguments.get("distributed_executor_backend"), _executor(draft)
        ),
        model=_word(arguments.get("model"), config.get("model"), arguments.get("model_tag"), words.get("model")),
        architecture=_word(words.get("architecture")),
        quantization=_word(config.get("quantization"), arguments.get("quantization")),
        platform=_platform(draft, tracebacks),
        load_seconds=largest("load_seconds"),
        startup_seconds=seconds_between(draft.first_moment, draft.ready_moment),
        generation_tokens_per_s_max=draft.fastest,
        **+draft.counted,
    )


def _integer(*values: Any) -> int | None:
    for value in values:
        if isinstance(value, str) and value.isascii() and value.isdigit():
            return int(value[:18])
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18:
            return int(value)
    return None


def _float(*values: Any) -> float | None:
    numbers = (value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool))
    return next((float(number) for number in numbers if abs(number) < 1e18), None)


def _word(*values: Any) -> str | None:
    return next((value for value in values if isinstance(value, str) and value and value != "None"), None)


def _executor(draft: LaunchDraft) -> str | None:
    names = {process.name or "" for process in draft.processes}
    is_mp = any(name.startswith(("Worker_TP", "Worker_PP", "VllmWorker")) for name in names)
    return "ray" if any(name.startswith("RayWorker") for name in names) else "mp" if is_mp else None


def _ranked(draft: LaunchDraft) -> dict[Process, int | None]:
    """Rank of each process that printed a figure: as assigned in the log, else by name, else by elimination."""
    holders = list(dict.fromkeys(reading.process for reading in draft.readings if reading.name != "max_model_len"))
    tensor = _integer(draft.config.get("tensor_parallel_size"))
    ranks = {process: draft.ranks.get(process, process.rank) for process in holders}
    for process in holders:
        named = {match["kind"]: int(match["rank"]) for match in _WORKER_RANK.finditer(process.name or "")}
        if ranks[process] is None and named and ("PP" not in named or tensor):
            ranks[process] = named.get("PP", 0) * (tensor or 0) + named.get("TP", 0)
    unknown = [process for process in holders if ranks[process] is None]
    workers = [process for process in unknown if (process.name or "").startswith("VllmWorkerProcess")]
    if workers and len(holders) == len(unknown) == 2:  # the other one is the driver, which is rank 0
        return {process: int(process in workers) for process in holders}
    if len(holders) == 1 and not workers and ranks[holders[0]] is None and tensor == 1:
        return {holders[0]: 0}
    return ranks


def _rank_facts(readings: tuple[PrintedFigure, ...]) -> tuple[RankFacts, ...]:
    names = {f.name for f in fields(RankFacts)} - {"rank", "process", "pid"}
    rows: dict[tuple[int | None, Process], dict[str, float]] = {}
    for reading in readings:
        if reading.name in names:
            rows.setdefault((reading.rank, reading.process), {})[reading.name] = reading.value
    ordered = sorted(rows.items(), key=lambda row: (row[0][0] is None, row[0][0] or 0))
    return tuple(RankFacts(rank, process.name, process.pid, **values) for (rank, process), values in ordered)
