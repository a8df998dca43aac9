"""GPUs and models as pages: each fact with its unit and source, and which model needs which GPUs.

A fact without source is unknown. Pages of single models and GPUs are in no table of contents: their lists lead to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import groupby
from urllib.parse import urlencode

from vllm_runbooks.catalog.specs import Gpu, Model, ModelFile, Specs
from vllm_runbooks.core.views.summary_html import summary_html
from vllm_runbooks.plan.render.summaries import summarize
from vllm_runbooks.site import model_fits
from vllm_runbooks.site.model_fits import COMMON_GPUS, COMMON_MODELS, ModelFit
from vllm_runbooks.site.myst import (
    facts,
    filter_field,
    folded,
    front,
    listed,
    plain,
    printable,
    prose,
    raw,
    reference,
)

_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD"}
_LINKS = {"nvlink": "NVLink", "nvlink-bridge": "NVLink bridge between two, where one is fitted", "pcie": "PCIe"}
_HOW = (
    "For each kind of GPU: the fewest of 1, 2, 4 and 8 with tensor parallelism on which the model fits with its whole "
    "context, or with at least 8,192 tokens of it. A shorter context fits even by the conservative estimate; "
    "concurrency is the expected one. Defaults of the newest known release; [how memory is planned]({}planning.md)."
)

_FIGURES = ("Memory", "Context", "Concurrent", "")
_ON_ONE = (
    "With the whole context, or with at least 8,192 tokens of it. A shorter context fits even by the conservative "
    "estimate; concurrency is the expected one. Defaults of the newest known release. "
    "[How memory is planned](../planning.md)."
)


def sources(specs: Specs) -> dict[str, str]:
    """All pages by file name."""
    pages = {
        "gpus/index.md": _gpu_index(specs.table.gpus),
        "models/index.md": _model_index(specs),
    }
    for gpu in specs.table.gpus:
        pages[_source(gpu_address(gpu.name))] = gpu_page(gpu, specs.table.sources)
    for name in specs.texts:
        pages[_source(model_address(name))] = model_page(specs.file(name), specs.models[name])
    return pages


def model_address(name: str) -> str:
    """The page of a model, from the root of the site."""
    return f"models/{'/'.join(map(_slug, name.split('/')))}.html"


def gpu_address(name: str) -> str:
    """The page of a GPU, from the root of the site."""
    return f"gpus/{_slug(name)}.html"


def _source(address: str) -> str:
    return f"{address.removesuffix('.html')}.md"


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")


def _quantity(value: object, unit: str = "") -> str | None:
    """A fact with its unit, as text; None if unknown."""
    if value is None:
        return None
    is_long = isinstance(value, int) and abs(value) >= 10_000
    text = f"{value:,}" if is_long else f"{value:g}" if isinstance(value, float) else str(value)
    return f"{text} {unit}".strip()


def _gib(value: float) -> str:
    """An amount of memory in a list: one decimal, so that the digits of a column line up."""
    return f"{value:,.1f} GiB"


def _yes(value: bool | None) -> str | None:  # noqa: FBT001 - the fact itself
    return None if value is None else "yes" if value else "no"


def _place(text: str) -> str:
    """A source in one line; an address at its beginning is a link."""
    words = " ".join(text.split())
    first, _, rest = words.partition(" ")
    bare = first.rstrip(",:;")
    return f"{reference(bare)} {prose(rest)}".strip() if bare.startswith("https://") else prose(words)


def _link(address: str, text: str) -> str:
    return f'<a href="{escape(address)}">{escape(printable(text))}</a>'


def _action(address: str, text: str) -> str:
    """A link as a button."""
    return f'<a class="action" href="{escape(address)}">{escape(text)}</a>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str) -> str:
    """A table of HTML cells, which Sphinx does not parse: there are thousands.

    A row of one cell is a heading of those below it, hidden while the table is filtered.
    """
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(
        "<tr>"
        + "".join(f'<td data-head="{escape(name)}">{cell}</td>' for name, cell in zip(head, row, strict=True))
        + "</tr>"
        if len(row) > 1
        else f'<tr class="unfiltered"><th scope="rowgroup" colspan="{len(head)}">{escape(row[0])}</th></tr>'
        for row in rows
    )
    return f'<table class="table {kind}"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'


def _fit_cells(fit: ModelFit, root: str, needed: str = "") -> tuple[str, str, str, str, str]:
    text, tone = model_fits.verdict(fit)
    title = f' title="{escape(printable(fit.reason))}"' if fit.reason else ""
    below = "<small>shorter context</small>" if fit.is_shortened else ""
    context, concurrency = model_fits.figures(fit)
    plan = _link(f"{root}{fit.address}", "Plan this") if fit.plan is not None else ""
    return (
        f'<span class="fit fit-{tone}"{title}>{escape(needed or text)}</span>{below}',
        model_fits.bar(fit),
        context,
        concurrency,
        plan,
    )


# ---- GPUs


def _gpu_index(gpus: Sequence[Gpu]) -> str:
    """The list of GPUs: common ones first, then by vendor, the largest first."""
    places = {name: place for place, name in enumerate(COMMON_GPUS)}
    ordered = sorted(
        gpus, key=lambda gpu: (places.get(gpu.name, len(places)), gpu.vendor != "nvidia", -gpu.memory_gib, gpu.name)
    )
    rows: list[Sequence[str]] = []
    for group, members in groupby(
        ordered, lambda gpu: "Common" if gpu.name in places else _VENDORS.get(gpu.vendor or "", "Others")
    ):
        rows.append((group,))
        rows += [
            (
                _link(gpu_address(gpu.name).removeprefix("gpus/"), gpu.name),
                _gib(gpu.memory_gib),
                "" if gpu.total is None else _gib(gpu.total.expected),
                _bandwidth(gpu, gpus),
                escape(" ".join(filter(None, (gpu.architecture, gpu.capability)))),
                _yes(None if gpu.formats is None else "fp8" in gpu.formats) or "",
                _count_of_fits(gpu.name),
                f'<span class="hidden-words">{escape(" ".join((gpu.vendor, *gpu.aliases)))}</span>',
            )
            for gpu in members
        ]
    intro = (
        "*Usable* memory is what vLLM finds: the driver reserves some of the nominal size. *FP8*: its tensor cores "
        "calculate in FP8. *Models that fit* counts the common models that fit on one GPU with at least 8,192 tokens. "
        "A missing GPU is [added](../gpus-and-models.md) in one file."
    )
    head = ["GPU", "Nominal", "Usable", "Bandwidth", "Architecture", "FP8", "Models that fit", ""]
    description = (
        f"Memory, bandwidth and compute capability of {len(gpus)} GPUs for vLLM, and which models fit on them."
    )
    parts = [
        front("GPUs for vLLM: memory and which models fit", description) + "# GPUs",
        intro,
        filter_field(f"Filter {len(gpus)} GPUs", "3090, Hopper, amd"),
        raw(_table(head, rows, "catalog gpus")),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _bandwidth(gpu: Gpu, gpus: Sequence[Gpu]) -> str:
    """Memory bandwidth, or the range of the GPU's variants; empty if unknown."""
    forms = (gpu, *(form for form in gpus if form.form_of == gpu.name))
    known = sorted({form.memory_bandwidth_gb_s for form in forms if form.memory_bandwidth_gb_s is not None})
    ends = dict.fromkeys((known[0], known[-1])) if known else ()
    return "\N{EN DASH}".join(f"{value:,.0f}" for value in ends) + (" GB/s" if known else "")


def _count_of_fits(gpu: str) -> str:
    """How many of the common models fit on one GPU; empty if none does for certain, and that is unknown for some."""
    fits = [model_fits.fewest(name, gpu, 1).fits for name in COMMON_MODELS]
    return f"{fits.count(True)} of {len(fits)}" if True in fits or None not in fits else ""


def gpu_page(gpu: Gpu, targets: Mapping[str, str]) -> str:
    """One GPU: which common models fit on it, facts, sources; `targets` explains the keys of its sources."""
    fits = sorted(
        (model_fits.fewest(name, gpu.name, 1) for name in COMMON_MODELS),
        key=lambda fit: (not fit.fits, fit.is_shortened),
    )
    rows = [
        (_link(f"../{model_address(fit.model)}", fit.model), *_fit_cells(fit, "../", _needed(fit)))
        for fit in fits
        if fit.plan is not None
    ]
    memory = "unknown memory" if gpu.total is None else f"{_gib(gpu.total.expected)} usable"
    names = [name for name in fits if name.fits]
    description = (
        f"vLLM on one {gpu.name} ({memory}): which models fit, with context length and concurrent requests. "
        f"Fits: {', '.join(fit.model.partition('/')[2] for fit in names) or 'none of the common models'}."
    )
    total = gpu.total
    scatter = "" if total is None or total.low == total.high else f" ({total.low:.4g} to {total.high:.4g})"
    capability = f"{gpu.capability} ({gpu.architecture})" if gpu.capability and gpu.architecture else gpu.capability
    details = [
        ("Other names", ", ".join(gpu.aliases) or "none"),
        ("Nominal memory", _quantity(gpu.memory_gib, "GiB")),
        ("Usable memory", None if total is None else f"{total.expected:.4g} GiB{scatter}"),
        ("Peak memory bandwidth", _quantity(gpu.memory_bandwidth_gb_s, "GB/s")),
        ("Compute capability", capability),
        ("Formats of its tensor cores", None if gpu.formats is None else ", ".join(("fp16", *gpu.formats))),
        ("Between GPUs of a host", _LINKS.get(gpu.interconnect or "", gpu.interconnect)),
        ("Peer-to-peer access", _yes(gpu.peer_to_peer)),
    ]
    printed = [f"{line.gib:g} GiB: {_place(line.source)}" for line in gpu.reported]
    printed += [f"{line.mib:,} MiB by nvidia-smi: {_place(line.source)}" for line in gpu.nvidia_smi]
    question = urlencode({"gpus": f"1x{gpu.name}"})
    references = [_place(targets.get(key, key)) for key in gpu.sources]
    head = ("Model", "On one GPU", *_FIGURES)
    parts = [
        front(f"{gpu.name} with vLLM: which models fit", description, is_orphan=True) + f"# {plain(gpu.name)}",
        _in_short(gpu),
        raw(f"<p>{_action(f'../plan.html#{question}', 'Plan a model on this GPU')}</p>"),
        "## Common models on one GPU",
        _ON_ONE,
        raw(_table(head, rows, "fits") + model_fits.legend()),
        "## Facts",
        facts(details),
        folded(
            "Source of these figures",
            *([f"Usable memory: {prose(total.source)}", listed(printed)] if total is not None else []),
            listed(references),
        ),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _in_short(gpu: Gpu) -> str:
    """Memory, bandwidth, generation and formats of a GPU in one line; unknown ones are omitted."""
    usable = "" if gpu.total is None else f" ({gpu.total.expected:.4g} usable)"
    formats = None if gpu.formats is None else ("yes" if name in gpu.formats else "no" for name in ("bf16", "fp8"))
    parts = [
        f"{gpu.memory_gib:g} GiB{usable}",
        _quantity(gpu.memory_bandwidth_gb_s, "GB/s"),
        " ".join(filter(None, (gpu.architecture, gpu.capability))),
        "" if formats is None else "bf16 {}, fp8 {}".format(*formats),
    ]
    return " · ".join(plain(part) for part in parts if part)


def _needed(fit: ModelFit) -> str:
    """The fewest of a GPU on which a model fits that does not fit on one; empty if unknown."""
    if fit.fits is not False:
        return ""
    more = model_fits.fewest(fit.model, fit.gpu)
    return (
        f"✗ needs {more.count}\N{MULTIPLICATION SIGN}"
        if more.fits
        else "✗ not even on 8\N{MULTIPLICATION SIGN}"
        if more.fits is False
        else ""
    )


# ---- models


def _model_index(specs: Specs) -> str:
    """The list of models: common ones first, then by name."""
    places = {name: place for place, name in enumerate(COMMON_MODELS)}
    names = sorted(specs.texts, key=lambda name: (places.get(name, len(places)), name.lower()))
    rows: list[Sequence[str]] = [("Common",)]
    for place, name in enumerate(names):
        weights, fit, model = model_fits.weights_gib(name), model_fits.best(name), specs.models[name]
        if place == len(places):
            rows.append(("All others, by name",))
        rows.append(
            (
                _link(model_address(name).removeprefix("models/"), name),
                escape(printable(_format(model) or ("16-bit" if weights else ""))),
                "" if weights is None else _gib(weights),
                "" if model.max_positions is None else f"{model.max_positions:,}",
                "" if fit is None else escape(fit.name),
                f'<span class="hidden-words">{escape(printable(model.architecture or ""))}</span>',
            )
        )
    intro = (
        "*Fits on*: the fewest common GPUs for the whole context, else for a shorter one. *16-bit*: the format of the "
        "file is unknown, and vLLM loads weights without quantization as 16-bit values. "
        "[Plan another model](../planning.md) from its `config.json`."
    )
    description = (
        f"GPU memory that {len(names)} models need with vLLM: weights, KV cache, fitting GPUs, launch command."
    )
    parts = [
        front("Models for vLLM: GPU memory that they need", description) + "# Models",
        intro,
        filter_field(f"Filter {len(names)} models", "llama 70b, qwen3 awq, mixtral"),
        raw(_table(["Model", "Format", "Weights", "Context", "Fits on", ""], rows, "catalog models")),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _format(model: Model) -> str:
    """Format of the weights; empty if unknown."""
    return (model.dtype if model.quantization in (None, "none") else model.quantization) or ""


def model_page(file: ModelFile, model: Model) -> str:
    """One model: the command for the smallest GPUs, memory on common GPUs, facts, source."""
    root = "../" * model_address(file.id).count("/")
    fits = [model_fits.fewest(file.id, name) for name in COMMON_GPUS]
    weights, best = model_fits.weights_gib(file.id), model_fits.best(file.id)
    size = "" if weights is None else f"{weights:.3g} GiB of weights"
    counts = ", ".join(fit.name for fit in fits if fit.fits)
    description = f"GPU memory of {file.id} with vLLM: {size or 'size unknown'}. Fits on {counts or 'no common GPU'}."
    modalities = None if model.modalities is None else ", ".join(("text", *model.modalities))
    reason = next((fit.reason for fit in fits if fit.reason), None)
    rows = [
        (
            _link(f"{root}{gpu_address(fit.gpu)}", fit.name if fit.plan else fit.gpu),
            *_fit_cells(fit, root),
        )
        for fit in fits
    ]
    details = [
        ("Weights", size.removesuffix(" of weights") or None),
        ("Architecture", model.architecture),
        ("Layers", _quantity(model.layers)),
        ("Hidden size", _quantity(model.hidden_size)),
        ("Attention heads", _quantity(model.attention_heads)),
        ("KV heads", _quantity(model.kv_heads)),
        ("Longest context", _quantity(model.max_positions, "tokens")),
        ("Vocabulary", _quantity(model.vocabulary_size, "tokens")),
        ("Experts", "none" if model.experts == 0 else _quantity(model.experts)),
        ("Input", modalities),
        ("Type of the weights", model.dtype),
        ("Quantization", model.quantization),
        ("Needs code of its repository", _yes(model.needs_remote_code)),
    ]
    is_part = " The source shows a part of `config.json`; missing fields are unknown, not absent."
    card = (
        summary_html(summarize(model_fits.linted(best), is_shortened=best.is_shortened))
        if best is not None and best.plan is not None
        else ""
    )
    parts = [
        front(f"{file.id}: GPU memory and vLLM command", description, is_orphan=True) + f"# {plain(file.id)}",
        plain(size),
        *([raw(f"{card}<p>{_action(root + best.address, 'Plan for my GPUs')}</p>")] if best and card else []),
        "## On common GPUs",
        *([f"Not certain: {prose(reason)}."] if reason else []),
        raw(_table(("GPUs", "Verdict", *_FIGURES), rows, "fits") + model_fits.legend()),
        _HOW.format(root),
        "## Facts",
        facts((name, value) for name, value in details if value is not None),
        folded(
            "Source of these figures",
            f"Source: {_place(file.source)}{is_part if file.is_partial else ''}",
            prose(file.note) if file.note else "",
        ),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"
