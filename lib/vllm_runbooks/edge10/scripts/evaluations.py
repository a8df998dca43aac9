"""Find out which server an evaluation asks, for which model, and how: EvalScope in Python, YAML and commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.edge10.scripts.commands import ScriptCommand
from vllm_runbooks.edge10.scripts.program import ScriptProgram
from vllm_runbooks.edge10.scripts.values import ScriptValue
from vllm_runbooks.reading.documents import yaml_places
from vllm_runbooks.reading.documents.yaml_places import YamlError
from vllm_runbooks.reading.shell import Word

LOCAL_HOSTS = frozenset(("localhost", "127.0.0.1", "0.0.0.0", "::1", "[::1]"))  # noqa: S104 - names of this host
_SETTING = re.compile(
    r"(?P<item>-[ \t]{1,20}\{?)?(?<![\w.])[\"']?"
    r"(?P<key>type|model|api_base|api_url|temperature|max_tokens|judge_model_args)[\"']?[ \t]{0,8}:(?:[ \t]{1,20}|$)"
    r"(?P<value>\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'|[^\s{}\[\],#\"'][^\n{},#]{0,400})?",
    re.MULTILINE,
)
"""Setting on a line, also where the file lost its indentation."""
_ADDRESS = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9+.-]{0,20}://)?(?:[^\s@/?#]{1,200}@)?(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[\w.-]{1,253})"
    r"(?::(?P<port>\d{1,5}))?(?P<path>/[^\s?#]{0,500})?(?:[?#]\S{0,500})?",
    re.ASCII,
)
_MARKS = re.compile(
    r"(?:^|[{,])[ \t\"']{0,200}(?:eval_backend|eval_config|api_base|api_url|task_cfg|eval_type)\b", re.MULTILINE
)
_ADDRESS_KEYS = ("api_base", "api_url")
_MAX_SETTINGS = 5_000


@dataclass(frozen=True)
class PlacedValue:
    """Value of a setting, and where it is in the file."""

    value: Any
    start: int
    end: int
    is_literal: bool = True
    """Whether it is written there as it is, so that it can be replaced."""


@dataclass(frozen=True)
class EvaluationRequest:
    """What an evaluation requests of a server."""

    model: PlacedValue | None
    address: PlacedValue | None
    temperature: PlacedValue | None
    max_tokens: PlacedValue | None
    needs_whole_path: bool = False
    """Whether the address must end in the path of chats: VLMEvalKit uses it as it is."""


class AddressParts(NamedTuple):
    """Parts of an address."""

    host: str
    port: int | None
    path: str


def split_address(address: str) -> AddressParts | None:
    match = _ADDRESS.fullmatch(address.strip())
    if match is None:
        return None
    return AddressParts(match["host"].lower(), int(match["port"]) if match["port"] else None, match["path"] or "")


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
    for count, match in enumerate(_SETTING.finditer(source.text)):
        key, text = match["key"], (match["value"] or "").rstrip()
        if match["item"] or key in groups[-1] or key == "judge_model_args":
            groups.append({})
        if count >= _MAX_SETTINGS:
            break
        if key == "judge_model_args":
            groups[-1] = dict.fromkeys(("type", *_ADDRESS_KEYS, "model", "temperature", "max_tokens"), _IGNORED)
        elif text and key not in groups[-1] and "{{" not in text and "${" not in text:
            start = source.at[match.start("value")]
            groups[-1][key] = PlacedValue(_scalar(text), start, source.at[match.start("value") + len(text) - 1] + 1)
    groups = [group for group in groups if _IGNORED not in group.values()]
    requests = []
    apart = [group["temperature"] for group in groups if "temperature" in group and not group.keys() & {*_ADDRESS_KEYS}]
    for group in groups:
        address = group.get("api_base") or group.get("api_url")
        if address is not None:
            model = group.get("type" if "api_base" in group else "model")
            requests.append(
                EvaluationRequest(
                    model, address, group.get("temperature"), group.get("max_tokens"), "api_base" in group
                )
            )
    if len(requests) == 1 and requests[0].temperature is None and len(apart) == 1:
        only = requests[0]
        requests = [EvaluationRequest(only.model, only.address, apart[0], only.max_tokens, only.needs_whole_path)]
    return requests


_IGNORED = PlacedValue(None, 0, 0)
"""Setting of the model that judges answers."""


def _scalar(text: str) -> Any:
    if text[:1] in "\"'" and text[-1:] == text[:1]:
        return text[1:-1]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def requests_of_program(program: ScriptProgram) -> Iterator[EvaluationRequest]:
    for event in program.events:
        if event.kind != "call" or not event.name.startswith("evalscope."):
            continue
        name = event.name.rpartition(".")[2]
        entries = program.entries(event.argument("task_cfg", 0)) or {} if name == "run_task" else {}
        if name == "TaskConfig":
            yield _request(event.keywords, program, "model", "api_url")
        elif "api_url" in entries or "generation_config" in entries:
            yield _request(entries, program, "model", "api_url")
        config = program.entries(entries.get("eval_config")) or {}
        for item in program.items(config.get("model")) or ():
            settings = program.entries(item) or {}
            if "api_base" in settings:
                yield _request(settings, program, "type", "api_base")


def _request(
    settings: Mapping[Any, ScriptValue], program: ScriptProgram, model: str, address: str
) -> EvaluationRequest:
    sampling = program.entries(settings.get("generation_config")) or {}
    made = settings.get("generation_config")
    if made is not None and made.kind == "result":
        sampling = made.data.keywords  # `GenerateConfig(temperature=…)`
    both = {**settings, **sampling}
    return EvaluationRequest(
        _placed(settings.get(model), program),
        _placed(settings.get(address), program),
        _placed(both.get("temperature"), program),
        _placed(both.get("max_tokens"), program),
        needs_whole_path=address == "api_base",
    )


def _placed(value: ScriptValue | None, program: ScriptProgram) -> PlacedValue | None:
    if value is None or value.kind != "plain" or value.node is None or not hasattr(value.node, "end_lineno"):
        return None
    is_literal = isinstance(value.node, ast.Constant) and not value.options
    return PlacedValue(value.data, *program.text.places(value.node), is_literal)


def request_of_command(command: ScriptCommand) -> EvaluationRequest | None:
    """Evaluation that a command of EvalScope requests; None if it is none."""
    at = command.index("evalscope")
    if at is None or command.index("eval", start=at + 1) != at + 1:
        return None
    sampling = command.option("--generation-config", start=at)
    return EvaluationRequest(
        _placed_word(command.option("--model", "--model-id", start=at)),
        _placed_word(command.option("--api-url", start=at)),
        None if sampling is None else _setting_of_word(sampling, "temperature"),
        None if sampling is None else _setting_of_word(sampling, "max_tokens"),
    )


def _placed_word(word: Word | None) -> PlacedValue | None:
    if word is None or word.value is None:
        return None
    is_literal = word.at is not None and len(word.at) == len(word.value)
    places = (word.at[0], word.at[-1] + 1) if is_literal and word.at else (word.start, word.end)
    return PlacedValue(word.value, *places, is_literal)


def _setting_of_word(word: Word, name: str) -> PlacedValue | None:
    """Number of a setting in a word: JSON, or `name=value` with commas."""
    text, at = word.value or "", word.at
    match = re.search(rf"\b{name}[\"']?\s{{0,8}}[:=]\s{{0,8}}(-?\d{{1,9}}(?:\.\d{{1,9}})?)", text)
    if match is None:
        return None
    if at is None or len(at) != len(text):
        return PlacedValue(float(match[1]), word.start, word.end, is_literal=False)
    return PlacedValue(float(match[1]), at[match.start(1)], at[match.end(1) - 1] + 1)
