"""The inventory of a host, from a recorded driver and snapshots, and its use as --gpus."""

from __future__ import annotations

import ast
import inspect
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from command_line import run
from pace import scaled
from rows import in_one_test
from vllm_runbooks import live, render
from vllm_runbooks.catalog import folders, room
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.specs import HostGpu
from vllm_runbooks.catalog.tables import FindingText, load_table
from vllm_runbooks.core.errors import CatalogError, InputError
from vllm_runbooks.host import gpu_memory, here, inventory, leftovers, memory_limit
from vllm_runbooks.host import inspection as inventories
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.host.processes import TAG
from vllm_runbooks.host.records import GpuFacts, GpuPair, GpuProcess, HostFacts, Inspected, Inventory, MigInstance
from vllm_runbooks.plan import planner, requests
from vllm_runbooks.probe.starts import LaunchResult
from vllm_runbooks.reading import evidence
from vllm_runbooks.runbooks import bench, case_files
from vllm_runbooks.serve import guard as serve
from vllm_runbooks.serve import preflight

jsonschema = pytest.importorskip("jsonschema")
SHARED = str(folders.cases_dir() / "host-8xa100-shared" / "inventory.json")
TOKEN = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY"
MIB = 1 << 20
A100 = "NVIDIA A100-SXM4-80GB"


class NVMLError(Exception):
    """An error of NVML."""

    def __init__(self, value: int) -> None:
        super().__init__({3: "Not Supported", 15: "GPU is lost"}.get(value, f"error {value}"))
        self.value = value


def readings(**more: Any) -> dict[str, Any]:
    """The driver's values for an idle A100, by function; `more` replaces some of them."""
    return {
        "nvmlDeviceGetName": A100,
        "nvmlDeviceGetUUID": b"GPU-5a1d",
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=81920 * MIB, used=0, free=81349 * MIB, reserved=571 * MIB),
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=0),
        "nvmlDeviceGetComputeRunningProcesses": [],
        "nvmlDeviceGetCudaComputeCapability": (8, 0),
        "nvmlDeviceGetMigMode": [0, 0],
        "nvmlDeviceGetPciInfo": SimpleNamespace(busId=b"00000000:3B:00.0"),
        "nvmlDeviceGetCurrPcieLinkGeneration": 1,
        "nvmlDeviceGetMaxPcieLinkGeneration": 4,
        "nvmlDeviceGetCurrPcieLinkWidth": 16,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetPowerUsage": 61250,
        "nvmlDeviceGetPowerManagementLimit": 400000,
        "nvmlDeviceGetPowerManagementDefaultLimit": 400000,
        "nvmlDeviceGetClockInfo": 210,
        "nvmlDeviceGetMaxClockInfo": 1410,
        "nvmlDeviceGetCurrentClocksEventReasons": 0x1 | 0x40,
        "nvmlDeviceGetEccMode": [1, 1],
        "nvmlDeviceGetTotalEccErrors": 0,
        "nvmlDeviceGetRetiredPages": [],
        "nvmlDeviceGetRemappedRows": (0, 2, 1, 0),
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetComputeMode": 0,
        "nvmlDeviceGetNvLinkState": 1,
        "nvmlSystemGetDriverVersion": "580.65.06",
        "nvmlSystemGetCudaDriverVersion_v2": 13000,
        "nvmlDeviceGetP2PStatus": 0,
        "nvmlDeviceGetTopologyCommonAncestor": 50,
        **more,
    }


Driver = Callable[..., None]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Replace NVML with recorded readings: a mapping per GPU, or its error.

    A single None: the library is missing.
    """

    def installed(*cards: Mapping[str, Any] | NVMLError | None) -> None:
        def handle_of(index: int) -> int:
            there = cards[index]
            if isinstance(there, NVMLError):
                raise there
            return index

        stand_in = ModuleType("pynvml")
        told: dict[str, Any] = {
            "NVMLError": NVMLError,
            "NVML_ERROR_NOT_SUPPORTED": 3,
            "NVML_NVLINK_MAX_LINKS": 4,
            "nvmlMemory_v2": 33554472,
            "nvmlInit": lambda: None,
            "nvmlDeviceGetCount": lambda: len(cards),
            "nvmlDeviceGetHandleByIndex": handle_of,
        }

        def asked(name: str) -> Any:
            def answer(handle: int = 0, *more: Any) -> Any:
                there = cards[handle if handle < len(cards) else 0]
                value = there.get(name, NVMLError(3)) if isinstance(there, Mapping) else NVMLError(3)
                if isinstance(value, Exception):
                    raise value
                return value(*more) if callable(value) else value

            if name in told:
                return told[name]
            if name.startswith("nvml"):
                return answer
            raise AttributeError(name)

        def missing() -> None:
            raise NVMLError(12)

        if cards == (None,):
            told["nvmlInit"] = missing
        stand_in.__getattr__ = asked  # type: ignore[method-assign]
        monkeypatch.setitem(sys.modules, "pynvml", stand_in)
        monkeypatch.setattr(gpu_memory, "here", lambda: here.HostIdentity(None, None, "test"))
        monkeypatch.setattr(inventory, "_xids", lambda: [("0000:3b:00", 79)])

    return installed


def write(folder: Path, text: str | Mapping[str, Any], name: str = "host.json") -> str:
    """A snapshot's file."""
    path = folder / name
    path.write_text(text if isinstance(text, str) else json.dumps(text), "utf-8")
    return str(path)


def snapshot(*gpus: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A snapshot of these GPUs."""
    return {"schema": 2, "kind": "inventory", "gpus": [{"index": n, **gpu} for n, gpu in enumerate(gpus)], **more}


def ids(found: Inspected) -> list[str]:
    """Of the findings."""
    return [one.id for one in found.findings]


def inspected(*gpus: GpuFacts, **more: Any) -> Inspected:
    """The inventory of a host with these GPUs."""
    return inventories.inspect(Inventory(gpus=gpus, **more), catalog.specs())


# ---- the driver


def test_every_reading_of_a_gpu_has_its_field(driver: Driver) -> None:
    """In its unit; an error of the kernel belongs to the GPU with its bus address."""
    driver(readings(), readings(nvmlDeviceGetPciInfo=SimpleNamespace(busId="00000000:AF:00.0")))

    found = inventory.collect()

    assert (found.driver, found.cuda, found.no_gpus_reason) == ("580.65.06", "13.0", None)
    one = found.gpus[0]
    assert (one.name, one.uuid, one.total_mib, one.reserved_mib, one.used_mib) == (A100, "GPU-5a1d", 81920, 571, 0)
    assert (one.capability, one.is_mig, one.is_ecc_on, one.is_persistent) == ("8.0", False, True, True)
    assert (one.pcie_generation, one.pcie_generation_max, one.pcie_width) == (1, 4, 16)
    assert (one.power_w, one.power_limit_w, one.clock_mhz, one.clock_max_mhz) == (61.25, 400, 210, 1410)
    assert (one.throttled_by, one.remapped_rows, one.is_remap_pending) == (("hardware thermal slowdown",), 2, True)
    assert (one.compute_mode, one.nvlinks, one.xids, one.processes) == ("default", 4, (79,), ())
    assert found.gpus[1].xids == ()
    assert found.pairs == (GpuPair(0, 1, "ok", "ok", "ok", "ok", "system"),)


def test_a_driver_without_readings_leaves_all_unknown(driver: Driver) -> None:
    """Each error is None, never a default; "not supported" means that NVLink is absent."""
    driver({}, {})

    found = inventory.collect()

    told = {name for name, value in vars(found.gpus[0]).items() if value not in (None, ())}
    assert told <= {"index", "is_mig", "is_ecc_on", "nvlinks"}
    assert {name: getattr(found.gpus[0], name) for name in ("is_mig", "nvlinks")} == {
        "is_mig": False,
        "nvlinks": 0,
    }
    assert found.pairs == (GpuPair(0, 1),)
    assert [each.fact for each in inventories.inspect(found, catalog.specs()).unknown if "memory in use" in each.fact]


@pytest.mark.parametrize("value", [1, 2, 4, 6, 9, 999])
def test_other_errors_leave_a_feature_unknown(driver: Driver, value: int) -> None:
    """Without permission, or after an error, the presence of NVLink is unknown."""
    driver({name: NVMLError(value) for name in readings()})

    one = inventory.gpus_alone().gpus[0]

    assert {name for name, told in vars(one).items() if told not in (None, ())} == {"index"}


def test_a_lost_gpu_leaves_the_others_readable(
    driver: Driver, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the driver's error, and no plan, watch or launch selects it."""
    monkeypatch.setattr(inventory, "_host", HostFacts)
    driver(readings(), NVMLError(15), readings())

    status, out, err = run(capsys, "inventory", "--format", "json")

    told = json.loads(out)
    assert (status, err, told["no_gpus_reason"]) == (1, "", None)
    assert [(one["index"], one["name"], one["error"]) for one in told["gpus"]] == [
        (0, A100, None), (1, None, "GPU is lost"), (2, A100, None),
    ]  # fmt: skip
    assert [(one["first"], one["second"]) for one in told["pairs"]] == [(0, 2)]
    assert [(one["id"], one["gpus"]) for one in told["findings"] if one["severity"] == "fatal"] == [("gpu.lost", [1])]
    assert "gpu.unequal" not in {one["id"] for one in told["findings"]}
    assert all(1 not in one["gpus"] for one in told["unknown"])
    assert [card.number for card in host_loading.cards("local")] == [0, 2]

    found = inventory.watched(catalog.specs(), samples=2, every_s=0).recommendation
    assert found is not None
    assert {one.index: one.is_suitable for one in found.ranked} == {0: True, 2: True, 1: False}
    assert found.ranked[-1].reason.startswith("cannot be reached through the driver (GPU is lost)")

    start = serve.subject(["vllm", "serve", "m", "-tp", "2"], vllm="0.32.0", environment={})
    assert preflight.host_of(start, gpu_memory.Nvml(), "", None).numbers == (0, 2)
    named = serve.subject(["vllm", "serve", "m"], vllm="0.32.0", environment={"CUDA_VISIBLE_DEVICES": "1"})
    host = preflight.host_of(named, gpu_memory.Nvml(), "", None)
    check = preflight.memory(named, host, serve.Steady(2, 0, 64, 0), print, lambda: False)
    assert (check.result, check.message.partition(";")[0]) == (
        LaunchResult.FAILED, "GPU 1 cannot be reached through the driver (GPU is lost)",
    )  # fmt: skip

    driver(NVMLError(15))
    status, out, err = run(capsys, "plan", "Qwen/Qwen3-8B", "--gpus", "local")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "no usable GPU: GPU 0 cannot be reached through the driver (GPU is lost)" in err


def test_a_snapshot_and_a_watch_read_the_same_memory(driver: Driver) -> None:
    """Memory reserved by the driver is neither used nor free; older drivers count it as used."""

    def new(*version: int) -> SimpleNamespace:
        used = (2048 + 571 * (not version)) * MIB
        total = 81920 * MIB
        free = total - (2048 + 571) * MIB
        return SimpleNamespace(total=total, used=used, free=free, **({"reserved": 571 * MIB} if version else {}))

    def old(*version: int) -> SimpleNamespace:
        if version:
            raise NVMLError(13)
        return new()

    seen = {}
    for name, answer in (("new", new), ("old", old)):
        driver(readings(nvmlDeviceGetMemoryInfo=answer))
        [facts], [card] = inventory.gpus_alone().gpus, gpu_memory.Nvml().read().cards
        assert (facts.total_mib, facts.reserved_mib, facts.used_mib) == (
            card.total_mib, card.reserved_mib, card.used_mib,
        )  # fmt: skip
        watched = inventory.watched(catalog.specs(), samples=2, every_s=0).recommendation
        looked = inventories.inspect(inventory.gpus_alone(), catalog.specs()).recommendation
        assert watched is not None
        assert looked is not None
        assert watched.ranked[0].free_mib == looked.ranked[0].free_mib == card.unused_mib == facts.free_mib
        seen[name] = (card.usable_mib, card.used_mib)
    assert seen == {"new": (81349, 2048), "old": (81920, 2619)}


def test_unknown_processes_stay_unknown(driver: Driver, tmp_path: Path) -> None:
    """A driver or series without processes does not mean that there are none."""
    driver(readings(nvmlDeviceGetComputeRunningProcesses=NVMLError(3), nvmlDeviceGetMigMode=NVMLError(4)))
    [card] = gpu_memory.Nvml().read().cards
    assert (card.processes, card.is_mig) == (None, None)
    path = series(tmp_path, {0: (0.0, 0.0)}, {0: (0.0, 0.0)})
    for found in (
        inventory.watched(catalog.specs(), samples=2, every_s=0), inventory.recorded(path, catalog.specs()),
    ):  # fmt: skip
        assert found.recommendation is not None
        assert found.recommendation.reason.endswith("processes unknown")
        assert {"processes", "MIG instances"} <= {one.fact for one in found.unknown}

    driver(readings())
    found = inventory.watched(catalog.specs(), samples=2, every_s=0)
    assert found.recommendation is not None
    assert found.recommendation.reason.endswith("no other processes")
    assert (found.gpus[0].is_mig, found.gpus[0].processes) == (False, ())
    told, untold = gpu_memory.Nvml().read(), gpu_memory.Recorded(Path(series(tmp_path, {0: (0.0, 0.0)}))).read()
    assert [use.processes for use in inventory.uses([told, told], {})] == [()]
    assert [use.processes for use in inventory.uses([told, untold], {})] == [None]
    holder = SimpleNamespace(pid=2**22 + 5, usedGpuMemory=None)
    driver(readings(nvmlDeviceGetComputeRunningProcesses=[holder]))
    held = gpu_memory.Nvml().read()
    assert [use.processes for use in inventory.uses([held, untold], {})] == [(f"process {2**22 + 5}",)]


@pytest.mark.parametrize(
    ("process", "said"),
    [
        (GpuProcess(7), "process 7"),
        (GpuProcess(7, command="python train.py"), "process 7 (python)"),
        (GpuProcess(7, "ann", "python train.py"), "process 7 of ann (python)"),
        (GpuProcess(7, command="  ", is_host_pid=True), "process 7 of the host"),
    ],
)
def test_a_process_has_the_same_name_everywhere(process: GpuProcess, said: str) -> None:
    """In the table, in a finding, and in the choice of a GPU."""
    found = inspected(card(name=A100, total_mib=81920, used_mib=4096, busy_percent=0, processes=(process,)))

    assert process.says == said
    assert said in render.inventories.host(found).plain
    assert any(f"in use by {said}; if" in one.text for one in found.findings)
    assert found.recommendation is not None
    assert found.recommendation.reason.endswith(f"shared with {said}")


@pytest.mark.parametrize(
    ("bus", "expected"),
    [("00000000:3B:00.0", 0), ("00010000:3B:00.0", 1), ("0000ABCD:3B:00.0", 2), ("", None), ("x:3B:00.0", None)],
)
def test_the_numa_node_of_a_gpu_is_found_by_its_pci_domain(tmp_path: Path, bus: str, expected: int | None) -> None:
    """The kernel writes a domain beyond 16 bits, as of VMD, with more than four digits."""
    for node, name in enumerate(("0000:3b:00.0", "10000:3b:00.0", "abcd:3b:00.0")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "numa_node").write_text(f"{node}\n", "ascii")

    assert inventory._numa(bus, tmp_path) == expected


def test_a_missing_driver_is_a_normal_result(
    driver: Driver, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The host has no GPU and a reason; --gpus reports an error, and a watch recommends nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    driver(None)

    status, out, err = run(capsys, "inventory", "--format", "json")
    told = json.loads(out)
    assert (err, told["gpus"], told["recommendation"]) == ("", [], None)
    assert "no NVIDIA driver" in told["no_gpus_reason"]
    assert status == int(any(one["severity"] != "hint" for one in told["findings"]))

    assert run(capsys, "inventory", "--watch")[:2] == (
        1,
        "NO GPU   No NVIDIA driver on this host (error 12)\n",
    )
    for command in (
        ("plan", "Qwen/Qwen3-8B", "--gpus", "local"),
        ("lint", "--gpus", "LOCAL", "--", "vllm", "serve", "m"),
    ):
        status, out, err = run(capsys, *command)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "no NVIDIA driver" in err
        assert "name the GPUs" in err


def test_plans_use_the_gpus_of_this_host(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    """`local` reads the driver's GPUs, and the idle one is selected by number."""
    busy = SimpleNamespace(total=81920 * MIB, used=40000 * MIB, free=41349 * MIB, reserved=571 * MIB)
    driver(readings(nvmlDeviceGetMemoryInfo=busy), readings())

    status, out, _ = run(capsys, "plan", "Qwen/Qwen3-8B", "--gpus", "local", "--tp", "1", "--format", "json")

    told = json.loads(out)
    assert (status, told["fits"], told["deployment"]["env"]["CUDA_VISIBLE_DEVICES"]) == (0, True, "1")
    assert told["gpus"][0]["total_gib"] == pytest.approx((81920 - 571) / 1024, abs=1e-4)
    assert told["gpus"][0]["source"].startswith("read from the driver: 81,920 MiB, of which 571 is reserved")


def test_secrets_of_processes_are_hidden(driver: Driver, tmp_path: Path) -> None:
    """Processes have user, command and container; a key on the command line is hidden."""
    command = [sys.executable, "-c", "import time; time.sleep(60)", f"--hf-token={TOKEN}"]
    with subprocess.Popen(command) as child_of_ours:
        child = child_of_ours.pid
        holder = SimpleNamespace(pid=child, usedGpuMemory=2048 * MIB)
        gone = SimpleNamespace(pid=2**22 + 5, usedGpuMemory=None)
        driver(readings(nvmlDeviceGetComputeRunningProcesses=[holder, gone]))

        found = inventory.collect(starts=tmp_path)
        child_of_ours.kill()

    first, second = found.gpus[0].processes or ()
    assert (first.pid, first.used_mib, first.orphan, first.is_host_pid) == (child, 2048, "", False)
    assert first.user
    assert "--hf-token=" in (first.command or "")
    assert TOKEN not in render.inventories.snapshot_json(found)
    assert (second.user, second.command, second.container, second.used_mib) == (None, None, None, None)


def test_a_mig_gpu_is_listed_with_its_instances(driver: Driver) -> None:
    """No plan may use it as a whole."""
    driver(
        readings(nvmlDeviceGetMigMode=[1, 1], nvmlDeviceGetMaxMigDeviceCount=2, nvmlDeviceGetMigDeviceHandleByIndex=0)
    )

    found = inventory.collect()

    assert [part.uuid for part in found.gpus[0].mig_instances] == ["GPU-5a1d", "GPU-5a1d"]
    assert "gpu.parted" in ids(inventories.inspect(found, catalog.specs()))
    with pytest.raises(InputError, match="divided into instances"):
        inventories.cards(found, catalog.specs(), "here")


def test_errors_are_read_from_the_kernel_log(tmp_path: Path) -> None:
    """By bus address; without permission to read the log, their absence is unknown."""
    lines = (
        "4,1,2,-;NVRM: loading NVIDIA UNIX Open Kernel Module\n"
        "4,2,3,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    )

    assert inventory._xids(write(tmp_path, lines, "kmsg")) == [("0000:3b:00", 79)]
    assert inventory._xids(write(tmp_path, "", "empty")) == []
    assert inventory._xids(str(tmp_path / "refused")) is None


def test_a_process_left_by_an_earlier_launch_is_named(driver: Driver, tmp_path: Path) -> None:
    """As in `leftovers`: it carries the mark of a launch whose supervisor has ended."""
    with subprocess.Popen(["true"]) as guard:
        pass
    (tmp_path / "m1").mkdir()
    write(tmp_path / "m1", leftovers.written("m1", guard.pid, {}), leftovers.RECORD)
    with subprocess.Popen(["sleep", "60"], env={**os.environ, TAG: "m1"}) as child:
        holder = SimpleNamespace(pid=child.pid, usedGpuMemory=2048 * MIB)
        driver(readings(nvmlDeviceGetComputeRunningProcesses=[holder]))
        found = inventory.collect(starts=tmp_path)
        child.kill()

    [process] = found.gpus[0].processes or ()
    assert "is marked as part of launch m1, whose supervisor has ended" in (process.orphan or "")
    [said] = [one for one in inventories.inspect(found, catalog.specs()).findings if one.id == "gpu.orphan"]
    assert "vllm-runbooks leftovers" in said.do


def test_in_a_container_process_numbers_are_the_hosts(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver reports this process's number, and means another process."""
    holder = SimpleNamespace(pid=os.getpid(), usedGpuMemory=None)
    driver(readings(nvmlDeviceGetComputeRunningProcesses=[holder]))
    monkeypatch.setattr(gpu_memory, "here", lambda: here.HostIdentity(4026532000, None, "test"))

    assert inventory.collect().gpus[0].processes == (GpuProcess(os.getpid(), is_host_pid=True),)


def test_functions_used_of_nvml_exist() -> None:
    """Each called function exists in the installed library with this number of parameters."""
    pynvml: Any = pytest.importorskip("pynvml")
    asked = [
        (str(node.args[0].value), len(node.args) - 1)
        for module in (inventory, gpu_memory)
        for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "ask"
        if isinstance(node.args[0], ast.Constant)
    ]

    assert len(asked) > 30
    for name, count in asked:
        if name != "nvmlDeviceGetCurrentClocksThrottleReasons":  # of older ones
            inspect.signature(getattr(pynvml, name)).bind(*range(count))
    assert (pynvml.NVML_P2P_CAPS_INDEX_WRITE, pynvml.NVML_P2P_CAPS_INDEX_NVLINK) == (1, 2)
    assert pynvml.NVML_TOPOLOGY_SYSTEM in inventory._PATHS


def test_gpus_of_other_vendors_are_counted_and_not_read(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Device nodes of CPUs in their driver do not count."""
    for number, gpu_id in enumerate((0, 0, 5312, 9001)):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "gpu_id").write_text(f"{gpu_id}\n", "ascii")
    amd = inventory._amd
    driver(None)
    monkeypatch.setattr(inventory, "_amd", lambda _: amd(tmp_path))

    found = inventory.collect()

    assert found.host.foreign_gpus == 2
    assert (found.no_gpus_reason or "").endswith("; 2 AMD GPUs found, which are not supported")


def test_packages_are_those_of_the_given_python(capsys: pytest.CaptureFixture[str]) -> None:
    """Another Python is queried; an invalid one is rejected in one line."""
    version, packages = inventory._software(sys.executable)
    assert version == ".".join(map(str, sys.version_info[:3]))
    assert "vllm-runbooks" in packages
    assert "pytest" not in packages

    for python in ("/nowhere/python", "/bin/true"):
        status, out, err = run(capsys, "inventory", "--python", python)
        assert (status, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": "4096", "a/memory.current": "1024"}, (4096, 1024)),
        ("0::/a", {"a/memory.max": "max"}, (-1, None)),
        ("0::/gone", {"memory.max": "8192"}, (8192, None)),
        ("0::/", {}, (None, None)),
        (
            "9:memory:/x",
            {"memory/x/memory.limit_in_bytes": "4096", "memory/x/memory.usage_in_bytes": "96"},
            (4096, 96),
        ),
        ("9:memory:/x", {"memory/x/memory.limit_in_bytes": "9223372036854771712"}, (-1, None)),
        ("0::/a", {"a/memory.max": "what"}, (None, None)),
    ],
)
def test_the_memory_limit_is_that_of_the_tightest_group(
    tmp_path: Path, own: str, files: Mapping[str, str], expected: tuple[int | None, int | None]
) -> None:
    """Of both versions of control groups, outer ones counted; no limit is not an unknown one."""
    (tmp_path / "own").write_text(f"{own}\n", "utf-8")
    for name, text in files.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(f"{text}\n", "ascii")

    assert memory_limit.limit(tmp_path / "own", tmp_path / "root") == expected


# ---- findings


def card(index: int = 0, **more: Any) -> GpuFacts:
    """A GPU with these facts."""
    return GpuFacts(index, **more)


TWO = (card(0, name=A100), card(1, name=A100))
HOLDER = GpuProcess(7, "ann", "python train.py", "", 30000.0, orphan="")


@in_one_test(
    ("host", "expected"),
    [
        (Inventory(gpus=(card(pcie_width=4, pcie_width_max=4), card(1))), "gpu.link_narrow"),
        (Inventory(gpus=(card(pcie_width=8, pcie_width_max=16),)), "gpu.link_narrow"),
        (Inventory(gpus=(card(pcie_generation=1, pcie_generation_max=4),)), "gpu.link_slow"),
        (Inventory(gpus=(card(error="GPU is lost"),)), "gpu.lost"),
        (Inventory(gpus=(card(is_mig=True, mig_instances=(MigInstance(),)),)), "gpu.parted"),
        (Inventory(gpus=(card(ecc_uncorrected=2),)), "gpu.memory_errors"),
        (Inventory(gpus=(card(is_remap_pending=True),)), "gpu.remap_pending"),
        (Inventory(gpus=(card(is_remap_failed=True),)), "gpu.remap_failed"),
        (Inventory(gpus=(card(retired_pages=1),)), "gpu.memory_retired"),
        (Inventory(gpus=(card(xids=(79, 79, 31)),)), "gpu.xid"),
        (Inventory(gpus=(card(compute_mode="exclusive process"),)), "gpu.exclusive"),
        (Inventory(gpus=(card(compute_mode="prohibited"),)), "gpu.prohibited"),
        (Inventory(gpus=(card(throttled_by=("heat",)),)), "gpu.slowed"),
        (Inventory(gpus=(card(power_limit_w=250, power_limit_default_w=400),)), "gpu.power_limited"),
        (Inventory(gpus=(card(is_persistent=False),)), "gpu.persistence_off"),
        (Inventory(gpus=(card(used_mib=30000, processes=(HOLDER,)),)), "gpu.memory_taken"),
        (Inventory(gpus=(card(name=A100, used_mib=30000),)), "gpu.no_room"),
        (Inventory(gpus=(card(busy_percent=80),)), "gpu.busy"),
        (Inventory(gpus=(card(processes=(GpuProcess(7, orphan="its guard is gone"),)),)), "gpu.orphan"),
        (Inventory(gpus=(card(capability="6.1"),)), "gpu.too_old"),
        (Inventory(gpus=(card(capability="7.5"),)), "gpu.no_bfloat16"),
        (Inventory(gpus=(card(name="RTX 3090"),)), "gpu.no_fp8"),
        (Inventory(gpus=(card(name="A"), card(1, name="B"))), "gpu.unequal"),
        (Inventory(gpus=TWO, pairs=(GpuPair(0, 1, read="chipset not supported"),)), "gpu.no_peer"),
        (Inventory(gpus=(card(nvlinks=0), card(1, nvlinks=0))), "gpu.no_nvlink"),
        (Inventory(gpus=TWO, pairs=(GpuPair(0, 1, nvlink="not supported", path="system"),)), "gpu.far_apart"),
        (Inventory(gpus=TWO, host=HostFacts(shm_mib=64)), "host.shm_small"),
        (Inventory(host=HostFacts(memlock_mib=8, rdma_devices=2)), "host.memlock"),
        (Inventory(host=HostFacts(memlock_mib=0.0625, rdma_devices=2)), "host.memlock"),
        (Inventory(host=HostFacts(open_files_max=1024)), "host.open_files"),
        (Inventory(gpus=TWO, host=HostFacts(memory_limit_mib=4096)), "host.memory_limit"),
        (Inventory(gpus=TWO, cuda="12.4", packages={"torch": "2.11.0+cu130"}), "host.driver_too_old"),
        (Inventory(gpus=TWO, cuda="12.4", packages={"torch": "2.11.0", "nvidia-cuda-runtime": "13.0.96"}),
         "host.driver_too_old"),
        (Inventory(host=HostFacts(foreign_gpus=8)), "host.foreign_cards"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_fact_has_its_finding(host: Inventory, expected: str) -> None:
    """Each rule matches its fact, states what to do, and names its source."""
    found = [one for one in inventories.inspect(host, catalog.specs()).findings if one.id == expected]

    assert found
    assert all(one.text and one.do and one.source for one in found)


def test_every_rule_is_tried() -> None:
    """A new meaning needs an example above."""
    test: Any = test_a_fact_has_its_finding
    tried = {id_ for _, id_ in test.rows}

    assert tried == inventories.IDS == set(load_table("host_findings", FindingText))


@pytest.mark.parametrize(
    "host",
    [
        Inventory(gpus=(card(pcie_width=16, pcie_width_max=16, pcie_generation=4, pcie_generation_max=4),)),
        Inventory(gpus=(card(pcie_width=4, pcie_width_max=4),)),  # a single GPU has no links
        Inventory(gpus=(card(used_mib=500, busy_percent=3, processes=()),)),
        Inventory(gpus=(card(power_limit_w=400, power_limit_default_w=400, throttled_by=("power cap",), xids=()),)),
        Inventory(gpus=(card(capability="9.0", compute_mode="default", is_persistent=True, ecc_uncorrected=0),)),
        Inventory(gpus=(card(),), host=HostFacts(shm_mib=64)),
        Inventory(host=HostFacts(memlock_mib=8, rdma_devices=0, open_files_max=-1)),
        Inventory(host=HostFacts(memlock_mib=-1, rdma_devices=2, memory_limit_mib=-1, foreign_gpus=0)),
        Inventory(host=HostFacts(memlock_mib=1 << 20, rdma_devices=2)),
        Inventory(gpus=(card(capability="9.0"),), cuda="12.4", packages={"torch": "2.9.0+cu129"}),
        Inventory(gpus=(card(capability="9.0"),), cuda="13.0", packages={"torch": "2.9.0+cu128"}),
        Inventory(gpus=(card(capability="9.0", name="X"), card(1, capability="9.0", name="X")),
                  pairs=(GpuPair(0, 1, "ok", "ok", "ok", "ok", "system"),)),
    ],
)  # fmt: skip
def test_a_healthy_fact_has_no_finding(host: Inventory) -> None:
    """The near miss of each rule stays silent."""
    assert ids(inventories.inspect(host, catalog.specs())) == []


def test_unknown_facts_are_listed_and_have_no_finding() -> None:
    """A GPU without any known fact, not even its name."""
    found = inspected(card(3), card(5))

    assert found.findings == ()
    assert {"compute capability", "memory in use", "processes"} <= {one.fact for one in found.unknown}
    assert all(one.gpus in ((3, 5), ()) for one in found.unknown)
    shown = " ".join(render.inventories.text(found).split())
    assert "GPUs 3, 5: compute capability" in shown
    assert "host and GPU links: CUDA version of the driver" in shown


def test_a_limit_is_a_number_absent_or_unknown() -> None:
    """The three cases are distinguished."""
    facts = HostFacts(memlock_mib=-1, open_files=1024, shm_mib=0)
    shown = render.inventories.text(inspected(host=facts))

    assert "shm: 0 MiB, unknown free" in shown
    assert "locked memory limit: no limit; open files limit: 1,024 (hard limit: unknown)" in shown


def test_a_narrow_link_slows_tensor_parallelism_only_with_several_gpus() -> None:
    """With one GPU only loading the weights is slower."""
    narrow = card(pcie_width=4, pcie_width_max=16)
    alone, beside = (
        next(one.text for one in inspected(*gpus).findings if one.id == "gpu.link_narrow")
        for gpus in ((narrow,), (narrow, card(1)))
    )

    assert "tensor parallelism" not in alone
    assert "tensor parallelism over it is slow" in beside


def test_a_link_that_is_slow_under_load_is_reported() -> None:
    """An idle GPU reduces its link speed; a busy one does not."""
    idle, busy = (
        inspected(card(pcie_generation=1, pcie_generation_max=4, busy_percent=load)).findings for load in (0, 90)
    )

    assert "idle GPUs lower it, check" in idle[0].text
    assert "under load" in next(one.text for one in busy if one.id == "gpu.link_slow")


def test_findings_of_the_table_are_documented() -> None:
    """Every id is explained on the page."""
    page = (folders.catalog_dir().parent / "docs" / "inventory.md").read_text("utf-8")

    assert sorted(name for name in inventories.IDS if f"`{name}`" not in page) == []


# ---- choice of a GPU


@pytest.mark.parametrize("name", ["host-8xa100-shared", "host-8x3090", "host-1xa100"])
def test_recorded_hosts_have_their_expected_findings(name: str) -> None:
    """`check` compares the findings and recommendation of a snapshot with its case."""
    judged = bench.verdict_alone(str(folders.cases_dir() / name))["verdict"]

    assert (judged["verdict"], judged["case"]) == ("pass", name)
    assert host_loading.inventory(name).constructed


def test_a_host_with_other_findings_fails(tmp_path: Path) -> None:
    """An additional finding, a missing one, another GPU."""
    case = (folders.cases_dir() / "host-8xa100-shared" / "case.yaml").read_text("utf-8")
    for old, new, said in (
        ("gpu.busy, ", "", "finding gpu.busy: found, not expected"),
        ("gpu.busy", "gpu.busy, gpu.xid", "finding gpu.xid: expected, not found"),
        ("recommended: 4", "recommended: 1", "recommended: expected 1, got 4"),
        ("recommended: 4", "recommended: none", "recommended: expected none, got 4"),
    ):
        folder = tmp_path / "host-8xa100-shared"
        folder.mkdir(exist_ok=True)
        (folder / "case.yaml").write_text(case.replace(old, new), "utf-8")
        write(folder, Path(SHARED).read_text("utf-8"), "inventory.json")

        judged = bench.verdict_alone(str(folder))["verdict"]

        assert (judged["verdict"], judged["reason"]) == ("fail", said)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("gpu.busy", "gpu.bussy", "'gpu.bussy' is not a finding about a host"),
        ("recommended: 4", "outcome: failed", "compares only what a host snapshot does not have"),
        (
            "expect:",
            "runbooks: [shared-gpu-profiling]\nexpect:",
            "must be empty: a host snapshot needs no runbook",
        ),
        ("inventory.json", "startup.log", "requires a host snapshot"),
    ],
)
def test_a_broken_case_of_a_host_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    """With its line, when the catalog is checked."""
    case = (folders.cases_dir() / "host-8xa100-shared" / "case.yaml").read_text("utf-8")
    (tmp_path / "case.yaml").write_text(case.replace(old, new), "utf-8")
    write(tmp_path, "{}", "startup.log")
    write(tmp_path, Path(SHARED).read_text("utf-8"), "inventory.json")

    with pytest.raises(CatalogError, match=said):
        case_files.read_case(tmp_path / "case.yaml")

    write(tmp_path, "{", "inventory.json")
    (tmp_path / "case.yaml").write_text(case, "utf-8")
    with pytest.raises(CatalogError, match="invalid JSON"):
        case_files.read_case(tmp_path / "case.yaml")


def series(folder: Path, *looks: Mapping[int, tuple[float | None, float | None]], step_s: float = 0.01) -> str:
    """A recorded series: memory in use in MiB and utilization in percent, by GPU."""
    lines = [
        {
            "at_s": number * step_s,
            "gpus": [
                {"index": index, "name": A100, "total_mib": 81920, "used_mib": used, "busy_percent": busy}
                for index, (used, busy) in look.items()
            ],
        }
        for number, look in enumerate(looks)
    ]
    return write(folder, "".join(f"{json.dumps(line)}\n" for line in lines), "series.jsonl")


DOCUMENT = {
    0: (36864.0, 100.0), 1: (2867.0, 20.0), 2: (None, None), 3: (2765.0, 100.0), 4: (0.0, 0.0), 5: (None, None),
    6: (None, None), 7: (None, None),
}  # fmt: skip
"""Values of published field notes on eight GPUs."""


def test_on_the_figures_of_the_field_notes_gpu_4_is_recommended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its reason and its alternatives; the JSON matches its schema."""
    watched = ("inventory", "--watch", "--gpu-memory", series(tmp_path, DOCUMENT, DOCUMENT, DOCUMENT))

    status, out, err = run(capsys, *watched, "--format", "json")

    told = json.loads(out)["recommendation"]
    assert (status, err, told["gpu"], told["samples"], told["seconds"]) == (0, "", 4, 3, 0.02)
    assert [one["index"] for one in told["ranked"]][:2] == [4, 1]
    assert all(one["reason"] for one in told["ranked"])
    assert {one["index"] for one in told["ranked"] if one["is_suitable"] is None} == {2, 5, 6, 7}
    schema = json.loads((folders.catalog_dir() / "schema" / "inventory.json").read_text("utf-8"))
    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(json.loads(out))] == []
    status, out, _ = run(capsys, *watched)
    assert status == 0
    assert out.startswith("GPU 4    3 readings in 0.0 s\n")
    assert "CUDA_VISIBLE_DEVICES=4 vllm-runbooks serve -- vllm serve MODEL" in out


def test_a_recorded_series_is_read_without_waiting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its lines are the samples, with their times; a rise in the last one counts."""
    climbs = [{0: (0.0, 0.0), 1: (0.0, 3.0)}] * 4 + [{0: (80000.0, 0.0), 1: (0.0, 3.0)}]
    began = time.monotonic()

    found = live.watched(series(tmp_path, *climbs, step_s=5.0)).recommendation
    status, out, _ = run(capsys, "inventory", "--watch", "--gpu-memory", series(tmp_path, *climbs, step_s=5.0))

    assert time.monotonic() - began < scaled(5)
    assert found is not None
    assert (found.gpu, found.samples, found.seconds, found.ranked[-1].memory_change_mib) == (1, 5, 20.0, 80000.0)
    assert "other processes allocated memory while watching" in found.ranked[-1].reason
    assert (status, out.splitlines()[0]) == (0, "GPU 1    5 readings in 20.0 s")
    one = live.watched(series(tmp_path, climbs[0])).recommendation
    assert one is not None
    assert (one.gpu, one.samples, one.seconds) == (0, 1, 0.0)
    assert one.note.startswith("one reading shows no trend")
    assert "rests" not in one.reason
    with pytest.raises(InputError, match="a series has its own readings and times"):
        live.watched(series(tmp_path, climbs[0]), looks=3)


def test_a_gpu_with_unknown_utilization_is_never_suitable(tmp_path: Path) -> None:
    """It ranks below an idle GPU and above one with fewer facts."""
    look = {0: (None, None), 1: (0.0, None), 2: (5000.0, 10.0), 3: (70000.0, None)}
    path = series(tmp_path, look, look)

    found = inventory.recorded(path, catalog.specs()).recommendation
    untold = inventory.recorded(series(tmp_path, {3: (2765.0, None)}), catalog.specs()).recommendation

    assert found is not None
    assert (found.gpu, [(one.index, one.is_suitable) for one in found.ranked]) == (
        2, [(2, True), (1, None), (0, None), (3, False)],
    )  # fmt: skip
    assert found.ranked[1].reason.startswith("as far as known: 80.0 GiB free of 80.0 GiB; its memory is steady")
    assert "utilization unknown" in found.ranked[1].reason
    assert untold is not None
    assert (untold.gpu, untold.ranked[0].is_suitable) == (None, None)


CARD = {"index": 3, "name": A100, "total_mib": 81153, "used_mib": 100}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"at_s": 1, "gpus": [{**CARD, "used_mib": 999999999}]}, "GPU 3: used_mib is 999999999, and total_mib 81153"),
        ({"at_s": 1, "gpus": [{**CARD, "reserved_mib": 81100}]}, "GPU 3: used_mib and reserved_mib are 81200"),
        ({"at_s": 1, "gpus": [{**CARD, "busy_percent": 140}]}, "GPU 3: busy_percent is 140, must be at most 100"),
        ({"at_s": 1, "gpus": [{**CARD, "total_mib": 0}]}, "GPU 3: total_mib is 0"),
        ({"at_s": 1, "gpus": [{**CARD, "utilization": 5}]}, "gpus[0].utilization: unknown field; remove"),
        (
            {"at_s": 1, "gpus": [{**CARD, "processes": [{"pid": 1, "gib": 5}]}]},
            "gpus[0].processes[0].gib: unknown field; remove",
        ),
        ({"at_s": 1, "gpus": [CARD], "busy": 1}, "busy: unknown field; remove"),
        ({"at_s": 1, "gpus": [CARD, CARD]}, "gpus: lists GPU 3 twice"),
        ({"at_s": 1, "gpus": [{"name": A100}]}, "gpus[0].index: missing"),
        ({"gpus": [CARD]}, "at_s: missing"),
        ({"at_s": 10**400, "gpus": [CARD]}, "at_s: must be a number"),
        ({"at_s": "1", "gpus": [CARD]}, "at_s: must be a number"),
        ({"at_s": 1, "gpus": [{**CARD, "used_mib": True}]}, "gpus[0].used_mib: must be a number"),
        ({"at_s": 1}, "is not a GPU memory reading; a line is {at_s, gpus: [{index, …}]}"),
        ({"at_s": -1, "gpus": [CARD]}, "at_s: must be a number"),
        ([], "is not a GPU memory reading"),
    ],
)
def test_an_impossible_line_of_a_series_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: Any, said: str
) -> None:
    """With file and line, by the watch and by the supervisor."""
    first = json.dumps({"at_s": 0, "gpus": [CARD]})
    path = write(tmp_path, f"{first}\n\n{json.dumps(line)}\n", "series.jsonl")

    for command in (
        ("inventory", "--watch", "--gpu-memory", path),
        ("serve", "--check", "--gpu-memory", path, "--", "vllm", "serve", "foo"),
    ):
        status, out, err = run(capsys, *command)

        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"vllm-runbooks: {path}:3: {said}")


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_a_series_that_is_not_a_regular_file_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A pipe without a writer, a folder, a device; the command does not wait."""
    monkeypatch.setattr(evidence, "_WRITER_SECONDS", 0.1)
    pipe = tmp_path / "ff"
    os.mkfifo(pipe)
    path, said = {
        "pipe": (f"{pipe}", "is a pipe without a writer"),
        "folder": (f"{tmp_path}", "is a folder, not a regular file"),
        "device": ("/dev/zero", "is a device, not a regular file"),
    }[kind]

    for command in (
        ("inventory", "--watch", "--gpu-memory", path),
        ("serve", "--check", "--gpu-memory", path, "--", "vllm", "serve", "foo"),
    ):
        status, out, err = run(capsys, *command)

        assert (status, out) == (2, "")
        assert err == f"vllm-runbooks: {path}: {said}; use a file with a series of GPU memory readings\n"


def test_a_series_may_come_through_a_pipe_with_a_writer(tmp_path: Path) -> None:
    """As of a shell's process substitution."""
    pipe = tmp_path / "ff"
    os.mkfifo(pipe)
    text = Path(series(tmp_path, DOCUMENT, DOCUMENT)).read_text("utf-8")
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()

    found = inventory.recorded(str(pipe), catalog.specs()).recommendation

    writer.join()
    assert found is not None
    assert (found.gpu, found.samples) == (4, 2)


def test_findings_that_differ_only_in_figures_are_one() -> None:
    """With all figures in the order of the GPUs; a common one appears once."""
    found = host_loading.inventory(SHARED)

    [taken] = [one for one in found.findings if one.id == "gpu.memory_taken"]

    assert taken.gpus == (0, 1, 3)
    assert taken.text.startswith("36.0, 2.8, 2.7 GiB of 79.2 GiB in use by other processes;")
    assert render.inventories.text(found).count("inventory --watch to choose a GPU") == 1


def test_the_case_of_a_snapshot_names_its_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    """By its id, also of a recorded host; another word is a GPU's name, or unknown."""
    assert [card.number for card in host_loading.cards("host-8xa100-shared")] == [*range(8)]
    assert {card.node for card in host_loading.cards("host-8xa100-shared@n1,A100-80GB@n2")} == {"n1", "n2"}
    status, _, err = run(capsys, "plan", "Qwen/Qwen3-8B", "--gpus", "host-8xa100-shared")
    assert (status in (0, 1), err) == (True, "")
    for name in ("tiny-cpu-served", "host-8xa100", ".."):
        status, out, err = run(capsys, "plan", "Qwen/Qwen3-8B", "--gpus", name)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert f"{name}: unknown GPU" in err


@pytest.mark.parametrize(
    ("looks", "need", "expected", "said"),
    [
        ([{0: (100.0, 0.0), 1: (5000.0, 0.0)}] * 2, None, 0, "suitable, but has 75.1 GiB free, GPU 0 79.9 GiB"),
        (
            [{0: (20000.0, 0.0), 1: (0.0, 0.0)}, {0: (9000.0, 0.0), 1: (0.0, 0.0)}],
            10.0,
            1,
            "other processes freed memory",
        ),
        (
            [{0: (0.0, 0.0), 1: (0.0, 0.0)}, {0: (9000.0, 0.0), 1: (0.0, 0.0)}],
            10.0,
            1,
            "other processes allocated memory",
        ),
        ([{0: (0.0, 99.0), 1: (0.0, 3.0)}] * 2, None, 1, "99% utilization by other processes"),
        ([{0: (0.0, 0.0)}] * 2, 90.0, None, "80.0 GiB free, 90.0 GiB needed"),
        ([{0: (None, 0.0), 1: (70000.0, 0.0)}] * 2, None, None, "memory use unknown"),
        ([{0: (None, None), 1: (6000.0, 40.0)}] * 2, None, 1, "memory use unknown"),
        ([{0: (0.0, 0.0)}, {0: (None, None)}], None, None, "memory use unknown"),
        ([{0: (0.0, None), 1: (0.0, 10.0)}] * 2, None, 1, "utilization unknown"),
    ],
)
def test_a_gpu_is_chosen_by_its_trend_and_its_neighbours(
    tmp_path: Path,
    looks: list[Mapping[int, tuple[float | None, float | None]]],
    need: float | None,
    expected: int | None,
    said: str,
) -> None:
    """GPUs with changes, load or too little memory are excluded; unknown ranks below known."""
    clock = iter(n * 0.01 for n in range(50))
    source = gpu_memory.Recorded(Path(series(tmp_path, *looks)), clock=lambda: next(clock))
    readings = [source.read() for _ in looks]

    found = inventories.recommend(inventory.uses(readings, {}), seconds=1.0, need_gib=need)

    assert found.gpu == expected
    assert said in " ".join(one.reason for one in found.ranked)


def test_a_watch_without_a_suitable_gpu_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a message, and the GPUs with too few known facts."""
    path = series(tmp_path, {0: (70000.0, 100.0), 1: (None, None)})

    status, out, _ = run(capsys, "inventory", "--watch", "--gpu-memory", path)

    assert status == 1
    assert out.startswith("NONE ")
    assert "Memory use or utilization of GPU 1 is unknown" in out


def test_a_single_sample_has_no_trend() -> None:
    """A snapshot can be ranked, too."""
    found = host_loading.inventory(SHARED).recommendation

    assert found is not None
    assert (found.gpu, found.samples, found.note) == (4, 1, "one reading shows no trend; use --watch")


# ---- a snapshot as --gpus


def test_a_snapshot_is_accepted_by_every_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """By lint, plan, diagnose, convert and migrate."""
    script = write(tmp_path, "vllm serve Qwen/Qwen3-8B --host 127.0.0.1 --dtype bfloat16\n", "launch.sh")
    old = write(tmp_path, snapshot({"name": "Tesla T4", "total_mib": 15360, "capability": "7.5"}))
    assert "bfloat16" in run(capsys, "lint", script, "--gpus", old)[1]
    assert "bfloat16" in run(capsys, "migrate", script, "--from", "0.19.0", "--to", "0.33.0", "--gpus", old)[1]
    assert run(capsys, "convert", script, "--to", "docker", "--gpus", SHARED)[0] in (0, 1)
    assert run(capsys, "diagnose", "tiny-cpu-port-in-use", "--gpus", SHARED)[0] == 1
    spec = f"{old}@node1,{old}@node2"
    status, out, _ = run(capsys, "plan", "Qwen/Qwen3-8B", "--gpus", spec, "--pp", "2", "--format", "json")
    assert status in (0, 1)
    assert {one["node"] for one in json.loads(out)["gpus"]} == {"node1", "node2"}


def test_the_output_of_inventory_is_a_snapshot(
    driver: Driver, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The file of -o and the JSON on standard output; both have the same content when read."""
    driver(readings(), readings())
    path = tmp_path / "here.json"

    _, out, err = run(capsys, "inventory", "-o", str(path), "--format", "json")

    assert err == f"vllm-runbooks: wrote {path}\n"
    again = write(tmp_path, out, "printed.json")
    assert host_loading.read_snapshot(str(path)) == host_loading.read_snapshot(again)
    for name in (str(path), again):
        assert [one.gpu.name for one in host_loading.cards(name)] == ["A100-80GB-SXM", "A100-80GB-SXM"]
        assert json.loads(run(capsys, "inventory", name, "--format", "json")[1]) == json.loads(out)
    schema = json.loads((folders.catalog_dir() / "schema" / "inventory.json").read_text("utf-8"))
    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(json.loads(out))] == []
    assert out.startswith('{\n  "schema": 2,')
    untested = "tested with a stand-in for NVML, never on a GPU"
    assert untested in run(capsys, "inventory", "--explain")[1]
    assert untested not in run(capsys, "inventory", str(path), "--explain")[1]


def test_a_snapshot_may_come_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `-`."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(SHARED).read_bytes())))

    assert "CUDA_VISIBLE_DEVICES=4 " in run(capsys, "inventory", "-")[1]


def test_output_of_nvidia_smi_is_read(tmp_path: Path) -> None:
    """CSV with a header, with and without units; unsupported fields are unknown."""
    text = (
        "index, name, memory.total [MiB], memory.used [MiB], utilization.gpu [%], compute_cap, temperature.gpu\n"
        "0, NVIDIA A100-SXM4-80GB, 81920 MiB, 36864 MiB, 100 %, 8.0, 61\n"
        "1, NVIDIA A100-SXM4-80GB, 81920, [N/A], [Not Supported], [N/A], 30\n"
    )

    found = host_loading.read_snapshot(write(tmp_path, text, "smi.csv"))

    assert [(one.total_mib, one.used_mib, one.busy_percent, one.capability) for one in found.gpus] == [
        (81920, 36864, 100, "8.0"),
        (81920, None, None, None),
    ]
    first, second = host_loading.cards(str(tmp_path / "smi.csv"))
    assert (first.number, first.used_gib, second.number, second.used_gib) == (0, 36.0, 1, None)


def test_a_gpu_outside_the_catalog_is_planned_with_its_memory(tmp_path: Path) -> None:
    """As reported by the driver, minus its reserve; without it, no plan is possible."""
    known = {"name": "Weird 9000", "total_mib": 49152, "reserved_mib": 512, "used_mib": 0, "capability": "9.0"}
    path = write(tmp_path, snapshot(known))

    [one] = host_loading.cards(path)
    found = planner.plan_model("Qwen/Qwen3-8B", path, tp=1)

    assert (one.gpu.name, one.gpu.capability) == ("Weird 9000", "9.0")
    assert (found.fits, found.per_gpu[0].total_gib) == (True, (49152 - 512) / 1024)
    assert found.gpus[0].source == "read from the driver: 49,152 MiB, of which 512 is reserved"
    assert planner.plan_layouts("Qwen/Qwen3-8B", path).fits is True
    [rough] = host_loading.cards(write(tmp_path, snapshot({**known, "reserved_mib": None})))
    total = rough.gpu.total
    assert total is not None
    least, most = (float(share) / 100 for share in re.findall(r"([0-9.]+)%", total.source))
    assert least < total.expected / 48 < most, "the shares that are named are those of all cards"
    with pytest.raises(InputError, match=r"GPU 0: no memory size and unknown name \(Weird 9000\)"):
        host_loading.cards(write(tmp_path, snapshot({"name": "Weird 9000"})))


def cards_of(*used: float | None) -> tuple[HostGpu, ...]:
    """GPUs with this many GiB in use."""
    return tuple(HostGpu(catalog.specs().gpu("A100-80GB"), None, number, size) for number, size in enumerate(used))


def test_a_plan_counts_memory_in_use(tmp_path: Path) -> None:
    """A launch that requests more than the free memory does not fit; GPU and fix are named."""
    path = write(tmp_path, snapshot({"name": "A100-80GB", "used_mib": 36864}, {"name": "A100-80GB", "used_mib": 2867}))

    both = planner.plan_model("Qwen/Qwen3-8B", path, tp=2)
    lower = planner.plan_model("Qwen/Qwen3-8B", path, tp=2, options={"gpu_memory_utilization": 0.5})
    one = planner.plan_model("Qwen/Qwen3-8B", path, tp=1)

    assert (both.fits, [rank.fits for rank in both.per_gpu]) == (False, [True, False])
    assert both.limits[0].startswith("GPU 0: 36.00 GiB in use, 43.25 GiB free; the launch requires")
    assert "--gpu-memory-utilization 0.54" in both.limits[0]
    assert lower.fits is True
    assert any(said.startswith("GPU 0: 36.00 GiB in use") for said in lower.limits)
    assert one.fits is True
    assert one.deployment is not None
    assert one.deployment.env["CUDA_VISIBLE_DEVICES"] == "1"


def test_unknown_memory_in_use_leaves_the_answer_open(tmp_path: Path) -> None:
    """The GPU counts neither as idle nor as busy, and an idle one ranks before it."""
    path = write(tmp_path, snapshot({"name": "A100-80GB"}, {"name": "A100-80GB", "used_mib": 0}))

    assert planner.plan_model("Qwen/Qwen3-8B", path, tp=1).fits is True
    two = planner.plan_model("Qwen/Qwen3-8B", path, tp=2)
    assert (two.fits, two.per_gpu[1].fits) == (None, None)
    assert "GPU 0: its memory in use is unknown" in two.limits
    found = planner.plan_layouts("Qwen/Qwen3-8B", path)
    best = planner.chosen(found)
    assert found.fits is True
    assert best.deployment is not None
    assert best.deployment.env["CUDA_VISIBLE_DEVICES"] == "1"
    assert any("left out" in said and said.endswith("GPU 0") for said in best.reasons)


@pytest.mark.parametrize(
    ("claim", "is_enough", "free", "most"),
    [
        ((80.0, 8.0, 0.9), True, 72.0, 0.9),
        ((80.0, 8.5, 0.9), False, 71.5, 0.89),
        ((80.0, 90.0, 0.1), False, 0.0, 0.0),
        ((0.0, 0.0, 0.9), True, 0.0, 0.0),
    ],
)
def test_exactly_the_share_is_enough(
    claim: tuple[float, float, float],
    is_enough: bool,  # noqa: FBT001
    free: float,
    most: float,
) -> None:
    """If more is in use than the total, nothing is free."""
    found = room.of_share(*claim)

    assert (found.is_enough, found.free, found.most) == (is_enough, free, most)


def test_all_estimates_of_the_share_agree(tmp_path: Path) -> None:
    """Finding, choice of a GPU, plan, and the check before a launch."""
    share = room.usual_share()
    assert share is not None
    for used, is_enough in ((81920 * (1 - share) - 1, True), (81920 * (1 - share) + 1, False)):
        facts = card(
            name="Weird 9000",
            capability="9.0",
            total_mib=81920,
            used_mib=used,
            busy_percent=0,
            reserved_mib=0,
            processes=(),
        )
        found = inspected(facts)
        path = write(tmp_path, render.inventories.snapshot_json(found))
        options = {"gpu_memory_utilization": share}
        start = serve.subject(
            ["vllm", "serve", "m", f"--gpu-memory-utilization={share}"], vllm="0.32.0", environment={}
        )
        look = {"at_s": 0, "gpus": [{"index": 0, "total_mib": 81920, "used_mib": used}]}
        source = gpu_memory.Recorded(Path(write(tmp_path, look, "series.jsonl")))
        host = preflight.host_of(start, source, "", None)
        judged = preflight.memory(start, host, serve.Steady(2, 0, 64, 0), print, lambda: False)

        assert found.recommendation is not None
        assert {
            "gpu.no_room" not in ids(found),
            found.recommendation.gpu == 0,
            requests.is_free(host_loading.cards(path)[0], share),
            planner.plan_model("Qwen/Qwen3-8B", path, tp=1, options=options).fits,
            judged.result is LaunchResult.PASSED,
        } == {is_enough}


def test_free_gpus_are_first_host_by_host() -> None:
    """Least memory in use first, unknown ones last; explicitly listed GPUs keep their order."""
    assert [card.number for card in requests.freest_first(cards_of(9.0, None, 0.0, 3.0))] == [2, 3, 0, 1]
    named = catalog.specs().gpus("A100-80GB@b,RTX3090@a")
    assert requests.freest_first(named) == named


def test_files_of_a_plan_list_the_selected_gpus() -> None:
    """In scripts and compose files."""
    asked = planner.request("Qwen/Qwen3-8B", SHARED, tp=1)

    made = planner.deployed(asked, planner.plan(asked))

    assert all("CUDA_VISIBLE_DEVICES=4" in text for name, text in made.items() if name.endswith(".sh"))


# ---- damaged and hostile


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("{", "invalid JSON"),
        ("[]", '"kind" is not "inventory"'),
        ("{}", '"kind" is not "inventory"'),
        ('{"kind": "inventory"}', "has schema None"),
        ('{"kind": "inventory", "schema": 3, "gpus": []}', "has schema 3"),
        ('{"kind": "inventory", "schema": true, "gpus": []}', "has schema True"),
        ('{"kind": "inventory", "schema": 2}', "gpus: missing"),
        (snapshot(), "no GPUs"),
        (snapshot(no_gpus_reason="gone"), "no GPUs (gone)"),
        ({**snapshot(), "gpus": {}}, "gpus: must be a list"),
        ({**snapshot(), "gpus": [7]}, "gpus[0]: must be an object"),
        ({**snapshot(), "gpus": [{"name": "A100-80GB"}]}, "gpus[0].index: missing"),
        ({**snapshot(), "gpus": [{"index": 1}, {"index": 1}]}, "lists GPU 1 twice"),
        ({**snapshot(), "gpus": [{"index": 1.5}]}, "gpus[0].index: must be a whole number"),
        (snapshot({"name": 7}), "gpus[0].name: must be a string"),
        (snapshot({"name": "x" * 9000}), "gpus[0].name: must be a string of at most 8,000 characters"),
        (snapshot({"total_mib": "80 GB"}), "gpus[0].total_mib: must be a number"),
        (snapshot({"total_mib": -5}), "gpus[0].total_mib: must be a number"),
        (snapshot({"total_mib": True}), "gpus[0].total_mib: must be a number"),
        (snapshot({"total_mib": 0}), "GPU 0: total_mib is 0"),
        (snapshot({"total_mib": 1e30}), "gpus[0].total_mib: must be a number"),
        ('{"schema": 2, "kind": "inventory", "gpus": [{"index": 0, "total_mib": NaN}]}', "must be a number"),
        (snapshot({"total_mib": 100, "used_mib": 200}), "used_mib is 200, and total_mib 100"),
        (snapshot({"capability": "new"}), "capability is new, not a compute capability"),
        (snapshot({"is_mig": "no"}), "gpus[0].is_mig: must be true or false"),
        (snapshot({"xids": [1.5]}), "gpus[0].xids[0]: must be a whole number"),
        (snapshot({"memory": 5}), "gpus[0].memory: unknown field; remove"),
        (snapshot({"name": "A100-80GB"}, pairs=[{"first": 0, "second": 3}]), "GPU 0 and GPU 3: use"),
        (snapshot({"name": "A100-80GB"}, packages={"torch": 2}), "packages: must be an object of strings"),
        (snapshot({"is_mig": True, "name": "A100-80GB"}), "divided into instances"),
        ("[" * 100_000, "invalid JSON"),
        ('{"a": ' + "9" * 5000 + "}", "invalid JSON"),
        ("index, name\n0\n", "has 1 columns, the header 2"),
        ("index, name\nx, A100-80GB\n", "index: must be a whole number"),
        ("index, name, memory.total [MiB]\n0, A100-80GB, lots\n", "total_mib: must be a number"),
        ("index, name\n, A100-80GB\n", "index: missing"),
        ("name, memory.total\nA100, 5\n", "neither a host snapshot nor nvidia-smi CSV"),
        ("what is this", "neither a host snapshot nor nvidia-smi CSV"),
        ('index, name\n0, "a\n', "no memory size and unknown name"),
        (" " * 5_000_000 + "{}", "larger than"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "",
)  # fmt: skip
def test_a_damaged_snapshot_is_rejected_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | Mapping[str, Any], said: str
) -> None:
    """With --gpus: exit 2, the file, the error and a fix, and no output."""
    status, out, err = run(capsys, "plan", "Qwen/Qwen3-8B", "--gpus", write(tmp_path, text))

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert str(tmp_path / "host.json") in err


def test_input_that_is_not_a_snapshot_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder, a file that is not there, a program, a recorded log."""
    (tmp_path / "binary.json").write_bytes(b"\x7fELF" + bytes(500))
    for name in (str(tmp_path), str(tmp_path / "gone.json"), str(tmp_path / "binary.json"), "autoglm-3090-video-oom"):
        status, out, err = run(capsys, "inventory", name)
        assert (status, out, err.count("\n")) == (2, "", 1)
    assert "without a log; use vllm-runbooks inventory" in run(capsys, "diagnose", "host-1xa100")[2]


def test_the_recommended_gpu_is_a_step() -> None:
    """With its figures and how to select it; a recorded host is named as such."""
    shared = host_loading.inventory("host-8xa100-shared")
    step, here_step = render.inventories.recommended(shared, snapshot="x"), render.inventories.recommended(shared)

    assert step is not None
    assert step.fact == "Use GPU 4: 79.2 GiB free, 0% busy (recorded host `x`)."
    assert step.so == "2 of 8 GPUs are suitable; too little data on 4."
    assert step.command == "vllm-runbooks inventory --watch"
    assert here_step is not None
    assert here_step.do == "Set `CUDA_VISIBLE_DEVICES=4` for the launch."
    assert here_step.command == ""


def test_without_a_suitable_gpu_the_step_is_to_wait(tmp_path: Path) -> None:
    """All GPUs compute for others; and a host without a GPU has no step."""
    busy = {"name": "NVIDIA A100-SXM4-80GB", "total_mib": 81920, "used_mib": 80000, "busy_percent": 100}
    step = render.inventories.recommended(host_loading.inventory(write(tmp_path, snapshot(busy))))

    assert step is not None
    assert (step.fact, step.do) == ("No GPU is suitable.", "Wait until one is free.")
    assert render.inventories.recommended(host_loading.inventory(write(tmp_path, snapshot()))) is None


HOSTILE = "<script>alert(1)</script>\x1b[2J\x1b]0;x\x07\u202eevil\nRecommended: GPU 9"


def test_hostile_names_are_shown_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of a name steers a terminal or becomes markup."""
    one = {"name": HOSTILE, "total_mib": 81920, "reserved_mib": 0, "used_mib": 4096, "busy_percent": 1}
    process = {"pid": 7, "user": HOSTILE, "command": HOSTILE}
    gpus = ({**one, "processes": [process]}, {"error": HOSTILE})
    path = write(tmp_path, snapshot(*gpus, no_gpus_reason=HOSTILE, packages={"vllm": HOSTILE}))

    for command in (("inventory", path), ("plan", "Qwen/Qwen3-8B", "--gpus", path)):
        _, out, err = run(capsys, *command)
        assert out
        assert not set("\x1b\x07\u202e") & {*out, *err}
    [name] = (one["name"] for one in json.loads(run(capsys, *command, "--tp", "1", "--format", "json")[1])["gpus"])
    assert len(name.splitlines()) == 1
    found = host_loading.inventory(path)
    for shown in (render.inventories.host(found), render.inventories.findings(found), render.inventories.chosen(found)):
        assert "<script" not in shown.html
        assert not set("\x1b\x07\u202e") & {*shown.html, *shown.plain}
    status, out, err = run(capsys, "plan", "m", "--gpus", write(tmp_path, snapshot({HOSTILE: 1})))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert not set("\x1b\x07\u202e") & {*err}


def test_secrets_in_a_foreign_snapshot_are_hidden(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its writer may not have replaced them."""
    process = {"pid": 7, "command": f"vllm serve m --hf-token {TOKEN}"}
    path = write(tmp_path, snapshot({"name": f"A100-80GB {TOKEN}", "total_mib": 81920, "processes": [process]}))

    for command in (
        ("inventory", path, "--format", "json"),
        ("inventory", path),
        ("plan", "Qwen/Qwen3-8B", "--gpus", path),
    ):
        assert TOKEN not in "".join(run(capsys, *command)[1:])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--samples 3", "--samples requires --watch."),
        ("--every 3", "--every requires --watch."),
        ("--gpu-memory x", "--gpu-memory requires --watch."),
        ("--watch x.json", "to rank the GPUs of x.json, remove --watch."),
        ("--watch --gpu-memory x --samples 3", "--samples cannot be used with --gpu-memory"),
        ("--watch --gpu-memory x --every 3", "--every cannot be used with --gpu-memory"),
        ("--watch -o x.json", "-o cannot be used with --watch."),
        ("--watch --python x", "--python cannot be used with --watch."),
        ("x.json --python x", "a snapshot has its own packages."),
        ("--watch --samples 1", "--samples"),
        ("--watch --every nan", "nan is not a number"),
        ("--need 0", "--need"),
        ("--watch --gpu-memory /nowhere", "/nowhere"),
    ],
)
def test_an_invalid_request_is_rejected(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    """One line, exit 2."""
    status, out, err = run(capsys, "inventory", *line.split())

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Use an empty state folder instead of the user's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
