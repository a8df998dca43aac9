"""An answer as text, JSON and HTML: the cause, its evidence, how to verify it, and the fixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from vllm_runbooks.catalog.languages import LANGUAGES, Wording, joined
from vllm_runbooks.catalog.load import load_catalog
from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.records import Answer, Conditions, Finding, Level, Outcome, Remedy
from vllm_runbooks.core.views import start_pictures
from vllm_runbooks.core.views import text_width as columns
from vllm_runbooks.core.views.elements import badge, html_table, prose, quoted, remark, tag
from vllm_runbooks.core.views.memory_parts import stacked, swatch
from vllm_runbooks.core.views.styled import (
    BLANK,
    GROUNDS,
    OUTCOME_TONES,
    SEVERITIES,
    Line,
    Prose,
    SentenceLines,
    Styled,
    Table,
    TextBlock,
    Tone,
    headed,
    parted,
    plain,
    styled,
)
from vllm_runbooks.core.views.summary import Step, Summary, summary_view
from vllm_runbooks.core.views.summary_html import command_html, folded, rendered
from vllm_runbooks.diagnosis.render import words as answer_words
from vllm_runbooks.diagnosis.render.figures import printed_gib
from vllm_runbooks.diagnosis.render.summaries import OPTIONS, option_text, summarize

_LEVELS = {Level.CONFIRMED: Tone.BAD, Level.PROBABLE: Tone.WARN, Level.POSSIBLE: Tone.HINT}


def summary(answer: Answer, *, gpus: str = "", runbook: str = "", inputs: Mapping[str, str] = OPTIONS) -> RenderedView:
    """The answer as a card: state, cause, first fix, memory, and another runbook of the cause.

    Args:
        answer: The diagnosis.
        gpus: GPUs of the launch as the user named them.
        runbook: The current runbook.
        inputs: Names of the inputs that the user can add.
    """
    card = rendered(summary_record(answer, gpus=gpus, runbook=runbook, inputs=inputs), Wording(answer.lang).__call__)
    return _in_its_language(answer, card.plain, card.html)


def summary_record(
    answer: Answer, *, gpus: str = "", runbook: str = "", inputs: Mapping[str, str] = OPTIONS
) -> Summary:
    """The record that `summary` shows."""
    has_command = any(remedy.command for remedy in answer.remedies)
    record = summarize(answer, gpus=gpus, has_command=has_command, inputs=inputs)
    symptom = load_catalog().symptoms.get(answer.root_cause.symptom) if answer.root_cause else None
    if runbook and symptom is not None and symptom.runbook and symptom.runbook != runbook:
        step = Step("Open", "the runbook for this cause", runbook=symptom.runbook, is_first=True)
        record = replace(record, steps=(step, *record.steps))
    return record


def text(answer: Answer) -> str:
    """The diagnosis with everything, without colors."""
    return plain([*summary_view(summarize(answer)), BLANK, *details(answer)])


def details(answer: Answer) -> list[TextBlock]:
    """Details beyond the summary, for a terminal: why, how to verify, all fixes, figures."""
    parts: list[list[TextBlock]] = []
    if len(answer.starts) > 1:
        parts.append(_starts_view(answer))
    cause, say = answer.root_cause, Wording(answer.lang)
    parts += _first_error_view(answer)
    parts += [_finding_view(answer, finding) for finding in (answer.internal_error, cause) if finding]
    if answer.remedies and (answer.internal_error or cause):
        parts.append(_remedies_view(answer.remedies, say))
    if answer.notes:
        parts.append(_notes_view(answer.notes, say))
    others = [f for f in answer.findings if f != cause]
    if others:
        blocks = [block for f in others for block in _brief_view(f, answer.files, say)]
        parts.append(headed(say("ALSO FOUND"), blocks))
    facts = answer_words.fact_rows(answer.facts, say)
    if facts:
        width = max(columns.width(name) for name, _ in facts)
        names = [styled(f"  {columns.padded(name, width)}  ", Tone.FAINT) for name, _ in facts]
        rows = [SentenceLines(value, " " * (width + 4), name) for name, (_, value) in zip(names, facts, strict=True)]
        parts.append(headed(say("FACTS"), rows))
    if ranks := answer_words.rank_rows(answer.ranks, say):
        head, *figures = ranks
        numeric = frozenset(range(len(head)))
        table = Table([styled(name, Tone.FAINT) for name in head], figures, numeric=numeric, indent="  ")
        parts.append(headed(say("RANKS, in GiB"), [table]))
    if answer.hidden:
        parts.append([SentenceLines(styled(answer_words.left_out(answer), Tone.FAINT), "")])
    return [*parted(parts), BLANK]


def view(answer: Answer, *, is_explained: bool, **inputs: Any) -> list[TextBlock]:
    """The summary, and if explained everything below it; `inputs` as for `summarize`."""
    summary = summarize(answer, **inputs)
    if not is_explained:
        return summary_view(summary)
    blocks = [*summary_view(replace(summary, fix=None)), BLANK, *details(answer)]  # the details list it with the others
    if answer.plan is not None and answer.plan.terms:
        from vllm_runbooks.plan.render import plans as render_plans

        mark = Wording(answer.lang).mark
        blocks += [BLANK, *([Line(mark)] if mark else []), *render_plans.view(answer.plan)]
    return blocks


def interim(answer: Answer) -> str:
    """One line on a launch that is still being written."""
    last = answer.starts[-1] if answer.starts else None
    say = Wording(answer.lang)
    if last is None:
        return say("no sign of vLLM yet")
    cause, phase = answer.root_cause, start_pictures.PHASE_NAMES.get(last.phase or "", "begun")
    word = phase if answer.outcome is Outcome.UNKNOWN else answer.outcome.value
    is_bad = answer.outcome in (Outcome.FAILED, Outcome.HUNG)
    text = say("cause unknown so far") if is_bad else say("no problems so far")
    text = f"{cause.title} ({cause.symptom}, {say(cause.level.value)})" if cause else text
    return visible(f"{say('line {number}', number=last.last_line)}: {say(word)}; {text}")


def _styled_headline(answer: Answer) -> Styled:
    lead = f"{answer_words.named(answer)}  ·  {answer_words.release(answer)}  ·  "
    return styled(lead) + _outcome(answer.outcome, Wording(answer.lang)(answer.outcome.value).upper())


def _headline(answer: Answer) -> str:
    return str(_styled_headline(answer))


def _outcome(outcome: Outcome, word: str) -> Styled:
    return styled(word, OUTCOME_TONES[outcome])


def _first_error_view(answer: Answer) -> list[list[TextBlock]]:
    if answer.first_error is None or answer.internal_error is not None:
        return []
    say = Wording(answer.lang)
    place = styled(f"{answer_words.place_of(answer.first_error, answer.files, say)}: ", Tone.FAINT)
    # Not truncated, unlike other quotations: there is no other evidence.
    quote = Prose(place + styled(answer.first_error.text, Tone.QUOTE))
    return [headed(say("FIRST UNEXPLAINED ERROR: read this first"), [quote])]


def _starts_view(answer: Answer) -> list[TextBlock]:
    files = {start.file for start in answer.starts}
    is_one = len(files) == len(answer.starts)
    say = Wording(answer.lang)
    which = say("the last") if len(files) == 1 else say("the last of each file")
    head = say("{count} LAUNCHES (showing {which}; --start N selects another)", count=len(answer.starts), which=which)
    if is_one:
        head = say("{count} LOGS OF ONE LAUNCH", count=len(files))
    rows = []
    node_ranks = {log.file: log.node_rank for log in answer.nodes.logs} if answer.nodes else {}
    for number, start in enumerate(answer.starts, 1):
        cause = f"  {start.root_cause.title}" if start.root_cause else ""
        name = f"  {answer.files[start.file]}" if len(answer.files) > 1 else ""
        if node_ranks.get(start.file) is not None:
            name += f"  {say('node {number}', number=node_ranks[start.file])}"
        mark = "" if is_one else f"  {number}"
        lines = say("lines {first}-{last}", first=start.first_line, last=start.last_line)
        rows.append(Line(f"{mark}{name}  {lines}  " + _outcome(start.outcome, say(start.outcome.value)) + cause))
    return headed(head, rows)


def _blamed(answer: Answer) -> Finding | None:
    """The internal error, else the root cause."""
    return answer.internal_error or answer.root_cause


def _finding_view(answer: Answer, finding: Finding) -> list[TextBlock]:
    say = Wording(answer.lang)
    is_nearest = finding.look_in is not None and answer.first_error is None
    head = "INTERNAL ERROR" if finding == answer.internal_error else "ROOT CAUSE"
    head = head if not finding.look_in else "CLOSEST MATCH" if is_nearest else "FAILURE NOTICE"
    level = styled(say(finding.level.value), _LEVELS[finding.level])
    blocks: list[TextBlock] = [
        SentenceLines(styled(finding.title, _LEVELS[finding.level]), first=styled(f"{say(head)}  ", Tone.HEADING)),
        Line(styled(f"  {finding.symptom} · ", Tone.FAINT) + level),
    ]
    blocks += [
        Line(styled(f"  {place}: ", Tone.FAINT) + styled(" ".join(text.split()), Tone.QUOTE))  # may end with the reason
        for place, text in answer_words.quotes(finding, answer.files, say)
    ]
    sections = [("Why", finding.explanation), ("Do first", finding.do_first)]
    if finding.look_in and is_nearest:
        sections.append(("Where to look", answer_words.looked_for(finding.look_in, say)))
    sections += [("How to verify", finding.confirm), ("Ruled out if", finding.refute)]
    for name, body in sections:
        if body:
            blocks += [BLANK, Line(styled(f"  {say(name)}", Tone.HEADING)), Prose(body, "    ")]
    if marks := _conditions(finding.conditions, say):
        head = f"  {say('Conditions')}"
        blocks += [BLANK, Line(styled(head, Tone.HEADING)), *(Prose(mark, "    ") for mark in marks)]
    return blocks


def _conditions(conditions: Conditions, say: Wording) -> list[Styled]:
    kinds = (
        ("met", Tone.GOOD, conditions.matched),
        ("not met", Tone.WARN, conditions.mismatched),
        ("unknown from this log", Tone.FAINT, conditions.unknown),
    )
    return [styled(say(kind), tone) + f"{say(': ')}{says}" for kind, tone, group in kinds for says in group]


def _brief_view(finding: Finding, files: Sequence[str], say: Wording) -> list[TextBlock]:
    place = f" ({answer_words.place_of(finding.evidence[0], files, say)})" if finding.evidence else ""
    severity = styled(f"  {say(finding.severity.value)}", SEVERITIES[finding.severity])
    return [
        SentenceLines(f"{finding.title}" + styled(place, Tone.FAINT), first=severity + say(": ")),
        Prose(finding.explanation, "    "),
    ]


def _brief(finding: Finding, files: Sequence[str], say: Wording) -> str:
    return plain(_brief_view(finding, files, say))


def _remedies_view(remedies: Sequence[Remedy], say: Wording) -> list[TextBlock]:
    blocks: list[TextBlock] = []
    for number, remedy in enumerate(remedies, 1):
        blocks.append(SentenceLines(styled(remedy.title, Tone.HEADING), "     ", f"  {number}. "))
        if remedy.edits:
            blocks.append(Line("       " + styled(option_text(remedy.edits, say), Tone.COMMAND)))
        blocks.append(Prose(styled(say("Cost: "), Tone.COST) + remedy.cost, "     "))
        if remedy.command is not None:
            lines = [Line("       " + styled(line, Tone.COMMAND)) for line in remedy.command.splitlines()]
            blocks += [BLANK, *lines, BLANK]
    return headed(say("FIXES, best first"), [*blocks, *(Prose(line) for line in answer_words.verdicts(remedies, say))])


def _notes_view(notes: Sequence[str], say: Wording) -> list[TextBlock]:
    return headed(say("NOTE" if len(notes) == 1 else "NOTES"), [Prose(note) for note in notes])


def _in_its_language(answer: Answer, plain: str, html: str, *, is_nothing: bool = False) -> RenderedView:
    """The answer, marked with its language if that differs from the page's, for fonts and screen readers."""
    marked = html if answer.lang is None else f'<div lang="{LANGUAGES[answer.lang].tag}">{html}</div>'
    return RenderedView(plain, marked, is_nothing=is_nothing)


def _nothing(answer: Answer, text: str) -> RenderedView:
    return _in_its_language(answer, text, RenderedView.nothing(text).html, is_nothing=True)


def starts(answer: Answer) -> RenderedView:
    """Every launch in the text, its lines and its outcome, if there are several."""
    say = Wording(answer.lang)
    if len(answer.starts) < 2:
        return _nothing(answer, _headline(answer))
    rows = [
        [
            str(number),
            escape(answer.files[s.file]),
            f"{s.first_line}-{s.last_line}",
            badge(say(s.outcome.value), GROUNDS[OUTCOME_TONES[s.outcome]]),
            escape(s.root_cause.title) if s.root_cause else "",
        ]
        for number, s in enumerate(answer.starts, 1)
    ]
    release = (
        f"{answer.vllm.version} ({say(answer.vllm.source)})" if answer.vllm.version else say("unknown: not in the log")
    )
    head = [say(name) for name in ("start", "file", "lines", "outcome", "root cause")]
    html = html_table(head, rows, numeric=[0]) + tag(
        "p", escape(say("vLLM release: {release}", release=release)), "font-size:14px"
    )
    return _in_its_language(answer, f"{_headline(answer)}\n{plain(_starts_view(answer))}", html)


def cause(answer: Answer) -> RenderedView:
    """The root cause with its evidence, or the known facts without one."""
    finding, say = _blamed(answer), Wording(answer.lang)
    if finding is None:
        if answer.outcome.is_healthy:
            outcome = say(answer.outcome.value)
            text = say("The launch is healthy ({outcome}): no root cause.", outcome=outcome)
        else:
            text = say.joined("No cause found in this log.", answer_words.no_cause(answer))
        plain_text = plain(parted([*_first_error_view(answer), [Line(text)]]))
        return _in_its_language(answer, plain_text, tag("p", escape(text)) + _unexplained(answer))
    tone = GROUNDS[_LEVELS[finding.level]]
    head = tag(
        "div",
        f"{badge(say(finding.level.value), tone)} <b>{prose(finding.title)}</b>",
        "font-size:16px;margin-bottom:6px",
    )
    name = tag("div", escape(finding.symptom), "opacity:.75;font-size:13px;margin-bottom:6px")
    quotes = "".join(quoted(place, text) for place, text in answer_words.quotes(finding, answer.files, say))
    quotes += _unexplained(answer)
    why = tag("p", prose(finding.explanation), "max-width:80ch")
    look = ""
    if finding.look_in and answer.first_error is None:
        look = tag("p", f"<b>{say('Where to look')}</b> {prose(answer_words.looked_for(finding.look_in, say))}")
    plain_text = plain(parted([*_first_error_view(answer), _finding_view(answer, finding)]))
    return _in_its_language(answer, plain_text, head + name + quotes + why + look)


def _unexplained(answer: Answer) -> str:
    if answer.first_error is None or answer.internal_error is not None:
        return ""
    say = Wording(answer.lang)
    return tag("p", say("First unexplained error:")) + quoted(
        answer_words.place_of(answer.first_error, answer.files, say), answer.first_error.text
    )


def explanation(answer: Answer) -> RenderedView:
    """Parts of `cause` that a summary omits: why it happens, further evidence and where to look."""
    finding, say = answer.root_cause, Wording(answer.lang)
    if finding is None:
        return _nothing(answer, answer_words.no_cause(answer))
    quotes = answer_words.quotes(finding, answer.files, say)[1:]
    why = tag("p", prose(finding.explanation), "max-width:80ch")
    lines = [finding.explanation, *(f"{place}: {text}" for place, text in quotes)]
    look = ""
    if finding.look_in and answer.first_error is None:
        where = answer_words.looked_for(finding.look_in, say)
        look = tag("p", f"<b>{say('Where to look')}</b> {prose(where)}")
        lines.append(f"{say('Where to look')} {where}")
    html = why + "".join(quoted(place, text) for place, text in quotes) + look
    return _in_its_language(answer, "\n".join(lines), html)


def checks(answer: Answer) -> RenderedView:
    """Conditions that match the root cause, contradict it or are unknown, and how to verify it."""
    finding, say = _blamed(answer), Wording(answer.lang)
    if finding is None:
        text = say("Nothing to verify: the launch is healthy.")
        if not answer.outcome.is_healthy:
            text = say.joined("Nothing to verify: unknown root cause.", answer_words.lead(answer))
        return _nothing(answer, text)
    marks = (
        ("✓", "met", finding.conditions.matched),
        ("✗", "not met", finding.conditions.mismatched),
        ("?", "unknown from this log", finding.conditions.unknown),
    )
    rows = [[escape(f"{sign} {say(mark)}"), prose(says)] for sign, mark, group in marks for says in group]
    named = ((say("verify by"), finding.confirm), (say("ruled out if"), finding.refute))
    rows += [[name, prose(text)] for name, text in named]
    lines = [*map(str, _conditions(finding.conditions, say)), *(f"{name}{say(': ')}{text}" for name, text in named)]
    return _in_its_language(answer, "\n".join(lines), html_table(["", ""], rows))


def remedies(answer: Answer) -> RenderedView:
    """The fixes, best first, with their costs and checks."""
    finding, say = _blamed(answer), Wording(answer.lang)
    begun = say("Do first.")
    first = tag("p", f"<b>{begun}</b> {prose(finding.do_first)}", "max-width:80ch") if finding else ""
    noted = "".join(tag("p", f"<b>{say('Note.')}</b> {prose(note)}", "max-width:80ch") for note in answer.notes)
    below = f"\n\n{plain(_notes_view(answer.notes, say))}" if answer.notes else ""
    if not answer.remedies and answer.outcome.is_healthy and not finding and not answer.notes:
        return _nothing(answer, say("No change is needed."))
    if not answer.remedies:
        unknown = say.joined("No known fix.", answer_words.lead(answer))
        text = say("No change is needed.") if answer.outcome.is_healthy else unknown
        text = joined([begun, finding.do_first]) if finding else text
        return _in_its_language(answer, text + below, (first or tag("p", escape(text))) + noted)
    ways = [_way_out(number, remedy, say) for number, remedy in enumerate(answer.remedies, 1)]
    judged = [remark(text) for text in answer_words.verdicts(answer.remedies, say)]
    html = first + "".join([*ways, *judged]) + noted
    head = f"{joined([begun, finding.do_first])}\n\n" if finding else ""
    return _in_its_language(answer, head + plain(_remedies_view(answer.remedies, say)) + below, html)


def advice(answer: Answer) -> RenderedView:
    """First action, and notes on the fixes; `way_out` shows each fix."""
    return remedies(replace(answer, remedies=()))


def way_out(number: int, remedy: Remedy, lang: str | None = None) -> RenderedView:
    """A fix without its command, which the caller shows below, and its checks."""
    say = Wording(lang)
    checked = answer_words.judged_by(remedy.checks, say)
    html = _way_out(number, replace(remedy, command=None), say) + remark(checked)
    return RenderedView(plain(_remedies_view((remedy,), say)), html)


def _way_out(number: int, remedy: Remedy, say: Wording) -> str:
    """A fix with its changes and cost, and its command folded."""
    changes = command_html(option_text(remedy.edits, say)) if remedy.edits else ""
    return (
        tag("div", f"{number}. <b>{prose(remedy.title)}</b>", "margin-top:14px;max-width:80ch")
        + tag("div", f"{say('Cost: ')}{prose(remedy.cost)}", "margin:2px 0 4px 0;max-width:80ch")
        + changes
        + (folded(say("The whole command"), command_html(remedy.command)) if remedy.command else "")
    )


def facts(answer: Answer) -> RenderedView:
    """Every figure that the launch printed about itself."""
    say = Wording(answer.lang)
    rows = answer_words.fact_rows(answer.facts, say)
    if not rows:
        text = say("The log has no vLLM figures (weights, KV cache, concurrency).")
        return _nothing(answer, text)
    plain = "\n".join(f"{name}: {value}" for name, value in rows)
    html = html_table([say("figure"), say("printed")], [[escape(n), escape(v)] for n, v in rows])
    if ranks := answer_words.rank_rows(answer.ranks, say):
        head, *body = ranks
        html += tag("p", say("By rank, in GiB:")) + html_table(head, body, numeric=range(len(head)))
        plain += "\n" + "\n".join("  ".join(row) for row in ranks)
    return _in_its_language(answer, plain, html)


def others(answer: Answer) -> RenderedView:
    """Findings other than the root cause, and the number of lines recognized as noise."""
    rest = [f for f in answer.findings if f != answer.root_cause]
    say = Wording(answer.lang)
    left_out = answer_words.left_out(answer) if answer.hidden else say("No lines left out.")
    if not rest:
        text = say.joined("No other findings.", left_out)
        return _nothing(answer, text)
    rows = [
        [
            badge(say(f.severity.value), GROUNDS[SEVERITIES[f.severity]]),
            f"<b>{prose(f.title)}</b><br>{prose(f.explanation)}",
        ]
        for f in rest
    ]
    plain = "\n".join(_brief(f, answer.files, say) for f in rest)
    return _in_its_language(
        answer,
        f"{plain}\n{left_out}",
        html_table(["", say("finding")], rows) + tag("p", escape(left_out), "opacity:.75;font-size:13px"),
    )


def memory(answer: Answer) -> RenderedView:
    """GPU memory when the allocation failed, as the message reports it; empty for other causes."""
    say = Wording(answer.lang)
    captures = dict(answer.root_cause.captures) if answer.root_cause else {}
    total, tried = (printed_gib(captures, name) for name in ("total", "tried"))
    if not total or tried is None:
        text = say("The log has no memory figures for the failure.")
        return _nothing(answer, text)
    parts = answer_words.memory_parts(captures, total)
    chart = stacked([(name, value) for name, value in parts if name != "free"], total)
    rows = [
        [(f"{swatch(name)} " if name != "free" else "") + escape(say(name)), f"{value:.2f}"] for name, value in parts
    ]
    rows += [[tag("b", say("requested")), tag("b", f"{tried:.2f}")], [say("total"), f"{total:.2f}"]]
    lines = [*parts, ("requested", tried), ("total", total)]
    plain = "\n".join(f"  {columns.padded(say(name), 34)} {value:6.2f} GiB" for name, value in lines)
    return _in_its_language(answer, plain, chart + html_table(["", "GiB"], rows, numeric=[1]))
