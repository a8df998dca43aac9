"""Reports of a job: a text file for Prometheus' node exporter, and a webhook.

A webhook's address is a secret: it comes from a variable and is never printed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from vllm_runbooks.core.display import SCHEMA
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import store
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.core.redaction.redact import redact_record
from vllm_runbooks.schedule import policy, web
from vllm_runbooks.schedule.records import JobStanding, ScheduledJob, StatusChange

TIMEOUT_S = 10.0
"""Timeout of a try, up to the last header of the answer, in seconds."""
_WAITS_S = (1.0, 4.0)
"""Before the second try, and before the third."""
_LONGEST_WAIT_S = 30.0
_AGAIN = 429
_MOST_RUNS = 200
"""Most subjects in the text file; more would burden Prometheus."""


@dataclass(frozen=True)
class JobMetric:
    """One of our metrics."""

    name: str
    kind: str
    help: str


METRICS = {
    short: JobMetric(f"vllm_runbooks_job_{short}", kind, help_)
    for short, kind, help_ in (
        ("last_run_timestamp_seconds", "gauge", "Time at which the last run of the job ended."),
        ("last_success_timestamp_seconds", "gauge", "Time at which the last successful run ended."),
        ("next_run_timestamp_seconds", "gauge", "The first planned time after the last run."),
        ("timeout_seconds", "gauge", "Timeout per run."),
        ("duration_seconds", "gauge", "Duration of the last run."),
        ("verdict", "gauge", "1 for the verdict of the last run, 0 for the others."),
        ("run_verdict", "gauge", "1 for the verdict of each part of the last run."),
        (
            "missed_total",
            "counter",
            "Planned times without their own run, including those that a later run replaced.",
        ),
    )
}
"""Metrics by short name."""


def metrics_text(job: ScheduledJob, standing: JobStanding, following: datetime) -> str:
    """The text file of a job, without unknown values."""
    # Not "job": Prometheus gives that label to every target, and would rename ours.
    label = {"name": job.name}

    def at(text: str | None) -> list[tuple[Mapping[str, str], float]]:
        timestamp = policy.moment(text) if text else None
        return [(label, timestamp.timestamp())] if timestamp else []

    rows: dict[str, Sequence[tuple[Mapping[str, str], float]]] = {
        "last_run_timestamp_seconds": at(standing.last_run),
        "last_success_timestamp_seconds": at(standing.last_success),
        "next_run_timestamp_seconds": [(label, following.timestamp())],
        "timeout_seconds": [(label, job.timeout_s)],
        "duration_seconds": [(label, standing.seconds)] if standing.seconds is not None else [],
        "verdict": [({**label, "verdict": v.value}, float(v is standing.verdict)) for v in Verdict if standing.verdict],
        "run_verdict": [
            ({**label, "run": run, "verdict": verdict.value}, 1.0)
            for run, verdict in sorted(standing.runs.items())[:_MOST_RUNS]
        ],
        "missed_total": [(label, float(standing.missed_total))],
    }
    return "".join(_family(METRICS[name], values) for name, values in rows.items())


def _family(metric: JobMetric, values: Sequence[tuple[Mapping[str, str], float]]) -> str:
    if not values:
        return ""
    lines = [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
    for labels, value in values:
        inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{metric.name}{{{inner}}} {round(value, 4)!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """A label's value in the text format, without invalid characters."""
    clean = "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
    return clean.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def write_metrics(job: ScheduledJob, standing: JobStanding, following: datetime) -> None:
    """Write the text file of a job atomically.

    Raises:
        NotStoredError: it cannot be written.
    """
    if job.metrics is not None:
        store(Path(job.folder, job.metrics), metrics_text(job, redact_record(standing), following))


class NotSentError(Exception):
    """The webhook did not accept a change."""

    def __init__(self, message: str, *, is_refused: bool) -> None:
        super().__init__(message)
        self.is_refused = is_refused
        """Whether it rejected the change, so that a retry is pointless."""


def payload(change: StatusChange) -> str:
    """The document for the webhook."""
    return json.dumps({"schema": SCHEMA, **document(redact_record(change))}, ensure_ascii=True)


def address(job: ScheduledJob, value: str) -> str:
    """The address of a job's webhook.

    Args:
        job: The job.
        value: Value of its variable.

    Raises:
        InputError: it is no address; it is not printed.
    """
    from urllib.parse import urlsplit

    value = value.strip()
    if not value:
        raise InputError(f"{job.name}: ${job.webhook_env} is not set; set it in the job's .env file")
    try:
        parts = urlsplit(value)
        is_good = (
            parts.scheme in ("http", "https") and bool(parts.hostname) and value.isprintable() and " " not in value
        )
        _ = parts.port
    except ValueError:
        is_good = False
    if not is_good:
        raise InputError(f"{job.name}: ${job.webhook_env} is not a webhook address; use one such as https://host/path")
    return value


def send(url: str, text: str, *, id_: str, pause: Callable[[float], None] = time.sleep) -> None:
    """Post a document; temporary failures are retried twice.

    Raises:
        NotSentError: it was not accepted; the message has no address.
    """
    waits: Iterator[float] = iter(_WAITS_S)
    while True:
        try:
            _post(url, text, id_)
        except _LaterError as error:
            wait = next(waits, None)
            if wait is None:
                raise NotSentError(str(error), is_refused=False) from None
            pause(max(wait, min(error.after_s, _LONGEST_WAIT_S)))
        else:
            return


class _LaterError(Exception):
    def __init__(self, message: str, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.after_s = after_s


def _post(url: str, text: str, id_: str) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "vllm-runbooks", "Idempotency-Key": id_}
    try:
        reply = web.ask("POST", url, text.encode(), headers, within_s=TIMEOUT_S, most=0)
    except web.NoReplyError as error:
        raise _LaterError(f"the webhook cannot be reached: {error}") from None
    if reply.status < 300:
        return
    message = f"the webhook returned {reply.status}"
    if reply.status == _AGAIN or reply.status >= 500:
        raise _LaterError(message, reply.again_s)
    raise NotSentError(message, is_refused=True)
