"""`vllm-runbooks leftovers`."""

from __future__ import annotations

import json

import click

from vllm_runbooks.core.console import given, output


@click.command(epilog=given.examples("leftovers", "leftovers --remove proven", "leftovers --remove psm_1a2b3c4d"))
@click.option(
    "--remove",
    "wanted",
    metavar="NAME",
    multiple=True,
    help="Remove this one, by its process number or file name, or all that are `proven`; repeatable.",
)
@given.FORMAT
def leftovers(wanted: tuple[str, ...], form: str) -> int:
    """List what earlier vLLM starts of this user left on this host: processes, and segments of shared memory.

    Each with the proof of whose it is. Proven is what carries the mark of a guarded start whose guard is gone; a guard
    that ran in another container cannot be seen. Nothing is removed without --remove; a process is asked to end, and
    killed three seconds later.

    Exit status: 0 nothing is left; 1 something is; 2 the request cannot be read.
    """
    from vllm_runbooks.core.errors import InputError
    from vllm_runbooks.host import leftovers as there
    from vllm_runbooks.serve import places

    found = there.found(places.starts())
    names = {each.name for each in found}
    unknown = [name for name in wanted if name != "proven" and name not in names]
    if unknown:
        raise InputError(f"--remove {unknown[0]}: is none of the leftovers; `vllm-runbooks leftovers` lists them")
    chosen = [each for each in found if each.name in wanted or (each.is_proven and "proven" in wanted)]
    kept = [each for each in found if each not in chosen or not there.removed(each)]
    if form == "json":
        rows = [
            {"kind": each.kind, "name": each.name, "size_bytes": each.size_bytes, "proven": each.is_proven,
             "proof": each.proof, "removed": each not in kept}
            for each in found
        ]  # fmt: skip
        output.write_json(json.dumps({"schema": 1, "leftovers": rows}, indent=2))
        return int(bool(kept))
    for each in found:
        state = "left" if each in kept else "removed"
        proof = "proven" if each.is_proven else "not proven"
        output.write(f"{state}: {each.kind} {each.name}, {each.size_bytes / 2**20:.1f} MiB; {proof}: {each.proof}")
    if not found:
        output.write("nothing of an earlier vLLM start of this user is left on this host")
    return int(bool(kept))
