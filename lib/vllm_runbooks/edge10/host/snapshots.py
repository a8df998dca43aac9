"""The text of a recorded host to an `EdgeHost`; what is damaged is refused in one line."""

from __future__ import annotations

from dataclasses import fields, replace

from vllm_runbooks.core.display import SCHEMA
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.json_errors import loaded
from vllm_runbooks.core.record_forms import record
from vllm_runbooks.core.redaction.redact import redact_name, redact_record, redact_text
from vllm_runbooks.edge10.host.records import HOST_KIND, CheckedHost, DockerFacts, EdgeHost
from vllm_runbooks.host import inspection as inventories
from vllm_runbooks.host.records import KIND as INVENTORY

MAX_TEXT = 8 << 20
"""Characters of a recorded host."""
_DERIVED = tuple({each.name for each in fields(CheckedHost)} - {each.name for each in fields(EdgeHost)})
"""What the output of a preflight has beside the host: it is reckoned anew."""
_WRITE = "write it with vllm-runbooks edge10 preflight STEP --out FILE"


def read(text: str, where: str) -> EdgeHost:
    """The host that a text holds, its secrets replaced; an inventory's snapshot is one of which no more is told.

    Args:
        text: What `edge10 preflight --out FILE`, its JSON output, or `inventory -o FILE` wrote.
        where: What messages begin with.

    Raises:
        InputError: it is no recorded host, or something in it is damaged.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"{where}: is larger than {MAX_TEXT >> 20} MiB, so no recorded host; {_WRITE}")
    try:
        data = loaded(text.lstrip("\ufeff"))
    except ValueError as error:
        raise InputError(f"{where}: is no JSON ({error}); {_WRITE}") from None
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind == INVENTORY:
        return EdgeHost(inventory=inventories.read(text, where))
    if kind != HOST_KIND:
        raise InputError(f'{where}: is no recorded host: "kind" is not "{HOST_KIND}"; {_WRITE}')
    if data.get("schema") != SCHEMA or isinstance(data["schema"], bool):
        raise InputError(f"{where}: has schema {str(data.get('schema'))[:20]}, and {SCHEMA} is read; {_WRITE}")
    told = {name: value for name, value in data.items() if name != "schema" and name not in _DERIVED}
    inventories.check(EdgeHost, told, where)
    found = record(EdgeHost, told)
    inventories.check_host(found.inventory, where)
    return redact_record(replace(found, environment=_told(found), docker=_without_logins(found.docker)))


def _without_logins(docker: DockerFacts | None) -> DockerFacts | None:
    """Docker's facts, with no password beside a registry's address."""
    if docker is None:
        return None
    logins = tuple(replace(each, registry=redact_name(each.registry)) for each in docker.logins)
    return replace(docker, logins=logins)


def _told(found: EdgeHost) -> dict[str, str] | None:
    """The variables by their names, which may tell that a value is a secret."""
    if found.environment is None:
        return None
    return {name: redact_text(f"{name}={value}").partition("=")[2] for name, value in found.environment.items()}
