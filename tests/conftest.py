"""Shared by all tests: a clean environment, external material, and the table of figures."""

from __future__ import annotations

import compileall
import datetime as dt
import gc
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

import pytest

from figures import Figures
from pages import write_between
from vllm_runbooks.catalog import compiled, folders
from vllm_runbooks.core.redaction import redact

# Tests start about 1,000 Python processes: write bytecode even if PYTHONDONTWRITEBYTECODE is set.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# As in the worker (`runbooks.worker.work`): an unused import that takes seconds in each test
# process.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
pytest_plugins = ("pytest_notebook.plugin",)
"""Loaded here, after the line above, and not as an installed plugin (`-p no:nb_regression`)."""

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
_BEGIN, _END = "<!-- figures: written by pytest tests/benchmarks --figures -->", "<!-- end of figures -->"
_NUMBERS = count()
_FIGURES = pytest.StashKey[Figures]()
_COMPILING = pytest.StashKey[subprocess.Popen[bytes]]()


@pytest.fixture(autouse=True, scope="session")
def _state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Module state is kept apart from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state" / "shared"))
        yield


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No setting of the host reaches a test, nor what another test has told; one test run shares the index's cache."""
    for name in [n for n in os.environ if n.startswith("VLLM_") or n == "COLUMNS"]:
        monkeypatch.delenv(name)
    base = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("XDG_CACHE_HOME", str((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"))
    # The user's models are not read, and the Hub is not asked.
    for name in [n for n in os.environ if n.startswith("HF_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HOME", str(base / "huggingface"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # Each test has its own history, and the user's is not written.
    monkeypatch.setenv("XDG_STATE_HOME", str(base / "state" / f"{next(_NUMBERS)}"))
    monkeypatch.setenv("PAGER", "cat")
    monkeypatch.setattr(redact, "_shared", redact.Redactor())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the library and catalog once for all workers, and restore signal handlers.

    `nohup` and `&` make child processes ignore signals.
    """
    if not hasattr(session.config, "workerinput"):
        compileall.compile_dir(ROOT / "lib", quiet=2)
        base: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        kept = _compiled_catalog()
        if kept.is_dir():
            shutil.copytree(kept, base / "cache")
        else:  # compiled while the workers collect their tests
            session.config.stash[_COMPILING] = subprocess.Popen(
                [sys.executable, "-c", "from vllm_runbooks.catalog.load import load_catalog; load_catalog(())"],
                env={**os.environ, "XDG_CACHE_HOME": str(base / "cache")},
            )
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep the compiled catalog for the next session."""
    if _COMPILING in session.config.stash and session.config.stash[_COMPILING].wait(60) == 0:
        base: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        for index in (base / "cache").rglob(f"index-{compiled.key(folders.catalog_dir())}.json"):
            target = _compiled_catalog() / index.relative_to(base / "cache")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(index, target)


def _compiled_catalog() -> Path:
    """Folder of this catalog, compiled by this code in an earlier session."""
    code = hashlib.sha256()
    for package in ("core", "catalog"):
        for path in sorted((ROOT / "lib" / "vllm_runbooks" / package).rglob("*.py")):
            code.update(path.read_bytes())
    return ROOT / ".pytest_cache" / f"catalog-{code.hexdigest()[:16]}-{compiled.key(folders.catalog_dir())}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt the collected tests from garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def seeds() -> Path:
    """The folder of the source documents next to the project, if it exists."""
    folder = SHARED / "seeds"
    if not folder.is_dir():
        pytest.skip("the source documents are not at hand")
    return folder


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
    """Print the table, and write it to a page on request."""
    found = config.stash[_FIGURES]
    if not found.rows:
        return
    terminalreporter.section("figures")
    terminalreporter.write_line(found.table())
    page: Path | None = config.getoption("--figures", default=None)
    if page is not None:
        ran = f"Python {platform.python_version()}, {os.cpu_count()} cores, {dt.datetime.now(dt.UTC).date()}"
        write_between(page, _BEGIN, _END, f"{ran}.\n\n{found.table()}")
