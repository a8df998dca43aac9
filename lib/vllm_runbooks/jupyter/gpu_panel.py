"""The GPUs panel."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

import ipywidgets

from vllm_runbooks.core.views.elements import BLUE, cut
from vllm_runbooks.jupyter import gpu_model as cards
from vllm_runbooks.jupyter import parts

_MOST_S = 900.0
"""Seconds after which a live view stops."""
_SILENT_S = 180.0
"""Seconds without an answer from a page after which it stops: a background page may answer once a
minute."""
_LEAST_S = 0.5
_AGAIN = "What is shown is the last look; press Watch live to go on."


class GpuPanel(parts.BasePanel):
    """GPUs of this host, watched live, or those of a snapshot; recommends one for the next launch."""

    def __init__(self, snapshot: str = "", need_gib: float = 0.0, every_s: float = 2.0) -> None:
        self._every_s = max(every_s, _LEAST_S)
        self._task: asyncio.Task[None] | None = None
        self.unseen = 0
        """Looks since a page last reported that it shows them."""
        self._source = ipywidgets.Combobox(
            value=snapshot, options=cards.recorded(), placeholder="this host", continuous_update=False
        )
        self._need = ipywidgets.BoundedFloatText(value=need_gib, min=0, max=100_000, step=1)
        self._live = ipywidgets.ToggleButton(value=False, description="Watch live", tooltip="look again and again")
        self._live.layout = ipywidgets.Layout(width="auto", margin="0 16px 6px 0")
        self._again = parts.button("Refresh", "read the GPUs again")
        self._error, self._stopped, self._cards, self._chosen, self._findings = (parts.HtmlView() for _ in range(5))
        super().__init__(
            "GPUs",
            "free memory of each GPU, and which one to use for the next launch",
            [
                parts.row(
                    parts.field("this host, a file or a recorded host", self._source, "300px"),
                    parts.field("GiB needed (0: default)", self._need, "240px"),
                    self._live,
                    self._again,
                ),
                self._error,
                self._stopped,
                self._chosen,
                parts.folds(
                    ("Problems for vLLM", self._findings),
                    ("As reported by the driver", self._cards),
                    is_open=True,
                ),
            ],
        )
        self._again.on_click(lambda _: self._update())
        for field in (self._source, self._need):
            field.observe(self._look_anew, "value")
        self._live.observe(self._switch, "value")
        self.head.observe(self._seen, "beat")
        self._update()

    def close(self) -> None:
        """Close the panel and stop watching."""
        self.stop()
        super().close()

    def stop(self, why: str = "") -> None:
        """Stop watching; the panel shows the reason if the user did not request it."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._live.value = self.head.is_live = False
        self._stopped.show(parts.said(why, BLUE))

    def _seen(self, _: Any) -> None:
        self.unseen = 0

    def _look_anew(self, _: Any) -> None:
        self.stop()
        self._update()

    def _need_gib(self) -> float | None:
        return self._need.value or None

    def _update(self) -> None:
        self._show(cards.report_on(self._source.value, need_gib=self._need_gib()))

    def _switch(self, change: Any) -> None:
        if not change["new"]:
            self.stop()
            return
        if self._source.value.strip():
            self._live.value = False
            self._error.show(parts.said("A snapshot does not change: empty its field to watch this host."))
            return
        try:
            loop = asyncio.get_running_loop()
            watch = cards.GpuWatch(need_gib=self._need_gib())
        except Exception as error:  # noqa: BLE001 - a driver fails in its own ways
            self._live.value = False
            self._error.show(parts.said(f"{cut(str(error))}; watching is not possible"))
            return
        self.unseen, self.head.is_live = 0, True
        self._stopped.show(None)
        self._task = loop.create_task(_look(weakref.ref(self), watch, self._every_s))
        # Not in the task itself: one that is cancelled before it began never runs.
        self._task.add_done_callback(lambda _: watch.close())

    def _show(self, report: cards.GpuReport) -> None:
        self._error.show(parts.said(report.error))
        self._cards.show(report.cards)
        self._chosen.show(report.chosen)
        self._findings.show(report.findings)


async def _look(panel: weakref.ref[GpuPanel], watch: cards.GpuWatch, every_s: float) -> None:
    """Watch by a weak reference until the panel is closed, collected or hidden, or times out."""
    for _ in range(int(_MOST_S / every_s)):
        current = panel()
        if current is None or current.comm is None:
            return
        # Looks are counted, not seconds: while a cell runs, neither is there a look nor is a page heard.
        current.unseen += 1
        if current.unseen > _SILENT_S / every_s:
            current.stop(f"Stopped watching: no page showed this for {_SILENT_S / 60:g} minutes. {_AGAIN}")
            return
        try:
            current._show(watch.look())  # noqa: SLF001 - the panel's own task
        except Exception as error:  # noqa: BLE001 - a driver fails in its own ways
            current.stop(f"Stopped watching: the GPUs could not be read ({cut(str(error))}). {_AGAIN}")
            return
        del current
        await asyncio.sleep(every_s)
    if (current := panel()) is not None:
        current.stop(f"Stopped watching after {_MOST_S / 60:g} minutes. {_AGAIN}")
