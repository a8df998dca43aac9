"""Files that launch the servers of a plan, and checks of the split of each running server."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan import confirmation, fleet, proxy
from vllm_runbooks.plan.records import Find, ParallelLayout, Plan, PlannedRank
from vllm_runbooks.plan.requests import SIZES, PlanningRequest, fewest_cards, layout_of, settings, taking, ways
from vllm_runbooks.plan.servers import parts, split_of
from vllm_runbooks.plan.shape import Experts

_ANSWERED = {Find.CONTEXT: "max_model_len", Find.UTILIZATION: "gpu_memory_utilization"}
"""By question the option that its plan sets."""


def _effective(request: PlanningRequest, plan: Plan) -> tuple[PlanningRequest, ParallelLayout]:
    """The request with the results of its plan: order of the GPUs, stages, answer of a query."""
    flags = plan.deployment.flags if plan.deployment is not None else {}
    layout = plan.layout or ParallelLayout(request.replicas, *(int(flags.get(dest, 1)) for dest in SIZES.values()))
    dest = _ANSWERED.get(plan.found.quantity) if plan.found is not None else None
    if dest is not None and dest in flags:
        request = replace(request, options={**request.options, dest: flags[dest]})
    if plan.found is not None and plan.found.quantity is Find.GPUS:
        return replace(request, cards=fewest_cards(request.cards[0], len(plan.per_gpu)), replicas=1), layout
    if plan.layout is not None:
        for way in ways(request):
            if layout_of(way) == layout:
                return taking(request, way), layout
    return request, layout


def _servers(
    request: PlanningRequest, plan: Plan, first_port: int
) -> tuple[fleet.ParallelSizes, tuple[fleet.InstancePart, ...]]:
    effective, layout = _effective(request, plan)
    ranks = replace(settings(effective).ranks, tensor=layout.tp, pipeline=layout.pp, data=layout.dp)
    return split_of(ranks), parts(effective, ranks, layout.replicas, first_port)


def servers(
    request: PlanningRequest, plan: Plan, *, first_port: int = fleet.FIRST_PORT
) -> tuple[fleet.InstancePart, ...]:
    """Servers that run on each host of a plan.

    Raises:
        InputError: The release has no option for the layout.
    """
    return _servers(request, plan, first_port)[1]


def confirmations(
    request: PlanningRequest, plan: Plan, *, first_port: int = fleet.FIRST_PORT
) -> dict[str, confirmation.Confirmation]:
    """Checks after the launch that each instance runs with the planned split, by name and host.

    Raises:
        InputError: The release has no option for the layout.
    """
    split, made = _servers(request, plan, first_port)
    has_experts = any(isinstance(kind.feed_forward, Experts) for kind in request.model.shape.kinds)
    expected = _expected(request, plan)
    by_name = {}
    for part in made:
        whole = [other for other in made if other.instance == part.instance]
        by_name[f"{part.name} on {part.node}" if part.node else part.name] = confirmation.confirmation(
            part,
            split,
            request.data,
            hosts=len(part.joined) or len(whole),
            place=whole.index(part),
            has_experts=has_experts,
            expected=expected,
        )
    return by_name


def _expected(request: PlanningRequest, plan: Plan) -> confirmation.Expected:
    weights = []
    for card in plan.per_gpu:
        term = next((term for term in card.terms if term.name == "weights"), None)
        weights.append(_sides(*((term.low_gib, term.expected_gib, term.high_gib) if term is not None else (None,))))
    cache, options = (
        plan.kv_cache,
        {**request.options, **(plan.deployment.flags if plan.deployment is not None else {})},
    )
    length = plan.options.get("max_model_len", options.get("max_model_len"))
    tokens, concurrency = _sides(cache.tokens_low, cache.tokens, cache.tokens_high), None
    if tokens is not None and cache.max_concurrency is not None and tokens.expected:
        concurrency = confirmation.Sides(*(cache.max_concurrency * side / tokens.expected for side in tokens))
    # A cache of given size is not reported as available memory.
    is_given = options.get("kv_cache_memory_bytes") is not None
    return confirmation.Expected(
        tuple(weights),
        () if is_given else tuple(_sides(*_available(card)) for card in plan.per_gpu),
        tokens,
        concurrency,
        length if isinstance(length, int) and length > 0 else 0,
        settings(request).is_v0,
    )


def _available(card: PlannedRank) -> tuple[float | None, ...]:
    """Available memory in GiB, low to high, at least 0: logs never print a negative amount."""
    sides = (card.available_low_gib, card.available_gib, card.available_high_gib)
    return tuple(None if side is None else max(side, 0.0) for side in sides)


def _sides(*sides: float | None) -> confirmation.Sides | None:
    low, expected, high = sides if len(sides) == 3 else (None, None, None)
    if low is None or expected is None or high is None:
        return None
    return confirmation.Sides(low, expected, high)


def _told(by_name: Mapping[str, confirmation.Confirmation], notes: Sequence[str]) -> str:
    log = "Counts are per launch; the log is the launch script's file, the unit's journal or the container's output."
    lines = [*notes, log]
    for name, check in by_name.items():
        lines += ["", f"{name}: its log ({check.log}) must contain"]
        lines += [
            f"  {line.what}: {line.text}"
            + (f" ({line.times} time{'s' * (line.times > 1)})" if line.times else "")
            + (f"; planned: {line.expected}" if line.expected else "")
            for line in check.lines
        ]
        lines += [f"  {look.what}: {shlex.join(look.words)}: {look.expected}" for look in check.looks]
        lines += [f"  unknown: {unknown}" for unknown in check.unknown]
    return "\n".join(lines) + "\n"


def deployed(
    request: PlanningRequest, plan: Plan, *, first_port: int = fleet.FIRST_PORT, retries_posts: bool = False
) -> dict[str, str]:
    """Launch files of a plan's servers and their load balancer, by name; one set per host.

    Raises:
        InputError: They would run on other devices than NVIDIA GPUs.
    """
    if other := next((card.gpu.name for card in request.cards if card.gpu.vendor != "nvidia"), None):
        raise InputError(f"{other}: files are only written for NVIDIA GPUs; use the planned command")
    made = servers(request, plan, first_port=first_port)
    notes = doubts(plan)
    texts: dict[str, str] = {}
    nodes = list(dict.fromkeys(part.node for part in made))
    has_several = len(nodes) > 1 or any(part.joined for part in made)
    for node in nodes:
        mine = [part for part in made if part.node == node]
        behind = f"-{node}" if has_several else ""
        texts[f"start{behind}.sh"] = fleet.shell(mine, notes)
        # A container cannot find the Ray cluster of its host.
        contained = [part for part in mine if not part.joined]
        if contained:
            texts[f"compose{behind}.yaml"] = fleet.compose(contained, notes)
        texts.update({f"systemd{behind}/{name}": text for name, text in fleet.systemd(mine, notes).items()})
    texts.update(fleet.ray(made))
    texts.update({f"systemd-{node}/{fleet.RAY_UNIT}": text for node, text in fleet.ray_units(made).items()})
    serving = [part for part in made if part.serves]
    if len(serving) > 1:
        backends = [
            proxy.ProxyServer((part.host and part.host.address) or part.node or "127.0.0.1", part.port)
            for part in serving
        ]
        listen = proxy.free_address(backends)
        texts["nginx.conf"] = proxy.nginx(backends, listen=listen, retries_posts=retries_posts)
    sentence = dict.fromkeys(sentence for part in made for sentence in part.unwritten)
    texts["verify.txt"] = _told(confirmations(request, plan, first_port=first_port), [*notes, *sentence])
    return texts


def doubts(plan: Plan) -> tuple[str, ...]:
    """Reasons why a plan may not fit, a sentence each; empty if it fits."""
    if plan.fits:
        return ()
    missing = {term.name: term.source for card in plan.per_gpu for term in card.terms if term.expected_gib is None}
    if len(missing) > 1:
        missing.pop("kv_cache", None)  # follows from the others
    reasons = dict.fromkeys((*(f"{name}: {source}" for name, source in missing.items()), *plan.limits))
    verdict = "This plan may not fit" if plan.fits is None else "This plan does not fit"
    return tuple(" ".join(doubt.split()) for doubt in (f"{verdict}: {'; '.join(reasons)}" if reasons else verdict,))
