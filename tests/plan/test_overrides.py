"""Overrides change a part of a model's configuration and leave the rest."""

from __future__ import annotations

from vllm_runbooks.plan import actual
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
