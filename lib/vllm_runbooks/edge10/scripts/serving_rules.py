"""Check evaluations: servers and names that are not there, addresses, sampling, another vLLM."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_runbooks.catalog.languages import Phrase
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.edge10.scripts.commands import ScriptCommand
from vllm_runbooks.edge10.scripts.evaluations import LOCAL_HOSTS, EvaluationRequest, PlacedValue, split_address
from vllm_runbooks.edge10.scripts.readings import FilePart, ScriptSet, find_requirements
from vllm_runbooks.lint.hits import Hit

_REQUIREMENT = re.compile(r"(?P<name>vllm)(?:\[[\w,-]{0,60}\])?(?P<pin>(?:[=<>!~]=?=?[^;@\s]{0,60})?)", re.IGNORECASE)
_SUFFIX = re.compile(r"(?:\.post\d{1,3}|\+[\w.]{1,40})\Z")


def find(part: FilePart, scripts: ScriptSet) -> Iterator[Hit]:
    for command in part.commands:
        yield from _find_release(command, scripts)
    for request in part.requests:
        yield from _find_address(request, scripts)
        yield from _find_sampling(request)


def _find_release(command: ScriptCommand, scripts: ScriptSet) -> Iterator[Hit]:
    needed = scripts.facts.steps["evaluate"].vllm
    first = find_requirements(command)
    for word in command.words[first:] if needed is not None and first is not None else ():
        text = word.value or ""
        match = _REQUIREMENT.fullmatch(text)
        pin = match["pin"] if match is not None else ""
        if match is None or (pin.startswith("==") and _SUFFIX.sub("", pin.lstrip("=")) == needed):
            continue
        edits: tuple[Replacement, ...] = ()
        if word.at is not None and len(word.at) == len(text) and text == match["name"]:
            edits = (Replacement(word.at[-1] + 1, word.at[-1] + 1, f"=={needed}"),)
        newest = "" if pin else Phrase("the newest release")
        message = {"needed": needed or "", "pin": pin, "newest": newest}
        yield Hit("edge10.vllm-release", word.start, word.end, message, edits)


def _find_address(request: EvaluationRequest, scripts: ScriptSet) -> Iterator[Hit]:
    address = request.address
    if address is None or not isinstance(address.value, str) or not scripts.servers:
        return
    host, port = split_address(address.value)
    if host in LOCAL_HOSTS:
        yield from _find_server(request, address, 80 if port is None else port, scripts)


def _find_server(request: EvaluationRequest, address: PlacedValue, port: int, scripts: ScriptSet) -> Iterator[Hit]:
    ports = sorted({server.port for server in scripts.servers if server.port is not None})
    is_certain = all(server.port is not None for server in scripts.servers)
    servers = [server for server in scripts.servers if server.port == port]
    if is_certain and not servers:
        message = {"port": str(port), "ports": ", ".join(map(str, ports))}
        yield Hit("edge10.no-such-server", address.start, address.end, message)
    model, possible = request.model, servers or scripts.servers
    if model is None or not isinstance(model.value, str) or not (servers or is_certain):
        return
    names = sorted({name for server in possible for name in server.names or ()})
    if model.value not in names and all(server.names is not None for server in possible):
        where = Phrase("No server on port {port}", port=str(port)) if servers else Phrase("No server here")
        message = {"name": model.value, "names": ", ".join(names), "where": where}
        yield Hit("edge10.no-such-name", model.start, model.end, message)


def _find_sampling(request: EvaluationRequest) -> Iterator[Hit]:
    temperature = request.temperature
    if temperature is None or isinstance(temperature.value, (bool, str)) or not temperature.value > 0:
        return
    edits = (Replacement(temperature.start, temperature.end, "0.0"),) if temperature.is_literal else ()
    message = {"temperature": f"{temperature.value:g}"}
    yield Hit("edge10.sampled-accuracy", temperature.start, temperature.end, message, edits)
