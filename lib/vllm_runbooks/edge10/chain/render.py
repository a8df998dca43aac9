"""A chain of open parts for a notebook: what each link came to and took, then what was lost."""

from __future__ import annotations

from html import escape

from vllm_runbooks.core.display import Shown, visible
from vllm_runbooks.core.views.elements import cells, html_table, joined, prose, remark, tag
from vllm_runbooks.core.views.elements import grid as in_columns
from vllm_runbooks.edge10.accuracy import render as accuracy
from vllm_runbooks.edge10.chain.records import Link, OpenChain

_HEAD = ("link", "result", "wall", "CPU", "memory")


def shown(found: OpenChain | None) -> Shown:
    """What a chain came to; None: none was asked for."""
    if found is None:
        said = "Nothing was run on this host: no chain was asked for."
        return Shown(said, prose(said))
    rows = [(each.name, each.result.value, *_took(each)) for each in found.links]
    lines = [f"{each.name}: {each.says}" for each in found.links]
    lines += [each.program.command for each in found.links if each.program is not None]
    plain = "\n".join([in_columns(_HEAD, rows).plain.rstrip("\n"), *lines])
    html = [html_table(_HEAD, cells(rows), widest="none")]
    html += [tag("p", escape(visible(line)), "margin:2px 0") for line in lines]
    parts, pages = [visible(plain)], ["".join(html)]
    if found.accuracy is not None:
        judged = accuracy.shown(found.accuracy)
        parts.append(judged.plain)
        pages.append(judged.html)
    else:
        parts.append(f"Not judged: {visible(found.why_none)}")
        pages.append(prose(f"Not judged: {found.why_none}"))
    if found.folder:
        below = f"Logs, reports and the quantised model: {found.folder}."
        parts.append(below)
        pages.append(remark(below))
    return Shown(joined(parts), "".join(pages))


def _took(link: Link) -> tuple[str, str, str]:
    """Wall clock, processor time and memory; empty where nothing was measured."""
    wall = "" if link.seconds is None else f"{link.seconds:.1f} s"
    if link.program is None:
        return wall, "", ""
    return wall, f"{link.program.cpu_s:.1f} s", f"{link.program.memory_gib:.2f} GiB"
