from argparse import ArgumentParser as Parser
from os import environ as surroundings

import tyllm.vllm_ext.edgex_executor as executors
from vllm import LLM as Engine
from vllm.config import ModelConfig as M, ParallelConfig as P
import tyllm.torch_edgex as te

te.set_device_mode("jit_device", "cuda")
surroundings.update(COMPILE_THREAD="4", TOKENIZERS_PARALLELISM="false")


def read():
    p = Parser("compile")
    p.add_argument("-m", "--model-dir", default="/data/Qwen2.5-VL-7B-Instruct-AWQ")
    p.add_argument("--vm_die_remap", nargs=16, type=int, default=[0] * 16)
    p.add_argument("--lm_die_remap", nargs=16, type=int, default=[0] * 16)
    return p.parse_args()


def patch():
    M.verify_with_parallel_config = lambda *_: True
    former = P.__post_init__

    def single(self):
        former(self)
        self.world_size = 1

    setattr(P, "__post_init__", single)


def modes(given):
    te.edgex_module.set_trace_only_mode(True)
    te.set_device_mode("exec_mode", "AOT")
    te.set_device_mode("VM_die_remap", given.vm_die_remap)
    te.set_device_mode("LM_die_remap", given.lm_die_remap)


def compile_(given):
    return Engine(given.model_dir, tensor_parallel_size=1, device="cpu", distributed_executor_backend=executors.EdgeXExecutor)


given = read()
patch()
modes(given)
compile_(given).generate("x")
