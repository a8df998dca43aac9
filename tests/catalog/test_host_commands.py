"""The table of host commands: each has an effect and an undo, and rejects hostile values.

All printed and executed commands are compared with it: catalog, runbooks, pages, messages, written
files, processes.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import vllm_runbooks
from rows import in_one_test
from vllm_runbooks import cli
from vllm_runbooks.authoring import releases
from vllm_runbooks.catalog import folders, host_commands
from vllm_runbooks.catalog.authored import remedy_texts, symptom_files
from vllm_runbooks.catalog.authored.located import read_yaml
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.plan import files as plan_files
from vllm_runbooks.plan import planner
from vllm_runbooks.reading.deployment import Deployment, to_docker
from vllm_runbooks.site import building as site

ROOT = Path(__file__).parents[2]
LIB = Path(vllm_runbooks.__file__).parent

HOSTILE = [
    "", " ", "-", "--", "-rf", "--all", "-9", "--help", "a b", "a\tb", "a\nb", "a\x00b", "\x1b[2J", "a\x7f",
    "; rm -rf /", "a;b", "a&b", "a&&b", "a|b", "a||b", "`id`", "$(id)", "${HOME}", "$HOME", "a>b", "a<b", "*", "?",
    "[a]", "{a,b}", "~", "~root", "!!", "#", "a#", "'", '"', "\\", "a\\b", "%s", "{pid}", "{0}", "../x", "..",
    "/etc/passwd\n", "0", "00", "-1", "1e9", "0x1", "99999999999", "65536", "١٢", "1 2", "1;2", "é", "\uff41",
    "a\u202eb", "a\u2028b", "http://x", "https://x/y?z=$(id)", "file:///etc/passwd", "@x", "a" * 2000,
]  # fmt: skip
"""Hostile replacements for a value."""
GOOD = {
    "pid": "4711", "port": "8000", "number": "100", "container": "vllm", "namespace": "ml", "pod": "vllm-0",
    "pod_container": "server", "unit": "vllm@a.service", "package": "torch", "requirement": "ray>=2.9",
    "path": "/a b/c",
    "folder": ".", "repository": "Qwen/Qwen3-8B", "address": "10.0.0.1", "url": "https://huggingface.co",
    "image": "registry.example.com:5000/a/b:1.0", "user": "ann",
    "size": "100M", "span": "1h", "cards": "0,1", "gpus": '"device=0,1"', "url_host": "node1",
    "remote_path": "/etc/vllm.service",
    "npm_package": "pyodide@314.0.7",
    "login": "ann@node1", "module": "vllm._C", "word": "vllm", "setting": "net.ipv4.ip_forward",
}  # fmt: skip


def test_there_are_sixty_hostile_values() -> None:
    """At least, and each is another."""
    assert len(set(HOSTILE)) == len(HOSTILE) >= 60


@in_one_test("name", list(host_commands.TABLE))
def test_a_row_has_its_effect_and_its_undo(name: str) -> None:
    """Its printed line is parsed into the same words."""
    row = host_commands.TABLE[name]
    values = {kind: GOOD[kind] for kind in row.places}

    assert row.effect
    assert row.undo
    if not row.is_expanded:
        assert shlex.split(host_commands.line(name, **values)) == list(host_commands.argv(name, **values))
    assert host_commands.row_of(host_commands.line(name, **values)) is not None
    assert host_commands.row_of(shlex.join(row.argv)) is not None


@pytest.mark.parametrize("name", [name for name, row in host_commands.TABLE.items() if row.is_expanded])
def test_shell_text_takes_no_value_and_is_not_run(name: str) -> None:
    """Shell substitutions are written in the row."""
    assert host_commands.TABLE[name].places == ()
    assert host_commands.line(name) == " ".join(host_commands.TABLE[name].argv)
    with pytest.raises(InputError, match="needs a shell; type it"):
        host_commands.argv(name)


def test_every_kind_of_value_has_a_valid_example() -> None:
    """Rows use every kind, except those for patterns of sources."""
    assert {kind for kind, value in GOOD.items() if host_commands.is_of_kind(kind, value)} == set(host_commands.VALUES)


@in_one_test("value", HOSTILE)
def test_a_hostile_value_is_rejected_or_one_harmless_word(value: str) -> None:
    """In every place of every row: never an option, never two words, never shell syntax."""
    held = 0
    for name, row in host_commands.TABLE.items():
        for kind in row.places:
            values = {**{each: GOOD[each] for each in row.places}, kind: value}
            held += 1
            if not host_commands.is_of_kind(kind, value):
                for made in (host_commands.argv, host_commands.line):
                    with pytest.raises(InputError, match=r"\A[^\n]+\Z"):
                        made(name, **values)
                continue
            words = host_commands.argv(name, **values)
            assert len(words) == len(row.argv)
            assert shlex.split(host_commands.line(name, **values)) == list(words)
            assert not value.startswith("-")
            assert value.isprintable()
            assert kind in ("path", "folder") or re.fullmatch(r"[\w.@:\\/<>=!~-]+", value)
    assert held == sum(len(row.places) for row in host_commands.TABLE.values()) > 60


@pytest.mark.parametrize(
    "printed",
    [
        "rm -rf /",
        "kill -9 1 2",
        "pip install -r https://x/y",
        "docker run x",
        "nvidia-smi --id=0;1",
        "nvidia-smi --gpu-reset",
        "curl -fsS -m 10 http://x:99999/health",
        "ray start --head --port=$(id)",
        "ssh node1 cat '/a; reboot'",
        "python3 -c 'import os'",
        "python -c 'import os; os.system(1)'",
        "x 'y",
    ],
)
def test_a_command_outside_the_table_has_no_row(printed: str) -> None:
    """With any beginning."""
    assert host_commands.row_of(printed) is None


def test_a_symptom_with_another_command_is_rejected() -> None:
    """By `catalog check`, with a fix."""
    assert list(remedy_texts.command_problems("Look with `docker logs vllm`, `pip list | grep -i vllm`.")) == []
    (said,) = remedy_texts.command_problems("Then run `docker system prune -a`.")
    assert "`docker system prune -a` is not in tables/host_commands.yaml" in said


# Printed commands


OWN = frozenset({"vllm", "vllm-runbooks", *cli._COMMANDS})
"""Commands checked by lint, by plans, or by running them."""
OURS = ("python tests/", "python -m vllm", 'eval "$(vllm-runbooks completion ', "{")
"""First words of this project's programs, vLLM's older form, and references to the table."""
NO_COMMANDS = frozenset({"if", "import", "assert", "wait"})
"""First words of Python code between backticks, and of shell builtins."""
_PROGRAM = re.compile(r"[a-z][a-z0-9+.-]*")


def unheld(printed: str) -> Iterator[str]:
    """Commands of a shell line without a row; variables, `cd` and redirections do not count."""
    for part in re.split(r" (?:\||&&|\|\|) ", printed):
        bare = re.sub(r"\A(?:[A-Za-z_]\w*=\S*\s+)*(?:(?:\.?[\w.-]+/)*bin/)?", "", part)
        bare = re.sub(r"\s+(?:\d?>\S+|2>&1)", "", bare).removesuffix(" …").strip()
        if not bare or bare.split()[0] in OWN or bare.startswith(OURS):
            continue
        if host_commands.row_of(bare) is None:
            yield bare


def in_backticks(text: str) -> Iterator[str]:
    """Pieces of prose that are commands: of a known program, or several words that begin like one."""
    for piece in re.findall(r"`([^`\n]{1,200})`", text):
        first, *rest = piece.split() or [""]
        is_program = first in host_commands.programs() or (rest and _PROGRAM.fullmatch(first))
        if is_program and first not in OWN and first not in NO_COMMANDS:
            yield piece


def strings(data: object) -> Iterator[str]:
    """Every string of a document, except quotations of logs and foreign scripts."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            if key not in {"examples", "near_misses", "signatures", "companions"}:
                yield from strings(value)
    elif isinstance(data, list):
        for value in data:
            yield from strings(value)


@cache
def texts_of(path: Path) -> tuple[str, ...]:
    """Strings of a file of the catalog."""
    return tuple(strings(read_yaml(path, path.name)))


@pytest.mark.slow
@pytest.mark.parametrize("room", ["symptoms", "rules"])
def test_the_catalog_only_prints_commands_of_the_table(room: str) -> None:
    """Between backticks, in rules also between quotes."""
    found = []
    for path in sorted((folders.catalog_dir() / room).glob("*.yaml")):
        for text in texts_of(path):
            printed = [
                *in_backticks(text),
                *(said for said in re.findall(r'"([a-z][^"\n]{2,200})"', text) if is_known(said)),
            ]
            found += [f"{path.name}: {said}" for each in printed for said in unheld(each)]

    assert found == []


def test_no_command_of_the_catalog_has_a_value_from_a_log() -> None:
    """Logs are hostile text: their values are shown next to commands, never in them."""
    found = []
    for path in sorted(folders.catalog_dir().glob("symptoms/*.yaml")):
        for text in texts_of(path):
            found += [f"{path.name}: {said}" for said in in_backticks(text) if re.search(r"\{[a-z_]+\}", said)]

    assert found == []


@pytest.mark.slow
def test_verification_only_reads() -> None:
    """Before the cause is certain nothing is changed, except by one download that may fail."""
    found = []
    for path in sorted(folders.catalog_dir().glob("symptoms/*.yaml")):
        symptom = symptom_files.read_symptom(path)
        for said in [*in_backticks(symptom.confirm), *in_backticks(symptom.refute)]:
            rows = [host_commands.row_of(part) for part in said.split(" | ")]
            found += [f"{path.name}: {said}" for row in rows if row is not None and row.changes]

    assert found == ["model.gated_repo.yaml: hf download"]


def is_known(said: str) -> bool:
    """Whether words begin with a multi-word or unusual program name, and are not prose."""
    first, *rest = said.split()
    return first in host_commands.programs() and bool(rest or "-" in first)


def fenced(page: str) -> Iterator[str]:
    """Shell lines of a page's blocks, without comments and blocks that show mistakes."""
    for kind, body in blocks(page):
        lines = body.replace("\\\n", " ").splitlines()
        if kind in ("bash", "sh", ""):
            yield from (line for line in lines if not line.lstrip().startswith("#"))
        if kind == "console":
            yield from (line.removeprefix("$ ") for line in lines if line.startswith("$ "))
    for line in re.findall(r"^    (\S.*)$", unfenced(page), re.MULTILINE):
        if line.split()[0] in host_commands.programs():
            yield line


_FENCE = re.compile(r"^(```+)([^`\n]*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Fenced blocks with their info strings."""
    yield from ((match[2], match[3]) for match in _FENCE.finditer(page))


def unfenced(page: str) -> str:
    """The page without them."""
    return _FENCE.sub("", page)


READ = frozenset(
    {
        "docker run", "podman run", "docker exec", "docker compose exec", "podman-compose", "kubectl exec",
        "kubectl run", "docker compose", "python -m vllm.entrypoints.openai.api_server", "srun -l", "apptainer run",
        "accelerate estimate-memory", "sudo", "numactl", "bash -c", "xargs", "dir /s",
    }
)  # fmt: skip
"""Formats named by pages that are read and not run."""


@in_one_test("path", [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"], ids=lambda path: path.name)
def test_pages_print_commands_of_the_table_alone(path: Path) -> None:
    """In blocks for a shell and between backticks."""
    page = path.read_text("utf-8")
    printed = [*fenced(page), *(said for said in in_backticks(unfenced(page)) if said not in READ)]

    assert [said for each in printed for said in unheld(each)] == []


@pytest.mark.parametrize("path", sorted((ROOT / "runbooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_runbooks_print_commands_of_the_table_alone(path: Path) -> None:
    """In their prose; their code runs none."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    prose = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    code = [line for cell in cells if cell["cell_type"] == "code" for line in "".join(cell["source"]).splitlines()]

    assert [said for each in [*fenced(prose), *in_backticks(unfenced(prose))] for said in unheld(each)] == []
    assert [line for line in code if re.match(r"\s*[!%]|.*\b(?:subprocess|os\.system)\b", line)] == []


@cache
def parsed(path: Path) -> ast.Module:
    """A module of the library."""
    return ast.parse(path.read_text("utf-8"))


class _Printed(ast.NodeVisitor):
    """The strings of a module without docstrings, with placeholders as `{name}`."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_Expr(self, node: ast.Expr) -> None:
        """Leave docstrings out."""
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Take a string."""
        if isinstance(node.value, str):
            self.found.append(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Take a string with values."""
        self.found.append("".join(map(self._piece, node.values)))

    def _piece(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return str(node.value)
        name = node.value if isinstance(node, ast.FormattedValue) else node
        return f"{{{name.id}}}" if isinstance(name, ast.Name) else "{value}"


@pytest.mark.slow
def test_messages_only_print_commands_of_the_table() -> None:
    """Every string of the library: messages, written files and help."""
    found = []
    for path in sorted(LIB.rglob("*.py")):
        visitor = _Printed()
        visitor.visit(parsed(path))
        for text in visitor.found:
            found += [f"{path.relative_to(LIB)}: {said}" for each in in_backticks(text) for said in unheld(each)]

    assert found == []


def test_command_names_also_occur_in_prose() -> None:
    """Limits of the test above: an unknown program, with and without arguments."""
    assert list(
        in_backticks("Run `lsof` or `foo --bar`; `max_model_len` and `if x:` are none, nor is `vllm serve m`.")
    ) == [
        "lsof",
        "foo --bar",
    ]
    assert [*unheld("lsof -i | tee a")] == ["lsof -i"]
    assert [*unheld("A=1 .venv/bin/pip install torch 2>&1")] == []
    assert [*host_commands.unknown("`docker logs vllm | tail -c 1M`, `sudo reboot`, `pip check`")] == ["sudo reboot"]


# Written files


PLANS: Mapping[str, tuple[str, str, str, Mapping[str, Any]]] = {
    "one": ("Qwen/Qwen3-8B", "A100-80GB", "0.19.0", {"tp": 1}),
    "behind a proxy": ("Qwen/Qwen3-8B", "4xA100-80GB", "0.19.0", {}),
    "joined by Ray": ("Qwen/Qwen2.5-72B", "2xA100-80GB@node1,2xA100-80GB@node2", "0.8.5", {"tp": 2, "pp": 2}),
    "of two hosts": ("Qwen/Qwen2.5-72B", "2xA100-80GB@node1,2xA100-80GB@node2", "0.16.0", {"tp": 2, "pp": 2}),
}
BUILT_IN = frozenset({"set", "trap", "wait", "exit", "export", "keep", "[", "!", "/usr/bin/env", "vllm"})
"""First words in written scripts that run no program other than vLLM."""


def scripted(script: str) -> Iterator[str]:
    """Commands of a written script, with values for its shell substitutions."""
    for line in script.replace("\\\n", " ").splitlines():
        if line.startswith("#"):
            yield from (said for said in in_backticks(line) if said != "wait -n")
            continue
        for inner in re.findall(r"\$\((date[^()]*)\)", line):
            yield inner.replace("$1", "FILE")
        flat = re.sub(r"\$\(date[^()]*\)|\$\{\w+:\?\}", "x", line).replace("$1", "FILE")
        for part in re.split(r"; |\|\| |'|\{|\}", flat):
            bare = re.sub(r"\A\s*(?:\w+=\S+\s+)*", "", re.sub(r"\s+(?:2?>\S+|2>&1|&)(?=\s|$)", "", part)).strip()
            if bare and not re.match(r"keep\(\)|INT TERM|\w+=\S+$", bare) and bare.split()[0] not in BUILT_IN:
                yield bare


@pytest.mark.parametrize("name", list(PLANS))
def test_written_files_only_run_commands_of_the_table(name: str) -> None:
    """Scripts, health checks, comments, and the commands that only look."""
    model, gpus, version, more = PLANS[name]
    asked = planner.request(model, gpus, vllm=version, is_calibrated=False, **more)
    plan = planner.plan(asked) if more else planner.chosen(planner.layouts(asked))
    printed: list[str] = []
    for file, text in planner.deployed(asked, plan).items():
        if file.endswith(".sh"):
            printed += scripted(text)
        else:
            printed += in_backticks(text)
        if file.endswith(".yaml"):
            services = YAML(typ="safe", pure=True).load(text)["services"].values()
            tests = [service["healthcheck"]["test"] for service in services if "healthcheck" in service]
            assert all(test[0] == "CMD" for test in tests)
            printed += [shlex.join(test[1:]) for test in tests]
        if file.endswith(".service"):
            # Variables are checked before the launch by the shell's own `[`.
            starts = {line.split()[0] for line in text.splitlines() if line.startswith("Exec")}
            assert starts <= {"ExecStart=/usr/bin/env", "ExecStartPre=/bin/sh"}
    for one in plan_files.confirmations(asked, plan).values():
        printed += [shlex.join(look.words) for look in one.looks]
        assert all(
            not (row.changes if (row := host_commands.row_of(shlex.join(look.words))) else True) for look in one.looks
        )

    assert printed
    assert [said for said in printed if host_commands.row_of(said) is None] == []


@pytest.mark.parametrize("gpus", [None, 2, ("0", "1"), ("GPU-8f2c1d3e-0000-1111-2222-333344445555",)])
def test_a_written_container_is_launched_as_in_the_table(gpus: tuple[str, ...] | int | None) -> None:
    """The words after the row are the vLLM launch, which lint checks."""
    written = to_docker(
        Deployment("serve", ("Qwen/Qwen3-8B",), (("HF_HOME", "/a"),), gpus=gpus, name="a", release="0.19.0")
    )
    words = shlex.split(written.replace("\\\n", " "))

    row = host_commands.row_of(shlex.join(words[: words.index("-p")]))
    assert row is host_commands.TABLE["container-run"]


# Executed commands


STARTS = {
    "runbooks/bench.py:_started": "a module of ours",
    "jupyter/command.py:lab": "JupyterLab, which takes our place",
    "cluster/wires.py:__init__": "a module of ours, here or behind a row",
    "cluster/node_tasks.py:_bench": "a module of ours",
    "cluster/tasks.py:__enter__": "a module of ours",
    "host/collect.py:_run": "a row",
    "edge10/host/asking.py:ask": "a row",
    "host/inventory.py:_software": "the user's Python, and a program of ours",
    "edge10/chain/open_parts.py:find": "the user's Python, and a program of ours",
    "authoring/releases/__init__.py:_download": "a row",
    "authoring/releases/__init__.py:run": "the user's Python, and a program of ours",
    "host/running.py:start_supervisor": "the supervisor",
    "lint/second_opinion/__init__.py:ask": "the user's Python, and a program of ours",
    "serve/subject.py:_installed": "the user's Python, and a program of ours",
    "site/building.py:_run_sphinx": "a row",
    "site/browser_pages.py:_packed": "a row",
    "runbooks/suite.py:_guarded": "a module of ours",
    "host/supervisor.py:supervise": "the user's own command",
}
"""Places that start a process, and which one."""


class _Starts(ast.NodeVisitor):
    """Functions that start a process."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self._inside = ["(module)"]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Remember where we are."""
        self._inside.append(node.name)
        self.generic_visit(node)
        self._inside.pop()

    def visit_Call(self, node: ast.Call) -> None:
        """Record a call that starts a process."""
        called = ast.unparse(node.func)
        if re.fullmatch(
            r"subprocess\.(?:run|Popen|call|check_\w+|get\w+)|os\.(?:system|popen|exec\w+|spawn\w+|posix_spawn\w*)"
            r"|asyncio\.create_subprocess_\w+|pty\.spawn",
            called,
        ):
            self.found.add(self._inside[-1])
        self.generic_visit(node)


@pytest.mark.slow
def test_every_started_process_is_listed() -> None:
    """Except vLLM's, ours and the user's own commands, each has a row."""
    found = set()
    for path in sorted(LIB.rglob("*.py")):
        visitor = _Starts()
        visitor.visit(parsed(path))
        found |= {f"{path.relative_to(LIB)}:{name}" for name in visitor.found}

    assert found == set(STARTS)


def test_commands_of_this_python_have_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A release's download, and the site's build; the row's `python` is this interpreter."""
    ran: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 1, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(InputError, match="could not be downloaded"):
        releases._download("0.19.0", tmp_path)
    with pytest.raises(RunbooksError, match="the site was not built"):
        site._run_sphinx(tmp_path / "a", tmp_path / "b", tmp_path / "c")

    assert {command[0] for command in ran} == {sys.executable}
    rows = [host_commands.row_of(shlex.join(["python", *command[1:]])) for command in ran]
    assert rows == [host_commands.TABLE["package-download"]] * (len(ran) - 1) + [host_commands.TABLE["site"]]
