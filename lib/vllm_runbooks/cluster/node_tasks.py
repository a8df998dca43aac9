"""Work of a Ray cluster's node for a suite: report its facts, and execute a run.

A run's files travel with it and its results return with its answer, so a node needs only this
package. Each of Ray's processes keeps a `runbooks.bench` with a worker that has papermill loaded.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vllm_runbooks.catalog import compiled, folders
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.history import store as history
from vllm_runbooks.runbooks.bench import Bench, Gate, module, temporary_folder

MOST_BYTES = 64 << 20
"""Maximum bytes of a file or folder that travels with a run or returns; larger notebooks are not
sent."""


class Luggage(NamedTuple):
    """Files that travel with a run, and its other settings."""

    places: Mapping[str, int]
    """Number of the content that is `input`, `alone`, the parameter `evidence`, or `catalog-0` and so on."""
    environment: Mapping[str, str]
    """Variables in addition to the node's."""


class Content(NamedTuple):
    """A file, or a folder with its files, that travels."""

    name: str
    files: Mapping[str, bytes]
    """By path within the folder; of a file alone by an empty one."""

    def unpack(self, folder: Path) -> Path:
        """Write it below its own folder; returns the path."""
        at = folder / self.name
        folder.mkdir(parents=True)
        for path, content in self.files.items():
            target = at / path if path else at
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return at


def pack(path: Path) -> Content:
    """Read a file or folder to send it to a node; raises InputError."""
    try:
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        if (size := sum(file.stat().st_size for file in files)) > MOST_BYTES:
            raise InputError(f"{path}: {size >> 20} MiB is too large to send to a node; use a smaller folder")
        read = {"" if file == path else file.relative_to(path).as_posix(): file.read_bytes() for file in files}
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None
    return Content(path.name, read)


def facts() -> dict[str, Any]:
    """Facts of this node on which its verdicts may depend."""
    import ray

    root = folders.catalog_dir()
    return {
        **history.surroundings(with_cards=True),
        "catalog": f"{compiled.key(root)}+{compiled.rules_key(root)}",
        "cases": _digest(folders.cases_dir()),
        "ray": ray.__version__,
    }


def nothing() -> None:
    """Answer, as a sign that the node is alive."""


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(file for file in folder.rglob("*") if file.is_file()):
        digest.update(path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape") + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:20]


class Board:
    """Records the start of a run: Ray itself does not report the node."""

    def __init__(self) -> None:
        self._news: list[tuple[int, str]] = []

    def begun(self, index: int, node: str) -> None:
        """Record the start of a run on the node of this id."""
        self._news.append((index, node))

    def news(self) -> list[tuple[int, str]]:
        """Starts since the last call."""
        news, self._news = self._news, []
        return news


def execute(
    tag: str,
    index: int,
    order: Mapping[str, Any],
    luggage: Luggage,
    board: Any,
    *contents: Content,
) -> dict[str, Any]:
    """Execute one run; return its answer, and the files that it wrote.

    `order` is as for `Bench`, with paths of the requesting host; `luggage` has the `contents`;
    `board` is the actor that records the start of the run.
    """
    import ray

    node = ray.get_runtime_context().get_node_id()
    # Do not wait for it: Ray lends the CPU of a waiting task to another one.
    board.begun.remote(index, node)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vr", dir=temporary_folder()) as temporary:
        folder = Path(temporary)
        at = {name: str(contents[number].unpack(folder / f"{number}")) for name, number in luggage.places.items()}
        local_order: dict[str, Any] = {**order, **{name: at[name] for name in at if name in ("input", "alone")}}
        out = folder / "out"
        out.mkdir()
        if "input" in local_order:
            local_order["output"] = str(out / Path(order["output"]).name)
            local_order["steps"] = str(out / Path(order["steps"]).name)
            if "evidence" in at:
                local_order["parameters"] = {**order["parameters"], "evidence": at["evidence"]}
        catalogs = [at[f"catalog-{number}"] for number in range(len(at)) if f"catalog-{number}" in at]
        os.environ.update({**luggage.environment, folders.CATALOGS: os.pathsep.join(catalogs)})
        bench = _bench(tag, is_fresh=bool(catalogs))
        answer = bench.execute(index, local_order)
        wrote = {path.relative_to(out).as_posix(): path for path in out.rglob("*") if path.is_file()}
        wrote = {name: path for name, path in wrote.items() if path.stat().st_size <= MOST_BYTES}
        return {
            "answer": answer,
            "node": node,
            "seconds": time.monotonic() - began,
            "wrote": {name: path.read_bytes() for name, path in wrote.items() if not path.name.startswith(".")},
        }


_benches: dict[str, Bench] = {}


def _bench(tag: str, *, is_fresh: bool) -> Bench:
    """The bench of this process for a suite; its worker is a fresh one where its environment has changed."""
    if tag not in _benches:
        bench_id = uuid.uuid4().hex
        runtime = tempfile.mkdtemp(prefix="vr", dir=temporary_folder())
        # When Ray stops a process, it kills the children but not the grandchildren: this guard is
        # not a child.
        guard = subprocess.Popen(  # noqa: S603 - our own module
            [*module("host.processes"), bench_id, runtime, runtime, "apart"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        guard.wait()
        _pipes.append(guard)
        _benches[tag] = Bench(f"{tag}:{bench_id}", runtime=Path(runtime), name="0", gate=Gate())
    if is_fresh:
        _benches[tag].close()
    return _benches[tag]


_pipes: list[subprocess.Popen[bytes]] = []
"""Guards, which end when this process closes their input."""
