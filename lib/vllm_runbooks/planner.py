"""The front door for plans: a model and cards by name, options as vLLM takes them, the data found."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_runbooks import options as releases
from vllm_runbooks import plans, session
from vllm_runbooks.arguments import parse
from vllm_runbooks.arguments.conditions import UNKNOWN
from vllm_runbooks.arguments.spelling import alike
from vllm_runbooks.arguments.typed import expected_type, option_words
from vllm_runbooks.checkpoints import tensor_bytes, tensor_names
from vllm_runbooks.deployment import fleet, is_secret
from vllm_runbooks.errors import InputError
from vllm_runbooks.files import store
from vllm_runbooks.plan_records import Find, Layouts, Plan
from vllm_runbooks.planning import actual, settings
from vllm_runbooks.planning.budget import Subject, drafted, subject, subject_in_catalog
from vllm_runbooks.planning.drafts import Draft, draft, draft_in_catalog
from vllm_runbooks.records import Compared

if TYPE_CHECKING:
    from vllm_runbooks.specs import Specs

_DTYPES = frozenset({"bfloat16", "float16", "float32", "half", "float", "auto"})
_MAX_CONFIG = 8_000_000
"""Bytes of a config.json; the largest that are published have some 200,000."""


def model(name: str) -> Subject:
    """A model by its catalog name, or by the folder that holds its config.json.

    Raises:
        InputError: There is no such model or folder, or its configuration cannot be read.
    """
    folder = _folder(name)
    if folder is not None:
        return _local(folder)
    specs = session.specs()
    found = subject_in_catalog(name, specs)
    if found is None:
        raise InputError(f"{name}: is no model of the catalog{_near(name, specs)}; give a folder with its config.json")
    return found


def _folder(name: str) -> Path | None:
    """The folder that a name means, by itself or by its config.json; None: it is the name of a model."""
    path = Path(name)
    try:
        if path.is_dir():
            return path
    except (OSError, ValueError):  # no system has a path so long, or with such a character
        return None
    return path.parent if path.name == "config.json" else None


def _draft(name: str) -> Draft | None:
    """A drafting model by its catalog name or its folder; None: its configuration is not at hand.

    Raises:
        InputError: The folder holds no configuration that can be read.
    """
    folder = _folder(name)
    if folder is not None:
        told = _local(folder)
        return draft(name, told.config, source=told.source, tensors=tensor_names(folder))
    return draft_in_catalog(name, session.specs())


def _near(name: str, specs: Specs) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only where a name is unknown

    lasts = {each.rpartition("/")[2].casefold(): each for each in specs.texts}
    near = get_close_matches(name.rpartition("/")[2].casefold(), list(lasts), n=3, cutoff=0.6)
    return f" (near: {', '.join(lasts[each] for each in near)})" if near else ""


def _local(folder: Path) -> Subject:
    path = folder / "config.json"
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is no plain file; give a folder with the model's config.json")
        with path.open("rb") as stream:
            text = stream.read(_MAX_CONFIG + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; give a folder with the model's config.json") from None
    if len(text) > _MAX_CONFIG:
        raise InputError(f"{path}: is larger than {_MAX_CONFIG} bytes, so no model's configuration")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        said = error if isinstance(error, json.JSONDecodeError) else "not readable as text"
        raise InputError(f"{path}: is no JSON: {said}") from None
    if not isinstance(config, Mapping):
        raise InputError(f"{path}: holds no JSON object, so no model's configuration")
    for key in ("torch_dtype", "dtype"):
        told = config.get(key)
        if told is not None and not (isinstance(told, str) and told.removeprefix("torch.") in _DTYPES):
            raise InputError(f"{path}: {key} is {str(told)[:40]}, no type of weights that vLLM runs; correct it")
    return subject(str(folder), config, source=str(path), checkpoint_bytes=tensor_bytes(folder))


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
) -> plans.Request:
    """What is asked, read and checked.

    Args:
        name: The model.
        gpus: The cards, as in `8xRTX3090` or `A100-80GB@node1,A100-80GB@node2`.
        vllm: The release; the newest that is known by default.
        tp: Tensor parallel size. So are the next two their own sizes; any of them given, the others are 1.
        pp: Pipeline parallel size.
        dp: Data parallel size.
        arguments: Further engine options as words of a command.
        options: The same by argparse destination.
        environment: Variables of the start.
        calibration: A file with what the user's own starts printed.
        is_calibrated: Whether earlier starts correct the plan at all.

    Raises:
        InputError: Something of it is not known, or the release refuses an option.
    """
    release = plans.release_of(vllm)
    asked = model(name)
    sizes = {plans.SIZES[key]: size for key, size in (("tp", tp), ("pp", pp), ("dp", dp)) if size is not None}
    wrong = next((f"{key} {size}" for key, size in sizes.items() if size < 1), None)
    if wrong is not None:
        raise InputError(f"{wrong}: parallel sizes are 1 at least")
    cards = plans.freest_first(session.cards(gpus))
    for node in dict.fromkeys(card.node for card in cards):
        fleet.check_host(node)
    parsed = _parsed(name, arguments, release.version)
    twice = next((dest for dest, size in sizes.items() if parsed.get(dest, size) != size), None)
    if twice is not None:
        raise InputError(f"{twice} is given twice: {parsed[twice]} and {sizes[twice]}; give it once")
    given = {**parsed, **_typed(name, options or {}, release.version), **sizes}
    _check_numbers(given)
    _check_environment(environment or {})
    overrides = given.get("hf_overrides")
    return plans.Request(
        drafted(actual.overridden(asked, given) if overrides else asked, given, _draft),
        cards,
        release,
        given,
        {each: None if is_secret(each, value) else value for each, value in (environment or {}).items()},
        _calibrate(calibration) if is_calibrated else None,
    )


_AT_LEAST = {
    "tensor_parallel_size": 1, "pipeline_parallel_size": 1, "data_parallel_size": 1, "max_num_batched_tokens": 1,
    "max_num_seqs": 1, "block_size": 1, "num_gpu_blocks_override": 1, "kv_cache_memory_bytes": 1, "cpu_offload_gb": 0,
}  # fmt: skip
_MOST = 2**48
"""No size that a start takes is larger: a typing error, or an attempt to use up time."""


def _check_numbers(given: Mapping[str, Any]) -> None:
    """Refuse numbers that no release starts with.

    Raises:
        InputError: One of them is out of range, or no number.
    """
    for dest, least in _AT_LEAST.items():
        value = given.get(dest)
        if value is not None and not (_is_number(value) and least <= value <= _MOST):
            raise InputError(f"{dest} {str(value)[:40]}: must be a number of {least} at least")
    length = given.get("max_model_len")
    if length is not None and length != "auto" and not (_is_number(length) and (length == -1 or 1 <= length <= _MOST)):
        raise InputError(f"max_model_len {str(length)[:40]}: must be a number of 1 at least, or auto")
    share = given.get("gpu_memory_utilization")
    if share is not None and not (_is_number(share) and 0 < share <= 1):
        raise InputError(f"gpu_memory_utilization {str(share)[:40]}: must be a number above 0, at most 1")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value  # noqa: PLR0124 - NaN


def _check_environment(given: Mapping[str, str]) -> None:
    """Refuse variables that no release starts with, and those that follow from the layout.

    Raises:
        InputError: There is one.
    """
    of_cards = next((each for each in fleet.OF_CARDS if each in given), None)
    if of_cards is not None:
        raise InputError(f"{of_cards}: follows from the cards and the layout; leave it out")
    partition = given.get(settings.PARTITION)
    if partition is not None and settings.partition(partition) is None:
        raise InputError(settings.damaged(partition))


def _typed(name: str, given: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Options that come as values, not as words: each of the type that the release converts a word to.

    Raises:
        InputError: The release has no such option, takes another type, or refuses the value.
    """
    data = releases.load(version)
    words: list[str] = []
    there = {dest: value for dest, value in given.items() if value is not None}
    for dest, value in there.items():
        option = data.by_dest.get(dest)
        if option is None:
            near = alike(dest, sorted(data.by_dest), 1)
            said = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"{dest[:80]}: is no option of vLLM {version}{said}")
        kind = expected_type(option, value)
        if kind is not None:
            raise InputError(f"{dest}: must be {kind}; {type(value).__name__} is given")
        words += option_words(option, value)
    read = _parsed(name, words, version)
    return {**there, **{dest: value for dest, value in read.items() if value is not UNKNOWN}}


def _parsed(name: str, words: Sequence[str], version: str) -> Mapping[str, Any]:
    """Engine options by argparse destination.

    Raises:
        InputError: The release refuses them.
    """
    if not words:
        return {}
    found = parse([name, *words], releases.load(version))
    if found.is_refused or any(problem.kind == "out-of-bounds" for problem in found.problems):
        from vllm_runbooks import checking  # noqa: PLC0415 - only for the words of a refusal

        command = shlex.join(["vllm", "serve", name, *words])
        issues = checking.lint_text(command, vllm=version).issues
        said = [issue.message for issue in issues if issue.severity == "error"]
        raise InputError(said[0] if said else f"vLLM {version} refuses {shlex.join(words)}")
    return {dest: value for dest, value in found.flags.items() if dest not in ("model", "model_tag")}


def _calibrate(own: str | Path | None) -> Any:
    from vllm_runbooks.planning import calibration  # noqa: PLC0415 - not for plans without it

    return calibration.load(own)


def has_sizes(asked: plans.Request) -> bool:
    """Whether the layout is given."""
    return not set(plans.SIZES.values()).isdisjoint(asked.options)


def plan_model(name: str, gpus: str, **more: Any) -> Plan:
    """One start on cards, its command linted; `more` is what `request` takes.

    Raises:
        InputError: as `request` and `plan`.
    """
    return plan(request(name, gpus, **more))


def plan_layouts(name: str, gpus: str, **more: Any) -> Layouts:
    """Every way to use the cards, the best first; `more` is what `request` takes.

    Raises:
        InputError: as `request` and `layouts`.
    """
    return layouts(request(name, gpus, **more))


def find_plan(name: str, gpus: str, what: str, **more: Any) -> Plan:
    """The longest "context", highest "concurrency", fewest "gpus" or lowest "utilization", with its plan.

    Raises:
        InputError: as `request` and `find`.
    """
    return find(request(name, gpus, **more), what)


def plan(asked: plans.Request) -> Plan:
    """One start as it is asked for, its command linted.

    Raises:
        InputError: Nothing about it can be planned.
    """
    return plans.checked(plans.plan(asked), session.knowledge(), asked)


def layouts(asked: plans.Request) -> Layouts:
    """Every way to use the cards, the commands of those that fit linted.

    Raises:
        InputError: Nothing about it can be planned.
    """
    return plans.layouts(asked, session.knowledge())


def find(asked: plans.Request, what: Find | str) -> Plan:
    """The answer to a question asked the other way round, with the plan that it leads to.

    Raises:
        InputError: There is no such question, or nothing can be planned.
    """
    smaller = [gpu for gpu in session.specs().table.gpus if gpu.total is not None and gpu.version is not None]
    smaller.sort(key=lambda gpu: (gpu.memory_gib, gpu.name))
    return plans.find(asked, Find(what), session.knowledge(), smaller)


def chosen(found: Plan | Layouts) -> Plan:
    """The plan itself, or the best of the layouts.

    Raises:
        InputError: None of them starts.
    """
    if isinstance(found, Plan):
        return found
    best = next((one for one in found.layouts if one.legal and one.fits is not False), None)
    if best is None:
        raise InputError("no layout fits, so there is nothing to deploy")
    return best


def deployed(
    asked: plans.Request, found: Plan | Layouts, *, first_port: int = 8000, retries_posts: bool = False
) -> Mapping[str, str]:
    """A plan as files by name: script, compose file and units for each host, nginx where there are several servers.

    Every command in them is linted for the release.

    Raises:
        InputError: The release has no option for the layout, or the linter finds an error in what was written.
    """
    made = plans.deployed(asked, chosen(found), first_port=first_port, retries_posts=retries_posts)
    for name, text in made.items():
        if name.endswith((".sh", ".yaml", ".service")):
            errors, _ = plans.faults(text, session.knowledge(), asked, name)
            if errors:
                raise InputError(f"{name}: is not written: {errors[0]}")
    return made


def deploy(
    asked: plans.Request, found: Plan | Layouts, folder: Path, *, first_port: int = 8000, retries_posts: bool = False
) -> list[Path]:
    """Write a plan's files into a folder; none is overwritten.

    Raises:
        InputError: as `deployed`; or a file is there already.
    """
    made = deployed(asked, found, first_port=first_port, retries_posts=retries_posts)
    there = next((name for name in made if (folder / name).exists()), None)
    if there is not None:
        raise InputError(f"{folder / there}: is there already; give another folder, or remove it first")
    for name, text in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        store(folder / name, text)
    return [folder / name for name in made]


def from_log(log: str, *, gpus: str | None = None, vllm: str | None = None, start: int | None = None) -> Compared:
    """What a start printed beside what is planned for it: the `plan` part of its diagnosis.

    Raises:
        InputError: The log cannot be read, or nothing in it can be compared.
    """
    found = session.diagnose(session.load_files([log], vllm=vllm), start=start, gpus=gpus).plan
    if found is None:
        raise InputError(f"{log}: prints no memory of a start that could be compared; give the log of a start")
    return found


def keep(found: Compared, path: Path) -> int:
    """Write what a start taught into a calibration file, beside what is there; how many rows it then holds.

    Raises:
        InputError: The file is there and is no calibration.
    """
    from vllm_runbooks.planning import calibration  # noqa: PLC0415 - not for plans without it

    there = calibration.read(session.read_text(str(path)), str(path)) if path.exists() else ()
    # The same start read again replaces its rows: it is no second measurement.
    rows = {
        (row.source, row.release, row.gpu, row.architecture, row.term, row.tensor_parallel_size): row
        for row in (*there, *found.residuals)
    }
    store(path, calibration.written(rows.values()))
    return len(rows)
