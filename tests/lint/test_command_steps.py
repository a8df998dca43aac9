"""The summary of a checked text, and the steps of the runbook that shows it."""

from __future__ import annotations

import vllm_runbooks as rb
from vllm_runbooks.core.views.styled import Tone
from vllm_runbooks.lint.records import Linted

BAD = "vllm serve m --host 127.0.0.1 --max-model-length 4096\n"


def linted(text: str, lang: str | None = None) -> Linted:
    """A text, checked for one release."""
    from vllm_runbooks.lint import checking

    return checking.lint_text(text, vllm="0.19.0", fix=True, lang=lang)


def test_the_summary_has_the_gravest_problems_in_their_places() -> None:
    """The state counts the errors; each is quoted with its line, and the corrected text is the fix."""
    found = rb.lint_commands(rb.load("copied-launch-script"), gpus="8xRTX3090")
    record = rb.render.issue_summaries.summarize(found, "launch.sh")

    assert (record.state, record.tone) == ("4 ERRORS", Tone.BAD)
    assert record.about == ("launch.sh", "vLLM 0.19.0", "2 launches", "7 warnings and 3 infos")
    assert [(each.id, each.place) for each in record.statements] == [
        ("shell.comment-after-continuation", "line 8:28"),
        ("option.wrong-choice", "line 10:24"),
        ("option.removed", "line 22:3"),
    ]
    assert record.statements[2].quote == "--swap-space 16 \\"
    assert record.fix is not None
    assert record.fix.change == "The corrected text fixes 6 of 14 issues."
    assert record.fix.cost == "Decide on 6 problems yourself (line 6, 10, 11, 12, 14, 16)."
    assert record.fix.command == found.fixed


def test_a_text_without_problems_is_green_and_one_without_a_launch_is_not() -> None:
    """The first has no fix; of the second nothing was checked."""
    summarize = rb.render.issue_summaries.summarize
    good = summarize(linted("vllm serve m --host 127.0.0.1\n"), "a.sh")
    none = summarize(linted("echo hello\n"), "a.sh")

    assert (good.state, good.tone, good.sentence, good.fix) == ("NO PROBLEMS", Tone.GOOD, "No problems found.", None)
    assert (none.state, none.tone) == ("NO LAUNCH", Tone.WARN)
    assert none.sentence == "No vLLM launch found; nothing was checked."


def test_a_result_with_only_warnings_is_amber() -> None:
    """A working launch is not a failure; the style remark is only counted."""
    record = rb.render.issue_summaries.summarize(linted("vllm serve m\n"), "a.sh")

    assert (record.state, record.tone) == ("1 WARNING", Tone.WARN)
    assert record.fix is not None
    assert (record.fix.change, record.fix.command) == ("Decide on 1 problem yourself (line 1).", "")


def test_text_of_a_script_is_escaped() -> None:
    """In the summary and in the steps."""
    found = linted("vllm serve m --host 127.0.0.1 --x='<script>'\n")
    steps = rb.render.issue_steps
    shown = rb.render.issue_summaries.summary(found, "<b>a.sh").html
    shown += rb.step([*steps.problems(found), *steps.correction(found)], {}).html

    assert "<script" not in shown
    assert "<b>a.sh" not in shown


def test_the_steps_list_errors_then_open_warnings() -> None:
    """Errors with their places; after the corrected text, the remaining warnings."""
    found = rb.lint_commands(rb.load("copied-launch-script"), gpus="8xRTX3090")
    problems, correction = rb.render.issue_steps.problems(found), rb.render.issue_steps.correction(found)

    assert problems[0].fact.startswith("Line 8:28: The backslash is not the last character")
    assert problems[0].do == "The corrected text fixes it."
    assert problems[1].do == "No fix is safe: change it yourself."
    assert problems[-1].fact == "The table of all issues has 7 warnings and 3 infos more."
    assert correction[0].fact == "6 of 14 issues are fixed in this text; comments and order are kept."
    assert correction[0].command == (found.fixed or "").rstrip("\n")
    assert [each.fact.partition(":")[0] for each in correction[1:]] == [f"Line {n}" for n in (6, 11, 12, 14, 16)]


def test_a_text_with_only_warnings_lists_them_once() -> None:
    """As its issues, not again as remaining ones."""
    found = linted("vllm serve m\n")

    assert len(rb.render.issue_steps.problems(found)) == 1
    assert rb.render.issue_steps.correction(found) == []
    assert rb.render.issue_steps.problems(linted("vllm serve m --host 127.0.0.1\n")) == []


def test_a_migration_names_its_changes() -> None:
    """The issues for that release, and its changed defaults."""
    moved = rb.migrate_commands(rb.load("copied-launch-script"), to="latest", gpus="8xRTX3090")
    text = rb.render.issue_steps.migration(moved)

    assert "4 errors, 7 warnings and 3 infos; 3 defaults changed." in text.fact
    assert text.so.startswith("The rewritten text sets 1 of them to the old default")
