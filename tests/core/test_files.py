"""Files are stored whole or not at all."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from vllm_runbooks.core.files import NotStoredError, store


def test_the_old_file_survives_a_text_that_cannot_be_written(tmp_path: Path) -> None:
    """No part of the new text stays, and the error names the free bytes."""
    path = tmp_path / "file"
    store(path, "old")

    with pytest.raises(UnicodeEncodeError):
        store(path, "new \ud800")
    with pytest.raises(NotStoredError, match=r"could not store .* bytes free\)"):
        store(tmp_path / "none" / "file", "new")

    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_text(encoding="utf-8") == "old"


def test_a_full_disk_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error while writing leaves the old file and no temporary one."""
    path = tmp_path / "file"
    store(path, "old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))

    with pytest.raises(NotStoredError, match="No space left on device"):
        store(path, "new")

    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_text(encoding="utf-8") == "old"


def test_a_stored_file_may_be_read_by_whom_any_other_file_may(tmp_path: Path) -> None:
    """Its mode is that of a file which was simply opened."""
    umask = os.umask(0)
    os.umask(umask)

    store(tmp_path / "file", "text")

    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="needs files without a name, as Linux has")
def test_a_killed_writer_leaves_nothing(tmp_path: Path) -> None:
    """Neither a part nor a damaged file."""
    path = tmp_path / "results.json"
    path.write_text("before")
    program = (
        "import os, pathlib, signal, sys; from vllm_runbooks.core import files;"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL);"
        "files.store(pathlib.Path(sys.argv[1]), 'after')"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)

    assert done.returncode == -signal.SIGKILL
    assert [each.name for each in tmp_path.iterdir()] == ["results.json"]
    assert path.read_text() == "before"


def test_a_private_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Also if it replaces a file that others may read."""
    for _ in range(2):
        store(tmp_path / "file", "text", is_private=True)
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
        (tmp_path / "file").chmod(0o644)
