"""Text pages: code blocks, command lines within prose, options in tables and comments.

Markdown, reStructuredText, HTML and plain text, in any mixture. A page is only split here; the
readers of each format parse the blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.documents import formats, glued, placed_words, programs
from vllm_runbooks.reading.documents.placed_words import Characters, excerpt_of_characters
from vllm_runbooks.reading.documents.starts import LooseOption, Setting
from vllm_runbooks.reading.shell import Word
from vllm_runbooks.reading.shell.troubles import Spans
from vllm_runbooks.reading.shell.word_lists import kinds_by_word

_FENCE = re.compile(
    r"((?:[ \t]{0,3}>[ \t]?){0,8})([ \t]{0,40}(?:(?:[-*+]|\d{1,4}[.)])[ \t]{1,8})?)"
    r"(`{3,400}|~{3,400})[ \t]*([^\n`]{0,400})\Z"
)
_DIRECTIVE = re.compile(r"([ \t]{0,40})\.\. (?:code|code-block|sourcecode|prompt)::[ \t]*(\S{0,40})[ \t]*\Z")
_PROMPT = re.compile(
    r"[ \t]{0,20}(?:\([\w.-]{1,60}\) ?)?"
    r"(?:(?:\[?[\w.-]{1,64}@[\w.-]{1,64}[^#$%>\n]{0,120}?[#$%]\]?|[$%\u276f\u279c])[ \t]{1,4})(?=\S)"
)
_SECONDARY = re.compile(r"[ \t]*>[ \t]")
"""The prompt of a line that continues another."""
_BARE_OPTION = re.compile(r"[ \t]*(?:>[ \t]+)?--?[A-Za-z]")
_CUT = re.compile(r"[ \t]\\[ \t]*#[^\n]*\Z")
"""A comment after the backslash of a line continuation."""
_ASKS_FOR_HELP = re.compile(r"[ \t](?:-h|--help)\b")
_LEAD = re.compile(
    r"[ \t>]{0,40}(?:(?:[-*+\u2022]|\d{1,3}[.)\u3001])[ \t]{1,8})?(?:\([\w.-]{1,60}\) ?)?"
    r"(?:[\w.-]{1,64}@[\w.-]{1,64}[^#$%>\n]{0,120}?[#$%][ \t]{1,4}|[$%][ \t]{1,4}|!)?"
)
"""Text before a command line: quotation marks, a list's bullet, a prompt."""
_COMMAND = re.compile(
    r"(?:(?:sudo|nohup|exec|env|time|uv run|numactl|taskset)\b|[A-Z_][A-Z0-9_]{1,60}=\S|(?:[\w./~-]{0,200}/)?"
    r"(?:vllm[ \t]|python[\d.]{0,5}[ \t]|docker[ \t]|podman[ \t]|nerdctl[ \t])"
    r"|(?:bash|sh)[ \t]+\S{0,100}run_cluster\.sh\b)"
)
_BEFORE = re.compile(r"(?:export[ \t]+)?[A-Z_][A-Z0-9_]{1,60}=\S|#|export[ \t]")
_OPTION_LINE = re.compile(r"--[A-Za-z][\w.-]{0,80}(?:[= \t]|\\?[ \t]*\Z|\Z)")
_BARE = re.compile(
    r"(--[A-Za-z](?:[\w.]|-(?!-)){1,80})(?:(=|[ \t]{1,8})(\"[^\"\n]{1,400}\"|'[^'\n]{1,400}'|[^\s#\\|`]{1,400}))?"
    r"[ \t]*(?:\\[ \t]*)?(?:#.*)?\Z"
)
_OPTION = re.compile(r"(?<![\w-])--[A-Za-z](?:[A-Za-z0-9_.]|-(?!-)){1,80}", re.ASCII)
_VALUE = re.compile(
    r"(=|[ \t])(\"(?:[^\"\\\n]|\\.){0,400}\"|'[^'\n]{0,400}'|[A-Za-z0-9_./:{}\[\]\"',%+-]{1,400})", re.ASCII
)
_ENDS = re.compile(r"[ \t]*(?:\Z|\\[ \t]*\Z|[^\x00-\x7f]|[|`#),;]|--?[A-Za-z])|[ \t]{2}")
"""Text that may follow the value of an option; a word of prose may not."""
_VARIABLE = re.compile(
    r"(?<![\w$])((?:VLLM|NCCL|GLOO|CUDA|PYTORCH|HF|RAY|TORCH|OMP|HIP)_[A-Z0-9_]{2,80})(=[^\s`|,;)]{1,200})?(?![a-z])"
)
_MANIFEST = re.compile(r"(?:services|apiVersion|x-[\w-]+):(?:[ \t]|\Z)")
_MANIFEST_LINE = re.compile(r"[ \t]|[\w.-]{1,80}:(?:[ \t]|\Z)|-[ \t]|#|---\Z|\Z")
"""A line of a manifest; one without indentation is a key or an item."""
_OPENS = re.compile(
    r"(?:for|while|until|if|case|select)\b|(?:function[ \t]+)?[\w.-]{1,80}[ \t]*\(\)[ \t]*\{?|[A-Za-z_]\w{0,80}\+?=\("
)
_CLOSES = {
    **dict.fromkeys(("for", "while", "until", "select"), re.compile(r"done\b")),
    "if": re.compile(r"fi\b"),
    "case": re.compile(r"esac\b"),
    "(": re.compile(r".*\)[ \t]*\Z"),
    "{": re.compile(r"\}"),
}
"""End of the part of a script, by the start of its first line."""
_SENTENCE_ENDS = re.compile(r"[.!?](?=[ \t]|\Z)|[,;][ \t](?=[a-z])|[ \t](?:and|but|then|or)[ \t](?=[a-z])")
_SPAN = re.compile(r"`([^`\n]{1,2000})`")
_CJK = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef\u3000-\u303f]")
_WITHIN = re.compile(
    r"(?:vllm[ \t]{1,4}serve|python[\d.]{0,5}[ \t]{1,4}-m[ \t]{1,4}vllm\.entrypoints\.[\w.]{1,60}|docker[ \t]{1,4}run)"
    r"[ \t]{1,4}(?=[\w\"'/.$<-])"
)
_MAX_SPANS = 200  # commands within one line
_MAX_SPAN = 4000  # characters of one such command
_MAX_PART = 60  # lines of a loop or a function in prose
_MAX_LOOKED = 60_000  # lines that are looked through for where such a part ends, in all
_MAX_LINES = 400  # lines of one command in prose


@dataclass(frozen=True)
class PageBlock:
    """A piece of a page."""

    text: Excerpt
    kind: str
    """"shell", "python", "yaml", "unit", "dockerfile", "" (detected by content), "skip", "prose",
    "command" (a command line within prose), "span" (one within a line), "cut" (a line whose rest is
    ignored)."""


def blocks(source: Excerpt) -> list[PageBlock]:
    """The page cut up, in order; "prose" has the lines that belong to nothing else."""
    if _is_html(source.text):
        return [
            block for piece in _html(source) for block in (_markdown(piece.text) if piece.kind == "prose" else [piece])
        ]
    return _markdown(source)


def without_prompts(source: Excerpt) -> Excerpt:
    """Input of a recorded session: lines after a prompt and continuations; all without prompts."""
    lines = _lines(source.text)
    prompts = [_PROMPT.match(source.text[start:end]) for start, end in lines]
    if not any(prompts):
        return _without_marks(source, lines)
    resumed = _resumed(source.text, lines, prompts)
    parts: list[tuple[int, int]] = []
    goes_on = is_start = False
    for index, ((start, end), prompt) in enumerate(zip(lines, prompts, strict=True)):
        text = source.text[start:end]
        stop = _behind(source.text, end)
        is_typed = bool(prompt) or goes_on
        if prompt:
            parts.append((start + prompt.end(), stop))
            is_start = programs.may_start(text) and not _ASKS_FOR_HELP.search(text)
        elif goes_on:
            secondary = _SECONDARY.match(text)
            parts.append((start + (secondary.end() if secondary else 0), stop))
        elif text.lstrip().startswith("#") or re.match(r"[ \t]*export[ \t]", text):
            parts.append((start, stop))
        is_cut = _CUT.search(text) is not None or (not prompt and _is_empty(text))
        # An option directly below a launch belongs to it, even if the backslash is missing.
        is_missed = is_start and resumed[index + 1] == "option" and not _is_empty(_next_line(source.text, end))
        goes_on = is_typed and (text.rstrip().endswith("\\") or (resumed[index + 1] != "" if is_cut else is_missed))
    return source.joined(parts)


def _resumed(text: str, lines: Sequence[tuple[int, int]], prompts: Sequence[re.Match[str] | None]) -> list[str]:
    kinds = [""]
    for (start, end), prompt in zip(reversed(lines), reversed(prompts), strict=True):
        line = text[start:end]
        kind = "indented" if _SECONDARY.match(line) or line[:1] in " \t" else ""
        if prompt:
            kind = ""
        elif _is_empty(line):
            kind = kinds[-1]
        elif _BARE_OPTION.match(line):
            kind = "option"
        kinds.append(kind)
    return kinds[::-1]


def _is_empty(line: str) -> bool:
    """Whether a line of a session has nothing on it, or nothing but a comment or a backslash."""
    secondary = _SECONDARY.match(line)
    bare = line[secondary.end() if secondary else 0 :].strip()
    return not bare.strip("\\") or bare.startswith("#")


def _next_line(text: str, end: int) -> str:
    begin = _behind(text, end)
    stop = text.find("\n", begin)
    return text[begin : len(text) if stop < 0 else stop]


def _without_marks(source: Excerpt, lines: Sequence[tuple[int, int]]) -> Excerpt:
    """A notebook's shell cell without `%%bash` and the `!` before commands."""
    if not re.search(r"^[ \t]*(?:!|%%)", source.text, re.MULTILINE):
        return source
    parts = []
    for start, end in lines:
        mark = re.match(r"[ \t]*(?:!|%%\w{1,20}[^\n]*)", source.text[start:end])
        parts.append((start + (mark.end() if mark else 0), _behind(source.text, end)))
    return source.joined(parts)


_SAYS_GONE = re.compile(r"(?i)\b(?:removed?|deprecated|obsolete|unsupported|no longer|not (?:supported|available))\b")
"""A row that itself says what is wrong with its option."""


def table_options(source: Excerpt) -> tuple[list[LooseOption], list[Setting]]:
    """Options and variables in table rows."""
    loose: list[LooseOption] = []
    settings: list[Setting] = []
    for start, end in _lines(source.text):
        line = source.text[start:end]
        if line.count("|") < 2 or not re.match(r"[ \t>]{0,40}\|", line):
            continue
        if _SAYS_GONE.search(line):
            continue
        row = source.part(start, end)
        loose += options_in(row, "table")
        settings += _variables(row)
    return loose, settings


def options_in(source: Excerpt, where: str) -> list[LooseOption]:
    """Options that a comment or a row names, each with its value if unambiguous."""
    options = []
    text = source.text
    for match in _OPTION.finditer(text):
        words = [_word(source, match.start(), match.end())]
        value = _VALUE.match(text, match.end())
        if value:
            start, end = value.span(2)
            while end > start and text[end - 1] in ",.:'\"" and text[start] not in "\"'{[":
                end -= 1
            is_span = text[match.start() - 1 : match.start()] == "`" and text[end : end + 1] == "`"
            is_plain = text[start] in "\"'{[0123456789" or _ENDS.match(text, end) is not None
            if value[1] == "=":
                words[0] = _word(source, match.start(), end)
            elif end > start and (is_span or is_plain) and text[start : start + 1] not in {"-", "|", ""}:
                words.append(_quoted(source, start, end))
        options.append(LooseOption(tuple(words), where, words[0].start, words[-1].end))
    return options


def comments(source: Excerpt, words: Sequence[tuple[int, int]]) -> Iterator[Excerpt]:
    """Comments of a script (`# …` to the line's end) outside the given words (file offsets)."""
    spans = Spans(words)
    for match in re.finditer(r"(?:^|(?<=[ \t]))#[^\n]*", source.text, re.MULTILINE):
        if spans.around(source.at[match.start()]) is None:
            yield source.part(match.start(), match.end())


def bare_options(source: Excerpt) -> list[LooseOption]:
    """Lines of prose that are nothing but an option and its value."""
    options = []
    for start, end in _lines(source.text):
        lead = _LEAD.match(source.text, start, end)
        begin = lead.end() if lead else start
        match = _BARE.match(source.text[begin:end])
        if match:
            words = [_word(source, begin, begin + match.end(3 if match[2] == "=" else 1))]
            if match[3] and match[2] != "=":
                words.append(_quoted(source, begin + match.start(3), begin + match.end(3)))
            options.append(LooseOption(tuple(words), "bare", words[0].start, words[-1].end))
    return options


def _variables(row: Excerpt) -> list[Setting]:
    settings = []
    cells = row.text.rstrip().rstrip("|").rfind("|")
    code = re.compile(r"\|[ \t]*`([^`\n]{1,200})`").match(row.text, max(cells, 0))
    for match in _VARIABLE.finditer(row.text):
        start, end = match.span()
        value = placed_words.unknown(row.at[start], row.at[end], "not written")
        if match[2]:
            value = _word(row, match.start(2) + 1, match.end(2))
        elif code and code.start() > match.end():
            value = _word(row, *code.span(1))
        settings.append(Setting(match[1], value, row.at[start], max(row.at[end], value.end), "table"))
    return settings


def _word(source: Excerpt, start: int, end: int) -> Word:
    return placed_words.literal(source.part(start, end), start=source.at[start], end=source.at[end - 1] + 1)


def _quoted(source: Excerpt, start: int, end: int) -> Word:
    text, quote = source.text, source.text[start]
    if end - start < 2 or quote != text[end - 1] or quote not in "\"'":
        return _word(source, start, end)
    pattern = re.compile(r"\\(.)|[^\\]" if quote == '"' else "(.)", re.DOTALL)
    characters = [(match[0][-1], source.at[match.end() - 1]) for match in pattern.finditer(text, start + 1, end - 1)]
    return placed_words.word_of_characters(characters, source.at[start], source.at[end - 1] + 1, text[start:end])


def _lines(text: str) -> list[tuple[int, int]]:
    lines, begin = [], 0
    for line in text.split("\n"):
        lines.append((begin, begin + len(line) - line.endswith("\r")))
        begin += len(line) + 1
    return lines


def _behind(text: str, end: int) -> int:
    """Index after a line and its line end."""
    return min(end + (2 if text.startswith("\r\n", end) else 1), len(text))


def _markdown(source: Excerpt) -> list[PageBlock]:
    text, lines = source.text, _lines(source.text)
    blocks: list[PageBlock] = []
    prose: list[tuple[int, int]] = []
    index = 0
    while index < len(lines):
        start, end = lines[index]
        fence = _FENCE.match(text[start:end]) if end - start < 2000 else None
        directive = _DIRECTIVE.match(text[start:end]) if fence is None and end - start < 200 else None
        if fence:
            index, block = _fenced(source, lines, index, fence)
        elif directive:
            index, block = _indented(source, lines, index, directive)
        else:
            prose.append((start, end))
            index += 1
            continue
        blocks += [*_prose(source, prose), block]
        prose = []
    return blocks + _prose(source, prose)


def _fenced(
    source: Excerpt, lines: Sequence[tuple[int, int]], index: int, fence: re.Match[str]
) -> tuple[int, PageBlock]:
    """The block that a fence begins on a line, and the index of the next line."""
    is_quoted, indent, mark = bool(fence[1]), len(fence[2]), fence[3]
    parts: list[tuple[int, int]] = []
    index += 1
    while index < len(lines):
        start, end = lines[index]
        text = source.text[start:end]
        begin = 0
        if is_quoted:
            quote = re.match(r"(?:[ \t]{0,3}>[ \t]?){0,8}", text)
            if quote and not quote[0]:
                break  # the quotation ends, and the block with it
            begin = quote.end() if quote else 0
        stripped = text[begin:].strip()
        if stripped and stripped == mark[0] * len(stripped) and len(stripped) >= len(mark):
            return index + 1, PageBlock(source.joined(parts), _kind(fence[4]))
        blanks = len(text[begin:]) - len(text[begin:].lstrip(" \t"))
        parts.append((start + begin + min(blanks, indent), _behind(source.text, end)))
        index += 1
    return index, PageBlock(source.joined(parts), _kind(fence[4]))


def _indented(
    source: Excerpt, lines: Sequence[tuple[int, int]], index: int, directive: re.Match[str]
) -> tuple[int, PageBlock]:
    """The indented block of a directive of reStructuredText."""
    outer = len(directive[1])
    index += 1
    body: list[tuple[int, int]] = []
    while index < len(lines):
        start, end = lines[index]
        text = source.text[start:end]
        if text.strip() and len(text) - len(text.lstrip(" \t")) <= outer:
            break
        body.append((start, end))
        index += 1
    while body and (
        not source.text[slice(*body[0])].strip() or re.match(r"[ \t]+:[\w-]+:", source.text[slice(*body[0])])
    ):
        body.pop(0)
    return index, PageBlock(dedented(source, body), _kind(directive[2]))


def dedented(source: Excerpt, lines: Sequence[tuple[int, int]] | None = None) -> Excerpt:
    """Lines (default: all), each from an index to another, without the indentation that all of them have."""
    lines = _lines(source.text) if lines is None else lines
    indents = [
        len(text) - len(text.lstrip(" \t")) for text in (source.text[start:end] for start, end in lines) if text.strip()
    ]
    cut = min(indents, default=0)
    return source.joined([(min(start + cut, end), _behind(source.text, end)) for start, end in lines])


def _kind(info: str) -> str:
    match = re.match(r"[\{ .]{0,4}([\w+-]{1,40})", info.strip())
    return kinds_by_word("block-").get(match[1].lower(), "") if match else ""


def _prose(source: Excerpt, lines: Sequence[tuple[int, int]]) -> list[PageBlock]:
    """Lines outside of any block: commands among them, and the rest."""
    blocks: list[PageBlock] = []
    rest: list[tuple[int, int]] = []
    index = looked = 0
    text = source.text
    while index < len(lines):
        start, end = lines[index]
        line = text[start:end]
        stop = 0
        if looked < _MAX_LOOKED and (_MANIFEST.match(line[:200]) or _OPENS.match(line[:200])):
            looked += _MAX_PART
            stop = _manifest_end(text, lines, index) or _part_end(text, lines, index)
        if stop:
            kind = "yaml" if _MANIFEST.match(line) else "command"
            blocks.append(PageBlock(source.part(start, _behind(text, lines[stop - 1][1])), kind))
            index = stop
            continue
        is_cut = line.endswith("\\") and programs.may_start(line)
        if not _mentions(_continued(text, lines, index) if is_cut else line):
            rest.append((start, _behind(text, end)))
            index += 1
            continue
        lead = _LEAD.match(line)
        begin = start + (lead.end() if lead else 0)
        if _is_command(text[begin:end]):
            before: list[tuple[int, int]] = []
            while rest and len(before) < _MAX_LINES and _BEFORE.match(text[slice(*rest[-1])].lstrip(" \t>")):
                before.insert(0, rest.pop())
            # Continuation lines of a quotation may lack the quote mark.
            parts = [(_content(text, *part), part[1]) for part in before] + [(begin, _behind(text, end))]
            index += 1
            while index < len(lines) and len(parts) < _MAX_LINES:
                last = text[slice(*parts[-1])].rstrip()
                start, end = lines[index]
                if not last.endswith("\\") and not _OPTION_LINE.match(text[_content(text, start, end) : end]):
                    break
                parts.append((_content(text, start, end), _behind(text, end)))
                index += 1
            blocks.append(PageBlock(source.joined(parts), "command"))
        else:
            blocks += _spans(source, start, end)
            rest.append((start, _behind(text, end)))
            index += 1
    if rest:
        blocks.append(PageBlock(source.joined(rest), "prose"))
    return blocks


def _manifest_end(text: str, lines: Sequence[tuple[int, int]], index: int) -> int:
    """Index after the lines of a manifest that begins on a line; 0 if there is none."""
    start, end = lines[index]
    if not _MANIFEST.match(text, start, min(end, start + 200)):
        return 0
    stop = index + 1
    while stop < len(lines) and stop - index < _MAX_LINES and _MANIFEST_LINE.match(text[slice(*lines[stop])]):
        stop += 1
    return stop if "vllm" in text[start : lines[stop - 1][1]] else 0


def _part_end(text: str, lines: Sequence[tuple[int, int]], index: int) -> int:
    """Index after a loop, function, list or similar that begins on a line, with its use.

    0 if there is none.
    """
    start, end = lines[index]
    head = _OPENS.match(text, start, min(end, start + 200))
    if not head or formats.kind_of_line(text[start:end]) not in {"structure", "command"}:
        return 0
    word, *_ = head[0].split()
    sign = word if word in _CLOSES else "(" if head[0].endswith("=(") else "{"
    closing = _CLOSES[sign]
    stop = index + 1
    while stop <= len(lines) and stop - index < _MAX_PART:
        first, last = lines[stop - 1]
        line = text[first:last]
        if line.strip() and stop > index + 1 and formats.kind_of_line(line) == "sentence":
            return 0
        if closing.match(line) and (stop > index + 1 or sign == "("):
            break
        stop += 1
    else:
        return 0
    if stop > len(lines):
        return 0
    if "vllm" in text[start : lines[stop - 1][1]] and sign != "(":
        return stop
    # Settings and definitions matter together with the command that uses them.
    while stop < len(lines) and stop - index < _MAX_PART:
        line = text[slice(*lines[stop])]
        if formats.kind_of_line(line) == "sentence":
            break
        is_used = _mentions(line)
        stop += 1
        while is_used and stop < len(lines) and text[slice(*lines[stop - 1])].rstrip().endswith("\\"):
            stop += 1
        if is_used:
            return stop
    return 0


def _continued(text: str, lines: Sequence[tuple[int, int]], index: int) -> str:
    stop = index
    while stop + 1 < len(lines) and stop - index < _MAX_PART and text[slice(*lines[stop])].endswith("\\"):
        stop += 1
    return text[lines[index][0] : lines[stop][1]]


def _mentions(line: str) -> bool:
    return ("vllm" in line or "run_cluster" in line) and programs.may_start(line)


def _content(text: str, start: int, end: int) -> int:
    """Start of a line's content after its quotation marks."""
    match = re.compile(r"[ \t>]{0,40}").match(text, start, max(end, start))
    return match.end() if match else start


def _is_command(text: str) -> bool:
    """Whether a line that begins like a command is one: `vllm serve is …` is a sentence."""
    if not _COMMAND.match(text):
        return False
    match = re.search(
        r"(?:\bvllm[ \t]+(?:serve|run-batch|bench[ \t]+\w+)|vllm\.entrypoints\.[\w.]+)"
        r"(?:[ \t]+|\\?\Z|\Z)(\S{0,200})[ \t]*(\S{0,80})",
        text,
    )
    if not match:
        return True  # a container launch, or a script
    if _CJK.match(match[1] or " ") or match[1][:1] in {"(", "`", ",", ".", ";"}:
        return False
    return not match[1] or _is_argument(match[1], match[2])


def _is_argument(word: str, following: str) -> bool:
    """Whether a word after `vllm serve` is an argument rather than the sentence's next word."""
    return word[:1] in "-\"'$<{/\\~./" or bool(re.search(r"[/\d]|\w-\w", word)) or following.startswith(("--", "\\"))


def _spans(source: Excerpt, start: int, end: int) -> Iterator[PageBlock]:
    line = source.text[start:end]
    if glued.is_glued(line):
        return
    code = [match.span() for match in _SPAN.finditer(line)]
    spans = [(first + 1, last - 1) for first, last in code]
    quoted = Spans(code)
    spans += _without_quotes(line, [match for match in _WITHIN.finditer(line) if not quoted.around(match.start())])
    count = 0
    for first, last in spans:
        inner = line[first:last]
        if "--" in inner and _mentions(inner) and _is_command(inner):
            count += 1
            if count > _MAX_SPANS:
                yield PageBlock(source.part(start + first, end), "cut")
                return
            yield PageBlock(source.part(start + first, start + last), "span")


def _without_quotes(line: str, matches: Sequence[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """Start and end of commands without backquotes; one ends where the next begins."""
    begins = []
    for match in matches:
        before = line[max(match.start() - 8, 0) : match.start()].rstrip(" \t")[-1:]
        if before and (before in ':\uff1a"\u201c' or _CJK.match(before)):
            begins.append((match, match[0].startswith("docker"), before == '"'))
    ends = [len(line)] * 2
    """Ends of a container's launch and of another one: the container gets the quoted command that
    follows."""
    spans = []
    for begin, is_container, is_quoted in reversed(begins):
        limit = min(ends[not is_container], begin.start() + _MAX_SPAN)
        stops = (form.search(line, begin.end(), limit) for form in (_CJK, _SENTENCE_ENDS))
        stop = min((match.start() for match in stops if match), default=limit)
        inner = line[begin.start() : stop].rstrip(' \t."\u201d`')
        spans.append((begin.start(), begin.start() + len(inner)))
        ends[1] = begin.start()
        if is_container or not is_quoted:
            ends[0] = begin.start()
    yield from reversed(spans)


def _is_html(text: str) -> bool:
    head = text[:4000].lower()
    if "<!doctype html" in head or "<html" in head:
        return True
    has_tags = re.search(r"<(?:pre|code|p|div|td)\b[^>]{0,200}>", head) is not None
    return has_tags and any(tag in text for tag in ("</pre>", "</p>", "</td>"))


_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]{0,20})([^<>]{0,2000})>|<!--|&(#?\w{1,32});")
_LINE_TAG = re.compile(r"p|br|div|li|tr|h[1-5]|table|ul|ol|section|article|dt|dd")
_UNSEEN = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style", "svg")}
"""End tags of elements whose content is not displayed."""


def _html(source: Excerpt) -> list[PageBlock]:
    import html

    blocks: list[PageBlock] = []
    characters: Characters = []
    text = source.text
    place, language, is_pre = 0, "", False

    def flush(kind: str) -> None:
        if characters:
            text = excerpt_of_characters(characters, characters[-1][1] + 1)
            blocks.append(PageBlock(text, kind))
            characters.clear()

    while True:
        match = _TAG.search(text, place)
        stop = match.start() if match else len(text)
        characters += zip(text[place:stop], source.at[place:stop], strict=True)
        if not match:
            break
        place = match.end()
        name = (match[2] or "").lower()
        if match[0] == "<!--":
            stop = text.find("-->", place)
            place = len(text) if stop < 0 else stop + 3
        elif match[4]:
            characters += [(character, source.at[stop]) for character in html.unescape(match[0])]
        elif name in _UNSEEN and not match[1]:
            end = _UNSEEN[name].search(text, place)
            place = end.start() if end else len(text)
        elif name == "pre":
            flush(_kind(language) if match[1] else "prose")
            is_pre, language = not match[1], ""
        elif _LINE_TAG.fullmatch(name) and not (is_pre and name != "br"):
            characters.append(("\n", source.at[match.start()]))
        elif name in {"td", "th"}:
            characters.append(("|", source.at[match.start()]))
        elif name == "code" and not is_pre:
            characters.append(("`", source.at[match.start()]))
        if is_pre and not language:
            mark = re.search(r"(?:language|lang|highlight|brush)[-:= \"']{1,3}([\w-]{1,20})", match[3] or "")
            language = mark[1] if mark else ""
    flush(_kind(language) if is_pre else "prose")
    return blocks
