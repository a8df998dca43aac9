"""Embedding and reranking models: no KV cache, no LM head, no sampler."""

from __future__ import annotations

from typing import Any

import pytest

from command_line import run
from test_budget import planned
from vllm_runbooks.plan.shape import Attention, shape

RELEASE = "0.33.0"
BERT: dict[str, Any] = {
    "architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta", "hidden_size": 1024, "intermediate_size": 4096,
    "num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 250_002, "max_position_embeddings": 8194,
    "type_vocab_size": 1,
}  # fmt: skip


def test_an_encoder_only_model_fits_without_a_cache() -> None:
    """It fits where its weights and activation do, however little the utilization leaves."""
    for share in (0.92, 0.1):
        found = planned("BAAI/bge-m3", RELEASE, {"gpu_memory_utilization": share}, "RTX3090")
        assert (found.fits, found.pool, found.has_cache, found.limits) == (True, None, False, ())


@pytest.mark.parametrize(
    ("find", "expected"),
    [
        ("context", "Longest context: 8,192 tokens."),
        ("gpus", "Fewest GPUs: 1\u00d7 RTX3090."),
        ("concurrency", "Max concurrency: none: the model has no KV cache: only max_num_seqs limits it."),
    ],
)
def test_a_search_says_what_limits_it(capsys: pytest.CaptureFixture[str], find: str, expected: str) -> None:
    """The cache limits neither the context nor the number of requests."""
    _, out, _ = run(capsys, "plan", "BAAI/bge-m3", "--gpus", "RTX3090", "--vllm", RELEASE, "--offline", "--find", find)
    text = " ".join(out.split())
    assert expected in text
    assert "No KV cache, 1" in text


def test_a_pooling_model_has_no_sampler() -> None:
    """The profiling run of a pooling model runs the pooler (v1/worker/gpu/model_runner.py, 0.33.0 :1044-1047)."""
    batch = {"max_model_len": 8192, "max_num_batched_tokens": 8192}
    activation = {
        runner: next(
            term.band.expected
            for term in planned("Qwen/Qwen3-0.6B", RELEASE, batch | {"runner": runner}, "RTX3090").ranks[0].terms
            if term.name == "activation" and term.band
        )
        for runner in ("generate", "pooling")
    }
    assert activation["pooling"] < activation["generate"]


def test_other_position_embeddings_are_unknown() -> None:
    """Only absolute positions have the table that is counted."""
    assert shape(BERT).missing == ()
    assert shape(BERT | {"position_embedding_type": "absolute"}).missing == ()
    assert shape(BERT | {"position_embedding_type": "rotary"}).missing == ("sizes with position_embedding_type rotary",)


@pytest.mark.parametrize(
    ("config", "labels"),
    [
        ({}, 0),
        ({"architectures": ["XLMRobertaForSequenceClassification"]}, 2),
        ({"architectures": ["XLMRobertaForSequenceClassification"], "id2label": {"0": "LABEL_0"}}, 1),
        ({"architectures": ["XLMRobertaForSequenceClassification"], "num_labels": 3}, 3),
    ],
)
def test_a_reranker_has_a_classifier(config: dict[str, Any], labels: int) -> None:
    """Its classes are named, numbered, or two."""
    assert shape(BERT | config).labels == labels
    assert shape(BERT | config).pools


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"use_bidirectional_attention": True}, {"encoder"}),
        ({"is_causal": False}, {"encoder"}),
        ({"use_bidirectional_attention": "vision"}, {"sliding", "full"}),
        ({}, {"sliding", "full"}),
    ],
)
def test_attention_that_is_not_causal_needs_no_cache(field: dict[str, Any], expected: set[str]) -> None:
    """EmbeddingGemma's configuration says so; Gemma 4's images alone see what follows."""
    config = {
        "model_type": "gemma3_text", "hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 6,
        "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262_144,
        "max_position_embeddings": 2048, "sliding_window": 257,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    }  # fmt: skip
    assert {layer.mixer.kind for layer in shape(config | field).kinds if isinstance(layer.mixer, Attention)} == expected
