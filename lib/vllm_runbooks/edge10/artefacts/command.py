"""`vllm-runbooks edge10 check`."""

from __future__ import annotations

import re
from typing import Any

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.edge10.options import VERSION

_NUMBERS = re.compile(r"\d{1,7}(?:,\d{1,7}){0,15}", re.ASCII)
_MAX_DIES = 256


class _LengthsType(click.ParamType[tuple[int, ...]]):
    """Lengths such as 1,8,96."""

    name = "lengths"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        text = str(value).replace(" ", "")
        if not _NUMBERS.fullmatch(text) or "0" in text.split(","):
            self.fail(f"{str(value)[:40]!r} is not a list of lengths; use one such as 1,8,96.", param, ctx)
        return tuple(sorted(set(map(int, text.split(",")))))


@click.command(
    epilog=given.examples(
        "edge10 check Qwen3-1.7B-AWQ --step convert --float Qwen3-1.7B",
        "edge10 check Qwen3-1.7B-AWQ-AOT_8_4096 --dies 4 --lengths 1,8",
        "edge10 check compiled/ --job job.yaml",
        "edge10 check listing.txt --format json",
    )
)
@click.argument("name", metavar="FOLDER|LISTING|-", type=complete.SCRIPT)
@given.value("--job FILE", "The job of these files: model and settings.", complete.SCRIPT)
@given.value("--float float_name FOLDER", "The float model to compare with.")
@given.value("--dies N", "Expected number of dies.", click.IntRange(1, _MAX_DIES))
@given.value("--lengths N,N", "Expected lengths, as in 1,8,96.", _LengthsType())
@given.choice("--step", "The step that wrote the files.", ["quantise", "convert", "compile"])
@VERSION
@given.EXPLAIN
@given.FORMAT
def check(*, name: str, float_name: str | None, explain: bool, form: str, **expected: Any) -> int:
    """Check a quantized checkpoint or a compiled model.

    For a FOLDER, file contents are checked; for a LISTING (output of `tree` or `ls -lR`), only names and sizes.

    Exit status: 0 if no problem is found, 1 if there is a problem or an open question, 2 for invalid input.
    """
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.views.summary import summary_view
    from vllm_runbooks.edge10 import summaries
    from vllm_runbooks.edge10.artefacts import checks as artefact_checks
    from vllm_runbooks.edge10.artefacts import render as render_edge10_checks

    with terminal.waiting(f"checking {name}"):
        checked = artefact_checks.check(name, float_name=float_name, **expected)
    redacted = artefact_checks.without_secrets(checked)
    if form == "json":
        output.write_json(to_json(redacted))
    elif explain:
        terminal.show(render_edge10_checks.view(redacted))
    else:
        again = terminal.again("--explain", is_repeatable=name != "-")
        terminal.show(summary_view(summaries.summarize_folder(redacted, again=again)))
    return int(checked.ok is not True)
