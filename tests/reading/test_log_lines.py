"""Every prefix is parsed, every line has its place, and only the log of a page is read."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost import LIMIT, growth
from rows import in_one_test
from vllm_runbooks.catalog import folders
from vllm_runbooks.core.records import Process
from vllm_runbooks.reading.startup_log import log_lines
from vllm_runbooks.reading.startup_log.log_lines import MAX_LINE, MAX_QUOTE, LogLine, clean, is_page, quote, read_lines

NOBODY = Process(None)
LOGS = Path(__file__).parents[1] / "logs"


def lines(text: str, name: str = "a.log") -> list[LogLine]:
    return [line for block in read_lines(name, [text]) for line in block]


@in_one_test(
    ("text", "process", "level", "time", "source"),
    [
        (
            "(EngineCore_DP0 pid=68) INFO 02-23 21:55:00 [core.py:105] said",
            Process("EngineCore_DP0", 68),
            "INFO",
            "02-23 21:55:00",
            "core.py:105",
        ),
        (
            "(Worker_TP1 pid=7) WARNING 02-23 21:55:00.123 [v1/worker/gpu_worker.py:4] said",
            Process("Worker_TP1", 7),
            "WARNING",
            "02-23 21:55:00.123",
            "v1/worker/gpu_worker.py:4",
        ),
        (
            "(VllmWorkerProcess pid=7) ERROR 02-23 21:55:00 runbooks/worker.py:240] said",
            Process("VllmWorkerProcess", 7),
            "ERROR",
            "02-23 21:55:00",
            "runbooks/worker.py:240",
        ),
        (
            "(VllmWorker rank=1 pid=52940) INFO 04-14 14:23:05 [loader.py:447] said",
            Process("VllmWorker", 52940, None, 1),
            "INFO",
            "04-14 14:23:05",
            "loader.py:447",
        ),
        (
            "(RayWorkerWrapper pid=9, ip=10.0.0.2) INFO 02-23 21:55:00 [a.py:1] said",
            Process("RayWorkerWrapper", 9, "10.0.0.2"),
            "INFO",
            "02-23 21:55:00",
            "a.py:1",
        ),
        (
            "(ServeController pid=9) ERROR 2026-11-20 09:14:02,123 controller 9 -- said",
            Process("ServeController", 9),
            "ERROR",
            "2026-11-20 09:14:02,123",
            None,
        ),
        (
            "WARNING 2026-11-20 09:14:02,123 default_LLMServer a1b2c3d4 0f1e2d3c-4b5a-6978 -- said",
            NOBODY,
            "WARNING",
            "2026-11-20 09:14:02,123",
            None,
        ),
        ("(pid=9) said", Process(None, 9), None, None, None),
        ("(EngineCore_DP0 pid=68) said", Process("EngineCore_DP0", 68), None, None, None),
        ("[rank0]: said", Process(None, None, None, 0), None, None, None),
        ("[rank3]:[W123] said", Process(None, None, None, 3), None, None, None),
        ("INFO:     said", NOBODY, "INFO", None, None),
        (
            "INFO 02-23 21:55:00 [a.py:1] [rank2]: said",
            Process(None, None, None, 2),
            "INFO",
            "02-23 21:55:00",
            "a.py:1",
        ),
        ("(APIServer pid=1) INFO:     said", Process("APIServer", 1), "INFO", None, None),
        ("2025-10-20 12:37:08 | INFO | said", NOBODY, "INFO", "2025-10-20 12:37:08", None),
        (
            "2025-10-20 12:37:08.123 | SUCCESS  | app.main:run:12 - said",
            NOBODY,
            "SUCCESS",
            "2025-10-20 12:37:08.123",
            None,
        ),
        ("2025-10-20 12:37:08,123 - my.logger - ERROR - said", NOBODY, "ERROR", "2025-10-20 12:37:08,123", None),
        ("[2025-10-20 12:37:08] INFO: said", NOBODY, "INFO", "2025-10-20 12:37:08", None),
        ("[INFO] 2025-10-20T12:37:08Z - said", NOBODY, "INFO", "2025-10-20T12:37:08Z", None),
        ("[WARNING] said", NOBODY, "WARNING", None, None),
        ("INFO 02-2321:55:00 __init__.py:190]said", NOBODY, "INFO", "02-2321:55:00", "__init__.py:190"),
        ("^C(APIServer pid=1) said", Process("APIServer", 1), None, None, None),
        (
            "vllm-1  | (APIServer pid=1) INFO 02-23 21:55:00 [a.py:1] said",
            Process("APIServer", 1),
            "INFO",
            "02-23 21:55:00",
            "a.py:1",
        ),
        ("my-server   | said", NOBODY, None, None, None),
        (
            "2026-11-20T08:12:52.123456789Z stderr F INFO 02-23 21:55:00 [a.py:1] said",
            NOBODY,
            "INFO",
            "02-23 21:55:00",
            "a.py:1",
        ),
        ("2026-11-20T08:12:52.123456789Z (APIServer pid=1) said", Process("APIServer", 1), None, None, None),
        ("[pod/vllm-0/server] INFO:     said", NOBODY, "INFO", None, None),
        ("Nov 20 08:12:52 gpu01 vllm[4242]: (APIServer pid=1) said", Process("APIServer", 1), None, None, None),
        ("(EngineCore pid=…) ERROR ... [core.py:1140] said", Process("EngineCore"), "ERROR", None, None),
        ("(Worker_TP0 pid=<pid>) ERROR 11-20 [core.py] said", Process("Worker_TP0"), "ERROR", None, None),
        ("(APIServer) INFO xx-xx xx:xx:xx [...] said", Process("APIServer"), "INFO", None, None),
        ("ERROR … said", NOBODY, "ERROR", None, None),
        ("ERROR 02-23 21:55:00 said", NOBODY, "ERROR", "02-23 21:55:00", None),
        ("02-23 21:55:00 [core.py:1140] said", NOBODY, None, None, "core.py:1140"),
        ("    (APIServer pid=1) INFO:     said", Process("APIServer", 1), "INFO", None, None),
        (
            (
                "\x1b[0;36m(APIServer pid=1)\x1b[0;0m \x1b[32mINFO\x1b[0m "
                "\x1b[90m02-23 21:55:00\x1b[0m [a.py:1] \x1b[1msaid"
            ),
            Process("APIServer", 1),
            "INFO",
            "02-23 21:55:00",
            "a.py:1",
        ),
        ("\x1b]0;title\x07\x1b[36m(EngineCore pid=1)\x1b[0m said", Process("EngineCore", 1), None, None, None),
    ],
)
def test_prefixes(text: str, process: Process, level: str | None, time: str | None, source: str | None) -> None:
    """Process, level, time and source are removed from the message, in any order and color."""
    (line,) = lines(text)

    assert line.text.removeprefix("[W123] ") == "said"
    assert (line.process, line.level, line.time, line.source) == (process, level, time, source)
    assert line.has_header is (level is not None)


@pytest.mark.parametrize(
    "text",
    [
        "said INFO", "INFORMATION said", "model | size", "Loading: 33% | 1/3", "12:30 said", "[1/2] said",
        "(pid) said", "99: said",
        "(Workers are lost) said", "ERROR said", "INFO of [a] said", "[a.py] said", "ERROR.. said",
        "2025-10-20 said", "ERRORS 02-23 21:55:00 a", "Warning: said", "| GPU  Name | Memory |",
    ],
)  # fmt: skip
def test_text_that_resembles_a_prefix_is_message(text: str) -> None:
    """A message keeps its own words."""
    (line,) = lines(text)

    assert (line.text, line.process, line.level) == (text, NOBODY, None)


def test_a_header_inside_a_message_stays() -> None:
    """After the logger's header everything is message."""
    stamp = "2025-10-20 12:37:08"
    headers = (
        "INFO 02-23 21:55:00 [a.py:1] ",
        "INFO:     ",
        f"{stamp} | INFO | ",
        f"{stamp},123 - my.logger - INFO - ",
    )
    messages = (
        "ERROR: quoted",
        "[ERROR] quoted",
        f"{stamp} | ERROR | quoted",
        f"{stamp},123 - my.logger - ERROR - quoted",
    )
    for header, message in itertools.product(headers, messages):
        (line,) = lines(header + message)

        assert (line.level, line.text) == ("INFO", message)


def test_indentation_of_the_message_stays() -> None:
    """Code in a traceback keeps its leading blanks; trailing blanks are dropped."""
    assert [line.text for line in lines("INFO 02-23 21:55:00 [a.py:1]     raise x  \n  File\n")] == [
        "    raise x",
        "  File",
    ]


def test_lines_and_columns_count_from_one_with_colours() -> None:
    """The place of a character is its place in the file, escapes and control characters counted."""
    text = (
        "first\n\x1b[36m(APIServer pid=1)\x1b[0m \x1b[32mINFO\x1b[0m "
        "02-23 21:55:00 [a.py:1] sa\x00id \x1b[1mhere\x1b[0m\r\n\nlast"
    )
    found = lines(text)

    assert [line.number for line in found] == [1, 2, 3, 4]
    line = found[1]
    raw = text.split("\n")[1]
    for word in ("said", "here"):
        column = line.column(line.text.index(word))
        assert raw[column - 1 :].startswith(word[0])
    assert raw[line.column(line.text.index("here")) - 1 :].startswith("here")
    assert found[0].column() == 1


def test_progress_bars_are_split_at_carriage_returns() -> None:
    """Each state of a bar is a line with the same number and its own column."""
    found = lines("Loading: 0%| | 0/2\rLoading: 50%| | 1/2\rLoading: 100%| | 2/2\r\nnext\r\n")

    assert [(line.number, line.raw_column, line.text[:12]) for line in found] == [
        (1, 1, "Loading: 0%|"), (1, 20, "Loading: 50%"), (1, 40, "Loading: 100"), (2, 1, "next"),
    ]  # fmt: skip


def test_joined_lines_are_cut_at_headers() -> None:
    """A paste that lost its line ends still has its lines, at their columns."""
    text = (
        "INFO 02-2321:55:00 a.py:190]one.INFO 02-2321:55:01 b.py:1] two"
        "(Worker pid=5) INFO 02-23 21:55:02 c.py:2] threeINFO:     Started server process [9]"
    )
    found = lines(text)

    assert [line.text for line in found] == ["one.", "two", "three", "Started server process [9]"]
    assert [line.number for line in found] == [1, 1, 1, 1]
    assert [text[line.raw_column - 1 :][:4] for line in found] == ["INFO", "INFO", "(Wor", "INFO"]
    assert [text[line.column() - 1 :].startswith(line.text) for line in found] == [True] * 4


def test_several_prefixes_do_not_split_a_line() -> None:
    """Two prefixes on a line are still one line."""
    assert [line.text for line in lines("vllm-1  | (Worker pid=1) INFO 02-23 21:55:02 [c.py:2] said")] == ["said"]


def test_very_long_lines_are_read_in_pieces() -> None:
    """A line of megabytes is several lines at one number; no character is lost."""
    found = lines("x" * (2 * MAX_LINE + 5) + "\nend")

    assert [(line.number, line.raw_column, len(line.text)) for line in found] == [
        (1, 1, MAX_LINE), (1, MAX_LINE + 1, MAX_LINE), (1, 2 * MAX_LINE + 1, 5), (2, 1, 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b[31mb\x1b[0m", "ab"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("a\x00\x08b\x7f", "ab"),
        ("tab\tstays é", "tab\tstays é"),
        ("\x1b[1;31;4;38;5;196mx", "x"),
        ("\x1b\x1b[0mx", "x"),
    ],
)
def test_escapes_and_control_characters_are_removed(text: str, expected: str) -> None:
    """Terminal control sequences are not text."""
    assert clean(text) == expected


PAGE = """\
# How I served a model

Start it with `vllm serve m`; the log says `INFO 02-23 21:55:00 [a.py:1] quoted` at the end.

| name | value |
|------|-------|
| INFO 02-23 21:55:00 [a.py:1] in a table | 1 |

```bash
vllm serve recommended --port 1
export A=b
```

```
root@h:/# vllm serve m --port 2
INFO 02-23 21:55:00 [a.py:1] one
Traceback (most recent call last):
  File "/x/a.py", line 3, in run
    call()
RuntimeError: message
of two lines
```

Later it printed:

    (Worker pid=5) INFO 02-23 21:55:02 [c.py:2] two
    and more
    of it

## Table of results
"""


def test_only_the_log_of_a_page_is_read() -> None:
    """Prose, tables, quotations and commands are skipped; line numbers are the page's."""
    found = lines(PAGE, "page.md")

    assert [(line.number, line.region, line.text.strip()) for line in found] == [
        (15, 1, "root@h:/# vllm serve m --port 2"),
        (16, 1, "one"),
        (17, 1, "Traceback (most recent call last):"),
        (18, 1, 'File "/x/a.py", line 3, in run'),
        (19, 1, "call()"),
        (20, 1, "RuntimeError: message"),
        (21, 1, "of two lines"),
        (26, 2, "two"),
        (27, 2, "and more"),
    ]


def test_a_log_joined_to_prose_is_read() -> None:
    """Four headers on a line are a log that lost its line ends, in a page as well."""
    glued = "We ran it: " + "".join(f"INFO 02-23 21:55:0{n} a.py:{n}] line {n}" for n in range(5))

    assert [line.text for line in lines(f"# Title\n\n{glued}\n", "page.md")] == [f"line {n}" for n in range(5)]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.md", "anything", True), ("a.HTML", "anything", True), ("a.log", PAGE, True), ("-",
        "```\nlog\n```\n```\n", True),
        ("a.log", "INFO 02-23 21:55:00 [a.py:1] one\n" * 10, False), ("a.log", "# 1 of 2\n" * 10, False),
        ("a.log", "| NVIDIA-SMI 535.1 |\n|-----+------|\n| 0 A100 | 1MiB |\n" * 5, False),
    ],
)  # fmt: skip
def test_pages_and_logs_are_distinguished(name: str, text: str, expected: bool) -> None:  # noqa: FBT001 - a table's column
    """By the file suffix or the page's markup; tables of nvidia-smi are log."""
    assert is_page(name, text) is expected


def test_a_page_may_end_inside_its_log() -> None:
    """The last line's continuation is kept when the page ends."""
    assert [line.text for line in lines("INFO 02-23 21:55:00 [a.py:1] one\nmore\n", "page.md")] == ["one", "more"]
    assert [line.text for line in lines("INFO 02-23 21:55:00 [a.py:1] one\n# Title\n", "page.md")] == ["one"]
    assert [line.text for line in lines("INFO 02-23 21:55:00 [a.py:1] one\n\n\n\n\n\nfar", "page.md")] == ["one"]


def test_recorded_prefixes_are_removed() -> None:
    """Logs from containers read like the program's own output."""
    for name in ("compose-prefix-colours", "container-runtime-prefix"):
        found = lines((LOGS / f"{name}.log").read_text(encoding="utf-8"))
        assert not [line.text for line in found if re.match(r"vllm-1|2026-|\(APIServer|INFO \d", line.text)]
        assert any(line.process.name == "APIServer" and line.source for line in found)


def test_excerpts_are_short_and_show_the_match() -> None:
    """At most 400 characters, from the line's beginning, or from a match further on."""
    (line,) = lines("INFO 02-23 21:55:00 [a.py:1]   " + "x" * 1000 + " needle " + "y" * 1000)
    start = line.text.index("needle")

    near, far = quote(3, line), quote(3, line, start, start + 6)

    assert (near.file, near.line, near.column, len(near.text)) == (3, 1, 30, MAX_QUOTE)
    assert near.text.startswith("xxx")
    assert far.text.startswith("needle ")
    assert far.column == line.raw.index("needle") + 1


def test_excerpts_hide_secrets_that_begin_before_them() -> None:
    """An excerpt that begins after a secret's name does not show its value."""
    (line,) = lines("x" * 500 + " --api-key Zk3PqW9xLm2RtY7u needle")
    start = line.text.index("Zk3P")

    assert "Zk3P" not in quote(0, line, start, start + 30).text


HEADER = "INFO 02-23 21:55:00 [a.py:1] "


def wrapped(width: int, rows: int, going_on: int) -> str:
    """Rows of a terminal's width, some continued in the next one; a shorter row ends the text."""
    text = ""
    for number in range(rows):
        text += f"{number:<9}".ljust(width, "x") + "\n" + ("the rest\n" if number < going_on else "+----\n")
    return text + "end\n"


@pytest.mark.parametrize(
    ("width", "rows", "going_on", "is_joined"),
    [
        (40, 4, 4, True), (39, 4, 4, False), (500, 4, 4, True), (501, 4, 4, False),
        (80, 3, 3, False), (80, 5, 4, True), (80, 6, 4, False), (80, 8, 6, True), (80, 8, 5, False),
    ],
)  # fmt: skip
def test_a_wrapped_text_is_detected(width: int, rows: int, going_on: int, *, is_joined: bool) -> None:
    """At least four different rows of 40 to 500 columns, three of four of them continued."""
    found = lines(wrapped(width, rows, going_on))

    assert any(line.width for line in found) is is_joined
    assert len(found) == 2 * rows + 1 - going_on * is_joined
    assert {line.width for line in found} <= {0, width}


@pytest.mark.parametrize(
    "row",
    [
        "",
        "   ",
        f"{HEADER}said",
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "| a",
        "= a",
        "# a",
        "- a",
        "* a",
    ],
)
def test_a_row_that_begins_a_new_line_is_not_a_continuation(row: str) -> None:
    """Headers, frames and drawings begin a line."""
    full = ["x" * 79 + str(number) for number in range(5)]
    text = "\n".join(part for number, one in enumerate(full) for part in (one, "the rest" if number else row))

    assert [line.text for line in lines(text)][:2] == [full[0], lines(f"a\n{row}\nb")[1].text]
    assert len(lines(text)) == 6


def test_a_row_may_begin_with_the_rest_of_a_name() -> None:
    """`=value` is the rest of a name, not a drawing."""
    full = ["x" * 79 + str(number) for number in range(5)]

    assert [line.text for line in lines("\n".join(part for one in full for part in (one, "=value")))] == [
        f"{one}=value" for one in full
    ]


def test_equal_rows_are_not_wrapped_text() -> None:
    """Only different rows count; the last row is not continued."""
    for full in (["x" * 80] * 6, [f"{number:<80}".replace(" ", "x") for number in range(3)]):
        text = "\n".join(part for one in full for part in (one, "the rest")) + "\n" + "y" * 80

        assert {line.width for line in lines(text)} == {0}


def test_the_place_of_a_character_in_a_wrapped_line() -> None:
    """Its row, and its column in that row, both counted from 1."""
    line = LogLine(7, "abcdefgh", NOBODY, raw="abcdefgh", width=3)

    assert [line.place(offset) for offset in range(8)] == [
        (7, 1), (7, 2), (7, 3), (8, 1), (8, 2), (8, 3), (9, 1), (9, 2),
    ]  # fmt: skip
    assert LogLine(7, "b", NOBODY, raw="\x1b[1ma\x1b[0mb", text_start=1, raw_column=5).place() == (7, 14)
    assert LogLine(7, "ab", NOBODY, raw="a\x1b[0mb").column(0) == 1
    assert LogLine(7, "ab", NOBODY, raw="\x00a\x00\x00b").column(1) == 5


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        (["```", "```"], True), (["```", "# A", "# B"], True), (["```", "# A"], False), (["# A"] * 3, False),
        (["# A", "## B", "<p>", "| --- | --- |"], True), (["x"] * 1997 + ["```", "# A", "# B"], True),
        (["x"] * 1998 + ["```", "# A", "# B"], False), (["x" * 100_000, "x" * 99_980, "```", "```"], True),
        (["x" * 100_000, "x" * 100_000, "```", "```"], False),
    ],
)  # fmt: skip
def test_marks_of_a_page_are_counted(marks: list[str], expected: bool) -> None:  # noqa: FBT001 - a table's column
    """A fence for two; four in the first 2000 lines and 200 000 characters make a page."""
    assert is_page("a.log", "\n".join(marks)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # After the last blank near the limit, else at the limit.
        ("x" * (MAX_LINE - 10) + " " + "y" * 30, [(1, MAX_LINE - 10), (MAX_LINE - 8, 30)]),
        ("x" * (MAX_LINE - 1024) + " " + "y" * 1100, [(1, MAX_LINE - 1024), (MAX_LINE - 1022, 1100)]),
        ("x" * (MAX_LINE - 1025) + " " + "y" * 1100, [(1, MAX_LINE), (MAX_LINE + 1, 76)]),
        ("x" * MAX_LINE, [(1, MAX_LINE)]),
        # Before the last header of the second half.
        (f"{'x' * (MAX_LINE - 5000)}{HEADER}{'y' * 6000}", [(1, MAX_LINE - 5000), (MAX_LINE - 4999, 6000)]),
        (f"{'x' * 5000}\r{'y' * (MAX_LINE + 5)}", [(1, 5000), (5002, MAX_LINE), (5002 + MAX_LINE, 5)]),
    ],
)  # fmt: skip
def test_where_a_long_line_is_cut(text: str, expected: list[tuple[int, int]]) -> None:
    """All pieces have one line number, and each its column and all characters."""
    found = lines(f"{text}\nend")

    assert [(line.raw_column, len(line.text)) for line in found] == [*expected, (1, 3)]
    assert [line.number for line in found] == [1] * len(expected) + [2]


def test_lines_are_read_in_blocks() -> None:
    """At most 128 lines; a pause passes on complete lines, and an open line waits."""
    text = "".join(f"{number}\n" for number in range(300))
    assert [len(block) for block in read_lines("a.log", [text])] == [128, 128, 44]
    assert [len(block) for block in read_lines("a.log", [text[:512]])] == [128, 27, 1]
    assert [len(block) for block in read_lines("a.md", [f"{HEADER}x\n" * 300])] == [128, 128, 44]

    arriving = read_lines("a.log", ["a\nb", "", "c\n", "", "d"])
    assert [[line.text for line in block] for block in arriving] == [["a"], [], ["bc"], [], [], ["d"]]


def test_an_overwritten_state_is_one_line() -> None:
    """Later columns still count its characters."""
    found = lines("a\ra\rb\ra\n")

    assert [(line.raw_column, line.text) for line in found] == [(1, "a"), (5, "b"), (7, "a")]


@pytest.mark.parametrize("key", ["log", "message", "msg", "MESSAGE", "textPayload", "line"])
def test_the_text_of_a_log_record_is_read(key: str) -> None:
    """The first key that log stores use for text; other records are plain lines."""
    record = json.dumps({"stream": "stdout", key: f"{HEADER}one\nWARNING 02-23 21:55:00 [a.py:1] two\n"})
    found = lines(f"before\n  {record[:-1]}}}\n{record}\n")

    assert [(line.number, line.text) for line in found][-2:] == [(3, "one"), (3, "two")]
    assert [line.level for line in found][-2:] == ["INFO", "WARNING"]
    assert [line.text for line in lines(json.dumps({"log": 7, key: "x"}))] == ["x"]
    assert [line.text for line in lines('{"other": "x"}')] == ['{"other": "x"}']


@pytest.mark.parametrize(("blanks", "level"), [(16, "INFO"), (17, None)])
def test_a_prefix_may_be_indented(blanks: int, level: str | None) -> None:
    """By sixteen blanks, unlike the rest of the log."""
    assert [line.level for line in lines(f"{HEADER}a\n{' ' * blanks}{HEADER}b")] == ["INFO", level]


@pytest.mark.parametrize(("offset", "shown"), [(0, 0), (31, 0), (400, 0), (401, 400), (1000, 999)])
def test_an_excerpt_begins_where_the_match_is_visible(offset: int, shown: int) -> None:
    """At the line's beginning if the match ends within 400 characters, else at the match."""
    (line,) = lines(HEADER + "".join(f"{number:04}" for number in range(500)))
    start = max(offset - 1, 0)
    found = quote(0, line, start, offset)

    assert found.column == start + 30
    assert found.text[:4] == line.text[shown : shown + 4]


LOGLIKE = st.lists(
    st.sampled_from(["INFO", " ", "02-23 21:55:00", "[a.py:1]", "] ", "(W pid=1)", "\n", "\r", "\x1b[0m", "\x1b",
    "```", "| a |", "Traceback (most recent call last):", 'File "a", line 1, in b', "E: x", "é", "\x00",
    "[rank0]: "]) | st.text(max_size=5),
    max_size=40,
).map("".join)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(LOGLIKE, st.sampled_from(["a.log", "a.md"]))
def test_any_text_has_lines_inside_the_file(text: str, name: str) -> None:
    """No exception; numbers and columns inside the file; short excerpts."""
    last = text.count("\n") + 1
    longest = max(len(row) for row in text.split("\n"))
    for line in lines(text, name):
        assert 1 <= line.number <= last
        number, column = line.place(len(line.text))
        assert 1 <= number <= last
        assert 1 <= column <= longest + 1
        assert len(quote(0, line).text) <= MAX_QUOTE


UNITS = [
    "a", " ", "(", "[", "1", "-", "a-", "/", "a.", "INFO ", "INFO 02-23 21:55:00 ", "2025-10-20 ",
    "2025-10-20T12:37:08Z ", "|", "| ", "(W pid=1)", "(W pid=1) ",
    "(Wx", "\x1b", "\x1b[", "\x1b[0m", "\x1b]", "A.", "A", "AError: ", "Traceback ", 'File "', "100%", ": ", "`",
    "#", "<p", "---|", "+|", "\t", "a@a", "pid=", "\x00", "é",
]  # fmt: skip


SEARCHED = (log_lines._UNSEEN, log_lines._GLUED)
MATCHED = [
    *(value for value in vars(log_lines).values() if isinstance(value, re.Pattern) and value not in SEARCHED),
    *(prefix.pattern for prefix in (*log_lines._PREFIXES, *log_lines._CARRIERS)),
]


@in_one_test("unit", UNITS)
def test_every_expression_is_linear(unit: str) -> None:
    """Doubling any repetition at most doubles the time of each of the module's expressions."""
    text = unit * (20_000 // len(unit))
    for pattern in MATCHED:
        assert growth(pattern.match, text) <= LIMIT, pattern.pattern
    for pattern in SEARCHED:
        assert growth(pattern.findall, text) <= LIMIT, pattern.pattern


@pytest.mark.slow
@in_one_test("name", ["a.log", "a.md"])
@in_one_test("unit", [*UNITS, "\r", "\n", "INFO 02-23 21:55:00 [a.py:1] x\n", "\x1b[31m\x1b[1m"])
def test_reading_lines_is_linear(unit: str, name: str) -> None:
    """For any repeated text, on one line or many."""
    assert growth(lambda text: sum(line.column(9) for line in lines(text, name)), unit * (6000 // len(unit))) <= LIMIT


CASES = sorted(path.parent.name for path in folders.cases_dir().glob("tiny-cpu-*/startup.log"))


@in_one_test("width", [80, 100, 133])
@in_one_test("case", CASES)
def test_rows_of_a_terminal_are_joined(case: str, width: int) -> None:
    """Nearly all lines are read as before wrapping, each at its row and column."""
    text = (folders.cases_dir() / case / "startup.log").read_text("utf-8")
    rows = [line[at : at + width] for line in text.splitlines() for at in range(0, len(line) or 1, width)]
    wrapped = lines("\n".join(rows))
    before = {line.text for line in lines(text)}

    assert sum(line.text in before for line in wrapped) >= 0.9 * len(wrapped)
    for line in wrapped:
        number, column = line.place(0)
        assert not line.text or rows[number - 1][column - 1 :].startswith(line.text[: width - column + 1].rstrip())


def test_lines_that_only_look_wrapped_are_left_alone() -> None:
    """Tables, repeated lines and tracebacks have rows of one length."""
    table = ["+" + "-" * 78 + "+", "|" + " " * 78 + "|"] * 6
    repeated = [f"INFO 11-20 09:00:0{n} [loggers.py:259] " + "x" * 45 for n in range(9)]
    frames = [f'  File "/opt/vllm/{"a" * 30}/x{n}.py", line 10, in {"b" * 20}' for n in range(9)]
    for rows in (table, repeated, frames):
        assert [line.width for line in lines("\n".join(rows))] == [0] * len(rows)


@pytest.mark.parametrize("indent", [" ", "   ", "      ", "\t"])
def test_the_common_indentation_of_a_log_is_removed(indent: str) -> None:
    """As in a list or a careless paste; the log's own indentation stays."""
    text = (
        'Traceback (most recent call last):\n  File "/opt/vllm/config.py", line 3, in get_config\n'
        "    raise KeyError(key)\nKeyError: 'mllama'\n"
    )
    indented = "".join(f"{indent}{line}\n" for line in text.splitlines())

    assert [line.text for line in lines(indented)] == text.splitlines()
    assert [line.text for line in lines("Traceback (most recent call last):\n" + indented)][1:] == indented.splitlines()


AT = "2026-11-20T08:00:00.123456789Z"


def test_lines_split_by_kubernetes_are_joined() -> None:
    """Parts are joined by stream; a line without its end is read as far as possible."""
    text = (
        f"{AT} stderr P ValueError: To serve \n{AT} stdout F INFO 11-20 08:00:00 [a.py:1] between\n"
        f"{AT} stderr P at least \n{AT} stderr F one request\n{AT} stderr P cut off"
    )

    assert [line.text for line in lines(text)] == ["between", "ValueError: To serve at least one request", "cut off"]


def test_a_journal_s_bytes_are_text() -> None:
    """Journald writes a line with colours as a list of numbers."""
    coloured = "\x1b[31mINFO 11-20 08:00:00 [a.py:1] red\x1b[0m"
    record = json.dumps({"_PID": "812", "MESSAGE": list(coloured.encode())})

    [line] = lines(record)
    assert (line.level, line.text) == ("INFO", "red")
    assert lines(json.dumps({"MESSAGE": [1, "x", 999]}))[0].text.startswith("{")


@in_one_test(
    "carrier",
    [
        f"{AT} stdout F ", f"{AT} stderr F ", "2026-11-20T08:00:00+01:00 gpu01 vllm[12]: ", f"{AT} ",
        "2026/11/20 08:00:00.123 ", "2026-11-20 08:00:00 ", "[pod/a-1/b] ", "[1,0]<stdout>: ",
        "[12345,1]<stderr>:", "[    1.234567] gpu01 vllm[12]: ", "[123456789.123] gpu01 a@b[1]: ",
        "Nov  9 08:00:00 gpu01 vllm[12]: ", "Nov 20 08:00:00.123456 gpu01 vllm[12]:",
        "Mon 2026-11-20 08:00:00 UTC gpu01 vllm[12]: ", "vllm-1  | ", "vllm_1 | ", "web  |", "a.b-c     | ",
    ],
)  # fmt: skip
def test_prefixes_of_log_carriers_are_removed(carrier: str) -> None:
    """Prefixes of container runtimes, schedulers and journals, and the column after them."""
    for said in (f"{HEADER}one", "(Worker pid=5) one"):
        (line,) = lines(f"{carrier}{said}")

        assert (line.text, line.number, line.column()) == ("one", 1, len(carrier) + len(said) - 2)
        assert (line.level, line.process.pid) == (("INFO", None) if said[0] == "I" else (None, 5))


@in_one_test(
    "prefix",
    [
        "vllm-7c9f-x2x4z vllm ", "[vllm-server] ", "stderr: ", "0|vllm  | ", "[2026-11-20 09:14:0{n}] ", "[0{n}:14] ",
        "2026-11-20T09:14:0{n}.12Z\t", "2026-11-20 09:14:0{n},123 DEBG 'vllm' stderr output: ", "server.log:{n}:",
        "Nov 20 09:14:0{n} gpu01 vllm: ", "E 2026-11-20T09:14:02.12Z ",
    ],
)  # fmt: skip
def test_the_prefix_of_any_collector_is_removed(prefix: str) -> None:
    """Whatever stands before nearly every line of a log is not part of its messages."""
    rows = [
        f"{HEADER}one",
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "    f()",
        "(Worker pid=5) x",
    ]
    found = lines("\n".join(prefix.format(n=n) + row for n, row in enumerate(rows)))

    assert [line.text for line in found] == ["one", *rows[1:4], "x"]


def test_words_before_a_few_headers_are_no_prefix() -> None:
    """A prefix is before nearly every line."""
    text = f"see {HEADER}one\nsee {HEADER}two\nthree\nfour"

    assert [line.text for line in lines(text)] == ["see", "one", "see", "two", "three", "four"]


@pytest.mark.parametrize("carrier", ["7: ", "12345:  ", "vllm-1  | 7: "])
def test_a_task_number_is_removed(carrier: str) -> None:
    """Schedulers print it before every line."""
    assert [(line.text, line.column()) for line in lines(f"{carrier}{HEADER}one")] == [("one", len(carrier) + 30)]


@in_one_test(
    "text",
    [
        "123456: (x", "7:   (x", "7: x", "web | x", "1web  | x", "[1,0]<stdin>: x", "[1.23] gpu01 vllm[12]: x",
        "[pod/a b] x", "Nov 20 08:00:00 gpu01 vllm: x", "nov 20 08:00:00 gpu01 vllm[12]: x", "2026-11-20 08:00 x",
        "2026-11-20T08:00:00Z | x", "2026-11-20 08:00:00 - x", "[rankx]: x", "(Worker pid=12345678901) x",
        "[rank123456]: x", "(a b pid=1) x", "(1a pid=1) x", "[abc m",
    ],
)  # fmt: skip
def test_text_that_resembles_a_carrier_stays(text: str) -> None:
    """It is part of the message."""
    assert [(line.text, line.process, line.level) for line in lines(text)] == [(text, NOBODY, None)]


@pytest.mark.parametrize("rows", range(6))
def test_a_log_in_a_page_may_have_three_unmarked_lines(rows: int) -> None:
    """More of them end the section; the first may be the rest of a message."""
    between = [f"words {number}" for number in range(rows)]
    found = lines("\n".join([f"{HEADER}one", *between, f"{HEADER}two"]), "a.md")
    kept = between if rows <= 3 else between[:1]

    assert [line.text for line in found] == ["one", *kept, "two"]
    assert [line.region for line in found] == [1] * (1 + len(kept)) + [1 if rows <= 3 else 2]
    assert found[-1].number == rows + 2


@pytest.mark.parametrize("behind", ["", "   ", "# Title", "```", "| a | b |\n|---|---|", "<details>"])
def test_the_end_of_a_log_section_is_not_part_of_it(behind: str) -> None:
    """A blank line, heading, fence or block; a table row counts as the message's rest."""
    found = lines("\n".join([f"{HEADER}one", behind, "a", "b", "c", "d"]), "a.md")

    assert [line.text for line in found] == ["one", *(["| a | b |"] if behind[:1] == "|" else [])]


@pytest.mark.parametrize(("headers", "found"), [(1, 0), (3, 0), (4, 4), (6, 6)])
def test_four_headers_after_prose_are_a_log(headers: int, found: int) -> None:
    """Fewer are a quotation; before prose one is enough."""
    glued = "".join(f"INFO 02-23 21:55:0{n} a.py:{n}] line {n}" for n in range(headers))

    assert [line.text for line in lines(f"We ran it: {glued}", "a.md")] == [f"line {n}" for n in range(found)]
    assert [line.text for line in lines(glued, "a.md")] == [f"line {n}" for n in range(headers)]


@in_one_test(
    ("text", "is_log"),
    [
        (f"{HEADER}x", True), ("INFO:     x", False), ("INFO:     x.", True), ("(Worker pid=5) x", True),
        ("(Worker pid=5) INFO:     x", True), ("[rank0]: x", True), ("Traceback (most recent call last):", True),
        ('  File "a.py", line 1, in f', True), ("~/a.py:12, in f(x)", True), ("ValueError: x", True),
        ("ValueError", False), ("ValueError:", False), ("odd: x", False), ("Loading: 33%  |", False),
        ("Loading: 33% |", True),
        ("Loading:  33%| 1/3", True), ("Loading: 33% Completed | 1/3", True), ("root@h:/# vllm serve m", True),
        ("vllm serve m", False), (f"| {HEADER}x |", False), ("| ValueError: x |", False), ("``` ValueError: x", False),
    ],
)  # fmt: skip
def test_lines_of_a_page_that_must_be_log(text: str, *, is_log: bool) -> None:
    """A header, process, traceback, progress bar or prompt; a table row is not log."""
    assert [line.number for line in lines(text, "a.md")] == [1] * is_log


def test_an_unrelated_json_record_is_a_plain_line() -> None:
    """So is one that is cut, too deeply nested, or without text."""
    deep = '{"log":' + "[" * 60_000
    for record in (deep, '{"log": 1}', '{"log": null}', '{"log": {"a": "x"}}', '{"log": "x"', '{"a b": 1, "log": "x"}'):
        assert [line.text for line in lines(record)] == [record]
    assert [line.text for line in lines('{"log": ""}\n{"log": "\\n"}')] == ["", ""]
    assert [line.text for line in lines('{"message": null, "log": null, "msg": "x\\n\\ny\\n"}')] == ["x", "", "y"]
    assert [line.text for line in lines(' {"message": "x"}')] == [' {"message": "x"}']


def test_a_line_split_by_kubernetes_ends_at_the_limit() -> None:
    """Parts above the line limit become a line."""
    text = f"{AT} stderr P {'x' * 40_000}\n{AT} stderr P {'y' * 40_000}\n{AT} stderr P z\n{AT} stderr F w"

    assert [(line.number, line.text) for line in lines(text)] == [(1, "x" * 40_000 + "y" * 40_000), (3, "zw")]


def test_parts_of_two_streams_are_joined_separately() -> None:
    """Each line has the place of its first part; other lines may come in between."""
    text = f"{AT} stdout P a\n{AT} stderr P b\nplain\n{AT} stdout F c\n{AT} stderr F d"

    assert [(line.number, line.text) for line in lines(text)] == [(3, "plain"), (1, "ac"), (2, "bd")]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        # An open line is read once it exceeds two line limits: after a bar's state, or at the
        # limit.
        (["x" * 131_072], [(1, 65_536), (65_537, 65_536)]),
        (["x" * 131_073], [(1, 65_536), (65_537, 65_536), (131_073, 1)]),
        (["a" * 10 + "\r" + "b" * 131_072], [(1, 10), (12, 65_536), (65_548, 65_536)]),
        (["x" * 100_000, "y" * 100_000, "\n"], [(1, 65_536), (65_537, 65_536), (131_073, 65_536), (196_609, 3392)]),
        (["x" * 65_535 + " " + "y" * 70_000], [(1, 65_535), (65_537, 65_536), (131_073, 4464)]),
        (["x" * 65_536 + "\n"], [(1, 65_536)]), (["x" * 65_537 + "\n"], [(1, 65_536), (65_537, 1)]),
    ],
)  # fmt: skip
def test_a_line_without_an_end_is_read_in_pieces(pieces: list[str], expected: list[tuple[int, int]]) -> None:
    """Of 65 536 characters at the most, each at its column; no character is lost."""
    found = [line for block in read_lines("a.log", pieces) for line in block]

    assert [(line.raw_column, len(line.text)) for line in found] == expected
    assert {line.number for line in found} == {1}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("  x  ", "x"), ("", ""), ("   ", ""), ("x" * 400, "x" * 400), ("x" * 401, "x" * 400),
        ("x" * 399 + " y", "x" * 399), (" " * 300 + "x", "x"),
    ],
)  # fmt: skip
def test_a_quotation_has_no_blanks_around_it(text: str, shown: str) -> None:
    """And 400 characters at the most; its column is that of the line."""
    found = quote(2, LogLine(5, text, NOBODY, raw=text))

    assert (found.file, found.line, found.column, found.text.rstrip()) == (2, 5, 1, shown)


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("ValueError: x", ("ValueError", " x")), ("ValueError", ("ValueError", None)),
        ("a.b.OddError:", ("a.b.OddError", None)),
        ("torch.OutOfMemoryError: x: y", ("torch.OutOfMemoryError", " x: y")),
        ("zmq.error.Again: x", ("zmq.error.Again", " x")),
        ("KeyboardInterrupt", ("KeyboardInterrupt", None)), ("SystemExit: 1", ("SystemExit", " 1")),
        ("ray.exceptions.ActorDiedError: x", ("ray.exceptions.ActorDiedError", " x")),
        ("triton.errors.OutOfResources: x", ("triton.errors.OutOfResources", " x")),
        ("EngineDead: x", ("EngineDead", " x")),
    ],
)  # fmt: skip
def test_an_exception_s_own_line(text: str, groups: tuple[str, str | None]) -> None:
    """Its type, and its message if any."""
    match = log_lines.is_exception(text)

    assert match
    assert (match["type"], match["message"]) == groups


@pytest.mark.parametrize("text", ["valueError: x", "Value: x", "ValueError x", " ValueError: x", "error.again: x", ""])
def test_lines_that_are_not_an_exception(text: str) -> None:
    """The name, or the text after it, decides."""
    assert log_lines.is_exception(text) is None


@in_one_test(
    ("text", "groups"),
    [
        ('  File "/x/a.py", line 12, in f', ("/x/a.py", "12", "f")),
        ('File "a", line 1, in <module>', ("a", "1", "<module>")),
        ('|   File "a", line 1, in f', ("a", "1", "f")), ("File ~/a.py:12, in f(x)", ("~/a.py", "12", "f")),
        ("~/a.py:12, in C.g(x)", ("~/a.py", "12", "C.g")), ("~/a.py in f(x)", ("~/a.py", None, "f")),
        ("File [/x/a.py:12](http://h/a), in f(x)", ("/x/a.py", "12", "f")),
        ("<ipython-1> in f(x)", ("<ipython-1>", None, "f")),
        (r"C:\x\a.py:12, in f(x)", (r"C:\x\a.py", "12", "f")), ('File "a", line 1', None),
        ('File "", line 1, in f', None),
        ('x File "a", line 1, in f', None), ("a.py:12, in f(x)", None), ("~/a.py:12, in f", None), ("in f(x)", None),
        ('File "a", line 123456789, in f', None), (" " * 13 + 'File "a", line 1, in f', None),
    ],
)  # fmt: skip
def test_a_frame_s_own_line(text: str, groups: tuple[str, str | None, str] | None) -> None:
    """Path, line and function, as the interpreter writes it and as notebooks do."""
    match = log_lines.frame(text)

    assert (match and (match["path"], match["line"], match["function"])) == groups
