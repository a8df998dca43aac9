"""Planner API: a model and GPUs by name, options as in vLLM, data loaded from the catalog."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.specs import HostGpu
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import PlanQuestion
from vllm_runbooks.core.files import store
from vllm_runbooks.core.records import PlanComparison
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.host import model_cache
from vllm_runbooks.host import nodes as clusters
from vllm_runbooks.host.nodes.records import Cluster, NodeEnvironment, NodeFinding
from vllm_runbooks.lint import knowledge
from vllm_runbooks.plan import files as plan_files
from vllm_runbooks.plan import hub, start_files
from vllm_runbooks.plan import planned as planning
from vllm_runbooks.plan import reading as plan_reading
from vllm_runbooks.plan import remedies as plan_remedies
from vllm_runbooks.plan import requests as plan_requests
from vllm_runbooks.plan.budget import PlannedModel, drafted, subject_in_catalog
from vllm_runbooks.plan.checkpoints import layer_bytes, tensor_bytes, tensor_names
from vllm_runbooks.plan.drafts import DraftModel, draft, draft_in_catalog
from vllm_runbooks.plan.records import Find, Layouts, Plan, StartFiles
from vllm_runbooks.plan.remedies import PlanRemedy
from vllm_runbooks.plan.settings import PARTITION
from vllm_runbooks.reading import sources


def model(
    name: str, options: Mapping[str, Any] | None = None, *, access: hub.HubAccess = hub.HubAccess.CACHE
) -> PlannedModel:
    """Model by the folder with its config.json, or by its name in the catalog or on the Hub.

    Args:
        name: The folder or name.
        options: Options of the launch; `revision` and `download_dir` matter.
        access: Where to read a model that the catalog does not have, or not completely.

    Raises:
        InputError: The model or folder does not exist, or its configuration cannot be read.
    """
    folder = _folder(name)
    if folder is not None:
        return _local(folder)
    otherwise = ", or omit --offline to read it from the Hub" if access is hub.HubAccess.NONE else ""
    return _named(name, options or {}, access) or plan_reading.model_in_catalog(
        name, catalog.specs(), otherwise=otherwise
    )


def cached_model(name: str, options: Mapping[str, Any] = MappingProxyType({})) -> PlannedModel | None:
    """Model of the Hub in a cache of this host; None if no cache has a readable one."""
    revision, folder = model_cache.placement(options)
    with suppress(InputError):
        files = hub.find(name, hub.HubAccess.CACHE, revision=revision, download_dir=folder)
        return None if files is None else _local(files.folder, name, files.source)
    return None


def _named(name: str, options: Mapping[str, Any], access: hub.HubAccess) -> PlannedModel | None:
    known = plan_reading.accepted(name, catalog.specs())
    revision, folder = model_cache.placement(options)
    is_whole = known is not None and not known.is_partial and not known.is_assumed
    if is_whole and revision in (None, "main"):
        return known
    asked = known.name if known else name
    if known is not None and access is hub.HubAccess.NETWORK and hub.offline_variable():
        access = hub.HubAccess.CACHE
    try:
        files = hub.find(asked, access, revision=revision, download_dir=folder)
        if files is not None:
            return _local(files.folder, asked, files.source)
        others = "--offline reads no other" if access is hub.HubAccess.NONE else "no cache of this host has another"
        return known and (known if revision in (None, "main") else _from_catalog(known, revision, others))
    except hub.UnknownRevisionError:
        raise
    except InputError as error:
        if known is None:
            is_unknown = "unknown model" in str(error)
            raise InputError(str(error) + plan_reading.near(name, catalog.specs()) * is_unknown) from None
        why = re.sub(r"^unknown model(?:, and|[:;]) ", "", str(error).removeprefix(f"{asked}: "))
        return _from_catalog(known, revision, f"{why}; --offline plans without the Hub")


def _from_catalog(known: PlannedModel, revision: str | None, why: str) -> PlannedModel:
    """A model of the catalog that should have been read from the Hub, with the reason why it was not."""
    part = "a part of this model's configuration" if known.is_partial else "this model's configuration"
    part = "the configuration of this model's base" if known.is_assumed else part
    which = "" if revision in (None, "main") else " at the default revision, not at that of --revision"
    return replace(known, unread=f"the catalog has {part}{which}, and {why}")


def is_folder(name: str) -> bool:
    """Whether a name is a folder, whose contents may change."""
    return _folder(name) is not None


def _folder(name: str) -> Path | None:
    """Folder of a local path or of its config.json; None for the name of a model."""
    path = Path(name)
    try:
        if path.is_dir():
            return path
    except (OSError, ValueError):  # the path is too long or has an invalid character
        return None
    return path.parent if path.name == "config.json" else None


def _draft(name: str, access: hub.HubAccess) -> DraftModel | None:
    folder, source = _folder(name), None
    if folder is None:
        known = draft_in_catalog(name, catalog.specs())
        files = None
        if known is None:
            with suppress(InputError):  # without the draft model, its memory is unknown
                files = hub.find(name, access)
        if files is None:
            return known
        folder, source = files.folder, files.source
    subject = _local(folder, name, source)
    return draft(name, subject.config, source=subject.source, tensors=tensor_names(folder))


def _local(folder: Path, name: str | None = None, source: str | None = None) -> PlannedModel:
    path = folder / "config.json"
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: not a regular file; pass a folder with the model's config.json")
        with path.open("rb") as stream:
            text = stream.read(model_cache.MAX_CONFIG + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; pass a folder with the model's config.json") from None
    made = plan_reading.told_model(
        name or str(folder),
        text,
        source=str(path),
        checkpoint_bytes=tensor_bytes(folder),
        others={name: content for name in plan_reading.OTHER_FILES if (content := _content(folder / f"{name}.json"))},
    )
    made = replace(made, layer_bytes=layer_bytes(folder))
    return made if source is None else replace(made, source=source, is_downloaded=True)


def _content(path: Path) -> Any:
    """Content of a JSON file; None if there is none that can be read."""
    with suppress(OSError, ValueError, RecursionError), path.open("rb") as stream:
        return json.loads(stream.read(model_cache.MAX_CONFIG))
    return None


def request(
    name: str,
    gpus: str,
    *,
    vllm: str | None = None,
    tp: int | None = None,
    pp: int | None = None,
    dp: int | None = None,
    arguments: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    calibration: str | Path | None = None,
    is_calibrated: bool = True,
    cards: Callable[[str], tuple[HostGpu, ...]] = host_loading.cards,
    access: hub.HubAccess | str = hub.HubAccess.CACHE,
    check_name: Callable[[str], object] = str,
) -> plan_requests.PlanningRequest:
    """Read and check a request.

    Args:
        name: The model.
        gpus: The GPUs, as in `8xRTX3090` or `A100-80GB@node1,A100-80GB@node2`.
        vllm: The vLLM release; by default the newest in the catalog.
        tp: Tensor parallel size. If any of the three sizes is given, the others default to 1.
        pp: Pipeline parallel size.
        dp: Data parallel size.
        arguments: Further engine options as command line arguments.
        options: Further engine options by argparse destination.
        environment: Environment variables of the launch.
        calibration: A file with measurements of the user's own launches.
        is_calibrated: Whether measurements of earlier launches correct the plan.
        cards: Function that reads the named GPUs.
        access: Where to read models that the catalog does not have: "network" (the Hub), "cache" (this host's
            caches of it) or "none".
        check_name: Called with each model's name or folder, and with `download_dir`, before it is read; raises an error
            for one that must not be read.

    Raises:
        InputError: A name is unknown, or the release rejects an option.
    """
    from vllm_runbooks.plan.calibration import load

    if access not in tuple(hub.HubAccess):
        raise InputError(f"access: {access!r} is unknown; use {', '.join(hub.HubAccess)}")
    for what, given, kind, example in (("name", name, str | Path, "Qwen/Qwen3-8B"), ("gpus", gpus, str, "2xH100")):
        if not isinstance(given, kind):
            raise InputError(f"{what}: must be text, such as {example!r}; got {given!r:.50}")
    where = hub.HubAccess(access)

    def named(model_name: str, settled: Mapping[str, Any]) -> PlannedModel:
        for text in filter(None, (model_name, settled.get("download_dir"))):
            check_name(text)
        return model(model_name, settled, access=where)

    def drafted_by(draft_name: str) -> DraftModel | None:
        check_name(draft_name)
        return _draft(draft_name, where)

    return plan_reading.read(
        plan_reading.PlanSources(
            named,
            drafted_by,
            cards,
            knowledge.knowledge,
        ),
        name,
        gpus,
        vllm=vllm,
        sizes={"tp": tp, "pp": pp, "dp": dp},
        arguments=arguments,
        options=options,
        environment=environment,
        calibrate=load(calibration) if is_calibrated else None,
    )


has_sizes = plan_reading.has_sizes


def plan_model(name: str, gpus: str, **more: Any) -> Plan:
    """Plan one launch on GPUs and lint its command; `more` is passed to `request`."""
    return plan(request(name, gpus, **more))


def plan_layouts(name: str, gpus: str, **more: Any) -> Layouts:
    """Plan every layout on the GPUs, the best first; `more` is passed to `request`."""
    return layouts(request(name, gpus, **more))


def find_plan(name: str, gpus: str, what: str, **more: Any) -> Plan:
    """The longest "context", highest "concurrency", fewest "gpus" or lowest "utilization", with its plan."""
    return find(request(name, gpus, **more), what)


def plan(request: plan_requests.PlanningRequest) -> Plan:
    """Plan one launch as requested and lint its command.

    Raises:
        InputError: The request cannot be planned.
    """
    return planning.checked(planning.plan(request), knowledge.knowledge(), request)


def staged(request: plan_requests.PlanningRequest) -> plan_requests.PlanningRequest:
    """The request with the best split over stages for unequal GPUs; a given split is kept."""
    parts = plan_requests.stages_of(request)
    if parts is None:
        return request
    return replace(request, environment={**request.environment, PARTITION: ",".join(map(str, parts))})


def layouts(request: plan_requests.PlanningRequest) -> Layouts:
    """Plan every layout on the GPUs, and lint the commands of those that fit.

    Raises:
        InputError: The request cannot be planned.
    """
    return planning.layouts(request, knowledge.knowledge())


def find(request: plan_requests.PlanningRequest, what: Find | str) -> Plan:
    """Answer an inverse query, with the plan of the answer.

    Raises:
        InputError: The query does not exist, or the request cannot be planned.
    """
    return plan_reading.asked_otherwise(request, Find(what), knowledge.knowledge(), catalog.specs())


def remedies(request: plan_requests.PlanningRequest, answer: Plan | Layouts) -> tuple[PlanRemedy, ...]:
    """Cheapest changes that make a plan fit, with their commands linted."""
    return plan_remedies.remedies(request, answer, knowledge.knowledge(), catalog.specs())


def chosen(answer: Plan | Layouts) -> Plan:
    """The plan itself, or the best of the layouts.

    Raises:
        InputError: No layout can be launched.
    """
    if isinstance(answer, Plan):
        return answer
    if (best := answer.best) is None:
        raise InputError("no layout fits: nothing to deploy")
    return best


def deployed(
    request: plan_requests.PlanningRequest,
    answer: Plan | Layouts,
    *,
    first_port: int = 8000,
    retries_posts: bool = False,
) -> Mapping[str, str]:
    """A plan as files by name: script, compose file and units per host, nginx for several servers.

    Every command in them is linted for the release.

    Raises:
        InputError: The release has no option for the layout, or the linter finds an error in
            the files.
    """
    return _linted(
        request, plan_files.deployed(request, chosen(answer), first_port=first_port, retries_posts=retries_posts)
    )


def _linted(request: plan_requests.PlanningRequest, made: Mapping[str, str]) -> Mapping[str, str]:
    for name, text in made.items():
        if name.endswith((".sh", ".yaml", ".service")):
            errors, _ = planning.faults(text, knowledge.knowledge(), request, name)
            if errors:
                raise InputError(f"{name}: not written: {errors[0]}")
    return made


def deploy(request: plan_requests.PlanningRequest, answer: Plan | Layouts, folder: Path, **options: Any) -> list[Path]:
    """Write a plan's files into a folder; none is overwritten. `deployed` has the options.

    Raises:
        InputError: One is there already.
    """
    return _stored(deployed(request, answer, **options), folder)


def _stored(made: Mapping[str, str], folder: Path) -> list[Path]:
    existing = next((name for name in made if (folder / name).exists()), None)
    if existing is not None:
        raise InputError(f"{folder / existing}: already exists; use another folder, or remove it first")
    for name, text in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        store(folder / name, text)
    return [folder / name for name in made]


def on_nodes(
    name: str,
    nodes: Cluster,
    environments: Sequence[NodeEnvironment],
    *,
    gpus: str | None = None,
    vllm: str | None = None,
    by: str | None = None,
    master_port: int | None = None,
    **more: Any,
) -> plan_requests.PlanningRequest:
    """Read and check a request for a cluster's nodes; `more` is passed to `request`.

    By default the GPUs and the release are those of the nodes, and vLLM itself joins hosts if the
    release can (`by`: "nnodes" or "ray").
    """
    names = [node.name for node in nodes.nodes]
    release = vllm or start_files.release(nodes)

    def cards(spec: str) -> tuple[HostGpu, ...]:
        listed = host_loading.cards(spec) if spec else start_files.cards(nodes, catalog.specs())
        strange = next((card.node for card in listed if card.node not in names), None) if len(names) > 1 else None
        if strange is not None or any(card.node is None for card in listed if len(names) > 1):
            raise InputError(f"{strange or 'a GPU without @NODE'}: not one of the nodes ({', '.join(names)})")
        return listed

    launch = request(name, gpus or "", vllm=release, cards=cards, **more)
    places = start_files.places(environments)
    return replace(
        launch,
        places=places,
        master_port=master_port,
        by_ray=None if by is None else by == "ray",
        network=start_files.network(nodes, places),
    )


def standing(
    request: plan_requests.PlanningRequest,
    answer: Plan | Layouts,
    nodes: Cluster,
    environments: Sequence[NodeEnvironment],
) -> tuple[NodeFinding, ...]:
    """Problems of a plan on its nodes, assuming that each has the environment of its files.

    Raises:
        InputError: No layout fits, or the release has no option for it.
    """
    plan = chosen(answer)
    parts = plan_files.servers(request, plan)
    hosts = [host for part in parts for host in (part.joined or (part.host,)) if host is not None]
    used = {str(host.node) for host in hosts}
    sizes = request.options if plan.layout is None else {"tensor_parallel_size": plan.layout.tp}
    group = sizes.get("tensor_parallel_size") or 1
    is_joined = any(part.joined or not part.serves for part in parts)
    is_spread = is_joined and group > min(len(host.devices) for host in hosts)
    return clusters.standing(nodes, catalog.specs(), environments, used, is_tensor_spread=is_spread)


def node_files(
    request: plan_requests.PlanningRequest, answer: Plan | Layouts, folder: Path, **options: Any
) -> StartFiles:
    """Write a plan's files for each node into a folder; none is overwritten. `start_files.files` has the options.

    Raises:
        InputError: One is there already.
    """
    made, summary = files_for_nodes(request, answer, **options)
    _stored(made, folder)
    return summary


def files_for_nodes(
    request: plan_requests.PlanningRequest, answer: Plan | Layouts, **options: Any
) -> tuple[Mapping[str, str], StartFiles]:
    """A plan's files for each node by name, linted, and their description.

    `options` are those of `start_files.files`.
    """
    made, summary = start_files.files(request, chosen(answer), **options)
    return _linted(request, made), summary


def keep(comparison: PlanComparison, path: Path) -> int:
    """Add the residuals of a launch to a calibration file; returns its number of rows.

    Raises:
        InputError: The file exists and is not a calibration file.
    """
    from vllm_runbooks.plan import calibration

    earlier = calibration.read(sources.read_text(str(path)), str(path)) if path.exists() else ()
    # The same launch read again replaces its rows: it is not a second measurement.
    rows = {
        (row.source, row.release, row.gpu, row.architecture, row.term, row.tensor_parallel_size): row
        for row in (*earlier, *comparison.residuals)
    }
    store(path, calibration.written(rows.values()))
    return len(rows)


def question(recorded: PlanQuestion) -> plan_requests.PlanningRequest:
    """Read and check the request of a recorded question or a claim, without calibration.

    Raises:
        InputError: The model, a GPU or the release is unknown.
    """
    subject = subject_in_catalog(recorded.model, catalog.specs())
    if subject is None:
        raise InputError(f"{recorded.model}: unknown model; a recorded question must name a model in the catalog")
    sizes = {
        "tensor_parallel_size": recorded.tp,
        "pipeline_parallel_size": recorded.pp,
        "data_parallel_size": recorded.dp,
    }
    return plan_requests.PlanningRequest(
        drafted(subject, recorded.options, lambda name: draft_in_catalog(name, catalog.specs())),
        catalog.specs().gpus(recorded.gpus),
        plan_requests.release_of(recorded.vllm),
        {**recorded.options, **{name: size for name, size in sizes.items() if size is not None}},
    )


def planned(recorded: PlanQuestion) -> Plan | Layouts:
    """Answer such a question: a plan if sizes are given, else every layout."""
    is_split = any(size is not None for size in (recorded.tp, recorded.pp, recorded.dp))
    return planning.plan(question(recorded)) if is_split else planning.layouts(question(recorded))
