"""Plans as text, JSON and HTML: small pure functions, the same for terminal, notebook, report and site."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from vllm_runbooks import pictures
from vllm_runbooks.display import SCHEMA, Shown, visible
from vllm_runbooks.plan_records import Find, Found, Layouts, Plan, PlannedCache, PlannedRank, PlannedTerm, Speed
from vllm_runbooks.planning.terms import GIB, NOTHING
from vllm_runbooks.printed import masked
from vllm_runbooks.records import CommandRelease, Compared, ComparedTerm, Start, document

if TYPE_CHECKING:
    from vllm_runbooks.deployment.confirmation import Confirmation
    from vllm_runbooks.planning.budget import Budget
    from vllm_runbooks.planning.inverse import WayOut
    from vllm_runbooks.plans import Request

Viewed = Plan | Layouts | Compared | Found
"""What the planner says, and these views show."""
_WIDTH = 80
_ROOM = {True: "enough for a request", False: "too little"}
"""What a card alone has; whether the start fits is said of the plan."""
_VERDICTS = {True: "fits", False: "does not fit", None: "not certain"}
_TONES = {True: "#1a7f37", False: "#cf222e", None: "#9a6700"}
_ANSWERS = {True: "yes", False: "no", None: "?"}
_MEANINGS = {"slots": "slots of one layer group", "full-length": "tokens of full-length requests"}
_FOUND = {
    Find.CONTEXT: "longest context",
    Find.CONCURRENCY: "requests at once",
    Find.GPUS: "cards needed",
    Find.UTILIZATION: "lowest utilisation",
}


def to_json(record: Viewed) -> str:
    """The contract's JSON document; what a question has no use for is null."""
    return json.dumps({"schema": SCHEMA, **document(record)}, ensure_ascii=False, indent=2)


def headline(plan: Plan) -> str:
    """The answer in one line."""
    if plan.legal is False:
        return f"not legal: {next(iter(plan.reasons), 'this release refuses it')}"
    verdict = _VERDICTS[plan.fits]
    why = {True: _what_it_gives, False: _why_not, None: _why_uncertain}[plan.fits](plan)
    return f"{verdict}: {why}"


def _what_it_gives(plan: Plan) -> str:
    cache, at_once = plan.kv_cache, pictures.requests_at_once(plan)
    is_shared = plan.total_concurrency is not None
    each_card = " on each card" if is_shared or len(plan.per_gpu) > 1 else ""
    each_replica, in_all = (" in each replica", " in all") if is_shared else ("", "")
    parts = [] if cache.gib is None else [f"{_gib(cache.gib)} GiB KV cache{each_card}"]
    parts += [] if cache.tokens is None else [f"{cache.tokens:,} tokens{each_replica}"]
    parts += [] if at_once is None else [f"{_count(at_once)} requests of {_context(plan)}{in_all}"]
    return ", ".join(parts) or "the memory of the KV cache is not known"


def _why_not(plan: Plan) -> str:
    """What ends the start first."""
    return next(iter(plan.limits), None) or _too_small(plan) or "the cards are full before the KV cache"


def _too_small(plan: Plan) -> str | None:
    cache = plan.kv_cache
    if cache.needed_gib is None or cache.gib is None or cache.gib >= cache.needed_gib:
        return None
    need = f"one request of {_context(plan)} needs {_gib(cache.needed_gib)} GiB of KV cache on each card"
    return f"{need}, {_gib(max(cache.gib, 0.0))} are left"


def _why_uncertain(plan: Plan) -> str:
    if missing := _unknown_terms(plan):
        return "; ".join(f"{pictures.TERM_NAMES.get(t.name, t.name)} unknown: {t.source}" for t in missing)
    cache = plan.kv_cache
    if cache.low is not None and cache.high is not None and cache.needed_gib is not None and _is_all_known(plan):
        band = f"{_gib(max(cache.low, 0.0))} to {_gib(max(cache.high, 0.0))} GiB are left for the KV cache of each card"
        return f"{band}, one request of {_context(plan)} needs {_gib(cache.needed_gib)}"
    return next(iter(plan.limits), "it depends on what is not known")


def _is_all_known(plan: Plan) -> bool:
    """Whether no limit says that something is not known."""
    return not any(said.startswith("not known:") for said in plan.limits)


def _unknown_terms(plan: Plan) -> list[PlannedTerm]:
    """Terms that are not known on some card, each once; the KV cache only follows from them."""
    found = {t.name: t for rank in plan.per_gpu for t in rank.terms if t.expected_gib is None and t.name != "kv_cache"}
    return list(found.values())


def _gib(amount: float) -> str:
    return f"{amount:,.1f}" if abs(amount) >= 10 else f"{amount:.2f}"


def _amount(gib: float) -> str:
    return f"{gib:.2f} GiB" if gib >= 0.1 else f"{gib * 1024:.1f} MiB"


def _count(number: float) -> str:
    return f"{number:,.2f}"


def _context(plan: Plan) -> str:
    length = option(plan, "max_model_len")
    return f"{length:,} tokens" if isinstance(length, int) else "the whole context"


def option(plan: Plan, name: str) -> Any:
    """The value that a plan rests on, by argparse destination: as given, else as the release settles it."""
    given = plan.deployment.flags.get(name) if plan.deployment else None
    return plan.options.get(name) if given is None else given


def utilization(plan: Plan) -> float | None:
    """The share of a card that the plan gives to vLLM; None where it is not known."""
    share = option(plan, "gpu_memory_utilization")
    return float(share) if isinstance(share, (int, float)) else None


# Text, of 80 columns, legible without colour.


def text(plan: Plan) -> str:
    """The plan for a terminal."""
    lead = [_found_lines(plan.found)] if plan.found else []
    return _joined([*lead, f"{_wrap(headline(plan), '')}\n{_wrap(_subject(plan), '')}", *_details(plan)])


def text_layouts(found: Layouts) -> str:
    """Every layout for a terminal: the ranking, the first in full, and what is not legal."""
    legal = [plan for plan in found.layouts if plan.legal is not False]
    parts = [f"{_wrap(layouts_headline(found), '')}\n{_wrap(_subject(found), '')}"]
    if legal:
        parts.append(_ranking(legal))
        parts += [f"THE FIRST: {pictures.layout_name(legal[0])}\n{_wrap(headline(legal[0]))}", *_details(legal[0])]
    return _joined([*parts, *_illegal_text(found)])


def _illegal_text(found: Layouts) -> list[str]:
    illegal = [plan for plan in found.layouts if plan.legal is False]
    return ["\n".join(["NOT LEGAL", *(_item(_refusal(plan)) for plan in illegal)])] if illegal else []


def text_found(found: Found) -> str:
    """The answer to a question asked the other way round, for a terminal."""
    return _joined([_found_lines(found)])


def text_compared(compared: Compared) -> str:
    """Plan against actual for a terminal."""
    parts = [_wrap(compared_headline(compared), "")]
    if compared.terms:
        rows = [f"  {'GiB':<16}{'planned':>9}  {'band':<18}{'printed':>9}{'off by':>14}"]
        for term in compared.terms:
            figures = _compared_cells(term)
            name, planned, band, actual, off = figures
            rows.append(f"  {name:<16}{planned:>9}  {band:<18}{actual:>9}{off:>14}".rstrip())
            if term.explained:
                rows.append(_wrap(term.explained, "      "))
        parts.append("\n".join(rows))
    if compared.missing:
        parts.append("\n".join(["NOT COMPARED", *(_item(f"unknown: {said}") for said in compared.missing)]))
    if compared.residuals:
        parts.append("\n".join(["KEPT FOR CALIBRATION", *(_item(said) for said in _residuals(compared))]))
    return _joined(parts)


def _joined(parts: Iterable[str]) -> str:
    return visible("\n\n".join(parts) + "\n")


def _wrap(body: str, indent: str = "  ", first: str | None = None) -> str:
    lead = indent if first is None else first
    words = " ".join(body.split())
    lines = textwrap.wrap(words, _WIDTH, initial_indent=lead, subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(lines)


def _item(said: str) -> str:
    return _wrap(said, "    ", "  - ")


def _subject(planned: Plan | Layouts) -> str:
    gpus = " + ".join(
        f"{gpu.count} x {gpu.name}{f' on {gpu.node}' if gpu.node else ''}"
        f" ({'memory unknown' if gpu.total_gib is None else f'{gpu.total_gib:.2f} GiB'})"
        for gpu in planned.gpus
    )
    return f"{planned.model} on {gpus or 'no card'}, {release(planned.vllm)}"


def release(vllm: CommandRelease) -> str:
    """Which release's rules the plan follows."""
    newest = ", the newest known" if vllm.source == "newest" else ""
    return f"vLLM {vllm.version}{newest}{'' if vllm.data == vllm.version else f', by the rules of {vllm.data}'}"


def _memory_text(plan: Plan) -> list[str]:
    parts = [_card(group) for group in pictures.cards(plan.per_gpu)]
    rows = _cache_rows(plan)
    parts.append("\n".join(["KV CACHE", *(_wrap(value, " " * 24, f"  {name:<22}") for name, value in rows)]))
    if plan.limits:
        parts.append("\n".join(["LIMITS", *(_item(said) for said in plan.limits)]))
    return parts


def _details(plan: Plan) -> list[str]:
    parts = _memory_text(plan)
    if plan.options:
        parts.append(f"NOT GIVEN, SO SETTLED BY THIS RELEASE\n{_wrap(_settled(plan.options))}")
    if plan.speed:
        parts.append(f"SPEED, AN ESTIMATE\n{_wrap(_speed(plan.speed))}")
    if plan.deployment:
        command = "\n".join(f"  {line}" for line in plan.deployment.command.splitlines())
        parts.append(f"COMMAND, linted for vLLM {plan.vllm.version}\n{command}")
    return [*parts, "\n".join(["CALIBRATION", *(_item(said) for said in _calibrated(plan))])]


def _card(group: Sequence[PlannedRank]) -> str:
    """A card's terms as a table."""
    rows = [_wrap(_card_name(group), ""), f"  {'GiB':<16}{'low':>8}{'expected':>10}{'high':>8}  source"]
    for term in group[0].terms:
        name = pictures.TERM_NAMES.get(term.name, term.name)
        if term.expected_gib is None:
            rows.append(_wrap(f"unknown: {term.source}", " " * 18, f"  {name:<16}"))
            continue
        figures = f"  {name:<16}{_cell(term.low_gib):>8}{_cell(term.expected_gib):>10}{_cell(term.high_gib):>8}"
        source = textwrap.wrap(term.source, _WIDTH - 46, max_lines=2, placeholder=" …") or [""]
        rows += [f"{figures}  {source[0]}".rstrip(), *(f"{'':46}{line}" for line in source[1:])]
    return "\n".join(rows)


def _card_name(group: Sequence[PlannedRank]) -> str:
    rank, name = group[0], pictures.cards_name(group)
    total = "its memory is unknown" if rank.total_gib is None else f"{rank.total_gib:.2f} GiB"
    left = "" if rank.available_gib is None else f", {rank.available_gib:.2f} for the KV cache"
    return f"{name[:1].upper()}{name[1:]}: {total}{left}{'' if rank.fits is None else f', {_ROOM[rank.fits]}'}"


def _cell(amount: float | None) -> str:
    return "" if amount is None else f"{amount:.2f}"


def _cache_rows(plan: Plan) -> list[tuple[str, str]]:
    """What is known of the KV cache, and of its amount, where it is not known, what is missing."""
    cache = plan.kv_cache
    if cache.gib is None:
        missing = ", ".join(pictures.TERM_NAMES.get(t.name, t.name) for t in _unknown_terms(plan))
        return [("on each card", f"unknown: {missing or 'see the limits'}"), *_needed(plan)]
    meaning = _MEANINGS.get(cache.tokens_meaning or "", "")
    rows = [("on each card", f"{cache.gib:.2f} GiB{_between(cache.low, cache.high, '.2f')}")]
    if cache.tokens is not None:
        tokens = f"{cache.tokens:,}{_between(cache.tokens_low, cache.tokens_high, ',')}"
        rows.append(("tokens", f"{tokens}{f', {meaning}' if meaning else ''}"))
    if cache.max_concurrency is not None:
        rows.append(("requests at once", f"{_count(cache.max_concurrency)} of {_context(plan)}{_together(plan)}"))
    if cache.longest_context is not None:
        rows.append(("longest context", f"{cache.longest_context:,} tokens"))
    rows += _needed(plan)
    if cache.blocks is not None:
        each = "" if cache.block_tokens is None else f" of {cache.block_tokens} tokens"
        rows.append(("blocks", f"{cache.blocks:,}{each}"))
    return rows


def _needed(plan: Plan) -> list[tuple[str, str]]:
    needed = plan.kv_cache.needed_gib
    return [] if needed is None else [("one request needs", f"{_amount(needed)} of each card")]


def _together(plan: Plan) -> str:
    if plan.total_concurrency is None:
        return ""
    return f" in each replica, {_count(plan.total_concurrency)} in all"


def _between(low: float | None, high: float | None, style: str) -> str:
    if low is None or high is None or low == high:
        return ""
    return f" ({format(low, style)} to {format(high, style)})"


def _settled(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {'unknown' if value is None else json.dumps(value)}" for name, value in options.items())


def _speed(speed: Speed) -> str:
    return f"At most {speed.tokens_per_s:,.0f} tokens/s of one request while decoding: {speed.basis}"


def _calibrated(plan: Plan) -> Sequence[str]:
    if not plan.calibration.used:
        return ["none: from the configuration and this release's rules and constants"]
    return plan.calibration.rows or ["used; no recorded start corrects these terms"]


def layouts_headline(found: Layouts) -> str:
    """The answer in one line: the best layout, or that there is none."""
    legal = [plan for plan in found.layouts if plan.legal is not False]
    if not legal:
        return "does not fit: no layout of these cards is legal"
    if found.fits is False:
        why = f"; {pictures.layout_name(legal[0])}: {legal[0].limits[0]}" if legal[0].limits else ""
        return f"does not fit: none of {len(legal)} legal layout{'s' * (len(legal) != 1)}{why}"
    first = legal[0]
    return f"{_VERDICTS[found.fits]}: best as {pictures.layout_name(first)}, {headline(first).partition(': ')[2]}"


def _ranking(plans: Sequence[Plan]) -> str:
    """The layouts, the best first, with why each stands where it stands."""
    rows = [f"  {'LAYOUT':<22}{'FITS':<6}{'CONTEXT':>12}{'AT ONCE':>12}{'KV GiB A CARD':>16}"]
    shown, same = _folded(plans)
    for plan in shown:
        name, fits, context, at_once, gib = _layout_cells(plan)
        rows.append(f"  {name:<22}{fits:<6}{context:>12}{at_once:>12}{gib:>16}")
        if plan.reasons:
            rows.append(_wrap("; ".join(plan.reasons), "      "))
    return "\n".join([*rows, *([_wrap(same)] if same else [])])


def _folded(plans: Sequence[Plan]) -> tuple[list[Plan], str]:
    """The layouts without those that are another one's copies inside one server, with the same figures; and which."""
    shown: dict[tuple[object, ...], Plan] = {}
    same: dict[tuple[object, ...], list[Plan]] = {}
    for number, plan in enumerate(plans):
        layout = plan.layout
        if layout is None:
            shown[(number,)] = plan
            continue
        key = (layout.replicas * layout.dp, layout.tp, layout.pp, plan.fits, plan.kv_cache)
        if key in shown and layout.dp > 1:
            same.setdefault(key, []).append(plan)
        else:
            shown[key if key not in shown else (number,)] = plan
    said = [
        f"{', '.join(map(pictures.layout_name, each))} as {pictures.layout_name(shown[key])}"
        for key, each in same.items()
    ]
    note = f"The same with copies inside one server (DP) in place of servers: {'; '.join(said)}." if said else ""
    return list(shown.values()), note


def _layout_cells(plan: Plan) -> list[str]:
    cache: PlannedCache = plan.kv_cache
    at_once = pictures.requests_at_once(plan)
    figures = [
        "" if cache.longest_context is None else f"{cache.longest_context:,}",
        "" if at_once is None else _count(at_once),
        "" if cache.gib is None else f"{cache.gib:.2f}",
    ]
    is_unknown = plan.fits is None
    shown = [figure or ("unknown" if is_unknown else "-") for figure in figures]
    return [pictures.layout_name(plan), _ANSWERS[plan.fits], *shown]


def _refusal(plan: Plan) -> str:
    return f"{pictures.layout_name(plan)}: {'; '.join(plan.reasons) or 'this release refuses it'}"


def found_headline(found: Found) -> str:
    """The answer in one line."""
    name = _FOUND[found.what]
    if found.value is None:
        return f"{name}: unknown: {next(iter(found.reasons), 'it depends on what is not known')}"
    band = ""
    if found.low is not None and found.high is not None and found.low != found.high:
        band = f" ({_value(found, found.low)} to {_value(found, found.high)})"
    return f"{name}: {_value(found, found.value)}{f' {_unit(found)}' if found.unit else ''}{band}"


def _unit(found: Found) -> str:
    """What is counted: "2 cards of H100", "1 card of H100"."""
    counted, space, rest = found.unit.partition(" ")
    return f"{counted.removesuffix('s')}{space}{rest}" if found.value == 1 else found.unit


def _value(found: Found, value: float | str) -> str:
    if isinstance(value, str):
        return value
    shown = f"{value:,.4f}" if found.what is Find.UTILIZATION else f"{value:,.2f}"
    return shown.rstrip("0").rstrip(".")


def _found_lines(found: Found) -> str:
    reasons = found.reasons if found.value is not None else found.reasons[1:]
    return "\n".join([_wrap(found_headline(found), ""), *(_item(said) for said in reasons)])


def compared_headline(compared: Compared) -> str:
    """The answer in one line: which term is off, or that none is."""
    if compared.off is not None:
        term = next((t for t in compared.terms if t.name == compared.off), None)
        name = pictures.TERM_NAMES.get(compared.off, compared.off)
        if term is None or term.planned_gib is None or term.actual_gib is None:
            return f"off: {name}"
        return f"off: {name}, {term.actual_gib:.2f} GiB printed where {term.planned_gib:.2f} were planned"
    both = sum(term.planned_gib is not None and term.actual_gib is not None for term in compared.terms)
    if not both:
        return f"not compared: {'; '.join(compared.missing) or 'the log prints no term of the plan'}"
    return f"as planned: {both} printed term{'s' * (both != 1)} within the plan's own band"


def _compared_cells(term: ComparedTerm) -> list[str]:
    name = pictures.TERM_NAMES.get(term.name, term.name)
    band = "" if term.low_gib is None or term.high_gib is None else f"{term.low_gib:.2f} to {term.high_gib:.2f}"
    off = "" if term.planned_gib is None or term.actual_gib is None else f"{term.actual_gib - term.planned_gib:+.2f}"
    planned = "unknown" if term.planned_gib is None else f"{term.planned_gib:.2f}"
    actual = "unknown" if term.actual_gib is None else f"{term.actual_gib:.2f}"
    return [name, planned, band, actual, off]


def _residuals(compared: Compared) -> list[str]:
    return [
        f"{pictures.TERM_NAMES.get(kept.term, kept.term)}: {kept.actual_gib:.2f} GiB where {kept.planned_gib:.2f} were "
        f"planned, vLLM {kept.release}, {kept.gpu or 'card unknown'}, {kept.architecture or 'architecture unknown'}, "
        f"tensor parallel {kept.tensor_parallel_size}"
        for kept in compared.residuals
    ]


# HTML. Every text passes through `escape`: names of models and sources are the user's.


def shown(record: Viewed) -> Shown:
    """For a notebook: rich, and as plain as in a terminal."""
    return Shown(_plain(record), html(record))


def _plain(record: Viewed) -> str:
    match record:
        case Plan():
            return text(record)
        case Layouts():
            return text_layouts(record)
        case Compared():
            return text_compared(record)
        case _:
            return text_found(record)


def html(record: Viewed) -> str:
    """Verdict, picture, tables and command."""
    match record:
        case Plan():
            body = _found_html(record.found) + _plan_html(record)
        case Layouts():
            body = _layouts_html(record)
        case Compared():
            body = _compared_html(record)
        case _:
            body = _found_html(record)
    return visible(body)


def _tag(name: str, body: str, style: str = "") -> str:
    return f'<{name} style="{style}">{body}</{name}>' if style else f"<{name}>{body}</{name}>"


def _verdict(said: str, tone: str) -> str:
    """The answer, its first words as a badge."""
    word, _, rest = said.partition(": ")
    badge = _tag(
        "span", escape(word), f"background:{tone};color:#fff;border-radius:4px;padding:1px 8px;font-weight:600"
    )
    return _tag("div", f"{badge} <b>{escape(rest)}</b>", "font-size:16px;margin-bottom:6px;max-width:80ch")


def _note(said: str) -> str:
    return _tag("p", escape(said), "opacity:.75;font-size:13px;max-width:80ch")


def _head(said: str) -> str:
    return _tag("div", _tag("b", escape(said)), "margin-top:14px;margin-bottom:4px")


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, numeric: Iterable[int] = (), below: Sequence[str] = ()
) -> str:
    """A table; cells are HTML already. What stands `below` a row has its whole width, which a telephone needs."""
    right = frozenset(numeric)
    styles = [
        f"padding:4px 14px 4px 0;vertical-align:top;text-align:{'right' if n in right else 'left'}"
        for n in range(len(head))
    ]
    top = "".join(_tag("th", escape(h), f"{s};font-weight:600") for h, s in zip(head, styles, strict=True))
    lines = []
    for number, row in enumerate(rows):
        lines.append(_tag("tr", "".join(_tag("td", c, s) for c, s in zip(row, styles, strict=True))))
        if number < len(below) and below[number]:
            faint = "padding:0 14px 6px 0;text-align:left;opacity:.72;font-size:13px"
            lines.append(f'<tr><td colspan="{len(head)}" style="{faint}">{escape(below[number])}</td></tr>')
    whole = f"<thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return _tag("table", whole, "border-collapse:collapse;font-size:14px;max-width:52em")


def _plan_html(plan: Plan) -> str:
    tone = _TONES[False] if plan.legal is False else _TONES[plan.fits]
    return _verdict(headline(plan), tone) + _note(_subject(plan)) + _details_html(plan)


def _details_html(plan: Plan) -> str:
    parts = [_memory_html(plan)]
    if plan.speed:
        parts += [_head("Speed, an estimate"), _note(_speed(plan.speed))]
    if plan.deployment:
        command = _code(plan.deployment.command)
        parts += [_head(f"Command, linted for vLLM {plan.vllm.version}"), command]
    if plan.options:
        parts.append(_note(f"Not given, so settled by this release: {_settled(plan.options)}."))
    parts += [_note(f"Calibration: {said}") for said in _calibrated(plan)]
    return "".join(parts)


def _memory_html(plan: Plan) -> str:
    parts = [pictures.budgets(plan.per_gpu, utilization(plan))]
    parts += [_card_html(group) for group in pictures.cards(plan.per_gpu)]
    cache = [[escape(name), escape(value)] for name, value in _cache_rows(plan)]
    parts += [_head("KV cache"), _table(["", ""], cache)]
    if plan.limits:
        parts += [_head("Limits"), *(_tag("p", escape(said), "max-width:80ch;margin:4px 0") for said in plan.limits)]
    return "".join(parts)


def _card_html(group: Sequence[PlannedRank]) -> str:
    rows = []
    for term in group[0].terms:
        name = pictures.TERM_NAMES.get(term.name, term.name)
        swatch = f"{pictures.term_swatch(term.name)} " if term.name in pictures.DRAWN_TERMS else ""
        expected = "unknown" if term.expected_gib is None else _cell(term.expected_gib)
        rows.append([swatch + escape(name), _cell(term.low_gib), expected, _cell(term.high_gib)])
    sources = [term.source for term in group[0].terms]
    table = _table(["GiB", "low", "expected", "high"], rows, numeric=(1, 2, 3), below=sources)
    return _head(_card_name(group)) + table


def _layouts_html(found: Layouts) -> str:
    legal = [plan for plan in found.layouts if plan.legal is not False]
    parts = [_verdict(layouts_headline(found), _TONES[found.fits]), _note(_subject(found)), _ranking_html(legal)]
    if legal:
        parts += [_head(f"The first: {pictures.layout_name(legal[0])}"), _details_html(legal[0])]
    return "".join([*parts, *_illegal_html(found)])


def _ranking_html(legal: Sequence[Plan]) -> str:
    if not legal:
        return ""
    shown, same = _folded(legal)
    rows = [[*map(escape, _layout_cells(plan))] for plan in shown]
    rows[0][0] = _tag("b", rows[0][0])
    head = ["layout", "fits", "context", "at once", "KV GiB a card"]
    why = ["; ".join(plan.reasons) for plan in shown]
    table = _table(head, rows, numeric=(2, 3, 4), below=why)
    return pictures.layouts(shown) + table + (_note(same) if same else "")


def _illegal_html(found: Layouts) -> list[str]:
    illegal = [plan for plan in found.layouts if plan.legal is False]
    return [_head("Not legal"), *(_note(_refusal(plan)) for plan in illegal)] if illegal else []


def _found_html(found: Found | None) -> str:
    if found is None:
        return ""
    reasons = found.reasons if found.value is not None else found.reasons[1:]
    tone = _TONES[None] if found.value is None else _TONES[True]
    return _verdict(found_headline(found), tone) + "".join(_note(said) for said in reasons)


def _compared_html(compared: Compared) -> str:
    is_bare = not any(term.actual_gib is not None for term in compared.terms)
    tone = _TONES[False] if compared.off is not None else _TONES[None] if is_bare else _TONES[True]
    parts = [_verdict(compared_headline(compared), tone), pictures.differences(compared.terms)]
    if compared.terms:
        rows, why = [], []
        for term in compared.terms:
            name, planned, band, actual, off = _compared_cells(term)
            rows.append([escape(name), planned, actual, off])
            why.append("; ".join(filter(None, [f"planned {band}" if band else "", term.explained])))
        parts.append(_table(["GiB", "planned", "printed", "off by"], rows, numeric=(1, 2, 3), below=why))
    parts += [_note(f"Not compared, unknown: {said}") for said in compared.missing]
    if compared.residuals:
        parts += [_head("Kept for calibration"), *(_note(said) for said in _residuals(compared))]
    return "".join(parts)


# In steps, as runbooks show them.


def _unplanned(why: str) -> Shown:
    """In place of a plan."""
    said = f"not planned: {why}"
    return Shown(_wrap(said, ""), _verdict(said, _TONES[None]))


def asked(request: Request) -> Shown:
    """What is asked of the planner."""
    cards = Counter(f"{card.gpu.name}{f' on {card.node}' if card.node else ''}" for card in request.cards)
    options = {
        name: json.dumps(masked(value, name))
        for name, value in request.options.items()
        if name not in ("model", "model_tag")
    }
    rows = [
        ["model", request.model.name],
        ["its configuration", request.model.source or "not known"],
        ["cards", " + ".join(f"{count} x {name}" for name, count in cards.items()) or "none"],
        ["release", release(request.release)],
        ["options", ", ".join(f"{name} {value}" for name, value in options.items()) or "none"],
    ]
    plain = "\n".join(_wrap(value, " " * 20, f"{name:<20}") for name, value in rows)
    cells = [[escape(name), f'<span style="overflow-wrap:anywhere">{escape(value)}</span>'] for name, value in rows]
    return Shown(plain, _table(["", ""], cells))


def memory(plan: Plan | str) -> Shown:
    """What each card is planned to hold: answer, picture and figures, without the command."""
    if isinstance(plan, str):
        return _unplanned(plan)
    plain = [f"{_wrap(headline(plan), '')}\n{_wrap(_subject(plan), '')}", *_memory_text(plan)]
    body = _verdict(headline(plan), _TONES[plan.fits]) + _note(_subject(plan)) + _memory_html(plan)
    return Shown(_joined(plain), body)


def ranking(found: Layouts | str) -> Shown:
    """Every layout with its reasons, the best first, and those that the release refuses."""
    if isinstance(found, str):
        return _unplanned(found)
    legal = [plan for plan in found.layouts if plan.legal is not False]
    lead = f"{_wrap(layouts_headline(found), '')}\n{_wrap(_subject(found), '')}"
    plain = [lead, *([_ranking(legal)] if legal else []), *_illegal_text(found)]
    parts = [_verdict(layouts_headline(found), _TONES[found.fits]), _note(_subject(found)), _ranking_html(legal)]
    return Shown(_joined(plain), "".join([*parts, *_illegal_html(found)]))


def files(made: Mapping[str, str], pattern: str) -> Shown:
    """Files of a deployment by a pattern of their names: the first in full, the others, which are like it, by name."""
    names = [name for name in made if fnmatchcase(name, pattern)]
    if not names:
        said = "None is written: there is one server, and nothing to share requests among."
        return Shown(said, _note(said))
    first, others = names[0], names[1:]
    more = f"Like it, each with its own cards and port: {', '.join(others)}." if others else ""
    indented = "\n".join(f"  {line}".rstrip() for line in made[first].splitlines())
    plain = _joined([f"{first}\n{indented}", *([_wrap(more, "")] if more else [])])
    text_of = _code(made[first])
    return Shown(plain, _head(first) + text_of + (_note(more) if more else ""))


_PRE = "white-space:pre-wrap;overflow-wrap:anywhere;text-align:left;font-size:13px;line-height:1.45"


def _code(said: str) -> str:
    """A text to be copied, in letters of one width wherever it is shown."""
    return _tag("pre", _tag("code", escape(said)), _PRE)


def confirmations(found: Mapping[str, Confirmation]) -> Shown:
    """How to see that each instance runs as it was split; what holds of several alike is said once."""
    plain, parts = [], []
    for lines in dict.fromkeys(one.lines for one in found.values()):
        alike = [name for name, one in found.items() if one.lines == lines]
        title = f"In the log of {'each of ' if len(alike) > 1 else ''}{', '.join(alike)}"
        counts = [f" ({line.times} times)" if (line.times or 0) > 1 else "" for line in lines]
        planned = [f": planned {line.expected}" if line.expected else "" for line in lines]
        rows = [
            [f"<code>{escape(line.text)}</code>{count}{escape(figures)}"]
            for line, count, figures in zip(lines, counts, planned, strict=True)
        ]
        said = [
            f"  - {line.text}{count}{figures}\n{_wrap(line.what, '      ')}"
            for line, count, figures in zip(lines, counts, planned, strict=True)
        ]
        plain.append("\n".join([title, *said]))
        parts += [_head(title), _table(["part of a line"], rows, below=[line.what for line in lines])]
    if not found:
        return _unplanned("no layout fits, so there is nothing to see")
    looks: dict[tuple[str, str], list[str]] = {}
    for look in (look for one in found.values() for look in one.looks):
        looks.setdefault((look.what, look.expected), []).append(shlex.join(look.words))
    for (what, expected), commands in looks.items():
        title = f"Look, without changing anything: {what}"
        plain.append("\n".join([title, *(f"  {command}" for command in commands), _wrap(f"Expect: {expected}.")]))
        parts += [_head(title), _code("\n".join(commands)), _note(f"Expect: {expected}.")]
    unknown = list(dict.fromkeys(said for one in found.values() for said in one.unknown))
    plain += [_wrap(f"Not known: {said}", "") for said in unknown]
    return Shown(_joined(plain), "".join([*parts, *(_note(f"Not known: {said}") for said in unknown)]))


class _Beside(NamedTuple):
    """A figure of a start, as planned and as printed."""

    name: str
    planned: float
    low: float | None
    high: float | None
    printed: float
    style: str

    @property
    def off(self) -> float:
        """Share by which the plan is above what was printed."""
        return self.planned / self.printed - 1

    @property
    def band(self) -> str:
        if self.low is None or self.high is None:
            return ""
        return f"{format(self.low, self.style)} to {format(self.high, self.style)}"

    @property
    def cells(self) -> list[str]:
        off = f"{self.off:+.1%}" if abs(self.off) >= 0.0005 else "0.0%"
        return [self.name, format(self.planned, self.style), format(self.printed, self.style), off]


def beside(starts: Sequence[Start], planned: Sequence[Plan | str]) -> Shown:
    """Every start's plan beside what it printed; a text in place of a plan says why there is none."""
    found = [
        _figures(start, plan) if isinstance(plan, Plan) else [] for start, plan in zip(starts, planned, strict=True)
    ]
    every = [figure for figures in found for figure in figures]
    if not every:
        said = next((plan for plan in planned if isinstance(plan, str)), "The log prints no figure that is planned.")
        return Shown(said, _tag("p", escape(said)))
    farthest = max(every, key=lambda figure: abs(figure.off))
    number = next(at for at, figures in enumerate(found, 1) if farthest in figures)
    lead = (
        f"planned: {len(every)} printed figures; the farthest is {abs(farthest.off):.1%} off "
        f"({farthest.name} of start {number})"
    )
    plain, parts = [_wrap(lead, "")], [_verdict(lead, _PLANNED_TONE)]
    for at, (start, plan, figures) in enumerate(zip(starts, planned, found, strict=True), 1):
        title = (
            f"{pictures.label(start, at)}{f' · {pictures.distinction(start)}' if pictures.distinction(start) else ''}"
        )
        if isinstance(plan, str):
            plain.append(f"{title}\n{_wrap(f'not planned: {plan}')}")
            parts += [_head(title), _note(f"Not planned: {plan}")]
            continue
        rows = [f"  {'':<20}{'planned':>12}  {'band':<22}{'printed':>10}{'off by':>10}"]
        for figure in figures:
            name, expected, printed, off = figure.cells
            rows.append(f"  {name:<20}{expected:>12}  {figure.band:<22}{printed:>10}{off:>10}")
        plain.append("\n".join([title, *rows]))
        cells = [[escape(cell) for cell in figure.cells] for figure in figures]
        bands = [f"planned {figure.band}" if figure.band else "" for figure in figures]
        parts += [_head(title), _table(["", "planned", "printed", "off by"], cells, numeric=(1, 2, 3), below=bands)]
    return Shown(_joined(plain), "".join(parts))


_PLANNED_TONE = "#57606a"


def _figures(start: Start, plan: Plan) -> list[_Beside]:
    """What a start printed of what is planned; requests only where they are counted for the same context."""
    facts, cache = start.facts, plan.kv_cache
    weights = [term for rank in plan.per_gpu for term in rank.terms if term.name == "weights" and term.expected_gib]
    most = max(weights, key=lambda term: term.expected_gib or 0.0, default=None)
    sides = (None, None, None) if most is None else (most.expected_gib, most.low_gib, most.high_gib)
    is_same = facts.max_concurrency_tokens in (None, option(plan, "max_model_len"))
    rows = [
        ("weights GiB", *sides, facts.weights_gib, ".2f"),
        ("KV cache GiB", cache.gib, cache.low, cache.high, facts.kv_cache_gib, ".2f"),
        ("KV cache tokens", cache.tokens, cache.tokens_low, cache.tokens_high, facts.kv_cache_tokens, ",.0f"),
        ("requests at once", cache.max_concurrency, None, None, facts.max_concurrency if is_same else None, ".2f"),
    ]  # fmt: skip
    return [
        _Beside(name, planned, low, high, printed, style)
        for name, planned, low, high, printed, style in rows
        if planned is not None and printed
    ]


def encoder(planned: Budget | str, printed: Mapping[str, str]) -> Shown:
    """The encoder's part of the profiling run, step by step, beside the allocation that a log says failed.

    Args:
        planned: The start; else why it is not planned.
        printed: Captures of the failure: its modality, the MiB that were tried, the GiB that were allocated.
    """
    if isinstance(planned, str):
        return _unplanned(planned)
    if planned.encoder is None:
        return _unplanned("this start profiles no encoder, or what its profile takes is not known")
    profile, weights = planned.encoder, _weights(planned)
    sizes = [f"{_allocated(step.size) / _MIB:.2f}" for step in profile.steps]
    tried = printed.get("tried_mib") if printed.get("modality") == profile.modality else None
    at = sizes.index(tried) if tried in sizes else None
    rows = [
        ["profiled", f"{profile.items} {profile.modality}", _printed_items(printed)],
        ["tokens of the encoder's cache", str(profile.budget), printed.get("encoder_budget_tokens", "")],
    ]
    if at is not None:
        step = profile.steps[at]
        before = f"{(weights + step.live - step.size) / GIB:.2f}"
        rows.append(["allocation that failed, MiB", sizes[at], tried or ""])
        rows.append(["allocated before it, GiB", before, printed.get("allocated_gib", "")])
        lead = f"reproduced: {sizes[at]} MiB, {step.what} in a layer of the encoder"
    else:
        lead = f"planned: {profile.items} {profile.modality}; the log names no step of it"
    steps = [
        [step.what, size, f"{(weights + step.live) / GIB:.2f}", "failed" if at == number else ""]
        for number, (step, size) in enumerate(zip(profile.steps, sizes, strict=True))
    ]
    note = f"Held: weights and the encoder's tensors, once the step has its own. {profile.source}."
    figures = [f"  {'':<32}{'planned':>12}{'printed':>12}", *(f"  {a:<32}{b:>12}{c:>12}".rstrip() for a, b, c in rows)]
    ladder = [f"  {'STEP':<32}{'asks MiB':>12}{'held GiB':>12}"]
    ladder += [f"  {a:<32}{b:>12}{c:>12}  {d}".rstrip() for a, b, c, d in steps]
    plain = _joined([_wrap(lead, ""), "\n".join(figures), "\n".join(ladder), _wrap(note, "")])
    body = _verdict(lead, _TONES[True if at is not None else None])
    body += _table(["", "planned", "printed"], _cells(rows), numeric=(1, 2))
    body += _head("What the encoder asks for, one after the other")
    body += _table(["step", "asks for MiB", "then held GiB", ""], _cells(steps), numeric=(1, 2))
    return Shown(plain, body + _note(note))


def _weights(planned: Budget) -> int:
    return next((t.band.expected for t in planned.ranks[0].terms if t.name == "weights" and t.band), 0)


def _printed_items(printed: Mapping[str, str]) -> str:
    items = (printed.get("encoder_items"), printed.get("modality"))
    return " ".join(word for word in items if word)


def ways_out(found: Sequence[WayOut] | str) -> Shown:
    """Changes with which a start fits, those that take least from the user first, with the room that they leave."""
    if isinstance(found, str):
        return _unplanned(found)
    if not found:
        said = "No change of one or two options makes it fit, or it fits as it is."
        return Shown(said, _note(said))
    rows, plain = [], []
    for way in found:
        options = " ".join(_as_option(name, value) for name, value in way.changes.items())
        low, expected, _ = (side / GIB for side in way.margin or NOTHING)
        left = "" if way.margin is None else f"{expected:.2f}"
        room = "" if way.margin is None else f"leaves {expected:.2f} GiB, {low:.2f} at least; "
        rows.append([f'<code style="overflow-wrap:anywhere">{escape(options)}</code>', _ANSWERS[way.fits], left])
        plain.append(f"  - {options}\n{_wrap(f'{_SURE[way.fits]}, {room}{way.cost}', '    ')}")
    below = [
        f"{way.cost}; " + ("" if way.margin is None else f"at least {way.margin.low / GIB:.2f} GiB are left")
        for way in found
    ]
    table = _table(["change", "fits", "GiB left"], rows, numeric=(2,), below=below)
    note = "GiB left: of the KV cache on the card that has least, beyond one request of the longest length."
    return Shown(_joined(["\n".join(plain), _wrap(note, "")]), table + _note(note))


_SURE = {True: "fits", None: "is expected to fit", False: "does not fit"}


def _as_option(name: str, value: Any) -> str:
    dashed = name.replace("_", "-")
    if value is True:
        return f"--{dashed}"
    return f"--{dashed} {shlex.quote(json.dumps(value)) if isinstance(value, (dict, list)) else value}"


_MIB = 2**20
_ROUNDED = 2 * _MIB
"""What PyTorch's allocator rounds a large tensor up to, and what its message of a failure states."""


def _allocated(size: int) -> int:
    return -(-size // _ROUNDED) * _ROUNDED if size > 10 * _MIB else size


def _cells(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[escape(cell) for cell in row] for row in rows]
