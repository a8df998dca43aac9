"""The compiled indexes of the catalog: found, read, and made anew where the authored files are newer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog.records import Entrance, LineFormat, Policy, Rule, Symptom
from vllm_runbooks.catalog.serving import Serving
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.core import user_folders
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import NotStoredError, store
from vllm_runbooks.core.record_forms import form, record

FORMAT = "5"
"""Changed when the index's own form changes, so that an older one is not read."""

Compiler = Callable[[Path], tuple[dict[str, Any], list[str]]]
"""Turns a catalog folder into an index of it and the problems found, one line each."""

T = TypeVar("T")


@cache
def _code(*kinds: type) -> str:
    """What an index depends on beside the authored files: the package's version, and the form of its records."""
    from importlib import metadata

    try:
        version = metadata.version("vllm-runbooks")
    except metadata.PackageNotFoundError:
        version = "none"
    return json.dumps([FORMAT, version, *map(form, kinds)])


def digest(files: Iterable[Path], *kinds: type) -> str:
    """Digest of authored files, of the package's version and of the records: an index with this key is fresh."""
    found = hashlib.sha256(_code(*kinds).encode())
    for path in files:
        found.update(path.name.encode() + b"\0")
        with suppress(OSError):
            found.update(path.read_bytes())
    return found.hexdigest()[:20]


def _read_index(path: Path, wanted: str | None, decoded: Callable[[Any], T]) -> T | None:
    """The index in a file; None where there is none, or one of other sources, or one that is damaged."""
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        return decoded(index) if wanted is None or index.get("key") == wanted else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def indexed(
    name: str, root: Path, key: Callable[[Path], str], compiler: Compiler | None, decoded: Callable[[Any], T]
) -> T:
    """A compiled index of a catalog folder: the packaged one, else the one kept under its key, else compiled anew.

    Raises:
        InputError: there is none, and no compiler was handed over, or this user has no home to keep it in.
    """
    packaged = _read_index(root / f"{name}.json", None, decoded) if root == folders.catalog_dir() else None
    if packaged is not None:
        return packaged
    fresh = key(root)
    cached = user_folders.cache() / f"{name}-{fresh}.json"
    index = _read_index(cached, fresh, decoded)
    if index is not None:
        return index
    if compiler is None:
        raise InputError(f"{root}: the catalog is not compiled; run `vllm-runbooks catalog check` once")
    compiled, problems = compiler(root)
    compiled = {**compiled, "problems": problems}
    with suppress(OSError, NotStoredError):  # a host without a writable home compiles anew each time
        cached.parent.mkdir(parents=True, exist_ok=True)
        store(cached, json.dumps(compiled, ensure_ascii=False, separators=(",", ":")))
    return decoded(compiled)


def sources(root: Path) -> list[Path]:
    """The authored files that the index of symptoms is made of, in a fixed order."""
    authored = (path for kind in ("symptoms", "policies") for path in sorted((root / kind).glob("*.yaml")))
    return [root / "lines.yaml", *authored]


def rule_sources(root: Path) -> list[Path]:
    """The authored files that the index of rules is made of, in a fixed order."""
    return sorted((root / "rules").glob("*.yaml"))


def key(root: Path) -> str:
    """Key of the index of symptoms."""
    shared = (
        folder / f"{name}.yaml"
        for folder in (folders.catalog_dir(), root)
        for name in ("patterns", "classes", "captures")
    )
    return digest((*shared, *sources(root)), Symptom, LineFormat, Policy)


def rules_key(root: Path) -> str:
    """Key of the index of rules."""
    return digest(rule_sources(root), Rule)


class _Index(NamedTuple):
    """A compiled catalog folder, decoded."""

    symptoms: Mapping[str, Symptom]
    lines: tuple[LineFormat, ...]
    policies: Mapping[str, Policy]
    problems: tuple[str, ...]
    """Files that were left out, as the compiler named them."""


def _decoded(index: Any) -> _Index:
    symptoms = [record(Symptom, data) for data in index["symptoms"]]
    lines = tuple(record(LineFormat, data) for data in index["lines"])
    policies = [record(Policy, data) for data in index["policies"]]
    return _Index({s.id: s for s in symptoms}, lines, {p.id: p for p in policies}, tuple(index.get("problems", ())))


def _index(root: Path, compiler: Compiler | None) -> _Index:
    return indexed("index", root, key, compiler, _decoded)


class RulesById(Mapping[str, Rule]):
    """Rules that become records when they are asked for: of a hundred a command breaks a few."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self._made: dict[str, Rule] = {}

    def __getitem__(self, name: str) -> Rule:
        if name not in self._made:
            self._made[name] = record(Rule, self._data[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._data

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    @cached_property
    def tables(self) -> dict[str, Mapping[str, Any]]:
        """The tables of the rules, by rule."""
        return {name: data.get("values") or {} for name, data in self._data.items()}


class Rules(NamedTuple):
    """The rules that commands are judged by."""

    by_id: RulesById
    problems: tuple[str, ...]
    """Files that were left out, as the compiler named them."""


def load_rules(compiler: Compiler | None = None) -> Rules:
    """Load the rules of `catalog/rules`."""

    def decoded(index: Any) -> Rules:
        return Rules(RulesById({data["id"]: data for data in index["rules"]}), tuple(index.get("problems", ())))

    root = folders.catalog_dir()
    return indexed("rules", root, rules_key, compiler, decoded)


def serving_source(root: Path) -> Path:
    """The authored file that the conditions of running servers are made of."""
    return root / "serving.yaml"


def serving_key(root: Path) -> str:
    """Key of the index of conditions of running servers."""
    return digest((serving_source(root),), Serving)


def load_serving(compiler: Compiler | None = None) -> Serving:
    """Load `catalog/serving.yaml`: the metrics of a running server, the figures made of them, and the conditions.

    Raises:
        InputError: it is not compiled and there is no compiler, or it is broken.
    """
    root = folders.catalog_dir()

    def decoded(index: Any) -> Serving:
        if index.get("serving") is None:
            raise InputError(f"{root}: serving.yaml is broken: {'; '.join(index.get('problems', ())) or 'missing'}")
        return record(Serving, index["serving"])

    return indexed("serving", root, serving_key, compiler, decoded)


def entrances_source(root: Path) -> Path:
    """The authored file of what people see, and where it leads."""
    return root / "entrances.yaml"


def entrances_key(root: Path) -> str:
    """Key of the index of entrances."""
    return digest((entrances_source(root),), Entrance)


def load_entrances(compiler: Compiler | None = None) -> tuple[Entrance, ...]:
    """Load `catalog/entrances.yaml`: what people see, in their words, and where it leads, in the order of the file.

    Raises:
        InputError: it is not compiled and there is no compiler, or it is broken.
    """
    root = folders.catalog_dir()

    def decoded(index: Any) -> tuple[Entrance, ...]:
        if index.get("entrances") is None:
            raise InputError(f"{root}: entrances.yaml is broken: {'; '.join(index.get('problems', ())) or 'missing'}")
        return tuple(record(Entrance, data) for data in index["entrances"])

    return indexed("entrances", root, entrances_key, compiler, decoded)


def toolchain_sources(root: Path) -> list[Path]:
    """The authored files of toolchains, in a fixed order."""
    return sorted((root / "toolchains").glob("*.yaml"))


def toolchains_key(root: Path) -> str:
    """Key of the index of toolchains."""
    return digest(toolchain_sources(root), Toolchain)


def load_toolchains(compiler: Compiler | None = None) -> tuple[Toolchain, ...]:
    """Load `catalog/toolchains`: each version of a toolchain that is known, the newest last.

    Raises:
        InputError: they are not compiled and there is no compiler, or one is broken.
    """
    root = folders.catalog_dir()

    def decoded(index: Any) -> tuple[Toolchain, ...]:
        if index.get("problems"):
            raise InputError(f"{root}: a toolchain is broken: {'; '.join(index['problems'])}")
        found = (record(Toolchain, data) for data in index["toolchains"])
        return tuple(sorted(found, key=lambda each: tuple(map(int, each.version.split(".")))))

    return indexed("toolchains", root, toolchains_key, compiler, decoded)


def load(compiler: Compiler | None = None, *, own: Iterable[str | Path] = ()) -> Catalog:
    """Load the catalog, and the user's own folders on top: what has the same id replaces what is shipped.

    A broken file among the shipped ones or the user's own is left out and named in `problems`.
    """
    index = _index(folders.catalog_dir(), compiler)
    problems = list(index.problems)
    symptoms, policies = dict(index.symptoms), dict(index.policies)
    for folder in own:
        root = Path(folder)
        if not str(folder).strip() or not root.is_dir():
            raise InputError(f"{folder or '(nothing)'}: no such catalog folder; name one that holds symptoms/")
        if not (root / "symptoms").is_dir():
            raise InputError(f"{folder}: holds no folder symptoms/; put your symptom files into {root / 'symptoms'}")
        added = _index(root, compiler)
        problems += [f"{folder}/{problem}" for problem in added.problems]
        symptoms.update(added.symptoms)
        policies.update(added.policies)
        if root.resolve() != folders.catalog_dir().resolve() and (root / "lines.yaml").is_file():
            problems.append(
                f"{folder}/lines.yaml:1: (file): is not used: only symptoms and policies may be added; remove the file"
            )
    return Catalog(dict(sorted(symptoms.items())), index.lines, tuple(problems), dict(sorted(policies.items())))
