"""A disk that becomes full at any moment leaves whole files or none, and one clear line."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from vllm_runbooks.catalog import folders, load

LOG = folders.cases_dir() / "tiny-cpu-port-in-use" / "startup.log"
LIMITED = (
    "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)\n"
    "from vllm_runbooks import cli; sys.exit(cli.run(sys.argv[2:]))"
)
COMMANDS = (
    "pack LOG --no-inventory -o OUT/pack.zip",
    "record --out OUT/case --log LOG",
    "lint OUT/../launch.sh --vllm 0.19.0 --fix -o OUT/fixed.sh",
    "inventory -o OUT/inventory.json",
    "check --only tiny-cpu-port-in-use --out OUT/report",
)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of a file's size")
def test_a_disk_that_is_full_at_any_moment_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    """A limit of a file's size fails a write in its middle, as a full disk does."""
    chance = random.Random(1)  # noqa: S311 - repeatable
    (tmp_path / "launch.sh").write_text("vllm serve m --disable-log-requests --swap-space 4\n" + "# x\n" * 500)
    failed = 0
    load.load_catalog()  # compiled once: under a limit it cannot be stored
    for number in range(30):
        out = tmp_path / f"{number}"
        out.mkdir()
        command = COMMANDS[number % len(COMMANDS)].replace("LOG", str(LOG)).replace("OUT", str(out))
        limit = int(2 ** chance.uniform(3, 16))
        words = [sys.executable, "-c", LIMITED, str(limit), *command.split()]
        ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        files = [path for path in out.rglob("*") if path.is_file()]
        failed += ran.returncode == 2

        assert "Traceback" not in ran.stderr
        assert ran.returncode in (0, 1, 2), (command, limit, ran.stderr)
        assert ran.returncode != 2 or re.search(r"could not|cannot|File too large", ran.stderr), ran.stderr
        assert [path.name for path in files if path.name.startswith(".") or path.stat().st_size == 0] == []
        for path in files:
            if path.suffix == ".json":
                json.loads(path.read_text())
            elif path.suffix == ".zip":
                assert zipfile.ZipFile(path).testzip() is None
            elif path.suffix == ".sh":
                assert path.read_text().endswith("# x\n" * 500)
    print(f"{number + 1} commands, {failed} of them with a full disk")

    assert failed >= 10
