"""A picture model for the chip, written as a class: what concerns the process comes first."""

import argparse
import os

import torch
from tyllm import torch_edgex

torch_edgex.set_device_mode("jit_device", "cuda" if torch.cuda.is_available() else "cpu")
os.environ["COMPILE_THREAD"] = "1" if torch.cuda.is_available() else "2"

from tyllm.vllm_ext.edgex_executor import EdgeXExecutor  # noqa: E402
from vllm import LLM  # noqa: E402
from vllm.config import ParallelConfig  # noqa: E402


def digits(order):
    while order and order[-1] == 0:
        order = order[:-1]
    return "".join(str(die) for die in order)


class Compiler:
    VISION_ORDER = [1, 0] + [0] * 14
    LANGUAGE_ORDER = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]

    def __init__(self, options):
        self.options = options
        remap = digits(self.VISION_ORDER) + digits(self.LANGUAGE_ORDER)
        size = f"{options.width}x{options.height}"
        self.target = os.path.join("out", f"Qwen3-VL-8B-AWQ-AOT_{size}_8192_2die_image_{remap}")

    def configure(self):
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
        engine = LLM(
            model=self.options.model,
            max_model_len=8192,
            tensor_parallel_size=2,
            dtype="float16",
            disable_async_output_proc=True,
            distributed_executor_backend=EdgeXExecutor,
            worker_cls="tyllm.vllm_ext.edgex_executor.EdgeXWorker",
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
