"""The mistakes that the source documents make, by number: each is caught, or named here as not caught yet."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from conftest import SHARED
from rows import in_one_test
from test_node_logs import IDLE
from vllm_runbooks.catalog import folders
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.edge10.accuracy import comparing as accuracy
from vllm_runbooks.edge10.accuracy import reports
from vllm_runbooks.edge10.accuracy.records import Accuracy
from vllm_runbooks.edge10.scripts import checking as script_checking
from vllm_runbooks.edge10.scripts.records import LintedScripts
from vllm_runbooks.lint import checking
from vllm_runbooks.lint.records import Issue
from vllm_runbooks.reading import documents, sources
from vllm_runbooks.runbooks import claims_file

BY_SYMPTOM = {
    "2.2": ("qwen-a100-relogged-by-wrapper", "engine.v0_claimed"),
    "3.4": ("gpt-oss-gemma-a100-four-starts", "dist.host_ip_ignored"),
    "3.5": ("gpt-oss-gemma-a100-four-starts", "triton.moe_untuned"),
    "4.3": ("qwen-2x24gb-mp-glued", "dist.one_host"),
    "5.4": ("edge10-name-not-imported", "edge10.name_not_imported"),
    "5.6": ("edge10-evaluation-model-unknown", "edge10.evaluation_target"),
}
"""A symptom, and the recorded case in which it occurs."""
BY_COMPARISON = {
    "1.17": ("autoglm-3090-video-oom", "8xRTX3090", "dist.gpus_unused"),
}
"""A symptom from the log and the available GPUs."""
BY_CLAIM = frozenset(
    {"1.8", "1.9", "1.10", "1.11", "1.13", "2.2", "2.3", "2.5", "3.1", "3.2", "3.3", "4.5", "4.6", "4.7"}
)
"""A claim of the document that the case's figures, a plan or a release's lines test."""
ONE, TWO, THREE, FOUR, FIVE = (
    ("single-gpu-oom-and-8x3090-split.md", "0.16.0", "8xRTX3090"),
    ("shared-gpu-memory-profiling.md", "0.11.0", "8xA100-80GB"),
    ("gpt-oss-and-gemma-on-a100.md", "0.19.0", "A100-80GB"),
    ("multi-node-ray.md", "0.7.2", "RTX3090@node1,H800@node2"),
    ("edge10-toolchain.md", "0.11.0", "2xA100-80GB"),
)
"""The documents, each with the release that it is about and the GPUs that it has."""
BY_RULE = {
    "1.1": (ONE, "shell.comment-after-continuation", r"\\ +#"),
    "1.2": (ONE, "option.wrong-choice", "--mm-encoder-tp-mode tensor"),
    "1.3": (ONE, "option.foreign", "--ray-namespace|--ray-address"),
    "1.4": ((ONE[0], "0.19.0", ONE[2]), "option.removed", "--swap-space"),
    "1.5": (ONE, "environment.wrong-value", "NCCL_DEBUG=WARNING"),
    "1.6": (ONE, "shell.not-an-assignment", "nccl-debug=info"),
    "1.11": (ONE, "meaning.fp8-cache-without-hardware", "--kv-cache-dtype fp8"),
    "1.12": (ONE, "meaning.ray-on-one-host", "--distributed-executor-backend ray"),
    "1.14": (ONE, "meaning.processor-argument-ignored", "max_pixels"),
    "1.15": (ONE, "shell.background-unwatched", "."),
    "1.16": (ONE, "meaning.modality-unlimited", "--limit-mm-per-prompt"),
    "1.18": (ONE, "safety.whole-file-system", "--allowed-local-media-path /"),
    "2.1": (TWO, "environment.wrong-value", "VLLM_USE_V1"),
    "2.4": (TWO, "environment.allocator-split", "max_split_size_mb"),
    "3.6": (THREE, "safety.open-port", "10000"),
    "3.7": (THREE, "safety.remote-code-needless", "--trust-remote-code"),
    "4.1": (FOUR, "environment.different-interfaces", "GLOO_SOCKET_IFNAME"),
    "4.2": (FOUR, "environment.one-address-for-two-nodes", "VLLM_HOST_IP"),
    "5.1": (FIVE, "environment.wrong-name", "LLM_USE_MODELSCOPE"),
    "5.9": (FIVE, "meaning.gpus-unused", "CUDA_VISIBLE_DEVICES"),
}
"""A rule, the document, and words in the lines where it applies."""
BY_SCRIPT = {
    "5.2": {
        "edge10.remap-length": r"m_die_remap.*default=\[0,1,2,3,0",
        "edge10.list-option": r"m_die_remap.*default=\[0,1,2,3,0",
    },
    "5.3": {"edge10.remap-set-twice": r"set_device_mode\(\"[VL]M_die_remap\"", "edge10.name-differs": r"aot_dir = f"},
    "5.4": {"edge10.name-not-imported": r"torch_edgex\.set_device_trace_only"},
    "5.5": {"edge10.name-gpu": r"aot_dir = f", "edge10.listing-differs": r"seqlen_8|1die|-AOT"},
    "5.6": {"edge10.no-such-server": ":9999/", "edge10.no-such-name": "type: Qwen3-1.7b-VL"},
    "5.7": {"meaning.context-odd": "8196"},
    "5.8": {"edge10.comment-reversed": r"gpu.*cpu"},
    "5.10": {"edge10.vllm-release": "pip install vllm"},
    "5.12": {"edge10.sampled-accuracy": "'temperature': 0.7"},
}
"""Rules for the toolchain's scripts, each with words in all lines where it applies."""
BY_ANOTHER_RELEASE = frozenset({"5.11"})
"""Valid in a container with another vLLM, and invalid in the toolchain's evaluation release."""
VALID = {
    "1.7": (ONE, "--mm_processor_kwargs|--mm-encoder-tp-mode data"),
    "3.8": (THREE, "256K"),
}
"""Valid words: no error may be reported at their lines."""
BESIDE_A_STATUS = frozenset({"4.4"})
"""The output of `ray status` in addition to the log."""
RECONSTRUCTED = frozenset({"4.8"})
"""The script that lost its blanks and line ends."""
BY_ACCURACY = frozenset({"5.13"})
"""An accuracy loss that the document does not mention, in its own tables."""


@cache
def findings(case: str) -> set[str]:
    """All symptoms in any launch of a case."""
    evidence = sources.load(case)
    count = len(diagnosing.read(evidence))
    return {f.symptom for n in range(1, count + 1) for f in diagnosing.diagnose(evidence, start=n).findings}


@pytest.mark.parametrize("trap", sorted(BY_SYMPTOM))
def test_a_symptom_that_the_document_missed(trap: str) -> None:
    """In the document's recorded log."""
    case, symptom = BY_SYMPTOM[trap]

    assert symptom in findings(case)


def test_a_log_is_combined_with_the_state_of_the_cluster() -> None:
    """The state was printed much later, and shows no GPU in use."""
    log = sources.load("qwen-2x24gb-mp-glued")
    both = Evidence((*log.documents, Document("ray-status.txt", IDLE)))

    assert "ray.cluster_idle" in {f.symptom for f in diagnosing.diagnose(both).findings}


@pytest.mark.parametrize("trap", sorted(BY_COMPARISON))
def test_a_log_is_combined_with_the_available_gpus(trap: str) -> None:
    """The log does not mention the unused GPUs."""
    case, gpus, symptom = BY_COMPARISON[trap]

    assert symptom in {f.symptom for f in diagnosing.diagnose(sources.load(case), gpus=gpus).findings}


def test_claims_are_checked_against_a_log_a_plan_or_the_sources() -> None:
    """Each by its number in the claims next to the cases."""
    paths = sorted(folders.cases_dir().glob("*/claims.yaml"))

    assert {claim.trap for path in paths for claim in claims_file.read_claims(path).claims if claim.trap} == BY_CLAIM


@cache
def issues(document: tuple[str, str, str]) -> list[tuple[Issue, str]]:
    """The issues of a document, each with its line."""
    name, vllm, gpus = document
    text = (SHARED / "seeds" / name).read_text("utf-8", errors="replace")
    lines = text.split("\n")
    found = checking.lint_text(text, name=name, vllm=vllm, gpus=gpus)
    return [(issue, lines[issue.line - 1]) for issue in found.issues]


@in_one_test("trap", sorted(BY_RULE))
def test_a_rule_finds_the_mistake_in_the_document_itself(trap: str, seeds: Path) -> None:  # noqa: ARG001 - is there
    """In every line that makes it as a command, or at least in one where others are prose."""
    document, rule, words = BY_RULE[trap]
    told = [line for issue, line in issues(document) if issue.rule == rule]

    assert told
    assert all(re.search(words, line) for line in told)


@pytest.mark.parametrize("trap", sorted(VALID))
def test_valid_words_have_no_error(trap: str, seeds: Path) -> None:  # noqa: ARG001 - is there
    """Options that look odd and are understood."""
    document, words = VALID[trap]
    wrong = [
        issue
        for issue, _ in issues(document)
        if issue.severity is IssueSeverity.ERROR and issue.rule.startswith("option.") and re.search(words, issue.text)
    ]

    assert wrong == []


@cache
def toolchain_issues() -> tuple[str, LintedScripts]:
    """The toolchain's document, and the issues in its scripts."""
    text = (SHARED / "seeds" / FIVE[0]).read_text("utf-8", errors="replace")
    return text, script_checking.lint_scripts({FIVE[0]: text})[FIVE[0]]


@pytest.mark.parametrize("trap", sorted(BY_SCRIPT))
def test_a_mistake_in_a_script_is_found_on_the_toolchains_own_page(trap: str, seeds: Path) -> None:  # noqa: ARG001
    """By each rule that is about it, and nowhere else."""
    text, found = toolchain_issues()
    lines = text.split("\n")
    for rule, words in BY_SCRIPT[trap].items():
        told = [lines[issue.line - 1] for issue in found.issues if issue.rule == rule]

        assert told, rule
        assert [line for line in told if not re.search(words, line)] == []


def test_a_script_of_another_container_is_not_checked_against_the_servers_release(seeds: Path) -> None:  # noqa: ARG001
    """Its engine has other options; the servers on the page are still checked."""
    text, found = toolchain_issues()
    begin = text[: text.index("import logging")].count("\n") + 1
    engine = {text.count("\n", 0, at.start()) + 1 for at in re.finditer(r"disable_async_output_proc|device=.cpu", text)}

    assert [step.vllm for step in found.steps if step.step == "compile-vlm"] == [None]
    assert {step.vllm for step in found.steps if step.step == "serve"} == {"0.11.0"}
    assert not [issue for issue in found.issues if issue.line > begin and not issue.rule.startswith("edge10.")]
    assert engine
    assert engine.isdisjoint(issue.line for issue in found.issues)
    assert len(found.deployments) == 4


def test_a_script_without_line_ends_is_reconstructed(seeds: Path) -> None:
    """The certain parts: its servers with options, and the environment of both nodes."""
    page = documents.read((seeds / FOUR[0]).read_text("utf-8", errors="replace"), FOUR[0])

    assert page.starts
    assert all(start.is_reconstructed for start in page.starts)
    assert [node.environment["VLLM_HOST_IP"].value.value for node in page.nodes] == ["192.168.1.1", "192.168.1.1"]


def test_the_loss_that_the_document_passes_over_is_a_real_one(seeds: Path) -> None:
    """Its tables of the float and of the quantised model, of 14,042 questions each."""
    lines = (seeds / FIVE[0]).read_text("utf-8", errors="replace").splitlines()
    head = next(line for line in lines if "| Metric" in line)
    tables = [f"{head}\n{line}" for line in lines if "| OVERALL" in line]
    first, second = (reports.read([reports.ResultFile("", text.encode())], "a table") for text in tables)
    judged = accuracy.compare(first, second)
    (score,) = (each for each in judged.scores if each.is_deciding)

    assert (judged.verdict, score.questions, score.is_real_loss) == (Accuracy.LOST, 14_042, True)
    assert score.difference == pytest.approx(0.5901 - 0.6224)
    assert score.interval is not None
    assert -0.044 < score.interval.low < score.interval.high < -0.020


def test_every_trap_is_caught() -> None:
    """None is forgotten."""
    if not (SHARED / "seeds").is_dir():
        pytest.skip("the source documents are not at hand")
    told = (SHARED / "seeds" / "README.md").read_text("utf-8")
    numbers = set(re.findall(r"(?:^  - |[.;] )([1-5]\.\d{1,2})[: ]", told, re.MULTILINE))
    by_logs = BY_SYMPTOM.keys() | BY_COMPARISON.keys() | BESIDE_A_STATUS
    caught = (
        by_logs
        | BY_CLAIM
        | BY_RULE.keys()
        | BY_SCRIPT.keys()
        | BY_ANOTHER_RELEASE
        | VALID.keys()
        | RECONSTRUCTED
        | BY_ACCURACY
    )

    assert numbers == caught
