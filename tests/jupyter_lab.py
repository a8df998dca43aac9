"""A real JupyterLab for tests, and a notebook opened in it in a real Chromium."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from browser import Theme, Visit, axe_source, opened
from pace import scaled
from ports import free_port

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TOKEN = "tests"  # noqa: S105 - of a server that listens to this host alone, for a test
_BEGUN_S = 60.0
_AXE = """async () => {
  const found = await axe.run({include: [['.vr-panel']]}, {resultTypes: ['violations']});
  return found.violations.filter(v => ['serious', 'critical'].includes(v.impact)).flatMap(v => v.nodes.map(n =>
    v.impact + ' ' + v.id + ': ' + n.html.slice(0, 200)));
}"""
_IDLE_MS = 120_000


@contextmanager
def lab(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """JupyterLab on a folder, with its own home; yields its origin.

    Skips the test without JupyterLab.
    """
    program = Path(sys.executable).with_name("jupyter-lab")
    for needed in ("jupyterlab", "ipywidgets", "anywidget"):
        pytest.importorskip(needed, reason="the extra lab is not installed")
    home = folder.parent / "home"
    settings = home / ".jupyter" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True, exist_ok=True)
    # No question about news covers the page.
    asked = {"fetchNews": "false", "checkForUpdates": False}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(asked), encoding="utf-8")
    # Widget state is saved with a notebook on request.
    widgets = settings.parents[1] / "@jupyter-widgets" / "jupyterlab-manager"
    widgets.mkdir(parents=True, exist_ok=True)
    (widgets / "plugin.jupyterlab-settings").write_text(json.dumps({"saveState": True}), encoding="utf-8")
    port = free_port()
    given = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY"))},
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / ".jupyter"),
        **(environment or {}),
    }
    command = [
        str(program), "--no-browser", "--allow-root", "--ip", "127.0.0.1", f"--port={port}",
        f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}",
        "--LabApp.expose_app_in_browser=True",
    ]  # fmt: skip
    said = folder.parent / "lab.log"
    with said.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env=given, cwd=folder)
    origin = f"http://127.0.0.1:{port}"
    try:
        _wait(f"{origin}/api/status?token={TOKEN}", server, said)
        yield origin
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(20)


def _wait(address: str, server: subprocess.Popen[bytes], said: Path) -> None:
    until = time.monotonic() + scaled(_BEGUN_S)
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):  # noqa: S310 - an address of this host
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not come up: {said.read_text(encoding='utf-8', errors='replace')[-2000:]}")


def notebook(path: Path, *cells: str) -> Path:
    """Write a notebook of code cells."""
    made: dict[str, Any] = {
        "cells": [
            {
                "cell_type": "code", "id": f"cell-{number}", "metadata": {}, "outputs": [], "execution_count": None,
                "source": source,
            }
            for number, source in enumerate(cells)
        ],
        "metadata": {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }  # fmt: skip
    path.write_text(json.dumps(made), encoding="utf-8")
    return path


@contextmanager
def shown(
    browser: Browser, origin: str, name: str, *, width: int = 1280, height: int = 1000, theme: Theme = "light",
    permissions: Sequence[str] = (),
) -> Iterator[Visit]:  # fmt: skip
    """A notebook of the server, opened and run; sidebars of a narrow window are folded."""
    address = f"{origin}/lab/tree/{quote(name)}?token={TOKEN}&reset"
    with opened(browser, address, width=width, height=height, theme=theme, permissions=list(permissions)) as visit:
        page = visit.page
        page.get_by_text("(ipykernel) | Idle").first.wait_for(timeout=_IDLE_MS, state="attached")
        if width < 700:
            page.evaluate("window.jupyterapp.shell.collapseLeft(); window.jupyterapp.shell.mode = 'single-document'")
        # In both directions: the choice applies to later pages.
        chosen = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}[theme]
        page.evaluate(f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: '{chosen}'}})")
        run_all(page)
        yield visit


def run_all(page: Page) -> None:
    """Run every cell by the menu's own command, which does nothing before the kernel is idle."""
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")


def axe_of_panel(page: Page) -> list[str]:
    """Serious and critical findings of axe in the panels, without JupyterLab's own frame."""
    page.evaluate(axe_source().read_text(encoding="utf-8") + "; undefined")
    found: list[str] = page.evaluate(_AXE)
    return found


def settled(page: Page, *, timeout_ms: int = _IDLE_MS) -> None:
    """Wait until every cell has ended."""
    page.wait_for_function(
        """() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].every(
            e => !e.textContent.includes('*'))""",
        timeout=timeout_ms,
    )
