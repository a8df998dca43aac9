"""Records of a chain on open parts: a model is quantised, and it and the float one are served and evaluated in turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_runbooks.edge10.accuracy.records import AccuracyComparison
from vllm_runbooks.probe.starts import Guarded, LaunchResult

LINKS = ("parts", "quantise", "serve", "evaluate-float", "evaluate-quantised", "compare")
"""The steps in their order; "serve" comes before each evaluation."""


@dataclass(frozen=True)
class OpenParts:
    """The Python that has the open parts."""

    python: str
    versions: Mapping[str, str | None]
    """By distribution; None if it is not installed."""


@dataclass(frozen=True)
class ProgramRun:
    """A program of the chain, and its use of time and memory."""

    command: str
    """With secrets redacted."""
    status: int | None
    """Exit status, negative for a signal; None if it was ended or could not be run."""
    ending: str
    """Description such as "ended with exit status 1"."""
    seconds: float
    cpu_s: float
    """CPU time of all its processes, sampled twice a second."""
    memory_gib: float
    """Peak of all its processes together, sampled twice a second."""
    log: str
    """File with its output."""
    stopped_by: str | None = None
    """Signal from outside, as "SIGINT"."""
    reason: str = ""
    """Why it failed; empty for exit status 0."""


@dataclass(frozen=True)
class ChainLink:
    """One link of the chain."""

    name: str
    """One of `LINKS`."""
    result: LaunchResult
    message: str
    """One line: the result, or the reason for a missing one."""
    seconds: float | None = None
    """Wall clock; None if not measured."""
    program: ProgramRun | None = None
    """None if it runs no program."""
    files: tuple[str, ...] = ()
    """Files that it wrote, complete or not."""


@dataclass(frozen=True)
class Quantised:
    """A quantised model in a folder."""

    folder: str
    method: str
    """"awq" or "gptq"; empty if a given model's configuration does not define it."""
    scheme: str
    """Name in llm-compressor; empty if the model was given."""
    samples: int | None
    """Texts that it was calibrated with."""
    sample_tokens: int | None
    """Tokens of all texts."""
    float_bytes: int | None
    """Bytes of the float model's tensors."""
    quantised_bytes: int | None
    copied: tuple[str, ...] = ()
    """Files of the float model that were copied next to the weights."""
    lacks: tuple[str, ...] = ()
    """Missing and damaged files; empty if it is complete."""


@dataclass(frozen=True)
class OpenChain:
    """The whole chain."""

    model: str
    """Folder of the float model."""
    links: tuple[ChainLink, ...]
    parts: OpenParts | None = None
    quantised: Quantised | None = None
    servers: tuple[Guarded, ...] = ()
    """Supervised launches, the float model's first; without those that were not reached."""
    accuracy: AccuracyComparison | None = None
    """The loss with its interval."""
    no_accuracy_reason: str = ""
    """Why there is no accuracy."""
    needs: tuple[str, ...] = field(default=())
    """Distributions that have to be installed first."""
    stopped_by: str | None = None
    """Signal that ended it."""
    folder: str | None = None
