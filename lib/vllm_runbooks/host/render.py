"""A host as text, JSON or a notebook's `Shown`: its cards, what their facts mean, and the card for the next start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from vllm_runbooks.core.display import Shown, to_json, visible
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.views.elements import (
    AMBER,
    GREEN,
    Headline,
    badge,
    cells,
    cut,
    grid,
    heading,
    html_table,
    prose,
    remark,
    tag,
    verdict,
)
from vllm_runbooks.core.views.styled import (
    BLANK,
    GROUNDS,
    SEVERITIES,
    Block,
    Line,
    Loose,
    Prose,
    Table,
    Tone,
    Words,
    bulleted,
    headed,
    parted,
    plain,
    styled,
)
from vllm_runbooks.host.records import SHARED, GpuFacts, HostFinding, Inspected, Inventory, Recommendation

_MIB_PER_GIB = 1024
_HEAD = ("GPU", "name", "memory", "in use", "use", "PCIe", "others on it")
_MAX_OTHERS = 2


def snapshot_json(found: Inventory) -> str:
    """The snapshot alone."""
    base = {name: value for name, value in document(found).items() if name in Inventory.__dataclass_fields__}
    return to_json(base) + "\n"


def text(found: Inspected) -> str:
    """The host without colours, for a pipe."""
    return plain(view(found))


def view(found: Inspected) -> list[Block]:
    """The host, for a terminal."""
    parts: list[list[Block]] = [[Loose(said) for said in _about(found)]]
    if found.gpus:
        parts.append([_table(_HEAD, [_row(gpu) for gpu in found.gpus])])
    parts.append(headed("HOST", [bulleted(said) for said in _of_host(found)]))
    if found.findings:
        blocks = [block for each in found.findings for block in _finding_view(each)]
        parts.append(headed("WHAT IT MEANS FOR VLLM", blocks))
    else:
        parts.append([Line(styled("nothing of what was told stands in the way of vLLM", Tone.GOOD))])
    if found.recommendation is not None:
        parts.append(_recommendation_view(found.recommendation))
    if found.unknown:
        parts.append(headed("NOT TOLD", [bulleted(said) for said in _unknown(found)]))
    return [*parted(parts), BLANK]


def _table(head: Sequence[str], rows: Sequence[Sequence[Words]]) -> Table:
    return Table([styled(name, Tone.FAINT) for name in head], rows)


def _about(found: Inventory) -> Iterator[str]:
    count = f"{len(found.gpus)} GPU{'s' * (len(found.gpus) != 1)}"
    why = f": {found.why_none}" if found.why_none else ""
    driver = f"; driver {found.driver or 'unknown'}, CUDA {found.cuda or 'unknown'}" if found.gpus else ""
    yield cut(f"{count}{why}{driver}", 400)
    if found.constructed:
        yield cut(f"constructed, not read on a host: {found.source or 'from no source'}", 400)


def _row(gpu: GpuFacts) -> tuple[str, ...]:
    link = "unknown"
    if gpu.pcie_width is not None:
        link = f"x{gpu.pcie_width}" + (f" of x{gpu.pcie_width_max}" if gpu.pcie_width_max else "")
        link += f", gen {gpu.pcie_generation}" if gpu.pcie_generation is not None else ""
    others = "unknown"
    if gpu.processes is not None:
        named = [each.says for each in gpu.processes[:_MAX_OTHERS]]
        more = len(gpu.processes) - len(named)
        others = ", ".join([*named, *([f"{more} more"] if more > 0 else [])]) or "nobody"
    return (
        f"{gpu.index}",
        visible(cut(gpu.name or "unknown", 40)),
        _gib(gpu.total_mib),
        _gib(gpu.used_mib),
        "unknown" if gpu.busy_percent is None else f"{gpu.busy_percent:.0f} %",
        link,
        visible(cut(others, 90)),
    )


def _gib(mib: float | None) -> str:
    return "unknown" if mib is None else f"{mib / _MIB_PER_GIB:.1f} GiB"


def _limit(value: float | None, unit: str) -> str:
    return "unknown" if value is None else "no limit" if value < 0 else f"{value:,.0f} {unit}".rstrip()


def _of_host(found: Inventory) -> Iterator[str]:
    host = found.host
    yield f"memory {_gib(host.memory_mib)}, {_gib(host.memory_available_mib)} free; of the control group: " + (
        "no limit" if (host.memory_limit_mib or 0) < 0 else _gib(host.memory_limit_mib)
    )
    yield f"{SHARED} {_limit(host.shm_mib, 'MiB')}, {_limit(host.shm_free_mib, 'MiB')} free"
    yield f"locked memory {_limit(host.memlock_mib, 'MiB')}; open files {_limit(host.open_files, '')}, at most " + (
        _limit(host.open_files_max, "")
    )
    where = {True: "in a container", False: "in no container", None: "whether in a container is unknown"}
    cores = "unknown" if host.cores is None else f"{host.cores}"
    yield f"cores {cores}; kernel {host.kernel or 'unknown'}; {where[host.is_container]}"
    if found.packages is None:
        yield "packages: unknown"
    else:
        named = ", ".join(f"{name} {version}" for name, version in found.packages.items() if _matters(name))
        yield f"Python {found.python or 'unknown'}: {named or 'no vLLM, torch or CUDA library'}"


def _matters(name: str) -> bool:
    return name in ("vllm", "torch", "ray", "triton", "transformers") or name.startswith(
        ("vllm-", "flashinfer", "nvidia-nccl", "nvidia-cuda-runtime")
    )


def _finding_view(found: HostFinding) -> list[Block]:
    where = f"GPU {_listed(found.gpus)}: " if found.gpus else ""
    severity = styled(found.severity.value, SEVERITIES[found.severity])
    return [
        bulleted(severity + styled(f" {found.id}", Tone.FAINT) + f": {where}{found.text}"),
        Prose(styled("do:", Tone.HEADING) + f" {found.do}", "    "),
    ]


def _listed(numbers: Sequence[int]) -> str:
    """Numbers of cards, three and more in a row by the first and the last."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _unknown(found: Inspected) -> Iterator[str]:
    """What was not told: first what is unknown of all cards alike."""
    whole: dict[tuple[int, ...], list[str]] = {}
    for each in found.unknown:
        whole.setdefault(each.gpus, []).append(each.what)
    for gpus, names in whole.items():
        of = "of the host or between its cards" if not gpus else f"of GPU {_listed(gpus)}"
        yield f"{of}: {', '.join(dict.fromkeys(names))}"


def host(found: Inspected) -> Shown:
    """The cards of a host, for a notebook."""
    said = " ".join(f"{line}." for line in _about(found))
    if not found.gpus:
        return Shown(said, prose(said))
    return grid(_HEAD, [_row(gpu) for gpu in found.gpus], said)


def findings(found: Inspected) -> Shown:
    """What the facts of a host mean for vLLM, for a notebook."""
    if not found.findings:
        said = "Nothing of what was told stands in the way of vLLM."
        return Shown(said, prose(said))
    rows = [
        [
            badge(each.severity.value, GROUNDS[SEVERITIES[each.severity]]),
            tag("code", escape(each.id)) + escape(f" · GPU {_listed(each.gpus)}" if each.gpus else "")
            + f"<br>{escape(each.text)}<br><b>do</b> {escape(each.do)}",
        ]
        for each in found.findings
    ]  # fmt: skip
    table = html_table(("", "what it means, and what to do"), rows)
    return Shown(plain([block for each in found.findings for block in _finding_view(each)]), table)


def chosen(found: Inspected) -> Shown:
    """The card for the next start, with the reason for it and against each other."""
    if found.recommendation is None:
        said = cut(f"No GPU is recommended: {found.why_none or 'none is listed'}", 400) + "."
        return Shown(said, prose(said))
    above = list(_about(found))[1:]
    made = _recommendation(found.recommendation)
    return Shown("\n".join([made.plain, *above]), made.html + "".join(map(remark, above)))


def _headline(found: Recommendation) -> Headline:
    return Headline("No GPU is recommended" if found.gpu is None else "Recommended", found.reason)


def _judged(found: Recommendation) -> str:
    """How the cards were judged."""
    asked = f" for {found.need_gib:g} GiB" if found.need_gib is not None else ""
    looked = f"over {found.looks} looks in {found.seconds:.1f} s" if found.looks > 1 else "at one look"
    return f"Judged {looked}{asked}.{f' {found.remark[:1].upper()}{found.remark[1:]}.' if found.remark else ''}"


_RANKED = ("GPU", "name", "free", "moved", "use", "suitable", "why")
_SUITABLE = {True: ("yes", Tone.GOOD), False: ("no", Tone.BAD), None: ("unknown", Tone.WARN)}


def _ranked(found: Recommendation) -> list[tuple[Words, ...]]:
    return [
        (
            f"{one.index}",
            visible(cut(one.name or "unknown", 40)),
            _gib(one.free_mib),
            "unknown" if one.moved_mib is None else f"{one.moved_mib:,.0f} MiB",
            "unknown" if one.busy_percent is None else f"{one.busy_percent:.0f} %",
            styled(*_SUITABLE[one.is_suitable]),
            one.reason,
        )
        for one in found.ranked
    ]


def _recommendation_view(found: Recommendation) -> list[Block]:
    lead = _headline(found)
    said = styled(lead.verdict, Tone.WARN if found.gpu is None else Tone.GOOD) + f": {lead.why}"
    return [Prose(said, ""), _table(_RANKED, _ranked(found)), Loose(styled(_judged(found), Tone.FAINT), "")]


def _recommendation(found: Recommendation) -> Shown:
    # Four columns, and the rest below each: a telephone shows no seven.
    rows = [[str(cell) for cell in row] for row in _ranked(found)]
    short = [(number, name, free, suitable) for number, name, free, _, _, suitable, _ in rows]
    rest = [f"{why} · use {use} · moved {moved}" for _, _, _, moved, use, _, why in rows]
    table = html_table(("GPU", "name", "free", "suitable"), cells(short), below=rest)
    tone = AMBER if found.gpu is None else GREEN
    html = verdict(_headline(found), tone) + heading("Every card") + table
    return Shown(plain(_recommendation_view(found)), html + remark(_judged(found)))
