"""Make the files of a job: scripts, commands, settings, and a README with their order."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from vllm_runbooks.catalog import host_commands
from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.edge10 import models
from vllm_runbooks.edge10.jobs import names
from vllm_runbooks.edge10.jobs.records import EdgeJob, JobCalibration, MadeFile
from vllm_runbooks.edge10.jobs.templates import fill_template

JOB = "job.yaml"
"""Description of the job, with all defaults."""
QUANTISE, CONVERT = "1-quantise.py", "2-convert.sh"
SERVE_FLOAT, SERVE_QUANTISED = "3-serve-float.sh", "3-serve-quantised.sh"
COMPILE = "5-compile.py"
_CONTAINERS, _NEEDED, _README = "0-containers.sh", "requirements-evaluate.txt", "README.md"
RESULTS = "evaluations"
_ADDRESS = "127.0.0.1"
_UTILISATION = "0.9"
"""Share of a GPU's memory for a server: each has its own GPUs."""
_PIXELS = (256 * 28 * 28, 1280 * 28 * 28)
"""Minimum and maximum pixels of an image, as in the guide's example."""
_FRAMES = 10
"""Frames of the video, as in the guide's example."""
_PROGRAM = "${CONVERTER:-.}"
"""Folder of the converter, which the guide does not name."""
_TAG = "v{version}"
"""Tag of a container's image."""
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*", re.ASCII)
_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))
"""Words that YAML does not read as text."""


class JobFiles(NamedTuple):
    """Files of a job."""

    files: tuple[MadeFile, ...]
    """In the order in which they are used."""
    texts: Mapping[str, str]
    """By name."""


def make_files(job: EdgeJob, facts: Toolchain) -> JobFiles:
    """Make the texts of a job's files; nothing is written."""
    texts = dict(_files(job, facts))
    readme = MadeFile(_README, "", "the steps in order")
    by_name = {file.name: text for file, text in texts.items()}
    return JobFiles((*texts, readme), {**by_name, _README: _readme(job, facts, list(texts))})


def _files(job: EdgeJob, facts: Toolchain) -> Iterator[tuple[MadeFile, str]]:
    containers = MadeFile(_CONTAINERS, "", "pulls the containers, and runs a command in one", is_run=True)
    yield containers, _containers(job, facts)
    if job.calibration is not None:
        yield MadeFile(QUANTISE, "quantise", facts.steps["quantise"].says), _quantise(job, facts, job.calibration)
        convert = MadeFile(CONVERT, "convert", facts.steps["convert"].says, is_run=True)
        yield convert, _convert(job, facts, job.calibration.method)
    yield MadeFile(_NEEDED, "evaluate", "packages of the evaluation"), _requirements(job, facts)
    for which, name in (("float", SERVE_FLOAT), ("quantised", SERVE_QUANTISED)):
        yield MadeFile(name, "evaluate", f"serves the {which} model", is_run=True), _serve(job, facts, which)
    yield from _evaluations(job, facts)
    yield MadeFile(COMPILE, "compile", facts.steps["compile"].says), _compile(job, facts)
    yield MadeFile(JOB, "", "the job with all settings"), job_text(job, facts)


# ---- scripts


def _script(template: str, settings: Mapping[str, Any], **words: str) -> str:
    lines = [f"{name} = {_literal(value)}" for name, value in settings.items()]
    head = "# Generated from job.yaml; regenerate the files instead of editing one."
    return fill_template(template, settings="\n".join([head, *lines, ""]), **words)


def _literal(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return "\n".join(["[", *(f"    {row!r}," for row in value), "]"])
    return repr(value)


def _quantise(job: EdgeJob, facts: Toolchain, calibration: JobCalibration) -> str:
    settings = {
        "MODEL": models.weights(job.model, facts),
        "QUANTISED": names.quantised(job, facts),
        "DATASET": calibration.dataset,
        "DATASET_PART": calibration.dataset_config or None,
        "SPLIT": calibration.split,
        "COLUMN": calibration.column,
        "SAMPLES": calibration.samples,
        "SAMPLE_TOKENS": calibration.tokens,
    }
    return _script(f"quantise_{job.kind}", settings, method=calibration.method)


def _evaluations(job: EdgeJob, facts: Toolchain) -> Iterator[tuple[MadeFile, str]]:
    evaluation = job.evaluation
    sides = (
        ("float", evaluation.float_name, evaluation.float_port),
        ("quantised", evaluation.quantised_name, evaluation.quantised_port),
    )
    for which, served, port in sides:
        address, results = f"http://{_ADDRESS}:{port}/v1/chat/completions", f"{RESULTS}/{which}"
        if job.kind == "llm":
            settings = {
                "SERVED_NAME": served,
                "API_URL": address,
                "DATASETS": list(evaluation.datasets),
                "LIMIT": evaluation.limit,
                "AT_ONCE": facts.evaluation.sequences,
                "ANSWER_TOKENS": evaluation.answer_tokens,
                "SEED": evaluation.seed,
                "RESULTS": results,
            }
            file = MadeFile(f"4-evaluate-{which}.py", "evaluate", f"asks the {which} model the questions")
            yield file, _script("evaluate_llm", settings, which=which)
        else:
            file = MadeFile(f"4-evaluate-{which}.yaml", "evaluate", f"what the {which} model is asked")
            yield (
                file,
                fill_template(
                    "evaluation_settings",
                    which=which,
                    seed=evaluation.seed,
                    results=results,
                    served=_yaml(served),
                    address=address,
                    answer_tokens=evaluation.answer_tokens,
                    datasets="\n".join(f"    - {_yaml(dataset)}" for dataset in evaluation.datasets),
                    limit="" if evaluation.limit is None else f"  limit: {evaluation.limit}",
                    sequences=facts.evaluation.sequences,
                ),
            )
    if job.kind == "vlm":
        paths = [f"4-evaluate-{which}.yaml" for which, _, _ in sides]
        file = MadeFile("4-evaluate.py", "evaluate", "asks both models the questions")
        yield file, _script("evaluate_vlm", {"SETTINGS": paths})


def _compile(job: EdgeJob, facts: Toolchain) -> str:
    compiled, of_dies = names.compiled(job, facts), names.dies_folder(job.dies, facts)
    threads = facts.limits.threads_with_gpu if job.gpu else facts.limits.threads_without_gpu
    settings: dict[str, Any] = {
        "HAS_GPU": job.gpu,
        "COMPILE_THREAD": threads,
        "CHECKPOINT": names.converted(job, facts),
    }
    if job.kind == "llm":
        settings |= {
            "ARTEFACTS": f"{compiled}/{of_dies}",
            "DIES": job.dies,
            "LENGTHS": list(job.lengths),
            "KV_CACHE_TOKENS": job.kv_cache_tokens,
            "EMBEDDING_AS_INPUT": job.embedding_as_input,
            "LANGUAGE_REMAP": list(job.language_remap),
        }
        return _script("compile_llm", settings)
    width, height = job.picture or facts.limits.picture
    settings |= {
        "JIT_DEVICE": "cuda" if job.gpu else "cpu",
        "COMPILED": compiled,
        "OF_DIES": of_dies,
        "DIES": job.dies,
        "LENGTHS": list(job.lengths),
        "MAX_MODEL_LEN": job.context_tokens,
        "VISION_REMAP": list(job.vision_remap),
        "LANGUAGE_REMAP": list(job.language_remap),
        "MODALITY": job.modality,
        "WIDTH": width,
        "HEIGHT": height,
        "MIN_PIXELS": min(_PIXELS[0], width * height),
        "MAX_PIXELS": max(_PIXELS[1], width * height),
        "FRAMES": _FRAMES,
        "PICTURE": "traced.png",
        "SUBFOLDERS": _subfolders(facts),
        "RENAMES": renamings(job, facts),
    }
    return _script("compile_vlm", settings)


def renamings(job: EdgeJob, facts: Toolchain) -> list[tuple[str, str, bool]]:
    """Pattern of the compiler's files for each die, the new name, and whether it is copied."""
    rows = [
        (file.renamed_from.replace("{die}", str(die)), file.path.replace("{die}", str(die)), file.is_copied)
        for file in facts.trees.get(job.kind, ())
        if file.renamed_from
        for die in range(job.dies)
    ]
    return list(dict.fromkeys(rows))


def _subfolders(facts: Toolchain) -> list[str]:
    """Folders that the compiler writes the vision part to, but does not create."""
    return sorted({file.renamed_from.rpartition("/")[0] for file in facts.trees.get("vlm", ())} - {""})


# ---- commands


def _containers(job: EdgeJob, facts: Toolchain) -> str:
    tag = _TAG.format(version=facts.version)
    steps = [
        name
        for name, step in facts.steps.items()
        if step.image and not (name == "quantise" and job.quantised is not None)
    ]
    cases = [f'    {step}) echo "$EDGE10_REGISTRY/{facts.steps[step].image}:{tag}" ;;' for step in steps]
    mounted = [path for path in (job.model, job.quantised) if path is not None and path.startswith("/")]
    options = ["--gpus all"] if job.gpu else []
    options += [f"--volume {shlex.quote(f'{path}:{path}:ro')}" for path in dict.fromkeys(mounted)]
    text = fill_template(
        "containers", cases="\n".join(cases), steps=" ".join(steps), first=steps[0] if steps else "compile"
    )
    return text.replace(" @options@", "".join(f" {option}" for option in options))


def _convert(job: EdgeJob, facts: Toolchain, method: str) -> str:
    command = _command(
        ["python3", f"{_PROGRAM}/{facts.steps['convert'].programs[0]}"],
        ["--src", names.quantised(job, facts)],
        ["--dst", names.converted(job, facts)],
        ["--quant_type", method],
    )
    return fill_template("convert", command=command)


def _serve(job: EdgeJob, facts: Toolchain, which: str) -> str:
    evaluation, is_float = job.evaluation, which == "float"
    first = 0 if is_float else evaluation.cards
    parallel = [["--tensor-parallel-size", str(evaluation.cards)]] if evaluation.cards > 1 else []
    command = _command(
        ["exec", "vllm", "serve", models.weights(job.model, facts) if is_float else names.converted(job, facts)],
        ["--served-model-name", evaluation.float_name if is_float else evaluation.quantised_name],
        *parallel,
        ["--dtype", facts.evaluation.dtype],
        ["--max-model-len", str(job.context_tokens)],
        ["--max-num-seqs", str(facts.evaluation.sequences)],
        ["--gpu-memory-utilization", _UTILISATION],
        ["--seed", str(evaluation.seed)],
        ["--host", _ADDRESS],
        ["--port", str(evaluation.float_port if is_float else evaluation.quantised_port)],
    )
    gpus = ",".join(str(gpu) for gpu in range(first, first + evaluation.cards))
    release = facts.steps["evaluate"].vllm or "of the evaluation"
    return fill_template("serve", which=which, release=release, cards=gpus, command=command)


def _command(*parts: Sequence[str]) -> str:
    lines = [
        " ".join(f'"{word}"' if word.startswith(_PROGRAM) else shlex.quote(word) for word in part) for part in parts
    ]
    return " \\\n  ".join(lines)


def _requirements(job: EdgeJob, facts: Toolchain) -> str:
    release = facts.steps["evaluate"].vllm
    vllm = f"vllm=={release}" if release else "vllm"
    return "\n".join([vllm, "evalscope" if job.kind == "llm" else "evalscope[vlmeval]", ""])


# ---- what people read


def job_text(job: EdgeJob, facts: Toolchain) -> str:
    """A job as YAML with all defaults; reading it gives the same job."""
    evaluation, fed = job.evaluation, job.calibration
    is_llm = job.kind == "llm"
    like = None if models.listed(job.model, facts) is not None else job.listed
    remap: Any = list(job.language_remap)
    if not is_llm and job.vision_remap != job.language_remap:
        remap = {"vision": list(job.vision_remap), "language": remap}
    values: dict[str, Any] = {
        "model": job.model,
        "like": like,
        "quantised": job.quantised,
        "toolchain": facts.version,
        "gpu": job.gpu,
        "dies": job.dies,
        "remap": remap,
        "prefill": list(job.prefill),
        "context": job.context_tokens,
        "kv_cache": job.kv_cache_tokens,
        "embedding_as_input": job.embedding_as_input if is_llm else None,
        "modality": job.modality,
        "picture": None if job.picture is None else f"{job.picture[0]}x{job.picture[1]}",
        "calibration": None
        if fed is None
        else {
            "samples": fed.samples,
            "tokens": fed.tokens,
            "dataset": fed.dataset,
            "part": fed.dataset_config or None,
            "split": fed.split,
            "column": fed.column,
        },
        "evaluation": {
            "datasets": list(evaluation.datasets),
            "ports": [evaluation.float_port, evaluation.quantised_port],
            "limit": evaluation.limit,
            "seed": evaluation.seed,
            "answer_tokens": evaluation.answer_tokens,
            "cards": evaluation.cards,
        },
        "threshold": job.threshold,
    }
    lines = ["# The job of one model. Comments show the source of each default."]
    for key, value in values.items():
        lines += _entry(key, value, job.defaults, key)
    return "\n".join([*lines, ""])


def _entry(key: str, value: Any, defaults: Mapping[str, str], field: str, indent: str = "") -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, Mapping):
        yield f"{indent}{key}:"
        for name, inner in value.items():
            yield from _entry(name, inner, defaults, f"{field}.{name}", f"{indent}  ")
        return
    why = defaults.get(field, "").partition(": ")[2]
    yield f"{indent}{key}: {_yaml(value)}{f'  # {why}' if why else ''}"


def _yaml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0")
    if isinstance(value, str) and not (_PLAIN.fullmatch(value) and value.lower() not in _WORDS):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _readme(job: EdgeJob, facts: Toolchain, files: Sequence[MadeFile]) -> str:
    doubts = [f"- {name}: {step.doubt}" for name, step in facts.steps.items() if step.doubt]
    notes = ["", "## Not documented in the toolchain's guide", "", *doubts] if doubts else []
    notes += [""] if facts.host.packages else []
    for package, version in facts.host.packages.items():
        install = host_commands.line("install", requirement=f"{package}=={version}")
        notes.append(f"If the compiler ends with a segmentation fault: `{install}` in its container")
    return fill_template(
        "readme",
        model=names.model_name(job.model),
        toolchain=facts.name,
        facts=facts.id,
        source=facts.source,
        files="\n".join(f"| `{file.name}` | {file.step or '-'} | {file.description} |" for file in files),
        order="\n".join(f"{number}. {line}" for number, line in enumerate(_order(job, facts), 1)),
        compiled=f"{names.compiled(job, facts)}/{names.dies_folder(job.dies, facts)}",
        notes="\n".join(notes),
    )


def _order(job: EdgeJob, facts: Toolchain) -> Iterator[str]:
    converted, model = names.converted(job, facts), shlex.quote(models.weights(job.model, facts))
    evaluation = job.evaluation
    judged = f" --threshold {_yaml(job.threshold)}" if job.threshold is not None else ""
    yield "`EDGE10_REGISTRY` set, and for this `EDGE10_USER` and `EDGE10_PASSWORD` as well: `./0-containers.sh pull`"
    if job.calibration is not None:
        looked = f"vllm-runbooks edge10 preflight quantise --model {model} --data ."
        yield f"`{looked}`, then `./0-containers.sh quantise python3 {QUANTISE}`"
        yield f"`vllm-runbooks edge10 check {shlex.quote(names.quantised(job, facts))} --step quantise`"
        program = facts.steps["convert"].programs[0]
        yield f"`./{CONVERT}` in the container that has `{program}`, with `CONVERTER` set to that program's folder"
    yield f"`vllm-runbooks edge10 check {shlex.quote(converted)} --step convert`: the checkpoint is complete"
    install = host_commands.line("install-listed")
    yield f"On a host with {2 * evaluation.cards} GPUs, in a separate environment: `{install}`"
    yield (
        f"`./{SERVE_FLOAT}` on port {evaluation.float_port} and "
        f"`./{SERVE_QUANTISED}` on port {evaluation.quantised_port}, "
        "each in its own terminal"
    )
    scripts = ["4-evaluate.py"] if job.kind == "vlm" else ["4-evaluate-float.py", "4-evaluate-quantised.py"]
    asking = " and ".join(f"`{host_commands.line('script', path=name)}`" for name in scripts)
    yield f"{asking}, then `vllm-runbooks edge10 compare {RESULTS}/float {RESULTS}/quantised{judged}`"
    looked = f"vllm-runbooks edge10 preflight compile --model {model} --data ."
    yield f"`{looked}`, then `./0-containers.sh compile python3 {COMPILE}`"
    compiled = shlex.quote(names.compiled(job, facts))
    yield f"`vllm-runbooks edge10 check {compiled} --job {JOB}`: all files of all dies exist"
