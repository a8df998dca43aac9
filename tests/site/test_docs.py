"""README and docs are correct: commands exist, links work, generated parts are current."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import tested_on
from rows import in_one_test
from vllm_runbooks.catalog import options as releases
from vllm_runbooks.cli import commands
from vllm_runbooks.runbooks import notebook

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def tracked() -> list[str]:
    """Files under version control, or all files of a copy that has none."""
    done = subprocess.run(["git", "ls-files"], check=False, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split() or [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()]


def test_the_readme_sets_up_with_two_commands_of_one_line() -> None:
    """Two fenced commands, one line each, make an environment: one runs the runbooks, one the tests."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    fenced = re.findall(r"```bash\n(.*?)\n```", readme, re.DOTALL)

    assert [block.count("\n") for block in fenced] == [0, 0]
    assert [block.startswith("python3 -m venv .venv && .venv/bin/pip install") for block in fenced] == [True, True]
    assert fenced[0].endswith(".venv/bin/vllm-runbooks check --out report")
    assert fenced[1].endswith(".venv/bin/pytest -q")


def test_the_readme_shows_real_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its terminal contains the command and its whole output, and each picture is small."""
    pictures = re.findall(r"!\[[^]]+\]\((docs/_static/[^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    drawn = (ROOT / "docs" / "_static" / "diagnose.svg").read_text(encoding="utf-8")
    monkeypatch.chdir(ROOT / "catalog" / "cases" / "autoglm-3090-video-oom")
    monkeypatch.setattr(sys, "argv", ["vllm-runbooks", "diagnose", "startup.log"])
    printed = CliRunner().invoke(commands, sys.argv[1:]).output

    texts = map(html.unescape, re.findall(r'<text class="terminal-r[^>]*>([^<]*)</text>', drawn))
    assert "".join("".join(texts).split()) == "".join(f"$ {' '.join(sys.argv)} {printed}".split())
    assert pictures == ["docs/_static/diagnose.svg", "docs/_static/report.png"]
    assert max((ROOT / picture).stat().st_size for picture in pictures) < 200_000


def test_the_tested_versions_are_current() -> None:
    """Those that the tests use: `python tests/tested_on.py` writes them."""
    page = tested_on.PAGE.read_text(encoding="utf-8")

    assert page.partition(tested_on.BEGIN)[2].partition(tested_on.END)[0].strip() == tested_on.summary()


def test_the_page_of_edge10_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the script that the page shows the linter says what stands there, line by line; `…` stands for the rest."""
    page = (ROOT / "docs" / "edge10.md").read_text(encoding="utf-8")
    command = "$ vllm-runbooks edge10 lint compile.py"
    (sample,) = re.findall(rf"```console\n{re.escape(command)}\n(.*?)\n```", page, re.DOTALL)
    (script,) = re.findall(r"```python\n(import argparse\n.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("compile.py").write_text(script, encoding="utf-8")
    printed = CliRunner().invoke(commands, ["edge10", "lint", "compile.py"]).output

    shown = [line.partition("…")[0].rstrip() for line in sample.splitlines()]
    assert [line[: len(head)] for line, head in zip(printed.splitlines(), shown, strict=True)] == shown


def test_the_minimal_job_is_valid(tmp_path: Path) -> None:
    """The page's job of two lines is enough."""
    page = (ROOT / "docs" / "edge10.md").read_text(encoding="utf-8")
    (job,) = re.findall(r"```yaml\n(model: .*?)```", page, re.DOTALL)
    (tmp_path / "job.yaml").write_text(job, encoding="utf-8")

    asked = ["edge10", "make", str(tmp_path / "job.yaml"), "--out", str(tmp_path / "made")]
    assert CliRunner().invoke(commands, asked).exit_code == 0
    assert (tmp_path / "made" / "5-compile.py").is_file()


def test_the_readme_lists_the_runbooks() -> None:
    """Its table has a row for every runbook, with the title that the notebook has."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    runbooks = [notebook.load_runbook(p) for p in sorted((ROOT / "runbooks").glob("*.ipynb"))]

    assert [f"| [`{r.id}`](runbooks/{r.id}.ipynb) | {r.title} |" for r in runbooks] == re.findall(
        r"^\| \[`[\w-]+`\]\(runbooks/.*$", readme, re.MULTILINE
    )


@in_one_test("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_in_pages_exist(page: Path) -> None:
    """Every `vllm-runbooks COMMAND --option` in a page exists."""
    runner = CliRunner()
    text = page.read_text(encoding="utf-8")

    for line in re.findall(r"vllm-runbooks ((?:[a-z][a-z0-9]*)(?: [^`\n|]*)?)", text):
        words = line.split()
        command = commands.get_command(None, words[0])  # type: ignore[arg-type] # the group needs no context
        if command is None:
            pytest.fail(f"{page.name}: no command {words[0]!r} in `vllm-runbooks {line}`")
        options = {w.partition("=")[0] for w in words if re.match(r"--?[a-z]", w)}
        group = [words[0], words[1]] if hasattr(command, "commands") and len(words) > 1 else [words[0]]
        told = runner.invoke(commands, [*group, "--help"]).output
        if words[0] == "plan":  # it also accepts the release's options
            told += " ".join(releases.load("latest").by_string)
        assert [o for o in options if not re.search(rf"(?<![\w-]){re.escape(o)}\b", told)] == [], line


@in_one_test("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_files_lead_somewhere(page: Path) -> None:
    """A relative link in a page names a file or folder of the project."""
    links = re.findall(r"\]\(((?!https?:|#|mailto:)[^)\s#]+)", page.read_text(encoding="utf-8"))

    generated = ("symptoms/", "rules/", "options/", "variables/", "models/", "gpus/", "commands/", "api/")
    authored = [link for link in links if not link.removeprefix("../").startswith(generated)]
    assert [link for link in authored if not (page.parent / link).exists()] == []


def test_the_project_names_no_outside_place() -> None:
    """Outside of tests, no file names a folder next to the project, or a package index."""
    beside = "|".join(re.escape(place) for place in ("../shared", f"{ROOT}/", str(ROOT.parent / "shared")))
    found = []
    for name in tracked():
        path = ROOT / name
        if not path.is_file() or path.suffix in {".png", ".woff2"}:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if re.search(r"//[^\s\"')]*(?:pypi|npmjs|/simple)", text) and not name.startswith("catalog/cases/"):
            found.append(f"{name}: the address of a package index")
        if re.search(beside, text) and not name.startswith("tests/"):
            found.append(f"{name}: a place beside the project")
    assert found == []


def test_constraints_pin_without_addresses() -> None:
    """Every line of the constraints file is a comment or `name==version`."""
    lines = (ROOT / "tests" / "constraints.txt").read_text(encoding="utf-8").splitlines()

    assert [line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9_.-]+==[A-Za-z0-9_.+!-]+", line)] == []
