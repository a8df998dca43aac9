"""Load a recorded host by name."""

from __future__ import annotations

from vllm_runbooks.core.errors import InputError, WrongFileError
from vllm_runbooks.edge10.host import snapshots
from vllm_runbooks.edge10.host.records import EdgeHost
from vllm_runbooks.reading.sources import beginning, load_files


def edge_host(name: str) -> EdgeHost:
    """The host that a file, or standard input for `-`, records.

    Raises:
        InputError: It cannot be read, or is no recorded host.
    """
    instead = "give what vllm-runbooks edge10 preflight STEP --out FILE wrote"
    try:
        documents = load_files([name]).documents
    except WrongFileError as error:
        raise InputError(f"{error.wrong}; {instead}") from None
    if len(documents) != 1:
        raise InputError(f"{name}: holds {len(documents)} files; {instead}")
    return snapshots.read(beginning(documents[0], snapshots.MAX_TEXT), "standard input" if name == "-" else name)
