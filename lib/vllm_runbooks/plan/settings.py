"""Settled memory settings of a launch: every option with its value in the release.

`settle` derives unset options by the rules of a release: the batch and the requests from the GPU,
the longest context from the model, the CUDA graphs from the batch; the engine, its runner and its
sampler from the features they support.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, NamedTuple

from vllm_runbooks.catalog import options as releases
from vllm_runbooks.catalog.eras import Key
from vllm_runbooks.catalog.specs import CPU_SPACE, unused_positions
from vllm_runbooks.catalog.start_rules import LaunchRules, start_rules
from vllm_runbooks.plan import drafts
from vllm_runbooks.plan.drafts import Drafting, DraftModel
from vllm_runbooks.plan.shape import Attention, Experts, Latent, Recurrent, Shape
from vllm_runbooks.plan.weights import Ranks
from vllm_runbooks.reading.arguments import json_options

_GIB = 2**30


@dataclass(frozen=True)
class SchedulerSettings:
    """Settings of the scheduler, in tokens unless a field says otherwise."""

    max_model_len: int
    """0 if unknown."""
    batched_tokens: int
    """`max_num_batched_tokens`; 0 if unknown."""
    sequences: int
    """`max_num_seqs`; 0 if unknown."""
    is_length_fitted: bool = False
    """`--max-model-len auto` (-1): the launch uses the longest that fits, `max_model_len` is the model's own."""
    concurrent_batches: int = 1
    is_chunked: bool = True


@dataclass(frozen=True)
class CacheSettings:
    """The KV cache."""

    dtype: str = "auto"
    block_tokens: int | None = None
    size: int | None = None
    """`--kv-cache-memory-bytes`: the cache has this size, whatever the utilization."""
    blocks_override: int | None = None
    caches_prefixes: bool | None = None
    mixes_groups: bool = True
    """False: the hybrid cache manager is switched off by an option."""
    decode_shards: int = 1
    prefill_shards: int = 1
    state_dtype: str = "auto"
    recurrent_dtype: str = "auto"
    index_dtype: str = "auto"
    backend: str | None = None
    """`--attention-backend`."""


@dataclass(frozen=True)
class GraphSettings:
    """Settings of compilation and CUDA graph capture."""

    piecewise: int = 0
    full: int = 0
    is_eager: bool = False
    is_compiled: bool = True
    is_cached: bool = False
    """Whether the compiled model is loaded from vLLM's compile cache; False if unknown."""

    @property
    def count(self) -> int:
        """CUDA graphs that are captured."""
        return self.piecewise + self.full


@dataclass(frozen=True)
class MediaSettings:
    """Images, videos and audio."""

    items: Mapping[str, int] | None = field(default=None, hash=False)
    """`--limit-mm-per-prompt` by modality, the release's default for one that is not named; None if not set."""
    item_sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)
    """Given sizes of `--limit-mm-per-prompt` by modality: num_frames, width and height."""
    skips_profile: bool = False
    language_only: bool = False
    processor: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def loads_no_encoder(self) -> bool:
        """Whether every modality is switched off."""
        return self.language_only or (bool(self.items) and not any((self.items or {}).values()))


@dataclass(frozen=True)
class SpeculationSettings:
    """Speculative decoding."""

    tokens: int = 0
    layers: int = 0
    """Layers of the checkpoint's own draft module that run."""
    method: str = ""
    """"draft_model", "eagle", "eagle3" or "medusa"; empty if no draft model runs or its memory is unknown."""
    model: str | None = None
    """The separate draft model; None if there is none."""
    unknown: str = ""
    """Draft model whose memory is unknown, with the reason if there is one; empty without such a model."""


@dataclass(frozen=True)
class LoraSettings:
    """LoRA."""

    rank: int = 0
    """`--max-lora-rank` where LoRA is on; 0: it is off."""
    slots: int = 0
    value_bytes: int = 0
    """Bytes of a value of an adapter (`--lora-dtype`)."""
    is_sharded: bool = False
    extra_words: int = 0
    """`--lora-extra-vocab-size`: tokens that an adapter may add."""
    has_bias: bool = False


@dataclass(frozen=True)
class LaunchSettings:
    """Everything that a launch's memory depends on, defaults of the release filled in."""

    version: str
    key: Key
    """The release as numbers."""
    is_v0: bool
    utilization: float
    """`gpu_memory_utilization`, as a share of the GPU's memory."""
    ranks: Ranks
    dtype: str
    """Data type that the model runs in: "bfloat16", "float16" or "float32"."""
    scheduler: SchedulerSettings
    quantization: str | None = None
    """`--quantization`; a checkpoint's own is in the shape."""
    is_v2_runner: bool = False
    is_pooling: bool = False
    sampler: str = "sort"
    """Implementation of top-k and top-p in the profiling run: "sort", "triton", "flashinfer", or `EITHER_SAMPLER`."""
    cpu_offload_bytes: int = 0
    """`--cpu-offload-gb`: bytes of weights on the host instead of each GPU."""
    cache: CacheSettings = CacheSettings()
    graphs: GraphSettings = GraphSettings()
    media: MediaSettings = MediaSettings()
    speculation: SpeculationSettings = SpeculationSettings()
    lora: LoraSettings = LoraSettings()
    missing: tuple[str, ...] = ()
    """Missing facts."""
    limits: tuple[str, ...] = ()
    """Why the release rejects these settings, a sentence each; the launch ends before memory matters."""

    @property
    def value_bytes(self) -> int:
        """Bytes of a value of the model."""
        return 4 if self.dtype == "float32" else 2


EITHER_SAMPLER = "sort or flashinfer"
"""FlashInfer's if it is installed."""
_REQUESTS_OF_OLDER = 256
"""`max_num_seqs` of the older engine (0.7.2 engine/arg_utils.py:217, 0.8.5 :1501)."""
_REQUESTS_EARLY = 1024
"""Default of V1 before 0.8 (0.7.2 engine/arg_utils.py:217)."""
_BATCH_EARLY = {"serve": (8192, 2048), "llm": (16384, 8192)}
"""Default batch of V1 before 0.8 on an H100 or H200, and on other GPUs (0.7.2
engine/arg_utils.py:1296)."""
_BATCH_ON_CPU, _REQUESTS_ON_CPU = {"serve": 2048, "llm": 4096}, {"serve": 128, "llm": 256}
"""Defaults for each rank on a CPU (0.20.2 engine/arg_utils.py, 0.32.0 :2975)."""
_BLOCK_ON_CPU = 128
"""0.20.2 platforms/cpu.py:120, 0.33.0 :309."""
_CPU_PLANNED: Key = (0, 20)
"""First release that takes the KV cache from a share of the host's memory (v1/worker/cpu_worker.py)."""
_BATCH_OF_OLDER = 2048
_BATCH_OF_POOLING = 32768
_BATCH_OF_MEDIA = 5120
"""Least batches of the older engine (0.7.2 config.py:53)."""
LONG_CONTEXT = 32768
"""Longer contexts are read in parts by the older engine (0.7.2 engine/arg_utils.py:1113)."""
_LARGEST_OF_OLDER = 8192
_UNSCALED_KINDS = ("default", "su", "longrope", "llama3")
"""Rotary embeddings whose configured context includes the scaling (0.6.6 config.py:2281)."""
_YARN = ("yarn", "deepseek_yarn")
_SCALED_KINDS = (
    "deepseek_llama_scaling", "dynamic", "fope", "linear", "mllama4", "mrope", "ntk", "openpangu", "proportional",
    "telechat3-yarn", "xdrope",
)  # fmt: skip
"""The other types of any release (model_executor/layers/rotary_embedding/__init__.py `get_rope`, which raises
"Unknown RoPE scaling type" for all others)."""
_VIDEO_FRAMES = 32
_VIDEO_FRAME_TOKENS = 78
"""Maximum tokens of a video in Gemma 4: frames, each with 70 tokens, 2 marks and 6 for its time
(0.22.1 model_executor/models/gemma4_mm.py:258)."""
_DTYPES = {name: name for name in ("bfloat16", "float16", "float32")} | {"half": "float16", "float": "float32"}
_MODES = {"NONE": (0, 0), "PIECEWISE": (1, 0), "FULL": (0, 2), "FULL_DECODE_ONLY": (0, 1), "FULL_AND_PIECEWISE": (1, 1)}
"""By `cudagraph_mode`: whether pieces are captured; whole steps: 0 none, 1 of decoding, 2 of any batch."""
_MODE_NUMBERS = {0: "NONE", 1: "PIECEWISE", 2: "FULL"}
_LORA_CHANGES = {
    "lora_target_modules": "which layers have LoRA adapters with lora_target_modules",
    "long_lora_scaling_factors": "the cosine and sine tables for long_lora_scaling_factors",
    "enable_tower_connector_lora": "the encoder's adapters for enable_tower_connector_lora",
    "enable_mixed_moe_lora_format": "the layout of expert adapters with enable_mixed_moe_lora_format",
    "enable_moe_shared_loras": "the layout of expert adapters with enable_moe_shared_loras",
}
"""Unknown inputs of LoRA's memory if an option is set."""
_TRUE = ("1", "true")
_SHARING = ((12, 1),)
"""Capability of GPUs with unified memory, for which NVML reports none (GB10: nvidia-smi shows
[N/A])."""
_LARGEST_GRAPH = 65_536
"""Limit in tokens of the CUDA graph sizes: a typo must not use up time and memory."""
_WITHOUT_MODEL = ("", "ngram", "[ngram]", "ngram_gpu", "suffix")
"""Methods of speculation that load nothing (0.33.0 config/speculative.py:1276-1340)."""
_SUFFIX_DEPTH = 24
"""Default number of speculative tokens of `suffix` (0.33.0 config/speculative.py:1735)."""
_MTP_COUNTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "num_mtp_modules")
"""Fields with the number of a model's own draft layers (0.33.0 config/speculative.py:686-1170,
:1390)."""
POOLING_FILE = "1_Pooling/config"
"""File of sentence-transformers with the pooling type (0.32.0 transformers_utils/config.py:998)."""
_VIDEO_FAMILIES = frozenset({
    "qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen3_vl", "qwen3_omni_moe", "glm4v", "glm_ocr", "gemma4",
    "llava_onevision", "internvl", "internvit",
})  # fmt: skip
"""Families whose tower also reads videos: it is loaded unless both limits are 0 (0.33.0
model_executor/models/qwen2_5_vl.py:1434, 0.11.2 :1229)."""
_NAMED = (("eagle-", "eagle"), ("eagle3", "eagle3"), ("dflash", "dflash"), ("dspark", "dspark"))
"""Parts of a model's name that identify its draft method, first match wins (0.33.0
config/speculative.py:1445)."""
_POOLING_TASKS = ("embed", "embedding", "classify", "score", "reward", "pooling")


class _ReleaseFacts(NamedTuple):
    context: str
    gpu: str | None
    capability: tuple[int, int] | None
    version: str
    key: Key
    by: LaunchRules
    written: Mapping[str, str]
    batch: releases.Default
    requests: releases.Default
    utilization: float
    lora_rank: int
    loras: int
    lora_words: int


@lru_cache(maxsize=512)
def _known(
    release: str, context: str, gpu: str | None, memory: float | None, capability: tuple[int, int] | None
) -> _ReleaseFacts:
    data = releases.load(release)
    version = data.asked if releases.version_key(data.asked) else data.version
    key = (releases.version_key(version) or ())[:3]
    by, written = start_rules(key)
    number = None if capability is None else f"{capability[0]}.{capability[1]}"
    if capability in _SHARING and not by.asks_shared:
        memory = 0.0

    def default(dest: str) -> releases.Default:
        return data.default(dest, context=context, gpu=gpu, memory_gib=memory, capability=number)

    return _ReleaseFacts(
        context,
        gpu,
        capability,
        version,
        key,
        by,
        written,
        default("max_num_batched_tokens"),
        default("max_num_seqs"),
        float(default("gpu_memory_utilization").value),
        int(default("max_lora_rank").value or 0),
        int(default("max_loras").value or 0),
        int(default("lora_extra_vocab_size").value or 0),
    )


PARTITION = "VLLM_PP_LAYER_PARTITION"


def partition(text: str) -> tuple[int, ...] | None:
    """Parse the layers of each stage like vLLM (0.33.0 distributed/utils.py:217).

    None if invalid; `damaged` returns the error.
    """
    try:
        parts = tuple(int(part) for part in text.split(","))
    except ValueError:
        return None
    return parts if min(parts) >= 0 else None


def damaged(text: str) -> str:
    """Error of an invalid partition text."""
    try:
        least = min(int(part) for part in text.split(","))
    except ValueError:
        return f"{PARTITION}: vLLM fails with: Invalid partition string: {text[:80]}"
    return f"{PARTITION}={text[:80]}: a stage cannot have {least} layers; use at least 0"


def mismatch(ranks: Ranks, layers: int) -> str | None:
    """Error of vLLM for stages that do not add up.

    distributed/utils.py, get_pp_indices (0.6.6 :76, 0.33.0 :220).
    """
    parts = ranks.partition
    if parts is None:
        return None
    message = f"{PARTITION}={','.join(map(str, parts))}: vLLM ends its start:"
    if len(parts) != ranks.pipeline:
        return f"{message} len(partitions)={len(parts)} does not match pp_size={ranks.pipeline}."
    if sum(parts) != layers:
        return f"{message} sum(partitions)={sum(parts)} does not match num_hidden_layers={layers}."
    return None


# ---- settling


def settle(
    shape: Shape,
    options: Mapping[str, Any],
    release: str,
    *,
    environment: Mapping[str, str] | None = None,
    gpu_name: str | None = None,
    vendor: str = "nvidia",
    memory_gib: float | None = None,
    capability: tuple[int, int] | None = None,
    config: Mapping[str, Any] | None = None,
    draft: DraftModel | None = None,
    context: str = "serve",
) -> LaunchSettings:
    """Settle every option that affects the memory of a launch; unknown ones are in `missing`.

    Args:
        shape: The model, with `--hf-overrides` and the like applied.
        options: Given options by argparse destination, converted: lengths are numbers, JSON
            options are mappings.
        release: The vLLM version, in any form.
        environment: Environment variables of the launch.
        gpu_name: The first GPU's name, as the driver reports it; None if unknown.
        vendor: Its vendor, "nvidia" or "amd"; "cpu" for a host without GPUs.
        memory_gib: The first GPU's total memory; None if unknown.
        capability: The first GPU's compute capability; None if unknown.
        config: The model's `config.json`, for the few fields that `shape` does not keep.
        draft: The separate draft model, if its configuration is available.
        context: "serve" for a server, "llm" for the class LLM.

    Raises:
        InputError: The release is not a version.
    """
    facts = _known(release, context, gpu_name, memory_gib, capability)
    return _LaunchSettler(shape, options, facts, environment or {}, config or {}, vendor=vendor, draft=draft).settings()


@dataclass(frozen=True)
class _Speculation:
    method: str = ""
    """"" without speculation; every kind of MTP is "mtp"."""
    tokens: int = 0
    layers: int = 0
    model: str | None = None
    is_parallel: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)


class _LaunchSettler:
    def __init__(
        self,
        shape: Shape,
        options: Mapping[str, Any],
        facts: _ReleaseFacts,
        environment: Mapping[str, str],
        config: Mapping[str, Any],
        *,
        vendor: str = "nvidia",
        draft: DraftModel | None = None,
    ) -> None:
        self.shape = shape
        self.draft = draft
        self.options = options
        self.known = facts
        self.by = facts.by
        self.environment = environment
        self.capability = facts.capability
        self.is_rocm, self.is_cpu = vendor == "amd", vendor == "cpu"
        self.is_cuda = not (self.is_rocm or self.is_cpu)
        self.config = config
        self.missing: dict[str, None] = {}
        self.limits: list[str] = []
        self.draft_unknown = ""
        mixers = [mixer for layer in shape.kinds for mixer in layer.mixers]
        self.attention = [mixer for mixer in mixers if isinstance(mixer, Attention)]
        self.has_state = any(isinstance(mixer, Recurrent) for mixer in mixers)
        self.has_latent = any(isinstance(mixer, Latent) for mixer in mixers)
        self.has_experts = any(isinstance(layer.feed_forward, Experts) for layer in shape.kinds)
        self.ropes = [mixer.rope for mixer in mixers if isinstance(mixer, (Attention, Latent)) and mixer.rope]
        self.is_crossed = any(mixer.kind == "cross" for mixer in self.attention)
        self.has_media = shape.encoders != () and not options.get("language_model_only")
        task = options.get("task") or options.get("convert") or "auto"
        runner = options.get("runner") or "auto"
        is_default = runner == task == "auto"
        self.is_pooling = runner == "pooling" or task in _POOLING_TASKS or (is_default and shape.pools)
        self.eager = bool(options.get("enforce_eager"))
        compilation = options.get("compilation_config")
        if isinstance(compilation, (int, str)) and not isinstance(compilation, bool):
            compilation = {"level": compilation}
        self.compilation: Mapping[str, Any] = compilation if isinstance(compilation, Mapping) else {}

    def number(self, dest: str, default: int = 0) -> int:
        value = self.options.get(dest)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def switch(self, name: str) -> bool | None:
        """A boolean variable (0 or 1); None if not set."""
        text = self.environment.get(name)
        if text is None:
            return None
        text = text.strip()
        return bool(int(text)) if text.lstrip("-").isdecimal() else text.casefold() in _TRUE

    def told(self, name: str) -> Any:
        """A field of the configuration, of its text part first."""
        for part in ("text_config", "llm_config", "language_config"):
            inner = self.config.get(part)
            if isinstance(inner, Mapping) and inner.get(name) is not None:
                return inner[name]
        return self.config.get(name)

    # -- model

    def dtype(self) -> str:
        requested = str(self.options.get("dtype") or "auto").lower().removeprefix("torch.")
        if requested in _DTYPES:
            return _DTYPES[requested]
        if requested != "auto":
            self.missing[f"the dtype {requested}"] = None
        dtype = _DTYPES.get(self.shape.dtype or "")
        if not self.by.fitting_dtype:
            is_wide = self.shape.model_type in self.by.wide_default
            return ("bfloat16" if is_wide else "float16") if dtype in (None, "float32") else dtype
        if self.capability is None and self.is_cuda and self.shape.model_type in self.by.no_half:
            # Any other model runs in bfloat16 or float16.
            self.missing["compute capability of the GPU (dtype depends on it)"] = None
        has_wide = self.capability is None or self.capability >= (8, 0)
        can = [name for name, has in (("bfloat16", has_wide), ("float16", True), ("float32", True)) if has]
        if self.shape.model_type in self.by.no_half:
            can.remove("float16")
        return dtype if dtype in can and dtype != "float32" else can[0]

    def positions(self) -> int | None:
        longest = self.shape.max_positions
        if longest is not None:
            longest -= unused_positions(self.config)
        allowed = self.told("model_max_length") if self.by.longest_allowed else None
        if isinstance(allowed, int) and allowed:
            longest = allowed
        windows = [mixer.window for mixer in self.attention if mixer.kind == "sliding" and mixer.window]
        if longest is None:
            return None
        if self.options.get("disable_sliding_window") and windows:
            longest = min(longest, *windows)
        if any(name in (self.shape.text_type or "") for name in self.by.unscaled):
            return longest
        factor = 1.0
        for rope in self.ropes:
            if rope.kind not in (*_UNSCALED_KINDS, *_YARN, *_SCALED_KINDS):
                self.missing[f"the RoPE type {rope.kind}"] = None
            if rope.kind in _UNSCALED_KINDS or (rope.kind in _YARN and not self.by.stretched_yarn):
                continue
            factor = max(factor, rope.factor)
            if rope.kind in _YARN:
                longest = rope.positions
        return int(longest * factor)

    def length(self) -> tuple[int, bool]:
        """`max_model_len`, and whether vLLM reduces it to fit the memory."""
        requested = self.options.get("max_model_len")
        longest = self.positions()
        if requested is None or requested == -1:
            if longest is None:
                self.missing["the longest context: the model's configuration has no max_position_embeddings"] = None
            long = [rope for rope in self.ropes if rope.kind in ("longrope", "su")]
            if longest is not None and long and self.by.trained_longrope:
                longest = long[0].positions
            return longest or 0, requested == -1 and self.by.fits_length
        allowed = self.told("model_max_length")
        is_allowed = self.environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0").strip().casefold() in _TRUE
        is_beyond = (
            longest is not None and requested > longest and not (isinstance(allowed, int) and requested <= allowed)
        )
        if is_beyond and not is_allowed:
            self.limits.append(
                f"--max-model-len {requested} is more than the {longest} tokens that the model supports: "
                f"vLLM {self.known.version} rejects it unless VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 is set"
            )
        return int(requested), False

    def speculation(self) -> _Speculation:
        config = self.speculative()
        if config is None:
            return _Speculation()
        model, method, facts = config.get("model"), str(config.get("method") or ""), self.known
        tokens_option = json_options.whole(config.get("num_speculative_tokens"))
        tokens = tokens_option if tokens_option is not None and tokens_option > 0 else None
        if model is None and not method and json_options.drafts_itself(self.shape.text_type, facts.key):
            method = "mtp"
        if method in ("", "draft_model") and isinstance(model, str):
            method = self._method(model)
        is_own = isinstance(model, str) and method not in _WITHOUT_MODEL
        if json_options.is_mtp(method):
            layers = len(self.shape.mtp)
            if not layers and tokens is None:
                self.missing["num_speculative_tokens"] = None
            if not layers and is_own:
                self.miss_draft(f"{model}")
            if not is_own:
                self.check_mtp()
            return _Speculation("mtp", layers if tokens is None else tokens, layers)
        if method == "suffix" and tokens is None:
            tokens = json_options.whole(config.get("suffix_decoding_max_tree_depth", _SUFFIX_DEPTH))
        if tokens is None:
            self.missing["num_speculative_tokens"] = None
        if not is_own and method and method not in _WITHOUT_MODEL:
            self.missing[f"the memory of {method} drafting"] = None
        is_parallel = bool(config.get("parallel_drafting"))
        return _Speculation(method, tokens or 0, 0, model if is_own else None, is_parallel, config)

    def speculative(self) -> Mapping[str, Any] | None:
        facts, option = self.known, self.options.get
        merged, twice = json_options.speculative(self.options)
        if twice is not None:
            self.limits.append(f"{twice} are mutually exclusive: vLLM {facts.version} rejects them")
        if merged is None:
            model, tokens = option("speculative_model"), option("num_speculative_tokens")
            if not model and tokens is None:
                return None
            merged = {"num_speculative_tokens": tokens, **({"model": model} if model else {})}
        config, fault = json_options.speculation(merged, facts.key, facts.version, self.shape.text_type)
        if fault is not None:
            self.limits.append(fault)
        return config or None

    def check_mtp(self) -> None:
        since = drafts.own_layers(self.shape.model_type, self.shape.architecture)
        version, architecture = self.known.version, self.shape.architecture or "the model"
        if since is not None and since > self.known.key:
            self.limits.append(f"vLLM {version} cannot draft with the MTP layers of {architecture}: the launch fails")
        elif not self.shape.mtp:
            is_unknown = since is not None or any(self.told(name) is not None for name in _MTP_COUNTS)
            if is_unknown or self.options.get("model_impl") == "transformers" or self.shape.architecture is None:
                self.missing["the MTP layers of the model: its configuration names none"] = None
            else:
                self.limits.append(
                    f"{architecture} has no MTP layers to draft with: vLLM {version} rejects it "
                    "(0.19.0 config/speculative.py:530)"
                )

    def miss_draft(self, draft: str) -> None:
        self.draft_unknown = draft
        self.missing[f"the memory of the draft model {draft}"] = None

    def _method(self, model: str) -> str:
        lower = model.lower()
        if lower in ("ngram", "[ngram]"):
            return "ngram"
        kind = str(self.draft.config.get("model_type")) if self.draft is not None else ""
        named = next((method for part, method in _NAMED if part in lower), "draft_model")
        return kind if named == "draft_model" and kind in ("medusa", "mlp_speculator") else named

    def drafting(self, speculation: _Speculation, ranks: Ranks, *, is_older: bool, is_newer_runner: bool) -> str:
        """Method of a separate draft model if its memory is known, else ""."""
        method, name, draft, release = speculation.method, speculation.model, self.draft, self.known.key
        if name is None:
            return ""
        version = self.known.version
        if drafts.refusal(method, release):
            self.limits.append(f"vLLM {version} does not support the draft method {method}: the launch fails")
            return ""
        split = speculation.config.get("draft_tensor_parallel_size")
        if split not in (None, 1, ranks.tensor):
            self.limits.append(f"vLLM {version} runs a draft model on 1 GPU or on {ranks.tensor}, not on {split}")
        unknown: tuple[str, ...]
        if draft is None or draft.name != name:
            unknown = ("it is not in the catalog; pass a folder with its config.json",)
        elif is_older:
            unknown = ("unknown how the V0 engine shares the KV cache with it",)
        elif speculation.config.get("quantization"):
            unknown = (f"how {speculation.config['quantization']} stores its weights",)
        elif method == "draft_model" and split not in (None, ranks.tensor) and is_newer_runner:
            unknown = ("how the newer runner loads it on one of several GPUs",)
        else:
            form = self.shape.quantization is not None or self.options.get("quantization") is not None
            unknown = drafts.unknown(draft, Drafting(method, speculation.tokens), release, ranks, target_form=form)
        if unknown:
            self.miss_draft(f"{name}: {', '.join(unknown)}")
            return ""
        if draft is not None:
            self._refused_draft(draft, speculation, ranks, is_newer_runner=is_newer_runner)
        return method

    def _refused_draft(
        self, draft: DraftModel, speculation: _Speculation, ranks: Ranks, *, is_newer_runner: bool
    ) -> None:
        """Add the reasons why a draft model is rejected.

        0.16.0 config/speculative.py:713, v1/spec_decode/draft_model.py:36, config/model.py:1043.
        """
        version, shape = self.known.version, draft.shape
        mixers = [kind.mixer for kind in shape.kinds]
        heads = next((mixer.heads for mixer in mixers if isinstance(mixer, (Attention, Latent))), 0)
        if heads % ranks.tensor:
            self.limits.append(f"{heads} attention heads of {draft.name} cannot be split over {ranks.tensor} GPUs")
        if speculation.method != "draft_model":
            return
        split = speculation.config.get("draft_tensor_parallel_size")
        if split not in (None, ranks.tensor) and not is_newer_runner:
            self.limits.append(f"vLLM {version} splits a draft model like the model itself, over {ranks.tensor} GPUs")
        if shape.vocabulary_size != self.shape.vocabulary_size and not speculation.config.get(
            "use_heterogeneous_vocab"
        ):
            self.limits.append(
                f"{draft.name} has {shape.vocabulary_size} tokens, the model {self.shape.vocabulary_size}: "
                f"vLLM {version} requires the same vocabulary"
            )

    def shortened(self, length: int, speculation: _Speculation, method: str, *, is_newer_runner: bool) -> int:
        """Longest context, limited by the draft model's (0.33.0 config/vllm.py:3025)."""
        if self.draft is None or not method or not is_newer_runner:
            return length
        requested = speculation.config.get("max_model_len")
        positions = _LaunchSettler(self.draft.shape, {}, self.known, self.environment, self.draft.config).positions()
        most = drafts.longest(
            self.draft, positions, method, self.known.key, requested if isinstance(requested, int) else None
        )
        if most is None or most >= length:
            return length
        return most

    # -- engine and runner

    def is_older(self, dtype: str, speculation: _Speculation, ranks: Ranks) -> bool:
        switch = self.switch("VLLM_USE_V1")
        if self.by.engine == "newer":
            return False
        if self.by.engine == "older" or switch is False:
            return not switch
        is_unknown = self.capability is None and not self.is_rocm  # 0.8.5 engine/arg_utils.py:1351 asks CUDA's GPUs
        if is_unknown and "compute capability below 8.0" in self.by.older_for:
            self.missing["compute capability of the GPU (the engine depends on it)"] = None
        present = set(self._engine_features(dtype, speculation, ranks))
        lacking = sorted(present & self.by.older_for)
        if lacking and switch:
            names = ", ".join(lacking)
            self.limits.append(
                f"vLLM {self.known.version} rejects VLLM_USE_V1=1 with features that the V1 engine lacks: {names}"
            )
            return False
        return bool(lacking) or (not switch and bool(present & self.by.experimental))

    def _engine_features(self, dtype: str, speculation: _Speculation, ranks: Ranks) -> Iterator[str]:
        """Features of a launch that an early V1 engine lacked (0.8.5 engine/arg_utils.py:1292)."""
        option, cache = self.options.get, str(self.options.get("kv_cache_dtype") or "auto")
        for name, dest, default in (
            ("logits processor", "logits_processor_pattern", None),
            ("preemption", "preemption_mode", None),
            ("output processing", "disable_async_output_proc", False),
            ("scheduling policy", "scheduling_policy", "fcfs"),
            ("scheduler steps", "num_scheduler_steps", 1),
            ("scheduler delay", "scheduler_delay_factor", 0.0),
            ("prompt adapter", "enable_prompt_adapter", False),
            ("prompt embeddings", "enable_prompt_embeds", False),
            ("partial prefills", "max_num_partial_prefills", 1),
            ("tracing", "otlp_traces_endpoint", None),
        ):
            if option(dest) not in (None, default):
                yield name
        form = option("load_format")
        if form in ("tensorizer", "sharded_state"):
            yield "load format"
        if form == "sharded_state":
            yield "sharded state"
        if self.capability is not None and self.capability < (8, 0):
            yield "compute capability below 8.0"
        if cache != "auto" and not self._has_cache(cache):
            yield "quantized KV cache"
        if dtype == "float32":
            yield "32 bit values"
        if option("quantization") == "gguf":
            yield "gguf"
        if self.is_pooling:
            yield "pooling"
        if self.is_crossed:
            yield "cross attention"
        if self.has_state:
            yield "state"
        if speculation.method:
            kind = "eagle" if speculation.method in ("eagle", "eagle3", "mtp") else speculation.method
            yield kind if kind in ("ngram", "eagle", "medusa") else "draft"
        backend = option("distributed_executor_backend")
        if ranks.pipeline > 1 and backend != "ray":
            yield "stages"
        if ranks.pipeline > 1 and backend not in (None, "ray", "mp", "external_launcher"):
            yield "pipeline stages with another backend"

    def _has_cache(self, cache_dtype: str) -> bool:
        """Whether the early newer engine has a cache of that dtype (0.8.5 :1340, 0.10.2 platforms/cuda.py:522)."""
        backend = self.environment.get("VLLM_ATTENTION_BACKEND")
        major = self.capability[0] if self.capability is not None else None
        is_flash = backend in (None, "FLASH_ATTN_VLLM_V1") and cache_dtype.startswith("fp8") and major == 9
        if not self.by.caches_by_backend:
            return is_flash
        if self.has_latent:
            return backend in (None, "FLASHMLA", "CUTLASS_MLA")
        return is_flash or major == 10 or backend == "FLASHINFER" or not cache_dtype.startswith("fp8")

    def is_newer_runner(self, speculation: _Speculation, ranks: Ranks) -> bool:
        switch = self.switch("VLLM_USE_V2_MODEL_RUNNER")
        if switch is not None:
            return switch
        by, architecture = self.by, self.shape.architecture
        is_listed = architecture in by.runner_models
        if not by.runner or (by.runner != "all" and self.is_pooling):
            return False
        if by.runner == "listed" and not is_listed:
            return False
        if by.runner_small and (self.has_experts or self.shape.quantization or self.options.get("quantization")):
            return False
        is_plain = not self.has_experts and not self.has_state
        if by.runner == "plain" and not is_plain and not (is_listed and not self.has_state):
            return False
        return by.runner_lacks.isdisjoint(self._runner_features(speculation, ranks))

    def _runner_features(self, speculation: _Speculation, ranks: Ranks) -> Iterator[str]:
        """Features of a launch that the V2 runner lacked at first (0.22.1 config/vllm.py:1977)."""
        option = self.options.get
        if self.has_state:
            yield "state"
            if option("mamba_cache_mode") == "all":
                yield "states of every block"
            if option("mamba_cache_mode") == "align" or option("enable_prefix_caching"):
                yield "aligned states"
        if self.number("prefill_context_parallel_size", 1) > 1:
            yield "prefill shards"
            if not self.has_latent:
                yield "prefill shards of heads"
        if self._level() in ("1", "STOCK_TORCH_COMPILE"):
            yield "stock compile"
        if speculation.method:
            if speculation.method not in self.by.runner_speculation:
                yield "speculation"
            if speculation.is_parallel and speculation.method not in ("dflash", "dspark"):
                yield "parallel drafting"
            if speculation.method == "eagle3" and ranks.pipeline > 1:
                yield "eagle3 over stages"
        if option("distributed_executor_backend") == "external_launcher" and ranks.pipeline > 1:
            yield "launched stages"
        for name, dest in (
            ("reasoning", "reasoning_config"),
            ("two batches at once", "enable_dbo"),
            ("routed experts", "enable_return_routed_experts"),
            ("logits processors", "logits_processors"),
            ("prompt embeddings", "enable_prompt_embeds"),
            ("fast prefill", "kv_sharing_fast_prefill"),
            ("encoder transfer", "ec_transfer_config"),
            ("elastic experts", "enable_elastic_ep"),
        ):
            if option(dest):
                yield name
        if option("logprobs_mode") in ("raw_logits", "processed_logits"):
            yield "logits as logprobs"

    def batches(self, speculation: _Speculation, ranks: Ranks, *, is_newer_runner: bool) -> int:
        if self.is_cpu:  # platforms/cpu.py (0.20.2 :136, 0.33.0 :348)
            return ranks.pipeline
        by, option = self.by, self.options.get("async_scheduling")
        method = speculation.method
        can_speculate = method in ("", *by.asynchronous_speculation) or (by.newer_speculates and is_newer_runner)
        can_stage = by.asynchronous_stages == "all" or (by.asynchronous_stages == "newer" and is_newer_runner)
        states = self.has_state and bool(self.options.get("enable_prefix_caching"))
        ahead = (
            by.asynchronous
            and can_speculate
            and (ranks.pipeline == 1 or can_stage)
            and (by.asynchronous_pooling or not self.is_pooling)
            and (by.asynchronous_states or not states)
            and self.options.get("distributed_executor_backend") in (None, "mp", "uni", "external_launcher")
        )
        if not (ahead if option is None else option):
            return ranks.pipeline
        if is_newer_runner:
            return ranks.pipeline + 1
        return 2 if ranks.pipeline == 1 else ranks.pipeline

    def sampler(self, requests: int, *, is_older: bool, is_newer_runner: bool) -> str:
        by, switch = self.by, self.switch("VLLM_USE_FLASHINFER_SAMPLER")
        if is_older:
            return "sort"
        can = not is_newer_runner or by.flashinfer_v2
        if self.options.get("logprobs_mode") in ("processed_logits", "processed_logprobs") and not is_newer_runner:
            can = False
        if not self.is_cuda:  # 0.33.0 v1/sample/ops/topk_topp_sampler.py:118
            can = False
        if can and switch is None and by.flashinfer_if_installed:
            return EITHER_SAMPLER
        if can and (by.flashinfer if switch is None else switch):
            if self.capability is None:
                self.missing["compute capability of the GPU (the sampler depends on it)"] = None
            if self.capability is None or by.flashinfer_floor <= self.capability <= (12, 1):
                return "flashinfer"
        return "triton" if by.triton_rows is not None and requests >= by.triton_rows else "sort"

    # -- batch

    def older_batch(self, length: int, speculation: _Speculation) -> tuple[int, int, bool]:
        """Batch, requests and whether long prompts are read in parts, by the older engine (0.7.2 config.py:1521)."""
        requests = self.options.get("max_num_seqs")
        if requests is None:
            requests = _REQUESTS_OF_OLDER
        option = self.options.get("enable_chunked_prefill")
        is_windowed = bool(self.attention) and all(mixer.kind == "sliding" for mixer in self.attention)
        is_cut = (
            length > LONG_CONTEXT
            and not is_windowed
            and not speculation.method
            and not self.options.get("enable_lora")
            and not self.options.get("enable_prompt_adapter")
            and not self.is_pooling
            and not self.has_media
            and (self.by.older_latent or not self.has_latent)
        )
        is_cut = is_cut if option is None else bool(option)
        batch = self.options.get("max_num_batched_tokens")
        if batch is None:
            is_whole = not is_cut or self.number("num_scheduler_steps", 1) > 1
            batch = max(length, _BATCH_OF_OLDER) if is_whole else _BATCH_OF_OLDER
            batch = max(batch, _BATCH_OF_POOLING) if self.is_pooling else batch
            batch = max(batch, _BATCH_OF_MEDIA) if self.has_media else batch
            if not length:
                batch = 0
            elif self.by.older_cap:
                batch = min(requests * length, batch)
        return batch, requests, is_cut

    def newer_batch(self, length: int) -> tuple[int, int, bool]:
        by = self.by
        batch_option, requests_option = self.options.get("max_num_batched_tokens"), self.options.get("max_num_seqs")
        batch = self._default_batch() if batch_option is None else batch_option
        requests = self._default_requests() if requests_option is None else requests_option
        option = self.options.get("enable_chunked_prefill")
        is_cut = not self.is_crossed if option is None or not by.whole_prompts else bool(option) and not self.is_crossed
        if self.is_pooling and option is None:
            pooling = _pooling_type(self.config)
            is_encoder = any(mixer.kind == "encoder" for mixer in self.attention)
            is_cut = is_cut and "last" in pooling and not is_encoder
            if not pooling and not is_encoder:
                self.missing["the model's pooling type (decides chunked prefill)"] = None
        twice = 2 if by.throughput and self.options.get("performance_mode") == "throughput" else 1
        batch *= twice if batch_option is None else 1
        requests *= twice if requests_option is None else 1
        if batch_option is None and batch:
            if by.whole_prompts and not is_cut:
                batch = max(length, batch)
            if by.holds_item:
                batch = max(batch, self._largest_item(batch))
            if by.caps_batch and requests and length:
                batch = min(requests * length, batch)
        if requests_option is None and by.caps_requests and batch:
            requests = min(requests, batch)
        return batch, requests, is_cut

    def _default_batch(self) -> int:
        by = self.by
        if (
            by.batched_experts is not None
            and self.options.get("all2all_backend") in ("deepep_low_latency", "nixl_ep")
            and self.options.get("enable_expert_parallel")
            and self.number("data_parallel_size", 1) > 1
        ):
            return by.batched_experts
        if by.engine == "older":
            large, others = _BATCH_EARLY[self.known.context]
            if self.known.gpu is None:
                self.missing["the GPU's name (max_num_batched_tokens depends on it)"] = None
                return 0
            return large if any(name in self.known.gpu.casefold() for name in ("h100", "h200")) else others
        if self.is_cpu:
            return _BATCH_ON_CPU[self.known.context] * self._world()
        return self._by_card(self.known.batch, "max_num_batched_tokens")

    def _world(self) -> int:
        return self.number("tensor_parallel_size", 1) * self.number("pipeline_parallel_size", 1)

    def _default_requests(self) -> int:
        if self.is_cpu:
            return _REQUESTS_ON_CPU[self.known.context] * self._world()
        return _REQUESTS_EARLY if self.by.engine == "older" else self._by_card(self.known.requests, "max_num_seqs")

    def _by_card(self, default: releases.Default, dest: str) -> int:
        if not default.is_known or default.value is None:
            self.missing[f"the GPU's name and memory ({dest} depends on them)"] = None
            return 0
        return int(default.value)

    def _largest_item(self, batch: int) -> int:
        """Tokens of the largest item for models that attend to a whole item."""
        largest = _VIDEO_FRAMES * _VIDEO_FRAME_TOKENS
        if self.shape.model_type != "gemma4" or not self.has_media or batch >= largest:
            return 0
        name = "use_bidirectional_attention"
        text = self.config.get("text_config")
        if name not in (text if isinstance(text, Mapping) else self.config):  # null means no
            self.missing[name] = None
        return largest if self.told(name) == "vision" else 0

    # -- graphs

    def _level(self) -> str:
        level = self.compilation.get("mode", self.compilation.get("level"))
        return "" if level is None else str(level).upper()

    def graphs(
        self, batch: int, requests: int, speculation: _Speculation, *, is_older: bool, is_newer_runner: bool
    ) -> tuple[int, int, bool]:
        """Graphs of pieces, graphs of whole decoding steps, and whether the model is compiled."""
        by = self.by
        if self.eager or not batch or not requests or self.is_cpu:
            return 0, 0, not self.eager and not is_older
        if is_older:
            return 0, len(_sizes_of_older(requests)), False
        is_compiled = self._level() in ("", "3", "VLLM_COMPILE", "PIECEWISE")
        if by.offload_stops and self.options.get("cpu_offload_gb"):
            is_compiled = False
        level = str(self.options.get("optimization_level", 2)).lstrip("Oo") if by.levels else "2"
        if level == "0" and not self._level():
            is_compiled = False
        pieces, whole = self._mode(level)
        if not is_compiled:
            pieces = 0
            whole = whole if "cudagraph_mode" in self.compilation else 0
        query = 1 + speculation.tokens
        if query > 1 and whole == 1 and self._has_single_token_graphs():
            whole = 0
        sizes = self._sizes(batch, requests, query)
        decodes: Sequence[int] = sizes
        if query > 1 and whole == 1 and sizes:
            rounded = sorted({up for size in sizes if (up := -(-size // query) * query) <= sizes[-1]})
            if by.full_rounded_v2 and is_newer_runner:
                decodes = rounded
            elif by.sizes_rounded:
                sizes = decodes = rounded or [query]
        has_lora = bool(self.options.get("enable_lora"))
        cases = 2 if has_lora and (by.lora_graphs_v2 if is_newer_runner else by.lora_graphs) else 1
        if whole == 1:
            decodes = [size for size in decodes if query <= size <= requests * query]
        return pieces * len(sizes) * cases, (len(decodes) * cases if whole else 0), is_compiled

    def _has_single_token_graphs(self) -> bool:
        """Whether the attention's full graphs are for one token of each request, so drafts are decoded without them.

        It is FlashInfer where neither FlashAttention 3 nor TensorRT-LLM's kernels read an 8-bit cache
        (v1/attention/backends/flashinfer.py, 0.20.2 :713-743, 0.27.1 :895-936). Other models may use Triton.
        """
        backend = self._attention()[0]
        is_fp8 = str(self.options.get("kv_cache_dtype") or "auto").startswith("fp8")
        by_default = backend is None and is_fp8 and self.has_state and not self.has_latent
        has_others = self.capability is None or self.capability[0] in (9, 10)
        return not has_others and (by_default or backend == "FLASHINFER")

    def _attention(self) -> tuple[str | None, Mapping[str, Any]]:
        """The chosen attention backend, None if vLLM chooses, and `attention_config`."""
        config = self.options.get("attention_config")
        attention = config if isinstance(config, Mapping) else {}
        backend = self.options.get("attention_backend") or attention.get("backend")
        return (str(backend).upper() if backend else None), attention

    def _mode(self, level: str) -> tuple[int, int]:
        option = self.compilation.get("cudagraph_mode")
        if option is not None:
            name = _MODE_NUMBERS.get(option, "") if isinstance(option, int) else str(option).upper().rpartition(".")[2]
            mode = _MODES.get(name, (1, 0))
        elif self.compilation.get("use_cudagraph") is False:
            mode = (0, 0)
        elif self.compilation.get("full_cuda_graph"):
            mode = (0, 2)
        else:
            has_whole = self.by.full_graphs == "all" or (self.by.full_graphs == "state" and self.has_state)
            mode = {"0": (0, 0), "1": (1, 0)}.get(level, (1, 1 if has_whole else 0))
        pieces, whole = mode
        major = self.capability[0] if self.capability is not None else None
        if whole == 2 and major != 9 and self.by.full_graphs:
            # FlashAttention 3 alone captures whole steps of any batch; others fall back to both kinds.
            pieces, whole = 1, 1
        if whole and self.is_pooling:
            pieces, whole = 1, 0
        if (pieces or whole) and self.is_crossed:
            # 0.33.0 config/model.py:1489, since 0.11.0.
            pieces, whole = (0, 0) if self.is_rocm else self.by.crossed_graphs
        if whole and self.has_latent and not self.by.full_latent and major not in (9, 10):
            if major is None:
                self.missing["compute capability of the GPU (CUDA graphs depend on it)"] = None
            pieces, whole = 1, 0
        return pieces, whole

    def _sizes(self, batch: int, requests: int, query: int) -> list[int]:
        by, option = self.by, self.options.get
        sizes_option = self.compilation.get("cudagraph_capture_sizes") or option("cudagraph_capture_sizes")
        largest = self.compilation.get("max_cudagraph_capture_size") or option("max_cudagraph_capture_size")
        old = option("cuda_graph_sizes")
        is_gpt_oss = self.shape.text_type == "gpt_oss"
        if not sizes_option and isinstance(old, (list, tuple)) and len(old) > 1:
            sizes_option = old
        if sizes_option:
            return sorted({size for size in sizes_option if size <= batch or not by.sizes_within})
        is_wide = self.capability is not None and self.capability[0] == 10
        top = 512 if not is_wide else by.sizes_wide
        step = 16 if by.sizes == "sixteenth" else 8
        if by.sizes != "fixed":
            top = min(2 * requests * (query if by.sizes_speculate else 1), top)
        more: list[int] = []
        if isinstance(largest, int):
            top = min(largest, _LARGEST_GRAPH)
        elif isinstance(old, (list, tuple)) and old:
            top = min(old[0], _LARGEST_GRAPH)
        elif is_gpt_oss and by.sizes_gpt_oss > 512:
            top, step = max(top, by.sizes_gpt_oss), 16
        elif query > 1 and by.sizes_verify:
            counts = _counts(min(requests, by.sizes_wide if is_wide else 512), 16)
            more = [query * count for count in {*counts, min(requests, 512)} if query * count <= top]
        elif by.sizes_requests and requests <= top:
            more = [requests]
        if by.sizes == "sixteenth":
            top = min(top, batch)
        else:
            more += [1, 2, 4]
        every = by.sizes_interactive and option("performance_mode") == "interactivity"
        sizes = {*_counts(top, step), *more}
        if every:
            sizes.update(range(1, min(top, 32) + 1))
        if by.sizes_batch and batch <= top:
            sizes.add(batch)
        return sorted(size for size in sizes if size <= batch or not by.sizes_within)

    # -- all of it

    def mixes(self) -> bool:
        if self.options.get("disable_hybrid_kv_cache_manager"):
            return False
        by = self.by
        if self.options.get("kv_events_config") and by.events_off:
            return False
        if not self.options.get("kv_transfer_config") or not by.transfer:
            return True
        kinds = {type(layer.mixer).__name__ + getattr(layer.mixer, "kind", "") for layer in self.shape.kinds}
        if by.transfer == "some" and len(kinds) > 1 and self.options.get("disable_hybrid_kv_cache_manager") is None:
            self.missing["whether the KV connector supports several KV cache groups"] = None
        return by.transfer == "some"

    def ranks(self) -> Ranks:
        text = self.environment.get(PARTITION)
        parts = None if text is None else partition(text)
        if text is not None and parts is None:
            self.limits.append(damaged(text))
        return Ranks(
            tensor=self.number("tensor_parallel_size", 1),
            pipeline=self.number("pipeline_parallel_size", 1),
            data=self.number("data_parallel_size", 1),
            splits_experts=bool(self.options.get("enable_expert_parallel")),
            partition=parts,
            encoder_data=self.options.get("mm_encoder_tp_mode") == "data",
            prefill=self.number("prefill_context_parallel_size", 1),
        )

    def check_split(self, ranks: Ranks) -> None:
        fault = mismatch(ranks, self.shape.layers)
        if fault is not None:
            self.limits.append(fault)
        decode, version = self.number("decode_context_parallel_size", 1), self.known.version
        if ranks.prefill > 1:
            if not self.by.prompt_shards or not self.has_latent:
                whose = "a model without latent attention" if self.by.prompt_shards else "any model"
                self.limits.append(f"vLLM {version} does not support {whose} with --prefill-context-parallel-size")
            elif decode not in (1, ranks.prefill, ranks.tensor * ranks.prefill):
                self.limits.append(
                    f"--decode-context-parallel-size {decode} is rejected: with prefill shards it must be 1, "
                    f"{ranks.prefill} or {ranks.tensor * ranks.prefill} (0.26.0 config/parallel.py:514)"
                )
            else:
                self.missing["activation memory with --prefill-context-parallel-size"] = None
            return
        if ranks.tensor % decode:
            self.limits.append(
                f"tp_size={ranks.tensor} must be divisible by dcp_size={decode}: vLLM {version} rejects it"
            )
        elif decode > 1 and not self.has_latent and self.attention:
            heads = max(mixer.kv_heads for mixer in self.attention)
            if decode > ranks.tensor // heads:
                most = ranks.tensor // heads
                able = f"at most {most}" if most > 1 else "none"
                self.limits.append(
                    f"--decode-context-parallel-size {decode} is rejected: its limit is tensor parallel size / "
                    f"key-value heads, {ranks.tensor} / {heads}: {able} (0.11.2 config/model.py:1178, 0.33.0 :1577)"
                )

    def items(self, usual: int) -> Mapping[str, int] | None:
        limits = self.options.get("limit_mm_per_prompt")
        families = {tower.family for tower in self.shape.encoders or ()}
        is_judged = limits is not None and self.shape.encoders != ()
        fault = json_options.limited(limits, self.known.key, self.known.version) if is_judged else None
        if fault is not None:
            self.limits.append(fault)
        if not isinstance(limits, Mapping):
            return None
        counts = {str(name): json_options.count(value) for name, value in limits.items()}
        for name, count in counts.items():
            if is_judged and fault is None and (count is None or count < 0):
                self.missing[f"how vLLM interprets the limit of {name}"] = None
        usable = {name: count for name, count in counts.items() if count is not None and count >= 0}
        if not usable or not families:
            return usable
        has_pictures = any(not family.endswith("_audio") for family in families)
        image = "vision_chunk" if "moonvit3d" in families else "image"  # 0.33.0 models/kimi_k25.py:247
        modalities = (image,) * has_pictures + ("video",) * (not families.isdisjoint(_VIDEO_FAMILIES))
        return {**dict.fromkeys(modalities, usual), **usable}

    def lora_bytes(self, dtype: str) -> int:
        """Bytes of a value of an adapter; options that change which layers have one are named as missing."""
        for dest, what in _LORA_CHANGES.items():
            if self.options.get(dest):
                self.missing[what] = None
        requested = str(self.options.get("lora_dtype") or "auto").lower().removeprefix("torch.")
        name = dtype if requested == "auto" else _DTYPES.get(requested)
        if name is None:
            self.missing[f"the lora_dtype {requested}"] = None
        return 4 if name == "float32" else 2

    def item_sizes(self) -> Mapping[str, Mapping[str, int]]:
        limits = self.options.get("limit_mm_per_prompt")
        items = limits.items() if isinstance(limits, Mapping) else ()
        by_modality = {str(name): json_options.sizes(value) for name, value in items}
        return {name: sizes for name, sizes in by_modality.items() if sizes}

    def check_loras(self, most: int) -> None:
        """Whether the host has room for the adapters that run (0.6.6 config.py:2042, 0.33.0 config/lora.py:123)."""
        kept = self.number("max_cpu_loras", most)
        if kept < most:
            self.limits.append(
                f"max_cpu_loras ({kept}) must be >= max_loras ({most}): vLLM {self.known.version} rejects it"
            )

    def settings(self) -> LaunchSettings:
        option = self.options.get
        ranks, speculation = self.ranks(), self.speculation()
        self.check_split(ranks)
        dtype = self.dtype()
        is_older = self.is_older(dtype, speculation, ranks)
        is_newer_runner = not is_older and self.is_newer_runner(speculation, ranks)
        length, is_fitted = self.length()
        drafting = self.drafting(speculation, ranks, is_older=is_older, is_newer_runner=is_newer_runner)
        length = self.shortened(length, speculation, drafting, is_newer_runner=is_newer_runner)
        batch, requests, is_cut = self.older_batch(length, speculation) if is_older else self.newer_batch(length)
        pieces, whole, is_compiled = self.graphs(
            batch, requests, speculation, is_older=is_older, is_newer_runner=is_newer_runner
        )
        lora = self.lora(dtype)
        sampler = self.sampler(min(requests, batch), is_older=is_older, is_newer_runner=is_newer_runner)
        concurrent = self.batches(speculation, ranks, is_newer_runner=is_newer_runner) if not is_older else 1
        utilization, offload = option("gpu_memory_utilization"), option("cpu_offload_gb")
        if self.is_cpu:
            self.missing.update(dict.fromkeys(self._unknown_on_cpu(speculation)))
        return LaunchSettings(
            version=self.known.version,
            key=self.known.key,
            is_v0=is_older,
            utilization=float(self.known.utilization if utilization is None else utilization),
            ranks=ranks,
            dtype=dtype,
            scheduler=SchedulerSettings(length, batch, requests, is_fitted, concurrent, is_cut),
            quantization=option("quantization"),
            is_v2_runner=is_newer_runner,
            is_pooling=self.is_pooling,
            sampler=sampler,
            cpu_offload_bytes=int(offload * _GIB) if isinstance(offload, (int, float)) else 0,
            cache=self.cache(),
            graphs=GraphSettings(pieces, whole, self.eager, is_compiled),
            media=self.media(1 if is_older else json_options.COUNT),
            speculation=SpeculationSettings(
                speculation.tokens, speculation.layers, drafting, speculation.model, self.draft_unknown
            ),
            lora=lora,
            missing=tuple(self.missing),
            limits=tuple(self.limits),
        )

    def _unknown_on_cpu(self, speculation: _Speculation) -> Iterator[str]:
        """What decides the memory of a launch on a CPU and was compared with no launch."""
        if self.known.key < _CPU_PLANNED:
            first = ".".join(map(str, _CPU_PLANNED))
            yield f"the memory of vLLM {self.known.version} on a CPU: {first} and later are planned"
        for what, is_used in (
            ("quantized weights", self.shape.quantization or self.options.get("quantization")),
            ("experts", self.has_experts),
            ("latent attention", self.has_latent),
            ("layers with a state", self.has_state),
            ("images, videos or audio", self.has_media),
            ("a draft model", speculation.method),
            ("LoRA", self.options.get("enable_lora")),
            ("an 8-bit KV cache", self.options.get("kv_cache_dtype") not in (None, "auto", "bfloat16", "float16")),
        ):
            if is_used:
                yield f"the memory of {what} on a CPU"

    def _cache_size(self) -> int | None:
        """Bytes of the KV cache of a rank; on a CPU the variable decides (platforms/cpu.py, 0.20.2 :129)."""
        space = self.environment.get(CPU_SPACE, "").strip() if self.is_cpu else ""
        size: int | None = self.options.get("kv_cache_memory_bytes")
        return int(space) * _GIB if re.fullmatch(r"\d{1,9}", space, re.ASCII) else size

    def cache(self) -> CacheSettings:
        option = self.options.get
        caching, (backend, attention) = option("enable_prefix_caching"), self._attention()
        index = attention.get("indexer_kv_dtype")
        return CacheSettings(
            dtype=str(option("kv_cache_dtype") or "auto"),
            block_tokens=option("block_size") or (_BLOCK_ON_CPU if self.is_cpu else None),
            size=self._cache_size(),
            blocks_override=option("num_gpu_blocks_override"),
            caches_prefixes=None if caching is None else bool(caching),
            mixes_groups=self.mixes(),
            decode_shards=self.number("decode_context_parallel_size", 1),
            prefill_shards=self.number("prefill_context_parallel_size", 1),
            state_dtype=str(option("mamba_cache_dtype") or "auto"),
            recurrent_dtype=str(option("mamba_ssm_cache_dtype") or "auto"),
            index_dtype="mxfp4" if attention.get("use_fp4_indexer_cache") is True else str(index or "auto"),
            backend=backend,
        )

    def media(self, usual: int) -> MediaSettings:
        option = self.options.get
        processor = option("mm_processor_kwargs")
        return MediaSettings(
            items=self.items(usual),
            item_sizes=self.item_sizes(),
            skips_profile=bool(option("skip_mm_profiling")),
            language_only=bool(option("language_model_only")),
            processor=processor if isinstance(processor, Mapping) else {},
        )

    def lora(self, dtype: str) -> LoraSettings:
        if not self.options.get("enable_lora"):
            self.check_loras(0)
            return LoraSettings()
        value_bytes, slots = self.lora_bytes(dtype), self.number("max_loras", self.known.loras)
        self.check_loras(slots)
        return LoraSettings(
            rank=self.number("max_lora_rank", self.known.lora_rank),
            slots=slots,
            value_bytes=value_bytes,
            is_sharded=bool(self.options.get("fully_sharded_loras")),
            extra_words=self.number("lora_extra_vocab_size", self.known.lora_words),
            has_bias=bool(self.options.get("enable_lora_bias")),
        )


def _pooling_type(config: Mapping[str, Any]) -> str:
    """The pooling type of sentence-transformers in vLLM's spelling; empty if unknown."""
    fields = config.get(POOLING_FILE)
    pairs = fields.items() if isinstance(fields, Mapping) else ()
    named = (value if key == "pooling_mode" else key for key, value in pairs if value is True or key == "pooling_mode")
    kinds = (str(name).removeprefix("pooling_mode_").partition("_")[0] for name in named)
    return next((kind.removesuffix("token") for kind in kinds if kind in ("lasttoken", "mean", "cls")), "")


@cache
def _counts(top: int, step: int) -> tuple[int, ...]:
    """1, 2, 4, every eighth below 256 and from there on every `step`-th number."""
    return (
        *(size for size in (1, 2, 4) if size <= top),
        *range(8, min(top + 1, 256), 8),
        *range(256, top + 1, step),
    )


@cache
def _sizes_of_older(requests: int) -> tuple[int, ...]:
    """Graph sizes of V0, up to the first that fits all requests (0.6.6 config.py:3163)."""
    sizes = _counts(_LARGEST_OF_OLDER, 8)
    enough = next((size for size in sizes if size >= requests), sizes[-1])
    return tuple(size for size in sizes if size <= enough)
