"""Generated pages of the site match their data, and publish nothing else."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel import yaml

import vllm_runbooks
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.folders import runbooks_dir
from vllm_runbooks.catalog.records import Entrance, Symptom
from vllm_runbooks.cli import commands
from vllm_runbooks.core.errors import RunbooksError
from vllm_runbooks.core.records import Runbook, Verdict
from vllm_runbooks.history.records import KINDS, HistoryEntry
from vllm_runbooks.lint import knowledge
from vllm_runbooks.plan import planner
from vllm_runbooks.runbooks.notebook import load_runbook
from vllm_runbooks.site import (
    header,
    model_fits,
    myst,
    reference_pages,
    rule_pages,
    run_pages,
    runbook_pages,
    sealed,
    search_index,
    spec_pages,
    start_page,
    symptom_pages,
)

ROOT = Path(__file__).resolve().parents[2]
SECRET = "hf_" + "abcdefghijKLMNOPQRST012345"


def symptoms() -> list[Symptom]:
    return list(catalog.load_catalog(()).symptoms.values())


# The home page


def test_the_home_page_has_a_tile_for_each_entrance() -> None:
    """With its words, its first line, its runbook, and the groups of symptoms that it leads to."""
    runbooks = {path.stem for path in ROOT.glob("runbooks/*.ipynb")}
    page = start_page.start(catalog.entrances(), symptoms(), runbooks=runbooks)
    cards = page.split(":::{container} entrance\n")[1:]

    assert len(cards) == len(catalog.entrances())
    assert page.index('id="lookup"') < page.index('class="doors"')
    for entrance, card in zip(catalog.entrances(), cards, strict=True):
        assert f":name: see-{entrance.id}\n" in card
        assert f"{{rubric}} [{myst.plain(entrance.sees)}](" in card
        assert all(line in card for line in entrance.lines[:1])
        assert (f"runbooks/{entrance.runbook}.ipynb" in card) is (entrance.runbook is not None)
        assert {name.split(".")[0] for name in entrance.symptoms} == set(re.findall(r"#symptoms-(\w+)\)", card))


@pytest.mark.parametrize("built", [(), ("diagnose",), ("diagnose", "check", "plan")])
def test_a_door_leads_to_a_page_that_is_there(built: tuple[str, ...]) -> None:
    """To the browser page if it is built, else to the page about the command."""
    page = start_page.start([], [], runbooks=(), built=built)
    wanted = [name if name in built else instead for name, (_, _, instead) in start_page.DOORS.items()]

    assert re.findall(r'class="door" href="([\w-]+)\.html"', page) == wanted
    assert all((ROOT / "docs" / f"{d[2]}.md").is_file() for d in start_page.DOORS.values())


def test_text_of_an_entrance_is_escaped() -> None:
    """Any text."""
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


def index_of(*listed: Symptom) -> list[dict[str, Any]]:
    """The search index of these symptoms, as a page reads it."""
    script = search_index.script(search_index.symptom_entries(listed, catalog.entrances()))
    assert script.isascii()
    assert "<" not in script
    rows: list[dict[str, Any]] = json.loads(script.removeprefix("globalThis.LOOKUP = ").removesuffix(";\n"))
    return rows


def test_the_search_contains_every_symptom() -> None:
    """Its index is a script with JSON only, and without `</script>`."""
    listed = [*symptoms(), replace(symptoms()[0], id="a.b", title="</script><script>x</script>\u2028")]
    entries = index_of(*listed)

    assert [entry["page"] for entry in entries] == [f"symptoms/{symptom.id}.html" for symptom in listed]
    assert all(len(line) <= 240 for entry in entries for line in entry.get("lines", ()))
    printed = {symptom.id for symptom in listed if symptom.found_by == "lines"}
    assert sum("lines" in entry for entry in entries) > 0.95 * len(printed)


def test_the_search_contains_observations_and_other_languages() -> None:
    """A symptom has the words of the entrances that lead to it, and its title in each language."""
    entries = {entry["names"][0]: entry for entry in index_of(*symptoms())}

    assert "The server hangs without an error" in entries["dist.p2p_hang"]["seen"]
    assert entries["port.in_use"]["seen"] != entries["dist.p2p_hang"]["seen"]
    assert entries["oom.multimodal_encoder"]["titles"] == {"zh-Hans": "多模态编码器显存不足"}
    assert entries["cli.command_differs"]["titles"]["zh-Hans"]


def test_every_page_has_the_same_header() -> None:
    """Sphinx pages and browser pages have the same links, with the current one marked."""
    template, page = header.template_header(), header.header(str, lambda _: "")
    links = re.findall(r'href="([^"]+)"', page)

    assert re.findall(r"pathto\('([^']+)', 1\)", template) == links
    assert {"diagnose.html", "symptoms/index.html", "models/index.html"} <= set(links)
    assert template.count("aria-current") == len(links) - 1
    assert "data-search" in page


@pytest.mark.parametrize("name", ["oom.multimodal_encoder", "port.in_use", "kv.no_blocks"])
def test_a_symptom_page_is_titled_by_its_error(name: str) -> None:
    """The title begins with the message, and links to a diagnosis; the example has its summary."""
    symptom = catalog.load_catalog(()).symptoms[name]
    page = symptom_pages.symptom_page(symptom, card=symptom_pages.diagnose_example(symptom))
    head = yaml.YAML(typ="safe").load(page.split("---\n")[1])
    error = symptom_pages.message(symptom)

    assert error
    assert head["page_title"].startswith(error[:40])
    assert symptom.title in head["page_title"]
    assert len(head["page_description"]) > 60
    assert f'href="../diagnose.html#symptom={name}"' in page
    top = page.split("\n## ")[0].split("\n# ")[1]
    assert top.index("FAILED") < top.index(symptom.examples[0].text.strip().splitlines()[0])


def test_the_first_screen_of_a_symptom_has_the_fix() -> None:
    """The example's card with its fix is directly below the badges, before all headings; checks are left out."""
    symptom = catalog.load_catalog(()).symptoms["kv.max_len_too_large"]
    card = symptom_pages.diagnose_example(symptom)
    top = symptom_pages.symptom_page(symptom, card=card).split("\n## ")[0]

    assert "Fix of this example" in top
    assert "--max-model-len" in top.replace("</span>", "")
    assert "not checked" not in card
    assert "--command" not in card


def test_fixes_have_values_or_words_and_no_placeholders() -> None:
    """No name of a capture is shown in a table of fixes, and no "value" where words are needed."""
    symptoms = catalog.load_catalog(()).symptoms
    for symptom in symptoms.values():
        page = symptom_pages.symptom_page(symptom)
        found = re.search(r"## (?:<[^>]*>)*Fixes.*?(?=\n## |\Z)", page, re.DOTALL)
        unnamed = found and re.search(r"⟨|\{\w+\}|\b(?:to|for|of|by) value\b", found[0])
        assert not unnamed, (symptom.id, unnamed)
    page = symptom_pages.symptom_page(symptoms["oom.kv_alloc"])
    assert r"Lower `kv-cache-memory-bytes`\, the configured KV cache size" in page
    assert "Lower `gpu_memory_utilization` to the share that fits" in page
    assert "the missing share" not in page
    page = symptom_pages.symptom_page(symptoms["attn.backend_unsupported"])
    assert "Use supported GPUs for backends that reject only this GPU" in page
    assert "calculates the values for your log" in page


def test_an_example_without_that_cause_has_no_summary() -> None:
    """A hint's example is a healthy server's, so nothing claims that it failed."""
    assert symptom_pages.diagnose_example(catalog.load_catalog(()).symptoms["triton.moe_untuned"]) == ""


# GPUs and models


@pytest.mark.slow
def test_every_gpu_and_model_has_a_page_with_its_source() -> None:
    """The lists link to each page, common ones first; every figure has its source."""
    specs = catalog.specs()
    pages = spec_pages.sources(specs)

    for gpu in specs.table.gpus:
        assert "Source of these figures" in pages[spec_pages.gpu_address(gpu.name).replace(".html", ".md")]
    for name in specs.texts:
        assert "\nSource: " in pages[spec_pages.model_address(name).replace(".html", ".md")]
    assert '<th scope="rowgroup" colspan="6">Common</th>' in pages["models/index.md"]
    assert 'Yi-34B-Chat</a></td><td data-head="Format">16-bit<' in pages["models/index.md"]
    for folder, names, common in (
        ("models", list(specs.texts), model_fits.COMMON_MODELS),
        ("gpus", [gpu.name for gpu in specs.table.gpus], model_fits.COMMON_GPUS),
    ):
        links = re.findall(r'<td data-head="(?:Model|GPU)"><a href="[^"]+">([^<]+)</a>', pages[f"{folder}/index.md"])
        assert tuple(links[: len(common)]) == common
        assert sorted(links) == sorted(names)


def test_the_list_of_gpus_has_one_decimal_and_no_invented_figure() -> None:
    """A cell without a fact is empty."""
    specs = catalog.specs()
    page = spec_pages._gpu_index(specs.table.gpus)
    rows = re.findall(r"<tr><td.*?</tr>", page)
    assert len(rows) == len(specs.table.gpus)
    cells = [re.findall(r'<td data-head="([\w ]*)">(.*?)</td>', row) for row in rows]
    figures = [(head, text) for row in cells for head, text in row if head in {"Nominal", "Usable"} and text]
    assert [text for _, text in figures if not re.fullmatch(r"[\d,]+\.\d GiB", text)] == []
    forms = {gpu.form_of for gpu in specs.table.gpus if gpu.memory_bandwidth_gb_s is not None}
    unknown = sum(gpu.memory_bandwidth_gb_s is None and gpu.name not in forms for gpu in specs.table.gpus)
    assert unknown > 0
    assert sum(not dict(row)["Bandwidth"] for row in cells) == unknown
    assert "unknown</td>" not in page
    assert {dict(row)["Bandwidth"] for row in cells} > {"1,935\N{EN DASH}2,039 GB/s", "8,000 GB/s"}
    fits = {re.sub("<.*?>", "", row[0][1]): dict(row)["Models that fit"] for row in cells}
    fp8 = {re.sub("<.*?>", "", row[0][1]): dict(row)["FP8"] for row in cells}
    assert (fp8["H200"], fp8["A100-80GB"]) == ("yes", "no")
    assert fits["H200"] == "9 of 11"
    assert (fits["MI300X"], fits["MI350X"]) == ("10 of 11", "")


def test_the_list_of_runbooks_is_by_task() -> None:
    """Each under its heading; one that no heading names is under the last."""
    names = runbook_pages.ordered(["single-gpu-oom", "a-runbook", "is-it-healthy", "start-here"])
    assert names == ["start-here", "single-gpu-oom", "is-it-healthy", "a-runbook"]
    pages = [
        runbook_pages.RunbookPage(
            Runbook(name, name, "", "", (), (), side_effects=False, needs_gpu=False), {}, Verdict.PASS, None
        )
        for name in names
    ]
    headings = re.findall(r"^## (.+)", runbook_pages.runbook_index(pages), re.MULTILINE)
    assert headings == ["A launch failed", "A server runs", "Other tasks"]
    shipped = {path.stem for path in runbooks_dir().glob("*.ipynb")}
    assert {name for group in runbook_pages.GROUPS.values() for name in group} == shipped


def test_the_list_of_symptoms_has_common_ones_first_with_their_errors() -> None:
    """Common ones are those whose lines the start page shows; the filter hides this part."""
    symptoms = list(catalog.load_catalog(()).symptoms.values())
    page = symptom_pages.symptom_index(symptoms, catalog.entrances())
    common, rest = page.partition(":::::{container} unfiltered\n")[2].split("\n:::::\n", 1)
    first = re.search(r"^- .*\(port\.in_use\.md\) \[(.*)\]\{\.summary\}$", common, re.MULTILINE)
    assert first is not None
    assert "already in use" in first[1]
    assert len(re.findall("^- ", common, re.MULTILINE)) < 30
    assert len(re.findall("^- ", rest, re.MULTILINE)) == len(symptoms)


def test_the_same_fix_is_shown_once() -> None:
    """Two fixes that differ only in their conditions are one row."""
    symptom = catalog.load_catalog(()).symptoms["oom.multimodal_encoder"]
    titles = [remedy.title for remedy in symptom.remedies]
    assert titles.count("Disable {modality} input") == 2
    assert symptom_pages.symptom_page(symptom).count("Disable `video` input") == 1


@pytest.mark.parametrize("verdict", Verdict)
def test_the_list_of_runbooks_reports_only_failed_examples(verdict: Verdict) -> None:
    """A passed example run needs no column; the table stacks on a phone."""
    runbook = Runbook("a-runbook", "A runbook", "It explains.", "", (), (), side_effects=False, needs_gpu=False)
    page = runbook_pages.runbook_table([runbook_pages.RunbookPage(runbook, {}, verdict, None)])
    assert ":class: catalog\n" in page
    assert ("Example run" in page) is (verdict is not Verdict.PASS)
    assert "- Purpose" in page


def test_a_fact_without_a_source_is_unknown() -> None:
    """Shown as unknown, never as a number or left empty."""
    gpu = next(gpu for gpu in catalog.specs().table.gpus if gpu.peer_to_peer is None)
    row = r'<th scope="row">Peer-to-peer access</th><td class="unknown">unknown</td>'

    assert re.search(row, spec_pages.gpu_page(gpu, {}))


def test_fitting_gpus_match_the_planner() -> None:
    """The fewest GPUs are those of `plan MODEL --gpus`, and one step fewer is too small."""
    fit = model_fits.fewest("meta-llama/Llama-3.3-70B-Instruct", "H100-80GB")

    assert fit.gpus == "4xH100-80GB"
    assert planner.plan_model(fit.model, fit.gpus, tp=4).fits is True
    assert planner.plan_model(fit.model, "2xH100-80GB", tp=2).fits is not True
    assert model_fits.verdict(fit) == ("✓ fits", "green")
    shorter = model_fits.fewest("Qwen/Qwen3-8B", "RTX4090")
    assert shorter.is_shortened
    assert planner.plan_model(shorter.model, "RTX4090", options={"max_model_len": shorter.context}).fits is True
    assert f"context={shorter.context}" in shorter.address
    assert model_fits.verdict(model_fits.fewest("deepseek-ai/DeepSeek-R1", "RTX4090"))[1] == "red"
    assert model_fits.verdict(model_fits.fewest("BAAI/bge-m3", "H200")) == ("✓ fits", "green")
    assert model_fits.fewest("sgl-project/DeepSeek-V4-Pro-FP8", "H200").reason


@pytest.mark.parametrize(
    ("model", "gpu"),
    [("deepseek-ai/DeepSeek-R1", "RTX4090"), ("deepseek-ai/DeepSeek-R1", "A100-80GB"), ("Qwen/Qwen3-235B-A22B", "T4")],
)
def test_a_model_that_fits_on_no_count_shows_the_memory_of_the_largest(model: str, gpu: str) -> None:
    """Weights of one of 8 GPUs, as the plan for 8 has them, though smaller counts are skipped."""
    fit = model_fits.fewest(model, gpu)

    assert fit.plan is not None
    assert fit.fits is False
    assert (fit.count, len(fit.plan.per_gpu)) == (8, 8)
    assert "\N{MUCH GREATER-THAN}" in model_fits.bar(fit) or gpu == "A100-80GB"
    same = planner.plan_model(model, fit.gpus, tp=8)
    assert fit.plan.per_gpu[0].terms == same.per_gpu[0].terms


def test_the_weights_of_a_model_are_without_copies_on_more_gpus() -> None:
    """The list has the weights as one GPU loads them if one of the common GPUs can: 61.0 GiB, not 4 x 15.5."""
    one = planner.plan_model("Qwen/Qwen3-32B", "H200").per_gpu[0].terms

    assert model_fits.weights_gib("Qwen/Qwen3-32B") == next(term.expected_gib for term in one if term.name == "weights")


def test_a_gpu_page_leads_to_its_plan() -> None:
    """A button below the title, with the GPU filled in; a model that fits on no count says so."""
    gpu = next(gpu for gpu in catalog.specs().table.gpus if gpu.name == "T4")
    page = spec_pages.gpu_page(gpu, {})

    assert page.index("../plan.html#gpus=1xT4") < page.index("\n## ")
    assert "not even on 8\N{MULTIPLICATION SIGN}" in page
    assert page.count('<span class="legend-part">') == 4


def test_a_model_page_has_a_linted_command_and_a_link_to_the_planner() -> None:
    """The tile has GPUs and command; each row links to the same question in the browser."""
    specs, name = catalog.specs(), "meta-llama/Llama-3.3-70B-Instruct"
    page = spec_pages.model_page(specs.file(name), specs.models[name])

    assert "vllm serve meta-llama/Llama-3.3-70B-Instruct" in page
    assert "lint <span" in page
    assert '<a class="action" href="../../plan.html#' in page
    assert "../../plan.html#model=meta-llama%2FLlama-3.3-70B-Instruct&amp;gpus=4xH100-80GB&amp;tp=4" in page
    assert page.count('<svg width="230"') == len(model_fits.COMMON_GPUS)


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
    """With signature and docstring, on the page of the package or module."""
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
    """Valid Python in lines that fit."""

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
    """An entry with private text in every user field."""
    own = f"/home/alice/{SECRET} http://10.0.0.7:8000"
    whole = {
        "id": "0123456789ab", "kind": "run", "subject": f"single-gpu-oom on {own}", "began": "2026-11-21T13:37:18Z",
        "seconds": 3.25, "verdict": Verdict.FAIL, "reason": own, "job": None, "host": "alice-laptop", "vllm": own,
        "inputs": {"parameters": {"evidence": own}},
        "results": {"root_cause": {"symptom": own}, "facts": {"model": own}},
        "environment": {"host": "alice-laptop"},
    }  # fmt: skip
    return HistoryEntry(**{**whole, **told})  # type: ignore[arg-type] # each has the type of its field


def page_of(*entries: HistoryEntry) -> str:
    known = {"runbooks": {"single-gpu-oom"}, "cases": {"tiny-cpu-served"}, "symptoms": {"port.in_use"}}
    return run_pages.run_page(run_pages.published(entries, **known))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_private_is_published(kind: str) -> None:
    """No path, address, host, command, parameter, reason or secret of any kind of entry."""
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


def test_unnamed_subjects_stay_separate() -> None:
    """A failing server is not the past of a healthy one."""
    page = page_of(
        entry(kind="probe", subject="http://a:8000", verdict=Verdict.PASS),
        entry(kind="probe", subject="http://b:8000", verdict=Verdict.FAIL),
        entry(kind="probe", subject="http://a:8000", verdict=Verdict.FAIL),
    )

    assert page.count("* - ") == 3, "two rows below the head"
    assert "(1 of 2 with unknown names)" in page
    assert "(2 of 2 with unknown names)" in page


def test_open_entries_are_left_out() -> None:
    """An entry without a verdict is not a result, nor is a wake-up of the schedule."""
    assert "No entries yet" in page_of(entry(verdict=None), entry(kind="wake"))


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
    with pytest.raises(RunbooksError, match=r"bare\.html: has no head for the content security policy"):
        sealed.seal(tmp_path)


# Runbooks and rules


def test_a_runbook_page_begins_with_its_run_and_folds_its_symptoms() -> None:
    """A run as expected has no badge, another one has."""
    symptoms = {"port.in_use": catalog.load_catalog(()).symptoms["port.in_use"]}
    title = {"cell_type": "markdown", "id": "title", "metadata": {"tags": []}, "source": "# Title\n\nText."}
    runbook = replace(load_runbook(ROOT / "runbooks" / "single-gpu-oom.ipynb"), symptoms=tuple(symptoms))

    def cells(verdict: Verdict) -> list[str]:
        shown = runbook_pages.RunbookPage(runbook, {"cells": [title]}, verdict, "a-case")
        return [cell["source"] for cell in runbook_pages.runbook_page(shown, symptoms)["cells"]]

    assert cells(Verdict.PASS)[1].startswith("Example run on the recorded case")
    assert "not as expected" in cells(Verdict.FAIL)[1]
    assert "<summary>Symptoms in the catalog (1)</summary>" in cells(Verdict.PASS)[-1]


def test_the_list_of_rules_marks_those_that_are_fixed() -> None:
    """As their pages do."""
    rules = list(knowledge.knowledge().rules.values())
    page = rule_pages.rule_index(rules)
    marked = re.findall(r"\]\(([\w.-]+)\.md\) \[fixable\]", page)
    assert sorted(set(marked)) == sorted(rule.id for rule in rules if rule.fix)


def test_replacements_follow_the_reason_of_a_rule() -> None:
    """Before further examples: they are what a reader looks up. The first action is to check a command."""
    page = rule_pages.rule_page(knowledge.knowledge().rules["option.removed"])

    assert page.index('href="../check.html"') < page.index("\n## ")
    assert page.index("\n## Replacements") < page.index(">Other examples<")
