"""GPUs that fit a model, for the pages of models and GPUs; all figures are the planner's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from html import escape
from urllib.parse import urlencode

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.views import drawing
from vllm_runbooks.core.views.memory_parts import part_name, segment, swatch
from vllm_runbooks.core.views.summary import concurrency_text
from vllm_runbooks.plan import planned, planner
from vllm_runbooks.plan.records import Find, Plan
from vllm_runbooks.plan.render import words
from vllm_runbooks.plan.render.words import SHORTEST_CONTEXT

COMMON_GPUS = ("RTX4090", "L40S", "A100-80GB", "H100-80GB", "H200", "B200")
"""GPUs on which every model is planned, the smallest first."""
COMMON_MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3-8B", "Qwen/Qwen3-32B",
    "Qwen/Qwen3-30B-A3B", "Qwen/Qwen2.5-VL-7B-Instruct", "openai/gpt-oss-20b", "openai/gpt-oss-120b",
    "google/gemma-3-27b-it", "mistralai/Mistral-7B-Instruct-v0.3", "deepseek-ai/DeepSeek-R1",
)  # fmt: skip
"""Models that are first in the list, and that every GPU's page plans."""
_COUNTS = (1, 2, 4, 8)
_BAR_WIDTH, _BAR_HEIGHT = 230.0, 14.0
_GPU_WIDTH = 190.0
"""Length of the GPU's memory in a bar; the part beyond it is missing."""
_REST = part_name("overhead")


@dataclass(frozen=True)
class ModelFit:
    """The fewest GPUs of one kind on which a model fits."""

    model: str
    gpu: str
    count: int
    """1, 2, 4 or 8; the largest one tried if the model does not fit."""
    plan: Plan | None
    """None if the model cannot be planned."""
    reason: str = ""
    """Why there is no plan, or none that is certain."""
    is_shortened: bool = False
    """Whether it fits with a shorter context than the model's."""

    @property
    def fits(self) -> bool | None:
        """Whether it fits; None if unknown."""
        return self.plan.fits if self.plan is not None else None

    @property
    def context(self) -> int | None:
        """Tokens of the context."""
        length = words.option(self.plan, "max_model_len") if self.plan is not None else None
        return length if isinstance(length, int) and length > 0 else None

    @property
    def concurrency(self) -> float | None:
        """Concurrent requests of the whole context."""
        return self.plan.kv_cache.max_concurrency if self.plan is not None else None

    @property
    def gpus(self) -> str:
        """The GPUs, as `plan --gpus` accepts them."""
        return f"{self.count}x{self.gpu}"

    @property
    def name(self) -> str:
        """The GPUs for a reader."""
        return f"{self.count}\N{MULTIPLICATION SIGN} {self.gpu}"

    @property
    def address(self) -> str:
        """The page that plans in the browser, with this question."""
        fields = {"model": self.model, "gpus": self.gpus, "tp": self.count}
        if self.is_shortened and self.context:
            fields["context"] = self.context
        return f"plan.html#{urlencode(fields)}"


@cache
def fewest(model: str, gpu: str, most: int = _COUNTS[-1]) -> ModelFit:
    """Plan a model on 1, 2, 4 and 8 GPUs of a kind, at most `most`, until it fits, maybe with a shorter context."""
    counts = [number for number in _COUNTS if number <= most]
    least, planned_count, plan = 1, 1, None
    for count in counts:
        # A count that cannot hold the weights is skipped, except the largest: its memory is reported.
        if count < least and count != counts[-1]:
            continue
        try:
            request = planner.request(model, f"{count}x{gpu}", tp=count)
            plan = planned.plan(request)
            if not plan.fits and not plan.missing and (plan.kv_cache.longest_context or 0) >= SHORTEST_CONTEXT:
                shorter = planner.find(request, Find.CONTEXT)
                if shorter.fits and (words.option(shorter, "max_model_len") or 0) >= SHORTEST_CONTEXT:
                    return ModelFit(model, gpu, count, shorter, is_shortened=True)
        except InputError as error:
            if count < least:
                break
            return ModelFit(model, gpu, count, None, str(error).partition(": ")[2])
        if plan.fits is not False:
            return ModelFit(model, gpu, count, plan, "" if plan.fits else _unknown(plan))
        least, planned_count = _least(plan, count), count
    return ModelFit(model, gpu, planned_count, plan)


def weights_gib(model: str) -> float | None:
    """GiB of all weights of a model, on the fewest GPUs that were planned; None if no plan can calculate them."""
    plans = [plan for gpu in COMMON_GPUS if (plan := fewest(model, gpu).plan) is not None and plan.per_gpu]
    # Every GPU adds copies of what tensor parallelism does not split.
    plan = min(plans, key=lambda each: len(each.per_gpu), default=None)
    if plan is None:
        return None
    parts = [_term(plan, number, "weights") for number in range(len(plan.per_gpu))]
    return None if None in parts else sum(filter(None, parts))


def best(model: str) -> ModelFit | None:
    """Fit on the fewest common GPUs, if possible with the whole context.

    None if it fits on none.
    """
    fits = [fit for gpu in COMMON_GPUS if (fit := fewest(model, gpu)).fits]
    return min(fits, key=lambda fit: (fit.is_shortened, fit.count), default=None)


def linted(fit: ModelFit) -> Plan:
    """The plan of a fit, its command linted."""
    options = {"max_model_len": fit.context} if fit.is_shortened else None
    return planner.plan_model(fit.model, fit.gpus, tp=fit.count, options=options)


def bar(fit: ModelFit) -> str:
    """Memory of one of the GPUs as a bar: weights, the rest, the KV cache, and the missing part."""
    plan = fit.plan
    total = plan.per_gpu[0].total_gib if plan is not None and plan.per_gpu else None
    weights = _term(plan, 0, "weights") if plan is not None and plan.per_gpu else None
    if plan is None or not total or weights is None:
        return ""
    rest = sum(term.expected_gib or 0.0 for term in plan.per_gpu[0].terms if term.name not in ("weights", "kv_cache"))
    beyond = max(0.0, weights + rest - total)
    cache_gib = max(0.0, min(plan.kv_cache.gib or 0.0, total - weights - rest))
    scale = _GPU_WIDTH / total
    end, used = _GPU_WIDTH, min(weights, total) * scale
    shapes = [
        drawing.rect(0, 0, end, _BAR_HEIGHT, drawing.HAIR),
        segment("weights", 0, 0, used, _BAR_HEIGHT, title=f"weights: {weights:.1f} GiB"),
        segment("overhead", used, 0, min(rest * scale, end - used), _BAR_HEIGHT, title=f"{_REST}: {rest:.1f} GiB"),
        segment(
            "kv_cache", used + rest * scale, 0, cache_gib * scale, _BAR_HEIGHT, title=f"KV cache: {cache_gib:.1f} GiB"
        ),
        segment(
            "beyond", end, 0, min(beyond * scale, _BAR_WIDTH - end), _BAR_HEIGHT, title=f"lacking: {beyond:.1f} GiB"
        ),
        drawing.rule(end, 0, end, _BAR_HEIGHT, colour="currentColor", thick=2),
    ]
    parts = ((weights, "weights"), (rest, _REST), (cache_gib, "KV cache"), (beyond, "lacking"))
    text = f"Of {total:.1f} GiB: {', '.join(f'{name} {gib:.1f}' for gib, name in parts if gib)}"
    box = f'width="{_BAR_WIDTH:.0f}" height="{_BAR_HEIGHT:.0f}" viewBox="0 0 {_BAR_WIDTH:.0f} {_BAR_HEIGHT:.0f}"'
    need = f"{weights + rest:.1f} of {total:.1f} GiB"
    if beyond * scale > _BAR_WIDTH - end:
        # The red part is cut, so that its length does not show how much is lacking.
        shapes.append(drawing.caption(_BAR_WIDTH - 2, _BAR_HEIGHT - 3, "\N{MUCH GREATER-THAN}", size=11, anchor="end"))
        need += f" ({(weights + rest) / total:.1f}\N{MULTIPLICATION SIGN})"
    words_below = f"{need}, KV cache {cache_gib:.1f}" if cache_gib else need
    picture = f'<svg {box} role="img"><title>{escape(text)}</title>{"".join(shapes)}</svg>'
    return f"{picture}<small>{words_below}</small>"


def legend() -> str:
    """Names of the bars' colors, as HTML."""
    parts = ("weights", "overhead", "kv_cache", "beyond")
    swatches = (
        f'<span class="legend-part"><span aria-hidden="true">{swatch(part)}</span> {part_name(part)}</span>'
        for part in parts
    )
    return f'<p class="legend">Memory of one GPU: {" ".join(swatches)}</p>'


def verdict(fit: ModelFit) -> tuple[str, str]:
    """The verdict as text, and its CSS class."""
    if fit.fits:
        return ("✓ fits", "amber" if fit.is_shortened else "green")
    if fit.fits is None:
        return "? unknown", "grey"
    return "✗ does not fit", "red"


def figures(fit: ModelFit) -> tuple[str, str]:
    """Context and concurrent requests, as text; empty if it does not fit."""
    if not fit.fits or fit.context is None:
        return "", ""
    return f"{fit.context:,}", "" if fit.concurrency is None else concurrency_text(fit.concurrency)


def _least(plan: Plan, count: int) -> int:
    """Fewest GPUs with more memory than the weights; the next number if that is unknown."""
    parts = [_term(plan, number, "weights") for number in range(len(plan.per_gpu))]
    total = plan.per_gpu[0].total_gib if plan.per_gpu else None
    if not parts or None in parts or not total:
        return count + 1
    return max(count + 1, round(sum(filter(None, parts)) / total))


def _term(plan: Plan, rank: int, name: str) -> float | None:
    return next((term.expected_gib for term in plan.per_gpu[rank].terms if term.name == name), None)


def _unknown(plan: Plan) -> str:
    """Why it is unknown whether a plan fits."""
    unknown = (term.source for term in plan.per_gpu[0].terms if term.expected_gib is None) if plan.per_gpu else ()
    return next(iter(unknown), "; ".join(plan.limits) or "unknown")
