"""`vllm-runbooks completion`."""

from __future__ import annotations

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.core.console import given, output


@click.command(epilog=given.examples("completion bash", "completion zsh", "completion fish"))
@click.argument("shell", type=click.Choice(list(complete.SCRIPTS)))
def completion(shell: str) -> None:
    """Print shell completion for commands, options and names.

    Names are recorded cases, runbooks, symptoms, models, GPUs and releases; options that accept a
    file complete file names.

    \b
    Add one of these lines to your shell's configuration:
      bash (~/.bashrc):                  eval "$(vllm-runbooks completion bash)"
      zsh (~/.zshrc, after compinit):    eval "$(vllm-runbooks completion zsh)"
      fish (~/.config/fish/config.fish): vllm-runbooks completion fish | source
    """  # noqa: D301 - click takes the character for "as it stands"
    from vllm_runbooks.cli import commands  # imports this module

    output.write(complete.script(shell, commands))
