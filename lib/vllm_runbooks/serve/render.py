"""A guarded start as text and JSON: what was checked, what was tried, what was changed and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from vllm_runbooks.core.display import Shown, visible
from vllm_runbooks.core.views.elements import cells, grid, html_table, joined, prose, remark, tag
from vllm_runbooks.diagnosis.render import answers
from vllm_runbooks.probe.starts import Attempt, Fleet, Guarded, Measured, Printed, Result


def text(found: Guarded) -> str:
    """What is said at the end, for a terminal."""
    parts = [*_attempts(found)]
    if found.attempts and (answer := found.attempts[-1].answer) is not None and not answer.outcome.is_healthy:
        parts.append(answers.text(answer).rstrip("\n"))
    if changes := [each.change for each in found.attempts if each.change is not None]:
        told = [
            f"  {n}. {change.title}\n     because {change.reason}; costs {change.cost}"
            for n, change in enumerate(changes, 1)
        ]
        parts.append("\n".join(["WHAT WAS CHANGED", *told]))
    parts.append("\n".join(_rows(found)))
    return visible("\n\n".join(parts) + "\n")


def _attempts(found: Guarded) -> Iterator[str]:
    for each in found.attempts:
        name = f"try {each.number}" if len(found.attempts) > 1 else "the start"
        yield f"{name}: {_came_to(each)}"


def _came_to(tried: Attempt) -> str:
    if tried.ready_s is not None:
        return f"ready after {tried.ready_s:.1f} s; after {tried.seconds:.0f} s it {tried.ending}"
    failed = next((rung for rung in tried.rungs if rung.result is Result.FAILED and rung.is_needed), None)
    reached = f"; as far as {failed.name}: {failed.says}" if failed is not None else ""
    return f"never ready; after {tried.seconds:.0f} s it {tried.ending}{reached}"


def _rows(found: Guarded) -> Iterator[str]:
    if not found.attempts:
        failed = next((check for check in found.checks if check.result is Result.FAILED), None)
        yield f"not started: {failed.name}: {failed.says}" if failed is not None else "nothing was started"
    for note in found.notes:
        yield f"note: {note}"
    if found.waited_s >= 0.1:
        yield f"waited on purpose: {found.waited_s:.1f} s"
    if found.attempts and found.folder:
        yield f"log and report: {found.folder}"


def shown(found: Guarded | None) -> Shown:
    """What a start under the guard came to, for a notebook; None: none was asked for."""
    if found is None:
        said = "Nothing was started on this host: `live` is off, and the runbook works on what is recorded."
        return Shown(said, prose(said))
    rows = [(check.name, check.result.value, check.says) for check in found.checks]
    tried = [line for each in found.attempts for line in _lines(each)]
    plain = "\n".join([*(f"{name}: {result}: {says}" for name, result, says in rows), *tried, *_rows(found)])
    html = [html_table(["check", "result", "what was found"], cells(rows))]
    html += [tag("div", tag("code", escape(line)) if line.startswith("$ ") else escape(line)) for line in tried]
    return Shown(plain, "".join([*html, *(remark(line) for line in _rows(found))]))


def proof(before: Guarded | None, after: Guarded | None) -> Shown:
    """The start before a change and after it, side by side."""
    if before is None:
        said = "Nothing was changed: `live` is off."
        return Shown(said, prose(said))
    if after is None:
        said = (
            "Nothing was changed: there was no need, `apply` is off, or no way out that was checked can be made here."
        )
        return Shown(said, prose(said))
    rows = [(name, *_told(found)) for name, found in (("before", before), ("after", after))]
    return _of_commands(["", "exit status", "came to"], rows, [before, after], _changed(after))


def compared(
    first: Guarded | None, second: Guarded | None, names: tuple[str, str] = ("the first", "the second")
) -> Shown:
    """Two starts that differ in one setting, and what the same load showed of each."""
    if first is None:
        said = "Nothing was started on this host: `live` is off."
        return Shown(said, prose(said))
    starts = [(names[0], first), *([(names[1], second)] if second is not None else [])]
    told = [each.attempts[-1] if each.attempts else None for _, each in starts]
    rows = [
        ("ready after", *(_figure(each.ready_s, "s", 1) if each and each.ready_s else "never" for each in told)),
        *((what, *(_of_load(each, name, unit) for each in told)) for what, name, unit in _LOAD),
    ]
    below = (
        _changed(second)
        if second is not None
        else f"Of {names[1]} nothing was started, since {names[0]} was not ready."
    )
    whys = [
        f"{name}: {each.measured.why_none}."
        for (name, _), each in zip(starts, told, strict=True)
        if each and each.measured and each.measured.why_none
    ]
    return grid(["", *(name for name, _ in starts)], rows, " ".join([below, *whys]))


_LOAD = (
    ("requests answered", "answered", ""),
    ("tokens per second", "tokens_per_s", ""),
    ("time to first token, median", "first_token_ms", "ms"),
    ("time per further token, median", "each_token_ms", "ms"),
)


def _of_load(tried: Attempt | None, name: str, unit: str) -> str:
    measured = tried.measured if tried is not None else None
    if measured is None:
        return "not sent"
    if name == "answered":
        return "unknown" if measured.answered is None else f"{measured.answered} of {measured.requests}"
    return _figure(getattr(measured, name), unit, 1)


def _figure(value: float | None, unit: str, places: int) -> str:
    return "unknown" if value is None else f"{value:,.{places}f}{f' {unit}' if unit else ''}"


def _changed(after: Guarded) -> str:
    """What the later start did differently, and why."""
    change = after.attempts[0].change if after.attempts else None
    if change is None:
        return ""
    why = f", because of {change.reason}; costs {change.cost}" if change.reason else ""
    return f"Changed: {change.title}{why}."


def fleet(found: Fleet | None) -> Shown:
    """Copies behind a proxy: what became of each, and of the load that went through."""
    if found is None:
        said = "Nothing was started on this host: `live` is off."
        return Shown(said, prose(said))
    counts = [*found.answered, *[None] * (len(found.servers) - len(found.answered))]
    rows = [
        (f"{number}", *_told(each), "unknown" if count is None else f"{count}")
        for number, (each, count) in enumerate(zip(found.servers, counts, strict=True), 1)
    ]
    below = _said_of(found.measured) if found.proxy else "No load was sent: not every copy was ready."
    place = f" Logs and results: {found.folder}." if found.folder else ""
    return _of_commands(["copy", "exit status", "came to", "requests answered"], rows, found.servers, f"{below}{place}")


def _of_commands(head: Sequence[str], rows: Sequence[Sequence[str]], starts: Sequence[Guarded], below: str) -> Shown:
    """A row for each start with its command, which has the whole width to itself."""
    commands = [each.attempts[-1].command if each.attempts else "" for each in starts]
    table = grid(head, rows)
    listed = [f"{row[0]}: {command}" for row, command in zip(rows, commands, strict=True) if command]
    html = [tag("p", tag("code", escape(visible(line))), "margin:2px 0") for line in listed]
    remarks = [remark(below)] if below else []
    said = joined(["\n".join([table.plain.rstrip("\n"), *listed]), *([below] if below else [])])
    return Shown(said, "".join([table.html, *html, *remarks]))


def _said_of(measured: Measured | None) -> str:
    if measured is None or measured.why_none:
        return f"Through the proxy: {measured.why_none if measured is not None else 'nothing was measured'}."
    figures = [f"{measured.answered} of {measured.requests} requests answered"]
    figures += [f"{what} {_figure(getattr(measured, name), unit, 1)}" for what, name, unit in _LOAD[1:]]
    return f"Through the proxy: {', '.join(figures)}."


def printed(found: Mapping[str, Sequence[Printed]]) -> Shown:
    """Which of the lines that show a layout stand in each log."""
    rows = [
        (name, line.what, line.text, f"{line.times}", _IN_LOG[line.result])
        for name, lines in found.items()
        for line in lines
    ]
    if not rows:
        said = "No log to look into: nothing was started."
        return Shown(said, prose(said))
    return grid(["log of", "shows", "part of a line", "times", ""], rows)


_IN_LOG = {
    Result.PASSED: "as it should be",
    Result.FAILED: "MISSING",
    Result.LEFT_OUT: "printed for GPUs only",
    Result.UNKNOWN: "unknown",
}


def _told(found: Guarded) -> tuple[str, str]:
    if not found.attempts:
        return f"{found.status}", " ".join(_rows(found))
    last = found.attempts[-1]
    cause = last.answer.root_cause.title if last.answer is not None and last.answer.root_cause is not None else ""
    return f"{found.status}", f"{_came_to(last)}{f'; {cause}' if cause else ''}"


def _lines(tried: Attempt) -> Iterator[str]:
    yield f"$ {tried.command}"
    yield f"try {tried.number}: {_came_to(tried)}"
    yield from (f"{seen.phase or 'start'}: {seen.says}" for seen in tried.sightings)
    took = [f"{each.name} {each.seconds:.1f} s" for each in tried.phases if each.seconds is not None]
    if took:
        yield f"phases: {', '.join(took)}"
