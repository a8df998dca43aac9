"""Values of --speculative-config and --limit-mm-per-prompt that a release rejects.

vLLM validates both after parsing the command line, so the parser does not know their keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from vllm_runbooks.catalog import support
from vllm_runbooks.catalog.eras import Key
from vllm_runbooks.catalog.release_rules import ValueHistory
from vllm_runbooks.catalog.tables import load_table
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
    """Complete `--speculative-config` with its short options; None if not set.

    Returns the value and the first option that is set twice.
    """
    config = options.get("speculative_config")
    short = [(flag, key, options[dest]) for flag, dest, key in _SHORT if options.get(dest) is not None]
    if not short or not (config is None or isinstance(config, Mapping)):
        return config, None
    merged = dict(config or {})
    twice = next((f"{flag} and {_SPECULATIVE}['{key}']" for flag, key, _ in short if key in merged), None)
    return merged | {key: value for _, key, value in short}, twice


def whole(value: Any) -> int | None:
    """Integer that a value represents; None if it is not an integer."""
    if isinstance(value, int):
        return int(value)
    try:
        return int(value) if isinstance(value, (float, str)) and float(value) == int(value) else None
    except (ValueError, OverflowError):
        return None


# ---- --speculative-config


_ANY = "any"
_EARLY = (
    "disable_logprobs", "disable_mqa_scorer", "acceptance_method", "posterior_threshold", "posterior_alpha",
    "disable_log_stats", "enable_chunked_prefill",
)  # fmt: skip
"""Keys that were removed while unknown ones were ignored (0.10.2, 0.11.2): only 0.8.5 distinguishes
them."""
_CHECKED: Key = (0, 9, 2)
"""First release that checks types: before, the class was a plain one (0.8.5 config.py:15, 0.9.2
:27)."""
_FORBIDS: Key = (0, 16)
"""First release that rejects unknown keys; from 0.9 on they were ignored (0.15.1, 0.16.0
config/utils.py)."""
_PLAIN: Key = (0, 8, 5)
"""The release in the catalog whose plain class rejects every other keyword."""
_DASHED: Key = (0, 26)
"""First release that accepts dashes in keys (0.26.0 engine/arg_utils.py:1768)."""
_NEEDS: Key = (0, 11)
"""First release in which the method alone implies self-drafting (0.11.0
config/speculative.py:218)."""
_ITSELF: Mapping[str, Key] = {
    "deepseek_v3": (0, 7, 3), "mimo": (0, 9), "ernie4_5_moe": (0, 10), "qwen3_next": (0, 10),
}  # fmt: skip
"""Models that drafted for themselves before, whatever the method, by the kind of their text part (0.8.5 config.py:2302,
0.9.2 :2604, 0.10.2 config/__init__.py:2047)."""
_ALONE = frozenset({"ngram", "[ngram]", "ngram_gpu", "suffix", "dspark", "extract_hidden_states"})
"""Methods without a draft model, in addition to MTP (0.33.0 config/speculative.py:1255)."""
_COUNTED: Key = (0, 11, 2)
"""First release in which `suffix` has its own number of tokens (0.11.2 config/speculative.py,
`_validate_suffix_decoding`)."""


def is_mtp(method: str) -> bool:
    """Whether the method is the drafting by the checkpoint's own layers."""
    return method == "mtp" or method.endswith("_mtp")


def drafts_itself(text_type: str | None, release: Key) -> bool:
    """Whether a model drafts by its own layers if only a number of tokens is set."""
    since = _ITSELF.get(text_type or "")
    return since is not None and since <= release < _NEEDS


def speculation(config: Any, release: Key, version: str, text_type: str | None) -> tuple[Mapping[str, Any], str | None]:
    """`--speculative-config` with plain keys, and the reason why it is rejected, if any.

    `text_type` is the `model_type` of the model's text part.
    """
    if not isinstance(config, Mapping):
        return {}, f"{_SPECULATIVE} {json_keys.shown(config)} is not a JSON object: vLLM {version} rejects it"
    plain = {str(key).replace("-", "_") if release >= _DASHED else str(key): value for key, value in config.items()}
    fault = next(_refused(plain, release, text_type), None)
    return plain, None if fault is None else f"{_SPECULATIVE}: {fault}: vLLM {version} rejects it"


def _refused(config: Mapping[str, Any], release: Key, text_type: str | None) -> Iterator[str]:
    return map(_said, speculative_faults(config, release, text_type))


def speculative_faults(config: Mapping[str, Any], release: Key, text_type: str | None) -> Iterator[json_keys.Fault]:
    """Parts of `--speculative-config` that a release rejects when it builds the configuration."""
    yield from json_keys.judged(config, {"object": "SpeculativeConfig"}, _objects(release))
    model, method, tokens = config.get("model"), str(config.get("method") or ""), config.get("num_speculative_tokens")
    itself = drafts_itself(text_type, release)
    needs = not is_mtp(method) if release >= _NEEDS else True
    if model is None and tokens is not None and method not in _ALONE and needs and not itself:
        yield _conflict("num_speculative_tokens was provided but without speculative model", "num_speculative_tokens")
    if model in ("ngram", "[ngram]") or method in ("ngram", "[ngram]", "ngram_gpu"):
        yield from _looked_up(config)
    if tokens is None and (model is None or method in _ALONE) and (method != "suffix" or release < _COUNTED):
        yield _conflict("num_speculative_tokens must be provided", "num_speculative_tokens")
    elif tokens is not None and (isinstance(tokens, str) and release < _COUNTED):
        yield _conflict(
            f"num_speculative_tokens {json_keys.shown(tokens)} must be an integer", "num_speculative_tokens"
        )
    elif isinstance(tokens, (int, float)) and tokens <= 0:
        yield _conflict(f"num_speculative_tokens {tokens} must be above 0", "num_speculative_tokens")


def _conflict(message: str, *keys: str) -> json_keys.Fault:
    return json_keys.Fault("conflict", keys[:1], {"message": message, "key": keys[0], "keys": " ".join(keys)})


def _looked_up(config: Mapping[str, Any]) -> Iterator[json_keys.Fault]:
    """0.8.5 config.py:2316, 0.33.0 config/speculative.py:1302."""
    sizes = {key: whole(config.get(key)) for key in ("prompt_lookup_min", "prompt_lookup_max")}
    wrong = next(((key, size) for key, size in sizes.items() if size is not None and size < 1), None)
    if wrong is not None:
        yield _conflict(f"{wrong[0]}={wrong[1]} must be > 0", wrong[0])
    least, most = sizes.values()
    if least is not None and most is not None and least > most:
        yield _conflict(f"prompt_lookup_min={least} must be <= prompt_lookup_max={most}", *sizes)


@cache
def _objects(release: Key) -> Mapping[str, Any]:
    histories = load_table("speculative_keys", ValueHistory)
    kinds = {key: kind for key, history in histories.items() if (kind := history.value_in(release)) is not None}
    for key in kinds if release >= _CHECKED else ():
        if names := support.names(f"speculative_config.{key}", ".".join(map(str, release))):
            kinds[key] = {"optional": {"enum": sorted(names)}}
    if release == _PLAIN:
        kinds |= dict.fromkeys(_EARLY, _ANY)
    is_closed = release == _PLAIN or release >= _FORBIDS
    shape = {"keys": {key: {"type": kind} for key, kind in kinds.items()}, "extra": "forbid" if is_closed else "ignore"}
    return {"SpeculativeConfig": shape}


def _said(fault: json_keys.Fault) -> str:
    says = fault.says
    if fault.kind == "conflict":
        return says["message"]
    if fault.kind == "unknown-key":
        near = alike(says["key"], says["keys"].split(), 1)
        return f"unknown key {json_keys.shown(says['key'])}" + (f"; did you mean {near[0]}?" if near else "")
    if "choices" in says:
        near = alike(says["value"], says["choices"].split(), 1)
        return f"unknown {says['key']} {says['value']}" + (f"; did you mean {near[0]}?" if near else "")
    return f"{says['key']} {says['value']} must be {says['expected']}"


# ---- --limit-mm-per-prompt


COUNT = 999
"""Default number of items of a modality (0.11.2 config/multimodal.py:23, 0.33.0 :215)."""
_AN_OBJECT: Key = (0, 11, 1)
"""First release that accepts an object per modality (0.11.2 config/multimodal.py:20; 0.11.0 only
accepts integers)."""
_NUMBERS: Key = (0, 9, 2)
"""First release that checks the values (0.9.2 config.py, a dictionary of integers)."""
_SIZE = {"optional": {"int": {"gt": 0}}}
_ITEMS: Mapping[str, tuple[str, ...]] = {
    "image": ("width", "height"), "video": ("num_frames", "width", "height"), "audio": ("length",),
}  # fmt: skip
"""Keys of a modality's object in addition to `count` (0.33.0 config/multimodal.py:218-239)."""
_CLASSES: Mapping[str, Any] = {
    name: {
        "keys": {"count": {"type": {"int": {"ge": 0}}}, **{size: {"type": _SIZE} for size in _ITEMS.get(name, ())}},
        "extra": "forbid" if name in _ITEMS else "ignore",
    }
    for name in (*_ITEMS, "")
}


def limited(limits: Any, release: Key, version: str) -> str | None:
    """Reason why vLLM rejects `--limit-mm-per-prompt`; None if no reason is known."""
    if release < _NUMBERS:
        return None
    if not isinstance(limits, Mapping):
        return f"{_LIMIT} {json_keys.shown(limits)} is not a JSON object: vLLM {version} rejects it"
    for name, value in limits.items():
        fault = _refused_item(name, value, has_objects=release >= _AN_OBJECT)
        if fault is not None:
            return f"{_LIMIT}: {name}: {fault}: vLLM {version} rejects it"
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
    """Item limit of a modality; None if the value is not a number."""
    return whole(value.get("count", COUNT) if isinstance(value, Mapping) else value)


def sizes(value: Any) -> Mapping[str, int]:
    """Given sizes of a modality's dummy items."""
    items = value.items() if isinstance(value, Mapping) else ()
    numbers = {str(key): whole(size) for key, size in items if key != "count"}
    return {key: size for key, size in numbers.items() if size is not None and size > 0}
