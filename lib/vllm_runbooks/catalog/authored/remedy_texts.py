"""Check authored conditions, edits and remedies, and the captures and commands in their texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields

from vllm_runbooks.catalog import host_commands, records
from vllm_runbooks.catalog.authored.located import Problem
from vllm_runbooks.catalog.authored.yaml_files import unknown_commands
from vllm_runbooks.catalog.options import version_key
from vllm_runbooks.catalog.records import Condition, RemedyText
from vllm_runbooks.catalog.steps import STEPS
from vllm_runbooks.catalog.templates import PLACEHOLDER, SOLVED
from vllm_runbooks.core.records import Edit, Facts, Outcome

UNITS = (
    "gib", "mib", "kib", "bytes", "tokens", "blocks", "seconds", "minutes", "s", "percent", "characters", "items",
    "requests",
)  # fmt: skip
"""Last words of the names of numeric captures."""
FACTS = frozenset(field.name for field in fields(Facts))
"""Names of the values that a launch prints about itself."""
DERIVED = frozenset({
    "allowed", "closest", "defines_service", "distribution", "dividing_ranks", "first_release", "flashinfer_backends",
    "frames", "gpu_backends", "gpu_capability", "gpu_kinds", "in_aiter", "in_attention", "in_autotuning",
    "in_deep_gemm", "in_encoder_attention", "in_flashinfer", "in_flashinfer_gemm", "in_gpu_code", "in_lora", "in_moe",
    "in_multimodal", "in_speculative", "in_startup", "in_vllm_gemm", "json_near", "json_option", "json_value",
    "latest_release", "message", "near", "near_value", "next_port", "rejects_block_size", "rejects_dtype",
    "rejects_kv_cache_dtype", "respelt", "selected_block_size", "selected_dtype", "selected_kv_cache_dtype",
    "serving_release",
})  # fmt: skip
"""What remedies may use besides the captures: the whole exception, its features, the package to install, releases,
names and values that were probably intended."""
_TESTED = ("argument", "fact", "capture", "outcome", "phase", "is_first", "is_last", "since or until")
"""Subjects that a condition can test, one each."""
_TESTED_LATE = ("argument", "fact", "capture", "since or until")
"""Subjects that are still available when remedies are chosen."""


def is_known(name: str, captures: set[str]) -> bool:
    """Whether a placeholder names a capture, with or without its unit, or a fact."""
    return name in FACTS or name in captures or any(f"{name}_{unit}" in captures for unit in UNITS)


def command_problems(text: str) -> Iterator[str]:
    """Problems of printed commands: not in the table, or with text of a log in them."""
    yield from unknown_commands(text)
    for printed in host_commands.printed(text):
        if re.search(r"\{\w+\}", printed) and printed.split()[0] in host_commands.programs():
            yield f"`{printed}` puts log text into a command; use a placeholder in words"


def remedy_problems(remedy: RemedyText, captures: set[str], whose: str = "this symptom") -> Iterator[Problem]:
    """Problems of a remedy; `captures` are the available names, `whose` describes their owner."""
    captures = captures | SOLVED | DERIVED
    for name in remedy.needs:
        if not is_known(name, captures):
            yield ("needs",), f"{name!r} is neither a capture of {whose} nor a fact"
    for kind, number, condition in ((k, n, c) for k in ("when", "unless") for n, c in enumerate(getattr(remedy, k))):
        for field, problem in condition_problems(condition, _TESTED_LATE):
            yield (kind, number, field), problem
        for name in filter(None, (condition.capture or "").split("/")):
            if name not in captures:
                yield (kind, number, "capture"), f"{name!r} is not a capture of {whose}"
    for edit, problem in ((e, s) for e in remedy.edits for s in _edit_problems(e, captures)):
        yield ("edits", remedy.edits.index(edit)), problem


def condition_problems(condition: Condition, allowed: tuple[str, ...] = _TESTED) -> Iterator[tuple[str, str]]:
    """Invalid fields of a condition, with the problem of each; `allowed` is what it may test."""
    tested = [name for name in _TESTED if any(getattr(condition, part) for part in name.split(" or "))]
    if len(tested) != 1 or tested[0] not in allowed:
        yield "says", f"tests {', '.join(tested) or 'nothing'}; name one of {', '.join(allowed)}"
    if condition.fact and condition.fact not in FACTS:
        yield "fact", f"{condition.fact!r} is not a fact; see docs/reading.md"
    for field in ("since", "until"):
        text = getattr(condition, field)
        if text is not None and version_key(text) is None:
            yield field, f"{text!r} is not a vLLM version; use one such as 0.19.0"
    for phase in condition.phase:
        if phase not in records.PHASES:
            yield "phase", f"{phase!r} is not a phase; use one of {', '.join(records.PHASES)}"
    for outcome in condition.outcome:
        if outcome not in list(Outcome):
            yield "outcome", f"{outcome!r} is not an outcome; use one of {', '.join(Outcome)}"


def _edit_problems(edit: Edit, captures: set[str]) -> Iterator[str]:
    if edit.op not in ("set", "remove", "env"):
        yield f"op is {edit.op!r}; write set, remove or env"
    if edit.op == "set" and edit.value is None:
        yield "sets no value; add one"
    value = edit.value
    if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in STEPS:
        ((step, amount),) = value.items()
        if step == "share":
            if not re.fullmatch(r"\w+/\w+", str(amount)) or not {*str(amount).split("/")} <= captures:
                yield f"share is {amount!r}; write two captures, as in free_gib/total_gib"
        elif isinstance(amount, bool) or not isinstance(amount, (int, float)):
            yield f"{step} is {amount!r}; write a number"
    for name in PLACEHOLDER.findall(json.dumps(value)):
        if not is_known(name, captures):
            yield f"{{{name}}} is neither a capture of this symptom nor a fact"
