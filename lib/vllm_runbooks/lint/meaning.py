"""Rules about a launch on its release, model and GPUs; a rule with an unknown fact does not apply."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from vllm_runbooks.catalog.options import ENTRIES, SERVERS, ReleaseData
from vllm_runbooks.catalog.specs import Capability, Fits, Gpu, HostGpu, Model, ParserFit
from vllm_runbooks.catalog.support import Support, releases_with
from vllm_runbooks.reading.arguments.spelling import misspelt

OF_ONE_OPTION = frozenset(
    {
        "meaning.bfloat16-unsupported", "meaning.cache-type-unsupported", "meaning.fp8-cache-without-hardware",
        "meaning.quantization-unsupported", "meaning.fp8-weights-without-hardware", "meaning.backend-unsupported",
        "meaning.backend-unknown", "meaning.context-odd", "safety.whole-file-system", "safety.secret-in-arguments",
    }
)  # fmt: skip
FP8_HARDWARE: Capability = (8, 9)
_BF16_HARDWARE: Capability = (8, 0)
_BF16_FORMATS = ("bfloat16", "torch.bfloat16")
_FP16_FORMATS = ("half", "float16", "torch.float16")
_TYPES = {
    **dict.fromkeys(_BF16_FORMATS, "bfloat16"), **dict.fromkeys(_FP16_FORMATS, "float16"),
    **dict.fromkeys(("float", "float32", "torch.float32"), "float32"),
}  # fmt: skip
_EVERYWHERE = ("0.0.0.0", "::", "*", "")  # noqa: S104 - compared, not bound
_VOCABULARY_STEP = 64
"""The vocabulary is padded to a multiple of this before it is split."""
_ALWAYS_ON = ("openai",)
"""Tool parsers that need no switch."""
_TRUE = ("1", "true", "yes", "on")
_OVERRIDES = ("hf_overrides", "rope_scaling", "rope_parameters", "rope_theta", "hf_config_path", "model_impl")
"""Options that override the model's own configuration."""
_MAX_SIZE = 1 << 20
"""More ranks, hosts or prompt items are a typo, left to the parser."""
_MAX_PORT = 1 << 16
_MAX_TOKENS = 1 << 40
_STEP_OF_LENGTHS = 1024
_NEARLY = 8
"""A length this close to a multiple of 1024 is a typo, or counts from zero."""


@dataclass(frozen=True)
class LaunchFacts:
    flags: Mapping[str, Any]
    """Explicit options by dest; a value of another type is unknown."""
    support: Support
    model: Model | None = None
    name: str | None = None
    cards: tuple[HostGpu, ...] | None = None
    """GPUs of the hosts; None if unknown."""
    devices: tuple[str, ...] | None = None
    """Visible GPUs by index or UUID; None if unknown."""
    device_count: int | None = None
    group_count: int | None = None
    """GPUs of all pods that serve together; None if unknown."""
    has_more_hosts: bool = False
    """Whether other hosts or pods join the launch."""
    devices_origin: str = ""
    """Text that sets the visible GPUs, such as a variable with its value."""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    """Variables; None for an unknown value."""
    has_more_variables: bool = False
    """Whether a file or a record of the cluster may set more."""
    entry: str = "serve"
    has_own_network: bool = False
    """Whether its ports are not the host's: in a container, or on another host."""
    is_local: bool = False
    """Whether its container's ports are published on loopback only."""
    is_elided: bool = False
    """Whether there may be more arguments, such as those of a file."""
    unknown: frozenset[str] = frozenset()
    """Options that the release does not have, by destination."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    fits: Fits | None = None
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Quantization methods by name, from rule meaning.quantization-differs."""
    formats: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def size(self, dest: str) -> int | None:
        """A parallel size: 1 by default, None if unknown or absurd."""
        value = self.flags.get(dest, 1)
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_SIZE else None

    def word(self, dest: str) -> str | None:
        """A text value; None if absent or unknown."""
        value = self.flags.get(dest)
        return value if isinstance(value, str) and value else None

    @property
    def changes_configuration(self) -> bool:
        return any(name in self.flags or name in self.unknown for name in _OVERRIDES)

    @property
    def model_id(self) -> str | None:
        return self.model.id if self.model else None

    def is_on(self, dest: str) -> bool:
        return self.flags.get(dest) is True

    @property
    def visible(self) -> int | None:
        return len(dict.fromkeys(self.devices)) if self.devices is not None else self.device_count

    @cached_property
    def gpu_kinds(self) -> tuple[Gpu, ...]:
        # Most GPUs are one object, and a set of objects by identity is much smaller to hash.
        return tuple(dict.fromkeys({id(card.gpu): card.gpu for card in self.cards or ()}.values()))

    @property
    def capability(self) -> Capability | None:
        """Lowest compute capability; None if one is unknown, as any GPU may be used."""
        versions = [gpu.version for gpu in self.gpu_kinds]
        known_versions = [version for version in versions if version is not None]
        return min(known_versions) if known_versions and len(known_versions) == len(versions) else None

    @property
    def amd_gpu(self) -> str | None:
        """Name of an AMD GPU of the hosts; None if there is none."""
        return next((gpu.name for gpu in self.gpu_kinds if gpu.vendor == "amd"), None)

    @property
    def weakest(self) -> str:
        """Name of the GPU with the lowest capability."""
        return min(self.gpu_kinds, key=lambda gpu: gpu.version or (0, 0)).name if self.gpu_kinds else ""


@dataclass(frozen=True)
class BrokenRule:
    rule: str
    dests: tuple[str, ...]
    """Options involved, the most relevant first."""
    says: Mapping[str, str] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    """Environment variables involved, if no option is."""


def _broken(rule: str, *names: str, **says: object) -> BrokenRule:
    """A broken rule about options, or about variables in capitals."""
    texts = {name: str(value) for name, value in says.items() if value is not None and value != ""}
    dests = tuple(name for name in names if not name.isupper())
    return BrokenRule(rule, dests, texts, tuple(name for name in names if name.isupper()))


def _cut(command: LaunchFacts, rule: str, **says: object) -> BrokenRule:
    """A rule about the tensor parallel size and the model."""
    size = command.size("tensor_parallel_size")
    return _broken(rule, "tensor_parallel_size", size=size, model=command.model_id, **says)


def _listed(words: Sequence[str] | frozenset[str]) -> str:
    return ", ".join(sorted(words) if isinstance(words, frozenset) else words)


def _version(capability: Capability) -> str:
    return f"{capability[0]}.{capability[1]}"


def _split(command: LaunchFacts) -> tuple[Model, int] | None:
    """Model and tensor parallel size, if both are known and it is above 1."""
    size = command.size("tensor_parallel_size")
    if not command.model or not size or size == 1 or command.changes_configuration:
        return None
    return command.model, size


def _heads(command: LaunchFacts) -> Iterator[BrokenRule]:
    if not (split := _split(command)):
        return
    model, size = split
    heads = model.attention_heads
    if heads and heads % size:
        fitting = _listed([str(number) for number in range(1, heads + 1) if heads % number == 0])
        yield _cut(command, "meaning.heads-not-divisible", heads=heads, fitting=fitting)
    elif model.kv_heads and model.is_mla is False:
        few, many = sorted((model.kv_heads, size))
        if many % few:
            yield _cut(command, "meaning.kv-heads-not-divisible", heads=model.kv_heads)
        elif size > model.kv_heads:
            copies = size // model.kv_heads
            yield _cut(command, "meaning.kv-heads-replicated", heads=model.kv_heads, copies=copies)


def _vocabulary(command: LaunchFacts) -> Iterator[BrokenRule]:
    if not (split := _split(command)) or not (words := split[0].vocabulary_size):
        return
    padded = -(-words // _VOCABULARY_STEP) * _VOCABULARY_STEP
    if padded % split[1]:
        yield _cut(command, "meaning.vocabulary-not-divisible", vocabulary=padded)


def _layers(command: LaunchFacts) -> Iterator[BrokenRule]:
    if not (split := _split(command)):
        return
    model, size = split
    if model.experts is None or (model.experts and ("enable_expert_parallel" in command.flags)):
        return
    method = command.word("quantization") or model.quantization
    width = model.intermediate_size
    if model.experts and model.moe_intermediate_size:  # without it the experts are as wide as a layer would be
        width = model.moe_intermediate_size
    if not width or (method or "").endswith("mxfp4"):  # mxfp4 kernels pad the width
        return
    if width % size:
        return  # rejected as well, but no known model has other heads or vocabulary sizes
    group = _group(command, model)
    if group and (width // size) % group:
        figures = {"width": width, "share": width // size, "group": group}
        yield _cut(command, "meaning.quantization-groups-cut", method=model.quantization, **figures)


def _group(command: LaunchFacts, model: Model) -> int | None:
    """Weights per scale that this release cannot split."""
    facts = command.support.facts
    if model.quantization in ("awq", "gptq"):
        return model.group_size if facts.get("cut_groups_refused") and not model.experts else None
    settings = model.config.get("quantization_config")
    sizes = settings.get("weight_block_size") if isinstance(settings, Mapping) else None
    refused = facts.get("cut_blocks_of_experts_refused" if model.experts else "cut_blocks_refused")
    if model.quantization != "fp8" or not refused or not isinstance(sizes, Sequence) or len(sizes) != 2:
        return None
    return sizes[0] if type(sizes[0]) is int and sizes[0] > 0 else None


def _needed(command: LaunchFacts) -> int | None:
    """GPUs that this host must have; None if unknown or without GPUs."""
    if command.flags.get("device", "auto") not in ("auto", "cuda"):
        return None
    if command.flags.get("distributed_executor_backend") == "external_launcher":
        return None  # each rank is launched separately
    sizes = [command.size(dest) for dest in ("tensor_parallel_size", "pipeline_parallel_size")]
    sizes += [command.size("prefill_context_parallel_size"), _replicas(command)]
    hosts = command.size("nnodes")
    if None in sizes or hosts is None:
        return None
    return max(1, math.prod(size or 1 for size in sizes) // hosts)


def _replicas(command: LaunchFacts) -> int | None:
    if "data_parallel_rank" in command.flags:
        return 1
    if "data_parallel_size_local" in command.flags:
        return command.size("data_parallel_size_local")
    spread = any(dest in command.flags for dest in ("data_parallel_address", "data_parallel_backend"))
    return None if spread else command.size("data_parallel_size")


_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "data_parallel_size_local")


def _number_of_gpus(command: LaunchFacts) -> Iterator[BrokenRule]:
    needed = _needed(command)
    if needed is None:
        return
    hosts = {card.node for card in command.cards or ()}
    seen = command.visible
    if seen is None and command.cards is not None and (len(hosts) == 1 or _is_ray(command) is True):
        seen = len(command.cards)
    dests = tuple(dest for dest in _PARALLEL if dest in command.flags) or ("tensor_parallel_size",)
    if command.has_more_hosts and "nnodes" not in command.flags:
        group = command.group_count
        if group is not None and needed > group:
            says = {"needed": needed, "given": group, "origin": command.devices_origin}
            yield _broken("meaning.more-gpus-than-given", *dests, **says)
        return
    if seen is not None and needed > seen and not (len(hosts) > 1 and _is_ray(command) is not False):
        origin = {"origin": command.devices_origin} if command.visible is not None and command.devices_origin else {}
        yield _broken("meaning.more-gpus-than-given", *dests, needed=needed, given=seen, **origin)
    elif command.visible is not None and needed < command.visible and not command.is_elided:
        if any(name.startswith(_PARALLEL) for name in command.unknown):  # misspelt, or in one word with its value
            return
        names = (*dests, *({"CUDA_VISIBLE_DEVICES"} & command.environment.keys()))
        figures = {"needed": needed, "given": command.visible, "unused": command.visible - needed}
        yield _broken("meaning.gpus-unused", *names, **figures)


def _is_ray(command: LaunchFacts) -> bool | None:
    """Whether Ray launches the ranks; None if not specified."""
    executor = command.flags.get("distributed_executor_backend")
    return None if executor is None else executor == "ray" if isinstance(executor, str) else None


def _unequal_gpus(command: LaunchFacts) -> Iterator[BrokenRule]:
    size = command.size("tensor_parallel_size")
    kinds = command.gpu_kinds
    if size is None or size < 2 or len({gpu.memory_gib for gpu in kinds}) < 2 or size < len(command.cards or ()):
        return
    smallest, largest = (pick(kinds, key=lambda gpu: gpu.memory_gib) for pick in (min, max))
    names = {"smallest": smallest.name, "largest": largest.name}
    memory = {"smallest_gib": f"{smallest.memory_gib:g}", "largest_gib": f"{largest.memory_gib:g}"}
    yield _broken("meaning.unequal-gpus", "tensor_parallel_size", size=size, **names, **memory)


def _ray(command: LaunchFacts) -> Iterator[BrokenRule]:
    needed = _needed(command)
    hosts = {card.node for card in command.cards or ()}
    on_one = (command.visible or 0) >= (needed or 1) or (len(hosts) == 1 and len(command.cards or ()) >= (needed or 1))
    if _is_ray(command) and needed is not None and on_one and len(hosts) < 2 and command.size("nnodes") == 1:
        yield _broken("meaning.ray-on-one-host", "distributed_executor_backend", needed=needed)


def _encoder(command: LaunchFacts) -> Iterator[BrokenRule]:
    size = command.size("tensor_parallel_size")
    heads = command.model.encoder_heads if command.model else None
    if size is None or size < 2 or _is_text_alone(command):
        return
    if command.word("mm_encoder_tp_mode") == "data":
        yield _broken("meaning.encoder-on-every-gpu", "mm_encoder_tp_mode", size=size)
    mode = command.flags.get("mm_encoder_tp_mode", command.defaults.get("mm_encoder_tp_mode", "weights"))
    if mode == "weights" and heads and heads % size and _split(command):
        other = "--mm-encoder-tp-mode data" if "mm_encoder_tp_mode" in command.defaults else None
        yield _cut(command, "meaning.encoder-heads-not-divisible", heads=heads, mode=other)


def _is_text_alone(command: LaunchFacts) -> bool:
    """Whether every modality is limited to zero."""
    limits = command.flags.get("limit_mm_per_prompt")
    none_allowed = isinstance(limits, Mapping) and bool(limits) and all(_limit(limit) == 0 for limit in limits.values())
    return none_allowed or "language_model_only" in command.flags


def _number_format(command: LaunchFacts) -> Iterator[BrokenRule]:
    capability, kind = command.capability, command.model.model_type if command.model else None
    refuses_half = kind in command.support.facts.get("float16_refused", ()) and "hf_overrides" not in command.flags
    if refuses_half and command.word("dtype") in _FP16_FORMATS and command.model:
        yield _broken("meaning.float16-unsupported", "dtype", model=command.model.id, kind=kind)
    if capability is None or capability >= _BF16_HARDWARE:
        return
    nearest = "float32" if refuses_half else "half"
    says: dict[str, Any] = {"gpu": command.weakest, "capability": _version(capability), "nearest": nearest}
    if command.word("dtype") in _BF16_FORMATS:
        yield _broken("meaning.bfloat16-unsupported", "dtype", **says)
    elif command.flags.get("dtype", "auto") == "auto" and command.model and command.model.dtype in _BF16_FORMATS:
        is_cast = command.support.facts.get("casts_bfloat16")
        says["type"] = "float32" if refuses_half else "float16"
        rule = "meaning.bfloat16-cast" if is_cast else "meaning.bfloat16-unsupported"
        yield _broken(rule, "model", model=command.model.id, **says)


def _cache_type(command: LaunchFacts) -> Iterator[BrokenRule]:
    kind = command.word("kv_cache_dtype")
    capability = command.capability
    if kind is None or capability is None or not kind.startswith("fp8") or kind not in command.support.cache_types:
        return
    if capability >= FP8_HARDWARE or (command.model and command.model.is_mla):
        return
    takers = command.support.cache_takers(kind, capability)
    chosen = _backend_name(command)
    if chosen is not None and takers is not None:
        backend = command.support.backends.get(chosen)
        refuses = backend is not None and backend.takes(kind, capability) is False
        takers = () if refuses else (chosen,)
    says: dict[str, Any] = {"type": kind, "gpu": command.weakest, "capability": _version(capability)}
    if takers is not None and not takers:
        yield _broken("meaning.cache-type-unsupported", "kv_cache_dtype", backend=chosen, **says)
    else:
        yield _broken("meaning.fp8-cache-without-hardware", "kv_cache_dtype", backends=_listed(takers or ()), **says)


def _backend_name(command: LaunchFacts) -> str | None:
    config = command.flags.get("attention_config")
    inside = config.get("backend") if isinstance(config, Mapping) else None
    name = command.word("attention_backend") or (inside if isinstance(inside, str) else None)
    if name:
        return name.upper()  # options accept lower case, the variable does not
    reads_variable = command.support.facts.get("reads_backend_variable")
    return command.environment.get("VLLM_ATTENTION_BACKEND") if reads_variable else None


def _backend(command: LaunchFacts) -> Iterator[BrokenRule]:
    name = _backend_name(command)
    backends = command.support.backends
    if name is None or not backends or name.casefold() == "auto":
        return
    dests = [dest for dest in ("attention_backend", "attention_config") if dest in command.flags]
    names = dests or ["VLLM_ATTENTION_BACKEND"]
    if name not in backends:
        rule = "meaning.backend-unknown" if dests else "meaning.backend-variable-unknown"
        yield _broken(rule, *names, backend=name, **alternatives("attention_backend", name, backends))
        return
    backend, capability = backends[name], command.capability
    if command.amd_gpu and command.support.is_refused_on_rocm(backend=name):
        yield _broken("meaning.backend-unsupported", *names, refused=name, amd=command.amd_gpu)
    if backend and backend.capabilities and capability and capability not in backend.capabilities:
        takes = _listed([_version(version) for version in sorted(backend.capabilities)])
        says = {"gpu": command.weakest, "capability": _version(capability), "takes": takes}
        yield _broken("meaning.backend-unsupported", *names, backend=name, **says)


def _quantization(command: LaunchFacts) -> Iterator[BrokenRule]:
    chosen = command.word("quantization")
    method = chosen or (command.model.quantization if command.model and "quantization" not in command.flags else None)
    capability, dest = command.capability, "quantization" if chosen else "model"
    if command.amd_gpu and method and command.support.is_refused_on_rocm(method=method):
        yield _broken("meaning.quantization-unsupported", dest, refused=method, amd=command.amd_gpu)
    if method is None or method == "none" or capability is None:
        return
    least = command.support.quantizations.get(method)
    says: dict[str, Any] = {"method": method, "gpu": command.weakest, "capability": _version(capability)}
    if least is not None and capability[0] * 10 + capability[1] < least:
        yield _broken("meaning.quantization-unsupported", dest, least=f"{least // 10}.{least % 10}", **says)
    elif command.methods.get(method, {}).get("computes") == "fp8" and capability < FP8_HARDWARE:
        yield _broken("meaning.fp8-weights-without-hardware", dest, **says)


def _other_quantization(command: LaunchFacts) -> Iterator[BrokenRule]:
    chosen, stored = command.word("quantization"), _stored(command)
    reads = command.methods.get(chosen or "", {}).get("reads")
    if stored is None or reads is None:
        return
    says: dict[str, Any] = {"asked": chosen, "stored": stored, "model": command.name}
    if stored == "none" and command.formats.get(reads, {}).get("is_made") is False:
        yield _broken("meaning.quantization-absent", "quantization", **says)
    is_overruled = command.formats.get(stored, {}).get("overrules") in command.support.quantizations
    if stored in command.formats and reads != stored and not is_overruled:
        yield _broken("meaning.quantization-differs", "quantization", **says)


def _stored(command: LaunchFacts) -> str | None:
    """Quantization of the checkpoint, "none" without; None for a local folder."""
    model = command.model
    if model is None or model.id is None or command.changes_configuration:
        return None
    return model.quantization if (command.name or "").casefold() == model.id.casefold() else None


def _activations(command: LaunchFacts) -> Iterator[BrokenRule]:
    number_type = _TYPES.get(command.word("dtype") or "")
    method = command.word("quantization")
    if method is None and "quantization" not in command.flags:
        stored = _stored(command)
        # For some formats vLLM chooses among several methods.
        method = None if "faster" in command.methods.get(stored or "", {}) else stored
    takes = command.support.activations.get(method or "")
    if number_type and takes and number_type not in takes:
        yield _broken("meaning.type-unsupported", "dtype", given=number_type, method=method, takes=" or ".join(takes))


def _slower_kernel(command: LaunchFacts) -> Iterator[BrokenRule]:
    chosen, methods, capability = command.word("quantization"), command.support.quantizations, command.capability
    facts = command.methods.get(chosen or "", {})
    faster = facts.get("faster")
    if faster is None or facts.get("chooses") in methods or capability is None:
        return
    least = methods.get(faster)
    is_stored = command.model is None or command.model.quantization in (None, chosen)
    if least is not None and capability[0] * 10 + capability[1] >= least and is_stored:
        yield _broken("meaning.slower-kernel", "quantization", asked=chosen, faster=faster, gpu=command.weakest)


def _adapters(command: LaunchFacts) -> Iterator[BrokenRule]:
    adapters = command.flags.get("lora_modules")
    if adapters and "enable_lora" not in command.flags and not command.is_elided:
        yield _broken("meaning.lora-not-enabled", "lora_modules")


def _experts(command: LaunchFacts) -> Iterator[BrokenRule]:
    balancer = command.flags.get("eplb_config")
    count = balancer.get("num_redundant_experts") if isinstance(balancer, Mapping) else None
    is_count = isinstance(count, int) and not isinstance(count, bool) and count > 0
    is_off = command.flags.get("enable_eplb", False) is False
    if is_count and is_off and not command.is_elided:
        yield _broken("meaning.experts-without-eplb", "eplb_config", count=count)


def _architecture(command: LaunchFacts) -> Iterator[BrokenRule]:
    model, architectures = command.model, command.support.modalities
    if model is None or model.architecture is None or not architectures or "hf_overrides" in command.flags:
        return
    if model.architecture not in architectures and command.word("model_impl") in (None, "vllm"):
        yield _broken("meaning.architecture-unknown", "model", model=model.id, architecture=model.architecture)


def _modalities(command: LaunchFacts) -> tuple[str, ...] | None:
    """Inputs of the model other than text in this release."""
    model = command.model
    if model is None or model.architecture is None:
        return None
    table = command.support.modalities.get(model.architecture)
    if table is None:
        return model.modalities
    inputs = model.modalities or ()
    return tuple(kind for kind, always in table.items() if always or kind in inputs)


def _limit(value: Any) -> int | None:
    if isinstance(value, Mapping):
        value = value.get("count")
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_SIZE else None


def _limits(command: LaunchFacts) -> Iterator[BrokenRule]:
    limits = command.flags.get("limit_mm_per_prompt")
    kinds = _modalities(command)
    if not isinstance(limits, Mapping) or not limits or not kinds or command.is_on("language_model_only"):
        return
    open_ones = [kind for kind in kinds if kind not in limits]
    counts = {kind: limit for kind, value in limits.items() if (limit := _limit(value)) is not None}
    limited = [f"{kind} {limit}" for kind, limit in counts.items()]
    # Disabling a modality (video 0) implies a choice about the others; limiting one kind does not.
    if open_ones and len(open_ones) < len(kinds) and any(counts.values()) and not command.is_on("skip_mm_profiling"):
        says = {"unlimited": _listed(open_ones), "limited": _listed(limited), "model": command.model_id}
        yield _broken("meaning.modality-unlimited", "limit_mm_per_prompt", **says)


def _processor_arguments(command: LaunchFacts) -> Iterator[BrokenRule]:
    arguments = command.flags.get("mm_processor_kwargs")
    model = command.model
    if not isinstance(arguments, Mapping) or not arguments or model is None or model.processor_arguments is None:
        return
    read = command.support.processor_reads.get(model.architecture or "", frozenset())
    nested = {"images_kwargs", "videos_kwargs", "audio_kwargs", "text_kwargs", "common_kwargs"}
    accepted = {*model.processor_arguments, *read, *nested}
    if ignored := [str(name) for name in arguments if name not in accepted]:
        says = {"names": _listed(ignored), "model": model.id, "architecture": model.architecture}
        says["instead"] = "size" if set(ignored) & {"max_pixels", "min_pixels"} and "size" in accepted else None
        yield _broken("meaning.processor-argument-ignored", "mm_processor_kwargs", **says)


def _length(command: LaunchFacts) -> Iterator[BrokenRule]:
    length = command.flags.get("max_model_len")
    if not isinstance(length, int) or isinstance(length, bool) or not 0 < length <= _MAX_TOKENS:
        return
    limit = command.model.max_positions if command.model else None
    allowed = (command.environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0") or "1").casefold() in _TRUE
    nearest = (length + _STEP_OF_LENGTHS // 2) // _STEP_OF_LENGTHS * _STEP_OF_LENGTHS
    if limit is not None and length > limit and not allowed and not command.changes_configuration:
        says = {"length": length, "limit": limit, "model": command.model_id}
        yield _broken("meaning.context-beyond-model", "max_model_len", **says)
    elif nearest and 0 < abs(length - nearest) <= _NEARLY:
        yield _broken("meaning.context-odd", "max_model_len", length=length, nearest=nearest)


def _eager(command: LaunchFacts) -> Iterator[BrokenRule]:
    if command.is_on("enforce_eager"):
        yield _broken("meaning.eager-costs", "enforce_eager")


def _parsers(command: LaunchFacts) -> Iterator[BrokenRule]:
    automatic = command.is_on("enable_auto_tool_choice")
    parser = command.word("tool_call_parser")
    is_idle = parser is not None and parser not in _ALWAYS_ON and "enable_auto_tool_choice" not in command.flags
    if is_idle and command.entry in SERVERS and not command.is_elided:
        yield _broken("meaning.tool-parser-unused", "tool_call_parser", parser=parser)
    for dest, rule, table, is_read in (
        ("tool_call_parser", "meaning.tool-parser-unknown", command.support.tool_parsers, automatic),
        ("reasoning_parser", "meaning.reasoning-parser-unknown", command.support.reasoning_parsers, True),
    ):
        parser, has_plugin = command.word(dest), f"{dest.replace('_call', '')}_plugin" in command.flags
        if parser is not None and is_read and table and parser not in table and not has_plugin:
            says = {"parser": parser, "known": _listed(table), **alternatives(dest, parser, table)}
            yield _broken(rule, dest, **says)


def alternatives(option: str, name: str, names: Iterable[str]) -> dict[str, str]:
    """Releases that have an unknown name, or the name of which it is a typo; empty if there is none."""
    if releases := releases_with(option, name):
        return {"releases": releases}
    nearest = misspelt(name, names)
    return {"nearest": nearest} if nearest is not None else {}


def _others(
    fits: Mapping[str, ParserFit], name: str | None, model: str | None, available: frozenset[str] = frozenset()
) -> str | None:
    """Names that fit the model if the given one does not, if possible `available` ones."""
    fit = fits.get(name or "")
    if fit is None or model is None or fit.has(model):
        return None
    fitting = {other: table for other, table in fits.items() if table.has(model)}
    reads_the_same = fit.marks and any(table.marks == fit.marks for table in fitting.values())
    return None if reads_the_same else " or ".join(sorted(fitting.keys() & available or fitting)) or None


_REQUIRED = re.compile(r"\brequires (--[a-z-]{1,80})", re.ASCII)


def needed_values(command: LaunchFacts, message: str, data: ReleaseData) -> dict[str, str]:
    """The option that a message requires, with its values for the model; all values if those are unknown."""
    required = _REQUIRED.search(message)
    option = data.by_dest.get(required[1][2:].replace("-", "_")) if required else None
    if required is None or option is None:
        return {}
    support, fits, model = command.support, command.fits, command.model.id if command.model else command.name
    available, written_for = {
        "tool_call_parser": (support.tool_parsers, fits.tool_parsers if fits else {}),
        "reasoning_parser": (support.reasoning_parsers, fits.reasoning_parsers if fits else {}),
    }.get(option.dest, (frozenset(map(str, option.choices or option.hints)), {}))
    fitting = sorted(name for name in available & written_for.keys() if model and written_for[name].has(model))
    if model and fitting:
        return {"model": model, "fitting": " or ".join(f"{required[1]} {name}" for name in fitting)}
    return {"needed": required[1], "known": _listed(available)} if available else {}


def _belonging(command: LaunchFacts) -> Iterator[BrokenRule]:
    fits = command.fits
    model = command.model.id if command.model else command.name
    if fits is None:
        return
    template = command.word("chat_template")
    base = None if template is None or "{" in template else posixpath.basename(template.replace("\\", "/"))
    parser = command.word("tool_call_parser")
    reasoning, support = command.word("reasoning_parser"), command.support
    tools, reasonings = support.tool_parsers, support.reasoning_parsers
    for dest, rule, table, name, available in (
        ("tool_call_parser", "meaning.tool-parser-of-others", fits.tool_parsers, parser, tools),
        ("reasoning_parser", "meaning.reasoning-parser-of-others", fits.reasoning_parsers, reasoning, reasonings),
        ("chat_template", "meaning.chat-template-of-others", fits.chat_templates, base, frozenset()),
    ):
        if fitting := _others(table, name, model, available):
            yield _broken(rule, dest, given=name, fitting=fitting, model=model)
    fit = fits.chat_templates.get(base or "")
    if fit is not None and fit.tool_parsers and parser is not None and parser not in fit.tool_parsers:
        says = {"template": base, "parser": parser, "fitting": _listed(fit.tool_parsers)}
        yield _broken("meaning.template-and-parser-differ", "tool_call_parser", "chat_template", **says)


def _remote_code(command: LaunchFacts) -> Iterator[BrokenRule]:
    needs = command.model.needs_remote_code if command.model else None
    if command.is_on("trust_remote_code") and not needs:
        rule = "safety.remote-code" if needs is None else "safety.remote-code-needless"
        yield _broken(rule, "trust_remote_code", model=command.model_id)


def _local_media(command: LaunchFacts) -> Iterator[BrokenRule]:
    path = command.word("allowed_local_media_path")
    if path is not None and posixpath.normpath(path.strip()) in ("/", "//"):
        yield _broken("safety.whole-file-system", "allowed_local_media_path", path=path.strip())


def _open_port(command: LaunchFacts) -> Iterator[BrokenRule]:
    if command.is_elided or command.entry not in SERVERS or "uds" in command.flags or command.is_local:
        return
    if command.flags.get("headless") is True:
        return
    host = command.flags.get("host", command.defaults.get("host"))
    if host is None and command.support.facts.get("listens_everywhere") is not True:
        return
    is_keyed = "api_key" in command.flags or "VLLM_API_KEY" in command.environment
    is_keyed = is_keyed or command.has_more_variables
    asks_certificate = command.flags.get("ssl_cert_reqs", 0) != 0
    if (host is None or host in _EVERYWHERE) and not is_keyed and not asks_certificate:
        port = command.flags.get("port", command.defaults.get("port"))
        dests = [dest for dest in ("host", "port") if dest in command.flags]
        address = host or "0.0.0.0"  # noqa: S104 - printed, not bound
        yield _broken("safety.open-port", *dests, port=port if isinstance(port, int) else None, host=address)


_SECRETS = ("api_key", "hf_token", "ssl_keyfile_password")


def _secrets(command: LaunchFacts) -> Iterator[BrokenRule]:
    for dest in _SECRETS:
        value = command.flags.get(dest)
        values = value if isinstance(value, (list, tuple)) else [value]
        if any(isinstance(item, str) for item in values):
            yield _broken("safety.secret-in-arguments", dest, option=dest.replace("_", "-"))


_RULES: tuple[Callable[[LaunchFacts], Iterator[BrokenRule]], ...] = (
    _heads, _vocabulary, _layers, _number_of_gpus, _unequal_gpus, _ray, _encoder, _number_format, _cache_type, _backend,
    _quantization, _other_quantization, _activations, _slower_kernel, _adapters, _experts, _architecture, _limits,
    _processor_arguments, _length, _eager, _parsers, _belonging, _remote_code, _local_media, _open_port, _secrets,
)  # fmt: skip


def rules_broken(command: LaunchFacts) -> Iterator[BrokenRule]:
    for rule in _RULES:
        yield from rule(command)


def rules_broken_together(commands: Sequence[LaunchFacts]) -> Iterator[tuple[int, BrokenRule]]:
    """Yield the rules that concurrent launches on one host break together, with the index of the later launch."""
    yield from _ports(commands)
    shares: dict[str, list[tuple[int, float | None]]] = {}
    for index, command in enumerate(commands):
        needed = _needed(command)
        if command.devices is None or needed is None:
            continue
        utilisation = command.flags.get("gpu_memory_utilization", command.defaults.get("gpu_memory_utilization"))
        is_share = isinstance(utilisation, (int, float)) and utilisation is not True and 0 <= utilisation <= 1
        share = float(utilisation) if is_share else None
        for device in list(dict.fromkeys(command.devices))[:needed]:
            shares.setdefault(device, []).append((index, share))
    reported: set[int] = set()
    for device, users in shares.items():
        index = users[-1][0]
        if len(users) < 2 or index in reported:
            continue
        reported.add(index)
        exact = [share for _, share in users if share is not None]
        total = sum(exact)
        rule = "meaning.gpu-overcommitted" if len(exact) == len(users) and total > 1 + 1e-9 else "meaning.gpu-shared"
        printed_total = f"{total:.2f}" if len(exact) == len(users) else None
        yield index, _broken(rule, "gpu_memory_utilization", device=device, starts=len(users), total=printed_total)


def _ports(commands: Sequence[LaunchFacts]) -> Iterator[tuple[int, BrokenRule]]:
    """Report servers on the same port of a host, except for the first."""
    used: dict[int, list[str | None]] = {}
    for index, command in enumerate(commands):
        elsewhere = {"headless", "uds", "nnodes", "data_parallel_address"} & command.flags.keys()
        if command.entry not in ENTRIES or command.has_own_network or command.is_elided or elsewhere:
            continue
        port, host = (command.flags.get(dest, command.defaults.get(dest)) for dest in ("port", "host"))
        if type(port) is not int or not 0 < port < _MAX_PORT or not (host is None or isinstance(host, str)):
            continue
        hosts = used.setdefault(port, [])
        beside = [other for other in hosts if other == host or {other or "", host or ""} & set(_EVERYWHERE)]
        hosts.append(host)
        if beside:
            yield index, _broken("meaning.port-shared", "port", port=port, starts=len(beside) + 1)
