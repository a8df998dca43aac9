"""Pictures show what was printed, stay inside their frame, and hold no markup of a log."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import pytest

from vllm_runbooks import catalog, display, markup, render, session
from vllm_runbooks.plan_records import Calibration, Layout, Plan, PlannedCache, PlannedRank, PlannedTerm
from vllm_runbooks.records import Answer, CommandRelease, ComparedTerm, Evidence, Facts, Phase, Quote, Start, Throughput
from vllm_runbooks.render import drawing, plan_pictures, start_pictures

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
        start_pictures.timelines(starts),
        start_pictures.memories(starts, totals),
        start_pictures.memories(starts, [None for _ in starts]),
        start_pictures.throughputs(starts),
        start_pictures.free_memory(41.2, 41.6, 79.25, {HOSTILE: 53.5, "b": 59.4, "c": 71.3}),
        start_pictures.free_memory(41.2, 41.6, None, {}),
        start_pictures.free_memory(41.6, 41.2, 79.25, {"more than the GPU": 99.0}),
        start_pictures.free_memory(0.0, 0.0, None, {}),
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
    svg = start_pictures.timelines(four)
    rows: dict[str, float] = {}
    for x, y, wide in re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="22', svg):
        rows[y] = max(rows.get(y, 0.0), float(x) + float(wide) - 150)
    lengths = list(rows.values())

    assert [re.search(rf">{seconds} s</text>", svg) is not None for seconds in (121, 60, 84, 379)] == [True] * 4
    assert [round(379 * length / max(lengths)) for length in lengths] == pytest.approx([121, 60, 84, 379], abs=2)


def test_the_budget_is_marked_where_the_gpu_is_known(four: list[Start]) -> None:
    """Utilisation times the GPU's memory; without the GPU there is no mark and nothing that is left over."""
    assert start_pictures.memories(four, [79.25] * 4).count('stroke="currentColor"') == 4
    assert "everything else" in start_pictures.memories(four, [79.25] * 4)
    unknown = start_pictures.memories(four, [None] * 4)
    assert 'currentColor" stroke-width' not in unknown
    assert "everything else" not in unknown


def test_hollow_points_were_not_busy_throughout(four: list[Start]) -> None:
    """A start of two busy lines with an idle end has no filled point; one of long requests has nearly all filled."""
    filled = [start_pictures.throughputs([start]).count('<path d="M') for start in four]
    hollow = [len(re.findall(r'a4 4[^"]*" fill="none"', start_pictures.throughputs([start]))) for start in four]

    assert [count - 1 for count in filled] == [3, 24, 3, 6]
    assert hollow == [3, 1, 3, 3]


def test_what_is_not_there_is_not_drawn(four: list[Start]) -> None:
    """An empty text, and in the runbook a sentence."""
    bare = replace(four[0], facts=Facts(), timeline=(), throughput=())
    idle = replace(bare, throughput=(Throughput(1, 0.0, 0.0, 0, 0, None),))

    assert [
        start_pictures.timelines([bare]),
        start_pictures.memories([bare], [24.0]),
        start_pictures.throughputs([idle]),
    ] == [""] * 3
    assert render.starts.timelines([bare]).plain == "The text shows no phases with their times."
    assert render.starts.memories([bare]).plain.startswith("The text holds none of vLLM's memory figures")
    assert render.starts.throughputs([]).plain == "The text holds no periodic line with a throughput."
    assert (
        render.starts.side_by_side([]).plain == render.starts.comparable([]).plain == "The text holds no start of vLLM."
    )
    assert render.starts.settings([bare]).plain == "There is nothing to compare."
    assert render.starts.settings([bare, bare]).plain == "The starts do not differ in any printed setting."


def test_many_starts_are_cut_to_what_a_screen_holds(four: list[Start]) -> None:
    """A supervisor leaves hundreds of starts in a file; the tables have them all."""
    assert start_pictures.timelines(four * 100).count(">1 gpt") + len(start_pictures.timelines(four * 100)) < 60_000
    assert start_pictures.timelines(four * 100).count('opacity="0.72">eager') <= drawing.MAX_ROWS
    assert start_pictures.throughputs(four * 100).count('stroke-width="2" />') == 6


@pytest.mark.parametrize(
    ("model", "shown"),
    [("google/gemma-4-26B-A4B", "3 gemma-4-26B-A4B"), ("/models/tiny/", "3 tiny"), (None, "3"), ("x" * 60, None)],
)
def test_a_start_is_called_by_its_models_own_name(four: list[Start], model: str | None, shown: str | None) -> None:
    """The last part of it, short enough for the room beside a bar."""
    called = start_pictures.label(replace(four[0], facts=Facts(model=model)), 3)

    assert called == shown or (len(called) == 21 and called.endswith("…"))


def test_a_start_that_tells_nothing_of_itself_is_called_by_its_number(four: list[Start]) -> None:
    """One line beside its bar, and no budget that is not printed."""
    bare = replace(four[0], facts=Facts(weights_gib=13.72), arguments={})
    svg = start_pictures.memories([bare], [24.0])

    assert start_pictures.distinction(bare) == ""
    assert ">1</text>" in svg
    assert 'stroke="currentColor"' not in svg


def test_starts_of_one_model_are_told_apart(four: list[Start]) -> None:
    """By quantisation, eager mode and budget."""
    assert [start_pictures.distinction(start) for start in four] == [
        "mxfp4 · util 0.65", "eager · util 0.9", "fp8 · util 0.65", "util 0.95",
    ]  # fmt: skip
    assert len(start_pictures.distinction(hostile(four[0]))) == 24


def test_tables_say_what_the_pictures_show(four: list[Start]) -> None:
    """Every figure of the pictures stands beside them in numbers, and what is unknown stays empty."""
    evidence = session.load("gpt-oss-gemma-a100-four-starts")

    assert "load the weights              68 s               11 s" in render.starts.timelines(four).plain
    assert (
        "3 gemma-4-26B-A4B    25.70     24.45         0.95   51.51         1.36  79.25"
        in render.starts.memories(four, evidence).plain
    )
    assert "The GPU's memory is not in this log" in render.starts.memories(four).plain
    assert "79.25" not in render.starts.memories(four, gpu_gib=96.0).plain
    assert (
        "2 gemma-4-26B-A4B              24               23  17.3 to 18.8       18.8"
        in render.starts.throughputs(four).plain
    )
    assert "KV cache                798,624 tokens" in render.starts.side_by_side(four).plain
    settings = render.starts.settings(four).plain
    assert "enforce_eager" in settings
    assert "model_tag" not in settings
    assert "/home/vllm/e…te_gemma4.jinja" in settings
    assert "unknown" in render.starts.throughputs([four[0]]).plain
    partly = replace(four[0], facts=replace(four[0].facts, weights_gib=None))
    assert (
        "1 gpt-oss-20b              36.56         0.69   51.51               79.25"
        in render.starts.memories([partly], evidence).plain
    )
    assert "  3  " in render.starts.throughputs([four[0], replace(four[1], throughput=())]).plain


def raced(evidence: Evidence, old: str = "", new: str = "") -> Answer:
    text = evidence.documents[0].text.replace(old, new) if old else evidence.documents[0].text
    return session.diagnose(session.paste(text))


def test_the_race_is_shown_with_the_logs_own_numbers(race: Evidence) -> None:
    """Free before and after, what was freed, and the budgets where the case or the caller knows the GPU."""
    shown = render.starts.free_memory(raced(race), race)

    assert "freed meanwhile              +0.45" in shown.plain
    assert "budget at utilisation 0.675  53.49" in shown.plain
    assert ">+0.45 GiB</text>" in shown.html
    assert shown.html.count('stroke="currentColor"') == 3
    alone = render.starts.free_memory(raced(race))
    assert "no budget can be drawn" in alone.plain
    assert "GPU      " not in alone.plain
    given = render.starts.free_memory(raced(race), gpu_gib=48.0, utilizations=(0.5,))
    assert "budget at utilisation 0.5  24.00" in given.plain


def test_other_failures_have_no_race_to_show(race: Evidence) -> None:
    """Older wordings, other causes and healthy starts: a sentence instead of a picture."""
    said = "The text does not state the free memory before and after profiling."

    assert render.starts.free_memory(raced(race, "Initial free memory", "Once")).plain == said
    assert render.starts.free_memory(session.diagnose(session.load("tiny-cpu-served"))).plain == said


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


def term(name: str, expected: float | None, low: float | None = None, high: float | None = None) -> PlannedTerm:
    return PlannedTerm(name, expected if low is None else low, expected, expected if high is None else high, "measured")


# gpt-oss-20b on an A100 with 0.19.0, which does not subtract the CUDA graphs, at utilisation 0.65.
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
# GLM-4.1V-9B on 23.56 GiB: profiling a video takes more than there is.
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
    """Every picture of a plan, of what fits, what does not and what is not known."""
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
    """Bars, hatches, whiskers and texts, of whatever does not fit on its card; half a pixel is a rounding."""
    svg = plans()[number]
    width, height = (float(v) for v in re.findall(r'viewBox="0 0 (\d+) (\d+)"', svg)[0])

    assert width == plan_pictures.NARROW
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
def test_pictures_of_plans_pass_the_sites_cleaning(number: int) -> None:
    """They hold only what pages let through, so that nothing of them is lost there."""
    svg = plans()[number]
    root = ET.fromstring(svg)  # noqa: S314 - our own text, of a known size

    for element in root.iter():
        assert element.tag in ALLOWED
        assert set(element.attrib) <= ALLOWED[element.tag], element.tag
    kept = markup.clean_html(svg)
    for attribute in (" x=", " fill=", " d=", " x1=", " opacity=", " viewBox=", " text-anchor=", "max-width"):
        assert kept.count(attribute) == svg.count(attribute), attribute


def test_names_in_pictures_of_plans_are_no_markup() -> None:
    """Cards, settings and terms are called as the user calls them."""
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
    """The weights take 13.72 of 79.25 GiB of the bar, the KV cache 36.56, and the limit stands at 0.65 of it."""
    svg = plans()[0]
    whole = plan_pictures.NARROW - 2

    assert widths(svg)["weights"] == pytest.approx(whole * 13.72 / 79.25, abs=1)
    assert widths(svg)["KV cache"] == pytest.approx(whole * 36.56 / 79.25, abs=1)
    (outline,) = re.findall(r'width="([\d.]+)" height="30.0" fill="none"', svg)
    assert float(outline) == pytest.approx(whole)
    (limit,) = re.findall(r'<line x1="([\d.]+)"[^>]*stroke="currentColor"', svg)
    assert float(limit) == pytest.approx(1 + whole * 0.65, abs=0.1)
    assert "limit 51.51 (utilisation 0.65)" in svg
    assert "KV cache 36.6</text>" in svg
    assert "activation peak 0.77" in svg


def test_uncertainty_is_a_whisker_before_the_kv_cache() -> None:
    """From the least to the most that the other terms take; none where a term is unknown or all are exact."""
    (ends,) = re.findall(r'd="M([\d.]+) [\d.]+v8M[\d.]+ [\d.]+H([\d.]+)M', plans()[0])
    scale = (plan_pictures.NARROW - 2) / 79.25

    assert [float(end) for end in ends] == pytest.approx([1 + 14.62 * scale, 1 + 15.11 * scale], abs=2.5)
    assert "before the KV cache 14.6 to 15.1" in plans()[0]
    assert "before the KV cache" not in plan_pictures.budgets([FIRST], 0.5)
    assert "before the KV cache" not in plan_pictures.budgets([UNKNOWN], 0.9)


def test_cuda_graphs_stand_where_the_release_takes_them() -> None:
    """Behind the limit where they are not subtracted from the budget, else before the KV cache."""
    later = replace(GPT_OSS, available_gib=35.87)

    assert [term.name for term in plan_pictures.stacked(GPT_OSS, 51.51)[2]] == ["cuda_graphs"]
    assert plan_pictures.stacked(later, 51.51)[2] == []
    assert plan_pictures.stacked(GPT_OSS, None)[2] == []
    assert "on top: CUDA graphs 0.69" in plan_pictures.budgets([GPT_OSS], 0.65)
    assert "on top" not in plan_pictures.budgets([later], 0.65)


def test_what_does_not_fit_goes_beyond_its_card() -> None:
    """By how much is said, and what is unknown stands in words instead of a bar."""
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


def test_equal_cards_are_one_bar() -> None:
    """Eight cards that are planned alike need one; two that differ need two."""
    eight = [replace(GPT_OSS, rank=rank) for rank in range(8)]

    assert plan_pictures.budgets(eight, 0.65).count('height="30.0" fill="none"') == 1
    assert ">cards 0 to 7, each · A100-80GB</text>" in plan_pictures.budgets(eight, 0.65)
    assert plan_pictures.budgets([FIRST, SECOND], 0.5).count('height="30.0" fill="none"') == 2


def luminance(colour: str) -> float:
    """Of sRGB, from 0 to 1."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    return sum(
        share * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
        for share, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True)
    )


def contrast(one: str, other: str) -> float:
    """As the guidelines for accessible pages reckon it: 1 is none."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_terms_are_told_apart_without_colour() -> None:
    """In grey each has a lightness or a hatch of its own, and figures stand out from the bars that they stand on."""
    looks = {}
    for name in plan_pictures.DRAWN_TERMS:
        swatch = plan_pictures.term_swatch(name)
        (fill,) = re.findall(r'fill="(#\w{6})"', swatch)
        looks[name] = (fill, re.findall(r' d="([^"]*)"', swatch))

    for (one, (fill, hatch)), (other, (next_fill, next_hatch)) in combinations(looks.items(), 2):
        assert hatch != next_hatch or contrast(fill, next_fill) >= 1.2, (one, other)
    for (fill, _), (next_fill, _) in pairwise(looks.values()):
        assert contrast(fill, next_fill) >= 1.2
    assert contrast(looks["weights"][0], "#ffffff") >= 4.5
    assert contrast(looks["kv_cache"][0], "#111111") >= 4.5


def test_layouts_are_compared_column_by_column() -> None:
    """The best of each column is solid, what does not fit is said, and what is not legal has no row."""
    svg = plan_pictures.layouts(LAID)

    for name in ("4 x TP 2", "TP 8", "2 x TP 2 · PP 2", "DP 8", "8 x 1 card", "as asked"):
        assert f">{name}</text>" in svg
    assert ">TP 3</text>" not in svg
    assert re.findall(r'fill="#3f7fc1"><title>([^<]*)<', svg) == [
        "KV cache, GiB a card 17.9", "longest context 262,144", "requests at once 13.6",
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
