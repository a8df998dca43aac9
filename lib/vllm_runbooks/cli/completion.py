"""`vllm-runbooks completion`."""

from __future__ import annotations

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.core.console import given, output


@click.command(epilog=given.examples("completion bash", "completion zsh", "completion fish"))
@click.argument("shell", type=click.Choice(list(complete.SCRIPTS)))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands, options and names when Tab is pressed.

    Names are those of recorded cases, runbooks, symptoms, models, GPUs and releases, where an option takes them; where
    it takes a file, files are offered as well.

    \b
    Install it, for good, with this line:
      bash (~/.bashrc):                 eval "$(vllm-runbooks completion bash)"
      zsh (~/.zshrc, behind compinit):  eval "$(vllm-runbooks completion zsh)"
      fish (~/.config/fish/config.fish): vllm-runbooks completion fish | source
    """  # noqa: D301 - click takes the character for "as it stands"
    from vllm_runbooks.cli import commands  # imports this module

    output.write(complete.script(shell, commands))
