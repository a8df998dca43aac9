"""The agent skill and llms.txt are current: every command runs, every key and page exists."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from vllm_runbooks.catalog import load
from vllm_runbooks.cli import commands
from vllm_runbooks.mcp.command import mcp
from vllm_runbooks.site import agent_files, markdown_text

ROOT = Path(__file__).resolve().parents[2]
SKILL = ROOT / "docs" / "skills" / "fix-vllm-launch" / "SKILL.md"
CASE = ROOT / "catalog" / "cases" / "autoglm-3090-video-oom"
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def printed(line: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    words = re.findall(r"'[^']*'|\S+", line)
    monkeypatch.setattr(sys, "argv", words)
    result = CliRunner().invoke(commands, words[1:], standalone_mode=False)
    assert result.exception is None, (line, result.exception)
    return int(result.return_value), result.stdout


def test_the_skill_has_the_required_front_matter() -> None:
    """Its name is that of its folder, and name and description have the lengths that Agent Skills require."""
    front = YAML(typ="safe").load(SKILL.read_text(encoding="utf-8").split("---\n")[1])

    assert front["name"] == SKILL.parent.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", front["name"])
    assert 0 < len(front["description"]) <= 1024


def test_every_command_of_the_skill_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands accept their options; a sample is the whole output; the tables name keys and statuses that exist."""
    shutil.copy(CASE / "startup.log", tmp_path / "startup.log")
    shutil.copy(CASE / "command.sh", tmp_path / "launch.sh")
    monkeypatch.chdir(tmp_path)
    text = SKILL.read_text(encoding="utf-8")
    statuses, documents = {}, []
    for block in _BLOCK.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, sample = part.partition("\n")
            statuses[line], out = printed(line, monkeypatch)
            if sample:
                assert out == sample, line
            if line.endswith("--format json"):
                documents.append(json.loads(out))

    assert set(statuses.values()) == {0, 1}
    (document,) = documents
    for name in re.findall(r"`([a-z_.]+)`", "".join(re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE))):
        value = document
        for key in name.split("."):
            value = value[0] if isinstance(value, list) else value
            assert key in value, name
            value = value[key]
    assert set(re.findall(r"^\| (\d) \|", text, re.MULTILINE)) == {"0", "1", "2"}


def test_configurations_of_agents_start_the_server() -> None:
    """Each configuration on the page is valid JSON, whose words are a command of ours."""
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    entries = [*blocks[0]["mcpServers"].values(), *blocks[1]["servers"].values(), *blocks[2]["mcp_servers"]]
    shell = [line.partition(" -- ")[2].split() for line in re.findall(r"^claude mcp add .*", page, re.MULTILINE)]

    lines = [[entry["command"], *entry["args"]] for entry in entries] + shell
    assert [line[:2] for line in lines] == [["vllm-runbooks", "mcp"]] * 4
    context = click.Context(mcp)
    for line in lines:
        options = [str(ROOT) if word.startswith(("/", "$")) else word for word in line[2:]]
        mcp.make_parser(context).parse_args(options)


def test_llms_txt_lists_pages_that_exist() -> None:
    """It has the format of llmstxt.org: title, summary, sections of links; every command is in it."""
    symptoms, rules = [*load.load_catalog(()).symptoms.values()], [*load.rules().by_id.values()]
    files = dict(agent_files.files(symptoms, rules, ROOT / "docs", commands))
    text = files["llms.txt"]

    assert re.match(r"# vllm-runbooks\n\n> [^\n]+\n\n", text)
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert sections == ["Agents", "Commands", "Symptoms and rules", "Pages"]
    body = text.partition("## Agents")[2]
    lines = [line for line in body.splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"- \[[^]]+\]\([^)\s]+\)(: .+)?", line)] == []
    links = re.findall(r"\]\(([^)#]+)", text)
    generated = {"symptoms/index.html", "rules/index.html", "commands/index.html"}
    for link in links:
        page = ROOT / "docs" / f"{link.removesuffix('.html')}.md"
        is_command = link.startswith("commands/") and link[9:-5] in commands.list_commands(None)  # type: ignore[arg-type] # needs no context
        assert link in files or link in generated or is_command or page.is_file(), link
    assert {f"commands/{name}.html" for name in commands.list_commands(None)} <= set(links)  # type: ignore[arg-type]
    assert all(f"symptoms/{symptom.id}.md" in files for symptom in symptoms)
    assert all(f"rules/{rule.id}.md" in files for rule in rules)
    assert files["skills/fix-vllm-launch/SKILL.md"] == SKILL.read_text(encoding="utf-8")


def test_pages_as_text_have_no_markup() -> None:
    """Pages of symptoms and rules lose HTML, directives, escapes and translations; their code stays."""
    symptom = load.load_catalog(()).symptoms["oom.multimodal_encoder"]
    text = markdown_text.symptom_text(symptom)

    assert text.startswith("# CUDA out of memory in the multimodal encoder\n\nfatal `oom.multimodal_encoder`\n")
    assert symptom.examples[0].text.strip() in text
    assert "\n| Fix | Cost |\n|---|---|\n| " in text
    prose = re.sub(r"```text\n.*?```", "", text, flags=re.DOTALL)
    assert not re.search(r"</?(?:span|div|p|a)\b|\{\.|:::|\\[.,]|[\u3400-\u9fff]|raw\} html", prose)
    rule = markdown_text.rule_text(load.rules().by_id["option.unknown"])
    assert "```text\nvllm serve Qwen/Qwen2.5-7B-Instruct \\\n  --max-modle-len 8192 \\\n  --port 8000\n```" in rule
