"""Names of quantized checkpoints that the catalog lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_runbooks.catalog import load
from vllm_runbooks.catalog.specs import Specs
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.budget import subject_by_name
from vllm_runbooks.plan.hub import HubAccess
from vllm_runbooks.plan.quantized_names import NameWords, QuantizedName, base_of

SPECS = load.specs()
ROWS = load_table("quantized_names", QuantizedName)
WORDS = load_table("name_words", NameWords)
FINE_TUNES = [word for row in WORDS.values() if not row.refusal for word in row.words]
OTHER_MODELS = (
    *("DFlash", "DFlash2", "DSpark", "EAGLE3", "speculator.eagle3", "MTP", "draft", "assistant", "PARD"),
    *("Distill-Llama-8B", "Distilled", "REAP", "REAP-23B-A3B", "pruned", "merge", "Base", "VL", "9B"),
)
"""Words of models with other layers than the model whose name they follow: draft models, distilled, pruned and merged
models, and other members of a family."""

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


def test_a_publisher_has_its_own_group_size() -> None:
    """AWQ of cyankiwi has one scale per 32 weights: 771,851,054 in its Qwen3.5-27B, for 24.7 billion weights."""
    theirs = planner.model("cyankiwi/Qwen3.5-27B-AWQ-4bit", access=HubAccess.NONE)
    assert theirs.shape.quantization is not None
    assert theirs.shape.quantization.formats[0][1].group == 32
    assert base_of("acme/Qwen3.5-27B-AWQ-4bit", SPECS) == (SPECS.file("Qwen/Qwen3.5-27B"), ROWS["awq"])


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


@pytest.mark.parametrize("key", ROWS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_each_ending_of_the_table_has_the_model_before_it(key: str, data: st.DataObject) -> None:
    """Whatever a row's pattern matches is removed, by the first row that matches all of it."""
    row = ROWS[key]
    ending = data.draw(st.from_regex(re.compile(row.ending, re.ASCII | re.IGNORECASE), fullmatch=True))
    found = base_of(f"{row.organization or 'acme'}/Qwen3-8B{ending}", SPECS)
    assert found is not None
    assert found[0].id == "Qwen/Qwen3-8B"
    name = f"{row.organization or 'acme'}/Qwen3-8B"
    rows = [other for other in ROWS.values() if other.fits(name) and other.pattern.match(ending)]
    assert found[1] == rows[0]


@pytest.mark.parametrize("word", FINE_TUNES)
@pytest.mark.parametrize("form", ["{0}-{1}", "{1}-{0}", "{1}-{0}-v2.1", "{1}-{0}_v3", "{1}-{0}-{0}"])
def test_each_word_of_a_fine_tune_has_the_layers_of_its_base(word: str, form: str) -> None:
    """In front of the base's name or behind it, with a version or a quantization, in any case."""
    for base in ("Qwen3.6-35B-A3B", "gemma-4-31B-it", "Llama-3.3-70B-Instruct"):
        name = form.format(word.title(), base)
        found = base_of(f"acme/{name}", SPECS)
        assert found is not None
        assert (found[0].id or "").endswith(f"/{base}")
        assert found[1] == ROWS["sixteen_bits"]
        for quantized in (f"acme/{name}-NVFP4", f"acme/{base}-NVFP4-{word}"):
            assert base_of(quantized, SPECS) == (found[0], ROWS["nvfp4"])


def test_a_fine_tune_of_a_quantized_model_has_a_named_quantization() -> None:
    """Whether `gpt-oss-20b-heretic` kept MXFP4 is unknown; `-BF16` and other endings decide it."""
    assert base_of("acme/gpt-oss-20b-heretic", SPECS) is None
    assert planner.model("acme/gpt-oss-20b-heretic-BF16", access=HubAccess.NONE).shape.quantization is None
    kimi = planner.model("acme/Kimi-K2.6-BF16", access=HubAccess.NONE)
    assert kimi.shape.quantization is None


@pytest.mark.parametrize("word", [word for row in WORDS.values() if row.refusal for word in row.words])
def test_a_checkpoint_of_another_program_is_rejected_with_the_reason(word: str) -> None:
    """As a word of the name or of its organization, in any case, also before the file of a GGUF repository."""
    reason = next(row.refusal for row in WORDS.values() if word in row.words)
    for name in (f"acme/Qwen3-8B-{word.upper()}", f"{word}-community/Qwen3-8B-4bit", f"acme/Qwen3-8B-{word}:Q4_K_M"):
        with pytest.raises(InputError, match=f"not planned: {re.escape(reason)}"):
            planner.model(name, access=HubAccess.NONE)
    with pytest.raises(InputError, match="unknown model"):
        planner.model(f"acme/Nothing{word}-8B", access=HubAccess.NONE)


@pytest.mark.parametrize("word", OTHER_MODELS)
def test_no_model_of_the_catalog_stands_for_one_with_other_layers(word: str) -> None:
    """Draft, distilled, pruned and merged models have their base's whole name, too."""
    known = {hub_id.rpartition("/")[2].casefold() for hub_id in SPECS.texts}
    lasts = {hub_id.rpartition("/")[2] for hub_id in SPECS.texts}
    lasts -= {last for last in lasts for row in ROWS.values() if row.pattern.search(last)}
    for last in lasts:
        for name in (f"{last}-{word}", f"{word}-{last}", f"{last}-{word}-heretic"):
            if name.removesuffix("-heretic").casefold() not in known:
                assert base_of(f"acme/{name}", SPECS) is None, name
                assert base_of(f"acme/{name}-AWQ", SPECS) is None, name


@pytest.mark.parametrize("base", ["Qwen/Qwen3.5-27B", "zai-org/GLM-4.7", "nvidia/Llama-3_3-Nemotron-Super-49B-v1"])
def test_an_unknown_name_has_the_model_inside_it_as_the_first_similar_one(base: str) -> None:
    """The model that a merge, a distilled model or an unknown quantization was made from is the one to plan."""
    last = base.rpartition("/")[2]
    for name in (
        f"acme/{last}-GPTQ-Int4-Int8Mix",
        f"acme/Merged_{last}_of_many",
        f"acme/{last}-Opus-Reasoning-Distilled",
    ):
        with pytest.raises(InputError, match=re.escape(f"{name}: unknown model (similar: {base}")):
            planner.model(name, access=HubAccess.NONE)


def _without(hub_id: str) -> Specs:
    return replace(SPECS, texts={name: text for name, text in SPECS.texts.items() if name != hub_id})


def _derived() -> Iterator[tuple[str, str]]:
    for hub_id in SPECS.texts:
        found = base_of(hub_id, _without(hub_id))
        if found is not None and found[0].id is not None:
            yield hub_id, found[0].id


def test_a_model_left_out_of_the_catalog_is_derived_with_its_own_sizes() -> None:
    """Each model of the catalog that another one would answer for has the same layers, heads, experts and tokens."""
    derived = dict(_derived())
    assert len(derived) > 40
    for hub_id, base in derived.items():
        model, other = SPECS.model(hub_id), SPECS.model(base)
        assert model is not None
        assert other is not None
        for size in ("layers", "hidden_size", "attention_heads", "kv_heads", "head_dim", "experts", "vocabulary_size"):
            assert getattr(model, size) in (None, getattr(other, size)), f"{hub_id}, {size}: from {base}"


def test_a_format_that_is_not_planned_is_refused_before_the_hub_is_asked() -> None:
    """Its repository may have a config.json, which would be planned as 16-bit weights."""
    with pytest.raises(InputError, match="not planned: each tensor of a GGUF file has its own quantization"):
        planner.model("acme/Qwen3-8B-GGUF", access=HubAccess.NETWORK)
    with pytest.raises(InputError, match="not planned: the checkpoint is for Apple's MLX"):
        planner.model("mlx-community/Qwen3-8B-bf16", access=HubAccess.NONE)
