"""Lint of Edge10 scripts: exactly the mistakes that were recorded."""

from __future__ import annotations

import io
import json
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from command_line import run
from rows import in_one_test
from vllm_runbooks import render
from vllm_runbooks.catalog import folders
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.core.views import styled
from vllm_runbooks.edge10.scripts import checking as script_checking
from vllm_runbooks.edge10.scripts.records import LintedScripts
from vllm_runbooks.lint import knowledge

jsonschema = pytest.importorskip("jsonschema")
SCRIPTS = Path(__file__).parents[1] / "edge10_scripts"
EXPECTED: dict[str, Any] = YAML(typ="safe").load((SCRIPTS / "expected.yaml").read_text("utf-8"))


@cache
def texts(name: str) -> dict[str, str]:
    """The files of a case by name: one script, or a folder of them."""
    path = SCRIPTS / name
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return {file.name: file.read_text("utf-8") for file in files}


@cache
def linted(name: str) -> dict[str, LintedScripts]:
    return script_checking.lint_scripts(texts(name), fix=True)


def wrong(found: dict[str, LintedScripts]) -> list[tuple[str, int, str]]:
    """Errors and warnings: file, line, rule."""
    return sorted(
        (file, issue.line, issue.rule)
        for file, one in found.items()
        for issue in one.issues
        if issue.severity is not IssueSeverity.INFO
    )


def line_of(text: str, words: str) -> int:
    """The only line with these words."""
    lines = [number for number, line in enumerate(text.split("\n"), 1) if words in line]
    assert len(lines) == 1, (words, lines)
    return lines[0]


@in_one_test("name", sorted(EXPECTED))
def test_a_script_has_exactly_its_recorded_issues(name: str) -> None:
    """Each at its line; a corrected script has none, in any style."""
    files = texts(name)
    expected = []
    for rule, words, *file in EXPECTED[name]["issues"]:
        place = file[0] if file else next(iter(files))
        expected.append((place, line_of(files[place], words), rule))

    assert wrong(linted(name)) == sorted(expected)


@in_one_test("name", sorted(EXPECTED))
def test_the_kind_of_a_script_is_detected(name: str) -> None:
    """By its imports and calls, in order."""
    steps = EXPECTED[name]["steps"]
    by_file = steps if isinstance(steps, dict) else {next(iter(texts(name))): steps}

    assert {file: [step.step for step in one.steps] for file, one in linted(name).items()} == by_file


@in_one_test("name", sorted(name for name in EXPECTED if EXPECTED[name]["issues"]))
def test_a_corrected_script_needs_no_second_correction(name: str) -> None:
    """Fixed issues are gone without new ones, and a second fix changes nothing."""
    found = linted(name)
    again = script_checking.lint_scripts({file: one.fixed or "" for file, one in found.items()}, fix=True)
    fixable = {(file, issue.rule) for file, one in found.items() for issue in one.issues if issue.fix is not None}

    assert {file: one.fixed for file, one in again.items()} == {file: one.fixed for file, one in found.items()}
    assert not [issue for one in again.values() for issue in one.issues if issue.fix is not None]
    for file, rule in fixable - {("serve.sh", "edge10.vllm-release")}:
        assert rule not in {issue.rule for issue in again[file].issues if issue.fix is not None}


PASSWORDS = ("pl4nted-Pa55word", "kiwi", "p@ss:w/ord")
LOGINS = {
    "login.sh": (
        "docker login registry.example.test -u edge -p {}\n",
        "docker login -u edge -p={} registry.example.test\n",
        "sudo docker login registry.example.test \\\n  --username edge \\\n  --password '{}'\n",
        "echo {} | docker login -u edge --password-stdin registry.example.test\n",
        "echo -n '{}' \\\n  | sudo docker login -u edge --password-stdin registry.example.test\n",
        'docker login -u edge \\\n  --password-stdin registry.example.test <<< "{}"\n',
        "docker login -u edge --password-stdin registry.example.test <<EOF\n{}\nEOF\n",
        "skopeo copy --src-creds edge:{} docker://a/b dir:/x\n",
        "podman pull --creds=edge:{} a/b\n",
        "PW={}\ndocker login -u edge -p $PW registry.example.test\n",
        "PW={}\necho $PW | docker login -u edge --password-stdin registry.example.test\n",
        "# docker login registry.example.test -u edge -p {}\n",
        'ssh host "docker login registry.example.test -u edge -p {}"\n',
    ),
    "login.py": (
        'import os\nos.system("docker login registry.example.test -u edge -p {}")\n',
        'import subprocess as s\ns.run(["docker", "login", "-u", "edge", "-p", "{}"])\n',
        'import subprocess as s\ns.run(["docker", "login", "-u", "edge", "--password-stdin"], input=b"{}")\n',
        'import subprocess as s\ns.run(["docker", "login", "-u", name, "--password-stdin"], input="{}".encode())\n',
        'import subprocess as s\ns.run("echo {} | docker login -u edge --password-stdin", shell=True)\n',
    ),
    "login.md": (
        "Log in:\n\n```shell\n$ sudo docker login registry.example.test:8091 -u edge -p {}\n```\n",
        "Log in with `docker login registry.example.test -u edge -p {}`, then go on.\n",
    ),
}


@in_one_test(
    ("name", "form", "password"),
    [(name, form, password) for name, forms in LOGINS.items() for form in forms for password in PASSWORDS],
)
def test_a_password_in_a_command_is_found_and_never_shown(name: str, form: str, password: str) -> None:
    """In any form, and in no output: messages, fixes, corrected text, SARIF, annotations."""
    text = form.format(password) + ("pip install vllm\n" if name.endswith(".sh") else "")
    found = script_checking.lint_scripts({name: text}, fix=True)
    view = render.edge10_scripts
    shown = "\n".join(
        (
            str(render.to_json(view.merged(found))),
            styled.plain(view.view(found)),
            render.issues.sarif(found, knowledge.knowledge().rules, "1"),
            render.issues.github(found[name], name),
        )
    )

    assert "edge10.password-in-command" in {issue.rule for issue in found[name].issues}
    assert password not in shown


def test_scripts_are_checked_together() -> None:
    """The server of one file answers the evaluation of another; alone it is unknown."""
    serve = "vllm serve ./a --served-model-name one --host 127.0.0.1 --port 9001\n"
    ask = "evalscope eval --model two --api-url http://127.0.0.1:9001/v1 --datasets mmlu\n"

    assert wrong(script_checking.lint_scripts({"ask.sh": ask})) == []
    assert wrong(script_checking.lint_scripts({"serve.sh": serve, "ask.sh": ask})) == [
        ("ask.sh", 1, "edge10.no-such-name")
    ]


SERVERS = {
    "mapped": (
        "docker run --gpus all -p 127.0.0.1:9001:8000 vllm/vllm-openai:v0.11.0 --model a --served-model-name one\n",
        None,
    ),
    "in a program": (
        'import subprocess\nsubprocess.Popen(["vllm", "serve", "a", "--port", "9001", "--served-model-name", "one"])\n',
        9001,
    ),
    "of compose, not published": (
        "services:\n  one:\n    image: vllm/vllm-openai:v0.11.0\n    command: --model a --served-model-name one\n",
        None,
    ),
    "of a variable": ('vllm serve a --port "$PORT" --served-model-name one\n', None),
    "of a file": ("vllm serve --config server.yaml\n", None),
}


@in_one_test("name", SERVERS)
@in_one_test("asked", [9001, 8000])
def test_a_port_is_missing_only_if_all_ports_are_known(name: str, asked: int) -> None:
    """An unlisted container port, or one in a variable or file, may be the right one."""
    text, port = SERVERS[name]
    file = "serve.py" if "import" in text else "serve.yaml" if "services" in text else "serve.sh"
    ask = f"evalscope eval --model one --api-url http://127.0.0.1:{asked}/v1 --datasets mmlu\n"
    found = script_checking.lint_scripts({file: text, "ask.sh": ask})["ask.sh"]

    assert {issue.rule for issue in found.issues} == ({"edge10.no-such-server"} if port not in (None, asked) else set())


SETTINGS = {
    "JSON": '{\n  "eval_backend": "VLMEvalKit",\n  "api_base": "http://h:1/x",\n  "type": "a"\n}\n',
    "quoted": 'eval_backend: VLMEvalKit\nmodel:\n- "type": "a"\n  "api_base": "http://h:1/x"  # here\n',
    "without indentation": "eval_backend: VLMEvalKit\neval_config:\nmodel:\n- type: a\napi_base: http://h:1/x\n",
    "apart": "eval_type: openai_api\nmodel: a\napi_url: http://h:1/x\ngeneration_config:\n  - temperature: 0.5\n",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_are_read_line_by_line_without_their_structure(name: str) -> None:
    """Requests, servers and options."""
    found = script_checking.lint_scripts({"task.yaml": SETTINGS[name]})["task.yaml"]
    expected = {"edge10.sampled-accuracy"} if name == "apart" else set()

    assert {issue.rule for issue in found.issues if issue.rule.startswith("edge10.")} == expected
    assert [step.step for step in found.steps] == ["evaluate"]


_CHATS = "http://localhost:9001/v1/chat/completions"
WRONG_SETTINGS = {
    "flow": f"eval_config:\n  model:\n    - {{type: two, api_base: '{_CHATS}', temperature: 0.5}}\n",
    "user": f"""
eval_config:
  model:
    - type: two
      api_base: {_CHATS.replace("//", "//someone:word@")}
      temperature: 0.5
""",
    "apart, in flow": f"model: two\napi_url: {_CHATS}\ngeneration_config: {{top_p: 0.8, temperature: 0.5}}\n",
    "JSON on a line": f'{{"model": "two", "api_url": "{_CHATS}", "generation_config": {{"temperature": 0.5}}}}\n',
}


@pytest.mark.parametrize("name", WRONG_SETTINGS)
def test_settings_are_checked_in_any_yaml_style(name: str) -> None:
    """Flow style, JSON, a user in the URL: only the wrong entry is reported."""
    serve = "vllm serve ./a --served-model-name one --host 127.0.0.1 --port 9001\n"
    text = WRONG_SETTINGS[name]
    found = wrong(script_checking.lint_scripts({"serve.sh": serve, "task.yaml": text}))

    assert sorted(rule for _, _, rule in found) == [
        "edge10.no-such-name",
        "edge10.sampled-accuracy",
    ]
    assert [text.split("\n")[line - 1].count("two") for _, line, rule in found if rule == "edge10.no-such-name"] == [1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def f(:\n    pass\n", f"Python {sys.version_info.major}.{sys.version_info.minor}"),
        (f"a = {'- ' * 50_000}1\n", "deeply"),
        ("a = 1\n" * 70_000, "characters"),
    ],
)
def test_limits_of_the_reader_are_not_syntax_errors(text: str, says: str) -> None:
    """Invalid Python is distinguished from text that is too long or too deep."""
    found = script_checking.lint_scripts({"a.py": "from tyllm import torch_edgex\n" + text})["a.py"]

    assert [says in issue.message for issue in found.issues if issue.rule == "file.not-python"] == [True]


LATER = {
    (3, 12): (
        "def compile_one[T](model: T) -> T:\n    return model\n",
        "class Job[T]:\n    pass\n",
        "type Dies = list[int]\n",
        "names = ['a']\nprint(f'of {', '.join(names)} here')\n",
    ),
    (3, 14): ("where = t'{1}'\n",),
}
"""Programs that a later Python reads, by the first that does."""


@pytest.mark.parametrize(("release", "text"), [(release, text) for release, each in LATER.items() for text in each])
def test_a_program_for_a_later_python_is_not_an_error(release: tuple[int, int], text: str) -> None:
    """The user may have that version, so an info names both."""
    found = script_checking.lint_scripts({"a.py": "from tyllm import torch_edgex\n" + text})["a.py"]
    shown = [(issue.severity, issue.message) for issue in found.issues if issue.rule == "file.not-python"]
    is_read = release <= sys.version_info[:2]

    assert [severity for severity, _ in shown] == ([] if is_read else [IssueSeverity.INFO])
    assert all(f"Python {release[0]}.{release[1]} or later" in message for _, message in shown)


@pytest.mark.parametrize(
    "text", ["print 'a'\n", "try:\n    pass\nexcept A, e:\n    pass\n", "x = [1\ntype y = 2\n", "f'{a'\n"]
)
def test_a_syntax_error_in_every_python_stays_an_error(text: str) -> None:
    """Including text that resembles the grammar of another version."""
    found = script_checking.lint_scripts({"a.py": "from tyllm import torch_edgex\n" + text})["a.py"]
    shown = [issue.severity for issue in found.issues if issue.rule == "file.not-python"]

    assert shown == [IssueSeverity.ERROR]


def notebook(*code: str) -> str:
    """A notebook of code cells after a cell of prose."""
    cells = [{"cell_type": "markdown", "metadata": {}, "source": ["# Compile\n"]}]
    cells += [{"cell_type": "code", "metadata": {}, "outputs": [], "source": each} for each in code]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def test_an_invalid_cell_is_named_and_the_others_are_checked() -> None:
    """By its number among the code cells; its effects are not reported as missing elsewhere."""
    text = notebook(
        "from tyllm.build_util import build_and_compile_llm\n",
        "from tyllm import torch_edgex\nhelp = = me\ntorch_edgex.set_device_trace_only('edgex', True)\n",
        "torch_edgex.set_device_mode('LM_die_remap', help + [0] * 15)\n",
        "build_and_compile_llm('Qwen3-4B-AWQ', dev_count=17)\n",
    )
    found = script_checking.lint_scripts({"a.ipynb": text})["a.ipynb"]

    assert [issue.rule for issue in found.issues] == ["file.not-python", "edge10.dies-differ"]
    assert found.issues[0].message.startswith("code cell 2: Python cannot parse this: invalid syntax")
    assert text.split("\n")[found.issues[1].line - 1].count("dev_count=17") == 1
    assert [step.step for step in found.steps] == ["compile-llm"]


COMPILES = """from tyllm import torch_edgex
from tyllm.build_util import build_and_compile_llm
torch_edgex.set_device_trace_only("edgex", True)
build_and_compile_llm(model_path="./Qwen3-1.7B-AWQ")
"""


@in_one_test(
    "cells",
    [
        ("gpus = !nvidia-smi -L\nprint(gpus, len(gpus))\n", "log, more = !ls\nprint(log, more)\n"),
        ("took = %timeit -o 1 + 1\nprint(took)\n", "if took:\n    %cd /data\n", "%timeit len(never_told)\n"),
        ("build_and_compile_llm?\n", "?torch_edgex.set_device_mode\n", "%cd?\nprint??\n"),
        ("%time told = len('a')\n", "print(told)\n"),
        ("!echo one \\\n  two three \\\n  four\nprint(1)\n",),
        ("%%capture --no-stderr log\nprint(1)\n", "log.show()\n"),
        ("%%bash --out listing --err=said\nls\n", "print(listing, said)\n"),
        ("%%time\n%%capture log\nprint(1)\n", "print(log)\n"),
        ("%run settings.py\n", "print(DIES)\n"),
        ("%%sql result <<\nselect a, b from c where d = 'e'\n", "print(result)\n"),
        ("%%html\n<b>four dies</b>\n", "%%javascript\nvar a = {b: 1};\n", "%%nothing known\nif then (\n"),
        ("%%markdown\nvllm serve m --nonsense\n", "%%script ruby\nputs {1 => true}\n"),
        ("%%writefile notes.txt\nfour dies, one model\n", '%%writefile job.json\n{"dies": 4, "on": true}\n'),
        ("%%writefile README.md\n# Mine\n\nIt is made.\n", "%%file a.conf\nserver { listen 1; }\n"),
        ("%%writefile eval.yaml\neval_backend: Native\nmodel: a\n", "%%writefile serve.sh\nls \\\n  --all 4k\n"),
        ("%%time\n" * 2000 + "print(1)\n", "x = !" * 2000 + "\n", "%%bash --out" + " " * 9999 + "!\nls\n"),
        ("%%writefile a.py\ndies = 4\n", "%%writefile -a a.py\nprint(dies)\n"),
    ],
    ids=lambda cells: cells[0].split("\n")[0][:30],
)
def test_other_content_of_a_notebook_is_not_invalid_python(cells: tuple[str, ...]) -> None:
    """Cells of other languages and IPython commands, and names that they define."""
    text = notebook(*cells, COMPILES)
    found = script_checking.lint_scripts({"a.ipynb": text})["a.ipynb"]

    assert [(issue.rule, issue.message) for issue in found.issues] == []
    assert "compile-llm" in [step.step for step in found.steps]


@pytest.mark.parametrize(
    ("cell", "rules"),
    [
        ("%%writefile a.py\nos.go()\n", ["edge10.name-not-imported"]),
        ("%%writefile a.py\nprint(4k)\n", ["file.not-python"]),
        ("%%python3\nos.go()\n", ["edge10.name-not-imported"]),
        ("%%time\nos.go()\n", ["edge10.name-not-imported"]),
        ("%time os.go()\n", ["edge10.name-not-imported"]),
        ("%%writefile serve.sh\nvllm serve Qwen/Qwen3-1.7B --host 127.0.0.1 --max-len 1\n", ["option.unknown"]),
        ("%%bash\nvllm serve Qwen/Qwen3-1.7B --host 127.0.0.1 --max-len 1\n", ["option.unknown"]),
        ("gpus = !nvidia-smi\nos.go()\n", ["edge10.name-not-imported"]),
        ("if told:\n    !ls\n    os.go()\n", ["edge10.name-not-imported"]),
    ],
    ids=lambda cell: str(cell).split("\n")[0][:30],
)
def test_files_and_commands_in_a_cell_are_checked_by_kind(cell: str, rules: list[str]) -> None:
    """A separate program has none of the notebook's names; places refer to the notebook."""
    text = notebook("told = 1\n", cell)
    found = script_checking.lint_scripts({"a.ipynb": text, "b.py": COMPILES})["a.ipynb"]

    assert [issue.rule for issue in found.issues] == rules
    line = text.split("\n")[found.issues[0].line - 1]
    assert any(word in line for word in ("os.go", "4k", "--max-len"))


def test_a_python_session_is_not_invalid_python() -> None:
    """A block with prompts and output is not checked."""
    block = "```python\n>>> from tyllm import torch_edgex\n>>> torch_edgex\n<module 'tyllm.torch_edgex'>\n```\n"

    assert script_checking.lint_scripts({"a.md": f"# Modes\n\n{block}"})["a.md"].issues == ()


PROGRAMS: dict[str, Any] = YAML(typ="safe").load((SCRIPTS / "short.yaml").read_text("utf-8"))
"""Short programs, each with all rules that it breaks."""


@in_one_test("name", PROGRAMS)
def test_a_program_is_checked_by_its_effects(name: str) -> None:
    """In any style."""
    found = script_checking.lint_scripts({"program.py": PROGRAMS[name]["text"]}, fix=True)["program.py"]

    assert {issue.rule for issue in found.issues} == set(PROGRAMS[name]["breaks"])


def test_blocks_of_a_page_continue_each_other() -> None:
    """A name imported by an earlier block is valid, a toolchain name without an import is not."""
    first = "```python\nfrom tyllm import torch_edgex\n```\n"
    second = "```python\ntorch_edgex.set_device_trace_only('edgex', True)\nmade_elsewhere(1)\n```\n"

    assert script_checking.lint_scripts({"a.md": first + second})["a.md"].issues == ()
    assert [issue.rule for issue in script_checking.lint_scripts({"a.md": second})["a.md"].issues] == [
        "edge10.name-not-imported"
    ]


def folder(tmp_path: Path) -> str:
    """A folder of scripts and related files."""
    job = tmp_path / "job"
    shutil.copytree(SCRIPTS / "wrong" / "job", job)
    (job / "model.safetensors").write_bytes(b"\0" * 100)
    (job / ".hidden").mkdir()
    (job / ".hidden" / "x.py").write_text("import tyllm\n")
    (job / "link.py").symlink_to(job / "evaluate.py")
    (job / "large.txt").write_text("x" * 1_100_000)
    return str(job)


def test_a_folder_is_checked_as_a_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its scripts and no other files; each issue has its file."""
    name = folder(tmp_path)
    status, out, _ = run(capsys, "edge10", "lint", name, "--format", "json")
    found = json.loads(out)

    assert status == 1
    assert found["schema"] == 2
    assert {step["file"] for step in found["steps"]} == {f"{name}/{each}" for each in texts("wrong/job")}
    assert {(Path(issue["file"]).name, issue["rule"]) for issue in found["issues"]} >= {
        (file, rule) for rule, _, file in EXPECTED["wrong/job"]["issues"]
    }
    schema = json.loads((folders.catalog_dir() / "schema" / "edge10-lint.json").read_text("utf-8"))
    jsonschema.validate(found, schema)


def test_the_command_lists_issues_and_the_kind_of_each_script(capsys: pytest.CaptureFixture[str]) -> None:
    """Places and exit status 1; a correct script has 0."""
    wrong_one, right = (str(SCRIPTS / side / "llm_table.py") for side in ("wrong", "right"))
    status, out, _ = run(capsys, "edge10", "lint", wrong_one)

    assert status == 1
    assert "error[edge10.remap-dies]: LM_die_remap is not a valid die order" in out
    assert f"--> {wrong_one}:9:21\n" in out
    assert f"{wrong_one}: compile-llm Found 1 error and 1 warning, checked against edge10-1.1.7;" in " ".join(
        out.split()
    )
    status, out, _ = run(capsys, "edge10", "lint", right)
    assert (status, "\nNo problems found" in out) == (0, True)


def test_other_scripts_are_reported_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 1: nothing was checked."""
    path = tmp_path / "hello.py"
    path.write_text("print('hello')\n")

    status, out, _ = run(capsys, "edge10", "lint", str(path))
    assert (status, "no toolchain step recognized" in " ".join(out.split())) == (1, True)
    status, out, err = run(capsys, "edge10", "lint", str(path), "--format", "json")
    assert (status, json.loads(out)["steps"], "no toolchain step" in err) == (1, [], True)


def test_a_corrected_text_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The input is unchanged; remaining issues are listed; secrets stay only in the user's file."""
    source, target = tmp_path / "host.sh", tmp_path / "fixed.sh"
    shutil.copy(SCRIPTS / "wrong" / "host.sh", source)
    before = source.read_text("utf-8")

    status, out, err = run(capsys, "edge10", "lint", "--fix", str(source))
    assert status == 1
    assert "--quant_type awq" in out
    assert PASSWORDS[0] not in out + err
    assert ": docker gets a password" in err
    assert f"{source} (fixed):5:1\n" in err
    assert err.endswith("\nFixed 1 issue, 2 errors remaining.\n")
    status, out, err = run(capsys, "edge10", "lint", "--fix", str(source), "-o", str(target))
    assert (out, "wrote" in err) == ("", True)
    assert target.read_text("utf-8") == before.replace("gptq", "awq")
    assert source.read_text("utf-8") == before
    status, out, _ = run(capsys, "edge10", "lint", "--fix", str(source), "--format", "json")
    assert "--quant_type awq" in json.loads(out)["fixed"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "use a file, a folder, or -"),
        (("-", "-"), "- is used twice"),
        (("a.py", "-o", "b.py"), "-o requires --fix"),
        (("--fix", "{job}"), "--fix requires exactly one file"),
        (("{empty}",), "contains no script"),
        (("missing.py",), "missing.py"),
        (("{job}", "--toolchain", "9.9"), "9.9: unknown toolchain version"),
    ],
)
def test_an_invalid_request_is_one_line(
    arguments: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, and no output."""
    (tmp_path / "empty").mkdir()
    places = {"{job}": str(SCRIPTS / "right" / "job"), "{empty}": str(tmp_path / "empty")}
    status, out, err = run(capsys, "edge10", "lint", *(places.get(each, each) for each in arguments))

    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_folder_of_too_many_scripts_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not a job."""
    for number in range(201):
        (tmp_path / f"{number}.py").touch()

    status, _, err = run(capsys, "edge10", "lint", str(tmp_path))
    assert (status, "contains more than 200 scripts" in err) == (2, True)


def test_standard_input_is_read_like_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its content."""
    text = (SCRIPTS / "wrong" / "llm_plain.py").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))

    status, out, _ = run(capsys, "edge10", "lint", "-")
    assert (status, "--> standard input:3:1\n" in out and "torch_edgex is not defined" in out) == (1, True)


@pytest.mark.parametrize(
    ("comment", "fixed"),
    [
        ('# 如果使用gpu机器量化，这里to("cuda")改成to("cpu")', '# 如果使用CPU机器量化，这里to("cuda")改成to("cpu")'),
        (
            "# with a GPU, replace cuda by cpu, or use cuda and change it to cpu",
            "# with a CPU, replace cuda by cpu, or use cuda and change it to cpu",
        ),
        ('# 在这里to("cuda")改成to("cpu")', None),
        ("# use device=cuda, change it to cpu where that is all there is", None),
    ],
)
def test_the_fix_of_a_reversed_comment_edits_only_the_condition(comment: str, fixed: str | None) -> None:
    """After any number of fixes the changed device stays, also after the condition."""
    text = f"from quant_toolchain import quantize_model\n{comment}\n"
    found = script_checking.lint_scripts({"a.py": text}, fix=True)["a.py"]

    assert (found.fixed or "").split("\n")[1] == (fixed or comment)
    assert bool(found.issues) == (fixed is not None)


@pytest.mark.parametrize("password", [*PASSWORDS, "s3cr3t-os"])
def test_of_a_call_with_a_password_the_password_alone_is_replaced(password: str) -> None:
    """The line stays legible, and so do other findings in it and texts that are part of the call."""
    text = "from tyllm import torch_edgex\n" + "".join(
        f"{call}\n"
        for call in (
            f'os.system("docker login reg -u a -p {password}")',
            'subprocess.run(f"docker login reg -u a -p {word}", shell=True)',
            'secret = torch_edgex.login(password="Pl4ntedTwo")',
            'secret = torch_edgex.login(\n    password="Pl4ntedTwo")',
        )
    )
    found = script_checking.lint_scripts({"a.py": text}, fix=True)["a.py"]
    shown = {(issue.line, issue.text) for issue in found.issues}

    assert {(2, "os"), (3, "subprocess")} <= shown
    assert any(line == 2 and said.startswith('os.system("docker login reg -u a -p [secret') for line, said in shown)
    assert (3, 'subprocess.run(f"docker login reg -u a -p {word}", shell=True)') in shown
    assert "Pl4nted" not in (found.fixed or "")
    assert (found.fixed or "").count("secret = torch_edgex.login(") == 2


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "name", ["hf_Pl4ntedabcdefghijklmn.py", "hf_Pl4ntedabcdefghijklmn/b.py", "password=Pl4nted5ecret.py",
             "alice:Pl4nted5ecret@reg.py", "docker login -u x -p Pl4nted5ecret reg.py"],
)  # fmt: skip
def test_a_secret_in_a_file_name_is_never_shown(
    name: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither with an issue nor in the list of files, as a file and in a folder."""
    path = tmp_path / "job" / name
    path.parent.mkdir(parents=True)
    path.write_text("import tyllm\ntorch_edgex.go()\n")
    (tmp_path / "job" / "other.py").write_text("print(1)\n")
    for given in (path, tmp_path / "job"):
        status, out, err = run(capsys, "edge10", "lint", str(given), "--format", form)

        assert (status, "Pl4nted" in out + err) == (1, False)
        assert "secret-" in out


@in_one_test(
    "line",
    [
        'os.environ["REGISTRY_PASSWORD"] = "{}"',
        'requests.get("https://reg", auth=("alice", "{}"))',
        'requests.get("https://reg", auth=HTTPBasicAuth("alice", "{}"))',
        'docker.from_env().login("alice", "{}", registry="reg")',
        'huggingface_hub.login("{}")',
        'p.add_argument("--password", default="{}")',
        'run("docker login -u a -p " + "{}")',
        "run(f\"docker login reg -u a -p {{'{}'}}\")",
        "# image: alice:{}@reg/edgex/tyllm:v1",
        "# regctl registry login reg -u u -p {}",
        "# ctr image pull --user alice:{} reg/x",
    ],
)
@in_one_test("password", ["Pl4nted5ecret", "kiwi"])
def test_a_corrected_text_shows_no_login(line: str, password: str) -> None:
    """For any program that passes a password to a registry."""
    text = f"import tyllm\n{line.format(password)}\n"
    fixed = script_checking.lint_scripts({"a.py": text}, fix=True)["a.py"].fixed or ""

    assert fixed.count("\n") >= 2
    assert password not in fixed


PROGRAM = """\
import os
from tyllm.build_util import build_and_compile_llm
os.environ["COMPILE_THREAD"] = "2"
torch_edgex.set_device_mode("jit_device", "cuda")  # "\\n"
torch_edgex.set_device_mode("LM_die_remap", [0])
build_and_compile_llm(model_path="/m/Qwen3-4B-AWQ", artifacts_path="/x/2die", dev_count=2, seq_len_list=[16, 2048])
"""
"""The fix contains quotes."""
SHELL = '!vllm serve m --max-modl-len 4096 --port 8001\n!echo "done"'


@pytest.mark.parametrize("is_list", [True, False])
@pytest.mark.parametrize("form", [{"indent": 1}, {}, {"indent": 2, "ensure_ascii": False}, {"separators": (",", ":")}])
def test_a_fixed_notebook_changes_only_its_cells(form: dict[str, Any], *, is_list: bool) -> None:
    """The other JSON is unchanged, and cells are fixed like a script."""
    sources = [PROGRAM, SHELL]
    own: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [own | {"source": each.splitlines(keepends=True) if is_list else each} for each in sources]
    notebook = {"cells": cells, "metadata": {"a": '"\\n'}, "nbformat": 4, "nbformat_minor": 5}
    text = json.dumps(notebook, **form)
    script = script_checking.lint_scripts({"a.py": PROGRAM}, fix=True)["a.py"].fixed
    for fixed in (
        script_checking.fixed_script({"a.ipynb": text}, "a.ipynb"),
        script_checking.lint_scripts({"a.ipynb": text}, fix=True)["a.ipynb"].fixed,
    ):
        read = json.loads(fixed or "")
        given = [cell.pop("source") for cell in read["cells"]]

        assert read == {
            **notebook,
            "cells": [{key: value for key, value in cell.items() if key != "source"} for cell in cells],
        }
        assert "".join(given[0]) == script != PROGRAM
        assert "".join(given[1]) == SHELL.replace("modl", "model")
        for each in given:
            assert isinstance(each, list) is is_list
            assert not is_list or "".join(each).splitlines(keepends=True) == each
    for issue in script_checking.lint_scripts({"a.ipynb": text})["a.ipynb"].issues:
        if issue.fix is not None:
            lines = text.split("\n")
            start = sum(len(line) + 1 for line in lines[: issue.fix.line - 1]) + issue.fix.column - 1
            end = sum(len(line) + 1 for line in lines[: issue.fix.end_line - 1]) + issue.fix.end_column - 1
            json.loads(text[:start] + issue.fix.new_text + text[end:])


@in_one_test(
    ("name", "text", "rule"),
    [
        ("Dockerfile", "FROM a\nRUN --mount=type=cache,target=/x \\\n  docker login -u x -p {} reg && true\n",
         "password-in-command"),
        ("ci.yml", "jobs:\n  a:\n    steps:\n      - run: docker login -u a -p {} reg\n", "password-in-command"),
        ("ci.yml", 'script:\n  - "docker login -u a -p {} reg"\n', "password-in-command"),
        ("ci.yml", "script:\n  - |\n    sudo docker login -u a \\\n      -p {} reg\n", "password-in-command"),
        ("a.md", "```dockerfile\nFROM a\nRUN docker login -u x -p {} reg\n```\n", "password-in-command"),
        ("a.sh", "regctl registry login reg -u u -p {}\n", "password-in-command"),
    ],
)  # fmt: skip
def test_a_secret_is_reported_in_any_file(name: str, text: str, rule: str) -> None:
    """Once, with its place, and without its value."""
    found = script_checking.lint_scripts({name: text.format("S3cr3tPl4nted9x")})[name]
    told = [issue for issue in found.issues if "secret" in issue.rule or "password" in issue.rule]

    assert [issue.rule for issue in told] == [f"edge10.{rule}"]
    assert "[secret-" in told[0].text
    assert "Pl4nted" not in render.to_json(found)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Dockerfile", "FROM a\nRUN --mount=type=secret,id=p docker login -u x --password-stdin reg < /run/p\n"),
        ("ci.yml", 'steps:\n  - run: echo "$PASSWORD" | docker login -u a --password-stdin reg\n'),
        ("ci.yml", "env:\n  HF_TOKEN: ${{ secrets.HF_TOKEN }}\nsteps:\n  - name: docker login\n    uses: a/b@v3\n"),
        ("a.sh", 'export HF_TOKEN="$(cat token)"\nexport A_API_KEY=EMPTY\nvllm serve m --max-num-seqs 2048\n'),
        ("a.py", "from evalscope import TaskConfig\nTaskConfig(model='m', api_key='EMPTY', api_url='http://a:1/v1')\n"),
        ("a.py", 'import os\npassword = os.environ["REGISTRY_PASSWORD"]\ntokenizer = "a.json"\nkey = "lm_head"\n'),
        ("a.yaml", "eval_backend: Native\nmodel: m\napi_key: sk-local\ntokenizer_path: /models/Qwen3-4B-AWQ\n"),
    ],
)  # fmt: skip
def test_names_of_secrets_are_not_secrets(name: str, text: str) -> None:
    """Variables, placeholders, dummy keys, and words with such a name in them."""
    found = script_checking.lint_scripts({name: text})[name]

    assert [issue for issue in found.issues if "secret" in issue.rule or "password" in issue.rule] == []


def test_a_dockerfile_of_a_folder_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Though its name has no suffix."""
    (tmp_path / "Dockerfile").write_text("FROM a\nRUN docker login -u x -p Pl4nted5ecret reg\n")
    (tmp_path / "Dockerfile.gpu").write_text("FROM a\n")
    status, out, _ = run(capsys, "edge10", "lint", str(tmp_path))

    assert status == 1
    assert "error[edge10.password-in-command]: docker gets a password as an option" in out
    assert "Dockerfile:2:5\n" in out
    assert "Dockerfile.gpu" in out


TASK = """\
eval_backend: VLMEvalKit
eval_config:
  model:
    - type: one
      name: CustomAPIModel
      api_base: http://localhost:8000/v1/chat/completions
      key: EMPTY
  data: [MMStar]
"""


@pytest.mark.parametrize("name", ["a.yaml", "a.md", "a.sh", "indented.md"])
def test_invalid_yaml_settings_are_reported_everywhere(name: str) -> None:
    """In a file, a page's block and a here-document: once with its line, the rest is read."""
    around = {
        "a.yaml": "{}", "a.md": "# Evaluate\n\n```yaml\n{}```\n", "a.sh": "cat > task.yaml <<'EOF'\n{}EOF\n",
        "indented.md": "- so:\n  ```yaml\n{}  ```\n",
    }[name]  # fmt: skip
    wrong_text = TASK.replace("      name: Custom", "    name: Custom")
    if name == "indented.md":
        wrong_text, right_text = ("".join(f"  {line}\n" for line in text.splitlines()) for text in (wrong_text, TASK))
    else:
        right_text = TASK
    found = script_checking.lint_scripts({name: around.format(wrong_text)})[name]
    told = [issue for issue in found.issues if issue.rule == "file.not-yaml"]

    assert [issue.line for issue in told] == [around.partition("{}")[0].count("\n") + 5]
    assert [step.step for step in found.steps] == ["evaluate"]
    right = script_checking.lint_scripts({name: around.format(right_text)})[name]
    assert [issue for issue in right.issues if issue.rule == "file.not-yaml"] == []
