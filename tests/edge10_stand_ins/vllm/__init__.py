"""Fake of the compile container's vLLM: its first request writes the compiled parts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from recorded import call, demand

from vllm.config import ModelConfig, ParallelConfig

_NEEDED = ("jit_device", "exec_mode", "prefill_lens", "AOT_DIR", "tmp_image_path", "VM_die_remap", "LM_die_remap")
_OWN = 8
"""A length that the compiler adds to the given ones, as in the guide's listing."""


class LLM:
    """An engine that compiles."""

    def __init__(self, **kwargs: Any) -> None:
        from tyllm import IS_READ, MODES, TRACED

        call("LLM", **kwargs)
        missing = [name for name in _NEEDED if name not in MODES]
        demand(not missing, f"{missing} are not set in front of the engine")
        demand(TRACED == [True], "nothing says that it is traced only")
        demand(os.environ.get("VLLM_WORKER_MULTIPROC_METHOD") == "spawn", "workers are no new processes")
        parallel = ParallelConfig(tensor_parallel_size=kwargs["tensor_parallel_size"])
        demand(parallel.world_size == 1, "several processes would start")
        ModelConfig().verify_with_parallel_config(parallel)
        IS_READ["engine"] = True
        self._dies, self._context = kwargs["tensor_parallel_size"], kwargs["max_model_len"]
        self._modes = MODES

    def generate(self, asked: dict[str, Any], *, use_tqdm: bool) -> None:
        call("generate", asked, use_tqdm=use_tqdm)
        folder = Path(self._modes["AOT_DIR"]) / f"{self._dies}die"
        for name in [*self._language(), *self._parts()]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(json.dumps({"path": name}) if name.endswith(".json") else name, encoding="utf-8")

    def _language(self) -> list[str]:
        lengths = sorted({*self._modes["prefill_lens"], _OWN})
        found = ["buffer_config.json", "config.json", "embedding.params", "empty.bin"]
        for die in range(self._dies):
            found.append(f"batch_1/common_die{die}.params")
            for length in lengths:
                inner = f"batch_1/seqlen_{length}"
                found += [f"batch_1/constant_die{die}_{length}.params", f"{inner}/llm_die{die}.params"]
                if length <= _OWN:
                    found += [f"{inner}/llm_decode_die{die}.so", f"{inner}/ckpt_llm_decode_die{die}.json"]
                if length >= _OWN:
                    found += [f"{inner}/llm_prefill_die{die}.so", f"{inner}/ckpt_llm_prefill_die{die}.json"]
                    found += [f"{inner}/llm_die{die}.so", f"{inner}/ckpt_llm_die{die}.json"]
        return found

    def _parts(self) -> list[str]:
        mrope = f"mrope/3_{self._context}_[int32]"
        visual = f"visual/2040_1536_[float16]{'2040_1024_[float16]' * 6}"
        found = [f"{visual}_preset_kwargs.pt"]
        for part in (mrope, visual):
            found += [f"{part}_{word}.json" for word in ("aot_config", "buffer_config", "graph")]
            for die in range(self._dies):
                found += [f"{part}_{die}.onnx", f"{part}_buffer_config_{die}.json"]
                found += [f"{part}_die{die}.so", f"{part}_die{die}.params"]
        return found
