"""Panels for JupyterLab: diagnose a log, plan a launch, check a command, watch GPUs, and more.

Each panel is a model, a function from a request to content, and a thin view. A panel needs
ipywidgets, which the extra `lab` installs; `offered` shows it only in an interactive session.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from vllm_runbooks.core import extras
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.errors import InputError

if TYPE_CHECKING:
    from vllm_runbooks.host.nodes.records import CheckedCluster
    from vllm_runbooks.jupyter.log_model import FixedLog
    from vllm_runbooks.jupyter.log_panel import LogPanel

__all__ = ["commands", "diagnose", "gpus", "is_attended", "log", "nodes", "offered", "plan", "runs"]

PANELS = {
    "diagnose": "log_panel:LogPanel",
    "plan": "plan_panel:PlanPanel",
    "commands": "command_panel:CommandPanel",
    "gpus": "gpu_panel:GpuPanel",
    "nodes": "node_panel:NodePanel",
    "runs": "run_panel:RunPanel",
}
_LOG_PANELS: dict[tuple[tuple[str, str], ...], LogPanel] = {}
"""The panel that drives a runbook, by its arguments: in a kernel there is one."""


def diagnose(evidence: str = "", *, pasted: str = "", vllm: str = "", gpus: str = "", lang: str | None = None) -> Any:
    """Diagnose a log: pasted, uploaded, a file of this host or a recorded case.

    Args:
        evidence: Its first content.
        pasted: A log as its first content instead.
        vllm: Release that wrote the log, if the log does not print it.
        gpus: GPUs of the launch, for the plan.
        lang: Language of the texts, as in `zh`; default: that of `VLLM_RUNBOOKS_LANG`, else
            English.

    Raises:
        InputError: ipywidgets is not installed, or the language does not exist.
    """
    return _panel("diagnose", evidence=evidence, pasted=pasted, vllm=vllm, gpus=gpus, lang=lang)


def log(evidence: str = "", *, pasted: str = "", vllm: str = "", gpus: str = "", runbook: str) -> LogPanel | FixedLog:
    """The log of a runbook: in an interactive session that of its panel, including pasted logs.

    Its `summary`, each `step` and `judge` follow the panel; headless they use the parameters.
    Running the cell again with the same parameters keeps the panel with the pasted log.

    Args:
        evidence: A file or recorded case.
        pasted: A log instead.
        vllm: Release that wrote the log, if the log does not print it.
        gpus: GPUs of the launch.
        runbook: Id of the runbook.

    Raises:
        InputError: The evidence does not exist, in a headless run.
    """
    arguments = {"evidence": evidence, "pasted": pasted, "vllm": vllm, "gpus": gpus, "runbook": runbook}
    if not _is_usable():
        from vllm_runbooks.diagnosis.render import log_steps
        from vllm_runbooks.jupyter.log_model import FixedLog
        from vllm_runbooks.reading import sources

        return FixedLog(log_steps.diagnosed(sources.load(evidence, pasted=pasted, vllm=vllm), gpus=gpus), runbook)
    key = tuple(arguments.items())
    if key not in _LOG_PANELS:
        _LOG_PANELS.clear()
        _LOG_PANELS[key] = _panel("diagnose", **arguments)
    return _LOG_PANELS[key]


def plan(
    model: str = "Qwen/Qwen3-8B",
    gpus: str = "2xRTX3090",
    *,
    vllm: str = "",
    tp: int | None = None,
    pp: int | None = None,
    dp: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Plan a launch while its settings are dragged.

    Args:
        model: Name in the catalog, or a folder with its config.json.
        gpus: GPUs, as in 8xRTX3090.
        vllm: The release; empty for the newest in the catalog.
        tp: Tensor parallel size; None, also for the next two, for as many GPUs as models are
            usually split over.
        pp: Pipeline parallel size.
        dp: Data parallel size.
        options: Engine options by argparse destination; options with a slider set it.

    Raises:
        InputError: ipywidgets is not installed.
    """
    return _panel("plan", model=model, gpus=gpus, vllm=vllm, tp=tp, pp=pp, dp=dp, options=options)


def commands(text: str = "", *, vllm: str = "", gpus: str = "", lang: str | None = None) -> Any:
    """Check a command while it is typed.

    Args:
        text: Its first content: a command, script, manifest, program or page.
        vllm: The release; empty for that of the image's tag, else the newest in the catalog.
        gpus: GPUs, if known.
        lang: As for `diagnose`.

    Raises:
        InputError: ipywidgets is not installed, or the language does not exist.
    """
    return _panel("commands", text=text, vllm=vllm, gpus=gpus, lang=lang)


def gpus(snapshot: str = "", *, need_gib: float = 0.0, every_s: float = 2.0) -> Any:
    """The panel that shows a host's GPUs, live or from a snapshot, and recommends one for the next launch.

    Args:
        snapshot: A snapshot's file or a recorded host; empty: this host, live.
        need_gib: Memory that the launch needs in GiB; 0: the share that a server uses by default.
        every_s: Seconds between two looks.

    Raises:
        InputError: ipywidgets is not installed.
    """
    return _panel("gpus", snapshot=snapshot, need_gib=need_gib, every_s=every_s)


def nodes(snapshot: str = "", *, found: CheckedCluster | str | None = None) -> Any:
    """The panel that compares several nodes: differences, their meaning, and the environment of each.

    Args:
        snapshot: A file of `cluster check --out`, a folder of snapshots or a recorded case; several, by commas.
        found: Checked nodes to show if no snapshot is named.

    Raises:
        InputError: ipywidgets is not installed.
    """
    return _panel("nodes", snapshot=snapshot, found=found)


def runs(subject: str = "") -> Any:
    """List checks, runs, launches and probes of this host.

    Args:
        subject: The first subject shown; empty for all.

    Raises:
        InputError: ipywidgets is not installed.
    """
    return _panel("runs", subject=subject)


def offered(panel: str, otherwise: RenderedView | None = None, **arguments: Any) -> Any:
    """A panel in an interactive session, else a plain view: headless runs store no widgets.

    Args:
        panel: One of `PANELS`.
        otherwise: The same content as a plain view; None if the runbook shows it elsewhere.
        arguments: Arguments of the panel.

    Raises:
        InputError: The panel does not exist, or does not accept the arguments.
    """
    if panel not in PANELS:
        raise InputError(f"{panel}: is not a panel; use {', '.join(sorted(PANELS)[:-1])} or {max(PANELS)}")
    if _is_usable():
        return _panel(panel, **arguments)
    return RenderedView.nothing("The panel is shown in JupyterLab.") if otherwise is None else otherwise


def is_attended() -> bool:
    """Whether a person runs this cell: a headless executor does not allow input requests."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return bool(getattr(getattr(shell, "kernel", None), "_allow_stdin", False))


def _is_usable() -> bool:
    return is_attended() and not extras.missing("the panels")


def _panel(name: str, **arguments: Any) -> Any:
    extras.require("the panels")
    return resolve_name(f"vllm_runbooks.jupyter.{PANELS[name]}")(**arguments)
