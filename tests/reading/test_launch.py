"""The launch that a text shows is found, and its arguments are read under their argparse names."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost import LIMIT, growth
from vllm_runbooks.reading.startup_log import launch
from vllm_runbooks.reading.startup_log.launch import ShownLaunch, at_prompt, begun


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("root@gpu01:/models# vllm serve m --port 8000", "vllm serve m --port 8000"),
        ("(base) user@host:~$ vllm serve m", "vllm serve m"),
        ("(venv) $ python -m vllm.entrypoints.openai.api_server --model m",
        "python -m vllm.entrypoints.openai.api_server --model m"),
        ("$ CUDA_VISIBLE_DEVICES=0 vllm serve m &", "CUDA_VISIBLE_DEVICES=0 vllm serve m &"),
        ("+ vllm serve m", "vllm serve m"),
        ("++ exec python3 /app/api_server.py --model m", "exec python3 /app/api_server.py --model m"),
        ("> cd /x && vllm serve m", "cd /x && vllm serve m"),
        ("# vllm serve m", "vllm serve m"),
        ("$ ls", None),
        ("the command vllm serve starts a server", None),
        ("vllm serve m", None),
    ],
)  # fmt: skip
def test_commands_after_a_prompt(text: str, command: str | None) -> None:
    """A shell's prompt is left out; a line without one shows no command of a prompt."""
    assert at_prompt(text) == command


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (
            "vllm serve Qwen/Q -tp 4 --max-model-len=8192 --enforce-eager --limit-mm-per-prompt '{\"image\":10}' &",
            {
                "model_tag": "Qwen/Q",
                "tensor_parallel_size": 4,
                "max_model_len": 8192,
                "enforce_eager": True,
                "limit_mm_per_prompt": {"image": 10},
            },
        ),
        (
            (
                "A=0 python3 -m vllm.entrypoints.openai.api_server --model "
                "O/I --max_model_len=8 --trust-remote-code > log 2>&1"
            ),
            {"model": "O/I", "max_model_len": 8, "trust_remote_code": True},
        ),
        ("python benchmark_throughput.py -tp 8 --model a_b", {"tensor_parallel_size": 8, "model": "a_b"}),
        (
            "vllm serve a/b --api-key <key> --port 1 < /dev/null",
            {"model_tag": "a/b", "api_key": "[secret-1]", "port": 1},
        ),
        ("vllm bench latency --model a/b", {"model": "a/b"}),
        (
            "docker run -v ~/.cache/vllm:/root --name vllm-x vllm/vllm-openai:v0.6.3 --model a/b -q awq",
            {"model": "a/b", "quantization": "awq"},
        ),
        (
            "docker run --entrypoint /x r.io/h -m vllm.entrypoints.openai.api_server --port=$port --model=d/s",
            {"port": "$port", "model": "d/s"},
        ),
        (
            "nohup /opt/venv/bin/vllm serve x --api-key abc123 --seed 1 | tee log",
            {"model_tag": "x", "api_key": "[secret-1]", "seed": 1},
        ),
        ('A="b c" sudo env B=1 vllm serve x', {"model_tag": "x"}),
        ("/opt/bin/python3.11 /app/vllm/api_server.py --model x # --port 1", {"model": "x"}),
        ("vllm serve it's broken --max-model-len 5", {"model_tag": "it's", "max_model_len": 5}),
        ("vllm serve m -z --unknown", {"model_tag": "m", "unknown": True}),
        ("docker run --rm ubuntu ls", {}),
        (
            "llm = LLM(model='a/b', tensor_parallel_size=4, dtype=dt, gpu_memory_utilization=0.8)",
            {"model": "a/b", "tensor_parallel_size": 4, "gpu_memory_utilization": 0.8},
        ),
        ("engine = vllm.LLM(\"x/y\", quantization='awq')", {"model": "x/y", "quantization": "awq"}),
        ("return AsyncEngineArgs(model=path, max_model_len=1024)", {"max_model_len": 1024}),
    ],
)
def test_arguments_of_commands_and_calls(text: str, arguments: dict[str, object]) -> None:
    """Environment, wrappers, container options, redirections and variables are not vLLM's arguments."""
    shown = begun(7, text)

    assert shown is not None
    assert shown.line == 7
    assert shown.arguments == arguments


@pytest.mark.parametrize(
    "text",
    [
        "You can start it with vllm serve m", "INFO: vllm serve is up", "class LLM(Base):", "generate(LLM(model))",
        "x" * 5000, "",
        "python train.py --model m", "import vllm.entrypoints.openai.api_server",
    ],
)  # fmt: skip
def test_prose_and_other_programs_launch_nothing(text: str) -> None:
    """Only a line that begins with a launch is one."""
    assert begun(1, text) is None


def test_a_command_continues_over_lines() -> None:
    """After a backslash, or on a line that begins with an option."""
    shown = begun(1, "vllm serve m \\")
    assert shown is not None

    assert [
        shown.takes(line) for line in ("  --port 8000 \\", "--seed 1", "  --enforce-eager", "INFO is no option")
    ] == [True, True, True, False]
    assert shown.command == "vllm serve m --port 8000 --seed 1 --enforce-eager"
    assert shown.arguments == {"model_tag": "m", "port": 8000, "seed": 1, "enforce_eager": True}


def test_a_call_continues_until_its_bracket_closes() -> None:
    """A call in Python is not a command, but has arguments."""
    shown = begun(1, "llm = LLM(")
    assert shown is not None

    assert [shown.takes(line) for line in ("    model='a/b',", "    seed=1,", ")", "llm.generate()")] == [
        True,
        True,
        True,
        False,
    ]
    assert (shown.command, shown.arguments) == (None, {"model": "a/b", "seed": 1})


def test_a_container_without_vllm_is_not_a_launch() -> None:
    """`docker run` of another image is dropped after parsing."""
    shown = begun(1, "docker run --rm ubuntu ls")

    assert shown is not None
    assert shown.command is None


def test_a_command_has_an_end() -> None:
    """Endless continuation lines cost a bounded command."""
    shown = ShownLaunch(1, "vllm serve m \\")

    taken = sum(shown.takes("--port 1 \\") for _ in range(1000))

    assert 100 < taken < 300
    assert not ShownLaunch(1, "vllm serve m \\").takes("x" * launch.MAX_LENGTH)


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.sampled_from("vllm serve -='\"\\()[]{}$#&|,x \n"), max_size=120),
    st.sampled_from(["vllm serve ", "LLM(", "docker run vllm/vllm-openai "]),
)
def test_any_text_can_be_a_launch(text: str, head: str) -> None:
    """No quoting raises."""
    for line in (text, head + text):
        shown = begun(1, line)
        if shown:
            shown.takes(text)
            assert isinstance(shown.arguments, dict)


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "a@",
        "A=b ",
        "sudo ",
        "--x ",
        "/",
        "./",
        " ",
        "$ ",
        "vllm serve ",
        "'",
        "numactl -x ",
        "LLM(",
        "vllm/",
        "python -u ",
        ">",
        ".",
    ],
)
def test_finding_and_reading_are_linear(unit: str) -> None:
    """Twice the text costs at most three times."""
    text = unit * (8000 // len(unit))

    for head in ("", "root@host:/# ", "vllm serve ", "docker run ", "llm = LLM("):

        def read(rest: str, head: str = head) -> object:
            shown = begun(1, head + rest) or ShownLaunch(1, head + rest)
            return shown.arguments

        assert growth(read, text) <= LIMIT


def test_a_word_without_end_is_split_at_blanks() -> None:
    """Thousands of equal characters cost no more than their length."""
    assert ShownLaunch(1, f"vllm serve m --seed 1 {'x' * 5000}").arguments == {"model_tag": "m", "seed": 1}


def test_a_compose_file_shows_its_options() -> None:
    """After `command: >` there is one option per line; the next key ends them."""
    shown = begun(7, "    command: >")

    assert shown is not None
    assert shown.takes("      --host 10.0.0.1")
    assert shown.takes("      --model /models/a.gguf")
    assert not shown.takes("    environment:")
    assert shown.arguments == {"host": "10.0.0.1", "model": "/models/a.gguf"}


def test_comments_in_a_call_are_left_out() -> None:
    """A comment next to an argument is not an argument."""
    shown = begun(1, "    llm = LLM(")

    assert shown is not None
    for line in ("model=path,  # the model, (any)", '    revision="a#b",', "    max_model_len=8124", "    )"):
        assert shown.takes(line)
    assert shown.arguments == {"revision": "a#b", "max_model_len": 8124}
