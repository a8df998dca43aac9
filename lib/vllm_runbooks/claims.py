"""What a document says about a recorded case, judged on its record, on plans and lookups; what starts have in common.

A claim is data: expressions over names that are looked up in the record, in a plan, among the cards or among the lines
that a release prints. What is not known makes the verdict unknown, never a guess.
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from types import MappingProxyType
from typing import Any, cast

from vllm_runbooks import options, sites
from vllm_runbooks.diagnosis import fill
from vllm_runbooks.errors import InputError
from vllm_runbooks.plan_records import Layout, Layouts, Plan, PlannedRank
from vllm_runbooks.records import (
    Answer,
    BestLayout,
    Case,
    Claim,
    Claims,
    Comparison,
    Credit,
    Evidence,
    Expectation,
    Facts,
    JudgedClaim,
    Judgement,
    PlanAsked,
    Quote,
    Start,
    Throughput,
    Truth,
    Verdict,
)
from vllm_runbooks.redact import redact_text
from vllm_runbooks.specs import Gpu
from vllm_runbooks.startup_log import log_lines

MAX_EXPRESSION = 300
_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_FUNCTIONS = ("abs", "known")
_START = "start"
FRONT_SETTINGS = frozenset({
    "api_key", "chat_template", "chat_template_content_format", "enable_auto_tool_choice", "host", "model_tag", "port",
    "reasoning_parser", "served_model_name", "tool_call_parser", "uvicorn_log_level",
})  # fmt: skip
"""Settings of the server in front of the engine: they change neither memory nor speed."""

TERMS = ("weights", "activation", "encoder", "cuda_graphs", "non_torch", "communication")
"""Parts of a card's memory that a plan has a figure of."""
PLAN_FIGURES = frozenset(
    {
        *(f"{least}{name}_gib" for name in TERMS for least in ("", "least_")),
        "available_gib", "most_available_gib", "total_gib", "most_total_gib", "fits", "kv_cache_gib", "kv_cache_tokens",
        "kv_cache_blocks", "max_concurrency", "needed_gib", "longest_context", "replicas", "tp", "pp", "dp", "cards",
        "total_concurrency",
    }
)  # fmt: skip
CARD_FIGURES = frozenset({"exists", "why", "memory_gib", "capability", "has_fp8"})
LINE_FIGURES = frozenset({"printed"})

Lookup = Callable[[str, "int | str | None"], Any]
"""Value of a name: of a start by number, of a plan, card or line by name, or (None) of none in particular; None where
it is not known."""
Figures = Mapping[str, frozenset[str]]
"""By the name of a plan, card or line the figures that it has."""
Planned = Callable[[PlanAsked], "Plan | Layouts"]
"""Answers a question to the planner; InputError where nothing can be planned."""
_LOW, _EXPECTED, _HIGH = range(3)


class _UnknownError(Exception):
    """A name of an expression has no value; says why."""


def figures(authored: Claims) -> Figures:
    """What expressions of a file of claims may ask of its plans, cards and lines."""
    tables = ((authored.plans, PLAN_FIGURES), (authored.cards, CARD_FIGURES), (authored.lines, LINE_FIGURES))
    return {name: known for table, known in tables for name in table}


def faults(expression: str, known: Figures = MappingProxyType({})) -> list[str]:
    """Why an expression cannot be computed, in words; empty where it can."""
    try:
        tree = _parsed(expression)
        list(_checked(tree, known))
    except ValueError as error:
        return [str(error)]
    return []


def _parsed(expression: str) -> ast.expr:
    if len(expression) > MAX_EXPRESSION:
        raise ValueError(f"is longer than {MAX_EXPRESSION} characters; compute a part of it under figures")
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("is no expression; write one such as 0.9 * gpu_total_gib <= initial_gib") from None


def _checked(node: ast.expr, known: Figures) -> Iterator[ast.expr]:
    """Every part of an expression; ValueError for one that is not among the few that are computed."""
    yield node
    parts: list[ast.expr]
    match node:
        case ast.Name() | ast.Constant(value=bool() | int() | float() | str()):
            parts = []
        case ast.Attribute(value=ast.Name(id=name)) if _start_number(name):
            parts = []
        case ast.Attribute(value=ast.Name(id=name), attr=figure) if name in known:
            if figure not in known[name]:
                raise ValueError(f"asks {name} for {figure}; it has {', '.join(sorted(known[name]))}")
            parts = []
        case ast.BoolOp(values=parts):
            pass
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            parts = [operand]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            parts = [left, right]
        case ast.Compare(left=left, ops=ops, comparators=comparators) if all(type(op) in _OPERATORS for op in ops):
            parts = [left, *comparators]
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            parts = [argument]
        case _:
            raise ValueError(
                f"holds {ast.unparse(node)!r}; use numbers, words, names, start2.name, figures of what the file names, "
                "+ - * /, comparisons, and, or, not, abs(…), known(…)"
            )
    for part in parts:
        yield from _checked(part, known)


def _start_number(name: str) -> int | None:
    number = name.removeprefix(_START)
    return int(number) if name.startswith(_START) and number.isdecimal() and number.isascii() else None


def compute(expression: str, lookup: Lookup, known: Figures = MappingProxyType({})) -> Any:
    """The value of an expression.

    Raises:
        LookupError: a name in it is not known, or what is known cannot be computed with; says which.
    """
    try:
        tree = _parsed(expression)
        list(_checked(tree, known))
        return _value(tree, lookup)
    except _UnknownError as unknown:
        raise LookupError(str(unknown)) from None
    except (TypeError, ValueError, ArithmeticError):
        raise LookupError(f"{expression} cannot be computed from this log") from None


def _value(node: ast.expr, lookup: Lookup) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return _known(lookup(name, None), f"{name} is not in this log")
        case ast.Attribute(value=ast.Name(id=of), attr=name):
            number = _start_number(of)
            said = f"{name} of {of} is not in this log" if number else f"{name} of {of} is not known"
            return _known(lookup(name, number or of), said)
        case ast.BoolOp(op=op, values=values):
            truths = (bool(_value(value, lookup)) for value in values)
            return all(truths) if isinstance(op, ast.And) else any(truths)
        case ast.UnaryOp(op=op, operand=operand):
            found = _value(operand, lookup)
            return not found if isinstance(op, ast.Not) else -found
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_value(left, lookup), _value(right, lookup))
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            values = [_value(part, lookup) for part in (left, *comparators)]
            pairs = zip(ops, values, values[1:], strict=False)
            return all(_OPERATORS[type(op)](one, other) for op, one, other in pairs)
        case ast.Call(func=ast.Name(id="known"), args=[argument]):
            return _is_known(argument, lookup)
        case _:  # `_checked` lets nothing else through
            return abs(_value(cast("ast.Call", node).args[0], lookup))


def _known(value: Any, said: str) -> Any:
    if value is None:
        raise _UnknownError(said)
    return value


def _is_known(node: ast.expr, lookup: Lookup) -> bool:
    try:
        _value(node, lookup)
    except _UnknownError:
        return False
    return True


class _Asked:
    """What the plans, cards and lines of a file of claims say; each is asked once, when an expression needs it."""

    def __init__(self, authored: Claims, planned: Planned | None, card: Callable[[str], Gpu] | None) -> None:
        self.figures = figures(authored)
        self._authored, self._planned, self._card = authored, planned, card
        self._found: dict[str, Plan | Layouts | Gpu | InputError] = {}

    def names(self, claim: Claim) -> list[str]:
        """What a claim's expressions ask, in their order."""
        said = [*claim.figures.values(), claim.right_if, claim.only_if or ""]
        parts = (node for text in said if text for node in ast.walk(_parsed(text)))
        words = dict.fromkeys(part.id for part in parts if isinstance(part, ast.Name))
        return [name for name in words if name in self.figures]

    def has_sides(self, names: Sequence[str]) -> bool:
        """Whether one of them is a plan, whose figures have a low and a high side."""
        return not self._authored.plans.keys().isdisjoint(names)

    def basis(self, name: str) -> str:
        """What is asked under a name, in words."""
        if name in self._authored.plans:
            return f"planned: {in_words(self._authored.plans[name])}"
        if name in self._authored.cards:
            return f"looked up: {self._authored.cards[name].card}"
        line = self._authored.lines[name]
        return f"searched in the messages of vLLM {line.vllm}: {line.text}"

    def value(self, figure: str, name: str, side: int) -> Any:
        """A figure; None where it is not known.

        Raises:
            _UnknownError: nothing can be planned, in the planner's own words.
        """
        if name in self._authored.lines:
            line = self._authored.lines[name]
            wordings = sites.read_wordings(sites.data_folder() / sites.WORDINGS)
            return wordings.has(sites.wording(line.text), options.load(line.vllm).version)
        if name in self._authored.cards:
            return _card_figure(figure, self._looked_up(name, self._card, self._authored.cards[name].card))
        found = self._looked_up(name, self._planned, self._authored.plans[name])
        if isinstance(found, InputError):
            raise _UnknownError(f"{name} cannot be planned: {found}")
        return plan_figures(found, self._authored.plans[name], side).get(figure)

    def _looked_up(self, name: str, answer: Callable[[Any], Any] | None, asked: Any) -> Any:
        if name not in self._found:
            try:
                self._found[name] = InputError("nobody is there to ask") if answer is None else answer(asked)
            except InputError as error:
                self._found[name] = error
        return self._found[name]


def _card_figure(figure: str, found: Gpu | InputError) -> Any:
    if isinstance(found, InputError):
        return {"exists": False, "why": str(found)}.get(figure)
    fp8 = None if found.formats is None else "fp8" in found.formats
    capability = float(found.capability) if found.version and found.capability else None
    return {"exists": True, "memory_gib": found.memory_gib, "capability": capability, "has_fp8": fp8}.get(figure)


def in_words(asked: PlanAsked) -> str:
    """A question to the planner in one line."""
    sizes = ((asked.tp, "tensor"), (asked.pp, "pipeline"), (asked.dp, "data"))
    said = [f"{name} parallel {size}" for size, name in sizes if size is not None] or ["every layout"]
    given = [f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in asked.options.items()]
    return ", ".join((f"{asked.model} on {asked.gpus}", *said, f"vLLM {asked.vllm}", *given))


def plan_figures(found: Plan | Layouts, asked: PlanAsked, side: int = _EXPECTED) -> dict[str, Any]:
    """What a plan says by the names that expressions use; of several layouts what the best says.

    Args:
        found: The plan.
        asked: What was asked.
        side: By the low (0), expected (1) or high (2) reckoning, where the plan has these.
    """
    one = _first(found) if isinstance(found, Layouts) else found
    if one is None:
        return {"fits": found.fits}
    cache = one.kv_cache
    layout = one.layout or Layout(1, asked.tp or 1, asked.pp or 1, asked.dp or 1)
    return {
        **_card_figures(one.per_gpu, side),
        "fits": found.fits,
        "kv_cache_gib": (cache.low, cache.gib, cache.high)[side],
        "kv_cache_tokens": (cache.tokens_low, cache.tokens, cache.tokens_high)[side],
        "kv_cache_blocks": cache.blocks,
        "max_concurrency": cache.max_concurrency,
        "needed_gib": cache.needed_gib,
        "longest_context": cache.longest_context,
        "replicas": layout.replicas,
        "tp": layout.tp,
        "pp": layout.pp,
        "dp": layout.dp,
        "cards": sum(gpu.count for gpu in one.gpus),
        "total_concurrency": one.total_concurrency,
    }


def _first(found: Layouts) -> Plan | None:
    """The best layout that starts, else the one that stands first."""
    starting = [one for one in found.layouts if one.legal and one.fits is not False]
    return next(iter([*starting, *found.layouts]), None)


def _card_figures(ranks: Sequence[PlannedRank], side: int) -> dict[str, float | None]:
    """Amounts of all cards, the most and the least of each; a part that no card has takes nothing."""
    found: dict[str, float | None] = {}
    for name in TERMS if ranks else ():
        terms = [term for rank in ranks for term in rank.terms if term.name == name]
        sizes = [(term.low_gib, term.expected_gib, term.high_gib)[side] for term in terms]
        known = [size for size in sizes if size is not None]
        is_known = len(known) == len(sizes)
        found[f"{name}_gib"] = max(known, default=0.0) if is_known else None
        found[f"least_{name}_gib"] = min(known, default=0.0) if is_known else None
    for name in ("available", "total") if ranks else ():
        sizes = [getattr(rank, f"{name}_gib") for rank in ranks]
        known = [size for size in sizes if size is not None]
        is_known = len(known) == len(sizes)
        found[f"{name}_gib"] = min(known) if is_known else None
        found[f"most_{name}_gib"] = max(known) if is_known else None
    return found


def judge(
    authored: Claims,
    found: Answer | None,
    starts: Sequence[Start],
    evidence: Evidence,
    *,
    planned: Planned | None = None,
    card: Callable[[str], Gpu] | None = None,
) -> tuple[JudgedClaim, ...]:
    """Judge every claim on the starts of the case it belongs to.

    Args:
        authored: The claims.
        found: The diagnosis of the case's log; None: it has none.
        starts: Those of the log.
        evidence: The case.
        planned: Answers questions to the planner.
        card: Finds a graphics card by its name; InputError where there is none.
    """
    quotes = _quotes({words for claim in authored.claims for words in claim.quotes}, evidence)
    asked = _Asked(authored, planned, card)
    return tuple(_Judged(claim, authored, found, starts, asked).record(quotes) for claim in authored.claims)


class _Judged:
    """One claim on its way to a verdict."""

    def __init__(
        self, claim: Claim, authored: Claims, found: Answer | None, starts: Sequence[Start], asked: _Asked
    ) -> None:
        self._claim, self._authored, self._found, self._starts, self._asked = claim, authored, found, starts, asked

    @cached_property
    def _names(self) -> list[str]:
        return self._asked.names(self._claim)

    def record(self, quotes: Mapping[str, Quote]) -> JudgedClaim:
        """The claim as it is judged; by a plan's figures only where its low and its high side say the same."""
        claim, found = self._claim, self._found
        verdict, undecided, own = self._by(_EXPECTED)
        if verdict is not Truth.UNKNOWN and self._asked.has_sides(self._names):
            for side in (_LOW, _HIGH):
                other, why, _ = self._by(side)
                if other is not verdict:
                    verdict, undecided = Truth.UNKNOWN, why or "it is too close for what the plan does not know exactly"
                    break
        captures = dict(found.root_cause.captures) if found and found.root_cause else {}
        shown = {name: _shown(value) for name, value in own.items() if value is not None}
        facts = self._starts[-1].facts if self._starts else found.facts if found else Facts()
        sentences = (fill(sentence, {**captures, **shown}, facts) for sentence in claim.because)
        return JudgedClaim(
            id=claim.id,
            says=claim.says,
            expected=claim.verdict,
            verdict=verdict,
            figures={name: shown[name] for name in claim.figures if name in shown},
            because=" ".join(sentence for sentence in sentences if sentence),
            undecided=undecided,
            quotes=tuple(quotes[words] for words in claim.quotes if words in quotes),
            basis=tuple(self._asked.basis(name) for name in self._names),
        )

    def _by(self, side: int) -> tuple[Truth, str, dict[str, Any]]:
        """The verdict by one side of the plans, why it is unknown where it is, and the figures."""
        own: dict[str, Any] = {given.name: given.value for given in self._authored.given}

        def lookup(name: str, of: int | str | None) -> Any:
            if isinstance(of, str):
                return self._asked.value(name, of, side)
            if of is None and name in own:
                return own[name]
            index = (of or len(self._starts)) - 1
            return _recorded(name, self._starts[index], self._found, index) if 0 <= index < len(self._starts) else None

        for name, expression in self._claim.figures.items():
            try:
                own[name] = self._computed(expression, lookup)
            except LookupError:
                own[name] = None
        return *self._verdict(own, lookup), own

    def _computed(self, expression: str, lookup: Lookup) -> Any:
        return compute(expression, lookup, self._asked.figures)

    def _verdict(self, own: dict[str, Any], lookup: Lookup) -> tuple[Truth, str]:
        """The verdict, and why it is unknown where it is."""
        claim = self._claim
        choices = [(name, value) for name, values in claim.at.items() for value in values]
        try:
            if claim.only_if and not self._computed(claim.only_if, lookup):
                return Truth.UNKNOWN, "the log does not hold what would decide it"
            if not choices:
                is_right = bool(self._computed(claim.right_if, lookup))
            else:
                outcomes = []
                for name, value in choices:
                    own[name] = value
                    outcomes.append(bool(self._computed(claim.right_if, lookup)))
                    del own[name]
                is_right = any(outcomes)
        except LookupError as error:
            return Truth.UNKNOWN, str(error)
        if claim.credit and (others := _others(claim.credit, self._starts)) != []:
            said = "are not in this log" if others is None else f"differ in {', '.join(others)} as well"
            return Truth.UNKNOWN, f"starts {' and '.join(map(str, claim.credit.starts))} {said}"
        return Truth.RIGHT if is_right else Truth.WRONG, ""


def _others(credit: Credit, starts: Sequence[Start]) -> list[str] | None:
    """Settings that differ between two starts beside the one that gets the credit; None where a start is missing."""
    chosen = [starts[number - 1] for number in credit.starts if 0 < number <= len(starts)]
    if len(chosen) != len(credit.starts) or not all(start.arguments for start in chosen):
        return None
    apart = {credit.setting, *credit.apart_from} | FRONT_SETTINGS
    return [name for name in differing(chosen) if name not in apart]


def _recorded(name: str, start: Start, found: Answer | None, index: int) -> Any:
    """What the record of a start says under a name."""
    cause = found.starts[index].root_cause if found and index < len(found.starts) else None
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


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{int(value):,}" if isinstance(value, (int, float)) else str(value)


def _quotes(wanted: set[str], evidence: Evidence) -> dict[str, Quote]:
    """The first line that holds each of the wanted words, from these words on, secrets replaced."""
    found: dict[str, Quote] = {}
    for index, document in enumerate(evidence.documents if wanted else ()):
        for number, line in enumerate(document.text.split("\n"), 1):
            for words in [words for words in wanted - found.keys() if words in line]:
                shown = redact_text(log_lines.clean(line))
                said = shown[max(shown.find(words), 0) :].rstrip()
                found[words] = Quote(index, number, line.index(words) + 1, said[: log_lines.MAX_QUOTE])
    return found


def other_verdicts(case: Case, judged: Sequence[JudgedClaim]) -> list[str]:
    """The case's claims that did not come out as written, a sentence each."""
    verdicts = {claim.id: claim for claim in judged}
    return [
        f"claim {name}: expected {verdicts[name].expected}, got {verdicts[name].verdict}"
        if name in verdicts
        else f"claim {name}: not judged"
        for name in case.expect.claims or ()
        if name not in verdicts or verdicts[name].verdict is not verdicts[name].expected
    ]


def judge_plan(found: Plan | Layouts, case: Case | None, judged: Sequence[JudgedClaim] = ()) -> Judgement:
    """The verdict on a plan: against the case whose question it answers and its claims, else on whether it fits."""
    if case is not None and case.plan is not None:
        differences = [*_planned_otherwise(found, case.plan, case.expect), *other_verdicts(case, judged)]
        verdict = Verdict.FAIL if differences else Verdict.PASS
        reason = "; ".join(differences) or f"as expected: {_told(found.fits)}"
        return Judgement(verdict, reason, case.id, None, None, ())
    limits = found.limits[:1] if isinstance(found, Plan) and not found.fits else ()
    return Judgement(
        Verdict.PASS if found.fits else Verdict.FAIL, "; ".join((_told(found.fits), *limits)), None, None, None, ()
    )


_FITS = {True: "it fits", False: "it does not fit", None: "whether it fits is not known"}


def _told(fits: bool | None) -> str:  # noqa: FBT001 - three values, one sentence each
    return _FITS[fits]


def _planned_otherwise(found: Plan | Layouts, asked: PlanAsked, expect: Expectation) -> Iterator[str]:
    if expect.fits is not None and found.fits is not expect.fits:
        yield f"expected: {_told(expect.fits)}, got: {_told(found.fits)}"
    values = plan_figures(found, asked)
    if expect.best is not None:
        best = BestLayout(*(values.get(name, 0) for name in ("replicas", "tp", "pp", "dp")))
        if best != expect.best:
            yield f"best layout: expected {_layout(expect.best)}, got {_layout(best)}"
    for name, wanted in expect.per_gpu.items():
        got = values.get(name)
        if got is None or round(got, _decimals(wanted)) != wanted:
            yield f"{name}: expected {wanted:,}, got {'unknown' if got is None else _shown(float(got))}"


def _layout(layout: BestLayout) -> str:
    return f"{layout.replicas} x (tensor {layout.tp}, pipeline {layout.pp}, data {layout.dp})"


def _decimals(number: float) -> int:
    return 0 if number.is_integer() else len(str(number).partition(".")[2])


def differing(starts: Sequence[Start]) -> dict[str, list[Any]]:
    """Settings that are not the same in all starts, each with its value by start; None: not set."""
    names = dict.fromkeys(name for start in starts for name in start.arguments)
    rows = {name: [start.arguments.get(name) for start in starts] for name in names}
    return {name: values for name, values in sorted(rows.items()) if any(value != values[0] for value in values)}


def steady(samples: Sequence[Throughput]) -> list[bool]:
    """Whether each periodic line is an average over a time that was busy from its beginning to its end."""
    busy = [sample.running is not None and sample.running > 0 for sample in samples]
    return [is_busy and was_busy for is_busy, was_busy in zip(busy, [False, *busy], strict=False)]


def comparable(starts: Sequence[Start]) -> list[Comparison]:
    """Which figures of several starts may be set side by side, and why the others may not."""
    if len(starts) < 2:
        return []
    return [
        Comparison("weights and KV cache in GiB", may=True, why="memory taken on the GPU: one measure in every start"),
        _tokens(starts),
        _concurrency(starts),
        _load(starts),
        _speed(starts),
    ]


def _tokens(starts: Sequence[Start]) -> Comparison:
    name = "KV cache in tokens"
    meanings = {start.facts.kv_cache_tokens_meaning for start in starts}
    models = {start.facts.model for start in starts}
    slots = next((n for n, s in enumerate(starts, 1) if s.facts.kv_cache_tokens_meaning == "slots"), None)
    if slots is not None and (len(meanings) > 1 or len(models) > 1):
        facts = starts[slots - 1].facts
        tokens, context = facts.kv_cache_tokens or 0, facts.max_concurrency_tokens or facts.max_model_len or 1
        return Comparison(
            name,
            may=False,
            why=f"they are slots of one layer group: in start {slots}, {tokens:,} / {context:,} = "
            f"{tokens / context:.2f}, and vLLM itself says {facts.max_concurrency:g} requests",
        )
    if None in meanings:
        return Comparison(name, may=None, why="a start does not print tokens, context and concurrency together")
    return Comparison(name, may=True, why="they mean the same in every start")


def _concurrency(starts: Sequence[Start]) -> Comparison:
    contexts = {start.facts.max_concurrency_tokens or start.facts.max_model_len for start in starts}
    if None in contexts or any(start.facts.max_concurrency is None for start in starts):
        return Comparison("concurrency", may=None, why="a start does not print it, or not for which context")
    lengths = [f"{length:,}" for length in sorted(length for length in contexts if length)]
    if len(lengths) > 1:
        return Comparison("concurrency", may=False, why=f"stated for requests of {' and '.join(lengths)} tokens")
    return Comparison("concurrency", may=True, why=f"stated for requests of {lengths[0]} tokens in every start")


def _load(starts: Sequence[Start]) -> Comparison:
    parts = []
    for number, start in enumerate(starts, 1):
        download = max((r.value for r in start.readings if r.name == "download_seconds"), default=None)
        if download and start.facts.load_seconds:
            parts.append(f"in start {number}, {download:.0f} of {start.facts.load_seconds:.0f} s")
    if parts:
        return Comparison("time to load", may=False, why=f"part of it is the download: {'; '.join(parts)}")
    if any(start.facts.load_seconds is None for start in starts):
        return Comparison("time to load", may=None, why="a start does not print it")
    return Comparison("time to load", may=True, why="no start downloaded the weights while loading; caches may differ")


def _speed(starts: Sequence[Start]) -> Comparison:
    name = "generation in tokens/s"
    if any(start.facts.generation_tokens_per_s_max is None or not start.arguments for start in starts):
        return Comparison(name, may=None, why="a start prints no throughput, or not its settings")
    unsteady = [str(n) for n, s in enumerate(starts, 1) if not any(steady(s.throughput))]
    apart = {
        (one, two): [n for n in differing([starts[one - 1], starts[two - 1]]) if n not in FRONT_SETTINGS]
        for one, two in combinations(range(1, len(starts) + 1), 2)
    }
    (one, two), nearest = min(apart.items(), key=lambda item: len(item[1]))
    why = []
    if len(nearest) > 1:
        why.append(f"no two starts differ in one setting alone; starts {one} and {two} differ in {', '.join(nearest)}")
    if unsteady:
        why.append(f"no line of start {' and '.join(unsteady)} covers an interval that was busy throughout")
    may = f"starts {one} and {two} differ in {', '.join(nearest) or 'nothing'} alone"
    return Comparison(name, may=not why, why="; ".join(why) or may)
