"""Compiled indexes of the catalog: find, read, and recompile them if authored files are newer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

from vllm_runbooks.catalog import folders
from vllm_runbooks.core import user_folders
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import NotStoredError, store
from vllm_runbooks.core.record_forms import form

Compiler = Callable[[Path], tuple[dict[str, Any], list[str]]]
"""Turns a catalog folder into an index of it and the problems found, one line each."""

T = TypeVar("T")


@cache
def _code() -> bytes:
    """Digest of the code that compiles and reads indexes; a package without sources has compiled ones."""
    catalog, core = Path(__file__).parent, Path(__file__).parents[1] / "core"
    files = [*sorted(catalog.rglob("*.py")), core / "scan.py", core / "record_forms.py"]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files if path.is_file())).digest()


def digest(files: Iterable[Path], row: type | None = None) -> str:
    """Key of an index: of its files, of the code, and of the fields of `row`, the class of a table's rows."""
    content = hashlib.sha256(_code() + (json.dumps(form(row)).encode() if row else b""))
    for path in files:
        content.update(path.name.encode() + b"\0")
        with suppress(OSError):
            content.update(path.read_bytes())
    return content.hexdigest()[:20]


def _read_index(path: Path, key: str | None, decode: Callable[[Any], T]) -> T | None:
    """Index in a file; None if it is missing, damaged, or has another key."""
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        return decode(index) if key is None or index.get("key") == key else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def indexed(name: str, root: Path, key: Callable[[Path], str], compiler: Compiler, decode: Callable[[Any], T]) -> T:
    """Index of a catalog folder: packaged, cached under its key, or compiled; raises InputError if none can be had."""
    packaged = _read_index(root / f"{name}.json", None, decode) if root == folders.catalog_dir() else None
    if packaged is not None:
        return packaged
    fresh = key(root)
    name = f"{name}-{fresh}.json"
    for folder in user_folders.caches():
        index = _read_index(folder / name, fresh, decode)
        if index is not None:
            return index
    compiled, problems = compiler(root)
    compiled = {**compiled, "problems": problems}
    for folder in user_folders.caches(create=True):
        with suppress(OSError, NotStoredError):
            folder.mkdir(parents=True, exist_ok=True)
            store(folder / name, json.dumps(compiled, ensure_ascii=False, separators=(",", ":")))
            break
    return decode(compiled)


@dataclass(frozen=True)
class Index(Generic[T]):
    """A compiled index of a catalog folder, with its compiler."""

    name: str
    sources: Callable[[Path], Iterable[Path]]
    """Its authored files, in a fixed order."""
    compiler: str
    """Compiler as `module:function`, imported only to compile, as it needs pydantic and a YAML
    parser."""
    decode: Callable[[Any], T]

    def key(self, root: Path) -> str:
        return digest(self.sources(root))

    def load(self, compiler: Compiler | None = None, root: Path | None = None) -> T:
        """Index of a catalog folder, by default the shipped one.

        Compiled by `compiler` if given.
        """
        return indexed(self.name, root or folders.catalog_dir(), self.key, compiler or self._compile, self.decode)

    def _compile(self, root: Path) -> tuple[dict[str, Any], list[str]]:
        try:
            compiler: Compiler = resolve_name(self.compiler)
        except ImportError:
            raise InputError(f"{root}: the catalog is not compiled; run `vllm-runbooks catalog check` once") from None
        return compiler(root)


def whole(index: Mapping[str, Any], name: str) -> Any:
    """Data of an index of a single file; raises InputError if the file is broken or missing."""
    if not index.get(name):
        problems = "; ".join(index.get("problems", ())) or "missing"
        raise InputError(f"{folders.catalog_dir()}: {name}.yaml is broken: {problems}")
    return index[name][0]
