"""GPUs and models as pages of the site: each fact with its unit and its source; what no source says is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from vllm_runbooks.catalog.specs import Gpu, Model, ModelFile, Specs
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.records import Plan
from vllm_runbooks.site.myst import UNKNOWN, aside, code, contents, facts, listed, plain, prose, reference, table

CARDS = ("RTX4090", "L40S", "A100-80GB", "H200")
"""Cards that every model is tried on by itself: 24, 48, 80 and 141 GB."""
_LINKS = {"nvlink": "NVLink", "nvlink-bridge": "NVLink bridge between two, where one is fitted", "pcie": "PCIe"}
_FITS = {True: "fits", False: "too large", None: None}
_HOW = (
    "What each configuration says, and what the [planner](../planning.md) makes of it on one card by itself, with the "
    f"defaults of the newest known release. *{UNKNOWN}* is what no source shows; nothing is filled in for it."
)


def sources(specs: Specs, *, cards: Sequence[str] = CARDS) -> dict[str, str]:
    """All pages by file name; models are planned on each of `cards`, one card at a time."""
    families: dict[str, list[str]] = {}
    for name in sorted(specs.texts, key=str.lower):
        families.setdefault(name.partition("/")[0], []).append(name)
    found = {
        "gpus/index.md": gpu_page(specs.table.gpus, specs.table.sources),
        "models/index.md": _model_index(families, specs, cards),
    }
    for owner, names in families.items():
        parts = [model_section(specs.file(name), specs.models[name], cards) for name in names]
        found[f"models/{owner}.md"] = "\n\n".join([f"# {plain(owner)}", _HOW, *parts]) + "\n"
    return found


def _said(value: object, unit: str = "") -> str | None:
    """A fact with its unit, as text; None where it is unknown."""
    if value is None:
        return None
    is_long = isinstance(value, int) and abs(value) >= 10_000
    shown = f"{value:,}" if is_long else f"{value:g}" if isinstance(value, float) else str(value)
    return f"{shown} {unit}".strip()


def _yes(value: bool | None) -> str | None:  # noqa: FBT001 - the fact itself
    return None if value is None else "yes" if value else "no"


def _anchor(kind: str, name: str) -> str:
    return f"{kind}-" + "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower())


def _cell(text: str | None) -> str:
    return aside(UNKNOWN) if text is None else prose(text)


def _place(text: str) -> str:
    """A source in one line: an address at its beginning is a link."""
    words = " ".join(text.split())
    first, _, rest = words.partition(" ")
    bare = first.rstrip(",:;")
    return f"{reference(bare)} {prose(rest)}".strip() if bare.startswith("https://") else prose(words)


# ---- cards


def gpu_page(gpus: Sequence[Gpu], known: Mapping[str, str]) -> str:
    """The page of all cards: a table to choose from, then each card with what its facts rest on."""
    ordered = sorted(gpus, key=lambda each: (each.vendor != "nvidia", each.memory_gib, each.name))
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
    said = (
        "Cards that plans and checks know by name. The size on the box is not what a start finds: the driver keeps "
        "some of it. *Usable* is what printed lines showed, or what follows from those of other cards. A card that is "
        "missing is [added](../cards-and-models.md) in one file."
    )
    head = ["Card", "On the box", "Usable", "Bandwidth", "Capability"]
    parts = ["# GPUs", said, table(head, rows, "30 16 18 18 18"), *(gpu_section(gpu, known) for gpu in ordered)]
    return "\n\n".join(parts) + "\n"


def gpu_section(gpu: Gpu, known: Mapping[str, str]) -> str:
    """What is known of one card; `known` tells what the keys of its sources stand for."""
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
    shown = [f"{line.gib:g} GiB: {_place(line.source)}" for line in gpu.reported]
    shown += [f"{line.mib:,} MiB by nvidia-smi: {_place(line.source)}" for line in gpu.nvidia_smi]
    rests = [_place(known.get(key, key)) for key in gpu.sources]
    parts = [
        f"({_anchor('gpu', gpu.name)})=\n## {plain(gpu.name)}",
        facts(rows),
        *(["Lines that were printed:", listed(shown)] if shown else []),
        *(["Sources:", listed(rests)] if rests else []),
    ]
    return "\n\n".join(parts)


# ---- models


@cache
def planned(model: str, card: str) -> Plan | None:
    """The plan of a model on one card of this name, by itself; None: nothing can be planned for it."""
    try:
        return planner.plan_model(model, card, tp=1)
    except InputError:
        return None


def fits(model: str, card: str) -> bool | None:
    """Whether a model, at its whole context, fits on one card; None: that cannot be known."""
    found = planned(model, card)
    return None if found is None else found.fits


def _weights(model: str, cards: Iterable[str]) -> str | None:
    """GiB of a model's weights on one card; None where no plan could reckon them."""
    plan = next((plan for card in cards if (plan := planned(model, card)) is not None and plan.per_gpu), None)
    term = next((term for term in plan.per_gpu[0].terms if term.name == "weights"), None) if plan else None
    return None if term is None or term.expected_gib is None else f"{term.expected_gib:.4g} GiB"


def _unplanned(model: str, card: str) -> str | None:
    """Why it cannot be said whether a model fits on a card; None: it can."""
    try:
        plan = planned(model, card) or planner.plan_model(model, card, tp=1)
    except InputError as error:
        return str(error).partition(": ")[2]
    unknown = (term.source for term in plan.per_gpu[0].terms if term.expected_gib is None) if plan.per_gpu else ()
    return None if plan.fits is not None else next(iter(unknown), "; ".join(plan.limits) or UNKNOWN)


def _model_index(families: Mapping[str, Sequence[str]], specs: Specs, cards: Sequence[str]) -> str:
    said = (
        f"{len(specs.texts)} models whose configuration is known from a source that can be opened. Any other is "
        "planned from a folder with its `config.json`: `vllm-runbooks plan ./my-model --gpus 2xA100-80GB`."
    )
    parts = ["# Models", said, contents(families)]
    for owner, names in families.items():
        entries = []
        for name in names:
            size = aside(prose(_weights(name, cards) or UNKNOWN))
            entries.append(f"[{plain(name.partition('/')[2])}](#{_anchor('model', name)}) {size}")
        parts += [f"## {plain(owner)}", ":::{container} models", listed(entries), ":::"]
    return "\n\n".join(parts) + "\n"


def model_section(told: ModelFile, model: Model, cards: Sequence[str] = CARDS) -> str:
    """What is known of one model, with its source, and where it fits by itself."""
    modalities = None if model.modalities is None else ", ".join(("text", *model.modalities))
    why = next((said for card in cards if (said := _unplanned(told.id, card))), None)
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
        ("Weights on one card", _weights(told.id, cards)),
        *((f"On one {card}, at its whole context", _FITS[fits(told.id, card)]) for card in cards),
        *([("Why that is unknown", why)] if why else []),
    ]
    is_part = " The source shows a part of `config.json`; what is missing there is unknown, not absent."
    parts = [
        f"({_anchor('model', told.id)})=\n## {plain(told.id)}",
        facts(rows),
        f"Source: {_place(told.source)}{is_part if told.is_partial else ''}",
        *([prose(told.note)] if told.note else []),
        f"What else fits, and with which options: {code(f'vllm-runbooks plan {told.id} --gpus 8x{CARDS[0]}')}",
    ]
    return "\n\n".join(parts)
