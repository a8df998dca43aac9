"""A running server as text, JSON and notebook sections: rungs, figures, what is wrong and what to change, the load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from vllm_runbooks.catalog.serving import Serving
from vllm_runbooks.core.display import Shown, visible
from vllm_runbooks.core.records import Remedy, Verdict
from vllm_runbooks.core.views.drawing import HAIR, LINES, WIDTH, caption, picture, rule, swatches, tick_step
from vllm_runbooks.core.views.elements import GREEN, RED, Headline, badge, grid, heading, prose, remark, tag, verdict
from vllm_runbooks.core.views.styled import (
    BLANK,
    GROUNDS,
    SEVERITIES,
    VERDICTS,
    Block,
    Line,
    Loose,
    Prose,
    Table,
    Tone,
    bulleted,
    headed,
    parted,
    plain,
    styled,
)
from vllm_runbooks.probe.records import FEWEST_P95, FEWEST_P99, Health, LoadMeasured, ServingFinding
from vllm_runbooks.probe.vitals import Figures, shown

_RUNG = ("rung", "result", "took", "what was found")
_RESULTS = {"passed": Tone.GOOD, "failed": Tone.BAD, "skipped": Tone.FAINT}
_DRAWN = ("running", "waiting", "kv_use")
_HIGH, _LEFT, _TOP = 150.0, 44.0, 34.0


def text(found: Health, serving: Serving) -> str:
    """The answer without colours, for a pipe."""
    return plain(view(found, serving))


def view(found: Health, serving: Serving) -> list[Block]:
    """The answer for a terminal."""
    seen = found.observation
    release = found.vllm.version or "unknown"
    answer = styled(found.verdict.value.upper(), VERDICTS[found.verdict])
    parts: list[list[Block]] = [[Loose(found.reason, first=answer + "  ")]]
    about = f"{seen.place}  model {seen.model or 'unknown'}  vLLM {release}  at {seen.at}"
    parts.append([Loose(styled(about, Tone.FAINT), "")])
    parts.append(headed("RUNGS", _rungs_view(found)))
    if seen.samples:
        parts.append(headed("FIGURES", _figures_view(_figures(found, serving))))
    if seen.load is not None:
        parts.append(headed("LOAD", _figures_view(_loaded(found, seen.load))))
    parts += [_finding_view(each) for each in found.findings]
    if notes := _notes(found):
        parts.append([Loose(styled("note:", Tone.HEADING) + f" {note}") for note in notes])
    return [*parted(parts), BLANK]


def _rungs_view(found: Health) -> list[Block]:
    if not found.observation.rungs:
        return [Line("  No rung was tried.")]
    rows = [(name, styled(result, _RESULTS.get(result)), took, said) for name, result, took, said in _rung_rows(found)]
    return [Table([styled(name, Tone.FAINT) for name in _RUNG], rows, indent="  ")]


def _notes(found: Health) -> list[str]:
    seen, notes = found.observation, list(found.notes)
    if seen.log is not None:
        cause = f"; {seen.log.title}" if seen.log.title else ""
        notes.append(f"its log ({', '.join(seen.log.files)}): {seen.log.outcome.value}{cause}")
    for card in seen.cards:
        if card.used_mib is not None and card.total_mib:
            used = f"{card.used_mib / 1024:.1f} of {card.total_mib / 1024:.1f} GiB in use"
            busy = "" if card.busy_percent is None else f", {card.busy_percent:.0f} % busy"
            notes.append(f"GPU {card.index} ({card.name or 'unknown'}): {used}{busy}")
    return notes


def outcome(found: Health) -> Shown:
    """The verdict in a line."""
    tone = GREEN if found.verdict is Verdict.PASS else RED
    said = Headline(found.verdict.value, found.reason)
    return Shown(str(said), verdict(said, tone))


def rungs(found: Health) -> Shown:
    """The ladder, rung by rung."""
    if not found.observation.rungs:
        return Shown("No rung was tried.", prose("No rung was tried."))
    return grid(_RUNG, _rung_rows(found))


def _rung_rows(found: Health) -> list[tuple[str, str, str, str]]:
    return [
        (rung.name, rung.result.value, "" if rung.seconds is None else shown(rung.seconds, "s"), visible(rung.says))
        for rung in found.observation.rungs
    ]


_NO_FIGURES = "The server told no figures of itself."
_Grid = tuple[list[str], list[list[str]], str]
"""A head, rows, and what stands below."""


def _figures_view(grid_: _Grid | None) -> list[Block]:
    """A table of figures; without any, why there is none."""
    if grid_ is None:
        return [Line(f"  {_NO_FIGURES}")]
    head, rows, below = grid_
    table = Table(
        [styled(name, Tone.FAINT) for name in head], rows, numeric=frozenset(range(1, len(head))), indent="  "
    )
    return [table, Loose(styled(below, Tone.FAINT), "  ", "  ")]


def figures(found: Health, serving: Serving) -> Shown:
    """What its metrics say: of all engines together, and of each where there are several; drawn over time."""
    told = _figures(found, serving)
    if told is None:
        return Shown(_NO_FIGURES, prose(_NO_FIGURES))
    head, rows, below = told
    table = grid(head, rows, below, is_numeric=True)
    return Shown(table.plain, table.html + _drawn(found, serving))


def _figures(found: Health, serving: Serving) -> _Grid | None:
    seen = found.observation
    known = [name for name in serving.facts if found.facts.get(name) is not None]
    if not known:
        return None
    head = ["", "all" if found.engines else "value", *(f"engine {visible(each.engine)}" for each in found.engines)]
    rows = [
        [
            serving.facts[name].says,
            *(
                shown(facts.get(name), serving.facts[name].unit)
                for facts in (found.facts, *(e.facts for e in found.engines))
            ),
        ]
        for name in known
    ]
    window = Figures(seen.samples, serving).seconds
    below = (
        f"{len(seen.samples)} samples over {window:.1f} s; rates and times over all of it, the others as of the last."
    )
    if any(serving.facts[name].kind == "quantile" for name in known):
        below += " Medians and p95 are interpolated within the buckets of the server's histograms."
    return head, rows, below


def _drawn(found: Health, serving: Serving) -> str:
    """Requests that run and wait, and the share of the KV cache, over the samples; empty where there are few."""
    samples = found.observation.samples
    if len(samples) < _FEWEST_DRAWN:
        return ""
    told = Figures(samples, serving)
    curves = {
        name: [told.gauge(serving.facts[name], number) for number in range(len(samples))]
        for name in _DRAWN
        if name in serving.facts
    }
    most = max((v for name in _DRAWN[:2] for v in curves.get(name, ()) if v is not None), default=0.0) or 1.0
    first, last = samples[0].at_s, samples[-1].at_s
    right, bottom = WIDTH - _LEFT, _TOP + _HIGH
    legend, _ = swatches({_named(name, serving): LINES[n] for n, name in enumerate(curves)}, 12)
    parts = [legend, rule(_LEFT, bottom, right, bottom), rule(_LEFT, _TOP, _LEFT, bottom, colour=HAIR)]
    step = tick_step(most, 4)
    for number in range(int(most / step) + 1):
        y = bottom - _HIGH * number * step / most
        parts += [
            rule(_LEFT, y, right, y),
            caption(_LEFT - 6, y + 4, f"{number * step:g}", size=11, anchor="end", faint=True),
        ]
    for n, (name, values) in enumerate(curves.items()):
        scale = 1.0 if name == "kv_use" else most
        points = [
            (
                _LEFT + (right - _LEFT) * (sample.at_s - first) / ((last - first) or 1.0),
                bottom - _HIGH * min(max(value / scale, 0.0), 1.0),
            )
            for sample, value in zip(samples, values, strict=True)
            if value is not None
        ]
        parts += [rule(*one, *other, colour=LINES[n], thick=2) for one, other in pairwise(points)]
    parts.append(caption(right, bottom + 16, f"{last - first:.1f} s", size=11, anchor="end", faint=True))
    return picture(parts, bottom + 24, "Requests that run and wait, and the KV cache in use, over the samples")


_FEWEST_DRAWN = 3


def _named(name: str, serving: Serving) -> str:
    return f"{serving.facts[name].says}{' (top: 100%)' if name == 'kv_use' else ''}"


def load(found: Health) -> Shown:
    """What the load showed, as it was seen from outside."""
    measured = found.observation.load
    if measured is None:
        said = "No load was put on the server."
        return Shown(said, prose(said))
    head, rows, below = _loaded(found, measured)
    return grid(head, rows, below, is_numeric=True)


def _loaded(found: Health, measured: LoadMeasured) -> _Grid:
    rows = [list(row) for row in _load_rows(measured)]
    return ["", "p50", "p95", "p99"], rows, _load_words(measured) + _of_the_cache(found)


_MUCH_FOUND = 0.05
"""Share of tokens that the prefix cache spared, from which on times are not those of computing prompts."""


def _of_the_cache(found: Health) -> str:
    """What it means where tokens were found in the prefix cache, though no two prompts of a load begin alike."""
    share = found.facts.get("prefix_hit_share")
    if share is None or share <= _MUCH_FOUND:
        return ""
    return (
        f" Meanwhile {shown(share, 'share')} of the tokens were found in the prefix cache. The load's own prompts do "
        "not repeat, so other clients' do, and the times are comparable only with those of a load with the same share."
    )


def _load_rows(measured: LoadMeasured) -> Iterator[tuple[str, str, str, str]]:
    for what, times in (
        ("time to first token", measured.first_token),
        ("time per further token", measured.each_token),
        ("whole answer", measured.whole),
    ):
        yield (
            what,
            _milliseconds(times.p50_ms, measured, 1),
            _milliseconds(times.p95_ms, measured, FEWEST_P95),
            _milliseconds(times.p99_ms, measured, FEWEST_P99),
        )


def _milliseconds(value: float | None, measured: LoadMeasured, fewest: int) -> str:
    if 0 < measured.answered < fewest:
        return "too few"
    return "unknown" if value is None else shown(value / 1000, "s")


def _load_words(measured: LoadMeasured) -> str:
    of_all = f"{measured.answered} of {measured.requests} requests answered, {measured.unfinished} under way at the end"
    said = [f"{measured.at_once} at once for {measured.seconds:.1f} s: {of_all}"]
    said += [f"{count} x {kind}" for kind, count in measured.errors.items()]
    if measured.answer_tokens_per_s is not None:
        said.append(f"{shown(measured.answer_tokens_per_s, 'tokens/s')} of answers")
    if measured.requests_per_s is not None:
        said.append(f"{shown(measured.requests_per_s, '1/s')} answered")
    return f"{'; '.join(said)}.{' It was interrupted.' if measured.is_cut_short else ''}"


def findings(found: Health) -> Shown:
    """What is wrong, with what proves it, and what to change."""
    if not found.findings:
        said = "Nothing wrong was found."
        return Shown(said, prose(said))
    told = plain(parted(_finding_view(each) for each in found.findings))
    return Shown(f"{told}\n", "".join(map(_finding_html, found.findings)))


def _finding_view(each: ServingFinding) -> list[Block]:
    severity = styled(each.severity.value.upper(), SEVERITIES[each.severity])
    blocks: list[Block] = [
        Loose(f"{each.title}  " + styled(f"({each.id})", Tone.FAINT), first=severity + "  "),
        *(bulleted(styled("proof:", Tone.HEADING) + f" {proof.says}") for proof in each.proofs),
        *([Prose(each.explanation)] if each.explanation else []),
        Prose(styled("First:", Tone.HEADING) + f" {each.do_first}"),
    ]
    for change in each.changes:
        cost = styled("it costs:", Tone.COST) + f" {change.cost}"
        blocks.append(bulleted(f"{change.title}; " + cost + _edited(change)))
        if change.command:
            lines = change.command.rstrip("\n").splitlines()
            blocks += [Line("      " + styled(line, Tone.COMMAND)) for line in lines]
    blocks += [bulleted(f"not offered: {why}") for why in each.left_out]
    blocks += [Prose(f"Limits: {each.why_limits}")] if each.why_limits else []
    return [*blocks, Prose(f"To confirm: {each.confirm}"), Prose(f"Against it: {each.refute}")]


def _edited(change: Remedy) -> str:
    """The edits in words, with what judged them."""
    words = [
        f"--{e.name.replace('_', '-')} {e.value}" if e.op == "set" else f"{e.name}={e.value}" if e.op == "env"
        else f"without --{e.name.replace('_', '-')}"
        for e in change.edits
    ]  # fmt: skip
    if not words:
        return ""
    lint, plan = change.checks.lint, change.checks.plan
    checks = f"linter and plan: {lint}" if lint == plan else f"linter: {lint}; plan: {plan}"
    return f": {', '.join(words)} ({checks})"


def _finding_html(each: ServingFinding) -> str:
    parts = [
        heading(""),
        badge(each.severity.value, GROUNDS[SEVERITIES[each.severity]]),
        f" <b>{escape(visible(each.title))}</b> ",
    ]
    parts.append(tag("code", escape(each.id)))
    parts.append(_listed([f"proof: {proof.says}" for proof in each.proofs]))
    parts += [tag("p", prose(visible(said))) for said in (each.explanation, f"First: {each.do_first}") if said]
    parts.append(_listed([f"{change.title}; it costs: {change.cost}{_edited(change)}" for change in each.changes]))
    parts += [tag("pre", tag("code", escape(visible(c.command)))) for c in each.changes if c.command]
    parts.append(_listed([f"not offered: {why}" for why in each.left_out]))
    parts += [
        remark(visible(said))
        for said in (each.why_limits, f"To confirm: {each.confirm} Against it: {each.refute}")
        if said
    ]
    return "".join(parts)


def _listed(lines: Sequence[str]) -> str:
    return tag("ul", "".join(tag("li", prose(visible(line))) for line in lines)) if lines else ""
