"""`vllm-runbooks mcp`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from vllm_runbooks.core.console import given, output


@click.command(epilog=given.examples("mcp", "mcp --root ."))
@given.value(
    "--root roots DIR",
    "Folder whose files the tools may read, in addition to the client's roots; repeatable.",
    click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
)
@click.pass_context
def mcp(context: click.Context, /, *, roots: tuple[Path, ...]) -> int:
    """Serve diagnose, lint, migrate, plan, probe, explain and search to an agent.

    It speaks the Model Context Protocol on standard input and output: an agent such as Claude Code, Cursor, VS Code or
    Jupyter AI starts it. It writes no files, and reads only those below the folders that the client (roots) or --root
    names; a log or script can also be passed as text.

    Exit status: 0 at the end of the connection, 2 if the extra `mcp` is not installed.
    """
    from vllm_runbooks.core import extras

    extras.require("`vllm-runbooks mcp`")
    from vllm_runbooks.mcp import server

    if sys.stdin.isatty():
        output.say("waiting for an MCP client on standard input; press Ctrl-C to stop")
    root = context.find_root().command
    server.server(roots, root if isinstance(root, click.Group) else None).run()
    return 0
