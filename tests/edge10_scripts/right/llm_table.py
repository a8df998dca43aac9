"""Settings in a table, set in a loop."""
import pathlib
import tyllm.build_util as build
from tyllm import torch_edgex as edge

JOB = dict(weights="/data/models/Qwen1.5-1.8B-AWQ", dies=4, cache=4096, piece=8)
MODES = {
    "jit_device": "cpu",
    "LM_die_remap": [0, 1, 2, 3] + [0] * 12,
}
LENGTHS = (1, JOB["piece"])
folder = pathlib.Path("/data/out") / f"Qwen1.5-1.8B-AWQ-AOT_{JOB['piece']}_{JOB['cache']}" / "4die"

for name, value in MODES.items():
    edge.set_device_mode(name, value)
edge.set_device_trace_only("edgex", True)


def go(**sizes):
    build.build_and_compile_llm(JOB["weights"], artifacts_path=str(folder), dev_count=JOB["dies"], **sizes)


if __name__ == "__main__":
    go(max_kv_cache_size=JOB["cache"], seq_len_list=[*LENGTHS])
