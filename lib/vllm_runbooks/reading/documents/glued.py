"""Commands that lost blanks and line ends in a paste, reconstructed where that is certain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile

from vllm_runbooks.catalog import options
from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.documents import placed_words, programs
from vllm_runbooks.reading.documents.starts import Around, DocumentReading, Setting
from vllm_runbooks.reading.shell import Word

_MODEL = r"(?!rs?/|s/|d/)[\w.-]{1,96}/[\w-]"
"""Beginning of a model id, which does not continue a sentence after `vllm serve`."""
_HEAD = re.compile(
    rf"(?P<program>vllm)[ \t]{{0,4}}(?P<command>serve)(?=[ \t\"'\\]|{_MODEL}|--[a-z])|"
    r"(?:bash|sh)[ \t]{1,4}[\w./-]{0,100}run_cluster\.sh(?=[ \t])"
    r"|(?:docker|podman)[ \t]{1,4}run(?=[ \t\\-])"
    r"|python3?[ \t]{1,4}-m[ \t]{1,4}vllm\.entrypoints\.openai\.api_server(?=[ \t\\-])"
)
_MODEL_AND_OPTION = re.compile(rf"[ \t]{{0,8}}{_MODEL}[\w.-]{{0,96}}[ \t\\]{{0,8}}--[a-z]")
_SETTING = re.compile(r"[A-Z][A-Z0-9_]{1,80}=[^\s\"'`;|&]{1,200}", re.ASCII)
_MAX_BEFORE = 400  # characters before a command that are searched for such variables
_GLUE = re.compile(r"[^\s=(\[{,\"'][\"']--[a-z]|(?<![\w.-])\d[\d.]{0,20}--[a-z]|\\[ \t]{0,8}-{1,2}[a-z]|\d-e [A-Z]")
_RUN_IN = re.compile(r"(?<=[\w.])(?<!models)--([a-z][a-z0-9-]{1,60})(?=[ \t=]|\\?$)")
"""Possible option whose preceding blank is missing."""
_MAX_LENGTH = 4000  # characters of one such command
_STOP = re.compile(
    r"[\w.-]{1,64}@[\w.-]{1,64}:|(?:INFO|WARNING|ERROR|DEBUG)[ :]|[\u2e80-\u9fff\uff00-\uffef]|[;|&#\n]|\d?>"
    r"|(?:docker[ ](?:exec|run|stop|rm|logs|pull|ps|save)|bash[ ]\w|curl[ ]"
    r"|ray[ ](?:status|start|stop)|nvidia-smi|nohup[ ]|export[ ])"
)
"""End of a command: a prompt, a log line, non-ASCII letters, an operator, the next command."""
_OPTION = re.compile(r"--[A-Za-z](?:[A-Za-z0-9_.]|-(?!-))*")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[kKmMgG](?![A-Za-z]))?")
_TAGGED = re.compile(r"([\w./-]{1,200}:v?)(\d{1,3}(?:\.\d{1,12}){3,9})\Z")


def is_glued(text: str) -> bool:
    """Whether a line has a launch with missing blanks between words."""
    return next(_regions(text), None) is not None


def read(source: Excerpt, around: Around, reading: DocumentReading) -> None:
    """Add the commands of such a line."""
    around = replace(around, language="glued", is_reconstructed=True, is_certain=False)
    for head, end in _regions(source.text):
        words = _words(source, head, end)
        if len(words) > 1:
            settings = _settings(source, head.start())
            reading.settings += settings
            environment = {**around.environment, **{setting.name: setting for setting in settings}}
            programs.read_command(tuple(words), replace(around, environment=environment), reading)


def _settings(source: Excerpt, start: int) -> list[Setting]:
    """Variables before a command that is joined to the last of them."""
    begin = max(start - _MAX_BEFORE, 0)
    parts = [(begin + match.start(), begin + match.end()) for match in re.finditer(r"\S+", source.text[begin:start])]
    last = takewhile(lambda part: _SETTING.fullmatch(source.text, *part), reversed(parts))
    words = [_word(source, *part) for part in last]
    settings = [placed_words.setting_of(word, "assignment") for word in reversed(words)]
    return [setting for setting in settings if setting is not None]


def _regions(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Beginning of each command, and the latest end."""
    heads = list(_HEAD.finditer(text))
    if heads and not programs.may_start(text):
        heads = [head for head in heads if _is_apart(text, head.start())]
    begins = [*(head.start() for head in heads), len(text)]
    regions = [(head, min(begin, head.end() + _MAX_LENGTH)) for head, begin in zip(heads, begins[1:], strict=True)]
    if any(_is_glued(text, head, end) for head, end in regions):
        yield from regions


def _is_apart(text: str, index: int) -> bool:
    """Whether a word begins at an index, or the value of a variable ends there."""
    if not _runs_in(text, index):
        return True
    before = text[max(index - _MAX_BEFORE, 0) : index]
    return _SETTING.fullmatch(before[max(before.rfind(" "), before.rfind("\t")) + 1 :]) is not None


def _runs_in(text: str, index: int) -> bool:
    return index > 0 and re.match(r"[\w.-]", text[index - 1], re.ASCII) is not None


def _is_glued(text: str, head: re.Match[str], end: int) -> bool:
    start = head.end()
    is_parted = head["program"] is None or text[head.end("program")] in " \t"
    if is_parted and _GLUE.search(text, start, end):
        return True
    names = {f"--{match[1]}" for match in _RUN_IN.finditer(text, start, end)}
    # Text joined to the command is certain if an option of vLLM follows, or a model and an option.
    is_run_in = not is_parted or (head["program"] is not None and text[start : start + 1] not in {*" \t\"'\\", ""})
    is_run_in = is_run_in or (_runs_in(text, head.start()) and _is_apart(text, head.start()))
    if is_run_in and _MODEL_AND_OPTION.match(text, start):
        return True
    if is_run_in:
        names |= {match[0] for match in _OPTION.finditer(text, start, end)}
    # Names with `--` in them are common, but not with a vLLM option at the end.
    return bool(names) and not names.isdisjoint(options.load(options.known_releases()[-1]).by_string)


def _words(source: Excerpt, head: re.Match[str], end: int) -> list[Word]:
    text = source.text
    parts = [head.span("program"), head.span("command")]
    if not head["program"]:
        parts = [match.span() for match in re.compile(r"\S+").finditer(text, *head.span())]
    words = [_word(source, *part) for part in parts]
    index = head.end()
    while index < end:
        if text[index] in " \t\\":
            index += 1
            continue
        if _STOP.match(text, index):
            break
        stop = _end(text, index, end)
        if stop <= index:
            break
        words += _made(source, index, stop)
        index = stop
        if index < end and text[index] not in " \t\\\"'-":
            break  # the rest does not belong to it
    return words


def _end(text: str, index: int, end: int) -> int:
    if text[index] in "\"'":
        return _closing(text, index, end)
    option = _OPTION.match(text, index, end)
    if option:
        if text[option.end() : option.end() + 1] != "=" or option.end() + 1 >= end:
            return option.end()
        return _end(text, option.end() + 1, end)
    short = re.compile(r"-[A-Za-z](?=[ \t])").match(text, index, end)
    if short:
        return short.end()
    for form in (_ADDRESS, _NUMBER):
        match = form.match(text, index, end)
        if match and (form is _ADDRESS or text[match.end() : match.end() + 1] not in {".", "/", ":", "_"}):
            return match.end()
    place = index
    while place < end and text[place] not in " \t\\\"'":
        if text.startswith("--", place) and text[place + 2 : place + 3].isalpha() and place > index:
            break
        if place > index and _STOP.match(text, place):
            break
        inner = _ADDRESS.match(text, place, end) if text[place - 1] == "=" else None
        if inner:
            return inner.end()
        place += 1
    return place


def _closing(text: str, index: int, end: int) -> int:
    place = index + 1
    while place < end and text[place] != text[index]:
        place += 2 if text[place] == "\\" and text[index] == '"' else 1
    return min(place + 1, end)


def _made(source: Excerpt, start: int, end: int) -> list[Word]:
    """The word between two indexes; an address joined to an image's tag is split off if certain."""
    text = source.text
    tagged = _TAGGED.match(text[start:end])
    if not tagged:
        return [_word(source, start, end)]
    cuts = [cut for cut in range(len(tagged[1]) + 1, end - start) if _splits(text, start, start + cut, end)]
    if len(cuts) != 1:
        return [placed_words.unknown(source.at[start], source.at[end - 1] + 1, "an ambiguous split")]
    return [_word(source, start, start + cuts[0]), _word(source, start + cuts[0], end)]


def _splits(text: str, start: int, cut: int, end: int) -> bool:
    """Whether a tag ends at an index and an address begins there: the text has the tag elsewhere, on its own."""
    address = text[cut:end]
    parts = address.split(".")
    if len(parts) != 4 or any(
        not part.isdecimal() or (part[0] == "0" and len(part) > 1) or int(part) > 255 for part in parts
    ):
        return False
    image = text[start:cut]
    return re.search(rf"{re.escape(image)}(?![\d.])", text) is not None


def _word(source: Excerpt, start: int, end: int) -> Word:
    text = source.text
    first, last = source.at[start], source.at[end - 1] + 1
    quote = text.find("=", start, end) + 1 if text.startswith("--", start) else start
    piece = source.part(start, end)
    why = "variable" if "$" in piece.text else ""
    if quote < end and text[quote] in "\"'" and text[end - 1] == text[quote] and end - quote > 1:
        bare = source.joined([(start, quote), (quote + 1, end - 1)])
        if "$" not in bare.text:
            return replace(placed_words.literal(bare, start=first, end=last), raw=piece.text)
    return placed_words.literal(piece, start=first, end=last, why=why)
