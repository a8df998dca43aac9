"""A plan for a host without GPUs agrees with launches of vLLM on one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from vllm_runbooks.catalog import load
from vllm_runbooks.catalog.specs import HostGpu, numa_node
from vllm_runbooks.host import loading
from vllm_runbooks.lint import knowledge
from vllm_runbooks.plan import planned, planner, reading
from vllm_runbooks.plan.budget import budget, subject_in_catalog
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.reading import PlanSources
from vllm_runbooks.plan.settings import settle
from vllm_runbooks.plan.terms import GIB, Band

LAUNCHES = [
    ("Qwen/Qwen3-0.6B", {}, 13.46, 3.8, 8.66),
    ("Qwen/Qwen3-0.6B", {}, 15.71, 4.9, 11.19),
    ("Qwen/Qwen3-0.6B", {"max_num_batched_tokens": 2048, "max_num_seqs": 128}, 18.96, 6.61, 15.09),
    ("Qwen/Qwen3-0.6B", {"enforce_eager": True}, 13.46, 4.07, 9.28),
    ("Qwen/Qwen3-1.7B", {"enforce_eager": True}, 13.46, 1.29, 2.94),
    ("Qwen/Qwen3-1.7B", {}, 13.46, 1.05, 2.41),
    ("Qwen/Qwen2.5-0.5B-Instruct", {"enforce_eager": True, "max_model_len": 2048}, 13.46, 4.64, 198.06),
    ("google/gemma-3-1b-it", {}, 13.46, 2.52, 22.45),
    (
        "Qwen/Qwen3-4B",
        {"enforce_eager": True, "max_model_len": 2048, "gpu_memory_utilization": 0.7},
        20.71,
        3.78,
        13.44,
    ),
]
"""Our own runs of vLLM 0.32.0 on two cores: model, options, and as printed the GiB of the host and of the KV cache, and
the requests of max_model_len that run concurrently. The utilization is 0.5 where none is given."""


@pytest.mark.parametrize(("name", "options", "host_gib", "cache_gib", "requests"), LAUNCHES)
def test_the_cache_of_a_launch_is_in_the_planned_range(
    name: str, options: dict[str, object], host_gib: float, cache_gib: float, requests: float
) -> None:
    """The printed KV cache is between the low and the high estimate, and holds as many requests as printed."""
    model = subject_in_catalog(name, load.specs())
    assert model is not None
    options = {"max_model_len": 4096, "gpu_memory_utilization": 0.5, **options}
    settings = settle(
        model.shape, options, "0.32.0", gpu_name="CPU-24GB", vendor="cpu", config=model.config, context="llm"
    )
    device = Device("CPU-24GB", Band(*(int(host_gib * GIB),) * 3), vendor="cpu")

    planned = budget(model, settings, [device])

    assert not settings.missing
    assert planned.available is not None
    assert planned.pool is not None
    (low,), _, (high,) = planned.available
    assert low <= cache_gib * GIB <= high
    length = settings.scheduler.max_model_len
    held = planned.pool.concurrency(planned.pool.blocks((int(cache_gib * GIB),)), length)
    assert held == pytest.approx(requests, rel=0.005, abs=2 * 128 / length)  # the printed GiB are rounded


def test_a_host_is_planned_by_its_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """`--gpus cpu-24GB` plans a share of the host's memory; the answer names what no launch on a CPU has shown."""
    offline = ("plan", "--offline", "--vllm", "0.33.0")

    status, out, _ = run(capsys, *offline, "Qwen/Qwen3-0.6B", "--gpus", "cpu-24GB")
    assert status == 0
    assert out.startswith("FITS     Qwen3-0.6B · 1\u00d7 CPU-24GB")
    plan = planner.plan_model("Qwen/Qwen3-0.6B", "cpu-24GB", vllm="0.33.0")
    assert plan.deployment is not None
    assert not plan.deployment.env

    _, out, _ = run(capsys, *offline, "Qwen/Qwen3-0.6B", "--gpus", "3xcpu-64GB")
    assert "--deploy" not in out
    assert "export CPU_VISIBLE_MEMORY_NODES=0" in out

    status, out, _ = run(capsys, *offline, "Qwen/Qwen3-32B", "--gpus", "cpu-24GB")
    assert status == 1
    assert "The weights need 61.0 GiB, but CPU-24GB has 23.5 GiB." in out
    assert "GPUs" not in out.partition("\n")[2].replace("--gpus", "")

    status, out, _ = run(capsys, *offline, "Qwen/Qwen3-8B-AWQ", "--gpus", "cpu-64GB")
    assert status == 1
    assert "Unknown: the memory of quantized weights on a CPU." in out


def test_a_cache_larger_than_the_host_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """VLLM_CPU_KVCACHE_SPACE is compared with one request and with what the weights leave of the host's memory.

    A value that is too large or too small has the next one that fits as a fix.
    """
    plan = ("plan", "Qwen/Qwen3-0.6B", "--gpus", "cpu-24GB", "--offline", "--vllm", "0.33.0", "--env")

    status, out, _ = run(capsys, *plan, "VLLM_CPU_KVCACHE_SPACE=4000")
    assert status == 1
    answer = " ".join(out.split())
    assert re.search(
        "The requested KV cache needs 4000.00 GiB, and only .* GiB is available next to the weights", answer
    )
    assert "VLLM_CPU_KVCACHE_SPACE=19 40,960" in answer

    status, out, _ = run(capsys, *plan, "VLLM_CPU_KVCACHE_SPACE=2")
    assert status == 1
    assert "VLLM_CPU_KVCACHE_SPACE=5 40,960" in " ".join(out.split())
    assert "export VLLM_CPU_KVCACHE_SPACE=5" in out

    status, out, _ = run(capsys, *plan, "VLLM_CPU_KVCACHE_SPACE=10")
    assert status == 0
    assert "KV cache 10.0 GiB" in out


@pytest.fixture
def run_limited(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Plan Qwen3-0.6B in a container with 8 GiB on a host with 24 GB; it does not fit."""
    monkeypatch.setattr(loading, "this_cpu", lambda: HostGpu(numa_node(24, 23.5), limit_gib=8.0, root_limit_gib=8.0))

    def run_it(*words: str) -> str:
        status, out, _ = run(capsys, "plan", "Qwen/Qwen3-0.6B", "--gpus", "cpu", "--offline", *words)
        assert status == 1
        return out

    return run_it


LIMITED = "on CPU-24GB with a limit of 8.00 GiB (cgroup)"


@pytest.mark.parametrize(
    ("version", "more", "reason", "fix"),
    [
        ("0.23.0", "", "plans with 21.62 GiB, and the kernel ends", ("VLLM_CPU_KVCACHE_SPACE", "3")),
        ("0.23.0", "--env VLLM_CPU_KVCACHE_SPACE=12", LIMITED, ("VLLM_CPU_KVCACHE_SPACE", "3")),
        ("0.33.0", "--env VLLM_CPU_KVCACHE_SPACE=12", LIMITED, ("VLLM_CPU_KVCACHE_SPACE", "3")),
        ("0.33.0", f"--kv-cache-memory-bytes {12 * GIB}", LIMITED, ("kv_cache_memory_bytes", 3 * GIB)),
        ("0.33.0", "", f"an idle {LIMITED[3:]} has about 6.40 GiB", ("gpu_memory_utilization", 0.8)),
    ],
)
@pytest.mark.parametrize("length", [8192, 40960])
def test_a_host_with_a_limit_gets_the_setting_that_fits_it(
    run_limited: Callable[..., str], version: str, more: str, *, reason: str, fix: tuple[str, Any], length: int
) -> None:
    """A container with 8 GiB on a host with 24 GB names its limit; a setting fits, perhaps with less context."""
    plan = ("--vllm", version, *more.split(), "--max-model-len", str(length))

    assert reason in " ".join(run_limited(*plan).split())
    (remedy,) = json.loads(run_limited(*plan, "--format", "json"))["remedies"]
    edits = {edit["name"]: edit["value"] for edit in remedy["edits"]}
    assert (edits[fix[0]], remedy["checks"]) == (fix[1], {"lint": "passed", "plan": "passed"})
    assert ("max_model_len" in edits) is (length == 40960)


@pytest.mark.parametrize("words", [("3xcpu-64GB", "--explain"), ("2xcpu-32GB", "--find", "gpus")])
def test_a_plan_without_gpus_names_none(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    """Memory, layouts and idle devices of a host without GPUs are those of its CPUs."""
    _, out, _ = run(capsys, "plan", "Qwen/Qwen3-4B", "--offline", "--vllm", "0.33.0", "--gpus", *words)

    assert "per CPU" in out
    assert "GPU" not in out
    assert not re.search("pcie|interconnect|nvlink", out, re.IGNORECASE)

    _, _, error = run(capsys, "plan", "Qwen/Qwen3-4B", "--offline", "--tp", "4", "--gpus", words[0])
    assert "the launch needs 4 CPUs" in error


@pytest.mark.parametrize("gpus", ["cpu-24GB", "MI300X"])
def test_files_are_written_for_nvidia_gpus_only(capsys: pytest.CaptureFixture[str], tmp_path: Path, gpus: str) -> None:
    """Compose files and units request NVIDIA GPUs, so that none is written for other devices."""
    status, _, error = run(
        capsys, "plan", "Qwen/Qwen3-0.6B", "--gpus", gpus, "--offline", "--deploy", str(tmp_path / "new")
    )

    assert status == 2
    assert "files are only written for NVIDIA GPUs; use the planned command" in error


def test_this_host_is_planned_with_its_own_memory() -> None:
    """`cpu` takes the memory that the host reports, not a size rounded and reduced again."""
    (card,) = loading.cards("cpu")
    here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB

    assert card.gpu.total is not None
    assert (card.gpu.total.low, card.gpu.total.expected, card.gpu.total.high) == (here,) * 3
    (named,) = loading.cards("cpu-64GB")
    assert named.gpu.total is not None
    assert named.gpu.total.low < 62.5 < named.gpu.total.high


@pytest.mark.parametrize(
    ("group", "limit", "at_root"),
    [("0::/\n", "memory.max", True), ("4:memory:/\n", "memory/memory.limit_in_bytes", True),
     ("0::/user.slice\n", "user.slice/memory.max", False)],
)  # fmt: skip
@pytest.mark.parametrize(("version", "reads"), [("0.23.0", False), ("0.24.0", True)])
def test_the_limit_of_a_container_is_planned_as_the_release_reads_it(
    tmp_path: Path, group: str, limit: str, version: str, *, at_root: bool, reads: bool
) -> None:
    """Since 0.24 vLLM takes its share of a container's limit; before, and in a systemd slice, the kernel ends it."""
    (tmp_path / "groups").write_text(group, "ascii")
    (tmp_path / limit).parent.mkdir(exist_ok=True)
    (tmp_path / limit).write_text(f"{3 * GIB}\n", "ascii")
    card = loading.this_cpu(tmp_path / "groups", tmp_path)
    assert (card.limit_gib, card.root_limit_gib) == (3.0, 3.0 if at_root else None)

    sources = PlanSources(planner.model, lambda _: None, lambda _: (card,), knowledge.knowledge)
    found = planned.plan(reading.read(sources, "Qwen/Qwen3-0.6B", "cpu", vllm=version, sizes={"tp": 1}))
    is_read = reads and at_root
    assert (found.per_gpu[0].total_gib == found.gpus[0].total_gib == 3.0) is is_read
    assert any("the control group of this process allows 3.00 GiB" in text for text in found.limits) is not is_read


def test_a_share_that_is_not_free_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """A worker asks for its share of the memory before it loads, which the system and other processes use as well."""
    plan = (
        "plan",
        "Qwen/Qwen3-0.6B",
        "--gpus",
        "cpu-24GB",
        "--offline",
        "--vllm",
        "0.32.0",
        "--gpu-memory-utilization",
    )

    status, out, _ = run(capsys, *plan, "1.0")
    assert status == 1
    assert "vLLM's check of free memory fails; lower it." in " ".join(out.split())
    assert run(capsys, *plan, "0.8")[0] == 0


def test_the_variable_is_compared_with_the_memory_of_all_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    """Each rank reserves it on its own node; a value of any length is answered in one line."""
    plan = ("plan", "Qwen/Qwen3-0.6B", "--offline", "--vllm", "0.33.0", "--env")

    two = ("--gpus", "2xcpu-64GB", "--tensor-parallel-size", "2")
    assert run(capsys, *plan, "VLLM_CPU_KVCACHE_SPACE=40", *two)[0] == 0
    assert run(capsys, *plan, "VLLM_CPU_KVCACHE_SPACE=" + "9" * 400, "--gpus", "cpu-64GB")[0] == 1
