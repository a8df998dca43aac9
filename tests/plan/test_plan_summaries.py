"""The summary of a plan: whether it fits, its capacity, and what to run or change."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from rows import in_one_test
from vllm_runbooks.catalog import load
from vllm_runbooks.catalog.specs import HostGpu, ModelFile, Specs
from vllm_runbooks.core.console import output, terminal
from vllm_runbooks.core.display import to_json, visible
from vllm_runbooks.core.records import ComparedTerm, PlanComparison
from vllm_runbooks.core.views.styled import Layout, Tone, laid_out, plain
from vllm_runbooks.core.views.summary import WIDEST, Summary, SummaryTable, summary_view
from vllm_runbooks.core.views.summary_html import summary_html
from vllm_runbooks.lint import checking
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.planned import warnings
from vllm_runbooks.plan.records import Layouts, Plan
from vllm_runbooks.plan.remedies import PlanRemedy, RemedyKind
from vllm_runbooks.plan.render import plans as render_plans
from vllm_runbooks.plan.render import summaries
from vllm_runbooks.plan.render import words as plan_words
from vllm_runbooks.reading.arguments.as_typed import as_option

LLAMA = ("meta-llama/Llama-3.3-70B-Instruct", "4xL40S")
QWEN = ("Qwen/Qwen3-8B", "RTX3090")
VLLM = "0.33.0"
ONE_GPU = {"vllm": "0.16.0", "arguments": ["--max-model-len", "25480"], "tp": 1}


def planned(model: str, gpus: str, **more: Any) -> tuple[Plan | Layouts, tuple[PlanRemedy, ...]]:
    request = planner.request(model, gpus, **{"vllm": VLLM, "is_calibrated": False, **more})
    answer = planner.plan(request) if planner.has_sizes(request) else planner.layouts(request)
    return answer, planner.remedies(request, answer)


def shown(model: str, gpus: str, **more: Any) -> list[str]:
    return plain(summary_view(summaries.summarize(*planned(model, gpus, **more), again="x --explain"))).split("\n")


def commands(lines: list[str]) -> str:
    """The commands after `Run`."""
    start = next(number for number, line in enumerate(lines) if line.startswith("  Run"))
    end = next(number for number in range(start, len(lines)) if not lines[number])
    return "\n".join(line[8:] for line in lines[start + 1 : end])


@pytest.mark.parametrize(
    ("used_gib", "is_total_known", "fits", "said"),
    [
        (0.0, True, True, ()),
        (5.0, True, True, ("GPU 0: 5.00 GiB in use; memory that other processes",)),
        (40.0, True, False, ("GPU 0: 40.00 GiB in use, 39.25 GiB free; the launch requires",)),
        (40.0, False, None, ("the memory of A100-80GB is unknown",)),
        (None, False, None, ("GPU 0: its memory in use is unknown", "the memory of A100-80GB is unknown")),
    ],
)  # fmt: skip
def test_memory_in_use_counts_if_the_total_is_known(
    used_gib: float | None, said: tuple[str, ...], *, is_total_known: bool, fits: bool | None
) -> None:
    """If a GPU's total is unknown, its free memory is unknown too."""
    request = planner.request("Qwen/Qwen3-8B", "A100-80GB", vllm=VLLM, is_calibrated=False, tp=1)
    gpu = request.cards[0].gpu
    card = HostGpu(gpu if is_total_known else replace(gpu, total=None), None, 0, used_gib)

    plan = planner.plan(replace(request, cards=(card,)))

    assert plan.fits is fits
    assert len(plan.limits) == len(said)
    assert all(limit.startswith(begin) for limit, begin in zip(plan.limits, said, strict=True))


def test_a_model_that_fits_has_its_capacity_and_its_command() -> None:
    """Model, GPUs, release and context; layout, cache and concurrency; one command, checked."""
    lines = shown("Qwen/Qwen3-8B", "2xA100-80GB")

    assert lines[0] == "FITS     Qwen3-8B · 2\u00d7 A100-80GB · vLLM 0.33.0 · context 40,960"
    assert re.fullmatch(
        r" {9}TP 2: KV cache 6\d\.\d GiB per GPU \(9\d\d,\d{3} tokens\): 2\d concurrent requests of 40,960 tokens\.",
        lines[1],
    )
    assert lines[3] == "  Run   lint ✓  plan ✓"
    assert commands(lines) == ("vllm serve Qwen/Qwen3-8B --host 127.0.0.1 --port 8000 \\\n  --tensor-parallel-size 2")
    assert lines[-1] == "  For 4 other layouts, memory per GPU and sources: x --explain"
    assert len(lines) == 8


def test_several_servers_have_the_command_of_the_first() -> None:
    """Differences of the other servers are described, with the command that writes all."""
    lines = shown("zai-org/AutoGLM-Phone-9B", "8xRTX3090", vllm="0.16.0", arguments=["--max-model-len", "25480"])

    assert re.search(
        r"4 servers, TP 2 each: KV cache .* tokens per server\): \d+ concurrent requests",
        " ".join(" ".join(lines[1:3]).split()),
    )
    assert " in total." in " ".join(" ".join(lines[1:3]).split())
    assert commands(lines).startswith(
        "# Server 1 of 4. Server 2: CUDA_VISIBLE_DEVICES=2,3 and --port 8001, and so on.\n"
    )
    assert "  Next  To write the files of the 4 servers and an nginx configuration, add --deploy DIR." in lines


def test_a_card_has_each_cost_below_its_change() -> None:
    """A phone has no space for a fourth column of text."""
    card = summary_html(summaries.summarize(*planned(*LLAMA)))
    assert ">cost</th>" not in card
    assert card.count('<tr><td></td><td colspan="3"') == 3
    assert ">longer requests are rejected</td>" in card


def test_unused_gpus_are_named() -> None:
    """GPUs in use on a recorded host, and those that a layout does not need."""
    assert "  Note  Left out, as they are in use or their use is unknown: GPU 0, 2, 5, 6, 7." in shown(
        "Qwen/Qwen3-8B", "host-8xa100-shared"
    )
    assert "  Note  2 of the 4 GPUs stay idle." in shown("Qwen/Qwen3-8B", "4xRTX3090", tp=2)


def test_a_model_that_does_not_fit_has_the_cheapest_changes() -> None:
    """Its shortage in numbers, at most three kinds of changes, and the first one's command."""
    lines = shown(*LLAMA)

    assert lines[0] == "FITS AT 48,384   Llama-3.3-70B-Instruct · 4\u00d7 L40S · vLLM 0.33.0 · context 131,072"
    text = " ".join(" ".join(lines[1:3]).split())
    why = r"One request of 131,072 tokens needs 10\.0 GiB of KV cache per GPU, but only 5\.\d\d GiB is available "
    why += r"\((TP [^)]*)\)"
    of_layout = re.match(why, text)
    rows = [line for line in lines if re.match(r"  [1-9]  ", line)]
    assert of_layout is not None
    assert rows[0].startswith(f"  1  {of_layout[1]}, --max-model-len ")
    assert len(rows) == 3
    first = re.match(
        r"  1  (?:TP 4|TP 2 PP 2), --max-model-len (\d+) +([\d,]+) +([\d.]+)  longer requests are ", rows[0]
    )
    assert first is not None
    assert 45_000 < int(first[1]) < 65_000
    assert first[2] == f"{int(first[1]):,}"
    assert any("Llama-3.3-70B-Instruct-FP8-dynamic, " in row and "131,072" in row for row in rows)
    assert any("  context  concurrency at 16K  cost" in line for line in lines)
    assert "  Run 1   lint ✓  plan ✓" in lines
    assert f"--max-model-len {first[1]}" in commands(lines)
    assert len(lines) <= 20


@in_one_test(
    ("model", "gpus", "more"),
    [
        (*LLAMA, {}),
        (*QWEN, {}),
        ("openai/gpt-oss-120b", "A100-80GB", {}),
        ("Qwen/Qwen2.5-VL-72B-Instruct", "8xRTX3090", {}),
        ("Qwen/Qwen3-8B", "4xRTX3090", {"tp": 3}),
        ("zai-org/AutoGLM-Phone-9B", "8xRTX3090", ONE_GPU),
        ("Qwen/Qwen3-4B", "RTX3090", {"options": {"kv_cache_memory_bytes": 2**35}}),
        ("Qwen/Qwen3-4B", "RTX3090", {"options": {"kv_cache_memory_bytes": 2**30}}),
        ("Qwen/Qwen3-32B", "2xRTX3090", {}),
        ("Qwen/Qwen3-32B", "RTX3090@node1,RTX4090@node2", {}),
        ("deepseek-ai/DeepSeek-V3", "8xH100-80GB", {}),
    ],
)  # fmt: skip
def test_every_change_fits_when_it_is_planned(model: str, gpus: str, more: dict[str, Any]) -> None:
    """Its command has no lint errors, and a plan of this text fits."""
    answer, remedies = planned(model, gpus, **more)
    vllm = more.get("vllm", VLLM)

    assert answer.fits is not True
    assert 1 <= len(remedies) <= 3
    order = [(remedy.plan.fits is not True, remedy.is_doubtful, remedy.price) for remedy in remedies]
    assert order == sorted(order)
    assert not any(remedy.is_doubtful for remedy in remedies[:1])
    for remedy in remedies:
        command = summaries.short_command(remedy.plan)
        if not command:
            assert remedy.checkpoint in ("an FP8 checkpoint", "a 4-bit checkpoint")
            continue
        spec = "+".join(f"{gpu.count}x{gpu.name}" + (f"@{gpu.node}" if gpu.node else "") for gpu in remedy.plan.gpus)
        linted = checking.lint_text(command, name="run.sh", vllm=vllm, gpus=spec.replace("+", ","))
        warned = [issue.message for issue in linted.issues if issue.severity in ("error", "warning")]
        assert warned == list(warnings(remedy.plan)), command
        if remedy.checkpoint and planner.model(remedy.checkpoint).is_partial:
            continue  # by itself it is not certain: the model's own configuration completes it here
        flags = linted.deployments[0].flags
        kept = {
            "tensor_parallel_size",
            "pipeline_parallel_size",
            "data_parallel_size",
            *remedy.changes,
            "max_model_len",
        }
        options = {name: value for name, value in flags.items() if name in kept}
        options.setdefault("tensor_parallel_size", 1)
        request = planner.request(
            remedy.checkpoint or model, spec.replace("+", ","), vllm=vllm, options=options, is_calibrated=False
        )
        assert planner.plan(planner.staged(request)).fits is remedy.plan.fits, (model, remedy.changes)


def test_a_quantized_checkpoint_of_the_catalog_is_named() -> None:
    """The largest that fits, with the layers of the model; its configuration is completed by the model's."""
    answer, remedies = planned("Qwen/Qwen3-32B", "L40S", options={"max_model_len": 32768})
    named = [remedy for remedy in remedies if remedy.checkpoint]

    assert answer.fits is False
    assert [remedy.checkpoint for remedy in named] == ["Qwen/Qwen3-32B-FP8-Static-PerTensor"]
    alone = planned("Qwen/Qwen3-32B", "RTX3090")[1][0]
    assert (alone.checkpoint, alone.plan.fits) == ("Qwen/Qwen3-32B-AWQ", True)
    assert alone.changes["max_model_len"] > 4096
    assert not [remedy for remedy in planned("Qwen/Qwen3-32B-AWQ", "T4")[1] if remedy.checkpoint]
    options = {"quantization": "fp8", "max_model_len": 40960}
    assert not [remedy for remedy in planned(*QWEN, options=options)[1] if remedy.checkpoint]


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-14B"])
def test_a_checkpoint_of_another_model_is_not_named(model: str) -> None:
    """A quantized checkpoint of an Instruct model is no change for its base model."""
    options = {"max_model_len": 16384, "gpu_memory_utilization": 0.6}
    for more in ({}, {"options": options}):
        remedies = planned(model, "T4", **more)[1]
        assert remedies
        assert not [remedy for remedy in remedies if "Instruct" in remedy.checkpoint]


def test_a_checkpoint_names_its_organization_and_an_assumed_layout() -> None:
    """A checkpoint of the model's own organization with a known configuration has neither."""
    options = {"max_model_len": 65536, "gpu_memory_utilization": 0.5}
    answer, remedies = planned("meta-llama/Llama-3.1-8B-Instruct", "L4", options=options)
    costs = [remedy.costs[-1] for remedy in remedies if remedy.checkpoint]
    known = [remedy for remedy in planned("Qwen/Qwen3-32B", "RTX3090")[1] if remedy.checkpoint]
    document = to_json(summaries.with_text(answer, remedies, summaries.summarize(answer, remedies)))

    assert set(costs) == {"less accurate: quantized by cyankiwi; usual layout assumed"}
    assert document.count("usual layout") >= len(costs)
    assert known[0].costs[-1] == "less accurate: quantized weights"


def test_one_change_has_the_same_checkpoint() -> None:
    """Options for the model itself, or more GPUs, are listed even if three other checkpoints are cheaper."""
    options = {"max_model_len": 32768, "gpu_memory_utilization": 0.6}
    remedies = planned("Qwen/Qwen3-8B", "L4", options=options)[1]

    assert [bool(remedy.checkpoint) for remedy in remedies] == [True, True, False]


def test_another_checkpoint_has_no_options_of_the_repository() -> None:
    """A revision or configuration of the model's own repository is not one of the checkpoint's."""
    options = ["--revision", "abc", "--hf-config-path", "Qwen/Qwen3-32B", "--dtype", "bfloat16"]
    command = commands(shown("Qwen/Qwen3-32B", "RTX5090", arguments=options))

    assert command.startswith("vllm serve Qwen/Qwen3-32B-AWQ ")
    assert "--dtype bfloat16" in command
    assert "abc" not in command
    assert "--hf-config-path" not in command


def test_a_change_has_the_context_that_vllm_fits() -> None:
    """With `--max-model-len auto` the context of a change is that of its own plan."""
    remedies = planned("Qwen/Qwen3-8B", "T4", arguments=["--max-model-len", "auto"])[1]
    lengths = [remedy.plan.kv_cache.longest_context for remedy in remedies]

    assert min(length or 0 for length in lengths) < 40_960
    assert [remedy.context for remedy in remedies] == lengths


def test_a_checkpoint_without_a_name_is_one_row_without_a_command() -> None:
    """4-bit weights, if nothing larger fits; the next change that has a command is the one to run."""
    lines = shown("mistralai/Devstral-Small-2507", "RTX3090")
    rows = [line for line in lines if re.match(r"  [1-9]  ", line)]

    assert [("a 4-bit checkpoint" in row, "GPUs" in row) for row in rows] == [(True, False), (False, True)]
    assert "  Run 2   lint ✓  plan ✓" in lines


def test_a_lint_warning_is_noted_once() -> None:
    """Changes without warnings come first; the warning follows its command."""
    answer, remedies = planned(*QWEN)
    doubtful = tuple(remedy for remedy in remedies if remedy.is_doubtful)
    lines = plain(summary_view(summaries.summarize(answer, doubtful, again="x --explain"))).split("\n")
    notes = [line for line in lines if line.startswith("  Note  ")]

    assert [remedy.is_doubtful for remedy in remedies] == [False, False, True]
    assert "--kv-cache-dtype fp8" in commands(lines)
    assert len(notes) == 1
    assert "has no FP8 hardware" in notes[0]


def test_more_gpus_are_offered_up_to_a_limit() -> None:
    """Up to a host or twice the given number; otherwise a command finds the number."""
    more = next(remedy for remedy in planned("Qwen/Qwen3-32B", "2xRTX3090")[1] if remedy.gpus)
    assert (more.gpus, more.plan.fits, more.costs) == (4, True, ("2 more GPUs",))
    assert not [limit for limit in more.plan.limits if limit.startswith("the command:")]

    lines = shown("deepseek-ai/DeepSeek-V3", "2xRTX3090")
    assert re.search(r"The weights need 6\d\d\.\d GiB, but 2 GPUs have 47\.4 GiB\.", lines[1])
    assert "        vllm-runbooks plan deepseek-ai/DeepSeek-V3 --gpus RTX3090 --find gpus --vllm 0.33.0" in lines
    assert not [line for line in lines if "Run" in line or "vllm serve" in line]
    mixed = planned("deepseek-ai/DeepSeek-V3", "H100-80GB,RTX3090")
    assert not mixed[1]
    assert "--gpus H100-80GB --find gpus" in "\n".join(shown("deepseek-ai/DeepSeek-V3", "H100-80GB,RTX3090"))


def test_several_servers_are_named_before_their_figures() -> None:
    """A layout of two servers says so first, how the second differs, and how to plan one server over both GPUs."""
    lines = shown("llava-hf/llava-1.5-7b-hf", "2xRTX3090", vllm="0.14.1")  # whose encoder was not read

    assert lines[1].strip().startswith("Best layout: 2 servers, one per GPU. ")
    assert "unknown: unknown" not in " ".join(lines)
    assert commands(lines).startswith("# Server 1 of 2. Server 2: CUDA_VISIBLE_DEVICES=1 and --port 8001.\n")
    assert "  Note  For one server across all 2 GPUs, plan with --tp 2." in lines
    two_hosts = shown("Qwen/Qwen3-8B", "RTX3090@a,RTX3090@b", arguments=["--max-model-len", "16384"])
    assert commands(two_hosts).startswith("# Server 1 of 2; the others use other GPUs and ports.\n")


def test_every_answer_names_the_expected_memory_and_its_range() -> None:
    """The same GPU: too small for the whole context by the expected value, uncertain for the longest that may fit."""
    whole = " ".join(" ".join(shown("openai/gpt-oss-120b", "H100-80GB")).split())
    request = planner.request("openai/gpt-oss-120b", "H100-80GB", vllm=VLLM, is_calibrated=False)
    found = " ".join(plain(summary_view(summaries.summarize(planner.find(request, "context")))).split())
    lacking = re.search(r"^DOES NOT FIT .* only (\S+) GiB is available, (\S+) GiB in the best case\.", whole)
    uncertain = re.search(r"^UNCERTAIN .* 0\.00 to (\S+) GiB \((\S+) expected\) is available", found)

    assert lacking is not None
    assert uncertain is not None
    assert lacking.groups() == uncertain.groups()[::-1]


def test_sizes_that_the_release_rejects_have_others() -> None:
    """Three ranks cannot share 32 heads: two servers of two."""
    lines = shown("Qwen/Qwen3-8B", "4xRTX3090", tp=3)

    assert "32 attention heads" in lines[1]
    assert any(re.match(r"  1  2 \u00d7 TP 2 +40,960 +\d+  different parallel sizes$", line) for line in lines)
    assert commands(lines).startswith(
        "# Server 1 of 2. Server 2: CUDA_VISIBLE_DEVICES=2,3 and --port 8001.\n"
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,1\n"
    )


def test_sizes_that_are_too_small_keep_their_layout_in_other_changes() -> None:
    """For one GPU per server, other sizes come first, then options for one GPU."""
    remedies = planned("zai-org/AutoGLM-Phone-9B", "8xRTX3090", **ONE_GPU)[1]

    assert not remedies[0].changes
    assert remedies[0].budget.settings.ranks.tensor > 1
    assert {remedy.budget.settings.ranks.cards for remedy in remedies[1:]} == {1}
    table = summaries.summarize(*planned("zai-org/AutoGLM-Phone-9B", "8xRTX3090", **ONE_GPU)).table
    assert table is not None
    assert """8 \u00d7 1 GPU, --limit-mm-per-prompt '{"video":0}', --""" in table.rows[1][1]
    assert table.rows[1][4].startswith("videos are rejected; ")


def test_an_uncertain_fit_has_certain_changes() -> None:
    """The range of the remaining memory, and only changes that certainly fit."""
    arguments = ["--gpu-memory-utilization", "0.93"]
    answer, remedies = planned("openai/gpt-oss-120b", "A100-80GB", arguments=arguments)
    lines = shown("openai/gpt-oss-120b", "A100-80GB", arguments=arguments)

    assert answer.fits is None
    assert [remedy.plan.fits for remedy in remedies] == [True] * 3
    assert lines[0].startswith("UNCERTAIN   gpt-oss-120b · 1\u00d7 A100-80GB · ")
    text = " ".join(" ".join(lines[1:3]).split())
    left = r"\d\.\d\d to \d\.\d\d GiB \(\d\.\d\d expected\) is available for the KV cache"
    assert re.match(rf"{left}; one request of 131,072 tokens needs 4\.65", text)


@pytest.fixture
def _without_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the context from the configuration of AutoGLM-Phone-9B, as if its source lacked it."""
    whole = Specs.file

    def file(specs: Specs, name: str) -> ModelFile:
        found = whole(specs, name)
        if name != "zai-org/AutoGLM-Phone-9B":
            return found
        text = {key: value for key, value in found.config["text_config"].items() if key != "max_position_embeddings"}
        return replace(found, config={**found.config, "text_config": text})

    monkeypatch.setattr(Specs, "file", file)


@pytest.mark.usefixtures("_without_context")
def test_an_unknown_context_must_be_given() -> None:
    """No command is printed without a context."""
    lines = shown("zai-org/AutoGLM-Phone-9B", "8xRTX3090")

    assert lines[0] == "UNCERTAIN   AutoGLM-Phone-9B · 8\u00d7 RTX3090 · vLLM 0.33.0"
    assert lines[1].strip() == "Unknown: the longest context: the model's configuration has no max_position_embeddings."
    assert "  Next  Give the model's context: --max-model-len N." in lines
    assert "vllm serve" not in "\n".join(lines)


@pytest.mark.usefixtures("_without_context")
def test_an_uncertain_change_is_not_listed_as_fitting() -> None:
    """With oversized weights and an unknown context, more GPUs may be enough, but not certainly."""
    lines = shown("zai-org/AutoGLM-Phone-9B", "T4")

    assert lines[0].startswith("DOES NOT FIT   AutoGLM-Phone-9B")
    assert "vllm serve" not in "\n".join(lines)
    assert not planned("meta-llama/Llama-3.2-11B-Vision-Instruct", "8xH100-80GB", vllm="0.10.2")[1]


def test_an_unknown_model_is_to_be_measured() -> None:
    """A command that may work is marked as not planned, and its log is the next step."""
    lines = shown("meta-llama/Llama-3.2-11B-Vision-Instruct", "8xH100-80GB", vllm="0.10.2")

    assert lines[0].startswith("UNCERTAIN")
    assert "  Run   lint ✓  not checked by plan" in lines
    assert any("vllm-runbooks plan --from-log startup.log -o mine.json" in line for line in lines)


def test_the_layout_that_lacks_least_is_explained() -> None:
    """Four copies on one GPU each are hopeless: neither the summary nor the details begin with them."""
    answer, _ = planned(*LLAMA)
    text = plain(render_plans.details(answer))

    assert "CLOSEST LAYOUT: TP 4" in text
    assert text.index("  TP 4  ") < text.index("  4 x 1 GPU  ")
    assert "4 x 1 GPU" not in text.partition("CLOSEST LAYOUT")[2]
    assert "COMMAND" not in render_plans.text(answer)
    assert "COMMAND" in render_plans.text(planned("Qwen/Qwen3-8B", "A100-80GB")[0])


def test_no_layout_at_all() -> None:
    """A model of 36 layers is not split into more stages."""
    answer, _ = planned("Qwen/Qwen3-8B", "2xRTX3090")
    assert isinstance(answer, Layouts)
    none = replace(answer, fits=False, layouts=tuple(replace(plan, legal=False) for plan in answer.layouts))
    lines = plain(summary_view(summaries.summarize(none))).split("\n")

    assert lines[1].strip() == "vLLM 0.33.0 rejects every parallel layout on these GPUs."


def test_commands_of_several_hosts_are_short_and_whole() -> None:
    """Each host has its own; variables share a line; the linter reads it as it reads the long form."""
    answer, _ = planned("Qwen/Qwen3-32B", "RTX3090@node1,H800@node2")
    plan = answer.layouts[0] if isinstance(answer, Layouts) else answer
    assert plan.deployment is not None
    text = summaries.short_command(plan)

    assert [line for line in text.splitlines() if line.startswith("#")] == ["# On node1:", "# On node2:"]
    assert max(map(len, text.splitlines())) <= 72
    assert "VLLM_PP_LAYER_PARTITION=13,51 \\\n  CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0\n" in text
    short, whole = (
        checking.lint_text(command, name="run.sh", vllm=VLLM, gpus="RTX3090@node1,H800@node2").deployments
        for command in (text, plan.deployment.command)
    )
    assert [(one.flags, one.env) for one in short] == [(one.flags, one.env) for one in whole]


def test_gpus_of_two_kinds_keep_their_order() -> None:
    """Layers are distributed by GPU, so GPU 0 must be the same in each launch."""
    answer, _ = planned("Qwen/Qwen3-32B", "RTX3090,H800")
    assert isinstance(answer, Layouts)
    plan = answer.layouts[0]
    assert plan.deployment is not None
    assert "VLLM_PP_LAYER_PARTITION" in plan.deployment.env
    text = summaries.short_command(plan)

    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in text
    assert "CUDA_VISIBLE_DEVICES=0,1" in text
    alike = replace(plan, gpus=(replace(plan.gpus[0], count=2),))
    assert "CUDA_DEVICE_ORDER" in summaries.short_command(alike)
    even = replace(alike, deployment=replace(plan.deployment, env={}))
    assert "CUDA_DEVICE_ORDER" not in summaries.short_command(even)
    unlike = replace(even, gpus=plan.gpus)
    assert "CUDA_DEVICE_ORDER" in summaries.short_command(unlike)


@in_one_test("name", ["it's", "a  'b' \"c\"", "\\", "a\\ b", "a\nb", "tab\there's", "# x", "a\\\nb", "x" * 90 + " 'y"])
def test_the_printed_command_is_the_linted_one(name: str) -> None:
    """Words with quotes, backslashes and line ends are the same to a shell in the short form and in the long one."""
    options = {"max_model_len": 8192, "served_model_name": [name, "it's"]}
    plan = planner.plan_model(*QWEN, vllm=VLLM, is_calibrated=False, tp=1, options=options)
    assert plan.deployment is not None
    text = summaries.short_command(plan)
    short, whole = (
        checking.lint_text(command, name="run.sh", vllm=VLLM, gpus=QWEN[1]).deployments[0].flags
        for command in (text, plan.deployment.command)
    )

    assert short == whole
    assert short["served_model_name"] == [name, "it's"]
    assert not [line for line in text.split("\n")[1:] if not line.startswith("  ")]
    view = plain(summary_view(summaries.summarize(plan)))
    assert all(f"        {line}" in view.split("\n") for line in text.split("\n"))


def test_the_mark_of_the_linter_is_its_verdict() -> None:
    """A command that no linter has read is not marked as checked."""
    plan = planner.plan_model(*QWEN, vllm=VLLM, is_calibrated=False, tp=1, options={"max_model_len": 8192})
    marks = []
    for verdict in ("passed", "rejected", "unknown"):
        fix = summaries.summarize(replace(plan, lint=verdict)).fix
        assert fix is not None
        marks.append(dict(fix.checks)["lint"])

    assert plan.lint == "passed"
    assert marks == ["✓", "✗", "\u2013"]
    assert "lint" not in json.loads(to_json(plan))


def test_the_next_question_repeats_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    """How many GPUs are needed depends on them; a secret among them is not repeated."""
    words = ("plan", "deepseek-ai/DeepSeek-V3", "--gpus", "2xRTX3090", "--no-calibration", "--env", "A=it's")
    _, out, _ = run(capsys, *words, "--max-model-len", "8k")
    line = next(line for line in out.replace(" \\\n         ", "").split("\n") if "--find gpus" in line)
    assert line.endswith("""--find gpus --max-model-len 8k --env 'A=it'"'"'s' --no-calibration""")

    _, out, _ = run(capsys, *words, "--api-key", "sk-ours-0123456789abcdef")
    assert "--gpus RTX3090 --find gpus." in out
    assert "0123456789abcdef" not in out


def test_more_gpus_do_not_fix_a_share_that_is_not_free() -> None:
    """The check of free memory fails on each further GPU as well."""
    lines = shown(*QWEN, arguments=["--gpu-memory-utilization", "0.999", "--max-model-len", "2k"])

    assert "check of free memory" in " ".join(" ".join(lines).split())
    assert "--find gpus" not in "\n".join(lines)


def test_each_change_has_a_kind_and_its_costs() -> None:
    """The kind sets the cost for every change."""
    remedies = [*planned(*LLAMA)[1], *planned("Qwen/Qwen3-32B", "2xRTX3090")[1], *planned(*QWEN)[1]]
    remedies += planned("Qwen/Qwen3-8B", "4xRTX3090", tp=3)[1]

    assert {remedy.kind for remedy in remedies} == set(RemedyKind)
    for remedy in remedies:
        assert len(remedy.costs) == len(remedy.changes) + (remedy.kind is not RemedyKind.OPTIONS)
        assert (remedy.kind is RemedyKind.CHECKPOINT) == bool(remedy.checkpoint)
        assert (remedy.kind is RemedyKind.GPUS) == (remedy.gpus is not None)
    unusual = replace(remedies[0], changes={"block_size": 16}, costs=("slower",))
    table = summaries.summarize(planned(*LLAMA)[0], [unusual]).table
    assert table is not None
    assert table.rows[0][1].endswith("--block-size 16")
    assert table.rows[0][4] == "slower"


@in_one_test(
    ("words", "says"),
    [
        (("--find", "context"), r"Longest context: 2\d,\d{3} tokens \(conservative; best case: 40,960\)\. KV "),
        (("--find", "context", "--max-model-len", "20000"), r"Longest context: "),
        (("--find", "utilization", "--max-model-len", "8k"), r"Lowest gpu_memory_utilization: 0\.\d+ \(conservative; "),
        (("--find", "concurrency", "--max-model-len", "8k"), r"Max concurrency: [\d.]+ \(conservative; best case: "),
        (("--find", "gpus"), r"Fewest GPUs: 2\u00d7 RTX3090\. KV cache "),
    ],
)  # fmt: skip
def test_a_question_is_answered_first(words: tuple[str, ...], says: str) -> None:
    """In the same form: state, answer, and the resulting command."""
    request = planner.request(*QWEN, vllm=VLLM, arguments=words[2:], is_calibrated=False)
    answer = planner.find(request, words[1])
    lines = plain(summary_view(summaries.summarize(answer))).split("\n")

    assert lines[0].startswith("FITS     Qwen3-8B · ")
    assert re.match(says, " ".join(" ".join(lines[1:3]).split())), lines
    assert any(line.startswith("        vllm serve Qwen/Qwen3-8B") for line in lines)


def test_a_question_without_an_answer_has_the_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """If the weights do not fit, no context does; shortage and changes are shown."""
    status, out, _ = run(capsys, "plan", "Qwen/Qwen3-32B", "--gpus", "RTX3090", "--find", "context")

    assert status == 1
    assert "The weights need 61.0 GiB, but RTX3090 has 23.7 GiB." in out
    assert "  1  Qwen3-32B-AWQ, " in out
    assert "vllm serve Qwen/Qwen3-32B-AWQ" in out


def test_an_unknown_quantization_is_named_without_a_smaller_checkpoint(tmp_path: Path) -> None:
    """The reason is the method, and a checkpoint that is quantized already is not replaced by a 4-bit one."""
    config = dict(load.specs().file("Qwen/Qwen3-8B").config) | {"quantization_config": {"quant_method": "weirdq"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    lines = shown(str(tmp_path), "RTX4090")

    assert lines[1].strip() == "Cannot calculate the weights (unknown: the quantization method weirdq)."
    assert not any("4-bit checkpoint" in line for line in lines)


def test_a_speech_model_keeps_its_audio() -> None:
    """The only encoder of Voxtral is for audio, so no change rejects it; videos of Qwen2.5-Omni may be rejected."""
    speech = shown("mistralai/Voxtral-Mini-3B-2507", "RTX4090")

    assert "Profiling 1 audio clip of 131,072 tokens runs out of memory before" in speech[1]
    assert "at any gpu_memory_utilization: its activation needs 5128.00 MiB, in" in " ".join(speech)
    assert "--limit-mm-per-prompt" not in "\n".join(speech)
    assert "videos are rejected" in "\n".join(shown("Qwen/Qwen2.5-Omni-7B", "RTX4090"))


def test_more_gpus_than_are_searched_are_the_answer() -> None:
    """The weights of Kimi-K3 need more than the 64 T4s that --find gpus tries, and the answer says so first."""
    text = summaries.summarize(planner.find(planner.request("moonshotai/Kimi-K3", "T4", vllm=VLLM), "gpus")).sentence

    assert text.startswith("Fewest GPUs: more than 64 GPUs, the most that are searched. The weights need 1,453.9 GiB")


@in_one_test("what", ["context", "concurrency", "utilization"])
def test_a_question_without_an_answer_has_the_reason_of_the_plan(what: str) -> None:
    """Of two GPUs, the shortage is that of the layout that lacks least, whether or not something is searched."""
    request = planner.request("Qwen/Qwen2.5-72B-Instruct", "2xRTX4090", vllm=VLLM)
    sentence = summaries.summarize(planner.find(request, what)).sentence

    assert sentence == summaries.summarize(planner.layouts(request)).sentence
    assert sentence == "The weights need 135.6 GiB, but 2 GPUs have 47.3 GiB."


@in_one_test("what", ["context", "concurrency", "utilization"])
def test_an_invalid_layout_has_no_answer(what: str) -> None:
    """Qwen2.5-Coder-0.5B's 14 attention heads are not divisible by 4, so nothing is found for TP 4."""
    answer = planner.find(planner.request("Qwen/Qwen2.5-Coder-0.5B", "4xL40S", vllm=VLLM, tp=4), what)

    assert isinstance(answer, Plan)
    assert answer.fits is False
    assert answer.found is not None
    assert (answer.found.value, answer.found.low, answer.found.high) == (None, None, None)
    assert answer.found.reasons == ("14 attention heads cannot be split over 4 ranks",)


@pytest.mark.usefixtures("_without_context")
def test_the_smallest_gpu_and_an_unknown_limit_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    """Notes on the answer are after the command, the rest with `--explain`."""
    _, out, _ = run(capsys, "plan", "Qwen/Qwen3-32B", "--gpus", "RTX3090", "--find", "gpus")
    assert "  Note  Smallest single GPU: H100-NVL" in out
    assert "TP 3 PP 1" not in out
    assert "CUDA_VISIBLE_DEVICES names" not in out

    _, out, _ = run(capsys, "plan", "zai-org/AutoGLM-Phone-9B", "--gpus", "2xRTX3090", "--find", "context")
    assert "  Note  The model's own longest context is unknown" in out


def test_explain_shows_everything_after_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """Terms, layouts, sources, limits and calibration; the last line of a summary points to it."""
    words = ("plan", "Qwen/Qwen3-8B", "--gpus", "2xRTX3090", "--vllm", VLLM)
    _, brief, _ = run(capsys, *words)
    status, whole, _ = run(capsys, *words, "--explain")

    assert status == 0
    assert brief.rstrip().endswith("--explain")
    assert whole.startswith(brief.rpartition("\n\n")[0])
    for part in (
        "LAYOUT  ",
        "BEST LAYOUT: ",
        "  GiB  ",
        "KV CACHE",
        "DEFAULTS OF THIS RELEASE",
        "SPEED",
        "CALIBRATION",
    ):
        assert part in whole
        assert part not in brief
    assert "COMMAND" not in whole
    assert "--explain" not in whole
    found = run(capsys, *words, "--find", "gpus", "--explain")[1]
    assert "  - TP 2 PP 1\n" in found


def test_json_is_the_same_with_and_without_explain(capsys: pytest.CaptureFixture[str]) -> None:
    """The document has the fitting changes either way."""
    words = ("plan", *QWEN[:1], "--gpus", QWEN[1], "--format", "json")
    status, out, _ = run(capsys, *words)

    assert status == 1
    assert run(capsys, *words, "--explain") == (1, out, "")
    assert json.loads(out)["remedies"]


@pytest.mark.parametrize(
    "words",
    [
        ("Qwen/Qwen3-8B", "--gpus", "2xRTX3090"),
        ("Qwen/Qwen3-8B", "--gpus", "RTX3090"),
        ("Qwen/Qwen3-32B", "--gpus", "RTX3090", "--tp", "1"),
        ("openai/gpt-oss-120b", "--gpus", "A10"),
        ("Qwen/Qwen3-8B", "--gpus", "RTX3090", "--find", "gpus"),
        ("Qwen/Qwen3-4B", "--gpus", "2xcpu-64GB", "--env", "VLLM_CPU_KVCACHE_SPACE=1"),
        ("Qwen/Qwen2.5-VL-32B-Instruct", "--gpus", "2xRTX3090", "--vllm", "0.16.0"),
    ],
)
def test_json_says_what_the_text_says(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    """Verdict, reason, every change with its cost and command, the command to run, and the notes."""
    status, out, _ = run(capsys, "plan", *words, "--offline")
    document = json.loads(run(capsys, "plan", *words, "--offline", "--format", "json")[1])
    text, lines = " ".join(out.split()), [line.strip() for line in out.splitlines()]

    assert out.startswith(document["verdict"])
    assert document["summary"] in text
    assert (document["fits"] is True) is (status == 0)
    assert ("run" in document) is any(line.startswith("Run") for line in lines)
    if "run" in document:
        assert all(line.strip() in lines for line in document["run"]["command"].splitlines())
        checks = [f"{name} ✓" for name, state in document["run"]["checks"].items() if state == "passed"]
        assert all(check in text for check in checks)
    for number, remedy in enumerate(document["remedies"], 1):
        row = next(line for line in lines if line.startswith(f"{number}  "))
        assert remedy["title"].split()[0] in row
        assert f"{remedy['context']:,}" in row
        assert all(word in text for word in f"{remedy['title']} {remedy['cost']}".split())
        assert (remedy["command"] is None) is (remedy["checkpoint"] is not None and "/" not in remedy["checkpoint"])
    assert sum(line.startswith(("Note ", "Next ")) for line in lines) == len(document["notes"])
    assert all(" ".join(note["text"].split())[:60] in text for note in document["notes"])
    assert not any("verdict" in layout for layout in document.get("layouts", ()))


def test_a_log_is_compared_in_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    """Verdict, subject and figures; notes with `--explain`."""
    words = ("plan", "--from-log", "gpt-oss-gemma-a100-four-starts", "--gpus", "A100-80GB")
    status, out, _ = run(capsys, *words)
    lines = out.split("\n")

    assert status == 0
    assert lines[0] == "AS PLANNED   gpt-oss-gemma-a100-four-starts · A100-80GB"
    assert lines[1].strip().endswith("reported values are within the planned range.")
    assert any(re.match(r"  weights +58\.\d\d  58\.\d\d to 5\d\.\d\d +58\.90 +[+-]0\.\d\d$", line) for line in lines)
    assert "FOR CALIBRATION" not in out
    assert "FOR CALIBRATION" in run(capsys, *words, "--explain")[1]
    document = json.loads(run(capsys, *words, "--format", "json")[1])
    assert (document["verdict"], document["summary"]) == ("AS PLANNED", lines[1].strip())


def test_a_log_without_a_gpu_is_not_compared_silently(capsys: pytest.CaptureFixture[str]) -> None:
    """The first lines say that the KV cache, which needs the GPU's memory, is not compared, and what to add."""
    status, out, _ = run(capsys, "plan", "--from-log", "gpt-oss-gemma-a100-four-starts")
    first = " ".join(out.split("\n\n")[0].split())

    assert status == 0
    assert first.startswith("AS PLANNED ")
    assert first.endswith("within the planned range; KV cache not compared: use --gpus.")


@in_one_test(
    ("compared", "sentence"),
    [
        ({}, "1 reported value is within the planned range"),
        ({"cache": (None, 4.9)}, "1 reported value is within the planned range; KV cache not compared"),
        ({"cache": (4.8, 4.9)}, "2 reported values are within the planned range"),
        ({"cache": (4.8, None)}, "1 reported value is within the planned range"),
        ({"missing": ("the launch options: the log does not print them; use --command",)},
         "1 reported value is within the planned range; KV cache not compared: use --command"),
        ({"cache": (4.8, 4.9), "missing": ("x; use --gpus",)}, "2 reported values are within the planned range"),
    ],
)  # fmt: skip
def test_a_comparison_names_a_kv_cache_that_it_lacks(compared: dict[str, Any], sentence: str) -> None:
    """If the plan or the log lacks its inputs, with the option that supplies them."""
    weights = ComparedTerm("weights", 1.0, 0.9, 1.1, 1.0, "")
    planned, actual = compared.get("cache", (None, None))
    terms = (weights, ComparedTerm("kv_cache", planned, planned, planned, actual, ""))
    comparison = PlanComparison(terms, None, compared.get("missing", ()))
    assert str(plan_words.compared_headline(comparison)) == f"as planned: {sentence}"


@in_one_test(
    ("compared", "state", "tone"),
    [
        (PlanComparison((ComparedTerm("weights", 1.0, 0.9, 1.1, 2.0, ""),), "weights"), "OFF", Tone.BAD),
        (PlanComparison((), None, ("the release",)), "NOT COMPARED", Tone.WARN),
    ],
)
def test_a_log_that_is_off_or_prints_nothing(compared: PlanComparison, state: str, tone: Tone) -> None:
    """Red if a term is off, amber if nothing can be compared."""
    summary = summaries.summarize_comparison(compared, ("x.log", ""))

    assert (summary.state, summary.tone, summary.about) == (state, tone, ("x.log",))
    assert (summary.table is None) == (not compared.terms)


@in_one_test(
    ("model", "gpus"),
    [LLAMA, QWEN, ("openai/gpt-oss-120b", "A100-80GB"), ("Qwen/Qwen2.5-VL-72B-Instruct", "8xRTX3090")],
)
def test_a_summary_keeps_to_its_width(model: str, gpus: str) -> None:
    """At 80 and 140 columns no line is wider than its terminal or 100 columns, and none ends in blanks."""
    blocks = summary_view(summaries.summarize(*planned(model, gpus)))
    for width in (None, 80, 140):
        lines = [str(line) for line in laid_out(blocks, Layout(table=width))]
        assert max(map(len, lines)) <= min(width or WIDEST, WIDEST), lines
        assert [line for line in lines if line != line.rstrip()] == []
        assert len(lines) <= 24


def test_hostile_names_stay_in_their_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder's name cannot control the terminal."""
    folder = tmp_path / "\x1b[31mred\u202e Run"
    folder.mkdir()
    config = Path(__file__).parents[2] / "catalog/models/Qwen/Qwen3-8B.yaml"
    assert config.exists()
    from vllm_runbooks.catalog import load

    (folder / "config.json").write_text(json.dumps(dict(load.specs().file("Qwen/Qwen3-8B").config)))
    status, out, _ = run(capsys, "plan", str(folder), "--gpus", "RTX3090")

    assert status == 1
    assert not {"\x1b", "\u202e", "\r"} & set(out)
    assert visible(out) == out


def test_a_secret_of_the_command_line_is_not_repeated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line that leads to the details names the option alone."""
    words = ["plan", *QWEN[:1], "--gpus", QWEN[1], "--api-key", "sk-ours-0123456789abcdef"]
    monkeypatch.setattr(sys, "argv", ["vllm-runbooks", *words])
    _, out, _ = run(capsys, *words)

    assert "0123456789abcdef" not in out
    assert out.rstrip().endswith("sources: add --explain")


def test_a_slow_command_reports_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a second, on a terminal; never into a pipe, and not if it was quicker."""
    from threading import Event

    said = Event()
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        said.set()

    monkeypatch.setattr(output, "say", say)
    monkeypatch.setattr(terminal, "_PATIENCE_S", 0.01)
    with terminal.waiting("planning"):
        assert not said.wait(0.05)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with terminal.waiting("planning"):
        assert said.wait(10)
    assert lines == ["planning …"]
    monkeypatch.setattr(terminal, "_PATIENCE_S", 60)
    with terminal.waiting("planning"):
        pass
    assert lines == ["planning …"]


def test_a_table_is_as_wide_as_its_summary() -> None:
    """Its note is below, and a state of any length fits."""
    table = SummaryTable(("", "what"), (("1", "word " * 40),), frozenset((0,)), "* note")
    lines = plain(summary_view(Summary("A LONG STATE", Tone.BAD, ("a",), "Why.", table=table))).split("\n")

    assert lines[:2] == ["A LONG STATE   a", "               Why."]
    assert lines[-1] == "  * note"
    assert max(map(len, lines)) <= WIDEST


def test_options_in_a_narrow_table_are_whole() -> None:
    """In 80 columns a cell breaks between words: an option that is cut cannot be copied."""
    options = {"max_num_batched_tokens": 300_000, "max_num_seqs": 2000}
    answer, remedies = planned("Qwen/Qwen3-4B", "RTX3090", options=options)
    lines = list(map(str, laid_out(summary_view(summaries.summarize(answer, remedies)), Layout(table=80, cut=80))))
    assert max(map(len, lines)) <= 80
    words = " ".join(lines).split()
    for remedy in remedies:
        assert all(as_option(name, value).split()[0] in words for name, value in remedy.changes.items())
    assert words.count("--max-num-batched-tokens") >= 2


def test_the_page_on_planning_shows_real_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sample equals the output of its command."""
    page = (Path(__file__).parents[2] / "docs" / "planning.md").read_text()
    found = re.search(r"\$ vllm-runbooks (plan [^\n]*--vllm 0\.33\.0)\n(FITS AT.*?)\n```", page, re.DOTALL)
    assert found is not None
    words = found[1].split()
    monkeypatch.setattr(sys, "argv", ["vllm-runbooks", *words])

    assert run(capsys, *words)[1].rstrip() == found[2]


def test_the_subject_of_a_summary_leaves_room_for_a_line_break() -> None:
    """The backslash at the end of a line counts, and every part stays whole."""
    for size in range(20, 40):
        summary = Summary("DOES NOT FIT", Tone.BAD, ("m" * size, "g" * 20, "vLLM 0.33.0"))
        lines = [str(line) for line in laid_out(summary_view(summary), Layout(table=60))]
        assert max(map(len, lines)) <= 60
        assert " ".join(" ".join(lines).split()) == f"DOES NOT FIT {'m' * size} · {'g' * 20} · vLLM 0.33.0"


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("Qwen/Qwen3-8B", "--gpus", "1xRTX4090", "--max-model-len", "4096", "--max-num-seqs", "1"), "1"),
        (("Qwen/Qwen2.5-32B-Instruct", "--gpus", "8xRTX3090", "--max-model-len", "8192", "--max-num-seqs", "2"), "4"),
    ],
)
def test_concurrency_is_limited_by_the_scheduler(
    words: tuple[str, ...], count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--max-num-seqs` of each server limits it, and the room in the cache is printed as well."""
    status, out, _ = run(capsys, "plan", *words)
    text = " ".join(out.split())

    assert status == 0

    assert f": {count} concurrent requests of " in text
    assert "limited by --max-num-seqs (the KV cache fits " in text


def test_written_files_are_the_next_step(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """After `--deploy` the summary does not advise it again."""
    words = ("plan", "Qwen/Qwen3-8B", "--gpus", "4xRTX4090", "--max-model-len", "4096")
    _, before, _ = run(capsys, *words)
    _, after, _ = run(capsys, *words, "--deploy", str(tmp_path / "made"))
    text = " ".join(after.split())

    assert "add --deploy DIR" in before
    assert "--deploy DIR" not in after
    assert f"Next Run {tmp_path / 'made'}/start.sh, then check the servers with" in text
    assert (tmp_path / "made" / "verify.txt").is_file()


def test_a_gpu_without_a_compared_launch_is_named() -> None:
    """If the model fits: a plan for such a GPU rests on launches on others."""
    said = "No launch on A6000 was compared with a plan."

    for gpus in ("A6000", "2xA6000"):  # FITS AT a shorter context, and FITS
        assert said in " ".join(" ".join(shown("Qwen/Qwen3-8B", gpus)).split())
    assert "No launch on" not in " ".join(shown(*QWEN))
    assert "No launch on" not in " ".join(shown("meta-llama/Llama-3.3-70B-Instruct", "A6000"))


def test_no_search_for_gpus_of_unknown_memory_is_suggested() -> None:
    """It could not compute their number."""
    lines = shown("deepseek-ai/DeepSeek-V3.1", "MI300X", tp=1)

    assert lines[0].startswith("DOES NOT FIT")
    assert "--find gpus" not in "".join(lines)
    assert "--find gpus" in "".join(shown("deepseek-ai/DeepSeek-V3.1", "H100-80GB", tp=1))


def test_of_many_equal_hosts_the_first_is_named() -> None:
    """The headline stays short for any number of hosts, and lists a few with their names."""
    names = ",".join(f"RTX3090@host-{number:03}" for number in range(1, 13))
    many, few = (
        " ".join(" ".join(shown("Qwen/Qwen3-8B", gpus, tp=1, pp=pp)[:3]).split())
        for gpus, pp in ((names, 12), ("RTX3090@a,RTX3090@b", 2))
    )

    assert "RTX3090 (each of host-001 and 11 more)" in many
    assert "host-002" not in many
    assert re.search(r"RTX3090 \(a\) \+ \S{1,4} RTX3090 \(b\)", few)


@pytest.mark.parametrize(
    ("gpus", "headline"),
    [
        (
            "A100-80GB,H100,A100-80GB,L4,T4,A100-80GB",
            "3\u00d7 A100-80GB + 1\u00d7 H100-80GB + 1\u00d7 L4 + 1\u00d7 T4 ·",
        ),
        ("L4@a,T4@a,L4@a,L4@b,T4@b,L4@b", "2\u00d7 L4 (each of a and 1 more) + 1\u00d7 T4 (each of a and 1 more) ·"),
    ],
)
def test_equal_gpus_of_one_host_are_counted(gpus: str, headline: str) -> None:
    """GPUs in a mixed order are one item of the headline, and a host counts once."""
    assert headline in " ".join(" ".join(shown("Qwen/Qwen3-0.6B", gpus)[:3]).split())
