"""Every checking command begins with its answer, and has the tables in `--explain`."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.console import terminal
from vllm_runbooks.core.records import Outcome, Severity, Verdict
from vllm_runbooks.core.views import text_width
from vllm_runbooks.core.views.styled import Layout, Tone, laid_out, plain
from vllm_runbooks.core.views.summary import WIDEST, Statement, Summary, first_clauses, summary_view
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.history import command as history_command
from vllm_runbooks.history import render as history_render
from vllm_runbooks.history.records import HistoryEntry, Trend, TrendPoint
from vllm_runbooks.host import inspection, leftovers
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.host import summaries as host_summaries
from vllm_runbooks.host.finding_views import as_sentence
from vllm_runbooks.host.leftovers import Leftover
from vllm_runbooks.host.nodes import loading as node_loading
from vllm_runbooks.host.nodes import summaries as node_summaries
from vllm_runbooks.host.records import GpuFacts, GpuProcess, Inspected, Inventory
from vllm_runbooks.probe import checking
from vllm_runbooks.probe import summaries as probe_summaries
from vllm_runbooks.probe.records import LogSummary
from vllm_runbooks.probe.starts import Attempt, Check, Guarded, LaunchChange, LaunchResult
from vllm_runbooks.reading import sources
from vllm_runbooks.serve import render as serve_render

COMMANDS = {"inventory.json": ("inventory",), "probe.json": ("probe",), "cluster.json": ("cluster", "check")}
CASES = sorted(
    (path.parent.name, *command)
    for name, command in COMMANDS.items()
    for path in folders.cases_dir().glob(f"*/{name}")
    if path.parent.name.startswith(("host-", "probe-", "cluster-"))
)
STATES = {
    0: ("OK ", "NO GPU ", "HEALTHY "),
    1: ("1 PROBLEM ", "2 PROBLEMS ", "3 PROBLEMS ", "DOWN ", "DEGRADED ", "REJECTED ", "NOT VLLM "),
}


def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, list[str]]:
    """Status and lines at 80 columns, with the command line that a user would have typed."""
    monkeypatch.setattr("sys.argv", ["vllm-runbooks", *words])
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    status, out, err = run(capsys, *words)
    assert err == ""
    return status, re.sub(r"\x1b\[[0-9;]*m", "", out).rstrip("\n").split("\n")


@pytest.mark.parametrize("words", CASES, ids=lambda words: words[0])
def test_a_recorded_case_is_answered_in_one_screen(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state in the first line agrees with the exit status; 24 lines of 100 columns are enough."""
    name, *command = words
    status, lines = printed(capsys, monkeypatch, *command, name)

    assert lines[0].startswith(STATES[status])
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    assert lines[-1].endswith(f"vllm-runbooks {' '.join(command)} {name} --explain")
    assert not [line for line in lines if "unknown  unknown" in line]


@pytest.mark.parametrize(
    ("words", "heading"),
    [(("inventory", "host-8xa100-shared"), "UNKNOWN"), (("probe", "probe-kv-pressure"), "FIGURES"),
     (("cluster", "check", "cluster-versions"), "CONNECTIVITY")],
)  # fmt: skip
def test_explain_has_the_tables(
    words: tuple[str, ...], heading: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary leaves them out."""
    _, lines = printed(capsys, monkeypatch, *words)
    _, explained = printed(capsys, monkeypatch, *words, "--explain")

    assert heading not in lines
    assert heading in explained


def test_a_host_names_the_gpu_for_the_next_launch() -> None:
    """With its command, the others' problems worst first, and only informative columns."""
    text = plain(summary_view(host_summaries.summarize(host_loading.inventory("host-8xa100-shared"), file="x.json")))

    assert text.startswith("3 PROBLEMS   8\u00d7 A100-80GB · synthetic example\n\n! GPU 0: ")
    assert "CUDA_VISIBLE_DEVICES=4 vllm-runbooks serve -- vllm serve MODEL" in text
    assert "  GPU  memory used  utilization" in text
    assert "Details of GPUs 2, 5-7 are unknown." in text


def inspected(*gpus: GpuFacts, **more: Any) -> Inspected:
    return inspection.inspect(Inventory(gpus=gpus, **more), catalog.specs())


def test_a_host_without_a_problem_shows_driver_release_and_size() -> None:
    """Common facts are in the first line, differences in a table with their users."""
    free = GpuFacts(0, "RTX 3090", total_mib=24576.0, reserved_mib=0.0, used_mib=0.0, busy_percent=0.0, processes=())
    busy = replace(free, index=1, used_mib=100.0, processes=(GpuProcess(7, "ann", "python"),))
    host = inspected(free, busy, driver="550.54", cuda="12.4", packages={"vllm": "0.19.0"})
    host = replace(host, findings=tuple(f for f in host.findings if f.severity is Severity.HINT))
    text = plain(summary_view(host_summaries.summarize(host)))

    head = "OK       2\u00d7 RTX 3090 · 24.0 GiB each · driver 550.54 · CUDA 12.4 · vLLM 0.19.0"
    assert text.startswith(f"{head}\n         No problems found.\n")
    assert "0    0.0 GiB      none" in text
    assert "1    0.1 GiB      process 7 of ann (python)" in text
    assert "vllm-runbooks plan MODEL --gpus local" in text


def test_a_host_without_a_gpu_has_a_reason_and_a_plan_for_another() -> None:
    """This is not a failure."""
    host = replace(inspected(no_gpus_reason="no NVIDIA driver answers on this host"), findings=())
    text = plain(summary_view(host_summaries.summarize(host)))

    assert text.startswith("NO GPU   No NVIDIA driver answers on this host\n")
    assert "vllm-runbooks plan MODEL --gpus 2xA100-80GB" in text


def test_a_host_whose_gpus_are_all_in_use_is_watched_next() -> None:
    """No GPU is named, and no command that would fail."""
    full = GpuFacts(0, "A100-80GB", total_mib=81920.0, reserved_mib=0.0, used_mib=80000.0, busy_percent=0.0)
    text = plain(summary_view(host_summaries.summarize(inspected(full, replace(full, index=1)))))

    assert "No GPU has enough free memory; wait for" in text
    assert "vllm-runbooks inventory --watch" in text
    assert "CUDA_VISIBLE_DEVICES" not in text


def test_matching_nodes_have_their_variables_and_the_next_command() -> None:
    """The measurements, an export line per node, and the command for launch files."""
    cluster = node_loading.nodes("cluster-healthy-pair")
    text = plain(summary_view(node_summaries.summarize(cluster, names=["cluster-healthy-pair"])))

    assert "The nodes reach each other on 3 ports." in text
    assert "All-reduce of 16 MiB: Gloo 0.42 s, NCCL 0.93 s. No problems found." in " ".join(text.split())
    assert text.count("export VLLM_HOST_IP=") == 2
    assert "vllm-runbooks cluster files MODEL --nodes cluster-healthy-pair --out start" in text
    asked = plain(summary_view(node_summaries.summarize(cluster)))
    assert "vllm-runbooks serve --hosts FILE MODEL" in asked
    through_ray = plain(summary_view(node_summaries.summarize(replace(cluster, method="ray"))))
    assert "vllm-runbooks serve --ray ADDRESS MODEL" in through_ray


def test_nodes_with_unknown_facts_are_unknown() -> None:
    """With their number and the measuring command; many nodes are counted, exports cut."""
    cluster = node_loading.nodes("cluster-healthy-pair")
    loose = replace(cluster, ok=None, connections=None, unmeasured=node_loading.nodes("cluster-3090-h800").unmeasured)
    text = plain(summary_view(node_summaries.summarize(loose)))

    assert text.startswith("UNKNOWN  ")
    assert "No problems found, but 10 facts could not be measured." in " ".join(text.split())
    assert "vllm-runbooks cluster check --ray ADDRESS" in text
    many = replace(cluster, nodes=cluster.nodes * 10, environments=cluster.environments * 10)
    text = plain(summary_view(node_summaries.summarize(many)))
    assert text.startswith("OK       20 nodes · ")
    assert "# and on 16 more nodes\n" in text


def test_a_server_that_is_down_names_the_check_that_proves_it() -> None:
    """Fact, proof, fix, and where to look next."""
    lines = health_lines("probe-engine-killed")

    assert lines[0] == "DOWN     http://127.0.0.1:51503 · tiny · vLLM 0.32.0"
    assert lines[2].startswith("✗ The engine died but the API server still responds")
    assert lines[3].startswith("  token | /v1/completions: 500: EngineCore encountered an issue.")
    assert [line for line in lines if line.startswith("  Fix   Save the server's log")]
    assert [line for line in lines if line.endswith("vllm-runbooks diagnose SERVER.log")]


def health_lines(case: str, **changes: Any) -> list[str]:
    health = replace(checking.health(sources.load(case)), **changes)
    return plain(summary_view(probe_summaries.summarize(health, catalog.serving()))).split("\n")


def test_a_change_of_the_server_has_options_cost_and_checks() -> None:
    """An unchecked one says how to check it; the load that was sent is shown."""
    lines = health_lines("probe-kv-pressure")

    assert "  Fix   Remove --num-gpu-blocks-override" in lines
    assert [line for line in lines if "add --command FILE and --gpus" in line]
    assert [line for line in lines if line.startswith("  time to first token    1.29 s   2.07 s")]
    assert "p99" not in " ".join(lines)


def test_a_server_without_requests_is_unknown() -> None:
    """Neither healthy nor down."""
    lines = health_lines("probe-healthy", outcome=Outcome.UNKNOWN)

    assert lines[0].startswith("UNKNOWN ")
    assert "No problems found" not in " ".join(lines)


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [("the cards differ", (), "The cards differ."), ("alpha is lost", ("alpha",), "alpha is lost."),
     ("node-b is lost", (), "node-b is lost."), ("--x is set.", (), "--x is set."), ("", (), "")],
)  # fmt: skip
def test_a_finding_reads_as_a_sentence(text: str, names: tuple[str, ...], expected: str) -> None:
    """With a capital, but for names and values, and a full stop."""
    assert as_sentence(text, names=names) == expected


def test_an_effect_is_cut_between_clauses() -> None:
    """Never inside a quotation, so a whole statement remains."""
    assert first_clauses("a" * 60 + "; " + "b" * 60, 72) == "a" * 60
    assert first_clauses("a" * 60 + "; " + "b" * 60, 220) == "a" * 60 + "; " + "b" * 60
    quoted = "it ends with `Version mismatch; the cluster was started with another release; " + "c" * 60 + "`"
    assert first_clauses(f"{quoted}; immediately", 72) == quoted
    listed = "with Ray, " + "d" * 80
    assert first_clauses(f"{listed}; e", 72) == listed


def test_fact_effect_and_action_are_listed() -> None:
    """With aligned labels, in the width of the summary."""
    statement = Statement("!", "It differs", Tone.WARN, id="x.y", effect="So.", action="Do.")
    lines = [
        str(line)
        for line in laid_out(summary_view(Summary("OK", statement.tone, (), statements=(statement,))), Layout())
    ]

    assert lines[-2:] == ["  So    So.", "  Fix   Do."]


def test_progress_is_shown_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a second, on standard error; a pipe has none."""
    monkeypatch.setattr(terminal, "_PATIENCE_S", 0.0)
    for is_terminal, expected in ((True, "vllm-runbooks: reading it …\n"), (False, "")):
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_terminal=is_terminal: is_terminal)
        with terminal.waiting("reading it"):
            time.sleep(0.2)
        assert capsys.readouterr().err == expected


JOB = folders.cases_dir() / "edge10-qwen3-vl-4b"


@pytest.mark.parametrize(
    ("words", "status", "first", "inside"),
    [(("check", "compiled.txt"), 1, "2 PROBLEMS   ", "edge10.tree_not_renamed"),
     (("compare", "results-float.txt", "results-quantised.txt"), 1, "LOST     qwen3 ", "-0.0437 to -0.0209"),
     (("compare", "results-float.txt", "results-quantised.txt", "--threshold", "0.5"), 0, "KEPT     ", "mmlu"),
     (("preflight", "compile", "--snapshot", "host.json"), 1, "1 PROBLEM   before compile · ", "  Note  1 more note.")],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_a_step_to_the_chip_is_answered_in_one_screen(
    words: tuple[str, ...], status: int, first: str, inside: str, request: pytest.FixtureRequest
) -> None:
    """With the worst problems or the deciding scores; `--explain` is longer."""
    capsys, monkeypatch = request.getfixturevalue("capsys"), request.getfixturevalue("monkeypatch")
    monkeypatch.chdir(JOB)
    found, lines = printed(capsys, monkeypatch, "edge10", *words)
    _, explained = printed(capsys, monkeypatch, "edge10", *words, "--explain")

    assert found == status
    assert lines[0].startswith(first)
    assert inside in "\n".join(lines)
    assert len(lines) <= 24
    assert lines[-1].endswith(" --explain")
    assert explained[0] != lines[0]


def test_leftovers_are_counted_and_only_proven_ones_are_in_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proven ones are first."""
    proven = Leftover("process", "71", 0, is_proven=True, proof="the mark of a launch that is gone")
    other = Leftover("segment", "psm_1", 1 << 20, is_proven=False, proof="named like vLLM's")
    monkeypatch.setattr(leftovers, "remove_leftover", lambda _: True)

    def lines(*items: Leftover, words: tuple[str, ...] = ()) -> list[str]:
        monkeypatch.setattr(leftovers, "find_leftovers", lambda _: list(items))
        return printed(capsys, monkeypatch, "leftovers", *words)[1]

    both = lines(other, proven)
    assert both[0] == "2 LEFTOVERS   1 shared memory segment · 1 process"
    assert lines(proven, replace(proven, name="72"))[0] == "2 LEFTOVERS   2 processes"
    assert [line.split()[0] for line in both[3:5]] == ["71", "psm_1"]
    assert both[-1] == "  Next  Remove the proven leftovers: vllm-runbooks leftovers --remove proven"
    alone = lines(other)
    assert "  Not proven to be from an earlier launch: named like vLLM's." in alone
    assert alone[-1].endswith("vllm-runbooks leftovers --remove NAME")
    assert lines(proven, words=("--remove", "proven")) == [
        "OK       No leftovers of this user's earlier vLLM launches on this host ·",
        "         removed: process 71",
    ]


def attempt(**changes: Any) -> Attempt:
    return replace(Attempt(1, "vllm serve m", None, Outcome.RUNNING, 3.0, 40.0, "ended with exit status 0"), **changes)


CHANGE = LaunchChange("memory was taken", "The same command again", "time")


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        (Guarded("a", None, (Check("port", LaunchResult.FAILED, "8000 is taken"),), (), 1),
         ["NOT STARTED   a check failed", "", "✗ 8000 is taken", "port"]),
        (Guarded("a", None, (Check("port", LaunchResult.PASSED, "free"),), (), 0, notes=("no driver",)),
         ["OK       passed checks: port · nothing was launched", "", "  Note  no driver"]),
        (Guarded("a", None, (), (), 0), ["OK       passed checks: none · nothing was launched"]),
        (Guarded("a", None, (), (attempt(),), 0, folder="/logs", waited_s=2.0),
         ["STOPPED  ready after 3.0 s · after 40 s it ended with exit status 0", "",
          "  Note  Waited 2.0 s for stable GPU memory.", "  Log   Log and report: /logs"]),
        (Guarded("a", None, (), (attempt(outcome=Outcome.FAILED, ready_s=None), attempt(number=2, change=CHANGE)), 0),
         ["STOPPED  try 2 of 2 · ready after 3.0 s · after 40 s it ended with exit status 0", "",
          "  Tried The same command again, because of memory was taken. Cost: time"]),
        (Guarded("a", None, (), (attempt(outcome=Outcome.FAILED, ready_s=None),), 1),
         ["FAILED   never ready · after 40 s it ended with exit status 0"]),
    ],
)  # fmt: skip
def test_a_launch_ends_with_how_it_went(launch: Guarded, expected: list[str]) -> None:
    """The state first; notes, changes and the log's folder after it."""
    assert " ".join(serve_render.text(launch).split()) == " ".join(" ".join(expected).split())


def test_serve_check_prints_its_answer_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`serve --check` prints the state before the lines of the checks, none wider than 100 columns in a pipe."""
    monkeypatch.setenv("COLUMNS", "")
    monkeypatch.setenv("VLLM_RUNBOOKS_LOCKS", str(tmp_path))
    command = ["vllm", "serve", str(tmp_path), "--port", "0", "--load-format", "dummy", "--no-such", "1"]

    status, _, err = run(capsys, "serve", "--check", "--vllm", "0.19.0", "--skip", "memory", "--", *command)

    lines = err.splitlines()
    assert status == 1
    assert lines[0].startswith("NOT STARTED")
    assert any(line.startswith("vllm-runbooks: command: failed: ") for line in lines)
    assert max(map(len, lines)) <= 100


def test_a_failed_launch_ends_with_its_cause_and_fix() -> None:
    """The diagnosis of its log, below its outcome."""
    answer = diagnosing.diagnose(sources.load("autoglm-3090-video-oom"))
    failed = attempt(outcome=Outcome.FAILED, ready_s=None, answer=answer)
    text = serve_render.text(Guarded("a", None, (), (failed,), 1, folder="/logs"))

    assert text.startswith("FAILED   never ready · after 40 s it ended with exit status 0\n\n✗ ")
    assert "oom.multimodal_encoder" in text
    assert "  Fix   " in text
    assert "Log and report: /logs" in text


def test_nodes_without_an_answer_or_gpu_are_in_the_first_line() -> None:
    """They must not be mistaken for GPU nodes."""
    unread = plain(summary_view(node_summaries.summarize(node_loading.nodes("cluster-wrong-token"))))
    assert unread.startswith("1 PROBLEM   1 node: node-a · 1 node could not be queried · ")

    cluster = node_loading.nodes("cluster-healthy-pair")
    without = tuple(
        replace(node, inventory=replace(node.inventory, gpus=(), no_gpus_reason="none")) for node in cluster.nodes
    )
    assert " · no GPU · " in plain(summary_view(node_summaries.summarize(replace(cluster, nodes=without))))


def test_a_server_s_log_is_summed_up() -> None:
    """Its own cause is closer than the address's."""
    log = LogSummary(("serve.log",), Outcome.FAILED, None, "CUDA out of memory")
    observed = replace(checking.health(sources.load("probe-engine-killed")).observation, log=log)

    lines = health_lines("probe-engine-killed", observation=observed)

    assert "  Log   failed: CUDA out of memory (serve.log)" in lines
    assert "SERVER.log" not in "\n".join(lines)


def test_the_history_begins_with_its_failures() -> None:
    """Of all runs; a long reason is cut at the summary's width."""
    entries = [
        HistoryEntry(f"{n:012x}", "run", "single-gpu-oom on a-case", "2026-11-21T08:00:00Z", 12.5, verdict, "why " * 40)
        for n, verdict in enumerate((Verdict.FAIL, Verdict.PASS, Verdict.ERROR, Verdict.FAIL))
    ]
    for some, about in (
        (entries, "3 of 4 runs failed (2 fail, 1 error)"),
        (entries[:1], "1 of 1 run failed"),
        (entries[1:2], "1 run: 1 pass"),
    ):
        assert history_render.summary_of(some).about == (about,)
        lines = history_render.listed(some).split("\n")
        assert len(lines) == len(some) + 1
        assert max(map(len, lines)) == (WIDEST if len(some) > 1 or some[0].verdict is Verdict.FAIL else len(lines[1]))
    long = replace(entries[1], subject="漢" * 99)
    assert text_width.width(history_render.listed([long]).split("\n")[1]) in (WIDEST - 1, WIDEST)


def test_further_changed_numbers_are_noted_as_far_as_they_fit() -> None:
    """The first ones are shown, one at least."""
    assert history_command._that_fit(["a" * 30, "b"]) == ["a" * 30, "b"]
    assert history_command._that_fit(["a" * 30, "b" * 30]) == ["a" * 30]
    point = TrendPoint("1", "2026-11-21T08:00:00Z", None, None, {})
    summary = history_render.summary_of_trend(Trend("x", (point,)), (), ["a", "b"])
    assert "  Note  For other changed numbers, add --fact a, --fact b." in plain(summary_view(summary))
    assert summary.state == "RUNNING"


@pytest.mark.parametrize(
    ("names", "first"),
    [(("Qwen3-4B",), "OK       1 of 1 model can be quantized and compiled · "),
     (("Qwen3-4B", "nonsense"), "UNKNOWN  1 of 2 models can be "),
     (("Qwen/Qwen2-VL-7B",), "LIMITED  0 of 1 model can be "), ((), "OK       6 of 13 models can be ")],
)  # fmt: skip
def test_models_of_the_toolchain_are_counted_first(
    names: tuple[str, ...], first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model that is partially listed or unknown is not OK if it was named."""
    assert run(capsys, "edge10", "models", *names, "--toolchain", "1.1.7")[1].startswith(first)
