"""A start of vLLM as data, written as shell, docker, compose or systemd.

Secrets are written as references to a variable, never as values.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
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
from vllm_runbooks.reading.documents import option_words
from vllm_runbooks.reading.documents.starts import Found

PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+\Z", re.ASCII)
"""A word that needs no quotes anywhere."""
_VARIABLE = re.compile(
    r"\"?(--?[\w.-]+=)?\"?\$(?:\{(?=\w+(?::?\?[^{}\"$`]*)?\}))?([A-Za-z_]\w*)(?:(?::?\?[^{}\"$`]*)?\})?\"?\Z", re.ASCII
)
"""A word that is a variable, or an option with `=` and a variable."""
_LEAD = re.compile(r"\"?(--?[A-Za-z][\w.-]*=)", re.ASCII)
_OWN_VARIABLES = {"--api-key": "VLLM_API_KEY", "--hf-token": "HF_TOKEN"}
_PUBLISHED = re.compile(r"\d+(?:\.\d+)+(?:rc\d+|\.?post\d+)?", re.ASCII)
"""A release that has an image."""


class RefusedError(Exception):
    """This edit cannot be made at this place without doubt."""


@dataclass(frozen=True)
class Deployment:
    """Environment, executable and arguments of one server."""

    entry: str
    """"serve", "api_server", or "image" where the image's own entry point gets the arguments."""
    words: tuple[str | None, ...]
    """Arguments; None is one that cannot be known."""
    environment: tuple[tuple[str, str | None], ...] = ()
    image: str | None = None
    gpus: tuple[str, ...] | int | None = None
    """Devices, or how many; None: all."""
    name: str = "vllm"
    release: str | None = None
    """Of vLLM; the image is that of this release where none is named."""
    raws: tuple[str, ...] = ()
    """Of each word that cannot be known how it was written, of the others ""; empty where that is not known of any."""

    @classmethod
    def of(cls, found: Found) -> Deployment:
        """The deployment that a start found in a document describes."""
        gpus = found.gpus
        seen: tuple[str, ...] | int | None = None
        if gpus is not None:
            seen = gpus.devices if gpus.devices is not None else gpus.count
        return cls(
            entry=found.entry,
            words=tuple(word.value for word in found.words),
            environment=tuple((name, one.value.value) for name, one in found.environment.items()),
            image=found.image.value if found.image is not None else None,
            gpus=seen,
            name=found.name or "vllm",
            release=found.release,
            raws=tuple(word.raw if word.value is None else "" for word in found.words),
        )

    @property
    def command(self) -> tuple[str, ...]:
        """The program with its first words; empty where the image has its own."""
        return {"serve": ("vllm", "serve"), "image": ()}.get(
            self.entry, ("python3", "-m", "vllm.entrypoints.openai.api_server")
        )

    def edited(self, changes: Iterable[Edit], release: ReleaseData) -> Deployment:
        """With the changes made: an option set stands where it stood, a new one at the end.

        Raises:
            RefusedError: The release has no such option.
        """
        words, environment = list(self.words), dict(self.environment)
        raws = list(self.raws or [""] * len(words))
        for change in changes:
            if change.op == "env":
                environment[change.name] = None if change.value is None else str(change.value)
                continue
            given = Given(words, release, parser_entry(self.entry, words, release))
            made: list[str | None] = [] if change.op == "remove" else list(given.written(change.name, change.value))
            places = given.groups(change.name)
            first, last = places[-1] if places else (len(words), len(words))
            words[first:last], raws[first:last] = made, [""] * len(made)
            for first, last in reversed(places[:-1]):
                del words[first:last], raws[first:last]
        return replace(self, words=tuple(words), environment=tuple(environment.items()), raws=tuple(raws))


def parser_entry(entry: str, words: Sequence[str | None], release: ReleaseData) -> str:
    """Which of a release's parsers reads the arguments: an image's own entry point is the release's, where it is known.

    Where it is not, the way in which the model is given tells it.
    """
    if entry != "image":
        return "serve" if entry == "serve" else "api_server"
    known = release.features.get("image_entry")
    if known in options.ENTRIES and not (release.is_beyond or release.is_before):
        return str(known)
    first = words[0] if words else None
    return "serve" if first is not None and not first.startswith("-") else "api_server"


# Writing


def to_shell(deployment: Deployment) -> str:
    """A shell command, one option a line, its variables exported before."""
    lines = [f"export {name}={_shell_value(name, value)}" for name, value in deployment.environment]
    command = deployment.command or ("vllm", "serve")
    return "\n".join([*lines, _continued([" ".join(command), *_shell_groups(deployment)])]) + "\n"


def to_docker(deployment: Deployment) -> str:
    """A `docker run` command, one option a line; the image's entry point is named, so that its default is no matter.

    Raises:
        InputError: Neither image nor release is known.
    """
    words: list[str] = ["docker run --rm", f"--gpus {_gpus_option(deployment.gpus)}", "--ipc=host"]
    port = _port(deployment)
    words.append(f"-p {port}:{port}" if port.isdecimal() else f'-p "{port}:{port}"')
    for name, value in deployment.environment:
        is_handed = value is None or is_secret(name, value)
        words.append(f"-e {name}" if is_handed else f"-e {shlex.quote(f'{name}={value}')}")
    program = deployment.command
    if program:
        words.append(f"--entrypoint {program[0]}")
    words.append(shlex.quote(_image(deployment)))
    rest = [" ".join(program[1:])] if len(program) > 1 else []
    return _continued([*words, *rest, *_shell_groups(deployment)]) + "\n"


def to_compose(deployment: Deployment) -> str:
    """A compose file with one service.

    Raises:
        InputError: Neither image nor release is known.
    """
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
    lines += [f"      - {one}" for one in written]
    if deployment.environment:
        lines.append("    environment:")
    for name, value in deployment.environment:
        is_handed = value is None or is_secret(name, value)
        lines.append(f"      {name}: " + (f'"${{{name}:?}}"' if is_handed else yaml_quoted(value or "")))
    port = _port(deployment)
    lines += ["    ports:", f'      - "{port}:{port}"', "    ipc: host", "    deploy:", "      resources:"]
    lines += ["        reservations:", "          devices:", "            - driver: nvidia"]
    if isinstance(deployment.gpus, tuple):
        lines.append(f"              device_ids: [{', '.join(yaml_quoted(one) for one in deployment.gpus)}]")
    else:
        lines.append(f"              count: {'all' if deployment.gpus is None else deployment.gpus}")
    return "\n".join([*lines, "              capabilities: [gpu]"]) + "\n"


def to_systemd(deployment: Deployment) -> str:
    """A unit with one service; secrets come from a file that only root reads."""
    settings = [
        (name, value) for name, value in deployment.environment if value is not None and not is_secret(name, value)
    ]
    references = references_of(deployment)
    handed = [name for name, value in deployment.environment if value is None or is_secret(name, value)]
    has_file = bool(handed or references)
    command = deployment.command or ("vllm", "serve")
    lines = ["[Unit]", "Description=vLLM", "After=network-online.target", "", "[Service]"]
    lines += [f"Environment={systemd_quoted(f'{name}={value}', is_command=False)}" for name, value in settings]
    lines += ["EnvironmentFile=/etc/vllm.env"] if has_file else []
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
    """Arguments quoted, each option with its values in one text."""
    references = references_of(deployment)
    written = [shlex.quote(word or "") for word in deployment.words]
    for index, (lead, variable) in references.items():
        written[index] = f'{shlex.quote(lead) if lead else ""}"${{{variable}:?}}"'
    return _grouped(deployment, references, written)


def _grouped(deployment: Deployment, references: Mapping[int, Reference], written: Sequence[str]) -> list[str]:
    """Words as they are written, each option with its values in one text."""
    groups: list[list[str]] = []
    for index, (word, text) in enumerate(zip(deployment.words, written, strict=True)):
        begins = is_option(word) if word is not None else bool(references[index].lead)
        if begins or not groups:
            groups.append([])
        groups[-1].append(text)
    return [" ".join(group) for group in groups]


class Reference(NamedTuple):
    """A variable that stands for a word."""

    lead: str
    """The option with its `=` where the word has both."""
    variable: str


def references_of(deployment: Deployment) -> dict[int, Reference]:
    """The words that are secret or not known, each with a variable of its own, the one it was written with if any."""
    found: dict[int, Reference] = {}
    secret = secrets(deployment.words)
    raws = deployment.raws or ("",) * len(deployment.words)
    taken = {match[2] for raw in raws if (match := _VARIABLE.match(raw))}
    taken.update(name for name, _ in deployment.environment)
    held = {value: name for name, value in deployment.environment if value and is_secret(name, value)}
    option = ""
    for index, (word, raw) in enumerate(zip(deployment.words, raws, strict=True)):
        match = None if word is not None else _VARIABLE.match(raw)
        known = match or _LEAD.match(raw)
        lead = (known[1] or "") if known else (word or "")[: secret.get(index, 0)]
        if lead or (word or "").startswith("--"):
            option = (lead or word or "").partition("=")[0]
        if word is not None and index not in secret:
            continue
        value = None if word is None else word[len(lead) :]
        variable = match[2] if match else held.get(value or "") or _variable(option, taken)
        if value is not None:
            held[value] = variable
        taken.add(variable)
        found[index] = Reference(lead, variable)
    return found


def references(deployment: Deployment) -> tuple[str, ...]:
    """The variables that whoever runs what is written has to set: for secrets, and for what is not known."""
    handed = [name for name, value in deployment.environment if value is None or is_secret(name, value)]
    return tuple(dict.fromkeys([*handed, *(one.variable for one in references_of(deployment).values())]))


def secrets(words: Sequence[str | None]) -> dict[int, int]:
    """The words that hold a secret, each with where in it the secret begins."""
    found: dict[int, int] = {}
    option = ""
    for index, word in enumerate(words):
        if word is None:
            continue
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            if equals and is_secret(option.removeprefix("--"), value):
                found[index] = len(option) + 1
        elif is_secret(option.removeprefix("--"), word):
            found[index] = 0
    return found


def _variable(option: str, taken: set[str]) -> str:
    """A name for the value of an option, unlike those that are taken: a secret's own where vLLM reads it anyway.

    Any other begins unlike vLLM's variables: VLLM_PORT is another port than --port.
    """
    own = _OWN_VARIABLES.get(option)
    if own is not None and own not in taken:
        return own
    name = "ARG_" + re.sub(r"\W+", "_", option.removeprefix("--")).upper()
    numbered = (f"{name if option else 'VALUE'}_{number}" for number in count(1))
    if option and name not in taken:
        return name
    return next(one for one in numbered if one not in taken)


def _image(deployment: Deployment) -> str:
    """The image that is named, else the one that vLLM publishes of the release.

    Raises:
        InputError: Neither is known.
    """
    if deployment.image:
        return deployment.image
    if not _PUBLISHED.fullmatch(deployment.release or ""):
        raise InputError("neither an image nor a release of vLLM is known; name one of them")
    return f"vllm/vllm-openai:v{deployment.release}"


def is_secret(name: str, value: str) -> bool:
    """Whether the value of an option or variable must not be shown."""
    return bool(value) and (names_secret(name) or redact_text(value) != value)


def _shell_value(name: str, value: str | None) -> str:
    return f'"${{{name}:?}}"' if value is None or is_secret(name, value) else shlex.quote(value)


def _port(deployment: Deployment) -> str:
    """The port that the server listens on, by the last that is given: a number, or the variable that stands for it."""
    words, references = deployment.words, references_of(deployment)
    found = "8000"
    for index, word in enumerate(words):
        name, equals, value = (word or (references[index].lead if index in references else "")).partition("=")
        if name != "--port":
            continue
        at = index if equals else index + 1
        number = value if equals else (words[at] or "" if at < len(words) else "")
        if at in references:
            found = f"${{{references[at].variable}:?}}"
        elif number.isdecimal():
            found = number
    return found


def _gpus_option(gpus: tuple[str, ...] | int | None) -> str:
    if isinstance(gpus, tuple):
        return f"""'"device={",".join(gpus)}"'"""
    return "all" if gpus is None else str(gpus)


def yaml_quoted(text: str) -> str:
    """A text of a compose file: double-quoted, no variable in it."""
    return yaml_double(text.replace("$", "$$"))


def yaml_double(text: str) -> str:
    # JSON's strings are YAML's; what YAML does not let stand as it is, is escaped.
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
    """Index behind the last word that belongs to an option: its values, as the release's parser takes them."""
    last = index + 1
    roles = parsed.roles
    while last < len(roles) and roles[last].kind == "value" and roles[last].option_word == index:
        last += 1
    return last


class Given:
    """Arguments as a release's parser takes them."""

    def __init__(self, words: Sequence[str | None], release: ReleaseData, entry: str) -> None:
        self.words, self.release, self.entry = words, release, entry
        self.parsed = arguments.parse(list(words), release, entry)

    def groups(self, dest: str) -> list[tuple[int, int]]:
        """Where an option stands with its values: from one index to another, in order."""
        found: list[tuple[int, int]] = []
        roles = self.parsed.roles
        found += [(index, behind(self.parsed, index)) for index in self.parsed.given.get(dest, ())]
        if dest in {"model", "model_tag"}:
            found += [(index, index + 1) for index, role in enumerate(roles) if role.kind == "model"]
            if self.entry == "serve" and self.words and self.words[0] is None:
                found.append((0, 1))  # an unknown first word stands where the model does
        return sorted(set(found))

    def written(self, dest: str, value: Any) -> list[str]:
        """Words that set an option."""
        if dest in {"model", "model_tag"}:
            is_option = any(words[0] < words[1] - 1 for words in self.groups("model")) or self.entry != "serve"
            return ["--model", str(value)] if is_option else [str(value)]
        option = self.release.by_dest.get(dest)
        if option is None:
            raise RefusedError
        if isinstance(value, bool) and not option.takes_value:
            spelled = next((text for text, sets in option.flag_values.items() if sets is value), None)
            return [spelled] if spelled else []
        return option_words(option.name, value)
