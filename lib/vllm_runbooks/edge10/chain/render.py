"""A chain of open parts for a notebook: the result and cost of each link, and the loss."""

from __future__ import annotations

from html import escape

from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.views.elements import cells, grid, html_table, joined, prose, remark, tag
from vllm_runbooks.edge10.accuracy import render as accuracy
from vllm_runbooks.edge10.chain.records import ChainLink, OpenChain

_HEAD = ("link", "result", "wall", "CPU", "memory")


def shown(chain: OpenChain | None) -> RenderedView:
    """Render a chain; None if none was run."""
    if chain is None:
        return RenderedView.nothing("The chain was not run: chain has no command.")
    rows = [(link.name, link.result.value, *_cost(link)) for link in chain.links]
    lines = [f"{link.name}: {link.message}" for link in chain.links]
    lines += [link.program.command for link in chain.links if link.program is not None]
    parts = [visible("\n".join([grid(_HEAD, rows).plain.rstrip("\n"), *lines]))]
    html = html_table(_HEAD, cells(rows), widest="none")
    html += "".join(tag("p", escape(visible(line)), "margin:2px 0") for line in lines)
    if chain.accuracy is not None:
        comparison = accuracy.shown(chain.accuracy)
        parts.append(comparison.plain)
        html += comparison.html
    else:
        parts.append(f"Not compared: {visible(chain.no_accuracy_reason)}")
        html += prose(f"Not compared: {chain.no_accuracy_reason}")
    if chain.folder:
        parts.append(f"Logs, reports and the quantized model: {chain.folder}.")
        html += remark(parts[-1])
    return RenderedView(joined(parts), html)


def _cost(link: ChainLink) -> tuple[str, str, str]:
    """Wall clock, processor time and memory; empty if not measured."""
    wall = "" if link.seconds is None else f"{link.seconds:.1f} s"
    if link.program is None:
        return wall, "", ""
    return wall, f"{link.program.cpu_s:.1f} s", f"{link.program.memory_gib:.2f} GiB"
