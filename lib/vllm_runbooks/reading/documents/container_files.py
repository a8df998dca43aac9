"""Dockerfiles: what the image they describe starts, and the environment that it is given."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.documents import placed_words, programs
from vllm_runbooks.reading.documents.starts import Around, Reading, Setting
from vllm_runbooks.reading.shell import Word

_INSTRUCTION = re.compile(r"[ \t]*([A-Za-z]{2,12})[ \t]+")
_PAIR = re.compile(
    r"([A-Za-z_]\w{0,200})=(\"(?:[^\"\\]|\\.){0,4000}\"|'[^']{0,4000}'|(?:[^\s\\\"']|\\.){0,4000})", re.DOTALL
)
_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*+\"")
_UNKNOWN = "\ufffc"
"""Stands in a text for what cannot be known."""
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w{0,200})(?::-([^{}]{0,400}))?\}|([A-Za-z_]\w{0,200}))")


def read(source: Excerpt, around: Around, reading: Reading) -> None:
    """Add what the last stage starts. A command in its exec form is taken as it is, else a shell reads it."""
    environment: dict[str, Setting] = {}
    arguments: dict[str, str] = {}
    image: Word | None = None
    entry: Excerpt | None = None
    command: Excerpt | None = None
    for name, rest in instructions(source):
        if name == "FROM":
            environment, entry, command = {}, None, None
            match = re.match(r"(?:--\S{1,100}[ \t]+)?(\S+)", rest.text)
            if match:
                image = _image(rest.part(match.start(1), match.end(1)), arguments)
                reading.images.append(image)
        elif name in {"ENV", "ARG"}:
            for one in _settings(rest):
                if name == "ENV":
                    environment[one.name] = one
                    reading.settings.append(one)
                if one.value.value is not None:
                    arguments[one.name] = one.value.value
        elif name == "ENTRYPOINT":
            entry = rest  # a CMD of the same stage stays, before or behind
        elif name == "CMD":
            command = rest
    around = replace(around, kind="dockerfile", environment=environment, image=image, gpus=None)
    words, given = _exec_words(entry), _exec_words(command)
    if entry is not None and words is None:
        programs.read_script(entry, around, reading)
    elif entry is None and command is not None and given is None:
        programs.read_script(command, around, reading)
    elif words or given:
        programs.run_image(words or None, given or (), image, replace(around, language="json"), reading)


def instructions(source: Excerpt) -> list[tuple[str, Excerpt]]:
    """Each instruction with its arguments as written, continued lines and comments between them taken out."""
    found: list[tuple[str, Excerpt]] = []
    parts: list[tuple[int, int]] = []
    text, begin = source.text, 0
    while begin <= len(text):
        stop = text.find("\n", begin)
        stop = len(text) if stop < 0 else stop
        line = text[begin:stop].rstrip()
        if line.lstrip()[:1] == "#" or (parts and not line.strip()):
            pass
        elif line.endswith("\\"):
            parts += [(begin, begin + len(line) - 1), (stop, min(stop + 1, len(text)))]
        else:
            parts.append((begin, begin + len(line)))
            whole = source.joined(parts)
            # A line end inside an instruction stands for the blank that it separates with.
            whole = Excerpt(whole.text.replace("\n", " "), whole.at)
            match = _INSTRUCTION.match(whole.text)
            if match:
                found.append((match[1].upper(), whole.part(match.end(), len(whole.text))))
            parts = []
        begin = stop + 1
    return found


def _settings(rest: Excerpt) -> list[Setting]:
    found = []
    for match in _PAIR.finditer(rest.text):
        start, end = match.span(2)
        is_quoted = rest.text[start : start + 1] in {'"', "'"} and end - start > 1
        inner = rest.part(start + is_quoted, end - is_quoted)
        if rest.text[start : start + 1] != "'":
            inner = _unescaped(inner)
        why = "variable" if _UNKNOWN in inner.text else ""
        value = placed_words.literal(inner, start=rest.at[start], end=rest.at[end], why=why)
        found.append(Setting(match[1], value, rest.at[match.start()], rest.at[end], "dockerfile"))
    if not found:
        alone = re.match(r"([A-Za-z_]\w{0,200})[ \t]+(.+)", rest.text)
        if alone:
            inner = rest.part(alone.start(2), len(rest.text.rstrip()))
            word = placed_words.literal(inner)
            found.append(Setting(alone[1], word, rest.at[0], rest.at[len(rest.text)], "dockerfile"))
    return found


def _unescaped(source: Excerpt) -> Excerpt:
    """A value without the backslashes that quote, and what a variable is marked as unknown."""
    kept: list[tuple[str, int]] = []
    index = 0
    while index < len(source.text):
        character = source.text[index]
        if character == "\\" and index + 1 < len(source.text) and source.text[index + 1] in '\\"$ ':
            index += 1
            kept.append((source.text[index], source.at[index]))
        else:
            kept.append((_UNKNOWN if character == "$" else character, source.at[index]))
        index += 1
    return Excerpt("".join(one for one, _ in kept), [*(at for _, at in kept), source.at[len(source.text)]])


def _image(source: Excerpt, arguments: dict[str, str]) -> Word:
    """The image, arguments with a default filled in."""
    text = source.text
    unknown = False

    def fill(match: re.Match[str]) -> str:
        nonlocal unknown
        value = arguments.get(match[1] or match[3], match[2])
        unknown = unknown or value is None
        return value or ""

    value = _VARIABLE.sub(fill, text)
    first, last = source.at[0], source.at[len(text)]
    if unknown:
        return Word(None, first, last, text, "build argument")
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
    """A JSON string, from its opening quote to behind its closing one, as a word with the place of each character."""
    characters = json_characters(source, start, end)
    return Word(
        "".join(character for character, _ in characters),
        source.at[start],
        source.at[end - 1] + 1,
        source.text[start:end],
        "",
        tuple(place for _, place in characters),
    )


def json_characters(source: Excerpt, start: int, end: int) -> list[tuple[str, int]]:
    """The characters of a JSON string with their places."""
    simple = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
    found: list[tuple[str, int]] = []
    index, text = start + 1, source.text
    while index < end - 1:
        if text[index] != "\\":
            found.append((text[index], source.at[index]))
            index += 1
        elif text[index + 1] == "u":
            code, length = _code(text, index)
            found.append((chr(code), source.at[index]))
            index += length
        else:
            found.append((simple.get(text[index + 1], text[index + 1]), source.at[index]))
            index += 2
    return found


def _code(text: str, index: int) -> tuple[int, int]:
    r"""The character of a `\uXXXX`, two of them where they are a surrogate pair, and how long that is."""
    try:
        code = int(text[index + 2 : index + 6], 16)
        if 0xD800 <= code < 0xDC00 and text[index + 6 : index + 8] == "\\u":
            low = int(text[index + 8 : index + 12], 16)
            if 0xDC00 <= low < 0xE000:
                return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), 12
    except ValueError:
        return 0xFFFD, 2
    return code, 6
