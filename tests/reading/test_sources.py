"""Evidence by name: loading, pasting, choosing a launch."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import Answer, Outcome, Verdict
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks import case_files

CASE = "autoglm-3090-video-oom"


def test_a_pasted_text_takes_precedence() -> None:
    """As in a runbook's parameters; blanks are not text."""
    evidence = sources.load(CASE, pasted="OSError: [Errno 98] Address already in use", vllm="0.11.0")

    assert evidence.documents[0].name == "pasted text"
    assert evidence.vllm == "0.11.0"
    assert sources.load(CASE, pasted=" \n").case is not None
    assert sources.paste("words").documents[0].text == "words"


def test_cases_may_lie_elsewhere(tmp_path: Path) -> None:
    """A user's folder, found by the case's id."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "case.yaml").write_text("id: mine\ntitle: t\nsource: s\nfiles: [a.log]\nexpect: {outcome: failed}\n")
    (folder / "a.log").write_text("OSError: [Errno 98] Address already in use\n")
    evidence = sources.load("mine", cases=tmp_path)

    assert diagnosing.verdict(diagnosing.diagnose(evidence), evidence).verdict is Verdict.PASS
    assert case_files.load_case(folder).id == "mine"


@pytest.mark.parametrize("name", ["nothing-of-this-name", "", "a\0b"])
def test_a_missing_file_is_rejected(name: str) -> None:
    """The message is one line."""
    with pytest.raises(InputError) as caught:
        sources.load(name)

    assert "\n" not in str(caught.value)


def test_a_folder_without_a_case_is_rejected(tmp_path: Path) -> None:
    """The message names an alternative."""
    with pytest.raises(InputError, match=r"no case\.yaml"):
        case_files.load_case(tmp_path)


def test_a_launch_is_chosen_by_number() -> None:
    """0 and None are the last."""
    evidence = sources.load("tiny-cpu-two-starts")

    assert diagnosing.diagnose(evidence, start=1).outcome is Outcome.FAILED
    assert diagnosing.diagnose(evidence, start=0).outcome is diagnosing.diagnose(evidence).outcome is Outcome.RUNNING
    assert len(diagnosing.read(evidence)) == 2
    with pytest.raises(InputError, match="start 3: the log has 2 launches; choose one of them"):
        diagnosing.diagnose(evidence, start=3)


def test_your_own_folders_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several, separated as in PATH."""
    for name in ("a", "b"):
        (tmp_path / name / "symptoms").mkdir(parents=True)
    (tmp_path / "a" / "symptoms" / "x.yaml").write_text("- a\n")
    monkeypatch.setenv("VLLM_RUNBOOKS_CATALOG", f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    catalog.load_catalog.cache_clear()
    problems = catalog.load_catalog().problems
    catalog.load_catalog.cache_clear()

    assert folders.own_catalogs() == (str(tmp_path / "a"), str(tmp_path / "b"))
    assert [problem.split(":")[0] for problem in problems] == [str(tmp_path / "a" / "symptoms" / "x.yaml")]


def wrap(document: Document, width: int) -> Document:
    """A document in rows of this many columns."""
    rows = [line[at : at + width] for line in document.text.splitlines() for at in range(0, len(line) or 1, width)]
    return replace(document, source="\n".join(rows))


@cache
def whole_answer(case: str) -> Answer:
    """The answer for a case's logs without changes."""
    return diagnosing.diagnose(Evidence(sources.load(case).documents))


WRAPPED = [
    (case, width)
    for case in sorted({path.parent.name for path in folders.cases_dir().glob("*/*.log")})
    for width in (80, 100, 133, 160)
    # Three full rows: too few to detect wrapping, and the decisive one is cut in two.
    if (case, width) != ("ray-head-blocked", 100)
]


@pytest.mark.parametrize(
    ("case", "width"),
    [pytest.param(*each, marks=() if n % 20 == 0 else pytest.mark.slow) for n, each in enumerate(WRAPPED)],
)
def test_wrapped_rows_do_not_change_the_answer(case: str, width: int) -> None:
    """Logs copied from a terminal, with words cut in two, have the same outcome and cause."""
    copied = tuple(wrap(document, width) for document in sources.load(case).documents)
    whole, wrapped = whole_answer(case), diagnosing.diagnose(Evidence(copied))

    assert wrapped.outcome == whole.outcome
    assert (wrapped.root_cause and wrapped.root_cause.symptom) == (whole.root_cause and whole.root_cause.symptom)


def test_a_configuration_file_is_read_only_near_the_script(tmp_path: Path) -> None:
    """In its folder or below, and not through a link, so a script cannot show other files."""
    folder, other = tmp_path / "scripts", tmp_path / "other"
    for each in (folder, folder / "below", other):
        each.mkdir()
        (each / "a.yaml").write_text("port: 1\n")
    (folder / "link.yaml").symlink_to(folder / "a.yaml")
    (folder / "out").symlink_to(other)
    (folder / "within").symlink_to(folder / "below")
    (folder / "circle").symlink_to(folder / "circle")
    refused = ["../other/a.yaml", "below/../a.yaml", "/etc/hostname", str(folder / "a.yaml"), "link.yaml", "out/a.yaml"]
    refused += ["circle/a.yaml", "none.yaml", "below", "a\0.yaml", "", "..", "a" * 5000]

    allowed = ["a.yaml", "./below/a.yaml", "within/a.yaml"]

    assert {name: sources.read_beside(folder, name) for name in allowed} == dict.fromkeys(allowed, "port: 1\n")
    assert {name: sources.read_beside(folder, name) for name in refused} == dict.fromkeys(refused)


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"case.yaml": ("expect:\n", "expect:\n  per_gpu: {no_such_gib: 1}\n")}, "no_such_gib"),
        ({"claims.yaml": ("right_if: ", "right_if: 1 === ")}, "right_if"),
    ],
)
def test_a_broken_case_is_rejected_when_it_is_loaded(
    tmp_path: Path, files: dict[str, tuple[str, str]], fault: str
) -> None:
    """The message has the file, line and field, before any expectation is checked."""
    folder = tmp_path / "gpt-oss-gemma-a100-four-starts"
    shutil.copytree(folders.cases_dir() / folder.name, folder)
    for name, (old, new) in files.items():
        text = (folder / name).read_text("utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), "utf-8")

    with pytest.raises(InputError, match=rf"{next(iter(files))}:\d+: .*{fault}"):
        sources.load(str(folder))
