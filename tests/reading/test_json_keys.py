"""JSON values are right where pydantic takes them, and keys are found in the text."""

from __future__ import annotations

import json
import operator
import random
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from vllm_runbooks.core.json_errors import same_words
from vllm_runbooks.reading.arguments.json_keys import judged

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 1.0, 1.5, 0.0, -0.5, 1e300, 10**30, 1.2345678901234568e29),
    *("", "a", "b", "1", "2", " 8 ", "1.0", "1.5", "1_000", "_1", "1__0", "+3", "-3", "1e3", "0x1", "1.", ".5", "01"),
    *("true", "TRUE", "Yes", "off", "t", "nan", "inf", "-inf", "Infinity", "\uff11", "--1", "1 2", "\t1\n", "9" * 30),
    *([], [1], ["a"], [1, "2"], [[1]], {}, {"a": 1}, {"1": "x"}, {"a": None}),
)
_LIMITED = ({"int": {"ge": 1}}, {"int": {"gt": 0}}, {"float": {"ge": 0, "le": 1}}, {"float": {"gt": 0, "lt": 1.0}})
_of: Any = operator.getitem
"""Makes types at run time, which a checker cannot follow."""
_SIMPLE: dict[str, Any] = {"int": int, "float": float, "bool": bool, "str": str, "null": None, "any": Any}


def _type(draw: random.Random, depth: int = 0) -> tuple[Any, Any]:
    """A type in the form of the release data, and the same for pydantic."""
    name = draw.choice(
        [*_SIMPLE, *(("optional", "union", "list", "dict", "tuple", "enum", "limited") if depth < 3 else ())]
    )
    if name in _SIMPLE:
        return name, _SIMPLE[name]
    if name == "enum":
        return {"enum": ["a", "1"]}, Literal["a", "1"]
    if name == "limited":
        kind: Any = draw.choice(_LIMITED)
        (base, limits), *_ = kind.items()
        return kind, Annotated[_SIMPLE[base], Field(**limits)]
    one, one_type = _type(draw, depth + 1)
    if name == "optional":
        return {"optional": one}, _of(Optional, one_type)
    if name == "list":
        return {"list": one}, _of(list, one_type)
    if name == "dict":
        return {"dict": ["str", one]}, _of(dict, (str, one_type))
    other, other_type = _type(draw, depth + 1)
    if name == "union":
        return {"union": [one, other]}, _of(Union, (one_type, other_type))
    return {"tuple": [one, other]}, _of(tuple, (one_type, other_type))


def _value(draw: random.Random, depth: int = 0) -> Any:
    if depth < 2 and draw.random() < 0.2:
        return [_value(draw, depth + 1) for _ in range(draw.randrange(3))]
    if depth < 2 and draw.random() < 0.1:
        return {"a": _value(draw, depth + 1)}
    return draw.choice(_VALUES)


def _is_taken(adapter: TypeAdapter[Any], value: object) -> bool:
    try:
        adapter.validate_json(json.dumps(value))
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_a_value_is_valid_where_pydantic_accepts_it(seed: int) -> None:
    """In lax mode, as vLLM reads JSON options: over random types and values."""
    draw = random.Random(seed)  # noqa: S311 - drawn to be repeated
    for _ in range(60):
        kind, adapted = _type(draw)
        adapter: TypeAdapter[Any] = TypeAdapter(adapted)
        for value in (_value(draw) for _ in range(15)):
            assert (kind, value, judged(value, kind, {}) == []) == (kind, value, _is_taken(adapter, value))


_BOUNDARY: tuple[Any, ...] = (
    *(2.0**63, 2.0**63 - 1024, -(2.0**63), -(2.0**63) + 1024, 2**63, 1e18, 1e19, "1" * 4300, "1" * 4301),
    *(f" {'1' * 4300} ", f" {'1' * 4301}", "1.000", "1.001", "0.0", "1_0.0", "-0", " ", "++1", "1 ", "\u00a01"),
)


@pytest.mark.parametrize("kind", [*_SIMPLE, *_LIMITED], ids=str)
def test_simple_values_are_valid_where_pydantic_accepts_them(kind: Any) -> None:
    """Every value with every simple type, including the limits of numbers."""
    if isinstance(kind, str):
        adapter: TypeAdapter[Any] = TypeAdapter(_SIMPLE[kind])
    else:
        ((base, limits),) = kind.items()
        adapter = TypeAdapter(_of(Annotated, (_SIMPLE[base], Field(**limits))))
    for value in (*_VALUES, *_BOUNDARY):
        assert (kind, value, judged(value, kind, {}) == []) == (kind, value, _is_taken(adapter, value))


@pytest.mark.parametrize(
    ("text", "at"), [('{"a": 1, }', 9), ('{"a": 1,\n}', 9), ("[1, ]", 4), ("[1,\t]", 4), ('{"a": [1,], "b": 2}', 9)]
)
def test_a_trailing_comma_is_reported_alike_on_every_python(text: str, at: int) -> None:
    """Python 3.13 reports the comma, older versions the bracket; the message names the bracket."""
    newer = json.JSONDecodeError(
        f"Illegal trailing comma before end of {'array' if text[at] == ']' else 'object'}", text, text[:at].rindex(",")
    )
    with pytest.raises(json.JSONDecodeError) as older:
        json.loads(text)
    wanted = same_words(older.value)

    assert (same_words(newer).msg, same_words(newer).pos) == (wanted.msg, wanted.pos)
    assert wanted.pos == at
