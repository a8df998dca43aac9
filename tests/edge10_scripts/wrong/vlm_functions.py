import os

from tyllm import torch_edgex


def prepare(order):
    torch_edgex.set_device_mode("LM_die_remap", order)


def device():
    torch_edgex.set_device_mode("jit_device", "cpu")
    os.environ["COMPILE_THREAD"] = 1


def engine(path):
    from tyllm.vllm_ext import edgex_executor
    from vllm import LLM

    return LLM(path, tensor_parallel_size=3, max_model_len=64, device="cpu",
               distributed_executor_backend=edgex_executor.EdgeXExecutor)


def main():
    device()
    torch_edgex.set_device_mode("prefill_lens", [1, 96])
    prepare([2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    prepare([0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])  # for the demo board
    llm = engine("Qwen3-VL-4B-Instruct-AWQ")
    torch_edgex.edgex_module.set_trace_only_mode(True)
    llm.generate("?")


main()
