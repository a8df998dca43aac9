"""Results of an evaluation on this disk: which files of a folder are one model's, and what they tell."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.accuracy import reports
from vllm_runbooks.edge10.accuracy.records import EvaluationResults
from vllm_runbooks.edge10.accuracy.reports import Given

_MAX_FILES = 4_000
_MAX_VISITED = 100_000
_REPORTS, _REVIEWS, _CONFIGS = "reports", "reviews", "configs"
_PREFERRED = (".tsv", ".csv", ".json", ".jsonl", ".xlsx")
"""Of files with the same name, which VLMEvalKit writes in several forms, the first is read."""


def read(path: Path) -> EvaluationResults:
    """The results in a file or folder: of a report that lies in EvalScope's work folder with its answers.

    Raises:
        InputError: there are none, or those of several runs or models.
    """
    if path.is_dir():
        return reports.read(_of_folder(path), str(path))
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder; name a report, or the work folder of an evaluation")
    if not path.is_file():
        raise InputError(f"{path}: is no plain file; name a report, or the work folder of an evaluation")
    if path.suffix == ".json" and path.resolve().parent.parent.name == _REPORTS:
        return reports.read(_beside(path.resolve()), str(path))
    return reports.read([Given("", _content(path))], str(path))


def distinct(first: Path, second: Path) -> None:
    """See that two results are not the same file or folder.

    Raises:
        InputError: they are.
    """
    if first.exists() and second.exists() and first.samefile(second):
        raise InputError(
            f"{first} and {second}: are the same; name the float model's results, then the quantised one's"
        )


def _beside(report: Path) -> Iterator[Given]:
    """A report of a work folder, its answers and the task's settings."""
    root, model = report.parent.parent.parent, report.parent.name
    found = [report]
    for folder, begins, ending in (
        (root / _REVIEWS / model, f"{report.stem}_", ".jsonl"),
        (root / _CONFIGS, "task_config", ".yaml"),
    ):
        found += [each for each in _listed(folder) if each.name.startswith(begins) and each.suffix == ending]
    yield from _given(found, root)


def _of_folder(path: Path) -> Iterator[Given]:
    folder = path.resolve()
    if folder.name == _REPORTS and not (folder / _REPORTS).is_dir():
        folder = folder.parent
    if folder.name == _REVIEWS and (folder.parent / _REPORTS).is_dir():
        folder = folder.parent
    if folder.name == _REVIEWS:
        return _given(_of(_walked(folder), folder.parent), folder.parent)
    if folder.parent.name in (_REPORTS, _REVIEWS):
        root, model = folder.parent.parent, folder.name
        found = [
            *_listed(root / _REPORTS / model), *_listed(root / _REVIEWS / model), *_listed(root / _CONFIGS),
        ]  # fmt: skip
        return _given(_of(found, root), root)
    if not (folder / _REPORTS).is_dir():
        runs = sorted(each.parent for each in _walked(folder) if each.name == _REPORTS and each.is_dir())
        if len(runs) > 1:
            some = ", ".join(str(each.relative_to(folder)) for each in runs[-4:])
            raise InputError(f"{path}: holds {len(runs)} runs (the last: {some}); name the folder of one")
        folder = runs[0] if runs else folder
    wanted = _of(_walked(folder), folder)
    # Reports that were copied out of their work folder are told by what stands in them.
    wanted = wanted or [each for each in _listed(folder) if each.suffix in (".json", ".jsonl")]
    return _given(_once(wanted), folder)


def _of(found: Iterable[Path], root: Path) -> list[Path]:
    """Files whose place below a work folder is that of results."""
    return [each for each in found if reports.is_wanted(each.relative_to(root).as_posix())]


def _walked(folder: Path) -> Iterator[Path]:
    """Files and folders below, in order; links to folders are not followed."""
    visited = 0
    for name, folders, files in os.walk(folder):
        folders.sort()
        for each in (*folders, *sorted(files)):
            visited += 1
            if visited > _MAX_VISITED:
                raise InputError(f"{folder}: holds more than {_MAX_VISITED:,} files; name the folder of one evaluation")
            yield Path(name) / each


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _once(found: list[Path]) -> list[Path]:
    """Each result once, whatever forms and links it has."""
    by_stem: dict[str, Path] = {}
    for each in sorted(found, key=lambda path: (len(path.parts), _rank(path))):
        stem = each.stem if each.stem.endswith("_result") else f"{each.parent.name}/{each.name}"
        by_stem.setdefault(stem, each)
    real = {each.resolve(): each for each in reversed(list(by_stem.values()))}
    return [each for each in by_stem.values() if real[each.resolve()] is each]


def _rank(path: Path) -> int:
    return _PREFERRED.index(path.suffix) if path.suffix in _PREFERRED else len(_PREFERRED)


def _given(found: list[Path], root: Path) -> Iterator[Given]:
    """The files one after the other, as they are asked for."""
    files = [each for each in found if each.is_file()]
    if len(files) > _MAX_FILES:
        raise InputError(f"{root}: holds more than {_MAX_FILES:,} files of results; name the folder of one evaluation")
    if not files:
        raise InputError(f"{root}: holds no results; name a report, or the work folder of an evaluation")
    for each in files:
        yield Given(each.relative_to(root).as_posix(), _content(each))


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(reports.MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; see that it is there and may be read") from None
