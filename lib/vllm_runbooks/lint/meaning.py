"""What a start of vLLM means on a release, a model and GPUs, where it is not what was meant: judgements, no words.

Every judgement needs all the facts it rests on: an unknown one (an option whose value cannot be known, a model or card
that is in no catalog, a table that a release does not have) makes the judgement silent, never guessed.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vllm_runbooks.catalog.options import ENTRIES, SERVERS
from vllm_runbooks.catalog.specs import Capability, Card, Fits, Gpu, Model, ParserFit
from vllm_runbooks.catalog.support import Support

OF_ONE_OPTION = frozenset(
    {
        "meaning.bfloat16-unsupported", "meaning.cache-type-unsupported", "meaning.fp8-cache-without-hardware",
        "meaning.quantization-unsupported", "meaning.fp8-weights-without-hardware", "meaning.backend-unsupported",
        "meaning.backend-unknown", "meaning.context-odd", "safety.whole-file-system", "safety.secret-in-arguments",
    }
)  # fmt: skip
"""Rules that one option breaks, whatever else its command says."""
FP8_HARDWARE: Capability = (8, 9)
"""From this compute capability on a card computes in FP8."""
_BF16_HARDWARE: Capability = (8, 0)
_BF16_FORMATS = ("bfloat16", "torch.bfloat16")
_FP16_FORMATS = ("half", "float16", "torch.float16")
_TYPES = {
    **dict.fromkeys(_BF16_FORMATS, "bfloat16"), **dict.fromkeys(_FP16_FORMATS, "float16"),
    **dict.fromkeys(("float", "float32", "torch.float32"), "float32"),
}  # fmt: skip
"""The type that each way of writing it means."""
_EVERYWHERE = ("0.0.0.0", "::", "*", "")  # noqa: S104 - what is judged, not what is bound
_VOCABULARY_STEP = 64
"""The vocabulary is padded to a multiple of this before it is split."""
_ALWAYS_ON = ("openai",)
"""Tool parsers that are used without being switched on."""
_TRUE = ("1", "true", "yes", "on")
_OVERRIDES = ("hf_overrides", "rope_scaling", "rope_parameters", "rope_theta", "hf_config_path", "model_impl")
"""Options that change what the model's own configuration says."""
_MAX_SIZE = 1 << 20
"""Ranks, hosts or items of one prompt; what is more is a slip of the hand, and judged by the parser alone."""
_MAX_PORT = 1 << 16
_MAX_TOKENS = 1 << 40
"""Of a context, likewise."""
_STEP_OF_LENGTHS = 1024
_NEARLY = 8
"""A length that misses a multiple of 1024 by no more than this is a typing error, or counted from zero."""


@dataclass(frozen=True)
class Command:
    """What is known of one start of vLLM."""

    flags: Mapping[str, Any]
    """Options that are given, by `dest`, typed; a value of another type than the option's is one that is unknown."""
    support: Support
    model: Model | None = None
    name: str | None = None
    """Of the model as it is given; None: not given or not known."""
    cards: tuple[Card, ...] | None = None
    """GPUs of the hosts that the start may use; None: not said."""
    devices: tuple[str, ...] | None = None
    """GPUs that the start is made to see, by number or UUID; None: not said which."""
    device_count: int | None = None
    """How many it is made to see."""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    """Variables that the start sees; None: set, and nobody knows to what."""
    entry: str = "serve"
    has_own_network: bool = False
    """Whether its ports are not those of the host: in a container, or of another host."""
    is_local: bool = False
    """Whether its ports are published to the host of its container alone."""
    is_elided: bool = False
    """Whether there are arguments beside those in `flags`, as where `...` or a file stands for them."""
    unknown: frozenset[str] = frozenset()
    """Options that the release does not have, as a `dest` would be written: what their author meant is not lost."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Of the release, by `dest`."""
    fits: Fits | None = None
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What is known of methods of quantisation, by name, as the rule meaning.quantization-differs describes them."""
    formats: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Likewise of the formats of checkpoints."""

    def size(self, dest: str) -> int | None:
        """A number of ranks or hosts: 1 where it is not given, None where it is not known or beyond all reason."""
        value = self.flags.get(dest, 1)
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_SIZE else None

    def word(self, dest: str) -> str | None:
        """The word that an option is given; None where it is absent or unknown."""
        value = self.flags.get(dest)
        return value if isinstance(value, str) and value else None

    @property
    def changes_configuration(self) -> bool:
        """Whether something else than the model's own configuration is meant to count."""
        return any(name in self.flags or name in self.unknown for name in _OVERRIDES)

    def is_on(self, dest: str) -> bool:
        """Whether a switch is known to be on."""
        return self.flags.get(dest) is True

    @property
    def visible(self) -> int | None:
        """How many GPUs the start is made to see by name or number."""
        return len(dict.fromkeys(self.devices)) if self.devices is not None else self.device_count

    @property
    def gpu_kinds(self) -> tuple[Gpu, ...]:
        """The kinds of cards that may be used, each once."""
        return tuple(dict.fromkeys(card.gpu for card in self.cards or ()))

    @property
    def capability(self) -> Capability | None:
        """The least compute capability; None where one card's is unknown: which cards are used is not said."""
        versions = [gpu.version for gpu in self.gpu_kinds]
        known = [version for version in versions if version is not None]
        return min(known) if known and len(known) == len(versions) else None

    @property
    def weakest(self) -> str:
        """Name of the card with the least capability."""
        return min(self.gpu_kinds, key=lambda gpu: gpu.version or (0, 0)).name if self.gpu_kinds else ""


@dataclass(frozen=True)
class Judgement:
    """A rule that a start breaks."""

    rule: str
    dests: tuple[str, ...]
    """Options that it is about, the first one the one to point at."""
    says: Mapping[str, str] = field(default_factory=dict)
    """What fills the sentences of the rule's message."""
    variables: tuple[str, ...] = ()
    """Environment variables that it is about, where no option is."""


def _judged(rule: str, *dests: str, variables: tuple[str, ...] = (), **says: object) -> Judgement:
    said = {name: str(value) for name, value in says.items() if value is not None and value != ""}
    return Judgement(rule, dests, said, variables)


def _listed(words: Sequence[str] | frozenset[str]) -> str:
    return ", ".join(sorted(words) if isinstance(words, frozenset) else words)


def _shown(capability: Capability) -> str:
    return f"{capability[0]}.{capability[1]}"


def _split(command: Command) -> tuple[Model, int] | None:
    """The model and the number of ranks, two or more, that each of its layers is split over, where both are known."""
    size = command.size("tensor_parallel_size")
    if not command.model or not size or size == 1 or command.changes_configuration:
        return None
    return command.model, size


def _heads(command: Command) -> Iterator[Judgement]:
    if not (split := _split(command)):
        return
    model, size = split
    if model.attention_heads and model.attention_heads % size:
        fitting = [number for number in range(1, model.attention_heads + 1) if model.attention_heads % number == 0]
        yield _judged(
            "meaning.heads-not-divisible",
            "tensor_parallel_size",
            size=size,
            heads=model.attention_heads,
            fitting=_listed([str(number) for number in fitting]),
            model=model.id,
        )
    elif model.kv_heads and model.is_mla is False:
        few, many = sorted((model.kv_heads, size))
        if many % few:
            yield _judged(
                "meaning.kv-heads-not-divisible",
                "tensor_parallel_size",
                size=size,
                heads=model.kv_heads,
                model=model.id,
            )
        elif size > model.kv_heads:
            yield _judged(
                "meaning.kv-heads-replicated",
                "tensor_parallel_size",
                size=size,
                heads=model.kv_heads,
                copies=size // model.kv_heads,
                model=model.id,
            )


def _vocabulary(command: Command) -> Iterator[Judgement]:
    if not (split := _split(command)) or not (words := split[0].vocabulary_size):
        return
    padded = -(-words // _VOCABULARY_STEP) * _VOCABULARY_STEP
    if padded % split[1]:
        yield _judged(
            "meaning.vocabulary-not-divisible",
            "tensor_parallel_size",
            size=split[1],
            vocabulary=words,
            padded=padded,
            model=split[0].id,
        )


def _layers(command: Command) -> Iterator[Judgement]:
    """The feed-forward layers: their width, and the groups of weights that share a scale, go into the ranks whole."""
    if not (split := _split(command)):
        return
    model, size = split
    if model.experts is None or (model.experts and ("enable_expert_parallel" in command.flags)):
        return
    method = command.word("quantization") or model.quantization
    width = model.intermediate_size
    if model.experts and model.moe_intermediate_size:  # without it the experts are as wide as a layer would be
        width = model.moe_intermediate_size
    if not width or (method or "").endswith("mxfp4"):  # those kernels pad the width
        return
    if width % size:
        return  # refused as well, but no model is known of which the heads or the vocabulary are not, too
    group = _group(command, model)
    if group and (width // size) % group:
        yield _judged(
            "meaning.quantization-groups-cut",
            "tensor_parallel_size",
            size=size,
            width=width,
            share=width // size,
            group=group,
            method=model.quantization,
            model=model.id,
        )


def _group(command: Command, model: Model) -> int | None:
    """How many weights of a row share a scale in the checkpoint, where this release refuses to part them."""
    facts = command.support.facts
    if model.quantization in ("awq", "gptq"):
        return model.group_size if facts.get("cut_groups_refused") and not model.experts else None
    settings = model.config.get("quantization_config")
    sizes = settings.get("weight_block_size") if isinstance(settings, Mapping) else None
    refused = facts.get("cut_blocks_of_experts_refused" if model.experts else "cut_blocks_refused")
    if model.quantization != "fp8" or not refused or not isinstance(sizes, Sequence) or len(sizes) != 2:
        return None
    return sizes[0] if type(sizes[0]) is int and sizes[0] > 0 else None


def _needed(command: Command) -> int | None:
    """GPUs that one host must have for this start; None: not known, or the start uses no GPUs."""
    if command.flags.get("device", "auto") not in ("auto", "cuda"):
        return None
    if command.flags.get("distributed_executor_backend") == "external_launcher":
        return None  # each rank is started from outside
    sizes = [command.size(dest) for dest in ("tensor_parallel_size", "pipeline_parallel_size")]
    sizes += [command.size("prefill_context_parallel_size"), _replicas(command)]
    hosts = command.size("nnodes")
    if None in sizes or hosts is None:
        return None
    return max(1, math.prod(size or 1 for size in sizes) // hosts)


def _replicas(command: Command) -> int | None:
    """Copies of the model that this very start brings up on its host."""
    if "data_parallel_rank" in command.flags:
        return 1
    if "data_parallel_size_local" in command.flags:
        return command.size("data_parallel_size_local")
    spread = any(dest in command.flags for dest in ("data_parallel_address", "data_parallel_backend"))
    return None if spread else command.size("data_parallel_size")


_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "data_parallel_size_local")


def _by_parallel_size(command: Command) -> tuple[str, ...]:
    return tuple(dest for dest in _PARALLEL if dest in command.flags) or ("tensor_parallel_size",)


def _number_of_gpus(command: Command) -> Iterator[Judgement]:
    needed = _needed(command)
    if needed is None:
        return
    hosts = {card.node for card in command.cards or ()}
    seen = command.visible
    if seen is None and command.cards is not None and (len(hosts) == 1 or _is_ray(command) is True):
        seen = len(command.cards)
    dests = _by_parallel_size(command)
    if seen is not None and needed > seen and not (len(hosts) > 1 and _is_ray(command) is not False):
        yield _judged("meaning.more-gpus-than-given", *dests, needed=needed, given=seen)
    elif command.visible is not None and needed < command.visible and not command.is_elided:
        yield _judged(
            "meaning.gpus-unused",
            *dests,
            variables=("CUDA_VISIBLE_DEVICES",) if "CUDA_VISIBLE_DEVICES" in command.environment else (),
            needed=needed,
            given=command.visible,
            unused=command.visible - needed,
        )


def _is_ray(command: Command) -> bool | None:
    """Whether Ray starts the ranks; None: the command does not say."""
    executor = command.flags.get("distributed_executor_backend")
    return None if executor is None else executor == "ray" if isinstance(executor, str) else None


def _unequal_gpus(command: Command) -> Iterator[Judgement]:
    size = command.size("tensor_parallel_size")
    kinds = command.gpu_kinds
    if size is None or size < 2 or len({gpu.memory_gib for gpu in kinds}) < 2 or size < len(command.cards or ()):
        return
    smallest, largest = (pick(kinds, key=lambda gpu: gpu.memory_gib) for pick in (min, max))
    yield _judged(
        "meaning.unequal-gpus",
        "tensor_parallel_size",
        size=size,
        smallest=smallest.name,
        smallest_gib=f"{smallest.memory_gib:g}",
        largest=largest.name,
        largest_gib=f"{largest.memory_gib:g}",
    )


def _ray(command: Command) -> Iterator[Judgement]:
    needed = _needed(command)
    hosts = {card.node for card in command.cards or ()}
    on_one = (command.visible or 0) >= (needed or 1) or (len(hosts) == 1 and len(command.cards or ()) >= (needed or 1))
    if _is_ray(command) and needed is not None and on_one and len(hosts) < 2 and command.size("nnodes") == 1:
        yield _judged("meaning.ray-on-one-host", "distributed_executor_backend", needed=needed)


def _encoder(command: Command) -> Iterator[Judgement]:
    size = command.size("tensor_parallel_size")
    heads = command.model.encoder_heads if command.model else None
    if size is None or size < 2 or _is_text_alone(command):
        return
    if command.word("mm_encoder_tp_mode") == "data":
        yield _judged("meaning.encoder-on-every-gpu", "mm_encoder_tp_mode", size=size)
    mode = command.flags.get("mm_encoder_tp_mode", command.defaults.get("mm_encoder_tp_mode", "weights"))
    if mode == "weights" and heads and heads % size and _split(command):
        yield _judged(
            "meaning.encoder-heads-not-divisible",
            "tensor_parallel_size",
            size=size,
            heads=heads,
            model=command.model.id if command.model else None,
            mode="--mm-encoder-tp-mode data" if "mm_encoder_tp_mode" in command.defaults else None,
        )


def _is_text_alone(command: Command) -> bool:
    """Whether no picture, video or sound will be given: every one that is limited may come zero times."""
    limits = command.flags.get("limit_mm_per_prompt")
    none_allowed = isinstance(limits, Mapping) and bool(limits) and all(_limit(one) == 0 for one in limits.values())
    return none_allowed or "language_model_only" in command.flags


def _number_format(command: Command) -> Iterator[Judgement]:
    capability, kind = command.capability, command.model.model_type if command.model else None
    refuses_half = kind in command.support.facts.get("float16_refused", ()) and "hf_overrides" not in command.flags
    if refuses_half and command.word("dtype") in _FP16_FORMATS and command.model:
        yield _judged("meaning.float16-unsupported", "dtype", model=command.model.id, kind=kind)
    if capability is None or capability >= _BF16_HARDWARE:
        return
    nearest = "float32" if refuses_half else "half"
    says: dict[str, Any] = {"gpu": command.weakest, "capability": _shown(capability), "nearest": nearest}
    if command.word("dtype") in _BF16_FORMATS:
        yield _judged("meaning.bfloat16-unsupported", "dtype", **says)
    elif command.flags.get("dtype", "auto") == "auto" and command.model and command.model.dtype in _BF16_FORMATS:
        is_cast = command.support.facts.get("casts_bfloat16")
        says["type"] = "float32" if refuses_half else "float16"
        rule = "meaning.bfloat16-cast" if is_cast else "meaning.bfloat16-unsupported"
        yield _judged(rule, "model", model=command.model.id, **says)


def _cache_type(command: Command) -> Iterator[Judgement]:
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
    says: dict[str, Any] = {"type": kind, "gpu": command.weakest, "capability": _shown(capability)}
    if takers is not None and not takers:
        yield _judged("meaning.cache-type-unsupported", "kv_cache_dtype", backend=chosen, **says)
    else:
        yield _judged("meaning.fp8-cache-without-hardware", "kv_cache_dtype", backends=_listed(takers or ()), **says)


def _backend_name(command: Command) -> str | None:
    """The attention backend that is asked for."""
    config = command.flags.get("attention_config")
    inside = config.get("backend") if isinstance(config, Mapping) else None
    name = command.word("attention_backend") or (inside if isinstance(inside, str) else None)
    if name:
        return name.upper()  # an option's letters may be small, the variable's may not
    reads_variable = command.support.facts.get("reads_backend_variable")
    return command.environment.get("VLLM_ATTENTION_BACKEND") if reads_variable else None


def _backend(command: Command) -> Iterator[Judgement]:
    name = _backend_name(command)
    backends = command.support.backends
    if name is None or not backends or name.casefold() == "auto":
        return
    dests = tuple(dest for dest in ("attention_backend", "attention_config") if dest in command.flags)
    variables = () if dests else ("VLLM_ATTENTION_BACKEND",)
    if name not in backends:
        rule = "meaning.backend-variable-unknown" if variables else "meaning.backend-unknown"
        yield _judged(rule, *dests, variables=variables, backend=name)
        return
    backend, capability = backends[name], command.capability
    if backend and backend.capabilities and capability and capability not in backend.capabilities:
        yield _judged(
            "meaning.backend-unsupported",
            *dests,
            variables=variables,
            backend=name,
            gpu=command.weakest,
            capability=_shown(capability),
            takes=_listed([_shown(one) for one in sorted(backend.capabilities)]),
        )


def _quantization(command: Command) -> Iterator[Judgement]:
    asked = command.word("quantization")
    method = asked or (command.model.quantization if command.model and "quantization" not in command.flags else None)
    capability = command.capability
    if method is None or method == "none" or capability is None:
        return
    least = command.support.quantizations.get(method)
    says: dict[str, Any] = {"method": method, "gpu": command.weakest, "capability": _shown(capability)}
    dest = "quantization" if asked else "model"
    if least is not None and capability[0] * 10 + capability[1] < least:
        yield _judged("meaning.quantization-unsupported", dest, least=f"{least // 10}.{least % 10}", **says)
    elif command.methods.get(method, {}).get("computes") == "fp8" and capability < FP8_HARDWARE:
        yield _judged("meaning.fp8-weights-without-hardware", dest, **says)


def _other_quantization(command: Command) -> Iterator[Judgement]:
    """A method that is asked for and is not the one that the weights are stored in, where those are the Hub's."""
    asked, stored = command.word("quantization"), _stored(command)
    reads = command.methods.get(asked or "", {}).get("reads")
    if stored is None or reads is None:
        return
    says: dict[str, Any] = {"asked": asked, "stored": stored, "model": command.name}
    if stored == "none" and command.formats.get(reads, {}).get("is_made") is False:
        yield _judged("meaning.quantization-absent", "quantization", **says)
    is_overruled = command.formats.get(stored, {}).get("overrules") in command.support.quantizations
    if stored in command.formats and reads != stored and not is_overruled:
        yield _judged("meaning.quantization-differs", "quantization", **says)


def _stored(command: Command) -> str | None:
    """How the weights are quantised, "none" where they are not; a folder of the model's name may hold others."""
    model = command.model
    if model is None or model.id is None or command.changes_configuration:
        return None
    return model.quantization if (command.name or "").casefold() == model.id.casefold() else None


def _activations(command: Command) -> Iterator[Judgement]:
    given = _TYPES.get(command.word("dtype") or "")
    method = command.word("quantization")
    if method is None and "quantization" not in command.flags:
        stored = _stored(command)
        # For some formats vLLM chooses among several methods.
        method = None if "faster" in command.methods.get(stored or "", {}) else stored
    takes = command.support.activations.get(method or "")
    if given and takes and given not in takes:
        yield _judged("meaning.type-unsupported", "dtype", given=given, method=method, takes=" or ".join(takes))


def _slower_kernel(command: Command) -> Iterator[Judgement]:
    asked, known, capability = command.word("quantization"), command.support.quantizations, command.capability
    told = command.methods.get(asked or "", {})
    faster = told.get("faster")
    if faster is None or told.get("chooses") in known or capability is None:
        return
    least = known.get(faster)
    is_stored = command.model is None or command.model.quantization in (None, asked)
    if least is not None and capability[0] * 10 + capability[1] >= least and is_stored:
        yield _judged("meaning.slower-kernel", "quantization", asked=asked, faster=faster, gpu=command.weakest)


def _adapters(command: Command) -> Iterator[Judgement]:
    given = command.flags.get("lora_modules")
    if given and "enable_lora" not in command.flags and not command.is_elided:
        yield _judged("meaning.lora-not-enabled", "lora_modules")


def _architecture(command: Command) -> Iterator[Judgement]:
    model, known = command.model, command.support.modalities
    if model is None or model.architecture is None or not known or "hf_overrides" in command.flags:
        return
    if model.architecture not in known and command.word("model_impl") in (None, "vllm"):
        yield _judged("meaning.architecture-unknown", "model", model=model.id, architecture=model.architecture)


def _modalities(command: Command) -> tuple[str, ...] | None:
    """What the model takes beside text on this release."""
    model = command.model
    if model is None or model.architecture is None:
        return None
    table = command.support.modalities.get(model.architecture)
    if table is None:
        return model.modalities
    own = model.modalities or ()
    return tuple(kind for kind, always in table.items() if always or kind in own)


def _limit(value: Any) -> int | None:
    if isinstance(value, Mapping):
        value = value.get("count")
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_SIZE else None


def _limits(command: Command) -> Iterator[Judgement]:
    limits = command.flags.get("limit_mm_per_prompt")
    kinds = _modalities(command)
    if not isinstance(limits, Mapping) or not limits or not kinds or command.is_on("language_model_only"):
        return
    open_ones = [kind for kind in kinds if kind not in limits]
    known = {kind: limit for kind, value in limits.items() if (limit := _limit(value)) is not None}
    limited = [f"{kind} {limit}" for kind, limit in known.items()]
    # Who only shuts something out (video 0) has thought of what is left; who counts one kind has forgotten the other.
    if open_ones and len(open_ones) < len(kinds) and any(known.values()) and not command.is_on("skip_mm_profiling"):
        yield _judged(
            "meaning.modality-unlimited",
            "limit_mm_per_prompt",
            unlimited=_listed(open_ones),
            limited=_listed(limited),
            model=command.model.id if command.model else None,
        )


def _processor_arguments(command: Command) -> Iterator[Judgement]:
    given = command.flags.get("mm_processor_kwargs")
    model = command.model
    if not isinstance(given, Mapping) or not given or model is None or model.processor_arguments is None:
        return
    read = command.support.processor_reads.get(model.architecture or "", frozenset())
    nested = {"images_kwargs", "videos_kwargs", "audio_kwargs", "text_kwargs", "common_kwargs"}
    known = {*model.processor_arguments, *read, *nested}
    if ignored := [str(name) for name in given if name not in known]:
        yield _judged(
            "meaning.processor-argument-ignored",
            "mm_processor_kwargs",
            names=_listed(ignored),
            model=model.id,
            architecture=model.architecture,
            instead="size" if set(ignored) & {"max_pixels", "min_pixels"} and "size" in known else None,
        )


def _length(command: Command) -> Iterator[Judgement]:
    length = command.flags.get("max_model_len")
    if not isinstance(length, int) or isinstance(length, bool) or not 0 < length <= _MAX_TOKENS:
        return
    limit = command.model.max_positions if command.model else None
    allowed = (command.environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0") or "1").casefold() in _TRUE
    nearest = (length + _STEP_OF_LENGTHS // 2) // _STEP_OF_LENGTHS * _STEP_OF_LENGTHS
    if limit is not None and length > limit and not allowed and not command.changes_configuration:
        yield _judged(
            "meaning.context-beyond-model",
            "max_model_len",
            length=length,
            limit=limit,
            model=command.model.id if command.model else None,
        )
    elif nearest and 0 < abs(length - nearest) <= _NEARLY:
        yield _judged("meaning.context-odd", "max_model_len", length=length, nearest=nearest)


def _eager(command: Command) -> Iterator[Judgement]:
    if command.is_on("enforce_eager"):
        yield _judged("meaning.eager-costs", "enforce_eager")


def _parsers(command: Command) -> Iterator[Judgement]:
    automatic = command.is_on("enable_auto_tool_choice")
    parser = command.word("tool_call_parser")
    is_idle = parser is not None and parser not in _ALWAYS_ON and "enable_auto_tool_choice" not in command.flags
    if is_idle and command.entry in SERVERS and not command.is_elided:
        yield _judged("meaning.tool-parser-unused", "tool_call_parser", parser=parser)
    for dest, plugin, table, rule in (
        ("tool_call_parser", "tool_parser_plugin", command.support.tool_parsers, "meaning.tool-parser-unknown"),
        (
            "reasoning_parser",
            "reasoning_parser_plugin",
            command.support.reasoning_parsers,
            "meaning.reasoning-parser-unknown",
        ),
    ):
        parser = command.word(dest)
        is_read = dest != "tool_call_parser" or automatic
        if parser is not None and is_read and table and parser not in table and plugin not in command.flags:
            yield _judged(rule, dest, parser=parser, known=_listed(table))


def _others(
    fits: Mapping[str, ParserFit], name: str | None, model: str | None, there: frozenset[str] = frozenset()
) -> str | None:
    """The names that the model's own kind asks for, where the one that is given is known to be another kind's.

    `there` is what the release has: of several names those are told, of which some are.
    """
    fit = fits.get(name or "")
    if fit is None or model is None or fit.has(model):
        return None
    own = {other: table for other, table in fits.items() if table.has(model)}
    reads_the_same = fit.marks and any(table.marks == fit.marks for table in own.values())
    return None if reads_the_same else " or ".join(sorted(own.keys() & there or own)) or None


def _belonging(command: Command) -> Iterator[Judgement]:
    fits = command.fits
    model = command.model.id if command.model else command.name
    if fits is None:
        return
    template = command.word("chat_template")
    base = None if template is None or "{" in template else posixpath.basename(template.replace("\\", "/"))
    parser = command.word("tool_call_parser")
    reasoning, known = command.word("reasoning_parser"), command.support
    for rule, dest, table, name, there in (
        ("meaning.tool-parser-of-others", "tool_call_parser", fits.tool_parsers, parser, known.tool_parsers),
        (
            "meaning.reasoning-parser-of-others",
            "reasoning_parser",
            fits.reasoning_parsers,
            reasoning,
            known.reasoning_parsers,
        ),
        ("meaning.chat-template-of-others", "chat_template", fits.chat_templates, base, frozenset()),
    ):
        if own := _others(table, name, model, there):
            yield _judged(rule, dest, given=name, fitting=own, model=model)
    fit = fits.chat_templates.get(base or "")
    if fit is not None and fit.tool_parsers and parser is not None and parser not in fit.tool_parsers:
        yield _judged(
            "meaning.template-and-parser-differ",
            "tool_call_parser",
            "chat_template",
            template=base,
            parser=parser,
            fitting=_listed(fit.tool_parsers),
        )


def _remote_code(command: Command) -> Iterator[Judgement]:
    if not command.is_on("trust_remote_code"):
        return
    needs = command.model.needs_remote_code if command.model else None
    if needs is False:
        yield _judged(
            "safety.remote-code-needless", "trust_remote_code", model=command.model.id if command.model else None
        )
    elif needs is None:
        yield _judged("safety.remote-code", "trust_remote_code")


def _local_media(command: Command) -> Iterator[Judgement]:
    path = command.word("allowed_local_media_path")
    if path is not None and posixpath.normpath(path.strip()) in ("/", "//"):
        yield _judged("safety.whole-file-system", "allowed_local_media_path", path=path.strip())


def _open_port(command: Command) -> Iterator[Judgement]:
    if command.is_elided or command.entry not in SERVERS or "uds" in command.flags or command.is_local:
        return
    if command.flags.get("headless") is True:
        return
    host = command.flags.get("host", command.defaults.get("host"))
    if host is None and command.support.facts.get("listens_everywhere") is not True:
        return
    is_keyed = "api_key" in command.flags or "VLLM_API_KEY" in command.environment
    asks_certificate = command.flags.get("ssl_cert_reqs", 0) != 0
    if (host is None or host in _EVERYWHERE) and not is_keyed and not asks_certificate:
        port = command.flags.get("port", command.defaults.get("port"))
        yield _judged(
            "safety.open-port",
            *(dest for dest in ("host", "port") if dest in command.flags),
            port=port if isinstance(port, int) else None,
            host=host or "0.0.0.0",  # noqa: S104 - what is told, not what is bound
        )


_SECRETS = ("api_key", "hf_token", "ssl_keyfile_password")


def _secrets(command: Command) -> Iterator[Judgement]:
    for dest in _SECRETS:
        value = command.flags.get(dest)
        if isinstance(value, str) or (isinstance(value, (list, tuple)) and any(isinstance(one, str) for one in value)):
            yield _judged("safety.secret-in-arguments", dest, option=dest.replace("_", "-"))


_RULES: tuple[Callable[[Command], Iterator[Judgement]], ...] = (
    _heads, _vocabulary, _layers, _number_of_gpus, _unequal_gpus, _ray, _encoder, _number_format, _cache_type, _backend,
    _quantization, _other_quantization, _activations, _slower_kernel, _adapters, _architecture, _limits,
    _processor_arguments, _length, _eager, _parsers, _belonging, _remote_code, _local_media, _open_port, _secrets,
)  # fmt: skip


def judge(command: Command) -> Iterator[Judgement]:
    """What a start means that was hardly meant."""
    for rule in _RULES:
        yield from rule(command)


def judge_together(commands: Sequence[Command]) -> Iterator[tuple[int, Judgement]]:
    """What several starts on one host do to each other: by the number of the later one, from 0, its judgement.

    The starts run at the same time. Only GPUs that are named count: which of several a start takes is the driver's
    order where they are not.
    """
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
    told: set[int] = set()
    for device, users in shares.items():
        index = users[-1][0]
        if len(users) < 2 or index in told:
            continue
        told.add(index)
        known = [share for _, share in users if share is not None]
        total = sum(known)
        rule = "meaning.gpu-overcommitted" if len(known) == len(users) and total > 1 + 1e-9 else "meaning.gpu-shared"
        shown = f"{total:.2f}" if len(known) == len(users) else None
        yield index, _judged(rule, "gpu_memory_utilization", device=device, starts=len(users), total=shown)


def _ports(commands: Sequence[Command]) -> Iterator[tuple[int, Judgement]]:
    """Servers that open the same port of one host: each but the first, with how many there are up to it."""
    taken: dict[int, list[str | None]] = {}
    for index, command in enumerate(commands):
        elsewhere = {"headless", "uds", "nnodes", "data_parallel_address"} & command.flags.keys()
        if command.entry not in ENTRIES or command.has_own_network or command.is_elided or elsewhere:
            continue
        port, host = (command.flags.get(dest, command.defaults.get(dest)) for dest in ("port", "host"))
        if type(port) is not int or not 0 < port < _MAX_PORT or not (host is None or isinstance(host, str)):
            continue
        hosts = taken.setdefault(port, [])
        beside = [other for other in hosts if other == host or {other or "", host or ""} & set(_EVERYWHERE)]
        hosts.append(host)
        if beside:
            yield index, _judged("meaning.port-shared", "port", port=port, starts=len(beside) + 1)
