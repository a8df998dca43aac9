"""What a start changes of a model's configuration leaves the rest of the model as it was."""

from __future__ import annotations

from vllm_runbooks.plan import actual
from vllm_runbooks.plan.budget import subject

CONFIG = {
    "architectures": ["Qwen2VLForConditionalGeneration"],
    "model_type": "qwen2_vl",
    "text_config": {"num_hidden_layers": 28, "hidden_size": 1536, "rope_scaling": {"type": "mrope", "factor": 1.0}},
}


def test_overrides_change_what_they_name_alone() -> None:
    """Of a nested configuration the keys that are not named stay, at any depth; the given one is not changed."""
    model = subject("ours", CONFIG)
    change = {"text_config": {"num_hidden_layers": 2, "rope_scaling": {"factor": 4.0}}, "architectures": ["Other"]}
    found = actual.overridden(model, {"hf_overrides": change})

    assert found.config == {
        "architectures": ["Other"],
        "model_type": "qwen2_vl",
        "text_config": {"num_hidden_layers": 2, "hidden_size": 1536, "rope_scaling": {"type": "mrope", "factor": 4.0}},
    }
    assert model.config["text_config"]["num_hidden_layers"] == 28


def test_overrides_keep_what_is_known_of_the_files() -> None:
    """Size, source and whether the configuration is whole are the model's, whatever a start overrides."""
    model = subject("ours", CONFIG, is_partial=True, source="https://ours.example/config.json", checkpoint_bytes=77)
    found = actual.overridden(model, {"hf_overrides": {"model_type": "qwen2_vl"}})

    assert (found.is_partial, found.source, found.checkpoint_bytes) == (True, model.source, 77)
    assert found.shape == model.shape


def test_without_overrides_the_model_is_the_same() -> None:
    """Nothing is read twice."""
    model = subject("ours", CONFIG)
    assert actual.overridden(model, {}) is model
