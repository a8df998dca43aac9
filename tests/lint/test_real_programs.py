"""What lint --fix and migrate write is still read by the programs that read the input."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from vllm_runbooks.lint import checking

HERE = Path(__file__).parent
FAULTS = YAML(typ="safe").load(HERE / "manifest_faults.yaml")
HELPERS = '{{ define "vllm.fullname" }}chat{{ end }}{{ define "vllm.labels" }}app: chat{{ end }}'
VALUES = "{replicas: 1, model: Qwen/Qwen3-8B, quantized: true, secret: keys, resources: {}}"


def texts(name: str) -> list[str]:
    """A correct manifest, and each of its faulty versions."""
    text = (HERE / "manifests" / name).read_text(encoding="utf-8")
    return [text, *(text.replace(fault["old"], fault["new"]) for fault in FAULTS if fault["file"] == name)]


def is_read_by_compose(text: str, folder: Path) -> bool:
    command = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    (folder / "compose.yaml").write_text(text, encoding="utf-8")
    checked = [*command, "-f", str(folder / "compose.yaml"), "config", "--quiet", "--no-interpolate"]
    return subprocess.run(checked, check=False, capture_output=True, timeout=60).returncode == 0


def is_read_by_helm(text: str, folder: Path) -> bool:
    chart = {"Chart.yaml": "{apiVersion: v2, name: chat, version: 0.1.0}", "values.yaml": VALUES}
    for name, content in {**chart, "templates/_helpers.tpl": HELPERS, "templates/deployment.yaml": text}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    command = ["helm", "template", "chat", str(folder)]
    return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode == 0


def is_read_by_kubernetes(text: str, _: Path) -> bool:
    validator = pytest.importorskip("kubernetes_validate")
    try:
        for document in YAML(typ="safe").load_all(text):
            validator.validate(document, "1.33", strict=True)
    except (validator.ValidationError, validator.SchemaNotFoundError):
        return False
    return True


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "program", "is_read"),
    [
        ("compose.yaml", "docker-compose", is_read_by_compose),
        ("helm-template.yaml", "helm", is_read_by_helm),
        ("deployment.yaml", "", is_read_by_kubernetes),
        ("tensor-parallel.yaml", "", is_read_by_kubernetes),
    ],
)
def test_a_fixed_and_a_migrated_manifest_is_read(
    name: str, program: str, is_read: Callable[[str, Path], bool], tmp_path: Path
) -> None:
    """As the input was, and fixing again changes nothing."""
    if program and not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    manifests = [text for text in texts(name) if is_read(text, tmp_path)]
    changed = 0
    assert manifests[0] == texts(name)[0]
    for text in manifests:
        fixed = checking.fixed_text(text, name=name)
        _, migrated = checking.migrate_text(text, name=name, from_="0.9.2", to="0.33.0")
        assert checking.fixed_text(fixed, name=name) == fixed
        assert is_read(fixed, tmp_path)
        assert is_read(migrated, tmp_path)
        changed += (fixed != text) + (migrated != text)
    assert changed
