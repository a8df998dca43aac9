"""What starts a plan on each node, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_runbooks.core.display import Shown, visible
from vllm_runbooks.core.views.elements import BLUE, Headline, heading, prose, tag, verdict
from vllm_runbooks.core.views.styled import Block, Line, Prose, Tone, styled
from vllm_runbooks.plan.records import StartFiles


def view(told: StartFiles) -> list[Block]:
    """Which files are for which node, its environment, and what to do."""
    return list(_blocks(told))


def _blocks(told: StartFiles) -> Iterator[Block]:
    one = told.layout
    sizes = "" if one is None else f": {one.replicas} x TP {one.tp} PP {one.pp} DP {one.dp}"
    yield Line(styled(f"{told.model}, vLLM {told.vllm.version}{sizes}", Tone.HEADING))
    yield Prose(f"Executor {told.executor or 'not known'}; {told.why}.")
    if told.by_itself:
        yield Prose(f"Given the sizes alone on one node: {told.by_itself}.")
    for node in told.nodes:
        yield Line("")
        yield Line(styled(f"{node.node}{f' at {node.address}' if node.address else ''}", Tone.HEADING))
        for name, value in node.environment.items():
            yield Line(styled(f"  {name}={value}", Tone.COMMAND))
        yield Prose(f"  {', '.join(node.files)}")
    yield Line("")
    yield Line(styled("WHAT TO DO", Tone.HEADING))
    for number, step in enumerate(told.steps, 1):
        yield Prose(f"{number}. {step}")
    if told.notes:
        yield Line("")
        yield Line(styled("NOTE", Tone.HEADING))
        for note in told.notes:
            yield Prose(f"- {note}")


def executor(told: StartFiles | str) -> Shown:
    """What joins the nodes, which executor a start takes, and which it takes by itself; else why there is none."""
    if isinstance(told, str):
        return Shown(told, prose(told))
    joined = {"ray": "Ray", "nnodes": "--nnodes", "": "nothing"}[told.joined_by]
    lead = Headline(f"joined by {joined}", f"executor {told.executor or 'not known'}")
    said = [f"{told.why}."]
    said += (
        [f"A start on one node that is given the sizes and nothing else: {told.by_itself}."] if told.by_itself else []
    )
    return Shown("\n".join([str(lead), *said]), verdict(lead, BLUE) + "".join(map(_paragraph, said)))


def steps(told: StartFiles | str) -> Shown:
    """What to do in which order, and what is not known; else why there is nothing to do."""
    if isinstance(told, str):
        return Shown(told, prose(told))
    lines = [f"{number}. {step}" for number, step in enumerate(told.steps, 1)]
    html = _items("ol", told.steps)
    if told.notes:
        html += heading("What is not known, or left to you") + _items("ul", told.notes)
    return Shown("\n".join([*lines, *(f"- {note}" for note in told.notes)]), html)


def _items(name: str, said: Sequence[str]) -> str:
    return tag(name, "".join(tag("li", prose(visible(each))) for each in said), "max-width:80ch;margin:4px 0")


def _paragraph(said: str) -> str:
    return tag("p", prose(visible(said)), "max-width:80ch;margin:4px 0")
