"""Serve a model with the asynchronous engine."""

from vllm import AsyncEngineArgs, AsyncLLMEngine

arguments = AsyncEngineArgs(
    model="Qwen/Qwen3-8B",
    kv_cache_dtype="auto",
    gpu_memory_utilization=0.85,
    attention_config={"backend": "FLASHINFER"},
)
engine = AsyncLLMEngine.from_engine_args(arguments)
