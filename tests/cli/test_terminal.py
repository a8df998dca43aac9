"""A terminal gets colours and its own width, anything else the same words without: and no log chooses either."""

from __future__ import annotations

import io
import os
import pty
import re
import struct
import sys
import termios
import threading
import time
from contextlib import suppress
from fcntl import ioctl
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from command_line import run
from rows import in_one_test
from vllm_runbooks import cli
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.console import terminal
from vllm_runbooks.core.views import text_width as columns
from vllm_runbooks.core.views.styled import (
    Layout,
    Line,
    Prose,
    SentenceLines,
    Table,
    TextBlock,
    Tone,
    laid_out,
    plain,
    styled,
    wrapped,
)
from vllm_runbooks.core.views.summary import summary_view
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.render import answers
from vllm_runbooks.diagnosis.render.summaries import summarize
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.host import render as host_render
from vllm_runbooks.lint import checking
from vllm_runbooks.lint import render as render_issues
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.render import plans
from vllm_runbooks.probe import checking as probe_checking
from vllm_runbooks.probe import render as probe_render
from vllm_runbooks.reading import sources

CASES = folders.cases_dir()
SHOWN = ("autoglm-3090-video-oom", "tiny-cpu-served", "gpt-oss-gemma-a100-four-starts")
SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")
QUIET = {"NO_COLOR": "", "FORCE_COLOR": "", "COLUMNS": ""}


def seen(
    monkeypatch: pytest.MonkeyPatch,
    *arguments: str,
    columns: int = 80,
    encoding: str = "utf-8",
    environment: dict[str, str] | None = None,
) -> tuple[int, str]:
    """Exit status and output on a terminal with this many columns."""
    for name, value in {**QUIET, "TERM": "xterm-256color", **(environment or {})}.items():
        monkeypatch.setenv(name, value)
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    parts: list[bytes] = []

    def read() -> None:
        with suppress(OSError):  # the other end is closed
            while part := os.read(master, 65536):
                parts.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(slave, "w", encoding=encoding) as stream, monkeypatch.context() as within:
        within.setattr(sys, "stdout", stream)
        status = cli.run(list(arguments))
    reader.join(10)
    os.close(master)
    return status, b"".join(parts).decode(encoding).replace("\r\n", "\n")


@cache
def view(name: str) -> list[TextBlock]:
    """The output of a command on recorded evidence."""
    if name in SHOWN:
        answer = diagnosing.diagnose(sources.load(name))
        return [*summary_view(summarize(answer, again="vllm-runbooks diagnose --explain")), *answers.details(answer)]
    if name == "compared":
        answer = diagnosing.diagnose(sources.load(SHOWN[1]))
        assert answer.plan is not None
        return plans.view(answer.plan)
    if name == "host":
        return host_render.view(host_loading.inventory("host-8xa100-shared"))
    if name == "server":
        return probe_render.view(probe_checking.health(sources.load("probe-kv-pressure")), catalog.serving())
    layouts = planner.layouts(planner.request("Qwen/Qwen3-8B", "2xRTX3090"))
    return plans.view(layouts if name == "layouts" else layouts.layouts[0])


VIEWS = (*SHOWN, "compared", "layouts", "plan", "host", "server")


@in_one_test("name", VIEWS)
@in_one_test("columns", [60, 80, 120])
def test_every_view_fits_its_terminal(name: str, columns: int) -> None:
    """Only copied lines, quotations, commands and wide tables may be wider."""
    layout = terminal.layout(columns)
    fitting = [block for block in view(name) if columns >= 80 or not isinstance(block, Table)]

    wide = [line for line in laid_out(fitting, layout) if len(str(line)) > columns]
    assert [str(line) for line in wide if not {Tone.QUOTE, Tone.COMMAND} & {tone for _, tone in line.spans}] == []


def test_a_plan_lists_all_its_sources() -> None:
    """At every width with the same figures, and without a limit of lines."""
    layouts = planner.layouts(planner.request("Qwen/Qwen3-8B", "2xRTX3090"))
    for layout in (*map(terminal.layout, (60, 80, 120)), Layout()):
        shown = "".join("".join(map(str, laid_out(plans.view(layouts), layout))).split())
        for term in layouts.layouts[0].per_gpu[0].terms:
            assert "".join(term.source.split()) in shown
            assert f"{term.expected_gib:.2f}" in shown


@pytest.mark.parametrize("name", VIEWS)
def test_the_words_are_the_same_at_every_width(name: str) -> None:
    """No information is only in color or width. Cut text ends with a sign."""
    said = plain(view(name)).split()
    wide = " ".join(map(str, laid_out(view(name), terminal.layout(200)))).split()

    assert set(said) - {"…"} <= set(wide)


@pytest.mark.parametrize(("given", "widest"), [("", 100), ("60", 60), ("300", 100)])
def test_a_pipe_gets_sentences_of_100_columns(
    given: str, widest: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a pipe, messages wrap at 100 columns, or at COLUMNS; no word is lost."""
    monkeypatch.setenv("COLUMNS", given)
    monkeypatch.setattr("sys.argv", ["vllm-runbooks", "lint", "run.sh"])
    monkeypatch.chdir(tmp_path)
    Path("run.sh").write_text("vllm serve Qwen/Qwen3-8B --host 0.0.0.0 --gpu-memory-utilisation 0.9\n")

    _, piped, _ = run(capsys, "lint", "run.sh")

    sentences = [line for line in piped.splitlines() if " | " not in line]
    assert widest - 20 < max(map(len, sentences)) <= widest
    linted = checking.lint_text(Path("run.sh").read_text(), name="run.sh")
    whole = laid_out(render_issues.view({"run.sh": linted}), Layout(cut=int(given) if given else None))
    assert "".join(piped.split()).startswith("".join("".join(map(str, whole)).split()))


@pytest.mark.parametrize("words", [("lint", "run.sh"), ("diagnose", SHOWN[0])])
def test_a_pipe_cuts_and_wraps_at_given_columns(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Excerpts of a command and the card of a launch are as wide as COLUMNS says."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.argv", ["vllm-runbooks", *words])
    monkeypatch.chdir(tmp_path)
    flags = "--host 127.0.0.1 --tensor-parallel-size 2 --max-model-len 4096 --gpu-memory-utilisation 0.9 --seed 1"
    Path("run.sh").write_text(f"vllm serve Qwen/Qwen3-8B {flags}\n")

    _, piped, _ = run(capsys, *words)

    assert 60 < max(map(len, piped.splitlines())) <= 80


def test_a_pipe_has_plain_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No escape sequences, and the same columns for any terminal."""
    for name, each in {**QUIET, "TERM": "xterm-256color", "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, each)

    _, piped, _ = run(capsys, "diagnose", SHOWN[0])

    assert "\x1b" not in piped
    evidence = sources.load(SHOWN[0])
    summary = summarize(diagnosing.diagnose(evidence), has_command=True, again=terminal.again("--explain"))
    assert piped.rstrip("\n") == plain(summary_view(summary))


def test_a_terminal_has_colors_and_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """A red cause, prose in a readable width, unbroken evidence."""
    status, shown = seen(monkeypatch, "diagnose", SHOWN[0], "--explain", columns=100)

    assert status == 1
    assert "\x1b[1;31mFAILED   \x1b[0m" in shown
    assert "\x1b[1mROOT CAUSE  \x1b[0m" in shown
    bare = SEQUENCE.sub("", shown)
    assert "\x1b" not in bare
    quoted = re.search(r"^  lines \d+ and .*: .*CUDA out of memory.*$", bare, re.MULTILINE)
    assert quoted is not None
    assert len(quoted[0]) > 100
    lines = [line for line in bare.splitlines() if line.startswith("    ")]
    assert 80 < max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("environment", "is_coloured"),
    [
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": ""}, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
    ],
)
def test_colors_are_turned_off_and_on(
    environment: dict[str, str],
    is_coloured: bool,  # noqa: FBT001 - a column of the table
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """First `NO_COLOR`, then `FORCE_COLOR`, then the terminal."""
    _, shown = seen(monkeypatch, "inventory", "host-8x3090", environment=environment)

    assert ("\x1b[" in shown) is is_coloured


@pytest.mark.parametrize(("value", "is_coloured"), [("1", True), ("0", False), ("", False)])
def test_colours_can_be_forced_into_a_pipe(
    value: str,
    is_coloured: bool,  # noqa: FBT001 - a column of the table
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For a job whose log is shown with colours; a JSON document never has any."""
    for name, each in {**QUIET, "FORCE_COLOR": value}.items():
        monkeypatch.setenv(name, each)

    assert ("\x1b[" in run(capsys, "inventory", "host-8x3090")[1]) is is_coloured
    assert "\x1b[" not in run(capsys, "inventory", "host-8x3090", "--format", "json")[1]


HOSTILE = (
    "ValueError: \x1b[31mred\x1b[0m \x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\ \x07 \x9b31m "
    "[bold red]markup[/] [link=http://evil]x[/link] :warning: \u202eevil\n"
)


def test_a_log_cannot_control_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Escape sequences are visible or dropped, and rich markup is text."""
    log = tmp_path / "startup.log"
    log.write_text(
        "INFO 01-01 00:00:00 [api_server.py:1] vLLM API server version 0.16.0\nTraceback (most recent call last):\n"
        + HOSTILE
    )

    _, shown = seen(monkeypatch, "diagnose", str(log))

    bare = SEQUENCE.sub("", shown)
    assert "[bold red]markup[/] [link=http://evil]x[/link] :warning:" in " ".join(bare.split())
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(bare)
    assert "\x1b]8" not in shown
    known = {"1", "2", "31", "32", "33", "35", "36", "0", "1;31"}
    assert {each[2:-1] for each in SEQUENCE.findall(shown)} <= known


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_a_terminal_without_unicode_works(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsupported characters are escaped."""
    status, shown = seen(monkeypatch, "diagnose", SHOWN[0], encoding=encoding)

    assert status == 1
    assert "FAILED" in shown
    assert ("\\xb7" in shown) is (encoding == "ascii")


def test_lint_and_check_are_shown_in_colours_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Severity and count; no line is wider than the terminal but a file's long name."""
    script = tmp_path / "launch.sh"
    script.write_text("vllm serve m --max-model-length 4096 --host 127.0.0.1 " + "--seed 1 " * 20 + "\n")

    status, shown = seen(monkeypatch, "lint", str(script), "--vllm", "0.16.0")

    assert status == 1
    assert "\x1b[1;31merror[option.unknown]\x1b[0m" in shown
    assert "\x1b[1;31mFound 1 error" in shown
    bare = SEQUENCE.sub("", shown).splitlines()
    assert all(len(line) <= 80 for line in bare if "tmp" not in line)


SCREENSHOTS = os.environ.get("VLLM_RUNBOOKS_SCREENSHOTS")
"""Where pictures are kept; read before a test's own environment is made."""
PICTURED = (
    ("diagnose", SHOWN[0]),
    ("plan", "Qwen/Qwen3-8B", "--gpus", "2xRTX3090"),
    ("lint", "copied-launch-script"),
    ("inventory", "host-8xa100-shared"),
)
GROUNDS = {"dark": ((30, 30, 30), (208, 207, 204)), "light": ((255, 255, 255), (23, 20, 33))}
COLOURS = [(23, 20, 33), (192, 28, 40), (38, 162, 105), (162, 115, 76), (18, 72, 139), (163, 71, 186), (42, 161, 179),
           (208, 207, 204)]  # fmt: skip
"""The columns of a common terminal."""


@pytest.mark.slow
@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("arguments", PICTURED)
def test_pictures_contain_every_word(
    arguments: tuple[str, ...], ground: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terminal output as SVG on a dark and a light background."""
    _, shown = seen(monkeypatch, *arguments)
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(shown), soft_wrap=False)
    back, front = GROUNDS[ground]
    picture = console.export_svg(
        title=" ".join(("vllm-runbooks", *arguments)), theme=TerminalTheme(back, front, COLOURS)
    )

    folder = Path(SCREENSHOTS or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"terminal-{arguments[0]}-{ground}.svg").write_text(picture, encoding="utf-8")

    drawn = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture))
    assert {word for word in SEQUENCE.sub("", shown).split() if word.isalpha() and len(word) < 12} <= set(
        re.split(r"[^A-Za-z]+", drawn.replace("&#160;", " "))
    )


# Blocks


def test_wrapped_words_keep_their_style() -> None:
    """Lines equal plain wrapping, and each character keeps its style."""
    said = (
        styled("a word ", Tone.BAD) + "and  then\n" + styled("some", Tone.GOOD) + styled("more", Tone.COST) + " words"
    )

    lines = wrapped(said, 12, "  ", "- ")

    assert [str(line) for line in lines] == ["- a word and", "  then", "  somemore", "  words"]
    assert lines[0].spans == (("- ", None), ("a word", Tone.BAD), (" ", None), ("and", None))
    assert lines[2].spans == (("  ", None), ("some", Tone.GOOD), ("more", Tone.COST))


def test_a_long_paragraph_ends_with_a_sign() -> None:
    """At most this many lines, wrapped plainly."""
    lines = wrapped(styled("one two three four five six", Tone.FAINT), 10, "", most=2)

    assert [str(line) for line in lines] == ["one two", "three …"]


def test_nothing_is_an_empty_line() -> None:
    """A paragraph without words still is one."""
    assert [str(line) for line in Prose("", "    ").lines(Layout())] == [""]


def test_a_sentence_is_one_line_in_a_pipe_and_wrapped_on_a_terminal() -> None:
    """Programs read line by line."""
    block = SentenceLines("word " * 30 + "end", first=styled("note: ", Tone.HEADING))

    assert len(block.lines(Layout())) == 1
    assert all(len(str(line)) <= 40 for line in block.lines(terminal.layout(40)))


def test_a_table_takes_from_its_widest_column() -> None:
    """Numbers stay whole and to the right; words are wrapped within their column."""
    rows = [("one", "12,345", "some words that are too long for it"), ("two", "6", "few")]
    table = Table(("name", "count", "about"), rows, numeric=frozenset({1}), indent="  ")

    assert [str(line) for line in table.lines(Layout(table=32))] == [
        "  name   count  about",
        "  one   12,345  some words that",
        "                are too long for",
        "                it",
        "  two        6  few",
    ]
    assert str(table.lines(Layout())[1]) == "  one   12,345  some words that are too long for it"


def test_a_command_is_never_broken() -> None:
    """At any width of the terminal."""
    command = "vllm serve " + "--option value " * 20

    assert [str(line) for line in Line(command).lines(terminal.layout(40))] == [command]


@pytest.mark.slow
@pytest.mark.parametrize("sign", ["显", "é", "e\u0301", "a", "（"])
def test_an_endless_text_is_cut_and_wrapped_in_linear_time(sign: str) -> None:
    """Text of logs and snapshots has any length."""
    text = sign * 100_000
    began = time.process_time()

    assert columns.width(columns.cut(text, 80)) <= 80
    assert all(columns.width(line) <= 80 for line in columns.wrap(f"显 {text}", 80, "  ", "  "))
    assert time.process_time() - began < 5, "a hang guard: it takes some tenths of a second"


def test_a_heading_is_printed_without_a_paragraph() -> None:
    """A verdict without a reason is printed."""
    assert [str(line) for line in wrapped("", 80, "  ", styled("PASS  "))] == ["PASS  "]
