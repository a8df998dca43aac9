"""Plans as text, JSON and HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from vllm_runbooks.core.display import RenderedView, unknown_reason, visible
from vllm_runbooks.core.records import PlanComparison
from vllm_runbooks.core.views import memory_parts
from vllm_runbooks.core.views.elements import (
    AMBER,
    GREEN,
    RED,
    Headline,
    badge,
    coloured,
    heading,
    html_table,
    preformatted,
    remark,
    tag,
    verdict,
)
from vllm_runbooks.core.views.styled import (
    BLANK,
    Layout,
    Line,
    Prose,
    Styled,
    TextBlock,
    Tone,
    bulleted,
    headed,
    parted,
    plain,
    styled,
    wrapped,
)
from vllm_runbooks.core.views.summary import sentence_of
from vllm_runbooks.core.views.summary_html import folded
from vllm_runbooks.plan.records import FindAnswer, Layouts, Plan, PlannedRank
from vllm_runbooks.plan.render import pictures as plan_pictures
from vllm_runbooks.plan.render import words as plan_words

Viewed = Plan | Layouts | PlanComparison | FindAnswer
"""Records of the planner that these views render."""
_FITS = {True: Tone.GOOD, False: Tone.BAD, None: Tone.WARN}
_WORDS = {
    **{word: _FITS[fits] for fits, word in plan_words.VERDICTS.items()},
    "invalid": Tone.BAD, "off": Tone.BAD, "not compared": Tone.WARN, "as planned": Tone.GOOD,
}  # fmt: skip
"""Tone of each verdict."""
TONES = {True: GREEN, False: RED, None: AMBER}


def text(record: Viewed) -> str:
    """Render the record as text without colors."""
    return plain(view(record))


def view(record: Viewed) -> list[TextBlock]:
    """Render the record for a terminal."""
    match record:
        case Plan():
            lead = [_found_view(record.found)] if record.found else []
            parts = [*lead, answer_view(plan_words.headline(record), record), *_details(record)]
        case Layouts():
            parts = _layouts_view(record)
        case PlanComparison():
            parts = _compared_view(record)
        case _:
            parts = [_found_view(record)]
    return [*parted(parts), BLANK]


def details(record: Plan | Layouts | PlanComparison, first: Plan | None = None) -> list[TextBlock]:
    """All that a summary leaves out, for a terminal; `first` is the layout to detail, else the best one."""
    match record:
        case Plan():
            found: list[TextBlock] = [bulleted(reason) for reason in record.found.reasons] if record.found else []
            parts = [found, *_details(record, has_command=False)]
        case Layouts():
            parts = _ranking_and_best(record, first, has_command=False)
        case _:
            parts = _compared_notes(record)
    blocks = [*parted(part for part in parts if part), BLANK]
    is_on_cpus = not isinstance(record, PlanComparison) and plan_words.is_on_cpus(record.gpus)
    return [_OnCpus(block) for block in blocks] if is_on_cpus else blocks


@dataclass(frozen=True, slots=True)
class _OnCpus:
    """A block of a plan for hosts without GPUs."""

    block: TextBlock

    def lines(self, layout: Layout) -> list[Styled]:
        return [plan_words.on_cpus(line) for line in self.block.lines(layout)]


def answer_view(answer: Headline, planned: Plan | Layouts) -> list[TextBlock]:
    """The answer in one sentence, and its subject."""
    return [Prose(_judged(answer), ""), Prose(styled(plan_words.subject(planned), Tone.FAINT), "")]


def _judged(answer: Headline) -> Styled:
    return _begun(answer, _WORDS.get(answer.verdict, Tone.WARN))


def _begun(answer: Headline, tone: Tone) -> Styled:
    return styled(answer.verdict, tone) + f": {answer.why}"


def _layouts_view(layouts: Layouts) -> list[list[TextBlock]]:
    return [answer_view(plan_words.layouts_headline(layouts), layouts), *_ranking_and_best(layouts)]


def _ranking_and_best(
    layouts: Layouts, first: Plan | None = None, *, has_command: bool = True
) -> list[list[TextBlock]]:
    plans = plan_words.ranked(layouts)
    if not plans:
        return illegal_view(layouts)
    plan = first or plans[0]
    best = headed(_detailed_name(layouts, plan, str.upper), [Prose(_judged(plan_words.headline(plan)))])
    return [ranking_view(plans), best, *_details(plan, has_command=has_command), *illegal_view(layouts)]


def _detailed_name(layouts: Layouts, plan: Plan, case: Callable[[str], str] = str) -> str:
    """Heading of the details of a layout."""
    which = "Closest layout" if layouts.fits is False else "Best layout"
    return f"{case(which)}: {plan_pictures.layout_name(plan)}"


def illegal_view(layouts: Layouts) -> list[list[TextBlock]]:
    """Layouts that the release rejects, with the reasons; empty if there are none."""
    illegal = [plan for plan in layouts.layouts if plan.legal is False]
    return [headed("INVALID", [bulleted(plan_words.refusal(plan)) for plan in illegal])] if illegal else []


def text_compared(compared: PlanComparison) -> str:
    """Plan against actual, without colors."""
    return plain(view(compared))


def _compared_view(compared: PlanComparison) -> list[list[TextBlock]]:
    parts: list[list[TextBlock]] = [[Prose(_judged(plan_words.compared_headline(compared)), "")]]
    if compared.terms:
        head = f"  {'GiB':<16}{'planned':>9}  {'band':<18}{'printed':>9}{'off by':>14}"
        rows: list[TextBlock] = [Line(styled(head, Tone.FAINT))]
        for term in compared.terms:
            name, planned, band, actual, off = plan_words.compared_cells(term)
            is_off = compared.off == term.name
            figures = f"{planned:>9}  {band:<18}{actual:>9}{off:>14}".rstrip()
            row = styled(f"  {name:<16}", Tone.BAD if is_off else None) + styled(figures, Tone.BAD if is_off else None)
            rows.append(Line(row.part(0, len(str(row).rstrip()))))
            if term.explained:
                rows.append(Prose(styled(term.explained, Tone.FAINT), "      "))
        parts.append(rows)
    return [*parts, *_compared_notes(compared)]


def _compared_notes(compared: PlanComparison) -> list[list[TextBlock]]:
    parts: list[list[TextBlock]] = []
    if compared.missing:
        missing = [bulleted(f"unknown: {unknown_reason(sentence)}") for sentence in compared.missing]
        parts.append(headed("NOT COMPARED", missing))
    if compared.residuals:
        parts.append(headed("FOR CALIBRATION", [bulleted(sentence) for sentence in plan_words.residuals(compared)]))
    return parts


def memory_view(plan: Plan) -> list[list[TextBlock]]:
    """Memory of each GPU, the KV cache and the limits, as separate blocks."""
    parts: list[list[TextBlock]] = [[_GpuTable(tuple(group))] for group in plan_pictures.cards(plan.per_gpu)]
    rows = plan_words.cache_rows(plan)
    names = [styled(f"  {name:<22}", Tone.FAINT) for name, _ in rows]
    lines = [Prose(value, " " * 24, name) for name, (_, value) in zip(names, rows, strict=True)]
    parts.append(headed("KV CACHE", lines))
    if plan.limits:
        parts.append(headed("LIMITS", [bulleted(limit) for limit in plan.limits]))
    return parts


def _details(plan: Plan, *, has_command: bool = True) -> list[list[TextBlock]]:
    parts = memory_view(plan)
    if plan.assumptions:
        parts.append(headed("ASSUMPTIONS", [bulleted(sentence) for sentence in plan.assumptions]))
    if plan.options:
        parts.append(headed("DEFAULTS OF THIS RELEASE", [Prose(plan_words.settled(plan.options))]))
    if plan.speed:
        parts.append(headed("ESTIMATED SPEED", [Prose(plan_words.speed(plan.speed))]))
    if plan.deployment and has_command and plan.fits is not False:
        command = [Line("  " + styled(line, Tone.COMMAND)) for line in plan.deployment.command.splitlines()]
        parts.append(headed(f"COMMAND, linted for vLLM {plan.vllm.version}", command or [BLANK]))
    return [*parts, headed("CALIBRATION", [bulleted(sentence) for sentence in plan_words.calibrated(plan)])]


@dataclass(frozen=True, slots=True)
class _GpuTable:
    """Memory terms of a GPU as a table, or as sentences if too wide, with the sources below."""

    group: tuple[PlannedRank, ...]

    def lines(self, layout: Layout) -> list[Styled]:
        terms = [(plan_pictures.term_name(term.name), term) for term in self.group[0].terms]
        rows = wrapped(styled(plan_words.card_name(self.group), Tone.HEADING), layout.prose, "")
        rows.append(styled(f"  {'GiB':<16}{'low':>8}{'expected':>10}{'high':>8}", Tone.FAINT))
        for name, term in terms:
            if term.expected_gib is None:
                unknown = styled("unknown", Tone.WARN) + f": {unknown_reason(term.source)}"
                rows += wrapped(unknown, layout.prose, " " * 18, f"  {name:<16}")
            else:
                low, expected, high = map(plan_words.cell, (term.low_gib, term.expected_gib, term.high_gib))
                figures = f"{low:>8}{expected:>10}{high:>8}"
                rows.append(styled(f"  {name:<16}{figures}".rstrip()))
        for name, term in ((n, t) for n, t in terms if t.expected_gib is not None and t.source):
            rows += wrapped(styled(term.source, Tone.FAINT), layout.prose, "      ", f"  {name}: ")
        return rows


def ranking_view(plans: Sequence[Plan]) -> list[TextBlock]:
    """Layouts, best first, with the reasons for the rank of each."""
    listed, same = plan_words.folded(plans)
    rows: list[TextBlock] = [_Ranked(None, None)]
    for plan in listed:
        rows.append(_Ranked(plan_words.layout_cells(plan), _FITS[plan.fits]))
        if plan.reasons:
            rows.append(Prose(styled(" ".join(map(sentence_of, plan.reasons)), Tone.FAINT), "      "))
    return [*rows, *([Prose(same)] if same else [])]


@dataclass(frozen=True, slots=True)
class _Ranked:
    cells: Sequence[str] | None
    """None for the header."""
    tone: Tone | None

    def lines(self, layout: Layout) -> list[Styled]:
        is_narrow = layout.prose < _RANKING
        if self.cells is None:
            head = f"  {'LAYOUT':<22}{'FITS':<6}{'CONTEXT':>12}{'CONCURRENT':>12}{'KV GiB PER GPU':>16}"
            return [] if is_narrow else [styled(head, Tone.HEADING)]
        name, fits, context, at_once, gib = self.cells
        if is_narrow:
            sentence = (
                styled(f"fits: {fits}", self.tone) + f", context {context}, concurrent {at_once}, KV GiB per GPU {gib}"
            )
            return wrapped(sentence, layout.prose, "    ", f"  {name}: ")
        word = styled(f"{fits:<6}", self.tone)
        return [f"  {name:<22}" + word + f"{context:>12}{at_once:>12}{gib:>16}"]


_RANKING = 70


def _found_view(finding: FindAnswer) -> list[TextBlock]:
    reasons = plan_words.reasons(finding)
    return [
        Prose(_begun(plan_words.found_headline(finding), Tone.HEADING), ""),
        *(bulleted(reason) for reason in reasons),
    ]


def shown(record: Viewed) -> RenderedView:
    """For a notebook: rich, and as plain as in a terminal."""
    return RenderedView(plain(view(record)), html(record))


def html(record: Viewed) -> str:
    """Verdict, chart, tables and command."""
    match record:
        case Plan():
            body = _found_html(record.found) + _plan_html(record)
        case Layouts():
            body = _layouts_html(record)
        case PlanComparison():
            body = _compared_html(record)
        case _:
            body = _found_html(record)
    return visible(body)


def details_html(record: Plan | Layouts, first: Plan | None = None) -> str:
    """One memory chart and the layouts as HTML, those that do not fit folded: for a page whose summary is above."""
    shown = visible(_details_of_page(record, first))
    return plan_words.for_devices(shown, record.gpus)


def _details_of_page(record: Plan | Layouts, first: Plan | None) -> str:
    if isinstance(record, Plan):
        return _chart_and_calculation(record)
    plans = plan_words.ranked(record)
    if not plans:
        return "".join(illegal_html(record))
    plan = first or plans[0]
    # A layout that fits with a shorter context is not a failure.
    others = [p for p in plans if p.fits is False and not plan_words.shorter_context(p)]
    fitting = sorted((p for p in plans if p not in others), key=lambda p: p is not plan)
    parts = [heading(_detailed_name(record, plan)), _chart_and_calculation(plan)]
    parts += [heading("Layouts"), ranking_html(fitting or others, has_chart=False)]
    if fitting and others:
        parts.append(folded(f"Layouts that do not fit ({len(others)})", ranking_html(others, has_chart=False)))
    return "".join([*parts, *illegal_html(record)])


def _chart_and_calculation(plan: Plan) -> str:
    chart = plan_pictures.budgets(plan.per_gpu, plan_words.utilization(plan))
    return chart + folded("How this was calculated", _details_html(plan, has_chart=False))


def _plan_html(plan: Plan) -> str:
    tone = TONES[False] if plan.legal is False else TONES[plan.fits]
    lead = verdict(plan_words.headline(plan), tone) + remark(plan_words.subject(plan))
    return lead + _details_html(plan, has_command=plan.fits is not False)


def _details_html(plan: Plan, *, has_command: bool = False, has_chart: bool = True) -> str:
    parts = [memory_html(plan, has_chart=has_chart)]
    if plan.speed:
        parts += [heading("Speed, an estimate"), remark(plan_words.speed(plan.speed))]
    if plan.deployment and has_command:
        command = preformatted(plan.deployment.command)
        parts += [heading(f"Command, linted for vLLM {plan.vllm.version}"), command]
    if plan.options:
        parts.append(remark(f"Defaults of this release: {plan_words.settled(plan.options)}."))
    parts += [remark(f"Assumption: {sentence}") for sentence in plan.assumptions]
    parts += [remark(f"Calibration: {sentence}") for sentence in plan_words.calibrated(plan)]
    return "".join(parts)


def memory_html(plan: Plan, *, has_chart: bool = True) -> str:
    """Memory of each GPU, the KV cache and the limits, as a chart and tables."""
    parts = [plan_pictures.budgets(plan.per_gpu, plan_words.utilization(plan))] if has_chart else []
    parts += [_card_html(group) for group in plan_pictures.cards(plan.per_gpu)]
    cache = [[escape(name), escape(value)] for name, value in plan_words.cache_rows(plan)]
    parts += [heading("KV cache"), html_table(["", ""], cache)]
    if plan.limits:
        parts += [heading("Limits"), *(tag("p", escape(limit), "max-width:80ch;margin:4px 0") for limit in plan.limits)]
    return "".join(parts)


def overview(plan: Plan) -> RenderedView:
    """The verdict, each GPU's budget as a chart, and the KV cache; without tables and command."""
    tone = TONES[False] if plan.legal is False else TONES[plan.fits]
    rows = [[escape(name), escape(value)] for name, value in plan_words.cache_rows(plan)]
    limits = [tag("p", escape(limit), "max-width:80ch;margin:4px 0") for limit in plan.limits]
    parts = [
        verdict(plan_words.headline(plan), tone),
        plan_pictures.budgets(plan.per_gpu, plan_words.utilization(plan)),
        html_table(["KV cache", ""], rows),
        *([heading("Limits"), *limits] if limits else []),
    ]
    lines = [
        str(plan_words.headline(plan)),
        *(f"{name}: {value}" for name, value in plan_words.cache_rows(plan)),
        *plan.limits,
    ]
    return RenderedView("\n".join(lines), "".join(parts))


def terms(plan: Plan) -> RenderedView:
    """Memory terms with their sources, and the defaults of the release."""
    groups = plan_pictures.cards(plan.per_gpu)
    settled = [f"Defaults of this release: {plan_words.settled(plan.options)}."] if plan.options else []
    html = "".join([*map(_card_html, groups), *map(remark, settled)])
    return RenderedView("\n\n".join([*(plain([_GpuTable(tuple(group))]) for group in groups), *settled]), html)


def _card_html(group: Sequence[PlannedRank]) -> str:
    rows = []
    for term in group[0].terms:
        name = plan_pictures.term_name(term.name)
        swatch = f"{memory_parts.swatch(term.name)} " if term.name in memory_parts.PARTS else ""
        expected = "unknown" if term.expected_gib is None else plan_words.cell(term.expected_gib)
        rows.append([swatch + escape(name), plan_words.cell(term.low_gib), expected, plan_words.cell(term.high_gib)])
    sources = [term.source for term in group[0].terms]
    table = html_table(["GiB", "low", "expected", "high"], rows, numeric=(1, 2, 3), below=sources)
    return heading(plan_words.card_name(group)) + table


def _layouts_html(layouts: Layouts) -> str:
    lead = verdict(plan_words.layouts_headline(layouts), TONES[layouts.fits])
    return lead + remark(plan_words.subject(layouts)) + _ranking_and_best_html(layouts)


def _ranking_and_best_html(layouts: Layouts) -> str:
    plans = plan_words.ranked(layouts)
    parts = [ranking_html(plans)]
    if plans:
        plan = plans[0]
        details = _details_html(plan, has_command=plan.fits is not False)
        parts += [heading(_detailed_name(layouts, plan)), details]
    return "".join([*parts, *illegal_html(layouts)])


def ranking_html(legal: Sequence[Plan], *, has_chart: bool = True) -> str:
    """Layouts as a chart and a table, best first; columns with a single value are left out."""
    if not legal:
        return ""
    listed, same = plan_words.folded(legal)
    every = [[_fit_html(plan) if n == 1 else _cell_html(cell) for n, cell in enumerate(plan_words.layout_cells(plan))]
             for plan in listed]  # fmt: skip
    # The context of a layout that fits is the plan's, and the verdict of another has the length that fits.
    kept = [
        n
        for n in range(len(_RANKED))
        if n == 0 or (n != _LENGTH and (len({row[n] for row in every}) > 1 or len(every) == 1))
    ]
    rows = [[row[n] for n in kept] for row in every]
    rows[0][0] = tag("b", rows[0][0]) + (f" {badge('recommended', GREEN)}" if listed[0].fits else "")
    # The verdict of a layout that fits with a shorter context has its reason.
    why = ["; ".join(r for r in p.reasons if r not in p.limits or not plan_words.shorter_context(p)) for p in listed]
    numeric = [at for at, n in enumerate(kept) if n > 1]
    head = [_RANKED[n] for n in kept] if len(kept) > 1 else [""]
    table = html_table(head, rows, numeric=numeric, below=why)
    return (plan_pictures.layouts(listed) if has_chart else "") + table + (remark(same) if same else "")


def _cell_html(cell: str) -> str:
    """A cell of the terminal's ranking; the verdict has the shorter context."""
    return escape(cell.removeprefix("max ").replace(" x ", " \N{MULTIPLICATION SIGN} "))


def _fit_html(plan: Plan) -> str:
    """Whether a layout fits, maybe with a shorter context."""
    if length := plan_words.shorter_context(plan):
        return coloured(f"fits at {length:,}", AMBER, _FIT)
    sign = "?" if plan.fits is None else "✓" if plan.fits else "✗"
    return coloured(f"{sign} {plan_words.VERDICTS[plan.fits]}", TONES[plan.fits], _FIT)


_FIT = "font-weight:600"
_LENGTH = 2
_RANKED = ("layout", "fits", "longest context", "concurrent", "KV GiB per GPU")


def illegal_html(layouts: Layouts) -> list[str]:
    """HTML of `illegal_view`."""
    illegal = [plan for plan in layouts.layouts if plan.legal is False]
    return [heading("Invalid layouts"), *(remark(plan_words.refusal(plan)) for plan in illegal)] if illegal else []


def _found_html(finding: FindAnswer | None) -> str:
    if finding is None:
        return ""
    reasons = plan_words.reasons(finding)
    tone = TONES[None] if finding.value is None else TONES[True]
    return verdict(plan_words.found_headline(finding), tone) + "".join(remark(reason) for reason in reasons)


def _compared_html(compared: PlanComparison) -> str:
    is_bare = not any(term.actual_gib is not None for term in compared.terms)
    tone = TONES[False] if compared.off is not None else TONES[None] if is_bare else TONES[True]
    parts = [verdict(plan_words.compared_headline(compared), tone), plan_pictures.differences(compared.terms)]
    if compared.terms:
        rows, why = [], []
        for term in compared.terms:
            name, planned, band, actual, off = plan_words.compared_cells(term)
            rows.append([escape(name), planned, actual, off])
            why.append("; ".join(filter(None, [f"planned {band}" if band else "", term.explained])))
        parts.append(html_table(["GiB", "planned", "printed", "off by"], rows, numeric=(1, 2, 3), below=why))
    parts += [remark(f"Not compared, unknown: {unknown_reason(sentence)}") for sentence in compared.missing]
    if compared.residuals:
        parts += [heading("Kept for calibration"), *(remark(sentence) for sentence in plan_words.residuals(compared))]
    return "".join(parts)
