"""A baseline: the issues of a repository that are known, so that only new ones are reported."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vllm_runbooks.core.display import one_line
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.lint.records import Issue

_LARGEST = 20_000_000
_LONGEST = 120
"""Characters of an issue's text in the baseline."""
_FORMAT = 1
_REMEDY = "write it again with --write-baseline"

Known = Mapping[str, Counter[tuple[str, str]]]
"""Rule and text of the known issues, by file."""


def _entry(issue: Issue) -> tuple[str, str]:
    """Rule and text of an issue: a moved line is the same issue."""
    return issue.rule, one_line(issue.text)[:_LONGEST]


def relative(name: str, baseline: Path) -> str:
    """Name of a file, seen from the folder of the baseline."""
    folder = os.path.abspath(baseline.parent)  # noqa: PTH100 - links stay links
    return Path(os.path.relpath(os.path.abspath(name), folder)).as_posix()  # noqa: PTH100 - as above


def written(issues: Mapping[str, Iterable[Issue]], baseline: Path) -> str:
    """The text of a baseline with the issues of each file."""
    files: dict[str, list[dict[str, Any]]] = {}
    for name, found in issues.items():
        counts = Counter(map(_entry, found))
        rows = [{"rule": rule, "text": text, "count": count} for (rule, text), count in sorted(counts.items())]
        files |= {relative(name, baseline): rows} if rows else {}
    document = {"format": _FORMAT, "files": dict(sorted(files.items()))}
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def read(path: Path) -> Known:
    """Read a baseline.

    Raises:
        InputError: It is missing or broken.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError(f"{path}: is too large for a baseline; {_REMEDY}")
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != _FORMAT:
            raise InputError(f"{path}: is a baseline of another version; {_REMEDY}")
        return {
            str(name): Counter({(str(row["rule"]), str(row["text"])): int(row["count"]) for row in rows})
            for name, rows in document["files"].items()
        }
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); {_REMEDY}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path}: is not a baseline; {_REMEDY}") from None


def without_known(issues: Iterable[Issue], known: Counter[tuple[str, str]]) -> tuple[Issue, ...]:
    """The issues that a baseline does not have: of equal ones as many as it counts are left out."""
    left, remaining = Counter(known), []
    for issue in issues:
        entry = _entry(issue)
        if left[entry] > 0:
            left[entry] -= 1
        else:
            remaining.append(issue)
    return tuple(remaining)
