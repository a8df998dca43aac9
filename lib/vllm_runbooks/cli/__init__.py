"""The command line: one thin function per command, imported when it is called.

Exit status: 0 read, checked, nothing wrong; 1 read, and something is wrong or unknown; 2 invalid input (one line on
standard error, nothing on standard output).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import re
import sys
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from vllm_runbooks.catalog import complete
from vllm_runbooks.core.console import given, output
from vllm_runbooks.core.errors import RunbooksError
from vllm_runbooks.core.files import NotStoredError

_GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "A failed launch": {
        "diagnose": ("diagnosis.command", "Find the root cause in the log of a vLLM launch."),
        "pack": ("runbooks.commands.pack", "Pack log, command and diagnosis to share, without secrets."),
        "leftovers": ("host.commands.leftovers", "List or remove what earlier vLLM launches left on this host."),
    },
    "Before a launch": {
        "lint": ("lint.commands.lint", "Check vLLM commands against a release; fix them."),
        "migrate": ("lint.commands.lint", "Move a script to another vLLM release."),
        "convert": ("lint.commands.convert", "Convert a launch to shell, docker, compose or systemd."),
        "plan": ("plan.command", "Check whether a model fits your GPUs."),
        "inventory": ("host.commands.inventory", "Report this host's GPUs and limits, and what they mean for vLLM."),
        "cluster": ("cluster.commands.cluster", "Check the nodes of a cluster before you launch on them."),
        "edge10": ("edge10.command", "Check each step of a deployment to an Edge10 chip."),
    },
    "Launch and operate": {
        "serve": ("serve.command", "Launch a vLLM server under supervision."),
        "probe": ("probe.command", "Check a running server: health, metrics, load."),
    },
    "Runbooks and checks": {
        "list": ("runbooks.commands.runbooks", "List the runbooks."),
        "show": ("runbooks.commands.runbooks", "Show a runbook, or an entry of the history."),
        "run": ("runbooks.commands.runbooks", "Run a runbook headless."),
        "check": ("runbooks.commands.runbooks", "Run every runbook on every recorded case and write a report."),
        "schedule": ("schedule.command", "Run checks on a schedule, with alerts."),
        "history": ("history.command", "List past checks, runs, launches and probes."),
        "diff": ("diff.command", "Compare two runs, hosts or releases: inputs first, then results."),
    },
    "Cases and catalog": {
        "record": ("runbooks.commands.record", "Record a command's output, or a log, as a case for `check`."),
        "case": ("runbooks.commands.case", "Add a recorded case: a log and the answer that you expect."),
        "catalog": ("authoring.commands.catalog", "Check the catalog's files, add a symptom, or list symptoms."),
        "releases": ("authoring.commands.releases", "List the vLLM releases in the catalog, or add one."),
    },
    "This tool": {
        "lab": ("jupyter.command", "Open JupyterLab on a runbook, with panels to diagnose and plan."),
        "mcp": ("mcp.command", "Serve these commands to an AI agent (MCP)."),
        "site": ("site.command", "Build the documentation site."),
        "completion": ("cli.completion", "Print shell completion for bash, zsh or fish."),
    },
}
"""Commands of `--help` by task: the module, and the line that is shown without importing it."""
_COMMANDS = {name: entry for group in _GROUPS.values() for name, entry in group.items()}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"vllm_runbooks.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, "list_" if cmd_name == "list" else cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name.lower(), _COMMANDS, n=1)
            raise click.UsageError(f"No such command {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands with this prefix, without importing any; options for a prefix of an option."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [
            CompletionItem(name, help=summary)
            for name, (_, summary) in sorted(_COMMANDS.items())
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        for title, group in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, summary) in group.items()])


@click.command(
    cls=_Commands,
    epilog=given.examples(
        "diagnose startup.log", "lint launch.sh --vllm 0.19.0", "plan Qwen/Qwen3-8B --gpus 2xRTX3090", "COMMAND --help"
    ),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="vllm-runbooks")
def commands() -> None:
    """Find out why a vLLM deployment fails, and what to change."""


_WORDED = (
    (re.compile(r"is not a valid integer(?: range)?\b"), "is not a whole number"),
    (re.compile(r"is not a valid float(?: range)?\b"), "is not a number"),
    (re.compile(r" '\{[^}]*\}'\. Choose from: "), ": use one of "),
    (re.compile(r" Choose from: "), " Use one of "),
)
"""Messages of click, and ours."""


def _refuse(message: str) -> int:
    """Report an invalid input in one line; a value mistaken for a name may be a secret."""
    output.say("; ".join(message.splitlines()))
    return 2


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its status; never with a traceback for bad input."""
    gc.set_threshold(200_000, 20, 20)  # records live until the command ends, and few are in cycles
    status = run(sys.argv[1:] if arguments is None else arguments)
    gc.freeze()  # else Python would look for cycles among all records before it exits
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit status."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open as long as the process runs
    if complete.is_asked():
        return _completed(arguments)
    try:
        output.opened()  # fail before any work if the output cannot be written
        status: Any = commands.main(arguments, prog_name="vllm-runbooks", standalone_mode=False)
    except click.exceptions.Exit as left:
        return left.exit_code
    except click.exceptions.NoArgsIsHelpError as asked:
        asked.show()
        return 2
    except click.ClickException as error:
        return _refuse(_said(error))
    except NotStoredError as error:
        return _refuse(f"{error}; pass another path, or make room there")
    except RunbooksError as error:
        return _refuse(str(error))
    except output.NotPrintedError as error:
        # The result could not be printed: this has its own exit status.
        output.say(str(error))
        return 2
    except OSError as error:
        # A whole pasted text may have been the name.
        named = f"{str(error.filename).strip().partition(chr(10))[0][:80]}: " if error.filename else ""
        return _refuse(f"{named}{error.strerror or error}; check the path and its permissions")
    except (KeyboardInterrupt, click.exceptions.Abort) as error:
        output.say(f"interrupted{f'; {error}' if str(error) else ''}")
        return 130
    return status if isinstance(status, int) else 0


def _completed(arguments: list[str]) -> int:
    """Answer a shell; with nothing if that is not possible."""
    complete.install()
    with contextlib.suppress(Exception, SystemExit):
        commands.main(arguments, prog_name="vllm-runbooks", complete_var=complete.VARIABLE, standalone_mode=False)
    return 0


def _said(error: click.ClickException) -> str:
    """A click error in one line, with the command for help."""
    message = " ".join(error.format_message().split())
    for wording, ours in _WORDED:
        message = wording.sub(ours, message)
    context = getattr(error, "ctx", None)
    ended = message if message.endswith((".", "?", ")")) and "extra argument" not in message else f"{message}."
    return f"{ended} See `{context.command_path} --help`." if context else ended
