"""The wheel alone in a bare environment, used from `/`, without the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
import zipfile
from collections.abc import Iterator, Sequence
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
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment with the wheel and its locked dependencies, until `bare` adds to it."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=True)
    install(folder / "bin", "--require-hashes", "-r", str(ROOT / "requirements.lock"), constraints=())
    install(folder / "bin", "--no-deps", str(wheel))
    return folder / "bin"


@pytest.fixture(scope="module")
def bare(base: Path, wheel: Path) -> Path:
    """The same environment with the extra `notebooks`."""
    install(base, f"{wheel}[notebooks]")
    return base


def install(folder: Path, *words: str, constraints: Sequence[str] = ("-c", CONSTRAINTS)) -> None:
    """Install into the environment with this `bin` folder."""
    command = [str(folder / "python"), "-m", "pip", "install", "-q", *constraints, *words]
    subprocess.run(command, check=True, timeout=900)


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


BASE_COMMANDS = {
    "diagnose autoglm-3090-video-oom": 1,
    "lint copied-launch-script": 1,
    "plan Qwen/Qwen3-8B --gpus 2xRTX3090": 0,
    "inventory host-8x3090": 0,
    "probe --help": 0,
    "serve --help": 0,
    "check": 2,
    "run single-gpu-oom": 2,
    "schedule add nightly --at '0 3 * * *' -- check": 2,
}
"""Commands of an install without extras, and their exit status."""
MISSING = (
    "vllm-runbooks: papermill is not installed, but is required for runbooks; "
    "run: pip install 'vllm-runbooks[notebooks]'"
)


def test_the_base_install_is_small_and_names_the_missing_extra(base: Path, tmp_path: Path) -> None:
    """Without extras, commands on logs, launches and servers work from `/`, without a checkout or a writable home.

    The catalog is not compiled again: its compiler cannot be imported. What runs notebooks names their extra.
    """
    home = tmp_path / "home"
    home.write_text("not a folder", encoding="utf-8")
    program = (
        "import shlex, sys\nsys.modules['vllm_runbooks.catalog.authored.compiling'] = None\n"
        "sys.modules['vllm_runbooks.catalog.authored.rule_files'] = None\nfrom vllm_runbooks import cli\n"
        f"for line in {list(BASE_COMMANDS)}:\n"
        "    print('status', cli.run(shlex.split(line)), flush=True)"
    )

    pasted = run(base, "vllm-runbooks", "diagnose", "--format", "json", "-", home=home, given=PASTED)
    done = run(base, "python", "-c", program, home=home)

    assert (pasted.returncode, pasted.stderr) == (1, "")
    assert json.loads(pasted.stdout)["root_cause"]["class"] == "oom.profile_run"
    reported = [line for line in done.stdout.splitlines() if line.startswith("status ")]
    assert reported == [f"status {status}" for status in BASE_COMMANDS.values()], done.stderr
    assert "oom.multimodal_encoder" in done.stdout
    assert done.stderr.splitlines() == [MISSING] * 3
    assert len(list((base.parent / "lib").glob("python3*/site-packages/*.dist-info"))) <= 15


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
    install(bare, "jupyterlab", "jupyter-scheduler")
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


@pytest.mark.full
def test_packages_pass_the_checks_of_the_index_and_run_with_uvx(tmp_path: Path) -> None:
    """A release's wheel and sdist are valid, and `uvx` prints a first answer within 30 s of an empty cache."""
    venv.create(tmp_path / "tools", with_pip=True)
    tools, dist, home = tmp_path / "tools" / "bin", tmp_path / "dist", tmp_path / "home"
    home.mkdir()
    subprocess.run(
        [tools / "python", "-m", "pip", "install", "-q", "build", "check-wheel-contents", "twine", "uv"], check=True
    )
    subprocess.run([tools / "python", "-m", "build", "-q", "-o", dist, ROOT], check=True)
    (built,), files = dist.glob("*.whl"), sorted(map(str, dist.iterdir()))
    subprocess.run([tools / "twine", "check", "--strict", *files], check=True)
    subprocess.run([tools / "check-wheel-contents", built], cwd=ROOT, check=True)

    began = time.monotonic()
    # With the certificates and the index of this machine, which variables may set.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HOME": str(home), "UV_CACHE_DIR": str(home / "cache")}
    uvx = [str(tools / "uvx"), "--from", str(built), "vllm-runbooks", "diagnose", "autoglm-3090-video-oom"]
    done = subprocess.run(uvx, check=False, cwd="/", env=environment, capture_output=True, text=True)

    assert time.monotonic() - began < scaled(30)
    assert done.returncode == 1
    assert "oom.multimodal_encoder" in done.stdout
