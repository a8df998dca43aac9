"""Pictures show printed figures, stay inside their frame, and contain no markup of a log."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks import render
from vllm_runbooks.catalog import folders
from vllm_runbooks.core import display, markup
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.records import Answer, ComparedTerm, Facts, MinuteCounts, Phase, Quote, ServerRun, Throughput
from vllm_runbooks.core.views import drawing, memory_parts, start_pictures
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.lint.records import CommandRelease
from vllm_runbooks.plan.records import ParallelLayout as Layout
from vllm_runbooks.plan.records import Plan, PlannedCache, PlannedRank, PlannedTerm
from vllm_runbooks.plan.records import PlanCalibration as Calibration
from vllm_runbooks.plan.render import pictures as plan_pictures
from vllm_runbooks.reading import sources

HOSTILE = "</text><script>alert(1)</script>\"' onload=alert(1) \x1b[31m \u202e&<b>"
# The attributes that the site allows, so that pictures look the same there:
# `core.markup._ATTRIBUTES`.
SHAPE = {"x", "y", "x1", "y1", "x2", "y2", "width", "height", "d", "fill", "stroke", "stroke-width", "opacity"}
ALLOWED = {
    "svg": {"width", "height", "viewBox", "role", "style"}, "title": set(), "rect": SHAPE, "line": SHAPE, "path": SHAPE,
    "text": SHAPE | {"text-anchor", "font-size"},
}  # fmt: skip


@pytest.fixture(scope="module")
def four() -> list[ServerRun]:
    return diagnosing.read(sources.load("gpt-oss-gemma-a100-four-starts"))


@pytest.fixture(scope="module")
def race() -> Evidence:
    return sources.load("qwen-a100-shared-gpu-race")


def hostile(start: ServerRun) -> ServerRun:
    facts = replace(start.facts, model=f"x/{HOSTILE}", quantization=HOSTILE)
    phases = (Phase(HOSTILE, Quote(0, 1, 1, HOSTILE), HOSTILE, 5.0), *start.timeline)
    return replace(start, facts=facts, arguments={"model": HOSTILE, HOSTILE: HOSTILE}, timeline=phases)


def drawings(starts: list[ServerRun]) -> list[str]:
    totals = [79.25 for _ in starts]
    return [
        start_pictures.timelines(starts),
        start_pictures.memories(starts, totals),
        start_pictures.memories(starts, [None for _ in starts]),
        start_pictures.throughputs(starts),
        start_pictures.free_memory(41.2, 41.6, 79.25, {HOSTILE: 53.5, "b": 59.4, "c": 71.3}),
        start_pictures.free_memory(41.2, 41.6, None, {}),
        start_pictures.free_memory(41.6, 41.2, 79.25, {"more than the GPU": 99.0}),
        start_pictures.free_memory(0.0, 0.0, None, {}),
    ]


def test_pictures_are_well_formed_and_passive(four: list[ServerRun]) -> None:
    """For any model name a picture is XML with a few shapes and attributes."""
    for svg in drawings([hostile(start) for start in four]):
        root = ET.fromstring(display.visible(svg))  # noqa: S314 - our own text, of a known size
        for element in root.iter():
            assert element.tag in ALLOWED
            assert set(element.attrib) <= ALLOWED[element.tag], element.tag
        assert "<script" not in svg


def test_pictures_stay_inside_their_frame(four: list[ServerRun]) -> None:
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


def test_text_has_the_color_of_the_page(four: list[ServerRun]) -> None:
    """It reads on a light page and on a dark one; only figures inside a bar have an ink of their own."""
    for svg in drawings(four):
        assert set(re.findall(r'<text [^>]*fill="([^"]+)"', svg)) <= {"currentColor", "#fff", "#111"}


def test_timelines_have_a_common_scale(four: list[ServerRun]) -> None:
    """The longest launch fills the scale."""
    svg = start_pictures.timelines(four)
    rows: dict[str, float] = {}
    for x, y, wide in re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="22', svg):
        rows[y] = max(rows.get(y, 0.0), float(x) + float(wide) - 150)
    lengths = list(rows.values())

    assert [re.search(rf">{seconds} s</text>", svg) is not None for seconds in (121, 60, 84, 379)] == [True] * 4
    assert [round(379 * length / max(lengths)) for length in lengths] == pytest.approx([121, 60, 84, 379], abs=2)


def test_the_budget_is_marked_if_the_gpu_is_known(four: list[ServerRun]) -> None:
    """Utilization times GPU memory; without the GPU there is neither a mark nor a remainder."""
    assert start_pictures.memories(four, [79.25] * 4).count('stroke="currentColor"') == 4
    assert "everything else" in start_pictures.memories(four, [79.25] * 4)
    unknown = start_pictures.memories(four, [None] * 4)
    assert 'currentColor" stroke-width' not in unknown
    assert "everything else" not in unknown


def test_hollow_points_were_partly_idle(four: list[ServerRun]) -> None:
    """A launch of two busy lines with an idle end has no filled point; long requests fill most."""
    filled = [start_pictures.throughputs([start]).count('<path d="M') for start in four]
    hollow = [len(re.findall(r'a4 4[^"]*" fill="none"', start_pictures.throughputs([start]))) for start in four]

    assert [count - 1 for count in filled] == [3, 24, 3, 6]
    assert hollow == [3, 1, 3, 3]


def test_missing_figures_have_no_picture(four: list[ServerRun]) -> None:
    """An empty text, and in the runbook a sentence."""
    bare = replace(four[0], facts=Facts(), timeline=(), throughput=())
    idle = replace(bare, throughput=(Throughput(1, 0.0, 0.0, 0, 0, None),))

    assert [
        start_pictures.timelines([bare]),
        start_pictures.memories([bare], [24.0]),
        start_pictures.throughputs([idle]),
    ] == [""] * 3
    assert render.starts.timelines([bare]).plain == "The log has no startup phases with times."
    assert render.starts.memories([bare]).plain.startswith("The log has no vLLM memory figures")
    assert render.starts.throughputs([]).plain == "The log has no periodic throughput lines."
    assert render.starts.side_by_side([]).plain == render.starts.comparable([]).plain == "The log has no vLLM launch."
    assert render.starts.settings([bare]).plain == "Nothing to compare."
    assert render.starts.settings([bare, bare]).plain == "The launches have the same printed settings."


def test_many_launches_are_cut_to_a_screen(four: list[ServerRun]) -> None:
    """A supervisor writes hundreds of launches to a file; the tables have all of them."""
    assert start_pictures.timelines(four * 100).count(">1 gpt") + len(start_pictures.timelines(four * 100)) < 60_000
    assert start_pictures.timelines(four * 100).count('opacity="0.72">eager') <= drawing.MAX_ROWS
    assert start_pictures.throughputs(four * 100).count('stroke-width="2" />') == 6


@pytest.mark.parametrize(
    ("model", "shown"),
    [("google/gemma-4-26B-A4B", "3 gemma-4-26B-A4B"), ("/models/tiny/", "3 tiny"), (None, "3"), ("x" * 60, None)],
)
def test_a_launch_is_named_by_its_model(four: list[ServerRun], model: str | None, shown: str | None) -> None:
    """The last part of the name, cut to the room next to a bar."""
    called = start_pictures.label(replace(four[0], facts=Facts(model=model)), 3)

    assert called == shown or (len(called) == 21 and called.endswith("…"))


def test_a_launch_without_facts_is_named_by_its_number(four: list[ServerRun]) -> None:
    """One line next to its bar, and no budget without a printed one."""
    bare = replace(four[0], facts=Facts(weights_gib=13.72), arguments={})
    svg = start_pictures.memories([bare], [24.0])

    assert start_pictures.distinction(bare) == ""
    assert ">1</text>" in svg
    assert 'stroke="currentColor"' not in svg


def test_launches_of_one_model_are_distinguished(four: list[ServerRun]) -> None:
    """By quantisation, eager mode and budget."""
    assert [start_pictures.distinction(start) for start in four] == [
        "mxfp4 · util 0.65", "eager · util 0.9", "fp8 · util 0.65", "util 0.95",
    ]  # fmt: skip
    assert len(start_pictures.distinction(hostile(four[0]))) == 24


def test_tables_have_the_figures_of_the_pictures(four: list[ServerRun]) -> None:
    """Every figure is also a number, and an unknown one is empty."""
    evidence = sources.load("gpt-oss-gemma-a100-four-starts")

    assert "load the weights              68 s               11 s" in render.starts.timelines(four).plain
    assert (
        "3 gemma-4-26B-A4B    25.70     24.45         0.95   51.51   1.36  79.25"
        in render.starts.memories(four, evidence).plain
    )
    assert "The GPU's memory is not in this log" in render.starts.memories(four).plain
    assert "79.25" not in render.starts.memories(four, gpu_gib=96.0).plain
    assert (
        "2 gemma-4-26B-A4B              24          23  17.3 to 18.8       18.8"
        in render.starts.throughputs(four).plain
    )
    assert "KV cache size               798,624 tokens" in render.starts.side_by_side(four).plain
    settings = render.starts.settings(four).plain
    assert "enforce_eager" in settings
    assert "model_tag" not in settings
    assert "/home/vllm/e…te_gemma4.jinja" in settings
    assert "unknown" in render.starts.throughputs([four[0]]).plain
    partly = replace(four[0], facts=replace(four[0].facts, weights_gib=None))
    assert (
        "1 gpt-oss-20b              36.56         0.69   51.51         79.25"
        in render.starts.memories([partly], evidence).plain
    )
    assert "  3  " in render.starts.throughputs([four[0], replace(four[1], throughput=())]).plain


def raced(evidence: Evidence, old: str = "", new: str = "") -> Answer:
    text = evidence.documents[0].text.replace(old, new) if old else evidence.documents[0].text
    return diagnosing.diagnose(sources.paste(text))


def test_the_race_has_the_figures_of_the_log(race: Evidence) -> None:
    """Free memory before and after, the difference, and budgets for a known GPU."""
    shown = render.starts.free_memory(raced(race), race)

    assert re.search(r"freed during profiling +\+0\.45", shown.plain)
    assert "budget at utilization 0.675  53.49" in shown.plain
    assert ">+0.45 GiB</text>" in shown.html
    assert shown.html.count('stroke="currentColor"') == 3
    alone = render.starts.free_memory(raced(race))
    assert "the budget is unknown." in alone.plain
    assert "GPU      " not in alone.plain
    given = render.starts.free_memory(raced(race), gpu_gib=48.0, utilizations=(0.5,))
    assert "budget at utilization 0.5  24.00" in given.plain
    assert len({len(line) for line in given.plain.splitlines()}) == 1, "the numbers stand to the right"


def test_the_race_has_facts_and_consequences(race: Evidence) -> None:
    """Free memory before and after, that another process released the rest, and which utilization is left."""
    step = render.starts.profiling(raced(race), race)

    assert step is not None
    assert step.fact == (
        "41.19 GiB was free before vLLM loaded the model, 41.64 GiB after profiling: free memory rose by 0.45 GiB."
    )
    assert "Another process released at least 0.45 GiB" in step.so
    assert "With 41.19 of 79.25 GiB free, vLLM rejects a value above 0.519 before it loads the model." in step.so
    alone = render.starts.profiling(raced(race))
    assert alone is not None
    assert "GiB free, vLLM rejects" not in alone.so
    video = diagnosing.diagnose(sources.load("autoglm-3090-video-oom"))
    assert render.starts.profiling(video) == render.steps.failure(video)


def test_other_failures_have_no_race_picture(race: Evidence) -> None:
    """Older messages, other causes and healthy launches have a sentence instead."""
    said = "The log has no free memory before and after profiling."

    assert render.starts.free_memory(raced(race, "Initial free memory", "Once")).plain == said
    assert render.starts.free_memory(diagnosing.diagnose(sources.load("tiny-cpu-served"))).plain == said


def test_further_logs_are_shown_next_to_the_first() -> None:
    """Launches of several files and cases keep their order, and no case is checked."""
    folder = folders.cases_dir()
    names: dict[str, Any] = {n: str(folder / n / "startup.log") for n in ("tiny-cpu-served", "tiny-cpu-port-in-use")}
    first, second = names.values()
    starts = diagnosing.read(sources.load(first, more=f" {second} , "))

    assert [start.file for start in starts] == [0, 1]
    beside = sources.load("qwen-a100-shared-gpu-race", more=first)
    assert (beside.case, len(diagnosing.read(beside))) == (None, 2)
    assert diagnosing.check_claims(beside) == ()


def term(name: str, expected: float | None, low: float | None = None, high: float | None = None) -> PlannedTerm:
    return PlannedTerm(name, expected if low is None else low, expected, expected if high is None else high, "measured")


# gpt-oss-20b on an A100 with 0.19.0, which does not subtract the CUDA graphs, at utilization 0.65.
GPT_OSS = PlannedRank(
    "A100-80GB", 0, None, 79.25, 36.56, True,
    (term("weights", 13.72, 13.69, 13.75), term("activation", 0.77, 0.73, 0.86), term("non_torch", 0.46, 0.2, 0.5),
     term("cuda_graphs", 0.69, 0.5, 1.1), term("kv_cache", 36.56)),
)  # fmt: skip
# Two ranks of 23.69 GiB at 0.5 that differ: the first one samples.
FIRST = PlannedRank(
    "RTX3090", 0, "node1", 23.69, 8.6, True,
    (term("weights", 1.45), term("activation", 1.39), term("non_torch", 0.4), term("kv_cache", 8.6)),
)  # fmt: skip
SECOND = replace(FIRST, rank=1, available_gib=9.93, terms=(term("weights", 1.45), term("activation", 0.09)))
# GLM-4.1V-9B on 23.56 GiB: profiling a video needs more than this.
FULL = PlannedRank(
    "RTX3090", 0, None, 23.56, None, False,
    (term("weights", 19.17), term("activation", 1.1), term("encoder", 3.5, 2.5, 4.5), term("communication", 0.9),
     term("cuda_graphs", 0.5), term("kv_cache", None)),
)  # fmt: skip
UNKNOWN = replace(FULL, fits=None, terms=(term("weights", 19.17), term("encoder", None), term("kv_cache", None)))


def planned(layout: Layout | None, gib: float | None, context: int | None, at_once: float | None, **more: Any) -> Plan:
    cache = PlannedCache(gib, gib, gib, None, None, None, None, at_once, None, None, None, context)
    whole: dict[str, Any] = {"fits": True, "legal": True, **more}
    release = CommandRelease("0.19.0", "given", "0.19.0")
    return Plan(
        "m", release, (), whole.pop("fits"), (), cache, (), None, Calibration(used=False), layout=layout, **whole
    )


LAID = [
    planned(Layout(4, 2, 1, 1), 8.6, 131_072, 3.2, total_concurrency=12.8),
    planned(Layout(1, 8, 1, 1), 17.9, 262_144, 13.6),
    planned(Layout(2, 2, 2, 1), 13.9, 131_072, None),
    planned(Layout(1, 1, 1, 8), None, None, None, fits=None),
    planned(Layout(8, 1, 1, 1), 0.1, 512, 0.1, fits=False),
    planned(Layout(1, 3, 1, 1), 99.0, 999_999, 99.0, legal=False),
    planned(None, 8.6, 131_072, 3.2),
]
COMPARED = (
    ComparedTerm("weights", 13.69, 13.69, 13.72, 13.72, ""),
    ComparedTerm("activation", 0.77, 0.73, 0.86, 0.96, ""),
    ComparedTerm("non_torch", 0.26, None, None, 0.26, ""),
    ComparedTerm("kv_cache", 36.79, None, None, None, ""),
)


def plans() -> list[str]:
    """Every picture of a plan: fitting, too large and unknown."""
    wide = replace(GPT_OSS, gpu="an accelerator with a name that is far too long", node="in a rack far away")
    sizeless = replace(GPT_OSS, total_gib=None, available_gib=None, terms=(*GPT_OSS.terms, term("x", 1)))
    return [
        plan_pictures.budgets([GPT_OSS], 0.65),
        plan_pictures.budgets([FIRST, SECOND], 0.5),
        plan_pictures.budgets([FULL], 0.9),
        plan_pictures.budgets([UNKNOWN, wide], None),
        plan_pictures.budgets([sizeless], 0.9),
        plan_pictures.layouts(LAID),
        plan_pictures.differences(COMPARED),
        plan_pictures.differences([ComparedTerm("odd", 1.0, 1.0, 1.0, 1.0, "")]),
    ]  # fmt: skip


def coordinates(svg: str) -> list[tuple[float, float]]:
    """Where something is drawn: corners of rectangles, ends of lines, absolute points of paths, and texts."""
    number = r"([-\d.]+)"
    spots = [(float(x), float(y)) for x, y in re.findall(rf"[ML]{number} {number}", svg)]
    spots += [(float(x), float(y)) for x, y in re.findall(rf'x[12]="{number}" y[12]="{number}"', svg)]
    for x, y, wide, high in re.findall(rf'<rect x="{number}" y="{number}" width="{number}" height="{number}"', svg):
        spots += [(float(x), float(y)), (float(x) + float(wide), float(y) + float(high))]
    spots += [(float(x), float(y)) for x, y in re.findall(rf'<text x="{number}" y="{number}"', svg)]
    return spots


@pytest.mark.parametrize("number", range(8))
def test_pictures_of_plans_stay_inside_their_frame(number: int) -> None:
    """Bars, hatches, whiskers and texts, also for excess memory; half a pixel is rounding."""
    svg = plans()[number]
    width, height = (float(v) for v in re.findall(r'viewBox="0 0 (\d+) (\d+)"', svg)[0])

    assert width == drawing.NARROW
    for x, y in coordinates(svg):
        assert -0.5 <= x <= width + 0.5
        assert -0.5 <= y <= height + 0.5
    texts = re.findall(r'<text x="([\d.]+)"[^>]*? font-size="(\d+)" text-anchor="(\w+)"[^>]*>([^<]*)<', svg)
    assert texts
    for x, size, anchor, said in texts:
        long = float(size) * 0.52 * len(said)
        left = float(x) - {"start": 0.0, "middle": long / 2, "end": long}[anchor]
        assert left >= -2, said
        assert left + long <= width + 2, said


@pytest.mark.parametrize("number", range(8))
def test_pictures_of_plans_pass_sanitizing(number: int) -> None:
    """They contain only elements that pages allow."""
    svg = plans()[number]
    root = ET.fromstring(svg)  # noqa: S314 - our own text, of a known size

    for element in root.iter():
        assert element.tag in ALLOWED
        assert set(element.attrib) <= ALLOWED[element.tag], element.tag
    kept = markup.clean_html(svg)
    for attribute in (" x=", " fill=", " d=", " x1=", " opacity=", " viewBox=", " text-anchor=", "max-width"):
        assert kept.count(attribute) == svg.count(attribute), attribute


def test_names_in_pictures_of_plans_are_escaped() -> None:
    """GPUs, settings and terms have the user's names."""
    odd = replace(GPT_OSS, gpu=HOSTILE, node=HOSTILE, terms=(*GPT_OSS.terms, term(HOSTILE, 1.0)))
    for svg in (
        plan_pictures.budgets([odd], 0.65),
        plan_pictures.differences([ComparedTerm(HOSTILE, 1.0, 1.0, 1.0, 2.0, HOSTILE)]),
    ):
        root = ET.fromstring(display.visible(svg))  # noqa: S314 - our own text, of a known size
        assert {element.tag for element in root.iter()} <= set(ALLOWED)


def widths(svg: str) -> dict[str, float]:
    """Widths of a budget's segments, by their titles' first words."""
    return {
        name: float(wide)
        for wide, name in re.findall(r'width="([\d.]+)" height="28.0" fill="[^"]*"><title>([^:<]*):', svg)
    }


def test_a_budget_is_drawn_to_scale() -> None:
    """Weights are 13.72 of 79.25 GiB, the KV cache 36.56, and the limit is at 0.65."""
    svg = plans()[0]
    whole = drawing.NARROW - 2

    assert widths(svg)["weights"] == pytest.approx(whole * 13.72 / 79.25, abs=1)
    assert widths(svg)["KV cache"] == pytest.approx(whole * 36.56 / 79.25, abs=1)
    (outline,) = re.findall(r'width="([\d.]+)" height="30.0" fill="none"', svg)
    assert float(outline) == pytest.approx(whole)
    (limit,) = re.findall(r'<line x1="([\d.]+)"[^>]*stroke="currentColor"', svg)
    assert float(limit) == pytest.approx(1 + whole * 0.65, abs=0.1)
    assert "limit 51.51 (utilization 0.65)" in svg
    assert "KV cache 36.6</text>" in svg
    assert "activation peak 0.77" in svg


def test_uncertainty_is_a_whisker_before_the_kv_cache() -> None:
    """From the lower to the upper sums of the other terms; none if one is unknown or all exact."""
    (ends,) = re.findall(r'd="M([\d.]+) [\d.]+v8M[\d.]+ [\d.]+H([\d.]+)M', plans()[0])
    scale = (drawing.NARROW - 2) / 79.25

    assert [float(end) for end in ends] == pytest.approx([1 + 14.62 * scale, 1 + 15.11 * scale], abs=2.5)
    assert "before the KV cache 14.6 to 15.1" in plans()[0]
    assert "before the KV cache" not in plan_pictures.budgets([FIRST], 0.5)
    assert "before the KV cache" not in plan_pictures.budgets([UNKNOWN], 0.9)


def test_cuda_graphs_are_placed_by_the_release() -> None:
    """After the limit if the budget does not include them, else before the KV cache."""
    later = replace(GPT_OSS, available_gib=35.87)

    assert [term.name for term in plan_pictures.stacked(GPT_OSS, 51.51)[2]] == ["cuda_graphs"]
    assert plan_pictures.stacked(later, 51.51)[2] == []
    assert plan_pictures.stacked(GPT_OSS, None)[2] == []
    assert "on top: CUDA graphs 0.69" in plan_pictures.budgets([GPT_OSS], 0.65)
    assert "on top" not in plan_pictures.budgets([later], 0.65)


def test_a_plan_too_large_exceeds_its_gpu() -> None:
    """The excess is a number, and unknown terms are words instead of bars."""
    svg = plans()[2]

    assert "3.97 too much" in svg
    assert "KV cache: unknown" in svg
    assert "encoder profile: unknown" in plan_pictures.budgets([UNKNOWN], 0.9)
    assert "memory unknown" in plans()[4]
    nothing = plan_pictures.budgets([replace(FULL, terms=(*FULL.terms[:1], term("kv_cache", 0.0)))], 0.9)
    assert ">KV cache" not in nothing
    assert "too much" not in nothing
    assert (
        plan_pictures.budgets([], 0.9) == plan_pictures.budgets([replace(UNKNOWN, terms=UNKNOWN.terms[1:])], 0.9) == ""
    )


def test_equal_gpus_are_one_bar() -> None:
    """Eight GPUs with equal plans need one bar; two different ones need two."""
    eight = [replace(GPT_OSS, rank=rank) for rank in range(8)]

    assert plan_pictures.budgets(eight, 0.65).count('height="30.0" fill="none"') == 1
    assert ">GPUs 0-7, each · A100-80GB</text>" in plan_pictures.budgets(eight, 0.65)
    assert plan_pictures.budgets([FIRST, SECOND], 0.5).count('height="30.0" fill="none"') == 2


def luminance(colour: str) -> float:
    """Of sRGB, from 0 to 1."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    return sum(
        share * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
        for share, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True)
    )


def contrast(one: str, other: str) -> float:
    """The contrast ratio of the accessibility guidelines: 1 is none."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_terms_are_distinguished_without_color() -> None:
    """In gray each has its own lightness or hatch, and figures contrast with their bars."""
    looks = {}
    for name in memory_parts.PARTS:
        swatch = memory_parts.swatch(name)
        (fill,) = re.findall(r'fill="(#\w{6})"', swatch)
        looks[name] = (fill, re.findall(r' d="([^"]*)"', swatch))

    for (one, (fill, hatch)), (other, (next_fill, next_hatch)) in combinations(looks.items(), 2):
        assert hatch != next_hatch or contrast(fill, next_fill) >= 1.2, (one, other)
    for (fill, _), (next_fill, _) in pairwise(looks.values()):
        assert contrast(fill, next_fill) >= 1.2
    assert contrast(looks["weights"][0], "#ffffff") >= 4.5
    assert contrast(looks["kv_cache"][0], "#111111") >= 4.5


def test_layouts_are_compared_column_by_column() -> None:
    """The recommended layout is solid, one that does not fit is labelled, invalid ones absent."""
    svg = plan_pictures.layouts(LAID)

    for name in ("4 x TP 2", "TP 8", "2 x TP 2 · PP 2", "DP 8", "8 x 1 GPU", "as requested"):
        assert f">{name}{', recommended' * (name == '4 x TP 2')}</text>" in svg
    assert ">TP 3</text>" not in svg
    assert re.findall(r'fill="#3f7fc1"><title>([^<]*)<', svg) == [
        "KV cache, GiB per GPU 8.6", "longest context 131,072", "concurrent requests 12",
    ]  # fmt: skip
    assert svg.count(">does not fit</text>") == 1
    assert svg.count(">unknown</text>") == 4
    assert plan_pictures.layouts(LAID[5:6]) == ""
    assert plan_pictures.layouts([LAID[4]]).count("<rect") == 0


def test_differences_lie_within_the_band_or_outside() -> None:
    """Filled within, hollow outside; a term that was not printed has no row."""
    svg = plan_pictures.differences(COMPARED)

    assert "weights +0.03, within the plan&#x27;s band of +0.00 to +0.03" in svg
    assert "activation peak +0.19, outside the plan&#x27;s band of -0.04 to +0.09" in svg
    assert svg.count(f'fill="{start_pictures.FREE}"') == 2
    assert svg.count(f'stroke="{start_pictures.RISEN}"') == 1
    assert ">KV cache</text>" not in svg
    assert plan_pictures.differences(COMPARED[3:]) == ""


def listed(svg: str) -> list[str]:
    """The elements of a picture in order, one line each: places, sizes, style and text."""
    root = ET.fromstring(svg)  # noqa: S314 - our own text, of a known size
    said = [f"{root.get('viewBox')}: {root.findtext('title')}"]
    for shape in root:
        has = {
            name: f"{float(value):g}" if re.fullmatch(r"-?[\d.]+", value) else value for name, value in shape.items()
        }
        title = f": {shape.findtext('title')}" if shape.find("title") is not None else ""
        if shape.tag == "rect":
            look = " ".join(filter(None, [has["fill"], has.get("stroke"), has.get("opacity")]))
            said.append(f"rect {has['x']},{has['y']} {has['width']}x{has['height']} {look}{title}")
        elif shape.tag == "line":
            colour = "" if has["stroke"] == drawing.HAIR else f" {has['stroke']}"
            said.append(f"line {has['x1']},{has['y1']} {has['x2']},{has['y2']} {has['stroke-width']}{colour}")
        elif shape.tag == "path":
            look = " ".join([has["fill"], has["stroke"], has["stroke-width"]])
            said.append(f"path {shape.get('d')} {look}{title}")
        elif shape.tag == "text":
            anchor = {"start": "", "middle": " middle", "end": " end"}[has.get("text-anchor", "start")]
            ink = "" if has["fill"] == "currentColor" else f" {has['fill']}"
            faint = {None: "", "0.72": " faint"}[has.get("opacity")]
            said.append(f"{has['font-size']} at {has['x']},{has['y']}{anchor}{ink}{faint}: {shape.text or ''}")
    return said


def body(parts: str) -> list[str]:
    """The same of parts that make no picture yet."""
    return listed(f'<svg viewBox="none">{parts}</svg>')[1:]


def a_start(start: ServerRun, model: str | None = None, **more: Any) -> ServerRun:
    """A launch with only these facts."""
    facts = Facts(model=model, **more.pop("facts", {}))
    return replace(start, **{"facts": facts, "arguments": {}, "timeline": (), "throughput": (), **more})


def phase(name: str, clock: float | None, printed: float | None = None) -> Phase:
    return Phase(name, Quote(0, 1, 1, name), None, clock, printed)


@in_one_test(
    ("longest", "ticks", "step"),
    [
        (6, 6, 1), (6.01, 6, 2), (12, 6, 2), (12.1, 6, 5), (30, 6, 5), (30.1, 6, 10), (60, 6, 10), (61, 6, 20),
        (5.9, 6, 1), (0.3, 6, 0.05), (0.031, 6, 0.01), (4, 4, 1), (4.1, 4, 2), (1000, 5, 200), (0, 6, 2e-10),
    ],
)  # fmt: skip
def test_ticks_have_round_distances(longest: float, ticks: int, step: float) -> None:
    """One, two or five times a power of ten: the smallest step with at most this many ticks."""
    assert drawing.tick_step(longest, ticks) == pytest.approx(step, rel=1e-9)


def test_six_ticks_are_the_default() -> None:
    """A sixth of the length, rounded."""
    assert [drawing.tick_step(longest) for longest in (12, 12.1)] == [2, 5]


def test_an_axis_numbers_its_ticks_from_zero() -> None:
    """Only the first has the unit, and a tick at the very end is drawn."""
    assert body(drawing.axis(10, "s", left=20, right=120, top=5, bottom=50)) == [
        "line 20,5 20,50 1", "11 at 20,66 middle faint: 0 s", "line 40,5 40,50 1", "11 at 40,66 middle faint: 2",
        "line 60,5 60,50 1", "11 at 60,66 middle faint: 4", "line 80,5 80,50 1", "11 at 80,66 middle faint: 6",
        "line 100,5 100,50 1", "11 at 100,66 middle faint: 8", "line 120,5 120,50 1", "11 at 120,66 middle faint: 10",
    ]  # fmt: skip
    assert [line.split(": ")[1] for line in body(drawing.axis(9.9, "s", left=0, right=9, top=0, bottom=1))[1::2]] == [
        "0 s", "2", "4", "6", "8",
    ]  # fmt: skip
    assert len(body(drawing.axis(0.3, "GiB", left=0, right=9, top=0, bottom=1))) == 2 * 7


def test_a_legend_has_as_many_lines_as_it_needs() -> None:
    """Four names of twenty letters fill a line to its last pixel; with a letter more the last one begins another."""
    names = [letter * 20 for letter in "abcd"]
    row, used = drawing.swatches(dict.fromkeys(names, "#111"), 12)
    wrapped, more = drawing.swatches(dict.fromkeys([*names[:3], "d" * 21, "e"], "#111"), 12)

    assert body(row) == [
        "rect 0,2 11x11 #111", f"12 at 17,12: {names[0]}", "rect 180,2 11x11 #111", f"12 at 197,12: {names[1]}",
        "rect 360,2 11x11 #111", f"12 at 377,12: {names[2]}", "rect 540,2 11x11 #111", f"12 at 557,12: {names[3]}",
    ]  # fmt: skip
    assert used == 20
    assert body(wrapped)[6:] == [
        "rect 0,22 11x11 #111", f"12 at 17,32: {'d' * 21}", "rect 187,22 11x11 #111", "12 at 204,32: e",
    ]  # fmt: skip
    assert more == 40
    assert body(drawing.swatches({"x" * 200: "#222"}, 30)[0])[0] == "rect 0,20 11x11 #222"
    assert drawing.swatches({}, 12) == ("", 20)


def test_a_stacked_bar_clips_its_parts_and_repeats_its_colours() -> None:
    """No part is wider than the whole or narrower than nothing, and a seventh has the first one's colour."""
    svg = drawing.bars([("a", 0.25), ("b", 0.5), ("<c>", -1.0), ("d", 1.5), ("e", 0), ("f", 0), ("g", 0)])
    ends = [
        f"rect 910,0 0x26 {colour}: {name}"
        for name, colour in zip("efg", ("#cf222e", "#8a939c", "#0969da"), strict=True)
    ]

    assert listed(svg) == [
        "0 0 520 26: a 25%, b 50%, <c> 0%, d 100%, e 0%, f 0%, g 0%", "rect 0,0 520x26 #8884",
        "rect 0,0 130x26 #0969da: a", "rect 130,0 260x26 #bf8700: b",
        "rect 390,0 0x26 #8250df: <c>", "rect 390,0 520x26 #3f9e62: d", *ends,
    ]  # fmt: skip
    assert listed(drawing.bars([("a", 1.0)], width=10, height=4)) == [
        "0 0 10 4: a 100%", "rect 0,0 10x4 #8884", "rect 0,0 10x4 #0969da: a",
    ]  # fmt: skip
    assert listed(drawing.bars([])) == ["0 0 520 26: nothing", "rect 0,0 520x26 #8884"]
    assert svg.startswith('<svg width="520" height="26" viewBox="0 0 520 26" role="img">')


def test_shapes_and_texts_have_their_places() -> None:
    """Tenths of a pixel; no bar has a negative width; text is escaped."""
    assert drawing.rect(1, 2, -3, 4, "#fff") == '<rect x="1.0" y="2.0" width="0.0" height="4.0" fill="#fff"></rect>'
    assert drawing.rect(1, 2, 3, 4, "#fff", title="a<").endswith('width="3.0" height="4.0" fill="#fff"><title>a&lt;'
                                                                 "</title></rect>")  # fmt: skip
    assert body(drawing.rule(1, 2, 3, 4, thick=1.5, colour="#123")) == ["line 1,2 3,4 1.5 #123"]
    assert body(drawing.rule(1, 2, 3, 4)) == ["line 1,2 3,4 1"]
    assert body(drawing.caption(1, 2, "a<b") + drawing.caption(3, 4, "c", size=9, anchor="end", faint=True)) == [
        "13 at 1,2: a<b", "9 at 3,4 end faint: c",
    ]  # fmt: skip
    assert drawing.picture(["<line />"], 49.6, "a<b") == (
        '<svg width="720" height="50" viewBox="0 0 720 50" role="img" style="max-width:100%"><title>a&lt;b</title>'
        "<line /></svg>"
    )


def test_timelines_are_drawn_to_the_pixel(four: list[ServerRun]) -> None:
    """127 s in 508 pixels: four per second, with gaps of two pixels.

    The log's clock precedes printed durations. A launch without times keeps its number, and an
    empty phase is not in the legend.
    """
    long = a_start(
        four[0], "org/alpha", facts={"quantization": "fp8", "gpu_memory_utilization": 0.9},
        timeline=(phase("configure", 10), phase("load", 100, 55), phase("compile", 0.0), phase("warm_up", None, 17)),
    )  # fmt: skip
    timeless = a_start(four[0], "org/beta", timeline=(phase("load", None),))
    short = a_start(
        four[0], "org/gamma", timeline=(phase("novel", 0.5), phase("serve", None), phase("capture", 0.75))
    )  # fmt: skip

    assert listed(start_pictures.timelines([long, timeless, short])) == [
        "0 0 720 136: Phases of each start, in seconds",
        "rect 0,2 11x11 #8a94a0", "12 at 17,12: configure", "rect 103,2 11x11 #3f7fc1",
        "12 at 120,12: load the weights", "rect 255,2 11x11 #c25f8f", "12 at 272,12: capture CUDA graphs",
        "rect 428,2 11x11 #a88a5a", "12 at 445,12: warm up",
        "line 150,24 150,114 1", "11 at 150,130 middle faint: 0 s", "line 350,24 350,114 1",
        "11 at 350,130 middle faint: 50", "line 550,24 550,114 1", "11 at 550,130 middle faint: 100",
        "rect 150,34 39.2x22 #8a94a0: configure: 10 s", "rect 190,34 399.2x22 #3f7fc1: load the weights: 100 s",
        "rect 590,34 0x22 #c9862b: compile: 0 s", "rect 590,34 67.2x22 #a88a5a: warm up: 17 s",
        "13 at 0,44: 1 alpha", "11 at 0,58 faint: fp8 · util 0.9", "13 at 664,49: 127 s",
        "rect 150,76 2x22 #8884: novel: 0 s", "rect 152,76 0x22 #5fa0d8: open the server: 0 s",
        "rect 152,76 2.2x22 #c25f8f: capture CUDA graphs: 1 s", "13 at 0,91: 3 gamma", "13 at 161,91: 1 s",
    ]  # fmt: skip


def test_phases_have_their_names_and_fills(four: list[ServerRun]) -> None:
    """Each has its own name and color, in the order of a launch."""
    names = ("configure", "engine", "load", "encoder", "compile", "profile", "kv_cache", "capture", "warm_up", "serve")
    start = a_start(four[0], timeline=tuple(phase(name, 10) for name in reversed(names)))
    lines = listed(start_pictures.timelines([start]))
    legend = [line.split(": ")[1] for line in lines[2:22:2]]
    fills = [line.split()[-1] for line in lines[1:21:2]]

    assert legend == [
        "configure", "start the engine", "load the weights", "profile the encoder", "compile", "profile memory",
        "size the KV cache", "capture CUDA graphs", "warm up", "open the server",
    ]  # fmt: skip
    assert len(set(fills)) == 10
    bars = [line.split()[3].rstrip(":") for line in lines if " s" in line and line.startswith("rect")]
    assert bars == fills[::-1]


def test_a_picture_has_a_maximum_of_rows(four: list[ServerRun]) -> None:
    """24 bars, only of launches with data; at most 600 points over the whole log, lines of six launches."""
    timed = a_start(four[0], "m", timeline=(phase("load", 5),))
    sized = a_start(four[0], "m", facts={"weights_gib": 5.0})
    bare = a_start(four[0], "m")
    said = listed(start_pictures.timelines([bare, *[timed] * 25]))

    assert [line for line in said if line.endswith(" m")] == [
        f"13 at 0,{49 + 42 * row}: {row + 2} m" for row in range(24)
    ]
    assert said[0].startswith(f"0 0 720 {20 + 10 + 24 * 42 + 22}:")
    said = listed(start_pictures.memories([bare, *[sized] * 25], [None] * 26))
    assert [line for line in said if line.endswith(" m")][-1] == f"13 at 0,{49 + 42 * 23}: 25 m"
    busy = replace(bare, throughput=tuple(Throughput(n, 0.0, 1.0, 1, 0, None) for n in range(1, 602)))
    dots = [line for line in listed(start_pictures.throughputs([busy])) if ", line " in line]
    assert (len(dots), dots[-1].split(": ", 1)[1]) == (301, "1 m, line 601: 1 tokens/s")
    one = replace(bare, throughput=busy.throughput[:1])
    dots = [line for line in listed(start_pictures.throughputs([bare, *[one] * 7])) if ", line " in line]
    assert [dot.split(": ", 1)[1][:3] for dot in dots] == ["2 m", "3 m", "4 m", "5 m", "6 m", "7 m"]


def test_memory_is_drawn_to_the_pixel(four: list[ServerRun]) -> None:
    """127 GiB in 508 pixels: four per GiB.

    Bars of more than 44 pixels contain a figure, and excess is cut. The mark is the budget, at most
    the whole GPU; a GPU of unknown size has no mark and ends with its parts.
    """
    starts = [
        a_start(four[0], "a", facts={"weights_gib": 10.0, "kv_cache_gib": 11.0, "cuda_graph_gib": 0.5,
                                     "gpu_memory_utilization": 0.25}),
        a_start(four[0], "b", facts={"cuda_graph_gib": 3.0}),
        a_start(four[0], "c", facts={"weights_gib": 50.0, "kv_cache_gib": 11.25, "cuda_graph_gib": 0.75}),
        a_start(four[0], "d", facts={"weights_gib": 120.0, "kv_cache_gib": 20.0, "gpu_memory_utilization": 1.5}),
        a_start(four[0], "e", facts={"weights_gib": 0.0, "kv_cache_gib": 25.0}),
    ]  # fmt: skip

    assert listed(start_pictures.memories(starts, [127.0, 127.0, None, 127.0, 63.5])) == [
        "0 0 720 220: GPU memory of each start, in GiB; the mark is the budget", "rect 0,1 13x13 #2f6099",
        "12 at 18,12: weights", "rect 81,1 13x13 #c46a98",
        "path M81.0 4.0L94.0 4.0M81.0 10.0L94.0 10.0 none #111 1.2", "12 at 99,12: CUDA graphs",
        "rect 190,1 13x13 #6fc4b6", "12 at 208,12: KV cache", "rect 278,1 13x13 #8884",
        "12 at 296,12: everything else, and free", "line 150,24 150,198 1", "11 at 150,214 middle faint: 0 GiB",
        "line 350,24 350,198 1", "11 at 350,214 middle faint: 50", "line 550,24 550,198 1",
        "11 at 550,214 middle faint: 100", "rect 150,34 508x22 #8884: GPU: 127.00 GiB",
        "rect 150,34 39.2x22 #2f6099: weights: 10.00 GiB", "rect 190,34 43.2x22 #6fc4b6: KV cache: 11.00 GiB",
        "rect 234,34 2x22 #c46a98: CUDA graphs: 0.50 GiB",
        "path M234.0 37.0L236.0 37.0M234.0 43.0L236.0 43.0M234.0 49.0L236.0 49.0M234.0 55.0L236.0 55.0 none #111 1.2",
        "line 277,29 277,61 2 currentColor", "13 at 0,44: 1 a", "11 at 0,58 faint: util 0.25", "13 at 664,49: 21.5",
        "rect 150,76 199.2x22 #2f6099: weights: 50.00 GiB", "12 at 250,91 middle #fff: 50",
        "rect 350,76 44.2x22 #6fc4b6: KV cache: 11.25 GiB", "12 at 372.5,91 middle #111: 11.25",
        "rect 395,76 2.2x22 #c46a98: CUDA graphs: 0.75 GiB",
        "path M395.0 79.0L397.2 79.0M395.0 85.0L397.2 85.0M395.0 91.0L397.2 91.0M395.0 97.0L397.2 97.0 none #111 1.2",
        "13 at 0,91: 3 c", "13 at 404,91: 62.0", "rect 150,118 508x22 #8884: GPU: 127.00 GiB",
        "rect 150,118 479.2x22 #2f6099: weights: 120.00 GiB", "12 at 390,133 middle #fff: 120",
        "rect 630,118 27.2x22 #6fc4b6: KV cache: 20.00 GiB", "line 658,113 658,145 2 currentColor",
        "13 at 0,128: 4 d", "11 at 0,142 faint: util 1.5", "13 at 664,133: 140.0",
        "rect 150,160 254x22 #8884: GPU: 63.50 GiB", "rect 150,160 99.2x22 #6fc4b6: KV cache: 25.00 GiB",
        "12 at 200,175 middle #111: 25", "13 at 0,175: 5 e", "13 at 410,175: 25.0",
    ]  # fmt: skip


def test_the_largest_stack_is_the_scale_without_a_gpu(four: list[ServerRun]) -> None:
    """All its parts together fill it."""
    start = a_start(four[0], "a", facts={"weights_gib": 100.0, "kv_cache_gib": 27.0})
    said = listed(start_pictures.memories([start], [None]))

    assert [line for line in said if "GiB" in line and line.startswith("rect")] == [
        "rect 150,34 399.2x22 #2f6099: weights: 100.00 GiB", "rect 550,34 107.2x22 #6fc4b6: KV cache: 27.00 GiB",
    ]  # fmt: skip
    assert said[-1] == "13 at 664,49: 127.0"


def test_throughput_is_drawn_to_the_pixel(four: list[ServerRun]) -> None:
    """44 tokens/s in 220 pixels: five each; four lines in 668: 167 each, after half a step."""
    first = a_start(
        four[0], "org/alpha", arguments={"enforce_eager": True},
        throughput=tuple(
            Throughput(line, 0.0, rate, running, 0, None)
            for line, rate, running in ((7, 44.0, 1), (8, 22.0, 1), (9, 0.0, 0), (11, 11.5, 2))
        ),
    )  # fmt: skip
    second = a_start(four[0], "org/beta", throughput=(Throughput(3, 0.0, 11.0, None, 0, None),))

    assert listed(start_pictures.throughputs([first, a_start(four[0]), second])) == [
        "0 0 720 292: Generated tokens per second, by periodic line",
        "rect 0,2 11x11 #3f7fc1", "12 at 17,12: 1 alpha · eager", "rect 145,2 11x11 #c9862b", "12 at 162,12: 3 beta",
        "11 at 0,36 faint: tokens/s",
        "line 40,266 708,266 1", "11 at 33,270 end: 0", "line 40,166 708,166 1", "11 at 33,170 end: 20",
        "line 40,66 708,66 1", "11 at 33,70 end: 40",
        "path M123.5 46.0 L290.5 156.0 L457.5 266.0 L624.5 208.5 none #3f7fc1 2",
        "path M119.5 46.0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0 none #3f7fc1 2: 1 alpha, line 7: 44 tokens/s",
        "path M286.5 156.0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0 #3f7fc1 #3f7fc1 2: 1 alpha, line 8: 22 tokens/s",
        "path M453.5 266.0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0 none #3f7fc1 2: 1 alpha, line 9: 0 tokens/s",
        "path M620.5 208.5a4 4 0 1 0 8 0a4 4 0 1 0 -8 0 none #3f7fc1 2: 1 alpha, line 11: 11.5 tokens/s",
        "path M123.5 211.0 none #c9862b 2",
        "path M119.5 211.0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0 none #c9862b 2: 3 beta, line 3: 11 tokens/s",
        "line 40,266 708,266 1", "11 at 708,284 end faint: periodic lines, in the order printed",
    ]  # fmt: skip


def test_a_tick_is_at_the_highest_rate(four: list[ServerRun]) -> None:
    """Four steps of ten reach forty."""
    start = a_start(four[0], throughput=(Throughput(1, 0.0, 40.0, 1, 0, None),))
    said = listed(start_pictures.throughputs([start]))

    assert [line.split(": ")[1] for line in said if " end: " in line] == ["0", "10", "20", "30", "40"]
    assert "11 at 33,50 end: 40" in said


def test_free_memory_is_drawn_to_the_pixel() -> None:
    """127 GiB in 508 pixels; half a GiB of freed memory has four; budgets are sorted.

    A budget of the whole GPU is drawn, a larger one is not.
    """
    budgets = {"b": 100.0, "a": 63.5, "over": 127.1, "all": 127.0}

    assert listed(start_pictures.free_memory(50.0, 50.5, 127.0, budgets)) == [
        "0 0 720 185: Free GPU memory before and after profiling, in GiB",
        "rect 0,2 11x11 #2f9c8f", "12 at 17,12: free", "rect 68,2 11x11 #d05a4e", "12 at 85,12: freed while profiling",
        "rect 255,2 11x11 #8884", "12 at 272,12: in use by other processes or this launch",
        "line 150,75 150,163 1", "11 at 150,179 middle faint: 0 GiB", "line 350,75 350,163 1",
        "11 at 350,179 middle faint: 50", "line 550,75 550,163 1", "11 at 550,179 middle faint: 100",
        "rect 150,87 508x22 #8884: GPU: 127.00 GiB", "rect 150,87 200x22 #2f9c8f: free: 50.00 GiB",
        "13 at 0,102: before profiling", "12 at 158,102 #fff: 50.00 free",
        "rect 150,129 508x22 #8884: GPU: 127.00 GiB", "rect 150,129 202x22 #2f9c8f: free: 50.50 GiB",
        "13 at 0,144: after profiling", "12 at 158,144 #fff: 50.50 free",
        "rect 350,126 4x28 #d05a4e: freed while profiling: 0.50 GiB", "13 at 360,144: +0.50 GiB",
        "line 404,66 404,163 1.5 currentColor", "11 at 399,75 end: a: 63.5",
        "line 550,51 550,163 1.5 currentColor", "11 at 545,60 end: b: 100.0",
        "line 658,36 658,163 1.5 currentColor", "11 at 653,45 end: all: 127.0",
    ]  # fmt: skip


def test_free_memory_of_a_gpu_of_unknown_size_fills_a_narrower_scale() -> None:
    """121 GiB in 484 pixels; no budget can be drawn, nothing is in use, and a rise is drawn at its true width."""
    assert listed(start_pictures.free_memory(119.0, 121.0, None, {"a": 60.0}))[1:] == [
        "rect 0,2 11x11 #2f9c8f", "12 at 17,12: free", "rect 68,2 11x11 #d05a4e", "12 at 85,12: freed while profiling",
        "line 150,30 150,118 1", "11 at 150,134 middle faint: 0 GiB", "line 350,30 350,118 1",
        "11 at 350,134 middle faint: 50", "line 550,30 550,118 1", "11 at 550,134 middle faint: 100",
        "rect 150,42 476x22 #2f9c8f: free: 119.00 GiB", "13 at 0,57: before profiling",
        "12 at 158,57 #fff: 119.00 free",
        "rect 150,84 484x22 #2f9c8f: free: 121.00 GiB", "13 at 0,99: after profiling",
        "12 at 158,99 #fff: 121.00 free",
        "rect 626,81 8x28 #d05a4e: freed while profiling: 2.00 GiB", "13 at 640,99: +2.00 GiB",
    ]  # fmt: skip
    for after in (121.0, 60.0):
        said = listed(start_pictures.free_memory(121.0, after, None, {}))
        assert not [line for line in said if "freed" in line or "+" in line]
    assert "rect 150,42 484x22 #2f9c8f: free: 127.00 GiB" not in listed(
        start_pictures.free_memory(127.0, 60.0, 63.5, {})
    )
    assert "rect 150,42 508x22 #2f9c8f: free: 127.00 GiB" in listed(start_pictures.free_memory(127.0, 60.0, 63.5, {}))


@pytest.mark.parametrize(
    ("model", "called"),
    [
        ("org/" + "m" * 19, "3 " + "m" * 19), ("org/" + "m" * 20, "3 " + "m" * 18 + "…"), ("a\\b\\", "3 b"),
        ("/a/b//", "3 b"), ("", "3"), ("/", "3"),
    ],
)  # fmt: skip
def test_a_name_has_room_for_twenty_one_letters(four: list[ServerRun], model: str, called: str) -> None:
    """One more, and the last that fits is an ellipsis."""
    assert start_pictures.label(a_start(four[0], model), 3) == called


@pytest.mark.parametrize(
    ("quantization", "eager", "utilization", "said"),
    [
        ("q" * 24, None, None, "q" * 24), ("q" * 25, None, None, "q" * 23 + "…"),
        ("fp8", True, 0.0, "fp8 · eager · util 0"),
        (None, True, None, "eager"), (None, "yes", 0.95, "util 0.95"), (None, False, None, ""),
    ],
)  # fmt: skip
def test_a_label_has_room_for_twenty_four_letters(
    four: list[ServerRun], quantization: str | None, eager: object, utilization: float | None, said: str
) -> None:
    """Quantization, eager mode if on, and the budget, even if zero."""
    start = a_start(
        four[0], facts={"quantization": quantization, "gpu_memory_utilization": utilization},
        arguments={} if eager is None else {"enforce_eager": eager},
    )  # fmt: skip
    assert start_pictures.distinction(start) == said


def test_seconds_of_a_phase_are_the_clocks() -> None:
    """Even if it prints none, else the printed ones."""
    assert [start_pictures.spent(phase("x", *times)) for times in ((0.0, 5.0), (None, 5.0), (None, None))] == [
        0.0, 5.0, None,
    ]  # fmt: skip


def without_hatches(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.endswith(("#111 1.2", "#fff 1.2"))]


# 54.75 GiB in 438 pixels: eight a GiB.
EIGHT = PlannedRank(
    "A100", 0, None, 54.75, 12.125, True,
    (term("kv_cache", 12.125), term("weights", 11.5, 11.0, 12.0), term("communication", 0.0), term("encoder", 2.5),
     term("activation", 1.0, 0.5, 2.0), term("non_torch", 0.25), term("cuda_graphs", 1.5)),
)  # fmt: skip
BESIDE = PlannedRank(
    "A100", 1, "n2", 54.75, 3.875, True, (term("weights", 12.0), term("communication", 5.0), term("kv_cache", 3.875))
)


def alone(**terms: float | None) -> PlannedRank:
    return replace(EIGHT, available_gib=None, terms=tuple(term(name, gib) for name, gib in terms.items()))


def test_budgets_are_drawn_to_the_pixel() -> None:
    """Terms have a fixed order and gaps of two pixels; zero has no bar; long figures go below.

    The graphs would exceed the limit by their own size, so they are after the KV cache; the limit
    is half the GPU.
    """
    assert without_hatches(listed(plan_pictures.budgets([EIGHT, BESIDE], 0.5))) == [
        (
            "0 0 440 298: Planned memory in GiB. GPU 0 · A100, 54.75 GiB: weights 11.50 (11.00 to 12.00), "
            "activation peak 1.00 (0.50 to 2.00), encoder profile 2.50, non-torch memory 0.25, communication 0.00, "
            "KV cache 12.12, CUDA graphs 1.50. GPU 1 · A100 · n2, 54.75 GiB: weights 12.00, communication 5.00, "
            "KV cache 3.88"
        ),
        "rect 0,1 13x13 #2f6099", "12 at 18,12: weights", "rect 81,1 13x13 #e8b04a", "12 at 99,12: activation peak",
        "rect 218,1 13x13 #7d55bd", "12 at 236,12: encoder profile",
        "rect 0,21 13x13 #b5bcc4", "12 at 18,32: non-torch memory", "rect 144,21 13x13 #56616d",
        "12 at 162,32: communication", "rect 267,21 13x13 #c46a98", "12 at 285,32: CUDA graphs",
        "rect 0,41 13x13 #6fc4b6", "12 at 18,52: KV cache",
        "13 at 0,84: GPU 0 · A100", "12 at 439,84 end: 54.75 GiB",
        "rect 1,93 91.2x28 #2f6099: weights: 11.50 (11.00 to 12.00) GiB", "13 at 47,111.5 middle #fff: weights 11.5",
        "rect 93,93 7.2x28 #e8b04a: activation peak: 1.00 (0.50 to 2.00) GiB",
        "rect 101,93 19.2x28 #7d55bd: encoder profile: 2.50 GiB",
        "rect 121,93 2x28 #b5bcc4: non-torch memory: 0.25 GiB",
        "rect 123,93 96.2x28 #6fc4b6: KV cache: 12.12 GiB", "13 at 171.5,111.5 middle #111: 12.1",
        "rect 220,93 11.2x28 #c46a98: CUDA graphs: 1.50 GiB", "rect 1,92 438x30 none currentColor 0.75",
        "line 220,88 220,126 2 currentColor",
        "path M115.0 125.0v8M115.0 129.0H135.0M135.0 125.0v8 none currentColor 1.6",
        "12 at 0,147: activation peak 1.00 · encoder profile 2.50 · non-torch memory 0.25",
        "12 at 0,163: on top: CUDA graphs 1.50 · limit 27.38 (utilization 0.5)",
        "12 at 0,179: before the KV cache 14.2 to 16.8",
        "13 at 0,207: GPU 1 · A100 · n2", "12 at 439,207 end: 54.75 GiB",
        "rect 1,216 95.2x28 #2f6099: weights: 12.00 GiB", "13 at 49,234.5 middle #fff: weights 12.0",
        "rect 97,216 39.2x28 #56616d: communication: 5.00 GiB", "rect 137,216 30.2x28 #6fc4b6: KV cache: 3.88 GiB",
        "rect 1,215 438x30 none currentColor 0.75", "line 220,211 220,249 2 currentColor",
        "12 at 0,262: communication 5.00 · KV cache 3.88 · limit 27.38 (utilization 0.5)",
        "line 1,276 439,276 1", "line 1,276 1,280 1", "11 at 1,293 faint: 0 GiB", "line 161,276 161,280 1",
        "11 at 161,293 middle faint: 20", "line 321,276 321,280 1", "11 at 321,293 middle faint: 40",
    ]  # fmt: skip


def test_a_gpu_of_unknown_size_has_no_frame_and_no_limit() -> None:
    """Its parts are the scale; an unknown term is a word below, and there is no whisker."""
    rank = replace(
        EIGHT, total_gib=None, available_gib=4.75,
        terms=(term("weights", 50.0, 49.0, 51.0), term("activation", None), term("kv_cache", 4.75), term("odd", 3.0)),
    )  # fmt: skip
    assert listed(plan_pictures.budgets([rank, replace(rank, rank=1)], 0.5)) == [
        (
            "0 0 440 135: Planned memory in GiB. GPUs 0-1, each · A100, memory unknown: weights 50.00 "
            "(49.00 to 51.00), activation peak unknown, KV cache 4.75"
        ),
        "rect 0,1 13x13 #2f6099", "12 at 18,12: weights", "rect 81,1 13x13 #6fc4b6", "12 at 99,12: KV cache",
        "13 at 0,44: GPUs 0-1, each · A100", "12 at 439,44 end: memory unknown",
        "rect 1,53 399.2x28 #2f6099: weights: 50.00 (49.00 to 51.00) GiB",
        "13 at 201,71.5 middle #fff: weights 50.0", "rect 401,53 37.2x28 #6fc4b6: KV cache: 4.75 GiB",
        "13 at 420,71.5 middle #111: 4.8", "12 at 0,99: activation peak: unknown",
        "line 1,113 439,113 1", "line 1,113 1,117 1", "11 at 1,130 faint: 0 GiB", "line 161,113 161,117 1",
        "11 at 161,130 middle faint: 20", "line 321,113 321,117 1", "11 at 321,130 middle faint: 40",
    ]  # fmt: skip


def test_the_scale_includes_the_upper_ends_of_the_terms() -> None:
    """109.5 GiB in 438 pixels; the GPU ends in the middle, and the excess is a number and a strip."""
    rank = replace(EIGHT, available_gib=None, fits=False, terms=(term("weights", 100.0, 90.0, 109.5),))

    assert without_hatches(listed(plan_pictures.budgets([rank], 0.5)))[3:-7] == [
        "rect 81,1 13x13 #cf222e", "12 at 99,12: beyond the limit",
        "13 at 0,44: GPU 0 · A100", "12 at 264,44 end: 54.75 GiB",
        "rect 1,53 399.2x28 #2f6099: weights: 100.00 (90.00 to 109.50) GiB",
        "13 at 201,71.5 middle #fff: weights 100.0", "rect 1,52 219x30 none currentColor 0.75",
        "rect 110.5,73 290.5x8 #cf222e: beyond the limit: 72.62 GiB",
        "line 110.5,48 110.5,86 2 currentColor",
        "path M361.0 85.0v8M361.0 89.0H439.0M439.0 85.0v8 none currentColor 1.6",
        "12 at 0,107: limit 27.38 (utilization 0.5) · before the KV cache 90.0 to 109.5",
        "12 at 0,123: 72.62 too much",
    ]  # fmt: skip
    full = listed(plan_pictures.budgets([alone(weights=27.375)], 0.5))
    assert "12 at 0,99: limit 27.38 (utilization 0.5)" in full
    beyond = listed(plan_pictures.budgets([alone(weights=27.375)], 2.0))
    assert "line 439,48 439,86 2 currentColor" in beyond


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [
        (10.0, 11.0, ("81.0", "89.0")), (10.0, 10.125, ("79.0", "84.0")), (0.0, 0.125, ("0.0", "4.0")),
        (54.625, 54.75, ("436.0", "440.0")), (10.0, 10.625, ("81.0", "86.0")), (10.0, 10.0, None), (None, 11.0, None),
        (10.0, None, None), (None, None, None),
    ],
)  # fmt: skip
def test_a_whisker_is_at_least_five_pixels_inside_the_frame(
    low: float | None, high: float | None, ends: tuple[str, str] | None
) -> None:
    """Around the middle of its range; one with two unknown ends is not drawn."""
    rank = replace(EIGHT, terms=(PlannedTerm("weights", low, 10.0, high, ""),))
    tracks = [line for line in listed(plan_pictures.budgets([rank], None)) if line.startswith("path")]

    wanted = [f"path M{ends[0]} 85.0v8M{ends[0]} 89.0H{ends[1]}M{ends[1]} 85.0v8 none currentColor 1.6"] if ends else []
    assert tracks == wanted


@pytest.mark.parametrize(
    ("name", "gib", "inside", "below"),
    [
        ("weights", 11.3, "11.3", None), ("weights", 11.4, "weights 11.4", None), ("kv_cache", 12.1, "12.1", None),
        ("kv_cache", 12.2, "KV cache 12.2", None), ("weights", 3.875, None, "weights 3.88"),
        ("weights", 4.0, "4.0", None), ("kv_cache", 3.875, None, "KV cache 3.88"), ("kv_cache", 4.0, "4.0", None),
        ("encoder", 40.0, None, "encoder profile 40.00"), ("kv_cache", 0.0, None, None),
    ],
)  # fmt: skip
def test_figures_are_placed_by_their_room(name: str, gib: float, inside: str | None, below: str | None) -> None:
    """Name and amount, else the amount, else a line below the bar; only of the two that readers look for."""
    others = {} if name == "weights" else {"weights": 0.25}
    said = listed(plan_pictures.budgets([alone(**others, **{name: gib})], None))

    assert [line.split(": ")[1] for line in said if " middle #" in line] == ([inside] if inside else [])
    (lines,) = [line.split(": ", 1)[1] for line in said if line.startswith("12 at 0,99")]
    assert lines == " · ".join(filter(None, ["weights 0.25" if others else "", below]))


def test_a_line_of_figures_has_sixty_eight_letters() -> None:
    """A longer one continues on the next line."""
    fits = listed(plan_pictures.budgets([alone(activation=0.75, encoder=10.0, non_torch=1.0)], None))
    more = listed(plan_pictures.budgets([alone(activation=10.0, encoder=10.0, non_torch=1.0)], None))
    whole = "activation peak 0.75 · encoder profile 10.00 · non-torch memory 1.00"

    assert len(whole) == 68
    assert [line for line in fits if line.startswith("12 at 0,")] == [f"12 at 0,99: {whole}"]
    assert [line for line in more if line.startswith("12 at 0,")] == [
        "12 at 0,99: activation peak 10.00 · encoder profile 10.00", "12 at 0,115: non-torch memory 1.00",
    ]  # fmt: skip
    assert fits[0].startswith("0 0 440 135:")
    assert more[0].startswith("0 0 440 151:")


@pytest.mark.parametrize(
    ("total", "last"),
    [(50.0, "11 at 439,130 end faint: 50"), (61.5, "11 at 428.3,130 end faint: 60"),
     (61.75, "11 at 426.6,130 middle faint: 60"), (20.25, "11 at 433.6,130 end faint: 20")],
)  # fmt: skip
def test_the_last_number_of_a_scale_stays_in_the_frame(total: float, last: str) -> None:
    """Within twelve pixels of the edge it is before its tick."""
    said = listed(plan_pictures.budgets([replace(alone(activation=1.0), total_gib=total)], None))

    assert said[-1] == last


def test_a_budget_has_a_maximum_of_rows_and_letters() -> None:
    """24 bars; a GPU's name is cut after its 46th letter."""
    ranks = [replace(alone(weights=1.0 + n), rank=n) for n in range(25)]
    said = listed(plan_pictures.budgets(ranks, None))

    assert [line.split(": ")[1] for line in said if " · A100" in line][1:] == [f"GPU {n} · A100" for n in range(24)]
    name = listed(plan_pictures.budgets([replace(alone(weights=1.0), gpu="g" * 60)], None))
    assert f"13 at 0,44: GPU 0 · {'g' * 38}" in name


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({}, 1), ({"rank": 1}, 1), ({"gpu": "H100"}, 2), ({"node": "n"}, 2), ({"total_gib": 54.5}, 2),
        ({"available_gib": 1.0}, 2), ({"fits": None}, 2), ({"terms": ()}, 2),
    ],
)  # fmt: skip
def test_grouped_gpus_differ_only_in_their_number(change: dict[str, Any], count: int) -> None:
    """Any other difference separates them, and so does a different GPU between them."""
    assert [len(group) for group in plan_pictures.cards([EIGHT, replace(EIGHT, **change)])] == [2 // count] * count
    three = plan_pictures.cards([EIGHT, BESIDE, EIGHT])
    assert [group[0].rank for group in three] == [0, 1, 0]
    assert plan_pictures.cards([]) == []


def test_gpus_with_equal_plans_have_one_name() -> None:
    """The first and the last of them, the kind and the host."""
    eight = [replace(EIGHT, rank=rank, node="n1") for rank in range(8)]

    assert plan_pictures.cards_name(eight) == "GPUs 0-7, each · A100 · n1"
    assert plan_pictures.cards_name(eight[3:4]) == "GPU 3 · A100 · n1"
    assert plan_pictures.cards_name([replace(EIGHT, gpu="")]) == "GPU 0"


@pytest.mark.parametrize(
    ("available", "limit", "beyond"),
    [(5.0, 8.0, 0), (5.015625, 8.0, 1), (5.0078125, 8.0, 0), (0.0, 2.0, 0), (None, 2.0, 0), (0.5, 2.0, 1),
     (5.0, None, 0)],
)  # fmt: skip
def test_graphs_lie_beyond_a_limit_that_the_parts_exceed(
    available: float | None, limit: float | None, beyond: int
) -> None:
    """By more than a hundredth of a GiB, and only where something is available for the KV cache."""
    terms = (
        term("x", 9.0),
        term("kv_cache", 5.0),
        term("cuda_graphs", 1.0),
        term("weights", 2.0),
        term("encoder", None),
    )
    before, cache, over = plan_pictures.stacked(replace(EIGHT, available_gib=available, terms=terms), limit)

    assert [t.name for t in before] == ["weights", "encoder", *["cuda_graphs"] * (1 - beyond)]
    assert cache == terms[1]
    assert [t.name for t in over] == ["cuda_graphs"] * beyond
    assert plan_pictures.stacked(replace(EIGHT, terms=()), 8.0) == ([], None, [])


@pytest.mark.parametrize(
    ("name", "fill", "track"),
    [
        ("weights", "#2f6099", None),
        ("activation", "#e8b04a", "M0.5 3.5L3.5 0.5M0.5 9.5L9.5 0.5M2.5 13.5L13.5 2.5M8.5 13.5L13.5 8.5 none #111 1.2"),
        ("encoder", "#7d55bd", "M13.5 3.5L10.5 0.5M13.5 9.5L4.5 0.5M11.5 13.5L0.5 2.5M5.5 13.5L0.5 8.5 none #fff 1.2"),
        (
            "non_torch", "#b5bcc4",
            (
                "M0.5 3.5L3.5 0.5M0.5 9.5L9.5 0.5M2.5 13.5L13.5 2.5M8.5 13.5L13.5 8.5"
                "M13.5 3.5L10.5 0.5M13.5 9.5L4.5 0.5M11.5 13.5L0.5 2.5M5.5 13.5L0.5 8.5 none #111 1.2"
            ),
        ),
        ("communication", "#56616d", "M3.5 0.5L3.5 13.5M9.5 0.5L9.5 13.5 none #fff 1.2"),
        ("cuda_graphs", "#c46a98", "M0.5 3.5L13.5 3.5M0.5 9.5L13.5 9.5 none #111 1.2"),
        ("kv_cache", "#6fc4b6", None),
    ],
)  # fmt: skip
def test_hatches_are_lines_at_six_pixels(name: str, fill: str, track: str | None) -> None:
    """Up, down, both, vertical or horizontal, each in its square of thirteen pixels."""
    swatch = memory_parts.swatch(name)

    assert listed(swatch) == [
        "0 0 14 14: None", f"rect 0.5,0.5 13x13 {fill}", *([f"path {track}"] if track else []),
    ]  # fmt: skip
    assert swatch.startswith('<svg width="14" height="14" ')
    assert swatch.count('opacity="0.5"') == (track is not None)


def test_hatches_follow_a_narrow_bar() -> None:
    """Each line ends at the bar's sides; a bar that is too narrow for one has none."""
    said = listed(plan_pictures.budgets([EIGHT], 0.5))
    activation = said.index("rect 93,73 7.2x28 #e8b04a: activation peak: 1.00 (0.50 to 2.00) GiB")

    assert said[activation + 1] == (
        "path M93.0 76.0L96.0 73.0M93.0 82.0L100.2 74.8M93.0 88.0L100.2 80.8M93.0 94.0L100.2 86.8"
        "M93.0 100.0L100.2 92.8M98.0 101.0L100.2 98.8 none #111 1.2"
    )
    thin = listed(plan_pictures.budgets([alone(communication=0.25), alone(communication=1.5)], None))
    bars = [n for n, line in enumerate(thin) if "x28 #56616d" in line]
    assert thin[bars[0] + 1] == "rect 1,52 438x30 none currentColor 0.75"
    assert thin[bars[1] + 1] == "path M4.0 136.0L4.0 164.0M10.0 136.0L10.0 164.0 none #fff 1.2"


def test_layouts_are_drawn_to_the_pixel() -> None:
    """The best of a column has 78 pixels, half of it half; layouts that do not fit do not count."""
    rows = [
        planned(Layout(1, 2, 1, 1), 10.0, 1000, 2.0),
        planned(Layout(1, 1, 2, 1), 5.0, None, 0.0, fits=None),
        planned(Layout(1, 1, 1, 2), 99.0, 9999, 99.0, fits=False),
    ]
    assert listed(plan_pictures.layouts(rows)) == [
        (
            "0 0 440 158: Layouts side by side. TP 2, recommended: KV cache, GiB per GPU 10.0, longest context 1,000, "
            "concurrent requests 2.0. PP 2: KV cache, GiB per GPU 5.0, longest context unknown, concurrent requests "
            "0.0. DP 2: does not fit"
        ),
        "12 at 0,12 faint: KV cache, GiB per GPU", "12 at 146.7,12 faint: longest context",
        "12 at 293.3,12 faint: concurrent requests",
        "13 at 0,34: TP 2, recommended", "rect 0,41 78x16 #3f7fc1: KV cache, GiB per GPU 10.0", "12 at 83,54: 10.0",
        "rect 146.7,41 78x16 #3f7fc1: longest context 1,000", "12 at 229.7,54: 1,000",
        "rect 293.3,41 78x16 #3f7fc1: concurrent requests 2.0", "12 at 376.3,54: 2.0",
        "13 at 0,80: PP 2", "rect 0,87 39x16 #3f7fc1 0.5: KV cache, GiB per GPU 5.0", "12 at 44,100: 5.0",
        "rect 146.7,87 0x16 #3f7fc1 0.5: longest context unknown", "12 at 146.7,100: unknown",
        "rect 293.3,87 0x16 #3f7fc1 0.5: concurrent requests 0.0", "12 at 293.3,100: 0.0",
        "13 at 0,126: DP 2", "12 at 0,146 faint: does not fit",
    ]  # fmt: skip
    many = [planned(Layout(1, n, 1, 1), 1.0, 1, 1.0) for n in range(2, 15)]
    said = listed(plan_pictures.layouts([LAID[5], *many]))
    assert [line.split(": ")[1] for line in said if line.startswith("13 at")] == [
        "TP 2, recommended", *(f"TP {n}" for n in range(3, 14))
    ]  # fmt: skip
    assert plan_pictures.layouts([]) == ""


def test_a_column_with_equal_values_is_left_out() -> None:
    """All fitting layouts have the same context here, which is no criterion."""
    rows = [planned(Layout(1, 2, 1, 1), 10.0, 1000, 2.0), planned(Layout(1, 1, 2, 1), 5.0, 1000, 3.0)]
    none = planned(Layout(1, 1, 1, 2), 1.0, 10, 0.0, fits=False)

    drawn = plan_pictures.layouts([*rows, none])
    assert "longest context" not in drawn
    assert "KV cache, GiB per GPU" in drawn
    assert "longest context" in plan_pictures.layouts(rows[:1])


@pytest.mark.parametrize(
    ("layout", "name", "is_copied"),
    [
        (None, "as requested", False), (Layout(1, 1, 1, 1), "1 GPU", False), (Layout(2, 1, 1, 1), "2 x 1 GPU", True),
        (Layout(1, 1, 1, 2), "DP 2", True), (Layout(1, 2, 3, 4), "DP 4 · TP 2 · PP 3", True),
        (Layout(1, 2, 2, 1), "TP 2 · PP 2", False),
    ],
)  # fmt: skip
def test_replicas_serve_their_requests_together(layout: Layout | None, name: str, is_copied: bool) -> None:  # noqa: FBT001
    """Several servers or several copies in one; a single one counts its own."""
    plan = planned(layout, 1.0, 1, 3.0, total_concurrency=7.0)

    assert plan_pictures.layout_name(plan) == name
    assert plan_pictures.is_copied(plan) is is_copied
    assert plan_pictures.requests_at_once(plan) == (7.0 if is_copied else 3.0)


def test_differences_are_drawn_to_the_pixel() -> None:
    """The farthest is 138 pixels from the middle: 100 a GiB. A band of no width has two; half a term has no row."""
    terms = (
        ComparedTerm("weights", 10.0, 9.75, 10.5, 11.38, ""), ComparedTerm("encoder", None, None, None, 1.0, ""),
        ComparedTerm("activation", 1.0, None, None, 1.0, ""), ComparedTerm("kv_cache", 9.0, 8.0, 10.0, None, ""),
        ComparedTerm("non_torch", 1.0, 0.5, None, 0.75, ""), ComparedTerm("odd", 1.0, None, 1.25, 0.5, ""),
    )  # fmt: skip
    assert listed(plan_pictures.differences(terms)) == [
        (
            "0 0 440 150: Printed less planned, in GiB. weights +1.38, outside the plan's band of -0.25 to +0.50. "
            "activation peak +0.00, within the plan's band of +0.00 to +0.00. non-torch memory -0.25, within the "
            "plan's band of -0.50 to +0.00. odd -0.50, outside the plan's band of +0.00 to +0.25"
        ),
        "12 at 244,13 end faint: less than planned", "12 at 256,13 faint: more", "line 250,4 250,150 1.2 currentColor",
        "rect 225,24 75x18 #8884: weights +1.38, outside the plan's band of -0.25 to +0.50",
        "path M388.0 26.0l6 7l-6 7l-6 -7z none #d05a4e 2", "13 at 0,37.5: weights", "12 at 439,37.5 end: +1.38",
        "rect 250,54 2x18 #8884: activation peak +0.00, within the plan's band of +0.00 to +0.00",
        "path M250.0 56.0l6 7l-6 7l-6 -7z #2f9c8f #2f9c8f 2", "13 at 0,67.5: activation peak",
        "12 at 439,67.5 end: +0.00",
        "rect 200,84 50x18 #8884: non-torch memory -0.25, within the plan's band of -0.50 to +0.00",
        "path M225.0 86.0l6 7l-6 7l-6 -7z #2f9c8f #2f9c8f 2", "13 at 0,97.5: non-torch memory",
        "12 at 439,97.5 end: -0.25",
        "rect 250,114 25x18 #8884: odd -0.50, outside the plan's band of +0.00 to +0.25",
        "path M200.0 116.0l6 7l-6 7l-6 -7z none #d05a4e 2", "13 at 0,127.5: odd", "12 at 439,127.5 end: -0.50",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("actual", "said"),
    [(10.504, "within"), (10.506, "outside"), (9.496, "within"), (9.494, "outside"), (10.5, "within"), (9.5, "within")],
)
def test_a_range_ends_half_a_hundredth_beyond_its_figures(actual: float, said: str) -> None:
    """A value that rounds to the same hundredth is inside."""
    svg = plan_pictures.differences([ComparedTerm("weights", 10.0, 9.5, 10.5, actual, "")])

    assert f", {said} the plan&#x27;s band of -0.50 to +0.50" in svg


def test_a_server_is_drawn_over_time(four: list[ServerRun]) -> None:
    """Rates, requests and KV cache use by the printed time; of very many lines, the means of consecutive ones."""
    samples = tuple(
        Throughput(n, 10.0, float(n), n % 5, 0, 50.0, f"12-31 {23 if n < 3600 else 0:02}:{n // 60 % 60:02}:{n % 60:02}")
        for n in range(7200)
    )
    samples = tuple(replace(s, time=(s.time or "").replace("12-31 00", "01-01 00")) for s in samples)
    run = replace(four[0], throughput=samples)
    drawn = render.starts.served([run])

    assert re.findall(r"<title>(.*?)</title>", drawn.html) == [
        "Tokens per second over time",
        "Requests and KV cache usage over time",
    ]
    [_, generated, running, *_] = re.findall(r'<path d="M(.*?)"', drawn.html)
    places = [tuple(map(float, point.split())) for point in generated.split("L")]
    assert len(places) == 240
    assert (places[0][0], places[-1][0]) == (44.0, 676.0)
    assert all(a < b and up > down for (a, up), (b, down) in pairwise(places))
    assert len(set(re.findall(r" ([\d.]+)", running))) <= 2
    assert drawn.html.count(">12-31 23:00:00</text>") == drawn.html.count(">01-01 00:59:59</text>") == 2


def test_incidents_are_drawn_per_minute(four: list[ServerRun]) -> None:
    """Over the time of the statistics and of errors after them; a kind that did not occur has no line."""
    samples = tuple(Throughput(n, 0.0, 1.0, 1, 0, None, f"11-20 09:{n:02}:07") for n in range(3))
    minutes = (MinuteCounts("11-20 08:59", 0, 1, 0), MinuteCounts("11-20 09:04", 0, 2, 3))
    drawn = render.starts.served([replace(four[0], throughput=samples, minutes=minutes)])

    assert re.findall(r"<title>(.*?)</title>", drawn.html)[2:] == ["Preemptions and errors per minute"]
    errors, failed = re.findall(r'<path d="M(.*?)"', drawn.html)[-2:]
    assert [float(point.split()[0]) for point in errors.split("L")] == [44.0, 202.0, 360.0, 518.0, 676.0]
    heights = [[float(point.split()[1]) for point in track.split("L")] for track in (errors, failed)]
    zero, top = heights[0][1], heights[1][-1]
    assert heights[1] == [zero] * 4 + [top]
    assert [round((zero - y) / (zero - top) * 3, 1) for y in heights[0]] == [1, 0, 0, 0, 2]
    assert drawn.html.endswith(">11-20 09:04:00</text></svg>")
    assert drawn.plain.startswith("11-20 09:00:07 to 11-20 09:02:07: lines 0 to 2")


def test_a_server_without_statistics_is_drawn_by_its_incidents(four: list[ServerRun]) -> None:
    """If they are at least three minutes apart in all."""
    later = (MinuteCounts("12-31 23:59", 4, 0, 0), MinuteCounts("01-01 00:01", 1, 0, 0))
    assert "Preemptions" in render.starts.served([replace(four[0], throughput=(), minutes=later)]).html
    assert render.starts.served([replace(four[0], throughput=(), minutes=later[:1])]).is_nothing


def test_statistics_without_times_are_not_drawn(four: list[ServerRun]) -> None:
    """Two points are no course either."""
    timed = [Throughput(n, 0.0, 1.0, 1, 0, None, f"11-20 09:00:0{n}") for n in range(3)]
    for samples in (timed[:2], [replace(sample, time=None) for sample in timed], []):
        assert render.starts.served([replace(four[0], throughput=tuple(samples))]).is_nothing
    assert not render.starts.served([replace(four[0], throughput=tuple(timed))]).is_nothing
    assert render.starts.served([]).is_nothing
