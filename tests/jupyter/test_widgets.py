"""The panels' models without a browser: results, one-line errors, and views."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import vllm_runbooks as rb
from vllm_runbooks.catalog import folders
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.history import store as history
from vllm_runbooks.host.gpu_memory import MemoryReading, Recorded
from vllm_runbooks.jupyter import command_model as scripts
from vllm_runbooks.jupyter import gpu_model as cards
from vllm_runbooks.jupyter import log_model as logs
from vllm_runbooks.jupyter import node_model as hosts
from vllm_runbooks.jupyter import plan_model as settings
from vllm_runbooks.jupyter import run_model as entries
from vllm_runbooks.reading import sources

BUSY = (
    "ValueError: Free memory on device cuda:0 (1.0/79.25 GiB) on startup is less than desired GPU memory utilization "
    "(0.9, 71.33 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
HOSTILE = '</code><img src=x onerror="window.PWN=1"><script>window.PWN=2</script>'
CARD = {"index": 0, "name": "NVIDIA A100-SXM4-80GB", "uuid": "GPU-1", "total_mib": 81920.0}
SERIES = [{"at_s": at, "gpus": [{**CARD, "used_mib": used}]} for at, used in ((0.0, 1000.0), (1.0, 30000.0))]


def _texts(told: Any) -> Iterator[RenderedView]:
    for value in vars(told).values():
        if isinstance(value, RenderedView):
            yield value
        elif isinstance(value, logs.LogDetails):
            yield from _texts(value)
        elif isinstance(value, tuple):
            yield from (
                part for each in value if isinstance(each, tuple) for part in each if isinstance(part, RenderedView)
            )


# Diagnose


def test_a_pasted_log_is_shown_completely() -> None:
    """The summary first; then the annotated log with the cause and how to verify it."""
    told = logs.report_on(logs.LogRequest(pasted=BUSY))
    assert told.error == ""
    assert told.summary
    assert told.summary.plain.startswith("FAILED   pasted text")
    assert "mem.free_below_utilization" in told.summary.plain
    assert told.details
    assert "▼ cause" in told.details.log.plain
    assert "<div data-cause " in told.details.log.html


def test_each_fix_has_a_button_with_its_command() -> None:
    """It is exactly the checked command; the summary's button copies the first one."""
    told = logs.report_on(logs.LogRequest(name="autoglm-3090-video-oom"))
    answer = diagnosing.diagnose(sources.load("autoglm-3090-video-oom"))
    assert told.details
    assert [way.command for way in told.details.ways] == [way.command or "" for way in answer.remedies]
    assert "Passed lint and plan." in told.details.ways[0].shown.plain
    assert told.fix == answer.remedies[0].command


def test_uploaded_files_are_one_launch() -> None:
    """Several logs, also packed ones, are diagnosed together before named or pasted ones."""
    files = (
        logs.Upload("a.log", b"INFO 11-20 08:03:55 [a.py:1] hello"),
        logs.Upload("b.log.gz", gzip.compress(BUSY.encode())),
    )
    told = logs.report_on(logs.LogRequest(uploads=files, name="tiny-cpu-served"))
    assert told.details
    assert "b.log.gz" in told.details.log.plain
    assert told.summary
    assert "mem.free_below_utilization" in told.summary.plain


def test_steps_of_a_runbook_show_the_log_of_the_request() -> None:
    """Each view is about the same log as the summary, and the panel does not repeat them."""
    views = (rb.render.log_steps.failure, rb.render.log_steps.fixes)
    told = logs.report_on(logs.LogRequest(pasted=BUSY, runbook="start-here", steps=views))
    assert told.diagnosed
    assert told.steps == tuple(view(told.diagnosed) for view in views)
    assert "Free the memory" in told.steps[1].plain
    assert told.details is None


def test_reading_ends_when_cancelled() -> None:
    """A long log is abandoned at its next piece, in one line."""
    request = logs.LogRequest(pasted=BUSY)
    request.cancelled.set()
    assert logs.report_on(request).error == "pasted text: reading was cancelled"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (logs.LogRequest(name="nothing-of-this-name"), "no such file, folder or recorded case"),
        (logs.LogRequest(name="probe-healthy"), "is a recorded running server"),
        (logs.LogRequest(pasted="hello, world"), "pasted text, 12 characters: not the log of a vLLM launch"),
        (logs.LogRequest(pasted=BUSY, start=7), "the log has one launch"),
        (logs.LogRequest(pasted=BUSY, vllm="soon"), "soon"),
        (logs.LogRequest(pasted=BUSY, gpus="8xWHAT"), "WHAT"),
        (logs.LogRequest(uploads=(logs.Upload("p.png", b"\x89PNG\r\n\x1a\n"),)), "p.png: is an image, not text"),
    ],
)
def test_input_that_cannot_be_diagnosed_is_one_line(asked: logs.LogRequest, said: str) -> None:
    """No traceback and no partial answer: place, error, fix."""
    told = logs.report_on(asked)
    assert said in told.error
    assert "\n" not in told.error
    assert list(_texts(told)) == []


def test_large_input_is_rejected_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and pasted text alike, in one line."""
    monkeypatch.setattr(logs, "MAX_UPLOAD", 1 << 20)
    large = memoryview(bytes(1 << 20))
    told = logs.report_on(logs.LogRequest(uploads=(logs.Upload("a", large), logs.Upload("b", b"x"))))
    assert told.error == "the files: are larger than 1 MiB; use their paths instead"
    assert "is larger than 1 M characters" in logs.report_on(logs.LogRequest(pasted="x" * ((1 << 20) + 1))).error


def test_no_input_shows_nothing() -> None:
    """Neither an answer nor an error."""
    assert logs.report_on(logs.LogRequest(pasted=" \n")) == logs.NOTHING


# Plan


def test_the_command_is_the_planned_and_linted_one() -> None:
    """A launch that fits has the planner's command; another one has none, with the reason."""
    planner = settings.Planner()
    good = settings.PlanRequest("Qwen/Qwen3-8B", "2xRTX3090", context=8192, utilization=0.9, tp=2)
    told = planner.told(good)
    wanted = rb.plan_model(
        "Qwen/Qwen3-8B", "2xRTX3090", tp=2, pp=1, dp=1, options={"gpu_memory_utilization": 0.9, "max_model_len": 8192}
    )
    assert wanted.deployment
    assert told.command == wanted.deployment.command
    bad = planner.told(settings.PlanRequest("Qwen/Qwen3-8B", "2xRTX3090", utilization=0.5))
    assert bad.command == ""
    assert bad.note.startswith("No command")
    assert bad.overview
    assert "does not fit" in bad.overview.plain


def test_a_command_with_an_uncertain_plan_says_so() -> None:
    """The unknown facts are next to the command."""
    told = settings.Planner().told(settings.PlanRequest("microsoft/Phi-3-medium-128k-instruct", "2xRTX3090", tp=2))
    assert told.command
    assert told.note.startswith("Uncertain")
    assert "sliding_window" in told.note


def test_a_changed_folder_is_planned_again(tmp_path: Path) -> None:
    """The answer uses the current configuration."""
    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16", "hidden_size": 4096,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "intermediate_size": 12288, "vocab_size": 151936, "max_position_embeddings": 8192,
    }  # fmt: skip
    planner = settings.Planner()
    asked = settings.PlanRequest(str(tmp_path), "2xRTX3090", tp=2)
    contexts = []
    for size in (8192, 4096):
        (tmp_path / "config.json").write_text(json.dumps({**config, "max_position_embeddings": size}), encoding="utf-8")
        overview = planner.told(asked).overview
        assert overview
        contexts.append(f"{size:,} tokens" in overview.plain)
    assert contexts == [True, True]


def test_an_unknown_setting_has_no_slider_value() -> None:
    """For defaults of the release, and unknown ones, the planner gets no value."""
    _installed()
    found = settings.bounds(settings.PlanRequest("organization/unknown-model", "2xRTX3090"))
    assert (found.context, found.utilization) == (None, None)
    panel = rb.widgets.plan("Qwen/Qwen3-8B", "2xRTX3090")
    assert (panel._asked().context, panel._asked().utilization, panel._asked().sequences) == (None, None, None)
    assert ("default: 40960", 0) in panel._context.options
    assert "--max-model-len" not in panel._copy.text
    assert "--gpu-memory-utilization" not in panel._copy.text


def test_the_panel_begins_with_the_plan_of_the_plain_view() -> None:
    """In the runbook the panel's command is that of the layout the plain view shows."""
    _installed()
    asked = rb.plan_evidence.question(rb.load("plan-autoglm-8x3090"))
    best = rb.plan_evidence.best(rb.plan_evidence.layouts(asked))
    assert not isinstance(best, str)
    assert best.deployment
    panel = rb.widgets.plan(**rb.plan_evidence.words(asked, best))
    assert panel._copy.text == best.deployment.command
    assert "--tensor-parallel-size 2" in panel._copy.text
    panel._further.value = "[1"
    assert panel._copy.text == ""
    assert "is not a JSON object" in panel._error.value


def test_a_release_without_its_own_data_is_kept() -> None:
    """The nearest known release is used, as everywhere else."""
    _installed()
    panel = rb.widgets.plan("Qwen/Qwen3-8B", "2xRTX3090", vllm="0.11.9")
    assert panel._asked().vllm == "0.11.9"
    assert panel._copy.text
    assert rb.widgets.commands("vllm serve m", vllm="0.11.9")._vllm.value == "0.11.9"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (settings.PlanRequest("Qwen/Qwen3-8B", "2xRTX3090", tp=3), "the launch needs 3 GPUs"),
        (settings.PlanRequest("Qwen/Qwen3-8B", "2xRTX3090", tp=2, pp=2), "the launch needs 4 GPUs"),
        (settings.PlanRequest("no/model", "2xRTX3090"), "unknown model"),
        (settings.PlanRequest("Qwen/Qwen3-8B", "2x"), "2x"),
        (settings.PlanRequest("Qwen/Qwen3-8B", "2xRTX3090", vllm="soon"), "soon"),
    ],
)
def test_an_invalid_setting_has_its_reason(asked: settings.PlanRequest, said: str) -> None:
    """In one line, with no command below it."""
    told = settings.Planner().told(asked)
    assert said in told.error
    assert told.command == ""


def test_the_sliders_have_the_range_of_model_and_gpus() -> None:
    """The longest context is the model's, the sizes are valid splits of the GPUs."""
    found = settings.bounds(settings.PlanRequest("Qwen/Qwen3-8B", "6xRTX3090"))
    assert found.contexts[-1] == 40960
    assert found.sizes == (1, 2, 3, 4, 6)
    assert found.whole == 4
    assert settings.bounds(settings.PlanRequest("no/model", "2xRTX3090")) == settings.SliderBounds()


def test_a_slider_is_answered_immediately() -> None:
    """A tenth of a second of the processor for each of many steps, with room for a busy host."""
    planner = settings.Planner()
    planner.told(settings.PlanRequest("Qwen/Qwen3-8B", "2xRTX3090", tp=2))
    began = time.process_time()
    for step in range(10):
        planner.told(
            settings.PlanRequest("Qwen/Qwen3-8B", "2xRTX3090", utilization=0.6 + step / 100, context=8192, tp=2)
        )
    assert time.process_time() - began < 10 * 0.3


# Commands


def test_marks_cover_the_words_of_an_issue() -> None:
    """Each mark is at the issue's text, with lint's own message."""
    text = "vllm serve m \\\n  --max-model-length 4096 --port 8000\n"
    told = scripts.report_on(scripts.CommandRequest(text, vllm="0.19.0"))
    lines = text.split("\n")
    marked = {lines[m.line - 1][m.column - 1 : m.end_column - 1]: m for m in told.marks}
    assert marked["--max-model-length"].severity == "error"
    assert told.summary
    assert told.summary.plain.startswith("1 ERROR  text · vLLM 0.19.0")
    assert "Fix" not in told.summary.plain  # the panel has the corrected text below
    assert "--max-model-len" in told.fixed
    assert told.placed
    assert "^ column 3: error: vLLM 0.19.0 has no option --max-model-length" in told.placed.plain
    assert told.difference
    assert "+  --max-model-len 4096 --port 8000" in told.difference.plain


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vllm serve m --host 127.0.0.1 --max-model-length 4096\n", "Corrected text"),
        ("vllm serve m --max-model-length 4096\n", "Corrected text; 1 problem needs your decision"),
        (
            "vllm serve m --dtype int3 --port 99999\n",
            "Nothing can be fixed automatically; 3 problems need your decision",
        ),
        ("vllm serve m --host 127.0.0.1\n", "Nothing to fix"),
    ],
)
def test_a_corrected_text_lists_remaining_issues(text: str, said: str) -> None:
    """An improved text is not presented as correct."""
    assert scripts.report_on(scripts.CommandRequest(text, vllm="0.19.0")).correction == said


def test_no_secret_of_a_command_is_shown() -> None:
    """Views next to the editor, and copied text, have a placeholder instead."""
    secret = "sk-abcdefghijklmnop1234567890ABCDEF"  # noqa: S105 - made up
    told = scripts.report_on(scripts.CommandRequest(f"vllm serve m --api-key {secret} --max-model-length 4096\n"))
    assert told.error == ""
    assert secret not in told.fixed + "".join(shown.plain + shown.html for shown in _texts(told))


def test_an_oversized_text_is_rejected_in_one_line() -> None:
    """Typing is not delayed by it."""
    assert "larger than 200,000 characters" in scripts.report_on(scripts.CommandRequest("x" * 200_001)).error


# GPUs


def test_a_recorded_host_is_shown_with_the_recommended_gpu() -> None:
    """As in `inventory`."""
    told = cards.report_on("host-8xa100-shared")
    assert told.chosen
    assert told.chosen.plain.startswith("Recommended: GPU 4")
    assert told.findings
    assert cards.report_on("nothing-of-this-name").error.count("\n") == 0
    assert "host-8xa100-shared" in cards.recorded()


def test_a_host_without_a_gpu_is_one_line(tmp_path: Path) -> None:
    """The missing driver and the alternatives, without empty tables."""
    bare = json.loads((folders.cases_dir() / "host-1xa100" / "inventory.json").read_text(encoding="utf-8"))
    path = tmp_path / "cpu.json"
    path.write_text(json.dumps({**bare, "gpus": [], "no_gpus_reason": "no NVIDIA\ndriver answers"}), encoding="utf-8")
    told = cards.report_on(str(path))
    assert told.error == ("No GPU found: no NVIDIA driver answers; use a snapshot of another host to see its GPUs.")
    assert (told.cards, told.chosen) == (None, None)


def test_a_watched_gpu_shows_its_memory_trend(tmp_path: Path) -> None:
    """Samples accumulate: rising memory is reported."""
    path = tmp_path / "series.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in SERIES), encoding="utf-8")
    moments = iter((0.0, 0.0, 1.0, 1.0))
    watch = cards.GpuWatch(Recorded(path, lambda: next(moments)))
    told = [watch.look(), watch.look()][-1]
    assert told.chosen
    assert "29,000 MiB" in told.chosen.plain


# Runs


def test_the_history_has_its_trend_and_a_difference(tmp_path: Path) -> None:
    """Entries, pictures of a subject over time, and the difference of two entries."""
    at = tmp_path / "history.sqlite"
    with history.opened(at, say=print) as kept:
        ids = [
            kept.add(
                "run", "a-runbook on a-case", Verdict.PASS, "as expected", inputs={"vllm": release},
                results={"facts": {"kv_cache_gib": gib}}, seconds=seconds,
            )
            for release, gib, seconds in (("0.16.0", 2.0, 6.0), ("0.19.0", 1.5, 9.0))
        ]  # fmt: skip
    told = entries.report_on(entries.RunRequest("a-runbook", *ids), at)
    assert told.error == ""
    assert told.subjects == ("a-runbook on a-case",)
    assert told.trend
    assert told.trend.html.count("<svg") == 2
    assert "kv_cache" in told.trend.html
    assert told.difference
    assert "0.16.0" in told.difference.plain
    assert entries.report_on(entries.RunRequest(a="ffff", b="ffff"), at).error.startswith("ffff: no history entry")


# Nodes


def test_recorded_nodes_are_shown_with_their_environments() -> None:
    """Facts, differences, connections, findings, and lines to copy for each node."""
    told = hosts.report_on("cluster-versions")
    assert told.error == ""
    assert told.nodes
    assert "2.59.0 (differs)" in told.nodes.plain
    assert "580.95.05" in told.nodes.plain
    assert told.reach
    assert "node-b" in told.reach.plain
    assert told.findings
    assert "nodes.ray_differs" in told.findings.plain
    assert [name for name, _ in told.environments] == ["node-a", "node-b"]
    assert told.environments[1][1].splitlines()[0] == "export VLLM_HOST_IP=10.77.0.2"
    less = hosts.report_on("cluster-versions", is_whole=False)
    assert less.nodes
    assert "2.59.0 (differs)" in less.nodes.plain
    assert "580.95.05" not in less.nodes.plain
    same = hosts.report_on("cluster-healthy-pair", is_whole=False)
    assert same.nodes
    assert "Nothing that was compared differs." in same.nodes.plain


def test_unmeasured_nodes_show_how_to_measure() -> None:
    """No environment is invented; a line has the command. Missing facts are not absent ones."""
    told = hosts.report_on("cluster-3090-h800")
    assert told.environments == ()
    assert told.without
    assert "vllm-runbooks cluster check --ray ADDRESS" in told.without.plain
    assert told.nodes
    assert "not installed" not in told.nodes.plain


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("no-such-nodes", "no-such-nodes"),
        ("host-1xa100, cluster-nowhere", "cluster-nowhere"),
        ("autoglm-3090-video-oom", "autoglm-3090-video-oom"),
        ("cluster-versions, cluster-clock", "node-a"),
    ],
)
def test_input_without_nodes_is_one_line(given: str, said: str) -> None:
    """Missing names, a log, a repeated node: place, error, fix."""
    told = hosts.report_on(given)
    assert said in told.error
    assert "\n" not in told.error
    assert list(_texts(told)) == []


def test_the_clusters_that_are_offered_can_be_read() -> None:
    """Each of them, and nothing is shown before one is chosen."""
    assert "cluster-healthy-pair" in hosts.recorded()
    assert [name for name in hosts.recorded() if hosts.report_on(name).error] == []
    assert hosts.report_on(" ") == hosts.NOTHING


# Every panel


def _hostile_nodes(folder: Path) -> str:
    """Nodes with hostile names and texts; none is a valid shell word."""
    data = json.loads((folders.cases_dir() / "cluster-versions" / "cluster.json").read_text("utf-8"))
    text = json.dumps(data).replace("node-b", "HERE").replace("2.59.0", "HERE").replace("/models/Qwen3-8B", "HERE")
    path = folder / "nodes.json"
    path.write_text(text.replace("HERE", json.dumps(HOSTILE)[1:-1]), "utf-8")
    return str(path)


def test_hostile_text_is_always_escaped(tmp_path: Path) -> None:
    """In every view of every panel."""
    at = tmp_path / "history.sqlite"
    with history.opened(at, say=print) as kept:
        id_ = kept.add("run", HOSTILE, Verdict.FAIL, HOSTILE, inputs={HOSTILE: HOSTILE}, results={}, seconds=1.0)
    every = [
        logs.report_on(logs.LogRequest(pasted=f"{HOSTILE}\n{BUSY} {HOSTILE}\nRuntimeError: {HOSTILE}")),
        logs.report_on(logs.LogRequest(uploads=(logs.Upload(HOSTILE, f"{BUSY} {HOSTILE}".encode()),) * 2)),
        settings.Planner().told(settings.PlanRequest(HOSTILE, HOSTILE)),
        scripts.report_on(scripts.CommandRequest(f"vllm serve {HOSTILE} --x {HOSTILE}\n# {HOSTILE}")),
        entries.report_on(entries.RunRequest(HOSTILE, id_, id_), at),
        hosts.report_on(_hostile_nodes(tmp_path)),
        hosts.shown(HOSTILE),
    ]
    shown = [part.html for told in every for part in _texts(told)]
    assert len(shown) > 12
    assert [html for html in shown if "<img" in html or "<script" in html] == []


def test_a_runbook_follows_its_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Summary, steps and verdict are about the pasted log, also when the cell runs again."""
    _installed()
    monkeypatch.setattr(rb.widgets, "is_attended", lambda: True)
    log: Any = rb.widgets.log("autoglm-3090-video-oom", runbook="start-here")
    failure, runbook = log.step(rb.render.log_steps.failure), log.step(rb.render.log_steps.runbook)
    assert log.summary() is log
    assert "CUDA out of memory in the multimodal" in failure.value
    assert "single-gpu-oom" in runbook.value
    assert log.verdict().case == "autoglm-3090-video-oom"
    log._named.value = ""
    assert (failure.value, runbook.value) == ("", "")
    with pytest.raises(InputError, match="the panel: has no log"):
        log.verdict()
    log._pasted.value = BUSY
    assert "1.0/79.25 GiB" in failure.value
    assert str(log.verdict().root_cause.symptom) == "mem.free_below_utilization"
    assert rb.widgets.log("autoglm-3090-video-oom", runbook="start-here") is log
    again: Any = log.step(rb.render.log_steps.failure)
    assert again.value == failure.value
    assert rb.widgets.log("tiny-cpu-served", runbook="start-here") is not log


def test_a_headless_runbook_uses_its_parameters() -> None:
    """No widget is stored: summary, steps and verdict are the evidence's."""
    log = rb.widgets.log("autoglm-3090-video-oom", runbook="start-here")
    assert log.summary().plain.startswith("FAILED   startup.log")
    assert "single-gpu-oom" in log.step(rb.render.log_steps.runbook).plain
    assert log.verdict().verdict is Verdict.PASS


def test_headless_runs_show_the_plain_view() -> None:
    """Panels are interactive, so none is stored."""
    plain = RenderedView("said", "<p>said</p>")
    assert rb.widgets.is_attended() is False
    assert rb.widgets.offered("diagnose", plain, evidence="tiny-cpu-served") is plain
    assert rb.widgets.offered("commands", text="vllm serve m").is_nothing


def test_without_ipywidgets_one_line_names_the_package() -> None:
    """And everything else of the library works."""
    code = (
        "import sys; sys.modules['ipywidgets'] = None\n"
        "import vllm_runbooks as rb\n"
        "try: rb.widgets.plan()\n"
        "except rb.InputError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "ipywidgets is not installed, but is required for the panels; run: pip install 'vllm-runbooks[lab]', and "
        "restart the kernel\n"
    )


def test_the_offered_cases_contain_logs() -> None:
    """Each is read as a log, which a diagnosis begins with."""
    assert all(sources.load(name).documents for name in logs.recorded())
    assert "autoglm-3090-video-oom" in logs.recorded()
    assert "probe-healthy" not in logs.recorded()


# Views


def _installed() -> Any:
    pytest.importorskip("ipywidgets", reason="the extra lab is not installed")
    pytest.importorskip("anywidget", reason="the extra lab is not installed")
    from vllm_runbooks.jupyter import asking

    return asking


def test_a_drag_is_answered_once() -> None:
    """Events within a moment have one answer for the last of them; immediately without a loop."""
    asking = _installed()
    answered: list[int] = []
    at = [0]
    later = asking.Later(lambda: answered.append(at[0]), pytest.fail)

    async def drag() -> None:
        for at[0] in range(50):
            later()
        await asyncio.sleep(0.2)

    asyncio.run(drag())
    assert answered == [49]
    later()
    assert answered == [49, 49]


def test_the_last_request_is_answered_in_a_thread() -> None:
    """The event loop continues, progress is shown, and outdated answers are dropped."""
    asking = _installed()
    asked, turns = ["first"], 0
    shown: list[str] = []
    waits: list[str] = []

    def answer(question: str) -> str:
        time.sleep(0.6)
        return question.upper()

    asker = asking.Asker(lambda: asked[0], answer, shown.append, wait=waits.append, failed=pytest.fail)

    async def ask() -> None:
        nonlocal turns
        asker()
        await asyncio.sleep(0.1)
        asked[0] = "second"
        asker()
        for _ in range(200):
            if shown:
                break
            turns += 1
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.05)

    asyncio.run(ask())
    assert shown == ["SECOND"]
    assert turns > 10
    assert waits[0] == "Reading …"
    assert waits[-1] == ""
    asker()
    assert shown == ["SECOND", "SECOND"]


def test_a_failure_replaces_the_old_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own errors are one line in every panel, without a previous answer."""
    _installed()
    panels = [
        (rb.widgets.diagnose("autoglm-3090-video-oom"), "_named", "_summary", (logs, "_evidence")),
        (rb.widgets.plan(), "_context", "_overview", (settings, "_report_on")),
        (rb.widgets.commands("vllm serve m --x"), "_text", "_placed", (scripts, "report_on")),
        (rb.widgets.runs(), "_subject", "_entries", (entries, "report_on")),
    ]

    def broken(*_: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    for panel, control, view, (model, name) in panels:
        with monkeypatch.context() as patch:
            patch.setattr(model, name, broken)
            getattr(panel, control).value = 8192 if control == "_context" else "tiny-cpu-served"
        assert "ZeroDivisionError: division by zero" in panel._error.value
        assert getattr(panel, view).value == ""


def test_a_path_is_read_when_it_is_complete() -> None:
    """Prefixes typed on the way may name other files."""
    _installed()
    assert rb.widgets.diagnose()._named.continuous_update is False
    assert rb.widgets.commands()._gpus.continuous_update is False


def test_a_failing_answer_in_a_thread_is_one_line() -> None:
    """And the next question is answered."""
    asking = _installed()
    shown: list[str] = []
    failed: list[str] = []
    asked = ["0"]
    asker = asking.Asker(
        lambda: asked[0], lambda text: f"{1 / int(text)}", shown.append, wait=lambda _: None, failed=failed.append
    )

    async def ask() -> None:
        for asked[0] in ("0", "1"):
            asker()
            await asyncio.sleep(0.15)

    asyncio.run(ask())
    assert [line.partition(" (")[0] for line in failed] == ["internal error"]
    assert shown == ["1.0"]


def test_a_saved_state_contains_no_pasted_text() -> None:
    """Widget state in a notebook has no logs, files or scripts, which may contain secrets."""
    _installed()
    from ipywidgets import Widget

    secret = "sk-abcdefghijklmnop1234567890ABCDEF"  # noqa: S105 - made up
    hidden = f"of no known form {secret[3:]}"
    log = "\n".join([f"INFO --api-key {secret}", hidden, *["INFO"] * 9, BUSY])
    panel = rb.widgets.diagnose()
    panel._pasted._hear(None, {"text": log}, [])
    assert "mem.free_below_utilization" in panel._summary.value
    assert "pasted text" in panel._source.value
    at = datetime.now(UTC)
    content = memoryview(log.encode())
    panel._files.value = ({"name": "a.log", "type": "", "size": len(content), "content": content, "last_modified": at},)
    assert "uploaded a.log" in panel._source.value
    commands = rb.widgets.commands(f"vllm serve m --api-key {secret} --max-model-length 4096\n")
    assert commands._text.marks
    saved = json.dumps(Widget.get_manager_state(), default=str)
    assert secret not in saved
    assert secret[3:] not in saved
    panel._pasted._hear(None, {"file": True}, [memoryview(b"another text")])
    assert panel._asked().pasted == "another text"
    assert panel._asked().uploads == ()


def test_a_panel_has_the_selected_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """First that of the environment, then the selected one; an unknown one is rejected."""
    _installed()
    monkeypatch.setenv("VLLM_RUNBOOKS_LANG", "zh")
    panel = rb.widgets.diagnose("autoglm-3090-video-oom")
    assert "多模态编码器显存不足" in panel._summary.value
    assert "失败" in panel._summary.value
    panel._lang.value = "en"
    assert "CUDA out of memory in the multimodal encoder" in panel._summary.value
    commands = rb.widgets.commands("vllm serve m --max-model-length 4096", lang="zh")
    assert "没有选项" in commands._placed.value
    with pytest.raises(InputError, match="not an available language"):
        rb.widgets.commands(lang="xx")


def test_a_panel_follows_its_sliders() -> None:
    """A slider changes the plan and the command; an invalid value removes the command."""
    _installed()
    panel = rb.widgets.plan("Qwen/Qwen3-8B", "2xRTX3090")
    assert "--tensor-parallel-size 2" in panel._copy.text
    panel._context.value = 8192
    assert "--max-model-len 8192" in panel._copy.text
    panel._pp.value = 2
    assert panel._copy.text == ""
    assert "the launch needs 4 GPUs" in panel._error.value
    panel._gpus.value = "4xRTX3090"
    assert "--pipeline-parallel-size 2" in panel._copy.text


def test_the_diagnosis_panel_closes_old_widgets() -> None:
    """Consecutive answers leave no widgets in the kernel."""
    _installed()
    from ipywidgets.widgets.widget import _instances

    panel = rb.widgets.diagnose("autoglm-3090-video-oom")
    assert len(panel._ways.children) == 5
    counts = []
    for _ in range(3):
        panel._named.value = "tiny-cpu-port-in-use"
        panel._named.value = "autoglm-3090-video-oom"
        counts.append(len(_instances))
    assert len(set(counts)) == 1


def test_the_nodes_panel_follows_its_input() -> None:
    """The given nodes are shown until others are named; each has a button to copy its lines."""
    _installed()
    from ipywidgets.widgets.widget import _instances

    panel = rb.widgets.nodes(found=rb.nodes("cluster-clock"))
    assert "nodes.clock_off" in panel._findings.value
    assert [each._copy.text.splitlines()[0] for each in panel._environments.children] == [
        "export VLLM_HOST_IP=10.77.0.1",
        "export VLLM_HOST_IP=10.77.0.2",
    ]
    assert panel._environments.children[1]._copy.label == "Copy the environment of node-b"
    counts = []
    for _ in range(3):
        panel._source.value = "cluster-versions"
        assert "nodes.ray_differs" in panel._findings.value
        panel._what.value = hosts.DIFFERENT
        assert "580.95.05" not in panel._nodes.value
        panel._source.value = "no-such-nodes"
        assert "no-such-nodes" in panel._error.value
        assert panel._environments.children == ()
        panel._source.value = ""
        assert "nodes.clock_off" in panel._findings.value
        panel._what.value = hosts.ALL
        counts.append(len(_instances))
    assert len(set(counts)) == 1


def test_the_nodes_panel_contacts_named_nodes() -> None:
    """Only by the button; an invalid request is one line, and silent hosts are shown as such."""
    _installed()
    panel = rb.widgets.nodes("cluster-versions")
    panel._ports.value = "web=1"
    panel._hosts.value = "127.0.0.1:9,127.0.0.2:9"
    assert "nodes.ray_differs" in panel._findings.value
    panel._ask.click()
    assert "write USE=N" in panel._error.value
    assert panel._findings.value == ""
    panel._ports.value = ""
    panel._ask.click()
    assert panel._source.value == ""
    assert panel._findings.value.count("nodes.unread") == 2


def test_a_live_view_ends_with_its_panel(tmp_path: Path) -> None:
    """No task is left when the panel is closed."""
    _installed()
    from vllm_runbooks.jupyter import gpu_panel

    path = tmp_path / "series.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in SERIES), encoding="utf-8")
    panel = rb.widgets.gpus("host-1xa100", every_s=0.5)
    panel._live.value = True
    assert panel._live.value is False
    assert "A snapshot does not change" in panel._error.value

    async def watch() -> list[bool]:
        import weakref

        task = asyncio.create_task(gpu_panel._look(weakref.ref(panel), cards.GpuWatch(Recorded(path)), 0.05))
        panel._task = task
        await asyncio.sleep(0.12)
        is_looking = not task.done()
        panel.close()
        await asyncio.sleep(0.05)
        return [is_looking, task.done()]

    assert asyncio.run(watch()) == [True, True]


def test_a_live_view_ends_when_no_page_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks that no page answered for a while are the last; a page that beats keeps it going."""
    _installed()
    from vllm_runbooks.jupyter import gpu_panel

    monkeypatch.setattr(gpu_panel, "_SILENT_S", 0.1)
    path = tmp_path / "series.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in SERIES), encoding="utf-8")
    panel = rb.widgets.gpus("host-1xa100")

    async def watch() -> list[bool]:
        import weakref

        task = asyncio.create_task(gpu_panel._look(weakref.ref(panel), cards.GpuWatch(Recorded(path)), 0.02))
        for _ in range(20):
            await asyncio.sleep(0.02)
            panel.head.beat += 1
        is_looking = not task.done()
        await asyncio.wait({task}, timeout=5)
        return [is_looking, task.done()]

    assert asyncio.run(watch()) == [True, True]
    assert "no page showed this" in panel._stopped.value


def test_a_failing_driver_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """While watching or at the beginning: the reason, a stopped watch, a closed connection."""
    _installed()

    class Failing:
        closed = 0
        reads = 0
        most = 1

        def read(self) -> MemoryReading:
            type(self).reads += 1
            if type(self).reads > self.most:
                raise OSError("the driver is gone")
            return MemoryReading(0.0, ())

        def close(self) -> None:
            type(self).closed += 1

    monkeypatch.setattr(cards, "Nvml", Failing)

    async def watch() -> tuple[Any, bool]:
        panel = rb.widgets.gpus(every_s=0.5)
        panel._live.value = True
        await asyncio.sleep(0.1)
        return panel, panel.head.is_live

    panel, is_live = asyncio.run(watch())
    assert "the driver is gone" in panel._stopped.value
    assert (panel._live.value, is_live, Failing.closed) == (False, False, 1)
    Failing.most = 0
    panel, _ = asyncio.run(watch())
    assert "the driver is gone; watching is not possible" in panel._error.value
    assert panel._live.value is False


def test_an_unknown_panel_is_rejected() -> None:
    """In one line, with the existing ones."""
    with pytest.raises(InputError, match="nothing: is not a panel; use commands, diagnose, gpus, nodes, plan or runs"):
        rb.widgets.offered("nothing", RenderedView("", ""))


def test_the_first_text_of_the_kernel_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page keeps text typed before it arrived; later texts of the kernel replace it."""
    _installed()
    from vllm_runbooks.jupyter.page_parts import Editor

    editor = Editor(value="vllm serve m")
    sent: list[object] = []
    monkeypatch.setattr(editor, "send", sent.append)
    editor._hear(editor, {"asks": True}, [])
    editor.value = "vllm serve n"

    assert sent == [{"text": "vllm serve m", "first": True}, {"text": "vllm serve n"}]
