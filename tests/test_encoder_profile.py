"""The profiling of pictures and videos asks for what the releases' own code and starts' logs show."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cost import seconds
from vllm_runbooks.authoring import spec_files
from vllm_runbooks.planning.encoder_profile import EncoderProfile, Unprofiled, profile, rounded
from vllm_runbooks.planning.settings import Settings
from vllm_runbooks.planning.shape import shape
from vllm_runbooks.planning.terms import GIB
from vllm_runbooks.planning.weights import Ranks

MIB = 2**20
CATALOG = Path(__file__).parents[1] / "catalog" / "models"

QWEN2_5_VISION: dict[str, Any] = {
    "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "in_chans": 3,
    "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 3584,
}  # fmt: skip
QWEN2_VISION: dict[str, Any] = {
    "depth": 32, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4, "in_chans": 3, "patch_size": 14,
    "spatial_merge_size": 2, "temporal_patch_size": 2,
}  # fmt: skip
QWEN3_VISION: dict[str, Any] = {
    "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "out_hidden_size": 4096, "patch_size": 16,
    "spatial_merge_size": 2, "temporal_patch_size": 2, "deepstack_visual_indexes": [8, 16, 24], "in_channels": 3,
}  # fmt: skip
GLM_VISION: dict[str, Any] = {
    "depth": 24, "hidden_size": 1536, "image_size": 336, "patch_size": 14, "spatial_merge_size": 2,
    "temporal_patch_size": 2, "out_hidden_size": 4096, "intermediate_size": 13696, "in_channels": 3,
}  # fmt: skip
SIGLIP: dict[str, Any] = {
    "hidden_size": 1152, "intermediate_size": 4304, "image_size": 896, "patch_size": 14, "num_hidden_layers": 27,
}  # fmt: skip
GEMMA4_VISION: dict[str, Any] = {
    "hidden_size": 1152, "intermediate_size": 4304, "patch_size": 16, "pooling_kernel_size": 3,
    "default_output_length": 280, "position_embedding_size": 10240,
}  # fmt: skip
LLAMA4_VISION: dict[str, Any] = {
    "hidden_size": 1408, "intermediate_size": 5632, "image_size": 336, "patch_size": 14, "num_hidden_layers": 34,
}  # fmt: skip

MODELS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "glm-4.1v-9b": ("glm4v", 4096, GLM_VISION),
    "qwen2-vl-7b": ("qwen2_vl", 3584, QWEN2_VISION),
    "qwen2.5-vl-7b": ("qwen2_5_vl", 3584, QWEN2_5_VISION),
    "qwen2.5-vl-3b": ("qwen2_5_vl", 2048, QWEN2_5_VISION | {"out_hidden_size": 2048}),
    "mimo-vl-7b": ("qwen2_5_vl", 4096, QWEN2_5_VISION | {"out_hidden_size": 4096}),
    "qwen3-vl-8b": ("qwen3_vl", 4096, QWEN3_VISION),
    "gemma-3-4b": ("gemma3", 2560, SIGLIP),
    "gemma-3-12b": ("gemma3", 3840, SIGLIP),
    "gemma-3-27b": ("gemma3", 5376, SIGLIP),
    "gemma-4-26b": ("gemma4", 2816, GEMMA4_VISION),
    "llama-4-scout": ("llama4", 5120, LLAMA4_VISION),
    "llava": ("llava", 4096, SIGLIP),
}
"""Family, hidden size of the text part, and the tower as the models' `config.json` have it."""


@cache
def config(name: str) -> dict[str, Any]:
    family, hidden, vision = MODELS[name]
    text = {"hidden_size": hidden}
    return {"model_type": family, "text_config": text, "vision_config": vision} | text


def start(release: str, length: int, batched: int, sequences: int = 256, **more: Any) -> Settings:
    return Settings(
        version=release,
        key=tuple(map(int, release.split("."))),
        is_v0=more.pop("is_v0", False),
        max_model_len=length,
        is_length_fitted=False,
        batched_tokens=batched,
        sequences=sequences,
        utilization=0.9,
        ranks=Ranks(tensor=more.pop("tensor", 1)),
        dtype="bfloat16",
        **more,
    )


def profiled(name: str, settings: Settings) -> EncoderProfile:
    found = profile(shape(config(name)), settings, config=config(name))
    assert isinstance(found, EncoderProfile), found
    return found


def unprofiled(name: str, settings: Settings, **more: Any) -> Unprofiled:
    found = profile(shape(config(name)), settings, config=config(name), **more)
    assert isinstance(found, Unprofiled), found
    return found


PHONE = start("0.16.0", 25480, 2048, encoder_data=True, items={"image": 10}, processor={"max_pixels": 5_000_000})
"""AutoGLM-Phone-9B (the sizes of GLM-4.1V-9B) on an RTX 3090, as its log shows the start."""


def test_the_failed_start_of_autoglm_phone_is_reproduced_to_the_byte() -> None:
    """The log names a budget of 18605 tokens, one video, and an allocation of 698.00 MiB that failed."""
    found = profiled("glm-4.1v-9b", PHONE)
    assert (found.modality, found.items, found.tokens, found.budget) == ("video", 1, 5 * 3721, 18605)
    # The budget leaves room for a picture beside the video; the video that is run has the context to itself.
    assert (found.frames, found.width, found.height, found.patches) == (12, 1708, 1708, 6 * 122 * 122)
    failed = found.refused(found.peak.expected - 1)
    assert failed is not None
    assert (failed.what, failed.size) == ("SiluAndMul's output", 698 * MIB)
    # 22.08 GiB were allocated by then: 19.23 of weights in vLLM's layout, buffers, and the encoder's.
    assert (failed.live - 89304 * 4096 * 2) / GIB == pytest.approx(22.08 - 19.23, abs=0.1)


def test_without_videos_the_same_start_needs_a_sixth() -> None:
    """A limit of 0 removes the modality: one picture of 3721 tokens is left."""
    found = profiled("glm-4.1v-9b", replace(PHONE, items={"image": 10, "video": 0}))
    assert (found.modality, found.tokens, found.patches) == ("image", 3721, 14884)
    assert found.peak.expected * 6 <= profiled("glm-4.1v-9b", PHONE).peak.expected


LINES = """
0.19.0 gemma-4-26b   131072 2496 256 | 2496 1 video
0.19.0 gemma-4-26b   262144 2496 256 | 2496 1 video
0.12.0 qwen3-vl-8b   262144 8192 1024 | 153600 1 video
"""
"""Release, model, context, batch, requests, and what the start's line says.

"Encoder cache will be initialized with a budget of 2496 tokens, and profiled with 1 video items": two starts of
gemma-4-26B-A4B-it on A100; 153600: https://github.com/vllm-project/vllm/pull/30475 (pictures limited to 0).
"""


@pytest.mark.parametrize("row", LINES.strip().splitlines())
def test_the_line_about_the_encoder_cache_is_what_starts_printed(row: str) -> None:
    """Budget, items and modality are those of the log."""
    told, printed = row.split("|")
    release, name, *numbers = told.split()
    items = {"image": 0} if name.startswith("qwen3") else None
    found = profiled(name, start(release, *map(int, numbers), items=items))
    assert [str(found.budget), str(found.items), found.modality] == printed.split()


SIZED = """
qwen2.5-vl-7b image 512 512 0 | 1296
qwen2-vl-7b   image 5000 280 0 | 5120
qwen2.5-vl-7b video 480 360 4 | 1768
qwen2.5-vl-7b video 480 360 1 | 884
qwen3-vl-8b   video 480 320 0 | 600
glm-4.1v-9b   video 480 360 1 | 884
glm-4.1v-9b   image 512 512 0 | 1296
"""
"""Model, modality, width, height and frames that `--limit-mm-per-prompt` gives, and the patches of the dummy item.

Both sides are rounded to 28 (32 with Qwen3-VL), a patch has 14 (16), two frames are one patch deep: 36 x 36; width at
most that of the largest picture, whose side is the root of 12,845,056 pixels: 256 x 20; 34 x 26 for each pair of
frames; 30 x 20.
GLM and Qwen3-VL take two frames at least (0.16.0 models/glm4_1v.py:1212, qwen3_vl.py:831).
"""


@pytest.mark.parametrize("row", SIZED.strip().splitlines())
def test_the_dummy_item_is_of_the_size_that_is_given(row: str) -> None:
    """Sizes make the item that is run smaller, from the release on that takes them (0.11.2 config/multimodal.py)."""
    told, patches = row.split("|")
    name, modality, *numbers = told.split()
    given = dict(zip(("width", "height", "num_frames"), map(int, numbers), strict=True))
    given = {name: size for name, size in given.items() if size}
    settings = start("0.16.0", 65536, 65536, 1, items={"image": 0, "video": 0, modality: 1})
    plain, found = profiled(name, settings), profiled(name, replace(settings, item_sizes={modality: given}))
    assert found.patches == int(patches) < plain.patches
    assert found.peak.expected < plain.peak.expected / 4


def test_an_item_of_a_given_size_is_told_with_its_own_tokens() -> None:
    """512 x 512 is 504 x 504 in patches of 14, four of them a token: 18 x 18, whatever the budget counts."""
    settings = start("0.33.0", 16384, 16384, items={"image": 1, "video": 0})
    found = profiled("qwen2.5-vl-7b", replace(settings, item_sizes={"image": {"width": 512, "height": 512}}))
    assert (found.items, found.tokens, found.budget) == (1, 324, 16384)


@pytest.mark.parametrize(
    ("name", "length", "plain", "fewer"),
    [("qwen2.5-vl-7b", 131_072, 14, 8), ("qwen2.5-vl-7b", 8192, 1, 1), ("qwen3-vl-8b", 131_072, 2, 2)],
)
def test_fewer_frames_shorten_only_a_video_that_has_more(name: str, length: int, plain: int, fewer: int) -> None:
    """The fewer of both are taken (0.33.0 multimodal/processing/dummy_inputs.py:136).

    Of 8,192 tokens Qwen2.5-VL has one frame (models/qwen2_vl.py:1173), Qwen3-VL has two of any (qwen3_vl.py:1159).
    """
    settings = start("0.33.0", length, 8192, items={"image": 0, "video": 1})
    assert profiled(name, settings).frames == plain
    assert profiled(name, replace(settings, item_sizes={"video": {"num_frames": 8}})).frames == fewer


def test_sizes_larger_than_the_models_change_nothing() -> None:
    """The release warns and keeps its own (0.16.0 multimodal/processing/dummy_inputs.py:140)."""
    settings = start("0.16.0", 16384, 16384, items={"image": 1, "video": 0})
    huge = replace(settings, item_sizes={"image": {"width": 90_000, "height": 90_000}})
    assert profiled("qwen2.5-vl-7b", huge) == profiled("qwen2.5-vl-7b", settings)


def test_sizes_of_a_family_whose_dummy_items_are_not_known() -> None:
    """Nothing is guessed: of Gemma 3, whose pictures are of one size, nothing changes; of others it is not known."""
    sized = start("0.28.0", 8192, 8192, item_sizes={"image": {"width": 64, "height": 64}})
    plain = replace(sized, item_sizes={})
    assert profiled("gemma-3-4b", sized) == profiled("gemma-3-4b", plain)
    assert unprofiled("gemma-4-26b", sized).is_known is False
    assert isinstance(profiled("gemma-4-26b", plain), EncoderProfile)


COUNTS = """
0.8.5  qwen2.5-vl-7b 128000 12845056 | 16384 98304
0.11.0 qwen2.5-vl-7b 4096   12845056 | 16384 16384
0.11.0 qwen2.5-vl-7b 32768  12845056 | 16384 32768
0.16.0 qwen2.5-vl-7b 128000 12845056 | 16384 114688
0.16.0 qwen2.5-vl-7b 8192   1003520  | 1280  7680
0.16.0 qwen2.5-vl-7b 32768  1003520  | 1280  8960
0.32.0 qwen2.5-vl-7b 65536  5000000  | 6377  44639
0.11.0 qwen3-vl-8b   8192   -        | 16384 151250
0.11.0 qwen3-vl-8b   32768  -        | 16384 153600
0.16.0 qwen3-vl-8b   32768  -        | 16384 12288
0.32.0 qwen3-vl-8b   32768  -        | 16384 12288
0.16.0 glm-4.1v-9b   8192   -        | 3721  3721
0.16.0 glm-4.1v-9b   25480  -        | 3721  18605
0.16.0 glm-4.1v-9b   65536  -        | 3721  30000
0.32.0 glm-4.1v-9b   65536  -        | 6084  31974
"""
"""Release, model, context, `max_pixels` and tokens of a picture and a video.

What `get_max_image_tokens`, `get_max_video_tokens` and `_get_vision_info` of the release's own models/qwen2_vl.py,
qwen3_vl.py and glm4_1v.py return on a CPU (pictures of GLM in 0.16.0: the processor's own count, 61 x 61 tokens).
"""


@pytest.mark.parametrize("row", COUNTS.strip().splitlines())
def test_tokens_of_an_item_are_those_of_the_release(row: str) -> None:
    """A picture alone, and a video where it has more tokens than the picture beside it."""
    told, counted = row.split("|")
    release, name, length, pixels = told.split()
    image, video = map(int, counted.split())
    processor = {} if pixels == "-" else {"max_pixels": int(pixels)}
    settings = start(release, int(length), 2048, processor=processor)
    assert profiled(name, replace(settings, items={"video": 0})).tokens == image
    if video > image:
        assert profiled(name, settings).tokens == video


TEXT = """
gemma-3-4b    262208 2560 3.89
gemma-3-12b   262208 3840 3.94
gemma-3-27b   262208 5376 3.99
mimo-vl-7b    151680 4096 2.49
"""
"""Model, vocabulary, hidden size, activation in GiB of vLLM 0.19.0 on H100 with 8192 tokens and 1024 requests
(https://github.com/llm-d-incubation/llm-d-planner, accuracy report of vLLM 0.19.0)."""


@pytest.mark.parametrize("row", TEXT.strip().splitlines())
def test_what_is_kept_explains_the_activation_of_multimodal_starts(row: str) -> None:
    """The printed activation is the sampler's, as text models have it, and what the encoder's profile keeps."""
    name, vocabulary, hidden, printed = row.split()
    found = profiled(name, start("0.19.0", 8192, 8192, 1024))
    text = 3.6 * 1024 * int(vocabulary) * 4 + 8192 * int(hidden) * 2 + 0.07 * GIB
    assert max(found.peak.expected, text + found.kept) / GIB == pytest.approx(float(printed), rel=0.01)


OLDER = """
0.9.2 qwen2.5-vl-7b 4096  4096  256 1 1 0 | 2.47
0.9.2 qwen2.5-vl-7b 4096  4096  256 1 1 1 | 4.93
0.7.3 qwen2.5-vl-3b 32768 32768 256 1 1 1 | 4.06
0.8.0 gemma-3-27b   65536 16384 64  4 1 1 | 3.73
"""
"""Release, model, context, batch, requests, cards, limits of pictures and videos, GiB that the older engine printed.

Qwen2.5-VL-7B AWQ on a Jetson with and without videos, Qwen2.5-VL-3B on an RTX 5090 (public notes of their owners),
https://github.com/vllm-project/vllm/issues/16378.
"""


@pytest.mark.parametrize("row", OLDER.strip().splitlines())
def test_the_older_engine_stays_within_the_band(row: str) -> None:
    """It runs pictures and videos of all requests at once."""
    told, printed = row.split("|")
    release, name, *numbers = told.split()
    length, batched, sequences, tensor, images, videos = map(int, numbers)
    items = {"image": images, "video": videos}
    found = profiled(name, start(release, length, batched, sequences, is_v0=True, tensor=tensor, items=items))
    assert found.peak.low <= float(printed) * GIB <= found.peak.high


PEAKS = """
qwen2.5-vl-7b True  15276
qwen2.5-vl-7b False 17836
qwen2-vl-7b   True  20376
qwen3-vl-8b   True  18432
glm-4.1v-9b   False 19608
gemma-3-27b   True  13804
"""
"""Model, whether norms are fused, values for each patch at the peak of a layer.

Traced in vLLM 0.16.0's towers: the sum of all tensors of 200 values or more for each patch that are alive, with the
outputs of all three taps of Qwen 3.
"""


@pytest.mark.parametrize("row", PEAKS.strip().splitlines())
def test_the_tensors_of_a_layer_add_up_to_what_its_code_holds(row: str) -> None:
    """Expected peaks are those of the towers' own code."""
    name, fused, values = row.split()
    settings = start("0.16.0", 32768, 4096, items={"video": 0}, is_eager=fused == "True")
    found = profiled(name, settings)
    assert found.peak.expected / (found.items * found.patches * 2) == pytest.approx(int(values), rel=1e-4)


def test_cards_that_share_a_layer_hold_less_than_with_the_tower_whole() -> None:
    """`--mm-encoder-tp-mode data` runs an item whole on one card and gathers every card's output."""
    split = profiled("qwen2.5-vl-7b", start("0.16.0", 32768, 8192, tensor=4))
    whole = profiled("qwen2.5-vl-7b", start("0.16.0", 32768, 8192, tensor=4, encoder_data=True))
    largest = [max(one.steps, key=lambda step: step.size) for one in (split, whole)]
    assert [step.what for step in largest] == ["gate and up projection"] * 2
    assert [step.size for step in largest] == [rounded(131072 * 2 * 3420 // 4 * 2), rounded(131072 * 2 * 3420 * 2)]
    assert whole.outputs == 4 * split.outputs == 4 * 32768 * 3584 * 2
    assert whole.peak.expected > split.peak.expected


def test_pictures_are_shared_out_among_cards() -> None:
    """Of 3 pictures of Llama 4 on 4 cards each card runs one at most."""
    found = profiled("llama-4-scout", start("0.19.0", 8192, 8192, 1024, tensor=4, encoder_data=True))
    assert (found.items, found.tokens, found.patches) == (3, 17 * 144, 17 * 577)
    assert found.outputs == 4 * 17 * 144 * 5120 * 2


SWITCHED_OFF: list[tuple[str, Settings, dict[str, Any]]] = [
    ("limited to 0", start("0.19.0", 8192, 8192, items={"image": 0}), {}),
    ("--language-model-only", start("0.19.0", 8192, 8192, language_only=True), {}),
    ("--skip-mm-profiling", start("0.19.0", 8192, 8192, skips_encoder_profile=True), {}),
    ("newer model runner", start("0.26.0", 8192, 8192, is_v2_runner=True), {}),
    ("behind the first", start("0.27.1", 8192, 8192, is_v2_runner=True), {"is_first": False}),
]


@pytest.mark.parametrize(("said", "settings", "more"), SWITCHED_OFF, ids=[row[0] for row in SWITCHED_OFF])
def test_a_profile_that_is_switched_off_takes_nothing(said: str, settings: Settings, more: dict[str, Any]) -> None:
    """The reason is named, and it is known that nothing is taken."""
    found = unprofiled("gemma-3-27b", settings, **more)
    assert found.is_known
    assert said in found.reason


def test_the_newer_runner_frees_its_inputs() -> None:
    """From 0.27.1 it profiles the encoder and keeps the outputs alone."""
    found = profiled("gemma-3-27b", start("0.27.1", 8192, 8192, 1024, is_v2_runner=True))
    assert found.kept == found.outputs == 8192 * 5376 * 2


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("llava", {}, "llava"),
        ("gemma-3-27b", {"image_size": None}, "vision_config.image_size"),
        ("qwen3-vl-8b", {"hidden_size": None}, "vision_config.hidden_size"),
    ],
)
def test_what_is_not_known_is_named(name: str, change: dict[str, Any], said: str) -> None:
    """A family without a rule or a size that is missing gives no number."""
    told = config(name) | {"vision_config": config(name)["vision_config"] | change}
    found = profile(shape(told), start("0.19.0", 8192, 8192), config=told)
    assert isinstance(found, Unprofiled)
    assert not found.is_known
    assert said in found.reason


def test_a_text_model_has_no_encoder_to_profile() -> None:
    """It is known that nothing is taken."""
    told = {"model_type": "llama", "hidden_size": 4096}
    assert profile(shape(told), start("0.19.0", 8192, 8192), config=told) == Unprofiled(
        "the model has no encoder", is_known=True
    )


@pytest.mark.parametrize(
    ("size", "asked"),
    [(100, 2 * MIB), (MIB + 1, 20 * MIB), (10 * MIB, 10 * MIB), (10 * MIB + 1, 12 * MIB), (89304 * 8192, 698 * MIB)],
)
def test_sizes_are_rounded_as_the_allocator_does(size: int, asked: int) -> None:
    """Small ones come from blocks of 2 and 20 MiB, large ones are rounded to 2 MiB."""
    assert rounded(size) == asked


@pytest.mark.parametrize(
    "name",
    [
        "zai-org/AutoGLM-Phone-9B", "Qwen/Qwen2-VL-7B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct",
        "Qwen/Qwen3-VL-8B-Instruct", "google/gemma-3-27b-it", "google/gemma-4-31B-it",
    ],
)  # fmt: skip
def test_the_models_of_the_catalog_have_their_sizes(name: str) -> None:
    """A family's models in the catalog have a file that says enough of their tower."""
    file = spec_files.read_spec(CATALOG / f"{name}.yaml", name, "model")
    found = profile(shape(file.config), start("0.19.0", 8192, 8192), config=file.config)
    assert isinstance(found, EncoderProfile)


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("junk", [None, 0, -1, True, 1.5, "14", [14], {}, 10**12])
def test_a_damaged_tower_never_raises(name: str, junk: Any) -> None:
    """Whatever a field of the tower holds, a profile comes back or what is missing."""
    for field in config(name)["vision_config"]:
        told = config(name) | {"vision_config": config(name)["vision_config"] | {field: junk}}
        for settings in (PHONE, start("0.32.0", 4096, 2048, processor={"max_pixels": junk, "size": junk})):
            found = profile(shape(told), settings, config=told)
            assert isinstance(found, Unprofiled) or found.peak.low <= found.peak.expected <= found.peak.high


@pytest.mark.benchmark
def test_asking_again_takes_no_time() -> None:
    """A plan asks for many settings of one model."""
    model, settings = shape(config("qwen2.5-vl-7b")), start("0.16.0", 128000, 8192)

    def ask(_: str) -> None:
        for _each in range(100):
            profile(model, settings, config=config("qwen2.5-vl-7b"))

    assert seconds(ask, "") / 100 < 50e-6
