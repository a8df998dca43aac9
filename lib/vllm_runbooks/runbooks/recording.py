"""Record logs, commands and observations as cases, without secrets."""

from __future__ import annotations

import contextlib
import io
import math
import re
import shlex
import shutil
import signal
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.display import to_json
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.evidence import Case, Document, Evidence, Expectation
from vllm_runbooks.core.files import OBSERVATION, NotStoredError, store
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import Answer, RunbookVerdict
from vllm_runbooks.core.redaction.redact import Redactor, redact_name, redact_record, redact_text
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.host.running import RedactedOutput, Show, SignalHolder, SupervisedCommand, holding
from vllm_runbooks.reading.evidence import decode

if TYPE_CHECKING:
    from vllm_runbooks.core.records import Runbook
    from vllm_runbooks.probe.records import Health
    from vllm_runbooks.probe.starts import Guarded

MAX_KEPT = 64 << 20
"""Bytes of output to keep, half from the beginning and half from the end."""
MAX_CASE = 256 << 20
"""Characters of a case's logs."""
_MAX_SAID = 2000
_NO_TEXT = "[vllm-runbooks record: not all of this is text; control characters are written as in \\x00]\n"
"""First line of binary output, which is then read as a log."""
_CONTROLS = [chr(code) for code in range(32) if not (9 <= code <= 13 or code == 27)]
_MAX_PLACES = 1000
_COMMAND = "command.sh"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


@dataclass(frozen=True)
class RecordedOutput:
    raw: bytes
    ending: str
    seconds: float


@dataclass(frozen=True)
class Recording:
    folder: Path
    case: Case
    answer: Answer
    """Current diagnosis."""
    verdict: RunbookVerdict
    secrets: Mapping[str, int]
    output: RecordedOutput | None = None


def record_command(
    folder: Path, command: Sequence[str], *, show: Show, seconds: float | None = None, vllm: str | None = None
) -> Recording:
    """Run the command and record its output as a case."""
    check_folder(folder)
    with holding() as signals:
        output = run_command(command, show=show, seconds=seconds)
        line = shlex.join(command)
        if not output.raw.strip():
            raise InputError(f"{command[0]}: printed nothing and {output.ending}; no case was written")
        evidence = Evidence((Document("startup.log", _lenient(output.raw, command[0])),), vllm=vllm)
        source = f"recorded with `vllm-runbooks record` on {_today()}; the command {output.ending}: {line}"
        return replace(_write(folder, evidence, source=source, only_copy=signals), output=output)


def record_logs(folder: Path, evidence: Evidence) -> Recording:
    """Record logs as a case that expects their current diagnosis."""
    return _write(folder, evidence, source=f"recorded with `vllm-runbooks record` on {_today()}")


def record_last_try(guarded: Guarded, folder: Path, *, say: Callable[[str], None]) -> None:
    """Record the last try of a launch as a case."""
    from vllm_runbooks.serve import guard

    source, ending = f"recorded with `vllm-runbooks serve` on {_today()}", f"; the server {guarded.attempts[-1].ending}"
    secrets = guard.SECRETS.get(guarded.id, "")
    _write(folder, guard.evidence(guarded), source=source, ending=ending, secrets=secrets)
    say(f"recorded as a case in {folder}, secrets replaced; review its `expect`")


def add_case(folder: Path, evidence: Evidence, expect: Expectation) -> Recording:
    """Record logs as a case with manually given expectations."""
    return _write(folder, evidence, source=f"added with `vllm-runbooks case add` on {_today()}", expect=expect)


def record_health(folder: Path, health: Health) -> Case:
    """Record an observation as a case that expects its current findings."""
    check_folder(folder)
    path = folder.absolute()
    # Twice, so that secrets found at the end of the document are replaced at its beginning, too.
    seen = redact_record(redact_record(health.observation))
    cause = health.cause
    about = f"{health.observation.model or 'a server'}, vLLM {health.vllm.version or 'unknown'}"
    case = Case(
        id=path.name,
        title=redact_text(cause.title if cause else f"{about}: no problems"),
        source=f"recorded with `vllm-runbooks probe` on {_today()}",
        vllm=health.vllm.version,
        files=[OBSERVATION],
        expect=Expectation(
            outcome=health.outcome,
            class_=None if cause else "ok",
            symptom=cause.id if cause else None,
            findings=[finding.id for finding in health.findings],
        ),
        runbooks=[name for name in (_PROBE_RUNBOOK,) if (folders.runbooks_dir() / f"{name}.ipynb").is_file()],
    )
    part = _part(path)
    try:
        part.mkdir(parents=True)
        store(part / OBSERVATION, f"{to_json(seen, indent=None)}\n")
        store(part / "case.yaml", _case_yaml(case, head=_SEEN))
        _load(part)
        part.rename(path)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}; use another folder") from None
    except NotStoredError as error:
        raise NotStoredError(str(error).replace(str(part), str(folder))) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return case


def _today() -> str:
    return datetime.now(tz=UTC).date().isoformat()


def _lenient(raw: bytes, where: str) -> str:
    """The output as text; binary output is kept too, as it cannot be recorded again."""
    try:
        return decode(raw, where)
    except InputError:
        return _NO_TEXT + raw.decode(errors="backslashreplace")


def _readable(text: str) -> str:
    """Escape control characters; after redaction, because they may be next to secrets."""
    if text.startswith(_NO_TEXT):
        for control in _CONTROLS:
            text = text.replace(control, f"\\x{ord(control):02x}")
    return text


# ---- output of a command


def run_command(command: Sequence[str], *, show: Show, seconds: float | None = None) -> RecordedOutput:
    """Run the command supervised; signals are forwarded and end it within five seconds, a second one immediately."""
    kept, live = OutputBuffer(MAX_KEPT // 2, MAX_KEPT - MAX_KEPT // 2), RedactedOutput(show, known=shlex.join(command))
    began = time.monotonic()
    stop_at = began + (seconds or math.inf)
    with SupervisedCommand(command) as running:
        for chunk in running.chunks(until=stop_at):
            kept.take(chunk)
            live.take(chunk)
            if time.monotonic() >= stop_at and running.stopped_by is None:
                running.stop(signal.SIGINT, "was stopped at its time limit")
        live.finish()
    head, tail, _, left_out = kept.ends()
    note = b"[vllm-runbooks record: %d bytes left out]\n" % left_out if left_out else b""
    return RecordedOutput(head + note + tail, running.ending, time.monotonic() - began)


class OutputBuffer:
    def __init__(self, head: int, tail: int) -> None:
        self._room, self._max_tail = head, tail
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._in_tail = self._lines = self._bytes = 0

    def take(self, chunk: bytes) -> None:
        if self._room:
            self._head.append(chunk[: self._room])
            chunk = chunk[self._room :]
            self._room -= len(self._head[-1])
        if chunk:
            self._tail.append(chunk)
            self._in_tail += len(chunk)
        while self._in_tail > self._max_tail and len(self._tail) > 1:
            dropped = self._tail.popleft()
            self._in_tail -= len(dropped)
            self._lines += dropped.count(b"\n")
            self._bytes += len(dropped)

    def ends(self) -> tuple[bytes, bytes, int, int]:
        """Both ends in whole lines, as part of a line may be part of a secret.

        Omitted lines and bytes.
        """
        head, tail = b"".join(self._head), b"".join(self._tail)
        if not self._bytes:
            return head, tail, 0, 0
        head_end, tail_start = head.rfind(b"\n") + 1, tail.find(b"\n") + 1
        dropped = head[head_end:] + tail[:tail_start]
        return head[:head_end], tail[tail_start:], self._lines + dropped.count(b"\n"), self._bytes + len(dropped)


# The folder


def _load(folder: Path) -> Case:
    from vllm_runbooks.runbooks import case_files

    return case_files.load_case(folder)


def check_folder(folder: Path) -> None:
    """Reject a folder that cannot be written, before anything is run."""
    path = folder.absolute()
    if not _ID.fullmatch(path.name):
        raise InputError(f"{folder}: its name is the case's id; use letters, digits, dots, hyphens and underscores")
    if redact_name(path.name) != path.name:
        raise InputError("the folder's name, which is the case's id, looks like a secret; use another")
    try:
        if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
            raise InputError(f"{folder}: already exists and is not overwritten; use another folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        probe = _part(path)
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise InputError(f"{folder}: cannot be created: {error.strerror}; use another folder") from None


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")


def _write(
    folder: Path,
    evidence: Evidence,
    *,
    source: str,
    ending: str = "",
    expect: Expectation | None = None,
    only_copy: SignalHolder | None = None,
    secrets: str = "",
) -> Recording:
    """Write the case's folder whole or not at all; the log of a command is stored first and stays."""
    if only_copy is None:
        check_folder(folder)
    path, logs = folder.absolute(), evidence.documents
    redactor, texts = Redactor(), list(_texts(logs, math.inf if only_copy else MAX_CASE))
    source, ending = " ".join(source.split()), " ".join(ending.split())
    for text in (secrets, source, ending, evidence.command or "", *texts):
        redactor.learn([text])
    redactor.learn_names(d.name for d in logs)
    names = _file_names(logs, redactor)
    texts = [redactor.text(text) for text in texts]
    source = redactor.text(source)
    if only_copy:
        texts = [_readable(text) for text in texts]
    else:
        source += f" from {', '.join(redactor.name(d.name) for d in logs)}{redactor.text(ending)}"
    evidence = replace(evidence, documents=tuple(map(Document, names, texts)), case=None)
    part, is_safe = _part(path), False
    try:
        part.mkdir(parents=only_copy is not None)
        for name, text in zip(names, texts, strict=True):
            store(part / name, text)
        if evidence.command is not None:
            store(part / _COMMAND, redactor.text(evidence.command))
        is_safe = only_copy is not None
        with _kept(folder, part, only_copy) if only_copy else contextlib.nullcontext():
            answer = diagnosing.diagnose(evidence)
            case = Case(
                id=path.name,
                title=_title(answer) if expect is None else f"{redactor.name(logs[0].name)}: {_expected(expect)}",
                source=source[:_MAX_SAID],
                vllm=evidence.vllm,
                files=names,
                command=None if evidence.command is None else _COMMAND,
                expect=expect or _as_found(answer),
                runbooks=_runbooks([_expected(expect)] if expect else [f.symptom for f in answer.findings]),
            )
            store(part / "case.yaml", _case_yaml(case, head=_FOUND if expect is None else _TOLD))
            # Read it back, to notice what the file format cannot express.
            read = _load(part)
            verdict = diagnosing.verdict(answer, replace(evidence, case=read))
        if only_copy:
            if (place := _placed(folder, part)) != folder:
                raise RunbooksError(
                    f"{folder}: was created by another process while the command ran; the case is in {place}: move it"
                )
        else:
            part.rename(path)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}; use another folder") from None
    finally:
        if not is_safe:
            shutil.rmtree(part, ignore_errors=True)
    return Recording(folder, read, answer, verdict, dict(redactor.counts))


@contextlib.contextmanager
def _kept(folder: Path, part: Path, signals: SignalHolder) -> Iterator[None]:
    """Keep the log, without `case.yaml`, if the diagnosis fails or is interrupted."""
    try:
        signals.release()
        yield
        signals.hold()
    except BaseException as error:
        signals.hold()
        with contextlib.suppress(OSError):
            (part / "case.yaml").unlink(missing_ok=True)
        place = _placed(folder, part)
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(f"{place}: contains the log; create a case from it with --log") from None
        if not isinstance(error, Exception):
            raise
        reason = f"{type(error).__name__}: {error}"
        raise RunbooksError(
            f"{place}: contains the log, but no case could be created ({reason}); report it, and keep the log"
        ) from error


def _placed(folder: Path, part: Path) -> Path:
    """Move the folder to its place, or to FOLDER.1 and so on if that exists; returns the path."""
    path = folder.absolute()
    for number in range(_MAX_PLACES):
        place = path.with_name(f"{path.name}.{number}") if number else path
        if number and (place.exists() or place.is_symlink()):
            continue
        # A folder is renamed to nothing, or to an empty folder: nothing is overwritten.
        with contextlib.suppress(OSError):
            part.rename(place)
            return folder.with_name(place.name) if number and folder.name else place if number else folder
    return part


def _title(answer: Answer) -> str:
    if answer.root_cause:
        return answer.root_cause.title
    return f"{(answer.facts.model or 'launch').rpartition('/')[2]}: {answer.outcome.value}"


def _expected(expect: Expectation) -> str:
    return expect.symptom or expect.class_ or ""


def _texts(documents: Sequence[Document], limit: float) -> Iterator[str]:
    length = 0
    for log in documents:
        pieces = []
        for piece in log.pieces():
            pieces.append(piece)
            length += len(piece)
            if length > limit:
                raise InputError(f"{log.name}: larger than {MAX_CASE >> 20} MiB; cut out the launch to keep")
        yield "".join(pieces)


def _file_names(documents: Sequence[Document], redactor: Redactor) -> list[str]:
    if len(documents) == 1:
        return ["startup.log"]
    names: list[str] = []
    for log in documents:
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", redactor.name(log.name)).lstrip(".-")[:80] or "startup.log"
        name, number = stem, 2
        while name in (*names, "case.yaml", _COMMAND):
            name, number = f"{number}-{stem}", number + 1
        names.append(name)
    return names


def _as_found(answer: Answer) -> Expectation:
    """Expect the current diagnosis; a failure without a cause is not expected."""
    class_ = answer.root_cause.class_ if answer.root_cause else "ok" if answer.outcome.is_healthy else None
    facts = {f.name: getattr(answer.facts, f.name) for f in fields(answer.facts)}
    return Expectation(
        outcome=answer.outcome,
        class_=class_,
        facts={name: value for name, value in facts.items() if value is not None},
        starts=[s.outcome for s in answer.starts] if len(answer.starts) > 1 else None,
    )


def _runbooks(symptoms: Sequence[str]) -> list[str]:
    """Runbooks of the symptoms, else of their class, else the one with the most symptoms."""
    catalog_symptoms = catalog.load_catalog().symptoms
    named = {catalog_symptoms[symptom].runbook for symptom in symptoms if symptom in catalog_symptoms}
    usable = sorted(filter(_reads_logs, _all_runbooks()), key=lambda runbook: -len(runbook.symptoms))
    serving = [r for r in usable if r.id in named or not {*symptoms}.isdisjoint(r.symptoms)]
    if not serving:
        classes = {_class(symptom) for symptom in symptoms}
        serving = [r for r in usable if not classes.isdisjoint(map(_class, r.symptoms))]
    return [r.id for r in serving or usable[:1]]


def _class(symptom: str) -> str:
    return ".".join(symptom.split(".")[:2])


def _all_runbooks() -> Iterator[Runbook]:
    from vllm_runbooks.runbooks.notebook import load_runbook

    for path in sorted(folders.runbooks_dir().glob("*.ipynb")):
        with contextlib.suppress(InputError):
            yield load_runbook(path)


def _reads_logs(runbook: Runbook) -> bool:
    takes = {parameter.name for parameter in runbook.parameters}
    return "evidence" in takes and not runbook.needs_gpu and not runbook.side_effects


_FOUND = """\
# Written by `vllm-runbooks record`. `expect` is the diagnosis at that time, not reviewed:
# correct it, remove what does not matter, then delete this comment.
"""
_SEEN = """\
# Written by `vllm-runbooks probe --record`. `expect` is the result at that time, not reviewed.
"""
_PROBE_RUNBOOK = "is-it-healthy"
_TOLD = """\
# Written by `vllm-runbooks case add`: `expect` is what a person says of this log, not what the diagnosis says.
"""


def _case_yaml(case: Case, *, head: str) -> str:
    from ruamel.yaml import YAML

    writer = YAML(pure=True)
    writer.width = 4096
    data = document(case)
    data["expect"] = {name: value for name, value in data["expect"].items() if value not in (None, {})}
    text = io.StringIO()
    writer.dump({name: value for name, value in data.items() if value is not None}, text)
    return head + text.getvalue()
