"""The panel Plan."""

from __future__ import annotations

from typing import Any

import ipywidgets

from vllm_runbooks.widgets import parts, settings

_LEAST, _STEP = 0.3, 0.01
_AS_SETTLED = "as settled"


class Panel(parts.Panel):
    """A start, planned while its settings are dragged; the command below has passed the linter and the planner."""

    def __init__(self, model: str = "", gpus: str = "", vllm: str = "") -> None:
        self._planner = settings.Planner()
        self._model = ipywidgets.Combobox(value=model, options=settings.models(), continuous_update=False)
        self._gpus = ipywidgets.Combobox(value=gpus, options=settings.cards(), continuous_update=False)
        newest = settings.releases()
        self._vllm = ipywidgets.Dropdown(options=newest, value=vllm if vllm in newest else newest[0])
        self._share = ipywidgets.FloatSlider(min=_LEAST, max=1.0, step=_STEP, value=0.9, readout_format=".2f")
        self._context = ipywidgets.SelectionSlider(options=[0])
        self._sequences = ipywidgets.SelectionSlider(options=[_AS_SETTLED])
        self._tp, self._pp, self._dp = (ipywidgets.SelectionSlider(options=[0]) for _ in range(3))
        self._error, self._overview, self._terms = parts.View(), parts.View(), parts.View()
        self._command, self._copy = parts.View(), parts.Copy()
        super().__init__(
            "Plan",
            "what a start takes on each card, and what is left for requests",
            [
                parts.row(
                    parts.field("model", self._model, "330px"),
                    parts.field("GPUs", self._gpus, "200px"),
                    parts.field("vLLM", self._vllm, "120px"),
                ),
                parts.row(
                    parts.field("share of each GPU's memory", self._share, "290px"),
                    parts.field("context, tokens", self._context, "250px"),
                    parts.field("requests at once, at most", self._sequences, "220px"),
                ),
                parts.row(
                    parts.field("tensor parallel", self._tp, "220px"),
                    parts.field("pipeline parallel", self._pp, "220px"),
                    parts.field("data parallel", self._dp, "220px"),
                ),
                self._error,
                self._overview,
                self._command,
                self._copy,
                parts.folds(("Each part of a card's memory, and where it comes from", self._terms)),
            ],
        )
        self._bound()
        self._later = parts.Later(self._update)
        for each in (self._model, self._gpus, self._vllm):
            each.observe(self._bound_anew, "value")
        for each in (self._share, self._context, self._sequences, self._tp, self._pp, self._dp):
            each.observe(self._later, "value")
        self._update()

    def _bound_anew(self, _: Any) -> None:
        self._bound()
        self._later()

    def _bound(self) -> None:
        """Offer what this model, these cards and this release allow."""
        found = settings.bounds(self._asked())
        self._share.value = round(max(found.utilization, _LEAST), 2)
        _offer(self._context, found.contexts, found.contexts[-1])
        _offer(self._sequences, (_AS_SETTLED, *found.sequences), _AS_SETTLED)
        _offer(self._tp, found.sizes, found.whole)
        for slider in (self._pp, self._dp):
            _offer(slider, found.sizes, 1)

    def _asked(self) -> settings.Asked:
        sequences = self._sequences.value
        return settings.Asked(
            self._model.value,
            self._gpus.value,
            self._vllm.value,
            round(self._share.value, 2),
            self._context.value,
            sequences if isinstance(sequences, int) else None,
            self._tp.value,
            self._pp.value,
            self._dp.value,
        )

    def _update(self) -> None:
        told = self._planner.told(self._asked())
        self._error.show(parts.said(told.error or told.why_no_command))
        self._overview.show(told.overview)
        self._terms.show(told.terms)
        self._command.show(parts.command(told.command) if told.command else None)
        self._copy.text = told.command
        self._copy.layout.display = None if told.command else "none"


def _offer(slider: ipywidgets.SelectionSlider, offered: tuple[Any, ...], usual: Any) -> None:
    """Offer other values; the one that is set stays where it is among them."""
    if tuple(slider.options) == offered:
        return
    value = slider.value if slider.value in offered else usual
    slider.options = offered
    slider.value = value
