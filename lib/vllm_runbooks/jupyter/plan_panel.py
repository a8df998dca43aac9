"""The Plan panel."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import ipywidgets

from vllm_runbooks.jupyter import asking, page_parts, parts
from vllm_runbooks.jupyter import plan_model as settings

_SHARES = tuple(hundredth / 100 for hundredth in range(30, 101))
_DEFAULT = "default"
_SLID = ("gpu_memory_utilization", "max_model_len", "max_num_seqs")


class PlanPanel(parts.BasePanel):
    """Plan a launch while its settings are dragged.

    The command below has passed the linter and the planner; a line reports if the result is
    uncertain.
    """

    def __init__(
        self,
        model: str = "",
        gpus: str = "",
        vllm: str = "",
        *,
        tp: int | None = None,
        pp: int | None = None,
        dp: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._planner = settings.Planner()
        settings_given = dict(options or {})
        share, context, sequences = (settings_given.pop(name, None) for name in _SLID)
        is_split = any(size is not None for size in (tp, pp, dp))
        self._model = ipywidgets.Combobox(value=model, options=settings.models(), continuous_update=False)
        self._gpus = ipywidgets.Combobox(value=gpus, options=settings.cards(), continuous_update=False)
        releases = settings.releases(vllm.strip())
        self._vllm = ipywidgets.Dropdown(options=releases, value=vllm.strip() or releases[0])
        self._further = ipywidgets.Text(
            value=json.dumps(settings_given) if settings_given else "",
            placeholder='{"limit_mm_per_prompt": {"video": 0}}',
            continuous_update=False,
        )
        self._share, self._context, self._sequences = (_slider(field) for field in (share, context, sequences))
        self._tp, self._pp, self._dp = (_slider((field or 1) if is_split else 0) for field in (tp, pp, dp))
        self._error, self._overview, self._terms = parts.HtmlView(), parts.HtmlView(), parts.HtmlView()
        self._command, self._copy = parts.HtmlView(), page_parts.Copy()
        super().__init__(
            "Plan",
            "memory per GPU for a launch, and the KV cache left for requests",
            [
                parts.row(
                    parts.field("model", self._model, "330px"),
                    parts.field("GPUs", self._gpus, "200px"),
                    parts.field("vLLM", self._vllm, "120px"),
                ),
                parts.row(
                    parts.field("share of each GPU's memory", self._share, "290px"),
                    parts.field("context, tokens", self._context, "290px"),
                    parts.field("max concurrency", self._sequences, "290px"),
                ),
                parts.row(
                    parts.field("tensor parallel", self._tp, "220px"),
                    parts.field("pipeline parallel", self._pp, "220px"),
                    parts.field("data parallel", self._dp, "220px"),
                ),
                parts.row(parts.field("further options, as JSON", self._further, "460px")),
                self._error,
                self._overview,
                self._command,
                self._copy,
                parts.folds(("Memory parts per GPU and their sources", self._terms)),
            ],
        )
        self._given = (share, context, sequences, tp, pp, dp)
        self._given_for = (model, gpus)
        self._is_bound = False
        self._later = asking.Later(self._update, lambda line: self._show(settings.PlanReport(line)))
        for field in (self._model, self._gpus, self._vllm, self._further):
            field.observe(self._bound_anew, "value")
        for field in (self._share, self._context, self._sequences, self._tp, self._pp, self._dp):
            field.observe(self._later, "value")
        self._later.now()

    def _bound_anew(self, _: Any) -> None:
        self._is_bound = False
        self._later()

    def _bound(self) -> None:
        """Offer the values that this model, these GPUs and this release allow."""
        self._is_bound = True
        bounds = settings.bounds(self._asked())
        # A given value that is not round is offered until model or GPUs change.
        is_same = (self._model.value, self._gpus.value) == self._given_for
        share, context, sequences, *sizes = self._given if is_same else (None,) * 6
        parts.offer(self._share, _offered(_SHARES, bounds.utilization, share), 0)
        parts.offer(self._context, _offered(bounds.contexts, bounds.context, context), 0)
        parts.offer(self._sequences, _offered(bounds.sequences, bounds.default_sequences, sequences), 0)
        usual = (bounds.whole, 1, 1)
        for slider, sizes_given, size in zip((self._tp, self._pp, self._dp), sizes, usual, strict=True):
            offered = sorted({*bounds.sizes, *([sizes_given] if sizes_given else [])})
            parts.offer(slider, [(str(size_offered), size_offered) for size_offered in offered], size)

    def _asked(self) -> settings.PlanRequest:
        return settings.PlanRequest(
            self._model.value,
            self._gpus.value,
            self._vllm.value,
            self._share.value or None,
            self._context.value or None,
            self._sequences.value or None,
            self._tp.value,
            self._pp.value,
            self._dp.value,
            self._further.value.strip(),
        )

    def _update(self) -> None:
        if not self._is_bound:
            self._bound()
        self._show(self._planner.told(self._asked()))

    def _show(self, report: settings.PlanReport) -> None:
        self._error.show(parts.said(report.error or report.note))
        self._overview.show(report.overview)
        self._terms.show(report.terms)
        self._command.show(parts.command(report.command) if report.command else None)
        self._copy.text = report.command
        self._copy.layout.display = None if report.command else "none"


def _slider(value: Any) -> ipywidgets.SelectionSlider:
    return ipywidgets.SelectionSlider(options=[(str(value or _DEFAULT), value or 0)])


def _offered(values: Iterable[float], default: float | None, chosen: float | None) -> list[tuple[str, float]]:
    """Values in ascending order with the default, which is 0, at its position; last if unknown."""
    others = sorted({*(value for value in values if value != default), *([] if chosen is None else [chosen])})
    items = [(str(value), value) for value in others]
    below = sum(default is None or value <= default for value in others)
    name = _DEFAULT if default is None else f"{_DEFAULT}: {default}"
    return [*items[:below], (name, 0), *items[below:]]
