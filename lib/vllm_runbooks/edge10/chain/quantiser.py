"""Program for a Python with llm-compressor: quantise the weights of a language model and print the progress.

    python quantiser.py '{"model": DIR, "out": DIR, "method": "awq", "calibration": FILE, "samples": 128,
                          "tokens": 512}'

It prints "imported", "loaded", "calibrates", "quantised" and "saved" in lines that begin with `MARK`. It imports
nothing of this project, and asks no hub. Only the weights and their configuration are written; the tokenizer and the
like of a quantised model are those of the float one, to the byte.
"""

# ruff: noqa: T201 - a stand-alone program, which prints its output and imports lazily
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MARK = "vllm-runbooks quantiser: "
SCHEMES = {"awq": "W4A16_ASYM", "gptq": "W4A16"}
"""By method the scheme of llm-compressor: four bits in groups of 128; AWQ has zero points, as its authors published."""
_SEED = 0


def _say(state: str, **details: object) -> None:
    print(f"{MARK}{json.dumps({'state': state, **details})}", flush=True)


def _texts(path: Path, tokenizer: Any) -> Iterator[str]:
    """The samples of a file: of JSON lines their text or conversation, else each line that is not empty."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.strip():
                continue
            if path.suffix != ".jsonl":
                yield line.strip()
                continue
            sample = json.loads(line)
            if isinstance(sample.get("messages"), list):
                yield tokenizer.apply_chat_template(sample["messages"], tokenize=False)
            else:
                yield str(sample["text"])


def _samples(request: dict[str, Any], tokenizer: Any) -> Any:
    from datasets import Dataset  # type: ignore[import-not-found]

    rows = []
    for text in _texts(Path(request["calibration"]), tokenizer):
        row = tokenizer(text, truncation=True, max_length=request["tokens"])
        if row["input_ids"]:
            rows.append({name: row[name] for name in ("input_ids", "attention_mask")})
        if len(rows) == request["samples"]:
            break
    if not rows:
        message = f"{request['calibration']}: its texts contain no tokens"
        raise ValueError(message)
    return Dataset.from_list(rows)


def _modifier(method: str) -> Any:
    if method == "gptq":
        from llmcompressor.modifiers.quantization import GPTQModifier  # type: ignore[import-not-found]

        return GPTQModifier(targets="Linear", scheme=SCHEMES[method], ignore=["lm_head"])
    from llmcompressor.modifiers.awq import AWQModifier  # type: ignore[import-not-found]

    return AWQModifier(targets=["Linear"], scheme=SCHEMES[method], ignore=["lm_head"])


def _quantise(request: dict[str, Any]) -> None:
    import torch  # type: ignore[import-not-found]

    has_accelerator = torch.accelerator.is_available()
    if not has_accelerator:
        # llm-compressor pins intermediate results (pipelines/cache.py) for transfers to a GPU;
        # without a GPU torch cannot pin, and AWQ fails with "Cannot access accelerator device when
        # none is available".
        torch.Tensor.pin_memory = lambda self, *_, **__: self
    torch.manual_seed(_SEED)
    from llmcompressor import oneshot  # type: ignore[import-not-found]
    from transformers import AutoModelForCausalLM, AutoTokenizer  # type: ignore[import-not-found]

    _say("imported", accelerator=str(torch.accelerator.current_accelerator()) if has_accelerator else "none")
    tokenizer = AutoTokenizer.from_pretrained(request["model"])
    model = AutoModelForCausalLM.from_pretrained(request["model"], dtype="auto")
    _say("loaded", parameters=sum(values.numel() for values in model.parameters()), dtype=str(model.dtype))
    samples = _samples(request, tokenizer)
    _say("calibrates", samples=len(samples), tokens=sum(map(len, samples["input_ids"])))
    oneshot(
        model=model,
        dataset=samples,
        recipe=_modifier(request["method"]),
        max_seq_length=request["tokens"],
        num_calibration_samples=len(samples),
    )
    _say("quantised")
    model.save_pretrained(request["out"], save_compressed=True)
    _say("saved")


if __name__ == "__main__":
    _quantise(json.loads(sys.argv[1]))
