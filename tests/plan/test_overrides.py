"""Overrides change a part of a model's configuration and leave the rest."""

from __future__ import annotations

import re
from typing import Any

import pytest

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan import actual, planner
from vllm_runbooks.plan.budget import subject

CONFIG = {
    "architectures": ["Qwen2VLForConditionalGeneration"],
    "model_type": "qwen2_vl",
    "text_config": {"num_hidden_layers": 28, "hidden_size": 1536, "rope_scaling": {"type": "mrope", "factor": 1.0}},
}


def test_overrides_change_only_their_keys() -> None:
    """Other keys of a nested configuration stay at any depth, and the input is not modified."""
    model = subject("ours", CONFIG)
    change = {"text_config": {"num_hidden_layers": 2, "rope_scaling": {"factor": 4.0}}, "architectures": ["Other"]}
    found = actual.overridden(model, {"hf_overrides": change})

    assert found.config == {
        "architectures": ["Other"],
        "model_type": "qwen2_vl",
        "text_config": {"num_hidden_layers": 2, "hidden_size": 1536, "rope_scaling": {"type": "mrope", "factor": 4.0}},
    }
    assert model.config["text_config"]["num_hidden_layers"] == 28


def test_overrides_keep_the_facts_about_files() -> None:
    """Size, source and completeness stay those of the model."""
    model = subject("ours", CONFIG, is_partial=True, source="https://ours.example/config.json", checkpoint_bytes=77)
    found = actual.overridden(model, {"hf_overrides": {"model_type": "qwen2_vl"}})

    assert (found.is_partial, found.source, found.checkpoint_bytes) == (True, model.source, 77)
    assert found.shape == model.shape


def test_without_overrides_the_model_is_the_same() -> None:
    """Nothing is read twice."""
    model = subject("ours", CONFIG)
    assert actual.overridden(model, {}) is model


YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


@pytest.mark.parametrize("release", ["0.6.6", "0.8.5", "0.11.0"])
@pytest.mark.parametrize("options", [{"rope_scaling": YARN}, {"hf_overrides": {"rope_scaling": YARN}}])
def test_a_scaled_context_is_the_models_own(release: str, options: dict[str, Any]) -> None:
    """`--rope-scaling` of older releases extends the context like the same field of `--hf-overrides`."""
    found = planner.plan_model(
        "Qwen/Qwen2.5-7B-Instruct", "H100-80GB", vllm=release, options={**options, "max_model_len": 131_072}
    )
    assert found.fits
    beyond = planner.plan_model(
        "Qwen/Qwen2.5-7B-Instruct", "H100-80GB", vllm=release, options={**options, "max_model_len": 131_073}
    )
    assert beyond.limits[0].startswith("--max-model-len 131073 is more than the 131072 tokens")


@pytest.mark.parametrize(
    ("name", "gpus", "line"),
    [
        ("Qwen/Qwen3-8B", 3, "gpus: must be text, such as '2xH100'; got 3"),
        (None, "H100", "name: must be text, such as 'Qwen/Qwen3-8B'; got None"),
    ],
)
def test_an_argument_of_another_type_is_one_line(name: Any, gpus: Any, line: str) -> None:
    """In Python too, a wrong argument is an error that names it and an example."""
    with pytest.raises(InputError, match=f"^{re.escape(line)}$"):
        planner.plan_model(name, gpus)


def test_a_scaling_of_an_unknown_type_is_uncertain() -> None:
    """A mistyped type, with which vLLM ends with "Unknown RoPE scaling type", is never said to fit."""
    given = {"rope_scaling": {"rope_type": "nosuch", "factor": 4}}
    found = planner.plan_model("Qwen/Qwen3-8B", "H100-80GB", vllm="0.10.2", options=given)
    assert (found.fits, found.missing) == (None, ("the RoPE type nosuch",))


def test_a_scaling_of_another_kind_replaces_the_models() -> None:
    """`rope_scaling` is a field with a value of several parts, which vLLM replaces as a whole."""
    given = {"hf_overrides": {"rope_scaling": {**YARN, "original_max_position_embeddings": 131_072}}}
    found = planner.plan_model("meta-llama/Llama-3.1-8B-Instruct", "H100-80GB", vllm="0.16.0", options=given)
    assert found.options["max_model_len"] == 524_288
