"""The description of a job, a small YAML text, to its record: all that is wrong with it at once, by line and field.

What it leaves out comes from the facts of the toolchain, and the record says so. What contradicts itself or the facts
is a problem; what the facts do not tell is a doubt, which stops nobody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from vllm_runbooks.catalog.toolchains import MODALITIES, ONE_BY_ONE, EdgeModel, Toolchain
from vllm_runbooks.core.errors import InputError, meant
from vllm_runbooks.core.excerpt import Excerpt, Places
from vllm_runbooks.core.redaction.redact import redact_name
from vllm_runbooks.edge10 import models
from vllm_runbooks.edge10.jobs import names
from vllm_runbooks.edge10.jobs.records import CalibrationAsked, EvaluationAsked, Job, JobProblem, ReadJob
from vllm_runbooks.edge10.jobs.templates import fill_template
from vllm_runbooks.reading.documents import yaml_places
from vllm_runbooks.reading.documents.yaml_places import Mapping, Node, Scalar, YamlError

MAX_TEXT = 100_000
"""Characters of a description."""
INSTEAD = "give the file that describes a job, as `vllm-runbooks edge10 make --example` prints one"
_KEYS = (
    "model", "like", "quantised", "toolchain", "gpu", "dies", "remap", "prefill", "context", "kv_cache",
    "embedding_as_input", "modality", "picture", "calibration", "evaluation", "threshold",
)  # fmt: skip
_REMAP_KEYS = ("vision", "language")
_CALIBRATION_KEYS = ("method", "samples", "tokens", "dataset", "part", "split", "column")
_EVALUATION_KEYS = ("datasets", "ports", "limit", "seed", "temperature", "answer_tokens", "cards")
_ONLY = {"kv_cache": "llm", "embedding_as_input": "llm", "modality": "vlm", "picture": "vlm"}
"""Keys that one kind of model has."""
_OF_KIND = {"llm": "a language model", "vlm": "a model with pictures"}
_PROBLEMS = 40
_SHOWN = 60
_MAX_VALUE = 300
_MAX_ITEMS = 64
_MOST_TOKENS = 10_000_000
_MOST_PIXELS = 16_384
_LEAST_SIDE = 28
"""Pixels of one token, 14 of a patch and 2 patches merged: the least among the listed models (transformers 4.57,
models/qwen2_vl/image_processing_qwen2_vl.py, smart_resize); Qwen3-VL has 32."""
_MOST_CARDS = 64
_MOST_SEED = 2**31 - 1
_ROUND, _NEAR = 1024, 16
"""Contexts are counted in these; one that is so little beside a multiple is a slip."""
_WHOLE = re.compile(r"[+-]?\d{1,300}", re.ASCII)
_ROUNDED = re.compile(r"([+-]?\d{1,12})\.0{1,12}", re.ASCII)
_LISTED = re.compile(r"\[?\s?(\d{1,12}(?:\s?[,;]\s?\d{1,12}){1,32})\s?\]?", re.ASCII)
_SHARE = re.compile(r"\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}", re.ASCII)
_PICTURE = re.compile(r"(\d{1,6}) ?[xX\u00d7] ?(\d{1,6})", re.ASCII)
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}", re.ASCII)
"""A name that becomes part of a folder's."""
_NULL = ("", "~", "null", "Null", "NULL")
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")


def read(text: str, facts_of: Callable[[str | None], Toolchain]) -> ReadJob:
    """Read the description of a job.

    Args:
        text: As it was written.
        facts_of: The facts of a version as the description names it; None: the newest. Raises InputError where there
            is none.
    """
    reader = _Reader(text)
    root = reader.root()
    if root is None:
        return ReadJob(None, tuple(reader.problems))
    said = reader.keys(root, "", _KEYS)
    version = reader.word(said.get("toolchain"), "toolchain")
    try:
        facts = facts_of(version)
    except InputError as error:
        reader.wrong(said.get("toolchain"), "toolchain", str(error).split(": ", 1)[-1], "name one of them")
        facts = facts_of(None)
    job = _Described(reader, said, facts).job()
    problems = sorted(reader.problems, key=lambda each: (each.line, each.field))[:_PROBLEMS]
    return ReadJob(None if problems else job, tuple(problems), tuple(reader.doubts))


def example(facts: Toolchain) -> str:
    """A description to begin with: a model with pictures, with the values of the facts."""
    calibration, limits, evaluation = facts.calibration, facts.limits, facts.evaluation
    kind = "vlm"
    listed = next((model for model in facts.models if model.kind == kind and model.quantise and model.compile), None)
    name = "MODEL" if listed is None else "-".join([listed.name, *facts.suffixes[:1]])
    dies = max(limits.dies)
    return fill_template(
        "job_example",
        model=name,
        listed=name if listed is None else listed.name,
        dies=dies,
        order=", ".join(map(str, range(dies))),
        prefill=limits.prefill[kind],
        context=limits.max_model_len,
        kv_cache=limits.kv_cache_tokens,
        modality=MODALITIES[0],
        other=MODALITIES[1],
        picture="x".join(map(str, limits.picture)),
        dataset=calibration.dataset,
        part=calibration.dataset_config,
        split=calibration.split,
        column=calibration.column,
        datasets=", ".join(evaluation.datasets[kind]),
        ports=", ".join(map(str, evaluation.ports)),
        answer_tokens=evaluation.answer_tokens,
        version=facts.version,
    )


class _Reader:
    """Reads values of nodes, and gathers what is wrong with them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places = Places(text)
        self.problems: list[JobProblem] = []
        self.doubts: list[str] = []

    def root(self) -> Mapping | None:
        """The outermost mapping; None: there is none, and why is among the problems."""
        if len(self._text) > MAX_TEXT:
            self._unread(0, f"is longer than {MAX_TEXT} characters", "give the description of one job")
            return None
        try:
            found = [root for root in yaml_places.roots(Excerpt.whole(self._text)) if not _is_empty(root)]
        except YamlError as error:
            self._unread(error.at, f"is no YAML ({error})", "write one key a line, as `model: Qwen/Qwen3-4B`")
            return None
        if len(found) > 1:
            text = f"holds {len(found)} documents, the second from here on, and a job is one"
            self._unread(found[1].start, text, "give each job a file of its own")
            return None
        root = found[0] if found else None
        if not isinstance(root, Mapping):
            said = "is empty" if root is None else "is no mapping"
            self._unread(0, said, "write one key a line; `model` and `dies` are needed")
            return None
        return root

    def _unread(self, at: int, text: str, do: str) -> None:
        line = self._places(min(at, len(self._text))).line
        self.problems.append(JobProblem(line, "", text, do, is_read=False))

    def wrong(self, node: Node | None, field: str, text: str, do: str, *, is_read: bool = True) -> None:
        """Say what is wrong with a value; None: with what is missing."""
        line = 1 if node is None else self._places(node.start).line
        self.problems.append(JobProblem(line, field, text, do, is_read))

    def keys(self, mapping: Mapping, path: str, known: Sequence[str]) -> dict[str, Node]:
        """The values of the known keys; empty ones are as good as none."""
        found: dict[str, Node] = {}
        for key in mapping.repeated():
            self.wrong(key, _path(path, _cut(key.value)), "stands twice", "keep one of them", is_read=False)
        for key, value in mapping.items():
            field = _path(path, _cut(key.value))
            if key.value not in known:
                do = meant(_cut(key.value), known, f"known: {', '.join(known)}", cutoff=0.7)
                self.wrong(key, field, "is no key of a job", do, is_read=False)
            elif not _is_empty(value):
                found[key.value] = value
        for name, _ in mapping.pairs:
            if not isinstance(name, Scalar):
                self.wrong(name, path, "has a key that is no word", f"known: {', '.join(known)}", is_read=False)
        return found

    def part(self, node: Node | None, field: str, known: Sequence[str]) -> dict[str, Node]:
        """The keys of a mapping inside the description; none where it is not given."""
        if node is None:
            return {}
        if isinstance(node, Mapping):
            return self.keys(node, field, known)
        self.wrong(node, field, "is no mapping", f"write its keys below it: {', '.join(known)}", is_read=False)
        return {}

    def word(self, node: Node | None, field: str) -> str | None:
        """A short text; None: not given, or none."""
        if node is None:
            return None
        if not isinstance(node, Scalar):
            self.wrong(node, field, "is a list or a mapping", "write one value", is_read=False)
            return None
        value = node.value.strip()
        if node.has_template:
            self.wrong(node, field, "is a template's expression", "write the value that it makes", is_read=False)
        elif not value or len(value) > _MAX_VALUE or not value.isprintable():
            said = "is empty" if not value else f"has signs that cannot be shown, or more than {_MAX_VALUE}"
            self.wrong(node, field, said, "write a short text", is_read=False)
        elif redact_name(value) != value:
            said = "holds a secret, which every file made of it would hold"
            self.wrong(node, field, said, "write it without; a token is read from HF_TOKEN where it is needed")
        else:
            return value
        return None

    def whole(self, node: Node | None, field: str, least: int, most: int) -> int | None:
        """A whole number within bounds; None: not given, or none."""
        word = self.word(node, field)
        if word is None:
            return None
        if not _WHOLE.fullmatch(word):
            rounded = _ROUNDED.fullmatch(word)
            do = f"write {rounded[1]}" if rounded else f"write a number from {least} to {most} without a point"
            self.wrong(node, field, f"{_cut(word)!r} is no whole number", do, is_read=False)
        elif not least <= int(word) <= most:
            self.wrong(node, field, f"{_cut(word)} is not from {least} to {most}", "write one that is")
        else:
            return int(word)
        return None

    def truth(self, node: Node | None, field: str) -> bool | None:
        """True or false; None: not given, or neither."""
        word = self.word(node, field)
        if word is None or word in _TRUE or word in _FALSE:
            return None if word is None else word in _TRUE
        self.wrong(node, field, f"{_cut(word)!r} is neither true nor false", "write one of them", is_read=False)
        return None

    def items(self, node: Node | None, field: str) -> list[Node]:
        """The entries of a list, or the one value that stands for a list of one."""
        if node is None:
            return []
        if isinstance(node, yaml_places.Sequence):
            if 0 < len(node.items) <= _MAX_ITEMS:
                return node.items
            said = "is an empty list" if not node.items else f"has {len(node.items)} entries"
            self.wrong(node, field, said, f"write from 1 to {_MAX_ITEMS} entries", is_read=False)
            return []
        return [node]

    def wholes(self, node: Node | None, field: str, least: int, most: int) -> list[int] | None:
        """A list of whole numbers; None: not given, or one of them is none."""
        listed = _LISTED.fullmatch(node.value.strip()) if isinstance(node, Scalar) else None
        if listed is not None:
            shown = ", ".join(re.findall(r"\d+", listed[1]))
            self.wrong(node, field, "is a text and no list", f"write [{shown}], without quotes", is_read=False)
            return None
        items = self.items(node, field)
        found = [self.whole(item, field, least, most) for item in items]
        numbers = [number for number in found if number is not None]
        return numbers if items and len(numbers) == len(found) else None


class _Described:
    """A description that is a mapping, read against the facts."""

    def __init__(self, reader: _Reader, said: dict[str, Node], facts: Toolchain) -> None:
        self._reader, self._said, self._facts = reader, said, facts
        self._within: dict[str, dict[str, Node]] = {}
        """By key that has keys below it, those that are given."""
        self._taken: dict[str, str] = {}

    def job(self) -> Job | None:
        """The job; None where it lacks what is needed. What is wrong with it is among the reader's problems."""
        reader, said, facts = self._reader, self._said, self._facts
        model = self._model("model")
        like = reader.word(said.get("like"), "like")
        quantised = self._model("quantised")
        if "model" not in said:
            reader.wrong(None, "model", "is missing", "name a model, or its folder", is_read=False)
        if "dies" not in said:
            shown = ", ".join(map(str, facts.limits.dies))
            reader.wrong(None, "dies", "is missing", f"say how many the chip has, as {shown}", is_read=False)
        listed = self._listed(model, like)
        if model is not None:
            self._place(model)
            if quantised is not None and models.is_one(model, quantised, facts):
                do = "name the checkpoint that was made of it; one in a folder of this name by its absolute path"
                reader.wrong(said["quantised"], "quantised", f"{_cut(quantised)!r} is the model itself", do)
        if listed is not None:
            self._allowed(listed, is_quantised="quantised" in said)
        kind = None if listed is None else listed.kind
        dies = self._dies()
        prefill = self._prefill(kind)
        context = self._tokens("context", facts.limits.max_model_len)
        kv_cache = self._tokens("kv_cache", facts.limits.kv_cache_tokens) if kind != "vlm" else None
        self._fits(prefill, context, kv_cache)
        if kind is not None:
            self._of_kind(kind)
        vision, language = self._remaps(dies, kind)
        modality = self._modality() if kind != "llm" else None
        picture = self._picture() if kind != "llm" else None
        gpu = self._given("gpu", reader.truth(said.get("gpu"), "gpu"), True, "the guide advises a GPU")
        embedding = reader.truth(said.get("embedding_as_input"), "embedding_as_input") or False
        calibration = self._calibration()
        evaluation = self._evaluation(model or "", kind, context)
        threshold = self._threshold()
        if model is None or listed is None or dies is None:
            return None
        return Job(
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
            calibration=None if "quantised" in said else calibration,
            evaluation=evaluation,
            threshold=threshold,
            taken=self._taken,
        )

    def _given(self, field: str, value: Any, otherwise: Any, why: str) -> Any:
        """A value, or what is taken in its place, which is noted where the description does not say it."""
        if value is not None:
            return value
        holder, _, key = field.rpartition(".")
        if key not in (self._within.get(holder, {}) if holder else self._said):
            self._taken[field] = f"{_told(otherwise, 'x' if field == 'picture' else ', ')}: {why}"
        return otherwise

    def _from_facts(self) -> str:
        return f"as in {self._facts.id}"

    # ---- the model

    def _model(self, field: str) -> str | None:
        """A name on the Hub, or a folder that the containers can find."""
        reader, node = self._reader, self._said.get(field)
        name = reader.word(node, field)
        if name is None:
            return None
        last = names.model_name(name)
        if name.startswith(("-", ".", "~")) or "://" in name or "\\" in name or ".." in name.split("/"):
            do = "write its name on the Hub, the name of a folder beside the made files, or an absolute path"
            reader.wrong(node, field, f"{_cut(name)!r} is no name and no path that a container finds", do)
        elif not _FOLDER.fullmatch(last):
            do = "rename the folder: letters, digits, dots, dashes and underscores"
            reader.wrong(node, field, f"{_cut(last)!r} cannot be part of a folder's name", do)
        else:
            return name
        return None

    def _place(self, model: str) -> None:
        """Say where the weights come from, where that is not the name as it was written."""
        found = models.weights(model, self._facts)
        if found != model:
            self._taken["model"] = (
                f"{found}: on the Hub {model} is {found}, {self._from_facts()}; name a folder by its absolute path"
            )
        elif "/" not in model:
            self._taken["model"] = f"{model}: a folder beside the made files, since no repository of this name is known"

    def _listed(self, model: str | None, like: str | None) -> EdgeModel | None:
        """The model of the list that is meant."""
        field, name = ("like", like) if like is not None else ("model", model)
        if name is None:
            return None
        found = models.asked(name, self._facts)
        if found.listed is None:
            near = f"did you mean {', '.join(found.near)}?" if found.near else "see vllm-runbooks edge10 models"
            text = f"{_cut(name)!r} is not in the list of {self._facts.name} {self._facts.version}"
            more = "" if field == "like" else "if it is a variant of a listed model, name that with `like`"
            self._reader.wrong(self._said.get(field), field, text, "; ".join(filter(None, (near, more))))
        elif like is not None and model is not None:
            own = models.listed(model, self._facts)
            if own is not None and own != found.listed:
                text = f"{_cut(like)!r} is listed as {found.listed.name}, and the model itself as {own.name}"
                self._reader.wrong(self._said.get(field), field, text, "leave `like` out")
        return found.listed

    def _allowed(self, listed: EdgeModel, *, is_quantised: bool) -> None:
        """Whether the toolchain takes the model for the steps of this job."""
        reader, facts = self._reader, self._facts
        of = f"{facts.name} {facts.version}"
        if listed.quantise is False and not is_quantised:
            text = f"{listed.name} may not be quantised by {of}, only compiled"
            do = "quantise it with another tool, and name that checkpoint with `quantised`"
            reader.wrong(self._said.get("model"), "model", text, do)
        if listed.compile is False:
            reader.wrong(
                self._said.get("model"), "model", f"{listed.name} may not be compiled by {of}", "take another model"
            )
        for what, may in (("quantised", listed.quantise if not is_quantised else True), ("compiled", listed.compile)):
            if may is None:
                reader.doubts.append(f"model: whether {listed.name} may be {what} is not told of {of}")

    def _of_kind(self, kind: str) -> None:
        """Keys that the other kind of model has."""
        for field, only in _ONLY.items():
            if field in self._said and only != kind:
                text = f"is for {_OF_KIND[only]}, and this is {_OF_KIND[kind]}"
                instead = "; its compiled length is `context`" if field == "kv_cache" else ""
                self._reader.wrong(self._said[field], field, text, f"leave it out{instead}")

    # ---- sizes

    def _dies(self) -> int | None:
        limits, node = self._facts.limits, self._said.get("dies")
        dies = self._reader.whole(node, "dies", 1, limits.remap_entries)
        if dies is not None and dies not in limits.dies:
            shown = ", ".join(map(str, limits.dies))
            self._reader.doubts.append(f"dies: {self._facts.id} shows {shown}; whether {dies} compile is not told")
        return dies

    def _tokens(self, field: str, otherwise: int) -> int:
        """A context that is not a slip."""
        node = self._said.get(field)
        tokens = self._reader.whole(node, field, 1, _MOST_TOKENS)
        if tokens is not None:
            near = round(tokens / _ROUND) * _ROUND
            if near and 0 < abs(tokens - near) <= _NEAR:
                self._reader.wrong(node, field, f"{tokens} is beside {near}, which is probably meant", f"write {near}")
        found: int = self._given(field, tokens, otherwise, self._from_facts())
        return found

    def _prefill(self, kind: str | None) -> tuple[int, ...]:
        given = self._reader.wholes(self._said.get("prefill"), "prefill", ONE_BY_ONE, _MOST_TOKENS)
        lengths = tuple(sorted({length for length in given or () if length > ONE_BY_ONE}))
        if given and not lengths:
            text = f"{ONE_BY_ONE} is the length that serves tokens one by one, which is always compiled"
            self._reader.wrong(self._said.get("prefill"), "prefill", text, "name the length of a prompt's piece")
        known = [length.tokens for length in self._facts.lengths if "prefill" in length.phases]
        for length in lengths:
            if length not in known:
                shown = ", ".join(map(str, known))
                self._reader.doubts.append(
                    f"prefill: {self._facts.id} shows {shown}; whether {length} compiles is not told"
                )
        if kind is None:
            return lengths
        found: tuple[int, ...] = self._given(
            "prefill", lengths or None, (self._facts.limits.prefill[kind],), self._from_facts()
        )
        return found

    def _fits(self, prefill: tuple[int, ...], context: int, kv_cache: int | None) -> None:
        """Whether a prompt's piece fits into what the model is compiled for."""
        field, most = ("context", context) if kv_cache is None else ("kv_cache", kv_cache)
        if prefill and prefill[-1] > most:
            text = f"{prefill[-1]} tokens are more than the {most} of `{field}`"
            self._reader.wrong(self._said.get("prefill"), "prefill", text, f"shorten it, or raise `{field}`")

    # ---- the order of the dies

    def _remaps(self, dies: int | None, kind: str | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The orders of the vision and of the language part, as many entries as the toolchain takes."""
        node = self._said.get("remap")
        if isinstance(node, Mapping):
            within = self._within["remap"] = self._reader.keys(node, "remap", _REMAP_KEYS)
            vision = self._remap(within.get("vision"), "remap.vision", dies)
            language = self._remap(within.get("language"), "remap.language", dies)
            if kind == "llm" and "vision" in within:
                text = f"is for {_OF_KIND['vlm']}, and this is {_OF_KIND['llm']}"
                self._reader.wrong(within["vision"], "remap.vision", text, "leave it out")
        else:
            vision = language = self._remap(node, "remap", dies)
        plain = tuple(range(dies or 0))
        filled = "the dies in rising order"
        field = "remap.language" if isinstance(node, Mapping) else "remap"
        second = self._given(field, language, plain, filled)
        if kind == "llm":
            return (), names.padded(second, self._facts)
        field = "remap.vision" if isinstance(node, Mapping) else "remap"
        first = self._given(field, vision, plain, filled)
        return names.padded(first, self._facts), names.padded(second, self._facts)

    def _remap(self, node: Node | None, field: str, dies: int | None) -> tuple[int, ...] | None:
        """One order of the dies, without what fills it up."""
        most = self._facts.limits.remap_entries
        if isinstance(node, Scalar):
            self._reader.wrong(node, field, "is no list", "write the dies in their order, as [0, 1, 2]", is_read=False)
            return None
        given = self._reader.wholes(node, field, 0, _MOST_TOKENS)
        if given is None:
            return None
        found = [*self._misplaced(given, dies, most)]
        for text, do in found:
            self._reader.wrong(node, field, text, do)
        return None if found or dies is None else tuple(given[:dies])

    @staticmethod
    def _misplaced(given: list[int], dies: int | None, most: int) -> Iterator[tuple[str, str]]:
        """What is wrong with an order of dies, and what to do."""
        if len(given) > most:
            yield (
                f"has {len(given)} entries, and the toolchain takes {most}",
                "leave the zeros at the end out; they are filled in",
            )
        if dies is None:
            return
        own, rest = given[:dies], given[dies:]
        strange = [die for die in own if die >= dies]
        missing = [die for die in range(dies) if die not in own]
        twice = sorted({die for die in own if own.count(die) > 1})
        if strange:
            there = f"is none of 0 to {dies - 1}" if dies > 1 else "is named, and there is die 0 alone"
            yield f"die {strange[0]} {there}", "name each die once"
        elif len(own) < dies:
            yield f"names {len(own)} of the {dies} dies", "name each once"
        elif twice:
            absent = f", and die {missing[0]} is missing" if missing else ""
            yield f"die {twice[0]} stands twice among the first {dies}{absent}", "name each die once"
        if any(rest) and not strange:
            yield f"die {next(die for die in rest if die)} stands behind the {dies} dies", "let only zeros follow"

    # ---- pictures

    def _modality(self) -> str:
        node = self._said.get("modality")
        word = self._reader.word(node, "modality")
        if word is not None and word not in MODALITIES:
            do = meant(word, MODALITIES, f"write one of {', '.join(MODALITIES)}")
            self._reader.wrong(node, "modality", f"{_cut(word)!r} is none", do)
            return MODALITIES[0]
        found: str = self._given("modality", word, MODALITIES[0], self._from_facts())
        return found

    def _picture(self) -> tuple[int, int]:
        reader, node = self._reader, self._said.get("picture")
        size: list[int] | None = None
        if isinstance(node, Scalar):
            match = _PICTURE.fullmatch(node.value.strip())
            size = [int(match[1]), int(match[2])] if match else None
        elif node is not None:
            size = reader.wholes(node, "picture", 1, _MOST_PIXELS)
        otherwise = self._facts.limits.picture
        if node is not None and (size is None or len(size) != 2 or not all(1 <= side <= _MOST_PIXELS for side in size)):
            do = f"write width x height in pixels, as {otherwise[0]}x{otherwise[1]}"
            text = f"is no size of a picture up to {_MOST_PIXELS} pixels a side"
            reader.wrong(node, "picture", text, do, is_read=size is not None)
            size = None
        if size is not None and min(size) < _LEAST_SIDE:
            self._reader.doubts.append(
                f"picture: a side of {min(size)} is less than the {_LEAST_SIDE} pixels of one token of a picture; "
                "processors enlarge or refuse it, and whether it compiles is not told"
            )
        found: tuple[int, int] = self._given(
            "picture", None if size is None else (size[0], size[1]), otherwise, self._from_facts()
        )
        return found

    # ---- the steps

    def _calibration(self) -> CalibrationAsked:
        reader, facts, node = self._reader, self._facts.calibration, self._said.get("calibration")
        if node is not None and "quantised" in self._said:
            reader.wrong(node, "calibration", "is not used: `quantised` names a checkpoint", "leave one of them out")
        said = self._within["calibration"] = reader.part(node, "calibration", _CALIBRATION_KEYS)
        is_taken = "quantised" not in self._said

        def given(key: str, value: Any, otherwise: Any) -> Any:
            return self._given(f"calibration.{key}", value, otherwise, self._from_facts()) if is_taken else otherwise

        method = reader.word(said.get("method"), "calibration.method")
        if method is not None and method not in facts.methods:
            do = f"known: {', '.join(facts.methods)}"
            reader.wrong(said["method"], "calibration.method", f"{_cut(method)!r} is none of the toolchain's", do)
        dataset = reader.word(said.get("dataset"), "calibration.dataset")
        # The part, split and column of the facts are those of their own data set.
        own = dataset in (None, facts.dataset)
        found = {key: reader.word(said.get(key), f"calibration.{key}") or None for key in ("part", "split", "column")}
        for key in ("split", "column"):
            if not own and found[key] is None and key not in said:
                do = f"name the {key} of {_cut(str(dataset))}"
                reader.wrong(said.get("dataset"), f"calibration.{key}", "is missing for this data set", do)
        return CalibrationAsked(
            method=given("method", method, facts.methods[0]),
            samples=given(
                "samples",
                reader.whole(said.get("samples"), "calibration.samples", 1, _MOST_TOKENS),
                facts.samples,
            ),
            tokens=given(
                "tokens", reader.whole(said.get("tokens"), "calibration.tokens", 1, _MOST_TOKENS), facts.tokens
            ),
            dataset=given("dataset", dataset, facts.dataset),
            dataset_config=given("part", found["part"], facts.dataset_config) if own else found["part"] or "",
            split=given("split", found["split"], facts.split),
            column=given("column", found["column"], facts.column),
        )

    def _evaluation(self, model: str, kind: str | None, context: int) -> EvaluationAsked:
        reader, facts = self._reader, self._facts.evaluation
        said = reader.part(self._said.get("evaluation"), "evaluation", _EVALUATION_KEYS)
        self._within["evaluation"] = said

        def given(key: str, value: Any, otherwise: Any, why: str | None = None) -> Any:
            return self._given(f"evaluation.{key}", value, otherwise, why or self._from_facts())

        def whole(key: str, least: int, most: int) -> int | None:
            return reader.whole(said.get(key), f"evaluation.{key}", least, most)

        node = said.get("datasets")
        asked = [reader.word(item, "evaluation.datasets") for item in reader.items(node, "evaluation.datasets")]
        datasets = tuple(dict.fromkeys(each for each in asked if each is not None))
        self._known(said.get("datasets"), datasets, kind)
        ports = reader.wholes(said.get("ports"), "evaluation.ports", 1, 65535)
        if ports is not None and len(ports) != 2:
            reader.wrong(said["ports"], "evaluation.ports", f"are {len(ports)}", "write two: float, quantised")
            ports = None
        if ports is not None and ports[0] == ports[1]:
            text = f"are both {ports[0]}, and the two servers run side by side"
            reader.wrong(said["ports"], "evaluation.ports", text, "write two that differ")
        temperature = reader.word(said.get("temperature"), "evaluation.temperature")
        if temperature is not None and not (_SHARE.fullmatch(temperature) and float(temperature) == 0):
            text = f"{_cut(temperature)!r} makes answers that differ each time, so that no loss can be told"
            reader.wrong(said["temperature"], "evaluation.temperature", text, "write 0, or leave it out")
        answer = given("answer_tokens", whole("answer_tokens", 1, _MOST_TOKENS), facts.answer_tokens)
        if answer >= context:
            text = f"{answer} tokens leave no room for a question in the {context} of `context`"
            at = said.get("answer_tokens") or self._said.get("context")
            reader.wrong(at, "evaluation.answer_tokens", text, "shorten them, or raise `context`")
        own = names.model_name(model)
        return EvaluationAsked(
            datasets=given("datasets", datasets or None, facts.datasets.get(kind or "", ())),
            float_port=given("ports", ports, facts.ports)[0],
            quantised_port=given("ports", ports, facts.ports)[1],
            float_name=f"{own}-float",
            quantised_name=f"{own}-quantised",
            limit=whole("limit", 1, _MOST_TOKENS),
            seed=given("seed", whole("seed", 0, _MOST_SEED), 0, "the same questions and answers each time"),
            answer_tokens=answer,
            cards=given("cards", whole("cards", 1, _MOST_CARDS), 1, "one card a server"),
        )

    def _known(self, node: Node | None, datasets: Sequence[str], kind: str | None) -> None:
        """Whether data sets are of questions that this kind of model can be asked."""
        known = self._facts.evaluation.datasets
        of = {each.lower(): each_kind for each_kind, found in known.items() for each in found}
        for name in datasets if kind is not None else ():
            told = of.get(name.lower())
            if told is None:
                shown = ", ".join(known.get(kind or "", ()))
                self._reader.doubts.append(
                    f"evaluation.datasets: {self._facts.id} shows {shown} for {_OF_KIND[kind or '']}; "
                    f"whether there is a data set {_cut(name)} is not told"
                )
            elif told != kind:
                text = f"{_cut(name)} is for {_OF_KIND[told]}, and this is {_OF_KIND[kind or '']}"
                self._reader.wrong(
                    node, "evaluation.datasets", text, f"take another, as {', '.join(known[kind or ''])}"
                )

    def _threshold(self) -> float | None:
        node = self._said.get("threshold")
        word = self._reader.word(node, "threshold")
        if word is None:
            return None
        if not _SHARE.fullmatch(word) or not 0 < float(word) < 1:
            text = f"{_cut(word)!r} is no share between 0 and 1"
            self._reader.wrong(node, "threshold", text, "write the largest loss of a score, as 0.01 for a hundredth")
            return None
        return float(word)


def _is_empty(node: Node) -> bool:
    """Whether a value, or a whole document, says nothing."""
    return isinstance(node, Scalar) and node.style == "plain" and node.value in _NULL


def _path(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _told(value: Any, between: str) -> str:
    """A value that was taken, as a person would write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return between.join(map(str, value))
    return str(value)
