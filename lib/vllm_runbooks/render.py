"""Records to text, JSON, HTML and SVG: small pure functions, the same for terminal, notebook, report and site.

Text from a log is escaped in every HTML that leaves here; nothing of it is ever markup.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from vllm_runbooks.diagnosis import value_of
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
    Start,
    document,
)

SCHEMA = 1
_WIDTH = 100
_TONES = {
    Outcome.READY: "#1a7f37", Outcome.RUNNING: "#1a7f37", Outcome.FAILED: "#cf222e", Outcome.HUNG: "#9a6700",
    Outcome.UNKNOWN: "#6e7781",
}  # fmt: skip
_SEVERITY_TONES = {Severity.FATAL: "#cf222e", Severity.DEGRADED: "#9a6700", Severity.HINT: "#0969da"}
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
_PHASE_NAMES = {
    "configure": "configure",
    "engine": "start the engine",
    "load": "load the weights",
    "encoder": "profile the encoder",
    "compile": "compile",
    "profile": "profile memory",
    "kv_cache": "size the KV cache",
    "capture": "capture CUDA graphs",
    "warm_up": "warm up",
    "serve": "open the server",
}
_OFFSET_COLOURS = ("#0969da", "#8250df", "#bf8700", "#1a7f37", "#cf222e", "#6e7781")


@dataclass(frozen=True)
class Shown:
    """Something to show: rich in a notebook, plain in a terminal."""

    plain: str
    html: str

    def __post_init__(self) -> None:
        """Let no control character of a log reach a terminal or a page."""
        object.__setattr__(self, "plain", visible(self.plain))
        object.__setattr__(self, "html", visible(self.html))

    def __str__(self) -> str:
        return self.plain

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": self.plain, "text/html": self.html}


_INVISIBLE = re.compile(
    "[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]"
)


def visible(text: str) -> str:
    """The text with control characters, and those that reorder or hide others, written as escapes."""
    return _INVISIBLE.sub(lambda match: " " if match[0] == "\t" else match[0].encode("unicode_escape").decode(), text)


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


def _noise(hidden: Mapping[str, int]) -> str:
    names = {
        "benign": ("harmless line", "harmless lines"),
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
    rows.append(_wrap(_checked(remedies[0].checks)))
    return "\n".join(rows)


def _checked(checks: Checks) -> str:
    """Who judged the remedies, and who could not."""
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
        value = getattr(facts, name)
        if value is None:
            continue
        shown = value_of(name, {}, facts) or ""
        unit = _FACT_UNITS.get(name, "")
        shown = f"{shown}{unit}" if unit == "x" else f"{shown} {unit}".strip()
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


def _quote_html(place: str, said: str) -> str:
    place = _tag("span", escape(visible(place)), "opacity:.65;margin-right:10px")
    line = _tag("code", escape(visible(said)), "white-space:pre-wrap;overflow-wrap:anywhere;background:transparent")
    style = "border-left:3px solid #cf222e;padding:2px 0 2px 10px;margin:4px 0;font-size:13px"
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
    if not answer.remedies:
        said = "No change is needed." if answer.outcome.is_healthy else f"No way out is known. {_lead(answer)}"
        return Shown(f"Do first. {finding.do_first}" if finding else said, first or _tag("p", escape(said)))
    rows = [
        [
            str(n),
            f"{_prose(r.title)}"
            + "".join("<br>" + _tag("code", escape(_edit(e.op, e.name, e.value))) for e in r.edits),
            _prose(r.cost),
        ]
        for n, r in enumerate(answer.remedies, 1)
    ]
    note = _checked(answer.remedies[0].checks)
    html = (
        first
        + _table(["", "way out", "what it costs"], rows, numeric=[0])
        + _tag("p", escape(note), "opacity:.75;font-size:13px")
    )
    head = f"Do first. {finding.do_first}\n\n" if finding else ""
    return Shown(head + _remedies_text(answer.remedies), html)


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
        name = _PHASE_NAMES.get(phase.name, phase.name)
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
