"""Policies: optional steps requested by name, except for causes that they cannot fix."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from vllm_runbooks import cli
from vllm_runbooks.authoring import checks as authoring
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.authored import compiling, policy_files
from vllm_runbooks.core.display import to_json
from vllm_runbooks.core.errors import CatalogError, InputError
from vllm_runbooks.core.records import Answer
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.render import answers
from vllm_runbooks.reading import sources

LADDER = "lower-utilization"
SOURCE = folders.catalog_dir() / "policies" / f"{LADDER}.yaml"
ARGUMENTS = "INFO 11-20 08:00:00 [utils.py:233] non-default args: {'model': 'm', 'gpu_memory_utilization': %s}\n"
FREE = (
    "ValueError: Free memory on device cuda:0 (%s/79.19 GiB) on startup is less than desired GPU memory utilization "
    "(0.9, 71.27 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
)
CAPTURE = """\
Traceback (most recent call last):
  File "/opt/vllm/v1/worker/gpu_model_runner.py", line 3000, in capture_model
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.56 GiB of \
which 1.10 MiB is free.
"""
NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.\n"
WEIGHTS = (
    "ValueError: Externally held weights on device cuda:0 (14.9/23.56 GiB) exceed the desired GPU memory utilization "
    "(0.5, 11.78 GiB). Increase GPU memory utilization or reduce GPU memory used by other processes.\n"
)
PORT = "OSError: [Errno 98] Address already in use\n"


def diagnose(text: str, *, share: str = "0.9", policy: str = LADDER) -> Answer:
    return diagnosing.diagnose(sources.paste(ARGUMENTS % share + text, vllm="0.11.0"), policy=policy)


def steps(found: Answer) -> list[Any]:
    return [remedy for remedy in found.remedies if remedy.title.startswith("Policy ")]


def shares(found: Answer) -> list[tuple[str, bool]]:
    """Share and eager mode of the command of each step that is offered."""
    commands = [shlex.split(step.command.replace("\\\n", " ")) for step in steps(found)]
    return [(words[words.index("--gpu-memory-utilization") + 1], "--enforce-eager" in words) for words in commands]


def test_the_ladder_is_not_offered_for_the_race() -> None:
    """The recorded case of the document that recommends it: the reason replaces the steps."""
    evidence = sources.load("qwen-a100-shared-gpu-race")
    plain, asked = diagnosing.diagnose(evidence), diagnosing.diagnose(evidence, policy=LADDER)
    (note,) = asked.notes

    assert asked.remedies == plain.remedies
    assert note.startswith(f"The policy {LADDER} is not applied to mem.profiling_assertion. The assertion compares")
    assert "does not depend on the budget" in note
    assert "launch again unchanged" in note
    for shown in (answers.text(asked), answers.remedies(asked).plain, answers.remedies(asked).html):
        assert "is not applied to mem.profiling_assertion." in " ".join(shown.split())
    assert json.loads(to_json(asked))["notes"] == [note]


@pytest.mark.parametrize("text", [FREE % "60.0", CAPTURE], ids=["free memory", "CUDA graphs"])
def test_the_steps_are_linted_commands(text: str) -> None:
    """If other processes or later allocations need memory: in order, after the remedies."""
    plain, asked = diagnose(text, policy=""), diagnose(text)

    assert plain.remedies
    assert asked.remedies[: len(plain.remedies)] == plain.remedies
    assert steps(asked) == list(asked.remedies[len(plain.remedies) :])
    assert shares(asked) == [("0.75", False), ("0.675", True)]
    assert [step.checks.lint for step in steps(asked)] == ["passed", "passed"]
    assert [step.title.partition(":")[0] for step in steps(asked)] == [
        f"Policy {LADDER}, step 1 of 2",
        f"Policy {LADDER}, step 2 of 2",
    ]
    assert asked.notes == ()


@pytest.mark.parametrize(
    ("text", "share", "offered", "said"),
    [
        (FREE % "50.0", "0.9", [("0.675", True)], "step 1 of 2, skipped: less than 0.75 of the requested memory"),
        (FREE % "41.2", "0.9", [], "step 2 of 2, skipped: less than 0.675 of the requested memory was free."),
        (CAPTURE, "0.7", [("0.675", True)], "step 1 of 2, skipped: it would change nothing."),
        (CAPTURE, "0.5", [("0.5", True)], "step 1 of 2, skipped: it would change nothing."),
    ],
)
def test_no_step_contradicts_the_figures_of_the_log(
    text: str, share: str, offered: list[tuple[str, bool]], said: str
) -> None:
    """Nor raises a value that it should lower; a note has the reason for each omission."""
    found = diagnose(text, share=share)

    assert shares(found) == offered
    assert said in " ".join(found.notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NO_BLOCKS, "is not applied to kv.no_blocks. Weights and profiling run already use the whole budget"),
        (WEIGHTS, "is not applied to mem.free_below_utilization.external_weights. The share is already smaller"),
        ("INFO:     Application startup complete.\n", "is not applied: the cause is unknown."),
    ],
)
def test_a_policy_that_cannot_help_has_a_reason(text: str, said: str) -> None:
    """The finer symptom decides before its class."""
    found = diagnose(text)

    assert steps(found) == []
    assert said in " ".join(found.notes)


def test_uncertain_help_is_noted() -> None:
    """The steps were requested, so they are shown."""
    found = diagnose(PORT)

    assert len(steps(found)) == 2
    assert found.notes == (f"The policy {LADDER} may not help against port.in_use.",)


@pytest.mark.slow
@pytest.mark.parametrize("case", [path.parent.name for path in sorted(SOURCE.parents[1].glob("cases/*/startup.log"))])
def test_a_policy_is_only_offered_on_request(case: str) -> None:
    """No recorded case has one in its answer or notes, except about missing logs."""
    found = diagnosing.diagnose(sources.load(case))

    assert found.notes == () or found.nodes is not None
    assert LADDER not in answers.text(found)


def test_a_policy_is_requested_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An unknown name is a one-line error with the known ones; help and list show them."""
    log = tmp_path / "startup.log"
    log.write_text(ARGUMENTS % "0.9" + FREE % "60.0")
    status = cli.run(["diagnose", str(log), "--vllm", "0.11.0", "--policy", LADDER, "--explain"])
    out = capsys.readouterr().out

    assert (status, out.count(f"Policy {LADDER}, step ")) == (1, 2)
    for asked in ("ladder", ""):
        assert cli.run(["diagnose", str(tmp_path / "none.log"), "--policy", asked]) == 2
        read = capsys.readouterr()
        assert (read.out, read.err) == ("", f"vllm-runbooks: {asked}: unknown policy; known: {LADDER}\n")
    assert cli.run(["diagnose", "--help"]) == 0
    assert LADDER in "".join(capsys.readouterr().out.split())
    assert cli.run(["catalog", "list", "--policies"]) == 0
    assert LADDER in "".join(capsys.readouterr().out.split())
    assert cli.run(["catalog", "list", "--policies", "--format", "json"]) == 0
    assert [row["id"] for row in json.loads(capsys.readouterr().out)["policies"]] == [LADDER]
    with pytest.raises(InputError, match="ladder: unknown policy"):
        diagnose(PORT, policy="ladder")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("id: lower-utilization", "id: lower", "id: is 'lower'; the file's name says 'lower-utilization'"),
        ("helps: [mem", "helps: [lunch.cold, mem", "helps.0: 'lunch.cold' is neither a symptom nor a class"),
        ("  kv.no_blocks:", "  lunch.cold:", "refused_for.lunch.cold: 'lunch.cold' is neither a symptom nor a class"),
        ("helps: [mem", "helps: [kv.no_blocks, mem", "refused_for.kv.no_blocks: is also in `helps`"),
        ("{lower_to: 0.75}", "null", "steps.0.edits.0: sets no value; add one"),
        (
            "capture: set_gib",
            "capture: lunch_gib",
            "steps.0.unless.2.capture: 'lunch_gib' is not a capture of any symptom",
        ),
        ("title: Use", "title: TODO", "steps.0.title: still says TODO"),
        ("title: Lower", "titel: Lower", "title: is missing"),
    ],
)
def test_a_broken_policy_is_named_by_line_and_field(tmp_path: Path, old: str, new: str, said: str) -> None:
    """And left out of the index, which keeps the others."""
    path = tmp_path / "policies" / SOURCE.name
    path.parent.mkdir()
    path.write_text(SOURCE.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    index, problems = compiling.compile_index(tmp_path)

    assert said in "\n".join(problems)
    assert index["policies"] == []
    with pytest.raises(CatalogError):
        authoring.check_file(path)


def test_a_policy_without_changes_is_rejected(tmp_path: Path) -> None:
    """It needs at least one step that changes something."""
    path = tmp_path / "policies" / "a.yaml"
    path.parent.mkdir()
    for steps, said in (("[]", "steps: is empty"), ("[{title: a, cost: b}]", "steps.0: has no edits")):
        path.write_text(f"{{id: a, title: a, why: a, steps: {steps}, helps: [], refused_for: {{}}}}")

        with pytest.raises(CatalogError, match=said):
            policy_files.read_policy(path)


def test_your_own_policy_is_added(tmp_path: Path) -> None:
    """From the folder next to your symptoms/; the catalog check counts it."""
    for name in ("symptoms", "policies"):
        (tmp_path / name).mkdir()
    text = SOURCE.read_text(encoding="utf-8").replace(f"id: {LADDER}", "id: mine")
    (tmp_path / "policies" / "mine.yaml").write_text(text, encoding="utf-8")
    loaded = catalog.load_catalog((str(tmp_path),))

    assert sorted(loaded.policies) == [LADDER, "mine"]
    assert authoring.check_folder(tmp_path) == (1, [])
