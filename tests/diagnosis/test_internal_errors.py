"""An exception that only a bug in vLLM or a kernel library raises is reported as one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rows import in_one_test
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import Answer, Finding, Level, Quote, Severity
from vllm_runbooks.diagnosis.answer import answer
from vllm_runbooks.diagnosis.causes import Diagnosis
from vllm_runbooks.diagnosis.internal_errors import OWNERS, internal_error
from vllm_runbooks.diagnosis.render import answers, steps, summaries
from vllm_runbooks.lint import knowledge

BEGIN = "(APIServer pid=7) INFO 11-20 08:00:00 [utils.py:299] vLLM API server version 0.19.0\n"
PACKAGES = "/opt/venv/lib/python3.12/site-packages"
LOADER = "vllm/model_executor/models/acme.py"
COMPILED = "torch/_functorch/_aot_autograd/runtime_wrappers.py"
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
WRAPPER = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
UPGRADE = "Upgrade to the latest patch release of vLLM"


def diagnose(text: str, **more: str) -> Answer:
    return answer(Evidence((Document("a.log", text),), **more), catalog.load_catalog(()), knowledge.knowledge)  # type: ignore[arg-type]


def raised(error: str, *frames: str) -> str:
    """A log in which an engine process fails with an error under these frames, outermost first."""
    rows = ["Traceback (most recent call last):"] if frames else []
    for frame in frames:
        path, _, function = frame.partition(" ")
        rows.append(f'  File "{path if path[0] in "/<" else f"{PACKAGES}/{path}"}", line 12, in {function or "run"}')
    return BEGIN + "".join(f"(EngineCore pid=9) ERROR 11-20 08:00:09 [core.py:9] {row}\n" for row in [*rows, error])


def internal(text: str) -> Finding:
    found = diagnose(text).internal_error
    assert found is not None
    return found


@in_one_test(
    ("error", "frames", "component"),
    [
        ("IndexError: list index out of range", [SCHEDULER], "vLLM"),
        ("KeyError: 'req-1'", ["/root/vllm/vllm/v1/core/sched/scheduler.py"], "vLLM"),
        ("AssertionError", [SCHEDULER], "vLLM"),
        ("NotImplementedError", [SCHEDULER], "vLLM"),
        ("ValueError: too many values to unpack (expected 2)", [SCHEDULER], "vLLM"),
        ("RuntimeError: query and key must have the same dtype", [LOADER], "vLLM"),
        ("AttributeError: 'AcmeLayer' object has no attribute 'scale'", [LOADER, "torch/nn/modules/module.py"], "vLLM"),
        ("TypeError: bad operand", [SCHEDULER, "/usr/lib/python3.12/copy.py"], "vLLM"),
        ("RuntimeError: no kernel for these sizes", [LOADER, "flashinfer/decode.py"], "FlashInfer"),
        ("RuntimeError: Assertion error (/b/deepgemm-src/csrc/apis/attention.hpp:9): n == 1", [LOADER], "DeepGEMM"),
        (
            "RuntimeError: acme_gemm, /b/csrc/quantization/w8a8/acme.cuh:9, Error Internal",
            [COMPILED],
            "a kernel of vLLM",
        ),
        ("AssertionError: Expected code to be unreachable, but got: None", [SCHEDULER], "vLLM"),
    ],
)
def test_an_error_of_vllm_or_a_kernel_library_is_internal(error: str, frames: list[str], component: str) -> None:
    found = internal(raised(error, *frames))
    assert (found.symptom, found.level, found.captures["component"]) == (
        "upstream.internal_error",
        Level.PROBABLE,
        component,
    )


@in_one_test(
    ("error", "frames"),
    [
        ("ValueError: max_acme must be positive", [SCHEDULER]),
        ("AssertionError: choose one of a and b", [SCHEDULER]),
        ("NotImplementedError: acme is not supported with this model", [SCHEDULER]),
        ("AttributeError: To use acme, 'get_acme' must be implemented", [SCHEDULER]),
        ('KeyError: "Missing required keys in the acme settings"', [SCHEDULER]),
        ("KeyError: 'acme_heads'", ["vllm/transformers_utils/acme.py"]),
        ("TypeError: run() got an unexpected keyword argument 'x'", ["vllm/entrypoints/llm.py __init__"]),
        ("IndexError: list index out of range", [SCHEDULER, "/srv/app/plugin.py"]),
        ("IndexError: list index out of range", ["/srv/vllm/main.py"]),
        ("IndexError: list index out of range", ["torch/nn/modules/module.py"]),
    ],
)
def test_an_error_that_a_setting_or_other_code_may_raise_is_not_internal(error: str, frames: list[str]) -> None:
    found = diagnose(raised(error, *frames))
    assert (found.root_cause, found.internal_error) == (None, None)
    assert found.first_error is not None


def test_without_frames_the_process_decides() -> None:
    error = "AttributeError: 'AcmeProposer' object has no attribute 'positions'"
    found = internal(raised(error))
    assert found.level is Level.POSSIBLE
    assert "frame" not in found.captures
    assert "in_speculative" in found.captures
    assert diagnose(f"{BEGIN}{error}\n").internal_error is None


def test_the_root_cause_stays_unknown_and_a_known_cause_wins() -> None:
    found = diagnose(raised("IndexError: list index out of range", SCHEDULER))
    assert found.root_cause is None
    assert found.findings == ()
    wrapped = diagnose(raised("IndexError: list index out of range", SCHEDULER) + WRAPPER)
    assert wrapped.root_cause is not None
    assert (wrapped.root_cause.class_, wrapped.internal_error) == ("engine.dead_wrapper", found.internal_error)
    port = "OSError: [Errno 98] Address already in use"
    assert diagnose(raised("IndexError: list index out of range", SCHEDULER) + f"{port}\n").internal_error is None


@in_one_test(
    ("error", "frames", "query"),
    [
        ("KeyError: 'req-17'", [f"{SCHEDULER} schedule"], "KeyError scheduler.py schedule"),
        ("KeyError: 'req-17'", [], "KeyError \"'req-17'\""),
        ("AssertionError", [f"{SCHEDULER} schedule"], "AssertionError scheduler.py schedule"),
        (
            "IndexError: index 4096 is out of bounds for dimension 0 with size 2048",
            [SCHEDULER],
            'IndexError "is out of bounds for dimension"',
        ),
        ("TypeError: " + "long words " * 20, [SCHEDULER], 'TypeError "' + ("long words " * 20)[:87].strip() + '"'),
    ],
)
def test_the_query_has_the_constant_words_of_the_message(error: str, frames: list[str], query: str) -> None:
    found = internal(raised(error, *frames))
    assert found.captures["query"] == f"repo:vllm-project/vllm is:issue {query}"
    assert found.captures["query"] in found.do_first


@in_one_test(
    ("frames", "titles"),
    [
        ([SCHEDULER], [UPGRADE, "Disable asynchronous scheduling"]),
        (
            ["vllm/v1/spec_decode/eagle.py", "vllm/v1/attention/backends/acme.py"],
            [
                UPGRADE,
                "Disable torch.compile and CUDA graphs",
                "Select another attention backend",
                "Disable speculative decoding",
            ],
        ),
        (["vllm/utils/deep_gemm.py"], ["Disable DeepGEMM", UPGRADE]),
        (["vllm/multimodal/cache.py"], [UPGRADE, "Disable the cache of processed images, videos and audio"]),
        (["vllm/tool_parsers/acme.py"], [UPGRADE, "Disable automatic tool calls and the reasoning parser"]),
    ],
)
def test_the_frames_decide_what_to_try(frames: list[str], titles: list[str]) -> None:
    found = diagnose(raised("IndexError: list index out of range", *frames))
    assert [remedy.title for remedy in found.remedies] == titles


def test_every_view_shows_the_internal_error() -> None:
    found = diagnose(raised("IndexError: list index out of range", f"{SCHEDULER} schedule"))
    title = "Probably a bug in vLLM or a kernel library, not your configuration"
    text = answers.text(found)
    assert "FIRST UNEXPLAINED ERROR" not in text
    assert "INTERNAL ERROR" in text
    assert "vllm/v1/core/sched/scheduler.py:12 schedule" in text
    for view in (answers.cause, answers.checks, answers.remedies):
        assert view(found).plain
    assert title in answers.cause(found).plain
    summary = summaries.summarize(found)
    assert [statement.text for statement in summary.statements] == [title]
    assert summary.fix is not None
    step, check = steps.failure(found), steps.verification(found)
    assert step is not None
    assert check is not None
    assert title in step.fact


def test_a_catalog_without_the_symptom_reports_the_first_error_only() -> None:
    whole = catalog.load_catalog(())
    symptoms = {name: symptom for name, symptom in whole.symptoms.items() if not name.startswith("upstream.")}
    evidence = Evidence((Document("a.log", raised("IndexError: list index out of range", SCHEDULER)),))
    found = answer(evidence, replace(whole, symptoms=symptoms), knowledge.knowledge)
    assert found.internal_error is None
    assert found.first_error is not None


def test_an_error_outside_the_launch_is_not_internal() -> None:
    unknown = Diagnosis(None, (), first_error=Quote(0, 99, 1, "IndexError: list index out of range"))
    assert internal_error((), unknown, catalog.load_catalog(())) is None


def test_each_feature_of_the_table_selects_a_remedy() -> None:
    symptom = catalog.load_catalog(()).symptoms["upstream.internal_error"]
    assert symptom.severity is Severity.FATAL
    needed = {name for remedy in symptom.remedies for name in remedy.needs}
    assert {row.feature for row in OWNERS.values() if row.feature} == needed


@pytest.mark.parametrize("name", ["vllm", "flashinfer", "deep_gemm"])
def test_components_have_a_repository_to_search(name: str) -> None:
    assert OWNERS[name].repository.count("/") == 1


def test_matrix_products_and_autotuning_of_flashinfer_have_their_own_fixes() -> None:
    """By release; other code of FlashInfer keeps its general fix first."""
    error = "RuntimeError: [FP4 gemm Runner] Failed to run"
    frames = (LOADER, "flashinfer/autotuner.py", "flashinfer/gemm/gemm_base.py")

    def first(text: str) -> tuple[str, ...]:
        return tuple(edit.name for edit in diagnose(text).remedies[0].edits)

    assert first(raised(error, *frames).replace("0.19.0", "0.27.1")) == ("linear_backend",)
    assert first(raised(error, *frames)) == ("VLLM_NVFP4_GEMM_BACKEND",)
    assert first(raised(error, *frames[:2])) == ("enable_flashinfer_autotune",)
    assert first(raised(error, LOADER, "flashinfer/decode.py")) == ()


def test_a_failed_matrix_product_of_vllm_offers_another_backend() -> None:
    """Since releases have the option, also where a kernel of FlashInfer lacks the GPU's architecture."""
    text = raised("RuntimeError: cutlass_gemm_caller, /b/csrc/quantization/w8a8/acme.cuh:9, Error Internal", LOADER)
    assert diagnose(text).remedies[0].title == UPGRADE
    error = "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device"
    for log in (text, raised(error, LOADER, "flashinfer/gemm/gemm_base.py")):
        edits = diagnose(log.replace("0.19.0", "0.27.1")).remedies[0].edits
        assert [(edit.name, edit.value) for edit in edits] == [("linear_backend", "marlin")]
    assert not diagnose(raised(error, LOADER).replace("0.19.0", "0.27.1")).remedies[0].edits


def test_an_option_that_the_message_names_as_given_can_be_removed() -> None:
    """Even if the printed arguments leave it out."""
    text = BEGIN + "(APIServer pid=7) INFO 11-20 08:00:00 [utils.py:233] non-default args: {'model': 'a/b'}\n" + (
        "(APIServer pid=7) ValueError: Quantization method specified in the model config (awq) does not match the "
        "quantization method specified in the `quantization` argument (gptq).\n"
    )  # fmt: skip

    assert [(edit.op, edit.name) for edit in diagnose(text).remedies[0].edits] == [("remove", "quantization")]
