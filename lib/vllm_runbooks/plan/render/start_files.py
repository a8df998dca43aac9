"""What starts a plan on each node, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.views.elements import BLUE, Headline, heading, prose, tag, verdict
from vllm_runbooks.core.views.styled import Line, Prose, TextBlock, Tone, styled
from vllm_runbooks.plan.records import StartFiles


def view(summary: StartFiles) -> list[TextBlock]:
    """Which files are for which node, its environment, and what to do."""
    return list(_blocks(summary))


def _blocks(summary: StartFiles) -> Iterator[TextBlock]:
    layout = summary.layout
    sizes = "" if layout is None else f": {layout.replicas} x TP {layout.tp} PP {layout.pp} DP {layout.dp}"
    yield Line(styled(f"{summary.model}, vLLM {summary.vllm.version}{sizes}", Tone.HEADING))
    yield Prose(f"Executor {summary.executor or 'not known'}; {summary.reason}.")
    if summary.single_node_result:
        yield Prose(f"Given the sizes alone on one node: {summary.single_node_result}.")
    for node in summary.nodes:
        yield Line("")
        yield Line(styled(f"{node.node}{f' at {node.address}' if node.address else ''}", Tone.HEADING))
        for name, value in node.environment.items():
            yield Line(styled(f"  {name}={value}", Tone.COMMAND))
        yield Prose(f"  {', '.join(node.files)}")
    yield Line("")
    yield Line(styled("WHAT TO DO", Tone.HEADING))
    for number, step in enumerate(summary.steps, 1):
        yield Prose(f"{number}. {step}")
    if summary.notes:
        yield Line("")
        yield Line(styled("NOTE", Tone.HEADING))
        for note in summary.notes:
            yield Prose(f"- {note}")


def executor(summary: StartFiles | str) -> RenderedView:
    """What joins the nodes, which executor a start takes, and which it takes by itself; else why there is none."""
    if isinstance(summary, str):
        return RenderedView(summary, prose(summary))
    joined = {"ray": "Ray", "nnodes": "--nnodes", "": "nothing"}[summary.joined_by]
    lead = Headline(f"joined by {joined}", f"executor {summary.executor or 'not known'}")
    paragraphs = [f"{summary.reason}."]
    paragraphs += (
        [f"A start on one node that is given the sizes and nothing else: {summary.single_node_result}."]
        if summary.single_node_result
        else []
    )
    return RenderedView("\n".join([str(lead), *paragraphs]), verdict(lead, BLUE) + "".join(map(_paragraph, paragraphs)))


def steps(summary: StartFiles | str) -> RenderedView:
    """What to do in which order, and what is not known; else why there is nothing to do."""
    if isinstance(summary, str):
        return RenderedView(summary, prose(summary))
    lines = [f"{number}. {step}" for number, step in enumerate(summary.steps, 1)]
    html = _items("ol", summary.steps)
    if summary.notes:
        html += heading("What is not known, or left to you") + _items("ul", summary.notes)
    return RenderedView("\n".join([*lines, *(f"- {note}" for note in summary.notes)]), html)


def _items(name: str, items: Sequence[str]) -> str:
    return tag(name, "".join(tag("li", prose(visible(item))) for item in items), "max-width:80ch;margin:4px 0")


def _paragraph(text: str) -> str:
    return tag("p", prose(visible(text)), "max-width:80ch;margin:4px 0")
