"""How long a plan takes: budgets in processor time, the whole command against importing papermill."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from figures import Figures
from test_diagnose_speed import ROUNDS, seconds
from vllm_runbooks.catalog import specs
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.plan.budget import budget, subject
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.settings import settle
from vllm_runbooks.plan.terms import GIB, Band

pytestmark = pytest.mark.benchmark

BUDGETS = 2_000
LIMIT_MS = 0.6
"""100,000 budgets a minute on one core."""
MODELS = ("openai/gpt-oss-20b", "google/gemma-4-31B-it", "Qwen/Qwen3-8B", "Qwen/Qwen2.5-VL-7B-Instruct")
CARDS: tuple[dict[str, Any], ...] = (
    {"gpu_name": "NVIDIA A100-SXM4-80GB", "memory_gib": 80.0, "capability": (8, 0)},
    {"gpu_name": "NVIDIA H100 80GB HBM3", "memory_gib": 80.0, "capability": (9, 0)},
    {"gpu_name": "NVIDIA GeForce RTX 3090", "memory_gib": 24.0, "capability": (8, 6)},
)
RELEASES = ("0.11.0", "0.19.0", "0.25.1", "0.33.0")


def asked() -> Iterator[tuple[str, dict[str, Any], str, dict[str, Any]]]:
    """Launches that all differ."""
    for number in range(BUDGETS):
        options = {
            "max_model_len": 2048 + 7 * number,
            "gpu_memory_utilization": 0.5 + 0.45 * number / BUDGETS,
            "max_num_seqs": 16 << number % 5,
            "tensor_parallel_size": 1 << number % 3,
        }
        yield MODELS[number % 4], options, RELEASES[number // 4 % 4], CARDS[number % 3]


@pytest.mark.full
def test_a_hundred_thousand_budgets_take_a_minute(figures: Figures) -> None:
    """Settings, terms, blocks and longest context of different launches: 0.6 ms each."""
    shelf = specs.load(spec_files.compile_specs)
    models = {name: subject(name, shelf.file(name).config) for name in MODELS}
    totals = {card["gpu_name"]: Band(*(int(card["memory_gib"] * 0.98 * GIB),) * 3) for card in CARDS}

    def once() -> float:
        begun = time.process_time()
        for name, options, release, card in asked():
            found = models[name]
            settings = settle(found.shape, options, release, config=found.config, **card)
            one = Device(card["gpu_name"], totals[card["gpu_name"]], "", None, card["capability"], "nvlink")
            made = budget(found, settings, [one] * settings.ranks.tensor)
            assert made.blocks is None or made.longest is not None
        return (time.process_time() - begun) / BUDGETS * 1000

    rounds = [once() for _ in range(ROUNDS)]

    figures.note("plan: CPU time of one memory budget, ms", rounds, at_most=LIMIT_MS, form=".3f")


def test_a_plan_of_eight_gpus_is_faster_than_importing_papermill(figures: Figures) -> None:
    """`plan --find context` with all layouts of eight GPUs, compared with `import papermill`."""
    command = str(Path(sys.executable).with_name("vllm-runbooks"))
    arguments = ("plan", "zai-org/AutoGLM-Phone-9B", "--vllm", "0.16.0", "--gpus", "8xRTX3090", "--find", "context")
    first = subprocess.run([command, *arguments, "--format", "json"], check=False, capture_output=True, text=True)
    assert json.loads(first.stdout)["schema"] == 2, first.stderr

    ratios = [seconds(command, *arguments) / seconds(sys.executable, "-c", "import papermill") for _ in range(ROUNDS)]

    what = "plan: CPU time of `--find context` on 8 GPUs / of `import papermill`"
    figures.note(what, ratios, at_most=0.9)


def test_a_plan_of_a_fleet_costs_a_few_times_one_of_eight_gpus(figures: Figures) -> None:
    """All layouts of 4,096 GPUs, their commands linted, compared with those of eight."""
    command = str(Path(sys.executable).with_name("vllm-runbooks"))
    fleet, host = (("plan", "Qwen/Qwen3-8B", "--gpus", f"{count}xRTX3090") for count in (4096, 8))
    ratios = [seconds(command, *fleet) / seconds(command, *host) for _ in range(3)]

    figures.note("plan: CPU time for 4,096 GPUs / for 8", ratios, at_most=3.0)
