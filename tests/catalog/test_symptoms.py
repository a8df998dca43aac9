"""Every symptom finds its own examples, and nothing else: families of tests made from the catalog's files."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rows import in_one_test, run_checks
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog.authored import symptom_files, tables
from vllm_runbooks.catalog.records import Example, Symptom
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.catalog.templates import fill, filled_or_plain
from vllm_runbooks.core import scan
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import Facts, Level, Role, ServerRun, Severity
from vllm_runbooks.diagnosis.causes import Diagnosis, diagnose
from vllm_runbooks.reading import startup_log

ROOT = folders.catalog_dir()
FILES = sorted(path.stem for path in (ROOT / "symptoms").glob("*.yaml"))
"""Tests are created from names; only workers read the files, not each process that collects."""
LINES = tables.read_line_formats(ROOT / "lines.yaml")
ENGINES = ["re2", "re"]


@cache
def symptoms() -> dict[str, Symptom]:
    """Every symptom by its file name."""
    return {name: symptom_files.read_symptom(ROOT / "symptoms" / f"{name}.yaml") for name in FILES}


@cache
def shelf(engine: str) -> Catalog:
    """The whole catalog, with patterns matched by one of the two engines."""
    whole = Catalog({s.id: s for s in symptoms().values()}, tuple(LINES))
    if engine == "re":
        whole.__dict__["patterns"] = scan.PatternSet(whole.patterns.patterns, engine="re")
    return whole


@cache
def read(text: str, engine: str = "re2") -> list[ServerRun]:
    return startup_log.read(Evidence((Document("example.log", text),)), shelf(engine))


def found(text: str, engine: str = "re2") -> list[Diagnosis]:
    return [diagnose(start, shelf(engine)) for start in read(text, engine)]


def unread(symptom: Symptom, example: Example) -> str:
    """Problems of reading an example of a symptom; empty if it is found as described."""
    starts = read(example.text)
    hits = [hit for start in starts for hit in start.hits if hit.symptom == symptom.id]
    if not hits:
        return "is not found"
    captures = {name: value for hit in hits for name, value in hit.captures.items()}
    if example.captures != {name: captures.get(name) for name in example.captures}:
        return f"has other captures: {captures}"
    return "" if read(example.text, "re") == starts else "is read otherwise by the other engine"


def a_symptom_fires_on_its_examples(symptom: Symptom) -> None:
    """It is found, with the captures that the example names; both engines read the same."""
    assert {i: why for i, example in enumerate(symptom.examples) if (why := unread(symptom, example))} == {}


def claimed(symptom: Symptom, example: Example) -> list[str]:
    """Unexpected or missing findings in an example of a symptom."""
    diagnoses = found(example.text)
    if symptom.role is Role.BENIGN:
        return [f.symptom for d in diagnoses for f in d.findings if f.severity is Severity.FATAL]
    named = {f.symptom for d in diagnoses for f in d.findings if f.severity is not Severity.HINT}
    if symptom.severity is Severity.HINT:
        said = symptom.id in {f.symptom for d in diagnoses for f in d.findings}
    else:
        said = symptom.id in named or symptom.role.value in [f for d in diagnoses for f in d.hidden]
    return [*sorted(named - {symptom.id}), *([] if said else [f"not {symptom.id}"])]


def no_other_symptom_claims_the_example(symptom: Symptom) -> None:
    """After ranking by place the symptom is first, and no other failure is listed."""
    assert {i: names for i, example in enumerate(symptom.examples) if (names := claimed(symptom, example))} == {}


def a_symptom_is_silent_on_its_near_misses(symptom: Symptom) -> None:
    """The line most easily confused with it is not claimed; both engines read the same."""
    for miss in symptom.near_misses:
        named = {f.symptom for d in found(miss.text) for f in d.findings}

        assert symptom.id not in named, miss.why
        assert read(miss.text, "re") == read(miss.text)


@in_one_test("engine", ENGINES)
@in_one_test(
    ("line", "example"), [pytest.param(x, e, id=f"{x.id}-{i}") for x in LINES for i, e in enumerate(x.examples)]
)
def test_a_line_format_reads_its_examples(line: Any, example: Example, engine: str) -> None:
    """Each wording yields the named figures; progress is not a failure."""
    patterns = scan.PatternSet(line.patterns, engine="re" if engine == "re" else None)
    groups = {n: v for match in patterns.find(example.text) for n, v in match.groups.items()}

    assert list(patterns.find(example.text)), line.id
    assert example.captures == {name: groups.get(name) for name in example.captures}
    if (line.event or line.phase) and line.event not in ("failed", "wrapper_ready"):
        own = {f.symptom for d in found(example.text, engine) for f in d.findings if f.severity is Severity.FATAL}
        assert own <= {"other.user_interrupt"}


FIGURES = (
    "CUDA out of memory. Tried to allocate 698.00 MiB. GPU 1 has a total capacity of 23.56 GiB of which 559.00 MiB is "
    "free. Including non-PyTorch memory, this process has 23.01 GiB memory in use."
)
WORKER_FAILED = "".join(
    f"(Worker_TP1 pid=12) ERROR 02-28 17:42:17 [multiproc_executor.py:824] {line}\n"
    for line in (
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/worker/gpu_worker.py", line 339, in determine_available_memory',
        '  File "/opt/vllm/v1/worker/gpu_model_runner.py", line 5156, in profile_run',
        '  File "/opt/vllm/model_executor/models/glm4_1v.py", line 1526, in _process_video_input',
        f"torch.OutOfMemoryError: {FIGURES}",
    )
)
PARENT_FAILED = "".join(
    f"(EngineCore_DP0 pid=10) ERROR 02-28 17:42:17 [core.py:946] {line}\n"
    for line in (
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/engine/core.py", line 937, in run_engine_core',
        '  File "/opt/vllm/v1/engine/core.py", line 691, in __init__',
        '  File "/opt/vllm/v1/engine/core.py", line 105, in __init__',
        '  File "/opt/vllm/v1/engine/core.py", line 231, in _initialize_kv_caches',
        '  File "/opt/vllm/v1/executor/abstract.py", line 126, in determine_available_memory',
        '  File "/opt/vllm/v1/executor/multiproc_executor.py", line 359, in get_response',
        f"RuntimeError: Worker failed with error '{FIGURES}', please check the stack trace above for the root cause",
    )
)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_parents_frames_do_not_place_its_workers_failure(engine: str) -> None:
    """The worker's traceback gives the place; with only the parent's it is unknown."""
    both, alone = (found(text, engine)[0] for text in (WORKER_FAILED + PARENT_FAILED, PARENT_FAILED))

    assert [f.symptom for f in both.findings] == ["oom.multimodal_encoder"]
    assert [(f.symptom, f.level) for f in alone.findings] == [("oom.profile_run.unplaced", Level.POSSIBLE)]


def texts_stand_without_figures(symptom: Symptom) -> None:
    """A bare message has an explanation and advice, and no sentence depends on a missing one."""
    said = {name: filled_or_plain(getattr(symptom, name), {}, Facts()) for name in ("do_first", "confirm", "refute")}
    why = [fill(sentence, {}, Facts()) for sentence in symptom.explanation]

    assert all(said.values())
    assert not [text for text in said.values() if text.startswith(("Otherwise", "Else", "Then", "So "))]
    assert not [sentence for sentence in why if sentence and sentence.startswith(("So ", "It asked", "Otherwise"))]
    assert any(why)


def patterns_have_no_faults(symptom: Symptom) -> None:
    """They stay inside the subset that both engines share and that stays linear."""
    patterns = [s.pattern for s in (*symptom.signatures, *symptom.companions)]

    assert {p: scan.faults(p) for p in patterns if scan.faults(p)} == {}


def a_root_cause_is_a_known_class(symptom: Symptom) -> None:
    """Its first two words are in classes.yaml."""
    assert symptom.severity is Severity.HINT or symptom.class_ in tables.words("classes")


def a_symptom_prints_no_command_line(symptom: Symptom) -> None:
    """Remedies name options and values; a vLLM command would have to be checked for the release first."""
    texts = [symptom.cause, symptom.do_first, symptom.confirm, symptom.refute, *symptom.explanation]
    texts += [text for remedy in symptom.remedies for text in (remedy.title, remedy.cost)]

    assert not [text for text in texts if "vllm serve" in text or "--" in text or "python -m vllm" in text]


@pytest.mark.parametrize("name", FILES)
def test_symptom_passes_all_checks(name: str) -> None:
    """The functions above that have a symptom as their only parameter."""
    run_checks(globals(), "symptom", symptoms()[name])


def test_classes_are_those_of_the_labelled_logs() -> None:
    """Diagnoses are measured with this vocabulary; the toolchain and internal errors have additional classes."""
    labels = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "labels.md"
    if not labels.is_file():
        pytest.skip("the labels are not at hand")
    rows = [line.split("`")[1] for line in labels.read_text().splitlines() if line.startswith("| `")]

    own = {word for word in tables.words("classes") if word.startswith(("edge10.", "upstream."))}
    own |= {"api.chat_template", "dist.kv_transfer", "host.limits", "model.bad_config", "other.platform"}
    own |= {"storage.read_only"}
    assert {*rows} - {"ok"} == {*tables.words("classes")} - own
