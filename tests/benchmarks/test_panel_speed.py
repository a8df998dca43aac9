"""Processor time of a panel for a step of a slider, and for checking a typed command."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import pytest

from figures import Figures
from vllm_runbooks.jupyter import command_model as scripts
from vllm_runbooks.jupyter import plan_model as settings

pytestmark = pytest.mark.benchmark

STEPS = 60
LIMIT_MS = 100.0
MODELS = (
    ("Qwen/Qwen3-8B", "2xRTX3090"),
    ("deepseek-ai/DeepSeek-V3", "8xH200"),
    ("google/gemma-4-31B-it", "8xA100-80GB"),
)


@pytest.fixture(autouse=True)
def _without_the_heap_of_the_tests() -> Iterator[None]:
    """A kernel has no heap of pytest; traversing it alone costs a tenth of a second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize(("model", "cards"), MODELS, ids=lambda value: value)
def test_a_slider_is_answered_within_a_tenth_of_a_second(figures: Figures, model: str, cards: str) -> None:
    """Plan, lint and pictures of the slowest of sixty steps that all differ, in processor time."""
    planner = settings.Planner()
    bounds = settings.bounds(settings.PlanRequest(model, cards))
    planner.told(settings.PlanRequest(model, cards, tp=bounds.whole))
    slowest = 0.0
    for step in range(STEPS):
        share, context = 0.5 + step / 150, bounds.contexts[step % len(bounds.contexts)]
        begun = time.process_time()
        planner.told(settings.PlanRequest(model, cards, utilization=share, context=context, tp=bounds.whole))
        slowest = max(slowest, time.process_time() - begun)
    figures.note(
        f"panel Plan, {model} on {cards}: CPU time of the slowest of {STEPS} slider steps, ms",
        slowest * 1e3,
        at_most=LIMIT_MS,
    )


def test_a_command_is_checked_while_typing(figures: Figures) -> None:
    """A script of two servers, checked after each character."""
    text = "vllm serve zai-org/AutoGLM-Phone-9B \\\n  --max-model-length 4096 --tensor-parallel-size 3 --api-key x\n"
    scripts.report_on(scripts.CommandRequest(text, gpus="2xRTX3090"))
    slowest = 0.0
    for step in range(30):
        begun = time.process_time()
        scripts.report_on(scripts.CommandRequest(f"{text}# {'x' * step}\n", gpus="2xRTX3090"))
        slowest = max(slowest, time.process_time() - begun)
    figures.note("panel Commands: CPU time of the slowest of 30 checks, ms", slowest * 1e3, at_most=LIMIT_MS)
