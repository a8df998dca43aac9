"""A step of a runbook: a fact, its consequence and the action, with the evidence folded below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.views.elements import tag
from vllm_runbooks.core.views.styled import Line, Prose, TextBlock, Tone, plain, styled
from vllm_runbooks.core.views.summary_html import command_html, folded, labelled

_LABELS = ("Fact", "So", "Do")


@dataclass(frozen=True)
class StepText:
    """Text of a step, in sentences; `code` in backticks."""

    fact: str = ""
    so: str = ""
    do: str = ""
    command: str = ""
    """Command to copy for it."""


def step(
    facts: StepText | Sequence[StepText | None] | None, evidence: Mapping[str, RenderedView | None]
) -> RenderedView:
    """A step with its evidence, each piece folded under its name; empty pieces are left out.

    Args:
        facts: One fact with its consequences, or several; None if there is none.
        evidence: Views by their names.
    """
    texts = [facts] if isinstance(facts, StepText) else [text for text in facts or () if text is not None]
    shown = {name: view for name, view in evidence.items() if view is not None and not view.is_nothing}
    if not texts and not shown:
        return RenderedView.nothing("\n".join(view.plain for view in evidence.values() if view is not None))
    html = "".join([*map(_html, texts), *(folded(name, view.html) for name, view in shown.items())])
    blocks = [block for text in texts for block in _blocks(text)]
    named = [f"{name}:\n{view.plain}" for name, view in shown.items()]
    return RenderedView("\n\n".join([*([plain(blocks)] if blocks else []), *named]), html)


def _parts(text: StepText) -> list[tuple[str, str]]:
    return [pair for pair in zip(_LABELS, (text.fact, text.so, text.do), strict=True) if pair[1]]


def _html(text: StepText) -> str:
    command = command_html(text.command) if text.command else ""
    return tag("div", labelled(_parts(text)) + command, "max-width:60em;margin:6px 0")


def _blocks(text: StepText) -> list[TextBlock]:
    blocks: list[TextBlock] = [
        Prose(words, "      ", styled(f"{name:<6}", Tone.HEADING)) for name, words in _parts(text)
    ]
    commands = text.command.split("\n") if text.command else []
    return [*blocks, *(Line("      " + styled(line, Tone.COMMAND)) for line in commands)]
