"""Summary of an answer as HTML, for notebooks, reports and pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from html import escape

from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.views import drawing
from vllm_runbooks.core.views.elements import (
    AMBER,
    GREEN,
    GREY,
    RED,
    badge,
    cells,
    coloured,
    cut,
    html_table,
    prose,
    quoted,
    tag,
)
from vllm_runbooks.core.views.memory_parts import part_name, segment, swatch
from vllm_runbooks.core.views.styled import GROUNDS, plain
from vllm_runbooks.core.views.summary import NamedMemory, Statement, Step, SuggestedFix, Summary, summary_view

_CHECK_WORDS = {"✓": ("passed", GREEN), "✗": ("rejected", RED), "\u2013": ("not checked", GREY)}
_FAINT = "opacity:.75;font-size:13px"
_LABEL = "padding:2px 14px 2px 0;vertical-align:top;text-align:left;font-weight:600;white-space:nowrap"
_TEXT = "padding:2px 0;vertical-align:top;text-align:left;overflow-wrap:anywhere"
_CHANGED = "background:#2da44e33;font-weight:600"
_MOST_QUOTED = 240
_MOST_BEFORE = 80
_FLAG = re.compile(r"(?<!\S)--?[a-zA-Z][\w.-]*")


def rendered(summary: Summary, say: Callable[[str], str] = str) -> RenderedView:
    """The summary for a terminal and for a page; `say` translates the fixed words."""
    return RenderedView(plain(summary_view(summary)), summary_html(summary, say))


def summary_html(summary: Summary, say: Callable[[str], str] = str) -> str:
    """The summary as an HTML card, without scripts; text of a log is escaped."""
    tone = GROUNDS.get(summary.tone, GREY)
    first, *rest = [escape(part) for part in summary.about] or [""]
    about = " · ".join([tag("b", first), *rest]) if first else ""
    parts = [tag("div", f"{badge(summary.state, tone)} {about}", "overflow-wrap:anywhere")]
    if summary.sentence:
        parts.append(tag("div", prose(summary.sentence), "margin-top:6px"))
    parts += [_statement(statement, say) for statement in summary.statements]
    if summary.table is not None:
        table = summary.table
        end = -1 if table.is_last_below else None
        below = [row[-1] for row in table.rows] if table.is_last_below else []
        rows_html = cells([row[:end] for row in table.rows])
        shown = html_table(table.head[:end], rows_html, numeric=table.numeric, below=below, is_indented=True)
        parts.append(tag("div", shown, "margin-top:8px"))
        parts += [tag("div", escape(table.note), _FAINT)] if table.note else []
    rows = [_step(step) for step in summary.steps if step.is_first]
    if summary.fix is not None:
        rows.append(_row(summary.fix_name, _fix(summary.fix, summary.memory, say)))
    rows += [_step(step) for step in summary.steps if not step.is_first]
    if rows:
        parts.append(tag("div", _table(rows), "margin-top:10px"))
    style = (
        f"border:1px solid #8886;border-left:4px solid {tone};border-radius:6px;padding:12px 16px;margin:4px 0;"
        "max-width:60em;font-size:15px;line-height:1.5"
    )
    return tag("div", "".join(parts), style)


def command_html(text: str, given: str = "") -> str:
    """A command to copy, with no line break in a flag: a click selects it, and pages with a script offer a button.

    Args:
        text: The command.
        given: The text before its change: words that differ from it are marked.
    """
    flag = tag("span", r"\g<0>", "white-space:nowrap")
    pieces = changed_words(given, text) if given else [(text, False)]
    html = [(_FLAG.sub(flag, escape(piece)), is_changed) for piece, is_changed in pieces]
    style = (
        "white-space:pre-wrap;overflow-wrap:anywhere;text-align:left;border:1px solid #8886;border-radius:4px;"
        "padding:6px 10px;margin:2px 0;font-size:13px;line-height:1.5;background:transparent"
    )
    marked = "".join(tag("span", piece, _CHANGED) if is_changed else piece for piece, is_changed in html)
    code = tag("code", marked, "background:transparent;user-select:all")
    return f'<pre data-copy="command" style="{style}">{code}</pre>'


def changed_words(before: str, after: str) -> list[tuple[str, bool]]:
    """The pieces of a text, and whether each differs from the text before; blanks alone do not differ."""
    old, new = (re.split(r"(\s+)", text) for text in (before, after))
    changes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    pieces = [("".join(new[first:last]), kind) for kind, _, _, first, last in changes]
    return [(text, kind != "equal" and bool(text.strip())) for text, kind in pieces]


def folded(name: str, html: str) -> str:
    """HTML folded under its name."""
    return f'<details style="margin-top:4px"><summary>{escape(name)}</summary>{html}</details>'


def memory_bars(memory: tuple[NamedMemory, ...], say: Callable[[str], str] = str) -> str:
    """Memory of one GPU as a bar for each name, on a common scale.

    The part beyond the limit of the launch is red, and its line is the limit.
    """
    if not memory:
        return ""
    longest = max(max(named.use.total_gib, named.use.used_gib) for named in memory)
    has_beyond = any(named.use.used_gib > named.use.limit_gib for named in memory)
    rows = [
        tag("div", f"{tag('b', escape(named.name))} {escape(named.text)}", "font-size:13px;margin-top:4px")
        + _bar(named, (drawing.WIDTH - 2) / longest)
        for named in memory
    ]
    parts = ["used", "kv_cache", *(["beyond"] if has_beyond else []), "unused"]
    names = (tag("span", f"{swatch(part)} {escape(say(part_name(part)))}", "white-space:nowrap") for part in parts)
    return "".join([*rows, tag("div", " ".join(names), "font-size:13px")])


def _bar(named: NamedMemory, scale: float) -> str:
    use = named.use
    limit, end = use.limit_gib * scale, use.total_gib * scale
    used, beyond = min(use.used_gib * scale, limit), max(0.0, use.used_gib * scale - limit)
    cache = min(max(0.0, use.kv_cache_gib or 0.0), use.total_gib - min(use.used_gib, use.total_gib)) * scale
    shapes = [
        drawing.rect(0, 2, end, drawing.BAR, drawing.HAIR, title=f"GPU: {use.total_gib:.2f} GiB"),
        segment("used", 0, 2, used, drawing.BAR, title=f"needed without the KV cache: {use.used_gib:.2f} GiB"),
        segment("kv_cache", used, 2, cache, drawing.BAR, title=f"KV cache: {use.kv_cache_gib or 0:.2f} GiB"),
    ]
    if beyond:
        title = f"beyond the limit of {use.limit_gib:.2f} GiB"
        shapes += [
            segment("beyond", limit, 2, beyond, drawing.BAR, title=title),
            drawing.rule(limit, 0, limit, drawing.BAR + 4, colour="currentColor", thick=2),
        ]
    return drawing.picture(shapes, drawing.BAR + 4, f"{named.name}: {named.text}", is_stretched=True)


def _statement(statement: Statement, say: Callable[[str], str]) -> str:
    tone = GROUNDS.get(statement.tone, AMBER)
    sign = coloured(statement.sign, tone, "font-weight:600")
    # A link in faint text would have too little contrast.
    label = "  ".join(filter(None, (statement.certainty, "" if statement.page else statement.id)))
    parts = [f"{sign} <b>{prose(statement.text)}</b> {tag('span', escape(label), _FAINT) if label else ''}"]
    if statement.page:
        parts.append(f' <a href="{escape(statement.page)}" style="font-size:13px">{escape(statement.id)}</a>')
    if statement.quote:
        before, about, behind = _pieces(statement)
        parts.append(quoted(statement.place, before, tone, about=about, behind=behind))
    elif statement.place:
        parts.append(tag("div", escape(statement.place), _FAINT))
    parts.append(labelled((say(name), text) for name, text in (("So", statement.effect), ("Fix", statement.action))))
    return tag("div", "".join(parts), "margin-top:10px")


def _pieces(statement: Statement) -> tuple[str, str, str]:
    """The quote before, in and after its underlined range; a long quote is cut around it."""
    if statement.span is None:
        return cut(statement.quote, _MOST_QUOTED), "", ""
    start, end = statement.span
    quote = statement.quote
    before, about, behind = (re.sub(r"\s+", " ", part) for part in (quote[:start], quote[start:end], quote[end:]))
    if len(before) > _MOST_BEFORE:
        before = f"…{before[-_MOST_BEFORE:]}"
    about = about[:_MOST_QUOTED]
    room = _MOST_QUOTED - len(about)
    return before, about, behind if len(behind) <= room else f"{behind[:room]}…"


def _fix(fix: SuggestedFix, memory: tuple[NamedMemory, ...], say: Callable[[str], str]) -> str:
    parts = []
    if fix.change:
        parts.append(command_html(fix.change, fix.given) if fix.is_command else prose(fix.change))
    if fix.cost:
        parts.append(tag("div", prose(fix.cost)))
    # If nothing was checked, the note says what to add.
    if fix.checks and not (fix.note and all(sign == "\u2013" for _, sign in fix.checks)):
        parts.append(tag("div", " · ".join(_check(check, say) for check in fix.checks), "font-size:13px"))
    if fix.note:
        parts.append(tag("div", prose(fix.note), _FAINT))
    if memory:
        parts.append(tag("div", memory_bars(memory, say), "margin-top:6px"))
    if fix.command:
        command = command_html(fix.command.rstrip("\n"))
        parts.append(folded(say("The whole command"), command) if fix.change else command)
    return "".join(parts)


def _check(check: tuple[str, str], say: Callable[[str], str]) -> str:
    name, sign = check
    word, colour = _CHECK_WORDS[sign]
    return f"{escape(name)} {coloured(f'{sign} {say(word)}', colour)}"


def _step(step: Step) -> str:
    text = prose(step.text)
    if step.page:
        text = f'<a href="{escape(step.page)}">{text}</a>'
    elif step.command:
        text += (": " if step.text else "") + tag("code", escape(step.command), "user-select:all")
    if step.runbook:
        page = escape(step.runbook)
        text += f': <a href="{page}.ipynb">{page}</a>'
    return _row(step.name, text)


def labelled(texts: Iterable[tuple[str, str]]) -> str:
    """Sentences next to their labels, as HTML; without the empty ones."""
    rows = [_row(name, prose(text)) for name, text in texts if text]
    return _table(rows) if rows else ""


def _table(rows: Iterable[str]) -> str:
    style = "border-collapse:collapse;font-size:15px;line-height:1.5"
    return tag("table", tag("tbody", "".join(rows)), style)


def _row(name: str, html: str) -> str:
    return f'<tr><th style="{_LABEL}">{escape(name)}</th><td style="{_TEXT}">{html}</td></tr>'
