"""Symptoms as pages: the meaning, how to verify or rule it out, fixes, examples."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote

from vllm_runbooks.catalog.records import Symptom
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.records import Edit, Role, Runbook, Severity
from vllm_runbooks.core.views.summary_html import command_html, rendered
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.render import answers
from vllm_runbooks.diagnosis.render.summaries import option_text
from vllm_runbooks.reading import evidence
from vllm_runbooks.reading.documents import option_of
from vllm_runbooks.site import bilingual
from vllm_runbooks.site.myst import (
    badge,
    code,
    filter_field,
    front,
    grouped,
    listed,
    literal,
    named,
    origin,
    printable,
    prose,
    raw,
    reference,
    sentence,
    table,
)

_ROLE_MEANINGS = {
    Role.WRAPPER: "It reports that something else failed; it is the answer only if the log does not contain the cause.",
    Role.CONSEQUENCE: "It follows from another failure; it is the answer only if the log does not contain the cause.",
    Role.BENIGN: "It is harmless and never an answer.",
}
_STEPS = {
    "lower_by": "Lower {0} by {1}",
    "lower_to": "Lower {0} to {1}",
    "raise_to": "Raise {0} to {1}",
    "at_least": "Raise {0} to at least {1}",
    "share": "Set {0} to {1}, rounded down",
}
_PREFIX = re.compile(
    r"^(?:\([^()]{1,60}\) {1,4})?"
    r"(?:(?:INFO|WARNING|ERROR|CRITICAL|DEBUG) [\d-]{5,10} [\d:.,]{8,12} (?:\[[^\]]{1,80}\] ?){1,2})?"
)
_LONGEST_ERROR = 90
GROUPS = {
    "attn": "Attention", "upstream": "Bugs in vLLM and kernel libraries",
    "cli": "Command line", "cuda": "CUDA and driver", "edge10": "Edge10", "engine": "Engine",
    "flashinfer": "FlashInfer", "mem": "GPU memory", "host": "Host", "install": "Installation", "kv": "KV cache",
    "lora": "LoRA", "model": "Model files", "mm": "Multimodal input", "port": "Network ports", "other": "Other",
    "oom": "Out of memory", "platform": "Platform", "quant": "Quantization", "ray": "Ray", "api": "Requests",
    "dist": "Several GPUs and hosts", "storage": "Storage", "torch_compile": "torch.compile", "triton": "Triton",
}  # fmt: skip
"""Headings by first word of the ids, in the order of the index; a missing one is last, under its
word."""


class ExampleDiagnosis(NamedTuple):
    """The diagnosis of a symptom's first example."""

    card: str = ""
    """Its summary as HTML, without the fix; empty if its cause is another symptom."""
    fix: str = ""
    """The first fix as words of a command line; empty if it changes no option or variable."""


def symptom_page(
    symptom: Symptom,
    *,
    runbooks: Sequence[Runbook] = (),
    linked: Collection[str] = (),
    diagnosis: ExampleDiagnosis = ExampleDiagnosis(),  # noqa: B008 - immutable
) -> str:
    """The page of one symptom.

    Args:
        symptom: The symptom.
        runbooks: Runbooks that have a page.
        linked: Ids of symptoms that have a page.
        diagnosis: That of its first example.
    """
    card = diagnosis.card
    fixed = bilingual.words(symptom)
    say = bilingual.sayer(symptom, {name for name in linked if name != symptom.id})
    examples = [part for e in symptom.examples for part in (literal(e.text), origin(e.source, e.vllm))]
    first, others = (examples[:2], examples[2:]) if card else ([], examples)
    near = [part for n in symptom.near_misses for part in (literal(n.text), say(sentence(n.why)))]
    ways = [
        ("\n\n".join([say(r.title), *(_edit(e, fixed) for e in r.edits)]), say(sentence(r.cost)))
        for r in symptom.remedies
    ]
    holds = [say(condition.says) for condition in symptom.conditions]
    books = [r for r in runbooks if r.id == symptom.runbook or symptom.id in r.symptoms]
    look = symptom.look_in
    sections = [
        ("Do first", [_do_first(symptom, say), *_fix(diagnosis.fix, fixed)]),
        ("Meaning", [say(symptom.cause)]),
        ("Example", [raw(card), *first] if card else []),
        ("Fixes", [table([fixed("Fix"), fixed("Cost")], ways, "60 40")] if ways else []),
        (
            "How to verify",
            [say(symptom.confirm), *([fixed("The diagnosis checks whether"), listed(holds)] if holds else [])],
        ),
        ("Ruled out if", [say(symptom.refute)]),
        ("Where to look", [f"{fixed('Look for')} {say(look.what)}{fixed(', in')} {say(look.where)}."] if look else []),
        ("Runbook", [listed(f"[{prose(r.title)}](../runbooks/{r.id}.ipynb)" for r in books)] if books else []),
        ("Other examples" if card else "Examples in logs", others),
        ("Similar lines", [fixed("These lines look similar and are something else."), *near] if near else []),
        ("References", [listed(reference(text) for text in symptom.references)] if symptom.references else []),
    ]
    role = "" if symptom.role is Role.CAUSE else f" {badge(symptom.role.value)}"
    badges = f"{badge(symptom.severity.value)}{role} {code(symptom.id)}"
    link = f'<a class="action" href="../diagnose.html#symptom={quote(symptom.id)}">{fixed("Diagnose my log")}</a>'
    note = "\n\n".join(filter(None, (raw(link), fixed(_ROLE_MEANINGS.get(symptom.role, "")))))
    return front(_page_title(symptom), _description(symptom)) + bilingual.page(symptom, badges, sections, note)


def _do_first(symptom: Symptom, say: Callable[[str], str]) -> str:
    """The first action, with the first example's value next to each placeholder."""
    values = next((example.captures for example in symptom.examples), {})
    return bilingual.with_values(say(symptom.do_first), values)


def _fix(change: str, fixed: Callable[[str], str]) -> list[str]:
    """The first fix of the example, to copy unless it only removes options."""
    lead = fixed("Fix of the first example:")
    if change.startswith("remove "):
        return [f"{lead} {prose(change)}"]
    return [lead, raw(command_html(change))] if change else []


def diagnose_example(symptom: Symptom) -> ExampleDiagnosis:
    """Diagnose a symptom's first example; empty if its cause is another symptom."""
    sample = next(iter(symptom.examples), None)
    if sample is None:
        return ExampleDiagnosis()
    try:
        document = evidence.handed("example.log", sample.text.encode())
        answer = diagnosing.diagnose(Evidence((document,), vllm=sample.vllm))
    except InputError:
        return ExampleDiagnosis()
    if answer.root_cause is None or answer.root_cause.symptom != symptom.id:
        return ExampleDiagnosis()
    card = rendered(replace(answers.summary_record(answer), fix=None))
    return ExampleDiagnosis(card.html, option_text(answer.remedies[0].edits) if answer.remedies else "")


def message(symptom: Symptom) -> str:
    """Error of the first example in one line, without its log's prefixes.

    Empty if there is none.
    """
    lines = [line.strip() for example in symptom.examples[:1] for line in printable(example.text).splitlines()]
    errors = [line for line in lines if re.search(r"Error|error|failed|Failed", line)]
    return without_prefix(next(iter(errors[-1:] or lines[-1:]), ""))


def without_prefix(line: str) -> str:
    """A log line without vLLM's prefix: process, level, time and location."""
    return " ".join(_PREFIX.sub("", line).split())


def _page_title(symptom: Symptom) -> str:
    """The error text, then its meaning: people search for the error."""
    error = _shortened(message(symptom), _LONGEST_ERROR)
    return f"{error} \N{EN DASH} {symptom.title}" if error else symptom.title


def _description(symptom: Symptom) -> str:
    return _shortened(
        " ".join(f"{symptom.title}. {named(symptom.do_first or '')} {symptom.cause}".replace("`", "").split()), 300
    )


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rpartition(' ')[0] or text[:most]}…"


def _edit(edit: Edit, fixed: Callable[[str], str]) -> str:
    """Description of a change of a deployment, as it is typed."""
    name = code(edit.name if edit.op == "env" else option_of(edit.name))
    if edit.op == "remove":
        return fixed("Remove {0}").format(name)
    if isinstance(edit.value, dict) and len(edit.value) == 1:
        step, amount = next(iter(edit.value.items()))
        if step in _STEPS:
            return fixed(_STEPS[step]).format(name, code(amount if isinstance(amount, str) else json.dumps(amount)))
    return fixed("Set {0}").format(code(named(option_text([edit]))))


def symptom_index(symptoms: Sequence[Symptom]) -> str:
    """All symptoms by group, with the tables of contents for the sidebar."""
    count = f"{len(symptoms)} faults" if len(symptoms) != 1 else "One fault"
    intro = (
        f"{count} that `vllm-runbooks diagnose` recognizes, by subject. [What a diagnosis means](../reading.md) "
        "explains the badges; [adding a symptom](../authoring.md) takes ten minutes."
    )
    head = front("vLLM errors and their causes", f"{count} of vLLM with causes, fixes and examples from logs.")
    marks = {s.id: "" if s.severity is Severity.FATAL else f" {badge(s.severity.value)}" for s in symptoms}
    entries = {s.id: f"[{prose(s.title)}]({s.id}.md){marks[s.id]}" for s in symptoms}
    field = filter_field("Filter by words of the title, or paste an error line", "memory, NCCL, port")
    return "\n\n".join([f"{head}# Symptoms", intro, field, *grouped(entries, GROUPS, kind="symptoms")]) + "\n"
