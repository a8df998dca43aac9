"""Fixes that follow from the reasons vLLM lists for each attention backend."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks.core.records import Answer, Edit
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.backend_reasons import rejecting_backends
from vllm_runbooks.reading import sources

DRAFT = '  File "/opt/vllm/v1/worker/gpu/spec_decode/eagle/speculator.py", line 81, in load_draft_model\n    load()\n'
TARGET = '  File "/opt/vllm/model_executor/models/acme.py", line 81, in __init__\n    load()\n'
NONE_FOUND = (
    "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=64). Reasons: "
)
KV_DTYPE = "{FLASH_ATTN: [kv_cache_dtype not supported], TRITON_ATTN: [kv_cache_dtype not supported, sliding window]}."
SPARSE = (
    "{FLASHMLA: [sparse not supported, FlashMLA Sparse is only supported on Hopper and Blackwell DC devices.], "
    "TRITON_MLA: [sparse not supported], FLASHMLA_SPARSE: [compute capability not supported]}."
)


def answer(
    tmp_path: Path, error: str, arguments: dict[str, Any], *, frames: str = TARGET, gpus: str | None = None
) -> Answer:
    log = tmp_path / "start.log"
    log.write_text(
        "INFO 11-20 09:14:02 [api_server.py:1212] vLLM API server version 0.26.0\n"
        f"INFO 11-20 09:14:02 [utils.py:278] non-default args: {arguments}\n"
        f"Traceback (most recent call last):\n{frames}{error}\n",
        encoding="utf-8",
    )
    return diagnosing.diagnose(sources.load_files([str(log)]), gpus=gpus)


@in_one_test(
    ("reasons", "captures"),
    [
        (KV_DTYPE, {"rejects_kv_cache_dtype": "FLASH_ATTN"}),
        (SPARSE, {"gpu_backends": "FLASHMLA_SPARSE", "gpu_kinds": "Hopper and Blackwell DC devices"}),
        ("{A_B: [compute capability not supported], C_D: []}.", {"gpu_backends": "A_B"}),
        (
            "{A_B: [A_B requires FlashInfer's sparse MLA decode API], C_D: [MLA not supported]}.",
            {"flashinfer_backends": "A_B"},
        ),
        ("{A_B: [block_size not supported], C_D: [", {"rejects_block_size": "A_B"}),
        ("{}.", {}),
        ("none listed", {}),
    ],
)
def test_what_the_listed_reasons_mean(reasons: str, captures: dict[str, str]) -> None:
    assert dict(rejecting_backends(NONE_FOUND + reasons)) == captures


def test_a_rejected_cache_type_of_the_target_is_changed(tmp_path: Path) -> None:
    given = answer(tmp_path, NONE_FOUND + KV_DTYPE, {"model": "a", "kv_cache_dtype": "fp8_ds_mla"})

    assert given.remedies[0].edits == (Edit("set", "kv_cache_dtype", "auto"),)
    assert "for FLASH_ATTN" in given.remedies[0].title


SELECTED = (
    "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=256, "
    "dtype=torch.bfloat16, kv_cache_dtype={kv}, block_size={block}, use_mla=False, has_sink=False, use_sparse=False, "
    "use_mm_prefix=False, use_per_head_quant_scales=False, attn_type=AttentionType.DECODER, has_sliding_window=False, "
    "use_non_causal=False, use_batch_invariant=False, use_kv_connector=False, use_adaptive_verification=False, "
    "use_pcp=False, use_dcp=False, use_rswa=False). Reasons: {{FLASH_ATTN: [{option} not supported], "
    "TRITON_ATTN: [{option} not supported], FLEX_ATTENTION: [{option} not supported]}}."
)


@pytest.mark.parametrize(
    ("option", "arguments", "first"),
    [
        ("block_size", {}, Edit("remove", "block_size")),
        ("block_size", {"block_size": 106}, Edit("remove", "block_size")),
        ("kv_cache_dtype", {}, Edit("remove", "kv_cache_dtype")),
        ("kv_cache_dtype", {"kv_cache_dtype": "nvfp4"}, Edit("set", "kv_cache_dtype", "auto")),
        ("kv_cache_dtype", {"block_size": 16}, Edit("set", "kv_cache_dtype", "bfloat16")),
    ],
)
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_the_option_that_rules_all_backends_out_is_changed(
    tmp_path: Path, option: str, arguments: dict[str, Any], first: Edit, *, is_wrapped: bool
) -> None:
    """However long the message, wrapped or not; a checkpoint's own cache dtype is overridden by name."""
    error = SELECTED.format(kv="nvfp4", block=106, option=option)
    if is_wrapped:
        error = "\n".join(textwrap.wrap(error, 160, break_long_words=False))
    log = tmp_path / "start.log"
    head = f"INFO 11-20 09:14:02 [utils.py:278] non-default args: {arguments}\n" if arguments else ""
    log.write_text(f"{head}Traceback (most recent call last):\n{TARGET}{error}\n", encoding="utf-8")

    remedies = diagnosing.diagnose(sources.load_files([str(log)])).remedies

    assert remedies[0].edits == (first,)


@pytest.mark.parametrize(
    ("gpus", "dtype", "expected"),
    [
        ("T4", "float32", ["half"]),
        ("T4", "float16", []),
        ("A100-40GB,T4", "float32", ["half"]),
        ("A100-40GB", "float32", ["bfloat16"]),
        ("A100-40GB", "bfloat16", []),
        ("MI300X", "float32", ["bfloat16"]),
        (None, "float32", ["bfloat16"]),
    ],
)
def test_a_data_type_that_the_gpu_supports_is_offered(
    tmp_path: Path, gpus: str | None, dtype: str, expected: list[str]
) -> None:
    """NVIDIA GPUs below compute capability 8.0 have no bfloat16."""
    error = NONE_FOUND.replace("64", f"64, dtype=torch.{dtype}") + "{FLASH_ATTN: [dtype not supported]}."
    given = answer(tmp_path, error, {"model": "a", "dtype": dtype}, gpus=gpus)

    offered = [edit.value for remedy in given.remedies for edit in remedy.edits if edit.name == "dtype"]
    assert offered == expected


def test_a_draft_that_no_backend_serves_is_left_out_first(tmp_path: Path) -> None:
    given = answer(tmp_path, NONE_FOUND + KV_DTYPE, {"speculative_config": {"method": "eagle"}}, frames=DRAFT)

    assert given.remedies[0].edits == (Edit("remove", "speculative_config"),)


def test_only_another_gpu_has_the_backend(tmp_path: Path) -> None:
    """No option is offered that the message rules out."""
    given = answer(tmp_path, NONE_FOUND + SPARSE, {"block_size": 64, "attention_backend": "TRITON_MLA"})

    assert given.remedies[0].title == "Use Hopper and Blackwell DC devices for FLASHMLA_SPARSE"
    assert not any(remedy.edits for remedy in given.remedies)


@pytest.mark.parametrize("option", ["block_size", "kv_cache_dtype"])
def test_an_option_is_kept_if_another_reason_remains(tmp_path: Path, option: str) -> None:
    reasons = f"{{FLASH_ATTN: [{option} not supported, sliding window not supported]}}."
    given = answer(tmp_path, NONE_FOUND + reasons, {option: 64})

    assert not any(edit.name == option for remedy in given.remedies for edit in remedy.edits)
