"""Draw README's pictures: python tests/screenshots.py [--terminal] writes docs/_static/diagnose.svg and report.png.

`--terminal` draws only the first. The second needs Chromium and takes a minute.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from browser import chromium, opened, served

ROOT = Path(__file__).resolve().parent.parent
CASE = "autoglm-3090-video-oom"
TERMINAL, REPORT = ROOT / "docs" / "_static" / "diagnose.svg", ROOT / "docs" / "_static" / "report.png"
COMMAND = ["diagnose", "startup.log"]


def _run(words: list[str], folder: Path) -> str:
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "100", "PYTHONPATH": str(ROOT / "lib")}
    command = [sys.executable, "-m", "vllm_runbooks", *words]
    done = subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout


def terminal() -> str:
    """A terminal with the command and its output, as SVG that loads nothing."""
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ vllm-runbooks {' '.join(COMMAND)}", style="bold"))
    console.print(Text.from_ansi(_run(COMMAND, ROOT / "catalog" / "cases" / CASE).rstrip()))
    drawn = console.export_svg(title="vllm-runbooks", unique_id="terminal")
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)


def _report() -> None:
    with tempfile.TemporaryDirectory() as name:
        print(_run(["check", "--only", CASE, "--out", name], ROOT)[-400:])
        with (
            served(Path(name)) as origin,
            chromium() as browser,
            opened(browser, f"{origin}/index.html", width=1000, height=760) as visit,
        ):
            visit.page.get_by_role("link", name="Read").first.click()
            visit.page.screenshot(path=str(REPORT))


if __name__ == "__main__":
    TERMINAL.write_text(terminal(), encoding="utf-8")
    if "--terminal" not in sys.argv[1:]:
        _report()
