"""Read and check a planning request: names, sizes, options and variables."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from vllm_runbooks.catalog import options as releases
from vllm_runbooks.catalog.eras import Key
from vllm_runbooks.catalog.specs import HostGpu, Specs, Total
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.json_errors import same_words
from vllm_runbooks.host.model_cache import MAX_CONFIG
from vllm_runbooks.lint import linting as lint
from vllm_runbooks.lint.builds import OF_VALUES
from vllm_runbooks.plan import actual, fleet, settings
from vllm_runbooks.plan.budget import Calibrate, PlannedModel, drafted, subject, subject_by_name, subject_in_catalog
from vllm_runbooks.plan.drafts import DraftModel
from vllm_runbooks.plan.encoder_profile import PROCESSOR_FILES
from vllm_runbooks.plan.planned import checked, layouts, plan
from vllm_runbooks.plan.quantized_names import refusal
from vllm_runbooks.plan.questions import find
from vllm_runbooks.plan.records import Find, Layouts, Plan
from vllm_runbooks.plan.requests import SIZES, PlanningRequest, freest_first, release_of
from vllm_runbooks.plan.settings import POOLING_FILE
from vllm_runbooks.reading.arguments import parse
from vllm_runbooks.reading.arguments.conditions import UNKNOWN
from vllm_runbooks.reading.arguments.spelling import alike
from vllm_runbooks.reading.arguments.typed import expected_type, option_words
from vllm_runbooks.reading.deployment import is_secret

if TYPE_CHECKING:
    from vllm_runbooks.lint.linting import Knowledge

_DTYPES = frozenset({"bfloat16", "float16", "float32", "half", "float", "auto"})


QUANTIZATION_FILE = "hf_quant_config"
"""ModelOpt's own file, which vLLM reads if config.json has no quantization."""
MODULES_FILE = "modules"
"""File of sentence-transformers with the modules that pool."""
OTHER_FILES = (QUANTIZATION_FILE, MODULES_FILE, POOLING_FILE, *PROCESSOR_FILES)
"""Files next to config.json that plans read."""


class PlanSources(NamedTuple):
    """Sources for the names in a request; each raises InputError for an unknown name."""

    model: Callable[[str, Mapping[str, Any]], PlannedModel]
    """Loads a model by its name and the launch's options."""
    draft: Callable[[str], DraftModel | None]
    """Loads a draft model; None if its configuration is not available."""
    cards: Callable[[str], tuple[HostGpu, ...]]
    knowledge: Callable[[], Knowledge]
    """Loaded to explain a rejected option with the linter."""


def accepted(name: str, specs: Specs) -> PlannedModel | None:
    """Model of the catalog, or a checkpoint of one, by its name; None if unknown.

    Raises:
        InputError: The name is that of a checkpoint in a format that is not planned.
    """
    model = subject_in_catalog(name, specs)
    if model is None and (reason := refusal(name)):
        raise InputError(f"{name}: not planned: {reason}")
    return model or subject_by_name(name, specs)


def model_in_catalog(name: str, specs: Specs, *, otherwise: str = "") -> PlannedModel:
    """Model by its catalog name, or by the beginning of one without organization.

    `otherwise` is added to the advice for an unknown name.

    Raises:
        InputError: No model has this name, or several begin with it.
    """
    model = accepted(name, specs)
    longer = specs.models_like(name) if model is None else []
    if len(longer) > 1:
        others = len(longer) - _LISTED
        more = f" or {others} other{'s' * (others > 1)}" if others > 0 else ""
        raise InputError(f"{name}: ambiguous model name; use {', '.join(longer[:_LISTED])}{more}")
    model = subject_in_catalog(longer[0], specs) if longer else model
    if model is None:
        raise InputError(f"{name}: unknown model{near(name, specs)}; use a folder with its config.json{otherwise}")
    return model


_LISTED = 4


def near(name: str, specs: Specs) -> str:
    """Catalog names inside or like an unknown one, in parentheses; empty if there are none."""
    from difflib import get_close_matches

    last = name.rpartition("/")[2]
    lasts = {known.rpartition("/")[2].casefold(): known for known in specs.texts}
    words = f"-{last.casefold()}-".replace("_", "-")
    inside = sorted((known for known in lasts if f"-{known}-".replace("_", "-") in words), key=len, reverse=True)
    alike = get_close_matches(last.casefold(), list(lasts), n=3, cutoff=0.6)
    names = list(dict.fromkeys((*specs.models_like(last), *(lasts[known] for known in (*inside, *alike)))))[:3]
    return f" (similar: {', '.join(names)})" if names else ""


def told_model(
    name: str,
    text: str | bytes,
    *,
    source: str,
    checkpoint_bytes: int | None = None,
    others: Mapping[str, Any] = MappingProxyType({}),
) -> PlannedModel:
    """Model from the text of its config.json; `source` is its path.

    `others` are the contents of `OTHER_FILES` by name, as far as the model has them.

    Raises:
        InputError: The text is too large or not a model configuration.
    """
    if len(text) > MAX_CONFIG:
        raise InputError(f"{source}: not a model configuration: larger than {MAX_CONFIG} bytes")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = same_words(error) if isinstance(error, json.JSONDecodeError) else "not readable as text"
        raise InputError(f"{source}: invalid JSON: {reason}") from None
    if not isinstance(config, Mapping):
        raise InputError(f"{source}: contains no JSON object, so no model configuration")
    for key in ("torch_dtype", "dtype"):
        dtype = config.get(key)
        if dtype is not None and not (isinstance(dtype, str) and dtype.removeprefix("torch.") in _DTYPES):
            raise InputError(f"{source}: {key} is {str(dtype)[:40]}, not a dtype that vLLM supports; correct it")
    config = {**config, **{file: others[file] for file in OTHER_FILES[1:] if file in others}}
    quantization = others.get(QUANTIZATION_FILE)
    if "quantization_config" not in config and isinstance(quantization, Mapping):
        inner = quantization.get("quantization")
        config["quantization_config"] = {**quantization, **(inner if isinstance(inner, Mapping) else {})}
    return subject(name, config, source=source, checkpoint_bytes=checkpoint_bytes)


def read(
    sources: PlanSources,
    name: str,
    gpus: str,
    *,
    vllm: str | None = None,
    sizes: Mapping[str, int | None],
    arguments: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    calibrate: Calibrate | None = None,
) -> PlanningRequest:
    """Read and check a request; `sizes` has the short names of `SIZES`, None for unset ones.

    Raises:
        InputError: A value is unknown, or the release rejects an option.
    """
    release = release_of(vllm)
    split = {SIZES[key]: size for key, size in sizes.items() if size is not None}
    wrong = next((f"{key} {size}" for key, size in split.items() if size < 1), None)
    if wrong is not None:
        raise InputError(f"{wrong}: parallel sizes must be at least 1")
    cards = tuple(_limited(card, release.version) for card in freest_first(sources.cards(gpus)))
    for node in dict.fromkeys(card.node for card in cards):
        fleet.check_host(node)
    parsed = _parsed(name, arguments, release.version, sources.knowledge)
    twice = next((dest for dest, size in split.items() if parsed.get(dest, size) != size), None)
    if twice is not None:
        raise InputError(f"{twice} is set twice: {parsed[twice]} and {split[twice]}; set it once")
    engine_options = {**parsed, **_typed(name, options or {}, release.version, sources.knowledge), **split}
    _check_numbers(engine_options)
    _check_environment(environment or {})
    model = sources.model(name, engine_options)
    return PlanningRequest(
        drafted(actual.overridden(model, engine_options), engine_options, sources.draft),
        cards,
        release,
        engine_options,
        {variable: None if is_secret(variable, value) else value for variable, value in (environment or {}).items()},
        calibrate,
    )


_READS_LIMIT: Key = (0, 24)
"""First release that reads the limit of a container on a CPU (utils/cpu_resource_utils.py, 0.24.0 :157; 0.23.0 reads
the memory of the NUMA node alone)."""


def _limited(card: HostGpu, version: str) -> HostGpu:
    """A host without GPUs with the memory that the release counts on: the limit of a container, if it reads that."""
    limit = card.root_limit_gib
    if limit is None or (releases.version_key(version) or ()) < _READS_LIMIT:
        return card
    total = Total(limit, limit, limit, "the memory limit of the container (cgroup)")
    return replace(card, gpu=replace(card.gpu, total=total))


def answered(
    request: PlanningRequest, knowledge: Knowledge, specs: Specs, *, what: Find | str | None = None
) -> Plan | Layouts:
    """Answer a request: an inverse query, a plan for given sizes, or all layouts.

    Raises:
        InputError: The query does not exist, or the request cannot be planned.
    """
    if what is not None:
        return asked_otherwise(request, Find(what), knowledge, specs)
    return checked(plan(request), knowledge, request) if has_sizes(request) else layouts(request, knowledge)


def asked_otherwise(request: PlanningRequest, what: Find, knowledge: Knowledge, specs: Specs) -> Plan:
    """Answer an inverse query like `find`, with the catalog's other GPUs to choose from."""
    vendors = {card.gpu.vendor for card in request.cards}
    smaller = [gpu for gpu in specs.table.gpus if gpu.vendor in vendors and gpu.total is not None and gpu.version]
    smaller.sort(key=lambda gpu: (gpu.memory_gib, gpu.name))
    return find(request, what, knowledge, smaller)


def has_sizes(request: PlanningRequest) -> bool:
    """Whether parallel sizes are given."""
    return not set(SIZES.values()).isdisjoint(request.options)


_AT_LEAST = {
    "tensor_parallel_size": 1, "pipeline_parallel_size": 1, "data_parallel_size": 1, "max_num_batched_tokens": 1,
    "max_num_seqs": 1, "block_size": 1, "num_gpu_blocks_override": 1, "kv_cache_memory_bytes": 1, "cpu_offload_gb": 0,
}  # fmt: skip
_MOST = 2**48
"""Upper limit of all sizes: larger ones are typos, or attempts to use up time."""


def _check_numbers(options: Mapping[str, Any]) -> None:
    for dest, least in _AT_LEAST.items():
        value = options.get(dest)
        if value is not None and not (_is_number(value) and least <= value <= _MOST):
            raise InputError(f"{dest} {str(value)[:40]}: must be a number of at least {least}")
    length = options.get("max_model_len")
    if length is not None and length != "auto" and not (_is_number(length) and (length == -1 or 1 <= length <= _MOST)):
        raise InputError(f"max_model_len {str(length)[:40]}: must be a number of at least 1, or auto")
    share = options.get("gpu_memory_utilization")
    if share is not None and not (_is_number(share) and 0 < share <= 1):
        raise InputError(f"gpu_memory_utilization {str(share)[:40]}: must be a number above 0, at most 1")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value  # noqa: PLR0124 - NaN


def _check_environment(variables: Mapping[str, str]) -> None:
    of_cards = next((variable for variable in fleet.OF_CARDS if variable in variables), None)
    if of_cards is not None:
        raise InputError(f"{of_cards}: follows from the GPUs and the layout; leave it out")
    partition = variables.get(settings.PARTITION)
    if partition is not None and settings.partition(partition) is None:
        raise InputError(settings.damaged(partition))


def _typed(name: str, options: Mapping[str, Any], version: str, knowledge: Callable[[], Knowledge]) -> dict[str, Any]:
    """Convert options that are values to the types that the release parses."""
    data = releases.load(version)
    words: list[str] = []
    values = {dest: value for dest, value in options.items() if value is not None}
    for dest, value in values.items():
        option = data.by_dest.get(dest)
        if option is None:
            near = alike(dest, sorted(data.by_dest), 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"{dest[:80]}: is not an option of vLLM {version}{hint}")
        kind = expected_type(option, value)
        if kind is not None:
            raise InputError(f"{dest}: must be {kind}; got {type(value).__name__}")
        words += option_words(option, value)
    read = _parsed(name, words, version, knowledge)
    return {**values, **{dest: value for dest, value in read.items() if value is not UNKNOWN}}


def _parsed(name: str, words: Sequence[str], version: str, knowledge: Callable[[], Knowledge]) -> Mapping[str, Any]:
    if not words:
        return {}
    result = parse([name, *words], releases.load(version))
    command = shlex.join(["vllm", "serve", name, *words])
    issues = lint.lint(command, knowledge(), lint.LintRequest(vllm=version)).issues
    errors = [issue for issue in issues if issue.severity == "error"]
    if result.is_refused or any(problem.kind == "out-of-bounds" for problem in result.problems):
        raise InputError(errors[0].message if errors else f"vLLM {version} rejects {shlex.join(words)}")
    # A value in JSON is a limit of the launch, which the planner knows.
    wrong = next((issue for issue in errors if issue.rule in OF_VALUES and "{" not in issue.text), None)
    if wrong is not None:
        raise InputError(wrong.message)
    return {dest: value for dest, value in result.flags.items() if dest not in ("model", "model_tag")}
