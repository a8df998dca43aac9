"""Recognize an exception that only a bug in vLLM or a kernel library raises."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.catalog.tables import LazyTable
from vllm_runbooks.core.record_forms import Authored
from vllm_runbooks.core.records import Finding, Frame, Level, Quote, RaisedException, Role, ServerRun, Traceback
from vllm_runbooks.diagnosis.causes import Diagnosis, found_by_comparison

SYMPTOM = "upstream.internal_error"
_REPOSITORY = "vllm-project/vllm"
_UNINTENDED = frozenset({
    "IndexError", "NameError", "OverflowError", "RecursionError", "TypeError", "UnboundLocalError", "ZeroDivisionError",
})  # fmt: skip
"""Exceptions of Python itself, which no check of a user's setting raises."""
_UNCHECKED = re.compile(
    r"(?:too many|not enough) values to unpack|.{1,80} is not in (?:list|deque|tuple)|list\.remove\(x\)|"
    r"(?:min|max)\(\) (?:arg|iterable argument) is|dictionary changed size|generator already executing|"
    r"split_with_sizes expects|mat1 and mat2 |The size of tensor a |Sizes of tensors must match|shape '\[|"
    r"expected scalar type |expected \w+ (?:and|to have) .{0,40}same dtype|.{1,40} must have the same dtype|"
    r"Expected all tensors to be on the same device|Tensors must have same number of dimensions"
)
"""Messages of ValueError and RuntimeError by which Python and torch reject what the calling code passes."""
_OWN_PROCESS = re.compile(r"EngineCore|Worker|ApiServer|APIServer|DPCoordinator")
"""Names of vLLM's processes."""
_VARIABLE = re.compile(r"torch\.Size\(.*?\)|[\[({][^\])}]{0,200}[\])}]?|\S*/\S*|\S*\d\S*|['\"]{2,}")
"""Parts of a message that differ from launch to launch."""
_MAX_KEY_WORDS = 2
"""A KeyError with more words is a sentence that someone wrote, not a key."""
_MIN_PHRASE = 12
_MAX_PHRASE = 90


@dataclass(frozen=True)
class CodeOwner(Authored):
    """Row of the table `internal_errors`: some code, its component and its feature."""

    frames: tuple[str, ...] = ()
    """Patterns of a frame's path."""
    words: tuple[str, ...] = ()
    """Patterns of an exception's message."""
    functions: tuple[str, ...] = ()
    """Patterns of a frame's function, the whole name."""
    component: str = ""
    """Name of the component that contains the code; empty if its errors are not internal."""
    repository: str = _REPOSITORY
    """GitHub repository of the component."""
    any_error: bool = False
    """Whether any type of exception from this code is internal."""
    passed: bool = False
    """Whether its caller decides."""
    feature: str = ""
    """Capture that selects remedies."""

    def contains(self, frame: Frame) -> bool:
        return any(_compiled(pattern).search(frame.posix_path) for pattern in self.frames) or any(
            _compiled(pattern).fullmatch(frame.function) for pattern in self.functions
        )

    def is_named(self, raised: RaisedException) -> bool:
        """Whether the message names the code."""
        return any(_compiled(pattern).search(raised.message) for pattern in self.words)


OWNERS = LazyTable("internal_errors", CodeOwner)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def internal_error(starts: Sequence[ServerRun], diagnosis: Diagnosis, catalog: Catalog) -> Finding | None:
    """The finding that the first unexplained exception is internal; None if it is not, or a cause is known."""
    cause, quote, symptom = diagnosis.root_cause, diagnosis.first_error, catalog.symptoms.get(SYMPTOM)
    if quote is None or symptom is None or (cause and catalog.symptoms[cause.symptom].role is Role.CAUSE):
        return None
    found = quoted_exception(starts, quote)
    if found is None:
        return None
    traceback, place = found
    raised = traceback.chain[place]
    owner, frame = _owner(traceback, raised)
    if owner is None or not owner.component or not (owner.any_error or _is_unintended(raised)):
        return None
    captures = {
        "component": owner.component,
        "query": _query(raised, owner, frame),
        **({"frame": _place(frame)} if frame else {}),
        **dict.fromkeys(features(raised), "yes"),
    }
    return found_by_comparison(symptom, captures, (quote,), Level.PROBABLE if frame else Level.POSSIBLE)


def quoted_exception(starts: Sequence[ServerRun], quote: Quote) -> tuple[Traceback, int] | None:
    """The traceback that contains the exception of a quote, and the exception's place in its chain."""
    line = quote.file, quote.line
    return next(
        (
            (traceback, place)
            for start in starts
            for traceback in start.tracebacks
            for place, raised in enumerate(traceback.chain)
            if (raised.quote.file, raised.quote.line) == line
        ),
        None,
    )


def _place(frame: Frame) -> str:
    """A frame by its path inside the package."""
    return f"{frame.posix_path.rpartition('-packages/')[2]}:{frame.line} {frame.function}"


def _is_unintended(raised: RaisedException) -> bool:
    kind = raised.type.rpartition(".")[2]
    if kind in ("AssertionError", "NotImplementedError"):
        return not raised.message
    if kind == "AttributeError":
        return "has no attribute" in raised.message
    if kind == "KeyError":
        return len(raised.message.split()) <= _MAX_KEY_WORDS
    if kind in ("ValueError", "RuntimeError"):
        return _UNCHECKED.match(raised.message) is not None
    return kind in _UNINTENDED


def _owner(traceback: Traceback, raised: RaisedException) -> tuple[CodeOwner | None, Frame | None]:
    """The code that raised an exception, with its frame; without frames, vLLM if one of its processes logged it."""
    named = next((row for row in OWNERS.values() if row.component and row.is_named(raised)), None)
    for frame in reversed(raised.frames):
        row = next((row for row in OWNERS.values() if row.contains(frame)), None)
        if row is None or not row.passed:
            return named or row, frame
    if named is None and not raised.frames and _OWN_PROCESS.match(traceback.process.name or ""):
        named = OWNERS["vllm"]
    return named, None


def features(raised: RaisedException) -> Iterator[str]:
    """Captures for the features whose code or words an exception contains."""
    for row in OWNERS.values():
        if row.feature and (row.is_named(raised) or any(row.contains(frame) for frame in raised.frames)):
            yield row.feature


def _query(raised: RaisedException, owner: CodeOwner, frame: Frame | None) -> str:
    """Words to search a component's issues for: the longest constant part of the message, else the place."""
    parts = (part.strip(" ,.:;=`") for part in _VARIABLE.split(raised.message))
    phrase = _cut(max(parts, key=len).replace('"', "'"))
    kind = raised.type.rpartition(".")[2]
    words = [f"repo:{owner.repository}", "is:issue", kind]
    if len(phrase) >= _MIN_PHRASE:
        words.append(f'"{phrase}"')
    elif frame:
        words += [frame.posix_path.rpartition("/")[2], frame.function]
    elif raised.message:
        words.append(f'"{_cut(raised.message.replace(chr(34), chr(39)))}"')
    return " ".join(words)


def _cut(phrase: str) -> str:
    """The beginning of a phrase, in whole words."""
    return phrase if len(phrase) <= _MAX_PHRASE else phrase[:_MAX_PHRASE].rpartition(" ")[0]
