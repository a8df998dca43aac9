"""The panels' models: what was asked comes to what is shown, errors to one line; and their views, without a browser."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vllm_runbooks as rb
from vllm_runbooks import catalog, history, session
from vllm_runbooks.display import Shown
from vllm_runbooks.errors import InputError
from vllm_runbooks.host.gpu_memory import Recorded
from vllm_runbooks.records import Verdict
from vllm_runbooks.widgets import cards, entries, logs, scripts, settings

BUSY = (
    "ValueError: Free memory on device cuda:0 (1.0/79.25 GiB) on startup is less than desired GPU memory utilization "
    "(0.9, 71.33 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
HOSTILE = '</code><img src=x onerror="window.PWN=1"><script>window.PWN=2</script>'
CARD = {"index": 0, "name": "NVIDIA A100-SXM4-80GB", "uuid": "GPU-1", "total_mib": 81920.0}
SERIES = [{"at_s": at, "gpus": [{**CARD, "used_mib": used}]} for at, used in ((0.0, 1000.0), (1.0, 30000.0))]


def _texts(told: Any) -> Iterator[Shown]:
    for value in vars(told).values():
        if isinstance(value, Shown):
            yield value
        elif isinstance(value, tuple):
            yield from (part for each in value if isinstance(each, tuple) for part in each if isinstance(part, Shown))


# Diagnose


def test_a_pasted_log_is_told_whole() -> None:
    """The cause, the log with its lines marked, and what would confirm it stand in one answer."""
    told = logs.told(logs.Asked(pasted=BUSY))
    assert told.error == ""
    assert told.cause
    assert "mem.free_below_utilization" in told.cause.plain
    assert told.log
    assert "▼ cause" in told.log.plain
    assert told.checks
    assert told.timeline


def test_each_way_out_has_the_command_that_is_copied() -> None:
    """It is the command that was checked, to the letter, and the view above it says who checked it."""
    told = logs.told(logs.Asked(name="autoglm-3090-video-oom"))
    answer = session.diagnose(session.load("autoglm-3090-video-oom"))
    assert [way.command for way in told.ways] == [way.command or "" for way in answer.remedies]
    assert "Checked by the linter, the planner." in told.ways[0].shown.plain


def test_files_that_are_handed_over_are_one_start() -> None:
    """Several logs are judged together, packed ones as well, and come before what is named or pasted."""
    files = (
        logs.Upload("a.log", b"INFO 11-20 08:03:55 [a.py:1] hello"),
        logs.Upload("b.log.gz", gzip.compress(BUSY.encode())),
    )
    told = logs.told(logs.Asked(uploads=files, name="tiny-cpu-served"))
    assert told.log
    assert "b.log.gz" in told.log.plain
    assert told.cause
    assert "mem.free_below_utilization" in told.cause.plain


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (logs.Asked(name="nothing-of-this-name"), "no such file, folder or recorded case"),
        (logs.Asked(name="probe-healthy"), "a running server as observed"),
        (logs.Asked(pasted=BUSY, start=7), "the text holds 1 starts"),
        (logs.Asked(pasted=BUSY, vllm="soon"), "soon"),
        (logs.Asked(pasted=BUSY, gpus="8xWHAT"), "WHAT"),
        (logs.Asked(uploads=(logs.Upload("p.png", b"\x89PNG\r\n\x1a\n"),)), "p.png: is a picture, not text"),
    ],
)
def test_what_cannot_be_diagnosed_is_one_line(asked: logs.Asked, said: str) -> None:
    """No traceback and no half of an answer: where, what is wrong, what to do."""
    told = logs.told(asked)
    assert said in told.error
    assert "\n" not in told.error
    assert list(_texts(told)) == []


def test_nothing_given_shows_nothing() -> None:
    """Neither an answer nor an error."""
    assert logs.told(logs.Asked(pasted=" \n")) == logs.NOTHING


# Plan


def test_the_command_is_the_one_that_was_planned_and_linted() -> None:
    """A start that comes up has the planner's command; one that does not has none, and says why."""
    planner = settings.Planner()
    good = settings.Asked("Qwen/Qwen3-8B", "2xRTX3090", context=8192, utilization=0.9, tp=2)
    told = planner.told(good)
    wanted = rb.plan_model(
        "Qwen/Qwen3-8B", "2xRTX3090", tp=2, pp=1, dp=1, options={"gpu_memory_utilization": 0.9, "max_model_len": 8192}
    )
    assert wanted.deployment
    assert told.command == wanted.deployment.command
    bad = planner.told(settings.Asked("Qwen/Qwen3-8B", "2xRTX3090", utilization=0.5))
    assert bad.command == ""
    assert bad.why_no_command
    assert bad.overview
    assert "does not fit" in bad.overview.plain


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (settings.Asked("Qwen/Qwen3-8B", "2xRTX3090", tp=3), "the start takes 3 cards"),
        (settings.Asked("Qwen/Qwen3-8B", "2xRTX3090", tp=2, pp=2), "the start takes 4 cards"),
        (settings.Asked("no/model", "2xRTX3090"), "is no model of the catalog"),
        (settings.Asked("Qwen/Qwen3-8B", "2x"), "2x"),
        (settings.Asked("Qwen/Qwen3-8B", "2xRTX3090", vllm="soon"), "soon"),
    ],
)
def test_a_setting_that_is_not_legal_says_why(asked: settings.Asked, said: str) -> None:
    """In one line, with no command below it."""
    told = settings.Planner().told(asked)
    assert said in told.error
    assert told.command == ""


def test_the_sliders_offer_what_the_model_and_the_cards_allow() -> None:
    """The longest context is the model's own, the sizes are those that the cards can be split into."""
    found = settings.bounds(settings.Asked("Qwen/Qwen3-8B", "6xRTX3090"))
    assert found.contexts[-1] == 40960
    assert found.sizes == (1, 2, 3, 4, 6)
    assert found.whole == 4
    assert settings.bounds(settings.Asked("no/model", "2xRTX3090")) == settings.Bounds()


def test_a_slider_is_answered_at_once() -> None:
    """Far under a second of the processor for each of many steps; the benchmark has the figure."""
    planner = settings.Planner()
    planner.told(settings.Asked("Qwen/Qwen3-8B", "2xRTX3090", tp=2))
    began = time.process_time()
    for step in range(10):
        planner.told(settings.Asked("Qwen/Qwen3-8B", "2xRTX3090", utilization=0.6 + step / 100, context=8192, tp=2))
    assert time.process_time() - began < 10


# Commands


def test_marks_cover_the_words_that_are_wrong() -> None:
    """Each mark lies on the text that the finding is about; what it says is the linter's own sentence."""
    text = "vllm serve m \\\n  --max-model-length 4096 --port 8000\n"
    told = scripts.told(scripts.Asked(text, vllm="0.19.0"))
    lines = text.split("\n")
    marked = {lines[m.line - 1][m.column - 1 : m.end_column - 1]: m for m in told.marks}
    assert marked["--max-model-length"].severity == "error"
    assert "--max-model-len" in told.fixed
    assert told.placed
    assert "^ column 3: error: vLLM 0.19.0 has no option --max-model-length" in told.placed.plain
    assert told.difference
    assert "+  --max-model-len 4096 --port 8000" in told.difference.plain


def test_no_secret_of_a_command_is_shown_again() -> None:
    """What is shown beside the editor, and what is copied, has a placeholder in its place."""
    secret = "sk-abcdefghijklmnop1234567890ABCDEF"  # noqa: S105 - made up
    told = scripts.told(scripts.Asked(f"vllm serve m --api-key {secret} --max-model-length 4096\n"))
    assert told.error == ""
    assert secret not in told.fixed + "".join(shown.plain + shown.html for shown in _texts(told))


def test_a_text_beyond_all_bounds_is_refused_in_one_line() -> None:
    """Whoever writes is not kept waiting for it."""
    assert "larger than 200,000 characters" in scripts.told(scripts.Asked("x" * 200_001)).error


# GPUs


def test_a_recorded_host_is_shown_with_the_card_to_take() -> None:
    """As `inventory` says it."""
    told = cards.told("host-8xa100-shared")
    assert told.chosen
    assert told.chosen.plain.startswith("Recommended: GPU 4")
    assert told.findings
    assert cards.told("nothing-of-this-name").error.count("\n") == 0
    assert "host-8xa100-shared" in cards.recorded()


def test_a_watched_card_tells_how_its_memory_moved(tmp_path: Path) -> None:
    """Looks add up: a card whose memory rises is seen to move."""
    path = tmp_path / "series.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in SERIES), encoding="utf-8")
    moments = iter((0.0, 0.0, 1.0, 1.0))
    watch = cards.Watch(Recorded(path, lambda: next(moments)))
    told = [watch.look(), watch.look()][-1]
    assert told.chosen
    assert "29,000 MiB" in told.chosen.plain


# Runs


def test_the_history_is_shown_with_its_trend_and_a_difference(tmp_path: Path) -> None:
    """Entries, the pictures of a subject over time, and what differs between two of them."""
    at = tmp_path / "history.sqlite"
    with history.opened(at, say=print) as kept:
        ids = [
            kept.add(
                "run", "a-runbook on a-case", Verdict.PASS, "as expected", inputs={"vllm": release},
                results={"facts": {"kv_cache_gib": gib}}, seconds=seconds,
            )
            for release, gib, seconds in (("0.16.0", 2.0, 6.0), ("0.19.0", 1.5, 9.0))
        ]  # fmt: skip
    told = entries.told(entries.Asked("a-runbook", *ids), at)
    assert told.error == ""
    assert told.subjects == ("a-runbook on a-case",)
    assert told.trend
    assert told.trend.html.count("<svg") == 2
    assert "kv_cache" in told.trend.html
    assert told.difference
    assert "0.16.0" in told.difference.plain
    assert entries.told(entries.Asked(a="ffff", b="ffff"), at).error.startswith("ffff: no entry")


# Every panel


def test_hostile_text_is_never_markup(tmp_path: Path) -> None:
    """In no view of any panel, wherever the text comes from."""
    at = tmp_path / "history.sqlite"
    with history.opened(at, say=print) as kept:
        id_ = kept.add("run", HOSTILE, Verdict.FAIL, HOSTILE, inputs={HOSTILE: HOSTILE}, results={}, seconds=1.0)
    every = [
        logs.told(logs.Asked(pasted=f"{HOSTILE}\n{BUSY} {HOSTILE}\nRuntimeError: {HOSTILE}")),
        logs.told(logs.Asked(uploads=(logs.Upload(HOSTILE, f"{BUSY} {HOSTILE}".encode()),) * 2)),
        settings.Planner().told(settings.Asked(HOSTILE, HOSTILE)),
        scripts.told(scripts.Asked(f"vllm serve {HOSTILE} --x {HOSTILE}\n# {HOSTILE}")),
        entries.told(entries.Asked(HOSTILE, id_, id_), at),
    ]
    shown = [part.html for told in every for part in _texts(told)]
    assert len(shown) > 12
    assert [html for html in shown if "<img" in html or "<script" in html] == []


def test_headless_runs_show_the_plain_view() -> None:
    """Nobody is there to use a panel, so none is stored; the plain view is what is shown."""
    plain = Shown("said", "<p>said</p>")
    assert rb.widgets.is_attended() is False
    assert rb.widgets.offered("diagnose", plain, evidence="tiny-cpu-served") is plain


def test_without_ipywidgets_one_line_says_what_to_install() -> None:
    """And everything else of the library works."""
    code = (
        "import sys; sys.modules['ipywidgets'] = None\n"
        "import vllm_runbooks as rb\n"
        "try: rb.widgets.plan()\n"
        "except rb.InputError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "ipywidgets: is not installed, and the panels need it; run: pip install 'vllm-runbooks[lab]', and restart the "
        "kernel\n"
    )


def test_the_recorded_cases_that_are_offered_hold_logs() -> None:
    """Each can be diagnosed."""
    assert set(logs.recorded()) <= {path.name for path in catalog.cases_dir().iterdir()}
    assert "autoglm-3090-video-oom" in logs.recorded()
    assert "probe-healthy" not in logs.recorded()


# Views


def _installed() -> Any:
    pytest.importorskip("ipywidgets", reason="the extra lab is not installed")
    pytest.importorskip("anywidget", reason="the extra lab is not installed")
    from vllm_runbooks.widgets import parts

    return parts


def test_a_drag_is_answered_once() -> None:
    """All that happens within a moment is answered by one answer, to the last of it; without a loop at once."""
    parts = _installed()
    answered: list[int] = []
    at = [0]
    later = parts.Later(lambda: answered.append(at[0]))

    async def drag() -> None:
        for at[0] in range(50):
            later()
        await asyncio.sleep(0.2)

    asyncio.run(drag())
    assert answered == [49]
    later()
    assert answered == [49, 49]


def test_what_was_asked_last_is_answered_in_a_thread() -> None:
    """The loop goes on meanwhile, it is said that work takes time, and an answer to what is past is not shown."""
    parts = _installed()
    asked, turns = ["first"], 0
    shown: list[str] = []
    waits: list[str] = []

    def answer(question: str) -> str:
        time.sleep(0.6)
        return question.upper()

    asker = parts.Asker(lambda: asked[0], answer, shown.append, waits.append)

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


def test_a_panel_tells_in_the_language_that_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one of the environment at first, then the one that is set; one that there is not is refused."""
    _installed()
    monkeypatch.setenv("VLLM_RUNBOOKS_LANG", "zh")
    panel = rb.widgets.diagnose("autoglm-3090-video-oom")
    assert "视觉、视频或音频编码器显存不足" in panel._cause.value
    assert "失败" in panel._outcome.value
    panel._lang.value = "en"
    assert "Out of memory in the vision, video or audio encoder" in panel._cause.value
    commands = rb.widgets.commands("vllm serve m --max-model-length 4096", lang="zh")
    assert "没有选项" in commands._placed.value
    with pytest.raises(InputError, match="no language"):
        rb.widgets.commands(lang="xx")


def test_a_panel_follows_what_is_set() -> None:
    """Setting a slider changes the plan and the command that is copied; an illegal one takes the command away."""
    _installed()
    panel = rb.widgets.plan("Qwen/Qwen3-8B", "2xRTX3090")
    assert "--tensor-parallel-size 2" in panel._copy.text
    panel._context.value = 8192
    assert "--max-model-len 8192" in panel._copy.text
    panel._pp.value = 2
    assert panel._copy.text == ""
    assert "the start takes 4 cards" in panel._error.value
    panel._gpus.value = "4xRTX3090"
    assert "--pipeline-parallel-size 2" in panel._copy.text


def test_the_panel_diagnose_closes_what_it_no_longer_shows() -> None:
    """Answers that follow each other leave no widgets behind in the kernel."""
    _installed()
    from ipywidgets.widgets.widget import _instances

    panel = rb.widgets.diagnose("autoglm-3090-video-oom")
    assert len(panel._ways.children) == 4
    counts = []
    for _ in range(3):
        panel._named.value = "tiny-cpu-port-in-use"
        panel._named.value = "autoglm-3090-video-oom"
        counts.append(len(_instances))
    assert len(set(counts)) == 1


def test_a_live_view_ends_with_its_panel(tmp_path: Path) -> None:
    """No task is left when the panel is closed."""
    _installed()
    from vllm_runbooks.widgets import gpu_panel

    path = tmp_path / "series.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in SERIES), encoding="utf-8")
    panel = rb.widgets.gpus("host-1xa100", every_s=0.5)
    panel._live.value = True
    assert panel._live.value is False
    assert "A snapshot does not change" in panel._error.value

    async def watch() -> list[bool]:
        import weakref

        task = asyncio.create_task(gpu_panel._look(weakref.ref(panel), cards.Watch(Recorded(path)), 0.05))
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
    from vllm_runbooks.widgets import gpu_panel

    monkeypatch.setattr(gpu_panel, "_SILENT_S", 0.1)
    path = tmp_path / "series.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in SERIES), encoding="utf-8")
    panel = rb.widgets.gpus("host-1xa100")

    async def watch() -> list[bool]:
        import weakref

        task = asyncio.create_task(gpu_panel._look(weakref.ref(panel), cards.Watch(Recorded(path)), 0.02))
        for _ in range(20):
            await asyncio.sleep(0.02)
            panel.head.beat += 1
        is_looking = not task.done()
        await asyncio.wait({task}, timeout=5)
        return [is_looking, task.done()]

    assert asyncio.run(watch()) == [True, True]


def test_an_unknown_panel_is_refused() -> None:
    """By its key."""
    with pytest.raises((KeyError, InputError)):
        rb.widgets._panel("nothing")
