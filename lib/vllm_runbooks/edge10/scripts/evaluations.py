"""Requests of an evaluation to a server: EvalScope in Python, YAML and commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.edge10.scripts.commands import ScriptCommand
from vllm_runbooks.edge10.scripts.program import ScriptProgram
from vllm_runbooks.edge10.scripts.values import ScriptValue
from vllm_runbooks.reading.documents import yaml_places
from vllm_runbooks.reading.documents.yaml_places import YamlError
from vllm_runbooks.reading.shell import Word

LOCAL_HOSTS = frozenset(("localhost", "127.0.0.1", "0.0.0.0", "::1"))  # noqa: S104 - names of this host
_SETTING = re.compile(
    r"(?P<item>-[ \t]{1,20}\{?)?(?<![\w.])[\"']?"
    r"(?P<key>type|model|api_base|api_url|temperature|judge_model_args)[\"']?[ \t]{0,8}:(?:[ \t]{1,20}|$)"
    r"(?P<value>\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'|[^\s{}\[\],#\"'][^\n{},#]{0,400})?",
    re.MULTILINE,
)
"""Setting on a line, even if the file lost its indentation."""
_MARKS = re.compile(
    r"(?:^|[{,])[ \t\"']{0,200}(?:eval_backend|eval_config|api_base|api_url|task_cfg|eval_type)\b", re.MULTILINE
)
_ADDRESS_KEYS = frozenset(("api_base", "api_url"))
_MAX_SETTINGS = 5_000


@dataclass(frozen=True)
class PlacedValue:
    """Value of a setting with its location in the file."""

    value: Any
    start: int
    end: int
    is_literal: bool = True
    """Whether it is written there as it is, so that it can be replaced."""


@dataclass(frozen=True)
class EvaluationRequest:
    """Requests of an evaluation to a server."""

    model: PlacedValue | None
    address: PlacedValue | None
    temperature: PlacedValue | None


def split_address(address: str) -> tuple[str | None, int | None]:
    """Host and port of an address; None for a missing one or an invalid address."""
    with suppress(ValueError):
        parts = urlsplit(address.strip() if "//" in address else f"//{address.strip()}")
        return parts.hostname, parts.port
    return None, None


def is_settings(text: str) -> bool:
    return _MARKS.search(text) is not None


def find_yaml_error(source: Excerpt) -> YamlError | None:
    """Why settings are not valid YAML; None if they are, or are a template."""
    for document in yaml_places.documents(source):
        try:
            yaml_places.read(document)
        except YamlError as error:
            return None if yaml_places.is_near_template(document, error.at) else error
    return None


def requests_of_settings(source: Excerpt) -> list[EvaluationRequest]:
    """Evaluations that settings in YAML or JSON request, read setting by setting."""
    groups: list[dict[str, PlacedValue]] = [{}]
    is_judge = False
    for match in islice(_SETTING.finditer(source.text), _MAX_SETTINGS):
        key, text = match["key"], (match["value"] or "").rstrip()
        if match["item"] or key in groups[-1] or key == "judge_model_args":
            groups.append({})
            is_judge = key == "judge_model_args"  # settings of the model that grades answers
        if text and not is_judge and "{{" not in text and "${" not in text:
            start = source.at[match.start("value")]
            groups[-1][key] = PlacedValue(_scalar(text), start, source.at[match.start("value") + len(text) - 1] + 1)
    apart = [group["temperature"] for group in groups if "temperature" in group and not group.keys() & _ADDRESS_KEYS]
    asking = [group for group in groups if group.keys() & _ADDRESS_KEYS]
    common = apart[0] if len(apart) == len(asking) == 1 else None
    return [
        EvaluationRequest(
            group.get("type" if "api_base" in group else "model"),
            group.get("api_base") or group.get("api_url"),
            group.get("temperature") or common,
        )
        for group in asking
    ]


def _scalar(text: str) -> Any:
    if text[:1] in "\"'" and text[-1:] == text[:1]:
        return text[1:-1]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def requests_of_program(program: ScriptProgram) -> Iterator[EvaluationRequest]:
    for event in program.events:
        name = event.name.rpartition(".")[2]
        if event.kind != "call" or not event.name.startswith("evalscope.") or name not in ("TaskConfig", "run_task"):
            continue
        task = event.argument("task_cfg", 0) if name == "run_task" else None
        settings = event.keywords if name == "TaskConfig" else program.entries(task) or {}
        config = program.entries(settings.get("eval_config")) or {}
        if "model" in settings:
            yield _request(settings, program, "model", "api_url")
        for item in program.items(config.get("model")) or ():
            yield _request(program.entries(item) or {}, program, "type", "api_base")


def _request(
    settings: Mapping[Any, ScriptValue], program: ScriptProgram, model: str, address: str
) -> EvaluationRequest:
    sampling = program.entries(settings.get("generation_config")) or {}
    return EvaluationRequest(
        _placed(settings.get(model), program),
        _placed(settings.get(address), program),
        _placed({**settings, **sampling}.get("temperature"), program),
    )


def _placed(value: ScriptValue | None, program: ScriptProgram) -> PlacedValue | None:
    if value is None or value.kind != "plain" or value.node is None or not hasattr(value.node, "end_lineno"):
        return None
    return PlacedValue(value.data, *program.text.places(value.node), isinstance(value.node, ast.Constant))


def request_of_command(command: ScriptCommand) -> EvaluationRequest | None:
    """Evaluation that a command of EvalScope requests; None for another command."""
    at = command.index("evalscope")
    if at is None or command.index("eval", start=at + 1) != at + 1:
        return None
    sampling = command.option("--generation-config", start=at)
    return EvaluationRequest(
        _placed_word(command.option("--model", start=at)),
        _placed_word(command.option("--api-url", start=at)),
        None if sampling is None else _temperature_of_word(sampling),
    )


def _placed_word(word: Word | None) -> PlacedValue | None:
    return (
        None if word is None or word.value is None else PlacedValue(word.value, word.start, word.end, is_literal=False)
    )


def _temperature_of_word(word: Word) -> PlacedValue | None:
    """Temperature in a word: JSON, or `name=value` with commas."""
    text, at = word.value or "", word.at
    match = re.search(r"\btemperature[\"']?\s{0,8}[:=]\s{0,8}(\d{1,9}(?:\.\d{1,9})?)", text)
    if match is None:
        return None
    if at is None or len(at) != len(text):
        return PlacedValue(float(match[1]), word.start, word.end, is_literal=False)
    return PlacedValue(float(match[1]), at[match.start(1)], at[match.end(1) - 1] + 1)
