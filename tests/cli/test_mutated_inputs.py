"""Mutated files of every kind that commands read: no exception, no control character, no slow reading.

`FUZZ_SECONDS=36000 pytest -q -n 0 -m full tests/cli/test_mutated_inputs.py` goes on for ten hours; `FUZZ_SEED` chooses
the mutations. A failure prints the seed, the command and the path of its input.
"""

from __future__ import annotations

import io
import os
import random
import re
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from test_mutations import MUTATIONS
from vllm_runbooks import cli
from vllm_runbooks.catalog import folders

CASES = folders.cases_dir()
MANIFESTS = Path(__file__).parents[1] / "lint" / "manifests"
SLOW_S = 8.0
"""Processor seconds of one command."""
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def pack() -> bytes:
    """A pack with one member."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logs/startup.log", (CASES / "tiny-cpu-port-in-use" / "startup.log").read_bytes())
        archive.writestr("manifest.json", '{"schema": 2, "kind": "pack", "members": []}')
    return made.getvalue()


def kinds() -> Iterator[tuple[str, str, bytes]]:
    """A command, a file's name and its content."""
    for log in sorted(CASES.glob("*/startup.log")):
        yield "diagnose", "startup.log", log.read_bytes()[:200_000]
    for manifest in sorted(MANIFESTS.iterdir()):
        yield "lint", manifest.name, manifest.read_bytes()
    for script in sorted(CASES.glob("*/*.sh")):
        yield "lint", "launch.sh", script.read_bytes()
    for notebook in sorted(folders.runbooks_dir().glob("*.ipynb")):
        yield "lint", notebook.name, notebook.read_bytes()
        yield "diagnose", notebook.name, notebook.read_bytes()
    for symptom in sorted((folders.catalog_dir() / "symptoms").glob("oom.*.yaml")):
        yield "catalog check", symptom.name, symptom.read_bytes()
    for snapshot in ("inventory", "probe", "cluster"):
        for path in sorted(CASES.glob(f"*/{snapshot}.json")):
            yield {"cluster": "cluster check"}.get(snapshot, snapshot), path.name, path.read_bytes()
    yield "diagnose", "evidence.zip", pack()


@pytest.mark.slow
@pytest.mark.parametrize("count", [36, pytest.param(3000, marks=pytest.mark.full)])
def test_mutated_inputs_are_read_or_rejected(count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each kind in turn, with one to three mutations."""
    seed = int(os.environ.get("FUZZ_SEED", "1"))
    chance = random.Random(seed)  # noqa: S311 - repeatable
    rows: dict[tuple[str, str], list[tuple[str, str, bytes]]] = {}
    for row in kinds():
        rows.setdefault((row[0], Path(row[1]).suffix), []).append(row)
    ends = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "0"))
    number, rejected = 0, 0
    while number < count or time.monotonic() < ends:
        command, name, content = chance.choice(rows[list(rows)[number % len(rows)]])
        for _ in range(chance.randint(1, 3)):
            content = chance.choice(MUTATIONS)(content, chance)
        path = tmp_path / name
        path.write_bytes(content)
        begin = time.process_time()
        status = cli.run([*command.split(), str(path)])
        seconds = time.process_time() - begin
        printed = "".join(capsys.readouterr())
        number, rejected = number + 1, rejected + (status == 2)
        where = f"seed {seed}, input {number}: {command} {path}"

        assert status in (0, 1, 2), where
        assert (found := CONTROLS.search(printed)) is None, f"{where}: {found}"
        assert number <= len(rows) or seconds < SLOW_S, f"{where}: {seconds:.1f} s"
        path.unlink()
    print(f"{number} inputs, {rejected} rejected")
