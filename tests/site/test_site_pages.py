"""Pages of the site that are made of data and of the program: they say what these say, and publish nothing else."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import re
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vllm_runbooks
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.records import Entrance, Symptom
from vllm_runbooks.cli import commands
from vllm_runbooks.core.errors import RunbooksError
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.history.records import KINDS, HistoryEntry
from vllm_runbooks.plan import planner
from vllm_runbooks.site import myst, reference_pages, run_pages, sealed, spec_pages, start_page

ROOT = Path(__file__).resolve().parents[2]
SECRET = "hf_" + "abcdefghijKLMNOPQRST012345"


def symptoms() -> list[Symptom]:
    return list(catalog.load_catalog(()).symptoms.values())


# The start page


def test_the_start_page_has_a_card_for_each_entrance() -> None:
    """With its words, its first line, its runbook, and the groups of symptoms that it leads to."""
    runbooks = {path.stem for path in ROOT.glob("runbooks/*.ipynb")}
    page = start_page.start(catalog.entrances(), symptoms(), runbooks=runbooks)
    cards = page.split(":::{container} entrance\n")[1:]

    assert len(cards) == len(catalog.entrances())
    for entrance, card in zip(catalog.entrances(), cards, strict=True):
        assert f":name: see-{entrance.id}\n" in card
        assert myst.plain(entrance.sees) in card
        assert all(line in card for line in entrance.lines[:1])
        assert (f"runbooks/{entrance.runbook}.ipynb" in card) is (entrance.runbook is not None)
        assert {name.split(".")[0] for name in entrance.symptoms} == set(re.findall(r"#symptoms-(\w+)\)", card))


@pytest.mark.parametrize("built", [(), ("diagnose",), ("diagnose", "check", "plan")])
def test_a_door_leads_to_a_page_that_is_there(built: tuple[str, ...]) -> None:
    """To the page that works in the browser where it is built, else to the one that explains the command."""
    page = start_page.start([], [], runbooks=(), built=built)
    wanted = [name if name in built else instead for name, (_, _, instead) in start_page.DOORS.items()]

    assert re.findall(r'class="door" href="([\w-]+)\.html"', page) == wanted
    assert all((ROOT / "docs" / f"{d[2]}.md").is_file() for d in start_page.DOORS.values())


def test_an_entrance_cannot_become_markup() -> None:
    """What an entrance says is text, whatever it says."""
    said = "</div>\n:::\n```{raw} html\n<script>x</script>\n```"
    card = start_page.start([Entrance("a", said, said, (said,), commands=(said,))], [], runbooks=()).split(
        "\n## What do you see?"
    )[1]

    assert [line for line in card.splitlines() if line.startswith("```{rubric}")] == [
        f"```{{rubric}} {myst.plain(said)}"
    ]
    assert myst.literal(said) in card
    for text in (myst.literal(said), myst.prose(said), myst.plain(said), myst.code(said)):
        card = card.replace(text, "")
    assert "script" not in card


def test_the_box_looks_through_every_symptom() -> None:
    """Its data is a script of the site that holds JSON alone, with no sign that could end a script in a page."""
    hostile = Symptom("a.b", "</script><script>x</script>\u2028", *[None] * 12)  # type: ignore[arg-type] # not read
    listed = [*symptoms(), hostile.__class__(**{**vars(symptoms()[0]), "id": "a.b", "title": hostile.title})]
    script = start_page.lookup_data(listed)
    told = json.loads(script.removeprefix("globalThis.LOOKUP = ").removesuffix(";\n"))

    assert script.isascii()
    assert "<" not in script
    assert [entry["id"] for entry in told] == [symptom.id for symptom in listed]
    assert all(len(line) <= 240 for entry in told for line in entry["lines"])
    shown = {symptom.id for symptom in listed if symptom.found_by == "lines"}
    assert sum(bool(entry["lines"]) for entry in told) > 0.95 * len(shown)


def test_the_box_knows_what_people_see_and_other_languages() -> None:
    """A symptom stands there with the words of the entrances that lead to it, and with its title in each language."""
    script = start_page.lookup_data(symptoms(), entrances=catalog.entrances())
    told = {each["id"]: each for each in json.loads(script.removeprefix("globalThis.LOOKUP = ").removesuffix(";\n"))}

    assert "The server hangs without an error" in told["dist.p2p_hang"]["seen"]
    assert told["port.in_use"]["seen"] != told["dist.p2p_hang"]["seen"]
    assert told["oom.multimodal_encoder"]["titles"] == {"zh-Hans": "视觉、视频或音频编码器显存不足"}
    assert told["cli.command_differs"]["titles"] == {}


# GPUs and models


def test_every_card_and_model_is_told_with_its_source() -> None:
    """The pages hold each name, and an address or a place for what is said of it."""
    specs = catalog.specs()
    pages = spec_pages.sources(specs, cards=())
    models = "\n".join(text for name, text in pages.items() if name.startswith("models/"))

    for gpu in specs.table.gpus:
        section = spec_pages.gpu_section(gpu, specs.table.sources)
        assert section in pages["gpus/index.md"]
        assert "Sources:" in section
    assert all(f"## {myst.plain(name)}\n" in models for name in specs.texts)
    assert models.count("\nSource: ") == len(specs.texts)


def test_what_no_source_says_is_unknown() -> None:
    """Shown as unknown, never as a number or left empty."""
    specs = catalog.specs()
    gpu = next(gpu for gpu in specs.table.gpus if gpu.peer_to_peer is None)
    row = r'<th scope="row">Cards read each other&#x27;s memory</th><td class="unknown">unknown</td>'

    assert re.search(row, spec_pages.gpu_section(gpu, {}))


def test_what_fits_is_what_the_planner_says() -> None:
    """The same answer as `plan MODEL --gpus CARD`, and the reason where there is none."""
    specs = catalog.specs()
    for name in ("Qwen/Qwen3-8B", "openai/gpt-oss-20b", "BAAI/bge-m3", "MiniMaxAI/MiniMax-M2.5"):
        section = spec_pages.model_section(specs.file(name), specs.models[name], ("RTX4090", "H200"))
        for card in ("RTX4090", "H200"):
            try:
                fits = planner.plan_model(name, card, tp=1).fits
            except vllm_runbooks.InputError:
                fits = None
            said = {True: "<td>fits</td>", False: "<td>too large</td>", None: '<td class="unknown">unknown</td>'}[fits]
            assert f"On one {card}, at its whole context</th>{said}" in section
        assert ("Why that is unknown" in section) is (
            None in [spec_pages.fits(name, card) for card in ("RTX4090", "H200")]
        )


@given(st.lists(st.tuples(st.text(), st.none() | st.text())))
def test_a_table_of_facts_is_one_block_of_text(rows: list[tuple[str, str | None]]) -> None:
    """No fact ends the block or becomes an element."""
    block = myst.facts(rows)
    inside = block.removeprefix("```{raw} html\n").removesuffix("\n```")

    assert "```" not in inside
    assert set(re.findall(r"<(/?\w+)", inside)) <= {
        "table",
        "/table",
        "tbody",
        "/tbody",
        "tr",
        "/tr",
        "th",
        "/th",
        "td",
        "/td",
    }


# The reference


def test_every_public_name_is_described() -> None:
    """With its signature and its docstring, on the page of the package or of its module."""
    pages = reference_pages.api_sources()

    for name in vllm_runbooks.__all__:
        value = getattr(vllm_runbooks, name)
        if inspect.ismodule(value):
            assert all(f"## {myst.code(each)}\n" in pages[f"api/{name}.md"] or inspect.ismodule(getattr(value, each))
                       for each in getattr(value, "__all__", ()))  # fmt: skip
        else:
            assert f"### {myst.code(name)}\n" in pages["api/index.md"]
            assert f" {name}(" in pages["api/index.md"]


def test_a_signature_is_python() -> None:
    """As it could be written, in lines that fit."""

    def call(a: int, *, b: str | None = None, c: tuple[str, ...] = ("x" * 30, "y" * 30)) -> dict[str, int]:
        raise NotImplementedError

    shown = reference_pages.signature("call", call)
    compile(f"from __future__ import annotations\n{shown}: ...", "shown", "exec")

    assert shown.splitlines()[0] == "def call("
    assert "    b: str | None = None," in shown
    assert reference_pages.signature("InputError", vllm_runbooks.InputError) == "class InputError(RunbooksError)"


def test_every_command_and_option_is_described() -> None:
    """A page for each command, with every option that its help has, and its examples."""
    pages = reference_pages.command_sources(commands)
    root = click.Context(commands, info_name="vllm-runbooks")

    def tell(command: click.Command, context: click.Context, page: str) -> None:
        assert f"{myst.code(context.command_path)}\n" in page
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert max(parameter.opts, key=len) in page
        for name, below in getattr(command, "commands", {}).items():
            tell(below, click.Context(below, info_name=name, parent=context), page)

    for name in commands.list_commands(root):
        command = commands.get_command(root, name)
        assert command is not None
        page = pages[f"commands/{name}.md"]
        tell(command, click.Context(command, info_name=name, parent=root), page)
        assert "$ vllm-runbooks " in page
    assert "--help" in reference_pages.command_sources(None)["commands/index.md"]


# The last results


def entry(**told: object) -> HistoryEntry:
    """An entry whose every text of somebody's own is private."""
    own = f"/home/alice/{SECRET} http://10.0.0.7:8000"
    whole = {
        "id": "0123456789ab", "kind": "run", "subject": f"single-gpu-oom on {own}", "began": "2026-11-21T13:37:18Z",
        "seconds": 3.25, "verdict": Verdict.FAIL, "reason": own, "job": None, "host": "alice-laptop", "vllm": own,
        "inputs": {"parameters": {"evidence": own}},
        "results": {"root_cause": {"symptom": own}, "facts": {"model": own}},
        "environment": {"host": "alice-laptop"},
    }  # fmt: skip
    return HistoryEntry(**{**whole, **told})  # type: ignore[arg-type] # each is what the record asks for


def page_of(*entries: HistoryEntry) -> str:
    known = {"runbooks": {"single-gpu-oom"}, "cases": {"tiny-cpu-served"}, "symptoms": {"port.in_use"}}
    return run_pages.run_page(run_pages.published(entries, **known))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_private_is_published(kind: str) -> None:
    """No path, address, host, command, parameter, reason or secret of an entry, whatever kind it is of."""
    page = page_of(entry(kind=kind), entry(kind=kind, subject=f"{SECRET} /srv/alice"))

    assert not [word for word in ("alice", "10.0.0.7", SECRET, "/home", "/srv", "8000") if word in page]


def test_names_of_the_project_are_published() -> None:
    """The runbook, the recorded case, the release, the symptom, the schedule, and how long it took."""
    told = entry(
        subject="single-gpu-oom on tiny-cpu-served", vllm="0.19.0", job=f"nightly {SECRET}",
        results={"root_cause": {"symptom": "port.in_use"}},
    )  # fmt: skip
    page = page_of(
        told, entry(subject="single-gpu-oom on tiny-cpu-served", verdict=Verdict.PASS, job=f"nightly {SECRET}")
    )

    for said in ("single-gpu-oom", "`tiny-cpu-served`", "vLLM 0", "symptoms/port.in_use.md", "nightly", "3\\.2 s"):
        assert said in page
    assert SECRET not in page
    assert page.count("* - ") == 2, "one row for the subject, below the head"
    assert page.index("mark-fail") < page.index("mark-pass")


def test_subjects_without_a_name_stay_apart() -> None:
    """A server that fails is not told as the past of one that is well, though neither is named."""
    page = page_of(
        entry(kind="probe", subject="http://a:8000", verdict=Verdict.PASS),
        entry(kind="probe", subject="http://b:8000", verdict=Verdict.FAIL),
        entry(kind="probe", subject="http://a:8000", verdict=Verdict.FAIL),
    )

    assert page.count("* - ") == 3, "two rows below the head"
    assert "(1 of 2 whose names are not told)" in page
    assert "(2 of 2 whose names are not told)" in page


def test_what_has_not_ended_is_left_out() -> None:
    """An entry without verdict is none, and a turn of the schedule is no result."""
    assert "Nothing has been kept yet" in page_of(entry(verdict=None), entry(kind="wake"))


# The policy


def test_a_page_runs_its_own_scripts_alone(tmp_path: Path) -> None:
    """The theme's inline scripts are allowed by their digests; any other script in a page is not."""
    own, strange = "theme = 1;", "window.PWN_1 = 1"
    head = "<html><head><title>x</title></head>"
    (tmp_path / "a").mkdir()
    (tmp_path / "search.html").write_text(f"{head}<script>{own}</script>")
    page = tmp_path / "a" / "b.html"
    name = "DOCUMENTATION_OPTIONS.pagename = 'a/b';"
    page.write_text(
        f'{head}<script src="x.js"></script><script>{own}</script><script>{name}</script><script>{strange}</script>'
    )
    sealed.seal(tmp_path)

    def digest(script: str) -> str:
        return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

    text = page.read_text()
    assert [digest(script) in text for script in (own, name, strange)] == [True, True, False]
    assert text.index("Content-Security-Policy") < text.index("<title>")
    assert "script-src 'self' 'sha256-" in text
    (tmp_path / "bare.html").write_text("<p>no head")
    with pytest.raises(RunbooksError, match=r"bare\.html: has no head, so no policy stands in it"):
        sealed.seal(tmp_path)
