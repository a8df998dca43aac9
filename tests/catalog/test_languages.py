"""Other languages: selection, completeness, marks for English text, checks against the source."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from command_line import PORT, run
from rows import in_one_test
from vllm_runbooks import render
from vllm_runbooks.catalog import folders, languages
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.authored import symptom_files
from vllm_runbooks.catalog.authored.located import plain, read_yaml
from vllm_runbooks.catalog.languages import LANGUAGES, Phrase, Wording, listed
from vllm_runbooks.catalog.records import Rule, Symptom
from vllm_runbooks.core.display import to_json
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import Answer
from vllm_runbooks.core.views import elements
from vllm_runbooks.core.views import text_width as columns
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.edge10.scripts import checking as script_checking
from vllm_runbooks.lint import checking, knowledge
from vllm_runbooks.reading import sources

LIB = Path(languages.__file__).parents[1]
HAN = re.compile("[\u4e00-\u9fff]")
ENGLISH = re.compile(r"(?:\b[A-Za-z][a-z']+,? ){4}")
"""Some words of a sentence."""
WORDS = re.compile(r"(?:^|[一-鿿，。：；] ?)(?:[A-Za-z][a-z']+ ){2}")
"""Two English words on end in Chinese."""
MARK = LANGUAGES["zh"].mark


def symptoms() -> list[Symptom]:
    """The translated ones."""
    return [s for s in catalog.load_catalog().symptoms.values() if "zh" in s.translations]


def rule_ids() -> list[str]:
    """The translated ones."""
    rules = knowledge.knowledge().rules
    return [name for name in rules if "zh" in rules[name].translations]


def answer(text: str, lang: str | None, vllm: str | None = None) -> Answer:
    """The diagnosis of a text."""
    return diagnosing.diagnose(Evidence((Document("start.log", text),), vllm=vllm), lang=lang)


def answers(symptom: Symptom) -> Iterator[Answer]:
    """The diagnosis of a symptom's examples, and of its cases if it is found by comparing logs."""
    yield from (answer(example.text, "zh", example.vllm) for example in symptom.examples)
    if symptom.found_by == "comparison":
        yield from (diagnosing.diagnose(sources.load(case), lang="zh") for case in _cases().get(symptom.id, ()))


@cache
def _cases() -> dict[str, list[str]]:
    """By symptom the recorded cases whose root cause it is."""
    found: dict[str, list[str]] = {}
    for path in sorted(folders.cases_dir().glob("*/case.yaml")):
        expected = re.search(r"^  symptom: (\S+)$", path.read_text("utf-8"), re.MULTILINE)
        if expected:
            found.setdefault(expected[1], []).append(path.parent.name)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A catalog folder with one symptom that is translated."""
    kept = tmp_path / "mine" / "symptoms"
    kept.mkdir(parents=True)
    name = "port.in_use.yaml"
    (kept / name).write_text((folders.catalog_dir() / "symptoms" / name).read_text("utf-8"), "utf-8")
    return tmp_path / "mine"


def changed(folder: Path, old: str, new: str) -> Path:
    """The symptom's file with some words changed."""
    path = folder / "symptoms" / "port.in_use.yaml"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    return path


SAID = re.compile(
    r"""(?<![.\w])(?:say|self\._say|say\.joined|Wording\([^()]{0,60}\)|Phrase)\(\s*("(?:[^"\\]|\\.)*"|'[^']*')"""
)
"""A call that translates a text to the selected language."""


def texts_in(data: Any) -> Iterator[str]:
    """Yield every text of some data of YAML."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, (list, dict)):
        for value in data.values() if isinstance(data, dict) else data:
            yield from texts_in(value)


def literals() -> Iterator[str]:
    """Yield every text of the library's code and tables, with empty placeholders."""
    for path in (folders.catalog_dir() / "tables").glob("*.yaml"):
        if path.stem != "languages":
            yield from texts_in(plain(read_yaml(path)))
    for path in LIB.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)


def test_enough_is_translated() -> None:
    """At least thirty symptoms and some rules are, each of their texts, and none is out of date."""
    translated, rules = symptoms(), knowledge.knowledge().rules
    assert len(translated) >= 30
    assert len(rule_ids()) >= 20
    records: list[Symptom | Rule] = [*translated, *(rules[name] for name in rule_ids())]
    for record in records:
        assert languages.missing(record, "zh") == []
        assert languages.stale(record, "zh") == []


@in_one_test("symptom", symptoms(), ids=lambda symptom: symptom.id)
def test_an_answer_is_translated_completely(symptom: Symptom) -> None:
    """Examples of a translated symptom are in Chinese, including conditions and fixes."""
    for found in answers(symptom):
        for finding in (f for f in found.findings if f.symptom == symptom.id):
            conditions = finding.conditions
            told = [
                finding.title, finding.explanation, finding.do_first, finding.confirm, finding.refute,
                *conditions.matched, *conditions.mismatched, *conditions.unknown,
            ]  # fmt: skip
            assert [text for text in told if not HAN.search(text) or MARK in text] == []
        if found.root_cause and found.root_cause.symptom == symptom.id:
            ways = [text for way in found.remedies for text in (way.title, way.cost)]
            assert [text for text in ways if not HAN.search(text) or MARK in text] == []


def test_a_translated_text_has_no_unmarked_english() -> None:
    """All output is Chinese, except quotations of the log and marked text."""
    for symptom in symptoms():
        found = next(answers(symptom), None)
        if found is None:
            continue
        evidence = [quote for finding in found.findings for quote in finding.evidence]
        evidence += [found.first_error] if found.first_error else []
        quotes = [line for quote in evidence for line in quote.text.split("\n")]
        fills = [value for finding in found.findings for value in finding.captures.values()]
        if found.root_cause is None or found.root_cause.symptom != symptom.id:
            continue
        for view in (render.answers.cause, render.answers.checks, render.answers.remedies, render.answers.facts):
            text = " ".join(view(found).plain.split())
            for known in sorted((*quotes, *map(elements.cut, quotes), *fills), key=len, reverse=True):
                text = text.replace(" ".join(known.split()), "")
            parts = re.split("[。；：]", re.sub(r'`[^`]*`|"[^"]*"', "", text))
            assert [part for part in parts if ENGLISH.search(part) and MARK not in part] == []


@in_one_test("name", [name for name in rule_ids() if not name.startswith(("edge10.", "parser."))])
def test_a_message_is_translated(name: str) -> None:
    """A translated rule's messages are Chinese; only notes of its table are marked."""
    for example in knowledge.knowledge().rules[name].examples:
        asked: dict[str, Any] = {"name": example.file, "vllm": example.vllm, "gpus": example.gpus}
        found = checking.lint_text(example.text, **asked, lang="zh")
        messages = [issue.message for issue in found.issues if issue.rule == name]
        assert messages
        assert all(HAN.search(message.partition(MARK)[0]) for message in messages)


@in_one_test("name", [name for name in rule_ids() if name.startswith("edge10.")])
def test_messages_about_toolchain_scripts_are_translated(name: str) -> None:
    """A translated rule's examples contain no English, including inserted values."""
    rule = knowledge.knowledge().rules[name]
    told = [
        issue.message
        for example in rule.examples
        for issue in script_checking.lint_scripts({example.file: example.text}, lang="zh")[example.file].issues
        if issue.rule == name
    ]
    assert told
    quoted = re.compile(r"`[^`]*`")
    assert [each for each in told if MARK in each or not HAN.search(each) or WORDS.search(quoted.sub("", each))] == []


def test_the_note_of_a_table_is_marked() -> None:
    """It is in English, and the mark is added once, not by the translation."""
    found = checking.lint_text("vllm serve m --swap-space 4\n", vllm="0.33.0", lang="zh").issues
    (issue,) = (each for each in found if each.rule == "option.removed")
    assert issue.message.count(MARK) == 1
    assert ENGLISH.search(issue.message.partition(MARK)[2])


def test_a_missing_translation_is_marked_once_per_text() -> None:
    """Each separate text begins with the mark, even if parts without figures are left out."""
    symptom = replace(catalog.load_catalog().symptoms["oom.multimodal_encoder"], translations={})
    told = languages.told_in(symptom, "zh")
    assert told.title == f"{MARK}{symptom.title}"
    assert told.explanation == (MARK, *symptom.explanation)
    assert told.do_first.startswith(MARK)
    assert [way.title.count(MARK) for way in told.remedies] == [1] * len(symptom.remedies)
    assert [way.cost for way in told.remedies] == [way.cost for way in symptom.remedies]
    shelf = replace(catalog.load_catalog(), symptoms={symptom.id: symptom})
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 698.00 MiB."
    behind = "Encoder cache will be initialized with a budget of 18605 tokens, and profiled with 1 image items"
    text = f"INFO 02-28 17:42:12 [gpu_model_runner.py:5146] {behind} of the maximum feature size.\n{line}\n"
    found = diagnosing.diagnose(Evidence((Document("a.log", text),)), catalog=shelf, lang="zh").root_cause
    assert found is not None
    assert [said.count(MARK) for said in (found.title, found.explanation, found.do_first)] == [1, 1, 1]


def test_a_stale_translation_is_not_shown(folder: Path) -> None:
    """If the English text has changed, it is shown with the mark; other text stays translated."""
    changed(folder, "title: Port is already in use by another process", "title: Port is already in use")
    symptom = languages.told_in(symptom_files.read_symptom(folder / "symptoms" / "port.in_use.yaml"), "zh")
    assert symptom.title == f"{MARK}Port is already in use"
    assert HAN.search(symptom.do_first)
    assert MARK not in symptom.do_first


def test_a_stale_translation_is_reported_and_stamped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`catalog check` exits with 1 and names file, line and fields; a stamp only confirms them."""
    path = changed(folder, "title: Port is already in use by another process", "title: Port is already in use")
    status, out, _ = run(capsys, "catalog", "check", "--dir", str(folder))
    assert status == 1
    assert re.search(r"symptoms/port\.in_use\.yaml:\d+: translations\.zh: title: the English text has changed", out)
    status, out, _ = run(capsys, "catalog", "translations", "--dir", str(folder))
    assert (status, "port.in_use.yaml: zh: the English text has changed: title" in out) == (1, True)
    before = path.read_text("utf-8")
    assert run(capsys, "catalog", "translations", "--stamp", str(path))[0] == 0
    after = path.read_text("utf-8")
    differing = [(a, b) for a, b in zip(before.split("\n"), after.split("\n"), strict=True) if a != b]
    assert len(differing) == 1
    assert differing[0][0].lstrip().startswith("of: ")
    assert run(capsys, "catalog", "check", "--dir", str(folder))[0] == 0
    path.write_text(re.sub(r"of: \{[^}]*\}", "of: {}", after), "utf-8")
    assert run(capsys, "catalog", "translations", "--stamp", str(path))[0] == 0
    assert path.read_text("utf-8") == after


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("端口 {port} 已被占用。", "该端口已被占用。", "lacks the {name} 'port'"),
        ("端口 {port} 已被占用。", "端口 {port} {free} 已被占用。", "has the {name} 'free'"),
        ("`ss -ltnp` 查出", "ss -ltnp 查出", "lacks the code 'ss -ltnp'"),
        ("操作系统拒绝绑定该端口", "操作系统拒绝绑定该端口 --port", "has the name '--port'"),
        ("需要告知客户端", "需要告知 2 个客户端", "has the number '2'"),
        ("      - '端口 {port} 已被占用。'\n", "", "has 1 entries where the English text has 2"),
        ("  zh:\n", "  xx:\n", "'xx' is not an available language; use zh"),
        ("    confirm: '运行 ss -ltnp：会列出该端口上的监听者。'\n", "", "is the digest of a missing text; remove"),
        ("    title: '端口", "    titel: '端口", "is not a known field"),
        ("    title: '端口", "    title: '【英文】端口", "has 【英文】, which is added automatically"),
    ],
)
def test_a_translation_is_compared_with_its_english_text(folder: Path, old: str, new: str, said: str) -> None:
    """Placeholders, code, options, numbers and the number of sentences are equal."""
    with pytest.raises(InputError, match=re.escape(said)):
        symptom_files.read_symptom(changed(folder, old, new))


def test_an_error_in_a_translation_is_reported_at_its_place(folder: Path) -> None:
    """By field name, and by index for several texts."""
    name = "cuda.illegal_access.launch_failure.yaml"
    path = folder / "symptoms" / name
    text = (folders.catalog_dir() / "symptoms" / name).read_text("utf-8")
    for old, new in (
        ("主机的内核日志（dmesg、journalctl -k）", " "),
        ("驱动的 Xid 行", "驱动的 Xid 行 --all"),
        ("      - '某个 GPU kernel 崩溃", "      - '某个 GPU kernel --all 崩溃"),
        ("cost: '解码变慢'", "cost: '解码变慢 --all'"),
        ("title: 'CUDA error: unspecified launch failure（", "title: 'CUDA error: unspecified launch failure --all（"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as caught:
        symptom_files.read_symptom(path)
    places = re.findall(r"translations\.zh\.([a-z_.0-9]+): (?:is empty|has the name '--all')", str(caught.value))
    assert sorted(places) == ["explanation.0", "look_in.what", "look_in.where", "remedies.1.cost", "title"]


def test_a_folded_line_has_no_blank_between_chinese_characters() -> None:
    """YAML joins lines with a blank; only those next to Latin words stay."""
    assert languages.unfolded("先调低 max_num_seqs，\n 再\n 试。 ") == "先调低 max_num_seqs，再试。"


def same_but_texts(ours: Any, theirs: Any, where: str = "") -> Iterator[str]:
    """Yield the places at which two documents differ in more than a text."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if list(ours) != list(theirs):
            yield where
        for name in ours.keys() & theirs.keys():
            yield from same_but_texts(ours[name], theirs[name], f"{where}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            yield where
        for one, other in zip(ours, theirs, strict=False):
            yield from same_but_texts(one, other, f"{where}[]")
    elif ours != theirs:
        yield where


def test_the_document_has_its_language_and_is_otherwise_equal(capsys: pytest.CaptureFixture[str]) -> None:
    """`--lang zh` changes texts and adds `lang`; nothing else, and nothing at all without it."""
    asked = ("diagnose", "autoglm-3090-video-oom", "--format", "json")
    english, chinese = (json.loads(run(capsys, *asked, *more)[1]) for more in ((), ("--lang", "zh")))
    assert "lang" not in english
    assert chinese.pop("lang") == "zh"
    finding = [
        "title", "explanation", "do_first", "confirm", "refute", "conditions.matched[]", "conditions.unknown[]",
    ]  # fmt: skip
    texts = {f"{place}.{name}" for place in (".root_cause", ".findings[]", ".starts[].root_cause") for name in finding}
    assert set(same_but_texts(english, chinese)) <= {*texts, ".remedies[].title", ".remedies[].cost"}
    assert run(capsys, *asked)[1] == run(capsys, *asked, "--lang", "en")[1]


@pytest.mark.parametrize(
    ("name", "asked"),
    [("diagnose", ("diagnose", "autoglm-3090-video-oom")), ("lint", ("lint", "copied-launch-script"))],
)
def test_the_document_matches_its_schema(name: str, asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The schema has the language field as optional."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((folders.catalog_dir() / "schema" / f"{name}.json").read_text("utf-8"))
    for more in ((), ("--lang", "zh")):
        document = json.loads(run(capsys, *asked, "--format", "json", *more)[1])
        jsonschema.Draft202012Validator(schema).validate(document)
    assert "lang" in schema["properties"]
    assert "lang" not in schema["required"]


def test_commands_have_the_same_issues(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the messages differ, and the document has its language."""
    asked = ("lint", str(folders.cases_dir() / "copied-launch-script" / "launch.sh"), "--format", "json")
    english, chinese = (json.loads(run(capsys, *asked, *more)[1]) for more in ((), ("--lang", "zh")))
    assert chinese.pop("lang") == "zh"
    assert set(same_but_texts(english, chinese)) == {".issues[].message"}


def test_sarif_has_its_language(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Titles and reasons of rules are translated like messages."""
    script = tmp_path / "a.sh"
    script.write_text("vllm serve m --swap-space 4\n", "utf-8")
    log = json.loads(run(capsys, "lint", str(script), "--format", "sarif", "--lang", "zh")[1])["runs"][0]
    assert log["language"] == "zh-Hans"
    told = {rule["id"]: rule["shortDescription"]["text"] for rule in log["tool"]["driver"]["rules"]}
    assert told["option.removed"] == "这个版本已移除该选项"
    assert "language" not in json.loads(run(capsys, "lint", str(script), "--format", "sarif")[1])["runs"][0]


@pytest.mark.parametrize("command", ["diagnose", "lint"])
def test_an_unknown_language_is_rejected(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line with the available ones, also from the variable, which an option overrides."""
    path = tmp_path / "a.sh"
    path.write_text(PORT, "utf-8")
    status, out, err = run(capsys, command, str(path), "--lang", "fr")
    assert (status, out) == (2, "")
    assert err == "vllm-runbooks: --lang: 'fr' is not an available language; use en or zh\n"
    monkeypatch.setenv(languages.LANG, "fr")
    status, out, err = run(capsys, command, str(path))
    assert (status, out) == (2, "")
    assert err == "vllm-runbooks: VLLM_RUNBOOKS_LANG: 'fr' is not an available language; use en or zh\n"
    assert run(capsys, command, str(path), "--lang", "en")[0] in (0, 1)


@pytest.mark.parametrize(
    ("name", "lang"),
    [
        ("zh-CN", "zh"), ("zh_CN.UTF-8", "zh"), ("zh-Hans", "zh"), ("ZH", "zh"), ("zh-Hans-CN", "zh"),
        ("en_US", None), ("en_GB.UTF-8", None), ("", None),
    ],
)  # fmt: skip
def test_a_language_may_be_named_as_systems_do(name: str, lang: str | None) -> None:
    """The forms of locales and of browsers; another script is another language."""
    assert languages.chosen(name) == lang
    for other in ("zh-TW", "zh_Hant", "english", "zhx"):
        with pytest.raises(InputError, match="is not an available language"):
            languages.chosen(other)


def test_the_variable_selects_the_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """It applies to calls in a runbook's kernel; an argument overrides it."""
    monkeypatch.setenv(languages.LANG, "zh")
    evidence = Evidence((Document("a.log", PORT),))
    assert diagnosing.diagnose(evidence).lang == "zh"
    assert diagnosing.diagnose(evidence, lang="en").lang is None
    assert checking.lint_text("vllm serve m --swap-space 4").lang == "zh"


def test_an_option_leaves_no_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The language of one command is not that of the next."""
    path = tmp_path / "a.log"
    path.write_text(PORT, "utf-8")
    before = run(capsys, "diagnose", str(path))[1]
    assert "端口已被另一个进程占用" in run(capsys, "diagnose", str(path), "--lang", "zh")[1]
    assert run(capsys, "diagnose", str(path))[1] == before


def test_text_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Prose has at most 80 columns, two per Chinese character, and begins with no full stop."""
    out = run(capsys, "diagnose", "autoglm-3090-video-oom", "--lang", "zh", "--explain")[1].partition("\n\n根本")[2]
    prose = [line for line in out.split("\n") if HAN.search(line) and not line.lstrip().startswith("第 ")]
    assert len(prose) > 20
    assert max(map(columns.width, prose)) <= 80
    assert max(map(columns.width, prose)) > 72
    assert [line for line in prose if line.lstrip()[:1] in "，。；：、）"] == []


@pytest.mark.parametrize("width", [9, 20, 40, 80])
def test_wrapping_loses_nothing(width: int) -> None:
    """Each character is in a line, in order, and no line is too wide; long words are broken."""
    text = (
        "把 gpu_memory_utilization 降低 0.05，（重复）直到能启动：见 https://docs.vllm.ai/en/latest/serving 与“说明”。"
    )
    lines = columns.wrap(text, width, "- ", "  ")
    assert max(map(columns.width, lines)) <= width
    assert "".join(line[2:] for line in lines).replace(" ", "") == text.replace(" ", "")
    shortened = columns.wrap(text, width, most=1)
    assert len(shortened) == 1
    assert shortened[0].endswith(" …")
    assert columns.width(shortened[0]) <= width


def test_columns_of_a_table_line_up() -> None:
    """Wide characters count as two, combining ones as zero; cut text fits its column."""
    shown = elements.grid(("名称", "b"), [("显存", "1"), ("e\u0301a", "2")]).plain.split("\n")
    assert [line.index(sign) + sum(map(columns.width, line[: line.index(sign)])) - line.index(sign)
            for line, sign in zip(shown, "b12", strict=True)] == [6, 6, 6]  # fmt: skip
    assert columns.cut("显存不足", 5) == "显存…"
    assert columns.padded("显存", 6, is_right=True) == "  显存"


def test_hostile_text_is_escaped_in_chinese() -> None:
    """As in English."""
    payload = "<img src=x onerror=PWN=1>"
    log = f"(APIServer pid=1) ERROR 11-20 10:00:00 [core.py:1] ValueError: {payload}\n{PORT}"
    found = answer(log, "zh")
    for view in (render.answers.cause, render.answers.checks, render.answers.remedies, render.answers.others):
        html = view(found).html
        assert html.startswith('<div lang="zh-Hans">')
        assert "<img" not in html
    linted = checking.lint_text("vllm serve m --mm-encoder-tp-mode 'tensor\"><'\n", vllm="0.33.0", lang="zh")
    assert 'tensor"><' in "".join(issue.message for issue in linted.issues)
    assert "tensor&quot;&gt;&lt;" in render.issues.table(linted).html
    assert 'tensor"><' not in render.issues.table(linted).html
    fill = answer("ModuleNotFoundError: No module named 'a<b>'\n", "zh")
    assert "<b>'" not in render.answers.cause(fill).html


def test_an_untranslated_policy_and_its_notes_are_marked() -> None:
    """Text without a translation is in English after the mark."""
    evidence = sources.load("qwen-a100-shared-gpu-race")
    found = diagnosing.diagnose(evidence, policy="lower-utilization", lang="zh")
    assert found.notes
    assert all(HAN.search(note) or note.startswith(MARK) for note in found.notes)


def test_patterns_are_compiled_once() -> None:
    """Another language costs no second set of patterns, and is made once."""
    shelf = catalog.load_catalog()
    assert shelf.told_in("zh") is shelf.told_in("zh")
    assert shelf.told_in("zh").patterns is shelf.patterns


def test_every_fixed_text_is_translated() -> None:
    """Each text in the code is in the table, with the same placeholders."""
    words = LANGUAGES["zh"].words
    files = (path.read_text("utf-8") for path in LIB.rglob("*.py"))
    asked = {
        ast.literal_eval(text) for told in files if "Wording" in told or "Phrase" in told for text in SAID.findall(told)
    }
    assert len(asked) > 60
    assert sorted(asked - words.keys()) == []
    holes = re.compile(r"\{\w+\}")
    assert {e: c for e, c in words.items() if set(holes.findall(e)) != set(holes.findall(c))} == {}


@pytest.mark.slow
def test_every_translated_text_is_used() -> None:
    """Each entry of the table is a whole text of the code, with any values."""
    holes = re.compile(r"\{\w*\}")
    there = {bare for text in literals() for bare in (holes.sub("{}", text), text.removeprefix("unknown: "))}
    assert [text for text in LANGUAGES["zh"].words if holes.sub("{}", text) not in there] == []


def test_a_filled_text_is_recognized_by_the_words_around_its_values() -> None:
    """A filled text is translated by its template, unless the template has hardly any words."""
    say = Wording("zh")
    assert say("model a/b is not in the catalog") == "a/b 的配置未知：它不在模型目录中"
    assert say("something else (with a note)") == f"{MARK}something else (with a note)"
    assert Wording()("remove {names}", names="{b}") == "remove {b}"


def test_a_phrase_is_translated_with_its_parts() -> None:
    """Words of the code follow the language; names stay."""
    say = Wording("zh")
    phrase = Phrase("{who} ({why})", who="4", why=Phrase("the default of {name}", name="dev_{count}"))
    assert phrase == "4 (the default of dev_{count})"
    assert say.filling(phrase) == "4（dev_{count} 的默认值）"
    assert say.filling(str(phrase)) == Wording().filling(phrase) == phrase
    assert say.filling(Phrase("said by {nobody}", nobody="x")) == f"{MARK}said by x"
    orders = listed(["a", Phrase("1 die"), "c"])
    assert orders == "a and 1 die and c"
    assert say.filling(orders) == "a、1 个 die、c"


def test_output_about_toolchain_scripts_is_translated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The kind of each file and the last line are Chinese, for any result."""
    scripts = {
        "convert.sh": "python3 checkpoint_convert.py --src a --dst b --quant_type awq\n",
        "wrong.sh": "python3 checkpoint_convert.py --src a --dst a --quant_type gptq\n",
        "other.sh": "echo none\n",
    }
    for name, text in scripts.items():
        path = tmp_path / name
        path.write_text(text, "utf-8")
        out = run(capsys, "edge10", "lint", str(path), "--lang", "zh")[1]
        *_, does, verdict = out.strip().split("\n")
        assert all(HAN.search(line.partition(": ")[2] or line) for line in (does, verdict))
        assert MARK not in out
        assert not ENGLISH.search(verdict)


def test_the_answer_can_be_read_back() -> None:
    """A stored document with a language equals its record."""
    found = answer(PORT, "zh")
    assert json.loads(to_json(found))["lang"] == "zh"
    assert "lang" not in json.loads(to_json(answer(PORT, None)))
