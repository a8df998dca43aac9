"""`lint`, `migrate` and `convert`."""

from __future__ import annotations

import click

from vllm_runbooks.catalog import complete

_SPEC = "The GPUs there are: 8xRTX3090, a snapshot's file or case, or local."
GPUS = click.option("--gpus", metavar="SPEC", type=complete.CARDS, help=_SPEC)
