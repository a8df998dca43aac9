from tyllm import build_util, torch_edgex

weights, num_die, max_model_len = "Qwen3-1.7B-AWQ", 1, 8192


def build(dies):
    build_util.build_and_compile_llm(
        model_path=weights,
        artifacts_path="out/1.7B",
        max_kv_cache_size=4096,
        seq_len_list=[1],
        dev_count=dies,
    )


def trace():
    torch_edgex.set_device_trace_only("edgex", True)


build(4)
trace()
