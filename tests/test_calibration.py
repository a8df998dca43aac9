"""What recorded starts printed corrects plans: the shipped rows, rows of the user's own, and files that are refused."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vllm_runbooks import session
from vllm_runbooks.answer import answer
from vllm_runbooks.errors import InputError
from vllm_runbooks.planning import actual, calibration
from vllm_runbooks.planning.budget import Budget, Calibrate, subject
from vllm_runbooks.planning.terms import GIB, Band, Term
from vllm_runbooks.records import Residual

A100 = "A100-80GB-PCIe"
GPT_OSS: dict[str, Any] = {"max_model_len": 131072, "gpu_memory_utilization": 0.65}
GEMMA: dict[str, Any] = {"max_model_len": 131072, "enforce_eager": True}


def rows_of_cases() -> tuple[Residual, ...]:
    """What the recorded cases give, each start with the cards that the catalog's file names for it."""
    named = {one.case: one.gpus for one in calibration.shipped().cards}
    rows: list[Residual] = []
    for path in sorted((Path(__file__).parents[1] / "catalog" / "cases").glob("*/startup.log")):
        evidence = session.load(path.parent.name)
        cards = session.specs().gpus(named[path.parent.name]) if path.parent.name in named else ()
        for number, start in enumerate(session.read(evidence), 1):
            if start.facts.weights_gib is None:
                continue
            found = answer(
                evidence, session.load_catalog(()), session.knowledge, start=number, cards=cards, specs=session.specs
            )
            rows += found.plan.residuals if found.plan is not None else ()
    return tuple(rows)


def budget(model: str, calibrate: Calibrate | None = None, **options: object) -> Budget:
    """The budget of a start of 0.19.0 on an A100."""
    file = session.specs().file(model)
    card = session.specs().gpus(A100)[0]
    device = actual.device_of(card, None)
    assert device is not None
    place = actual.Place("0.19.0", (device,), card.gpu)
    return place.budget(subject(file.id, file.config, is_partial=file.is_partial), options, calibrate)


def row(term: str, planned: float, printed: float, **more: object) -> Residual:
    whole = Residual("0.19.0", A100, "Gemma4ForConditionalGeneration", term, planned, printed, "a log")
    return replace(whole, **more)  # type: ignore[arg-type] # fields by name


def band(terms: tuple[Term, ...], name: str) -> Band:
    found = next(term.band for term in terms if term.name == name)
    assert found is not None
    return found


def test_the_shipped_rows_are_those_of_the_recorded_cases() -> None:
    """The catalog's file is what the cases give today; `python tests/test_calibration.py` writes it anew."""
    shipped = calibration.shipped()

    assert calibration.written(rows_of_cases(), shipped.cards) == calibration.written(shipped.rows, shipped.cards)


def test_a_corrected_plan_is_what_the_recorded_start_printed() -> None:
    """gpt-oss-20b on an A100, 0.19.0: 13.72 GiB of weights and 36.56 of cache; uncorrected there is 0.1 more of it."""
    plain = budget("openai/gpt-oss-20b", **GPT_OSS)
    corrected = budget("openai/gpt-oss-20b", calibration.load(), **GPT_OSS)

    assert plain.available is not None
    assert plain.calibrated == ()
    assert plain.available[1][0] / GIB == pytest.approx(36.66, abs=0.01)
    assert corrected.available is not None
    assert corrected.available[1][0] / GIB == pytest.approx(36.56, abs=0.005)
    assert band(corrected.ranks[0].terms, "weights").expected / GIB == pytest.approx(13.72, abs=0.001)
    assert any("case gpt-oss-gemma-a100-four-starts, start in line 1 " in said for said in corrected.calibrated)
    assert any(said in term.source for said in corrected.calibrated for term in corrected.ranks[0].terms)


def test_starts_correct_each_other() -> None:
    """Three starts of one model class, each planned with the rows of the other two: together they come nearer."""
    rows = [
        one
        for one in calibration.shipped().rows
        if one.architecture == "Gemma4ForConditionalGeneration" and one.term == "beside_weights"
    ]
    before = after = 0.0
    for one in rows:
        terms = (Term("non_torch", Band(0, round(one.planned_gib * GIB), 3 * GIB), "x"),)
        others = [other for other in rows if other is not one]
        corrected, _ = calibration.apply(terms, {"beside_weights": others})
        before += abs(one.planned_gib - one.actual_gib)
        after += abs(band(corrected, "non_torch").expected / GIB - one.actual_gib)

    assert len(rows) == 3
    assert after < before


@pytest.mark.parametrize(
    ("differences", "wanted"),
    [
        ([0.5], (0.5, 1.5, 3.5)),
        ([-0.5, 0.5], (0.0, 1.0, 3.0)),
        ([-3.0, 1.0, 0.0], (0.0, 1.0, 2.0)),
        ([0.1, 0.1, 0.2], (0.6, 1.1, 2.1)),
        ([0.0, 0.0, 5.0], (0.5, 1.0, 6.0)),
        ([-4.0], (0.0, 0.0, 2.0)),
    ],
    ids=["one keeps the width", "two keep it", "scatter below", "three halve it", "scatter above", "never below zero"],
)
def test_a_band_is_shifted_by_the_median_and_never_narrower_than_the_scatter(
    differences: list[float], wanted: tuple[float, ...]
) -> None:
    """A band of 0, 1 and 3 GiB, and differences of what starts printed."""
    shifted = calibration.shifted(Band(0, GIB, 3 * GIB), [size * GIB for size in differences])

    assert [side / GIB for side in shifted] == pytest.approx(wanted, abs=1e-6)


def test_what_was_printed_as_one_figure_is_a_share_of_all_it_holds() -> None:
    """A peak a tenth above the planned 1 GiB adds a tenth of activation and encoder together."""
    terms = (Term("activation", Band(GIB, GIB, GIB), "x"), Term("encoder", Band(2 * GIB, 2 * GIB, 2 * GIB), "x"))
    corrected, said = calibration.apply(terms, {"activation": [row("activation", 1.0, 1.1)]})

    assert band(corrected, "activation").expected == pytest.approx(1.3 * GIB)
    assert corrected[1] == terms[1]
    assert said == ("activation +0.300 GiB, the median of one start: a log (vLLM 0.19.0, A100-80GB-PCIe)",)


@pytest.mark.parametrize(
    ("kept", "shift"),
    [
        (row("non_torch", 0.2, 0.5), 0.3),
        (row("non_torch", 0.2, 0.5, release="0.19.1"), 0.3),
        (row("non_torch", 0.2, 0.5, release="0.18.1"), 0.3),
        (row("non_torch", 0.2, 0.5, architecture="Another"), 0.3),
        (row("non_torch", 0.2, 0.5, gpu="NVIDIA A100 80GB PCIe"), 0.3),
        (row("non_torch", 0.2, 0.5, gpu=None), 0.0),
        (row("non_torch", 0.2, 0.5, gpu="H100-80GB-SXM"), 0.0),
        (row("non_torch", 0.2, 0.5, release="0.17.1"), 0.0),
        (row("non_torch", 0.2, 0.5, release="0.20.2"), 0.0),
        (row("non_torch", 0.2, 0.5, tensor_parallel_size=2), 0.0),
        (row("beside_weights", 1.0, 1.3), 0.3),
        (row("beside_weights", 1.0, 1.3, release="0.18.1"), 0.3),
        (row("beside_weights", 1.0, 1.3, architecture="Another"), 0.0),
        (row("beside_weights", 1.0, 1.3, gpu="H100-80GB-SXM"), 0.0),
    ],
)
def test_a_row_corrects_what_it_tells_of(kept: Residual, shift: float) -> None:
    """Of another era, card, model class or number of ranks it says nothing."""
    plain = budget("google/gemma-4-26B-A4B", **GEMMA)
    corrected = budget("google/gemma-4-26B-A4B", calibration.calibrator([kept]), **GEMMA)

    wanted = band(plain.ranks[0].terms, "non_torch").expected + shift * GIB
    assert band(corrected.ranks[0].terms, "non_torch").expected == pytest.approx(wanted, abs=2)
    assert bool(corrected.calibrated) == bool(shift)


def test_more_telling_rows_go_first() -> None:
    """The user's own before the catalog's, the same release before its era, a part's own row before that of a sum."""

    def shift(*rows: Residual, own: tuple[Residual, ...] = ()) -> float:
        made = budget("google/gemma-4-26B-A4B", calibration.calibrator(rows, own), **GEMMA)
        return (band(made.ranks[0].terms, "non_torch").expected - plain) / GIB

    plain = band(budget("google/gemma-4-26B-A4B", **GEMMA).ranks[0].terms, "non_torch").expected
    near, far = row("non_torch", 0.2, 0.3), row("non_torch", 0.2, 0.6, release="0.18.1")
    together = row("beside_weights", 1.0, 1.9)

    assert shift(near, far, together) == pytest.approx(0.1, abs=1e-6)
    assert shift(near, own=(row("non_torch", 0.2, 0.7),)) == pytest.approx(0.5, abs=1e-6)
    assert shift(near, own=(far,)) == pytest.approx(0.1, abs=1e-6)


def test_weights_are_corrected_by_rows_of_the_same_checkpoint_alone() -> None:
    """A row 1 % off shifts them, one 40 % off is of another quantisation and is not used."""
    plain = budget("google/gemma-4-26B-A4B", **GEMMA)
    weights = band(plain.ranks[0].terms, "weights").expected
    found = []
    for printed in (10.1, 14.0):
        calibrate = calibration.calibrator([row("weights", 10.0, printed)])
        made = budget("google/gemma-4-26B-A4B", calibrate, **GEMMA)
        found.append(band(made.ranks[0].terms, "weights").expected / weights)

    assert found == [pytest.approx(1.01, abs=1e-6), 1.0]


def test_an_older_engine_s_row_says_nothing_of_the_newer_one() -> None:
    """0.8.5 runs either; rows of it are of the newer one."""
    rows = [row("non_torch", 0.2, 0.9, release="0.8.5", architecture="Qwen2ForCausalLM", gpu="RTX3090")]
    found = []
    for is_newer in ("0", "1"):
        file, card = session.specs().file("Qwen/Qwen2.5-1.5B-Instruct"), session.specs().gpus("RTX3090")[0]
        device = actual.device_of(card, None)
        assert device is not None
        place = actual.Place("0.8.5", (device,), card.gpu, {"VLLM_USE_V1": is_newer})
        made = place.budget(subject(file.id, file.config), {"max_model_len": 4096}, calibration.calibrator(rows))
        found.append((made.settings.is_v0, bool(made.calibrated)))

    assert found == [(True, False), (False, True)]


def test_a_file_says_again_what_was_written() -> None:
    """As JSON, and as YAML, which people write by hand."""
    rows = (row("activation", 1.25, 1.5), row("non_torch", 0.25, -0.125, gpu=None, tensor_parallel_size=4))
    by_hand = """
rows:
  - {release: '0.19.0', gpu: A100-80GB-PCIe, architecture: Gemma4ForConditionalGeneration, term: activation,
     planned_gib: 1.25, actual_gib: 1.5, source: a log}
  - release: 0.19.0
    gpu: null
    architecture: Gemma4ForConditionalGeneration
    term: non_torch
    planned_gib: 0.25
    actual_gib: -0.125
    source: "a log"
    tensor_parallel_size: 4
"""

    assert calibration.read(calibration.written(rows), "mine.json") == rows
    assert calibration.read(by_hand, "mine.yaml") == rows
    assert calibration.read(calibration.written(()), "mine.json") == ()


GOOD = {"release": "0.19.0", "term": "non_torch", "planned_gib": 0.2, "actual_gib": 0.3, "source": "a log"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no mapping"),
        ("[1, 2]", "holds no mapping"),
        ("{}", "holds no list `rows`"),
        ('{"rows": 3}', "holds no list `rows`"),
        ("rows: [1, 2", "line 1: is neither JSON nor YAML"),
        ('{"rows": [1]}', "row 1: is no mapping"),
        ({"release": "newest"}, "row 1: release 'newest' is no version"),
        ({"release": None}, "row 1: release '' is no version"),
        ({"term": "kv_cache"}, "row 1: term 'kv_cache' is none of weights, "),
        ({"planned_gib": "0.2"}, "row 1: planned_gib is no number of GiB"),
        ({"actual_gib": True}, "row 1: actual_gib is no number of GiB"),
        ({"actual_gib": 1e12}, "row 1: actual_gib is no number of GiB"),
        ({"source": ""}, "row 1: source is empty"),
        ({"tensor_parallel_size": 0}, "row 1: tensor_parallel_size is no number of ranks"),
        ({"gpu": ["A100"]}, "row 1: gpu is no name"),
        ({"colour": "red"}, "row 1: 'colour' is no field"),
        ('{"rows": [{"planned_gib": NaN}]}', "row 1: release '' is no version"),
        ("[" * 100_000, "is neither JSON nor YAML"),
    ],
)
def test_a_broken_file_is_refused_in_one_line(text: str | dict[str, object], said: str) -> None:
    """It says where, and what is wrong; nothing of it is used."""
    whole = text if isinstance(text, str) else json.dumps({"rows": [{**GOOD, **text}]})
    with pytest.raises(InputError) as refused:
        calibration.read(whole, "mine.yaml")

    assert str(refused.value).startswith("mine.yaml: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """No such file, a folder, bytes that are no text."""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for name in ("none", ".", "bytes"):
        with pytest.raises(InputError, match=str(tmp_path)):
            calibration.load(tmp_path / name)


def test_the_users_file_corrects_before_the_catalogs(tmp_path: Path) -> None:
    """What one's own start printed of the same model on the same card counts more than a recorded start."""
    own = tmp_path / "own.json"
    kept = row("beside_weights", 1.0, 1.5, architecture="GptOssForCausalLM", source="my start")
    own.write_text(calibration.written([kept]), encoding="utf-8")
    plain = budget("openai/gpt-oss-20b", **GPT_OSS)
    made = budget("openai/gpt-oss-20b", calibration.load(own), **GPT_OSS)

    shift = band(made.ranks[0].terms, "non_torch").expected - band(plain.ranks[0].terms, "non_torch").expected
    assert shift / GIB == pytest.approx(0.5, abs=1e-6)
    assert any("my start" in said for said in made.calibrated)


def test_stages_and_replicas_are_left_as_they_are() -> None:
    """No row tells of a pipeline stage."""
    rows = [row("non_torch", 0.2, 0.5)]
    made = budget("google/gemma-4-26B-A4B", calibration.calibrator(rows), pipeline_parallel_size=2)

    assert made.calibrated == ()


if __name__ == "__main__":
    shipped = calibration.shipped()
    new = calibration.written(rows_of_cases(), shipped.cards)
    sys.stdout.write(new)
    (Path(__file__).parents[1] / "catalog" / calibration.FILE).write_text(new, encoding="utf-8")
