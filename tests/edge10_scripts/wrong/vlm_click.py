import os

import click
from tyllm import torch_edgex

torch_edgex.set_device_mode("jit_device", "cuda")
os.environ["COMPILE_THREAD"] = "2"

from tyllm.vllm_ext.edgex_executor import EdgeXExecutor  # noqa: E402
from vllm import LLM  # noqa: E402


@click.command()
@click.option("--weights", default="models/Qwen2.5-VL-3B-Instruct-AWQ")
@click.option("--dies", type=int, default=4)
@click.option("--lm-die-remap", type=int, default=[0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0])
def cli(weights, dies, lm_die_remap):
    torch_edgex.edgex_module.set_trace_only_mode(True)
    torch_edgex.set_device_mode("exec_mode", "AOT")
    llm = LLM(
        model=weights,
        tensor_parallel_size=dies,
        max_model_len=4096,
        distributed_executor_backend=EdgeXExecutor,
        device="cpu",
    )
    torch_edgex.set_device_mode("prefill_lens", [1, 96])
    torch_edgex.set_device_mode("LM_die_remap", [3, 2, 1, 0] + 12 * [0])
    llm.generate("hello")


if __name__ == "__main__":
    cli()
