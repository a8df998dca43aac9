"""Python classes of other packages that make an engine of vLLM: `catalog/tables/engine_classes.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.record_forms import Authored


@dataclass(frozen=True)
class EngineClass(Authored):
    """Classes of a package, and which of their arguments are the engine's."""

    source: str
    """Where they are public: repository and file, or page."""
    packages: tuple[str, ...]
    """Packages that they are imported from."""
    classes: Mapping[str, str]
    """Class of vLLM (LLM, EngineArgs or AsyncEngineArgs) by name of the class."""
    model: tuple[str, ...] = ()
    """Arguments with the model; a key of a mapping follows a dot."""
    keywords: tuple[str, ...] = ()
    """Arguments whose value is a mapping of the engine's arguments."""
    engine: tuple[str, ...] = ()
    """Arguments that are the engine's under the same name."""
    is_direct: bool = False
    """Whether all arguments are the engine's."""


@cache
def _by_name() -> Mapping[tuple[str, str], tuple[str, EngineClass]]:
    return {
        (package, name): (row_id, row)
        for row_id, row in load_table("engine_classes", EngineClass).items()
        for package in row.packages
        for name in row.classes
    }


def of_origin(origin: str) -> tuple[str, str, EngineClass] | None:
    """Id, class of vLLM and row of a class by its dotted name, as in `package.module.Class`."""
    package, _, rest = origin.partition(".")
    name = rest.rsplit(".", 1)[-1]
    found = _by_name().get((package, name))
    return None if found is None else (found[0], found[1].classes[name], found[1])
