"""List what to review in the catalog after a release of vLLM was added, each point with the file to change."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from vllm_runbooks.authoring.releases import call_sites, supported
from vllm_runbooks.authoring.releases.call_sites import Template
from vllm_runbooks.catalog import folders, load, options
from vllm_runbooks.catalog.options import CALLS, ENTRIES, Option, ReleaseData
from vllm_runbooks.catalog.sites import WORDINGS, read_wordings
from vllm_runbooks.catalog.specs import HostGpu
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.lint.moves import differing_defaults

_TEXTS = ("*.yaml", "symptoms/*.yaml", "rules/*.yaml", "policies/*.yaml", "tables/*.yaml")
_MAX_PLACES = 3
_GPUS = (None, "RTX3090", "A100-80GB", "H100-80GB")
"""GPUs whose calculated defaults are compared."""
_SHRUNK = 0.5
"""Share of the earlier records below which the generator probably no longer matches the sources."""
_ALIKE = 0.4
"""Share of common words from which on a message is shown as the new wording of another one."""
_GENERATORS = {"check": "serve_checks.py", "bound": "bounds.py", "default": "__init__.py", "feature": "__init__.py"}
"""Modules of this package that generate records, by kind; the others come from `dump_parser.py`."""
_NAMES = {
    "tool_parsers": "catalog/fits.yaml",
    "reasoning_parsers": "catalog/fits.yaml",
    "cache_types": "lib/vllm_runbooks/plan/kv_layers.py",
    "quantizations": "lib/vllm_runbooks/plan/weights.py",
    "registered": "catalog/tables/speculative_keys.yaml",
}
"""Files that a new name of a table may belong in; the other tables are only generated."""
_MODULES = "lib/vllm_runbooks/authoring/releases"
_SUPPORTED = f"{_MODULES}/supported.py"


class ReviewPoint(NamedTuple):
    """One point of a review."""

    file: str
    """File to change, below the project's folder."""
    text: str


class ReviewTopic(NamedTuple):
    """Points of a review with the same task."""

    title: str
    task: str
    points: tuple[ReviewPoint, ...]


@dataclass(frozen=True)
class _Releases:
    """A release and the one before it in a folder of release data."""

    folder: Path
    before: ReleaseData
    after: ReleaseData

    @cached_property
    def support(self) -> Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Names of each table in both releases, with their values."""
        document = json.loads((self.folder / "support.json").read_text(encoding="utf-8"))
        indexes = [document["releases"].index(data.version) for data in (self.before, self.after)]

        def in_release(table: str, index: int) -> Mapping[str, Any]:
            runs = ((name, run) for name, named in document[table].items() for run in named)
            return {name: (run[2:] or [None])[0] for name, run in runs if run[0] <= index <= run[1]}

        return {table: (in_release(table, indexes[0]), in_release(table, indexes[1])) for table in supported.TABLES}

    def added(self, kind: str) -> dict[str, Any]:
        known = self.before.of(kind)
        return {name: fields for name, fields in self.after.of(kind).items() if name not in known}

    def removed(self, kind: str) -> dict[str, Any]:
        known = self.after.of(kind)
        return {name: fields for name, fields in self.before.of(kind).items() if name not in known}


def review(version: str, folder: Path | None = None, messages: Iterable[Template] = ()) -> list[ReviewTopic]:
    """List what a release changed and the catalog does not cover yet; raises InputError.

    `messages` are those of the release's sources: a lost message is shown with the closest of them.
    """
    releases = _releases(folder or options.releases_dir(), version)
    topics = (
        _lost_messages(releases, load.load_catalog(()), list(messages)),
        _removed_names(releases),
        _changed_defaults(releases),
        _new_architectures(releases),
        _new_names(releases),
        _new_options(releases),
        _image_entry(releases),
        _generated(releases),
    )
    return [topic for topic in topics if topic.points]


def _releases(folder: Path, version: str) -> _Releases:
    records: dict[str, Any] = {}
    previous: ReleaseData | None = None
    for _, release, path in options.files(folder):
        options.apply(records, json.loads(path.read_text(encoding="utf-8")))
        data = ReleaseData(release, release, is_beyond=False, is_before=False, made={}, records=dict(records))
        if release == version and previous is not None:
            return _Releases(folder, previous, data)
        previous = data
    raise InputError(f"{version}: no release data, or none before it; `vllm-runbooks releases list` lists the releases")


def _lost_messages(releases: _Releases, catalog: Catalog, messages: Sequence[Template]) -> ReviewTopic:
    wordings = read_wordings(releases.folder / "logs" / WORDINGS)
    points = []
    for owner, patterns in call_sites.patterns_of(catalog).items():
        printed = sum(wordings.has(pattern, releases.after.version) is True for pattern in patterns)
        rest = f"wordings that it prints: {printed}"
        for pattern in patterns:
            was, is_printed = (wordings.has(pattern, data.version) for data in (releases.before, releases.after))
            if was and is_printed is False:
                name = owner.partition(":")[2]
                file, label = ("lines.yaml", f"{name}: ") if name else (f"symptoms/{owner}.yaml", "")
                closest = _closest(pattern, messages)
                new = f"; closest new message: {closest}" if closest else ""
                points.append(ReviewPoint(f"catalog/{file}", f"{label}{pattern} ({rest}){new}"))
    return ReviewTopic(
        "Messages that the release no longer prints",
        "If vLLM reworded the message, add the new wording and keep the old one.",
        tuple(points),
    )


def _closest(pattern: str, messages: Sequence[Template]) -> str | None:
    def words(text: str) -> set[str]:
        return set(re.findall(r"[a-z]{3,}", text.lower()))

    lost = words(re.sub(r"\(\?P<\w+>|\\[a-zA-Z]", " ", pattern))
    scored = ((len(lost & own) / len(lost | own), text) for text, _ in messages if len(own := words(text)) > 1)
    share, text = max(scored, default=(0.0, ""))
    return text.replace(call_sites.HOLE, "…")[:200] if share >= _ALIKE else None


def _removed_names(releases: _Releases) -> ReviewTopic:
    rules = load.rules().by_id
    points = []
    for kind, rule in (("option", "option.removed"), ("environment", "environment.removed")):
        replaced = rules[rule].values["replacements"]
        for name, fields in releases.removed(kind).items():
            places = _places(name)
            if name.lstrip("-") not in replaced and (places or fields.get("listed", True)):
                note = f"; named in {places}" if places else ""
                points.append(ReviewPoint(f"catalog/rules/{rule}.yaml", f"{name}: no replacement{note}"))
    for table in _NAMES:
        former, present = releases.support[table]
        named = {name: _places(name.rpartition(" ")[2]) for name in sorted(set(former) - set(present))}
        points += [
            ReviewPoint(places.partition(":")[0], f"{table} {name}: named in {places}")
            for name, places in named.items()
            if places
        ]
    return ReviewTopic(
        "Removed options, variables and names",
        "Add what replaces each one, and limit the fixes that set it to earlier releases.",
        tuple(points),
    )


def _places(name: str) -> str:
    """Lines of the authored catalog that contain a name; empty if there are none."""
    forms = [re.escape(name)]
    if name.startswith("--") and "-" in name[2:]:
        forms.append(re.escape(name[2:].replace("-", "_")))
    named = re.compile(rf"(?<![\w-])(?:{'|'.join(forms)})(?![\w-])")
    root = folders.catalog_dir()
    places = [
        f"catalog/{path.relative_to(root).as_posix()}:{number}"
        for form in _TEXTS
        for path in sorted(root.glob(form))
        if named.search(text := path.read_text(encoding="utf-8"))
        for number, line in enumerate(text.splitlines(), 1)
        if named.search(line)
    ]
    more = f" and {len(places) - _MAX_PLACES} more" if len(places) > _MAX_PLACES else ""
    return ", ".join(places[:_MAX_PLACES]) + more


def _changed_defaults(releases: _Releases) -> ReviewTopic:
    specs = load.specs()
    changed: dict[str, str] = {}
    for entry in (*ENTRIES, *CALLS):
        for name in _GPUS:
            card = HostGpu(specs.gpu(name)) if name else None
            for dest, _, old, new in differing_defaults(releases.before, releases.after, entry, specs.defaults, card):
                row = "check that its row covers this" if dest in specs.defaults.options else "no row"
                values = [value.value if value.is_known else "calculated" for value in (old, new)]
                changed.setdefault(dest, f"{dest}: {values[0]!r} -> {values[1]!r} ({row})")
    before, after = releases.before.environment, releases.after.environment
    for name in before.keys() & after.keys():
        old, new = before[name].default, after[name].default
        if old != new and name not in specs.defaults.environment:
            changed[name] = f"{name}: {old!r} -> {new!r} (add a row if the change matters)"
    return ReviewTopic(
        "Changed defaults",
        "Add a row with the effect, and vLLM's file and line.",
        tuple(ReviewPoint("catalog/defaults.yaml", text) for text in changed.values()),
    )


def _new_architectures(releases: _Releases) -> ReviewTopic:
    former, present = releases.support["modalities"]
    specs = load.specs()
    known = {name for model in specs.texts.values() for name in json.loads(model)["config"].get("architectures", ())}
    return ReviewTopic(
        "New architectures without a model in the catalog",
        "Add the models that people serve (docs/gpus-and-models.md); a new kind of layer goes into"
        " catalog/tables/families.yaml.",
        _joined("catalog/models", "", set(present) - set(former) - known),
    )


def _joined(file: str, label: str, names: Collection[str]) -> tuple[ReviewPoint, ...]:
    return (ReviewPoint(file, label + ", ".join(sorted(names))),) if names else ()


def _new_names(releases: _Releases) -> ReviewTopic:
    points: list[ReviewPoint] = []
    for table, file in _NAMES.items():
        former, present = releases.support[table]
        points += _joined(file, f"{table}: ", set(present) - set(former))
    return ReviewTopic(
        "New parsers, cache types, quantization methods and registered names",
        "lint knows them already. Add their models, sizes or keys if they are documented.",
        tuple(points),
    )


def _new_options(releases: _Releases) -> ReviewTopic:
    points = []
    for name, fields in releases.added("option").items():
        option = releases.after.by_string.get(name)
        if option is not None and not fields.get("deprecated"):
            is_listed = option.dest in supported.NAMES
            file = _SUPPORTED if _is_free_text(option) and not is_listed else "lib/vllm_runbooks/plan/settings.py"
            points.append(ReviewPoint(file, f"{name} ({option.group}, default {option.default!r})"))
    for name, fields in releases.added("key").items():
        if fields.get("type", "str") in ("str", {"optional": "str"}):
            points.append(ReviewPoint(_SUPPORTED, f"key {name} (default {fields.get('default')!r})"))
    return ReviewTopic(
        "New options",
        f"{_SUPPORTED}: a text; if vLLM looks it up in a list, add the list to NAMES and add the release again."
        " Others: teach the planner those that change memory.",
        tuple(points),
    )


def _is_free_text(option: Option) -> bool:
    is_text = option.type in ("str", {"optional": "str"})
    return option.takes_value and is_text and option.choices is None


def _image_entry(releases: _Releases) -> ReviewTopic:
    points = []
    if "image_entry" not in releases.after.features:
        points.append(ReviewPoint(f"catalog/releases/{releases.after.version}.json", "entry point unknown"))
    return ReviewTopic(
        "Entry point of vLLM's image", "Add the release again with --dockerfile docker/Dockerfile.", tuple(points)
    )


def _generated(releases: _Releases) -> ReviewTopic:
    former, present = (
        Counter(key.partition(" ")[0] for key in data.records) for data in (releases.before, releases.after)
    )
    counts = [
        (f"{_MODULES}/{_GENERATORS.get(kind, 'dump_parser.py')}", kind, former[kind], present[kind]) for kind in former
    ]
    counts += [
        (_SUPPORTED, table, len(old), len(new)) for table, (old, new) in releases.support.items() if table != "facts"
    ]
    points = [
        ReviewPoint(file, f"{name}: {count} records before, {left} now")
        for file, name, count, left in counts
        if left < count * _SHRUNK
    ]
    known, facts = releases.support["facts"]
    points += [
        ReviewPoint(_SUPPORTED, f"{name}: no longer read from the sources")
        for name, value in known.items()
        if value is not None and facts.get(name) is None
    ]
    return ReviewTopic(
        "Generated data that shrank", "The generator probably no longer matches vLLM's sources.", tuple(points)
    )
