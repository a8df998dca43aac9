"""Records to text, JSON, HTML and SVG: small pure functions, the same for terminal, notebook, report and site.

Text from a log is escaped in every HTML that leaves here; nothing of it is ever markup.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from vllm_runbooks.diagnosis import value_of
from vllm_runbooks.records import (
    Answer,
    Conditions,
    Facts,
    Finding,
    Level,
    Outcome,
    Quote,
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
_FACT_UNITS = {"max_concurrency": "x", "kv_cache_blocks": "blocks", "generation_tokens_per_s_max": "tokens/s", "max_model_len": "tokens"}
_MEANINGS = {
    "slots": "slots of one layer group; not the tokens of full-length requests, and not comparable across models or releases",
    "full-length": "tokens of full-length requests (concurrency x context)",
}
_PHASE_NAMES = {
    "configure": "configure", "engine": "start the engine", "load": "load the weights", "encoder": "profile the encoder",
    "compile": "compile", "profile": "profile memory", "kv_cache": "size the KV cache", "capture": "capture CUDA graphs",
    "warm_up": "warm up", "serve": "open the server",
}  # fmt: skip
_OFFSET_COLOURS = ("#0969da", "#8250df", "#bf8700", "#1a7f37", "#cf222e", "#6e7781")


@dataclass(frozen=True)
class Shown:
    """Something to show: rich in a notebook, plain in a terminal."""

    plain: str
    html: str

    def __str__(self) -> str:
        return self.plain

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": self.plain, "text/html": self.html}


def to_json(answer: Answer) -> str:
    """The diagnosis as one JSON document."""
    return json.dumps({"schema": SCHEMA, **document(answer)}, ensure_ascii=False, indent=2)


def text(answer: Answer) -> str:
    """The diagnosis for a terminal."""
    parts = [_headline(answer)]
    if len(answer.starts) > 1:
        parts.append(_starts_text(answer))
    cause = answer.root_cause
    if cause:
        parts.append(_finding_text("ROOT CAUSE", cause, answer.files))
        if answer.remedies:
            parts.append(_remedies_text(answer.remedies))
    elif not answer.outcome.is_healthy:
        parts.append(_wrap("No cause was found in this text. " + _no_cause(answer), ""))
    if answer.first_error:
        parts.append(f"FIRST ERROR that no symptom explains\n  {_place(answer.first_error, answer.files)}: {_cut(answer.first_error.text)}")
    others = [f for f in answer.findings if f is not cause]
    if others:
        parts.append("\n".join(["ALSO FOUND", *(_brief(f, answer.files) for f in others)]))
    facts = _fact_rows(answer.facts)
    if facts:
        width = max(len(name) for name, _ in facts)
        parts.append("\n".join(["FACTS", *(f"  {name:<{width}}  {value}" for name, value in facts)]))
    if answer.hidden:
        parts.append("Left out: " + ", ".join(f"{count} x {kind}" for kind, count in answer.hidden.items()))
    return "\n\n".join(parts) + "\n"


def _no_cause(answer: Answer) -> str:
    if not answer.starts:
        return "It does not look like the log of a vLLM start."
    if answer.outcome is Outcome.UNKNOWN:
        return "The text ends before the start does: give the log up to its end, of all processes."
    return "Give the log of every process and node; if it is complete, the symptom is not in the catalog yet."


def _headline(answer: Answer) -> str:
    release = f"vLLM {answer.vllm.version} ({answer.vllm.source})" if answer.vllm.version else "vLLM release unknown"
    return f"{', '.join(answer.files)}  ·  {release}  ·  {answer.outcome.value.upper()}"


def _starts_text(answer: Answer) -> str:
    rows = [f"{len(answer.starts)} STARTS (the last is described; --start N chooses another)"]
    for number, start in enumerate(answer.starts, 1):
        cause = f"  {start.root_cause.title}" if start.root_cause else ""
        rows.append(f"  {number}  lines {start.first_line}-{start.last_line}  {start.outcome.value}{cause}")
    return "\n".join(rows)


def _wrap(body: str, indent: str = "  ") -> str:
    return "\n".join(textwrap.wrap(" ".join(body.split()), _WIDTH, initial_indent=indent, subsequent_indent=indent))


def _place(quote: Quote, files: Sequence[str]) -> str:
    name = f"{files[quote.file]}:" if len(files) > 1 else "line "
    return f"{name}{quote.line}"


def _finding_text(head: str, finding: Finding, files: Sequence[str]) -> str:
    rows = [f"{head}  {finding.title}", f"  {finding.symptom} · {finding.level.value}"]
    rows += [f"  {_place(q, files)}: {_cut(q.text)}" for q in finding.evidence]
    sections = [("Why", finding.explanation), ("Do first", finding.do_first)]
    if finding.look_in:
        sections.append(("Look for", f"{finding.look_in.what} in {finding.look_in.where}"))
    sections += [("Confirm", finding.confirm), ("Refute", finding.refute)]
    rows += [f"\n  {name}\n{_wrap(body, '    ')}" for name, body in sections if body]
    rows += [f"\n  {mark}" for mark in _condition_lines(finding.conditions)]
    return "\n".join(rows)


def _condition_lines(conditions: Conditions) -> list[str]:
    kinds = (("fits", conditions.matched), ("speaks against it", conditions.mismatched), ("not known", conditions.unknown))
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
    checks = remedies[0].checks
    rows.append(f"  Checked by linter: {checks.lint}; by planner: {checks.plan}; by vLLM itself: {checks.parser}.")
    return "\n".join(rows)


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


# What follows makes HTML. Every text that may come from a log passes through `escape`.


def _tag(name: str, body: str, style: str = "") -> str:
    return f'<{name} style="{style}">{body}</{name}>' if style else f"<{name}>{body}</{name}>"


def _badge(word: str, colour: str) -> str:
    return _tag("span", escape(word), f"background:{colour};color:#fff;border-radius:4px;padding:1px 8px;font-weight:600")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Sequence[int] = ()) -> str:
    """A table; cells are HTML already."""
    cell = "padding:4px 14px 4px 0;vertical-align:top;text-align:{}"
    aligned = ["right" if i in numeric else "left" for i in range(len(head))]
    top = "".join(_tag("th", escape(h), cell.format(a) + ";font-weight:600") for h, a in zip(head, aligned, strict=True))
    body = "".join(
        _tag("tr", "".join(_tag("td", c, cell.format(a)) for c, a in zip(row, aligned, strict=True))) for row in rows
    )
    return _tag("table", f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>", "border-collapse:collapse;font-size:14px")


def _quote_html(quote: Quote, files: Sequence[str]) -> str:
    place = _tag("span", escape(_place(quote, files)), "opacity:.65;margin-right:10px")
    line = _tag("code", escape(quote.text), "white-space:pre-wrap;overflow-wrap:anywhere;background:transparent")
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
    release = f"{answer.vllm.version} ({answer.vllm.source})" if answer.vllm.version else "unknown: the text does not print it"
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
        return Shown(said, _tag("p", escape(said)) + _unexplained(answer))
    tone = {Level.CONFIRMED: "#cf222e", Level.PROBABLE: "#9a6700", Level.POSSIBLE: "#6e7781"}[finding.level]
    head = _tag("div", f"{_badge(finding.level.value, tone)} <b>{escape(finding.title)}</b>", "font-size:16px;margin-bottom:6px")
    name = _tag("div", escape(finding.symptom), "opacity:.65;font-size:13px;margin-bottom:6px")
    quotes = "".join(_quote_html(q, answer.files) for q in finding.evidence) + _unexplained(answer)
    why = _tag("p", escape(finding.explanation), "max-width:80ch")
    look = ""
    if finding.look_in:
        look = _tag("p", f"<b>Look for</b> {escape(finding.look_in.what)} in {escape(finding.look_in.where)}")
    return Shown(_finding_text("ROOT CAUSE", finding, answer.files), head + name + quotes + why + look)


def _unexplained(answer: Answer) -> str:
    if answer.first_error is None:
        return ""
    return _tag("p", "The first error that no symptom explains:") + _quote_html(answer.first_error, answer.files)


def checks(answer: Answer) -> Shown:
    """What speaks for the root cause, what against, what is not known, and how to find out."""
    finding = answer.root_cause
    if finding is None:
        return Shown("Nothing to confirm: there is no root cause.", "<p>Nothing to confirm: there is no root cause.</p>")
    marks = (
        ("✓ fits", finding.conditions.matched),
        ("✗ speaks against it", finding.conditions.mismatched),
        ("? not in this log", finding.conditions.unknown),
    )
    rows = [[escape(mark), escape(says)] for mark, group in marks for says in group]
    rows += [["to confirm", escape(finding.confirm)], ["to refute", escape(finding.refute)]]
    lines = [*_condition_lines(finding.conditions), f"to confirm: {finding.confirm}", f"to refute: {finding.refute}"]
    return Shown("\n".join(lines), _table(["", ""], rows))


def remedies(answer: Answer) -> Shown:
    """The ways out, cheapest first, with what each costs and what has checked it."""
    finding = answer.root_cause
    first = _tag("p", f"<b>Do first.</b> {escape(finding.do_first)}", "max-width:80ch") if finding else ""
    if not answer.remedies:
        plain = f"Do first. {finding.do_first}" if finding else "No change is needed."
        return Shown(plain, first or "<p>No change is needed.</p>")
    rows = [
        [
            str(n),
            f"{escape(r.title)}" + "".join("<br>" + _tag("code", escape(_edit(e.op, e.name, e.value))) for e in r.edits),
            escape(r.cost),
        ]
        for n, r in enumerate(answer.remedies, 1)
    ]
    said = answer.remedies[0].checks
    note = f"Checked by linter: {said.lint}; by planner: {said.plan}; by vLLM itself: {said.parser}."
    html = first + _table(["", "way out", "what it costs"], rows, numeric=[0]) + _tag("p", escape(note), "opacity:.75;font-size:13px")
    head = f"Do first. {finding.do_first}\n\n" if finding else ""
    return Shown(head + _remedies_text(answer.remedies), html)


def facts(answer: Answer) -> Shown:
    """Every figure that the start printed about itself."""
    rows = _fact_rows(answer.facts)
    if not rows:
        said = "The text holds none of vLLM's figures (weights, KV cache, concurrency)."
        return Shown(said, _tag("p", escape(said)))
    plain = "\n".join(f"{name}: {value}" for name, value in rows)
    return Shown(plain, _table(["figure", "printed"], [[escape(n), escape(v)] for n, v in rows]))


def others(answer: Answer) -> Shown:
    """The findings beside the root cause, and how many lines were recognised as noise."""
    rest = [f for f in answer.findings if f is not answer.root_cause]
    noise = ", ".join(f"{count} x {kind}" for kind, count in answer.hidden.items())
    left_out = f"Recognised and left out: {noise}." if noise else "Nothing was left out."
    if not rest:
        return Shown(f"Nothing else was found. {left_out}", _tag("p", escape(f"Nothing else was found. {left_out}")))
    rows = [
        [_badge(f.severity.value, _SEVERITY_TONES[f.severity]), f"<b>{escape(f.title)}</b><br>{escape(f.explanation)}"]
        for f in rest
    ]
    plain = "\n".join(_brief(f, answer.files) for f in rest)
    return Shown(f"{plain}\n{left_out}", _table(["", "finding"], rows) + _tag("p", escape(left_out), "opacity:.75;font-size:13px"))


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
    return f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">{frame}{"".join(shapes)}</svg>'


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
    total, used, free = (_gib(captures, name) for name in ("total", "in_use", "free"))
    allocated, reserved, tried = (_gib(captures, name) for name in ("allocated", "reserved", "tried"))
    if not total or tried is None:
        said = "The text states no memory figures for the moment of the failure."
        return Shown(said, _tag("p", escape(said)))
    known = [
        ("allocated by PyTorch", allocated),
        ("reserved by PyTorch, unallocated", reserved),
        ("this process, outside PyTorch", None if used is None else max(0.0, used - (allocated or 0) - (reserved or 0))),
    ]
    taken = sum(value or 0.0 for _, value in known)
    other = max(0.0, total - (free or 0.0) - taken)
    parts = [*((name, value) for name, value in known if value is not None), ("other processes", other), ("free", free)]
    rows = [(name, value) for name, value in parts if value is not None]
    chart = bars([(name, value / total) for name, value in rows[:-1]])
    legend = _table(
        ["", "GiB"],
        [
            *([_tag("span", "■", f"color:{c}") + " " + escape(n), f"{v:.2f}"] for (n, v), c in zip(rows[:-1], _OFFSET_COLOURS, strict=False)),
            [escape("free"), f"{free:.2f}" if free is not None else "unknown"],
            [_tag("b", "asked for"), _tag("b", f"{tried:.2f}")],
            ["total", f"{total:.2f}"],
        ],
        numeric=[1],
    )  # fmt: skip
    plain = "\n".join(f"  {name:<34} {value:6.2f} GiB" for name, value in [*rows, ("asked for", tried), ("total", total)])
    return Shown(plain, chart + legend)
