"""Find the result files of one model's evaluation in a file or folder, and read them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.accuracy import reports
from vllm_runbooks.edge10.accuracy.records import EvaluationResults
from vllm_runbooks.edge10.accuracy.reports import ResultFile

_MAX_FILES = 4_000
_MAX_VISITED = 100_000
_REPORTS, _REVIEWS, _CONFIGS = "reports", "reviews", "configs"


def read(path: Path) -> EvaluationResults:
    """The results in a file or folder; a report in EvalScope's work folder with its answers; raises InputError."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; use a report or the work folder of an evaluation")
    if not path.is_file() and not path.is_dir():
        raise InputError(f"{path}: is not a regular file; use a report or the work folder of an evaluation")
    place = path.resolve()
    is_report = path.is_file() and path.suffix == ".json" and place.parent.parent.name == _REPORTS
    model = place.parent if is_report else place
    if path.is_file() and not is_report:
        return reports.read([ResultFile("", _content(path))], str(path))
    if model.parent.name != _REPORTS:
        return reports.read(_files_of_folder(path), str(path))
    root = model.parent.parent
    reviews = _listed(root / _REVIEWS / model.name)
    files = [file for file in reviews if not is_report or file.name.startswith(f"{place.stem}_")]
    files += [place] if is_report else _listed(model)
    return reports.read(_contents(_result_files([*files, *_listed(root / _CONFIGS)], root), root), str(path))


def distinct(first: Path, second: Path) -> None:
    """Check that two results are different files or folders; raises InputError."""
    if first.exists() and second.exists() and first.samefile(second):
        raise InputError(
            f"{first} and {second}: are the same; use the float model's results, then the quantized model's"
        )


def _files_of_folder(path: Path) -> Iterator[ResultFile]:
    folder = path.resolve()
    if not (folder / _REPORTS).is_dir():
        runs = sorted(place.parent for place in _walk(folder) if place.name == _REPORTS and place.is_dir())
        if len(runs) > 1:
            some = ", ".join(str(run.relative_to(folder)) for run in runs[-4:])
            raise InputError(f"{path}: contains {len(runs)} runs (the last: {some}); use the folder of one run")
        folder = runs[0] if runs else folder
    files = _result_files(_walk(folder), folder)
    # Reports that were copied out of their work folder are recognised by their contents.
    files = files or [file for file in _listed(folder) if file.suffix in (".json", ".jsonl")]
    # VLMEvalKit links its results to the folder above.
    return _contents(list({file.resolve(): file for file in files}.values()), folder)


def _result_files(files: Iterable[Path], root: Path) -> list[Path]:
    return [file for file in files if reports.is_wanted(file.relative_to(root).as_posix())]


def _walk(folder: Path) -> Iterator[Path]:
    visited = 0
    for name, folders, files in os.walk(folder):
        folders.sort()
        for entry in (*folders, *sorted(files)):
            visited += 1
            if visited > _MAX_VISITED:
                raise InputError(
                    f"{folder}: contains more than {_MAX_VISITED:,} files; use the folder of one evaluation"
                )
            yield Path(name) / entry


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _contents(files: list[Path], root: Path) -> Iterator[ResultFile]:
    files = [file for file in files if file.is_file()]
    if len(files) > _MAX_FILES:
        raise InputError(f"{root}: contains more than {_MAX_FILES:,} result files; use the folder of one evaluation")
    if not files:
        raise InputError(f"{root}: contains no results; use a report or the work folder of an evaluation")
    for file in files:
        yield ResultFile(file.relative_to(root).as_posix(), _content(file))


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(reports.MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; check that it exists and is readable") from None
