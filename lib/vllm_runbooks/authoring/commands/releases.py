"""The commands `releases list`, `releases add`, `releases review` and `releases history`."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vllm_runbooks.catalog import options
from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm_runbooks.authoring.releases.review import ReviewTopic


@click.group()
def releases() -> None:
    """List the vLLM releases in the catalog, add and review one, or look up an option's history."""


@releases.command("list", epilog=given.examples("releases list"))
def list_() -> int:
    """List the vLLM releases in the catalog, with what each changed."""
    histories = options.histories("option").values()
    lines = [f"{'release':<10} {'options':>8} {'added':>5} {'removed':>7} {'variables':>10}  source"]
    for version, document in options.documents():
        data = options.load(version)
        is_first = version == options.known_releases()[0]
        new = sum(change.kind == "added" and change.release == version for changes in histories for change in changes)
        gone = sum(name.startswith("option ") for name in document["unset"])
        listed = sum(variable.is_listed for variable in data.environment.values())
        came = "-" if is_first else str(new)
        made = f"{document['made'].get('package', '?')} ({document['made'].get('origin', '?')})"
        lines.append(f"{version:<10} {len(data.entries['serve']):>8} {came:>5} {gone:>7} {listed:>10}  {made}")
    output.write("\n".join(lines))
    return 0


@releases.command(epilog=given.examples("releases add 0.34.0 --python venv/bin/python"))
@click.argument("version")
@given.value(
    "--python python PATH", "A Python with vLLM's CPU dependencies.", click.Path(path_type=Path), required=True
)
@given.value(
    "--source PATH",
    "The release's wheel, or the folder of the unpacked one (default: download it).",
    click.Path(path_type=Path),
)
@given.value("--dockerfile FILE", "The release's docker/Dockerfile.", click.Path(path_type=Path))
@given.value("--dir folder DIR", "Output folder (default: the catalog).", given.FOLDER)
@given.value(
    "--time-limit --timeout S", "Timeout per dump, in seconds.", click.FloatRange(min=1, max=86400), default=300
)
@terminal.waiting("reading the release and its parser, some seconds to minutes")
def add(
    version: str,
    *,
    python: Path,
    source: Path | None,
    dockerfile: Path | None,
    folder: Path | None,
    time_limit: float,
) -> int:
    """Add release VERSION to the catalog, with data from its package.

    Prints what to review, as `releases review`.
    """
    from vllm_runbooks.authoring import releases as generator
    from vllm_runbooks.authoring.releases.review import review as points_of

    added = generator.add(version, python, source=source, dockerfile=dockerfile, folder=folder, time_limit=time_limit)
    changed = ", ".join(added.changed) if added.changed else "nothing changed: the data was there"
    output.write(f"{added.version}: {added.records} records; {changed}\n")
    output.write(_reviewed(version, points_of(version, folder, added.messages)))
    return 0


@releases.command(epilog=given.examples("releases review", "releases review 0.33.0"))
@click.argument("version", required=False)
@given.value("--dir folder DIR", "Folder of the data (default: the catalog).", given.FOLDER)
def review(version: str | None, *, folder: Path | None) -> int:
    """List what to review in the catalog for release VERSION, with the files to change.

    The default is the newest release. `releases add` also shows the closest message for each one that disappeared.
    """
    from vllm_runbooks.authoring.releases.review import review as points_of

    version = version or options.files(folder or options.releases_dir())[-1][1]
    output.write(_reviewed(version, points_of(version, folder)))
    return 0


def _reviewed(version: str, topics: Sequence[ReviewTopic]) -> str:
    if not topics:
        return f"{version}: nothing to review"
    lines = [f"To review for {version}: {sum(len(topic.points) for topic in topics)} points"]
    for topic in topics:
        lines += ["", f"{topic.title} ({len(topic.points)})", f"  {topic.task}"]
        lines += [f"  {point.file}: {point.text}" for point in topic.points]
    return "\n".join(lines)


@releases.command(
    context_settings={"ignore_unknown_options": True}, epilog=given.examples("releases history --swap-space")
)
@click.argument("name", type=click.UNPROCESSED)
def history(name: str) -> int:
    """Show when an option or variable was added, changed or removed.

    NAME is an option, such as --swap-space, swap_space or -tp, or a variable, such as VLLM_USE_V1.
    """
    changes = next(filter(None, map(options.history, _spellings(name))), ())
    if not changes:
        near = get_close_matches(_spellings(name)[-1], options.past().lives, n=3, cutoff=0.7)
        hint = f"closest: {', '.join(near)}" if near else "`vllm serve --help=all` of a release lists its options"
        raise InputError(f"{name}: not in any known release; {hint}")
    output.write("\n".join(filter(None, map(_line, changes))))
    return 0


def _spellings(name: str) -> list[str]:
    is_option = not name.startswith("-") and not name.isupper()
    return [name, f"--{name.replace('_', '-')}" if is_option else name.replace("_", "-") if name[:1] == "-" else name]


_UNTOLD = ("group", "help")


def _line(change: options.OptionChange) -> str:
    """Change of a release on one line; empty if only the parser's insides changed."""
    if change.kind == "added" and change.after is None:
        return f"added in {change.release} or earlier"
    fields = (_field(name, old, new) for name, (old, new) in change.fields.items() if name not in _UNTOLD)
    details = "; ".join(filter(None, fields))
    if change.kind == "changed" and not details:
        return ""
    return f"{change.kind} in {change.release} (after {change.after}){f': {details}' if details else ''}"


def _field(name: str, old: Any, new: Any) -> str:
    if not isinstance(old, list) or not isinstance(new, list):
        return f"{name}: {old!r} -> {new!r}"
    more = [f"also {value!r}" for value in new if value not in old]
    less = [f"no longer {value!r}" for value in old if value not in new]
    return f"{name}: {', '.join([*more, *less]) or 'in another order'}"
