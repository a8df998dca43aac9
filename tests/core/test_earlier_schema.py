"""Documents that an earlier release wrote are read: schema 1 named some keys otherwise."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vllm_runbooks import cli
from vllm_runbooks.core.earlier_schema import HOST, SERVER, rename_keys, upgrade
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.diff import differences
from vllm_runbooks.edge10.host import snapshots as edge10_snapshots
from vllm_runbooks.history.store import opened
from vllm_runbooks.host import snapshots as host_snapshots
from vllm_runbooks.host.nodes import loading as node_loading
from vllm_runbooks.probe import observations

CASES = Path(__file__).parents[2] / "catalog" / "cases"
EARLIER = {names_id: {now: before for before, now in names.items()} for names_id, names in (("h", HOST), ("s", SERVER))}
INVENTORY = {
    "schema": 2,
    "kind": "inventory",
    "timestamp": "2026-01-31T12:00:00Z",
    "gpus": [
        {"index": 0, "is_mig": True, "mig_instances": [{"name": "1g.10gb"}], "throttled_by": ["heat"]},
        {"index": 1, "processes": [{"pid": 7, "is_host_pid": True}]},
    ],
    "pairs": [{"first": 0, "second": 1}],
    "host": {"foreign_gpus": 1},
}


def cluster(text: str, where: str) -> Any:
    Path(where).write_text(text, "utf-8")
    return node_loading.nodes(where)


@pytest.mark.parametrize(
    ("path", "read", "names"),
    [
        (None, host_snapshots.read, "h"),
        ("cluster-one-way/cluster.json", cluster, "h"),
        ("edge10-qwen3-vl-4b/host.json", edge10_snapshots.read, "h"),
        ("probe-queue-overload/probe.json", observations.read_observation, "s"),
    ],
)
def test_a_recorded_document_of_schema_1_is_read(
    path: str | None, read: Callable[[str, str], Any], names: str, tmp_path: Path
) -> None:
    """As the same document with the present names is."""
    now = INVENTORY if path is None else json.loads((CASES / path).read_text("utf-8"))
    before = rename_keys(now, EARLIER[names]) | {"schema": 1}
    where = str(tmp_path / "recorded.json")

    assert before != now | {"schema": 1}
    assert read(json.dumps(before), where) == read(json.dumps(now), where)


@pytest.mark.parametrize("schema", [2, 3, True, None, "1", [1]])
def test_other_documents_are_unchanged(schema: Any) -> None:
    """Their reader accepts or rejects them."""
    data = {"schema": schema, "taken": "2026-01-31T12:00:00Z"}

    assert upgrade(data, HOST) is data


WRITTEN = Path(__file__).with_name("schema_1")
"""Files that a release with schema 1 wrote."""


@pytest.mark.parametrize(
    ("command", "status", "printed"),
    [
        ("diagnose {}/pack.zip", 1, "port.in_use"), ("diagnose {}/case", 1, "port.in_use"),
        ("inventory {}/inventory.json", 0, "No NVIDIA driver"),
        ("probe {}/probe.json", 1, "no server at this address"),
        ("diff {}/launch.json {}/launch.json", 0, "SAME"),
        ("diff {}/probe.json {}/probe.json", 0, "SAME"),
        ("diff {}/results.json {}/results.json", 0, "SAME"),
        ("history list", 0, "2 of 3 runs failed"),
        ("show 483cc01ec730", 0, "The port is taken by another process"),
        ("show 4010b3187a7d", 0, "Nothing answers"),
    ],
)  # fmt: skip
def test_files_of_schema_1_are_read(
    command: str, status: int, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pack, a case, an inventory, a probe, a launch, results and a history, each by the command that reads it."""
    folder = shutil.copytree(WRITTEN, tmp_path / "written")
    (folder / "history.sqlite").write_bytes(gzip.decompress((folder / "history.sqlite.gz").read_bytes()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_RUNBOOKS_HISTORY", str(folder / "history.sqlite"))
        assert cli.run(command.format(*[folder] * 2).split()) == status
    assert printed in capsys.readouterr().out


RESULTS = {"rungs": {"port": "passed"}, "load": {"at_once": 4, "whole": {"p50_ms": 1.0}}, "facts": {"kv_use": 0.5}}
NOW = {
    "health_checks": {"port": "passed"},
    "load": {"concurrency": 4, "end_to_end_latency": {"p50_ms": 1.0}},
    "facts": {"kv_use": 0.5},
}


def test_probes_of_an_earlier_history_are_read(tmp_path: Path) -> None:
    """From the database and from an export; the names of requested options stay."""
    with opened(tmp_path / "history.sqlite", say=print, is_needed=True) as kept:
        id_ = kept.begin("probe", "http://127.0.0.1:8000", inputs={"at_once": 4})
        kept.end(id_, Verdict.PASS, "", seconds=1.0, results=RESULTS)
        (entry,) = kept.beginning(id_)
        wake = kept.begin("wake", "nightly", inputs={"does": "run"})
        standing = {"told": {"(job)": "pass"}}
        kept.end(wake, Verdict.PASS, "", seconds=1.0, results={"standing": standing, "change": {"says": "x"}})
        (woken,) = kept.beginning(wake)
    exported = {"schema": 1, "id": "0", "kind": "probe", "subject": "x", "began": "", "inputs": {"at_once": 4}}

    assert woken.inputs == {"action": "run"}
    assert woken.results == {"standing": {"reported": {"(job)": "pass"}}, "change": {"message": "x"}}
    assert (entry.inputs, entry.results) == ({"at_once": 4}, NOW)
    assert differences.read(exported | {"results": RESULTS}, "x").results == NOW
    assert differences.read(exported | {"results": RESULTS}, "x").inputs == {"at_once": 4}
