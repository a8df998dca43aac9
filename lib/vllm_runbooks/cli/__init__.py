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

_COMMANDS = {
    "case": ("runbooks.commands.case", "case", "Add a recorded case: a log and the answer that you expect."),
    "catalog": (
        "authoring.commands.catalog",
        "catalog",
        "Check the catalog's files, add a symptom, or list symptoms.",
    ),
    "check": ("runbooks.commands.runbooks", "check", "Run every runbook on every recorded case and write a report."),
    "cluster": (
        "cluster.commands.cluster",
        "cluster",
        "Check the nodes of a cluster before you launch on them.",
    ),
    "completion": ("cli.completion", "completion", "Print shell completion for bash, zsh or fish."),
    "convert": ("lint.commands.convert", "convert", "Convert a launch to shell, docker, compose or systemd."),
    "diagnose": ("diagnosis.command", "diagnose", "Find the root cause in the log of a vLLM launch."),
    "diff": ("diff.command", "diff", "Compare two runs, hosts or releases: inputs first, then results."),
    "edge10": (
        "edge10.command",
        "edge10",
        "Check each step of a deployment to an Edge10 chip.",
    ),
    "history": ("history.command", "history", "List past checks, runs, launches and probes."),
    "inventory": (
        "host.commands.inventory",
        "inventory",
        "Report this host's GPUs and limits, and what they mean for vLLM.",
    ),
    "lab": ("jupyter.command", "lab", "Open JupyterLab on a runbook, with panels to diagnose and plan."),
    "leftovers": (
        "host.commands.leftovers",
        "leftovers",
        "List or remove what earlier vLLM launches left on this host.",
    ),
    "lint": ("lint.commands.lint", "lint", "Check vLLM commands against a release; fix them."),
    "list": ("runbooks.commands.runbooks", "list_", "List the runbooks."),
    "mcp": ("mcp.command", "mcp", "Serve these commands to an AI agent (MCP)."),
    "migrate": ("lint.commands.lint", "migrate", "Move a script to another vLLM release."),
    "pack": (
        "runbooks.commands.pack",
        "pack",
        "Pack log, command and diagnosis to share, without secrets.",
    ),
    "plan": ("plan.command", "plan", "Check whether a model fits your GPUs."),
    "probe": ("probe.command", "probe", "Check a running server: health, metrics, load."),
    "record": (
        "runbooks.commands.record",
        "record",
        "Record a command's output, or a log, as a case for `check`.",
    ),
    "releases": (
        "authoring.commands.releases",
        "releases",
        "List the vLLM releases in the catalog, or add one.",
    ),
    "run": ("runbooks.commands.runbooks", "run", "Run a runbook headless."),
    "schedule": (
        "schedule.command",
        "schedule",
        "Run checks on a schedule, with alerts.",
    ),
    "serve": ("serve.command", "serve", "Launch a vLLM server under supervision."),
    "show": ("runbooks.commands.runbooks", "show", "Show a runbook, or an entry of the history."),
    "site": ("site.command", "site", "Build the documentation site."),
}
"""Command: module, attribute, and the line `--help` shows without importing it."""
_GROUPS = {
    "A failed launch": ("diagnose", "pack", "leftovers"),
    "Before a launch": ("lint", "migrate", "convert", "plan", "inventory", "cluster", "edge10"),
    "Launch and operate": ("serve", "probe"),
    "Runbooks and checks": ("list", "show", "run", "check", "schedule", "history", "diff"),
    "Cases and catalog": ("record", "case", "catalog", "releases"),
    "This tool": ("lab", "mcp", "site", "completion"),
}
"""Groups of commands in `--help`, by task."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"vllm_runbooks.{module}"), attribute)
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
            for name, (_, _, summary) in sorted(_COMMANDS.items())
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        for title, names in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, _COMMANDS[name][2]) for name in names])


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
