"""The site as a person meets it, in a real Chromium: every page, two widths, two themes, the keyboard, and attacks.

Pictures of each kind of page go to $VLLM_RUNBOOKS_SCREENSHOTS, or to the folder of the test.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser import THEMES, WIDTHS, Theme, axe, chromium, misfits, opened, served, shot
from test_site import pages
from vllm_runbooks.catalog import load as catalog

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
KINDS = {
    "start": "index.html",
    "guide": "guide.html",
    "symptom": "symptoms/oom.multimodal_encoder.html",
    "symptoms": "symptoms/index.html",
    "rule": "rules/option.removed.html",
    "runbook": "runbooks/single-gpu-oom.html",
    "runbook-command": "runbooks/check-a-command.html",
    "runbook-plan": "runbooks/split-over-8x3090.html",
    "model": "models/Qwen/Qwen3-8B.html",
    "models": "models/index.html",
    "gpus": "gpus/index.html",
    "gpu": "gpus/RTX3090.html",
    "command": "commands/plan.html",
    "library": "api/live.html",
    "options": "options/index.html",
    "decision": "decisions/0012-timers-only-wake-the-scheduler.html",
    "runs": "runs.html",
    "search": "search.html?q=memory",
}
"""A page of each kind."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped site, as the command builds it, with the results of a history; how long that took is checked."""
    out = tmp_path_factory.mktemp("shipped") / "site"
    program = [sys.executable, "-m", "vllm_runbooks"]
    subprocess.run([*program, "run", "single-gpu-oom", "--out", str(out.parent / "runs")], check=True, cwd=out.parent)
    subprocess.run([*program, "site", "build", "--out", str(out), "--with-runs"], check=True, cwd=out.parent)
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def origin(site: Path) -> Iterator[str]:
    with served(site) as found:
        yield found


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.full)])
def test_every_page_opens_on_a_phone(site: Path, origin: str, browser: Browser, step: int) -> None:
    """No console error, policy violation, foreign or failed request, or overflow."""
    assert len(pages(site)) > 400
    found = list(pages(site))[::step]
    with opened(browser, f"{origin}/index.html", width=390) as visit:
        for name in found:
            visit.page.goto(f"{origin}/{name}", wait_until="load")
            assert visit.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
            assert visit.troubles() == [], name
        assert len(visit.requests) > len(found)


def test_every_link_within_the_site_leads_somewhere(site: Path) -> None:
    """To an existing file, and an existing anchor if it has one."""
    found = pages(site)
    wrong = []
    for name, page in found.items():
        for tag, attributes in page.all:
            address = attributes.get("href", "")
            if tag != "a" or not address or re.match(r"[a-z]+:", address):
                continue
            path, _, place = address.partition("#")
            target = (site / name).parent.joinpath(path.partition("?")[0]).resolve() if path else site / name
            target = target / "index.html" if target.is_dir() else target
            other = found.get(str(target.relative_to(site))) if target.is_relative_to(site) else None
            # `#model=…` is the state of a page that runs in the browser, no place on it.
            is_place = place and "=" not in place
            if not target.is_file() or (is_place and other is not None and place not in other.ids):
                wrong.append(f"{name}: {address}")
    assert wrong == []


@pytest.mark.parametrize(
    ("kind", "width", "theme"),
    # Each page once in the slow ring; its width and theme change from page to page.
    [
        pytest.param(kind, width, theme, marks=() if row % 4 == 2 * column + colour else pytest.mark.full)
        for row, kind in enumerate(KINDS)
        for column, width in enumerate(WIDTHS)
        for colour, theme in enumerate(THEMES)
    ],
)
def test_a_page_of_each_kind_is_accessible(  # noqa: PLR0917 - a fixture each
    kind: str, width: int, theme: Theme, origin: str, browser: Browser, tmp_path: Path
) -> None:
    """No serious axe issue, no cut text, no horizontal scrolling; a screenshot is stored."""
    with opened(browser, f"{origin}/{KINDS[kind]}", width=width, theme=theme) as visit:
        visit.page.wait_for_timeout(200)
        shot(visit.page, f"site-{kind}-{width}-{theme}", tmp_path)
        assert visit.page.evaluate("document.documentElement.dataset.theme") == theme
        assert axe(visit.page) == []
        assert misfits(visit.page) == []
        assert visit.troubles() == []


@pytest.mark.full
@pytest.mark.parametrize("kind", ["start", "symptom", "runbook", "runbook-plan", "runs"])
def test_a_whole_page_is_stored_in_gray(kind: str, origin: str, browser: Browser, tmp_path: Path) -> None:
    """As printed, for inspection by a person."""
    with opened(browser, f"{origin}/{KINDS[kind]}") as visit:
        assert shot(visit.page, f"site-{kind}-grey", tmp_path, whole=True, grey=True).stat().st_size > 10_000


def test_a_printed_line_finds_its_symptom(origin: str, browser: Browser) -> None:
    """A line of each entrance, typed into the box, has one of its symptoms in the first results."""
    with opened(browser, f"{origin}/index.html") as visit:
        for entrance in catalog.entrances():
            for line in entrance.lines:
                visit.page.fill("#lookup-text", "")
                visit.page.wait_for_selector("#lookup-found a", state="detached")
                visit.page.fill("#lookup-text", line)
                visit.page.wait_for_selector("#lookup-found a", timeout=20_000)
                visit.page.wait_for_timeout(200)
                links = visit.page.eval_on_selector_all(
                    "#lookup-found a", "all => all.map(a => a.getAttribute('href'))"
                )
                ids = [link.rpartition("symptoms/")[2].removesuffix(".html") for link in links]
                assert any(entrance.leads_to(name) for name in ids), (line, ids)
        visit.page.fill("#lookup-text", "<img src=x onerror=window.PWN_1=1> memory")
        visit.page.wait_for_timeout(300)
        visit.page.fill("#lookup-text", "qqqqzzzz")
        visit.page.get_by_text("No page matches").wait_for()
        assert visit.troubles() == []


def test_the_box_works_by_keyboard(origin: str, browser: Browser) -> None:
    """The arrow leads to the results, and the focus is visible."""
    with opened(browser, f"{origin}/index.html") as visit:
        visit.page.focus("#lookup-text")
        visit.page.keyboard.type("address already in use")
        # Results of the first letters may still be shown.
        visit.page.wait_for_selector("#lookup-found li:first-child a[href*='port.in_use']")
        visit.page.keyboard.press("ArrowDown")
        assert visit.page.evaluate("document.activeElement.closest('#lookup-found') !== null")
        assert visit.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        visit.page.keyboard.press("Enter")
        visit.page.wait_for_url("**/symptoms/port.in_use*.html")
        assert visit.troubles() == []


def test_the_search_finds(origin: str, browser: Browser) -> None:
    """A word of a symptom, an option, a model and a command each lead to their pages."""
    for words, wanted in (
        ("profiling shared", "symptoms/mem.profiling_assertion.html"),
        ("swap space", "options/"),
        ("gpt-oss-20b", "models/openai/gpt-oss-20b.html"),
        ("leftovers", "commands/leftovers.html"),
    ):
        with opened(browser, f"{origin}/search.html?q={words.replace(' ', '+')}") as visit:
            visit.page.wait_for_selector("#search-results li a", timeout=20_000)
            visit.page.wait_for_timeout(500)
            found = visit.page.eval_on_selector_all(
                "#search-results li a", "all => all.map(a => a.getAttribute('href'))"
            )
            assert [link for link in found if wanted in link], (words, found[:8])
            assert visit.troubles() == []


def test_the_site_works_from_a_folder(site: Path, browser: Browser) -> None:
    """Opened as a file: pages, box and search, though there a page may fetch nothing."""
    with opened(browser, f"{(site / 'index.html').as_uri()}") as visit:
        visit.page.fill("#lookup-text", "CUDA out of memory")
        visit.page.wait_for_selector("#lookup-found a", timeout=20_000)
        assert visit.troubles() == []
        visit.page.goto(f"{(site / 'search.html').as_uri()}?q=memory")
        visit.page.wait_for_selector("#search-results li a", timeout=20_000)
        assert visit.executed() == []
        assert visit.external() == []


def test_a_door_opens(origin: str, browser: Browser) -> None:
    """Each of the three leads to a page that is there."""
    with opened(browser, f"{origin}/index.html") as visit:
        doors = visit.page.eval_on_selector_all("a.door", "all => all.map(a => a.href)")
        assert len(doors) == 3
        assert visit.troubles() == []
    # In sequence and in a new window: leaving such a page cancels its requests.
    for door in doors:
        with opened(browser, door) as visit:
            assert visit.page.locator("h1").count() == 1
            assert visit.troubles() == []


@pytest.mark.parametrize("name", ["index.html", "symptoms/oom.weights.html", "models/Qwen/Qwen3-8B.html", "plan.html"])
def test_the_search_opens_on_every_page(name: str, origin: str, browser: Browser) -> None:
    """Ctrl-K opens the same search everywhere; its links work from any depth."""
    with opened(browser, f"{origin}/{name}") as visit:
        links = visit.page.eval_on_selector_all(".site-header a", "all => all.map(a => a.textContent)")
        assert links[:4] == ["vllm-runbooks", "Diagnose", "Check", "Plan"]
        visit.page.keyboard.press("Control+k")
        visit.page.keyboard.type("address already in use")
        visit.page.wait_for_selector("#search-window ol a", timeout=20_000)
        assert axe(visit.page) == []
        visit.page.keyboard.press("Enter")
        visit.page.wait_for_url("**/symptoms/port.in_use.html")
        assert visit.troubles() == []


def test_a_list_is_filtered(origin: str, browser: Browser) -> None:
    """Every word of the field must be in a row; headings without rows are hidden."""
    with opened(browser, f"{origin}/models/index.html") as visit:
        visit.page.fill(".filter input", "llama 3.3")
        visible = visit.page.eval_on_selector_all(
            "table.catalog tbody tr:not([hidden])", "all => all.map(a => a.textContent)"
        )
        assert visible
        assert all("Llama-3.3" in row for row in visible)
        visit.page.goto(f"{origin}/symptoms/index.html")
        visit.page.fill(".filter input", "nccl")
        assert visit.page.locator("h2:visible").count() < 5
        visit.page.fill(".filter input", "ERROR 11-22 08:12:01 ValueError: No available memory for the cache blocks")
        visit.page.get_by_text("Closest by message").wait_for()
        shown = visit.page.eval_on_selector_all(
            "article section li a", "all => all.filter(a => a.checkVisibility()).map(a => a.getAttribute('href'))"
        )
        assert "kv.no_blocks.html" in shown
        assert len(shown) <= 3
        visit.page.fill(".filter input", "qqqqzzzz")
        visit.page.get_by_role("button", name="Search all pages for this").click()
        assert visit.page.input_value("#search-text") == "qqqqzzzz"
        assert visit.troubles() == []


@pytest.mark.parametrize(("page", "name"), [("models/Qwen/Qwen3-8B.html", "Models"), ("gpus/RTX3090.html", "GPUs")])
def test_breadcrumbs_have_the_list_above(origin: str, browser: Browser, page: str, name: str) -> None:
    """A model's page leads to all models, a GPU's to all GPUs."""
    with opened(browser, f"{origin}/{page}") as visit:
        assert visit.page.locator(".bd-breadcrumbs li a").all_inner_texts()[1:] == [name]
        visit.page.locator(".bd-breadcrumbs").get_by_text(name).click()
        assert visit.page.locator("h1").inner_text().startswith(name)


def test_a_command_is_copied(origin: str, browser: Browser) -> None:
    """The button takes the command alone: of a console no prompt."""
    with opened(browser, f"{origin}/models/Qwen/Qwen3-8B.html") as visit:
        visit.page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        visit.page.click("pre[data-copy] + .copy-button")
        assert visit.page.evaluate("window.copied").startswith("vllm serve Qwen/Qwen3-8B")
        visit.page.goto(f"{origin}/index.html")
        visit.page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        visit.page.click(".highlight-console .copy-button")
        assert visit.page.evaluate("window.copied").startswith("vllm-runbooks diagnose startup.log\n")
        assert visit.troubles() == []


@pytest.mark.parametrize("width", WIDTHS)
def test_a_runbook_shows_what_it_printed_before_its_code(origin: str, browser: Browser, width: int) -> None:
    """Memory bars are whole within the card, also on a phone: their ends are what they compare."""
    with opened(browser, f"{origin}/runbooks/single-gpu-oom.html", width=width) as visit:
        assert visit.page.locator("details.above-input").count() > 3
        assert visit.page.locator("details.above-input + .cell_output").count() == 0
        bars = visit.page.locator('.cell_output svg[preserveAspectRatio="none"]')
        assert bars.count() == 2
        for bar in bars.all():
            assert bar.evaluate(
                "e => e.getBoundingClientRect().right <= e.closest('td').getBoundingClientRect().right + 1"
            )


def test_the_report_of_a_check_is_accessible(browser: Browser, tmp_path: Path) -> None:
    """Its index and an executed runbook: both widths, both themes, scrolling by keyboard."""
    program = [
        sys.executable,
        "-m",
        "vllm_runbooks",
        "check",
        "--only",
        "is-it-healthy",
        "--only",
        "cluster-3090-h800",
        "--out",
        str(tmp_path / "out"),
    ]
    subprocess.run([*program, "--no-history"], check=True, cwd=tmp_path, capture_output=True)
    report = tmp_path / "out"
    runs = [path.name for path in sorted(report.glob("*.html")) if path.name != "index.html"]
    one, nodes = runs[0], next(name for name in runs if name.startswith("multi-node-ray"))
    with served(report) as start:
        for name in ("index.html", one, nodes):
            for width in WIDTHS:
                for theme in THEMES:
                    with opened(browser, f"{start}/{name}", width=width, theme=theme) as visit:
                        kind = "index" if name == "index.html" else name.partition("--")[0]
                        shot(visit.page, f"report-{kind}-{width}-{theme}", tmp_path)
                        assert axe(visit.page) == [], (name, width, theme)
                        assert misfits(visit.page) == [], (name, width, theme)
                        assert [*visit.executed(), *visit.external(), *visit.errors, *visit.refused()] == []


# Adding a symptom


@pytest.mark.parametrize("with_page", [False, pytest.param(True, marks=pytest.mark.full)])
def test_one_file_in_a_checkout_is_a_page_a_test_and_an_answer(tmp_path: Path, *, with_page: bool) -> None:
    """As in docs/authoring.md: the file, its test, its diagnosis, its page."""
    checkout = tmp_path / "checkout"
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc", "node_modules")
    for folder in ("lib", "catalog", "runbooks", "docs", "tests"):
        shutil.copytree(ROOT / folder, checkout / folder, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
        shutil.copyfile(ROOT / name, checkout / name)
    text = (ROOT / "docs" / "authoring.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)\n```", text, re.DOTALL))
    (checkout / "startup.log").write_text(shown["startup.log"] + "\n", encoding="utf-8")
    name = "storage.disk_full.model_cache"
    # "in a checkout of the project the same file goes to `catalog/symptoms/`"
    (checkout / "catalog" / "symptoms" / f"{name}.yaml").write_text(shown[f"symptoms/{name}.yaml"] + "\n", "utf-8")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**_environment(), "PYTHONPATH": str(checkout / "lib")}
        argv = [sys.executable, "-m", *words]
        return subprocess.run(argv, cwd=checkout, env=environment, capture_output=True, text=True, check=False)

    checked = run("vllm_runbooks", "catalog", "check", f"catalog/symptoms/{name}.yaml")
    assert (checked.returncode, checked.stdout) == (0, f"catalog/symptoms/{name}.yaml: good\n"), checked.stderr
    tested = run("pytest", "-q", "-n", "0", "tests/catalog/test_symptoms.py", "-k", name)
    assert tested.returncode == 0, tested.stdout[-2000:]
    assert re.search(r"[1-9]\d* passed", tested.stdout)
    answered = run("vllm_runbooks", "diagnose", "startup.log")
    assert answered.returncode == 1
    assert "✗ The model cache has no room for the checkpoint" in answered.stdout
    if not with_page:
        return
    site_built = run("vllm_runbooks", "site", "build", "--out", "site-out")
    assert site_built.returncode == 0, site_built.stderr
    page = (checkout / "site-out" / "symptoms" / f"{name}.html").read_text(encoding="utf-8")
    assert "The model cache has no room for the checkpoint" in page
    assert name in (checkout / "site-out" / "symptoms" / "index.html").read_text(encoding="utf-8")
    assert name in (checkout / "site-out" / "_static" / "lookup-data.js").read_text(encoding="utf-8")


def _environment() -> dict[str, str]:
    import os

    return {key: value for key, value in os.environ.items() if not key.startswith("VLLM_RUNBOOKS_")}
