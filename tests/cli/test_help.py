"""`--help` of every command: its examples are read, and it fits a terminal of 80 columns."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rows import in_one_test
from vllm_runbooks import cli

WITHOUT_EXAMPLES = {"vllm-runbooks catalog", "vllm-runbooks cluster", "vllm-runbooks edge10",
    "vllm-runbooks releases", "vllm-runbooks schedule", "vllm-runbooks case",
                    "vllm-runbooks history", "vllm-runbooks site"}  # fmt: skip
"""Groups whose own commands have theirs."""


def commands(group: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it."""
    yield path, group
    if isinstance(group, click.Group):
        context = click.Context(group, info_name=path)
        for name in group.list_commands(context):
            below = group.get_command(context, name)
            assert below is not None
            yield from commands(below, f"{path} {name}")


ALL = dict(commands(cli.commands, "vllm-runbooks"))
EXAMPLES = [
    (path, line.strip())
    for path, command in ALL.items()
    for line in (command.epilog or "").replace(" \\\n", " ").splitlines()
    if line.startswith("  vllm-runbooks ") and " COMMAND " not in line
]


def parsed(words: list[str]) -> click.Context:
    """The parsed command line, without running it."""
    context = click.Context(cli.commands, info_name="vllm-runbooks")
    command: click.Command = cli.commands
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, words)
        assert found is not None
        context = found.make_context(name, list(words), parent=context)
        words = [*context._protected_args, *context.args] if isinstance(found, click.Group) else []
        command = found
    return context


@pytest.mark.parametrize(("path", "line"), EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_every_example_is_valid(path: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is accepted by its command, which is the one that shows it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases").mkdir()
    for folder in ("mycatalog", "mycatalog/symptoms"):
        (tmp_path / folder).mkdir()
    words = shlex.split(line)[1:]

    with parsed(words) as context:
        shown = context.command_path

    assert path in ("vllm-runbooks", shown)


@in_one_test("path", sorted(ALL))
def test_every_command_shows_an_example(path: str) -> None:
    """No usage has to be guessed."""
    assert path in WITHOUT_EXAMPLES or any(shown == path for shown, _ in EXAMPLES)


@in_one_test("path", sorted(ALL))
def test_help_fits_80_columns(path: str) -> None:
    """No line of it is longer, the examples included."""
    context = click.Context(ALL[path], info_name=path, terminal_width=80)

    assert [line for line in ALL[path].get_help(context).splitlines() if len(line) > 80] == []


def test_every_command_is_in_one_group_of_the_help() -> None:
    """The list of commands names each once."""
    grouped = [name for names in cli._GROUPS.values() for name in names]

    assert sorted(grouped) == sorted(cli._COMMANDS)
