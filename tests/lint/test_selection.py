"""Which rules are applied and reported: options, settings of a project, comments above a launch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from vllm_runbooks import cli
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.lint import checking, knowledge, linting
from vllm_runbooks.lint.records import Issue
from vllm_runbooks.lint.selection import PROFILES, LintSettings, Selection

FAULTY = "vllm serve Qwen/Qwen3-8B --host 127.0.0.1 --max_model_len 4096 --max-num-sqs 8 --enforce-eager\n"
"""An error (option.unknown, fixable), and infos (option.underscore, fixable; meaning.eager-costs)."""
RULES = ["option.underscore", "option.unknown", "meaning.eager-costs"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in its own home, with the script in a subfolder."""
    project = tmp_path / "home" / "project"
    (project / "deploy").mkdir(parents=True)
    (project / "deploy" / "run.sh").write_text(FAULTY)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return project


def rules(text: str, *, name: str = "run.sh", selection: Selection = Selection()) -> list[str]:  # noqa: B008
    return [issue.rule for issue in checking.lint_text(text, name=name, vllm="0.19.0", selection=selection).issues]


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, list[str], str]:
    """Status, printed rules and standard error."""
    status = cli.run(["lint", "--vllm", "0.19.0", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, [line.partition("[")[2].partition("]")[0] for line in out.splitlines() if "]: " in line], err


@pytest.mark.parametrize(
    ("select", "ignore", "expected"),
    [
        ((), (), RULES),
        (("option",), (), RULES[:2]),
        (("option.unknown", "meaning"), (), RULES[1:]),
        ((), ("option",), RULES[2:]),
        (("option",), ("option.unknown",), RULES[:1]),
        (("option.unknown",), ("option",), RULES[1:2]),
        (("option",), ("option",), []),
        (("opt",), (), []),
    ],
)
def test_the_longer_name_takes_precedence(
    select: tuple[str, ...], ignore: tuple[str, ...], expected: list[str]
) -> None:
    """A rule's id before its group, and --ignore before --select; parts of names do not match."""
    assert sorted(rules(FAULTY, selection=Selection(select, ignore))) == sorted(expected)


def test_ignored_issues_are_not_fixed(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """`--fix` and `--diff` apply to the selected rules only."""
    script = folder / "deploy" / "run.sh"
    cli.run(["lint", "--vllm", "0.19.0", "--fix", "--ignore", "option.underscore", str(script)])
    assert capsys.readouterr().out == FAULTY.replace("sqs", "seqs")
    status = cli.run(["lint", "--vllm", "0.19.0", "--diff", "--select", "option.underscore", str(script)])
    lines = capsys.readouterr().out.splitlines()
    assert (status, lines) == (
        0,
        [f"--- {script}", f"+++ {script}", "@@ -1 +1 @@", f"-{FAULTY[:-1]}", f"+{FAULTY[:-1].replace('_', '-')}"],
    )


def test_a_diff_hides_secrets_and_is_empty_without_fixes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It has the exit status of lint without it; of several files it has the differences of each."""
    for name, text in (("a.sh", FAULTY.replace("\n", " --api-key sesame-open-22\n")), ("b.sh", "vllm serve m\n")):
        (tmp_path / name).write_text(text)
    assert cli.run(["lint", "--diff", "--vllm", "0.19.0", str(tmp_path / "a.sh"), str(tmp_path / "b.sh")]) == 1
    out = capsys.readouterr().out
    assert "sesame" not in out
    assert "[secret-1]" in out
    assert "b.sh" not in out
    assert cli.run(["lint", "--diff", "--format", "json", str(tmp_path / "a.sh")]) == 2
    assert "--diff prints" in capsys.readouterr().err


def _applies(folder: Path, diff: str) -> bool:
    command = ["git", "apply", "-p0", "--check", "-"]
    return subprocess.run(command, cwd=folder, input=diff, text=True, capture_output=True, check=False).returncode == 0


SERVE = "vllm serve m \\\n  --max-num-sqs 8 \\\n"


@pytest.mark.parametrize(
    ("text", "is_exact"),
    [
        (f"export HF_TOKEN=hf_{'a1B2' * 8}\n\n{SERVE}  --host ::1", True),
        (f"export HF_TOKEN=hf_{'a1B2' * 8}\n\n{SERVE}  --host ::1\n", True),
        (f"{SERVE}  --api-key sesame-open-22\n", False),
        (FAULTY.replace("\n", " --api-key sesame-open-22\n"), False),
    ],
)
def test_a_diff_can_be_applied_or_is_said_not_to(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    is_exact: bool,  # noqa: FBT001
) -> None:
    """Git applies a diff that has no redacted line; one that must show such a line is followed by a note."""
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q", "."], check=True)
    Path("run.sh").write_text(text)
    assert cli.run(["lint", "--diff", "--vllm", "0.19.0", "run.sh"]) == 1

    out, err = capsys.readouterr()

    assert ("[secret-" in out) is not is_exact
    assert _applies(tmp_path, out) is is_exact
    assert ("cannot be applied" in err) is not is_exact


def test_remaining_issues_follow_the_profile(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """On standard error, next to the corrected text."""
    script = folder / "deploy" / "run.sh"
    script.write_text("export VLLM_ATTENTION_BACKEND=FLASHINFER\nvllm serve m --host 127.0.0.1\n")
    for profile, count in (("default", 1), ("min", 0)):
        assert cli.run(["lint", "--vllm", "0.19.0", "--fix", "--profile", profile, str(script)]) == 0
        assert capsys.readouterr().err.count("warning[environment.removed]: ") == count


@pytest.mark.parametrize("form", ["json", "sarif", "github"])
def test_programs_get_the_selected_issues(capsys: pytest.CaptureFixture[str], folder: Path, form: str) -> None:
    """All of them by default; with a selection, profile or comment, the remaining ones."""
    script = folder / "deploy" / "run.sh"

    def printed(*arguments: str) -> str:
        cli.run(["lint", "--vllm", "0.19.0", "--format", form, *arguments, str(script)])
        return capsys.readouterr().out

    whole = printed()
    assert [rule in whole for rule in RULES] == [True, True, True]
    assert [rule in printed("--ignore", "option.unknown") for rule in RULES] == [True, False, True]
    assert [rule in printed("--profile", "default") for rule in RULES] == [False, True, True]
    assert [rule in printed("--profile", "min") for rule in RULES] == [False, True, False]
    script.write_text(f"# vllm-runbooks: ignore[option.unknown]\n{FAULTY}")
    assert [rule in printed() for rule in RULES] == [True, False, True]


@pytest.mark.parametrize("name", ["optin", "option.unknwn", "x,", "option,meaning.nothing"])
@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_an_unknown_rule_is_rejected(capsys: pytest.CaptureFixture[str], option: str, name: str) -> None:
    """In one line with the nearest name, before anything is checked."""
    status, printed, err = run(capsys, option, name, "--", "vllm", "serve", "m")
    assert (status, printed, err.count("\n")) == (2, [], 1)
    assert f"{option}: unknown rule or group of rules" in err
    assert name not in ("optin", "option.unknwn") or "did you mean option" in err


def test_names_are_repeated_or_joined_by_commas(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """Blanks and empty names between commas do not matter."""
    script = folder / "deploy" / "run.sh"
    assert run(capsys, "--select", "meaning, option.unknown,", script)[1] == ["option.unknown", "meaning.eager-costs"]
    assert run(capsys, "--ignore", "meaning", "--ignore", "option.unknown", script)[1] == []


def issue(severity: IssueSeverity, rule: str = "option.unknown") -> Issue:
    return Issue(rule, severity, 1, 1, "", "", None)


@pytest.mark.parametrize(
    ("settings", "statuses"),
    [
        (LintSettings(), (1, 0, 0)),
        (LintSettings(profile="min"), (1, 0, 0)),
        (LintSettings(profile="strict"), (1, 1, 0)),
        (LintSettings(profile="strict", fail_on="error"), (1, 0, 0)),
        (LintSettings(fail_on="warning"), (1, 1, 0)),
        (LintSettings(fail_on="info"), (1, 1, 1)),
    ],
)
def test_severities_that_cause_a_failure(settings: LintSettings, statuses: tuple[int, ...]) -> None:
    """An error; also a warning on request or in the strict profile."""
    assert tuple(int(settings.is_failed([issue(severity)])) for severity in IssueSeverity) == statuses


@pytest.mark.parametrize(
    ("profile", "expected"), [("min", RULES[1:2]), ("default", RULES[1:]), (None, RULES[1:]), ("strict", RULES)]
)
def test_a_profile_selects_the_reported_issues(
    capsys: pytest.CaptureFixture[str], folder: Path, profile: str | None, expected: list[str]
) -> None:
    """Errors; important issues; everything. A rule selected by id is always reported."""
    script = folder / "deploy" / "run.sh"
    profile_option = ["--profile", profile] if profile else []
    assert run(capsys, *profile_option, script)[1] == expected
    chosen = run(capsys, *profile_option, "--select", "option.underscore", script)[1]
    assert chosen == ([] if profile == "min" else ["option.underscore"])


def test_the_exit_status_follows_the_issues(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Warnings and infos do not fail by default."""
    script = tmp_path / "run.sh"
    script.write_text("export VLLM_ATTENTION_BACKEND=FLASHINFER\nvllm serve m --host 127.0.0.1 --enforce-eager\n")
    assert run(capsys, script)[:2] == (0, ["environment.removed", "meaning.eager-costs"])
    assert run(capsys, "--fail-on", "warning", script)[0] == 1
    assert run(capsys, "--profile", "strict", script)[0] == 1
    assert run(capsys, "--fail-on", "warning", "--ignore", "environment", script)[0] == 0
    assert run(capsys, "--fail-on", "info", "--ignore", "environment", script)[0] == 1
    assert run(capsys, "--fail-on", "info", "--profile", "min", script)[0] == 0


STYLE = "vllm serve m --host 127.0.0.1 --max_model_len 4096\n"
"""A script with only a style remark."""


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((), 0),
        (("--fail-on", "info"), 0),
        (("--fail-on", "info", "--profile", "strict"), 1),
        (("--fail-on", "info", "--select", "option.underscore"), 1),
    ],
)
@pytest.mark.parametrize("form", ["text", "json", "sarif", "github"])
def test_the_exit_status_does_not_depend_on_the_format(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str, arguments: tuple[str, ...], status: int
) -> None:
    """It follows the profile, even if a program gets more issues."""
    script = tmp_path / "run.sh"
    script.write_text(STYLE)
    assert cli.run(["lint", "--format", form, *arguments, str(script)]) == status
    assert ("option.underscore" in capsys.readouterr().out) == (form != "text" or status == 1)


def test_hidden_style_remarks_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Below the other issues; `min` hides more and counts nothing."""
    script = tmp_path / "run.sh"

    def last_line(text: str, *arguments: str) -> str:
        script.write_text(text)
        cli.run(["lint", "--vllm", "0.19.0", *arguments, str(script)])
        return " ".join(capsys.readouterr().out.rpartition("\n\n")[2].split())

    rest = "in 1 launch, checked against vLLM 0.19.0."
    assert last_line(STYLE) == f"No problems found {rest} 1 style remark hidden; --profile strict shows it."
    two = last_line(STYLE.replace("--host", "--max_num_seqs 8 --host"))
    assert two == f"No problems found {rest} 2 style remarks hidden; --profile strict shows them."
    assert "隐藏了 1 条" in last_line(STYLE, "--lang", "zh")
    assert last_line(STYLE.replace("_", "-")) == f"No problems found {rest}"
    assert last_line(STYLE, "--profile", "min") == f"No problems found {rest}"
    assert "1 style remark hidden" in last_line(FAULTY)


# Settings of a project


def test_settings_are_found_upwards(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """The nearest file counts, alone; .vllm-runbooks.toml before pyproject.toml; the command line before both."""
    script = folder / "deploy" / "run.sh"
    other = folder / "pyproject.toml"
    other.write_text('[project]\nname = "x"\n')
    assert run(capsys, script)[1] == RULES[1:]
    other.write_text('[tool.vllm-runbooks]\nselect = ["meaning"]\nfail-on = "info"\n')
    assert run(capsys, script)[:2] == (1, RULES[2:])
    (folder / ".vllm-runbooks.toml").write_text('ignore = "meaning"\nprofile = "strict"\n')
    assert run(capsys, script)[1] == RULES[:2]
    assert run(capsys, "--ignore", "option", "--profile", "default", script)[1] == RULES[2:]
    (folder / "deploy" / ".vllm-runbooks.toml").touch()
    assert run(capsys, script)[1] == RULES[1:]


def test_each_file_has_its_own_settings(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """The run fails if one file fails by its settings."""
    (folder / "lax").mkdir()
    (folder / "lax" / "run.sh").write_text(FAULTY)
    (folder / "lax" / ".vllm-runbooks.toml").write_text('select = ["meaning"]\n')
    lax, usual = folder / "lax" / "run.sh", folder / "deploy" / "run.sh"
    assert run(capsys, lax)[:2] == (0, RULES[2:])
    assert run(capsys, lax, usual)[:2] == (1, [*RULES[2:], *RULES[1:]])


def test_the_header_of_pyproject_is_accepted_in_our_own_file(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """`[tool.vllm-runbooks]`, copied into .vllm-runbooks.toml, applies as without it."""
    (folder / ".vllm-runbooks.toml").write_text('[tool.vllm-runbooks]\nvllm = "0.19.0"\n')
    cli.run(["lint", str(folder / "deploy" / "run.sh")])
    assert "vLLM 0.19.0 (settings:" in " ".join(capsys.readouterr().out.split())


def test_what_the_command_line_has_is_not_read_from_settings(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """An unknown release or GPU in a file does not matter then."""
    (folder / ".vllm-runbooks.toml").write_text('vllm = "abc"\ngpus = "nosuch"\n')
    script = folder / "deploy" / "run.sh"
    assert cli.run(["lint", "--vllm", "0.19.0", "--gpus", "8xA100-80GB", str(script)]) == 1
    assert "vLLM 0.19.0" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("text", "arguments", "command"),
    [
        ("vllm serve Qwen/Qwen3-32B-AWQ\n", ["--gpus", "2xRTX3090"], "Qwen/Qwen3-32B-AWQ --gpus 2xRTX3090"),
        ("vllm serve a/b & vllm serve a/c\n", ["--gpus", "A100-80GB"], "MODEL --gpus A100-80GB"),
        ("vllm serve a/b\n", [], None),
        ("echo vllm\n", ["--gpus", "2xRTX3090"], None),
    ],
)
def test_lint_names_the_command_that_checks_memory(
    text: str, arguments: list[str], command: str | None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With GPUs given, the last line says that lint does not check memory, and which command does."""
    script = tmp_path / "run.sh"
    script.write_text(text)
    cli.run(["lint", *arguments, str(script)])
    last = capsys.readouterr().out.splitlines()[-1]
    if command is None:
        assert "Memory" not in last
    else:
        lead = "Memory was not checked; run this with the launch's options"
        assert last == f"{lead}: vllm-runbooks plan {command}"


def test_an_unknown_release_in_settings_names_the_file(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """The user did not type the release."""
    path = folder / ".vllm-runbooks.toml"
    path.write_text('vllm = "abc"\n')
    assert cli.run(["lint", str(folder / "deploy" / "run.sh")]) == 2
    assert f"{path}: vllm: 'abc' is not a vLLM version" in capsys.readouterr().err


def test_a_release_and_gpus_are_settings(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """As --vllm and --gpus, which win."""
    (folder / ".vllm-runbooks.toml").write_text('vllm = "0.11.0"\ngpus = "1xT4"\n')
    script = folder / "deploy" / "run.sh"
    script.write_text("vllm serve Qwen/Qwen3-8B --host 127.0.0.1 --tensor-parallel-size 4\n")
    assert cli.run(["lint", "--format", "json", str(script)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["vllm"]["version"], report["vllm"]["source"]) == ("0.11.0", "given")
    assert cli.run(["lint", "--vllm", "0.19.0", "--gpus", "8xA100-80GB", "--format", "json", str(script)]) == 0
    assert json.loads(capsys.readouterr().out)["vllm"]["version"] == "0.19.0"


def test_the_search_ends_at_the_repository_and_at_home(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    """Settings there count, those above do not, nor those of a link's target folder."""
    script = folder / "deploy" / "run.sh"
    (tmp_path / ".vllm-runbooks.toml").write_text('select = ["shell"]\n')
    assert run(capsys, script)[1] == RULES[1:]
    (folder.parent / ".vllm-runbooks.toml").write_text('select = ["meaning"]\n')
    assert run(capsys, script)[1] == RULES[2:]
    (folder / ".git").mkdir()
    assert run(capsys, script)[1] == RULES[1:]
    (folder / ".vllm-runbooks.toml").write_text('select = ["option"]\n')
    assert run(capsys, script)[1] == RULES[1:2]
    (tmp_path / "home" / "link").symlink_to(folder / "deploy")
    assert run(capsys, tmp_path / "home" / "link" / "run.sh")[1] == RULES[2:]


def test_a_command_has_the_settings_of_the_working_folder(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So has standard input."""
    (folder / ".vllm-runbooks.toml").write_text('select = ["meaning"]\n')
    monkeypatch.chdir(folder / "deploy")
    assert run(capsys, "--", *FAULTY.split())[1] == RULES[2:]


def test_a_removed_working_folder_has_no_settings(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command is checked there all the same."""
    (folder / "gone").mkdir()
    monkeypatch.chdir(folder / "gone")
    (folder / "gone").rmdir()
    assert run(capsys, "--", *FAULTY.split())[1] == RULES[1:]
    monkeypatch.chdir(folder)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("select = [", "invalid TOML"),
        (b"select = '\xff'", "invalid TOML: it is not UTF-8 text"),
        ("a = " + "[" * 100_000, ""),
        ("fail_on = 'error'", "fail_on: unknown setting; did you mean fail-on?"),
        ("zzz = 1", "zzz: unknown setting; valid settings: select, ignore, fail-on, profile, vllm, gpus"),
        ('"\\u001b[31m\\n" = 1', "\\x1b[31m\\n: unknown setting"),
        ("select = 3", "select: is not a list of rules"),
        ("ignore = [3]", "ignore: is not a list of rules"),
        ("ignore = ['optio']", "ignore: unknown rule or group of rules 'optio'; did you mean option?"),
        ("profile = 'lax'", 'profile: \'lax\' is not valid; use "min" or "default" or "strict"'),
        ("fail-on = true", "fail-on: True is not valid"),
        ("vllm = 0.19", "vllm: 0.19 is not valid; use a string"),
        ("gpus = 'nosuch'", ".toml: gpus: nosuch: unknown GPU"),
        (f"gpus = '{'x' * 5000}'", f".toml: gpus: {'x' * 100}: not a GPU name"),
        ('gpus = "\\u0000"', ".toml: gpus: \\x00: unknown GPU"),
        ("#" * 1_100_000, "is larger than 1 MiB"),
    ],
)
def test_wrong_settings_are_one_line(
    capsys: pytest.CaptureFixture[str], folder: Path, content: str | bytes, expected: str
) -> None:
    """With the file's name, and status 2; nothing is checked, and nothing steers the terminal."""
    path = folder / ".vllm-runbooks.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    status, printed, err = run(capsys, folder / "deploy" / "run.sh")
    assert (status, printed, err.count("\n")) == (2, [], 1)
    assert str(path) in err
    assert expected in err
    assert "\x1b" not in err


def test_settings_of_another_type_are_rejected(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """In pyproject.toml they are a table; other tools' tables and folders are ignored."""
    (folder / "pyproject.toml").write_text("[tool]\nvllm-runbooks = 3\n")
    status, _, err = run(capsys, folder / "deploy" / "run.sh")
    assert (status, "tool.vllm-runbooks is not a table" in err) == (2, True)
    (folder / "pyproject.toml").write_text("tool = 3\n")
    (folder / ".vllm-runbooks.toml").mkdir()
    assert run(capsys, folder / "deploy" / "run.sh")[0] == 1


# Comments that ignore rules

EAGER = "meaning.eager-costs"
SHELL = "vllm serve Qwen/Qwen3-8B --host 127.0.0.1 \\\n  --enforce-eager\n"
COMPOSE = """\
services:
{top}
  vllm:
{service}
    image: vllm/vllm-openai:v0.19.0
    gpus: all
    environment:
{variable}
      VLLM_ATTENTION_BACKEND: FLASHINFER
{command}
    command:
      - Qwen/Qwen3-8B
      - --host=127.0.0.1
{item}
      - --enforce-eager
"""
POD = """\
kind: Pod
spec:
  containers:
{top}
    - name: a
      image: vllm/vllm-openai:v0.19.0
{args}
      args: [Qwen/Qwen3-8B, --host, 127.0.0.1,
{item}
        --enforce-eager]
"""
PYTHON = 'import os\n{top}\nllm = LLM(\n    "Qwen/Qwen3-8B",\n{inside}\n    enforce_eager=True)\n'
UNIT = "[Service]\n{top}\nExecStart=/usr/bin/vllm serve Qwen/Qwen3-8B --host 127.0.0.1 \\\n  --enforce-eager\n"
FENCED = "# Serving\n\n{top}\n```bash\nvllm serve Qwen/Qwen3-8B --host 127.0.0.1 --enforce-eager\n```\n"
PAGE = "# Serving\n\n```bash\n{top}\nvllm serve Qwen/Qwen3-8B --host 127.0.0.1 --enforce-eager\n```\n"


def commented(text: str, at: str, comment: str) -> str:
    """The text with a comment at one of its places."""
    lines = []
    for line in text.split("\n"):
        if line[:1] == "{" and line[-1:] == "}":
            lines += [comment] if line == f"{{{at}}}" else []
        else:
            lines.append(line)
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "text", "at"),
    [
        ("run.sh", f"{{top}}\n{SHELL}", "top"),
        ("run.sh", f"run() {{\n{{top}}\n  nohup {SHELL}}}\nrun\n", "top"),
        *(("compose.yaml", COMPOSE, at) for at in ("top", "service", "command", "item")),
        *(("pod.yaml", POD, at) for at in ("top", "args", "item")),
        *(("run.py", PYTHON, at) for at in ("top", "inside")),
        ("vllm.service", UNIT, "top"),
        ("page.md", PAGE, "top"),
        ("page.md", FENCED, "top"),
    ],
)
@pytest.mark.parametrize("rule", [EAGER, "meaning", f"shell, {EAGER}"])
def test_a_comment_above_a_launch_ignores_a_rule(name: str, text: str, at: str, rule: str) -> None:
    """In each kind of file, by the rule's id or its group, several by comma; the rest is reported."""
    without = rules(commented(text, "", ""), name=name)
    assert without.count(EAGER) == 1
    written = commented(text, at, f"    # vllm-runbooks: ignore[{rule}] while we debug")
    assert rules(written, name=name) == [rule_id for rule_id in without if rule_id != EAGER]
    other = rules(commented(text, at, "# vllm-runbooks: ignore[option.unknown]"), name=name)
    assert sorted(other) == sorted([*without, "file.ignore-unused"])


def test_a_comment_applies_to_the_next_launch_only() -> None:
    """Not to the following one, nor across an empty line; other comments may come between."""
    comment = f"# vllm-runbooks: ignore[{EAGER}]\n"
    assert rules(f"{comment}# more\n{SHELL}{SHELL}").count(EAGER) == 1
    assert rules(f"{comment}\n{SHELL}") == ["file.ignore-unused", EAGER]
    assert rules(f"{SHELL}{comment}") == [EAGER, "file.ignore-unused"]


def test_a_comment_above_a_variable_is_about_it() -> None:
    """Which is part of no launch in a shell script."""
    text = f"# vllm-runbooks: ignore[environment]\nexport VLLM_ATTENTION_BACKEND=FLASHINFER\n{SHELL}"
    assert rules(text) == [EAGER]


@pytest.mark.parametrize("fence", ["```bash", "~~~", "````", "  ```console"])
def test_a_comment_of_a_page_is_above_its_fence(fence: str) -> None:
    """It is about the launch on the block's first line, and not about another block."""
    command = "vllm serve Qwen/Qwen3-8B --host 127.0.0.1 --enforce-eager"
    line = f"$ {command}" if "console" in fence else command
    block = f"{fence}\n{line}\n{fence.rstrip('abcdefghijklmnopqrstuvwxyz')}\n"
    comment = f"<!-- vllm-runbooks: ignore[{EAGER}] a demo -->\n"
    assert rules(f"{comment}{block}\n{block}", name="page.md") == [EAGER]
    assert rules(f"{comment}\n{block}", name="page.md") == ["file.ignore-unused", EAGER]


def test_a_comment_at_the_top_applies_to_the_file() -> None:
    """Only after a shebang and other comments."""
    comment = f"# vllm-runbooks: ignore-file[{EAGER}]\n"
    assert rules(f"#!/bin/bash\n\n# ours\n{comment}{SHELL}{SHELL}") == []
    assert rules(f"---\n{comment}{commented(COMPOSE, '', '')}", name="compose.yaml") == ["environment.removed"]
    assert rules(f"set -e\n{comment}{SHELL}") == ["file.ignore-malformed", EAGER]


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("# vllm-runbooks: ignore", "it names no rule; write ignore[rule]"),
        ("# vllm-runbooks: ignore[]", "it names no rule; write ignore[rule]"),
        ("# vllm-runbooks: ignore-file", "it names no rule; write ignore-file[rule]"),
        ("# vllm-runbooks: ignore[meaning.eager-cost]", "did you mean meaning.eager-costs?"),
        ("# vllm-runbooks: noqa[meaning]", "noqa is unknown; write ignore[rule] or ignore-file[rule]"),
    ],
)
def test_a_comment_without_effect_is_reported(comment: str, message: str) -> None:
    """A comment that names no rule ignores nothing."""
    linted = checking.lint_text(f"{comment}\n{SHELL}", vllm="0.19.0")
    assert [issue.rule for issue in linted.issues] == ["file.ignore-malformed", EAGER]
    assert message in linted.issues[0].message
    assert (linted.issues[0].line, linted.issues[0].column) == (1, 3)


def test_a_comment_inside_a_command_is_rejected() -> None:
    """It would end the command, so it never counts."""
    text = f"vllm serve Qwen/Qwen3-8B --host 127.0.0.1 \\\n  # vllm-runbooks: ignore[{EAGER}]\n  --enforce-eager\n"
    assert rules(text) == ["shell.comment-line-after-continuation", "file.ignore-malformed", EAGER]


def test_a_part_cut_off_by_the_shell_belongs_to_the_launch() -> None:
    """A comment applies to issues in it as well."""
    text = "vllm serve Qwen/Qwen3-8B --host 127.0.0.1 \\ # two\n  --enforce-eager\n"
    assert EAGER in rules(text)
    assert rules(f"# vllm-runbooks: ignore[{EAGER}]\n{text}") == ["shell.comment-after-continuation"]


def test_scripts_of_the_toolchain_support_ignore_comments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also for the toolchain's rules, and in `migrate`."""
    from vllm_runbooks.edge10.scripts import checking as script_checking

    text = "docker login registry.example.test -u user -p n0t-a-secret\n"
    rule_ids = [issue.rule for issue in script_checking.lint_scripts({"a.sh": text})["a.sh"].issues]
    comment = f"# vllm-runbooks: ignore[{rule_ids[0]}]\n"
    assert [i.rule for i in script_checking.lint_scripts({"a.sh": comment + text})["a.sh"].issues] == rule_ids[1:]
    (tmp_path / "run.sh").write_text(f"# vllm-runbooks: ignore[option.unknown]\n{FAULTY}")
    assert cli.run(["migrate", "--from", "0.18.1", "--to", "0.19.0", str(tmp_path / "run.sh")]) == 0
    assert "option.unknown]:" not in capsys.readouterr().out


def test_of_very_many_comments_the_first_are_read() -> None:
    """A file of nothing else is read in a moment, and the rest is reported once."""
    linted = checking.lint_text("# vllm-runbooks: ignore[shell]\n" * 20_000 + SHELL, vllm="0.19.0")
    assert [issue.rule for issue in linted.issues].count("file.ignore-malformed") == 1
    assert "only 200 of them are read" in next(issue for issue in linted.issues if issue.line == 201).message


def test_ordinary_text_is_not_an_ignore_comment() -> None:
    """Similar words in a comment or after a command."""
    for line in (
        "# see vllm-runbooks: ignore[option]",
        "# vllm-runbooks ignore[option]",
        "echo # vllm-runbooks: ignore",
    ):
        assert rules(f"{line}\n{SHELL}") == [EAGER]


def test_a_remedy_is_checked_with_all_rules() -> None:
    """A comment in the user's script does not make a change of it pass."""
    from vllm_runbooks.lint.ways_out import LaunchCommand

    command = "# vllm-runbooks: ignore[option.unknown]\nvllm serve m --no-such-option 1\n"
    assert [rule for rule, _ in LaunchCommand(command, {}, "0.19.0", knowledge.knowledge)._own_errors] == [
        "option.unknown"
    ]


def test_a_selection_of_rules_does_not_enable_comments() -> None:
    """Only the request does."""
    text, selection = f"# vllm-runbooks: ignore[{EAGER}]\n{SHELL}", Selection(select=("meaning", "file"))
    for reads_comments in (False, True):
        request = linting.LintRequest("run.sh", "0.19.0", selection=selection, reads_comments=reads_comments)
        issues = linting.lint(text, knowledge.knowledge(), request).issues
        assert [issue.rule for issue in issues] == ([] if reads_comments else [EAGER])


def test_the_profiles_are_ordered() -> None:
    """Each reports more than the one before it."""
    issues = [issue(severity) for severity in IssueSeverity] + [issue(IssueSeverity.INFO, "option.underscore")]
    known = knowledge.knowledge().rules
    reported = [set(LintSettings(profile=profile).reported(issues, known)) for profile in PROFILES]
    assert reported[0] < reported[1] < reported[2] == set(issues)
