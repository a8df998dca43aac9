"""The annotated log: decisive lines are marked, noise is labelled, the rest is folded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vllm_runbooks import render
from vllm_runbooks.authoring.json_schemas import schemas
from vllm_runbooks.core import markup
from vllm_runbooks.core.display import RenderedView, to_json
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import Role
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.render import annotated
from vllm_runbooks.reading import sources

BUSY = (
    "ValueError: Free memory on device cuda:0 (1.0/79.25 GiB) on startup is less than desired GPU memory utilization "
    "(0.9, 71.33 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
PEER = "[rank1]: torch.distributed.DistBackendError: NCCL error"


def _view(evidence: Evidence) -> RenderedView:
    return annotated.log(diagnosing.diagnose(evidence), evidence.documents)


def _long(lines: int) -> str:
    noise = "Triton is installed, but doesn't include CPU backend. Disabling Triton."
    return "\n".join(
        [
            "INFO 11-20 08:03:55 [api_server.py:1] vLLM API server version 0.11.0",
            *(f"INFO 11-20 08:03:55 [core.py:1] step {n} " + "x" * 400 for n in range(lines)),
            *[noise] * 300,
            "Traceback (most recent call last):",
            '  File "/v/vllm/v1/worker/gpu_worker.py", line 1, in init_device',
            BUSY,
            *(f"INFO 11-20 08:03:56 [core.py:1] after {n}" for n in range(9)),
        ]
    )


def test_the_cause_and_the_noise_are_marked_by_words() -> None:
    """Each line has a word in addition to its color, in the page and in the terminal."""
    evidence = sources.load("tiny-cpu-worker-killed-loading")
    answer = diagnosing.diagnose(evidence)
    shown = annotated.log(answer, evidence.documents)
    assert answer.root_cause
    first = answer.root_cause.evidence[0]
    assert f"> {first.line:>6}  " in shown.plain
    assert "▼ notice: Engine process died" in shown.plain  # the cause is in another log
    assert "[harmless] (EngineCore pid=8329) WARNING" in shown.plain
    assert ">notice</span>" in shown.html
    assert ">harmless</span>" in shown.html


def test_a_long_log_gives_a_small_view() -> None:
    """Two megabytes become some kilobytes, with the cause, its line number and omitted counts."""
    text = _long(4_800)
    assert len(text) > 2_000_000
    shown = _view(sources.paste(text))
    line = text.split("\n").index(BUSY) + 1
    assert f"> {line:>6}  {BUSY}" in shown.plain
    assert "⋯ 5,093 lines, 292 harmless" in shown.plain
    assert len(shown.html) < 40_000


def test_omitted_lines_have_a_place() -> None:
    """Views have the places of the counts; documents and schemas do not."""
    answer = diagnosing.diagnose(sources.load("tiny-cpu-worker-killed-loading"))
    places = [line for line in answer.left_out if line.role is Role.BENIGN]
    assert len(places) == answer.hidden["benign"] == 20
    assert '"left_out"' not in to_json(answer)
    assert "left_out" not in schemas()["diagnose.json"]["properties"]
    assert "LeftOut" not in schemas()["diagnose.json"]["$defs"]


def test_each_launch_and_each_file_is_named() -> None:
    """For several launches in a log, and for several logs of one launch."""
    shown = _view(sources.load("gpt-oss-gemma-a100-four-starts"))
    assert "▼ start: 2 of 4: running\n>     70  " in shown.plain
    two = Evidence((Document("head.log", BUSY), Document("worker.log", BUSY)))
    assert [name for name in ("head.log", "worker.log") if name in _view(two).plain] == ["head.log", "worker.log"]


def test_a_log_without_marks_says_so() -> None:
    """A log without a symptom is not shown as an empty box."""
    assert "No marked lines" in _view(sources.paste("INFO 11-20 08:03:55 [a.py:1] hello")).plain


def test_a_log_from_a_pipe_shows_its_excerpts() -> None:
    """A pipe cannot be read again, so only the quoted lines are available."""
    evidence = sources.paste(BUSY)
    answer = diagnosing.diagnose(evidence)
    assert BUSY in annotated.log(answer, (Document("pipe", lambda: iter(())),)).plain


@pytest.mark.parametrize(
    ("secret", "context"),
    [
        ("hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567", "INFO 11-20 08:03:55 [a.py:1] HF_TOKEN={}"),
        ("c2VjcmV0LWtleS1ib2R5LW9mLWEtcHJpdmF0ZS1rZXktMTIzNDU2Nzg5MA", "-----BEGIN PRIVATE KEY-----\n{}\n" * 1),
    ],
)
def test_no_secret_of_the_log_is_shown(secret: str, context: str) -> None:
    """A line next to the cause may contain a secret, or a part of a key over several lines."""
    text = f"{context.format(secret)}\n{BUSY}\nINFO 11-20 08:03:56 [a.py:2] again {secret}"
    shown = _view(sources.paste(text))
    assert BUSY in shown.plain
    assert secret not in shown.plain + shown.html


def test_hostile_lines_are_text() -> None:
    """Log text is never markup, and no control character reaches a terminal."""
    hostile = "<img src=x onerror=alert(1)> <script>alert(1)</script> \x1b]0;title\x07 \u202e\"'>"
    shown = _view(sources.paste(f"{hostile}\n{BUSY} {hostile}\n{hostile}"))
    assert BUSY in shown.plain
    assert "<img" not in shown.html
    assert "<script" not in shown.html
    assert "\x1b" not in shown.plain + shown.html
    assert "\u202e" not in shown.plain + shown.html


def test_the_site_keeps_the_view() -> None:
    """Sanitizing a page removes neither tones nor words nor folds."""
    shown = _view(sources.load("qwen-a100-shared-gpu-race"))
    cleaned = markup.clean_html(shown.html)
    assert cleaned.count("border-left:4px solid #cf222e;background:#cf222e1c") == shown.html.count("4px solid #cf222e;")


def test_a_long_line_shows_its_excerpt() -> None:
    """Of a line of a hundred kilobytes the decisive words are shown, wherever they are."""
    evidence = sources.paste("INFO 11-20 08:03:55 [a.py:1] " + "x" * 5000 + f" {BUSY}")
    answer = diagnosing.diagnose(evidence)
    assert answer.root_cause
    assert answer.root_cause.evidence[0].text[:60] in annotated.log(answer, evidence.documents).plain


def test_render_exports_it() -> None:
    """The view is part of `render`."""
    evidence = sources.paste(PEER)
    answer = replace(diagnosing.diagnose(evidence), findings=(), root_cause=None, first_error=None, left_out=())
    assert render.annotated.log(answer, evidence.documents).plain.startswith("No marked lines")
