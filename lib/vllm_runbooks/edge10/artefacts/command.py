"""`vllm-runbooks edge10 check`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.edge10.options import VERSION

if TYPE_CHECKING:
    from vllm_runbooks.edge10.artefacts.records import CheckedFolder

_NUMBERS = re.compile(r"\d{1,7}(?:,\d{1,7}){0,15}", re.ASCII)
_MAX_DIES = 256


class _LengthsType(click.ParamType[tuple[int, ...]]):
    """Lengths such as 1,8,96."""

    name = "lengths"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        text = str(value).replace(" ", "")
        if not _NUMBERS.fullmatch(text) or "0" in text.split(","):
            self.fail(f"{str(value)[:40]!r} is no list of lengths; give one such as 1,8,96.", param, ctx)
        return tuple(sorted(set(map(int, text.split(",")))))


@click.command(
    epilog=given.examples(
        "edge10 check Qwen3-1.7B-AWQ --step convert --float Qwen3-1.7B",
        "edge10 check Qwen3-1.7B-AWQ-AOT_8_4096 --dies 4 --lengths 1,8",
        "edge10 check compiled/ --job job.yaml --repair",
        "edge10 check listing.txt --format json",
    )
)
@click.argument("name", metavar="FOLDER|LISTING|-", type=complete.SCRIPT)
@click.option("--job", metavar="FILE", type=complete.SCRIPT, help="The job that it belongs to: its model and settings.")
@click.option("--float", "float_name", metavar="FOLDER", help="The float model: what to compare with, and copy from.")
@click.option("--dies", metavar="N", type=click.IntRange(1, _MAX_DIES), help="How many dies it should be of.")
@click.option("--lengths", metavar="N,N", type=_LengthsType(), help="Which lengths it should be of, as in 1,8,96.")
@click.option("--step", type=click.Choice(["quantise", "convert", "compile"]), help="The step that wrote it.")
@click.option("--repair", is_flag=True, help="Copy and rename what is missing, after asking.")
@click.option("--yes", is_flag=True, help="With --repair: do not ask.")
@VERSION
@given.FORMAT
def check(*, name: str, float_name: str | None, repair: bool, yes: bool, form: str, **expected: Any) -> int:
    """Say whether what lies between two steps is whole: a quantised checkpoint, or a compiled model.

    FOLDER is judged with what stands in its files; of a LISTING, as `tree`, `ls -lR`, `find` or `tar -tv` print one,
    the names are, and the sizes where it has them. What --format json prints is a listing too. --repair copies from
    the float model and renames what the compiler left under its own names; it writes over nothing, and keeps a list of
    what it did beside the folder.

    Exit status: 0 nothing is wrong; 1 something is, or could not be established, or was not repaired; 2 it cannot be
    read.
    """
    from dataclasses import replace

    from vllm_runbooks.edge10.artefacts import checks as artefact_checks
    from vllm_runbooks.edge10.artefacts import repair as repairs

    if yes and not repair:
        raise click.UsageError("--yes is for --repair; give that as well.")
    if repair and not artefact_checks.is_folder(name):
        raise click.UsageError("--repair works in a folder of this host; name one.")
    checked = artefact_checks.check(name, float_name=float_name, **expected)
    if not repair or not checked.mends:
        return _print(checked, form)
    for mend in checked.mends:
        origin = "the float model's " if mend.is_float else ""
        output.say(f"{mend.does} {origin}{mend.source} to {mend.target}")
    if not yes and not _confirm(len(checked.mends)):
        _print(checked, form)
        return 1
    record = repairs.apply(Path(name), checked.mends, Path(float_name) if float_name else None)
    for target, reason in record.failed.items():
        output.say(f"not done: {target}: {reason}")
    if record.done:
        output.say(f"wrote {repairs.keep(record, Path(name))}, which says what was done and how it is undone")
    again = artefact_checks.check(name, float_name=float_name, **expected)
    return max(_print(replace(again, repaired=record), form), int(bool(record.failed)))


def _confirm(count: int) -> bool:
    """Ask at the terminal; without one the answer is no."""
    if not sys.stdin.isatty():
        output.say("nothing was done: there is no terminal to ask at; --yes does it without asking")
        return False
    if click.confirm(f"Do {'this' if count == 1 else f'these {count}'} in the folder?", default=False, err=True):
        return True
    output.say("nothing was done")
    return False


def _print(checked: CheckedFolder, form: str) -> int:
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.edge10.artefacts import checks as artefact_checks
    from vllm_runbooks.edge10.artefacts import render as render_edge10_checks

    redacted = artefact_checks.without_secrets(checked)
    if form == "json":
        output.write_json(to_json(redacted))
    else:
        terminal.show(render_edge10_checks.view(redacted))
    return int(checked.ok is not True)
