"""Which server an evaluation asks, for which model, and how: settings of EvalScope in Python, YAML and commands."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.edge10.scripts.commands import Command
from vllm_runbooks.edge10.scripts.events import Event
from vllm_runbooks.edge10.scripts.program import Program
from vllm_runbooks.edge10.scripts.values import Value
from vllm_runbooks.reading.documents import yaml_places
from vllm_runbooks.reading.documents.python_text import PythonText
from vllm_runbooks.reading.documents.yaml_places import YamlError
from vllm_runbooks.reading.shell import Word

LOCAL = frozenset(("localhost", "127.0.0.1", "0.0.0.0", "::1", "[::1]"))  # noqa: S104 - names of this host, nothing is bound
_KEY = re.compile(
    r"[ \t]{0,200}(?P<item>-[ \t]{1,20})?[\"']?(?P<key>[A-Za-z_]\w{0,60})[\"']?[ \t]{0,8}:(?:[ \t]{1,20}|\Z)"
)
"""How a line of settings begins, also of such as lost their indentation."""
_COMMENT = re.compile(r"[ \t]#")
_ADDRESS = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9+.-]{0,20}://)?(?:[^\s@/?#]{1,200}@)?(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[\w.-]{1,253})(?::(?P<port>\d{1,5}))?(?P<path>/[^\s?#]{0,500})?(?:[?#]\S{0,500})?",
    re.ASCII,
)
_MARKS = re.compile(
    r"(?:^|[{,])[ \t\"']{0,200}(?:eval_backend|eval_config|api_base|api_url|task_cfg|eval_type)\b", re.MULTILINE
)
_FIRST = frozenset(("type", "api_base", "model", "api_url"))
"""Keys of which a second one belongs to another evaluation."""
_JUDGE = "judge_model_args"
"""Settings of the model that judges answers, which is not the one that is evaluated."""
_MAX_LINES = 5_000


@dataclass(frozen=True)
class Said:
    """A value of settings, and where it stands in the file."""

    value: Any
    start: int
    end: int
    is_literal: bool = True
    """Whether it is written there as it is, so that it can be replaced."""


@dataclass(frozen=True)
class Asked:
    """What an evaluation asks of a server."""

    model: Said | None
    address: Said | None
    temperature: Said | None
    max_tokens: Said | None
    needs_whole_path: bool = False
    """Whether the address must end in the path of chats: VLMEvalKit sends to it as it is."""


class Address(NamedTuple):
    """An address taken apart."""

    host: str
    port: int | None
    """None: it names none."""
    path: str


def parts(address: str) -> Address | None:
    """An address taken apart; None: it is none."""
    match = _ADDRESS.fullmatch(address.strip())
    if match is None:
        return None
    return Address(match["host"].lower(), int(match["port"]) if match["port"] else None, match["path"] or "")


def is_settings(text: str) -> bool:
    """Whether a YAML text holds settings of an evaluation."""
    return _MARKS.search(text) is not None


def broken(source: Excerpt) -> YamlError | None:
    """Why settings are no YAML, and where; None: they are some, or a template makes them."""
    for document in yaml_places.documents(source):
        try:
            yaml_places.read(document)
        except YamlError as error:
            return None if yaml_places.is_near_template(document, error.at) else error
    return None


def of_settings(source: Excerpt) -> list[Asked]:
    """The evaluations that settings in YAML or JSON ask for; line by line where their form was lost."""
    try:
        roots = [yaml_places.read(each) for each in yaml_places.documents(source)]
    except YamlError:
        return _of_lines(source)
    found = [asked for root in roots if root is not None for asked in _of_tree(root)]
    # Where the indentation was lost, and it is YAML all the same, the model stands apart from its address.
    by_lines = [] if all(asked.model for asked in found) else _of_lines(source)
    return by_lines if by_lines and all(asked.model for asked in by_lines) else found


def _of_tree(root: yaml_places.Node) -> Iterator[Asked]:
    """The mappings that name an address, however they are written, merged ones (`<<`) included."""
    nodes = [(path, node) for path, node in yaml_places.walk(root) if isinstance(node, yaml_places.Mapping)]
    bases = {
        id(base)
        for _, node in nodes
        for key, value in node.pairs
        if isinstance(key, yaml_places.Scalar) and key.value == "<<"
        for base in (value.items if isinstance(value, yaml_places.Sequence) else [value])
    }
    asking = {
        id(node): node
        for path, node in nodes
        if (_address_of(node) is not None and _JUDGE not in path) and (id(node) not in bases or path[-1:] == ("-",))
    }
    # What is sampled with may stand in a block of its own, beside the address.
    apart = {
        said.start: said
        for path, node in nodes
        if _address_of(node) is None
        and _JUDGE not in path
        and (said := _of_scalar(node.get("temperature"))) is not None
    }
    for node in asking.values():
        own = node.get("generation_config")
        sampling = own if isinstance(own, yaml_places.Mapping) else node
        temperature = _of_scalar(sampling.get("temperature")) or _of_scalar(node.get("temperature"))
        if temperature is None and len(asking) == 1 and len(apart) == 1:
            temperature = next(iter(apart.values()))
        needs_whole_path = node.get("api_base") is not None
        yield Asked(
            _of_scalar(node.get("type" if needs_whole_path else "model")),
            _address_of(node),
            temperature,
            _of_scalar(sampling.get("max_tokens")) or _of_scalar(node.get("max_tokens")),
            needs_whole_path,
        )


def _address_of(node: yaml_places.Mapping) -> Said | None:
    return _of_scalar(node.get("api_base")) or _of_scalar(node.get("api_url"))


def _of_scalar(node: yaml_places.Node | None) -> Said | None:
    """A value of settings; None: it is none, or a template's."""
    if not isinstance(node, yaml_places.Scalar) or not node.value or node.has_template:
        return None
    value = _scalar(node.value) if node.style == "plain" else node.value
    quotes = {"plain": 0, "single": 2, "double": 2}.get(node.style)
    return Said(value, node.start, node.end, node.end - node.start - len(node.value) == quotes)


def _of_lines(source: Excerpt) -> list[Asked]:
    """The evaluations that settings whose form was lost ask for, line by line."""
    groups: list[dict[str, Said]] = [{}]
    begin = 0
    for line in source.text.split("\n")[:_MAX_LINES]:
        match = _KEY.match(line)
        if match is not None:
            key = match["key"]
            if match["item"] or (key in groups[-1] and key in _FIRST):
                groups.append({})
            value = _written(line, match.end())
            if value:
                start = source.at[begin + match.end()]
                end = source.at[begin + match.end() + len(value) - 1] + 1
                groups[-1][key] = Said(_scalar(value), start, end)
        begin += len(line) + 1
    found = []
    for held in groups:
        address = held.get("api_base") or held.get("api_url")
        model = held.get("type" if "api_base" in held else "model")
        if address is not None:
            found.append(Asked(model, address, held.get("temperature"), held.get("max_tokens"), "api_base" in held))
    # What is sampled with may stand in a block of its own, beside the address.
    apart = [
        held["temperature"] for held in groups if "temperature" in held and not {"api_base", "api_url"} & held.keys()
    ]
    if len(found) == 1 and found[0].temperature is None and len(apart) == 1:
        one = found[0]
        found = [Asked(one.model, one.address, apart[0], one.max_tokens, one.needs_whole_path)]
    return found


def _written(line: str, begin: int) -> str:
    """The value on a line of settings from a place on, its quotes with it."""
    rest = line[begin:]
    if rest[:1] and rest[0] in "\"'":
        stop = rest.find(rest[0], 1)
        return rest[: stop + 1] if stop > 0 else ""
    comment = _COMMENT.search(rest)
    return rest[: comment.start() if comment else len(rest)].rstrip().rstrip(",")


def _scalar(text: str) -> Any:
    bare = text.strip()
    if bare[:1] in "\"'" and bare[-1:] == bare[:1]:
        return bare[1:-1]
    try:
        return float(bare) if "." in bare else int(bare)
    except ValueError:
        return bare


def of_program(program: Program, text: PythonText) -> Iterator[Asked]:
    """The evaluations that a program asks for."""
    for event in program.events:
        if event.kind != "call" or not event.name.startswith("evalscope."):
            continue
        last = event.name.rpartition(".")[2]
        if last == "TaskConfig":
            yield _asked(event.keywords, program, text)
        elif last == "run_task":
            given = event.given("task_cfg", 0)
            entries = program.entries(given)
            if entries is not None:
                yield from _of_mapping(entries, program, text)


def _of_mapping(entries: Mapping[Any, Value], program: Program, text: PythonText) -> Iterator[Asked]:
    if "api_url" in entries or "generation_config" in entries:
        yield _asked(entries, program, text)
    config = program.entries(entries.get("eval_config"))
    for each in program.items((config or {}).get("model")) or ():
        held = program.entries(each) or {}
        if "api_base" in held:
            yield Asked(
                _said(held.get("type"), program, text),
                _said(held.get("api_base"), program, text),
                _said(held.get("temperature"), program, text),
                _said(held.get("max_tokens"), program, text),
                needs_whole_path=True,
            )


def _asked(given: Mapping[Any, Value], program: Program, text: PythonText) -> Asked:
    sampling = program.entries(given.get("generation_config")) or {}
    if (made := given.get("generation_config")) is not None and made.kind == "made":
        sampling = made.data.keywords  # `GenerateConfig(temperature=…)`
    return Asked(
        _said(given.get("model"), program, text),
        _said(given.get("api_url"), program, text),
        _said(sampling.get("temperature"), program, text),
        _said(sampling.get("max_tokens"), program, text),
    )


def _said(value: Value | None, program: Program, text: PythonText) -> Said | None:
    """A value with its place, where both are known."""
    if value is None or value.kind != "plain" or value.node is None or not hasattr(value.node, "end_lineno"):
        return None
    start, end = text.places(value.node)
    is_literal = isinstance(value.node, ast.Constant) and not value.options
    return Said(program.python(value), start, end, is_literal)


def of_command(command: Command) -> Asked | None:
    """The evaluation that a command of EvalScope asks for; None: it is none."""
    at = command.index("evalscope")
    if at is None or command.index("eval", start=at + 1) != at + 1:
        return None
    sampling = command.option("--generation-config", start=at)
    return Asked(
        _of_word(command.option("--model", "--model-id", start=at)),
        _of_word(command.option("--api-url", start=at)),
        None if sampling is None else _within(sampling, "temperature"),
        None if sampling is None else _within(sampling, "max_tokens"),
    )


def _of_word(word: Word | None) -> Said | None:
    if word is None or word.value is None:
        return None
    is_literal = word.at is not None and len(word.at) == len(word.value)
    places = (word.at[0], word.at[-1] + 1) if is_literal and word.at else (word.start, word.end)
    return Said(word.value, *places, is_literal)


def _within(word: Word, name: str) -> Said | None:
    """A value within an option's: JSON, or `name=value` with commas."""
    text = word.value or ""
    try:
        read = json.loads(text) if text.startswith("{") else {}
    except (ValueError, RecursionError):
        read = {}
    match = re.search(rf"\b{name}[\"']?\s{{0,8}}[:=]\s{{0,8}}(-?\d{{1,9}}(?:\.\d{{1,9}})?)", text)
    if match is None or (text.startswith("{") and name not in read):
        return None
    at = word.at
    if at is None or len(at) != len(text):
        return Said(float(match[1]), word.start, word.end, is_literal=False)
    return Said(float(match[1]), at[match.start(1)], at[match.end(1) - 1] + 1)


def is_evaluation(event: Event) -> bool:
    """Whether an event belongs to an evaluation."""
    return event.name.split(".")[0] == "evalscope"
