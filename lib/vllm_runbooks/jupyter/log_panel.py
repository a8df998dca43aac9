"""The panel Diagnose."""

from __future__ import annotations

from typing import Any

import ipywidgets

from vllm_runbooks.jupyter import asking, page_parts, parts
from vllm_runbooks.jupyter import log_model as logs


class Panel(parts.Panel):
    """Paste, upload or name a log; the cause, its evidence in the log, and the ways out."""

    def __init__(
        self, evidence: str = "", pasted: str = "", vllm: str = "", gpus: str = "", lang: str | None = None
    ) -> None:
        self._pasted = page_parts.Box(value=pasted, placeholder="Paste the log here, from its first line to its last")
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
        self._working, self._source, self._error = parts.View(), parts.View(), parts.View()
        self._outcome, self._cause, self._log, self._time = (parts.View() for _ in range(4))
        self._advice, self._checks, self._others = parts.View(), parts.View(), parts.View()
        self._facts = parts.View()
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
            self._asked, logs.told, self._show, wait=self._wait, failed=lambda line: self._show(logs.Told(line))
        )
        # In front of the question: what is given last is what is asked.
        self._files.observe(self._take, "value")
        for each in (self._pasted, self._named):
            each.observe(self._give_up_files, "value")
        for each in (self._pasted, self._named, self._vllm, self._gpus, self._start, self._files, self._lang):
            each.observe(asker, "value")
        self._clear.on_click(self._forget)
        asker.now()

    def _take(self, change: Any) -> None:
        """Keep the files here alone: a control's value is saved with the notebook."""
        if change["new"]:
            self._uploads = tuple(logs.Upload(each["name"], each["content"]) for each in change["new"])
            self._files.value = ()

    def _give_up_files(self, change: Any) -> None:
        if change["new"]:
            self._uploads = ()

    def _forget(self, _: Any) -> None:
        self._uploads = ()
        self._pasted.value = self._named.value = ""
        self._start.value = 0

    def _asked(self) -> logs.Asked:
        texts = (self._pasted.value, self._named.value, self._vllm.value, self._gpus.value)
        return logs.Asked(self._uploads, *texts, self._start.value, self._lang.value)

    def _wait(self, words: str) -> None:
        self._working.show(parts.working(words))

    def _show(self, told: logs.Told) -> None:
        self._source.show(parts.answered(told.source))
        self._error.show(parts.said(told.error))
        self._answer.layout.display = None if told.cause else "none"
        self._start.max = max(told.starts, self._start.value)
        self._start_field.layout.display = None if told.starts > 1 or self._start.value else "none"
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
        shown = (told.outcome, told.cause, told.log, told.timeline, told.advice, told.checks, told.others, told.facts)
        for view, each in zip(views, shown, strict=True):
            view.show(each)
        # Views are used again: closed ones would leave their layouts in the kernel, answer after answer.
        while len(self._made) < len(told.ways):
            self._made.append(_Way())
        for view, way in zip(self._made, told.ways, strict=False):
            view.show(way)
        self._ways.children = self._made[: len(told.ways)]


class _Way(ipywidgets.VBox):
    """A way out with its command and the button that copies it."""

    def __init__(self) -> None:
        self._shown, self._command, self._copy = parts.View(), parts.View(), page_parts.Copy()
        super().__init__([self._shown, self._command, self._copy], layout=ipywidgets.Layout(width="100%", margin="0"))

    def show(self, way: logs.Way) -> None:
        """Show this one."""
        self._shown.show(way.shown)
        self._command.show(parts.command(way.command) if way.command else None)
        self._copy.text = way.command
        self._copy.layout.display = None if way.command else "none"
