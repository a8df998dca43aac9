"""Fixes that a message names, and remedies that depend on message, frames, platform and release."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks.catalog.load import load_catalog
from vllm_runbooks.catalog.records import Condition, RemedyText
from vllm_runbooks.core.records import Answer, Conditions, Edit, Facts, Finding, Level, Release, Severity
from vllm_runbooks.diagnosis import diagnosing, named_fixes, remedies
from vllm_runbooks.diagnosis.causes import holds
from vllm_runbooks.reading import sources

NEWEST = "0.33.0"


def answer(tmp_path: Path, text: str) -> Answer:
    log = tmp_path / "start.log"
    log.write_text(text, encoding="utf-8")
    return diagnosing.diagnose(sources.load_files([str(log)]))


def failed(error: str, *, frames: str = "", version: str = NEWEST, platform: str = "cuda", arguments: str = "") -> str:
    """A launch that ends with an exception."""
    return (
        f"INFO 11-20 09:14:00 [__init__.py:256] Automatically detected platform {platform}.\n"
        f"INFO 11-20 09:14:02 [api_server.py:1212] vLLM API server version {version}\n"
        + (f"INFO 11-20 09:14:02 [utils.py:278] non-default args: {{{arguments}}}\n" if arguments else "")
        + "Traceback (most recent call last):\n"
        + (frames or '  File "/opt/vllm/worker.py", line 1, in load\n    load()\n')
        + f"{error}\n"
    )


def titles(given: Answer) -> list[str]:
    return [remedy.title for remedy in given.remedies]


def cause(class_: str = "quant.unsupported_capability") -> Finding:
    return Finding(class_, class_, "t", Severity.FATAL, Level.CONFIRMED, (), {}, Conditions(), "", "", "", "")


def named(message: str, version: str | None = NEWEST, **facts: Any) -> list[tuple[str, Any]]:
    found = named_fixes.named(cause(), message, (), Facts(**facts), Release(version), lang=None)
    return [(edit.name, edit.value) for remedy in found for edit in remedy.edits] or [
        (remedy.title, None) for remedy in found
    ]


@in_one_test(
    ("message", "edits"),
    [
        ("Please set VLLM_USE_DEEP_GEMM=0 to disable it.", [("VLLM_USE_DEEP_GEMM", "0")]),
        ("You can export VLLM_USE_DEEP_GEMM=0.", [("VLLM_USE_DEEP_GEMM", "0")]),
        ("Not supported. Set `VLLM_USE_DEEP_GEMM` to `0`", [("VLLM_USE_DEEP_GEMM", "0")]),
        ("it was run with VLLM_USE_DEEP_GEMM=0", []),
        ("set VLLM_NO_SUCH_NAME=0", []),
        ("Please set CUDA_LAUNCH_BLOCKING=1", []),
        ("Please set HF_TOKEN=x", []),
        ("set TF_ENABLE_ONEDNN_OPTS=0", []),
        ("a\nb\nc\nPlease use --enforce-eager.", [("enforce_eager", True)]),
        ("a\nb\nc\nd\nPlease use --enforce-eager.", []),
        ("Please use --enforce-eager instead.", [("enforce_eager", True)]),
        ("Please use --linear-backend marlin.", [("linear_backend", "marlin")]),
        ("Please use --linear-backend.", []),
        ("by setting --limit-mm-per-prompt at startup.", []),
        ("Acme requires kv_cache_dtype=fp8_ds_mla", [("kv_cache_dtype", "fp8_ds_mla")]),
        ("Please use --no-such-option 3.", []),
        ("when using --linear-backend marlin", []),
        ("For MoE, set moe_backend='triton' or auto", [("moe_backend", "triton")]),
        ("Please increase max_num_batched_tokens to 2496.", [("max_num_batched_tokens", 2496)]),
        ("max_num_batched_tokens (2048) must be at least 2496", [("max_num_batched_tokens", 2496)]),
        ("block_size (2496) must be <= max_num_batched_tokens (2048).", [("max_num_batched_tokens", 2496)]),
        ("scheduler_config.max_num_batched_tokens must be at least 2496", [("max_num_batched_tokens", 2496)]),
        ("Please set self.scheduler_config.policy=fcfs.", [("scheduling_policy", "fcfs")]),
        ("Please set lora_config.max_lora_rank=64.", [("max_lora_rank", 64)]),
        ("Please set speculative_config.max_model_len=64.", []),
        ("Please set hf_config.max_model_len=64.", []),
        ("some_size must be at least 4", []),
        ("run `pip install humming-kernels`", [("Install humming-kernels with pip, as the message recommends", None)]),
        ("try pip install --upgrade transformers", []),
    ],
)
def test_a_fix_that_the_message_names(message: str, edits: list[tuple[str, Any]]) -> None:
    """Advice, not descriptions; options and variables that the release has."""
    assert named(message) == edits


def test_a_named_fix_fits_release_and_platform() -> None:
    message = "Please set VLLM_ATTENTION_BACKEND=FLASHINFER."

    assert named(message, "0.11.0") == [("VLLM_ATTENTION_BACKEND", "FLASHINFER")]
    assert named(message, "0.11.0", platform="rocm") == []
    assert named(message) == []
    assert named("Please use --linear-backend marlin.", "no version") == [("linear_backend", "marlin")]


def test_no_fix_is_named_for_memory_or_for_what_the_symptom_treats() -> None:
    message, facts = "Please use --enforce-eager.", Facts()
    treated = (RemedyText("t", "c", (Edit("set", "enforce_eager", True),)),)

    assert named_fixes.named(cause("oom.weights"), message, (), facts, Release(NEWEST), lang=None) == ()
    assert named_fixes.named(cause(), message, treated, facts, Release(NEWEST), lang=None) == ()


@in_one_test(
    ("condition", "release", "expected"),
    [
        (Condition(since="0.8.3"), Release("0.8.3"), True),
        (Condition(since="0.8.3"), Release("0.8.0rc3.dev5+g5eeabc2a"), False),
        (Condition(since="0.8.3"), Release("0.8.3rc1"), False),
        (Condition(until="0.8.3"), Release("0.8.2"), True),
        (Condition(until="0.8.3"), Release("0.8.3"), False),
        (Condition(since="0.8", until="0.9"), Release("0.8.5"), True),
        (Condition(since="0.8", until="0.9"), Release("0.9.0"), False),
        (Condition(since="0.8"), Release(), None),
        (Condition(since="0.8"), Release(candidates=("0.8.5", "0.9.2")), True),
        (Condition(since="0.9"), Release(candidates=("0.8.5", "0.9.2")), None),
        (Condition(since="0.8"), Release("x"), None),
    ],
)
def test_a_condition_on_the_release(condition: Condition, release: Release, expected: bool | None) -> None:  # noqa: FBT001
    assert holds(condition, {}, Facts(), {}, release) is expected


def test_a_condition_on_words() -> None:
    condition = Condition(capture="op", contains=("Marlin", "ggml"))

    assert holds(condition, {"op": "gptq_marlin_gemm"}, Facts(), {}) is True
    assert holds(condition, {"op": "rms_norm"}, Facts(), {}) is False
    assert holds(condition, {}, Facts(), {}) is None


def test_every_condition_of_when_must_be_true() -> None:
    text = RemedyText("t", "c", when=(Condition(capture="a", equals="1"), Condition(since="0.8")))

    def made(captures: dict[str, str], release: Release) -> int:
        return len(remedies.made((text, text), captures, Facts(), {}, release))

    assert made({"a": "1"}, Release("0.9.2")) == 1  # a repeated title is offered once
    assert made({"a": "2"}, Release("0.9.2")) == made({}, Release("0.9.2")) == made({"a": "1"}, Release()) == 0


def test_an_option_is_removed_only_if_it_is_set() -> None:
    text = RemedyText("t", "c", (Edit("remove", "quantization"),))

    assert len(remedies.made((text,), {}, Facts(), {"quantization": "awq"})) == 1
    assert len(remedies.made((text,), {}, Facts(), {})) == 1
    assert remedies.made((text,), {}, Facts(), {"quantization": None, "dtype": "half"}) == ()


def test_an_unknown_option_is_removed(tmp_path: Path) -> None:
    """Each option of the message by its own edit; a wrong choice is none."""
    start = "INFO 11-20 09:14:02 [api_server.py:1212] vLLM API server version 0.11.0\nvllm: error: "
    given = answer(tmp_path, start + "unrecognized arguments: --metrics-port 9000 --no-such\n")
    wrong = answer(tmp_path, start + "argument subparser: invalid choice: 'serv'\n")

    assert given.remedies[0].edits == (Edit("remove", "metrics_port"), Edit("remove", "no_such"))
    assert [remedy.edits for remedy in wrong.remedies if remedy.edits] == []


def test_the_first_action_is_the_first_fix(tmp_path: Path) -> None:
    """Also in the findings; a symptom's own sentence is kept where its general remedy is the first."""
    message = "ValueError: Attempted to assign 3 x 576 = 1728 multimodal tokens to 1152 placeholders"
    given = answer(tmp_path, failed(message, version="0.7.3"))
    assert given.root_cause is not None

    assert titles(given)[0] == "Upgrade to a release that fixes the model's processor"
    assert given.root_cause.do_first == "Upgrade to a release that fixes the model's processor."
    assert given.findings[0] == given.root_cause
    assert not any("in one step" in title for title in titles(given))

    given = answer(tmp_path, failed(message, version="0.9.2"))
    assert any("in one step" in title for title in titles(given))

    given = answer(
        tmp_path,
        failed(NO_ITEMS),
    )
    assert given.root_cause is not None
    assert given.root_cause.do_first == load_catalog().symptoms["mm.placeholder_mismatch"].do_first


DRAFT = '  File "/opt/vllm/v1/worker/gpu/spec_decode/eagle/speculator.py", line 81, in load_draft_model\n    load()\n'
INDUCTOR = '  File "/tmp/vllm/torch_compile_cache/torch_aot_compile/ab/qu/cq.py", line 16, in call\n    run()\n'
DRAFTED = "'model': 'a', 'speculative_config': {'method': 'mtp'}"
UNREAD = "ValueError: Following weights were not initialized from checkpoint: {'%s'}"
CUBLAS = "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle )`"
FAKE = "torch._dynamo.exc.TorchRuntimeError: RuntimeError when making fake tensor call"
SHARED = (
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 102400, Hardware limit: 101376"
)
DUMMY = '  File "/opt/vllm/multimodal/encoder_budget.py", line 32, in get_mm_max_toks_per_item\n    load()\n'
TOKENS = "ValueError: Mismatch in `image` token count between text and `input_ids`. Got ids=[0] and text=[1]."
NO_LAYOUT = "NotImplementedError: FlexAttention does not support this cache layout"
BACKEND = '  File "/opt/vllm/v1/attention/backends/acme.py", line 8, in __init__\n    load()\n'
LOADER = '  File "/opt/vllm/model_executor/models/acme.py", line 8, in load_weights\n    load()\n'
PROPOSER = '  File "/opt/vllm/v1/spec_decode/acme.py", line 8, in __init__\n    load()\n'
CONNECTOR = '  File "/opt/vllm/distributed/kv_transfer/kv_connector/factory.py", line 8, in create\n    load()\n'
OF_CONFIG = '  File "/opt/vllm/config/acme.py", line 8, in resolve\n    load()\n'
CONFIG = (
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for {}Config\n{}\n  Unexpected keyword argument "
    "[type=unexpected_keyword_argument, input_value=1, input_type=int]"
)
OF_DRAFT = (
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n  Value error, {}"
    " [type=value_error, input_value=1, input_type=int]"
)
NO_EPLB = (
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for ParallelConfig\n  Value error, "
    "num_redundant_experts is set to 8 but EPLB is not enabled. Either enable EPLB or unset num_redundant_experts."
    " [type=value_error, input_value=ArgsKwargs((), {'pipeline_...: 1}), input_type=ArgsKwargs]"
)
GEMM = '  File "/opt/venv/site-packages/vllm/utils/deep_gemm.py", line 464, in fp8_gemm_nt\n    load()\n'
NO_HIP = "RuntimeError: No HIP GPUs are available"
NUMA = "RuntimeError: NUMA binding was requested, but vLLM could not detect the GPU-to-NUMA topology automatically."
MOE = '  File "/opt/vllm/model_executor/layers/fused_moe/layer.py", line 186, in __init__\n'
WINDOWS = '  File "C:\\tools\\vllm\\vllm\\_custom_ops.py", line 1, in <module>\n    import vllm._C\n'
OF_TPU = '  File "/opt/vllm/v1/worker/tpu_worker.py", line 1, in f\n'
NO_ITEMS = "ValueError: Found more '<image>' placeholders in input prompt than actual multimodal data items."
GEMMA3 = "ValueError: Model architectures ['Gemma3ForConditionalGeneration'] are not supported for now."
GGML = "AttributeError: '_OpNamespace' '_C' object has no attribute 'ggml_dequantize'"
SILU = "AttributeError: '_OpNamespace' '_C' object has no attribute 'silu_and_mul'"
FLASH = "ImportError: /opt/venv/lib/python3.12/site-packages/{}: undefined symbol: _ZNK3c106SymInt6sym_neERKS0_"


@in_one_test(
    ("log", "first"),
    [
        (failed(GGML, platform="cpu"), "Use an unquantized model, or a quantization method that this platform"),
        (failed(SILU), "Install a single release of the build for this platform"),
        (failed("RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'", platform="cpu"), "Use bfloat16"),
        (failed(FLASH.format("flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so")), "Reinstall the failing extension"),
        (failed(FLASH.format("vllm/_C.abi3.so")), "Install vLLM into a fresh environment"),
        (failed("ModuleNotFoundError: No module named 'cv2'"), "Install opencv-python-headless in"),
        (failed("ModuleNotFoundError: No module named 'cupy'", platform="rocm"), "Install cupy, built from source"),
        (failed("ModuleNotFoundError: No module named 'my_own_package'"), "Install my-own-package in"),
        (failed("ModuleNotFoundError: No module named 'acme.parts'"), "Install the package into"),
        (
            failed(GEMMA3, version="0.7.2"),
            "Upgrade to vLLM 0.8.5 or later",
        ),
        (
            failed("ValueError: Model architectures ['AcmeForCausalLM'] are not supported for now."),
            "Use another model or engine: no vLLM release up to 0.33.0",
        ),
        (
            failed("ValueError: Model architectures None are not supported for now."),
            "Use a release that supports the architecture",
        ),
        (
            failed(
                "ModuleNotFoundError: No module named 'vllm._C'",
                frames=WINDOWS,
            ),
            "Use WSL or the Docker image",
        ),
        (
            failed(
                "ValueError: Failed to find a kernel that can implement the WNA16 linear layer. Reasons: \n"
                "CutlassW4A8LinearKernel requires capability 90, current compute  capability is 89",
                arguments="'model': 'a', 'linear_backend': 'cutlass', 'quantization': 'compressed-tensors'",
            ),
            "Let vLLM choose the linear kernel",
        ),
        (
            failed("RuntimeError: HIP error: invalid device ordinal", platform="rocm", arguments="'model': 'a'"),
            "List the same GPUs in HIP_VISIBLE_DEVICES",
        ),
        (failed(NO_HIP, platform="rocm"), "Give the container its GPUs"),
        ("ROCR_VISIBLE_DEVICES=0,1\n" + failed(NO_HIP, platform="rocm"), "Give the container its GPUs"),
        (
            "ROCR_VISIBLE_DEVICES=2,3\nHIP_VISIBLE_DEVICES=2,3\n" + failed(NO_HIP, platform="rocm"),
            "Set only one of HIP_VISIBLE_DEVICES and ROCR",
        ),
        (failed("KeyError: 'model.layers.0.mlp.gate_up_proj.qweight'"), "Upgrade to a vLLM release that supports"),
        (failed(UNREAD % "visual.blocks.3.norm1.weight"), "Serve only the language model"),
        (failed(UNREAD % "visual.norm.weight', 'model.layers.3.weight"), "Download the missing files"),
        (failed(UNREAD % "model.mtp.fc.weight", arguments=DRAFTED), "Disable speculative decoding: the checkpoint"),
        (failed(UNREAD % "model.layers.3.weight", frames=DRAFT, arguments=DRAFTED), "Disable speculative decoding"),
        (failed(UNREAD % "model.layers.3.weight"), "Download the missing files"),
        (
            failed("AssertionError: Tried to load weights of size torch.Size([6, 3])to a parameter of size "
                   "torch.Size([6, 1])", frames=DRAFT, arguments=DRAFTED),
            "Disable speculative decoding",
        ),
        (failed(CUBLAS, frames=INDUCTOR, arguments="'model': 'a'"), "Disable torch.compile and CUDA graphs, whose"),
        (failed(CUBLAS, arguments="'model': 'a'"), "Launch with an empty LD_LIBRARY_PATH"),
        (failed(FAKE, arguments="'model': 'a'"), "Use another vLLM release: the shapes"),
        (failed(SHARED, arguments="'dtype': 'bfloat16'"), "Upgrade vLLM; newer releases have block sizes"),
        (failed(SHARED, arguments="'dtype': 'float32'"), "Use float16 or bfloat16 instead of float32"),
        (
            failed(TOKENS, frames=DUMMY, arguments="'model': 'a', 'tokenizer_mode': 'hf'"),
            "Let vLLM choose the tokenizer",
        ),
        (failed(TOKENS, frames=DUMMY, arguments="'model': 'a'"), "Install the Transformers version that this vLLM"),
        (failed(TOKENS, arguments="'model': 'a', 'tokenizer_mode': 'hf'"), "Send chat messages with image parts"),
        (failed(NUMA, arguments="'model': 'a', 'numa_bind': True"), "Disable NUMA binding"),
        (
            failed("RuntimeError: Engine core initialization failed. See root cause above."),
            "Collect the complete output of all processes",
        ),
        (failed(CONFIG.format("Compilation", "cudagraf_mode")), "Replace cudagraf_mode in compilation_config"),
        (failed(CONFIG.format("KVTransfer", "acme")), "Remove acme from kv_transfer_config"),
        (failed(CONFIG.format("Model", "acme")), "Correct the value of acme, or remove it"),
        (
            failed("ImportError: /root/.cache/flashinfer/0.6.3/90a/cached_ops/a/a.so: cannot open shared object file"),
            "Delete the FlashInfer cache",
        ),
        (
            failed("FileNotFoundError: [Errno 2] No such file or directory: '/tmp/torchinductor_me/a/b.so'"),
            "Disable the compile cache",
        ),
        (failed("ModuleNotFoundError: No module named 'aiter.jit.module_norm'", platform="rocm"), "Disable AITER"),
        (
            failed("torch.distributed.DistNetworkError: The client socket has failed to connect to any network address "
                   "of (node0, 29501). The IPv6 network addresses of (node0, 29501) cannot be retrieved (gai error: -2 "
                   "- Name or service not known)."),
            "Set master_addr to the first node's IP address",
        ),
        (failed(NO_LAYOUT, frames=BACKEND, arguments="'attention_backend': 'ACME'"), "Let vLLM choose the backend"),
        (failed("KeyError: 'model.layers.43.mtp_block.norm.weight'", frames=LOADER), "Disable speculative decoding"),
        (failed("RuntimeError: FlashInfer requires GPUs with sm75 or higher"), "Install a CUDA toolkit"),
        (failed("RuntimeError: FlashInfer requires GPUs with sm75 or higher", frames=BACKEND), "Use vLLM's Triton"),
        (failed("ValueError: LiLiCorr requires the LM head", frames=PROPOSER), "Change speculative_config as"),
        (failed("ValueError: NIXL requires a port", frames=CONNECTOR), "Change kv_transfer_config or the other"),
        (failed("ValueError: acme is only valid with b", frames=OF_CONFIG), "Change or remove the setting"),
        (failed("ValueError: Valid options are: A, B", frames=OF_CONFIG), "Use a value that the message allows: A"),
        (failed("ValueError: max_num_seqs is odd", frames=OF_CONFIG), "Correct the value of max_num"),
        (failed(OF_DRAFT.format("Use num_speculative_tokens=5 or more.")), "Set speculative_config.num_"),
        (failed(OF_DRAFT.format("The draft model is too short.")), "Correct speculative_config, or remove it"),
        (failed("ValueError: moe_backend='acme' is not supported for this."), "Correct the value of moe_backend, or"),
        (failed("ValueError: acme only works so. Please enable it with VLLM_USE_DEEP_GEMM=1"), "Set V"),
        (failed("ValueError: series exists already", frames=CONNECTOR.replace("factory", "a")), "Disable KV"),
        (failed("RuntimeError: CUDA error: an illegal memory access was encountered", frames=GEMM), "Disable DeepG"),
        (failed("ValueError: torch.bfloat16 is not supported for quantization method gguf."), "Use float16"),
        (
            failed("AssertionError", frames=MOE, version="0.6.3"),
            "Upgrade to a release with a mixture-of-experts kernel",
        ),
    ],
)  # fmt: skip
def test_the_first_fix_fits_the_log(tmp_path_factory: pytest.TempPathFactory, log: str, first: str) -> None:
    assert titles(answer(tmp_path_factory.mktemp("log"), log))[0].startswith(first)


NEWER_TYPE = (
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
    "  Value error, The checkpoint you are trying to load has model type `gemma4` but Transformers does not recognize "
    "this architecture. [type=value_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]"
)
GEMMA = "'model': 'google/gemma-4-E4B-it'"
BINDS = '  File "/opt/vllm/entrypoints/openai/api_server.py", line 1263, in create_server_socket\n    sock.bind(addr)\n'
IN_USE = "OSError: [Errno 98] Address already in use"
FORBIDDEN = (
    "requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: https://huggingface.co/a/b/resolve/main/c\n\n"
    "The above exception was the direct cause of the following exception:\n\n"
    "Traceback (most recent call last):\n"
    '  File "/opt/huggingface_hub/utils/_http.py", line 463, in hf_raise_for_status\n'
    "    raise _format(HfHubHTTPError, message, response) from e\n"
    "huggingface_hub.errors.HfHubHTTPError: (Request ID: Root=1-66-0)\n\n403 Forbidden: "
)


@in_one_test(
    ("log", "fixes"),
    [
        (
            failed(NEWER_TYPE, version="0.19.0", arguments=GEMMA),
            ("Upgrade only Transformers (`pip install transformers -U`); vLLM 0.19.0 supports", "Upgrade to a vLLM"),
        ),
        (
            failed(NEWER_TYPE, version="0.8.5", arguments=GEMMA),
            ("Upgrade to a vLLM release that lists", "Upgrade only Transformers, within the range"),
        ),
        (
            failed(NEWER_TYPE, arguments="'model': 'acme/acme-4'"),
            ("Upgrade to a vLLM release that lists", "Upgrade only Transformers, within the range"),
        ),
        (
            failed("ImportError: Transformers modeling backend requires transformers>=5.0.0 for this model"),
            ("Upgrade only Transformers, to 5.0.0 or later", "Upgrade to a vLLM release that lists"),
        ),
        (
            failed(f"{FORBIDDEN}Please enable access to public gated repositories in your fine-grained token."),
            ("Allow a fine-grained token", "Accept the model's license", "Download the files elsewhere"),
        ),
        (
            failed(f"{FORBIDDEN}None."),
            ("Accept the model's license", "Allow a fine-grained token", "Download the files elsewhere"),
        ),
        (
            failed(IN_USE, frames=BINDS, arguments="'model': 'a', 'port': 9000"),
            ("Listen on another port than 9000", "Stop the process that uses port 9000"),
        ),
        (
            failed(IN_USE, frames=BINDS, arguments="'model': 'a'"),
            ("Listen on another port than 8000", "Stop the process that uses port 8000"),
        ),
        (failed(IN_USE, frames=BINDS), ("Listen on another port", "Stop the process that uses the port")),
        (
            failed(IN_USE, arguments="'model': 'a', 'port': 9000"),
            ("Listen on another port", "Stop the process that uses the port"),
        ),
    ],
)  # fmt: skip
def test_fixes_name_what_the_log_shows(
    tmp_path_factory: pytest.TempPathFactory, log: str, fixes: tuple[str, ...]
) -> None:
    """All of them in order: a supported architecture, a token's missing permission, the API server's port."""
    found = titles(answer(tmp_path_factory.mktemp("log"), log))
    assert len(found) == len(fixes)
    assert all(title.startswith(fix) for title, fix in zip(found, fixes, strict=True))


@in_one_test(
    ("sizes", "is_enabled"),
    [
        ("", False),
        (", 'tensor_parallel_size': 1", False),
        (", 'tensor_parallel_size': 2", True),
        (", 'data_parallel_size': 2", True),
        (", 'tensor_parallel_size': 2, 'data_parallel_size': 2", True),
    ],
)
def test_redundant_experts_need_eplb_and_experts_in_parallel(
    tmp_path_factory: pytest.TempPathFactory, sizes: str, *, is_enabled: bool
) -> None:
    """EPLB comes with the expert parallelism that it requires, for several ranks only; the setting can always go."""
    log = failed(NO_EPLB, version="0.32.0", arguments=f"'model': 'Qwen/Qwen3-30B-A3B'{sizes}")
    found = answer(tmp_path_factory.mktemp("log"), log).remedies
    enabled = [remedy for remedy in found if remedy.title.startswith("Enable EPLB")]
    assert [remedy.edits for remedy in enabled] == [
        (Edit("set", "enable_expert_parallel", True), Edit("set", "enable_eplb", True))
    ] * is_enabled
    assert found[len(enabled)].title == "Remove num_redundant_experts"


def test_another_port_is_an_edit(tmp_path: Path) -> None:
    """The next one, which the command sets."""
    first = answer(tmp_path, failed(IN_USE, frames=BINDS, arguments="'model': 'a'")).remedies[0]
    assert first.edits == (Edit("set", "port", 8001),)


def test_a_value_that_was_printed_empty_is_left_out(tmp_path: Path) -> None:
    """No sentence names it."""
    found = answer(tmp_path, failed("ValueError: Unknown quantization method: . Must be one of ['awq', 'fp8']."))
    assert found.root_cause is not None
    assert found.root_cause.captures["quantization_method"] == ""
    assert "quantization method is" not in found.root_cause.explanation


@in_one_test(
    ("text", "platform"),
    [
        ("INFO 11-20 09:14:00 [__init__.py:256] Automatically detected platform xpu.\n", "xpu"),
        ("INFO 11-20 09:14:02 [api_server.py:1212] vLLM API server version 0.11.0+rocm641\n", "rocm"),
        (
            f"Traceback (most recent call last):\n{OF_TPU}ValueError: x\n",
            "tpu",
        ),
        (
            'Traceback (most recent call last):\n  File "/opt/vllm/platforms/cpu.py", line 1, in f\nValueError: x\n',
            "cpu",
        ),
        ('Traceback (most recent call last):\n  File "/opt/a.py", line 1, in f\nRuntimeError: HIP error: x\n', "rocm"),
        ('Traceback (most recent call last):\n  File "/opt/a.py", line 1, in f\nRuntimeError: x\n', None),
        ("Triton is installed, but doesn't include CPU backend. Disabling Triton.\nRuntimeError: x\n", "cpu"),
    ],
)
def test_the_platform_of_a_launch(tmp_path_factory: pytest.TempPathFactory, text: str, platform: str | None) -> None:
    assert answer(tmp_path_factory.mktemp("log"), text).facts.platform == platform


def test_an_option_of_a_later_release_is_left_out(tmp_path: Path) -> None:
    """Also if the log shows no arguments to edit."""
    base = answer(tmp_path, failed("RuntimeError: FlashAttention only supports Ampere GPUs or newer.", version="0.9.2"))

    edits = [edit.name for remedy in base.remedies for edit in remedy.edits]
    assert "attention_backend" not in edits
    assert "VLLM_ATTENTION_BACKEND" in edits


REJECTED = "vllm: error: unrecognized arguments: "
INVALID = "vllm serve: error: argument "
SHOULD_BE = "  Input should be greater than or equal to 1 [type=greater_than_equal, input_value=0, input_type=int]"
VALIDATION = "pydantic_core._pydantic_core.ValidationError"


def rejected(config: str, field: str, allowed: str, value: str) -> str:
    """Pydantic's message for a value that a configuration class rejects."""
    return (
        f"{VALIDATION}: 1 validation error for {config}\n{field}\n  Input should be {allowed} "
        f"[type=literal_error, input_value='{value}', input_type=str]"
    )


@in_one_test(
    ("options", "log", "edits", "command"),
    [
        (
            "--max-model-length 512", f"{REJECTED}--max-model-length 512\n",
            [Edit("remove", "max_model_length"), Edit("set", "max_model_len", 512)], "--max-model-len 512",
        ),
        ("--nosuch 1", f"{REJECTED}--nosuch 1\n", [Edit("remove", "nosuch")], ""),
        ("--swap-space 4", f"{REJECTED}--swap-space 4\n", [Edit("remove", "swap_space")], ""),
        ("--disable-log-requests", f"{REJECTED}--disable-log-requests\n", [Edit("remove", "disable_log_requests")], ""),
        (
            "--disable-prefix-caching", f"{REJECTED}--disable-prefix-caching\n",
            [Edit("remove", "disable_prefix_caching")], "",
        ),
        (
            "--dtype bfloat", f"{INVALID}--dtype: invalid choice: 'bfloat' (choose from 'auto', 'bfloat16', 'half')\n",
            [Edit("set", "dtype", "bfloat16")], "--dtype bfloat16",
        ),
        ("--dtype fp8", f"{INVALID}--dtype: invalid choice: 'fp8' (choose from 'a')\n", [Edit("remove", "dtype")], ""),
        (
            "--max-lora-rank 48", f"{INVALID}--max-lora-rank: invalid choice: 48 (choose from 1, 8, 16, 32, 64, 128)\n",
            [Edit("set", "max_lora_rank", 64)], "--max-lora-rank 64",
        ),
        (
            "--max-model-len 2KB", f"{INVALID}--max-model-len: invalid human_readable_int value: '2KB'\n",
            [Edit("set", "max_model_len", 2048)], "--max-model-len 2048",
        ),
        (
            "--limit-mm-per-prompt image=2",
            f"{INVALID}--limit-mm-per-prompt: Value image=2 cannot be converted to <function loads at 0x7f>.\n",
            [Edit("set", "limit_mm_per_prompt", {"image": 2})], """--limit-mm-per-prompt '{"image": 2}'""",
        ),
        (
            "--hf-overrides rope_theta:ngram",
            f"{INVALID}--hf-overrides: Value rope_theta:ngram cannot be converted to <function loads at 0x7f>.\n",
            [Edit("set", "hf_overrides", {"rope_theta": "ngram"})], """--hf-overrides '{"rope_theta": "ngram"}'""",
        ),
        (
            "--compilation-config '{\"mode\": 9}'",
            f"{INVALID}--compilation-config: 1 validation error for CompilationConfig\nmode\n{SHOULD_BE}",
            [Edit("remove", "compilation_config")], "",
        ),
    ],
)  # fmt: skip
def test_a_rejected_option_or_value_is_edited_without_a_release(
    tmp_path_factory: pytest.TempPathFactory, options: str, log: str, edits: list[Edit], command: str
) -> None:
    """The parser exits before vLLM prints its release."""
    folder = tmp_path_factory.mktemp("launch")
    (folder / "start.log").write_text(log, "utf-8")
    evidence = sources.load_files([str(folder / "start.log")])

    first = diagnosing.diagnose(replace(evidence, command=f"vllm serve m {options}\n")).remedies[0]
    assert list(first.edits) == edits
    assert first.command == f"vllm serve m {command}".strip() + "\n"
    assert first.checks.lint == "unknown: unknown release; set --vllm"


@in_one_test(
    ("message", "values"),
    [
        (
            "Unknown mode foo. Must be one of 'alpha', 'beta' and nothing else. See https://docs.vllm.ai/x",
            "alpha, beta",
        ),
        ("Unknown mode foo. Supported modes are: alpha, beta, or fp8_e4m3.", "alpha, beta, fp8_e4m3"),
    ],
)
def test_the_values_that_a_message_allows(tmp_path_factory: pytest.TempPathFactory, message: str, values: str) -> None:
    """Without the words of its sentences."""
    frame = '  File "/opt/vllm/engine/arg_utils.py", line 1, in create_engine_config\n    check()\n'
    base = answer(tmp_path_factory.mktemp("launch"), failed(f"ValueError: {message}", frames=frame))
    assert base.remedies[0].title == f"Use a value that the message allows: {values}"


@in_one_test(
    ("error", "arguments", "edits"),
    [
        (
            "RuntimeError: Total number of attention heads (40) must be divisible by tensor parallel size (6).",
            "'tensor_parallel_size': 6", [("tensor_parallel_size", 4)],
        ),
        (
            "KeyError: 'invalid tool call parser: hermes2 (chose from { granite,hermes,jamba })'",
            "'tool_call_parser': 'hermes2'", [("tool_call_parser", "hermes")],
        ),
        (
            "KeyError: \"Reasoning parser 'granite3' not found. Available parsers: deepseek_r1, granite\"",
            "'reasoning_parser': 'granite3'", [("reasoning_parser", "granite")],
        ),
        ("ValueError: LoRA rank 9 is greater than max_lora_rank 8.", "'max_lora_rank': 8", [("max_lora_rank", 16)]),
        ("ValueError: LoRA rank 17 is greater than max_lora_rank 8.", "'max_lora_rank': 8", [("max_lora_rank", 32)]),
        (
            f"{VALIDATION}: 2 validation errors for SchedulerConfig\nmax_num_batched_tokens\n{SHOULD_BE}",
            "'max_num_seqs': 0", [("max_num_seqs", None)],
        ),
        (
            f"{VALIDATION}: 1 validation error for SchedulerConfig\nmax_num_batched_tokens\n{SHOULD_BE}",
            "'max_num_seqs': 8, 'block_size': 0", [],
        ),
        (
            (f"{VALIDATION}: 1 validation error for CacheConfig\ngpu_memory_utilization\n"
             "  Input should be less than or equal to 1 [type=less_than_equal, input_value=95.0, input_type=float]"),
            "'gpu_memory_utilization': 95.0", [("gpu_memory_utilization", 0.95)],
        ),
        (rejected("SchedulerConfig", "policy", "'fcfs' or 'priority'", "priorty"), "'scheduling_policy': 'priorty'",
         [("scheduling_policy", "priority")]),
        (rejected("CacheConfig", "cache_dtype", "'auto'", "x"), "'kv_cache_dtype': 'x'", [("kv_cache_dtype", None)]),
        (rejected("KernelConfig", "moe_backend", "'auto'", "x"), "'moe_backend': 'x'", [("moe_backend", None)]),
        (rejected("KernelConfig", "moe_backend", "'auto'", "x"), "'kernel_config': {'moe_backend': 'x'}",
         [("kernel_config", None)]),
    ],
)  # fmt: skip
def test_the_first_fix_names_the_value(
    tmp_path_factory: pytest.TempPathFactory, error: str, arguments: str, edits: list[tuple[str, Any]]
) -> None:
    """What was typed, by the option of the rejected field, and a value that the message lists or that fits."""
    given = answer(tmp_path_factory.mktemp("log"), failed(error, arguments=arguments))

    assert [(edit.name, edit.value) for edit in given.remedies[0].edits] == edits


def test_a_misspelt_architecture_is_corrected(tmp_path: Path) -> None:
    """If it differs from a supported one by its case only."""
    error = "ValueError: Model architectures ['LLamaForCausalLm'] are not supported for now."

    title = "Correct the spelling in config.json: the architecture is LlamaForCausalLM"
    assert titles(answer(tmp_path, failed(error)))[0] == title


def test_a_value_that_is_no_json_is_not_removed_first(tmp_path: Path) -> None:
    """Its form is wrong, not the option; a value that is known to be right replaces it, and removes nothing."""
    unknown, known, doubled = (
        answer(tmp_path, f"{INVALID}--hf-overrides: Value {value} cannot be converted to <function loads at 0x7f>.\n")
        for value in ("two", "{a:b}", '{{"a": {{"b": 1}}}}')
    )

    assert unknown.remedies[0].title == "Write the value of --hf-overrides as a JSON object in single quotes"
    assert [edit.op for remedy in known.remedies for edit in remedy.edits] == ["set"]
    assert doubled.remedies[0].edits == (Edit("set", "hf_overrides", {"a": {"b": 1}}),)


@in_one_test(
    ("option", "title", "cost", "edits"),
    [
        ("--tensor-parallel-size/-tp", "Correct the value of --tensor-parallel-size", "none", ()),
        ("--api-key", "Correct the value of --api-key", "none", ()),
        (
            "--max-num-seqs", "Correct the value of --max-num-seqs, or remove it",
            "vLLM uses its default for --max-num-seqs if you remove it", (Edit("remove", "max_num_seqs"),),
        ),
    ],
)  # fmt: skip
def test_an_option_that_defines_the_service_is_corrected_not_removed(
    tmp_path_factory: pytest.TempPathFactory, option: str, title: str, cost: str, edits: tuple[Edit, ...]
) -> None:
    """Without it vLLM would serve something else; removing another option costs its effect."""
    first = answer(tmp_path_factory.mktemp("log"), f"{INVALID}{option}: invalid int value: 'many'\n").remedies[0]

    assert (first.title, first.cost, first.edits) == (title, cost, edits)


def test_removing_a_typed_option_has_a_cost() -> None:
    """No remedy that removes an option named by the log claims that nothing is lost, unless it sets another."""
    removing = [
        (symptom.id, remedy.cost)
        for symptom in load_catalog().symptoms.values()
        for remedy in symptom.remedies
        if remedy.edits and all(edit.op == "remove" and "{" in edit.name for edit in remedy.edits)
    ]

    assert len(removing) > 3
    assert [row for row in removing if row[1] == "none"] == []
