"""Read a recorded host; a damaged one is rejected in one line."""

from __future__ import annotations

from dataclasses import fields, replace

from vllm_runbooks.core.earlier_schema import HOST, upgrade
from vllm_runbooks.core.errors import InputError, WrongFileError
from vllm_runbooks.core.json_errors import loaded
from vllm_runbooks.core.record_forms import record
from vllm_runbooks.core.redaction.redact import redact_record
from vllm_runbooks.edge10.host.records import HOST_KIND, CheckedHost, EdgeHost
from vllm_runbooks.host import inspection as inventories
from vllm_runbooks.host.records import KIND as INVENTORY
from vllm_runbooks.host.snapshots import read_fields, redact_environment
from vllm_runbooks.reading import sources

MAX_TEXT = 8 << 20
"""Characters of a recorded host."""
_DERIVED = tuple({field.name for field in fields(CheckedHost)} - {field.name for field in fields(EdgeHost)})
"""Fields of a preflight's output that are computed again."""
_INSTEAD = "write it with vllm-runbooks edge10 preflight STEP --out FILE"


def load(name: str) -> EdgeHost:
    """The host that a file, or standard input for `-`, records; raises InputError."""
    try:
        documents = sources.load_files([name]).documents
    except WrongFileError as error:
        raise InputError(f"{error.wrong}; {_INSTEAD}") from None
    if len(documents) != 1:
        raise InputError(f"{name}: contains {len(documents)} files; {_INSTEAD}")
    return read(sources.beginning(documents[0], MAX_TEXT), "standard input" if name == "-" else name)


def read(text: str, where: str) -> EdgeHost:
    """Parse a recorded host and redact its secrets; an inventory's snapshot has only the inventory.

    Args:
        text: Output of `edge10 preflight --out FILE`, its JSON output, or of `inventory -o
            FILE`.
        where: Its name in messages.

    Raises:
        InputError: The text is not a recorded host, or is damaged.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"{where}: is larger than {MAX_TEXT >> 20} MiB, not a recorded host; {_INSTEAD}")
    try:
        data = upgrade(loaded(text.lstrip("\ufeff")), HOST)
    except ValueError as error:
        raise InputError(f"{where}: invalid JSON ({error}); {_INSTEAD}") from None
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind == INVENTORY:
        return EdgeHost(inventory=inventories.read(text, where))
    if kind != HOST_KIND:
        raise InputError(f'{where}: not a recorded host: "kind" is not "{HOST_KIND}"; {_INSTEAD}')
    values = read_fields(data, where, _DERIVED, _INSTEAD)
    inventories.check(EdgeHost, values, where)
    host = record(EdgeHost, values)
    inventories.check_host(host.inventory, where)
    if host.environment is not None:
        host = replace(host, environment=redact_environment(host.environment))
    return redact_record(host)
