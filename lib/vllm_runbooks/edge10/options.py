"""Options that several commands of `vllm-runbooks edge10` share."""

from __future__ import annotations

import click

VERSION = click.option(
    "--toolchain", "version", metavar="V", help="Toolchain version, as in 1.1.7 (default: the newest known)."
)
