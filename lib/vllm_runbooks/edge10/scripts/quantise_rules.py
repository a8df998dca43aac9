"""Check scripts that quantise and convert, and the checkpoints that they hand to the next step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

from vllm_runbooks.catalog.languages import Phrase
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.edge10 import models
from vllm_runbooks.edge10.scripts.commands import ScriptCommand
from vllm_runbooks.edge10.scripts.compile_rules import Tables
from vllm_runbooks.edge10.scripts.operations import is_known_text
from vllm_runbooks.edge10.scripts.readings import (
    COMPILE,
    FilePart,
    ReadFile,
    ScriptSet,
    compile_calls,
    is_build,
    path_of,
    saved_models,
)
from vllm_runbooks.edge10.scripts.values import CallResult, ScriptEvent, ScriptValue
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.reading.shell import Word

_SMALL, _ARGUMENT = "edge10.calibration-small", "edge10.calibration-argument"
_METHOD, _SAME, _UNCONVERTED = "edge10.method-unsupported", "edge10.same-folder", "edge10.conversion-missing"
_CONFIG = re.compile(r"get_(\w{1,30})_config")
_VISION_CLASS = re.compile(r"ImageTextToText|Vision2Seq|ForConditionalGeneration|VisionModel|VLModel|VLFor|Multimodal")
_MODEL_CLASS = re.compile(r"(?:AutoModel\w{0,60}|\w{1,60}For(?:CausalLM|ConditionalGeneration)|\w{1,60}Model)")
_VISION = frozenset(("visual", "vision_tower", "vision_model", "vit", "vision", "multi_modal_projector"))
_LANGUAGE = frozenset(("language_model", "text_model", "llm", "lm"))
_PATH = "pretrained_model_name_or_path"


def find(part: FilePart, scripts: ScriptSet, tables: Tables) -> Iterator[Hit]:
    if part.has("quantise"):
        yield from _find_method(part, scripts)
        yield from _find_calibration(part, scripts, tables.get(_ARGUMENT, {}).get("datasets", {}))
        yield from _find_vision(part, scripts)
        yield from _find_models(part, scripts)
        yield from _find_same_folder(part)
    if part.has(*COMPILE):
        yield from _find_compiled(part, scripts)
    for command in part.commands:
        if command.index(*scripts.facts.steps["convert"].programs) is not None:
            yield from _find_conversion(command, scripts)


def find_unconverted(file: ReadFile, scripts: ScriptSet) -> Iterator[Hit]:
    """Servers that get a checkpoint that was not converted."""
    for server in file.servers:
        path = server.model.rstrip("/").removeprefix("./") if server.model else None
        if path is not None and _lacks_conversion(path, scripts):
            yield Hit(_UNCONVERTED, server.start, server.start, {"folder": path, "what": Phrase("served")})


def _calls(part: FilePart, name: str) -> Iterator[ScriptEvent]:
    for event in part.program.events if part.program is not None else ():
        if event.kind == "call" and event.name.endswith(f".{name}") and not event.name.startswith("."):
            yield event


def _find_method(part: FilePart, scripts: ScriptSet) -> Iterator[Hit]:
    methods = scripts.facts.calibration.methods
    modules = scripts.facts.steps["quantise"].modules
    events = part.program.events if part.program is not None else []
    reported: set[str] = set()
    for event in sorted(events, key=lambda event: event.kind):  # calls before imports
        match = _CONFIG.fullmatch(event.name.rpartition(".")[2])
        if match is None or event.kind not in ("call", "import") or event.name.split(".")[0] not in modules:
            continue
        if match[1] not in methods and match[1] not in reported:
            reported.add(match[1])
            yield part.hit(_METHOD, event.node, {"method": match[1], "right": " or ".join(methods)})


def _find_calibration(part: FilePart, scripts: ScriptSet, datasets: Mapping[str, Any]) -> Iterator[Hit]:
    facts, program = scripts.facts.calibration, part.program
    for event in _calls(part, "get_dataloader") if program is not None else ():
        for name, least, what in (
            ("num_max_orig_samples", facts.samples, Phrase("samples")),
            ("max_sequence_length", facts.tokens, Phrase("tokens of a sample")),
        ):
            value = program.python(event.argument(name)) if program is not None else None
            if isinstance(value, int) and not isinstance(value, bool) and value < least:
                message = {"name": name, "value": str(value), "least": str(least), "what": what}
                yield part.hit(_SMALL, event.argument_node(name), message)
        data = event.argument("dataset", 0)
        is_loaded = data is not None and data.kind == "result" and data.data.name == "datasets.load_dataset"
        loaded: CallResult | None = data.data if data is not None and is_loaded else None
        dataset = _dataset_name(loaded) if loaded is not None else ""
        yield from _find_column(part, event, dataset, datasets.get(dataset, {}))
        has_split = loaded is None or loaded.attributes or "split" in loaded.keywords or len(loaded.args) > 4
        if data is not None and not has_split:
            wrong = Phrase("load_dataset is given no split: it gives all of them, by name, and no texts")
            edits = _split_edit(part, data, facts.split) if dataset == facts.dataset else ()
            yield part.hit(_ARGUMENT, data.node, {"wrong": wrong}, edits)


def _dataset_name(loaded: CallResult) -> str:
    first = loaded.args[0] if loaded.args else loaded.keywords.get("path")
    return str(first.data).rpartition("/")[2] if first is not None and first.kind == "plain" else ""


def _split_edit(part: FilePart, data: ScriptValue, split: str) -> tuple[Replacement, ...]:
    node = data.node
    if part.program is None or not isinstance(node, ast.Call) or not (node.args or node.keywords):
        return ()
    end = max(part.program.text.places(argument)[1] for argument in (*node.args, *node.keywords))
    return (Replacement(end, end, f', split="{split}"'),)


def _find_column(part: FilePart, event: ScriptEvent, dataset: str, facts: Mapping[str, Any]) -> Iterator[Hit]:
    column, columns = event.argument("column"), facts.get("columns", [])
    if column is None:
        if not event.is_open and len(event.args) < 3:
            hint = f"; of {dataset} it is {facts['text']}" if facts else ""
            wrong = f"get_dataloader is not told the column that holds the texts{hint}"
            yield part.hit(_ARGUMENT, event.node, {"wrong": wrong})
    elif column.kind == "plain" and isinstance(column.data, str) and columns and column.data not in columns:
        phrase = Phrase(
            "{dataset} has no column {column}: its columns are {columns}",
            dataset=dataset,
            column=column.data,
            columns=", ".join(columns),
        )
        edits = part.replace_constant(column.node, f'"{facts["text"]}"')
        yield part.hit(_ARGUMENT, event.argument_node("column"), {"wrong": phrase}, edits)


def _find_vision(part: FilePart, scripts: ScriptSet) -> Iterator[Hit]:
    if scripts.facts.calibration.vision:
        return
    for event in _calls(part, "quantize_model"):
        value = event.argument("model", 0)
        if value is None or value.kind != "result" or not value.data.name.endswith(".from_pretrained"):
            continue
        model: CallResult = value.data
        attributes = set(model.attributes)
        name = model.args[0] if model.args else None
        listed = models.listed(str(name.data), scripts.facts) if name is not None and name.kind == "plain" else None
        has_vision = bool(_VISION_CLASS.search(model.name)) or (listed is not None and listed.kind == "vlm")
        if attributes & _LANGUAGE or not (attributes & _VISION or has_vision):
            continue
        what = f".{'.'.join(model.attributes)}" if attributes & _VISION else ""
        whole = "" if what else Phrase("the whole model")
        yield part.hit("edge10.vision-quantised", event.node, {"what": what, "whole": whole})


def _find_models(part: FilePart, scripts: ScriptSet) -> Iterator[Hit]:
    reported: set[str] = set()
    for event in _calls(part, "from_pretrained"):
        words = event.name.split(".")
        if len(words) > 1 and _MODEL_CLASS.fullmatch(words[-2]) and words[-2] != "AutoModelForTokenizer":
            yield from _find_unsupported(part, scripts, event.argument(_PATH, 0), "quantise", reported)


def _find_unsupported(
    part: FilePart, scripts: ScriptSet, value: ScriptValue | None, step: str, reported: set[str]
) -> Iterator[Hit]:
    name = part.program.python(value) if part.program is not None else None
    if value is None or not isinstance(name, str) or not name.strip() or not is_known_text(name) or name in reported:
        return
    reported.add(name)
    answer = models.find_model(name, scripts.facts)
    allowed = answer.quantise if step == "quantise" else answer.compile
    if allowed is False and answer.listed is not None:
        message = {"model": answer.listed.name, "step": Phrase(step)}
        yield part.hit("edge10.model-unsupported", value.node, message)
    elif allowed is None:
        yield part.hit("edge10.model-unknown", value.node, {"model": name, "near": ", ".join(answer.similar)})


def _find_same_folder(part: FilePart) -> Iterator[Hit]:
    sources = {path_of(part, event.argument(_PATH, 0)) for event in _calls(part, "from_pretrained")}
    for event, value in saved_models(part):
        path = path_of(part, value)
        if path is not None and path in sources:
            message = {"folder": path, "what": Phrase("the float model is read from")}
            yield part.hit(_SAME, event.node, message)


def _find_conversion(command: ScriptCommand, scripts: ScriptSet) -> Iterator[Hit]:
    at = command.index(*scripts.facts.steps["convert"].programs) or 0
    program, methods = command.words[at], scripts.facts.calibration.methods
    method = command.option("--quant_type", "--quant-type", start=at)
    if method is not None and method.value and method.value not in methods:
        is_bare = method.at is not None and method.end - method.start == len(method.value)
        edits = (Replacement(method.start, method.end, methods[0]),) if len(methods) == 1 and is_bare else ()
        message = {"method": method.value, "right": " or ".join(methods)}
        yield Hit(_METHOD, program.start, max(method.end, program.end), message, edits)
    src, dst = command.option("--src", start=at), command.option("--dst", start=at)
    if src is not None and dst is not None and _is_same(src, dst):
        message = {"folder": dst.value or dst.raw, "what": Phrase("the checkpoint is read from")}
        yield Hit(_SAME, program.start, max(src.end, dst.end), message)


def _is_same(word: Word, other: Word) -> bool:
    if word.value is None or other.value is None:
        return word.raw == other.raw and bool(word.raw)
    return word.value.rstrip("/") == other.value.rstrip("/")


def _find_compiled(part: FilePart, scripts: ScriptSet) -> Iterator[Hit]:
    reported: set[str] = set()
    for event in compile_calls(part.program):
        name = "model" if event.argument("model") is not None else "model_path"
        value = event.argument(name, 0)
        yield from _find_unsupported(part, scripts, value, "compile", reported)
        yield from _find_kind(part, scripts, event, value)
        node, path = event.argument_node(name, 0), path_of(part, value)
        if path is not None and _lacks_conversion(path, scripts):
            yield part.hit(_UNCONVERTED, node, {"folder": path, "what": Phrase("compiled")})
        elif scripts.quantised and not scripts.converted and path not in scripts.quantised:
            yield part.hit(_UNCONVERTED, node, {"none": Phrase("no step here converts it")})


def _find_kind(part: FilePart, scripts: ScriptSet, event: ScriptEvent, value: ScriptValue | None) -> Iterator[Hit]:
    """Vision language models given to what builds language models."""
    name = part.program.python(value) if part.program is not None else None
    embedding = event.argument("embedding_as_input")
    # With embedding_as_input only the language part may be meant.
    if value is None or not is_build(event) or (embedding is not None and embedding.data is not False):
        return
    listed = models.listed(name, scripts.facts) if isinstance(name, str) and is_known_text(name) else None
    if listed is not None and listed.kind == "vlm":
        yield part.hit("edge10.model-kind", value.node, {"model": listed.name})


def _lacks_conversion(path: str, scripts: ScriptSet) -> bool:
    """Whether a folder has a quantised model, and no conversion writes there."""
    return path in scripts.quantised and not any(folder in (path, None) for folder in scripts.converted)
