"""Records of authored files: symptoms, rules, policies, entrances and printed lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vllm_runbooks.core.record_forms import Authored
from vllm_runbooks.core.records import Edit, IssueSeverity, LookIn, Role, Severity


@dataclass(frozen=True)
class Example(Authored):
    """A text that shows a message, as the software prints it."""

    text: str
    source: str
    """Where it comes from: a recorded case, a run of ours, or the template (release, file, line) it is filled from."""
    vllm: str | None = None
    """Release that prints it so; None where the message is not vLLM's."""
    captures: dict[str, str] = field(default_factory=dict)
    """Captures expected, as printed."""


@dataclass(frozen=True)
class NearMiss(Authored):
    """A text that looks alike and must stay silent."""

    text: str
    why: str


@dataclass(frozen=True)
class Signature(Authored):
    """One wording by which a symptom shows in a log."""

    pattern: str
    """Regular expression in the common subset of RE2 and `re`; a blank stands for any blank space or none. In YAML a
    list of pieces is joined, and `@name` is a pattern of `patterns.yaml`."""
    origin: str = "vllm"
    """Who prints it: vllm, torch, cuda, nccl, ray, python, uvicorn, shell, kernel, wrapper or toolchain."""
    frames: tuple[str, ...] = ()
    """Functions (regular expressions, whole name), one of which must stand in the traceback that ends here; with a
    colon `file:function`, with a slash `path:function`. Named groups become captures."""
    phases: tuple[str, ...] = ()
    """Phases of the start in which the line counts; empty: all."""
    exception: bool = False
    """Whether the line must be an exception's own line."""


@dataclass(frozen=True)
class Condition(Authored):
    """A condition that holds when the symptom is the cause."""

    says: str
    """The condition in words, as shown; `{name}` is replaced by a capture or fact."""
    argument: str | None = None
    """Argument (argparse destination) that is tested."""
    fact: str | None = None
    """Fact that is tested."""
    capture: str | None = None
    """Capture that is tested, or two of them divided, as in need_gib/have_gib."""
    outcome: tuple[str, ...] = ()
    """Outcomes under which the condition holds."""
    phase: tuple[str, ...] = ()
    """Phases of the start, one of which the deciding line must belong to."""
    equals: str | int | float | bool | None = None
    at_least: float | None = None
    at_most: float | None = None
    lacks: str | None = None
    """Key that the argument (a JSON object) must lack, or set to another value than 0."""
    is_first: bool = False
    """Holds when no other failure stands in the text before the line."""
    is_last: bool = False
    """Holds when the process that wrote the line wrote nothing behind it."""
    required: bool = False
    """A symptom whose required condition does not hold, or whose required capture is missing, is not found."""


@dataclass(frozen=True)
class RemedyText(Authored):
    """A remedy, as authored."""

    title: str
    cost: str
    edits: tuple[Edit, ...] = ()
    needs: tuple[str, ...] = ()
    """Captures or facts without which the remedy is not offered."""
    unless: tuple[Condition, ...] = ()
    """Conditions under which the remedy is known not to help: it is not offered where one of them holds."""


@dataclass(frozen=True)
class Policy(Authored):
    """Steps that are tried one after the other, offered only to those who ask for them by name. One YAML file each."""

    id: str
    """Words with dashes; the file's name, and the name to ask by."""
    title: str
    why: str
    """Plain words: what the steps do, when that is right, and when not."""
    steps: tuple[RemedyText, ...]
    """In the order in which they are tried."""
    helps: tuple[str, ...]
    """Symptoms or classes against which it is known to help."""
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
    """A symptom's texts in another language; what is left out is shown in English, marked so.

    A list has as many entries as the English one, in its order.
    """

    of: dict[str, str] = field(default_factory=dict)
    """Field to a digest of the English text that was translated; `catalog translations --stamp` writes it."""
    title: str = ""
    cause: str = ""
    explanation: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    """What the conditions say."""
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
    mends: str = ""


@dataclass(frozen=True)
class Symptom(Authored):
    """A symptom: how it shows, what it means, what to do. One YAML file each."""

    id: str
    """`<class>` or `<class>.<finer>`; the file's name."""
    title: str
    """The fault in a few words, never the fix."""
    severity: Severity
    signatures: tuple[Signature, ...]
    examples: tuple[Example, ...]
    near_misses: tuple[NearMiss, ...]
    cause: str
    """Plain words: what the software does and why it fails here."""
    explanation: tuple[str, ...]
    """Sentences with this log's numbers, `{name}`; one that needs an unknown number is left out."""
    do_first: str
    confirm: str
    """What to look at or run, and what it shows if this is the cause."""
    refute: str
    """What it shows if this is not the cause."""
    verified: Verified
    role: Role = Role.CAUSE
    found_by: str = "lines"
    """"lines" of a log, or "comparison" of what is at hand: it has no signatures then, and no examples."""
    instead_of: tuple[str, ...] = ()
    """Ids of symptoms that this one replaces where both claim the same line: it says more precisely what they say."""
    companions: tuple[Signature, ...] = ()
    """Lines that add evidence and captures where the symptom was found."""
    conditions: tuple[Condition, ...] = ()
    remedies: tuple[RemedyText, ...] = ()
    """Cheapest first."""
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
    """The words that the issue points at."""
    vllm: str | None = None
    """Release that it is checked against; None: the newest known."""
    gpus: str | None = None
    file: str = ""
    """Name of the file, where the name tells its format."""
    says: str = ""
    """Words that the message must hold."""
    fixed: str | None = None
    """What `--fix` makes of the whole text; None: this issue has no fix."""


@dataclass(frozen=True)
class RuleNearMiss(Authored):
    """A text that looks alike and about which the rule must be silent."""

    text: str
    why: str
    vllm: str | None = None
    gpus: str | None = None
    file: str = ""


@dataclass(frozen=True)
class Rule(Authored):
    """Something that is wrong with a command, script or manifest. One YAML file each."""

    id: str
    """`<group>.<words-with-dashes>`; the file's name."""
    title: str
    """The fault in a few words, never the fix."""
    severity: IssueSeverity
    message: tuple[str, ...]
    """Sentences with what was found, `{name}`; one that needs what is not known is left out."""
    why: str
    """Plain words: what the shell or vLLM does with it, and why that is not what was meant."""
    examples: tuple[RuleExample, ...]
    near_misses: tuple[RuleNearMiss, ...]
    verified: Verified
    is_style: bool = False
    """Whether it is about a spelling that works, which only the strict profile reports."""
    mends: str | None = None
    """What `--fix` does about it; None: nothing."""
    values: dict[str, Any] = field(default_factory=dict)
    """The table that the rule looks things up in."""
    references: tuple[str, ...] = ()
    translations: dict[str, RuleTexts] = field(default_factory=dict)
    """Language to these texts in it; see docs/languages.md."""


@dataclass(frozen=True)
class Entrance(Authored):
    """What somebody sees who needs help, in their words, and where it is found."""

    id: str
    """Words with dashes, in small letters."""
    sees: str
    """What is seen, as somebody who knows nothing of the cause would say it."""
    says: str
    """What may be behind it, and what the project does about it; one or two sentences."""
    lines: tuple[str, ...] = ()
    """Printed lines that people search for, or their beginnings; each stands in an example of one of `symptoms`."""
    symptoms: tuple[str, ...] = ()
    """Ids of symptoms, or of groups of them (`oom`, `dist.peer_lost`), that look like this."""
    runbook: str | None = None
    """Runbook that goes through it step by step."""
    commands: tuple[str, ...] = ()
    """Commands of ours that answer it, the first one first."""
    page: str | None = None
    """Page of the documentation that explains the answer, without its ending."""

    def leads_to(self, symptom: str) -> bool:
        """Whether a symptom is one of those that look like this."""
        return any(symptom == name or symptom.startswith(f"{name}.") for name in self.symptoms)


@dataclass(frozen=True)
class LineFormat(Authored):
    """A line that vLLM prints while starting or serving: the figures it carries and what it proves."""

    id: str
    patterns: tuple[str, ...]
    """Wordings of different releases. Named groups are figures (unit in the name) or words."""
    examples: tuple[Example, ...]
    phase: str | None = None
    """Phase of the start that this line belongs to."""
    event: str | None = None
    """What the line proves: begin, engine, engine_ready, opening, ready, served, stopping, failed, waiting, hung,
    goes_on or wrapper_ready."""
    duration: str | None = None
    """Figure that is the printed duration of the phase."""
    arguments: bool = False
    """The text behind the match holds the arguments."""
    config: bool = False
    """The text behind the match holds the engine's configuration."""
    quoted: bool = False
    """The line holds what users wrote: nothing else in it counts."""
    bare: bool = False
    """It counts only where no logger wrote the line."""
    whole: bool = False
    """It counts only where the match is the whole line."""


PHASES = ("configure", "engine", "load", "encoder", "compile", "profile", "kv_cache", "capture", "warm_up", "serve")
"""Phases in the order in which a start passes through them; processes that lag behind do not turn it back."""
