"""Records of authored files: symptoms, rules, policies, entrances and printed lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from vllm_runbooks.core.record_forms import Authored
from vllm_runbooks.core.records import Edit, IssueSeverity, LookIn, Role, Severity


@dataclass(frozen=True)
class Example(Authored):
    """A text that shows a message, as the software prints it."""

    text: str
    source: str
    """Source of the example: a recorded case, one of our own runs, or the message template
    (release, file, line) it is filled from."""
    vllm: str | None = None
    """Release that prints it; None if the message is not vLLM's."""
    captures: dict[str, str] = field(default_factory=dict)
    """Captures expected, as printed."""


@dataclass(frozen=True)
class NearMiss(Authored):
    """A similar text that must not match."""

    text: str
    why: str


@dataclass(frozen=True)
class Signature(Authored):
    """One wording of a symptom in a log."""

    pattern: str
    """Regular expression in the common subset of RE2 and `re`; a blank matches any blanks or none.
    In YAML a list of pieces is joined, and `@name` is a pattern of `patterns.yaml`."""
    origin: str = "vllm"
    """Component that prints it: vllm, torch, cuda, nccl, ray, python, uvicorn, shell, kernel,
    wrapper or toolchain."""
    frames: tuple[str, ...] = ()
    """Functions (regular expressions, whole name), one of which must be in the traceback that ends
    here; with a colon `file:function`, with a slash `path:function`. Named groups become
    captures."""
    innermost: bool = False
    """Whether one of `frames` must be the frame that raised the exception, not one of its callers."""
    phases: tuple[str, ...] = ()
    """Startup phases in which the line counts; empty for all."""
    exception: bool = False
    """Whether the line must be an exception's own line."""


@dataclass(frozen=True)
class Condition(Authored):
    """A condition that is true when the symptom is the cause."""

    says: str = ""
    """Text of the condition; `{name}` is replaced by a capture or fact. A remedy's needs none."""
    argument: str | None = None
    """Argument (argparse destination) that is tested."""
    fact: str | None = None
    """Fact that is tested."""
    capture: str | None = None
    """Capture that is tested, or two of them divided, as in need_gib/have_gib."""
    outcome: tuple[str, ...] = ()
    """Outcomes for which the condition is true."""
    phase: tuple[str, ...] = ()
    """Startup phases, one of which the deciding line must belong to."""
    equals: str | int | float | bool | None = None
    contains: tuple[str, ...] = ()
    """Texts, one of which the value must contain, in upper or lower case."""
    since: str | None = None
    """First release of vLLM for which the condition is true."""
    until: str | None = None
    """First release of vLLM for which it is no longer true."""
    at_least: float | None = None
    at_most: float | None = None
    lacks: str | None = None
    """Key that the argument (a JSON object) must lack, or set to another value than 0."""
    is_first: bool = False
    """True if no other failure precedes the line in the text."""
    is_last: bool = False
    """True if the process that wrote the line wrote nothing after it."""
    required: bool = False
    """A symptom is discarded if its required condition is false, or its required capture is
    missing."""


@dataclass(frozen=True)
class RemedyText(Authored):
    """A remedy, as authored."""

    title: str
    cost: str
    edits: tuple[Edit, ...] = ()
    needs: tuple[str, ...] = ()
    """Captures or facts without which the remedy is not offered."""
    when: tuple[Condition, ...] = ()
    """Conditions that must all be true for the remedy to be offered: a log that does not show one is not enough."""
    unless: tuple[Condition, ...] = ()
    """Conditions under which the remedy does not help: it is not offered if one of them is true."""


@dataclass(frozen=True)
class Policy(Authored):
    """Steps to try one after another, offered only on request by name. One YAML file each."""

    id: str
    """Words with dashes; the name of the file and of the policy."""
    title: str
    why: str
    """In plain words: the steps, and when to use them or not."""
    steps: tuple[RemedyText, ...]
    """In the order in which they are tried."""
    helps: tuple[str, ...]
    """Symptoms or classes that it may fix."""
    refused_for: dict[str, str]
    """Symptoms or classes for which no step is offered, each with the reason."""


@dataclass(frozen=True)
class Verified(Authored):
    """When a person or a recorded run last saw the symptom."""

    date: str
    vllm: str | None = None


@dataclass(frozen=True)
class RemedyWords(Authored):
    """A remedy in another language."""

    title: str
    cost: str


@dataclass(frozen=True)
class SymptomTexts(Authored):
    """A symptom's texts in another language; missing ones are shown in English with a mark.

    A list has as many entries as the English one, in its order.
    """

    of: dict[str, str] = field(default_factory=dict)
    """Field to a digest of the English text that was translated; `catalog translations --stamp` writes it."""
    title: str = ""
    cause: str = ""
    explanation: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    """Texts of the conditions."""
    do_first: str = ""
    confirm: str = ""
    refute: str = ""
    look_in: LookIn | None = None
    remedies: tuple[RemedyWords, ...] = ()


@dataclass(frozen=True)
class RuleTexts(Authored):
    """A rule's texts in another language, as `SymptomTexts`."""

    of: dict[str, str] = field(default_factory=dict)
    """Field to a digest of the English text that was translated; `catalog translations --stamp` writes it."""
    title: str = ""
    message: tuple[str, ...] = ()
    why: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Symptom(Authored):
    """A symptom: signatures, meaning and remedies. One YAML file each."""

    id: str
    """`<class>` or `<class>.<finer>`; the file's name."""
    title: str
    """The problem in a few words, never the fix."""
    severity: Severity
    signatures: tuple[Signature, ...]
    examples: tuple[Example, ...]
    near_misses: tuple[NearMiss, ...]
    cause: str
    """In plain words: what the software does and why it fails here."""
    explanation: tuple[str, ...]
    """Sentences with this log's numbers, `{name}`; one that needs an unknown number is left out."""
    do_first: str
    confirm: str
    """How to verify the cause: what to look at or run, and the expected result."""
    refute: str
    """Result that rules this cause out."""
    verified: Verified
    role: Role = Role.CAUSE
    found_by: str = "lines"
    """"lines" of a log, or "comparison" of available data, without signatures and examples."""
    instead_of: tuple[str, ...] = ()
    """Ids of less specific symptoms that this one replaces if both match the same line."""
    companions: tuple[Signature, ...] = ()
    """Lines that add evidence and captures if the symptom was found."""
    conditions: tuple[Condition, ...] = ()
    remedies: tuple[RemedyText, ...] = ()
    """The one that fits best first."""
    look_in: LookIn | None = None
    runbook: str | None = None
    references: tuple[str, ...] = ()
    translations: dict[str, SymptomTexts] = field(default_factory=dict)
    """Language to these texts in it; see docs/languages.md."""

    @property
    def class_(self) -> str:
        """The class: the first two words of the id."""
        return ".".join(self.id.split(".")[:2])


@dataclass(frozen=True)
class RuleExample(Authored):
    """A text that breaks a rule: a test of the rule and an example on its page."""

    text: str
    """A script, file or command of our own."""
    at: str
    """Text that the issue points at."""
    vllm: str | None = None
    """Release that it is checked for; None for the newest in the catalog."""
    gpus: str | None = None
    file: str = ""
    """File name, if the name determines the format."""
    says: str = ""
    """Words that the message must contain."""
    fixed: str | None = None
    """The whole text after `--fix`; None if this issue has no fix."""


@dataclass(frozen=True)
class RuleNearMiss(Authored):
    """A similar text for which the rule must not report an issue."""

    text: str
    why: str
    vllm: str | None = None
    gpus: str | None = None
    file: str = ""


@dataclass(frozen=True)
class Rule(Authored):
    """Something that is wrong with a command, script or manifest. One YAML file each."""

    id: str
    """`<group>.<words-with-dashes>`; the name of the file."""
    title: str
    """The problem in a few words, never the fix."""
    severity: IssueSeverity
    message: tuple[str, ...]
    """Sentences with values as `{name}`; a sentence with an unknown value is left out."""
    why: str
    """In plain words: what the shell or vLLM does with it, and how that differs from the
    intention."""
    examples: tuple[RuleExample, ...]
    near_misses: tuple[RuleNearMiss, ...]
    verified: Verified
    is_style: bool = False
    """Whether it is about a spelling that works, which only the strict profile reports."""
    fix: str | None = None
    """Action of `--fix`; None if there is none."""
    values: dict[str, Any] = field(default_factory=dict)
    """The table that the rule looks things up in."""
    references: tuple[str, ...] = ()
    translations: dict[str, RuleTexts] = field(default_factory=dict)
    """Language to these texts in it; see docs/languages.md."""


@dataclass(frozen=True)
class Entrance(Authored):
    """An observation of a user who needs help, in their words, with its target."""

    id: str
    """Lower-case words with dashes."""
    sees: str
    """The observation, in the words of a user who does not know the cause."""
    says: str
    """Possible causes, and how the project helps; one or two sentences."""
    lines: tuple[str, ...] = ()
    """Printed lines that users search for, or their beginnings; each is in an example of one of
    `symptoms`."""
    symptoms: tuple[str, ...] = ()
    """Ids of symptoms, or of groups of them (`oom`, `dist.peer_lost`), that look like this."""
    runbook: str | None = None
    """Runbook for it."""
    commands: tuple[str, ...] = ()
    """Commands of ours that answer it, the first one first."""
    page: str | None = None
    """Page of the documentation that explains the answer, without its ending."""

    def leads_to(self, symptom: str) -> bool:
        """Whether a symptom matches this observation."""
        return any(symptom == name or symptom.startswith(f"{name}.") for name in self.symptoms)


@dataclass(frozen=True)
class LineFormat(Authored):
    """A line that vLLM prints during startup or serving: its figures and its meaning."""

    id: str
    patterns: tuple[str, ...]
    """Wordings of different releases. Named groups are figures (unit in the name) or words."""
    examples: tuple[Example, ...]
    phase: str | None = None
    """Startup phase that this line belongs to."""
    event: str | None = None
    """Event that the line proves: begin, engine, engine_ready, opening, ready, served, stopping,
    failed, waiting, hung, goes_on or wrapper_ready."""
    duration: str | None = None
    """Figure that is the printed duration of the phase."""
    arguments: bool = False
    """The text after the match is the arguments."""
    config: bool = False
    """The text after the match is the engine's configuration."""
    quoted: bool = False
    """The line contains user input: nothing else in it counts."""
    bare: bool = False
    """The line counts only if no logger wrote it."""
    whole: bool = False
    """The line counts only if the match is the whole line."""
    counts: Literal["failed_requests"] | None = None
    """Field of `MinuteCounts` that counts such lines of a running server."""
    routine: tuple[str, ...] = ()
    """Expressions of Python's `re` for the whole text of lines that a busy server prints without end; they are read in
    bulk. One that ends in `.*` contains user text."""


PHASES = ("configure", "engine", "load", "encoder", "compile", "profile", "kv_cache", "capture", "warm_up", "serve")
"""Startup phases in order; processes that lag behind do not reset it."""
