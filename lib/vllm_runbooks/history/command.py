"""The commands `history list`, `trend`, `export`, `prune` and `wipe`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import store
from vllm_runbooks.core.views.styled import BLANK
from vllm_runbooks.core.views.summary import step_view, summary_view
from vllm_runbooks.history.records import KINDS

_DAY_S = 86400
_STDOUT = "-"


def _moment(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A span back from now, or a date, as the history writes a moment; one without a zone is UTC."""
    if value is None:
        return None
    from vllm_runbooks.core.moments import stamp

    try:
        # A number alone may be a date, as in 20261121.
        if (seconds := given.span(value, is_bare=False)) is not None:
            return stamp(datetime.now(tz=UTC) - timedelta(seconds=seconds))
        moment = datetime.fromisoformat(value)
        return stamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{value!r} is not a time; use a duration, such as 7d or 12h, or a date, such as 2026-11-21."
        ) from None


def _kept(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[float | None, int | None]:
    """An age in days, or a number of entries."""
    if (seconds := given.span(value, is_bare=False)) is not None:
        return seconds / _DAY_S, None
    if re.fullmatch(r"\d{1,9}", value, re.ASCII):
        return None, int(value)
    raise click.BadParameter(f"{value!r} is neither an age, such as 90d, nor a number of entries, such as 1000.")


_SINCE = given.value(
    "--since WHEN", "Only entries since then: an age such as 30m, 12h, 7d or 2w, or a date (UTC).", callback=_moment
)


class _Listing(click.Group):
    """A group whose default command is the list."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a shell requests completions
            return super().parse_args(ctx, args)
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Listing)
def history() -> None:
    """List past checks, runs, launches and probes on this host; without a command: `list`.

    The history is stored in $XDG_STATE_HOME/vllm-runbooks/history.sqlite, or where VLLM_RUNBOOKS_HISTORY points.
    """


@history.command("list", epilog=given.examples("history list --since 7d", "history list --kind serve --limit 5"))
@given.choice("--kind", "Only this kind.", KINDS)
@given.value("--subject WHAT", "Only this subject, exactly or with *; includes the runs of checks.")
@given.value("--job NAME", "Only entries of this scheduled job.")
@_SINCE
@given.value("--limit N", "At most N entries.", click.IntRange(1, 1_000_000), default=30)
@given.FORMAT
def list_(*, kind: str | None, subject: str | None, job: str | None, since: str | None, limit: int, form: str) -> None:
    """List entries, newest first; times are UTC.

    The runs of a check are hidden unless you filter; `show ID` lists them.
    """
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.history import render as render_history
    from vllm_runbooks.history import store as kept
    from vllm_runbooks.history.records import Listed

    with kept.opened(say=output.say, is_needed=True) as opened:
        listed = opened.entries(
            kind=kind, subject=subject, job=job, since=since, limit=limit, is_whole=subject is None and kind is None
        )
    if form == "json":
        output.write_json(to_json(Listed(tuple(listed))))
    elif listed:
        summary = render_history.summary_of(listed)
        steps = [BLANK, *map(step_view, summary.steps)] if summary.steps else []
        terminal.show([*summary_view(replace(summary, steps=())), BLANK, *render_history.listed_view(listed), *steps])
    else:
        output.write("no matching entries in the history")


@history.command(
    epilog=given.examples("history trend single-gpu-oom", "history trend Qwen/Qwen3-8B --fact kv_cache_gib")
)
@click.argument("subject")
@given.value("--fact facts NAME", "Number to show; repeatable (default: those that changed).", multiple=True)
@_SINCE
@given.value("--limit N", "Show the last N entries.", click.IntRange(1, 100_000), default=30)
@given.FORMAT
def trend(subject: str, facts: tuple[str, ...], since: str | None, limit: int, form: str) -> None:
    """Show a subject's verdicts, durations and changed numbers over time."""
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.history import render as render_history
    from vllm_runbooks.history import store as kept
    from vllm_runbooks.history import trends

    with kept.opened(say=output.say, is_needed=True) as opened:
        entries = opened.about(subject, since=since, limit=limit)
    if not entries:
        raise InputError(f"{subject}: no history entry has this subject; `vllm-runbooks history` lists all subjects")
    trend_of_subject = trends.trend(subject, entries)
    if form == "json":
        output.write_json(to_json(trend_of_subject))
    else:
        moving = trends.moving(trend_of_subject)
        names = facts or _that_fit(moving)
        others = [] if facts else moving[len(names) :]
        summary = render_history.summary_of_trend(trend_of_subject, names, others)
        terminal.show([*summary_view(summary), BLANK, *render_history.trend_view(trend_of_subject, names)])


_FACTS_WIDTH = 40


def _that_fit(names: Sequence[str]) -> Sequence[str]:
    """The first names that fit side by side in a terminal, at least one."""
    for number in range(len(names), 1, -1):
        if sum(len(name) + 2 for name in names[:number]) <= _FACTS_WIDTH:
            return names[:number]
    return names[:1]


@history.command(epilog=given.examples("history export history.jsonl --since 30d", "history export -"))
@click.argument("target", metavar="FILE|-")
@_SINCE
def export(target: str, since: str | None) -> None:
    """Write every entry as a line of JSON, oldest first, without secrets."""
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.history import store as kept

    path = None if target == _STDOUT else given.FILE.convert(target, None, None)
    with kept.opened(say=output.say, is_needed=True) as opened:
        entries = opened.entries(since=since)
    text = "".join(f"{to_json(entry, indent=None)}\n" for entry in reversed(entries))
    if path is not None:
        store(Path(path), text)
        output.write(f"{_counted(len(entries))} written to {path}")
    elif text:
        output.write(text)


@history.command(epilog=given.examples("history prune --keep 90d", "history prune --keep 1000"))
@given.value(
    "--keep AGE|N",
    "Keep entries younger than this, such as 90d, or the newest N; a check counts as one.",
    callback=_kept,
    required=True,
)
def prune(keep: tuple[float | None, int | None]) -> None:
    """Remove old entries.

    Entries older than 400 days, and all but the newest 10,000, are removed automatically.
    """
    from vllm_runbooks.history import store as kept

    days, roots = keep
    if 0 in keep:
        raise click.UsageError(
            "--keep 0 would remove everything; use `vllm-runbooks history wipe`, which requires a confirmation."
        )
    with kept.opened(say=output.say, is_needed=True) as opened:
        output.write(f"{_counted(opened.prune(days=days, roots=roots))} removed")


@history.command(epilog=given.examples("history wipe --yes"))
@click.option("--yes", "is_sure", is_flag=True, help="Skip the confirmation prompt.")
def wipe(*, is_sure: bool) -> None:
    """Delete the whole history.

    The logs of launches and jobs that have ended are deleted too.
    This cannot be undone. `history export` saves the entries first.
    """
    import shutil

    from vllm_runbooks.history import store as kept
    from vllm_runbooks.schedule import jobs, wake
    from vllm_runbooks.serve import places

    place, starts = kept.place(), places.starts()
    if not is_sure:
        if sys.stdin is None or not sys.stdin.isatty():
            raise click.UsageError(
                "not a terminal, so no confirmation is possible; add --yes to delete the history permanently."
            )
        question = f"Remove {place} and the logs in {starts} and {jobs.state()} permanently?"
        click.confirm(question, abort=True, err=True)
    removed = [str(path) for path in kept.remove(place)]
    logs = places.ended()
    for folder in logs:
        shutil.rmtree(folder)
    for path in removed:
        output.write(f"removed {path}")
    if logs:
        output.write(f"removed the logs of {len(logs)} supervised launch{'es' * (len(logs) != 1)} in {starts}")
    count, running = wake.forget()
    if count:
        output.write(f"removed the output of {count} job{'s' * (count != 1)} in {jobs.state()}")
    for name in running:
        output.say(f"{name}: is running, its output is kept")
    if not removed and not logs and not count:
        output.write("nothing to remove")


def _counted(number: int) -> str:
    return f"{number} {'entry' if number == 1 else 'entries'}"
