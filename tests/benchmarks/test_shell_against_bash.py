"""Our reading of scripts against real bash: arguments, order, environment and what is refused, on generated scripts.

What may differ is only what cannot be known: command substitutions, variables that nothing sets, sourced files.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import shell_scripts
from figures import Figures
from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.shell import syntax

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash"),
]
FULL = pytest.mark.full
KINDS: tuple[Callable[[int], Iterator[str]], ...] = (shell_scripts.grammar, shell_scripts.launch, shell_scripts.habits)
MOST_UNKNOWN = 0.06
"""Share of the commands of which something may not be known: the scripts' own arguments (`X="$@"`) are among it."""


@pytest.mark.parametrize("seed", [21, *(pytest.param(seed, marks=FULL) for seed in range(22, 26))])
@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_arguments_equal_those_of_bash(
    make: Callable[[int], Iterator[str]], seed: int, tmp_path: Path, request: pytest.FixtureRequest,
    figures: Figures,
) -> None:  # fmt: skip
    """Every program that bash runs, with its arguments, in order, and its environment."""
    count = 2_000 if "full" in request.config.getoption("-m", "").replace("not full", "") else 200
    bash = shell_scripts.Bash(tmp_path)
    commands = unknown = ended = 0
    differences = []
    for script in itertools.islice(make(seed), count):
        runs = bash.run(script)
        if runs is None:
            continue
        found, said, not_known = shell_scripts.compare(script, runs)
        ended, commands, unknown = ended + 1, commands + said, unknown + not_known
        differences += [(script, difference) for difference in found]

    named = f"(sets of {count} {make.__name__} scripts)"
    figures.note(
        f"shell parser: commands with an argument that it cannot resolve {named}",
        unknown / commands,
        at_most=MOST_UNKNOWN,
        form=".1%",
    )
    figures.note(f"shell parser: arguments that differ from bash {named}", len(differences), at_most=0, form=".0f")
    assert ended >= 0.98 * count


@pytest.mark.parametrize("count", [400, pytest.param(4_000, marks=FULL)])
def test_scripts_that_bash_rejects_are_rejected(count: int, tmp_path: Path) -> None:
    """The verdict on the grammar of damaged scripts and soups of tokens: at most one in a hundred differs."""
    bash = shell_scripts.Bash(tmp_path)
    for make in (shell_scripts.mutated, shell_scripts.soup):
        scripts = list(itertools.islice(make(31), count))
        differ = [s for s in scripts if bash.accepts(s) == bool(syntax.read(Excerpt.whole(s)).faults)]

        assert len(differ) <= count // 100


STRICTER = (
    b"must follow a name",
    b"must be followed by a literal",
    b"array element values must be words",
    b"not a valid arithmetic operator",
)
"""Scripts that only shfmt rejects: some arithmetic, words joined to a list, keys with a blank."""


SHFMT = shutil.which("shfmt", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")


@pytest.mark.skipif(SHFMT is None, reason="shfmt is not installed")
def test_shfmt_agrees() -> None:
    """A second parser of bash accepts the same scripts, except where it is stricter."""
    differ = []
    for script in (script for make in KINDS for script in itertools.islice(make(41), 300)):
        done = subprocess.run([str(SHFMT), "-ln", "bash"], input=script.encode(), capture_output=True, check=False)
        accepts = not syntax.read(Excerpt.whole(script)).faults
        if (done.returncode == 0) != accepts and not any(reason in done.stderr for reason in STRICTER):
            differ.append((script, done.stderr))

    assert differ == []
