"""The panels and the runbooks as a person uses them: in a real JupyterLab, in a real Chromium."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import jupyter_lab
from browser import THEMES, WIDTHS, Visit, chromium, shot
from pace import scaled
from ports import free_port
from rows import rest_full
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.history import store as history

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
BUSY = (
    "ValueError: Free memory on device cuda:0 (1.0/79.25 GiB) on startup is less than desired GPU memory utilization "
    "(0.9, 71.33 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
PANELS = {
    "diagnose": "rb.widgets.diagnose('autoglm-3090-video-oom')",
    "plan": "rb.widgets.plan('Qwen/Qwen3-8B', '2xRTX3090')",
    "commands": "rb.widgets.commands(SCRIPT, gpus='8xRTX3090')",
    "gpus": "rb.widgets.gpus('host-8xa100-shared')",
    "nodes": "rb.widgets.nodes('cluster-versions')",
    "runs": "rb.widgets.runs('a-runbook')",
}
PAYLOADS = [
    "<script>window.PWN_{n}=1</script>",
    '<img src=x onerror="window.PWN_{n}=1">',
    '<svg onload="window.PWN_{n}=1"></svg>',
    '"><img src=x onerror=window.PWN_{n}=1>',
    "'><svg/onload=window.PWN_{n}=1>",
    "</code></pre></div><script>window.PWN_{n}=1</script>",
    "</textarea><img src=x onerror=window.PWN_{n}=1>",
    '<a href="javascript:window.PWN_{n}=1">x</a>',
    '<iframe srcdoc="<script>parent.PWN_{n}=1</script>"></iframe>',
    '<details open ontoggle="window.PWN_{n}=1">x</details>',
    "&lt;img src=x onerror=window.PWN_{n}=1&gt;",
    "<style>@import 'http://127.0.0.1:9/PWN'</style><base href='http://127.0.0.1:9/'>",
]
SEED = os.environ.get("PYTEST_SEED", "start-here")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notebooks with one panel each, and the runbooks."""
    made = tmp_path_factory.mktemp("lab") / "work"
    made.mkdir()
    script = (ROOT / "catalog" / "cases" / "copied-launch-script" / "launch.sh").read_text(encoding="utf-8")
    for name, call in PANELS.items():
        jupyter_lab.notebook(made / f"{name}.ipynb", f"import vllm_runbooks as rb\nSCRIPT = {script!r}", call)
    for path in (ROOT / "runbooks").glob("*.ipynb"):
        shutil.copy(path, made / path.name)
    hostile = " ".join(payload.replace("{n}", str(number)) for number, payload in enumerate(PAYLOADS))
    (made / "hostile.log").write_text(
        "\n".join([*(p.replace("{n}", str(n)) for n, p in enumerate(PAYLOADS)), f"{BUSY} {hostile}", hostile]),
        encoding="utf-8",
    )
    nodes = (ROOT / "catalog" / "cases" / "cluster-versions" / "cluster.json").read_text(encoding="utf-8")
    for said in ("node-b", "2.59.0", "/models/Qwen3-8B"):
        nodes = nodes.replace(said, json.dumps(hostile)[1:-1])
    (made / "hostile.json").write_text(nodes, encoding="utf-8")
    hostile_script = f"vllm serve m --x {hostile}\n" + "\n".join(f"# {payload}" for payload in PAYLOADS)
    jupyter_lab.notebook(
        made / "payloads.ipynb",
        f"import vllm_runbooks as rb\nSCRIPT, ALL = {hostile_script!r}, {hostile!r}",
        "rb.widgets.diagnose('hostile.log')",
        "rb.widgets.diagnose(ALL)",
        "rb.widgets.plan(ALL, ALL)",
        "rb.widgets.commands(SCRIPT, gpus=ALL)",
        "rb.widgets.commands(SCRIPT)",
        "rb.widgets.gpus(ALL)",
        "rb.widgets.nodes(ALL)",
        "rb.widgets.nodes('hostile.json')",
        "rb.widgets.runs('hostile*')",
        "rb.render.annotated.log(rb.diagnose(rb.load('hostile.log')), rb.load('hostile.log').documents)",
    )
    jupyter_lab.notebook(
        made / "long.ipynb", "import vllm_runbooks as rb\nrb.widgets.diagnose()", "print('an answer', 'of the kernel')"
    )
    jupyter_lab.notebook(
        made / "beat.ipynb",
        "import vllm_runbooks as rb\nimport ipywidgets\npanel = rb.widgets.gpus('host-8xa100-shared')\n"
        "said = ipywidgets.Label()\n"
        "panel.head.observe(lambda change: setattr(said, 'value', f'beat {change[\"new\"]}'), 'beat')\n"
        "panel.head.is_live = True\npanel",
        "said",
    )
    with history.opened(made.parent / "history.sqlite", say=print) as kept:
        for number in range(12):
            verdict = Verdict.FAIL if number == 7 else Verdict.PASS
            results = {"facts": {"weights_gib": 17.2, "kv_cache_gib": 2.0 + number % 5 / 10}}
            reason = "another cause" if number == 7 else "as expected"
            kept.add(
                "run", "a-runbook on a-case", verdict, reason, inputs={}, results=results, seconds=6.0 + number % 4
            )
        kept.add("run", f"hostile {hostile}", Verdict.FAIL, hostile, inputs={hostile: hostile}, results={}, seconds=1)
    return made


@pytest.fixture(scope="module")
def origin(folder: Path) -> Iterator[str]:
    with jupyter_lab.lab(folder, {"VLLM_RUNBOOKS_HISTORY": str(folder.parent / "history.sqlite")}) as found:
        yield found


def _clean(visit: Visit) -> None:
    assert visit.external() == []
    assert visit.executed() == []
    assert visit.errors == []


def test_a_log_is_pasted_and_its_fix_is_copied(browser: Browser, origin: str) -> None:
    """Paste, read the cause, press the button: the clipboard has the checked command."""
    wants = ("clipboard-read", "clipboard-write")
    with jupyter_lab.shown(browser, origin, "diagnose.ipynb", permissions=wants) as visit:
        page = visit.page
        page.get_by_text("CUDA out of memory in the multimodal encoder").first.wait_for()
        page.locator(".vr-copy").first.click()
        page.get_by_text("copied", exact=True).wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("vllm serve zai-org/AutoGLM-Phone-9B")
        assert "--gpu-memory-utilization 0.94" in copied
        page.evaluate("text => navigator.clipboard.writeText(text)", BUSY)
        page.get_by_placeholder("Paste the log here").click()
        page.keyboard.press("Control+V")
        page.get_by_text("mem.free_below_utilization").first.wait_for()
        _clean(visit)


def test_a_log_is_diagnosed_without_a_mouse(browser: Browser, origin: str) -> None:
    """Tab leads from the log through the controls to the answer; Enter on the button copies."""
    wants = ("clipboard-read", "clipboard-write")
    with jupyter_lab.shown(browser, origin, "diagnose.ipynb", permissions=wants) as visit:
        page = visit.page
        page.get_by_text("out of memory in the multimodal encoder").first.wait_for()
        log = page.get_by_role("textbox", name="log", exact=True)
        log.focus()
        page.evaluate("navigator.clipboard.writeText('vLLM cannot start')")
        page.keyboard.press("Control+V")
        page.get_by_text("not the log of a vLLM launch").first.wait_for()
        page.keyboard.press("Control+A")
        page.keyboard.press("Delete")
        page.get_by_text("out of memory in the multimodal encoder").first.wait_for()
        reached = []
        for _ in range(20):
            page.keyboard.press("Tab")
            reached.append(
                page.evaluate(
                    "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim()"
                )
            )
            if reached[-1] == "Copy the fix":
                break
        controls = ["Upload logs", "or a file of this host, or a recorded case", "Clear", "vLLM", "GPUs", "language"]
        assert [name.partition(" (")[0] for name in reached] == [
            *controls, "The whole command", "Copy the fix",
        ]  # fmt: skip
        page.keyboard.press("Enter")
        page.get_by_text("copied", exact=True).wait_for()
        assert page.evaluate("navigator.clipboard.readText()").startswith("vllm serve zai-org/AutoGLM-Phone-9B")
        _clean(visit)


def test_a_language_is_chosen(browser: Browser, origin: str, tmp_path: Path) -> None:
    """Cause and fixes follow; text in another language than the page is marked."""
    with jupyter_lab.shown(browser, origin, "diagnose.ipynb", height=2400) as visit:
        page = visit.page
        page.get_by_text("out of memory in the multimodal encoder").first.wait_for()
        page.get_by_role("combobox", name="language").select_option("中文")
        page.locator("[lang=zh-Hans]", has_text="多模态编码器显存不足").first.wait_for()
        shot(page, "lab-diagnose-zh", tmp_path)
        _clean(visit)


def test_a_long_log_is_read_without_blocking_the_page(browser: Browser, origin: str, tmp_path: Path) -> None:
    """The panel reports progress, the kernel answers others, and the answer arrives."""
    noise = "(APIServer pid=1) INFO 11-20 08:03:55 [loggers.py:127] Engine 000: nothing of note, said again\n"
    (tmp_path / "long.log").write_text(noise * 100_000 + BUSY, encoding="utf-8")
    with jupyter_lab.shown(browser, origin, "long.ipynb") as visit:
        page = visit.page
        jupyter_lab.settled(page)
        page.get_by_placeholder("path, or recorded case").fill(str(tmp_path / "long.log"))
        page.keyboard.press("Tab")
        page.get_by_text("Reading …").wait_for()
        # The panel's cell is active since its field was edited.
        for command in ("notebook:move-cursor-down", "notebook:run-cell"):
            page.evaluate(f"window.jupyterapp.commands.execute('{command}')")
        page.locator(".jp-InputPrompt", has_text="[3]:").wait_for()
        assert page.get_by_text("Reading …").is_visible()
        page.get_by_text("mem.free_below_utilization").first.wait_for(timeout=120_000)
        page.get_by_text("Reading …").wait_for(state="hidden")
        _clean(visit)


def test_a_long_read_is_cancelled(browser: Browser, origin: str, tmp_path: Path) -> None:
    """A button appears while a log is read, and ends that in one line."""
    noise = "(APIServer pid=1) INFO 11-20 08:03:55 [loggers.py:127] Engine 000: nothing of note, said again\n"
    (tmp_path / "long.log").write_text(noise * 400_000 + BUSY, encoding="utf-8")
    with jupyter_lab.shown(browser, origin, "long.ipynb") as visit:
        page = visit.page
        jupyter_lab.settled(page)
        cancel = page.get_by_role("button", name="Cancel")
        assert not cancel.is_visible()
        page.get_by_placeholder("path, or recorded case").fill(str(tmp_path / "long.log"))
        page.keyboard.press("Tab")
        cancel.click()
        page.get_by_text("long.log: reading was cancelled").wait_for()
        cancel.wait_for(state="hidden")
        _clean(visit)


def test_the_cause_is_scrolled_to_in_the_annotated_log(browser: Browser, origin: str) -> None:
    """For the first log and for the next."""
    is_inside = """() => {
        const frame = document.querySelector('.vr-scrolled'), cause = frame.querySelector('[data-cause]');
        if (!cause) return false;
        const outer = frame.getBoundingClientRect(), inner = cause.getBoundingClientRect();
        return inner.top >= outer.top && inner.bottom <= outer.bottom;
    }"""
    with jupyter_lab.shown(browser, origin, "diagnose.ipynb") as visit:
        visit.page.get_by_text("CUDA out of memory in the multimodal encoder").first.wait_for()
        visit.page.wait_for_function(is_inside)
        visit.page.get_by_placeholder("path, or recorded case").fill("qwen-a100-shared-gpu-race")
        visit.page.keyboard.press("Tab")
        visit.page.get_by_text("Answer for qwen-a100-shared-gpu-race").wait_for()
        visit.page.wait_for_function(is_inside)
        _clean(visit)


def test_a_runbook_follows_its_panel_in_the_browser(browser: Browser, folder: Path, origin: str) -> None:
    """A log pasted into start-here changes the summary and every step."""
    wants = ("clipboard-read", "clipboard-write")
    # A copy: a kernel keeps pasted text, and another test runs the original runbook.
    (folder / "pasted.ipynb").write_bytes((folder / "start-here.ipynb").read_bytes())
    with jupyter_lab.shown(browser, origin, "pasted.ipynb", height=6000, permissions=wants) as visit:
        page = visit.page
        jupyter_lab.settled(page)
        page.get_by_text("Disable video input").first.wait_for()
        page.evaluate("text => navigator.clipboard.writeText(text)", BUSY)
        page.get_by_placeholder("Paste the log here").click()
        page.keyboard.press("Control+V")
        page.get_by_text("Answer for pasted text").wait_for()
        page.get_by_role("row", name="Do Free the memory").first.wait_for()
        assert page.locator(".jp-OutputArea-output", has_text="Disable video input").count() == 0
        _clean(visit)


def test_a_page_with_the_gpu_panel_sends_a_heartbeat(browser: Browser, origin: str) -> None:
    """Every few seconds on request, so that the kernel knows that the page is open."""
    with jupyter_lab.shown(browser, origin, "beat.ipynb") as visit:
        page = visit.page
        page.locator(".jp-OutputArea-output", has_text="beat 2").wait_for()
        _clean(visit)


def test_a_log_is_uploaded(browser: Browser, origin: str, tmp_path: Path) -> None:
    """Two files together are one launch; a binary file is rejected in one line."""
    (tmp_path / "head.log").write_text("INFO 11-20 08:03:55 [a.py:1] hello\n", encoding="utf-8")
    (tmp_path / "worker.log").write_text(BUSY, encoding="utf-8")
    (tmp_path / "picture.log").write_bytes(b"\x89PNG\r\n\x1a\n")
    with jupyter_lab.shown(browser, origin, "diagnose.ipynb") as visit:
        page = visit.page
        page.get_by_text("out of memory in the multimodal encoder").first.wait_for()
        with page.expect_file_chooser() as chosen:
            page.get_by_role("button", name="Upload logs").click()
        chosen.value.set_files([tmp_path / "head.log", tmp_path / "worker.log"])
        page.get_by_text("mem.free_below_utilization").first.wait_for()
        with page.expect_file_chooser() as chosen:
            page.get_by_role("button", name="Upload logs").click()
        chosen.value.set_files([tmp_path / "picture.log"])
        page.get_by_text("picture.log: is an image, not text; use the log itself").wait_for()
        _clean(visit)


def test_a_slider_is_moved_by_keyboard(browser: Browser, origin: str) -> None:
    """Arrow keys move it, and the command follows; an invalid value removes the command."""
    with jupyter_lab.shown(browser, origin, "plan.ipynb") as visit:
        page = visit.page
        page.get_by_text("default: 0.92", exact=True).wait_for()
        share = page.locator(".noUi-handle").first
        share.focus()
        for _ in range(3):
            share.press("ArrowLeft")
        page.get_by_text("--gpu-memory-utilization 0.89").wait_for()
        pipeline = page.locator(".noUi-handle").nth(4)
        pipeline.focus()
        pipeline.press("ArrowRight")
        page.get_by_text("the launch needs 4 GPUs").wait_for()
        page.locator(".vr-copy").wait_for(state="hidden")
        _clean(visit)


def test_a_command_is_checked_while_typing(browser: Browser, origin: str) -> None:
    """Issues are marked in the text and shown at the cursor, next to the corrected text."""
    with jupyter_lab.shown(browser, origin, "commands.ipynb") as visit:
        page = visit.page
        area = page.locator(".vr-editor textarea")
        area.wait_for()
        area.fill("vllm serve m --max-model-length 4096")
        page.locator(".vr-mark.vr-error", has_text="--max-model-length").wait_for(state="attached")
        area.press("End")
        page.locator(".vr-said", has_text="has no option --max-model-length").wait_for()
        page.locator("pre", has_text="--max-model-len 4096").first.wait_for()
        area.fill("vllm serve 😀😀/m --max-model-length 4096")
        page.wait_for_function(
            "() => document.querySelector('.vr-mark.vr-error')?.textContent === '--max-model-length'"
            " && document.querySelector('.vr-back').textContent.includes('😀😀')"
        )
        _clean(visit)


def test_a_long_paste_is_sent_as_a_file(browser: Browser, origin: str) -> None:
    """Two megabytes do not block the page, and are not saved with the notebook."""
    secret = "sk-abcdefghijklmnop1234567890ABCDEF"  # noqa: S105 - made up
    noise = "(APIServer pid=1) INFO 11-20 08:03:55 [loggers.py:127] Engine 000: nothing of note, said again\n"
    wants = ("clipboard-read", "clipboard-write")
    with jupyter_lab.shown(browser, origin, "diagnose.ipynb", permissions=wants) as visit:
        page = visit.page
        page.get_by_text("out of memory in the multimodal encoder").first.wait_for()
        log = page.get_by_role("textbox", name="log", exact=True)
        page.evaluate("text => navigator.clipboard.writeText(text)", f"{secret}\n{noise * 23_000}{BUSY}")
        log.focus()
        began = time.monotonic()
        page.keyboard.press("Control+V")
        page.evaluate("() => new Promise(requestAnimationFrame)")
        assert time.monotonic() - began < scaled(3)
        page.get_by_text("mem.free_below_utilization").first.wait_for(timeout=60_000)
        page.get_by_text("Answer for pasted text").wait_for()
        assert log.input_value() == ""
        log.fill(f"{secret}\nvLLM cannot start")
        page.get_by_text("not the log of a vLLM launch").first.wait_for()
        saved = page.evaluate(
            """async () => {
                const panel = window.jupyterapp.shell.currentWidget;
                await panel.context.save();
                return JSON.stringify(panel.context.model.toJSON());
            }"""
        )
        assert "vr-panel" in saved
        assert secret not in saved
        _clean(visit)


def test_no_payload_runs_in_any_panel(browser: Browser, origin: str) -> None:
    """Twelve kinds of hostile text, in logs, names, commands, the history: shown as text by every panel."""
    with jupyter_lab.shown(browser, origin, "payloads.ipynb", height=6000) as visit:
        page = visit.page
        jupyter_lab.settled(page)
        page.locator(".vr-editor textarea").first.wait_for()
        page.locator(".jp-OutputArea", has_text="onerror").first.wait_for(state="attached")
        page.wait_for_timeout(2000)
        assert page.locator(".jp-RenderedText[data-mime-type='application/vnd.jupyter.stderr']").count() == 0
        _clean(visit)


def _books() -> list[str]:
    return sorted(path.stem for path in (ROOT / "runbooks").glob("*.ipynb"))


@pytest.mark.parametrize(
    "book", [pytest.param(name, marks=[] if name == SEED else [pytest.mark.full]) for name in _books()]
)
def test_every_cell_of_a_runbook_runs(browser: Browser, origin: str, book: str) -> None:
    """In the original order: the check passes, panels are in place, and nothing is fetched."""
    with jupyter_lab.shown(browser, origin, f"{book}.ipynb", height=4000) as visit:
        page = visit.page
        page.wait_for_timeout(500)
        jupyter_lab.settled(page, timeout_ms=300_000)
        verdict = page.locator(".jp-OutputArea-output", has_text="as expected").last
        for _ in range(60):  # a cell that its neighbours' outputs pushed out of the window is not in the page
            page.keyboard.press("Control+End")
            if verdict.count():
                break
            page.wait_for_timeout(1000)
        assert verdict.count()
        _clean(visit)
        if book == "start-here":
            page.get_by_placeholder("Paste the log here").first.wait_for(state="attached")


@pytest.mark.parametrize("panel", rest_full(PANELS, 1))
def test_each_panel_is_shown_whole(browser: Browser, origin: str, tmp_path: Path, panel: str) -> None:
    """Light at a desk and dark on a phone: no view is wider than its place, axe finds nothing serious in it."""
    for width, theme in zip(WIDTHS, THEMES, strict=True):
        with jupyter_lab.shown(browser, origin, f"{panel}.ipynb", width=width, height=2400, theme=theme) as visit:
            page = visit.page
            jupyter_lab.settled(page)
            page.locator(".jp-OutputArea-output .widget-vbox").first.wait_for()
            page.wait_for_timeout(700)
            over = page.evaluate(
                """() => [...document.querySelectorAll('.jp-OutputArea-output .widget-html-content > div')]
                    .filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 2
                        && !/auto|scroll/.test(getComputedStyle(e).overflowX)).length"""
            )
            assert over == 0
            shot(page, f"lab-{panel}-{width}-{theme}", tmp_path)
            if width == WIDTHS[0]:
                assert jupyter_lab.axe_of_panel(page) == []
                if theme == "light":
                    shot(page, f"lab-{panel}-grey", tmp_path, grey=True)
            _clean(visit)


def test_the_command_opens_a_copy_and_ends_on_interrupt(tmp_path: Path) -> None:
    """It prints the copy's place and the address with token; Ctrl-C ends all its processes."""
    jupyter = Path(sys.executable).with_name("jupyter-lab")
    if not jupyter.is_file():
        pytest.skip("the extra lab is not installed")
    home, port = tmp_path / "home", free_port()
    home.mkdir()
    # Shells start background processes with Ctrl-C ignored, and this test may be one.
    hearing = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    command = [sys.executable, "-c", hearing, "-m", "vllm_runbooks", "lab", "--no-browser", "--port", str(port)]
    command += ["--folder", str(tmp_path / "copy"), "--", "--allow-root"]
    given = {**os.environ, "HOME": str(home), "JUPYTER_CONFIG_DIR": str(home / ".jupyter")}
    said = tmp_path / "said.log"
    with said.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env=given, cwd=tmp_path, start_new_session=True)
    until = time.monotonic() + scaled(60)
    address = None
    while time.monotonic() < until and server.poll() is None and address is None:
        time.sleep(0.2)
        address = re.search(rf"http://\S+:{port}/lab\S*token=\w+", said.read_text(encoding="utf-8", errors="replace"))
    assert address, said.read_text(encoding="utf-8", errors="replace")
    assert "start-here.ipynb" in address[0]
    # The address is printed before the event loop runs, which handles the interrupt.
    while time.monotonic() < until:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=scaled(5)):
            break
        time.sleep(0.2)
    server.send_signal(signal.SIGINT)
    assert server.wait(scaled(30)) == 0
    text = said.read_text(encoding="utf-8", errors="replace")
    assert f"runbooks to {tmp_path / 'copy'}" in text
    assert json.loads((tmp_path / "copy" / "start-here.ipynb").read_text(encoding="utf-8"))["nbformat"] == 4
