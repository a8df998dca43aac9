"""Fixes are the given command with edits and without secrets, or none."""

from __future__ import annotations

from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks.core.records import Checks, Edit, IssueSeverity, Remedy
from vllm_runbooks.lint import checking, knowledge
from vllm_runbooks.lint import ways_out as commands
from vllm_runbooks.lint.ways_out import LaunchCommand

RELEASE = "0.11.0"
CHECKS = Checks(lint="unknown", plan="unknown", parser="unknown")
CONTEXT = Edit("set", "max_model_len", 4096)
LEVEL = Edit("env", "VLLM_LOGGING_LEVEL", "DEBUG")


def base(command: str | None, **logged: Any) -> LaunchCommand:
    return LaunchCommand(command, logged, RELEASE, knowledge.knowledge)


def offered(command: str | None, *edits: Edit, **logged: Any) -> Remedy:
    (remedy,) = base(command, **logged).offered([Remedy("title", "cost", edits, None, CHECKS)])
    return remedy


DOCKER = """\
#!/bin/bash
set -e
mkdir -p /data
docker run -d --gpus all --ipc=host -v /data:/models -p 8000:8000 --env-file prod.env \\
  vllm/vllm-openai:v0.11.0 \\
  --model /models/a \\
  --max-model-len 8192
curl -s localhost:8000/health
"""
COMPOSE = """\
services:
  vllm:
    build: ./image
    command: vllm serve org/model --port 8000  # the server
    volumes: [models:/models]
    ports: ["8000:8000"]
  cache:
    image: redis:7
"""
UNIT = "[Service]\nEnvironmentFile=/etc/vllm.env\nExecStart=/opt/bin/vllm serve m\nUser=vllm\n"
KEYS = """\
services:
  a:
    image: vllm/vllm-openai:v0.11.0
    command:
      - --model=m
      - --api-key
      - sesame
    environment:
      HF_TOKEN: opened
"""
NUMA = "numactl --cpunodebind=0 --membind=0 /opt/venv/bin/vllm serve m --port 8000 > vllm.log 2>&1 &\n"


@pytest.mark.parametrize(
    ("command", "edit", "expected"),
    [
        (
            DOCKER,
            CONTEXT,
            "".join(DOCKER.splitlines(keepends=True)[3:7]).replace("8192", "4096"),
        ),
        (
            DOCKER,
            LEVEL,
            "".join(DOCKER.splitlines(keepends=True)[3:7]).replace(
                "  vllm/", "  -e VLLM_LOGGING_LEVEL=DEBUG \\\n  vllm/"
            ),
        ),
        (COMPOSE, CONTEXT, COMPOSE.replace("8000  #", "8000 --max-model-len 4096  #")),
        (NUMA, CONTEXT, NUMA.replace(" >", " --max-model-len 4096 >")),
        (f"cd /srv\n{NUMA}wait\n", CONTEXT, NUMA.replace(" >", " --max-model-len 4096 >")),
        ("vllm serve $MODEL --dtype $DTYPE\n", CONTEXT, "vllm serve $MODEL --dtype $DTYPE --max-model-len 4096\n"),
        ("vllm serve m \\\n  | tee log\necho\n", CONTEXT, "vllm serve m --max-model-len 4096 \\\n  | tee log\n"),
        (
            "export A=1\necho\nvllm serve m\n",
            LEVEL,
            "export VLLM_LOGGING_LEVEL=DEBUG\nexport A=1\necho\nvllm serve m\n",
        ),
        (
            "ARGS='--port 1'\nvllm serve m $ARGS\n",
            CONTEXT,
            "ARGS='--port 1'\nvllm serve m $ARGS --max-model-len 4096\n",
        ),
        (UNIT, CONTEXT, UNIT.replace("serve m", "serve m --max-model-len 4096")),
        # Errors in it are fixed first, so that the change applies to the intended option.
        ("vllm serve m --max-modle-len=8192 --seed 1\n", CONTEXT, "vllm serve m --max-model-len=4096 --seed 1\n"),
        (
            "vllm serve m --seed 1 \\ # one\n  --max-model-len 8192\n",
            CONTEXT,
            "# one\nvllm serve m --seed 1 \\\n  --max-model-len 4096\n",
        ),
    ],
)
def test_a_fix_is_the_edited_command(command: str, edit: Edit, expected: str) -> None:
    """Volumes, ports, files, wrappers, paths and variables stay; other commands are not shown."""
    found = offered(command, edit)

    assert (found.command, found.checks.lint) == (expected, "passed")
    again = checking.lint_text(expected, vllm=RELEASE)
    assert [issue for issue in again.issues if issue.severity is IssueSeverity.ERROR] == []
    assert len(again.deployments) == 1


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ('vllm serve "m"--tensor-parallel-size 2--port 1\n', "the change cannot be made in this text without doubt"),
        ('A=(--max-model-len 1)\nvllm serve m "${A[@]}"\n', "the change cannot be made in this text without doubt"),
        ("vllm serve m --no-such-option 1\n", "the command itself has errors (option.unknown)"),
    ],
)
def test_uncertainty_is_reported(command: str, why: str) -> None:
    """A command that was not edited, or whose result is unknown, is not shown."""
    found = offered(command, CONTEXT)

    assert (found.command, found.checks.lint) == (None, f"unknown: {why}")


def test_a_fix_sets_the_variables_that_its_command_reads() -> None:
    """The fix is printed from the line that sets $NUM_GPUS on; an unknown variable beside it changes nothing."""
    script = (
        "#!/bin/bash\nset -x\necho starting\n"
        "export HF_HOME=$SCRATCH/hf NUM_GPUS=2\n"
        "vllm serve Qwen/Qwen3-8B --tensor-parallel-size $NUM_GPUS --port $PORT\n"
    )
    command = offered(script, CONTEXT).command

    assert command is not None
    assert command.splitlines() == [
        "export HF_HOME=$SCRATCH/hf NUM_GPUS=2",
        "vllm serve Qwen/Qwen3-8B --tensor-parallel-size $NUM_GPUS --port $PORT --max-model-len 4096",
    ]


def test_of_a_long_manifest_the_service_is_shown() -> None:
    """With all that is set for it, and no more of the file."""
    others = "".join(f"  s{number}:\n    image: redis\n" for number in range(200))
    shown = offered(COMPOSE.replace("  cache:\n", f"{others}  cache:\n"), CONTEXT).command

    assert shown == COMPOSE.partition("  cache:")[0].replace("8000  #", "8000 --max-model-len 4096  #")


def test_a_change_that_the_release_rejects_is_left_out() -> None:
    """An unknown option or an invalid value, for a given command or a log's."""
    remedies = [
        Remedy("t", "c", (edit,), None, CHECKS)
        for edit in (Edit("set", "no_such_option", 1), Edit("set", "dtype", "float99"))
    ]

    assert base("vllm serve m\n").offered(remedies) == ()
    assert base(None, model="m", port=8000).offered(remedies) == ()


def test_the_command_of_a_log_is_reconstructed() -> None:
    """Without a given command, from the arguments in the log."""
    found = offered(None, CONTEXT, model="m", port=8001)

    assert found.command == "vllm serve \\\n  m \\\n  --port 8001 \\\n  --max-model-len 4096\n"
    assert found.checks.lint == "passed"


TOKEN = "hf_" + "AbCdEfGh1234567890IjKl"
SECRETS = [
    (f"HF_TOKEN={TOKEN} vllm serve m --api-key sesame\n", (TOKEN, "sesame")),
    ("K=sesame\nvllm serve m --api-key $K\n", ("sesame",)),
    ("export A=1 MY_PASSWORD=sesame\nvllm serve m --api-key=se'sa'me\n", ("sesame", "'sa'")),
    (f"docker run -e HF_TOKEN={TOKEN} -e API_KEY=opened vllm/vllm-openai:v0.11.0 --model m\n", (TOKEN, "opened")),
    (KEYS, ("sesame", "opened")),
    (
        f"# {TOKEN}\n[Service]\nEnvironment=HF_TOKEN={TOKEN}\nExecStart=/bin/vllm serve m --api-key sesame\n",
        (TOKEN, "sesame"),
    ),
]


@pytest.mark.parametrize(("command", "secrets"), SECRETS)
@pytest.mark.parametrize("edit", [CONTEXT, LEVEL], ids=["option", "variable"])
def test_no_secret_of_the_command_is_shown(command: str, secrets: tuple[str, ...], edit: Edit) -> None:
    """Neither by its form nor by the name of its option or variable."""
    shown = offered(command, edit).command

    assert shown is not None
    assert [secret for secret in secrets if secret in shown] == []
    assert "[secret-" in shown or "$K" in shown


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (
            "VLLM_USE_V1=1 vllm serve m --max-model-len 8192 2>&1 | tee vllm.log",
            "VLLM_USE_V1=1 vllm serve m --max-model-len 4096 2>&1 | tee vllm.log",
        ),
        (
            "docker run --gpus all vllm/vllm-openai:v0.11.0 --model m --max-model-len 8192",
            "docker run --gpus all vllm/vllm-openai:v0.11.0 --model m --max-model-len 4096",
        ),
        ("vllm serve m; vllm serve n", "vllm serve \\\n  m \\\n  --max-model-len 4096\n"),
    ],
)
def test_a_command_shown_in_the_log_is_edited(shown: str, expected: str) -> None:
    """With variables, container and redirections; unless it is one launch, arguments are used."""
    found = LaunchCommand(
        None, {"model_tag": "m", "max_model_len": 8192}, RELEASE, knowledge.knowledge, logged_command=shown
    )
    (remedy,) = found.offered([Remedy("title", "cost", (CONTEXT,), None, CHECKS)])

    assert remedy.command == expected
    assert found.differences() == []


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [("", "", 0), ("a", "", 0), ("abc", "abd", 2), ("abc", "abc", 3), ("abc", "abcd", 3), ("xbc", "abc", 0)],
)
def test_how_far_two_texts_are_alike(one: str, other: str, length: int) -> None:
    """From their beginning."""
    assert commands._alike(one, other) == length


@pytest.mark.parametrize(
    ("text", "stretch", "lines"),
    [
        ("a\nbb\nc\n", (2, 4), "bb\n"), ("a\nbb\nc\n", (3, 3), "bb\n"), ("a\nbb\nc", (5, 6), "c"),
         ("a \\\nb\nc\n", (0, 1), "a \\\nb\n"),
        ("a |\nb &&\nc\nd\n", (0, 1), "a |\nb &&\nc\n"), ("a \\ \r\nb\n", (0, 1), "a \\ \r\nb\n"),
         ("a &\nb\n", (0, 1), "a &\n"), ("a \\", (0, 1), "a \\"),
    ],
)  # fmt: skip
def test_the_whole_lines_of_a_range(text: str, stretch: tuple[int, int], lines: str) -> None:
    """Including the lines that continue the last one."""
    first, last = commands._lines(text, *stretch)

    assert text[first:last] == lines


@pytest.mark.parametrize(
    ("value", "normal"),
    [
        ([1], 1), ((1, 2), [1, 2]), ([[1]], 1), ([], []), ({"a": [1], "b": None, 2: "x"}, {"a": 1, "2": "x"}),
         ("a", "a"), (None, None),
    ],
)  # fmt: skip
def test_values_are_compared_in_a_normal_form(value: Any, normal: Any) -> None:
    """A list of one equals its item, and unset keys of an object are ignored."""
    assert commands._normal(value) == normal


@pytest.mark.parametrize(
    ("command", "logged", "expected"),
    [
        ("vllm serve m --max-model-len 4096", {"max_model_len": 8192}, [("max_model_len", "4096", "8192")]),
        ("vllm serve m --max-model-len 4096", {"max_model_len": 4096, "seed": 1}, [("seed", "not set", "1")]),
        ("vllm serve m --seed 1 --max-model-len 4096", {"max_model_len": 4096}, [("seed", "1", "not set")]),
        # Defaults written out are not a difference, nor are options that the release lacks.
        ("vllm serve m --dtype auto --max-model-len 4096", {"max_model_len": 4096}, []),
        ("vllm serve m --max-model-len 4096", {"max_model_len": 4096, "dtype": "auto", "unheard_of": 1}, []),
        ("vllm serve m --max-model-len 4096", {"max_model_len": 4096, "model": "other", "api_key": "x", "_private": 1},
         []),
        ("vllm serve m --max-model-len 4096", {}, []), (None, {"max_model_len": 4096}, []),
    ],
)  # fmt: skip
def test_differences_between_a_command_and_its_log(
    command: str | None, logged: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    """Sorted by name; none if the log prints no arguments."""
    assert [tuple(one) for one in base(command, **logged).differences()] == expected


def test_the_first_twelve_of_many_differences_are_listed() -> None:
    """By name."""
    names = ["seed", "block_size", "swap_space", "max_num_seqs", "max_model_len", "max_num_batched_tokens", "port",
    "host",
             "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "nnodes", "dtype",
             "served_model_name",
             "load_format", "quantization"]  # fmt: skip
    found = base("vllm serve m", **dict.fromkeys(names, 77)).differences()

    assert len(found) == 12
    assert [one.name for one in found] == sorted(one.name for one in found)


@in_one_test(
    ("command", "edit", "expected"),
    [
        ("vllm serve m --seed 1\n", Edit("set", "seed", 2), "vllm serve m --seed 2\n"),
        ("vllm serve m --nosuch 1 2 --seed 1\n", Edit("remove", "nosuch"), "vllm serve m --seed 1\n"),
        ("vllm serve m --nosuch=1 --seed 1\n", Edit("remove", "nosuch"), "vllm serve m --seed 1\n"),
        ("vllm serve --nosuch m\n", Edit("remove", "nosuch"), None),
        ("vllm serve --nosuch --model m\n", Edit("remove", "nosuch"), "vllm serve --model m\n"),
        ("VLLM_PORT=a vllm serve m\n", Edit("env", "VLLM_PORT"), "vllm serve m\n"),
        (None, Edit("set", "seed", 2), "vllm serve \\\n  m \\\n  --seed 2\n"),
        (None, Edit("set", "nosuch", 2), None),
    ],
)
def test_a_command_is_edited_without_a_release(command: str | None, edit: Edit, expected: str | None) -> None:
    """By the options of the newest one; the edit is not linted."""
    found = LaunchCommand(command, {"model_tag": "m"}, None, knowledge.knowledge)
    (remedy,) = found.offered([Remedy("title", "cost", (edit,), None, CHECKS)])

    assert (remedy.command, remedy.checks.lint.partition(":")[0]) == (expected, "unknown")


def test_a_variable_that_the_command_does_not_set_is_not_unset() -> None:
    """The edit would change nothing."""
    found = LaunchCommand("vllm serve m\n", {}, RELEASE, knowledge.knowledge)

    assert found.offered([Remedy("title", "cost", (Edit("env", "VLLM_PORT"),), None, CHECKS)]) == ()


def test_a_removal_that_is_a_safe_fix_is_offered() -> None:
    """The linter has removed the option already."""
    assert offered("vllm serve m --num-scheduler-steps 4\n", Edit("remove", "num_scheduler_steps")).command is not None
