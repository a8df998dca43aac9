"""Render the launch files of a plan's nodes as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.views.elements import heading, prose, tag
from vllm_runbooks.core.views.runbook_steps import StepText
from vllm_runbooks.core.views.styled import Line, Prose, TextBlock, Tone, styled
from vllm_runbooks.core.views.summary import sentence_of
from vllm_runbooks.plan.records import StartFiles


def view(summary: StartFiles) -> list[TextBlock]:
    """Files per node, its environment, and the instructions."""
    return list(_blocks(summary))


def _blocks(summary: StartFiles) -> Iterator[TextBlock]:
    layout = summary.layout
    sizes = "" if layout is None else f": {layout.replicas} x TP {layout.tp} PP {layout.pp} DP {layout.dp}"
    yield Line(styled(f"{summary.model}, vLLM {summary.vllm.version}{sizes}", Tone.HEADING))
    yield Prose(f"Executor {summary.executor or 'unknown'}; {summary.reason}.")
    if summary.single_node_result:
        yield Prose(f"With only the parallel sizes, on one node: {summary.single_node_result}.")
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


def executor(summary: StartFiles | str) -> StepText | None:
    """Method that joins the nodes, and vLLM's executor; None without files."""
    if isinstance(summary, str):
        return None
    joined = {
        "ray": "Ray joins the nodes",
        "nnodes": "`--nnodes` joins the nodes, without Ray",
        "": "Nothing joins the nodes",
    }
    fact = f"{joined[summary.joined_by]}; the executor is `{summary.executor or 'unknown'}`."
    single = summary.single_node_result
    so = [sentence_of(summary.reason), *([f"With only the parallel sizes, on one node: {single}."] if single else [])]
    return StepText(fact, " ".join(so), "Copy each node's files to it and follow the steps below in order.")


def steps(summary: StartFiles | str) -> RenderedView:
    """Instructions in order, and unknowns; else the reason for their absence."""
    if isinstance(summary, str):
        return RenderedView.nothing(summary)
    lines = [f"{number}. {step}" for number, step in enumerate(summary.steps, 1)]
    html = _items("ol", summary.steps)
    if summary.notes:
        html += heading("Unknown, or left to you") + _items("ul", summary.notes)
    return RenderedView("\n".join([*lines, *(f"- {note}" for note in summary.notes)]), html)


def _items(name: str, items: Sequence[str]) -> str:
    return tag(name, "".join(tag("li", prose(visible(item))) for item in items), "max-width:80ch;margin:4px 0")
