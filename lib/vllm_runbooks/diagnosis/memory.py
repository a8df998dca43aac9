"""Memory of the logged launch: plan, comparison with printed values, and remedies that fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.core.display import unknown_reason
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.printed import number
from vllm_runbooks.core.records import Edit, MemoryUse, PlanComparison, Remedy
from vllm_runbooks.core.redaction.redact import redact_name
from vllm_runbooks.diagnosis.fitting_values import ModelSizes
from vllm_runbooks.diagnosis.several_logs import LaunchReport

if TYPE_CHECKING:
    from vllm_runbooks.catalog.specs import HostGpu, Specs
    from vllm_runbooks.lint.ways_out import LaunchCommand
    from vllm_runbooks.plan.actual import LaunchPlace
    from vllm_runbooks.plan.budget import Budget, Calibrate, PlannedModel
    from vllm_runbooks.plan.devices import Device
    from vllm_runbooks.plan.inverse import WayOut

_OF_MEMORY = frozenset({
    "block_size", "compilation_config", "cpu_offload_gb", "cudagraph_capture_sizes", "data_parallel_size", "dtype",
    "enable_expert_parallel", "enable_lora", "enforce_eager", "gpu_memory_utilization", "kv_cache_dtype",
    "kv_cache_memory_bytes", "language_model_only", "limit_mm_per_prompt", "max_loras", "max_lora_rank",
    "max_model_len", "max_num_batched_tokens", "max_num_seqs", "max_seq_len_to_capture", "mm_encoder_tp_mode",
    "mm_processor_kwargs", "num_gpu_blocks_override", "pipeline_parallel_size", "quantization", "skip_mm_profiling",
    "speculative_config", "tensor_parallel_size",
})  # fmt: skip
"""Options that change the memory plan."""
_DEVICE = re.compile(r"device_name=([A-Za-z0-9_-]{1,80})", re.ASCII)
"""GPU name in the file name of tuned kernels (model_executor/layers/fused_moe/fused_moe.py, 0.19.0
:1090)."""
_FREE_BELOW = "mem.free_below_utilization"
"""Symptoms that show how much GPU memory was free when the launch requested its share."""
_PLANNED_CAUSES = ("kv.", "oom.weights", "oom.profile_run", "oom.multimodal_encoder")
"""Causes that the plan of the unchanged launch shows, too, if it is right."""
_SEARCHED = {
    "gpu_memory_utilization": "fit_utilization",
    "max_model_len": "fit_context_tokens",
    "max_num_seqs": "fit_sequences",
    "max_num_batched_tokens": "fit_batched_tokens",
}
_AFTER_THE_CACHE = frozenset({"capture", "warm_up", "serve"})
_MEMORY_FACTS = ("weights_gib", "kv_cache_gib", "activation_gib", "non_torch_gib", "kv_cache_tokens")


class PlannedMemory:
    """Planned memory of a logged launch, next to its printed values; checks changed launches."""

    def __init__(
        self,
        reported: LaunchReport,
        base: LaunchCommand | None,
        *,
        cards: tuple[HostGpu, ...],
        specs: Callable[[], Specs],
        source: str,
        model: Callable[[], PlannedModel | None] | None = None,
        cached: Callable[[str, Mapping[str, Any]], PlannedModel | None] | None = None,
        lang: str | None = None,
    ) -> None:
        """Plan the memory of a launch.

        Args:
            reported: Values reported by the logs.
            base: The launch command, if known.
            cards: The GPUs, if known.
            specs: Returns models and GPUs; called only to plan.
            source: Name for its figures.
            model: Returns the model if it is not in the catalog; called only to plan.
            cached: Returns the model of a name and options that is only in this host's cache of the Hub.
            lang: Language of the remedies; None for English.
        """
        self._say = Wording(lang)
        self.facts, self.starts, self.cards = reported.facts, reported.starts, cards
        self._specs, self._own, self._cached = specs, model, cached
        self._source = f"{source}, launch from line {reported.starts[0].first_line}" if reported.starts else source
        self.vllm = reported.release.rules or (base.vllm if base is not None else None)
        self.captures: Mapping[str, str] = reported.cause.captures if reported.cause is not None else {}
        self.symptom = reported.cause.symptom if reported.cause is not None else ""
        flags = base.flags if base is not None and not reported.arguments else {}
        self.arguments: Mapping[str, Any] = reported.arguments or flags
        environment = base.found.environment if base is not None and base.found is not None else {}
        values = {name: setting.value.value for name, setting in environment.items()}
        self.environment = {name: value for name, value in values.items() if value is not None}
        self._budgets: dict[str, Budget] = {}

    @cached_property
    def model(self) -> PlannedModel | str:
        """The model, or the missing inputs that identify it."""
        from vllm_runbooks.plan.budget import subject_by_name, subject_in_catalog

        name = self.facts.model or self.arguments.get("model") or self.arguments.get("model_tag")
        if not isinstance(name, str) or not name:
            return "the log does not print the model; use --command"
        subject = subject_in_catalog(name, self._specs()) or (self._own() if self._own is not None else None)
        if subject is None and self._cached is not None:
            subject = self._cached(name, self.arguments)
        return subject or subject_by_name(name, self._specs()) or f"model {redact_name(name)} is not in the catalog"

    @cached_property
    def options(self) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """Options of the launch, and the unreadable ones."""
        from vllm_runbooks.plan import actual

        return actual.options_of(self.arguments, self.facts, (r for start in self.starts for r in start.readings))

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """GPUs of the launch; if not given, one with only the printed memory."""
        from vllm_runbooks.plan import actual

        printed = self.facts.gpu_total_gib
        if printed is None:
            printed = number(self.captures.get("total_gib", ""))
        devices = [actual.device_of(card, printed) for card in self.cards or (self._named,)]
        return tuple(device or actual.UNKNOWN for device in devices)

    @cached_property
    def _named(self) -> HostGpu | None:
        """The first given GPU; else the one in a warning for mixture-of-experts models."""
        from vllm_runbooks.catalog.specs import HostGpu

        if self.cards:
            return self.cards[0]
        quotes = (warned.quote.text for start in self.starts for warned in start.warnings)
        name = next((match[1] for text in quotes if (match := _DEVICE.search(text))), None)
        try:
            return None if name is None else HostGpu(self._specs().gpu(name))
        except InputError:
            return None

    def gpu_captures(self) -> Mapping[str, str]:
        """The lowest known compute capability of the NVIDIA GPUs, for the conditions of remedies."""
        versions = [card.gpu.version for card in self.cards or (self._named,) if card is not None]
        least = min(filter(None, versions), default=None)
        return {} if least is None else {"gpu_capability": f"{least[0]}.{least[1]}"}

    @cached_property
    def place(self) -> LaunchPlace:
        """Release, GPUs and environment variables of the launch."""
        from vllm_runbooks.plan import actual

        gpu = self._named.gpu if self._named is not None else None
        is_cached = actual.is_compile_cached(reading for start in self.starts for reading in start.readings)
        return actual.LaunchPlace(self.vllm or "", self.devices, gpu, self.environment, is_cached)

    @cached_property
    def planned(self) -> tuple[PlannedModel, Budget] | str:
        """Model and plan of the launch; else the missing inputs."""
        if self.vllm is None:
            return "the vLLM release is unknown; use --vllm"
        if isinstance(self.model, str):
            return self.model
        from vllm_runbooks.plan import actual
        from vllm_runbooks.plan.budget import drafted
        from vllm_runbooks.plan.drafts import draft_in_catalog

        try:
            model = actual.overridden(self.model, self.options[0])
            model = drafted(model, self.options[0], lambda name: draft_in_catalog(name, self._specs()))
            return model, self.place.budget(model, self.options[0])
        except _UNREADABLE:
            return "the planner does not support one of the launch options"

    @cached_property
    def compared(self) -> PlanComparison | None:
        """Printed and planned memory; None if the launch printed none."""
        if all(getattr(self.facts, name) is None for name in _MEMORY_FACTS):
            return None
        if isinstance(self.planned, str):
            return PlanComparison((), None, (self.planned,))
        from vllm_runbooks.plan import actual

        model, budget = self.planned
        whole = replace(
            self.starts[0],
            facts=self.facts,
            ranks=tuple(rank for start in self.starts for rank in start.ranks),
            readings=tuple(reading for start in self.starts for reading in start.readings),
        )
        comparison = actual.compare(
            whole,
            model,
            budget,
            gpu=self._named.gpu.name if self._named is not None else None,
            source=self._source,
            is_told=bool(self.arguments),
        )
        return replace(comparison, missing=(*comparison.missing, *self.options[1]))

    @cached_property
    def _corrected(self) -> tuple[LaunchPlace, Calibrate]:
        """Place and corrections of a changed launch.

        They are residuals of recorded launches, with those of this one first. With a printed KV cache, the plan of the
        unchanged launch has exactly this cache.
        """
        from vllm_runbooks.plan import actual, calibration

        residuals = self.compared.residuals if self.compared is not None else ()
        name, printed = self.devices[0].name, self.facts.kv_cache_gib
        own = tuple(replace(row, gpu=name) for row in residuals)
        calibrate = calibration.calibrator(calibration.shipped().rows, own)
        is_set = actual.is_cache_set(reading for start in self.starts for reading in start.readings)
        if printed is None or is_set or not self.arguments or isinstance(self.planned, str):
            return self.place, calibrate
        place = self.place.exact()
        made = place.budget(self.planned[0], self.options[0], calibrate)
        if made.available is None or made.settings.cache.size is not None:
            return self.place, calibrate
        return place, calibration.printed_by(calibrate, made, actual.around(printed))

    def _calibrated(self, model: PlannedModel, options: Mapping[str, Any]) -> Budget:
        """Calibrated plan of the launch with these options, cached."""
        key = json.dumps(options, sort_keys=True, default=repr)
        if key not in self._budgets:
            place, calibrate = self._corrected
            self._budgets[key] = place.budget(model, options, calibrate)
        return self._budgets[key]

    def fitting(
        self, remedies: Sequence[Remedy], *, is_completed: bool = False
    ) -> tuple[tuple[Remedy, ...], tuple[str, ...]]:
        """Return the remedies that fit, or cannot be planned, and why others are left out.

        With `is_completed` a remedy that does not fit alone gets the further change that it needs.
        """
        remedies_left, notes = [], []
        for remedy in remedies:
            fits, reason = self._judged(remedy)
            longer = self._completed(remedy) if is_completed and fits is False else None
            if longer is not None:
                remedies_left.append(longer)
            elif fits is False:
                left = "Fix left out because the plan still fails: {title}: {why}."
                notes.append(self._say(left, title=remedy.title, why=self._say(reason)))
            elif fits:
                remedies_left.append(self._passed(remedy, reason))
            else:
                state = f"unknown: {unknown_reason(reason)}"
                remedies_left.append(replace(remedy, checks=replace(remedy.checks, plan=state)))
        return tuple(remedies_left), tuple(notes)

    @cached_property
    def sizes(self) -> ModelSizes:
        """Sizes of the model as the catalog has it."""
        from vllm_runbooks.plan.shape import Attention
        from vllm_runbooks.plan.terms import GIB
        from vllm_runbooks.plan.weights import checkpoint_bytes

        if isinstance(self.model, str):
            return ModelSizes()
        shape = self.model.shape
        if shape.missing:
            return ModelSizes(positions=shape.max_positions, is_quantized=shape.quantization is not None)
        size = self.model.checkpoint_bytes or checkpoint_bytes(self.model.stock)
        heads = {layer.mixer.heads for layer in shape.kinds if isinstance(layer.mixer, Attention)}
        split = {layer.mixer.kv_heads if isinstance(layer.mixer, Attention) else 1 for layer in shape.kinds}
        request = None
        if not isinstance(self.planned, str) and (pool := self.planned[1].pool) is not None:
            request = max(pool.needed_bytes()) / GIB
        return ModelSizes(
            None if size is None else size / GIB,
            request,
            max(heads, default=None),
            min(split, default=None),
            shape.max_positions,
            shape.quantization is not None,
        )

    def searched(self) -> Mapping[str, str]:
        """The smallest value of each option with which the plan fits, if it expects the failure."""
        is_planned = self.symptom.startswith(_PLANNED_CAUSES) and self._is_expected() is False
        if not is_planned or isinstance(self.planned, str):
            return {}
        try:
            ways = self._ways_out(self.planned[0], self.options[0])
        except _UNREADABLE:
            return {}
        changes = [next(iter(way.changes.items())) for way in ways if way.fits and len(way.changes) == 1]
        return {_SEARCHED[name]: f"{value}" for name, value in changes if name in _SEARCHED}

    def _ways_out(self, model: PlannedModel, options: Mapping[str, Any]) -> tuple[WayOut, ...]:
        """The smallest changes with which the launch with these options fits."""
        from vllm_runbooks.plan import inverse

        place, calibrate = self._corrected
        return inverse.ways_out(
            model,
            lambda more: place.settings(model, {**options, **more}),
            place.devices,
            options,
            environment=place.environment,
            calibrate=calibrate,
        )

    def _is_expected(self) -> bool | None:
        """Whether the plan of the unchanged launch fits; None if there is no plan."""
        if isinstance(self.planned, str) or not self.arguments:
            return None
        try:
            return self._calibrated(self.planned[0], self.options[0]).fits
        except _UNREADABLE:
            return None

    def _edited(self, remedy: Remedy) -> Mapping[str, Any]:
        options = dict(self.options[0])
        for edit in remedy.edits:
            if edit.op == "set":
                options[edit.name] = edit.value
            elif edit.op == "remove":
                options.pop(edit.name, None)
        return options

    def _judged(self, remedy: Remedy) -> tuple[bool | None, str]:
        """Whether the changed launch fits with its margin, or why not, or why that is unknown."""
        if not remedy.edits:
            return None, "the command does not change"
        if not any(edit.name in _OF_MEMORY for edit in remedy.edits):
            return None, "the change does not affect memory"
        if isinstance(self.planned, str):
            return None, self.planned
        if not self.arguments:
            return None, "the log does not print the arguments; use --command"
        model, before = self.planned
        if self._is_refuted:
            return None, "the plan contradicts the log: it expects an earlier failure"
        if self.symptom.startswith(_PLANNED_CAUSES) and self._is_expected():
            return None, "the plan contradicts the log: it expects the launch to succeed"
        try:
            made = self._calibrated(model, self._edited(remedy))
        except _UNREADABLE:
            return None, "the planner does not support this change"
        return self._verdict(made, before)

    def change(self, remedy: Remedy) -> tuple[MemoryUse, MemoryUse] | None:
        """Planned memory before and after a remedy; None if it changes none, or either is unknown."""
        if isinstance(self.planned, str) or not any(edit.name in _OF_MEMORY for edit in remedy.edits):
            return None
        model = self.planned[0]
        try:
            uses = _use(self._calibrated(model, self.options[0])), _use(self._calibrated(model, self._edited(remedy)))
        except _UNREADABLE:
            return None
        return None if uses[0] is None or uses[1] is None else (uses[0], uses[1])

    @cached_property
    def _is_refuted(self) -> bool:
        """Whether the launch allocated its KV cache although the plan has no memory for it."""
        phases = {phase.name for start in self.starts for phase in start.timeline}
        if isinstance(self.planned, str) or phases.isdisjoint(_AFTER_THE_CACHE):
            return False
        return self._calibrated(self.planned[0], self.options[0]).fits is False

    def _verdict(self, made: Budget, before: Budget) -> tuple[bool | None, str]:
        from vllm_runbooks.plan import actual, inverse

        if made.settings.missing:
            name = made.settings.missing[0]
            return None, f"the model's configuration has no {name}" if name.isidentifier() else name
        count, available = len(made.ranks), len(self.cards)
        if available and count > available:
            return False, f"it needs {count} GPUs, the launch has {available}"
        free = number(self.captures.get("free_gib", "")) if self.symptom.startswith(_FREE_BELOW) else None
        requested = made.ranks[0].requested
        if free is not None and requested is not None and actual.in_gib(requested.low) > free:
            return False, f"it requests {actual.in_gib(requested.low):.2f} GiB, but only {free:g} GiB was free"
        if made.fits is not True:
            return made.fits, made.limits[0].rstrip(".")
        if not available and count > len(before.ranks):
            return None, f"it would fit on {count} such GPUs; list yours with --gpus"
        margin = inverse.margin(made)
        return True, "" if margin is None else self._left(actual.in_gib(margin.expected), actual.in_gib(margin.low))

    def _completed(self, remedy: Remedy) -> Remedy | None:
        """A remedy with the smallest further change that makes it fit; None if there is none."""
        from vllm_runbooks.plan import actual

        if isinstance(self.planned, str):
            return None
        model, place, options = self.planned[0], self.place, self._edited(remedy)
        try:
            if len(place.cards(place.settings(model, options))) > len(place.devices):
                return None
            ways = self._ways_out(model, options)
            way = next((way for way in ways if way.fits), None)
            if way is None or self._calibrated(model, {**self.options[0], **way.changes}).fits:
                return None  # the remedy is useless if the further change helps without it
        except _UNREADABLE:
            return None
        changes = self._say(" and ").join(f"{name} {json.dumps(value)}" for name, value in way.changes.items())
        more = self._say("; ").join(self._say(cost) for cost in way.costs)
        longer = replace(
            remedy,
            title=self._say("{title}, with {changes}", title=remedy.title, changes=changes),
            cost=self._say("; ").join((remedy.cost, more)),
            edits=(*remedy.edits, *(Edit("set", name, value) for name, value in way.changes.items())),
        )
        margin = way.margin
        note = "" if margin is None else self._left(actual.in_gib(margin.expected), actual.in_gib(margin.low))
        return self._passed(longer, note)

    def _passed(self, remedy: Remedy, note: str) -> Remedy:
        return replace(
            remedy,
            cost=self._say("; ").join((remedy.cost, note)) if note else remedy.cost,
            checks=replace(remedy.checks, plan="passed"),
        )

    def _left(self, expected: float, low: float) -> str:
        return self._say(
            "the plan leaves {expected} GiB free (at least {low} GiB) next to one full-context request",
            expected=f"{expected:.2f}",
            low=f"{low:.2f}",
        )


def _use(made: Budget) -> MemoryUse | None:
    """Memory of the GPU with the least room for the KV cache; None if a term is unknown."""
    from vllm_runbooks.plan.actual import in_gib
    from vllm_runbooks.plan.budget import total

    known = [(rank.available.expected, rank) for rank in made.ranks if rank.available is not None]
    if len(known) < len(made.ranks) or not known:
        return None
    available, fullest = min(known, key=lambda pair: pair[0])
    used = total(fullest.terms)
    if used is None or fullest.device.total is None:
        return None
    request = made.pool.needed_bytes()[fullest.stage] if made.pool is not None else None
    return MemoryUse(
        in_gib(fullest.device.total.expected),
        in_gib(used.expected),
        in_gib(available),
        None if request is None else in_gib(request),
    )


_UNREADABLE = (ArithmeticError, AttributeError, InputError, LookupError, TypeError, ValueError)
"""Errors that an argument of an unexpected form may cause: a plan must never prevent a diagnosis."""
