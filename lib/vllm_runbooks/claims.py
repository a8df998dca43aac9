"""What a document says about a recorded case, judged on the case's own record; and what starts have in common.

A claim is data: expressions over names that are looked up in the record. What is not known makes the verdict unknown,
never a guess.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, cast

from vllm_runbooks.diagnosis import fill
from vllm_runbooks.records import (
    Answer,
    Claim,
    Claims,
    Comparison,
    Credit,
    Evidence,
    JudgedClaim,
    Quote,
    Start,
    Throughput,
    Truth,
)
from vllm_runbooks.redact import redact_text
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

Lookup = Callable[[str, "int | None"], Any]
"""Value of a name, of a start by number or (None) of none in particular; None where it is not known."""


class _UnknownError(Exception):
    """A name of an expression has no value."""


def faults(expression: str) -> list[str]:
    """Why an expression cannot be computed, in words; empty where it can."""
    try:
        tree = _parsed(expression)
        list(_checked(tree))
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


def _checked(node: ast.expr) -> Iterator[ast.expr]:
    """Every part of an expression; ValueError for one that is not among the few that are computed."""
    yield node
    parts: list[ast.expr]
    match node:
        case ast.Name() | ast.Constant(value=bool() | int() | float() | str()):
            parts = []
        case ast.Attribute(value=ast.Name(id=name)) if _start_number(name):
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
                f"holds {ast.unparse(node)!r}; use numbers, words, names, start2.name, + - * /, comparisons, and, or, "
                "not, abs(…), known(…)"
            )
    for part in parts:
        yield from _checked(part)


def _start_number(name: str) -> int | None:
    number = name.removeprefix(_START)
    return int(number) if name.startswith(_START) and number.isdecimal() and number.isascii() else None


def compute(expression: str, lookup: Lookup) -> Any:
    """The value of an expression.

    Raises:
        LookupError: a name in it is not known, or what is known cannot be computed with; says which.
    """
    try:
        tree = _parsed(expression)
        list(_checked(tree))
        return _value(tree, lookup)
    except _UnknownError as unknown:
        raise LookupError(f"{unknown} is not in this log") from None
    except (TypeError, ValueError, ArithmeticError):
        raise LookupError(f"{expression} cannot be computed from this log") from None


def _value(node: ast.expr, lookup: Lookup) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return _known(lookup(name, None), name)
        case ast.Attribute(value=ast.Name(id=start), attr=name):
            return _known(lookup(name, _start_number(start)), f"{name} of {start}")
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


def _known(value: Any, name: str) -> Any:
    if value is None:
        raise _UnknownError(name)
    return value


def _is_known(node: ast.expr, lookup: Lookup) -> bool:
    try:
        _value(node, lookup)
    except _UnknownError:
        return False
    return True


def judge(authored: Claims, found: Answer, starts: Sequence[Start], evidence: Evidence) -> tuple[JudgedClaim, ...]:
    """Judge every claim on the starts of the case it belongs to."""
    quotes = _quotes({words for claim in authored.claims for words in claim.quotes}, evidence)
    return tuple(_judged(claim, authored, found, starts, quotes) for claim in authored.claims)


def _judged(
    claim: Claim, authored: Claims, found: Answer, starts: Sequence[Start], quotes: Mapping[str, Quote]
) -> JudgedClaim:
    own: dict[str, Any] = {given.name: given.value for given in authored.given}

    def lookup(name: str, number: int | None) -> Any:
        if number is None and name in own:
            return own[name]
        index = (number or len(starts)) - 1
        return _recorded(name, starts[index], found, index) if 0 <= index < len(starts) else None

    for name, expression in claim.figures.items():
        try:
            own[name] = compute(expression, lookup)
        except LookupError:
            own[name] = None
    verdict, undecided = _verdict(claim, own, lookup, starts)
    captures = dict(found.root_cause.captures) if found.root_cause else {}
    shown = {name: _shown(value) for name, value in own.items() if value is not None}
    facts = starts[-1].facts if starts else found.facts
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
    )


def _verdict(claim: Claim, own: dict[str, Any], lookup: Lookup, starts: Sequence[Start]) -> tuple[Truth, str]:
    """The verdict, and why it is unknown where it is."""
    choices = [(name, value) for name, values in claim.at.items() for value in values]
    try:
        if claim.only_if and not compute(claim.only_if, lookup):
            return Truth.UNKNOWN, "the log does not hold what would decide it"
        if not choices:
            is_right = bool(compute(claim.right_if, lookup))
        else:
            outcomes = []
            for name, value in choices:
                own[name] = value
                outcomes.append(bool(compute(claim.right_if, lookup)))
                del own[name]
            is_right = any(outcomes)
    except LookupError as error:
        return Truth.UNKNOWN, str(error)
    if claim.credit and (others := _others(claim.credit, starts)) != []:
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


def _recorded(name: str, start: Start, found: Answer, index: int) -> Any:
    """What the record of a start says under a name."""
    cause = found.starts[index].root_cause if index < len(found.starts) else None
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
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{int(value):,}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


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
