"""Files as they are in public repositories: what is not vLLM's, or is filled in later, is not checked."""

from __future__ import annotations

import textwrap

import pytest

from vllm_runbooks.lint import checking
from vllm_runbooks.lint.records import Issue


def issues(name: str, text: str) -> list[Issue]:
    """The issues of an indented text but for open ports, which any server here would have."""
    linted = checking.lint_text(textwrap.dedent(text).lstrip("\n"), name=name)
    return [issue for issue in linted.issues if issue.rule != "safety.open-port"]


def found(name: str, text: str) -> list[str]:
    return [f"{issue.severity.value} {issue.rule} {issue.text}" for issue in issues(name, text)]


def launches(name: str, text: str) -> int:
    return len(checking.lint_text(textwrap.dedent(text).lstrip("\n"), name=name).deployments)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "vllm.service",
            r"""
            [Service]
            ExecStart=/usr/bin/docker run --rm --cidfile=%t/vllm-chat.cid --name vllm-chat \
              --gpus all --ipc host -p 10.0.0.2:18000:8000 -v %h/models:/models \
              -e HF_HUB_OFFLINE=1 -e MAX_JOBS=1 --memory-swappiness 0 \
              --entrypoint vllm vllm/vllm-openai:v0.11.0 \
              serve /models/chat --port 8000 --turbo 3
            """,
        ),
        (
            "vllm@.service",
            r"""
            [Service]
            ExecStart=podman run --name=%N --cgroups=no-conmon --replace $PODMAN_ARGS \
              --device nvidia.com/gpu=all -p${PORT}:8000 \
              docker.io/vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B --turbo 3
            """,
        ),
        (
            "run.sh",
            """
            docker run $EXTRA --name="$NAME" -v$HOME/.cache:/root "${MORE[@]}" -p${PORT}:8000 \\
              vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B --turbo 3
            """,
        ),
        ("run.sh", 'nerdctl run ${GPUS} --label="a=$B" "$IMAGE" vllm serve Qwen/Qwen3-8B --turbo 3'),
        ("run.sh", "docker compose -f a.yaml run --rm -e A=b --service-ports llm vllm serve Qwen/Qwen3-8B --turbo 3"),
        ("run.sh", 'docker-compose run --name vllm --entrypoint bash vllm -c "vllm serve Qwen/Qwen3-8B --turbo 3"'),
        ("run.sh", "docker service create --name vllm vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B --turbo 3"),
    ],
)
def test_options_of_a_container_command_are_not_checked(name: str, text: str) -> None:
    """Only the words after the image, or the service, are vLLM's; `--turbo 3` is one problem."""
    assert found(name, text) == ["error option.unknown --turbo"]


def test_compose_up_launches_what_its_file_says() -> None:
    """The names of services after `up` are no command."""
    assert launches("run.sh", "docker compose --profile gpu up -d --build vllm serve") == 0
