"""What a release refuses of the objects that --speculative-config and --limit-mm-per-prompt give.

Both reach the classes that judge them after the command line is read, so that no parser knows their keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from vllm_runbooks.catalog.eras import NEVER, Key
from vllm_runbooks.reading.arguments import json_keys
from vllm_runbooks.reading.arguments.spelling import alike

_SPECULATIVE, _LIMIT = "--speculative-config", "--limit-mm-per-prompt"
_SHORT = (
    ("--spec-method", "spec_method", "method"),
    ("--spec-model", "spec_model", "model"),
    ("--spec-tokens", "spec_tokens", "num_speculative_tokens"),
)
"""Options that give one key of --speculative-config each (0.22.1 to 0.33.0 engine/arg_utils.py:1671, :2109)."""


def speculative(options: Mapping[str, Any]) -> tuple[Any, str | None]:
    """`--speculative-config` as the short options complete it (None: nothing is asked for), and what is given twice."""
    told = options.get("speculative_config")
    short = [(flag, key, options[dest]) for flag, dest, key in _SHORT if options.get(dest) is not None]
    if not short or not (told is None or isinstance(told, Mapping)):
        return told, None
    given = dict(told or {})
    twice = next((f"{flag} and {_SPECULATIVE}['{key}']" for flag, key, _ in short if key in given), None)
    return given | {key: value for _, key, value in short}, twice


def whole(value: Any) -> int | None:
    """The integer that a value stands for; None: it is none."""
    if isinstance(value, int):
        return int(value)
    try:
        return int(value) if isinstance(value, (float, str)) and float(value) == int(value) else None
    except (ValueError, OverflowError):
        return None


# ---- --speculative-config


_ANY = "any"
_POSITIVE = {"optional": {"int": {"ge": 1}}}
_SWITCH, _TEXT = "bool", {"optional": "str"}
_KEYS: tuple[tuple[Key, Mapping[str, Any]], ...] = (
    # Keys with their types, as of the first release read that has them so; config/speculative.py, class
    # SpeculativeConfig.
    (
        (0, 8),
        {
            "num_speculative_tokens": _ANY, "model": _ANY, "method": _ANY, "draft_tensor_parallel_size": _ANY,
            "quantization": _ANY, "max_model_len": _ANY, "revision": _ANY, "code_revision": _ANY,
            "disable_by_batch_size": _ANY, "prompt_lookup_max": _ANY, "prompt_lookup_min": _ANY,
            "target_model_config": _ANY, "target_parallel_config": _ANY, "draft_model_config": _ANY,
            "draft_parallel_config": _ANY,
        },
    ),
    ((0, 9, 2), {"model": _TEXT, "prompt_lookup_max": {"optional": "int"}, "prompt_lookup_min": {"optional": "int"}}),
    (
        (0, 11, 2),
        {
            "num_speculative_tokens": {"int": {"gt": 0}}, "draft_tensor_parallel_size": _POSITIVE,
            "max_model_len": _POSITIVE, "prompt_lookup_max": _POSITIVE, "prompt_lookup_min": _POSITIVE,
            "enforce_eager": {"optional": "bool"}, "revision": _TEXT, "code_revision": _TEXT,
            "disable_padded_drafter_batch": _SWITCH, "speculative_token_tree": _TEXT,
            "suffix_decoding_max_tree_depth": "int", "suffix_decoding_max_cached_requests": "int",
            "suffix_decoding_max_spec_factor": "float", "suffix_decoding_min_token_prob": "float",
        },
    ),
    ((0, 15), {"tensor_parallel_size": {"optional": "int"}}),
    ((0, 16), {"parallel_drafting": _SWITCH}),
    ((0, 17), {"draft_load_config": _ANY, "use_local_argmax_reduction": _SWITCH}),
    ((0, 18), {"rejection_sample_method": _ANY}),
    ((0, 19), {"moe_backend": _ANY, "synthetic_acceptance_rate": {"optional": "float"}}),
    ((0, 20), {"synthetic_acceptance_rates": _ANY, "synthetic_acceptance_length": {"optional": "float"}}),
    ((0, 21), {"attention_backend": _ANY, "draft_sample_method": {"enum": ["greedy", "probabilistic"]}}),
    ((0, 24), {"num_speculative_tokens_per_batch_size": _ANY}),
    ((0, 25), {"use_heterogeneous_vocab": _SWITCH}),
    ((0, 26), {"kv_cache_dtype": _ANY}),
    ((0, 28), {"enable_adaptive_verification": _SWITCH, "dspark_draft_topk": _POSITIVE}),
    ((0, 29), {"index_share_for_mtp_iteration": {"optional": "bool"}}),
    ((0, 30), {"disable_eagle_block_drop": _SWITCH}),
    (
        (0, 33),
        {
            "disable_lookahead_block_hashes": _SWITCH, "xpress_topc": {"optional": {"int": {"ge": 0}}},
            "draft_lm_head_quantization": {"optional": {"enum": ["fp8", "nvfp4"]}}, "fly_window_size": _POSITIVE,
            "fly_entropy_threshold": {"float": {"ge": 0}}, "fly_entropy_top_k": {"int": {"ge": 1}},
        },
    ),
)  # fmt: skip
_GONE: Mapping[str, Key] = {
    "disable_by_batch_size": (0, 17), "synthetic_acceptance_rate": (0, 20), "speculative_token_tree": (0, 21),
}  # fmt: skip
"""Keys by the first release that has them no more."""
_EARLY = (
    "disable_logprobs", "disable_mqa_scorer", "acceptance_method", "posterior_threshold", "posterior_alpha",
    "disable_log_stats", "enable_chunked_prefill",
)  # fmt: skip
"""Keys that went while what a class does not have was dropped (0.10.2, 0.11.2): only 0.8.5 tells them from others."""
_METHODS: tuple[tuple[Key, tuple[str, ...]], ...] = (
    # What `SpeculativeMethod` takes, by the first release read that has it. What it loses is refused for another
    # reason (`drafts.refusal`).
    ((0, 8), ("ngram", "eagle", "eagle3", "medusa", "mlp_speculator", "draft_model", "deepseek_mtp")),
    ((0, 10), ("ernie_mtp", "qwen3_next_mtp")),
    ((0, 11), ("mimo_mtp", "longcat_flash_mtp", "mtp", "glm4_moe_mtp", "pangu_ultra_moe_mtp", "suffix")),
    ((0, 14), ("exaone_moe_mtp",)),
    ((0, 15), ("glm4_moe_lite_mtp", "step3p5_mtp")),
    ((0, 16), ("glm_ocr_mtp",)),
    ((0, 17), ("extract_hidden_states", "nemotron_h_mtp", "qwen3_5_mtp")),
    ((0, 18), ("ngram_gpu",)),
    ((0, 20), ("dflash", "exaone4_5_mtp", "hy_v3_mtp")),
    ((0, 21), ("gemma4_mtp", "mimo_v2_mtp")),
    ((0, 22), ("custom_class",)),
    ((0, 24), ("minimax_m3_mtp",)),
    ((0, 25), ("bailing_hybrid_mtp", "dspark")),
    ((0, 26), ("inkling_mtp",)),
    ((0, 27), ("kimi_k3_mtp",)),
    ((0, 28), ("bailing_hybrid_v3_mtp", "dots3_note_mtp")),
    ((0, 29), ("hy_v4_mtp", "qwen4_exp_mtp")),
    ((0, 30), ("glm5_next_mtp",)),
    ((0, 33), ("step5_mtp",)),
)
_CHECKED: Key = (0, 9, 2)
"""Since when types are checked: the class was a plain one (0.8.5 config.py:15, 0.9.2 :27)."""
_FORBIDS: Key = (0, 16)
"""Since when keys that it does not have are refused; from 0.9 on they were dropped (0.15.1, 0.16.0 config/utils.py)."""
_PLAIN: Key = (0, 8, 5)
"""The release read of whose plain class every other keyword is refused."""
_DASHED: Key = (0, 26)
"""Since when keys may have dashes (0.26.0 engine/arg_utils.py:1768)."""
_NEEDS: Key = (0, 11)
"""Since when the method alone says that the model drafts for itself (0.11.0 config/speculative.py:218)."""
_ITSELF: Mapping[str, Key] = {
    "deepseek_v3": (0, 7, 3), "mimo": (0, 9), "ernie4_5_moe": (0, 10), "qwen3_next": (0, 10),
}  # fmt: skip
"""Models that drafted for themselves before, whatever the method, by the kind of their text part (0.8.5 config.py:2302,
0.9.2 :2604, 0.10.2 config/__init__.py:2047)."""
_ALONE = frozenset({"ngram", "[ngram]", "ngram_gpu", "suffix", "dspark", "extract_hidden_states"})
"""Methods that need no model of their own beside those of MTP (0.33.0 config/speculative.py:1255)."""
_COUNTED: Key = (0, 11, 2)
"""Since when `suffix` has a number of tokens of its own (0.11.2 config/speculative.py, `_validate_suffix_decoding`)."""


def is_mtp(method: str) -> bool:
    """Whether the method is the drafting by the checkpoint's own layers."""
    return method == "mtp" or method.endswith("_mtp")


def drafts_itself(text_type: str | None, release: Key) -> bool:
    """Whether a model drafts by its own layers where nothing but a number of tokens is given."""
    since = _ITSELF.get(text_type or "")
    return since is not None and since <= release < _NEEDS


def speculation(told: Any, release: Key, version: str, text_type: str | None) -> tuple[Mapping[str, Any], str | None]:
    """`--speculative-config` with plain keys, and what of it ends the start.

    Args:
        told: What is given.
        release: As numbers.
        version: The same as it is told.
        text_type: The kind of the model's text part.
    """
    if not isinstance(told, Mapping):
        return {}, f"{_SPECULATIVE} {json_keys.shown(told)} is no object: vLLM {version} ends its start"
    plain = {str(key).replace("-", "_") if release >= _DASHED else str(key): value for key, value in told.items()}
    fault = next(_refused(plain, release, text_type), None)
    return plain, None if fault is None else f"{_SPECULATIVE}: {fault}: vLLM {version} ends its start"


def _refused(told: Mapping[str, Any], release: Key, text_type: str | None) -> Iterator[str]:
    objects = _objects(release)
    yield from (_said(fault) for fault in json_keys.judged(told, {"object": "SpeculativeConfig"}, objects))
    model, method, tokens = told.get("model"), str(told.get("method") or ""), told.get("num_speculative_tokens")
    itself = drafts_itself(text_type, release)
    needs = not is_mtp(method) if release >= _NEEDS else True
    if model is None and tokens is not None and method not in _ALONE and needs and not itself:
        yield "num_speculative_tokens was provided but without speculative model"
    if model in ("ngram", "[ngram]") or method in ("ngram", "[ngram]", "ngram_gpu"):
        yield from _looked_up(told)
    if tokens is None and (model is None or method in _ALONE) and (method != "suffix" or release < _COUNTED):
        yield "num_speculative_tokens must be provided"
    elif tokens is not None and (isinstance(tokens, str) and release < _COUNTED):
        yield f"num_speculative_tokens {json_keys.shown(tokens)} must be an integer"
    elif isinstance(tokens, (int, float)) and tokens <= 0:
        yield f"num_speculative_tokens {tokens} must be above 0"


def _looked_up(told: Mapping[str, Any]) -> Iterator[str]:
    """0.8.5 config.py:2316, 0.33.0 config/speculative.py:1302."""
    sizes = {key: whole(told.get(key)) for key in ("prompt_lookup_min", "prompt_lookup_max")}
    wrong = next((f"{key}={size} must be > 0" for key, size in sizes.items() if size is not None and size < 1), None)
    if wrong is not None:
        yield wrong
    least, most = sizes.values()
    if least is not None and most is not None and least > most:
        yield f"prompt_lookup_min={least} must be <= prompt_lookup_max={most}"


@cache
def _objects(release: Key) -> Mapping[str, Any]:
    """The class as the release has it, in the form of the release data."""
    kinds: dict[str, Any] = {}
    for since, keys in _KEYS:
        if release >= since:
            kinds |= keys
    kinds = {key: kind for key, kind in kinds.items() if release < _GONE.get(key, NEVER)}
    if release >= _CHECKED:
        names = [name for since, methods in _METHODS if release >= since for name in methods]
        kinds["method"] = {"optional": {"enum": names}}
    if release == _PLAIN:
        kinds |= dict.fromkeys(_EARLY, _ANY)
    is_closed = release == _PLAIN or release >= _FORBIDS
    shape = {"keys": {key: {"type": kind} for key, kind in kinds.items()}, "extra": "forbid" if is_closed else "ignore"}
    return {"SpeculativeConfig": shape}


def _said(fault: json_keys.Fault) -> str:
    says = fault.says
    if fault.kind == "unknown-key":
        near = alike(says["key"], says["keys"].split(), 1)
        return f"there is no key {json_keys.shown(says['key'])}" + (f"; did you mean {near[0]}?" if near else "")
    if "choices" in says:
        near = alike(says["value"], says["choices"].split(), 1)
        return f"there is no {says['key']} {says['value']}" + (f"; did you mean {near[0]}?" if near else "")
    return f"{says['key']} {says['value']} must be {says['expected']}"


# ---- --limit-mm-per-prompt


COUNT = 999
"""Items of a modality whose object names no count (0.11.2 config/multimodal.py:23, 0.33.0 :215)."""
_AN_OBJECT: Key = (0, 11, 1)
"""Since when a modality may be given an object (0.11.2 config/multimodal.py:20; 0.11.0 takes integers alone)."""
_NUMBERS: Key = (0, 9, 2)
"""Since when its values are checked at all (0.9.2 config.py, a dictionary of integers)."""
_SIZE = {"optional": {"int": {"gt": 0}}}
_ITEMS: Mapping[str, tuple[str, ...]] = {
    "image": ("width", "height"), "video": ("num_frames", "width", "height"), "audio": ("length",),
}  # fmt: skip
"""Keys of a modality's object beside `count` (0.33.0 config/multimodal.py:218-239)."""
_CLASSES: Mapping[str, Any] = {
    name: {
        "keys": {"count": {"type": {"int": {"ge": 0}}}, **{size: {"type": _SIZE} for size in _ITEMS.get(name, ())}},
        "extra": "forbid" if name in _ITEMS else "ignore",
    }
    for name in (*_ITEMS, "")
}


def limited(told: Any, release: Key, version: str) -> str | None:
    """What of `--limit-mm-per-prompt` ends the start; None: nothing that is known."""
    if release < _NUMBERS:
        return None
    if not isinstance(told, Mapping):
        return f"{_LIMIT} {json_keys.shown(told)} is no object: vLLM {version} ends its start"
    for name, value in told.items():
        fault = _refused_item(name, value, has_objects=release >= _AN_OBJECT)
        if fault is not None:
            return f"{_LIMIT}: {name}: {fault}: vLLM {version} ends its start"
    return None


def _refused_item(name: str, value: Any, *, has_objects: bool) -> str | None:
    if not has_objects:
        return None if whole(value) is not None else f"{json_keys.shown(value)} must be an integer"
    if not isinstance(value, (int, Mapping)):
        return f"{json_keys.shown(value)} must be an integer or an object"
    item = value if isinstance(value, Mapping) else {"count": value}
    faults = json_keys.judged(item, {"object": name if name in _ITEMS else ""}, _CLASSES)
    return _said(faults[0]) if faults else None


def count(value: Any) -> int | None:
    """Items that one modality is limited to; None: what is given is no number."""
    return whole(value.get("count", COUNT) if isinstance(value, Mapping) else value)


def sizes(value: Any) -> Mapping[str, int]:
    """Sizes of a modality's dummy items, those that are given."""
    told = value.items() if isinstance(value, Mapping) else ()
    found = {str(key): whole(size) for key, size in told if key != "count"}
    return {key: size for key, size in found.items() if size is not None and size > 0}
