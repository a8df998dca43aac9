"""Records of a chain on open parts: a model quantised, served beside the float one, both evaluated; frozen dataclasses.

Units stand in names as in `core.records`; `None` means unknown, or that it did not come to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_runbooks.edge10.accuracy.records import JudgedAccuracy
from vllm_runbooks.probe.starts import Guarded, Result

LINKS = ("parts", "quantise", "serve", "evaluate-float", "evaluate-quantised", "judge")
"""What is done, in this order; servers that run one after the other are both told in "serve"."""


@dataclass(frozen=True)
class OpenParts:
    """The Python that the open parts run in."""

    python: str
    versions: Mapping[str, str | None]
    """By distribution; None: it is not installed there."""


@dataclass(frozen=True)
class Program:
    """A program that did one link of the chain, and what it took."""

    command: str
    """Secrets replaced."""
    status: int | None
    """Exit status, below 0 of a signal; None: it was ended, or could not be run."""
    ending: str
    """In words, as in "ended with exit status 1"."""
    seconds: float
    cpu_s: float
    """Of all of its processes, as they were seen twice a second."""
    memory_gib: float
    """The most that they had at once, as it was seen twice a second."""
    log: str
    """File with what it printed."""
    stopped_by: str | None = None
    """Signal that came from outside, as "SIGINT"."""
    why: str = ""
    """Why it came to nothing; empty: it ended with exit status 0."""


@dataclass(frozen=True)
class Link:
    """One link of the chain."""

    name: str
    """Of `LINKS`."""
    result: Result
    says: str
    """One line: what it came to, or why it did not."""
    seconds: float | None = None
    """Of the clock on the wall; None: it was not measured."""
    program: Program | None = None
    """None: no program of its own was run for it."""
    files: tuple[str, ...] = ()
    """What it left, whole or not."""


@dataclass(frozen=True)
class Quantised:
    """A quantised model, as it lies in a folder."""

    folder: str
    method: str
    """"awq" or "gptq"; empty: it was given, and its configuration does not tell."""
    scheme: str
    """As llm-compressor names it; empty: the model was given."""
    samples: int | None
    """Texts that it was calibrated with."""
    sample_tokens: int | None
    """Tokens of all of them."""
    float_bytes: int | None
    """Of the float model's tensors."""
    quantised_bytes: int | None
    copied: tuple[str, ...] = ()
    """Files of the float model that were put beside the weights."""
    lacks: tuple[str, ...] = ()
    """What is missing or damaged in the folder; empty: it is whole."""


@dataclass(frozen=True)
class Evaluated:
    """What one server came to on the questions."""

    name: str
    """"float" or "quantised"."""
    served: str
    """Name of the model that was asked for."""
    questions: int | None
    """That EvalScope's report counts."""
    right: float | None
    """Share of them that was answered right, as the report has it."""
    folder: str
    """Of EvalScope's report."""


@dataclass(frozen=True)
class OpenChain:
    """The whole of it."""

    model: str
    """Folder of the float model."""
    links: tuple[Link, ...]
    parts: OpenParts | None = None
    quantised: Quantised | None = None
    servers: tuple[Guarded, ...] = ()
    """The guarded starts, the float one first; one that was not reached lacks."""
    evaluated: tuple[Evaluated, ...] = ()
    accuracy: JudgedAccuracy | None = None
    """What was lost, with its interval."""
    why_none: str = ""
    """Why the accuracy was not judged."""
    needs: tuple[str, ...] = field(default=())
    """What has to be installed before any of it can be done; empty: all is there."""
    stopped_by: str | None = None
    """Signal that ended it."""
    folder: str | None = None
