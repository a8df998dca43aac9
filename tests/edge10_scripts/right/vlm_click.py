import os

import click
from tyllm import torch_edgex

torch_edgex.set_device_mode("jit_device", "cuda")
os.environ["COMPILE_THREAD"] = "1"

from tyllm.vllm_ext.edgex_executor import EdgeXExecutor  # noqa: E402
from vllm import LLM  # noqa: E402

STRAIGHT = (0, 1, 2, 3) + 12 * (0,)


@click.command()
@click.option("--weights", default="models/Qwen2.5-VL-3B-Instruct-AWQ")
@click.option("--dies", type=int, default=4)
@click.option("--lm-die-remap", type=int, multiple=True, default=STRAIGHT)
def cli(weights, dies, lm_die_remap):
    torch_edgex.edgex_module.set_trace_only_mode(True)
    torch_edgex.set_device_mode("exec_mode", "AOT")
    torch_edgex.set_device_mode("prefill_lens", [1, 96])
    torch_edgex.set_device_mode("LM_die_remap", list(lm_die_remap))
    llm = LLM(
        model=weights,
        tensor_parallel_size=dies,
        max_model_len=4096,
        distributed_executor_backend=EdgeXExecutor,
        device="cpu",
    )
    llm.generate("hello")


if __name__ == "__main__":
    cli()
