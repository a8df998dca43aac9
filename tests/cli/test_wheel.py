"""The wheel alone in a bare environment, used from `/`, without the checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pace import scaled
from ports import free_port
from rows import rest_full

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = str(ROOT / "tests" / "constraints.txt")
PASTED = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as a release would be."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(command, check=True, timeout=600)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment with only the wheel and the locked dependencies."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=True)
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
    subprocess.run([*install, "--require-hashes", "-r", str(ROOT / "requirements.lock")], check=True, timeout=900)
    subprocess.run([*install, "--no-deps", str(wheel)], check=True, timeout=900)
    return folder / "bin"


def run(bare: Path, *arguments: str, home: Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """A command of the bare environment, run in `/` with an empty home."""
    environment = {"PATH": f"{bare}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    command = [str(bare / arguments[0]), *arguments[1:]]
    return subprocess.run(
        command, check=False, cwd="/", env=environment, input=given, capture_output=True, text=True, timeout=300
    )


def test_the_wheel_contains_catalog_index_cases_and_runbooks(wheel: Path) -> None:
    """All runtime data is in the wheel, and the package is typed."""
    names = set(zipfile.ZipFile(wheel).namelist())

    assert {
        "vllm_runbooks/py.typed",
        "vllm_runbooks/_data/catalog/index.json",
        "vllm_runbooks/_data/catalog/lines.yaml",
        "vllm_runbooks/_data/catalog/symptoms/oom.multimodal_encoder.yaml",
        "vllm_runbooks/_data/catalog/cases/autoglm-3090-video-oom/startup.log",
        "vllm_runbooks/_data/runbooks/single-gpu-oom.ipynb",
        "vllm_runbooks/_data/docs/conf.py",
    } <= names


def test_it_diagnoses_from_the_root_folder(bare: Path, tmp_path: Path) -> None:
    """`diagnose` works from `/`, without a checkout, a cache or a writable home."""
    home = tmp_path / "home"
    home.write_text("not a folder", encoding="utf-8")

    done = run(bare, "vllm-runbooks", "diagnose", "--format", "json", "-", home=home, given=PASTED)

    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["root_cause"]["class"] == "oom.profile_run"


@pytest.mark.parametrize("only", ["host-*", pytest.param("*", marks=pytest.mark.full)])
def test_it_runs_every_runbook_on_every_case(bare: Path, tmp_path: Path, only: str) -> None:
    """`check` on the packaged runbooks and cases ends 0 with a report."""
    out = tmp_path / "report"

    done = run(bare, "vllm-runbooks", "check", "--only", only, "--out", str(out), home=tmp_path)

    assert done.returncode == 0, done.stderr
    assert (out / "index.html").is_file()
    assert {r["verdict"] for r in json.loads((out / "results.json").read_text("utf-8"))["runs"]} == {"pass"}


def test_plain_papermill_runs_a_copied_runbook(bare: Path, tmp_path: Path) -> None:
    """A runbook copied elsewhere runs under plain papermill: it finds its data through the installed package."""
    (data,) = (bare.parent / "lib").glob("python3*/site-packages/vllm_runbooks/_data/runbooks/single-gpu-oom.ipynb")
    copy = tmp_path / "copy.ipynb"
    shutil.copy(data, copy)

    good = run(bare, "papermill", str(copy), str(tmp_path / "good.ipynb"), home=tmp_path)
    bad_log = tmp_path / "bad.log"
    bad_log.write_text(PASTED, encoding="utf-8")
    bad = run(bare, "papermill", str(copy), str(tmp_path / "bad.ipynb"), "-p", "evidence", str(bad_log), home=tmp_path)

    assert good.returncode == 0, good.stderr
    assert bad.returncode == 1
    assert "VerdictFailed" in bad.stderr


@pytest.fixture(scope="module")
def scheduler(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A Jupyter server with jupyter-scheduler in the same environment; yields its address and its root folder."""
    install = [str(bare / "python"), "-m", "pip", "install", "-q", "-c", CONSTRAINTS, "jupyterlab", "jupyter-scheduler"]
    subprocess.run(install, check=True, timeout=900)
    root = tmp_path_factory.mktemp("lab")
    port = free_port()
    environment = {"PATH": f"{bare}:/usr/bin:/bin", "HOME": str(root / "home"), "LANG": "C.UTF-8"}
    (root / "home").mkdir()
    command = [
        str(bare / "jupyter"), "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        "--IdentityProvider.token=test", f"--ServerApp.root_dir={root}",
    ]  # fmt: skip
    log = (root / "server.log").open("w", encoding="utf-8")
    server = subprocess.Popen(command, cwd=root, env=environment, stdout=log, stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + scaled(90)
        while time.monotonic() < deadline:
            try:
                ask(address, "/scheduler/runtime_environments")
                break
            except OSError:
                time.sleep(0.5)
        yield address, root
    finally:
        server.terminate()
        server.wait(30)
        log.close()


def ask(address: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """A request to the Jupyter server."""
    request = urllib.request.Request(  # noqa: S310 - our own server on loopback
        address + path,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Authorization": "token test", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
        return json.loads(reply.read())


@pytest.mark.parametrize(
    ("evidence", "wanted"),
    rest_full([("autoglm-3090-video-oom", {"COMPLETED"}), ("bad.log", {"FAILED", "STOPPED"})], 0),
)
def test_jupyter_scheduler_runs_a_runbook(
    scheduler: tuple[str, Path], bare: Path, evidence: str, wanted: set[str]
) -> None:
    """jupyter-scheduler, with this environment's kernel, completes only a passing runbook.

    It pastes values into code, so strings need their quotes.
    """
    address, root = scheduler
    (source,) = (bare.parent / "lib").glob("python3*/site-packages/vllm_runbooks/_data/runbooks/single-gpu-oom.ipynb")
    shutil.copy(source, root / "runbook.ipynb")
    (root / "bad.log").write_text(PASTED, encoding="utf-8")
    given = str(root / evidence) if evidence.endswith(".log") else evidence
    environments = ask(address, "/scheduler/runtime_environments")
    job = {
        "name": f"run-{evidence}", "input_uri": "runbook.ipynb", "output_formats": ["ipynb"],
        "runtime_environment_name": environments[0]["name"],
        "parameters": {"evidence": json.dumps(given), "start": "0"},
    }  # fmt: skip

    identifier = ask(address, "/scheduler/jobs", job)["job_id"]

    deadline = time.monotonic() + scaled(60)
    seen: dict[str, Any] = {}
    while time.monotonic() < deadline and seen.get("status") not in ("COMPLETED", "FAILED"):
        time.sleep(1)  # "STOPPED" is also the state of a job before its process is seen
        seen = ask(address, f"/scheduler/jobs/{identifier}")
    assert seen["status"] in wanted, seen.get("status_message")


def test_nothing_of_the_host_is_in_the_wheel(wheel: Path) -> None:
    """No path of the machine that built it is in the wheel's index."""
    index = zipfile.ZipFile(wheel).read("vllm_runbooks/_data/catalog/index.json").decode()

    assert f"{ROOT}/" not in index
