"""Generate answers for a file of prompts."""

import os

os.environ["VLLM_LOGGING_LEVEL"] = "WARNING"

from vllm import LLM, SamplingParams

llm = LLM(
    model="Qwen/Qwen3-8B",
    tensor_parallel_size=2,
    max_model_len=8192,
    quantization="fp8",
    seed=0,
    speculative_config={"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4},
)
for output in llm.generate(["Hello"], SamplingParams(temperature=0.7)):
    print(output.outputs[0].text)
