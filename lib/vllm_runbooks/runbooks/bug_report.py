"""A pack as an issue for vLLM's form for bug reports, `.github/ISSUE_TEMPLATE/400-bug-report.yml`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vllm_runbooks.core.display import visible
from vllm_runbooks.core.records import Answer, Facts
from vllm_runbooks.core.views.elements import cut
from vllm_runbooks.host.records import SHARED, Inventory
from vllm_runbooks.lint import render as issues
from vllm_runbooks.lint.records import Launch, Linted
from vllm_runbooks.plan.render import plans

ENVIRONMENT, BUG, CHECKLIST = "Your current environment", "🐛 Describe the bug", "Before submitting a new issue..."
_MAX_COMMAND, _MAX_LOG = 8_000, 30_000
"""Characters: GitHub accepts 65,536 in an issue."""
_BEFORE, _BEHIND = 120, 12
"""Lines around a quoted one, which is the last of its traceback."""
_MAX_LINE = 600
_ENDS_COMMENT = re.compile(r"(--!?)>")
_UNKNOWN = "unknown"
_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_NOT_COLLECTED = (
    "This is not the output of `collect_env.py`, which the form requires: run that on the host of "
    "the launch, and paste "
    "its output in place of this, especially if a line is unknown."
)
_PACKAGES = ("torch", "transformers", "triton", "ray", "flashinfer-python", "nvidia-nccl-cu12", "nvidia-nccl-cu13")


@dataclass(frozen=True)
class Excerpted:
    name: str
    lines: Sequence[tuple[int, str]]


def wanted(answer: Answer) -> dict[int, list[range]]:
    """Lines of each log to quote: around the evidence of the cause, or the first error."""
    quotes = list(answer.root_cause.evidence[:3]) if answer.root_cause else []
    quotes += [answer.first_error] if answer.first_error else []
    spans: dict[int, list[range]] = {}
    for quote in quotes:
        spans.setdefault(quote.file, []).append(range(max(quote.line - _BEFORE, 1), quote.line + _BEHIND + 1))
    return spans


def _title(answer: Answer | None) -> str:
    if answer is None:
        return "[Bug]: "
    release = f" (vLLM {answer.vllm.version})" if answer.vllm.version else ""
    if answer.root_cause is not None:
        return f"[Bug]: {cut(answer.root_cause.title, 150)}{release}"
    if answer.first_error is not None:
        return f"[Bug]: {cut(answer.first_error.text, 150)}{release}"
    return f"[Bug]: launch {answer.outcome.value}{release}"


def text(
    *,
    answer: Answer | None,
    inventory: Inventory | None,
    is_of_start: bool,
    cards: str | None,
    command: str | None,
    linted: Linted | None,
    excerpts: Sequence[Excerpted],
    hidden: Mapping[str, int],
    tool: str,
) -> str:
    """The issue, for a person to review and paste."""
    rows = [*_of_start(answer, linted, cards), *_of_host(inventory, is_of_start=is_of_start)]
    width = max(len(name) for name, _ in rows)
    environment = _fenced("\n".join(f"{name:<{width}} : {value}" if name else "" for name, value in rows), "text")
    title = _ENDS_COMMENT.sub(r"\1 >", _title(answer))
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(hidden.items()))
    parts = [
        f"<!-- Title: {title} -->",
        f"### {ENVIRONMENT}",
        f"<details>\n<summary>Known parts of the environment</summary>\n\n{environment}\n\n</details>",
        _NOT_COLLECTED,
        f"### {BUG}",
        *_bug(answer, command, linted, excerpts),
        f"Written by `vllm-runbooks pack` {tool}. Redacted: {kinds or 'nothing'}.",
        f"### {CHECKLIST}",
        "- [ ] I searched for the same issue, and asked the chatbot of the documentation (https://docs.vllm.ai).",
    ]
    return visible("\n\n".join(parts) + "\n")


def _fenced(text: str, language: str = "") -> str:
    """A code block with a fence longer than any in the text."""
    longest = max((len(fence_like) for fence_like in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _code(text: str) -> str:
    """Inline code without backticks, so that nothing in it is markup or a mention."""
    text = " ".join(text.split()).replace("`", "'")
    return f"`{text}`"


def _of_start(answer: Answer | None, linted: Linted | None, cards: str | None) -> Iterator[tuple[str, str]]:
    vllm = answer.vllm if answer else None
    facts = answer.facts if answer else Facts()
    launch = linted.deployments[0] if linted is not None and len(linted.deployments) == 1 else Launch(None, {}, {})
    yield "vLLM", f"{vllm.version} ({vllm.source})" if vllm and vllm.version else _UNKNOWN
    yield "model", _told(facts.model, launch.model)
    sizes = (_told(getattr(facts, name), launch.flags.get(name)) for name in _SIZES)
    yield "tensor, pipeline, data parallel", ", ".join(sizes)
    if cards is not None:
        yield "GPUs of the launch", f"{cards} (as given)"
    if answer is not None:
        total = _UNKNOWN if facts.gpu_total_gib is None else f"{facts.gpu_total_gib:.2f} GiB"
        yield "memory per GPU, from the log", total


def _told(printed: object, from_command: object) -> str:
    if printed is not None:
        return str(printed)
    return _UNKNOWN if from_command is None else f"{from_command} (from the command)"


def _of_host(inventory: Inventory | None, *, is_of_start: bool) -> Iterator[tuple[str, str]]:
    if inventory is None:
        yield "GPUs, driver, Python, packages", f"{_UNKNOWN}: no inventory was packed"
        return
    yield "", ""
    yield (
        "inventory of",
        "the host of the launch" if is_of_start else "the host that created the pack, possibly another one",
    )
    if inventory.gpus:
        named = Counter(gpu.name or "unknown GPU" for gpu in inventory.gpus)
        yield "GPUs", ", ".join(f"{count} x {name}" for name, count in named.items())
    else:
        yield "GPUs", f"none{f': {inventory.no_gpus_reason}' if inventory.no_gpus_reason else ''}"
    yield "driver", inventory.driver or _UNKNOWN
    yield "newest CUDA version that the driver supports", inventory.cuda or _UNKNOWN
    yield "Python", inventory.python or _UNKNOWN
    packages = inventory.packages or {}
    named_vllm = {name: version for name, version in packages.items() if name == "vllm" or name.startswith("vllm-")}
    for name in (*named_vllm, *(package for package in _PACKAGES[:2] if package not in named_vllm)):
        yield f"package {name}", packages.get(name, "not installed" if inventory.packages is not None else _UNKNOWN)
    for name in _PACKAGES[2:]:
        if name in packages:
            yield f"package {name}", packages[name]
    yield "kernel", inventory.host.kernel or _UNKNOWN
    where = {True: "yes", False: "no", None: _UNKNOWN}
    yield "in a container", where[inventory.host.is_container]
    yield SHARED, _UNKNOWN if inventory.host.shm_mib is None else f"{inventory.host.shm_mib:,.0f} MiB"


def _bug(
    answer: Answer | None, command: str | None, linted: Linted | None, excerpts: Sequence[Excerpted]
) -> Iterator[str]:
    yield "<!-- Describe what you expected and what happened instead. -->"
    if command is not None:
        yield f"The command:\n\n{_fenced(_cut_text(command, _MAX_COMMAND), 'sh')}"
    else:
        yield "The command: unknown; add it here."
    if linted is not None and linted.issues:
        lint_text = _cut_text(issues.text(linted, "command"), 6_000)
        yield f"Output of `vllm-runbooks lint`:\n\n{_fenced(lint_text, 'text')}"
    if answer is None:
        return
    yield _outcome(answer)
    for quoted in excerpts:
        yield f"From {_code(quoted.name)}:\n\n{_fenced(_lines(quoted, len(excerpts)), 'text')}"
    if answer.plan is not None and answer.plan.terms:
        compared = _cut_text(plans.text_compared(answer.plan), 6_000)
        yield f"Memory planned by `vllm-runbooks` and printed in the log:\n\n{_fenced(compared, 'text')}"


def _outcome(answer: Answer) -> str:
    text = f"Outcome of the launch: {answer.outcome.value}."
    if answer.root_cause is not None:
        finding = answer.root_cause
        says = f"{_code(cut(finding.title, 300))} ({finding.symptom}, {finding.level.value})"
        text += f" Cause according to `vllm-runbooks diagnose`: {says}."
    elif not answer.outcome.is_healthy:
        text += " `vllm-runbooks diagnose` found no cause."
    if answer.first_error is not None:
        text += " The log also contains an unexplained error."
    return text


def _lines(quoted: Excerpted, shares: int) -> str:
    """The last lines that fit, with gaps counted: the end of a traceback names the error."""
    kept: list[tuple[int, str]] = []
    room = _MAX_LOG // shares
    for number, line in reversed(quoted.lines):
        row = line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…"
        room -= len(row) + 1
        if room < 0:
            break
        kept.append((number, row))
    rows: list[str] = []
    last = quoted.lines[0][0] - 1 if quoted.lines else 0
    for number, row in reversed(kept):
        rows += [f"[{number - last - 1} lines omitted]"] if number != last + 1 else []
        rows.append(row)
        last = number
    return "\n".join(rows)


def _cut_text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n[cut here]"
