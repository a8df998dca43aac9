"""A picture model for the chip, written as a class."""

import argparse
import os

import torch
from tyllm import torch_edgex
from vllm import LLM
from vllm.config import ParallelConfig


class Compiler:
    VISION_ORDER = [1, 0] + [0] * 15
    LANGUAGE_ORDER = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]

    def __init__(self, options):
        self.options = options
        self.target = os.path.join("out", f"Qwen3-VL-8B-AWQ-AOT_{options.width}x{options.height}_8192_2die_image_1001_gpu")

    def configure(self):
        device = "cuda" if torch.cuda.is_available() else "cpu"
        torch_edgex.set_device_mode("jit_device", device)
        torch_edgex.edgex_module.set_trace_only_mode(True)
        torch_edgex.set_device_mode("exec_mode", "AOT")
        torch_edgex.set_device_mode("prefill_lens", [1, 96])
        torch_edgex.set_device_mode("AOT_DIR", self.target)
        torch_edgex.set_device_mode("VM_die_remap", self.VISION_ORDER)
        torch_edgex.set_device_mode("LM_die_remap", self.LANGUAGE_ORDER)

    def patch(self):
        before = ParallelConfig.__post_init__

        def after(config):
            before(config)
            config.world_size = 1

        ParallelConfig.__post_init__ = after

    def run(self):
        self.configure()
        self.patch()
        from tyllm.vllm_ext.edgex_executor import EdgeXExecutor

        engine = LLM(
            model=self.options.model,
            max_model_len=8192,
            tensor_parallel_size=2,
            dtype="float16",
            distributed_executor_backend=EdgeXExecutor,
            device="cpu",
        )
        engine.generate("describe the picture")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="./Qwen3-VL-8B-AWQ")
    parser.add_argument("--width", type=int, default=960)
    parser.add_argument("--height", type=int, default=540)
    return parser.parse_args()


if __name__ == "__main__":
    Compiler(arguments()).run()
