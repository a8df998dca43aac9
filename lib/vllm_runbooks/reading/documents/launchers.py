"""Parse commands that run something in a container: docker, podman, kubectl, apptainer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from vllm_runbooks.reading.arguments.words import HOLE
from vllm_runbooks.reading.documents import gpus, images
from vllm_runbooks.reading.documents.placed_words import cut, setting_of
from vllm_runbooks.reading.documents.placeholders import END
from vllm_runbooks.reading.documents.starts import ContainerOptions, PublishedPort, Setting
from vllm_runbooks.reading.shell import Word
from vllm_runbooks.reading.shell.word_lists import word_list

_RUNTIMES = {"docker", "podman", "nerdctl", "nvidia-docker", "docker.exe"}
_COMPOSERS = {"docker-compose", "podman-compose"}
_SANDBOXES = {"apptainer", "singularity"}
_SANDBOX_IMAGE = re.compile(r"(?:docker|oras|library|shub|docker-daemon|docker-archive)://|.*\.(?:sif|simg|img|sqsh)\Z")
_MAX_AHEAD = 60  # words after an unknown one that are searched for the image
_SHORT_BOOLEAN = "PTditq"
_MOUNT_OPTIONS = frozenset(("-v", "--volume", "--mount", "--tmpfs"))


_PAIRS = re.compile(r"[^,]++(?:,(?![A-Za-z_]\w*=)[^,]*+)*+")
"""Pairs between commas; a comma that no further name follows is part of a value, as in `GPUS=0,1`."""


class ContainerLauncher(NamedTuple):
    """Position at which a command runs something in a container."""

    at: int
    begin: int
    how: str
    """"run" (an image), "exec" (in a container that runs), "compose" (a service's command), "kubectl" or
    "sandbox"."""


def launcher(values: Sequence[str], heads: Sequence[str]) -> ContainerLauncher | None:
    """The launcher in a command, by the values of its words and the programs."""
    for index, head in enumerate(heads):
        if head in _COMPOSERS:
            return _of_composer(values, index, index + 1)
        if head in _SANDBOXES:
            return ContainerLauncher(index, index + 1, "sandbox")
        if head in _RUNTIMES or head == "kubectl":
            return _of_runtime(values, index, head)
    return None


def _of_runtime(values: Sequence[str], index: int, head: str) -> ContainerLauncher | None:
    at = index + 1
    while at < len(values) and values[at].startswith("-"):
        at += 2 if values[at] in word_list("docker-global-options") else 1
    if at < len(values) and values[at] in {"container", "service"}:
        at += 1
    command = values[at] if at < len(values) else ""
    if command == "compose":
        return _of_composer(values, index, at + 1)
    if head == "kubectl":
        return ContainerLauncher(index, at + 1, "kubectl") if command in {"run", "exec"} else None
    if command in {"run", "create"}:
        return ContainerLauncher(index, at + 1, "run")
    return ContainerLauncher(index, at + 1, "exec") if command == "exec" else None


def _of_composer(values: Sequence[str], index: int, at: int) -> ContainerLauncher:
    """`docker compose` with its options; other subcommands than `run` and `exec` launch what the file says."""
    while at < len(values) and values[at].startswith("-"):
        at += 2 if values[at] in word_list("compose-global-options") else 1
    return ContainerLauncher(index, at + 1, "compose" if values[at : at + 1] in (["run"], ["exec"]) else "none")


_MAPPING = re.compile(
    r"(?:(\[[\da-fA-F:.]{2,45}\]|::1|[\d.]{7,15}|\?):)?(?:(?:(\d{1,5})|\d{0,5}(?:-\d{1,5})?|\?):)?(\d{1,5})(-\d{1,5})?(?:/(\w{1,5}))?",
    re.ASCII,
)
"""`[[ADDRESS:]HOST:]CONTAINER[/PROTOCOL]` of one port or a range; a `?` is filled in later."""


_LATER = re.compile(
    rf"\$\{{[^{{}}\n]{{1,100}}\}}|\$[A-Za-z_]\w{{0,60}}|%\w{{1,60}}%|{HOLE}{{1,2}}[^\n{HOLE}{END}]{{0,500}}{END}{{1,2}}",
    re.ASCII,
)
"""A variable, or an expression of a template."""


def published(value: str | None, start: int, end: int) -> PublishedPort:
    """Parse a port mapping in Docker's form."""
    match = _MAPPING.fullmatch(_LATER.sub("?", value or ""))
    if match is None:
        return PublishedPort("", None, None, True, start, end)
    inside = None if match[4] else int(match[3])
    return PublishedPort(
        match[1] or "", int(match[2]) if match[2] else None, inside, match[5] in {None, "tcp"}, start, end
    )


def container_options(words: Sequence[Word], *, is_all: bool = False) -> ContainerOptions:
    """Read the options before the image.

    With `is_all`, those anywhere, as a script passes them on.
    """
    options = ContainerOptions()
    index = 0
    while index < len(words):
        word = words[index]
        value = _shown(word)
        if not value.startswith("-") or value == "-":
            if not is_all and not (word.value is None and _is_of_options(words, index)):
                break
            options.is_complete = False
            index += 1
            continue
        if value == "--":
            index += 1  # the image is next, whatever its first character
            break
        name, argument, index = _option(words, index)
        _take(options, name, argument, word)
    options.words = tuple(words[:index])
    if index < len(words) and not is_all:
        options.image = words[index]
        options.rest = tuple(words[index + 1 :])
        options.size = index + 1
    return options


def _shown(word: Word) -> str:
    """The value of a word; of a partly unknown one its text, which begins with an option's name (`--name=$NAME`)."""
    return word.raw.lstrip("\"'") if word.value is None else word.value


def _is_of_options(words: Sequence[Word], index: int) -> bool:
    """Whether an unknown word is further options rather than the image: an array, or an image follows."""
    if "[@]" in words[index].raw:
        return True
    if "image" in words[index].raw.lower():
        return False
    return any(_is_image(word) for word in _after(words, index))


def _after(words: Sequence[Word], index: int) -> Iterator[Word]:
    """Words that may be the image after an unknown one, without options and their values."""
    at = index + 1
    while at < min(len(words), index + _MAX_AHEAD):
        if _shown(words[at]).startswith("-"):
            _, _, at = _option(words, at)
        else:
            yield words[at]
            if words[at].value is not None:
                return
            at += 1


def _is_image(word: Word) -> bool:
    if word.value is None:
        return "image" in word.raw.lower()
    return "vllm" in word.value and word.value != "vllm" and bool(images.parse(word.value).name)


def _option(words: Sequence[Word], index: int) -> tuple[str, Word | None, int]:
    word = words[index]
    value = _shown(word)
    if value.startswith("--"):
        name, equals, _ = value.partition("=")
        if equals:
            return name, cut(word, len(name) + 1), index + 1
        is_boolean = name in word_list("docker-flags")
    else:
        at = len(value) - len(value[1:].lstrip(_SHORT_BOOLEAN))
        is_boolean = at >= len(value)
        name = value if is_boolean else "-" + value[at]
        if at + 1 < len(value):
            return name, cut(word, at + 1 + (value[at + 1] == "=")), index + 1
    if is_boolean or index + 1 >= len(words):
        return name, None, index + 1
    return name, words[index + 1], index + 2


def _take(options: ContainerOptions, name: str, argument: Word | None, word: Word) -> None:
    options.names.add(name)
    options.is_complete &= word.value is not None
    if name == "--publish-all" or (name[1:2] != "-" and "P" in name):
        options.ports.append(published(None, word.start, word.end))
    if argument is None:
        return
    value = argument.value
    if name in {"-e", "--env"}:
        options.settings += _setting(argument, word)
    elif name == "--entrypoint":
        options.entrypoint = argument
    elif name in {"--gpus", "--device"} and value is not None:
        found = gpus.of_option(value, word.start, argument.end)
        options.gpus = gpus.added(options.gpus, found) if name == "--device" else found or options.gpus
    elif name in {"-p", "--publish"}:
        options.ports.append(published(value or argument.raw.strip("\"'"), argument.start, argument.end))
    elif name in {"--net", "--network"}:
        options.network = value or "?"
    elif name == "--ipc":
        options.ipc = value or "?"
    elif name in {"-m", "--memory"}:
        options.memory = value or ""
    elif name in _MOUNT_OPTIONS:
        options.mounts.append(value or "")
    elif name == "--secret" and value is not None:
        parts = dict(part.partition("=")[::2] for part in value.split(",")[1:])
        if parts.get("type") == "env":  # of podman; the value is in its store
            target = parts.get("target") or value.partition(",")[0]
            hidden = Word(None, argument.start, argument.end, argument.raw, "secret")
            options.settings.append(Setting(target, hidden, word.start, argument.end, "option"))


def _setting(argument: Word, word: Word) -> Iterator[Setting]:
    """Variable of an option `--env`; a name without a value passes the shell's variable."""
    value = argument.value
    setting = setting_of(argument, "option")
    if setting is not None:
        yield replace(setting, start=word.start)
    elif value is not None and re.fullmatch(r"[A-Za-z_]\w*", value):
        handed = Word(None, argument.start, argument.end, argument.raw, "handed on")
        yield Setting(value, handed, word.start, argument.end, "option")
    elif value is None and (match := re.match(r"[\"']?([A-Za-z_]\w{0,200})=", argument.raw)):
        yield Setting(match[1], argument, word.start, argument.end, "option")


def is_node(options: ContainerOptions) -> bool:
    """Whether a container is there to join a cluster, or is left to be used from within."""
    return any("ray start" in (word.value or word.raw) or "RAY" in word.raw for word in options.rest)


def pod(words: Sequence[Word]) -> ContainerOptions:
    """Read the words after `kubectl run` or `kubectl exec`."""
    result = ContainerOptions(is_run=True)
    for index, word in enumerate(words):
        if word.value == "--":
            result.rest = tuple(words[index + 1 :])
            break
        name, argument, _ = _option(words, index)
        if name == "--image":
            result.image = argument
        elif name == "--env" and argument is not None:
            result.settings += _setting(argument, word)
        elif name == "--command":
            result.is_run = False
    return result


def sandbox(words: Sequence[Word], begin: int) -> ContainerOptions:
    """Read the words of `apptainer run [options] IMAGE [arguments]` from an index.

    Its size counts all words.
    """
    values = [word.value or "" for word in words]
    at = next((index for index in range(begin, len(words)) if _SANDBOX_IMAGE.match(values[index])), None)
    if at is None:
        return ContainerOptions(size=begin)
    verb = next((value for value in values[begin:at] if value in {"run", "exec", "shell", "instance"}), "")
    result = ContainerOptions(image=words[at], size=at + 1, is_run=verb == "run")
    for index in range(begin, at):
        name, argument, _ = _option(words, index)
        if name == "--env" and argument is not None:
            result.settings += [setting for pair in _split(argument) for setting in _setting(pair, words[index])]
    return result


def _split(word: Word) -> list[Word]:
    """The pairs `NAME=value` of a word, between commas, unless it is partly unknown."""
    if word.value is None or word.at is None:
        return [word]
    at = word.at
    parts = (match.span() for match in _PAIRS.finditer(word.value))
    return [
        Word(word.value[begin:end], at[begin], at[end - 1] + 1, word.value[begin:end], "", at[begin:end])
        for begin, end in parts
    ]
