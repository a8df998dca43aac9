"""Supervised launches as text and notebook sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape

from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.views.elements import cells, grid, html_table, joined, remark, tag
from vllm_runbooks.core.views.runbook_steps import StepText
from vllm_runbooks.core.views.styled import Tone, plain
from vllm_runbooks.core.views.summary import Statement, Step, Summary, count_of, sentence_of, summary_view
from vllm_runbooks.diagnosis.render.summaries import summarize
from vllm_runbooks.probe.starts import (
    Attempt,
    Fleet,
    Guarded,
    LaunchChange,
    LaunchResult,
    LoadResult,
    Printed,
    first_failure,
)


def text(launch: Guarded) -> str:
    """Result of a launch, without colours."""
    return plain(summary_view(summary_of(launch)))


def summary_of(launch: Guarded) -> Summary:
    """Summary of a launch that has ended: result, cause, changes between attempts, and its log."""
    steps = [
        *(
            Step("Tried", f"{change.title}, because of {change.reason}. Cost: {change.cost}")
            for change in _changes(launch)
        ),
        *(Step("Note", note) for note in launch.notes),
        *(
            [Step("Note", f"Waited {launch.waited_s:.1f} s for stable GPU memory.")]
            if launch.waited_s >= _LEAST_WAIT_S
            else []
        ),
        *([Step("Log", f"Log and report: {launch.folder}")] if launch.attempts and launch.folder else []),
    ]
    last = launch.last
    if last is None:
        failed = next((check for check in launch.checks if check.result is LaunchResult.FAILED), None)
        if failed is not None:
            statement = Statement("✗", failed.message, Tone.BAD, id=failed.name)
            return Summary("NOT STARTED", Tone.BAD, ("a check failed",), statements=(statement,), steps=tuple(steps))
        passed = [check.name for check in launch.checks if check.result is LaunchResult.PASSED]
        checks = f"passed checks: {', '.join(passed) or 'none'}"
        return Summary("OK", Tone.GOOD, (checks, "nothing was launched"), steps=tuple(steps))
    number = [f"try {last.number} of {len(launch.attempts)}"] if len(launch.attempts) > 1 else []
    about = (*number, *_came_to(last).split("; "))
    if last.answer is not None and not last.answer.outcome.is_healthy:
        summary = summarize(last.answer)
        return replace(summary, about=about, steps=(*summary.steps, *steps))
    is_well = last.ready_s is not None and last.outcome.is_healthy
    state, tone = ("STOPPED", Tone.GOOD) if is_well else ("FAILED", Tone.BAD)
    return Summary(state, tone, about, steps=tuple(steps))


def _changes(launch: Guarded) -> list[LaunchChange]:
    return [attempt.change for attempt in launch.attempts if attempt.change is not None]


_LEAST_WAIT_S = 0.1


def _came_to(tried: Attempt) -> str:
    if tried.ready_s is not None:
        return f"ready after {tried.ready_s:.1f} s; after {tried.seconds:.0f} s it {tried.ending}"
    failed = first_failure(tried.health_checks)
    reached = f"; failed at {failed.name}: {failed.message}" if failed is not None else ""
    return f"never ready; after {tried.seconds:.0f} s it {tried.ending}{reached}"


def _rows(launch: Guarded) -> Iterator[str]:
    if not launch.attempts:
        yield launch.failed_check or "nothing was launched"
    for note in launch.notes:
        yield f"note: {note}"
    if launch.waited_s >= _LEAST_WAIT_S:
        yield f"waited for GPU memory: {launch.waited_s:.1f} s"
    if launch.attempts and launch.folder:
        yield f"log and report: {launch.folder}"


_NOTHING = "Nothing was launched on this host: `live` is off"


def shown(launch: Guarded | None) -> RenderedView:
    """A launch for a notebook; None if there was none."""
    if launch is None:
        return RenderedView.nothing(f"{_NOTHING}; the runbook uses recorded data.")
    rows = [(check.name, check.result.word, check.message) for check in launch.checks]
    tried = [line for attempt in launch.attempts for line in _lines(attempt)]
    plain = "\n".join([*(f"{name}: {result}: {says}" for name, result, says in rows), *tried, *_rows(launch)])
    html = [html_table(["check", "result", "details"], cells(rows))]
    html += [tag("div", tag("code", escape(line)) if line.startswith("$ ") else escape(line)) for line in tried]
    return RenderedView(plain, "".join([*html, *(remark(line) for line in _rows(launch))]))


def proof(before: Guarded | None, after: Guarded | None) -> RenderedView:
    """The launch before and after a change."""
    if before is None:
        return RenderedView.nothing("Nothing was changed: `live` is off.")
    if after is None:
        return RenderedView.nothing(
            "Nothing was changed: not needed, `apply` is off, or no checked fix can be applied here."
        )
    rows = [(name, *_told(launch)) for name, launch in (("before", before), ("after", after))]
    return _of_commands(["", "exit status", "outcome"], rows, [before, after], _changed(after))


def compared(
    first: Guarded | None, second: Guarded | None, names: tuple[str, str] = ("the first", "the second")
) -> RenderedView:
    """Two launches that differ in one setting, with their load."""
    if first is None:
        return RenderedView.nothing(f"{_NOTHING}.")
    starts = [(names[0], first), *([(names[1], second)] if second is not None else [])]
    attempts = [launch.last for _, launch in starts]
    rows = [
        ("ready after", *(_figure(tried.ready_s, "s") if tried and tried.ready_s else "never" for tried in attempts)),
        *((what, *(_of_load(attempt, name, unit) for attempt in attempts)) for what, name, unit in _LOAD),
    ]
    below = f"No launch of {names[1]}, since {names[0]} was not ready." if second is None else _changed(second)
    whys = [
        f"{name}: {tried.measured.reason}."
        for (name, _), tried in zip(starts, attempts, strict=True)
        if tried and tried.measured and tried.measured.reason
    ]
    return grid(["", *(name for name, _ in starts)], rows, " ".join([below, *whys]))


def measured(launches: Mapping[str, Guarded | Fleet | None]) -> StepText | None:
    """Results of launches by name, and the fastest for the same load.

    None if nothing was launched.
    """
    made = {name: launch for name, launch in launches.items() if launch is not None}
    if not made:
        return None
    loads = {name: _load_of(launch) for name, launch in made.items()}
    rates = {name: load.tokens_per_s for name, load in loads.items() if load is not None and load.tokens_per_s}
    ordered = sorted(rates, key=lambda name: rates[name], reverse=True)
    fastest = [
        f"{ordered[0]} generated {rates[ordered[0]] / rates[name]:.2f} times the tokens per second of {name}"
        for name in ordered[1:]
    ]
    results = [f"{name}: {_result(launch, loads[name])}" for name, launch in made.items()]
    return StepText(sentence_of("; ".join(results)), sentence_of("; ".join(fastest)))


def _load_of(launch: Guarded | Fleet) -> LoadResult | None:
    if isinstance(launch, Fleet):
        return launch.measured
    return launch.last.measured if launch.last is not None else None


def _result(launch: Guarded | Fleet, load: LoadResult | None) -> str:
    if isinstance(launch, Fleet):
        ready = sum(server.last is not None and server.last.ready_s is not None for server in launch.servers)
        state = f"{ready} of {count_of(len(launch.servers), 'server')} ready"
    elif launch.last is None:
        state = launch.failed_check or "nothing was launched"
    else:
        tried = launch.last
        state = f"ready after {tried.ready_s:.1f} s" if tried.ready_s is not None else _came_to(tried)
    if load is None:
        return state
    figures = [f"{load.answered} of {load.requests} requests answered"] if load.answered is not None else [load.reason]
    figures += [f"{load.tokens_per_s:,.1f} tokens per second"] if load.tokens_per_s is not None else []
    return ", ".join([state, *figures])


_LOAD = (
    ("requests answered", "answered", ""),
    ("tokens per second", "tokens_per_s", ""),
    ("time to first token, median", "time_to_first_token_ms", "ms"),
    ("time per further token, median", "inter_token_latency_ms", "ms"),
)


def _of_load(tried: Attempt | None, name: str, unit: str) -> str:
    measured = tried.measured if tried is not None else None
    if measured is None:
        return "not sent"
    if name == "answered":
        return "unknown" if measured.answered is None else f"{measured.answered} of {measured.requests}"
    return _figure(getattr(measured, name), unit)


def _figure(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:,.1f}{f' {unit}' if unit else ''}"


def _changed(after: Guarded) -> str:
    change = after.attempts[0].change if after.attempts else None
    if change is None:
        return ""
    why = f", because of {change.reason}; costs {change.cost}" if change.reason else ""
    return f"Changed: {change.title}{why}."


def fleet(copies: Fleet | None) -> RenderedView:
    """Copies behind a proxy, with their load."""
    if copies is None:
        return RenderedView.nothing(f"{_NOTHING}.")
    counts = [*copies.answered, *[None] * (len(copies.servers) - len(copies.answered))]
    rows = [
        (f"{number}", *_told(server), "unknown" if count is None else f"{count}")
        for number, (server, count) in enumerate(zip(copies.servers, counts, strict=True), 1)
    ]
    below = _said_of(copies.measured) if copies.proxy else "No load was sent: not all replicas were ready."
    place = f" Logs and results: {copies.folder}." if copies.folder else ""
    return _of_commands(
        ["replica", "exit status", "outcome", "requests answered"], rows, copies.servers, f"{below}{place}"
    )


def _of_commands(
    head: Sequence[str], rows: Sequence[Sequence[str]], starts: Sequence[Guarded], below: str
) -> RenderedView:
    commands = [launch.last.command if launch.last else "" for launch in starts]
    table = grid(head, rows)
    listed = [f"{row[0]}: {command}" for row, command in zip(rows, commands, strict=True) if command]
    html = [tag("p", tag("code", escape(visible(line))), "margin:2px 0") for line in listed]
    remarks = [remark(below)] if below else []
    plain = joined(["\n".join([table.plain.rstrip("\n"), *listed]), *([below] if below else [])])
    return RenderedView(plain, "".join([table.html, *html, *remarks]))


def _said_of(measured: LoadResult | None) -> str:
    if measured is None or measured.reason:
        return f"Through the proxy: {measured.reason if measured is not None else 'no measurements'}."
    figures = [f"{measured.answered} of {measured.requests} requests answered"]
    figures += [f"{what} {_figure(getattr(measured, name), unit)}" for what, name, unit in _LOAD[1:]]
    return f"Through the proxy: {', '.join(figures)}."


def printed(logs: Mapping[str, Sequence[Printed]]) -> RenderedView:
    """Lines that confirm a layout, by log."""
    rows = [
        (name, line.what, line.text, f"{line.times}", _IN_LOG[line.result])
        for name, lines in logs.items()
        for line in lines
    ]
    if not rows:
        return RenderedView.nothing("No log: nothing was launched.")
    return grid(["log of", "shows", "text", "count", ""], rows)


_IN_LOG = {
    LaunchResult.PASSED: "as expected",
    LaunchResult.FAILED: "MISSING",
    LaunchResult.LEFT_OUT: "printed for GPUs only",
    LaunchResult.UNKNOWN: "unknown",
}


def _told(launch: Guarded) -> tuple[str, str]:
    last = launch.last
    if last is None:
        return f"{launch.status}", " ".join(_rows(launch))
    cause = last.answer.root_cause.title if last.answer is not None and last.answer.root_cause is not None else ""
    return f"{launch.status}", f"{_came_to(last)}{f'; {cause}' if cause else ''}"


def _lines(tried: Attempt) -> Iterator[str]:
    yield f"$ {tried.command}"
    yield f"try {tried.number}: {_came_to(tried)}"
    yield from (f"{seen.phase or 'start'}: {seen.message}" for seen in tried.events)
    took = [f"{phase.name} {phase.seconds:.1f} s" for phase in tried.phases if phase.seconds is not None]
    if took:
        yield f"phases: {', '.join(took)}"
