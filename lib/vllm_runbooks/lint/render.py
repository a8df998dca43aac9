"""Lint results as text, JSON, SARIF, annotations and HTML."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.languages import LANGUAGES, Wording, joined, told_in
from vllm_runbooks.catalog.records import Rule
from vllm_runbooks.core.display import RenderedView, one_line, unified_diff, visible
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.core.views import text_width as columns
from vllm_runbooks.core.views.elements import GREEN, GREY, RED, badge, prose, tinted
from vllm_runbooks.core.views.styled import (
    BLANK,
    GROUNDS,
    Layout,
    Line,
    SentenceLines,
    Styled,
    TextBlock,
    Tone,
    plain,
    styled,
)
from vllm_runbooks.lint.records import CommandRelease, Issue, Linted, Migrated, SourceLine

_SARIF_LEVELS = {IssueSeverity.ERROR: "error", IssueSeverity.WARNING: "warning", IssueSeverity.INFO: "note"}
_GITHUB_LEVELS = {IssueSeverity.ERROR: "error", IssueSeverity.WARNING: "warning", IssueSeverity.INFO: "notice"}
_TONES = {IssueSeverity.ERROR: Tone.BAD, IssueSeverity.WARNING: Tone.WARN, IssueSeverity.INFO: Tone.HINT}
_COUNTED = {
    IssueSeverity.ERROR: ("{count} error", "{count} errors"),
    IssueSeverity.WARNING: ("{count} warning", "{count} warnings"),
    IssueSeverity.INFO: ("{count} info", "{count} infos"),
}
_HIDDEN = (
    "{count} style remark hidden; --profile strict shows it",
    "{count} style remarks hidden; --profile strict shows them",
)
_KNOWN = ("{count} baseline issue hidden.", "{count} baseline issues hidden.")
_BEYOND = "vLLM {version} is unknown; checked using the data of {data}, the newest known."
_BEFORE = "vLLM {version} is unknown; checked using the data of {data}, the oldest known."
_SIGNS = {"-": Tone.BAD, "+": Tone.GOOD, "@": Tone.FAINT}
_DIFFERENCE = {"-": RED, "+": GREEN, "@": GREY}
_SOURCES = {
    "given": "",
    "image": "image tag",
    "pin": "pinned in the file",
    "unknown": "newest known; the release of the image is unknown, set it with --vllm",
    "log": "from the log",
    "newest": "newest known; set yours with --vllm",
    "page": "newest known; set yours in Release",
    "toolchain": "with which the toolchain evaluates",
}
_SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def headline(result: Linted | Migrated) -> str:
    """Number of issues by severity, launches, and the release."""
    return str(_summary([result]))


def _summary(results: Sequence[Linted | Migrated], *, is_fixable: bool = False) -> Styled:
    say = Wording(results[0].lang)
    issues = [issue for result in results for issue in result.issues]
    launches = sum(len(result.deployments) for result in results)
    releases = _listed(list(dict.fromkeys(name for result in results for name in _releases(result))), say)
    if not launches and not issues:
        mention = next((result.mention for result in results if isinstance(result, Linted) and result.mention), None)
        if mention is None or len(results) > 1:
            return styled(say("No vLLM launch found; nothing was checked."), Tone.WARN)
        text = "No vLLM launch found; nothing was checked, although line {line} has {word}."
        return styled(say(text, line=mention.line, word=mention.text), Tone.WARN)
    count = say("{count} launch" if launches == 1 else "{count} launches", count=launches)
    if len(results) > 1:
        count = say("{launches} in {count} files", launches=count, count=len(results))
    where = say(" in {launches}", launches=count) if launches else ""
    scope = styled(where + say(", checked against {release}.", release=releases), Tone.FAINT)
    if not issues:
        return styled(say("No problems found"), Tone.GOOD) + scope
    total = issue_total(issues, results[0].lang, is_fixable=is_fixable)
    left_out = sum(result.left_out for result in results if isinstance(result, Linted))
    more = say("; {count} more not shown", count=f"{left_out:,}") if left_out else ""
    return total + more + scope


def issue_total(issues: Sequence[Issue], lang: str | None = None, *, is_fixable: bool = True) -> Styled:
    """Number of issues, in the tone of the most severe, and of those that `--fix` fixes."""
    say, fixable = Wording(lang), sum(issue.fix is not None for issue in issues) if is_fixable else 0
    fixes = say(" ({count} fixable with --fix)", count=fixable) if fixable else ""
    tone = _TONES[min((issue.severity for issue in issues), key=list(IssueSeverity).index)]
    return styled(say("Found {count}", count=counted(issues, lang)), tone) + fixes


def release(result: Linted | Migrated) -> str:
    """The releases that were checked, and how each was determined."""
    return _listed(_releases(result), Wording(result.lang))


def _releases(result: Linted | Migrated) -> list[str]:
    say = Wording(result.lang)
    return [_release(vllm, say) for vllm in _checked(result)]


def _checked(result: Linted | Migrated) -> tuple[CommandRelease, ...]:
    return (result.vllm, *(result.other_releases if isinstance(result, Linted) else ()))


def _release(vllm: CommandRelease, say: Wording) -> str:
    nearest = "" if vllm.data == vllm.version else say("using the data of {version}", version=vllm.data)
    source = (
        say("settings: {file}", file=vllm.file) if vllm.file else _SOURCES[vllm.source] and say(_SOURCES[vllm.source])
    )
    if source and nearest:
        nearest = say("; ") + nearest
    if not source + nearest:
        return f"vLLM {vllm.version}"
    return say("vLLM {version} ({source})", version=vllm.version, source=source + nearest)


def text(result: Linted | Migrated, name: str) -> str:
    """`view` as text without colors."""
    return plain(view({name: result}))


def view(
    results: Mapping[str, Linted | Migrated],
    *,
    hidden: int = 0,
    known: int = 0,
    plan: str = "",
    fix: str = "",
    by_rule: str = "",
) -> list[TextBlock]:
    """Issues of files for a terminal, then their number.

    Args:
        results: The results by file name.
        hidden: Number of style issues that the profile leaves out.
        known: Number of issues that the baseline leaves out.
        plan: The command that checks the memory; empty if no GPUs were given.
        fix: The command that fixes the fixable issues; empty if there is none.
        by_rule: "also": the number of issues by rule; "only": without the issues.
    """
    blocks = unknown_releases([*results.values()])
    if by_rule != "only":
        blocks += [block for name, result in results.items() for block in paragraphs(result, name)]
    blocks += _by_rule([*results.values()]) if by_rule else []
    say = Wording(next(iter(results.values())).lang)
    blocks.append(SentenceLines(_summary([*results.values()], is_fixable=True), "  "))
    if known:
        blocks.append(Line(say(_KNOWN[known != 1], count=known)))
    if hidden:
        blocks.append(Line(say(_HIDDEN[hidden != 1], count=hidden) + say(".")))
    if plan and any(result.deployments for result in results.values()):
        blocks.append(Line(say("Memory was not checked; run this with the launch's options: {command}", command=plan)))
    if fix:
        blocks.append(Line(say("To fix: {command}", command=fix)))
    return blocks


def _by_rule(results: Sequence[Linted | Migrated]) -> list[TextBlock]:
    """A line for each rule with its number of issues, the most frequent first."""
    issues = [issue for result in results for issue in result.issues]
    counts = Counter(issue.rule for issue in issues)
    fixable = Counter(issue.rule for issue in issues if issue.fix is not None)
    severities = {issue.rule: issue.severity for issue in reversed(issues)}
    say, lines = Wording(results[0].lang), list[TextBlock]()
    width = len(str(max(counts.values(), default=0)))
    for rule, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        fixes = say(" ({count} fixable with --fix)", count=fixable[rule]) if fixable[rule] else ""
        name = styled(f"{severities[rule].value}[{rule}]", _TONES[severities[rule]])
        lines.append(Line(styled(f"{count:>{width}}  ", Tone.HEADING) + name + styled(fixes, Tone.FAINT)))
    return [*lines, BLANK] if lines else []


def unknown_releases(results: Sequence[Linted | Migrated]) -> list[TextBlock]:
    """A line for each release outside the catalog's range, with the release whose data was used."""
    lines: dict[str, TextBlock] = {}
    for lang, vllm in ((result.lang, vllm) for result in results for vllm in _checked(result)):
        nearest = options.nearest(vllm.version)
        if nearest.is_beyond or nearest.is_before:
            text = _BEYOND if nearest.is_beyond else _BEFORE
            sentence = Wording(lang)(text, version=vllm.version, data=vllm.data)
            lines[vllm.version] = SentenceLines(styled(sentence, Tone.WARN), "  ")
    return [*lines.values(), BLANK] if lines else []


def paragraphs(result: Linted | Migrated, name: str) -> list[TextBlock]:
    """Each issue with its location, its source line and the replacement."""
    blocks: list[TextBlock] = []
    say = Wording(result.lang)
    for issue, others in merged(result.issues):
        tone, gutter = _TONES[issue.severity], " " * len(str(issue.line))
        head = styled(f"{issue.severity.value}[{issue.rule}]", tone)
        first, *notes = sentences(issue)
        blocks.append(SentenceLines(head + styled(f": {one_line(first)}", Tone.HEADING), "  "))
        also = say(" (also at {places})", places=say(", ").join(map(location, others))) if others else ""
        blocks.append(Line(styled(f"{gutter}--> {one_line(name)}:{location(issue)}{also}", Tone.FAINT)))
        label = _instead(issue, say)
        if issue.source is not None:
            blocks.append(_Snippet(issue.source, issue.line, tone, label, say("help: ")))
            if label:  # "Did you mean X?" next to "use X"
                notes = [note for note in notes if note not in issue.restated]
        lead = styled(f"{gutter} = ", Tone.FAINT)
        if notes:
            kind = say("note: ") if label else say("help: ")
            blocks.append(SentenceLines(columns.cut(one_line(joined(notes)), _MOST_NOTES), f"{gutter}   ", lead + kind))
        if issue.fix is not None:
            blocks.append(Line(lead + styled(say("fixable with --fix"), Tone.GOOD)))
        blocks.append(BLANK)
    return blocks


def merged(issues: Sequence[Issue]) -> list[tuple[Issue, list[Issue]]]:
    """Issues, each with the later ones that are identical in another place, as in a second launch."""
    groups: dict[tuple[object, ...], list[Issue]] = {}
    for issue in issues:
        new_text = issue.fix.new_text if issue.fix is not None else None
        groups.setdefault((issue.file, issue.rule, issue.severity, issue.message, issue.text, new_text), []).append(
            issue
        )
    return [(first, others) for first, *others in groups.values()]


def location(issue: Issue) -> str:
    """Line and column of an issue."""
    return f"{issue.line}:{issue.column}"


def sentences(issue: Issue) -> list[str]:
    """Sentences of the message; the first includes the text before it."""
    rest = joined(issue.notes)
    return [issue.message.removesuffix(rest).rstrip(), *issue.notes]


def _instead(issue: Issue, say: Wording) -> str:
    """Replacement for the text of an issue, if it is a few words."""
    fix = issue.fix
    if fix is None or len(fix.new_text) > _LONGEST_LABEL:
        return ""
    start, end, place = (fix.line, fix.column), (fix.end_line, fix.end_column), (issue.line, issue.column)
    words = fix.new_text.strip()
    if not words:
        return say("remove this") if start <= place < end else ""
    is_same = fix.line == issue.line == fix.end_line and fix.column - issue.column in (0, 1)  # within quotes
    is_replaced = is_same and start < end and "\n" not in words
    return say("use {words}", words=words) if is_replaced else ""


_LONGEST_LABEL = 60
_MOST_NOTES = 240
"""Columns of an issue's notes: some list all names that an option accepts."""


@dataclass(frozen=True, slots=True)
class _Snippet:
    """A line of a file with signs below an issue's subject; a long line is cut around it."""

    source: SourceLine
    number: int
    tone: Tone
    label: str
    """Replacement; after `lead`, on a separate line if there is no room."""
    lead: str

    def lines(self, layout: Layout) -> list[Styled]:
        gutter = " " * len(str(self.number))
        source = self.source
        before = visible(source.text[: source.start])
        about = visible(source.text[source.start : source.end])
        behind = visible(source.text[source.end :].rstrip())
        room = max((layout.cut or layout.table or _PIPED) - len(gutter) - 4, 20)
        if columns.width(before + about + behind) > room:
            before, about, behind = _around(before, about, behind, room)
        signs = " " * columns.width(before) + "^" * max(columns.width(about), 1)
        empty = styled(f"{gutter} |", Tone.FAINT)
        label = visible(self.label)
        is_beside = not label or columns.width(f"{signs} {label}") <= room
        marks = empty + " " + styled(f"{signs} {label}".rstrip() if is_beside else signs, self.tone)
        below = [] if is_beside else [styled(f"{gutter} = ", Tone.FAINT) + self.lead + label]
        return [empty, styled(f"{self.number} | ", Tone.FAINT) + before + about + behind, marks, *below]


_PIPED = 120
"""Columns of a line without a terminal."""


def _around(before: str, about: str, behind: str, room: int) -> tuple[str, str, str]:
    """Cut a line: keep the beginning of the subject, and some of the text before it."""
    about = columns.cut(about, room - min(columns.width(before), room // 3))
    left_room = room - columns.width(about) - min(columns.width(behind), room // 6)
    if columns.width(before) > left_room:
        while before and columns.width(before) > left_room - 1:
            before = before[1:]
        before = f"…{before}"
    return before, about, columns.cut(behind, room - columns.width(before + about)) if behind else ""


def counted(issues: Sequence[Issue], lang: str | None = None) -> str:
    counts, say = Counter(issue.severity for issue in issues), Wording(lang)
    return _listed([say(_COUNTED[s][counts[s] != 1], count=counts[s]) for s in IssueSeverity if counts[s]], say)


def _listed(items: Sequence[str], say: Wording) -> str:
    *others, last = items or [""]
    return say("{first} and {second}", first=say(", ").join(others), second=last) if others else last


def wrong(issues: Sequence[Issue]) -> list[Issue]:
    """Errors and warnings."""
    return [issue for issue in issues if issue.severity is not IssueSeverity.INFO]


def left_view(result: Linted, name: str) -> list[TextBlock]:
    """The errors and warnings that remain in a written text."""
    return paragraphs(replace(result, issues=tuple(wrong(result.issues))), name)


def fixed_line(
    before: Sequence[Issue], after: Sequence[Issue], lang: str | None = None, *, is_written: bool = True
) -> Line:
    """Number of fixed errors and warnings of a corrected text, and of the remaining ones."""
    line, say = fixed_text(before, after, lang), Wording(lang)
    return Line(line if is_written else joined([line, say("To write the result, add -o FILE.")]))


def fixed_text(before: Sequence[Issue], after: Sequence[Issue], lang: str | None = None) -> str:
    """`fixed_line` as text."""
    fixed, rest = (Counter(issue.rule for issue in wrong(issues)) for issues in (before, after))
    count, say = (fixed - rest).total(), Wording(lang)
    others = count - sum(issue.fix is not None for issue in before)
    through = say(" ({count} through another fix)", count=others) if others > 0 else ""
    text = "Fixed {count} issue{through}, {rest} remaining."
    if count != 1:
        text = "Fixed {count} issues{through}, {rest} remaining."
    return say(text, count=count, through=through, rest=counted(wrong(after), lang) or 0)


def corrected(body: str, before: Sequence[Issue], rest: Linted) -> RenderedView:
    """A corrected text below the number of its fixes and of the errors and warnings that remain."""
    head, text = fixed_text(before, rest.issues, rest.lang), script(body)
    html = f"<p{_tongue(rest)}>{escape(head)}</p>{text.html}"
    return RenderedView(f"{head}\n{text.plain}", html)


def is_corrected(linted: Linted) -> bool:
    """Whether the corrected text differs from the given one."""
    return any(issue.fix is not None for issue in linted.issues)


def correction_summary(linted: Linted) -> str:
    """One line about the corrected text: fixed, or how many problems remain."""
    rest = len(wrong([issue for issue in linted.issues if issue.fix is None]))
    summary = "Corrected text" if is_corrected(linted) else "Nothing can be fixed automatically"
    if not rest:
        return summary if is_corrected(linted) else "Nothing to fix"
    return f"{summary}; {rest} {'problem needs' if rest == 1 else 'problems need'} your decision"


def changes(migrated: Migrated) -> str:
    """`changes_view` as text without colors."""
    return plain(changes_view(migrated))


def changes_view(migrated: Migrated) -> list[TextBlock]:
    """Changed defaults and the diff, for a terminal."""
    say = Wording(migrated.lang)
    lines: list[TextBlock] = (
        [BLANK, Line(styled(say("Changed defaults:"), Tone.HEADING))] if migrated.changed_defaults else []
    )
    for change in migrated.changed_defaults:
        named = styled(change.option, Tone.HEADING)
        suffix = say(" (the script now sets the old value)") if change.explicit else ""
        note = f". {say.mark}{change.note}" if change.note else ""
        lines.append(
            SentenceLines(named + f"{say(': ')}{_default(change.from_)} -> {_default(change.to)}{suffix}{note}")
        )
    return [*lines, *([BLANK] if lines and migrated.diff else []), *_diff_view(migrated.diff)]


_CONTEXTS = (3, 2, 1)
"""Context lines of a diff: fewer if one of them has a secret."""


def diff_view(before: str, after: str, name: str, *, private: tuple[str, str]) -> tuple[list[TextBlock], bool]:
    """Unified diff of the fixes of a file, empty without fixes; and whether it can be applied to the file.

    Args:
        before: The text with its secrets replaced.
        after: The fixed text with its secrets replaced.
        name: The file's name.
        private: Both texts with their secrets.
    """
    for count in _CONTEXTS:
        diff = unified_diff(before, after, one_line(name), context=count)
        if diff == visible(unified_diff(*private, one_line(name), context=count)):
            return _diff_view(diff), True
    return _diff_view(unified_diff(before, after, one_line(name))), False


def _diff_view(diff: str) -> list[TextBlock]:
    return [Line(styled(line, _SIGNS.get(line[:1]))) for line in diff.removesuffix("\n").split("\n")] if diff else []


def _default(value: Any) -> str:
    return "not set" if value is None else json.dumps(value)


def github(linted: Linted, name: str) -> str:
    """Annotations for GitHub Actions."""

    def escaped(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def property_(text: str) -> str:
        return visible(escaped(text)).replace(":", "%3A").replace(",", "%2C")

    return "\n".join(
        f"::{_GITHUB_LEVELS[issue.severity]} file={property_(name)},line={issue.line},col={issue.column},"
        f"title={property_(issue.rule)}::{escaped(visible(issue.message))}"
        for issue in linted.issues
    )


def sarif(checked: Mapping[str, Linted], rules: Mapping[str, Rule], version: str) -> str:
    """SARIF 2.1.0 log of the results by file name."""
    used = sorted({issue.rule for linted in checked.values() for issue in linted.issues})
    lang = next((linted.lang for linted in checked.values()), None)
    if lang is not None:
        rules = {name: told_in(rules[name], lang) for name in used}
    driver = {
        "name": "vllm-runbooks",
        "version": version,
        "rules": [
            {
                "id": name,
                "shortDescription": {"text": rules[name].title},
                "fullDescription": {"text": rules[name].why.strip()},
                "defaultConfiguration": {"level": _SARIF_LEVELS[rules[name].severity]},
            }
            for name in used
        ],
    }
    results = [_result(issue, file, used) for file, linted in checked.items() for issue in linted.issues]
    tongue = {} if lang is None else {"language": LANGUAGES[lang].tag}
    run = {"tool": {"driver": driver}, **tongue, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _result(issue: Issue, path: str, used: Sequence[str]) -> dict[str, Any]:
    kept = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")  # of RFC 3986
    name = path.replace("\\", "/").encode()
    location = {"uri": "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in name)}
    result: dict[str, Any] = {
        "ruleId": issue.rule,
        "ruleIndex": used.index(issue.rule),
        "level": _SARIF_LEVELS[issue.severity],
        "message": {"text": issue.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": location,
                    "region": {"startLine": issue.line, "startColumn": issue.column},
                }
            }
        ],
    }
    if issue.fix is not None:
        region = {
            "startLine": issue.fix.line,
            "startColumn": issue.fix.column,
            "endLine": issue.fix.end_line,
            "endColumn": issue.fix.end_column,
        }
        change = {"deletedRegion": region, "insertedContent": {"text": issue.fix.new_text}}
        result["fixes"] = [{"artifactChanges": [{"artifactLocation": location, "replacements": [change]}]}]
    return result


def table(result: Linted | Migrated) -> RenderedView:
    """Number of issues, and the issues as a table."""
    summary = f"<p{_tongue(result)}>{escape(headline(result))}</p>"
    return RenderedView(text(result, "line"), summary + rows_of(result.issues, result.lang))


def _tongue(result: Linted | Migrated) -> str:
    return language(result.lang)


def language(lang: str | None) -> str:
    """Attribute of an element whose text is translated; empty for English."""
    return "" if lang is None else f' lang="{LANGUAGES[lang].tag}"'


def rows_of(issues: Sequence[Issue], lang: str | None = None, pages: str = "") -> str:
    """Issues as an HTML table, the gravest first; empty without issues.

    Args:
        issues: The issues.
        lang: Language of the messages.
        pages: Folder of the rules' pages, to which their names are links; empty if there is none.
    """
    say, tongue = Wording(lang), language(lang)

    def said(issue: Issue) -> str:
        first, *notes = map(escape, sentences(issue))
        subject = issue.text.split("\n", 1)[0][:200]
        quote = "" if subject in issue.message else f'<br><code style="white-space:pre-wrap">{escape(subject)}</code>'
        return f"<span{tongue}>{joined([f'<b>{first}</b>', *notes])}</span>{quote}"

    def named(issue: Issue) -> str:
        name = escape(issue.rule)
        if pages:
            return f'<a href="{escape(pages)}{name}.html" style="font-size:13px">{name}</a>'
        return f'<span style="opacity:.75;font-size:13px">{name}</span>'

    ordered = sorted(issues, key=lambda issue: list(IssueSeverity).index(issue.severity))
    rows = "".join(
        "<tr>"
        f'<td style="text-align:right">{"<br>".join(map(location, (issue, *others)))}</td>'
        f"<td>{badge(issue.severity.value, GROUNDS[_TONES[issue.severity]])}</td>"
        f'<td style="text-align:left">{said(issue)}<br>{named(issue)}</td>'
        f'<td style="text-align:left">{say("yes") if issue.fix else ""}</td></tr>'
        for issue, others in merged(ordered)
    )
    names = (say("issue"), say("fixable"))
    head = f"<th>{say('place')}</th><th></th>" + "".join(f'<th style="text-align:left">{name}</th>' for name in names)
    return f"<table><tr>{head}</tr>{rows}</table>" if rows else ""


_MAX_PLACED = 400


def in_place(text: str, result: Linted | Migrated) -> RenderedView:
    """A text for a notebook, with each issue below its line."""
    by_line: dict[int, list[Issue]] = {}
    for issue in result.issues:
        by_line.setdefault(issue.line, []).append(issue)
    lines = text.split("\n")
    plain, html = list[str](), list[str]()
    for number, line in enumerate(lines[:_MAX_PLACED], 1):
        plain.append(f"{number:>5}  {line}")
        wide = "white-space:pre-wrap;overflow-wrap:anywhere;background:transparent;color:inherit;font-size:13px"
        count = f'<span style="opacity:.75;margin-right:10px;font-size:13px">{number}</span>'
        html.append(
            f'<div style="padding:0 0 0 8px;line-height:1.5">{count}<code style="{wide}">{escape(line)}</code></div>'
        )
        for issue in by_line.get(number, ()):
            plain.append(f"       ^ column {issue.column}: {issue.severity.value}: {issue.message} [{issue.rule}]")
            html.append(_below(issue))
    if len(lines) > _MAX_PLACED:
        left_out = f"{len(lines) - _MAX_PLACED:,} more lines"
        plain.append(f"       ⋯ {left_out}")
        html.append(f'<div style="opacity:.8">⋯ {left_out}</div>')
    return RenderedView("\n".join(plain), "".join(html))


def _below(issue: Issue) -> str:
    tone = GROUNDS[_TONES[issue.severity]]
    style = f"{tinted(tone, '3px 0 3px 8px')};margin:2px 0 6px 0;font-size:13px"
    note = " · fixed in the corrected text" if issue.fix else ""
    message = f"{badge(issue.severity.value, tone)} <b>column {issue.column}</b> {prose(issue.message)}"
    rest = f'<span style="opacity:.8">{escape(issue.rule)}{note}</span>'
    return f'<div style="{style};line-height:1.5">{message}<br>{rest}</div>'


def starts(linted: Linted) -> RenderedView:
    """Launches for a notebook."""
    rows = [[launch.model or "unknown", _options(launch.flags), _options(launch.env)] for launch in linted.deployments]
    plain = "\n".join(f"{model}: {flags or 'no options'}{f'; {env}' if env else ''}" for model, flags, env in rows)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    head = "".join(f"<th style='text-align:left'>{name}</th>" for name in ("model", "options", "environment"))
    release_line = release(linted)
    if not rows:
        return RenderedView.nothing(f"No vLLM launch found ({release_line}).")
    html = f"<table><tr>{head}</tr>{body}</table><p>{escape(release_line)}</p>"
    return RenderedView(f"{plain}\n{release_line}", html)


def _options(values: Mapping[str, Any]) -> str:
    def shown(value: Any) -> str:
        return value if isinstance(value, str) else "unknown" if value is None else json.dumps(value)

    return ", ".join(f"{name}={shown(value)}" for name, value in values.items())


def _cell(text: str) -> str:
    return f'<td style="text-align:left;white-space:normal">{escape(text)}</td>'


def difference(before: str, linted: Linted) -> RenderedView:
    """Diff of the fixes for a notebook."""
    after = (linted.fixed or before).splitlines()
    lines = difflib.unified_diff(before.splitlines(), after, "given", "corrected", lineterm="")
    return _compared("\n".join(lines) or None)


def migration(moved: Migrated) -> RenderedView:
    """Migration for a notebook: issues, changed defaults and the diff."""
    rest = [issue for issue in moved.issues if issue.fix is None]
    fixed = len(moved.issues) - len(rest)
    summary = f"{headline(moved)} The rewritten text fixes {fixed} of them{'; remaining:' if rest else '.'}"
    rows = "".join(
        f"<tr>{_cell(change.option)}{_cell(_default(change.from_))}{_cell(_default(change.to))}"
        f"{_cell('set in the rewritten text' if change.explicit else 'named only')}{_cell(change.note)}</tr>"
        for change in moved.changed_defaults
    )
    head = "".join(
        f"<th style='text-align:left'>{name}</th>" for name in ("option", "old default", "new default", "", "")
    )
    defaults = f"<table><tr>{head}</tr>{rows}</table>" if rows else "<p>No default of these launches changed.</p>"
    issues = [f"line:{issue.line}:{issue.column}: {issue.message}" for issue in rest]
    html = f"<p>{escape(summary)}</p>{rows_of(rest, moved.lang)}{defaults}"
    return RenderedView("\n".join([summary, *issues, changes(moved)]), html + _compared(moved.diff or None).html)


def _compared(body: str | None) -> RenderedView:
    if body is None:
        return script(None)
    html_lines = []
    for line in body.split("\n"):
        tone = _DIFFERENCE.get(line[:1])
        # The ground is tinted, not the letters: on a light page and on a dark one they stay as legible as the rest.
        html_lines.append(f'<span style="background:{tone}2e">{escape(line)}</span>' if tone else escape(line))
    return RenderedView(body, '<pre style="white-space:pre-wrap">' + "\n".join(html_lines) + "</pre>")


def script(body: str | None) -> RenderedView:
    if body is None:
        return RenderedView.nothing("Nothing to fix.")
    return RenderedView(body, f'<pre style="white-space:pre-wrap">{escape(body)}</pre>')
