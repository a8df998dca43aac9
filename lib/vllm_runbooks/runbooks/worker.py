"""Execute runbooks through papermill: orders are lines of JSON on stdin, answers on stdout; run as a program."""

from __future__ import annotations

import functools
import gc
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, NoReturn

from vllm_runbooks.core.display import SCHEMA
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import NotStoredError, store
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import RunbookVerdict, Verdict
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.host.processes import TAG, adopt_orphans, reap, reserve_label, sweep
from vllm_runbooks.runbooks import forks, steps
from vllm_runbooks.runbooks.notebook import cells_to_step, read_verdict

_START_S = 60
_SAVE_EVERY_S = 1.0
# sun_path has 104 bytes on macOS and the BSDs, 108 on Linux, including the final NUL.
SOCKET_PATH_MAX = 103
_SAMPLE = """{"cells": [{"cell_type": "markdown", "id": "a", "metadata": {}, "source":
"export API_KEY=a --token b; password: 'c' http://d:e@f\\ng = h(i)"}],
"metadata": {}, "nbformat": 4, "nbformat_minor": 5}"""
"""A notebook that makes the validator and the patterns of secrets compile."""


class Engine:
    """Papermill's engine with this Python, sockets in the file system and atomic saves.

    Created lazily.
    """

    @classmethod
    def execute_notebook(cls, nb: Any, kernel_name: str, **options: Any) -> Any:
        _register_storage()
        runtime = Path(tempfile.mkdtemp(prefix="k", dir=options.pop("runtime_dir", None)))
        try:
            return _engine().execute_notebook(
                nb, kernel_name, kernel_manager_class=_kernel_manager(runtime), shutdown_kernel="immediate", **options
            )
        finally:
            shutil.rmtree(runtime, ignore_errors=True)

    @classmethod
    def nb_kernel_name(cls, nb: Any, name: str | None = None) -> str:  # noqa: ARG003 - papermill's signature
        return "python3"

    @classmethod
    def nb_language(cls, nb: Any, language: str | None = None) -> str:  # noqa: ARG003 - papermill's signature
        return "python"


def work(runtime: str) -> None:
    """Answer each order from stdin with a line on stdout, until an empty line; end all when stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Output of papermill and kernels goes to the log: stdout is only for answers.
    os.dup2(2, 1)
    adopt_orphans()
    if forks.AVAILABLE:
        reserve_label()
    orders: SimpleQueue[str] = SimpleQueue()
    if not forks.AVAILABLE:
        threading.Thread(target=_listen, args=(sys.stdin, orders), daemon=True).start()
    gc.disable()  # until all is imported
    for name in forks.UNUSED:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    import papermill  # noqa: F401 - while the caller prepares the first order

    if forks.AVAILABLE:
        _redact_notebook(_SAMPLE)
        forks.prepare()
    gc.enable()
    while order := sys.stdin.readline() if forks.AVAILABLE else orders.get():
        if not order.strip():
            os._exit(0)
        reap()
        run = functools.partial(_execute, json.loads(order), runtime)
        answers.write(forks.answer_of(run, _end_all) if forks.AVAILABLE else json.dumps(run()) + "\n")
        answers.flush()
    _end_all()


def _listen(stdin: IO[str], orders: SimpleQueue[str]) -> None:
    for line in stdin:
        orders.put(line)
        if not line.strip():
            return
    _end_all()


def _end_all() -> NoReturn:
    # The caller has died without stopping this worker: the guard stops it; without a guard this
    # does.
    sweep(os.environ[TAG].split(":")[-1], root=os.getpid())
    os._exit(1)


def _execute(order: Mapping[str, Any], runtime: str) -> dict[str, Any]:
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.engines import papermill_engines
    from papermill.exceptions import PapermillExecutionError
    from papermill.execute import execute_notebook

    papermill_engines.register("vllm-runbooks", Engine)
    deadline = time.monotonic() + order["timeout_s"]
    position = {"cell": ""}

    def remaining(_cell: Any) -> float:
        # nbclient takes 0 for "no limit".
        return float(max(0.01, deadline - time.monotonic()))

    def entered(cell: Mapping[str, Any], cell_index: int) -> None:
        position["cell"] = f" in cell {cell.get('id', cell_index + 1)}"

    output = Path(order["output"])
    left = steps.stamp(_file_of_step(order))
    before = os.environ[TAG]
    os.environ.update({TAG: order["tag"], steps.FOLDER: order["steps"], steps.AGAIN: order["step"] or ""})
    os.environ.update(
        {steps.TRIES: str(order["step_tries"] or ""), steps.TIMEOUT_S: str(order["step_timeout_s"] or "")}
    )
    try:
        execute_notebook(
            _literal(_up_to(order["input"], order["step"], runtime)),
            _literal(order["output"]),
            parameters=order["parameters"],
            engine_name="vllm-runbooks",
            kernel_name="python3",
            language="python",
            progress_bar=False,
            start_timeout=max(1, int(min(_START_S, order["timeout_s"]))),
            runtime_dir=runtime,
            timeout_func=remaining,
            on_cell_execute=entered,
        )
    except PapermillExecutionError as error:
        return _read_answer(output, f"{error.ename}: {error.evalue}{position['cell']}")
    except CellTimeoutError:
        return {"reason": redact_text(too_long(order["timeout_s"]) + position["cell"])}
    except DeadKernelError:
        return {"reason": redact_text(f"the kernel died{position['cell']}; no verdict was written")}
    except NotStoredError as error:
        return {"reason": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever it is, this run is an error and the next one goes on
        return {"reason": redact_text(f"{type(error).__name__}: {one_line(str(error))}{position['cell']}")}
    finally:
        os.environ[TAG] = before
    if order["step"]:
        return _of_step(order, output, left)
    return _read_answer(output, None)


def _up_to(path: str, step: str | None, runtime: str) -> str:
    if not step:
        return path
    notebook = json.loads(Path(path).read_text(encoding="utf-8"))
    notebook["cells"] = cells_to_step(notebook, step)
    part = Path(runtime) / Path(path).name
    part.write_text(json.dumps(notebook), encoding="utf-8")
    return str(part)


def _of_step(order: Mapping[str, Any], output: Path, left: object) -> dict[str, Any]:
    answer = _read_answer(output, None)
    if "reason" in answer:
        return answer
    step, path = order["step"], _file_of_step(order)
    if steps.stamp(path) in (None, left):
        verdict = Verdict.SKIPPED
        reason = f"step {step} had nothing to do, or has no result; see its cell in the notebook"
    elif steps.is_done(path):
        verdict, reason = Verdict.PASS, f"step {step} is done"
    else:
        verdict = Verdict.FAIL
        reason = f"step {step} did not finish, and runs again when the run continues; see the notebook for the reason"
    return {"verdict": {"schema": SCHEMA, **document(RunbookVerdict(verdict, reason, None, None, None, ()))}}


def _file_of_step(order: Mapping[str, Any]) -> Path:
    return Path(order["steps"]) / f"{order['step']}.json"


_REFUSALS = frozenset({InputError.__name__, *(kind.__name__ for kind in InputError.__subclasses__())})
"""Errors of cells that reject their input."""


def _read_answer(output: Path, raised: str | None) -> dict[str, Any]:
    """Read the stored notebook; an error of the last cell that reports the verdict is no error of the run."""
    notebook = json.loads(output.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    errors = [(cell, out) for cell in code for out in cell["outputs"] if out["output_type"] == "error"]
    verdict = read_verdict(notebook)
    is_verdict = (
        [(cell is code[-1], out["ename"]) for cell, out in errors] == [(True, "VerdictFailed")]
        and verdict is not None
        and verdict.verdict is Verdict.FAIL
    )
    if errors and not is_verdict:
        cell, out = errors[0]
        value = one_line(str(out["evalue"]))
        if out["ename"] in _REFUSALS:
            return {"reason": redact_text(value), "refused": True}
        return {"reason": redact_text(f"{out['ename']}: {value} in cell {cell.get('id', '?')}; no verdict was reached")}
    if raised and not errors:
        return {"reason": redact_text(raised)}
    return {"verdict": None if verdict is None else {"schema": SCHEMA, **document(verdict)}}


def _literal(path: str) -> str:
    """Escape a path for papermill, which formats it."""
    return path.replace("{", "{{").replace("}", "}}")


@functools.cache
def _register_storage() -> None:
    """Have papermill store notebooks atomically and without secrets."""
    from papermill.iorw import LocalHandler, papermill_io

    class Storage(LocalHandler):  # type: ignore[misc]
        stored: tuple[str, str] | None = None

        def write(self, buf: str, path: str) -> None:
            # Papermill writes the finished notebook once more.
            if self.stored != (path, buf):
                store(Path(path), _redact_notebook(buf))
                self.stored = (path, buf)

    # A second handler for the scheme "local" is never called; one for the prefix of absolute paths
    # is.
    papermill_io.register(Path.cwd().anchor, Storage())


@functools.cache
def _engine() -> Any:
    """Build papermill's engine, saving once a second instead of twice a cell."""
    from papermill.engines import NBClientEngine, NotebookExecutionManager

    class Manager(NotebookExecutionManager):  # type: ignore[misc]
        saved = float("-inf")

        def save(self, **options: Any) -> None:
            if self.end_time is not None or time.monotonic() - self.saved >= _SAVE_EVERY_S:
                super().save(**options)
                self.saved = time.monotonic()

    class Saving(NBClientEngine):  # type: ignore[misc]
        @classmethod
        def execute_notebook(cls, nb: Any, kernel_name: str, output_path: str | None = None, **options: Any) -> Any:
            manager = Manager(
                nb,
                output_path=output_path,
                progress_bar=options.pop("progress_bar", True),
                log_output=options.get("log_output", False),
                autosave_cell_every=options.pop("autosave_cell_every", 30),
            )
            manager.notebook_start()
            try:
                cls.execute_managed_notebook(manager, kernel_name, **options)
            finally:
                manager.cleanup_pbar()
                manager.notebook_complete()
            return manager.nb

    return Saving


def _kernel_manager(runtime: Path) -> type[Any]:
    """Make a kernel manager for this Python, with private sockets in `runtime` if the path is short enough."""
    from jupyter_client import AsyncKernelManager
    from jupyter_client.kernelspec import KernelSpec

    class ThisPython(AsyncKernelManager):  # type: ignore[misc]
        """A kernel of this Python, whatever `python3` is registered."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.connection_file = str(runtime / "c.json")
            if os.name == "posix" and len(os.fsencode(runtime / "k-5")) <= SOCKET_PATH_MAX:
                self.transport, self.ip = "ipc", str(runtime / "k")

        async def _async_launch_kernel(self, kernel_cmd: list[str], **options: Any) -> None:
            if not forks.kernels:
                await super()._async_launch_kernel(kernel_cmd, **options)
                return
            kernel, provisioner = forks.kernels.pop(), self.provisioner
            kernel.start(kernel_cmd, **options)
            provisioner.process = kernel
            provisioner.pid = provisioner.pgid = kernel.pid
            self._reconcile_connection_info(provisioner.connection_info)

        @property
        def kernel_spec(self) -> Any:
            command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            command += ["--HistoryManager.enabled=False"]  # keep runs out of the user's history
            return KernelSpec(argv=command, language="python", display_name="Python 3")

    return ThisPython


def _redact_notebook(text: str) -> str:
    from nbformat import reads, writes

    # Reading joins the lines of the format, so that a secret is complete.
    return str(writes(_redact_value(reads(text, as_version=4))))


def _redact_value(value: Any, key: str = "") -> Any:
    if isinstance(value, str):
        value = redact_text(value)
        if "\n" not in value and len(value) < 4096:
            # A password alone has no pattern; its name next to it identifies it.
            named = redact_text(f"{key}={value}")
            value = named.removeprefix(f"{key}=") if named.startswith(f"{key}=") else value
        return value
    if isinstance(value, dict):
        for name, item in value.items():
            value[name] = _redact_value(item, str(name))
        return value
    if isinstance(value, list):
        return [_redact_value(item, key) for item in value]
    return value


def too_long(timeout_s: float) -> str:
    return f"timed out after {timeout_s:g} s"


def one_line(text: str) -> str:
    """The first line with text, shortened, without control characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line)
    line = "".join(character for character in line if character.isprintable())
    return line if len(line) <= 400 else f"{line[:397]}..."


if __name__ == "__main__":
    work(*sys.argv[1:])
