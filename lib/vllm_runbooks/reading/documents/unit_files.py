"""systemd units: the commands of a service, split by systemd's rules, and its environment."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vllm_runbooks.core.excerpt import Excerpt, Replacement
from vllm_runbooks.reading.arguments.words import HOLE
from vllm_runbooks.reading.documents import escapes, launchers, placeholders, programs
from vllm_runbooks.reading.documents.placed_words import Characters, word_of_characters
from vllm_runbooks.reading.documents.starts import Around, DocumentReading, Setting, WrittenLaunch
from vllm_runbooks.reading.shell import Trouble, Word

_ASSIGNMENT = re.compile(r"[ \t]*([A-Za-z][A-Za-z0-9-]{0,60})[ \t]*=[ \t]*")
_COMMANDS = {"ExecStart", "ExecStartPre", "ExecStartPost"}
_PREFIXES = "@-:+!|"
_OPERATOR = re.compile(r"(?:\d?>{1,2}&?\d?|&>{1,2}|<{1,3}|\|{1,2}|&{1,2})\Z|\d?&?>{1,2}(?=[/$%\w.~&])|(?:\$\(|`)")
"""A word with a meaning in a shell, but not in systemd."""
_ESCAPES = {**escapes.SIMPLE, "s": " "}
_GIVEN = {"PATH", "LANG", "USER", "LOGNAME", "HOME", "SHELL", "MAINPID", "INVOCATION_ID", "XDG_RUNTIME_DIR", "TERM"}
"""Variables that systemd itself sets."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w{0,200})\}|\$([A-Za-z_]\w{0,200})|\$\$", re.ASCII)
_PIECE = re.compile(
    rf"\\(?:{escapes.NUMBER}|(?P<octal>[0-7]{{3}})|(?P<code>.))|%(?P<specifier>.)|(?P<blanks>[ \t\n\r]+)|.", re.DOTALL
)
"""A piece of a command line: an escape, a specifier (`%i`), blanks, a character."""


def read(source: Excerpt, around: Around, reading: DocumentReading) -> None:
    """Add the launches and settings of a unit; a setting applies to the whole unit."""
    source = Excerpt(placeholders.marked(source.text, is_page=False), source.at)
    commands: list[tuple[str, Excerpt]] = []
    environment: dict[str, Setting] = {}
    container: dict[str, Excerpt] = {}
    given: list[tuple[str, Excerpt]] = []
    has_file = False
    notifies: Excerpt | None = None
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
        if name == "command" and is_supervised:  # of supervisord, which splits it similarly
            commands.append((name, value))
        elif name in _COMMANDS:
            commands.append((name, value)) if value.text else commands.clear()
        elif name == "Environment":
            if not value.text:
                environment.clear()
            environment |= {setting.name: setting for setting in _settings(value, reading.troubles)}
        elif name == "EnvironmentFile" and value.text:
            has_file = True
        elif section == "Service" and name == "Type":
            notifies = value if value.text in {"notify", "notify-reload"} else None
        elif section == "Container" and name in {"Image", "Exec", "Entrypoint"}:
            container[name] = value
        elif section == "Container" and name in _AS_OPTIONS:
            given.append((_AS_OPTIONS[name], value))
    reading.settings += environment.values()
    around = replace(around, kind="systemd", environment=environment, language="systemd")
    count = len(reading.starts)
    for _, value in commands:
        for words in _command_lines(value, environment, reading.troubles, has_file=has_file):
            kept = _without_operators(list(map(placeholders.filled, words)), reading.troubles)
            programs.read_command(kept, around, reading)
    if notifies is not None and _is_silent(reading.starts[count:]) and "systemd-notify" not in source.text:
        first, end = notifies.at[0], notifies.at[len(notifies.text)]
        edits = (Replacement(first, end, "exec"),)
        reading.troubles.append(Trouble("file.systemd-notify", first, end, {"type": notifies.text}, edits))
    if container:
        _read_container(container, given, around, reading, has_file=has_file)


def _is_silent(launches: Sequence[WrittenLaunch]) -> bool:
    """Whether vLLM itself is the service, which never notifies systemd; podman does."""
    programs_run = [(launch.prefix[0].value or "").rsplit("/", 1)[-1] for launch in launches if launch.prefix]
    return any(re.fullmatch(r"vllm|python[\d.]{0,5}", program) for program in programs_run)


_AS_OPTIONS = {
    "AddDevice": "--device", "Network": "--network", "Pod": "--pod", "PodmanArgs": "", "PublishPort": "--publish",
    "Secret": "--secret", "ShmSize": "--shm-size", "Tmpfs": "--tmpfs", "User": "--user", "Volume": "--volume",
}  # fmt: skip
"""Keys of a Podman unit, with the option of `podman run` that they become."""


def _read_container(
    container: Mapping[str, Excerpt],
    given: Sequence[tuple[str, Excerpt]],
    around: Around,
    reading: DocumentReading,
    *,
    has_file: bool,
) -> None:
    """A Podman unit (`[Container]`): the image with its arguments."""
    words: dict[str, tuple[Word, ...]] = {}
    for name, value in container.items():
        lines = _command_lines(value, around.environment, reading.troubles, has_file=has_file, prefixes="")
        words[name] = tuple(word for line in lines for word in line)
    image = words.get("Image", (None,))[0]
    if image is not None:
        reading.images.append(image)
    options: list[Word] = []
    for option, value in given:
        lines = _command_lines(value, around.environment, reading.troubles, has_file=has_file, prefixes="")
        for word in (word for line in lines for word in line):
            options += [Word(option, word.start, word.start, option)] if option else []
            options.append(word)
    read = launchers.container_options(options, is_all=True)
    reading.settings += read.settings
    around = replace(
        around,
        environment={**around.environment, **{setting.name: setting for setting in read.settings}},
        image=image,
        gpus=read.gpus,
        container=read,
    )
    programs.run_image(words.get("Entrypoint"), words.get("Exec", ()), image, around, reading)


def _without_operators(words: list[Word], troubles: list[Trouble]) -> tuple[Word, ...]:
    """The words up to a shell operator, which systemd would pass on with the following words."""
    for index, word in enumerate(words):
        operator = _OPERATOR.match(word.raw) if index else None
        if operator and any("vllm" in other.raw for other in words):
            details = {"operator": operator[0]}
            troubles.append(Trouble("file.systemd-operator", word.start, words[-1].end, details))
            return tuple(words[:index])
    return tuple(words)


def _lines(source: Excerpt) -> list[Excerpt]:
    """The logical lines: a backslash at a line's end joins the next; comment lines in between are left out."""
    lines: list[Excerpt] = []
    parts: list[tuple[int, int]] = []
    for match in re.finditer(r"([^\n]*?)\r?(\n|\Z)", source.text):
        line = match[1]
        begin, end = match.span(1)
        if line.lstrip().startswith(("#", ";")):
            continue
        if line.endswith("\\"):
            # systemd replaces the backslash and the line end by a blank: here the line end
            # represents it.
            parts += [(begin, end - 1), match.span(2)]
            continue
        if parts or line.strip():
            lines.append(source.joined([*parts, (begin, end)]))
        parts = []
    return [*lines, source.joined(parts)] if parts else lines


def _settings(value: Excerpt, troubles: list[Trouble]) -> list[Setting]:
    settings = []
    lost: list[tuple[str, int, int]] = []
    for characters, first, end in _split(value, troubles):
        text = "".join(character for character, _ in characters)
        match = re.match(r"([A-Za-z_]\w{0,200})=", text, re.ASCII)
        if match:
            word = _word(characters[match.end() :], first, end, value)
            at = word.at[0] if word.at else first
            placed = placeholders.filled(replace(word, start=min(at, end)))
            settings.append(Setting(match[1], placed, first, end, "unit", pair=(first, end)))
        elif placeholders.END not in text:  # a template's text may bring its quotes
            lost.append((text, first, end))
    if lost:
        is_plain = len(settings) == 1 and settings[0].start < lost[0][1] and not re.search(r"[\"'\\]", value.text)
        details = {"word": lost[0][0][:80].replace(HOLE, "%")}
        places = (settings[0].start, lost[-1][2]) if is_plain else ()
        edits = tuple(Replacement(place, place, '"') for place in places)
        troubles.append(Trouble("file.systemd-assignment", lost[0][1], lost[-1][2], details, edits))
    return settings


def _command_lines(
    value: Excerpt,
    environment: Mapping[str, Setting],
    troubles: list[Trouble],
    *,
    has_file: bool,
    prefixes: str = _PREFIXES,
) -> list[list[Word]]:
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


def _split(value: Excerpt, troubles: list[Trouble]) -> list[tuple[Characters, int, int]]:
    """Words of a line with the offset of each character, and the start and end of each word."""
    words: list[tuple[Characters, int, int]] = []
    text, at = value.text, value.at
    word: Characters = []
    begun: int | None = None
    quote = ""
    for match in _PIECE.finditer(text):
        index, piece = match.start(), match[0]
        if match["blanks"] and not quote:
            if begun is not None:
                words.append((word, at[begun], at[index - 1] + 1))
                word, begun = [], None
            continue
        begun = index if begun is None else begun
        if piece == quote:
            quote = ""
        elif not quote and piece in "\"'":
            quote = piece
        elif piece[0] == "\\" and len(piece) > 1:
            made = _ESCAPES.get(match["code"]) if match["code"] else escapes.numbered(match, match["octal"] or "")
            if made is None:
                escape = piece[:2]
                troubles.append(Trouble("file.systemd-escape", at[index], at[index] + 2, {"escape": escape}))
            word += [(character, at[index]) for character in made or piece]
        elif match["specifier"]:
            word.append(("%" if piece == "%%" else HOLE, at[index]))
        else:
            word += zip(piece, at[index : match.end()], strict=True)
    if begun is not None:
        words.append((word, at[begun], at[len(text) - 1] + 1))
    if quote:
        troubles.append(Trouble("file.systemd-quote", at[begun or 0], at[len(text)], {"quote": quote}))
    return words


def _word(characters: Characters, start: int, end: int, value: Excerpt) -> Word:
    return word_of_characters(characters, start, end, _raw(value, start, end), "specifier")


def _raw(value: Excerpt, start: int, end: int) -> str:
    return value.text[bisect_left(value.at, start) : bisect_left(value.at, end)]


def _filled(
    characters: Characters, start: int, end: int, value: Excerpt, environment: Mapping[str, Setting], *, has_file: bool
) -> list[Word]:
    """A word with its variables replaced: a separate `$NAME` is split at blanks, not `${NAME}`."""
    text = "".join(character for character, _ in characters)
    alone = re.fullmatch(r"\$([A-Za-z_]\w{0,200})", text, re.ASCII)
    made: Characters = []
    why, done = "", 0
    for match in _VARIABLE.finditer(text):
        if match[2] and not alone:
            continue  # only as a separate word
        name = match[1] or match[2]
        replacement: str | None = "$"
        if name:
            setting = environment.get(name)
            unset = None if has_file or name in _GIVEN else ""
            replacement = setting.value.value if setting else unset
        if replacement is None:
            why, replacement = why or f"unset variable {name}", HOLE
        place = characters[match.start()][1]
        made += [*characters[done : match.start()], *((character, place) for character in replacement)]
        done = match.end()
    word = word_of_characters([*made, *characters[done:]], start, end, _raw(value, start, end), why or "specifier")
    if alone and word.value is not None:
        return [Word(part, start, end, word.raw) for part in word.value.split()]
    return [word]
