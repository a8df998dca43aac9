"""Versions and GPUs that the tests ran on: python tests/tested_on.py writes them into docs/tested-on.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ruamel.yaml import YAML

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "live"))

import open_parts  # noqa: E402 - found by the path above
import set_up  # noqa: E402 - found by the path above
from pages import write_between  # noqa: E402 - found by the path above
from vllm_runbooks.catalog import options  # noqa: E402 - after the others

PAGE = HERE.parent / "docs" / "tested-on.md"
BEGIN, END = "<!-- versions: written by tests/tested_on.py -->", "<!-- end of versions -->"


def summary() -> str:
    """The generated part of the page."""
    constraints = (HERE / "constraints.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", constraints, re.MULTILINE))
    names = [path.name.removesuffix(".jsonl.xz") for path in (HERE / "benchmarks" / "parsers").glob("*.jsonl.xz")]
    parsers = sorted(names, key=lambda name: options.version_key(name) or (0, 0, 0, 0))
    gpus = YAML(typ="safe", pure=True).load(
        (HERE.parent / "catalog" / "tables" / "measured_gpus.yaml").read_text(encoding="utf-8")
    )
    launches = {name: row["launches"] for name, row in gpus.items()}
    counts = ", ".join(f"{name} ({count})" for name, count in sorted(launches.items(), key=lambda item: -item[1]))
    rows = [
        (
            f"vLLM {set_up.VERSION} on a CPU",
            "launches, failures and fixes, `serve`, `probe`, two nodes with `--nnodes`",
        ),
        (
            f"parsers of {len(parsers)} vLLM releases, {parsers[0]} to {parsers[-1]}",
            "`lint`: 1,000 generated commands for each release",
        ),
        (f"Ray {pinned['ray']}", "`check --ray`, `cluster check --ray`, `serve --ray`"),
        (f"JupyterLab {pinned['jupyterlab']}, papermill {pinned['papermill']}", "runbooks, panels"),
        (f"Chromium (Playwright {pinned['playwright']})", "JupyterLab, reports, the site and its pages"),
        (
            f"llm-compressor {open_parts.LLM_COMPRESSOR}, EvalScope {open_parts.EVALSCOPE}",
            "the open chain of `edge10-toolchain`, on a CPU",
        ),
        ("bash, nginx, promtool, systemd-analyze, ssh, Linux namespaces", "scripts and files that commands write"),
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (("program", "used for"), ("---", "---"), *rows))
    return (
        f"{table}\n\nMemory plans were compared with {sum(launches.values())} launches on {len(launches)} kinds of GPU,"
        f" by the figures in published logs: {counts}."
    )


if __name__ == "__main__":
    write_between(PAGE, BEGIN, END, summary())
