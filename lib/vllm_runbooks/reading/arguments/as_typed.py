"""Options as they are typed, by their names or argparse destinations."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any


def option_words(option: str, value: Any) -> list[str]:
    """An option and its value as words of a command; empty for a value of None."""
    if value is None:
        return []
    if value is True:
        return [option]
    if value is False:
        return [f"--no-{option.removeprefix('--')}"]
    if isinstance(value, (list, tuple)):
        return [option, *(item if isinstance(item, str) else json.dumps(item) for item in value)]
    if isinstance(value, Mapping):
        return [option, json.dumps(value, ensure_ascii=False)]
    return [option, str(value)]


def option_of(name: str) -> str:
    """The option of an argparse destination."""
    return f"--{name.replace('_', '-')}"


def as_option(name: str, value: Any) -> str:
    """An option, by its argparse destination, and its value as they are typed; the subcommand after its program.

    An upper-case name is a variable of the environment.
    """
    if name.isupper():
        return f"{name}={shlex.quote(str(value))}"
    if name == "subparser":
        return f"vllm {value}"
    return shlex.join(option_words(option_of(name), value))
