"""Rules for environment variables, their target, and the values that a release rejects."""

from __future__ import annotations

from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks.authoring.releases import dump_parser
from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.options import EnvironmentVariable
from vllm_runbooks.core.excerpt import applied
from vllm_runbooks.lint import environment_rules, knowledge
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.reading import documents
from vllm_runbooks.reading.shell import Word

TABLES = knowledge.knowledge().tables
SERVE = "vllm serve /m\n"


def hits(text: str, vllm: str, name: str = "run.sh") -> list[Hit]:
    """The issues of the environment rules in a file."""
    data = options.load(vllm)
    return list(environment_rules.of_page(documents.read(text, name), lambda _: data, TABLES))


@in_one_test(
    ("vllm", "setting", "rule", "after"),
    [
        # Switches that are numbers, and switches that are words.
        ("0.11.0", "VLLM_USE_V1=true", "environment.refused-value", "VLLM_USE_V1=1"),
        ("0.10.2", "VLLM_USE_V1=0", None, "VLLM_USE_V1=0"),
        ("0.11.0", "VLLM_USE_MODELSCOPE=yes", "environment.wrong-value", "VLLM_USE_MODELSCOPE=True"),
        ("0.11.0", "VLLM_USE_MODELSCOPE=TRUE", None, "VLLM_USE_MODELSCOPE=TRUE"),
        ("0.16.0", "VLLM_HTTP_TIMEOUT_KEEP_ALIVE=5s", "environment.refused-value", "VLLM_HTTP_TIMEOUT_KEEP_ALIVE=5s"),
        ("0.16.0", "VLLM_HTTP_TIMEOUT_KEEP_ALIVE=1_0", None, "VLLM_HTTP_TIMEOUT_KEEP_ALIVE=1_0"),
        ("0.16.0", "VLLM_PORT=tcp://10.0.0.1:80", "environment.refused-value", "VLLM_PORT=tcp://10.0.0.1:80"),
        # Renamed once, and twice; the value is renamed with it.
        ("0.13.0", "VLLM_USE_TRTLLM_FP4_GEMM=1", "environment.removed", "VLLM_NVFP4_GEMM_BACKEND=flashinfer-trtllm"),
        ("0.32.0", "VLLM_USE_TRTLLM_FP4_GEMM=1", "environment.removed", "VLLM_USE_TRTLLM_FP4_GEMM=1"),
        # Read without being declared, in some releases.
        ("0.11.0", "VLLM_BATCH_INVARIANT=1", "environment.not-there-yet", "VLLM_BATCH_INVARIANT=1"),
        ("0.13.0", "VLLM_BATCH_INVARIANT=1", None, "VLLM_BATCH_INVARIANT=1"),
        ("0.19.0", "VLLM_SERVICE_PORT_HTTP=1", None, "VLLM_SERVICE_PORT_HTTP=1"),
        # One letter off a name that others read; two are another name.
        ("0.19.0", "CUDA_VISIBLE_DEVCES=1", "environment.wrong-name", "CUDA_VISIBLE_DEVICES=1"),
        ("0.19.0", "MUSA_VISIBLE_DEVICES=1", None, "MUSA_VISIBLE_DEVICES=1"),
        ("0.19.0", "NCCL_P2P_LEVEL=nvl", "environment.wrong-value", "NCCL_P2P_LEVEL=NVL"),
        # Passed on unread to a part that rejects it; lower case works since a release.
        ("0.19.0", "VLLM_LOGGING_LEVEL=warn", None, "VLLM_LOGGING_LEVEL=warn"),
        ("0.19.0", "VLLM_LOGGING_LEVEL=loud", "environment.refused-value", "VLLM_LOGGING_LEVEL=loud"),
        ("0.32.0", "VLLM_LOGGING_LEVEL=inf", "environment.refused-value", "VLLM_LOGGING_LEVEL=INFO"),
        ("0.7.3", "VLLM_LOGGING_LEVEL=warning", "environment.refused-value", "VLLM_LOGGING_LEVEL=WARNING"),
        ("0.19.0", "CUDA_VISIBLE_DEVICES=" + "1," * 2000 + "x", None, "CUDA_VISIBLE_DEVICES=" + "1," * 2000 + "x"),
    ],
)
def test_a_setting_is_checked_as_the_release_reads_it(vllm: str, setting: str, rule: str | None, after: str) -> None:
    """The broken rule, and the edit that fixes it."""
    text = f"export {setting}\n{SERVE}"
    found = hits(text, vllm)

    assert ([rule] if rule else []) == [hit.rule for hit in found]
    assert f"export {after}\n{SERVE}" == applied(text, [edit for hit in found for edit in hit.edits])


COMPOSE = """services:
  db:
    image: postgres
    environment:
      HOST_IP: 10.0.0.1
      VLLM_URL: http://api:8000
  api:
    image: vllm/vllm-openai:v0.19.0
    environment:
      NCCL_DEBUG: WARNING
    command: --model /m
"""


def test_other_containers_are_ignored() -> None:
    """Only the environment of vLLM's own container is checked."""
    assert [(hit.rule, COMPOSE[hit.start : hit.end]) for hit in hits(COMPOSE, "0.19.0", "compose.yaml")] == [
        ("environment.wrong-value", "WARNING")
    ]


def test_a_variable_is_reported_at_each_place() -> None:
    """Each line with the error is listed."""
    text = f"export NCCL_DEBUG=WARNING\n{SERVE}export NCCL_DEBUG=WARNING\n{SERVE}"

    assert [hit.start for hit in hits(text, "0.19.0")] == [18, 58]


@pytest.mark.parametrize(
    ("nccl", "gloo", "is_told"),
    [
        ("eth0", "eth1", True),
        ("eth", "eth1", False),
        ("=eth", "eth1", True),
        ("^eth0", "eth1", False),
        ("^eth", "eth1", True),
        ("ib0,eth1", "eth1", False),
        ("$IFACE", "eth1", False),
    ],
)
def test_interfaces_are_compared_as_nccl_reads_them(nccl: str, gloo: str, is_told: bool) -> None:  # noqa: FBT001
    """A beginning, a whole name, names to leave out, and lists."""
    text = f"export NCCL_SOCKET_IFNAME={nccl}\nexport GLOO_SOCKET_IFNAME={gloo}\n{SERVE}"

    assert is_told == ("environment.different-interfaces" in {hit.rule for hit in hits(text, "0.19.0")})


@pytest.mark.parametrize(
    ("lines", "is_told"),
    [
        ("CUDA_VISIBLE_DEVICES=1\n", True),
        ("CUDA_VISIBLE_DEVICES=1\nexport CUDA_VISIBLE_DEVICES\n", False),
        ("CUDA_VISIBLE_DEVICES=1\necho $CUDA_VISIBLE_DEVICES\n", False),
        ("LD_LIBRARY_PATH=/x\n", False),
        ("PORT=1\n", False),
    ],
)
def test_an_unexported_variable_is_reported_if_vllm_would_read_it(lines: str, is_told: bool) -> None:  # noqa: FBT001
    """Unless the script uses it, exports it, or inherits it."""
    assert is_told == ("environment.not-exported" in {hit.rule for hit in hits(lines + SERVE, "0.19.0")})


@pytest.mark.parametrize(
    ("value", "gpus", "expected"),
    [
        ("0,1,2,3", 2, [("environment.no-such-gpu", "2")]),
        ("0,1", 2, []),
        ("0, 2", 2, [("environment.no-such-gpu", "2")]),
        ("7", None, []),
        ("1,1", None, [("environment.gpu-twice", "1")]),
        ("0,-1,9", 2, []),
        ("GPU-a,GPU-b", 2, []),
        ("$GPUS", 2, []),
        ("", 2, []),
    ],
)
def test_missing_gpus_are_reported(value: str, gpus: int | None, expected: list[tuple[str, str]]) -> None:
    """Numbers count from 0; those after a negative one are ignored by CUDA."""
    text = f"export CUDA_VISIBLE_DEVICES='{value}'\n{SERVE}"
    data = options.load("0.19.0")
    page = documents.read(text.replace("'$GPUS'", '"$GPUS"'), "run.sh")
    found = environment_rules.of_page(page, lambda _: data, TABLES, gpus)

    assert expected == [(hit.rule, text[hit.start : hit.end]) for hit in found if "gpu" in hit.rule]


def test_values_are_checked_against_recorded_results() -> None:
    """An unrecorded value follows an equivalent recorded one; both lists are equal."""
    assert environment_rules._TRIED == dump_parser._ENVIRONMENT_PROBES


@in_one_test(
    ("one", "other", "is_off"),
    [
        ("CUDA_DEVICE", "CUDA_DEVICE", False),
        ("CUDA_DEVCE", "CUDA_DEVICE", True), ("CUDA_DEVICEE", "CUDA_DEVICE", True),
         ("CUDA_DEVIXE", "CUDA_DEVICE", True),
        ("CUDA_DEVIEC", "CUDA_DEVICE", True), ("CUDA_DEIVCE", "CUDA_DEVICE", True), ("CUDA_DEVIC", "CUDA_DEVICE", True),
        ("CUDA_DVCE", "CUDA_DEVICE", False), ("CUDA_DXVIXE", "CUDA_DEVICE", False),
         ("CUDA_DEVICEXX", "CUDA_DEVICE", False),
        # An additional letter in the first part makes it another program's name; a missing one does
        # not.
        ("MUDA_DEVICE", "CUDA_DEVICE", False), ("CUDX_DEVICE", "CUDA_DEVICE", False),
         ("CUD_DEVICE", "CUDA_DEVICE", True),
        ("CUDA-DEVICE", "CUDA_DEVICE", False), ("ABX", "ABC", True), ("BAC", "ABC", True), ("", "A", True),
         ("", "AB", False),
    ],
)  # fmt: skip
def test_one_letter_makes_a_misspelt_name(one: str, other: str, *, is_off: bool) -> None:
    """Wrong, missing, too many, or swapped with the next; two are another name."""
    assert environment_rules._is_one_letter_off(one, other) is is_off


@in_one_test(
    ("value", "tried"),
    [
        ("1", "1"), ("7", "2"), ("+7", "2"), ("00", "2"), ("-7", "-1"), ("1.25", "1.5"), ("-1.", "1.5"), (".5", "1.5"),
        ("True", "True"), ("TRUE", "abc"), ("x", "abc"), ("/x", "/abc"), ("/a,b", "/abc"), ("x,y", "a,b"),
        ("", ""), (" ", None), ("1e3", None), ("nan", None), ("1_0", None), ("9" * 401, None),
    ],
)  # fmt: skip
def test_a_value_is_reduced_to_a_recorded_one(value: str, tried: str | None) -> None:
    """Numbers as numbers, paths as paths; unusual number formats were not recorded."""
    assert environment_rules._alike(value) == tried


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("a", ["a"]), ("", [""]), ("a,b", ["a", "b"]), (",a,", ["", "a", ""]), ("a[1,2],b", ["a[1,2]", "b"]),
        ("a[[1,2],3],b", ["a[[1,2],3]", "b"]), ("a],b", ["a]", "b"]), ("[a,b", ["[a,b"]),
    ],
)  # fmt: skip
def test_commas_inside_of_brackets_part_nothing(value: str, parts: list[str]) -> None:
    """As in the allocator's list of sizes."""
    assert list(environment_rules._parts(value)) == parts


ROW = {"choices": ["NONE", "WARN", "INFO"], "accepted": ["TRACE"], "then": "It is ignored.", "map": {"1": "INFO"}}


@in_one_test(
    ("value", "row", "meant"),
    [
        ("WARN", ROW, ""), ("TRACE", ROW, ""), ("warn", ROW, "WARN"), ("WARM", ROW, "WARN"), ("wanr", ROW, "WARN"),
        ("1", ROW, "INFO"), ("2", ROW, None), ("WARNING", ROW, None), ("XYZ", ROW, None),
        ("warn", {**ROW, "ignore_case": True}, ""), ("trace", {**ROW, "ignore_case": True}, ""),
        ("a", {"choices": ["A", "B"], "map": {"x": "B"}, "ignore_case": True}, ""),
        ("X", {"choices": ["A", "B"], "map": {"x": "B"}, "ignore_case": True}, "B"),
        # Short words and words that are near to two are not guessed.
        ("ONN", {"choices": ["ON", "OFF"]}, None), ("TREX", {"choices": ["TREE", "TREK"]}, None),
         ("TREX", {"choices": ["TREE"]}, "TREE"),
        ("12", {"shape": r"\d{1,3}"}, ""), ("1234", {"shape": r"\d{1,3}"}, None),
         ("\u0661", {"shape": r"\d{1,3}"}, None),
        ("a:1, b:x", {"keys": {"a": r"\d", "b": "[xy]"}}, ""), ("a:12", {"keys": {"a": r"\d"}}, None),
         ("a", {"keys": {"a": ""}}, None),
        ("a:", {"keys": {"a": ""}}, ""), ("c:1", {"keys": {"a": r"\d"}}, None), ("a:1,", {"keys": {"a": r"\d"}}, None),
    ],
)  # fmt: skip
def test_a_value_is_checked_by_its_row(value: str, row: dict[str, Any], meant: str | None) -> None:
    """It is valid, or the single near value is suggested."""
    judged = environment_rules._by_row(value, row)

    assert ("" if judged is None else judged.intended) == meant
    if judged is not None:
        assert (judged.rule, judged.choices, judged.note) == (
            "environment.wrong-value", ", ".join(row.get("choices", [])), row.get("then", ""),
        )  # fmt: skip


def variable(**told: Any) -> EnvironmentVariable:
    known: dict[str, Any] = {"kind": "str", "default": None, "choices": None, "true": (), "refused": ()}
    return EnvironmentVariable(**{"name": "VLLM_X", "is_case_sensitive": True, "is_listed": True, **known, **told})


WORDS: dict[str, Any] = {"choices": ("debug", "INFO", None), "is_case_sensitive": False}
SWITCH: dict[str, Any] = {"kind": "bool", "true": ("1", "true", "True"), "refused": ("abc",)}
NUMERIC: dict[str, Any] = {"kind": "bool", "true": ("1", "2"), "refused": ("true", "True", "abc", "false", "False")}
ODD: dict[str, Any] = {"kind": "bool", "true": ("0", "1"), "refused": ()}


@in_one_test(
    ("value", "told", "expected"),
    [
        # A list of words: in exact or any case.
        ("info", WORDS, None), ("INFO", WORDS, None), ("loud", WORDS, ("refused", "debug, INFO", None)),
        ("inf", WORDS, ("refused", "debug, INFO", "INFO")), ("", WORDS, None),
         ("None", WORDS, ("refused", "debug, INFO", None)),
        ("info", {**WORDS, "is_case_sensitive": True}, ("refused", "debug, INFO", "INFO")),
        ("debug, info", WORDS, ("refused", "debug, INFO", None)), ("debug, info", {**WORDS, "kind": "list"}, None),
        ("debug,info", {**WORDS, "default": ["debug"]}, None),
         ("debug,x", {**WORDS, "kind": "list"}, ("refused", "debug, INFO", None)),
        # A switch: rejected words, and words with the opposite meaning.
        ("true", SWITCH, None), ("1", SWITCH, None), ("0", SWITCH, None), ("false", SWITCH, None),
         ("abc", SWITCH, ("refused", "1, 0", None)),
        ("yes", SWITCH, ("wrong", "1, 0", "1")), ("on", SWITCH, ("refused", "1, 0", "1")),
         ("TRUE", SWITCH, ("refused", "1, 0", "1")),
        ("true", NUMERIC, ("refused", "1, 0", "1")), ("off", NUMERIC, ("refused", "1, 0", "0")), ("7", NUMERIC, None),
        ("yes", {**SWITCH, "refused": ()}, ("wrong", "1, 0", "1")), ("TRUE", {**SWITCH, "refused": ()}, None),
        ("no", {**SWITCH, "refused": ()}, None), ("maybe", {**SWITCH, "refused": ()}, None),
        ("0", ODD, None), ("false", ODD, None), ("yes", {"kind": "bool", "true": (), "refused": ()}, None),
        ("yes", {"kind": "bool", "true": ("True",), "refused": ()}, ("wrong", "True, 0", "True")),
        # Numbers.
        ("x", {"kind": "int", "refused": ("abc",)}, ("refused", "whole numbers", None)),
        ("x", {"kind": "float", "refused": ("abc",)}, ("refused", "numbers", None)),
        ("7", {"kind": "int", "refused": ("abc",)}, None), ("yes", {"kind": "str", "refused": ()}, None),
        ("yes", {"kind": "int", "refused": ("abc",)}, None),
    ],
)  # fmt: skip
def test_a_value_is_checked_by_the_releases_behavior(
    value: str, told: dict[str, Any], expected: tuple[str, str, str | None] | None
) -> None:
    """The rule, the valid values, and the intended one."""
    judged = environment_rules._by_release(value, variable(**told))

    if expected is None:
        assert judged is None
    else:
        assert judged is not None
        rule = {"refused": "environment.refused-value", "wrong": "environment.wrong-value"}[expected[0]]
        assert (judged.rule, judged.choices, judged.intended) == (rule, *expected[1:])


@pytest.mark.parametrize(
    ("value", "at", "part", "place"),
    [
        ("abcd", [10, 11, 12, 13], (0, None), (10, 14)), ("abcd", [10, 11, 14, 15], (1, 3), (11, 15)),
        ("abcd", [10, 11, 12, 13], (2, 2), (5, 99)), ("abcd", [10, 11, 12, 13], (3, 4), (13, 14)),
        ("abcd", None, (1, 2), (5, 99)), ("abcd", [10, 11], (0, 1), (5, 99)), ("", [], (0, None), (5, 99)),
         (None, None, (0, None), (5, 99)),
    ],
)  # fmt: skip
def test_a_part_of_a_value_has_its_place(
    value: str | None, at: list[int] | None, part: tuple[int, int | None], place: tuple[int, int]
) -> None:
    """In the file, else that of the whole word."""
    assert environment_rules._place(Word(value, 5, 99, "", at=at), *part) == place


THREE = "expandable_segments:True,max_split_size_mb:64,garbage_collection_threshold:0.8"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("export NCCL_DEBUG=WARNING\n", [("environment.wrong-value", "WARNING",
         {"name": "NCCL_DEBUG", "nearest": "WARN"})]),
        ("export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64\n",
         [("environment.allocator-split", "max_split_size_mb:64", {})]),
        (f"export PYTORCH_CUDA_ALLOC_CONF={THREE}\n",
         [("environment.allocator-split", "max_split_size_mb:64",
         {"value": THREE})]),
        ("export VLLM_ZZZZ=1\n", [("environment.unknown", "VLLM_ZZZZ", {"name": "VLLM_ZZZZ", "vllm": "0.19.0"})]),
        ("export VLLM_LOGGING_LEVL=INFO\n", [("environment.unknown", "VLLM_LOGGING_LEVL",
         {"nearest": "VLLM_LOGGING_LEVEL"})]),
        ("export VLLM_ZZZZ=1\necho $VLLM_ZZZZ\n", []), ("export VLLM_ZZZZ=1\necho ${VLLM_ZZZZ:-2}\n", []),
        ("export VLLM_LOGGING_LEVL=INFO\necho $VLLM_LOGGING_LEVL\n",
         [("environment.unknown", "VLLM_LOGGING_LEVL", {})]),
        ("export NCCL_SOCKET_IFNAME=eth0\nexport GLOO_SOCKET_IFNAME=eth1\n",
         [("environment.different-interfaces", "eth1",
         {"name": "GLOO_SOCKET_IFNAME", "other": "eth0", "other_line": "1"})]),
        ("export GLOO_SOCKET_IFNAME=eth1\n\nexport NCCL_SOCKET_IFNAME=eth0\n",
         [("environment.different-interfaces", "eth0",
         {"name": "NCCL_SOCKET_IFNAME", "other": "eth1", "other_line": "1"})]),
        ("export CUDA_VISIBLE_DEVICES=0,1,1\n", [("environment.gpu-twice", "1", {"gpu": "1", "seen": "0,1"})]),
        ("CUDA_VISIBLE_DEVICES=1\n", [("environment.not-exported", "CUDA_VISIBLE_DEVICES",
         {"name": "CUDA_VISIBLE_DEVICES"})]),
    ],
)  # fmt: skip
def test_each_error_of_a_setting_has_its_place(text: str, expected: list[tuple[str, str, dict[str, str]]]) -> None:
    """The name or the part of the value, and the message."""
    text += SERVE
    found = hits(text, "0.19.0")

    assert [(hit.rule, text[hit.start : hit.end]) for hit in found] == [(rule, at) for rule, at, _ in expected]
    for hit, (_, _, says) in zip(found, expected, strict=True):
        assert says.items() <= hit.says.items()


HEAD, WORKER = "VLLM_HOST_IP={} ray start --head --port 6379\n", "VLLM_HOST_IP={} ray start --address=10.0.0.1:6379\n"


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (HEAD.format("10.0.0.1") + WORKER.format("10.0.0.1"), [2]),
         (HEAD.format("10.0.0.1") + WORKER.format("10.0.0.2"), []),
        (WORKER.format("10.0.0.1") + HEAD.format("10.0.0.1"), [1]), (WORKER.format("10.0.0.1") * 2, []),
         (HEAD.format("10.0.0.1") * 2, []),
        (HEAD.format("10.0.0.1") + WORKER.format("10.0.0.1") * 2, [2, 3]),
    ],
)  # fmt: skip
def test_head_and_workers_need_different_addresses(text: str, places: list[int]) -> None:
    """Every worker with the head's address is listed, with the head's line."""
    found = [hit for hit in hits(text, "0.19.0") if hit.rule == "environment.one-address-for-two-nodes"]

    assert sorted({text[: hit.start].count("\n") + 1 for hit in found}) == places
    assert {hit.says["other_line"] for hit in found} <= {str(text[: text.find("--head")].count("\n") + 1)}
    assert {text[hit.start : hit.end] for hit in found} <= {"10.0.0.1"}
