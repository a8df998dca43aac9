"""Commands as a whole: which release judges, what the document holds, what fixing does, and what moves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vllm_runbooks import catalog, checking, cli, issue_views, options, session
from vllm_runbooks.errors import InputError
from vllm_runbooks.records import IssueSeverity, Linted

jsonschema = pytest.importorskip("jsonschema")
ROOT = catalog.catalog_dir()
SCRIPTS = [
    path.parent.name
    for path in sorted((ROOT / "cases").glob("*/case.yaml"))
    if session.load_case(path.parent).expect.issues is not None
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
def test_a_recorded_script_is_judged_as_expected(case: str) -> None:
    """Every error and warning that was written down, at its line, and no other."""
    evidence = session.load(case)
    judgement = checking.judge_commands(checking.lint_commands(evidence, gpus="8xRTX3090"), evidence)

    assert judgement.verdict.value == "pass", judgement.reason


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
def test_the_release_is_the_one_asked_for_else_the_images_else_the_newest(
    text: str, vllm: str | None, expected: tuple[str, str, str]
) -> None:
    """And the data is that of the nearest release known."""
    found = checking.lint_text(text, vllm=vllm).vllm

    assert (found.version, found.source, found.data) == expected


def test_images_of_two_releases_are_judged_each_by_its_own() -> None:
    """In one file."""
    text = (
        "docker run vllm/vllm-openai:v0.16.0 --model m --swap-space 4\n"
        "docker run vllm/vllm-openai:v0.19.0 --model m --swap-space 4\n"
    )
    found = checking.lint_text(text)

    assert [(i.rule, i.line) for i in found.issues if i.rule == "option.removed"] == [("option.removed", 2)]


def test_what_is_no_version_is_refused() -> None:
    """In one line."""
    with pytest.raises(InputError, match="'banana' is no version of vLLM"):
        checking.lint_text(CLEAN, vllm="banana")


def test_a_gpu_that_is_not_known_is_refused() -> None:
    """With the nearest ones."""
    with pytest.raises(InputError, match="RTX"):
        checking.lint_text(CLEAN, gpus="8xRTX3099")


@pytest.mark.parametrize("case", SCRIPTS)
@pytest.mark.parametrize("fix", [False, True])
def test_the_document_keeps_to_its_schema(case: str, *, fix: bool) -> None:
    """With and without the corrected text."""
    evidence = session.load(case)
    found = checking.lint_text(evidence.documents[0].text, vllm="0.19.0", gpus="8xRTX3090", fix=fix)
    document = json.loads(issue_views.to_json(found))
    schema = json.loads((ROOT / "schema" / "lint.json").read_text("utf-8"))

    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document)] == []
    assert list(document) == ["schema", "vllm", "issues", "deployments", "fixed"]
    assert (document["fixed"] is not None) is fix


def test_flags_are_typed_as_the_parser_types_them() -> None:
    """By argparse destination, with what is set in the environment."""
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


def test_the_users_own_file_keeps_its_secret(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Corrected with -o it has to run still; the file that was given is not changed."""
    script, out = tmp_path / "run.sh", tmp_path / "fixed.sh"
    script.write_text(WRONG.format(token=TOKEN))
    run(capsys, "lint", str(script), "--fix", "-o", str(out))

    assert script.read_text() == WRONG.format(token=TOKEN)
    assert f"export HF_TOKEN={TOKEN}\n" in out.read_text()
    assert "--max-model-len 4096" in out.read_text()


@pytest.mark.parametrize("case", SCRIPTS)
def test_fixing_is_safe(case: str) -> None:
    """No error is left that has a fix, fixing again changes nothing, and every comment survives."""
    text = session.load(case).documents[0].text
    fixed = checking.mended(text, vllm="0.19.0", gpus="8xRTX3090")
    left = checking.lint_text(fixed, vllm="0.19.0", gpus="8xRTX3090")
    comments = {line.partition("#")[2].strip() for line in text.splitlines() if "#" in line}

    assert fixed != text
    assert [i for i in left.issues if i.severity is IssueSeverity.ERROR and i.fix] == []
    assert checking.mended(fixed, vllm="0.19.0", gpus="8xRTX3090") == fixed
    assert all(comment in fixed for comment in comments)


@pytest.mark.parametrize("case", SCRIPTS)
def test_each_fix_is_an_edit_of_the_file(case: str) -> None:
    """What stands from one place up to another becomes the new text; places count from 1."""
    text = session.load(case).documents[0].text
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


def test_sarif_and_annotations_name_file_line_and_rule(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """SARIF has a rule for every result and the replacement of every fix; annotations escape what GitHub reads."""
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


def test_a_command_is_given_behind_two_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    """As its words; places are those of the command as a shell shows it."""
    command = ("vllm", "serve", "m", "--host", "127.0.0.1", "--max-modle-len", "4096")
    status, out, _ = run(capsys, "lint", "--vllm", "0.19.0", "--format", "json", "--", *command)
    (issue,) = json.loads(out)["issues"]

    assert status == 1
    assert (issue["rule"], issue["line"], issue["column"]) == ("option.unknown", 1, 31)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a file, - for standard input, or -- and a command"),
        (("nowhere.sh",), "nowhere.sh: "),
        (("{a}", "{b}", "--format", "json"), "give one file for --format json and for --fix"),
        (("{a}", "-o", "x"), "-o writes the corrected text; give --fix as well"),
        (("{a}", "--config-check"), "--config-check asks the vLLM that --python names"),
        (("{a}", "--vllm", "banana"), "'banana' is no version of vLLM"),
        (("{a}", "--gpus", "A100"), "A100"),
        (("{a}", "--python", "/nowhere/python"), "--python /nowhere/python: cannot be run"),
        (("{folder}",), "holds no case.yaml"),
    ],
)
def test_what_cannot_be_read_is_status_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    """One line on standard error, nothing on standard output."""
    (tmp_path / "a.sh").write_text(CLEAN)
    (tmp_path / "b.sh").write_text(CLEAN)
    named = {"a": tmp_path / "a.sh", "b": tmp_path / "b.sh", "folder": tmp_path}
    status, out, err = run(capsys, "lint", *(argument.format(**named) for argument in arguments))

    assert (status, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_clean_command_is_status_0(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And a file that starts no vLLM is nothing wrong, and said to be none."""
    (tmp_path / "a.sh").write_text(CLEAN)
    (tmp_path / "b.sh").write_text("make build && ./deploy --fast\n")
    (tmp_path / "empty.py").touch()

    assert run(capsys, "lint", str(tmp_path / "empty.py"), str(tmp_path / "a.sh"), "--vllm", "0.19.0")[0] == 0
    assert run(capsys, "lint", str(tmp_path / "a.sh"), "--vllm", "0.19.0")[0] == 0
    status, out, _ = run(capsys, "lint", str(tmp_path / "b.sh"))
    assert status == 0
    assert "no start of vLLM" in out


def test_migrating_names_what_moves(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Defaults that changed are set to the former value where an option can say it, and the difference is shown."""
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
    }
    assert "--swap-space" not in found["fixed"]
    assert "--gpu-memory-utilization 0.9" in found["fixed"]
    assert found["fixed"].startswith("# mine\n")
    assert "+vllm serve m" in found["diff"]
    assert checking.lint_text(found["fixed"], vllm="0.33.0").deployments[0].flags["gpu_memory_utilization"] == 0.9


def test_a_move_to_the_same_release_moves_nothing() -> None:
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
def test_what_is_given_as_a_secret_is_one_whatever_it_looks_like(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, script: str
) -> None:
    """By way of a variable, written in pieces, in the environment; no fix holds a placeholder in its place either."""
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


def test_of_very_many_issues_the_serious_ones_are_told() -> None:
    """An error behind hundreds of remarks is an error."""
    text = "vllm serve m --max_model_len 4096\n" * 600 + "vllm serve m --max-modle-len 4096\n"
    found = checking.lint_text(text, vllm="0.19.0")

    assert "option.unknown" in rules(found, IssueSeverity.ERROR)
    assert len(found.issues) <= 501


def test_what_cannot_be_known_is_null() -> None:
    """Inside of a list; an option whose value is unknown is left out."""
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
def test_a_secret_is_hidden_however_it_is_given(name: str, text: str, secret: str) -> None:
    """In flow lists, abbreviated and misspelt options, odd quotes, cut lines, Python; also when it is moved."""
    found = checking.lint_text(text, name=name, vllm="0.19.0", fix=True)
    moved, _ = checking.migrate_text(text, name=name, from_="0.11.0", to="0.19.0")

    assert secret not in issue_views.to_json(found) + issue_views.text(found, name) + issue_views.github(found, name)
    assert secret not in issue_views.to_json(moved) + issue_views.changes(moved)
