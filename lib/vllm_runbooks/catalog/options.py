"""Options, keys of JSON options, environment variables and defaults of vLLM's releases, and their history.

The data is generated from the releases (`authoring.releases`) and is in `catalog/releases`: a file for each release,
one record a line, and only the records that differ from the release before. Any other version uses the nearest release.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Any, NamedTuple

from vllm_runbooks.catalog.folders import catalog_dir
from vllm_runbooks.catalog.tables import ConfigurationField, load_table
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import is_untagged

ENTRIES = ("serve", "api_server")
"""Programs with known command lines: `vllm serve` and `python -m
vllm.entrypoints.openai.api_server`."""
SERVERS = (*ENTRIES, "image")
"""Ways to launch a server: a program, or the default command of an image."""
CALLS = ("LLM", "EngineArgs", "AsyncEngineArgs")
"""Classes that launch vLLM from Python and whose parameters are known."""
_VERSION = re.compile(
    r"v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}+))?+"
    # Suffixes after the numbers without a separator: of pre- and post-releases, and CUDA's in tags.
    r"((?:(?:[-_.+]|[abc](?![A-Za-z])|rc|alpha|beta|pre|dev|post|cu(?=\d))[-_.+0-9A-Za-z]{0,79})?)",
    re.ASCII,
)
_BEFORE = re.compile(r"[-_.]?(?:a|b|c|rc|alpha|beta|pre|preview|dev)[-_.]?\d{0,9}(?:[^A-Za-z]|\Z)", re.ASCII)
_NEWEST = frozenset({"nightly", "latest", "main", "dev", "newest"})
_MAX_VERSION = 100
"""Characters of a text that is read as a version."""

Key = tuple[int, int, int, int]
"""Major, minor and patch of a version, then 0 for a pre-release and 1 for the release or later."""


def version_key(version: str) -> Key | None:
    """Sort key of a version; None if the text is not a version."""
    text = version.strip()
    match = _VERSION.fullmatch(text) if len(text) <= _MAX_VERSION else None
    if match is None:
        return None
    rank = 0 if _BEFORE.match(match[4]) else 1
    return int(match[1]), int(match[2]), int(match[3] or 0), rank


@dataclass(frozen=True)
class Option:
    """An option or positional argument as the release's parser defines it."""

    strings: tuple[str, ...]
    """All accepted spellings, in the parser's order; none for a positional."""
    dest: str
    type: Any
    """The conversion, in the grammar described in `docs/releases.md`; None without a value."""
    flag_values: Mapping[str, Any]
    """Value that each spelling of an option without a value sets."""
    action: str = "_StoreAction"
    """argparse's or vLLM's class of action."""
    nargs: int | str | None = None
    """Argparse's number of values; None is one."""
    const: Any = None
    default: Any = None
    """JSON, or {"repr": text}, or {"object": class} for an object of a configuration class with its own defaults."""
    choices: tuple[Any, ...] | None = None
    """The only values allowed after conversion."""
    required: bool = False
    deprecated: bool = False
    group: str | None = None
    hints: tuple[str, ...] = ()
    """Values that the help names without excluding others."""
    by_device: tuple[str, ...] = ()
    """Device-dependent fields: a default is a GPU's, choices are those of GPU and CPU together."""
    probes: Mapping[str, Any] = field(default_factory=dict)
    """Results of an action of vLLM's own for a list of texts."""

    @property
    def name(self) -> str:
        return next((text for text in self.strings if text.startswith("--")), (*self.strings, self.dest)[0])

    @property
    def takes_value(self) -> bool:
        return self.nargs != 0


@dataclass(frozen=True)
class EnvironmentVariable:
    """A variable that the release reads."""

    name: str
    default: Any
    """Default value after parsing: JSON, or {"repr": text}."""
    kind: str
    """str, int, float, bool, list, choice or other."""
    choices: tuple[Any, ...] | None
    is_case_sensitive: bool
    true: tuple[str, ...]
    """For kind bool: the tested texts that mean true."""
    refused: tuple[str, ...]
    """Tested texts that cause an error."""
    is_listed: bool
    """Whether vLLM lists it among its variables: it warns of names beginning with VLLM_ that are not listed."""


class Limit(NamedTuple):
    """A bound of a number: its sign, its words and its test."""

    sign: str
    words: str
    holds: Callable[[Any, Any], bool]


LIMITS: Mapping[str, Limit] = {
    "ge": Limit(">=", "at least", ge),
    "gt": Limit(">", "more than", gt),
    "le": Limit("<=", "at most", le),
    "lt": Limit("<", "less than", lt),
    "multiple_of": Limit("a multiple of", "a multiple of", lambda value, number: value % number == 0),
}
"""The limits in release data, by name."""


class Bound(NamedTuple):
    """A check of a release on arguments that its parser accepts."""

    dests: tuple[str, ...]
    refused: Any
    """Condition (see `reading.arguments.conditions`) under which it is rejected."""
    limits: Mapping[str, float]
    """For a bound of one argument: ge, gt, le or lt with a number; empty for any other
    condition."""
    says: str
    """The release's own message, with … for its values; empty for bounds."""
    at: str
    """File and line in the release's sources."""


class Default(NamedTuple):
    """Default value of an argument."""

    value: Any
    is_known: bool
    """False if the value depends on unknown inputs, which `depends_on` names."""
    depends_on: tuple[str, ...] = ()


class OptionChange(NamedTuple):
    """A change of an option or a variable in a release."""

    release: str
    """The first known release with the change."""
    after: str | None
    """The last release in the catalog before the change; None if the oldest one has it already, so
    that it may be older."""
    kind: str
    """added, changed or removed."""
    fields: Mapping[str, tuple[Any, Any]] = {}
    """For a change: old and new value, by field of the record."""


@dataclass(frozen=True, eq=False)
class ReleaseData:
    """All data of one release."""

    version: str
    """Release of the data."""
    asked: str
    """The requested release; names such as `latest` are resolved."""
    is_beyond: bool
    """Whether the requested release is newer than any in the catalog."""
    is_before: bool
    """Whether the requested release is older than any in the catalog."""
    made: Mapping[str, Any]
    """Origin of the data: package, origin ("parser" or "static"), Python, device."""
    records: Mapping[str, Any] = field(repr=False)
    """By "kind name"; see `docs/releases.md`."""

    @property
    def checked(self) -> str:
        """Release to name in messages.

        This is the requested one, unless it is older or newer than any in the catalog.
        """
        return self.version if self.is_beyond or self.is_before else self.asked

    def of(self, kind: str) -> dict[str, Any]:
        start = f"{kind} "
        return {key[len(start) :]: value for key, value in self.records.items() if key.startswith(start)}

    @cached_property
    def entries(self) -> Mapping[str, tuple[Option, ...]]:
        shared = [(name, fields, _option(name, fields)) for name, fields in self.of("option").items()]
        entries = {}
        for entry in ENTRIES:
            differing = self.of(entry)
            entry_options = [
                _option(name, differing.pop(name)) if name in differing else option
                for name, fields, option in shared
                if fields.get("only", entry) == entry
            ]
            entries[entry] = tuple(entry_options)
        return entries

    @cached_property
    def by_string(self) -> Mapping[str, Option]:
        return {text: option for entry in ENTRIES for option in self.entries[entry] for text in option.strings}

    @cached_property
    def by_dest(self) -> Mapping[str, Option]:
        """Options of both programs by argparse destination; the first if several share one."""
        return {option.dest: option for entry in ENTRIES for option in reversed(self.entries[entry])}

    @cached_property
    def objects(self) -> Mapping[str, Any]:
        keys: dict[str, dict[str, Any]] = {}
        for name, fields in self.of("key").items():
            owner, _, key = name.partition(".")
            keys.setdefault(owner, {})[key] = fields
        return {name: {**fields, "keys": keys.get(name, {})} for name, fields in self.of("object").items()}

    def keys(self, option: str) -> Mapping[str, Any] | None:
        """Keys of the JSON object that is an option's value, by any of its spellings; None if unknown."""
        option_record = self.by_string.get(option)
        kind = inner_type(option_record.type) if option_record else None
        name = kind.get("dataclass", "") if isinstance(kind, Mapping) else ""
        keys: Mapping[str, Any] | None = self.objects.get(name, {}).get("keys")
        return keys

    @cached_property
    def conversions(self) -> Mapping[str, Any]:
        return self.of("conversion")

    @cached_property
    def features(self) -> Mapping[str, Any]:
        return self.of("feature")

    @cached_property
    def checks(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self.of("check").values())

    @cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """Checks that the release makes only at launch: values out of bounds, and options that exclude each other."""
        places = self.of("place").get("bounds", {})
        return tuple(_bound(name, fields, places.get(name, "")) for name, fields in self.of("bound").items())

    @cached_property
    def switches_off(self) -> frozenset[str]:
        """Destinations of switches that are off by default on every device."""
        computed = self.of("default")
        off = (dest for dest, option in self.by_dest.items() if option.default is False and not option.by_device)
        return frozenset(dest for dest in off if dest not in computed)

    @cached_property
    def environment(self) -> Mapping[str, EnvironmentVariable]:
        return {
            name: EnvironmentVariable(
                name=name,
                default=fields.get("default"),
                kind=fields.get("kind", "str"),
                choices=tuple(fields["choices"]) if "choices" in fields else None,
                is_case_sensitive=fields.get("case_sensitive", True),
                true=tuple(fields.get("true", ())),
                refused=tuple(fields.get("refused", ())),
                is_listed=fields.get("listed", True),
            )
            for name, fields in self.of("environment").items()
        }

    @cached_property
    def parameters(self) -> Mapping[str, Mapping[str, Any]]:
        """Parameters of `LLM`, `EngineArgs` and `AsyncEngineArgs` by name, with their defaults if known."""
        by_class: dict[str, dict[str, Any]] = {}
        for name, fields in self.of("parameter").items():
            owner, _, parameter = name.partition(".")
            by_class.setdefault(owner, {})[parameter] = fields
        return by_class

    def option_of(self, field: str) -> str | None:
        """Destination of the option that sets a configuration field; None if there is none.

        Args:
            field: A name as in messages: `max_num_seqs`, `scheduler_config.policy` or `CacheConfig.cache_dtype`.
        """
        owner, _, name = field.rpartition(".")
        owner = owner.rpartition(".")[2]
        for key, row in load_table("configuration_fields", ConfigurationField).items():
            if row.option in self.by_dest and _words(key) == _words(f"{owner}.{name}"):
                return str(row.option)
        option = self.by_dest.get(name)
        if option is None or not owner or _words(option.group or "") == _words(owner):
            return None if option is None else name
        classes = {_words(each.group) for each in self.by_dest.values() if each.group}
        is_key = _words(owner) in map(_words, self.by_dest)  # of a JSON option
        return name if _words(owner) in classes and not is_key else None

    def taken_by(self, call: str) -> Mapping[str, Any]:
        """Parameters of a class, by name: its own and those that it passes to the engine's."""
        parameters = self.parameters.get(call, {})
        handed = self.parameters.get("EngineArgs", {}) if "kwargs" in parameters else {}
        return {name: fields for name, fields in {**handed, **parameters}.items() if name != "kwargs"}

    def default(
        self,
        dest: str,
        *,
        context: str = "serve",
        gpu: str | None = None,
        memory_gib: float | None = None,
        capability: str | None = None,
    ) -> Default:
        """Default of an engine argument, by argparse name.

        `context` is "serve" for a server and "llm" for the class LLM. Some defaults depend on the
        GPU: its name, its memory and its compute capability, such as "9.0".
        """
        moving = self.records.get(f"default {dest}")
        option = self.by_dest.get(dest)
        value = option.default if option else self.parameters.get("EngineArgs", {}).get(dest, {}).get("default")
        if moving is None or value is not None:
            is_known = option is not None or dest in self.parameters.get("EngineArgs", {})
            return Default(value, is_known, () if is_known else ("this release has no such argument",))
        return _moving_default(moving, context, _Device(gpu, memory_gib, capability))


def _words(name: str) -> str:
    """A name without its case and underscores: `LoRAConfig` and `lora_config` are one."""
    return name.replace("_", "").lower()


_TUPLES = ("strings", "choices", "hints", "by_device")
"""Fields of an option that are lists in JSON."""


def _option(name: str, fields: Mapping[str, Any]) -> Option:
    strings = tuple(fields.get("strings", (name,) if name.startswith("-") else ()))
    is_switch = fields.get("nargs") == 0
    flag_values = {text: not text.startswith("--no-") for text in strings} if is_switch else {}
    values: dict[str, Any] = {
        "dest": name.lstrip("-").replace("-", "_"),
        "type": "str",
        **{key: tuple(value) if key in _TUPLES else value for key, value in fields.items()},
        "strings": strings,
        "flag_values": flag_values if fields.get("values") is None else fields["values"],
    }
    if is_switch:
        values["type"] = None
    return Option(**{key: value for key, value in values.items() if key not in ("values", "only")})


def inner_type(kind: Any) -> Any:
    """A type without the optional ones around it: the type of a value that is passed."""
    while isinstance(kind, Mapping) and "optional" in kind:
        kind = kind["optional"]
    return kind


def _bound(name: str, fields: Mapping[str, Any], at: str) -> Bound:
    limits = {limit: fields[limit] for limit in LIMITS if limit in fields}
    if not limits:
        return Bound(tuple(name.partition(" ")[0].split("+")), fields["when"], {}, fields["says"], at)
    inside = [[LIMITS[limit].sign, ["arg", name], ["const", number]] for limit, number in limits.items()]
    refused = ["not", ["and", *inside]]
    return Bound((name,), ["and", fields["if"], refused] if "if" in fields else refused, limits, "", at)


class _Device(NamedTuple):
    name: str | None
    memory_gib: float | None
    capability: str | None

    def holds(self, condition: Mapping[str, Any]) -> bool | None:
        """Evaluate a condition of the release's table; None if unknown."""
        if "memory_gib" in condition:
            return None if self.memory_gib is None else self.memory_gib >= condition["memory_gib"]
        for kind, fact in (("name", self.name), ("capability", self.capability)):
            has, lacks = condition.get(f"{kind}_has"), condition.get(f"{kind}_lacks")
            if has or lacks:
                return None if fact is None else any(part in fact.lower() for part in has or lacks or ()) == bool(has)
        return None


def _moving_default(fields: Mapping[str, Any], context: str, device: _Device) -> Default:
    for row in fields.get("rows", ()):
        outcomes = [device.holds(condition) for condition in row["if"]]
        if False in outcomes:
            continue
        if None in outcomes:
            return Default(None, is_known=False, depends_on=("the GPU",))
        value = row["value"]
        if isinstance(value, dict):
            name = {"serve": "OPENAI_API_SERVER", "llm": "LLM_CLASS"}[context]
            return Default(value.get(name), name in value, () if name in value else ("the program",))
        return Default(value, is_known=True)
    return Default(None, is_known=False, depends_on=tuple(fields.get("depends_on", ())))


def releases_dir() -> Path:
    return catalog_dir() / "releases"


def files(folder: Path) -> list[tuple[Key, str, Path]]:
    """Release files of a folder, the oldest first: key, version, path."""
    rows = []
    for path in folder.glob("*.json"):
        key = version_key(path.stem)
        if key is not None and path.stem[0].isdigit() and path.stem.replace(".", "").isalnum():
            rows.append((key, path.stem, path))
    return sorted(rows)


@cache
def _files(folder: Path) -> tuple[tuple[Key, str, Path], ...]:
    release_files = tuple(files(folder))
    if not release_files:
        raise InputError(f"{folder}: no release data; create it with `vllm-runbooks releases add VERSION`")
    return release_files


@cache
def _document(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document["set"], dict) and isinstance(document["unset"], list):
            return dict(document)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise InputError(f"{path}: not release data; create it again with `vllm-runbooks releases add {path.stem}`")


def documents(folder: Path | None = None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for _, version, path in _files(folder or releases_dir()):
        yield version, _document(path)


class Names(NamedTuple):
    """The names that any release knows."""

    arguments: frozenset[str]
    """Argparse destinations of options, positionals and parameters."""
    variables: frozenset[str]


def names(folder: Path) -> Names:
    """Names in all release files of a folder; empty if it has none."""
    arguments: set[str] = set()
    variables: set[str] = set()
    for _, _, path in files(folder):
        for key, fields in _document(path)["set"].items():
            kind, _, name = key.partition(" ")
            if kind in ("option", *ENTRIES):
                arguments.add(_option(name, fields).dest)
            elif kind == "parameter":
                arguments.add(name.partition(".")[2])
            elif kind == "environment":
                variables.add(name)
    return Names(frozenset(arguments), frozenset(variables))


def is_within(version: str, row: Mapping[str, Any]) -> bool:
    """Whether a release is between the optional `first` and `last` of a table's row."""
    key = version_key(version) or ()
    first, last = (version_key(row.get(end, version)) or () for end in ("first", "last"))
    return first <= key <= last


def known_releases() -> tuple[str, ...]:
    return tuple(version for _, version, _ in _files(releases_dir()))


class Nearest(NamedTuple):
    """The release in the catalog whose data is used for a version."""

    version: str
    is_beyond: bool
    is_before: bool


def nearest(version: str) -> Nearest:
    """Release whose data is used for a version: of the same minor version or the next lower one.

    Raises InputError.
    """
    release_files = _files(releases_dir())
    if version.strip().lower() in _NEWEST:
        return Nearest(release_files[-1][1], is_beyond=False, is_before=False)
    key = version_key(version)
    if is_untagged(version):
        text = version.strip()[:40]
        raise InputError(f"{text!r} is a build without a release number; use the release that it is based on")
    if key is None:
        text = version.strip()[:40]
        raise InputError(f"{text!r} is not a vLLM version; use one such as {release_files[-1][1]}, or `latest`")
    keys = [known_key for known_key, _, _ in release_files]
    at = bisect_right(keys, key) - 1
    minor = key[:2]
    if (at < 0 or keys[at][:2] != minor) and at + 1 < len(keys) and keys[at + 1][:2] == minor:
        at += 1
    return Nearest(release_files[max(at, 0)][1], is_beyond=minor > keys[-1][:2], is_before=at < 0)


def load(version: str) -> ReleaseData:
    """Data of a release, or of the nearest known one; raises InputError if the text is no version."""
    return _asked(releases_dir(), version.strip())


@lru_cache(maxsize=64)
def _asked(folder: Path, requested: str) -> ReleaseData:
    release = nearest(requested)
    data = _load(folder, release.version)
    if requested == release.version or requested.lower() in _NEWEST:
        return data
    return replace(data, asked=requested, is_beyond=release.is_beyond, is_before=release.is_before)


@cache
def _load(folder: Path, version: str) -> ReleaseData:
    records: dict[str, Any] = {}
    made: Mapping[str, Any] = {}
    for release, document in documents(folder):
        apply(records, document)
        made = document.get("made", {})
        if release == version:
            break
    return ReleaseData(version, version, is_beyond=False, is_before=False, made=made, records=records)


def apply(records: dict[str, Any], document: Mapping[str, Any]) -> None:
    """Convert the records of one release to those of the next one."""
    for key in document["unset"]:
        records.pop(key, None)
    records.update(document["set"])


@cache
def _histories(folder: Path) -> Mapping[str, tuple[OptionChange, ...]]:
    changes_by_key: dict[str, list[OptionChange]] = {}
    records: dict[str, Any] = {}
    after: str | None = None
    for version, document in documents(folder):
        for key in document["unset"]:
            if key in records:
                changes_by_key.setdefault(key, []).append(OptionChange(version, after, "removed"))
        for key, fields_now in document["set"].items():
            if key in records:
                fields = _differences(records[key], fields_now)
                changes_by_key.setdefault(key, []).append(OptionChange(version, after, "changed", fields))
            else:
                changes_by_key.setdefault(key, []).append(OptionChange(version, after, "added"))
        apply(records, document)
        after = version
    return {key: tuple(changes) for key, changes in changes_by_key.items()}


def _differences(old: Any, new: Any) -> dict[str, tuple[Any, Any]]:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return {"value": (old, new)}
    return {name: (old.get(name), new.get(name)) for name in sorted({*old, *new}) if old.get(name) != new.get(name)}


def histories(kind: str) -> dict[str, tuple[OptionChange, ...]]:
    """The changes to all records of a kind ("option", "environment", …) by name, the oldest first."""
    start = f"{kind} "
    return {key[len(start) :]: changes for key, changes in _histories(releases_dir()).items() if key.startswith(start)}


def history(name: str) -> tuple[OptionChange, ...]:
    """Changes of an option's spelling, or of an environment variable; empty if no release has it."""
    releases, all_of = known_releases(), _histories(releases_dir())
    events: list[OptionChange] = []
    for life in _lives(releases_dir()).get(name, ()):
        within = releases[life.first + 1 : life.last + 1]
        changes = all_of.get(f"option {life.owner}") or all_of.get(f"environment {life.owner}") or ()
        events.append(OptionChange(releases[life.first], releases[life.first - 1] if life.first else None, "added"))
        events += [change for change in changes if change.kind == "changed" and change.release in within]
        if life.last + 1 < len(releases):
            events.append(OptionChange(releases[life.last + 1], releases[life.last], "removed"))
    return tuple(events)


class NameStatus(NamedTuple):
    """State of a name in one of the releases."""

    kind: str
    """"known", "gone", "to come" or "never"."""
    first: str = ""
    """For an option of later releases: the first release with it."""
    last: str = ""
    """For a removed option: the last release with it."""
    gone: str = ""
    """The first release without it."""
    owner: str = ""
    """For a removed spelling: the record name of the option."""


class NameLifetime(NamedTuple):
    """Consecutive releases that have a name, as indices of the known releases."""

    first: int
    last: int
    owner: str = ""


class PastNames(NamedTuple):
    """The known releases, and which of them have each name."""

    known: tuple[str, ...]
    lives: Mapping[str, tuple[NameLifetime, ...]]


def past() -> PastNames:
    """Names of all releases, loaded once for many look-ups."""
    return PastNames(known_releases(), _lives(releases_dir()))


def standing(name: str, data: ReleaseData, past_releases: PastNames, more: Iterable[NameLifetime] = ()) -> NameStatus:
    """Standing of an option's spelling or a variable in a release; `more` adds releases to the data."""
    lives = [*past_releases.lives.get(name, ()), *more]
    releases = past_releases.known
    at = releases.index(data.version)
    if any(life.first <= at <= life.last for life in lives):
        return NameStatus("known")
    before = [life for life in lives if life.last < at]
    if before:
        life = max(before, key=lambda past_life: past_life.last)
        return NameStatus("gone", last=releases[life.last], gone=releases[life.last + 1], owner=life.owner)
    if lives:
        return NameStatus("to come", first=releases[min(life.first for life in lives)])
    return NameStatus("never")


@cache
def _lives(folder: Path) -> Mapping[str, tuple[NameLifetime, ...]]:
    """Releases of each spelling of an option and each variable; a name may disappear and return."""
    lives_by_name: dict[str, list[NameLifetime]] = {}
    begun: dict[tuple[str, str], int] = {}
    spelt: dict[str, tuple[str, ...]] = {}
    last = 0
    for index, (_, document) in enumerate(documents(folder)):
        for key, fields in (*((key, None) for key in document["unset"]), *document["set"].items()):
            before, after = spelt.get(key, ()), () if fields is None else _names(key, fields)
            spelt[key] = after
            for name in set(before).difference(after):
                lives_by_name.setdefault(name, []).append(
                    NameLifetime(begun.pop((name, key)), index - 1, key.partition(" ")[2])
                )
            for name in set(after).difference(before):
                begun[name, key] = index
        last = index
    for (name, key), first in begun.items():
        lives_by_name.setdefault(name, []).append(NameLifetime(first, last, key.partition(" ")[2]))
    return {name: tuple(lives) for name, lives in lives_by_name.items()}


def _names(key: str, fields: Mapping[str, Any]) -> tuple[str, ...]:
    kind, _, name = key.partition(" ")
    if kind in ("environment", "parameter"):
        return (name,)
    return tuple(fields.get("strings", (name,) if name.startswith("-") else ())) if kind == "option" else ()
