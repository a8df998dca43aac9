"""How releases of vLLM derive settings from the options of a launch, from `catalog/tables/launch_rules.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from vllm_runbooks.catalog.eras import Key
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.record_forms import Authored, record


@dataclass(frozen=True)
class HardwareRules:
    """GPUs supported by a release, and its use of several GPUs."""

    least_capability: tuple[int, int] = (7, 0)
    """Lowest compute capability that the published builds have kernels for."""
    asks_shared: bool = False
    """Finds the memory of an integrated GPU, for which NVML reports none."""
    prompt_shards: str = ""
    """Models that support `--prefill-context-parallel-size`: "" none, "latent" those with latent
    attention."""


@dataclass(frozen=True)
class EngineRules:
    """Engine of a release, and its behavior with KV connectors."""

    engine: str = "older"
    """"older": V0 unless VLLM_USE_V1 is set; "choice": V1 if supported; "newer": V1."""
    older_for: frozenset[str] = frozenset()
    """Features that V1 lacks (in the words of `plan.settings`)."""
    experimental: frozenset[str] = frozenset()
    """Features that V1 supports only if VLLM_USE_V1 is set."""
    caches_by_backend: bool = False
    """The attention backend decides whether V1 supports a quantised cache; otherwise only compute
    capability 9 does."""
    older_cap: bool = False
    """V0's batch is at most the requests times the longest context."""
    older_latent: bool = True
    """V0 chunks long prompts also for models with latent attention."""
    transfer: str = ""
    """Effect of a KV connector on KV-cache groups of several kinds: "" none, "off": disables them, "some": some
    connectors disable them."""
    events_off: bool = False
    """`--kv-events-config` disables them."""


@dataclass(frozen=True)
class ModelRules:
    """The dtype and context length that a release gives a model."""

    fitting_dtype: bool = False
    """Replaces a dtype that the GPU lacks or that the model cannot run in."""
    no_half: frozenset[str] = frozenset()
    """`model_type`s that do not run in float16."""
    wide_default: frozenset[str] = frozenset()
    """`model_type`s whose 32-bit checkpoints run in bfloat16 instead of float16."""
    stretched_yarn: bool = True
    """A context scaled by YaRN is the trained one times the factor; else the configuration's is used as it is."""
    trained_longrope: bool = False
    """Without `--max-model-len`, LongRoPE's context is the trained one."""
    unscaled: frozenset[str] = frozenset()
    """Families whose configured context is already scaled."""
    longest_allowed: bool = False
    """`model_max_length` of the configuration replaces its number of positions."""
    fits_length: bool = False
    """Fits `--max-model-len -1` to the memory."""


@dataclass(frozen=True)
class BatchRules:
    """The size of a batch and the number of requests in it."""

    whole_prompts: bool = False
    """Whether `--no-enable-chunked-prefill` takes effect; the batch is then at least the longest
    context."""
    caps_batch: bool = False
    """The batch is at most the requests times the longest context."""
    caps_requests: bool = False
    """The requests are at most the tokens of a batch."""
    throughput: bool = False
    """`--performance-mode throughput` doubles batch and requests."""
    batched_experts: int | None = None
    """Tokens of a batch where data-parallel ranks exchange batches of tokens for their experts."""
    holds_item: bool = False
    """The batch is at least the largest item of a model that attends to whole images."""


@dataclass(frozen=True)
class CudaGraphRules:
    """The sizes for which CUDA graphs are captured."""

    sizes: str = "fixed"
    """"fixed": 1, 2, 4 and multiples of 8 up to 512; "eighth": the same up to twice the requests;
    "sixteenth": multiples of 16 from 256 on."""
    sizes_within: bool = False
    """No size is larger than the batch."""
    sizes_speculate: bool = False
    """The largest size includes speculative tokens."""
    sizes_batch: bool = False
    """The batch is a size unless it is larger than the largest one."""
    sizes_wide: int = 512
    """Largest size on GPUs of compute capability 10."""
    sizes_verify: bool = False
    """With speculation the numbers of requests, times the tokens of each, are sizes."""
    sizes_requests: bool = False
    """Without speculation the number of requests is a size."""
    sizes_interactive: bool = False
    """`--performance-mode interactivity` has every size to 32."""
    sizes_gpt_oss: int = 512
    """Largest size of gpt-oss."""
    sizes_rounded: bool = False
    """With speculation sizes are multiples of the tokens of a request."""
    full_graphs: str = ""
    """Models with full graphs for decoding steps, too: "" none, "state" those with states,
    "all"."""
    crossed_graphs: tuple[int, int] = (1, 0)
    """Graphs of encoder-decoder models: of pieces, and of whole steps: 0 none, 1 of decoding."""
    full_latent: bool = False
    """Latent attention has them also on GPUs other than compute capability 9 and 10."""
    lora_graphs: bool = False
    """With LoRA each graph is captured with adapters and without."""
    lora_graphs_v2: bool = False
    """The V2 runner captures graphs with LoRA."""
    full_rounded_v2: bool = False
    """The V2 runner rounds sizes only for full decoding steps."""
    levels: bool = False
    """`--optimization-level` decides the graphs."""
    offload_stops: bool = True
    """Weights offloaded to the host prevent compilation."""


@dataclass(frozen=True)
class RunnerRules:
    """Models that the V2 runner supports, and whether scheduling is asynchronous."""

    runner: str = ""
    """Models of the V2 runner: "" none, "listed", "plain" those listed and all without experts and
    states, "all"."""
    runner_models: frozenset[str] = frozenset()
    """Listed architectures."""
    runner_small: bool = False
    """No models with experts or quantised weights."""
    runner_lacks: frozenset[str] = frozenset()
    """Features that the V2 runner lacks (in the words of `plan.settings`)."""
    runner_speculation: frozenset[str] = frozenset()
    """Methods of speculation that it supports."""
    asynchronous: bool = False
    """Asynchronous scheduling is the default."""
    asynchronous_speculation: frozenset[str] = frozenset()
    """Methods of speculation that it works with."""
    asynchronous_stages: str = ""
    """With pipeline stages: "" no, "all", "newer" with the V2 runner."""
    asynchronous_pooling: bool = True
    asynchronous_states: bool = True
    """Also with states and prefix caching."""
    newer_speculates: bool = False
    """The V2 runner schedules asynchronously with any method of speculation."""


@dataclass(frozen=True)
class SamplerRules:
    """The kernel that restricts sampling to the most likely tokens."""

    triton_rows: int | None = None
    """Number of requests from which on Triton's kernel is used; None for never."""
    flashinfer: bool = False
    """FlashInfer's kernel is the default."""
    flashinfer_floor: tuple[int, int] = (7, 5)
    """Lowest compute capability for it."""
    flashinfer_v2: bool = False
    """The V2 runner uses it."""


@dataclass(frozen=True)
class LaunchRules(HardwareRules, EngineRules, ModelRules, BatchRules, CudaGraphRules, RunnerRules, SamplerRules):
    """How a release derives settings from options; field docstrings describe True."""


@dataclass(frozen=True)
class RuleChange(Authored):
    """A field's new value."""

    source: str
    """Release, file and line in its sources."""
    value: Any = None
    """None if `add` and `remove` change a set of words."""
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReleaseChanges(Authored):
    """Changes of a release."""

    changes: dict[str, RuleChange] = field(default_factory=dict)
    """By field of `LaunchRules`."""


@cache
def start_rules(key: Key) -> tuple[LaunchRules, Mapping[str, str]]:
    """Rules of a release, and their sources by field.

    An unknown release uses those of the previous one.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for number, (since, row) in enumerate(load_table("launch_rules", ReleaseChanges).items()):
        if number and key < tuple(map(int, since.split("."))):
            continue
        for name, change in row.changes.items():
            words = {*values.get(name, ()), *change.add}.difference(change.remove) if change.value is None else None
            values[name] = change.value if words is None else sorted(words)
            sources[name] = change.source
    return record(LaunchRules, values), sources
