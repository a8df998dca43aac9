"""The towers for images and audio beside a language model: their tensors, by family."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from vllm_runbooks.plan.shape import Encoder
from vllm_runbooks.plan.tensors import ModelTensor, linear


def _affine(component: str, name: str, rows: int, columns: int, split: str = "", **more: Any) -> ModelTensor:
    return linear(component, name, rows, columns, split, bias=True, **more)


def _size(config: Mapping[str, Any], default: int, *names: str) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return default


def _side(config: Mapping[str, Any], default: int, name: str) -> int:
    """A size that may be given as height and width."""
    value = config.get(name)
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return _size({name: first}, default, name)


def _tower(count: int, tensors: Iterable[ModelTensor]) -> Iterator[ModelTensor]:
    """The tensors of a tower's layer, as often as there are layers."""
    return (replace(tensor, count=tensor.count * count) for tensor in tensors)


def _block(size: int, wide: int, *names: str) -> tuple[ModelTensor, ...]:
    """A layer as most towers have it, all with biases; named are query-key-value, output, and the MLP's two."""
    qkv, out, up, down = names
    return (
        ModelTensor("vision", "norms", size, bias=True, count=2),
        _affine("vision", qkv, 3 * size, size, "column"),
        _affine("vision", out, size, size, "row"),
        _affine("vision", up, wide, size, "column"),
        _affine("vision", down, size, wide, "row"),
    )


def _gated(component: str, rows: int, hidden: int, *, bias: bool) -> Iterator[ModelTensor]:
    yield linear(component, "mlp.gate_proj", rows, hidden, "column", bias=bias, fused="vision_gate_up")
    yield linear(component, "mlp.up_proj", rows, hidden, "column", bias=bias, fused="vision_gate_up")
    yield linear(component, "mlp.down_proj", hidden, rows, "row", bias=bias)


def _qwen2_vl(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    size, merge = _size(config, 1280, "embed_dim"), _size(config, 2, "spatial_merge_size") ** 2
    patch = _size(config, 14, "patch_size") ** 2 * _size(config, 2, "temporal_patch_size")
    wide = size * _size(config, 4, "mlp_ratio")
    yield ModelTensor("vision", "patch_embed.proj", size, _size(config, 3, "in_channels", "in_chans") * patch)
    yield from _tower(_size(config, 32, "depth"), _block(size, wide, "attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"))
    yield ModelTensor("vision", "merger.ln_q", size, bias=True)
    yield _affine("vision", "merger.mlp.0", size * merge, size * merge, "column")
    yield _affine("vision", "merger.mlp.2", _size(config, hidden, "hidden_size"), size * merge, "row")


def _qwen2_5_vl(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    size, merge = _size(config, 3584, "hidden_size"), _size(config, 2, "spatial_merge_size") ** 2
    patch = _size(config, 14, "patch_size") ** 2 * _size(config, 2, "temporal_patch_size")
    yield ModelTensor("vision", "patch_embed.proj", size, _size(config, 3, "in_channels", "in_chans") * patch)
    yield from _tower(_size(config, 32, "depth"), (
        ModelTensor("vision", "norms", size, count=2),
        _affine("vision", "attn.qkv", 3 * size, size, "column"),
        _affine("vision", "attn.proj", size, size, "row"),
        *_gated("vision", _size(config, 3420, "intermediate_size"), size, bias=True),
    ))  # fmt: skip
    yield ModelTensor("vision", "merger.ln_q", size)
    yield _affine("vision", "merger.mlp.0", size * merge, size * merge, "column")
    yield _affine("vision", "merger.mlp.2", _size(config, hidden, "out_hidden_size"), size * merge, "row")


def taps(config: Mapping[str, Any]) -> int:
    """Layers of Qwen 3's tower whose output goes to the first decoder layers (deepstack)."""
    deep = config.get("deepstack_visual_indexes")
    # Qwen 3.5's class has no such field; of the class that has it three layers are tapped.
    return len(deep) if isinstance(deep, (list, tuple)) else 0 if "3_5" in str(config.get("model_type")) else 3


def _qwen3_vl(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    size, merge = _size(config, 1152, "hidden_size"), _size(config, 2, "spatial_merge_size") ** 2
    patch = _size(config, 16, "patch_size") ** 2 * _size(config, 2, "temporal_patch_size")
    wide = _size(config, 4304, "intermediate_size")
    out = _size(config, hidden, "out_hidden_size")
    yield ModelTensor("vision", "patch_embed.proj", size, _size(config, 3, "in_channels") * patch, bias=True)
    yield ModelTensor("vision", "pos_embed", _size(config, 2304, "num_position_embeddings"), size)
    yield from _tower(
        _size(config, 27, "depth"), _block(size, wide, "attn.qkv", "attn.proj", "mlp.linear_fc1", "mlp.linear_fc2")
    )
    tapped = taps(config)
    yield ModelTensor("vision", "merger.norm", size, bias=True)
    if tapped:
        yield ModelTensor("vision", "deepstack_merger.norm", size * merge, bias=True, count=tapped)
    yield _affine("vision", "merger.linear_fc1", size * merge, size * merge, "column", count=1 + tapped)
    yield _affine("vision", "merger.linear_fc2", out, size * merge, "row", count=1 + tapped)


def _glm4v(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    size, out = _size(config, 1536, "hidden_size"), _size(config, hidden, "out_hidden_size")
    merge = _size(config, 2, "spatial_merge_size") ** 2
    patch = _size(config, 14, "patch_size")
    area = patch**2 * _size(config, 2, "temporal_patch_size") * _size(config, 3, "in_channels")
    positions = (_size(config, 336, "image_size") // patch) ** 2
    wide = _size(config, 13696, "intermediate_size")
    yield ModelTensor("vision", "patch_embed.proj", size, area, bias=True)
    yield ModelTensor("vision", "embeddings.position_embedding", positions, size)
    yield ModelTensor("vision", "norms", size, count=2)
    yield from _tower(_size(config, 24, "depth"), (
        ModelTensor("vision", "norms", size, count=2),
        linear("vision", "attn.qkv", 3 * size, size, "column"),
        linear("vision", "attn.proj", size, size, "row"),
        *_gated("vision", out, size, bias=False),
    ))  # fmt: skip
    yield ModelTensor("vision", "downsample", out, size * merge, bias=True)
    yield linear("vision", "merger.proj", out, out, "column")
    yield ModelTensor("vision", "merger.post_projection_norm", out, bias=True)
    yield from _gated("vision", wide, out, bias=False)


def _chosen(config: Mapping[str, Any], layers: int) -> int:
    """Layers up to the one whose output is used: vLLM leaves out those behind (`get_num_selected_vision_layers`)."""
    told_layer = config.get("vision_feature_layer")
    if not isinstance(told_layer, int):
        return layers
    return max(0, min(layers, layers + told_layer + 1 if told_layer < 0 else told_layer))


_SIGLIP = ("self_attn.qkv_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2")


def _siglip_tower(config: Mapping[str, Any], *, has_last_norm: bool = True) -> Iterator[ModelTensor]:
    size, patch = _size(config, 768, "hidden_size"), _size(config, 16, "patch_size")
    wide, layers = _size(config, 3072, "intermediate_size"), _size(config, 12, "num_hidden_layers")
    positions = _size(config, (_size(config, 224, "image_size") // patch) ** 2, "num_patches")
    used = _chosen(config, layers)
    yield ModelTensor("vision", "patch_embedding", size, _size(config, 3, "num_channels") * patch**2, bias=True)
    yield ModelTensor("vision", "position_embedding", positions, size)
    yield from _tower(used, _block(size, wide, *_SIGLIP))
    if used < layers:
        yield from (replace(tensor, is_loaded=False) for tensor in _tower(layers - used, _block(size, wide, *_SIGLIP)))
    yield ModelTensor("vision", "post_layernorm", size, bias=True, is_loaded=has_last_norm)


def _siglip(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    size, wide = _size(config, 768, "hidden_size"), _size(config, 3072, "intermediate_size")
    yield from _siglip_tower(config)
    if config.get("vision_use_head", True):
        yield ModelTensor("vision", "head.probe", size)
        yield _affine("vision", "head.attention", size, size, count=4)
        yield ModelTensor("vision", "head.layernorm", size, bias=True)
        yield _affine("vision", "head.mlp.fc1", wide, size)
        yield _affine("vision", "head.mlp.fc2", size, wide)
    yield ModelTensor("vision", "multi_modal_projector.mm_input_projection_weight", size, hidden)
    yield ModelTensor("vision", "multi_modal_projector.mm_soft_emb_norm", size)


def _gemma4_vision(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    size, wide = _size(config, 768, "hidden_size"), _size(config, 3072, "intermediate_size")
    heads, head = _size(config, 12, "num_attention_heads"), _size(config, 64, "head_dim")
    values = _size(config, heads, "num_key_value_heads")
    patch = _size(config, 16, "patch_size")
    yield ModelTensor("vision", "patch_embedder.input_proj", size, 3 * patch**2)
    yield ModelTensor("vision", "position_embedding_table", 2 * _size(config, 10240, "position_embedding_size"), size)
    yield from _tower(_size(config, 16, "num_hidden_layers"), (
        ModelTensor("vision", "norms", size, count=4),
        ModelTensor("vision", "head_norms", head, count=2),
        ModelTensor("vision", "self_attn.q_proj", heads * head, size),
        ModelTensor("vision", "self_attn.kv_proj", values * head, size, count=2),
        ModelTensor("vision", "self_attn.o_proj", size, heads * head),
        ModelTensor("vision", "mlp.gate_up", wide, size, count=2),
        ModelTensor("vision", "mlp.down_proj", size, wide),
    ))  # fmt: skip
    if config.get("standardize"):
        yield ModelTensor("vision", "standardize", size, count=2)
    yield ModelTensor("vision", "embed_vision.embedding_projection", hidden, size)


def _gemma4_audio(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    size = _size(config, 1024, "hidden_size")
    channels = config.get("subsampling_conv_channels") or (128, 32)
    first, second = channels[0], channels[1]
    out = _size(config, 1536, "output_proj_dims")
    yield ModelTensor("audio", "subsample.layer0.conv", first, 9)
    yield ModelTensor("audio", "subsample.layer1.conv", second, first * 9)
    yield ModelTensor("audio", "subsample.norms", first + second)
    # Two convolutions of stride two leave a quarter of the 128 mel bands.
    yield ModelTensor("audio", "subsample.input_proj_linear", size, second * 32)
    heads = _size(config, 8, "num_attention_heads")
    yield from _tower(_size(config, 12, "num_hidden_layers"), (
        ModelTensor("audio", "feed_forward", 4 * size, size, count=4),
        ModelTensor("audio", "norms", size, count=9),
        ModelTensor("audio", "self_attn", size, size, count=5),
        ModelTensor("audio", "self_attn.per_dim_scale", size // heads),
        ModelTensor("audio", "lconv1d.linear_start", 2 * size, size),
        ModelTensor("audio", "lconv1d.linear_end", size, size),
        ModelTensor("audio", "lconv1d.depthwise_conv1d", size, _size(config, 5, "conv_kernel_size")),
    ))  # fmt: skip
    yield ModelTensor("audio", "output_proj", out, size, bias=True)
    yield ModelTensor("audio", "embed_audio.embedding_projection", hidden, out)


def _clip(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    size, patch = _size(config, 768, "hidden_size"), _size(config, 32, "patch_size")
    wide = _size(config, 3072, "intermediate_size")
    positions = (_size(config, 224, "image_size") // patch) ** 2 + 1
    layers = _size(config, 12, "num_hidden_layers")
    used = _chosen(config, layers)
    yield ModelTensor("vision", "class_embedding", size)
    yield ModelTensor("vision", "patch_embedding", size, 3 * patch**2)
    yield ModelTensor("vision", "position_embedding", positions, size)
    yield from _tower(used, _block(size, wide, *_SIGLIP))
    if used < layers:
        yield from (replace(tensor, is_loaded=False) for tensor in _tower(layers - used, _block(size, wide, *_SIGLIP)))
    yield ModelTensor("vision", "pre_layernorm", size, bias=True)
    # Of what is behind the last layer nothing reads it.
    yield ModelTensor("vision", "post_layernorm", size, bias=True, is_loaded=False)
    yield _affine("vision", "multi_modal_projector.linear_1", hidden, size, "column")
    yield _affine("vision", "multi_modal_projector.linear_2", hidden, hidden, "row")


def _llava(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    """Whichever tower the configuration names, in front of two linear layers."""
    if config.get("model_type") == "pixtral":
        for tensor in _pixtral(config, hidden):
            if not tensor.name.startswith(("patch_merger", "multi_modal_projector")):
                yield replace(tensor, count=1) if tensor.name == "norms" and tensor.count == 2 else tensor
    elif config.get("model_type") == "siglip_vision_model":
        yield from _siglip_tower(config, has_last_norm=False)
    else:
        yield from _clip({"vision_feature_layer": -2, **config}, hidden)
        return
    size = _size(config, 1024, "hidden_size")
    yield _affine("vision", "multi_modal_projector.linear_1", hidden, size, "column")
    yield _affine("vision", "multi_modal_projector.linear_2", hidden, hidden, "row")


def _llava_next(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    yield ModelTensor("vision", "image_newline", hidden)
    yield from _llava(config, hidden)


def _llava_onevision(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    yield ModelTensor("vision", "image_newline", hidden)
    yield from _siglip_tower({"hidden_size": 1152, **config}, has_last_norm=False)
    yield _affine("vision", "multi_modal_projector.linear_1", hidden, _size(config, 1152, "hidden_size"))
    yield _affine("vision", "multi_modal_projector.linear_2", hidden, hidden)


def _paligemma(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    yield from _siglip_tower(config)
    yield _affine("vision", "multi_modal_projector.linear", hidden, _size(config, 1152, "hidden_size"))


def _idefics3(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    yield from _siglip_tower({"hidden_size": 1152, **config})
    # Pixels are shuffled: so many fewer tokens, so much wider.
    merged = _size(config, 1152, "hidden_size") * _size(config, 2, "scale_factor") ** 2
    yield linear("vision", "connector.modality_projection.proj", hidden, merged)


def _lfm2_vl(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    yield from _siglip_tower({"num_patches": 256, **config})
    merged = _size(config, 768, "hidden_size") * _size(config, 2, "downsample_factor") ** 2
    inner = _size(config, 2560, "projector_hidden_size")
    bias = bool(config.get("projector_bias", True))
    if config.get("projector_use_layernorm", True):
        yield ModelTensor("vision", "multi_modal_projector.layer_norm", merged, bias=True)
    yield ModelTensor("vision", "multi_modal_projector.linear_1", inner, merged, bias=bias)
    yield ModelTensor("vision", "multi_modal_projector.linear_2", hidden, inner, bias=bias)


def _cohere2_vision(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    yield from _siglip_tower({"hidden_size": 1152, "num_hidden_layers": 27, "image_size": 512, **config})
    merged = _size(config, 1152, "hidden_size") * _size(config, 2, "downsample_factor") ** 2
    inner = _size(config, 36864, "alignment_intermediate_size")
    yield _affine("vision", "multi_modal_projector.linear_1", inner, merged, "column")
    # The activation multiplies one half with the other.
    yield _affine("vision", "multi_modal_projector.linear_2", hidden, inner // 2, "row")


def _whisper(config: Mapping[str, Any]) -> Iterator[ModelTensor]:
    """The encoder of transformers' class, which has no bias of keys; it is whole on each rank."""
    size, wide = _size(config, 1280, "d_model"), _size(config, 5120, "encoder_ffn_dim")
    yield ModelTensor("audio", "conv1", size, 3 * _size(config, 128, "num_mel_bins"), bias=True)
    yield ModelTensor("audio", "conv2", size, 3 * size, bias=True)
    yield from _tower(_size(config, 32, "encoder_layers"), (
        ModelTensor("audio", "norms", size, bias=True, count=2),
        ModelTensor("audio", "self_attn.k_proj", size, size),
        ModelTensor("audio", "self_attn", size, size, bias=True, count=3),
        ModelTensor("audio", "fc1", wide, size, bias=True),
        ModelTensor("audio", "fc2", size, wide, bias=True),
    ))  # fmt: skip
    yield ModelTensor("audio", "layer_norm", size, bias=True)


def _qwen2_audio(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    size = _size(config, 1280, "d_model")
    yield from _whisper(config)
    yield ModelTensor("audio", "embed_positions", _size(config, 1500, "max_source_positions"), size)
    yield ModelTensor("audio", "multi_modal_projector.linear", hidden, size, bias=True)


def _qwen2_5_omni_audio(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    out = _size(config, hidden, "output_dim")
    yield from _whisper(config)
    yield ModelTensor("audio", "audio_bos_eos_token", 2, out)
    yield ModelTensor("audio", "proj", out, _size(config, 1280, "d_model"), bias=True)


def _intern_s1(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    """InternVL's tower in the form of transformers: attention is whole on each rank."""
    size, wide = _size(config, 1024, "hidden_size"), _size(config, 4096, "intermediate_size")
    image, patch = _side(config, 448, "image_size"), _side(config, 14, "patch_size")
    bias = bool(config.get("attention_bias"))
    yield ModelTensor("vision", "cls_token", size)
    yield ModelTensor("vision", "position_embeddings", (image // patch) ** 2 + 1, size)
    yield ModelTensor("vision", "patch_embeddings.projection", size, 3 * patch**2, bias=True)
    yield from _tower(_size(config, 24, "num_hidden_layers"), (
        ModelTensor("vision", "norms", size, bias=config.get("norm_type", "layer_norm") == "layer_norm", count=2),
        ModelTensor("vision", "scales", size, count=2),
        *((ModelTensor("vision", "qk_norms", size, count=2),) if config.get("use_qk_norm") else ()),
        linear("vision", "attention.qkv", 3 * size, size, bias=bias),
        _affine("vision", "attention.projection_layer", size, size),
        _affine("vision", "mlp.fc1", wide, size, "column"),
        _affine("vision", "mlp.fc2", size, wide, "row"),
    ))  # fmt: skip
    if not config.get("use_mean_pooling", True):
        yield ModelTensor("vision", "layernorm", size, bias=True)
    yield ModelTensor("vision", "multi_modal_projector.layer_norm", 4 * size, bias=True)
    yield ModelTensor("vision", "multi_modal_projector.linear_1", hidden, 4 * size, bias=True)
    yield ModelTensor("vision", "multi_modal_projector.linear_2", hidden, hidden, bias=True)


def _pixtral(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    size, patch = _size(config, 1024, "hidden_size"), _size(config, 16, "patch_size")
    wide = _size(config, 4096, "intermediate_size")
    yield ModelTensor("vision", "patch_conv", size, _size(config, 3, "num_channels") * patch**2)
    yield ModelTensor("vision", "norms", size, count=2)
    yield from _tower(_size(config, 24, "num_hidden_layers"), (
        ModelTensor("vision", "norms", size, count=2),
        linear("vision", "attention.qkv_proj", 3 * size, size, "column"),
        linear("vision", "attention.o_proj", size, size, "row"),
        *_gated("vision", wide, size, bias=False),
    ))  # fmt: skip
    yield ModelTensor("vision", "patch_merger.merging_layer", size, 4 * size)
    yield linear("vision", "multi_modal_projector.linear_1", hidden, size, "column")
    yield linear("vision", "multi_modal_projector.linear_2", hidden, hidden, "row")


def _internvit(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    size, patch = _size(config, 1024, "hidden_size"), _size(config, 14, "patch_size")
    wide = _size(config, 4096, "intermediate_size")
    positions = (_size(config, 448, "image_size") // patch) ** 2 + 1
    yield ModelTensor("vision", "class_embedding", size)
    yield ModelTensor("vision", "patch_embedding", size, 3 * patch**2, bias=True)
    yield ModelTensor("vision", "position_embedding", positions, size)
    yield from _tower(_size(config, 24, "num_hidden_layers"), (
        ModelTensor("vision", "norms", size, bias=True, count=2),
        ModelTensor("vision", "scales", size, count=2),
        linear("vision", "attn.qkv", 3 * size, size, "column", bias=bool(config.get("qkv_bias", True))),
        _affine("vision", "attn.proj", size, size, "row"),
        _affine("vision", "mlp.fc1", wide, size, "column"),
        _affine("vision", "mlp.fc2", size, wide, "row"),
    ))  # fmt: skip
    # Half the side of the grid: four patches make a token.
    yield ModelTensor("vision", "mlp1.0", 4 * size, bias=True)
    yield ModelTensor("vision", "mlp1.1", hidden, 4 * size, bias=True)
    yield ModelTensor("vision", "mlp1.3", hidden, hidden, bias=True)


def _mllama_vision(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    size, patch = _size(config, 1280, "hidden_size"), _size(config, 14, "patch_size")
    wide, tiles = _size(config, 5120, "intermediate_size"), _size(config, 4, "max_num_tiles")
    positions = (_size(config, 448, "image_size") // patch) ** 2 + 1
    ratios = config.get("supported_aspect_ratios")
    kinds = (len(ratios) if isinstance(ratios, (list, tuple)) else 8) + 1
    deep, wide_deep = _size(config, 32, "num_hidden_layers"), _size(config, 8, "num_global_layers")
    yield ModelTensor("vision", "class_embedding", size)
    yield ModelTensor("vision", "patch_embedding", size, 3 * patch**2)
    yield ModelTensor("vision", "gates", 3 + 2 * wide_deep)
    yield ModelTensor("vision", "gated_positional_embedding", positions, size)
    yield ModelTensor("vision", "tile_embedding", kinds, tiles * positions * size)
    yield ModelTensor("vision", "tile_positional_embeddings", kinds, tiles * size, count=2)
    yield ModelTensor("vision", "layernorms", size, bias=True, count=2)
    yield from _tower(deep + wide_deep, (
        ModelTensor("vision", "norms", size, bias=True, count=2),
        linear("vision", "self_attn.qkv_proj", 3 * size, size, "column"),
        linear("vision", "self_attn.o_proj", size, size, "row"),
        _affine("vision", "mlp.fc1", wide, size, "column"),
        _affine("vision", "mlp.fc2", size, wide, "row"),
    ))  # fmt: skip
    yield ModelTensor("vision", "multi_modal_projector", hidden, _size(config, 7680, "vision_output_dim"), bias=True)


def _moonvit(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    size, patch = _size(config, 1152, "hidden_size", "vt_hidden_size"), _size(config, 14, "patch_size")
    wide = _size(config, 4304, "intermediate_size", "vt_intermediate_size")
    positions = _size(config, 64, "init_pos_emb_height") * _size(config, 64, "init_pos_emb_width")
    merged = 4 * size
    yield ModelTensor("vision", "patch_embed.proj", size, 3 * patch**2, bias=True)
    yield ModelTensor("vision", "patch_embed.pos_emb", positions, size)
    yield from _tower(
        _size(config, 27, "num_hidden_layers", "vt_num_hidden_layers"),
        _block(size, wide, "wqkv", "wo", "mlp.fc0", "mlp.fc1"),
    )
    yield ModelTensor("vision", "norms", size, bias=True, count=2)
    yield ModelTensor("vision", "mm_projector.linear_1", merged, merged, bias=True)
    yield ModelTensor("vision", "mm_projector.linear_2", hidden, merged, bias=True)


def _llama4(config: Mapping[str, Any], hidden: int) -> Iterator[ModelTensor]:
    size, patch = _size(config, 768, "hidden_size"), _size(config, 14, "patch_size")
    wide = _size(config, 5632, "intermediate_size")
    positions = (_size(config, 448, "image_size") // patch) ** 2 + 1
    first, second = _size(config, 4096, "projector_input_dim"), _size(config, 4096, "projector_output_dim")
    # Shuffling pixels by half leaves a quarter of the tokens, four times as wide.
    yield ModelTensor("vision", "class_embedding", size)
    yield ModelTensor("vision", "positional_embedding_vlm", positions, size)
    yield linear("vision", "patch_embedding", size, _size(config, 3, "num_channels") * patch**2, "column")
    yield ModelTensor("vision", "layernorms", size, bias=True, count=2)
    yield from _tower(
        _size(config, 34, "num_hidden_layers"),
        _block(size, wide, "self_attn.qkv_proj", "self_attn.o_proj", "mlp.fc1", "mlp.fc2"),
    )
    yield linear("vision", "vision_adapter.mlp.fc1", first, wide, "column")
    yield linear("vision", "vision_adapter.mlp.fc2", second, first, "row")
    yield linear("vision", "multi_modal_projector", hidden, _size(config, 7680, "vision_output_dim"), "column")


_TOWERS: Mapping[str, Callable[[Mapping[str, Any], int], Iterator[ModelTensor]]] = {
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
    "glm4v": _glm4v,
    "gemma3": _siglip,
    "gemma4": _gemma4_vision,
    "gemma4_audio": _gemma4_audio,
    "llava": _llava,
    "llava_next": _llava_next,
    "llava_onevision": _llava_onevision,
    "cohere2_vision": _cohere2_vision,
    "qwen2_audio_audio": _qwen2_audio,
    "qwen2_5_omni": _qwen2_5_vl,
    "qwen2_5_omni_audio": _qwen2_5_omni_audio,
    "paligemma": _paligemma,
    "idefics3": _idefics3,
    "lfm2_vl": _lfm2_vl,
    "internvl": _intern_s1,
    "pixtral": _pixtral,
    "internvit": _internvit,
    "llama4": _llama4,
    "moonvit": _moonvit,
    "mllama": _mllama_vision,
}
_UNQUANTIZED = ("gemma4", "gemma4_audio", "qwen2_audio_audio", "qwen2_5_omni_audio", "moonvit")
"""Towers whose linear layers a quantization chosen at launch does not reach (vLLM's classes do not pass it on)."""
_CHOOSING = ("llava", "llava_next")
_CHOOSABLE = (None, "clip_vision_model", "pixtral", "siglip_vision_model")
"""Towers that `_llava` chooses among; a configuration that names none has CLIP's, as transformers has it."""


def encoder_tensors(encoder: Encoder, hidden: int) -> tuple[ModelTensor, ...] | None:
    tower = _TOWERS.get(encoder.family)
    kind = encoder.sizes.get("model_type")
    if tower is None or (encoder.family in _CHOOSING and kind not in _CHOOSABLE):
        return None
    tensors = tuple(tower(encoder.sizes, hidden))
    return (
        tensors if encoder.family not in _UNQUANTIZED else tuple(replace(tensor, is_linear=False) for tensor in tensors)
    )
