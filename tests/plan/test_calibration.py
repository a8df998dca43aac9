"""Recorded launches correct plans: the shipped rows, a user's rows, and rejected files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibration_rows import rows_of_cases
from rows import in_one_test
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Residual
from vllm_runbooks.plan import actual, calibration
from vllm_runbooks.plan.budget import Budget, Calibrate, subject
from vllm_runbooks.plan.terms import GIB, Band, Term

A100 = "A100-80GB-PCIe"
GPT_OSS: dict[str, Any] = {"max_model_len": 131072, "gpu_memory_utilization": 0.65}
GEMMA: dict[str, Any] = {"max_model_len": 131072, "enforce_eager": True}


def budget(model: str, calibrate: Calibrate | None = None, **options: object) -> Budget:
    """The budget of a 0.19.0 launch on an A100."""
    file = catalog.specs().file(model)
    card = catalog.specs().gpus(A100)[0]
    device = actual.device_of(card, None)
    assert device is not None
    place = actual.LaunchPlace("0.19.0", (device,), card.gpu)
    return place.budget(subject(file.id, file.config, is_partial=file.is_partial), options, calibrate)


def row(term: str, planned: float, printed: float, **more: object) -> Residual:
    whole = Residual("0.19.0", A100, "Gemma4ForConditionalGeneration", term, planned, printed, "a log")
    return replace(whole, **more)  # type: ignore[arg-type] # fields by name


def band(terms: tuple[Term, ...], name: str) -> Band:
    found = next(term.band for term in terms if term.name == name)
    assert found is not None
    return found


@pytest.mark.slow
def test_the_shipped_rows_match_the_recorded_cases() -> None:
    """The catalog's file is current; `python tests/calibration_rows.py` rewrites it."""
    shipped = calibration.shipped()

    assert calibration.written(rows_of_cases(), shipped.cards) == calibration.written(shipped.rows, shipped.cards)


def test_a_corrected_plan_matches_the_recorded_launch() -> None:
    """gpt-oss-20b, A100, 0.19.0: 13.72 GiB weights, 36.56 cache; uncorrected 0.07 less cache."""
    plain = budget("openai/gpt-oss-20b", **GPT_OSS)
    corrected = budget("openai/gpt-oss-20b", calibration.load(), **GPT_OSS)

    assert plain.available is not None
    assert plain.calibrated == ()
    assert plain.available[1][0] / GIB == pytest.approx(36.49, abs=0.01)
    assert corrected.available is not None
    assert corrected.available[1][0] / GIB == pytest.approx(36.56, abs=0.005)
    assert band(corrected.ranks[0].terms, "weights").expected / GIB == pytest.approx(13.72, abs=0.001)
    assert any("case gpt-oss-gemma-a100-four-starts, launch from line 1 " in said for said in corrected.calibrated)
    assert any(said in term.source for said in corrected.calibrated for term in corrected.ranks[0].terms)


def test_launches_correct_each_other() -> None:
    """Three launches of one model class improve when each is planned with the other two's rows."""
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
def test_a_range_is_shifted_by_the_median_and_covers_the_scatter(
    differences: list[float], wanted: tuple[float, ...]
) -> None:
    """A range of 0, 1 and 3 GiB, and deviations of printed figures."""
    shifted = calibration.shifted(Band(0, GIB, 3 * GIB), [size * GIB for size in differences])

    assert [side / GIB for side in shifted] == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(("printed", "sizes"), [(3.5, (0.5, 2.0, 1.0)), (1.5, (0.0, 1.0, 0.5)), (0.0, (0.0, 0.0, 0.0))])
def test_a_combined_figure_below_the_plan_is_met(printed: float, sizes: tuple[float, ...]) -> None:
    """What non-torch memory cannot give, activations and the CUDA graph estimate give in proportion; 4 GiB planned."""
    planned = {"non_torch": 1, "activation": 2, "cuda_graphs": 1}
    terms = tuple(Term(name, Band(0, size * GIB, 3 * GIB), "x") for name, size in planned.items())
    rows = {"beside_weights_and_graphs": [row("beside_weights_and_graphs", 4.0, printed)]}
    corrected, said = calibration.apply(terms, rows)

    assert [band(corrected, name).expected / GIB for name in planned] == pytest.approx(sizes)
    assert f"together {printed - 4:+.3f} GiB" in said[0]
    assert all((said[0] in new.source) is (new.band != old.band) for new, old in zip(corrected, terms, strict=True))


def test_a_combined_figure_corrects_its_parts_in_proportion() -> None:
    """A peak a tenth above the planned 1 GiB adds a tenth of activation and encoder together."""
    terms = (Term("activation", Band(GIB, GIB, GIB), "x"), Term("encoder", Band(2 * GIB, 2 * GIB, 2 * GIB), "x"))
    corrected, said = calibration.apply(terms, {"activation": [row("activation", 1.0, 1.1)]})

    assert band(corrected, "activation").expected == pytest.approx(1.3 * GIB)
    assert corrected[1] == terms[1]
    assert said == ("activation +0.300 GiB, the median of one launch: a log (vLLM 0.19.0, A100-80GB-PCIe)",)


@in_one_test(
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
def test_a_row_corrects_only_matching_plans(kept: Residual, shift: float) -> None:
    """Another era, GPU, model class or number of ranks is not corrected."""
    plain = budget("google/gemma-4-26B-A4B", **GEMMA)
    corrected = budget("google/gemma-4-26B-A4B", calibration.calibrator([kept]), **GEMMA)

    wanted = band(plain.ranks[0].terms, "non_torch").expected + shift * GIB
    assert band(corrected.ranks[0].terms, "non_torch").expected == pytest.approx(wanted, abs=2)
    assert bool(corrected.calibrated) == bool(shift)


def test_closer_rows_take_precedence() -> None:
    """The user's before the catalog's, the same release before its era, a part before a sum."""

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


def test_rows_of_the_older_engine_do_not_correct_the_newer_one() -> None:
    """0.8.5 runs either engine; its rows belong to the newer one."""
    rows = [row("non_torch", 0.2, 0.9, release="0.8.5", architecture="Qwen2ForCausalLM", gpu="RTX3090")]
    found = []
    for is_newer in ("0", "1"):
        file, card = catalog.specs().file("Qwen/Qwen2.5-1.5B-Instruct"), catalog.specs().gpus("RTX3090")[0]
        device = actual.device_of(card, None)
        assert device is not None
        place = actual.LaunchPlace("0.8.5", (device,), card.gpu, {"VLLM_USE_V1": is_newer})
        made = place.budget(subject(file.id, file.config), {"max_model_len": 4096}, calibration.calibrator(rows))
        found.append((made.settings.is_v0, bool(made.calibrated)))

    assert found == [(True, False), (False, True)]


def test_a_written_file_is_read_back_unchanged() -> None:
    """Rows with and without a GPU."""
    rows = (row("activation", 1.25, 1.5), row("non_torch", 0.25, -0.125, gpu=None, tensor_parallel_size=4))

    assert calibration.read(calibration.written(rows), "mine.json") == rows
    assert calibration.read(calibration.written(()), "mine.json") == ()


GOOD = {"release": "0.19.0", "term": "non_torch", "planned_gib": 0.2, "actual_gib": 0.3, "source": "a log"}


@in_one_test(
    ("text", "said"),
    [
        ("", "invalid JSON"),
        ("[1, 2]", "not a mapping"),
        ("{}", "has no list `rows`"),
        ('{"rows": 3}', "has no list `rows`"),
        ("rows: [1, 2", "invalid JSON"),
        ('{"rows": [1]}', "row 1: not a mapping"),
        ({"release": "newest"}, "row 1: release 'newest' is not a version"),
        ({"release": None}, "row 1: release '' is not a version"),
        ({"term": "kv_cache"}, "row 1: unknown term 'kv_cache'; use one of weights, "),
        ({"planned_gib": "0.2"}, "row 1: planned_gib must be a number of GiB"),
        ({"actual_gib": True}, "row 1: actual_gib must be a number of GiB"),
        ({"actual_gib": 1e12}, "row 1: actual_gib must be a number of GiB"),
        ({"source": ""}, "row 1: source is empty"),
        ({"tensor_parallel_size": 0}, "row 1: tensor_parallel_size must be a number of ranks"),
        ({"gpu": ["A100"]}, "row 1: gpu must be a string"),
        ({"colour": "red"}, "row 1: unknown field 'colour'; known fields"),
        ('{"rows": [{"planned_gib": NaN}]}', "row 1: release '' is not a version"),
        ("[" * 100_000, "invalid JSON"),
    ],
)
def test_a_broken_file_is_rejected_in_one_line(text: str | dict[str, object], said: str) -> None:
    """The message has the place and the error, and no row is used."""
    whole = text if isinstance(text, str) else json.dumps({"rows": [{**GOOD, **text}]})
    with pytest.raises(InputError) as refused:
        calibration.read(whole, "mine.json")

    assert str(refused.value).startswith("mine.json: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_unreadable_files_are_rejected(tmp_path: Path) -> None:
    """A missing file, a folder, and bytes that are not text."""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for name in ("none", ".", "bytes"):
        with pytest.raises(InputError, match=str(tmp_path)):
            calibration.load(tmp_path / name)


def test_the_users_file_takes_precedence_over_the_catalogs(tmp_path: Path) -> None:
    """The user's own launch of the same model and GPU counts more than a recorded one."""
    own = tmp_path / "own.json"
    kept = row("beside_weights", 1.0, 1.5, architecture="GptOssForCausalLM", source="my start")
    own.write_text(calibration.written([kept]), encoding="utf-8")
    plain = budget("openai/gpt-oss-20b", **GPT_OSS)
    made = budget("openai/gpt-oss-20b", calibration.load(own), **GPT_OSS)

    shift = band(made.ranks[0].terms, "non_torch").expected - band(plain.ranks[0].terms, "non_torch").expected
    assert shift / GIB == pytest.approx(0.5, abs=1e-6)
    assert any("my start" in said for said in made.calibrated)


def test_stages_and_replicas_are_not_corrected() -> None:
    """No row describes a pipeline stage."""
    rows = [row("non_torch", 0.2, 0.5)]
    made = budget("google/gemma-4-26B-A4B", calibration.calibrator(rows), pipeline_parallel_size=2)

    assert made.calibrated == ()


# ---- limits of a file, eras and levels


def refusal(text: str) -> str:
    """The error for a file; "" if it is accepted."""
    try:
        calibration.read(text, "f")
    except InputError as refused:
        return str(refused)
    return ""


def test_a_file_has_a_largest_size_and_most_rows() -> None:
    """8,000,000 characters and 20,000 rows, and not one more."""
    whole = '{"rows": []}'
    assert refusal(whole + " " * (8_000_000 - len(whole))) == ""
    assert (
        refusal(whole + " " * (8_000_001 - len(whole))) == "f: not a calibration file: larger than 8000000 characters"
    )
    for count, said in ((20_000, "f: row 1: not a mapping"), (20_001, "f: has more than 20000 rows")):
        assert refusal(json.dumps({"rows": [1] * count})) == said


@in_one_test(
    ("told", "said"),
    [
        ({}, ""),
        ({"planned_gib": 99_999.9, "actual_gib": -99_999.9}, ""),
        ({"planned_gib": 1}, ""),
        ({"planned_gib": 100_000.0}, "planned_gib must be a number of GiB"),
        ({"actual_gib": -100_000.0}, "actual_gib must be a number of GiB"),
        ({"actual_gib": None}, "actual_gib must be a number of GiB"),
        ({"planned_gib": False}, "planned_gib must be a number of GiB"),
        ({"tensor_parallel_size": 1}, ""),
        ({"tensor_parallel_size": 4096}, ""),
        ({"tensor_parallel_size": 4097}, "tensor_parallel_size must be a number of ranks"),
        ({"tensor_parallel_size": True}, "tensor_parallel_size must be a number of ranks"),
        ({"tensor_parallel_size": "2"}, "tensor_parallel_size must be a number of ranks"),
        ({"gpu": "x", "architecture": "y"}, ""),
        ({"architecture": 3}, "architecture must be a string"),
        ({"x" * 61: 1}, f"unknown field '{'x' * 60}'; known fields"),
        ({"release": "y" * 41}, f"release '{'y' * 40}' is not a version"),
        ({"term": "z" * 41}, f"unknown term '{'z' * 40}'; use one of"),
        ({"source": None}, "source is empty"),
    ],
)
def test_each_field_of_a_row_is_validated(told: dict[str, object], said: str) -> None:
    """A rejected value is shown, cut to fit the line."""
    found = refusal(json.dumps({"rows": [{**GOOD, **told}]}))
    assert bool(found) == bool(said)
    assert said in found


def test_rows_of_one_file_are_counted_from_one() -> None:
    """The second row is row 2."""
    assert refusal(json.dumps({"rows": [GOOD, 3]})) == "f: row 2: not a mapping"


def test_figures_are_written_with_four_decimals() -> None:
    """Unknown values are left out; GPUs precede the rows."""
    kept = row("activation", 1.23456789, 2.0, gpu=None, architecture="Ünder")
    other = row("non_torch", 0.5, 0.25)
    cards = [calibration.RecordedCards("case", "2xL4", "said")]
    first = (
        '{"release": "0.19.0", "architecture": "Ünder", "term": "activation", "planned_gib": 1.2346, '
        '"actual_gib": 2.0, "source": "a log", "tensor_parallel_size": 1}'
    )
    assert calibration.written([kept]) == f'{{\n  "rows": [\n    {first}\n  ]\n}}\n'
    whole = calibration.written([kept, other], cards)
    assert whole.startswith(
        '{\n  "cards": [\n    {"case": "case", "gpus": "2xL4", "source": "said"}\n  ],\n  "rows": ['
    )
    assert f"{first},\n    {{" in whole
    assert calibration.written([]) == '{\n  "rows": []\n}\n'


_ERAS = (
    ("0.6.6", "0.7.3"), ("0.8.0", "0.8.5"), ("0.9.0", "0.10.2"), ("0.11.0", "0.16.0"), ("0.17.0", "0.17.1"),
    ("0.18.0", "0.19.1"), ("0.20.0", "0.20.2"), ("0.21.0", "0.26.0"), ("0.27.0", "0.28.0"), ("0.29.0", "0.33.0"),
)  # fmt: skip


def _plan(release: str, **more: Any) -> calibration._CalibrationTarget:
    """A plan for a release on one GPU; releases before 0.8 run the older engine."""
    key = tuple(map(int, release.split(".")))
    told = {"is_v0": key < (0, 8), "gpu": A100, "architecture": "Gemma4ForConditionalGeneration", "has_ranks": False}
    return calibration._CalibrationTarget(key=key, **{**told, **more})


def test_a_row_applies_to_the_releases_of_its_era() -> None:
    """Eras differ in the rules for profiling or reserving memory."""
    releases = [release for era in _ERAS for release in era]
    for era in _ERAS:
        for release in era:
            one = row("weights", 1.0, 1.01, release=release)
            found = [each for each in releases if calibration.chosen([one], (), _plan(each), "weights")]
            assert tuple(found) == era


@in_one_test(
    ("more", "asked", "is_chosen"),
    [
        ({}, {}, True),
        ({}, {"is_v0": True}, False),
        ({}, {"has_ranks": True}, False),
        ({"tensor_parallel_size": 2}, {"has_ranks": True}, True),
        ({"tensor_parallel_size": 8}, {"has_ranks": True}, True),
        ({"tensor_parallel_size": 2}, {}, False),
        ({"architecture": None}, {"architecture": None}, False),
        ({"architecture": None}, {}, False),
        ({"gpu": None}, {}, True),
        ({"gpu": "L4"}, {}, True),
        ({"planned_gib": 0.0}, {}, False),
        ({"planned_gib": -1.0, "actual_gib": -1.0}, {}, False),
        ({"actual_gib": 10.19}, {}, True),
        ({"actual_gib": 9.81}, {}, True),
        ({"actual_gib": 10.21}, {}, False),
        ({"actual_gib": 9.79}, {}, False),
    ],
)
def test_weights_are_corrected_by_the_same_class_within_two_per_cent(
    more: dict[str, Any], asked: dict[str, Any], *, is_chosen: bool
) -> None:
    """On any GPU; an unknown class matches none."""
    one = row("weights", 10.0, 10.1, **more)
    found = calibration.chosen([one], (), _plan("0.19.0", **asked), "weights")
    assert found == ((one,) if is_chosen else ())


def test_the_closest_level_and_the_users_rows_take_precedence() -> None:
    """Same minor release, GPU and class first, then the class; within a level the user's rows."""
    near, far = row("activation", 1.0, 1.1), row("activation", 1.0, 1.2, release="0.18.1")
    class_ = row("activation", 1.0, 1.3, gpu="L4")
    asked = _plan("0.19.0")
    assert calibration.chosen([far, near], (class_,), asked, "activation") == (near,)
    assert calibration.chosen([near], (near, near), asked, "activation") == (near, near)
    assert calibration.chosen([class_], (far,), asked, "activation") == (far,)
    assert calibration.chosen([class_, far], (), asked, "activation") == (far,)
    assert calibration.chosen([class_], (), asked, "activation") == (class_,)
    assert calibration.chosen([class_], (), asked, "weights") == ()


def test_unknown_amounts_are_not_corrected() -> None:
    """A term without an amount, with zero, or missing."""
    terms = (Term("weights", None, "x"), Term("activation", Band(0, 0, 0), "y"))
    matched = {name: [row(name, 1.0, 1.1)] for name in ("weights", "activation", "cuda_graphs_estimated")}
    assert calibration.apply(terms, matched) == (terms, ())
    assert calibration.apply(terms, {}) == (terms, ())


def test_a_correction_names_all_its_launches() -> None:
    """Each once, with its release and GPU."""
    rows = [row("non_torch", 0.2, 0.3), row("non_torch", 0.2, 0.3), row("non_torch", 0.2, 0.1, gpu=None, source="b")]
    (term,), (said,) = calibration.apply((Term("non_torch", Band(0, GIB, GIB), "x"),), {"non_torch": rows})
    assert said == (
        "non-torch memory +0.100 GiB, the median of 3 launches: a log (vLLM 0.19.0, A100-80GB-PCIe); "
        "b (vLLM 0.19.0, unknown GPU)"
    )
    assert term.source == f"x; corrected: {said}"
