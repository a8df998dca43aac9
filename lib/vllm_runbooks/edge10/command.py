"""`vllm-runbooks edge10`: quantise, evaluate and compile a model for an edge chip, each step checked."""

from __future__ import annotations

import click

from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.edge10.accuracy.command import compare
from vllm_runbooks.edge10.artefacts.command import check
from vllm_runbooks.edge10.host.command import preflight
from vllm_runbooks.edge10.jobs.command import make
from vllm_runbooks.edge10.options import VERSION
from vllm_runbooks.edge10.scripts.command import lint


@click.group()
def edge10() -> None:
    """Check each step of a deployment to an Edge10 chip.

    No step was ever tested with the vendor's programs or the chip.
    """


edge10.add_command(preflight)
edge10.add_command(make)
edge10.add_command(check)
edge10.add_command(compare)
edge10.add_command(lint)


@edge10.command(
    epilog=given.examples("edge10 models", "edge10 models Qwen/Qwen3-4B Qwen3-VL-4B-Instruct --format json")
)
@click.argument("names", nargs=-1, metavar="[NAME…]")
@VERSION
@given.FORMAT
def models(*, names: tuple[str, ...], version: str | None, form: str) -> int:
    """Report which models the toolchain quantizes and compiles.

    Without NAME, all supported models are listed. For an unknown name, similar names are shown.

    Exit status: 0 if all named models are supported (or none is named), 1 if any is unsupported or unknown, 2 for
    invalid input.
    """
    from vllm_runbooks.catalog import load as catalog
    from vllm_runbooks.catalog.toolchains import ModelSupportReport
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.errors import InputError
    from vllm_runbooks.core.views.styled import BLANK
    from vllm_runbooks.core.views.summary import summary_view
    from vllm_runbooks.edge10 import models as known
    from vllm_runbooks.edge10 import summaries
    from vllm_runbooks.edge10.host import render as render_toolchains

    if not all(name.strip() for name in names):
        raise InputError("(nothing): empty model name; use a name, or remove it to list all models")
    facts = catalog.toolchain(version)
    requested = names or [model.name for model in facts.models]
    answer = ModelSupportReport(facts.id, facts.source, tuple(known.find_model(name, facts) for name in requested))
    if form == "json":
        output.write_json(to_json(answer))
    else:
        terminal.show(
            [
                *summary_view(summaries.summarize_models(answer, is_list=not names)),
                BLANK,
                *render_toolchains.models(answer),
            ]
        )
    return int(bool(names) and not all(model.quantise and model.compile for model in answer.models))
