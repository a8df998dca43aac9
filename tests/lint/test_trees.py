"""Which files of a folder `lint` reads, the baseline of a repository, and the summary by rule."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from vllm_runbooks.cli import run as run_command
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.lint import baseline, checking, trees

BAD = "vllm serve Qwen/Qwen3-8B --host 127.0.0.1 --swap-space 4\n"
GOOD = "vllm serve Qwen/Qwen3-8B --host 127.0.0.1\n"


def run(*arguments: str) -> int:
    return run_command(list(arguments))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


def write(root: Path, *names: str, text: str = GOOD) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def names(root: Path) -> list[str]:
    return [Path(path).relative_to(root).as_posix() for path in trees.files_in(str(root))]


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        ("", ["a.sh", "build/b.sh", "deep/build/c.sh", "deep/d.yaml"]),
        ("build/", ["a.sh", "deep/d.yaml"]),
        ("/build", ["a.sh", "deep/build/c.sh", "deep/d.yaml"]),
        ("*.sh\n!a.sh", ["a.sh", "deep/d.yaml"]),
        ("deep/**", ["a.sh", "build/b.sh"]),
        ("**/build", ["a.sh", "deep/d.yaml"]),
        ("deep/**/c.sh", ["a.sh", "build/b.sh", "deep/d.yaml"]),
        ("[a-b].sh\n# d.yaml\n\n", ["deep/build/c.sh", "deep/d.yaml"]),
        ("[!a].sh", ["a.sh", "deep/d.yaml"]),
        ("?.yaml \n\\!a.sh", ["a.sh", "build/b.sh", "deep/build/c.sh"]),
        ("[a.sh", ["a.sh", "build/b.sh", "deep/build/c.sh", "deep/d.yaml"]),
    ],
)
def test_files_that_git_ignores_are_left_out(tree: Path, patterns: str, kept: list[str]) -> None:
    """As in gitignore(5): anchors, folders, negation, `**`, classes, comments."""
    write(tree, "a.sh", "build/b.sh", "deep/build/c.sh", "deep/d.yaml")
    write(tree, ".gitignore", text=patterns)
    assert sorted(names(tree)) == kept


def test_patterns_of_other_folders_apply(tree: Path) -> None:
    """Those of the repository above a folder, of a folder below, and of .git/info/exclude."""
    write(tree, "deploy/a.sh", "deploy/old/b.sh", "deploy/c.sh", "deploy/d.sh")
    write(tree, ".gitignore", text="/deploy/c.sh\n")
    write(tree, "deploy/.gitignore", text="old\n")
    write(tree, ".git/info/exclude", text="d.sh\n")
    assert names(tree / "deploy") == ["a.sh"]


def test_other_files_are_left_out(tree: Path) -> None:
    """Hidden folders but .github, packages, environments, links, large files, and files that are no scripts."""
    write(tree, "Makefile", ".github/workflows/e2e.yml", "unit.service", "values.yaml.tmpl", "deep/a/b/c/d/e/f.sh")
    write(tree, ".hidden/a.sh", "node_modules/a.sh", "env/pyvenv.cfg", "env/a.sh", "weights.bin", ".env.sh")
    write(tree, "large.sh", text="#" * 1_000_001)
    (tree / "link.sh").symlink_to(tree / "unit.service")
    expected = [".github/workflows/e2e.yml", "Makefile", "deep/a/b/c/d/e/f.sh", "unit.service", "values.yaml.tmpl"]
    assert sorted(names(tree)) == expected


@pytest.mark.parametrize(
    "name",
    ["a.js", "a.env", "a.just", "values.yaml.example", "a.tftpl.sh", "a.sh.tftpl", "a.html", "a.conf", "a.txt"],
)
def test_files_of_all_formats_are_read(tree: Path, name: str) -> None:
    """Those that `lint FILE` knows by their names, and texts."""
    write(tree, name)
    assert names(tree) == [name]


def test_a_pattern_with_many_stars_takes_linear_time(tree: Path) -> None:
    """A repository brings its own patterns."""
    write(tree, f"{'a' * 200}.sh", "ab-cb.sh")
    write(tree, ".gitignore", text=f"{'*a' * 12}*b\n**/*{'a*' * 9}/{'a*' * 9}c\n*b*b*sh\n")
    assert names(tree) == [f"{'a' * 200}.sh"]


def test_too_many_files_are_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tree, "a.sh", "b.sh")
    monkeypatch.setattr(trees, "_MAX_FILES", 1)
    with pytest.raises(InputError, match="contains more than 1 scripts; use a smaller folder"):
        trees.files_in(str(tree))


def test_a_folder_is_linted_with_a_summary_by_rule(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that do not mention vLLM, or are no text, are not read; --statistics leaves out the issues."""
    write(tree, "a.sh", "b.sh", text=BAD)
    write(tree, "ci.yaml", text="a: [\n")
    (tree / "latin.sh").write_bytes(b"vllm serve \xff\xfe\0")
    assert run("lint", str(tree), "--vllm", "0.19.0") == 1
    out = capsys.readouterr().out
    assert "2  error[option.removed] (2 fixable with --fix)" in out
    assert "a.sh:1:43" in out
    assert "2 launches in 2 files" in out.replace("\n ", "")
    assert run("lint", str(tree), "--vllm", "0.19.0", "--statistics") == 1
    out = capsys.readouterr().out
    assert "2  error[option.removed]" in out
    assert "a.sh:1" not in out
    assert "Fix:" not in out


def test_a_baseline_hides_known_issues(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also if their lines move; a further one of the same kind is reported."""
    write(tree, "deploy/a.sh", text=BAD)
    path = tree / "baseline.json"
    assert run("lint", str(tree), "--vllm", "0.19.0", "--write-baseline", str(path)) == 0
    assert json.loads(path.read_text(encoding="utf-8"))["files"] == {
        "deploy/a.sh": [{"rule": "option.removed", "text": "--swap-space", "count": 1}]
    }
    write(tree, "deploy/a.sh", text=f"set -e\n{BAD}")
    command = ("lint", str(tree), "--vllm", "0.19.0", "--baseline", str(path))
    assert run(*command) == 0
    assert "1 baseline issue hidden." in capsys.readouterr().out
    write(tree, "deploy/a.sh", text=BAD + BAD)
    assert run(*command) == 1
    assert "Found 1 error" in capsys.readouterr().out


def test_a_project_can_set_its_baseline(tree: Path) -> None:
    """Its path is relative to the settings file."""
    write(tree, "deploy/a.sh", text=BAD)
    run("lint", str(tree), "--vllm", "0.19.0", "--write-baseline", str(tree / "known.json"))
    write(tree, ".vllm-runbooks.toml", text='vllm = "0.19.0"\nbaseline = "known.json"\n')
    assert run("lint", str(tree / "deploy" / "a.sh")) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("[]", "is not a baseline"),
        ('{"format": 1}', "is not a baseline"),
        ('{"format": 9, "files": {}}', "of another version"),
        ("[" * 100_000, "is not a baseline"),
    ],
)
def test_a_broken_baseline_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "baseline.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        baseline.read(path)


@pytest.mark.parametrize(
    "line",
    [
        "lint --statistics --fix a.sh",
        "lint --write-baseline b.json --fix a.sh",
        "lint --baseline b.json --write-baseline b.json a.sh",
    ],
)
def test_options_that_exclude_each_other_are_refused(tree: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    write(tree, "a.sh")
    monkeypatch.chdir(tree)
    assert run(*line.split()) == 2


def test_many_files_are_linted_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results are the same, in the same order."""
    asked = {f"{number}.sh": (BAD if number % 3 else GOOD, {"vllm": "0.19.0"}) for number in range(20)}
    one_by_one = checking.lint_texts(asked)
    monkeypatch.setattr(checking, "_MUCH_TEXT", 0)
    in_parallel = checking.lint_texts(asked)
    assert in_parallel == one_by_one
    assert list(in_parallel) == list(asked)


def process_of(_: object) -> int:
    return os.getpid()


def test_other_processes_lint_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two cores or more, and without a Python that all would ask."""
    monkeypatch.setattr(checking, "_MUCH_TEXT", 0)
    monkeypatch.setattr(checking, "_linted", process_of)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    texts: dict[str, tuple[str, Any]] = {f"{number}.sh": (GOOD, {}) for number in range(20)}

    in_others: set[object] = set(checking.lint_texts(texts).values())
    in_this: set[object] = set(checking.lint_texts({name: (GOOD, {"python": "python3"}) for name in texts}).values())

    assert os.getpid() not in in_others
    assert in_this == {os.getpid()}
