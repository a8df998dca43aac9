"""`vllm-runbooks leftovers`."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import click

from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.core.display import SCHEMA
from vllm_runbooks.core.views.styled import Tone
from vllm_runbooks.core.views.summary import Step, Summary, SummaryTable, count_of, summary_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm_runbooks.host.leftovers import Leftover


@click.command(epilog=given.examples("leftovers", "leftovers --remove proven", "leftovers --remove psm_1a2b3c4d"))
@given.value(
    "--remove names_to_remove NAME",
    "PID or file name to remove, or `proven` for all proven items; repeatable.",
    multiple=True,
)
@given.FORMAT
def leftovers(names_to_remove: tuple[str, ...], form: str) -> int:
    """List what earlier vLLM launches of this user left on this host: processes and shared memory.

    Each is listed with proof of its owner. An item is "proven" if it carries the mark of a
    supervised launch whose supervisor has ended. A supervisor in another container is not visible.
    Nothing is removed without --remove; a process receives SIGTERM, and SIGKILL three seconds
    later.

    Exit status: 0 if nothing is found, 1 if something is found, 2 for invalid input.
    """
    from vllm_runbooks.core.errors import InputError
    from vllm_runbooks.host import leftovers as there
    from vllm_runbooks.serve import places

    items = there.find_leftovers(places.starts())
    names = {item.name for item in items}
    unknown = [name for name in names_to_remove if name != "proven" and name not in names]
    if unknown:
        raise InputError(f"--remove {unknown[0]}: not a leftover; run `vllm-runbooks leftovers` to list them")
    chosen = [
        item for item in items if item.name in names_to_remove or (item.is_proven and "proven" in names_to_remove)
    ]
    kept = [item for item in items if item not in chosen or not there.remove_leftover(item)]
    if form == "json":
        rows = [
            {"kind": item.kind, "name": item.name, "size_bytes": item.size_bytes, "proven": item.is_proven,
             "proof": item.proof, "removed": item not in kept}
            for item in items
        ]  # fmt: skip
        output.write_json(json.dumps({"schema": SCHEMA, "leftovers": rows}, indent=2))
        return int(bool(kept))
    terminal.show(summary_view(_summary(items, kept)))
    return int(bool(kept))


def _summary(items: Sequence[Leftover], kept: Sequence[Leftover]) -> Summary:
    """Remaining and removed leftovers, proven ones first."""
    gone = [f"{item.kind} {item.name}" for item in items if item not in kept]
    removed = [f"removed: {', '.join(gone)}"] if gone else []
    if not kept:
        about = ("No leftovers of this user's earlier vLLM launches on this host", *removed)
        return Summary("OK", Tone.GOOD, about)
    kinds = [
        count_of(number, kind.replace("segment", "shared memory segment"))
        for kind, number in Counter(item.kind for item in kept).items()
    ]
    proven = [item for item in kept if item.is_proven]
    rows = [
        (item.name, item.kind, f"{item.size_bytes / 2**20:.1f}", _proof(item))
        for item in [*proven, *(item for item in kept if not item.is_proven)]
    ]
    head = ("name", "kind", "MiB", "from an earlier launch?")
    is_alike = len({_proof(item) for item in kept}) == 1
    end = 3 if is_alike else 4
    note = f"{_PROVEN[kept[0].is_proven]} to be from an earlier launch: {kept[0].proof}." if is_alike else ""
    table = SummaryTable(head[:end], tuple(row[:end] for row in rows), frozenset({2}), note)
    step = ("Remove the proven leftovers", "proven") if proven else ("Remove one that you know is yours", "NAME")
    steps = (Step("Next", step[0], f"vllm-runbooks leftovers --remove {step[1]}"),)
    return Summary(count_of(len(kept), "leftover").upper(), Tone.WARN, (*kinds, *removed), table=table, steps=steps)


_PROVEN = {True: "Proven", False: "Not proven"}


def _proof(item: Leftover) -> str:
    return f"{_PROVEN[item.is_proven].lower()}: {item.proof}"
