"""The summary of a diagnosis: state, cause, first fix, memory before and after, next step."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from vllm_runbooks.catalog.languages import Wording, joined
from vllm_runbooks.core.records import Answer, Edit, Finding, MemoryUse, Outcome, Remedy, Severity
from vllm_runbooks.core.views.start_pictures import PHASE_NAMES
from vllm_runbooks.core.views.styled import OUTCOME_TONES, Tone
from vllm_runbooks.core.views.summary import (
    NamedMemory,
    Statement,
    Step,
    SuggestedFix,
    Summary,
    certainty,
    check_marks,
    concurrency_text,
    counted,
    first_clauses,
    rest_step,
    sentence_of,
    short_model_name,
)
from vllm_runbooks.diagnosis.render import words as answer_words
from vllm_runbooks.diagnosis.render.figures import printed_gib
from vllm_runbooks.reading.arguments.as_typed import as_option, option_of

_MOST_NOTICES = 3
_MOST_NOTES = 2
_LONGEST_NAME = 32
_VISIBLE = 72
"""Characters of a quote that are shown in any case."""
_MOST_QUOTED = 120
_MOST_COST = 150
"""Maximum characters of a fix's cost: `--explain` shows the rest."""
OPTIONS = {"command": "--command FILE", "gpus": "--gpus", "vllm": "--vllm"}
"""Inputs of a diagnosis by their options."""


def summarize(
    answer: Answer,
    *,
    gpus: str = "",
    has_command: bool = False,
    start: int | None = None,
    pack: str = "",
    again: str = "",
    inputs: Mapping[str, str] = OPTIONS,
) -> Summary:
    """Summarize an answer.

    Args:
        answer: The diagnosis.
        gpus: GPUs of the launch as the user named them.
        has_command: Whether the user gave the command: then the changed one is shown.
        start: Number of the launch, from 1, if the user chose one.
        pack: The command that packs the logs to share them; empty if they are not files.
        again: The command that shows everything; empty if there is none.
        inputs: Names of the inputs that the user can add.
    """
    say, cause = Wording(answer.lang), answer.root_cause
    summary = Summary(
        say(answer.outcome.value).upper(),
        OUTCOME_TONES[answer.outcome],
        tuple(_about(answer, gpus, start, say)),
        fix=_fix(answer, say, inputs, has_gpus=bool(gpus), has_command=has_command),
        fix_name=say("Fix"),
        steps=tuple(_notes(answer, say)),
        more=_more(answer, again, say),
    )
    if answer.outcome.is_healthy:
        notices = tuple(_notices(answer, say))
        sentence = joined(_healthy(answer, is_clean=not notices, say=say))
        return replace(summary, sentence=sentence, statements=notices, fix=summary.fix if notices else None)
    if answer.internal_error is not None:
        internal = answer.internal_error
        steps = (Step(say("Next"), internal.do_first, is_first=True), *summary.steps, *_share(pack, say))
        return replace(summary, statements=(_statement(internal, answer, "?", internal.title, say),), steps=steps)
    if cause is None:
        look = say("Diagnose the complete output of the server, from its first line to its last.")
        if answer.outcome is Outcome.UNKNOWN and answer.starts:
            look = say("Diagnose the complete log of all processes.")
        elif answer.starts:
            look = answer_words.no_cause(answer)
        steps = (Step(say("Next"), look), *summary.steps, *_share(pack if answer.starts else "", say))
        return replace(summary, statements=(_unknown(answer, start, say),), fix=None, steps=steps)
    if cause.look_in is not None and answer.first_error is None:
        what = say("The cause is not in this log. Closest match: {title}", title=cause.title)
        look = answer_words.looked_for(cause.look_in, say)
        steps = (Step(say("Next"), look, is_first=True), *summary.steps, *_share(pack, say))
        fix = summary.fix if answer.remedies else None
        statements = (_statement(cause, answer, "?", what, say), *_another_launch(answer))
        return replace(summary, statements=statements, fix=fix, steps=steps)
    return replace(
        summary,
        statements=(_statement(cause, answer, "✗", cause.title, say), *_another_launch(answer)),
        memory=tuple(_memory(answer, say)),
        steps=(*_unexplained(answer, say), *summary.steps),
    )


def _about(answer: Answer, gpus: str, start: int | None, say: Wording) -> Iterator[str]:
    """Files, launch, release, model and GPUs, as far as known."""
    name = say("standard input") if answer.files == ("-",) else answer_words.named(answer)
    yield _shortened(name) if len(answer.files) == 1 else name
    if len(answer.starts) > len(answer.files):
        number, count = start or len(answer.starts), len(answer.starts)
        line = answer.starts[number - 1].first_line
        yield say("launch {number} of {count} (from line {line})", number=number, count=count, line=line)
    if answer.vllm.version:
        how = {
            "call-sites": say(" (from call sites)"),
            "closest": say(" (closest to its call sites)"),
            "named": say(" (named in the text)"),
            "given": say(" (given)"),
        }.get(answer.vllm.source, "")
        # The part of a version after + names a build: no advice depends on it, and it fills the
        # line.
        yield f"vLLM {answer.vllm.version.partition('+')[0]}{how}"
    facts = answer.facts
    if model := _model_name(facts.model or ""):
        yield _shortened(model)
    sizes = (facts.tensor_parallel_size, facts.pipeline_parallel_size, facts.data_parallel_size)
    ranks = (sizes[0] or 1) * (sizes[1] or 1) * (sizes[2] or 1)
    captures = dict(answer.root_cause.captures) if answer.root_cause else {}
    total = facts.gpu_total_gib or printed_gib(captures, "total")
    if gpus:
        yield answer_words.shortened_list(gpus.split(","), say)
    elif ranks > 1 and total:
        yield say("{count} GPUs", count=ranks) + say(" with {gib} GiB", gib=f"{total:.2f}")
    elif ranks > 1:  # of unknown kind
        yield " ".join(
            f"{name} {size}" for name, size in zip(("TP", "PP", "DP"), sizes, strict=True) if (size or 1) > 1
        )
    elif total:
        yield say("GPU with {gib} GiB", gib=f"{total:.2f}")


def _shortened(name: str) -> str:
    """A name with its middle left out if it is long."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME // 2]}…{name[-_LONGEST_NAME // 2 + 1 :]}"


def _model_name(model: str) -> str:
    """The model without its organization or folder; empty for a placeholder."""
    if "$" in model or "<" in model:
        return ""
    if cached := re.search(r"models--[\w.-]{1,80}?--([\w.-]{1,120})", model, re.ASCII):
        return cached[1]
    return short_model_name(model)


def _healthy(answer: Answer, *, is_clean: bool, say: Wording) -> Iterator[str]:
    facts = answer.facts
    cache = None
    if facts.kv_cache_gib is not None:
        cache = say("KV cache {gib} GiB", gib=f"{facts.kv_cache_gib:.1f}")
    elif facts.kv_cache_tokens is not None:
        cache = say("KV cache {count} tokens", count=f"{facts.kv_cache_tokens:,}")
    if facts.max_concurrency is not None and facts.max_concurrency_tokens:
        concurrency, tokens = concurrency_text(facts.max_concurrency), f"{facts.max_concurrency_tokens:,}"
        cache = cache or say("KV cache")
        yield say("{cache}: {n} concurrent requests of {tokens} tokens.", cache=cache, n=concurrency, tokens=tokens)
    elif cache:
        yield f"{cache}{say('.')}"
    if counts := counted(facts, say.__call__):
        yield say("While it served: {counts}.", counts=counts)
    elif is_clean:
        yield say("No problems found.")


def _notices(answer: Answer, say: Wording) -> Iterator[Statement]:
    """Observations in a healthy log: degraded findings, and rejected requests."""
    noticed = [finding for finding in answer.findings if finding.severity is not Severity.HINT]
    refused = [finding for finding in answer.findings if finding.class_.startswith("api.")]
    noticed += [finding for finding in refused if finding not in noticed]
    for finding in noticed[:_MOST_NOTICES]:
        yield _statement(finding, answer, "!", finding.title, say)
    if len(noticed) > _MOST_NOTICES:
        yield Statement("!", say("{count} more", count=len(noticed) - _MOST_NOTICES), Tone.WARN)


def _another_launch(answer: Answer) -> Iterator[Statement]:
    """Warn that command and log are of different launches."""
    for finding in answer.findings:
        if finding.symptom == "cli.command_differs":
            yield Statement("!", finding.title, Tone.WARN, id=finding.symptom, place=finding.captures["differences"])


def _statement(finding: Finding, answer: Answer, sign: str, text: str, say: Wording) -> Statement:
    proof = finding.evidence[0] if finding.evidence else None
    place = answer_words.place_of(proof, answer.files, say) if proof is not None else ""
    quote = _from_captures(proof.text.strip(), finding.captures.values()) if proof is not None else ""
    tone = Tone.BAD if sign == "✗" else Tone.WARN
    return Statement(
        sign,
        text,
        tone,
        certainty(finding.level, say(finding.level.value)) if sign != "!" else "",
        finding.symptom,
        place,
        quote,
    )


def _from_captures(text: str, captures: Iterable[str]) -> str:
    """A quote that begins shortly before its captured values, if those would be cut off."""
    places = [place for value in captures if len(value) > 1 and (place := text.find(value)) >= 0]
    if not places or min(places) < _VISIBLE:
        return text
    begin = text.rfind(" ", 0, max(0, min(places) - _VISIBLE // 2)) + 1
    return f"… {text[begin:]}" if begin else text


def _unknown(answer: Answer, start: int | None, say: Wording) -> Statement:
    """Facts of a log without a cause."""
    if not answer.starts:
        return Statement("?", say("This does not look like the log of a vLLM launch."), Tone.WARN)
    if answer.first_error is not None:
        place = answer_words.place_of(answer.first_error, answer.files, say)
        text = say("No known symptom explains this failure; its first error:")
        return Statement("?", text, Tone.WARN, place=place, quote=answer.first_error.text.strip(), is_whole=True)
    last = answer.starts[(start or 0) - 1]
    place = say("line {number}", number=last.last_line)
    if answer.outcome is Outcome.UNKNOWN:
        phase = say(PHASE_NAMES.get(last.phase or "", "begun"))
        ends = "The log ends before the server is ready or has failed (last phase: {phase}, {place})."
        return Statement("?", say(ends, phase=phase, place=place), Tone.WARN)
    return Statement("?", say("The cause is not in this log."), Tone.WARN)


def _notes(answer: Answer, say: Wording) -> Iterator[Step]:
    """Notes on the request."""
    for note in answer.notes[:_MOST_NOTES]:
        yield Step(say("Note"), note)


def _unexplained(answer: Answer, say: Wording) -> Iterator[Step]:
    """The first error before the cause, which no symptom explains."""
    if answer.first_error is not None:
        place = answer_words.place_of(answer.first_error, answer.files, say)
        # A message that embeds a traceback ends with the traceback's header, which says nothing.
        words = answer.first_error.text.partition(" Traceback (most recent call last)")[0][:_MOST_QUOTED]
        yield Step(say("Note"), say("Earlier unexplained error ({place}): {words}", place=place, words=words))


def _share(pack: str, say: Wording) -> Iterator[Step]:
    if pack:
        yield Step(say("Share"), say("without secrets"), pack)


def option_text(edits: Sequence[Edit], say: Wording = Wording()) -> str:  # noqa: B008 - immutable
    """Edits as words of a command line: options to set, variables, and removals."""
    options = [as_option(edit.name, edit.value) for edit in edits if edit.op == "set"]
    variables = [
        f"{edit.name}={shlex.quote(str(edit.value))}" for edit in edits if edit.op == "env" and edit.value is not None
    ]
    removed = ", ".join(option_of(edit.name) for edit in edits if edit.op == "remove")
    unset = ", ".join(edit.name for edit in edits if edit.op == "env" and edit.value is None)
    phrases = [
        phrase
        for phrase in (
            say("remove {names}", names=removed) if removed else "",
            say("unset {names}", names=unset) if unset else "",
        )
        if phrase
    ]
    without = ", ".join(phrases)
    without = f"({without})" if without and options else without
    return " ".join([*variables, *options, *([without] if without else [])])


def _fix(
    answer: Answer, say: Wording, inputs: Mapping[str, str], *, has_gpus: bool, has_command: bool
) -> SuggestedFix | None:
    """The first fix; a sentence if no remedy is offered."""
    cause = answer.root_cause
    if not answer.remedies:
        text = cause.do_first if cause is not None else ""
        return SuggestedFix(text, is_command=False) if text else None
    is_given = {"gpus": has_gpus, "vllm": answer.vllm.version is not None}
    missing = [name for key, name in inputs.items() if not is_given.get(key)]
    return remedy_fix(answer.remedies[0], say, has_command=has_command, missing=missing)


def remedy_fix(
    remedy: Remedy, say: Wording, *, has_command: bool, missing: Sequence[str] = ("--command FILE", "--gpus")
) -> SuggestedFix:
    """A remedy as the fix of a summary, with its cost and validations.

    Args:
        remedy: The remedy.
        say: The language.
        has_command: Whether the user gave the command.
        missing: Options without which the fix cannot be checked, in order.
    """
    is_free = remedy.cost.strip(".").lower() == "none"
    clauses = first_clauses(remedy.cost, _MOST_COST).rstrip(".。")
    cost = "" if is_free else say("Cost: {cost}", cost=f"{clauses}{say('.')}")
    if not remedy.edits:
        return SuggestedFix(say("{title}.", title=sentence_of(remedy.title).rstrip(".")), cost, is_command=False)
    checks = remedy.checks
    marks = check_marks((("lint", checks.lint), ("plan", checks.plan), ("vLLM's parser", checks.parser)))
    note = ""
    if remedy.command is None and not has_command and checks.lint != "passed" and missing:
        options = say(" and ").join(part for part in (", ".join(missing[:-1]), missing[-1]) if part)
        note = say("To check the fix and print the full command, add {options}.", options=options)
    command = remedy.command if has_command and remedy.command is not None else ""
    unchecked = say("not checked by {names}")
    change = sentence_of(option_text(remedy.edits, say), end="")
    return SuggestedFix(change, cost, marks, note, command=command, unchecked=unchecked)


def _memory(answer: Answer, say: Wording) -> Iterator[NamedMemory]:
    if answer.memory is None:
        return
    now, fixed = answer.memory
    yield NamedMemory(say("now"), now, _memory_text(now, say))
    yield NamedMemory(say("fix"), fixed, _memory_text(fixed, say))


def _memory_text(use: MemoryUse, say: Wording) -> str:
    used, total = f"{use.used_gib:.2f}", f"{use.total_gib:.2f}"
    if use.kv_cache_gib is None or use.used_gib > use.total_gib:
        return say("needs {used} of {total} GiB", used=used, total=total)
    if use.kv_cache_gib <= 0:
        limit = f"{use.used_gib + use.kv_cache_gib:.2f}"
        return say("needs {used} GiB, limit {limit} GiB: no memory left for the KV cache", used=used, limit=limit)
    cache = say("{gib} GiB for the KV cache", gib=f"{use.kv_cache_gib:.2f}")
    if use.request_gib is None:
        return cache
    return say("{cache}, {gib} GiB per request", cache=cache, gib=f"{use.request_gib:.2f}")


def _more(answer: Answer, again: str, say: Wording) -> Step | None:
    """Reference to the omitted parts."""
    others = max(0, len(answer.remedies) - 1)
    findings = len(answer.findings) - (answer.root_cause in answer.findings)
    parts = []
    if answer.root_cause is not None and not answer.outcome.is_healthy:
        parts += [say("the explanation"), say("how to verify it")]
        if others:
            parts.append(say("1 more fix") if others == 1 else say("{count} more fixes", count=others))
        if findings:
            parts.append(say("1 more finding") if findings == 1 else say("{count} more findings", count=findings))
    if not parts:
        parts = [say("all figures and findings")]
    return rest_step(parts, again, say.__call__)
