import sys

from tyllm import torch_edgex
from tyllm.build_util import build_and_compile_llm as make

torch_edgex.set_device_trace_only("edgex", True)
for path in sys.argv[1:]:
    make(path, f"{path}-AOT")
