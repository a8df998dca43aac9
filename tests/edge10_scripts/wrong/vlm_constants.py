# No function at all: constants above, work below.
import os
import datetime
import torch
from tyllm import torch_edgex

DIES = 2
CONTEXT = 4096
WIDTH, HEIGHT = 640, 480
MODEL = "quantised/Qwen3-VL-4B-AWQ"
TARGET = "compiled/Qwen3-VL-4B-AWQ-AOT_960x540_8192_4die_image_0101"

torch_edgex.set_device_mode("jit_device", "cpu")
os.environ["COMPILE_THREAD"] = "2"

import vllm.config as configuration
from tyllm.vllm_ext.edgex_executor import EdgeXExecutor
from vllm import LLM

torch_edgex.edgex_module.set_trace_only_mode(True)
torch_edgex.set_device_mode("exec_mode", "AOT")
torch_edgex.set_device_mode("prefill_lens", [96])
torch_edgex.set_device_mode("AOT_DIR", TARGET)
torch_edgex.set_device_mode("tmp_image_path", "sample.jpg")
torch_edgex.set_device_mode("VM_die_remap", [0, 1] + [0] * 14)
torch_edgex.set_device_mode("LM_die_remap", [0, 1] + [0] * 14)

Image.new("RGB", (WIDTH, HEIGHT)).save("sample.jpg")

engine = LLM(
    model=MODEL,
    max_model_len=CONTEXT,
    tensor_parallel_size=DIES,
    distributed_executor_backend=EdgeXExecutor,
    device="cpu",
)

original = configuration.ParallelConfig.__post_init__


def once(self):
    original(self)
    self.world_size = 1


configuration.ParallelConfig.__post_init__ = once
engine.generate("what is this?")
