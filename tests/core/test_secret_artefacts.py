"""No planted secret is in any file that is made to be shared, nor in the history."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import string
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from ruamel.yaml import YAML

from vllm_runbooks import cli
from vllm_runbooks.core.redaction import issuers, kinds, redact
from vllm_runbooks.core.redaction.redact import Redactor

SAMPLES = YAML(typ="safe").load(Path(__file__).with_name("secret_samples.yaml").read_text(encoding="utf-8"))
FAILED = (
    "INFO 11-20 08:29:20 [api_server.py:1] vLLM API server version 0.11.0\n"
    "{}(EngineCore_DP0 pid=7) ERROR 11-20 08:29:25 [core.py:12] torch.OutOfMemoryError: CUDA out of memory. Tried to"
    " allocate 698.00 MiB. GPU 0 has a total capacity of 23.56 GiB of which 300.00 MiB is free.\n"
)
SCRIPT = "#!/bin/bash\n{}vllm serve Qwen/Qwen3-8B --disable-log-requests --port 8000 --swap-space 4\n"
MANIFEST = (
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: server\n  annotations:\n    notes: |\n{}spec:\n  containers:\n"
    '  - name: vllm\n    image: vllm/vllm-openai:v0.11.0\n    args: ["--model", "Qwen/Qwen3-8B", "--swap-space", "4"]\n'
)


class Plant(NamedTuple):
    """A text with a secret."""

    kind: str
    text: str
    parts: tuple[str, ...]
    """Pieces of eight characters, each of which would give the secret away."""


def other(value: str, chance: random.Random) -> str:
    """A value of the same form: letters and digits of its long words are exchanged for others of their class."""
    classes = ("0123456789", "abcdef", "ABCDEF", string.ascii_lowercase, string.ascii_uppercase)

    def changed(word: re.Match[str]) -> str:
        return "".join(next((chance.choice(c) for c in classes if sign in c), sign) for sign in word[0])

    return re.sub(r"(?<![A-Za-z0-9])[A-Za-z0-9]{8,}", lambda word: word[0][:4] + changed(word)[4:], value)


def plants() -> Iterator[Plant]:
    """One of each sample, of each kind in the tables, and of each issuer's prefix."""
    chance = random.Random(5)  # noqa: S311 - repeatable

    def plant(kind: str, text: str, secret: str) -> Plant:
        words = [word for word in re.findall(r"[A-Za-z0-9]{10,}", secret) if len(word) == len(secret) or len(word) > 10]
        return Plant(kind, text, tuple(word[i : i + 8] for word in words for i in range(4, len(word) - 7)))

    for number, sample in enumerate(SAMPLES["secrets"]):
        pieces = ((string.ascii_letters, 6), (string.digits, 4), (string.ascii_letters, 8))
        secret = "".join("".join(chance.choices(letters, k=length)) for letters, length in pieces)
        yield plant(f"sample {number}", sample.format(secret), secret)
    for kind in kinds.KINDS:
        value = next(kind.pattern.finditer(kind.example))["value"]
        secret = other(value, chance)
        yield plant(kind.example, kind.example.replace(value, secret), secret)
    for _, prefixes, rest in issuers.ISSUERS:
        for prefix in prefixes.split():
            secret = other(f"x{rest.example}", chance)[1:]
            yield plant(prefix, f"client('{prefix}{secret}')", secret)


PLANTS = list(plants())


def lines(chosen: list[Plant], prefix: str = "") -> str:
    """Plants between other lines."""
    text = "".join(f"WARNING 11-20 08:29:22 [utils.py:1] text {n}\n{plant.text}\n" for n, plant in enumerate(chosen))
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


def leaks(text: str) -> list[str]:
    return [plant.kind for plant in PLANTS if any(part in text for part in plant.parts)]


def unpacked(content: bytes) -> str:
    """The text of a file, and of the files in an archive."""
    if content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return "\n".join([*archive.namelist(), *(unpacked(archive.read(name)) for name in archive.namelist())])
    return (gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content).decode("utf-8", "replace")


def shared(folder: Path) -> str:
    """All files of a folder, and their names."""
    return "\n".join(f"{path}\n{unpacked(path.read_bytes())}" for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.fixture
def given(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a log, a script, a manifest and a notebook that have all plants, or every eighth in quick tests."""
    chosen = PLANTS if request.node.get_closest_marker("full") else PLANTS[::8]
    monkeypatch.setattr(redact, "_shared", Redactor())
    monkeypatch.setenv("VLLM_RUNBOOKS_HISTORY", str(tmp_path / "made" / "history.sqlite"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "given" / "planted"
    folder.mkdir(parents=True)
    (tmp_path / "made").mkdir()
    (folder / "startup.log").write_text(FAILED.format(lines(chosen)))
    (folder / "launch.sh").write_text(SCRIPT.format(lines(chosen, "# ")))
    (folder / "pod.yaml").write_text(MANIFEST.format(lines(chosen, "      ")))
    output = {"output_type": "stream", "name": "stdout", "text": FAILED.format(lines(chosen))}
    cells = [
        {
            "cell_type": "code", "metadata": {}, "id": "a", "execution_count": 1,
            "source": "!vllm serve m --swap-space 4", "outputs": [output],
        },
        {"cell_type": "markdown", "metadata": {}, "id": "b", "source": lines(chosen)},
    ]  # fmt: skip
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "case.yaml").write_text(CASE)
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ncat "$2"\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    (folder / "work.ipynb").write_text(json.dumps(notebook))
    return folder


PRINT = "import sys; print(open(sys.argv[1]).read())"
CASE = (
    "id: planted\ntitle: A log full of secrets\nfiles: [startup.log]\nrunbooks: [single-gpu-oom]\n"
    "source: made for a test\nexpect: {outcome: failed}\n"
)
PAPERMILL = (
    "import papermill, sys; from pathlib import Path; from vllm_runbooks.catalog import folders\n"
    "papermill.execute_notebook(str(folders.runbooks_dir() / 'single-gpu-oom.ipynb'), sys.argv[2],\n"
    "    parameters={'pasted_log': Path(sys.argv[1]).read_text(), 'stop_on_fail': False}, engine_name='vllm-runbooks')"
)
COMMANDS = {
    "pack": "pack GIVEN/startup.log --command GIVEN/launch.sh --no-inventory -o OUT/pack.zip",
    "lint": "lint GIVEN/work.ipynb --vllm 0.19.0 --format json",
    "fixed script": "lint GIVEN/launch.sh --vllm 0.19.0 --fix",
    "case": "record --out OUT/case --log GIVEN/startup.log",
    "diagnosis": "diagnose GIVEN/startup.log --explain --command GIVEN/launch.sh",
    "diagnosis as JSON": "diagnose GIVEN/startup.log --format json",
    "diagnosis of a notebook": "diagnose GIVEN/work.ipynb --format json",
    "issue": "pack GIVEN/startup.log --command GIVEN/pod.yaml --issue --no-inventory",
    "lint as SARIF": "lint GIVEN/launch.sh GIVEN/pod.yaml GIVEN/work.ipynb --vllm 0.19.0 --format sarif",
    "fixed manifest": "lint GIVEN/pod.yaml --vllm 0.19.0 --fix",
    "migrated script": "migrate GIVEN/launch.sh --from 0.11.0 --to 0.19.0",
    "converted manifest": "convert GIVEN/pod.yaml --to compose",
    "case of a command": "record --out OUT/case -- PYTHON -c PRINT GIVEN/startup.log",
    "case of a launch": "serve --skip memory --skip lock --record OUT/case -- vllm serve GIVEN/startup.log",
    "notebook": "run single-gpu-oom -p evidence GIVEN/startup.log --out OUT/run",
    "notebook with a pasted log": "run single-gpu-oom -p pasted_log TEXT --out OUT/run",
    "report": "check --cases GIVEN/.. --out OUT/report",
}
FULL = [pytest.mark.slow, pytest.mark.full]


@pytest.mark.parametrize(
    "command",
    [
        *(pytest.param(COMMANDS[name], id=f"{name}, in short") for name in ("pack", "lint", "fixed script", "case")),
        *(pytest.param(words, id=name, marks=FULL) for name, words in COMMANDS.items()),
    ],
)
def test_no_secret_is_in_an_artefact(command: str, given: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither printed nor in a file or the history: of all kinds in one log, script, manifest and notebook."""
    out = given.parents[1] / "made"
    replaced = {"PYTHON": sys.executable, "PRINT": PRINT, "TEXT": (given / "startup.log").read_text()}
    words = [replaced.get(word, word.replace("GIVEN", str(given)).replace("OUT", str(out))) for word in command.split()]
    status = cli.run(words)
    captured = capfd.readouterr()

    assert status in (0, 1), captured.err
    assert leaks(captured.out + captured.err + shared(out)) == []


@pytest.mark.slow
@pytest.mark.full
def test_no_secret_is_in_a_notebook_that_papermill_ran(given: Path) -> None:
    """With our engine, in the parameters and the outputs."""
    out = given.parents[1] / "made" / "out.ipynb"
    subprocess.run([sys.executable, "-c", PAPERMILL, str(given / "startup.log"), str(out)], check=True)

    assert "single-gpu-oom" in out.read_text()
    assert leaks(out.read_text()) == []
