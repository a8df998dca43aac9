"""Launches in files of other languages (HCL, Nix, TOML, JavaScript, Go …): their texts, and lists of texts."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading import shell
from vllm_runbooks.reading.arguments.words import HOLE
from vllm_runbooks.reading.documents import gpus, placed_words, placeholders, programs
from vllm_runbooks.reading.documents.starts import Around, DocumentReading, Setting, Within, WrittenLaunch
from vllm_runbooks.reading.shell import Word

_TOKEN = re.compile(
    r"(?P<comment>(?<![\w:\"'])(?:#|//)[^\n]*)|(?P<text>[\"'`])"
    r"|(?P<open>[\[{(])|(?P<close>[\]})])|(?P<comma>[,;\n])|(?P<is>=(?![=>])|:(?!:))|(?P<name>[A-Za-z_$][\w.$-]*)|(?P<other>[^\s\w])|\d+"
)
"""A token of most languages: enough for texts, brackets and names before `=` or `:`; of a text its first quote."""
_TEXTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\"\"\"(?s:.)*?(\"\"\"|\Z)",
        r"''(?!')(?s:.)*?((?<!')''(?!['$\\])|\Z)",
        r"\"(?:[^\"\\\n]|\\.)*+(\"|)",
        r"'(?:[^'\\\n]|\\.)*+('|)",
        r"`(?:[^`\\]|\\.)*+(`|)",
    )
)
"""Texts, each with its last quote, which is empty if the text does not end."""
_INTERPOLATED = re.compile(r"\$\{[^{}\n]{0,300}\}|#\{[^{}\n]{0,300}\}")
_COMMAND = re.compile(
    r"\s*(?:#!|(?:[A-Za-z_]\w*=\S*\s+)*(?:[\w./\ufffc\ue0b0${}-]*\b)?(?:vllm|python[\d.]*|docker|podman|exec|nohup|sudo|env|uv|bash|sh|cd|set|export|pip)\b)"
)
_APART = re.compile(r"(?:[A-Za-z_][\w.-]{0,200}|\([^()\n]{0,200}\))\s+")
_COMMANDS = frozenset(("command", "cmd", "entrypoint", "Cmd", "Command", "Entrypoint", "script"))
_ARGUMENTS = frozenset(("args", "Args", "arguments", "cmd", "Cmd"))
_IMAGES = frozenset(("image", "Image"))
_ENVIRONMENTS = frozenset(("environment", "env", "Env"))
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,100}")
_PRIORITY = re.compile(r"(?:lib\.)?mk(?:Default|Force)")
"""Functions of Nix that give their argument another priority:
https://nixos.org/manual/nixos/stable/#sec-option-definitions-setting-priorities."""
_MAX_TOKENS = 200_000
_MAX_DEPTH = 200


@dataclass
class _Assigned:
    """A variable, or an environment, and the value that is assigned to it so far."""

    start: int
    end: int
    name: str
    owner: str
    """The part before the name's last dot."""
    tokens: int = 0
    word: Word | None = None
    settings: dict[str, Setting] | None = None
    """Variables of an environment."""


@dataclass
class _Level:
    """A bracket: its items so far, and the values of its names."""

    bracket: str
    begin: int
    words: list[Word] = field(default_factory=list)
    pending: tuple[int, int] | None = None
    """Range of an item that is no text."""
    name: str = ""
    key: re.Match[str] | None = None
    """A name that begins an item, before its value."""
    is_item_start: bool = True
    values: dict[str, tuple[Word, ...]] = field(default_factory=dict)
    before: Word | None = None
    """The text before a list in a call, as in `spawn("vllm", [...])`."""
    is_environment: bool = False
    has_environment: bool = False
    """Whether a call, or an argument of it, has an environment of its own, which replaces those around it."""
    assigned: _Assigned | None = None
    environment: dict[str, Setting] = field(default_factory=dict)
    """Variables of the launches in it, as in `environment = { A = "1"; }` or `environment.A = "1"` of Nix."""


def masked(source: Excerpt) -> Excerpt:
    """The text, as long as it was, in which interpolations (`${…}`) are unknown."""
    text = _INTERPOLATED.sub(placeholders.masked, source.text)
    return Excerpt(text, source.at)


def read(source: Excerpt, around: Around, reading: DocumentReading, page: DocumentReading) -> None:
    """Add the launches of texts and lists, then those of `page`, the text read as a page, that are no part of them."""
    found = DocumentReading(file=reading.file)
    code = _Code(source, replace(around, is_certain=False), found)
    code.read()
    found.starts = _apart(found.starts, [])
    found.starts += _apart(page.starts, found.starts)
    found.starts = list(map(code.within_blocks, found.starts))
    # Texts of another language are no scripts: only what the launches say counts.
    found.troubles.clear()
    found.loose = [
        option for option in (*found.loose, *page.loose) if not any(HOLE in word.raw for word in option.words)
    ]
    found.settings += page.settings
    found.images += page.images
    reading.add(found)


def _apart(starts: Sequence[WrittenLaunch], others: Sequence[WrittenLaunch]) -> list[WrittenLaunch]:
    """The launches, in order, that overlap neither each other nor those of another list."""
    taken = sorted((start.start, start.end) for start in others)
    kept: list[WrittenLaunch] = []
    for start in sorted(starts, key=lambda start: (start.start, -start.end)):
        at = bisect_left(taken, (start.start, -1))
        near = taken[max(at - 1, 0) : at + 1]
        if not any(first < start.end and start.start < last for first, last in near):
            kept.append(start)
            insort(taken, (start.start, start.end))
    return kept


def _tokens(text: str) -> Iterator[tuple[str | None, re.Match[str]]]:
    """Tokens with their kind; a quote that does not close a text is "other"."""
    until = dict.fromkeys(_TEXTS, 0)  # no such text that begins before ends
    match = _TOKEN.search(text)
    while match is not None:
        kind = match.lastgroup
        if kind == "text":
            kind = "other"
            for pattern in _TEXTS:
                written = pattern.match(text, match.start()) if match.start() >= until[pattern] else None
                if written is not None and written[1]:
                    kind, match = "text", written
                    break
                if written is not None:
                    until[pattern] = written.end()
        yield kind, match
        match = _TOKEN.search(text, match.end())


def _is_command(word: Word) -> bool:
    """Whether a text is a command or script rather than an argument or prose."""
    value = word.raw if word.value is None else word.value
    return (
        programs.may_start(value) and re.search(r"\s", value.strip()) is not None and _COMMAND.match(value) is not None
    )


class _Code:
    def __init__(self, source: Excerpt, around: Around, reading: DocumentReading) -> None:
        self.source, self.around, self.reading = source, around, reading
        self.texts: dict[str, Word] = {}
        """Texts by `block.name`, as an expression names them."""
        self.blocks: list[tuple[int, int, _Level]] = []
        """Ranges of blocks and calls with an environment, the inner ones first."""

    def read(self) -> None:
        levels = [_Level("", 0)]
        last: Word | None = None
        is_after_comma = False
        for kind, match in islice(_tokens(self.source.text), _MAX_TOKENS):
            level = levels[-1]
            self._follow(level, kind, match)
            if kind == "text":
                word = self._word(match)
                self._text(word)
                if level.pending is not None and _APART.fullmatch(self.source.text, level.pending[0], match.start()):
                    self._end_item(level)  # in Nix blanks part the items of a list
                last, is_after_comma = word, False
                self._item(level, word)
            elif kind == "open":
                if len(levels) > _MAX_DEPTH:
                    return
                inner = _Level(match[0], match.start())
                inner.before = last if is_after_comma else None
                inner.is_environment = (
                    match[0] == "{" and level.assigned is not None and level.assigned.settings is not None
                )
                levels.append(inner)
                last = None
            elif kind == "close":
                if len(levels) > 1:
                    self._close(levels.pop(), levels[-1], match.end())
                last = None
            elif kind == "comma":
                is_after_comma = match[0] == "," and last is not None
                self._end_item(level)
                if match[0] == "\n" and level.bracket != "[":
                    level.name = ""
            elif kind == "is":
                level.pending = None
            elif kind == "name":
                last = None
                if level.bracket in {"[", "("}:
                    level.pending = (match.start() if level.pending is None else level.pending[0], match.end())
                elif (
                    not level.name or re.match(r"\s*[=:]", self.source.text[match.end() : match.end() + 8]) is not None
                ):
                    level.name = match[0].rsplit(".", 1)[-1]
                elif level.name in _IMAGES:
                    level.values.setdefault(level.name, (self._named(*match.span()),))
            elif kind == "other" and level.bracket == "[":
                level.pending = (match.start() if level.pending is None else level.pending[0], match.end())
        for level in reversed(levels):
            self._end_assigned(level)
            self._command(level.values)

    def _follow(self, level: _Level, kind: str | None, match: re.Match[str]) -> None:
        """Follow the items of a block: which names are assigned, and whether a value is one literal."""
        if kind in {"comma", "comment", "close"}:
            level.is_item_start = kind == "comma" or level.is_item_start
            if match[0].startswith("//") and level.assigned is not None and level.assigned.settings:
                level.assigned.tokens += 1  # in Nix it adds variables of another set
            if kind == "close" or match[0] in {",", ";"}:
                self._end_assigned(level)
            return
        is_key = level.is_item_start and kind == "name" and level.bracket in {"", "{"}
        if is_key and (level.assigned is None or self._is_before_value(match)):
            self._end_assigned(level)
            level.key, level.is_item_start = match, False
            level.has_environment |= match[0] in _ENVIRONMENTS
            return
        key, level.key, level.is_item_start = level.key, None, False
        if key is not None and (kind == "is" or match[0] == "{"):
            level.assigned = self._assigned(level, key)
            if kind == "is":
                return
        if level.assigned is not None and not _PRIORITY.fullmatch(match[0]):
            level.assigned.tokens += 1
            level.assigned.word = self._word(match) if kind == "text" else None
        elif level.is_environment and match[0] == ".":  # `...others` of JavaScript
            level.environment = {name: self._unknown(setting) for name, setting in level.environment.items()}

    def _is_before_value(self, match: re.Match[str]) -> bool:
        return re.match(r"\s*[=:{]", self.source.text[match.end() : match.end() + 8]) is not None

    def _assigned(self, level: _Level, key: re.Match[str]) -> _Assigned | None:
        owner, _, name = key[0].rpartition(".")
        is_environment = name in _ENVIRONMENTS
        is_variable = level.is_environment or owner.rpartition(".")[2] in _ENVIRONMENTS
        if not is_environment and not (is_variable and _VARIABLE.fullmatch(name)):
            return None
        return _Assigned(*key.span(), name, owner, settings={} if is_environment else None)

    def _end_assigned(self, level: _Level) -> None:
        """Note what an item assigns; unknown if the value is an expression."""
        assigned, level.assigned, level.key = level.assigned, None, None
        if assigned is None:
            return
        settings = assigned.settings
        if settings is None:
            start, end = self.source.at[assigned.start], self.source.at[assigned.end - 1] + 1
            word = placeholders.filled(assigned.word) if assigned.word is not None else None
            word = word or Word(None, start, end, assigned.name, "expression")
            settings = {assigned.name: Setting(assigned.name, word, start, word.end, "code")}
        if assigned.tokens != 1:
            settings = {name: self._unknown(setting) for name, setting in settings.items()}
        if assigned.settings is None:
            self.reading.settings += settings.values()
            is_own = assigned.owner == "environment" or level.is_environment  # not `other.environment.A`
        else:
            is_own = not assigned.owner
        if is_own:
            level.environment |= settings

    @staticmethod
    def _unknown(setting: Setting) -> Setting:
        return replace(setting, value=replace(setting.value, value=None, why="expression"))

    def _word(self, match: re.Match[str]) -> Word:
        size = len(match[1])
        start, end = match.start() + size, match.end() - size
        body = self.source.part(start, end)
        if size == 1:
            characters = [
                (
                    piece[0] if len(piece[0]) == 1 else {"n": "\n", "t": "\t"}.get(piece[0][1], piece[0][1]),
                    body.at[piece.start()],
                )
                for piece in re.finditer(r"\\.|(?s:.)", body.text)
            ]
            body = placed_words.excerpt_of_characters(characters, body.at[len(body.text)])
        return placed_words.literal(body, start=self.source.at[match.start()], end=self.source.at[match.end() - 1] + 1)

    def _text(self, word: Word) -> None:
        """Read a text that is a command or script."""
        if not _is_command(word):
            return
        excerpt = placed_words.excerpt_of(word)
        within = (*self.around.within, Within("code", word.start, word.end))
        programs.read_script(excerpt, replace(self.around, within=within), self.reading)

    def _item(self, level: _Level, word: Word) -> None:
        if level.bracket == "[":
            level.pending = None
            level.words.append(placeholders.filled(word))
        elif level.name and level.bracket != "(":
            level.values.setdefault(level.name, (placeholders.filled(word),))

    def within_blocks(self, launch: WrittenLaunch) -> WrittenLaunch:
        """The launch with the environment of the blocks that it is in."""
        environment = dict(launch.environment)
        for start, end, level in self.blocks:
            if start <= launch.start < end:
                environment = level.environment | environment
                if level.bracket == "(":
                    break
        if len(environment) == len(launch.environment):
            return launch
        return replace(launch, environment=environment, gpus=gpus.seen(environment, launch.given))

    def _named(self, begin: int, stop: int) -> Word:
        """The text that an expression names, as a word at its place; unknown for any other expression."""
        start, end, raw = self.source.at[begin], self.source.at[stop], self.source.text[begin:stop]
        known = self.texts.get(".".join(raw.split(".")[-2:]))
        return Word(known.value, start, end, raw) if known is not None else Word(None, start, end, raw, "expression")

    def _end_item(self, level: _Level) -> None:
        if level.pending is not None and level.bracket == "[":
            level.words.append(self._named(*level.pending))
        level.pending = None

    def _close(self, level: _Level, outer: _Level, end: int) -> None:
        self._end_item(level)
        if level.bracket == "[":
            words = tuple(level.words)
            if level.before is not None:
                words = (placeholders.filled(level.before), *words)
            if outer.name and outer.bracket not in "([":
                outer.values.setdefault(outer.name, words)
            else:
                self._list(words)
        elif level.bracket == "{":
            self.texts |= {f"{outer.name}.{name}": words[0] for name, words in level.values.items() if words}
            self._command(level.values)
        if level.is_environment and outer.assigned is not None and outer.assigned.settings is not None:
            outer.assigned.settings |= level.environment
        elif level.environment or (level.bracket == "(" and level.has_environment):
            self.blocks.append((self.source.at[level.begin], self.source.at[end - 1] + 1, level))
        if outer.bracket == "(" and level.has_environment:
            outer.environment |= level.environment
            outer.has_environment = True
        if outer.bracket == "[":
            outer.pending = (level.begin, end)

    def _list(self, words: tuple[Word, ...]) -> None:
        """Read a list that may be a command, or arguments of vLLM (`["serve", MODEL, …]`) that another text runs."""
        if len(words) < 2 or any(map(_is_command, words)):
            return
        if words[0].value == "serve" and programs.are_own(words[1:]):
            programs.add_built("serve", words[1:], self._around({}), self.reading, places=words)
        else:
            programs.read_command(words, self._around({}), self.reading)

    def _around(self, values: Mapping[str, tuple[Word, ...]]) -> Around:
        image = next((values[name][0] for name in _IMAGES if values.get(name)), None)
        return replace(self.around, kind="shell" if image is None else "docker", language="code", image=image)

    def _command(self, values: Mapping[str, tuple[Word, ...]]) -> None:
        """Read the command of a block with `image`, `command` and `args`."""
        around = self._around(values)
        entry = next((values[name] for name in _COMMANDS if values.get(name)), ())
        rest = next((values[name] for name in _ARGUMENTS if values.get(name)), ())
        if entry is rest:
            entry = ()
        if len(rest) == 1 and " " in (rest[0].value or "").strip():
            invocations = shell.read(placed_words.excerpt_of(rest[0])).invocations
            rest = invocations[0].words if invocations else ()
        if around.image is not None and (entry or rest):
            programs.run_image(entry or None, rest, around.image, around, self.reading)
        elif len(entry) + len(rest) > 1:
            programs.read_command((*entry, *rest), around, self.reading)
        # Other lists of a container are its runtime's options.
        for words in values.values() if around.image is None else ():
            if words is not entry and words is not rest:
                self._list(words)
