"""A host before a step of the toolchain: looked at here, or read from what was recorded, and judged for the step."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core import host_commands, moments
from vllm_runbooks.core.display import visible
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.redaction.redact import redact_record, redact_text
from vllm_runbooks.edge10 import models
from vllm_runbooks.edge10.host import docker
from vllm_runbooks.edge10.host import inspection as hosts
from vllm_runbooks.edge10.host.records import CheckedHost, EdgeHost, FolderFacts, HostAsked
from vllm_runbooks.edge10.host.step_rules import READ_VARIABLES
from vllm_runbooks.host import inventory
from vllm_runbooks.plan import planner

_GIB = 1 << 30
_REGISTRY = re.compile(
    r"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?)(?::(\d{1,5}))?", re.ASCII
)


def collect(asked: HostAsked, *, python: str | None = None) -> EdgeHost:
    """This host, as its driver, its system and docker tell of it; nothing is changed.

    Args:
        asked: Of it the image and the registry are looked for, and the folder looked at.
        python: The Python that runs the step, whose packages are listed.

    Raises:
        InputError: that Python cannot be run.
    """
    return redact_record(
        EdgeHost(
            source="read on this host",
            taken=moments.now(),
            inventory=inventory.collect(python=python),
            python=python,
            docker=docker.facts(docker.Wanted(asked.image, asked.registry)),
            toolkit=docker.toolkit(),
            folder=None if asked.data is None else folder(Path(asked.data)),
            environment={
                name: redact_text(f"{name}={os.environ[name]}").partition("=")[2]
                for name in READ_VARIABLES
                if name in os.environ
            },
        )
    )


def folder(path: Path) -> FolderFacts:
    """A folder with the room on its disk; of one that is not there, that of the nearest one above it.

    Raises:
        InputError: it is no folder.
    """
    try:
        full = path.expanduser().absolute()
        if full.exists() and not full.is_dir():
            raise InputError(f"--data {visible(str(path)[:200])}: is no folder; name one")
        at = next(each for each in (full, *full.parents) if each.is_dir())
        disk = shutil.disk_usage(at)
    except (OSError, ValueError, RuntimeError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise InputError(f"--data {visible(str(path)[:200])}: {said}; name a folder") from None
    return FolderFacts(
        path=str(path),
        is_there=at == full,
        looked_at=str(at),
        free_gib=disk.free / _GIB,
        total_gib=disk.total / _GIB,
        is_writable=os.access(at, os.W_OK | os.X_OK),
    )


def read_asked(
    step: str,
    *,
    model: str | None = None,
    image: str | None = None,
    registry: str | None = None,
    data: str | None = None,
) -> HostAsked:
    """What a host is looked at for, checked.

    Raises:
        InputError: an image or a registry is none.
    """
    if image is not None and not host_commands.is_of_kind("image", image):
        raise InputError(
            f"--image {_shown(image)}: is no name of an image; give one as NAME:TAG, or HOST:PORT/NAME:TAG"
        )
    if registry is not None:
        match = _REGISTRY.fullmatch(registry)
        if match is None or (match[1] is not None and not 0 < int(match[1]) < 1 << 16):
            raise InputError(f"--registry {_shown(registry)}: is no registry; give its HOST:PORT alone")
    return HostAsked(step, model, image, registry, data)


def _shown(value: str) -> str:
    """What was given, without what may be a password before a host."""
    return visible(redact_text(value.rpartition("@")[2])[:80]) or "(nothing)"


def checked(
    asked: HostAsked, *, snapshot: EdgeHost | None = None, version: str | None = None, python: str | None = None
) -> CheckedHost:
    """A host with what it means for a step.

    Args:
        asked: The step, and what it is for.
        snapshot: A host that was recorded; None: this one.
        version: Of the toolchain; None: the newest that is known.
        python: As `collect` takes it.

    Raises:
        InputError: the model, the version, the folder or the Python cannot be read.
    """
    facts = catalog.toolchain(version)
    name = asked.model
    if name is not None and not planner.is_folder(name):
        name = models.weights(name, facts)
    model = None if name is None else planner.model(name)
    listed = None if asked.model is None else models.asked(asked.model, facts)
    host = collect(asked, python=python) if snapshot is None else snapshot
    return hosts.check(host, asked, facts, catalog.specs(), model=model, listed=listed)
