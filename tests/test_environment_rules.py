"""What is told of variables, for whom they are set, and which values a release refuses."""

from __future__ import annotations

import pytest

from vllm_runbooks import documents, options, session
from vllm_runbooks.excerpt import applied
from vllm_runbooks.lint import environment_rules
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.releases import dump_parser

TABLES = session.knowledge().tables
SERVE = "vllm serve /m\n"


def hits(text: str, vllm: str, name: str = "run.sh") -> list[Hit]:
    """What the environment rules find in a file."""
    data = options.load(vllm)
    return list(environment_rules.of_page(documents.read(text, name), lambda _: data, TABLES))


@pytest.mark.parametrize(
    ("vllm", "setting", "rule", "after"),
    [
        # Switches that are numbers, and switches that are words.
        ("0.11.0", "VLLM_USE_V1=true", "environment.refused-value", "VLLM_USE_V1=1"),
        ("0.10.2", "VLLM_USE_V1=0", None, "VLLM_USE_V1=0"),
        ("0.11.0", "VLLM_USE_MODELSCOPE=yes", "environment.wrong-value", "VLLM_USE_MODELSCOPE=True"),
        ("0.11.0", "VLLM_USE_MODELSCOPE=TRUE", None, "VLLM_USE_MODELSCOPE=TRUE"),
        ("0.16.0", "VLLM_HTTP_TIMEOUT_KEEP_ALIVE=5s", "environment.refused-value", "VLLM_HTTP_TIMEOUT_KEEP_ALIVE=5s"),
        ("0.16.0", "VLLM_HTTP_TIMEOUT_KEEP_ALIVE=1_0", None, "VLLM_HTTP_TIMEOUT_KEEP_ALIVE=1_0"),
        ("0.16.0", "VLLM_PORT=tcp://10.0.0.1:80", "environment.refused-value", "VLLM_PORT=tcp://10.0.0.1:80"),
        # Renamed once, and twice; the value is renamed with it.
        ("0.13.0", "VLLM_USE_TRTLLM_FP4_GEMM=1", "environment.removed", "VLLM_NVFP4_GEMM_BACKEND=flashinfer-trtllm"),
        ("0.32.0", "VLLM_USE_TRTLLM_FP4_GEMM=1", "environment.removed", "VLLM_USE_TRTLLM_FP4_GEMM=1"),
        # Read without being declared, in some releases.
        ("0.11.0", "VLLM_BATCH_INVARIANT=1", "environment.not-there-yet", "VLLM_BATCH_INVARIANT=1"),
        ("0.13.0", "VLLM_BATCH_INVARIANT=1", None, "VLLM_BATCH_INVARIANT=1"),
        ("0.19.0", "VLLM_SERVICE_PORT_HTTP=1", None, "VLLM_SERVICE_PORT_HTTP=1"),
        # One letter off a name that others read; two are another name.
        ("0.19.0", "CUDA_VISIBLE_DEVCES=1", "environment.wrong-name", "CUDA_VISIBLE_DEVICES=1"),
        ("0.19.0", "MUSA_VISIBLE_DEVICES=1", None, "MUSA_VISIBLE_DEVICES=1"),
        ("0.19.0", "NCCL_P2P_LEVEL=nvl", "environment.wrong-value", "NCCL_P2P_LEVEL=NVL"),
        # Handed on unread to what refuses it; small letters do from some release on.
        ("0.19.0", "VLLM_LOGGING_LEVEL=warn", None, "VLLM_LOGGING_LEVEL=warn"),
        ("0.19.0", "VLLM_LOGGING_LEVEL=loud", "environment.refused-value", "VLLM_LOGGING_LEVEL=loud"),
        ("0.32.0", "VLLM_LOGGING_LEVEL=inf", "environment.refused-value", "VLLM_LOGGING_LEVEL=INFO"),
        ("0.7.3", "VLLM_LOGGING_LEVEL=warning", "environment.refused-value", "VLLM_LOGGING_LEVEL=WARNING"),
        ("0.19.0", "CUDA_VISIBLE_DEVICES=" + "1," * 2000 + "x", None, "CUDA_VISIBLE_DEVICES=" + "1," * 2000 + "x"),
    ],
)
def test_a_setting_is_judged_as_the_release_reads_it(vllm: str, setting: str, rule: str | None, after: str) -> None:
    """The rule that it breaks, and what its change makes of it."""
    text = f"export {setting}\n{SERVE}"
    found = hits(text, vllm)

    assert ([rule] if rule else []) == [hit.rule for hit in found]
    assert f"export {after}\n{SERVE}" == applied(text, [edit for hit in found for edit in hit.edits])


COMPOSE = """services:
  db:
    image: postgres
    environment:
      HOST_IP: 10.0.0.1
      VLLM_URL: http://api:8000
  api:
    image: vllm/vllm-openai:v0.19.0
    environment:
      NCCL_DEBUG: WARNING
    command: --model /m
"""


def test_another_container_is_no_concern() -> None:
    """Only what vLLM's own container is given is judged."""
    assert [(hit.rule, COMPOSE[hit.start : hit.end]) for hit in hits(COMPOSE, "0.19.0", "compose.yaml")] == [
        ("environment.wrong-value", "WARNING")
    ]


def test_a_variable_is_told_at_each_place() -> None:
    """Each line with the fault is named."""
    text = f"export NCCL_DEBUG=WARNING\n{SERVE}export NCCL_DEBUG=WARNING\n{SERVE}"

    assert [hit.start for hit in hits(text, "0.19.0")] == [18, 58]


@pytest.mark.parametrize(
    ("nccl", "gloo", "is_told"),
    [
        ("eth0", "eth1", True),
        ("eth", "eth1", False),
        ("=eth", "eth1", True),
        ("^eth0", "eth1", False),
        ("^eth", "eth1", True),
        ("ib0,eth1", "eth1", False),
        ("$IFACE", "eth1", False),
    ],
)
def test_interfaces_are_compared_as_nccl_reads_them(nccl: str, gloo: str, is_told: bool) -> None:  # noqa: FBT001
    """A beginning, a whole name, names to leave out, and lists."""
    text = f"export NCCL_SOCKET_IFNAME={nccl}\nexport GLOO_SOCKET_IFNAME={gloo}\n{SERVE}"

    assert is_told == ("environment.different-interfaces" in {hit.rule for hit in hits(text, "0.19.0")})


@pytest.mark.parametrize(
    ("lines", "is_told"),
    [
        ("CUDA_VISIBLE_DEVICES=1\n", True),
        ("CUDA_VISIBLE_DEVICES=1\nexport CUDA_VISIBLE_DEVICES\n", False),
        ("CUDA_VISIBLE_DEVICES=1\necho $CUDA_VISIBLE_DEVICES\n", False),
        ("LD_LIBRARY_PATH=/x\n", False),
        ("PORT=1\n", False),
    ],
)
def test_a_variable_of_the_shell_alone_is_told_where_vllm_would_read_it(lines: str, is_told: bool) -> None:  # noqa: FBT001
    """Not where the script uses it, exports it, or is given it from outside."""
    assert is_told == ("environment.not-exported" in {hit.rule for hit in hits(lines + SERVE, "0.19.0")})


@pytest.mark.parametrize(
    ("value", "gpus", "expected"),
    [
        ("0,1,2,3", 2, [("environment.no-such-gpu", "2")]),
        ("0,1", 2, []),
        ("0, 2", 2, [("environment.no-such-gpu", "2")]),
        ("7", None, []),
        ("1,1", None, [("environment.gpu-twice", "1")]),
        ("0,-1,9", 2, []),
        ("GPU-a,GPU-b", 2, []),
        ("$GPUS", 2, []),
        ("", 2, []),
    ],
)
def test_gpus_that_are_not_there_are_told(value: str, gpus: int | None, expected: list[tuple[str, str]]) -> None:
    """Numbers count from 0; what stands behind a negative one is not read."""
    text = f"export CUDA_VISIBLE_DEVICES='{value}'\n{SERVE}"
    data = options.load("0.19.0")
    page = documents.read(text.replace("'$GPUS'", '"$GPUS"'), "run.sh")
    found = environment_rules.of_page(page, lambda _: data, TABLES, gpus)

    assert expected == [(hit.rule, text[hit.start : hit.end]) for hit in found if "gpu" in hit.rule]


def test_values_are_judged_by_the_texts_that_the_releases_were_tried_with() -> None:
    """A text that was not tried is judged by one that was; both lists are the same."""
    assert environment_rules._TRIED == dump_parser._ENVIRONMENT_PROBES
