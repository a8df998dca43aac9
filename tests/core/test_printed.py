"""Numbers, times and arguments are read as printed, without evaluating anything."""

from __future__ import annotations

import sys
import threading
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost import LIMIT, growth
from vllm_runbooks.core import python_trees
from vllm_runbooks.core.printed import is_closed, literal, masked, moment, number, pairs, seconds_between


@pytest.mark.parametrize(
    ("earlier", "later", "seconds"),
    [
        ("04-18 20:22:57", "04-18 20:24:58", 121.0),
        ("12-31 23:59:58", "01-01 00:00:03", 5.0),
        ("02-28 23:59:59", "03-01 00:00:00", 86401.0),
        ("23:59:58", "00:00:03", 5.0),
        ("2025-12-31 23:59:58.5", "2026-01-01T00:00:00.25Z", 1.75),
        ("2025-02-28 23:59:59", "2025-03-01 00:00:00", 1.0),
        ("02-2321:55:00", "02-2321:55:09", 9.0),
        ("01-02 03:04:05,250", "01-02 03:04:05,750", 0.5),
        ("04-18 20:22:57", "04-18 20:22:50", None),
        ("2025-10-20 12:37:08", "10-20 12:38:00", None),
        ("12:37:08", "10-20 12:38:00", None),
        (None, "10-20 12:38:00", None),
        ("10-20 12:38:00", "soon", None),
    ],
)
def test_durations_cross_midnight_and_new_year(earlier: str | None, later: str | None, seconds: float | None) -> None:
    """Only times of one form are compared; a small step back is unknown, not negative."""
    assert seconds_between(moment(earlier), moment(later)) == seconds


@pytest.mark.parametrize("text", ["13-45 00:00:00", "02-30 00:00:00", "2025-00-01 00:00:00", "25:00:00", "", "x"])
def test_impossible_times_are_unknown(text: str) -> None:
    """A date outside the calendar is not a timestamp."""
    assert moment(text) is None


@pytest.mark.parametrize(
    ("text", "value"), [("1,721,888", 1721888.0), ("0.93", 0.93), ("-0.1", -0.1), ("1.2.3", None), ("9" * 400, None)]
)
def test_numbers(text: str, value: float | None) -> None:
    """Thousands may be separated; an invalid or absurd number is unknown."""
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "{'model_tag': 'openai/gpt-oss-20b', 'port': 10000, 'trust_remote_code': True, 'x': None, 'f': 0.65}",
            {"model_tag": "openai/gpt-oss-20b", "port": 10000, "trust_remote_code": True, "x": None, "f": 0.65},
        ),
        (
            "(host=None, port=8000, allowed_origins=['*'], d={'image': 10}, t=(1, 2))",
            {"host": None, "port": 8000, "allowed_origins": ["*"], "d": {"image": 10}, "t": [1, 2]},
        ),
        (
            "{'dtype': torch.bfloat16, 'e': <Enum.X: 'x, y'>, 'c': Config(a=1, b='2'), 'last': 1}",
            {"dtype": "torch.bfloat16", "e": "<Enum.X: 'x, y'>", "c": "Config(a=1, b='2')", "last": 1},
        ),
        ('{"a": "it\'s, so", \'b\': "q\\"x", \'c\': 2}', {"a": "it's, so", "b": 'q"x', "c": 2}),
        ("{'a': 1, 'b': [1, 2", {"a": 1, "b": "[1, 2"}),
        ("{'a': 1} tail, 'b': 2", {"a": 1}),
        ("{}", {}),
        ("{'k': '\\d', 'n': 1if 1else 2, 'i': 1e999, 'b': b'x', 's': {1}}", {"k": "\\d", "n": "1if 1else 2",
        "i": "1e999",
        "b": "b'x'", "s": "{1}"}),
        ("{junk, 'a': 1, https://x:y@z}", {"a": 1}),
        ("{'p': '" + "x" * 5000 + "'}", {"p": "'" + "x" * 5000 + "'"}),
    ],
)  # fmt: skip
def test_pairs_of_dicts_and_namespaces(text: str, expected: dict[str, object]) -> None:
    """Literals have their values, others stay as printed; a cut end loses the last value."""
    assert pairs(text) == expected


def test_secrets_in_arguments_are_masked() -> None:
    """By the name of the argument or key, for any form of the value; unset ones stay visible."""
    text = (
        "{'api_key': ['x1'], 'hf_token': 'x2', 'o': {'password': 'x3', 'b': b'q'}, "
        "'ssl_keyfile_password': None, 'h': ['Bearer abcdefgh12345']}"
    )

    found = pairs(text)

    assert found == {
        "api_key": ["[secret-1]"],
        "hf_token": "[secret-2]",
        "o": {"password": "[secret-3]", "b": "{'password': '[secret-3]', 'b': b'q'}"},
        "ssl_keyfile_password": None,
        "h": ["Bearer [secret-4]"],
    }
    assert masked({"secrets": {"k": "v", "n": 3}, "password": b"q"}) == {
        "secrets": {"k": "[secret-5]", "n": 3},
        "password": "[secret-6]",
    }
    assert pairs("{'hf_token': 0, 'api_key': 1234567890, 'token': True}") == {
        "hf_token": 0,
        "api_key": "[secret-7]",
        "token": True,
    }
    assert masked("[secret-7]", "api_key") == "[secret-7]"
    assert masked("$VLLM_API_KEY_1", "api_key") == "[secret-8]"
    assert masked("--api-key $VLLM_API_KEY_1") == "--api-key $VLLM_API_KEY_1"


@pytest.mark.parametrize(
    ("text", "closed"),
    [("{'a': 1}", True), ("{'a': 1", False), ("(a=[1, 2]", False), ("(a=[1, 2]) tail", True), ("{", False),
    ("{}", True)],
)  # fmt: skip
def test_whether_a_bracket_is_closed(text: str, closed: bool) -> None:  # noqa: FBT001 - a table's column
    """Wrapped arguments continue until their bracket closes."""
    assert is_closed(text) is closed


def test_values_outside_json() -> None:
    """Values that JSON cannot represent are shown as printed."""
    assert masked(...) == ""
    assert masked(float("nan"), otherwise="nan") == "nan"
    assert masked({1: (2, ...)}, otherwise="…") == {"1": [2, "…"]}


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("{}()[]<>'\"\\,:=a1 .-\n"), max_size=120))
def test_any_text_can_be_read_as_pairs(text: str) -> None:
    """No nesting, quote or escape raises."""
    pairs(text)
    literal(text)
    is_closed(text)
    moment(text)


@pytest.mark.parametrize("unit", ["a=1, ", "(", "'", "\\", "[{", ",", "'a': 'b', "])
def test_reading_pairs_is_linear(unit: str) -> None:
    """Twice the text costs at most three times."""
    assert growth(pairs, "{" + unit * (8000 // len(unit))) <= LIMIT


def test_timestamps_keep_their_form() -> None:
    """A form says what was printed in addition to the hour."""
    texts = ["10:00:00", "10-20 10:00:00", "2025-10-20 10:00:00"]

    assert [m.form for m in map(moment, texts) if m] == ["day", "date", "year"]


@pytest.mark.parametrize(
    ("value", "name", "shown"),
    [
        (1234567, "api_key", 1234567), (12345678, "api_key", "[secret-1]"), (-123456, "token", -123456),
         (1.5, "api_key", 1.5),
        (12345678, "port", 12345678), ("", "api_key", ""), ("x", "api_key", "[secret-1]"), (None, "api_key", None),
        (True, "api_key", True), (float("inf"), "api_key", "[secret-1]"), (["x", 3], "api_key", ["[secret-1]", 3]),
        ({"a": "x", "password": "y"}, "o", {"a": "x", "password": "[secret-1]"}),
         ({"a": "x"}, "secrets", {"a": "[secret-1]"}),
    ],
)  # fmt: skip
def test_a_value_is_masked_by_its_name(value: object, name: str, shown: object) -> None:
    """Except for counts of up to seven digits, and empty values."""
    assert masked(value, name) == shown


def test_a_literal_has_a_length() -> None:
    """4000 characters; a longer one stays as printed."""
    assert literal("'" + "x" * 3998 + "'") == "x" * 3998
    assert literal("'" + "x" * 3999 + "'") == "'" + "x" * 3999 + "'"
    assert literal("  [1, (2, None)] ") == [1, [2, None]]


@pytest.mark.parametrize(
    ("earlier", "later", "seconds"),
    [
        # A leap year has 366 days; half of one is 183.
        ("07-02 00:00:01", "01-01 00:00:00", 183 * 86400.0 - 1), ("07-03 00:00:00", "01-01 00:00:00", 182 * 86400.0),
        ("07-02 00:00:00", "01-01 00:00:00", None), ("01-01 00:00:00", "12-31 00:00:00", 365 * 86400.0),
        ("00:00:01", "00:00:00", 86399.0), ("00:00:00", "00:00:00", 0.0),
         ("2025-01-02 00:00:00", "2025-01-01 00:00:00", None),
        ("10:00:00.1234567", "10:00:00.1234569", 0.0), ("10:00:00,5", "10:00:01", 0.5),
         ("2025/01/01 10:00:00", "2025-01-01T10:00:09", 9.0),
    ],
)  # fmt: skip
def test_durations_between_times_of_one_form(earlier: str, later: str, seconds: float | None) -> None:
    """Rounded to microseconds; a step back of less than half a year has no duration."""
    assert seconds_between(moment(earlier), moment(later)) == seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{'a': '}', 'b': 2}", {"a": "}", "b": 2}), (r"{'a': 'x\'y', 'b': 2}", {"a": "x'y", "b": 2}),
         ("(a=(1, (2, 3)), b=4)", {"a": [1, [2, 3]], "b": 4}),
        ("{'a': <x, y>, 'b': 2}", {"a": "<x, y>", "b": 2}), ("{'a' : 1 , b = 2}", {"a": 1, "b": 2}),
         ("{" + "a" * 80 + "=1}", {"a" * 80: 1}),
        ("{" + "a" * 81 + "=1}", {}), ('{"a": 1}{"b": 2}', {"a": 1}),
    ],
)  # fmt: skip
def test_pairs_end_where_the_bracket_does(text: str, expected: dict[str, object]) -> None:
    """Text in quotes or nested brackets does not split."""
    assert pairs(text) == expected


class _Swept:
    """Garbage whose end takes long enough for another thread to have its turn."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        sum(range(300))


def test_two_threads_parse_python_concurrently() -> None:
    """As the guards of two servers do: neither stumbles over the other's tree, and the filters of warnings stay."""
    text = "{" + ", ".join(f"'k{number}': [{number}, {{'a': 0.5}}]" for number in range(60)) + "}"
    before, told = list(warnings.filters), []

    def read() -> None:
        for _ in range(100):
            told.append((type(literal(text)), len(python_trees.parse(f"x = {text}").body)))
            _ = [_Swept() for _ in range(5)]

    threads = [threading.Thread(target=read) for _ in range(2)]
    interval = sys.getswitchinterval()
    try:
        sys.setswitchinterval(1e-6)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)

    assert told == [(dict, 1)] * 200
    assert list(warnings.filters) == before
