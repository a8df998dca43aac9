"""What every test shares: an environment of its own, and the material beside the project where it is at hand."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from vllm_runbooks import redact

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No setting of the host reaches a test, nor what another test has told; one test run shares the index's cache."""
    for name in [n for n in os.environ if n.startswith("VLLM_")]:
        monkeypatch.delenv(name)
    base = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("XDG_CACHE_HOME", str((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"))
    monkeypatch.setenv("PAGER", "cat")
    monkeypatch.setattr(redact, "_shared", redact.Redactor())


def pytest_sessionstart() -> None:
    """Hear a hang-up whatever started the tests: `nohup` hands on that it is ignored, to them and what they start."""
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def seeds() -> Path:
    """The folder of the source documents, where it lies beside the project."""
    folder = SHARED / "seeds"
    if not folder.is_dir():
        pytest.skip("the source documents are not at hand")
    return folder
