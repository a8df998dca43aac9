"""Several nodes, the logs of a launch over them, and plans over their GPUs, for the runbook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from vllm_runbooks.catalog.options import ReleaseData
from vllm_runbooks.core import expected
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.errors import InputError, check_texts
from vllm_runbooks.core.evidence import Case, CaseKind, Evidence
from vllm_runbooks.core.records import Answer, Finding, RunbookVerdict, Verdict
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.core.views.runbook_steps import StepText
from vllm_runbooks.core.views.summary import sentence_of
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.host.nodes import loading as node_loading
from vllm_runbooks.host.nodes.records import CheckedCluster, Cluster, NodeFacts
from vllm_runbooks.host.records import Inventory
from vllm_runbooks.plan import files as plan_files
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.confirmation import Confirmation
from vllm_runbooks.plan.records import Layouts, Plan, StartFiles
from vllm_runbooks.plan.requests import PlanningRequest
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks import plan_evidence

_ONE_HOST = "dist.one_host"
_BEGINNING = 4096
_OBJECT = re.compile(r'[\ufeff\s]{0,1000}\{\s{0,1000}"(?P<name>[a-z_]{1,40})"', re.ASCII)
_FIELDS = frozenset({"schema", *(field.name for kind in (Cluster, NodeFacts, Inventory) for field in fields(kind))})


@dataclass(frozen=True)
class NodesEvidence:
    """Nodes and the logs of a launch over them."""

    nodes: CheckedCluster | str
    """Recorded or live nodes; else the reason for their absence."""
    logs: Evidence | None
    answer: Answer | None
    recorded: Evidence | None
    case: Case | None = None


def read(
    evidence: str, *, logs: str = "", vllm: str = "", model: str = "", asked: CheckedCluster | None = None
) -> NodesEvidence:
    """Load nodes with the logs of a launch over them, recorded or live.

    Args:
        evidence: Recorded nodes (a case, a file, a folder of files), or a log; a case may bring
            its own logs or nodes.
        logs: Logs of a launch over them, separated by commas.
        vllm: Release that wrote the logs, if they do not print it.
        model: Path of the model that every node must have.
        asked: Live nodes, in place of `evidence`.
    """
    check_texts(evidence=evidence, logs=logs, vllm=vllm, model=model)
    first, *others = [part.strip() for part in logs.split(",") if part.strip()] or [""]
    if asked is not None:
        return _diagnosed(asked, _log(first, others, vllm), None)
    if node_loading.snapshots_in(evidence):
        return _diagnosed(node_loading.nodes(evidence, model=model), _log(first, others, vllm), None)
    loaded = sources.load(evidence)
    beside = loaded.case.told_with if loaded.case is not None else None
    if not _is_nodes(loaded):
        nodes = sources.load(beside) if beside else None
        log = sources.load(evidence, vllm=vllm or None, more=",".join([first, *others]))
        result = _diagnosed(_NO_NODES if nodes is None else node_loading.nodes(nodes, model=model), log, nodes)
    else:
        result = _diagnosed(node_loading.nodes(loaded, model=model), _log(first or beside or "", others, vllm), loaded)
    return replace(result, case=loaded.case)


_NO_NODES = "The evidence is a log without nodes: use a file written by vllm-runbooks cluster check --out FILE."


def _diagnosed(nodes: CheckedCluster | str, logs: Evidence | None, recorded: Evidence | None) -> NodesEvidence:
    return NodesEvidence(nodes, logs, None if logs is None else diagnosing.diagnose(logs), recorded)


def _log(first: str, others: list[str], vllm: str) -> Evidence | None:
    return sources.load(first, vllm=vllm or None, more=",".join(others)) if first else None


def _is_nodes(evidence: Evidence) -> bool:
    """Whether it has nodes or a host, and not a log: some logs begin with a brace as well."""
    if evidence.case is not None:
        return evidence.case.kind in (CaseKind.NODES, CaseKind.SNAPSHOT)
    documents = evidence.documents
    match = _OBJECT.match(sources.beginning(documents[0], _BEGINNING)) if len(documents) == 1 else None
    return match is not None and match["name"] in _FIELDS


def summary(evidence: NodesEvidence) -> RenderedView:
    """The nodes, and the launch in the logs, one card each; a failed launch comes first."""
    from vllm_runbooks.core.views.styled import Tone
    from vllm_runbooks.core.views.summary import Statement
    from vllm_runbooks.core.views.summary_html import rendered
    from vllm_runbooks.diagnosis.render import answers
    from vllm_runbooks.diagnosis.render.summaries import summarize
    from vllm_runbooks.host.nodes import summaries

    answer = evidence.answer
    parts = [] if isinstance(evidence.nodes, str) else [rendered(summaries.summarize(evidence.nodes))]
    if answer is None:
        return RenderedView.joined(parts)
    alone = _alone(answer)
    if alone is not None and answer.outcome.is_healthy:
        notice = Statement("!", alone.title, Tone.WARN, id=alone.symptom, action=alone.do_first)
        parts.append(rendered(replace(summarize(answer), tone=Tone.WARN, sentence="", statements=(notice,))))
    else:
        view = answers.summary(answer, runbook="multi-node-ray")
        parts = [*parts, view] if answer.outcome.is_healthy else [view, *parts]
    return RenderedView.joined(parts)


def log_facts(evidence: NodesEvidence) -> list[StepText | None]:
    """Why the launch of the logs failed, or that it ran on one host alone."""
    from vllm_runbooks.diagnosis.render import steps

    answer = evidence.answer
    if answer is None:
        return []
    alone = _alone(answer)
    one_host = StepText(f"{alone.title}.", alone.explanation, alone.do_first) if alone is not None else None
    return [steps.failure(answer), one_host]


def log_views(evidence: NodesEvidence) -> dict[str, RenderedView]:
    """The logs with their results, by name; empty without logs."""
    from vllm_runbooks.diagnosis.render import annotated, answers, claims

    answer, logs = evidence.answer, evidence.logs
    if answer is None or logs is None:
        return {}
    return {
        "The logs, marked": annotated.log(answer, logs.documents),
        "All logs": answers.starts(answer),
        "All fixes": answers.remedies(answer),
        "How to verify the cause, and what rules it out": answers.checks(answer),
        "Other findings": answers.others(answer),
        "Claims of the recorded document, checked": claims.table(diagnosing.check_claims(logs)),
    }


def _alone(answer: Answer) -> Finding | None:
    return next((finding for finding in answer.findings if finding.symptom == _ONE_HOST), None)


# ---- a plan over the GPUs of the nodes


def question(evidence: NodesEvidence, *, model: str = "", vllm: str = "", options: str = "") -> PlanningRequest | str:
    """Build a plan request over the nodes' GPUs, else the missing inputs.

    Defaults are those of the log, then of the nodes.

    Args:
        evidence: The nodes.
        model: Name in the catalog, or a folder with its config.json.
        vllm: Release.
        options: Further engine options as a JSON object.

    Raises:
        InputError: An argument is unknown or rejected.
    """
    check_texts(model=model, vllm=vllm, options=options)
    arguments = plan_evidence.as_words(options)
    nodes = evidence.nodes
    if isinstance(nodes, str):
        return nodes
    logged_model, logged_options, release = _logged(evidence)
    name = model.strip() or logged_model or _seen(nodes)
    if not name:
        return "unknown model; set `model`"
    try:
        request = planner.on_nodes(name, nodes, nodes.environments, vllm=vllm.strip() or release, arguments=arguments)
    except InputError as error:
        if model.strip() or vllm.strip() or arguments:
            raise
        return redact_text(str(error))
    is_same = logged_model is not None and planner.model(logged_model).name == request.model.name
    return replace(request, options={**_given(logged_options, request.data), **request.options}) if is_same else request


def _given(printed: Mapping[str, Any], data: ReleaseData) -> dict[str, Any]:
    """Options of a log, which prints all of them, that this release has with another default."""
    options = data.by_dest
    return {name: value for name, value in printed.items() if name in options and value != options[name].default}


def _logged(evidence: NodesEvidence) -> tuple[str | None, Mapping[str, Any], str | None]:
    """Model, options without parallel sizes, and release of the launch in the logs."""
    starts = diagnosing.read(evidence.logs) if evidence.logs is not None else []
    if not starts:
        return None, {}, None
    name, options = plan_evidence.given(starts[-1])
    try:
        return (name and planner.model(name).name), options, starts[-1].release.rules
    except InputError:
        return None, {}, starts[-1].release.rules


def _seen(nodes: CheckedCluster) -> str:
    path = next((node.model.path for node in nodes.nodes if node.model is not None), "")
    return PurePosixPath(path).name


def over_all(request: PlanningRequest | str, layouts: Layouts | str, *, tp: int = 0, pp: int = 0) -> Plan | str:
    """Plan of one server over all nodes, else the reason for a missing one.

    `tp` is by default the number of GPUs of each node, `pp` the number of nodes.
    """
    if isinstance(request, str) or isinstance(layouts, str):
        return str(request if isinstance(request, str) else layouts)
    nodes = [card.node for card in request.cards]
    sizes = (tp or min(map(nodes.count, nodes)), pp or len(set(nodes)))
    plan_in_layout = next(
        (plan for plan in layouts.layouts if (way := plan.layout) and (way.replicas, way.dp) == (1, 1)
         and (way.tp, way.pp) == sizes), None
    )  # fmt: skip
    named = f"TP {sizes[0]} PP {sizes[1]}"
    if plan_in_layout is None:
        return f"{named} is not a ranked layout of {len(nodes)} GPUs"
    if not plan_in_layout.legal:
        return f"{named} is not valid: {'; '.join(plan_in_layout.reasons)}"
    if plan_in_layout.fits is False:
        return f"{named} does not fit: {'; '.join(plan_in_layout.limits)}"
    return plan_in_layout


def layout_facts(evidence: NodesEvidence, request: PlanningRequest | str, layouts: Layouts | str) -> StepText | None:
    """Recommended layout, or the missing inputs of a plan; None without nodes."""
    from vllm_runbooks.plan.render import sections

    if isinstance(request, str) and not isinstance(evidence.nodes, str):
        return StepText(f"Not planned: {request}.")
    return sections.choice(layouts)


def launch_facts(request: PlanningRequest | str, plan: Plan | str, files: Files) -> list[StepText | None]:
    """Fit of one server over all nodes and its joining method, or the reason for missing files.

    Empty without nodes.
    """
    from vllm_runbooks.plan.render import sections, start_files

    if isinstance(request, str):
        return []
    if isinstance(files.overview, str):
        return [StepText(sentence_of(files.overview))]
    return [sections.conclusion(plan), start_files.executor(files.overview)]


class Files(NamedTuple):
    """A layout as files for each node, with their description."""

    made: Mapping[str, str]
    overview: StartFiles | str
    """Else the reason for missing files."""

    @property
    def of_ray(self) -> Mapping[str, str]:
        """Scripts that join the nodes to a Ray cluster, if required."""
        nodes = () if isinstance(self.overview, str) else self.overview.nodes
        names = [f"ray-{node.node}.sh" for node in nodes]
        return {name: self.made[name] for name in names if name in self.made}


def files(request: PlanningRequest | str, plan: Plan | str) -> Files:
    """Launch files of a layout for each node, with every command linted."""
    if isinstance(request, str) or isinstance(plan, str):
        return Files({}, str(plan if isinstance(plan, str) else request))
    try:
        return Files(*planner.files_for_nodes(request, plan))
    except InputError as error:
        return Files({}, redact_text(str(error)))


def confirmations(request: PlanningRequest | str, plan: Plan | str) -> Mapping[str, Confirmation]:
    """How to verify that the layout took effect, by node; empty without a plan."""
    if isinstance(request, str) or isinstance(plan, str):
        return {}
    try:
        return plan_files.confirmations(request, plan)
    except InputError:
        return {}


def write(request: PlanningRequest | str, plan: Plan | str, folder: str, *, apply: bool) -> RenderedView:
    """Write the launch files of a layout if `apply` is set; raises InputError if a file exists."""
    if not isinstance(apply, bool):
        raise InputError(f"apply: {apply!r} must be True or False; no files written")
    check_texts(folder=folder)
    if isinstance(request, str) or isinstance(plan, str):
        return RenderedView.nothing(f"No files written: {plan if isinstance(plan, str) else request}.")
    if not apply:
        return RenderedView.nothing("No files written: apply is False.")
    if not folder.strip():
        raise InputError("folder is empty; set the output folder")
    written = planner.node_files(request, plan, Path(folder))
    return RenderedView.said(f"Written: {', '.join(str(Path(folder) / name) for name in written.files)}.")


# ---- the verdict


def verdict(evidence: NodesEvidence) -> RunbookVerdict:
    """The verdict on nodes and logs, each against what its case expects, else on whether anything is wrong."""
    verdicts = []
    if isinstance(evidence.nodes, CheckedCluster):
        verdicts.append(node_loading.nodes_verdict(evidence.nodes, evidence.recorded))
    if evidence.answer is not None and evidence.logs is not None:
        verdicts.append(_of_logs(evidence.answer, evidence.logs))
    return expected.combine_verdicts(verdicts, evidence.case)


def _of_logs(answer: Answer, logs: Evidence) -> RunbookVerdict:
    judged = diagnosing.verdict(answer, logs)
    alone = _alone(answer)
    if logs.case is not None or judged.verdict is Verdict.FAIL or alone is None:
        return judged
    # A hint if one host was intended; here several were.
    return replace(judged, verdict=Verdict.FAIL, reason=f"{alone.title} ({_ONE_HOST}): no other node joined")
