"""GPUs, models and reviewed defaults by name. A value without a source is None."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher, get_close_matches
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from vllm_runbooks.catalog.indexes import Index
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import Authored, record

MAX_GPUS = 4096
"""Maximum number of GPUs: more are a typo, or an attempt to use up memory."""
_BRANDS = ("nvidia", "geforce", "tesla", "rtx")
"""Brand words before a GPU's name that may be omitted."""
_FORMATS = (("bf16", (8, 0)), ("fp8", (8, 9)), ("mxfp4", (10, 0)))
"""Number formats with the least compute capability whose tensor cores support them: PTX ISA, `mma`,
`tcgen05.mma`; vLLM has the same limits for the first two (vllm 0.33.0 platforms/cuda.py:258 and
:588)."""
_COUNT_FIRST = re.compile(r"(?P<count>\d{1,9})\s*[x\u00d7*](?!tx)\s*(?P<name>\S.*)", re.ASCII | re.IGNORECASE)
_COUNT_LAST = re.compile(
    r"(?P<name>.{0,80}\S)(?<!t)(?<!\bma)\s*[x\u00d7*:]\s*(?P<count>\d{1,9})", re.ASCII | re.IGNORECASE
)
_MEMORY_FIRST = re.compile(r"(?P<gib>\d{1,3})\s?g(?:i?b)?[\s_-]+(?P<name>\S.{0,80})", re.ASCII | re.IGNORECASE)
_MEMORY_LAST = re.compile(r"(?P<name>.{0,80}\S)[\s_-]+(?P<gib>\d{1,3})\s?(?:g(?:i?b)?)?", re.ASCII | re.IGNORECASE)
_CPU = re.compile(r"cpu(?:[\s:_-]*(?P<gib>[1-9]\d{0,5})\s?g(?:i?b)?)?", re.ASCII | re.IGNORECASE)
_LIKE_CPU = re.compile(r"cpu[\s:_@-]*(?:\d|node|\Z)[^./]*\Z", re.ASCII | re.IGNORECASE)
_MAX_NAME = 100
_TARGET = re.compile(r"gfx(?P<major>\d{1,2})(?P<minor>\d)[0-9a-f]", re.ASCII)
_APART = re.compile(r"[\s_-]+")
_WORDS_APART = re.compile(r"(?:[\s-]|(?<![0-9])_|_(?![0-9]))+")
"""Between words; an underscore between digits is a decimal point."""
_FILE = re.compile(r"[/\\]|\.(?:json|ya?ml|csv|txt)$", re.ASCII | re.IGNORECASE)
LOCAL = "local"
"""Name for the GPUs of this host."""
_HUB_CACHE = re.compile(r"models--([^/\\]{1,100}?)--([^/\\]{1,100})")

Capability = tuple[int, int]
"""Compute capability: major, minor."""


@dataclass(frozen=True)
class Reported(Authored):
    """Memory of a GPU in a printed line, without the part that the driver reserves."""

    gib: float
    source: str
    """Source of the line."""


@dataclass(frozen=True)
class NvidiaSmi(Authored):
    """Memory of a GPU in nvidia-smi, including the part that the driver reserves."""

    mib: int
    source: str
    """Source of the line."""


@dataclass(frozen=True)
class Total:
    """Memory of a GPU available to a launch, without the part that the driver reserves, in GiB."""

    low: float
    expected: float
    high: float
    source: str
    """Derivation of the value, in a sentence."""


_SHARED_MEMORY: frozenset[Capability] = frozenset({(7, 2), (8, 7), (10, 1), (11, 0), (12, 1)})
"""GPUs that share the host's memory, Xavier, Orin, Thor and GB10: https://developer.nvidia.com/cuda-gpus."""


def shares_memory(capability: Capability | None) -> bool:
    """Whether GPUs of this compute capability use the host's memory."""
    return capability in _SHARED_MEMORY


@dataclass(frozen=True)
class Gpu(Authored):
    """A GPU; None for figures without a source."""

    name: str
    memory_gib: float
    """Nominal memory."""
    sources: tuple[str, ...]
    """Keys of the table `sources` in the same file."""
    aliases: tuple[str, ...] = ()
    """Other names, the driver's among them."""
    vendor: str = "nvidia"
    """"nvidia" or "amd"; "cpu" for a NUMA node of a host without GPUs, which no file lists."""
    form_of: str | None = None
    """Name of a GPU that differs only in board or socket: printed memory lines count for both."""
    reported: tuple[Reported, ...] = ()
    nvidia_smi: tuple[NvidiaSmi, ...] = ()
    total: Total | None = None
    """Computed from the whole table when it is compiled, never written; None if it cannot be
    derived."""
    memory_bandwidth_gb_s: float | None = None
    """Peak bandwidth of the GPU's own memory, in 10^9 bytes per second."""
    capability: str | None = None
    """Compute capability, as "8.6"; of AMD GPUs as PyTorch reports it."""
    architecture: str | None = None
    interconnect: str | None = None
    """Link between GPUs of a host: "nvlink", "nvlink-bridge" (pairs, if a bridge is installed) or
    "pcie"."""
    peer_to_peer: bool | None = None
    """Whether the vendor's driver supports peer-to-peer access."""

    @cached_property
    def version(self) -> Capability | None:
        """Compute capability of an NVIDIA GPU; None for other vendors, to which rules for CUDA do not apply."""
        if self.vendor != "nvidia":
            return None
        major, _, minor = (self.capability or "").partition(".")
        return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None

    @cached_property
    def formats(self) -> tuple[str, ...] | None:
        """Formats other than fp16 of its tensor cores: "bf16", "fp8", "mxfp4"; None if unknown."""
        capability = self.version
        return None if capability is None else tuple(name for name, least in _FORMATS if capability >= least)


@dataclass(frozen=True)
class HostGpu:
    """One GPU of a host."""

    gpu: Gpu
    node: str | None = None
    """Host name from the request; None for the only host."""
    number: int | None = None
    """Index on its host, as the driver counts; None if the GPU was named and not inspected."""
    used_gib: float | None = None
    """Memory in use when it was inspected; None if unknown, or if it was named and counts as
    idle."""
    limit_gib: float | None = None
    """Memory of this host that processes here may use, if a control group limits it."""
    root_limit_gib: float | None = None
    """Limit of the control group at the root of this file system, as in a container."""


Read = Callable[[str, str | None], tuple[HostGpu, ...]]
"""Reads the GPUs of a snapshot file, or of this host (`local`), for a host of that name."""


@dataclass(frozen=True)
class GpuTable(Authored):
    """`gpus.yaml`."""

    sources: dict[str, str]
    """Sources of the GPU's figures, by key."""
    gpus: tuple[Gpu, ...]
    not_planned: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Other accelerators that vLLM runs on, with the beginnings of their names."""


@dataclass(frozen=True)
class Architecture(Authored):
    """Facts about all models of a `model_type` that their configuration lacks."""

    source: str
    processor_arguments: tuple[str, ...] = ()
    """Arguments of the model's own processor, for images and videos."""
    derives_head_dim: bool = False
    """Whether a missing head size is the hidden size divided by the number of heads."""
    encoder_heads: str | None = None
    """Field of `vision_config` with the number of heads that vLLM splits over the ranks."""


@dataclass(frozen=True)
class ParserFit(Authored):
    """The models that a tool parser, a reasoning parser or a chat template is written for."""

    models: tuple[str, ...]
    """Hub ids, `*` for any characters, no matter the case."""
    source: str
    tool_parsers: tuple[str, ...] = ()
    """For a chat template: the parsers for the tool calls that it requests."""
    marks: str = ""
    """For a reasoning parser: the mark before the answer; parsers with the same mark are
    interchangeable."""

    def has(self, model: str) -> bool:
        """Whether a model is included: by its Hub id, or by the name of its folder."""
        name = _hub_id(model).casefold()
        if _is_hub_id(name):
            return any(fnmatchcase(name, pattern.casefold()) for pattern in self.models)
        folder = _parts(name)[-1:]
        lasts = (pattern.casefold().rpartition("/")[2] for pattern in self.models)
        return any(fnmatchcase(part, last) for part in folder for last in lasts if not last.startswith("*"))


@dataclass(frozen=True)
class Fits(Authored):
    """`fits.yaml`: which parsers and templates belong to which models."""

    tool_parsers: dict[str, ParserFit]
    reasoning_parsers: dict[str, ParserFit]
    chat_templates: dict[str, ParserFit]
    """By base name of the template's file."""


class Matter(StrEnum):
    """Effect of a changed default."""

    MEMORY = "memory"
    SCHEDULING = "scheduling"
    ENGINE = "engine"
    API = "api"
    OUTPUTS = "outputs"
    SECURITY = "security"
    LOGGING = "logging"
    NOTHING = "nothing"
    """Not reported."""
    UNKNOWN = "unknown"
    """Not reviewed: reported, and nothing is written."""


@dataclass(frozen=True)
class Former(Authored):
    """How to write a former default."""

    of: Any
    """The former default."""
    value: Any
    """The current value with the same meaning."""
    option: str | None = None
    """Argparse name of the option to write; None for the same one."""


@dataclass(frozen=True)
class DefaultReview(Authored):
    """Review of a changed default."""

    matters: Matter
    why: str
    """Effect of the change, or why it has none."""
    source: str
    """The release's file and line, `vllm 0.18.1 config/load.py:57`, or two of them with " and " in between."""
    writes: bool = True
    """Whether the former default may be written into a script; otherwise the change is only
    reported."""
    former: Former | None = None
    """How to write a former default that is no value of the option now."""
    only_with: tuple[str, ...] = ()
    """Options of which one must be set for the default to count; empty if it counts for every
    launch."""
    early: Any = None
    """Value in releases without the option yet; None if there is no equivalent."""
    gone: Any = None
    """Value in releases without the option any more; None if there is no equivalent."""


@dataclass(frozen=True)
class DefaultReviews(Authored):
    """`defaults.yaml`: defaults that changed between releases, and which of them anyone has to know about."""

    options: dict[str, DefaultReview] = field(default_factory=dict)
    """By argparse name. A change that is missing here is reported as not reviewed."""
    environment: dict[str, DefaultReview] = field(default_factory=dict)
    """By variable. A change that is missing here is not reported: most select kernels with equal
    results."""


@dataclass(frozen=True)
class ModelFile(Authored):
    """A file of `catalog/models`: a model's configuration with its source."""

    id: str
    """`<org>/<repo>`, as on the Hub; the file's path."""
    source: str
    """Source of the configuration."""
    config: dict[str, Any] = field(default_factory=dict)
    """The part of `config.json` that affects vLLM; with `like`, only the fields that differ."""
    like: str = ""
    """Id of the model of the catalog whose configuration this one has, apart from `config`."""
    is_partial: bool = False
    """The source has only a part of `config.json`: missing fields are unknown, not absent."""
    needs_remote_code: bool | None = None
    """Whether the model runs only with code from its repository; None if the configuration
    decides."""
    note: str = ""


@dataclass(frozen=True)
class Model:
    """Facts of a model's configuration; None if unknown."""

    id: str | None
    config: Mapping[str, Any] = field(repr=False)
    architecture: str | None = None
    model_type: str | None = None
    attention_heads: int | None = None
    kv_heads: int | None = None
    """Of all layers; for models with several kinds of layers those of the first kind."""
    hidden_size: int | None = None
    layers: int | None = None
    vocabulary_size: int | None = None
    max_positions: int | None = None
    """Longest context in tokens, scaled rotary embeddings counted."""
    head_dim: int | None = None
    intermediate_size: int | None = None
    moe_intermediate_size: int | None = None
    experts: int | None = None
    """0: the model has none."""
    is_mla: bool | None = None
    """Whether keys and values are one compressed latent, replicated on every rank."""
    modalities: tuple[str, ...] | None = None
    """"image", "video" and "audio"; empty: text alone."""
    needs_remote_code: bool | None = None
    dtype: str | None = None
    """For example `bfloat16`."""
    quantization: str | None = None
    """Quantization method of the checkpoint; "none" if it has none."""
    group_size: int | None = None
    """Weights per scale; None also for methods without groups."""
    ties_embeddings: bool | None = None
    processor_arguments: tuple[str, ...] | None = None
    encoder_heads: int | None = None
    """Attention heads of the vision encoder, if vLLM splits them over the ranks."""
    sources: tuple[str, ...] = ()


def _part(config: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        if isinstance(config.get(name), Mapping):
            inner: Mapping[str, Any] = config[name]
            return inner
    return {}


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = _part(config, "text_config", "llm_config", "language_config", "thinker_config")
    return _part(inner, "text_config") or inner


def _number(config: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


_SCALES_NOTHING = ("default", "mrope", "llama3", "su", "longrope", "proportional")
"""Kinds of rotary embeddings that do not extend the configured context."""
_IS_SCALED = "gemma3"
"""Model types whose configured context includes the scaling (vLLM 0.8.5 config.py:2977)."""


_COUNTED_FROM_PADDING = ("roberta", "xlm-roberta")


def unused_positions(text: Mapping[str, Any]) -> int:
    """Positions of a RoBERTa model before that of its first token, which follows the padding token's.

    vLLM reads the remainder as `max_seq_length` of sentence_bert_config.json or as the tokenizer's `model_max_length`
    (config/model.py `get_and_verify_max_len`): 8192 of bge-m3's 8194 positions.
    """
    if text.get("model_type") not in _COUNTED_FROM_PADDING:
        return 0
    padding = text.get("pad_token_id")
    return (padding if isinstance(padding, int) else 1) + 1  # 1: transformers' RobertaConfig


def _positions(text: Mapping[str, Any]) -> int | None:
    """Context that vLLM derives from a text model's configuration."""
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length")
    lengths = [length - unused_positions(text) for name in names if (length := _number(text, name)) is not None]
    if allowed := _number(text, "model_max_length"):
        lengths = [allowed]  # vLLM prefers it, as Command-R's and Kimi-Linear's configurations expect
    scaling = _part(text, "rope_scaling", "rope_parameters")
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    factor = scaling.get("factor")
    if not lengths or not isinstance(kind, str):
        return None
    if _IS_SCALED in str(text.get("model_type")):
        return min(lengths)
    if kind in _SCALES_NOTHING or any(isinstance(value, Mapping) for value in scaling.values()):
        return min(lengths)
    if not isinstance(factor, (int, float)) or isinstance(factor, bool) or not 0 < factor < 1e6:
        return None
    trained = _number(scaling, "original_max_position_embeddings") if kind == "yarn" else None
    return int((trained or min(lengths)) * factor)


def _modalities(config: Mapping[str, Any], architecture: str | None, *, is_partial: bool) -> tuple[str, ...] | None:
    parts = {**config, **_part(config, "thinker_config")}
    vision = any(isinstance(parts.get(name), Mapping) for name in ("vision_config", "vision_tower_config"))
    has = {
        "image": vision,
        "video": vision and any(_number(parts, name) for name in ("video_token_id", "video_token_index")),
        "audio": isinstance(parts.get("audio_config"), Mapping),
    }
    if any(has.values()):
        return tuple(name for name, is_there in has.items() if is_there)
    return () if not is_partial and architecture is not None and architecture.endswith("ForCausalLM") else None


def _quantization(config: Mapping[str, Any], *, is_partial: bool) -> tuple[str | None, int | None]:
    settings = _part(config, "quantization_config", "compression_config")
    if not settings:
        return (None if is_partial or "quantization_config" in config else "none"), None
    groups = {_number(settings, "group_size")}
    for group in _part(settings, "config_groups").values():
        if isinstance(group, Mapping):
            groups.add(_number(_part(group, "weights"), "group_size"))
    sizes = groups - {None}
    return _word(settings.get("quant_method")), sizes.pop() if len(sizes) == 1 else None


def model_from_config(
    config: Mapping[str, Any],
    architectures: Mapping[str, Architecture] | None = None,
    *,
    name: str | None = None,
    is_partial: bool = False,
) -> Model:
    """Facts of a `config.json`, unknown where its form is unexpected, or absent from a partial configuration."""
    text = {**config, **_text_config(config)}
    listed = config.get("architectures")
    architecture = _word(listed[0]) if isinstance(listed, (list, tuple)) and listed else None
    model_type = _word(config.get("model_type"))
    facts = (architectures or {}).get(model_type or "", Architecture(source=""))
    heads = _number(text, "num_attention_heads", "n_head", "n_heads", "num_heads")
    hidden = _number(text, "hidden_size", "n_embd", "d_model")
    kv_heads = _number(text, "num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
    is_mla = _number(text, "kv_lora_rank") is not None
    is_grouped = heads is not None and kv_heads is not None and kv_heads < heads
    head_dim = _number(text, "head_dim")
    if head_dim is None and facts.derives_head_dim and heads and hidden and hidden % heads == 0:
        head_dim = hidden // heads
    experts = _number(text, "num_experts", "num_local_experts", "n_routed_experts")
    tied = config.get("tie_word_embeddings", text.get("tie_word_embeddings"))
    quantization, group_size = _quantization({**text, **config}, is_partial=is_partial)
    return Model(
        id=name,
        config=config,
        architecture=architecture,
        model_type=model_type,
        attention_heads=heads,
        kv_heads=kv_heads,
        hidden_size=hidden,
        layers=_number(text, "num_hidden_layers", "n_layer", "n_layers", "num_layers"),
        vocabulary_size=_number(text, "vocab_size", "padded_vocab_size"),
        max_positions=_positions(text),
        head_dim=head_dim,
        intermediate_size=_number(text, "intermediate_size", "n_inner", "ffn_hidden_size"),
        moe_intermediate_size=_number(text, "moe_intermediate_size"),
        experts=experts if experts is not None or is_partial or architecture is None else 0,
        is_mla=is_mla if is_mla or is_grouped or not is_partial else None,
        modalities=_modalities(config, architecture, is_partial=is_partial),
        needs_remote_code=None if is_partial or "auto_map" in config or not config.get("architectures") else False,
        dtype=_word(config.get("dtype")) or _word(config.get("torch_dtype")) or _word(text.get("dtype")),
        quantization=quantization,
        group_size=group_size,
        ties_embeddings=tied if isinstance(tied, bool) else None,
        processor_arguments=facts.processor_arguments or None,
        encoder_heads=_number(_part(config, "vision_config"), facts.encoder_heads or ""),
    )


def _hub_id(name: str) -> str:
    cached = _HUB_CACHE.search(name)
    return f"{cached[1]}/{cached[2]}" if cached else name.strip()


def _parts(name: str) -> list[str]:
    return [part for part in re.split(r"[/\\]", name) if part]


def _is_hub_id(name: str) -> bool:
    return len(_parts(name)) == 2 and not name.startswith(("/", ".", "~")) and "\\" not in name


def _renamed(key: str) -> Iterator[str]:
    """The other name of a Llama model: the Hub leads from Meta-Llama-3.1-8B to Llama-3.1-8B."""
    organization, slash, last = key.rpartition("/")
    if (organization == "meta-llama" or not _is_hub_id(key)) and re.match(r"(?:meta-)?llama-", last):
        yield f"{organization}{slash}{last.removeprefix('meta-') if last.startswith('meta-') else f'meta-{last}'}"


def name_key(name: str) -> str:
    """A name as it is compared: no case, spaces, dashes or brands."""
    key = _APART.sub("", name.casefold())
    brands = True
    while brands:
        brands = False
        for brand in _BRANDS:
            if key.startswith(brand) and len(key) > len(brand):
                key, brands = key[len(brand) :], True
    return key


def _prefixes(name: str) -> Iterator[str]:
    """Names that a name begins with, normalized: A100 of A100-80GB-PCIe, but not Llama-3 of Llama-3_3."""
    words = [word for word in _WORDS_APART.split(name.casefold()) if word]
    while words and words[0] in _BRANDS:
        del words[0]
    for count in range(1, len(words)):
        yield name_key("".join(words[:count]))


def _continuing(key: str, names: Iterable[str]) -> list[str]:
    """Names that continue a normalized one; if one continues another, only the shorter."""
    fitting = {name: set(_prefixes(name)) for name in names}
    fitting = {name: prefixes for name, prefixes in fitting.items() if key in prefixes}
    return [name for name, prefixes in fitting.items() if not any(name_key(other) in prefixes for other in fitting)]


def _of_file(item: str) -> tuple[str, str, str]:
    """Split a file and the host after its last @; an @ within a path is not a host."""
    name, at, node = (part.strip() for part in item.rpartition("@"))
    return (item, "", "") if _FILE.search(node) else (name, at, node)


def _listed(names: Iterable[str]) -> str:
    words = list(names)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


CPU_SPACE = "VLLM_CPU_KVCACHE_SPACE"
"""Variable with the GiB of KV cache that each rank on a CPU reserves."""


def cpu_size(text: str) -> int | None:
    """Memory in GiB of `cpu-64GB`, 0 of `cpu` without a size; None for other names.

    Raises:
        InputError: the name begins as that of a CPU and continues otherwise.
    """
    found = _CPU.fullmatch(text.strip())
    if found is None and _LIKE_CPU.match(text.strip()):
        raise InputError(f"{text.strip()[:80]}: use cpu, or cpu-64GB for a host with 64 GB of memory")
    return None if found is None else int(found["gib"] or 0)


_LEAST_OF_HOST, _OF_HOST = 0.95, 0.98
"""Smallest and usual share of the installed memory that Linux reports as MemTotal, the kernel's own left out: 23.54 of
24 GiB on one host, not measured on others."""


def numa_node(size: int, known: float | None = None) -> Gpu:
    """The memory that a vLLM worker on a CPU counts on: that of its NUMA node, `known` GiB if the host was asked."""
    source = "the host's memory without the kernel's part"
    total = Total(size * _LEAST_OF_HOST, size * _OF_HOST, float(size), source)
    if known is not None:
        total = Total(known, known, known, "MemTotal of this host")
    return Gpu(f"CPU-{size}GB", float(size), (), vendor="cpu", total=total)


ALL_GPUS = "`vllm-runbooks catalog list --gpus` lists all names"
"""End of the message about an unknown GPU."""


def is_by_name(spec: str) -> bool:
    """Whether a request names its GPUs by name only, not by a snapshot's file or as this host's."""
    names = (item.partition("@")[0].strip() for item in spec.split(","))
    return not any(name.casefold() == LOCAL or _FILE.search(name) for name in names) and not _FILE.search(spec)


@dataclass(frozen=True)
class Specs:
    """The catalog's GPUs and models, found by name."""

    table: GpuTable
    texts: Mapping[str, str]
    """Model files by Hub id, each as JSON: a command needs one of hundreds."""
    architectures: Mapping[str, Architecture]
    fits: Fits
    problems: tuple[str, ...] = ()
    """Files that were left out, one line each."""
    defaults: DefaultReviews = field(default_factory=DefaultReviews)
    _known: dict[str, Gpu | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Answers of `known`: the thousands of GPUs of a cluster have few names."""
    _kept: dict[str, Model] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def _exact(self) -> dict[str, Gpu]:
        exact = {name_key(alias): gpu for gpu in self.table.gpus for alias in gpu.aliases}
        return exact | {name_key(gpu.name): gpu for gpu in self.table.gpus}

    def _beginning(self, key: str) -> list[Gpu]:
        """GPUs whose name continues the given one, as of `_continuing`."""
        by_name = {gpu.name: gpu for gpu in self.table.gpus}
        return [by_name[name] for name in _continuing(key, by_name)]

    def _of_target(self, key: str) -> list[Gpu]:
        """AMD GPUs of a compiler target: gfx942 is what PyTorch reports as 9.4."""
        target = _TARGET.fullmatch(key)
        version = f"{target['major']}.{target['minor']}" if target else ""
        return [gpu for gpu in self.table.gpus if gpu.vendor == "amd" and gpu.capability == version]

    def known(self, name: str) -> Gpu | None:
        """The GPU of that name; None if none or several have it."""
        if name not in self._known:
            try:
                self._known[name] = self.gpu(name)
            except InputError:
                self._known[name] = None
        return self._known[name]

    def gpu(self, name: str) -> Gpu:
        """The GPU of that name; raises InputError if no GPU matches, or several."""
        text = name.strip()
        if len(text) > _MAX_NAME:
            raise InputError(f"{text[:_MAX_NAME]}: not a GPU name: more than {_MAX_NAME} characters")
        if (size := cpu_size(text)) is not None:
            if not size:
                raise InputError(f"{text}: name the memory of a NUMA node, as in cpu-64GB, or 2xcpu-64GB for two nodes")
            return numa_node(size)
        key = name_key(text)
        if exact := self._exact.get(key):
            return exact
        fitting = self._beginning(key) or self._of_target(key)
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise InputError(f"{text}: ambiguous GPU name; use {_listed(gpu.name for gpu in fitting)}")
        for form in (_MEMORY_FIRST, _MEMORY_LAST):
            if (apart := form.fullmatch(text)) and (family := self._family(apart["name"])):
                return self._of_size(text, apart["name"], family, int(apart["gib"]))
        for kind, beginnings in self.table.not_planned.items():
            if key.startswith(beginnings):
                raise InputError(f"{text}: {kind} is not planned: its vLLM backend manages memory differently")
        near = get_close_matches(key, list(self._exact), n=3, cutoff=0.6)
        names = dict.fromkeys(self._exact[match].name for match in near)
        near_names = f" did you mean {_listed(names)}?" if names else ""
        raise InputError(f"{text or 'an empty name'}: unknown GPU;{near_names} {ALL_GPUS}")

    def _family(self, name: str) -> list[Gpu]:
        exact = self._exact.get(name_key(name))
        return [exact] if exact else self._beginning(name_key(name))

    @staticmethod
    def _of_size(text: str, name: str, family: list[Gpu], gib: int) -> Gpu:
        fitting = [gpu for gpu in family if gpu.memory_gib == gib]
        if len(fitting) == 1:
            return fitting[0]
        sizes = _listed(str(size) for size in sorted({int(gpu.memory_gib) for gpu in family}))
        raise InputError(f"{text}: no such GPU: {name.strip()} comes with {sizes} GB")

    def gpus(
        self, spec: str, read: Read | None = None, is_case: Callable[[str], bool] = lambda _: False
    ) -> tuple[HostGpu, ...]:
        """GPUs of a request such as `8xRTX3090`, `A100-80GB` or `RTX3090@node1,H800@node2`.

        `read` adds snapshots, `host.json` or `host.json@node1`, and `local`, this host; an unknown
        name is the case of a snapshot if `is_case` confirms it. Raises InputError.
        """
        cards: list[HostGpu] = []
        for item in (item_text.strip() for item_text in spec.split(",")):
            name, at, node = (part.strip() for part in item.partition("@"))
            if at and _FILE.search(item):
                name, at, node = _of_file(item)
            if at and not node:
                raise InputError(f"{item}: no host after @; write RTX3090@node1")
            if name.casefold() == LOCAL or _FILE.search(name):
                if read is None:
                    raise InputError(f"{name}: this host's GPUs and snapshots are not supported here; name the GPUs")
                named = read(name, node or None)
            else:
                try:
                    named = self._named(name, node or None)
                except InputError:
                    if read is None or not is_case(name):
                        raise
                    named = read(name, node or None)
            if len(cards) + len(named) > MAX_GPUS:
                raise InputError(f"{name}: use 1 to {MAX_GPUS} GPUs")
            cards += named
        return tuple(cards)

    def _named(self, name: str, node: str | None) -> tuple[HostGpu, ...]:
        is_target = _TARGET.fullmatch(name.casefold())  # its x and digits are no count
        counted = None if is_target else _COUNT_FIRST.fullmatch(name) or _COUNT_LAST.fullmatch(name)
        count = int(counted["count"]) if counted else 1
        if not 0 < count <= MAX_GPUS:
            raise InputError(f"{name}: use 1 to {MAX_GPUS} GPUs")
        return (HostGpu(self.gpu(counted["name"] if counted else name), node),) * count

    @cached_property
    def files(self) -> tuple[ModelFile, ...]:
        """All model files, in the order of their ids' paths."""
        return tuple(map(self.file, self.texts))

    def file(self, name: str) -> ModelFile:
        """File of a Hub id; raises KeyError if there is none."""
        return ModelFile(**json.loads(self.texts[name]))

    @cached_property
    def models(self) -> Mapping[str, Model]:
        return {name: self._made(name) for name in self.texts}

    def _made(self, name: str) -> Model:
        if name not in self._kept:
            file = self.file(name)
            model = model_from_config(file.config, self.architectures, name=file.id, is_partial=file.is_partial)
            needs = model.needs_remote_code if file.needs_remote_code is None else file.needs_remote_code
            self._kept[name] = replace(model, needs_remote_code=needs, sources=(file.source,))
        return self._kept[name]

    @cached_property
    def _by_id(self) -> dict[str, str]:
        return {name.casefold(): name for name in self.texts}

    @cached_property
    def _by_last(self) -> dict[str, str]:
        """Ids by their last part, if unique."""
        lasts = Counter(key.rpartition("/")[2] for key in self._by_id)
        return {last: name for key, name in self._by_id.items() if lasts[last := key.rpartition("/")[2]] == 1}

    @cached_property
    def _by_key(self) -> dict[str, str]:
        """Ids by their last part without spaces and dashes, if unique."""
        keys = Counter(map(name_key, self._by_last))
        return {key: name for last, name in self._by_last.items() if keys[key := name_key(last)] == 1}

    def model(self, name: str) -> Model | None:
        """The model of a Hub id, of a local folder with its name, or of a name with spaces; None if unknown."""
        key = _hub_id(name).casefold()
        for form in (key, *_renamed(key)):
            if hub_id := self._by_id.get(form):
                return self._made(hub_id)
            parts = _parts(form)
            if parts and not _is_hub_id(form) and (last := self._by_last.get(parts[-1])):
                return self._made(last)
        organization, _, last = key.rpartition("/")
        typed = self._by_key.get(name_key(last)) if not organization or " " in key else None
        is_fitting = typed is not None and organization in ("", typed.rpartition("/")[0].casefold())
        return self._made(typed) if typed and is_fitting else None

    def models_like(self, name: str) -> list[str]:
        """Ids of models whose name continues the given one, also without organization, the most alike first.

        With an organization, the model that is only spelled otherwise, as `Qwen/Qwen-3-8B`.
        """
        organization, _, last = name.casefold().rpartition("/")
        key = name_key(last)
        owners = {hub_id: hub_id.rpartition("/")[0].casefold() for hub_id in self.texts}
        lasts = {hub_id.rpartition("/")[2]: hub_id for hub_id in self.texts if organization in ("", owners[hub_id])}
        if organization and (same := [known for known in lasts if name_key(known) == key]):
            return [lasts[known] for known in same]
        longer = sorted(_continuing(key, lasts), key=lambda last: -SequenceMatcher(None, key, name_key(last)).ratio())
        return [lasts[last] for last in longer]


def sources(root: Path) -> list[Path]:
    tables = [root / f"{name}.yaml" for name in ("gpus", "architectures", "fits", "defaults")]
    return [*tables, *sorted((root / "models").glob("*/*.yaml"))]


def _decoded(index: Any) -> Specs:
    return Specs(
        record(GpuTable, index["gpus"]),
        index["models"],
        {name: record(Architecture, data) for name, data in index["architectures"].items()},
        record(Fits, index["fits"]),
        tuple(index.get("problems", ())),
        record(DefaultReviews, index["defaults"]),
    )


SPECS = Index("specs", sources, "vllm_runbooks.catalog.authored.spec_files:compile_specs", _decoded)
key, load = SPECS.key, SPECS.load
