"""Steps of the runbook on a running server: problems, fix, health checks, load, next action."""

from __future__ import annotations

from vllm_runbooks.catalog.serving import Serving
from vllm_runbooks.core.records import Severity
from vllm_runbooks.core.views.runbook_steps import StepText
from vllm_runbooks.core.views.summary import count_of, sentence_of
from vllm_runbooks.diagnosis.render.summaries import option_text
from vllm_runbooks.probe.records import Health, ServingFinding
from vllm_runbooks.probe.starts import LaunchResult
from vllm_runbooks.probe.summaries import figures_in_use, state_of
from vllm_runbooks.probe.vitals import shown


def problems(health: Health) -> list[StepText]:
    """Each problem with its proof, consequence and first action; hints by their titles."""
    found = [
        StepText(f"{finding.title}: {_proof(finding)}", finding.explanation, finding.do_first)
        for finding in health.findings
        if finding.severity is not Severity.HINT
    ]
    hints = [finding.title for finding in health.findings if finding.severity is Severity.HINT]
    return found or ([StepText(sentence_of(f"No problems, only a hint: {'; '.join(hints)}"))] if hints else [])


def _proof(finding: ServingFinding) -> str:
    return ("; ".join(proof.message for proof in finding.proofs) or f"`{finding.id}`").rstrip(".") + "."


def fixes(health: Health) -> list[StepText]:
    """Each fix of the cause with its cost and command, best first; without one, the reason."""
    cause = health.cause
    if cause is None:
        return []
    texts = []
    for number, change in enumerate(cause.changes):
        options = option_text(change.edits)
        text = f"{'Or: ' if number else ''}{change.title}" + (f" (`{options}`)" if options else "")
        texts.append(StepText(do=sentence_of(f"{text}. Cost: {change.cost}"), command=change.command or ""))
    return [*texts, *(StepText(sentence_of(f"Not offered: {why}")) for why in cause.left_out)]


def health_checks(health: Health) -> StepText | None:
    """Number of passed health checks, and the failed one that proves the cause; None without any."""
    tried = [check for check in health.observation.health_checks if check.result is not LaunchResult.LEFT_OUT]
    if not tried:
        return None
    failed = [check for check in tried if check.result is LaunchResult.FAILED]
    passed = sum(check.result is LaunchResult.PASSED for check in tried)
    fact = f"{passed} of {count_of(len(tried), 'health check')} passed."
    if not failed:
        return StepText(fact, "Chat, streaming and tool calls work.")
    proving = {proof.health_check for finding in health.findings for proof in finding.proofs}
    first = next((check for check in failed if check.name in proving), failed[0])
    message = " ".join(first.message.split()).removeprefix(f"{first.name}: ")
    return StepText(
        sentence_of(f"{fact} `{first.name}` failed: {message}"),
        "The server is not ready." if first.is_needed else "The server is ready; only requests of this kind fail.",
    )


def load(health: Health, serving: Serving) -> StepText | None:
    """Requests in flight, KV cache in use, and the times of the load; None if the server reported none."""
    parts = [f"{', '.join(figures)}." if (figures := figures_in_use(health, serving)) else ""]
    measured = health.observation.load
    if measured is not None:
        took = measured.time_to_first_token.p50_ms
        parts.append(
            f"Under a load of {measured.concurrency} concurrent requests {measured.answered} of {measured.requests} "
            "were answered" + (f"; the first token came after {shown(took / 1000, 's')} (median)." if took else ".")
        )
    fact = " ".join(filter(None, parts))
    return StepText(fact) if fact else None


def following(health: Health) -> StepText:
    """Next action after this check."""
    cause = health.cause
    if cause is None:
        return StepText(
            "No change is needed.",
            do="Check it every ten minutes; a regression is reported once, and so is the recovery.",
            command="vllm-runbooks schedule add health --at '*/10 * * * *' -- "
            "run is-it-healthy -p live true -p url http://127.0.0.1:8000",
        )
    so = f"It is not the cause if: {cause.refute}"
    if state_of(health)[0] == "DOWN" and not cause.changes:
        do = f"{cause.confirm} Diagnose the log of the server."
        return StepText(so=so, do=do, command="vllm-runbooks diagnose SERVER.log")
    do = f"{cause.confirm} After the change run this again; `vllm-runbooks diff` compares both runs."
    return StepText(so=so, do=do)
