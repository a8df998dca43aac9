"""Evaluate a running server with EvalScope on local questions, offline."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.chain import limited
from vllm_runbooks.edge10.chain.limited import RunContext, RunLimits
from vllm_runbooks.edge10.chain.records import ChainLink, OpenParts
from vllm_runbooks.probe.starts import LaunchResult
from vllm_runbooks.serve.subject import ServedLaunch

_DATASET = "general_mcq"
"""EvalScope's name of custom multiple-choice questions."""
_SUFFIX = "_val.csv"
_LETTERS = "ABCDEFGHIJ"
_MAX_FILE = 1 << 28
_KEY = "EVALSCOPE_API_KEY"
"""EvalScope reads the key from this variable (models/openai_compatible.py)."""
_NO_PROXY = "http://127.0.0.1:9"
"""A proxy that refuses connections, so that only the server is reached."""
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
_PROGRESS = re.compile(r"Evaluating\[[\w@-]{1,80}\]: +(\d{1,3})%", re.ASCII)


@dataclass(frozen=True)
class Questions:
    """Custom questions: files `NAME_val.csv` with the columns question, A, B, … and answer."""

    folder: Path
    counts: Mapping[str, int]
    """Questions by name of the file."""

    @property
    def count(self) -> int:
        return sum(self.counts.values())


class RequestLimits(NamedTuple):
    """Limits of the requests."""

    answer_tokens: int
    at_once: int


def check_count(name: str, count: object, most: int) -> None:
    """Check that a value is a whole number from 1 to `most`; raises InputError."""
    if type(count) is not int or not 1 <= count <= most:
        raise InputError(f"{name} is {count!r}; use a whole number from 1 to {most}")


def questions_in(folder: Path) -> Questions:
    """The questions of a folder, each with an answer among its choices; raises InputError."""
    if not folder.is_dir():
        raise InputError(f"questions: {folder}: is not a folder; use the folder with the files NAME{_SUFFIX}")
    files = sorted(folder.glob(f"*{_SUFFIX}"))
    if not files:
        raise InputError(
            f"questions: {folder}: contains no file NAME{_SUFFIX}; write one with the columns "
            "question, A, B, … and answer"
        )
    return Questions(folder.absolute(), {path.name.removesuffix(_SUFFIX): _count_questions(path) for path in files})


def _count_questions(path: Path) -> int:
    try:
        if path.stat().st_size > _MAX_FILE:
            raise InputError(f"questions: {path}: is larger than {_MAX_FILE >> 20} MiB; split it")
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            columns = rows.fieldnames or []
            choices = [letter for letter in _LETTERS if letter in columns]
            has_choices = len(choices) >= 2 and choices == list(_LETTERS[: len(choices)])
            if not {"question", "answer"} <= set(columns) or not has_choices:
                raise InputError(
                    f"questions: {path}:1: the columns are {', '.join(columns)[:200] or 'none'}; question, A, B, … and "
                    "answer are needed"
                )
            count = 0
            for row in rows:
                count += 1
                if not row["question"] or row["answer"] not in choices:
                    raise InputError(
                        f"questions: {path}:{rows.line_num}: has no question, or its answer is not one of "
                        f"{', '.join(choices)}"
                    )
    except OSError as error:
        raise InputError(f"questions: {path}: {error.strerror}; use readable files") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"questions: {path}: cannot be read as CSV in UTF-8 ({error}); write it again") from None
    if not count:
        raise InputError(f"questions: {path}: contains no question below its first line")
    return count


def _served_name(subject: ServedLaunch) -> str:
    names = subject.flags.get("served_model_name")
    first = names[0] if isinstance(names, list) and names else names
    return first if isinstance(first, str) and first else subject.model or ""


def folder_of(place: Path, name: str) -> Path:
    """EvalScope's work folder for a server."""
    return place / f"evaluated-{name}"


def evaluate(
    parts: OpenParts,
    subject: ServedLaunch,
    name: str,
    questions: Questions,
    requests: RequestLimits,
    *,
    place: Path,
    limits: RunLimits,
    context: RunContext,
    is_gone: Callable[[], bool],
) -> ChainLink:
    """Send all questions to a running server; the log and the report are stored below `place`."""
    target, out = subject.target, folder_of(place, name)
    sampling = {"max_tokens": requests.answer_tokens, "temperature": 0, "seed": 0}
    # Thinking would use up the few tokens; a template without this switch ignores it.
    generation = {**sampling, "extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}
    dataset = {_DATASET: {"local_path": str(questions.folder), "subset_list": list(questions.counts)}}
    words = [
        *(parts.python, "-P", "-m", "evalscope.cli.cli", "eval", "--model", _served_name(subject), "--model-id", name),
        *("--api-url", f"{target.place}/v1", "--api-key", "" if target.key else "EMPTY", "--eval-type", "openai_api"),
        *("--datasets", _DATASET, "--dataset-args", json.dumps(dataset, ensure_ascii=False)),
        *("--generation-config", json.dumps(generation), "--eval-batch-size", f"{requests.at_once}", "--seed", "0"),
        *("--work-dir", str(out), "--no-timestamp"),
    ]
    proxies = [f"{scheme}_proxy" for scheme in ("http", "https", "all")]
    environment = {
        **subject.environment,
        **_OFFLINE,
        **dict.fromkeys((*proxies, *map(str.upper, proxies)), _NO_PROXY),
        **dict.fromkeys(("no_proxy", "NO_PROXY"), f"{target.host},127.0.0.1,localhost"),
        **({_KEY: target.key} if target.key else {}),
    }
    tenths = 0

    def read_line(line: str) -> None:
        nonlocal tenths
        match = _PROGRESS.search(line)
        if match is not None and int(match[1]) // 10 > tenths:
            tenths = int(match[1]) // 10
            context.say(f"evaluate {name}: {tenths * 10}%")

    context.say(f"evaluate {name}: {questions.count} questions to {target.place}")
    log = place / f"evaluate-{name}.log"
    program = limited.run(words, log, limits, context, environment=environment, read_line=read_line)
    files = (program.log, *([str(out)] if out.is_dir() else []))
    result, text = LaunchResult.PASSED, f"{questions.count} questions"
    if program.reason:
        gone = f"the {name} server ended before EvalScope finished"
        result, text = LaunchResult.FAILED, gone if is_gone() else f"EvalScope: {program.reason}"
    return ChainLink(f"evaluate-{name}", result, text, program.seconds, program, files)
