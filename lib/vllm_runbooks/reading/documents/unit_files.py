"""systemd units: the commands that a service starts, split by systemd's own rules, and its environment."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace

from vllm_runbooks.core.excerpt import Excerpt, Replacement
from vllm_runbooks.reading.documents import escapes, programs
from vllm_runbooks.reading.documents.starts import Around, Reading, Setting
from vllm_runbooks.reading.shell import Trouble, Word

_ASSIGNMENT = re.compile(r"[ \t]*([A-Za-z][A-Za-z0-9-]{0,60})[ \t]*=[ \t]*")
_COMMANDS = {"ExecStart", "ExecStartPre", "ExecStartPost"}
_PREFIXES = "@-:+!|"
_OPERATOR = re.compile(r"(?:\d?>{1,2}&?\d?|&>{1,2}|<{1,3}|\|{1,2}|&{1,2})\Z|\d?&?>{1,2}(?=[/$%\w.~&])|(?:\$\(|`)")
"""A word that means something to a shell, and nothing to systemd."""
_ESCAPES = {**escapes.SIMPLE, "s": " "}
_GIVEN = {"PATH", "LANG", "USER", "LOGNAME", "HOME", "SHELL", "MAINPID", "INVOCATION_ID", "XDG_RUNTIME_DIR", "TERM"}
"""Variables that systemd itself sets."""
_UNKNOWN = "\ufffc"
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w{0,200})\}|\$([A-Za-z_]\w{0,200})|\$\$", re.ASCII)

_Characters = list[tuple[str, int]]


def read(source: Excerpt, around: Around, reading: Reading) -> None:
    """Add what a unit starts and sets. Settings count wherever they stand, as systemd reads the unit whole."""
    commands: list[tuple[str, Excerpt]] = []
    environment: dict[str, Setting] = {}
    container: dict[str, Excerpt] = {}
    has_file = False
    section = "Service"
    for line in _lines(source):
        text = line.text
        if text.lstrip()[:1] == "[":
            section = text.strip().strip("[]")
            continue
        match = _ASSIGNMENT.match(text)
        is_supervised = section.startswith("program:")
        if not match or not (is_supervised or section in {"Service", "Container"}):
            continue
        name, value = match[1], line.part(match.end(), len(text.rstrip()))
        if name == "command" and is_supervised:  # of supervisord, which splits it in about the same way
            commands.append((name, value))
        elif name in _COMMANDS:
            commands.append((name, value)) if value.text else commands.clear()
        elif name == "Environment":
            if not value.text:
                environment.clear()
            for one in _settings(value, reading.troubles):
                environment[one.name] = one
        elif name == "EnvironmentFile" and value.text:
            has_file = True
        elif section == "Container" and name in {"Image", "Exec", "Entrypoint"}:
            container[name] = value
    reading.settings += environment.values()
    around = replace(around, kind="systemd", environment=environment, language="systemd")
    for _, value in commands:
        for words in _command_lines(value, environment, reading.troubles, has_file=has_file):
            programs.read_command(_without_operators(words, reading.troubles), around, reading)
    if container:
        _read_container(container, around, reading, has_file=has_file)


def _read_container(container: Mapping[str, Excerpt], around: Around, reading: Reading, *, has_file: bool) -> None:
    """A unit of podman's (`[Container]`): the image with the arguments that it is given."""
    found: dict[str, tuple[Word, ...]] = {}
    for name, value in container.items():
        lines = _command_lines(value, around.environment, reading.troubles, has_file=has_file, prefixes="")
        found[name] = tuple(word for line in lines for word in line)
    image = found.get("Image", (None,))[0]
    if image is not None:
        reading.images.append(image)
    around = replace(around, image=image)
    programs.run_image(found.get("Entrypoint"), found.get("Exec", ()), image, around, reading)


def _without_operators(words: list[Word], troubles: list[Trouble]) -> tuple[Word, ...]:
    """The words up to one that is there for a shell: systemd would pass it on as it is, and what follows as well."""
    if not any("vllm" in one.raw for one in words):
        return tuple(words)
    for index, word in enumerate(words):
        found = _OPERATOR.match(word.raw) if index else None
        if found:
            says = {"operator": found[0]}
            troubles.append(Trouble("file.systemd-operator", word.start, words[-1].end, says, ()))
            return tuple(words[:index])
    return tuple(words)


def _lines(source: Excerpt) -> list[Excerpt]:
    """The logical lines: a backslash at a line's end joins the next; comment lines in between are left out."""
    found: list[Excerpt] = []
    parts: list[tuple[int, int]] = []
    begin = 0
    text = source.text
    while begin <= len(text):
        stop = text.find("\n", begin)
        stop = len(text) if stop < 0 else stop
        end = stop - (text[stop - 1 : stop] == "\r" and stop > begin)
        first = text[begin:end].lstrip()[:1]
        if first in {"#", ";"} and first:
            pass
        elif end > begin and text[end - 1] == "\\":
            # systemd puts a blank in place of the backslash and the line end: the line end itself stands for it.
            parts += [(begin, end - 1), (stop, stop + 1)] if stop < len(text) else [(begin, end - 1)]
        else:
            if parts or text[begin:end].strip():
                parts.append((begin, end))
                found.append(source.joined(parts))
            parts = []
        begin = stop + 1
    if parts:
        found.append(source.joined(parts))
    return found


def _settings(value: Excerpt, troubles: list[Trouble]) -> list[Setting]:
    found = []
    lost: list[tuple[str, int, int]] = []
    for characters, first, end in _split(value, troubles):
        text = "".join(character for character, _ in characters)
        match = re.match(r"([A-Za-z_]\w{0,200})=", text, re.ASCII)
        if match:
            word = _word(characters[match.end() :], first, end, value)
            at = word.at[0] if word.at else first
            found.append(Setting(match[1], replace(word, start=min(at, end)), first, end, "unit", pair=(first, end)))
        else:
            lost.append((text, first, end))
    if lost:
        is_plain = len(found) == 1 and found[0].start < lost[0][1] and not re.search(r"[\"'\\]", value.text)
        says = {"word": lost[0][0][:80].replace(_UNKNOWN, "%")}
        places = (found[0].start, lost[-1][2]) if is_plain else ()
        edits = tuple(Replacement(place, place, '"') for place in places)
        troubles.append(Trouble("file.systemd-assignment", lost[0][1], lost[-1][2], says, edits))
    return found


def _command_lines(
    value: Excerpt,
    environment: Mapping[str, Setting],
    troubles: list[Trouble],
    *,
    has_file: bool,
    prefixes: str = _PREFIXES,
) -> list[list[Word]]:
    """The commands of a line, each as the arguments that systemd passes."""
    lines: list[list[Word]] = [[]]
    begin = 0
    while begin < len(value.text) and value.text[begin] in prefixes:
        begin += 1
    is_expanded = ":" not in value.text[:begin]
    for characters, start, end in _split(value.part(begin, len(value.text)), troubles):
        if [character for character, _ in characters] == [";"] and end == start + 1:
            lines.append([])
        elif is_expanded:
            lines[-1] += _filled(characters, start, end, value, environment, has_file=has_file)
        else:
            lines[-1].append(_word(characters, start, end, value))
    return [line for line in lines if line]


def _split(value: Excerpt, troubles: list[Trouble]) -> list[tuple[_Characters, int, int]]:
    """The words of a line with the place of each character, and where each begins and ends in the file."""
    found: list[tuple[_Characters, int, int]] = []
    text, at = value.text, value.at
    word: _Characters = []
    begun: int | None = None
    quote, index = "", 0
    while index < len(text):
        character = text[index]
        if character == "\\" and index + 1 < len(text):
            begun = index if begun is None else begun
            made, length = _escape(text, index)
            if made is None:
                troubles.append(
                    Trouble("file.systemd-escape", at[index], at[index] + 2, {"escape": text[index : index + 2]}, ())
                )
                made = text[index : index + 2]
            word += [(one, at[index]) for one in made]
            index += length
            continue
        if quote:
            if character == quote:
                quote = ""
            else:
                index += _put(word, text, index, at[index])
                continue
        elif character in "\"'":
            quote, begun = character, index if begun is None else begun
        elif character in " \t\n\r":
            if begun is not None:
                found.append((word, at[begun], at[index - 1] + 1))
                word, begun = [], None
        else:
            begun = index if begun is None else begun
            index += _put(word, text, index, at[index])
            continue
        index += 1
    if begun is not None:
        found.append((word, at[begun], at[len(text) - 1] + 1))
    if quote:
        troubles.append(Trouble("file.systemd-quote", at[begun or 0], at[len(text)], {"quote": quote}, ()))
    return found


def _put(word: _Characters, text: str, index: int, place: int) -> int:
    """Append a character, a specifier (`%i`) as what cannot be known; how many characters that took."""
    if text[index] == "%" and index + 1 < len(text):
        word.append(("%" if text[index + 1] == "%" else _UNKNOWN, place))
        return 2
    word.append((text[index], place))
    return 1


def _escape(text: str, index: int) -> tuple[str | None, int]:
    code = text[index + 1]
    if code in _ESCAPES:
        return _ESCAPES[code], 2
    digits, base, offset = escapes.DIGITS.get(code, 0), 16, 2
    if code in "01234567":
        digits, base, offset = 3, 8, 1
    if digits:
        try:
            return chr(int(text[index + offset : index + offset + digits], base)), offset + digits
        except (ValueError, OverflowError):
            return None, 2
    return None, 2


def _word(characters: _Characters, start: int, end: int, value: Excerpt) -> Word:
    text = "".join(character for character, _ in characters)
    raw = _raw(value, start, end)
    if _UNKNOWN in text:
        return Word(None, start, end, raw, "specifier")
    return Word(text, start, end, raw, "", tuple(place for _, place in characters))


def _raw(value: Excerpt, start: int, end: int) -> str:
    return value.text[bisect_left(value.at, start) : bisect_left(value.at, end)]


def _value_of(name: str, environment: Mapping[str, Setting], *, has_file: bool) -> str | None:
    """A variable as the service sees it; None where it cannot be known."""
    setting = environment.get(name)
    if setting is not None:
        return setting.value.value
    return None if has_file or name in _GIVEN else ""


def _filled(
    characters: _Characters,
    start: int,
    end: int,
    value: Excerpt,
    environment: Mapping[str, Setting],
    *,
    has_file: bool,
) -> list[Word]:
    """A word with its variables replaced: `$NAME` as a word of its own is split at blanks, `${NAME}` never is."""
    text = "".join(character for character, _ in characters)
    if "$" not in text:
        return [_word(characters, start, end, value)]
    alone = re.fullmatch(r"\$([A-Za-z_]\w{0,200})", text, re.ASCII)
    made: _Characters = []
    why, done = "", 0
    for match in _VARIABLE.finditer(text):
        if match[2] and not alone:
            continue  # only a word of its own
        made += characters[done : match.start()]
        place = characters[match.start()][1]
        name = match[1] or match[2]
        if name is None:
            made.append(("$", place))
        else:
            known = _value_of(name, environment, has_file=has_file)
            why = why or (f"unset variable {name}" if known is None else "")
            made += [(one, place) for one in (_UNKNOWN if known is None else known)]
        done = match.end()
    made += characters[done:]
    whole = "".join(character for character, _ in made)
    raw = _raw(value, start, end)
    if _UNKNOWN in whole:
        return [Word(None, start, end, raw, why or "specifier")]
    if alone:
        return [Word(part, start, end, raw) for part in whole.split()]
    return [Word(whole, start, end, raw, "", tuple(place for _, place in made))]
