"""An answer as text, JSON and HTML: the cause, its evidence, what would confirm it, and the ways out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from vllm_runbooks.display import Shown, visible
from vllm_runbooks.records import (
    Answer,
    Checks,
    Conditions,
    Facts,
    Finding,
    Level,
    Outcome,
    Quote,
    RankFacts,
    Remedy,
    Severity,
)
from vllm_runbooks.render import start_pictures
from vllm_runbooks.render.drawing import COLOURS, bars
from vllm_runbooks.render.elements import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    RED,
    badge,
    cut,
    html_table,
    preformatted,
    prose,
    quoted,
    remark,
    tag,
)
from vllm_runbooks.render.figures import FACT_NAMES, figure, printed_gib
from vllm_runbooks.render.styled import (
    BLANK,
    Block,
    Line,
    Loose,
    Prose,
    Styled,
    Table,
    Tone,
    headed,
    parted,
    plain,
    styled,
)

_TONES = {
    Outcome.READY: GREEN, Outcome.RUNNING: GREEN, Outcome.FAILED: RED, Outcome.HUNG: AMBER,
    Outcome.UNKNOWN: GREY,
}  # fmt: skip
_OUTCOMES = {
    Outcome.READY: Tone.GOOD, Outcome.RUNNING: Tone.GOOD, Outcome.FAILED: Tone.BAD, Outcome.HUNG: Tone.BAD,
    Outcome.UNKNOWN: Tone.WARN,
}  # fmt: skip
_LEVELS = {Level.CONFIRMED: Tone.BAD, Level.PROBABLE: Tone.WARN, Level.POSSIBLE: Tone.HINT}
_SEVERITIES = {Severity.FATAL: Tone.BAD, Severity.DEGRADED: Tone.WARN, Severity.HINT: Tone.HINT}
_SEVERITY_TONES = {Severity.FATAL: RED, Severity.DEGRADED: AMBER, Severity.HINT: BLUE}
_MEANINGS = {
    "slots": "slots of one layer group, not tokens of full-length requests: not comparable across models or releases",
    "full-length": "tokens of full-length requests (concurrency x context)",
}


def text(answer: Answer) -> str:
    """The diagnosis without colours, for a pipe."""
    return plain(view(answer))


def view(answer: Answer) -> list[Block]:
    """The diagnosis for a terminal."""
    parts: list[list[Block]] = [[Line(_styled_headline(answer))]]
    if len(answer.starts) > 1:
        parts.append(_starts_view(answer))
    cause = answer.root_cause
    parts += _first_error_view(answer)
    if cause:
        parts.append(_finding_view(answer, cause))
        if answer.remedies:
            parts.append(_remedies_view(answer.remedies))
    elif not answer.outcome.is_healthy:
        parts.append([Prose("No cause was found in this text. " + _no_cause(answer), "")])
    if answer.notes:
        parts.append(_notes_view(answer.notes))
    others = [f for f in answer.findings if f != cause]
    if others:
        parts.append(headed("ALSO FOUND", [block for f in others for block in _brief_view(f, answer.files)]))
    facts = _fact_rows(answer.facts)
    if facts:
        width = max(len(name) for name, _ in facts)
        names = [styled(f"  {name:<{width}}  ", Tone.FAINT) for name, _ in facts]
        rows = [Loose(value, " " * (width + 4), name) for name, (_, value) in zip(names, facts, strict=True)]
        parts.append(headed("FACTS", rows))
    if ranks := _rank_rows(answer.ranks):
        head, *figures = ranks
        numeric = frozenset(range(len(head)))
        table = Table([styled(name, Tone.FAINT) for name in head], figures, numeric=numeric, indent="  ")
        parts.append(headed("RANKS, in GiB", [table]))
    if answer.hidden:
        parts.append([Line(styled(f"Recognised and left out: {_noise(answer.hidden)}.", Tone.FAINT))])
    return [*parted(parts), BLANK]


def interim(answer: Answer) -> str:
    """One line on a start that is still being written."""
    last = answer.starts[-1] if answer.starts else None
    if last is None:
        return "no sign of vLLM yet"
    cause, phase = answer.root_cause, start_pictures.PHASE_NAMES.get(last.phase or "", "begun")
    word = phase if answer.outcome is Outcome.UNKNOWN else answer.outcome.value
    is_bad = answer.outcome in (Outcome.FAILED, Outcome.HUNG)
    said = "no cause is known yet" if is_bad else "nothing wrong so far"
    said = f"{cause.title} ({cause.symptom}, {cause.level.value})" if cause else said
    return visible(f"line {last.last_line}: {word}; {said}")


def _noise(hidden: Mapping[str, int]) -> str:
    names = {
        "benign": ("harmless line", "harmless lines"),
        "earlier_start": ("earlier start", "earlier starts"),
        "consequence": ("line of a rank that only lost its peer", "lines of ranks that only lost a peer"),
        "wrapper": ("notice of another process's end", "notices of another process's end"),
    }
    return ", ".join(f"{count} {names.get(kind, (kind, kind))[count != 1]}" for kind, count in hidden.items())


def _no_cause(answer: Answer) -> str:
    if not answer.starts:
        return "It does not look like the log of a vLLM start."
    if answer.outcome is Outcome.UNKNOWN:
        return "The text ends before the start does: give the log up to its end, of all processes."
    if answer.first_error:
        return "The first error is not in the catalog yet: its own words are the best lead."
    return "Give the log of every process and node; if it is complete, the symptom is not in the catalog yet."


def _lead(answer: Answer) -> str:
    """What to read where no cause is known."""
    if answer.first_error:
        return f"Read the first error: {_place(answer.first_error, answer.files)}: {cut(answer.first_error.text)}"
    return _no_cause(answer)


def _styled_headline(answer: Answer) -> Styled:
    release = f"vLLM {answer.vllm.version} ({answer.vllm.source})" if answer.vllm.version else "vLLM release unknown"
    return styled(f"{', '.join(answer.files)}  ·  {release}  ·  ") + _outcome(
        answer.outcome, answer.outcome.value.upper()
    )


def _headline(answer: Answer) -> str:
    return str(_styled_headline(answer))


def _outcome(outcome: Outcome, word: str) -> Styled:
    return styled(word, _OUTCOMES[outcome])


def _first_error_view(answer: Answer) -> list[list[Block]]:
    if answer.first_error is None:
        return []
    place = styled(f"{_place(answer.first_error, answer.files)}: ", Tone.FAINT)
    # Whole, where other quotations are cut: these words are all there is to go by.
    quote = Prose(place + styled(answer.first_error.text, Tone.QUOTE))
    return [headed("FIRST ERROR that no symptom explains: read this first", [quote])]


def _starts_view(answer: Answer) -> list[Block]:
    files = {start.file for start in answer.starts}
    is_one = len(files) == len(answer.starts)
    which = "the last" if len(files) == 1 else "the last of each file"
    head = f"{len(answer.starts)} STARTS ({which} is described; --start N chooses another)"
    if is_one:
        head = f"{len(files)} LOGS OF ONE START"
    rows = []
    for number, start in enumerate(answer.starts, 1):
        cause = f"  {start.root_cause.title}" if start.root_cause else ""
        name = f"  {answer.files[start.file]}" if len(answer.files) > 1 else ""
        mark = "" if is_one else f"  {number}"
        lines = f"{mark}{name}  lines {start.first_line}-{start.last_line}  "
        rows.append(Line(lines + _outcome(start.outcome, start.outcome.value) + cause))
    return headed(head, rows)


def _place(quote: Quote, files: Sequence[str]) -> str:
    name = f"{files[quote.file]}:" if len(files) > 1 else "line "
    return f"{name}{quote.line}"


def _finding_view(answer: Answer, finding: Finding) -> list[Block]:
    files = answer.files
    is_nearest = finding.look_in is not None and answer.first_error is None
    head = "ROOT CAUSE" if not finding.look_in else "CLOSEST TO THE CAUSE" if is_nearest else "NOTICE OF THE FAILURE"
    level = styled(finding.level.value, _LEVELS[finding.level])
    blocks: list[Block] = [
        Loose(styled(finding.title, _LEVELS[finding.level]), first=styled(f"{head}  ", Tone.HEADING)),
        Line(styled(f"  {finding.symptom} · ", Tone.FAINT) + level),
    ]
    blocks += [
        Line(styled(f"  {place}: ", Tone.FAINT) + styled(cut(said), Tone.QUOTE))
        for place, said in _quotes(finding, files)
    ]
    sections = [("Why", finding.explanation), ("Do first", finding.do_first)]
    if finding.look_in and is_nearest:
        sections.append(("Look for", f"{finding.look_in.what} in {finding.look_in.where}"))
    sections += [("Confirm", finding.confirm), ("Refute", finding.refute)]
    for name, body in sections:
        if body:
            blocks += [BLANK, Line(styled(f"  {name}", Tone.HEADING)), Prose(body, "    ")]
    if marks := _conditions(finding.conditions):
        blocks += [BLANK, Line(styled("  Conditions", Tone.HEADING)), *(Prose(mark, "    ") for mark in marks)]
    return blocks


def _quotes(finding: Finding, files: Sequence[str]) -> list[tuple[str, str]]:
    """Place and words of the evidence; words that stand in several places once."""
    places: dict[str, list[str]] = {}
    for quote in finding.evidence:
        places.setdefault(quote.text, []).append(_place(quote, files))
    return [(" and ".join(found), said) for said, found in places.items()]


def _conditions(conditions: Conditions) -> list[Styled]:
    kinds = (
        ("fits", Tone.GOOD, conditions.matched),
        ("speaks against it", Tone.WARN, conditions.mismatched),
        ("not in this log", Tone.FAINT, conditions.unknown),
    )
    return [styled(kind, tone) + f": {says}" for kind, tone, group in kinds for says in group]


def _brief_view(finding: Finding, files: Sequence[str]) -> list[Block]:
    place = f" ({_place(finding.evidence[0], files)})" if finding.evidence else ""
    severity = styled(f"  {finding.severity.value}", _SEVERITIES[finding.severity])
    return [
        Loose(f"{finding.title}" + styled(place, Tone.FAINT), first=severity + ": "),
        Prose(finding.explanation, "    "),
    ]


def _brief(finding: Finding, files: Sequence[str]) -> str:
    return plain(_brief_view(finding, files))


def _remedies_view(remedies: Sequence[Remedy]) -> list[Block]:
    blocks: list[Block] = []
    for number, remedy in enumerate(remedies, 1):
        blocks.append(Line(f"  {number}. " + styled(remedy.title, Tone.HEADING)))
        blocks += [Line("       " + styled(_edit(e.op, e.name, e.value), Tone.COMMAND)) for e in remedy.edits]
        blocks.append(Prose(styled("Costs:", Tone.COST) + f" {remedy.cost}", "     "))
        if remedy.command is not None:
            lines = [Line("       " + styled(line, Tone.COMMAND)) for line in remedy.command.splitlines()]
            blocks += [BLANK, *lines, BLANK]
    return headed("WAYS OUT, cheapest first", [*blocks, *(Prose(said) for said in _checked(remedies))])


def _notes_view(notes: Sequence[str]) -> list[Block]:
    return headed("NOTE" if len(notes) == 1 else "NOTES", [Prose(note) for note in notes])


def _checked(remedies: Sequence[Remedy]) -> list[str]:
    """Who judged the remedies, and who could not; a sentence for those that were judged alike."""
    by_checks: dict[Checks, list[str]] = {}
    for number, remedy in enumerate(remedies, 1):
        by_checks.setdefault(remedy.checks, []).append(str(number))
    if len(by_checks) == 1:
        return [_judges(remedies[0].checks)]
    return [f"{', '.join(numbers)}: {_judges(checks)}" for checks, numbers in by_checks.items()]


def _judges(checks: Checks) -> str:
    judges = (("the linter", checks.lint), ("the planner", checks.plan), ("vLLM's own parser", checks.parser))
    passed = [name for name, said in judges if said == "passed"]
    unknown = [f"{name} ({said.removeprefix('unknown: ')})" for name, said in judges if said != "passed"]
    sentences = [f"Checked by {', '.join(passed)}."] if passed else []
    return " ".join([*sentences, *([f"Not checked by {', '.join(unknown)}."] if unknown else [])])


def _edit(op: str, name: str, value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    if op == "remove":
        return f"remove option {name}"
    if op == "env":
        return f"environment variable {name} = {shown}"
    return f"option {name} = {shown}"


def _fact_rows(facts: Facts) -> list[tuple[str, str]]:
    rows = []
    for name, label in FACT_NAMES.items():
        shown = figure(name, facts)
        if shown is None:
            continue
        if name == "max_concurrency" and facts.max_concurrency_tokens:
            shown += f" of {facts.max_concurrency_tokens:,} tokens each"
        if name == "kv_cache_tokens" and facts.kv_cache_tokens_meaning:
            shown += f" ({_MEANINGS[facts.kv_cache_tokens_meaning]})"
        rows.append((label, shown))
    return rows


def _rank_rows(ranks: Sequence[RankFacts]) -> list[list[str]]:
    """A head and a row for each rank, with the figures in GiB that any of them printed; empty for fewer than two."""
    if len(ranks) < 2:
        return []
    names = [n for n in FACT_NAMES if n.endswith("_gib") and any(getattr(r, n, None) is not None for r in ranks)]
    figures = [["" if (v := getattr(r, n)) is None else f"{v:.2f}" for n in names] for r in ranks]
    shown = ["unknown" if r.rank is None else str(r.rank) for r in ranks]
    return [["rank", *(FACT_NAMES[n] for n in names)], *([s, *row] for s, row in zip(shown, figures, strict=True))]


def starts(answer: Answer) -> Shown:
    """What the text holds: every start, its lines, how it ended."""
    rows = [
        [
            str(number),
            escape(answer.files[s.file]),
            f"{s.first_line}-{s.last_line}",
            badge(s.outcome.value, _TONES[s.outcome]),
            escape(s.root_cause.title) if s.root_cause else "",
        ]
        for number, s in enumerate(answer.starts, 1)
    ]
    release = (
        f"{answer.vllm.version} ({answer.vllm.source})"
        if answer.vllm.version
        else "unknown: the text does not print it"
    )
    html = html_table(["start", "file", "lines", "outcome", "root cause"], rows, numeric=[0]) + tag(
        "p", f"vLLM release: {escape(release)}", "font-size:14px"
    )
    rows_of_text = plain(_starts_view(answer)) if len(answer.starts) > 1 else ""
    return Shown(f"{_headline(answer)}\n{rows_of_text}".strip(), html)


def cause(answer: Answer) -> Shown:
    """The root cause with its evidence, or what is known without one."""
    finding = answer.root_cause
    if finding is None:
        if answer.outcome.is_healthy:
            said = f"The start is healthy ({answer.outcome.value}): there is no root cause."
        else:
            said = "No cause was found in this text. " + _no_cause(answer)
        told = plain(parted([*_first_error_view(answer), [Line(said)]]))
        return Shown(told, tag("p", escape(said)) + _unexplained(answer))
    tone = {Level.CONFIRMED: RED, Level.PROBABLE: AMBER, Level.POSSIBLE: GREY}[finding.level]
    head = tag(
        "div", f"{badge(finding.level.value, tone)} <b>{prose(finding.title)}</b>", "font-size:16px;margin-bottom:6px"
    )
    name = tag("div", escape(finding.symptom), "opacity:.65;font-size:13px;margin-bottom:6px")
    quotes = "".join(quoted(place, said) for place, said in _quotes(finding, answer.files)) + _unexplained(answer)
    why = tag("p", prose(finding.explanation), "max-width:80ch")
    look = ""
    if finding.look_in and answer.first_error is None:
        look = tag("p", f"<b>Look for</b> {prose(finding.look_in.what)} in {prose(finding.look_in.where)}")
    told = plain(parted([*_first_error_view(answer), _finding_view(answer, finding)]))
    return Shown(told, head + name + quotes + why + look)


def _unexplained(answer: Answer) -> str:
    if answer.first_error is None:
        return ""
    return tag("p", "The first error that no symptom explains:") + quoted(
        _place(answer.first_error, answer.files), answer.first_error.text
    )


def checks(answer: Answer) -> Shown:
    """What speaks for the root cause, what against, what is not known, and how to find out."""
    finding = answer.root_cause
    if finding is None:
        said = "Nothing to confirm: the start is healthy, there is no root cause."
        if not answer.outcome.is_healthy:
            said = f"Nothing to confirm: no root cause is known. {_lead(answer)}"
        return Shown(said, tag("p", escape(said)))
    marks = (
        ("✓ fits", finding.conditions.matched),
        ("✗ speaks against it", finding.conditions.mismatched),
        ("? not in this log", finding.conditions.unknown),
    )
    rows = [[escape(mark), prose(says)] for mark, group in marks for says in group]
    rows += [["to confirm", prose(finding.confirm)], ["to refute", prose(finding.refute)]]
    lines = [
        *map(str, _conditions(finding.conditions)),
        f"to confirm: {finding.confirm}",
        f"to refute: {finding.refute}",
    ]
    return Shown("\n".join(lines), html_table(["", ""], rows))


def remedies(answer: Answer) -> Shown:
    """The ways out, cheapest first, with what each costs and what has checked it."""
    finding = answer.root_cause
    first = tag("p", f"<b>Do first.</b> {prose(finding.do_first)}", "max-width:80ch") if finding else ""
    noted = "".join(tag("p", f"<b>Note.</b> {prose(note)}", "max-width:80ch") for note in answer.notes)
    below = f"\n\n{plain(_notes_view(answer.notes))}" if answer.notes else ""
    if not answer.remedies:
        said = "No change is needed." if answer.outcome.is_healthy else f"No way out is known. {_lead(answer)}"
        said = f"Do first. {finding.do_first}" if finding else said
        return Shown(said + below, (first or tag("p", escape(said))) + noted)
    ways = [_way_out(number, remedy) for number, remedy in enumerate(answer.remedies, 1)]
    judged = [remark(said) for said in _checked(answer.remedies)]
    html = first + "".join([*ways, *judged]) + noted
    head = f"Do first. {finding.do_first}\n\n" if finding else ""
    return Shown(head + plain(_remedies_view(answer.remedies)) + below, html)


def _way_out(number: int, remedy: Remedy) -> str:
    """A way out, its command as wide as the page: a column of a table would cut its words."""
    changes = "".join(tag("code", escape(_edit(e.op, e.name, e.value))) + "<br>" for e in remedy.edits)
    return (
        tag("div", f"{number}. <b>{prose(remedy.title)}</b>", "margin-top:14px;max-width:80ch")
        + tag("div", f"Costs: {prose(remedy.cost)}", "margin:2px 0 4px 0;max-width:80ch")
        + (tag("div", changes, "font-size:13px") if changes else "")
        + (preformatted(remedy.command) if remedy.command else "")
    )


def facts(answer: Answer) -> Shown:
    """Every figure that the start printed about itself."""
    rows = _fact_rows(answer.facts)
    if not rows:
        said = "The text holds none of vLLM's figures (weights, KV cache, concurrency)."
        return Shown(said, tag("p", escape(said)))
    plain = "\n".join(f"{name}: {value}" for name, value in rows)
    html = html_table(["figure", "printed"], [[escape(n), escape(v)] for n, v in rows])
    if ranks := _rank_rows(answer.ranks):
        head, *body = ranks
        html += tag("p", "By rank, in GiB:") + html_table(head, body, numeric=range(len(head)))
        plain += "\n" + "\n".join("  ".join(row) for row in ranks)
    return Shown(plain, html)


def others(answer: Answer) -> Shown:
    """The findings beside the root cause, and how many lines were recognised as noise."""
    rest = [f for f in answer.findings if f != answer.root_cause]
    left_out = f"Recognised and left out: {_noise(answer.hidden)}." if answer.hidden else "Nothing was left out."
    if not rest:
        return Shown(f"Nothing else was found. {left_out}", tag("p", escape(f"Nothing else was found. {left_out}")))
    rows = [
        [badge(f.severity.value, _SEVERITY_TONES[f.severity]), f"<b>{prose(f.title)}</b><br>{prose(f.explanation)}"]
        for f in rest
    ]
    plain = "\n".join(_brief(f, answer.files) for f in rest)
    return Shown(
        f"{plain}\n{left_out}",
        html_table(["", "finding"], rows) + tag("p", escape(left_out), "opacity:.75;font-size:13px"),
    )


def memory(answer: Answer) -> Shown:
    """The GPU's memory when the allocation failed, as the message states it; empty for other causes."""
    captures = dict(answer.root_cause.captures) if answer.root_cause else {}
    total, tried = (printed_gib(captures, name) for name in ("total", "tried"))
    if not total or tried is None:
        said = "The text states no memory figures for the moment of the failure."
        return Shown(said, tag("p", escape(said)))
    parts = _memory_parts(captures, total)
    chart = bars([(name, value / total) for name, value in parts if name != "free"])
    colours = dict(zip((name for name, _ in parts if name != "free"), COLOURS, strict=False))
    rows = [
        [(tag("span", "■", f"color:{colours[name]}") + " " if name in colours else "") + escape(name), f"{value:.2f}"]
        for name, value in parts
    ]
    rows += [[tag("b", "asked for"), tag("b", f"{tried:.2f}")], ["total", f"{total:.2f}"]]
    lines = [*parts, ("asked for", tried), ("total", total)]
    plain = "\n".join(f"  {name:<34} {value:6.2f} GiB" for name, value in lines)
    return Shown(plain, chart + html_table(["", "GiB"], rows, numeric=[1]))


def _memory_parts(captures: dict[str, str], total: float) -> list[tuple[str, float]]:
    """What the message says about the GPU's memory, in parts that add up to the total; only what follows from it."""
    used, free, allocated, reserved = (
        printed_gib(captures, name) for name in ("in_use", "free", "allocated", "reserved")
    )
    parts = [("allocated by PyTorch", allocated), ("reserved by PyTorch, unallocated", reserved)]
    if used is not None:
        own = "this process, outside PyTorch" if allocated is not None else "this process"
        parts.append((own, max(0.0, used - (allocated or 0.0) - (reserved or 0.0))))
    rest = max(0.0, total - sum(value or 0.0 for _, value in parts) - (free or 0.0))
    if rest >= 0.005:
        parts.append(("other processes" if used is not None and free is not None else "not stated", rest))
    parts.append(("free", free))
    return [(name, value) for name, value in parts if value is not None]
