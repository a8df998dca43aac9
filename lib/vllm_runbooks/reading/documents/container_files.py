"""Dockerfiles: the command of the image, and its environment."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.arguments.words import HOLE
from vllm_runbooks.reading.documents import placed_words, programs
from vllm_runbooks.reading.documents.placed_words import Characters
from vllm_runbooks.reading.documents.starts import Around, DocumentReading, Setting
from vllm_runbooks.reading.shell import Trouble, Word

_INSTRUCTION = re.compile(r"[ \t]*([A-Za-z]{2,12})[ \t]+")
_PAIR = re.compile(
    r"([A-Za-z_]\w{0,200})=(\"(?:[^\"\\]|\\.){0,4000}\"|'[^']{0,4000}'|(?:[^\s\\\"']|\\.){0,4000})", re.DOTALL
)
_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*+\"")
_CHARACTER = re.compile(r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\u[\da-fA-F]{4}|\\.|.", re.DOTALL)
_POSITIONAL = re.compile(r"\$\{?[@*\d]")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w{0,200})(?::-([^{}]{0,400}))?\}|([A-Za-z_]\w{0,200}))")


def read(source: Excerpt, around: Around, reading: DocumentReading) -> None:
    """Add the launch of the last stage: a command in exec form as written, else shell."""
    environment: dict[str, Setting] = {}
    defaults: dict[str, str] = {}
    image: Word | None = None
    entry: Excerpt | None = None
    command: Excerpt | None = None
    for name, rest in instructions(source):
        if name == "FROM":
            environment, entry, command = {}, None, None
            match = re.match(r"(?:--\S{1,100}[ \t]+)?(\S+)", rest.text)
            if match:
                image = _image(rest.part(match.start(1), match.end(1)), defaults)
                reading.images.append(image)
        elif name in {"ENV", "ARG"}:
            for setting in _settings(rest):
                if name == "ENV":
                    environment[setting.name] = setting
                    reading.settings.append(setting)
                if setting.value.value is not None:
                    defaults[setting.name] = setting.value.value
        elif name == "ENTRYPOINT":
            entry = rest  # a CMD of the same stage stays, before or after
        elif name == "CMD":
            command = rest
    around = replace(around, kind="dockerfile", environment=environment, image=image, gpus=None)
    words, arguments = _exec_words(entry), _exec_words(command)
    if entry is not None and words is None:
        count = len(reading.starts)
        programs.read_script(entry, around, reading)
        if command is not None and len(reading.starts) > count and not _POSITIONAL.search(entry.text):
            first, end = command.at[0], command.at[len(command.text)]
            reading.troubles.append(Trouble("file.ignored-cmd", first, end, {}))
    elif entry is None and command is not None and arguments is None:
        programs.read_script(command, around, reading)
    elif words and arguments and len(arguments) == 1 and arguments[0].value in {"--help", "-h"}:
        # A default for a container that is started without arguments.
        count = len(reading.starts)
        programs.run_image(words, (), image, replace(around, language="json"), reading)
        reading.change_starts(count, lambda start: replace(start, is_elided=True))
    elif words or arguments:
        programs.run_image(words or None, arguments or (), image, replace(around, language="json"), reading)


def instructions(source: Excerpt) -> list[tuple[str, Excerpt]]:
    """Each instruction with its arguments as written, without line continuations and comments."""
    instructions: list[tuple[str, Excerpt]] = []
    parts: list[tuple[int, int]] = []
    for match in re.finditer(r"([^\n]*)(\n?)", source.text):
        begin, line = match.start(), match[1].rstrip()
        is_end = begin == len(source.text)  # which also ends an instruction whose last line continues
        if not is_end and (line.lstrip()[:1] == "#" or (parts and not line.strip())):
            continue
        if line.endswith("\\"):
            parts += [(begin, begin + len(line) - 1), match.span(2)]
            continue
        whole = source.joined([*parts, (begin, begin + len(line))])
        # A line end inside an instruction becomes the blank that it represents.
        whole = Excerpt(whole.text.replace("\n", " "), whole.at)
        name = _INSTRUCTION.match(whole.text)
        if name:
            instructions.append((name[1].upper(), whole.part(name.end(), len(whole.text))))
        parts = []
    return instructions


def _settings(rest: Excerpt) -> list[Setting]:
    settings = []
    for match in _PAIR.finditer(rest.text):
        start, end = match.span(2)
        is_quoted = rest.text[start : start + 1] in {'"', "'"} and end - start > 1
        inner = rest.part(start + is_quoted, end - is_quoted)
        if rest.text[start : start + 1] != "'":
            inner = _unescaped(inner)
        why = "variable" if HOLE in inner.text else ""
        value = placed_words.literal(inner, start=rest.at[start], end=rest.at[end], why=why)
        settings.append(Setting(match[1], value, rest.at[match.start()], rest.at[end], "dockerfile"))
    alone = re.match(r"([A-Za-z_]\w{0,200})[ \t]+(.+)", rest.text) if not settings else None
    if alone:
        value = placed_words.literal(rest.part(alone.start(2), len(rest.text.rstrip())))
        settings.append(Setting(alone[1], value, rest.at[0], rest.at[len(rest.text)], "dockerfile"))
    return settings


def _unescaped(source: Excerpt) -> Excerpt:
    """A value without the backslashes that quote, in which every variable is unknown."""
    characters = [
        (HOLE if match[0] == "$" else match[0][-1], source.at[match.end() - 1])
        for match in re.finditer(r'\\[\\"$ ]|.', source.text, re.DOTALL)
    ]
    return placed_words.excerpt_of_characters(characters, source.at[len(source.text)])


def _image(source: Excerpt, defaults: dict[str, str]) -> Word:
    text = source.text
    values = [defaults.get(match[1] or match[3], match[2]) for match in _VARIABLE.finditer(text)]
    first, last = source.at[0], source.at[len(text)]
    if None in values:
        return Word(None, first, last, text, "build argument")
    remaining = iter(values)
    value = _VARIABLE.sub(lambda _: next(remaining) or "", text)
    return Word(value, first, last, text, "", source.at[:-1] if value == text else None)


def _exec_words(rest: Excerpt | None) -> tuple[Word, ...] | None:
    """The arguments of an exec form, a JSON list; None for a shell form."""
    if rest is None or not rest.text.lstrip().startswith("["):
        return None
    try:
        values = json.loads(rest.text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return None
    return tuple(json_word(rest, match.start(), match.end()) for match in _STRING.finditer(rest.text))


def json_word(source: Excerpt, start: int, end: int) -> Word:
    """A JSON string with its quotes, as a word with the offset of each character."""
    raw = source.text[start:end]
    return placed_words.word_of_characters(
        json_characters(source, start, end), source.at[start], source.at[end - 1] + 1, raw
    )


def json_characters(source: Excerpt, start: int, end: int) -> Characters:
    """The characters of a JSON string with their places."""
    characters: Characters = []
    for match in _CHARACTER.finditer(source.text, start + 1, end - 1):
        character = match[0]
        if character[0] == "\\" and len(character) > 1:
            try:
                character = json.loads(f'"{character}"', strict=False)
            except ValueError:
                character = "\ufffd" if character[1] == "u" else character[1]
        characters.append((character, source.at[match.start()]))
    return characters
