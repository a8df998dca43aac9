#!/bin/bash
# The compile script is written where it runs.
cat > compile.py <<'PYTHON'
import argparse
from tyllm import torch_edgex
from tyllm.build_util import build_and_compile_llm

parser = argparse.ArgumentParser()
parser.add_argument("--lengths", default=[1, 8])
parser.add_argument("--num_die", type=int, default=3)
options = parser.parse_args()
torch_edgex.set_device_mode("jit_device", "cuda")
torch_edgex.set_device_trace_only("edgex", True)
build_and_compile_llm("Qwen3-4B-AWQ", seq_len_list=options.lengths, dev_count=17)
PYTHON
export COMPILE_THREAD=2
docker run --gpus all -v "$PWD":/data -e COMPILE_THREAD registry.example.test/edgex/tyllm:v1.1.7 python3 /data/compile.py
