"""A running server as text, JSON and notebook sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.catalog.serving import Serving
from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.records import Remedy
from vllm_runbooks.core.views.drawing import curves
from vllm_runbooks.core.views.elements import badge, grid, heading, prose, remark, tag
from vllm_runbooks.core.views.styled import (
    BLANK,
    GROUNDS,
    SEVERITIES,
    VERDICTS,
    Line,
    Prose,
    SentenceLines,
    Table,
    TextBlock,
    Tone,
    bulleted,
    headed,
    parted,
    plain,
    styled,
)
from vllm_runbooks.core.views.summary import sentence_of
from vllm_runbooks.core.views.summary_html import rendered
from vllm_runbooks.diagnosis.render.summaries import option_text
from vllm_runbooks.diagnosis.render.words import judged_by
from vllm_runbooks.probe.records import FEWEST_P95, FEWEST_P99, Health, LoadMeasurement, ServingFinding
from vllm_runbooks.probe.summaries import summarize
from vllm_runbooks.probe.vitals import Figures, shown

_CHECK = ("check", "result", "took", "details")
_RESULTS = {"passed": Tone.GOOD, "failed": Tone.BAD, "skipped": Tone.FAINT}
_DRAWN = ("running", "waiting", "kv_use")


def text(health: Health, serving: Serving) -> str:
    return plain(view(health, serving))


def view(health: Health, serving: Serving) -> list[TextBlock]:
    seen = health.observation
    release = health.vllm.version or "unknown"
    answer = styled(health.verdict.value.upper(), VERDICTS[health.verdict])
    parts: list[list[TextBlock]] = [[SentenceLines(sentence_of(health.reason), first=answer + "  ")]]
    about = f"{seen.address} · model {seen.model or 'unknown'} · vLLM {release} · {seen.timestamp}"
    parts.append([SentenceLines(styled(about, Tone.FAINT), "")])
    parts.append(headed("HEALTH CHECKS", _checks_view(health)))
    if seen.samples:
        parts.append(headed("FIGURES", _figures_view(_figures(health, serving))))
    if seen.load is not None:
        parts.append(headed("LOAD", _figures_view(_loaded(health, seen.load))))
    parts += [_finding_view(finding) for finding in health.findings]
    if notes := _notes(health):
        parts.append([SentenceLines(styled("Note:", Tone.HEADING) + f" {note}") for note in notes])
    return [*parted(parts), BLANK]


def _checks_view(health: Health) -> list[TextBlock]:
    if not health.observation.health_checks:
        return [Line("  No health check was tried.")]
    rows = [
        (name, styled(result, _RESULTS.get(result)), took, details)
        for name, result, took, details in _check_rows(health)
    ]
    return [Table([styled(name, Tone.FAINT) for name in _CHECK], rows, indent="  ")]


def _notes(health: Health) -> list[str]:
    seen, notes = health.observation, list(health.notes)
    if seen.log is not None:
        cause = f"; {seen.log.title}" if seen.log.title else ""
        notes.append(f"its log ({', '.join(seen.log.files)}): {seen.log.outcome.value}{cause}")
    for card in seen.gpus:
        if card.used_mib is not None and card.total_mib:
            used = f"{card.used_mib / 1024:.1f} of {card.total_mib / 1024:.1f} GiB in use"
            busy = "" if card.busy_percent is None else f", {card.busy_percent:.0f}% busy"
            notes.append(f"GPU {card.index} ({card.name or 'unknown'}): {used}{busy}")
    return notes


def summary(health: Health, serving: Serving) -> RenderedView:
    """State, cause and first fix; the times under load if there are no problems, else they are evidence below."""
    record = summarize(health, serving)
    return rendered(replace(record, table=None) if record.statements else record)


def checks(health: Health) -> RenderedView:
    if not health.observation.health_checks:
        return RenderedView.nothing("No health checks were run.")
    return grid(_CHECK, _check_rows(health))


def _check_rows(health: Health) -> list[tuple[str, str, str, str]]:
    return [
        (
            check.name,
            check.result.word,
            "" if check.seconds is None else shown(check.seconds, "s"),
            visible(check.message),
        )
        for check in health.observation.health_checks
    ]


_NO_FIGURES = "The server reported no metrics."
_Grid = tuple[list[str], list[list[str]], str]


def _figures_view(grid_: _Grid | None) -> list[TextBlock]:
    if grid_ is None:
        return [Line(f"  {_NO_FIGURES}")]
    head, rows, below = grid_
    table = Table(
        [styled(name, Tone.FAINT) for name in head], rows, numeric=frozenset(range(1, len(head))), indent="  "
    )
    return [table, SentenceLines(styled(below, Tone.FAINT), "  ", "  ")]


def figures(health: Health, serving: Serving) -> RenderedView:
    """Figures of all engines together and of each, with a chart over time."""
    content = _figures(health, serving)
    if content is None:
        return RenderedView.nothing(_NO_FIGURES)
    head, rows, below = content
    table = grid(head, rows, below, is_numeric=True)
    return RenderedView(table.plain, table.html + _drawn(health, serving))


def _figures(health: Health, serving: Serving) -> _Grid | None:
    seen = health.observation
    reported = {name: fact for name, fact in serving.facts.items() if health.facts.get(name) is not None}
    if not reported:
        return None
    head = ["", "all" if health.engines else "value"]
    head += [f"engine {visible(engine.engine)}" for engine in health.engines]
    columns = (health.facts, *(engine.facts for engine in health.engines))
    rows = [[fact.says, *(shown(facts.get(name), fact.unit) for facts in columns)] for name, fact in reported.items()]
    window = Figures(seen.samples, serving).seconds
    below = (
        f"{len(seen.samples)} samples over {window:.1f} s; rates and times cover all samples, "
        "other values are from the last."
    )
    if any(fact.kind == "quantile" for fact in reported.values()):
        below += " Medians and p95 are interpolated within the buckets of the server's histograms."
    return head, rows, below


def _drawn(health: Health, serving: Serving) -> str:
    """Chart of running and waiting requests and KV cache use; empty for a few samples."""
    samples = health.observation.samples
    if len(samples) < _FEWEST_DRAWN:
        return ""
    by_sample = Figures(samples, serving)
    values: dict[str, list[float | None]] = {}
    for name in (name for name in _DRAWN if name in serving.facts):
        gauges = [by_sample.gauge(serving.facts[name], number) for number in range(len(samples))]
        is_share = name == "kv_use"
        values[f"{serving.facts[name].says}{' in %' if is_share else ''}"] = [
            value * 100 if is_share and value is not None else value for value in gauges
        ]
    times = [sample.at_s for sample in samples]
    title = "Running and waiting requests and KV cache usage over the samples"
    return curves(values, times, ("0 s", f"{times[-1] - times[0]:.1f} s"), title)


_FEWEST_DRAWN = 3


def load(health: Health) -> RenderedView:
    measured = health.observation.load
    if measured is None:
        return RenderedView.nothing("No load was sent to the server.")
    head, rows, below = _loaded(health, measured)
    return grid(head, rows, below, is_numeric=True)


def _loaded(health: Health, measured: LoadMeasurement) -> _Grid:
    times = (
        ("time to first token", measured.time_to_first_token),
        ("time per output token", measured.inter_token_latency),
        ("request latency", measured.end_to_end_latency),
    )
    fewest = {"p50_ms": 1, "p95_ms": FEWEST_P95, "p99_ms": FEWEST_P99}
    rows = [
        [what, *(_milliseconds(getattr(values, name), measured, least) for name, least in fewest.items())]
        for what, values in times
    ]
    return ["", "p50", "p95", "p99"], rows, _load_words(measured) + _of_the_cache(health)


_MUCH_FOUND = 0.05
"""Share of tokens from the prefix cache above which times are not those of prefill."""


def _of_the_cache(health: Health) -> str:
    share = health.facts.get("prefix_hit_share")
    if share is None or share <= _MUCH_FOUND:
        return ""
    return (
        f" Meanwhile {shown(share, 'share')} of the tokens hit the prefix cache. The load's prompts do "
        "not repeat, so these hits are from other clients. Compare times only with loads of the same hit rate."
    )


def _milliseconds(value: float | None, measured: LoadMeasurement, fewest: int) -> str:
    if 0 < measured.answered < fewest:
        return "too few"
    return "unknown" if value is None else shown(value / 1000, "s")


def _load_words(measured: LoadMeasurement) -> str:
    of_all = (
        f"{measured.answered} of {measured.requests} requests answered, {measured.unfinished} unfinished at the end"
    )
    parts = [f"{measured.concurrency} concurrent requests for {measured.seconds:.1f} s: {of_all}"]
    parts += [f"{count} x {kind}" for kind, count in measured.errors.items()]
    if measured.answer_tokens_per_s is not None:
        parts.append(shown(measured.answer_tokens_per_s, "output tokens/s"))
    if measured.requests_per_s is not None:
        parts.append(f"{measured.requests_per_s:.2f} requests/s")
    return f"{'; '.join(parts)}.{' It was interrupted.' if measured.is_cut_short else ''}"


def findings(health: Health) -> RenderedView:
    if not health.findings:
        return RenderedView.nothing("No problems found.")
    blocks = plain(parted(_finding_view(finding) for finding in health.findings))
    return RenderedView(f"{blocks}\n", "".join(map(_finding_html, health.findings)))


def _finding_view(finding: ServingFinding) -> list[TextBlock]:
    severity = styled(finding.severity.value.upper(), SEVERITIES[finding.severity])
    blocks: list[TextBlock] = [
        SentenceLines(f"{finding.title}  " + styled(f"({finding.id})", Tone.FAINT), first=severity + "  "),
        *(bulleted(styled("Evidence:", Tone.HEADING) + f" {proof.message}") for proof in finding.proofs),
        *([Prose(finding.explanation)] if finding.explanation else []),
        Prose(styled("Do first:", Tone.HEADING) + f" {finding.do_first}"),
    ]
    for change in finding.changes:
        cost = styled("Cost:", Tone.COST) + f" {sentence_of(change.cost)}"
        blocks.append(bulleted(f"{sentence_of(f'{change.title}{_edited(change)}')} " + cost + _checked(change)))
        if change.command:
            lines = change.command.rstrip("\n").splitlines()
            blocks += [Line("      " + styled(line, Tone.COMMAND)) for line in lines]
    blocks += [bulleted(f"Not offered: {why}") for why in finding.left_out]
    blocks += [Prose(f"Reason for the threshold: {finding.why_limits}")] if finding.why_limits else []
    return [*blocks, Prose(f"How to verify: {finding.confirm}"), Prose(f"Ruled out if: {finding.refute}")]


def _edited(change: Remedy) -> str:
    return f": {option_text(change.edits)}" if change.edits else ""


def _checked(change: Remedy) -> str:
    return f" {judged_by(change.checks, Wording())}" if change.edits else ""


def _finding_html(finding: ServingFinding) -> str:
    parts = [
        heading(""),
        badge(finding.severity.value, GROUNDS[SEVERITIES[finding.severity]]),
        f" <b>{escape(visible(finding.title))}</b> ",
    ]
    parts.append(tag("code", escape(finding.id)))
    parts.append(_listed([f"Evidence: {proof.message}" for proof in finding.proofs]))
    parts += [
        tag("p", prose(visible(text_part)))
        for text_part in (finding.explanation, f"Do first: {finding.do_first}")
        if text_part
    ]
    parts.append(
        _listed(
            [
                f"{sentence_of(f'{change.title}{_edited(change)}')} Cost: {sentence_of(change.cost)}{_checked(change)}"
                for change in finding.changes
            ]
        )
    )
    parts += [tag("pre", tag("code", escape(visible(c.command)))) for c in finding.changes if c.command]
    parts.append(_listed([f"Not offered: {why}" for why in finding.left_out]))
    parts += [
        remark(visible(text_part))
        for text_part in (finding.why_limits, f"How to verify: {finding.confirm} Ruled out if: {finding.refute}")
        if text_part
    ]
    return "".join(parts)


def _listed(lines: Sequence[str]) -> str:
    return tag("ul", "".join(tag("li", prose(visible(line))) for line in lines)) if lines else ""
