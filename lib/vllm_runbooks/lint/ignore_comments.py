"""Comments that ignore rules: `# vllm-runbooks: ignore[rule] reason`, or `ignore-file[rule]`.

The first is above a launch, the second at the top of the file. Only whole lines count: a comment
after a continuation would end the command.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.core.errors import suggestion
from vllm_runbooks.core.excerpt import LineIndex
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.reading.documents.starts import WrittenLaunch

MARK = "vllm-runbooks:"
MALFORMED, UNUSED = "file.ignore-malformed", "file.ignore-unused"
_SIGN = r"[ \t]{0,200}(?:#{1,9}|;|//|<!--)"
_COMMENT = re.compile(
    rf"{_SIGN}[ \t]{{0,9}}(vllm-runbooks:[ \t]{{0,9}}([\w-]{{1,40}})[ \t]?(?:\[([^\]\n]{{0,400}})\])?)"
)
_OTHER = re.compile(rf"{_SIGN}|[ \t]{{0,200}}(?:---)?[ \t]{{0,200}}\r?\Z")
"""Lines that may be above `ignore-file`."""
_MOST = 200
"""Comments of a file that are read."""
_IS_COMMENT = re.compile(_SIGN)
_IS_SKIPPED = re.compile(rf"{_SIGN}|[ \t]{{0,200}}(?:`{{3}}|~{{3}})")
"""Lines between an ignore comment and its subject: comments, and a Markdown fence."""


def is_matched(name: str, rule: str) -> bool:
    """Whether a name is the rule's id or its group."""
    return rule == name or rule.startswith(f"{name}.")


@dataclass(frozen=True)
class IgnoreComment:
    start: int
    end: int
    line: int
    """Line that the comment is about: the next one that is no comment and no fence; 0 for the whole file."""
    rules: tuple[str, ...]
    fault: str = ""
    """Why it has no effect."""


def comments(text: str, rules: Collection[str], say: Wording) -> Iterator[IgnoreComment]:
    """Find the comments of a text."""
    if MARK not in text:
        return
    lines = text.split("\n")
    about = [*range(1, len(lines) + 1), len(lines)]  # the line itself, else the next one that is not skipped
    for index in reversed(range(len(lines))):
        if _IS_SKIPPED.match(lines[index]):
            about[index] = about[index + 1]
    offset, is_top, before, count = 0, True, "", 0
    for number, line in enumerate(lines, 1):
        if MARK in line and (match := _COMMENT.match(line)):
            start, end = (offset + at for at in match.span(1))
            names = tuple(filter(None, (name.strip() for name in (match[3] or "").split(","))))
            is_inside = before.rstrip("\r").endswith("\\") and not _IS_COMMENT.match(before)
            fault = _fault(match[2], names, rules, say, is_top=is_top, is_inside=is_inside)
            count += 1
            if count > _MOST:
                yield IgnoreComment(start, end, 0, (), say("only {count} of them are read", count=_MOST))
                return
            yield IgnoreComment(start, end, 0 if match[2] == "ignore-file" else about[number], names, fault)
        is_top = is_top and _OTHER.match(line) is not None
        before = line
        offset += len(line) + 1


def _fault(
    verb: str, names: Sequence[str], rules: Collection[str], say: Wording, *, is_top: bool, is_inside: bool
) -> str:
    if verb not in ("ignore", "ignore-file"):
        return say("{verb} is unknown; write ignore[rule] or ignore-file[rule]", verb=verb)
    if not names:
        return say("it names no rule; write {verb}[rule]", verb=verb)
    for name in names:
        if not any(is_matched(name, rule) for rule in rules):
            return say("there is no rule {name}; {hint}", name=name[:60], hint=nearest_rule(name, rules))
    if verb == "ignore-file" and not is_top:
        return say("ignore-file must be at the top of the file")
    return say("it is inside a command; put it above the command") if is_inside else ""


def nearest_rule(name: str, rules: Collection[str]) -> str:
    """Hint for a name that is neither a rule nor a group."""
    groups = {rule.partition(".")[0] for rule in rules}
    return suggestion(name, [*rules, *groups], "each issue prints its rule, as in error[option.unknown]")


def without_ignored(
    hits: Sequence[Hit], text: str, launches: Sequence[WrittenLaunch], rules: Collection[str], say: Wording
) -> list[Hit]:
    """Drop the hits that comments name; add hits for comments without effect or match."""
    places = LineIndex(text)
    comments_of_text = list(comments(text, rules, say))
    if not comments_of_text:
        return list(hits)
    spans = [(*_span(launch), _lines(launch, places)) for launch in launches]
    used: set[IgnoreComment] = set()
    remaining: list[Hit] = []
    for hit in hits:
        lines = {0, places(hit.start).line}
        for start, end, launch_lines in spans:
            if start <= hit.start <= end:
                lines |= launch_lines
        matching = [
            comment
            for comment in comments_of_text
            if not comment.fault and comment.line in lines and any(is_matched(name, hit.rule) for name in comment.rules)
        ]
        used.update(matching)
        if not matching:
            remaining.append(hit)
    for comment in comments_of_text:
        if comment.fault:
            remaining.append(Hit(MALFORMED, comment.start, comment.end, {"what": comment.fault}))
        elif comment not in used:
            remaining.append(Hit(UNUSED, comment.start, comment.end, {"rules": ", ".join(comment.rules)}))
    return remaining


def _span(launch: WrittenLaunch) -> tuple[int, int]:
    """Offsets of a launch; in a manifest of all that its container has."""
    spans = [(launch.start, launch.end), *launch.keys.values()]
    return min(start for start, _ in spans), max(end for _, end in spans)


def _lines(launch: WrittenLaunch, places: LineIndex) -> set[int]:
    """Lines above which a comment is about the launch: its first, in a manifest each key's and the service's name."""
    lines = {places(start).line for start, _ in launch.keys.values()}
    names = {min(lines) - 1} if lines and launch.kind == "compose" else set()
    return {places(launch.start).line, *lines, *names}
