"""The panel Diagnose."""

from __future__ import annotations

from typing import Any

import ipywidgets

from vllm_runbooks.widgets import logs, parts


class Panel(ipywidgets.VBox):
    """Paste, upload or name a log; the cause, its evidence in the log, and the ways out."""

    def __init__(self, evidence: str = "", vllm: str = "", gpus: str = "") -> None:
        self._pasted = ipywidgets.Textarea(placeholder="Paste the log here, from its first line to its last")
        self._pasted.layout = ipywidgets.Layout(height="120px")
        self._named = ipywidgets.Combobox(value=evidence, options=logs.recorded(), placeholder="path, or recorded case")
        self._vllm = ipywidgets.Text(value=vllm, placeholder="as the log says", continuous_update=False)
        self._gpus = ipywidgets.Text(value=gpus, placeholder="as in 2xRTX3090", continuous_update=False)
        self._files = ipywidgets.FileUpload(multiple=True, description="Upload logs", tooltip="logs of one start")
        self._start = ipywidgets.BoundedIntText(value=0, min=0, max=0)
        self._start_field = parts.field("which start (0: the last)", self._start, "170px")
        self._clear = ipywidgets.Button(description="Clear", tooltip="forget the texts and the files")
        self._error, self._cause, self._log, self._time = parts.View(), parts.View(), parts.View(), parts.View()
        self._advice, self._checks, self._others = parts.View(), parts.View(), parts.View()
        self._facts = parts.View()
        self._ways = parts.column(())
        self._folds = parts.folds(
            ("The log, with its lines marked", self._log),
            ("The start, step by step", self._time),
            ("What would confirm it", self._checks),
            ("The start's own figures", self._facts),
            ("What else was found", self._others),
            is_open=True,
        )
        self._answer = parts.column([self._cause, self._advice, self._ways, self._folds])
        super().__init__(
            [
                parts.title("Diagnose", "a log of vLLM: its cause, the lines that prove it, and checked ways out"),
                parts.field("log", self._pasted, "100%"),
                parts.row(
                    parts.field("or a file of this host, or a recorded case", self._named, "300px"),
                    parts.field("release", self._vllm, "130px"),
                    parts.field("GPUs", self._gpus, "150px"),
                    self._start_field,
                    parts.field("or files", self._files, "140px"),
                    self._clear,
                ),
                self._error,
                self._answer,
            ]
        )
        later = parts.Later(self._update)
        for each in (self._pasted, self._named, self._vllm, self._gpus, self._start, self._files):
            each.observe(later, "value")
        self._clear.on_click(self._forget)
        self._update()

    def _forget(self, _: Any) -> None:
        self._files.value = ()
        self._pasted.value = self._named.value = ""
        self._start.value = 0

    def _update(self) -> None:
        files = tuple(logs.Upload(each.name, bytes(each.content)) for each in self._files.value)
        asked = logs.Asked(
            files, self._pasted.value, self._named.value, self._vllm.value, self._gpus.value, self._start.value
        )
        self._show(logs.told(asked))

    def _show(self, told: logs.Told) -> None:
        self._error.show(parts.said(told.error))
        self._answer.layout.display = None if told.cause else "none"
        self._start.max = max(told.starts, self._start.value)
        self._start_field.layout.display = None if told.starts > 1 or self._start.value else "none"
        views = (self._cause, self._log, self._time, self._advice, self._checks, self._others, self._facts)
        shown = (told.cause, told.log, told.timeline, told.advice, told.checks, told.others, told.facts)
        for view, each in zip(views, shown, strict=True):
            view.show(each)
        ways = [self._way(way) for way in told.ways]
        for gone in self._ways.children:
            _close(gone)
        self._ways.children = ways

    def _way(self, way: logs.Way) -> ipywidgets.VBox:
        shown = [parts.View(way.shown)]
        if way.command:
            shown += [parts.View(parts.command(way.command)), parts.Copy(text=way.command)]
        return parts.column(shown)


def _close(widget: Any) -> None:
    """Close a view and its parts, so that a kernel holds what is shown and no more."""
    for child in getattr(widget, "children", ()):
        _close(child)
    widget.close()
