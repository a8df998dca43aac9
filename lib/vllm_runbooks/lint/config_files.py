"""The YAML file of `--config`: its name and its content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vllm_runbooks.core.excerpt import Excerpt, LineIndex
from vllm_runbooks.reading.documents import LaunchFile, yaml_places
from vllm_runbooks.reading.documents.starts import WrittenLaunch
from vllm_runbooks.reading.shell import Word

_MAX_DEPTH = 20
_MAX_KEYS = 300
SUFFIXES = (".yaml", ".yml")
_SWITCHES = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
_NOTHING = ("", "~", "null", "Null", "NULL")
_WHOLE = re.compile(r"[-+]?[0-9][0-9_]{0,30}\Z", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]{0,30})?\.[0-9_]{0,30}(?:[eE][-+][0-9]{1,3})?\Z", re.ASCII)


@dataclass(frozen=True)
class Config:
    values: Mapping[str, Any]
    """By key, with the types of vLLM's YAML reader."""
    lines: Mapping[str, int]


def word_of(launch: WrittenLaunch) -> Word | None:
    """Word that names the config file of a launch; None without one, or with two."""
    words = launch.words
    places = [at for at, word in enumerate(words) if word.value == "--config"]
    return words[places[0] + 1] if len(places) == 1 and places[0] + 1 < len(words) else None


def names(page: LaunchFile) -> list[str]:
    """Config files next to a script; those of a container are elsewhere."""
    files = []
    for launch in page.starts:
        word = word_of(launch)
        name = word.value if word is not None else None
        if name and name.endswith(SUFFIXES) and launch.kind in ("shell", "systemd") and "\0" not in name:
            files.append(name)
    return list(dict.fromkeys(files))


def read(text: str) -> Config | None:
    """Parse a config file; None if it is no YAML mapping, which vLLM rejects."""
    try:
        node = yaml_places.read(Excerpt.whole(text))
    except yaml_places.YamlError:
        return None
    if not isinstance(node, yaml_places.Mapping):
        return None
    places = LineIndex(text)
    pairs = node.items()[:_MAX_KEYS]
    left = [yaml_places.MAX_VISITED]
    return Config(
        {key.value: _value(value, left, 0) for key, value in pairs},
        {key.value: places(key.start).line for key, _ in pairs},
    )


def _value(node: yaml_places.Node, left: list[int], depth: int) -> Any:
    """Convert a node as YAML 1.1 does, up to a size."""
    left[0] -= 1
    if left[0] < 0 or depth > _MAX_DEPTH:
        return None
    if isinstance(node, yaml_places.Sequence):
        return [_value(item, left, depth + 1) for item in node.items]
    if isinstance(node, yaml_places.Mapping):
        return {key.value: _value(value, left, depth + 1) for key, value in node.items()}
    return _scalar(node.value) if node.style == "plain" else node.value


def _scalar(text: str) -> Any:
    if text in _NOTHING:
        return None
    if text.lower() in _SWITCHES and text in (text.lower(), text.upper(), text.capitalize()):
        return _SWITCHES[text.lower()]
    if _WHOLE.match(text):
        digits = text.replace("_", "")
        if re.match(r"[-+]?0[0-9]", digits):
            return int(digits, 8) if re.fullmatch(r"[-+]?0[0-7]+", digits) else text
        return int(digits)
    return float(text.replace("_", "")) if _FLOAT.match(text) and any(map(str.isdigit, text)) else text
