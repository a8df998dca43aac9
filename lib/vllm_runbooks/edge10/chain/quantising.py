"""Quantise a model with llm-compressor, in a Python that has it: bounded, told as it goes, checked to be complete."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.chain import limited
from vllm_runbooks.edge10.chain.limited import Bounds
from vllm_runbooks.edge10.chain.quantiser import MARK, SCHEMES
from vllm_runbooks.edge10.chain.records import Link, OpenParts, Program, Quantised
from vllm_runbooks.plan import checkpoints
from vllm_runbooks.probe.starts import Result

METHODS = tuple(SCHEMES)
_PROGRAM = Path(__file__).with_name("quantiser.py")
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
_SHARING = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads that wait for the others sleep: on a host that does other things too, those that spin take it five times as
long (measured on two cores under load: 109 s against 23)."""
_WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"})
_OWN = frozenset({"config.json", "hf_quant_config.json", "quantize_config.json", "quant_config.json", "params.json"})
"""Files of a float model that say what its weights are, which those of the quantised model are not."""
_MAX_CONFIG, _MAX_TEXTS = 1 << 24, 1 << 30
_MAX_SAMPLES, _MAX_TOKENS = 1 << 16, 1 << 20
_PART = re.compile(r"\((\d{1,4})/(\d{1,4})\): ([A-Z]\w{1,30}):", re.ASCII)
"""A bar of llm-compressor, as in "(2/3): Calibrating:  50%"."""


@dataclass(frozen=True)
class Wanted:
    """How a model is to be quantised."""

    method: str
    calibration: Path
    samples: int
    tokens: int
    """Of one sample, at most."""

    def check(self) -> None:
        """Refuse what nothing can be quantised with.

        Raises:
            InputError: why.
        """
        if self.method not in METHODS:
            raise InputError(f"method: {self.method!r} is none that the open parts have; give {' or '.join(METHODS)}")
        for name, most in (("samples", _MAX_SAMPLES), ("tokens", _MAX_TOKENS)):
            count = getattr(self, name)
            if type(count) is not int or not 1 <= count <= most:
                raise InputError(f"{name} is {count!r}; give a whole number from 1 to {most}")
        _check_texts(self.calibration)


def _check_texts(path: Path) -> None:
    """See that a file holds texts to calibrate with; each form is read as the program reads it.

    Raises:
        InputError: it does not.
    """
    try:
        if path.stat().st_size > _MAX_TEXTS:
            raise InputError(f"calibration: {path}: is larger than {_MAX_TEXTS >> 30} GiB; some hundred texts will do")
        with path.open(encoding="utf-8") as file:
            found = 0
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                found += 1
                if path.suffix == ".jsonl" and not _is_sample(line):
                    raise InputError(
                        f"calibration: {path}:{number}: is no JSON object with `text` or `messages`; write one a line"
                    )
    except OSError as error:
        raise InputError(f"calibration: {path}: {error.strerror}; name a file of texts, one a line") from None
    except UnicodeDecodeError:
        raise InputError(f"calibration: {path}: is no text in UTF-8; name a file of texts, one a line") from None
    if not found:
        raise InputError(f"calibration: {path}: holds no text; name a file of texts, one a line")


def _is_sample(line: str) -> bool:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(told, dict) and (isinstance(told.get("text"), str) or isinstance(told.get("messages"), list))


def check_model(folder: Path) -> None:
    """See that a folder holds a whole float model that the open parts quantise.

    Raises:
        InputError: it does not.
    """
    if not folder.is_dir():
        raise InputError(
            f"{folder}: is no folder; the chain works on a model that lies on this host, so name its folder"
        )
    found = checkpoints.problems(folder)
    if found:
        raise InputError(found[0])
    config = _config(folder)
    if "quantization_config" in config:
        raise InputError(f"{folder}: is quantised already (quantization_config in config.json); name the float model")
    names = config.get("architectures")
    kind = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None
    if kind is not None and not kind.endswith("ForCausalLM"):
        raise InputError(
            f"{folder}: {kind[:80]} is no language model alone, and nothing else is quantised here; quantise it with "
            "its own tool, and give the result as `quantised`"
        )


def _config(folder: Path) -> dict[str, Any]:
    """A model's configuration; empty where there is none that can be read."""
    try:
        with (folder / "config.json").open("rb") as file:
            told = json.loads(file.read(_MAX_CONFIG))
    except (OSError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def quantise(
    parts: OpenParts,
    wanted: Wanted,
    model: Path,
    place: Path,
    bounds: Bounds,
    *,
    environment: Mapping[str, str],
    known: str,
    say: Callable[[str], None],
    is_over: Callable[[], bool],
) -> tuple[Link, Quantised | None]:
    """Quantise a model into a folder; whether that came to a whole model is in the link.

    Args:
        parts: The Python that has llm-compressor.
        wanted: How.
        model: Folder of the float model.
        place: Folder for the log and, below it, the quantised model.
        bounds: Time and memory that it may take.
        environment: All of its variables.
        known: What may name a secret that is printed.
        say: Says how far it is.
        is_over: Whether it is not to go on, asked several times a second.
    """
    out, told = place / "model", _Told(say)
    need, free = checkpoints.tensor_bytes(model) or 0, shutil.disk_usage(place).free
    if free < need:
        says = f"{place}: {free >> 20} MiB are free, and the float model alone has {need >> 20}; name another folder"
        return Link("quantise", Result.FAILED, says), None
    asked = {
        "model": str(model),
        "out": str(out),
        "method": wanted.method,
        "calibration": str(wanted.calibration),
        "samples": wanted.samples,
        "tokens": wanted.tokens,
    }
    program = limited.run(
        [parts.python, "-P", str(_PROGRAM), json.dumps(asked, ensure_ascii=False)],
        place / "quantise.log",
        bounds,
        environment={**_SHARING, **environment, **_OFFLINE, "PYTHONUNBUFFERED": "1"},
        known=known,
        heard=told.hear,
        is_cancelled=is_over,
    )
    files = (program.log, *([str(out)] if out.is_dir() else []))
    if program.why:
        return Link("quantise", Result.FAILED, program.why, program.seconds, program, files), None
    try:
        copied = _completed(model, out)
    except OSError as error:
        says = f"{error.filename2 or error.filename}: could not be copied from the float model: {error.strerror}"
        return Link("quantise", Result.FAILED, says, program.seconds, program, files), None
    found = replace(
        described(model, out),
        method=wanted.method,
        scheme=SCHEMES[wanted.method],
        samples=told.samples,
        sample_tokens=told.tokens,
        copied=copied,
    )
    return _judged(found, program, files), found


def _judged(found: Quantised, program: Program, files: tuple[str, ...]) -> Link:
    if found.lacks:
        return Link("quantise", Result.FAILED, found.lacks[0], program.seconds, program, files)
    before, after = (size or 0 for size in (found.float_bytes, found.quantised_bytes))
    says = f"{found.method}, {found.scheme}: {before / 1e6:.1f} MB became {after / 1e6:.1f} MB"
    if found.samples is not None:
        says += f", calibrated with {found.samples} texts of {found.sample_tokens} tokens in all"
    return Link("quantise", Result.PASSED, says, program.seconds, program, files)


class _Told:
    """What the program and llm-compressor say of how far they are."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.samples: int | None = None
        self.tokens: int | None = None
        self._say, self._at = say, ""

    def hear(self, line: str) -> None:
        """Take one line of it."""
        if line.startswith(MARK):
            self._take(line.removeprefix(MARK))
        elif (match := _PART.search(line)) and (at := f"part {match[1]} of {match[2]}") != self._at:
            self._at = at
            self._say(f"quantise: {at}")

    def _take(self, text: str) -> None:
        try:
            told = json.loads(text)
            state = str(told.pop("state"))
        except (ValueError, KeyError, AttributeError, RecursionError):
            return
        if state == "calibrates":
            self.samples, self.tokens = (told.get(name) for name in ("samples", "tokens"))
        more = ", ".join(f"{name} {value}" for name, value in told.items())
        self._say(f"quantise: {state}{f': {more}' if more else ''}")


def _completed(model: Path, out: Path) -> tuple[str, ...]:
    """Put the float model's other files beside the quantised weights; their names."""
    copied = []
    for path in sorted(model.iterdir()) if out.is_dir() else ():
        is_own = path.name in _OWN or path.suffix in _WEIGHTS or path.name.endswith(".index.json")
        if not path.is_file() or path.name.startswith(".") or is_own or (out / path.name).exists():
            continue
        shutil.copyfile(path, out / path.name)
        copied.append(path.name)
    return tuple(copied)


def described(model: Path, out: Path) -> Quantised:
    """A quantised model as its folder tells it, with what it lacks.

    Args:
        model: Folder of the float model.
        out: That of the quantised one.
    """
    how = _config(out).get("quantization_config")
    named = how.get("quant_method") if isinstance(how, dict) else None
    return Quantised(
        folder=str(out),
        method=named if isinstance(named, str) else "",
        scheme="",
        samples=None,
        sample_tokens=None,
        float_bytes=_bytes(model),
        quantised_bytes=_bytes(out),
        lacks=lacking(out),
    )


def lacking(out: Path) -> tuple[str, ...]:
    """What is missing or damaged in the folder of a quantised model, a sentence each."""
    if not out.is_dir():
        return (f"{out}: is no folder; correct the path",)
    found = tuple(checkpoints.problems(out))
    if not found and not isinstance(_config(out).get("quantization_config"), dict):
        return (f"{out}: its config.json has no quantization_config, so it is served as a float model",)
    return found


def _bytes(folder: Path) -> int | None:
    try:
        return checkpoints.tensor_bytes(folder)
    except (InputError, OSError):
        return None
