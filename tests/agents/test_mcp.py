"""`vllm-runbooks mcp`: the tools, resources and limits, over a connection of the SDK's own client."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, ListRootsResult, Root

from vllm_runbooks import cli
from vllm_runbooks.catalog.folders import cases_dir
from vllm_runbooks.core import extras
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.mcp import tools
from vllm_runbooks.mcp.roots import Roots
from vllm_runbooks.mcp.server import server

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).resolve().parents[2]
CASE = ROOT / "catalog" / "cases" / "autoglm-3090-video-oom"
TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz12345678"
SCRIPT = f"export HF_TOKEN={TOKEN}\nvllm serve Qwen/Qwen3-8B --gpu-memory-utilisation 0.95 --swap-space 4\n"
ROUTINE = (
    "(APIServer pid=1) INFO 02-28 17:42:12 [loggers.py:248] Engine 000: Avg prompt throughput: 12.4 tokens/s, Avg "
    "generation throughput: 81.2 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 4.6%, Prefix cache "
    "hit rate: 0.0%\n"
)
OUT_OF_MEMORY = (
    "(EngineCore_DP0 pid=9) ERROR 02-28 17:50:17 [core.py:1006] torch.OutOfMemoryError: CUDA out of memory. Tried to "
    "allocate 698.00 MiB. GPU 0 has a total capacity of 23.56 GiB of which 559.00 MiB is free.\n"
)


def text_of(result: CallToolResult) -> str:
    (part,) = result.content
    return str(getattr(part, "text", ""))


class Session:
    """A connection whose calls return the text; a rejected call is the text of its error."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, text_of(result)
        return text_of(result)

    async def document(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result.structured_content, dict), text_of(result)
        return result.structured_content

    async def error(self, tool: str, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error
        assert "\n" not in text_of(result)
        return text_of(result)


@asynccontextmanager
async def connected(subject: Any, *roots: Path, mode: str = "auto") -> AsyncIterator[Session]:
    """A session of a server or of its command; the client grants `roots`, or does not know roots if there are none."""

    async def granted(context: object) -> ListRootsResult:  # noqa: ARG001 - the SDK's signature
        return ListRootsResult(roots=[Root(uri=root.as_uri()) for root in roots])  # type: ignore[arg-type] # a text

    callback = granted if roots else None
    async with Client(subject, list_roots_callback=callback, mode=mode, read_timeout_seconds=120) as client:
        yield Session(client)


def command(*arguments: str) -> StdioServerParameters:
    words = ["-m", "vllm_runbooks", "mcp", *arguments]
    return StdioServerParameters(command=sys.executable, args=words, env={**os.environ, "VLLM_API_KEY": "key-of-mine"})


async def lists(session: Session, _: Path) -> None:
    """Seven tools, all read-only; the one that calls an address says so; few resources, two kinds of pages."""
    listed = (await session.client.list_tools()).tools
    assert {tool.name for tool in listed} == {"diagnose", "lint", "migrate", "plan", "probe", "explain", "search"}
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed)
    assert "calls the URL" in next(str(tool.description) for tool in listed if tool.name == "probe")
    assert len((await session.client.list_resources()).resources) == 2
    templates = (await session.client.list_resource_templates()).resource_templates
    kinds = {item.uri_template for item in templates}
    assert kinds == {"vllm-runbooks://symptom/{name}", "vllm-runbooks://rule/{name}"}
    (page,) = (await session.client.read_resource("vllm-runbooks://rule/option.unknown")).contents
    assert getattr(page, "text", "").startswith("# Unknown vLLM option\n")
    with pytest.raises(MCPError, match="did you mean"):
        await session.client.read_resource("vllm-runbooks://symptom/oom.weihts")


async def diagnoses(session: Session, folder: Path) -> None:
    """The summary, everything on request, the fix in the command; the JSON is that of the command."""
    (folder / "startup.log").write_bytes((CASE / "startup.log").read_bytes())
    card = await session.call("diagnose", path="startup.log")
    assert card.splitlines()[2].startswith("✗ CUDA out of memory in the multimodal encoder")
    assert "line 109 |" in card
    assert "call diagnose with details=true" in card
    assert len(await session.call("diagnose", path="startup.log", details=True)) > 2 * len(card)
    document = await session.document("diagnose", path="startup.log")
    assert document["root_cause"]["class"] == "oom.multimodal_encoder"
    assert "starts" not in document
    full = await session.document("diagnose", path="startup.log", details=True)
    jsonschema.validate(full, json.loads((ROOT / "catalog/schema/diagnose.json").read_text(encoding="utf-8")))
    script = f"export HF_TOKEN={TOKEN}\n{(CASE / 'command.sh').read_text(encoding='utf-8')}"
    fixed = await session.call("diagnose", path="startup.log", command=script, gpus="RTX3090")
    assert """--limit-mm-per-prompt '{"image": 10, "video": 0}' \\\n""" in fixed
    assert TOKEN not in fixed


async def checks_and_plans(session: Session, folder: Path) -> None:
    """Lint and migrate show the changes, without secrets; plan answers for the given options."""
    (folder / "launch.sh").write_text(SCRIPT, encoding="utf-8")
    linted = await session.call("lint", path="launch.sh", vllm="0.19.0")
    assert "error[option.removed]: --swap-space" in linted
    assert "+vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.95\n" in f"{linted}\n"
    assert TOKEN not in linted + json.dumps(await session.document("lint", path="launch.sh", details=True))
    moved = {"text": SCRIPT, "from_release": "0.11.0", "to_release": "0.19.0"}
    assert "+vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.95" in await session.call("migrate", **moved)
    assert "--swap-space" not in (await session.document("migrate", **moved))["fixed"]
    planned = {"model": "Qwen/Qwen3-8B", "gpus": "RTX3090", "options": ["--max-model-len", "16k"]}
    assert (await session.call("plan", **planned)).startswith("FITS")
    (layout,) = (await session.document("plan", **planned))["layouts"]
    assert layout["deployment"]["flags"] == {"max_model_len": 16000}


async def explains(session: Session, _: Path) -> None:
    """An option by release, a symptom without its examples, and a printed line."""
    option = await session.call("explain", name="--swap-space", vllm="0.19.0")
    assert "vLLM 0.19.0 does not have it: 0.17.1 was the last release with it" in option
    utilization = [await session.call("explain", name="gpu_memory_utilization", vllm=v) for v in ("0.19.0", "0.32.0")]
    assert [re.findall(r"default `(0\.\d+)`", text)[0] for text in utilization] == ["0.9", "0.92"]
    symptom = await session.call("explain", name="oom.weights")
    assert "## Do first" in symptom
    assert "## Similar lines" not in symptom
    assert "oom.weights" in await session.call("explain", name="oom")
    found = await session.document("search", query="OSError: [Errno 98] Address already in use")
    assert found["results"][0]["id"] == "port.in_use"
    assert (await session.call("probe", url="http://127.0.0.1:9")).startswith("DOWN")


async def survives(session: Session, folder: Path) -> None:
    """50 MB of log, control characters, a secret, and thousands of issues: bounded, harmless answers."""
    (folder / "large.log").write_text(ROUTINE * 230_000 + OUT_OF_MEMORY, encoding="utf-8")
    assert (folder / "large.log").stat().st_size > 50_000_000
    large = await session.document("diagnose", path="large.log")
    assert large["root_cause"]["evidence"][0]["line"] == 230_001
    hostile = f"\x1b]0;owned\x07\x1b[2JValueError: Unknown quantization method: \x1b[31mfoo\u202e {TOKEN}\n"
    (folder / "hostile.log").write_text(hostile, encoding="utf-8")
    for details in (False, True):
        shown = await session.client.call_tool("diagnose", {"path": "hostile.log", "details": details})
        for form in (text_of(shown), json.dumps(shown.structured_content, ensure_ascii=False)):
            assert "hostile.log" in form
            assert not set(form) & {"\x1b", "\x07", "\u202e"}
            assert TOKEN not in form
    many = "\n".join(f"vllm serve m{number} --nope{number}" for number in range(500))
    bounded = await session.client.call_tool("lint", {"text": many, "details": True})
    assert len(text_of(bounded)) < 25_000
    assert len(json.dumps(bounded.structured_content)) < 60_000


async def stays_inside(session: Session, folder: Path) -> None:
    """No file outside the granted folder is read: by its path, a link, a model, a draft model or as GPUs."""
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "secret.log").write_text("the secret of another project\n", encoding="utf-8")
    (folder / "link.log").symlink_to(outside / "secret.log")
    (folder / "logs").mkdir()
    (folder / "logs" / "a.log").symlink_to(outside / "secret.log")
    for path in (str(outside / "secret.log"), "../outside/secret.log", "link.log", "/etc/passwd"):
        assert "is outside of" in await session.error("diagnose", path=path)
    assert "a link to outside" in await session.error("diagnose", path="logs")
    assert "is outside of" in await session.error("diagnose", text="x", command_path="/etc/hosts")
    assert "is outside of" in await session.error("plan", model=str(outside), gpus="RTX3090")
    draft = ["--speculative-config", json.dumps({"model": str(outside), "num_speculative_tokens": 3})]
    for options in (draft, ["--download-dir", str(outside)]):
        assert "is outside of" in await session.error("plan", model="Qwen/Qwen3-8B", gpus="RTX3090", options=options)
    assert "is a file" in await session.error("plan", model="Qwen/Qwen3-8B", gpus=str(outside / "secret.log"))
    assert "http(s)" in await session.error("probe", url="unix:///run/docker.sock")


async def explains_mistakes(session: Session, _: Path) -> None:
    """Each mistake is one line that says what to do, without secrets."""
    assert "has no argument 'log'; use path, text" in await session.error("diagnose", log="x")
    assert "valid string" in await session.error("lint", path=5)
    assert "either a path or a text" in await session.error("diagnose")
    assert "no such file" in await session.error("lint", path="none.sh")
    assert "a log, not a script; use diagnose" in await session.error("lint", text=OUT_OF_MEMORY)
    assert "name is empty" in await session.error("explain", name=" ")
    assert "should be a list" in await session.error("plan", model="m", gpus="L4", options="--seed 1")
    assert "did you mean oom.weights?" in await session.error("explain", name="oom.weihts")
    assert TOKEN not in await session.error("diagnose", path=TOKEN)


@pytest.mark.slow
def test_a_session_over_standard_input_and_output(tmp_path: Path) -> None:
    """One process answers all calls of an agent, and writes nothing; `--root` is enough for a client without roots."""
    folder = tmp_path / "granted"
    folder.mkdir()

    async def run() -> None:
        async with connected(command(), folder) as session:
            for check in (lists, diagnoses, checks_and_plans, explains, survives, stays_inside, explains_mistakes):
                await check(session, folder)
        async with connected(command("--root", str(folder)), mode="legacy") as session:
            assert "oom.multimodal_encoder" in await session.call("diagnose", path="startup.log")
            assert "is outside of" in await session.error("diagnose", path=str(folder.parent / "outside"))

    anyio.run(run)
    written = {path.name for path in tmp_path.rglob("*")}
    assert written == {"granted", "outside", "secret.log", "link.log", "logs", "a.log", "startup.log", "launch.sh",
                       "large.log", "hostile.log"}  # fmt: skip
    assert (folder / "launch.sh").read_text(encoding="utf-8") == SCRIPT


def test_a_path_needs_a_grant_and_a_text_does_not() -> None:
    """A client without roots passes texts; a path is rejected with what to do, in both eras of the protocol."""
    subject = server((), cli.commands)

    async def run() -> None:
        for mode in ("auto", "legacy"):
            async with connected(subject, mode=mode) as session:
                assert "start the server with --root DIR" in await session.error("diagnose", path="startup.log")
                assert "port.in_use" in await session.call(
                    "diagnose", text="OSError: [Errno 98] Address already in use\n"
                )

    anyio.run(run)


def test_roots_contain_only_real_paths(tmp_path: Path) -> None:
    """Links and `..` are resolved first; only `file:` addresses of this host are roots; devices are not read."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.log").touch()
    (tmp_path / "alias").symlink_to(tmp_path / "in")
    roots = Roots.of(
        [tmp_path / "alias"],
        [
            "https://example.org/",
            "file://elsewhere/etc",
            "file:",
            "file:in",
            "file:///a%00b",
            (tmp_path / "x y").as_uri(),
        ],
    )

    assert roots.folders == (tmp_path / "in", tmp_path / "x y")
    assert roots.existing("a.log") == roots.existing(str(tmp_path / "alias" / "a.log")) == tmp_path / "in" / "a.log"
    os.mkfifo(tmp_path / "in" / "pipe")
    (tmp_path / "in" / "circle").symlink_to("circle")
    for name in ("pipe", "circle", "a\0.log", "x" * 5000, "~root"):
        with pytest.raises(InputError, match="check the path"):
            roots.existing(name)


def test_a_root_that_is_a_case_reads_no_config_file_next_to_it(tmp_path: Path) -> None:
    """A script of a folder names files in it; those of the folder above are outside."""
    case = tmp_path / "case"
    case.mkdir()
    case_yaml = "id: case\ntitle: a\nsource: b\nfiles: [launch.sh]\nexpect: {outcome: failed}\n"
    (case / "case.yaml").write_text(case_yaml, encoding="utf-8")
    (case / "launch.sh").write_text("vllm serve m --config options.yaml\n", encoding="utf-8")
    for folder, is_read in ((tmp_path, False), (case, True)):
        (folder / "options.yaml").write_text("nope-nope: 3\n", encoding="utf-8")
        reply = tools.lint(Roots.of([case]), path=".", text="", vllm="0.19.0", gpus="", details=True)
        assert ("--nope-nope" in reply.text) == is_read


def test_a_document_that_is_too_large_says_what_it_omits() -> None:
    """The largest lists are halved, then the largest values left out; their keys are listed."""
    document = {"issues": [{"line": n} for n in range(5_000)], "fixed": "x" * 20_000, "vllm": "0.19.0"}

    kept = tools._bounded_document(document, 8_000)
    assert kept["vllm"] == "0.19.0"
    assert kept["omitted"] == ["fixed", "issues"]
    assert 0 < len(kept["issues"]) < 5_000
    assert "fixed" not in kept
    assert tools._bounded_document({"a": [1, 2]}, 8_000) == {"a": [1, 2]}


def test_a_missing_sdk_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the extra the command names it and exits with 2."""
    monkeypatch.setattr(extras, "find_spec", lambda _: None)

    assert cli.run(["mcp"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vllm-runbooks: mcp is not installed")
    assert err.endswith("run: pip install 'vllm-runbooks[mcp]'\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize(("root", "is_read"), [(".", True), ("scripts", False)])
def test_the_settings_of_a_project_count_if_they_are_in_a_root(
    tmp_path: Path,
    root: str,
    is_read: bool,  # noqa: FBT001
) -> None:
    """Release, GPUs, rules and baseline, as for the command; a file outside of the roots is not opened."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (tmp_path / ".git").mkdir()
    (scripts / "a.sh").write_text("vllm serve m --swap-space 4 --turbo\n", encoding="utf-8")
    settings = 'vllm = "0.11.0"\nignore = ["safety"]\nbaseline = "known.json"\n'
    (tmp_path / ".vllm-runbooks.toml").write_text(settings, encoding="utf-8")
    known = {"format": 1, "files": {"scripts/a.sh": [{"rule": "option.unknown", "text": "--turbo", "count": 1}]}}
    (tmp_path / "known.json").write_text(json.dumps(known), encoding="utf-8")

    path = str(scripts / "a.sh")
    reply = tools.lint(Roots.of([tmp_path / root]), path=path, text="", vllm="", gpus="", details=True)

    rules = {issue["rule"] for issue in reply.document["issues"]}
    assert ("option.unknown" in rules, "safety.open-port" in rules) == (not is_read, not is_read)
    assert ("0.11.0" in json.dumps(reply.document["vllm"])) is is_read


@pytest.mark.parametrize(("root", "is_read"), [(".", True), ("scripts", False)])
def test_the_gpus_of_a_project_may_be_a_snapshot_in_a_root(tmp_path: Path, root: str, *, is_read: bool) -> None:
    """Two GPUs are too many for its one."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".vllm-runbooks.toml").write_text('gpus = "host.json"\n', encoding="utf-8")
    (tmp_path / "host.json").write_bytes((cases_dir() / "host-1xa100" / "inventory.json").read_bytes())
    (scripts / "a.sh").write_text("vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2\n", encoding="utf-8")

    roots = Roots.of([tmp_path / root])
    reply = tools.lint(roots, path=str(scripts / "a.sh"), text="", vllm="", gpus="", details=True)

    errors = [issue["rule"] for issue in reply.document["issues"] if issue["severity"] == "error"]
    assert bool(errors) is is_read


def test_settings_with_a_circle_of_links_are_not_opened(tmp_path: Path) -> None:
    """The script is checked without them."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.sh").write_text("vllm serve m --turbo\n", encoding="utf-8")
    (tmp_path / ".vllm-runbooks.toml").symlink_to(".vllm-runbooks.toml")

    path = str(tmp_path / "a.sh")
    reply = tools.lint(Roots.of([tmp_path]), path=path, text="", vllm="", gpus="", details=False)

    assert "option.unknown" in {issue["rule"] for issue in reply.document["issues"]}
