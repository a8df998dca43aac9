"""Claims of a document about a recorded case, checked against its record, plans and lookups.

A claim is data: expressions over names that are looked up in the record, in a plan, among the GPUs or among the lines
that a release prints. An unknown value makes the verdict unknown, never a guess.

"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from vllm_runbooks.catalog.specs import Gpu
from vllm_runbooks.catalog.templates import fill
from vllm_runbooks.core.comparison import FRONT_SETTINGS, differing
from vllm_runbooks.core.evidence import Claim, Claims, Credit, Evidence
from vllm_runbooks.core.records import Answer, CheckedClaim, Facts, Quote, ServerRun, Truth
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.diagnosis.claims.expressions import Lookup, compute
from vllm_runbooks.diagnosis.claims.figures import ClaimLookup, Planned
from vllm_runbooks.plan.figures import EXPECTED, HIGH, LOW, written
from vllm_runbooks.reading.startup_log import log_lines


def check(
    authored: Claims,
    answer: Answer | None,
    starts: Sequence[ServerRun],
    evidence: Evidence,
    *,
    planned: Planned | None = None,
    card: Callable[[str], Gpu] | None = None,
) -> tuple[CheckedClaim, ...]:
    """Check every claim on the launches of its case.

    Args:
        authored: The claims.
        answer: The diagnosis of the case's log; None if it has none.
        starts: Launches of the log.
        evidence: The case.
        planned: Answers questions to the planner.
        card: Finds a GPU by its name; returns an InputError if there is none.
    """
    quotes = _quotes({words for claim in authored.claims for words in claim.quotes}, evidence)
    request = ClaimLookup(authored, planned, card)
    return tuple(_ClaimCheck(claim, authored, answer, starts, request).record(quotes) for claim in authored.claims)


class _ClaimCheck:
    """A claim and its verdict."""

    def __init__(
        self, claim: Claim, authored: Claims, answer: Answer | None, starts: Sequence[ServerRun], request: ClaimLookup
    ) -> None:
        self._claim, self._authored, self._found, self._starts, self._asked = claim, authored, answer, starts, request

    @cached_property
    def _names(self) -> list[str]:
        return self._asked.names(self._claim)

    def record(self, quotes: Mapping[str, Quote]) -> CheckedClaim:
        """The checked claim; a plan's figures count only if its low and high case agree."""
        claim, answer = self._claim, self._found
        verdict, undecided, values = self._by(EXPECTED)
        if verdict is not Truth.UNKNOWN and self._asked.has_sides(self._names):
            for side in (LOW, HIGH):
                other, why, _ = self._by(side)
                if other is not verdict:
                    verdict, undecided = Truth.UNKNOWN, why or "the difference is within the plan's uncertainty"
                    break
        captures = dict(answer.root_cause.captures) if answer and answer.root_cause else {}
        figures = {name: written(value) for name, value in values.items() if value is not None}
        facts = self._starts[-1].facts if self._starts else answer.facts if answer else Facts()
        sentences = (fill(sentence, {**captures, **figures}, facts) for sentence in claim.because)
        return CheckedClaim(
            id=claim.id,
            says=claim.says,
            expected=claim.verdict,
            verdict=verdict,
            figures={name: figures[name] for name in claim.figures if name in figures},
            because=" ".join(sentence for sentence in sentences if sentence),
            undecided=undecided,
            quotes=tuple(quotes[words] for words in claim.quotes if words in quotes),
            basis=tuple(self._asked.basis(name) for name in self._names),
        )

    def _by(self, side: int) -> tuple[Truth, str, dict[str, Any]]:
        """The verdict by one side of the plans, why it is unknown, and the figures."""
        values: dict[str, Any] = {figure.name: figure.value for figure in self._authored.given}

        def lookup(name: str, of: int | str | None) -> Any:
            if isinstance(of, str):
                return self._asked.value(name, of, side)
            if of is None and name in values:
                return values[name]
            index = (of or len(self._starts)) - 1
            return _recorded(name, self._starts[index], self._found, index) if 0 <= index < len(self._starts) else None

        for name, expression in self._claim.figures.items():
            try:
                values[name] = self._computed(expression, lookup)
            except LookupError:
                values[name] = None
        return *self._verdict(values, lookup), values

    def _computed(self, expression: str, lookup: Lookup) -> Any:
        return compute(expression, lookup, self._asked.figures)

    def _verdict(self, values: dict[str, Any], lookup: Lookup) -> tuple[Truth, str]:
        """The verdict, and why it is unknown."""
        claim = self._claim
        choices = [(name, value) for name, values in claim.at.items() for value in values]
        try:
            if claim.only_if and not self._computed(claim.only_if, lookup):
                return Truth.UNKNOWN, "the log does not contain the deciding figures"
            if not choices:
                is_right = bool(self._computed(claim.right_if, lookup))
            else:
                outcomes = []
                for name, value in choices:
                    values[name] = value
                    outcomes.append(bool(self._computed(claim.right_if, lookup)))
                    del values[name]
                is_right = any(outcomes)
        except LookupError as error:
            return Truth.UNKNOWN, str(error)
        if claim.credit and (others := _others(claim.credit, self._starts)) != []:
            text = "are not in this log" if others is None else f"differ in {', '.join(others)} as well"
            return Truth.UNKNOWN, f"launches {' and '.join(map(str, claim.credit.starts))} {text}"
        return Truth.RIGHT if is_right else Truth.WRONG, ""


def _others(credit: Credit, starts: Sequence[ServerRun]) -> list[str] | None:
    """Other settings that differ between two launches; None if a launch is missing."""
    chosen = [starts[number - 1] for number in credit.starts if 0 < number <= len(starts)]
    if len(chosen) != len(credit.starts) or not all(start.arguments for start in chosen):
        return None
    apart = {credit.setting, *credit.apart_from} | FRONT_SETTINGS
    return [name for name in differing(chosen) if name not in apart]


def _recorded(name: str, start: ServerRun, answer: Answer | None, index: int) -> Any:
    """The recorded value of a name."""
    cause = answer.starts[index].root_cause if answer and index < len(answer.starts) else None
    if cause and name in cause.captures:
        return _number(cause.captures[name])
    fact = getattr(start.facts, name, None)
    if fact is not None:
        return fact
    if name in start.arguments:
        return start.arguments[name]
    return max((r.value for r in start.readings if r.name == name), default=None)


def _number(printed: str) -> float | str:
    try:
        return float(printed.replace(",", ""))
    except ValueError:
        return printed


def _quotes(words_quoted: set[str], evidence: Evidence) -> dict[str, Quote]:
    """First line that contains each of the quoted words, from these words on, secrets replaced."""
    quotes: dict[str, Quote] = {}
    for index, document in enumerate(evidence.documents if words_quoted else ()):
        for number, line in enumerate(document.text.split("\n"), 1):
            for words in [words for words in words_quoted - quotes.keys() if words in line]:
                clean_line = redact_text(log_lines.clean(line))
                text = clean_line[max(clean_line.find(words), 0) :].rstrip()
                quotes[words] = Quote(index, number, line.index(words) + 1, text[: log_lines.MAX_QUOTE])
    return quotes
