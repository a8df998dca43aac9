"""The summary of a host: its problems, the GPU for the next launch, and the command for it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from vllm_runbooks.core.views.elements import cut
from vllm_runbooks.core.views.styled import Tone
from vllm_runbooks.core.views.summary import Step, Summary, SummaryTable, count_of, rest_step
from vllm_runbooks.host import finding_views
from vllm_runbooks.host.finding_views import as_sentence, named_gpus
from vllm_runbooks.host.records import VLLM_PACKAGES, GpuFacts, Inspected, Recommendation

UNKNOWN = "unknown"
_MIB_PER_GIB = 1024
_MOST_ROWS, _MAX_NAME = 8, 40
_TIMES = "\u00d7"
_LAUNCH = "CUDA_VISIBLE_DEVICES={gpu} vllm-runbooks serve -- vllm serve MODEL"


def summarize(host: Inspected, *, file: str = "", again: str = "") -> Summary:
    """Summarize a host.

    Args:
        host: The inspected host.
        file: The snapshot that was read; empty for this host.
        again: The command that shows everything; empty if there is none.
    """
    problems = finding_views.problems(host.findings)
    state, tone = finding_views.problem_state(problems)
    sentence = "" if problems or not host.gpus else "No problems found."
    if not host.gpus and not problems:
        state, tone = "NO GPU", Tone.WARN
    return Summary(
        state,
        tone,
        tuple(about(host)),
        sentence,
        finding_views.finding_statements(problems),
        table=_table(host.gpus),
        steps=tuple(_steps(host, file)),
        more=finding_views.more_of(host.findings, ["all figures"], again),
    )


def summarize_choice(host: Inspected, *, again: str = "") -> Summary:
    """Summarize which GPU is recommended after several looks."""
    choice = host.recommendation
    if choice is None:
        return Summary("NO GPU", Tone.WARN, (_no_gpus(host),))
    looks = f"{count_of(choice.samples, 'reading')} in {choice.seconds:.1f} s"
    need = [f"for {choice.need_gib:g} GiB"] if choice.need_gib is not None else []
    if choice.gpu is None:
        state, tone, sentence = "NONE", Tone.WARN, "No GPU is certain to be free for a launch."
    else:
        state, tone, sentence = f"GPU {choice.gpu}", Tone.GOOD, as_sentence(choice.ranked[0].reason)
    rows = [
        (f"{gpu.index}", gib(gpu.free_mib), _mib(gpu.memory_change_mib), percent(gpu.busy_percent), gpu.reason)
        for gpu in choice.ranked[:_MOST_ROWS]
    ]
    table = varied(("GPU", "free", "changed", "utilization", "why"), rows) if len(rows) > 1 else None
    more = rest_step(["all GPUs"], again)
    return Summary(state, tone, (looks, *need), sentence, table=table, steps=tuple(_launch(choice)), more=more)


def about(host: Inspected) -> Iterator[str]:
    """GPUs, driver and software, as far as known."""
    yield gpus_of(host.gpus) or _no_gpus(host)
    sizes = {gpu.total_mib for gpu in host.gpus}
    if len(sizes) == 1 and (size := sizes.pop()) is not None:
        yield f"{gib(size)}{' each' * (len(host.gpus) > 1)}"
    if host.driver:
        yield f"driver {cut(host.driver, _MAX_NAME)}"
    if host.cuda:
        yield f"CUDA {cut(host.cuda, _MAX_NAME)}"
    release = next((version for name, version in (host.packages or {}).items() if name in VLLM_PACKAGES), None)
    if release:
        yield f"vLLM {cut(release, _MAX_NAME)}"
    if host.constructed:
        yield "synthetic example"


def _no_gpus(host: Inspected) -> str:
    return as_sentence(host.no_gpus_reason or "no GPU is listed", end="")


def gpus_of(gpus: Sequence[GpuFacts]) -> str:
    """GPUs by model, as in "8x RTX 3090"; empty without one."""
    counts = Counter(cut(gpu.name or "unknown GPU", _MAX_NAME) for gpu in gpus)
    return ", ".join(f"{count}{_TIMES} {name}" for name, count in counts.items())


def _table(gpus: Sequence[GpuFacts]) -> SummaryTable | None:
    """Differences between a few GPUs."""
    if not 1 < len(gpus) <= _MOST_ROWS:
        return None
    rows = []
    for gpu in gpus:
        others = None if gpu.processes is None else ", ".join(process.says for process in gpu.processes[:2]) or "none"
        name = cut(gpu.name, _MAX_NAME) if gpu.name else UNKNOWN
        cells = (name, gib(gpu.total_mib), gib(gpu.used_mib), percent(gpu.busy_percent), cut(others or UNKNOWN, 40))
        rows.append((f"{gpu.index}", *cells))
    return varied(("GPU", "name", "memory", "memory used", "utilization", "used by"), rows)


def varied(head: Sequence[str], rows: Sequence[tuple[str, ...]]) -> SummaryTable | None:
    """Columns that differ between rows, and rows with a known value; None if there are none."""
    picked = [0, *(i for i in range(1, len(head)) if len({row[i] for row in rows}) > 1)]
    known = [row for row in rows if any(row[i] != UNKNOWN for i in picked[1:])]
    if not known:
        return None
    unread = sorted(int(row[0]) for row in rows if row not in known)
    note = f"Details of {named_gpus(unread)} are unknown." if unread else ""
    return SummaryTable(
        tuple(head[i] for i in picked), tuple(tuple(row[i] for i in picked) for row in known), note=note
    )


def _steps(host: Inspected, file: str) -> Iterator[Step]:
    if not host.gpus:
        yield Step("Plan", "For GPUs of another host", "vllm-runbooks plan MODEL --gpus 2xA100-80GB")
        return
    if host.recommendation is not None:
        yield from _launch(host.recommendation, is_recorded=bool(file))
    if not finding_views.problems(host.findings):
        spec = shlex.quote(file) if file and file != "-" else "local"
        yield Step("Plan", "", f"vllm-runbooks plan MODEL --gpus {spec}")


def _launch(choice: Recommendation, *, is_recorded: bool = False) -> Iterator[Step]:
    """The GPU for the next launch with its command; else why there is none."""
    if choice.gpu is not None:
        best = choice.ranked[0]
        others = sorted(gpu.index for gpu in choice.ranked[1:] if gpu.is_suitable)
        also = f"; also suitable: {named_gpus(others)}" if others else ""
        text = f"Use GPU {choice.gpu} ({gib(best.free_mib)} free{also})"
        yield Step("Next", text, _LAUNCH.format(gpu=choice.gpu))
    elif any(gpu.is_suitable is None for gpu in choice.ranked):
        unsure = sorted(gpu.index for gpu in choice.ranked if gpu.is_suitable is None)
        text = f"Memory use or utilization of {named_gpus(unsure)} is unknown; read it{' on that host' * is_recorded}"
        yield Step("Next", text, "vllm-runbooks inventory --watch")
    else:
        yield Step(
            "Next", "No GPU has enough free memory; wait for one that becomes free", "vllm-runbooks inventory --watch"
        )


def gib(mib: float | None) -> str:
    return UNKNOWN if mib is None else f"{mib / _MIB_PER_GIB:.1f} GiB"


def _mib(mib: float | None) -> str:
    return UNKNOWN if mib is None else f"{mib:,.0f} MiB"


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}%"
