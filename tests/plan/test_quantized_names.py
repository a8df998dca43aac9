"""Names of quantized checkpoints that the catalog lacks."""

from __future__ import annotations

import pytest

from vllm_runbooks.catalog import load
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.budget import subject_by_name
from vllm_runbooks.plan.hub import HubAccess

ENDINGS = {
    "acme/Qwen3-8B-FP8-Dynamic": ("compressed-tensors", 8, 0, "channel"),
    "acme/Qwen3-8B-fp8": ("compressed-tensors", 8, 0, "channel"),
    "acme/Qwen3-8B-FP8-block": ("fp8", 8, 0, "block"),
    "acme/Qwen3-8B-quantized.w4a16": ("compressed-tensors", 4, 128, "group"),
    "acme/Qwen3-8B-quantized.w8a8": ("compressed-tensors", 8, 0, "channel"),
    "acme/Qwen3-8B-W8A16": ("compressed-tensors", 8, 128, "group"),
    "acme/Qwen3-8B-AWQ-4bit": ("awq", 4, 128, "group"),
    "acme/Qwen3-8B-GPTQ-Int4": ("gptq", 4, 128, "group"),
    "acme/Qwen3-8B-GPTQ-Int8": ("gptq", 8, 128, "group"),
    "acme/Qwen3-8B-NVFP4": ("modelopt", 4, 16, "group"),
    "acme/Qwen3-8B-bnb-4bit": ("bitsandbytes", 4, 64, "group"),
    "acme/Qwen3-8B-INT8": ("compressed-tensors", 8, 0, "channel"),
    "acme/Qwen3-8B-MXFP4": ("compressed-tensors", 4, 32, "group"),
    "acme/Qwen3-8B-MXFP8": ("compressed-tensors", 8, 32, "group"),
    "acme/Qwen3-8B-INT4": ("compressed-tensors", 4, 128, "group"),
    "acme/Qwen3-8B-AWQ-INT4": ("awq", 4, 128, "group"),
    "acme/Qwen3-8B-NVFP4A16": ("modelopt", 4, 16, "group"),
    "acme/Qwen3-8B-NVFP4-MTP": ("modelopt", 4, 16, "group"),
    "acme/Qwen3-8B-int4-AutoRound": ("gptq", 4, 128, "group"),
    "acme/Qwen3-8B-autoround-W4A16": ("gptq", 4, 128, "group"),
    "acme/Qwen3-8B-AutoRound": ("gptq", 4, 128, "group"),
    "acme/Qwen3-8B-qat-w4a16-ct": ("compressed-tensors", 4, 32, "group"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_name_is_planned_with_its_usual_layout(name: str) -> None:
    """The layers are the base's; the source names the base and the assumed layout."""
    made = planner.model(name, access=HubAccess.NONE)
    found = made.shape.quantization
    assert found is not None
    form = found.formats[0][1]
    assert (found.method, form.bits, form.group, form.strategy) == ENDINGS[name]
    base = planner.model("Qwen/Qwen3-8B")
    assert (made.shape.layers, made.shape.hidden_size) == (base.shape.layers, base.shape.hidden_size)
    assert made.source is not None
    assert made.source.startswith("the configuration of Qwen/Qwen3-8B and the usual layout for this name: ")


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B-FP8-FP8", "acme/Qwen3-8B-AWQ-NVFP4"])
def test_a_checkpoint_is_not_quantized_twice(name: str) -> None:
    """A name with two endings is an unknown model."""
    with pytest.raises(InputError, match="unknown model"):
        planner.model(name, access=HubAccess.NONE)


def test_the_layout_decides_the_weights() -> None:
    """An eighth of a byte per bit and weight, and the scales; embeddings and the LM head are in 16 bits."""

    def gib(name: str) -> float:
        plan = planner.plan_model(name, "H100", tp=1, access="none")
        return next(term.expected_gib or 0.0 for term in plan.per_gpu[0].terms if term.name == "weights")

    ends = 2 * 151_936 * 4096 * 2 / 2**30
    linear = gib("Qwen/Qwen3-8B") - ends
    assert gib("acme/Qwen3-8B-FP8") - ends == pytest.approx(linear / 2, rel=0.01)
    assert gib("acme/Qwen3-8B-AWQ") - ends == pytest.approx(linear * (4 + 20 / 128) / 16, rel=0.02)
    assert gib("acme/Qwen3-8B-NVFP4") - ends == pytest.approx(linear * (4 + 8 / 16) / 16, rel=0.02)
    assert gib("acme/Qwen3-8B-MXFP4") - ends == pytest.approx(linear * (4 + 8 / 32) / 16, rel=0.02)
    assert gib("acme/Qwen3-8B-MXFP8") - ends == pytest.approx(linear * (8 + 8 / 32) / 16, rel=0.02)
    assert gib("acme/Qwen3-8B-INT4") - ends == pytest.approx(linear * (4 + 16 / 128) / 16, rel=0.02)
    assert gib("acme/Qwen3-8B-qat-w4a16-ct") - ends == pytest.approx(linear * (4 + 16 / 32) / 16, rel=0.02)


def test_an_organization_quantizes_as_its_other_checkpoints() -> None:
    """Qwen's FP8 has blocks and includes linear attention: the log of `Qwen/Qwen3.8-27B-FP8` prints 28.51 GiB."""

    def gib(name: str) -> float:
        plan = planner.plan_model(name, "H100", tp=1, access="none")
        return next(term.expected_gib or 0.0 for term in plan.per_gpu[0].terms if term.name == "weights")

    assert gib("Qwen/Qwen3.8-27B-FP8") == pytest.approx(28.51, rel=0.01)
    assert gib("acme/Qwen3.8-27B-FP8") > 33


def test_a_name_that_the_catalog_has_is_not_assumed() -> None:
    """An entry of a quantized checkpoint has its own quantization; other endings stay unknown."""
    known = planner.model("nvidia/Qwen3.6-27B-NVFP4", access=HubAccess.NONE)
    assert not known.is_assumed
    assert subject_by_name("acme/Qwen3-8B-Q4", load.specs()) is None
    assert subject_by_name("acme/Qwen3-8B-INT3", load.specs()) is None
    assert subject_by_name("acme/Nothing-8B-AWQ", load.specs()) is None
    with pytest.raises(InputError, match="unknown model"):
        planner.model("acme/Nothing-8B-AWQ", access=HubAccess.NONE)


def test_names_of_llama_have_a_prefix() -> None:
    """`Meta-Llama-3.1-70B-Instruct` was renamed without its first word."""
    made = planner.model("acme/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", access=HubAccess.NONE)
    assert made.source is not None
    assert "meta-llama/Llama-3.1-70B-Instruct" in made.source
