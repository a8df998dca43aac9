"""The Runs panel."""

from __future__ import annotations

import ipywidgets

from vllm_runbooks.jupyter import asking, parts
from vllm_runbooks.jupyter import run_model as entries

_NONE = ("choose an entry", "")


class RunPanel(parts.BasePanel):
    """Runs of this host, the trend of a subject, and the difference between two entries."""

    def __init__(self, subject: str = "") -> None:
        self._subject = ipywidgets.Combobox(value=subject, placeholder="everything", continuous_update=False)
        self._a, self._b = (ipywidgets.Dropdown(options=[_NONE]) for _ in range(2))
        self._again = parts.button("Refresh", "read the history again")
        self._error, self._entries, self._trend, self._difference = (parts.HtmlView() for _ in range(4))
        super().__init__(
            "Runs",
            "what was checked, run, started and probed on this host",
            [
                parts.row(parts.field("subject, for its trend", self._subject, "420px"), self._again),
                self._error,
                self._trend,
                parts.heading("Entries"),
                parts.scrolled(self._entries, "420px"),
                parts.row(parts.field("compare", self._a, "400px"), parts.field("with", self._b, "400px")),
                self._difference,
            ],
        )
        later = asking.Later(self._update, lambda line: self._show(entries.RunReport(line)))
        for field in (self._subject, self._a, self._b):
            field.observe(later, "value")
        self._again.on_click(later)
        later.now()

    def _update(self) -> None:
        self._show(entries.report_on(entries.RunRequest(self._subject.value, self._a.value or "", self._b.value or "")))

    def _show(self, report: entries.RunReport) -> None:
        self._error.show(parts.said(report.error))
        self._subject.options = report.subjects
        for chosen in (self._a, self._b):
            parts.offer(chosen, (_NONE, *report.choices), "")
        self._entries.show(report.entries)
        self._trend.show(report.trend)
        self._difference.show(report.difference)
