"""Symptoms as pages: the meaning, how to verify or rule it out, fixes, examples."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from vllm_runbooks.catalog.records import Entrance, Symptom
from vllm_runbooks.catalog.templates import PLACEHOLDER, value_of
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.records import Edit, Facts, Role, Runbook, Severity
from vllm_runbooks.core.views.summary_html import summary_html
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.render import answers
from vllm_runbooks.diagnosis.render.summaries import option_text
from vllm_runbooks.reading import evidence
from vllm_runbooks.reading.arguments.as_typed import option_of
from vllm_runbooks.site import bilingual
from vllm_runbooks.site.myst import (
    badge,
    code,
    filter_field,
    first_of_list,
    folded,
    front,
    grouped,
    listed,
    literal,
    named,
    origin,
    plain,
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
    "lower_by": "Lower {option} by {value}",
    "lower_to": "Lower {option} to {value}",
    "raise_to": "Raise {option} to {value}",
    "at_least": "Raise {option} to at least {value}",
    "share": "Set {option} to {value}, rounded down",
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


_PLAIN = {
    "fit_utilization": "the share that fits", "pair_utilization": "the share that fits",
    "room_for_share": "a larger share", "fit_step": "the missing share",
    "fit_sequences": "the number that fits", "fit_batched_tokens": "the number that fits",
    "fit_context_tokens": "the length that fits", "pair_context_tokens": "the length that fits",
    "longer_context_tokens": "the length that fits", "served_tokens": "the length of the requests",
    "fit_ranks": "enough", "fit_gpus": "enough", "four_bit_ranks": "enough", "present_ranks": "now",
    "fit_cache": "the size that fits", "fit_offload": "the missing amount", "others": "the missing amount",
    "four_bit": "a quarter of the 16-bit size", "address": "the head node", "distribution": "the missing package",
    "first_release": "X.Y.Z", "latest_release": "the newest", "serving_release": "of this release",
    "closest": "the closest valid value", "allowed": "one that it lists",
    "json_value": "valid JSON", "json_option": "the JSON option",
    "json_near": "the closest valid key", "near": "the closest option", "respelt": "the closest supported one",
    "dividing_ranks": "a number", "port": "N", "next_port": "a free one",
    "set": "the configured size", "swap": "the configured size",
    "offloaded": "the configured size", "four_bit_shard": "an equal share", "shard": "an equal share",
    "spared_graphs": "the missing amount", "gpu_kinds": "supported GPUs",
    "gpu_backends": "backends that reject only this GPU",
    "flashinfer_backends": "backends that only need FlashInfer",
    "rejects_dtype": "backends that reject only the dtype",
    "selected_block_size": "the configured size",
    "selected_dtype": "the configured dtype",
    "selected_kv_cache_dtype": "the configured KV cache dtype",
    "rejects_block_size": "backends that reject only the block size",
    "rejects_kv_cache_dtype": "backends that reject only the KV cache's dtype",
}  # fmt: skip
"""Words for values that only a diagnosis knows and no example captures."""


def symptom_page(
    symptom: Symptom,
    *,
    runbooks: Sequence[Runbook] = (),
    linked: Collection[str] = (),
    card: str = "",
) -> str:
    """The page of one symptom.

    Args:
        symptom: The symptom.
        runbooks: Runbooks that have a page.
        linked: Ids of symptoms that have a page.
        card: Diagnosis of its first example, as HTML.
    """
    fixed = bilingual.words(symptom)
    say = bilingual.sayer(symptom, {name for name in linked if name != symptom.id})
    examples = [part for e in symptom.examples for part in (literal(e.text), origin(e.source, e.vllm))]
    first, others = (examples[:2], examples[2:]) if card else ([], examples)
    values = _values(symptom)
    calculated = fixed('<a href="../diagnose.html">Diagnose</a> calculates the values for your log.')
    near = [part for n in symptom.near_misses for part in (literal(n.text), say(sentence(n.why)))]
    # A step is offered if the absolute value is unknown: on a page one of the two is enough.
    titles = {r.title for r in symptom.remedies}
    remedies = [r for r in symptom.remedies if r.title.replace(" by {fit_step}", " to {fit_utilization}") not in titles
                or "{fit_step}" not in r.title]  # fmt: skip
    ways = [
        (
            "\n\n".join([say(r.title), *(_edit(e, fixed) for e in r.edits if not _is_calculated(e, values))]),
            say(sentence(r.cost)),
        )
        for r in remedies
    ]
    authored = " ".join(r.title + r.cost for r in symptom.remedies)
    conditions = [condition.says for condition in symptom.conditions]
    amounts = [json.dumps(e.value) for r in symptom.remedies for e in r.edits]
    known = _known(" ".join([authored, *conditions, *amounts]), values)
    is_plain = bool(set(PLACEHOLDER.findall(authored)) - set(known))
    # Fixes that differ only in their conditions are one fix here.
    filled = ((bilingual.filled(way, known, _PLAIN), bilingual.filled(cost, known, _PLAIN)) for way, cost in ways)
    ways = list(dict.fromkeys(filled))
    holds = [bilingual.filled(say(text), known, _PLAIN) for text in conditions]
    books = [r for r in runbooks if r.id == symptom.runbook or symptom.id in r.symptoms]
    look = symptom.look_in
    sections = [
        ("Do first", [_do_first(symptom, say)]),
        ("Meaning", [say(symptom.cause)]),
        (
            "Fixes",
            [table([fixed("Fix"), fixed("Cost")], ways, "60 40"), *([calculated] if is_plain else [])] if ways else [],
        ),
        (
            "How to verify",
            [say(symptom.confirm), *([fixed("The diagnosis checks whether"), listed(holds)] if holds else [])],
        ),
        ("Ruled out if", [say(symptom.refute)]),
        ("Where to look", [f"{fixed('Look for')} {say(look.what)}{fixed(', in')} {say(look.where)}."] if look else []),
        ("Runbook", [listed(f"[{prose(r.title)}](../runbooks/{r.id}.ipynb)" for r in books)] if books else []),
        ("Other examples", [folded(f"{len(others) // 2} more", *others)] if others else [])
        if card
        else ("Examples in logs", others),
        ("Similar lines", [fixed("These lines look similar and are something else."), *near] if near else []),
        ("References", [listed(reference(text) for text in symptom.references)] if symptom.references else []),
    ]
    role = "" if symptom.role is Role.CAUSE else f" {badge(symptom.role.value)}"
    link = f'<a class="action" href="../diagnose.html#symptom={quote(symptom.id)}">{fixed("Diagnose my log")}</a>'
    badges = f"{badge(symptom.severity.value)}{role} {code(symptom.id)} {link}"
    example = [raw(card), folded("The log of this example", *first)] if card else []
    note = "\n\n".join(filter(None, (*example, fixed(_ROLE_MEANINGS.get(symptom.role, "")))))
    return front(_page_title(symptom), _description(symptom)) + bilingual.page(symptom, badges, sections, note)


def _do_first(symptom: Symptom, say: Callable[[str], str]) -> str:
    """The first action, with the first example's value next to each placeholder."""
    values = next((example.captures for example in symptom.examples), {})
    return bilingual.with_values(say(symptom.do_first), values)


def _values(symptom: Symptom) -> dict[str, str]:
    """Captures of all examples, the first example's where several have one."""
    return {name: value for example in reversed(symptom.examples) for name, value in example.captures.items()}


def _is_calculated(edit: Edit, values: Mapping[str, str]) -> bool:
    """Whether an edit's option or value is known only to a diagnosis, so that the fix's title is enough."""
    text = json.dumps(edit.value)
    return "{" in edit.name or bool(set(PLACEHOLDER.findall(text)) - set(_known(text, values)))


def _known(text: str, values: Mapping[str, str]) -> dict[str, str]:
    """Values of the examples for the placeholders of a text."""
    known = {name: value_of(name, values, Facts()) for name in PLACEHOLDER.findall(text)}
    return {name: printable(value) for name, value in known.items() if value is not None}


def diagnose_example(symptom: Symptom) -> str:
    """Diagnose a symptom's first example, as an HTML card with its fix; empty if its cause is another symptom."""
    sample = next(iter(symptom.examples), None)
    if sample is None:
        return ""
    try:
        document = evidence.handed("example.log", sample.text.encode())
        answer = diagnosing.diagnose(Evidence((document,), vllm=sample.vllm))
    except InputError:
        return ""
    if answer.root_cause is None or answer.root_cause.symptom != symptom.id:
        return ""
    summary = answers.summary_record(answer)
    # The checks and what they lack are about a command, which an example has not.
    fix = summary.fix and replace(summary.fix, checks=(), note="")
    # The page has the id below its title.
    statements = tuple(replace(statement, id="") for statement in summary.statements)
    about = tuple(part.removesuffix(" (given)") for part in summary.about)
    return summary_html(replace(summary, about=about, statements=statements, fix=fix, fix_name="Fix of this example"))


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
        return fixed("Remove {option}").format(option=name)
    if isinstance(edit.value, dict) and len(edit.value) == 1:
        step, amount = next(iter(edit.value.items()))
        if step in _STEPS:
            value = code(amount if isinstance(amount, str) else json.dumps(amount))
            return fixed(_STEPS[step]).format(option=name, value=value)
    return fixed("Set {option}").format(option=code(named(option_text([edit]))))


def symptom_index(symptoms: Sequence[Symptom], entrances: Sequence[Entrance] = ()) -> str:
    """All symptoms by group with their errors, those of the entrances' lines first; contents for the sidebar."""
    count = f"{len(symptoms)} faults" if len(symptoms) != 1 else "One fault"
    intro = (
        f"{count} that `vllm-runbooks diagnose` recognizes, by subject. [What a diagnosis means](../reading.md) "
        "explains the badges; [adding a symptom](../authoring.md) takes ten minutes."
    )
    head = front("vLLM errors and their causes", f"{count} of vLLM with causes, fixes and examples from logs.")
    marks = {s.id: "" if s.severity is Severity.FATAL else f" {badge(s.severity.value)}" for s in symptoms}
    errors = {s.id: f"[{plain(_shortened(message(s), _LONGEST_ERROR))}]{{.summary}}" for s in symptoms}
    entries = {s.id: f"[{prose(s.title)}]({s.id}.md) {errors[s.id]}{marks[s.id]}" for s in symptoms}
    field = filter_field("Filter by words, or paste an error line", "memory, NCCL, port")
    lines = [line for entrance in entrances for line in entrance.lines]
    common = dict.fromkeys(
        next((s.id for s in symptoms if any(line in e.text for e in s.examples)), "") for line in lines
    )
    first = first_of_list("Common", [entries[name] for name in common if name])
    return "\n\n".join([f"{head}# Symptoms", intro, field, first, *grouped(entries, GROUPS, kind="symptoms")]) + "\n"
