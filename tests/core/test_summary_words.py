"""Words of commands and of sentences, as summaries print them."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from rows import in_one_test
from vllm_runbooks.core.views.styled import Layout, Tone, laid_out, plain
from vllm_runbooks.core.views.summary import (
    WIDEST,
    Step,
    SuggestedFix,
    Summary,
    concurrency_text,
    sentence_of,
    shell_lines,
    shell_words,
    short_model_name,
    summary_view,
)

HOSTILE = [
    "it's", "a  b", 'say "no"', '{"video": 0}', "'", '"', "\\", "\\'", "a\\ b", "", " ", "--x y", "#no", "a\nb",
]  # fmt: skip


@in_one_test(
    ("text", "words"),
    [
        ("a --b c d", ["a", "--b c", "d"]),
        ("--b --c -d e", ["--b", "--c", "-d", "e"]),
        ("--b -1 --c -.5", ["--b -1", "--c", "-.5"]),
        ("--b=c d", ["--b=c", "d"]),
        ("""--b 'it'"'"'s  c' d""", ["""--b 'it'"'"'s  c'""", "d"]),
        ('--b "a \\" b" c', ['--b "a \\" b"', "c"]),
        (r"a\ b c", [r"a\ b", "c"]),
        ("a \\\n  b", ["a", "b"]),
        ("a 'b c", ["a", "'b c"]),
        ("", []),
    ],
)
def test_a_command_is_split_between_its_words_only(text: str, words: list[str]) -> None:
    """Quotes of both kinds and backslashes are kept, an option stays with its value."""
    assert shell_words(text) == words


def test_a_long_command_is_broken_as_a_shell_joins_it() -> None:
    """Below its text, between options; a short command stays on its line."""
    words = ["vllm-runbooks", "plan", "org/model", *(f"--option-{n} 'a value'" for n in range(9))]
    command = " ".join(words)
    lines = plain(summary_view(Summary("OK", Tone.GOOD, (), more=Step("", "All figures", command)))).split("\n")
    at = lines.index("  All figures:")
    assert max(map(len, lines)) <= WIDEST
    assert shlex.split("\n".join(lines[at + 1 :]).replace("\\\n", "")) == shlex.split(command)
    assert all(line.endswith(" \\") for line in lines[at + 1 : -1])
    short = plain(summary_view(Summary("OK", Tone.GOOD, (), more=Step("", "All figures", "plan m"))))
    assert short.endswith("  All figures: plan m")


@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(codec="utf-8"), max_size=9)), max_size=6))
def test_quoted_words_equal_those_of_the_command(words: list[str]) -> None:
    """For any characters, a shell reads the same words."""
    text = shlex.join(words)

    assert shlex.split(" ".join(shell_words(text))) == words
    assert [word for line in shell_lines(text) for word in shlex.split(line)] == words


def test_continued_lines_of_a_script_are_joined() -> None:
    """Not within quotes, and an apostrophe of a comment opens none."""
    text = "# On node1's side:\nexport A='b\\\nc'\n\nvllm serve m \\\n  --seed 1\n"

    assert shell_lines(text) == ["# On node1's side:", "export A='b\\\nc'", "vllm serve m --seed 1"]


def test_a_broken_option_keeps_its_quoted_blanks() -> None:
    """At 60 columns an option is broken before a word, never in it."""
    change = shlex.join(["--served-model-name", "it's  our model", "--chat-template", "a 'quoted'  name of a template"])
    blocks = summary_view(Summary("FAILED", Tone.BAD, ("a",), fix=SuggestedFix(change)))
    lines = [str(line) for line in laid_out(blocks, Layout(table=60))]
    at = next(number for number, line in enumerate(lines) if line.startswith("  Fix"))

    assert len(lines[at:]) > 1
    assert shlex.split(" ".join(line.removeprefix("  Fix").strip() for line in lines[at:])) == shlex.split(change)


def test_only_line_ends_split_a_command() -> None:
    """Unicode separators in a word do not."""
    blocks = summary_view(Summary("OK", Tone.GOOD, ("a",), fix=SuggestedFix("", command="vllm serve 'a\u2028b'")))

    assert len(plain(blocks).split("\n")) == len(
        plain(summary_view(Summary("OK", Tone.GOOD, ("a",), fix=SuggestedFix("", command="vllm serve m")))).split("\n")
    )


@in_one_test(
    ("text", "sentence"),
    [
        ("the weights do not fit", "The weights do not fit."),
        ("none, really", "None, really."),
        ("gpt-oss-20b fails", "gpt-oss-20b fails."),
        ("vLLM fails.", "vLLM fails."),
        ("到了。", "到了。"),
        ("", ""),
    ],
)
def test_a_sentence_is_capitalized_but_a_name_is_not(text: str, sentence: str) -> None:
    """A full stop is added unless the sentence ends in one of any language."""
    assert sentence_of(text) == sentence


def test_names_and_numbers_are_short() -> None:
    """A model without its folder; concurrency with a decimal only if it matters."""
    assert [short_model_name(name) for name in ("a/b/", "b", "/")] == ["b", "b", "/"]
    assert [concurrency_text(count) for count in (0.5, 9.96, 1234.5)] == ["0.5", "9.9", "1,234"]
