"""An argument vector is checked as the release's parser would, and each error has its place."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks.catalog import options
from vllm_runbooks.reading.arguments import Parsed, json_keys, parse, parse_call, spelling, typed
from vllm_runbooks.reading.arguments.conditions import UNKNOWN, Values, holds, names
from vllm_runbooks.reading.arguments.json_keys import judged, place
from vllm_runbooks.reading.arguments.spelling import alike
from vllm_runbooks.reading.arguments.values import ValueReader, human_number
from vllm_runbooks.reading.arguments.words import config_words, rewrite

_OLD, _MIDDLE, _NEW = "0.7.2", "0.11.0", "0.33.0"


def _told(parsed: Parsed) -> list[tuple[str, int | None, str | None]]:
    return [(problem.kind, problem.word, problem.option) for problem in parsed.problems]


def _says(parsed: Parsed, kind: str) -> dict[str, str]:
    return dict(next(problem.says for problem in parsed.problems if problem.kind == kind))


_FAULTS: list[tuple[str, list[str | None], list[tuple[str, int | None, str | None]]]] = [
    ("0.8.5", ["--model=a", "--model", "b"], [("conflict", 1, "--model"), ("duplicate", 1, "--model")]),
    (_NEW, ["m", "--port", "8000", "-tp", "2"], []),
    (_NEW, ["m", "--port", "eight"], [("wrong-type", 2, "--port")]),
    (_NEW, ["m", "--port=1.5"], [("wrong-type", 1, "--port")]),
    (_NEW, ["m", "--lora-modules", "a=/b=c"], []),
    (_OLD, ["m", "--lora-modules", "a=/b"], []),
    (_OLD, ["m", "--lora-modules", "a=/b=c"], [("wrong-type", 2, "--lora-modules")]),
    (_NEW, ["m", "--port"], [("missing-value", 1, "--port")]),
    (_NEW, ["m", "--port", "--seed", "1"], [("missing-value", 1, "--port")]),
    (_NEW, ["m", "--max-modle-len", "8"], [("unknown", 1, "--max-modle-len")]),
    (_NEW, ["m", "--swap-space", "4", "--foo", "1"], [("unknown", 1, "--swap-space"), ("unknown", 3, "--foo")]),
    (_NEW, ["--swap-space", "4"], [("unknown", 0, "--swap-space")]),
    (_NEW, ["m", "--dtype", "bf16"], [("wrong-choice", 2, "--dtype")]),
    (_NEW, ["m", "--enforce-eager=true"], [("unexpected-value", 1, "--enforce-eager")]),
    (_NEW, ["m", "--enforce-eager", "true"], [("extra-positional", 2, None)]),
    (_NEW, ["m", "--gpu-memory", "0.9"], [("abbreviation", 1, "--gpu-memory-utilization")]),
    (_NEW, ["m", "--max-num", "8"], [("ambiguous", 1, "--max-num")]),
    (_NEW, ["m", "--max_model_len", "8"], [("underscore", 1, "--max-model-len")]),
    (_NEW, ["m", "--seed", "1", "--seed=2"], [("duplicate", 3, "--seed")]),
    (_NEW, ["m", "-O3"], []),
    (_NEW, ["m", "extra"], [("extra-positional", 1, None)]),
    (_NEW, ["m", "--port 8000"], [("extra-positional", 1, None)]),
    (_NEW, ["m", "--hf-overrides", "{'a': 1}"], [("bad-json", 2, "--hf-overrides")]),
    (_NEW, ["m", "--compilation-config", '{"mod": 3}'], [("unknown-key", 2, "--compilation-config")]),
    (
        _NEW,
        ["m", "--compilation-config", '{"custom_ops": 3, "no": 1}'],
        [("wrong-key-type", 2, "--compilation-config"), ("unknown-key", 2, "--compilation-config")],
    ),
    (_NEW, ["m", "-cc.mod", "3"], [("unknown-key", 1, "--compilation-config")]),
    (_NEW, ["m", "-cc.custom_ops", "3"], [("wrong-key-type", 2, "--compilation-config")]),
    (_NEW, ["m", "-cc.custom_ops+", "none,+rms_norm"], []),
    (_NEW, ["m", "--enable-auto-tool-choice"], [("conflict", 1, "--enable-auto-tool-choice")]),
    (_NEW, ["m", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"], []),
    (_NEW, ["--model", "m"], [("model-option", 0, "--model")]),
    (_NEW, ["m", "--model", "n"], [("extra-positional", 0, None), ("model-option", 1, "--model")]),
    (_NEW, ["m", "--config", "a.json"], [("wrong-type", 2, "--config")]),
    (_NEW, ["m", "--config=a.yaml"], [("not-read", 1, "--config")]),
    (_NEW, ["m", "--seed", "-1"], []),
    (_MIDDLE, ["m", "--model", "n"], [("conflict", 1, "--model")]),
    (_MIDDLE, ["m", "-O.level=3"], []),
    (_OLD, ["--port", "8000"], [("required", None, "model_tag")]),
    (_OLD, ["m", "--swap-space", "4"], []),
    (_OLD, ["m", "--max-model-len", "8k"], [("wrong-type", 2, "--max-model-len")]),
    (_OLD, ["m", "--limit-mm-per-prompt", "image=2"], []),
    (_OLD, ["m", "--limit-mm-per-prompt", '{"image": 2}'], [("wrong-type", 2, "--limit-mm-per-prompt")]),
]


@in_one_test(("version", "words", "expected"), _FAULTS, ids=lambda value: str(value)[:60])
def test_each_error_is_reported_once_with_its_place(
    version: str, words: list[str | None], expected: list[tuple[str, int | None, str | None]]
) -> None:
    """The reported kind, word and option, and nothing else."""
    assert _told(parse(words, options.load(version))) == expected


_VALUES: list[tuple[list[str], str, Any]] = [
    (["--port", " 8000 "], "port", 8000),
    (["--max-model-len", "1.5k"], "max_model_len", 1500),
    (["--max-model-len", "8K"], "max_model_len", 8192),
    (["--max-model-len", "auto"], "max_model_len", -1),
    (["--gpu-memory-utilization", "9e-1"], "gpu_memory_utilization", 0.9),
    (["--enforce-eager"], "enforce_eager", True),
    (["--no-enforce-eager"], "enforce_eager", False),
    (["--served-model-name", "a", "b"], "served_model_name", ["a", "b"]),
    (["--middleware", "a", "--middleware=b"], "middleware", ["a", "b"]),
    (["--hf-overrides", '{"a": 1}'], "hf_overrides", {"a": 1}),
    (["--hf-overrides.a.b", "1", "--hf-overrides.c", "x"], "hf_overrides", {"a": {"b": 1}, "c": "x"}),
    (["--limit-mm-per-prompt.image", "2"], "limit_mm_per_prompt", {"image": 2}),
    (["--quantization", "None"], "quantization", None),
    (["-tp=2"], "tensor_parallel_size", 2),
]


@in_one_test(("words", "dest", "expected"), _VALUES, ids=lambda value: str(value)[:50])
def test_values_are_typed_as_the_parser_types_them(words: list[str], dest: str, expected: object) -> None:
    """The value of an option has the type that its release gives it."""
    parsed = parse(["m", *words], options.load(_NEW))
    assert (parsed.flags[dest], parsed.is_refused, parsed.model) == (expected, False, "m")


@pytest.mark.parametrize(
    "words",
    [
        [None],
        ["m", None],
        ["m", "--port", None],
        ["m", None, "x"],
        [None, "m", "--seed", "1"],
        ["m", "--compilation-config.mode", None],
        ["m", "--dtype", None, "--hf-overrides", None],
        ["--enable-auto-tool-choice", "m", None],
    ],
)
def test_nothing_is_reported_about_unknown_words(words: list[str | None]) -> None:
    """An unknown word may be any value, any option, or nothing."""
    assert [problem for problem in parse(words, options.load(_NEW)).problems if problem.is_refusal] == []


def test_an_unknown_value_is_kept_as_unknown() -> None:
    """A value that cannot be known is in the flags all the same."""
    assert parse(["m", "--port", None], options.load(_NEW)).flags == {"port": UNKNOWN, "model": "m"}


def test_places_inside_a_word_are_offsets_into_it() -> None:
    """Places of a JSON error, of a key, and of a value after `=`."""
    data = options.load(_NEW)
    cut = parse(["m", '--hf-overrides={"a": 1,}'], data)
    key = parse(["m", "--compilation-config", '{"mode": 3, "mod": 1}'], data)
    value = parse(["m", "--dtype=bf16"], data)
    assert (_says(cut, "bad-json")["at"], _says(key, "unknown-key")["at"], _says(value, "wrong-choice")["at"]) == (
        "23",
        "12",
        "8",
    )


def test_hints_name_the_nearest_option() -> None:
    """A misspelt option, choice or key is reported with the nearest name."""
    data = options.load(_NEW)
    option = _says(parse(["m", "--max-modle-len", "8"], data), "unknown")
    choice = _says(parse(["m", "--dtype", "flaot16"], data), "wrong-choice")
    key = _says(parse(["m", "--compilation-config", '{"custom_op": []}'], data), "unknown-key")
    assert (option["near"].split()[0], choice["near"], key["near"]) == ("--max-model-len", "float16", "custom_ops")
    # An option is not suggested by what negates it twice.
    negated = _says(parse(["m", "--no-disable-fastapi-dosc"], data), "unknown")
    assert negated["near"].split() == ["--disable-fastapi-docs"]


@pytest.mark.parametrize(("rank", "near"), [("12", "16"), ("24", "32"), ("48", "64"), ("0", "1"), ("513", None)])
def test_the_hint_for_a_number_is_the_next_accepted_one(rank: str, near: str | None) -> None:
    """At least as large as the given one, and not the one with the nearest spelling."""
    data = options.load(_NEW)
    assert _says(parse(["m", "--max-lora-rank", rank], data), "wrong-choice").get("near") == near


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("{'a': 1}", "single-quotes"),
        ('{"a": 1,}', "trailing-comma"),
        ('{"a": True}', "python-literal"),
        ("{a: 1}", "quotes-lost"),
        ('{"a": 1', "cut"),
    ],
)
def test_broken_json_is_reported_with_its_cause(text: str, hint: str) -> None:
    """The most frequent errors of people and shells are distinguished."""
    assert _says(parse(["m", "--default-chat-template-kwargs", text], options.load(_NEW)), "bad-json")["hint"] == hint


def test_each_word_has_a_role() -> None:
    """Options, values, the model, and words with errors."""
    parsed = parse(
        ["m", "--served-model-name", "a", "b", "--seed=1", "-cc.mode", "3", "--swap-space", "4"], options.load(_NEW)
    )
    assert [(role.kind, role.option) for role in parsed.roles] == [
        ("model", None),
        ("option", "--served-model-name"),
        ("value", "--served-model-name"),
        ("value", "--served-model-name"),
        ("option", "--seed"),
        ("option", "--compilation-config"),
        ("value", "--compilation-config"),
        ("option", None),
        ("lost", None),
    ]


@pytest.mark.parametrize(
    ("version", "words", "told", "model", "loaded"),
    [
        (_NEW, ["m", "--port", "8000"], [("model-ignored", 0, None)], None, "Qwen/Qwen3-0.6B"),
        (_NEW, ["--port", "8000", "m", "--model=n"], [("model-ignored", 2, None)], "n", "n"),
        (_NEW, ["m", "--model", None], [("model-ignored", 0, None)], None, ""),
        (_NEW, ["m", "--model", "m"], [], "m", ""),
        (_NEW, [None, "--port", "8000"], [], None, ""),
        (_OLD, ["m", "--model", "n"], [("extra-positional", 0, None)], "n", ""),
    ],
)
def test_the_api_server_does_not_read_its_first_argument(
    version: str, words: list[str | None], told: list[tuple[str, int, None]], model: str | None, loaded: str
) -> None:
    """Where its parser has a place for the model, the model is that of --model all the same, or the default."""
    parsed = parse(words, options.load(version), "api_server")
    says = [problem.says.get("loaded", "") for problem in parsed.problems if problem.kind == "model-ignored"]
    assert (_told(parsed), parsed.model, says or [""]) == (told, model, [loaded])
    assert "model" not in {role.kind for role in parsed.roles}


def test_a_configuration_file_is_checked_if_its_content_is_available() -> None:
    """Its options have the place of the file name; without the content nothing is reported."""
    data = options.load(_NEW)
    words = ["--config", "a.yaml"]
    given = parse(words, data, config={"model": "m", "port": "x", "max-model-len": 8})
    assert (_told(given), given.model) == ([("wrong-type", 1, "--port")], "m")
    assert _told(parse(words, data)) == []


def test_a_check_may_depend_on_an_environment_variable() -> None:
    """The variable counts as unset unless a value is passed."""
    data = options.load(_NEW)
    words = ["m", "--grpc-port", "9000"]
    assert (
        parse(words, data).is_refused,
        parse(words, data, environment={"VLLM_USE_RUST_FRONTEND": "1"}).is_refused,
        parse(words, data, environment={"VLLM_USE_RUST_FRONTEND": None}).is_refused,
    ) == (True, False, False)


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({"model": "m", "tensor_parallel_size": 2, "dtype": "half"}, []),
        ({"tensor_paralel_size": 2}, [("unknown", "tensor_paralel_size")]),
        ({"dtype": "bf16"}, [("wrong-choice", "dtype")]),
        ({"max_model_len": [8]}, [("wrong-type", "max_model_len")]),
        ({"compilation_config": {"mod": 3}}, [("unknown-key", "compilation_config")]),
        ({"dtype": UNKNOWN, "swap_space": UNKNOWN}, [("unknown", "swap_space")]),
    ],
)
def test_keywords_of_a_call_are_checked_only_if_certain(
    keywords: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """Unknown keywords and certainly wrong values are reported, and nothing else."""
    assert [(problem.kind, problem.keyword) for problem in parse_call(keywords, options.load(_NEW))] == expected


_TRIED = {"by": "before f", "accepts": [{}], "refuses": ["abc", 5]}
"""Findings about one of the release's checks."""
_TYPES: list[tuple[Any, Any, bool]] = [
    (1.0, "int", True),
    ("8", "int", True),
    (" 8 ", "int", True),
    (True, "int", True),
    (1.5, "int", False),
    ("abc", "int", False),
    (None, "int", False),
    ("1e3", "float", True),
    (1, "bool", True),
    ("yes", "bool", True),
    (2, "bool", False),
    (1, "str", False),
    (0, {"int": {"gt": 0}}, False),
    ([1, "2"], {"list": "int"}, True),
    ([1, "x"], {"list": "int"}, False),
    ({"a": 1}, {"dict": ["str", "int"]}, True),
    ("b", {"enum": ["a", "b"]}, True),
    ("c", {"optional": {"enum": ["a", "b"]}}, False),
    (None, {"optional": "int"}, True),
    ("x", {"union": ["int", "str"]}, True),
    ([], {"union": ["int", "str"]}, False),
    ("c", {"checked": {"enum": ["a"]}, "by": "before f"}, True),
    ("c", {"checked": {"enum": ["a"]}, "by": "after f"}, False),
    (UNKNOWN, "int", True),
    ("z", {**_TRIED, "checked": {"enum": ["a"]}}, False),
    ("z", {**_TRIED, "checked": {"checked": {"enum": ["a"]}, "by": "before f"}}, False),
    ("a", {**_TRIED, "checked": {"checked": {"enum": ["a"]}, "by": "before f"}}, True),
    ("z", {**_TRIED, "checked": "any"}, True),
    (7, {**_TRIED, "checked": "any"}, False),
    ({"a": "x"}, {**_TRIED, "checked": {"dict": ["str", "int"]}}, True),
    ({"a": "x"}, {**_TRIED, "checked": {"dict": ["str", "int"]}, "any_keys": False}, False),
    ({"a": 1}, {**_TRIED, "checked": {"dict": ["str", "int"]}, "any_keys": False}, True),
]


@in_one_test(("value", "kind", "is_right"), _TYPES, ids=lambda value: str(value)[:40])
def test_json_values_convert_as_pydantic_converts_them(value: object, kind: object, is_right: bool) -> None:  # noqa: FBT001
    """Values that pydantic converts in lax mode are valid."""
    assert (judged(value, kind, {}) == []) == is_right


@pytest.mark.parametrize(
    ("path", "found"),
    [(("a",), '"a"'), (("b", "c"), '"c"'), (("b", "l", 1), "2"), (("b", "l", 2, "x"), '"x"'), (("z",), None)],
)
def test_keys_are_found_in_the_text(path: tuple[str | int, ...], found: str | None) -> None:
    """The place of a key, or of an item of a list."""
    text = '{"s": "a", "a": 1, "b": {"c": {"a": 1}, "l": [1, 2, {"x": 3}]}}'
    at = place(text, path)
    assert (None if at is None or found is None else text[at : at + len(found)]) == found


def test_conditions_with_an_unknown_value_are_unknown() -> None:
    """Only a check that certainly fails is reported."""
    known = {"a": 1, "b": None}
    values = Values(lambda name: known.get(name, UNKNOWN), known.__contains__)
    conditions: list[list[Any]] = [
        ["and", ["arg", "a"], ["not", ["arg", "b"]]],
        ["and", ["arg", "a"], ["arg", "z"]],
        ["or", ["arg", "a"], ["arg", "z"]],
        ["<", ["arg", "b"], ["const", 1]],
        ["some", ["const", ["x", "yy"]], "i", [">", ["len", ["item", "i"]], ["const", 1]]],
    ]
    assert [holds(condition, values) for condition in conditions] == [True, UNKNOWN, 1, UNKNOWN, True]


def test_nearest_prefers_letters_then_words() -> None:
    """A misspelling ranks before a name that only shares words."""
    known = ["--max-model-len", "--max-num-seqs", "--model", "--max-lora-rank"]
    assert alike("--max-modle-len", known) == ["--max-model-len"]


_HOSTILE: list[list[str | None]] = [
    ["--" + "a" * 1_000_000],
    [f"--x{i}" for i in range(5_000)],
    ["m", "--compilation-config", "[" * 1_000_000],
    ["m", "--compilation-config", '{"a":' * 100_000],
    ["m", "-cc" + ".a" * 200_000, "1"],
    ["-" + "h" * 100_000 + "x"],
    ["m", "--compilation-config", '"' * 500_000],
    ["m", "--compilation-config", '{"x":"' + '\\"' * 300_000],
    ["m", "--kv-cache-memory-bytes", "9" * 1_000_000],
    ["m", "-cc.a", "9" * 100_000],
    [None] * 20_000,
    ["m", *["-cc.custom_ops+=a"] * 20_000],
    ["m", "--compilation-config", json.dumps({f"a{i}": 1 for i in range(5_000)})],
    ["m", "--compilation-config", '{"custom_ops": [' + '"x",' * 30_000 + '"y"]}'],
    ["m", "--compilation-config", '{"custom_ops": [' + '"x",' * 30_000 + "1]}"],
    ["m", *["--=x"] * 2_000],
    ["m", "\x00", "\ud800", "--\ud800", "--port=\ud800"],
]


@pytest.mark.slow
@pytest.mark.parametrize("version", [_OLD, _NEW])
@pytest.mark.parametrize("words", _HOSTILE, ids=lambda words: str(words)[:40])
def test_hostile_words_neither_raise_nor_hang(words: list[str | None], version: str) -> None:
    """Any input is answered quickly."""
    data = options.load(version)
    start = time.process_time()
    parse(words, data)
    assert time.process_time() - start < 5


@in_one_test(
    ("release", "words", "expected"),
    [
        (_NEW, ["--gpu-memory-utilization", "1.5"], [(1, "more than 0 and at most 1")]),
        (_NEW, ["--gpu-memory-utilization=0"], [(0, "more than 0 and at most 1")]),
        (_NEW, ["--gpu-memory-utilization", "1"], []),
        (_NEW, ["--tensor-parallel-size", "-1"], [(1, "at least 1")]),
        (_NEW, ["--max-model-len", "-1", "--max-num-seqs", "8"], []),
        (_NEW, ["--max-model-len", "-5"], [(1, "at least -1")]),
        (_NEW, ["--max-num-batched-tokens", "4", "--max-num-seqs", "8"], [(3, "")]),
        (_NEW, ["--max-loras", "0"], []),
        (_NEW, ["--max-loras", "0", "--enable-lora"], [(2, "at least 1")]),
        (_NEW, ["--gpu-memory-utilization", "x"], []),
        (_NEW, ["--gpu-memory-utilization", "nan"], [(1, "more than 0 and at most 1")]),
        (_NEW, ["--max-num-seqs", "9" * 4000], []),
        (_MIDDLE, ["--enable-eplb"], [(0, "")]),
        (_MIDDLE, ["--enable-eplb", "--enable-expert-parallel"], []),
        (_MIDDLE, ["--gpu-memory-utilization", "0"], []),
        (_OLD, ["--gpu-memory-utilization", "1.5"], [(1, "")]),
        (_OLD, ["--tensor-parallel-size", "0"], []),
    ],
)
def test_values_that_only_the_engine_rejects_are_reported(
    release: str, words: list[str], expected: list[tuple[int, str]]
) -> None:
    """The issue has the word and the release's bound; the parser accepts the value."""
    parsed = parse(["m", *words], options.load(release))
    found = [problem for problem in parsed.problems if problem.kind == "out-of-bounds"]

    assert expected == [((problem.word or 0) - 1, problem.says["bound"]) for problem in found]
    assert all(problem.says["bound"] or problem.says["message"] for problem in found)
    assert not found or not parsed.is_refused


def test_engine_checks_apply_to_a_call_as_well() -> None:
    """Unknown values are not checked."""
    call = {"gpu_memory_utilization": 80, "max_num_seqs": UNKNOWN, "tensor_parallel_size": 1, "hf_overrides": {"a": 1}}
    found = parse_call(call, options.load(_NEW))

    assert [(problem.kind, problem.keyword) for problem in found] == [("out-of-bounds", "gpu_memory_utilization")]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--hf-overrides.a", None], {"a": UNKNOWN}),
        (["--hf-overrides.a", None, "--hf-overrides.b", "3"], {"a": UNKNOWN, "b": 3}),
        (["--hf-overrides.a", "x"], {"a": "x"}),
        (["--hf-overrides", ""], ""),
    ],
)
def test_an_object_with_an_unknown_key_keeps_the_others(words: list[str | None], expected: Any) -> None:
    """An object assembled from dotted keys has no text, and is still an object."""
    assert expected == parse(["m", *words], options.load(_NEW)).flags["hf_overrides"]


@pytest.mark.parametrize(
    ("words", "kind", "word", "switch"),
    [
        (["m", "--enforce-eager", "True"], "extra-positional", 2, "--enforce-eager"),
        (["--trust-remote-code", "false", "m"], "extra-positional", 1, "--trust-remote-code"),
        (["m", "--seed", "1", "true"], "extra-positional", 3, None),
        (["m", "--enforce-eager", "None"], "extra-positional", 2, None),
    ],
)
def test_a_boolean_after_a_switch_is_reported(words: list[str], kind: str, word: int, switch: str | None) -> None:
    """Also if it took the model's place; any other word is an unexpected argument."""
    [problem] = [each for each in parse(words, options.load("0.19.0")).problems if each.is_refusal]

    assert (problem.kind, problem.word, problem.says.get("switch")) == (kind, word, switch)


def _textbook_distance(one: str, other: str) -> int:
    """Letters to change, add, drop or swap with the next: the table of the textbook, all of it."""
    rows = [[max(i, j) if not (i and j) else 0 for j in range(len(other) + 1)] for i in range(len(one) + 1)]
    for i, j in itertools.product(range(1, len(one) + 1), range(1, len(other) + 1)):
        ways = [rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (one[i - 1] != other[j - 1])]
        if i > 1 and j > 1 and (one[i - 1], one[i - 2]) == (other[j - 2], other[j - 1]):
            ways.append(rows[i - 2][j - 2] + 1)
        rows[i][j] = min(ways)
    return rows[-1][-1]


def test_the_distance_of_two_names_is_the_edit_distance() -> None:
    """Above the limit any larger number is valid, and the bound by letters is never too large."""
    draw = random.Random(5)  # noqa: S311 - drawn to be repeated
    for _ in range(1500):
        one, other = ("".join(draw.choices("abc", k=draw.randrange(8))) for _ in range(2))
        limit, expected = draw.randrange(1, 5), _textbook_distance(one, other)
        assert (one, other, spelling._distance(one, other, limit)) == (one, other, min(expected, limit + 1))
        lower = spelling._difference(Counter(one), Counter(other))
        assert abs(len(one) - len(other)) <= lower <= expected


@pytest.mark.parametrize(
    ("written", "known", "expected"),
    [
        ("port", ["sort", "part", "pot", "prot", "harbour"], ["part", "pot", "prot"]),
        ("abc", ["axy", "abx"], ["abx"]),
        ("abcdefgh", ["abcdefxy", "abcdexyz"], ["abcdefxy"]),
        ("--model-max-len", ["--max-model-len", "--max-loras"], ["--max-model-len"]),
        ("--MAX_model-len", ["--max-model-len"], ["--max-model-len"]),
        ("a-b-c", ["a-b-c-d-e", "a-b-c-d-e-f"], ["a-b-c-d-e"]),
        ("", ["a", "ab"], ["a"]),
    ],
)
def test_names_match_by_letters_or_by_most_of_their_words(written: str, known: list[str], expected: list[str]) -> None:
    """One letter in four may differ, the nearest three are returned, word order is ignored."""
    assert expected == alike(written, known)


def _items(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inner:
        yield from _items(item, (*path, step))


def _drawn_json(draw: random.Random, depth: int = 0) -> Any:
    kind = draw.random()
    if depth < 4 and kind < 0.4:
        return {name: _drawn_json(draw, depth + 1) for name in draw.sample(["a", "b", 'c"', "d\\", "é", "0"], 3)}
    if depth < 4 and kind < 0.7:
        return [_drawn_json(draw, depth + 1) for _ in range(draw.randrange(4))]
    return draw.choice([None, True, 1, -2.5, "", "a", "{b: [", 'c"', "\\"])


def test_every_place_in_a_json_text_is_found() -> None:
    """The place of a key or an item points at it; a missing one has no place."""
    draw = random.Random(9)  # noqa: S311 - drawn to be repeated
    decoder = json.JSONDecoder()
    for _ in range(250):
        whole = _drawn_json(draw)
        text = json.dumps(whole, indent=draw.choice([None, 1]), ensure_ascii=draw.random() < 0.5)
        for path, value in _items(whole):
            at = place(text, path)
            assert at is not None, (text, path)
            wanted = path[-1] if path and isinstance(path[-1], str) else value
            assert (text, path, decoder.raw_decode(text, at)[0]) == (text, path, wanted)
            if isinstance(value, (dict, list)):
                assert place(text, (*path, len(value) if isinstance(value, list) else "z")) is None


@in_one_test(
    ("operator", "values", "expected"),
    [
        *(("not", (value,), not value) for value in (0, 1, "", "a", [0])),
        *(("bool", (value,), bool(value)) for value in (0, 2, "", [1])),
        *(("len", (value,), len(value)) for value in ("", "ab", [1, 2, 3])),
        *((sign, (1, other), result) for sign, result, other in (("==", False, 2), ("==", True, 1), ("!=", True, 2))),
        *(("<", (1, other), other > 1) for other in (0, 1, 2)),
        *(("<=", (1, other), other >= 1) for other in (0, 1, 2)),
        *((">", (1, other), other < 1) for other in (0, 1, 2)),
        *((">=", (1, other), other <= 1) for other in (0, 1, 2)),
        *(("is", (None, other), other is None) for other in (None, 0)),
        *(("is not", (None, other), other is not None) for other in (None, 0)),
        *(("in", (item, ["a", "b"]), item == "a") for item in ("a", "c")),
        *(("not in", (item, "abc"), item == "d") for item in ("a", "d")),
        *(("+", (1, 2), 3), ("-", (1, 2), -1), ("%", (7, 4), 3), ("-", ("a", "b"), UNKNOWN)),
        *(("set", ([1, "1", 2],), {"1", "2"}), ("values", ({"a": 1},), [1]), ("keys", ({"a": 1},), ["a"])),
        *(("sorted", ([2, 1],), [1, 2]), ("any", ([0, 1],), True), ("all", ([0, 1],), False)),
        *(("startswith", ("ab", "a"), True), ("endswith", ("ab", "a"), False), ("lower", ("A",), "a")),
        *(("upper", ("a",), "A"), ("strip", (" a ",), "a"), ("<", (1, "a"), UNKNOWN), ("%", (1, 0), UNKNOWN)),
        *(("len", ([1, UNKNOWN],), UNKNOWN), ("unheard of", (1,), UNKNOWN), ("lower", (1,), UNKNOWN)),
    ],
)
def test_conditions_evaluate_as_in_python(operator: str, values: tuple[Any, ...], expected: Any) -> None:
    """Each operator; a condition with an error or an unknown part is unknown."""
    found = holds([operator, *(["const", value] for value in values)], Values(dict[str, Any]().get, bool))

    assert (type(found), found) == (type(expected), expected)


_KNOWN: dict[str, Any] = {"t": 1, "f": 0, "l": [1, 5, 9], "d": {"a": 3}, "s": "x"}


@in_one_test(
    ("condition", "expected"),
    [
        (["and"], True),
        (["or"], False),
        (["and", ["arg", "t"], ["const", "last"]], "last"),
        (["and", ["arg", "z"], ["arg", "f"]], 0),
        (["or", ["arg", "f"], ["const", ""]], ""),
        (["or", ["arg", "z"], ["arg", "f"]], UNKNOWN),
        (["given", "t"], True),
        (["given", "z"], False),
        (["env", "HOME"], "env of HOME"),
        (["item", "nothing"], UNKNOWN),
        (["[]", ["arg", "d"], "a"], 3),
        (["[]", ["arg", "l"], 2], 9),
        (["[]", ["arg", "l"], 3], UNKNOWN),
        (["isinstance", ["arg", "s"], "str"], True),
        (["isinstance", ["arg", "s"], "int"], False),
        (["isinstance", ["arg", "s"], "nothing"], UNKNOWN),
        (["filter", ["arg", "l"], "i", [">", ["item", "i"], ["const", 1]], ["-", ["item", "i"], ["const", 1]]], [4, 8]),
        (["filter", ["arg", "l"], "i", [">", ["item", "i"], ["arg", "z"]], ["item", "i"]], UNKNOWN),
        (["some", ["arg", "l"], "i", ["==", ["item", "i"], ["const", 9]]], True),
        (["some", ["arg", "l"], "i", ["==", ["item", "i"], ["const", 2]]], False),
        (["some", ["arg", "s"], "i", ["const", True]], UNKNOWN),
        (["some", ["const", [0] * 1000 + [1]], "i", ["item", "i"]], UNKNOWN),
        (["some", ["const", [0] * 999 + [1]], "i", ["item", "i"]], True),
    ],
)
def test_boolean_operators_and_loops_evaluate_as_in_python(condition: list[Any], expected: Any) -> None:
    """`and` and `or` return the deciding part; loops accept only lists within the size limit."""
    values = Values(lambda name: _KNOWN.get(name, UNKNOWN), _KNOWN.__contains__, "env of {}".format)

    assert holds(condition, values) == expected


def test_the_values_of_a_condition_are_named_in_their_order() -> None:
    """Each variable as often as it is used; constants and local names are left out."""
    condition = [
        "and",
        ["arg", "b"],
        ["given", "c"],
        ["not", ["<", ["arg", "a"], ["const", ["arg", "z"]]]],
        ["env", "E"],
    ]

    assert list(names([*condition, ["some", ["arg", "l"], "i", ["==", ["item", "i"], ["arg", "b"]]]])) == [
        *("b", "a", "l", "b"),
    ]


_FLAGS = {"one": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30, "t": 10**12, "T": 2**40, "k": 10**3}
_HUMAN_JSON: dict[str, Any] = {"dataclass": "X", "expands": "human_numbers", "via": {"reads": "json"}}


@pytest.mark.parametrize("unit", "kKmMgGtT")
def test_a_unit_multiplies_as_vllms_parser_does(unit: str) -> None:
    """Small letters by powers of ten, also of a decimal; capitals by powers of two, of whole numbers alone."""
    assert human_number(f" 3{unit} ") == 3 * _FLAGS[unit]
    assert human_number(f"1.5{unit}") == (_FLAGS[unit] * 3 // 2 if unit.islower() else None)
    assert [human_number(text) for text in (unit, f"1{unit}{unit}", f"-1{unit}", f"1 {unit}", f".5{unit}")] == [
        None
    ] * 5


@in_one_test(
    ("text", "kind", "expected"),
    [
        ('{"a": 8k, "b": [1.5k,2K]}', _HUMAN_JSON, {"a": 8000, "b": [1500, 2048]}),
        ('{"8k": "1k \\" 2k", "c\\\\": 1m}', _HUMAN_JSON, {"8k": '1k " 2k', "c\\": 1_000_000}),
        ('"1k', _HUMAN_JSON, "bad-json"),
        ("4k", _HUMAN_JSON, 4000),
        ("{'a': 1}", {"dataclass": "X", "via": {"reads": "literal"}}, {"a": 1}),
        ("{'a': b}", {"dataclass": "X", "via": {"reads": "literal"}}, "bad-json"),
        ("[" * 60 + "]" * 60, {"dataclass": "X", "via": {"reads": "literal"}}, UNKNOWN),
        ("'" + "a" * 5000 + "'", {"dataclass": "X", "via": {"reads": "literal"}}, UNKNOWN),
        ("'" + "a" * 4998 + "'", {"dataclass": "X", "via": {"reads": "literal"}}, "a" * 4998),
        ("3", {"dataclass": "X", "via": {"words": ["3"]}}, "3"),
        ("{", {"dataclass": "X", "via": {"reads": "other"}}, UNKNOWN),
        ("image=2, Video = 3", "int_pairs", {"image": 2, "video": 3}),
        ("image=2,image=2", "int_pairs", {"image": 2}),
        ("image=2,image=3", "int_pairs", "wrong-type"),
        ("image=2=3", "int_pairs", "wrong-type"),
        ("image", "int_pairs", "wrong-type"),
        ("", "int_pairs", None),
        ("a=1", {"json_or_pairs": r"(?s)\s*\{"}, {"a": 1}),
        ('{"a": 1}', {"json_or_pairs": r"(?s)\s*\{"}, {"a": 1}),
        ("", {"json_or_pairs": r"(?s)\s*\{"}, "wrong-type"),
        ("a", {"json_or_str": r"(?s)\s*\{"}, "a"),
        (" {}", {"json_or_str": r"(?s)\s*\{"}, {}),
        ("a", {"json_or_str": None}, "bad-json"),
        ("", {"optional": "int"}, None),
        ("None", {"optional": "int"}, None),
        ("none", {"optional": "int"}, "wrong-type"),
        ("none", "bool", True),
        ("", "bool", False),
        ("AUTO", "human_int_or_auto", -1),
        (" -1 ", "human_int_or_auto", -1),
        ("1_000", "int", 1000),
        ("1.0", "int", "wrong-type"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_string_is_converted_by_its_type(text: str, kind: Any, expected: Any) -> None:
    """Numbers with units count inside JSON too, but not inside its strings."""
    reader = ValueReader({}, {})
    value = reader.read(text, kind)

    assert ([fault.kind for fault in reader.faults] or [value]) == [expected]


_TRIED_LOWER = {"A-b": {"value": "a_b"}, "cD": {"value": "cd"}}


@pytest.mark.parametrize(
    ("probes", "text", "expected"),
    [
        ({"A": {"value": "a"}, "b": {"value": "b"}}, "X-Y", "x-y"),
        ({"A": {"value": "A"}, "b": {"value": "B"}}, "x-y", "X-Y"),
        ({"A": {"value": "A"}, "b": {"value": "b"}}, "x-Y", "x-Y"),
        ({"none": {"value": ""}, "b": {"value": "b"}}, "x-Y", "x-Y"),
        (_TRIED_LOWER, "X-Y", "x_y"),
        (_TRIED_LOWER, "A-b", "a_b"),
        ({"A": {"value": "a"}, "b": {"value": 5}}, "X", UNKNOWN),
        ({"A": {"error": "E"}}, "A", "wrong-type"),
        ({}, "X", UNKNOWN),
    ],
)
def test_an_unnamed_conversion_repeats_its_samples(probes: dict[str, Any], text: str, expected: Any) -> None:
    """If the recorded samples do not agree, the value is unknown."""
    reader = ValueReader({}, {"f": probes})
    value = reader.read(text, {"opaque": "f"})

    assert ([fault.kind for fault in reader.faults] or [value]) == [expected]


_LORA = {"LoRAModulePath": {"keys": {key: {"type": "str"} for key in ("name", "path")}, "extra": "forbid"}}


@in_one_test(
    ("action", "text", "expected"),
    [
        ("LoRAParserAction", "a=/b", {"name": "a", "path": "/b"}),
        ("LoRAParserAction", "a=/b=c", {"name": "a", "path": "/b=c"}),
        ("LoRAParserAction", '{"name": "a", "path": "b=c"}', {"name": "a", "path": "b=c"}),
        ("LoRAParserAction", '{"name": "a=,", "path": "b"}', {"name": "a=,", "path": "b"}),
        ("LoRAParserAction", '{"name": "a"}', "wrong-type"),
        ("LoRAParserAction", "3", "wrong-type"),
        ("LoRAParserAction", "a", "bad-json"),
        ("LoRAParserAction", '{"name": "a", "path": "b", "more": 1}', "unknown-key"),
        ("LoRAParserAction", "", UNKNOWN),
        ("PromptAdapterParserAction", "a=/b", {"name": "a", "path": "/b"}),
        ("PromptAdapterParserAction", "a=b=c", "wrong-type"),
        ("PromptAdapterParserAction", "a", "wrong-type"),
        ("StoreBoolean", "TRUE", True),
        ("StoreBoolean", "False", False),
        ("StoreBoolean", "1", "wrong-type"),
        ("_StoreAction", "a", "a"),
    ],
)
def test_vllms_own_actions_convert_their_values(action: str, text: str, expected: Any) -> None:
    """Actions of its argument parsers; other actions leave the value as it is."""
    reader = ValueReader(_LORA, {})
    value = reader.read_by_action(text, text, action, {})

    assert ([fault.kind for fault in reader.faults] or [value]) == [expected]


_ALL: dict[str, Any] = dict.fromkeys(("config_no", "config_lists", "config_objects"), True)


@pytest.mark.parametrize(
    ("features", "config", "expected"),
    [
        (_ALL, {"a": True, "b": False, "c": [1, "x"], "d": {"e": 1}, "f": 3}, "--a --no-b --c 1 x --d {'e': 1} --f 3"),
        (_ALL, {"z": False, "c": [], "g": None}, "--g None"),
        ({}, {"a": True, "b": False, "c": [1], "d": {"e": 1}}, "--a --c [1] --d {'e': 1}"),
        ({"config_lists": True}, {"b": False, "c": [1, 2]}, "--c 1 2"),
    ],
)
def test_the_content_of_a_file_becomes_arguments(
    features: dict[str, Any], config: dict[str, Any], expected: str
) -> None:
    """Switches are bare or negated; lists and objects follow the release."""
    words = config_words(config, features, lambda name: name == "--no-b")

    assert " ".join(words).replace('"', "'") == expected


_EXTRA = "extra-positional"


@pytest.mark.parametrize(
    ("words", "told", "roles"),
    [
        (["--", "m"], [], "separator model"),
        (["--seed", "1", "--", "m"], [], "option value separator model"),
        (["m", "--", "x"], [(_EXTRA, 2, None)], "model separator positional"),
        (["--", "m", "x"], [(_EXTRA, 2, None)], "separator model positional"),
        (["m", "--", "--", "x"], [(_EXTRA, 2, None), (_EXTRA, 3, None)], "model separator separator positional"),
        (["m", "--", "--seed", "1"], [(_EXTRA, 2, None), (_EXTRA, 3, None)], "model separator positional positional"),
    ],
)
def test_two_dashes_end_the_options(words: list[str | None], told: list[tuple[str, int, None]], roles: str) -> None:
    """Later words are never options; one `--` belongs to the positional argument after it."""
    parsed = parse(words, options.load(_NEW))

    assert (_told(parsed), " ".join(role.kind for role in parsed.roles), parsed.model) == (told, roles, "m")


@pytest.mark.parametrize(
    ("words", "expected", "kinds"),
    [
        ([".a.b", "1", ".a", '{"c": 2}'], {"a": {"b": 1, "c": 2}}, []),
        (
            [".a", '{"b": {"c": 1, "l": [1]}}', ".a", '{"b": {"d": 2, "l": [2], "c": 3}}'],
            {"a": {"b": {"c": 3, "l": [1, 2], "d": 2}}},
            [],
        ),
        ([".a", '{"b": 1, "c": {"d": 1}}', ".a", '{"b": {"e": 2}, "c": 3}'], {"a": {"b": {"e": 2}, "c": 3}}, []),
        ([".a", "1", ".a.b", "2"], {"a": {"b": 2}}, ["duplicate"]),
        ([".a.b", "1", ".a.b", "2"], {"a": {"b": 2}}, ["duplicate"]),
        ([".l+", "x,y", ".l+", "z"], {"l": ["x", "y", "z"]}, []),
        ([".a=1k"], {"a": 1000}, []),
        ([".a=b.c=d"], {"a": "b.c=d"}, []),
    ],
)
def test_dotted_keys_are_combined(words: list[str], expected: dict[str, Any], kinds: list[str]) -> None:
    """Objects and lists grow, other values are replaced, and a repeated key is reported."""
    given = [f"--hf-overrides{word}" if word.startswith(".") else word for word in words]
    parsed = parse(["m", *given], options.load(_NEW))

    assert (parsed.flags["hf_overrides"], [problem.kind for problem in parsed.problems]) == (expected, kinds)


@pytest.mark.parametrize(
    ("word", "kind", "says"),
    [
        ("-tp2", "unknown", {"hint": "glued", "near": "-tp=2"}),
        ("-1x", "unknown", {}),
        ("-5", _EXTRA, {"value": "-5", "model": "m", "hint": "negative-number"}),
        ("\u2013port", _EXTRA, {"value": "\u2013port", "model": "m", "hint": "dash"}),
        ("--x y", _EXTRA, {"value": "--x y", "model": "m", "hint": "option-in-one-word"}),
        ("--zzz=b c", "unknown", {}),
        ("a" * 121, _EXTRA, {"value": "a" * 120 + "…", "model": "m"}),
        ("a" * 120, _EXTRA, {"value": "a" * 120, "model": "m"}),
        ("--enforce-eager=1", "unexpected-value", {"value": "1", "at": "16"}),
        ("--hf-overrides.a", "missing-value", {"expected": "one value"}),
        ("--port", "missing-value", {"expected": "one value"}),
    ],
)
def test_an_error_hints_at_the_intended_word(word: str, kind: str, says: dict[str, str]) -> None:
    """Joined words, negative numbers, other dashes, two words in one; long words are cut."""
    (problem,) = parse(["m", word], options.load(_NEW)).problems

    assert (problem.kind, problem.word, dict(problem.says)) == (kind, 1, says)


_CLASS = {
    "C": {
        "keys": {
            "a": {"type": "int", "required": True},
            "b": {"type": {"list": "str"}, "alias": "bee"},
            "c": {"type": "int", "init": False},
            "d": {"type": "int", "default": 3},
        },
        "extra": "forbid",
        "conditions": [{"when": [">", ["arg", "a"], ["arg", "d"]], "says": "a > d"}],
    }
}
_WORDS = {"checked": {"enum": ["q"]}, "by": "before f", "words": ["aa", "b-b"], "refuses": ["abc", ["abc"], {}]}


@in_one_test(
    ("value", "kind", "expected"),
    [
        ({"a": 1}, {"object": "C"}, []),
        ({"a": 9}, {"object": "C"}, [("conflict", "a", "")]),
        ({"a": 9, "d": 10}, {"object": "C"}, []),
        ({"a": UNKNOWN, "d": 1}, {"object": "C"}, []),
        ({}, {"object": "C"}, [("wrong-key-type", "", "an object with a")]),
        ([], {"object": "C"}, [("wrong-key-type", "", "an object")]),
        ([], {"object": "of no known keys"}, []),
        ({"a": 1, "b": []}, {"object": "C"}, [("unknown-key", "b", "")]),
        ({"a": 1, "c": 1}, {"object": "C"}, [("unknown-key", "c", "")]),
        (
            {"a": "x", "bee": ["", 1]},
            {"object": "C"},
            [("wrong-key-type", "a", "an integer"), ("wrong-key-type", "bee.1", "a string")],
        ),
        (
            {"x": {"a": "y"}},
            {"dict": ["str", {"union": ["int", {"object": "C"}]}]},
            [("wrong-key-type", "x.a", "an integer")],
        ),
        ("y", {"union": ["int", {"list": "int"}, "int"]}, [("wrong-key-type", "", "an integer or a list")]),
        ("", {"str": {"min_length": 1}}, [("wrong-key-type", "", "a string")]),
        ("abc", {"str": {"max_length": 2}}, [("wrong-key-type", "", "a string")]),
        ("abc", {"str": {"pattern": "x"}}, []),
        (5, {"str": {"pattern": "x"}}, [("wrong-key-type", "", "a string")]),
        ([1], {"tuple": ["int", "int"]}, [("wrong-key-type", "", "a list of 2")]),
        ([1, "x"], {"tuple": ["int", "int"]}, [("wrong-key-type", "1", "an integer")]),
        ([1, "x"], {"tuple": ["int"], "variadic": True}, []),
        ([], {"list": "int", "min_length": 1}, [("wrong-key-type", "", "a list of another length")]),
        ([1, 2], {"set": "int", "max_length": 1}, [("wrong-key-type", "", "a list of another length")]),
        ([1], {"list": "int", "min_length": 1, "max_length": 1}, []),
        (7, {"int": {"multiple_of": 4}}, [("wrong-key-type", "", "an integer a multiple of 4")]),
        (8, {"int": {"multiple_of": 4, "ge": 8}}, []),
        (1, {"never": None}, [("wrong-key-type", "", "not a JSON value")]),
        ("aa", _WORDS, []),
        ("AA", _WORDS, [("wrong-key-type", "", "one of aa b-b")]),
        ("AA", {**_WORDS, "any_case": True}, []),
        ("c-c", {**_WORDS, "words": ["c_c"], "any_dash": True}, []),
        ("c-c", {**_WORDS, "words": ["c_c"]}, [("wrong-key-type", "", "one of c_c")]),
        (
            ["aa", "zz"],
            {**_WORDS, "checked": {"list": "int"}, "words_in": "list"},
            [("wrong-key-type", "", "one of aa b-b")],
        ),
        (["aa", "b-b"], {**_WORDS, "checked": {"list": "int"}, "words_in": "list"}, []),
        ({"k": "aa"}, {**_WORDS, "checked": {"dict": ["str", "int"]}, "words_in": "dict"}, []),
        (
            {"k": "zz"},
            {**_WORDS, "checked": {"dict": ["str", "int"]}, "words_in": "dict"},
            [("wrong-key-type", "", "one of aa b-b")],
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_error_in_json_is_reported_at_its_place(value: Any, kind: Any, expected: list[tuple[str, str, str]]) -> None:
    """In the best matching member of a union; class checks run once all types are valid."""
    found = judged(value, kind, _CLASS)

    assert expected == [(one.kind, ".".join(map(str, one.path)), one.says.get("expected", "")) for one in found]
    assert all(one.says["key"] == ".".join(map(str, one.path)) for one in found)
    assert all(one.says["choices"] == one.says["expected"][7:] for one in found if "choices" in one.says)


def test_a_misspelt_keyword_has_the_name_it_is_near_to() -> None:
    """So has a value outside the choices."""
    call = {"tensor_paralel_size": 2, "dtype": "hlaf", "max_model_len": "x", "enforce_eager": 3, "seed": "1e3"}
    found = {one.keyword: one.says for one in parse_call(call, options.load(_NEW))}

    assert found.keys() == {"tensor_paralel_size", "dtype", "max_model_len"}
    assert found["tensor_paralel_size"]["near"].split()[0] == "tensor_parallel_size"
    assert (found["dtype"]["near"], found["dtype"]["value"]) == ("half", "hlaf")


def _rewritten(
    words: str, features: dict[str, Any], entry: str = "serve", config: dict[str, Any] | None = None
) -> tuple[str, list[str], str, bool]:
    """Rewritten words with the index of their source and value, notes and roles."""
    given = [None if word == "?" else word for word in words.split(" ")] if words else []
    done = rewrite(given, features, entry, config, {"--no-b"}.__contains__)
    tokens = " ".join(f"{token.text}@{token.word}" + f"+{token.shift}" * bool(token.shift) for token in done.tokens)
    remarks = [
        " ".join(
            [one.kind, str(one.word), str(one.option_word), one.option, *(f"{k}={v}" for k, v in one.says.items())]
        )
        for one in done.remarks
    ]
    taken = " ".join(f"{at}:{kind} {option} {word}" for at, (kind, option, word) in sorted(done.consumed.items()))
    return tokens, remarks, taken, done.has_unread_file


_MOVED = {"serve_model": "moved"}
_NEEDS = {"served_name_needs_model": True}
_FIRST = "message=the model must be the first argument of vllm serve dests=model served_model_name"


@pytest.mark.parametrize(
    ("words", "features", "tokens", "remarks", "taken"),
    [
        ("", _MOVED, "", [], ""),
        ("m --a", _MOVED, "m@0 --a@1", [], ""),
        ("--a --model m --b", _MOVED, "m@2 --a@0 --b@3",
         ["model-option 1 1 --model effect=taken as the first argument"], "1:option --model 1"),
        ("--a --model=m --b", _MOVED, "m@1+8 --a@0 --b@2",
         ["model-option 1 1 --model effect=taken as the first argument"], "1:option --model 1"),
        ("--a --model", _MOVED, "--a@0", ["model-option 1 1 --model effect=taken as the first argument",
         "missing-value 1 1 --model expected=one value"], ""),
        ("--a --model=", _MOVED, "@1+8 --a@0",
         ["model-option 1 1 --model effect=taken as the first argument"], "1:option --model 1"),
        ("--a --model=", {**_MOVED, **_NEEDS}, "--a@0 --model=@1", [], ""),
        ("--model m", {"serve_model": "late"}, "--model@0 m@1",
         ["model-option 0 0 --model effect=refused when started"], ""),
        ("--model m", {}, "--model@0 m@1", ["model-option 0 0 --model effect=taken as an option"], ""),
        ("--a --model m", {"serve_model": "refused"}, "--a@0 --model@1 m@2",
         ["conflict 1 1 --model message=the model is the first argument of vllm serve dests=model"], ""),
        ("--a --model=m", {"serve_model": "refused"}, "--a@0 --model=m@1",
         ["model-option 1 1 --model effect=taken as an option"], ""),
        ("? --model m", _MOVED, "m@2 None@0", ["model-option 1 1 --model effect=taken as the first argument"],
         "1:option --model 1"),
        ("--served-model-name x", _NEEDS, "--served-model-name@0 x@1",
         [f"conflict 0 0 --served-model-name {_FIRST}"], ""),
        ("--a 1 --served-model-name=x", _NEEDS, "--a@0 1@1 --served-model-name=x@2",
         [f"conflict 2 2 --served-model-name {_FIRST}"], ""),
        ("m --served-model-name x", _NEEDS, "m@0 --served-model-name@1 x@2", [], ""),
        ("? --served-model-name x", _NEEDS, "None@0 --served-model-name@1 x@2", [], ""),
        ("--served-model-name x", {}, "--served-model-name@0 x@1", [], ""),
    ],
)  # fmt: skip
def test_a_model_given_as_an_option_follows_its_release(
    words: str, features: dict[str, Any], tokens: str, remarks: list[str], taken: str
) -> None:
    """It is moved to the front, rejected, or kept as an option, depending on the release."""
    assert _rewritten(words, features) == (tokens, remarks, taken, False)


_TWO = "0:option --config 0 1:value --config 0"
_TWO_BEHIND = "1:option --config 1 2:value --config 1"
_TAG = "required {0} {0} --config what=model_tag"


@pytest.mark.parametrize(
    ("words", "entry", "features", "config", "tokens", "remarks", "taken"),
    [
        ("m --config a.yaml --b", "serve", {}, {"x": 1}, "m@0 --x@2 1@2 --b@3", [], _TWO_BEHIND),
        ("m --config a.yml --b", "serve", {}, None, "m@0 --b@3", [], _TWO_BEHIND),
        ("m --b --config a.yaml", "serve", {}, {"x": 1}, "m@0 --x@3 1@3 --b@1", [],
         "2:option --config 2 3:value --config 2"),
        ("--config a.yaml m", "serve", {}, {"x": 1}, "--x@1 1@1 m@2", [_TAG.format(0)], _TWO),
        ("--b --config a.yaml", "serve", {}, {"x": 1}, "--b@0 --x@2 1@2", [], _TWO_BEHIND),
        ("--b --config a.yaml", "serve", {"config_model": True}, {"x": 1}, "--x@2 1@2 --b@0", [_TAG.format(1)],
         _TWO_BEHIND),
        ("--b --config a.yaml", "serve", {"config_model": True}, {"model": "m"}, "--model@2 m@2 --b@0", [],
         _TWO_BEHIND),
        ("m --config a.yaml", "serve", {"config_model": True}, {"x": 1}, "m@0 --x@2 1@2", [], _TWO_BEHIND),
        ("? --config a.yaml", "serve", {"config_model": True}, {"x": 1}, "None@0 --x@2 1@2", [], _TWO_BEHIND),
        ("--b --config a.yaml", "serve", {"config_model": True}, None, "--b@0", [], _TWO_BEHIND),
        ("--b --config a.yaml", "api_server", {}, {"x": 1}, "--b@0 --x@2 1@2", [], _TWO_BEHIND),
        ("--b --config a.yaml", "api_server", {"config_without_command": True}, {"x": 1}, "--x@2 1@2 --b@0", [],
         _TWO_BEHIND),
        ("m --config a.yaml", "api_server", {"config_without_command": True}, {"x": 1}, "m@0 --x@2 1@2", [],
         _TWO_BEHIND),
        ("--config a.yaml", "api_server", {}, {"x": 1}, "--x@1 1@1", [], _TWO),
        ("m --config", "serve", {}, {}, "m@0", ["missing-value 1 1 --config expected=one value"], ""),
        ("m --config=a.yaml", "serve", {}, {}, "m@0 --config=a.yaml@1",
         ["not-read 1 1 --config message=only --config FILE in two words is read"], ""),
        ("m --config a.txt", "serve", {}, {}, "m@0",
         ["wrong-type 2 1 --config expected=a .yaml or .yml file value=a.txt at=0"], _TWO_BEHIND),
        ("m --config " + "a" * 121, "serve", {}, {}, "m@0",
         [f"wrong-type 2 1 --config expected=a .yaml or .yml file value={'a' * 120} at=0"], _TWO_BEHIND),
        ("m --config ?", "serve", {}, {}, "m@0", [], _TWO_BEHIND),
        ("m --config a.yaml --config b.yaml", "serve", {}, {}, "m@0 --config@3 b.yaml@4",
         ["conflict 3 3 --config message=more than one configuration file dests=config"], _TWO_BEHIND),
    ],
)  # fmt: skip
def test_a_configuration_file_is_inserted_where_its_release_reads_it(  # noqa: PLR0917 - a row of the table
    words: str, entry: str, features: dict[str, Any], config: dict[str, Any] | None, tokens: str, remarks: list[str],
    taken: str,
) -> None:  # fmt: skip
    """After a leading model or command, else in front; a file without content is not inserted."""
    is_unread = config is None
    assert _rewritten(words, features, entry, config) == (tokens, remarks, taken, is_unread)


_LEVEL = {"level": "--compilation-config"}
_MODERN = {"level": "--optimization-level", "level_dot": "-cc"}


@pytest.mark.parametrize(
    ("words", "features", "tokens", "remarks"),
    [
        ("--a_b --c_d=e_f g_h -i_j", {}, "--a-b@0 --c-d=e_f@1 g_h@2 -i_j@3",
         ["underscore 0 0 --a-b written=--a_b", "underscore 1 1 --c-d written=--c_d"]),
        ("--a_b.c_d=e", {}, "--a-b.c-d=e@0", ["underscore 0 0 --a-b.c-d written=--a_b.c_d"]),
        ("--a_b.c_d=e", {"underscores": "before_dot"}, "--a-b.c_d=e@0", ["underscore 0 0 --a-b.c_d written=--a_b.c_d"]),
        ("--a=b_c.d", {"underscores": "before_dot"}, "--a=b_c.d@0", []),
        ("--help=x ?", {"help_search": True}, "--help@0 None@1", []),
        ("--help=x", {}, "--help=x@0", []),
        ("-O3 -O=2", _LEVEL, "--compilation-config@0 3@0+2 --compilation-config@1 2@1+3", []),
        ("-O3", {}, "-O3@0", []),
        ("-O3", {"level": "-cc"}, "-cc=3@0+-2", []),
        ("-O=3", {"level": "-cc"}, "-cc=3@0+-1", []),
        ("-O 3", _LEVEL, "--compilation-config@0 3@1", []),
        ("-O 4", _LEVEL, "-O@0 4@1", []),
        ("-O", _LEVEL, "-O@0", []),
        ("-O 0 -O 1", {}, "-O@0 0@1 -O@2 1@3", []),
        ("-O.a=1", {**_LEVEL, "level_dot": "kept"}, "-O.a=1@0", []),
        ("-O.a=1", _MODERN, "-cc.a=1@0", ["deprecated 0 0 -O near=-cc.a=1"]),
        ("-O.a=1", _LEVEL, "--compilation-config@0 .a=1@0+2", []),
    ],
)  # fmt: skip
def test_spellings_follow_the_release(words: str, features: dict[str, Any], tokens: str, remarks: list[str]) -> None:
    """Underscores become dashes in names, not in values; `-O` is an option of some releases."""
    assert _rewritten(words, features) == (tokens, remarks, "", False)


@pytest.mark.parametrize(
    ("words", "tokens", "remarks", "taken"),
    [
        ("--a.b=1 m --a.c 2", 'm@1 --a@0 {"b": 1, "c": 2}@0', [],
         "0:option --a 0 2:option --a 2 3:value --a 2"),
        ("-a.b=1 --c.d=2", '-a@0 {"b": 1}@0 --c@1 {"d": 2}@1', [], "0:option -a 0 1:option --c 1"),
        ("--a.b", "", ["missing-value 0 0 --a expected=one value"], ""),
        ("-1.5", "", ["missing-value 0 0 -1 expected=one value hint=negative-number"], ""),
        ("--a.b ?", "--a@0 None@0", [], "0:option --a 0 1:value --a 0"),
        ("--a.b=1 --a.b=2", '--a@0 {"b": 2}@0', ["duplicate 1 1 --a key=b"], "0:option --a 0 1:option --a 1"),
        ("--a=b.c x.y", "--a=b.c@0 x.y@1", [], ""),
        ("--a.b+=1,2", '--a@0 {"b": ["1", "2"]}@0', [], "0:option --a 0"),
        ("--a.b=x", '--a@0 {"b": "x"}@0', [], "0:option --a 0"),
    ],
)  # fmt: skip
def test_dotted_keys_are_collected_after_all_other_words(
    words: str, tokens: str, remarks: list[str], taken: str
) -> None:
    """As one JSON value per option, in the place of its first key."""
    assert _rewritten(words, {"dotted": True}) == (tokens, remarks, taken, False)
    assert _rewritten("--a.b=1", {})[0] == "--a.b=1@0"


@in_one_test(
    ("text", "says"),
    [
        ("", {"hint": "empty"}),
        (" \n", {"hint": "empty"}),
        ("{'a': 1}", {"hint": "single-quotes"}),
        ('{"a": True}', {"hint": "python-literal"}),
        ('{"a": None}', {"hint": "python-literal"}),
        ("[False]", {"hint": "python-literal"}),
        ('{"a": 1,}', {"hint": "trailing-comma"}),
        ("[1,]", {"hint": "trailing-comma"}),
        ('{"a": 1,', {"hint": "cut"}),
        ("{a,", {"hint": "quotes-lost"}),
        ("{a}", {"hint": "quotes-lost"}),
        ("{a: 1}", {"hint": "quotes-lost"}),
        ('{"a": 1', {"hint": "cut"}),
        ("[1", {"hint": "cut"}),
        ('{"a" 1}', {}),
        ("abc", {}),
        ("{1: 2}", {"hint": "quotes-lost"}),
        ("[a]", {}),
        ("[1 2]", {}),
    ],
)
def test_broken_json_is_reported_with_the_likely_intention(text: str, says: dict[str, str]) -> None:
    """Based on the text where the parser stops, and on characters that are missing."""
    value, fault = json_keys.read(text)

    assert value is None
    assert fault is not None
    assert {key: fault.says[key] for key in fault.says if key == "hint"} == says
    assert (fault.kind, fault.path) == ("bad-json", ())


@pytest.mark.parametrize(
    ("text", "reason"), [("[" * 100_000, "too deeply nested"), ("1" * 5000, "a number with too many digits")]
)
def test_json_that_python_rejects_is_invalid(text: str, reason: str) -> None:
    """Even if it is valid JSON."""
    value, fault = json_keys.read(text)

    assert (value, fault and dict(fault.says)) == (None, {"reason": reason, "at": "0"})


def test_the_number_of_reported_errors_is_bounded() -> None:
    """The first twenty errors are reported; a message cuts a value after eighty characters."""
    told = judged(["x" * 81] + ["y" * 80] * 20, {"list": "int"}, {})

    assert len(told) == 20
    assert [one.says["value"] for one in told] == ["x" * 80 + "…"] + ["y" * 80] * 19
    assert [one.path for one in told] == [(at,) for at in range(20)]
    nested: Any = "x"
    for _ in range(60):
        nested = [nested]
    kind: Any = "int"
    for _ in range(61):
        kind = {"list": kind}
    assert len(judged(nested, kind, {})) == 1
    assert judged([nested], kind, {}) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--tensor-parallel-siz=2"], [("abbreviation", 1, 1, {"full": "--tensor-parallel-size"})]),
        (["--tensor-parallel-siz=x"], [("abbreviation", 1, 1, {"full": "--tensor-parallel-size"}),
         ("wrong-type", 1, 1, {"expected": "an integer", "value": "x", "at": "22"})]),
        (["-tp=x"], [("wrong-type", 1, 1, {"expected": "an integer", "value": "x", "at": "4"})]),
        (["-t", "2"], [("abbreviation", 1, 1, {"full": "-tp"})]),
        (["--seed", "1", "--seed", "2", "--seed", "3"],
         [("duplicate", 3, 3, {"first": "1"}), ("duplicate", 5, 5, {"first": "3"})]),
        (["--compilation-config.pass_config", '{"no": 1}'], [("unknown-key", 2, 1, {"key": "pass_config.no"})]),
        (["--compilation-config.pass_config.no", "1"], [("unknown-key", 1, 1, {"key": "pass_config.no"})]),
    ],
)  # fmt: skip
def test_an_issue_has_the_word_and_place_of_its_option(
    words: list[str | None], told: list[tuple[str, int, int, dict[str, str]]]
) -> None:
    """For abbreviated and repeated options, wrong types and unknown keys."""
    problems = parse(["m", *words], options.load(_NEW)).problems

    assert [(kind, word, option) for kind, word, option, _ in told] == [
        (one.kind, one.word, one.option_word) for one in problems
    ]
    for (_, _, _, says), problem in zip(told, problems, strict=True):
        assert says.items() <= problem.says.items()


def test_the_number_of_compared_names_is_bounded() -> None:
    """Thirty names are compared; later ones are reported without a suggestion."""
    problems = parse(["m", *["--prot"] * 31], options.load(_NEW)).problems

    assert [one.says.get("near", "").split(" ")[0] for one in problems] == ["--port"] * 30 + [""]


@in_one_test(
    ("option", "value", "expected"),
    [
        *(("--tensor-parallel-size", 1, ["--tensor-parallel-size=1"]), ("--tensor-parallel-size", True, "an integer")),
        *(("--tensor-parallel-size", 1.5, "an integer"), ("--tensor-parallel-size", "1", "an integer")),
        *(("--max-model-len", "auto", ["--max-model-len=auto"]), ("--max-model-len", 5, ["--max-model-len=5"])),
        *(("--max-num-seqs", "auto", "an integer"), ("--max-num-seqs", 5, ["--max-num-seqs=5"])),
        *(
            ("--gpu-memory-utilization", 1, ["--gpu-memory-utilization=1"]),
            ("--gpu-memory-utilization", "x", "a number"),
        ),
        *(("--enforce-eager", True, ["--enforce-eager"]), ("--enforce-eager", False, ["--no-enforce-eager"])),
        *(("--enforce-eager", 1, "True or False"), ("--enable-prefix-caching", False, ["--disable-prefix-caching"])),
        *(("--served-model-name", ["a", "b"], ["--served-model-name", "a", "b"]), ("--dtype", 1, "a text")),
        *(
            ("--served-model-name", ["a", 1], "a list, each a text"),
            ("--served-model-name", "a", "a list, each a text"),
        ),
        *(("--lora-modules", [{"name": "a"}, "b=c"], ["--lora-modules", '{"name": "a"}', "b=c"]),),
        *(
            ("--lora-modules", [1], "a list, each a text"),
            ("--middleware", ["a", "b"], ["--middleware=a", "--middleware=b"]),
        ),
        *(("--middleware", "a", "a list, each a text"), ("--hf-overrides", "x", ["--hf-overrides=x"])),
        *(("--hf-overrides", {"a": 1}, ['--hf-overrides={"a": 1}']), ("--hf-overrides", 1, "JSON or a text")),
        *(("--compilation-config", {"a": 1}, ['--compilation-config={"a": 1}']), ("--compilation-config", 3, "JSON")),
        *(("--allowed-origins", ["*"], ['--allowed-origins=["*"]']), ("--dtype", "half", ["--dtype=half"])),
    ],
)
def test_a_value_becomes_words_if_it_has_the_right_type(option: str, value: Any, expected: list[str] | str) -> None:
    """Otherwise the option's type is reported: booleans are not numbers, only lists are lists."""
    (found,) = (one for one in options.load(_NEW).entries["serve"] if option in one.strings)
    wrong = typed.expected_type(found, value)

    assert (wrong or typed.option_words(found, value)) == expected


@in_one_test(
    ("value", "kind", "expected"),
    [
        *(("1", {"enum": [1, 2]}, ""), ("3", {"enum": [1, 2]}, "one of 1 2"), (1.0, {"enum": [1, 2]}, "")),
        *((True, {"enum": [1]}, ""), (["1"], {"enum": [1]}, "one of 1"), (None, {"enum": ["a"]}, "one of a")),
        *((None, {"enum": ["a", None]}, ""), ("b", {"enum": ["a", None]}, "one of a null"), (0, {"enum": [False]}, "")),
        *(
            ([1, 2, 3], {"tuple": ["int", "int"]}, "a list of 2"),
            ("x", {"chain": []}, ""),
            ("x", {"chain": ["int"]}, "an integer"),
        ),
        *(("z", {"checked": "str", "refuses": ["z"]}, "a string"), ("y", {"checked": "str", "refuses": ["z"]}, "")),
        *(
            (5, {"float": {"ge": 1, "lt": 5}}, "a number"),
            ({}, {"list": "int"}, "a list"),
            ([], {"dict": ["str", "int"]}, "an object"),
        ),
        *(
            (None, "null", ""),
            (0, "null", "null"),
            ("2", "bool", "true or false"),
            ("x", "opaque", ""),
            ("x", "any", ""),
        ),
        *(("x", {"optional": "int"}, "an integer"), (None, {"optional": "int"}, "")),
    ],
)
def test_a_json_value_is_checked_by_its_type(value: Any, kind: Any, expected: str) -> None:
    """Integer enumerations accept what converts to a member; lists have a fixed length."""
    found = judged(value, kind, {})

    assert [one.says["expected"].startswith(expected) for one in found] == [True] * bool(expected)
