"""The page on other planners has their recorded answers and the printed figures."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "tests" / "benchmarks" / "peers"
PAGE = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
CASES: list[dict[str, Any]] = json.loads((PEERS / "cases.json").read_text(encoding="utf-8"))["cases"]
ROWS: list[dict[str, Any]] = json.loads((PEERS / "rows.json").read_text(encoding="utf-8"))["rows"]
LOGGED = [case for case in CASES if "/startup.log, lines" in case["source"]]


def test_the_tables_are_generated_from_the_records() -> None:
    """Every figure between the page's marks comes from `rows.json` and `cases.json`."""
    done = subprocess.run(
        [sys.executable, str(PEERS / "run.py"), "--tables"], check=True, capture_output=True, text=True
    )

    assert done.stdout.strip() in PAGE


def test_every_peer_has_a_row_for_every_launch() -> None:
    """A peer that fails on a launch has a row with the failure."""
    peers = {row["peer"] for row in ROWS}

    assert sorted((row["peer"], row["case"]) for row in ROWS) == sorted((p, c["id"]) for p in peers for c in CASES)
    assert len(peers) == 8


def test_a_row_names_the_version() -> None:
    """Versions are those of `requirements.txt`, one per peer."""
    asked = re.findall(
        r"^([\w-]+)(?:\[\w+\])?==([\d.]+)$", (PEERS / "requirements.txt").read_text("utf-8"), re.MULTILINE
    )

    assert {(row["peer"], row["version"]) for row in ROWS} <= set(asked)


@pytest.mark.parametrize("case", LOGGED, ids=lambda case: case["id"])
def test_printed_figures_are_in_the_log(case: dict[str, Any]) -> None:
    """Peers are compared with figures at the named lines of a recorded log."""
    path, _, lines = case["source"].rpartition("; ")[2].partition(", lines ")
    log = (ROOT / path).read_text(encoding="utf-8").splitlines()
    first, *_, last = (int(number) for number in re.findall(r"\d+", lines))
    text = "\n".join(log[first - 1 : last])
    printed = case["printed"]

    assert f"Model loading took {printed['weights_gib']:g} GiB" in text
    assert f"Available KV cache memory: {printed['kv_gib']:g} GiB" in text
    assert f"KV cache size: {printed['kv_tokens']:,} tokens" in text
    assert f"for {case['max_model_len']:,} tokens per request: {printed['max_concurrency']:g}x" in text


def test_every_launch_names_its_source() -> None:
    """Each printed figure has its place and release."""
    assert [case["id"] for case in CASES if not (case["source"] and case["release"] and case["config_source"])] == []
    assert [case["id"] for case in CASES if not (PEERS / "configs" / f"{case['config']}.json").is_file()] == []


def test_the_sentences_on_verdicts_are_true() -> None:
    """No peer predicts P3, three notice the video of S7, and S2 to S4 and N2 are rejected as described."""
    said = {(row["peer"], row["case"]): row for row in ROWS}

    def verdicts(case: str, verdict: str) -> set[str]:
        return {peer for (peer, asked), row in said.items() if asked == case and row["verdict"] == verdict}

    assert verdicts("P3", "fits") == {"aiconfigurator", "llm-d-planner", "gpustack", "ml-memguard"}
    assert verdicts("P3", "does not fit") == set()
    assert verdicts("S7", "does not fit") == {"llm-d-planner", "gpustack", "ml-memguard"}
    assert [said["llm-d-planner", case]["max_concurrency"] for case in ("S2", "S3", "S4")] == [0, 0, 0]
    assert {said["ml-memguard", case]["verdict"] for case in ("S2", "S3", "S4")} == {"does not fit"}
    latent = {row["case"] for row in ROWS if row["peer"] == "llm-mem-planner" and row["verdict"] != "error"}
    assert latent == {"N2", "N3", "N6", "H8"}
    refused = {(row["peer"], row["case"]) for row in ROWS if row["verdict"] == "does not fit"}
    assert {pair for pair in refused if pair[1].startswith(("N", "H"))} == {
        ("ml-memguard", "N2"),
        ("ml-memguard", "H8"),
        ("aiconfigurator", "H8"),
        ("gpustack", "H5"),
        ("llm-d-planner", "H5"),
    }
