"""Read a runbook, check its parameters, and display its verdict.

Runbooks are read with the standard library alone, without a kernel. The last cell calls `conclude`, and
`read_verdict` reads its output: papermill's metadata report cells as completed whose kernel was killed.
"""

from __future__ import annotations

import ast
import html
import io
import json
import math
import re
import tokenize
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from vllm_runbooks.core.display import SCHEMA
from vllm_runbooks.core.errors import InputError, VerdictFailed, suggestion
from vllm_runbooks.core.record_forms import document, record
from vllm_runbooks.core.records import Parameter, Runbook, RunbookVerdict, Verdict
from vllm_runbooks.core.views.elements import badge, tag
from vllm_runbooks.core.views.styled import GROUNDS, VERDICTS
from vllm_runbooks.runbooks.verdict_fields import verdict_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

VERDICT_MIME = "application/vnd.vllm-runbooks.judgement+json"

_TYPES: dict[str, type[Value]] = {"str": str, "int": int, "float": float, "bool": bool}
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_EXAMPLES: dict[type, str] = {
    str: "text; quote it so that it stays text",
    int: "a whole number, such as 8",
    float: "a finite number, such as 0.9",
    bool: "true or false",
}
_GIVEN_BY_A_RUNBOOK = (Verdict.PASS, Verdict.FAIL, Verdict.SKIPPED)
# Far above any stripped notebook; json.loads needs several times the size of its text.
_MAX_BYTES = 20 * 1024 * 1024

Value = str | int | float | bool
T = TypeVar("T", bound=Value)

_WITH_LIVE = "with live:"
"""Begins the help of a parameter that needs `live`."""
_MOST_FACTS = 200
_TOO_LARGE = 10**18
_WHOLE = r"[+-]?[0-9]{1,18}"
_DECIMAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?"


def load_runbook(path: str | Path) -> Runbook:
    """Read a runbook's declarations; raise InputError if it is malformed."""
    path = Path(path)
    notebook = _read_notebook(path)
    meta = _runbook_metadata(notebook, path)
    title, summary = _title_and_summary(notebook, path)
    return Runbook(
        id=path.stem,
        title=title,
        summary=summary,
        path=str(path),
        parameters=declared_parameters(notebook, path),
        symptoms=tuple(meta["symptoms"]),
        side_effects=meta["side_effects"],
        needs_gpu=meta["needs_gpu"],
        steps=tuple(name for cell in notebook["cells"] if _is_tagged_code(cell, "step") for name in _step_names(cell)),
    )


def bind(runbook: Runbook, values: Mapping[str, object]) -> dict[str, Value]:
    """Check values against the declared parameters, as executors paste names into code; return them typed."""
    declared = {parameter.name: parameter for parameter in runbook.parameters}
    bound: dict[str, Value] = {}
    for name, value in values.items():
        if name not in declared:
            choices = f"parameters: {', '.join(declared)}" if declared else "it has no parameters"
            raise InputError(f"{runbook.id}: no parameter named {_shown(name)}; {suggestion(name, declared, choices)}")
        try:
            bound[name] = typed(value, _TYPES[declared[name].type])
        except InputError as error:
            raise InputError(f"{runbook.id}: parameter {name}: {error}") from None
    if "live" in declared and bound.get("live", declared["live"].default) is not True:
        # A parameter with its default value is ignored: a form submits all of them.
        idle = [
            name
            for name, value in bound.items()
            if declared[name].help.startswith(_WITH_LIVE) and value != declared[name].default
        ]
        if idle:
            named = f"{' and '.join(idle)} {'is' if len(idle) == 1 else 'are'}"
            raise InputError(
                f"{runbook.id}: {named} set without live, so nothing would be launched or read on this host; "
                "add -p live true"
            )
    return bound


def typed(value: object, kind: type[T]) -> T:
    """Convert the value if that is unambiguous: text stays text ("1.10" is never 1.1), numbers are not rounded."""
    if isinstance(value, int) and abs(value) >= _TOO_LARGE:
        raise InputError("vLLM accepts no number of more than 18 digits; use a smaller one")
    result: object = None
    if kind is bool:
        # A bool is an int: True reads as "true", 1 as "1".
        result = _WORDS.get(str(value).lower()) if isinstance(value, (str, int)) else None
    elif isinstance(value, bool):
        pass
    elif kind is str:
        # A scheduler turns numeric text into a number; a whole one can be turned back, 1.1 may have been "1.10".
        result = str(value) if isinstance(value, (str, int)) else None
    elif kind is int:
        result = value if isinstance(value, int) else int(str(value)) if _matches(value, _WHOLE) else None
    elif isinstance(value, (int, float)) or _matches(value, _DECIMAL):
        number = float(str(value))
        result = number if math.isfinite(number) else None
    # A command line may contain lone surrogates, which cannot be stored.
    if result is None or (isinstance(result, str) and any("\ud800" <= letter <= "\udfff" for letter in result)):
        raise InputError(f"{_shown(value)} is not {kind.__name__}; use {_EXAMPLES[kind]}")
    return cast("T", result)


def conclude(verdict: RunbookVerdict, *, stop_on_fail: bool) -> None:
    """Display the verdict as the last cell's output; raise for a failing one if `stop_on_fail`."""
    if verdict.verdict not in _GIVEN_BY_A_RUNBOOK:
        raise InputError(f"conclude: invalid verdict {verdict.verdict}; use pass, fail or skipped")
    from IPython.display import display

    try:
        is_stopping = typed(stop_on_fail, bool)
    except InputError as error:
        raise InputError(f"stop_on_fail: {error}") from None
    reason = " ".join(verdict.reason.split()) or "no reason given"
    data = {"schema": SCHEMA, **document(verdict), "reason": reason}
    fields = verdict_fields(data)
    diagnosis = "  ".join(filter(None, (fields.diagnosis or "none", fields.certainty)))
    check = ": ".join(filter(None, (fields.check, fields.detail)))
    plain = f"Diagnosis: {diagnosis}\nCheck: {check}"
    display({VERDICT_MIME: data, "text/html": _card(verdict, reason), "text/plain": plain}, raw=True)
    if verdict.verdict is Verdict.FAIL and is_stopping:
        raise VerdictFailed(f"{verdict.case or 'verdict'}: {reason}; set stop_on_fail = False to continue")


def read_verdict(notebook: Mapping[str, Any]) -> RunbookVerdict | None:
    """The verdict that the last code cell displayed; None if there is none, or more than one."""
    try:
        cells = [
            cell
            for cell in notebook["cells"]
            if cell["cell_type"] == "code" and not _is_tagged_code(cell, "injected-parameters")
        ]
        verdicts = [
            output["data"][VERDICT_MIME]
            for output in (cells[-1]["outputs"] if cells else [])
            if output["output_type"] == "display_data" and VERDICT_MIME in output["data"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return parse_verdict(verdicts[0]) if len(verdicts) == 1 else None


def cells_to_step(notebook: Mapping[str, Any], step: str) -> list[Any]:
    """The cells of a notebook up to the one with this step.

    Raises:
        InputError: no cell has the step.
    """
    for number, cell in enumerate(notebook["cells"], 1):
        if _is_tagged_code(cell, "step") and step in _step_names(cell):
            return list(notebook["cells"][:number])
    raise InputError(f"step {step}: no cell of the runbook runs it")


def _step_names(cell: Mapping[str, Any]) -> list[str]:
    """Names under which the calls of a cell store their results; that of the cell without names."""
    source = cell.get("source", "")
    try:
        tree = ast.parse(source if isinstance(source, str) else "".join(source))
    except (SyntaxError, ValueError):
        return [_name(cell)]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    names = [
        next((str(ast.literal_eval(word.value)) for word in call.keywords if _is_step(word)), call.func.attr)
        for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset))
        if isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value) == "rb.live"
        and (call.func.attr in _STEP_CALLS or any(map(_is_step, call.keywords)))
    ]
    return names or [_name(cell)]


_STEP_CALLS = ("start", "apply")
"""Calls of `rb.live` that are a step of their name, unless they give another."""


def _is_step(word: ast.keyword) -> bool:
    return word.arg == "step" and isinstance(word.value, ast.Constant)


def _is_tagged_code(cell: Mapping[str, Any], tag: str) -> bool:
    return cell.get("cell_type") == "code" and tag in cell.get("metadata", {}).get("tags", [])


def parse_verdict(data: Any) -> RunbookVerdict | None:
    """The verdict in a worker's or a notebook's data; None if it is anything else."""
    try:
        verdict = record(RunbookVerdict, {key: value for key, value in data.items() if key != "schema"})
        cause, facts = verdict.root_cause, verdict.facts
        texts = [verdict.reason, verdict.case or "", *((cause.symptom, cause.class_) if cause else ())]
        for finding in verdict.findings:
            texts += [finding.symptom, finding.class_, finding.title, finding.severity, finding.level]
        is_valid = (
            (type(data["schema"]), data["schema"]) == (int, SCHEMA)
            and verdict.verdict in _GIVEN_BY_A_RUNBOOK
            and all(isinstance(text, str) for text in texts)
            and isinstance(facts, dict)
            and len(facts) <= _MOST_FACTS
            and all(isinstance(value, (str, int, float, NoneType)) for value in facts.values())
            and all(math.isfinite(value) for value in facts.values() if isinstance(value, float))
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return replace(verdict, reason=" ".join(verdict.reason.split())) if is_valid else None


def _card(verdict: RunbookVerdict, reason: str) -> str:
    fields = verdict_fields({**document(verdict), "reason": reason})
    colour = GROUNDS[VERDICTS[verdict.verdict]]
    diagnosis = tag("b", html.escape(fields.diagnosis or "none"))
    if fields.symptom:
        dots = tag("span", html.escape(fields.certainty), "opacity:.75")
        diagnosis += f" {dots} {tag('code', html.escape(fields.symptom))}"
    others = [finding.title for finding in verdict.findings if finding.symptom != fields.symptom]
    rows = [
        ("Diagnosis", diagnosis),
        ("Check", f"{badge(fields.check, colour)} {html.escape(fields.detail)}".rstrip()),
        ("Case", html.escape(verdict.case or "")),
        ("Other findings", html.escape("; ".join(others))),
    ]
    label = "text-align:left;vertical-align:top;padding:3px 16px 3px 0;font-weight:400;opacity:.75;white-space:nowrap"
    body = "".join(
        f'<tr><th style="{label}">{name}</th><td style="text-align:left;padding:3px 0">{value}</td></tr>'
        for name, value in rows
        if value
    )
    table = tag("table", tag("tbody", body), "border-collapse:collapse;font-size:15px;line-height:1.45")
    style = f"border:1px solid #8886;border-left:4px solid {colour};border-radius:6px;padding:8px 16px;margin:4px 0"
    return tag("div", table, f"{style};max-width:60em")


def _read_notebook(path: Path) -> dict[str, Any]:
    """Read a version 4 notebook and check the shape of its cells."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; use the path of an .ipynb file")
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise InputError(f"{path}: is larger than 20 MiB; strip the notebook's outputs")
        notebook = json.loads(raw.decode("utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; `vllm-runbooks list` lists all runbooks") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text; use the path of an .ipynb file") from None
    except (ValueError, RecursionError) as error:
        place = f"line {error.lineno}, " if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{path}: {place}is not JSON, or is truncated; restore the file") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list) or notebook.get("nbformat") != 4:
        raise InputError(f"{path}: is not a notebook of format 4; save it again with JupyterLab")
    for index, cell in enumerate(notebook["cells"], start=1):
        if not isinstance(cell, dict) or not isinstance(cell.get("metadata", {}), dict) or not _is_source(cell):
            raise InputError(f"{path}: cell {index} is malformed; save the notebook again with JupyterLab")
    return notebook


def _is_source(cell: Mapping[str, Any]) -> bool:
    source = cell.get("source")
    return isinstance(source, str) or (isinstance(source, list) and all(isinstance(line, str) for line in source))


def _runbook_metadata(notebook: Mapping[str, Any], path: Path) -> dict[str, Any]:
    metadata = notebook.get("metadata")
    meta = metadata.get("runbook") if isinstance(metadata, dict) else None
    if not isinstance(meta, dict):
        raise InputError(f"{path}: metadata has no `runbook`; add id, symptoms, side_effects and needs_gpu")
    if meta.get("id") != path.stem:
        raise InputError(
            f"{path}: metadata runbook.id is {_shown(meta.get('id'))}; make it {path.stem}, the file's name"
        )
    symptoms = meta.get("symptoms")
    if not isinstance(symptoms, list) or not all(isinstance(symptom, str) for symptom in symptoms):
        raise InputError(f"{path}: metadata runbook.symptoms is not a list of symptom ids; write it as one")
    for flag in ("side_effects", "needs_gpu"):
        if not isinstance(meta.get(flag), bool):
            raise InputError(f"{path}: metadata runbook.{flag} is {_shown(meta.get(flag))}; make it true or false")
    if unknown := sorted(set(meta) - {"id", "symptoms", "side_effects", "needs_gpu"}):
        raise InputError(f"{path}: metadata runbook.{unknown[0]} is unknown; remove it")
    return meta


def _title_and_summary(notebook: Mapping[str, Any], path: Path) -> tuple[str, str]:
    cell = next((cell for cell in notebook["cells"] if cell.get("cell_type") == "markdown"), None)
    if cell is None:
        raise InputError(f"{path}: has no markdown cell; start it with `# title` and a paragraph")
    heading = re.search(r"^# +(\S.*)$", _source(cell), re.MULTILINE)
    if heading is None:
        raise InputError(f"{path}: cell {_name(cell)} has no `# title`; start it with one")
    paragraph = " ".join(_source(cell)[heading.end() :].strip().split("\n\n")[0].split())
    if not paragraph or paragraph.startswith("#"):
        raise InputError(f"{path}: cell {_name(cell)} has no paragraph below its title; add its purpose")
    # A sentence ends where a new one begins: "0.9" and "e.g. this" do not end one, nor does anything inside `code`.
    sentence = re.match(r"(?:`[^`]*`|[^`])*?[.!?](?=\s+[A-Z*_\[(]|\s+`|$)", paragraph)
    return heading[1].strip(), sentence[0] if sentence else paragraph


def declared_parameters(notebook: Mapping[str, Any], path: Path) -> tuple[Parameter, ...]:
    """Read the parameters cell: only lines of `name: type = literal  # help`."""
    tagged = [cell for cell in notebook["cells"] if _is_tagged_code(cell, "parameters")]
    if len(tagged) != 1:
        raise InputError(f"{path}: {len(tagged)} code cells are tagged `parameters`; tag exactly one")
    source = _source(tagged[0])
    where = f"{path}: cell {_name(tagged[0])}"
    try:
        tree = ast.parse(source)
        comments = {
            token.start[0]: token.string.lstrip("#").strip()
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError) as error:
        line = getattr(error, "lineno", None)
        place = f" line {line}" if line else ""
        raise InputError(f"{where}{place}: is not Python; write `name: type = value  # help`") from None
    parameters: dict[str, Parameter] = {}
    for node in tree.body:
        line_place = f"{where} line {node.lineno}"
        if not (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(node.annotation, ast.Name)
            and node.annotation.id in _TYPES
            and node.value is not None
            and node.lineno == node.end_lineno
        ):
            raise InputError(
                f"{line_place}: is not a parameter; write `name: type = value  # help`, type str/int/float/bool"
            )
        name, kind = node.target.id, node.annotation.id
        if name in parameters:
            raise InputError(f"{line_place}: parameter {name} is declared twice; remove one")
        try:
            value = ast.literal_eval(node.value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            raise InputError(f"{line_place}: default of {name} is not a literal; write its value") from None
        if type(value) is not _TYPES[kind] and not (kind == "float" and type(value) is int):
            raise InputError(f"{line_place}: default of {name} is not {kind}; use {_EXAMPLES[_TYPES[kind]]}")
        try:
            default = typed(value, _TYPES[kind])
        except InputError as error:
            raise InputError(f"{line_place}: default of {name}: {error}") from None
        parameters[name] = Parameter(name=name, type=kind, default=default, help=comments.get(node.lineno, ""))
    return tuple(parameters.values())


def _source(cell: Mapping[str, Any]) -> str:
    return "".join(cell["source"])


def _name(cell: Mapping[str, Any]) -> str:
    return str(cell.get("id", "without id"))


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _matches(value: object, pattern: str) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None
