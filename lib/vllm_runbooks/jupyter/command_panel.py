"""The Commands panel."""

from __future__ import annotations

import ipywidgets

from vllm_runbooks.jupyter import asking, page_parts, parts
from vllm_runbooks.jupyter import command_model as scripts
from vllm_runbooks.jupyter import plan_model as settings

_ANY = "from the text, else the newest"


class CommandPanel(parts.BasePanel):
    """An editor with its issues marked in place, the corrected text next to it, and the difference."""

    def __init__(self, text: str = "", vllm: str = "", gpus: str = "", lang: str | None = None) -> None:
        self._text = page_parts.Editor(
            value=text, placeholder="Paste a command, a script, a compose file or a page here"
        )
        releases = [(_ANY, ""), *((item, item) for item in settings.releases(vllm.strip()))]
        self._vllm = ipywidgets.Dropdown(options=releases, value=vllm.strip())
        self._gpus = ipywidgets.Combobox(
            value=gpus, options=settings.cards(), placeholder="unknown", continuous_update=False
        )
        self._lang = parts.language(lang)
        self._error, self._summary, self._placed = parts.HtmlView(), parts.HtmlView(), parts.HtmlView()
        self._fixed, self._difference, self._starts = parts.HtmlView(), parts.HtmlView(), parts.HtmlView()
        self._copy = page_parts.Copy(label="Copy the corrected text")
        half = ipywidgets.Layout(width="480px", max_width="100%", margin="0 20px 8px 0", flex="1 1 320px")
        super().__init__(
            "Commands",
            "checks a command before you launch it; nothing is executed",
            [
                parts.row(
                    parts.field("vLLM", self._vllm, "260px"),
                    parts.field("GPUs", self._gpus, "200px"),
                    parts.field("language", self._lang, "120px"),
                ),
                self._text,
                self._error,
                self._summary,
                ipywidgets.Box(
                    [
                        ipywidgets.VBox([self._placed], layout=half),
                        ipywidgets.VBox([self._fixed, self._copy], layout=half),
                    ],
                    layout=ipywidgets.Layout(flex_flow="row wrap", align_items="flex-start"),
                ),
                parts.folds(("Difference", self._difference), ("Launches as vLLM's parser reads them", self._starts)),
            ],
        )
        later = asking.Later(self._update, lambda line: self._show(scripts.CommandReport(line)))
        for item in (self._text, self._vllm, self._gpus, self._lang):
            item.observe(later, "value")
        later.now()

    def _update(self) -> None:
        request = scripts.CommandRequest(self._text.value, self._vllm.value or "", self._gpus.value, self._lang.value)
        self._show(scripts.report_on(request))

    def _show(self, report: scripts.CommandReport) -> None:
        self._error.show(parts.said(report.error))
        self._text.marks = [mark._asdict() for mark in report.marks]
        self._summary.show(report.summary)
        self._placed.show(report.placed)
        self._fixed.show(parts.corrected(report.correction, report.fixed) if report.placed else None)
        self._copy.text = report.fixed
        self._copy.layout.display = None if report.fixed else "none"
        self._difference.show(report.difference)
        self._starts.show(report.starts)
