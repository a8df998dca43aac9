"""Failures of the Edge10 toolchain are only diagnosed in logs of the toolchain."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from rows import in_one_test
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.authored.located import read_yaml
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import Finding
from vllm_runbooks.diagnosis import diagnosing

LOGS = Path(__file__).resolve().parents[1] / "edge10_logs"
EXPECTED = cast("dict[str, Any]", read_yaml(LOGS / "expected.yaml", "expected.yaml"))
OF_THE_COMPILER = sorted(name for name in EXPECTED if name.startswith(("compile-config", "compile-dev", "compile-p",
                                                                       "compile-seg", "compile-voc")))  # fmt: skip
LOADING = """Traceback (most recent call last):
  File "{path}", line 7, in load
  File "/opt/transformers/image_processing_base.py", line 361, in get_image_processor_dict
OSError: Can't load image processor for '/data/m'. If you were trying to load it from 'https://huggingface.co/models'
"""


def cause(text: str, lang: str | None = None) -> Finding | None:
    return diagnosing.diagnose(Evidence((Document("a.log", text),)), lang=lang).root_cause


def recorded(name: str) -> str:
    return (LOGS / name).read_text("utf-8")


def test_every_log_has_an_expected_answer() -> None:
    """All logs are used, and many contain no Edge10 failure."""
    classes = [entry["class"] for entry in EXPECTED.values()]

    assert {path.name for path in LOGS.glob("*.log")} == EXPECTED.keys()
    assert len([name for name in classes if not str(name).startswith("edge10.")]) >= 6


@in_one_test("name", EXPECTED)
def test_a_log_has_its_expected_answer(name: str) -> None:
    """Its class, a group of classes, or no cause."""
    found, wanted = cause(recorded(name)), EXPECTED[name]["class"]

    assert (found and found.class_) == wanted or (found and found.class_.split(".")[0]) == wanted


@pytest.mark.parametrize("name", OF_THE_COMPILER)
def test_without_the_compiler_the_general_answer_applies(name: str) -> None:
    """The same error in another program's log is not the toolchain's."""
    text = recorded(name)
    for sign, other in (("tyllm", "acme"), ("build_and_compile_llm", "build"), ("EdgeXExecutor", "Executor"),
                        ("edgex_executor", "executor"), ("-AOT_", "-"), ("--num_die", "--count"),
                        ("COMPILE_THREAD", "THREADS"), ("触发AOT编译", "触发编译")):  # fmt: skip
        text = text.replace(sign, other)
    found = cause(text)

    assert found is None or not found.symptom.startswith("edge10.")


@pytest.mark.parametrize(
    ("path", "symptom"),
    [
        ("/usr/lib/python3/dist-packages/tyllm/models/loader.py", "edge10.checkpoint_incomplete"),
        ("C:\\env\\site-packages\\tyllm\\loader.py", "edge10.checkpoint_incomplete"),
        ("/data/edgex_executor.py", "edge10.checkpoint_incomplete"),
        ("/home/user/tyllm/serve.py", "model.missing_file.tokenizer"),
        ("/home/user/tyllm/env/lib/python3.12/site-packages/vllm/engine.py", "model.missing_file.tokenizer"),
    ],
)
def test_a_frame_counts_in_the_installed_package(path: str, symptom: str) -> None:
    """The compiler is identified by its package path, not by any folder of that name."""
    found = cause(LOADING.format(path=path))

    assert found is not None
    assert found.symptom == symptom


def test_every_failure_in_the_facts_is_a_symptom() -> None:
    """Ids in the facts exist in the catalog."""
    known = catalog.load_catalog(()).symptoms

    assert {fault.symptom for fault in catalog.toolchain().faults} <= known.keys()


def test_every_edge10_symptom_is_translated_to_chinese() -> None:
    """Each text of an answer."""
    own = [each for name, each in catalog.load_catalog(()).symptoms.items() if name.startswith("edge10.")]
    told = [each.translations["zh"] for each in own]

    assert len(own) >= 9
    assert all(each.title and each.cause and each.do_first and each.confirm and each.refute for each in told)
    assert [len(each.explanation) for each in told] == [len(each.explanation) for each in own]
