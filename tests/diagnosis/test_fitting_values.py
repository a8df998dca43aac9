"""Values of memory fixes: calculated from the figures of a log, never contradicted by them."""

from __future__ import annotations

from typing import Any

import pytest

from vllm_runbooks.catalog.load import specs
from vllm_runbooks.core.records import Answer
from vllm_runbooks.diagnosis import diagnosing, fitting_values
from vllm_runbooks.reading import sources

ENGINE = "(EngineCore pid=10) ERROR 11-20 08:00:09 [core.py:1006] "
V1, V0 = "/opt/vllm/v1/worker/gpu_model_runner.py", "/opt/vllm/worker/model_runner.py"
EXPERTS = "/opt/vllm/model_executor/layers/quantization/compressed_tensors/compressed_tensors_moe.py"
NO_BLOCKS = f"{ENGINE}ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."


def log(*lines: str, version: str = "0.16.0", **arguments: Any) -> str:
    """A failed launch with these arguments."""
    typed = {"model": "our/Model-14B", "max_model_len": 8192, "gpu_memory_utilization": 0.9, **arguments}
    head = (
        f"(APIServer pid=1) INFO 11-20 08:00:00 [utils.py:299] vLLM API server version {version}",
        f"(APIServer pid=1) INFO 11-20 08:00:00 [utils.py:233] non-default args: {typed}",
    )
    return "\n".join((*head, *lines)) + "\n"


def said(message: str) -> str:
    return f"(EngineCore pid=10) INFO 11-20 08:00:05 [gpu_worker.py:424] {message}"


def loaded(gib: float) -> str:
    return said(f"Model loading took {gib} GiB memory and 62.3 seconds")


def cache(gib: float) -> str:
    return said(f"Available KV cache memory: {gib} GiB")


def concurrency(times: float, tokens: str = "8,192") -> str:
    return said(f"Maximum concurrency for {tokens} tokens per request: {times}x")


def oom(
    function: str, *, tried: str = "512.00 MiB", total: float = 23.56, free: str = "100.00 MiB", **more: Any
) -> str:
    """Torch's error in a function, with what the process has allocated and uses."""
    text = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of "
    text += f"{total} GiB of which {free} is free."
    if "used" in more:
        text += f" Including non-PyTorch memory, this process has {more['used']} GiB memory in use."
    if "allocated" in more:
        text += f" Of the allocated memory {more['allocated']} GiB is allocated by PyTorch, and 10.00 MiB is reserved"
        text += " by PyTorch but unallocated."
    frame = f'  File "{more.get("path", V1)}", line 4143, in {function}'
    return "\n".join(f"{ENGINE}{line}" for line in ("Traceback (most recent call last):", frame, text))


def busy(free: float, total: float = 23.56) -> str:
    return (
        f"{ENGINE}ValueError: Free memory on device cuda:0 ({free}/{total} GiB) on startup is less than desired GPU "
        "memory utilization (0.9, 21.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by other "
        "processes."
    )


def too_long(need: float, have: float, estimated: int) -> str:
    return (
        f"{ENGINE}ValueError: To serve at least one request with the model's max seq len (131072), ({need} GiB KV "
        f"cache is needed, which is larger than the available KV cache memory ({have} GiB). Based on the available "
        f"memory, the estimated maximum model length is {estimated}. Try increasing `gpu_memory_utilization`."
    )


def asked(text: str, **more: Any) -> Answer:
    return diagnosing.diagnose(sources.paste(text), **more)


def fixes(answer: Answer) -> list[Any]:
    """The edits of each fix, the beginning of the title of one without."""
    return [{e.name: e.value for e in fix.edits} or " ".join(fix.title.split()[:4]) for fix in answer.remedies]


FREE = "Free the memory, or"
FOUR_BITS = "Use a 4-bit checkpoint"
WEIGHTS = {
    "two GPUs would need 67 GiB each": (
        log(oom("load_model", total=79.25), model="our/Model-72B"),
        [{"tensor_parallel_size": 4}, FOUR_BITS],
    ),
    "4 bits do not fit one GPU": (
        log(oom("load_model"), model="our/Model-70B"),
        [{"tensor_parallel_size": 8}, FOUR_BITS],
    ),
    "8 GPUs are not enough": (
        log(oom("load_model", total=79.25), model="our/Model-405B", tensor_parallel_size=8),
        [FOUR_BITS, "Use 16 GPUs of"],
    ),
    "a part can be offloaded": (
        log(oom("load_model")),
        [{"tensor_parallel_size": 2}, FOUR_BITS, {"cpu_offload_gb": 9}],
    ),
    "the model is quantized": (
        log(oom("load_model"), model="our/Model-72B-AWQ"),
        [{"tensor_parallel_size": 4}, "Use a smaller model,"],
    ),
    "experts share layers": (
        log(oom("load_model", total=79.25), model="our/Model-8x7B", dtype="float16"),
        [{"tensor_parallel_size": 2}, FOUR_BITS, {"cpu_offload_gb": 29}],
    ),
    "the size is unknown": (
        log(oom("load_model"), model="our/Model"),
        ["Use a quantized checkpoint", "Shard the model across"],
    ),
    "the checkpoint's size is printed": (
        log(said("Checkpoint size: 30.00 GiB. Available RAM: 8.00 GiB."), oom("load_model"), model="our/Model"),
        [{"tensor_parallel_size": 2}, FOUR_BITS],
    ),
    "the weights alone fill the GPU": (
        log(oom("create_weights", total=121.69, used=113.4, allocated=113.1, path=EXPERTS), model="our/Model"),
        ["Use a smaller model,", "Shard the model across"],
    ),
    "others use the GPU": (
        log(oom("load_model", used=9.0, allocated=8.0), model="our/Model-7B"),
        ["Stop the other processes"],
    ),
}
PROFILE = {
    "the weights exceed the budget": (
        log(loaded(14.19), oom("profile_run", total=15.47, tried="1.02 GiB"), gpu_memory_utilization=0.7),
        [FOUR_BITS, {"tensor_parallel_size": 2}, {"cpu_offload_gb": 6}],
    ),
    "the batch is too large": (
        log(loaded(13.5), oom("profile_run", tried="4.00 GiB", free="2.00 GiB", allocated=20.0), max_num_seqs=256),
        [{"max_num_seqs": 128}, {"max_num_batched_tokens": 1024}, {"tensor_parallel_size": 2}],
    ),
    "the batch is small already": (
        log(
            said("Chunked prefill is enabled with max_num_batched_tokens=512."),
            loaded(13.5),
            oom("profile_run", tried="4.00 GiB", free="2.00 GiB", allocated=20.0),
            max_num_seqs=1,
        ),
        [{"tensor_parallel_size": 2}],
    ),
    "the batch follows from the context": (
        log(
            loaded(13.5),
            oom("profile_run", tried="4.00 GiB", free="2.00 GiB"),
            max_model_len=32768,
            enable_chunked_prefill=False,
            max_num_seqs=1,
        ),
        [{"max_model_len": 8192}, {"tensor_parallel_size": 2}],
    ),
    "weights that fill the GPU are not those of others": (
        log(loaded(14.6), oom("profile_run", total=15.47, tried="1.02 GiB", used=12.0, allocated=11.0)),
        [FOUR_BITS, {"tensor_parallel_size": 2}, {"cpu_offload_gb": 4}],
    ),
    "V0 does not split prompts": (
        log(
            loaded(13.5),
            oom("profile_run", path=V0, tried="4.00 GiB", free="2.00 GiB"),
            version="0.6.6",
            max_model_len=32768,
        ),
        [{"max_num_seqs": 64}, {"max_model_len": 8192}, {"tensor_parallel_size": 2}],
    ),
}
AFTER_THE_CACHE = {
    "the sampler needs less memory with fewer sequences": (
        log(loaded(13.5), cache(5.0), oom("_dummy_sampler_run", tried="700.00 MiB", free="300.00 MiB")),
        [{"max_num_seqs": 32}, {"gpu_memory_utilization": 0.87}],
    ),
    "the cache can give the memory": (
        log(loaded(13.5), cache(5.0), concurrency(3.0), oom("_dummy_sampler_run", tried="600.00 MiB"), max_num_seqs=2),
        [{"gpu_memory_utilization": 0.86}],
    ),
    "the cache cannot": (
        log(loaded(18.5), cache(0.7), concurrency(1.5), oom("_dummy_sampler_run", tried="300.00 MiB"), max_num_seqs=1),
        [{"gpu_memory_utilization": 0.88, "max_model_len": 3584}],
    ),
    "graphs need about 1 GiB": (
        log(loaded(13.5), cache(5.0), concurrency(3.0), oom("capture_model", tried="20.00 MiB", free="10.00 MiB")),
        [{"gpu_memory_utilization": 0.84}, {"max_num_seqs": 64}, {"enforce_eager": True}],
    ),
    "graphs without room": (
        log(loaded(18.5), cache(0.7), concurrency(1.2), oom("capture_model", tried="20.00 MiB", free="10.00 MiB")),
        [{"max_num_seqs": 64}, {"enforce_eager": True}],
    ),
    "the rest of the cache is not free": (
        log(loaded(13.5), cache(6.0), oom("_allocate_kv_cache_tensors", tried="300.00 MiB", used=23.0, allocated=16.0)),
        [{"gpu_memory_utilization": 0.74}],
    ),
    "a step of the server": (
        log(oom("execute_model", tried="1.86 GiB", free="337.00 MiB", total=21.99), model="our/Model-4B"),
        [{"gpu_memory_utilization": 0.81}, {"max_num_batched_tokens": 1024}, {"max_num_seqs": 128}],
    ),
}
CACHE = {
    "a larger share is enough": (
        log(loaded(13.5), cache(-2.77), NO_BLOCKS, gpu_memory_utilization=0.5),
        [{"gpu_memory_utilization": 0.66}, {"tensor_parallel_size": 2}],
    ),
    "no share is enough": (
        log(loaded(20.5), cache(-0.77), NO_BLOCKS),
        [FOUR_BITS, {"tensor_parallel_size": 2}],
    ),
    "the missing memory is unknown": (
        log(loaded(13.5), NO_BLOCKS),
        [{"gpu_memory_utilization": 0.95}, "Use a quantized checkpoint", "Shard the model across"],
    ),
    "more memory is missing than the rest of any GPU": (
        log(loaded(21.28), cache(-26.31), NO_BLOCKS),
        ["Use a quantized checkpoint", "Shard the model across"],
    ),
    "the share is small": (
        log(loaded(0.43), NO_BLOCKS, gpu_memory_utilization=0.1),
        [{"gpu_memory_utilization": 0.9}],
    ),
    "the estimate for graphs tells the GPU's memory": (
        log(
            loaded(15.67),
            said("Estimated CUDA graph memory: 0.53 GiB total"),
            cache(-14.28),
            said(
                "The current --gpu-memory-utilization=0.2200 is equivalent to --gpu-memory-utilization=0.2133 without "
                "CUDA graph memory profiling."
            ),
            NO_BLOCKS,
            gpu_memory_utilization=0.22,
        ),
        [{"gpu_memory_utilization": 0.44}],
    ),
    "too small an estimate does not": (
        log(
            loaded(15.67),
            said("Estimated CUDA graph memory: 0.02 GiB total"),
            cache(-14.28),
            said(
                "The current --gpu-memory-utilization=0.2200 is equivalent to --gpu-memory-utilization=0.2197 without "
                "CUDA graph memory profiling."
            ),
            NO_BLOCKS,
            gpu_memory_utilization=0.22,
        ),
        [{"gpu_memory_utilization": 0.9}, "Use a quantized checkpoint", "Shard the model across"],
    ),
    "a host without further GPUs": (
        log(said("Automatically detected platform cpu."), loaded(2.3), too_long(16.0, 5.0, 40960)),
        [{"max_model_len": 40448}],
    ),
    "the KV cache is in CPU memory": (
        log(NO_BLOCKS.replace("gpu_memory_utilization", "VLLM_CPU_KVCACHE_SPACE")),
        ["Raise VLLM_CPU_KVCACHE_SPACE"],
    ),
    "the context is a little too long": (
        log(loaded(12.5), too_long(6.0, 5.6, 122000)),
        [
            {"max_model_len": 120576},
            {"gpu_memory_utilization": 0.93},
            {"kv_cache_dtype": "fp8"},
            {"tensor_parallel_size": 2},
        ],
    ),
    "the context is far too long": (
        log(loaded(13.5), too_long(16.0, 5.0, 40960)),
        [{"max_model_len": 40448}, {"tensor_parallel_size": 2}],
    ),
    "every rank has the whole latent cache": (
        log(too_long(16.0, 5.0, 40960), model="deepseek-ai/DeepSeek-V3"),
        [{"max_model_len": 40448}],
    ),
    "the host shares its memory": (
        log(loaded(90.0), cache(5.0), too_long(6.0, 5.0, 109000), gpu_memory_utilization=0.8),
        [{"max_model_len": 107776}, {"kv_cache_dtype": "fp8"}],
    ),
    "a 14B model in BF16 needs more than is free": (log(busy(4.2)), [FREE]),
    "a 14B model with 4 bits does not": (
        log(busy(14.2), model="our/Model-14B-AWQ"),
        [FREE, {"gpu_memory_utilization": 0.59}],
    ),
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [pytest.param(*case, id=name) for name, case in {**WEIGHTS, **PROFILE, **AFTER_THE_CACHE, **CACHE}.items()],
)
def test_the_figures_of_a_log_decide_its_fixes(text: str, wanted: list[Any]) -> None:
    """Edits with their values; titles of fixes without edits."""
    assert fixes(asked(text)) == wanted


def test_a_step_that_takes_too_long_gets_half_of_its_tokens() -> None:
    """If the log prints their number; otherwise no value is offered."""
    error = f"{ENGINE}TimeoutError: RPC call to execute_model timed out."

    assert {"max_num_batched_tokens": 4096} in fixes(asked(log(error, max_num_batched_tokens=8192)))
    assert fixes(asked(log(error)))[-1] == "Process fewer tokens per"


def test_a_program_of_a_tpu_is_given_its_memory() -> None:
    error = (
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: E0101: RuntimeProgramAllocationFailure:",
        (
            "Error loading program 'jit_step_fn': Attempting to reserve 256.50M at the bottom of memory. That was not "
            "possible. There are 190.25M free, 0B reserved, and 190.25M reservable."
        ),
    )
    answer = asked(log(*(f"{ENGINE}{line}" for line in error)))

    assert answer.root_cause is not None
    assert answer.root_cause.symptom == "oom.cudagraph_capture.program"
    assert fixes(answer)[0] in ("Lower gpu_memory_utilization", "Lower gpu_memory_utilization by 0.01")


def test_the_reason_against_the_usual_fix_is_printed() -> None:
    """In the language of the answer."""
    (over,) = asked(PROFILE["the weights exceed the budget"][0]).notes
    (needed,) = asked(log(busy(4.2)), lang="zh").notes

    assert over == "Smaller batches do not help: the weights need about 14.19 GiB per GPU, but the budget is 10.83 GiB."
    assert needed == "调低 gpu_memory_utilization 没有用：权重和激活大约需要 28.38 GiB 显存。"


def test_a_longer_context_is_offered_if_model_and_cache_have_it() -> None:
    """Without the model's own limit, with that condition."""
    serving = (loaded(2.9), said("GPU KV cache size: 60,000 tokens"), said("Application startup complete."))
    request = (
        "(APIServer pid=1) ERROR 11-20 08:00:10 [serving_chat.py:200] ValueError: This model's maximum context length "
        "is 8000 tokens. However, you requested {} tokens in the messages, Please reduce the length of the messages."
    )

    def offered(tokens: int, model: str) -> list[Any]:
        return fixes(asked(log(*serving, request.format(tokens), model=model, max_model_len=8000)))[1:]

    assert offered(9000, "Qwen/Qwen2.5-1.5B-Instruct") == [{"max_model_len": 16384}]
    assert offered(40000, "Qwen/Qwen2.5-1.5B-Instruct") == []
    assert offered(9000, "our/Model") == ["Raise max_model_len to at"]
    assert offered(59000, "our/Model") == []


def test_swap_space_is_no_memory_of_the_gpu() -> None:
    """The V0 engine allocates it in host memory."""
    lines = (
        "Traceback (most recent call last):",
        '  File "/opt/vllm/worker/cache_engine.py", line 85, in allocate_cpu_cache',
        "RuntimeError: CUDA error: out of memory",
    )

    assert fixes(asked("\n".join(lines)))[0] == {"swap_space": 0}


def test_no_gpu_has_more_memory_than_is_assumed_at_most() -> None:
    """Else a share of its memory that would be enough is not offered."""
    assert max(gpu.memory_gib for gpu in specs().table.gpus) <= fitting_values._MOST_GPU_GIB
