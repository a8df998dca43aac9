"""Inputs of the profiling run of an image or video encoder, and its memory on one GPU.

Before vLLM profiles the text model, it runs one batch of the modality with the most tokens per item
through the encoder. The sizes of the items depend on the release and the processor; the tensors are
those that a layer of the tower allocates at the same time. Sizes that are only in a processor's
file are taken from the families' published files (`_PROCESSORS`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, floor, isqrt, sqrt
from typing import Any, NamedTuple

from vllm_runbooks.catalog.eras import EraValue, Key, in_release
from vllm_runbooks.plan.encoders import is_whole, taps, tower_of
from vllm_runbooks.plan.settings import LaunchSettings
from vllm_runbooks.plan.shape import Encoder, Shape
from vllm_runbooks.plan.terms import Band, tried
from vllm_runbooks.plan.weights import VALUE_BYTES

_WHOLE = (9_999_999, 9_999_999)
"""Image that vLLM lets a processor shrink to find its largest image."""
_MOST_PIXELS = 2**40
"""Limit in pixels for the search of an image's sides: no context can hold larger images."""
_FLOAT = 4
"""Bytes of a float32."""
_UNLIMITED = 999
"""Items per modality without a limit in the V1 engine; V0 takes 1 (config.py, 0.8.5 :2800-2807)."""


class ProfiledStep(NamedTuple):
    """One of the large tensors, in the order in which a layer allocates them."""

    what: str
    size: int
    """Bytes that the allocator requests from the driver."""
    live: int
    """Bytes of the encoder's live tensors after this allocation, including it."""


@dataclass(frozen=True)
class EncoderProfile:
    """The encoder's part of the profiling run on one GPU; bytes."""

    modality: str
    items: int
    tokens: int
    """Tokens per item as the release counts them for its budget; of the actual item if the launch
    sets its size."""
    budget: int
    """Tokens of the encoder cache, as vLLM prints them."""
    patches: int
    """Patches per item, as the encoder reads it."""
    frames: int
    """Frames per item; 1 for an image."""
    width: int
    """Pixels of a frame after the processor's resizing; 0 where patches are counted without sides."""
    height: int
    outputs: int
    """Bytes of the encoder's output, kept while the text model is profiled."""
    inputs: int
    """Bytes of its input, kept as long; 0 if the release frees it."""
    peak: Band
    """Largest sum of the tensors during the encoder's run, inputs and outputs so far among them."""
    steps: tuple[ProfiledStep, ...]
    source: str
    is_essential: bool = False
    """Whether the model is of no use without the modality: its only encoder is for audio."""

    @property
    def kept(self) -> int:
        """Bytes still allocated during the text model's profiling."""
        return self.inputs + self.outputs

    @property
    def description(self) -> str:
        """Number and tokens of the items: "2 images of 1,196 tokens each"."""
        noun = {"audio": "audio clip"}.get(self.modality, self.modality.replace("_", " "))
        number, each = ("s", " each") if self.items > 1 else ("", "")
        return f"{self.items} {noun}{number} of {self.tokens:,} tokens{each}"

    def refused(self, room: int) -> ProfiledStep | None:
        """Largest allocation that does not fit into `room` bytes; None if all fit.

        Several tensors of a layer reach about the same total. The largest of them fails, because
        the others leave the memory in smaller pieces.
        """
        return max(
            (step for step in self.steps if step.live > room), key=lambda candidate: candidate.size, default=None
        )


@dataclass(frozen=True)
class Unprofiled:
    """No encoder is profiled, or the memory of its profiling is unknown."""

    reason: str
    is_known: bool
    """True if no memory is used."""


# ---- facts of the model and the launch


class _Sizes(NamedTuple):
    family: str
    size: int
    wide: int
    patch: int
    merge: int
    """Patches along a side of a token."""
    temporal: int
    """Frames of a patch."""
    channels: int
    out: int
    """Width of its output, all taps together."""
    taps: int
    image: int
    """Pixels per side, if the tower has a fixed size."""
    tokens: int
    """Tokens per image, if fixed."""
    positions: int
    has_audio: bool
    tiles: int = 0
    """Tiles of the largest image, the whole image among them."""
    has_video: bool = False
    keys: int = 0
    """Width of queries, keys and values, if not the tower's."""
    head: int = 0
    """Width of a head."""
    longest: int = 0
    """Patches of the largest image; 0 if other sizes limit it."""
    table: int = 0
    """Bytes of a table that the first run computes and keeps."""
    bands: int = 0
    """Values of a frame of an audio's spectrum, if the tower's input is the audio."""


class _Ask(NamedTuple):
    key: Key
    is_v0: bool
    is_v2: bool
    length: int
    batched: int
    sequences: int
    images: int
    videos: int
    audios: int
    chunks: int
    """Images and parts of videos, where both are one modality."""
    tensor: int
    data: bool
    native_norms: bool
    """Whether norms run as native PyTorch operations: the compilation setting applies to the
    encoder too."""
    width: int
    shortest: int | None
    longest: int | None
    """Maximum number of pixels, if the launch overrides the processor's."""
    soft_tokens: int | None
    picture: _Side = (0, 0)
    """Maximum height and width of the dummy image from `--limit-mm-per-prompt`; 0 if not set."""
    video: _Side = (0, 0)
    frames: int = 0

    @property
    def is_sized(self) -> bool:
        return any((*self.picture, *self.video, self.frames))


class _Item(NamedTuple):
    tokens: int
    patches: int
    outputs: int
    frames: int = 1
    width: int = 0
    height: int = 0
    at_once: int = 0
    """Patches that go through a layer together, where items or frames do not all; 0: all of the batch."""


_FIXED = (
    "gemma3",
    "llama4",
    "pixtral",
    "internvit",
    "qianfan",
    "perception",
    "llava_clip",
    "llava_siglip",
    "llava_pixtral",
)
"""Families whose largest image has the size that the configuration gives."""
_INTERNVL_VIDEO = ("qwen2", "qwen3", "qwen3_moe", "gpt_oss")
"""Text models with a token for videos (models/internvl.py, 0.33.0 `ctx_video_token`)."""


PROCESSOR_FILES = ("preprocessor_config", "video_preprocessor_config", "processor_config")
"""Fields that a model's configuration gets from the files of these names."""


class _Processor(NamedTuple):
    """Pixels of the smallest and largest image, and of the largest video (all frames, or one)."""

    shortest: int
    longest: int
    video_shortest: int
    video_longest: int
    source: str


_PROCESSORS: Mapping[str, _Processor] = {
    "qwen2_vl": _Processor(3136, 12_845_056, 3136, 12_845_056, "Qwen2-VL's published preprocessor_config.json"),
    "qwen2_5_vl": _Processor(3136, 12_845_056, 3136, 12_845_056, "Qwen2.5-VL's published preprocessor_config.json"),
    "qwen2_5_omni": _Processor(3136, 12_845_056, 3136, 12_845_056, "Qwen2.5-Omni's published preprocessor_config.json"),
    "qwen3_omni_moe": _Processor(3136, 12_845_056, 3136, 12_845_056, "Qwen3-Omni's published preprocessor_config.json"),
    "qwen3_vl": _Processor(
        65_536, 16_777_216, 4096, 25_165_824,
        "Qwen3-VL's published preprocessor_config.json and video_preprocessor_config.json",
    ),
    "glm4v": _Processor(
        12_544, 9_633_792, 12_544, 47_040_000,
        "GLM-4.1V's published preprocessor_config.json, and the video size in vLLM's source",
    ),
    "dots_ocr": _Processor(
        3136, 11_289_600, 3136, 11_289_600, "dots.ocr's published code (dots_ocr/utils/consts.py)"
    ),
    # The published files of these were not read: without the model's own the image is unknown.
    "glm_ocr": _Processor(12_544, 0, 12_544, 47_040_000, "the video size in vLLM's source"),
    "paddleocr_vl": _Processor(0, 0, 0, 0, ""),
    "minimax_m3": _Processor(
        3136, 451_584, 3136, 602_112, "MiniMax-M3's processor in vLLM (transformers_utils/processors/minimax_m3.py)"
    ),
}  # fmt: skip
"""By family, as the files of the published models have them (huggingface.co, Qwen/Qwen2.5-VL-7B-Instruct,
Qwen/Qwen2.5-Omni-7B, Qwen/Qwen3-Omni-30B-A3B-Instruct, Qwen/Qwen3-VL-8B-Instruct, zai-org/GLM-4.1V-9B-Thinking); a
derived model's own files may differ."""


# ---- rules by release


_INPUT_BYTES = (EraValue(_FLOAT), EraValue(None, (0, 9)))
"""Bytes per pixel value on the GPU; None for the model's dtype (inputs/registry.py, 0.9.2 :167-176;
0.8.5 keeps the processor's)."""
_ROUNDS_UP = (EraValue(True), EraValue(False, (0, 10)))
"""Whether the batch has one item more than fits completely into the budget
(v1/worker/gpu_model_runner.py, 0.9.2 :2221 `cdiv`; v1/worker/utils.py, 0.10.2 :106)."""
_ITEM_LENGTH = (EraValue("batch"), EraValue("context", (0, 11)))
"""Limit of a dummy video: tokens of a batch or of a context (`_get_mm_dummy_batch`, 0.10.2 :2592,
0.11.0 :2867)."""
_COUNTS_AROUND = (EraValue(False), EraValue(True, (0, 10)), EraValue(False, (0, 13)))
"""Whether an item's tokens include those around and between the encoder's (multimodal/profiling.py,
0.10.2 `get_mm_max_contiguous_tokens`, removed in 0.13.0)."""
_TIE = (EraValue(min), EraValue(max, (0, 17)))
"""Choice by name between modalities with the same number of tokens (multimodal/encoder_budget.py,
0.17.1 :184)."""
_V2_PROFILES: Key = (0, 27)
"""First release whose V2 model runner profiles the encoder (v1/worker/gpu/model_runner.py, 0.27.1
:702)."""
_QWEN2_FRAMES = (EraValue(16), EraValue(14, (0, 11)))
"""models/qwen2_vl.py `_MAX_FRAMES_PER_VIDEO` (0.10.2 :85, 0.11.0)."""
_LEAVES_IMAGES = (EraValue(True), EraValue(False, (0, 11)))
"""Whether a video's tokens leave room for an image (`get_num_frames_with_most_features`, 0.10.2
:955, 0.11.0 :997)."""
_FACTORS = (EraValue(False), EraValue(True, (0, 13)))
"""Whether the largest image is a product of two factors instead of a shrunk square
(`get_image_size_with_most_features`, 0.12.0 :956, 0.13.0 :923)."""
_QWEN3_VIDEO = (EraValue("longest, times 12.5"), EraValue("longest", (0, 13)), EraValue("two frames", (0, 15)))
"""models/qwen3_vl.py `get_max_video_tokens` (0.12.0 :693, 0.13.0 :710, 0.15.1 :696)."""
_QWEN3_FRAMES = 24_576
_GLM_FRAMES = 600
_GLM_IMAGE = (EraValue("sixteen frames"), EraValue("one frame", (0, 17)))
"""Number of frames as which an image is resized (models/glm4_1v.py, 0.16.0 :831-891; 0.17.1
:873-912)."""
_GLM_SEARCH = (EraValue("first too long"), EraValue("most tokens", (0, 26)))
"""Choice of the number of frames (`_get_max_video_frames`, 0.25.1; 0.26.0 :1173)."""
_GLM_OVERRIDE: Key = (0, 25)
"""First release that applies `max_pixels` (`_get_image_max_pixels`, 0.25.1 :1098)."""
_GLM_PICTURE_PIXELS, _GLM_VIDEO_PIXELS = 28 * 28 * 2 * 6144, 28 * 28 * 2 * 30_000
_GEMMA4_FRAMES, _GEMMA4_SOFT, _GEMMA4_AROUND = 32, 70, 8
_GEMMA4_SUPPORTED = (70, 140, 280, 560, 1120)
_GEMMA4_OVERRIDE: Key = (0, 21)
"""First release that applies `max_soft_tokens` to the budget (models/gemma4_mm.py, 0.21.0
:231-241)."""
_GEMMA4_AUDIO = 750
"""Tokens of the longest audio (processor class of gemma 4, `audio_seq_length`)."""
_GEMMA4_BATCHES: Key = (0, 22)
"""First release that runs frames through the tower in one batch (models/gemma4_mm.py, 0.21.0
:1211-1216 one by one, 0.22.1 :1285)."""
_LLAMA4_TILES = 16
"""Tiles of an image in addition to the whole image (transformers' Llama4ImageProcessorFast,
`max_patches`)."""
_KIMI_SIDE, _KIMI_PATCHES, _KIMI_LONGEST = 3000, 16_384, 512
"""Side of the dummy image in pixels (models/kimi_k25.py, `MaxImageTokenMeta`), and Kimi-K2.5's limits for the patches
of an image and of a side (preprocessor_config.json). A part of a video has fewer tokens than an image."""
_K3_TOKENS, _K3_PATCHES, _K3_SIDES = 16_817, 67_268, (7041, 1861)
"""Kimi K3's dummy image of the most tokens: `get_max_image_size` of 0.33.0 models/kimi_k3/common/mm_preprocess.py for
the limits of its published preprocessor_config.json, 65,536 patches and 512 on a side."""
_KIMI_VL_SIDE, _KIMI_VL_PATCHES = 1024, 4096
"""Side of the dummy image in pixels (models/kimi_vl.py, `MaxImageTokenMeta`), and the limit for the patches of an image
if preprocessor_config.json has no `in_token_limit` (KimiVLImageProcessor, image_processing_kimi_vl.py of
moonshotai/Kimi-VL-A3B-Instruct)."""
_MOONVIT_PLACES = 512 * 512
"""Places whose rotations are in a table (models/moonvit.py, `Rope2DPosEmb`)."""
_COMPLEX = 8
"""Bytes of a complex64."""
_OCR_TOKENS, _OCR_WHOLE, _OCR_CROPS = 693, 64 * 64, 4 * 40 * 40
"""DeepSeek-OCR's dummy image of 1280 x 1280 pixels: its tokens, and its patches in 1024 x 1024 pixels and in four parts
of 640 x 640 (models/deepseek_ocr.py, `get_num_image_tokens`)."""
_OCR_WINDOW = 14
"""Side of a window of patches in the first tower (models/deepencoder.py)."""
_VOXTRAL_TOKENS, _VOXTRAL_SAMPLES = 375, 160
"""Tokens of a clip of 30 seconds, 12.5 per second, and samples of a frame of its spectrum, 16,000 per second
(mistral-common's AudioConfig and AudioSpectrogramConfig of Voxtral's tekken.json)."""
_QWEN2_AUDIO = 750
"""Tokens of the longest audio (models/qwen2_audio.py, `get_mm_max_tokens_per_item` for 1,500 positions)."""
_WHISPER_STRIDE = 2
"""Frames of a position (models/whisper.py, the second convolution)."""
_KIMI_ROTATION = (EraValue("together"), EraValue("apart", (0, 29)), EraValue("packed", (0, 31)))
"""How query and key are rotated: both or each with copies in float32, or in place (models/kimi_k25_vit.py, 0.28.0
`apply_rope`, 0.29.0 `ApplyRotaryEmb`, 0.31.0 `packed_qk_rope_`)."""
_STEP_CROP, _STEP_CROPS = 504, 36
"""Side in pixels and number of the parts of the largest image, next to the whole image
(transformers_utils/processors/step3_vl.py, 0.33.0: an image of 3024 x 3024)."""
_MINIMAX_FRAMES = 500
"""Most frames of a dummy video (0.33.0 models/minimax_m3/common/mm_preprocess.py:60)."""
_LFM2_TOKENS = 256
"""Tokens of the largest image that is not divided (transformers' Lfm2VlImageProcessor, `max_image_tokens`)."""
_ROTATION = (EraValue((1, True)), EraValue((2, True), (0, 11)), EraValue((2, False), (0, 12)))
"""Whether query and key are rotated together, and whether in float32 (models/qwen2_vl.py
`apply_rotary_pos_emb_vision`, 0.10.2 :275, 0.11.0 :275-283 and :383, 0.12.0 :286)."""
_FUSED: Key = (0, 12)
"""First release in which the towers of Qwen 2.5 and 3 copy query and key together
(models/qwen2_5_vl.py, 0.12.0)."""
_SEPARATE_GATE: Key = (0, 10)
"""First release in which Qwen 2.5's tower has no separate gate and up projections
(models/qwen2_5_vl.py, 0.9.2 :190, 0.10.2 :237)."""


# ---- sizes of images

_Side = tuple[int, int]
"""Two numbers of pixels: height and width, or the fewest and the most."""


def _resized(side: _Side, factor: int, limits: _Side, frames: int = 1) -> _Side:
    """Resize like a processor: to multiples of the factor within the pixel limits.

    `frames` frames share the limits, as in video processors. Source: transformers' `smart_resize`
    of image_processing_qwen2_vl.py, video_processing_qwen3_vl.py and image_processing_glm4v.py.
    Returns height and width.
    """
    (height, width), (shortest, longest) = side, limits
    tall, broad = round(height / factor) * factor, round(width / factor) * factor
    counted = frames if frames == 1 else round(frames / 2) * 2
    if counted * tall * broad > longest:
        shrink = sqrt(frames * height * width / longest)
        return max(factor, floor(height / shrink / factor) * factor), max(
            factor, floor(width / shrink / factor) * factor
        )
    if counted * tall * broad < shortest:
        stretch = sqrt(shortest / (frames * height * width))
        return ceil(height * stretch / factor) * factor, ceil(width * stretch / factor) * factor
    return tall, broad


def _most_square(pixels: int, unit: int) -> _Side:
    """Height and width of the image with the most units, with sides as equal as possible."""
    for count in range(pixels // unit**2, 0, -1):
        left: int = next(side for side in range(isqrt(count), 0, -1) if count % side == 0)
        if count // left <= 200 * left:
            return left * unit, count // left * unit
    return unit, unit


def _capped(side: _Side, most: _Side) -> _Side:
    height, width = (min(size, limit or size) for size, limit in zip(side, most, strict=True))
    return height, width


def _grid(sizes: _Sizes, height: int, width: int) -> int:
    return (height // sizes.patch) * (width // sizes.patch)


# ---- items by family


def _context(ask: _Ask) -> int:
    return ask.batched if ask.is_v0 or in_release(_ITEM_LENGTH, ask.key) == "batch" else ask.length


def _qwen2(sizes: _Sizes, ask: _Ask, processor: _Processor) -> Iterator[tuple[str, _Item]]:
    unit = sizes.patch * sizes.merge
    longest, shortest = ask.longest or processor.longest, ask.shortest or processor.shortest
    side = _most_square(longest, unit) if in_release(_FACTORS, ask.key) else _WHOLE
    height, width = _resized(side, unit, (shortest, longest))
    picture = _grid(sizes, height, width) // sizes.merge**2

    most: int = in_release(_QWEN2_FRAMES, ask.key)

    def frames(room: int) -> int:
        return max(1, min(room // picture * 2, most))

    def run(most: _Side) -> tuple[int, int, int]:
        # The budget still counts the largest item (models/qwen2_vl.py
        # `get_mm_max_tokens_per_item`).
        tall, broad = _resized(_capped((height, width), most), unit, (shortest, longest))
        return _grid(sizes, tall, broad), tall, broad

    if ask.images:
        patches, tall, broad = run(ask.picture)
        yield "image", _Item(picture, patches, patches // sizes.merge**2, 1, broad, tall)
    if ask.videos:
        left = picture if ask.images and in_release(_LEAVES_IMAGES, ask.key) else 0
        budgeted = ceil(frames(ask.length - left) / 2) * picture
        count = frames(_context(ask) - (left if ask.is_v0 else 0))
        count = min(count, ask.frames or count)
        pairs = ceil(count / 2)
        patches, tall, broad = run(ask.video)
        yield "video", _Item(budgeted, pairs * patches, pairs * patches // sizes.merge**2, count, broad, tall)


def _omni(sizes: _Sizes, ask: _Ask, processor: _Processor) -> Iterator[tuple[str, _Item]]:
    yield from _qwen2(sizes, ask, processor)
    if ask.audios:
        yield "audio", _Item(_QWEN2_AUDIO, 0, _QWEN2_AUDIO)


def _qwen3(sizes: _Sizes, ask: _Ask, processor: _Processor) -> Iterator[tuple[str, _Item]]:
    unit = sizes.patch * sizes.merge
    longest, shortest = ask.longest or processor.longest, ask.shortest or processor.shortest
    video_longest, video_shortest = ask.longest or processor.video_longest, ask.shortest or processor.video_shortest

    def largest(pixels: int) -> _Side:
        if in_release(_FACTORS, ask.key):
            return _most_square(pixels, unit)
        return _resized(_WHOLE, unit, (shortest, pixels))

    if ask.images:
        side = _resized(largest(longest), unit, (shortest, longest))
        height, width = _resized(_capped(side, ask.picture), unit, (shortest, longest))
        budgeted, patches = _grid(sizes, *side) // sizes.merge**2, _grid(sizes, height, width)
        yield "image", _Item(budgeted, patches, patches // sizes.merge**2, 1, width, height)
    if not ask.videos:
        return
    how = in_release(_QWEN3_VIDEO, ask.key)
    side = largest(video_longest // sizes.temporal if how == "two frames" else longest)

    def video(count: int) -> tuple[int, int, int]:
        height, width = _resized(side, unit, (video_shortest, video_longest), count)
        return ceil(count / sizes.temporal) * _grid(sizes, height, width), height, width

    def counted(room: int) -> int:
        # Resizing keeps a video within its pixel limit, except for rounding: a longer room is never
        # filled.
        if how == "two frames" or room * 2 > 3 * video_longest // (sizes.temporal * unit**2):
            return 2 if how == "two frames" else _QWEN3_FRAMES
        too_long = (n for n in range(3, _QWEN3_FRAMES + 1) if video(n)[0] // sizes.merge**2 > room)
        return next(too_long, _QWEN3_FRAMES + 1) - 1

    budgeted = video(counted(ask.length))[0] // sizes.merge**2
    if how.endswith("12.5"):
        budgeted = int(budgeted * 12.5)
    count = counted(_context(ask))
    # At least two frames, whatever the request (models/qwen3_vl.py, 0.16.0 :831).
    count = max(2, min(count, ask.frames or count))
    _, *target = video(count)
    height, width = _resized(_capped((target[0], target[1]), ask.video), unit, (video_shortest, video_longest), count)
    patches = ceil(count / sizes.temporal) * _grid(sizes, height, width)
    yield "video", _Item(budgeted, patches, patches // sizes.merge**2, count, width, height)


def _glm4v_video(sizes: _Sizes, side: _Side, limits: _Side, count: int) -> tuple[int, int, int]:
    tall, broad = _resized(side, sizes.patch * sizes.merge, limits, max(count, 2))
    return (count + 1) // 2 * _grid(sizes, tall, broad), tall, broad


@lru_cache(maxsize=256)
def _glm4v_tokens(sizes: _Sizes, side: _Side, limits: _Side) -> tuple[int, ...]:
    videos = (_glm4v_video(sizes, side, limits, count) for count in range(1, _GLM_FRAMES + 1))
    return tuple(patches // sizes.merge**2 for patches, _, _ in videos)


def _glm4v(sizes: _Sizes, ask: _Ask, processor: _Processor) -> Iterator[tuple[str, _Item]]:
    unit, merged = sizes.patch * sizes.merge, sizes.merge**2
    override = ask.longest if ask.key >= _GLM_OVERRIDE else None
    shortest, longest = processor.shortest, override or processor.longest
    video_longest = override or _GLM_VIDEO_PIXELS
    as_one = in_release(_GLM_IMAGE, ask.key) == "one frame"
    # An image resized as one frame still counts as the two frames of a patch.
    pixels, counted_as = (longest, 2) if as_one else (video_longest, 16)
    first = _resized(_WHOLE, unit, (shortest, pixels), counted_as)
    height, width = _resized(first, unit, (shortest, longest), 2)
    picture = _grid(sizes, height, width)
    picture_tokens = picture // merged
    if not as_one:
        # The image that room is reserved for counts as sixteen frames.
        picture_tokens = 8 * _grid(sizes, *_resized(first, unit, (shortest, _GLM_PICTURE_PIXELS), 16)) // merged

    limits = (processor.video_shortest, video_longest)

    def video(count: int) -> tuple[int, int, int]:
        return _glm4v_video(sizes, _capped(first, ask.video), limits, count)

    def counted(room: int) -> int:
        tokens = _glm4v_tokens(sizes, first, limits)
        if in_release(_GLM_SEARCH, ask.key) == "most tokens":
            fitting = [(size, -n) for n, size in enumerate(tokens, 1) if 0 < size <= room]
            return -max(fitting)[1] if fitting else 2
        return next((n for n, size in enumerate(tokens) if size > room), _GLM_FRAMES)

    around = 4 if in_release(_COUNTS_AROUND, ask.key) else 0
    if ask.images:
        # Given sizes also apply to the budget: it is taken from the dummy item
        # (multimodal/profiling.py).
        height, width = _resized(_capped(first, ask.picture), unit, (shortest, longest), 2)
        picture = _grid(sizes, height, width)
        yield "image", _Item(picture // merged, picture, picture // merged, 1, width, height)
    if ask.videos:

        def most(room: int) -> int:
            fitting = counted(room)
            return max(2, min(fitting, ask.frames or fitting))

        # An image next to the video only reduces the budget; the profiled video uses the whole
        # context.
        planned = most(ask.length - (picture_tokens if ask.images else 0))
        budgeted = video(planned)[0] // merged + around * planned // 2
        count = most(_context(ask) - (picture_tokens if ask.is_v0 and ask.images else 0))
        patches, tall, broad = video(count)
        yield "video", _Item(budgeted, patches, patches // merged, count, broad, tall)


def _one_size(sizes: _Sizes, ask: _Ask, _processor: _Processor | None) -> Iterator[tuple[str, _Item]]:
    if ask.images:
        around = 4 if in_release(_COUNTS_AROUND, ask.key) else 0
        patches = _grid(sizes, sizes.image, sizes.image) + (sizes.family == "llava_clip")
        yield "image", _Item(sizes.tokens + around, patches, sizes.tokens, 1, sizes.image, sizes.image)


def _gemma4(sizes: _Sizes, ask: _Ask, _processor: _Processor | None) -> Iterator[tuple[str, _Item]]:
    def put_out(soft: int) -> int:
        return isqrt(soft) ** 2

    soft = sizes.tokens
    if ask.soft_tokens in _GEMMA4_SUPPORTED and ask.key >= _GEMMA4_OVERRIDE:
        soft = ask.soft_tokens
    together = ask.key >= _GEMMA4_BATCHES
    if ask.images:
        patches = soft * sizes.merge**2
        yield "image", _Item(soft, patches, put_out(soft), 1, at_once=0 if together else patches)
    if ask.videos:
        frame_patches = _GEMMA4_SOFT * sizes.merge**2
        yield (
            "video",
            _Item(
                _GEMMA4_FRAMES * (_GEMMA4_SOFT + _GEMMA4_AROUND),
                _GEMMA4_FRAMES * frame_patches,
                _GEMMA4_FRAMES * put_out(_GEMMA4_SOFT),
                _GEMMA4_FRAMES,
                at_once=0 if together else frame_patches,
            ),
        )
    if ask.audios and sizes.has_audio:
        yield "audio", _Item(_GEMMA4_AUDIO, 0, _GEMMA4_AUDIO)


def _llama4(sizes: _Sizes, ask: _Ask, _processor: _Processor | None) -> Iterator[tuple[str, _Item]]:
    if ask.images:
        tile = _grid(sizes, sizes.image, sizes.image)
        tokens = (_LLAMA4_TILES + 1) * tile // sizes.merge**2
        # Marks between the tiles, around the image and before the whole image.
        around = _LLAMA4_TILES + 3 if in_release(_COUNTS_AROUND, ask.key) else 0
        yield "image", _Item(tokens + around, (_LLAMA4_TILES + 1) * (tile + 1), tokens, 1, sizes.image, sizes.image)


def _pixtral(sizes: _Sizes, ask: _Ask, _processor: _Processor | None) -> Iterator[tuple[str, _Item]]:
    if ask.images:
        tokens = ceil(sizes.image / (sizes.patch * sizes.merge)) ** 2
        yield "image", _Item(tokens, tokens * sizes.merge**2, tokens, 1, sizes.image, sizes.image)


def _kimi(sizes: _Sizes, ask: _Ask, _processor: _Processor | None) -> Iterator[tuple[str, _Item]]:
    if ask.chunks:
        shrink = sqrt(_KIMI_PATCHES) / max(1, _KIMI_SIDE // sizes.patch)
        side = min(int(_KIMI_SIDE * min(1.0, shrink)), _KIMI_LONGEST * sizes.patch)
        tokens = ceil(side / (sizes.patch * sizes.merge)) ** 2
        yield "vision_chunk", _Item(tokens, tokens * sizes.merge**2, tokens, 1, side, side)


def _whisper(sizes: _Sizes, ask: _Ask, _processor: _Processor | None) -> Iterator[tuple[str, _Item]]:
    if ask.audios:
        yield "audio", _Item(sizes.positions, sizes.positions, sizes.positions)


def _deepseek_ocr(_sizes: _Sizes, ask: _Ask, _processor: _Processor | None) -> Iterator[tuple[str, _Item]]:
    if ask.images:
        # One image after the other: first the whole, then its parts together.
        yield "image", _Item(_OCR_TOKENS, _OCR_WHOLE + _OCR_CROPS, _OCR_TOKENS, at_once=_OCR_CROPS)


def _voxtral(sizes: _Sizes, ask: _Ask, _processor: _Processor | None) -> Iterator[tuple[str, _Item]]:
    if ask.audios:
        # As long as the context: the encoder runs all its clips of 30 seconds together.
        clips = ceil(ask.length / _VOXTRAL_TOKENS)
        yield "audio", _Item(ask.length, clips * sizes.positions, clips * _VOXTRAL_TOKENS)


def _paddleocr(sizes: _Sizes, ask: _Ask, processor: _Processor) -> Iterator[tuple[str, _Item]]:
    if ask.images:
        unit = sizes.patch * sizes.merge
        tokens = (ask.longest or processor.longest) // unit**2
        tall = max(1, isqrt(tokens))
        side = tall * unit, max(1, tokens // tall) * unit
        limits = ask.shortest or processor.shortest, ask.longest or processor.longest
        budgeted = _grid(sizes, *_resized(side, unit, limits))
        height, width = _resized(_capped(side, ask.picture), unit, limits)
        patches = _grid(sizes, height, width)
        yield "image", _Item(budgeted // sizes.merge**2, patches, patches // sizes.merge**2, 1, width, height)


def _kimi_vl(sizes: _Sizes, ask: _Ask, _processor: _Processor | None) -> Iterator[tuple[str, _Item]]:
    if ask.images:
        unit = sizes.patch * sizes.merge
        side = _capped((_KIMI_VL_SIDE, _KIMI_VL_SIDE), ask.picture)
        shrink = min(1.0, sqrt(sizes.longest / max(1, _grid(sizes, *side))))
        height, width = (ceil(int(pixels * shrink) / unit) * unit for pixels in side)
        patches = _grid(sizes, height, width)
        yield "image", _Item(patches // sizes.merge**2, patches, patches // sizes.merge**2, 1, width, height)


def _kimi_k3(_sizes: _Sizes, ask: _Ask, _processor: _Processor | None) -> Iterator[tuple[str, _Item]]:
    if ask.images:
        height, width = _K3_SIDES
        yield "image", _Item(_K3_TOKENS, _K3_PATCHES, _K3_TOKENS, 1, width, height)


def _minimax_m3(sizes: _Sizes, ask: _Ask, processor: _Processor) -> Iterator[tuple[str, _Item]]:
    unit = sizes.patch * sizes.merge
    if ask.images:
        side = max(unit, isqrt(ask.longest or processor.longest) // unit * unit)
        patches = _grid(sizes, side, side)
        yield "image", _Item(patches // sizes.merge**2, patches, patches // sizes.merge**2, 1, side, side)
    if ask.videos:
        height, width = _most_square(ask.longest or processor.video_longest, unit)
        patches = _grid(sizes, height, width)
        tokens = patches // sizes.merge**2
        count = max(1, min(ask.length // tokens * sizes.temporal, _MINIMAX_FRAMES))
        steps = ceil(count / sizes.temporal)
        yield "video", _Item(steps * tokens, steps * patches, steps * tokens, count, width, height)


def _lfm2(sizes: _Sizes, ask: _Ask, _processor: _Processor | None) -> Iterator[tuple[str, _Item]]:
    if ask.images:
        side = isqrt(_LFM2_TOKENS) * sizes.patch * sizes.merge
        yield "image", _Item(_LFM2_TOKENS, _LFM2_TOKENS * sizes.merge**2, _LFM2_TOKENS, 1, side, side)


def _perception(sizes: _Sizes, ask: _Ask, _processor: _Processor | None) -> Iterator[tuple[str, _Item]]:
    if ask.images:
        whole, part = (_grid(sizes, side, side) for side in (sizes.image, _STEP_CROP))
        outputs = whole // sizes.merge**4 + _STEP_CROPS * (part // sizes.merge**4)
        # Marks around the whole image and each part, and between the rows of parts.
        tokens = outputs + 2 * (1 + _STEP_CROPS) + isqrt(_STEP_CROPS) - 1
        yield "image", _Item(tokens, whole + _STEP_CROPS * part, outputs, 1, sizes.image, sizes.image)


def _internvit(sizes: _Sizes, ask: _Ask, _processor: _Processor | None) -> Iterator[tuple[str, _Item]]:
    patches = _grid(sizes, sizes.image, sizes.image)
    tokens = patches // sizes.merge**2
    if ask.images:
        yield "image", _Item(sizes.tiles * tokens, sizes.tiles * (patches + 1), sizes.tiles * tokens)
    if ask.videos and sizes.has_video and tokens:
        # An image next to the video only reduces the budget.
        left = sizes.tiles * tokens if ask.images else 0
        budgeted = max(1, (ask.length - left) // tokens)
        count = max(1, ask.length // tokens)
        yield "video", _Item(budgeted * tokens, count * (patches + 1), count * tokens, count)


# ---- tensors by family: allocated and other live ones; values per patch


class _TowerRun(NamedTuple):
    sizes: _Sizes
    ask: _Ask
    shards: int


Held = Iterator[tuple[str, float, float]]


def _split_attention(size: int, run: _TowerRun, alive: float) -> Held:
    """Query, key and value are copied separately, then rotated."""
    part = size / run.shards
    yield "query, key and value", 3 * part, alive
    yield "query, key and value apart", 3 * part, alive + 3 * part
    # Separately or both together; in float32 and back if the release does so.
    once, in_float = in_release(_ROTATION, run.ask.key)
    beside = alive + 6 * part
    if once == 2:
        yield "query and key together", 2 * part, beside
        beside += 2 * part
    if not in_float:
        yield "rotated query and key", 2 * part, beside
        return
    wide = once * part * _FLOAT / run.ask.width
    yield "query and key in float32", wide, beside
    yield "rotated in float32", wide, beside + wide
    yield "rotated query and key", once * part, beside + 2 * wide


def _fused_attention(size: int, run: _TowerRun, alive: float) -> Held:
    """Query and key stay together if the release keeps them so."""
    if run.ask.key < _FUSED:
        yield from _split_attention(size, run, alive)
        return
    part = size / run.shards
    yield "query, key and value", 3 * part, alive
    yield "query and key together", 2 * part, alive + 3 * part
    yield "rotated query and key", 2 * part, alive + 5 * part
    yield "attention's output", part, alive + 7 * part
    yield "attention's projection", size, alive + 8 * part


def _plain_network(wide: float, alive: float, copies: int = 1) -> Held:
    yield "first projection of the network", wide, alive
    for done in range(1, copies + 1):
        yield "activation", wide, alive + done * wide


def _gated_network(size: int, wide: float, alive: float, *, keeps: bool) -> Held:
    yield "gate and up projection", 2 * wide, alive
    yield "SiluAndMul's output", wide, alive + 2 * wide
    yield "down projection", size, alive + (3 if keeps else 1) * wide


def _norms(run: _TowerRun) -> int:
    """Values of the hidden states that are alive in the network: a fused norm writes over its inputs."""
    return (4 if run.ask.native_norms else 2) * run.sizes.size


def _qwen2_tensors(run: _TowerRun) -> Held:
    sizes = run.sizes
    yield from _split_attention(sizes.size, run, 2 * sizes.size)
    yield from _plain_network(sizes.wide / run.shards, 3 * sizes.size, copies=2)


def _qwen2_5_tensors(run: _TowerRun) -> Held:
    sizes = run.sizes
    wide = sizes.wide / run.shards
    if run.ask.key < _SEPARATE_GATE:
        yield from _split_attention(sizes.size, run, 2 * sizes.size)
        for done, what in enumerate(("gate projection", "up projection", "product of both")):
            yield what, wide, 3 * sizes.size + done * wide
        return
    yield from _fused_attention(sizes.size, run, 2 * sizes.size)
    yield from _gated_network(sizes.size, wide, _norms(run), keeps=True)


def _qwen3_tensors(run: _TowerRun) -> Held:
    sizes = run.sizes
    # Qwen 3 Omni projects the outputs of the taps only after the last layer.
    is_late = sizes.family == "qwen3_omni_moe"
    tapped = sizes.taps * (sizes.size if is_late else sizes.out / (sizes.taps + 1) / sizes.merge**2)
    # The position embedding and the outputs of the taps stay allocated next to the hidden states.
    yield from _fused_attention(sizes.size, run, 3 * sizes.size + tapped)
    yield from _plain_network(sizes.wide / run.shards, 4 * sizes.size + tapped)


def _glm4v_tensors(run: _TowerRun) -> Held:
    sizes = run.sizes
    yield from _split_attention(sizes.size, run, 2 * sizes.size)
    wide = sizes.out if sizes.family == "glm4v" else sizes.wide
    yield from _gated_network(sizes.size, wide / run.shards, _norms(run), keeps=False)


def _float_rotation(run: _TowerRun, alive: float) -> Held:
    """Query and key are joined, and rotated in float32, next to the cosines and sines of a head in float32."""
    part, head = run.sizes.size / run.shards, run.sizes.head
    wide = 2 * part * _FLOAT / run.ask.width
    yield "query and key together", 2 * part, alive
    alive += 2 * part + head * _FLOAT / run.ask.width
    yield "query and key in float32", wide, alive
    yield "rotated in float32", wide, alive + wide
    yield "rotated query and key", 2 * part, alive + 2 * wide


def _dots_ocr_tensors(run: _TowerRun) -> Held:
    sizes = run.sizes
    part, held = sizes.size / run.shards, 2 * sizes.size + sizes.head
    yield "query, key and value", 3 * part, held
    yield "query, key and value apart", 3 * part, held + 3 * part
    yield from _float_rotation(run, held + 6 * part)
    yield from _gated_network(sizes.size, sizes.wide / run.shards, held, keeps=False)


def _deepseek_ocr_tensors(run: _TowerRun) -> Held:
    sizes = run.sizes
    # 40 patches a side are padded to three windows.
    padded = (3 * _OCR_WINDOW / 40) ** 2
    size, scores = padded * sizes.size, padded * (sizes.size // sizes.head) * _OCR_WINDOW**2
    held = 2 * sizes.size + size
    yield "query, key and value of windows", 3 * size, held
    yield "query, key and value apart", 3 * size, held + 3 * size
    yield "scores of relative positions", scores, held + 6 * size
    yield "their copy for the kernel", scores, held + 6 * size + scores
    yield from _plain_network(sizes.wide, 3 * sizes.size)


def _paddleocr_tensors(run: _TowerRun) -> Held:
    sizes = run.sizes
    part, held = sizes.size / run.shards, 3 * sizes.size + sizes.head
    yield "query, key and value", 3 * part, held
    alive = held + 3 * part
    if run.shards > 1:
        # Those of all ranks are gathered, and then ordered.
        yield "query, key and value of all GPUs", 3 * sizes.size, alive
        yield "query, key and value in order", 3 * sizes.size, alive + 3 * sizes.size
        alive += 3 * sizes.size
    yield from _float_rotation(run, alive)
    yield from _plain_network(sizes.wide / run.shards, held)


def _plain_block(run: _TowerRun, held: float, held_by_network: float, copies: int = 1) -> Held:
    """Fused attention and a plain network, each with the hidden values that it holds."""
    part = run.sizes.size / run.shards
    yield "query, key and value", 3 * part, held
    yield "attention's output", part, held + 3 * part
    yield from _plain_network(run.sizes.wide / run.shards, held_by_network, copies)


def _siglip_tensors(run: _TowerRun) -> Held:
    return _plain_block(run, 3 * run.sizes.size, 4 * run.sizes.size)


def _projector(run: _TowerRun, held: float) -> Held:
    """Two layers to the text's width; every patch goes through them."""
    middle = run.sizes.out / run.shards
    yield "first projection to the text's width", middle, held
    yield "activation", middle, held + middle
    yield "second projection to the text's width", run.sizes.out, held + middle


def _llava_tensors(run: _TowerRun) -> Held:
    # PyTorch's own QuickGELU has a sigmoid next to its input and output.
    copies = 2 if run.sizes.family == "llava_clip" and run.ask.native_norms else 1
    yield from _plain_block(run, 3 * run.sizes.size, 4 * run.sizes.size, copies)
    yield from _projector(run, run.sizes.size)


def _llava_pixtral_tensors(run: _TowerRun) -> Held:
    yield from _pixtral_tensors(run)
    yield from _projector(run, run.sizes.size)


def _llama4_tensors(run: _TowerRun) -> Held:
    sizes = run.sizes
    part = sizes.size / run.shards
    yield "query, key and value", 3 * part, 3 * sizes.size
    yield "query and key in float32", 4 * part, 3 * sizes.size + 3 * part
    yield "rotated query and key", 4 * part, 3 * sizes.size + 7 * part
    yield from _plain_network(sizes.wide / run.shards, 4 * sizes.size)


def _gemma4_tensors(run: _TowerRun) -> Held:
    sizes = run.sizes
    # The tower is transformers' own: not split over GPUs, with separate gate and up projections.
    for done, what in enumerate(("gate projection", "activation", "up projection", "product of both")):
        yield what, sizes.wide, 4 * sizes.size + done * sizes.wide


def _pixtral_tensors(run: _TowerRun) -> Held:
    sizes = run.sizes
    part = sizes.size / run.shards
    yield "query, key and value", 3 * part, 2 * sizes.size
    yield "rotated query and key", 2 * part, 2 * sizes.size + 3 * part
    yield from _gated_network(sizes.size, sizes.wide / run.shards, 4 * sizes.size, keeps=True)


def _moonvit_tensors(run: _TowerRun) -> Held:
    sizes = run.sizes
    part, width = (sizes.keys or sizes.size) / run.shards, run.ask.width
    wide = part * _FLOAT / width
    # The tower's input and a rotation for each pair of a head's values stay allocated.
    held = 3 * sizes.size + sizes.head / 2 * _COMPLEX / width
    rotated, rotation = 2 * part, "together" if sizes.family == "moonvit" else in_release(_KIMI_ROTATION, run.ask.key)
    yield "query, key and value", 3 * part, held
    if rotation == "together":
        yield "query and key in float32", 2 * wide, held + 3 * part
        yield "rotated in float32", 2 * wide, held + 3 * part + 2 * wide
        yield "rotated query and key", rotated, held + 3 * part + 4 * wide
    elif rotation == "apart":
        yield "key in float32", wide, held + 4 * part
        yield "rotated in float32", wide, held + 4 * part + wide
        yield "rotated key", part, held + 4 * part + 2 * wide
    else:
        rotated = 0
    yield "attention's output", part, held + 3 * part + rotated
    yield from _plain_network(sizes.wide / run.shards, held + sizes.size)


def _whisper_tensors(run: _TowerRun) -> Held:
    return _plain_block(run, 2 * run.sizes.size, 3 * run.sizes.size)


def _voxtral_tensors(run: _TowerRun) -> Held:
    # The spectrum and the first hidden states stay allocated.
    held = 3 * run.sizes.size + run.sizes.temporal * run.sizes.bands
    return _plain_block(run, held, held + run.sizes.size)


def _minimax_m3_tensors(run: _TowerRun) -> Held:
    sizes = run.sizes
    part, wide = sizes.size / run.shards, sizes.wide / run.shards
    yield "query, key and value", 3 * part, 2 * sizes.size
    yield "query and key apart", 2 * part, 2 * sizes.size + 3 * part
    yield "attention's output", part, 2 * sizes.size + 5 * part
    yield "first projection of the network", wide, 3 * sizes.size
    yield "activation", wide, 2 * sizes.size + wide
    # Every patch is projected to the text's width before four of them are merged.
    yield from _projector(run, sizes.size)


def _perception_tensors(run: _TowerRun) -> Held:
    sizes = run.sizes
    part = sizes.size / run.shards
    wide = part * _FLOAT / run.ask.width
    yield "query, key and value", 3 * part, 2 * sizes.size
    yield "query in float32", 2 * wide, 2 * sizes.size + 3 * part
    yield "rotated in float32", wide, 2 * sizes.size + 3 * part + 2 * wide
    yield "attention's output", part, 2 * sizes.size + 5 * part
    yield from _plain_network(sizes.wide / run.shards, 2 * sizes.size)


def _internvit_tensors(run: _TowerRun) -> Held:
    return _plain_block(run, 2 * run.sizes.size, 2 * run.sizes.size)


def _gemma4_unified_tensors(run: _TowerRun) -> Held:
    sizes = run.sizes
    pixels = sizes.channels * sizes.patch**2
    part = sizes.size / sizes.merge**2
    yield "normalized pixels", pixels, 0
    yield "patch projection", part, pixels
    yield "normalized patches", part, part
    yield "position embeddings", 2 * part, part
    yield "sum of patches and positions", part, 3 * part


class _Family(NamedTuple):
    items: Callable[[_Sizes, _Ask, Any], Iterator[tuple[str, _Item]]]
    tensors: Callable[[_TowerRun], Held]
    shares_items: bool
    """Whether each GPU encodes a part of the items (`--mm-encoder-tp-mode data`); otherwise each
    encodes all."""
    source: str
    videos: int | None = None
    """Maximum number of videos per prompt; 0 if the family has none, None for no limit."""
    is_sized: bool = False
    """Whether `items` uses the sizes of `--limit-mm-per-prompt` for the dummy items."""
    since: Key = ()
    """First release whose source was read."""
    is_always_split: bool = False
    """Whether `--mm-encoder-tp-mode data` is ignored, because the class does not support it."""


_LLAVA = _Family(
    _one_size, _llava_tensors, False, "models/llava.py", videos=0, is_sized=True, since=(0, 16), is_always_split=True
)
_FAMILIES: Mapping[str, _Family] = {
    "qwen2_vl": _Family(_qwen2, _qwen2_tensors, True, "models/qwen2_vl.py", is_sized=True),
    "qwen2_5_vl": _Family(_qwen2, _qwen2_5_tensors, True, "models/qwen2_5_vl.py", is_sized=True),
    "qwen2_5_omni": _Family(
        _omni, _qwen2_5_tensors, False, "models/qwen2_5_omni_thinker.py", is_sized=True, since=(0, 12),
        is_always_split=True,
    ),
    "qwen3_omni_moe": _Family(
        _omni, _qwen3_tensors, False, "models/qwen3_omni_moe_thinker.py", is_sized=True, since=(0, 12),
        is_always_split=True,
    ),
    "qwen3_vl": _Family(_qwen3, _qwen3_tensors, True, "models/qwen3_vl.py", is_sized=True),
    "glm4v": _Family(_glm4v, _glm4v_tensors, True, "models/glm4_1v.py", videos=1, is_sized=True),
    "glm_ocr": _Family(
        _glm4v, _glm4v_tensors, True, "models/glm_ocr.py", videos=1, is_sized=True, since=(0, 16)
    ),
    "dots_ocr": _Family(
        _qwen2, _dots_ocr_tensors, True, "models/dots_ocr.py", videos=0, is_sized=True, since=(0, 13)
    ),
    # Older releases have scores of all patches by all.
    "deepseek_ocr": _Family(
        _deepseek_ocr, _deepseek_ocr_tensors, False, "models/deepseek_ocr.py", videos=0, since=(0, 31),
        is_always_split=True,
    ),
    # Older releases run one image after the other.
    "paddleocr_vl": _Family(
        _paddleocr, _paddleocr_tensors, False, "models/paddleocr_vl.py", videos=0, is_sized=True, since=(0, 33),
        is_always_split=True,
    ),
    "voxtral_audio": _Family(
        _voxtral, _voxtral_tensors, False, "models/voxtral.py", since=(0, 15), is_always_split=True
    ),
    "gemma3": _Family(_one_size, _siglip_tensors, False, "models/gemma3_mm.py", videos=0, is_sized=True),
    "gemma4": _Family(_gemma4, _gemma4_tensors, False, "models/gemma4_mm.py"),
    "llama4": _Family(_llama4, _llama4_tensors, True, "models/mllama4.py", videos=0),
    "gemma4_unified": _Family(_gemma4, _gemma4_unified_tensors, False, "models/gemma4_unified.py", since=(0, 25)),
    # Older releases build a mask of all patches by all patches.
    "pixtral": _Family(_pixtral, _pixtral_tensors, False, "models/mistral3.py", videos=0, since=(0, 30)),
    "llava_clip": _LLAVA,
    "llava_siglip": _LLAVA,
    "llava_pixtral": _LLAVA._replace(items=_pixtral, tensors=_llava_pixtral_tensors, is_sized=False, since=(0, 30)),
    "whisper": _Family(
        _whisper, _whisper_tensors, False, "models/whisper.py", since=(0, 13), is_always_split=True
    ),
    # Older releases do not divide the tower, and without the package flash-attn have a mask of all patches by all.
    "moonvit": _Family(_kimi_vl, _moonvit_tensors, True, "models/kimi_vl.py", videos=0, is_sized=True, since=(0, 14)),
    "moonvit3d": _Family(_kimi, _moonvit_tensors, True, "models/kimi_k25.py", videos=0, since=(0, 15)),
    "moonvit_v2": _Family(
        _kimi_k3, _moonvit_tensors, True, "models/kimi_k3/common/mm_preprocess.py", videos=0, since=(0, 32)
    ),
    "lfm2_vl": _Family(_lfm2, _internvit_tensors, False, "models/lfm2_vl.py", videos=0, since=(0, 17)),
    "minimax_m3": _Family(
        _minimax_m3, _minimax_m3_tensors, True, "models/minimax_m3/common/mm_preprocess.py", since=(0, 32)
    ),
    "perception": _Family(_perception, _perception_tensors, True, "models/step3p7.py", videos=0, since=(0, 25)),
    "internvit": _Family(_internvit, _internvit_tensors, True, "models/internvl.py", since=(0, 17)),
    "qianfan": _Family(_internvit, _internvit_tensors, True, "models/qianfan_ocr.py", videos=0, since=(0, 21)),
}  # fmt: skip


# ---- reading


def _number(fields: Mapping[str, Any], *names: str) -> int | None:
    values = (fields.get(name) for name in names)
    return next(
        (value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0), None
    )


def _pixels(options: Mapping[str, Any], edges: Mapping[str, Any], name: str, edge: str) -> int | None:
    pixels = _number(options, name) or _number(edges, edge)
    return pixels if pixels is None else min(pixels, _MOST_PIXELS)


_WIDTHS = {"qwen2_vl": "embed_dim", "dots_ocr": "embed_dim", "gemma4_unified": "mm_embed_dim", "perception": "width"}
"""Field with the width of a tower, if not hidden_size."""
_FLAT = ("dots_ocr", "paddleocr_vl")
"""Families of Qwen's kind of image whose patches are of one frame by default."""
_NETWORKS = {"gemma4_unified": 1, "perception": 8960}
"""Size of a tower's network if its configuration has only a ratio, or none."""
_HEADS = {"moonvit": 16, "moonvit3d": 16}
"""Heads of a tower whose configuration has none (transformers_utils/configs/moonvit.py `MoonViTConfig` and kimi_k25.py
`KimiK25VisionConfig`, 0.18.1)."""


def _sizes(encoder: Encoder, hidden: int, config: Mapping[str, Any], *, has_audio: bool) -> _Sizes | str:
    fields, family = encoder.sizes, encoder.family
    if family == "deepseek_ocr":  # its class has no other sizes
        return _Sizes(
            family, 768, 3072, patch=16, merge=4, temporal=1, channels=3, out=hidden, taps=0, image=1024,
            tokens=_OCR_TOKENS, positions=_OCR_WHOLE, has_audio=False, head=64,
        )  # fmt: skip
    if family in ("whisper", "voxtral_audio"):
        return _whisper_sizes(family, fields, hidden)
    size = _number(fields, _WIDTHS.get(family, "hidden_size"), "vt_hidden_size")
    ratio = _number(fields, "mlp_ratio") or 4
    wide = ratio * (size or 0) if family == "qwen2_vl" else _number(fields, "intermediate_size", "vt_intermediate_size")
    patch = _number(fields, "patch_size")
    if family in _NETWORKS:
        wide = _number(fields, "intermediate_size") or _NETWORKS[family]
    if size is None or wide is None or patch is None:
        missing = {"hidden_size": size, "intermediate_size": wide, "patch_size": patch}
        return next(f"vision_config.{name}" for name, value in missing.items() if value is None)
    image = _number(fields, "image_size")
    if image is None and family in _FIXED:
        return "vision_config.image_size"
    tapped = taps(fields) if family in ("qwen3_vl", "qwen3_omni_moe") else 0
    merge = _number(fields, "spatial_merge_size", "pooling_kernel_size") or (1 if family.startswith("llava") else 2)
    soft = _number(fields, "default_output_length", "num_soft_tokens")
    tokens = soft if family.startswith("gemma4") else _number(config, "mm_tokens_per_image")
    if family in ("llava_clip", "llava_siglip"):
        tokens = _selected((image or 0) // patch, config, has_class=family == "llava_clip")
    keys = _number(fields, "qkv_hidden_size") or 0
    heads = _number(fields, "num_attention_heads", "vt_num_attention_heads") or _HEADS.get(family)
    is_moonvit = family.startswith("moonvit")
    if heads is None and (is_moonvit or family in _FLAT):
        return f"vision_config.{'vt_' if is_moonvit else ''}num_attention_heads"
    head = (keys or size) // heads if heads is not None else 0
    files = config.get(PROCESSOR_FILES[0])
    if family == "moonvit" and not isinstance(files, Mapping):
        return "in_token_limit of preprocessor_config.json"
    longest = _number(files, "in_token_limit") if isinstance(files, Mapping) else None
    out = (
        hidden if family in ("qwen2_vl", "gemma3", "gemma4", "llama4") else _number(fields, "out_hidden_size") or hidden
    )
    return _Sizes(
        family,
        size,
        wide,
        patch,
        merge,
        _number(fields, "temporal_patch_size") or (2 if family in _PROCESSORS and family not in _FLAT else 1),
        _number(fields, "in_channels", "in_chans", "num_channels") or 3,
        out * (1 + tapped),
        tapped,
        image or 0,
        tokens or (280 if family.startswith("gemma4") else 256),
        _number(fields, "position_embedding_size") or 10_240,
        has_audio,
        *_tiles(config),
        keys=keys,
        head=head,
        longest=longest or _KIMI_VL_PATCHES,
        table=_MOONVIT_PLACES * (head // 2) * _COMPLEX if is_moonvit else 0,
    )


def _whisper_sizes(family: str, fields: Mapping[str, Any], hidden: int) -> _Sizes | str:
    is_own = family == "voxtral_audio"  # its fields are those of vLLM's configuration, or of transformers'
    names = (("encoder_ffn_dim", "intermediate_size"), ("num_mel_bins",), ("max_source_positions",))
    found = {name: _number(fields, name, *others[:is_own]) for name, *others in names}
    found["d_model"] = _number(fields, "d_model", "hidden_size") if is_own else hidden
    for name, value in found.items():
        if value is None:
            return f"audio_config.{name}" if is_own else name
    wide, bands, positions, size = (value or 0 for value in found.values())
    return _Sizes(
        family, size, wide, patch=1, merge=1, temporal=_WHISPER_STRIDE, channels=_VOXTRAL_SAMPLES if is_own else bands,
        out=hidden, taps=0, image=0, tokens=positions, positions=positions, has_audio=True, bands=bands,
    )  # fmt: skip


def _selected(side: int, config: Mapping[str, Any], *, has_class: bool) -> int:
    """Tokens that LLaVA takes of the patches and the token of the class (models/vision.py)."""
    strategy = config.get("vision_feature_select_strategy") or "default"
    return 1 if strategy == "class" else side**2 + has_class - (strategy == "default")


def _tiles(config: Mapping[str, Any]) -> tuple[int, bool]:
    """Tiles of InternVL's largest image, and whether its text model has a token for videos."""
    most = _number(config, "max_dynamic_patch") or 6
    text = config.get("llm_config") or config.get("text_config")
    kind = text.get("model_type") if isinstance(text, Mapping) else None
    return most + (bool(config.get("use_thumbnail")) and most > 1), kind in _INTERNVL_VIDEO


def _ask(settings: LaunchSettings, most_videos: int | None) -> _Ask:
    limits, options = settings.media.items or {}, settings.media.processor
    usual = 1 if settings.is_v0 else _UNLIMITED
    videos = limits.get("video", usual)
    size = options.get("size")
    edges: Mapping[str, Any] = size if isinstance(size, Mapping) else {}
    length = settings.scheduler.max_model_len
    return _Ask(
        settings.key,
        settings.is_v0,
        settings.is_v2_runner,
        length,
        settings.scheduler.batched_tokens,
        settings.scheduler.sequences,
        limits.get("image", usual),
        videos if most_videos is None else min(videos, most_videos),
        limits.get("audio", usual),
        limits.get("vision_chunk", usual),
        settings.ranks.tensor,
        settings.ranks.encoder_data,
        settings.graphs.is_compiled and not settings.graphs.is_eager and not settings.is_v0,
        VALUE_BYTES.get(settings.dtype, 2),
        _pixels(options, edges, "min_pixels", "shortest_edge"),
        _pixels(options, edges, "max_pixels", "longest_edge"),
        _number(options, "max_soft_tokens"),
        _side(settings.media.item_sizes, "image"),
        _side(settings.media.item_sizes, "video"),
        settings.media.item_sizes.get("video", {}).get("num_frames", 0),
    )


def _side(item_sizes: Mapping[str, Mapping[str, int]], modality: str) -> _Side:
    size = item_sizes.get(modality, {})
    return size.get("height", 0), size.get("width", 0)


# ---- the profile


def _batch(ask: _Ask, tokens: int, budget: int, limit: int) -> int:
    if in_release(_ROUNDS_UP, ask.key):
        return min(-(-budget // tokens), ask.sequences * limit)
    prompt = max(1, min(limit, ask.length // tokens))
    return min(budget // tokens, ask.sequences * prompt)


def _processor(family: str, config: Mapping[str, Any]) -> _Processor | None:
    """Pixels in the files next to the model's config.json; without them those of the family."""
    usual = _PROCESSORS.get(family)
    files = config.get(PROCESSOR_FILES[-1])
    both: Mapping[str, Any] = files if isinstance(files, Mapping) else {}
    image = config.get(PROCESSOR_FILES[0]) or both.get("image_processor")
    video = config.get(PROCESSOR_FILES[1]) or both.get("video_processor")
    if usual is None or not (isinstance(image, Mapping) or isinstance(video, Mapping)):
        return usual
    images, videos = _limits(image), _limits(video)
    if usual[:2] == usual[2:4]:  # older files have one for both
        videos = videos[0] or images[0], videos[1] or images[1]
    return _Processor(
        images[0] or usual.shortest,
        images[1] or usual.longest,
        videos[0] or usual.video_shortest,
        videos[1] or usual.video_longest,
        "the model's own preprocessor files",
    )


def _limits(fields: Any) -> tuple[int | None, int | None]:
    if not isinstance(fields, Mapping):
        return None, None
    size = fields.get("size")
    edges: Mapping[str, Any] = size if isinstance(size, Mapping) else {}
    names = (("min_pixels", "shortest_edge"), ("max_pixels", "longest_edge"))
    shortest, longest = (_pixels(fields, edges, name, edge) for name, edge in names)
    return shortest, longest


_NO_ITEMS = "all modalities are limited to 0 items"


@lru_cache(maxsize=1024)
def _profile(sizes: _Sizes, ask: _Ask, processor: _Processor | None) -> EncoderProfile | Unprofiled:
    family = _FAMILIES[sizes.family]
    items = dict(family.items(sizes, ask, processor))
    if not items:
        return Unprofiled(_NO_ITEMS, is_known=True)
    limits = {"image": ask.images, "video": ask.videos, "audio": ask.audios, "vision_chunk": ask.chunks}
    most = max(item.tokens for item in items.values())
    if not most:
        return Unprofiled("the vision tower's sizes give an image without tokens", is_known=False)
    modality = in_release(_TIE, ask.key)(name for name, item in items.items() if item.tokens == most)
    budget = max(ask.batched, most)
    if ask.is_v0:
        whole = sum(item.tokens * limits[name] for name, item in items.items())
        requests = max(1, min(ask.sequences, ask.batched // whole))
        # A request's share of the batch limits its video.
        items = dict(family.items(sizes, ask._replace(batched=ask.batched // requests), processor))
        modality = max(items, key=lambda name: items[name].patches * limits[name])
        # Measured: all modalities are batched with their sum (Qwen2.5-VL-7B: 2.47 GiB for an image,
        # 4.93 with a video).
        count = requests * sum(limits[name] for name in items)
    else:
        count = _batch(ask, most, budget, limits[modality])
    item = items[modality]
    if not item.patches:
        return Unprofiled(f"how the tower for {modality} works", is_known=False)

    whole_tower = ask.data or sizes.family == "gemma4"
    shards = 1 if whole_tower else ask.tensor
    shares = ask.data and family.shares_items
    local = -(-count // ask.tensor) if shares else count
    pixel = sizes.channels * sizes.temporal * sizes.patch**2
    read_bytes = in_release(_INPUT_BYTES, ask.key) or ask.width
    inputs = count * item.patches * pixel * read_bytes
    copied = local * item.patches * pixel * ask.width if shares or read_bytes != ask.width else 0
    item_bytes = item.outputs * sizes.out * ask.width
    outputs = item_bytes * (local * ask.tensor if shares else count)
    at_once = item.at_once or local * item.patches

    def steps(launch: _Ask) -> tuple[ProfiledStep, ...]:
        before = inputs + copied + sizes.table
        listed = [ProfiledStep("inputs", tried(inputs), inputs + sizes.table)]
        if copied:
            listed.append(ProfiledStep("a copy of the inputs", tried(copied), before))
        for what, values, alive in family.tensors(_TowerRun(sizes, launch, shards)):
            size = int(values * at_once * ask.width)
            listed.append(ProfiledStep(what, tried(size), before + size + int(alive * at_once * ask.width)))
        listed.append(ProfiledStep("outputs", tried(outputs), before + outputs))
        return tuple(listed)

    done = steps(ask)
    expected = max(step.live for step in done)
    fused = max(step.live for step in steps(ask._replace(native_norms=False)))
    native = max(step.live for step in steps(ask._replace(native_norms=True)))
    low, high = (0.8, 1.5) if ask.is_v0 else (0.97, 1.1)
    beyond = 0
    if sizes.family == "gemma4":
        # Older transformers looks up a patch's position in an int64 table and copies it in the
        # model's dtype.
        beyond = at_once * 2 * sizes.positions * (8 + ask.width)
    band = Band(int(fused * low), expected, int(native * high) + beyond)
    words = [
        f"dummy {modality} of {family.source}",
        f"tensors of {'an audio' if modality == 'audio' else 'a vision'} tower layer",
    ]
    if processor is not None:
        words.append("pixels from the launch options" if ask.longest else f"pixels of {processor.source}")
    return EncoderProfile(
        modality=modality,
        items=count,
        tokens=item.outputs if ask.is_sized else item.tokens,
        budget=budget,
        patches=item.patches,
        frames=item.frames,
        width=item.width,
        height=item.height,
        outputs=outputs,
        inputs=(0 if ask.is_v2 else inputs) + sizes.table,
        peak=band,
        steps=done,
        source="; ".join(words),
    )


def _kind(encoder: Encoder) -> str:
    """The row of a tower that its `model_type` names, or its family."""
    return tower_of(encoder).kinds.get(str(encoder.sizes.get("model_type") or ""), encoder.family)


def profile(
    shape: Shape, settings: LaunchSettings, *, config: Mapping[str, Any], is_first: bool = True
) -> EncoderProfile | Unprofiled:
    """Memory for profiling the encoder on one GPU; `is_first` on the first pipeline stage."""
    if shape.encoders == ():
        return Unprofiled("the model has no encoder", is_known=True)
    if settings.media.language_only:
        return Unprofiled("--language-model-only skips the encoder", is_known=True)
    if settings.media.skips_profile:
        return Unprofiled("--skip-mm-profiling", is_known=True)
    if settings.is_v2_runner and (settings.key < _V2_PROFILES or not is_first):
        where = "this release's newer model runner" if is_first else "a pipeline stage after the first"
        return Unprofiled(f"{where} does not profile the encoder", is_known=True)
    if shape.encoders is None:
        return Unprofiled("unknown encoder family or sizes", is_known=False)
    towers = (replace(encoder, family=_kind(encoder)) for encoder in shape.encoders)
    tower = next((encoder for encoder in towers if encoder.family in _FAMILIES), None)
    if tower is None:
        return Unprofiled(f"how the encoder {shape.encoders[0].family} is profiled", is_known=False)
    sizes = _sizes(tower, shape.hidden_size, config, has_audio=len(shape.encoders) > 1)
    if isinstance(sizes, str):
        return Unprofiled(f"{sizes}: not in the configuration", is_known=False)
    family = _FAMILIES[tower.family]
    if settings.key < family.since:
        since = ".".join(map(str, family.since))
        return Unprofiled(f"how releases before {since} profile the encoder {tower.family}", is_known=False)
    ask = _ask(settings, family.videos)
    if is_whole(tower, ask.tensor) or family.is_always_split:
        ask = ask._replace(data=not family.is_always_split)
    if ask.is_sized and not family.is_sized:
        return Unprofiled(f"what sizes of --limit-mm-per-prompt change of {family.source}", is_known=False)
    processor = _processor(sizes.family, config)
    if processor is not None and not (processor.longest or (ask.longest and ask.key >= _GLM_OVERRIDE)):
        if not (ask.images or ask.videos):
            return Unprofiled(_NO_ITEMS, is_known=True)
        return Unprofiled("the largest image, which preprocessor_config.json has", is_known=False)
    made = _profile(sizes, ask, processor)
    if isinstance(made, EncoderProfile):
        made = replace(made, is_essential=made.modality == "audio" and len(shape.encoders) == 1)
    return made
