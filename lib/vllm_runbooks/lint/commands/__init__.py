"""`lint`, `migrate` and `convert`."""

from __future__ import annotations

from collections.abc import Callable

import click

from vllm_runbooks.catalog import complete

_SPEC = "Your GPUs: 8xRTX3090, a snapshot file or case, or local; without GPUs cpu or cpu-64GB."
GPUS = click.option("--gpus", metavar="SPEC", type=complete.CARDS, help=_SPEC)


def release(*names: str, text: str, is_required: bool = False) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Option that names a release."""
    return click.option(*names, metavar="VERSION", type=complete.RELEASE, required=is_required, help=text)
