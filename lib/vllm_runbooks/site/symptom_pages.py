"""Symptoms as pages: the meaning, how to verify or rule it out, fixes, examples."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from vllm_runbooks.catalog.records import Symptom
from vllm_runbooks.core.records import Edit, Role, Runbook
from vllm_runbooks.site import bilingual
from vllm_runbooks.site.myst import (
    badge,
    code,
    grouped,
    listed,
    literal,
    named,
    origin,
    prose,
    reference,
    sentence,
    table,
)

_ROLE_MEANINGS = {
    Role.WRAPPER: "It only reports that something else failed: it is the answer where the log does not hold the cause.",
    Role.CONSEQUENCE: "It follows from another failure: it is the answer where the log does not hold the cause.",
    Role.BENIGN: "It is harmless, and never an answer: it is known so that it can be left out.",
}
_STEPS = {
    "lower_by": "Lower {} by {}",
    "lower_to": "Lower {} to {}",
    "raise_to": "Raise {} to {}",
    "at_least": "Raise {} to at least {}",
    "share": "Set {} to {}, rounded down",
}
GROUPS = {
    "attn": "Attention", "cli": "Command line", "cuda": "CUDA and driver", "edge10": "Edge10", "engine": "Engine",
    "flashinfer": "FlashInfer", "mem": "GPU memory", "host": "Host", "install": "Installation", "kv": "KV cache",
    "lora": "LoRA", "model": "Model files", "mm": "Multimodal input", "port": "Network ports", "other": "Other",
    "oom": "Out of memory", "platform": "Platform", "quant": "Quantisation", "ray": "Ray", "api": "Requests",
    "dist": "Several GPUs and hosts", "storage": "Storage", "torch_compile": "torch.compile", "triton": "Triton",
}  # fmt: skip
"""Headings by first word of the ids, in the order of the index; a missing one is last, as its word."""


def symptom_page(symptom: Symptom, *, runbooks: Sequence[Runbook] = (), linked: Collection[str] = ()) -> str:
    """The page of one symptom; `runbooks` have a page, and so do the symptoms whose ids are `linked`."""
    say = bilingual.sayer(symptom, {name for name in linked if name != symptom.id})
    examples = [part for e in symptom.examples for part in (literal(e.text), origin(e.source, e.vllm))]
    near = [part for n in symptom.near_misses for part in (literal(n.text), say(sentence(n.why)))]
    ways = [
        ("\n\n".join([say(r.title), *(_edit(e) for e in r.edits)]), say(sentence(r.cost))) for r in symptom.remedies
    ]
    holds = [say(condition.says) for condition in symptom.conditions]
    books = [r for r in runbooks if r.id == symptom.runbook or symptom.id in r.symptoms]
    look = symptom.look_in
    sections = [
        ("Meaning", [say(symptom.cause)]),
        ("Do first", [say(symptom.do_first)]),
        (
            "Confirm",
            [say(symptom.confirm), *(["The diagnosis looks by itself whether", listed(holds)] if holds else [])],
        ),
        ("Refute", [say(symptom.refute)]),
        ("Ways out", [table(["Way out", "What it costs"], ways, "60 40")] if ways else []),
        ("Where to look", [f"Look for {say(look.what)}, in {say(look.where)}."] if look else []),
        ("Runbook", [listed(f"[{prose(r.title)}](../runbooks/{r.id}.ipynb)" for r in books)] if books else []),
        ("How it shows", examples),
        ("Near misses", ["These lines look alike and are something else.", *near] if near else []),
        ("References", [listed(reference(text) for text in symptom.references)] if symptom.references else []),
    ]
    role = "" if symptom.role is Role.CAUSE else f" {badge(symptom.role.value)}"
    badges = f"{badge(symptom.severity.value)}{role} {code(symptom.id)}"
    return bilingual.page(symptom, badges, sections, _ROLE_MEANINGS.get(symptom.role, ""))


def _edit(edit: Edit) -> str:
    """A change of a deployment in words; a command would have to be checked first."""
    name = f"{'environment variable' if edit.op == 'env' else 'option'} {code(edit.name)}"
    if edit.op == "remove":
        return f"Remove {name}"
    if isinstance(edit.value, dict) and len(edit.value) == 1:
        step, amount = next(iter(edit.value.items()))
        if step in _STEPS:
            return _STEPS[step].format(name, code(amount if isinstance(amount, str) else json.dumps(amount)))
    value = edit.value if isinstance(edit.value, str) else json.dumps(edit.value, ensure_ascii=False)
    return f"Set {name} to {code(named(value)) or 'nothing'}"


def symptom_index(symptoms: Sequence[Symptom]) -> str:
    """All symptoms by group, with the tables of contents for the sidebar."""
    count = f"{len(symptoms)} faults" if len(symptoms) != 1 else "One fault"
    intro = (
        f"{count} that the catalog knows, by the first word of the id. [Reading a diagnosis](../reading.md) "
        "explains the badges; [adding a symptom](../authoring.md) takes ten minutes."
    )
    entries = {s.id: f"{badge(s.severity.value)} [{prose(s.title)}]({s.id}.md)" for s in symptoms}
    return "\n\n".join(["# Symptoms", intro, *grouped(entries, GROUPS, kind="symptoms")]) + "\n"
