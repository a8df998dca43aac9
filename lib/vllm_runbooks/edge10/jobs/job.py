"""Read the description of a job, a small YAML text; reports every error by line and field.

Defaults come from the facts of the toolchain, and the job reports them. Contradictions within the
description or with the facts are problems; gaps in the facts are doubts, which do not block the
job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from vllm_runbooks.catalog.toolchains import MODALITIES, ONE_BY_ONE, EdgeModel, Toolchain
from vllm_runbooks.core.errors import InputError, suggestion
from vllm_runbooks.core.excerpt import Excerpt, LineIndex
from vllm_runbooks.core.redaction.redact import redact_name
from vllm_runbooks.edge10 import models
from vllm_runbooks.edge10.jobs import names
from vllm_runbooks.edge10.jobs.records import EdgeJob, JobCalibration, JobEvaluation, JobProblem, ReadJob
from vllm_runbooks.edge10.jobs.templates import fill_template
from vllm_runbooks.reading.documents import yaml_places
from vllm_runbooks.reading.documents.yaml_places import Mapping, Node, Scalar, YamlError

MAX_TEXT = 100_000
"""Characters of a description."""
INSTEAD = "pass the file that describes a job, as `vllm-runbooks edge10 make --example` prints one"
_KEYS = (
    "model", "like", "quantised", "toolchain", "gpu", "dies", "remap", "prefill", "context", "kv_cache",
    "embedding_as_input", "modality", "picture", "calibration", "evaluation", "threshold",
)  # fmt: skip
_NESTED_KEYS = {
    "remap": ("vision", "language"),
    "calibration": ("samples", "tokens", "dataset", "part", "split", "column"),
    "evaluation": ("datasets", "ports", "limit", "seed", "answer_tokens", "cards"),
}
_KIND_OF_KEY = {"kv_cache": "llm", "embedding_as_input": "llm", "modality": "vlm", "picture": "vlm"}
"""Keys that one kind of model has."""
_KINDS = {"llm": "a language model", "vlm": "a model with pictures"}
_MAX_PROBLEMS = 40
_MAX_SHOWN = 60
_MAX_VALUE = 300
_MAX_ITEMS = 64
_MAX_TOKENS = 10_000_000
_MAX_PIXELS = 16_384
_MAX_CARDS = 64
_MAX_SEED = 2**31 - 1
_ROUND, _NEAR = 1024, 16
"""Contexts are multiples of the first; one that is as near to a multiple as the second is a slip."""
_WHOLE = re.compile(r"[+-]?\d{1,300}", re.ASCII)
_SHARE = re.compile(r"\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}", re.ASCII)
_PICTURE = re.compile(r"(\d{1,6}) ?[xX\u00d7] ?(\d{1,6})", re.ASCII)
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}", re.ASCII)
"""Name that becomes part of a folder's."""
_NULL = ("", "~", "null", "Null", "NULL")
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")


def read(text: str, facts_of: Callable[[str | None], Toolchain]) -> ReadJob:
    """Read the description of a job.

    Args:
        text: The description.
        facts_of: Returns the facts of a version, None for the newest; raises InputError if
            there are none.
    """
    reader = _JobReader(text)
    if not reader.read_root():
        return ReadJob(None, tuple(reader.problems))
    try:
        facts = facts_of(reader.word("toolchain"))
    except InputError as error:
        reader.wrong("toolchain", str(error).split(": ", 1)[-1], "use one of them")
        facts = facts_of(None)
    job = _JobChecks(reader, facts).job()
    problems = sorted(reader.problems, key=lambda problem: (problem.line, problem.field))[:_MAX_PROBLEMS]
    return ReadJob(None if problems else job, tuple(problems), tuple(reader.doubts))


def example(facts: Toolchain) -> str:
    return fill_template("job_example", version=facts.version)


class _JobReader:
    """Reads the values of a description, and collects their problems."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places = LineIndex(text)
        self.nodes: dict[str, Node] = {}
        """Values by field, as in `evaluation.ports`; empty ones are left out."""
        self.problems: list[JobProblem] = []
        self.doubts: list[str] = []

    def read_root(self) -> bool:
        """Read the keys of the description; returns whether it is a mapping."""
        if len(self._text) > MAX_TEXT:
            self._reject(0, f"is longer than {MAX_TEXT} characters", "use the description of one job")
            return False
        try:
            roots = [root for root in yaml_places.roots(Excerpt.whole(self._text)) if not _is_empty(root)]
        except YamlError as error:
            self._reject(error.at, f"invalid YAML ({error})", "write one key per line, such as `model: Qwen/Qwen3-4B`")
            return False
        if len(roots) > 1:
            text = f"contains {len(roots)} documents, the second starts here; a job is one document"
            self._reject(roots[1].start, text, "use one file per job")
        elif not roots or not isinstance(roots[0], Mapping):
            text = "is not a mapping" if roots else "is empty"
            self._reject(0, text, "write one key a line; `model` and `dies` are needed")
        else:
            self._read_keys(roots[0], "", _KEYS)
            for field, keys in _NESTED_KEYS.items():
                node = self.nodes.get(field)
                if isinstance(node, Mapping):
                    self._read_keys(node, f"{field}.", keys)
                elif node is not None and field != "remap":
                    do = f"write its keys below it: {', '.join(keys)}"
                    self.wrong(field, "is not a mapping", do, is_read=False)
            return True
        return False

    def _reject(self, at: int, text: str, do: str) -> None:
        line = self._places(min(at, len(self._text))).line
        self.problems.append(JobProblem(line, "", text, do, is_read=False))

    def wrong(self, field: str, text: str, do: str, *, is_read: bool = True, at: Node | str | None = None) -> None:
        """Add a problem of a field; `at` is its location if it is not the field itself."""
        node = self.nodes.get(at or field) if at is None or isinstance(at, str) else at
        line = 1 if node is None else self._places(node.start).line
        self.problems.append(JobProblem(line, field, text, do, is_read))

    def _read_keys(self, mapping: Mapping, path: str, keys: Sequence[str]) -> None:
        hint = f"known: {', '.join(keys)}"
        for key in mapping.repeated():
            self.wrong(f"{path}{_cut(key.value)}", "appears twice", "keep one of them", is_read=False, at=key)
        for key, value in mapping.items():
            if key.value not in keys:
                do = suggestion(_cut(key.value), keys, hint, cutoff=0.7)
                self.wrong(f"{path}{_cut(key.value)}", "is not a key of a job", do, is_read=False, at=key)
            elif not _is_empty(value):
                self.nodes[f"{path}{key.value}"] = value
        for name, _ in mapping.pairs:
            if not isinstance(name, Scalar):
                self.wrong(path.rstrip("."), "has a key that is not a word", hint, is_read=False, at=name)

    def word(self, field: str, node: Node | None = None) -> str | None:
        """Short text of a field, or of one of its items; None if absent or none."""
        node = node or self.nodes.get(field)
        if node is None:
            return None
        if not isinstance(node, Scalar):
            self.wrong(field, "is a list or a mapping", "write one value", is_read=False, at=node)
            return None
        value = node.value.strip()
        if not value or len(value) > _MAX_VALUE or not value.isprintable():
            text = "is empty" if not value else f"has unprintable characters, or more than {_MAX_VALUE} characters"
            self.wrong(field, text, "write a short string", is_read=False, at=node)
        elif redact_name(value) != value:
            do = "write it without; a token is read from HF_TOKEN where it is needed"
            self.wrong(field, "contains a secret, which all generated files would contain", do, at=node)
        else:
            return value
        return None

    def whole(self, field: str, least: int, most: int, node: Node | None = None) -> int | None:
        """Whole number within bounds; None if absent or none."""
        word = self.word(field, node)
        if word is None:
            return None
        if not _WHOLE.fullmatch(word):
            do = f"write a whole number from {least} to {most}"
            self.wrong(field, f"{_cut(word)!r} is not a whole number", do, is_read=False, at=node)
        elif not least <= int(word) <= most:
            self.wrong(field, f"{_cut(word)} is out of range", f"use {least} to {most}", at=node)
        else:
            return int(word)
        return None

    def truth(self, field: str) -> bool | None:
        word = self.word(field)
        if word is None or word in _TRUE or word in _FALSE:
            return None if word is None else word in _TRUE
        self.wrong(field, f"{_cut(word)!r} is not a boolean", "write true or false", is_read=False)
        return None

    def items(self, field: str) -> list[Node]:
        """Items of a list; a single value is a list of one."""
        node = self.nodes.get(field)
        if not isinstance(node, yaml_places.Sequence):
            return [] if node is None else [node]
        if 0 < len(node.items) <= _MAX_ITEMS:
            return node.items
        text = "is an empty list" if not node.items else f"has {len(node.items)} entries"
        self.wrong(field, text, f"write from 1 to {_MAX_ITEMS} entries", is_read=False)
        return []

    def wholes(self, field: str, least: int, most: int) -> list[int] | None:
        """List of integers; None if it is missing or an item is invalid."""
        items = self.items(field)
        numbers = [self.whole(field, least, most, item) for item in items]
        whole_numbers = [number for number in numbers if number is not None]
        return whole_numbers if items and len(whole_numbers) == len(items) else None


class _JobChecks:
    """Checks a description against the facts."""

    def __init__(self, reader: _JobReader, facts: Toolchain) -> None:
        self._reader, self._nodes, self._facts = reader, reader.nodes, facts
        self._wrong = reader.wrong
        self._defaults: dict[str, str] = {}
        self._from_facts = f"as in {facts.id}"

    def job(self) -> EdgeJob | None:
        """The job; None if a required value is missing."""
        reader, nodes, facts = self._reader, self._nodes, self._facts
        model, like, quantised = self._path("model"), reader.word("like"), self._path("quantised")
        if "model" not in nodes:
            self._wrong("model", "is missing", "use a model name, or its folder", is_read=False)
        if "dies" not in nodes:
            numbers = ", ".join(map(str, facts.limits.dies))
            self._wrong("dies", "is missing", f"set the number of dies of the chip, such as {numbers}", is_read=False)
        listed = self._listed(model, like)
        if model is not None:
            self._note_weights(model)
        if listed is not None:
            self._check_steps(listed)
        kind = None if listed is None else listed.kind
        dies = self._dies()
        prefill = self._prefill(kind)
        context = self._tokens("context", facts.limits.max_model_len)
        kv_cache = self._tokens("kv_cache", facts.limits.kv_cache_tokens) if kind != "vlm" else None
        self._check_prefill(prefill, context, kv_cache)
        self._check_keys(kind)
        vision, language = self._remaps(dies, kind)
        modality = self._modality() if kind != "llm" else None
        picture = self._picture() if kind != "llm" else None
        gpu = self._or_default("gpu", reader.truth("gpu"), True, "the guide advises a GPU")
        embedding = reader.truth("embedding_as_input") or False
        calibration = self._calibration()
        evaluation = self._evaluation(model or "", kind, context)
        threshold = self._threshold()
        if model is None or listed is None or dies is None:
            return None
        return EdgeJob(
            toolchain=facts.id,
            model=model,
            listed=listed.name,
            kind=listed.kind,
            quantised=quantised,
            dies=dies,
            vision_remap=vision,
            language_remap=language,
            context_tokens=context,
            prefill=prefill,
            kv_cache_tokens=kv_cache,
            embedding_as_input=embedding,
            modality=modality,
            picture=picture,
            gpu=gpu,
            calibration=calibration,
            evaluation=evaluation,
            threshold=threshold,
            defaults=self._defaults,
        )

    def _or_default(self, field: str, value: Any, default: Any, why: str = "") -> Any:
        """A value, or its default, which is recorded if the description does not have the field."""
        if value is not None:
            return value
        if field not in self._nodes:
            text = str(default).lower() if isinstance(default, bool) else str(default)
            if isinstance(default, (tuple, list)):
                text = ("x" if field == "picture" else ", ").join(map(str, default))
            self._defaults[field] = f"{text}: {why or self._from_facts}"
        return default

    # ---- the model

    def _path(self, field: str) -> str | None:
        name = self._reader.word(field)
        if name is None:
            return None
        last = names.model_name(name)
        if name.startswith(("-", ".", "~")) or "://" in name or "\\" in name or ".." in name.split("/"):
            do = "use its name on the Hub, the name of a folder next to the generated files, or an absolute path"
            self._wrong(field, f"{_cut(name)!r} is neither a name nor a path visible in the container", do)
        elif not _FOLDER.fullmatch(last):
            do = "rename the folder: letters, digits, dots, dashes and underscores"
            self._wrong(field, f"{_cut(last)!r} cannot be part of a folder's name", do)
        else:
            return name
        return None

    def _note_weights(self, model: str) -> None:
        """Record the source of the weights if it differs from the name as written."""
        weights = models.weights(model, self._facts)
        if weights != model:
            self._defaults["model"] = (
                f"{weights}: on the Hub {model} is {weights}, {self._from_facts}; use an absolute path for a folder"
            )
        elif "/" not in model:
            why = "a folder next to the generated files, because no repository has this name"
            self._defaults["model"] = f"{model}: {why}"

    def _listed(self, model: str | None, like: str | None) -> EdgeModel | None:
        field, name = ("like", like) if like is not None else ("model", model)
        if name is None:
            return None
        answer = models.find_model(name, self._facts)
        if answer.listed is None:
            near = f"did you mean {', '.join(answer.similar)}?" if answer.similar else "see vllm-runbooks edge10 models"
            text = f"{_cut(name)!r} is not in the list of {self._facts.name} {self._facts.version}"
            more = "" if field == "like" else "if it is a variant of a listed model, name that with `like`"
            self._wrong(field, text, "; ".join(filter(None, (near, more))))
        return answer.listed

    def _check_steps(self, listed: EdgeModel) -> None:
        if not listed.quantise and "quantised" not in self._nodes:
            text = f"{listed.name} cannot be quantized with {self._facts.name} {self._facts.version}, only compiled"
            self._wrong("model", text, "quantize it with another tool, and set `quantised` to that checkpoint")

    def _check_keys(self, kind: str | None) -> None:
        for field, only in _KIND_OF_KEY.items():
            if field in self._nodes and kind is not None and only != kind:
                instead = "; its compiled length is `context`" if field == "kv_cache" else ""
                self._wrong(field, f"is for {_KINDS[only]}, but this is {_KINDS[kind]}", f"remove it{instead}")

    # ---- sizes

    def _dies(self) -> int | None:
        limits = self._facts.limits
        dies = self._reader.whole("dies", 1, limits.remap_entries)
        if dies is not None and dies not in limits.dies:
            numbers = ", ".join(map(str, limits.dies))
            self._reader.doubts.append(f"dies: {self._facts.id} documents {numbers}; unknown whether {dies} compile")
        return dies

    def _tokens(self, field: str, default: int) -> int:
        tokens = self._reader.whole(field, 1, _MAX_TOKENS)
        if tokens is not None:
            near = round(tokens / _ROUND) * _ROUND
            if near and 0 < abs(tokens - near) <= _NEAR:
                self._wrong(field, f"{tokens} is close to {near}, which is probably intended", f"write {near}")
        return int(self._or_default(field, tokens, default))

    def _prefill(self, kind: str | None) -> tuple[int, ...]:
        numbers = self._reader.wholes("prefill", ONE_BY_ONE, _MAX_TOKENS) or ()
        lengths = tuple(sorted({length for length in numbers if length > ONE_BY_ONE}))
        if numbers and not lengths:
            text = f"{ONE_BY_ONE} is the decode length, which is always compiled"
            self._wrong("prefill", text, "use the length of a prompt chunk")
        supported = [length.tokens for length in self._facts.lengths if "prefill" in length.phases]
        for length in lengths:
            if length not in supported:
                shows = f"{self._facts.id} shows {', '.join(map(str, supported))}"
                self._reader.doubts.append(f"prefill: {shows}; unknown whether {length} compiles")
        if kind is None:
            return lengths
        return tuple(self._or_default("prefill", lengths or None, (self._facts.limits.prefill[kind],)))

    def _check_prefill(self, prefill: tuple[int, ...], context: int, kv_cache: int | None) -> None:
        field, most = ("context", context) if kv_cache is None else ("kv_cache", kv_cache)
        if prefill and prefill[-1] > most:
            text = f"{prefill[-1]} tokens exceed the {most} of `{field}`"
            self._wrong("prefill", text, f"shorten it, or raise `{field}`")

    # ---- the order of the dies

    def _remaps(self, dies: int | None, kind: str | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        is_nested = isinstance(self._nodes.get("remap"), Mapping)
        fields = ("remap.vision", "remap.language") if is_nested else ("remap", "remap")
        orders = {field: self._remap(field, dies) for field in dict.fromkeys(fields)}
        if kind == "llm" and "remap.vision" in self._nodes:
            text = f"is for {_KINDS['vlm']}, but this is {_KINDS['llm']}"
            self._wrong("remap.vision", text, "remove it")
        rising, why = tuple(range(dies or 0)), "the dies in rising order"
        language = names.padded(self._or_default(fields[1], orders[fields[1]], rising, why), self._facts)
        if kind == "llm":
            return (), language
        return names.padded(self._or_default(fields[0], orders[fields[0]], rising, why), self._facts), language

    def _remap(self, field: str, dies: int | None) -> tuple[int, ...] | None:
        node, most = self._nodes.get(field), self._facts.limits.remap_entries
        if isinstance(node, Scalar):
            self._wrong(field, "is not a list", "list the dies in order, such as [0, 1, 2]", is_read=False)
            return None
        order = self._reader.wholes(field, 0, _MAX_TOKENS)
        if order is None:
            return None
        every = list(range(dies or 0))
        if len(order) > most:
            text = f"has {len(order)} entries, but the toolchain accepts {most}"
            self._wrong(field, text, "remove the trailing zeros; they are added automatically")
        elif dies is not None and (sorted(order[:dies]) != every or any(order[dies:])):
            text = f"is not an order of the dies {', '.join(map(str, every))}"
            self._wrong(field, text, "list each die once, followed only by zeros")
        elif dies is not None:
            return tuple(order[:dies])
        return None

    # ---- images

    def _modality(self) -> str:
        word = self._reader.word("modality")
        if word is not None and word not in MODALITIES:
            do = suggestion(word, MODALITIES, f"write one of {', '.join(MODALITIES)}")
            self._wrong("modality", f"{_cut(word)!r} is not a modality", do)
            return MODALITIES[0]
        return str(self._or_default("modality", word, MODALITIES[0]))

    def _picture(self) -> tuple[int, int]:
        word, default = self._reader.word("picture"), self._facts.limits.picture
        match = _PICTURE.fullmatch(word or "")
        size = (int(match[1]), int(match[2])) if match else None
        if word is not None and (size is None or not all(1 <= side <= _MAX_PIXELS for side in size)):
            do = f"write width x height in pixels, as {default[0]}x{default[1]}"
            self._wrong("picture", f"is not an image size up to {_MAX_PIXELS} pixels per side", do)
            size = None
        width, height = self._or_default("picture", size, default)
        return width, height

    # ---- the steps

    def _calibration(self) -> JobCalibration | None:
        reader, facts, nodes = self._reader, self._facts.calibration, self._nodes
        if "quantised" in nodes:
            if "calibration" in nodes:
                text = "is not used: `quantised` names a checkpoint"
                self._wrong("calibration", text, "remove one of them")
            return None
        values: dict[str, Any] = {
            key: reader.word(f"calibration.{key}") for key in ("dataset", "part", "split", "column")
        }
        values |= {key: reader.whole(f"calibration.{key}", 1, _MAX_TOKENS) for key in ("samples", "tokens")}
        dataset = values["dataset"]
        # Part, split and column in the facts are those of their own data set.
        is_known = dataset in (None, facts.dataset)
        for key in ("split", "column"):
            field = f"calibration.{key}"
            if not is_known and values[key] is None and field not in nodes:
                do = f"name the {key} of {_cut(str(dataset))}"
                self._wrong(field, "is required for this data set", do, at="calibration.dataset")
        if not is_known:
            values["part"] = values["part"] or ""
        values = {
            key: self._or_default(
                f"calibration.{key}", value, facts.dataset_config if key == "part" else getattr(facts, key)
            )
            for key, value in values.items()
        }
        return JobCalibration(method=facts.methods[0], dataset_config=values.pop("part"), **values)

    def _evaluation(self, model: str, kind: str | None, context: int) -> JobEvaluation:
        reader, facts = self._reader, self._facts.evaluation

        def whole(key: str, least: int, most: int, default: int | None = None, why: str = "") -> Any:
            number = reader.whole(f"evaluation.{key}", least, most)
            return number if default is None else self._or_default(f"evaluation.{key}", number, default, why)

        items = reader.items("evaluation.datasets")
        words = [reader.word("evaluation.datasets", item) for item in items]
        datasets = tuple(dict.fromkeys(word for word in words if word is not None))
        ports = self._or_default("evaluation.ports", self._ports(), facts.ports)
        answer_tokens = whole("answer_tokens", 1, _MAX_TOKENS, facts.answer_tokens)
        if answer_tokens >= context:
            field = "evaluation.answer_tokens"
            text = f"{answer_tokens} tokens leave no space for a question in the {context} of `context`"
            at = field if field in self._nodes else "context"
            self._wrong(field, text, "shorten them, or raise `context`", at=at)
        name = names.model_name(model)
        default = facts.datasets.get(kind or "", ())
        return JobEvaluation(
            datasets=self._or_default("evaluation.datasets", datasets or None, default),
            float_port=ports[0],
            quantised_port=ports[1],
            float_name=f"{name}-float",
            quantised_name=f"{name}-quantised",
            limit=whole("limit", 1, _MAX_TOKENS),
            seed=whole("seed", 0, _MAX_SEED, 0, "reproducible questions and answers"),
            answer_tokens=answer_tokens,
            cards=whole("cards", 1, _MAX_CARDS, 1, "one GPU per server"),
        )

    def _ports(self) -> list[int] | None:
        field = "evaluation.ports"
        ports = self._reader.wholes(field, 1, 65535)
        if ports is not None and (len(ports) != 2 or ports[0] == ports[1]):
            text = f"are {', '.join(map(str, ports))}, but two servers run concurrently"
            self._wrong(field, text, "use two different ports")
            return None
        return ports

    def _threshold(self) -> float | None:
        word = self._reader.word("threshold")
        if word is None or (_SHARE.fullmatch(word) and 0 < float(word) < 1):
            return None if word is None else float(word)
        text = f"{_cut(word)!r} is not a fraction between 0 and 1"
        self._wrong("threshold", text, "use the largest acceptable loss, such as 0.01 for one point of 100")
        return None


def _is_empty(node: Node) -> bool:
    return isinstance(node, Scalar) and node.style == "plain" and node.value in _NULL


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"
