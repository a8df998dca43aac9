"""A start of vLLM as data: edited where it stands in a file, and written as shell, docker, compose or systemd.

An edit keeps order and comments, and is never trusted: the file is read again with it, and the edit is dropped unless
exactly the asked argument or variable has changed. Secrets are written as references to a variable, never as values.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vllm_runbooks import arguments, documents, options
from vllm_runbooks.documents import Page, option_words
from vllm_runbooks.excerpt import Replacement, applied
from vllm_runbooks.options import ReleaseData
from vllm_runbooks.records import Edit
from vllm_runbooks.redact import redact_text
from vllm_runbooks.secret_places import names_secret
from vllm_runbooks.shell import Word
from vllm_runbooks.starts import Found, Keyword, Setting, Within

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+\Z", re.ASCII)
_PLAIN_YAML = re.compile(r"(?:--?)?[A-Za-z/][A-Za-z0-9_./@+=-]*(?::[A-Za-z0-9_./-]+)*\Z", re.ASCII)
_YAML_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "none", "y", "n"}
_SEPARATORS = re.compile(r"(?:[ \t\r\n]|\\\r?\n)*\Z")
_LEADING = re.compile(r"[ \t>]*\Z")
_PYTHON_ENTRIES = {"LLM", "EngineArgs", "AsyncEngineArgs"}


class _RefusedError(Exception):
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
        )

    @property
    def command(self) -> tuple[str, ...]:
        """The program with its first words; empty where the image has its own."""
        return {"serve": ("vllm", "serve"), "image": ()}.get(
            self.entry, ("python3", "-m", "vllm.entrypoints.openai.api_server")
        )

    def edited(self, changes: Iterable[Edit], release: ReleaseData) -> Deployment:
        """With the changes made: an option set stands where it stood, a new one at the end."""
        words, environment = list(self.words), dict(self.environment)
        for change in changes:
            if change.op == "env":
                environment[change.name] = None if change.value is None else str(change.value)
                continue
            given = _Given(words, release, parser_entry(self.entry, words, release))
            made: list[str | None] = [] if change.op == "remove" else list(given.written(change.name, change.value))
            places = given.groups(change.name)
            if not places:
                words += made
                continue
            first, last = places[-1]
            words[first:last] = made
            for first, last in reversed(places[:-1]):
                del words[first:last]
        return replace(self, words=tuple(words), environment=tuple(environment.items()))


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
    return "\n".join([*lines, _continued([" ".join(command), *_shell_groups(deployment.words)])]) + "\n"


def to_docker(deployment: Deployment) -> str:
    """A `docker run` command, one option a line; the image's entry point is named, so that its default is no matter."""
    words: list[str] = ["docker run --rm", f"--gpus {_gpus_option(deployment.gpus)}", "--ipc=host"]
    port = _port(deployment.words)
    words.append(f"-p {port}:{port}")
    for name, value in deployment.environment:
        is_handed = value is None or _is_secret(name, value)
        words.append(f"-e {name}" if is_handed else f"-e {shlex.quote(f'{name}={value}')}")
    image = deployment.image or "vllm/vllm-openai:latest"
    program = deployment.command
    if program:
        words.append(f"--entrypoint {program[0]}")
    words.append(shlex.quote(image))
    rest = [" ".join(program[1:])] if len(program) > 1 else []
    return _continued([*words, *rest, *_shell_groups(deployment.words)]) + "\n"


def to_compose(deployment: Deployment) -> str:
    """A compose file with one service."""
    lines = [
        "services:",
        f"  {re.sub(r'[^A-Za-z0-9_.-]', '-', deployment.name) or 'vllm'}:",
        f"    image: {_yaml_quoted(deployment.image or 'vllm/vllm-openai:latest')}",
    ]
    if deployment.command:
        lines.append(f"    entrypoint: [{', '.join(_yaml_quoted(word) for word in deployment.command)}]")
    if deployment.words:
        lines.append("    command:")
    secret = _secrets(deployment.words)
    for index, word in enumerate(deployment.words):
        if word is None or index in secret:
            lines.append(f"      - {_yaml_reference(secret.get(index, 'VALUE'), word)}")
        else:
            lines.append(f"      - {_yaml_quoted(word)}")
    if deployment.environment:
        lines.append("    environment:")
    for name, value in deployment.environment:
        is_handed = value is None or _is_secret(name, value)
        lines.append(f"      {name}: " + (f'"${{{name}:?}}"' if is_handed else _yaml_quoted(value or "")))
    port = _port(deployment.words)
    lines += ["    ports:", f'      - "{port}:{port}"', "    ipc: host", "    deploy:", "      resources:"]
    lines += ["        reservations:", "          devices:", "            - driver: nvidia"]
    if isinstance(deployment.gpus, tuple):
        lines.append(f"              device_ids: [{', '.join(_yaml_quoted(one) for one in deployment.gpus)}]")
    else:
        lines.append(f"              count: {'all' if deployment.gpus is None else deployment.gpus}")
    return "\n".join([*lines, "              capabilities: [gpu]"]) + "\n"


def to_systemd(deployment: Deployment) -> str:
    """A unit with one service; secrets come from a file that only root reads."""
    settings = [
        (name, value) for name, value in deployment.environment if value is not None and not _is_secret(name, value)
    ]
    secret = _secrets(deployment.words)
    handed = [name for name, value in deployment.environment if value is None or _is_secret(name, value)]
    has_file = bool(handed or secret or None in deployment.words)
    groups: list[list[str]] = []
    for index, word in enumerate(deployment.words):
        if word is None or index in secret:
            name = secret.get(index, "VALUE")
            start, equals, _ = (word or "").partition("=")
            text = f"{start}=${{{name}}}" if equals and start.startswith("--") else f"${{{name}}}"
        else:
            text = _systemd_quoted(word)
        if not groups or (word is not None and _is_option(word)):
            groups.append([])
        groups[-1].append(text)
    command = deployment.command or ("vllm", "serve")
    lines = ["[Unit]", "Description=vLLM", "After=network-online.target", "", "[Service]"]
    lines += [f"Environment={_systemd_quoted(f'{name}={value}', is_command=False)}" for name, value in settings]
    lines += ["EnvironmentFile=/etc/vllm.env"] if has_file else []
    parts = [" ".join(["/usr/bin/env", *command]), *(" ".join(group) for group in groups)]
    lines += [f"ExecStart={_continued(parts)}", "Restart=on-failure", "", "[Install]", "WantedBy=multi-user.target"]
    return "\n".join(lines) + "\n"


def _continued(parts: Sequence[str]) -> str:
    return " \\\n  ".join(parts)


def _is_option(word: str) -> bool:
    return re.match(r"--?[A-Za-z]", word) is not None


def _shell_groups(words: Sequence[str | None]) -> list[str]:
    """Arguments quoted, each option with its values in one text."""
    secret = _secrets(words)
    groups: list[list[str]] = []
    for index, word in enumerate(words):
        if word is None or index in secret:
            name = secret.get(index, "VALUE")
            start, equals, _ = (word or "").partition("=")
            text = f'{start}="${{{name}:?}}"' if equals and start.startswith("--") else f'"${{{name}:?}}"'
        else:
            text = shlex.quote(word)
        if not groups or (word is not None and _is_option(word)):
            groups.append([])
        groups[-1].append(text)
    return [" ".join(group) for group in groups]


def _secrets(words: Sequence[str | None]) -> dict[int, str]:
    """Words that are secret, with the variable that stands for each."""
    found: dict[int, str] = {}
    option = ""
    for index, word in enumerate(words):
        if word is None:
            continue
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            if equals and _is_secret(option.removeprefix("--"), value):
                found[index] = _variable(option)
        elif _is_secret(option.removeprefix("--"), word):
            found[index] = _variable(option)
    return found


def _variable(option: str) -> str:
    return "VLLM_" + re.sub(r"\W+", "_", option.removeprefix("--")).upper() if option else "VALUE"


def _is_secret(name: str, value: str) -> bool:
    return bool(value) and (names_secret(name) or redact_text(value) != value)


def _shell_value(name: str, value: str | None) -> str:
    return f'"${{{name}:?}}"' if value is None or _is_secret(name, value) else shlex.quote(value)


def _port(words: Sequence[str | None]) -> str:
    for index, word in enumerate(words):
        match = re.fullmatch(r"--port(?:=(\d{1,5}))?", word or "")
        following = words[index + 1] if index + 1 < len(words) else None
        if match and (match[1] or (following or "").isdecimal()):
            return match[1] or following or "8000"
    return "8000"


def _gpus_option(gpus: tuple[str, ...] | int | None) -> str:
    if isinstance(gpus, tuple):
        return f"""'"device={",".join(gpus)}"'"""
    return "all" if gpus is None else str(gpus)


def _yaml_quoted(text: str) -> str:
    """A text of a compose file: double-quoted, no variable in it."""
    return _yaml_double(text.replace("$", "$$"))


def _yaml_double(text: str) -> str:
    # JSON's strings are YAML's; what YAML does not let stand as it is, is escaped.
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(
        r"[\x7f-\x9f\ufeff\ud800-\udfff\ufffe\uffff\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", quoted
    )


def _yaml_reference(name: str, word: str | None) -> str:
    start, equals, _ = (word or "").partition("=")
    return f'"{start}=${{{name}:?}}"' if equals and start.startswith("--") else f'"${{{name}:?}}"'


def _systemd_quoted(text: str, *, is_command: bool = True) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "%%")
    if is_command:
        escaped = escaped.replace("$", "$$")
    escaped = escaped.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    if text and _PLAIN.match(text):
        return escaped
    return '"' + escaped.replace('"', '\\"') + '"'


# Editing in place


def edits(page: Page, found: Found, changes: Sequence[Edit], release: ReleaseData) -> tuple[Replacement, ...]:
    """Replacements in the page's text that make the changes of one of its starts; none where that is not certain."""
    for is_compact in (False, True):  # JSON without blanks can stand where `: ` or quotes would break what is around it
        made: list[Replacement] = []
        try:
            for change in changes:
                made += _Place(page.text, found, release, is_compact=is_compact).replacements(change)
        except _RefusedError:
            continue
        made = _merged(made)
        if made and _is_as_asked(page, found, changes, release, made):
            return tuple(made)
    return ()


def without(page: Page, found: Found, first: int, last: int, release: ReleaseData) -> tuple[Replacement, ...]:
    """Replacements that take the words from one index up to another out of a start; none where that is not certain."""
    if found.entry in _PYTHON_ENTRIES or found.language in {"glued", "argv"}:
        return ()
    try:
        made = _merged(_Place(page.text, found, release, is_compact=False).removed(first, last))
    except _RefusedError:
        return ()
    kept = [word.value for word in (*found.words[:first], *found.words[last:])]
    after = [
        start for start in documents.read(applied(page.text, made), kind=page.kind).starts if start.start == found.start
    ]
    return tuple(made) if any([word.value for word in start.words] == kept for start in after) else ()


def _merged(made: list[Replacement]) -> list[Replacement]:
    """Several insertions at one place as one."""
    found: list[Replacement] = []
    for one in sorted(made, key=lambda edit: edit[:2]):
        if found and found[-1].start == found[-1].end == one.start == one.end:
            found[-1] = found[-1]._replace(new_text=found[-1].new_text + one.new_text)
        else:
            found.append(one)
    return found


class _Given:
    """Arguments as a release's parser takes them."""

    def __init__(self, words: Sequence[str | None], release: ReleaseData, entry: str) -> None:
        self.words, self.release, self.entry = words, release, entry
        self.parsed = arguments.parse(list(words), release, entry)

    def groups(self, dest: str) -> list[tuple[int, int]]:
        """Where an option stands with its values: from one index to another, in order."""
        found = []
        roles = self.parsed.roles
        for index in self.parsed.given.get(dest, ()):
            last = index + 1
            while last < len(roles) and roles[last].kind == "value" and roles[last].option_word == index:
                last += 1
            found.append((index, last))
        if dest in {"model", "model_tag"}:
            found += [(index, index + 1) for index, role in enumerate(roles) if role.kind == "model"]
            if self.entry == "serve" and self.words and self.words[0] is None:
                found.append((0, 1))  # an unknown first word stands where the model does
        return sorted(set(found))

    def option(self, dest: str) -> options.Option | None:
        """The option of a destination."""
        return self.release.by_dest.get(dest)

    def written(self, dest: str, value: Any) -> list[str]:
        """Words that set an option."""
        if dest in {"model", "model_tag"}:
            is_option = any(words[0] < words[1] - 1 for words in self.groups("model")) or self.entry != "serve"
            return ["--model", str(value)] if is_option else [str(value)]
        option = self.option(dest)
        if option is None:
            raise _RefusedError
        if isinstance(value, bool) and not option.takes_value:
            spelled = next((text for text, sets in option.flag_values.items() if sets is value), None)
            return [spelled] if spelled else []
        return option_words(option.name, value)


class _Place:
    """One start in a text, being edited."""

    def __init__(self, text: str, found: Found, release: ReleaseData, *, is_compact: bool) -> None:
        self.text, self.found, self.release, self.is_compact = text, found, release, is_compact
        self.values = [word.value for word in found.words]

    def replacements(self, change: Edit) -> list[Replacement]:
        """What has to be replaced for one change.

        Raises:
            _RefusedError: It cannot be done here.
        """
        if change.op == "env":
            return self._set_variable(change.name, "" if change.value is None else str(change.value))
        if self.found.entry in _PYTHON_ENTRIES:
            return self._set_keyword(change) if change.op == "set" else self._remove_keyword(change.name)
        if self.found.language in {"glued", "argv"}:
            raise _RefusedError
        given = _Given(self.values, self.release, parser_entry(self.found.entry, self.values, self.release))
        groups = given.groups(change.name)
        made = [] if change.op == "remove" else given.written(change.name, change.value)
        if self.is_compact and isinstance(change.value, Mapping):
            made[-1] = json.dumps(change.value, separators=(",", ":"), ensure_ascii=False)
        if not made:
            return [one for group in groups for one in self.removed(*group)]
        if not groups:
            return [self._added(made)]
        extra = [one for group in groups[:-1] for one in self.removed(*group)]
        return [self._replaced(*groups[-1], made), *extra]

    # Arguments

    def _replaced(self, first: int, last: int, made: list[str]) -> Replacement:
        words = self.found.words[first:last]
        self._check(words)
        if len(words) == 1 and "=" in (words[0].value or "") and (words[0].value or "").startswith("-"):
            option = (words[0].value or "").partition("=")[0]
            if len(made) == 2:
                return Replacement(words[0].start, words[0].end, self._quoted(f"{option}={made[1]}", words[0]))
        if len(words) == 2 and len(made) == 2:
            return Replacement(words[1].start, words[1].end, self._quoted(made[1], words[1]))
        if len(words) == len(made) == 1:
            return Replacement(words[0].start, words[0].end, self._quoted(made[0], words[0]))
        if self._is_list():
            if len(words) != len(made):
                raise _RefusedError
            raise _RefusedError
        return Replacement(words[0].start, words[-1].end, " ".join(self._quoted(one, words[0]) for one in made))

    def removed(self, first: int, last: int) -> list[Replacement]:
        """What takes words out, with the blanks, line or list item that they leave."""
        words = self.found.words[first:last]
        self._check(words)
        start, end = words[0].start, words[-1].end
        if self._is_list():
            return [self._without_items(first, last)]
        before = max((word.end for word in self._own() if word.end <= start), default=None)
        if before is not None and _SEPARATORS.match(self.text[before:start]):
            return [Replacement(before, end, "")]
        if _SEPARATORS.match(self.text[self._line(start) : start]):
            return [Replacement(start, end, "")]
        raise _RefusedError

    def _without_items(self, first: int, last: int) -> Replacement:
        """Items of a list taken out: their lines, or what stands between them and their neighbours."""
        words = self.found.words
        start, end = words[first].start, words[last - 1].end
        line = self._line(start)
        stop = self.text.find("\n", end)
        stop = len(self.text) if stop < 0 else stop
        is_block = self.found.language == "yaml" and re.fullmatch(r"[ \t]*-[ \t]+", self.text[line:start])
        if is_block:
            if len(words) == last - first:
                raise _RefusedError  # an empty list is another thing
            return Replacement(line, min(stop + 1, len(self.text)), "")
        if first:
            return Replacement(words[first - 1].end, end, "")
        if last < len(words):
            return Replacement(start, words[last].start, "")
        return Replacement(start, end, "")

    def _added(self, made: list[str]) -> Replacement:
        own = self._own()
        if not own:
            raise _RefusedError
        last = max(own, key=lambda word: word.end)
        if self._is_list():
            return self._added_items(last, made)
        quoted = " ".join(self._quoted(one, last) for one in made)
        line = self._line(self._option_start())
        lead = self.text[line : self._option_start()]
        if _LEADING.match(lead) and self.found.words and self._may_break():
            mark = "" if self.found.language == "compose" else " \\"
            newline = "\r\n" if self.text[: last.end].endswith("\r\n") or "\r\n" in self.text[line - 2 : line] else "\n"
            return Replacement(last.end, last.end, f"{mark}{newline}{lead}{quoted}")
        return Replacement(last.end, last.end, f" {quoted}")

    def _added_items(self, last: Word, made: list[str]) -> Replacement:
        line = self._line(last.start)
        lead = re.fullmatch(r"[ \t]*-[ \t]+", self.text[line : last.start])
        if self.found.language == "yaml" and lead:
            if any(word.value and re.match(r"--[^=]+=", word.value) for word in self.found.words) and len(made) == 2:
                made = [f"{made[0]}={made[1]}"]
            stop = self.text.find("\n", max(last.end - 1, last.start))
            stop = len(self.text) if stop < 0 else stop
            stop -= self.text[stop - 1 : stop] == "\r"
            if self.text[last.end - 1 : last.end] == "\n":
                stop = last.end - 1  # a block scalar ends with its last line
            return Replacement(stop, stop, "".join(f"\n{lead[0]}{self._quoted(one, last)}" for one in made))
        return Replacement(last.end, last.end, "".join(f", {self._quoted(one, last)}" for one in made))

    def _own(self) -> list[Word]:
        """The words that stand in the command's own text, not in a variable's."""
        found = self.found
        within = found.within[-1] if found.within else None
        first, last = (within.start, within.end) if within else (found.start, found.end)
        return [word for word in (*found.prefix, *found.words) if first <= word.start and word.end <= last]

    def _option_start(self) -> int:
        """Where the last option of the command begins."""
        starts = [word.start for word in self.found.words if word.value and _is_option(word.value)]
        return max(starts, default=self.found.words[-1].start if self.found.words else self.found.start)

    def _is_list(self) -> bool:
        return self.found.language in {"yaml", "python", "json"}

    def _may_break(self) -> bool:
        """Whether a line end may be put between words."""
        for layer in self.found.within:
            opening = self.text[layer.start : layer.start + 1]
            if layer.language == "yaml":
                if opening in "\"'" or (opening not in "|>" and self.found.language != "compose"):
                    return False
            elif layer.language != "shell":
                return False
        return True

    def _check(self, words: Sequence[Word]) -> None:
        """Words that share a place with others came out of one that was expanded.

        Raises:
            _RefusedError: So they cannot be replaced one by one.
        """
        for word in words:
            same = [one for one in self.found.words if one.start < word.end and word.start < one.end]
            if len(same) > 1 or word.end <= word.start:
                raise _RefusedError

    def _line(self, offset: int) -> int:
        return self.text.rfind("\n", 0, offset) + 1

    # Quoting

    def _quoted(self, value: str, like: Word) -> str:
        """A word as it is written at this place: quoted in its own language, then for all that it stands in."""
        language = self.found.language
        written = _quoted_in(
            language, value, self.text[like.start : like.start + 1], is_compose=self.found.kind == "compose"
        )
        for layer in reversed(self.found.within):
            written = _within(layer, self.text, written, is_compose=self.found.kind == "compose")
        return written

    # Variables

    def _set_variable(self, name: str, value: str) -> list[Replacement]:
        setting = self.found.environment.get(name)
        if setting is not None:
            return [self._changed_variable(setting, value)]
        if self.found.kind == "python" and self.found.language == "python":
            return [self._new_python(name, value)]
        if self.found.kind == "systemd" and not self.found.within:
            line = self._line(self.found.start)
            return [Replacement(line, line, f"Environment={_systemd_quoted(f'{name}={value}', is_command=False)}\n")]
        if self.found.kind == "dockerfile":
            line = self._line(self.found.start)
            return [Replacement(line, line, f"ENV {name}={_docker_quoted(value)}\n")]
        if self.found.kind in {"compose", "kubernetes"} and self.found.keys:
            return [self._new_in_manifest(name, value)]
        if self.found.kind == "docker" and self.found.image is not None and self.found.container:
            return [self._new_option(name, value)]
        if self.found.language == "shell":
            return [self._new_in_shell(name, value)]
        raise _RefusedError

    def _changed_variable(self, setting: Setting, value: str) -> Replacement:
        is_compose = self.found.kind == "compose"
        if setting.form == "assignment":
            written = _quoted_in("shell", value, "")
            for layer in reversed(self._layers_of(setting)):
                written = _within(layer, self.text, written, is_compose=is_compose)
            return Replacement(setting.value.start, setting.value.end, written)
        if setting.form in {"option", "list"} and setting.pair:
            pair = f"{setting.name}={value}"
            if setting.form == "list":
                return Replacement(*setting.pair, _quoted_in("yaml", pair, self.text[setting.pair[0]], is_compose=True))
            written = _quoted_in("shell", pair, "")
            for layer in reversed(self._layers_of(setting)):
                written = _within(layer, self.text, written, is_compose=is_compose)
            return Replacement(*setting.pair, written)
        if setting.form == "unit" and setting.pair:
            return Replacement(*setting.pair, _systemd_quoted(f"{setting.name}={value}", is_command=False))
        if setting.form in {"map", "entry"} and setting.value.end > setting.value.start:
            quoted = _yaml_quoted(value) if is_compose else _yaml_double(value)
            return Replacement(setting.value.start, setting.value.end, quoted)
        if setting.form == "python":
            return Replacement(
                setting.value.start, setting.value.end, _python_quoted(value, self.text[setting.value.start])
            )
        raise _RefusedError

    def _layers_of(self, setting: Setting) -> list[Within]:
        return [layer for layer in self.found.within if layer.start <= setting.start and setting.end <= layer.end]

    def _new_in_shell(self, name: str, value: str) -> Replacement:
        written = f"{name}={_quoted_in('shell', value, '')}"
        exported = [
            one
            for one in self.found.environment.values()
            if one.form == "assignment" and one.start < self.found.start and self._is_export(one)
        ]
        layers = self.found.within
        if exported and all(layer.start <= exported[-1].start for layer in layers) and self._may_break():
            last = max(exported, key=lambda one: one.end)
            line = self._line(last.start)
            lead = re.match(r"[ \t>]*", self.text[line:])
            return Replacement(line, line, f"{lead[0] if lead else ''}export {self._layered(written)}\n")
        invocation = self.found.invocation
        begin = next((word for word in self.found.prefix if word.value), None)
        if invocation is None or begin is None:
            raise _RefusedError
        is_first = invocation.words[:1] == self.found.prefix[:1]
        is_wrapped = not is_first or not re.fullmatch(r"(?:.*/)?(?:vllm|python[\d.]*)", begin.value or "")
        if not is_wrapped:
            return Replacement(begin.start, begin.start, f"{self._layered(written)} ")
        programs = [
            word for word in self.found.prefix if re.fullmatch(r"(?:.*/)?(?:vllm|python[\d.]*)", word.value or "")
        ]
        if not programs:
            raise _RefusedError
        program = programs[-1]
        return Replacement(program.start, program.start, f"env {self._layered(written)} ")

    def _is_export(self, setting: Setting) -> bool:
        line = self._line(setting.start)
        return (
            re.match(r"[ \t>]*export[ \t]+\Z", self.text[line : setting.start]) is not None
            or re.match(r"export[ \t]", self.text[setting.start :]) is not None
        )

    def _layered(self, written: str) -> str:
        for layer in reversed(self.found.within):
            written = _within(layer, self.text, written, is_compose=self.found.kind == "compose")
        return written

    def _new_option(self, name: str, value: str) -> Replacement:
        """An option of `docker run`, in front of the image."""
        image = self.found.image
        if image is None or any(one.start <= image.start < one.end for one in self.found.within[-1:]):
            raise _RefusedError
        line = self._line(image.start)
        written = f"-e {_quoted_in('shell', f'{name}={value}', '')}"
        lead = self.text[line : image.start]
        if _LEADING.match(lead):
            return Replacement(image.start, image.start, f"{written} \\\n{lead}")
        return Replacement(image.start, image.start, f"{written} ")

    def _new_in_manifest(self, name: str, value: str) -> Replacement:
        keys = self.found.keys
        key = "environment" if self.found.kind == "compose" else "env"
        given = [one for one in self.found.environment.values() if one.form in {"map", "list", "entry"}]
        quoted = _yaml_quoted(value) if self.found.kind == "compose" else _yaml_double(value)
        if given and key in keys:
            last = max(given, key=lambda one: one.end)
            first = min(given, key=lambda one: one.start)
            line = self._line(last.start)
            lead = self.text[line : last.start]
            stop = self.text.find("\n", last.end)
            stop = len(self.text) if stop < 0 else stop
            stop -= self.text[stop - 1 : stop] == "\r"
            if not keys[key][0] < first.start <= keys[key][1]:
                raise _RefusedError
            if last.form == "map" and not lead.strip():
                return Replacement(stop, stop, f"\n{lead}{name}: {quoted}")
            if last.form == "list" and re.fullmatch(r"[ \t]*-[ \t]+", lead):
                item = _quoted_in("yaml", f"{name}={value}", self.text[last.start], is_compose=True)
                return Replacement(stop, stop, f"\n{lead}{item}")
            if last.form == "entry" and re.fullmatch(r"[ \t]*-[ \t]+", lead):
                indent = " " * len(lead)
                return Replacement(stop, stop, f"\n{lead}name: {name}\n{indent}value: {quoted}")
            raise _RefusedError
        if key in keys:
            raise _RefusedError
        at = next((keys[one][0] for one in ("command", "args", "entrypoint", "image") if one in keys), None)
        if at is None:
            raise _RefusedError
        lead = self.text[self._line(at) : at]
        indent = " " * len(lead)
        body = (
            f"environment:\n{indent}  {name}: {quoted}\n"
            if self.found.kind == "compose"
            else f"env:\n{indent}- name: {name}\n{indent}  value: {quoted}\n"
        )
        # The key's own line may begin with the dash of a list: the new key takes its place, and it moves down.
        return Replacement(at, at, f"{body}{indent}")

    def _new_python(self, name: str, value: str) -> Replacement:
        match = re.search(r"^(?:from vllm\b|import vllm\b)", self.text, re.MULTILINE)
        line = match.start() if match else self._line(self.found.start)
        if line > self.found.start or (not match and self.text[line : line + 1].isspace()):
            raise _RefusedError
        has_import = re.search(r"^import os\b", self.text[:line], re.MULTILINE) is not None
        lines = ("" if has_import else "import os\n") + f'os.environ["{name}"] = {_python_quoted(value, chr(34))}\n'
        return Replacement(line, line, lines)

    # Keywords of a call

    def _set_keyword(self, change: Edit) -> list[Replacement]:
        keyword = self._keyword(change.name)
        written = _python_literal(change.value)
        if keyword is not None:
            return [Replacement(keyword.start, keyword.end, written)]
        given = [one for one in self.found.keywords if self.found.start < one.name_start and one.end <= self.found.end]
        close = self.found.end - 1
        if not given:
            if self.text[close : close + 1] != ")":
                raise _RefusedError
            before = self.text[:close].rstrip()[-1:]
            return [Replacement(close, close, f"{'' if before in '(,' else ', '}{change.name}={written}")]
        last = max(given, key=lambda one: one.end)
        line = self._line(last.name_start)
        lead = self.text[line : last.name_start]
        comma = re.compile(r"[ \t]*,").match(self.text, last.end)
        if lead.strip() or not lead:
            return [Replacement(last.end, last.end, f", {change.name}={written}")]
        if comma is None:
            return [Replacement(last.end, last.end, f",\n{lead}{change.name}={written}")]
        stop = self.text.find("\n", comma.end())
        rest = self.text[comma.end() : stop] if stop >= 0 else ""
        if stop < 0 or (rest.strip() and not rest.lstrip().startswith("#")):
            return [Replacement(comma.end(), comma.end(), f" {change.name}={written},")]
        return [Replacement(stop, stop, f"\n{lead}{change.name}={written},")]

    def _remove_keyword(self, name: str) -> list[Replacement]:
        keyword = self._keyword(name)
        if keyword is None:
            return []
        line, end = self._line(keyword.name_start), keyword.end
        comma = re.compile(r"[ \t]*,[ \t]*").match(self.text, end)
        end = comma.end() if comma else end
        stop = self.text.find("\n", end)
        if stop >= 0 and not self.text[line : keyword.name_start].strip() and not self.text[end:stop].strip():
            return [Replacement(line, stop + 1, "")]
        if comma is None:
            before = re.search(r",\s*\Z", self.text[: keyword.name_start])
            return [Replacement(before.start() if before else keyword.name_start, end, "")]
        return [Replacement(keyword.name_start, end, "")]

    def _keyword(self, name: str) -> Keyword | None:
        return next((one for one in self.found.keywords if one.name == name), None)


def _quoted_in(language: str, value: str, like: str, *, is_compose: bool = False) -> str:
    """A word in the quoting of a language; `like` is the character that a neighbour begins with."""
    if language == "shell":
        return shlex.quote(value)
    if language == "systemd":
        return _systemd_quoted(value)
    if language == "json":
        return json.dumps(value)
    if language == "python":
        return _python_quoted(value, like)
    if language == "compose":
        return _compose_quoted(value)
    if language != "yaml":
        raise _RefusedError
    if is_compose:
        value = value.replace("$", "$$")
    elif "$(" in value:
        value = value.replace("$(", "$$(")
    if like not in "\"'" and _PLAIN_YAML.match(value) and value.lower() not in _YAML_WORDS:
        return value
    if like == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return _yaml_double(value)


def _compose_quoted(value: str) -> str:
    """A word of a command that compose splits: it knows quotes and backslashes."""
    if value and _PLAIN.match(value):
        return value
    if "'" not in value:
        return f"'{value}'"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _docker_quoted(value: str) -> str:
    return '"' + re.sub(r'([\\"$])', r"\\\1", value) + '"'


def _python_quoted(value: str, like: str) -> str:
    if like == '"' or "'" in value:
        return json.dumps(value, ensure_ascii=False) if value.isprintable() else ascii(value)
    return repr(value)


def _python_literal(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if value.isprintable() else ascii(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_python_literal(key)}: {_python_literal(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_python_literal(one) for one in value) + "]"
    return repr(value)


def _within(layer: Within, text: str, written: str, *, is_compose: bool) -> str:
    """What is written, for the inside of what it stands in.

    Raises:
        _RefusedError: It cannot stand there.
    """
    opening = text[layer.start : layer.start + 1]
    if layer.language == "yaml":
        if is_compose:
            written = written.replace("$", "$$")
        if opening == '"':
            return _yaml_double(written)[1:-1]
        if opening == "'":
            return written.replace("'", "''")
        if opening in "|>":
            return written
        if re.search(r": |:\Z| #|\n", written):
            raise _RefusedError
        return written
    if layer.language == "json":
        return json.dumps(written)[1:-1]
    if layer.language == "python":
        start = re.match(r"[A-Za-z]{0,2}('''|\"\"\"|'|\")", text[layer.start : layer.start + 6])
        if not start or "r" in start[0].lower() or "f" in start[0].lower():
            raise _RefusedError
        return written.replace("\\", "\\\\").replace(start[1][0], f"\\{start[1][0]}").replace("\n", "\\n")
    if opening == "'":
        if layer.language == "systemd":
            return written.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$").replace("'", "\\'")
        if layer.language == "shell":
            return written.replace("'", "'\\''")
        if "'" in written:
            raise _RefusedError
    elif opening == '"':
        written = written.replace("\\", "\\\\").replace('"', '\\"')
        if layer.language == "systemd":
            return written.replace("%", "%%").replace("$", "$$")
        if layer.language == "shell":
            return written.replace("$", "\\$").replace("`", "\\`")
    else:
        raise _RefusedError
    return written


# Checking


def _is_as_asked(
    page: Page, found: Found, changes: Sequence[Edit], release: ReleaseData, made: Sequence[Replacement]
) -> bool:
    """Whether the text, read again, has the changes and no other."""
    again = documents.read(applied(page.text, made), kind=page.kind)
    if len(again.starts) != len(page.starts):
        return False
    for before, after in zip(page.starts, again.starts, strict=True):
        if before.start == found.start and before.kind == found.kind:
            if before.entry != after.entry or not _differs_as_asked(before, after, changes, release):
                return False
        elif not _is_same(before, after):
            return False
    return True


def _is_same(one: Found, other: Found) -> bool:
    return _content(one) == _content(other)


def _content(found: Found) -> tuple[Any, ...]:
    return (
        found.entry,
        tuple(word.value for word in found.words),
        tuple((one.name, repr(one.value), one.is_known) for one in found.keywords),
    )


def _environment(found: Found) -> dict[str, str | None]:
    return {name: one.value.value for name, one in found.environment.items()}


def _differs_as_asked(before: Found, after: Found, changes: Sequence[Edit], release: ReleaseData) -> bool:
    environment = _environment(before)
    environment |= {one.name: "" if one.value is None else str(one.value) for one in changes if one.op == "env"}
    if environment != _environment(after):
        return False
    own = [one for one in changes if one.op != "env"]
    if before.entry in _PYTHON_ENTRIES:
        return _keywords_as_asked(before, after, own)
    words = [word.value for word in before.words]
    wanted = Deployment(before.entry, tuple(words)).edited(own, release).words
    entry = parser_entry(before.entry, words, release)
    got = [word.value for word in after.words]
    one, other = arguments.parse(list(wanted), release, entry), arguments.parse(got, release, entry)
    changed = {change.name for change in own}
    kept = {dest: value for dest, value in one.flags.items() if dest not in changed}
    return (
        sorted(_parts(wanted)) == sorted(_parts(got))
        and kept == {dest: value for dest, value in other.flags.items() if dest not in changed}
        and all(_normal(one.flags.get(dest)) == _normal(other.flags.get(dest)) for dest in changed)
        and one.model == other.model
    )


def _parts(words: Sequence[str | None]) -> list[str]:
    """Words, `--option=value` in two, JSON in one form."""
    found: list[str] = []
    for word in words:
        name, equals, value = (word or "").partition("=")
        if re.fullmatch(r"--[\w.-]+", name):
            found += [name.replace("_", "-"), _normal(value)] if equals else [name.replace("_", "-")]
        else:
            found.append(_normal(word or ""))
    return found


def _normal(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in {"{", "["}:
        try:
            return json.dumps(json.loads(value))
        except (ValueError, RecursionError):
            return value
    return value


def _keywords_as_asked(before: Found, after: Found, changes: Sequence[Edit]) -> bool:
    wanted = {one.name: (one.value, one.is_known) for one in before.keywords}
    for change in changes:
        if change.op == "remove":
            wanted.pop(change.name, None)
        else:
            wanted[change.name] = (json.loads(json.dumps(change.value)), True)
    return wanted == {one.name: (one.value, one.is_known) for one in after.keywords}
