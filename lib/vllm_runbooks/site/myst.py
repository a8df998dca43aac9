"""Texts as MyST Markdown that stay text: nothing that an author writes becomes markup.

Only text between backticks is shown as code.
"""

from __future__ import annotations

import json
import re
from html import escape
from typing import TYPE_CHECKING

from vllm_runbooks.catalog.templates import PLACEHOLDER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

UNKNOWN = "unknown"
"""Shown for a fact without source."""
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_FIGURE = r"⟨\1⟩"
_TOKEN = re.compile(r"([\w⟨-](?:[\w⟨⟩./:=-]*[\w⟩])?)")
_URL = re.compile(r"https?://[\w.~:/?#@!$&'*+,;=%()-]+")


def printable(text: str) -> str:
    """The text without control characters and bidirectional marks."""
    return "".join(
        c if c.isprintable() or c == "\n" else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def code(text: str) -> str:
    """Text as inline code."""
    body = " ".join(printable(text).split())
    if not body:
        return ""
    fence = "`" * (max((len(run) for run in re.findall("`+", body)), default=0) + 1)
    pad = " " if body.startswith("`") or body.endswith("`") else ""
    return f"{fence}{pad}{body}{pad}{fence}"


def named(text: str) -> str:
    """The text with each `{name}`, a placeholder for the reader's value, in angle brackets."""
    return PLACEHOLDER.sub(_FIGURE, text)


def prose(text: str, *, linked: Collection[str] = ()) -> str:
    """Authored text as Markdown paragraphs: only code between backticks has markup.

    `{name}` is shown as by `named`. Ids among `linked` link to their page in the same folder.
    """
    return "\n\n".join(filter(None, (_paragraph(part, linked) for part in re.split(r"\n\s*\n", printable(text)))))


def plain(text: str) -> str:
    """Text as Markdown with every character escaped: names in it are not shown as code."""
    return _PUNCTUATION.sub(r"\\\1", " ".join(printable(text).split()))


def _paragraph(text: str, linked: Collection[str]) -> str:
    body = named(" ".join(text.split()))
    pieces: list[str] = []
    end = 0
    for match in _CODE.finditer(body):
        pieces += [_word(piece, linked) for piece in _TOKEN.split(body[end : match.start()])]
        pieces.append(_linked(match[2], linked) or code(match[2]))
        end = match.end()
    pieces += [_word(piece, linked) for piece in _TOKEN.split(body[end:])]
    paragraph = ""
    for piece in filter(None, pieces):
        # Two pieces of code that touch would become one, with backticks in it.
        paragraph += ("\N{ZERO WIDTH SPACE}" if paragraph.endswith("`") and piece.startswith("`") else "") + piece
    return paragraph


def _word(piece: str, linked: Collection[str]) -> str:
    """A word as Markdown; names of options, variables and files are shown as code even without backticks."""
    is_name = "⟨" in piece or "_" in piece.strip("_") or re.match(r"--\w|\w.*/.*\.\w", piece)
    return _linked(piece, linked) or (code(piece) if is_name else _PUNCTUATION.sub(r"\\\1", piece))


def _linked(text: str, linked: Collection[str]) -> str | None:
    return f"[{code(text)}]({text}.md)" if text in linked else None


def literal(text: str) -> str:
    """Text of a log or a script as a literal block."""
    body = printable(text.expandtabs(8)).strip("\n") or " "
    fence = "`" * max(3, max((len(run) for run in re.findall("`+", body)), default=0) + 1)
    return f"{fence}text\n{body}\n{fence}"


def marked(pieces: Iterable[tuple[str, str]], *, kind: str = "text") -> str:
    """A literal block with marked pieces: pairs of a text and its mark, a class of the style sheet or empty.

    `kind` is the style sheet's name for the block.
    """
    body = "".join(
        f'<mark class="{escape(mark)}">{escape(printable(text))}</mark>' if mark else escape(printable(text))
        for text, mark in pieces
    )
    # A browser drops the first newline, so this one is added.
    lead = f'<div class="highlight-{escape(kind)} notranslate"><div class="highlight"><pre>\n'
    return raw(f"{lead}{body}</pre></div></div>")


def raw(html: str) -> str:
    """Our own HTML; backticks in it could end the fence."""
    escaped = html.replace("`", "&#96;")
    return f"```{{raw}} html\n{escaped}\n```"


def folded(name: str, *parts: str) -> str:
    """Markdown folded under its name."""
    lead = raw(f"<details><summary>{escape(name)}</summary>")
    return "\n\n".join([lead, *filter(None, parts), raw("</details>")])


def filter_field(label: str, example: str, words: Mapping[str, str] | None = None) -> str:
    """A field that filters the tables and lists below it with a script.

    Args:
        label: Name of the field.
        example: Text in the empty field.
        words: Further words that find a row, by the fragment of its link.
    """
    data = f' data-words="{escape(json.dumps(words))}"' if words else ""
    return raw(
        f'<div class="filter"{data} hidden><label>{escape(label)} <input type="search" autocomplete="off" '
        f'spellcheck="false" placeholder="{escape(example)}"></label> <span role="status"></span></div>'
    )


def badge(word: str, kind: str = "") -> str:
    """A word as a badge, which the style sheet colors by its kind: the word itself, if none is given."""
    return f"[{word}]{{.mark .mark-{kind or word}}}"


def aside(markdown: str) -> str:
    """One line of Markdown, indented: a source, a date."""
    return f"[{markdown}]{{.source}}"


def listed(items: Iterable[str]) -> str:
    """A list of Markdown items of one paragraph each."""
    return "\n".join(f"- {item}" for item in items)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], widths: str, kind: str = "") -> str:
    """A table whose cells, in Markdown, may have several paragraphs; `kind` is its class."""
    lines = [":::{list-table}", ":header-rows: 1", f":widths: {widths}", *([f":class: {kind}"] if kind else []), ""]
    for row in (head, *rows):
        for number, cell in enumerate(row):
            first, *rest = (cell or "—").split("\n")
            lines.append(f"{'  ' if number else '* '}- {first}")
            lines += [f"    {line}" if line else "" for line in rest]
    return "\n".join([*lines, ":::"])


def facts(rows: Iterable[tuple[str, str | None]]) -> str:
    """A table of named facts as plain text; None is shown as unknown.

    It is HTML: Sphinx would parse each of thousands of cells as a document.
    """
    cells = (
        f'<tr><th scope="row">{escape(name)}</th>'
        + (f"<td>{escape(printable(value))}</td>" if value is not None else f'<td class="unknown">{UNKNOWN}</td>')
        for name, value in rows
    )
    return raw(f'<table class="table facts"><tbody>{"".join(f"{cell}</tr>" for cell in cells)}</tbody></table>')


def first_of_list(heading: str, items: Sequence[str]) -> str:
    """Common entries above a list, which are hidden while it is filtered; empty without items."""
    if not items:
        return ""
    rubric = f"```{{rubric}} {heading}\n:heading-level: 2\n```"
    return f":::::{{container}} unfiltered\n{rubric}\n\n::::{{container}} names\n{listed(items)}\n::::\n:::::"


def contents(names: Iterable[str], caption: str = "") -> str:
    """A table of contents for the sidebar, hidden in the page."""
    lines = [":::{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *names, ":::"]
    return "\n".join(lines)


def grouped(entries: Mapping[str, str], headings: Mapping[str, str], *, kind: str) -> list[str]:
    """Pages by the first word of their ids, with their entries (Markdown) and sidebar contents.

    Groups are in the order of their `headings`; one without heading is last, under its word. Each
    has the target `#<kind>-<word>`.
    """
    groups: dict[str, list[str]] = {group: [] for group in headings}
    for name in entries:
        groups.setdefault(name.partition(".")[0], []).append(name)
    parts = []
    for group, members in groups.items():
        if members:
            heading = headings.get(group, group)
            parts += [
                f"({kind}-{group})=\n## {prose(heading)}",
                listed(entries[name] for name in members),
                contents(members, heading),
            ]
    return parts


def sentence(text: str) -> str:
    """The text with a capital letter, unless it begins with a name."""
    first = text.split(maxsplit=1)[0] if text.strip() else ""
    return text[:1].upper() + text[1:] if re.fullmatch(r"[a-z]+[,;:]?", first) else text


def origin(where: str, vllm: str | None) -> str:
    """Source of a text, and its release."""
    release = f" · vLLM {prose(vllm)}" if vllm and vllm not in where else ""
    return aside(f"{prose(where)}{release}")


def reference(text: str) -> str:
    """An address as a link; other text as text."""
    return f"<{text}>" if _URL.fullmatch(text) else prose(text)


def last_verified(date: str, vllm: str | None) -> str:
    """When the page's facts were last verified, and with which release."""
    release = f" with vLLM {prose(vllm)}" if vllm else ""
    return aside(f"Last verified {prose(date)}{release}")


def front(title: str, description: str, *, is_orphan: bool = False) -> str:
    """The head of a page: its title and description for browsers and search engines.

    An orphan is in no table of contents and has none.
    """
    quoted = [json.dumps(" ".join(printable(text).split())) for text in (title, description)]
    orphan = "orphan: true\nhtml_theme.sidebar_secondary.remove: true\n" if is_orphan else ""
    return f"---\n{orphan}page_title: {quoted[0]}\npage_description: {quoted[1]}\n---\n"


def assembled(head: Iterable[str], sections: Iterable[tuple[str, Sequence[str]]], foot: Iterable[str] = ()) -> str:
    """A page: its top, its non-empty sections by heading, its foot."""
    body = [part for title, parts in sections if any(parts) for part in (f"## {title}", *filter(None, parts))]
    return "\n\n".join([*filter(None, head), *body, *filter(None, foot)]) + "\n"
