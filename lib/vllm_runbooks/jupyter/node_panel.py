"""The Nodes panel."""

from __future__ import annotations

import ipywidgets

from vllm_runbooks.host import nodes as clusters
from vllm_runbooks.host.nodes.records import CheckedCluster
from vllm_runbooks.jupyter import asking, page_parts, parts
from vllm_runbooks.jupyter import node_model as hosts

_SHOWN = (hosts.ALL, hosts.DIFFERENT)


class NodePanel(parts.BasePanel):
    """Several nodes compared: differences, reachability, their meaning, and the environment of each."""

    def __init__(self, snapshot: str = "", found: CheckedCluster | str | None = None) -> None:
        self._found = found
        self._source = ipywidgets.Combobox(
            value=snapshot,
            options=hosts.recorded(),
            placeholder="a file, a folder or a recorded case" if found is None else "the nodes of this notebook",
            continuous_update=False,
        )
        self._what = ipywidgets.Dropdown(options=_SHOWN, value=hosts.ALL)
        self._ray = ipywidgets.Text(placeholder="10.0.0.1:6379")
        self._hosts = ipywidgets.Text(placeholder="hosts.txt, or HOST,HOST")
        self._expect = ipywidgets.BoundedIntText(min=0, max=clusters.MAX_NODES)
        self._model = ipywidgets.Text(placeholder="/models/Qwen3-8B")
        self._python = ipywidgets.Text(placeholder="PATH, or NODE=PATH")
        self._ports = ipywidgets.Text(placeholder="ray=6379,torch=29501,vllm=8000")
        self._ask = parts.button("Check nodes", "test all connections between them, and run an all-reduce")
        self._working = parts.HtmlView()
        self._error, self._nodes, self._reach, self._findings, self._without = (parts.HtmlView() for _ in range(5))
        self._environments = parts.column(())
        self._made: list[_Environment] = []
        super().__init__(
            "Nodes",
            "facts of several nodes, their differences, and problems for a multi-node launch",
            [
                parts.row(
                    parts.field("recorded nodes", self._source, "420px"), parts.field("show", self._what, "220px")
                ),
                self._question(),
                self._working,
                self._error,
                self._nodes,
                parts.folds(
                    ("Effects on a launch", self._findings),
                    ("Which node reaches which", self._reach),
                    ("What each node needs", parts.column((self._without, self._environments))),
                    is_open=True,
                ),
            ],
        )
        later = asking.Later(self._update, lambda line: self._show(hosts.NodeReport(line)))
        for field in (self._source, self._what):
            field.observe(later, "value")
        asker = asking.Asker(
            self._asked,
            hosts.measured,
            self._take,
            wait=self._wait,
            failed=lambda line: self._show(hosts.NodeReport(line)),
        )
        self._ask.on_click(asker)
        later.now()

    def _question(self) -> ipywidgets.Accordion:
        """The folded form that names nodes."""
        row = parts.row(
            parts.field("a Ray cluster", self._ray, "180px"),
            parts.field("its nodes (0: unknown)", self._expect, "180px"),
            parts.field("or hosts over ssh", self._hosts, "240px"),
            parts.field("model on every node", self._model, "260px"),
            parts.field("Python of vLLM", self._python, "260px"),
            parts.field("ports to test", self._ports, "260px"),
            self._ask,
        )
        made = parts.folds(("Ask the nodes themselves", row))
        made.layout.margin = "8px 2px 14px 0"
        return made

    def _asked(self) -> hosts.NodeRequest:
        fields = (self._ray, self._hosts, self._expect, self._model, self._python, self._ports)
        return hosts.NodeRequest(*(field.value for field in fields))

    def _wait(self, words: str) -> None:
        self._ask.disabled = bool(words)
        self._working.show(parts.working("Asking the nodes …" if words else ""))

    def _take(self, checked: CheckedCluster | hosts.NodeReport) -> None:
        """Show live nodes in place of recorded ones; else the error."""
        if isinstance(checked, hosts.NodeReport):
            self._show(checked)
            return
        self._found = checked
        self._source.value = ""
        self._source.placeholder = "the nodes that were asked"
        self._update()

    def _update(self) -> None:
        is_whole = self._what.value == hosts.ALL
        if self._found is not None and not self._source.value.strip():
            self._show(hosts.shown(self._found, is_whole=is_whole))
        else:
            self._show(hosts.report_on(self._source.value, is_whole=is_whole))

    def _show(self, report: hosts.NodeReport) -> None:
        self._error.show(parts.said(report.error))
        self._nodes.show(report.nodes)
        self._reach.show(report.reach)
        self._findings.show(report.findings)
        self._without.show(report.without)
        # Views are used again: closed ones would leave their layouts in the kernel, answer after answer.
        while len(self._made) < len(report.environments):
            self._made.append(_Environment())
        for view, (name, text) in zip(self._made, report.environments, strict=False):
            view.show(name, text)
        self._environments.children = self._made[: len(report.environments)]


class _Environment(ipywidgets.VBox):
    """A node's environment, with a button to copy it."""

    def __init__(self) -> None:
        self._name, self._text, self._copy = parts.HtmlView(), parts.HtmlView(), page_parts.Copy()
        super().__init__([self._name, self._text, self._copy])

    def show(self, name: str, text: str) -> None:
        """Show the environment of a node."""
        self._name.show(parts.heading_of(name))
        self._text.show(parts.command(text))
        self._copy.text, self._copy.label = text, f"Copy the environment of {name}"
