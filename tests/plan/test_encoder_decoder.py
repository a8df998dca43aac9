"""Encoder-decoder models: Whisper's decoder, its encoder and the cache for the encoder's output."""

from __future__ import annotations

from typing import Any

import pytest

import measured
from measured import model, settled
from test_budget import planned
from vllm_runbooks.plan.encoder_profile import EncoderProfile, Unprofiled, profile
from vllm_runbooks.plan.kv_cache import Kind
from vllm_runbooks.plan.layouts import illegal
from vllm_runbooks.plan.shape import Attention, shape
from vllm_runbooks.plan.weights import Ranks, inventory

LARGE = "openai/whisper-large-v3"
K_BIASES = (32 + 2 * 32) * 1280
"""Zeros that vLLM adds to the keys of every attention (0.33.0 models/whisper.py, `load_weights`)."""


def _profiled(release: str, **options: Any) -> EncoderProfile | Unprofiled:
    chosen = model(LARGE)
    return profile(chosen.shape, settled(chosen, release, options, "H100-80GB"), config=chosen.config)


def test_whisper_has_two_attentions_in_each_layer_of_its_decoder() -> None:
    """Over its tokens, and over the encoder's output; the sizes are those of the decoder."""
    told = model(LARGE).shape
    assert (told.missing, told.layers, told.hidden_size, told.max_positions) == ((), 32, 1280, 448)
    (layer,) = told.kinds
    assert [mixer.kind for mixer in layer.mixers if isinstance(mixer, Attention)] == ["full", "cross"]
    assert model("openai/whisper-large-v3-turbo").shape.layers == 4


@pytest.mark.parametrize(("name", "published"), [(LARGE, 1_543_490_560)])
def test_whisper_has_the_published_parameters(name: str, published: int) -> None:
    """What the Hub counts in the file, and the biases that vLLM adds."""
    assert inventory(model(name).shape).parameters() == published + K_BIASES


@pytest.mark.parametrize(("release", "tokens"), [("0.12.0", 1500), ("0.13.0", 8192), ("0.33.0", 8192)])
def test_a_request_has_blocks_for_the_encoders_output(release: str, tokens: int) -> None:
    """A release plans them for 1,500 positions or a whole batch, next to 28 blocks for 448 tokens."""
    pool = planned(LARGE, release, {}, "H100-80GB").pool
    assert pool is not None
    assert {layer.kind for layer in pool.stages[0]} == {Kind.FULL, Kind.CROSS}
    # Keys and values of 32 layers with 20 heads of 64 values in 16 bits.
    block = 2 * 16 * 20 * 64 * 2 * 32
    assert pool.needed_bytes(448) == ((448 // 16 + -(-tokens // 16)) * block,)


@pytest.mark.parametrize(("release", "has_pieces"), [("0.12.0", True), ("0.13.0", False), ("0.33.0", False)])
def test_graphs_are_of_pieces_or_of_decoding_steps(release: str, *, has_pieces: bool) -> None:
    """Encoder-decoder models never have both; without graphs they have none."""
    graphs = settled(model(LARGE), release, {}, "H100-80GB").graphs
    assert (graphs.piecewise > 0, graphs.full > 0) == (has_pieces, not has_pieces)
    none = settled(model(LARGE), release, {"enforce_eager": True}, "H100-80GB").graphs
    assert (none.piecewise, none.full) == (0, 0)
    on_amd = settled(model(LARGE), release, {}, "MI300X").graphs
    assert (on_amd.piecewise, on_amd.full) == (0, 0)


def test_a_printed_launch_had_the_planned_graphs_and_clips() -> None:
    """One clip is profiled with a batch of 2,048 tokens, and 35 graphs are captured for 256 requests."""
    (launch,) = (start for start in measured.starts() if start.model == LARGE)
    made = launch.budget
    assert (made.settings.graphs.piecewise, made.settings.graphs.full) == (0, 35)
    assert made.encoder is not None
    assert made.encoder.description == "1 audio clip of 1,500 tokens"


def test_the_encoder_is_profiled_with_as_many_clips_as_fit_into_a_batch() -> None:
    """A clip has 3,000 frames of 128 bands for 1,500 positions; a layer holds three hidden states and two activations.

    Traced in vLLM 0.32.0's class: 3 x 1280 + 2 x 5120 values for each position.
    """
    found = _profiled("0.33.0", max_num_batched_tokens=8192)
    assert isinstance(found, EncoderProfile)
    assert found.description == "5 audio clips of 1,500 tokens each"
    assert "audio tower" in found.source
    frames = 5 * 3000 * 128 * 2
    assert max(step.live for step in found.steps) == frames + 5 * 1500 * 2 * (3 * 1280 + 2 * 5120)
    assert found.outputs == 5 * 1500 * 1280 * 2
    small = _profiled("0.33.0", max_num_batched_tokens=2048)
    assert isinstance(small, EncoderProfile)
    assert small.items == 1


def test_without_audio_no_encoder_is_profiled() -> None:
    """A limit of 0 clips, or a release whose source was not read."""
    off = _profiled("0.33.0", limit_mm_per_prompt={"audio": 0})
    assert off == Unprofiled("all modalities are limited to 0 items", is_known=True)
    assert _profiled("0.12.0") == Unprofiled("how releases before 0.13 profile the encoder whisper", is_known=False)


@pytest.mark.parametrize("lost", ["encoder_ffn_dim", "num_mel_bins", "max_source_positions"])
def test_a_missing_size_of_the_encoder_is_named(lost: str) -> None:
    """No size of the encoder's profile is guessed."""
    chosen = model(LARGE)
    told = {name: value for name, value in chosen.config.items() if name != lost}
    settings = settled(chosen, "0.33.0", {}, "H100-80GB")
    assert profile(shape(told), settings, config=told) == Unprofiled(
        f"{lost}: not in the configuration", is_known=False
    )


def test_whisper_has_no_pipeline_stages_and_divides_its_heads() -> None:
    """Its class supports no stages; 20 heads are not divided by 8."""
    assert illegal(model(LARGE), Ranks(1, 2), (0, 33, 0)) == (
        "WhisperForConditionalGeneration does not support pipeline parallelism",
    )
    assert any("20 heads of the encoder" in said for said in illegal(model(LARGE), Ranks(8), (0, 33, 0)))
    assert illegal(model(LARGE), Ranks(4), (0, 33, 0)) == ()


def test_other_encoder_decoder_models_name_the_cache_of_the_encoders_output() -> None:
    """Of a family that is unknown, the cache of the encoder's output is unknown, too."""
    told = {"architectures": ["BartForConditionalGeneration"], "model_type": "bart", "is_encoder_decoder": True}
    assert shape(told).missing == (
        "architecture BartForConditionalGeneration",
        "the KV cache for the encoder's output of an encoder-decoder model",
    )
