"""What releases make of a start's options before they touch a card: a table of rules, each with its source.

`plan.settings` applies them. Words such as "old card" or "stages" name what a start does that an engine or a runner may
lack; `plan.settings` says when a start does so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from vllm_runbooks.catalog.eras import Key, changed


@dataclass(frozen=True)
class StartRules:
    """What a release does; where a field's sentence says nothing else, True means that it does so."""

    least_capability: tuple[int, int] = (7, 0)
    """Compute capability of the oldest cards that the published builds have kernels for."""
    prompt_shards: str = ""
    """Models that `--prefill-context-parallel-size` runs with: "" none, "latent" those with latent attention."""
    engine: str = "older"
    """"older": the older engine unless VLLM_USE_V1 asks for the newer; "choice": the newer where it can; "newer"."""
    older_for: frozenset[str] = frozenset()
    """What the newer engine cannot do (in words that `plan.settings` knows)."""
    experimental: frozenset[str] = frozenset()
    """What it does only when VLLM_USE_V1 asks for it."""
    caches_by_backend: bool = False
    """The newer engine has a quantised cache by attention backend; else on capability 9 alone."""
    older_cap: bool = False
    """The older engine's batch is at most the requests times the longest context."""
    older_latent: bool = True
    """The older engine cuts long prompts of models with latent attention, too."""
    fitting_dtype: bool = False
    """A dtype that the card lacks, or that the model cannot run in, is replaced."""
    no_half: frozenset[str] = frozenset()
    """`model_type`s that do not run in float16."""
    wide_default: frozenset[str] = frozenset()
    """`model_type`s whose 32 bit checkpoints run in bfloat16, not in float16."""
    stretched_yarn: bool = True
    """A context scaled by YaRN is the trained one times the factor; else the configuration's is taken as it is."""
    trained_longrope: bool = False
    """Where nothing is asked, LongRoPE's context is the trained one."""
    unscaled: frozenset[str] = frozenset()
    """Families whose configured context is scaled already."""
    longest_allowed: bool = False
    """`model_max_length` of the configuration replaces its number of positions."""
    fits_length: bool = False
    """`--max-model-len -1` is fitted to the memory."""
    whole_prompts: bool = False
    """`--no-enable-chunked-prefill` counts, and the batch is then as long as the longest context at least."""
    caps_batch: bool = False
    """The batch is at most the requests times the longest context."""
    caps_requests: bool = False
    """The requests are at most the tokens of a batch."""
    throughput: bool = False
    """`--performance-mode throughput` doubles batch and requests."""
    batched_experts: int | None = None
    """Tokens of a batch where ranks of data parallelism exchange batches of tokens for their experts."""
    holds_item: bool = False
    """The batch holds the largest item of a model that attends to the whole of a picture at once."""
    sizes: str = "fixed"
    """Sizes of CUDA graphs: "fixed" 1, 2, 4 and every eighth to 512; "eighth" the same to twice the requests;
    "sixteenth" from 256 on every sixteenth."""
    sizes_within: bool = False
    """No size is larger than the batch."""
    sizes_speculate: bool = False
    """Tokens that are speculated count in the largest size."""
    sizes_batch: bool = False
    """The batch is a size where it is no larger than the largest one."""
    sizes_wide: int = 512
    """Largest size on cards of capability 10."""
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
    """Which models have graphs of whole decoding steps beside the pieces: "" none, "state" those with states, "all"."""
    full_latent: bool = False
    """So has latent attention on cards other than capability 9 and 10."""
    lora_graphs: bool = False
    """With LoRA each graph is captured with adapters and without."""
    lora_graphs_v2: bool = False
    """The newer runner does so."""
    full_rounded_v2: bool = False
    """The newer runner rounds sizes for whole decoding steps alone."""
    levels: bool = False
    """`--optimization-level` decides the graphs."""
    offload_stops: bool = True
    """Weights on the host keep the model from being compiled."""
    runner: str = ""
    """Models of the newer runner: "" none, "listed", "plain" those listed and all without experts and states, "all"."""
    runner_models: frozenset[str] = frozenset()
    """Those listed, by architecture."""
    runner_small: bool = False
    """None of those with experts or quantised weights."""
    runner_lacks: frozenset[str] = frozenset()
    """What the newer runner cannot do (in words that `plan.settings` knows)."""
    runner_speculation: frozenset[str] = frozenset()
    """Methods of speculation that it can."""
    asynchronous: bool = False
    """Batches are scheduled ahead where nothing is said."""
    asynchronous_speculation: frozenset[str] = frozenset()
    """Methods of speculation that this is done with."""
    asynchronous_stages: str = ""
    """With pipeline stages: "" not, "all", "newer" with the newer runner."""
    asynchronous_pooling: bool = True
    asynchronous_states: bool = True
    """With states and prefix caching, too."""
    newer_speculates: bool = False
    """The newer runner schedules ahead with any method of speculation."""
    triton_rows: int | None = None
    """From so many requests on Triton's kernel cuts the most likely tokens; None: it does not."""
    flashinfer: bool = False
    """FlashInfer's kernel does where nothing is said."""
    flashinfer_floor: tuple[int, int] = (7, 5)
    flashinfer_v2: bool = False
    """The newer runner uses it."""
    transfer: str = ""
    """What a KV connector does to groups of several kinds: "" nothing, "off", "some" connectors switch them off."""
    events_off: bool = False
    """`--kv-events-config` switches them off."""
    asks_shared: bool = False
    """The memory of a card that shares its host's is found out where NVML has none to tell."""


_Change = Mapping[str, tuple[Any, str]]


def _words(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(","))


_ALWAYS_OLDER = _words("logits processor, preemption, output processing, scheduler delay, partial prefills")
_OLDER_8 = _ALWAYS_OLDER | _words(
    "load format, scheduling policy, scheduler steps, prompt adapter, old card, quantised cache, 32 bit values, gguf, "
    "pooling, cross attention, state, tracing, draft, stages"
)
_OLDER_9 = (_OLDER_8 | _words("sharded state, prompt embeddings, stages by another backend")) - _words(
    "load format, scheduling policy, 32 bit values, gguf, pooling, state, stages"
)
_OLDER_10 = _ALWAYS_OLDER | _words("sharded state, quantised cache, prompt embeddings, cross attention")
_EAGLE = _words("eagle, eagle3, mtp")
_EAGLE_HIDDEN = _EAGLE | {"extract_hidden_states"}
_EAGLE_FLASH = _EAGLE_HIDDEN | {"dflash"}
_NO_HALF = _words("gemma2, gemma3, plamo2, glm4")
_LACKS_22 = _words(
    "state, prefill shards, stock compile, speculation, parallel drafting, eagle3 over stages, reasoning, "
    "routed experts, two batches at once, logits processors, prompt embeddings, logits as logprobs, fast prefill, "
    "encoder transfer"
)
_LACKS_23 = (_LACKS_22 | {"aligned states"}) - _words("state, reasoning")
_LACKS_24 = _LACKS_23 | _words("elastic experts, launched stages")
_LACKS_25 = _LACKS_24 - {"aligned states"}
_LACKS_26 = (_LACKS_25 | {"prefill shards of heads"}) - _words("prefill shards, logits as logprobs")
_LACKS_28 = _LACKS_26 - _words("routed experts, encoder transfer")
_LACKS_29 = _LACKS_28 - _words("prefill shards of heads, prompt embeddings")
_LACKS_30 = (_LACKS_29 | {"states of every block"}) - _words("eagle3 over stages, two batches at once, fast prefill")
_LACKS_31 = _LACKS_30 - {"logits processors"}
_LACKS_32 = _words("launched stages, speculation, parallel drafting")
_DRAFTS_29 = _EAGLE_FLASH | {"dspark"}
_MODELS_25 = _words("DeepseekV2ForCausalLM, Qwen2MoeForCausalLM, GraniteMoeForCausalLM")
_MODELS_26 = _MODELS_25 | _words("InklingForCausalLM, InklingForConditionalGeneration, LongcatFlashNgramForCausalLM")
_MODELS_27 = _MODELS_26 | {"KimiK3ForConditionalGeneration"}

_CHANGES: tuple[tuple[str, _Change], ...] = (
    # The first release of those read that does so; a minor release of which only a later patch was read counts whole.
    (
        "0.6",
        {
            "least_capability": ((7, 0), "0.19.0 CMakeLists.txt:100, docs/getting_started/installation since 0.3"),
            "prompt_shards": ("", "0.12.0 config/parallel.py:315, 0.13.0 v1/worker/cp_utils.py:38"),
            "engine": ("older", "0.6.6 envs.py:459"),
            "wide_default": (frozenset({"gemma2"}), "0.6.6 config.py:2211"),
            "stretched_yarn": (True, "0.6.6 config.py:2281"),
            "sizes": ("fixed", "0.6.6 config.py:3163"),
        },
    ),
    (
        "0.8",
        {
            "engine": ("choice", "0.8.5 envs.py:530, engine/arg_utils.py:1292"),
            "older_for": (_OLDER_8, "0.8.5 engine/arg_utils.py:1292"),
            "experimental": (frozenset({"ngram", "eagle"}), "0.8.5 engine/arg_utils.py:1292"),
            "older_latent": (False, "0.8.5 engine/arg_utils.py:1501"),
            "sizes_within": (True, "0.8.5 config.py:3972"),
            "wide_default": (frozenset(), "0.8.5 config.py:2885"),
            "unscaled": (frozenset({"gemma3"}), "0.8.5 config.py:2977"),
            "longest_allowed": (True, "0.8.5 config.py:2977"),
            "offload_stops": (False, "0.8.5 config.py:3916"),
        },
    ),
    (
        "0.9",
        {
            "older_for": (_OLDER_9, "0.9.2 engine/arg_utils.py:1306"),
            "experimental": (frozenset({"state"}), "0.9.2 engine/arg_utils.py:1306"),
            "older_cap": (True, "0.9.2 config.py:2235"),
            "fitting_dtype": (True, "0.9.2 config.py:3285"),
            "no_half": (_NO_HALF, "0.9.2 config.py:3221"),
            "transfer": ("off", "0.9.2 config.py:4636"),
            "events_off": (True, "0.9.2 config.py:4639"),
        },
    ),
    (
        "0.10",
        {
            "older_for": (_OLDER_10, "0.10.2 engine/arg_utils.py:1431"),
            "experimental": (frozenset(), "0.10.2 engine/arg_utils.py:1431"),
            "caches_by_backend": (True, "0.10.2 platforms/cuda.py:522"),
            "no_half": (_NO_HALF | {"gemma3_text"}, "0.10.2 config/__init__.py:2615"),
            "caps_requests": (True, "0.10.2 engine/arg_utils.py:1615"),
            "sizes": ("eighth", "0.10.2 config/scheduler.py:181"),
            "sizes_gpt_oss": (1024, "0.10.2 model_executor/models/config.py:261"),
            "full_graphs": ("state", "0.10.2 model_executor/models/config.py:319"),
        },
    ),
    (
        "0.11",
        {
            "engine": ("newer", "0.11.0 engine/arg_utils.py:1540"),
            "sizes_gpt_oss": (992, "0.11.0 model_executor/models/config.py:248"),
            "full_graphs": ("all", "0.11.0 config/__init__.py:361"),
        },
    ),
    (
        "0.11.1",
        {
            "trained_longrope": (True, "0.11.2 config/model.py:2000"),
            "whole_prompts": (True, "0.11.2 engine/arg_utils.py:1946"),
            "caps_batch": (True, "0.11.2 engine/arg_utils.py:1946"),
            "sizes": ("sixteenth", "0.11.2 config/vllm.py:801"),
            "sizes_gpt_oss": (1024, "0.11.2 model_executor/models/config.py:254"),
            "sizes_rounded": (True, "0.11.2 config/compilation.py:916"),
            "lora_graphs": (True, "0.11.2 v1/cudagraph_dispatcher.py:66"),
        },
    ),
    ("0.12", {"levels": (True, "0.12.0 config/vllm.py:646")}),
    ("0.13", {"sizes_speculate": (True, "0.13.0 config/vllm.py:1017")}),
    (
        "0.14",
        {
            "fits_length": (True, "0.14.1 config/model.py:1898"),
            "asynchronous": (True, "0.14.1 config/vllm.py:588"),
            "asynchronous_speculation": (_EAGLE, "0.14.1 config/vllm.py:588"),
        },
    ),
    ("0.15", {"asynchronous_stages": ("all", "0.15.1 config/vllm.py:589")}),
    ("0.16", {"asynchronous_states": (False, "0.16.0 config/vllm.py:685")}),
    (
        "0.17",
        {
            "throughput": (True, "0.17.1 engine/arg_utils.py:2101"),
            "sizes_interactive": (True, "0.17.1 config/vllm.py:1323"),
            "asynchronous_speculation": (_EAGLE_HIDDEN, "0.17.1 config/speculative.py:49"),
            "asynchronous_states": (True, "0.17.1 config/vllm.py:743"),
            "triton_rows": (8, "0.17.1 v1/sample/ops/topk_topp_sampler.py:245"),
        },
    ),
    ("0.18", {"asynchronous_speculation": (_EAGLE_HIDDEN | {"ngram_gpu"}, "0.18.1 config/vllm.py:752")}),
    (
        "0.20",
        {
            "least_capability": (
                (7, 5),
                "https://github.com/vllm-project/vllm/pull/39878, 0.21.0 docs/getting_started/installation/gpu.cuda",
            ),
            "batched_experts": (256, "0.20.2 engine/arg_utils.py:2339"),
            "sizes_batch": (True, "0.20.2 config/vllm.py:1423"),
            "asynchronous_speculation": (_EAGLE_FLASH | {"ngram_gpu"}, "0.20.2 config/speculative.py:54"),
            "asynchronous_pooling": (False, "0.20.2 config/vllm.py:809"),
            "events_off": (False, "0.20.2 config/vllm.py:1265"),
        },
    ),
    ("0.21", {"flashinfer": (True, "0.21.0 v1/sample/ops/topk_topp_sampler.py:30")}),
    (
        "0.22",
        {
            "holds_item": (True, "0.22.1 engine/arg_utils.py:2475"),
            "full_latent": (True, "0.22.1 v1/attention/backends/mla/triton_mla.py:33"),
            "runner": ("listed", "0.22.1 config/vllm.py:493"),
            "runner_models": (frozenset({"Qwen3ForCausalLM"}), "0.22.1 config/vllm.py:69"),
            "runner_small": (True, "0.22.1 config/vllm.py:518"),
            "runner_lacks": (_LACKS_22, "0.22.1 config/vllm.py:1977"),
            "runner_speculation": (_EAGLE, "0.22.1 config/vllm.py:1977"),
            "transfer": ("some", "0.22.1 config/vllm.py:1440"),
        },
    ),
    (
        "0.23",
        {
            "runner_models": (
                _words("LlamaForCausalLM, MistralForCausalLM, Qwen3ForCausalLM"),
                "0.23.0 config/vllm.py:69",
            ),
            "runner_lacks": (_LACKS_23, "0.23.0 config/vllm.py:1982"),
            "flashinfer_v2": (True, "0.23.0 v1/worker/gpu/sample/sampler.py:53"),
        },
    ),
    (
        "0.24",
        {
            "runner_models": (
                _MODELS_25 | _words("Qwen3ForCausalLM, LlamaForCausalLM, MistralForCausalLM"),
                "0.24.0 config/vllm.py:68",
            ),
            "runner_small": (False, "0.24.0 config/vllm.py:550"),
            "runner_lacks": (_LACKS_24, "0.24.0 config/vllm.py:1994"),
            "runner_speculation": (_EAGLE | {"dflash"}, "0.24.0 config/vllm.py:1994"),
            "lora_graphs_v2": (True, "0.24.0 v1/worker/gpu/cudagraph_utils.py:183"),
            "flashinfer_floor": ((8, 0), "0.24.0 v1/attention/backends/flashinfer.py:426"),
        },
    ),
    (
        "0.25",
        {
            "asynchronous_speculation": (_EAGLE_FLASH | {"ngram_gpu", "dspark"}, "0.25.1 config/vllm.py:986"),
            "full_rounded_v2": (True, "0.25.1 v1/worker/gpu/cudagraph_utils.py:181"),
            "runner": ("plain", "0.25.1 config/vllm.py:557"),
            "runner_models": (_MODELS_25, "0.25.1 config/vllm.py:68"),
            "runner_lacks": (_LACKS_25, "0.25.1 config/vllm.py:2042"),
            "runner_speculation": (_EAGLE | {"dflash", "dspark"}, "0.25.1 config/vllm.py:2042"),
        },
    ),
    (
        "0.26",
        {
            "prompt_shards": ("latent", "0.26.0 v1/attention/backend.py:1000, v1/worker/cp_utils.py:31"),
            "runner_models": (_MODELS_26, "0.26.0 config/vllm.py:68"),
            "runner_lacks": (_LACKS_26, "0.26.0 config/vllm.py:2127"),
        },
    ),
    (
        "0.27",
        {
            "runner_models": (_MODELS_27, "0.27.1 config/vllm.py:69"),
            "no_half": ((_NO_HALF | {"gemma3_text"}) - {"plamo2"}, "0.27.1 config/model.py:2105"),
        },
    ),
    (
        "0.28",
        {
            "sizes_wide": (1024, "0.28.0 config/vllm.py:1878"),
            "asynchronous_speculation": (
                _EAGLE_FLASH | {"ngram_gpu", "dspark", "draft_model"},
                "0.28.0 config/vllm.py:1209",
            ),
            "runner_models": (_MODELS_27 | {"DeepseekV4ForCausalLM"}, "0.28.0 config/vllm.py:69"),
            "runner_lacks": (_LACKS_28, "0.28.0 config/vllm.py:2369"),
        },
    ),
    (
        "0.29",
        {
            "sizes_verify": (True, "0.29.0 config/vllm.py:1940"),
            "runner": ("all", "0.29.0 config/vllm.py:645"),
            "runner_lacks": (_LACKS_29, "0.29.0 config/vllm.py:2539"),
            "runner_speculation": (_DRAFTS_29, "0.29.0 config/vllm.py:2539"),
        },
    ),
    (
        "0.30",
        {
            "stretched_yarn": (False, "0.30.0 config/model.py:2393"),
            "runner_lacks": (_LACKS_30, "0.30.0 config/vllm.py:2815"),
            "triton_rows": (1, "0.30.0 v1/sample/ops/topk_topp_sampler.py:368"),
        },
    ),
    (
        "0.31",
        {
            "sizes_requests": (True, "0.31.0 config/vllm.py:2388"),
            "asynchronous_stages": ("newer", "0.31.0 config/vllm.py:1633"),
            "runner_lacks": (_LACKS_31, "0.31.0 config/vllm.py:3051"),
            "runner_speculation": (_DRAFTS_29 | {"draft_model"}, "0.31.0 config/vllm.py:3051"),
        },
    ),
    (
        "0.32",
        {
            "runner_lacks": (_LACKS_32, "0.32.0 config/vllm.py:2914"),
            "runner_speculation": (_DRAFTS_29 | {"draft_model", "ngram", "ngram_gpu"}, "0.32.0 config/vllm.py:2914"),
        },
    ),
    (
        "0.33",
        {
            "newer_speculates": (True, "0.33.0 config/vllm.py:1652"),
            "asks_shared": (True, "0.33.0 platforms/cuda.py:809"),
            "runner_speculation": (
                _DRAFTS_29 | {"draft_model", "ngram", "ngram_gpu", "medusa", "mlp_speculator"},
                "0.33.0 config/vllm.py:3053",
            ),
        },
    ),
)


@cache
def start_rules(key: Key) -> tuple[StartRules, Mapping[str, str]]:
    """What a release does, and by field where that is written; one that was not read does what the one before does."""
    found = changed(_CHANGES, key)
    values = {name: value for name, (value, _) in found.items()}
    return StartRules(**values), {name: source for name, (_, source) in found.items()}
