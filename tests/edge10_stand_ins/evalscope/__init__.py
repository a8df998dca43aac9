"""Fake of EvalScope."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recorded import call


class TaskConfig:
    """The task of an evaluation."""

    def __init__(self, **kwargs: Any) -> None:
        self.asked = kwargs


def run_task(*, task_cfg: TaskConfig | str) -> None:
    if isinstance(task_cfg, TaskConfig):
        call("run_task", **task_cfg.asked)
    else:
        call("run_task", Path(task_cfg).read_text(encoding="utf-8"))
