"""Why a release rejects a launch on these GPUs, whatever its memory."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_runbooks.catalog import support
from vllm_runbooks.catalog.eras import Key
from vllm_runbooks.catalog.start_rules import start_rules
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.settings import LaunchSettings
from vllm_runbooks.plan.shape import Attention, Compressed, Latent, Shape

CROSSED_BATCH: Key = (0, 13)
"""First release that plans a request's part of the encoder's output as long as a batch (0.12.0 config/vllm.py:736 and
0.13.0 config/scheduler.py, `max_num_encoder_input_tokens`)."""


_BFLOAT16_FROM = (8, 0)
"""Minimum compute capability for bfloat16; every rank exits below it (v1/worker/gpu_worker.py,
`_check_if_gpu_supports_dtype`)."""


def refusals(shape: Shape, settings: LaunchSettings, devices: Sequence[Device]) -> tuple[str, ...]:
    """Reasons why the launch ends before it allocates memory, a sentence each."""
    return (
        *too_old(settings, devices),
        *_not_on_rocm(shape, settings, devices),
        *_without_dtype(shape, settings, devices),
        *_without_sparse_attention(shape, settings, devices),
        *_cut_media(shape, settings),
    )


def too_old(settings: LaunchSettings, devices: Sequence[Device]) -> tuple[str, ...]:
    """GPUs for which the published wheels of the release have no kernels, a sentence each."""
    rules, written = start_rules(settings.key)
    least = rules.least_capability
    old = {
        device.name: device.capability
        for device in devices
        if device.capability is not None and device.capability < least
    }
    return tuple(
        f"{name} has compute capability {has[0]}.{has[1]}, and builds of vLLM {settings.version} have no kernels for "
        f"GPUs below {least[0]}.{least[1]} ({written['least_capability']})"
        for name, has in old.items()
    )


def _method(shape: Shape, settings: LaunchSettings) -> str | None:
    """Method of quantization, of the launch or of the checkpoint."""
    return settings.quantization or (shape.quantization.method if shape.quantization else None)


def _not_on_rocm(shape: Shape, settings: LaunchSettings, devices: Sequence[Device]) -> tuple[str, ...]:
    stored, method = shape.quantization, _method(shape, settings)
    gpu = next((device.name for device in devices if device.is_rocm), None)
    version = settings.version
    bits = {form.bits for _, form in stored.formats} if stored is not None and method == "modelopt" else set()
    method = "modelopt_fp4" if bits == {4} else method
    if gpu is None or not support.load(version).is_refused_on_rocm(method=method, is_final=len(bits) == 1):
        return ()
    return (f"vLLM {version} rejects quantization {method} on AMD GPUs ({gpu})",)


def _without_dtype(shape: Shape, settings: LaunchSettings, devices: Sequence[Device]) -> tuple[str, ...]:
    if settings.dtype not in ("bfloat16", "float32") or too_old(settings, devices):
        return ()  # a GPU without kernels in the release is rejected for that
    old = [device for device in devices if device.capability is not None and device.capability < _BFLOAT16_FROM]
    names, version = sorted({device.name for device in old}), settings.version
    is_half = shape.model_type not in start_rules(settings.key)[0].no_half
    method = _method(shape, settings)
    types = support.load(version).activation_types(method) if method is not None else None
    is_float = types is None or "float32" in types
    advice = "; set --dtype half" if is_half else "; set --dtype float32" if is_float else ""
    if settings.dtype == "bfloat16":
        return tuple(f"{name} does not support bfloat16, which this launch uses{advice}" for name in names)
    if is_float:
        return ()
    advice = "; set --dtype half" if is_half else f": {' and '.join(names)} cannot run it" if names else ""
    return (f"vLLM {version} has no quantization {method} for float32, which this launch uses{advice}",)


def _without_sparse_attention(shape: Shape, settings: LaunchSettings, devices: Sequence[Device]) -> tuple[str, ...]:
    """GPUs below every backend that attends to selected tokens, for a model that does so."""
    mixers = (mixer for layer in shape.kinds for mixer in layer.mixers)
    if not any(isinstance(mixer, Compressed) or (isinstance(mixer, Latent) and mixer.index_heads) for mixer in mixers):
        return ()
    version = settings.version
    taken = support.load(version).sparse_capabilities
    names = {device.name: device.capability for device in devices if device.capability is not None}
    return tuple(
        f"vLLM {version} has no sparse attention backend for {name} (compute capability {has[0]}.{has[1]}): "
        f"the model needs at least {min(taken)[0]}.{min(taken)[1]}"
        for name, has in sorted(names.items())
        if taken and has < min(taken)
    )


def _cut_media(shape: Shape, settings: LaunchSettings) -> tuple[str, ...]:
    """A batch that is smaller than the encoder's output, which an encoder-decoder model does not read in parts.

    v1/core/encoder_cache_manager.py (0.13.0 and 0.32.0 :345).
    """
    crossed = any(
        isinstance(mixer, Attention) and mixer.kind == "cross" for kind in shape.kinds for mixer in kind.mixers
    )
    longest, batch = audio_tokens(shape), settings.scheduler.batched_tokens
    if not crossed or settings.key < CROSSED_BATCH or not 0 < batch < longest:
        return ()
    return (f"max_num_batched_tokens {batch:,} is smaller than the {longest:,} tokens of one audio: vLLM rejects it",)


def audio_tokens(shape: Shape) -> int:
    """Tokens of the longest output of an encoder; 0 without one that names its length."""
    return max((encoder.sizes.get("max_source_positions") or 0 for encoder in shape.encoders or ()), default=0)
