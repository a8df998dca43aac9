"""Quantise a model with llm-compressor in the Python that has it, and check that the result is complete."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.chain import limited
from vllm_runbooks.edge10.chain.evaluating import check_count
from vllm_runbooks.edge10.chain.limited import RunContext, RunLimits
from vllm_runbooks.edge10.chain.quantiser import MARK, SCHEMES
from vllm_runbooks.edge10.chain.records import ChainLink, OpenParts, Quantised
from vllm_runbooks.plan import checkpoints
from vllm_runbooks.probe.starts import LaunchResult

_PROGRAM = Path(__file__).with_name("quantiser.py")
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
_PASSIVE_WAIT = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Waiting threads sleep: on a busy host spinning takes five times as long (109 s instead of 23 s on
two cores)."""
_WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"})
_CONFIGS = frozenset(
    {"config.json", "hf_quant_config.json", "quantize_config.json", "quant_config.json", "params.json"}
)
"""Files on the form of the weights, which are not copied from the float model."""
_MAX_CONFIG, _MAX_TEXTS = 1 << 24, 1 << 30
_MAX_SAMPLES, _MAX_TOKENS = 1 << 16, 1 << 20


class QuantisingPlan(NamedTuple):
    """Settings for quantising a model."""

    method: str
    calibration: Path
    samples: int
    tokens: int
    """Maximum tokens per sample."""


def plan(method: str, calibration: str, samples: int, tokens: int) -> QuantisingPlan:
    """A validated plan; raises InputError."""
    if not calibration.strip():
        raise InputError(
            "calibration: is empty; use a file with one text per line, or set `quantised` to a quantized model"
        )
    if method not in SCHEMES:
        raise InputError(f"method: {method!r} is not supported by the open-source tools; use {' or '.join(SCHEMES)}")
    check_count("samples", samples, _MAX_SAMPLES)
    check_count("tokens", tokens, _MAX_TOKENS)
    path = Path(calibration).expanduser().absolute()
    _check_texts(path)
    return QuantisingPlan(method, path, samples, tokens)


def _check_texts(path: Path) -> None:
    try:
        if path.stat().st_size > _MAX_TEXTS:
            raise InputError(
                f"calibration: {path}: is larger than {_MAX_TEXTS >> 30} GiB; a few hundred texts are enough"
            )
        with path.open(encoding="utf-8") as file:
            has_text = any(line.strip() for line in file)
    except OSError as error:
        raise InputError(f"calibration: {path}: {error.strerror}; use a file with one text per line") from None
    except UnicodeDecodeError:
        raise InputError(f"calibration: {path}: is not UTF-8 text; use a file with one text per line") from None
    if not has_text:
        raise InputError(f"calibration: {path}: contains no text; use a file with one text per line")


def check_model(folder: Path) -> None:
    """Check that a folder has a complete float language model; raises InputError."""
    if not folder.is_dir():
        raise InputError(f"{folder}: is not a folder; the chain needs the folder of a model on this host")
    if problems := checkpoints.problems(folder):
        raise InputError(problems[0])
    config = _read_config(folder)
    if "quantization_config" in config:
        raise InputError(f"{folder}: is already quantised (quantization_config in config.json); use the float model")
    names = config.get("architectures")
    architecture = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None
    if architecture is not None and not architecture.endswith("ForCausalLM"):
        raise InputError(
            f"{folder}: {architecture[:80]} is not a plain language model, which is all that is supported; quantise "
            "it with its own tool, and set `quantised` to the result"
        )


def _read_config(folder: Path) -> dict[str, Any]:
    """A model's configuration; empty if it cannot be read."""
    try:
        with (folder / "config.json").open("rb") as file:
            data = json.loads(file.read(_MAX_CONFIG))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def quantise(
    parts: OpenParts, plan: QuantisingPlan, model: Path, *, place: Path, limits: RunLimits, context: RunContext
) -> tuple[ChainLink, Quantised | None]:
    """Quantise the model in a folder; the log and the result are stored below `place`."""
    out, progress = place / "model", _Progress(context.say)
    needed, free = checkpoints.tensor_bytes(model) or 0, shutil.disk_usage(place).free
    if free < needed:
        text = f"{place}: {free >> 20} MiB is free, but the float model needs {needed >> 20}; use another folder"
        return ChainLink("quantise", LaunchResult.FAILED, text), None
    request = {
        "model": str(model),
        "out": str(out),
        "method": plan.method,
        "calibration": str(plan.calibration),
        "samples": plan.samples,
        "tokens": plan.tokens,
    }
    program = limited.run(
        [parts.python, "-P", str(_PROGRAM), json.dumps(request, ensure_ascii=False)],
        place / "quantise.log",
        limits,
        context,
        environment={**_PASSIVE_WAIT, **context.environment, **_OFFLINE, "PYTHONUNBUFFERED": "1"},
        read_line=progress.read_line,
    )
    files = (program.log, *([str(out)] if out.is_dir() else []))

    def failed(text: str) -> ChainLink:
        return ChainLink("quantise", LaunchResult.FAILED, text, program.seconds, program, files)

    if program.reason:
        return failed(program.reason), None
    try:
        copied = _copy_other_files(model, out)
    except OSError as error:
        file = error.filename2 or error.filename
        return failed(f"{file}: could not be copied from the float model: {error.strerror}"), None
    quantised = replace(
        described(model, out),
        method=plan.method,
        scheme=SCHEMES[plan.method],
        samples=progress.samples,
        sample_tokens=progress.tokens,
        copied=copied,
    )
    if quantised.lacks:
        return failed(quantised.lacks[0]), quantised
    return ChainLink("quantise", LaunchResult.PASSED, _summary(quantised), program.seconds, program, files), quantised


def _summary(quantised: Quantised) -> str:
    before, after = ((size or 0) / 1e6 for size in (quantised.float_bytes, quantised.quantised_bytes))
    text = f"{quantised.method}, {quantised.scheme}: {before:.1f} MB became {after:.1f} MB"
    if quantised.samples is not None:
        text += f", calibrated with {quantised.samples} texts of {quantised.sample_tokens} tokens in total"
    return text


class _Progress:
    """Progress that the program prints, and its calibration."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.samples: int | None = None
        self.tokens: int | None = None
        self._say = say

    def read_line(self, line: str) -> None:
        try:
            data = json.loads(line.removeprefix(MARK)) if line.startswith(MARK) else {}
            state = str(data.pop("state"))
        except (ValueError, KeyError, AttributeError, RecursionError):
            return
        if state == "calibrates":
            self.samples, self.tokens = data.get("samples"), data.get("tokens")
        details = ", ".join(f"{name} {value}" for name, value in data.items())
        self._say(f"quantise: {state}{f': {details}' if details else ''}")


def _copy_other_files(model: Path, out: Path) -> tuple[str, ...]:
    copied = []
    for path in sorted(model.iterdir()) if out.is_dir() else ():
        is_of_weights = path.name in _CONFIGS or path.suffix in _WEIGHTS or path.name.endswith(".index.json")
        if path.is_file() and not path.name.startswith(".") and not is_of_weights and not (out / path.name).exists():
            shutil.copyfile(path, out / path.name)
            copied.append(path.name)
    return tuple(copied)


def described(model: Path, out: Path) -> Quantised:
    """A quantised model by its folder."""
    settings = _read_config(out).get("quantization_config")
    method = settings.get("quant_method") if isinstance(settings, dict) else None
    return Quantised(
        folder=str(out),
        method=method if isinstance(method, str) else "",
        scheme="",
        samples=None,
        sample_tokens=None,
        float_bytes=_tensor_bytes(model),
        quantised_bytes=_tensor_bytes(out),
        lacks=lacking(out),
    )


def lacking(out: Path) -> tuple[str, ...]:
    """Missing and damaged parts of a quantised model, a sentence each."""
    if not out.is_dir():
        return (f"{out}: is not a folder; correct the path",)
    problems = tuple(checkpoints.problems(out))
    if not problems and not isinstance(_read_config(out).get("quantization_config"), dict):
        return (f"{out}: its config.json has no quantization_config, so it is served as a float model",)
    return problems


def _tensor_bytes(folder: Path) -> int | None:
    try:
        return checkpoints.tensor_bytes(folder)
    except (InputError, OSError):
        return None
