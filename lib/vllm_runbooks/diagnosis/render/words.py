"""Sentences, places and figures of an answer, shared by all of its views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vllm_runbooks.catalog.languages import Wording, joined
from vllm_runbooks.core.records import Answer, Checks, Facts, Finding, LookIn, Outcome, Quote, RankFacts, Remedy
from vllm_runbooks.core.views.elements import cut
from vllm_runbooks.diagnosis.render.figures import FACT_NAMES, figure, printed_gib

_MEANINGS = {
    "slots": "slots of one layer group, not tokens of full-length requests: not comparable across models or releases",
    "full-length": "max concurrency x max_model_len",
}


def release(answer: Answer) -> str:
    """The release of a log, and how it was determined."""
    say, vllm = Wording(answer.lang), answer.vllm
    return f"vLLM {vllm.version} ({say(vllm.source)})" if vllm.version else say("vLLM release unknown")


def left_out(answer: Answer) -> str:
    """Number of recognized lines that are not shown."""
    say = Wording(answer.lang)
    return say("Not shown: {what}.", what=_noise(answer.hidden, say))


def _noise(hidden: Mapping[str, int], say: Wording) -> str:
    names = {
        "benign": ("known harmless line", "known harmless lines"),
        "earlier_start": ("earlier launch", "earlier launches"),
        "consequence": (
            "line of a rank that waits for or lost another rank",
            "lines of ranks that wait for or lost other ranks",
        ),
        "wrapper": ("notice that another process ended", "notices that other processes ended"),
    }
    return _listed([f"{count} {say(names.get(kind, (kind, kind))[count != 1])}" for kind, count in hidden.items()], say)


def _listed(items: Sequence[str], say: Wording) -> str:
    *parts, last = items
    return say("{first} and {second}", first=say(", ").join(parts), second=last) if parts else last


def no_cause(answer: Answer) -> str:
    """Reason why no cause is known, and the missing input."""
    say = Wording(answer.lang)
    if not answer.starts:
        return say("This does not look like the log of a vLLM launch.")
    if answer.outcome is Outcome.UNKNOWN:
        return say("The log ends during startup. Diagnose the complete log of all processes.")
    if answer.first_error:
        return say("The first error is not in the catalog yet. Search for its message.")
    return say("Diagnose the logs of all processes and nodes. If they are complete, the symptom is not in the catalog.")


def lead(answer: Answer) -> str:
    """Lines to read if no cause is known."""
    if answer.first_error:
        say = Wording(answer.lang)
        place = place_of(answer.first_error, answer.files, say)
        return say("First error: {place}: {words}", place=place, words=cut(answer.first_error.text))
    return no_cause(answer)


_MAX_NAMED = 4


def named(answer: Answer) -> str:
    """The files of the answer: all of a few, else the first and the number of the others."""
    return shortened_list(answer.files, Wording(answer.lang))


def shortened_list(names: Sequence[str], say: Wording) -> str:
    """All of a few names, else the first and the number of the others."""
    more = len(names) - _MAX_NAMED
    if more < 2:
        return ", ".join(names)
    return say("{files} and {count} more", files=", ".join(names[:_MAX_NAMED]), count=more)


def place_of(quote: Quote, files: Sequence[str], say: Wording) -> str:
    """Location of a quotation, with its file if there are several."""
    return f"{files[quote.file]}:{quote.line}" if len(files) > 1 else say("line {number}", number=quote.line)


def looked_for(look_in: LookIn, say: Wording) -> str:
    """Text to look for if the cause is in another log."""
    return say("Check {where} for {what}.", what=look_in.what, where=look_in.where)


def quotes(finding: Finding, files: Sequence[str], say: Wording) -> list[tuple[str, str]]:
    """Location and text of the evidence; repeated texts once."""
    places: dict[str, list[Quote]] = {}
    for quote in finding.evidence:
        places.setdefault(quote.text, []).append(quote)
    return [(_places_of(same, files, say), text) for text, same in places.items()]


def _places_of(same: Sequence[Quote], files: Sequence[str], say: Wording) -> str:
    if len(files) > 1 or len(same) == 1:
        return say(" and ").join(place_of(quote, files, say) for quote in same)
    return say("lines {numbers}", numbers=say(" and ").join(str(quote.line) for quote in same))


def verdicts(remedies: Sequence[Remedy], say: Wording) -> list[str]:
    """Results of the remedies' checks; one sentence for remedies with the same results."""
    by_checks: dict[Checks, list[str]] = {}
    for number, remedy in enumerate(remedies, 1):
        by_checks.setdefault(remedy.checks, []).append(str(number))
    if len(by_checks) == 1:
        return [judged_by(remedies[0].checks, say)]
    names = {True: "Fix {numbers}", False: "Fixes {numbers}"}
    return [
        f"{say(names[len(numbers) == 1], numbers=', '.join(numbers))}{say(': ')}{judged_by(checks, say)}"
        for checks, numbers in by_checks.items()
    ]


def judged_by(checks: Checks, say: Wording) -> str:
    """Checks that a remedy passed, and checks that could not run, with the reason."""
    if checks.lint == checks.plan != "passed":
        return say("Not checked ({why}).", why=say(checks.lint.removeprefix("unknown: ")))
    judges = (("lint", checks.lint), ("plan", checks.plan), ("vLLM's parser", checks.parser))
    passed = [say(name) for name, state in judges if state == "passed"]
    whys = [(name, state.removeprefix("unknown: ")) for name, state in judges if state != "passed"]
    unknown = [say("{who} ({why})", who=say(name), why=say(why)) for name, why in whys]
    sentences = [say("Passed {who}.", who=_listed(passed, say))] if passed else []
    return joined([*sentences, *([say("Not checked by {who}.", who=_listed(unknown, say))] if unknown else [])])


def fact_rows(facts: Facts, say: Wording) -> list[tuple[str, str]]:
    """Name and value, with its unit, of every figure that the launch printed."""
    rows = []
    for name, label in FACT_NAMES.items():
        text = figure(name, facts)
        if text is None:
            continue
        if name == "max_concurrency" and facts.max_concurrency_tokens:
            text += say(" for {count} tokens per request", count=f"{facts.max_concurrency_tokens:,}")
        if name == "kv_cache_tokens" and facts.kv_cache_tokens_meaning:
            text += f" ({say(_MEANINGS[facts.kv_cache_tokens_meaning])})"
        rows.append((say(label), text))
    return rows


def rank_rows(ranks: Sequence[RankFacts], say: Wording) -> list[list[str]]:
    """A header and a row for each rank, with the figures in GiB that any rank printed; empty for fewer than two."""
    if len(ranks) < 2:
        return []
    names = [n for n in FACT_NAMES if n.endswith("_gib") and any(getattr(r, n, None) is not None for r in ranks)]
    figures = [["" if (v := getattr(r, n)) is None else f"{v:.2f}" for n in names] for r in ranks]
    cells = [say("unknown") if r.rank is None else str(r.rank) for r in ranks]
    return [
        [say("rank"), *(say(FACT_NAMES[n]) for n in names)],
        *([s, *row] for s, row in zip(cells, figures, strict=True)),
    ]


def memory_parts(captures: dict[str, str], total: float) -> list[tuple[str, float]]:
    """GPU memory as reported by the message, in parts that add up to the total."""
    used, free, allocated, reserved = (
        printed_gib(captures, name) for name in ("in_use", "free", "allocated", "reserved")
    )
    parts = [("allocated by PyTorch", allocated), ("reserved by PyTorch, unallocated", reserved)]
    if used is not None:
        label = "this process, outside PyTorch" if allocated is not None else "this process"
        parts.append((label, max(0.0, used - (allocated or 0.0) - (reserved or 0.0))))
    rest = max(0.0, total - sum(value or 0.0 for _, value in parts) - (free or 0.0))
    if rest >= 0.005:
        parts.append(("other processes" if used is not None and free is not None else "not stated", rest))
    parts.append(("free", free))
    return [(name, value) for name, value in parts if value is not None]
