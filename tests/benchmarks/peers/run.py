"""Ask every peer about every case, record the answers, and write the tables of docs/peers.md.

    python tests/benchmarks/peers/run.py --venv-python PATH   asks the peers installed with PATH, writes rows.json
    python tests/benchmarks/peers/run.py --tables             prints the tables of docs/peers.md
    python tests/benchmarks/peers/run.py --docs               writes them into the page
    python tests/benchmarks/peers/run.py --figures            prints every figure of every launch

The environment needs the packages of `requirements.txt`. Nothing is downloaded: the hub is offline. Rows of this
project's own planner in `ours.json`, in the format of `rows.json`, become the first column.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from pages import write_between  # noqa: E402 - a script only finds modules in its folder

PAGE = HERE.parents[2] / "docs" / "peers.md"
PEERS = (
    "aiconfigurator",
    "llm-d-planner",
    "hf-mem",
    "accelerate",
    "gpustack",
    "ml-memguard",
    "llm-mem",
    "llm-mem-planner",
)
_BEGIN, _END = "<!-- tables: written by run.py --docs -->", "<!-- end of tables -->"

Row = Mapping[str, Any]
Case = Mapping[str, Any]


def ask(python: str) -> list[Row]:
    """The rows of all peers, each from its own script."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    rows: list[Row] = []
    for peer in PEERS:
        script = HERE / f"peer_{peer.replace('-', '_')}.py"
        done = subprocess.run([python, str(script)], check=True, stdout=subprocess.PIPE, text=True, env=environment)
        rows += [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"peer"')]
    return rows


def recorded() -> list[Row]:
    """The records, our own rows first."""
    ours = HERE / "ours.json"
    own: list[Row] = json.loads(ours.read_text(encoding="utf-8")) if ours.exists() else []
    rows: list[Row] = json.loads((HERE / "rows.json").read_text(encoding="utf-8"))["rows"]
    return own + rows


def _cases() -> list[Case]:
    found: list[Case] = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))["cases"]
    return found


def _full_length(case: Case) -> float | None:
    concurrency = case["printed"]["max_concurrency"]
    return None if concurrency is None else concurrency * case["max_model_len"]


def _one_request(case: Case) -> float | None:
    printed = case["printed"]
    if printed["kv_gib"] is None or printed["max_concurrency"] is None:
        return None
    gib: float = printed["kv_gib"] * case["tensor_parallel_size"] / printed["max_concurrency"]
    return gib


def printed(case: Case, figure: str) -> list[float]:
    """The printed values of a figure, for each of its meanings."""
    if figure == "request_gib":
        found = [_one_request(case)]
    elif figure == "kv_tokens":
        found = [case["printed"]["kv_tokens"], _full_length(case)]
    else:
        found = [case["printed"][figure]]
    return [value for value in found if value is not None]


def error(row: Row, case: Case, figure: str) -> float | None:
    """The relative error of a peer for the closest printed value; None if one is missing."""
    said, real = row.get(figure), printed(case, figure)
    if said is None or not real:
        return None
    off: float = min((said / value - 1 for value in real), key=abs)
    return off


def _percent(part: float) -> str:
    if part >= 1:
        return f"x{part + 1:.1f}"
    return f"{round(100 * part, 1) + 0.0:+.1f}%"


def _number(value: float, figure: str) -> str:
    if figure == "kv_tokens":
        return f"{value:,.0f}"
    if figure == "max_concurrency":
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return f"{value:.4f}" if 0 < value < 0.1 else f"{value:.2f}"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    head_row, *others = ("| " + " | ".join(row) + " |" for row in (head, *lines))
    return "\n".join((head_row, "|" + "---|" * len(head), *others))


def _figure_table(rows: Sequence[Row], figure: str) -> str:
    whole = "model_gib" if figure == "weights_gib" else figure
    peers = [
        p
        for p in dict.fromkeys(r["peer"] for r in rows)
        if any(r["peer"] == p and (r.get(figure) is not None or r.get(whole) is not None) for r in rows)
    ]
    by = {(row["peer"], row["case"]): row for row in rows}

    def cell(peer: str, case: Case) -> str:
        row = by.get((peer, case["id"]))
        if row is None:
            return ""
        said = row.get(figure)
        if said is None:
            of_all = row.get(whole)
            return "-" if of_all is None else f"{_number(of_all, figure)} in all"
        off = error(row, case, figure)
        return _number(said, figure) + ("" if off is None else f" ({_percent(off)})")

    lines = [
        [case["id"], _printed_cell(case, figure), *(cell(peer, case) for peer in peers)]
        for case in _cases()
        if any(by.get((p, case["id"]), {}).get(key) is not None for p in peers for key in (figure, whole))
    ]
    return _table(["", "printed", *peers], lines)


def _printed_cell(case: Case, figure: str) -> str:
    values = printed(case, figure)
    if not values:
        return "-"
    words = [_number(value, figure) for value in values]
    return words[0] if len(words) == 1 or case["printed"][figure] is None else f"{words[0]}; {words[1]}"


def _case_table() -> str:
    def line(case: Case) -> list[str]:
        share = case["gpu_memory_utilization"]
        cards = case["tensor_parallel_size"]
        return [
            case["id"],
            case["title"],
            case["release"],
            f"{cards} x {case['gpu_total_gib']:.2f}" if cards > 1 else f"{case['gpu_total_gib']:.2f}",
            "-" if share is None else f"{share:g}",
            f"{case['max_model_len']:,}",
        ]

    return _table(["", "launch", "vLLM", "GPU GiB", "utilization", "context"], map(line, _cases()))


def _verdict_table(rows: Sequence[Row]) -> str:
    asked = [case for case in _cases() if case["printed"]["verdict"] is not None]
    by = {(row["peer"], row["case"]): row["verdict"] for row in rows}
    peers = [
        p
        for p in dict.fromkeys(r["peer"] for r in rows)
        if any(by.get((p, c["id"])) in {"fits", "does not fit"} for c in asked)
    ]

    def words(peer: str, case: Case) -> str:
        said = by.get((peer, case["id"]), "")
        return f"**{said}**" if said and said != case["printed"]["verdict"] else said

    lines = [[case["id"], case["printed"]["verdict"], *(words(peer, case) for peer in peers)] for case in asked]
    return _table(["", "what happened", *peers], lines)


def _summary(rows: Sequence[Row]) -> str:
    cases = {case["id"]: case for case in _cases()}
    figures = ("weights_gib", "kv_gib", "kv_tokens", "max_concurrency", "request_gib")
    lines = []
    for peer in dict.fromkeys(row["peer"] for row in rows):
        own = [row for row in rows if row["peer"] == peer]
        cells = [peer, own[0]["version"]]
        for figure in figures:
            off = [abs(e) for row in own if (e := error(row, cases[row["case"]], figure)) is not None]
            cells.append(f"{100 * median(off):.1f}% of {len(off)}" if off else "-")
        judged = [
            row["verdict"] == real
            for row in own
            if (real := cases[row["case"]]["printed"]["verdict"]) and row["verdict"] in {"fits", "does not fit"}
        ]
        cells.append(f"{sum(judged)} of {len(judged)}" if judged else "-")
        lines.append(cells)
    head = ["", "version", "weights", "KV GiB", "KV tokens", "concurrency", "one request", "verdicts right"]
    return _table(head, lines)


def tables() -> str:
    """The generated part of the page."""
    rows = recorded()
    return _joined(
        ("## Results", "Median absolute error, and the number of launches.", _summary(rows)),
        ("## The launches", "", _case_table()),
    )


def figures() -> str:
    """Every figure of every launch."""
    rows = recorded()
    parts = (
        ("weights_gib", "Weights per GPU, GiB", ""),
        ("kv_gib", "KV cache per GPU, GiB", ""),
        (
            "kv_tokens",
            "Tokens in the KV cache",
            "Printed: tokens; concurrency times context. Errors are against the nearer.",
        ),
        ("max_concurrency", "Requests at full context", "The peers count whole requests."),
        (
            "request_gib",
            "KV cache of one request at full context, GiB on all GPUs",
            "Printed: KV cache divided by concurrency.",
        ),
    )
    tables = [(f"## {title}", note, _figure_table(rows, figure)) for figure, title, note in parts]
    return _joined(*tables, ("## Does it fit?", "Wrong verdicts are bold.", _verdict_table(rows)))


def _joined(*groups: Sequence[str]) -> str:
    return "\n\n".join(part for group in groups for part in group if part)


def main() -> None:
    """Parse the command line and run it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--venv-python", help="the interpreter that the peers are installed for")
    what.add_argument("--tables", action="store_true")
    what.add_argument("--docs", action="store_true")
    what.add_argument("--figures", action="store_true")
    given = parser.parse_args()
    if given.venv_python:
        rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in ask(given.venv_python))
        (HERE / "rows.json").write_text(f'{{"rows": [\n{rows}\n]}}\n', encoding="utf-8")
    elif given.tables:
        sys.stdout.write(tables() + "\n")
    elif given.figures:
        sys.stdout.write(figures() + "\n")
    else:
        write_between(PAGE, _BEGIN, _END, tables())


if __name__ == "__main__":
    main()
