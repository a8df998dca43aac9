"""A host as text, JSON or HTML: GPUs, meaning of the facts, and the GPU for the next launch."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.views import elements
from vllm_runbooks.core.views.elements import AMBER, GREEN, Headline, cut, prose
from vllm_runbooks.core.views.runbook_steps import StepText
from vllm_runbooks.core.views.styled import (
    BLANK,
    Line,
    Prose,
    SentenceLines,
    TextBlock,
    Tone,
    Words,
    bulleted,
    headed,
    parted,
    plain,
    styled,
)
from vllm_runbooks.core.views.summary import count_of
from vllm_runbooks.host import finding_views
from vllm_runbooks.host.finding_views import faint_table, finding_blocks, named_gpus
from vllm_runbooks.host.records import SHARED, GpuFacts, Inspected, Inventory, Recommendation
from vllm_runbooks.host.summaries import gib, percent

_HEAD = ("GPU", "name", "memory", "memory used", "utilization", "PCIe", "other processes")
_MAX_OTHERS = 2


def snapshot_json(inventory: Inventory) -> str:
    """The snapshot alone."""
    return finding_views.snapshot_json(inventory, Inventory)


def text(host: Inspected) -> str:
    """The host without colours, for a pipe."""
    return plain(view(host))


def view(host: Inspected) -> list[TextBlock]:
    """The host, for a terminal."""
    parts: list[list[TextBlock]] = [[SentenceLines(line) for line in _summary(host)]]
    if host.gpus:
        parts.append([faint_table(_HEAD, [_row(gpu) for gpu in host.gpus])])
    parts.append(headed("HOST", [bulleted(line) for line in _host_lines(host)]))
    if host.findings:
        parts.append(headed("FINDINGS", finding_blocks(host.findings)))
    else:
        parts.append([Line(styled("No problems found.", Tone.GOOD))])
    if host.recommendation is not None:
        parts.append(_recommendation_view(host.recommendation))
    if host.unknown:
        parts.append(headed("UNKNOWN", [bulleted(line) for line in _unknown(host)]))
    return [*parted(parts), BLANK]


def _summary(inventory: Inventory) -> Iterator[str]:
    count = count_of(len(inventory.gpus), "GPU")
    why = f": {inventory.no_gpus_reason}" if inventory.no_gpus_reason else ""
    driver = f"; driver {inventory.driver or 'unknown'}, CUDA {inventory.cuda or 'unknown'}" if inventory.gpus else ""
    yield cut(f"{count}{why}{driver}", 400)
    if inventory.constructed:
        yield cut(f"Synthetic example: {inventory.source or 'from no source'}", 400)


def _row(gpu: GpuFacts) -> tuple[str, ...]:
    link = "unknown"
    if gpu.pcie_width is not None:
        link = f"x{gpu.pcie_width}" + (f" of x{gpu.pcie_width_max}" if gpu.pcie_width_max else "")
        link += f", gen {gpu.pcie_generation}" if gpu.pcie_generation is not None else ""
    others = "unknown"
    if gpu.processes is not None:
        names = [process.says for process in gpu.processes[:_MAX_OTHERS]]
        more = len(gpu.processes) - len(names)
        others = ", ".join([*names, *([f"{more} more"] if more > 0 else [])]) or "none"
    return (
        f"{gpu.index}",
        visible(cut(gpu.name or "unknown", 40)),
        gib(gpu.total_mib),
        gib(gpu.used_mib),
        percent(gpu.busy_percent),
        link,
        visible(cut(others, 90)),
    )


def _limit(value: float | None, unit: str) -> str:
    return "unknown" if value is None else "no limit" if value < 0 else f"{value:,.0f} {unit}".rstrip()


def _host_lines(inventory: Inventory) -> Iterator[str]:
    host = inventory.host
    limit = "no limit" if (host.memory_limit_mib or 0) < 0 else gib(host.memory_limit_mib)
    yield f"memory: {gib(host.memory_mib)}, {gib(host.memory_available_mib)} free; cgroup limit: {limit}"
    yield f"{SHARED}: {_limit(host.shm_mib, 'MiB')}, {_limit(host.shm_free_mib, 'MiB')} free"
    files = f"{_limit(host.open_files, '')} (hard limit: {_limit(host.open_files_max, '')})"
    yield f"locked memory limit: {_limit(host.memlock_mib, 'MiB')}; open files limit: {files}"
    where = {True: "in a container", False: "not in a container", None: "container: unknown"}
    cores = "unknown" if host.cores is None else f"{host.cores}"
    yield f"CPU cores: {cores}; kernel: {host.kernel or 'unknown'}; {where[host.is_container]}"
    if inventory.packages is None:
        yield "packages: unknown"
    else:
        names = ", ".join(f"{name} {version}" for name, version in inventory.packages.items() if _matters(name))
        yield f"Python {inventory.python or 'unknown'}: {names or 'no vLLM, torch or CUDA library'}"


def _matters(package: str) -> bool:
    return package in ("vllm", "torch", "ray", "triton", "transformers") or package.startswith(
        ("vllm-", "flashinfer", "nvidia-nccl", "nvidia-cuda-runtime")
    )


def _unknown(host: Inspected) -> Iterator[str]:
    by_gpus: dict[tuple[int, ...], list[str]] = {}
    for fact in host.unknown:
        by_gpus.setdefault(fact.gpus, []).append(fact.fact)
    for gpus, names in by_gpus.items():
        of = named_gpus(gpus) if gpus else "host and GPU links"
        yield f"{of}: {', '.join(dict.fromkeys(names))}"


def host(inspected: Inspected) -> RenderedView:
    """The GPUs of a host, for a notebook."""
    summary = " ".join(f"{line}." for line in _summary(inspected))
    if not inspected.gpus:
        return RenderedView(summary, prose(summary))
    return elements.grid(_HEAD, [_row(gpu) for gpu in inspected.gpus], summary)


def findings(host: Inspected) -> RenderedView:
    """Meaning of a host's facts for vLLM, for a notebook."""
    if not host.findings:
        sentence = "No problems found."
        return RenderedView(sentence, prose(sentence))
    where = ((finding, named_gpus(finding.gpus) if finding.gpus else "") for finding in host.findings)
    table = finding_views.findings_table(where, "effect and fix")
    return RenderedView(plain(finding_blocks(host.findings)), table)


def chosen(host: Inspected) -> RenderedView:
    """The GPU for the next launch, with the reason for it and against each other."""
    if host.recommendation is None:
        sentence = cut(f"No GPU is recommended: {host.no_gpus_reason or 'no GPU is listed'}", 400) + "."
        return RenderedView(sentence, prose(sentence))
    remarks = list(_summary(host))[1:]
    recommendation = _recommendation(host.recommendation)
    html = recommendation.html + "".join(map(elements.remark, remarks))
    return RenderedView("\n".join([recommendation.plain, *remarks]), html)


def recommended(inspected: Inspected, *, snapshot: str = "") -> StepText | None:
    """The GPU for the next launch with its figures, and how to use it; None without a GPU.

    Args:
        inspected: The host.
        snapshot: Name of the snapshot that it was read from; empty if it is this host.
    """
    recommendation = inspected.recommendation
    if recommendation is None:
        return None
    where = f" (recorded host `{snapshot}`)" if snapshot else ""
    ranked = recommendation.ranked
    suitable = [gpu for gpu in ranked if gpu.is_suitable]
    unknown = sum(gpu.is_suitable is None for gpu in ranked)
    count = f"{len(suitable)} of {count_of(len(ranked), 'GPU')} {'is' if len(suitable) == 1 else 'are'} suitable"
    so = f"{count}{f'; too little data on {unknown}' if unknown else ''}."
    watch = "vllm-runbooks inventory --watch"
    if recommendation.gpu is None:
        return StepText(f"No GPU is suitable{where}.", so, "Wait until one is free.", watch)
    best = next(gpu for gpu in ranked if gpu.index == recommendation.gpu)
    figures = [f"{gib(best.free_mib)} free"]
    figures += [f"{best.busy_percent:.0f}% busy"] if best.busy_percent is not None else []
    figures += [f"memory moved by {best.memory_change_mib:,.0f} MiB"] if best.memory_change_mib is not None else []
    do = f"Set `CUDA_VISIBLE_DEVICES={best.index}` for the launch"
    do += ", after you have watched your own host:" if snapshot else "."
    return StepText(f"Use GPU {best.index}: {', '.join(figures)}{where}.", so, do, watch if snapshot else "")


def _headline(recommendation: Recommendation) -> Headline:
    return Headline("No GPU is recommended" if recommendation.gpu is None else "Recommended", recommendation.reason)


def _basis(recommendation: Recommendation) -> str:
    need = f" for {recommendation.need_gib:g} GiB" if recommendation.need_gib is not None else ""
    looks = f"{recommendation.samples} readings in {recommendation.seconds:.1f} s"
    remark = recommendation.note
    return (
        f"Based on {looks if recommendation.samples > 1 else 'one reading'}{need}."
        f"{f' {remark[:1].upper()}{remark[1:]}.' if remark else ''}"
    )


_RANKED = ("GPU", "name", "free", "changed", "utilization", "suitable", "why")
_SUITABLE = {True: ("yes", Tone.GOOD), False: ("no", Tone.BAD), None: ("unknown", Tone.WARN)}


def _ranked(recommendation: Recommendation) -> list[tuple[Words, ...]]:
    return [
        (
            f"{gpu.index}",
            visible(cut(gpu.name or "unknown", 40)),
            gib(gpu.free_mib),
            "unknown" if gpu.memory_change_mib is None else f"{gpu.memory_change_mib:,.0f} MiB",
            percent(gpu.busy_percent),
            styled(*_SUITABLE[gpu.is_suitable]),
            gpu.reason,
        )
        for gpu in recommendation.ranked
    ]


def _recommendation_view(recommendation: Recommendation) -> list[TextBlock]:
    head = _headline(recommendation)
    sentence = styled(head.verdict, Tone.WARN if recommendation.gpu is None else Tone.GOOD) + f": {head.why}"
    table = faint_table(_RANKED, _ranked(recommendation))
    return [Prose(sentence, ""), table, SentenceLines(styled(_basis(recommendation), Tone.FAINT), "")]


def _recommendation(recommendation: Recommendation) -> RenderedView:
    # Four columns, with the rest below each: a phone has no room for seven.
    rows = [[str(cell) for cell in row] for row in _ranked(recommendation)]
    short = [(number, name, free, suitable) for number, name, free, _, _, suitable, _ in rows]
    rest = [f"{why} · use {use} · changed {moved}" for _, _, _, moved, use, _, why in rows]
    table = elements.html_table(("GPU", "name", "free", "suitable"), elements.cells(short), below=rest)
    tone = AMBER if recommendation.gpu is None else GREEN
    html = elements.verdict(_headline(recommendation), tone) + elements.heading("All GPUs") + table
    return RenderedView(plain(_recommendation_view(recommendation)), html + elements.remark(_basis(recommendation)))
