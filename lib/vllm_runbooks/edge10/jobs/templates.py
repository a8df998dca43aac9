"""What the made scripts do, as text: each begins with its imports, and `@settings@` is where a job's settings stand.

The bodies hold no value of a job, so that what differs between two jobs is read at one place. Process-wide settings
stand in front of everything that may start a process: a worker reads the script anew, and what guards a run is in
`main`, which no worker calls.
"""

from __future__ import annotations

QUANTISE_LLM = '''\
"""Quantise the language model: run in the quantising container, with this folder mounted."""

import os
import sys
from pathlib import Path

import torch
from datasets import load_dataset
from quant_toolchain import get_@method@_config, get_dataloader, quantize_model, save_quantized_model
from transformers import AutoModelForCausalLM, AutoTokenizer

@settings@

def main():
    os.chdir(Path(__file__).resolve().parent)
    folder = Path(QUANTISED)
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder}: holds files of an earlier run; remove it first")
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    model = AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.float16)
    texts = load_dataset(DATASET, name=DATASET_PART, split=SPLIT)
    batches = get_dataloader(
        texts,
        tokenizer,
        num_max_orig_samples=SAMPLES,
        max_sequence_length=SAMPLE_TOKENS,
        column=COLUMN,
        concat_data=True,
        pad_to_max_length=False,
    )
    quantised = quantize_model(model, get_@method@_config(), batches, tokenizer)
    folder.mkdir(parents=True, exist_ok=True)
    save_quantized_model(quantised, QUANTISED)
    # The vocabulary is that of the float model; without it the next steps find no tokenizer.
    tokenizer.save_pretrained(QUANTISED)


if __name__ == "__main__":
    main()
'''

QUANTISE_VLM = '''\
"""Quantise the language part of a model with pictures: run in the quantising container, with this folder mounted."""

import os
import sys
from pathlib import Path

import torch
from datasets import load_dataset
from quant_toolchain import quantize_model, save_quantized_model
from quant_toolchain.configs.dataset_utils import get_dataloader
from quant_toolchain.configs.get_config import get_@method@_config
from transformers import AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

@settings@

def main():
    os.chdir(Path(__file__).resolve().parent)
    folder = Path(QUANTISED)
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder}: holds files of an earlier run; remove it first")
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    processor = AutoProcessor.from_pretrained(MODEL)
    model = AutoModelForImageTextToText.from_pretrained(MODEL, torch_dtype=torch.float16)
    texts = load_dataset(DATASET, name=DATASET_PART, split=SPLIT)
    batches = get_dataloader(
        texts,
        tokenizer,
        num_max_orig_samples=SAMPLES,
        max_sequence_length=SAMPLE_TOKENS,
        column=COLUMN,
        concat_data=True,
        pad_to_max_length=False,
    )
    # The vision part stays as it is: it cannot be quantised.
    quantize_model(model.language_model, get_@method@_config(apply_clip=True), batches)
    folder.mkdir(parents=True, exist_ok=True)
    save_quantized_model(model, QUANTISED, tokenizer)
    # What says how pictures become tokens is that of the float model, and the compiler asks for it.
    processor.save_pretrained(QUANTISED)


if __name__ == "__main__":
    main()
'''

EVALUATE_LLM = '''\
"""Ask the @which@ model the questions: run on the host of its server."""

import os
from pathlib import Path

from evalscope import TaskConfig, run_task

@settings@

def main():
    os.chdir(Path(__file__).resolve().parent)
    run_task(
        task_cfg=TaskConfig(
            model=SERVED_NAME,
            api_url=API_URL,
            eval_type="openai_api",
            datasets=DATASETS,
            limit=LIMIT,
            eval_batch_size=AT_ONCE,
            generation_config={
                "max_tokens": ANSWER_TOKENS,
                # The likeliest answer each time, so that a difference is one of the models.
                "temperature": 0.0,
                "seed": SEED,
                # A model that thinks aloud runs out of tokens before it answers; others do not read this.
                "extra_body": {"chat_template_kwargs": {"enable_thinking": False}},
            },
            seed=SEED,
            work_dir=RESULTS,
        )
    )


if __name__ == "__main__":
    main()
'''

EVALUATE_VLM = '''\
"""Ask both models the questions, one after the other: run on the host of their servers."""

import os
from pathlib import Path

from evalscope import run_task

@settings@

def main():
    os.chdir(Path(__file__).resolve().parent)
    for settings in SETTINGS:
        run_task(task_cfg=settings)


if __name__ == "__main__":
    main()
'''

COMPILE_LLM = '''\
"""Compile the language model: run in the compiling container, with this folder mounted."""

import os
import sys
from pathlib import Path

@settings@
# Settings of the whole process: the compiler reads them where it is imported, so they stand in front of that.
os.environ["COMPILE_THREAD"] = COMPILE_THREAD
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.chdir(Path(__file__).resolve().parent)

import torch
from tyllm import torch_edgex
from tyllm.build_util import build_and_compile_llm

torch_edgex.set_device_trace_only("edgex", True)
torch_edgex.set_device_mode("LM_die_remap", LANGUAGE_REMAP)


def main():
    if torch.cuda.is_available() != HAS_GPU:
        sys.exit(f"job.yaml says gpu: {str(HAS_GPU).lower()}, and this host differs; correct it and make anew")
    folder = Path(ARTEFACTS)
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder}: holds what an earlier compile left; remove it first")
    folder.mkdir(parents=True, exist_ok=True)
    build_and_compile_llm(
        model_path=CHECKPOINT,
        artifacts_path=ARTEFACTS,
        max_kv_cache_size=KV_CACHE_TOKENS,
        seq_len_list=LENGTHS,
        dev_count=DIES,
        embedding_as_input=EMBEDDING_AS_INPUT,
    )


if __name__ == "__main__":
    main()
'''

COMPILE_VLM = '''\
"""Compile the model with pictures: run in the compiling container, with this folder mounted.

The order of what follows is not free: settings of the process, then patches, then the engine. At the end the files get
the names that the chip's software reads: `RENAMES` has what the compiler writes, that name, and whether both stay.
"""

import datetime
import logging
import os
import shutil
import sys
from pathlib import Path

@settings@
# Settings of the whole process: the compiler and vLLM read them where they are imported, so they stand here.
os.environ["COMPILE_THREAD"] = COMPILE_THREAD
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"
os.chdir(Path(__file__).resolve().parent)

import numpy as np
import torch
import torch.distributed
from PIL import Image
from tyllm import torch_edgex
from vllm import LLM
from vllm.config import ModelConfig, ParallelConfig

torch.distributed.constants.default_pg_timeout = datetime.timedelta(hours=5)
logging.getLogger("vllm").setLevel(logging.WARNING)
torch_edgex.set_device_mode("jit_device", JIT_DEVICE)

# What asks for the device where it is imported.
from transformers import AutoProcessor
from tyllm.vllm_ext.edgex_executor import EdgeXExecutor

torch_edgex.edgex_module.set_trace_only_mode(True)
torch_edgex.set_device_mode("exec_mode", "AOT")
torch_edgex.set_device_mode("prefill_lens", LENGTHS)
torch_edgex.set_device_mode("AOT_DIR", COMPILED)
torch_edgex.set_device_mode("tmp_image_path", PICTURE)
torch_edgex.set_device_mode("VM_die_remap", VISION_REMAP)
torch_edgex.set_device_mode("LM_die_remap", LANGUAGE_REMAP)

# Patches: the dies are no devices that vLLM could count, and one process drives them all.
torch._dynamo.reset()
ModelConfig.verify_with_parallel_config = lambda self, parallel_config: True
_post_init = ParallelConfig.__post_init__


def _one_process(self):
    _post_init(self)
    self.world_size = 1


ParallelConfig.__post_init__ = _one_process


def make_picture():
    """A picture of the compiled size, always the same: what is traced depends on its size alone."""
    Image.linear_gradient("L").resize((WIDTH, HEIGHT)).convert("RGB").save(PICTURE)


def question():
    """A prompt with one picture or video, as the model's own template writes it."""
    content = [{"type": MODALITY}, {"type": "text", "text": "What does this show?"}]
    prompt = AutoProcessor.from_pretrained(CHECKPOINT).apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    picture = Image.open(PICTURE)
    data = picture if MODALITY == "image" else np.stack([np.asarray(picture)] * FRAMES)
    return {"prompt": prompt, "multi_modal_data": {MODALITY: data}}


def rename(folder):
    """Give what the compiler wrote the names of `RENAMES`: nothing is touched unless all of it can be done."""
    moves, wrong = [], []
    for pattern, name, is_copied in RENAMES:
        place = folder / name
        found = sorted(path for path in folder.glob(pattern) if path != place)
        if len(found) == 1 or (found and is_copied):
            moves.append((found[0], place, is_copied))
        elif found:
            wrong.append(f"{pattern}: {len(found)} files, and one of them would become {name}")
        elif not place.is_file():
            wrong.append(f"{pattern}: no such file, which would become {name}")
    if wrong:
        sys.exit("\\n".join([f"{folder}: the compiler did not leave what was expected; nothing is renamed", *wrong]))
    for path, place, is_copied in moves:
        if is_copied:
            shutil.copy2(path, place)
        else:
            path.replace(place)


def main():
    if torch.cuda.is_available() != HAS_GPU:
        sys.exit(f"job.yaml says gpu: {str(HAS_GPU).lower()}, and this host differs; correct it and make anew")
    folder = Path(COMPILED)
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder}: holds what an earlier compile left; remove it first")
    tokenizer = Path(CHECKPOINT) / "tokenizer.json"
    if not tokenizer.is_file():
        sys.exit(f"{tokenizer}: is missing; copy it from the float model")
    of_dies = folder / OF_DIES
    for name in SUBFOLDERS:
        (of_dies / name).mkdir(parents=True, exist_ok=True)
    make_picture()
    llm = LLM(
        model=CHECKPOINT,
        max_model_len=MAX_MODEL_LEN,
        tensor_parallel_size=DIES,
        max_num_seqs=5,
        mm_processor_kwargs={"min_pixels": MIN_PIXELS, "max_pixels": MAX_PIXELS},
        disable_mm_preprocessor_cache=True,
        trust_remote_code=True,
        dtype="float16",
        disable_async_output_proc=True,
        distributed_executor_backend=EdgeXExecutor,
        worker_cls="tyllm.vllm_ext.edgex_executor.EdgeXWorker",
        device="cpu",
    )
    # The first question is what compiles.
    llm.generate(question(), use_tqdm=False)
    rename(of_dies)
    shutil.copy2(tokenizer, of_dies / "tokenizer.json")


if __name__ == "__main__":
    main()
'''

CONTAINERS = """\
#!/usr/bin/env bash
# Fetch the toolchain's containers, or run a command in one with this folder as its working folder:
#   ./0-containers.sh pull
#   ./0-containers.sh @first@ COMMAND…
# EDGE10_REGISTRY names the registry. EDGE10_USER and EDGE10_PASSWORD are read by pull alone; what docker keeps of them
# is removed when it ends. HF_TOKEN reaches a container where it is set.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
: "${EDGE10_REGISTRY:?set it to the registry, HOST:PORT}"

image_of() {
  case "$1" in
@cases@
    *)
      echo "$1: no step that has a container" >&2
      return 2
      ;;
  esac
}

if [[ "${1:-}" == pull ]]; then
  : "${EDGE10_USER:?set it to the name that the registry knows}" "${EDGE10_PASSWORD:?set it to the password}"
  printf '%s' "$EDGE10_PASSWORD" | docker login "$EDGE10_REGISTRY" --username "$EDGE10_USER" --password-stdin
  trap 'docker logout "$EDGE10_REGISTRY"' EXIT
  for step in @steps@; do
    docker pull "$(image_of "$step")"
  done
  exit
fi

image="$(image_of "${1:-nothing}")"
shift
exec docker run --rm --interactive --env HF_TOKEN @options@ \\
  --volume "$here:/data" --workdir /data "$image" "$@"
"""
