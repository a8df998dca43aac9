"""A recorded host by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_runbooks.core.errors import InputError, WrongFileError
from vllm_runbooks.reading.sources import beginning, load_files

if TYPE_CHECKING:
    from vllm_runbooks.edge10.host.records import EdgeHost


def edge_host(name: str) -> EdgeHost:
    """The host that a file, or for `-` standard input, records for the steps of a toolchain.

    Raises:
        InputError: it cannot be read, or is no recorded host.
    """
    from vllm_runbooks.edge10.host import snapshots as host_snapshots

    wanted = "give what vllm-runbooks edge10 preflight STEP --out FILE wrote"
    try:
        documents = load_files([name]).documents
    except WrongFileError as error:
        raise InputError(f"{error.wrong}; {wanted}") from None
    if len(documents) != 1:
        raise InputError(f"{name}: holds {len(documents)} files; {wanted}")
    return host_snapshots.read(
        beginning(documents[0], host_snapshots.MAX_TEXT), "standard input" if name == "-" else name
    )
