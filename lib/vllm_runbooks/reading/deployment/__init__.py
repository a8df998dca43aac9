"""A launch as data, rendered for shell, docker, compose or systemd, with references instead of secrets."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.options import ReleaseData
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Edit
from vllm_runbooks.core.redaction.places import names_secret
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.reading import arguments
from vllm_runbooks.reading.arguments import Parsed
from vllm_runbooks.reading.arguments.as_typed import option_of, option_words
from vllm_runbooks.reading.documents.starts import WrittenLaunch

PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+\Z", re.ASCII)
_VARIABLE = re.compile(
    r"\"?(--?[\w.-]+=)?\"?\$(?:\{(?=\w+(?::?\?[^{}\"$`]*)?\}))?([A-Za-z_]\w*)(?:(?::?\?[^{}\"$`]*)?\})?\"?\Z", re.ASCII
)
"""A variable, or an option with `=` and a variable."""
_LEAD = re.compile(r"\"?(--?[A-Za-z][\w.-]*=)", re.ASCII)
_SECRET_VARIABLES = {"--api-key": "VLLM_API_KEY", "--hf-token": "HF_TOKEN"}
_PUBLISHED = re.compile(r"\d+(?:\.\d+)+(?:rc\d+|\.?post\d+)?", re.ASCII)


class EditRefusedError(Exception):
    """The edit cannot be made with certainty."""


@dataclass(frozen=True)
class Deployment:
    entry: str
    """"serve", "api_server", or "image" for the image's own entry point."""
    words: tuple[str | None, ...]
    """Arguments; None if unknown."""
    environment: tuple[tuple[str, str | None], ...] = ()
    image: str | None = None
    gpus: tuple[str, ...] | int | None = None
    """Devices, or their number; None for all."""
    name: str = "vllm"
    release: str | None = None
    """vLLM's, which decides the image if none is named."""
    raws: tuple[str, ...] = ()
    """Source text of each unknown word, "" for the others; empty if there is no source."""

    @classmethod
    def of(cls, launch: WrittenLaunch) -> Deployment:
        gpus = launch.gpus
        return cls(
            entry=launch.entry,
            words=tuple(word.value for word in launch.words),
            environment=tuple((name, setting.value.value) for name, setting in launch.environment.items()),
            image=launch.image.value if launch.image is not None else None,
            gpus=None if gpus is None else gpus.count if gpus.devices is None else gpus.devices,
            name=launch.name or "vllm",
            release=launch.release,
            raws=tuple(word.raw if word.value is None else "" for word in launch.words),
        )

    @property
    def command(self) -> tuple[str, ...]:
        """Program with its first words; empty for the image's own."""
        module = ("python3", "-m", "vllm.entrypoints.openai.api_server")
        return {"serve": ("vllm", "serve"), "image": ()}.get(self.entry, module)

    @property
    def handed(self) -> tuple[str, ...]:
        """Variables that must be set before running: secrets and unknown values."""
        return tuple(name for name, value in self.environment if value is None or is_secret(name, value))

    def edited(self, changes: Iterable[Edit], release: ReleaseData) -> Deployment:
        """Apply edits: a changed option keeps its position, a new one is appended."""
        words, environment = list(self.words), dict(self.environment)
        raws = list(self.raws or [""] * len(words))
        for change in changes:
            if change.op == "env":
                environment.pop(change.name, None)
                if change.value is not None:
                    environment[change.name] = str(change.value)
                continue
            parsed = ParsedWords(words, release, parser_entry(self.entry, words, release))
            made: list[str | None] = [] if change.op == "remove" else list(parsed.written(change.name, change.value))
            places = parsed.groups(change.name)
            first, last = places[-1] if places else (len(words), len(words))
            words[first:last], raws[first:last] = made, [""] * len(made)
            for first, last in reversed(places[:-1]):
                del words[first:last], raws[first:last]
        return replace(self, words=tuple(words), environment=tuple(environment.items()), raws=tuple(raws))


def parser_entry(entry: str, words: Sequence[str | None], release: ReleaseData) -> str:
    """Parser of the arguments: an image's entry point, else by the model's position."""
    if entry != "image":
        return "serve" if entry == "serve" else "api_server"
    image_entry = release.features.get("image_entry")
    if image_entry in options.ENTRIES and not (release.is_beyond or release.is_before):
        return str(image_entry)
    first = words[0] if words else None
    return "serve" if first is not None and not first.startswith("-") else "api_server"


def to_shell(deployment: Deployment) -> str:
    """Render a shell command, one option per line, after its variables."""
    handed = {name: f'"${{{name}:?}}"' for name in deployment.handed}
    variables = deployment.environment
    lines = [f"export {name}={handed.get(name) or shlex.quote(value or '')}" for name, value in variables]
    command = deployment.command or ("vllm", "serve")
    return "\n".join([*lines, _continued([" ".join(command), *_shell_groups(deployment)])]) + "\n"


def to_docker(deployment: Deployment) -> str:
    """Render a `docker run` command, one option per line, with an explicit entry point."""
    gpus = "all" if deployment.gpus is None else str(deployment.gpus)
    if isinstance(deployment.gpus, tuple):
        gpus = f"""'"device={",".join(deployment.gpus)}"'"""
    words: list[str] = ["docker run --rm", f"--gpus {gpus}", "--ipc=host"]
    port = _port(deployment)
    words.append(f"-p {port}:{port}" if port.isdecimal() else f'-p "{port}:{port}"')
    for name, value in deployment.environment:
        words.append(f"-e {name}" if name in deployment.handed else f"-e {shlex.quote(f'{name}={value}')}")
    program = deployment.command
    if program:
        words.append(f"--entrypoint {program[0]}")
    words.append(shlex.quote(_image(deployment)))
    rest = [" ".join(program[1:])] if len(program) > 1 else []
    return _continued([*words, *rest, *_shell_groups(deployment)]) + "\n"


def to_compose(deployment: Deployment) -> str:
    """Render a compose file with one service."""
    lines = [
        "services:",
        f"  {re.sub(r'[^A-Za-z0-9_.-]', '-', deployment.name) or 'vllm'}:",
        f"    image: {yaml_quoted(_image(deployment))}",
    ]
    if deployment.command:
        lines.append(f"    entrypoint: [{', '.join(yaml_quoted(word) for word in deployment.command)}]")
    if deployment.words:
        lines.append("    command:")
    references = references_of(deployment)
    written = [yaml_quoted(word or "") for word in deployment.words]
    for index, (lead, variable) in references.items():
        written[index] = f'{yaml_quoted(lead)[:-1]}${{{variable}:?}}"'
    lines += [f"      - {word}" for word in written]
    if deployment.environment:
        lines.append("    environment:")
    for name, value in deployment.environment:
        text = f'"${{{name}:?}}"' if name in deployment.handed else yaml_quoted(value or "")
        lines.append(f"      {name}: {text}")
    port = _port(deployment)
    lines += ["    ports:", f'      - "{port}:{port}"', "    ipc: host", "    deploy:", "      resources:"]
    lines += ["        reservations:", "          devices:", "            - driver: nvidia"]
    if isinstance(deployment.gpus, tuple):
        lines.append(f"              device_ids: [{', '.join(yaml_quoted(word) for word in deployment.gpus)}]")
    else:
        lines.append(f"              count: {'all' if deployment.gpus is None else deployment.gpus}")
    return "\n".join([*lines, "              capabilities: [gpu]"]) + "\n"


def to_systemd(deployment: Deployment) -> str:
    """Render a unit; secrets are in a file that only root can read."""
    references, handed = references_of(deployment), deployment.handed
    settings = [pair for pair in deployment.environment if pair[0] not in handed]
    command = deployment.command or ("vllm", "serve")
    lines = ["[Unit]", "Description=vLLM", "After=network-online.target", "", "[Service]"]
    lines += [f"Environment={systemd_quoted(f'{name}={value}', is_command=False)}" for name, value in settings]
    lines += ["EnvironmentFile=/etc/vllm.env"] if handed or references else []
    written = [systemd_quoted(word or "") for word in deployment.words]
    for index, (lead, variable) in references.items():
        quoted = systemd_quoted(lead) if lead else ""
        written[index] = f'{quoted[:-1]}${{{variable}}}"' if quoted.endswith('"') else f"{quoted}${{{variable}}}"
    parts = [" ".join(["/usr/bin/env", *command]), *_grouped(deployment, references, written)]
    lines += [f"ExecStart={_continued(parts)}", "Restart=on-failure", "", "[Install]", "WantedBy=multi-user.target"]
    return "\n".join(lines) + "\n"


def _continued(parts: Sequence[str]) -> str:
    return " \\\n  ".join(parts)


def is_option(word: str) -> bool:
    return re.match(r"--?[A-Za-z]", word) is not None


def _shell_groups(deployment: Deployment) -> list[str]:
    references = references_of(deployment)
    written = [shlex.quote(word or "") for word in deployment.words]
    for index, (lead, variable) in references.items():
        written[index] = f'{shlex.quote(lead) if lead else ""}"${{{variable}:?}}"'
    return _grouped(deployment, references, written)


def _grouped(deployment: Deployment, references: Mapping[int, Reference], written: Sequence[str]) -> list[str]:
    groups: list[list[str]] = []
    for index, (word, text) in enumerate(zip(deployment.words, written, strict=True)):
        begins = is_option(word) if word is not None else bool(references[index].lead)
        if begins or not groups:
            groups.append([])
        groups[-1].append(text)
    return [" ".join(group) for group in groups]


class Reference(NamedTuple):
    """A variable in place of a word."""

    lead: str
    """The option with its `=`, if in the same word."""
    variable: str


def references_of(deployment: Deployment) -> dict[int, Reference]:
    """Variables for the secret or unknown words: their original ones, if any."""
    references: dict[int, Reference] = {}
    secret = secrets(deployment.words)
    raws = deployment.raws or ("",) * len(deployment.words)
    names = {match[2] for raw in raws if (match := _VARIABLE.match(raw))}
    names.update(name for name, _ in deployment.environment)
    variables = {value: name for name, value in deployment.environment if value and is_secret(name, value)}
    option = ""
    for index, (word, raw) in enumerate(zip(deployment.words, raws, strict=True)):
        match = None if word is not None else _VARIABLE.match(raw)
        option_match = match or _LEAD.match(raw)
        lead = (option_match[1] or "") if option_match else (word or "")[: secret.get(index, 0)]
        if lead or (word or "").startswith("--"):
            option = (lead or word or "").partition("=")[0]
        if word is not None and index not in secret:
            continue
        value = None if word is None else word[len(lead) :]
        variable = match[2] if match else variables.get(value or "") or _variable(option, names)
        if value is not None:
            variables[value] = variable
        names.add(variable)
        references[index] = Reference(lead, variable)
    return references


def references(deployment: Deployment) -> tuple[str, ...]:
    """Variables that must be set before running: secrets and unknown values."""
    variables = (reference.variable for reference in references_of(deployment).values())
    return tuple(dict.fromkeys([*deployment.handed, *variables]))


def secrets(words: Sequence[str | None]) -> dict[int, int]:
    """Offsets of the secrets in the words with one."""
    offsets: dict[int, int] = {}
    option = ""
    for index, word in enumerate(words):
        if word is None:
            continue
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            if equals and is_secret(option.removeprefix("--"), value):
                offsets[index] = len(option) + 1
        elif is_secret(option.removeprefix("--"), word):
            offsets[index] = 0
    return offsets


def _variable(option: str, names: set[str]) -> str:
    """Choose an unused variable name for an option's value; not VLLM_*, as VLLM_PORT is another port than --port."""
    variable = _SECRET_VARIABLES.get(option)
    if variable is not None and variable not in names:
        return variable
    name = "ARG_" + re.sub(r"\W+", "_", option.removeprefix("--")).upper()
    numbered = (f"{name if option else 'VALUE'}_{number}" for number in count(1))
    if option and name not in names:
        return name
    return next(candidate for candidate in numbered if candidate not in names)


def _image(deployment: Deployment) -> str:
    if deployment.image:
        return deployment.image
    if not _PUBLISHED.fullmatch(deployment.release or ""):
        raise InputError("neither an image nor a vLLM release is given; set one of them")
    return f"vllm/vllm-openai:v{deployment.release}"


def is_secret(name: str, value: str) -> bool:
    """Whether the value of an option or variable is secret."""
    return bool(value) and (names_secret(name) or redact_text(value) != value)


def _port(deployment: Deployment) -> str:
    words, references = deployment.words, references_of(deployment)
    port = "8000"
    for index, word in enumerate(words):
        name, equals, value = (word or (references[index].lead if index in references else "")).partition("=")
        if name != "--port":
            continue
        at = index if equals else index + 1
        number = value if equals else (words[at] or "" if at < len(words) else "")
        if at in references:
            port = f"${{{references[at].variable}:?}}"
        elif number.isdecimal():
            port = number
    return port


def yaml_quoted(text: str) -> str:
    """Quote a text for a compose file, without interpolation."""
    return yaml_double(text.replace("$", "$$"))


def yaml_double(text: str) -> str:
    # JSON's strings are valid YAML; characters that YAML does not allow are escaped.
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(
        r"[\x7f-\x9f\ufeff\ud800-\udfff\ufffe\uffff\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", quoted
    )


def systemd_quoted(text: str, *, is_command: bool = True) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "%%")
    if is_command:
        escaped = escaped.replace("$", "$$")
    escaped = escaped.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    if text and PLAIN.match(text):
        return escaped
    return '"' + escaped.replace('"', '\\"') + '"'


def behind(parsed: Parsed, index: int) -> int:
    """Index after the last value of an option."""
    last = index + 1
    roles = parsed.roles
    while last < len(roles) and roles[last].kind == "value" and roles[last].option_word == index:
        last += 1
    return last


class ParsedWords:
    def __init__(self, words: Sequence[str | None], release: ReleaseData, entry: str) -> None:
        self.words, self.release, self.entry = words, release, entry
        self.parsed = arguments.parse(list(words), release, entry)

    def groups(self, dest: str) -> list[tuple[int, int]]:
        """Ranges of an option with its values."""
        groups: list[tuple[int, int]] = []
        roles = self.parsed.roles
        groups += [(index, behind(self.parsed, index)) for index in self.parsed.places.get(dest, ())]
        if dest in {"model", "model_tag"}:
            groups += [(index, index + 1) for index, role in enumerate(roles) if role.kind == "model"]
            if self.entry == "serve" and self.words and self.words[0] is None:
                groups.append((0, 1))  # an unknown first word is in the model's place
        if dest not in self.release.by_dest:
            groups += [*self._unknown_groups(option_of(dest))]
        return sorted(set(groups))

    def _unknown_groups(self, name: str) -> Iterator[tuple[int, int]]:
        """Ranges of an option by its spelling, with its values; none if a value may be the model."""
        roles = self.parsed.roles
        for index, role in enumerate(roles):
            word, equals, _ = (self.words[index] or "").partition("=")
            if role.kind != "option" or word.replace("_", "-") != name:
                continue
            last = index + 1 if equals else behind(self.parsed, index)
            while role.option is None and not equals and last < len(roles) and not is_option(self.words[last] or "-a"):
                last += 1
            if role.option or last == index + 1 or any(other.kind == "model" for other in roles[:index]):
                yield index, last

    def written(self, dest: str, value: Any) -> list[str]:
        if dest in {"model", "model_tag"}:
            is_option = any(words[0] < words[1] - 1 for words in self.groups("model")) or self.entry != "serve"
            return ["--model", str(value)] if is_option else [str(value)]
        option = self.release.by_dest.get(dest)
        if option is None:
            raise EditRefusedError
        if isinstance(value, bool) and not option.takes_value:
            spelled = next((text for text, sets in option.flag_values.items() if sets is value), None)
            return [spelled] if spelled else []
        return option_words(option.name, value)
