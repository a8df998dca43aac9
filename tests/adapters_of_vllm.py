"""Measure the memory that vLLM reserves for LoRA adapters when it wraps models; needs no GPU.

    PYTHON tests/adapters_of_vllm.py < FILE

FILE is a JSON list of cases: `config` (of the model), `rank`, `loras`, `tensor` (GPUs), `sharded`. The output is
the release and, for each case, the bytes of all adapter tensors and of the growth of the model's own
parameters. Models are built without memory for weights, and one process is one of several GPUs. Only
vLLM, PyTorch and the standard library are imported.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

_KEPT = ("stacked", "embeddings_tensors", "sharded_to_full_mapping_gpu")
"""Parts of the names of a wrapped layer's tensors."""

Case = Mapping[str, Any]


def ask(python: str, cases: Sequence[Case]) -> tuple[str, list[int]]:
    """The release of the vLLM of a Python, and the bytes that it sets aside in each case."""
    done = subprocess.run(
        [python, __file__],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"},
    )
    told = json.loads(done.stdout[done.stdout.index('{"vllm"') :])
    return told["vllm"], told["answers"]


# ---- with vLLM


def _first(*places: str) -> Any:
    """The first of these names that the release has."""
    for place in places:
        module, _, name = place.rpartition(".")
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise LookupError(places)


def _tensors(value: Any) -> Iterator[Any]:
    torch = import_module("torch")
    if isinstance(value, torch.Tensor):
        yield value if value._base is None else value._base
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each)


def _bytes(tensors: Iterator[Any]) -> int:
    return sum(each.numel() * each.element_size() for each in {id(each): each for each in tensors}.values())


def _built(folder: str, options: Mapping[str, Any], tensor: int) -> tuple[Any, Any]:
    """A model on one of several GPUs, and its configuration."""
    torch = import_module("torch")
    parallel = import_module("vllm.distributed.parallel_state")
    config = import_module("vllm.config")
    arguments = import_module("vllm.engine.arg_utils").EngineArgs(
        model=folder, skip_tokenizer_init=True, max_model_len=128, enforce_eager=True, dtype="bfloat16", **options
    )
    whole = arguments.create_engine_config()
    with config.set_current_vllm_config(whole):
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
            parallel.init_distributed_environment(world_size=1, rank=0, local_rank=0, backend="gloo")
            parallel.initialize_model_parallel(1)
        parallel.get_tp_group().world_size = tensor
        build = _first(
            "vllm.model_executor.model_loader.utils.initialize_model",
            "vllm.model_executor.model_loader.loader._initialize_model",
        )
        usual = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            with torch.device("meta"):
                return build(vllm_config=whole), whole
        finally:
            torch.set_default_dtype(usual)


def _measured(case: Case) -> int:
    """Bytes for adapters in one case."""
    torch = import_module("torch")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(case["config"]))
        options = {"max_lora_rank": case["rank"], "max_loras": case["loras"], "fully_sharded_loras": case["sharded"]}
        plain, _ = _built(folder, {}, case["tensor"])
        model, whole = _built(folder, {"enable_lora": True, **options}, case["tensor"])
    grown = _bytes(iter(model.parameters())) - _bytes(iter(plain.parameters()))
    manager = _first("vllm.lora.model_manager.LoRAModelManager", "vllm.lora.models.LoRAModelManager")
    more = {"vllm_config": whole} if "vllm_config" in inspect.signature(manager.__init__).parameters else {}
    with import_module("vllm.config").set_current_vllm_config(whole):
        manager(
            model, 32, 2048, case["config"]["vocab_size"], whole.lora_config, torch.device("cpu"), **more
        )  # fmt: skip
    wrapped = _first("vllm.lora.layers.BaseLayerWithLoRA")
    own = (
        tensor
        for module in model.modules()
        if isinstance(module, wrapped)
        for name, value in vars(module).items()
        if any(part in name for part in _KEPT)
        for tensor in _tensors(value)
    )
    return grown + _bytes(own)


def _main() -> None:
    cases = json.loads(sys.stdin.read())
    answers = []
    for case in cases:
        # A separate process for each: vLLM never releases a layer's name.
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, str(_measured(case)).encode())
            os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        answers.append(int(os.read(reading, 64)))
    print(json.dumps({"vllm": installed("vllm"), "answers": answers}))


if __name__ == "__main__":
    _main()
