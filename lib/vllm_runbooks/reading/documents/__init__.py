"""Find every vLLM launch in a file: scripts, manifests, units, code, text pages.

Each word has its position. `read(text, name)` detects the format by name and content; `from_argv`
and `from_arguments` build the same record from an argument vector and from the arguments that a log
prints. Nothing is executed, and no text raises an exception.
"""

from __future__ import annotations

import json
import re
import shlex
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

from vllm_runbooks.core import python_trees
from vllm_runbooks.core.excerpt import Excerpt, Replacement, applied
from vllm_runbooks.core.json_errors import same_words
from vllm_runbooks.reading.arguments.as_typed import option_of, option_words
from vllm_runbooks.reading.documents import (
    cell_edits,
    container_files,
    formats,
    glued,
    gpus,
    magics,
    manifests,
    pages,
    placed_words,
    programs,
    python_calls,
    quoted_code,
    recipe_files,
    templates,
    unit_files,
)
from vllm_runbooks.reading.documents.pods import PodService
from vllm_runbooks.reading.documents.starts import Around, DocumentReading, LooseOption, Setting, WrittenLaunch
from vllm_runbooks.reading.shell import Trouble, Word

MAX_STARTS = 1000
"""Launches read per file; a file with more is assumed to be malicious."""
MAX_LENGTH = 8_000_000
_HEREDOC = re.compile(r"(?<!<)<<(-?)[ \t]*(['\"\\]?)([A-Za-z_]\w{0,60})['\"]?([^\n]*)\n")
_DIRECTIVE = re.compile(r"#[ \t]?(?:SBATCH|PBS|BSUB|OAR|COBALT|FLUX|MSUB|SLURM|PJM)\b|#\$|#@|#!")
"""Comments that are options of a batch system."""
_TARGET = re.compile(r">{1,2}[ \t]*[\"']?([\w./~${}-]{1,200})|\btee[ \t]+(?:-\w+[ \t]+)?[\"']?([\w./~${}-]{1,200})")
_GIVEN_SHELL = re.compile(r"(?:^|[\s;&|(/])(?:(?:ba|z|da|k)?sh|ssh)(?=[\s<]|\Z)(?![^|\n]{0,400}\b(?:cat|tee)\b)")
"""A shell that reads standard input, without passing it to a file."""
_GIVEN_PYTHON = re.compile(r"\s*(?:sudo\s+)?python[\d.]{0,5}(?:\s+-\w{1,20})*(?:\s+-(?=[\s<])|\s*<<)")
"""Python without a program file: its standard input is the program."""
_NOT_THE_GRAMMAR = frozenset(("unexpected-token", "unclosed-quote", "unclosed-bracket"))
"""Troubles of a text that no shell would begin to run."""
_OTHER_CONTINUATION = re.compile(r"(?<=[ \t])[`^](?=[ \t]{0,8}\r?\n[ \t]*(?:-|[\w./-]+:|vllm|python))")
_WINDOWS = {".bat": "^", ".cmd": "^", ".ps1": "`"}
"""Suffixes of scripts for Windows' shells, with the sign that continues a line."""
_HERE_STRING = re.compile(r"@[\"'][ \t]*\r?$", re.MULTILINE)
"""Start of a PowerShell here-string, which may contain a script for another shell."""
_BACKSLASH = re.compile(r"(?<=[ \t])\\(?=[ \t]{0,8}\r?\n)")
_CUT = re.compile(r"[ \t]\\[ \t]*#")
_NEXT_OPTION = re.compile(r"[ \t]{0,200}--?[A-Za-z]")
_CALL = re.compile(r"\b(?:LLM|EngineArgs|AsyncEngineArgs)\(")
_INTEREST = re.compile(r"vllm|VLLM|LLM\(|EngineArgs|environ|run_cluster|--[A-Za-z]|[A-Z]=")
"""Content that makes a block worth parsing."""
_TEMPLATED = frozenset({"shell", "unit", "dockerfile", "yaml"})
"""Formats that are often templates."""
_MAX_WITHIN = 4  # depth of code within a word of a script within code
_MAX_NESTED = 60  # levels of JSON
_MAX_CALLS = 100  # calls that are looked for in code that does not parse as a whole
_MAX_CALL = 8000  # characters of a call in code that does not parse as a whole
_PLACE = attrgetter("start", "end")
_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|[\[\]{}:,]|[^\s\[\]{}:,\"]++")


@dataclass(frozen=True)
class LaunchFile:
    """The vLLM launches of a file; positions are offsets in its text."""

    kind: str
    """"shell", "yaml", "unit", "python", "dockerfile", "make", "just", "notebook", "code",
    "page", "argv" or "log"."""
    text: str
    starts: tuple[WrittenLaunch, ...] = ()
    nodes: tuple[WrittenLaunch, ...] = ()
    """Containers that join a Ray cluster: an environment, and no arguments of vLLM."""
    settings: tuple[Setting, ...] = ()
    """Every setting of an environment variable, in order, even if no launch sees it."""
    loose: tuple[LooseOption, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    images: tuple[Word, ...] = ()
    services: tuple[PodService, ...] = ()
    """Services of Kubernetes in the documents with launches, and next to them."""

    def fitted(self, edits: Iterable[Replacement]) -> tuple[Replacement, ...]:
        """Convert edits of the contents to edits of the file; notebook cells stay valid JSON."""
        return cell_edits.fitted(self.text, edits) if self.kind == "notebook" else tuple(edits)

    def changed(self, edits: Iterable[Replacement]) -> str:
        """The text of the file after edits of its contents."""
        return applied(self.text, self.fitted(edits))


def read(text: str, name: str = "", kind: str | None = None) -> LaunchFile:
    """Find every vLLM launch and environment setting of a file.

    `name` helps to detect the format; `kind` sets it.
    """
    start = text[:MAX_LENGTH]
    # A typed or pasted command may be a template, as in a page: `<model>` is not a redirection
    # there.
    is_page = kind is None and not formats.is_named(name) and not start.startswith("#!")
    kind = kind or formats.kind_of(start, name)
    page = read_kind(text, kind, is_page=is_page and kind == "shell")
    sign = None if _HERE_STRING.search(text) else _WINDOWS.get(name[-4:].lower())
    return replace(page, troubles=(*page.troubles, *_foreign_continuations(page, sign))) if sign else page


def _foreign_continuations(page: LaunchFile, sign: str) -> Iterator[Trouble]:
    """Find backslashes at line ends of launches in scripts whose shell continues lines with another sign."""
    for start in page.starts:
        for match in _BACKSLASH.finditer(page.text, start.start, start.end):
            place = match.start()
            edits = (Replacement(place, place + 1, sign),)
            yield Trouble("shell.foreign-continuation", place, place + 1, {}, edits)


@lru_cache(maxsize=16)
def read_kind(text: str, kind: str, *, is_page: bool) -> LaunchFile:
    """Like `read` for a known format, cached.

    A fix is made, checked and shown by different modules.
    """
    source = Excerpt.whole(text[:MAX_LENGTH])
    reading = DocumentReading(file=source.text)
    if len(text) > MAX_LENGTH:
        reading.troubles.append(_too_much(MAX_LENGTH, f"more than {MAX_LENGTH} characters"))
    _read(source, kind, Around(is_page=is_page), reading)
    if len(reading.starts) > MAX_STARTS:
        reading.starts.sort(key=lambda start: start.start)
        reading.troubles.append(_too_much(reading.starts[MAX_STARTS].start, f"more than {MAX_STARTS} starts"))
        del reading.starts[MAX_STARTS:]
    return _page(kind, text, reading)


def from_argv(words: Sequence[str]) -> LaunchFile:
    """A command as its argument vector; positions are those in `shlex.join(words)`."""
    text = shlex.join(words)
    made, at = [], 0
    for word in words:
        raw = shlex.quote(word)
        places = range(at, at + len(word)) if raw == word else None
        made.append(Word(word, at, at + len(raw), raw, "", places))
        at += len(raw) + 1
    reading = DocumentReading()
    pairs = 0
    while pairs < len(words) and re.match(r"[A-Za-z_]\w{0,200}=", words[pairs]):
        pairs += 1
    assigned = [placed_words.setting_of(word, "assignment") for word in made[:pairs]]
    reading.settings += [setting for setting in assigned if setting is not None]
    environment = {setting.name: setting for setting in reading.settings}
    around = Around(kind="argv", language="argv", environment=environment)
    programs.read_command(tuple(made[pairs:]), around, reading)
    return _page("argv", text, reading)


def from_arguments(arguments: Mapping[str, Any]) -> WrittenLaunch:
    """Build a launch from the arguments that a log prints, by argparse destination."""
    values: list[str] = []
    for dest, value in arguments.items():
        if dest in {"model_tag", "model"} and isinstance(value, str):
            if not values or values[0].startswith("-"):
                values.insert(0, value)
        else:
            values += option_words(option_of(dest), value)
    return WrittenLaunch("serve", tuple(Word(value, 0, 0, value) for value in values), 0, 0, kind="log")


def _too_much(at: int, what: str) -> Trouble:
    return Trouble("file.too-much", at, at + 1, {"what": what})


def _page(kind: str, text: str, reading: DocumentReading) -> LaunchFile:
    starts = _without_branches(sorted(reading.starts, key=_PLACE))
    return LaunchFile(
        kind,
        text,
        tuple(start for start in starts if start.entry != "node"),
        tuple(start for start in starts if start.entry == "node"),
        _once(reading.settings, attrgetter("start", "end", "name", "value.value")),
        tuple(sorted(reading.loose, key=_PLACE)),
        _once(reading.troubles, attrgetter("start", "end", "kind")),
        tuple(reading.images),
        tuple(reading.services),
    )


def _without_branches(starts: Sequence[WrittenLaunch]) -> list[WrittenLaunch]:
    """The launches, of the same text run by several branches of a script (`eval $COMMAND`) only the first."""
    kept: list[WrittenLaunch] = []
    background: dict[Any, bool] = {}
    for start in starts:
        if (call := start.invocation) is not None and start.words:
            key = (start.entry, start.start, start.end, call.round, *((word.start, word.value) for word in start.words))
            if key in background and not (background[key] and call.is_background):
                continue
            background.setdefault(key, call.is_background)
        kept.append(start)
    return kept


def _once(items: Sequence[Any], key: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Items in order, without repetitions by loops and functions."""
    unique: dict[Any, Any] = {}
    for item in sorted(items, key=_PLACE):
        unique.setdefault(key(item), item)
    return tuple(unique.values())


def _read(source: Excerpt, kind: str, around: Around, reading: DocumentReading) -> None:
    readers = {"yaml": manifests.read, "unit": unit_files.read, "dockerfile": container_files.read}
    if kind in _TEMPLATED and not around.is_rendered and templates.is_template(source.text):
        _read_template(source, kind, replace(around, is_rendered=True), reading)
        return
    if kind in {"make", "just"}:
        recipe_files.read(source, around, reading, kind)
    elif kind == "code":
        source, page = quoted_code.masked(source), DocumentReading(file=reading.file)
        _read_page(source, around, page)
        quoted_code.read(source, around, reading, page)
    elif kind == "page":
        _read_page(source, around, reading)
    elif kind == "shell":
        _read_shell(source, replace(around, job=gpus.of_job(source)), reading)
    elif kind in readers:
        readers[kind](source, around, reading)
        if kind == "dockerfile":
            _read_written(source, around, reading, ())
        _read_comments(source, reading)
    elif kind == "notebook":
        _check_json(source, reading)
        for cell in cells(source):
            _read(cell.text, cell.kind, replace(around, is_page=True), reading)
    elif kind == "python":
        _read_python(source, around, reading)
    while reading.parts:
        kind, part, within = reading.parts.pop()
        if within.depth <= _MAX_WITHIN:
            _read(part, kind, replace(within, is_page=True), reading)


def _read_template(source: Excerpt, kind: str, around: Around, reading: DocumentReading) -> None:
    """Read the first branch of each condition, and of the others the launches that the first does not have."""
    first = templates.rendered(source)
    count = len(reading.starts)
    _read(first, kind, around, reading)
    # An option that is added to a launch with statements may be repeated, or depend on a condition.
    reading.change_starts(count, lambda start: start if _is_whole(start, first) else replace(start, is_certain=False))
    if not templates.has_branches(source.text):
        return
    other = DocumentReading(file=reading.file)
    _read(templates.rendered(source, is_last=True), kind, around, other)
    known = set(first.at)
    reading.starts += [replace(start, is_certain=False) for start in other.starts if start.start not in known]


def _is_whole(start: WrittenLaunch, source: Excerpt) -> bool:
    """Whether the whole text of a launch is in an excerpt."""
    return bisect_left(source.at, start.end) - bisect_left(source.at, start.start) == start.end - start.start


def _read_shell(source: Excerpt, around: Around, reading: DocumentReading) -> None:
    before = len(reading.starts)
    programs.read_script(source, around, reading)
    run = sorted(start.start for start in reading.starts[before:])
    _read_written(source, around, reading, run)
    _read_comments(source, reading)


def _read_written(source: Excerpt, around: Around, reading: DocumentReading, run: Sequence[int]) -> None:
    """Add the launches of the files that a script writes; `run` is where the launches that it starts begin."""
    quoted = [
        (place.start, place.end)
        for start in reading.starts
        for place in start.within
        if '"' in source.text[max(bisect_left(source.at, place.start) - 1, 0) :][:2]
    ]
    for body, target, is_literal in heredocs(source):
        if any(first <= body.at[0] < last for first, last in quoted):
            body = _written(body, '"')  # noqa: PLW2901 - as the program in the quoted text reads it
        inner = formats.kind_of(body.text, target)
        is_run = bisect_left(run, body.at[0]) < bisect_left(run, body.at[-1])
        if inner == "page" or is_run:  # a shell's input (`bash <<EOF`) is read with the script
            continue
        is_guess = inner == "shell" and not formats.is_named(target) and not body.text.startswith("#!")
        if is_guess and formats.has_suffix(target):
            continue
        part = DocumentReading(file=reading.file)
        body = body if is_literal else _written(body)  # noqa: PLW2901 - as the file will have it
        _read(body, inner, replace(around, depth=around.depth + 1, is_certain=False), part)
        if is_guess and any(trouble.kind in _NOT_THE_GRAMMAR for trouble in part.troubles):
            continue
        if not is_literal:  # an edit with a backslash would have to be written in another way
            part.troubles = [
                replace(trouble, edits=()) if any("\\" in edit.new_text for edit in trouble.edits) else trouble
                for trouble in part.troubles
            ]
        reading.add(part)


def _read_comments(source: Excerpt, reading: DocumentReading) -> None:
    if "#" not in source.text or "--" not in source.text:
        return
    spans = [(word.start, word.end) for start in reading.starts for word in (*start.prefix, *start.words)]
    for comment in pages.comments(source, spans):
        if not _DIRECTIVE.match(comment.text):
            reading.loose += pages.options_in(comment, "comment")


def _read_page(source: Excerpt, around: Around, reading: DocumentReading) -> None:
    around = replace(around, is_page=True)
    if "vllm" in source.text:  # the continuation mark of Windows' shells becomes a backslash
        source = Excerpt(_OTHER_CONTINUATION.sub("\\\\", source.text), source.at)
    for block in pages.blocks(source):
        if block.kind == "cut":
            reading.troubles.append(_too_much(block.text.at[0], "commands in one line"))
            continue
        if not _INTEREST.search(block.text.text):
            continue
        inner = DocumentReading(file=reading.file)
        if block.kind == "prose":
            _read_prose(block.text, around, inner)
        elif block.kind in {"command", "span"}:
            within = replace(around, is_certain=block.kind == "command")
            read_commands = glued.read if glued.is_glued(block.text.text) else _read_shell
            read_commands(block.text, within, inner)
        elif block.kind != "skip":
            kind = block.kind or formats.by_content(block.text.text)
            kind = "shell" if kind == "page" and not block.kind else kind
            text = pages.without_prompts(block.text) if kind == "shell" else block.text
            _read(text, kind, around, inner)
        # `vllm serve` alone is a mention, unless it is in a script.
        inner.starts = [
            start for start in inner.starts if start.words or start.keywords or start.is_elided or start.entry == "node"
        ]
        # Lines of options may be a list rather than a command that lacks its backslashes.
        is_ours = bool(inner.starts) or any(option.where == "bare" and block.kind for option in inner.loose)
        is_named = block.kind not in {"", "prose", "span"} and "vllm" in block.text.text.lower()
        # Ignore a block about something else: its script may be a program's output.
        if not is_ours and not is_named:
            inner.troubles.clear()
        inner.parts.clear()
        reading.add(inner)


def _read_prose(source: Excerpt, around: Around, reading: DocumentReading) -> None:
    loose, settings = pages.table_options(source)
    reading.loose += [*loose, *pages.bare_options(source)]
    reading.settings += settings
    begin = 0
    for line in source.text.split("\n"):
        if len(line) > 20 and glued.is_glued(line):
            glued.read(source.part(begin, begin + len(line)), around, reading)
        begin += len(line) + 1


def _read_python(source: Excerpt, around: Around, reading: DocumentReading) -> None:
    text = source.text
    if re.search(r"^[ \t]*(?:[!%]|(?:>>>|\.\.\.)(?:[ \t]|$))", text, re.MULTILINE):
        source = _without_magic(source, around, reading)
    elif text[:1] in " \t" and around.is_page:
        source = pages.dedented(source)
    count = len(reading.troubles)
    if not python_calls.read(source, around, reading) and around.is_page:
        _read_calls(source, around, reading)
        # Code in a page may be a fragment; it is reported only if no launch could be read.
        is_read = any(start.kind == "python" for start in reading.starts)
        if is_read or not _CALL.search(source.text):
            reading.troubles[count:] = [
                trouble for trouble in reading.troubles[count:] if trouble.kind == "file.too-much"
            ]


def _without_magic(source: Excerpt, around: Around, reading: DocumentReading) -> Excerpt:
    """Python without prompts and without a notebook's shell lines, which are read separately."""
    parts: list[tuple[int, int]] = []
    begin = 0
    command: int | None = None
    for line in source.text.split("\n"):
        end = begin + len(line)
        stop = min(end + 1, len(source.text))
        mark = re.match(r"[ \t]*(?:([!%])|(?:>>>|\.\.\.)(?: |$))", line) if command is None else None
        if mark and mark[1] == "!":
            command = begin + mark.end()
        if command is not None or (mark and mark[1]):
            parts.append((stop - 1, stop) if stop > end else (stop, stop))
            goes_on = line.rstrip().endswith("\\") or (
                _CUT.search(line) is not None and _NEXT_OPTION.match(source.text, stop) is not None
            )
            if command is not None and not (goes_on and stop > end):
                programs.read_script(source.part(command, end), around, reading)
                command = None
        else:
            parts.append((begin + (mark.end() if mark else 0), stop))
        begin = stop
    return source.joined(parts)


def _read_calls(source: Excerpt, around: Around, reading: DocumentReading) -> None:
    """Calls of the engine in code that does not parse as a whole, each parsed alone."""
    text = source.text
    for count, match in enumerate(_CALL.finditer(text)):
        if count >= _MAX_CALLS:
            reading.troubles.append(_too_much(source.at[match.start()], "calls in code that does not parse"))
            return
        stop = _closing(text, match.end() - 1)
        if stop is None:
            continue
        call = re.sub(
            r",(\s*)\.\.\.(\s*(?:#[^\n]*\s*)?)\)\Z", lambda m: f" {m[1]}   {m[2]})", text[match.start() : stop]
        )
        try:
            python_trees.parse(call)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        python_calls.read(Excerpt(call, source.at[match.start() : stop + 1]), around, reading)


def _closing(text: str, index: int) -> int | None:
    """Index after the closing parenthesis of the one at an index."""
    depth, quote = 0, ""
    place = index
    while place < min(len(text), index + _MAX_CALL):
        character = text[place]
        if quote:
            if character == "\\":
                place += 1
            elif character == quote:
                quote = ""
        elif character in "\"'":
            quote = character
        elif character == "#":
            stop = text.find("\n", place)
            place = len(text) if stop < 0 else stop
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth == 0:
                return place + 1
        place += 1
    return None


def _written(body: Excerpt, quote: str = "") -> Excerpt:
    """An unquoted here-document, or one in quotes, as the shell writes it: without quoting backslashes."""
    matches = re.finditer(rf"\\[\\$`\n{quote}]|.", body.text, re.DOTALL)
    kept = [(match.end() - (match[0] != "\\\n"), match.end()) for match in matches]
    return body.joined([*kept, (len(body.text), len(body.text))])


def heredocs(source: Excerpt) -> Iterator[tuple[Excerpt, str, bool]]:
    """Texts that a script writes to files or hands to programs: the file's name, and whether nothing is expanded."""
    text, place = source.text, 0
    while True:
        match = _HEREDOC.search(text, place)
        if not match:
            return
        end = re.compile(rf"^{'[	]*' if match[1] else ''}{re.escape(match[3])}[ \t\r]*$", re.MULTILINE).search(
            text, match.end()
        )
        if not end:
            return
        command = text[text.rfind("\n", 0, match.start()) + 1 : match.end()]
        target = _TARGET.search(command)
        body = source.part(match.end(), max(end.start(), match.end()))
        if match[1]:  # `<<-` strips the leading tabs of its lines
            body = body.joined(line.span(1) for line in re.finditer(r"\t*([^\n]*\n?)", body.text))
        place = end.end()
        name = (target[1] or target[2]) if target else ""
        if _GIVEN_PYTHON.match(command):
            name = "a.py"
        elif _GIVEN_SHELL.search(command):
            name = "a.sh"
        yield body, name, bool(match[2])


def _check_json(source: Excerpt, reading: DocumentReading) -> None:
    if any(trouble.kind == "file.too-much" for trouble in reading.troubles):
        return
    try:
        json.loads(source.text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        error = same_words(error)
        at = source.at[min(error.pos + source.text.startswith("\ufeff"), len(source.text))]
        reading.troubles.append(Trouble("file.not-json", at, at, {"says": error.msg}))
    except (ValueError, RecursionError):  # numbers with too many digits, lists in lists
        reading.troubles.append(Trouble("file.not-json", source.at[0], source.at[0], {"says": "no JSON"}))


def cells(source: Excerpt) -> Iterator[magics.Cell]:
    """The cells of a notebook; a text that is no JSON has none."""
    opened: list[str] = []
    keys: list[str] = [""]
    kind = ""
    characters: placed_words.Characters = []
    for match in _TOKEN.finditer(source.text):
        sign = match[0]
        is_cell = len(opened) == 3 and keys[1] == "cells"
        if sign in {"[", "{"} and len(opened) < _MAX_NESTED:
            opened.append(sign)
            keys.append("")
            if len(opened) == 3:
                kind, characters = "", []
        elif sign in {"]", "}"} and opened:
            if is_cell and characters:
                yield magics.cell(kind, placed_words.excerpt_of_characters(characters, characters[-1][1] + 1))
                characters = []
            opened.pop()
            keys.pop()
        elif sign[0] == '"' and opened:
            following = source.text[match.end() : match.end() + 8].lstrip()[:1]
            if following == ":" and opened[-1] == "{":
                keys[-1] = sign[1:-1]
            elif is_cell and keys[3] == "cell_type":
                kind = sign[1:-1]
            elif len(opened) in {3, 4} and keys[1] == "cells" and keys[3] == "source":
                characters += container_files.json_characters(source, match.start(), match.end())
    if characters:  # the text ends within a cell
        yield magics.cell(kind, placed_words.excerpt_of_characters(characters, characters[-1][1] + 1))
