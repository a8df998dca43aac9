"""Lint as a whole: choice of the release, documents, fixes and migration."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks import cli, render
from vllm_runbooks.catalog import folders, options
from vllm_runbooks.catalog.specs import DefaultReviews
from vllm_runbooks.core.console import terminal
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Case, Evidence, Expectation, IssueRef
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.core.views import elements
from vllm_runbooks.core.views.styled import laid_out, plain
from vllm_runbooks.lint import calls, checking, config_files, knowledge, moves
from vllm_runbooks.lint import linting as lint
from vllm_runbooks.lint import render as lint_render
from vllm_runbooks.lint.records import ChangedDefault, CommandRelease, Fix, Issue, Launch, Linted, Migrated, SourceLine
from vllm_runbooks.lint.selection import Selection
from vllm_runbooks.lint.several_launches import together
from vllm_runbooks.reading import documents, sources
from vllm_runbooks.runbooks import case_files

jsonschema = pytest.importorskip("jsonschema")
ROOT = folders.catalog_dir()
SCRIPTS = [
    path.parent.name
    for path in sorted((ROOT / "cases").glob("*/case.yaml"))
    if case_files.load_case(path.parent).expect.issues is not None
]
CLEAN = "vllm serve Qwen/Qwen2.5-0.5B-Instruct --host 127.0.0.1 --max-model-len 4096\n"
TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345"[:34]
WRONG = """\
export HF_TOKEN={token}
vllm serve Qwen/Qwen2.5-0.5B-Instruct --max-modle-len 4096 \\
  --api-key sk-{token} --api-kee {token}
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.run([*arguments])
    return (status, *capsys.readouterr())


def rules(found: Linted, *severities: IssueSeverity) -> list[str]:
    return [issue.rule for issue in found.issues if not severities or issue.severity in severities]


@pytest.mark.parametrize("case", SCRIPTS)
def test_a_recorded_script_has_the_expected_issues(case: str) -> None:
    """All expected errors and warnings with their lines, and no others."""
    evidence = sources.load(case)
    verdict = checking.command_verdict(checking.lint_commands(evidence, gpus="8xRTX3090"), evidence)

    assert verdict.verdict.value == "pass", verdict.reason


@pytest.mark.parametrize(
    ("text", "vllm", "expected"),
    [
        (CLEAN, "0.19.0", ("0.19.0", "given", "0.19.0")),
        (CLEAN, "0.19.0rc2", ("0.19.0rc2", "given", "0.19.0")),
        (CLEAN, "v0.16.1.dev3+gabc", ("v0.16.1.dev3+gabc", "given", "0.16.0")),
        (CLEAN, None, (options.known_releases()[-1], "newest", options.known_releases()[-1])),
        ("docker run --gpus all vllm/vllm-openai:v0.11.0 --model m\n", None, ("0.11.0", "image", "0.11.0")),
        ("docker run --gpus all vllm/vllm-openai:v0.11.0 --model m\n", "0.16.0", ("0.16.0", "given", "0.16.0")),
    ],
)
def test_the_release_is_requested_from_the_image_or_the_newest(
    text: str, vllm: str | None, expected: tuple[str, str, str]
) -> None:
    """The data of the nearest known release is used."""
    found = checking.lint_text(text, vllm=vllm).vllm

    assert (found.version, found.source, found.data) == expected


def test_images_of_two_releases_are_checked_by_their_own() -> None:
    """In one file."""
    text = (
        "docker run vllm/vllm-openai:v0.16.0 --model m --swap-space 4\n"
        "docker run vllm/vllm-openai:v0.19.0 --model m --swap-space 4\n"
    )
    found = checking.lint_text(text)

    assert [(i.rule, i.line) for i in found.issues if i.rule == "option.removed"] == [("option.removed", 2)]


def test_the_summary_names_every_release_of_a_file() -> None:
    """Of the services of a Compose file, each with its own image."""
    text = "services:\n" + "".join(
        f"  s{at}: {{image: 'vllm/vllm-openai:{tag}', command: --model org/m}}\n"
        for at, tag in enumerate(("v0.19.0", "latest", "v0.19.0"))
    )
    newest = options.known_releases()[-1]
    said = lint_render.headline(checking.lint_text(text, name="compose.yaml"))

    assert f"checked against vLLM 0.19.0 (image tag) and vLLM {newest} (newest known" in said


def test_an_invalid_version_is_rejected() -> None:
    """In one line."""
    with pytest.raises(InputError, match="'banana' is not a vLLM version"):
        checking.lint_text(CLEAN, vllm="banana")


def test_an_unknown_gpu_is_rejected() -> None:
    """With the nearest names."""
    with pytest.raises(InputError, match="RTX"):
        checking.lint_text(CLEAN, gpus="8xRTX3099")


@pytest.mark.parametrize("case", SCRIPTS)
@pytest.mark.parametrize("fix", [False, True])
def test_the_document_keeps_to_its_schema(case: str, *, fix: bool) -> None:
    """With and without the corrected text."""
    evidence = sources.load(case)
    found = checking.lint_text(evidence.documents[0].text, vllm="0.19.0", gpus="8xRTX3090", fix=fix)
    document = json.loads(render.to_json(found))
    schema = json.loads((ROOT / "schema" / "lint.json").read_text("utf-8"))

    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document)] == []
    assert list(document) == ["schema", "vllm", "issues", "deployments", "fixed"]
    assert (document["fixed"] is not None) is fix


def test_flags_have_the_types_of_the_parser() -> None:
    """By argparse destination, including environment variables."""
    text = (
        "export VLLM_LOGGING_LEVEL=DEBUG\nvllm serve m --max-model-len 8k -tp 2 --enforce-eager "
        "--limit-mm-per-prompt '{\"image\": 2}'\n"
    )
    (start,) = checking.lint_text(text, vllm="0.19.0").deployments

    assert start.model == "m"
    assert start.flags == {
        "max_model_len": 8000,
        "tensor_parallel_size": 2,
        "enforce_eager": True,
        "limit_mm_per_prompt": {"image": 2},
    }
    assert start.env == {"VLLM_LOGGING_LEVEL": "DEBUG"}


def test_no_output_shows_a_secret(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Neither text nor message, flags, environment, corrected text or difference, in any format."""
    script = tmp_path / "run.sh"
    script.write_text(WRONG.format(token=TOKEN))
    for arguments in (
        ("lint", str(script)),
        ("lint", str(script), "--fix"),
        *(("lint", str(script), "--format", form) for form in ("json", "sarif", "github")),
        ("lint", str(script), "--format", "json", "--fix"),
        ("migrate", str(script), "--from", "0.11.0", "--to", "0.19.0"),
        ("migrate", str(script), "--from", "0.11.0", "--to", "0.19.0", "--format", "json"),
        ("lint", "--", "vllm", "serve", "m", "--hf-token", TOKEN, "--api-kee", TOKEN),
    ):
        status, out, err = run(capsys, *arguments)

        assert status == 1
        assert TOKEN not in out + err


def test_a_printed_script_without_its_secrets_has_a_note(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Otherwise `--fix > FILE` would write a placeholder as the key; other scripts have no note."""
    script = tmp_path / "launch.sh"
    for key, count in ((" --api-key sk-abcdefghijklmnopqrstuvwx", 1), ("", 0)):
        script.write_text(f"vllm serve m{key} --host 127.0.0.1 --swap-space 4\n")
        _, out, err = run(capsys, "lint", "--fix", str(script), "--vllm", "0.19.0")

        assert "--swap-space" not in out
        assert err.count("-o FILE writes the script with its secrets") == count


def test_the_users_own_file_keeps_its_secret(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With -o the corrected script must still run; the input file is unchanged."""
    script, out = tmp_path / "run.sh", tmp_path / "fixed.sh"
    script.write_text(WRONG.format(token=TOKEN))
    run(capsys, "lint", str(script), "--fix", "-o", str(out))

    assert script.read_text() == WRONG.format(token=TOKEN)
    assert f"export HF_TOKEN={TOKEN}\n" in out.read_text()
    assert "--max-model-len 4096" in out.read_text()


@pytest.mark.parametrize("case", SCRIPTS)
def test_fixing_is_safe(case: str) -> None:
    """No error is left that has a fix, fixing again changes nothing, and every comment survives."""
    text = sources.load(case).documents[0].text
    fixed = checking.fixed_text(text, vllm="0.19.0", gpus="8xRTX3090")
    left = checking.lint_text(fixed, vllm="0.19.0", gpus="8xRTX3090")
    comments = {line.partition("#")[2].strip() for line in text.splitlines() if "#" in line}

    assert fixed != text
    assert [i for i in left.issues if i.severity is IssueSeverity.ERROR and i.fix] == []
    assert checking.fixed_text(fixed, vllm="0.19.0", gpus="8xRTX3090") == fixed
    assert all(comment in fixed for comment in comments)


@pytest.mark.parametrize("case", SCRIPTS)
def test_each_fix_is_an_edit_of_the_file(case: str) -> None:
    """The text between two places is replaced; places count from 1."""
    text = sources.load(case).documents[0].text
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]
    for issue in checking.lint_text(text, vllm="0.19.0").issues:
        assert text[starts[issue.line - 1] + issue.column - 1 :].startswith(issue.text[:40])
        if issue.fix:
            start = starts[issue.fix.line - 1] + issue.fix.column - 1
            end = starts[issue.fix.end_line - 1] + issue.fix.end_column - 1
            changed = text[:start] + issue.fix.new_text + text[end:]

            assert 0 <= start <= end <= len(text)
            assert changed != text


def test_sarif_and_annotations_have_file_line_and_rule(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """SARIF has a rule per result and a replacement per fix; annotations are escaped for GitHub."""
    script = tmp_path / "a,b.sh"
    script.write_text("vllm serve m --host 127.0.0.1 --max-modle-len 4096\n")
    _, out, _ = run(capsys, "lint", str(script), "--vllm", "0.19.0", "--format", "sarif")
    (log,) = json.loads(out)["runs"]
    result: dict[str, Any] = next(r for r in log["results"] if r["ruleId"] == "option.unknown")

    assert log["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "option.unknown"
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 1, "startColumn": 31}
    change = result["fixes"][0]["artifactChanges"][0]["replacements"][0]
    assert change["insertedContent"]["text"] == "--max-model-len"

    _, out, _ = run(capsys, "lint", str(script), "--vllm", "0.19.0", "--format", "github")
    assert out.startswith("::error file=")
    assert "a%2Cb.sh,line=1,col=31,title=option.unknown::" in out


def test_a_command_may_follow_two_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    """As separate words; places refer to the command as a shell shows it."""
    command = ("vllm", "serve", "m", "--host", "127.0.0.1", "--max-modle-len", "4096")
    status, out, _ = run(capsys, "lint", "--vllm", "0.19.0", "--format", "json", "--", *command)
    (issue,) = json.loads(out)["issues"]

    assert status == 1
    assert (issue["rule"], issue["line"], issue["column"]) == ("option.unknown", 1, 31)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no input; use a file, - for standard input, or -- and a command"),
        (("nowhere.sh",), "nowhere.sh: "),
        (("{a}", "{b}", "--format", "json"), "pass one file for --format json"),
        (("{a}", "{b}", "--fix"), "--fix of several files requires -o FOLDER"),
        (("{a}", "-o", "x"), "-o requires --fix"),
        (("{a}", "--config-check"), "--config-check requires --python"),
        (("{a}", "--vllm", "banana"), "'banana' is not a vLLM version"),
        (("{a}", "--gpus", "A100"), "A100"),
        (("{a}", "--python", "/nowhere/python"), "--python /nowhere/python: cannot be run"),
    ],
)
def test_unreadable_input_exits_with_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    """One line on standard error, and no output."""
    (tmp_path / "a.sh").write_text(CLEAN)
    (tmp_path / "b.sh").write_text(CLEAN)
    named = {"a": tmp_path / "a.sh", "b": tmp_path / "b.sh", "folder": tmp_path}
    status, out, err = run(capsys, "lint", *(argument.format(**named) for argument in arguments))

    assert (status, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_clean_command_exits_with_0(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """So does a file without a launch, with a message."""
    (tmp_path / "a.sh").write_text(CLEAN)
    (tmp_path / "b.sh").write_text("make build && ./deploy --fast\n")
    (tmp_path / "empty.py").touch()

    assert run(capsys, "lint", str(tmp_path / "empty.py"), str(tmp_path / "a.sh"), "--vllm", "0.19.0")[0] == 0
    assert run(capsys, "lint", str(tmp_path / "a.sh"), "--vllm", "0.19.0")[0] == 0
    status, out, _ = run(capsys, "lint", str(tmp_path / "b.sh"))
    assert status == 0
    assert "No vLLM launch found" in out


def test_a_migration_names_changed_defaults(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An option keeps the former value if possible, and the difference is shown."""
    script = tmp_path / "run.sh"
    script.write_text("# mine\nvllm serve m --host 127.0.0.1 --swap-space 4\n")
    status, out, _ = run(capsys, "migrate", str(script), "--from", "0.16.0", "--to", "0.33.0", "--format", "json")
    found = json.loads(out)
    changed = {change["option"]: change for change in found["changed_defaults"]}
    schema = json.loads((ROOT / "schema" / "migrate.json").read_text("utf-8"))

    assert status == 1
    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(found)] == []
    assert changed["gpu_memory_utilization"] == {
        "option": "gpu_memory_utilization",
        "from": 0.9,
        "to": 0.92,
        "explicit": True,
        "note": "vLLM uses a larger or smaller share of each GPU's memory.",
    }
    assert "--swap-space" not in found["fixed"]
    assert "--gpu-memory-utilization 0.9" in found["fixed"]
    assert found["fixed"].startswith("# mine\n")
    assert "+vllm serve m" in found["diff"]
    assert checking.lint_text(found["fixed"], vllm="0.33.0").deployments[0].flags["gpu_memory_utilization"] == 0.9


def test_a_migration_to_an_older_release_does_not_explain_the_newer_one() -> None:
    """The notes say what the newer default does."""
    newer, _ = checking.migrate_text(CLEAN, from_="0.11.0", to="0.33.0")
    older, _ = checking.migrate_text(CLEAN, from_="0.33.0", to="0.11.0")

    assert any(change.note for change in newer.changed_defaults)
    assert [change.note for change in older.changed_defaults if change.note] == []


def test_the_diff_of_a_migration_marks_a_last_line_without_its_end() -> None:
    """As a pasted command has none."""
    found, _ = checking.migrate_text("vllm serve m --swap-space 4", from_="0.11.0", to="0.19.0")

    assert "\n-vllm serve m --swap-space 4\n\\ No newline at end of file\n+vllm serve m" in found.diff


def test_a_migration_to_the_same_release_changes_nothing() -> None:
    """The text stays as it is."""
    found, rewritten = checking.migrate_text(CLEAN, from_="0.19.0", to="0.19.0")

    assert (rewritten, found.changed_defaults, found.diff) == (CLEAN, (), "")


@pytest.mark.parametrize(
    "script",
    [
        "KEY={secret}; vllm serve m --api-key $KEY --max-modle-len 3\n",
        "vllm serve m --api-key 'plainvalue'99xyz --max-modle-len 3\n",
        "export VLLM_API_KEY='{secret}'\nvllm serve m --max-modle-len 3\n",
        "vllm serve m --api-key {secret} \\ # c\n  --max-modle-len 3\n",
    ],
)
def test_a_value_used_as_a_secret_is_hidden(capsys: pytest.CaptureFixture[str], tmp_path: Path, script: str) -> None:
    """Through variables, in pieces, or in the environment; no fix contains its placeholder."""
    file = tmp_path / "run.sh"
    file.write_text(script.format(secret="plainvalue99xyz"))  # noqa: S106 - made up
    for arguments in (("--format", "json", "--fix"), ("--format", "sarif"), ("--format", "github"), (), ("--fix",)):
        status, out, err = run(capsys, "lint", str(file), "--vllm", "0.19.0", *arguments)

        assert status == 1
        assert "plainvalue" not in out + err
        assert "99xyz" not in out + err
        for issue in json.loads(out)["issues"] if "json" in arguments else ():
            assert "[secret" not in (issue["fix"] or {}).get("new_text", "")
            assert "[secret" not in issue["message"]


def test_of_very_many_issues_the_serious_ones_are_shown() -> None:
    """An error after hundreds of remarks is shown."""
    text = "vllm serve m --max_model_len 4096\n" * 600 + "vllm serve m --max-modle-len 4096\n"
    found = checking.lint_text(text, vllm="0.19.0")

    assert "option.unknown" in rules(found, IssueSeverity.ERROR)
    assert len(found.issues) <= 501


def test_unknown_values_are_null() -> None:
    """Inside a list; an option with an unknown value is left out."""
    text = "vllm serve m --served-model-name a $X --dtype $Y\n"
    (start,) = checking.lint_text(text, vllm="0.19.0").deployments

    assert start.flags == {"served_model_name": ["a", None]}


@pytest.mark.parametrize(
    ("name", "text", "secret"),
    [
        (
            "pod.yaml",
            (
                "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: vllm/vllm-openai:v0.19.0\n"
                "    args: [--model, m, --api-key, flowsecret64, --bogus]\n"
            ),
            "flowsecret64",
        ),
        ("run.sh", "vllm serve m --api-k shortsecret11\n", "shortsecret11"),
        ("run.sh", "vllm serve m --api-key \u201ccurlysecret22\u201d\n", "curlysecret22"),
        ("run.sh", "vllm serve m --api-key \\ # x\n contsecret55\n", "contsecret55"),
        ("run.sh", "vllm serve m --api-key\nlinesecret56\n", "linesecret56"),
        ("run.sh", "vllm serve m --api-ky misspelt76 --bogus\n", "misspelt76"),
        ("run.sh", "vllm serve m--api-key gluedsecret74--bogus\n", "gluedsecret74"),
        ("run.sh", "vllm serve m --api_key underscore66 --bogus 1\n", "underscore66"),
        ("run.py", 'import os\nos.environ["HF_TOKEN"] = "pysecret68"\nLLM("m", bogus=1)\n', "pysecret68"),
    ],
)
def test_a_secret_is_hidden_in_every_form(name: str, text: str, secret: str) -> None:
    """In flow lists, abbreviated options, odd quotes, cut lines and Python; also when migrated."""
    found = checking.lint_text(text, name=name, vllm="0.19.0", fix=True)
    moved, _ = checking.migrate_text(text, name=name, from_="0.11.0", to="0.19.0")

    assert secret not in render.to_json(found) + render.issues.text(found, name) + render.issues.github(found, name)
    assert secret not in render.to_json(moved) + render.issues.changes(moved)


SERVE = "vllm serve m --host 127.0.0.1"
SERVICE = "services:\n  a:\n    image: vllm/vllm-openai:v0.11.0\n"
MOVES = [
    (
        "0.6.6",
        "0.33.0",
        f"export VLLM_ATTENTION_BACKEND=FLASHINFER\n{SERVE}\n",
        (
            f"{SERVE} --attention-backend FLASHINFER --max-num-seqs 256 --gpu-memory-utilization 0.9 "
            "--generation-config vllm --enable-log-requests\n"
        ),
    ),
    (
        "0.11.0",
        "0.33.0",
        f"export VLLM_ATTENTION_BACKEND=XFORMERS\n{SERVE}\n",
        f"export VLLM_ATTENTION_BACKEND=XFORMERS\n{SERVE} --gpu-memory-utilization 0.9\n",
    ),
    (
        "0.8.5",
        "0.16.0",
        f"export VLLM_FLASH_ATTN_VERSION=3\n{SERVE}\n",
        f"{SERVE} --attention-config '{{\"flash_attn_version\": 3}}' --enable-log-requests\n",
    ),
    (
        "0.11.0",
        "0.33.0",
        f"VLLM_TORCH_PROFILER_DIR=/t {SERVE}\n",
        (
            f'{SERVE} --profiler-config \'{{"torch_profiler_dir": "/t", "profiler": "torch"}}\' '
            "--gpu-memory-utilization 0.9\n"
        ),
    ),
    ("0.8.5", "0.16.0", f"export VLLM_USE_V1=0\n{SERVE}\n", f"{SERVE} --enable-log-requests\n"),
    (
        "0.8.5",
        "0.16.0",
        f"export VLLM_USE_V1=0\necho $VLLM_USE_V1\n{SERVE} --port $VLLM_USE_V1\n",
        f"export VLLM_USE_V1=0\necho $VLLM_USE_V1\n{SERVE} --port $VLLM_USE_V1 --enable-log-requests\n",
    ),
    (
        "0.32.0",
        "0.11.0",
        f"{SERVE} --attention-backend FLASHMLA\n",
        f"VLLM_ATTENTION_BACKEND=FLASHMLA {SERVE} --disable-cascade-attn --gpu-memory-utilization 0.92\n",
    ),
    (
        "0.32.0",
        "0.11.0",
        "docker run --gpus all vllm/vllm-openai:latest --model m\n",
        (
            "docker run --gpus all vllm/vllm-openai:v0.11.0 --model m --disable-cascade-attn "
            "--gpu-memory-utilization 0.92\n"
        ),
    ),
    ("0.17.1", "0.19.0", f"{SERVE}\n", f"{SERVE} --no-disable-cascade-attn\n"),
    ("0.19.0", "0.17.1", f"{SERVE}\n", f"{SERVE} --disable-cascade-attn\n"),
    ("0.31.0", "0.32.0", f"{SERVE}\n", f"{SERVE}\n"),
    ("0.9.2", "0.16.0", f"{SERVE}\n", f"{SERVE} --enable-log-requests\n"),
    (
        "0.9.2",
        "0.33.0",
        f"{SERVE} --disable-log-requests\n",
        f"{SERVE} --disable-log-requests --gpu-memory-utilization 0.9\n",
    ),
    ("0.7.3", "0.8.5", f"{SERVE}\n", f"{SERVE} --max-num-seqs 256 --generation-config vllm\n"),
    ("0.11.0", "0.33.0", f"{SERVE} --config serve.yaml\n", f"{SERVE} --config serve.yaml\n"),
    (
        "0.8.5",
        "0.33.0",
        "from vllm import LLM\nLLM(model='m', swap_space=4)\n",
        "from vllm import LLM\nLLM(model='m', gpu_memory_utilization=0.9)\n",
    ),
    (
        "0.11.0",
        "0.19.0",
        "docker run --gpus all -e VLLM_ATTENTION_BACKEND=FLASH_ATTN vllm/vllm-openai:v0.11.0 --model m\n",
        (
            "docker run --gpus all vllm/vllm-openai:v0.19.0 --model m --attention-backend FLASH_ATTN "
            "--no-disable-cascade-attn\n"
        ),
    ),
    (
        "0.11.0",
        "0.19.0",
        f"{SERVICE}    environment:\n      VLLM_ATTENTION_BACKEND: FLASH_ATTN\n    command: --model m\n",
        (
            "services:\n  a:\n    image: vllm/vllm-openai:v0.19.0\n"
            "    command: --model m --attention-backend FLASH_ATTN --no-disable-cascade-attn\n"
        ),
    ),
]


@in_one_test(("from_", "to", "text", "expected"), MOVES)
def test_a_migration_rewrites_what_is_certain(from_: str, to: str, text: str, expected: str) -> None:
    """Variables become options and vice versa; important defaults are kept, no others added."""
    _, rewritten = checking.migrate_text(text, from_=from_, to=to)

    assert rewritten == expected


@pytest.mark.parametrize(
    ("from_", "to", "text", "expected"),
    [
        ("0.7.3", "0.8.5", CLEAN, [("VLLM_USE_V1", False, True)]),
        ("0.6.6", "0.16.0", CLEAN, [("VLLM_USE_V1", False, True)]),
        ("0.7.3", "0.8.5", f"export VLLM_USE_V1=1\n{CLEAN}", []),
        ("0.8.5", "0.33.0", CLEAN, [("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", False, True)]),
        (
            "0.16.0",
            "0.33.0",
            CLEAN.replace("\n", " --enable-auto-tool-choice --tool-call-parser hermes\n"),
            [
                ("VLLM_ENFORCE_STRICT_TOOL_CALLING", False, True),
                ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", False, True),
            ],
        ),
    ],
)
def test_a_migration_names_variables_with_changed_defaults(
    from_: str, to: str, text: str, expected: list[tuple[str, Any, Any]]
) -> None:
    """Where they matter and are not set: the engine, the memory, tool calls."""
    found, _ = checking.migrate_text(text, from_=from_, to=to)

    assert [(c.option, c.from_, c.to) for c in found.changed_defaults if c.option.startswith("VLLM_")] == expected
    assert [c.option for c in found.changed_defaults if not c.note] == []


STARTS = {
    "serve": ("run.sh", "vllm serve m\n"),
    "api_server": ("run.sh", "python -m vllm.entrypoints.openai.api_server --model m\n"),
    "LLM": ("run.py", "from vllm import LLM\nLLM(model='m')\n"),
    "EngineArgs": ("run.py", "from vllm import EngineArgs\nEngineArgs(model='m')\n"),
    "AsyncEngineArgs": ("run.py", "from vllm import AsyncEngineArgs\nAsyncEngineArgs(model='m')\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("gpus", [None, "8xRTX3090", "A100-80GB"])
def test_every_changed_default_was_reviewed(start: str, gpus: str | None) -> None:
    """Between known releases no default changes without a review, for any entry point."""
    name, text = STARTS[start]
    reviews = knowledge.knowledge().specs.defaults
    changed = [
        change
        for one, other in pairwise(options.known_releases())
        for change in checking.migrate_text(text, name=name, from_=one, to=other, gpus=gpus)[0].changed_defaults
    ]

    assert changed
    assert {change.option for change in changed} <= {*reviews.options, *reviews.environment}
    assert [change.option for change in changed if not change.note] == []


def test_an_unreviewed_default_is_only_named() -> None:
    """It is not written into the script, and its note has the reason."""
    known = knowledge.knowledge()
    unread = replace(known, specs=replace(known.specs, defaults=DefaultReviews()))
    found, rewritten = lint.migrate(CLEAN, unread, lint.LintRequest(vllm="0.33.0"), from_="0.16.0")
    told = {change.option: (change.explicit, change.note) for change in found.changed_defaults}

    assert rewritten == CLEAN
    assert told["gpu_memory_utilization"] == (False, "This change has not been reviewed.")


CONFIG = """\
# settings
port: 8000
max-modle-len: 4096
enforce-eager: true
gpu-memory-utilization: high
api-key: shorty
allowed-local-media-path: /
"""


def test_a_value_out_of_range_in_a_configuration_file_is_one_issue(tmp_path: Path) -> None:
    """It is about the option, at the line of the file, and not about the file's name."""
    (tmp_path / "serve.yaml").write_text("max-num-seqs: 0\n")
    found = checking.lint_text(f"{SERVE} --config serve.yaml\n", name="run.sh", vllm="0.19.0", folder=tmp_path)

    assert [issue.message.partition(" must")[0] for issue in found.issues if issue.severity.value == "error"] == [
        "serve.yaml, line 1: --max-num-seqs"
    ]


def test_options_in_a_configuration_file_are_checked(tmp_path: Path) -> None:
    """At the file name, with their line; the command line takes precedence."""
    (tmp_path / "serve.yaml").write_text(CONFIG)
    (tmp_path / "link.yaml").symlink_to("/etc/hostname")
    text = f"{SERVE} --config serve.yaml --port 8001\n{SERVE} --config none.yaml\n{SERVE} --config link.yaml\n"
    found = checking.lint_text(text, name="run.sh", vllm="0.19.0", folder=tmp_path)
    said = [
        (i.rule, i.line, i.message.split(":")[0])
        for i in found.issues
        if i.rule.startswith(("option.", "safety.whole"))
    ]

    assert said == [
        ("option.unknown", 1, "serve.yaml, line 3"),
        ("option.wrong-type", 1, "serve.yaml, line 5"),
        ("safety.whole-file-system", 1, "serve.yaml, line 7"),
        ("option.config-unknown", 2, "none.yaml could not be read, so the options in it were not checked."),
        ("option.config-unknown", 3, "link.yaml could not be read, so the options in it were not checked."),
    ]
    assert found.deployments[0].flags["port"] == 8001
    assert found.deployments[0].flags["enforce_eager"] is True
    assert "shorty" not in render.to_json(found)
    assert "safety.secret-in-arguments" not in rules(found)
    assert "option.config-unknown" in rules(checking.lint_text(text, vllm="0.19.0"))


CALLS = """\
from vllm import LLM, AsyncEngineArgs, EngineArgs
llm = LLM(
    model="m",
    tensor_parallel_sise=2,
    swap_space=4,  # GiB
    task="generate",
    speculative_model="d",
    num_speculative_tokens=5,
    dtype="bfloat",
)
args = EngineArgs(model="m", guided_decoding_backend="outlines", disable_mm_preprocessor_cache=True)
server = AsyncEngineArgs(model="m", runner="poolling")
"""
MENDED_CALLS = """\
from vllm import LLM, AsyncEngineArgs, EngineArgs
llm = LLM(
    model="m",
    tensor_parallel_size=2,
    # GiB
    runner="generate",
    speculative_config={"model": "d", "num_speculative_tokens": 5},
    dtype="bfloat",
)
args = EngineArgs(model="m", structured_outputs_config={"backend": "outlines"}, mm_processor_cache_gb=0)
server = AsyncEngineArgs(model="m", runner="pooling")
"""


def test_a_call_is_checked_and_fixed_as_python() -> None:
    """Messages have keyword arguments instead of options, and every fix is valid Python."""
    found = checking.lint_text(CALLS, name="a.py", vllm="0.33.0", fix=True)

    assert [issue.message for issue in found.issues if "--" in issue.message or "parser refuses" in issue.message] == []
    assert found.fixed == MENDED_CALLS


def test_an_argument_is_not_renamed_to_an_existing_one() -> None:
    """Python rejects repeated keyword arguments."""
    text = 'from vllm import LLM\nllm = LLM("m", max_modle_len=1, max_model_len=2)\n'
    found = checking.lint_text(text, name="a.py", vllm="0.33.0", fix=True)

    assert [issue.rule for issue in found.issues] == ["option.unknown"]
    assert found.fixed == text


@pytest.mark.parametrize(
    ("text", "rule", "severity"),
    [
        ("vllm serve m --dtype int3\n", "option.wrong-choice", "error"),
        ("# then with --dtype int3\nvllm serve m\n", "option.wrong-choice", "info"),
        ("vllm serve m --seed 1 \\ # one\n  --port 8000\n", "shell.comment-after-continuation", "error"),
        ("vllm serve m --tensor-parallel-size 4\n", "meaning.more-gpus-than-given", "error"),
        ('from vllm import LLM\nllm = LLM(model="m", dtype="int3")\n', "option.wrong-choice", "error"),
    ],
)
def test_errors_in_code_are_errors_and_in_comments_are_hints(text: str, rule: str, severity: str) -> None:
    """A launch that cannot work is an error in every format; a comment launches nothing."""
    found = checking.lint_text(text, vllm="0.19.0", gpus="2xa100-80gb")

    assert [issue.severity for issue in found.issues if issue.rule == rule] == [severity]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("vllm serve m --api-key sesame --bogus 1\n", "sesame"),
        ("K=sesame\nvllm serve m --api-key $K --max-modle-len 3\n", "sesame"),
        ("vllm serve m --api-key=se'sa'me --max-modle-len 3\n", "se'sa'me"),
        ("export A=1 MY_PASSWORD=opened\nvllm serve m --served-model-name opened --bogus\n", "MY_PASSWORD=opened"),
        ("vllm serve m --api-key \\\n  sesame \\\n  --swap-space 4\n", "sesame"),
        (f"{SERVICE}    environment: {{API_KEY: opened}}\n    command: --bogus\n", "opened"),
    ],
)
def test_a_short_secret_is_hidden_everywhere(text: str, secret: str) -> None:
    """In issues, flags, fixed text and difference, even if it looks like a common word."""
    found = checking.lint_text(text, vllm="0.33.0", fix=True)
    moved, _ = checking.migrate_text(text, from_="0.17.1", to="0.33.0")

    assert secret not in render.to_json(found)
    assert secret not in render.to_json(moved)
    assert (
        secret
        not in render.issues.github(found, "a.sh") + render.issues.table(found).html + render.issues.starts(found).html
    )


def test_a_key_in_several_quotes_is_hidden_everywhere() -> None:
    """Also if quotes begin or end inside the value, and in a comment."""
    key = "pl4nted'-Pa55'word"
    found = checking.lint_text(f"vllm serve m --api-key={key} --swap-space 4\n# was {key}\n", vllm="0.33.0", fix=True)

    assert found.fixed is not None
    assert "Pa55" not in found.fixed


def test_a_key_that_is_a_word_of_the_command_leaves_the_command_readable() -> None:
    """A key `vllm` is hidden as a key, and `vllm serve` stays."""
    found = checking.lint_text("vllm serve m --api-key vllm --swap-space 4\n", vllm="0.33.0", fix=True)

    assert found.fixed == "vllm serve m --api-key [secret-1]\n"


@in_one_test(
    ("text", "value"),
    [
        # As PyYAML, which reads YAML 1.1, types plain words.
        ("yes", True), ("Yes", True), ("YES", True), ("yEs", "yEs"), ("on", True), ("true", True), ("no", False),
         ("Off", False), ("FALSE", False),
        ("y", "y"), ("", None), ("~", None), ("null", None), ("NULL", None), ("nULL", "nULL"), ("None", "None"),
        ("12", 12), ("+12", 12), ("-12", -12), ("1_000", 1000), ("010", 8), ("-010", -8), ("08", "08"), ("0", 0),
         ("1_", 1), ("_1", "_1"),
        ("1" * 31, int("1" * 31)), ("1" * 32, "1" * 32),
        ("1.5", 1.5), ("-1.5", -1.5), (".5", 0.5), ("1.", 1.0), ("1.5e+3", 1500.0), ("1.5e3", "1.5e3"), ("1e3", "1e3"),
         (".", "."), ("1_0.5", 10.5),
        ("a b", "a b"), ('"12"', "12"), ("'yes'", "yes"), ("[1, yes, [x]]", [1, True, ["x"]]),
         ("{a: 1, b: {c: no}}", {"a": 1, "b": {"c": False}}),
    ],
)  # fmt: skip
def test_values_of_a_configuration_file(text: str, value: Any) -> None:
    """Plain words are typed, quoted ones are words; each key has its line."""
    config = config_files.read(f"# a file\nport: 1\nx: {text}\n")

    assert config is not None
    assert (config.values, config.lines) == ({"port": 1, "x": value}, {"port": 2, "x": 3})
    assert type(config.values["x"]) is type(value)


def test_a_configuration_file_has_limits() -> None:
    """On size, keys and depth; a file that is not a mapping is ignored."""
    keys = "".join(f"k{number}: {number}\n" for number in range(301))
    many, deep = config_files.read(keys), config_files.read("x: " + "[" * 21 + "]" * 21)

    assert many is not None
    assert list(many.values) == [f"k{number}" for number in range(300)]
    assert deep is not None
    assert str(deep.values["x"]) == "[" * 21 + "]" * 21
    nested = config_files.read("x: " + "{a: " * 21 + "1" + "}" * 21)
    assert nested is not None
    assert str(nested.values["x"]) == "{'a': " * 21 + "None" + "}" * 21
    assert config_files.read("x: 1\n#".ljust(200_000, "y")) is not None
    assert [config_files.read(text) for text in ("- a\n", "a", "x: [", "x: 1\n#".ljust(200_001, "y"))] == [None] * 4


@pytest.mark.parametrize(
    ("said", "spoken"),
    [
        ("--max-model-len takes a number", "max_model_len takes a number"), ("x --tp", "x tp"),
         ("a--b and -c", "a--b and -c"),
        ("--speculative-config.num_tokens.x is no key", 'the key "num_tokens.x" of speculative_config is no key'),
        ("It has no option --x-1", "It has no argument x_1"),
    ],
)  # fmt: skip
def test_errors_of_a_call_are_reported_as_keyword_arguments(said: str, spoken: str) -> None:
    """Options and their keys have the names of a program."""
    assert calls.spoken(said) == spoken


@pytest.mark.parametrize(
    ("value", "near", "choices", "is_meant"),
    [
        ("bfloat", "bfloat16", "bfloat16 or float16", True), ("float1", "float16", "float16 or float32", True),
         ("float", "float16", "float16 or float32", False),
        ("zzz", "auto", "auto half", False), ("autoo", "auto", "auto", True), ("autoo", None, "auto", False),
         (7, "auto", "auto", False),
        ("autoo", "half", "auto half", False), ("autoo", "auto", "", False),
    ],
)  # fmt: skip
def test_a_value_is_corrected_to_one_clearly_nearest_choice(
    value: Any, near: str | None, choices: str, *, is_meant: bool
) -> None:
    """Much nearer than all others."""
    assert calls._is_clear_choice(value, {"choices": choices} | ({"near": near} if near else {})) is is_meant


@in_one_test(
    ("text", "kind", "value"),
    [
        ("1", "bool", True), ("True", "bool", True),
         ("false", "bool", False), ("TRUE", "bool", None), ("12", "int", 12), ("-1", "int", None),
         ("1" * 9, "int", 111_111_111),
        ("1" * 10, "int", None), ("\u0661", "int", None), ("a", "str", "a"), ("None", "str", None),
         ("True", "str", None), ("a", "float", None),
        ("b", {"enum": ["a", "b"]}, "b"), ("2", {"enum": [1, 2]}, 2), ("None", {"enum": [None, "a"]}, None),
         ("c", {"enum": ["a"]}, None),
    ],
)  # fmt: skip
def test_a_variable_s_text_as_a_key(text: str, kind: Any, value: Any) -> None:
    """Of the key's type, or not at all."""
    assert moves._typed(text, kind) == value


@pytest.mark.parametrize(
    ("text", "how", "value"),
    [
        ("a", "same", "a"), ("", "same", None), ("x", {"map": {"1": "x", "0": "y"}}, "1"),
         ("z", {"map": {"1": "x"}}, None), ("a", {"map": {"1": "x"}}, None), ("", {"map": {"1": True}}, "1"),
        # Two spellings of one switch are one; two other values are not.
        ("x", {"map": {"1": "x", "true": "x"}}, "1"), ("x", {"map": {"1": "x", "b": "x"}}, None), ("x", None, None),
    ],
)  # fmt: skip
def test_an_option_s_value_as_a_variable(text: str, how: Any, value: str | None) -> None:
    """The text that the variable had for it."""
    assert moves._variable_value(text, how) == value


@pytest.mark.parametrize(
    ("values", "is_nothing"),
    [
        ((None, None), True),
        (("", {}), True),
        (([], "None"), True),
        ((None, 0), False),
        ((False, None), False),
        (("a", None), False),
        ((), True),
    ],
)
def test_two_kinds_of_empty_values(values: tuple[Any, ...], *, is_nothing: bool) -> None:
    """An empty word, list or object, and None; zero and false are values."""
    assert moves._is_nothing(*values) is is_nothing


@pytest.mark.parametrize(
    ("script", "groups"),
    [
        ("vllm serve a &\nvllm serve b &\n", [[0, 1]]), ("vllm serve a\nvllm serve b\n", [[]]),
         ("vllm serve a &\nvllm serve b\n", [[0]]),
        ("vllm serve a &\nwait\nvllm serve b &\n", [[0], [1]]),
         ("vllm serve a &\npkill vllm\nvllm serve b &\nvllm serve c &\n", [[0], [1, 2]]),
        ("vllm serve a &\necho waiting\nvllm serve b &\n", [[0, 1]]),
         ("vllm serve a &\nstop_server x\nvllm serve b &\n", [[0], [1]]),
        ("vllm serve a &\nssh h vllm serve b &\nvllm serve c &\n", [[0, 2]]),
         ("docker run vllm/vllm-openai:v0.11.0 --model a &\nvllm serve c &\n", [[1]]),
    ],
)  # fmt: skip
def test_launches_that_run_concurrently(script: str, groups: list[list[int]]) -> None:
    """In the background on this host, until they are stopped or awaited."""
    page = documents.read(script, "run.sh")

    assert list(together(page, page.starts)) == groups


def test_the_verdict_on_commands() -> None:
    """Compared with a case line by line, else given by the first issue."""
    wrong = checking.lint_text(
        "vllm serve m --host 127.0.0.1 --max-modle-len 4096\nvllm serve m --host 127.0.0.1 --dtype zz\n", vllm="0.19.0"
    )
    first, second = (issue for issue in wrong.issues if issue.severity is not IssueSeverity.INFO)
    told = checking.command_verdict(wrong, Evidence(()))

    assert (told.verdict.value, told.reason) == ("fail", f"line 1: {first.message} (option.unknown)")
    assert (second.line, checking.command_verdict(replace(wrong, issues=()), Evidence(())).reason) == (
        2,
        "no problems on vLLM 0.19.0",
    )
    empty = checking.command_verdict(replace(wrong, issues=(), deployments=()), Evidence(()))
    assert (empty.verdict.value, empty.reason) == ("fail", "no vLLM launch found; nothing was checked")

    def judged(*expected: tuple[str, int]) -> tuple[str, str]:
        expect = Expectation(issues=[IssueRef(rule, line) for rule, line in expected])
        found = checking.command_verdict(wrong, Evidence((), Case("c", "t", "s", ["a.sh"], expect)))
        assert found.case == "c"
        return found.verdict.value, found.reason

    assert judged(("option.unknown", 1), ("option.wrong-choice", 2)) == ("pass", "as expected: 2 issues")
    assert judged(("option.unknown", 2), ("option.wrong-choice", 2)) == (
        "fail", "line 2: option.unknown: expected, not found; line 1: option.unknown: found, not expected",
    )  # fmt: skip


CHECKED_FOR = "checked against vLLM 0.19.0."
JUDGED = CommandRelease("0.19.0", "given", "0.19.0")
FAULT = Issue("option.unknown", IssueSeverity.ERROR, 3, 14, "vllm serve m \\\n  --x", "100% wrong,\nno: such", None)
MENDED = Issue(
    "shell.blank", IssueSeverity.WARNING, 4, 1, "", "A blank <b> \x1b[31m", Fix(4, 1, 5, 7, "--max-model-len 1\n")
)
KNOWN = Issue("name.latest", IssueSeverity.INFO, 9, 2, "x" * 201, "The newest", None)
STARTED = Launch("m", {"max_model_len": 4096, "host": "::", "enforce_eager": True, "seed": None}, {"A": "b", "C": None})
FOUND = Linted(JUDGED, (FAULT, MENDED, KNOWN), (STARTED,), None)


@pytest.mark.parametrize(
    ("issues", "starts", "said"),
    [
        ((), 0, "No vLLM launch found; nothing was checked."),
        ((), 1, f"No problems found in 1 launch, {CHECKED_FOR}"),
        ((), 2, f"No problems found in 2 launches, {CHECKED_FOR}"),
        ((FAULT,), 0, f"Found 1 error, {CHECKED_FOR}"),
        ((KNOWN, MENDED, FAULT), 1, f"Found 1 error, 1 warning and 1 info in 1 launch, {CHECKED_FOR}"),
        ((KNOWN, MENDED, MENDED, KNOWN), 1, f"Found 2 warnings and 2 infos in 1 launch, {CHECKED_FOR}"),
        ((FAULT,) * 3, 3, f"Found 3 errors in 3 launches, {CHECKED_FOR}"),
    ],
)
def test_the_last_line_has_the_counts(issues: tuple[Issue, ...], starts: int, said: str) -> None:
    """By severity, the worst first, with singulars; a text without a launch was not checked."""
    found = Linted(JUDGED, issues, (STARTED,) * starts, None)

    assert render.issues.headline(found) == said
    fixable = sum(issue.fix is not None for issue in issues)
    with_fixes = said.replace(" in ", f" ({fixable} fixable with --fix) in ", 1) if fixable else said
    assert render.issues.text(found, "a.sh").split("\n")[-1] == with_fixes


@pytest.mark.parametrize(
    ("vllm", "said"),
    [
        (CommandRelease("0.19.0", "image", "0.19.0"), "vLLM 0.19.0 (image tag)"),
        (CommandRelease("0.19.0", "log", "0.19.0"), "vLLM 0.19.0 (from the log)"),
        (CommandRelease("0.19.0", "newest", "0.19.0"), "vLLM 0.19.0 (newest known; set yours with --vllm)"),
        (CommandRelease("0.19.1", "given", "0.19.0"), "vLLM 0.19.1 (using the data of 0.19.0)"),
    ],
)
def test_a_verdict_names_its_release(vllm: CommandRelease, said: str) -> None:
    """With its origin, and the release whose data replaces it."""
    assert render.issues.release(replace(FOUND, vllm=vllm)) == said


def test_an_issue_has_the_format_of_a_compiler() -> None:
    """Severity, rule, message, place, line with carets, help."""
    assert render.issues.text(FOUND, "a\x1b.sh") == (
        "error[option.unknown]: 100% wrong,\\nno: such\n --> a\\x1b.sh:3:14\n\n"
        "warning[shell.blank]: A blank <b> \\x1b[31m\n --> a\\x1b.sh:4:1\n  = fixable with --fix\n\n"
        "info[name.latest]: The newest\n --> a\\x1b.sh:9:2\n\n"
        "Found 1 error, 1 warning and 1 info (1 fixable with --fix) in 1 launch, checked against vLLM 0.19.0."
    )
    name = "--max-modle-len"
    source = SourceLine(f"\tvllm serve \u4e2d\u6587\x1b {name} 9", 16, 16 + len(name))
    fix = Fix(112, 17, 112, 17 + len(name), "--max-model-len")
    notes = ("Did you mean --max-model-len?", "Spell it so.")
    issue = Issue(
        "option.unknown",
        IssueSeverity.ERROR,
        112,
        17,
        name,
        "No such option. " + " ".join(notes),
        fix,
        None,
        notes,
        notes[:1],
        source,
    )
    shown = render.issues.text(replace(FOUND, issues=(issue,)), "a.sh")
    assert shown.split("\n")[:-2] == [
        "error[option.unknown]: No such option.",
        "   --> a.sh:112:17",
        "    |",
        "112 |  vllm serve \u4e2d\u6587\\x1b --max-modle-len 9",
        f"    | {' ' * 21}^^^^^^^^^^^^^^^ use --max-model-len",
        "    = note: Spell it so.",
        "    = fixable with --fix",
    ]
    quoted = replace(issue, column=16)
    assert "^ use --max-model-len" in render.issues.text(replace(FOUND, issues=(quoted,)), "a.sh")
    many = replace(issue, notes=("x" * 300,), fix=None)
    assert f"    = help: {'x' * 239}\u2026\n" in render.issues.text(replace(FOUND, issues=(many,)), "a.sh")
    elsewhere = replace(issue, fix=replace(fix, column=20))
    assert "^ write" not in render.issues.text(replace(FOUND, issues=(elsewhere,)), "a.sh")
    removed = replace(issue, fix=replace(fix, new_text=" "), restated=())
    assert f"^ remove this\n    = note: {' '.join(notes)}\n" in render.issues.text(
        replace(FOUND, issues=(removed,)), "a.sh"
    )


@pytest.mark.parametrize("lang", [None, "zh"])
def test_a_note_that_only_repeats_the_fix_is_left_out(lang: str | None) -> None:
    """In every language; a list of values stays, also where its last one is the fix."""
    text = "export NCCL_DEBUG=WARNING NCCL_P2P_DISABLE=yes\nvllm serve m --max-modle-len 9\n"
    linted = checking.lint_text(text, vllm="0.19.0", lang=lang)
    shown_text = render.issues.text(linted, "a.sh")
    repeated = {issue.rule: issue.restated for issue in linted.issues if issue.restated}
    assert {"option.unknown", "environment.wrong-value"} <= repeated.keys()
    for issue in linted.issues:
        for note in issue.notes:
            assert (note in shown_text) == (note not in issue.restated), note
    assert "0, 1" in shown_text
    assert all(note in issue.notes for issue in linted.issues for note in issue.restated)


@pytest.mark.parametrize("width", [40, 80, 140])
def test_a_long_line_is_cut_around_the_issue(width: int) -> None:
    """No snippet is wider than the terminal, and the issue is visible above its carets."""
    for before, about, behind in ((0, 9, 900), (300, 9, 300), (900, 9, 0), (70, 300, 10), (0, 900, 0), (20, 9, 0)):
        text = "b" * before + "a" * about + "c" * behind
        issue = replace(FAULT, source=SourceLine(text, before, before + about))
        block = render.issues.paragraphs(replace(FOUND, issues=(issue,)), "a.sh")
        lines = [str(line) for line in laid_out(block, terminal.layout(width))]
        (shown,) = [line for line in lines if line.startswith("3 | ")]
        (carets,) = [line for line in lines if "^" in line]

        assert all(len(line) <= width for line in lines)
        assert carets.index("^") == shown.index("a")
        assert carets.count("^") == shown.count("a") + ("a\u2026" in shown and about > 9)
        assert ("\u2026" in shown) == (len(text) > width - 5)
        assert not [line for line in lines if line.rstrip().endswith("=")]


def test_a_fix_without_room_is_on_the_next_line() -> None:
    """As separate help; no line becomes wider for it."""
    name = "--max-modle-len"
    issue = Issue("option.unknown", IssueSeverity.ERROR, 1, 51, name, "No.", Fix(1, 51, 1, 66, "--max-model-len"))
    source = SourceLine(" " * 50 + name, 50, 50 + len(name))
    block = render.issues.paragraphs(replace(FOUND, issues=(replace(issue, source=source),)), "a.sh")

    assert [str(line) for line in laid_out(block, terminal.layout(80))][4:6] == [
        f"  | {' ' * 50}{'^' * 15}",
        "  = help: use --max-model-len",
    ]
    assert str(laid_out(block, terminal.layout(140))[4]).endswith("^ use --max-model-len")


def test_a_line_is_shown_without_its_secrets() -> None:
    """Carets mark visible text next to a secret, and a hidden secret itself."""
    found = checking.lint_text(
        "vllm serve m --host 127.0.0.1 --api-key sesame-open-22 --max-modle-len 1 # sesame-open-22\n", vllm="0.19.0"
    )
    lines = render.issues.text(found, "a.sh").split("\n")

    assert "sesame" not in "".join(lines)
    for number, line in enumerate(lines):
        if line.startswith("1 | "):
            carets = lines[number + 1]
            marked = line[carets.index("^") : carets.rindex("^") + 1]
            assert marked in ("--api-key [secret-1]", "--max-modle-len")
    assert sum(line.startswith("1 | ") for line in lines) == 2


def test_a_key_with_a_second_place_is_marked_at_its_placeholder() -> None:
    """Carets mark only the text of the issue."""
    found = checking.lint_text("HF_TOKEN=sesame vllm serve m sesame\n", vllm="0.33.0")
    marked = {}
    for issue in found.issues:
        assert issue.source is not None
        assert issue.source.text[issue.source.start : issue.source.end] == issue.text
        marked[issue.rule] = issue.text

    assert marked == {"safety.open-port": "vllm serve", "option.extra-positional": "[secret-1]"}


def test_remaining_issues_are_shown_without_infos() -> None:
    """Errors and warnings, and the numbers of fixed and remaining ones."""
    assert render.issues.wrong(FOUND.issues) == [FAULT, MENDED]
    text = plain([*render.issues.left_view(FOUND, "a.sh"), render.issues.fixed_line(FOUND.issues, (FAULT, KNOWN))])
    assert [line for line in text.split("\n") if "-->" in line] == [" --> a.sh:3:14", " --> a.sh:4:1"]
    assert text.endswith("\nFixed 1 issue, 1 error remaining.")
    assert render.issues.left_view(replace(FOUND, issues=(KNOWN,)), "a.sh") == []


@pytest.mark.parametrize(
    ("launch", "vllm", "notes"),
    [
        ("Qwen/Qwen3-8B --enable-auto-tool-choice", "0.19.0", ("For Qwen/Qwen3-8B, use --tool-call-parser hermes.",)),
        ("house/m --enable-auto-tool-choice", "0.7.3", ("--tool-call-parser accepts ", "granite, ", ", pythonic.")),
        ("house/m --enable-reasoning", "0.7.3", ("--reasoning-parser accepts deepseek_r1.",)),
        ("house/m --enable-log-outputs", "0.12.0", ()),
    ],
)
def test_a_required_option_lists_its_values(launch: str, vllm: str, notes: tuple[str, ...]) -> None:
    """Those for a known model, else all of the release; an option without choices has none."""
    issues = checking.lint_text(f"vllm serve {launch}\n", vllm=vllm).issues
    (issue,) = (issue for issue in issues if "requires" in issue.message)
    assert all(note in issue.notes[0] for note in notes)
    assert len(issue.notes) == bool(notes)


def test_a_log_belongs_to_diagnose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, unless other files are checked; a page that quotes a log is not a log."""
    text = "INFO 11-21 08:33:15 [api_server.py:1] vLLM API server version 0.19.0\n"
    for name, status in (("serve.log", 2), ("out", 2), ("notes.md", 0)):
        path = tmp_path / name
        path.write_text(text)
        assert cli.run(["lint", str(path)]) == status
        out, err = capsys.readouterr()
        said = f"vllm-runbooks: {path}: is a log, not a script; use vllm-runbooks diagnose {path}\n"
        assert (out, err) == ("", said) if status else "nothing was checked" in out


FAILED_RUN = """\
-rw-r--r-- 1 root root  761 Feb 14 06:36 README.md
(main) $ vllm serve acme/acme-7b --metrics-port 8001
INFO 11-21 08:33:15 [api_server.py:1287] vLLM API server version 0.9.1
Traceback (most recent call last):
  File "/opt/vllm/entrypoints/openai/api_server.py", line 1387, in <module>
    uvloop.run(run_server(args), what='
OSError: [Errno 98] Address already in use
"""


def test_only_the_launches_of_a_log_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For the log's release; its other lines are not shell code. Without a launch it belongs to diagnose."""
    path = tmp_path / "issue.txt"
    path.write_text(FAILED_RUN)
    assert cli.run(["lint", str(path), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {issue["rule"] for issue in found["issues"]} == {"option.unknown", "safety.open-port"}
    assert found["vllm"]["version"] == "0.9.1"
    path.write_text(FAILED_RUN.replace("vllm serve", "acme"))
    assert cli.run(["lint", str(path)]) == 2
    assert "is a log, not a script" in capsys.readouterr().err
    path.write_text("vllm serve acme/acme-7b 'a\n")
    assert cli.run(["lint", str(path)]) == 1
    assert "shell.unclosed-quote" in capsys.readouterr().out


def test_the_scripts_of_a_folder_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Recursively, without logs and hidden files."""
    (tmp_path / "b").mkdir()
    for name in ("a.sh", "b/Dockerfile", "b/.c.sh", "b/d.log"):
        (tmp_path / name).write_text("vllm serve m --no-such 1\n")
    assert cli.run(["lint", str(tmp_path), "--select", "option", "--vllm", "0.19.0"]) == 1
    out = capsys.readouterr().out
    assert re.findall(r"--> (.*):1:\d", out) == [str(tmp_path / "a.sh")]
    assert " in 1 launch in 2 files, " in out
    (tmp_path / "a.sh").unlink()
    (tmp_path / "b" / "Dockerfile").unlink()
    assert cli.run(["lint", str(tmp_path)]) == 2
    assert f"{tmp_path}: contains no script; use a folder with .sh" in capsys.readouterr().err


def test_an_unknown_release_is_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Above the issues; their messages name the release that was checked."""
    script = tmp_path / "a.sh"
    script.write_text("vllm serve m --host ::1 --no-such 1\n")
    for asked, data, which in (("99.1", options.known_releases()[-1], "newest"), ("0.1.0", "0.6.6", "oldest")):
        for extra in ((), ("--fix",)):
            assert cli.run(["lint", str(script), "--vllm", asked, *extra]) == 1
            captured = capsys.readouterr()
            text = captured.err if extra else captured.out
            head = f"vLLM {asked} is unknown; checked using the data of {data}, the {which} known.\n\nerror["
            assert text.startswith(head)
            assert f": vLLM {data} has no option --no-such." in text
    (tmp_path / ".vllm-runbooks.toml").write_text('vllm = "0.19.0"\n')
    for release, said in ([], " (settings: .vllm-runbooks.toml)"), (["--vllm", "0.19.0"], ""):
        assert cli.run(["lint", str(script), *release]) == 1
        out = capsys.readouterr().out
        assert out.startswith("error[")
        assert " ".join(out.split()).endswith(f", checked against vLLM 0.19.0{said}.")


def test_issues_above_the_limit_are_counted() -> None:
    """The last line has the number of hidden ones, and programs get a warning."""
    text = "".join(f"vllm serve m --host ::1 --no-such{n} 1\n" for n in range(502))
    linted = checking.lint_text(text, vllm="0.19.0")
    assert linted.issues[0].message == "Not shown: 2 more issues."
    assert "Found 500 errors and 1 warning; 2 more not shown in 502 launches, " in render.issues.headline(linted)


COUNTED_GPUS = """\
services:
  a:
    image: vllm/vllm-openai
    command: --model m{size}
    deploy:
      resources: {{reservations: {{devices: [{{count: 2, capabilities: [gpu]}}]}}}}
"""


@pytest.mark.parametrize(
    ("name", "text", "notes"),
    [
        (
            "a.sh",
            "export CUDA_VISIBLE_DEVICES=0,1\nvllm serve m{size}\n",
            ("The GPUs are set by CUDA_VISIBLE_DEVICES=0,1.",),
        ),
        ("a.sh", "docker run --gpus=2 vllm/vllm-openai{size}\n", ("The GPUs are set by --gpus=2.",)),
        (
            "compose.yaml",
            COUNTED_GPUS,
            (),
        ),
    ],
)
def test_too_few_gpus_are_reported_with_their_setting(name: str, text: str, notes: tuple[str, ...]) -> None:
    """As written; a bare number names none."""
    selection = Selection(("meaning.more-gpus-than-given",))
    text = text.format(size=" --tensor-parallel-size 4")
    (issue,) = checking.lint_text(text, name=name, vllm="0.19.0", selection=selection).issues
    assert issue.message.startswith("The parallel sizes need 4 GPUs, but the launch has 2.")
    assert issue.notes == notes


@pytest.mark.parametrize("command", [["lint", "--fix"], ["migrate", "--from", "0.11.0", "--to", "0.19.0"]])
def test_a_rewritten_script_stays_executable(command: list[str], tmp_path: Path) -> None:
    """A new file has the permissions of the script."""
    script, new = tmp_path / "a.sh", tmp_path / "b.sh"
    script.write_text("vllm serve m --max-num-seq 4\n")
    script.chmod(0o750)

    cli.run([command[0], str(script), *command[1:], "-o", str(new)])

    assert new.stat().st_mode & 0o777 == 0o750


def test_fix_writes_the_changed_files_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To another folder in the same subfolders, or in place, with their permissions; a second run changes none."""
    deploy, fixed = tmp_path / "deploy", tmp_path / "fixed"
    bad = deploy / "gpu" / "bad.sh"
    bad.parent.mkdir(parents=True)
    bad.write_text("vllm serve m --host ::1 --swap-space 4\n")
    bad.chmod(0o750)
    (deploy / "good.sh").write_text("vllm serve m --host ::1\n")
    given = ["lint", str(deploy), "--fix", "--vllm", "0.19.0"]

    cli.run([*given, "-o", str(fixed)])

    assert [path.relative_to(fixed).as_posix() for path in fixed.rglob("*.sh")] == ["gpu/bad.sh"]
    assert (fixed / "gpu" / "bad.sh").read_text() == "vllm serve m --host ::1\n"
    assert (fixed / "gpu" / "bad.sh").stat().st_mode & 0o777 == 0o750
    assert bad.read_text().endswith("--swap-space 4\n")
    _, err = capsys.readouterr()
    assert err.endswith("bad.sh: Fixed 1 issue, 0 remaining.\nvllm-runbooks: 1 of 2 files changed\n")

    cli.run([*given, "-o", str(deploy)])

    assert bad.read_text() == "vllm serve m --host ::1\n"
    capsys.readouterr()
    assert cli.run([*given, "-o", str(deploy)]) == 0
    assert capsys.readouterr().err.endswith("0 of 2 files changed\n")


@pytest.mark.parametrize("files", [["deploy"], ["deploy/bad.sh", "good.sh"]])
def test_fix_creates_the_folder(files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a folder with one script, and of several files."""
    monkeypatch.chdir(tmp_path)
    Path("deploy").mkdir()
    Path("deploy", "bad.sh").write_text("vllm serve m --host ::1 --swap-space 4\n")
    Path("good.sh").write_text("vllm serve m --host ::1\n")
    cli.run(["lint", *files, "--fix", "--vllm", "0.19.0", "-o", "fixed"])
    (fixed,) = Path("fixed").rglob("*.sh")
    assert fixed.read_text() == "vllm serve m --host ::1\n"


@pytest.mark.parametrize("words", [("-",), ("--", "vllm", "serve", "m", "--swap-space", "4")])
def test_fix_writes_only_files_to_a_folder(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text of standard input and a command have no file name."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"vllm serve m --swap-space 4\n")))
    assert cli.run(["lint", "--fix", "-o", str(tmp_path), *words]) == 2
    assert capsys.readouterr().err.endswith("is not a script or manifest; use -o FILE\n")


def test_fix_prints_remaining_issues_as_lint_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, with the corrected lines and carets, then the counts."""
    script = tmp_path / "bad.sh"
    script.write_text("vllm serve m --host ::1 \\\n  --swap-space 4 \\\n  --enable-auto-tool-choice\n")
    assert cli.run(["lint", "--fix", "--vllm", "0.19.0", str(script)]) == 1
    out, err = capsys.readouterr()
    assert out == "vllm serve m --host ::1 \\\n  --enable-auto-tool-choice\n"
    assert err.startswith("error[option.conflict]: ")
    assert f" --> {script} (fixed):2:3\n  |\n2 |   --enable-auto-tool-choice\n  |   ^^^^" in err
    assert err.endswith("\n\nFixed 1 issue, 1 error remaining. To write the result, add -o FILE.\n")
    target = tmp_path / "good.sh"
    assert cli.run(["lint", "--fix", "--vllm", "0.19.0", str(script), "-o", str(target)]) == 1
    assert f" --> {target}:2:3\n" in capsys.readouterr().err


def test_issues_that_another_fix_removes_are_counted_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The number of fixed issues can be above that of the fixable ones."""
    script = tmp_path / "bad.sh"
    script.write_text("vllm serve m --host ::1 --seed 1\n--swap-space 4 --disable-log-requests\n")
    assert cli.run(["lint", "--vllm", "0.29.0", str(script)]) == 1
    assert "Found 3 errors (2 fixable with --fix)" in capsys.readouterr().out
    assert cli.run(["lint", "--fix", "--vllm", "0.29.0", str(script), "-o", str(tmp_path / "good.sh")]) == 1
    assert capsys.readouterr().err.endswith("Fixed 3 issues (1 through another fix), 0 remaining.\n")


def test_annotations_are_escaped_as_github_reads_them() -> None:
    """Percent signs and line breaks are escaped everywhere, colons and commas in properties."""
    assert render.issues.github(FOUND, "a,b:c%\r.sh") == (
        "::error file=a%2Cb%3Ac%25%0D.sh,line=3,col=14,title=option.unknown::100%25 wrong,%0Ano: such\n"
        "::warning file=a%2Cb%3Ac%25%0D.sh,line=4,col=1,title=shell.blank::A blank <b> \\x1b[31m\n"
        "::notice file=a%2Cb%3Ac%25%0D.sh,line=9,col=2,title=name.latest::The newest"
    )
    assert render.issues.github(replace(FOUND, issues=()), "a") == ""


def test_sarif_has_each_rule_once_and_each_result_with_its_places() -> None:
    """Rules by name; results in the order of the files; references as RFC 3986 has them; a fix with both its ends."""
    known = knowledge.knowledge().rules
    names = sorted(known)[:3]
    first, second, third = (
        replace(issue, rule=name) for issue, name in zip((FAULT, MENDED, KNOWN), reversed(names), strict=True)
    )
    checked = {
        "b\\ü ~.sh": Linted(JUDGED, (first, second), (), None), "a.sh": Linted(JUDGED, (third, first), (), None),
        "c.sh": Linted(JUDGED, (), (), None),
    }  # fmt: skip
    log = json.loads(render.issues.sarif(checked, known, "1.2.3"))
    (run_,) = log["runs"]
    levels = {IssueSeverity.ERROR: "error", IssueSeverity.WARNING: "warning", IssueSeverity.INFO: "note"}

    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("/sarif-schema-2.1.0.json")
    assert run_["columnKind"] == "unicodeCodePoints"
    assert run_["tool"]["driver"] == {
        "name": "vllm-runbooks", "version": "1.2.3",
        "rules": [
            {"id": name, "shortDescription": {"text": known[name].title},
             "fullDescription": {"text": known[name].why.strip()},
             "defaultConfiguration": {"level": levels[known[name].severity]}}
            for name in names
        ],
    }  # fmt: skip

    def placed(uri: str, line: int, column: int) -> list[Any]:
        region = {"startLine": line, "startColumn": column}
        return [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}]

    uri = "b/%C3%BC%20~.sh"
    change = {
        "deletedRegion": {"startLine": 4, "startColumn": 1, "endLine": 5, "endColumn": 7},
        "insertedContent": {"text": "--max-model-len 1\n"},
    }
    fault: dict[str, Any] = {
        "ruleId": names[2], "ruleIndex": 2, "level": "error", "message": {"text": "100% wrong,\nno: such"},
    }  # fmt: skip
    assert run_["results"] == [
        {**fault, "locations": placed(uri, 3, 14)},
        {"ruleId": names[1], "ruleIndex": 1, "level": "warning", "message": {"text": "A blank <b> \x1b[31m"},
         "locations": placed(uri, 4, 1),
         "fixes": [{"artifactChanges": [{"artifactLocation": {"uri": uri}, "replacements": [change]}]}]},
        {"ruleId": names[0], "ruleIndex": 0, "level": "note", "message": {"text": "The newest"},
         "locations": placed("a.sh", 9, 2)},
        {**fault, "locations": placed("a.sh", 3, 14)},
    ]  # fmt: skip
    assert json.loads(render.issues.sarif({}, known, "1"))["runs"][0]["results"] == []


def test_a_notebook_has_the_issues_as_a_table() -> None:
    """A row each: place, severity in color, message, cut line if the message lacks it, rule, fix."""
    shown = render.issues.table(FOUND)
    rows = re.findall("<tr><td.*?</tr>", shown.html, re.DOTALL)

    assert shown.plain == render.issues.text(FOUND, "line")
    assert shown.html.startswith(
        "<p>Found 1 error, 1 warning and 1 info in 1 launch, checked against vLLM 0.19.0.</p><table><tr>"
    )
    assert [re.sub("<[^>]*>", "|", row).strip("|") for row in rows] == [
        "3:14|||error|||||100% wrong,\nno: such||||vllm serve m \\|||option.unknown",
        "4:1|||warning|||||A blank &lt;b&gt; \\x1b[31m||||shell.blank|||yes",
        f"9:2|||info|||||The newest||||{'x' * 200}|||name.latest",
    ]
    tones = [re.findall(r"background:([^;]*);", row) for row in rows]
    assert tones == [[elements.RED], [elements.AMBER], [elements.BLUE]]
    assert re.findall("<th[^>]*>([^<]*)</th>", shown.html) == ["place", "", "issue", "fixable"]
    bare = render.issues.table(replace(FOUND, issues=()))
    assert bare.html == "<p>No problems found in 1 launch, checked against vLLM 0.19.0.</p>"


def test_a_notebook_has_the_launch() -> None:
    """Model, options and environment; unknown values by name, missing parts in words."""
    shown = render.issues.starts(replace(FOUND, deployments=(STARTED, Launch(None, {}, {}))))

    assert shown.plain == (
        "m: max_model_len=4096, host=::, enforce_eager=true, seed=unknown; A=b, C=unknown\n"
        "unknown: no options\nvLLM 0.19.0"
    )
    assert re.findall("<t[dh][^>]*>([^<]*)</t[dh]>", shown.html) == [
        "model", "options", "environment", "m", "max_model_len=4096, host=::, enforce_eager=true, seed=unknown",
        "A=b, C=unknown", "unknown", "", "",
    ]  # fmt: skip
    assert shown.html.endswith("</table><p>vLLM 0.19.0</p>")
    none = render.issues.starts(replace(FOUND, deployments=(), vllm=replace(JUDGED, version="<b>", data="<b>")))
    assert none == RenderedView.nothing("No vLLM launch found (vLLM <b>).")


NEW_DEFAULTS = (
    ChangedDefault("seed", None, 0, explicit=True, note="Answers repeat"),
    ChangedDefault("dtype", "auto", None, explicit=False),
)
MOVED = Migrated(
    JUDGED, (FAULT, MENDED), (STARTED,), None, NEW_DEFAULTS, "--- given\n+++ moved\n@@ -1 +1 @@\n-a\n+<b>\n c"
)


def test_changed_defaults_are_above_the_difference() -> None:
    """Former value, new value, whether the script sets it, and its effect."""
    told = (
        "\nChanged defaults:\nseed: not set -> 0 (the script now sets the old value). Answers repeat\n"
        'dtype: "auto" -> not set'
    )
    assert render.issues.changes(MOVED) == f"{told}\n\n--- given\n+++ moved\n@@ -1 +1 @@\n-a\n+<b>\n c"
    assert render.issues.changes(replace(MOVED, diff="")) == told
    assert render.issues.changes(replace(MOVED, changed_defaults=(), diff="")) == ""


def test_a_notebook_has_the_migration() -> None:
    """Remaining issues, the defaults as a table, and the colored difference."""
    shown = render.issues.migration(MOVED)
    said = "Found 1 error and 1 warning in 1 launch, checked against vLLM 0.19.0. The rewritten text fixes 1 of them"

    assert shown.plain == f"{said}; remaining:\nline:3:14: 100% wrong,\nno: such\n{render.issues.changes(MOVED)}"
    assert shown.html.startswith(f"<p>{said}; remaining:</p><table>")
    assert re.findall("white-space:normal[^>]*>([^<]*)</td>", shown.html) == [
        "seed", "not set", "0", "set in the rewritten text", "Answers repeat", "dtype", "&quot;auto&quot;", "not set",
        "named only", "",
    ]  # fmt: skip
    assert re.findall("<th style='[^']*'>([^<]*)</th>", shown.html) == ["option", "old default", "new default", "", ""]
    assert re.findall('<span style="background:([^"]*)2e">([^<]*)</span>', shown.html) == [
        (elements.RED, "--- given"), (elements.GREEN, "+++ moved"), (elements.GREY, "@@ -1 +1 @@"),
        (elements.RED, "-a"), (elements.GREEN, "+&lt;b&gt;"),
    ]  # fmt: skip
    assert shown.html.endswith("</span>\n c</pre>")
    whole = render.issues.migration(replace(MOVED, issues=(MENDED,), changed_defaults=(), diff=""))
    assert whole.plain.split("\n")[0].endswith("The rewritten text fixes 1 of them.")
    assert "<p>No default of these launches changed.</p>" in whole.html


def test_a_notebook_has_the_difference_of_the_fixes() -> None:
    """Between input and corrected text; none if nothing is fixed."""
    shown = render.issues.difference("a\nb\n", replace(FOUND, fixed="a\nc\n"))

    assert shown.plain == "--- given\n+++ corrected\n@@ -1,2 +1,2 @@\n a\n-b\n+c"
    for same in (None, "a\nb\n"):
        none = render.issues.difference("a\nb\n", replace(FOUND, fixed=same))
        assert none == RenderedView.nothing("Nothing to fix.")
    script = render.issues.script("a < b\n")
    assert (script.plain, script.html) == ("a < b\n", '<pre style="white-space:pre-wrap">a &lt; b\n</pre>')


def test_documents_are_indented_by_two_and_keep_their_letters() -> None:
    """The contract's document and SARIF: a reader's eyes are enough."""
    found = replace(FOUND, issues=(replace(FAULT, rule=min(knowledge.knowledge().rules), message="ü"),))

    for said in (
        render.to_json(found),
        render.issues.sarif({"a.sh": found}, knowledge.knowledge().rules, "1"),
    ):
        assert re.match(r'\{\n  "', said)
        assert '"ü"' in said


NAMES = ["x\n::error::pwned", "e\x1b[31mred\x1b]0;title\x07", "u\u202e\u2028v"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_name_cannot_control_a_terminal_or_ci(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every command and format: a CI runner would execute a line that begins with `::`."""
    monkeypatch.chdir(tmp_path)
    script, log = Path(f"{name}.sh"), Path(f"{name}.log")
    script.write_text("docker login reg -u a -p x\nvllm serve m --max-modl-len 3\n")
    log.write_text("INFO 01-01 00:00:00 [api_server.py:1] vLLM API server version 0.11.0\nRuntimeError: none\n")
    for arguments in (
        *(("lint", str(script), "--format", form) for form in ("text", "github")),
        ("edge10", "lint", str(script)),
        ("lint", str(script), "--fix", "-o", f"{name}.out"),
        ("edge10", "lint", str(script), "--fix", "-o", f"{name}.out"),
        ("migrate", str(script), "--from", "0.11.0", "--to", "0.19.0"),
        ("diagnose", str(log)),
        ("diagnose", str(log), str(script)),
        ("lint", f"{name}.none"),
    ):  # fmt: skip
        _, out, err = run(capsys, *arguments)

        assert not [line for line in (out + err).split("\n") if line.startswith("::error::pwned")], arguments
        assert re.search("[\x1b\x07\u202e\u2028]", out + err) is None, arguments


@pytest.mark.parametrize("form", ["text", "sarif", "github"])
def test_a_secret_in_a_file_name_is_hidden(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the script's name and in its folder's."""
    path = tmp_path / f"{TOKEN}" / "password=Pl4nted5ecret.sh"
    path.parent.mkdir()
    path.write_text("vllm serve m --max-modl-len 3\n")
    _, out, err = run(capsys, "lint", str(path), "--format", form)

    assert "secret-" in out
    assert "Pl4nted" not in out + err
    assert TOKEN not in out + err


COMPILES = """\
from tyllm import torch_edgex
from vllm import LLM
os.environ["VLLM_USE_V1"] = "1"
llm = LLM("m", device="edgex", swap_space=4, max_modl_len=3, api_key="Pl4nted5ecret")
"""


def test_a_program_with_its_own_vllm_is_not_checked_against_a_release() -> None:
    """Neither reported nor fixed unless a release is requested; its neighbors are checked."""
    page = f"```python\n{COMPILES}```\n\n```bash\nvllm serve m --host 127.0.0.1 --max-modl-len 3\n```\n"
    alone, beside = checking.lint_text(COMPILES, name="a.py", fix=True), checking.lint_text(page, name="a.md", fix=True)

    assert rules(alone) == ["file.other-vllm"]
    assert alone.deployments == ()
    assert "Pl4nted5ecret" not in render.to_json(alone)
    assert (alone.fixed or "").count('device="edgex", swap_space=4, max_modl_len=3') == 1
    assert rules(beside) == ["file.other-vllm", "option.unknown"]
    assert len(beside.deployments) == 1
    assert {"option.removed", "option.unknown"} <= {*rules(checking.lint_text(COMPILES, name="a.py", vllm="0.33.0"))}


def test_an_issue_always_has_a_message() -> None:
    """A rule whose sentences all depend on an unknown value is reported by its title."""
    linted = checking.lint_text('vllm serve Qwen/Qwen3-8B --port "${PORT:?}"\n')

    assert [issue.message for issue in linted.issues] == ["Server accepts requests from everyone without an API key."]


TEMPLATES = {
    "launch.sh": """\
#!/bin/bash
set -eu
export VLLM_LOGGING_LEVEL=${vllm.log_level}
vllm serve {{ .Values.model }} ${vllm.*} --host ::1 --port @PORT@ --max-num-seqs ${vllm.max_num_seqs} \\
  --dtype ${vllm.dtype} --tensor-parallel-size={{ .Values.tp }} --gpu-memory-utilization %UTILIZATION%
""",
    "deployment.yaml": """\
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:${TAG}
        command: ["vllm", "serve"]
        args:
        - "${MODEL}"
        - --host=::1
        - --tensor-parallel-size=${TP}
        - --dtype
        - ${vllm.dtype}
        - ${EXTRA_ARGS}
        env:
        - name: VLLM_LOGGING_LEVEL
          value: ${LEVEL}
""",
    "compose.yaml": """\
services:
  vllm:
    image: vllm/vllm-openai
    command: --model ${MODEL} --host ::1 --dtype ${DTYPE} --tensor-parallel-size {{ tp }} --seed ${vllm.seed}
""",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_placeholder_of_a_template_is_an_unknown_value(name: str) -> None:
    """envsubst, Akamas, Helm and sed templates: the launch is found, and no placeholder is an error."""
    linted = checking.lint_text(TEMPLATES[name], name=name, vllm="0.11.0")

    assert [issue.message for issue in linted.issues] == []
    assert [(launch.model, launch.flags.get("dtype")) for launch in linted.deployments] == [(None, None)]


def test_a_wrong_value_next_to_a_placeholder_is_an_error() -> None:
    """Only the placeholder is unknown."""
    text = TEMPLATES["deployment.yaml"].replace("--tensor-parallel-size=${TP}", "--tensor-parallel-size=two")
    linted = checking.lint_text(text, name="deployment.yaml", vllm="0.11.0")

    assert [issue.rule for issue in linted.issues] == ["option.wrong-type"]


def test_a_suggestion_ends_with_one_sign() -> None:
    """A message that ends with a question has no full stop behind it, in either language."""
    text = "# vllm-runbooks: ignore[option.unknwn]\nvllm serve m --host ::1\n"
    for lang, end in ((None, "; did you mean option.unknown?"), ("zh", "?")):
        (issue,) = checking.lint_text(text, lang=lang).issues
        assert issue.message.endswith(end)


def test_a_cached_model_is_linted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Heads of a model that only this host's cache of the Hub has, at the revision of the command."""
    folder = tmp_path / "hub" / "models--our--own-model" / "snapshots" / "main"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "num_attention_heads": 32}')
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    command = "vllm serve our/own-model --tensor-parallel-size 3"
    assert "meaning.heads-not-divisible" in rules(checking.lint_text(command))
    assert "meaning.heads-not-divisible" not in rules(checking.lint_text(f"{command} --revision v2"))


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("vllm serve org/m --reasoning-parser deepsek_r1\n", "option.wrong-choice"),
        ("VLLM_ATTENTION_BACKEND=FLASHATTN vllm serve org/m\n", "environment.refused-value"),
    ],
)
def test_a_value_that_vllm_refuses_is_reported_once(command: str, rule: str) -> None:
    """The refusal is reported with its fix; what the engine would do with the value is not."""
    issues = checking.lint_text(command, vllm="0.11.0").issues

    assert [issue.rule for issue in issues if not issue.rule.startswith("safety.")] == [rule]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--kv-cache-dtype fp9", [("error", "Did you mean fp8?")]),
        ("--tokenizer-mode slo", [("warning", "Did you mean slow?")]),
        ("--tokenizer-mode slow", []),
        ("--kv-cache-dtype house_4bit", []),
    ],
)
def test_a_value_near_a_known_one_of_an_open_list_is_reported(option: str, expected: list[tuple[str, str]]) -> None:
    """A plugin may provide any other name; the nearest one is named and not put in.

    It is an error if the release checks the name before it loads the model.
    """
    issues = checking.lint_text(f"vllm serve org/m --host 127.0.0.1 {option}\n", vllm="0.33.0").issues

    assert [issue.severity.value for issue in issues] == [severity for severity, _ in expected]
    assert all(says in issue.message for issue, (_, says) in zip(issues, expected, strict=True))
    assert not any(issue.fix for issue in issues)
