"""Launches that another program builds: what is certain about them, and texts in which no launch was found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import run
from vllm_runbooks.core.display import to_json
from vllm_runbooks.lint import checking

KUBEAI = "apiVersion: kubeai.org/v1\nkind: Model\nspec:\n  engine: VLLM\n  url: hf://org/m\n"
STACK = "modelSpec:\n- modelURL: org/m\n  repository: {image}\n  tag: {tag}\n"


def rules(text: str, name: str = "a.yaml") -> list[str]:
    """Rules of the errors and warnings of a text."""
    issues = checking.lint_text(text, name=name).issues
    return [issue.rule for issue in issues if issue.severity.value != "info"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{KUBEAI}  args: [--max-modl-len=1]\n", ["option.unknown"]),
        (f"{KUBEAI}  image: vllm/vllm-openai:latest\n  args: [--max-model-len=x]\n", ["option.wrong-type"]),
        (f"{KUBEAI}  args: [--gpu-memory-utilization=9]\n", ["option.refused-value"]),
        (f'{KUBEAI}  args: [\'--kv-transfer-config={{"kv_role": "both"}}\']\n', ["option.wrong-key-type"]),
        (f"{KUBEAI}  args: [--num-scheduler-steps=8]\n  env: {{VLLM_USE_V1: '1'}}\n", []),
        (f"{KUBEAI}  image: vllm/vllm-openai:v0.19.0\n  args: [--num-scheduler-steps=8]\n", ["option.removed"]),
        (f"{KUBEAI}  image: vllm/vllm-openai:latest\n  args: [--num-scheduler-steps=8]\n", ["option.removed"]),
        (f"{KUBEAI}  image: other/vllm:v1\n  args: [--num-scheduler-steps=8]\n", []),
    ],
)
def test_names_of_other_releases_are_certain_only_if_the_release_is_known(text: str, expected: list[str]) -> None:
    """The operator decides the release unless the image is vLLM's own; names and values are always checked."""
    assert rules(text) == expected


def test_a_unit_beside_a_container_has_another_release() -> None:
    """In Nix both are in one file; a command of a shell script may run inside the container."""
    unit = 'systemd.services.a.serviceConfig.ExecStart = "${pkgs.vllm}/bin/vllm serve org/m --async-scheduling";\n'
    container = 'containers.b = { image = "vllm/vllm-openai:v0.8.5"; cmd = [ "--model" "org/m" ]; };\n'
    script = "docker run -d --name b vllm/vllm-openai:v0.8.5 --model org/m\nvllm serve org/m --async-scheduling\n"

    assert "option.not-there-yet" not in rules(f"{{\n{container}{unit}}}\n", "a.nix")
    assert "option.not-there-yet" in rules(script, "a.sh")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python -m dynamo.vllm --model m --store-kv etcd --max-model-len 1x1", ["option.wrong-type"]),
        ("python -m dynamo.vllm --is-prefill-worker", []),
        ("python -m dynamo.vllm --model m --swap-space 4", []),
        ("pip install vllm==0.24.0\npython -m dynamo.vllm --model m --swap-space 4", ["option.removed"]),
        ("python -m vllm.entrypoints.api_server --model m --swap-space 4", ["option.removed"]),
        ("vllm launch render m --port x", ["option.wrong-type"]),
    ],
)
def test_a_server_with_vllm_inside_has_options_of_its_own(text: str, expected: list[str]) -> None:
    """Unknown names are its own affair, values of vLLM's options are not; a missing model is no error."""
    assert rules(f"{text}\n", "a.sh") == expected


@pytest.mark.parametrize(
    ("name", "text", "severity"),
    [
        ("a.sh", "python -m dynamo.vllm --model m --max-modle-len 8 --my-batch-size 2\n", "info"),
        (
            "a.yaml",
            "llm_configs:\n- model_loading_config: {model_id: m}\n  engine_kwargs: {max_modle_len: 8, my_size: 2}\n",
            "error",
        ),
    ],
)
def test_a_misspelt_option_is_an_error_only_where_the_server_has_none_of_its_own(
    name: str, text: str, severity: str
) -> None:
    """Other unknown options are not reported: they may be the server's, or of another release."""
    (issue,) = checking.lint_text(text, name=name).issues

    assert (issue.severity.value, (issue.text or "").strip("-").replace("-", "_")) == (severity, "max_modle_len")


def test_arguments_of_another_packages_class_are_checked_by_value() -> None:
    """Its own arguments are unknown here."""
    text = "from ray.serve.llm import LLMConfig\nLLMConfig(engine_kwargs={'max_batch': 1, 'dtype': 'hlf'})\n"

    assert rules(text, "a.py") == ["option.wrong-choice"]


def test_the_release_of_another_packages_class_is_unknown() -> None:
    """An option of another release is no error."""
    text = "from ray.serve.llm import LLMConfig\nLLMConfig(engine_kwargs={'swap_space': 4})\n"

    assert rules(text, "a.py") == []


def test_an_option_of_values_is_fixed_in_the_values() -> None:
    """An edit of a list that a chart passes on is made there."""
    text = 'modelSpec:\n- modelURL: org/m\n  vllmConfig:\n    extraArgs: ["--max-modl-len", "1"]\n'
    fixed = checking.fixed_text(text, name="a.yaml")

    assert fixed == text.replace("modl", "model")


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a: 1\nimage: {repository: vllm/vllm-openai}\n", 2, "vllm/vllm-openai"),
        ("a:\n  b: --served-model-name\n", 2, "--served-model-name"),
        ("# Uses vLLM.\n", 1, "vLLM"),
        ("a: --host\n# my-vllm, vllmish\n", None, None),
        ("a: 1\n", None, None),
    ],
)
def test_a_text_without_a_launch_is_reported_if_it_has_a_word_of_vllm(
    text: str, line: int | None, word: str | None
) -> None:
    """The first such word, in the summary and in JSON; options of other servers do not count."""
    linted = checking.lint_text(text, name="a.yaml")
    mention = None if linted.mention is None else (linted.mention.line, linted.mention.text)
    document = json.loads(to_json(linted))

    assert mention == (None if line is None else (line, word))
    assert document.get("mention") == (None if line is None else {"line": line, "text": word})


def test_a_text_without_a_launch_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says what was not checked; the exit status is 0."""
    paths = [tmp_path / name for name in ("a.yaml", "b.yaml")]
    for path, text in zip(paths, ("x: vllm/vllm-openai\n", "x: 1\n"), strict=True):
        path.write_text(text, encoding="utf-8")
    status, out, _ = run(capsys, "lint", str(paths[0]))
    _, several, _ = run(capsys, "lint", *map(str, paths))

    expected = "No vLLM launch found; nothing was checked, although line 1 has vllm/vllm-openai."
    assert (status, " ".join(out.split())) == (0, expected)
    assert several.strip() == "No vLLM launch found; nothing was checked."


SCHEMA = "# yaml-language-server: $schema=https://docs/schemas/vllm-serve-{}.json\n"
DOCUMENTED = 'model: org/m\nhost: "127.0.0.1"\nport: 6379\nuvicorn-log-level: "info"\n'


@pytest.mark.parametrize(
    ("text", "release", "expected"),
    [
        (SCHEMA.format("0.19.0") + "modell: org/m\n", "0.19.0", ["option.unknown"]),
        (SCHEMA.format("latest") + "seed: x\n", "0.33.0", ["option.wrong-type"]),
        ("# a\n" + SCHEMA.format("0.15.1") + "swap_space: 4\n", "0.15.1", []),
        (SCHEMA.format("latest") + "{}\n", "", []),
        (SCHEMA.format("latest") + "? [seed]\n: 1\n", "", []),
        (SCHEMA.format("0..19") + "modell: org/m\n", "", []),
        (DOCUMENTED, "0.33.0", []),
        ("model: org/m\nmax-model-length: 8\ntensor-parallel-size: 2\n", "0.33.0", ["option.unknown"]),
        ("model: org/m\nlearning_rate: 1\ndtype: float16\n", "", []),
        ("model: m\nhost: 127.0.0.1\nport: 80\nseed: 1\n", "", []),
        ("model: org/m\nhost: 127.0.0.1\nport: 80\nbatch: 1\n", "", []),
        ("model: org/m\nseed: 1\n", "", []),
    ],
)
def test_a_file_for_config_is_recognized_by_its_schema_or_its_keys(
    text: str, release: str, expected: list[str]
) -> None:
    """The schema names the release; keys of other programs' files are no arguments of vLLM."""
    linted = checking.lint_text(text, name="a.yaml")

    assert rules(text) == expected
    assert len(linted.deployments) == bool(release)
    assert not release or linted.vllm.version == release
