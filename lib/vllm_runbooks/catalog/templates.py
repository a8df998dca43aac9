"""Fill the `{name}` of the catalog's sentences with printed values of a server run."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vllm_runbooks.catalog.languages import joined
from vllm_runbooks.core.records import Facts

UNITS = {"gib": "GiB", "mib": "MiB", "kib": "KiB", "bytes": "bytes", "seconds": "s", "tokens": "tokens"}

_SENTENCE_END = re.compile(r"(?<=[.;:!?])\s+(?=[A-Z`\"])|(?<=[。；！？】])(?![”」』）])\s*")
"""End of a sentence, in English and in Chinese."""

PLACEHOLDER = re.compile(r"\{(\w{1,60})\}")
"""A capture or fact in a catalog's sentence: `{name}`."""

SOLVED = frozenset({
    "fit_8bit_cache", "fit_batched_tokens", "fit_cache_gib", "fit_context_tokens", "fit_gpus", "fit_offload_gib",
    "fit_ranks", "fit_sequences", "fit_step", "fit_utilization", "four_bit_gib", "four_bit_ranks",
    "four_bit_shard_gib", "four_bit_too_large_gib", "longer_context_tokens", "offloaded_gib", "others_gib",
    "pair_context_tokens", "pair_utilization", "present_ranks", "quantized", "room_for_share",
    "served_tokens", "shard_gib", "spared_graphs_gib", "swap_gib", "weights_matter",
})  # fmt: skip
"""Values that the diagnosis calculates for the remedies of memory causes."""


def fill(text: str, captures: Mapping[str, str], facts: Facts) -> str | None:
    """Replace each `{name}` by a capture or fact; None if one of them is unknown."""
    values = {name: value_of(name, captures, facts) for name in PLACEHOLDER.findall(text)}
    if None in values.values():
        return None
    return PLACEHOLDER.sub(lambda match: values[match[1]] or "", text)


def filled_or_plain(text: str, captures: Mapping[str, str], facts: Facts) -> str:
    """Sentence by sentence: one that needs an unknown value is left out."""
    filled = (fill(sentence, captures, facts) for sentence in _SENTENCE_END.split(text.strip()))
    return joined(sentence for sentence in filled if sentence)


def value_of(name: str, captures: Mapping[str, str], facts: Facts) -> str | None:
    """A capture or fact as text: `tried` is `tried_mib` as "698.00 MiB"; None if unknown or printed empty."""
    if name in captures:
        return captures[name] or None
    for suffix, unit in UNITS.items():
        if f"{name}_{suffix}" in captures:
            return _measured(captures[f"{name}_{suffix}"], unit)
    fact = getattr(facts, name, None)
    if fact is None:
        return None
    if isinstance(fact, float):
        number = f"{fact:.2f}".rstrip("0").rstrip(".")
    elif isinstance(fact, int):
        number = f"{fact:,}"
    else:
        number = str(fact)
    unit = UNITS.get(name.rsplit("_", 1)[-1], "")
    return f"{number} {unit}".strip()


def _measured(printed: str, unit: str) -> str:
    if unit == "bytes" and printed.isdigit() and len(printed) > 9:
        printed, unit = f"{int(printed) / 2**30:.2f}", "GiB"
    elif re.fullmatch(r"-?\d{1,15}\.\d{3,}", printed, re.ASCII):
        printed = f"{float(printed):.2f}"
    return f"{printed} {unit}"
