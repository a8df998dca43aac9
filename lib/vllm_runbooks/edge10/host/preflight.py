"""Collect the facts of this host, or load recorded ones, and check them before a step."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from vllm_runbooks.catalog import host_commands
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core import moments
from vllm_runbooks.core.display import visible
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.redaction.redact import redact_record, redact_text
from vllm_runbooks.edge10 import models
from vllm_runbooks.edge10.host import docker
from vllm_runbooks.edge10.host import inspection as hosts
from vllm_runbooks.edge10.host.records import CheckedHost, EdgeHost, FolderFacts, HostCheckRequest
from vllm_runbooks.edge10.host.step_rules import READ_VARIABLES
from vllm_runbooks.host import inventory
from vllm_runbooks.host.snapshots import redact_environment
from vllm_runbooks.plan import planner

_GIB = 1 << 30
_REGISTRY = re.compile(
    r"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?)(?::(\d{1,5}))?", re.ASCII
)


def collect(request: HostCheckRequest, *, python: str | None = None) -> EdgeHost:
    """The facts of this host; nothing is changed.

    Args:
        request: Image, registry and folder to look for.
        python: The Python of the step, whose packages are listed.

    Raises:
        InputError: That Python cannot be run.
    """
    variables = {name: os.environ[name] for name in READ_VARIABLES if name in os.environ}
    host = EdgeHost(
        source="read on this host",
        timestamp=moments.now(),
        inventory=inventory.collect(python=python),
        python=python,
        docker=docker.facts(request.image),
        toolkit=docker.toolkit(),
        folder=None if request.data is None else folder(Path(request.data)),
        environment=redact_environment(variables),
    )
    return redact_record(host)


def folder(path: Path) -> FolderFacts:
    """A folder and its disk; of a missing one the disk of the nearest parent; raises InputError."""
    try:
        full = path.expanduser().absolute()
        if full.exists() and not full.is_dir():
            raise InputError(f"--data {visible(str(path)[:200])}: is not a folder")
        existing = next(parent for parent in (full, *full.parents) if parent.is_dir())
        disk = shutil.disk_usage(existing)
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"--data {visible(str(path)[:200])}: {reason}; use a folder") from None
    return FolderFacts(
        path=str(path),
        exists=existing == full,
        existing_path=str(existing),
        free_gib=disk.free / _GIB,
        total_gib=disk.total / _GIB,
        is_writable=os.access(existing, os.W_OK | os.X_OK),
    )


def read_asked(
    step: str,
    *,
    model: str | None = None,
    image: str | None = None,
    registry: str | None = None,
    data: str | None = None,
) -> HostCheckRequest:
    """Validate a check request; raises InputError."""
    if image is not None and not host_commands.is_of_kind("image", image):
        raise InputError(f"--image {_shown(image)}: is not an image name; use NAME:TAG or HOST:PORT/NAME:TAG")
    if registry is not None:
        match = _REGISTRY.fullmatch(registry)
        if match is None or (match[1] is not None and not 0 < int(match[1]) < 1 << 16):
            raise InputError(f"--registry {_shown(registry)}: is not a registry; use only HOST:PORT")
    return HostCheckRequest(step, model, image, registry, data)


def _shown(value: str) -> str:
    """A value without a password before a host."""
    return visible(redact_text(value.rpartition("@")[2])[:80]) or "(nothing)"


def checked(
    request: HostCheckRequest,
    *,
    snapshot: EdgeHost | None = None,
    version: str | None = None,
    python: str | None = None,
) -> CheckedHost:
    """Check a host before a step.

    Args:
        request: The step, and what it uses.
        snapshot: A recorded host; None for this one.
        version: Of the toolchain; None for the newest.
        python: As for `collect`.

    Raises:
        InputError: The model, the version, the folder or the Python cannot be read.
    """
    facts = catalog.toolchain(version)
    name = request.model
    if name is not None and not planner.is_folder(name):
        name = models.weights(name, facts)
    model = None if name is None else planner.model(name)
    listed = None if request.model is None else models.find_model(request.model, facts)
    host = collect(request, python=python) if snapshot is None else snapshot
    return hosts.check(host, request, facts, model=model, listed=listed)
