"""A quantised checkpoint: whether it is complete, of one save, in the form that is read next, and plausible.

Sizes are bounded by what a tensor can need: a weight of the language part is 4 bits wide, with scales and zero points
of its groups beside it; all the rest is 16 bits wide. What the source does not tell, as the form before conversion, is
not judged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vllm_runbooks.catalog.toolchains import CheckpointFile, Toolchain, ToolchainFinding
from vllm_runbooks.edge10.artefacts import meanings
from vllm_runbooks.edge10.artefacts.records import Contents, ListedFile, Mend, Tensor

INDEX = "model.safetensors.index.json"
_CONFIG = "config.json"
_SHARD = re.compile(r"(.{1,100}?)-(\d{5})-of-(\d{5})\.safetensors", re.ASCII)
_WEIGHTS = ".safetensors"
_OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".gguf")
_MAY_MISLEAD = frozenset(("training_args.bin", "optimizer.pt", "scheduler.pt"))
_BROKEN = re.compile(
    r".{1,250}(?:\.tmp|\.part|\.partial|\.incomplete|\.temp|\.swp|\.lock|~)(?:\.?\w{0,16})?|core(?:\.\d{1,12})?",
    re.ASCII,
)
_LAYER = re.compile(r"(?:^|.{0,200}\.)layers\.(\d{1,5})\..{1,200}", re.ASCII)
_PACKED = (".qweight", ".qzeros", ".scales")
_VISION = re.compile(r"(?:^|\.)(?:visual|vision_tower|vision_model|vision_encoder|vit)\.", re.ASCII)
_HEAD = re.compile(r"(?:^|\.)lm_head\.(?:weight|qweight)$", re.ASCII)
_PAIRS = ("vocab.json", "merges.txt")
"""Files of a byte-pair tokenizer: the one is of no use without the other."""
_OF_PAIRS = frozenset(("qwen2tokenizer", "qwen2tokenizerfast", "gpt2tokenizer", "gpt2tokenizerfast"))
"""Classes of tokenizers that are saved with both, as `tokenizer_class` of transformers has them."""
_HALF_WIDTH = frozenset(("F16", "BF16"))
_SAME = (
    "architectures", "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
    "intermediate_size",
)  # fmt: skip
_PER_GROUP = 2.5
"""Bytes that a group of one row adds: a scale of 16 bits and a zero point of 4."""
_SMALLEST_GROUP = 32
_ROOM = 1.02
"""Share by which a checkpoint may be larger than its tensors add up to: what quantising adds of its own is less."""
_INCOMPLETE = tuple(
    f"edge10.checkpoint_{word}" for word in ("shard", "layer", "weights", "not_converted", "head", "vision_missing")
)
"""What a finding begins with that says that weights are missing, or are no packed ones."""
_BITS = 4
_PER_WORD = 8
"""Weights of 4 bits in a number of 32."""


@dataclass
class Checkpoint:
    """What is known of a checkpoint."""

    files: Mapping[str, ListedFile]
    """By name, below the checkpoint's folder."""
    contents: Contents
    name: str = ""
    config: dict[str, Any] | None = field(init=False)
    """None: it is not known what stands there."""

    def __post_init__(self) -> None:
        """Read the configuration."""
        self.config = _object(self.contents.texts.get("config.json"))

    @property
    def tensors(self) -> dict[str, tuple[str, Tensor]]:
        """By name the file and the form of each tensor; empty: no header is known."""
        return {name: (path, tensor) for path, held in self.contents.tensors.items() for name, tensor in held.items()}

    @property
    def shards(self) -> list[str]:
        """Its files of weights."""
        return sorted(name for name in self.files if name.endswith(_WEIGHTS) and "/" not in name)

    def named(self, key: str) -> Any:
        """A value of the configuration, at its top or in that of the language part."""
        for held in (
            self.config or {},
            _mapping((self.config or {}).get("text_config")),
            _mapping((self.config or {}).get("llm_config")),
        ):
            if held.get(key) is not None:
                return held[key]
        return None


def _object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


@dataclass
class Told:
    """What is found of a checkpoint."""

    findings: list[ToolchainFinding] = field(default_factory=list)
    mends: list[Mend] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def kind(found: Checkpoint) -> str | None:
    """Whether it is of a language model or of one that takes pictures; None: it is not told."""
    if found.config is not None and found.config.get("vision_config") is not None:
        return "vlm"
    if "preprocessor_config.json" in found.files or any(map(_VISION.search, found.tensors)):
        return "vlm"
    return "llm" if found.config is not None else None


def check(
    found: Checkpoint, facts: Toolchain, *, kind: str | None, step: str | None, float_: Checkpoint | None, is_same: bool
) -> Told:
    """What is wrong with a checkpoint.

    Args:
        found: The checkpoint.
        facts: Of the toolchain.
        kind: Of model; None: it is not told.
        step: That wrote it: "quantise" or "convert"; None: it is not told.
        float_: The model before it was quantised; None: it is not at hand.
        is_same: Whether both are one folder.
    """
    out = _Check(found, facts, kind, step, float_)
    if is_same:
        out.say("edge10.checkpoint_is_float", None, "is the folder of the float model itself")
        return out.out
    for part in (out.files, out.weights, out.tensors, out.quantisation, out.against_float):
        part()
    return out.out


class _Check:
    def __init__(
        self, found: Checkpoint, facts: Toolchain, kind: str | None, step: str | None, float_: Checkpoint | None
    ) -> None:
        self.found, self.facts, self.kind, self.step, self.float = found, facts, kind, step, float_
        self.out = Told()
        self.all = found.tensors
        self.names = self._names()

    def say(self, of: str, path: str | None, text: str, *, do: str = "") -> None:
        self.out.findings.append(meanings.finding(of, path, text, do=do, source=self.facts.source))

    def _names(self) -> frozenset[str]:
        """Names of all tensors, by the index or the headers; empty: they are not known."""
        index = _object(self.found.contents.texts.get(INDEX))
        places = _mapping(_mapping(index).get("weight_map"))
        return frozenset(map(str, places)) | frozenset(self.all)

    # ---- files

    def files(self) -> None:
        """The small files, of which most are the float model's own."""
        missing: set[str] = set()
        for each in self.facts.checkpoint:
            if self.kind is not None and self.kind not in each.kinds:
                continue
            if any(name in self.found.files for name in each.names) or missing.intersection(each.names):
                continue
            if self.kind is None and each.kinds != ("llm", "vlm"):
                self.out.unchecked.append(f"whether {each.names[0]} is wanted: the kind of model is not told")
                continue
            why = (
                ""
                if self.float is None and missing.intersection(_PAIRS).intersection(_partner(each))
                else self._wanted(each)
            )
            if why:
                self._missing(each, why)
                # The float model tells which of several it has; where it is not at hand, each of them may be meant.
                missing.update(each.names if self.float is None else (self._name(each),))
        for path, why in self.found.contents.damaged.items():
            if not path.endswith(_WEIGHTS):
                self.say("edge10.checkpoint_json_damaged", path, why)
        for path in self.found.files:
            if _BROKEN.fullmatch(path):
                self.say("edge10.checkpoint_leftover", path, "is what is left where writing broke off")

    def _wanted(self, each: CheckpointFile) -> str:
        """Why a file that is not there is wanted; empty: it is not."""
        if each.is_needed:
            return f"is missing: {each.says}" if each.says else "is missing"
        if self.float is not None:
            held = next((name for name in each.names if name in self.float.files), None)
            return f"is missing, and the float model has it: {each.says}" if held else ""
        name = each.names[0]
        other = next((pair for pair in _partner(each) if pair in self.found.files), "")
        if other:
            return f"is missing, and {other} is there, which is of no use without it"
        settings = _object(self.found.contents.texts.get("tokenizer_config.json"))
        if name in _PAIRS and str(_mapping(settings).get("tokenizer_class")).lower() in _OF_PAIRS:
            return "is missing, and tokenizer_config.json names a tokenizer that has it"
        return ""

    def _name(self, each: CheckpointFile) -> str:
        """Of the names that will do, the one that the float model has; else the first."""
        held = () if self.float is None else self.float.files
        return next((name for name in each.names if name in held), each.names[0])

    def _missing(self, each: CheckpointFile, why: str) -> None:
        name = self._name(each)
        is_there = self.float is not None and name in self.float.files
        if len(each.names) > 1 and self.float is not None and not is_there:
            why += f" (or {', '.join(each.names[1:])})"
        if name == _CONFIG and self._is_converted():
            do = meanings.MEANINGS["edge10.checkpoint_unsaid"].do
            self.say("edge10.checkpoint_file_missing", name, why, do=do)
            self.out.left.append(f"{name}: the float model's does not say how the weights are packed; {do}")
            return
        self.say("edge10.checkpoint_file_missing", name, why)
        if each.is_copied and is_there:
            self.out.mends.append(Mend("copy", name, name, is_float=True, why=each.says))
        elif each.is_copied:
            self.out.left.append(
                f"{name}: --float FOLDER names the model to copy it from"
                if self.float is None
                else f"{name}: the float model has none either"
            )

    def _is_converted(self) -> bool:
        """Whether its configuration has more to say than that of the float model."""
        return self.step == "convert" or any(name.endswith(_PACKED) for name in self.names)

    # ---- weights

    def weights(self) -> None:
        """The files of weights, against the index, their own numbers and their headers."""
        shards, files = self.found.shards, self.found.files
        others = [
            name for name in files if name.endswith(_OTHER_WEIGHTS) and "/" not in name and name not in _MAY_MISLEAD
        ]
        index = _object(self.found.contents.texts.get(INDEX))
        places = _mapping(_mapping(index).get("weight_map"))
        named = sorted({str(place) for place in places.values()})
        numbered = {name: match for name in shards if (match := _SHARD.fullmatch(name))}
        if not shards and not named:
            if others:
                self.out.unchecked.append(
                    f"the weights: {others[0]} is no file of safetensors, which vLLM and the compiler read"
                )
            else:
                self.say("edge10.checkpoint_weights_missing", None, "holds no weights (*.safetensors)")
            return
        mixed = self._mixed(numbered, named)
        stale = [name for name in shards if name not in named] if named else mixed
        wanted = named or self._counted(numbered, stale)
        for name in wanted:
            if name not in files:
                self.say(
                    "edge10.checkpoint_shard_missing",
                    name,
                    "is missing, and the index names it" if named else "is missing by the numbers of the others",
                )
        if stale:
            self.say(
                "edge10.checkpoint_shards_mixed",
                stale[0],
                f"{_are(stale)} of another save than {'the index tells' if named else 'the other files of weights'}",
            )
        if isinstance(index, dict) and not places and shards:
            self.say(
                "edge10.checkpoint_index_empty", INDEX, f"names no tensor, beside {_files(len(shards))} of weights"
            )
        if INDEX not in files and len([name for name in shards if name not in stale]) > 1:
            self.say("edge10.checkpoint_index_missing", INDEX, "is missing, and the weights are in several files")
        for path, why in self.found.contents.damaged.items():
            if path.endswith(_WEIGHTS) and path not in stale:
                self.say("edge10.checkpoint_shard_damaged", path, why)
        for name in shards:
            if files[name].bytes == 0 and name not in stale and name not in self.found.contents.damaged:
                self.say("edge10.checkpoint_shard_damaged", name, "is empty")
        self._placed(places)
        if not self.found.contents.tensors:
            self.out.remarks.append("the headers of the weights are not known, so that their form is not judged")

    @staticmethod
    def _counted(numbered: Mapping[str, re.Match[str]], stale: Sequence[str]) -> list[str]:
        """Names that the numbers of files tell, as in model-00001-of-00003."""
        found = next((match for name, match in numbered.items() if name not in stale), None)
        if found is None:
            return []
        return [f"{found[1]}-{number:05}-of-{found[3]}{_WEIGHTS}" for number in range(1, min(int(found[3]), 1_000) + 1)]

    @staticmethod
    def _mixed(numbered: Mapping[str, re.Match[str]], named: Sequence[str]) -> list[str]:
        """Files whose numbers are of another set than most."""
        sets: dict[tuple[str, str], list[str]] = {}
        for name, match in numbered.items():
            sets.setdefault((match[1], match[3]), []).append(name)
        if len(sets) < 2 or named:
            return []
        most = max(sets.values(), key=len)
        return sorted(name for names in sets.values() if names is not most for name in names)

    def _placed(self, places: Mapping[str, Any]) -> None:
        """Tensors that the index has in a file that does not hold them."""
        for path, held in self.found.contents.tensors.items():
            lost = sorted(name for name, place in places.items() if place == path and name not in held)
            if lost:
                self.say(
                    "edge10.checkpoint_index_differs",
                    path,
                    f"does not hold {_and_more(lost)}, which the index has there",
                )

    # ---- tensors

    def tensors(self) -> None:
        """The parts of a model that its configuration promises."""
        is_whole = not any(
            one.id in ("edge10.checkpoint_shard_missing", "edge10.checkpoint_shard_damaged")
            for one in self.out.findings
        )
        if not self.names or not is_whole or self.found.config is None:
            return
        layers, told_layers = self._layers(), self.found.named("num_hidden_layers")
        if isinstance(told_layers, int) and layers and 0 < told_layers < 10_000:
            gone = sorted(set(range(told_layers)) - layers)
            if gone:
                self.say(
                    "edge10.checkpoint_layer_missing",
                    None,
                    f"has no tensor of layer {_and_more(gone)} of {told_layers}",
                )
        tied = self.found.named("tie_word_embeddings")
        if tied is False and not any(map(_HEAD.search, self.names)):
            self.say(
                "edge10.checkpoint_head_missing",
                None,
                "has no lm_head, and its configuration does not tie it to the embedding",
            )
        if self.kind == "vlm" and not any(map(_VISION.search, self.names)):
            self.say("edge10.checkpoint_vision_missing", None, "has no tensor of the vision part")

    def _layers(self) -> set[int]:
        found = (_LAYER.fullmatch(name) for name in self.names if not _VISION.search(name))
        return {int(match[1]) for match in found if match}

    # ---- the form after conversion

    def quantisation(self) -> None:
        """What config.json says of quantising, against the tensors."""
        config = self.found.config
        if config is None:
            if self.step == "convert":
                self.out.unchecked.append("whether it is converted: what config.json says is not known")
            return
        said = config.get("quantization_config", self.found.named("quantization_config"))
        packed = sorted(name for name in self.names if name.endswith(_PACKED[0]))
        if not isinstance(said, dict):
            self._unsaid(packed)
            return
        method = str(said.get("quant_method") or said.get("quant_type") or "").lower()
        if method not in self.facts.calibration.methods:
            if self.step == "quantise":
                self.out.remarks.append("its own form before conversion is not told by the source, and not judged")
            else:
                self.say(
                    "edge10.checkpoint_method",
                    "config.json",
                    f"says quant_method {method or '(nothing)'}, where conversion writes "
                    f"{', '.join(self.facts.calibration.methods)}",
                )
            return
        if self.step == "quantise" and not packed:
            self.out.remarks.append("its own form before conversion is not told by the source, and not judged")
            return
        bits = said.get("bits", said.get("w_bit"))
        if bits != _BITS:
            self.say(
                "edge10.checkpoint_bits",
                "config.json",
                f"says {bits if isinstance(bits, int) else 'nothing of'} bits, where weights are {_BITS} bits wide",
            )
        if not packed:
            if self.names:
                self.say(
                    "edge10.checkpoint_not_converted",
                    "config.json",
                    "says that weights are packed, and no tensor is (*.qweight)",
                )
            return
        self._groups(said, packed)
        self._companions(packed)
        self._vision(said, packed)
        self._partly(said, packed)
        kind_of_number = self.found.named("torch_dtype") or self.found.named("dtype")
        if kind_of_number not in (None, "float16", "half", "auto"):
            self.say("edge10.checkpoint_dtype", "config.json", f"says torch_dtype {str(kind_of_number)[:40]}")

    def _unsaid(self, packed: Sequence[str]) -> None:
        if packed:
            self.say(
                "edge10.checkpoint_unsaid",
                "config.json",
                f"has no quantization_config, and {len(packed):,} weights are packed",
            )
        elif self.step == "convert":
            self.say(
                "edge10.checkpoint_not_converted",
                "config.json",
                "has no quantization_config, and no weight is packed" if self.names else "has no quantization_config",
            )
        else:
            self.out.remarks.append(
                "it is not converted, or not quantised at all: its form before conversion is not told by the source"
                + ("" if self.step else "; --step convert asks for the converted form")
            )

    def _groups(self, said: Mapping[str, Any], packed: Sequence[str]) -> None:
        size = said.get("group_size", said.get("q_group_size"))
        for name in packed:
            module = name.removesuffix(_PACKED[0])
            weight, scales = self.all.get(name), self.all.get(f"{module}{_PACKED[2]}")
            if weight is None or scales is None or len(weight[1].shape) != 2 or len(scales[1].shape) != 2:
                continue
            rows, groups = weight[1].shape[0], scales[1].shape[0]
            own = rows if size == -1 else size
            if not groups or not isinstance(own, int) or own < 1 or -(-rows // own) != groups:
                self.say(
                    "edge10.checkpoint_group_size",
                    "config.json",
                    f"says groups of {size}, and {module} has {groups} of {rows // groups if groups else 0}",
                )
                return

    def _companions(self, packed: Sequence[str]) -> None:
        lost = [
            (name, part)
            for name in packed
            for part in _PACKED[1:]
            if f"{name.removesuffix(_PACKED[0])}{part}" not in self.names
        ]
        if lost:
            name, part = lost[0]
            path = self.all[name][0] if name in self.all else INDEX
            self.say(
                "edge10.checkpoint_tensor_missing",
                path,
                f"holds {name}, and {part[1:]} of it {_are(lost)} nowhere",
            )

    def _vision(self, said: Mapping[str, Any], packed: Sequence[str]) -> None:
        if self.kind != "vlm":
            return
        seen = [name for name in packed if _VISION.search(name)]
        if seen and not self.facts.calibration.vision:
            path = self.all[seen[0]][0] if seen[0] in self.all else INDEX
            self.say(
                "edge10.checkpoint_vision_quantised",
                path,
                f"holds {_and_more(seen)}: packed weights of the vision part",
            )
        # vLLM 0.11.0 excepts a module whose own name, `visual.…` without `model.`, holds one of the names.
        vision = [name.removeprefix("model.") for name in self.names if _VISION.search(name)]
        if vision and not seen and not any(each in name for each in self._excepted(said) for name in vision):
            self.say(
                "edge10.checkpoint_vision_not_excepted",
                "config.json",
                "does not except the vision part (modules_to_not_convert)",
            )

    @staticmethod
    def _excepted(said: Mapping[str, Any]) -> list[str]:
        named = said.get("modules_to_not_convert")
        return [str(each) for each in named] if isinstance(named, list) else []

    def _partly(self, said: Mapping[str, Any], packed: Sequence[str]) -> None:
        """Modules that are packed in some layers and not in others."""
        own = [name for name in packed if not _VISION.search(name)]
        kinds = {_plain(name.removesuffix(_PACKED[0])) for name in own}
        excepted = self._excepted(said)
        for name in sorted(self.names):
            module = name.removesuffix(".weight")
            if module == name or _VISION.search(name) or _plain(module) not in kinds or not _LAYER.fullmatch(name):
                continue
            if any(each in module for each in excepted):
                continue
            path = self.all[name][0] if name in self.all else INDEX
            self.say(
                "edge10.checkpoint_partly_quantised", path, f"holds {name} as it was, which is packed in other layers"
            )
            return

    # ---- the float model beside it

    def against_float(self) -> None:
        """What both must have in common, and what quantising makes smaller."""
        if self.float is None:
            self.out.remarks.append(
                "no float model is given (--float), so that sizes and optional files are not compared"
            )
            return
        if self.found.config is not None and self.float.config is not None:
            for key in _SAME:
                mine, its = self.found.named(key), self.float.named(key)
                if mine is not None and its is not None and mine != its:
                    self.say(
                        "edge10.checkpoint_other_model",
                        "config.json",
                        f"says {key} {str(mine)[:40]}, the float model's {str(its)[:40]}",
                    )
                    return
        self._tokenizer(self.float)
        self._size()

    def _tokenizer(self, of: Checkpoint) -> None:
        """The vocabulary, file by file."""
        for name, its in of.contents.vocabularies.items():
            mine = self.found.contents.vocabularies.get(name)
            if mine is not None and mine != its:
                said = (
                    f"has a vocabulary of {mine.entries:,} entries, which is not the float model's of {its.entries:,}"
                )
                self.say("edge10.checkpoint_other_tokenizer", name, said)
                return

    def _size(self) -> None:
        if self.float is None or any(one.id.startswith(_INCOMPLETE) for one in self.out.findings):
            return
        packed = {name.removesuffix(_PACKED[0]) for name in self.names if name.endswith(_PACKED[0])}
        tensors, mine = self.float.tensors, sum(tensor.bytes for _, tensor in self.all.values())
        if tensors and self.all and packed:
            least, most = _bounds(tensors, packed)
            why = "its tensors at 4 bits where they are packed and 16 bits elsewhere"
        else:
            its = _weights(self.float)
            mine_told = _weights(self.found)
            if its is None or mine_told is None or not its:
                self.out.remarks.append("sizes of the weights are not told, and not compared")
                return
            mine, least = mine_told, its * _BITS / 16
            most = its * _ROOM if self.step != "convert" else its * 0.95
            why = "4 to 16 of the float model's 16 bits a weight"
        if not least <= mine <= most:
            self.say(
                "edge10.checkpoint_size",
                None,
                f"has {mine:,} bytes of weights, where {round(least):,} to {round(most):,} are plausible: {why}",
            )


def _and_more(found: Sequence[object]) -> str:
    return f"{found[0]} and {len(found) - 1} more" if len(found) > 1 else f"{found[0]}"


def _files(count: int) -> str:
    return "one file" if count == 1 else f"{count:,} files"


def _are(found: Sequence[object]) -> str:
    return "is" if len(found) == 1 else f"and {len(found) - 1} more are"


def _partner(each: CheckpointFile) -> frozenset[str]:
    """The file of a byte-pair tokenizer that is of no use without this one."""
    name = each.names[0]
    return frozenset(_PAIRS) - {name} if name in _PAIRS else frozenset()


def _plain(module: str) -> str:
    return re.sub(r"\d{1,6}", "#", module.rpartition("layers.")[2])


def _weights(found: Checkpoint) -> int | None:
    """Bytes of its weights: of the tensors, else of the files; None: they are not told."""
    if found.tensors:
        return sum(tensor.bytes for _, tensor in found.tensors.values())
    sizes = [found.files[name].bytes for name in found.shards]
    return sum(size or 0 for size in sizes) if sizes and None not in sizes else None


def _bounds(tensors: Mapping[str, tuple[str, Tensor]], packed: Iterable[str]) -> tuple[float, float]:
    """The least and the most bytes that a model of these tensors has once some of them are packed."""
    modules = set(packed)
    least = most = 0.0
    tied = {name for name in tensors if _HEAD.search(name)}
    for name, (_, tensor) in tensors.items():
        count = 1
        for side in tensor.shape:
            count *= side
        if name.removesuffix(".weight") in modules and name.endswith(".weight"):
            least += count / 2
            most += count / 2 + count / _SMALLEST_GROUP * _PER_GROUP
        else:
            least += 0 if name in tied else min(tensor.bytes, count * 2)
            most += min(tensor.bytes, count * 2)
    return least, most * _ROOM
