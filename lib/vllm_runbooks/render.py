"""Records to text, JSON, HTML and SVG: small pure functions, the same for terminal, notebook, report and site.

Text from a log is escaped in every HTML that leaves here; nothing of it is ever markup.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from vllm_runbooks import comparison, pictures
from vllm_runbooks.diagnosis import value_of
from vllm_runbooks.display import SCHEMA, Shown, visible
from vllm_runbooks.records import (
    Answer,
    Checks,
    Conditions,
    Evidence,
    Facts,
    Finding,
    JudgedClaim,
    Level,
    Outcome,
    Quote,
    RankFacts,
    Remedy,
    Severity,
    Start,
    Truth,
    document,
)

_WIDTH = 100
_TONES = {
    Outcome.READY: "#1a7f37", Outcome.RUNNING: "#1a7f37", Outcome.FAILED: "#cf222e", Outcome.HUNG: "#9a6700",
    Outcome.UNKNOWN: "#6e7781",
}  # fmt: skip
_SEVERITY_TONES = {Severity.FATAL: "#cf222e", Severity.DEGRADED: "#9a6700", Severity.HINT: "#0969da"}
_TRUTH_TONES = {Truth.RIGHT: "#1a7f37", Truth.WRONG: "#cf222e", Truth.UNKNOWN: "#6e7781"}
_FACT_NAMES = {
    "model": "model", "architecture": "architecture", "quantization": "quantisation", "weights_gib": "weights",
    "activation_gib": "activation peak", "non_torch_gib": "outside PyTorch", "cuda_graph_gib": "CUDA graphs",
    "cuda_graph_estimated_gib": "CUDA graphs, estimated", "kv_cache_gib": "KV cache", "kv_cache_tokens": "KV cache",
    "kv_cache_blocks": "KV cache", "max_concurrency": "concurrency", "gpu_total_gib": "GPU memory",
    "gpu_memory_utilization": "utilisation", "max_model_len": "context", "tensor_parallel_size": "tensor parallel",
    "pipeline_parallel_size": "pipeline parallel", "data_parallel_size": "data parallel",
    "executor_backend": "executor", "load_seconds": "load", "startup_seconds": "start to ready",
    "generation_tokens_per_s_max": "generation, best",
}  # fmt: skip
_FACT_UNITS = {
    "max_concurrency": "x",
    "kv_cache_blocks": "blocks",
    "generation_tokens_per_s_max": "tokens/s",
    "max_model_len": "tokens",
}
_MEANINGS = {
    "slots": "slots of one layer group, not tokens of full-length requests: not comparable across models or releases",
    "full-length": "tokens of full-length requests (concurrency x context)",
}
_OFFSET_COLOURS = ("#0969da", "#8250df", "#bf8700", "#1a7f37", "#cf222e", "#6e7781")


def to_json(answer: Answer) -> str:
    """The diagnosis as one JSON document."""
    return json.dumps({"schema": SCHEMA, **document(answer)}, ensure_ascii=False, indent=2)


def text(answer: Answer) -> str:
    """The diagnosis for a terminal."""
    parts = [_headline(answer)]
    if len(answer.starts) > 1:
        parts.append(_starts_text(answer))
    cause = answer.root_cause
    parts += _first_error_text(answer)
    if cause:
        parts.append(_finding_text(answer, cause))
        if answer.remedies:
            parts.append(_remedies_text(answer.remedies))
    elif not answer.outcome.is_healthy:
        parts.append(_wrap("No cause was found in this text. " + _no_cause(answer), ""))
    if answer.notes:
        parts.append(_notes_text(answer.notes))
    others = [f for f in answer.findings if f != cause]
    if others:
        parts.append("\n".join(["ALSO FOUND", *(_brief(f, answer.files) for f in others)]))
    facts = _fact_rows(answer.facts)
    if facts:
        width = max(len(name) for name, _ in facts)
        parts.append("\n".join(["FACTS", *(f"  {name:<{width}}  {value}" for name, value in facts)]))
    if ranks := _rank_rows(answer.ranks):
        widths = [max(len(row[i]) for row in ranks) for i in range(len(ranks[0]))]
        lines = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in ranks]
        parts.append("\n".join(["RANKS, in GiB", *(f"  {line}" for line in lines)]))
    if answer.hidden:
        parts.append(f"Recognised and left out: {_noise(answer.hidden)}.")
    return visible("\n\n".join(parts) + "\n")


def interim(answer: Answer) -> str:
    """One line on a start that is still being written."""
    last = answer.starts[-1] if answer.starts else None
    if last is None:
        return "no sign of vLLM yet"
    cause, phase = answer.root_cause, pictures.PHASE_NAMES.get(last.phase or "", "begun")
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
        return f"Read the first error: {_place(answer.first_error, answer.files)}: {_cut(answer.first_error.text)}"
    return _no_cause(answer)


def _headline(answer: Answer) -> str:
    release = f"vLLM {answer.vllm.version} ({answer.vllm.source})" if answer.vllm.version else "vLLM release unknown"
    return f"{', '.join(answer.files)}  ·  {release}  ·  {answer.outcome.value.upper()}"


def _first_error_text(answer: Answer) -> list[str]:
    if answer.first_error is None:
        return []
    place = _place(answer.first_error, answer.files)
    # Whole, where other quotations are cut: these words are all there is to go by.
    return [f"FIRST ERROR that no symptom explains: read this first\n{_wrap(f'{place}: {answer.first_error.text}')}"]


def _starts_text(answer: Answer) -> str:
    files = {start.file for start in answer.starts}
    is_one = len(files) == len(answer.starts)
    which = "the last" if len(files) == 1 else "the last of each file"
    rows = [f"{len(answer.starts)} STARTS ({which} is described; --start N chooses another)"]
    if is_one:
        rows = [f"{len(files)} LOGS OF ONE START"]
    for number, start in enumerate(answer.starts, 1):
        cause = f"  {start.root_cause.title}" if start.root_cause else ""
        name = f"  {answer.files[start.file]}" if len(answer.files) > 1 else ""
        mark = "" if is_one else f"  {number}"
        rows.append(f"{mark}{name}  lines {start.first_line}-{start.last_line}  {start.outcome.value}{cause}")
    return "\n".join(rows)


def _wrap(body: str, indent: str = "  ") -> str:
    return "\n".join(textwrap.wrap(" ".join(body.split()), _WIDTH, initial_indent=indent, subsequent_indent=indent))


def _place(quote: Quote, files: Sequence[str]) -> str:
    name = f"{files[quote.file]}:" if len(files) > 1 else "line "
    return f"{name}{quote.line}"


def _finding_text(answer: Answer, finding: Finding) -> str:
    files = answer.files
    is_nearest = finding.look_in is not None and answer.first_error is None
    head = "ROOT CAUSE" if not finding.look_in else "CLOSEST TO THE CAUSE" if is_nearest else "NOTICE OF THE FAILURE"
    rows = [f"{head}  {finding.title}", f"  {finding.symptom} · {finding.level.value}"]
    rows += [f"  {place}: {_cut(said)}" for place, said in _quotes(finding, files)]
    sections = [("Why", finding.explanation), ("Do first", finding.do_first)]
    if finding.look_in and is_nearest:
        sections.append(("Look for", f"{finding.look_in.what} in {finding.look_in.where}"))
    sections += [("Confirm", finding.confirm), ("Refute", finding.refute)]
    rows += [f"\n  {name}\n{_wrap(body, '    ')}" for name, body in sections if body]
    if marks := _condition_lines(finding.conditions):
        rows.append("\n  Conditions\n" + "\n".join(_wrap(mark, "    ") for mark in marks))
    return "\n".join(rows)


def _quotes(finding: Finding, files: Sequence[str]) -> list[tuple[str, str]]:
    """Place and words of the evidence; words that stand in several places once."""
    places: dict[str, list[str]] = {}
    for quote in finding.evidence:
        places.setdefault(quote.text, []).append(_place(quote, files))
    return [(" and ".join(found), said) for said, found in places.items()]


def _condition_lines(conditions: Conditions) -> list[str]:
    kinds = (
        ("fits", conditions.matched),
        ("speaks against it", conditions.mismatched),
        ("not in this log", conditions.unknown),
    )
    return [f"{kind}: {says}" for kind, group in kinds for says in group]


def _cut(line: str, width: int = 160) -> str:
    line = " ".join(line.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _brief(finding: Finding, files: Sequence[str]) -> str:
    place = f" ({_place(finding.evidence[0], files)})" if finding.evidence else ""
    return f"  {finding.severity.value}: {finding.title}{place}\n{_wrap(finding.explanation, '    ')}"


def _remedies_text(remedies: Sequence[Remedy]) -> str:
    rows = ["WAYS OUT, cheapest first"]
    for number, remedy in enumerate(remedies, 1):
        rows.append(f"  {number}. {remedy.title}")
        rows += [f"       {_edit(e.op, e.name, e.value)}" for e in remedy.edits]
        rows.append(_wrap(f"Costs: {remedy.cost}", "     "))
        if remedy.command is not None:
            rows += ["", *(f"       {line}" for line in remedy.command.splitlines()), ""]
    rows += [_wrap(said) for said in _checked(remedies)]
    return "\n".join(rows)


def _notes_text(notes: Sequence[str]) -> str:
    return "\n".join(["NOTE" if len(notes) == 1 else "NOTES", *(_wrap(note) for note in notes)])


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
    for name, label in _FACT_NAMES.items():
        shown = _fact(name, facts)
        if shown is None:
            continue
        if name == "max_concurrency" and facts.max_concurrency_tokens:
            shown += f" of {facts.max_concurrency_tokens:,} tokens each"
        if name == "kv_cache_tokens" and facts.kv_cache_tokens_meaning:
            shown += f" ({_MEANINGS[facts.kv_cache_tokens_meaning]})"
        rows.append((label, shown))
    return rows


def _fact(name: str, facts: Facts) -> str | None:
    """A fact with its unit; None where it is not known."""
    shown = value_of(name, {}, facts)
    unit = _FACT_UNITS.get(name, "")
    return shown if shown is None or not unit else f"{shown}{unit}" if unit == "x" else f"{shown} {unit}"


def _rank_rows(ranks: Sequence[RankFacts]) -> list[list[str]]:
    """A head and a row for each rank, with the figures in GiB that any of them printed; empty for fewer than two."""
    if len(ranks) < 2:
        return []
    names = [n for n in _FACT_NAMES if n.endswith("_gib") and any(getattr(r, n, None) is not None for r in ranks)]
    figures = [["" if (v := getattr(r, n)) is None else f"{v:.2f}" for n in names] for r in ranks]
    shown = ["unknown" if r.rank is None else str(r.rank) for r in ranks]
    return [["rank", *(_FACT_NAMES[n] for n in names)], *([s, *row] for s, row in zip(shown, figures, strict=True))]


# What follows makes HTML. Every text that may come from a log passes through `escape`.


def _tag(name: str, body: str, style: str = "") -> str:
    return f'<{name} style="{style}">{body}</{name}>' if style else f"<{name}>{body}</{name}>"


def _prose(text: str) -> str:
    """A catalog's sentence as HTML: what stands between backticks is code."""
    return re.sub(r"`([^`]{1,200})`", r"<code>\1</code>", escape(text))


def _badge(word: str, colour: str) -> str:
    return _tag(
        "span", escape(word), f"background:{colour};color:#fff;border-radius:4px;padding:1px 8px;font-weight:600"
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Sequence[int] = ()) -> str:
    """A table; cells are HTML already."""
    cell = "padding:4px 14px 4px 0;vertical-align:top;text-align:{}"
    aligned = ["right" if i in numeric else "left" for i in range(len(head))]
    top = "".join(
        _tag("th", escape(h), cell.format(a) + ";font-weight:600") for h, a in zip(head, aligned, strict=True)
    )
    body = "".join(
        _tag("tr", "".join(_tag("td", c, cell.format(a)) for c, a in zip(row, aligned, strict=True))) for row in rows
    )
    return _tag(
        "table", f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>", "border-collapse:collapse;font-size:14px"
    )


def _quote_html(place: str, said: str, tone: str = "#cf222e") -> str:
    place = _tag("span", escape(visible(place)), "opacity:.65;margin-right:10px")
    line = _tag("code", escape(visible(said)), "white-space:pre-wrap;overflow-wrap:anywhere;background:transparent")
    style = f"border-left:3px solid {tone};padding:2px 0 2px 10px;margin:4px 0;font-size:13px"
    return _tag("div", place + line, style)


def starts(answer: Answer) -> Shown:
    """What the text holds: every start, its lines, how it ended."""
    rows = [
        [
            str(number),
            escape(answer.files[s.file]),
            f"{s.first_line}-{s.last_line}",
            _badge(s.outcome.value, _TONES[s.outcome]),
            escape(s.root_cause.title) if s.root_cause else "",
        ]
        for number, s in enumerate(answer.starts, 1)
    ]
    release = (
        f"{answer.vllm.version} ({answer.vllm.source})"
        if answer.vllm.version
        else "unknown: the text does not print it"
    )
    html = _table(["start", "file", "lines", "outcome", "root cause"], rows, numeric=[0]) + _tag(
        "p", f"vLLM release: {escape(release)}", "font-size:14px"
    )
    return Shown(f"{_headline(answer)}\n{_starts_text(answer) if len(answer.starts) > 1 else ''}".strip(), html)


def cause(answer: Answer) -> Shown:
    """The root cause with its evidence, or what is known without one."""
    finding = answer.root_cause
    if finding is None:
        if answer.outcome.is_healthy:
            said = f"The start is healthy ({answer.outcome.value}): there is no root cause."
        else:
            said = "No cause was found in this text. " + _no_cause(answer)
        return Shown("\n\n".join([*_first_error_text(answer), said]), _tag("p", escape(said)) + _unexplained(answer))
    tone = {Level.CONFIRMED: "#cf222e", Level.PROBABLE: "#9a6700", Level.POSSIBLE: "#6e7781"}[finding.level]
    head = _tag(
        "div", f"{_badge(finding.level.value, tone)} <b>{_prose(finding.title)}</b>", "font-size:16px;margin-bottom:6px"
    )
    name = _tag("div", escape(finding.symptom), "opacity:.65;font-size:13px;margin-bottom:6px")
    quotes = "".join(_quote_html(place, said) for place, said in _quotes(finding, answer.files)) + _unexplained(answer)
    why = _tag("p", _prose(finding.explanation), "max-width:80ch")
    look = ""
    if finding.look_in and answer.first_error is None:
        look = _tag("p", f"<b>Look for</b> {_prose(finding.look_in.what)} in {_prose(finding.look_in.where)}")
    return Shown(
        "\n\n".join([*_first_error_text(answer), _finding_text(answer, finding)]), head + name + quotes + why + look
    )


def _unexplained(answer: Answer) -> str:
    if answer.first_error is None:
        return ""
    return _tag("p", "The first error that no symptom explains:") + _quote_html(
        _place(answer.first_error, answer.files), answer.first_error.text
    )


def checks(answer: Answer) -> Shown:
    """What speaks for the root cause, what against, what is not known, and how to find out."""
    finding = answer.root_cause
    if finding is None:
        said = "Nothing to confirm: the start is healthy, there is no root cause."
        if not answer.outcome.is_healthy:
            said = f"Nothing to confirm: no root cause is known. {_lead(answer)}"
        return Shown(said, _tag("p", escape(said)))
    marks = (
        ("✓ fits", finding.conditions.matched),
        ("✗ speaks against it", finding.conditions.mismatched),
        ("? not in this log", finding.conditions.unknown),
    )
    rows = [[escape(mark), _prose(says)] for mark, group in marks for says in group]
    rows += [["to confirm", _prose(finding.confirm)], ["to refute", _prose(finding.refute)]]
    lines = [*_condition_lines(finding.conditions), f"to confirm: {finding.confirm}", f"to refute: {finding.refute}"]
    return Shown("\n".join(lines), _table(["", ""], rows))


def remedies(answer: Answer) -> Shown:
    """The ways out, cheapest first, with what each costs and what has checked it."""
    finding = answer.root_cause
    first = _tag("p", f"<b>Do first.</b> {_prose(finding.do_first)}", "max-width:80ch") if finding else ""
    noted = "".join(_tag("p", f"<b>Note.</b> {_prose(note)}", "max-width:80ch") for note in answer.notes)
    below = f"\n\n{_notes_text(answer.notes)}" if answer.notes else ""
    if not answer.remedies:
        said = "No change is needed." if answer.outcome.is_healthy else f"No way out is known. {_lead(answer)}"
        said = f"Do first. {finding.do_first}" if finding else said
        return Shown(said + below, (first or _tag("p", escape(said))) + noted)
    rows = [
        [
            str(n),
            f"{_prose(r.title)}"
            + "".join("<br>" + _tag("code", escape(_edit(e.op, e.name, e.value))) for e in r.edits)
            + (_tag("pre", escape(r.command), "white-space:pre-wrap;text-align:left") if r.command else ""),
            _prose(r.cost),
        ]
        for n, r in enumerate(answer.remedies, 1)
    ]
    judged = [_tag("p", escape(said), "opacity:.75;font-size:13px") for said in _checked(answer.remedies)]
    html = first + _table(["", "way out", "what it costs"], rows, numeric=[0]) + "".join(judged) + noted
    head = f"Do first. {finding.do_first}\n\n" if finding else ""
    return Shown(head + _remedies_text(answer.remedies) + below, html)


def facts(answer: Answer) -> Shown:
    """Every figure that the start printed about itself."""
    rows = _fact_rows(answer.facts)
    if not rows:
        said = "The text holds none of vLLM's figures (weights, KV cache, concurrency)."
        return Shown(said, _tag("p", escape(said)))
    plain = "\n".join(f"{name}: {value}" for name, value in rows)
    html = _table(["figure", "printed"], [[escape(n), escape(v)] for n, v in rows])
    if ranks := _rank_rows(answer.ranks):
        head, *body = ranks
        html += _tag("p", "By rank, in GiB:") + _table(head, body, numeric=range(len(head)))
        plain += "\n" + "\n".join("  ".join(row) for row in ranks)
    return Shown(plain, html)


def others(answer: Answer) -> Shown:
    """The findings beside the root cause, and how many lines were recognised as noise."""
    rest = [f for f in answer.findings if f != answer.root_cause]
    left_out = f"Recognised and left out: {_noise(answer.hidden)}." if answer.hidden else "Nothing was left out."
    if not rest:
        return Shown(f"Nothing else was found. {left_out}", _tag("p", escape(f"Nothing else was found. {left_out}")))
    rows = [
        [_badge(f.severity.value, _SEVERITY_TONES[f.severity]), f"<b>{_prose(f.title)}</b><br>{_prose(f.explanation)}"]
        for f in rest
    ]
    plain = "\n".join(_brief(f, answer.files) for f in rest)
    return Shown(
        f"{plain}\n{left_out}",
        _table(["", "finding"], rows) + _tag("p", escape(left_out), "opacity:.75;font-size:13px"),
    )


def timeline(starts: Sequence[Start], *, start: int = 0) -> Shown:
    """The phases of one of the starts (numbered from 1; 0: the last) with their durations, as a table with bars."""
    phases = starts[start - 1].timeline if starts else ()
    if not phases:
        said = "The text shows no phase of the start."
        return Shown(said, _tag("p", escape(said)))
    seconds = [p.printed_seconds if p.printed_seconds is not None else p.clock_seconds for p in phases]
    longest = max((s for s in seconds if s is not None), default=0.0) or 1.0
    rows, plain = [], []
    for phase, spent in zip(phases, seconds, strict=True):
        shown = "unknown" if spent is None else f"{spent:.1f} s"
        bar = bars([(phase.name, (spent or 0.0) / longest)], width=180, height=12) if spent else ""
        name = pictures.PHASE_NAMES.get(phase.name, phase.name)
        rows.append([escape(name), str(phase.first.line), escape(phase.started or ""), escape(shown), bar])
        plain.append(f"  {name:<22} {shown:>10}  line {phase.first.line}")
    html = _table(["phase", "line", "began", "took", ""], rows, numeric=[1, 3])
    return Shown("\n".join(plain), html)


def bars(parts: Sequence[tuple[str, float]], *, width: int = 520, height: int = 26) -> str:
    """A stacked bar as SVG; each part is a name and its share of the whole (0 to 1)."""
    x, shapes = 0.0, []
    for (name, share), colour in zip(parts, _OFFSET_COLOURS * (len(parts) // len(_OFFSET_COLOURS) + 1), strict=False):
        wide = max(0.0, min(share, 1.0)) * width
        title = f"<title>{escape(name)}</title>"
        shapes.append(f'<rect x="{x:.1f}" y="0" width="{wide:.1f}" height="{height}" fill="{colour}">{title}</rect>')
        x += wide
    frame = f'<rect x="0" y="0" width="{width}" height="{height}" fill="#8884" />'
    box = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg {box} role="img">{frame}{"".join(shapes)}</svg>'


def _gib(captures: dict[str, str], name: str) -> float | None:
    for suffix, divisor in (("gib", 1.0), ("mib", 1024.0), ("kib", 1024.0**2), ("bytes", 1024.0**3)):
        printed = captures.get(f"{name}_{suffix}")
        if printed is not None:
            try:
                return float(printed.replace(",", "")) / divisor
            except ValueError:
                return None
    return None


def memory(answer: Answer) -> Shown:
    """The GPU's memory when the allocation failed, as the message states it; empty for other causes."""
    captures = dict(answer.root_cause.captures) if answer.root_cause else {}
    total, tried = (_gib(captures, name) for name in ("total", "tried"))
    if not total or tried is None:
        said = "The text states no memory figures for the moment of the failure."
        return Shown(said, _tag("p", escape(said)))
    parts = _memory_parts(captures, total)
    chart = bars([(name, value / total) for name, value in parts if name != "free"])
    colours = dict(zip((name for name, _ in parts if name != "free"), _OFFSET_COLOURS, strict=False))
    rows = [
        [(_tag("span", "■", f"color:{colours[name]}") + " " if name in colours else "") + escape(name), f"{value:.2f}"]
        for name, value in parts
    ]
    rows += [[_tag("b", "asked for"), _tag("b", f"{tried:.2f}")], ["total", f"{total:.2f}"]]
    lines = [*parts, ("asked for", tried), ("total", total)]
    plain = "\n".join(f"  {name:<34} {value:6.2f} GiB" for name, value in lines)
    return Shown(plain, chart + _table(["", "GiB"], rows, numeric=[1]))


def _memory_parts(captures: dict[str, str], total: float) -> list[tuple[str, float]]:
    """What the message says about the GPU's memory, in parts that add up to the total; only what follows from it."""
    used, free, allocated, reserved = (_gib(captures, name) for name in ("in_use", "free", "allocated", "reserved"))
    parts = [("allocated by PyTorch", allocated), ("reserved by PyTorch, unallocated", reserved)]
    if used is not None:
        own = "this process, outside PyTorch" if allocated is not None else "this process"
        parts.append((own, max(0.0, used - (allocated or 0.0) - (reserved or 0.0))))
    rest = max(0.0, total - sum(value or 0.0 for _, value in parts) - (free or 0.0))
    if rest >= 0.005:
        parts.append(("other processes" if used is not None and free is not None else "not stated", rest))
    parts.append(("free", free))
    return [(name, value) for name, value in parts if value is not None]


# Several starts side by side, and what a document says about them.

_SIDE_BY_SIDE = (
    "quantization", "gpu_memory_utilization", "max_model_len", "weights_gib", "kv_cache_gib", "kv_cache_tokens",
    "max_concurrency", "cuda_graph_gib", "cuda_graph_estimated_gib", "activation_gib", "non_torch_gib", "gpu_total_gib",
    "load_seconds", "startup_seconds", "generation_tokens_per_s_max",
)  # fmt: skip
_NO_START = "The text holds no start of vLLM."


def _note(said: str) -> str:
    return _tag("p", escape(said), "opacity:.75;font-size:13px;max-width:80ch")


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]], note: str = "", *, is_numeric: bool = False) -> Shown:
    """A table of plain cells, in columns as wide as they need in a terminal; numbers stand to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    numeric = range(1, len(head)) if is_numeric else range(0)
    lines = [
        "  ".join(c.rjust(widths[i]) if i in numeric else c.ljust(widths[i]) for i, c in enumerate(row)).rstrip()
        for row in (head, *rows)
    ]
    html = _table(head, [[escape(cell) for cell in row] for row in rows], numeric=numeric)
    return Shown("\n".join([*lines, *([note] if note else [])]), html + (_note(note) if note else ""))


def side_by_side(starts: Sequence[Start]) -> Shown:
    """The figures of every start, a column each."""
    if not starts:
        return Shown(_NO_START, _tag("p", _NO_START))
    head = ["figure", *(pictures.label(start, number) for number, start in enumerate(starts, 1))]
    rows = [
        [_FACT_NAMES[name], *(shown or "" for shown in shown_facts)]
        for name in _SIDE_BY_SIDE
        if any(shown_facts := [_fact(name, start.facts) for start in starts])
    ]
    outcomes = ["outcome", *(start.outcome.value for start in starts)]
    return _grid(head, [outcomes, *rows], "An empty cell: this start does not print the figure.")


def settings(starts: Sequence[Start]) -> Shown:
    """The settings in which starts differ, a column each, as printed."""
    rows = [
        [name, *("" if value is None else _setting(value) for value in values)]
        for name, values in comparison.differing(starts).items()
        if name != "model_tag"  # the model once more
    ]
    if not rows:
        said = "The starts do not differ in any printed setting." if len(starts) > 1 else "There is nothing to compare."
        return Shown(said, _tag("p", said))
    head = ["setting", *(pictures.label(start, number) for number, start in enumerate(starts, 1))]
    return _grid(head, rows, "An empty cell: not set, so this release's default, or a value that is not printed.")


def _setting(value: Any) -> str:
    """A setting's value; of a long one, such as a path, both ends: files of one name lie in different places."""
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    shown = " ".join(shown.split())
    return shown if len(shown) <= 28 else f"{shown[:12]}…{shown[-15:]}"


def timelines(starts: Sequence[Start]) -> Shown:
    """The phases of every start on one scale, as a picture and in seconds."""
    picture = pictures.timelines(starts)
    if not picture:
        said = "The text shows no phases with their times."
        return Shown(said, _tag("p", said))
    spent = [{phase.name: pictures.spent(phase) for phase in start.timeline} for start in starts]
    rows = [
        [shown, *("" if (s := by.get(name)) is None else f"{s:.0f} s" for by in spent)]
        for name, shown in pictures.PHASE_NAMES.items()
        if any(name in by for by in spent)
    ]
    table = _grid(
        ["phase", *(pictures.label(start, number) for number, start in enumerate(starts, 1))], rows, is_numeric=True
    )
    return Shown(table.plain, picture + table.html)


def memories(starts: Sequence[Start], evidence: Evidence | None = None, *, gpu_gib: float = 0.0) -> Shown:
    """What every start takes of the GPU's memory, as a picture and in GiB.

    The GPU's size is what the log prints, else `gpu_gib`, else what the recorded case gives.
    """
    totals = [_gpu_total(start.facts, evidence, gpu_gib) for start in starts]
    picture = pictures.memories(starts, totals)
    if not picture:
        said = "The text holds none of vLLM's memory figures (weights, KV cache)."
        return Shown(said, _tag("p", escape(said)))
    rows = []
    for number, (start, total) in enumerate(zip(starts, totals, strict=True), 1):
        facts = start.facts
        share = facts.gpu_memory_utilization
        budget = share * total if share is not None and total else None
        rest = None
        if budget is not None and facts.weights_gib is not None and facts.kv_cache_gib is not None:
            rest = budget - facts.weights_gib - facts.kv_cache_gib
        figures = (facts.weights_gib, facts.kv_cache_gib, facts.cuda_graph_gib, budget, rest, total)
        rows.append([pictures.label(start, number), *("" if v is None else f"{v:.2f}" for v in figures)])
    head = ["GiB", "weights", "KV cache", "CUDA graphs", "budget", "budget left", "GPU"]
    note = (
        "The budget, a mark in the picture, is utilisation times the GPU's memory. What it leaves beside weights and "
        "KV cache goes to activations and other libraries, and in some releases to the CUDA graphs, too."
    )
    if not any(totals):
        note = "The GPU's memory is not in this log, so the budget and what is left of it are not known."
    table = _grid(head, rows, note, is_numeric=True)
    return Shown(table.plain, picture + table.html)


def _gpu_total(facts: Facts, evidence: Evidence | None, gpu_gib: float = 0.0) -> float | None:
    judged = evidence.case.claims if evidence and evidence.case else None
    given = next((g.value for g in judged.given if g.name == "gpu_total_gib"), None) if judged else None
    total = facts.gpu_total_gib or gpu_gib or given
    return float(total) if isinstance(total, (int, float)) and total > 0 else None


def throughputs(starts: Sequence[Start]) -> Shown:
    """Generated tokens per second of every start over its periodic lines, as a picture and in figures."""
    picture = pictures.throughputs(starts)
    if not picture:
        said = "The text holds no periodic line with a throughput."
        return Shown(said, _tag("p", said))
    rows = []
    for number, start in enumerate(starts, 1):
        rates = [sample.generation_tokens_per_s for sample in start.throughput]
        kept = [r for r, is_steady in zip(rates, comparison.steady(start.throughput), strict=True) if is_steady]
        span = f"{min(kept):g} to {max(kept):g}" if kept else "unknown"
        best = f"{max(rates):g}" if rates else ""
        rows.append([pictures.label(start, number), str(len(rates)), str(len(kept)), span if rates else "", best])
    head = ["tokens/s", "periodic lines", "busy throughout", "of these", "best line"]
    note = (
        "Each line is an average over the time since the line before. A filled point was busy from one line to the "
        "next; a hollow one may cover idle time as well, so the rate while it worked may have been higher."
    )
    table = _grid(head, rows, note, is_numeric=True)
    return Shown(table.plain, picture + table.html)


def comparable(starts: Sequence[Start]) -> Shown:
    """Which figures of these starts may be compared, and why the others may not."""
    found = comparison.comparable(starts)
    if not found:
        said = "There is one start, and nothing to compare it with." if starts else _NO_START
        return Shown(said, _tag("p", said))
    words = {True: "yes", False: "no", None: "unknown"}
    tones = {True: Truth.RIGHT, False: Truth.WRONG, None: Truth.UNKNOWN}
    rows = [[escape(c.figure), _badge(words[c.may], _TRUTH_TONES[tones[c.may]]), escape(c.why)] for c in found]
    plain = "\n".join(f"  {c.figure:<28} {words[c.may]:<8} {c.why}" for c in found)
    return Shown(plain, _table(["figure", "comparable", "why"], rows))


def claims(judged: Sequence[JudgedClaim]) -> Shown:
    """What a document says, each statement with its verdict, its numbers and the lines that they come from."""
    if not judged:
        said = "No claims are judged here: they belong to the recorded case that this runbook is for."
        return Shown(said, _tag("p", said))
    plain, blocks = [], []
    for claim in judged:
        numbers = " · ".join(_figure(name, printed) for name, printed in claim.figures.items())
        why = f"Not decided: {claim.undecided}." if claim.undecided else ""
        other = "" if claim.verdict is claim.expected else f"Expected: {claim.expected.value}."
        lines = [(f"line {quote.line}", quote.text) for quote in claim.quotes]
        basis = [said[:1].upper() + said[1:] for said in claim.basis]
        plain.append(
            "\n".join(
                [
                    f"{claim.verdict.value.upper()}  {claim.says}",
                    *(_wrap(said, "    ") for said in (numbers, why, claim.because, other, *basis) if said),
                    *(f"    {place}: {_cut(said)}" for place, said in lines),
                ]
            )
        )
        head = f"{_badge(claim.verdict.value, _TRUTH_TONES[claim.verdict])} <b>{_prose(claim.says)}</b>"
        blocks.append(
            _tag("div", head, "font-size:15px;margin-top:18px;max-width:80ch")
            + (_tag("div", escape(numbers), "font-size:13px;opacity:.75;margin-top:4px") if numbers else "")
            + _tag("p", _prose(" ".join(filter(None, [why, claim.because, other]))), "max-width:80ch;margin:4px 0")
            + "".join(
                _tag("div", escape(said), "font-size:13px;opacity:.75;max-width:80ch;overflow-wrap:anywhere")
                for said in basis
            )
            + "".join(_quote_html(place, _cut(said), "#8886") for place, said in lines)
        )
    return Shown("\n\n".join(plain), "".join(blocks))


def _figure(name: str, printed: str) -> str:
    """A named number with its unit: needed_gib is "needed 53.49 GiB"."""
    stem = name.rpartition("_")[0]
    measured = value_of(stem, {name: printed}, Facts()) if stem else None
    return f"{(stem if measured else name).replace('_', ' ')} {measured or printed}"


def free_memory(
    answer: Answer,
    evidence: Evidence | None = None,
    *,
    gpu_gib: float = 0.0,
    utilizations: Sequence[float] = (0.9, 0.75, 0.675),
) -> Shown:
    """Free memory before and after profiling, as the assertion states it, beside what budgets would ask for."""
    captures = dict(answer.root_cause.captures) if answer.root_cause else {}
    before, after = (_gib(captures, name) for name in ("initial", "current"))
    if before is None or after is None:
        said = "The text does not state the free memory before and after profiling."
        return Shown(said, _tag("p", said))
    total = _gpu_total(answer.facts, evidence, gpu_gib)
    budgets = {f"utilisation {share:g}": share * total for share in utilizations} if total else {}
    rows = [["free before profiling", f"{before:.2f}"], ["free after profiling", f"{after:.2f}"]]
    rows.append(["freed meanwhile", f"{after - before:+.2f}"])
    rows += [[f"budget at {name}", f"{gib:.2f}"] for name, gib in budgets.items()]
    rows += [["GPU", f"{total:.2f}"]] if total else []
    note = "" if total else "The GPU's memory is not in this log, so no budget can be drawn beside it."
    table = _grid(["", "GiB"], rows, note, is_numeric=True)
    return Shown(table.plain, pictures.free_memory(before, after, total, budgets) + table.html)
