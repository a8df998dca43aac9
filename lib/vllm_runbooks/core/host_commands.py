"""The former place of `catalog.host_commands`."""

from pkgutil import resolve_name
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(resolve_name("vllm_runbooks.catalog.host_commands"), name)
