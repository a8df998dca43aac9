"""`vllm-runbooks diff`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import OBSERVATION

if TYPE_CHECKING:
    from vllm_runbooks.history.records import HistoryEntry
    from vllm_runbooks.history.store import History

_BACK = re.compile(r"(.{1,2000})~(\d{1,6})", re.DOTALL)
_LARGEST = 64 << 20


@click.command(
    epilog=given.examples(
        "diff 4f1c 9a02", "diff Qwen/Qwen3-8B~1 Qwen/Qwen3-8B", "diff node1.json node2.json --format json"
    )
)
@click.argument("a")
@click.argument("b")
@given.FORMAT
def diff(a: str, b: str, form: str) -> int:
    """Compare two runs, hosts or releases: first the inputs with their defaults, then the results.

    A and B are each an entry of the history (the beginning of its id, or SUBJECT for its last entry and SUBJECT~1 for
    the one before), or a file: an exported entry, JSON output of `diagnose`, `probe` or `serve`, a results.json of
    `check`, or a case recorded by `probe --record`.

    Exit status: 0 if the results are the same, apart from times; 1 if they differ; 2 for invalid input.
    """
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.views.summary import summary_view
    from vllm_runbooks.diff import differences
    from vllm_runbooks.history import render as render_history
    from vllm_runbooks.history import store as kept

    with kept.opened(say=output.say, is_needed=True) as opened:
        comparison = differences.compared(_read(a, opened), _read(b, opened))
    if form == "json":
        output.write_json(to_json(comparison))
    else:
        terminal.show(summary_view(render_history.summary_of_difference(comparison)))
        output.write(f"\n{render_history.compared(comparison)}")
    return int(any(differing.is_significant for differing in comparison.results))


def _read(name: str, opened: History) -> HistoryEntry:
    """Entry of a name.

    Raises:
        InputError: There is none.
    """
    from vllm_runbooks.diff import differences

    path = Path(name)
    if (observed := path / OBSERVATION).is_file():
        return differences.read(_document(observed), path.name)
    if name.endswith((".json", ".jsonl")) or path.is_file():
        return differences.read(_document(path), path.name)
    entry = _entry(name, opened)
    return differences.with_parts(entry, opened.entries(part_of=entry.id))


def _entry(name: str, opened: History) -> HistoryEntry:
    from vllm_runbooks.history import store as history

    if history.is_id(name):
        try:
            return opened.entry(name)
        except InputError:
            if not opened.about(name, limit=1):
                raise
    back = _BACK.fullmatch(name)
    subject, number = (back[1], int(back[2])) if back else (name, 0)
    entries = opened.about(subject, limit=number + 1)
    if len(entries) <= number:
        count = f"only {len(entries)} history entries match" if entries else "no history entry matches"
        raise InputError(f"{name}: {count}; `vllm-runbooks history` lists all entries")
    return entries[number]


def _document(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); use a history entry, or an existing file"
        ) from None
    if len(raw) > _LARGEST:
        raise InputError(f"{path}: is larger than {_LARGEST >> 20} MiB; use the document of one run")
    try:
        data = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        several = "; from an export with several lines, use one line" if raw.count(b"\n") > 1 else ""
        raise InputError(f"{path}: is not a JSON document{several}; use the output of --format json") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: is not a JSON object; use the output of --format json")
    return data
