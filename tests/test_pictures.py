"""Pictures show what was printed, stay inside their frame, and hold no markup of a log."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import pytest

from vllm_runbooks import catalog, display, pictures, render, session
from vllm_runbooks.records import Answer, Evidence, Facts, Phase, Quote, Start, Throughput

HOSTILE = "</text><script>alert(1)</script>\"' onload=alert(1) \x1b[31m \u202e&<b>"
# What the site lets through, so that a picture looks the same there: `site._ATTRIBUTES`.
SHAPE = {"x", "y", "x1", "y1", "x2", "y2", "width", "height", "d", "fill", "stroke", "stroke-width", "opacity"}
ALLOWED = {
    "svg": {"width", "height", "viewBox", "role", "style"}, "title": set(), "rect": SHAPE, "line": SHAPE, "path": SHAPE,
    "text": SHAPE | {"text-anchor", "font-size"},
}  # fmt: skip


@pytest.fixture(scope="module")
def four() -> list[Start]:
    return session.read(session.load("gpt-oss-gemma-a100-four-starts"))


@pytest.fixture(scope="module")
def race() -> Evidence:
    return session.load("qwen-a100-shared-gpu-race")


def hostile(start: Start) -> Start:
    facts = replace(start.facts, model=f"x/{HOSTILE}", quantization=HOSTILE)
    phases = (Phase(HOSTILE, Quote(0, 1, 1, HOSTILE), HOSTILE, 5.0), *start.timeline)
    return replace(start, facts=facts, arguments={"model": HOSTILE, HOSTILE: HOSTILE}, timeline=phases)


def drawings(starts: list[Start]) -> list[str]:
    totals = [79.25 for _ in starts]
    return [
        pictures.timelines(starts),
        pictures.memories(starts, totals),
        pictures.memories(starts, [None for _ in starts]),
        pictures.throughputs(starts),
        pictures.free_memory(41.2, 41.6, 79.25, {HOSTILE: 53.5, "b": 59.4, "c": 71.3}),
        pictures.free_memory(41.2, 41.6, None, {}),
        pictures.free_memory(41.6, 41.2, 79.25, {"more than the GPU": 99.0}),
        pictures.free_memory(0.0, 0.0, None, {}),
    ]


def test_pictures_are_well_formed_and_hold_nothing_that_runs(four: list[Start]) -> None:
    """Whatever a log calls its model, a picture is XML of a few shapes with a few attributes."""
    for svg in drawings([hostile(start) for start in four]):
        root = ET.fromstring(display.visible(svg))  # noqa: S314 - our own text, of a known size
        for element in root.iter():
            assert element.tag in ALLOWED
            assert set(element.attrib) <= ALLOWED[element.tag], element.tag
        assert "<script" not in svg


def test_pictures_stay_inside_their_frame(four: list[Start]) -> None:
    """No bar begins or ends outside, and none has a negative width."""
    for svg in drawings(four):
        width, height = (float(v) for v in re.findall(r'viewBox="0 0 (\d+) (\d+)"', svg)[0])
        for x, y, wide, high in re.findall(
            r'<rect x="([-\d.]+)" y="([-\d.]+)" width="([-\d.]+)" height="([-\d.]+)"', svg
        ):
            assert 0 <= float(x) <= float(x) + float(wide) <= width
            assert 0 <= float(y) <= float(y) + float(high) <= height
        for x, y in re.findall(r'<text x="([-\d.]+)" y="([-\d.]+)"', svg):
            assert 0 <= float(x) < width
            assert 0 <= float(y) <= height


def test_text_takes_the_colour_of_the_page(four: list[Start]) -> None:
    """It reads on a light page and on a dark one; only figures inside a bar are white."""
    for svg in drawings(four):
        assert set(re.findall(r'<text [^>]*fill="([^"]+)"', svg)) <= {"currentColor", "#fff"}


def test_one_scale_makes_time_lines_comparable(four: list[Start]) -> None:
    """The longest start fills the scale, and the others are as much shorter as they were."""
    svg = pictures.timelines(four)
    rows: dict[str, float] = {}
    for x, y, wide in re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="22', svg):
        rows[y] = max(rows.get(y, 0.0), float(x) + float(wide) - 150)
    lengths = list(rows.values())

    assert [re.search(rf">{seconds} s</text>", svg) is not None for seconds in (121, 60, 84, 379)] == [True] * 4
    assert [round(379 * length / max(lengths)) for length in lengths] == pytest.approx([121, 60, 84, 379], abs=2)


def test_the_budget_is_marked_where_the_gpu_is_known(four: list[Start]) -> None:
    """Utilisation times the GPU's memory; without the GPU there is no mark and nothing that is left over."""
    assert pictures.memories(four, [79.25] * 4).count('stroke="currentColor"') == 4
    assert "everything else" in pictures.memories(four, [79.25] * 4)
    unknown = pictures.memories(four, [None] * 4)
    assert 'currentColor" stroke-width' not in unknown
    assert "everything else" not in unknown


def test_hollow_points_were_not_busy_throughout(four: list[Start]) -> None:
    """A start of two busy lines with an idle end has no filled point; one of long requests has nearly all filled."""
    filled = [pictures.throughputs([start]).count('<path d="M') for start in four]
    hollow = [len(re.findall(r'a4 4[^"]*" fill="none"', pictures.throughputs([start]))) for start in four]

    assert [count - 1 for count in filled] == [3, 24, 3, 6]
    assert hollow == [3, 1, 3, 3]


def test_what_is_not_there_is_not_drawn(four: list[Start]) -> None:
    """An empty text, and in the runbook a sentence."""
    bare = replace(four[0], facts=Facts(), timeline=(), throughput=())
    idle = replace(bare, throughput=(Throughput(1, 0.0, 0.0, 0, 0, None),))

    assert [pictures.timelines([bare]), pictures.memories([bare], [24.0]), pictures.throughputs([idle])] == [""] * 3
    assert render.timelines([bare]).plain == "The text shows no phases with their times."
    assert render.memories([bare]).plain.startswith("The text holds none of vLLM's memory figures")
    assert render.throughputs([]).plain == "The text holds no periodic line with a throughput."
    assert render.side_by_side([]).plain == render.comparable([]).plain == "The text holds no start of vLLM."
    assert render.settings([bare]).plain == "There is nothing to compare."
    assert render.settings([bare, bare]).plain == "The starts do not differ in any printed setting."


def test_many_starts_are_cut_to_what_a_screen_holds(four: list[Start]) -> None:
    """A supervisor leaves hundreds of starts in a file; the tables have them all."""
    assert pictures.timelines(four * 100).count(">1 gpt") + len(pictures.timelines(four * 100)) < 60_000
    assert pictures.timelines(four * 100).count('opacity="0.72">eager') <= pictures.MAX_ROWS
    assert pictures.throughputs(four * 100).count('stroke-width="2" />') == 6


@pytest.mark.parametrize(
    ("model", "shown"),
    [("google/gemma-4-26B-A4B", "3 gemma-4-26B-A4B"), ("/models/tiny/", "3 tiny"), (None, "3"), ("x" * 60, None)],
)
def test_a_start_is_called_by_its_models_own_name(four: list[Start], model: str | None, shown: str | None) -> None:
    """The last part of it, short enough for the room beside a bar."""
    called = pictures.label(replace(four[0], facts=Facts(model=model)), 3)

    assert called == shown or (len(called) == 21 and called.endswith("…"))


def test_a_start_that_tells_nothing_of_itself_is_called_by_its_number(four: list[Start]) -> None:
    """One line beside its bar, and no budget that is not printed."""
    bare = replace(four[0], facts=Facts(weights_gib=13.72), arguments={})
    svg = pictures.memories([bare], [24.0])

    assert pictures.distinction(bare) == ""
    assert ">1</text>" in svg
    assert 'stroke="currentColor"' not in svg


def test_starts_of_one_model_are_told_apart(four: list[Start]) -> None:
    """By quantisation, eager mode and budget."""
    assert [pictures.distinction(start) for start in four] == [
        "mxfp4 · util 0.65", "eager · util 0.9", "fp8 · util 0.65", "util 0.95",
    ]  # fmt: skip
    assert len(pictures.distinction(hostile(four[0]))) == 24


def test_tables_say_what_the_pictures_show(four: list[Start]) -> None:
    """Every figure of the pictures stands beside them in numbers, and what is unknown stays empty."""
    evidence = session.load("gpt-oss-gemma-a100-four-starts")

    assert "load the weights              68 s               11 s" in render.timelines(four).plain
    assert (
        "3 gemma-4-26B-A4B    25.70     24.45         0.95   51.51         1.36  79.25"
        in render.memories(four, evidence).plain
    )
    assert "The GPU's memory is not in this log" in render.memories(four).plain
    assert "79.25" not in render.memories(four, gpu_gib=96.0).plain
    assert (
        "2 gemma-4-26B-A4B              24               23  17.3 to 18.8       18.8" in render.throughputs(four).plain
    )
    assert "KV cache                798,624 tokens" in render.side_by_side(four).plain
    settings = render.settings(four).plain
    assert "enforce_eager" in settings
    assert "model_tag" not in settings
    assert "/home/vllm/e…te_gemma4.jinja" in settings
    assert "unknown" in render.throughputs([four[0]]).plain
    partly = replace(four[0], facts=replace(four[0].facts, weights_gib=None))
    assert (
        "1 gpt-oss-20b              36.56         0.69   51.51               79.25"
        in render.memories([partly], evidence).plain
    )
    assert "  3  " in render.throughputs([four[0], replace(four[1], throughput=())]).plain


def raced(evidence: Evidence, old: str = "", new: str = "") -> Answer:
    text = evidence.documents[0].text.replace(old, new) if old else evidence.documents[0].text
    return session.diagnose(session.paste(text))


def test_the_race_is_shown_with_the_logs_own_numbers(race: Evidence) -> None:
    """Free before and after, what was freed, and the budgets where the case or the caller knows the GPU."""
    shown = render.free_memory(raced(race), race)

    assert "freed meanwhile              +0.45" in shown.plain
    assert "budget at utilisation 0.675  53.49" in shown.plain
    assert ">+0.45 GiB</text>" in shown.html
    assert shown.html.count('stroke="currentColor"') == 3
    alone = render.free_memory(raced(race))
    assert "no budget can be drawn" in alone.plain
    assert "GPU      " not in alone.plain
    given = render.free_memory(raced(race), gpu_gib=48.0, utilizations=(0.5,))
    assert "budget at utilisation 0.5  24.00" in given.plain


def test_other_failures_have_no_race_to_show(race: Evidence) -> None:
    """Older wordings, other causes and healthy starts: a sentence instead of a picture."""
    said = "The text does not state the free memory before and after profiling."

    assert render.free_memory(raced(race, "Initial free memory", "Once")).plain == said
    assert render.free_memory(session.diagnose(session.load("tiny-cpu-served"))).plain == said


def test_further_logs_are_set_beside_the_first() -> None:
    """Starts of several files and cases are read in the order in which they were named; no case is judged."""
    folder = catalog.cases_dir()
    names: dict[str, Any] = {n: str(folder / n / "startup.log") for n in ("tiny-cpu-served", "tiny-cpu-port-in-use")}
    first, second = names.values()
    starts = session.read(session.load(first, more=f" {second} , "))

    assert [start.file for start in starts] == [0, 1]
    beside = session.load("qwen-a100-shared-gpu-race", more=first)
    assert (beside.case, len(session.read(beside))) == (None, 2)
    assert session.judge_claims(beside) == ()
