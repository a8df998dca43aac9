"""Summary of a plan: fit, capacity and command, or the changes with which it fits."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vllm_runbooks.core.records import Edit, PlanComparison
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.core.views import text_width as columns
from vllm_runbooks.core.views.styled import Tone
from vllm_runbooks.core.views.summary import (
    Step,
    SuggestedFix,
    Summary,
    SummaryTable,
    check_marks,
    concurrency_text,
    count_of,
    rest_step,
    sentence_of,
    shell_lines,
    shell_words,
    short_model_name,
)
from vllm_runbooks.plan.budget import CACHE_LACKS, WEIGHTS_LACK
from vllm_runbooks.plan.inverse import MORE_GPUS, UNKNOWN_CONTEXT
from vllm_runbooks.plan.layouts import IDLE
from vllm_runbooks.plan.planned import warnings
from vllm_runbooks.plan.questions import ONE_GPU
from vllm_runbooks.plan.records import (
    Find,
    FindAnswer,
    Layouts,
    ParallelLayout,
    Plan,
    PlanChecks,
    PlannedChange,
    PlannedGpu,
    PlanNote,
    RunCommand,
)
from vllm_runbooks.plan.remedies import PlanRemedy
from vllm_runbooks.plan.render import pictures as plan_pictures
from vllm_runbooks.plan.render import words as plan_words
from vllm_runbooks.plan.render.words import SHORTEST_CONTEXT
from vllm_runbooks.plan.requests import LEFT_OUT
from vllm_runbooks.plan.settings import PARTITION
from vllm_runbooks.plan.weights import Ranks
from vllm_runbooks.reading.arguments.as_typed import as_option
from vllm_runbooks.reading.shell.expansion import single_quoted

_TIMES = "\u00d7"
_STATES = {True: "FITS", False: "DOES NOT FIT", None: "UNCERTAIN"}
_TONES = {True: Tone.GOOD, False: Tone.BAD, None: Tone.WARN}
_COMPARED = {"off": Tone.BAD, "as planned": Tone.GOOD, "not compared": Tone.WARN}
_REQUEST = 16_384
"""Tokens per request for a comparison of changes, if all of them serve this length."""
_COMMAND = 72
"""Columns of a command, which is indented by 8."""
DEPLOY = "--deploy"
"""The option that writes the files of all servers."""
_NOTED = (ONE_GPU, UNKNOWN_CONTEXT, LEFT_OUT)
"""Prefixes of reasons that belong to the answer."""
_FOUND = {
    Find.CONTEXT: "Longest context",
    Find.CONCURRENCY: "Max concurrency",
    Find.GPUS: "Fewest GPUs",
    Find.UTILIZATION: "Lowest gpu_memory_utilization",
}


def summarize(
    answer: Plan | Layouts,
    remedies: Sequence[PlanRemedy] = (),
    *,
    options: Sequence[str] = (),
    folder: str = "",
    again: str = "",
    is_shortened: bool = False,
    origin: str = "",
    unread: str = "",
) -> Summary:
    """Summarize a plan.

    Args:
        answer: The plan, or all layouts.
        remedies: Changes with which it fits, the cheapest first.
        options: Engine options to repeat in a follow-up command.
        folder: Folder of the servers' files; empty if they were not written.
        again: The command that shows everything; empty if there is none.
        is_shortened: Whether the plan's context is shorter than the default because the default does not fit.
        origin: Where the model's files are from; empty for the catalog and local folders.
        unread: Why the Hub was not read, or layers that the files lack; empty if neither.
    """
    best = _best(answer)
    others = len(plan_words.ranked(answer)) - 1 if isinstance(answer, Layouts) else 0
    about = (short_model_name(answer.model), gpus_text(answer.gpus), _release(answer), *_context(best))
    sentences = []
    found = answer.found if isinstance(answer, Plan) else None
    if found is not None and (answer.fits is not False or found.reasons[:1] == (MORE_GPUS,)):
        sentences.append(_found_text(found))
    rejected = f"vLLM {answer.vllm.version} rejects every parallel layout on these GPUs."
    explained = layout_of_first_change(answer, remedies) or best
    sentences.append(sentence(explained) if explained is not None else rejected)
    sentences += [f"Planned from {origin}."] if origin else []
    name, fix = _run(best, remedies)
    change = shorter_context(best, remedies)
    context = _context_of(best) if is_shortened else change.context if change is not None else None
    if answer.fits or context:
        sentences += filter(None, [plan_words.unmeasured(answer.gpus)])
    state, tone = (f"FITS AT {context:,}", Tone.WARN) if context else (_STATES[answer.fits], _TONES[answer.fits])
    parts = [count_of(others, "other layout")] if others > 0 else []
    summary = Summary(
        state,
        tone,
        tuple(part for part in about if part),
        " ".join(sentences),
        fix=fix,
        fix_name=name,
        steps=(
            *([Step("Note", sentence_of(unread))] if unread else []),
            *_steps(answer, best, remedies, options, is_written=bool(folder)),
            *_start(folder),
        ),
        more=rest_step([*parts, "memory per GPU", "sources"], again),
        table=_table(remedies) if remedies else None,
    )
    return plan_words.for_devices(summary, answer.gpus)


def with_text(answer: Plan | Layouts, remedies: Sequence[PlanRemedy], summary: Summary) -> Plan | Layouts:
    """The answer with what its summary says, for a JSON document."""
    number = next((n for n, remedy in enumerate(remedies, 1) if remedy.plan.deployment), None)
    command = summary.fix.command if summary.fix is not None else ""
    plan = remedies[number - 1].plan if number else _best(answer)
    told = replace(
        answer,
        verdict=summary.state,
        summary=summary.sentence,
        remedies=tuple(_changes(remedies)),
        run=RunCommand(command, number, _checks(plan)) if command and plan is not None else None,
        notes=tuple(PlanNote(step.name.lower(), step.text, step.command or None) for step in summary.steps),
    )
    return plan_words.for_devices(told, answer.gpus)


def _best(answer: Plan | Layouts) -> Plan | None:
    return next(iter(plan_words.ranked(answer)), None) if isinstance(answer, Layouts) else answer


def _checks(plan: Plan) -> PlanChecks:
    return PlanChecks(plan.lint, "passed" if plan.fits else "unknown")


def _changes(remedies: Sequence[PlanRemedy]) -> Iterator[PlannedChange]:
    if remedies:
        tokens, has_several = _compared_tokens(remedies), _has_several(remedies)
    for remedy in remedies:
        ranks = remedy.budget.settings.ranks
        yield PlannedChange(
            _change_text(remedy, has_several=has_several),
            "; ".join(remedy.costs),
            remedy.context,
            remedy.concurrency(tokens),
            tokens,
            remedy.plan.fits,
            ParallelLayout(remedy.copies, ranks.tensor, ranks.pipeline, ranks.data),
            tuple(Edit("env" if name.isupper() else "set", name, value) for name, value in remedy.changes.items()),
            remedy.checkpoint or None,
            remedy.gpus,
            short_command(remedy.plan) or None,
            _checks(remedy.plan),
        )


def summarize_comparison(compared: PlanComparison, about: Sequence[str] = (), *, again: str = "") -> Summary:
    """Summarize a plan compared with the values of a log; `about` has the log, release and GPUs."""
    answer = plan_words.compared_headline(compared)
    rows = tuple(
        tuple(cell or "\u2013" for cell in plan_words.compared_cells(term))
        for term in compared.terms
        if (term.planned_gib, term.actual_gib) != (None, None)
    )
    return Summary(
        answer.verdict.upper(),
        _COMPARED[answer.verdict],
        tuple(part for part in about if part),
        sentence_of(answer.why),
        more=rest_step(["explanations", "calibration"], again),
        table=SummaryTable(("GiB", "planned", "range", "printed", "off by"), rows, frozenset((1, 3, 4)))
        if rows
        else None,
    )


def gpus_text(gpus: Sequence[PlannedGpu]) -> str:
    """GPUs by name and host."""
    parts = plan_words.gpus_with_hosts(gpus)
    return " + ".join(f"{gpu.count}{_TIMES} {gpu.name}{f' ({hosts})' if hosts else ''}" for gpu, hosts in parts)


def _release(answer: Plan | Layouts) -> str:
    vllm = answer.vllm
    how = " (newest)" if vllm.source == "newest" else ""
    return f"vLLM {vllm.version}{how}" + (
        "" if vllm.data == vllm.version else f" (planned using the data of {vllm.data})"
    )


def _context(plan: Plan | None) -> Iterator[str]:
    if length := _context_of(plan):
        yield f"context {length:,}"


def _context_of(plan: Plan | None) -> int | None:
    """Tokens of a plan's context; None if unknown."""
    length = plan_words.option(plan, "max_model_len") if plan is not None else None
    return length if isinstance(length, int) and length > 0 else None


def shorter_context(best: Plan | None, remedies: Sequence[PlanRemedy]) -> PlanRemedy | None:
    """A shorter context with which a model fits, unlike its default context; None if the user chose the context."""
    if best is None or best.fits is not False or "max_model_len" not in best.options:
        return None
    return shorter(remedies)


def shorter(remedies: Sequence[PlanRemedy]) -> PlanRemedy | None:
    """The first change that only shortens the context."""
    fitting = (
        remedy
        for remedy in remedies
        if remedy.plan.fits and set(remedy.changes) == {"max_model_len"} and not (remedy.checkpoint or remedy.gpus)
    )
    return next((remedy for remedy in fitting if remedy.context >= SHORTEST_CONTEXT), None)


# ---- the answer as text


def layout_of_first_change(answer: Plan | Layouts, remedies: Sequence[PlanRemedy]) -> Plan | None:
    """Plan that the first change applies to, whose layout may differ from the best plan's."""
    plans = plan_words.ranked(answer) if isinstance(answer, Layouts) else [answer]
    name = changed_layout(remedies[0]) if remedies else ""
    return next((plan for plan in plans if layout_text(plan) == name), None)


def sentence(plan: Plan) -> str:
    """What the plan gives, or why it does not fit."""
    layout = plan.layout
    servers = servers_text(plan) if layout is not None and layout.replicas > 1 else ""
    lead = f"{servers or layout_text(plan)}: " if layout is not None and sum(gpu.count for gpu in plan.gpus) > 1 else ""
    if plan.fits:
        return lead + _gives(plan)
    if plan.fits is False:
        return _why_not(plan)
    is_run = servers and plan_words.option(plan, "max_model_len")
    return f"Best layout: {servers}. {_why_uncertain(plan)}" if is_run else _why_uncertain(plan)


def layout_text(plan: Plan) -> str:
    """A layout in a few characters."""
    layout = plan.layout
    return _sizes_text(layout.tp, layout.pp, layout.dp, layout.replicas) if layout is not None else ""


def servers_text(plan: Plan) -> str:
    """The servers of a layout, each with its GPUs; empty if the layout is unknown."""
    layout = plan.layout
    if layout is None:
        return ""
    each = f"{layout_text(replace(plan, layout=replace(layout, replicas=1)))} each"
    return count_of(layout.replicas, "server") + (", one per GPU" if each == "1 GPU each" else f", {each}")


def _sizes_text(tensor: int, pipeline: int, data: int, replicas: int) -> str:
    sizes = (("TP", tensor), ("PP", pipeline), ("DP", data))
    split = " ".join(f"{name} {size}" for name, size in sizes if size > 1)
    return f"{replicas} {_TIMES} {split or '1 GPU'}" if replicas > 1 else split or "1 GPU"


def _gives(plan: Plan) -> str:
    if (unused := plan_words.free_memory(plan)) is not None:
        return sentence_of(unused)
    cache, concurrency = plan.kv_cache, plan_pictures.requests_at_once(plan)
    is_copied = plan_pictures.is_copied(plan)
    has_several = is_copied or len(plan.per_gpu) > 1
    parts = [] if cache.gib is None else [f"KV cache {_gib(cache.gib)} GiB{' per GPU' if has_several else ''}"]
    parts += [] if cache.tokens is None else [f"{cache.tokens:,} tokens{' per server' if is_copied else ''}"]
    size = f"{parts[0]} ({parts[1]})" if len(parts) > 1 else "".join(parts)
    if concurrency is None and cache.max_concurrency is not None and plan.layout is not None:
        concurrency = cache.max_concurrency * plan.layout.replicas * plan.layout.dp
    if concurrency is None:
        return f"{size or 'the size of the KV cache is unknown'}."
    length, scheduled = plan_words.option(plan, "max_model_len"), _scheduled(plan)
    is_limited = scheduled is not None and scheduled < concurrency
    count = f"{scheduled:,}" if is_limited else concurrency_text(concurrency)
    requests = f"{count} concurrent requests of {length:,} tokens" if length else ""
    room = f"; limited by --max-num-seqs (the KV cache fits {concurrency_text(concurrency)})"
    return f"{size}: {requests}{' in total' if is_copied else ''}{room if is_limited else ''}."


def _scheduled(plan: Plan) -> int | None:
    """Requests that run concurrently at most, of all servers together; None if unknown."""
    size = plan_words.option(plan, "max_num_seqs")
    copies = (
        plan.layout.replicas * plan.layout.dp if plan.layout else plan_words.option(plan, "data_parallel_size") or 1
    )
    return size * copies if isinstance(size, int) and isinstance(copies, int) else None


def _why_not(plan: Plan) -> str:
    limit, cache = next(iter(plan.limits), ""), plan.kv_cache
    weights = [term.expected_gib for rank in plan.per_gpu for term in rank.terms if term.name == "weights"]
    totals = [rank.total_gib for rank in plan.per_gpu]
    if limit.startswith(WEIGHTS_LACK) and None not in weights + totals:
        needed, total = sum(filter(None, weights)), sum(filter(None, totals))
        if needed > total:
            have = f"{len(totals)} GPUs have" if len(totals) > 1 else f"{plan.gpus[0].name} has"
            return f"The weights need {_gib(needed)} GiB, but {have} {_gib(total)} GiB."
    if limit.startswith(CACHE_LACKS) and cache.gib is not None and cache.needed_gib is not None:
        length = plan_words.option(plan, "max_model_len")
        each = " per GPU" if len(plan.per_gpu) > 1 else ""
        left = f"only {_gib(cache.gib)} GiB is available" if cache.gib >= 0.01 else "none is available"
        left += f", {_gib(cache.high)} GiB in the best case" if cache.high and cache.high >= cache.needed_gib else ""
        how = f" ({layout_text(plan)})" if plan.layout is not None and each else ""
        return (
            f"One request of {length:,} tokens needs {_gib(cache.needed_gib)} GiB of KV cache{each}, but {left}{how}."
        )
    return sentence_of(limit or plan_words.headline(plan).why)


def _why_uncertain(plan: Plan) -> str:
    cache, length = plan.kv_cache, plan_words.option(plan, "max_model_len")
    if plan.missing or not length or cache.low is None or cache.high is None or cache.needed_gib is None:
        return f"{sentence_of(plan_words.headline(plan).why)}{_known_weights(plan)}"
    if cache.low >= cache.needed_gib:
        return sentence_of(plan_words.headline(plan).why)
    each = " per GPU" if len(plan.per_gpu) > 1 else ""
    expected = "" if cache.gib is None else f" ({_gib(max(cache.gib, 0.0))} expected)"
    left = (
        f"{_gib(max(cache.low, 0.0))} to {_gib(max(cache.high, 0.0))} GiB{expected} is available for the KV cache{each}"
    )
    return f"{left}; one request of {length:,} tokens needs {_gib(cache.needed_gib)} GiB."


def _known_weights(plan: Plan) -> str:
    sizes = [term.expected_gib for rank in plan.per_gpu for term in rank.terms if term.name == "weights"]
    known = [size for size in sizes if size is not None]
    each = " per GPU" if len(plan.per_gpu) > 1 else ""
    return f" Weights: {_gib(max(known))} GiB{each}." if known and len(known) == len(sizes) else ""


def _gib(amount: float) -> str:
    return f"{amount:,.1f}" if amount >= 10 else f"{amount:.2f}"


def _found_text(found: FindAnswer) -> str:
    """Text of an inverse query's answer."""
    name = _FOUND[found.quantity]
    if found.value is None and found.reasons[:1] == (MORE_GPUS,):
        return f"{name}: {MORE_GPUS}, the most that are searched."
    if found.value is None:
        return sentence_of(f"{name}: none: {next(iter(found.reasons), 'it depends on what is unknown')}")
    value = plan_words.found_value(found, found.value)
    if found.quantity is Find.GPUS:
        value = f"{value}{_TIMES} {found.unit.removesuffix(' GPUs')}"
    elif found.quantity is Find.CONTEXT:
        value += " tokens"
    edge = found.low if found.quantity is Find.UTILIZATION else found.high
    case = "at most" if found.quantity is Find.GPUS else "conservative; best case:"
    more = "" if edge in (None, found.value) else f" ({case} {plan_words.found_value(found, edge)})"
    return f"{name}: {value}{more}."


# ---- the command, or the changes


def _run(best: Plan | None, remedies: Sequence[PlanRemedy]) -> tuple[str, SuggestedFix | None]:
    """The command of the plan, else of the first change, with its label."""
    number, plan = next(((n, r.plan) for n, r in enumerate(remedies, 1) if r.plan.deployment), (0, best))
    # An unknown context has to be set first.
    if plan is None or plan.fits is False or not plan_words.option(plan, "max_model_len"):
        return "", None
    if not (command := short_command(plan)):
        return "", None
    checks = _checks(plan)
    marks = check_marks((("lint", checks.lint), ("plan", checks.plan)))
    fix = SuggestedFix("", checks=marks, is_command=False, command=command)
    return f"Run {number}" if number else "Run", fix


def short_command(plan: Plan) -> str:
    """A plan's command in few lines, without a choice of GPUs that are all there are; empty if it has none."""
    if plan.deployment is None:
        return ""
    count = sum(gpu.count for gpu in plan.gpus)
    every = f"export CUDA_VISIBLE_DEVICES={','.join(map(str, range(count)))}"
    lines = shell_lines(plan.deployment.command)
    # The order of the GPUs matters if they differ: without it their indices change.
    is_uniform = len({(gpu.name, gpu.total_gib) for gpu in plan.gpus}) == 1 and PARTITION not in plan.deployment.env
    if is_uniform and every in lines and not any(line.startswith("#") for line in lines):
        lines = [line for line in lines if line not in (every, "export CUDA_DEVICE_ORDER=PCI_BUS_ID")]
    if plan.layout is not None and plan.layout.replicas > 1:
        lines.insert(0, _servers_comment(plan, plan.layout.replicas))
    merged: list[str] = []
    for line in lines:
        if merged and line.startswith(_EXPORT) and merged[-1].startswith(_EXPORT):
            merged[-1] += f" {line.removeprefix(_EXPORT)}"
        else:
            merged.append(line)
    return "\n".join(map(_folded, merged))


def _servers_comment(plan: Plan, count: int) -> str:
    """How the further servers of a layout differ from the first."""
    launch = plan.deployment
    first = (launch.env.get("CUDA_VISIBLE_DEVICES") or "").split(",") if launch is not None else []
    port = re.search(r" --port (\d+)", launch.command) if launch is not None else None
    size = len(first)
    if first != [str(number) for number in range(size)] or port is None or len(plan.gpus) > 1:
        comment = f"# Server 1 of {count}; the others use other GPUs and ports."
        return plan_words.for_devices(comment, plan.gpus)
    devices = ",".join(str(size + number) for number in range(size))
    more = ", and so on" if count > 2 else ""
    return f"# Server 1 of {count}. Server 2: CUDA_VISIBLE_DEVICES={devices} and --port {int(port[1]) + 1}{more}."


_EXPORT = "export "


def _folded(line: str) -> str:
    """A command in lines of at most `_COMMAND` columns, broken between options."""
    if line.startswith("#"):
        return line
    text = ""
    for word in map(_in_one_line, shell_words(line)):
        end = f"{text.rpartition(chr(10))[2]} {word}"
        if text and columns.width(end) > _COMMAND - 2:
            text += f" \\\n  {word}"
        else:
            text += f" {word}" if text else word
    return text


def _in_one_line(word: str) -> str:
    """A word with its control characters as escapes."""
    if word.isprintable():
        return word
    return " ".join(shlex.quote(part) if part.isprintable() else single_quoted(part) for part in shlex.split(word))


def _table(remedies: Sequence[PlanRemedy]) -> SummaryTable:
    has_several, tokens = _has_several(remedies), _compared_tokens(remedies)
    rows = []
    for number, remedy in enumerate(remedies, 1):
        count = remedy.concurrency(tokens)
        cost = "; ".join([*remedy.costs, *([] if remedy.plan.fits else ["may not fit"])])
        cells = (_change_text(remedy, has_several=has_several), f"{remedy.context:,}")
        rows.append((str(number), *cells, "unknown" if count is None else concurrency_text(count), cost))
    length = f"{tokens:,}" if tokens % 1024 else f"{tokens // 1024}K"
    head = ("", "Fits with", "context", f"concurrency at {length}", "cost")
    return SummaryTable(head, tuple(rows), frozenset((2, 3)), is_last_below=True)


def _has_several(remedies: Sequence[PlanRemedy]) -> bool:
    return any(remedy.copies * remedy.budget.settings.ranks.cards > 1 for remedy in remedies)


def _compared_tokens(remedies: Sequence[PlanRemedy]) -> int:
    return min(_REQUEST, *(remedy.context for remedy in remedies))


def changed_layout(remedy: PlanRemedy) -> str:
    """The layout of a change."""
    ranks: Ranks = remedy.budget.settings.ranks
    return _sizes_text(ranks.tensor, ranks.pipeline, ranks.data, remedy.copies)


def _change_text(remedy: PlanRemedy, *, has_several: bool) -> str:
    parts = [f"{remedy.gpus} GPUs"] if remedy.gpus is not None else []
    parts += [short_model_name(remedy.checkpoint)] if remedy.checkpoint else []
    parts += [changed_layout(remedy)] if has_several or remedy.gpus is not None else []
    return ", ".join([*parts, *(_option_text(name, value) for name, value in remedy.changes.items())])


def _option_text(name: str, value: Any) -> str:
    """An option; JSON without blanks, at which a table would break it."""
    return as_option(name, json.dumps(value, separators=(",", ":")) if isinstance(value, Mapping) else value)


def _start(folder: str) -> Iterator[Step]:
    """Instructions for the written files."""
    if folder:
        yield Step("Next", f"Run {folder}/start.sh, then check the servers with {folder}/verify.txt.")


def _steps(
    answer: Plan | Layouts,
    best: Plan | None,
    remedies: Sequence[PlanRemedy],
    options: Sequence[str],
    *,
    is_written: bool,
) -> Iterator[Step]:
    runs = next((remedy.plan for remedy in remedies if remedy.plan.deployment), best)
    if runs is not None and runs.fits is not False:
        yield from (Step("Note", sentence_of(warning.partition(". ")[0])) for warning in warnings(runs)[:1])
    reasons = answer.found.reasons if isinstance(answer, Plan) and answer.found is not None else ()
    idle = (*best.reasons, *best.limits) if best is not None and best.fits is not False else ()
    for reason in (*reasons, *idle):
        if reason.startswith(_NOTED) or reason.endswith(IDLE):
            yield Step("Note", sentence_of(reason))
    has_several = best is not None and best.layout is not None and best.layout.replicas > 1
    if best is not None and best.gpus[0].vendor != "nvidia":
        has_several = False
    if answer.fits and best is not None and best.layout is not None and has_several and not is_written:
        servers = best.layout.replicas
        yield Step("Next", f"To write the files of the {servers} servers and an nginx configuration, add {DEPLOY} DIR.")
    if answer.fits or any(remedy.plan.deployment for remedy in remedies):
        return
    if best is not None and best.fits is None and not plan_words.option(best, "max_model_len"):
        yield Step("Next", "Give the model's context: --max-model-len N.")
        return
    if best is not None and best.fits is None and has_several and isinstance(answer, Layouts):
        yield from _one_server(answer)
    if answer.fits is None:
        again = "vllm-runbooks plan --from-log startup.log -o mine.json"
        yield Step("Next", "Launch it, then calibrate the plan with its log (--calibration mine.json)", again)
    elif best is not None and _lacks_memory(best) and not (isinstance(answer, Plan) and answer.found):
        largest = max(answer.gpus, key=lambda gpu: gpu.total_gib or 0.0)
        if largest.total_gib is None or plan_words.is_on_cpus(answer.gpus):
            return  # their number cannot be computed, or no host has more
        words = ["vllm-runbooks", "plan", answer.model, "--gpus", largest.name, "--find", "gpus"]
        given = ["--vllm", answer.vllm.version] if answer.vllm.source == "given" else []
        command = shlex.join([*words, *given, *options])
        if redact_text(command) == command:
            yield Step("Next", "See how many GPUs it needs", command)
        else:
            yield Step("Next", f"See how many GPUs it needs: --gpus {shlex.quote(largest.name)} --find gpus.")


def _one_server(layouts: Layouts) -> Iterator[Step]:
    """How to plan one server over all GPUs instead of several."""
    count = sum(gpu.count for gpu in layouts.gpus)
    for plan in plan_words.ranked(layouts):
        layout = plan.layout
        if layout is not None and (layout.replicas, layout.dp) == (1, 1) and layout.tp * layout.pp == count:
            sizes = [f"--{name} {size}" for name, size in (("tp", layout.tp), ("pp", layout.pp)) if size > 1]
            yield Step("Note", f"For one server across all {count} GPUs, plan with {' '.join(sizes)}.")
            return


def _lacks_memory(plan: Plan) -> bool:
    """Whether the first failure is too little memory for weights or cache, which GPUs add."""
    return next(iter(plan.limits), "").startswith((WEIGHTS_LACK, *CACHE_LACKS))
