"""Panels for JupyterLab: diagnose a log, plan a start, check a command, watch cards, compare nodes, look at runs.

Each panel is a model, which is a function from what was asked to what is shown, and a thin view of it. A panel needs
ipywidgets, which the extra `lab` installs; `offered` shows it where somebody is there to use it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vllm_runbooks.core import extras
from vllm_runbooks.core.display import Shown
from vllm_runbooks.core.errors import InputError

if TYPE_CHECKING:
    from vllm_runbooks.host.nodes.records import CheckedCluster

__all__ = ["commands", "diagnose", "gpus", "is_attended", "nodes", "offered", "plan", "runs"]

PANELS = {
    "diagnose": "log_panel", "plan": "plan_panel", "commands": "command_panel", "gpus": "gpu_panel",
    "nodes": "node_panel", "runs": "run_panel",
}  # fmt: skip


def diagnose(evidence: str = "", *, pasted: str = "", vllm: str = "", gpus: str = "", lang: str | None = None) -> Any:
    """The panel that diagnoses a log: pasted, uploaded, a file of this host or a recorded case.

    Args:
        evidence: What it shows at first.
        pasted: A log that it shows at first in place of that.
        vllm: Release that wrote the log, where the log does not say.
        gpus: The cards of the start, for the plan.
        lang: Language of the texts, as in `zh`; None is that of `VLLM_RUNBOOKS_LANG`, else English.

    Raises:
        InputError: ipywidgets is not installed, or there is no such language.
    """
    return _panel("diagnose", evidence=evidence, pasted=pasted, vllm=vllm, gpus=gpus, lang=lang)


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
    """The panel that plans a start while its settings are dragged.

    Args:
        model: Of the catalog, or a folder with its config.json.
        gpus: The cards, as in 8xRTX3090.
        vllm: The release; empty is the newest that is known.
        tp: Tensor parallel size; None, with the next two: over as many of the cards as models are split.
        pp: Pipeline parallel size.
        dp: Data parallel size.
        options: Engine options by argparse destination; those that have a slider set it.

    Raises:
        InputError: ipywidgets is not installed.
    """
    return _panel("plan", model=model, gpus=gpus, vllm=vllm, tp=tp, pp=pp, dp=dp, options=options)


def commands(text: str = "", *, vllm: str = "", gpus: str = "", lang: str | None = None) -> Any:
    """The panel that checks a command while it is written.

    Args:
        text: What it shows at first: a command, script, manifest, program or page.
        vllm: The release; empty is the image's tag, else the newest that is known.
        gpus: The cards, where they are known.
        lang: As for `diagnose`.

    Raises:
        InputError: ipywidgets is not installed, or there is no such language.
    """
    return _panel("commands", text=text, vllm=vllm, gpus=gpus, lang=lang)


def gpus(snapshot: str = "", *, need_gib: float = 0.0, every_s: float = 2.0) -> Any:
    """The panel that shows a host's cards, live or from a snapshot, with the card for the next start.

    Args:
        snapshot: A snapshot's file or a recorded host; empty is this host, looked at again and again.
        need_gib: Memory that the start needs; 0: the share that a server takes by default.
        every_s: Seconds between two looks.

    Raises:
        InputError: ipywidgets is not installed.
    """
    return _panel("gpus", snapshot=snapshot, need_gib=need_gib, every_s=every_s)


def nodes(snapshot: str = "", *, found: CheckedCluster | str | None = None) -> Any:
    """The panel that lays several nodes side by side: what differs, what it means, and what each needs.

    Args:
        snapshot: What `cluster check --out` wrote, a folder of snapshots or a recorded case; several, by commas.
        found: Nodes that were read or asked already, which are shown where no snapshot is named.

    Raises:
        InputError: ipywidgets is not installed.
    """
    return _panel("nodes", snapshot=snapshot, found=found)


def runs(subject: str = "") -> Any:
    """The panel that shows what was checked, run, started and probed on this host.

    Args:
        subject: What is shown first; empty is everything.

    Raises:
        InputError: ipywidgets is not installed.
    """
    return _panel("runs", subject=subject)


def offered(panel: str, otherwise: Shown, **given: Any) -> Any:
    """A panel where somebody is there to use it, else what stands in its place: headless runs store no widgets.

    Args:
        panel: One of `PANELS`.
        otherwise: The same content as a plain view.
        given: What the panel takes.

    Raises:
        InputError: There is no such panel, or it does not take what is given.
    """
    if panel not in PANELS:
        raise InputError(f"{panel}: is no panel; give {', '.join(sorted(PANELS)[:-1])} or {max(PANELS)}")
    return _panel(panel, **given) if is_attended() and not extras.missing("the panels") else otherwise


def is_attended() -> bool:
    """Whether a person runs this cell: their front end lets a cell ask for input, which no headless executor does."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return bool(getattr(getattr(shell, "kernel", None), "_allow_stdin", False))


def _panel(name: str, **given: Any) -> Any:
    extras.require("the panels")
    return importlib.import_module(f"vllm_runbooks.jupyter.{PANELS[name]}").Panel(**given)
