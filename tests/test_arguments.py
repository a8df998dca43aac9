"""An argument vector is judged as the release's own parser would, with every fault in its place."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from vllm_runbooks import options
from vllm_runbooks.arguments import Parsed, parse, parse_call
from vllm_runbooks.arguments.conditions import UNKNOWN, Values, holds
from vllm_runbooks.arguments.json_keys import judged, place
from vllm_runbooks.arguments.spelling import alike

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


@pytest.mark.parametrize(("version", "words", "expected"), _FAULTS, ids=lambda value: str(value)[:60])
def test_each_fault_is_told_once_in_its_place(
    version: str, words: list[str | None], expected: list[tuple[str, int | None, str | None]]
) -> None:
    """Kind, word and option of what is wrong, and nothing else."""
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


@pytest.mark.parametrize(("words", "dest", "expected"), _VALUES, ids=lambda value: str(value)[:50])
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
def test_nothing_is_told_of_what_cannot_be_known(words: list[str | None]) -> None:
    """An unknown word may be any value, any option, or nothing."""
    assert [problem for problem in parse(words, options.load(_NEW)).problems if problem.is_refusal] == []


def test_an_unknown_value_is_kept_as_unknown() -> None:
    """A value that cannot be known is in the flags all the same."""
    assert parse(["m", "--port", None], options.load(_NEW)).flags == {"port": UNKNOWN, "model": "m"}


def test_places_inside_a_word_are_offsets_into_it() -> None:
    """The place of a JSON fault, of a key and of a value after an equals sign."""
    data = options.load(_NEW)
    cut = parse(["m", '--hf-overrides={"a": 1,}'], data)
    key = parse(["m", "--compilation-config", '{"mode": 3, "mod": 1}'], data)
    value = parse(["m", "--dtype=bf16"], data)
    assert (_says(cut, "bad-json")["at"], _says(key, "unknown-key")["at"], _says(value, "wrong-choice")["at"]) == (
        "23",
        "12",
        "8",
    )


def test_hints_name_what_was_likely_meant() -> None:
    """A misspelt option, choice and key come with the name they are nearest to."""
    data = options.load(_NEW)
    option = _says(parse(["m", "--max-modle-len", "8"], data), "unknown")
    choice = _says(parse(["m", "--dtype", "flaot16"], data), "wrong-choice")
    key = _says(parse(["m", "--compilation-config", '{"custom_op": []}'], data), "unknown-key")
    assert (option["near"].split()[0], choice["near"], key["near"]) == ("--max-model-len", "float16", "custom_ops")


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
def test_broken_json_says_how_it_broke(text: str, hint: str) -> None:
    """What people and shells most often do to JSON is told apart."""
    assert _says(parse(["m", "--default-chat-template-kwargs", text], options.load(_NEW)), "bad-json")["hint"] == hint


def test_roles_tell_what_each_word_is() -> None:
    """Options, values, the model and what belongs to a fault."""
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


def test_a_configuration_file_is_judged_where_its_content_is_given() -> None:
    """Its options have the place of the file's name; without the content nothing is told of it."""
    data = options.load(_NEW)
    words = ["--config", "a.yaml"]
    given = parse(words, data, config={"model": "m", "port": "x", "max-model-len": 8})
    assert (_told(given), given.model) == ([("wrong-type", 1, "--port")], "m")
    assert _told(parse(words, data)) == []


def test_a_variable_of_the_environment_may_be_asked_for() -> None:
    """A check on a variable takes it as not set unless it is told otherwise."""
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
def test_keywords_of_a_call_are_judged_where_it_is_certain(
    keywords: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """Unknown keywords and values that are certainly wrong; nothing else."""
    assert [(problem.kind, problem.keyword) for problem in parse_call(keywords, options.load(_NEW))] == expected


_TRIED = {"by": "before f", "accepts": [{}], "refuses": ["abc", 5]}
"""What was found out about a check of the release's own."""
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


@pytest.mark.parametrize(("value", "kind", "is_right"), _TYPES, ids=lambda value: str(value)[:40])
def test_json_values_convert_as_pydantic_converts_them(value: object, kind: object, is_right: bool) -> None:  # noqa: FBT001
    """Lax mode: what converts is right."""
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


def test_conditions_are_unknown_where_a_value_is() -> None:
    """A check is told only where it certainly fails."""
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
    """A misspelling comes before a name that only shares words."""
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


@pytest.mark.parametrize("version", [_OLD, _NEW])
@pytest.mark.parametrize("words", _HOSTILE, ids=lambda words: str(words)[:40])
def test_hostile_words_neither_raise_nor_hang(words: list[str | None], version: str) -> None:
    """Whatever a file holds, an answer comes soon."""
    data = options.load(version)
    start = time.process_time()
    parse(words, data)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
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
def test_what_the_engine_refuses_is_told_beside_what_the_parser_takes(
    release: str, words: list[str], expected: list[tuple[int, str]]
) -> None:
    """The word, and the bound of the very release where it is a number; the parser itself refuses none of it."""
    parsed = parse(["m", *words], options.load(release))
    found = [problem for problem in parsed.problems if problem.kind == "out-of-bounds"]

    assert expected == [((problem.word or 0) - 1, problem.says["bound"]) for problem in found]
    assert all(problem.says["bound"] or problem.says["message"] for problem in found)
    assert not found or not parsed.is_refused


def test_what_the_engine_refuses_is_told_of_a_call() -> None:
    """A call goes the same way, and what cannot be known is not judged."""
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
    """Put together from its keys it has no text of its own, and still is an object."""
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
def test_a_yes_or_no_behind_a_switch_is_told_as_such(
    words: list[str], kind: str, word: int, switch: str | None
) -> None:
    """Also where it took the place of the model; any other word is one too many."""
    [problem] = [each for each in parse(words, options.load("0.19.0")).problems if each.is_refusal]

    assert (problem.kind, problem.word, problem.says.get("switch")) == (kind, word, switch)
