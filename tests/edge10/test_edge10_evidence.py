"""An Edge10 job as a whole: its parts are found, checked together and reported."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import vllm_runbooks as rb
from command_line import run
from vllm_runbooks.catalog import folders
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.edge10.accuracy import comparing as accuracy
from vllm_runbooks.edge10.accuracy import reports
from vllm_runbooks.edge10.chain.records import OpenChain
from vllm_runbooks.edge10.evidence import JobReport
from vllm_runbooks.edge10.jobs import steps
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks import cases

CASE = "edge10-qwen3-vl-4b"
JOB = "model: Qwen/Qwen3-1.7B\ndies: 4\n"
HEAD = "| Model | Dataset | Metric | Subset | Num | Score | Cat.0 |\n"
TABLE = HEAD + "| {} | mmlu | mean_acc | OVERALL | 14042 | {} | - |\n"
REPORTS = Path(__file__).parents[1] / "edge10_reports" / "evalscope-1.14.1"
PARTS = ("job", "host", "scripts", "quantised", "accuracy", "compiled", "logged")


def made(folder: Path, description: str = JOB) -> JobReport:
    """A folder with the files that are made of a job, read."""
    folder.mkdir()
    (folder / "job.yaml").write_text(description)
    told = rb.edge10_evidence.read(str(folder))
    (folder / "job.yaml").unlink()  # the complete one
    rb.edge10_evidence.write(rb.edge10_evidence.made(told), str(folder), apply=True)
    return rb.edge10_evidence.read(str(folder))


def results(folder: Path, **scores: float) -> str:
    """Tables of results, as the parameter names them."""
    for name, score in scores.items():
        (folder / f"{name}.txt").write_text(TABLE.format(name, score))
    return ",".join(str(folder / f"{name}.txt") for name in scores)


def test_the_recorded_job_has_its_verdict_without_a_runbook() -> None:
    """Each part found has a problem, and the verdict names all of them."""
    judged = cases.verdict(sources.load(CASE))

    assert (judged.verdict, judged.case) == (Verdict.PASS, CASE)
    for name in sources.load(CASE).case.expect.findings:  # type: ignore[union-attr] # it is one of a job
        assert name in judged.reason


def test_a_missing_expected_problem_fails_the_recorded_job(tmp_path: Path) -> None:
    """A given part replaces the case's own, and the verdict names the missing problem."""
    told = rb.edge10_evidence.read(CASE, results=results(tmp_path, base=0.6224, four=0.6220))
    judged = rb.edge10_evidence.verdict(told)

    assert judged.verdict is Verdict.FAIL
    assert "finding edge10.accuracy_lost: expected, not found" in judged.reason


def test_generated_files_are_a_job_without_problems(tmp_path: Path) -> None:
    """Their scripts are found and checked together; missing parts are named."""
    told = made(tmp_path / "a job")
    judged = rb.edge10_evidence.verdict(told)

    assert (judged.verdict, judged.reason) == (Verdict.PASS, "nothing is wrong with what was given of the job")
    assert {"1-quantise.py", "5-compile.py", "3-serve-float.sh"} <= set(told.scripts)
    for part in ("host", "quantised", "accuracy", "compiled", "logged"):
        shown = getattr(rb.edge10_evidence, part)(told)
        assert "set" in shown.plain
        assert shown.is_nothing
    summary = rb.render.edge10_steps.summary(told).plain
    assert summary.startswith("OK ")
    assert "Not given, so not checked: log, host, checkpoint, compiled model, accuracy." in summary
    assert rb.step(rb.render.edge10_steps.host(told), {"The whole host": rb.edge10_evidence.host(told)}).is_nothing


def test_artefacts_are_found_by_the_names_in_the_job(tmp_path: Path) -> None:
    """The compiled model, the results of both evaluations, and a log if any."""
    told = made(tmp_path / "job")
    job = told.job.job  # type: ignore[union-attr] # it was read
    assert job is not None
    compiled = tmp_path / "job" / "Qwen3-1.7B-AWQ-AOT_8_4096" / "4die" / "batch_1"
    compiled.mkdir(parents=True)
    (compiled / "common_die0.params").write_bytes(b"x")
    shutil.copytree(REPORTS, tmp_path / "job" / steps.RESULTS)
    (tmp_path / "job" / "compile.log").write_text("OSError: [Errno 98] Address already in use\n")
    found = rb.edge10_evidence.read(str(tmp_path / "job"))
    judged = rb.edge10_evidence.verdict(found)

    assert judged.verdict is Verdict.FAIL
    assert not isinstance(found.compiled, str)
    assert not isinstance(found.accuracy, str)
    assert not isinstance(found.log, str)
    assert judged.facts["accuracy"] == "unknown"


@pytest.mark.slow
def test_the_runbook_accepts_a_job_folder_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name in the working folder, even without a log."""
    made(tmp_path / "my-job")
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, "run", "edge10-toolchain", "-p", "evidence", "my-job", "--no-history")

    assert (status, "PASS edge10-toolchain: nothing is wrong" in out) == (0, True), out + err


def test_two_logs_in_a_folder_are_ambiguous(tmp_path: Path) -> None:
    """The user must choose one."""
    made(tmp_path / "job")
    for name in ("a.log", "b.log"):
        (tmp_path / "job" / name).write_text("x\n")

    with pytest.raises(InputError, match=r"^log: 2 found \(a.log, b.log\); choose one$"):
        rb.edge10_evidence.read(str(tmp_path / "job"))
    assert not isinstance(rb.edge10_evidence.read(str(tmp_path / "job"), log=str(tmp_path / "job" / "b.log")).log, str)


def test_too_many_scripts_are_ambiguous(tmp_path: Path) -> None:
    """In a large work folder the user must name the job's scripts."""
    (tmp_path / "job.yaml").write_text(JOB)
    for number in range(65):
        (tmp_path / f"{number}.sh").write_text("true\n")

    with pytest.raises(InputError, match=r"^scripts: 65 found; use the scripts of the job, at most 64$"):
        rb.edge10_evidence.read(str(tmp_path))
    assert len(rb.edge10_evidence.read(str(tmp_path), scripts=str(tmp_path / "1.sh")).scripts) == 1


def test_a_job_folder_may_have_the_files_of_a_recorded_one(tmp_path: Path) -> None:
    """Listings, tables and a log next to the description are found, as in a case."""
    shutil.copytree(folders.cases_dir() / CASE, tmp_path / "job")
    (tmp_path / "job" / "case.yaml").unlink()
    recorded, found = rb.edge10_evidence.read(CASE), rb.edge10_evidence.read(str(tmp_path / "job"))

    assert found.case is None
    for part in PARTS:
        told = [getattr(rb.edge10_evidence, part)(each).plain.splitlines() for each in (found, recorded)]
        assert sorted(told[0]) == sorted(told[1])  # scripts are in the order of their names


def test_the_log_of_a_recorded_job_may_have_its_own_name() -> None:
    """Not only `log.txt`: any name that ends in `.log`."""
    held = sources.load(CASE)
    renamed = [replace(each, name="compile.log") if each.name == "log.txt" else each for each in held.documents]

    assert not isinstance(rb.edge10_evidence.of(replace(held, documents=tuple(renamed))).log, str)


def test_a_contradictory_description_writes_nothing(tmp_path: Path) -> None:
    """Each problem has its line, and the other parts are still checked."""
    (tmp_path / "job.yaml").write_text("model: Qwen/Qwen3-1.7B\ndies: 4\nremap: [0, 1, 2, 2]\n")
    told = rb.edge10_evidence.read(CASE, job=str(tmp_path / "job.yaml"))
    found = rb.edge10_evidence.made(told)

    assert "job.yaml:3" in rb.edge10_evidence.job(told).plain
    assert found == "The description contradicts itself or the toolchain: fix it first."
    assert rb.edge10_evidence.made_shown(told, found).plain.startswith("No files made.")
    assert rb.edge10_evidence.write(found, "x", apply=True).plain.startswith("No files written.")
    assert "finding edge10.job: found, not expected" in rb.edge10_evidence.verdict(told).reason


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"evidence": "tiny-cpu-served"}, "tiny-cpu-served: is not a recorded job; use one, or a folder with job.yaml"),
        ({"live": "yes"}, "live: 'yes' must be True or False; no host is read"),
        ({"results": "one.txt"}, "results: 1 given; use those of the float model, then those of the quantized model"),
        ({"job": 1.1}, "job: 1.1 is not a string"),
        ({"compiled": "/none"}, "/none: "),
    ],
)
def test_unreadable_input_is_one_line(given: dict[str, Any], said: str) -> None:
    """Place, error and fix."""
    with pytest.raises(InputError) as refused:
        rb.edge10_evidence.read(**{"evidence": CASE, **given})

    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_an_empty_request_has_no_verdict() -> None:
    """It is rejected instead of passing."""
    told = rb.edge10_evidence.read("")

    with pytest.raises(InputError, match="no job given"):
        rb.edge10_evidence.verdict(told)


def test_nothing_is_written_without_a_request(tmp_path: Path) -> None:
    """And modified files are not overwritten."""
    told = rb.edge10_evidence.read(CASE)
    files, out = rb.edge10_evidence.made(told), tmp_path / "out"

    assert rb.edge10_evidence.write(files, str(out), apply=False).plain == "No files written: apply is False."
    assert not out.exists()
    rb.edge10_evidence.write(files, str(out), apply=True)
    (out / "5-compile.py").write_text("mine\n")
    with pytest.raises(InputError, match=r"5-compile\.py was written or changed by another program"):
        rb.edge10_evidence.write(files, str(out), apply=True)
    with pytest.raises(InputError, match="folder is empty"):
        rb.edge10_evidence.write(files, " ", apply=True)
    with pytest.raises(InputError, match="must be True or False"):
        rb.edge10_evidence.write(files, str(out), apply="no")  # type: ignore[arg-type] # as a scheduler hands it over


def test_a_chain_with_a_loss_does_not_pass(tmp_path: Path) -> None:
    """Nor one without a verdict; one that kept the accuracy does."""
    told = made(tmp_path / "job")
    scores = {name: TABLE.format(name, score).encode() for name, score in (("base", 0.6224), ("four", 0.5901))}
    first, second = (reports.read([reports.ResultFile("", raw)], name) for name, raw in scores.items())
    lost = OpenChain("m", (), accuracy=accuracy.compare(first, second))
    kept = OpenChain("m", (), accuracy=accuracy.compare(first, second, threshold=0.05))

    assert "(edge10.chain)" in rb.edge10_evidence.verdict(told, lost).reason
    assert rb.edge10_evidence.verdict(told, kept).verdict is Verdict.PASS
    unknown = rb.edge10_evidence.verdict(told, OpenChain("m", (), no_accuracy_reason="EvalScope ended"))
    assert unknown.reason == "unknown: the open-source chain: EvalScope ended"


def test_every_part_of_the_recorded_job_is_rendered() -> None:
    """For HTML and terminal, with its problems, and with the job's text escaped."""
    told = rb.edge10_evidence.read(CASE)
    shown = {part: getattr(rb.edge10_evidence, part)(told) for part in PARTS}

    for part, words in {
        "job": "Qwen/Qwen3-VL-4B-Instruct", "host": "edge10.host_toolkit_missing", "scripts": "edge10.remap-length",
        "quantised": "preprocessor_config.json", "accuracy": "-0.0323", "compiled": "llm_prefill_die3.so",
        "logged": "edge10.devices_mixed",
    }.items():  # fmt: skip
        assert words in shown[part].plain, part
        assert words in shown[part].html, part


def test_the_scripts_of_a_job_keep_their_markup_to_themselves(tmp_path: Path) -> None:
    """A name of a file and a line of a script are texts."""
    bad = tmp_path / "<b>compile.py"
    text = "from tyllm.build_util import build_and_compile_llm\ntorch_edgex.set_device_mode('<i>', '<script>')\n"
    bad.write_text(text)
    told = rb.edge10_evidence.read("", scripts=str(bad))
    shown = rb.edge10_evidence.scripts(told)

    assert "<script>" not in shown.html
    assert "<b>compile.py" not in shown.html
    assert "edge10.name-not-imported" in shown.html


def test_a_job_case_has_a_description() -> None:
    """Its files are identified by name; the catalog has at least one such case."""
    recorded = [folder.name for folder in folders.cases_dir().iterdir() if (folder / "job.yaml").is_file()]

    assert CASE in recorded


def test_the_summary_of_a_job_begins_with_the_failed_step() -> None:
    """It counts all problems; the log's cause and fix are first, then the first of each part."""
    record = rb.render.edge10_steps.summarize(rb.edge10_evidence.read(CASE))

    assert (record.state, record.about) == ("17 PROBLEMS", (CASE, "Qwen/Qwen3-VL-4B", "edge10-1.1.7", "4 dies"))
    assert [each.id for each in record.statements] == [
        "edge10.devices_mixed", "edge10.host_toolkit_missing", "edge10.compile-threads",
    ]  # fmt: skip
    assert record.fix is not None
    assert record.fix.change.startswith("Set COMPILE_THREAD to 1")
    assert [each.text for each in record.steps] == [
        "By part: log 1, host 1, scripts 11, checkpoint 1, compiled model 2, accuracy 1."
    ]


def test_each_step_of_a_job_has_its_problem_and_fix() -> None:
    """Cause, host, scripts with errors first, missing files, and the accuracy loss."""
    told = rb.edge10_evidence.read(CASE)
    steps_of = rb.render.edge10_steps

    assert "COMPILE_THREAD" in steps_of.log(told)[1].do
    (host,) = steps_of.host(told)
    assert "`edge10.host_toolkit_missing`" in host.fact
    assert "apt install nvidia-container-toolkit" in host.do
    scripts = steps_of.scripts(told)
    assert scripts[0].fact.startswith("compile.py:11:1: On the GPU")
    assert scripts[-1].fact == "3 more problems below."
    assert [each.fact.partition(" ")[0] for each in steps_of.artefacts(told)] == [
        "Qwen3-VL-4B-Instruct-AWQ/preprocessor_config.json", "4die/visual",
        "4die/batch_1/seqlen_96/llm_prefill_die3.so",
    ]  # fmt: skip
    assert "Do not compile" in steps_of.accuracy(told).do
    made_files = rb.edge10_evidence.made(told)
    assert steps_of.files(made_files, apply=False).do == "Set `apply` to write them."
    assert steps_of.files("no description", apply=False).so == "no description"


def test_a_part_without_problems_says_so(tmp_path: Path) -> None:
    """Generated scripts pass; an unread host is neither good nor bad; a chain has its last link."""
    told = made(tmp_path / "job")
    steps_of = rb.render.edge10_steps

    assert [each.fact for each in steps_of.scripts(told)] == ["No problems found in the scripts."]
    assert steps_of.accuracy(told) is None
    assert steps_of.log(told) == []
    assert steps_of.chain(None) is None
    assert (
        steps_of.chain(OpenChain("m", (), no_accuracy_reason="EvalScope ended")).fact == "No verdict: EvalScope ended."
    )


def test_a_description_is_a_problem_with_its_line(tmp_path: Path) -> None:
    """Secrets in it are replaced, and an unknown part is not called wrong."""
    (tmp_path / "job.yaml").write_text("model: Qwen/Qwen3-1.7B\ndies: 4\nremap: [0, 1, 2, 2]\n")
    record = rb.render.edge10_steps.summarize(rb.edge10_evidence.read("", job=str(tmp_path / "job.yaml")))

    assert (record.state, record.statements[0].place) == ("1 PROBLEM", "job.yaml:3")
    assert record.statements[0].action
