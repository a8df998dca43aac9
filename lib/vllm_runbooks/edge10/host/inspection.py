"""Check a host before a step: findings by the rules, and unknown facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vllm_runbooks.catalog.tables import FindingText, RuleFinding, load_table
from vllm_runbooks.catalog.toolchains import ModelSupport, Toolchain
from vllm_runbooks.core.records import Severity
from vllm_runbooks.edge10.host import step_rules as rules
from vllm_runbooks.edge10.host.records import CheckedHost, DockerState, EdgeHost, HostCheckRequest, UnknownHostFact
from vllm_runbooks.edge10.host.step_rules import CONDITIONS, EdgeRuleContext
from vllm_runbooks.plan.budget import PlannedModel

_PREFIX = "edge10.host_"


def check(
    host: EdgeHost,
    request: HostCheckRequest,
    facts: Toolchain,
    *,
    model: PlannedModel | None = None,
    listed: ModelSupport | None = None,
) -> CheckedHost:
    """Check a host before a step."""
    if request.data is not None and host.folder is not None and host.folder.path != request.data:
        host = replace(host, folder=None)  # a snapshot of another folder
    context = EdgeRuleContext(host, facts, request, model, listed)
    findings = tuple(_findings(context))
    unknown = tuple(_unknown(context))
    is_wrong = any(finding.severity is not Severity.HINT for finding in findings)
    return CheckedHost(
        **{name: getattr(host, name) for name in EdgeHost.__dataclass_fields__},
        toolchain=facts.id,
        request=request,
        findings=findings,
        unknown=unknown,
        ok=False if is_wrong else None if unknown else True,
    )


def _findings(context: EdgeRuleContext) -> Iterator[RuleFinding]:
    for finding_id, row in load_table("edge10_host_findings", FindingText).items():
        for observation in CONDITIONS[finding_id.removeprefix(_PREFIX)](context):
            yield RuleFinding(
                id=finding_id,
                severity=observation.severity or row.severity,
                path=observation.path,
                text=observation.text,
                effect=row.effect,
                do=observation.do or row.do,
                source=row.source.replace("{guide}", context.facts.source),
                symptom=observation.symptom,
            )


def _unknown(context: EdgeRuleContext) -> Iterator[UnknownHostFact]:
    """List the unknown facts that a rule needs: they are never a pass."""
    yield from _unknown_of_docker(context)
    inventory = context.host.inventory
    if not context.knows_gpus:
        yield UnknownHostFact("GPUs and their driver", "not reported")
    elif inventory.gpus and inventory.driver is None:
        yield UnknownHostFact("driver version", "not reported")
    if context.needs_docker and not context.is_container and context.host.toolkit is None:
        yield UnknownHostFact("the container toolkit", "not reported")
    yield from _unknown_of_model(context)
    if context.request.step == "compile" and context.host.environment is None:
        yield UnknownHostFact(f"{rules.THREADS} in the environment", "not reported")
    yield from _unknown_of_python(context)


def _unknown_of_docker(context: EdgeRuleContext) -> Iterator[UnknownHostFact]:
    if not context.needs_docker:
        return
    if context.is_container:
        yield UnknownHostFact("docker, its settings and images", "this is a container: look from its host as well")
        return
    docker, registry, image = context.docker, context.request.registry, context.request.image
    if docker is None:
        yield UnknownHostFact("docker", "not reported")
        return
    if docker.state is DockerState.UNKNOWN:
        yield UnknownHostFact("docker's service", docker.reason or "what it said is not understood")
    is_answering = docker.state is DockerState.ANSWERS
    why = "not recorded" if is_answering else f"docker: {docker.state.value}"
    if registry is not None and not context.has_image and rules.accepts_registry(context) is None:
        yield UnknownHostFact(f"whether docker accepts {registry} without a certificate", why)
    if image is None:
        yield UnknownHostFact(f"whether the step's image ({context.step.image}) exists", "set --image NAME:TAG")
    elif context.has_image is None:
        yield UnknownHostFact(f"whether the image {image} exists", why)


def _unknown_of_model(context: EdgeRuleContext) -> Iterator[UnknownHostFact]:
    step, listed = context.request.step, context.listed
    if context.request.model is None:
        yield UnknownHostFact(f"whether the toolchain can {step} the model", "set --model NAME, or its folder")
    elif listed is not None and {"quantise": listed.quantise, "compile": listed.compile}.get(step, True) is None:
        near = f"; near: {', '.join(listed.similar)}" if listed.similar else ""
        yield UnknownHostFact(f"whether the toolchain can {step} {listed.name}", f"{listed.reason}{near}")


def _unknown_of_python(context: EdgeRuleContext) -> Iterator[UnknownHostFact]:
    packages_of_step = ["vllm"] if context.step.vllm is not None else []
    if context.request.step == "compile":
        packages_of_step += context.facts.host.packages
    host, packages = context.host, context.host.inventory.packages
    is_outside = context.step.image is not None and host.inventory.host.is_container is not True
    if not packages_of_step or (host.python is None and is_outside):
        return
    if host.python is None:
        yield UnknownHostFact(
            f"versions of {', '.join(packages_of_step)} in the Python of this step", "set --python PATH"
        )
        return
    blank = [name for name in packages_of_step if name != "vllm" and name not in (packages or {})]
    if packages is None or blank:
        yield UnknownHostFact(
            f"versions of {', '.join(blank or packages_of_step)}", f"{host.python} does not list them"
        )
