"""One observation of a running server, with its log, its command and the cards of this host where they are at hand."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog import options
from vllm_runbooks.core.errors import InputError, check_texts
from vllm_runbooks.core.records import CauseRef
from vllm_runbooks.core.redaction.redact import redact_record, redact_value
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.host import gpu_memory
from vllm_runbooks.lint import knowledge
from vllm_runbooks.lint import linting as lint
from vllm_runbooks.lint.ways_out import starts_of
from vllm_runbooks.probe import probing as _probe
from vllm_runbooks.probe.probing import Load, Request, Target
from vllm_runbooks.probe.records import CardSeen, LogSeen, Observation
from vllm_runbooks.reading import arguments, deployment, sources
from vllm_runbooks.reading.documents import read as read_starts
from vllm_runbooks.reading.documents.starts import Found

KEY = "VLLM_API_KEY"
"""Variable that a key is taken from where none is named, for servers that nobody else can pass themselves off as."""
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
    at_once: int = Load.at_once,
    prompt_tokens: int = Load.prompt_tokens,
    answer_tokens: int = Load.answer_tokens,
    memory: str = NVML,
    patience_s: float = 60.0,
    is_verified: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> Observation:
    """Observe a running server.

    Args:
        url: As `http://127.0.0.1:8000`.
        key_env: Variable that holds the key; empty: `KEY`, where it is set, for a server on this host or one whose
            certificate is good.
        model: Name that requests are sent to; empty: the first that is served.
        log: The server's log, or a case's name.
        command: The script or manifest that starts it.
        seconds: For which its metrics are read, where no load is put on.
        load_seconds: For which a small load is put on it; 0: none.
        at_once: Requests of the load in flight.
        prompt_tokens: Words of its prompts.
        answer_tokens: Tokens of its answers.
        memory: Where the memory of cards is read: the driver, for a server on this host, or a recorded series.
        patience_s: Time for each answer.
        is_verified: Whether the certificate must be good.
        say: Told in a line what is done that takes its time.

    Raises:
        InputError: something that was given cannot be read.
    """
    check_texts(url=url, key_env=key_env, model=model, log=log, command=command, memory=memory)
    times: dict[str, Any] = {"seconds": seconds, "patience_s": patience_s}
    for name, number in times.items():
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not _LEAST_S <= number <= _MOST_S:
            raise InputError(
                f"{name}: {number!r} is no time for a probe; give from {_LEAST_S:g} to {_MOST_S:g} seconds"
            )
    # Its counts are read where there is no load as well: who gives one that is none meant something by it.
    load = Load(Load.seconds if load_seconds == 0 else load_seconds, at_once, prompt_tokens, answer_tokens)
    target, withheld = _with_key(_probe.target_of(url.strip(), is_verified=is_verified), key_env)
    # What cannot be read is said before the server is asked.
    text = _command(command) if command.strip() else None
    seen, arguments, release = _log(log, text) if log.strip() else (None, {}, None)
    cards = _cards(memory, target)
    target = _as_started(target, text)
    found = _probe.observe(
        Request(target, model.strip() or None, seconds, load if load_seconds else None, patience_s),
        catalog.serving(),
        say=say,
    )
    return redact_record(
        replace(
            found,
            vllm=found.vllm or release,
            log=seen,
            arguments=arguments,
            command=None if text is None else lint.hidden(text, knowledge.knowledge(), lint.Asked(vllm=found.vllm)),
            cards=cards,
            notes=(*found.notes, *([withheld] if withheld and _lacks_key(found) else [])),
        )
    )


def _with_key(target: Target, name: str) -> tuple[Target, str]:
    """The target with the key in a variable, which from now on is replaced wherever it would be shown.

    Beside it, where a key that nobody named is not sent, how to send it: whoever answers at another address, or reads
    along on the way there, would have it.

    Raises:
        InputError: the variable's name is none, or it is not set.
    """
    if name and not _VARIABLE.fullmatch(name):
        # It may be the key itself.
        raise InputError(
            "key_env (--key-env) takes the name of an environment variable that holds the key; what was given is none"
        )
    told = os.environ.get(name or KEY)
    key = (told or "").strip()
    if name and not key:
        how = "is not set in the environment" if told is None else "is set and empty"
        # Without a colon behind the name, which would make a secret of what follows.
        raise InputError(f"the variable {name} {how}; put the key there, or name no variable")
    if not key:
        return target, ""
    if not _is_sendable(key):
        raise InputError(
            f"the variable {name or KEY} holds a line end or another character that no header can hold, so it "
            "cannot be sent; put the key there in one line"
        )
    redact_value(key)
    if name or target.is_verified or _probe.is_local(target):
        return replace(target, key=key), ""
    return target, (
        f"{KEY} is set and was not sent, as {target.place} is neither this host nor known by its certificate; "
        f"--key-env {KEY} sends it"
    )


def _is_sendable(key: str) -> bool:
    """Whether a header of HTTP can hold a key: one line, of the letters of Latin-1."""
    return all(letter.isprintable() and ord(letter) < 256 for letter in key)


def _lacks_key(found: Observation) -> bool:
    return any(rung.reason == "key-missing" for rung in found.rungs)


def _command(name: str) -> str:
    text = sources.read_text(name)
    if not starts_of(read_starts(text, name)):
        raise InputError(f"{name}: holds no start of vLLM; give the script or manifest that starts the server")
    return text


def _log(name: str, command: str | None) -> tuple[LogSeen, dict[str, Any], str | None]:
    """What the log came to, the arguments that it prints, and the release that wrote it."""
    evidence = replace(sources.load_files([name]), command=command)
    answer, starts = diagnosing.diagnose(evidence), diagnosing.read(evidence)
    cause = answer.root_cause
    printed = starts[-1].arguments if starts else {}
    arguments = {option: value for option, value in printed.items() if not option.startswith("_")}
    seen = LogSeen(
        files=answer.files,
        outcome=answer.outcome,
        root_cause=CauseRef(cause.symptom, cause.class_) if cause else None,
        title=cause.title if cause else None,
    )
    return seen, arguments, answer.vllm.version


def _cards(memory: str, target: Target) -> tuple[CardSeen, ...]:
    """The cards of this host, where the server is on it and the driver answers, or of a recorded series."""
    if memory == NVML and not _probe.is_local(target):
        return ()
    source, _ = gpu_memory.source_of("" if memory == NVML else memory)
    if source is None:
        return ()
    cards = source.read().cards
    return tuple(CardSeen(c.index, c.name, c.total_mib, c.used_mib, c.busy_percent) for c in cards)


def _as_started(target: Target, command: str | None) -> Target:
    """The target, with what its command says that it offers."""
    if command is None:
        return target
    flags = [_flags(start) for start in starts_of(read_starts(command))]
    return replace(
        target,
        has_tools=any(each.get("enable_auto_tool_choice") for each in flags),
        has_template=any(each.get("chat_template") for each in flags),
    )


def _flags(start: Found) -> Mapping[str, Any]:
    """What a start sets, by argparse destination, as its release reads it, else the newest that is known."""
    release = options.load(start.release or options.known_releases()[-1])
    words = [word.value for word in start.words]
    return arguments.parse(words, release, deployment.parser_entry(start.entry, words, release)).flags
