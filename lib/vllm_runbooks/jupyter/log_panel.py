"""The Diagnose panel."""

from __future__ import annotations

from typing import Any

import ipywidgets

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import RunbookVerdict
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.jupyter import asking, page_parts, parts
from vllm_runbooks.jupyter import log_model as logs


class LogPanel(parts.BasePanel):
    """Paste, upload or name a log; shows its summary, then the marked log or a runbook's steps.

    Args:
        evidence: A file or recorded case as its first content.
        pasted: A log as its first content instead.
        vllm: Release that wrote the log, if the log does not print it.
        gpus: GPUs of the launch.
        lang: Language of the answer; None for the default of `catalog.load.language`.
        runbook: The runbook whose steps show the details.
    """

    def __init__(
        self,
        evidence: str = "",
        pasted: str = "",
        vllm: str = "",
        gpus: str = "",
        *,
        lang: str | None = None,
        runbook: str = "",
    ) -> None:
        self._runbook = runbook
        self._steps: dict[logs.LogView, parts.HtmlView] = {}
        self._pasted = page_parts.TextBox(
            value=pasted, placeholder="Paste the log here, from its first line to its last"
        )
        self._uploads: tuple[logs.Upload, ...] = ()
        self._named = ipywidgets.Combobox(
            value=evidence, options=logs.recorded(), placeholder="path, or recorded case", continuous_update=False
        )
        self._vllm = ipywidgets.Text(value=vllm, placeholder="from the log", continuous_update=False)
        self._gpus = ipywidgets.Text(value=gpus, placeholder="as in 2xRTX3090", continuous_update=False)
        self._files = ipywidgets.FileUpload(multiple=True, description="Upload logs", tooltip="logs of one launch")
        self._lang = parts.language(lang)
        self._start = ipywidgets.BoundedIntText(value=0, min=0, max=0)
        self._start_field = parts.field("launch (0: the last)", self._start, "170px")
        self._clear = parts.button("Clear", "remove the texts and the files")
        self._cancel = parts.button("Cancel", "stop reading")
        self._working, self._source, self._error, self._summary = (parts.HtmlView() for _ in range(4))
        self._copy = page_parts.Copy(label="Copy the fix")
        self._log, self._cause, self._checks, self._time = (parts.HtmlView() for _ in range(4))
        self._facts, self._others, self._launches = (parts.HtmlView() for _ in range(3))
        self._ways = parts.column(())
        self._made: list[_Way] = []
        self._details = parts.column(
            [
                parts.heading("The log, marked"),
                parts.scrolled(self._log, "420px"),
                parts.folds(
                    ("All fixes", self._ways),
                    ("Why", self._cause),
                    ("How to verify", self._checks),
                    ("How far the launch got", self._time),
                    ("Figures that vLLM printed", self._facts),
                    ("Other findings", self._others),
                    ("All launches in this log", self._launches),
                ),
            ]
        )
        super().__init__(
            "Diagnose",
            "cause and fix of a failed launch, from its log",
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
                parts.row(self._working, self._cancel),
                self._source,
                self._error,
                self._summary,
                self._copy,
                self._details,
            ],
        )
        self._request = self._asked()
        self._wait("")
        asker = asking.Asker(
            self._next_request,
            logs.report_on,
            self._show,
            wait=self._wait,
            failed=lambda line: self._show(logs.LogReport(line)),
        )
        # Before the request handler, so that the latest input is used.
        self._files.observe(self._take, "value")
        for field in (self._pasted, self._named):
            field.observe(self._give_up_files, "value")
        for field in (self._pasted, self._named, self._vllm, self._gpus, self._start, self._files, self._lang):
            field.observe(self._stop_reading, "value")
            field.observe(asker, "value")
        self._clear.on_click(self._forget)
        self._cancel.on_click(self._stop_reading)
        asker.now()

    def summary(self) -> LogPanel:
        """The panel, which begins with the summary of its log."""
        return self

    def step(self, view: logs.LogView) -> parts.HtmlView:
        """A step of the runbook, which follows the log of the panel."""
        if view in self._steps:
            self._steps.pop(view).close()
        followed = self._steps[view] = parts.HtmlView()
        log = self._report.diagnosed
        followed.show(view(log) if log is not None else None)
        return followed

    def verdict(self) -> RunbookVerdict:
        """The verdict on the log of the panel.

        Raises:
            InputError: It has none that can be read.
        """
        log = self._report.diagnosed
        if log is None:
            raise InputError(self._report.error or "the panel: has no log; paste or upload one, or enter its path")
        return diagnosing.verdict(log.answer, log.evidence)

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
        return logs.LogRequest(
            self._uploads, *texts, self._start.value, self._lang.value, self._runbook, tuple(self._steps)
        )

    def _next_request(self) -> logs.LogRequest:
        self._request = self._asked()
        return self._request

    def _stop_reading(self, _: Any) -> None:
        self._request.cancelled.set()

    def _wait(self, words: str) -> None:
        self._working.show(parts.working(words))
        for part in (self._working, self._cancel):
            part.layout.display = None if words else "none"

    def _show(self, report: logs.LogReport) -> None:
        self._report = report
        self._source.show(parts.answered(report.source if report.diagnosed else ""))
        self._error.show(parts.said(report.error))
        self._summary.show(report.summary)
        self._copy.text = report.fix
        self._copy.layout.display = None if report.fix else "none"
        launches = len(report.diagnosed.answer.starts) if report.diagnosed else 0
        self._start.max = max(launches, self._start.value)
        self._start_field.layout.display = None if launches > 1 or self._start.value else "none"
        # A step may have been added while the log was read.
        for number, step in enumerate(self._steps.values()):
            step.show(report.steps[number] if number < len(report.steps) else None)
        self._details.layout.display = None if report.details else "none"
        views = (self._log, self._cause, self._checks, self._time, self._facts, self._others, self._launches)
        details = report.details
        sections = (None,) * len(views) if details is None else (
            details.log, details.cause, details.checks, details.timeline, details.facts, details.others,
            details.launches,
        )  # fmt: skip
        for view, section in zip(views, sections, strict=True):
            view.show(section)
        # Views are used again: closed ones would leave their layouts in the kernel, answer after answer.
        ways = details.ways if details else ()
        while len(self._made) < len(ways):
            self._made.append(_Way())
        for view, way in zip(self._made, ways, strict=False):
            view.show(way)
        self._ways.children = self._made[: len(ways)]


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
