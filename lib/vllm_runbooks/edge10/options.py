"""Options that several commands of `vllm-runbooks edge10` share."""

from __future__ import annotations

import click

VERSION = click.option(
    "--toolchain", "version", metavar="V", help="Version of the toolchain, as in 1.1.7 (default: the newest known)."
)
