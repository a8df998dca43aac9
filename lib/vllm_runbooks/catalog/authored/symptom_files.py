"""Read and check the authored symptoms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vllm_runbooks.catalog import records
from vllm_runbooks.catalog.authored import translations
from vllm_runbooks.catalog.authored.located import Location, Problem, named, read_yaml, todos
from vllm_runbooks.catalog.authored.remedy_texts import (
    DERIVED,
    UNITS,
    command_problems,
    condition_problems,
    is_known,
    remedy_problems,
)
from vllm_runbooks.catalog.authored.tables import groups, pattern_faults, shared_patterns, words
from vllm_runbooks.catalog.authored.yaml_files import date_problems, parsed
from vllm_runbooks.catalog.records import Signature, Symptom
from vllm_runbooks.catalog.templates import PLACEHOLDER, SOLVED, fill, filled_or_plain
from vllm_runbooks.core.errors import CatalogError
from vllm_runbooks.core.records import Facts, Severity

ADAPTER: TypeAdapter[Any] = TypeAdapter(Symptom)
_ORIGINS = ("vllm", "torch", "cuda", "nccl", "ray", "python", "uvicorn", "shell", "kernel", "wrapper", "toolchain")
_SIGNATURES = ("signatures", "companions")
_NO_LITERAL = "needs a word"
"""Prefix of the one fault allowed in a function's name: no log is searched for it."""
_FOUND_BY = {"lines": ("signatures", "examples", "near_misses", "explanation"), "comparison": ("explanation",)}
_COMPARED = frozenset({
    "address", "age_minutes", "component", "connect_error", "differences", "dropped", "frame", "free", "have",
    "in_aiter", "in_attention", "in_autotuning", "in_deep_gemm", "in_flashinfer", "in_flashinfer_gemm",
    "in_gpu_code", "in_kv_transfer", "in_lora", "in_micro_batches", "in_moe", "in_multimodal", "in_pipeline",
    "in_prefix_caching", "in_scheduler", "in_speculative", "in_structured", "in_tool_calls", "in_vllm_gemm",
    "last_time", "need", "node", "node_ip", "nodes", "own_rank", "peer", "port", "query", "ranks", "refused",
    "resource",
})  # fmt: skip


def read_symptom(path: Path, where: str | None = None) -> Symptom:
    """Read one symptom; raises CatalogError with every problem of the file, one a line."""
    where = where or path.name
    data = read_yaml(path, where)
    symptom, problems = parsed(ADAPTER, data)
    problems += todos(data)
    if symptom is not None:
        root = path.absolute().parent.parent
        shared = shared_patterns(root)
        unknown = [
            ((name, index, "pattern"), f"{signature.pattern!r} is not in patterns.yaml")
            for name in _SIGNATURES
            for index, signature in enumerate(getattr(symptom, name))
            if signature.pattern.startswith("@") and signature.pattern[1:] not in shared
        ]
        problems += unknown
        problems += _signature_problems(symptom)
        if not unknown:
            symptom = replace(symptom, **{name: _expanded(getattr(symptom, name), shared) for name in _SIGNATURES})
            problems += _symptom_problems(symptom, path.stem, root)
        symptom = translations.unfolded(symptom)
        problems += translations.problems(symptom)
    if problems or symptom is None:
        raise CatalogError("\n".join(named(data, where, problems)))
    result: Symptom = symptom
    return result


def _expanded(signatures: tuple[Signature, ...], shared: Mapping[str, list[str]]) -> tuple[Signature, ...]:
    return tuple(
        replace(signature, pattern=wording)
        for signature in signatures
        for wording in (shared[signature.pattern[1:]] if signature.pattern.startswith("@") else [signature.pattern])
    )


def _signature_problems(symptom: Symptom) -> Iterator[Problem]:
    for name in _SIGNATURES:
        for index, signature in enumerate(getattr(symptom, name)):
            location = (name, index)
            if not signature.pattern.startswith("@"):
                for fault in pattern_faults(signature.pattern):
                    yield (*location, "pattern"), f"the pattern {fault}"
            if signature.origin not in _ORIGINS:
                yield (*location, "origin"), f"is {signature.origin!r}; use one of {', '.join(_ORIGINS)}"
            for phase in signature.phases:
                if phase not in records.PHASES:
                    yield (*location, "phases"), f"{phase!r} is not a phase; use one of {', '.join(records.PHASES)}"
            for frame in signature.frames:
                for fault in pattern_faults(frame):
                    if not fault.startswith(_NO_LITERAL):
                        yield (*location, "frames"), f"{frame!r} {fault}"


def _symptom_problems(symptom: Symptom, stem: str, root: Path) -> Iterator[Problem]:
    if symptom.id != stem:
        yield ("id",), f"is {symptom.id!r}; the file's name says {stem!r}"
    yield from _class_problems(symptom, words("classes", root))
    if symptom.found_by not in _FOUND_BY:
        yield ("found_by",), f"is {symptom.found_by!r}; use {' or '.join(_FOUND_BY)}"
    for name in _FOUND_BY.get(symptom.found_by, ()):
        if not getattr(symptom, name):
            yield (name,), "is empty; a symptom needs at least one"
    captures = _captures(symptom)
    vocabulary = words("captures", root)
    for capture in sorted(captures):
        if capture.rsplit("_", 1)[-1] not in UNITS and capture not in vocabulary:
            yield (
                ("signatures",),
                f"the group {capture!r} has no unit in its name (_gib, _tokens …) and is not in captures.yaml",
            )
    for index, example in enumerate(symptom.examples):
        for capture in example.captures:
            if capture not in captures:
                yield ("examples", index, "captures", capture), "is not a group of any signature"
    for index, condition in enumerate(symptom.conditions):
        for field, problem in condition_problems(condition):
            yield ("conditions", index, field), problem
        if not condition.says:
            yield ("conditions", index, "says"), "is empty; the report prints it"
    if not filled_or_plain(symptom.do_first, {}, Facts()) or "Otherwise" in symptom.do_first:
        yield ("do_first",), "must make sense without any figure, one sentence at a time; see docs/authoring.md"
    if symptom.explanation and not any(fill(sentence, {}, Facts()) for sentence in symptom.explanation):
        yield ("explanation",), "needs a sentence without a figure, for a message without figures"
    for location, text in _texts(symptom):
        known = captures | SOLVED | DERIVED if location[0] == "remedies" else captures
        for name in PLACEHOLDER.findall(text):
            if not is_known(name, known):
                yield location, f"{{{name}}} is neither a capture of this symptom nor a fact"
        for problem in command_problems(text):
            yield location, problem
    for index, remedy in enumerate(symptom.remedies):
        for place, problem in remedy_problems(remedy, captures):
            yield ("remedies", index, *place), problem
    yield from date_problems(symptom.verified.date)


def _class_problems(symptom: Symptom, classes: Mapping[str, str]) -> Iterator[Problem]:
    if not re.fullmatch(r"[a-z]\w{1,30}(?:\.[a-z]\w{1,40}){1,3}", symptom.id, re.ASCII):
        yield ("id",), "must be <group>.<word> or finer, in small letters, as in port.in_use"
    elif symptom.severity is not Severity.HINT and symptom.class_ not in classes:
        yield ("id",), f"{symptom.class_!r} is not in classes.yaml; use a class from it, or add it"
    elif symptom.id.split(".")[0] not in {word.split(".")[0] for word in classes}:
        groups_in_use = sorted({word.split(".")[0] for word in classes})
        yield ("id",), f"{symptom.id.split('.')[0]!r} is not a group; use one of {', '.join(groups_in_use)}"


def _captures(symptom: Symptom) -> set[str]:
    patterns = [s.pattern for name in _SIGNATURES for s in getattr(symptom, name)]
    frames = [frame for name in _SIGNATURES for s in getattr(symptom, name) for frame in s.frames]
    compared = set(_COMPARED) if symptom.found_by == "comparison" else set()
    return compared | groups(" ".join([*patterns, *frames]))


def _texts(symptom: Symptom) -> Iterator[tuple[Location, str]]:
    yield from (((name,), getattr(symptom, name)) for name in ("do_first", "confirm", "refute"))
    yield from ((("explanation", i), sentence) for i, sentence in enumerate(symptom.explanation))
    yield from ((("conditions", i, "says"), c.says) for i, c in enumerate(symptom.conditions))
    for index, remedy in enumerate(symptom.remedies):
        yield ("remedies", index, "title"), remedy.title
        yield ("remedies", index, "cost"), remedy.cost
