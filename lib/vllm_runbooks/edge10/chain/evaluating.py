"""Evaluate a server that runs with EvalScope, on questions that lie on this host; no hub is ever asked."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.accuracy.records import EvaluationResults
from vllm_runbooks.edge10.chain import limited
from vllm_runbooks.edge10.chain.limited import Bounds
from vllm_runbooks.edge10.chain.records import Evaluated, Link, OpenParts
from vllm_runbooks.probe.starts import Result
from vllm_runbooks.serve.subject import Subject

DATASET = "general_mcq"
"""EvalScope's name for questions of one's own with a choice of answers."""
_FILES = "_val.csv"
_LETTERS = "ABCDEFGHIJ"
_MAX_FILE = 1 << 28
_KEY = "EVALSCOPE_API_KEY"
"""Variable that EvalScope reads a key from (models/openai_compatible.py), where none stands in its arguments."""
_NOWHERE = "http://127.0.0.1:9"
"""A proxy that nobody is: whatever is asked besides the server is refused at once."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
_DONE = re.compile(r"Evaluating\[[\w@-]{1,80}\]: +(\d{1,3})%", re.ASCII)
_TENTH = 10


@dataclass(frozen=True)
class Questions:
    """Questions of one's own: files `NAME_val.csv` with the columns question, A, B, … and answer."""

    folder: Path
    counts: Mapping[str, int]
    """By name of a file how many."""

    @property
    def count(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True)
class Asking:
    """How the questions are asked."""

    answer_tokens: int
    at_once: int

    def check(self) -> None:
        """Refuse what nothing can be asked with.

        Raises:
            InputError: a number is not positive.
        """
        for name, most in (("answer_tokens", 1 << 17), ("at_once", 1 << 10)):
            count = getattr(self, name)
            if type(count) is not int or not 1 <= count <= most:
                raise InputError(f"{name} is {count!r}; give a whole number from 1 to {most}")


def questions_in(folder: Path) -> Questions:
    """The questions of a folder, each seen to have an answer among its choices.

    Raises:
        InputError: it holds none, or one that cannot be judged.
    """
    if not folder.is_dir():
        raise InputError(f"questions: {folder}: is no folder; name the one that holds files NAME{_FILES}")
    files = sorted(folder.glob(f"*{_FILES}"))
    if not files:
        raise InputError(
            f"questions: {folder}: holds no file NAME{_FILES}; write one with the columns question, A, B, … and answer"
        )
    return Questions(folder.absolute(), {path.name.removesuffix(_FILES): _count(path) for path in files})


def _count(path: Path) -> int:
    try:
        if path.stat().st_size > _MAX_FILE:
            raise InputError(f"questions: {path}: is larger than {_MAX_FILE >> 20} MiB; split it")
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            names = rows.fieldnames or []
            choices = [letter for letter in _LETTERS if letter in names]
            is_whole = len(choices) >= 2 and choices == list(_LETTERS[: len(choices)])
            if "question" not in names or "answer" not in names or not is_whole:
                raise InputError(
                    f"questions: {path}:1: the columns are {', '.join(names)[:200] or 'none'}; question, A, B, … and "
                    "answer are needed"
                )
            count = 0
            for count, row in enumerate(rows, 1):  # noqa: B007 - the last one is how many there are
                if not row["question"] or row["answer"] not in choices:
                    raise InputError(
                        f"questions: {path}:{rows.line_num}: has no question, or an answer that is none of "
                        f"{', '.join(choices)}"
                    )
    except OSError as error:
        raise InputError(f"questions: {path}: {error.strerror}; name files that can be read") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"questions: {path}: cannot be read as CSV in UTF-8 ({error}); write it again") from None
    if not count:
        raise InputError(f"questions: {path}: holds no question below its first line")
    return count


def served_name(one: Subject) -> str:
    """The name by which a server's model is asked for."""
    names = one.flags.get("served_model_name")
    first = names[0] if isinstance(names, list) and names else names
    return first if isinstance(first, str) and first else one.model or ""


def folder_of(place: Path, name: str) -> Path:
    """Where EvalScope writes what it finds of a server."""
    return place / f"evaluated-{name}"


def evaluated(found: EvaluationResults, name: str, one: Subject, folder: Path) -> Evaluated:
    """What a server came to on all of the questions."""
    whole = next((each for each in found.scores if each.subset is None), None)
    return Evaluated(
        name=name,
        served=served_name(one),
        questions=None if whole is None else whole.questions,
        right=None if whole is None else whole.value,
        folder=str(folder),
    )


def evaluate(
    parts: OpenParts,
    one: Subject,
    name: str,
    *,
    questions: Questions,
    asking: Asking,
    place: Path,
    bounds: Bounds,
    say: Callable[[str], None],
    is_gone: Callable[[], bool],
    is_over: Callable[[], bool],
) -> Link:
    """Ask a server that runs all of the questions; EvalScope's report goes below `place`.

    Args:
        parts: The Python that has EvalScope.
        one: The command that started the server.
        name: "float" or "quantised".
        questions: What is asked.
        asking: How.
        place: Folder for the log and the report.
        bounds: Time and memory that it may take.
        say: Says how far it is.
        is_gone: Whether the server is not there any more.
        is_over: Whether it is not to go on, asked several times a second.
    """
    target, told, out = one.target, _Told(name, say), folder_of(place, name)
    sizes = {"max_tokens": asking.answer_tokens, "temperature": 0, "seed": 0}
    # A model that thinks would spend its few tokens on that; a template that knows no such switch takes no notice.
    generation = {**sizes, "extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}
    dataset = {DATASET: {"local_path": str(questions.folder), "subset_list": list(questions.counts)}}
    words = [
        *(parts.python, "-P", "-m", "evalscope.cli.cli", "eval", "--model", served_name(one), "--model-id", name),
        *("--api-url", f"{target.place}/v1", "--api-key", "" if target.key else "EMPTY", "--eval-type", "openai_api"),
        *("--datasets", DATASET, "--dataset-args", json.dumps(dataset, ensure_ascii=False)),
        *("--generation-config", json.dumps(generation), "--eval-batch-size", f"{asking.at_once}", "--seed", "0"),
        *("--work-dir", str(out), "--no-timestamp"),
    ]
    proxies = {form: _NOWHERE for each in _PROXIES for form in (each, each.upper())}
    around = dict.fromkeys(("no_proxy", "NO_PROXY"), f"{target.host},127.0.0.1,localhost")
    environment = {**one.environment, **_OFFLINE, **proxies, **around, **({_KEY: target.key} if target.key else {})}
    say(f"evaluate {name}: {questions.count} questions to {target.place}")
    program = limited.run(
        words,
        place / f"evaluate-{name}.log",
        bounds,
        environment=environment,
        known=one.known,
        heard=told.hear,
        is_cancelled=is_over,
    )
    files = (program.log, *([str(out)] if out.is_dir() else []))
    if not program.why:
        return Link(f"evaluate-{name}", Result.PASSED, f"{questions.count} questions", program.seconds, program, files)
    why = f"the {name} server was gone before EvalScope was through" if is_gone() else f"EvalScope: {program.why}"
    return Link(f"evaluate-{name}", Result.FAILED, why, program.seconds, program, files)


class _Told:
    """What EvalScope says of how far it is."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self._name, self._say, self._tenth = name, say, 0

    def hear(self, line: str) -> None:
        """Take one line of it."""
        match = _DONE.search(line)
        if match is not None and (tenth := int(match[1]) // _TENTH) > self._tenth:
            self._tenth = tenth
            self._say(f"evaluate {self._name}: {tenth * _TENTH} %")
