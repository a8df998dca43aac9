"""Measure how CPU time grows with the size of the input, and draw it: `python tests/benchmarks/growth.py FOLDER`.

Writes a chart per kind of input into the folder, and prints the figures as a table in Markdown. Times are processor
seconds of whole processes with their start-up; for a number of patterns, of the reader alone. The largest logs need
4 GB on the disk and minutes of processor time.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import costs
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.views import drawing


class Growth(NamedTuple):
    """CPU time by size of one kind of input."""

    name: str
    title: str
    unit: str
    sizes: Sequence[int]
    measure: Callable[[Path, int], float]
    """Processor seconds for a size, with a folder for the input."""


def _of(folder: Path, *command: str) -> float:
    return costs.measured(sys.executable, "-m", "vllm_runbooks", *command, out=folder / "out").cpu_seconds


def _written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def _server_log(folder: Path, size: int) -> float:
    """A running server: statistics and access lines."""
    lines = (line for line in costs.chatter(60_000).splitlines(keepends=True) if " INFO" in line)
    block = "".join(line for line in lines if " request " not in line)
    with (folder / "a.log").open("w", encoding="utf-8") as file:
        file.write(costs.START)
        for _ in range(size * costs.MIB // len(block) + 1):
            file.write(block)
    return _of(folder, "diagnose", str(folder / "a.log"))


def _failed_log(folder: Path, size: int) -> float:
    """The same with requests, debug lines and warnings, and a failure at its end."""
    costs.write(folder / "a.log", size * costs.MIB)
    return _of(folder, "diagnose", str(folder / "a.log"))


def _starts(folder: Path, count: int) -> float:
    """Launches in one file, as of a container that restarts."""
    return _of(folder, "diagnose", _written(folder, "a.log", costs.START * count))


def _patterns(_: Path, count: int) -> float:
    evidence = Evidence((Document("a.log", costs.chatter(20_000)),))
    read = costs.reader_of(evidence, count)
    return min(costs.seconds(read) for _ in range(3))


def _script(folder: Path, count: int) -> float:
    text = "".join(f"vllm serve Qwen/Qwen3-8B --port {8000 + n % 1000} --max-model-len 8192\n" for n in range(count))
    return _of(folder, "lint", _written(folder, "a.sh", text))


def _plan(folder: Path, count: int) -> float:
    return _of(folder, "plan", "deepseek-ai/DeepSeek-V3", "--gpus", f"{count}xH200")


GROWTHS = (
    Growth("log", "diagnose: log of statistics and access lines", "MiB", (1, 16, 64, 256, 2048), _server_log),
    Growth("failed", "diagnose: log with requests and a failure", "MiB", (1, 4, 16, 64), _failed_log),
    Growth("starts", "diagnose: launches in one log", "launches", (1, 10, 50, 100, 200), _starts),
    Growth("patterns", "log reader, 20,000 lines: patterns of the catalog", "patterns", (50, 200, 400, 700), _patterns),
    Growth("script", "lint: launches in one script", "launches", (1, 100, 500, 1000, 2000), _script),
    Growth("gpus", "plan of DeepSeek-V3: GPUs", "GPUs", (8, 64, 512, 2048, 4096), _plan),
)  # fmt: skip


def main(folder: Path) -> None:
    """Measure all, write the charts into `folder` and print the table."""
    print("| input | sizes | CPU seconds |\n|---|---|---|")
    for growth in GROWTHS:
        with tempfile.TemporaryDirectory() as name:
            times = [growth.measure(Path(name), size) for size in growth.sizes]
        sizes, figures = (", ".join(some) for some in ((f"{n:,}" for n in growth.sizes), (f"{t:.2f}" for t in times)))
        print(f"| {growth.title} | {sizes} {growth.unit} | {figures} |", flush=True)
        ends = (f"{growth.sizes[0]:,}", f"{growth.sizes[-1]:,} {growth.unit}")
        chart = drawing.curves({"CPU seconds": times}, growth.sizes, ends, f"{growth.title}: CPU seconds")
        # As an image it has no colors of a page: a grey that light and dark pages show.
        image = chart.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" color="#768390" ', 1)
        (folder / f"growth-{growth.name}.svg").write_text(f"{image}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
