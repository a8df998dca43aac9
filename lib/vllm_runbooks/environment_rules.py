"""What is wrong with the environment that a file gives to vLLM, as broken rules with the changes that mend them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from vllm_runbooks.arguments import nearest
from vllm_runbooks.documents import Page
from vllm_runbooks.excerpt import Replacement
from vllm_runbooks.hits import Hit
from vllm_runbooks.option_rules import Tables, standing
from vllm_runbooks.options import EnvironmentVariable, ReleaseData
from vllm_runbooks.starts import Found, Setting

_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_ADDRESS = "VLLM_HOST_IP"
_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
_MAX_NAMES = 2000
"""Settings that are looked at; a file with more of them is no deployment."""


def of_page(page: Page, data_of: Callable[[Found | None], ReleaseData], tables: Tables) -> Iterator[Hit]:
    """Yield what is wrong with the settings of a page."""
    owners = {setting.start: start for start in page.starts for setting in start.environment.values()}
    for setting in page.settings[:_MAX_NAMES]:
        data = data_of(owners.get(setting.start))
        yield from _of_name(setting, data, tables, page.text)
        yield from _of_value(setting, data, tables)
        if not setting.is_exported and setting.name.startswith(("VLLM_", "NCCL_", "HF_")):
            yield Hit("environment.not-exported", setting.start, setting.end, {"name": setting.name})
    yield from _of_interfaces(page)
    yield from _of_addresses(page)


def _of_name(setting: Setting, data: ReleaseData, tables: Tables, text: str) -> Iterator[Hit]:
    says = {"name": setting.name, "vllm": data.asked}
    is_loose = setting.form == "table"
    told = tables["environment.wrong-name"].get("names", {}).get(setting.name)
    if told:
        edits = tuple(_renamed(setting, told["instead"], text))
        says |= {"instead": told["instead"], "note": told.get("note", "")}
        yield Hit("environment.wrong-name", setting.start, setting.end, says, edits, is_loose)
    elif setting.name.startswith("VLLM_") and setting.name not in data.environment:
        stands = standing(setting.name, data)
        if stands.kind == "gone":
            told = tables["environment.removed"].get("replacements", {}).get(setting.name, {})
            says |= {"last": stands.last, "gone": stands.gone, "note": told.get("note", "")} | _instead(told)
            yield Hit("environment.removed", setting.start, setting.end, says, (), is_loose)
        elif stands.kind == "to come":
            yield Hit(
                "environment.not-there-yet",
                setting.start,
                setting.end,
                says | {"first": stands.first},
                (),
                is_loose,
            )
        else:
            near = nearest(setting.name, [name for name in data.environment if name.startswith("VLLM_")], 1)
            edits = tuple(_renamed(setting, near[0], text)) if near else ()
            says |= {"nearest": near[0]} if near else {}
            yield Hit("environment.unknown", setting.start, setting.end, says, edits, is_loose)


def _instead(told: Mapping[str, Any]) -> dict[str, str]:
    instead = told.get("instead")
    if isinstance(instead, Mapping):
        instead = next(iter(instead.values()), None)
    return {"instead": instead} if instead else {}


def _renamed(setting: Setting, new: str, text: str) -> Iterator[Replacement]:
    """The name replaced, where it stands in the file as it is."""
    at = text.find(setting.name, setting.start, setting.end)
    if at >= 0:
        yield Replacement(at, at + len(setting.name), new)


def _of_value(setting: Setting, data: ReleaseData, tables: Tables) -> Iterator[Hit]:
    value = setting.value.value
    if value is None:
        return
    says = {"name": setting.name, "value": value, "vllm": data.asked}
    known = data.environment.get(setting.name)
    told = tables["environment.wrong-value"].get("variables", {}).get(setting.name)
    choices: list[str] | None = None
    if told and "choices" in told:
        choices = told["choices"] if value.upper() not in [c.upper() for c in told["choices"]] else None
    elif told and "pattern" in told:
        choices = [] if not re.fullmatch(told["pattern"], value[:1000], re.ASCII) else None
    elif known is not None and value:
        choices = _refused(known, value)
    if choices is not None:
        near = nearest(value, choices, 1)
        edits = (Replacement(setting.value.start, setting.value.end, near[0]),) if near and told else ()
        says |= {"choices": ", ".join(choices), "note": (told or {}).get("note", "")}
        is_loose = setting.form == "table"
        yield Hit("environment.wrong-value", setting.value.start, setting.value.end, says, edits, is_loose)
    if setting.name in _ALLOCATOR and "max_split_size_mb" in value:
        yield Hit("environment.allocator-split", setting.start, setting.end, says)


def _refused(known: EnvironmentVariable, value: str) -> list[str] | None:
    """The values that a variable of vLLM takes, where this is none of them; None where it is, or nothing is known."""
    if known.choices is not None:
        choices = [str(choice) for choice in known.choices if choice is not None]
        given, allowed = (value, choices) if known.is_case_sensitive else (value.lower(), [c.lower() for c in choices])
        parts = given.split(",") if known.kind == "list" else [given]
        return None if all(part.strip() in allowed for part in parts) else choices
    if known.kind in ("int", "float"):
        try:
            (int if known.kind == "int" else float)(value)
        except ValueError:
            return [f"a number ({known.kind})"] if known.refused else None
    return None


def _of_interfaces(page: Page) -> Iterator[Hit]:
    """NCCL and Gloo of one start bound to different interfaces."""
    told: set[int] = set()
    for start in (*page.nodes, *page.starts):
        named = [start.environment[name] for name in _INTERFACES if name in start.environment]
        for other in named[1:]:
            first = named[0]
            values = (first.value.value, other.value.value)
            if all(values) and values[0] != values[1] and other.start not in told:
                told.add(other.start)
                says = {"name": other.name, "value": values[1] or "", "other": f"{first.name}={values[0]}"}
                yield Hit("environment.different-interfaces", other.start, other.end, says)


def _of_addresses(page: Page) -> Iterator[Hit]:
    """Two nodes that are given the same address of their own."""
    seen: dict[str, Setting] = {}
    for start in (*page.nodes, *page.starts):
        own = start.environment.get(_ADDRESS)
        if own is None or not own.value.value:
            continue
        before = seen.setdefault(own.value.value, own)
        if before.start != own.start and start.entry == "node":
            says = {"name": _ADDRESS, "value": own.value.value, "other": before.value.value or ""}
            yield Hit("environment.one-address-for-two-nodes", own.start, own.end, says)
