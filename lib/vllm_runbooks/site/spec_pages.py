"""GPUs and models as pages: each fact with its unit and source; a fact without source is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from vllm_runbooks.catalog.specs import Gpu, Model, ModelFile, Specs
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.records import Plan
from vllm_runbooks.site.myst import UNKNOWN, aside, code, contents, facts, listed, plain, prose, reference, table

CARDS = ("RTX4090", "L40S", "A100-80GB", "H200")
"""GPUs on which every model is tried: 24, 48, 80 and 141 GB."""
_LINKS = {"nvlink": "NVLink", "nvlink-bridge": "NVLink bridge between two, where one is fitted", "pcie": "PCIe"}
_FITS = {True: "fits", False: "too large", None: None}
_HOW = (
    "What each configuration says, and what the [planner](../planning.md) makes of it on one card by itself, with the "
    f"defaults of the newest known release. *{UNKNOWN}* is what no source shows; nothing is filled in for it."
)


def sources(specs: Specs, *, cards: Sequence[str] = CARDS) -> dict[str, str]:
    """All pages by file name; models are planned on a single GPU of each of `cards`."""
    families: dict[str, list[str]] = {}
    for name in sorted(specs.texts, key=str.lower):
        families.setdefault(name.partition("/")[0], []).append(name)
    pages = {
        "gpus/index.md": gpu_page(specs.table.gpus, specs.table.sources),
        "models/index.md": _model_index(families, specs, cards),
    }
    for owner, names in families.items():
        parts = [model_section(specs.file(name), specs.models[name], cards) for name in names]
        pages[f"models/{owner}.md"] = "\n\n".join([f"# {plain(owner)}", _HOW, *parts]) + "\n"
    return pages


def _said(value: object, unit: str = "") -> str | None:
    """A fact with its unit, as text; None if unknown."""
    if value is None:
        return None
    is_long = isinstance(value, int) and abs(value) >= 10_000
    text = f"{value:,}" if is_long else f"{value:g}" if isinstance(value, float) else str(value)
    return f"{text} {unit}".strip()


def _yes(value: bool | None) -> str | None:  # noqa: FBT001 - the fact itself
    return None if value is None else "yes" if value else "no"


def _anchor(kind: str, name: str) -> str:
    return f"{kind}-" + "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower())


def _cell(text: str | None) -> str:
    return aside(UNKNOWN) if text is None else prose(text)


def _place(text: str) -> str:
    """A source in one line; an address at its beginning is a link."""
    words = " ".join(text.split())
    first, _, rest = words.partition(" ")
    bare = first.rstrip(",:;")
    return f"{reference(bare)} {prose(rest)}".strip() if bare.startswith("https://") else prose(words)


# ---- cards


def gpu_page(gpus: Sequence[Gpu], targets: Mapping[str, str]) -> str:
    """The page of all GPUs: a table to choose from, then each GPU with its sources."""
    ordered = sorted(gpus, key=lambda gpu: (gpu.vendor != "nvidia", gpu.memory_gib, gpu.name))
    rows = [
        (
            f"[{plain(gpu.name)}](#{_anchor('gpu', gpu.name)})",
            _cell(_said(gpu.memory_gib, "GiB")),
            _cell(None if gpu.total is None else f"{gpu.total.expected:.4g} GiB"),
            _cell(_said(gpu.memory_bandwidth_gb_s, "GB/s")),
            _cell(gpu.capability),
        )
        for gpu in ordered
    ]
    intro = (
        "Cards that plans and checks know by name. The size on the box is not what a start finds: the driver keeps "
        "some of it. *Usable* is what printed lines showed, or what follows from those of other cards. A card that is "
        "missing is [added](../cards-and-models.md) in one file."
    )
    head = ["Card", "On the box", "Usable", "Bandwidth", "Capability"]
    parts = ["# GPUs", intro, table(head, rows, "30 16 18 18 18"), *(gpu_section(gpu, targets) for gpu in ordered)]
    return "\n\n".join(parts) + "\n"


def gpu_section(gpu: Gpu, targets: Mapping[str, str]) -> str:
    """Facts of one GPU; `targets` explains the keys of its sources."""
    total = gpu.total
    scatter = "" if total is None or total.low == total.high else f", from {total.low:.4g} to {total.high:.4g}"
    capability = f"{gpu.capability} ({gpu.architecture})" if gpu.capability and gpu.architecture else gpu.capability
    rows = [
        ("Other names", ", ".join(gpu.aliases) or "none"),
        ("Memory on the box", _said(gpu.memory_gib, "GiB")),
        ("Usable memory", None if total is None else f"{total.expected:.4g} GiB{scatter}: {total.source}"),
        ("Memory bandwidth, at its peak", _said(gpu.memory_bandwidth_gb_s, "GB/s")),
        ("Compute capability", capability),
        ("Formats that its tensor cores multiply", None if gpu.formats is None else ", ".join(("fp16", *gpu.formats))),
        ("Between cards of a host", _LINKS.get(gpu.interconnect or "", gpu.interconnect)),
        ("Cards read each other's memory", _yes(gpu.peer_to_peer)),
    ]
    places = [f"{line.gib:g} GiB: {_place(line.source)}" for line in gpu.reported]
    places += [f"{line.mib:,} MiB by nvidia-smi: {_place(line.source)}" for line in gpu.nvidia_smi]
    rests = [_place(targets.get(key, key)) for key in gpu.sources]
    parts = [
        f"({_anchor('gpu', gpu.name)})=\n## {plain(gpu.name)}",
        facts(rows),
        *(["Lines that were printed:", listed(places)] if places else []),
        *(["Sources:", listed(rests)] if rests else []),
    ]
    return "\n\n".join(parts)


# ---- models


@cache
def planned(model: str, card: str) -> Plan | None:
    """The plan of a model on a single GPU of this name; None if it cannot be planned."""
    try:
        return planner.plan_model(model, card, tp=1)
    except InputError:
        return None


def fits(model: str, card: str) -> bool | None:
    """Whether a model, at full context, fits on one GPU; None if unknown."""
    plan = planned(model, card)
    return None if plan is None else plan.fits


def _weights(model: str, cards: Iterable[str]) -> str | None:
    """GiB of a model's weights on one GPU; None if no plan can calculate them."""
    plan = next((plan for card in cards if (plan := planned(model, card)) is not None and plan.per_gpu), None)
    term = next((term for term in plan.per_gpu[0].terms if term.name == "weights"), None) if plan else None
    return None if term is None or term.expected_gib is None else f"{term.expected_gib:.4g} GiB"


def _unplanned(model: str, card: str) -> str | None:
    """Why it is unknown whether a model fits on a GPU; None if it is known."""
    try:
        plan = planned(model, card) or planner.plan_model(model, card, tp=1)
    except InputError as error:
        return str(error).partition(": ")[2]
    unknown = (term.source for term in plan.per_gpu[0].terms if term.expected_gib is None) if plan.per_gpu else ()
    return None if plan.fits is not None else next(iter(unknown), "; ".join(plan.limits) or UNKNOWN)


def _model_index(families: Mapping[str, Sequence[str]], specs: Specs, cards: Sequence[str]) -> str:
    intro = (
        f"{len(specs.texts)} models whose configuration is known from a source that can be opened. Any other is "
        "planned from a folder with its `config.json`: `vllm-runbooks plan ./my-model --gpus 2xA100-80GB`."
    )
    parts = ["# Models", intro, contents(families)]
    for owner, names in families.items():
        entries = []
        for name in names:
            size = aside(prose(_weights(name, cards) or UNKNOWN))
            entries.append(f"[{plain(name.partition('/')[2])}](#{_anchor('model', name)}) {size}")
        parts += [f"## {plain(owner)}", ":::{container} models", listed(entries), ":::"]
    return "\n\n".join(parts) + "\n"


def model_section(file: ModelFile, model: Model, cards: Sequence[str] = CARDS) -> str:
    """Facts of one model with their source, and where it fits on a single GPU."""
    modalities = None if model.modalities is None else ", ".join(("text", *model.modalities))
    why = next((reason for card in cards if (reason := _unplanned(file.id, card))), None)
    rows = [
        ("Architecture", model.architecture),
        ("Layers", _said(model.layers)),
        ("Hidden size", _said(model.hidden_size)),
        ("Attention heads", _said(model.attention_heads)),
        ("KV heads", _said(model.kv_heads)),
        ("Longest context", _said(model.max_positions, "tokens")),
        ("Vocabulary", _said(model.vocabulary_size, "tokens")),
        ("Experts", "none" if model.experts == 0 else _said(model.experts)),
        ("Reads", modalities),
        ("Type of the weights", model.dtype),
        ("Quantisation", model.quantization),
        ("Needs code of its repository", _yes(model.needs_remote_code)),
        ("Weights on one card", _weights(file.id, cards)),
        *((f"On one {card}, at its whole context", _FITS[fits(file.id, card)]) for card in cards),
        *([("Why that is unknown", why)] if why else []),
    ]
    is_part = " The source shows a part of `config.json`; what is missing there is unknown, not absent."
    parts = [
        f"({_anchor('model', file.id)})=\n## {plain(file.id)}",
        facts(rows),
        f"Source: {_place(file.source)}{is_part if file.is_partial else ''}",
        *([prose(file.note)] if file.note else []),
        f"What else fits, and with which options: {code(f'vllm-runbooks plan {file.id} --gpus 8x{CARDS[0]}')}",
    ]
    return "\n\n".join(parts)
