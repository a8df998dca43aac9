"""Plans in steps, as runbooks show them."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.printed import masked
from vllm_runbooks.core.records import Answer, ServerRun
from vllm_runbooks.core.views import start_pictures, styled
from vllm_runbooks.core.views.elements import (
    Headline,
    cells,
    heading,
    html_table,
    joined,
    preformatted,
    remark,
    verdict,
    wrap,
)
from vllm_runbooks.core.views.runbook_steps import StepText
from vllm_runbooks.core.views.styled import Tone
from vllm_runbooks.core.views.summary import Summary, concurrency_text, count_of, sentence_of
from vllm_runbooks.core.views.summary_html import rendered
from vllm_runbooks.plan.layouts import ROOM
from vllm_runbooks.plan.records import Layouts, Plan
from vllm_runbooks.plan.render import pictures as plan_pictures
from vllm_runbooks.plan.render import plans, summaries
from vllm_runbooks.plan.render import words as plan_words
from vllm_runbooks.plan.terms import GIB, NOTHING, tried
from vllm_runbooks.reading.arguments.as_typed import as_option

if TYPE_CHECKING:
    from vllm_runbooks.plan.budget import Budget
    from vllm_runbooks.plan.confirmation import Confirmation
    from vllm_runbooks.plan.inverse import WayOut
    from vllm_runbooks.plan.remedies import PlanRemedy
    from vllm_runbooks.plan.requests import PlanningRequest


def _unplanned(why: str) -> RenderedView:
    answer = Headline("not planned", why)
    return RenderedView(wrap(str(answer), ""), verdict(answer, plans.TONES[None]), is_nothing=True)


def asked(request: PlanningRequest | str) -> RenderedView:
    """The planning request, or what it lacks."""
    if isinstance(request, str):
        return _unplanned(request)
    cards = Counter(f"{card.gpu.name}{f' on {card.node}' if card.node else ''}" for card in request.cards)
    options = {
        name: json.dumps(masked(value, name))
        for name, value in request.options.items()
        if name not in ("model", "model_tag")
    }
    rows = [
        ["model", request.model.name],
        ["configuration", request.model.source or "unknown"],
        ["GPUs", " + ".join(f"{count} x {name}" for name, count in cards.items()) or "none"],
        ["release", plan_words.release(request.release)],
        ["options", ", ".join(f"{name} {value}" for name, value in options.items()) or "none"],
    ]
    plain = "\n".join(wrap(value, " " * 20, f"{name:<20}") for name, value in rows)
    cells_html = [
        [escape(name), f'<span style="overflow-wrap:anywhere">{escape(value)}</span>'] for name, value in rows
    ]
    return RenderedView(plain, html_table(["", ""], cells_html))


def memory(plan: Plan | str, remedies: Sequence[PlanRemedy] = ()) -> RenderedView:
    """Memory of each GPU: answer, chart and figures, without the command.

    If `plan` is the reason for a missing one, it is the plan of the first of `remedies` that only shortens the context.
    """
    if isinstance(plan, str):
        change = summaries.shorter(remedies)
        if change is None:
            return _unplanned(plan)
        plan = change.plan
        answer, tone = _fits_at(change, plan_words.headline(plan).why)
    else:
        answer, tone = plan_words.headline(plan), plans.TONES[plan.fits]
    lead = plans.answer_view(answer, plan)
    body = verdict(answer, tone) + remark(plan_words.subject(plan))
    return RenderedView(
        styled.plain([*styled.parted([lead, *plans.memory_view(plan)]), styled.BLANK]), body + plans.memory_html(plan)
    )


def _fits_at(change: PlanRemedy, why: str) -> tuple[Headline, str]:
    """The headline of a model that fits with a shorter context, amber as in the summary."""
    return Headline(f"fits at {change.context:,} with {summaries.changed_layout(change)}", why), plans.TONES[None]


def conclusion(plan: Plan | str) -> StepText | None:
    """Whether a plan fits and why, as a fact; None if nothing is planned."""
    return None if isinstance(plan, str) else StepText(sentence_of(f"Calculated: {plan_words.headline(plan)}"))


def summary(answer: Plan | Layouts | str, remedies: Sequence[PlanRemedy] = ()) -> RenderedView:
    """Summary of a plan: fit, capacity and command, or the changes with which it fits."""
    if isinstance(answer, str):
        return rendered(Summary("NOT PLANNED", Tone.WARN, (), sentence_of(answer)))
    record = summaries.summarize(answer, remedies)
    # In a runbook, deployment files have their own step below.
    steps = tuple(step for step in record.steps if summaries.DEPLOY not in step.text)
    return rendered(replace(record, steps=steps))


def on_one_gpu(plan: Plan | str) -> StepText | None:
    """KV cache memory of a single GPU, and whether to split the model; None without a plan."""
    if isinstance(plan, str):
        return None
    rank, cache = plan.per_gpu[0], plan.kv_cache
    weights = next((term.expected_gib for term in rank.terms if term.name == "weights"), None)
    parts = []
    if weights is not None and rank.total_gib is not None:
        parts.append(f"the weights need {weights:.1f} GiB, one {rank.gpu} has {rank.total_gib:.1f} GiB")
    if rank.available_gib is not None and rank.available_gib > 0 and cache.needed_gib is not None:
        context = plan_words.option(plan, "max_model_len")
        length = f" of {context:,} tokens" if isinstance(context, int) else ""
        need = f"one request{length} needs {cache.needed_gib:.2f} GiB"
        parts.append(f"{rank.available_gib:.2f} GiB is left for the KV cache, and {need}")
    fact = "; ".join(parts) or f"Calculated for one {rank.gpu}: {plan_words.headline(plan)}"
    so = {
        True: "One GPU is enough: more GPUs can run replicas, which send each other nothing.",
        False: "One GPU is not enough: the model has to be split across several.",
        None: "Whether one GPU is enough depends on what is unknown.",
    }[plan.fits]
    return StepText(sentence_of(fact), so)


def choice(layouts: Layouts | str) -> StepText | None:
    """The recommended layout and the trade-off of the next; None without a plan."""
    if isinstance(layouts, str):
        return None
    ranked = plan_words.ranked(layouts)
    if not ranked:
        return StepText(sentence_of(plan_words.layouts_headline(layouts).why))
    if layouts.fits is False:
        full = plan_words.option(ranked[0], "max_model_len")
        length = f" {full:,} tokens" if isinstance(full, int) else ""
        return StepText(
            f"None of {count_of(len(ranked), 'valid layout')} fits{length}. Closest: {summaries.sentence(ranked[0])}"
        )
    listed, _ = plan_words.folded(ranked)
    first, others = listed[0], listed[1:2]
    count, context = plan_pictures.requests_at_once(first), plan_words.option(first, "max_model_len")
    length = f" of {context:,} tokens" if isinstance(context, int) else ""
    fact = f"{summaries.layout_text(first)} ranks first of {count_of(len(ranked), 'valid layout')}"
    fact += f", with {concurrency_text(count)} concurrent requests{length}." if count is not None else "."
    so = [f"Whether it fits is uncertain: {plan_words.headline(first).why}."] if first.fits is None else []
    for plan in others:
        trade = next((reason for reason in plan.reasons if reason.startswith(ROOM)), "")
        so += (
            [f"Next is {summaries.layout_text(plan)}: {trade}.".replace("of 1 x ", "of ").replace(" x ", " \u00d7 ")]
            if trade
            else []
        )
    return StepText(fact, " ".join(so))


def deployment(made: Mapping[str, str], folder: str) -> StepText | None:
    """Contents of the deployment files, and how to run them; None without files."""
    ports = [port[1] for name in made if (port := _UNIT.fullmatch(name))]
    if not ports:
        return None
    where = f"port {ports[0]}" if len(ports) == 1 else f"ports {ports[0]} to {ports[-1]}"
    proxy = "; nginx sends each request to the server with the fewest in flight" if "nginx.conf" in made else ""
    return StepText(
        f"{count_of(len(ports), 'server')} on {where}{proxy}.",
        "The script, the containers and the systemd units are alternatives: use one of them.",
        f"Set `apply` to write the files to `{folder}`; no file is overwritten. Then run:",
        f"bash {shlex.quote(f'{folder}/start.sh')}",
    )


_UNIT = re.compile(r"systemd/vllm-(\d{1,5})(?:-.*)?\.service")


def expected_lines(checks: Mapping[str, Confirmation]) -> StepText | None:
    """The planned figures that each server must print, and the first command that checks it; None without a layout."""
    check = next(iter(checks.values()), None)
    if check is None:
        return None
    figures = [f"`{line.text.rstrip(':')}` {line.expected}" for line in check.lines if line.expected]
    each = "Each server has to print" if len(checks) > 1 else "The server has to print"
    fact = f"{each} {'; '.join(figures)}." if figures else f"{each} `{check.lines[0].text}`."
    look = next(iter(check.looks), None)
    so = "If a line is missing, the layout did not take effect, whatever the command says."
    if look is None:
        return StepText(fact, so)
    return StepText(fact, so, f"Look at {look.what}: {look.expected}.", shlex.join(look.words))


def ranking(layouts: Layouts | str, remedies: Sequence[PlanRemedy] = ()) -> RenderedView:
    """Every layout with its reasons, the best first, and those that the release rejects; `remedies` as for `memory`."""
    if isinstance(layouts, str):
        return _unplanned(layouts)
    legal = plan_words.legal(layouts)
    answer, tone = plan_words.layouts_headline(layouts), plans.TONES[layouts.fits]
    best = next(iter(legal), None)
    if (change := summaries.shorter_context(best, remedies)) is not None:
        length = plan_words.option(best, "max_model_len") if best is not None else None
        answer, tone = _fits_at(change, f"not at {length:,}: {answer.why}")
    lead = plans.answer_view(answer, layouts)
    blocks = [lead, *([plans.ranking_view(legal)] if legal else []), *plans.illegal_view(layouts)]
    parts = [
        verdict(answer, tone),
        remark(plan_words.subject(layouts)),
        plans.ranking_html(legal),
    ]
    plain = styled.plain([*styled.parted(blocks), styled.BLANK])
    return RenderedView(plain, "".join([*parts, *plans.illegal_html(layouts)]))


_NONE = "Not written: there is one server, and nothing to share requests among."


def files(made: Mapping[str, str], pattern: str, otherwise: str = _NONE) -> RenderedView:
    """Deployment files that match a pattern: the first in full, the others by name.

    `otherwise` is shown if there are none.
    """
    names = [name for name in made if fnmatchcase(name, pattern)]
    if not names:
        return RenderedView.nothing(otherwise)
    first, others = names[0], names[1:]
    more = f"The others differ only in GPUs and port: {', '.join(others)}." if others else ""
    indented = "\n".join(f"  {line}".rstrip() for line in made[first].splitlines())
    plain = joined([f"{first}\n{indented}", *([wrap(more, "")] if more else [])])
    text_of = preformatted(made[first])
    return RenderedView(plain, heading(first) + text_of + (remark(more) if more else ""))


def confirmations(checks: Mapping[str, Confirmation]) -> RenderedView:
    """Checks that each instance runs with the planned split; shared checks are shown once."""
    plain, parts = [], []
    for lines in dict.fromkeys(check.lines for check in checks.values()):
        alike = [name for name, check in checks.items() if check.lines == lines]
        title = f"In the log of {'each of ' if len(alike) > 1 else ''}{', '.join(alike)}"
        counts = [f" ({line.times} times)" if (line.times or 0) > 1 else "" for line in lines]
        planned = [f": planned {line.expected}" if line.expected else "" for line in lines]
        rows = [
            [f"<code>{escape(line.text)}</code>{count}{escape(figures)}"]
            for line, count, figures in zip(lines, counts, planned, strict=True)
        ]
        texts = [
            f"  - {line.text}{count}{figures}\n{wrap(line.what, '      ')}"
            for line, count, figures in zip(lines, counts, planned, strict=True)
        ]
        plain.append("\n".join([title, *texts]))
        parts += [heading(title), html_table(["part of a line"], rows, below=[line.what for line in lines])]
    if not checks:
        return _unplanned("no layout fits, so there is nothing to see")
    looks: dict[tuple[str, str], list[str]] = {}
    for look in (look for check in checks.values() for look in check.looks):
        looks.setdefault((look.what, look.expected), []).append(shlex.join(look.words))
    for (what, expected), commands in looks.items():
        title = f"Check (read-only): {what}"
        plain.append("\n".join([title, *(f"  {command}" for command in commands), wrap(f"Expect: {expected}.")]))
        parts += [heading(title), preformatted("\n".join(commands)), remark(f"Expect: {expected}.")]
    unknown = list(dict.fromkeys(texts for check in checks.values() for texts in check.unknown))
    plain += [wrap(f"Unknown: {texts}", "") for texts in unknown]
    return RenderedView(joined(plain), "".join([*parts, *(remark(f"Unknown: {texts}") for texts in unknown)]))


class _Beside(NamedTuple):
    name: str
    planned: float
    low: float | None
    high: float | None
    printed: float
    style: str

    @property
    def off(self) -> float:
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


def compared(starts: Sequence[ServerRun], planned: Sequence[Plan | str]) -> RenderedView:
    """Every launch's plan next to its printed memory; a text is the reason for a missing plan."""
    figures_by_start = [
        _figures(start, plan) if isinstance(plan, Plan) else [] for start, plan in zip(starts, planned, strict=True)
    ]
    every = [figure for figures in figures_by_start for figure in figures]
    if not every:
        reason = next((plan for plan in planned if isinstance(plan, str)), "The log prints no figure that is planned.")
        return RenderedView.nothing(reason)
    farthest = max(every, key=lambda figure: abs(figure.off))
    number = next(at for at, figures in enumerate(figures_by_start, 1) if farthest in figures)
    lead = Headline(
        "planned",
        f"{len(every)} printed figures; the farthest is {abs(farthest.off):.1%} off "
        f"({farthest.name} of start {number})",
    )
    plain, parts = [wrap(str(lead), "")], [verdict(lead, _PLANNED_TONE)]
    for at, (start, plan, figures) in enumerate(zip(starts, planned, figures_by_start, strict=True), 1):
        title = " · ".join(filter(None, [start_pictures.label(start, at), start_pictures.distinction(start)]))
        if isinstance(plan, str):
            plain.append(f"{title}\n{wrap(f'not planned: {plan}')}")
            parts += [heading(title), remark(f"Not planned: {plan}")]
            continue
        rows = [f"  {'':<20}{'planned':>12}  {'band':<22}{'printed':>10}{'off by':>10}"]
        for figure in figures:
            name, expected, printed, off = figure.cells
            rows.append(f"  {name:<20}{expected:>12}  {figure.band:<22}{printed:>10}{off:>10}")
        plain.append("\n".join([title, *rows]))
        compared = cells([figure.cells for figure in figures])
        bands = [f"planned {figure.band}" if figure.band else "" for figure in figures]
        parts += [
            heading(title),
            html_table(["", "planned", "printed", "off by"], compared, numeric=(1, 2, 3), below=bands),
        ]
    return RenderedView(joined(plain), "".join(parts))


def accuracy(starts: Sequence[ServerRun], planned: Sequence[Plan | str]) -> StepText | None:
    """Difference of plans from the printed values of launches; None without a comparison."""
    figures = [
        (number, figure)
        for number, (start, plan) in enumerate(zip(starts, planned, strict=True), 1)
        if isinstance(plan, Plan)
        for figure in _figures(start, plan)
    ]
    if not figures:
        return None
    number, farthest = max(figures, key=lambda pair: abs(pair[1].off))
    fact = (
        f"Calculated from the settings alone, {count_of(len(figures), 'figure')} are within {abs(farthest.off):.1%} of "
        f"what was printed; the farthest is {farthest.name} of launch {number}."
    )
    is_off = abs(farthest.off) > _CLOSE
    so = "Something other than the printed settings ran, or another process used the GPU." if is_off else ""
    return StepText(fact, so)


_CLOSE = 0.03
"""Largest relative difference of plans from launches that ran with the settings in their log."""
_PLANNED_TONE = "#57606a"


def _figures(start: ServerRun, plan: Plan) -> list[_Beside]:
    facts, cache = start.facts, plan.kv_cache
    weights = [term for rank in plan.per_gpu for term in rank.terms if term.name == "weights" and term.expected_gib]
    most = max(weights, key=lambda term: term.expected_gib or 0.0, default=None)
    sides = (None, None, None) if most is None else (most.expected_gib, most.low_gib, most.high_gib)
    is_same = facts.max_concurrency_tokens in (None, plan_words.option(plan, "max_model_len"))
    rows = [
        ("weights GiB", *sides, facts.weights_gib, ".2f"),
        ("KV cache GiB", cache.gib, cache.low, cache.high, facts.kv_cache_gib, ".2f"),
        ("KV cache tokens", cache.tokens, cache.tokens_low, cache.tokens_high, facts.kv_cache_tokens, ",.0f"),
        ("max concurrency", cache.max_concurrency, None, None, facts.max_concurrency if is_same else None, ".2f"),
    ]  # fmt: skip
    return [
        _Beside(name, planned, low, high, printed, style)
        for name, planned, low, high, printed, style in rows
        if planned is not None and printed
    ]


def encoder(planned: Budget | str, answer: Answer) -> RenderedView:
    """Steps of the encoder's profiling run, next to the failed allocation in a log.

    `planned` may be the reason for the absence of a plan.
    """
    printed = answer.root_cause.captures if answer.root_cause else {}
    if isinstance(planned, str):
        return _unplanned(planned)
    if planned.encoder is None:
        return _unplanned("this launch profiles no encoder, or its memory is unknown")
    profile = planned.encoder
    weights = next((t.band.expected for t in planned.ranks[0].terms if t.name == "weights" and t.band), 0)
    printed_items = filter(None, (printed.get("encoder_items"), printed.get("modality")))
    sizes = [f"{tried(step.size) / 2**20:.2f}" for step in profile.steps]
    failed = printed.get("tried_mib") if printed.get("modality") == profile.modality else None
    at = sizes.index(failed) if failed in sizes else None
    rows = [
        ["profiled", f"{profile.items} {profile.modality}", " ".join(printed_items)],
        ["tokens of the encoder's cache", str(profile.budget), printed.get("encoder_budget_tokens", "")],
    ]
    if at is not None:
        step = profile.steps[at]
        before = f"{(weights + step.live - step.size) / GIB:.2f}"
        rows.append(["allocation that failed, MiB", sizes[at], sizes[at]])
        rows.append(["allocated before it, GiB", before, printed.get("allocated_gib", "")])
        lead = Headline("reproduced", f"{sizes[at]} MiB, {step.what} in a layer of the encoder")
    else:
        lead = Headline("planned", f"{profile.items} {profile.modality}; the log names no step of it")
    steps = [
        [step.what, size, f"{(weights + step.live) / GIB:.2f}", "failed" if at == number else ""]
        for number, (step, size) in enumerate(zip(profile.steps, sizes, strict=True))
    ]
    note = f"In use: weights and encoder tensors after the step. {profile.source}."
    figures = [f"  {'':<32}{'planned':>12}{'printed':>12}", *(f"  {a:<32}{b:>12}{c:>12}".rstrip() for a, b, c in rows)]
    ladder = [f"  {'STEP':<32}{'adds MiB':>12}{'in use GiB':>12}"]
    ladder += [f"  {a:<32}{b:>12}{c:>12}  {d}".rstrip() for a, b, c, d in steps]
    plain = joined([wrap(str(lead), ""), "\n".join(figures), "\n".join(ladder), wrap(note, "")])
    body = verdict(lead, plans.TONES[True if at is not None else None])
    body += html_table(["", "planned", "printed"], cells(rows), numeric=(1, 2))
    body += heading("Allocations of the encoder, in order")
    body += html_table(["step", "allocates MiB", "then in use GiB", ""], cells(steps), numeric=(1, 2))
    return RenderedView(plain, body + remark(note))


def ways_out(remedies: Sequence[WayOut] | str) -> RenderedView:
    """Changes with which a launch fits, with the smallest cost first, and their free memory."""
    if isinstance(remedies, str):
        return _unplanned(remedies)
    if not remedies:
        note_text = "No change of one or two options makes it fit, or it fits as it is."
        return RenderedView.nothing(note_text)
    rows, plain, below = [], [], []
    for way in remedies:
        options = " ".join(as_option(name, value) for name, value in way.changes.items())
        low, expected, _ = (side / GIB for side in way.margin or NOTHING)
        left = "" if way.margin is None else f"{expected:.2f}"
        room = "" if way.margin is None else f"leaves {expected:.2f} GiB, {low:.2f} at least; "
        cost = "; ".join(way.costs)
        code = f'<code style="overflow-wrap:anywhere">{escape(options)}</code>'
        rows.append([code, plan_words.ANSWERS[way.fits], left])
        plain.append(f"  - {options}\n{wrap(f'{_SURE[way.fits]}, {room}{cost}', '    ')}")
        below.append(f"{cost}; " + ("" if way.margin is None else f"at least {low:.2f} GiB are left"))
    table = html_table(["change", "fits", "GiB left"], rows, numeric=(2,), below=below)
    note = "GiB left: KV cache of the fullest GPU after one full-context request."
    return RenderedView(joined(["\n".join(plain), wrap(note, "")]), table + remark(note))


_SURE = {True: "fits", None: "is expected to fit", False: "does not fit"}
