"""`vllm-runbooks leftovers`."""

from __future__ import annotations

import json

import click

from vllm_runbooks.core.console import given, output
from vllm_runbooks.core.display import SCHEMA


@click.command(epilog=given.examples("leftovers", "leftovers --remove proven", "leftovers --remove psm_1a2b3c4d"))
@click.option(
    "--remove",
    "names_to_remove",
    metavar="NAME",
    multiple=True,
    help="Remove this one, by its process number or file name, or all that are `proven`; repeatable.",
)
@given.FORMAT
def leftovers(names_to_remove: tuple[str, ...], form: str) -> int:
    """List what earlier vLLM starts of this user left on this host: processes, and segments of shared memory.

    Each with the proof of whose it is. Proven is what carries the mark of a guarded start whose guard is gone; a guard
    that ran in another container cannot be seen. Nothing is removed without --remove; a process is asked to end, and
    killed three seconds later.

    Exit status: 0 nothing is left; 1 something is; 2 the request cannot be read.
    """
    from vllm_runbooks.core.errors import InputError
    from vllm_runbooks.host import leftovers as there
    from vllm_runbooks.serve import places

    items = there.find_leftovers(places.starts())
    names = {item.name for item in items}
    unknown = [name for name in names_to_remove if name != "proven" and name not in names]
    if unknown:
        raise InputError(f"--remove {unknown[0]}: is none of the leftovers; `vllm-runbooks leftovers` lists them")
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
    for item in items:
        state = "left" if item in kept else "removed"
        proof = "proven" if item.is_proven else "not proven"
        output.write(f"{state}: {item.kind} {item.name}, {item.size_bytes / 2**20:.1f} MiB; {proof}: {item.proof}")
    if not items:
        output.write("nothing of an earlier vLLM start of this user is left on this host")
    return int(bool(kept))
