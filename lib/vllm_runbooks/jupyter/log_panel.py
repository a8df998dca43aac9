"""The Diagnose panel."""

from __future__ import annotations

from typing import Any

import ipywidgets

from vllm_runbooks.jupyter import asking, page_parts, parts
from vllm_runbooks.jupyter import log_model as logs


class LogPanel(parts.BasePanel):
    """Paste, upload or name a log; shows the cause, its evidence in the log, and the fixes."""

    def __init__(
        self, evidence: str = "", pasted: str = "", vllm: str = "", gpus: str = "", lang: str | None = None
    ) -> None:
        self._pasted = page_parts.TextBox(
            value=pasted, placeholder="Paste the log here, from its first line to its last"
        )
        self._uploads: tuple[logs.Upload, ...] = ()
        self._named = ipywidgets.Combobox(
            value=evidence, options=logs.recorded(), placeholder="path, or recorded case", continuous_update=False
        )
        self._vllm = ipywidgets.Text(value=vllm, placeholder="as the log says", continuous_update=False)
        self._gpus = ipywidgets.Text(value=gpus, placeholder="as in 2xRTX3090", continuous_update=False)
        self._files = ipywidgets.FileUpload(multiple=True, description="Upload logs", tooltip="logs of one start")
        self._lang = parts.language(lang)
        self._start = ipywidgets.BoundedIntText(value=0, min=0, max=0)
        self._start_field = parts.field("which start (0: the last)", self._start, "170px")
        self._clear = parts.button("Clear", "forget the texts and the files")
        self._working, self._source, self._error = parts.HtmlView(), parts.HtmlView(), parts.HtmlView()
        self._outcome, self._cause, self._log, self._time = (parts.HtmlView() for _ in range(4))
        self._advice, self._checks, self._others = parts.HtmlView(), parts.HtmlView(), parts.HtmlView()
        self._facts = parts.HtmlView()
        self._ways = parts.column(())
        self._made: list[_Way] = []
        self._folds = parts.folds(
            ("The start's own figures", self._facts),
            ("What else was found", self._others),
        )
        self._answer = parts.column(
            [
                self._outcome,
                self._cause,
                parts.heading("The log, with its lines marked"),
                parts.scrolled(self._log, "420px"),
                parts.heading("The start, step by step"),
                self._time,
                parts.heading("The ways out"),
                self._advice,
                self._ways,
                parts.heading("What would confirm it"),
                self._checks,
                self._folds,
            ]
        )
        super().__init__(
            "Diagnose",
            "a log of vLLM: its cause, the lines that prove it, and checked ways out",
            [
                parts.field("log", self._pasted, "100%"),
                parts.row(
                    parts.field("or files", self._files, "140px"),
                    parts.field("or a file of this host, or a recorded case", self._named, "300px"),
                    self._clear,
                ),
                parts.row(
                    parts.field("vLLM", self._vllm, "130px"),
                    parts.field("GPUs", self._gpus, "150px"),
                    self._start_field,
                    parts.field("language", self._lang, "110px"),
                ),
                self._working,
                self._source,
                self._error,
                self._answer,
            ],
        )
        asker = asking.Asker(
            self._asked,
            logs.report_on,
            self._show,
            wait=self._wait,
            failed=lambda line: self._show(logs.LogReport(line)),
        )
        # In front of the question: what is given last is what is asked.
        self._files.observe(self._take, "value")
        for field in (self._pasted, self._named):
            field.observe(self._give_up_files, "value")
        for field in (self._pasted, self._named, self._vllm, self._gpus, self._start, self._files, self._lang):
            field.observe(asker, "value")
        self._clear.on_click(self._forget)
        asker.now()

    def _take(self, change: Any) -> None:
        """Keep the files in this process: a widget's value is saved with the notebook."""
        if change["new"]:
            self._uploads = tuple(logs.Upload(upload["name"], upload["content"]) for upload in change["new"])
            self._files.value = ()

    def _give_up_files(self, change: Any) -> None:
        if change["new"]:
            self._uploads = ()

    def _forget(self, _: Any) -> None:
        self._uploads = ()
        self._pasted.value = self._named.value = ""
        self._start.value = 0

    def _asked(self) -> logs.LogRequest:
        texts = (self._pasted.value, self._named.value, self._vllm.value, self._gpus.value)
        return logs.LogRequest(self._uploads, *texts, self._start.value, self._lang.value)

    def _wait(self, words: str) -> None:
        self._working.show(parts.working(words))

    def _show(self, report: logs.LogReport) -> None:
        self._source.show(parts.answered(report.source))
        self._error.show(parts.said(report.error))
        self._answer.layout.display = None if report.cause else "none"
        self._start.max = max(report.starts, self._start.value)
        self._start_field.layout.display = None if report.starts > 1 or self._start.value else "none"
        views = (
            self._outcome,
            self._cause,
            self._log,
            self._time,
            self._advice,
            self._checks,
            self._others,
            self._facts,
        )
        sections = (
            report.outcome,
            report.cause,
            report.log,
            report.timeline,
            report.advice,
            report.checks,
            report.others,
            report.facts,
        )
        for view, section in zip(views, sections, strict=True):
            view.show(section)
        # Views are used again: closed ones would leave their layouts in the kernel, answer after answer.
        while len(self._made) < len(report.ways):
            self._made.append(_Way())
        for view, way in zip(self._made, report.ways, strict=False):
            view.show(way)
        self._ways.children = self._made[: len(report.ways)]


class _Way(ipywidgets.VBox):
    """A fix with its command and a button to copy it."""

    def __init__(self) -> None:
        self._shown, self._command, self._copy = parts.HtmlView(), parts.HtmlView(), page_parts.Copy()
        super().__init__([self._shown, self._command, self._copy], layout=ipywidgets.Layout(width="100%", margin="0"))

    def show(self, way: logs.ShownFix) -> None:
        """Show a fix."""
        self._shown.show(way.shown)
        self._command.show(parts.command(way.command) if way.command else None)
        self._copy.text = way.command
        self._copy.layout.display = None if way.command else "none"
