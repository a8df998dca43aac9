"""Fixes that the failing software names in its own message, and what a message tells remedies about."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from vllm_runbooks.catalog import options, support
from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.catalog.options import version_key
from vllm_runbooks.catalog.records import RemedyText
from vllm_runbooks.catalog.tables import PackageName, load_table
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Checks, Edit, Facts, Finding, Release, Remedy, ServerRun
from vllm_runbooks.diagnosis.backend_reasons import rejecting_backends
from vllm_runbooks.diagnosis.internal_errors import features, quoted_exception
from vllm_runbooks.reading.arguments.spelling import alike, least_not_below

_LONGEST = 4000
"""Characters of a message that are searched."""
_MOST_LINES = 4
"""Lines of a message that may name a fix; what follows is output of other programs."""
_STARTUP = re.compile(
    r"dummy|mm_max_|profile_run|determine_(?:num_)?available|build_async_engine_client|from_engine_args|from_vllm_config|"
    r"initialize_kv_caches|compile_or_warm_up_model|\Aload_model\Z|\Ainit_device\Z"
)
"""Functions that only a launch runs, before any request."""
MAX_NAMED = 2
"""Most fixes that are taken from one message."""
_ASKED = (
    r"(?:\brequires\s|(?:^|[.;:,(!]\s{0,2}|\b(?:[Pp]lease|[Tt]ry|can|should|must|need to|either|or|and|by|then)\s)"
    r"(?:[Uu]s(?:e|ing)|[Ss]et(?:ting)?|[Ee]xport(?:ing)?|[Pp]ass(?:ing)?|[Aa]dd(?:ing)?|[Ss]pecify(?:ing)?|"
    r"[Ee]nabl(?:e|ing)(?: \w{2,20} (?:with|by setting|using|via))?|[Rr]un with|[Tt]ry|[Pp]rovide|[Ll]aunch with|"
    r"[Ss]tart with|[Ii]nstall)\s)"
    r"(?:(?:the|environment|env|variable|var|flag|option|argument|vLLM|with|engine arg)\s){0,4}[`'\"(]{0,2}"
)
"""A request to do something, not the description of what was done."""
_VALUE = (
    r"(?!(?:an?|and|as|at|for|if|in|instead|is|on|or|the|to|when|while|with)\b)"
    r"[`'\"]{0,2}(?P<value>[\w/+-][\w./:+-]{0,59}?)(?=[`'\",.;)!]{0,3}(?:\s|\Z))"
)
_ENVIRONMENT = re.compile(
    _ASKED + r"(?P<name>[A-Z][A-Z0-9_]{3,59})[`'\"]?(?:=|\s(?:(?:environment|env) var(?:iable)? )?to\s)" + _VALUE,
    re.ASCII,
)
_OPTION = re.compile(_ASKED + r"--(?P<name>[a-z][a-z0-9-]{2,59})(?:[`'\"]?(?:=|\s(?:to\s)?)" + _VALUE + r")?", re.ASCII)
_ARGUMENT = re.compile(_ASKED + r"(?P<name>[a-z][a-z0-9_.]{3,59})=" + _VALUE, re.ASCII)
_NAME = r"[`'\"]?(?:--)?(?P<name>[a-z][a-z0-9_.-]{3,59})[`'\"]?"
_LIMITS = (
    re.compile(
        r"\b(?:[Ii]ncreas|[Rr]ais|[Ss]et|[Rr]educ|[Dd]ecreas|[Ll]ower)(?:e|ing|t|ting)?\s(?:the\s)?"
        + _NAME
        + r"\sto\s(?:at least\s|at most\s|a value of at least\s)?(?P<value>\d{1,9})\b",
        re.ASCII,
    ),
    re.compile(
        _NAME + r"(?:\s\(?=?\d{1,12}\)?)?\s(?:must|should|has to|needs to) be (?:set to )?"
        r"(?:at least|at most|>=|<=|(?:greater|less) than or equal to)\s(?P<value>\d{1,9})\b",
        re.ASCII,
    ),
    re.compile(
        r"[(=](?P<value>\d{1,9})\)?\s(?:must be (?:<=|less than or equal to|at most)|is (?:larger|greater|bigger) than|"
        r"cannot exceed|exceeds)\s(?:the\s)?(?P<name>max_num_batched_tokens)\s?\(?=?\d{1,9}\b",
        re.ASCII,
    ),
)
"""Options with the least or greatest value that they may have, as vLLM prints them."""
_PIP = re.compile(
    r"\bpip3? install (?:(?:-U|--upgrade|-q) ){0,2}[`'\"]?(?P<name>[A-Za-z][\w.-]{1,40}(?:\[[\w,-]{1,40}\])?"
    r"(?:[=<>~!]=[\w.]{1,20})?)",
    re.ASCII,
)
_AIDS = re.compile(
    r"CUDA_LAUNCH_BLOCKING|NCCL_DEBUG|TORCH\w*|VLLM_LOGGING\w*|AMD_\w+|HIP_LAUNCH_BLOCKING|PYTORCH_\w+|RAY_\w*LOG\w*|"
    r"VLLM_ALLOW_LONG_MAX_MODEL_LEN|VLLM_TRACE\w*|HYDRA\w*|TF_\w+|\w*(?:TOKEN|KEY|SECRET|PASSWORD)\w*",
    re.ASCII,
)
"""Variables that show a failure or hide it, and secrets."""
_CONFIG = re.compile(r"\bvalidation errors? for (\w{3,40}Config)\b", re.ASCII)
_SETTING = re.compile(r"\b[a-z]{2,30}(?:_[a-z\d]{1,30}){1,6}\b(?!\()", re.ASCII)
"""A name in the form of an option's destination."""
_CAPITALS = re.compile(r"[A-Z]+(?=[A-Z][a-z]|\Z)|[A-Z][a-z]+")
"""Words of a class's name: `KVTransferConfig` is kv, transfer, config."""
_OF_CUDA = re.compile(r"FLASHINFER|FLASH_ATTN|CUDA|NCCL|CUTLASS|MARLIN|TRTLLM", re.IGNORECASE)
_LISTENS = "create_server_socket"
"""Function of vLLM that binds the port of the API server."""
_LEFT_TO_PLAN = ("oom", "kv", "mem", "api")
"""Groups whose fixes depend on figures or on the client."""


def context(
    starts: Sequence[ServerRun],
    cause: Finding,
    facts: Facts,
    release: Release,
    arguments: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, str]:
    """Captures of a cause, with what remedies may test: its whole message and frames, package and release."""
    quote = cause.evidence[0] if cause.evidence else None
    found = None if quote is None else quoted_exception(starts, quote)
    chain = () if found is None else found[0].chain[found[1] :]
    text = chain[0].message if chain else quote.text if quote is not None else ""
    given = cause.captures
    if cause.class_ == "cli.bad_value" and not given.get("option") and (name := _named_option(text, _data(release))):
        given = {**given, "option": name}
    more = {
        "message": text[:_LONGEST],
        **dict(_derived(given, facts, release)),
        **rejecting_backends(text),
        **_json_option(text, given.get("option", ""), release, arguments),
    }
    if chain:
        more["frames"] = " ".join(f"{frame.posix_path}:{frame.function}" for link in chain for frame in link.frames)
        more.update(dict.fromkeys((name for link in chain for name in features(link)), "yes"))
        if any(_STARTUP.search(frame.function) for link in chain for frame in link.frames):
            more["in_startup"] = "yes"
        if "port" not in given and any(f.function == _LISTENS for link in chain for f in link.frames) and arguments:
            more["port"] = str(arguments.get("port") or _data(release).by_dest["port"].default)
    whole = "\n".join([text, *(piece.text for piece in cause.evidence), given.get("rule", "")])
    corrected = dict(_corrections(given, whole, _data(release), arguments))
    if "json_option" in more:
        corrected.pop("option", None)  # the message names a key of its value
    captures = {**more, **given, **corrected}
    if captures.get("option") == "":
        del captures["option"]  # the command does not set it
    elif captures.get("option", "").startswith("-"):
        captures["option"] = captures["option"].partition("/")[0]  # without its aliases
    if _LISTENS in captures.get("frames", "") and captures.get("port", "").isdigit():
        captures["next_port"] = str(int(captures["port"]) + 1)
    names = (name.lstrip("-").replace("-", "_") for name in captures.get("option", "").split("/"))
    return {**captures, **({"defines_service": "yes"} if _DEFINES_SERVICE.intersection(names) else {})}


_REJECTED = re.compile(r"\berror: argument (--[\w-]{2,60})", re.ASCII)
_INPUT = re.compile(r"\binput_value='([^']{1,60})'", re.ASCII)
_ALLOWED = re.compile(
    r"\b(?:choo?se from|Available \w{1,20}(?: \w{1,20})?:|Input should be(?= ')|[Mm]ust be one of|"
    r"[Ee]xpected one of|(?:Valid|Supported) \w{1,20}(?: \w{1,20})?(?: are)?:)"
    r"(?P<values>(?:(?! \[type=|\.(?:\s|\Z))[^|\n]){1,3000})",
    re.ASCII,
)
_ALLOWED_VALUE = re.compile(r"\b(?!(?:and|or)\b)[A-Za-z0-9](?:[\w.+-]{0,58}\w)?", re.ASCII)
_QUOTED_VALUE = re.compile(rf"(?<=['\"]){_ALLOWED_VALUE.pattern}(?=['\"])", re.ASCII)
_WITH_UNIT = re.compile(r"(\d{1,6})([kKmMgG])i?[bB]", re.ASCII)
"""A number with a unit of bytes, which options for counts reject."""
_COUNT = re.compile(r"\d{1,18}", re.ASCII)
_PERCENT = re.compile(r"([1-9]\d)(?:\.0)?", re.ASCII)
_BARE_KEY = re.compile(r"([{,]\s{0,4})([A-Za-z_]\w{0,60})(\s{0,4}:)", re.ASCII)
_BARE_WORD = re.compile(r"(:\s{0,4})(?!(?:true|false|null)\b)([A-Za-z_][\w./-]{0,80})(?=\s{0,4}[,}])", re.ASCII)
_PAIRS = re.compile(r"\w{1,40}[=:][\w./-]{1,80}(?:,\w{1,40}[=:][\w./-]{1,80}){0,20}", re.ASCII)
_UNREADABLE = re.compile(r"Value (?P<value>.{1,400}) cannot be converted to <function loads", re.ASCII)
_UNKNOWN_OPTION = re.compile(r"--(?P<name>[A-Za-z][\w-]{2,60})(?:[ =](?P<value>[^\s-]\S{0,200}))?", re.ASCII)
_DEFINES_SERVICE = frozenset({
    "api_key", "chat_template", "convert", "data_parallel_size", "enable_lora", "hf_overrides", "host", "lora_modules",
    "model", "model_tag", "pipeline_parallel_size", "port", "revision", "root_path", "runner", "served_model_name",
    "ssl_certfile", "ssl_keyfile", "task", "tensor_parallel_size", "tokenizer", "tokenizer_revision",
})  # fmt: skip
"""Options that define what is served, where and to whom; fixes must not remove them."""
_CLOSE_VALUE, _CLOSE_NAME = 0.6, 0.8
"""Least similarity of a value or an option's name to the one that was probably intended."""


def _closest(value: str, allowed: Sequence[str]) -> list[str]:
    """The listed value that was meant, if any: of numbers, the least that is no smaller; else by spelling."""
    if _COUNT.fullmatch(value):
        return least_not_below(value, allowed)
    return difflib.get_close_matches(value, {*allowed} - {value}, 1, _CLOSE_VALUE) if value else []


def _corrections(
    captures: Mapping[str, str], message: str, data: options.ReleaseData, arguments: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """The option that a message rejects as it was typed, and the value or the name that was probably intended."""
    option = captures.get("option", "")
    rejected = _REJECTED.search(message)
    if rejected and not option.startswith("-"):
        yield "option", rejected[1]  # the message names a key of its value
        return
    if option and not option.startswith("-"):
        yield "option", _typed_option(captures, message, data, arguments)
    value = captures.get("value") or captures.get("parser") or next(iter(_INPUT.findall(message)), "")
    allowed = [
        name
        for match in _ALLOWED.finditer(message)
        for name in _QUOTED_VALUE.findall(match["values"]) or _ALLOWED_VALUE.findall(match["values"])
    ]
    close = _closest(value, allowed)
    in_bytes, percent = _WITH_UNIT.fullmatch(value), _PERCENT.fullmatch(value)
    if allowed:
        yield "allowed", ", ".join(dict.fromkeys(allowed))
    if close:
        yield "closest", close[0]
    elif in_bytes:
        yield "closest", str(int(in_bytes[1]) * 1024 ** (" KMG".index(in_bytes[2].upper())))
    elif percent and captures.get("rule", "").endswith("less than or equal to 1"):
        yield "closest", str(int(percent[1]) / 100)
    dimension, ranks = captures.get("dimension", ""), captures.get("ranks", "")
    if dimension.isdigit() and ranks.isdigit():
        powers = [2**power for power in range(1, 6) if 2**power < int(ranks) and int(dimension) % 2**power == 0]
        if powers:
            yield "dividing_ranks", str(powers[-1])
    unreadable = _UNREADABLE.search(message)
    if unreadable and (mapping := _as_json(unreadable["value"])):
        yield "json_value", mapping
    unknown = _UNKNOWN_OPTION.fullmatch(captures.get("options", ""))
    if unknown:
        name, names = unknown["name"].replace("-", "_"), [*data.by_dest]
        near = [dest for dest in difflib.get_close_matches(name, names, 1, _CLOSE_NAME) if dest != name]
        # The name nearest to a switch may be its opposite: `--disable-X` and `--enable-X`.
        if near and unknown["value"] is not None and data.by_dest[near[0]].takes_value:
            yield "near", near[0]
            yield "near_value", unknown["value"]


def _typed_option(
    captures: Mapping[str, str], message: str, data: options.ReleaseData, arguments: Mapping[str, Any]
) -> str:
    """The option that set a rejected field: its own, or one of its class from which vLLM derived the value.

    Empty if the command sets neither.
    """
    config, field = _CONFIG.search(message), captures["option"]
    dest = data.option_of(f"{config[1]}.{field}" if config else field)
    if dest is None or dest in arguments or not arguments:
        return dest or field
    of_class = [name for name, option in data.by_dest.items() if option.group == data.by_dest[dest].group]
    return next((name for name in of_class if str(arguments.get(name)) == captures.get("value")), "")


def _as_json(value: str) -> str | None:
    """A JSON object that was written without quotes, as pairs or with a template's braces; None if it is no object."""
    if _PAIRS.fullmatch(value):
        value = "{" + value.replace("=", ":") + "}"
    if value.startswith("{{") and value.endswith("}}"):
        value = value.replace("{{", "{").replace("}}", "}")
    try:
        parsed = json.loads(_BARE_WORD.sub(r'\1"\2"', _BARE_KEY.sub(r'\1"\2"\3', value.replace("'", '"'))))
    except ValueError:
        return None
    return json.dumps(parsed) if isinstance(parsed, dict) else None


def _derived(captures: Mapping[str, str], facts: Facts, release: Release) -> Iterator[tuple[str, str]]:
    package = captures.get("package", "")
    row = load_table("python_packages", PackageName).get(package)
    if row is not None:
        yield "distribution", (row.rocm if facts.platform == "rocm" else None) or row.install
    elif package and "." not in package:
        yield "distribution", package.replace("_", "-")
    architecture = re.match(r"\w{2,80}", captures.get("architecture", ""))
    if architecture is not None and architecture[0] != "None":
        respelt = support.respelt(architecture[0])
        if respelt is not None:
            yield "respelt", respelt
        try:
            supporting = support.releases_of(architecture[0])
        except InputError:
            return
        present = version_key(release.version or "") or ()
        later = [version for version in supporting if (version_key(version) or ()) > present]
        if release.version in supporting:
            yield "serving_release", release.version
        elif later:
            yield "first_release", later[0]
        elif not supporting:
            yield "latest_release", options.known_releases()[-1]


def _named_option(message: str, data: options.ReleaseData) -> str:
    """The first option, or key of the rejected configuration, that a message names; empty if there is none."""
    names = _SETTING.findall(message.partition(" [type=")[0])
    return next((name for name in names if _holder(name, message, data) or data.option_of(name)), "")


def _json_option(message: str, key: str, release: Release, arguments: Mapping[str, Any]) -> Mapping[str, str]:
    """The option whose JSON has a rejected key, and the key that may be meant."""
    config = _CONFIG.search(message)
    if config is None:
        return {}
    data = _data(release)
    dest = "_".join(_CAPITALS.findall(config[1])).lower()
    if dest not in data.by_dest or (dest not in arguments and data.option_of(f"{config[1]}.{key}") in arguments):
        return {}
    known = data.objects.get(config[1], {}).get("keys", {})
    near = alike(key, sorted(known), 1) if key not in known else []
    return {"json_option": dest, **({"json_near": near[0]} if near else {})}


def named(
    cause: Finding | None,
    message: str,
    texts: Sequence[RemedyText],
    facts: Facts,
    release: Release,
    *,
    lang: str | None,
) -> tuple[Remedy, ...]:
    """Fixes that the message of a cause names, if the release has them; none that the symptom treats itself."""
    if cause is not None and cause.class_.partition(".")[0] in _LEFT_TO_PLAN:
        return ()
    treated = {edit.name for text in texts for edit in text.edits}
    say = Wording(lang)
    remedies: dict[str, Remedy] = {}
    advice = "\n".join(message.split("\n")[:_MOST_LINES])
    for title, name, edits in _named(advice, facts, _data(release)):
        if not treated.intersection(edit.name for edit in edits):
            remedies.setdefault(title, Remedy(say(title, name=name), say("not estimated"), edits, None, UNCHECKED))
    return tuple(remedies.values())[:MAX_NAMED]


UNCHECKED = Checks(
    lint="unknown: the command does not change",
    plan="unknown: the command does not change",
    parser="unknown: not run",
)


def _data(release: Release) -> options.ReleaseData:
    try:
        return options.load(release.version or options.known_releases()[-1])
    except InputError:
        return options.load(options.known_releases()[-1])


def _named(message: str, facts: Facts, data: options.ReleaseData) -> Iterator[tuple[str, str, tuple[Edit, ...]]]:
    for match in _ENVIRONMENT.finditer(message):
        name, value = match["name"], match["value"]
        is_known = not name.startswith("VLLM_") or name in data.environment
        is_elsewhere = facts.platform not in (None, "cuda") and _OF_CUDA.search(f"{name} {value}")
        if is_known and not is_elsewhere and not _AIDS.fullmatch(name):
            yield "Set {name}, as the message recommends", f"{name}={value}", (Edit("env", name, value),)
    for match in (*_OPTION.finditer(message), *_ARGUMENT.finditer(message)):
        name = data.option_of(match["name"].replace("-", "_")) or ""
        option = data.by_dest.get(name) or data.by_string.get(f"--{match['name']}")
        value = _typed(match["value"], option)
        if option is None and value is not None and (holder := _holder(match["name"], message, data)):
            yield "Set {name}, as the message recommends", f"{holder}.{match['name']}={value}", ()
        if option is not None and value is not None:
            shown = option.dest if value is True else f"{option.dest}={value}"
            yield "Set {name}, as the message recommends", shown, (Edit("set", option.dest, value),)
    for match in (match for pattern in _LIMITS for match in pattern.finditer(message)):
        dest = data.option_of(match["name"].replace("-", "_"))
        if dest is not None:
            edits = (Edit("set", dest, int(match["value"])),)
            yield "Set {name}, as the message requires", f"{dest}={match['value']}", edits
    for match in _PIP.finditer(message):
        if match["name"] == "transformers" and "lease upgrade" not in message:
            continue
        if facts.platform == "cpu" and match["name"].partition("[")[0] == "ray":
            continue  # vLLM does not support Ray there
        yield "Install {name} with pip, as the message recommends", match["name"], ()


def _holder(key: str, message: str, data: options.ReleaseData) -> str:
    """The JSON option whose rejected configuration may have a key; empty if none has."""
    config = _CONFIG.search(message)
    if config is None:
        return ""
    dest = "_".join(_CAPITALS.findall(config[1])).lower()
    return dest if dest in data.by_dest and key in data.objects.get(config[1], {}).get("keys", {key}) else ""


def _typed(value: str | None, option: options.Option | None) -> Any:
    """A value as an edit has it; None if the message names none and the option needs one."""
    if option is not None and not option.takes_value:
        return (value or "true").lower() not in ("false", "0")
    if value is None:
        return None
    return int(value) if value.isdigit() else value
