"""Detect the format of a file by its name, else by its content."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_runbooks.reading.documents import glued
from vllm_runbooks.reading.shell.word_lists import kinds_by_word, word_list

_MAX_HEAD = 20_000  # characters that are looked at where the whole text need not be
_FENCED = re.compile(r"^[ \t>]{0,20}(?:```|~~~)", re.MULTILINE)
_CALL = re.compile(r"\b(?:LLM|EngineArgs|AsyncEngineArgs)\(")
_IMPORT = re.compile(
    r"^(?:from[ \t]+[\w.]+[ \t]+import|import[ \t]+\w|def[ \t]+\w+\(|class[ \t]+\w+[:(])", re.MULTILINE
)
_CALLED = re.compile(r"^[ \t]*(?:\w+[ \t]*=[ \t]*)?(?:vllm\.)?(?:LLM|EngineArgs|AsyncEngineArgs)\(", re.MULTILINE)
_MANIFEST = re.compile(r"^(?:services|apiVersion|kind|containers|x-[\w-]+):", re.MULTILINE)
_CONTAINER = re.compile(r"^(?:[ \t]+|- )?(?:image|command|args|environment|entrypoint):(?:[ \t]|\r?$)", re.MULTILINE)
_YAML_LINE = re.compile(r"(?:- )?[\"']?[\w./-]{1,100}[\"']?:(?:[ \t]|\r?\Z)|-(?:[ \t]|\Z)|---|%YAML|[\[{]")
"""Beginning of a YAML file's first non-empty line."""
_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*['\"\\]?([A-Za-z_]\w{0,60})")
_CJK = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef]")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|'[^']*+'|(?:^|[ \t])#.*")

_TEMPLATE_SUFFIX = re.compile(
    r"(?<=.)(?:\.(?:j2|jinja2?|tpl|tmpl|gotmpl|tftpl|erb|hbs|mustache|template|in|dist|example|sample|orig|bak|disabled|off))+\Z"
)
"""Suffixes of a template, whose result has the format of the suffix before."""
_LISTED = re.compile(
    r"[|>*\u2022]|-[ \t]|\d{1,3}[.)][ \t]|\((?:EngineCore|APIServer|Worker)|(?:INFO|WARNING|ERROR)\b|#{2,6}[ \t]"
    r"|={3,}\Z|-{3,}\Z|\*{3,}\Z"
)
"""Line prefixes of a list, a quotation, a heading or a log."""
_LABEL = re.compile(r"[A-Za-z][\w ()/-]{0,60}:(?:[ \t]|\Z)")
_OTHER = re.compile(
    r"[\w.-]+[ \t]+:?=[ \t]|\[{1,2}[\w.:-]+\]{1,2}\Z|(?:\"\"|[\w.-]+)[ \t]*:[ \t]*[\"{\[]|[\w \"]{1,80}\{\Z|[\]}],?\Z"
)
"""Syntax of other languages: TOML, HCL, JSON."""
_CAPITAL = re.compile(r"[A-Z][a-z']*(?:[ \t,]+(?=[A-Za-z`(])|[.!?]?\Z)")
_WORDS = re.compile(r"[a-z]+[ ,]+(?:[\w',`()-]{1,40}[ ,.:;]+){3}")
_ASSIGNED = re.compile(r"[A-Za-z_]\w{0,200}(?:\[[^\]\n]{0,80}\])?\+?=(?!=)")
_STRUCTURE = re.compile(
    r"(?:for[ \t]+\w+[ \t]+in\b|for[ \t]*\(\(|(?:if|elif|while|until)[ \t]+(?:!|\[|\(\()|case[ \t].{1,400}[ \t]in\Z"
    r"|(?:fi|done|esac|else|then|do|;;)(?=[ \t;&|>)]|\Z)|[(){}]+[ \t;&|>]|[(){}]+\Z"
    r"|(?:function[ \t]+)?[\w.-]{1,80}[ \t]*\(\)"
    r"|(?:if|elif|while|until)\b.{1,400}(?:;[ \t]*(?:then|do)\b|[ \t;]\Z))"
)
_SIGNS = re.compile(r"[ \t](?:&&|\|\|?|[012]?>{1,2}|<)(?:[ \t&/$\"']|\Z)|2>&1|[ \t]&\Z|[;\\]\Z|\$[({\w]")
_OPTION = re.compile(r"[ \t]--?[A-Za-z]")
_PROMPTED = re.compile(
    r"\s{0,40}>[ \t]+(?:[A-Za-z_]\w{0,80}=|(?:vllm|python[\d.]{0,5}|docker|podman|export|cd|source)[ \t])"
)
"""Beginning of a session whose prompt is that of a continued line."""
_MARK = re.compile(r"^[ \t]{0,16}>(?:[ \t]|$)", re.MULTILINE)
_PROGRAM = re.compile(r"(?:\.{0,2}/|~/|\$|\"\$|`)?[a-z0-9_][\w./+@-]{0,200}(?=[ \t]|\Z)|\$\(|[./~\"$:]")
_ENDED = re.compile(r"[A-Za-z)][.!?]\Z")


def kind_of(text: str, name: str = "") -> str:
    """The format of a file, by its name, else by its content; see `LaunchFile.kind`."""
    return _by_name(name) or by_content(text)


def is_named(name: str) -> bool:
    """Whether the format follows from a file's name."""
    return _by_name(name) is not None


def has_suffix(name: str) -> bool:
    """Whether a file's name has a suffix, known or not."""
    return re.search(r"[^/\\]\.[A-Za-z]\w{0,15}\Z", name) is not None


def _by_name(name: str) -> str | None:
    base = _TEMPLATE_SUFFIX.sub("", re.split(r"[/\\]", name)[-1].lower())
    if re.fullmatch(r"(?:.{0,200}[^a-z])?(?:gnu)?makefile(?:[.-]\w{1,20})?|.*\.mk", base):
        return "make"
    if re.fullmatch(r"(?:.{0,200}[^a-z])?justfile|.*\.just", base):
        return "just"
    if base.startswith(("dockerfile", "containerfile")):
        return "dockerfile"
    suffix = re.search(r"\.[a-z]{2,10}1?\Z", base)
    return kinds_by_word("suffix-").get(suffix[0]) if suffix else None


def by_content(text: str) -> str:
    """The format that a text has, whatever its name."""
    head = text[:_MAX_HEAD]
    first = head.lstrip("\ufeff \t\r\n").split("\n", 1)[0]
    if first.startswith("#!"):
        return "python" if "python" in first else "shell"
    if re.match(r"\.PHONY[ \t]*:", first):
        return "make"
    if first.startswith("{") and '"cells"' in head and "nbformat" in text:
        return "notebook"
    # Text that a script writes to a file does not count.
    lines = list(_written(head))
    outer = "\n".join(lines)
    first = next((line.strip() for line in lines if line.strip() and line.lstrip()[:1] not in {"#", ";"}), "")
    if first.startswith("[") and re.search(
        r"^\[(?:Unit|Service|Container|program:[^\]\n]{1,80})\][ \t\r]*$", outer, re.MULTILINE
    ):
        return "unit"
    if _FENCED.search(outer) or re.match(r"(?i)\s{0,40}(?:<!doctype html|<html\b)", head):
        return "page"
    if re.match(r"(?:FROM|ARG)[ \t]", first) and re.search(r"^FROM[ \t]+\S+", outer, re.MULTILINE):
        return "dockerfile"
    is_manifest = _MANIFEST.search(outer) or (_CONTAINER.search(outer) and not re.search(r"\\[ \t]*$", first))
    if (is_manifest and _YAML_LINE.match(first)) or re.match(
        r"\s{0,40}[\[{]\s{0,40}(?:\{\s{0,40})?\"[\w$-]{1,60}\"\s{0,8}:", head
    ):
        return "yaml"
    if _IMPORT.search(outer) or (_CALL.search(outer) and _CALLED.search(outer)):
        return "python"
    if _PROMPTED.match(head):
        head = _MARK.sub("", head)  # a session's prompts, unless sentences are quoted
    return "shell" if _is_script(head) else "page"


def _written(text: str) -> Iterator[str]:
    """Lines of a text without terminated here-documents."""
    lines = text.split("\n")
    ends: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        ends.setdefault(line.strip(), []).append(index)
    index = 0
    while index < len(lines):
        yield lines[index]
        mark = _HEREDOC.search(lines[index])
        stop = next((end for end in ends.get(mark[1], ()) if end > index), None) if mark else None
        index = index + 1 if stop is None else stop + 1


def _logical(text: str) -> Iterator[str]:
    """Commands of a script, or lines of a page, with continuations joined.

    Quotes and comments are removed.
    """
    parts: list[str] = []
    for line in _written(text):
        bare = _QUOTED.sub(' ""', line[:2000]).strip()
        parts.append(bare.rstrip("\\").rstrip() if line.rstrip().endswith("\\") else bare)
        if not line.rstrip().endswith("\\"):
            yield " ".join(parts) + (" \\" if len(parts) > 1 else "")
            parts = []
    if parts:
        yield " ".join(parts)


def _is_script(text: str) -> bool:
    """Whether most lines of a text are shell rather than prose with commands in it."""
    kinds = [_kind_of_line(line) for line in _logical(text) if line]
    sentences, structure = kinds.count("sentence") + kinds.count("other"), kinds.count("structure")
    if structure and sentences * 4 <= len(kinds):
        return True
    return sentences * 5 <= len(kinds) and not any(glued.is_glued(line) for line in text.split("\n"))


def kind_of_line(line: str) -> str:
    """Kind of a single line of a page: see `_kind_of_line`."""
    return _kind_of_line(_QUOTED.sub(' ""', line[:2000]).strip())


def _kind_of_line(line: str) -> str:
    """Kind of a line, "" if unclear.

    "structure" of a script, "command", "sentence" or "other" (language).
    """
    if _STRUCTURE.match(line):
        return "structure"
    if _OTHER.match(line):
        return "other"
    if line in {'""', '"" \\'}:
        return ""
    if _CJK.search(line) or _LISTED.match(line):
        return "sentence"
    if _ASSIGNED.match(line):
        return "command"
    first = line.split(" ", 1)[0].rstrip(",").lower()
    if _LABEL.match(line) or _CAPITAL.match(line) or first in word_list("sentence-openings"):
        return "sentence"
    is_like_command = _PROGRAM.match(line) is not None and (_SIGNS.search(line) or _OPTION.search(line))
    if is_like_command:
        return "command"
    return "sentence" if _WORDS.match(line) or (_ENDED.search(line) and line.count(" ") > 1) else ""
