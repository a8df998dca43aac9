"""What is wrong in scripts that quantise, convert, and hand a checkpoint to the next step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vllm_runbooks.catalog.languages import Phrase
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.edge10 import models
from vllm_runbooks.edge10.scripts import pure
from vllm_runbooks.edge10.scripts.commands import Command
from vllm_runbooks.edge10.scripts.compile_rules import Tables, hit
from vllm_runbooks.edge10.scripts.events import Event
from vllm_runbooks.edge10.scripts.readings import COMPILE, Job, Part, ReadFile, is_build, path_of, saved
from vllm_runbooks.edge10.scripts.values import Made, Value
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.reading.shell import Word

_SMALL, _ARGUMENT = "edge10.calibration-small", "edge10.calibration-argument"
_OPTION = "edge10.conversion-option"
_METHOD, _SAME, _MISSING = "edge10.method-unsupported", "edge10.same-folder", "edge10.conversion-missing"
_PYTHON = re.compile(r"(?:python|pypy)[\d.]{0,6}|-[a-zA-Z]{1,4}")
_SHORTEST = 3
"""Characters of an option's beginning that may stand for it."""
_CONFIG = re.compile(r"get_(\w{1,30})_config")
_VISION_CLASS = re.compile(r"ImageTextToText|Vision2Seq|ForConditionalGeneration|VisionModel|VLModel|VLFor|Multimodal")
_MODEL_CLASS = re.compile(r"(?:AutoModel\w{0,60}|\w{1,60}For(?:CausalLM|ConditionalGeneration)|\w{1,60}Model)")
_VISION = frozenset(("visual", "vision_tower", "vision_model", "vit", "vision", "multi_modal_projector"))
_LANGUAGE = frozenset(("language_model", "text_model", "llm", "lm"))


def find(file: ReadFile, part: Part, job: Job, tables: Tables) -> Iterator[Hit]:
    """What is wrong in one part."""
    if part.program is not None and part.has("quantise"):
        yield from _method(part, job)
        yield from _calibration(part, job, tables.get(_ARGUMENT, {}).get("datasets", {}))
        yield from _vision(part, job)
        yield from _models(part, job)
        yield from _folders(part)
    if part.program is not None and part.has(*COMPILE):
        yield from _compiled(part, job)
    for command in part.commands:
        if command.index(*job.facts.steps["convert"].programs) is not None:
            yield from _conversion(part, command, job)
    if file.parts and part is file.parts[-1]:
        yield from _served(file, job)


def _calls(part: Part, name: str) -> Iterator[Event]:
    for event in part.program.events if part.program is not None else ():
        if event.kind == "call" and event.name.rpartition(".")[2] == name and not event.name.startswith("."):
            yield event


def _method(part: Part, job: Job) -> Iterator[Hit]:
    """A way of quantising that the toolchain has not."""
    right = job.facts.calibration.methods
    roots = job.facts.steps["quantise"].modules
    told: set[str] = set()
    events = part.program.events if part.program is not None else []
    for kind in ("call", "import"):
        for event in events:
            match = _CONFIG.fullmatch(event.name.rpartition(".")[2])
            if event.kind != kind or match is None or event.name.split(".")[0] not in roots:
                continue
            if match[1] not in right and match[1] not in told:
                told.add(match[1])
                yield hit(part, _METHOD, event.node, {"method": match[1], "right": " or ".join(right)})


def _calibration(part: Part, job: Job, datasets: Mapping[str, Any]) -> Iterator[Hit]:
    facts = job.facts.calibration
    for event in _calls(part, "get_dataloader"):
        for name, least, what in (
            ("num_max_orig_samples", facts.samples, Phrase("samples")),
            ("max_sequence_length", facts.tokens, Phrase("tokens of a sample")),
        ):
            value = part.program.python(event.given(name)) if part.program is not None else None
            if isinstance(value, int) and not isinstance(value, bool) and value < least:
                says = {"name": name, "value": str(value), "least": str(least), "what": what}
                yield hit(part, _SMALL, event.place(name), says)
        data = event.given("dataset", 0)
        yield from _column(part, event, data, datasets)
        made = _loaded(data)
        if (
            made is not None
            and data is not None
            and not made.of
            and "split" not in made.keywords
            and len(made.args) < 5
        ):
            says = {"wrong": Phrase("load_dataset is given no split: it gives all of them, by name, and no texts")}
            edits = _with_split(part, data, facts.split) if _dataset(made) == facts.dataset else ()
            yield hit(part, _ARGUMENT, data.node, says, edits)


def _loaded(value: Value | None) -> Made | None:
    """The call that loads a dataset; None: the value is none, or something was taken from it."""
    if value is None or value.kind != "made":
        return None
    made: Made = value.data
    return made if made.name == "datasets.load_dataset" else None


def _dataset(made: Made) -> str:
    first = made.args[0] if made.args else made.keywords.get("path")
    return str(first.data).rpartition("/")[2] if first is not None and first.kind == "plain" else ""


def _with_split(part: Part, data: Value, split: str) -> tuple[Replacement, ...]:
    node = data.node
    if part.text is None or not isinstance(node, ast.Call) or not (node.args or node.keywords):
        return ()
    end = max(part.text.places(each)[1] for each in (*node.args, *node.keywords))
    return (Replacement(end, end, f', split="{split}"'),)


def _column(part: Part, event: Event, data: Value | None, datasets: Mapping[str, Any]) -> Iterator[Hit]:
    """The column that the texts are in."""
    made = _loaded(data)
    known = datasets.get(_dataset(made), {}) if made is not None else {}
    columns = known.get("columns", [])
    column = event.given("column")
    if column is None:
        if not event.is_open and len(event.args) < 3:
            hint = f"; of {_dataset(made)} it is {known['text']}" if made is not None and known else ""
            says = {"wrong": f"get_dataloader is not told the column that holds the texts{hint}"}
            yield hit(part, _ARGUMENT, event.node, says)
        return
    if column.kind == "plain" and isinstance(column.data, str) and columns and column.data not in columns and made:
        wrong = Phrase(
            "{dataset} has no column {column}: its columns are {columns}",
            dataset=_dataset(made),
            column=str(column.data),
            columns=", ".join(columns),
        )
        node = column.node
        edits: tuple[Replacement, ...] = ()
        if part.text is not None and isinstance(node, ast.Constant):
            edits = (Replacement(*part.text.places(node), f'"{known["text"]}"'),)
        yield hit(part, _ARGUMENT, event.place("column"), {"wrong": wrong}, edits)


def _vision(part: Part, job: Job) -> Iterator[Hit]:
    """A part of the model being quantised that sees."""
    if job.facts.calibration.vision:
        return
    for event in _calls(part, "quantize_model"):
        value = event.given("model", 0)
        if value is None or value.kind != "made" or not value.data.name.endswith(".from_pretrained"):
            continue
        made: Made = value.data
        taken = set(made.of)
        if taken & _LANGUAGE:
            continue
        name = made.args[0] if made.args else None
        listed = models.listed(str(name.data), job.facts) if name is not None and name.kind == "plain" else None
        is_seeing = bool(_VISION_CLASS.search(made.name)) or (listed is not None and listed.kind == "vlm")
        if taken & _VISION or is_seeing:
            what = f".{'.'.join(made.of)}" if taken & _VISION else ""
            says = {"what": what, "whole": "" if what else Phrase("the whole model")}
            yield hit(part, "edge10.vision-quantised", event.node, says)


def _models(part: Part, job: Job) -> Iterator[Hit]:
    """Models that the toolchain's list does not have, or does not quantise."""
    told: set[str] = set()
    for event in _calls(part, "from_pretrained"):
        words = event.name.split(".")
        if len(words) < 2 or not _MODEL_CLASS.fullmatch(words[-2]) or words[-2] == "AutoModelForTokenizer":
            continue
        yield from _asked(part, job, event.given("pretrained_model_name_or_path", 0), "quantise", told)


def _asked(part: Part, job: Job, value: Value | None, step: str, told: set[str]) -> Iterator[Hit]:
    name = part.program.python(value) if part.program is not None else None
    if not isinstance(name, str) or not name.strip() or pure.HOLE in name or value is None or name in told:
        return
    told.add(name)
    found = models.asked(name, job.facts)
    allowed = found.quantise if step == "quantise" else found.compile
    if allowed is False and found.listed is not None:
        yield hit(part, "edge10.model-unsupported", value.node, {"model": found.listed.name, "step": Phrase(step)})
    elif allowed is None:
        says = {"model": name, "near": ", ".join(found.near)}
        yield hit(part, "edge10.model-unknown", value.node, says)


def _folders(part: Part) -> Iterator[Hit]:
    """A quantised model that is written over the float one."""
    read = {
        path
        for event in _calls(part, "from_pretrained")
        if (path := path_of(part, event.given("pretrained_model_name_or_path", 0))) is not None
    }
    for event in saved(part):
        value = event.given("save_path", 1) or event.given("save_directory")
        path = path_of(part, value)
        if path is not None and path in read:
            yield hit(part, _SAME, event.node, {"folder": path, "what": Phrase("the float model is read from")})


def _conversion(part: Part, command: Command, job: Job) -> Iterator[Hit]:
    """The conversion of a checkpoint."""
    at = command.index(*job.facts.steps["convert"].programs) or 0
    program = command.words[at]
    method = command.option("--quant_type", "--quant-type", start=at)
    right = job.facts.calibration.methods
    if method is not None and method.value and method.value not in right:
        says = {"method": method.value, "right": " or ".join(right)}
        edits = (Replacement(method.start, method.end, right[0]),) if len(right) == 1 and _is_bare(method) else ()
        yield Hit(_METHOD, program.start, max(method.end, program.end), says, edits)
    yield from _options(part, command, at, job)
    src, dst = command.option("--src", start=at), command.option("--dst", start=at)
    if src is not None and dst is not None and _is_same(src, dst):
        says = {"folder": dst.value or dst.raw, "what": Phrase("the checkpoint is read from")}
        yield Hit(_SAME, program.start, max(src.end, dst.end), says)


def _options(part: Part, command: Command, at: int, job: Job) -> Iterator[Hit]:
    """Options of the conversion that the guide's command has and this one has not, where all of its words are known."""
    known, program = job.facts.conversion, command.words[at]
    words = command.words[at + 1 :]
    written = part.file[program.end : max(program.end, command.end)] if part.piece.kind == "shell" else ""
    if _is_open([word.value or pure.HOLE for word in words], pure.HOLE) or _is_open(written.split(), "$", "`"):
        return
    names = [_name(word.value or "") for word in words]
    given = [name for name in names if name.startswith("--")]
    taken = {each for name in given for each in known if len(name) > _SHORTEST and each.startswith(name)}
    is_run = at == 0 or _PYTHON.fullmatch(command.values[at - 1].rpartition("/")[2]) is not None
    missing = [each for each in known if each not in taken]
    if not missing or not (taken or is_run) or "--help" in given or "-h" in names:
        return
    other = [name for name in given if not any(each.startswith(name) for each in known)]
    says = {"program": program.value or "", "missing": ", ".join(missing), "other": ", ".join(other)}
    yield Hit(_OPTION, program.start, max(program.end, words[-1].end if words else program.end), says)


def _is_open(words: Sequence[str], *signs: str) -> bool:
    """Whether a word that is no option's value holds one of the signs: it may be any options, or several."""
    before = ""
    for word in words:
        is_value = word.startswith("--") or (before.startswith("--") and "=" not in before)
        if any(sign in word for sign in signs) and (not is_value or "@" in word):
            return True
        before = word
    return False


def _name(word: str) -> str:
    """The option that a word is, as the guide writes it."""
    name = word.partition("=")[0]
    return name[:2] + name[2:].replace("-", "_")


def _is_bare(word: Word) -> bool:
    return word.at is not None and word.end - word.start == len(word.value or "")


def _is_same(one: Word, other: Word) -> bool:
    if one.value is None or other.value is None:
        return one.raw == other.raw and bool(one.raw)
    return one.value.rstrip("/") == other.value.rstrip("/")


def _compiled(part: Part, job: Job) -> Iterator[Hit]:
    """The checkpoint that is compiled: its model, and whether it was converted."""
    told: set[str] = set()
    for event in part.made():
        value = event.given("model_path", 0) if event.given("model") is None else event.given("model")
        yield from _asked(part, job, value, "compile", told)
        yield from _kind(part, job, event, value)
        place = event.place("model_path" if event.given("model") is None else "model", 0)
        path = path_of(part, value)
        if path is not None and _lacks_conversion(path, job):
            yield hit(part, _MISSING, place, {"folder": path, "what": Phrase("compiled")})
        elif job.quantised and not job.conversions and path not in job.quantised:
            yield hit(part, _MISSING, place, {"none": Phrase("no step here converts it")})


def _kind(part: Part, job: Job, event: Event, value: Value | None) -> Iterator[Hit]:
    """A model that sees given to what builds language models."""
    name = part.program.python(value) if part.program is not None else None
    if value is None or not is_build(event) or not isinstance(name, str) or pure.HOLE in name:
        return
    embedding = event.given("embedding_as_input")
    if embedding is not None and (part.program is None or part.program.python(embedding) is not False):
        return  # only its language part may be meant
    listed = models.listed(name, job.facts)
    if listed is not None and listed.kind == "vlm":
        yield hit(part, "edge10.model-kind", value.node, {"model": listed.name})


def _lacks_conversion(path: str, job: Job) -> bool:
    """Whether a folder holds what was quantised, and no conversion writes there."""
    return path in job.quantised and not any(dst in (path, None) for _, dst in job.conversions)


def _served(file: ReadFile, job: Job) -> Iterator[Hit]:
    """Servers that are given a checkpoint that was not converted."""
    for server in file.servers:
        path = server.model.rstrip("/").removeprefix("./") if server.model else None
        if path is not None and _lacks_conversion(path, job):
            yield Hit(_MISSING, server.start, server.start, {"folder": path, "what": Phrase("served")})
