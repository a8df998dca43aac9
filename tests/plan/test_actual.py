"""Plan and log compared: the printed figures of a launch, and fixes that fit the plan."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cost
from vllm_runbooks import render
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Answer, ComparedTerm, Facts, PlanComparison, PrintedFigure, Quote
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.answer import answer
from vllm_runbooks.lint import knowledge
from vllm_runbooks.plan import actual, calibration
from vllm_runbooks.plan.budget import Budget, PlannedModel, subject
from vllm_runbooks.plan.terms import GIB, Band
from vllm_runbooks.reading import sources

CASES = Path(__file__).parents[2] / "catalog" / "cases"
FOUR = "gpt-oss-gemma-a100-four-starts"
GLUED = "qwen-2x24gb-mp-glued"
VIDEO = "autoglm-3090-video-oom"
A100 = "A100-80GB-PCIe"


def asked(evidence: Any, *, gpus: str = "", start: int | None = None) -> Answer:
    """The diagnosis of a launch on the given GPUs."""
    cards = catalog.specs().gpus(gpus) if gpus else ()
    return answer(
        evidence, catalog.load_catalog(()), knowledge.knowledge, start=start, cards=cards, specs=catalog.specs
    )


def compared(evidence: Any, **more: Any) -> PlanComparison:
    found = asked(evidence, **more).plan
    assert found is not None
    return found


def changed(case: str, *changes: tuple[str, str]) -> Any:
    """A recorded log with changed figures; each original figure must occur in it."""
    text = (CASES / case / "startup.log").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return sources.paste(text)


def term(found: PlanComparison, name: str) -> ComparedTerm:
    return next(each for each in found.terms if each.name == name)


RECORDED = [
    # Printed weights and cache; the rest of the share is calculated: 0.65 x 79.25 - 13.72 - 36.56.
    (FOUR, 1, A100, {"weights": 13.72, "kv_cache": 36.56, "beside_weights": 1.2325, "cuda_graphs": 0.69}),
    (FOUR, 2, A100, {"weights": 48.5, "kv_cache": 21.5, "beside_weights": 1.325}),
    (FOUR, 3, A100, {"weights": 25.7, "kv_cache": 24.45, "beside_weights": 1.3625, "cuda_graphs_estimated": 1.11}),
    (FOUR, 4, A100, {"weights": 58.9, "kv_cache": 15.18, "beside_weights": 1.2075, "cuda_graphs": 0.84}),
    (GLUED, 1, "", {"weights": 1.4495, "kv_cache": 8.6, "activation": 1.39, "non_torch": 0.4, "cuda_graphs": 0.85}),
]


@pytest.mark.parametrize(("case", "start", "gpus", "printed"), RECORDED)
def test_recorded_launches_match_their_plans(case: str, start: int, gpus: str, printed: dict[str, float]) -> None:
    """Every printed figure lies within the range of a plan made from the configuration alone."""
    found = compared(sources.load(case), gpus=gpus, start=start)

    assert found.off is None
    assert found.missing == ()
    for name, figure in printed.items():
        one = term(found, name)
        assert one.actual_gib == pytest.approx(figure, abs=1e-6)
        assert one.low_gib is not None
        assert one.high_gib is not None
        assert one.low_gib - 0.02 <= figure <= one.high_gib + 0.02
        assert one.explained.endswith("within the planned range")


def test_tokens_follow_from_the_printed_cache() -> None:
    """36.56 GiB, rounded, are 798,544 to 798,768 tokens and 11.98 to 11.99 requests by vLLM 0.19.0's own functions."""
    told = term(compared(sources.load(FOUR), gpus=A100, start=1), "kv_cache_tokens").explained

    assert "798,544 to 798,768 tokens (the log reports 798,624)" in told
    assert "11.98 to 11.99 full-context requests (the log reports 11.99)" in told


def test_a_printed_sum_is_reported_as_one_figure() -> None:
    """Some releases print only weights and cache; the rest is one figure with its derivation."""
    found = compared(sources.load(FOUR), gpus=A100, start=2)

    assert term(found, "activation").actual_gib is None
    assert term(found, "non_torch").actual_gib is None
    assert term(found, "beside_weights").explained.startswith(
        "activation + encoder + non-torch, by subtraction: 0.9 x 79.25 GiB minus 48.50 of weights minus 21.50 "
        "of KV cache"
    )
    assert "beside_weights" not in {each.name for each in compared(sources.load(GLUED)).terms}


@pytest.mark.parametrize(
    ("case", "changes", "off", "said"),
    [
        (
            FOUR,
            [("Model loading took 58.9 GiB", "Model loading took 64.9 GiB"), ("memory: 15.18 GiB", "memory: 9.18 GiB")],
            "weights",
            "above the planned range",
        ),
        (
            FOUR,
            [
                ("Model loading took 58.9 GiB", "Model loading took 40.1 GiB"),
                ("memory: 15.18 GiB", "memory: 33.98 GiB"),
            ],
            "weights",
            "below the planned range",
        ),
        (FOUR, [("cache memory: 15.18 GiB", "cache memory: 11.18 GiB")], "beside_weights", "another process"),
        (FOUR, [("size: 16,576 tokens", "size: 19,000 tokens")], "kv_cache_tokens", "differs from the plan"),
        (GLUED, [("peakmemorytakes1.39", "peakmemorytakes2.39")], "activation", "max_num_seqs"),
        (GLUED, [("non_torch_memorytakes0.40", "non_torch_memorytakes3.40")], "non_torch", "another process"),
    ],
    ids=["heavier", "lighter", "cache", "tokens", "activation", "non-torch"],
)
def test_the_figure_outside_its_range_is_named(case: str, changes: list[tuple[str, str]], off: str, said: str) -> None:
    """A recorded figure is changed beyond its range: its name and likely meaning are reported."""
    evidence = changed(case, *[(_found(case, old), _found(case, old, new)) for old, new in changes])
    found = compared(evidence, gpus=A100 if case == FOUR else "")

    assert found.off == off
    assert said in term(found, off).explained


def _found(case: str, words: str, instead: str = "") -> str:
    """Find words in a log without regard to blanks; `instead` returns the log with new figures."""
    text = (CASES / case / "startup.log").read_text(encoding="utf-8")
    form = re.compile(r"\s*".join(map(re.escape, words.replace(" ", ""))))
    match = form.search(text)
    assert match is not None
    if not instead:
        return match[0]
    figure = re.compile(r"\d[\d.,]*\d")
    old, new = figure.findall(words)[-1], figure.findall(instead)[-1]
    return match[0].replace(old, new)


def test_an_unknown_gpu_leaves_the_comparisons_that_do_not_need_it() -> None:
    """Weights and tokens are compared; the cache is not planned, and the missing fact is named."""
    found = compared(sources.load(FOUR), start=4)

    assert term(found, "weights").planned_gib == pytest.approx(58.9, rel=0.005)
    assert "16,560 to 16,576 tokens (the log reports 16,576)" in term(found, "kv_cache_tokens").explained
    assert {each.name: each.planned_gib for each in found.terms if each.name in ("kv_cache", "cuda_graphs")} == {
        "kv_cache": None,
        "cuda_graphs": None,
    }
    assert found.off is None
    assert any("use --gpus" in said for said in found.missing)


def test_a_log_that_names_its_gpu_is_enough() -> None:
    """The second launch warns of missing tuned kernels for NVIDIA_A100_80GB_PCIe."""
    found = compared(sources.load(FOUR), start=2)

    assert term(found, "kv_cache").planned_gib == pytest.approx(21.5, rel=0.015)
    assert {row.gpu for row in found.residuals} == {A100}


def test_missing_facts_are_named() -> None:
    """With an unknown model or release, no figure is compared with a guess."""
    text = "\n".join((CASES / FOUR / "startup.log").read_text(encoding="utf-8").splitlines()[219:])
    own = compared(sources.paste(text.replace("google/gemma-4-31B-it", "our/own-model")), gpus=A100)
    relogged = compared(sources.load("qwen-a100-relogged-by-wrapper"), gpus=A100)

    assert own == PlanComparison((), None, ("model our/own-model is not in the catalog",))
    assert relogged == PlanComparison((), None, ("the vLLM release is unknown; use --vllm",))


def test_a_cached_model_is_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A model that only this host's cache of the Hub has is planned from its config.json."""
    config = catalog.specs().file("google/gemma-4-31B-it").config
    folder = tmp_path / "hub" / "models--our--own-model" / "snapshots" / "main"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    text = "\n".join((CASES / FOUR / "startup.log").read_text(encoding="utf-8").splitlines()[219:])
    own = diagnosing.diagnose(sources.paste(text.replace("google/gemma-4-31B-it", "our/own-model")), gpus=A100).plan

    assert own is not None
    assert own.terms == compared(sources.paste(text), gpus=A100).terms


def test_without_its_options_only_the_weights_of_a_launch_are_compared() -> None:
    """The log names the model but not the arguments, so nothing that depends on them is planned."""
    found = compared(
        sources.paste(
            "INFO 10-20 08:00:00 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: "
            "model='Qwen/Qwen2.5-0.5B-Instruct', speculative_config=None, dtype=torch.bfloat16, max_seq_len=2048\n"
            "INFO 10-20 08:00:05 [gpu_model_runner.py:2653] Model loading took 0.93 GiB and 1.7 seconds\n"
            "INFO 10-20 08:00:15 [gpu_worker.py:298] Available KV cache memory: 19.70 GiB\n"
        ),
        gpus=A100,
    )

    assert {each.name for each in found.terms} == {"weights"}
    assert term(found, "weights").planned_gib == pytest.approx(0.93, rel=0.01)
    assert found.residuals == ()
    assert found.missing == ("the launch options: the log does not print them; use --command",)


def test_a_launch_on_a_cpu_is_not_compared_with_a_plan_for_a_gpu() -> None:
    """Its cache is set, not profiled."""
    evidence = changed("tiny-cpu-served", ("/models/tiny", "Qwen/Qwen2.5-0.5B-Instruct"))
    found = compared(evidence)

    assert {each.name for each in found.terms} <= {"weights", "kv_cache_tokens"}
    assert found.off in (None, "kv_cache_tokens")


def test_without_printed_memory_there_is_no_comparison() -> None:
    """The field is null."""
    found = asked(sources.load("tiny-cpu-port-in-use"))

    assert found.plan is None
    assert json.loads(render.to_json(found))["plan"] is None


def test_residuals_use_the_uncorrected_plan() -> None:
    """Planned and printed figure, with release, GPU, model class and ranks."""
    rows = {row.term: row for row in compared(sources.load(GLUED)).residuals}

    assert set(rows) == {"weights", "activation", "non_torch", "cuda_graphs"}
    assert (rows["activation"].release, rows["activation"].gpu) == ("0.7.2", None)
    assert (rows["activation"].architecture, rows["activation"].tensor_parallel_size) == ("Qwen2ForCausalLM", 2)
    assert rows["activation"].actual_gib == 1.39
    assert rows["activation"].planned_gib == pytest.approx(1.39, rel=0.01)
    assert rows["activation"].source == f"case {GLUED}, launch from line 1"


# ---- what releases print since 0.27.1


def reckoned(
    release: str, options: dict[str, Any], model: str = "Qwen/Qwen2.5-1.5B-Instruct"
) -> tuple[PlannedModel, Budget]:
    file, card = catalog.specs().file(model), catalog.specs().gpus("RTX3090")[0]
    device = actual.device_of(card, None)
    assert device is not None
    made = subject(file.id, file.config)
    return made, actual.LaunchPlace(release, (device,), card.gpu).budget(made, options)


def test_consumed_memory_and_headroom_are_compared_with_their_parts() -> None:
    """Since 0.27.1: weights with persistent memory, and the peak with the graph estimate."""
    model, planned = reckoned("0.28.0", {"max_model_len": 4096})
    terms = {one.name: one.band.expected / GIB for one in planned.ranks[0].terms if one.band is not None}
    start = diagnosing.read(sources.load(GLUED))[0]
    quote = start.readings[0].quote
    readings = tuple(
        PrintedFigure(name, value, "GiB", None, start.readings[0].process, quote)
        for name, value in (("consumed_gib", 3.4), ("headroom_gib", 1.3))
    )
    printed = replace(start, readings=readings, facts=replace(start.facts, activation_gib=None, non_torch_gib=None))
    found = actual.compare(printed, model, planned)
    consumed, headroom = term(found, "consumed"), term(found, "headroom")

    assert consumed.planned_gib is not None
    assert headroom.planned_gib is not None
    assert consumed.planned_gib >= terms["weights"] + terms["non_torch"]
    assert consumed.planned_gib + headroom.planned_gib == pytest.approx(sum(terms.values()), abs=1e-6)
    assert {"consumed", "headroom"}.isdisjoint(row.term for row in found.residuals)


def test_an_encoders_profile_counts_as_activation_not_as_non_torch_memory() -> None:
    """The printed peak includes both, since PyTorch allocates it; non-torch memory is separate."""
    model, planned = reckoned("0.19.0", {"max_model_len": 4096}, "google/gemma-3-4b-it")
    terms = {one.name: one.band.expected / GIB for one in planned.ranks[0].terms if one.band is not None}
    found = actual.compare(diagnosing.read(sources.load(GLUED))[0], model, planned)

    assert terms["encoder"] > 0
    assert term(found, "activation").planned_gib == pytest.approx(terms["activation"] + terms["encoder"])
    assert term(found, "non_torch").planned_gib == pytest.approx(terms["non_torch"])


# ---- for any arguments

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from([
    "max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "tensor_parallel_size",
    "limit_mm_per_prompt", "compilation_config", "hf_overrides", "kv_cache_dtype", "quantization", "dtype",
    "speculative_config", "max_cudagraph_capture_size", "block_size", "cpu_offload_gb", "cudagraph_capture_sizes",
    "kv_cache_memory_bytes",
    "mm_processor_kwargs", "num_gpu_blocks_override", "max_loras", "pipeline_parallel_size", "data_parallel_size",
])  # fmt: skip


@pytest.mark.slow
@given(st.dictionaries(NAMES, VALUES, max_size=4), st.sampled_from(["0.7.2", "0.11.0", "0.19.0", "0.33.0", "9", "x"]))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_argument_yields_a_diagnosis(arguments: dict[str, Any], release: str) -> None:
    """Arguments of any form produce an answer and its document."""
    printed = {"model": "google/gemma-4-31B-it", **arguments}
    text = (
        f"INFO 04-17 14:03:50 [utils.py:233] non-default args: {printed!r}\n"
        "INFO 04-17 14:05:00 [gpu_model_runner.py:4820] Model loading took 58.9 GiB memory and 265.6 seconds\n"
        "INFO 04-17 14:06:00 [gpu_worker.py:436] Available KV cache memory: 15.18 GiB\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
        "79.25 GiB of which 1.00 GiB is free.\n"
    )
    found = asked(replace(sources.paste(text), vllm=release), gpus=A100)

    assert found.plan is not None
    assert json.loads(render.to_json(found))["plan"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("release", ["0.8.5", "0.19.0", "0.33.0"])
def test_absurd_sizes_take_no_time(release: str) -> None:
    """A typing error, or a log made to use up time and memory: 2 s for all of them, one after the other."""
    many = 10**9
    text = "INFO 04-17 14:03:50 [utils.py:233] non-default args: %r\nModel loading took 58.9 GiB and 265.6 seconds\n"
    catalog.load_catalog(())
    asked(sources.paste(text))
    absurd: Sequence[Mapping[str, object]] = (
        {"tensor_parallel_size": many},
        {"pipeline_parallel_size": 4096},
        {"max_cudagraph_capture_size": many},
        {"cuda_graph_sizes": [many]},
        {"compilation_config": {"max_cudagraph_capture_size": many}},
        {"hf_overrides": {"num_hidden_layers": many}},
        {"hf_overrides": {"text_config": {"num_hidden_layers": many}}},
        {"speculative_config": {"method": "mtp", "num_speculative_tokens": many}},
        {"gpu_memory_utilization": 1e300},
        {"block_size": many},
        {"max_model_len": many**2, "max_num_seqs": many, "max_num_batched_tokens": many},
    )

    def all_of_them() -> None:
        for arguments in absurd:
            printed = {"model": "google/gemma-4-31B-it", **arguments}
            found = asked(replace(sources.paste(text % printed), vllm=release), gpus=A100)

            assert found.plan is not None

    assert cost.least(all_of_them, 2) < 2


def test_a_printed_batch_takes_precedence_over_a_default() -> None:
    """If a log prints max_num_batched_tokens, the plan uses it."""
    start = diagnosing.read(sources.load(FOUR))[0]
    reading = PrintedFigure(
        "max_num_batched_tokens", 8192.0, "tokens", None, start.processes[0], start.readings[0].quote
    )

    assert actual.options_of(start.arguments, start.facts, [reading])[0]["max_num_batched_tokens"] == 8192


# ---- remedies


def titles(found: Answer) -> list[str]:
    return [remedy.title for remedy in found.remedies]


def test_a_remedy_is_shown_with_its_margin_where_the_plan_has_room() -> None:
    """AutoGLM-Phone-9B on a 3090: without videos the cache still lacks 0.4 GiB; with a larger share it fits."""
    found = asked(sources.load(VIDEO), gpus="RTX3090")
    first = found.remedies[0]

    assert first.title.startswith("Disable video input, with gpu_memory_utilization 0.9")
    assert first.checks.plan == "passed"
    assert first.checks.lint == "passed"
    assert re.search(r"the plan leaves \d\.\d\d GiB free \(at least \d\.\d\d GiB\) next to one", first.cost)
    assert [edit.name for edit in first.edits] == ["limit_mm_per_prompt", "gpu_memory_utilization"]
    assert first.edits[0].value == {"image": 10, "video": 0}


def test_a_fix_that_would_fail_is_omitted() -> None:
    """Two GPUs on a host with one."""
    one, two = (asked(sources.load(VIDEO), gpus=f"{count}xRTX3090") for count in (1, 2))

    assert "Shard the model across 2 GPUs" not in titles(one)
    split = next(remedy for remedy in two.remedies if remedy.title == "Shard the model across 2 GPUs")
    assert split.checks.plan == "passed"


def test_a_gpu_that_may_be_missing_is_not_assumed() -> None:
    """Without --gpus the log shows one GPU, and the error prints its memory."""
    found = asked(sources.load(VIDEO))
    split = next(remedy for remedy in found.remedies if remedy.title == "Shard the model across 2 GPUs")

    assert split.checks.plan == "unknown: it would fit on 2 such GPUs; list yours with --gpus"
    assert found.remedies[0].checks.plan == "passed"


def test_an_unknown_model_leaves_the_plan_unknown() -> None:
    """The fix is shown, with a note that it was not planned."""
    evidence = sources.load(VIDEO)
    assert evidence.command is not None
    found = asked(replace(evidence, command=evidence.command.replace("zai-org/AutoGLM-Phone-9B", "our/own-model")))
    edited = [remedy for remedy in found.remedies if remedy.edits]

    assert edited
    assert {remedy.checks.plan for remedy in edited} == {"unknown: model our/own-model is not in the catalog"}


def test_utilization_does_not_fix_memory_released_by_others() -> None:
    """Another process freed memory while vLLM profiled; no option of the launch changes that."""
    found = asked(sources.load("qwen-a100-shared-gpu-race"), gpus=A100)

    assert found.remedies
    assert not [edit for remedy in found.remedies for edit in remedy.edits]


BUSY = (
    "INFO 11-20 08:00:00 [utils.py:233] non-default args: {'model': 'Qwen/Qwen2.5-1.5B-Instruct', "
    "'max_model_len': 4096}\n"
    "ValueError: Free memory on device cuda:0 (%s/23.56 GiB) on startup is less than desired GPU memory utilization "
    "(0.9, 21.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
)


@pytest.mark.parametrize(("free", "share", "plan"), [("15.01", 0.63, "passed"), ("4.01", None, ""), ("3.01", None, "")])
def test_a_smaller_share_is_shown_if_the_model_still_fits(free: str, share: float | None, plan: str) -> None:
    """Qwen2.5-1.5B and a request fit in 15 GiB, but not with the sampler in 4 GiB."""
    found = asked(replace(sources.paste(BUSY % free), vllm="0.16.0"))
    shares = [(e.value, r.checks.plan) for r in found.remedies for e in r.edits if e.name == "gpu_memory_utilization"]

    assert found.root_cause is not None
    assert found.root_cause.symptom.startswith("mem.free_below_utilization")
    assert shares == ([(share, plan)] if share is not None else [])
    reasons = ("Fix left out", "A lower gpu_memory_utilization does not help")
    assert bool([said for said in found.notes if said.startswith(reasons)]) == (share is None)


def test_a_slightly_lower_utilization_is_not_offered_if_much_less_is_free() -> None:
    """With another process's weights on the GPU, 0.05 less still requests more than 5 GiB."""
    log = (BUSY % "5.01").replace("'max_model_len': 4096", "'gpu_memory_utilization': 0.9").replace("21.2", "11.2")
    text = log.replace(
        "desired GPU memory utilization", "the engine's budget after excluding external process's weights"
    )
    found = asked(replace(sources.paste(text), vllm="0.32.0"), gpus="RTX3090")

    assert [edit for remedy in found.remedies for edit in remedy.edits] == []


def test_a_negative_graph_estimate_on_shared_memory_is_within_the_plan() -> None:
    """A GB10 with one kind of CUDA graphs printed -0.81 GiB: the plan's range includes it."""
    printed = {
        "model": "nvidia/Qwen3.6-27B-NVFP4", "max_model_len": 262144, "quantization": "modelopt",
        "gpu_memory_utilization": 0.7, "kv_cache_dtype": "fp8", "max_num_batched_tokens": 65536, "max_num_seqs": 8,
        "speculative_config": {"method": "mtp", "num_speculative_tokens": 2},
    }  # fmt: skip
    text = (
        f"INFO 07-02 21:58:11 [api_utils.py:273] non-default args: {printed!r}\n"
        "INFO 07-02 22:01:13 [gpu_model_runner.py:5255] Model loading took 20.57 GiB memory and 139.645153 seconds\n"
        "INFO 07-02 22:04:54 [gpu_model_runner.py:6588] Estimated CUDA graph memory: -0.81 GiB total\n"
        "INFO 07-02 22:04:55 [gpu_worker.py:515] Available KV cache memory: 48.6 GiB\n"
    )
    found = compared(replace(sources.paste(text), vllm="0.23.0"), gpus="GB10")

    estimate = term(found, "cuda_graphs_estimated")
    assert estimate.actual_gib == -0.81
    assert "within the planned range" in estimate.explained


def test_a_plan_refuted_by_the_launch_rejects_no_fix() -> None:
    """The launch created its cache although the plan had no room, so no fix is dropped."""
    example = catalog.load_catalog(()).symptoms["oom.sampler_warmup"].examples[0]
    found = asked(
        replace(
            sources.paste(
                "INFO 11-20 08:00:00 [utils.py:233] non-default args: {'model': 'Qwen/Qwen2.5-32B-Instruct', "
                "'gpu_memory_utilization': 0.9}\n"
                "INFO 11-20 08:00:30 [kv_cache_utils.py:1087] GPU KV cache size: 20,000 tokens\n"
                "Capturing CUDA graphs (decode, FULL): 100%|##########\n" + example.text
            ),
            vllm=example.vllm,
        ),
        gpus="RTX3090",
    )
    plans = {remedy.checks.plan for remedy in found.remedies if remedy.edits}

    assert found.root_cause is not None
    assert found.root_cause.symptom == "oom.sampler_warmup"
    assert plans == {"unknown: the plan contradicts the log: it expects an earlier failure"}


NO_HALF = (
    "INFO 11-20 08:00:00 [utils.py:233] non-default args: {'model': 'google/gemma-3-1b-it', 'dtype': 'float16'}\n"
    "ValueError: The model type 'gemma3_text' does not support float16. Reason: Numerical instability. Please use "
    "bfloat16 or float32 instead.\n"
)


@pytest.mark.parametrize(("gpus", "dtype"), [("T4", "float32"), ("A10G", "bfloat16")])
def test_a_fix_that_the_gpu_does_not_support_is_left_out(gpus: str, dtype: str) -> None:
    """The plan of a fix is that of its command: a T4 has no bfloat16, so that it is no fix for Gemma 3 there."""
    found = asked(replace(sources.paste(NO_HALF), vllm="0.19.0"), gpus=gpus)
    best = found.remedies[0]

    assert [(edit.name, edit.value) for edit in best.edits] == [("dtype", dtype)]
    assert best.checks.plan == "passed"
    left = "T4 does not support bfloat16, which this launch uses; set --dtype float32"
    assert any(left in note for note in found.notes) is (gpus == "T4")


SHORT_CACHE = (
    "INFO 11-20 08:00:00 [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-8B', 'max_model_len': 40960}\n"
    "INFO 11-20 08:00:30 [gpu_model_runner.py:4820] Model loading took 15.27 GiB memory and 5.0 seconds\n"
    "INFO 11-20 08:01:00 [gpu_worker.py:436] Available KV cache memory: 1.93 GiB\n"
    "ValueError: To serve at least one request with the models's max seq len (40960), (5.62 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (1.93 GiB). Based on the available memory, the estimated "
    "maximum model length is 14048. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
    "initializing the engine.\n"
)
COMPILED = "INFO 11-20 08:00:40 [backends.py:390] Compiling a graph for compile range (1, 2048) takes 6.34 s\n"
CACHED = (
    "INFO 11-20 08:00:40 [backends.py:285] Directly load the compiled graph(s) for compile range (1, 2048) from the "
    "cache, took 1.461 s\n"
)


@pytest.mark.parametrize("release", ["0.19.0", "0.21.0", "0.33.0"])
def test_the_printed_cache_takes_precedence_over_the_plan(release: str) -> None:
    """Of a launch with 1.93 GiB of cache, where about 4 to 5 were planned, the fix fits into these 1.93 GiB."""
    found = asked(replace(sources.paste(SHORT_CACHE), vllm=release), gpus="RTX3090")
    (remedy,) = found.remedies

    assert found.plan is not None
    assert (term(found.plan, "kv_cache").planned_gib or 0) > 3
    assert [(edit.name, edit.value) for edit in remedy.edits] == [("max_model_len", 13824)]
    assert remedy.checks.plan == "passed"


def test_a_log_without_the_graph_estimate_corrects_the_next_plan() -> None:
    """Its one row has the estimate's error, too, so the plan of the same launch has the printed cache."""
    found = compared(replace(sources.paste(SHORT_CACHE), vllm="0.33.0"), gpus="RTX3090")
    rows = found.residuals
    model, _ = reckoned("0.33.0", {"max_model_len": 40960}, "Qwen/Qwen3-8B")
    card = catalog.specs().gpus("RTX3090")[0]
    device = actual.device_of(card, None)
    assert device is not None
    place = actual.LaunchPlace("0.33.0", (device,), card.gpu)
    shipped = tuple(
        replace(rows[0], term=name, planned_gib=1.0, actual_gib=2.0) for name in ("activation", "non_torch")
    )
    made = place.budget(model, {"max_model_len": 40960}, calibration.calibrator(shipped, rows))

    assert {row.term for row in rows} == {"weights", "beside_weights_and_graphs"}
    assert made.available is not None
    assert made.available[1][0] / GIB == pytest.approx(1.93, abs=0.01)


@pytest.mark.parametrize(
    ("lines", "copies"),
    [
        ((), True),
        ((COMPILED,), True),
        ((CACHED,), False),
        ((CACHED, COMPILED), True),
    ],
    ids=["unknown", "first", "from the cache", "in part from the cache"],
)
def test_a_launch_from_the_compile_cache_copies_no_embedding(lines: Sequence[str], *, copies: bool) -> None:
    """Its activation peak is planned without the copy, which is 1.16 GiB; of other launches with it."""
    head, tail = SHORT_CACHE.split("INFO 11-20 08:01:00", 1)
    text = head + "".join(lines) + "INFO 11-20 08:01:00" + tail
    found = compared(replace(sources.paste(text), vllm="0.33.0"), gpus="RTX3090")
    peak = term(found, "activation")

    assert peak.planned_gib is not None
    assert (peak.planned_gib > 1.1) is copies
    assert peak.planned_gib > 0.4


# ---- cost


def loaded(text: str) -> set[str]:
    """Modules that a diagnosis of a log imports."""
    program = (
        "import sys, vllm_runbooks as rb; rb.diagnose(rb.paste(sys.stdin.read()));"
        "print(*(name for name in sys.modules if name.startswith('vllm_runbooks')))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.slow
def test_a_log_without_memory_does_not_load_the_planner() -> None:
    """Nor does a healthy one with memory load the linter."""
    plain = loaded("OSError: [Errno 98] Address already in use\n")
    healthy = loaded((CASES / FOUR / "startup.log").read_text(encoding="utf-8"))

    assert not {name for name in plain if name.startswith("vllm_runbooks.plan")}
    assert "vllm_runbooks.plan.actual" in healthy
    assert "vllm_runbooks.lint.linting" not in healthy
    assert not {name for name in healthy if name.startswith("vllm_runbooks.reading.documents")}


# ---- the functions by themselves


@pytest.mark.parametrize(
    ("arguments", "options", "missing"),
    [
        ({"max_num_seqs": 8, "_private": 1, "dtype": None}, {"max_num_seqs": 8}, 0),
        ({"limit_mm_per_prompt": '{"image": 2}'}, {"limit_mm_per_prompt": {"image": 2}}, 0),
        ({"limit_mm_per_prompt": {"image": 2}}, {"limit_mm_per_prompt": {"image": 2}}, 0),
        ({"compilation_config": "CompilationConfig(level=3)"}, {}, 1),
        ({"dtype": "{"}, {"dtype": "{"}, 0),
        ({"max_model_len": 5, "tensor_parallel_size": 9}, {"max_model_len": 4096, "tensor_parallel_size": 2}, 0),
    ],
)
def test_options_are_read_from_a_log(arguments: dict[str, Any], options: dict[str, Any], missing: int) -> None:
    """Objects are parsed, special forms are named, and results take precedence over requests."""
    facts = Facts(max_model_len=4096, tensor_parallel_size=2) if options.get("max_model_len") else Facts()
    found, said = actual.options_of(arguments, facts)
    assert (found, len(said)) == (options, missing)


def test_a_printed_batch_is_the_batch() -> None:
    """Whole tokens only; other figures are not options."""
    process, quote = diagnosing.read(sources.load(GLUED))[0].readings[0].process, Quote(0, 1, 1, "x")
    readings = [
        PrintedFigure(name, value, "tokens", None, process, quote)
        for name, value in (("max_num_batched_tokens", 2048.0), ("kv_cache_gib", 3.0))
    ]
    assert actual.options_of({"max_num_batched_tokens": 1}, Facts(), readings)[0] == {"max_num_batched_tokens": 2048}


def test_a_gpu_has_the_memory_printed_in_the_log() -> None:
    """It is printed with two decimals, so 0.005 GiB either way; otherwise it is unknown."""
    (card,) = catalog.specs().gpus("RTX3090")
    both, printed, known = (actual.device_of(*each) for each in ((card, 23.5), (None, 23.5), (card, None)))
    assert actual.device_of(None, None) is None
    assert both is not None
    assert printed is not None
    assert known is not None
    assert both.total == printed.total == (int(23.495 * GIB), int(23.5 * GIB), int(23.505 * GIB))
    assert (both.name, printed.name, known.name) == ("RTX3090", "the log's GPU", "RTX3090")
    assert (both.total_source, known.total_source == "printed in the log") == ("printed in the log", False)
    assert actual.in_gib(3 * GIB) == 3


def test_further_gpus_equal_the_last_one() -> None:
    """More than the maximum number of GPUs are rejected."""
    model, _ = reckoned("0.19.0", {"max_model_len": 4096})
    first, second = (actual.device_of(catalog.specs().gpus(name)[0], None) for name in ("RTX3090", "RTX4090"))
    assert first is not None
    assert second is not None
    place = actual.LaunchPlace("0.19.0", (first, second))
    for size, names in ((1, "RTX3090"), (2, "RTX3090 RTX4090"), (4, "RTX3090 RTX4090 RTX4090 RTX4090")):
        cards = place.cards(place.settings(model, {"tensor_parallel_size": size}))
        assert [card.name for card in cards] == names.split()
    assert len(place.cards(place.settings(model, {"tensor_parallel_size": 4096}))) == 4096
    with pytest.raises(InputError, match="the launch needs 4097 GPUs"):
        place.cards(place.settings(model, {"tensor_parallel_size": 4097}))


def test_overrides_change_only_their_keys() -> None:
    """Of a nested configuration the rest stays, any other field is replaced; without any the model is itself."""
    model = subject("x", {"a_config": {"b": 1, "c": 2}, "d": 3, "e": {"f": 1}}, source="s", checkpoint_bytes=7)
    without: tuple[dict[str, Any], ...] = ({}, {"hf_overrides": {}}, {"hf_overrides": "x"}, {"hf_overrides": None})
    for options in without:
        assert actual.overridden(model, options) is model
    found = actual.overridden(model, {"hf_overrides": {"a_config": {"b": 9}, "d": {"g": 1}, "e": {"i": 5}, "h": 6}})
    assert found.config == {"a_config": {"b": 9, "c": 2}, "d": {"g": 1}, "e": {"i": 5}, "h": 6}
    assert (found.name, found.source, found.checkpoint_bytes) == ("x", "s", 7)


_BAND = Band(GIB, 2 * GIB, 3 * GIB)


@pytest.mark.parametrize(
    ("planned", "printed", "beyond", "said"),
    [
        (_BAND, 2.0, 0.0, "within the planned range"),
        (_BAND, 1.0, 0.0, "within the planned range"),
        (_BAND, 3.0, 0.0, "within the planned range"),
        # Five thousandths are the rounding of a printed figure, and as little again is nothing.
        (_BAND, 3.009, 0.0, "within the planned range"),
        (_BAND, 3.011, 0.006, "0.01 GiB above the planned range: "),
        (_BAND, 0.991, 0.0, "within the planned range"),
        (_BAND, 0.495, -0.5, "0.50 GiB below the planned range: "),
        (_BAND, 4.105, 1.1, "1.10 GiB above the planned range: "),
        (None, 4.0, 0.0, "not planned"),
        (_BAND, None, 0.0, "the log does not print it"),
    ],
)
def test_a_figure_is_inside_or_outside_its_range(
    planned: Band | None, printed: float | None, beyond: float, said: str
) -> None:
    """By how much, and the likely meaning, which differs for more and for less."""
    figure = actual._Figure("weights", planned, printed)
    assert figure.beyond == pytest.approx(beyond, abs=1e-9)
    assert figure.explained.startswith(said)
    assert ("stays in host memory" in figure.explained) is (beyond < 0)
    noted = replace(figure, note="a note")
    assert noted.explained.startswith(f"a note; {said}")
    record = noted.record()
    assert (record.planned_gib, record.low_gib, record.high_gib) == ((2, 1, 3) if planned else (None,) * 3)
    assert record.actual_gib == printed


def test_the_term_that_is_farthest_off_is_named_and_the_cache_last() -> None:
    """The cache follows from the others; graphs are named only where nothing else is."""

    def off(names: tuple[str, ...] = (), **printed: float) -> str | None:
        return actual._off([actual._Figure(name, _BAND, value) for name, value in printed.items()], names)

    assert off(weights=2.0) is None
    assert off(weights=3.5, activation=4.0, kv_cache=9.0) == "activation"
    assert off(weights=0.1, activation=3.5, kv_cache=2.0) == "weights"
    assert off(kv_cache=9.0, weights=2.0) == "kv_cache"
    assert off(cuda_graphs=9.0) is None
    assert off(("cuda_graphs",), cuda_graphs=9.0, weights=9.9) == "cuda_graphs"
    assert off(("cuda_graphs",), weights=9.9) is None


@pytest.mark.parametrize(
    ("options", "facts", "has"),
    [
        ({}, {}, True),
        ({"kv_cache_memory_bytes": GIB}, {}, False),
        ({"pipeline_parallel_size": 2}, {}, False),
        ({"cpu_offload_gb": 1}, {}, False),
        ({}, {"weights_gib": None}, False),
        ({}, {"kv_cache_gib": None}, False),
        ({}, {"activation_gib": 1.0, "non_torch_gib": 0.1}, False),
        ({}, {"activation_gib": 1.0}, True),
        ({}, {"non_torch_gib": 1.0}, True),
    ],
)
def test_the_remaining_memory_is_calculated_if_possible(
    options: dict[str, Any], facts: dict[str, Any], *, has: bool
) -> None:
    """0.9 of 23.69 GiB minus 3 of weights and 16 of cache; not with stages or a fixed cache."""
    model, planned = reckoned("0.19.0", {"max_model_len": 4096, **options})
    start = diagnosing.read(sources.load(GLUED))[0]
    told = {"weights_gib": 3.0, "kv_cache_gib": 16.0, "activation_gib": None, "non_torch_gib": None, **facts}
    printed = replace(start, readings=(), facts=Facts(**told))
    found = {each.name: each for each in actual.compare(printed, model, planned).terms}
    assert ("beside_weights" in found) is has
    if has:
        share = 0.9 * 23.69 - 3 - 16
        assert found["beside_weights"].actual_gib == pytest.approx(share, abs=1e-6)
        assert "activation + non-torch, by subtraction: 0.9 x 23.69 GiB minus 3.00 of weights" in (
            found["beside_weights"].explained
        )


@pytest.mark.parametrize(
    ("release", "options", "is_kept"),
    [
        ("0.19.0", {}, True),
        ("0.19.0", {"pipeline_parallel_size": 2}, False),
        ("0.19.0", {"data_parallel_size": 2}, False),
        ("0.7.2", {}, True),
        ("0.8.5", {}, True),
        ("0.8.5", {"num_scheduler_steps": 8}, False),
    ],
)
def test_rows_are_kept_for_the_releases_default_engine(release: str, options: dict[str, Any], *, is_kept: bool) -> None:
    """The older one before 0.8, the newer one since; not of stages and copies."""
    model, planned = reckoned(release, {"max_model_len": 4096, **options})
    start = diagnosing.read(sources.load(GLUED))[0]
    printed = replace(start, readings=(), facts=Facts(weights_gib=3.0))
    rows = actual.compare(printed, model, planned, gpu="RTX3090", source="mine").residuals
    assert bool(rows) is is_kept
    for one in rows:
        assert (one.gpu, one.source, one.release, one.tensor_parallel_size) == ("RTX3090", "mine", release, 1)
    assert not actual.compare(printed, model, planned, is_told=False).residuals
