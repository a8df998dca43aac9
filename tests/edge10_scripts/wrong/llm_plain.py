from tyllm.build_util import build_and_compile_llm

torch_edgex.set_device_mode("jit_device", "cpu")
torch_edgex.set_device_trace_only("edgex", True)
torch_edgex.set_device_mode("LM_die_remap", [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])

build_and_compile_llm(
    model_path="./Qwen3-4B-AWQ",
    artifacts_path="./Qwen3-4B-AWQ-AOT_8_4096/2die",
    max_kv_cache_size=2048,
    seq_len_list=[8],
    dev_count=2,
)
