"""The figures of the benchmarks as one table: printed at the end, and written with `--figures PAGE`."""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
from pathlib import Path

import pytest
from figures import Figures

_BEGIN, _END = "<!-- figures: written by pytest tests/benchmarks --figures -->", "<!-- end of figures -->"
_FIGURES = pytest.StashKey[Figures]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--figures`."""
    parser.addoption("--figures", metavar="PAGE", type=Path, help="write the table of what was measured into a page")


def pytest_configure(config: pytest.Config) -> None:
    """Begin with an empty table."""
    config.stash[_FIGURES] = Figures()


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    """Where this run's figures are noted."""
    return request.config.stash[_FIGURES]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table, and write it where that was asked."""
    found = config.stash[_FIGURES]
    if not found.rows:
        return
    terminalreporter.section("figures")
    terminalreporter.write_line(found.table())
    page: Path | None = config.getoption("--figures", default=None)
    if page is not None:
        ran = f"Python {platform.python_version()}, {os.cpu_count()} cores, {dt.datetime.now(dt.UTC).date()}"
        made = f"{_BEGIN}\n\n{ran}.\n\n{found.table()}\n\n{_END}"
        text = page.read_text("utf-8")
        page.write_text(re.sub(f"{_BEGIN}.*{_END}", lambda _: made, text, flags=re.DOTALL), "utf-8")
