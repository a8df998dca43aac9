"""A runbook is valid or rejected in one line, values keep their types, verdicts are exact."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rows import in_one_test
from vllm_runbooks.core.errors import InputError, VerdictFailed
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import (
    CauseRef,
    FindingRef,
    Level,
    Outcome,
    Parameter,
    Runbook,
    RunbookVerdict,
    Severity,
    Verdict,
)
from vllm_runbooks.runbooks.notebook import (
    VERDICT_MIME,
    bind,
    conclude,
    load_runbook,
    parse_verdict,
    read_verdict,
    typed,
)

if TYPE_CHECKING:
    from pathlib import Path

PARAMETERS = """\
# What to look at.
evidence: str = "a-case"  # recorded case id, or a folder
gpus: int = 1  # how many
share: float = 0.9  # of each
offset: float = -1  # may be negative
live: bool = False  # ask this host
"""
JUDGEMENT = RunbookVerdict(
    verdict=Verdict.FAIL,
    reason="KV cache too small",
    case="a-case",
    outcome=Outcome.FAILED,
    root_cause=CauseRef("memory.kv_cache", "memory.kv_cache"),
    findings=(FindingRef("memory.kv_cache", "memory.kv_cache", "KV cache too small", Severity.FATAL, Level.CONFIRMED),),
)
DATA = {"schema": 2, **document(JUDGEMENT)}


def cell(source: str, *, kind: str = "code", id_: str = "a-cell", tags: tuple[str, ...] = ()) -> dict[str, Any]:
    made = {"cell_type": kind, "id": id_, "metadata": {"tags": list(tags)}, "source": source}
    return made | ({"outputs": [], "execution_count": None} if kind == "code" else {})


def notebook(*, parameters: str = PARAMETERS, title: str = "# A title\n\nFirst one. Then more.", **meta: object) -> Any:
    runbook = {"id": "a-runbook", "symptoms": ["memory.kv_cache"], "side_effects": False, "needs_gpu": False} | meta
    cells = [cell(title, kind="markdown", id_="title"), cell(parameters, id_="parameters", tags=("parameters",))]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"runbook": runbook}, "cells": cells}


def written(folder: Path, content: object, *, name: str = "a-runbook.ipynb") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def executed(*cells: dict[str, Any]) -> dict[str, Any]:
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells)}


def shown(*data: object) -> dict[str, Any]:
    """A code cell that displayed these verdicts."""
    outputs = [
        {"output_type": "display_data", "metadata": {}, "data": {VERDICT_MIME: item, "text/plain": ""}} for item in data
    ]
    return cell("conclude()") | {"outputs": outputs}


RUNBOOK = Runbook(
    id="a-runbook",
    title="A title",
    summary="First one.",
    path="",
    parameters=(
        Parameter("evidence", "str", "a-case", "recorded case id, or a folder"),
        Parameter("gpus", "int", 1, "how many"),
        Parameter("share", "float", 0.9, "of each"),
        Parameter("offset", "float", -1.0, "may be negative"),
        Parameter("live", "bool", default=False, help="ask this host"),
    ),
    symptoms=("memory.kv_cache",),
    side_effects=False,
    needs_gpu=False,
)


def test_a_runbook_is_read_from_its_file(tmp_path: Path) -> None:
    """Title, summary, metadata and typed parameters with their help."""
    path = written(tmp_path, notebook())

    expected = Runbook(**{**vars(RUNBOOK), "path": str(path)})

    assert expected == load_runbook(path)


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("# T\n\nUses 0.9 of it, e.g. for one GPU. Then stops.", "Uses 0.9 of it, e.g. for one GPU."),
        ("# T\nNo end", "No end"),
        ("# T\n\nWraps over\ntwo lines. `Code` begins the next.", "Wraps over two lines."),
        ("# T\n\nIt says `A failed. See B.` and ends. Next.", "It says `A failed. See B.` and ends."),
    ],
)
def test_the_summary_is_the_first_sentence(tmp_path: Path, title: str, expected: str) -> None:
    """A point inside a number, an abbreviation or `code` ends no sentence."""
    assert expected == load_runbook(written(tmp_path, notebook(title=title))).summary


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "not JSON"),
        (json.dumps(notebook())[:-40], "truncated"),
        pytest.param("[" * 100_000, "not JSON", id="deep"),
        ("[]", "not a notebook"),
        ({"nbformat": 3, "cells": []}, "format 4"),
        ({"nbformat": 4, "cells": [1]}, "cell 1 is malformed"),
        ({"nbformat": 4, "cells": [{"cell_type": "code", "source": 1}]}, "cell 1 is malformed"),
        ({"nbformat": 4, "cells": []}, "has no `runbook`"),
        (notebook(id="another"), "runbook.id is 'another'; make it a-runbook"),
        (notebook(symptoms="memory"), "runbook.symptoms"),
        (notebook(side_effects="no"), "runbook.side_effects"),
        (notebook(colour="red"), "runbook.colour"),
        (notebook(title="No heading"), "cell title has no `# title`"),
        (notebook(title="# Only a heading"), "no paragraph below"),
        (notebook(parameters="x = 1"), "cell parameters line 1: is not a parameter"),
        (notebook(parameters="x: int = 2 ** 8"), "default of x is not a literal"),
        (notebook(parameters="x: int = 'a'"), "default of x is not int"),
        (notebook(parameters="x: int = True"), "default of x is not int"),
        (notebook(parameters="x: list = []"), "is not a parameter"),
        (notebook(parameters="x: int | None = 1"), "is not a parameter"),
        (notebook(parameters="x: int"), "is not a parameter"),
        (notebook(parameters="x: float = 1e999"), "default of x"),
        (notebook(parameters="import os"), "is not a parameter"),
        (notebook(parameters="%matplotlib inline"), "is not Python"),
        (notebook(parameters="x: int = 1\nx: int = 2"), "line 2: parameter x is declared twice"),
        (notebook(parameters="x: str = 'a' \\\n 'b'"), "is not a parameter"),
    ],
)
def test_an_invalid_runbook_is_rejected_in_one_line(tmp_path: Path, content: object, says: str) -> None:
    """The line has the file name, the error and a fix."""
    path = written(tmp_path, content)

    with pytest.raises(InputError) as caught:
        load_runbook(path)

    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert says in message
    assert "; " in message
    assert "\n" not in message


def test_exactly_one_parameters_cell_is_required(tmp_path: Path) -> None:
    """With none or two, the place of parameters is ambiguous."""
    none, two = notebook(), notebook()
    none["cells"].pop()
    two["cells"].append(two["cells"][-1])

    with pytest.raises(InputError, match="0 code cells are tagged"):
        load_runbook(written(tmp_path, none))
    with pytest.raises(InputError, match="2 code cells are tagged"):
        load_runbook(written(tmp_path, two))


def test_other_files_are_rejected(tmp_path: Path) -> None:
    """A folder, a missing file and a binary are distinguished."""
    binary = tmp_path / "binary.ipynb"
    binary.write_bytes(b"\x7fELF\x00\xff\xfe")

    for path, says in [
        (tmp_path, "is a folder"),
        (tmp_path / "none.ipynb", "no such file"),
        (binary, "not UTF-8 text"),
    ]:
        with pytest.raises(InputError, match=says):
            load_runbook(path)


@in_one_test(
    ("value", "kind", "expected"),
    [
        ("1.10", str, "1.10"),
        ("007", str, "007"),
        ("", str, ""),
        (8000, str, "8000"),
        ("8", int, 8),
        ("-8", int, -8),
        (8, int, 8),
        ("0.5", float, 0.5),
        (".5", float, 0.5),
        ("1e-3", float, 0.001),
        (2, float, 2.0),
        ("Yes", bool, True),
        ("true", bool, True),
        (1, bool, True),
        ("0", bool, False),
        (False, bool, False),
    ],
)
def test_an_unambiguous_value_is_converted(value: object, kind: type, expected: object) -> None:
    """Text of a command line and numbers of a scheduler become the declared type."""
    result: object = typed(value, kind)

    assert (type(expected), expected) == (type(result), result)


@in_one_test(
    ("value", "kind"),
    [
        ("abc", int),
        ("8.0", int),
        (8.0, int),
        ("1_000", int),
        ("٣", int),
        (True, int),
        (True, float),
        (False, str),
        ("", int),
        (" 8", int),
        pytest.param("9" * 5000, int, id="long-int"),
        pytest.param(10**5000, int, id="huge-int"),
        pytest.param(10**5000, str, id="huge-str"),
        ("nan", float),
        ("inf", float),
        ("1e999", float),
        (float("nan"), float),
        pytest.param("9" * 5000, float, id="long-float"),
        (1.1, str),
        ("\udcff", str),
        (2, bool),
        ("maybe", bool),
        (None, str),
        ([1], int),
        ({}, bool),
    ],
)
def test_an_ambiguous_value_is_rejected(value: object, kind: type) -> None:
    """Nothing is rounded, cut or interpreted as true, and the message is short."""
    with pytest.raises(InputError) as caught:
        typed(value, kind)

    assert len(str(caught.value)) < 200


def test_binding_converts_given_values() -> None:
    """Only given values are bound; defaults stay in the notebook."""
    assert bind(RUNBOOK, {"gpus": "8", "share": "0.5", "live": "yes"}) == {"gpus": 8, "share": 0.5, "live": True}
    assert bind(RUNBOOK, {}) == {}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"gpu": 1}, "did you mean gpus?"),
        ({"zzz": 1}, "parameters: evidence, gpus, share, offset, live"),
        ({'gpus=1;import os;os.system("touch PWNED")#': 1}, "no parameter named"),
        ({"gpus": "two"}, "parameter gpus: 'two' is not int"),
    ],
)
def test_binding_rejects_undeclared_names(given: dict[str, object], says: str) -> None:
    """A name that is not declared would be pasted into code; the nearest one is named."""
    with pytest.raises(InputError) as caught:
        bind(RUNBOOK, given)

    assert str(caught.value).startswith("a-runbook: ")
    assert says in str(caught.value)


def test_a_failing_verdict_ends_the_notebook_on_request() -> None:
    """Executors that ignore verdicts get a one-line error; ours does not request it."""
    conclude(JUDGEMENT, stop_on_fail=False)
    with pytest.raises(VerdictFailed) as caught:
        conclude(JUDGEMENT, stop_on_fail=True)

    assert "\n" not in str(caught.value)
    assert "KV cache too small" in str(caught.value)


def test_a_runbook_cannot_declare_an_error() -> None:
    """Only the suite reports `error` and `interrupted`."""
    for verdict in (Verdict.ERROR, Verdict.INTERRUPTED):
        with pytest.raises(InputError, match="invalid verdict"):
            conclude(RunbookVerdict(verdict, "x", None, None, None, ()), stop_on_fail=False)


def test_a_verdict_is_read_back_unchanged() -> None:
    """The record survives the notebook."""
    assert read_verdict(executed(cell("1"), shown(DATA))) == JUDGEMENT


def test_only_the_last_code_cell_has_the_verdict() -> None:
    """A later cell removes it; injected parameters and prose do not count."""
    injected = cell("evidence = 'x'", tags=("injected-parameters",))

    assert read_verdict(executed(shown(DATA), cell("1"))) is None
    assert read_verdict(executed(shown(DATA), injected, cell("Done.", kind="markdown"))) == JUDGEMENT


def test_two_verdicts_are_none() -> None:
    """They are ambiguous."""
    assert read_verdict(executed(shown(DATA, {**DATA, "verdict": "pass"}))) is None


def test_printed_text_is_not_a_verdict() -> None:
    """Log text and printed text never count, in any form."""
    printed = cell("print()") | {"outputs": [{"output_type": "stream", "name": "stdout", "text": json.dumps(DATA)}]}
    result: dict[str, Any] = shown(DATA)
    result["outputs"][0]["output_type"] = "execute_result"

    assert read_verdict(executed(printed)) is None
    assert read_verdict(executed(result)) is None


@in_one_test(
    "change",
    [
        {"schema": 1},
        {"schema": True},
        {"verdict": "PASS"},
        {"verdict": "error"},
        {"verdict": None},
        {"reason": 5},
        {"reason": None},
        {"case": 5},
        {"outcome": "fine"},
        {"root_cause": {"symptom": "x"}},
        {"root_cause": "x"},
        {"findings": None},
        {"findings": "abc"},
        {"findings": [{}]},
        {"findings": [{**document(JUDGEMENT.findings[0]), "severity": None}]},
        {"extra": 1},
    ],
)
def test_a_malformed_verdict_is_none(change: dict[str, object]) -> None:
    """Only an exact record is valid."""
    assert parse_verdict({**DATA, **change}) is None


@pytest.mark.parametrize("content", [None, [], {}, {"cells": None}, {"cells": [1]}, {"cells": [{}]}, executed()])
def test_a_file_other_than_a_notebook_has_no_verdict(content: Any) -> None:
    """Reading a verdict never raises."""
    assert read_verdict(content) is None
    assert parse_verdict(content) is None


WITH_LIVE = replace(
    RUNBOOK,
    parameters=(
        *RUNBOOK.parameters,
        Parameter("serve", "str", "", "with live: the command that starts the server"),
        Parameter("apply", "bool", default=False, help="with live: start the first way out as well"),
    ),
)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"serve": "vllm serve m"}, "serve is"),
        ({"serve": "vllm serve m", "live": "false"}, "serve is"),
        ({"apply": "true", "gpus": 8, "serve": "vllm serve m"}, "apply and serve are"),
    ],
)
def test_parameters_for_live_runs_require_live(given: dict[str, object], named: str) -> None:
    """A run on recorded evidence must not look like a launch."""
    with pytest.raises(InputError) as caught:
        bind(WITH_LIVE, given)

    assert str(caught.value) == (
        f"a-runbook: {named} set without live, so nothing would be launched or read on this host; add -p live true"
    )


def test_parameters_for_live_runs_are_accepted_with_it() -> None:
    """Also with default values, and in runbooks that are always or never live."""
    always = [replace(p, default=True) if p.name == "live" else p for p in WITH_LIVE.parameters]
    never = [p for p in WITH_LIVE.parameters if p.name != "live"]

    assert bind(WITH_LIVE, {"serve": "vllm serve m", "live": "true"}) == {"serve": "vllm serve m", "live": True}
    assert bind(WITH_LIVE, {"serve": "", "apply": "false"}) == {"serve": "", "apply": False}
    for parameters in (always, never):
        assert bind(replace(WITH_LIVE, parameters=tuple(parameters)), {"apply": "yes"}) == {"apply": True}
