"""Texts of a plan for all outputs: the answer in one line, its reasons, and its figures in rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from vllm_runbooks.core.display import unknown_reason
from vllm_runbooks.core.records import ComparedTerm, PlanComparison
from vllm_runbooks.core.views.elements import Headline
from vllm_runbooks.core.views.summary import concurrency_text, count_of
from vllm_runbooks.host.nodes.compared import grouped
from vllm_runbooks.lint.records import CommandRelease
from vllm_runbooks.plan import figures
from vllm_runbooks.plan.costs import measured_launches
from vllm_runbooks.plan.inverse import ROUND_LENGTH
from vllm_runbooks.plan.records import (
    Find,
    FindAnswer,
    Layouts,
    Plan,
    PlannedCache,
    PlannedGpu,
    PlannedRank,
    PlannedTerm,
    Speed,
)
from vllm_runbooks.plan.render import pictures as plan_pictures

_Record = TypeVar("_Record")
_GPU = re.compile(r"(?<![\w/.-])GPU(?=s?(?![\w/-]))", re.ASCII)
_NOT_OUR_WORDS = frozenset({"about", "command", "deployment", "model", "name", "gpu", "node", "options"})
"""Fields with names and commands as they are."""
SHORTEST_CONTEXT = 8192
"""Minimum tokens of a context that counts as fitting in place of the default context."""
ANSWERS = {True: "yes", False: "no", None: "?"}
_ROOM = {True: "enough for one request", False: "not enough for one request"}
"""What a GPU alone has; whether the start fits is said of the plan."""
VERDICTS = {True: "fits", False: "does not fit", None: "uncertain"}
_MEANINGS = {"slots": "slots of one layer group", "full-length": ""}
_FOUND = {
    Find.CONTEXT: "longest context",
    Find.CONCURRENCY: "max concurrency",
    Find.GPUS: "GPUs needed",
    Find.UTILIZATION: "lowest gpu_memory_utilization",
}


def is_on_cpus(gpus: Sequence[PlannedGpu]) -> bool:
    """Whether a plan is for hosts without GPUs."""
    return bool(gpus) and gpus[0].vendor == "cpu"


def for_devices(record: _Record, gpus: Sequence[PlannedGpu]) -> _Record:
    """The record of a plan on these GPUs; on hosts without GPUs, its texts name CPUs."""
    return on_cpus(record) if is_on_cpus(gpus) else record


def on_cpus(record: _Record) -> _Record:
    """Texts of a record that name CPUs where they name GPUs; commands and names stay as they are."""
    made: Any = record
    if type(made) is str:
        made = _GPU.sub("CPU", made)
    elif type(made) is tuple:
        made = tuple(map(on_cpus, made))
    elif is_dataclass(made):
        names = [field.name for field in fields(made) if field.name not in _NOT_OUR_WORDS]
        made = replace(made, **{name: on_cpus(getattr(record, name)) for name in names})  # type: ignore[type-var]
    return cast("_Record", made)


def headline(plan: Plan) -> Headline:
    """The answer in one line."""
    if plan.legal is False:
        return Headline("invalid", next(iter(plan.reasons), "this release rejects it"))
    why = {True: _what_it_gives, False: _why_not, None: _why_uncertain}[plan.fits](plan)
    return Headline(VERDICTS[plan.fits], why)


def free_memory(plan: Plan) -> str | None:
    """Memory left by an encoder-only model, which has no KV cache; None for other models."""
    cache = plan.kv_cache
    if cache.tokens_meaning != "none" or cache.gib is None:
        return None
    several = " per GPU" if plan_pictures.is_copied(plan) or len(plan.per_gpu) > 1 else ""
    return f"no KV cache, {_gib(cache.gib)} GiB unused{several}"


def _what_it_gives(plan: Plan) -> str:
    if (unused := free_memory(plan)) is not None:
        return unused
    cache, at_once = plan.kv_cache, plan_pictures.requests_at_once(plan)
    is_shared = plan_pictures.is_copied(plan)
    each_card = " per GPU" if is_shared or len(plan.per_gpu) > 1 else ""
    each_replica, in_all = (" in each replica", " in total") if is_shared else ("", "")
    parts = [] if cache.gib is None else [f"{_gib(cache.gib)} GiB of KV cache{each_card}"]
    parts += [] if cache.tokens is None else [f"{cache.tokens:,} tokens{each_replica}"]
    parts += [] if at_once is None else [f"{concurrency_text(at_once)} concurrent requests of {_context(plan)}{in_all}"]
    return ", ".join(parts) or "unknown KV cache memory"


def _why_not(plan: Plan) -> str:
    return next(iter(plan.limits), None) or _too_small(plan) or "no memory left for the KV cache"


def _too_small(plan: Plan) -> str | None:
    cache = plan.kv_cache
    if cache.needed_gib is None or cache.gib is None or cache.gib >= cache.needed_gib:
        return None
    need = f"one request of {_context(plan)} needs {_gib(cache.needed_gib)} GiB of KV cache per GPU"
    return f"{need}, {_gib(max(cache.gib, 0.0))} left"


def _why_uncertain(plan: Plan) -> str:
    if missing := _unknown_terms(plan):
        return "; ".join(f"cannot calculate the {plan_pictures.term_name(t.name)} ({t.source})" for t in missing)
    cache = plan.kv_cache
    if plan.limits and cache.low is not None and cache.needed_gib is not None and cache.low >= cache.needed_gib:
        return plan.limits[0]  # it does not depend on the cache
    if cache.low is not None and cache.high is not None and cache.needed_gib is not None and not plan.missing:
        band = f"{_gib(max(cache.low, 0.0))} to {_gib(max(cache.high, 0.0))} GiB left for the KV cache per GPU"
        return f"{band}, one request of {_context(plan)} needs {_gib(cache.needed_gib)} GiB"
    return next(iter(plan.limits), "it depends on unknown figures")


def _unknown_terms(plan: Plan) -> list[PlannedTerm]:
    terms = {t.name: t for rank in plan.per_gpu for t in rank.terms if t.expected_gib is None and t.name != "kv_cache"}
    return list(terms.values())


def _gib(amount: float) -> str:
    return f"{amount:,.1f}" if abs(amount) >= 10 else f"{amount:.2f}"


def _amount(gib: float) -> str:
    return f"{gib:.2f} GiB" if gib >= 0.1 else f"{gib * 1024:.1f} MiB"


def _context(plan: Plan) -> str:
    length = option(plan, "max_model_len")
    return f"{length:,} tokens" if isinstance(length, int) else "the whole context"


def option(plan: Plan, name: str) -> Any:
    """Value of an option in the plan, by argparse destination: as given, else the default."""
    value = plan.deployment.flags.get(name) if plan.deployment else None
    if name == "max_model_len" and value == -1:  # vLLM takes the longest that fits
        return plan.kv_cache.longest_context
    return plan.options.get(name) if value is None else value


def utilization(plan: Plan) -> float | None:
    """`gpu_memory_utilization` of the plan; None if unknown."""
    share = option(plan, "gpu_memory_utilization")
    return float(share) if isinstance(share, (int, float)) else None


_MAX_HOSTS = 4


def gpus_with_hosts(gpus: Sequence[PlannedGpu]) -> Iterator[tuple[PlannedGpu, str]]:
    """GPUs with the names of their hosts; of many equal hosts the first, and the number of the others.

    Of many GPUs, equal ones of one host, or of none, are one item.
    """
    if len(gpus) <= _MAX_HOSTS:
        yield from ((gpu, gpu.node or "") for gpu in gpus)
        return
    same = grouped(((gpu.name, gpu.total_gib, gpu.node), gpu) for gpu in gpus).values()
    merged = [replace(group[0], count=sum(gpu.count for gpu in group)) for group in same]
    for equal in grouped(((gpu.count, gpu.name, gpu.total_gib, bool(gpu.node)), gpu) for gpu in merged).values():
        more = f"each of {equal[0].node} and {len(equal) - 1} more" if equal[1:] else equal[0].node or ""
        yield equal[0], more


def subject(planned: Plan | Layouts) -> str:
    """Subject of the plan: model, GPUs and release."""
    gpus = " + ".join(
        f"{gpu.count} x {gpu.name}{f' on {hosts}' if hosts else ''}"
        f" ({'memory unknown' if gpu.total_gib is None else f'{gpu.total_gib:.2f} GiB'})"
        for gpu, hosts in gpus_with_hosts(planned.gpus)
    )
    return f"{planned.model} on {gpus or 'no GPU'}, {release(planned.vllm)}"


def release(vllm: CommandRelease) -> str:
    """Release whose rules the plan follows."""
    newest = ", the newest known" if vllm.source == "newest" else ""
    return f"vLLM {vllm.version}{newest}{'' if vllm.data == vllm.version else f', by the rules of {vllm.data}'}"


def card_name(group: Sequence[PlannedRank]) -> str:
    """Name of identical GPUs, with their memory and the free part."""
    rank, name = group[0], plan_pictures.cards_name(group)
    total = "its memory is unknown" if rank.total_gib is None else f"{rank.total_gib:.2f} GiB"
    left = "" if rank.available_gib is None else f", {rank.available_gib:.2f} GiB for the KV cache"
    return f"{name[:1].upper()}{name[1:]}: {total}{left}{'' if rank.fits is None else f', {_ROOM[rank.fits]}'}"


def cell(amount: float | None) -> str:
    """An amount in GiB, as a table shows it."""
    return "" if amount is None else f"{amount:.2f}"


def cache_rows(plan: Plan) -> list[tuple[str, str]]:
    """Rows for the KV cache; if its amount is unknown, the missing inputs."""
    cache = plan.kv_cache
    if cache.gib is None:
        missing = ", ".join(plan_pictures.term_name(t.name) for t in _unknown_terms(plan))
        return [("per GPU", f"unknown: {missing or 'see the limits'}"), *_needed(plan)]
    if (unused := free_memory(plan)) is not None:
        return [("size", unused)]
    meaning = _MEANINGS.get(cache.tokens_meaning or "", "")
    rows = [("per GPU", f"{cache.gib:.2f} GiB{_between(cache.low, cache.high, '.2f')}")]
    if cache.tokens is not None:
        tokens = f"{cache.tokens:,}{_between(cache.tokens_low, cache.tokens_high, ',')}"
        rows.append(("tokens", f"{tokens}{f', {meaning}' if meaning else ''}"))
    if cache.max_concurrency is not None:
        rows.append(
            (
                "max concurrency",
                f"{concurrency_text(cache.max_concurrency)} requests of {_context(plan)}{_together(plan)}",
            )
        )
    if cache.longest_context is not None:
        rows.append(("longest context", f"{cache.longest_context:,} tokens"))
    rows += _needed(plan)
    if cache.blocks is not None:
        size = "" if cache.block_tokens is None else f" of {cache.block_tokens} tokens each"
        rows.append(("blocks", f"{cache.blocks:,}{size}"))
    return rows


def _needed(plan: Plan) -> list[tuple[str, str]]:
    needed = plan.kv_cache.needed_gib
    return [] if needed is None else [("KV cache per request", f"{_amount(needed)} per GPU")]


def _together(plan: Plan) -> str:
    if plan.total_concurrency is None or not plan_pictures.is_copied(plan):
        return ""
    return f" in each replica, {concurrency_text(plan.total_concurrency)} in total"


def _between(low: float | None, high: float | None, style: str) -> str:
    if low is None or high is None or low == high:
        return ""
    return f" ({format(low, style)} to {format(high, style)})"


def settled(options: Mapping[str, Any]) -> str:
    """Defaults of the release."""
    return ", ".join(f"{name}={'unknown' if value is None else json.dumps(value)}" for name, value in options.items())


def speed(estimate: Speed) -> str:
    """Estimate of the speed, with its basis."""
    return f"Decoding of one request: at most {estimate.tokens_per_s:,.0f} tokens/s ({estimate.basis})"


def calibrated(plan: Plan) -> Sequence[str]:
    """Recorded launches that calibrate the plan, and launches on its GPUs that the planner was compared with."""
    corrections: Sequence[str] = ["off: planned from the configuration and this release's rules and constants"]
    if plan.calibration.used:
        corrections = plan.calibration.rows or ["no recorded launch corrects these values"]
    counts = {gpu.name: measured_launches(gpu.name) for gpu in plan.gpus}
    return [
        *corrections,
        *(f"{name}: {count_of(count, 'launch')} compared with the plan" for name, count in counts.items()),
    ]


def unmeasured(gpus: Sequence[PlannedGpu]) -> str:
    """Sentence about GPUs without a launch that the planner was compared with; empty if each has one."""
    names = dict.fromkeys(gpu.name for gpu in gpus if not measured_launches(gpu.name))
    return f"No launch on {' or '.join(names)} was compared with a plan." if names else ""


def legal(layouts: Layouts) -> list[Plan]:
    """Layouts that the release accepts, the best first."""
    return [plan for plan in layouts.layouts if plan.legal is not False]


def ranked(layouts: Layouts) -> list[Plan]:
    """Accepted layouts, best first; if none fits, the one that lacks the least memory."""
    return sorted(legal(layouts), key=figures.lack) if layouts.fits is False else legal(layouts)


def layouts_headline(layouts: Layouts) -> Headline:
    """The answer in one line: the best layout, or that there is none."""
    plans = ranked(layouts)
    if not plans:
        return Headline(VERDICTS[False], "no valid parallel layout for these GPUs")
    first = plans[0]
    if layouts.fits is False:
        why = f"; {plan_pictures.layout_name(first)}: {first.limits[0]}" if first.limits else ""
        return Headline(VERDICTS[False], f"none of {len(plans)} valid layout{'s' * (len(plans) != 1)}{why}")
    return Headline(VERDICTS[layouts.fits], f"best as {plan_pictures.layout_name(first)}, {headline(first).why}")


def folded(plans: Sequence[Plan]) -> tuple[list[Plan], str]:
    """Layouts without those that equal another one's replicas inside one server, and a note."""
    listed: dict[tuple[object, ...], Plan] = {}
    same: dict[tuple[object, ...], list[Plan]] = {}
    for number, plan in enumerate(plans):
        layout = plan.layout
        if layout is None:
            listed[(number,)] = plan
            continue
        key = (layout.replicas * layout.dp, layout.tp, layout.pp, plan.fits, plan.kv_cache)
        if key in listed and layout.dp > 1:
            same.setdefault(key, []).append(plan)
        else:
            listed[key if key not in listed else (number,)] = plan
    notes = [
        f"{', '.join(map(plan_pictures.layout_name, twins))} as {plan_pictures.layout_name(listed[key])}"
        for key, twins in same.items()
    ]
    note = f"Equivalent layouts with data parallelism inside one server: {'; '.join(notes)}." if notes else ""
    return list(listed.values()), note


def shorter_context(plan: Plan) -> int:
    """Tokens of a useful shorter context with which a plan is certain to fit, rounded as in a fix; 0 if none is."""
    length = (plan.kv_cache.longest_context_low or 0) // ROUND_LENGTH * ROUND_LENGTH
    return length if plan.fits is False and length >= SHORTEST_CONTEXT else 0


def layout_cells(plan: Plan) -> list[str]:
    """A layout, whether it fits, its context, its max concurrency, and its KV cache."""
    cache: PlannedCache = plan.kv_cache
    at_once = plan_pictures.requests_at_once(plan)
    length = shorter_context(plan) or cache.longest_context
    is_short = plan.fits is False and bool(length)
    figures = [
        "" if length is None else f"{'max ' if is_short else ''}{length:,}",
        "" if at_once is None or plan.fits is False else concurrency_text(at_once),
        "" if cache.gib is None else f"{cache.gib:.2f}",
    ]
    is_unknown = plan.fits is None
    cells = [figure or ("unknown" if is_unknown else "-") for figure in figures]
    return [plan_pictures.layout_name(plan), ANSWERS[plan.fits], *cells]


def refusal(plan: Plan) -> str:
    """A layout that is not legal, and why."""
    return f"{plan_pictures.layout_name(plan)}: {'; '.join(plan.reasons) or 'this release rejects it'}"


def found_headline(finding: FindAnswer) -> Headline:
    """The answer in one line."""
    name = _FOUND[finding.quantity]
    if finding.value is None:
        why = unknown_reason(next(iter(finding.reasons), "it depends on unknown figures"))
        return Headline(name, f"unknown: {why}")
    band = ""
    if finding.low is not None and finding.high is not None and finding.low != finding.high:
        band = f" ({found_value(finding, finding.low)} to {found_value(finding, finding.high)})"
    return Headline(name, f"{found_value(finding, finding.value)}{f' {_unit(finding)}' if finding.unit else ''}{band}")


def reasons(finding: FindAnswer) -> Sequence[str]:
    """Reasons for the answer, without its own text."""
    return finding.reasons if finding.value is not None else finding.reasons[1:]


def _unit(finding: FindAnswer) -> str:
    counted, space, rest = finding.unit.partition(" ")
    return f"{counted.removesuffix('s')}{space}{rest}" if finding.value == 1 else finding.unit


def found_value(finding: FindAnswer, value: float | str) -> str:
    """A value of an answer, without its unit."""
    if isinstance(value, str):
        return value
    text = f"{value:,.4f}" if finding.quantity is Find.UTILIZATION else f"{value:,.2f}"
    return text.rstrip("0").rstrip(".")


def compared_headline(compared: PlanComparison) -> Headline:
    """The answer in one line: which term is off, or that none is."""
    if compared.off is not None:
        term = next((t for t in compared.terms if t.name == compared.off), None)
        name = plan_pictures.term_name(compared.off)
        if term is None or term.planned_gib is None or term.actual_gib is None:
            return Headline("off", name)
        return Headline("off", f"{name}, {term.actual_gib:.2f} GiB printed, {term.planned_gib:.2f} GiB planned")
    both = sum(term.planned_gib is not None and term.actual_gib is not None for term in compared.terms)
    if not both:
        return Headline("not compared", "; ".join(compared.missing) or "the log prints no term of the plan")
    within = f"{both} reported {'values are' if both != 1 else 'value is'} within the planned range"
    return Headline("as planned", "; ".join([within, *_without_cache(compared)]))


def _without_cache(compared: PlanComparison) -> list[str]:
    """That the KV cache is not compared, and the option that a comparison needs; empty if it is, or none is printed."""
    advice = [reason.rpartition("; ")[2] for reason in compared.missing if "; use --" in reason][:1]
    caches = [term for term in compared.terms if term.name == "kv_cache" and term.actual_gib is not None]
    if any(term.planned_gib is not None for term in caches) or not (caches or advice):
        return []
    return [": ".join(["KV cache not compared", *advice])]


def compared_cells(term: ComparedTerm) -> list[str]:
    """A term with its planned value, band, printed value and difference."""
    name = plan_pictures.term_name(term.name)
    band = "" if term.low_gib is None or term.high_gib is None else f"{term.low_gib:.2f} to {term.high_gib:.2f}"
    off = "" if term.planned_gib is None or term.actual_gib is None else f"{term.actual_gib - term.planned_gib:+.2f}"
    planned = "unknown" if term.planned_gib is None else f"{term.planned_gib:.2f}"
    actual = "unknown" if term.actual_gib is None else f"{term.actual_gib:.2f}"
    return [name, planned, band, actual, off]


def residuals(compared: PlanComparison) -> list[str]:
    """Residuals kept for calibration, a sentence per term."""
    return [
        f"{plan_pictures.term_name(kept.term)}: {kept.actual_gib:.2f} GiB printed, {kept.planned_gib:.2f} GiB planned, "
        f"vLLM {kept.release}, {kept.gpu or 'unknown GPU'}, "
        f"{kept.architecture or 'unknown architecture'}, tensor parallel {kept.tensor_parallel_size}"
        for kept in compared.residuals
    ]
