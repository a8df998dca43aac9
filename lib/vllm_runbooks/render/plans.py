"""Plans as text, JSON and HTML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from vllm_runbooks.display import Shown, visible
from vllm_runbooks.plan_records import Find, Found, Layouts, Plan, PlannedCache, PlannedRank, PlannedTerm, Speed
from vllm_runbooks.records import CommandRelease, Compared, ComparedTerm
from vllm_runbooks.render import plan_pictures
from vllm_runbooks.render.elements import (
    AMBER,
    GREEN,
    RED,
    heading,
    html_table,
    preformatted,
    remark,
    tag,
    verdict,
)
from vllm_runbooks.render.styled import (
    BLANK,
    Block,
    Layout,
    Line,
    Prose,
    Styled,
    Tone,
    bulleted,
    headed,
    parted,
    plain,
    styled,
    wrapped,
)

Viewed = Plan | Layouts | Compared | Found
"""What the planner says, and these views show."""
ANSWERS = {True: "yes", False: "no", None: "?"}
_ROOM = {True: "enough for a request", False: "too little"}
"""What a card alone has; whether the start fits is said of the plan."""
_VERDICTS = {True: "fits", False: "does not fit", None: "not certain"}
_FITS = {True: Tone.GOOD, False: Tone.BAD, None: Tone.WARN}
_WORDS = {
    **{word: _FITS[fits] for fits, word in _VERDICTS.items()},
    "not legal": Tone.BAD, "off": Tone.BAD, "not compared": Tone.WARN, "as planned": Tone.GOOD,
}  # fmt: skip
"""What the first words of an answer mean."""
TONES = {True: GREEN, False: RED, None: AMBER}
_MEANINGS = {"slots": "slots of one layer group", "full-length": "tokens of full-length requests"}
_FOUND = {
    Find.CONTEXT: "longest context",
    Find.CONCURRENCY: "requests at once",
    Find.GPUS: "cards needed",
    Find.UTILIZATION: "lowest utilisation",
}


def headline(plan: Plan) -> str:
    """The answer in one line."""
    if plan.legal is False:
        return f"not legal: {next(iter(plan.reasons), 'this release refuses it')}"
    why = {True: _what_it_gives, False: _why_not, None: _why_uncertain}[plan.fits](plan)
    return f"{_VERDICTS[plan.fits]}: {why}"


def _what_it_gives(plan: Plan) -> str:
    cache, at_once = plan.kv_cache, plan_pictures.requests_at_once(plan)
    is_shared = plan_pictures.is_copied(plan)
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
        return "; ".join(f"{plan_pictures.term_name(t.name)} unknown: {t.source}" for t in missing)
    cache = plan.kv_cache
    if plan.limits and cache.low is not None and cache.needed_gib is not None and cache.low >= cache.needed_gib:
        return plan.limits[0]  # the cache is not what it depends on
    if cache.low is not None and cache.high is not None and cache.needed_gib is not None and not plan.missing:
        band = f"{_gib(max(cache.low, 0.0))} to {_gib(max(cache.high, 0.0))} GiB are left for the KV cache of each card"
        return f"{band}, one request of {_context(plan)} needs {_gib(cache.needed_gib)}"
    return next(iter(plan.limits), "it depends on what is not known")


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


def text(plan: Plan) -> str:
    """The plan without colours, for a pipe."""
    return plain(view(plan))


def view(found: Viewed) -> list[Block]:
    """What the planner says, for a terminal."""
    match found:
        case Plan():
            lead = [_found_view(found.found)] if found.found else []
            parts = [*lead, answer_view(headline(found), found), *_details(found)]
        case Layouts():
            parts = _layouts_view(found)
        case Compared():
            parts = _compared_view(found)
        case _:
            parts = [_found_view(found)]
    return [*parted(parts), BLANK]


def answer_view(answer: str, planned: Plan | Layouts) -> list[Block]:
    """The answer in one sentence, and what it is about."""
    return [Prose(_judged(answer), ""), Prose(styled(subject(planned), Tone.FAINT), "")]


def _judged(answer: str) -> Styled:
    """An answer whose first words, up to the colon, are the verdict."""
    word, colon, rest = answer.partition(":")
    return styled(word, _WORDS.get(word)) + f"{colon}{rest}"


def text_layouts(found: Layouts) -> str:
    """Every layout without colours: the ranking, the first in full, and what is not legal."""
    return plain(view(found))


def _layouts_view(found: Layouts) -> list[list[Block]]:
    legal = [plan for plan in found.layouts if plan.legal is not False]
    parts = [answer_view(layouts_headline(found), found)]
    if legal:
        first = headed(f"THE FIRST: {plan_pictures.layout_name(legal[0])}", [Prose(_judged(headline(legal[0])))])
        parts += [ranking_view(legal), first, *_details(legal[0])]
    return [*parts, *illegal_view(found)]


def illegal_view(found: Layouts) -> list[list[Block]]:
    """The layouts that the release refuses, and why; nothing where there is none."""
    illegal = [plan for plan in found.layouts if plan.legal is False]
    return [headed("NOT LEGAL", [bulleted(_refusal(plan)) for plan in illegal])] if illegal else []


def text_found(found: Found) -> str:
    """The answer to a question asked the other way round, without colours."""
    return plain(view(found))


def text_compared(compared: Compared) -> str:
    """Plan against actual, without colours."""
    return plain(view(compared))


def _compared_view(compared: Compared) -> list[list[Block]]:
    parts: list[list[Block]] = [[Prose(_judged(compared_headline(compared)), "")]]
    if compared.terms:
        head = f"  {'GiB':<16}{'planned':>9}  {'band':<18}{'printed':>9}{'off by':>14}"
        rows: list[Block] = [Line(styled(head, Tone.FAINT))]
        for term in compared.terms:
            name, planned, band, actual, off = _compared_cells(term)
            is_off = compared.off == term.name
            figures = f"{planned:>9}  {band:<18}{actual:>9}{off:>14}".rstrip()
            row = styled(f"  {name:<16}", Tone.BAD if is_off else None) + styled(figures, Tone.BAD if is_off else None)
            rows.append(Line(row.part(0, len(str(row).rstrip()))))
            if term.explained:
                rows.append(Prose(styled(term.explained, Tone.FAINT), "      "))
        parts.append(rows)
    if compared.missing:
        parts.append(headed("NOT COMPARED", [bulleted(f"unknown: {said}") for said in compared.missing]))
    if compared.residuals:
        parts.append(headed("KEPT FOR CALIBRATION", [bulleted(said) for said in _residuals(compared)]))
    return parts


def subject(planned: Plan | Layouts) -> str:
    """What is planned: the model, on which cards, for which release."""
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


def memory_view(plan: Plan) -> list[list[Block]]:
    """What each card holds, the KV cache and the limits, a part each."""
    parts: list[list[Block]] = [[_Card(tuple(group))] for group in plan_pictures.cards(plan.per_gpu)]
    rows = _cache_rows(plan)
    names = [styled(f"  {name:<22}", Tone.FAINT) for name, _ in rows]
    shown = [Prose(value, " " * 24, name) for name, (_, value) in zip(names, rows, strict=True)]
    parts.append(headed("KV CACHE", shown))
    if plan.limits:
        parts.append(headed("LIMITS", [bulleted(said) for said in plan.limits]))
    return parts


def _details(plan: Plan) -> list[list[Block]]:
    parts = memory_view(plan)
    if plan.options:
        parts.append(headed("NOT GIVEN, SO SETTLED BY THIS RELEASE", [Prose(_settled(plan.options))]))
    if plan.speed:
        parts.append(headed("SPEED, AN ESTIMATE", [Prose(_speed(plan.speed))]))
    if plan.deployment:
        command = [Line("  " + styled(line, Tone.COMMAND)) for line in plan.deployment.command.splitlines()]
        parts.append(headed(f"COMMAND, linted for vLLM {plan.vllm.version}", command or [BLANK]))
    return [*parts, headed("CALIBRATION", [bulleted(said) for said in _calibrated(plan)])]


@dataclass(frozen=True, slots=True)
class _Card:
    """A card's terms as a table, or in sentences where that is too wide, and their sources in full below it."""

    group: tuple[PlannedRank, ...]

    def lines(self, layout: Layout) -> list[Styled]:
        """The card's name, a head, a row for each term, and a paragraph for each source."""
        terms = [(plan_pictures.term_name(term.name), term) for term in self.group[0].terms]
        rows = wrapped(styled(_card_name(self.group), Tone.HEADING), layout.prose, "")
        rows.append(styled(f"  {'GiB':<16}{'low':>8}{'expected':>10}{'high':>8}", Tone.FAINT))
        for name, term in terms:
            if term.expected_gib is None:
                unknown = styled("unknown", Tone.WARN) + f": {term.source}"
                rows += wrapped(unknown, layout.prose, " " * 18, f"  {name:<16}")
            else:
                figures = f"{_cell(term.low_gib):>8}{_cell(term.expected_gib):>10}{_cell(term.high_gib):>8}"
                rows.append(styled(f"  {name:<16}{figures}".rstrip()))
        for name, term in ((n, t) for n, t in terms if t.expected_gib is not None and t.source):
            rows += wrapped(styled(term.source, Tone.FAINT), layout.prose, "      ", f"  {name}: ")
        return rows


def _card_name(group: Sequence[PlannedRank]) -> str:
    rank, name = group[0], plan_pictures.cards_name(group)
    total = "its memory is unknown" if rank.total_gib is None else f"{rank.total_gib:.2f} GiB"
    left = "" if rank.available_gib is None else f", {rank.available_gib:.2f} for the KV cache"
    return f"{name[:1].upper()}{name[1:]}: {total}{left}{'' if rank.fits is None else f', {_ROOM[rank.fits]}'}"


def _cell(amount: float | None) -> str:
    return "" if amount is None else f"{amount:.2f}"


def _cache_rows(plan: Plan) -> list[tuple[str, str]]:
    """What is known of the KV cache, and of its amount, where it is not known, what is missing."""
    cache = plan.kv_cache
    if cache.gib is None:
        missing = ", ".join(plan_pictures.term_name(t.name) for t in _unknown_terms(plan))
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
    if plan.total_concurrency is None or not plan_pictures.is_copied(plan):
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
        why = f"; {plan_pictures.layout_name(legal[0])}: {legal[0].limits[0]}" if legal[0].limits else ""
        return f"does not fit: none of {len(legal)} legal layout{'s' * (len(legal) != 1)}{why}"
    first = legal[0]
    return f"{_VERDICTS[found.fits]}: best as {plan_pictures.layout_name(first)}, {headline(first).partition(': ')[2]}"


def ranking_view(plans: Sequence[Plan]) -> list[Block]:
    """The layouts, the best first, with why each stands where it stands."""
    shown, same = _folded(plans)
    rows: list[Block] = [_Ranked(None, None)]
    for plan in shown:
        rows.append(_Ranked(_layout_cells(plan), _FITS[plan.fits]))
        if plan.reasons:
            rows.append(Prose(styled("; ".join(plan.reasons), Tone.FAINT), "      "))
    return [*rows, *([Prose(same)] if same else [])]


@dataclass(frozen=True, slots=True)
class _Ranked:
    """A layout in columns, or in a sentence where they are too wide."""

    cells: Sequence[str] | None
    """None: the head."""
    tone: Tone | None

    def lines(self, layout: Layout) -> list[Styled]:
        """One line, or the sentence's; a head of nothing is none."""
        is_narrow = layout.prose < _RANKING
        if self.cells is None:
            head = f"  {'LAYOUT':<22}{'FITS':<6}{'CONTEXT':>12}{'AT ONCE':>12}{'KV GiB A CARD':>16}"
            return [] if is_narrow else [styled(head, Tone.HEADING)]
        name, fits, context, at_once, gib = self.cells
        if is_narrow:
            said = styled(f"fits: {fits}", self.tone) + f", context {context}, at once {at_once}, KV GiB a card {gib}"
            return wrapped(said, layout.prose, "    ", f"  {name}: ")
        word = styled(f"{fits:<6}", self.tone)
        return [f"  {name:<22}" + word + f"{context:>12}{at_once:>12}{gib:>16}"]


_RANKING = 70
"""Columns of the ranking."""


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
        f"{', '.join(map(plan_pictures.layout_name, each))} as {plan_pictures.layout_name(shown[key])}"
        for key, each in same.items()
    ]
    note = f"The same with copies inside one server (DP) in place of servers: {'; '.join(said)}." if said else ""
    return list(shown.values()), note


def _layout_cells(plan: Plan) -> list[str]:
    cache: PlannedCache = plan.kv_cache
    at_once = plan_pictures.requests_at_once(plan)
    figures = [
        "" if cache.longest_context is None else f"{cache.longest_context:,}",
        "" if at_once is None else _count(at_once),
        "" if cache.gib is None else f"{cache.gib:.2f}",
    ]
    is_unknown = plan.fits is None
    shown = [figure or ("unknown" if is_unknown else "-") for figure in figures]
    return [plan_pictures.layout_name(plan), ANSWERS[plan.fits], *shown]


def _refusal(plan: Plan) -> str:
    return f"{plan_pictures.layout_name(plan)}: {'; '.join(plan.reasons) or 'this release refuses it'}"


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


def _found_view(found: Found) -> list[Block]:
    reasons = found.reasons if found.value is not None else found.reasons[1:]
    name, colon, rest = found_headline(found).partition(":")
    return [Prose(styled(name, Tone.HEADING) + f"{colon}{rest}", ""), *(bulleted(said) for said in reasons)]


def compared_headline(compared: Compared) -> str:
    """The answer in one line: which term is off, or that none is."""
    if compared.off is not None:
        term = next((t for t in compared.terms if t.name == compared.off), None)
        name = plan_pictures.term_name(compared.off)
        if term is None or term.planned_gib is None or term.actual_gib is None:
            return f"off: {name}"
        return f"off: {name}, {term.actual_gib:.2f} GiB printed where {term.planned_gib:.2f} were planned"
    both = sum(term.planned_gib is not None and term.actual_gib is not None for term in compared.terms)
    if not both:
        return f"not compared: {'; '.join(compared.missing) or 'the log prints no term of the plan'}"
    return f"as planned: {both} printed term{'s' * (both != 1)} within the plan's own band"


def _compared_cells(term: ComparedTerm) -> list[str]:
    name = plan_pictures.term_name(term.name)
    band = "" if term.low_gib is None or term.high_gib is None else f"{term.low_gib:.2f} to {term.high_gib:.2f}"
    off = "" if term.planned_gib is None or term.actual_gib is None else f"{term.actual_gib - term.planned_gib:+.2f}"
    planned = "unknown" if term.planned_gib is None else f"{term.planned_gib:.2f}"
    actual = "unknown" if term.actual_gib is None else f"{term.actual_gib:.2f}"
    return [name, planned, band, actual, off]


def _residuals(compared: Compared) -> list[str]:
    return [
        f"{plan_pictures.term_name(kept.term)}: {kept.actual_gib:.2f} GiB where {kept.planned_gib:.2f} "
        f"were planned, vLLM {kept.release}, {kept.gpu or 'card unknown'}, "
        f"{kept.architecture or 'architecture unknown'}, tensor parallel {kept.tensor_parallel_size}"
        for kept in compared.residuals
    ]


def shown(record: Viewed) -> Shown:
    """For a notebook: rich, and as plain as in a terminal."""
    return Shown(plain(view(record)), html(record))


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


def _plan_html(plan: Plan) -> str:
    tone = TONES[False] if plan.legal is False else TONES[plan.fits]
    return verdict(headline(plan), tone) + remark(subject(plan)) + _details_html(plan)


def _details_html(plan: Plan) -> str:
    parts = [memory_html(plan)]
    if plan.speed:
        parts += [heading("Speed, an estimate"), remark(_speed(plan.speed))]
    if plan.deployment:
        command = preformatted(plan.deployment.command)
        parts += [heading(f"Command, linted for vLLM {plan.vllm.version}"), command]
    if plan.options:
        parts.append(remark(f"Not given, so settled by this release: {_settled(plan.options)}."))
    parts += [remark(f"Calibration: {said}") for said in _calibrated(plan)]
    return "".join(parts)


def memory_html(plan: Plan) -> str:
    """What each card holds, the KV cache and the limits, as a picture and tables."""
    parts = [plan_pictures.budgets(plan.per_gpu, utilization(plan))]
    parts += [_card_html(group) for group in plan_pictures.cards(plan.per_gpu)]
    cache = [[escape(name), escape(value)] for name, value in _cache_rows(plan)]
    parts += [heading("KV cache"), html_table(["", ""], cache)]
    if plan.limits:
        parts += [heading("Limits"), *(tag("p", escape(said), "max-width:80ch;margin:4px 0") for said in plan.limits)]
    return "".join(parts)


def overview(plan: Plan) -> Shown:
    """The verdict, each card's budget as a picture, and what the KV cache gives; without tables and command."""
    tone = TONES[False] if plan.legal is False else TONES[plan.fits]
    rows = [[escape(name), escape(value)] for name, value in _cache_rows(plan)]
    limits = [tag("p", escape(said), "max-width:80ch;margin:4px 0") for said in plan.limits]
    parts = [
        verdict(headline(plan), tone),
        plan_pictures.budgets(plan.per_gpu, utilization(plan)),
        html_table(["KV cache", ""], rows),
        *([heading("Limits"), *limits] if limits else []),
    ]
    lines = [headline(plan), *(f"{name}: {value}" for name, value in _cache_rows(plan)), *plan.limits]
    return Shown("\n".join(lines), "".join(parts))


def terms(plan: Plan) -> Shown:
    """Each part of a card's memory with where the amount comes from, and what the release settled by itself."""
    groups = plan_pictures.cards(plan.per_gpu)
    settled = [f"Not given, so settled by this release: {_settled(plan.options)}."] if plan.options else []
    html = "".join([*map(_card_html, groups), *map(remark, settled)])
    return Shown("\n\n".join([*(plain([_Card(tuple(group))]) for group in groups), *settled]), html)


def _card_html(group: Sequence[PlannedRank]) -> str:
    rows = []
    for term in group[0].terms:
        name = plan_pictures.term_name(term.name)
        swatch = f"{plan_pictures.term_swatch(term.name)} " if term.name in plan_pictures.DRAWN_TERMS else ""
        expected = "unknown" if term.expected_gib is None else _cell(term.expected_gib)
        rows.append([swatch + escape(name), _cell(term.low_gib), expected, _cell(term.high_gib)])
    sources = [term.source for term in group[0].terms]
    table = html_table(["GiB", "low", "expected", "high"], rows, numeric=(1, 2, 3), below=sources)
    return heading(_card_name(group)) + table


def _layouts_html(found: Layouts) -> str:
    legal = [plan for plan in found.layouts if plan.legal is not False]
    parts = [verdict(layouts_headline(found), TONES[found.fits]), remark(subject(found)), ranking_html(legal)]
    if legal:
        parts += [heading(f"The first: {plan_pictures.layout_name(legal[0])}"), _details_html(legal[0])]
    return "".join([*parts, *illegal_html(found)])


def ranking_html(legal: Sequence[Plan]) -> str:
    """The layouts as a picture and a table, the best first; empty where there is none."""
    if not legal:
        return ""
    shown, same = _folded(legal)
    rows = [[*map(escape, _layout_cells(plan))] for plan in shown]
    rows[0][0] = tag("b", rows[0][0])
    head = ["layout", "fits", "context", "at once", "KV GiB a card"]
    why = ["; ".join(plan.reasons) for plan in shown]
    table = html_table(head, rows, numeric=(2, 3, 4), below=why)
    return plan_pictures.layouts(shown) + table + (remark(same) if same else "")


def illegal_html(found: Layouts) -> list[str]:
    """As `illegal_view`."""
    illegal = [plan for plan in found.layouts if plan.legal is False]
    return [heading("Not legal"), *(remark(_refusal(plan)) for plan in illegal)] if illegal else []


def _found_html(found: Found | None) -> str:
    if found is None:
        return ""
    reasons = found.reasons if found.value is not None else found.reasons[1:]
    tone = TONES[None] if found.value is None else TONES[True]
    return verdict(found_headline(found), tone) + "".join(remark(said) for said in reasons)


def _compared_html(compared: Compared) -> str:
    is_bare = not any(term.actual_gib is not None for term in compared.terms)
    tone = TONES[False] if compared.off is not None else TONES[None] if is_bare else TONES[True]
    parts = [verdict(compared_headline(compared), tone), plan_pictures.differences(compared.terms)]
    if compared.terms:
        rows, why = [], []
        for term in compared.terms:
            name, planned, band, actual, off = _compared_cells(term)
            rows.append([escape(name), planned, actual, off])
            why.append("; ".join(filter(None, [f"planned {band}" if band else "", term.explained])))
        parts.append(html_table(["GiB", "planned", "printed", "off by"], rows, numeric=(1, 2, 3), below=why))
    parts += [remark(f"Not compared, unknown: {said}") for said in compared.missing]
    if compared.residuals:
        parts += [heading("Kept for calibration"), *(remark(said) for said in _residuals(compared))]
    return "".join(parts)
