"""Observe a running server with its log, its command and this host's GPUs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.errors import InputError, check_texts
from vllm_runbooks.core.records import CauseRef
from vllm_runbooks.core.redaction.redact import redact_record, redact_value
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.host import gpu_memory
from vllm_runbooks.lint import knowledge
from vllm_runbooks.lint import linting as lint
from vllm_runbooks.lint.ways_out import starts_of
from vllm_runbooks.probe.address import is_local, target_of
from vllm_runbooks.probe.asking import Target
from vllm_runbooks.probe.history_entry import launch_options
from vllm_runbooks.probe.load import ProbeLoad
from vllm_runbooks.probe.probing import ProbeRequest, observe
from vllm_runbooks.probe.records import GpuUsage, LogSummary, Observation
from vllm_runbooks.reading import sources
from vllm_runbooks.reading.documents import read as read_starts

KEY = "VLLM_API_KEY"
"""Default variable for the key."""
NVML = "nvml"
_LEAST_S, _MOST_S = 0.1, 3600.0
_VARIABLE = re.compile(r"[A-Za-z_]\w{0,100}", re.ASCII)


def probe(
    url: str,
    *,
    key_env: str = "",
    model: str = "",
    log: str = "",
    command: str = "",
    seconds: float = 2.0,
    load_seconds: float = 0.0,
    at_once: int = ProbeLoad.at_once,
    prompt_tokens: int = ProbeLoad.prompt_tokens,
    answer_tokens: int = ProbeLoad.answer_tokens,
    memory: str = NVML,
    patience_s: float = 60.0,
    first_s: float | None = None,
    is_verified: bool = True,
    is_key_local: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Observation:
    """Observe a running server.

    Args:
        url: As `http://127.0.0.1:8000` or `127.0.0.1:8000`.
        key_env: Variable with the key; by default `KEY`, for a server on this host or with a
            valid certificate.
        model: Model for the requests; by default the first that is served.
        log: The server's log, or a case's name.
        command: Script or manifest that launches the server.
        seconds: Duration of the metrics sampling without a load.
        load_seconds: Duration of the load; 0 for none.
        at_once: Max concurrency of the load.
        prompt_tokens: Words per prompt.
        answer_tokens: Tokens per answer.
        memory: Source of GPU memory: the driver, or a recorded series.
        patience_s: Timeout per answer.
        first_s: Timeout of the port and of /health; by default at most 10 s.
        is_verified: Whether the certificate must be valid.
        is_key_local: Whether the key of the default variable is sent to this host alone.
        say: Reports slow actions.
    """
    check_texts(url=url, key_env=key_env, model=model, log=log, command=command, memory=memory)
    times: dict[str, Any] = {"seconds": seconds, "patience_s": patience_s}
    if first_s is not None:
        times["first_s"] = first_s
    for name, number in times.items():
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not _LEAST_S <= number <= _MOST_S:
            raise InputError(f"{name}: {number!r} is not a valid duration; use {_LEAST_S:g} to {_MOST_S:g} seconds")
    # Its counts are checked without a load as well: invalid ones are a mistake of the caller.
    load = ProbeLoad(ProbeLoad.seconds if load_seconds == 0 else load_seconds, at_once, prompt_tokens, answer_tokens)
    target, withheld = _with_key(target_of(url.strip(), is_verified=is_verified), key_env, is_key_local=is_key_local)
    # Report unreadable input before the server is queried.
    text = _command(command) if command.strip() else None
    seen, arguments, release = _log(log, text) if log.strip() else (None, {}, None)
    cards = _cards(memory, target)
    target = _as_started(target, text)
    observation = observe(
        ProbeRequest(target, model.strip() or None, seconds, load if load_seconds else None, patience_s, first_s),
        catalog.serving(),
        say=say,
    )
    lacks_key = any(check.reason == "key-missing" for check in observation.health_checks)
    return redact_record(
        replace(
            observation,
            vllm=observation.vllm or release,
            log=seen,
            arguments=arguments,
            command=None
            if text is None
            else lint.hidden(text, knowledge.knowledge(), lint.LintRequest(vllm=observation.vllm)),
            gpus=cards,
            notes=(*observation.notes, *([withheld] if withheld and lacks_key else [])),
        )
    )


def _with_key(target: Target, name: str, *, is_key_local: bool = False) -> tuple[Target, str]:
    """The target with its key, and how to send one that was withheld: other hosts must not get an unnamed key."""
    if name and not _VARIABLE.fullmatch(name):
        # It may be the key itself.
        raise InputError("key_env (--key-env) must be the name of an environment variable that contains the key")
    value = os.environ.get(name or KEY)
    key = (value or "").strip()
    if name and not key:
        how = "is not set in the environment" if value is None else "is empty"
        # Without a colon after the name, which would make the following text a secret.
        raise InputError(f"the variable {name} {how}; set it to the key, or remove the option")
    if not key:
        return target, ""
    if not all(letter.isprintable() and ord(letter) < 256 for letter in key):  # one line of Latin-1
        raise InputError(
            f"the variable {name or KEY} contains a line break or another character that is not "
            "allowed in a header, so it "
            "cannot be sent; set the key as one line"
        )
    redact_value(key)
    if name or is_local(target) or (target.is_verified and not is_key_local):
        return replace(target, key=key), ""
    withheld = f"{KEY} is set but was not sent: {target.place} is "
    if is_key_local:
        return target, f"{withheld}not this host; run `vllm-runbooks probe` with --key-env {KEY}"
    return target, f"{withheld}neither this host nor verified by a certificate; --key-env {KEY} sends it"


def _command(name: str) -> str:
    text = sources.read_text(name)
    if not starts_of(read_starts(text, name)):
        raise InputError(f"{name}: no vLLM launch found; use the script or manifest that launches the server")
    return text


def _log(name: str, command: str | None) -> tuple[LogSummary, dict[str, Any], str | None]:
    evidence = replace(sources.load_files([name]), command=command)
    answer, starts = diagnosing.diagnose(evidence), diagnosing.read(evidence)
    cause = answer.root_cause
    printed = starts[-1].arguments if starts else {}
    arguments = {option: value for option, value in printed.items() if not option.startswith("_")}
    seen = LogSummary(
        files=answer.files,
        outcome=answer.outcome,
        root_cause=CauseRef(cause.symptom, cause.class_) if cause else None,
        title=cause.title if cause else None,
    )
    return seen, arguments, answer.vllm.version


def _cards(memory: str, target: Target) -> tuple[GpuUsage, ...]:
    if memory == NVML and not is_local(target):
        return ()
    source, _ = gpu_memory.source_of("" if memory == NVML else memory)
    if source is None:
        return ()
    cards = source.read().cards
    return tuple(GpuUsage(c.index, c.name, c.total_mib, c.used_mib, c.busy_percent) for c in cards)


def _as_started(target: Target, command: str | None) -> Target:
    if command is None:
        return target
    flags = [launch_options(start) for start in starts_of(read_starts(command))]
    return replace(
        target,
        has_tools=any(options.get("enable_auto_tool_choice") for options in flags),
        has_template=any(options.get("chat_template") for options in flags),
    )
