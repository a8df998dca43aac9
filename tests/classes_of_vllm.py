"""Record parameters per rank and caches per layer of vLLM's own classes for small configurations.

    PYTHON tests/classes_of_vllm.py                    PYTHON has vLLM; rewrites measured_classes.json
    PYTHON tests/classes_of_vllm.py --deepseek-v4 CONFIG   prints the bytes of the class for NVIDIA GPUs

Nothing is run: classes are built on the meta device, and the size of a group is set without processes.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

RECORDED = Path(__file__).parent / "measured_classes.json"
RANKS = (1, 2)


def _config(config: dict[str, Any]) -> Any:
    found, classes = import_module("vllm.config"), import_module("transformers")
    if (kind := config["model_type"]) not in classes.CONFIG_MAPPING:
        # A class of the model's own files: any class keeps the fields of a file.
        classes.AutoConfig.register(kind, type("Config", (classes.PreTrainedConfig,), {"model_type": kind}))
    folder = Path(tempfile.mkdtemp())
    (folder / "config.json").write_text(json.dumps(config))
    model = found.ModelConfig(
        model=str(folder), tokenizer=str(folder), skip_tokenizer_init=True, dtype="bfloat16", max_model_len=1024,
        enforce_eager=True,
    )  # fmt: skip
    # The CPU build has no prefix caching for latent attention next to states.
    cache = found.CacheConfig(enable_prefix_caching=False)
    return found.VllmConfig(
        model_config=model, cache_config=cache, load_config=found.LoadConfig(load_format="dummy")
    )  # fmt: skip


def _built(settings: Any, ranks: int) -> Any:
    torch, state = import_module("torch"), import_module("vllm.distributed.parallel_state")
    build = import_module("vllm.model_executor.model_loader.utils").initialize_model
    state._TP.world_size = ranks
    settings.parallel_config.tensor_parallel_size = ranks
    torch.set_default_dtype(torch.bfloat16)
    try:
        for device in ("meta", "cpu"):
            settings.compilation_config.static_forward_context.clear()
            try:
                with torch.device(device):
                    return build(settings)
            except NotImplementedError:
                # Some classes compute their constants from a tensor's values.
                continue
    finally:
        torch.set_default_dtype(torch.float32)
    return None


def _caches(settings: Any) -> list[list[Any]]:
    """Heads, size and window of layers with a cache, shapes of states, and how many layers have them."""
    found: Counter[str] = Counter()
    for layer in settings.compilation_config.static_forward_context.values():
        if hasattr(layer, "get_state_shape"):
            found[json.dumps(["state", [list(shape) for shape in layer.get_state_shape()]])] += 1
        elif getattr(layer, "head_size", None) is not None and "EncoderOnly" not in type(layer).__name__:
            latent = "MLA" in type(layer).__name__
            heads = 1 if latent else layer.num_kv_heads
            window = None if latent else getattr(layer, "sliding_window", None)
            found[json.dumps(["attention", heads, layer.head_size, window])] += 1
    return [[*json.loads(key), count] for key, count in found.items()]


def _tables(built: Any) -> list[tuple[int, ...]]:
    """Rows and columns of the tables of cosines and sines; none where transformers computes them.

    The plan does not count the table of Qwen 3's image tower (8,192 rows of 72 bytes), so it is not recorded.
    """
    modules = (each for name, each in built.named_modules() if not name.startswith("visual."))
    tables = (getattr(each, "cos_sin_cache", None) for each in modules)
    # Layers with equal parameters share a table.
    return sorted({id(table): tuple(table.shape) for table in tables if table is not None}.values())


def _write(record: dict[str, Any]) -> None:
    models = ",\n".join(f"  {json.dumps(model)}" for model in record["models"])
    text = f'{{"release": {json.dumps(record["release"])}, "models": [\n{models}\n]}}\n'
    RECORDED.write_text(text, encoding="utf-8")


def _start(config: dict[str, Any]) -> None:
    """The groups of one process."""
    state, found = import_module("vllm.distributed.parallel_state"), import_module("vllm.config")
    with found.set_current_vllm_config(_config(config)):
        address = f"tcp://127.0.0.1:{20_000 + os.getpid() % 20_000}"
        state.init_distributed_environment(1, 0, address, 0, "gloo")
        state.initialize_model_parallel(1, 1)


class _Nothing:
    """A stream or an event of a GPU."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


def _deepseek_v4(config: dict[str, Any]) -> None:
    """Print the bytes of the class for NVIDIA GPUs, which the CPU build has but does not choose."""
    torch, found = import_module("torch"), import_module("vllm.config")
    package: Any = import_module("vllm.models.deepseek_v4")
    kernels: Any = import_module("vllm.models.deepseek_v4.nvidia.flashmla")
    package.DeepseekV4ForCausalLM = import_module("vllm.models.deepseek_v4.nvidia.model").DeepseekV4ForCausalLM
    kernels.compute_fp8_einsum_recipe = lambda: ((1, 1, 128), True)
    torch.cpu._is_amx_tile_supported = lambda: True
    torch.cuda.Stream = torch.cuda.Event = _Nothing
    _start(config)
    for ranks in RANKS:
        settings = _config(config)
        with found.set_current_vllm_config(settings), mock.patch.dict(os.environ):
            built = _built(settings, ranks)
            held = sum(each.numel() * each.element_size() for each in built.parameters())
            print(type(built).__module__, ranks, held, flush=True)


def main() -> None:
    """Write the measurements."""
    if sys.argv[1:2] == ["--deepseek-v4"]:
        _deepseek_v4(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
        return
    found = import_module("vllm.config")
    # Some classes look up a token's number.
    tokenizers: Any = import_module("vllm.tokenizers")
    tokenizers.cached_tokenizer_from_config = mock.MagicMock()
    record = json.loads(RECORDED.read_text(encoding="utf-8"))
    record["release"] = import_module("vllm").__version__
    # The first configuration has experts: the group that divides them is made only then.
    _start(record["models"][0]["config"])
    wanted = sys.argv[1:]
    for model in record["models"]:
        if wanted and model["name"] not in wanted:
            continue
        model["answers"] = {}
        for ranks in RANKS:
            settings = _config(model["config"])
            with found.set_current_vllm_config(settings), mock.patch.dict(os.environ):
                built = _built(settings, ranks)
                # Gemma 4's scalar of a layer is a buffer that the checkpoint fills.
                buffers = (each for name, each in built.named_buffers() if name.endswith("layer_scalar"))
                held = sum(each.numel() * each.element_size() for each in (*built.parameters(), *buffers))
                model["answers"][str(ranks)] = {
                    "class": type(built).__name__,
                    "bytes": held,
                    "caches": _caches(settings),
                }
                if tables := _tables(built):
                    model["answers"][str(ranks)]["tables"] = tables
            print(model["name"], ranks, held, flush=True)
        _write(record)


if __name__ == "__main__":
    main()
