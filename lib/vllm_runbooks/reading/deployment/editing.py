"""Edit a launch in place; an edit is dropped unless it makes exactly the requested change."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from vllm_runbooks.catalog.options import CALLS, ReleaseData
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.core.records import Edit
from vllm_runbooks.reading import arguments, documents
from vllm_runbooks.reading.arguments import Parsed
from vllm_runbooks.reading.deployment import (
    PLAIN,
    Deployment,
    EditRefusedError,
    ParsedWords,
    is_option,
    parser_entry,
    systemd_quoted,
    yaml_double,
    yaml_quoted,
)
from vllm_runbooks.reading.documents import LaunchFile
from vllm_runbooks.reading.documents.starts import Setting, Within, WrittenLaunch
from vllm_runbooks.reading.shell import Word

_PLAIN_YAML = re.compile(r"(?:--?)?[A-Za-z/][A-Za-z0-9_./@+=-]*(?::[A-Za-z0-9_./-]+)*\Z", re.ASCII)
_YAML_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "none", "y", "n"}
_SEPARATORS = re.compile(r"(?:[ \t\r\n]|\\\r?\n(?:[ \t]{0,8}>)*)*\Z")
_LEADING = re.compile(r"[ \t>]*\Z")
_COMMENT = re.compile(r"(?:^|(?<=[ \t]))(#[^\r\n]*)", re.MULTILINE)
_PROGRAM = re.compile(r"(?:.*/)?(?:vllm|python[\d.]*)")
_ITEM = re.compile(r"[ \t]*-[ \t]+")
_COMMA = re.compile(r"[ \t]*,[ \t]*")
_MAX_LEAD = 200
"""Characters before a setting in which its option may be."""


def edits(
    page: LaunchFile, launch: WrittenLaunch, changes: Sequence[Edit], release: ReleaseData
) -> tuple[Replacement, ...]:
    """Return replacements that edit one launch of the page; empty unless the result is certain."""
    for is_compact in (False, True):  # compact JSON avoids `: ` and quotes
        replacements: list[Replacement] = []
        try:
            for change in changes:
                if change.op == "env" and change.value is None:
                    replacements += _unset_span(page, launch.environment.get(change.name))
                    continue
                replacements += _LaunchEditor(page.text, launch, release, is_compact=is_compact).replacements(change)
        except EditRefusedError:
            continue
        replacements = _merged(replacements)
        if replacements and _is_as_asked(page, launch, changes, release, replacements):
            return tuple(replacements)
    return ()


def without(
    page: LaunchFile, launch: WrittenLaunch, first: int, last: int, release: ReleaseData
) -> tuple[Replacement, ...]:
    """Return replacements that remove a range of words from a launch; empty unless certain."""
    if launch.entry in CALLS or launch.language in {"glued", "argv"}:
        return ()
    try:
        replacements = _merged(_LaunchEditor(page.text, launch, release, is_compact=False).removed(first, last))
    except EditRefusedError:
        return ()
    kept = [word.value for word in (*launch.words[:first], *launch.words[last:])]
    again = documents.read(page.changed(replacements), kind=page.kind).starts
    words = [[word.value for word in start.words] for start in again if start.start == launch.start]
    return tuple(replacements) if kept in words else ()


def unset(page: LaunchFile, setting: Setting) -> tuple[Replacement, ...]:
    """Return the replacement that removes a variable with its line, option or item; empty unless certain."""
    span = _span_of(page, setting)
    if span is None:
        return ()
    replacements = (Replacement(*span, ""),)
    again = documents.read(page.changed(replacements), kind=page.kind)
    if len(again.starts) != len(page.starts):
        return ()
    for before, after in zip(page.starts, again.starts, strict=True):
        before_setting = before.environment.get(setting.name)
        expected = _environment(before)
        if before_setting is not None and before_setting.start == setting.start:
            del expected[setting.name]
        if _content(before) != _content(after) or expected != _environment(after):
            return ()
    return replacements


def _unset_span(page: LaunchFile, setting: Setting | None) -> list[Replacement]:
    span = None if setting is None else _span_of(page, setting)
    return [] if span is None else [Replacement(*span, "")]


def _line_end(text: str, offset: int) -> int:
    stop = text.find("\n", offset)
    return len(text) if stop < 0 else stop


def _span_of(page: LaunchFile, setting: Setting) -> tuple[int, int] | None:
    """Range of a setting with all that only surrounds it."""
    text = page.text
    start, end = setting.pair or (setting.start, setting.end)
    line = text.rfind("\n", 0, start) + 1
    stop = _line_end(text, end)
    lead, rest = text[line:start], text[end:stop]
    is_last = not rest.strip("\r \t")
    whole = line, min(stop + 1, len(text))
    form = setting.form
    if form == "assignment":
        if re.fullmatch(r"[ \t]*(?:export[ \t]+)?", lead) and is_last and setting.is_exported:
            return whole
        after = re.match(r"(?:[ \t]|\\\r?\n)+(?=[^\s#])", text[end:])
        return (start, end + after.end()) if after and setting.is_exported else None
    if form == "option":
        before = re.search(r"(?:[ \t]|\\\r?\n)+(?:-e|--env)(?:[ \t]|\\\r?\n|=)+\Z", text[:start][-_MAX_LEAD:])
        return (start - len(before[0]), end) if before else None
    pattern = {
        "map": r"[ \t]*",
        "list": r"[ \t]*-[ \t]+[\"']?",
        "entry": r"[ \t]*-[ \t]+(?:name:[ \t]*)?",
        "unit": r"[ \t]*Environment[ \t]*=[ \t]*",
        "dockerfile": r"[ \t]*ENV[ \t]+",
        "python": r"(?:os\.environ\[.{1,80}\][ \t]*=[ \t]*)?",
    }.get(form)
    if pattern is None or not is_last or not re.fullmatch(pattern, lead):
        return None
    keys = [key for key in ("environment", "env") for launch in page.starts if _is_alone(launch, setting, key)]
    if form in {"map", "list", "entry"} and keys:
        return _key_of(page, setting, keys[0])
    return whole


def _is_alone(launch: WrittenLaunch, setting: Setting, key: str) -> bool:
    """Whether a setting is the only one under a key of a manifest."""
    span = launch.keys.get(key)
    if span is None or not span[0] <= setting.start <= span[1]:
        return False
    return sum(span[0] <= other.start <= span[1] for other in launch.environment.values()) == 1


def _key_of(page: LaunchFile, setting: Setting, key: str) -> tuple[int, int] | None:
    text = page.text
    span = next(launch.keys[key] for launch in page.starts if _is_alone(launch, setting, key))
    line = text.rfind("\n", 0, span[0]) + 1
    stop = _line_end(text, setting.end)
    is_own = not text[line : span[0]].strip() and not text[setting.end : stop].strip()
    return (line, min(stop + 1, len(text))) if is_own and not text[stop : span[1]].strip() else None


def _merged(made: list[Replacement]) -> list[Replacement]:
    merged: list[Replacement] = []
    for replacement in sorted(made, key=lambda edit: edit[:2]):
        if merged and merged[-1].start == merged[-1].end == replacement.start == replacement.end:
            merged[-1] = merged[-1]._replace(new_text=merged[-1].new_text + replacement.new_text)
        else:
            merged.append(replacement)
    return merged


class _LaunchEditor:
    def __init__(self, text: str, launch: WrittenLaunch, release: ReleaseData, *, is_compact: bool) -> None:
        self.text, self.launch, self.release, self.is_compact = text, launch, release, is_compact
        self.is_compose = launch.kind == "compose"
        self.values = [word.value for word in launch.words]

    def replacements(self, change: Edit) -> list[Replacement]:
        if change.op == "env":
            return self._set_variable(change.name, str(change.value))
        if self.launch.entry in CALLS:
            return self._set_keyword(change) if change.op == "set" else self._remove_keyword(change.name)
        if self.launch.language in {"glued", "argv"}:
            raise EditRefusedError
        parsed = ParsedWords(self.values, self.release, parser_entry(self.launch.entry, self.values, self.release))
        groups = parsed.groups(change.name)
        made = [] if change.op == "remove" else parsed.written(change.name, change.value)
        if self.is_compact and isinstance(change.value, Mapping):
            made[-1] = json.dumps(change.value, separators=(",", ":"), ensure_ascii=False)
        if not made:
            return [removal for group in groups for removal in self.removed(*group)]
        if not groups:
            return [self._added(made)]
        extra = [removal for group in groups[:-1] for removal in self.removed(*group)]
        return [self._replaced(*groups[-1], made), *extra]

    def _replaced(self, first: int, last: int, made: list[str]) -> Replacement:
        words = self.launch.words[first:last]
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
            raise EditRefusedError
        return Replacement(words[0].start, words[-1].end, " ".join(self._quoted(word, words[0]) for word in made))

    def removed(self, first: int, last: int) -> list[Replacement]:
        """Remove words with the blanks, line or list item around them."""
        words = self.launch.words[first:last]
        self._check(words)
        start, end = words[0].start, words[-1].end
        if self._is_list():
            return self._without_items(first, last)
        before = max((word.end for word in self._own_words() if word.end <= start), default=None)
        if before is not None and _SEPARATORS.match(self.text[before:start]):
            return [Replacement(before, end, "")]
        if _SEPARATORS.match(self.text[self._line(start) : start]):
            return [Replacement(start, end, "")]
        raise EditRefusedError

    def _without_items(self, first: int, last: int) -> list[Replacement]:
        words = self.launch.words
        start, end = words[first].start, words[last - 1].end
        line = self._line(start)
        stop = _line_end(self.text, end)
        is_block = self.launch.language == "yaml" and _ITEM.fullmatch(self.text[line:start])
        if is_block:
            if len(words) == last - first:
                raise EditRefusedError  # an empty list is another thing
            ends = [word.end for word in words[first:last]]
            behind = zip(ends, [*(word.start for word in words[first + 1 : last]), stop], strict=True)
            comments = [match[1] for gap in behind for match in _COMMENT.finditer(self.text[slice(*gap)])]
            indent = self.text[line:start].partition("-")[0]
            newline = "\r\n" if self.text[stop - 1 : stop] == "\r" else "\n"
            kept = "".join(f"{indent}{comment}{newline}" for comment in comments)
            return [Replacement(line, min(stop + 1, len(self.text)), kept)]
        gaps = pairwise(words[max(first - 1, 0) : last + (not first)])
        if any("#" in self.text[left.end : right.start] for left, right in gaps):
            return self._without_each(first, last)
        if first:
            return [Replacement(words[first - 1].end, end, "")]
        if last < len(words):
            return [Replacement(start, words[last].start, "")]
        return [Replacement(start, end, "")]

    def _without_each(self, first: int, last: int) -> list[Replacement]:
        """Remove items between brackets one by one, each with a comma, keeping comments."""
        words = self.launch.words
        made = []
        comma = None
        for word in words[first:last]:
            comma = _COMMA.match(self.text, word.end)
            start, end = word.start, comma.end() if comma else word.end
            line, stop = self._line(start), self.text.find("\n", end)
            if stop >= 0 and not self.text[line:start].strip() and self.text[end:stop].strip() in {"", "\\"}:
                start, end = line, stop + 1  # the item is alone on its line
            made.append(Replacement(start, end, ""))
        if comma is None and first:  # the list ends here: its last item has no comma in JSON
            before = _COMMA.match(self.text, words[first - 1].end)
            if before is None:
                raise EditRefusedError
            at = self.text.index(",", before.start())
            made.append(Replacement(at, at + 1, ""))
        return made

    def _added(self, made: list[str]) -> Replacement:
        words = self._own_words()
        if not words:
            raise EditRefusedError
        last = max(words, key=lambda word: word.end)
        if self._is_list():
            return self._added_items(last, made)
        quoted = " ".join(self._quoted(text, last) for text in made)
        line = self._line(self._option_start())
        lead = self.text[line : self._option_start()]
        if _LEADING.match(lead) and self.launch.words and self._may_break():
            mark = "" if self.launch.language == "compose" else " \\"
            newline = "\r\n" if self.text[: last.end].endswith("\r\n") or "\r\n" in self.text[line - 2 : line] else "\n"
            return Replacement(last.end, last.end, f"{mark}{newline}{lead}{quoted}")
        return Replacement(last.end, last.end, f" {quoted}")

    def _added_items(self, last: Word, made: list[str]) -> Replacement:
        line = self._line(last.start)
        lead = _ITEM.fullmatch(self.text[line : last.start])
        if self.launch.language == "yaml" and lead:
            if any(word.value and re.match(r"--[^=]+=", word.value) for word in self.launch.words) and len(made) == 2:
                made = [f"{made[0]}={made[1]}"]
            stop = _line_end(self.text, max(last.end - 1, last.start))
            stop -= self.text[stop - 1 : stop] == "\r"
            if self.text[last.end - 1 : last.end] == "\n":
                stop = last.end - 1  # a block scalar ends with its last line
            newline = self._newline(stop)
            return Replacement(stop, stop, "".join(f"{newline}{lead[0]}{self._quoted(text, last)}" for text in made))
        return Replacement(last.end, last.end, "".join(f", {self._quoted(text, last)}" for text in made))

    def _own_words(self) -> list[Word]:
        """Words in the command's own text, not in a variable's."""
        launch = self.launch
        within = launch.within[-1] if launch.within else None
        first, last = (within.start, within.end) if within else (launch.start, launch.end)
        return [word for word in (*launch.prefix, *launch.words) if first <= word.start and word.end <= last]

    def _option_start(self) -> int:
        starts = [word.start for word in self.launch.words if word.value and is_option(word.value)]
        return max(starts, default=self.launch.words[-1].start if self.launch.words else self.launch.start)

    def _is_list(self) -> bool:
        return self.launch.language in {"yaml", "python", "json"}

    def _may_break(self) -> bool:
        for layer in self.launch.within:
            opening = self.text[layer.start : layer.start + 1]
            if layer.language == "yaml":
                if opening in "\"'" or (opening not in "|>" and self.launch.language != "compose"):
                    return False
            elif layer.language != "shell":
                return False
        return True

    def _check(self, words: Sequence[Word]) -> None:
        """Reject words from the expansion of a shared one."""
        for word in words:
            same = [other for other in self.launch.words if other.start < word.end and word.start < other.end]
            if len(same) > 1 or word.end <= word.start:
                raise EditRefusedError

    def _line(self, offset: int) -> int:
        return self.text.rfind("\n", 0, offset) + 1

    def _newline(self, stop: int) -> str:
        return "\r\n" if self.text[stop : stop + 1] == "\r" else "\n"

    def _quoted(self, value: str, like: Word) -> str:
        first = self.text[like.start : like.start + 1]
        return self._layered(_quoted_in(self.launch.language, value, first, is_compose=self.is_compose))

    def _set_variable(self, name: str, value: str) -> list[Replacement]:
        setting = self.launch.environment.get(name)
        if setting is not None:
            return [self._changed_variable(setting, value)]
        if self.launch.kind == "python" and self.launch.language == "python":
            return [self._new_python(name, value)]
        if self.launch.kind == "systemd" and not self.launch.within:
            line = self._line(self.launch.start)
            return [Replacement(line, line, f"Environment={systemd_quoted(f'{name}={value}', is_command=False)}\n")]
        if self.launch.kind == "dockerfile":
            line = self._line(self.launch.start)
            quoted = re.sub(r'([\\"$])', r"\\\1", value)
            return [Replacement(line, line, f'ENV {name}="{quoted}"\n')]
        if self.launch.kind in {"compose", "kubernetes"} and self.launch.keys:
            return [self._new_in_manifest(name, value)]
        if self.launch.kind == "docker" and self.launch.image is not None and self.launch.container is not None:
            return [self._new_option(name, value)]
        if self.launch.language == "shell":
            return [self._new_in_shell(name, value)]
        raise EditRefusedError

    def _changed_variable(self, setting: Setting, value: str) -> Replacement:
        form, pair, span = setting.form, f"{setting.name}={value}", (setting.value.start, setting.value.end)
        if form == "assignment":
            return Replacement(*span, self._layered(_quoted_in("shell", value, ""), setting))
        if form == "list" and setting.pair:
            return Replacement(*setting.pair, _quoted_in("yaml", pair, self.text[setting.pair[0]], is_compose=True))
        if form == "option" and setting.pair:
            return Replacement(*setting.pair, self._layered(_quoted_in("shell", pair, ""), setting))
        if form == "unit" and setting.pair:
            return Replacement(*setting.pair, systemd_quoted(pair, is_command=False))
        if form in {"map", "entry"} and span[0] < span[1]:
            return Replacement(*span, yaml_quoted(value) if self.is_compose else yaml_double(value))
        if form == "python":
            return Replacement(*span, _python_quoted(value, self.text[span[0]]))
        raise EditRefusedError

    def _new_in_shell(self, name: str, value: str) -> Replacement:
        written = f"{name}={_quoted_in('shell', value, '')}"
        exported = [
            setting
            for setting in self.launch.environment.values()
            if setting.form == "assignment" and setting.start < self.launch.start
            if re.match(r"export[ \t]", self.text[setting.start :])
            or re.match(r"[ \t>]*export[ \t]+\Z", self.text[self._line(setting.start) : setting.start])
        ]
        layers = self.launch.within
        if exported and all(layer.start <= exported[-1].start for layer in layers) and self._may_break():
            last = max(exported, key=lambda setting: setting.end)
            line = self._line(last.start)
            lead = re.match(r"[ \t>]*", self.text[line:])
            return Replacement(line, line, f"{lead[0] if lead else ''}export {self._layered(written)}\n")
        invocation = self.launch.invocation
        begin = next((word for word in self.launch.prefix if word.value), None)
        if invocation is None or begin is None:
            raise EditRefusedError
        programs = [word for word in self.launch.prefix if _PROGRAM.fullmatch(word.value or "")]
        if invocation.words[:1] == self.launch.prefix[:1] and _PROGRAM.fullmatch(begin.value or ""):
            return Replacement(begin.start, begin.start, f"{self._layered(written)} ")
        if not programs:
            raise EditRefusedError
        return Replacement(programs[-1].start, programs[-1].start, f"env {self._layered(written)} ")

    def _layered(self, written: str, setting: Setting | None = None) -> str:
        """Escape a text for the layers around the launch, or around a setting."""
        for layer in reversed(self.launch.within):
            if setting is None or (layer.start <= setting.start and setting.end <= layer.end):
                written = _within(layer, self.text, written, is_compose=self.is_compose)
        return written

    def _new_option(self, name: str, value: str) -> Replacement:
        image = self.launch.image
        if image is None or any(layer.start <= image.start < layer.end for layer in self.launch.within[-1:]):
            raise EditRefusedError
        line = self._line(image.start)
        written = f"-e {_quoted_in('shell', f'{name}={value}', '')}"
        lead = self.text[line : image.start]
        rest = f"\\\n{lead}" if _LEADING.match(lead) else ""
        return Replacement(image.start, image.start, f"{written} {rest}")

    def _new_in_manifest(self, name: str, value: str) -> Replacement:
        keys = self.launch.keys
        key = "environment" if self.is_compose else "env"
        settings = [setting for setting in self.launch.environment.values() if setting.form in {"map", "list", "entry"}]
        quoted = yaml_quoted(value) if self.is_compose else yaml_double(value)
        if settings and key in keys:
            last = max(settings, key=lambda setting: setting.end)
            first = min(settings, key=lambda setting: setting.start)
            line = self._line(last.start)
            lead = self.text[line : last.start]
            stop = _line_end(self.text, last.end)
            stop -= self.text[stop - 1 : stop] == "\r"
            if not keys[key][0] < first.start <= keys[key][1]:
                raise EditRefusedError
            newline = self._newline(stop)
            if last.form == "map" and not lead.strip():
                return Replacement(stop, stop, f"{newline}{lead}{name}: {quoted}")
            if last.form == "list" and _ITEM.fullmatch(lead):
                item = _quoted_in("yaml", f"{name}={value}", self.text[last.start], is_compose=True)
                return Replacement(stop, stop, f"{newline}{lead}{item}")
            if last.form == "entry" and _ITEM.fullmatch(lead):
                indent = " " * len(lead)
                return Replacement(stop, stop, f"{newline}{lead}name: {name}{newline}{indent}value: {quoted}")
            raise EditRefusedError
        at = next((keys[other][0] for other in ("command", "args", "entrypoint", "image") if other in keys), None)
        if key in keys or at is None:
            raise EditRefusedError
        lead = self.text[self._line(at) : at]
        indent = " " * len(lead)
        body = f"env:\n{indent}- name: {name}\n{indent}  value: {quoted}\n"
        if self.is_compose:
            body = f"environment:\n{indent}  {name}: {quoted}\n"
        # The key's line may begin with a list dash: the new key takes its place, and it moves down.
        return Replacement(at, at, f"{body}{indent}")

    def _new_python(self, name: str, value: str) -> Replacement:
        match = re.search(r"^(?:from vllm\b|import vllm\b)", self.text, re.MULTILINE)
        line = match.start() if match else self._line(self.launch.start)
        if line > self.launch.start or (not match and self.text[line : line + 1].isspace()):
            raise EditRefusedError
        has_import = re.search(r"^import os\b", self.text[:line], re.MULTILINE) is not None
        lines = ("" if has_import else "import os\n") + f'os.environ["{name}"] = {_python_quoted(value, chr(34))}\n'
        return Replacement(line, line, lines)

    def _set_keyword(self, change: Edit) -> list[Replacement]:
        keyword = next((keyword for keyword in self.launch.keywords if keyword.name == change.name), None)
        written = _python_literal(change.value)
        if keyword is not None:
            return [Replacement(keyword.start, keyword.end, written)]
        first, close = self.launch.start, self.launch.end - 1
        keywords = [word for word in self.launch.keywords if first < word.name_start and word.end <= close + 1]
        if not keywords:
            if self.text[close : close + 1] != ")":
                raise EditRefusedError
            before = self.text[:close].rstrip()[-1:]
            return [Replacement(close, close, f"{'' if before in '(,' else ', '}{change.name}={written}")]
        last = max(keywords, key=lambda argument: argument.end)
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
        keyword = next((keyword for keyword in self.launch.keywords if keyword.name == name), None)
        if keyword is None:
            return []
        line, end = self._line(keyword.name_start), keyword.end
        comma = _COMMA.match(self.text, end)
        end = comma.end() if comma else end
        stop = self.text.find("\n", end)
        if stop >= 0 and not self.text[line : keyword.name_start].strip() and not self.text[end:stop].strip():
            return [Replacement(line, stop + 1, "")]
        if comma is None:
            before = re.search(r",\s*\Z", self.text[: keyword.name_start])
            return [Replacement(before.start() if before else keyword.name_start, end, "")]
        return [Replacement(keyword.name_start, end, "")]


def _quoted_in(language: str, value: str, like: str, *, is_compose: bool = False) -> str:
    """Quote a word in a language; `like` is the first character of a neighbor."""
    if language in _QUOTED:
        return _QUOTED[language](value)
    if language == "python":
        return _python_quoted(value, like)
    if language != "yaml":
        raise EditRefusedError
    if is_compose:
        value = value.replace("$", "$$")
    elif "$(" in value:
        value = value.replace("$(", "$$(")
    if like not in "\"'" and _PLAIN_YAML.match(value) and value.lower() not in _YAML_WORDS:
        return value
    if like == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return yaml_double(value)


def _compose_quoted(value: str) -> str:
    if value and PLAIN.match(value):
        return value
    if "'" not in value:
        return f"'{value}'"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


_QUOTED: Mapping[str, Callable[[str], str]] = {
    "shell": shlex.quote, "systemd": systemd_quoted, "json": json.dumps, "compose": _compose_quoted,
}  # fmt: skip


def _python_quoted(value: str, like: str) -> str:
    if like == '"' or "'" in value:
        return json.dumps(value, ensure_ascii=False) if value.isprintable() else ascii(value)
    return repr(value)


def _python_literal(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if value.isprintable() else ascii(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_python_literal(key)}: {_python_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_python_literal(item) for item in value) + "]"
    return repr(value)


def _within(layer: Within, text: str, written: str, *, is_compose: bool) -> str:
    opening = text[layer.start : layer.start + 1]
    if layer.language == "yaml":
        if is_compose:
            written = written.replace("$", "$$")
        if opening == '"':
            return yaml_double(written)[1:-1]
        if opening == "'":
            return written.replace("'", "''")
        if opening in "|>":
            return written
        if re.search(r": |:\Z| #|\n", written):
            raise EditRefusedError
        return written
    if layer.language == "json":
        return json.dumps(written)[1:-1]
    if layer.language == "python":
        start = re.match(r"[A-Za-z]{0,2}('''|\"\"\"|'|\")", text[layer.start : layer.start + 6])
        if not start or "r" in start[0].lower() or "f" in start[0].lower():
            raise EditRefusedError
        return written.replace("\\", "\\\\").replace(start[1][0], f"\\{start[1][0]}").replace("\n", "\\n")
    if opening == "'":
        if layer.language == "systemd":
            return written.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$").replace("'", "\\'")
        if layer.language == "shell":
            return written.replace("'", "'\\''")
        if "'" in written:
            raise EditRefusedError
    elif opening == '"':
        written = written.replace("\\", "\\\\").replace('"', '\\"')
        if layer.language == "systemd":
            return written.replace("%", "%%").replace("$", "$$")
        if layer.language == "shell":
            return written.replace("$", "\\$").replace("`", "\\`")
    else:
        raise EditRefusedError
    return written


def _is_as_asked(
    page: LaunchFile,
    launch: WrittenLaunch,
    changes: Sequence[Edit],
    release: ReleaseData,
    replacements: Sequence[Replacement],
) -> bool:
    again = documents.read(page.changed(replacements), kind=page.kind)
    if len(again.starts) != len(page.starts):
        return False
    for before, after in zip(page.starts, again.starts, strict=True):
        if before.start == launch.start and before.kind == launch.kind:
            if before.entry != after.entry or not _differs_as_asked(before, after, changes, release):
                return False
        elif _content(before) != _content(after):
            return False
    return True


def _content(launch: WrittenLaunch) -> tuple[Any, ...]:
    return (
        launch.entry,
        tuple(word.value for word in launch.words),
        tuple((keyword.name, repr(keyword.value), keyword.is_known) for keyword in launch.keywords),
    )


def _environment(launch: WrittenLaunch) -> dict[str, str | None]:
    return {name: setting.value.value for name, setting in launch.environment.items()}


def _differs_as_asked(
    before: WrittenLaunch, after: WrittenLaunch, changes: Sequence[Edit], release: ReleaseData
) -> bool:
    environment = _environment(before)
    for change in changes:
        if change.op == "env":
            environment.pop(change.name, None)
            environment |= {} if change.value is None else {change.name: str(change.value)}
    if environment != _environment(after):
        return False
    edits = [edit for edit in changes if edit.op != "env"]
    if before.entry in CALLS:
        return _keywords_as_asked(before, after, edits)
    words = [word.value for word in before.words]
    expected = Deployment(before.entry, tuple(words)).edited(edits, release).words
    entry = parser_entry(before.entry, words, release)
    actual = [word.value for word in after.words]
    edit, other = arguments.parse(list(expected), release, entry), arguments.parse(actual, release, entry)
    changed = {change.name for change in edits}
    kept = {dest: value for dest, value in edit.flags.items() if dest not in changed}
    return (
        sorted(_parts(expected, edit)) == sorted(_parts(actual, other))
        and kept == {dest: value for dest, value in other.flags.items() if dest not in changed}
        and all(_normal(edit.flags.get(dest)) == _normal(other.flags.get(dest)) for dest in changed)
        and edit.model == other.model
    )


def _parts(words: Sequence[str | None], read: Parsed) -> list[str]:
    """Normalize words: full option names, `--option=value` split, JSON in one form."""
    parts: list[str] = []
    for word, role in zip(words, read.roles, strict=True):
        name, equals, value = (word or "").partition("=")
        option = role.option if role.kind == "option" and role.option else name.replace("_", "-")
        if re.fullmatch(r"--?[A-Za-z][\w.-]*", name):
            parts += [option, _normal(value)] if equals else [option]
        else:
            parts.append(_normal(word or ""))
    return parts


def _normal(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in {"{", "["}:
        try:
            return json.dumps(json.loads(value))
        except (ValueError, RecursionError):
            return value
    return value


def _keywords_as_asked(before: WrittenLaunch, after: WrittenLaunch, changes: Sequence[Edit]) -> bool:
    expected = {keyword.name: (keyword.value, keyword.is_known) for keyword in before.keywords}
    for change in changes:
        if change.op == "remove":
            expected.pop(change.name, None)
        else:
            expected[change.name] = (json.loads(json.dumps(change.value)), True)
    return expected == {keyword.name: (keyword.value, keyword.is_known) for keyword in after.keywords}
