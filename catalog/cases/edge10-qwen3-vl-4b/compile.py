"""Compile the quantized model for four dies: hand-written from a published guide, with its mistakes."""

import argparse
import os

from tyllm import torch_edgex
from tyllm.vllm_ext.edgex_executor import EdgeXExecutor
from vllm import LLM
from vllm.config import ModelConfig, ParallelConfig

os.environ["COMPILE_THREAD"] = "2"
torch_edgex.set_device_mode("jit_device", "cuda")


def options():
    known = argparse.ArgumentParser()
    known.add_argument("--checkpoint", default="Qwen3-VL-4B-Instruct-AWQ")
    known.add_argument("--dies", type=int, default=4)
    known.add_argument("--context", type=int, default=8192)
    known.add_argument("--vm-remap", type=int, default=[0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    known.add_argument("--lm-remap", type=int, nargs="+", default=[0, 1, 2, 3] + [0] * 12)
    return known.parse_args()


given = options()
order = "".join(map(str, given.vm_remap[:4])) + "".join(map(str, given.lm_remap[:4]))
target = f"out/Qwen3-VL-4B-Instruct-AWQ-AOT_960x540_{given.context}_{given.dies}die_image_{order}_gpu"

torch_edgex.edgex_module.set_trace_only_mode(True)
torch_edgex.set_device_mode("exec_mode", "AOT")
torch_edgex.set_device_mode("prefill_lens", [1, 8, 96])
torch_edgex.set_device_mode("AOT_DIR", target)
torch_edgex.set_device_mode("VM_die_remap", [3, 2, 1, 0] + [0] * 12)

ModelConfig.verify_with_parallel_config = lambda *_: True
whole = ParallelConfig.__post_init__


def alone(config):
    whole(config)
    config.world_size = 1


ParallelConfig.__post_init__ = alone

if __name__ == "__main__":
    engine = LLM(
        model=given.checkpoint,
        max_model_len=given.context,
        tensor_parallel_size=given.dies,
        dtype="float16",
        distributed_executor_backend=EdgeXExecutor,
        worker_cls="tyllm.vllm_ext.edgex_executor.EdgeXWorker",
        device="cpu",
    )
    torch_edgex.set_device_mode("LM_die_remap", given.lm_remap)
    engine.generate("What is a die?")
