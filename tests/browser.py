"""A real Chromium for tests: requests, messages and blocked content, axe, layout, screenshots.

with served(folder) as origin, chromium() as browser, opened(browser, f"{origin}/index.html", width=390) as visit:
    assert visit.troubles() == []
    assert axe(visit.page) == []
    assert misfits(visit.page) == []
    shot(visit.page, "start", tmp_path)
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AXE = "4.14.1"
"""Release of axe-core on npm, which checks accessibility."""
SCREENSHOTS = "VLLM_RUNBOOKS_SCREENSHOTS"
"""Environment variable with the folder for screenshots; by default the test's folder is used."""
WIDTHS = (1280, 390)
"""A desk and a phone, in CSS pixels."""
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")

# pytest clears VLLM_* for each test, so the folder for screenshots is read before.
_PICTURES = os.environ.get(SCREENSHOTS)
_CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "vllm-runbooks"

_MISFITS = """() => {
  const wrong = [];
  const told = (e) => e.tagName.toLowerCase() + (e.id ? '#' + e.id : '')
    + (e.classList.length ? '.' + [...e.classList].slice(0, 2).join('.') : '')
    + ' "' + (e.textContent || '').trim().replace(/\\s+/g, ' ').slice(0, 40) + '"';
  const over = document.documentElement.scrollWidth - innerWidth;
  if (over > 0) wrong.push('the page is ' + over + ' px wider than the window');
  const shown = (e) => {
    if (!e.checkVisibility({opacityProperty: true, visibilityProperty: true})) return false;
    const box = e.getBoundingClientRect(), style = getComputedStyle(e);
    // What is read aloud and never drawn is one pixel large, or cut to nothing.
    return box.width > 2 && box.height > 2 && style.clip !== 'rect(0px, 0px, 0px, 0px)';
  };
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || !shown(e)) continue;
    if (e instanceof SVGElement) {
      const svg = e.closest('svg').getBoundingClientRect(), box = e.getBoundingClientRect();
      const out = Math.max(svg.left - box.left, box.right - svg.right, svg.top - box.top, box.bottom - svg.bottom);
      if (out > 2) wrong.push(told(e) + ' leaves its picture by ' + Math.round(out) + ' px');
      continue;
    }
    const range = document.createRange();
    range.selectNodeContents(e);
    const text = range.getBoundingClientRect();
    for (let up = e; up && up !== document.body; up = up.parentElement) {
      const style = getComputedStyle(up), box = up.getBoundingClientRect();
      if (up === e && style.display === 'inline') continue;
      if (/auto|scroll/.test(style.overflowX) || style.position === 'fixed') break;
      if (/hidden|clip/.test(style.overflowX) && style.textOverflow !== 'ellipsis') {
        const out = Math.max(text.right - box.right, box.left - text.left);
        if (out > 2) { wrong.push(told(e) + ' is cut off by ' + Math.round(out) + ' px'); break; }
      }
      if (/hidden|clip/.test(style.overflowY)) {
        const out = text.bottom - box.bottom;
        if (out > 4) { wrong.push(told(e) + ' is cut off below by ' + Math.round(out) + ' px'); break; }
      }
    }
  }
  return wrong.slice(0, 20);
}"""
_LEFT = "net::ERR_ABORTED"
"""Error text of a request whose page was left before its answer."""
_PATIENCE_MS = 90_000
"""Longest wait for anything on a page: no promise, but the end of a hang."""
_REFUSALS = """addEventListener('securitypolicyviolation', e => {
  const said = e.violatedDirective + ' refused ' + (e.blockedURI || 'inline') + ' at line ' + e.lineNumber;
  (window.__refused ||= []).push(said);
});"""
_AXE_RULES = """async (impacts) => {
  const found = await axe.run(document, {resultTypes: ['violations']});
  return found.violations.filter(v => impacts.includes(v.impact)).flatMap(v => v.nodes.slice(0, 5).map(n =>
    v.impact + ' ' + v.id + ': ' + n.target.join(' ') + ' '
    + (n.any.concat(n.all, n.none)[0]?.message || v.help).slice(0, 200)));
}"""


@dataclass
class Visit:
    """An open page, and the events since it was requested."""

    page: Page
    origin: str
    """Scheme, host and port of the page; empty for a file."""
    requests: list[str] = field(default_factory=list)
    """Requested addresses, without `data:` and `blob:`."""
    errors: list[str] = field(default_factory=list)
    """Errors of the console, exceptions and dialogs."""
    failed: list[str] = field(default_factory=list)
    """Answers with status 400 and above, and requests without an answer."""

    def refused(self) -> list[str]:
        """Violations of the page's content security policy."""
        found: list[str] = self.page.evaluate("window.__refused || []")
        return found

    def external(self) -> list[str]:
        """Requests to other origins."""
        return [url for url in self.requests if not url.startswith(self.origin or "file:")]

    def executed(self) -> list[str]:
        """Payloads that ran: each sets a property of the window whose name begins with PWN."""
        found: list[str] = self.page.evaluate("Object.keys(window).filter(key => key.startsWith('PWN'))")
        return found

    def troubles(self) -> list[str]:
        """Everything that must not happen on any page."""
        return [*self.errors, *self.refused(), *self.external(), *self.failed, *self.executed()]


@contextmanager
def served(folder: Path, headers: Mapping[str, str] | None = None) -> Iterator[str]:
    """Serve a folder on a free local port with these headers; yields the origin."""

    class Quiet(SimpleHTTPRequestHandler):
        def end_headers(self) -> None:
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            super().end_headers()

        def log_message(self, *_: object) -> None:
            """Keep the test's output to itself."""

    class Patient(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A page that is left cancels its requests."""

    with Patient(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@contextmanager
def chromium() -> Iterator[Browser]:
    """This host's Chromium; the test is skipped without one."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium on this host")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Browser, address: str, *, width: int = 1280, height: int = 900, theme: Theme = "light", **context: Any
) -> Iterator[Visit]:
    """A page at this address in a window of this size; `context` has further browser settings.

    The page is loaded when this yields; later events are added to the same visit.
    """
    made = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce", **context
    )
    made.add_init_script(_REFUSALS)
    match = re.match(r"https?://[^/]+", address)
    page = made.new_page()
    page.set_default_timeout(_PATIENCE_MS)
    visit = Visit(page, match[0] if match else "")
    made.on("request", lambda r: None if r.url.startswith(("data:", "blob:")) else visit.requests.append(r.url))
    made.on("response", lambda r: visit.failed.append(f"{r.status} {r.url}") if r.status >= 400 else None)
    made.on("requestfailed", lambda r: None if r.failure == _LEFT else visit.failed.append(f"{r.failure} {r.url}"))
    page.on("pageerror", lambda error: visit.errors.append(str(error)))
    page.on("console", lambda said: visit.errors.append(said.text) if said.type == "error" else None)

    def refuse(dialog: Any) -> None:
        visit.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("dialog", refuse)
    try:
        page.goto(address, wait_until="load")
        yield visit
    finally:
        made.close()


@cache
def axe_source() -> Path:
    """The file of axe-core, installed once from npm into the user's cache; skips without npm."""
    folder = _CACHE / f"axe-core-{AXE}"
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm on this host to install axe-core with")
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run([*command, f"axe-core@{AXE}"], check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"axe-core cannot be installed: {(done.stderr.strip().splitlines() or ['npm failed'])[-1]}")
    return script


def axe(page: Page, *impacts: str) -> list[str]:
    """Findings of axe on an open page, by default of the impacts `serious` and `critical`."""
    # Evaluated, not added as an element: a page's own content security policy would block that.
    page.evaluate(axe_source().read_text(encoding="utf-8") + "; undefined")
    found: list[str] = page.evaluate(_AXE_RULES, list(impacts or ("serious", "critical")))
    return found


def misfits(page: Page) -> list[str]:
    """Layout errors: a page wider than its window, or text cut off by its box or picture."""
    found: list[str] = page.evaluate(_MISFITS)
    return found


def shot(page: Page, name: str, folder: Path, *, whole: bool = False, grey: bool = False) -> Path:
    """Store a picture of the window, or of the whole page, as `name.png` in $VLLM_RUNBOOKS_SCREENSHOTS or `folder`.

    A `grey` one shows the page without colors, as when printed.
    """
    target = (Path(_PICTURES) if _PICTURES else folder) / f"{name}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    if grey:
        page.evaluate("document.documentElement.style.filter = 'grayscale(1)'")
    page.screenshot(path=str(target), full_page=whole)
    if grey:
        page.evaluate("document.documentElement.style.filter = ''")
    return target
