"""`vllm-runbooks case add`."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.catalog import console as catalog_options
from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.core.errors import InputError, suggestion
from vllm_runbooks.core.evidence import Expectation
from vllm_runbooks.core.records import Outcome


@click.group()
def case() -> None:
    """Add a recorded case: a log and the answer that you expect."""


@case.command(epilog=given.examples("case add startup.log --expect oom.kv_alloc --id my-start"))
@click.argument("logs", nargs=-1, type=complete.LOG, required=True, metavar="LOG…")
@given.value("--expect class_ CLASS", "Class of the root cause, or ok.", complete.CLASS, required=True)
@given.choice("--outcome", "Expected outcome of the launch.", [str(outcome) for outcome in Outcome])
@given.value("--symptom ID", "The symptom, if the class has several.")
@given.value("--vllm VERSION", "Release that wrote the log, if the log does not print it.", complete.RELEASE)
@given.value("--id id_ ID", "Id of the case; it is written to cases/ID.")
@given.value("--out DIR", "Folder of the case; its name is the id.", given.NEW_FOLDER)
@catalog_options.CATALOG
@terminal.waiting("diagnosing the log")
def add(
    *,
    logs: tuple[str, ...],
    class_: str,
    outcome: str | None,
    symptom: str | None,
    vllm: str | None,
    id_: str | None,
    out: Path | None,
) -> int:
    """Write a case from LOG with the answer that you expect.

    The case expects your answer even if the diagnosis disagrees. Secrets in the log are replaced. Several LOGs are logs
    of one launch.

    Exit status: 0 if the case is written, 2 if it is not.
    """
    from vllm_runbooks.reading import sources
    from vllm_runbooks.runbooks import recording
    from vllm_runbooks.runbooks.commands.record import said_secrets, said_test, said_written

    if id_ is not None and out is not None:
        raise click.UsageError("use either --id or --out: the folder's name is the id.")
    if id_ is not None and (not id_ or Path(id_).name != id_):
        raise InputError(f"--id {id_ or '(nothing)'}: is not an id; use a name, or set the case's folder with --out")
    _check_expected(class_, symptom)
    evidence = sources.load_files(logs, vllm=vllm)
    folder = out or Path("cases") / (id_ or _id(evidence.documents[0].name, class_))
    expect = Expectation(outcome=Outcome(outcome) if outcome else None, class_=class_, symptom=symptom)
    written = recording.add_case(folder, evidence, expect)
    status = "passes" if written.verdict.verdict == "pass" else "fails, as expected"
    lines = [
        said_written(written),
        f"  Secrets    {said_secrets(written)}",
        f"  Check      {status}: {written.verdict.reason}",
        said_test(written),
    ]
    output.write("\n".join(lines))
    return 0


def _check_expected(class_: str, symptom: str | None) -> None:
    from vllm_runbooks.catalog import load as catalog
    from vllm_runbooks.catalog.authored import tables

    classes = tables.words("classes")
    if class_ != "ok" and class_ not in classes:
        finer = ".".join(class_.split(".")[:2])
        if finer in classes:
            raise InputError(f"--expect {class_}: is not a class; use --expect {finer} --symptom {class_}")
        raise InputError(f"--expect {class_}: is not a class; {_nearest(class_, [*classes, 'ok'])}")
    if symptom is None:
        return
    symptoms = catalog.load_catalog().symptoms
    if symptom not in symptoms:
        raise InputError(f"--symptom {symptom}: the catalog has no such symptom; {_nearest(symptom, symptoms)}")
    if symptoms[symptom].class_ != class_:
        raise InputError(
            f"--symptom {symptom}: has class {symptoms[symptom].class_}, not {class_}; correct one of them"
        )


def _nearest(word: str, words: Collection[str]) -> str:
    last = word.rpartition(".")[2]
    if same := next((candidate for candidate in words if candidate.rpartition(".")[2] == last), None):
        otherwise = f"did you mean {same}?"
    elif same_group := [candidate for candidate in words if candidate.partition(".")[0] == word.partition(".")[0]]:
        otherwise = f"{word.partition('.')[0]} has {', '.join(same_group)}"
    else:
        groups = sorted({candidate.partition(".")[0] for candidate in words if "." in candidate})
        otherwise = f"`vllm-runbooks catalog list` lists the symptoms; groups: {', '.join(groups)}"
    return suggestion(word, words, otherwise)


def _id(name: str, class_: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9]+", "-", Path(name).stem).strip("-")[:40] or "log"
    return f"{stem}-{class_.replace('.', '-')}".lower()
